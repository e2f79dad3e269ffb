//! Tests of what a run reads: on a healthy node, other programs cost one file each, and everything that a rule needs is
//! still read if something is wrong.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

use super::node::{FakeNode, FakeProcess, cgroup_of, find};
use super::scripted::{Behaviour, Scripted, inputs};
use super::travels::judge;
use crate::cri::Rpc;
use crate::diagnosis::proc::Shims;
use crate::diagnosis::report::RuleId;
use crate::diagnosis::{Evidence, gather};

/// Counts how often files and directories of processes are opened. The kernel counts two openings of a file as one if nothing
/// else is opened between them.
struct Opened(OwnedFd);

impl Opened {
    /// Begins to count for these processes.
    fn watch(node: &FakeNode, pids: impl IntoIterator<Item = u32>) -> Self {
        Self::watch_directories(pids.into_iter().map(|pid| node.proc().join(pid.to_string())))
    }

    /// Begins to count for the files in these directories.
    fn watch_directories(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        for directory in directories {
            add_watch(&inotify, directory, WatchFlags::OPEN | WatchFlags::ONLYDIR).unwrap();
        }
        Self(inotify)
    }

    /// Returns the count by name: `stat`, `fd`.
    fn by_name(&self) -> BTreeMap<String, usize> {
        let mut buffer = [const { MaybeUninit::uninit() }; 8192];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut found = BTreeMap::new();
        while let Ok(event) = reader.next() {
            if let Some(name) = event.file_name() {
                *found.entry(name.to_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        found
    }
}

/// A node whose runtime is visible, so that only what is needed is read.
fn node(name: &str) -> FakeNode {
    FakeNode::new(name).with_pods(3).listening()
}

#[tokio::test(start_paused = true)]
async fn another_program_costs_a_healthy_run_one_file() {
    let node = node("beside");
    let others = 5000..5200;
    for pid in others.clone() {
        node.process(&FakeProcess { pid, comm: "worker", ..FakeProcess::default() });
    }
    // No process of this machine is connected to this socket.
    let socket = node.root.join("runtime.sock");
    node.file("proc/200/net/unix", &format!("0: 2 0 10000 1 1 77 {}\n", socket.display()));
    let mut inputs = node.inputs(Scripted::with_pods(3));
    inputs.socket = Some(socket);
    let opened = Opened::watch(&node, others);
    let evidence = gather(&inputs, &|_| ()).await;
    let host = evidence.host.unwrap();
    assert_eq!((host.first.socket_owner, host.second.is_some()), (Some(200), false));
    assert_eq!(opened.by_name(), BTreeMap::from([("stat".to_owned(), 200)]));
}

#[tokio::test(start_paused = true)]
async fn the_other_processes_of_a_container_cost_a_healthy_run_one_file_each() {
    let node = node("workers");
    let (workers, cgroup) = (5000..5200, cgroup_of(1));
    for pid in workers.clone() {
        // The first worker is the child of the container's first process, each other one of the one before.
        let parent = if pid == 5000 { 2001 } else { pid - 1 };
        node.process(&FakeProcess { pid, parent, comm: "worker", cgroup: &cgroup, ..FakeProcess::default() });
    }
    let opened = Opened::watch(&node, workers.clone());
    let host = node.gathered(Scripted::with_pods(3)).await.host.unwrap();
    assert_eq!(opened.by_name(), BTreeMap::from([("stat".to_owned(), 200)]));
    let first = &host.first.processes[&2001];
    assert!(first.container_id.is_some());
    for process in workers.map(|pid| &host.first.processes[&pid]) {
        assert_eq!((&process.cgroup, &process.container_id), (&cgroup, &first.container_id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_container_costs_a_healthy_run_one_file_of_its_cgroup_and_its_pod_none() {
    let node = node("cgroups");
    let directory = |cgroup: &str| node.root.join("cgroup").join(cgroup.trim_start_matches('/'));
    let cgroup = cgroup_of(1);
    let (of_pod, _) = cgroup.rsplit_once('/').unwrap();
    for path in [of_pod, &cgroup] {
        node.file(&format!("cgroup{path}/cgroup.events"), "populated 1\nfrozen 0\n");
        node.file(&format!("cgroup{path}/pids.max"), "100\n");
        node.file(&format!("cgroup{path}/pids.current"), "95\n");
    }
    let count = || Opened::watch_directories([directory(of_pod), directory(&cgroup)]);
    let events = ("cgroup.events".to_owned(), 1);
    let opened = count();
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(opened.by_name(), BTreeMap::from([events.clone()]));
    assert!(find(&report, RuleId::ExhaustedLimits).is_none(), "{report:#?}");
    // Each process has five threads.
    for pid in 5000..5018 {
        node.process(&FakeProcess { pid, parent: 2001, cgroup: &cgroup, ..FakeProcess::default() });
    }
    let opened = count();
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let limit = ["pids.current", "pids.max"].map(|name| (name.to_owned(), 1));
    assert_eq!(opened.by_name(), limit.into_iter().chain([events]).collect());
    assert!(find(&report, RuleId::ExhaustedLimits).is_some(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_threads_of_the_daemon_are_read_once_if_the_run_ends_soon() {
    let node = node("soon");
    node.file("proc/200/task/200/schedstat", "7000 9000 1\n");
    let opened = Opened::watch_directories([node.proc().join("200/task/200")]);
    let host = node.gathered(Scripted::with_pods(3)).await.host.unwrap();
    assert_eq!(host.daemon_watch.unwrap().cpu_wait, None);
    let once = ["stat", "wchan"].map(|name| (name.to_owned(), 1));
    assert_eq!(opened.by_name(), BTreeMap::from(once));
}

#[tokio::test(start_paused = true)]
async fn units_are_searched_for_a_kubelet_that_does_not_run_only_if_one_is_installed() {
    let node = node("units");
    std::fs::remove_dir_all(node.proc().join("100")).unwrap();
    node.file("etc/systemd/system/web.service", "[Service]\nExecStart=/bin/web\n");
    let count = || Opened::watch_directories([node.root.join("etc/systemd/system")]);
    let opened = count();
    node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(opened.by_name(), BTreeMap::new());
    node.file("var/lib/kubelet/config.yaml", "");
    let opened = count();
    node.diagnose(Scripted::with_pods(3)).await;
    assert!(opened.by_name().contains_key("web.service"));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_quickly_gets_eight_calls_at_once_and_another_one_four() {
    for (millis, most) in [(30, 8), (60, 4)] {
        let later = || Behaviour::After(Duration::from_millis(millis));
        let script = Scripted::with_pods(40);
        let script = script.on(Rpc::PodSandboxStatus, later()).on(Rpc::ContainerStatus, later());
        let inputs = inputs(script);
        gather(&inputs, &|_| ()).await;
        assert_eq!(inputs.runtime.most_open.load(Ordering::Relaxed), most);
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_oci_runtime_costs_the_details_of_all_shims_unless_it_has_ended() {
    let node = node("oci-runtime");
    for (state, shims) in [('Z', Shims::Counted), ('S', Shims::Detailed)] {
        node.process(&FakeProcess { pid: 900, comm: "runc", state, ..FakeProcess::default() });
        let host = node.gathered(Scripted::with_pods(3)).await.host.unwrap();
        assert_eq!(host.first.shims, shims, "{state}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_frozen_container_of_a_shim_that_is_gone_is_found_by_its_cgroup() {
    let node = node("adopted");
    let cgroup = cgroup_of(1);
    node.file(&format!("cgroup{cgroup}/cgroup.events"), "populated 1\nfrozen 1\n");
    let shims_of = |evidence: &Evidence| evidence.host.as_ref().unwrap().first.shims;
    std::fs::remove_dir_all(node.proc().join("1001")).unwrap();
    node.process(&FakeProcess { pid: 2001, parent: 1, cgroup: &cgroup, ..FakeProcess::default() });
    let evidence = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(shims_of(&evidence), Shims::Detailed, "a frozen cgroup is suspicious");
    let report = judge(&evidence);
    assert!(find(&report, RuleId::FrozenCgroup).is_some(), "{report:#?}");
    assert!(find(&report, RuleId::InconsistentState).is_none(), "its process runs: {report:#?}");
}

#[tokio::test(start_paused = true)]
async fn zombies_of_a_process_that_only_has_the_name_of_a_shim_are_no_finding() {
    let node = node("zombies");
    let zombies = |parent: u32| {
        for pid in 6000..6060 {
            node.process(&FakeProcess { pid, parent, state: 'Z', ..FakeProcess::default() });
        }
    };
    zombies(1001);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::ExecStorm).is_some(), "{report:#?}");
    node.process(&FakeProcess { pid: 1900, comm: "containerd-shim", age: 10, ..FakeProcess::default() });
    node.file("proc/1900/status", "Name:\tcontainerd-shim\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t1900\n");
    zombies(1900);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::ExecStorm).is_none(), "{report:#?}");
}
