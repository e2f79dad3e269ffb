//! Writes to a file that a user named, without damaging other files.
//!
//! A regular file is replaced as a whole, so a reader sees either the old or the complete new content. While the new
//! file is written, it has no name, so that no incomplete file is left if plegctl ends early. On file systems without
//! nameless files, the new file has a random name, which another user cannot guess and replace with a link. A FIFO, a
//! terminal or another character device is written to directly. A directory, a socket, a disk, and a link that
//! another user may have created are refused.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fchmod, fchown, fstat, fstatfs, linkat,
    openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::Serialize;

use super::retry::{RETRIES, retry, total_wait};
use super::{DirectoryUse, is_private_directory, json, open_directory};

/// The maximum number of symbolic links that are followed.
const MAX_LINKS: usize = 16;

/// The mode of a new file: only for its owner.
const PRIVATE_MODE: u32 = 0o600;

/// The mode bits that a new file copies from the file that it replaces.
const COPIED_MODE_BITS: u32 = 0o666;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {source}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl Error {
    /// Returns the hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self.source.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory => Some("the directory must exist and be writable"),
            io::ErrorKind::InvalidInput => Some("name a file that is yours in a directory that is yours"),
            io::ErrorKind::TimedOut => Some("start its reader first"),
            _ => None,
        }
    }
}

/// Writes `document` as JSON.
pub fn save(document: &impl Serialize, path: &Path) -> Result<(), Error> {
    write(path, |file| json::pretty(document, file))
}

/// Writes the output of `content` to `path`.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let written = SaveTarget::find(path).and_then(|target| match target {
        SaveTarget::File(entry) => entry.replace(content),
        SaveTarget::Open(mut writer) => {
            let mut buffered = BufWriter::new(&mut writer);
            content(&mut buffered).and_then(|()| buffered.flush())
        }
    });
    written.map_err(|source| Error { path: path.to_path_buf(), source })
}

/// Opens `path` for appending, and creates it if it does not exist.
pub fn append(path: &Path) -> Result<Box<dyn Write + Send>, Error> {
    let opened = SaveTarget::find(path).and_then(|target| match target {
        SaveTarget::File(entry) => Ok(Box::new(entry.append()?) as Box<dyn Write + Send>),
        SaveTarget::Open(writer) => Ok(Box::new(writer) as Box<dyn Write + Send>),
    });
    opened.map_err(|source| Error { path: path.to_path_buf(), source })
}

/// The target of a write.
enum SaveTarget {
    /// A regular file, which is replaced, or a new file.
    File(DirectoryEntry),
    /// A FIFO or a device, which is written to directly.
    Open(TimeoutWriter),
}

/// The name of a regular file in an open directory. The file may not exist yet.
struct DirectoryEntry {
    directory: OwnedFd,
    name: OsString,
    /// The existing file.
    old: Option<Stat>,
    /// Whether only the user and root can create files in the directory.
    is_private_directory: bool,
}

impl SaveTarget {
    /// Finds what to write to at `path`; follows links in directories where only the user and root can create them.
    fn find(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            // The user means stdout, where the result already is.
            return Err(io::Error::other("it is no file; -o chooses what stdout gets"));
        }
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let name = path.file_name().ok_or_else(|| refused("it is a directory"))?.to_owned();
            let parent = match path.parent() {
                Some(parent) if parent != Path::new("") => parent.to_path_buf(),
                _ => PathBuf::from("."),
            };
            let directory = open_directory(&parent, DirectoryUse::Existing)?;
            let is_private_directory = is_private_directory(&fstat(&directory)?);
            let old = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(why) => return Err(why.into()),
            };
            match old.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                None | Some(FileType::RegularFile) => {
                    return Ok(Self::File(DirectoryEntry { directory, name, old, is_private_directory }));
                }
                // A link in /proc/self/fd refers to an open file; its text is not a path.
                Some(FileType::Symlink) if fstatfs(&directory)?.f_type == PROC_SUPER_MAGIC => {
                    return open_in_place(&directory, &name, OFlags::APPEND).map(Self::Open);
                }
                Some(FileType::Symlink) if is_private_directory => {
                    let target = readlinkat(&directory, &name, Vec::new())?;
                    path = parent.join(OsString::from_vec(target.into_bytes()));
                }
                Some(FileType::Symlink) => {
                    return Err(refused("it is a link in a directory that others may write to"));
                }
                Some(FileType::Fifo | FileType::CharacterDevice) => {
                    return open_in_place(&directory, &name, OFlags::NOFOLLOW).map(Self::Open);
                }
                Some(FileType::Directory) => return Err(refused("it is a directory")),
                Some(FileType::Socket) => return Err(refused("it is a socket")),
                Some(FileType::BlockDevice) => {
                    return Err(refused("it is a block device, whose content would be lost"));
                }
                Some(FileType::Unknown) => return Err(refused("its type is unknown")),
            }
        }
        Err(Errno::LOOP.into())
    }
}

