//! [`NodeSampler`]: samples the node from `/proc`.
//!
//! The recorder takes a sample every 30 s, at the beginning and the end of an incident, and when the kubelet, the runtime or
//! a shim stops or continues, then twice: only a state that two samples show is sure to last. A sample reads only small files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use crate::capture::node::{
    LimitSample, NodeSample, PressureSample, ProcessSample, SampledKubeletState, ShimSample,
};
use crate::clock::Mono;
use crate::diagnosis::disks::{DirectoryUse, WrittenDirectories};
use crate::diagnosis::forecast::{GO_THREADS, LimitKind};
use crate::host::disks::Disk;
use crate::host::proc::limits::{cgroup_memory, cgroup_tasks, descriptor_use, node_tasks};
use crate::host::proc::{ProcessStat, ProcessTrust, Psi, Role, command_line, process_age};
use crate::host::{KernelDir, kernel_text};
use crate::kubelet::kubelet_pid;
use crate::report::Seconds;
use crate::threads::spawn_or_reuse;

/// The number of samples between two searches for new daemons, and the number of checks between two searches for a kubelet
/// while none was ever found. A search reads the whole process table.
const SAMPLES_PER_SEARCH: u32 = 20;

/// The number of samples between two readings of the file systems: each reads the mounts of this process, which takes longer than
/// the rest of a sample.
const SAMPLES_PER_DISKS: u32 = 3;

/// The number of samples between two searches for new shims while nothing is wrong: a search reads a file of every process.
const SAMPLES_PER_SHIM_SEARCH: u32 = 10;

/// The number of checks in which every shim is read once, while nothing is wrong: a stopped shim harms only a call that waits for
/// it.
const CHECKS_PER_ROUND: usize = 5;

/// The number of threads from which on a shim is worth a sample: a tenth of Go's limit. A shim has about a dozen.
const MANY_THREADS: u64 = GO_THREADS / 10;

/// Takes samples of the node, and remembers the processes that it has found.
#[derive(Debug, Default)]
pub struct NodeSampler {
    /// The path of the process table; `None` if the node cannot be sampled.
    proc: Option<PathBuf>,
    /// The host root.
    root: PathBuf,
    /// The runtime's socket.
    socket: PathBuf,
    /// The reading of the file systems that is under way. A disk that hangs keeps it so, and there is never a second one.
    disks: Option<Receiver<(WrittenDirectories, Vec<LimitSample>)>>,
    /// When the last reading of the file systems began.
    disks_read: Mono,
    /// The directories whose file systems are read.
    directories: WrittenDirectories,
    /// The process ids of the kubelet and of the daemons.
    daemons: Vec<u32>,
    /// The number of samples since the last search for the daemons.
    count: u32,
    /// The process id of the kubelet that was found last.
    kubelet: Option<u32>,
    /// The number of checks that have not found the kubelet since it was last found.
    misses: u32,
    /// The sample of a simulated node, whose processes do not change.
    simulated: Option<NodeSample>,
    /// The shims at the last sample.
    shims: Vec<ShimSample>,
    /// The shim with the most threads, if it has many.
    largest_shim: Option<ProcessSample>,
    /// The process ids of the daemons and shims that were stopped at the last check.
    stopped: BTreeSet<u32>,
    /// Whether only one sample shows the present states.
    is_unconfirmed: bool,
    /// The number of checks so far.
    checks: usize,
    /// The number of samples until the next search for new shims.
    until_shim_search: u32,
}

impl NodeSampler {
    /// Creates a sampler for the process table in the directory `proc`, the host root and the runtime's socket.
    pub fn new(proc: Option<PathBuf>, root: PathBuf, socket: PathBuf) -> Self {
        Self { proc, root, socket, ..Self::default() }
    }

    /// Creates a sampler for a simulated node, which always returns `sample`.
    pub fn simulated(sample: Option<NodeSample>) -> Self {
        Self { simulated: sample, ..Self::default() }
    }

