//! Files and directories that only their owner reads: a capture has the names of everything on the node.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// A new file; it is an error if there is one.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A file that may be there already, for a lock.
pub fn open(path: &Path) -> io::Result<File> {
    itself(path, OFlags::RDWR | OFlags::CREATE)
}

/// A file that is there, to cut it off.
pub fn existing(path: &Path) -> io::Result<File> {
    itself(path, OFlags::WRONLY)
}

/// What has this name and no other: whoever may put a link here must not have us write where it leads.
fn itself(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?);
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link or no regular file"));
    }
    Ok(file)
}

/// A directory, unless there is one.
pub fn directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && fs::metadata(path)?.is_dir() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_12_nothing_is_written_through_a_planted_link() {
        let folder = std::env::temp_dir().join(format!("plegctl-private-{}", std::process::id()));
        let (precious, link, second) = (folder.join("precious"), folder.join("lock"), folder.join("second"));
        fs::create_dir(&folder).unwrap();
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        fs::hard_link(&precious, &second).unwrap();
        for planted in [&link, &second, &folder] {
            assert!(open(planted).is_err() && existing(planted).is_err(), "{}", planted.display());
        }
        let own = folder.join("own");
        assert!(existing(&own).is_err());
        open(&own).unwrap().set_len(3).unwrap();
        existing(&own).unwrap().set_len(1).unwrap();
        let found = (fs::read(&own).unwrap().len(), fs::read_to_string(&precious).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, (1, "precious".to_owned()));
    }
}
