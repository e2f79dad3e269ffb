//! Checks who can create files in a directory.

use rustix::fs::Stat;
use rustix::process::geteuid;

/// Whether only the user and root can create files in a directory.
pub fn is_private_directory(directory: &Stat) -> bool {
    const OTHERS: u32 = 0o002;
    const GROUP: u32 = 0o020;
    let owner_is_trusted = directory.st_uid == 0 || directory.st_uid == geteuid().as_raw();
    let group_is_trusted = directory.st_gid == 0 || directory.st_mode & GROUP == 0;
    owner_is_trusted && group_is_trusted && directory.st_mode & OTHERS == 0
}
