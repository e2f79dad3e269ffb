//! Reads the kernel's figures about the whole node (pressure, memory, limits, mounts) and about the cgroups of pods
//! and services.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Process, Role, cgroup};
use crate::host::{KernelDir, kernel_record, kernel_text};
use plegctl_base::report::{Command, Rename};

/// File system types whose server may be unreachable.
const REMOTE: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p", "afs", "beegfs", "ocfs2", "gfs2"];
/// The counters of `vmstat` that the rules use.
pub(super) const VMSTAT: [&str; 3] = ["oom_kill", "pgmajfault", "allocstall_normal"];

/// The percentage of the last ten seconds in which tasks waited for a resource (PSI, pressure stall information).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct Psi {
    /// At least one task waited.
    pub some: f64,
    /// All tasks waited; kernels before 5.13 do not record this for the CPU.
    pub full: Option<f64>,
}

impl Psi {
    /// Parses one of the files in `/proc/pressure`.
    pub fn parse(text: &str) -> Option<Self> {
        let share = |kind: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
            line.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
        };
        Some(Self { some: share("some")?, full: share("full") })
    }

    /// Returns the percentage in which at least one task waited.
    pub const fn some_waited(&self) -> f64 {
        self.some
    }

    /// Returns the percentage in which all tasks waited; zero if the kernel does not record it.
    pub fn all_waited(&self) -> f64 {
        self.full.unwrap_or(0.0)
    }
}

/// Pressure by resource; `None` if the kernel does not record it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePressure {
    /// CPU.
    pub cpu: Option<Psi>,
    /// Storage.
    pub io: Option<Psi>,
    /// Memory.
    pub memory: Option<Psi>,
}

impl NodePressure {
    /// Reads the three files; `text` returns the content of the file for a resource.
    fn read(text: impl Fn(&str) -> String) -> Self {
        let psi = |resource| Psi::parse(&text(resource));
        Self { cpu: psi("cpu"), io: psi("io"), memory: psi("memory") }
    }
}

/// The pressure on one resource, on the node and in the cgroup of the runtime's daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourcePressure {
    /// The tasks of the whole node.
    pub node: Option<Psi>,
    /// The tasks in the daemon's own cgroup: a busy node does not mean that the daemon waits.
    pub daemon: Option<Psi>,
}

impl ResourcePressure {
    /// Returns the higher percentage of the two; zero if the kernel records neither.
    pub fn highest(&self, share: fn(&Psi) -> f64) -> f64 {
        [&self.node, &self.daemon].into_iter().flatten().map(share).fold(0.0, f64::max)
    }

    /// Returns the percentage in the daemon's own cgroup, or that of the node if the former is not known.
    pub fn of_daemon(&self, share: fn(&Psi) -> f64) -> f64 {
        self.daemon.or(self.node).as_ref().map_or(0.0, share)
    }
}

/// Memory in kibibytes; zero if not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Total memory.
    pub total: u64,
    /// Memory that is available without swapping.
    pub available: u64,
}

impl Memory {
    /// Parses `/proc/meminfo`.
    pub fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        Self { total: value("MemTotal").unwrap_or(0), available: value("MemAvailable").unwrap_or(0) }
    }
}

/// CPU time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuTimes {
    /// Total time.
    pub total: u64,
    /// Time in which the hypervisor ran something else (steal).
    pub steal: u64,
}

/// The number of tasks and its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct Tasks {
    /// Current number of tasks.
    pub now: u64,
    /// `pid_max`
    pub pid_max: u64,
    /// `threads-max`
    pub threads_max: u64,
}

/// One line of `mountinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(target), FileSystem(kind), Address(source), Value(device))]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMount {
    /// The number of the mount, which no other mount of the node has.
    pub id: u64,
    /// The mount point.
    pub target: String,
    /// `nfs4`, `fuse.s3fs`, …
    pub kind: String,
    /// `server:/export`
    pub source: String,
    /// `major:minor`
    pub device: String,
    /// Whether the file system itself is read-only, not only this mount: a file system becomes so after a disk error.
    pub read_only: bool,
}

impl NodeMount {
    /// Parses a `mountinfo` file.
    pub fn all(mountinfo: &str) -> Vec<Self> {
        mountinfo.lines().filter_map(parse_mount).collect()
    }

