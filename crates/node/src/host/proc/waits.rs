//! Reads where tasks wait in the kernel, and which process, file system, disk or cgroup they wait for.
//!
//! Of a waiting task it reads only files that do not need the task's memory or descriptors: `stat`, `status`, `sched`,
//! `wchan`, `stack` and `syscall`. It reads the descriptors only of processes without a task in uninterruptible sleep, with
//! one exception: the descriptor to which a task writes. It opens no descriptor's file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::node::{Freeze, NodeMount, frozen};
use super::process::{Blocked, waits_uninterruptibly};
use super::stat::{ProcessStat, state_of};
use crate::host::{KernelDir, kernel_text};

/// The bits of fanotify's classes that may delay an access (`FAN_CLASS_CONTENT`, `FAN_CLASS_PRE_CONTENT` in
/// `linux/fanotify.h`).
const DELAYING_CLASSES: u64 = 0x4 | 0x8;
/// The events that wait for an answer (`FAN_OPEN_PERM`, `FAN_ACCESS_PERM`, `FAN_OPEN_EXEC_PERM`, `FAN_PRE_ACCESS`).
const PERMISSION_EVENTS: u64 = 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x10_0000;
/// The most lines of a kernel stack that are kept.
const STACK_LINES: usize = 24;

/// Whether a task in interruptible sleep in this function may wait for somebody who does not answer. A task in any other
/// function sleeps because it has nothing to do.
pub fn is_relevant_sleep(wchan: &str) -> bool {
    const ASLEEP: [&str; 10] = [
        "request_wait_answer",
        "fuse_",
        "locks_lock_inode_wait",
        "flock_lock_inode_wait",
        "posix_lock_inode_wait",
        "fcntl_setlk",
        // Some kernels show this function instead of `fcntl_setlk`, into which others merge it.
        "do_lock_file_wait",
        "do_freezer_trap",
        // Some kernels show this function instead of `do_freezer_trap`, because the compiler merged both.
        "get_signal",
        "rpc_wait",
    ];
    ASLEEP.iter().any(|beginning| wchan.starts_with(beginning))
}

/// One look at a task that waits in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLook {
    /// The process.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// The state letter.
    pub state: char,
    /// The kernel function in which the task waits, if readable.
    pub wchan: String,
    /// The functions of the kernel stack, innermost first; empty if not readable.
    pub stack: Vec<String>,
    /// The number of the system call and its arguments, if readable.
    pub syscall: String,
    /// How often the task has left the processor; `None` if not readable.
    pub switches: Option<u64>,
    /// The processor on which the task ran last.
    pub processor: u32,
    /// When the task ran last, by the clock of that processor; `None` if the kernel does not show it.
    pub last_ran: Option<Duration>,
}

impl TaskLook {
    /// Creates a look from the function and the stack that were read with the process table.
    pub fn of_blocked(task: &Blocked) -> Self {
        Self {
            tid: task.tid,
            wchan: task.wchan.clone(),
            stack: task.stack.iter().filter_map(|line| function_of(line)).collect(),
            ..Self::default()
        }
    }

    /// Whether the task has not run between two looks. A task whose context switches are unknown may have run.
    pub fn is_same_wait(&self, later: &Self) -> bool {
        self.switches.is_some() && self == later
    }
}

/// One look at several tasks and at the disks.
#[derive(Clone, Debug, Default)]
pub struct WaitLook {
    /// The tasks that wait.
    pub tasks: Vec<TaskLook>,
    /// The disks by device number.
    pub disks: BTreeMap<String, DiskCounters>,
}

/// The counters of one disk in `/proc/diskstats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// The name: `sda`.
    pub name: String,
    /// The completed reads, writes, discards and flushes.
    pub completed: u64,
    /// The requests that were sent to the disk and are not completed.
    pub in_flight: u64,
}

