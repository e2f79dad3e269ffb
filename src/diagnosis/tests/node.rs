//! Tests of the rules about the node's processes, cgroups, mounts and disks. The tests write their own `/proc` and cgroup
//! file system.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kubelet::journal;
use super::scripted::{Behaviour, Scripted, container_id, inputs, sandbox_id};
use super::travels::judge;
use crate::cri::Rpc;
use crate::diagnosis::disks::{DirectoryUse, WrittenDirectory};
use crate::diagnosis::evidence::WrittenDisk;
use crate::diagnosis::journal::SystemState;
use crate::diagnosis::report::{Confidence, HealthReport, Phase, RuleId, Severity, Verdict};
use crate::diagnosis::{Evidence, Inputs, gather};
use crate::host::disks::Disk;
use crate::host::proc::{Role, Shims};

/// A directory with the files of `/proc` and of the cgroup file system that `health` reads. Dropping it deletes the
/// directory.
pub(super) struct FakeNode {
    pub(super) root: PathBuf,
}

/// One process of a [`FakeNode`].
pub(super) struct FakeProcess<'a> {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) comm: &'a str,
    pub(super) state: char,
    pub(super) age: u64,
    pub(super) cgroup: &'a str,
    pub(super) command: &'a [&'a str],
    pub(super) wchan: &'a str,
}

impl Default for FakeProcess<'_> {
    fn default() -> Self {
        Self { pid: 0, parent: 1, comm: "app", state: 'S', age: 3600, cgroup: "/", command: &[], wchan: "" }
    }
}

const UPTIME: u64 = 100_000;

const SOCKET: &str = "/run/containerd/containerd.sock";

impl FakeNode {
    /// Creates a node with a kubelet (process 100) and a containerd (process 200).
    pub(super) fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("plegctl-node-{}-{name}", std::process::id()));
        let node = Self { root };
        fs::create_dir_all(node.proc()).unwrap();
        node.file("proc/uptime", &format!("{UPTIME}.00 1.00\n"));
        node.file("proc/loadavg", "0.10 0.10 0.10 1/400 9999\n");
        node.file("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\n");
        node.file("proc/stat", "cpu  1000 0 1000 100000 0 0 0 0 0 0\n");
        node.file("proc/vmstat", "oom_kill 0\npgmajfault 10\n");
        node.file("proc/sys/kernel/pid_max", "32768\n");
        node.file("proc/sys/kernel/threads-max", "100000\n");
        node.pressure("io", 0.0);
        node.pressure("memory", 0.0);
        node.file("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        node.process(&FakeProcess {
            pid: 1,
            parent: 0,
            comm: "systemd",
            age: UPTIME,
            ..FakeProcess::default()
        });
        node.process(&FakeProcess {
            pid: 100,
            comm: "kubelet",
            command: &["kubelet"],
            cgroup: "/system.slice/kubelet.service",
            ..FakeProcess::default()
        });
        node.process(&FakeProcess {
            pid: 200,
            comm: "containerd",
            command: &["containerd"],
            cgroup: "/system.slice/containerd.service",
            ..FakeProcess::default()
        });
        node
    }

    /// Adds a shim and a container process for each of the first `pods` pods of a script.
    pub(super) fn with_pods(self, pods: usize) -> Self {
        for pod in 0..pods {
            let shim = u32::try_from(1000 + pod).unwrap();
            let sandbox = sandbox_id(pod);
            self.process(&FakeProcess {
                pid: shim,
                comm: "containerd-shim",
                command: &["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", &sandbox],
                cgroup: "/system.slice/containerd.service",
                ..FakeProcess::default()
            });
            let cgroup = cgroup_of(pod);
            self.process(&FakeProcess {
                pid: shim + 1000,
                parent: shim,
                cgroup: &cgroup,
                ..FakeProcess::default()
            });
        }
        self
    }

    pub(super) fn proc(&self) -> PathBuf {
        self.root.join("proc")
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn pressure(&self, resource: &str, full: f64) {
        self.pressure_file(&format!("proc/pressure/{resource}"), full);
    }

    /// The pressure in the cgroup of the daemon.
    fn daemon_pressure(&self, resource: &str, full: f64) {
        let file = format!("cgroup/system.slice/containerd.service/{resource}.pressure");
        self.pressure_file(&file, full);
    }

    fn pressure_file(&self, file: &str, full: f64) {
        let line = |kind: &str| format!("{kind} avg10={full:.2} avg60=0.00 avg300=0.00 total=1\n");
        self.file(file, &(line("some") + &line("full")));
    }

    pub(super) fn process(&self, made: &FakeProcess<'_>) {
        let dir = format!("proc/{}", made.pid);
        let started = (UPTIME - made.age) * 100;
        let stat = format!(
            "{} ({}) {} {} 0 0 0 -1 0 0 0 0 0 10 10 0 0 20 0 5 0 {started} 0 100\n",
            made.pid, made.comm, made.state, made.parent
        );
        self.file(&format!("{dir}/stat"), &stat);
        self.file(&format!("{dir}/task/{}/stat", made.pid), &stat);
        self.file(&format!("{dir}/task/{}/wchan", made.pid), made.wchan);
        self.file(&format!("{dir}/wchan"), made.wchan);
        self.file(&format!("{dir}/comm"), &format!("{}\n", made.comm));
        self.file(&format!("{dir}/cgroup"), &format!("0::{}\n", made.cgroup));
        self.file(&format!("{dir}/cmdline"), &made.command.join("\0"));
        self.file(
            &format!("{dir}/limits"),
            "Max open files            1024                 4096                 files\n",
        );
        fs::create_dir_all(self.root.join(format!("{dir}/fd"))).unwrap();
    }

    /// Freezes the cgroup of a pod. The kernel then shows the cgroups below it as frozen too.
    pub(super) fn freeze_pod(&self, pod: usize) {
        let cgroup = cgroup_of(pod);
        let (of_pod, _) = cgroup.rsplit_once('/').unwrap();
        for frozen in [of_pod, &cgroup] {
            self.file(&format!("cgroup{frozen}/cgroup.events"), "populated 1\nfrozen 1\n");
        }
    }

    pub(super) async fn diagnose(&self, script: Scripted) -> HealthReport {
        judge(&self.gathered(script).await)
    }

    /// Adds the files that show that the daemon listens on its socket.
    pub(super) fn listening(self) -> Self {
        let line = format!("0000: 00000002 00000000 00010000 0001 01 77 {SOCKET}\n");
        self.file("proc/200/net/unix", &line);
        std::os::unix::fs::symlink("socket:[77]", self.proc().join("200/fd/8")).unwrap();
        self
    }

    pub(super) fn inputs(&self, script: Scripted) -> Inputs<Scripted> {
        let mut inputs = inputs(script);
        inputs.proc = Some(self.proc());
        inputs.cgroup = self.root.join("cgroup");
        inputs.host_root.clone_from(&self.root);
        inputs.socket = self.proc().join("200/net").exists().then(|| SOCKET.into());
        inputs
    }

    pub(super) async fn gathered(&self, script: Scripted) -> Evidence {
        gather(&self.inputs(script), &|_| ()).await
    }
}

