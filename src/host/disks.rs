//! How full the file systems are that a daemon writes to.
//!
//! Asking a file system whose server is away never ends, and a thread that waits for it keeps the whole process from
//! ending. So the way to a directory is gone link by link, and nothing is touched at or below a mount that is remote.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::proc::Mount;

/// Links on one way; a way with more of them is a circle.
const MOST_LINKS: usize = 40;

/// A file system, seen from a directory on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `major:minor`
    pub device: String,
    /// `ext4`, `tmpfs`, …
    pub kind: String,
    /// Bytes in all.
    pub size: u64,
    /// Bytes that root can still write.
    pub free: u64,
    /// Bytes that anybody else can.
    pub available: u64,
    /// Files that there can be; 0 where there is no such limit.
    pub inodes: u64,
    /// Files that can still be made.
    pub free_inodes: u64,
    /// Nobody can write to it, whatever the mount says.
    pub read_only: bool,
}

/// Why a directory was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// It is not there, or not to be seen.
    #[error("`{0}` is not there")]
    Absent(String),
    /// Asking might never end.
    #[error("`{path}` is on {kind}, which is not asked: its server may be away")]
    Remote {
        /// The mount.
        path: String,
        /// Its kind.
        kind: String,
    },
}

/// The file system that the node's `path` is on; `root` is where the node's own `/` is. This belongs into a thread that
/// can be left behind.
pub fn disk(root: &Path, mounts: &[Mount], path: &Path) -> Result<Disk, Unseen> {
    let absent = || Unseen::Absent(path.display().to_string());
    let place = way(root, mounts, path)?;
    let on = mount_of(mounts, &place).ok_or_else(absent)?;
    let figures = rustix::fs::statvfs(&place).map_err(|_| absent())?;
    Ok(Disk {
        device: on.device.clone(),
        kind: on.kind.clone(),
        size: figures.f_blocks.saturating_mul(figures.f_frsize),
        free: figures.f_bfree.saturating_mul(figures.f_frsize),
        available: figures.f_bavail.saturating_mul(figures.f_frsize),
        inodes: figures.f_files,
        free_inodes: figures.f_ffree,
        read_only: on.read_only,
    })
}

/// Where `path` leads to, link by link, as long as no step is at a mount that may not answer.
pub fn way(root: &Path, mounts: &[Mount], path: &Path) -> Result<PathBuf, Unseen> {
    let mut left: VecDeque<OsString> = parts(path).collect();
    let (mut at, mut links) = (root.to_path_buf(), 0);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            if at != root {
                at.pop();
            }
            continue;
        }
        let next = at.join(&part);
        let shaky = |mount: &&Mount| {
            Path::new(&mount.target) == next && (mount.is_remote() || mount.kind == "autofs")
        };
        if let Some(mount) = mounts.iter().find(shaky) {
            return Err(Unseen::Remote { path: mount.target.clone(), kind: mount.kind.clone() });
        }
        let Ok(target) = fs::read_link(&next) else {
            at = next;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return Err(Unseen::Absent(path.display().to_string()));
        }
        if target.is_absolute() {
            at = root.to_path_buf();
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            left.push_front(part);
        }
    }
    Ok(at)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// The innermost mount above `path`; of several at one place the last covers the others.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.target)).max_by_key(|mount| mount.target.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn make(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("plegctl-disks-{}-{name}", std::process::id()));
            fs::create_dir_all(place.join("var/lib/app")).unwrap();
            Self(place)
        }

        fn mount(&self, target: &str, kind: &str) -> Mount {
            let target = self.0.join(target).display().to_string();
            Mount { target: target.trim_end_matches('/').into(), kind: kind.into(), ..Mount::default() }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_says_how_full_its_disk_is_and_whether_it_can_be_written_to() {
        let place = Place::make("full");
        let inner = Mount { read_only: true, device: "8:2".into(), ..place.mount("var/lib", "ext4") };
        let mounts = [place.mount("", "xfs"), inner];
        let seen = disk(&place.0, &mounts, Path::new("/var/lib/app")).unwrap();
        assert!(seen.size > 0 && seen.free <= seen.size);
        assert_eq!((seen.kind.as_str(), seen.device.as_str(), seen.read_only), ("ext4", "8:2", true));
        let missing = disk(&place.0, &mounts, Path::new("/var/lib/none"));
        assert_eq!(missing, Err(Unseen::Absent("/var/lib/none".into())));
    }

    #[test]
    fn nothing_at_or_below_a_mount_that_may_not_answer_is_touched() {
        let place = Place::make("remote");
        let mounts = [place.mount("", "xfs"), place.mount("srv/data", "nfs4"), place.mount("auto", "autofs")];
        // Neither is there, so that whoever touched them would say `Absent`.
        std::os::unix::fs::symlink("/srv/data/../data/app", place.0.join("var/lib/linked")).unwrap();
        std::os::unix::fs::symlink("../../auto", place.0.join("var/lib/up")).unwrap();
        for path in ["/srv/data", "/srv/data/deeper", "/var/lib/linked", "/var/lib/up/x"] {
            let seen = disk(&place.0, &mounts, Path::new(path));
            assert!(matches!(seen, Err(Unseen::Remote { .. })), "{path}: {seen:?}");
        }
    }

    #[test]
    fn a_circle_of_links_leads_nowhere_and_none_leads_out_of_the_root() {
        let place = Place::make("links");
        let mounts = [place.mount("", "xfs")];
        std::os::unix::fs::symlink("/var/one", place.0.join("var/two")).unwrap();
        std::os::unix::fs::symlink("/var/two", place.0.join("var/one")).unwrap();
        std::os::unix::fs::symlink("../../../../../../var/lib", place.0.join("var/out")).unwrap();
        assert!(way(&place.0, &mounts, Path::new("/var/one")).is_err());
        assert_eq!(way(&place.0, &mounts, Path::new("/var/out/app")), Ok(place.0.join("var/lib/app")));
    }
}
