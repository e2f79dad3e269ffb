//! Reads the node's processes, pressure, memory, mounts and cgroups from `/proc` and the cgroup file system into a
//! [`ProcSample`].
//!
//! Reading can block, so call [`read`] in a thread that can be abandoned; it sends its results section by section. It
//! opens no mount point, because a dead file server could block it, and reads only such files of a process in
//! uninterruptible sleep that do not wait for the process.

pub mod cgroup;
pub mod clients;
#[cfg(any(test, feature = "testing"))]
pub mod copies;
pub mod limits;
pub(super) mod monitor;
mod node;
mod process;
mod stat;
mod tcp;
mod trust;
pub mod usage;
pub mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plegctl_base::report::Rename;
use serde::{Deserialize, Serialize};

pub use monitor::{conmon_container, is_conmon, monitored_ids, sub_command};
pub use node::{
    CgroupSection, CpuTimes, DaemonCgroup, Freeze, Memory, NodeMount, NodePressure, NodeSection, PidsCgroup,
    Psi, ResourcePressure, Tasks, Throttled,
};
pub use process::PAGE;
pub use process::{Blocked, Process, Role, Shims, command_line, waits_uninterruptibly};
use stat::CgroupSource;
pub use stat::of_ticks;
pub use stat::{ProcessStat, StatTable};
pub use tcp::{TcpSocket, is_connected};
pub use trust::{Disqualification, KubeletCandidate, KubeletChoice, ProcessTrust, is_service};

use crate::host::{KernelDir, kernel_text};

/// Whether a process table belongs to the runtime that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Ownership {
    /// Not known yet.
    #[default]
    Unknown,
    /// The runtime runs in this process table.
    OfRuntime {
        /// The runtime's daemon, if known.
        daemon: Option<u32>,
    },
    /// Neither the owner of the socket nor any listed container is in this process table.
    Foreign,
}

/// One reading of the node's state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Rename)]
#[names(kept(vmstat), then(keep_known_counters))]
#[serde(rename_all = "camelCase", default)]
pub struct ProcSample {
    /// Whether all sections were read in time.
    pub complete: bool,
    /// Processes by id.
    pub processes: BTreeMap<u32, Process>,
    /// How many details of the shims were read.
    pub shims: Shims,
    /// The process that listens on the runtime's socket.
    pub socket_owner: Option<u32>,
    /// Pressure (PSI) by resource.
    pub pressure: NodePressure,
    /// Memory.
    pub memory: Memory,
    /// CPU time by kind.
    pub cpu: CpuTimes,
    /// Counters of the kernel's memory management.
    pub vmstat: BTreeMap<String, u64>,
    /// The number of tasks and its limits.
    pub tasks: Tasks,
    /// The numbers of processes in the cgroups of the kubelet, the daemon and the pods, where they have a limit.
    pub pids: Vec<PidsCgroup>,
    /// All mounts that this process sees.
    pub mounts: Vec<NodeMount>,
    /// Frozen cgroups of pods.
    pub frozen: Vec<Freeze>,
    /// The figures of the daemon's own cgroup.
    pub daemon_cgroup: DaemonCgroup,
}

impl ProcSample {
    /// Removes the counters that no rule uses.
    fn keep_known_counters(&mut self) {
        self.vmstat.retain(|name, _| node::VMSTAT.contains(&name.as_str()));
    }