/// Looks at all tasks of the processes `pids`. Keeps the tasks in uninterruptible sleep, and those in a relevant
/// interruptible sleep.
pub fn look(proc: &Path, pids: &[u32]) -> WaitLook {
    let mut tasks = Vec::new();
    for pid in pids {
        let path = proc.join(pid.to_string()).join("task");
        let Ok(dir) = KernelDir::open(&path) else { continue };
        tasks.extend(dir.numbered().into_iter().filter_map(|tid| look_at(&dir, *pid, tid)));
    }
    WaitLook { tasks, disks: disks(&kernel_text(&proc.join("diskstats")).unwrap_or_default()) }
}

fn look_at(dir: &KernelDir, pid: u32, tid: u32) -> Option<TaskLook> {
    let text = |name: &str| dir.record(&format!("{tid}/{name}")).unwrap_or_default().trim().to_owned();
    let stat = text("stat");
    let state = state_of(&stat)?;
    let wchan = text("wchan");
    if state != 'D' && !(state == 'S' && is_relevant_sleep(&wchan)) {
        return None;
    }
    let stack = text("stack");
    Some(TaskLook {
        pid,
        tid,
        state,
        wchan,
        stack: stack.lines().filter_map(function_of).take(STACK_LINES).collect(),
        syscall: text("syscall"),
        switches: switches(&text("status")),
        processor: ProcessStat::parse(&stat)?.processor,
        last_ran: last_ran(&text("sched")),
    })
}

/// Parses the time at which a task ran last from a `sched` file, in which it is in milliseconds (`kernel/sched/debug.c`).
fn last_ran(sched: &str) -> Option<Duration> {
    let line =
        sched.lines().find_map(|line| line.strip_prefix("se.exec_start")?.trim_start().strip_prefix(':'));
    Duration::try_from_secs_f64(line?.trim().parse::<f64>().ok()? / 1000.0).ok()
}

/// Returns for how long a waiting task has not run, at least; `None` if the kernel does not show it. The clock of a processor
/// (`rq_clock_task`) leaves out the time of interrupts, so it is compared only with itself: this thread moves to that
/// processor for a moment.
pub fn not_run_for(proc: &Path, task: &TaskLook) -> Option<Duration> {
    let last = task.last_ran?;
    let own = || last_ran(&kernel_text(&proc.join("thread-self/sched")).ok()?);
    on_processor(task.processor, own)?.checked_sub(last)
}

/// Runs `work` in this thread on a processor; `None` if the thread may not run there.
fn on_processor<T>(processor: u32, work: impl FnOnce() -> Option<T>) -> Option<T> {
    let number = usize::try_from(processor).ok().filter(|number| *number < CpuSet::MAX_CPU)?;
    let allowed = sched_getaffinity(None).ok()?;
    let mut only = CpuSet::new();
    only.set(number);
    sched_setaffinity(None, &only).ok()?;
    let done = work();
    sched_setaffinity(None, &allowed).ok()?;
    done
}

/// Returns the mount of the file to which a task writes, and the path of the file, if its stack shows that the first argument
/// of its system call is a descriptor. Neither the link nor the `fdinfo` of a descriptor needs a lock for which a task may
/// wait (`fs/proc/fd.c`). The path alone does not show the mount: the task may have another mount namespace, as in a container.
/// Then the mount is the one of the same file system with the shortest path.
pub fn written_file<'a>(
    proc: &Path,
    task: &TaskLook,
    mounts: &'a [NodeMount],
) -> Option<(&'a NodeMount, PathBuf)> {
    const BY_DESCRIPTOR: [&str; 5] =
        ["vfs_write", "ksys_write", "ksys_pwrite64", "do_iter_", "vfs_fallocate"];
    let by_descriptor = |line: &String| BY_DESCRIPTOR.iter().any(|function| line.starts_with(function));
    task.stack.iter().find(|line| by_descriptor(line))?;
    let argument = task.syscall.split(' ').nth(1)?.strip_prefix("0x")?;
    let descriptor = u32::from_str_radix(argument, 16).ok()?;
    let dir = proc.join(task.pid.to_string());
    let info = kernel_text(&dir.join(format!("fdinfo/{descriptor}"))).ok()?;
    let id: u64 = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    let of_file_system = || {
        let own = NodeMount::all(&kernel_text(&dir.join("mountinfo")).ok()?);
        let device = own.into_iter().find(|mount| mount.id == id)?.device;
        mounts.iter().filter(|mount| mount.device == device).min_by_key(|mount| mount.target.len())
    };
    let mount = mounts.iter().find(|mount| mount.id == id).or_else(of_file_system)?;
    Some((mount, fs::read_link(dir.join(format!("fd/{descriptor}"))).ok()?))
}