    /// Returns the state of the kubelet's process; `None` if no kubelet was ever found. While the process exists, this
    /// reads only one small file.
    pub fn kubelet(&mut self) -> Option<SampledKubeletState> {
        if let Some(simulated) = &self.simulated {
            return simulated.kubelet;
        }
        let proc = self.proc.clone()?;
        if let Some(state) = self.kubelet.and_then(|pid| read_kubelet_state(&proc, pid)) {
            self.misses = 0;
            return Some(state);
        }
        // A kubelet that has ended is likely to come back, so the search for it is more frequent.
        let every = if self.kubelet.is_some() { 4 } else { SAMPLES_PER_SEARCH };
        if self.misses.is_multiple_of(every)
            && let Some(pid) = kubelet_pid(&proc)
        {
            (self.kubelet, self.misses) = (Some(pid), 0);
            return read_kubelet_state(&proc, pid);
        }
        self.misses = self.misses.wrapping_add(1);
        self.kubelet.map(|_| SampledKubeletState::Gone)
    }

    /// Returns whether a sample is due because a daemon or a shim was stopped or continued since the last check, or because
    /// only one sample shows that. Reads one small file for each daemon and for each shim; of the shims, only a part if nothing
    /// `is_wrong` and none was stopped.
    pub fn states_changed(&mut self, is_wrong: bool) -> bool {
        let was_unconfirmed = std::mem::take(&mut self.is_unconfirmed);
        let all = is_wrong || was_unconfirmed || !self.stopped.is_empty();
        self.checks = self.checks.wrapping_add(1);
        self.read_states(if all { 1 } else { CHECKS_PER_ROUND });
        was_unconfirmed || self.is_unconfirmed
    }

    /// Returns a shim that the last two checks have seen stopped.
    pub fn stopped_shim(&self) -> Option<&ShimSample> {
        self.shims.iter().find(|shim| !self.is_unconfirmed && self.stopped.contains(&shim.pid))
    }

    /// Reads which daemons are stopped, and which shims; of each `step` shims it reads only one.
    fn read_states(&mut self, step: usize) {
        let Some(proc) = &self.proc else { return };
        let read = |pid: u32, is_it: &dyn Fn(&str) -> bool| {
            let stat = ProcessStat::read(&proc.join(pid.to_string()));
            stat.filter(|stat| is_it(&stat.comm)).map(|stat| (pid, stat))
        };
        let is_daemon = |name: &str| Role::of(name) == Role::Daemon;
        let daemons = self.daemons.iter().filter_map(|pid| read(*pid, &is_daemon));
        let part = self.shims.iter().skip(self.checks % step).step_by(step);
        let shims: Vec<_> = part.filter_map(|shim| read(shim.pid, &|name| name == shim.name)).collect();
        // conmon is no Go program.
        let is_large =
            |(_, stat): &&(u32, ProcessStat)| stat.threads >= MANY_THREADS && stat.comm == "containerd-shim";
        let large = shims.iter().filter(is_large).map(|(pid, stat)| process_sample(*pid, stat));
        let is_unread = |known: &ProcessSample| step > 1 && shims.iter().all(|(pid, _)| *pid != known.pid);
        let known = self.largest_shim.take().filter(is_unread);
        self.largest_shim = large.chain(known).max_by_key(|shim| shim.threads);
        let stopped = daemons.chain(shims).filter(|(_, stat)| stat.is_stopped()).map(|(pid, _)| pid);
        let stopped: BTreeSet<u32> = stopped.collect();
        self.is_unconfirmed |= stopped != self.stopped;
        self.stopped = stopped;
    }

