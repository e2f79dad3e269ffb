//! Reads one process of a process table without blocking: it does not read `cmdline`, `exe`, `fd` or `cwd` of a
//! process with a task in uninterruptible sleep.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cgroup;
use super::stat::{ProcessStat, is_stopped, is_zombie, of_ticks, state_of};
use super::trust::{Disqualification, ProcessTrust};
use super::waits::is_relevant_sleep;
use crate::host::{Arguments, KernelDir, kernel_bytes, kernel_record, kernel_text};

/// The page size in `/proc/<pid>/stat`.
pub const PAGE: u64 = 4096;

/// The role of a process on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The kubelet, or a program that may contain the kubelet.
    Kubelet,
    /// The runtime's daemon.
    Daemon,
    /// A shim, or CRI-O's conmon.
    Shim,
    /// An OCI runtime such as runc.
    OciRuntime,
    /// Any other process.
    #[default]
    Other,
}

impl Role {
    /// Returns the role that belongs to a process name of the kernel, which has at most 15 bytes.
    pub fn of(comm: &str) -> Self {
        match comm {
            "kubelet" | "kubelite" | "hyperkube" | "k3s" | "k3s-server" | "k3s-agent" | "k3s server"
            | "k3s agent" => Self::Kubelet,
            "containerd" | "crio" | "dockerd" | "cri-dockerd" => Self::Daemon,
            "conmon" | "conmonrs" => Self::Shim,
            "runc" | "crun" | "runsc" | "youki" => Self::OciRuntime,
            _ if comm.starts_with("containerd-shim") => Self::Shim,
            _ if comm.starts_with("runc:[") => Self::OciRuntime,
            _ => Self::Other,
        }
    }
}

/// How many details of shims are read. A node has hundreds of shims with a dozen threads each, and the details of
/// shims that answer are not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shims {
    /// Only their existence and state.
    Counted,
    /// Their threads and command lines too.
    #[default]
    Detailed,
}

/// A thread in uninterruptible sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Thread id.
    pub tid: u32,
    /// The kernel function in which the thread waits, if readable.
    pub wchan: String,
    /// The kernel stack, if readable (root only).
    pub stack: Vec<String>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// The process id of the parent.
    pub parent: u32,
    /// The kernel's name of the process.
    pub comm: String,
    /// The role.
    pub role: Role,
    /// The role that the name suggests, if the process does not qualify for this role, and the reason.
    pub impostor: Option<(Role, Disqualification)>,
    /// Whether the process runs as plegctl's own user, if this user is not root.
    pub is_own: bool,
    /// The state letter, such as `S`, `D` or `T`.
    pub state: char,
    /// Age at the time of reading.
    pub age: Duration,
    /// Number of threads.
    pub threads: u64,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Whether this is a kernel thread, which belongs to no container.
    pub is_kernel_thread: bool,
    /// CPU time so far.
    pub cpu: Duration,
    /// The most specific cgroup path.
    pub cgroup: String,
    /// The cgroup path in the hierarchy of the CPU controller, for the kubelet and the daemon only.
    pub cpu_cgroup: String,
    /// The container, from the cgroup.
    pub container_id: Option<String>,
    /// The pod, from the cgroup.
    pub pod_uid: Option<String>,
    /// The threads in uninterruptible sleep.
    pub blocked: Vec<Blocked>,
    /// Whether a thread is in a relevant interruptible sleep; see [`is_relevant_sleep`].
    pub sleeps: bool,
    /// The command line; empty if a thread is in uninterruptible sleep.
    pub command: Arguments,
    /// The working directory, for kubelets only and if readable.
    pub directory: Option<PathBuf>,
    /// Number of open file descriptors, for the kubelet and the daemon only.
    pub descriptors: Option<u64>,
    /// The soft limit of open file descriptors.
    pub descriptor_limit: Option<u64>,
    /// The hard limit, up to which the soft limit can be raised; `None` also if there is none.
    pub descriptor_hard_limit: Option<u64>,
}

impl Process {
    /// Returns `comm[pid]`, the usual notation of a process.
    pub fn label(&self) -> String {
        format!("{}[{}]", self.comm, self.pid)
    }

    /// Whether the process unmounts a file system.
    pub fn is_umount(&self) -> bool {
        self.comm.starts_with("umount")
    }

    /// Whether the process is stopped by a signal or a tracer.
    pub const fn is_stopped(&self) -> bool {
        is_stopped(self.state)
    }

    /// Whether the process has ended and its parent has not reaped it yet.
    pub const fn is_zombie(&self) -> bool {
        is_zombie(self.state)
    }

    /// Returns the value of a flag on the command line.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.command.flag(name)
    }
}

/// An open process table, with what is needed to read its processes.
pub(super) struct OpenedTable<'a> {
    /// The directory.
    pub path: &'a Path,
    /// The opened directory.
    pub dir: KernelDir,
    /// The node's uptime.
    pub uptime: Duration,
    /// Decides which processes qualify.
    pub trust: ProcessTrust,
}