/// Returns the function and the module in a line of a kernel stack, without the offset:
/// `[<0>] uvm_ioctl+0x12/0x40 [nvidia_uvm]` becomes `uvm_ioctl [nvidia_uvm]`.
fn function_of(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("] ")?;
    let (function, after) = rest.split_once('+').unwrap_or((rest, ""));
    let module = after.split_once(" [").map(|(_, module)| format!(" [{module}")).unwrap_or_default();
    Some(format!("{}{module}", function.trim()))
}

/// Adds up both kinds of context switches in a `status` file.
fn switches(status: &str) -> Option<u64> {
    let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    let mut counts = counts.map(|(_, count)| count.trim().parse::<u64>().ok());
    counts.next()??.checked_add(counts.next()??)
}

/// Parses `/proc/diskstats` (`Documentation/admin-guide/iostats.rst`).
fn disks(text: &str) -> BTreeMap<String, DiskCounters> {
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        let (major, minor, name) = (fields.first()?, fields.get(1)?, fields.get(2)?);
        let completed = number(3) + number(7) + number(14) + number(18);
        let counters = DiskCounters { name: (*name).to_owned(), completed, in_flight: number(11) };
        Some((format!("{major}:{minor}"), counters))
    };
    text.lines().filter_map(disk).collect()
}

/// Returns the processes whose fanotify group may delay accesses to files. Groups that only report accesses are left
/// out.
pub fn permission_agents(proc: &Path) -> Vec<u32> {
    with_descriptor(proc, "anon_inode:[fanotify]", answers_permission_events)
}

/// Whether the `fdinfo` of a fanotify group shows that it gets permission events
/// (`Documentation/filesystems/proc.rst`, "Fanotify files").
fn answers_permission_events(fdinfo: &str) -> bool {
    let hexadecimal = |text: &str| u64::from_str_radix(text.split(' ').next().unwrap_or_default(), 16).ok();
    let value = |line: &str, key: &str| line.split_once(key).and_then(|(_, value)| hexadecimal(value));
    let class = fdinfo.lines().find_map(|line| value(line, "fanotify flags:")).unwrap_or(0);
    let has_mark =
        || fdinfo.lines().any(|line| value(line, " mask:").is_some_and(|mask| mask & PERMISSION_EVENTS != 0));
    class & DELAYING_CLASSES != 0 && has_mark()
}

/// Returns the processes that serve the FUSE connection with this number. Kernels before 6.11 do not tell which process
/// serves which connection; then it returns a process only if no other one serves any connection.
pub fn fuse_servers(proc: &Path, connection: u64) -> Vec<u32> {
    let numbered = |info: &str| info.lines().find_map(|line| line.strip_prefix("fuse_connection:")).is_some();
    let known = with_descriptor(proc, "/dev/fuse", numbered);
    if known.is_empty() {
        let all = with_descriptor(proc, "/dev/fuse", |_| true);
        return if all.len() == 1 { all } else { Vec::new() };
    }
    with_descriptor(proc, "/dev/fuse", |info: &str| {
        let number = info.lines().find_map(|line| line.strip_prefix("fuse_connection:"));
        number.is_some_and(|number| number.trim().parse() == Ok(connection))
    })
}

/// Returns the processes with a descriptor of `target` whose `fdinfo` is accepted.
fn with_descriptor(proc: &Path, target: &str, accepts: impl Fn(&str) -> bool) -> Vec<u32> {
    let pids = KernelDir::open(proc).map(|proc| proc.numbered()).unwrap_or_default();
    let has_one = |pid: &u32| {
        let dir = proc.join(pid.to_string());
        let is_wanted = |number: &u32, link: &Path| {
            link.as_os_str() == target
                && accepts(&kernel_text(&dir.join(format!("fdinfo/{number}"))).unwrap_or_default())
        };
        descriptors(&dir).iter().any(|(number, link)| is_wanted(number, link))
    };
    pids.into_iter().filter(has_one).collect()
}