    /// Returns the processes with this role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |process| process.role == role)
    }

    /// Returns the processes that have a name of this role but do not qualify, with the reason.
    pub fn impostors(&self, role: Role) -> impl Iterator<Item = (&Process, &Disqualification)> {
        self.processes.values().filter_map(move |process| {
            let (claimed, why) = process.impostor.as_ref()?;
            (*claimed == role).then_some((process, why))
        })
    }

    /// Returns the pressure on the resource that `resource` selects, on the node and in the daemon's cgroup.
    pub fn pressure_on(&self, resource: fn(&NodePressure) -> Option<Psi>) -> ResourcePressure {
        ResourcePressure { node: resource(&self.pressure), daemon: resource(&self.daemon_cgroup.pressure) }
    }

    /// Returns the mounts whose server may be unreachable.
    pub fn remote_mounts(&self) -> impl Iterator<Item = &NodeMount> {
        self.mounts.iter().filter(|mount| mount.is_remote())
    }

    /// Returns the ids of the containers that have a running process.
    pub fn living_containers(&self) -> BTreeSet<&str> {
        self.processes
            .values()
            .filter(|process| !process.is_zombie())
            .filter_map(|process| process.container_id.as_deref())
            .collect()
    }

    /// Counts the zombies whose parents are shims.
    pub fn zombies_of_shims(&self) -> usize {
        let is_of_shim = |process: &&Process| {
            process.is_zombie()
                && self.processes.get(&process.parent).is_some_and(|parent| parent.role == Role::Shim)
        };
        self.processes.values().filter(is_of_shim).count()
    }

    /// Whether `ancestor` is an ancestor of `pid`.
    pub fn descends(&self, pid: u32, ancestor: u32) -> bool {
        let mut at = pid;
        for _ in 0..self.processes.len() {
            let Some(parent) = self.processes.get(&at).map(|process| process.parent) else {
                return false;
            };
            if parent == ancestor {
                return true;
            }
            at = parent;
        }
        false
    }

    /// Returns whether this process table belongs to the runtime: a process here listens on the runtime's socket, or
    /// one of the listed containers runs here.
    pub fn ownership<'a>(&self, mut listed: impl Iterator<Item = &'a str>) -> Ownership {
        if let Some(owner) = self.socket_owner {
            return Ownership::OfRuntime { daemon: Some(owner) };
        }
        let living = self.living_containers();
        let shims: BTreeSet<&str> = self.with_role(Role::Shim).filter_map(|shim| shim.flag("id")).collect();
        if listed.any(|id| living.contains(id) || shims.contains(id)) {
            let mut daemons = self.with_role(Role::Daemon);
            let daemon = daemons.next().filter(|_| daemons.next().is_none());
            return Ownership::OfRuntime { daemon: daemon.map(|process| process.pid) };
        }
        Ownership::Foreign
    }

    /// Replaces the processes `pids` with a second reading. A task counts as blocked only if it is blocked in both
    /// readings.
    pub fn confirm(&mut self, pids: &[u32], mut again: BTreeMap<u32, Process>) {
        for pid in pids {
            match (self.processes.get_mut(pid), again.remove(pid)) {
                (Some(before), Some(mut now)) => {
                    now.blocked.retain(|task| before.blocked.iter().any(|earlier| earlier.tid == task.tid));
                    *before = now;
                }
                (Some(_), None) => {
                    self.processes.remove(pid);
                }
                (None, _) => {}
            }
        }
    }

    fn add(&mut self, section: Section) {
        match section {
            Section::Processes(processes, shims) => {
                self.processes = processes;
                self.shims = shims;
            }
            Section::SocketOwner(owner) => self.socket_owner = owner,
            Section::Node(node) => {
                let NodeSection { pressure, memory, cpu, vmstat, tasks, mounts } = *node;
                self.pressure = pressure;
                self.memory = memory;
                self.cpu = cpu;
                self.vmstat = vmstat;
                self.tasks = tasks;
                self.mounts = mounts;
            }
            Section::Cgroups(cgroups) => {
                self.pids = cgroups.pids;
                self.frozen = cgroups.frozen;
                self.daemon_cgroup = cgroups.daemon;
            }
        }
    }
}

/// A part of a sample, sent as soon as it is read.
#[derive(Debug)]
pub enum Section {
    /// Pressure, memory, limits and mounts.
    Node(Box<NodeSection>),
    /// The process table, and how many details of the shims were read.
    Processes(BTreeMap<u32, Process>, Shims),
    /// The process that listens on the socket.
    SocketOwner(Option<u32>),
    /// Limits and freezers of cgroups.
    Cgroups(CgroupSection),
}

