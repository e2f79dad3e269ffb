//! Tests of rules that work differently for CRI-O. Each test writes its own `/proc`.
//!
//! conmon writes the exit code of its container into a file. If conmon is stopped or gone, the file is missing and the
//! exit is lost: each status call of CRI-O waits seconds for the file and then returns the exit code -1 (rule D33).
//!
//! The other rules here: D01 is a silent status call. D05: the status calls of all pods together are slow. D10 names
//! the process for which a status call waits (its holder). D21 is a runtime that restores its containers at its start.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use super::node::{FakeNode, FakeProcess, at_socket, crio, find, with_lost_exits};
use super::scripted::{Behaviour, Scripted, condition, container_id, sandbox_id};
use crate::cri::{ContainerState, Rpc};
use crate::diagnosis::proc::Ownership;
use crate::diagnosis::report::{Confidence, HealthReport, RuleId};
use crate::diagnosis::{gather, judge};

async fn diagnosed(node: &FakeNode, script: Scripted) -> HealthReport {
    judge(&gather(&at_socket(node, script), &|_| ()).await)
}

#[tokio::test(start_paused = true)]
async fn d33_includes_the_slow_sandbox_calls_of_pods_with_lost_exits() {
    let node = crio("lost-with-slow-sandboxes");
    let without = diagnosed(&node, with_lost_exits(20, &[1, 4])).await;
    let evidence = without.primary.unwrap().evidence;
    assert!(evidence[0].contains("a relist of all of them takes 7.5 s"), "{evidence:?}");

    let wait = || Behaviour::After(Duration::from_millis(3740));
    let script = with_lost_exits(20, &[1, 4]).on_id(sandbox_id(1), wait()).on_id(sandbox_id(4), wait());
    let report = diagnosed(&node, script).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::D33, "{report:#?}");
    let total = &primary.evidence[0];
    assert!(total.contains("takes 15.0 s") && total.contains("PodSandboxStatus of their pods"), "{total}");
    assert!(find(&report, RuleId::D05).is_none(), "{report:#?}");
    let remove = format!("remove it (changes state): crictl --timeout 60s rm {}", &container_id(1)[..12]);
    assert!(primary.next.contains(&remove), "{primary:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_step_about_the_network_names_the_directory_that_the_runtime_uses() {
    let not_ready = || {
        let mut script = Scripted::with_pods(3);
        script.conditions = vec![condition("RuntimeReady", true), condition("NetworkReady", false)];
        script.under_crio()
    };
    let node = crio("network-directory");
    let step = |report: &HealthReport| find(report, RuleId::D16).unwrap().next[0].clone();
    assert!(step(&diagnosed(&node, not_ready()).await).ends_with(": ls /etc/cni/net.d"));
    node.file("etc/crio/crio.conf.d/10-net.conf", "[crio.network]\nnetwork_dir = \"/etc/my cni\"\n");
    assert!(step(&diagnosed(&node, not_ready()).await).ends_with(": ls '/etc/my cni'"));
}