/// Returns the socket of the daemon of a node that is [`FakeNode::listening`].
pub(super) const fn listening_socket() -> &'static str {
    SOCKET
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub(super) fn cgroup_of(pod: usize) -> String {
    format!("/kubepods/burstable/poduid-{pod}/{}", container_id(pod))
}

/// Returns a runtime where the status call of one container hangs.
pub(super) fn hung(pods: usize, hung: usize) -> Scripted {
    Scripted::with_pods(pods).on_id(container_id(hung), Behaviour::Hangs)
}

#[track_caller]
fn assert_primary(
    report: &HealthReport,
    id: RuleId,
    confidence: Confidence,
    phase: Phase,
    pod: Option<&str>,
) {
    let primary = report.primary.as_ref().unwrap();
    let named = primary.pod.as_ref().map(ToString::to_string);
    assert_eq!(
        (primary.id, primary.confidence, primary.phase, named.as_deref()),
        (id, confidence, phase, pod),
        "{report:#?}"
    );
}

pub(super) fn find(report: &HealthReport, id: RuleId) -> Option<&crate::diagnosis::report::HealthFinding> {
    report.findings.iter().find(|finding| finding.id == id)
}

#[tokio::test(start_paused = true)]
async fn a_healthy_node_with_normal_processes_is_healthy() {
    let node = FakeNode::new("healthy").with_pods(20);
    let report = node.diagnose(Scripted::with_pods(20)).await;
    assert_eq!(report.verdict, Verdict::Healthy, "{report:#?}");
    assert!(
        report.findings.iter().all(|finding| finding.severity == Severity::Info),
        "{:#?}",
        report.findings
    );
    assert_eq!(report.kubelet.unwrap().pid, Some(100));
}

