//! Reads one process of a process table without blocking: it does not read `cmdline`, `exe`, `fd` or `cwd` of a
//! process with a task in uninterruptible sleep.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::monitor::{self, is_conmon};
use super::stat::{ProcessStat, is_stopped, is_zombie, of_ticks, state_of};
use super::trust::{Disqualification, ProcessTrust};
use super::waits::is_relevant_sleep;
use crate::host::{Arguments, KernelDir, kernel_bytes, kernel_record, kernel_text};
use plegctl_base::report::{Rename, is_zero};

/// The page size in `/proc/<pid>/stat`.
pub const PAGE: u64 = 4096;

/// The role of a process on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Shims {
    /// Only their existence and state, and the cgroups of conmons. Whether they qualify as shims is checked only for those that are stopped or
    /// in uninterruptible sleep.
    Counted,
    /// Their threads and command lines too.
    #[default]
    Detailed,
}

/// A thread in uninterruptible sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Function(wchan, stack))]
#[serde(rename_all = "camelCase", default)]
pub struct Blocked {
    /// Thread id.
    pub tid: u32,
    /// The kernel function in which the thread waits, if readable.
    pub wchan: String,
    /// The kernel stack, if readable (root only).
    pub stack: Vec<String>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Process(comm), NodePath(cgroup, cpu_cgroup), Id(container_id, pod_uid), emptied(directory))]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// The process id of the parent.
    pub parent: u32,
    /// The kernel's name of the process.
    pub comm: String,
    /// The role.
    #[serde(skip_serializing_if = "is_zero")]
    pub role: Role,
    /// The role that the name suggests, if the process does not qualify for this role, and the reason.
    #[serde(skip_serializing_if = "is_zero")]
    pub impostor: Option<(Role, Disqualification)>,
    /// Whether the process runs as plegctl's own user, if this user is not root.
    #[serde(skip_serializing_if = "is_zero")]
    pub is_own: bool,
    /// The state letter, such as `S`, `D` or `T`.
    pub state: char,
    /// Age at the time of reading.
    pub age: Duration,
    /// Number of threads.
    pub threads: u64,
    /// Resident memory in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub resident: u64,
    /// Whether this is a kernel thread, which belongs to no container.
    #[serde(skip_serializing_if = "is_zero")]
    pub is_kernel_thread: bool,
    /// CPU time so far.
    pub cpu: Duration,
    /// The most specific cgroup path; empty if it was not read.
    #[serde(skip_serializing_if = "is_zero")]
    pub cgroup: String,
    /// The cgroup path in the hierarchy of the CPU controller, for the kubelet and the daemon only.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_cgroup: String,
    /// The container, from the cgroup.
    #[serde(skip_serializing_if = "is_zero")]
    pub container_id: Option<String>,
    /// The pod, from the cgroup.
    #[serde(skip_serializing_if = "is_zero")]
    pub pod_uid: Option<String>,
    /// The threads in uninterruptible sleep.
    #[serde(skip_serializing_if = "is_zero")]
    pub blocked: Vec<Blocked>,
    /// Whether a thread is in a relevant interruptible sleep; see [`is_relevant_sleep`].
    #[serde(skip_serializing_if = "is_zero")]
    pub sleeps: bool,
    /// The command line; empty if a thread is in uninterruptible sleep. Only the words that rules read travel.
    #[serde(serialize_with = "monitor::known_words", skip_serializing_if = "is_zero")]
    pub command: Arguments,
    /// The working directory, for kubelets only and if readable.
    #[serde(skip)]
    pub directory: Option<PathBuf>,
    /// Number of open file descriptors, for the kubelet and the daemon only.
    #[serde(skip_serializing_if = "is_zero")]
    pub descriptors: Option<u64>,
    /// The soft limit of open file descriptors.
    #[serde(skip_serializing_if = "is_zero")]
    pub descriptor_limit: Option<u64>,
    /// The hard limit, up to which the soft limit can be raised; `None` also if there is none.
    #[serde(skip_serializing_if = "is_zero")]
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

    /// Whether the cgroup can be read and was not.
    pub(super) const fn lacks_cgroup(&self) -> bool {
        self.cgroup.is_empty() && !self.is_kernel_thread
    }

    /// Takes over the cgroup of an ancestor.
    pub(super) fn inherit_cgroup(&mut self, ancestor: &Self) {
        self.cgroup.clone_from(&ancestor.cgroup);
        self.container_id.clone_from(&ancestor.container_id);
        self.pod_uid.clone_from(&ancestor.pod_uid);
    }

    /// Reads the cgroup of the process from the process table `proc`.
    pub(super) fn add_cgroup(&mut self, proc: &KernelDir) {
        if self.is_kernel_thread {
            return;
        }
        let cgroups = proc.record(&format!("{}/cgroup", self.pid)).unwrap_or_default();
        let (path, id) = cgroup::path_of(&cgroups);
        self.set_cgroup(path, id);
        if matches!(self.role, Role::Kubelet | Role::Daemon) {
            cgroup::path_in(&cgroups, "cpu").clone_into(&mut self.cpu_cgroup);
        }
    }

    /// Takes the cgroup from one tree of cgroup v1, if it is the cgroup of a container there: such a path is the same in all trees,
    /// and the kernel then formats one path instead of a dozen.
    fn add_cgroup_of_one_tree(&mut self, proc: &KernelDir) -> bool {
        let path = proc.record(&format!("{}/cpuset", self.pid)).unwrap_or_default();
        let path = path.trim_end_matches('\n');
        let id = cgroup::path_id(path);
        if id.is_some() {
            self.set_cgroup(path, id);
        }
        id.is_some()
    }

    fn set_cgroup(&mut self, path: &str, container_id: Option<&str>) {
        path.clone_into(&mut self.cgroup);
        self.container_id = container_id.map(str::to_owned);
        self.pod_uid = cgroup::pod_uid_of(path);
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
    /// Whether each controller has a tree of cgroups of its own, as in cgroup v1.
    pub has_cgroup_trees: bool,
}

