//! Opens directories in which plegctl writes, so that no other user can redirect it with a symbolic link in the path.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The modes of a created directory: for this user only, and for all whom the umask allows.
const PRIVATE_MODE: u32 = 0o700;
const PUBLIC_MODE: u32 = 0o777;

/// The maximum number of symbolic links in a path.
const MAX_LINKS: usize = 40;

/// The reason why a directory is not used.
#[derive(Debug)]
pub enum DirectoryRefusal {
    /// The directory cannot be created or opened.
    Io(io::Error),
    /// Another user could change the content of the directory, or a symbolic link in the path.
    Unsafe(String),
}

impl From<Errno> for DirectoryRefusal {
    fn from(why: Errno) -> Self {
        Self::Io(why.into())
    }
}

impl From<DirectoryRefusal> for io::Error {
    fn from(why: DirectoryRefusal) -> Self {
        match why {
            DirectoryRefusal::Io(why) => why,
            DirectoryRefusal::Unsafe(why) => Self::new(io::ErrorKind::InvalidInput, why),
        }
    }
}

/// What to do with a directory that is missing, or that is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    /// Creates what is missing in the path, and refuses a link at its end.
    Own,
    /// Creates nothing, and follows a link at the end as any other link.
    Existing,
    /// Creates what is missing in the path, as readable as other new directories, and follows a link at the end.
    Public,
}

/// Opens the directory `path`, part by part. Follows a symbolic link only if nobody but root and this user could have created it.
pub fn open_directory(path: &Path, usage: DirectoryUse) -> Result<OwnedFd, DirectoryRefusal> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let rights = if usage == DirectoryUse::Own { PRIVATE_MODE } else { PUBLIC_MODE };
    let start = |root: bool| rustix::fs::open(if root { "/" } else { "." }, step, Mode::empty());
    let mut at = start(path.is_absolute())?;
    let mut rest: VecDeque<OsString> = names_in(path).collect();
    let (mut links, mut made) = (0, usage == DirectoryUse::Existing);
    while let Some(name) = rest.pop_front() {
        match openat(&at, &name, step, Mode::empty()) {
            Ok(next) => (at, made) = (next, usage == DirectoryUse::Existing),
            Err(Errno::NOENT) if !made => {
                match mkdirat(&at, &name, Mode::from_raw_mode(rights)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(why) => return Err(why.into()),
                }
                // There is no third attempt: another program may delete the directory again and again.
                made = true;
                rest.push_front(name);
            }
            Err(why @ (Errno::LOOP | Errno::NOTDIR)) => {
                let found = statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
                    return Err(why.into());
                }
                if rest.is_empty() && usage == DirectoryUse::Own {
                    return Err(DirectoryRefusal::Unsafe("it is a symbolic link".into()));
                }
                if let Some(why) = others_may_change(&fstat(&at)?, true) {
                    let name = name.to_string_lossy();
                    return Err(DirectoryRefusal::Unsafe(format!(
                        "`{name}` in this path is a symbolic link in a directory that {why}"
                    )));
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&at, &name, Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = start(true)?;
                }
                for name in names_in(&target).rev() {
                    rest.push_front(name);
                }
            }
            Err(why) => return Err(why.into()),
        }
    }
    Ok(at)
}

/// Returns the names in a path, without the root.
pub fn names_in(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Returns why another user may create files in a directory; `None` if nobody else may. A directory of root is accepted only
/// where a path leads through it (`is_path`), not as the directory of a capture.
pub fn others_may_change(directory: &Stat, is_path: bool) -> Option<String> {
    const OTHERS: u32 = 0o002;
    const GROUP: u32 = 0o020;
    let owner = directory.st_uid;
    if owner != geteuid().as_raw() && !(is_path && owner == 0) {
        return Some(format!("belongs to another user ({owner})"));
    }
    let by_group = directory.st_mode & GROUP != 0 && directory.st_gid != 0;
    let by_others = directory.st_mode & OTHERS != 0;
    (by_group || by_others).then(|| "others may write to".to_owned())
}

/// Whether only the user and root can create files in a directory.
pub fn is_private_directory(directory: &Stat) -> bool {
    others_may_change(directory, true).is_none()
}