/// Reads one process; `None` if it has ended. A shim's threads and command line are only read if `shims` requires it.
pub(super) fn read(table: &OpenedTable<'_>, pid: u32, shims: Shims) -> Option<Process> {
    let stat = table.dir.record(&format!("{pid}/stat")).ok()?;
    let mut process = of_stat(ProcessStat::parse(&stat)?, pid, table.uptime);
    if !process.is_kernel_thread {
        let cgroups = table.dir.record(&format!("{pid}/cgroup")).unwrap_or_default();
        let (path, id) = cgroup::path_of(&cgroups);
        path.clone_into(&mut process.cgroup);
        process.container_id = id.map(str::to_owned);
        process.pod_uid = cgroup::pod_uid_of(path);
        if matches!(process.role, Role::Kubelet | Role::Daemon) {
            cgroup::cpu_path(&cgroups).clone_into(&mut process.cpu_cgroup);
        }
    }
    if process.role == Role::Other && process.state != 'D' {
        return Some(process);
    }
    let dir = &table.path.join(pid.to_string());
    // Open the directory once, so that all reads are of the same process.
    let opened = KernelDir::open(dir).ok()?;
    if process.role != Role::Other {
        let awake = process.state != 'D' && (process.role == Role::Shim || !waits_uninterruptibly(dir));
        match table.trust.judge(&opened, process.role, awake) {
            Ok(is_own) => process.is_own = is_own,
            // The first process of a new container has the OCI runtime's name too, but is not an OCI runtime.
            Err(why) => {
                process.impostor = Some((process.role, why));
                process.role = Role::Other;
                if process.state != 'D' {
                    return Some(process);
                }
            }
        }
    }
    let is_daemon = matches!(process.role, Role::Kubelet | Role::Daemon);
    let with_details = match process.role {
        Role::Other => false,
        Role::Shim => shims == Shims::Detailed,
        Role::Kubelet | Role::Daemon | Role::OciRuntime => true,
    };
    if with_details {
        (process.blocked, process.sleeps) = waiting_threads(dir);
    } else if process.state == 'D' {
        process.blocked = vec![blocked(dir, pid)];
    }
    // A thread in uninterruptible sleep may hold the lock of the address space, which reading `cmdline` needs.
    if process.state != 'D' && process.blocked.is_empty() && with_details {
        process.command = Arguments::from_cmdline(&opened.bytes("cmdline").unwrap_or_default());
    }
    if is_daemon && process.state != 'D' && process.blocked.is_empty() {
        process.directory = if process.role == Role::Kubelet { opened.link("cwd").ok() } else { None };
        process.descriptors = descriptors(dir);
        [process.descriptor_limit, process.descriptor_hard_limit] = descriptor_limits(dir);
    }
    Some(process)
}

/// Whether reading the memory or the files of the process in `dir` could block, because one of its threads is in
/// uninterruptible sleep and may hold a lock that the read needs. True also if the state of the process cannot be read.
pub fn waits_uninterruptibly(dir: &Path) -> bool {
    match state_of(&kernel_record(&dir.join("stat")).unwrap_or_default()) {
        None | Some('D') => true,
        Some(_) => !waiting_threads(dir).0.is_empty(),
    }
}

/// Returns the command line of the process in `dir`; empty if reading it could block or the process has ended.
pub fn command_line(dir: &Path) -> Arguments {
    if waits_uninterruptibly(dir) { Arguments::default() } else { unguarded_command_line(dir) }
}

fn of_stat(stat: ProcessStat, pid: u32, uptime: Duration) -> Process {
    Process {
        pid,
        parent: stat.parent,
        role: Role::of(&stat.comm),
        comm: stat.comm,
        state: stat.state,
        age: uptime.saturating_sub(of_ticks(stat.started_ticks)),
        is_kernel_thread: stat.is_kernel_thread,
        threads: stat.threads,
        resident: stat.resident_pages.saturating_mul(PAGE),
        cpu: of_ticks(stat.cpu_ticks),
        ..Process::default()
    }
}

/// Returns the threads in uninterruptible sleep, and whether another thread is in a relevant interruptible sleep.
fn waiting_threads(dir: &Path) -> (Vec<Blocked>, bool) {
    let path = dir.join("task");
    let (mut found, mut sleeps) = (Vec::new(), false);
    let Ok(tasks) = KernelDir::open(&path) else {
        return (found, sleeps);
    };
    for tid in tasks.numbered() {
        let text = |name: &str| tasks.record(&format!("{tid}/{name}")).unwrap_or_default();
        match state_of(&text("stat")) {
            Some('D') => found.push(blocked(&path.join(tid.to_string()), tid)),
            Some('S') => sleeps = sleeps || is_relevant_sleep(text("wchan").trim()),
            _ => {}
        }
    }
    (found, sleeps)
}

fn blocked(dir: &Path, tid: u32) -> Blocked {
    Blocked {
        tid,
        wchan: kernel_text(&dir.join("wchan")).unwrap_or_default().trim().to_owned(),
        stack: kernel_text(&dir.join("stack"))
            .unwrap_or_default()
            .lines()
            .take(32)
            .map(|line| line.trim().to_owned())
            .collect(),
    }
}

fn unguarded_command_line(dir: &Path) -> Arguments {
    Arguments::from_cmdline(&kernel_bytes(&dir.join("cmdline")).unwrap_or_default())
}

fn descriptors(dir: &Path) -> Option<u64> {
    u64::try_from(fs::read_dir(dir.join("fd")).ok()?.count()).ok()
}

/// Returns the soft and the hard limit of open file descriptors.
fn descriptor_limits(dir: &Path) -> [Option<u64>; 2] {
    let text = kernel_text(&dir.join("limits")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    [(); 2].map(|()| words.next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_pages_become_durations_and_bytes() {
        let text = "7 (x) D 3 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1000 4096 2 0";
        let process = of_stat(ProcessStat::parse(text).unwrap(), 7, Duration::from_secs(60));
        assert_eq!(process.age, Duration::from_secs(50));
        assert_eq!(process.cpu, Duration::from_secs(2));
        assert_eq!(process.resident, 8192);
    }
}
