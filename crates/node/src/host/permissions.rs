//! Checks whether other users than root and plegctl's own user can create or replace a file at a path.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, Stat};
use rustix::process::geteuid;

use super::HostRoot;
use plegctl_base::report::is_private_directory;

/// Returns the first directory on the path to which other users can write, because any user may have created a file
/// below it. Only directories below the host root are checked, because the user named the host root.
pub fn open_to_others(host: &HostRoot, path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    // A directory that does not exist contains nothing.
    let parent = fs::canonicalize(parent).ok()?;
    let root = fs::canonicalize(host.as_path()).unwrap_or_else(|_| host.as_path().to_path_buf());
    let is_below = parent.starts_with(&root);
    let mut directories: Vec<&Path> =
        parent.ancestors().take_while(|directory| !is_below || *directory != root).collect();
    directories.reverse();
    let is_open = |directory: &&Path| {
        rustix::fs::stat(*directory).is_ok_and(|about| {
            // In a directory with the sticky bit, nobody can replace another user's subdirectory, and the
            // subdirectory on the path is checked next. But in the last directory, any user may have created the
            // file.
            let is_safe_step = *directory != parent.as_path() && is_sticky_and_trusted(&about);
            !is_private_directory(&about) && !is_safe_step
        })
    };
    directories.into_iter().find(is_open).map(Path::to_path_buf)
}

/// Whether this is a directory like `/tmp`: owned by root or plegctl's user, with the sticky bit.
fn is_sticky_and_trusted(about: &Stat) -> bool {
    let is_trusted = about.st_uid == 0 || about.st_uid == geteuid().as_raw();
    is_trusted && Mode::from_raw_mode(about.st_mode).contains(Mode::SVTX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_to_is_found_anywhere_on_the_path() {
        let root = std::env::temp_dir().join(format!("plegctl-guarded-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for directory in ["run/containerd", "tmp/x"] {
            let directory = root.join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(directory.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink("../tmp/x", root.join("run/link")).unwrap();
        let host = HostRoot::resolve(Some(&root));
        let found = |path: &str| open_to_others(&host, &root.join(path));
        let open = Some(fs::canonicalize(root.join("tmp")).unwrap());
        assert_eq!(found("run/containerd/containerd.sock"), None);
        assert_eq!(found("tmp/c.sock"), open, "any user may have created it");
        assert_eq!(found("tmp/x/c.sock"), None, "the sticky bit protects a directory of plegctl's user");
        assert_eq!(found("run/link/c.sock"), None, "a link leads there");
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!((found("tmp/x/c.sock"), found("run/link/c.sock")), (open.clone(), open));
        assert_eq!(found("none/c.sock"), None, "nothing is there");
        fs::remove_dir_all(&root).unwrap();
    }
}
