//! Opens the directory of a capture, which only its owner may read or write: a capture contains the names of everything on
//! the node, and the recorder runs as root.
//!
//! The directory is opened once, and its files are opened relative to that file descriptor. So another user cannot redirect
//! the recorder by replacing a part of the path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, fstatvfs, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::report::{DirectoryRefusal, DirectoryUse, open_directory, others_may_change};

/// The mode of a created file.
const FILE_MODE: u32 = 0o600;

/// How a directory is opened whose files are listed.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open directory that only its owner can change.
#[derive(Debug)]
pub struct PrivateDirectory(OwnedFd);

impl PrivateDirectory {
    /// Opens `path`, and creates the missing directories.
    ///
    /// A symbolic link at the end of the path is refused. A link elsewhere in the path is followed only if nobody but root and
    /// this user could have created it.
    pub fn open(path: &Path) -> Result<Self, DirectoryRefusal> {
        let at = open_directory(path, DirectoryUse::Own)?;
        Self::checked(openat(&at, ".", LISTED, Mode::empty())?)
    }

    /// Opens the directory of a descriptor of another process, `/proc/PID/fd/N`; `None` if it is not a directory with the file
    /// `name`.
    pub fn of_descriptor(path: &Path, name: &str) -> Result<Option<Self>, DirectoryRefusal> {
        // The descriptor may have been closed since, or be one of a socket.
        let Ok(directory) = rustix::fs::open(path, LISTED, Mode::empty()) else { return Ok(None) };
        let is_there = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        is_there.then(|| Self::checked(directory)).transpose()
    }

    /// Refuses a directory that another user can change.
    fn checked(directory: OwnedFd) -> Result<Self, DirectoryRefusal> {
        match others_may_change(&fstat(&directory)?, false) {
            Some(why) => Err(DirectoryRefusal::Unsafe(format!("it is a directory that {why}"))),
            None => Ok(Self(directory)),
        }
    }

    /// Replaces a file at once, by way of `new`, so that a reader finds the old or the new content.
    pub fn replace(&self, name: &str, new: &str, content: &[u8]) -> io::Result<()> {
        self.remove(new)?;
        self.create(new)?.write_all(content)?;
        Ok(renameat(&self.0, new, &self.0, name)?)
    }