/// Returns the error for a target that plegctl refuses.
fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Opens a file that is neither replaced nor created. Waits only for a limited time.
fn open_in_place(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<TimeoutWriter> {
    // The file must not become the controlling terminal, and a FIFO without a reader must not block.
    let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = retry(RETRIES, || match openat(directory, name, flags, Mode::empty()) {
        Err(Errno::NXIO) => Ok(None),
        other => other.map(Some).map_err(Into::into),
    })?;
    let Some(file) = opened else {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no reader opens it within {}", total_wait()),
        ));
    };
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::Fifo | FileType::CharacterDevice | FileType::RegularFile => Ok(TimeoutWriter(file.into())),
        _ => Err(refused("it is neither a file nor a pipe nor a character device")),
    }
}

/// Writes to a FIFO or device that does not block, with a timeout.
struct TimeoutWriter(File);

impl Write for TimeoutWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.0;
        let written = retry(RETRIES, || match file.write(bytes) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        })?;
        written.ok_or_else(|| {
            io::Error::new(io::ErrorKind::TimedOut, format!("its reader took nothing for {}", total_wait()))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl DirectoryEntry {
    /// Writes the output of `content` to a file without a name, and then gives it this name. If plegctl ends early,
    /// no file is left. On file systems without nameless files, a file with a random name is written and renamed.
    fn replace(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let name = random_name();
        let (file, is_named) = match self.unnamed() {
            Some(file) => (file, false),
            None => (self.create(&name)?, true),
        };
        let written = self.copy_owner_and_mode(&file).and_then(|()| {
            let mut buffered = BufWriter::new(&file);
            content(&mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            file.sync_all()
        });
        let named = if is_named {
            written
        } else {
            written?;
            if self.old.is_none() && self.link(&file, &self.name).is_ok() {
                return Ok(());
            }
            self.link(&file, &name)
        };
        let renamed = named.and_then(|()| Ok(renameat(&self.directory, &name, &self.directory, &self.name)?));
        renamed.inspect_err(|_| {
            // An incomplete file must not stay. If it cannot be removed, its random name makes it harmless.
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        })
    }

    /// Creates a file without a name, where the file system supports this.
    fn unnamed(&self) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        let file = openat(&self.directory, ".", flags, Mode::from_raw_mode(PRIVATE_MODE)).ok()?;
        // linkat uses this path to give the file its name.
        let is_linkable = statat(CWD, by_descriptor(&file), AtFlags::empty()).is_ok();
        is_linkable.then(|| file.into())
    }

    /// Gives a nameless file this name. Fails if the name exists.
    fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        Ok(linkat(CWD, by_descriptor(file), &self.directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Creates a file with this name; fails if the name exists.
    fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
        Ok(openat(&self.directory, name, flags | OFlags::APPEND, Mode::from_raw_mode(PRIVATE_MODE))?.into())
    }

    /// Copies owner and mode of the old file; if the owner cannot be copied, the mode is not copied either.
    fn copy_owner_and_mode(&self, file: &File) -> io::Result<()> {
        // In a shared directory, another user may have created the old file, so its owner and mode are not copied.
        let Some(old) = self.old.as_ref().filter(|old| self.is_private_directory || is_ours(old)) else {
            return Ok(());
        };
        let new = fstat(file)?;
        let same_owner = (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid);
        let (user, group) = (rustix::fs::Uid::from_raw(old.st_uid), rustix::fs::Gid::from_raw(old.st_gid));
        if same_owner || fchown(file.as_fd(), Some(user), Some(group)).is_ok() {
            fchmod(file, Mode::from_raw_mode(old.st_mode & COPIED_MODE_BITS))?;
        }
        Ok(())
    }

    /// Opens the file for appending, or creates it.
    fn append(&self) -> io::Result<File> {
        if self.old.is_none() {
            return self.create(&self.name);
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, &self.name, flags, Mode::empty())?);
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(refused("it is no longer the file that it was"));
        }
        // The owner of another user's file could read the output. A second name of the file may be in a directory
        // where the user does not want to write.
        if !self.is_private_directory && (!is_ours(&found) || found.st_nlink != 1) {
            return Err(refused("it belongs to another user, in a directory that others may write to"));
        }
        Ok(file)
    }
}

fn is_ours(file: &Stat) -> bool {
    file.st_uid == geteuid().as_raw()
}

/// Returns the path in `/proc` of an open file.
fn by_descriptor(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn random_name() -> OsString {
    format!(".plegctl-{}.tmp", random_word()).into()
}

/// Returns 32 hexadecimal digits that cannot be guessed.
pub fn random_word() -> String {
    // The standard library's hash keys come from the system's random numbers.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::thread;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-save-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            Self(path)
        }

        fn open_to_all(self) -> Self {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o1777)).unwrap();
            self
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Returns the names in the directory, to check that nothing else is left.
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write_text(path: &Path, text: &str) -> Result<(), Error> {
        write(path, |out| out.write_all(text.as_bytes()))
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn mkfifo(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn a_new_file_is_private_and_a_replaced_file_keeps_its_mode() {
        let dir = Dir::new("mode");
        let file = dir.file("report.json");
        write_text(&file, "1").unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("1", 0o600));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4640)).unwrap();
        write_text(&file, "2").unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("2", 0o640));
        assert_eq!(dir.names(), ["report.json"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let dir = Dir::new("half");
        let file = dir.file("report.json");
        write_text(&file, "old").unwrap();
        let failed = write(&file, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(
            (fs::read_to_string(&file).unwrap().as_str(), dir.names()),
            ("old", vec!["report.json".into()])
        );
    }

    #[test]
    fn a_write_that_is_interrupted_leaves_no_file() {
        let dir = Dir::new("signal");
        let unnamed =
            openat(CWD, &dir.0, OFlags::TMPFILE | OFlags::WRONLY, Mode::from_raw_mode(PRIVATE_MODE));
        if unnamed.is_err() {
            println!("skipped: the file system of {} has no files without a name", dir.0.display());
            return;
        }
        let file = dir.file("report.json");
        for text in ["new", "newer"] {
            let before = dir.names();
            write(&file, |out| {
                out.write_all(text.as_bytes())?;
                assert_eq!(dir.names(), before, "while it is written");
                Ok(())
            })
            .unwrap();
            assert_eq!((fs::read_to_string(&file).unwrap().as_str(), dir.names().len()), (text, 1));
        }
    }

    #[test]
    fn a_link_in_a_private_directory_is_followed() {
        let dir = Dir::new("link");
        let (target, link) = (dir.file("target"), dir.file("link"));
        write_text(&target, "old").unwrap();
        symlink("target", &link).unwrap();
        write_text(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link is still one");
        symlink("loop", dir.file("loop")).unwrap();
        assert!(write_text(&dir.file("loop"), "").is_err());
    }

    #[test]
    fn a_link_in_a_shared_directory_is_not_followed() {
        let safe = Dir::new("safe");
        let precious = safe.file("precious");
        write_text(&precious, "precious").unwrap();
        let dir = Dir::new("planted").open_to_all();
        let link = dir.file("report.json");
        symlink(&precious, &link).unwrap();
        for refused in [write_text(&link, "report"), append(&link).map(drop)] {
            let why = refused.unwrap_err();
            assert!(
                why.to_string().ends_with("it is a link in a directory that others may write to"),
                "{why}"
            );
            assert!(why.hint().is_some());
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        // A regular file is replaced there too, and is then private.
        let file = dir.file("plain.json");
        write_text(&file, "1").unwrap();
        assert_eq!(
            (mode(&file), dir.names()),
            (0o600, vec!["plain.json".to_owned(), "report.json".to_owned()])
        );
    }

    #[test]
    fn a_link_of_another_user_in_the_middle_of_a_path_is_not_followed() {
        let safe = Dir::new("safe-middle");
        fs::create_dir(safe.file("own")).unwrap();
        let dir = Dir::new("planted-middle").open_to_all();
        symlink(&safe.0, dir.file("link")).unwrap();
        symlink("own", safe.file("link")).unwrap();
        for path in [dir.file("link/report.json"), dir.file("link/own/report.json")] {
            for refused in [write_text(&path, "report"), append(&path).map(drop)] {
                let why = refused.unwrap_err().to_string();
                assert!(why.contains("`link` in this path is a symbolic link in a directory that"), "{why}");
            }
        }
        assert_eq!(safe.names(), ["link", "own"]);
        write_text(&safe.file("link/report.json"), "report").unwrap();
        assert!(safe.file("own/report.json").exists());
    }

    #[test]
    fn a_fifo_is_written_to_and_not_replaced() {
        let dir = Dir::new("fifo");
        let fifo = dir.file("fifo");
        mkfifo(&fifo);
        let path = fifo.clone();
        let reader = thread::spawn(move || {
            let mut text = String::new();
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        let long = "x".repeat(200_000);
        write_text(&fifo, &long).unwrap();
        assert_eq!(reader.join().unwrap(), long);
        assert_eq!(dir.names(), ["fifo"]);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let null = Path::new("/dev/null");
        let before = fs::metadata(null).unwrap();
        write_text(null, "report").unwrap();
        append(null).unwrap().write_all(b"report").unwrap();
        let after = fs::symlink_metadata(null).unwrap();
        assert_eq!((after.mode(), after.rdev(), after.ino()), (before.mode(), before.rdev(), before.ino()));
        let full = write_text(Path::new("/dev/full"), "report").unwrap_err();
        assert_eq!(full.source.kind(), io::ErrorKind::StorageFull, "{full}");
    }

    #[test]
    fn a_device_in_any_directory_is_written_to_and_not_replaced() {
        let dir = Dir::new("device");
        let device = dir.file("null");
        // Only root can create a device, and not in every container.
        let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).status().unwrap();
        if !made.success() {
            eprintln!("skipped: mknod is not permitted here");
            return;
        }
        match write_text(&device, "report") {
            Ok(()) => {}
            // A file system may be mounted with nodev.
            Err(why) => assert_eq!(why.source.kind(), io::ErrorKind::PermissionDenied, "{why}"),
        }
        assert_eq!(
            FileType::from_raw_mode(fs::symlink_metadata(&device).unwrap().mode()),
            FileType::CharacterDevice
        );
        assert_eq!(dir.names(), ["null"]);
    }

    #[test]
    fn directories_and_sockets_are_refused() {
        let dir = Dir::new("kinds");
        let socket = dir.file("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (socket.as_path(), "it is a socket"),
            (&dir.0, "it is a directory"),
            (Path::new("/"), "it is a directory"),
        ] {
            for refused in [write_text(path, ""), append(path).map(drop)] {
                let why = refused.unwrap_err().to_string();
                assert!(why.ends_with(what), "{why}");
            }
        }
        let missing = write_text(&dir.file("no/such/file"), "").unwrap_err();
        assert_eq!(missing.hint(), Some("the directory must exist and be writable"));
    }

    #[test]
    fn a_log_is_appended_to() {
        let dir = Dir::new("log");
        let file = dir.file("watch.jsonl");
        for line in ["1\n", "2\n"] {
            append(&file).unwrap().write_all(line.as_bytes()).unwrap();
        }
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("1\n2\n", 0o600));
        // A second name of a file, in a directory where others could have created it.
        let dir = dir.open_to_all();
        fs::hard_link(&file, dir.file("other")).unwrap();
        let why = append(&file).map(drop).unwrap_err().to_string();
        assert!(
            why.ends_with("it belongs to another user, in a directory that others may write to"),
            "{why}"
        );
    }
}
