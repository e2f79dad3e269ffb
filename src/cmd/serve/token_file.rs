//! Reads the token that opens `/capture` and `/verdict?facts=true` of a recorder: for the recorder from the file of
//! `--serve-token-file`, and for a client from the file of `--token-file`.
//!
//! The token is never shown, and never part of a message.

use std::fmt;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{getegid, geteuid};

use crate::cmd::Error;
use crate::report::load::{load, open_nonblocking};

/// The shortest token, in bytes: 16 random characters cannot be guessed.
const SHORTEST: usize = 16;

/// The longest token, in bytes.
const LONGEST: usize = 512;

/// The permissions of others, and the permission of the group to write.
const FORBIDDEN_TO_OTHERS: u32 = 0o027;

/// The permissions of the group.
const OF_GROUP: u32 = 0o070;

/// Why a file gives no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file does not exist, or cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is a directory, a FIFO or a device.
    #[error("it is not a regular file")]
    NoFile,
    /// The file belongs to a user who is neither root nor the user of this process.
    #[error("it belongs to another user ({0})")]
    Foreign(u32),
    /// Other users may read or change the file.
    #[error("other users may read or change it (mode {0:04o}; use 0400)")]
    Exposed(u32),
    /// The file has no content.
    #[error("it is empty")]
    Empty,
    /// The token is too short.
    #[error("it has {0} bytes, and a token needs at least {SHORTEST}")]
    Short(usize),
    /// The file is too long.
    #[error("it is longer than {LONGEST} bytes")]
    Long,
    /// The content cannot be sent in a header.
    #[error("it is not one word of ASCII letters, digits and punctuation")]
    NoWord,
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct RecorderToken(String);

impl fmt::Debug for RecorderToken {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecorderToken")
    }
}

impl RecorderToken {
    /// Reads the file of the recorder, which only root and the recorder's user may read. A link is followed, because
    /// Kubernetes mounts the files of a Secret as links.
    pub fn of_server(path: &Path) -> Result<Self, TokenFileError> {
        let file = open_nonblocking(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(TokenFileError::NoFile);
        }
        if ![0, geteuid().as_raw()].contains(&about.uid()) {
            return Err(TokenFileError::Foreign(about.uid()));
        }
        let mode = about.mode() & 0o777;
        let is_own_group = [0, getegid().as_raw()].contains(&about.gid());
        if mode & FORBIDDEN_TO_OTHERS != 0 || (mode & OF_GROUP != 0 && !is_own_group) {
            return Err(TokenFileError::Exposed(mode));
        }
        let mut bytes = Vec::new();
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX).saturating_add(3);
        file.take(limit).read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    /// Reads the file that a user named, which may be a FIFO: `--token-file <(kubectl get secret …)`.
    pub fn of_client(path: &Path) -> Result<Self, Error> {
        let read = load(path, LONGEST * 2).map_err(TokenFileError::from);
        let token = read.and_then(|bytes| Self::parse(&bytes));
        token.map_err(|why| Error::Token { name: path.display().to_string(), why })
    }

    /// Takes the token from the content of a file: one word, with or without a line break at its end.
    fn parse(bytes: &[u8]) -> Result<Self, TokenFileError> {
        let word = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let word = word.strip_suffix(b"\r").unwrap_or(word);
        match word.len() {
            0 => Err(TokenFileError::Empty),
            // This comes before the length, so that the text says what is wrong with a binary file.
            _ if !word.iter().all(u8::is_ascii_graphic) => Err(TokenFileError::NoWord),
            length if length < SHORTEST => Err(TokenFileError::Short(length)),
            length if length > LONGEST => Err(TokenFileError::Long),
            _ => Ok(Self(String::from_utf8_lossy(word).into_owned())),
        }
    }

    /// Returns the header that sends the token.
    pub fn header(&self) -> (String, String) {
        (crate::cmd::serve::metrics_server::TOKEN_HEADER.to_owned(), self.0.clone())
    }

    /// Whether a client sent this token. The time depends only on the length of what the client sent.
    pub fn matches(&self, sent: &str) -> bool {
        let expected = self.0.as_bytes().iter().cycle();
        let difference = sent.bytes().zip(expected).fold(0, |all, (sent, expected)| all | (sent ^ expected));
        black_box(difference) == 0 && sent.len() == self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const GOOD: &str = "0123456789abcdef";

    /// A directory that is deleted on drop.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-token-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, content: &str, mode: u32) -> PathBuf {
            let path = self.0.join("token");
            let _ = fs::remove_file(&path);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refusal(path: &Path) -> String {
        RecorderToken::of_server(path).unwrap_err().to_string()
    }

    #[test]
    fn only_the_same_token_matches() {
        let token = RecorderToken::parse(b"0123456789abcdef\n").unwrap();
        assert!(token.matches(GOOD));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", &GOOD.repeat(2)] {
            assert!(!token.matches(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "RecorderToken");
    }

    #[test]
    fn file_without_a_good_token_is_refused_with_the_reason() {
        let place = Place::new("content");
        let long = "x".repeat(600);
        for (content, why) in [
            ("", "it is empty"),
            ("\n", "it is empty"),
            ("short\n", "it has 5 bytes, and a token needs at least 16"),
            (long.as_str(), "it is longer than 512 bytes"),
            ("0123456789 abcdef", "it is not one word of ASCII letters, digits and punctuation"),
            ("0123456789abcdef\n0123456789abcdef\n", "it is not one word"),
            ("0123456789abcdeä", "it is not one word"),
        ] {
            let found = refusal(&place.file(content, 0o400));
            assert!(found.starts_with(why), "{content}: {found}");
        }
        assert!(RecorderToken::of_server(&place.file(GOOD, 0o400)).unwrap().matches(GOOD));
        assert!(RecorderToken::of_server(&place.file("0123456789abcdef\r\n", 0o600)).unwrap().matches(GOOD));
    }

    #[test]
    fn file_that_others_may_read_or_that_is_no_file_is_refused() {
        let place = Place::new("kinds");
        for mode in [0o404, 0o604, 0o620, 0o602, 0o777] {
            assert!(
                refusal(&place.file(GOOD, mode)).contains("other users may read or change it"),
                "{mode:o}"
            );
        }
        assert!(refusal(&place.0.join("absent")).starts_with("it cannot be read: No such file"));
        assert_eq!(refusal(&place.0), "it is not a regular file");
        let fifo = place.0.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(refusal(&fifo), "it is not a regular file");
        assert_eq!(refusal(Path::new("/dev/zero")), "it is not a regular file");
    }

    /// Kubernetes replaces the link `..data` when the Secret changes.
    #[test]
    fn link_of_a_secret_is_followed_and_a_new_token_counts_at_once() {
        let place = Place::new("rotation");
        for (version, token) in [("1", GOOD), ("2", "fedcba9876543210")] {
            fs::create_dir(place.0.join(version)).unwrap();
            fs::write(place.0.join(version).join("token"), token).unwrap();
            let mode = fs::Permissions::from_mode(0o400);
            fs::set_permissions(place.0.join(version).join("token"), mode).unwrap();
        }
        let (data, token) = (place.0.join("..data"), place.0.join("token"));
        symlink("1", &data).unwrap();
        symlink("..data/token", &token).unwrap();
        assert!(RecorderToken::of_server(&token).unwrap().matches(GOOD));
        fs::remove_file(&data).unwrap();
        symlink("2", &data).unwrap();
        let read = RecorderToken::of_server(&token).unwrap();
        assert!(read.matches("fedcba9876543210") && !read.matches(GOOD));
    }
}