    /// Returns the names of the files in the directory.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Creates a file; fails if it exists.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(FILE_MODE))?.into())
    }

    /// Opens the lock file, and creates it if it does not exist.
    pub fn lock(&self, name: &str) -> io::Result<File> {
        self.open_existing(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a regular file. Refuses symbolic links and files with several hard links, because another user could make them
    /// refer to a file of root.
    fn open_existing(&self, name: &str, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::from_raw_mode(FILE_MODE))?);
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() > 1 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link or no regular file"));
        }
        Ok(file)
    }

    /// Reads a file that is not larger than `most`.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open_existing(name, OFlags::RDONLY)?;
        if file.metadata()?.len() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Truncates a file.
    pub fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        self.open_existing(name, OFlags::WRONLY)?.set_len(length)
    }

    /// Returns the size of a file; 0 if it does not exist.
    pub fn size(&self, name: &str) -> u64 {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().and_then(|found| u64::try_from(found.st_size).ok()).unwrap_or_default()
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Returns the free space of the disk in bytes.
    pub fn free_bytes(&self) -> Option<u64> {
        let disk = fstatvfs(self.0.as_fd()).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct PrivateTestDirectory(PathBuf);

    impl PrivateTestDirectory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-private-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            Self(path)
        }
    }

    impl Drop for PrivateTestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refused(path: &Path) -> String {
        match PrivateDirectory::open(path) {
            Err(DirectoryRefusal::Unsafe(why)) => why,
            other => panic!("{}: {other:?}", path.display()),
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_of_another_user() {
        let test = PrivateTestDirectory::new("files");
        let path = |name: &str| test.0.join(name);
        fs::write(path("precious"), "precious").unwrap();
        symlink(path("precious"), path("link")).unwrap();
        fs::hard_link(path("precious"), path("second")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let directory = PrivateDirectory::open(&test.0).unwrap();
        for planted in ["link", "second", "folder"] {
            assert!(directory.lock(planted).is_err() && directory.truncate(planted, 0).is_err(), "{planted}");
            assert!(directory.create(planted).is_err() && directory.read(planted, 9).is_err(), "{planted}");
        }
        assert!(directory.truncate("own", 0).is_err());
        directory.lock("own").unwrap().set_len(3).unwrap();
        directory.truncate("own", 1).unwrap();
        assert_eq!(fs::read(path("own")).unwrap().len(), 1);
        assert_eq!(fs::read_to_string(path("precious")).unwrap(), "precious");
    }

    #[test]
    fn missing_directories_are_created_for_their_owner_only() {
        let test = PrivateTestDirectory::new("made");
        let deep = test.0.join("a/b/../c");
        PrivateDirectory::open(&deep).unwrap();
        for made in ["a", "a/b", "a/c"] {
            assert_eq!(fs::metadata(test.0.join(made)).unwrap().mode() & 0o777, 0o700, "{made}");
        }
        fs::write(test.0.join("file"), "").unwrap();
        assert!(matches!(PrivateDirectory::open(&test.0.join("file")), Err(DirectoryRefusal::Io(_))));
        assert!(matches!(PrivateDirectory::open(&test.0.join("file/below")), Err(DirectoryRefusal::Io(_))));
    }

    #[test]
    fn link_is_refused_at_the_end_of_the_path_and_in_a_directory_that_others_may_write_to() {
        let test = PrivateTestDirectory::new("links");
        let path = |name: &str| test.0.join(name);
        fs::create_dir(path("real")).unwrap();
        symlink("real", path("link")).unwrap();
        assert_eq!(refused(&path("link")), "it is a symbolic link");
        assert_eq!(refused(&path("link/")), "it is a symbolic link");
        PrivateDirectory::open(&path("link/capture")).unwrap();
        assert!(path("real/capture").is_dir());
        symlink("loop", path("loop")).unwrap();
        assert!(matches!(PrivateDirectory::open(&path("loop/capture")), Err(DirectoryRefusal::Io(_))));
        fs::set_permissions(&test.0, fs::Permissions::from_mode(0o1777)).unwrap();
        let why = refused(&path("link/other"));
        assert_eq!(why, "`link` in this path is a symbolic link in a directory that others may write to");
        assert!(!path("real/other").exists());
        // A directory of this user in a directory that everybody may write to is safe: nobody else can change its content.
        PrivateDirectory::open(&path("own")).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let test = PrivateTestDirectory::new("open");
        for (mode, safe) in [(0o700, true), (0o755, true), (0o702, false), (0o1777, false)] {
            fs::set_permissions(&test.0, fs::Permissions::from_mode(mode)).unwrap();
            if safe {
                PrivateDirectory::open(&test.0).unwrap();
            } else {
                assert_eq!(refused(&test.0), "it is a directory that others may write to", "{mode:o}");
            }
        }
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let test = PrivateTestDirectory::new("foreign");
        // Only root can change the owner of a directory. Other users test with a directory of root.
        let (path, owner) = match std::os::unix::fs::chown(&test.0, Some(65_534), None) {
            Ok(()) => (test.0.clone(), 65_534),
            Err(_) => (PathBuf::from("/usr"), 0),
        };
        assert_eq!(refused(&path), format!("it is a directory that belongs to another user ({owner})"));
        let stat = fstat(fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(others_may_change(&stat, true).is_some(), owner != 0);
    }

    #[test]
    fn directory_that_is_replaced_by_a_link_is_not_followed() {
        let test = PrivateTestDirectory::new("swapped");
        let path = |name: &str| test.0.join(name);
        let directory = PrivateDirectory::open(&path("capture")).unwrap();
        fs::create_dir(path("trap")).unwrap();
        fs::write(path("trap/old"), "precious").unwrap();
        fs::rename(path("capture"), path("moved")).unwrap();
        symlink("trap", path("capture")).unwrap();
        drop(directory.create("new").unwrap());
        directory.remove("old").unwrap();
        directory.replace("newer", "new", b"").unwrap();
        assert_eq!(directory.names().unwrap(), ["newer"]);
        assert!(path("moved/newer").exists() && path("trap/old").exists() && !path("trap/newer").exists());
    }
}
