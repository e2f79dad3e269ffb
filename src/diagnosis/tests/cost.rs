//! Tests of what a run reads: on a healthy node, other programs cost one file each, and everything that a rule needs is
//! still read if something is wrong.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

use super::node::{FakeNode, FakeProcess, cgroup_of, find};
use super::scripted::Scripted;
use super::travels::judge;
use crate::diagnosis::proc::Shims;
use crate::diagnosis::report::RuleId;
use crate::diagnosis::{Evidence, gather};

/// Counts how often files and directories of processes are opened. The kernel counts two openings of a file as one if nothing
/// else is opened between them.
struct Opened(OwnedFd);

impl Opened {
    /// Begins to count for these processes.
    fn watch(node: &FakeNode, pids: Range<u32>) -> Self {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        for pid in pids {
            let process = node.proc().join(pid.to_string());
            add_watch(&inotify, process, WatchFlags::OPEN | WatchFlags::ONLYDIR).unwrap();
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
    assert!(find(&report, RuleId::D11).is_some(), "{report:#?}");
    assert!(find(&report, RuleId::D19).is_none(), "its process runs: {report:#?}");
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
    assert!(find(&report, RuleId::D17).is_some(), "{report:#?}");
    node.process(&FakeProcess { pid: 1900, comm: "containerd-shim", age: 10, ..FakeProcess::default() });
    node.file("proc/1900/status", "Name:\tcontainerd-shim\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t1900\n");
    zombies(1900);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::D17).is_none(), "{report:#?}");
}