/// How much of a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Only what `stat` shows.
    Stat,
    /// Its cgroup too.
    Cgroup,
    /// Whether it qualifies for its role, and the details of this role.
    Details,
}

impl Extent {
    /// Returns what of a process is needed. `wants_cgroup` tells whether the cgroup of a process without a role is.
    fn needed(pid: u32, stat: &ProcessStat, shims: Shims, wants_cgroup: impl FnOnce() -> bool) -> Self {
        match Role::of(&stat.comm) {
            // The table may be some hundred milliseconds old, and D15 compares the processor time of process 1.
            _ if stat.state == 'D' || pid == 1 => Self::Details,
            Role::Other if stat.is_kernel_thread => Self::Stat,
            Role::Other if wants_cgroup() => Self::Cgroup,
            Role::Other => Self::Stat,
            // The cgroup of a conmon names its container; a shim is in the cgroup of the daemon.
            Role::Shim if shims == Shims::Counted && !stat.is_stopped() => {
                if is_conmon(&stat.comm) {
                    Self::Cgroup
                } else {
                    Self::Stat
                }
            }
            Role::Shim | Role::Kubelet | Role::Daemon | Role::OciRuntime => Self::Details,
        }
    }
}

/// Reads one process, whose `stat` is known; `None` if it has ended. The cgroup of a process without a role is read only if
/// `wants_cgroup` says so. The threads and the command line of a shim are only read if `shims` requires it.
pub(super) fn read(
    table: &OpenedTable<'_>,
    pid: u32,
    stat: &ProcessStat,
    shims: Shims,
    wants_cgroup: impl FnOnce() -> bool,
) -> Option<Process> {
    match Extent::needed(pid, stat, shims, wants_cgroup) {
        Extent::Stat => Some(of_stat(stat.clone(), pid, table.uptime)),
        Extent::Cgroup => {
            let mut process = of_stat(stat.clone(), pid, table.uptime);
            if !(table.has_cgroup_trees && process.add_cgroup_of_one_tree(&table.dir)) {
                process.add_cgroup(&table.dir);
            }
            Some(process)
        }
        Extent::Details => read_details(table, pid, shims),
    }
}