    /// Searches the process table for shims. The command line of a known shim is not read again.
    fn find_shims(&mut self, proc: &Path) {
        let Ok(table) = KernelDir::open(proc) else { return };
        let trust = ProcessTrust::of_table(proc);
        let known = std::mem::take(&mut self.shims);
        let shim = |pid: u32| {
            let name = table.record(&format!("{pid}/comm")).ok()?;
            let name = name.trim_end();
            if Role::of(name) != Role::Shim {
                return None;
            }
            if let Some(shim) = known.iter().find(|shim| shim.pid == pid && shim.name == name) {
                return Some(shim.clone());
            }
            let path = proc.join(pid.to_string());
            trust.judge(&KernelDir::open(&path).ok()?, Role::Shim, false).ok()?;
            let command = command_line(&path);
            let id = command.flag("id").or_else(|| command.flag("c")).map(str::to_owned);
            Some(ShimSample { pid, name: name.to_owned(), id })
        };
        self.shims = table.numbered().into_iter().filter_map(shim).collect();
    }

    /// Returns what the last reading of the file systems has found, once, and starts the next one when it is due.
    fn disks(&mut self, proc: &Path, kubelet: Option<u32>, now: Mono) -> Vec<LimitSample> {
        let mut found = Vec::new();
        match self.disks.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return found,
            Some(Ok(result)) => (self.directories, found) = result,
            Some(Err(TryRecvError::Disconnected)) | None => {}
        }
        for limit in &mut found {
            limit.age = now.since(self.disks_read).as_secs();
        }
        self.disks = None;
        if self.count.is_multiple_of(SAMPLES_PER_DISKS) {
            let (sender, receiver) = mpsc::channel();
            let (proc, root, socket) = (proc.to_path_buf(), self.root.clone(), self.socket.clone());
            let mut directories = std::mem::take(&mut self.directories);
            let read = move || {
                let limits = directories.disks(&proc, &root, &socket, kubelet).into_iter().flat_map(of_disk);
                // Some file systems have no limit of inodes.
                let limits = limits.filter(|limit| limit.max > 0).collect();
                drop(sender.send((directories, limits)));
            };
            self.disks = spawn_or_reuse("disks", read).is_ok().then_some(receiver);
            self.disks_read = now;
        }
        found
    }

    /// Takes a sample; `None` if there is nothing to sample. Searches for new shims and reads all if something `is_wrong`, or if that
    /// is due; otherwise the checks have read them.
    pub fn sample(&mut self, now: Mono, is_wrong: bool) -> Option<NodeSample> {
        let Some(proc) = self.proc.clone() else { return self.simulated.clone() };
        if self.count.is_multiple_of(SAMPLES_PER_SEARCH) {
            self.daemons = find_daemons(&proc);
        }
        let kubelet = self.kubelet();
        let disks = self.disks(&proc, kubelet.and_then(SampledKubeletState::pid), now);
        self.count = self.count.wrapping_add(1);
        let cgroup = self.root.join("sys/fs/cgroup");
        let pressure =
            ["cpu", "memory", "io"].into_iter().filter_map(|resource| read_pressure(&proc, resource));
        let processes = self.daemons.iter().filter_map(|pid| read_process(&proc, &cgroup, *pid));
        let (pressure, processes) = (pressure.collect(), processes.collect());
        self.until_shim_search = self.until_shim_search.saturating_sub(1);
        if is_wrong || self.until_shim_search == 0 {
            self.until_shim_search = SAMPLES_PER_SHIM_SEARCH;
            self.find_shims(&proc);
            self.read_states(1);
        }
        let stopped_shims =
            self.shims.iter().filter(|shim| self.stopped.contains(&shim.pid)).cloned().collect();
        let limits =
            LimitSample::of(LimitKind::NodeTasks, node_tasks(&proc)).into_iter().chain(disks).collect();
        let largest_shim = self.largest_shim.clone();
        let sample =
            NodeSample { pressure, processes, kubelet, stopped_shims, largest_shim, limits, pods: None };
        // If a daemon has ended or has not started yet, the next sample searches for it.
        let has_daemon = sample.processes.iter().any(|process| Role::of(&process.name) == Role::Daemon);
        if sample.processes.len() < self.daemons.len() || !has_daemon {
            self.count = 0;
        }
        (sample != NodeSample::default() || !self.shims.is_empty()).then_some(sample)
    }
}