    /// Whether the server may be unreachable.
    pub fn is_remote(&self) -> bool {
        REMOTE.contains(&self.kind.as_str()) || self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// Returns the UID of the pod that has this mount as a volume.
    pub fn pod_uid(&self) -> Option<&str> {
        let (_, rest) = self.target.split_once("/pods/")?;
        rest.split('/').next()
    }
}

/// A cgroup with a limit of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(path))]
#[serde(rename_all = "camelCase", default)]
pub struct PidsCgroup {
    /// Path.
    pub path: String,
    /// Current number of processes.
    pub current: u64,
    /// The limit.
    pub max: u64,
}

/// A frozen cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(path), Id(container_id, pod_uid))]
#[serde(rename_all = "camelCase", default)]
pub struct Freeze {
    /// Path.
    pub path: String,
    /// The container.
    pub container_id: Option<String>,
    /// The pod.
    pub pod_uid: Option<String>,
    /// Whether the cgroup has version 1, in which the freezer has its own tree.
    pub is_v1: bool,
}

impl Freeze {
    /// Returns the command that thaws the cgroup on its node.
    pub fn thaw(&self) -> Command {
        let (word, tree, file) =
            if self.is_v1 { ("THAWED", "/freezer", "freezer.state") } else { ("0", "", "cgroup.freeze") };
        let file = format!("/sys/fs/cgroup{tree}/{}/{file}", self.path.trim_start_matches('/'));
        Command::new("echo {} > {}").arg(word).arg(file)
    }
}

/// The figures about the whole node.
#[derive(Clone, Debug, Default)]
pub struct NodeSection {
    /// See [`NodePressure`].
    pub pressure: NodePressure,
    /// See [`Memory`].
    pub memory: Memory,
    /// See [`CpuTimes`].
    pub cpu: CpuTimes,
    /// Some counters of `vmstat`.
    pub vmstat: BTreeMap<String, u64>,
    /// See [`Tasks`].
    pub tasks: Tasks,
    /// All mounts.
    pub mounts: Vec<NodeMount>,
}

/// The figures from the cgroup file system.
#[derive(Clone, Debug, Default)]
pub struct CgroupSection {
    /// Cgroups with a limit of processes.
    pub pids: Vec<PidsCgroup>,
    /// Frozen cgroups of pods.
    pub frozen: Vec<Freeze>,
    /// The figures of the daemon's own cgroup.
    pub daemon: DaemonCgroup,
}

/// The figures of the cgroup of the runtime's daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonCgroup {
    /// How much it is throttled, if it has a limit.
    pub throttled: Option<Throttled>,
    /// The pressure on its tasks; nothing in cgroup v1, which does not measure it.
    pub pressure: NodePressure,
}

/// The CPU limit of a cgroup, and how long the cgroup was throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct Throttled {
    /// The limit in CPUs, if set.
    pub limit: Option<f64>,
    /// Whether the cgroup has version 1, in which the CPU controller has its own tree.
    pub is_v1: bool,
    /// The total throttled time since the cgroup was created.
    pub total: Duration,
}

/// Reads the figures about the whole node.
pub(super) fn read(proc: &Path) -> NodeSection {
    let text = |name: &str| kernel_text(&proc.join(name)).unwrap_or_default();
    NodeSection {
        pressure: NodePressure::read(|resource| text(&format!("pressure/{resource}"))),
        memory: Memory::parse(&text("meminfo")),
        cpu: parse_cpu(&text("stat")),
        vmstat: parse_vmstat(&text("vmstat")),
        tasks: Tasks {
            now: parse_tasks(&text("loadavg")),
            pid_max: text("sys/kernel/pid_max").trim().parse().unwrap_or(0),
            threads_max: text("sys/kernel/threads-max").trim().parse().unwrap_or(0),
        },
        mounts: NodeMount::all(&text("self/mountinfo")),
    }
}

fn parse_cpu(text: &str) -> CpuTimes {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else {
        return CpuTimes::default();
    };
    let ticks: Vec<u64> = line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    CpuTimes {
        // User time already includes guest time.
        total: ticks.iter().take(8).sum(),
        steal: ticks.get(7).copied().unwrap_or(0),
    }
}