#[tokio::test(start_paused = true)]
async fn an_oci_runtime_that_works_on_the_silent_container_is_the_holder() {
    let runc = |age: u64, verb: &str| {
        let node = crio(&format!("young-{verb}-{age}"));
        let id = container_id(4);
        let command = ["runc", "--root", "/run/runc", verb, &id];
        node.process(&FakeProcess {
            pid: 700,
            parent: 200,
            comm: "runc",
            age,
            command: &command,
            ..FakeProcess::default()
        });
        node
    };
    let hung = || Scripted::with_pods(20).under_crio().on_id(container_id(4), Behaviour::Hangs);
    let report = diagnosed(&runc(6, "state"), hung()).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::D10, Confidence::Likely), "{report:#?}");
    assert!(primary.title.starts_with("runc[700] of default/web-4/app has not finished"), "{primary:#?}");
    let holder = report.culprits[0].holder.as_deref().unwrap();
    assert!(holder.starts_with("runc[700] works on it and has not finished for 6"), "{holder}");

    // A `runc exec` of 2 s may run an exec probe of the kubelet, and every command is normal in its first second.
    for young in [runc(2, "exec"), runc(0, "update")] {
        let report = diagnosed(&young, hung()).await;
        assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
        assert_eq!(report.culprits[0].holder, None);
    }

    // An OCI runtime that works for another container does not hold this call.
    let other = Scripted::with_pods(20).under_crio().on_id(container_id(5), Behaviour::Hangs);
    let report = diagnosed(&runc(6, "state"), other).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_conmon_is_not_blamed_while_an_oci_runtime_does_not_end() {
    let node = crio("conmon-and-runc");
    let id = container_id(4);
    node.process(&FakeProcess {
        pid: 500,
        comm: "conmon",
        state: 'T',
        command: &["conmon", "-c", &id],
        ..FakeProcess::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 6,
        command: &command,
        ..FakeProcess::default()
    });
    let script = Scripted::with_pods(20).under_crio().on_id(container_id(4), Behaviour::Hangs);
    let report = diagnosed(&node, script).await;
    let found = find(&report, RuleId::D10).unwrap();
    assert!(found.title.starts_with("runc[700] of "), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_created_container_that_waits_for_its_start_is_no_hang() {
    let made = |name: &str, comm: &str, state: ContainerState| {
        let node = crio(name);
        let cgroup = format!("/kubepods/poduid-4/crio-{}.scope", container_id(4));
        node.process(&FakeProcess {
            pid: 500,
            comm: "conmon",
            command: &["conmon", "-c", &container_id(4)],
            ..FakeProcess::default()
        });
        node.process(&FakeProcess {
            pid: 501,
            parent: 500,
            comm,
            age: 900,
            cgroup: &cgroup,
            command: &[comm],
            ..FakeProcess::default()
        });
        let mut script = Scripted::with_pods(8).under_crio();
        script.containers[4].state = state;
        (node, script)
    };
    for (comm, state) in [
        ("runc:[2:INIT]", ContainerState::Created),
        ("runc:[2:INIT]", ContainerState::Running),
        ("crun", ContainerState::Created),
    ] {
        let (node, script) = made("created", comm, state);
        let report = diagnosed(&node, script).await;
        assert!(find(&report, RuleId::D10).is_none(), "{comm}: {report:#?}");
    }
    // If the status call of this container is silent, the waiting process is not the holder either.
    let (node, script) = made("created-silent", "runc:[2:INIT]", ContainerState::Created);
    let report = diagnosed(&node, script.on_id(container_id(4), Behaviour::Hangs)).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
    // In a running container, a process may have the name of an OCI runtime.
    let (node, script) = made("created-no-more", "crun", ContainerState::Running);
    let report = diagnosed(&node, script).await;
    assert!(find(&report, RuleId::D10).is_none(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_oci_runtime_of_another_user_or_in_a_container_is_no_holder() {
    let contained = format!("/kubepods/poduid-5/crio-{}.scope", container_id(5));
    let monitor = format!("/system.slice/crio-conmon-{}.scope", container_id(4));
    for (name, uid, cgroup, holds) in [
        ("root", 0, "/system.slice/crio.service", true),
        ("monitor", 0, monitor.as_str(), true),
        ("user", 65_534, "/system.slice/crio.service", false),
        ("container", 0, contained.as_str(), false),
    ] {
        let node = crio(&format!("whose-runc-{name}"));
        let id = container_id(4);
        let command = ["runc", "--root", "/run/runc", "state", &id];
        let runc = FakeProcess {
            pid: 700,
            parent: 200,
            comm: "runc",
            age: 40,
            cgroup,
            command: &command,
            ..FakeProcess::default()
        };
        node.process(&runc);
        node.file("proc/700/status", &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t700\n"));
        let script = Scripted::with_pods(20).under_crio().on_id(id.clone(), Behaviour::Hangs);
        let report = diagnosed(&node, script).await;
        assert_eq!(report.culprits[0].holder.is_some(), holds, "{name}: {report:#?}");
        assert_eq!(find(&report, RuleId::D10).is_some(), holds, "{name}: {report:#?}");
    }
}

/// At its start, CRI-O restores its containers: it runs `runc state` for one after the other and answers no call until
/// all have finished. So plegctl takes the name of the container from the command line of conmon.
#[tokio::test(start_paused = true)]
async fn conmon_names_the_container_for_which_a_starting_crio_waits() {
    let node = crio("restoring-conmon");
    let id = container_id(4);
    let name = "k8s_app_web-18_shop_1234-5678_0";
    node.process(&FakeProcess {
        pid: 500,
        comm: "conmon",
        command: &["conmon", "-b", "/run/x", "-c", &id, "-n", name, "-P", "/run/y"],
        ..FakeProcess::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 40,
        command: &command,
        ..FakeProcess::default()
    });
    let silent = Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let report = diagnosed(&node, silent).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::D21, "{report:#?}");
    assert!(primary.title.ends_with("waits for shop/web-18/app"), "{primary:#?}");
    assert_eq!(primary.pod.as_ref().unwrap().uid, "1234-5678");
}

/// Reading the open files of a process with a blocked thread could block plegctl too. For such a daemon, plegctl
/// connects to the socket and asks the kernel which process listens. In this test, the test process itself listens.
#[tokio::test(start_paused = true)]
async fn a_daemon_with_a_blocked_thread_is_found_by_its_socket() {
    let node = FakeNode::new("blocked-daemon");
    let daemon = std::process::id();
    let cgroup = "/system.slice/crio.service";
    node.process(&FakeProcess {
        pid: daemon,
        comm: "crio",
        command: &["crio"],
        cgroup,
        ..FakeProcess::default()
    });
    let thread = format!("proc/{daemon}/task/{daemon}/stat");
    node.file(&thread, &format!("{daemon} (crio) D 1 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 5 0 100 0 100\n"));
    node.file("cgroup/system.slice/crio.service/cpu.stat", "throttled_usec 1000000\n");
    let script = || Scripted::with_pods(5).under_crio();
    let without = gather(&at_socket(&node, script()), &|_| ()).await;
    assert_eq!(without.host.unwrap().ownership, Ownership::Foreign);

    std::fs::create_dir_all(node.root.join("run")).unwrap();
    let listener = UnixListener::bind(node.root.join("run/test.sock")).unwrap();
    let evidence = gather(&at_socket(&node, script()), &|_| ()).await;
    drop(listener);
    let host = evidence.host.as_ref().unwrap();
    assert_eq!(host.ownership, Ownership::OfRuntime { daemon: Some(daemon) });
    assert!(host.first.daemon_cgroup.throttled.is_some());
    assert_eq!(evidence.daemon().map(|process| process.comm.as_str()), Some("crio"));
    let skipped: Vec<&str> = evidence.not_checked.iter().map(|skip| skip.what.as_str()).collect();
    assert!(!skipped.contains(&"the runtime's daemon"), "{skipped:?}");
}