/// The paths to read.
#[derive(Clone, Debug)]
pub struct ProcPaths {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys/fs/cgroup`
    pub cgroup: PathBuf,
    /// The runtime's socket, as its daemon names it.
    pub socket: Option<PathBuf>,
}

impl ProcPaths {
    /// Whether this is a process file system or a copy of one.
    pub fn is_proc(&self) -> bool {
        ["stat", "meminfo", "self", "1"].iter().any(|name| self.proc.join(name).symlink_metadata().is_ok())
    }
}

/// Reads everything and sends it section by section. Of the processes without a role, it reads the cgroups only of those
/// below a shim, so that the other programs of the node cost no more than one file each; [`add_cgroups`] reads the other
/// cgroups. If no process listens on the socket, everything is read with all details, because the container ids may then
/// show to which runtime the process table belongs.
///
/// `known` is a table that the caller has read already. It is used if it is fresh.
pub fn read(paths: &ProcPaths, known: Option<Arc<StatTable>>, shims: Shims, send: &dyn Fn(Section)) {
    send(Section::Node(Box::new(node::read(&paths.proc))));
    let table = known.filter(|table| table.is_fresh(&paths.proc));
    let table = table.unwrap_or_else(|| Arc::new(StatTable::read(&paths.proc)));
    let mut processes = read_each(paths, &table, shims);
    let owner = paths.socket.as_deref().and_then(|socket| socket_owner(&paths.proc, socket, &processes));
    send(Section::SocketOwner(owner));
    let shims = if owner.is_none() { Shims::Detailed } else { shims };
    if owner.is_none() {
        let again = processes.values().filter(|process| process.role == Role::Shim).map(|shim| shim.pid);
        let again: Vec<u32> = again.collect();
        processes.extend(read_again(paths, &again));
        read_other_cgroups(paths, &mut processes);
    }
    let cgroups = node::read_cgroups(&paths.cgroup, &processes, owner);
    send(Section::Processes(processes, shims));
    send(Section::Cgroups(cgroups));
}

/// Reads the processes of a table. With the details of the shims, the cgroups of all processes are read too. Otherwise, the
/// processes of a container are in the cgroup of its first process.
fn read_each(paths: &ProcPaths, stats: &StatTable, shims: Shims) -> BTreeMap<u32, Process> {
    let Ok(dir) = KernelDir::open(&paths.proc) else {
        return BTreeMap::new();
    };
    let trust = ProcessTrust::of_table(&paths.proc);
    let has_cgroup_trees = node::hierarchy(&paths.cgroup, "cpuset") != paths.cgroup;
    let table =
        process::OpenedTable { path: &paths.proc, dir, uptime: stats.uptime, trust, has_cgroup_trees };
    let mut source_of = stats.cgroup_sources();
    let mut heirs = Vec::new();
    let read = |(pid, stat): (&u32, &ProcessStat)| {
        let wants_cgroup = || {
            let source = if shims == Shims::Detailed { CgroupSource::File } else { source_of(*pid) };
            heirs.extend((source == CgroupSource::Parent).then_some(*pid));
            source == CgroupSource::File
        };
        Some((*pid, process::read(&table, *pid, stat, shims, wants_cgroup)?))
    };
    let mut processes: BTreeMap<u32, Process> = stats.stats.iter().filter_map(read).collect();
    for pid in heirs {
        let Some(mut heir) = processes.remove(&pid) else { continue };
        match nearest_cgroup(&processes, &heir) {
            Some(ancestor) => heir.inherit_cgroup(ancestor),
            // An ancestor has ended meanwhile.
            None => heir.add_cgroup(&table.dir),
        }
        processes.insert(pid, heir);
    }
    processes
}

/// Returns the nearest ancestor with a known cgroup among the processes of the same container.
fn nearest_cgroup<'a>(processes: &'a BTreeMap<u32, Process>, heir: &Process) -> Option<&'a Process> {
    let mut at = heir.parent;
    // A table that changes while it is read may show a circle of parents.
    for _ in 0..processes.len() {
        let parent = processes.get(&at).filter(|parent| parent.role == Role::Other)?;
        if !parent.lacks_cgroup() {
            return Some(parent);
        }
        at = parent.parent;
    }
    None
}

/// Reads the shims of a sample again, with all details.
pub fn add_details_of_shims(paths: &ProcPaths, sample: &mut ProcSample) {
    let shims: Vec<u32> = sample.with_role(Role::Shim).map(|shim| shim.pid).collect();
    sample.processes.extend(read_again(paths, &shims));
    sample.shims = Shims::Detailed;
}

/// Reads the cgroups that a sample lacks, and the limits and freezers of the pods in them.
pub fn add_cgroups(paths: &ProcPaths, sample: &mut ProcSample) {
    read_other_cgroups(paths, &mut sample.processes);
    let daemon_cgroup = std::mem::take(&mut sample.daemon_cgroup);
    sample.add(Section::Cgroups(node::read_cgroups(&paths.cgroup, &sample.processes, None)));
    sample.daemon_cgroup = daemon_cgroup;
}

fn read_other_cgroups(paths: &ProcPaths, processes: &mut BTreeMap<u32, Process>) {
    let Ok(dir) = KernelDir::open(&paths.proc) else { return };
    for process in processes.values_mut().filter(|process| process.lacks_cgroup()) {
        process.add_cgroup(&dir);
    }
}

/// Reads some processes again, with all details.
pub fn read_again(paths: &ProcPaths, pids: &[u32]) -> BTreeMap<u32, Process> {
    read_each(paths, &StatTable::of(&paths.proc, pids), Shims::Detailed)
}

/// Reads the figures of the cgroup of the daemon `process`.
pub fn daemon_cgroup(paths: &ProcPaths, process: &Process) -> DaemonCgroup {
    node::daemon_cgroup(&paths.cgroup, process)
}

/// Returns how much the CPU limit of the cgroup of `process` throttles it now.
pub fn throttled_now(paths: &ProcPaths, process: &Process) -> Option<Throttled> {
    node::throttled(&paths.cgroup, &process.cpu_cgroup)
}

/// Reads one whole sample in this thread.
pub fn sample(paths: &ProcPaths) -> ProcSample {
    let parts = std::cell::RefCell::new(Vec::new());
    read(paths, None, Shims::Detailed, &|section| parts.borrow_mut().push(section));
    assemble(parts.into_inner(), true)
}

/// Builds a sample from the sections that arrived.
pub fn assemble(sections: impl IntoIterator<Item = Section>, complete: bool) -> ProcSample {
    let mut sample = ProcSample { complete, ..ProcSample::default() };
    for section in sections {
        sample.add(section);
    }
    sample
}

/// Returns how long a process has run; `None` if it has ended.
pub fn process_age(proc: &Path, pid: u32) -> Option<Duration> {
    let stat = ProcessStat::parse(&kernel_text(&proc.join(pid.to_string()).join("stat")).ok()?)?;
    (!stat.is_zombie()).then(|| stat::uptime(proc).saturating_sub(stat::of_ticks(stat.started_ticks)))
}

/// Returns the daemon that listens on `socket`. Examines only processes with the name of a daemon or a kubelet, and
/// none with a task in uninterruptible sleep.
fn socket_owner(proc: &Path, socket: &Path, processes: &BTreeMap<u32, Process>) -> Option<u32> {
    let is_candidate = |process: &&Process| {
        matches!(process.role, Role::Daemon | Role::Kubelet) && process.blocked.is_empty()
    };
    let candidates = || processes.values().filter(is_candidate).map(|process| process.pid);
    let dir = |pid: u32| proc.join(pid.to_string());
    // The kernel lists only the sockets of plegctl's own network namespace.
    let listening = clients::listening_inodes(socket);
    let of_this_namespace = || candidates().find(|pid| has_descriptor_of(&dir(*pid), &listening));
    let of_its_namespace =
        || candidates().find(|pid| has_descriptor_of(&dir(*pid), &inodes_in_table(&dir(*pid), socket)));
    of_this_namespace().or_else(of_its_namespace)
}

/// Returns the inodes of the sockets with this path in the network namespace of the process in `dir`.
fn inodes_in_table(dir: &Path, socket: &Path) -> BTreeSet<u32> {
    let table = kernel_text(&dir.join("net/unix")).unwrap_or_default();
    let inode = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(6);
        let (inode, path) = (fields.next()?, fields.next()?);
        same_socket(Path::new(path), socket).then(|| inode.parse().ok())?
    };
    table.lines().filter_map(inode).collect()
}

/// The number of descriptors that are looked at before all are listed.
const FIRST_DESCRIPTORS: u32 = 32;

/// Whether the process in `dir` has a descriptor of one of these sockets.
fn has_descriptor_of(dir: &Path, sockets: &BTreeSet<u32>) -> bool {
    if sockets.is_empty() {
        return false;
    }
    let descriptors = dir.join("fd");
    let is_listener = |path: &Path| {
        let link = fs::read_link(path).ok();
        let inode = link.as_deref().and_then(Path::to_str).and_then(socket_inode);
        inode.is_some_and(|inode| sockets.contains(&inode))
    };
    // A daemon opens its socket at its start, so the socket has one of the first numbers. Listing the descriptors of a busy
    // daemon takes a hundred times longer.
    (0..FIRST_DESCRIPTORS).any(|number| is_listener(&descriptors.join(number.to_string())))
        || fs::read_dir(&descriptors)
            .is_ok_and(|entries| entries.flatten().any(|entry| is_listener(&entry.path())))
}

/// Returns the inode of a socket from the link of a descriptor, such as `socket:[4711]`.
fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether two paths name the same socket on the node.
pub fn same_socket(one: &Path, other: &Path) -> bool {
    without_var_run(one) == without_var_run(other)
}

/// Replaces `/var/run` with `/run`, because on every supported node the former is a link to the latter.
fn without_var_run(path: &Path) -> PathBuf {
    path.strip_prefix("/var/run").map_or_else(|_| path.to_owned(), |rest| Path::new("/run").join(rest))
}