#[tokio::test(start_paused = true)]
async fn shims_are_read_in_detail_if_a_call_may_hang() {
    let read = |evidence: &Evidence, pid: u32| {
        let first = &evidence.host.as_ref().unwrap().first;
        let shim = &first.processes[&pid];
        (first.shims, shim.command.is_empty(), shim.blocked.len())
    };
    let node = FakeNode::new("shims").with_pods(3).listening();
    node.file("proc/1001/task/1501/stat", "1501 (containerd-shim) D 1 0 0 0 -1 0\n");
    let healthy = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(read(&healthy, 1001), (Shims::Counted, true, 0));
    let hanging = node.gathered(hung(3, 1)).await;
    assert_eq!(
        read(&hanging, 1001),
        (Shims::Detailed, true, 1),
        "the command line of a process that waits is not read"
    );
    assert_eq!(read(&hanging, 1002), (Shims::Detailed, false, 0));

    node.pressure("io", 60.0);
    assert_eq!(read(&node.gathered(Scripted::with_pods(3)).await, 1001).0, Shims::Detailed);
    node.pressure("io", 0.0);
    // A shim without other processes: only its command line shows that it belongs to the runtime.
    let sandbox = sandbox_id(7);
    let command = ["containerd-shim-runc-v2", "-id", &sandbox, "-address", SOCKET];
    node.process(&FakeProcess {
        pid: 1900,
        comm: "containerd-shim",
        state: 'T',
        command: &command,
        ..FakeProcess::default()
    });
    let stopped = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&stopped, RuleId::HungProcess).is_some(), "{stopped:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_table_without_the_runtimes_containers_is_not_used() {
    let node = FakeNode::new("foreign").with_pods(0);
    node.process(&FakeProcess {
        pid: 300,
        comm: "runc",
        state: 'D',
        wchan: "nfs_wait_bit_killable",
        parent: 200,
        ..FakeProcess::default()
    });
    let report = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(report.verdict, Verdict::Healthy);
    assert!(
        report.not_checked.iter().any(|skipped| skipped.why
            == "the process table belongs to another machine or pod, not to this runtime")
    );
    assert!(
        find(&report, RuleId::RemoteStorageStall).is_none() && find(&report, RuleId::KubeletDown).is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn an_old_runc_for_the_hung_container_is_the_cause_of_the_hang() {
    let node = FakeNode::new("runc").with_pods(10);
    let guilty = container_id(4);
    node.process(&FakeProcess {
        pid: 3000,
        parent: 1004,
        comm: "runc",
        age: 200,
        command: &["runc", "--root", "/run/containerd/runc/k8s.io", "kill", &guilty, "9"],
        ..FakeProcess::default()
    });
    let report = node.diagnose(hung(10, 4)).await;
    assert_primary(&report, RuleId::HungProcess, Confidence::Likely, Phase::Status, Some("default/web-4"));
    assert_eq!(report.primary.as_ref().unwrap().container.as_ref().unwrap().id, guilty);
    assert!(report.primary.as_ref().unwrap().evidence.iter().any(|line| line.contains("runc[3000] kill")));
    assert!(find(&report, RuleId::HungStatus).is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_hang_neither_a_young_nor_an_old_runc_changes_the_verdict() {
    let node = FakeNode::new("young").with_pods(5);
    node.process(&FakeProcess {
        pid: 3000,
        parent: 1001,
        comm: "runc",
        age: 2,
        command: &["runc", "create"],
        ..FakeProcess::default()
    });
    let young = node.diagnose(Scripted::with_pods(5)).await;
    assert!(find(&young, RuleId::HungProcess).is_none());

    node.process(&FakeProcess {
        pid: 3001,
        parent: 1001,
        comm: "runc",
        age: 500,
        command: &["runc", "start"],
        ..FakeProcess::default()
    });
    let old = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(old.verdict, Verdict::Healthy);
    assert_eq!(find(&old, RuleId::HungProcess).unwrap().confidence, Confidence::Possible);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_shim_is_the_cause_of_a_hung_list() {
    let node = FakeNode::new("shim").with_pods(10).listening();
    let sandbox = sandbox_id(3);
    node.process(&FakeProcess {
        pid: 1003,
        comm: "containerd-shim",
        state: 'T',
        command: &["containerd-shim-runc-v2", "-id", &sandbox],
        cgroup: "/system.slice/containerd.service",
        ..FakeProcess::default()
    });
    for pod in 0..10 {
        node.file(&format!("var/log/containers/web-{pod}_default_app-{}.log", container_id(pod)), "");
    }
    let report = node.diagnose(hung(10, 3).on(Rpc::ListContainers, Behaviour::Hangs)).await;
    assert_primary(&report, RuleId::HungProcess, Confidence::Likely, Phase::List, Some("default/web-3"));
    assert_eq!(report.verdict, Verdict::Unhealthy);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.rpc.as_deref(), Some("ListContainers"));
    assert_eq!(primary.container.as_ref().unwrap().id, container_id(3));
    assert_eq!(primary.title, "the shim containerd-shim[1003] of default/web-3/app is stopped");
    assert!(primary.evidence.iter().any(|line| line.contains("its shim containerd-shim[1003]: state T")));
    assert!(report.summary.contains(": NotReady at the latest at "), "{}", report.summary);
    let list = find(&report, RuleId::HungList).unwrap();
    assert_eq!(list.pod.as_ref().unwrap().to_string(), "default/web-3");

    // With CPU contention, the stopped shim is still the cause.
    node.file("proc/pressure/cpu", "some avg10=95.00 avg60=0.00 avg300=0.00 total=0\n");
    node.daemon_pressure("cpu", 95.0);
    let slow = Behaviour::After(Duration::from_millis(800));
    let hung = hung(10, 3).on(Rpc::ListContainers, Behaviour::Hangs).on(Rpc::Version, slow);
    let starved = node.diagnose(hung).await;
    assert_primary(&starved, RuleId::HungProcess, Confidence::Likely, Phase::List, Some("default/web-3"));
    assert_eq!(find(&starved, RuleId::CpuStarved).unwrap().confidence, Confidence::Likely);
}

/// A disk under a directory of the runtime.
pub(super) fn written(path: &str, disk: Disk) -> WrittenDisk {
    let directory = WrittenDirectory { usage: DirectoryUse::RuntimeRoot, path: path.into() };
    WrittenDisk { directories: vec![directory], disk }
}

/// Replaces a pod's shim by a conmon, as with CRI-O.
fn conmon(node: &FakeNode, pod: usize, state: char) {
    node.process(&FakeProcess {
        pid: u32::try_from(1000 + pod).unwrap(),
        comm: "conmon",
        state,
        command: &["conmon", "-c", &container_id(pod)],
        cgroup: "/system.slice/crio.service",
        ..FakeProcess::default()
    });
}

#[tokio::test(start_paused = true)]
async fn a_stopped_conmon_is_reported_and_sigusr1_is_not_suggested() {
    let node = FakeNode::new("conmon").with_pods(10);
    for pod in 0..10 {
        conmon(&node, pod, if pod == 3 { 'T' } else { 'S' });
    }
    let crio = || Scripted::with_pods(10).under_crio();
    let report = node.diagnose(crio()).await;
    let found = find(&report, RuleId::HungProcess).unwrap();
    assert!(found.title.starts_with("conmon[1003] of default/web-3/app"), "{found:#?}");
    let text = found.evidence.join("\n");
    assert!(text.contains("exit is not noticed") && !text.contains("hang"), "{found:#?}");
    // SIGUSR1 would kill conmon, and the exit code of its container would be lost.
    let hung = node.diagnose(crio().on_id(container_id(5), Behaviour::Hangs)).await;
    assert!(
        hung.findings
            .iter()
            .flat_map(|finding| &finding.steps)
            .all(|step| !step.to_string().contains("-USR1 1005"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_container_without_process_and_conmon_is_d19() {
    let node = FakeNode::new("unwatched").with_pods(10);
    for pod in 0..10 {
        conmon(&node, pod, 'S');
    }
    for gone in ["1003", "2003"] {
        fs::remove_dir_all(node.proc().join(gone)).unwrap();
    }
    let report = node.diagnose(Scripted::with_pods(10).under_crio()).await;
    let found = find(&report, RuleId::InconsistentState).unwrap();
    assert_eq!((found.confidence, &found.ids), (Confidence::Likely, &vec![container_id(3)]));
    assert!(found.title.ends_with("is RUNNING and has no process"), "{found:#?}");
    assert!(
        found.evidence.iter().any(|line| line.starts_with("1 of them also lost their conmon")),
        "{found:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_nfs_in_the_hung_container_is_the_primary_finding() {
    let node = FakeNode::new("nfs").with_pods(5);
    let cgroup = cgroup_of(2);
    node.process(&FakeProcess {
        pid: 2002,
        parent: 1002,
        state: 'D',
        wchan: "nfs_wait_bit_killable",
        cgroup: &cgroup,
        ..FakeProcess::default()
    });
    node.file(
        "proc/self/mountinfo",
        "36 35 0:50 / /var/lib/kubelet/pods/uid-2/volumes/kubernetes.io~nfs/data rw - nfs4 srv:/export rw\n",
    );
    let report = node.diagnose(hung(5, 2)).await;
    assert_primary(
        &report,
        RuleId::RemoteStorageStall,
        Confidence::Likely,
        Phase::Status,
        Some("default/web-2"),
    );
    let primary = report.primary.as_ref().unwrap();
    assert!(primary.title.contains("srv:/export"), "{}", primary.title);
    assert!(primary.evidence.iter().any(|line| line.contains("nfs_wait_bit_killable")));
    assert!(
        report.keep.iter().map(ToString::to_string).any(|line| line.contains("/proc/2002/task/2002/stack")),
        "{:?}",
        report.keep
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_nfs_without_a_mount_is_only_possible() {
    let node = FakeNode::new("nfs-alone").with_pods(5);
    let cgroup = cgroup_of(2);
    node.process(&FakeProcess {
        pid: 2002,
        parent: 1002,
        state: 'D',
        wchan: "nfs_wait_bit_killable",
        cgroup: &cgroup,
        ..FakeProcess::default()
    });
    let report = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(report.verdict, Verdict::Healthy);
    assert_eq!(find(&report, RuleId::RemoteStorageStall).unwrap().confidence, Confidence::Possible);
}

#[tokio::test(start_paused = true)]
async fn blocked_shims_are_a_storage_stall() {
    let node = FakeNode::new("io").with_pods(5);
    for pid in [1001, 1002] {
        node.process(&FakeProcess {
            pid,
            comm: "containerd-shim",
            state: 'D',
            wchan: "sync_inodes_sb",
            ..FakeProcess::default()
        });
    }
    node.pressure("io", 70.0);
    let report = node.diagnose(hung(5, 1)).await;
    assert_primary(&report, RuleId::StorageStall, Confidence::Likely, Phase::Status, None);
    assert_eq!(find(&report, RuleId::HungStatus).unwrap().pod.as_ref().unwrap().to_string(), "default/web-1");

    let pressed = FakeNode::new("io-only").with_pods(5);
    pressed.pressure("io", 70.0);
    let report = pressed.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(report.verdict, Verdict::Healthy, "pressure without a hang does not change the verdict");
    assert_eq!(find(&report, RuleId::StorageStall).unwrap().confidence, Confidence::Possible);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_cgroup_is_reported_with_its_pod() {
    let node = FakeNode::new("frozen").with_pods(5);
    node.freeze_pod(2);
    let alone = node.diagnose(Scripted::with_pods(5)).await;
    assert_primary(&alone, RuleId::FrozenCgroup, Confidence::Likely, Phase::None, Some("default/web-2"));
    assert_eq!(alone.verdict, Verdict::Degraded);

    // A kubelet from 1.37 on may have frozen the cgroup for CheckpointPod, so it does not change the verdict.
    let mut evidence = node.gathered(Scripted::with_pods(5)).await;
    evidence.settings.kubelet.value = crate::kubelet::KubeletVersion::parse("1.37").unwrap();
    let checkpointed = judge(&evidence);
    assert_eq!(checkpointed.verdict, Verdict::Healthy);
    assert_eq!(find(&checkpointed, RuleId::FrozenCgroup).unwrap().severity, Severity::Info);

    let with_hang = node.diagnose(hung(5, 2)).await;
    assert_primary(
        &with_hang,
        RuleId::FrozenCgroup,
        Confidence::Certain,
        Phase::Status,
        Some("default/web-2"),
    );
    let thaw = |report: &HealthReport| report.primary.as_ref().unwrap().steps[0].to_string();
    assert!(thaw(&with_hang).contains("thaw it (changes state): echo 0 > /sys/fs/cgroup/"), "{with_hang:#?}");
    assert!(thaw(&with_hang).ends_with("/cgroup.freeze"), "{with_hang:#?}");

    let old = FakeNode::new("frozen-v1").with_pods(5);
    let cgroup = format!("cgroup/freezer{}/freezer.state", cgroup_of(1));
    old.file(&cgroup, "FROZEN\n");
    let cgroup = cgroup_of(1);
    let frozen = FakeProcess { pid: 2001, parent: 1001, cgroup: &cgroup, ..FakeProcess::default() };
    // As the kernel shows a process in such a cgroup: frozen, or frozen after a signal has stopped it.
    for (state, wchan) in [('D', "__refrigerator"), ('T', "do_signal_stop")] {
        old.process(&FakeProcess { state, wchan, ..frozen });
        let report = old.diagnose(Scripted::with_pods(5)).await;
        let found = find(&report, RuleId::FrozenCgroup).unwrap();
        assert_eq!(found.pod.as_ref().unwrap().to_string(), "default/web-1");
    }
    old.process(&FakeProcess { state: 'D', wchan: "__refrigerator", ..frozen });
    let report = old.diagnose(Scripted::with_pods(5)).await;
    assert_primary(&report, RuleId::FrozenCgroup, Confidence::Likely, Phase::None, Some("default/web-1"));
    let file = format!("echo THAWED > /sys/fs/cgroup/freezer{}/freezer.state", cgroup_of(1));
    assert!(thaw(&report).ends_with(&file), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn nearly_used_up_limits_of_processes_are_d14() {
    let node = FakeNode::new("pids").with_pods(5);
    node.file("proc/loadavg", "0.10 0.10 0.10 1/32000 9999\n");
    let report = node.diagnose(Scripted::with_pods(5)).await;
    assert_primary(&report, RuleId::ExhaustedLimits, Confidence::Likely, Phase::None, None);
    assert!(report.primary.unwrap().evidence[0].contains("32000 tasks of pid_max 32768"));

    let slice = FakeNode::new("pids-slice").with_pods(5);
    slice.file("cgroup/system.slice/containerd.service/pids.current", "95\n");
    slice.file("cgroup/system.slice/containerd.service/pids.max", "100\n");
    let report = slice.diagnose(Scripted::with_pods(5)).await;
    assert_primary(&report, RuleId::ExhaustedLimits, Confidence::Likely, Phase::None, None);
    let raise = report.primary.unwrap().steps.remove(0).command;
    assert_eq!(
        raise.as_deref(),
        Some("systemctl set-property --runtime containerd.service TasksMax=infinity")
    );
}

#[tokio::test(start_paused = true)]
async fn descriptors_of_a_full_healthy_containerd_are_no_exec_leak() {
    let (node, pods) = (FakeNode::new("descriptors").with_pods(109), || Scripted::with_pods(109));
    let open = |from: usize, to: usize| {
        for descriptor in from..to {
            fs::write(node.proc().join(format!("200/fd/{descriptor}")), "").unwrap();
        }
    };
    // containerd 2.1 was measured with 1217 descriptors for 109 containers. Its limit is far away.
    node.file(
        "proc/200/limits",
        "Max open files            1048576              1048576              files\n",
    );
    open(0, 1217);
    assert_eq!(find(&node.diagnose(pods()).await, RuleId::ExecStorm), None);
    open(1217, 5000);
    let report = node.diagnose(pods()).await;
    let found = find(&report, RuleId::ExecStorm).unwrap();
    assert!(found.evidence[0].contains("109 containers, 109 sandboxes and 109 shims"), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_reported_and_explains_a_hang() {
    const GIB: u64 = 1 << 30;
    let node = FakeNode::new("disk").with_pods(20);
    fs::create_dir_all(node.root.join("var/lib/kubelet")).unwrap();
    let healthy =
        Disk { size: 100 * GIB, free: 20 * GIB, inodes: 1_000_000, free_inodes: 500_000, ..Disk::default() };
    let rows = [
        (healthy.clone(), None),
        // One percent of a large disk is enough space, and a small disk with free space is not full.
        (Disk { size: 10_000 * GIB, free: 2 * GIB, ..healthy.clone() }, None),
        (Disk { size: 10 << 20, free: 9 << 20, ..healthy.clone() }, None),
        (Disk { inodes: 0, free_inodes: 0, ..healthy.clone() }, None),
        // An ext4 of half a gigabyte after ENOSPC, one with free space for all users, and one with four percent for root.
        (
            Disk { size: 488 << 20, free: 10 << 20, available: 0, ..healthy.clone() },
            Some("is full: 0 of 488 MiB are free"),
        ),
        (Disk { size: 488 << 20, free: 10 << 20, available: 9 << 20, ..healthy.clone() }, None),
        (Disk { size: 488 << 20, free: 20 << 20, available: 0, ..healthy.clone() }, None),
        (Disk { free: 0, ..healthy.clone() }, Some("is full: 0 of 102400 MiB are free")),
        (
            Disk { free_inodes: 7, ..healthy.clone() },
            Some("cannot store more files: 7 of 1000000 inodes are free"),
        ),
        (Disk { read_only: true, ..healthy }, Some("is read-only")),
    ];
    for (disk, text) in rows {
        let mut evidence = node.gathered(hung(20, 3)).await;
        let host = evidence.host.as_mut().unwrap();
        // The run has measured the disk of the test's own directory.
        assert_eq!(host.disks.len(), 1, "{:?}", host.disks);
        host.disks = vec![written("/data", disk)];
        let report = judge(&evidence);
        let found = find(&report, RuleId::FullDisk);
        assert_eq!(found.is_some(), text.is_some(), "{report:#?}");
        if let (Some(found), Some(text)) = (found, text) {
            assert!(found.evidence[0].contains(text), "{found:#?}");
            assert_eq!(found.phase, Phase::Status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_sign_of_low_memory_is_possible_and_two_are_likely() {
    let node = FakeNode::new("memory").with_pods(5);
    node.pressure("memory", 30.0);
    let one = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(one.verdict, Verdict::Healthy);
    assert_eq!(find(&one, RuleId::OutOfMemory).unwrap().confidence, Confidence::Possible);

    node.file("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 100000 kB\n");
    let two = node.diagnose(Scripted::with_pods(5)).await;
    assert_primary(&two, RuleId::OutOfMemory, Confidence::Likely, Phase::None, None);
    assert_eq!(two.verdict, Verdict::Degraded);
}

#[tokio::test(start_paused = true)]
async fn cpu_pressure_alone_does_not_blame_the_cpu() {
    let node = FakeNode::new("cpu").with_pods(5).listening();
    node.file("proc/pressure/cpu", "some avg10=95.00 avg60=0.00 avg300=0.00 total=0\n");
    let slow = || Scripted::with_pods(5).on(Rpc::Version, Behaviour::After(Duration::from_millis(800)));
    let of_node = node.diagnose(slow()).await;
    assert_eq!(find(&of_node, RuleId::CpuStarved).unwrap().confidence, Confidence::Possible);
    node.daemon_pressure("cpu", 95.0);
    let alone = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(find(&alone, RuleId::CpuStarved).unwrap().confidence, Confidence::Possible);
    let both = node.diagnose(slow()).await;
    assert_eq!(find(&both, RuleId::CpuStarved).unwrap().confidence, Confidence::Likely);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_daemon_is_named_as_stopped() {
    let node = FakeNode::new("stopped").with_pods(2);
    node.process(&FakeProcess { pid: 200, comm: "containerd", state: 'T', ..FakeProcess::default() });
    node.file(
        "proc/200/net/unix",
        "Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 10000 1 1 4242 /run/test.sock\n",
    );
    std::os::unix::fs::symlink("socket:[4242]", node.root.join("proc/200/fd/7")).unwrap();
    let mut inputs = inputs(Scripted::with_pods(2).on(Rpc::Version, Behaviour::Hangs));
    inputs.proc = Some(node.proc());
    inputs.socket = Some("/run/test.sock".into());
    let report = judge(&gather(&inputs, &|_| ()).await);
    assert_primary(&report, RuleId::SilentRuntime, Confidence::Certain, Phase::Connect, None);
    assert!(report.primary.unwrap().title.contains("containerd[200] is in state T"));
    assert!(
        !report.keep.iter().map(ToString::to_string).any(|line| line.contains("USR1")),
        "it cannot answer: {:?}",
        report.keep
    );
}

#[tokio::test(start_paused = true)]
async fn the_stacks_of_a_containerd_with_a_debug_socket_need_no_signal() {
    let node = FakeNode::new("debug-socket").with_pods(20).listening();
    let first_to_keep = async || node.diagnose(hung(20, 3)).await.keep[0].to_string();
    assert!(first_to_keep().await.contains("kill -USR1 200"));
    fs::create_dir_all(node.root.join("run/containerd")).unwrap();
    let _socket = UnixListener::bind(node.root.join("run/containerd/debug.sock")).unwrap();
    let step = first_to_keep().await;
    let get = "--unix-socket /run/containerd/debug.sock 'http://localhost/debug/pprof/goroutine?debug=2'";
    assert!(step.contains(get) && !step.contains("USR1"), "{step}");
}

#[tokio::test(start_paused = true)]
async fn missing_kubelet_is_reported_only_if_it_was_installed() {
    let bare = FakeNode::new("bare").with_pods(3);
    fs::remove_dir_all(bare.proc().join("100")).unwrap();
    let report = bare.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Healthy);

    bare.file("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
    let report = bare.diagnose(Scripted::with_pods(3)).await;
    assert_primary(&report, RuleId::KubeletDown, Confidence::Likely, Phase::Kubelet, None);
    assert_eq!(report.verdict, Verdict::Unhealthy, "its directory exists, and the runtime has pods");
    let nothing = bare.diagnose(Scripted::with_pods(0)).await;
    assert_ne!(
        nothing.verdict,
        Verdict::Unhealthy,
        "on a node without pods, the kubelet may have been removed on purpose"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_sees_only_its_own_processes_reports_no_missing_kubelet() {
    let pod = FakeNode::new("own-table").with_pods(3);
    fs::remove_dir_all(pod.proc().join("100")).unwrap();
    fs::remove_dir_all(pod.proc().join("200")).unwrap();
    pod.file("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
    let report = pod.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Healthy, "{report:#?}");
    assert!(report.findings.iter().all(|finding| finding.id != RuleId::KubeletDown));
}

/// A node may have a containerd for Docker and another for the kubelet. If their file descriptors cannot be read, plegctl
/// cannot distinguish them.
#[tokio::test(start_paused = true)]
async fn no_daemon_is_chosen_if_several_run() {
    let node = FakeNode::new("two-daemons").with_pods(3);
    fs::remove_dir_all(node.proc().join("100")).unwrap();
    let one = judge(&gather(&at_socket(&node, Scripted::with_pods(3)), &|_| ()).await);
    assert!(find(&one, RuleId::KubeletDown).is_some(), "{one:#?}");
    let command = &["containerd", "--config", "/etc/docker.toml"];
    node.process(&FakeProcess { pid: 201, comm: "containerd", command, ..FakeProcess::default() });
    let several = judge(&gather(&at_socket(&node, Scripted::with_pods(3)), &|_| ()).await);
    assert!(find(&several, RuleId::KubeletDown).is_none(), "{several:#?}");
    let skipped: Vec<&str> = several.not_checked.iter().map(|skipped| skipped.what.as_str()).collect();
    assert!(skipped.contains(&"the runtime's daemon"), "{skipped:?}");
    assert!(
        !skipped.contains(&"processes outside of this pod"),
        "the processes of the node are visible: {skipped:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_kubelet_is_named_by_its_state() {
    let node = FakeNode::new("stopped-kubelet").with_pods(3);
    node.process(&FakeProcess { pid: 100, comm: "kubelet", state: 'T', ..FakeProcess::default() });
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_primary(&report, RuleId::KubeletDown, Confidence::Certain, Phase::Kubelet, None);
    assert_eq!(report.verdict, Verdict::Unhealthy);
    let summary = "the kubelet is stopped: kubelet[100] is in state T: NotReady at the latest at ";
    assert!(report.summary.starts_with(summary), "{}", report.summary);
    assert!(
        !report.keep.iter().map(ToString::to_string).any(|line| line.contains("USR1")),
        "{:?}",
        report.keep
    );
    assert!(report.primary.unwrap().steps[0].to_string().contains("kill -CONT 100"));
}

#[tokio::test(start_paused = true)]
async fn the_estimate_uses_the_kubelets_own_settings() {
    let node = FakeNode::new("settings").with_pods(3);
    node.file("etc/kubelet.yaml", "runtimeRequestTimeout: 4m0s\n");
    node.process(&FakeProcess {
        pid: 100,
        comm: "kubelet",
        command: &["kubelet", "--config=/etc/kubelet.yaml"],
        ..FakeProcess::default()
    });
    let report = node.diagnose(hung(3, 1)).await;
    let estimate = report.estimate.unwrap();
    assert!((estimate.request_timeout_seconds - 240.0).abs() < 1e-9);
    assert!(estimate.would_trip, "one call of four minutes is over the threshold");
    assert!(estimate.basis.iter().any(|basis| basis.source == "the kubelet's configuration file"));
    assert_eq!(report.verdict, Verdict::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn a_missing_process_table_makes_the_verdict_unknown_only_if_the_user_named_it() {
    let mut plain = inputs(Scripted::with_pods(1));
    plain.proc = Some("/plegctl-test-no-proc".into());
    let report = judge(&gather(&plain, &|_| ()).await);
    assert_eq!(report.verdict, Verdict::Healthy);
    assert!(report.not_checked.iter().any(|skipped| skipped.why.contains("not a process file system")));
    plain.proc_is_explicit = true;
    assert_eq!(judge(&gather(&plain, &|_| ()).await).verdict, Verdict::Unknown);
}

#[tokio::test(start_paused = true)]
async fn the_summary_names_the_wrong_path_of_the_user_although_a_finding_comes_first() {
    let mut script = Scripted::with_pods(5);
    script.list_bytes = Some(15 << 20);
    let mut large = inputs(script);
    large.proc = Some("/plegctl-test-no-proc".into());
    large.proc_is_explicit = true;
    // A check that is left out does not make the verdict unknown.
    large.kubelet.healthz = None;
    let report = judge(&gather(&large, &|_| ()).await);
    assert_eq!((report.verdict, report.primary.unwrap().id), (Verdict::Unknown, RuleId::LargeList));
    let reason = "; not judged: `/plegctl-test-no-proc` is not a process file system";
    assert!(report.summary.ends_with(reason), "{}", report.summary);
}

#[test]
fn the_command_line_of_a_blocked_process_is_not_read() {
    let node = FakeNode::new("cmdline");
    let sandbox = sandbox_id(1);
    node.process(&FakeProcess {
        pid: 1001,
        comm: "containerd-shim",
        state: 'D',
        command: &["shim", "-id", &sandbox],
        ..FakeProcess::default()
    });
    let paths = crate::diagnosis::proc::ProcPaths {
        proc: node.proc(),
        cgroup: Path::new("/plegctl-test-no-cgroup").to_owned(),
        socket: None,
    };
    let sample = crate::diagnosis::proc::sample(&paths);
    assert!(sample.processes[&1001].command.is_empty());
    assert!(!sample.processes[&200].command.is_empty());
}

/// Sets the user and the mount namespace of a process.
fn set_owner(node: &FakeNode, pid: u32, uid: u32, mounts: &str) {
    node.file(&format!("proc/{pid}/status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\n"));
    let namespaces = node.proc().join(format!("{pid}/ns"));
    fs::create_dir_all(&namespaces).unwrap();
    std::os::unix::fs::symlink(mounts, namespaces.join("mnt")).unwrap();
}

/// A user that is not root.
const OTHER_USER: u32 = 4_000_000;

#[tokio::test(start_paused = true)]
async fn a_stopped_kubelet_or_containerd_of_another_user_is_ignored() {
    let node = FakeNode::new("other-user").with_pods(3).listening();
    let stopped = |pid, comm| FakeProcess {
        pid,
        comm,
        state: 'T',
        command: &["x", "--config=/etc/shadow"],
        ..FakeProcess::default()
    };
    for (pid, comm) in [(40, "kubelet"), (41, "containerd"), (42, "containerd-shim")] {
        node.process(&stopped(pid, comm));
        set_owner(&node, pid, OTHER_USER, "mnt:[2]");
    }
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Healthy, "{}", report.summary);
    let evidence = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(evidence.kubelet.pid, Some(100));
    let counted = |role| evidence.node().unwrap().latest().with_role(role).count();
    assert_eq!([Role::Kubelet, Role::Daemon, Role::Shim].map(counted), [1, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_untrusted_kubelet_of_root_is_neither_used_nor_reported_missing() {
    let node = FakeNode::new("doubt").with_pods(3).listening();
    fs::create_dir_all(node.root.join("var/lib/kubelet")).unwrap();
    fs::remove_dir_all(node.proc().join("100")).unwrap();
    let missed = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&missed, RuleId::KubeletDown).is_some(), "no kubelet runs: {}", missed.summary);
    set_owner(&node, 1, 0, "mnt:[1]");
    // Some distributions run the kubelet as root from a container image.
    node.process(&FakeProcess {
        pid: 300,
        comm: "kubelet",
        command: &["kubelet"],
        cgroup: "/own",
        ..FakeProcess::default()
    });
    set_owner(&node, 300, 0, "mnt:[2]");
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::KubeletDown).is_none(), "{}", report.summary);
    let why = "kubelet[300] does not count as the kubelet: it runs in another mount namespace";
    assert!(report.not_checked.iter().any(|left| left.why == why), "{:?}", report.not_checked);
}

#[tokio::test(start_paused = true)]
async fn only_a_child_of_the_daemon_with_the_name_of_a_plugin_is_a_hanging_plugin() {
    let node = FakeNode::new("cni").with_pods(3);
    node.file("opt/cni/bin/calico", "");
    node.process(&FakeProcess {
        pid: 4000,
        parent: 200,
        comm: "nri-plugin",
        age: 9000,
        ..FakeProcess::default()
    });
    let unrelated = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&unrelated, RuleId::NetworkNotReady).is_none());
    node.process(&FakeProcess { pid: 4001, parent: 200, comm: "calico", age: 90, ..FakeProcess::default() });
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_primary(&report, RuleId::NetworkNotReady, Confidence::Likely, Phase::None, None);
}

#[tokio::test(start_paused = true)]
async fn shims_of_another_runtime_are_ignored() {
    let node = FakeNode::new("second").with_pods(3);
    let other = crate::diagnosis::tests::scripted::id(7, 'e');
    node.process(&FakeProcess {
        pid: 5000,
        comm: "containerd-shim",
        state: 'T',
        command: &["containerd-shim-runc-v2", "-id", &other, "-address", "/run/other.sock"],
        ..FakeProcess::default()
    });
    node.process(&FakeProcess {
        pid: 5001,
        parent: 5000,
        state: 'D',
        wchan: "nfs_wait_bit_killable",
        ..FakeProcess::default()
    });
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Healthy);
    assert!(
        find(&report, RuleId::HungProcess).is_none() && find(&report, RuleId::RemoteStorageStall).is_none()
    );
}

/// Asserts that the hang is certain before ten seconds of silence, and that the culprit has this holder.
#[track_caller]
fn assert_early(report: &HealthReport, holder: &str) {
    let [culprit] = report.culprits.as_slice() else { panic!("{report:#?}") };
    assert_eq!(culprit.confidence, Confidence::Certain, "{report:#?}");
    assert!((5.0..7.0).contains(&culprit.waited_seconds), "{culprit:#?}");
    assert!(report.duration_seconds < 8.0, "{}", report.duration_seconds);
    assert!(culprit.holder.as_ref().unwrap().contains(holder), "{culprit:#?}");
    assert_eq!(find(report, RuleId::HungStatus).unwrap().confidence, Confidence::Certain, "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_second_piece_of_evidence_makes_a_hang_certain_at_five_seconds() {
    let frozen = FakeNode::new("early-frozen").with_pods(5);
    frozen.freeze_pod(2);
    assert_early(&frozen.diagnose(hung(5, 2)).await, "is frozen");

    let blocked = FakeNode::new("early-blocked").with_pods(5);
    blocked.process(&FakeProcess {
        pid: 2002,
        parent: 1002,
        state: 'D',
        wchan: "nfs_wait_bit_killable",
        cgroup: &cgroup_of(2),
        ..FakeProcess::default()
    });
    assert_early(&blocked.diagnose(hung(5, 2)).await, "waits in the kernel in both samples");

    let stopped = FakeNode::new("early-stopped").with_pods(5);
    stopped.process(&FakeProcess {
        pid: 1002,
        comm: "containerd-shim",
        state: 'T',
        command: &["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", &sandbox_id(2)],
        cgroup: "/system.slice/containerd.service",
        ..FakeProcess::default()
    });
    assert_early(&stopped.diagnose(hung(5, 2)).await, "is stopped (state T)");

    // A stopped shim of another pod is no evidence for this hang.
    let report = stopped.diagnose(hung(5, 3)).await;
    let culprit = report.culprits.iter().find(|culprit| culprit.id == container_id(3)).unwrap();
    assert!(culprit.waited_seconds >= 10.0 && culprit.holder.is_none(), "{culprit:#?}");
}

/// Returns a node with CRI-O (process 200), which listens on the socket.
pub(super) fn crio(name: &str) -> FakeNode {
    let node = FakeNode::new(name);
    node.process(&FakeProcess {
        pid: 200,
        comm: "crio",
        command: &["crio"],
        cgroup: "/system.slice/crio.service",
        ..FakeProcess::default()
    });
    let table = "Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 10000 1 1 4242 /run/test.sock\n";
    node.file("proc/200/net/unix", table);
    std::os::unix::fs::symlink("socket:[4242]", node.root.join("proc/200/fd/7")).unwrap();
    node
}

/// Returns a CRI-O with this number of pods. It lost the exits of the containers of the pods with the numbers `lost`.
pub(super) fn with_lost_exits(pods: usize, lost: &[usize]) -> Scripted {
    let mut script = Scripted::with_pods(pods);
    script.crio = true;
    for pod in lost {
        script.containers[*pod].state = crate::cri::ContainerState::Exited;
        script.exit_codes.insert(container_id(*pod), -1);
        script = script.on_id(container_id(*pod), Behaviour::After(Duration::from_millis(3740)));
    }
    script
}

pub(super) fn at_socket(node: &FakeNode, script: Scripted) -> crate::diagnosis::Inputs<Scripted> {
    let mut inputs = inputs(script);
    inputs.proc = Some(node.proc());
    inputs.cgroup = node.root.join("cgroup");
    inputs.host_root.clone_from(&node.root);
    inputs.socket = Some("/run/test.sock".into());
    inputs.socket_here = Some(node.root.join("run/test.sock"));
    inputs
}

#[tokio::test(start_paused = true)]
async fn lost_exits_are_d33_and_no_hang() {
    let node = crio("lost");
    node.process(&FakeProcess {
        pid: 500,
        comm: "conmon",
        state: 'T',
        command: &["conmon", "-b", "x", "-c", &container_id(1)],
        ..FakeProcess::default()
    });
    let report = judge(&gather(&at_socket(&node, with_lost_exits(20, &[1, 4, 7])), &|_| ()).await);
    assert_primary(&report, RuleId::LostExit, Confidence::Certain, Phase::Status, Some("default/web-1"));
    assert_eq!((report.verdict, report.abandoned_calls), (Verdict::Degraded, 0), "{report:#?}");
    assert!(
        find(&report, RuleId::HungStatus).is_none() && find(&report, RuleId::SlowStatuses).is_none(),
        "{report:#?}"
    );
    let primary = report.primary.unwrap();
    assert_eq!(primary.ids, [container_id(1), container_id(4), container_id(7)]);
    let text = format!("{:?} {:?}", primary.evidence, primary.steps);
    assert!(text.contains("conmon[500] is stopped (state T)") && text.contains("kill -CONT 500"), "{text}");
    assert!(text.contains("its conmon is gone") && text.contains("crictl --timeout 60s rm "), "{text}");
    assert!(!text.contains("shim"), "{text}");

    // If another call hangs, the hang is the primary finding.
    let script = with_lost_exits(20, &[1, 4]).on_id(container_id(9), Behaviour::Hangs);
    let report = judge(&gather(&at_socket(&node, script), &|_| ()).await);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.ids.as_slice()), (RuleId::HungStatus, [container_id(9)].as_slice()));
    assert_eq!(find(&report, RuleId::LostExit).unwrap().ids.len(), 2);
    let text = format!("{:?} {:?}", primary.steps, report.keep);
    assert!(text.contains("grep -e c00000000000") && text.contains("/debug/goroutines"), "{text}");
    assert!(!text.contains("shim") && !text.contains("USR1"), "{text}");

    // The same duration and exit code with containerd are not a lost exit.
    let mut script = with_lost_exits(20, &[1]);
    script.crio = false;
    let report = judge(&gather(&inputs(script), &|_| ()).await);
    assert_eq!(report.primary.unwrap().id, RuleId::SlowStatuses);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_restores_its_containers_names_the_one_it_waits_for() {
    let node = crio("restoring");
    node.file(&format!("var/log/containers/db-0_shop_postgres-{}.log", container_id(4)), "");
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 40,
        command: &["runc", "--root", "/run/runc", "state", &container_id(4)],
        ..FakeProcess::default()
    });
    let silent = Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let report = judge(&gather(&at_socket(&node, silent), &|_| ()).await);
    assert_primary(&report, RuleId::RecoveringRuntime, Confidence::Likely, Phase::Connect, Some("shop/db-0"));
    assert_eq!(report.verdict, Verdict::Unhealthy);
    let primary = report.primary.unwrap();
    assert!(primary.title.ends_with("waits for shop/db-0/postgres"), "{}", primary.title);
    assert!(
        primary.evidence[0].starts_with("runc[700] state for this container has not finished for 40"),
        "{primary:#?}"
    );
    assert!(primary.steps[0].to_string().contains("/proc/700/stack"), "{primary:#?}");

    // A young `runc state` is normal at every start.
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 1,
        command: &["runc", "state", &container_id(4)],
        ..FakeProcess::default()
    });
    let silent = Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let report = judge(&gather(&at_socket(&node, silent), &|_| ()).await);
    assert_eq!(report.primary.unwrap().id, RuleId::SilentRuntime);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_daemon_is_the_cause_and_no_pod_is_blamed() {
    let node = crio("throttled");
    let stat = |usec: u64| {
        let text = format!("usage_usec 10\nnr_periods 50\nnr_throttled 49\nthrottled_usec {usec}\n");
        node.file("cgroup/system.slice/crio.service/cpu.stat", &text);
    };
    node.file("cgroup/system.slice/crio.service/cpu.max", "100 100000\n");
    stat(1_000_000);
    // Everything takes long, and the call of this pod takes longest by chance.
    let mut script = Scripted::with_pods(20).on_id(container_id(9), Behaviour::Hangs);
    script.crio = true;
    let mut inputs = at_socket(&node, script);
    inputs.budget = Duration::from_secs(4);
    let later = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stat(4_000_000);
    };
    let (evidence, ()) = tokio::join!(gather(&inputs, &|_| ()), later);
    let report = judge(&evidence);
    assert_primary(&report, RuleId::ThrottledRuntime, Confidence::Likely, Phase::Status, None);
    let primary = report.primary.as_ref().unwrap();
    assert!(primary.title.contains("throttled by the CPU limit"), "{primary:#?}");
    assert!(
        primary.evidence[0].starts_with("crio[200] has a CPU limit of 0.1 % of a processor"),
        "{primary:#?}"
    );
    assert!(report.culprits.is_empty(), "no culprit is named: {report:#?}");

    // Without throttling during the run, the hung call is the finding.
    let mut script = Scripted::with_pods(20).on_id(container_id(9), Behaviour::Hangs);
    script.crio = true;
    let report = judge(&gather(&at_socket(&node, script), &|_| ()).await);
    assert_primary(&report, RuleId::HungStatus, Confidence::Certain, Phase::Status, Some("default/web-9"));
}

#[tokio::test(start_paused = true)]
async fn pressure_of_the_node_explains_no_hang_if_the_runtime_itself_does_not_wait() {
    let node = FakeNode::new("own-pressure").with_pods(3).listening();
    node.pressure("io", 80.0);
    let unknown = node.diagnose(hung(3, 1)).await;
    assert_eq!(find(&unknown, RuleId::StorageStall).unwrap().confidence, Confidence::Likely);
    node.daemon_pressure("io", 2.0);
    let idle = node.diagnose(hung(3, 1)).await;
    let found = find(&idle, RuleId::StorageStall).unwrap();
    assert_eq!(found.confidence, Confidence::Possible);
    let both = "I/O pressure: all tasks waited 80 % of the last 10 s, in the runtime's own cgroup 2 %";
    assert_eq!(found.evidence[0], both);
    node.pressure("io", 0.0);
    node.daemon_pressure("io", 70.0);
    let waits = node.diagnose(hung(3, 1)).await;
    assert_eq!(find(&waits, RuleId::StorageStall).unwrap().confidence, Confidence::Likely);
}

#[tokio::test(start_paused = true)]
async fn on_a_busy_node_the_runtime_may_have_enough_cpu_and_lack_memory() {
    let node = FakeNode::new("own-cpu").with_pods(3).listening();
    node.file("proc/pressure/cpu", "some avg10=75.00 avg60=0.00 avg300=0.00 total=1\n");
    assert!(find(&node.diagnose(Scripted::with_pods(3)).await, RuleId::CpuStarved).is_some());
    node.daemon_pressure("cpu", 1.0);
    node.daemon_pressure("memory", 30.0);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::CpuStarved).is_none(), "{report:#?}");
    let memory = find(&report, RuleId::OutOfMemory).unwrap();
    let both = "memory pressure: all tasks waited 0 % of the last 10 s, in the runtime's own cgroup 30 %";
    assert_eq!((memory.confidence, memory.evidence[0].as_str()), (Confidence::Possible, both));
}

/// One sign is only possible, because a busy systemd may be healthy; two signs are likely.
#[tokio::test(start_paused = true)]
async fn systemd_that_does_not_answer_is_likely_with_two_signs() {
    let node = FakeNode::new("stuck-systemd").with_pods(3);
    let confidence = |evidence: &Evidence| {
        let report = judge(evidence);
        find(&report, RuleId::StuckSystemd).map(|found| found.confidence)
    };
    let mut evidence = gather(&node.inputs(Scripted::with_pods(3)), &|_| ()).await;
    assert_eq!(confidence(&evidence), None);
    evidence.systemd = Some(SystemState::Silent(Duration::from_secs(2)));
    assert_eq!(confidence(&evidence), Some(Confidence::Possible));
    evidence.journal = Some(journal(&["dbus-daemon[9]: Connection timed out"]));
    assert_eq!(confidence(&evidence), Some(Confidence::Likely));
    evidence.kubelet.config.cgroup_driver = Some("cgroupfs".to_owned());
    assert_eq!(confidence(&evidence), None, "starts and stops do not need systemd");
}
