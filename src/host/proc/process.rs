//! One process, read without touching what can block: never `cmdline`, `exe`, `fd` or `cwd` of a task that waits
//! uninterruptibly.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cgroup;
use super::trust::{Refusal, Trust};
use crate::host::{Arguments, KernelDir, kernel_bytes, kernel_record, kernel_text};

/// `/proc` counts in these, whatever the kernel ticks at (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;
/// The flag in `/proc/<pid>/stat` of a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Page size that `/proc/<pid>/stat` counts in.
const PAGE: u64 = 4096;

/// What a process is to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The kubelet, or a program that may have it inside.
    Kubelet,
    /// The runtime's daemon.
    Daemon,
    /// A shim, or CRI-O's monitor.
    Shim,
    /// runc and its like.
    OciRuntime,
    /// Anything else.
    #[default]
    Other,
}

impl Role {
    /// By the kernel's name of the process, which is cut to 15 bytes.
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

/// How shims are read. A node has hundreds, each with a dozen threads, and of those that answer there is nothing to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shims {
    /// Only that they are there, and in which state.
    Counted,
    /// With their threads and their command lines.
    #[default]
    LookedInto,
}

/// A task of a process that waits uninterruptibly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Thread id.
    pub tid: u32,
    /// Kernel function it waits in, if readable.
    pub wchan: String,
    /// Kernel stack, if readable (root).
    pub stack: Vec<String>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Kernel's name of it.
    pub comm: String,
    /// What it is to us.
    pub role: Role,
    /// The role that its name claims and that it does not have, and why not.
    pub impostor: Option<(Role, Refusal)>,
    /// Whether it runs as we do, where we are not root.
    pub is_own: bool,
    /// State letter.
    pub state: char,
    /// Age when it was read.
    pub age: Duration,
    /// Threads.
    pub threads: u64,
    /// Resident bytes.
    pub resident: u64,
    /// Whether it is a thread of the kernel, which belongs to no container.
    pub of_the_kernel: bool,
    /// CPU time used so far.
    pub cpu: Duration,
    /// The cgroup path that says most.
    pub cgroup: String,
    /// The container it belongs to by its cgroup.
    pub container_id: Option<String>,
    /// The pod it belongs to by its cgroup.
    pub pod_uid: Option<String>,
    /// Tasks of it that wait uninterruptibly.
    pub blocked: Vec<Blocked>,
    /// Command line; never of a process that waits uninterruptibly.
    pub command: Arguments,
    /// Working directory, of kubelets only and where it may be read.
    pub directory: Option<PathBuf>,
    /// Open descriptors, of kubelet and daemon only.
    pub descriptors: Option<u64>,
    /// Its soft limit of them.
    pub descriptor_limit: Option<u64>,
}

impl Process {
    /// `comm[pid]`, as people write it.
    pub fn label(&self) -> String {
        format!("{}[{}]", self.comm, self.pid)
    }

    /// Stopped by a signal or a tracer.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Dead and not yet waited for.
    pub const fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// The value of a flag of its command line.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.command.flag(name)
    }
}

/// A process table that is read.
pub(super) struct Table<'a> {
    /// Its directory.
    pub path: &'a Path,
    /// The same, opened.
    pub dir: KernelDir,
    /// How long the node has run.
    pub uptime: Duration,
    /// Which of its processes count.
    pub trust: Trust,
}