/// Returns how much of a file system is used.
fn of_disk((usage, disk): (DirectoryUse, Disk)) -> [LimitSample; 2] {
    let [bytes, inodes] = match usage {
        DirectoryUse::RuntimeRoot => [LimitKind::RuntimeRootBytes, LimitKind::RuntimeRootInodes],
        DirectoryUse::RuntimeState => [LimitKind::RuntimeStateBytes, LimitKind::RuntimeStateInodes],
        DirectoryUse::Kubelet => [LimitKind::KubeletBytes, LimitKind::KubeletInodes],
    };
    let limit = |limit, max: u64, free| LimitSample { limit, used: max.saturating_sub(free), max, age: 0 };
    // What only root may use counts as used, as the kubelet counts.
    [limit(bytes, disk.size, disk.available), limit(inodes, disk.inodes, disk.free_inodes)]
}

/// Returns the process ids of the kubelet, whatever its name is, and of the container runtime's daemons.
fn find_daemons(proc: &Path) -> Vec<u32> {
    let Ok(table) = KernelDir::open(proc) else { return Vec::new() };
    let trust = ProcessTrust::of_table(proc);
    let is_daemon = |pid: &u32| {
        let name = table.record(&format!("{pid}/comm")).unwrap_or_default();
        let counts = |dir: KernelDir| trust.judge(&dir, Role::Daemon, false).is_ok();
        Role::of(name.trim_end()) == Role::Daemon
            && KernelDir::open(&proc.join(pid.to_string())).is_ok_and(counts)
    };
    let daemons = table.numbered().into_iter().filter(is_daemon);
    kubelet_pid(proc).into_iter().chain(daemons).collect()
}

/// Returns the state of the process `pid`; `None` if it has ended or is not a kubelet.
fn read_kubelet_state(proc: &Path, pid: u32) -> Option<SampledKubeletState> {
    let stat = ProcessStat::read(&proc.join(pid.to_string()))?;
    if Role::of(&stat.comm) != Role::Kubelet || stat.is_zombie() {
        return None;
    }
    Some(if stat.is_stopped() {
        SampledKubeletState::Stopped { pid }
    } else {
        SampledKubeletState::Running { pid }
    })
}

/// Reads the pressure on one resource.
fn read_pressure(proc: &Path, resource: &str) -> Option<PressureSample> {
    let Psi { some, full } = Psi::parse(&kernel_text(&proc.join("pressure").join(resource)).ok()?)?;
    Some(PressureSample { resource: resource.to_owned(), some, full })
}

/// Reads the sample of one process; `None` if it has ended and its id belongs to another program.
fn read_process(proc: &Path, cgroup: &Path, pid: u32) -> Option<ProcessSample> {
    let stat = ProcessStat::read(&proc.join(pid.to_string()))?;
    if !matches!(Role::of(&stat.comm), Role::Daemon | Role::Kubelet) {
        return None;
    }
    let limits = [
        LimitSample::of(LimitKind::Descriptors, descriptor_use(proc, pid)),
        LimitSample::of(LimitKind::CgroupTasks, cgroup_tasks(proc, cgroup, pid)),
        LimitSample::of(LimitKind::CgroupMemory, cgroup_memory(proc, cgroup, pid)),
    ];
    Some(ProcessSample {
        limits: limits.into_iter().flatten().collect(),
        age: process_age(proc, pid).map(Seconds::from),
        ..process_sample(pid, &stat)
    })
}