fn parse_vmstat(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            VMSTAT.contains(&name).then_some(())?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// Parses the number of tasks from `loadavg`, whose fourth field is `running/existing`.
pub(super) fn parse_tasks(text: &str) -> u64 {
    text.split_ascii_whitespace().nth(3).and_then(|word| word.split_once('/')?.1.parse().ok()).unwrap_or(0)
}

fn parse_mount(line: &str) -> Option<NodeMount> {
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    Some(NodeMount {
        id: front.first()?.parse().ok()?,
        target: unescaped(front.get(4)?),
        device: (*front.get(2)?).to_owned(),
        kind: back.next()?.to_owned(),
        source: unescaped(back.next().unwrap_or_default()),
        read_only: back.next().is_some_and(|options| options.split(',').any(|option| option == "ro")),
    })
}

/// Replaces the octal escapes with which the kernel writes blanks, line breaks and, in a source, `#`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).map(|digits| (u8::from_str_radix(digits, 8), part)) {
            Some((Ok(byte), part)) => {
                plain.push(byte);
                plain.extend(part.bytes().skip(3));
            }
            _ => plain.extend(b"\\".iter().copied().chain(part.bytes())),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Below this number of tasks, the limit of a container's cgroup is not read: a limit that is so low would keep most
/// programs from starting.
const FEW_TASKS: u64 = 64;

/// Reads the cgroups of pods, and those of the kubelet and the runtime.
pub(super) fn read_cgroups(
    root: &Path,
    processes: &BTreeMap<u32, Process>,
    daemon: Option<u32>,
) -> CgroupSection {
    let mut section = CgroupSection::default();
    let mut tasks_of_pods: BTreeMap<&str, u64> = BTreeMap::new();
    let mut perhaps_frozen = BTreeSet::new();
    let shows_freeze = hierarchy(root, "freezer") != root;
    for process in
        processes.values().filter(|process| process.container_id.is_some() || process.pod_uid.is_some())
    {
        *tasks_of_pods.entry(&process.cgroup).or_default() += process.threads;
        if !shows_freeze || may_be_frozen_in_v1(process) {
            perhaps_frozen.insert(process.cgroup.as_str());
        }
    }
    let daemons = processes.values().filter(|process| matches!(process.role, Role::Kubelet | Role::Daemon));
    let services: BTreeSet<&str> = daemons.map(|process| process.cgroup.as_str()).collect();
    section.frozen = frozen(root, perhaps_frozen);
    let limits = hierarchy(root, "pids");
    let large = tasks_of_pods.iter().filter(|(_, tasks)| **tasks >= FEW_TASKS).map(|(path, _)| path);
    section.pids = large.chain(&services).filter_map(|path| pids(&limits, path)).collect();
    let daemon = daemon.and_then(|pid| processes.get(&pid));
    section.daemon = daemon.map(|process| daemon_cgroup(root, process)).unwrap_or_default();
    section
}

/// Whether the process may be in a frozen cgroup of version 1, in which the kernel shows a frozen process as one in
/// uninterruptible sleep, unless a signal has stopped it before. In version 2, a frozen process looks like any other.
fn may_be_frozen_in_v1(process: &Process) -> bool {
    process.state == 'D' || process.is_stopped()
}

/// Returns the directory of a controller's cgroups. In cgroup v1, each controller has its own tree.
pub(super) fn hierarchy(root: &Path, controller: &str) -> PathBuf {
    let own = root.join(controller);
    let is_v1 = own.is_dir() && !root.join("cgroup.controllers").exists();
    if is_v1 { own } else { root.to_owned() }
}

/// Finds the frozen cgroups among these paths and their parents. Freezing a parent freezes its children, so the parents of
/// a cgroup that is not frozen need not be read.
pub(super) fn frozen<'a>(root: &Path, paths: impl IntoIterator<Item = &'a str>) -> Vec<Freeze> {
    let base = hierarchy(root, "freezer");
    let name = if base == root { "cgroup.events" } else { "freezer.state" };
    let Ok(dir) = KernelDir::open(&base) else { return Vec::new() };
    let is_frozen = |path: &&str| {
        let text = dir.record(&format!("{}/{name}", path.trim_start_matches('/'))).unwrap_or_default();
        text.lines().any(|line| matches!(line.trim(), "frozen 1" | "FROZEN" | "FREEZING"))
    };
    let mut found: BTreeMap<&str, Freeze> = BTreeMap::new();
    for path in paths {
        let mut at = Some(path);
        while let Some(path) = at.filter(|path| !matches!(*path, "" | "/")).filter(is_frozen) {
            found.entry(path).or_insert_with(|| Freeze {
                path: path.to_owned(),
                container_id: path.rsplit('/').next().and_then(cgroup::container_id).map(str::to_owned),
                pod_uid: cgroup::pod_uid_of(path),
                is_v1: base != root,
            });
            at = path.rsplit_once('/').map(|(parent, _)| parent);
        }
    }
    found.into_values().collect()
}

fn pids(root: &Path, path: &str) -> Option<PidsCgroup> {
    let dir = root.join(path.trim_start_matches('/'));
    // Most cgroups have no limit, and then nothing else is read.
    let max = kernel_record(&dir.join("pids.max")).ok()?.trim().parse().ok()?;
    let current = kernel_text(&dir.join("pids.current")).ok()?.trim().parse().ok()?;
    Some(PidsCgroup { path: path.to_owned(), current, max })
}