/// Reads one process; `None` if it has gone. Of a shim's threads and command line only if `shims` are looked into.
pub(super) fn read(table: &Table<'_>, pid: u32, shims: Shims) -> Option<Process> {
    let stat = table.dir.record(&format!("{pid}/stat")).ok()?;
    let mut process = parse_stat(&stat, pid, table.uptime)?;
    if !process.of_the_kernel {
        let cgroups = table.dir.record(&format!("{pid}/cgroup")).unwrap_or_default();
        let (path, id) = cgroup::path_of(&cgroups);
        path.clone_into(&mut process.cgroup);
        process.container_id = id.map(str::to_owned);
        process.pod_uid = cgroup::pod_uid_of(path);
    }
    if process.role == Role::Other && process.state != 'D' {
        return Some(process);
    }
    let dir = &table.path.join(pid.to_string());
    // Opened once, so that all that is read from here on is of one process.
    let opened = KernelDir::open(dir).ok()?;
    if process.role != Role::Other {
        let awake = process.state != 'D' && (process.role == Role::Shim || !waits_uninterruptibly(dir));
        match table.trust.judge(&opened, process.role, awake) {
            Ok(is_own) => process.is_own = is_own,
            // The first process of a container that is created has the OCI runtime's name too, and claims nothing.
            Err(why) => {
                process.impostor = Some((process.role, why));
                process.role = Role::Other;
                if process.state != 'D' {
                    return Some(process);
                }
            }
        }
    }
    let daemon = matches!(process.role, Role::Kubelet | Role::Daemon);
    let looked_into = match process.role {
        Role::Other => false,
        Role::Shim => shims == Shims::LookedInto,
        Role::Kubelet | Role::Daemon | Role::OciRuntime => true,
    };
    process.blocked = if looked_into {
        blocked_threads(dir)
    } else if process.state == 'D' {
        vec![blocked(dir, pid)]
    } else {
        Vec::new()
    };
    // Any thread that waits uninterruptibly may hold the lock of the address space, which `cmdline` needs.
    if process.state != 'D' && process.blocked.is_empty() && looked_into {
        process.command = Arguments::of_kernel(&opened.bytes("cmdline").unwrap_or_default());
    }
    if daemon && process.state != 'D' && process.blocked.is_empty() {
        process.directory = if process.role == Role::Kubelet { opened.link("cwd").ok() } else { None };
        process.descriptors = descriptors(dir);
        process.descriptor_limit = descriptor_limit(dir);
    }
    Some(process)
}

/// Whether the process in `dir` is not to be asked for what needs its address space or its files: one of its threads
/// waits uninterruptibly, and may hold the lock that the answer needs. One that cannot be looked at is not asked either.
pub fn waits_uninterruptibly(dir: &Path) -> bool {
    match state_of(&kernel_record(&dir.join("stat")).unwrap_or_default()) {
        None | Some('D') => true,
        Some(_) => !blocked_threads(dir).is_empty(),
    }
}

/// The command line of the process in `dir`; empty where it waits uninterruptibly or is dead.
pub fn command_line(dir: &Path) -> Arguments {
    if waits_uninterruptibly(dir) { Arguments::default() } else { unguarded_command_line(dir) }
}

fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn parse_stat(text: &str, pid: u32, uptime: Duration) -> Option<Process> {
    let (front, back) = text.rsplit_once(')')?;
    let comm = front.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = back.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let started = ticks(number(19));
    Some(Process {
        pid,
        parent: u32::try_from(number(1)).unwrap_or(0),
        role: Role::of(&comm),
        comm,
        state: fields.first()?.chars().next()?,
        age: uptime.saturating_sub(started),
        of_the_kernel: number(6) & KERNEL_THREAD != 0,
        threads: number(17),
        resident: number(21).saturating_mul(PAGE),
        cpu: ticks(number(11).saturating_add(number(12))),
        ..Process::default()
    })
}

const fn ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(1000 / TICKS_PER_SECOND))
}

fn blocked_threads(dir: &Path) -> Vec<Blocked> {
    let path = dir.join("task");
    let Ok(tasks) = KernelDir::open(&path) else {
        return Vec::new();
    };
    let waits = |tid: &u32| {
        let stat = tasks.record(&format!("{tid}/stat")).unwrap_or_default();
        state_of(&stat) == Some('D')
    };
    let threads = tasks.numbered();
    threads.into_iter().filter(waits).map(|tid| blocked(&path.join(tid.to_string()), tid)).collect()
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
    Arguments::of_kernel(&kernel_bytes(&dir.join("cmdline")).unwrap_or_default())
}

fn descriptors(dir: &Path) -> Option<u64> {
    u64::try_from(fs::read_dir(dir.join("fd")).ok()?.count()).ok()
}

fn descriptor_limit(dir: &Path) -> Option<u64> {
    let text = kernel_text(&dir.join("limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b (c) D 3 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1000 4096 2 0";
        let process = parse_stat(text, 7, Duration::from_secs(60)).unwrap();
        assert_eq!(process.comm, "a) b (c");
        assert_eq!((process.state, process.parent, process.threads), ('D', 3, 9));
        assert_eq!(process.age, Duration::from_secs(50));
        assert_eq!(process.cpu, Duration::from_secs(2));
        assert_eq!(process.resident, 8192);
    }
}