fn process_sample(pid: u32, stat: &ProcessStat) -> ProcessSample {
    ProcessSample {
        pid,
        name: stat.comm.clone(),
        state: stat.state.to_string(),
        cpu_ticks: stat.cpu_ticks,
        threads: stat.threads,
        resident_pages: stat.resident_pages,
        ..ProcessSample::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn write(proc: &Path, pid: u32, name: &str, state: char, status: &str) {
        let own = proc.join(pid.to_string());
        std::fs::create_dir_all(&own).unwrap();
        let fields: Vec<String> = (0..40).map(|field: u32| field.to_string()).collect();
        std::fs::write(own.join("stat"), format!("{pid} ({name}) {state} 1 {}", fields.join(" "))).unwrap();
        std::fs::write(own.join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(own.join("status"), status).unwrap();
    }

    fn write_shim(proc: &Path, pid: u32, name: &str, state: char, threads: u64) {
        write(proc, pid, name, state, "Uid:\t0\t0\t0\t0\nNSpid:\t1\n");
        let stat = proc.join(pid.to_string()).join("stat");
        let text = std::fs::read_to_string(&stat).unwrap();
        std::fs::write(stat, text.replacen(" 14 15 16 ", &format!(" 14 {threads} 16 "), 1)).unwrap();
    }

    #[test]
    fn kubelet_is_found_running_stopped_ended_and_restarted() {
        let proc = std::env::temp_dir().join(format!("plegctl-kubelet-state-{}", std::process::id()));
        let root = "Uid:\t0\t0\t0\t0\nNSpid:\t7\n";
        // A process in a pod, a process of another user and a set-user-id program are not the kubelet, whatever their names.
        write(&proc, 3, "kubelet", 'S', "Uid:\t0\t0\t0\t0\nNSpid:\t3\t1\n");
        write(&proc, 4, "kubelet", 'S', "Uid:\t1000\t1000\t0\t0\nNSpid:\t4\n");
        write(&proc, 5, "kubelet", 'S', "Uid:\t1000\t0\t0\t0\nNSpid:\t5\n");
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new());
        assert_eq!(sampler.kubelet(), None);
        write(&proc, 7, "kubelet", 'S', root);
        let found = (0..SAMPLES_PER_SEARCH).find_map(|_| sampler.kubelet());
        assert_eq!(found, Some(SampledKubeletState::Running { pid: 7 }));
        write(&proc, 7, "kubelet", 'T', root);
        assert_eq!(sampler.kubelet(), Some(SampledKubeletState::Stopped { pid: 7 }));
        std::fs::remove_dir_all(proc.join("7")).unwrap();
        assert_eq!(sampler.kubelet(), Some(SampledKubeletState::Gone));
        write(&proc, 9, "kubelet", 'S', root);
        let found =
            (0..4).find_map(|_| sampler.kubelet().filter(|state| *state != SampledKubeletState::Gone));
        assert_eq!(found, Some(SampledKubeletState::Running { pid: 9 }));
        // If two processes qualify, neither counts as the node's kubelet.
        std::fs::remove_dir_all(proc.join("9")).unwrap();
        write(&proc, 10, "kubelet", 'S', root);
        write(&proc, 11, "kubelet", 'S', root);
        assert!((0..8).all(|_| sampler.kubelet() == Some(SampledKubeletState::Gone)));
        std::fs::remove_dir_all(proc).unwrap();
    }

    #[test]
    fn stopped_shim_is_found_until_it_is_continued() {
        let proc = std::env::temp_dir().join(format!("plegctl-shims-{}", std::process::id()));
        let shim = |pid: u32, state: char| {
            write(&proc, pid, "containerd-shim", state, "Uid:\t0\t0\t0\t0\nNSpid:\t1\n");
            let command = format!("/usr/bin/containerd-shim-runc-v2\0-id\0s{pid}\0");
            std::fs::write(proc.join(pid.to_string()).join("cmdline"), command).unwrap();
        };
        shim(11, 'S');
        shim(12, 'S');
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new());
        let stopped =
            |sampler: &mut NodeSampler| sampler.sample(Mono::default(), true).unwrap().stopped_shims;
        assert_eq!(stopped(&mut sampler), []);
        assert!(!sampler.states_changed(true));
        shim(12, 'T');
        let checks = (1..=CHECKS_PER_ROUND).find(|_| sampler.states_changed(false));
        assert_eq!(checks, Some(CHECKS_PER_ROUND), "each check reads another part of the shims");
        assert_eq!(sampler.stopped_shim(), None, "a debugger may stop it for a moment");
        assert!(sampler.states_changed(true), "a second sample confirms the state");
        assert_eq!(sampler.stopped_shim().map(|shim| shim.pid), Some(12));
        assert!(!sampler.states_changed(true));
        let of = |pid: u32| ShimSample { pid, name: "containerd-shim".into(), id: Some(format!("s{pid}")) };
        assert_eq!(stopped(&mut sampler), [of(12)]);
        shim(12, 'S');
        assert!(sampler.states_changed(true));
        assert_eq!(sampler.stopped_shim(), None);
        assert!(sampler.states_changed(true));
        assert_eq!(stopped(&mut sampler), []);
        shim(13, 'T');
        let found = (1..=SAMPLES_PER_SHIM_SEARCH).find(|_| {
            let sample = sampler.sample(Mono::default(), false);
            sample.is_some_and(|sample| !sample.stopped_shims.is_empty())
        });
        assert_eq!(found, Some(SAMPLES_PER_SHIM_SEARCH), "a new shim is found later while nothing is wrong");
        std::fs::remove_dir_all(proc.join("13")).unwrap();
        assert_eq!(stopped(&mut sampler), []);
        assert!(sampler.states_changed(true));
        // A shim that has ended does not count as stopped.
        shim(11, 'T');
        std::fs::remove_dir_all(proc.join("11")).unwrap();
        assert!(!sampler.states_changed(true));
        std::fs::remove_dir_all(proc).unwrap();
    }

    #[test]
    fn the_kubelet_inside_k3s_is_sampled_and_other_processes_of_k3s_are_not() {
        let proc = std::env::temp_dir().join(format!("plegctl-k3s-{}", std::process::id()));
        let root = "Uid:\t0\t0\t0\t0\nNSpid:\t7\n";
        let process = |pid: u32, name: &str, command: &str| {
            write(&proc, pid, name, 'S', root);
            std::fs::write(proc.join(pid.to_string()).join("cmdline"), command).unwrap();
        };
        process(21, "k3s-server", "/usr/local/bin/k3s\0server\0");
        process(22, "containerd", "containerd\0");
        process(23, "k3s", "k3s\0kubectl\0get\0pods\0");
        std::fs::write(proc.join("uptime"), "1000.01 1.00\n").unwrap();
        let sample = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new())
            .sample(Mono::default(), true)
            .unwrap();
        std::fs::remove_dir_all(proc).unwrap();
        let sampled: Vec<u32> = sample.processes.iter().map(|process| process.pid).collect();
        assert_eq!(sampled, [21, 22]);
        assert_eq!(sample.processes[1].age, Some(Duration::from_millis(999_840).into()));
        assert_eq!(sample.kubelet, Some(SampledKubeletState::Running { pid: 21 }));
    }

    #[test]
    fn limits_of_a_daemon_and_of_the_node_are_sampled() {
        let proc = std::env::temp_dir().join(format!("plegctl-sampled-limits-{}", std::process::id()));
        write(&proc, 31, "containerd", 'S', "Uid:\t0\t0\t0\t0\nNSpid:\t31\n");
        let own = proc.join("31");
        std::fs::create_dir_all(own.join("fd/0")).unwrap();
        std::fs::write(own.join("limits"), "Max open files  1024  4096  files\n").unwrap();
        std::fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        std::fs::write(proc.join("sys/kernel/pid_max"), "32768\n").unwrap();
        std::fs::write(proc.join("loadavg"), "0.00 0.01 0.05 1/345 6789\n").unwrap();
        let sample = NodeSampler::new(Some(proc.clone()), proc.clone(), PathBuf::new())
            .sample(Mono::default(), true)
            .unwrap();
        std::fs::remove_dir_all(&proc).unwrap();
        let limits: Vec<String> = sample
            .measured_limits()
            .iter()
            .map(|one| {
                format!("{} {:?} {}/{}", one.limit, one.process.as_ref().map(|of| of.pid), one.used, one.max)
            })
            .collect();
        // The seventeenth field of `stat` after the state is the number of threads.
        assert_eq!(
            limits,
            ["threads Some(31) 15/10000", "descriptors Some(31) 1/1024", "nodeTasks None 345/32768"]
        );
    }

    /// A node whose only process is a kubelet with this root directory.
    fn node_of_kubelet(name: &str) -> PathBuf {
        let proc = std::env::temp_dir().join(format!("plegctl-{name}-{}", std::process::id()));
        write(&proc, 7, "kubelet", 'S', "Uid:\t0\t0\t0\t0\nNSpid:\t7\n");
        let command = format!("kubelet\0--root-dir={}\0", proc.display());
        std::fs::write(proc.join("7/cmdline"), command).unwrap();
        proc
    }

    fn disk_limits(sample: &NodeSample) -> Vec<LimitSample> {
        let is_disk = |one: &&LimitSample| one.limit != LimitKind::NodeTasks;
        sample.limits.iter().filter(is_disk).copied().collect()
    }

    #[test]
    fn file_system_of_the_kubelet_is_sampled_every_ninety_seconds() {
        let proc = node_of_kubelet("sampled-disks");
        // While no daemon is found, each sample looks for one and for its disks.
        write(&proc, 8, "containerd", 'S', "Uid:\t0\t0\t0\t0\nNSpid:\t8\n");
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::from("/"), PathBuf::new());
        let mut of_disks: Vec<Vec<LimitSample>> = Vec::new();
        for _ in 0..7 {
            of_disks.push(disk_limits(&sampler.sample(Mono::default(), true).unwrap()));
            // Waits for the thread, which puts its result back as if the next sample were the first to see it.
            if let Some(found) = sampler.disks.take() {
                let (sender, receiver) = mpsc::channel();
                sender.send(found.recv().unwrap()).unwrap();
                sampler.disks = Some(receiver);
            }
        }
        let about = rustix::fs::statvfs(&proc).unwrap();
        std::fs::remove_dir_all(&proc).unwrap();
        let has_disks: Vec<bool> = of_disks.iter().map(|limits| !limits.is_empty()).collect();
        assert_eq!(has_disks, [false, true, false, false, true, false, false]);
        let bytes = of_disks[1].iter().find(|one| one.limit == LimitKind::KubeletBytes).unwrap();
        assert_eq!(bytes.max, about.f_blocks * about.f_frsize);
        assert!(bytes.used > 0 && bytes.used < bytes.max, "{bytes:?}");
    }

    #[test]
    fn disk_that_hangs_delays_no_sample_and_is_not_asked_again() {
        let proc = node_of_kubelet("hanging-disks");
        let (answer, hangs) = mpsc::channel();
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::from("/"), PathBuf::new());
        sampler.disks = Some(hangs);
        for _ in 0..3 * SAMPLES_PER_DISKS {
            assert_eq!(disk_limits(&sampler.sample(Mono::default(), true).unwrap()), []);
        }
        // Nobody else has asked: the next answer is still that of the reading that hung.
        let late = LimitSample { limit: LimitKind::KubeletInodes, used: 1, max: 2, age: 0 };
        answer.send((WrittenDirectories::default(), vec![late])).unwrap();
        let now = Mono::at(Duration::from_secs(31));
        assert_eq!(disk_limits(&sampler.sample(now, true).unwrap()), [LimitSample { age: 31, ..late }]);
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn threads_of_a_shim_are_sampled_from_a_thousand_on_and_those_of_conmon_never() {
        let proc = std::env::temp_dir().join(format!("plegctl-large-shims-{}", std::process::id()));
        let shim = |pid: u32, name: &str, threads: u64| write_shim(&proc, pid, name, 'S', threads);
        let sampled = || {
            let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new());
            let limits = sampler
                .sample(Mono::default(), true)
                .map(|sample| sample.measured_limits())
                .unwrap_or_default();
            limits.iter().map(|one| (one.process.clone().unwrap().pid, one.used, one.max)).collect::<Vec<_>>()
        };
        shim(11, "containerd-shim", 999);
        shim(12, "conmon", 4000);
        assert_eq!(sampled(), []);
        shim(13, "containerd-shim", 1000);
        shim(14, "containerd-shim", 3000);
        assert_eq!(sampled(), [(14, 3000, 10_000)]);
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn a_sample_while_nothing_is_wrong_reads_no_shim_again_and_the_checks_do() {
        let proc = std::env::temp_dir().join(format!("plegctl-quiet-shims-{}", std::process::id()));
        let shim =
            |pid: u32, state: char, threads: u64| write_shim(&proc, pid, "containerd-shim", state, threads);
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new());
        shim(11, 'S', 2000);
        shim(12, 'S', 3000);
        let quiet = |sampler: &mut NodeSampler| {
            let sample = sampler.sample(Mono::default(), false).unwrap();
            (sample.stopped_shims.len(), sample.largest_shim.map(|shim| (shim.pid, shim.threads)))
        };
        assert_eq!(quiet(&mut sampler), (0, Some((12, 3000))), "the first sample searches");
        shim(11, 'T', 4000);
        shim(12, 'S', 12);
        assert_eq!(quiet(&mut sampler), (0, Some((12, 3000))));
        assert!((0..CHECKS_PER_ROUND).any(|_| sampler.states_changed(false)));
        assert!(sampler.states_changed(false), "the next check reads all");
        assert_eq!(quiet(&mut sampler), (1, Some((11, 4000))));
        shim(11, 'S', 12);
        let changes: Vec<bool> = (0..4).map(|_| sampler.states_changed(false)).collect();
        assert_eq!(changes, [true, true, false, false]);
        assert_eq!(quiet(&mut sampler), (0, None));
        std::fs::remove_dir_all(proc).unwrap();
    }

    #[test]
    fn stopped_daemon_is_sampled_twice_with_its_state() {
        let proc = std::env::temp_dir().join(format!("plegctl-daemon-{}", std::process::id()));
        let daemon = |state| write(&proc, 31, "crio", state, "Uid:\t0\t0\t0\t0\nNSpid:\t31\n");
        daemon('S');
        let mut sampler = NodeSampler::new(Some(proc.clone()), PathBuf::new(), PathBuf::new());
        let state = |sampler: &mut NodeSampler| {
            sampler.sample(Mono::default(), true).unwrap().processes[0].state.clone()
        };
        assert_eq!(state(&mut sampler), "S");
        assert!(!sampler.states_changed(true));
        daemon('T');
        assert!(sampler.states_changed(true));
        assert_eq!(state(&mut sampler), "T");
        assert!(sampler.states_changed(true));
        assert!(!sampler.states_changed(true));
        // Another program with the same process id is no daemon.
        write(&proc, 31, "bash", 'T', "");
        assert_eq!(sampler.sample(Mono::default(), true), None);
        std::fs::remove_dir_all(proc).unwrap();
    }

    #[test]
    fn a_node_without_process_table_has_no_sample() {
        assert_eq!(
            NodeSampler::new(None, PathBuf::new(), PathBuf::new()).sample(Mono::default(), true),
            None
        );
    }
}