/// Reads the figures of the cgroup of the daemon `process`.
pub(super) fn daemon_cgroup(root: &Path, process: &Process) -> DaemonCgroup {
    let path = process.cgroup.trim_start_matches('/');
    let text = |resource: &str| {
        // The pressure of the root cgroup is that of the whole node.
        let file = root.join(path).join(format!("{resource}.pressure"));
        if path.is_empty() { String::new() } else { kernel_text(&file).unwrap_or_default() }
    };
    DaemonCgroup { throttled: throttled(root, &process.cpu_cgroup), pressure: NodePressure::read(text) }
}

/// Returns how much the CPU limit of the cgroup at `path` throttles it.
pub(super) fn throttled(root: &Path, path: &str) -> Option<Throttled> {
    let dir = hierarchy(root, "cpu").join(path.trim_start_matches('/'));
    let stat = kernel_text(&dir.join("cpu.stat")).ok()?;
    let text = |name: &str| kernel_text(&dir.join(name)).unwrap_or_default();
    let (v2, v1) = (text("cpu.max"), [text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")]);
    let limit = if v2.is_empty() {
        cpu_limit(v1.iter().map(|number| number.trim()))
    } else {
        cpu_limit(v2.split_ascii_whitespace())
    };
    Some(Throttled { limit, is_v1: v2.is_empty(), total: throttled_time(&stat)? })
}

/// Parses the throttled time: microseconds in cgroup v2, nanoseconds in v1.
fn throttled_time(stat: &str) -> Option<Duration> {
    let value = |name: &str| {
        let rest = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        rest.trim().parse::<u64>().ok()
    };
    let micros = value("throttled_usec").map(Duration::from_micros);
    micros.or_else(|| value("throttled_time").map(Duration::from_nanos))
}

/// Parses quota and period; `max` or a negative quota means no limit.
fn cpu_limit<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<f64> {
    let mut next = || words.next()?.parse::<f64>().ok();
    let (quota, period) = (next()?, next()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_with_and_without_a_full_line() {
        let some = "some avg10=61.50 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(Psi::parse(some), Some(Psi { some: 61.5, full: None }));
        let both = format!("{some}full avg10=0.25 avg60=0.00 avg300=0.00 total=3\n");
        assert_eq!(Psi::parse(&both), Some(Psi { some: 61.5, full: Some(0.25) }));
        assert_eq!(Psi::parse(""), None);
    }

    #[test]
    fn throttling_is_read_from_both_cgroup_versions() {
        let v2 = "usage_usec 5\nnr_periods 10\nnr_throttled 9\nthrottled_usec 900000\n";
        assert_eq!(throttled_time(v2), Some(Duration::from_millis(900)));
        let v1 = "nr_periods 10\nnr_throttled 9\nthrottled_time 900000000\n";
        assert_eq!(throttled_time(v1), Some(Duration::from_millis(900)));
        assert_eq!(throttled_time("nr_throttled 9\n"), None);
        let limit = |text: &str| cpu_limit(text.split(' '));
        assert_eq!(limit("100 100000"), Some(0.001));
        assert_eq!((limit("max 100000"), limit("-1 100000"), limit("")), (None, None, None));
    }

    #[test]
    fn a_volume_mount_names_its_pod() {
        let line =
            "36 35 0:50 / /var/lib/kubelet/pods/u-1/volumes/kubernetes.io~nfs/data rw - nfs4 srv:/x rw";
        let mount = parse_mount(line).unwrap();
        assert!(mount.is_remote());
        assert_eq!(mount.pod_uid(), Some("u-1"));
        assert_eq!(mount.source, "srv:/x");
    }

    #[test]
    fn a_read_only_mount_does_not_make_the_file_system_read_only() {
        let mount = |own: &str, whole: &str| {
            parse_mount(&format!(
                r"36 35 8:1 / /host/my\040disk {own},noatime shared:1 - ext4 /dev/sda {whole},seclabel"
            ))
        };
        let debug_pod = mount("ro", "rw").unwrap();
        assert_eq!((debug_pod.target.as_str(), debug_pod.read_only), ("/host/my disk", false));
        assert!(mount("rw", "ro").unwrap().read_only);
    }

    #[test]
    fn octal_escapes_in_mount_points_and_sources_are_decoded() {
        let line = r"36 35 0:50 / /mnt/a\040b\134040c\011d rw - cifs //srv/my\040share\043\303\251 rw";
        let mount = parse_mount(line).unwrap();
        assert_eq!(mount.target, "/mnt/a b\\040c\td");
        assert_eq!(mount.source, "//srv/my share#\u{e9}");
        assert_eq!(unescaped(r"a\b\04"), r"a\b\04");
    }

    #[test]
    fn tasks_are_counted_without_listing_them() {
        assert_eq!(parse_tasks("0.00 0.01 0.05 1/345 6789\n"), 345);
        assert_eq!(parse_tasks(""), 0);
    }
}
