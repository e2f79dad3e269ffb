//! Measures how full the file system of a directory is.
//!
//! A request to a network file system whose server is gone never returns, and the waiting thread prevents plegctl
//! from exiting. So the path is resolved link by link, and nothing at or below a remote mount is opened.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::proc::NodeMount;
use plegctl_base::report::{Rename, names_in};

/// The maximum number of symbolic links in a path; a path with more links counts as a loop.
const MAX_LINKS: usize = 40;

/// The file system of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Value(device), FileSystem(kind))]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// `major:minor`
    pub device: String,
    /// `ext4`, `tmpfs`, …
    pub kind: String,
    /// Total bytes.
    pub size: u64,
    /// Bytes that root can still write.
    pub free: u64,
    /// Bytes that other users can still write.
    pub available: u64,
    /// The maximum number of files; 0 if the file system has no limit.
    pub inodes: u64,
    /// The number of files that can still be created.
    pub free_inodes: u64,
    /// Whether the file system itself is read-only, not only this mount.
    pub read_only: bool,
}

/// Why a directory was not examined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The directory does not exist or cannot be read.
    #[error("`{0}` does not exist")]
    Absent(String),
    /// The directory is on a network file system, whose server might never answer.
    #[error("`{path}` is on {kind}; plegctl does not query it, because its server may be unreachable")]
    Remote {
        /// The mount point.
        path: String,
        /// The mount's file system type.
        kind: String,
    },
}

/// Measures the file system of the node's `path`. `root` is the host root. The call may block, so make it in a thread
/// that can be abandoned.
pub fn disk(root: &Path, mounts: &[NodeMount], path: &Path) -> Result<Disk, DiskError> {
    LocatedDirectory::of(root, mounts, path)?.disk().ok_or_else(|| absent(path))
}

fn absent(path: &Path) -> DiskError {
    DiskError::Absent(path.display().to_string())
}

/// A directory without links in its path, and what is known of its file system without a request to it.
#[derive(Debug)]
pub struct LocatedDirectory {
    place: PathBuf,
    on: Disk,
}

impl LocatedDirectory {
    /// Finds the node's `path`; `root` is the host root.
    pub fn of(root: &Path, mounts: &[NodeMount], path: &Path) -> Result<Self, DiskError> {
        let place = resolve(root, mounts, path)?;
        let mount = mount_of(mounts, &place).ok_or_else(|| absent(path))?;
        let NodeMount { device, kind, read_only, .. } = mount.clone();
        Ok(Self { place, on: Disk { device, kind, read_only, ..Disk::default() } })
    }

    /// Measures the file system; `None` if the directory does not exist. The call may block.
    pub fn disk(&self) -> Option<Disk> {
        let figures = rustix::fs::statvfs(&self.place).ok()?;
        Some(Disk {
            size: figures.f_blocks.saturating_mul(figures.f_frsize),
            free: figures.f_bfree.saturating_mul(figures.f_frsize),
            available: figures.f_bavail.saturating_mul(figures.f_frsize),
            inodes: figures.f_files,
            free_inodes: figures.f_ffree,
            ..self.on.clone()
        })
    }
}

/// Resolves the node's `path` link by link to a path of plegctl. Fails if a step is at a mount that may not answer.
pub fn resolve(root: &Path, mounts: &[NodeMount], path: &Path) -> Result<PathBuf, DiskError> {
    let mut left: VecDeque<OsString> = names_in(path).collect();
    let (mut at, mut links) = (root.to_path_buf(), 0);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            if at != root {
                at.pop();
            }
            continue;
        }
        let next = at.join(&part);
        let may_not_answer = |mount: &&NodeMount| {
            Path::new(&mount.target) == next && (mount.is_remote() || mount.kind == "autofs")
        };
        if let Some(mount) = mounts.iter().find(may_not_answer) {
            return Err(DiskError::Remote { path: mount.target.clone(), kind: mount.kind.clone() });
        }
        let Ok(target) = fs::read_link(&next) else {
            at = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(absent(path));
        }
        if target.is_absolute() {
            at = root.to_path_buf();
        }
        for part in names_in(&target).rev() {
            left.push_front(part);
        }
    }
    Ok(at)
}

/// Returns the innermost mount that contains `path`. If several mounts are at the same path, the last one hides the
/// others.
fn mount_of<'a>(mounts: &'a [NodeMount], path: &Path) -> Option<&'a NodeMount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.target)).max_by_key(|mount| mount.target.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary host root that is deleted when the test ends.
    struct TestHostRoot(PathBuf);

    impl TestHostRoot {
        fn make(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("plegctl-disks-{}-{name}", std::process::id()));
            fs::create_dir_all(place.join("var/lib/app")).unwrap();
            Self(place)
        }

        fn mount(&self, target: &str, kind: &str) -> NodeMount {
            let target = self.0.join(target).display().to_string();
            NodeMount {
                target: target.trim_end_matches('/').into(),
                kind: kind.into(),
                ..NodeMount::default()
            }
        }
    }

    impl Drop for TestHostRoot {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn free_space_and_read_only_state_are_those_of_the_innermost_mount() {
        let place = TestHostRoot::make("full");
        let inner = NodeMount { read_only: true, device: "8:2".into(), ..place.mount("var/lib", "ext4") };
        let mounts = [place.mount("", "xfs"), inner];
        let seen = disk(&place.0, &mounts, Path::new("/var/lib/app")).unwrap();
        assert!(seen.size > 0 && seen.free <= seen.size);
        assert_eq!((seen.kind.as_str(), seen.device.as_str(), seen.read_only), ("ext4", "8:2", true));
        let missing = disk(&place.0, &mounts, Path::new("/var/lib/none"));
        assert_eq!(missing, Err(DiskError::Absent("/var/lib/none".into())));
    }

    #[test]
    fn nothing_at_or_below_a_mount_that_may_not_answer_is_touched() {
        let place = TestHostRoot::make("remote");
        let mounts = [place.mount("", "xfs"), place.mount("srv/data", "nfs4"), place.mount("auto", "autofs")];
        // Neither directory exists, so opening it would give `Absent`.
        std::os::unix::fs::symlink("/srv/data/../data/app", place.0.join("var/lib/linked")).unwrap();
        std::os::unix::fs::symlink("../../auto", place.0.join("var/lib/up")).unwrap();
        for path in ["/srv/data", "/srv/data/deeper", "/var/lib/linked", "/var/lib/up/x"] {
            let seen = disk(&place.0, &mounts, Path::new(path));
            assert!(matches!(seen, Err(DiskError::Remote { .. })), "{path}: {seen:?}");
        }
    }

    #[test]
    fn a_loop_of_links_is_an_error_and_no_link_leaves_the_host_root() {
        let place = TestHostRoot::make("links");
        let mounts = [place.mount("", "xfs")];
        std::os::unix::fs::symlink("/var/one", place.0.join("var/two")).unwrap();
        std::os::unix::fs::symlink("/var/two", place.0.join("var/one")).unwrap();
        std::os::unix::fs::symlink("../../../../../../var/lib", place.0.join("var/out")).unwrap();
        assert!(resolve(&place.0, &mounts, Path::new("/var/one")).is_err());
        assert_eq!(resolve(&place.0, &mounts, Path::new("/var/out/app")), Ok(place.0.join("var/lib/app")));
    }
}