/// Returns the descriptors of the process in `dir` and the texts of their links; nothing if reading them could block.
pub(super) fn descriptors(dir: &Path) -> Vec<(u32, PathBuf)> {
    if waits_uninterruptibly(dir) {
        return Vec::new();
    }
    let Ok(fd) = KernelDir::open(&dir.join("fd")) else { return Vec::new() };
    let linked = |number: u32| Some((number, fd.link(&number.to_string()).ok()?));
    fd.numbered().into_iter().filter_map(linked).collect()
}

/// The process that holds a file lock, and the file if it could be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The process.
    pub pid: u32,
    /// The path of the file.
    pub path: Option<String>,
}

/// Returns who holds the file lock for which the process `waiter` waits; `None` if it waits for several locks.
pub fn lock_holder(proc: &Path, waiter: u32) -> Option<LockHolder> {
    let (pid, file) = holder_in(&kernel_text(&proc.join("locks")).ok()?, waiter)?;
    let dir = proc.join(pid.to_string());
    let is_of_file = |number: &u32| {
        let info = kernel_text(&dir.join(format!("fdinfo/{number}"))).unwrap_or_default();
        info.lines().any(|line| line.starts_with("lock:") && line.contains(&file))
    };
    let path = descriptors(&dir).into_iter().find(|(number, _)| is_of_file(number));
    Some(LockHolder { pid, path: path.map(|(_, path)| path.display().to_string()) })
}

/// Finds in `/proc/locks` the holder of the lock for which `waiter` waits, and the file as `device:inode`. A line with `->`
/// is a waiter of the lock with the same number.
fn holder_in(locks: &str, waiter: u32) -> Option<(u32, String)> {
    struct FileLock<'a> {
        number: &'a str,
        waits: bool,
        pid: u32,
        file: &'a str,
    }
    let locks: Vec<FileLock<'_>> = locks
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let number = words.next()?;
            let mut words = words.peekable();
            let waits = words.next_if_eq(&"->").is_some();
            let mut rest = words.skip(3);
            Some(FileLock { number, waits, pid: rest.next()?.parse().ok()?, file: rest.next()? })
        })
        .collect();
    let mut waits = locks.iter().filter(|lock| lock.waits && lock.pid == waiter);
    let wait = waits.next().filter(|wait| waits.all(|other| other.number == wait.number))?;
    let holder = locks.iter().find(|lock| !lock.waits && lock.number == wait.number)?;
    Some((holder.pid, holder.file.to_owned()))
}

/// Returns the outermost frozen cgroup around the cgroup at `path`.
pub fn frozen_around(root: &Path, path: &str) -> Option<Freeze> {
    frozen(root, [path]).into_iter().min_by_key(|freeze| freeze.path.len())
}

/// Returns the number of the FUSE connection of a mount with this device number (`fuse_ctl_add_conn` in `fs/fuse/control.c`):
/// the kernel's own form of the device number, which has 20 bits for the minor number.
pub fn fuse_connection(device: &str) -> Option<u64> {
    let (major, minor) = device.split_once(':')?;
    Some(major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?)
}