fn read_details(table: &OpenedTable<'_>, pid: u32, shims: Shims) -> Option<Process> {
    let stat = table.dir.record(&format!("{pid}/stat")).ok()?;
    let mut process = of_stat(ProcessStat::parse(&stat)?, pid, table.uptime);
    process.add_cgroup(&table.dir);
    if process.role == Role::Other && process.state != 'D' {
        return Some(process);
    }
    let dir = &table.path.join(pid.to_string());
    // Open the directory once, so that all reads are of the same process.
    let opened = KernelDir::open(dir).ok()?;
    let has_details = process.role != Role::Other && (process.role != Role::Shim || shims == Shims::Detailed);
    if has_details {
        (process.blocked, process.sleeps) = waiting_threads(dir);
    }
    let is_awake = process.state != 'D' && process.blocked.is_empty();
    if process.role != Role::Other {
        // The program of a shim is on a local disk, and reading its link does not wait for the threads of the shim.
        let has_readable_program = process.state != 'D' && (process.role == Role::Shim || is_awake);
        match table.trust.judge(&opened, process.role, has_readable_program) {
            Ok(is_own) => process.is_own = is_own,
            // The first process of a new container has the OCI runtime's name too, but is not an OCI runtime.
            Err(why) => {
                process.impostor = Some((process.role, why));
                process.role = Role::Other;
                (process.blocked, process.sleeps) = (Vec::new(), false);
            }
        }
    }
    if process.state == 'D' && (process.role == Role::Other || !has_details) {
        process.blocked = vec![blocked(dir, pid)];
    }
    if process.role == Role::Other || !has_details {
        return Some(process);
    }
    // A thread in uninterruptible sleep may hold the lock of the address space, which reading `cmdline` needs.
    if is_awake {
        process.command = Arguments::from_cmdline(&opened.bytes("cmdline").unwrap_or_default());
    }
    if is_awake && matches!(process.role, Role::Kubelet | Role::Daemon) {
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

/// Returns the number of open descriptors. Linux 6.2 and later show it as the size of the directory, whose entries then need
/// not be listed.
pub(super) fn descriptors(dir: &Path) -> Option<u64> {
    let descriptors = dir.join("fd");
    let is_proc = statfs(&descriptors).ok()?.f_type == PROC_SUPER_MAGIC;
    let size = fs::metadata(&descriptors).ok()?.len();
    if is_proc && size > 0 {
        return Some(size);
    }
    u64::try_from(fs::read_dir(&descriptors).ok()?.count()).ok()
}

/// Returns the soft and the hard limit of open file descriptors.
pub(super) fn descriptor_limits(dir: &Path) -> [Option<u64>; 2] {
    let text = kernel_text(&dir.join("limits")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    [(); 2].map(|()| words.next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::super::copies::{KUBELET, ProcTable, TableProcess};
    use super::*;

    #[test]
    fn the_cgroup_of_a_container_is_read_from_one_tree_of_version_1() {
        let container = format!("/kubepods/podu-1/{}", "0a".repeat(32));
        let table = ProcTable::new("trees").unwrap();
        for (pid, cpuset) in [(7, container.as_str()), (8, "/")] {
            table.process(pid, &TableProcess { comm: "app", cgroup: "/other", ..KUBELET }).unwrap();
            fs::write(table.proc().join(format!("{pid}/cpuset")), format!("{cpuset}\n")).unwrap();
        }
        let path = table.proc();
        let cgroup = |has_cgroup_trees: bool, pid: u32| {
            let dir = KernelDir::open(&path).unwrap();
            let trust = ProcessTrust::of_table(&path);
            let opened =
                OpenedTable { path: &path, dir, uptime: Duration::from_secs(60), trust, has_cgroup_trees };
            let stat = ProcessStat::read(&path.join(pid.to_string())).unwrap();
            read(&opened, pid, &stat, Shims::Counted, || true).unwrap().cgroup
        };
        assert_eq!((cgroup(true, 7), cgroup(true, 8)), (container, "/other".to_owned()));
        assert_eq!(cgroup(false, 7), "/other");
    }

    #[test]
    fn ticks_and_pages_become_durations_and_bytes() {
        let text = "7 (x) D 3 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1000 4096 2 0";
        let process = of_stat(ProcessStat::parse(text).unwrap(), 7, Duration::from_secs(60));
        assert_eq!(process.age, Duration::from_secs(50));
        assert_eq!(process.cpu, Duration::from_secs(2));
        assert_eq!(process.resident, 8192);
    }
}
