//! Reads how processes treat signals, and which processes use files below a directory.
//!
//! It follows no descriptor: reading the link of a descriptor does not access its file system.

use std::path::{Path, PathBuf};

use super::process::waits_uninterruptibly;
use super::waits::descriptors;
use crate::host::{Arguments, KernelDir, kernel_bytes, kernel_text};

/// The number of `SIGHUP`.
const HANGUP: u32 = 1;
/// The number of `SIGKILL`.
const KILL: u32 = 9;
/// The number of `SIGTERM`.
const TERM: u32 = 15;

/// The sets of signals in `/proc/PID/status` (`Documentation/filesystems/proc.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSets {
    pending: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
    /// Whether the process is the first one of its own PID namespace. The kernel drops a signal to such a process if the
    /// process has no handler for it (`pid_namespaces(7)`).
    is_first: bool,
}

/// What a process does with `SIGTERM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    /// It has a handler.
    Handles,
    /// It ignores the signal.
    Ignores,
    /// It has no handler, and the kernel drops the signal.
    Drops,
    /// It has blocked the signal.
    Blocks,
    /// It ends.
    Ends,
}

impl SignalSets {
    /// Reads the sets of a process.
    pub fn read(proc: &Path, pid: u32) -> Option<Self> {
        Self::parse(&kernel_text(&proc.join(format!("{pid}/status"))).ok()?)
    }

    /// Parses a `status` file.
    pub fn parse(status: &str) -> Option<Self> {
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let set = |key: &str| u64::from_str_radix(value(key)?.trim(), 16).ok();
        let ids: Vec<&str> = value("NSpid").unwrap_or_default().split_ascii_whitespace().collect();
        Some(Self {
            pending: set("SigPnd")? | set("ShdPnd")?,
            blocked: set("SigBlk")?,
            ignored: set("SigIgn")?,
            caught: set("SigCgt")?,
            is_first: ids.len() > 1 && ids.last() == Some(&"1"),
        })
    }

    /// Returns what the process does with `SIGTERM`.
    pub fn on_term(&self) -> OnTerm {
        let has = |set: u64| has(set, TERM);
        if has(self.ignored) {
            OnTerm::Ignores
        } else if has(self.blocked) {
            OnTerm::Blocks
        } else if has(self.caught) {
            OnTerm::Handles
        } else if self.is_first {
            OnTerm::Drops
        } else {
            OnTerm::Ends
        }
    }

    /// Whether the process ignores `SIGHUP`, as a program that `nohup` starts.
    pub fn ignores_hangup(&self) -> bool {
        has(self.ignored, HANGUP)
    }

    /// Whether the process has got `SIGKILL` and has not ended yet.
    pub fn is_killed(&self) -> bool {
        has(self.pending, KILL)
    }
}

fn has(set: u64, signal: u32) -> bool {
    set >> (signal - 1) & 1 == 1
}

/// Whether a process runs as root on the node. Only root may unmount a file system of another program.
pub fn runs_as_root(proc: &Path, pid: u32) -> bool {
    let status = kernel_text(&proc.join(format!("{pid}/status"))).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = ids.split_ascii_whitespace().peekable();
    ids.peek().is_some() && ids.all(|id| id == "0")
}

/// Parts of the names of kernel functions that may hold the lock of a process's memory while they wait.
const MEMORY_FUNCTIONS: [&str; 9] =
    ["fault", "mmap", "munmap", "mm_", "brk", "mprotect", "madvise", "execve", "do_exit"];

/// Returns the command line of a process, also of one in uninterruptible sleep if reading it cannot block: the process has
/// only one task, and the kernel stack of this task is readable and has no function that works on the memory of the process.
/// Such a task waits for a file system and does not hold the lock that the read needs.
pub fn command_line_if_safe(dir: &Path) -> Arguments {
    if !waits_uninterruptibly(dir) || is_only_in_a_file_system(dir) {
        return Arguments::from_cmdline(&kernel_bytes(&dir.join("cmdline")).unwrap_or_default());
    }
    Arguments::default()
}

fn is_only_in_a_file_system(dir: &Path) -> bool {
    let tasks = KernelDir::open(&dir.join("task")).map(|tasks| tasks.numbered()).unwrap_or_default();
    let stack = kernel_text(&dir.join("stack")).unwrap_or_default();
    tasks.len() == 1 && !stack.is_empty() && !MEMORY_FUNCTIONS.iter().any(|name| stack.contains(name))
}

/// A process that has a file, or its working directory, below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUser {
    /// The process.
    pub pid: u32,
    /// The file.
    pub path: PathBuf,
}