/// Returns how many requests of a FUSE connection wait; `None` if the kernel's file system of connections is not mounted.
pub fn fuse_waiting(connections: &Path, connection: u64) -> Option<u64> {
    let waiting = connections.join(connection.to_string()).join("waiting");
    fs::read_to_string(waiting).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_runs_between_two_looks_is_not_the_same_wait() {
        let look =
            TaskLook { pid: 7, tid: 7, wchan: "rtnl_lock".into(), switches: Some(5), ..TaskLook::default() };
        assert!(look.is_same_wait(&look.clone()));
        let ran = TaskLook { switches: Some(6), ..look.clone() };
        let moved = TaskLook { stack: vec!["rtnl_lock".into()], ..look.clone() };
        assert!(!look.is_same_wait(&ran) && !look.is_same_wait(&moved));
        let unknown = TaskLook { switches: None, ..look };
        assert!(!unknown.is_same_wait(&unknown.clone()));
    }

    #[test]
    fn a_healthy_thread_that_sleeps_is_left_out() {
        let own = std::process::id();
        let found = look(Path::new("/proc"), &[own]);
        assert!(found.tasks.iter().all(|task| task.state == 'D'), "{found:?}");
    }

    #[test]
    fn a_kernel_stack_keeps_functions_and_modules() {
        let line = "[<0>] uvm_ioctl+0x12/0x40 [nvidia_uvm]";
        assert_eq!(function_of(line).as_deref(), Some("uvm_ioctl [nvidia_uvm]"));
        assert_eq!(function_of("[<0>] rtnl_lock+0x15/0x20").as_deref(), Some("rtnl_lock"));
        assert_eq!(switches("voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n"), Some(9));
        assert_eq!(switches("voluntary_ctxt_switches:\t7\n"), None);
    }

    /// The lines that Linux 6.18 wrote for two `flock` commands, and for an unrelated lock.
    #[test]
    fn the_holder_of_a_lock_has_the_number_of_the_waiter() {
        let locks = "10: FLOCK  ADVISORY  WRITE 20843 fe:00:10018821 0 EOF\n\
                     11: FLOCK  ADVISORY  WRITE 26656 fe:00:10421409 0 EOF\n\
                     11: -> FLOCK  ADVISORY  WRITE 26659 fe:00:10421409 0 EOF\n";
        assert_eq!(holder_in(locks, 26659), Some((26656, "fe:00:10421409".to_owned())));
        assert_eq!(holder_in(locks, 20843), None);
        let two = format!("{locks}10: -> FLOCK  ADVISORY  WRITE 26659 fe:00:10018821 0 EOF\n");
        assert_eq!(holder_in(&two, 26659), None, "nobody knows which of its tasks waits for which lock");
    }

    #[test]
    fn a_connection_has_the_kernels_own_device_number() {
        assert_eq!(fuse_connection("0:53"), Some(53));
        // fuseblk: an NTFS on /dev/sda1.
        assert_eq!(fuse_connection("8:1"), Some(8_388_609));
        assert_eq!(fuse_connection("53"), None);
    }

    #[test]
    fn a_task_that_sleeps_has_not_run_for_longer_and_longer() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let dir = Path::new("/proc").join(child.id().to_string());
        let read = |name: &str| kernel_text(&dir.join(name)).unwrap();
        let look = || TaskLook {
            processor: ProcessStat::parse(&read("stat")).unwrap().processor,
            last_ran: last_ran(&read("sched")),
            ..TaskLook::default()
        };
        let asleep = loop {
            let task = look();
            if read("wchan").contains("nanosleep") && look() == task {
                break task;
            }
        };
        let not_run = || not_run_for(Path::new("/proc"), &asleep).unwrap();
        let once = not_run();
        while not_run() <= once {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(not_run_for(Path::new("/proc"), &TaskLook::default()), None);
        let no_such_processor = TaskLook { processor: u32::MAX, ..asleep };
        assert_eq!(not_run_for(Path::new("/proc"), &no_such_processor), None);
    }

    #[test]
    fn only_a_group_with_permission_events_delays_accesses() {
        let group = |class: &str, mask: &str| {
            format!(
                "pos:\t0\nfanotify flags:{class} event-flags:8000\nfanotify mnt_id:30 mflags:0 mask:{mask} \
                 ignored_mask:0\n"
            )
        };
        assert!(answers_permission_events(&group("5", "10000")));
        assert!(answers_permission_events(&group("8", "40020")));
        assert!(!answers_permission_events(&group("5", "20")));
        assert!(!answers_permission_events(&group("1", "10000")));
        assert!(!answers_permission_events(""));
    }
}