/// Returns the processes that use a path at or below `directory`, with one such path of each. Leaves out processes with a
/// task in uninterruptible sleep, because reading their descriptors could block.
pub fn users_below(proc: &Path, directory: &Path) -> Vec<PathUser> {
    let pids = KernelDir::open(proc).map(|proc| proc.numbered()).unwrap_or_default();
    let user = |pid: u32| {
        let dir = proc.join(pid.to_string());
        if waits_uninterruptibly(&dir) {
            return None;
        }
        let opened = KernelDir::open(&dir).ok()?;
        let own = ["cwd", "root"].into_iter().filter_map(|name| opened.link(name).ok());
        let files = descriptors(&dir).into_iter().map(|(_, path)| path);
        let path = own.chain(files).find(|path| path.starts_with(directory))?;
        Some(PathUser { pid, path })
    };
    pids.into_iter().filter_map(user).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that Linux 6.18 writes for a shell after `trap '' TERM`, and for one after `trap : TERM`.
    fn status(ignored: &str, caught: &str, ids: &str) -> String {
        format!(
            "Name:\tsh\nNSpid:\t{ids}\nSigQ:\t0/95763\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n\
             SigBlk:\t0000000000000000\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\nCapInh:\t0000000000000000\n"
        )
    }

    #[test]
    fn the_masks_show_what_a_process_does_with_sigterm() {
        let on_term = |ignored: &str, caught: &str, ids: &str| {
            SignalSets::parse(&status(ignored, caught, ids)).unwrap().on_term()
        };
        assert_eq!(on_term("0000000000004000", "0000000000000000", "812\t1"), OnTerm::Ignores);
        assert_eq!(on_term("0000000000000000", "0000000000014002", "812\t1"), OnTerm::Handles);
        assert_eq!(on_term("0000000000000000", "0000000000000000", "812\t1"), OnTerm::Drops);
        assert_eq!(on_term("0000000000000000", "0000000000000000", "812\t7"), OnTerm::Ends);
        assert_eq!(on_term("0000000000000000", "0000000000000000", "1"), OnTerm::Ends, "no own namespace");
        assert_eq!(SignalSets::parse("Name:\tsh\n"), None);
    }

    #[test]
    fn a_pending_sigkill_is_seen_in_either_set() {
        let text = status("0000000000000000", "0000000000000000", "812\t1");
        assert!(!SignalSets::parse(&text).unwrap().is_killed());
        for set in ["SigPnd", "ShdPnd"] {
            let none = format!("{set}:\t0000000000000000");
            let killed = text.replace(&none, &format!("{set}:\t0000000000000100"));
            assert!(SignalSets::parse(&killed).unwrap().is_killed(), "{set}");
        }
    }

    #[test]
    fn the_command_line_of_a_blocked_process_is_read_only_if_it_does_not_work_on_its_memory() {
        let dir = std::env::temp_dir().join(format!("plegctl-blocked-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let read = || command_line_if_safe(&dir).to_vec();
        let stat = "7 (umount) D 3 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1000 4096 2 0";
        file("stat", stat);
        file("task/7/stat", stat);
        file("cmdline", "umount\0/data\0");
        assert!(read().is_empty(), "no stack");
        // The stack of `umount` on Linux 6.18, whose FUSE file system does not answer.
        file(
            "stack",
            "[<0>] fuse_get_req+0x1ce/0x2b0\n[<0>] vfs_statx+0x8f/0x160\n[<0>] do_syscall_64+0x71/0x280\n",
        );
        assert_eq!(read(), ["umount", "/data"]);
        file(
            "stack",
            "[<0>] fuse_get_req+0x1ce/0x2b0\n[<0>] filemap_fault+0x8f/0x160\n[<0>] exc_page_fault+0x71/0x280\n",
        );
        assert!(read().is_empty(), "a page fault");
        file("stack", "[<0>] fuse_get_req+0x1ce/0x2b0\n");
        file("task/8/stat", stat);
        assert!(read().is_empty(), "another task may hold the lock");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_a_process_with_all_user_ids_zero_runs_as_root() {
        let proc = std::env::temp_dir().join(format!("plegctl-root-{}", std::process::id()));
        let runs_as_root = |status: &str| {
            std::fs::create_dir_all(proc.join("7")).unwrap();
            std::fs::write(proc.join("7/status"), status).unwrap();
            runs_as_root(&proc, 7)
        };
        assert!(runs_as_root("Name:\tumount\nUid:\t0\t0\t0\t0\n"));
        assert!(!runs_as_root("Name:\tumount\nUid:\t0\t65534\t0\t0\n"));
        assert!(!runs_as_root("Name:\tumount\n"));
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn a_process_that_works_in_a_directory_uses_it() {
        let directory = std::env::temp_dir().join(format!("plegctl-usage-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("600").current_dir(&directory).spawn().unwrap();
        let found = users_below(Path::new("/proc"), &directory);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(found, [PathUser { pid: child.id(), path: directory }]);
    }
}
