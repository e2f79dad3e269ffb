//! What CRI-O shows of itself that containerd does not, on copies of `/proc` that the tests make.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use super::node::{FakeNode, Made, at_socket, crio, find, lost};
use super::scripted::{Behaviour, Scripted, container_id, sandbox_id};
use crate::cri::{ContainerState, Rpc};
use crate::diagnosis::proc::Ownership;
use crate::diagnosis::report::{Confidence, HealthReport, RuleId};
use crate::diagnosis::{gather, judge};

async fn diagnosed(node: &FakeNode, script: Scripted) -> HealthReport {
    judge(&gather(&at_socket(node, script), &|_| ()).await)
}

#[tokio::test(start_paused = true)]
async fn a_lost_exit_is_counted_in_the_status_of_its_pod_too() {
    let node = crio("lost-with-events");
    let without = diagnosed(&node, lost(20, &[1, 4])).await;
    let evidence = without.primary.unwrap().evidence;
    assert!(evidence[0].contains("a relist of all of them takes 7.5 s"), "{evidence:?}");

    let wait = || Behaviour::After(Duration::from_millis(3740));
    let script = lost(20, &[1, 4]).on_id(sandbox_id(1), wait()).on_id(sandbox_id(4), wait());
    let report = diagnosed(&node, script).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::D33, "{report:#?}");
    let total = &primary.evidence[0];
    assert!(total.contains("takes 15.0 s") && total.contains("PodSandboxStatus of their pods"), "{total}");
    assert!(find(&report, RuleId::D05).is_none(), "{report:#?}");
    let remove = format!("crictl --timeout 60s rm {} (changes state)", &container_id(1)[..12]);
    assert!(primary.next.contains(&remove), "{primary:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_young_oci_process_about_the_silent_call_holds_it_at_once() {
    let runc = |age: u64, verb: &str| {
        let node = crio(&format!("young-{verb}-{age}"));
        let id = container_id(4);
        let command = ["runc", "--root", "/run/runc", verb, &id];
        node.process(&Made {
            pid: 700,
            parent: 200,
            comm: "runc",
            age,
            command: &command,
            ..Made::default()
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

    // A probe's exec is as young all day long, and any command that has just begun says nothing.
    for young in [runc(2, "exec"), runc(0, "update")] {
        let report = diagnosed(&young, hung()).await;
        assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
        assert_eq!(report.culprits[0].holder, None);
    }

    // Somebody else's state is none of this call's.
    let other = Scripted::with_pods(20).under_crio().on_id(container_id(5), Behaviour::Hangs);
    let report = diagnosed(&runc(6, "state"), other).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn stopped_conmon_is_not_blamed_while_an_oci_process_does_not_end() {
    let node = crio("conmon-and-runc");
    let id = container_id(4);
    node.process(&Made {
        pid: 500,
        comm: "conmon",
        state: 'T',
        command: &["conmon", "-c", &id],
        ..Made::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&Made { pid: 700, parent: 200, comm: "runc", age: 6, command: &command, ..Made::default() });
    let script = Scripted::with_pods(20).under_crio().on_id(container_id(4), Behaviour::Hangs);
    let report = diagnosed(&node, script).await;
    let found = find(&report, RuleId::D10).unwrap();
    assert!(found.title.starts_with("runc[700] of "), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn created_container_that_waits_to_be_started_is_no_hang() {
    let made = |name: &str, comm: &str, state: ContainerState| {
        let node = crio(name);
        let cgroup = format!("/kubepods/poduid-4/crio-{}.scope", container_id(4));
        node.process(&Made {
            pid: 500,
            comm: "conmon",
            command: &["conmon", "-c", &container_id(4)],
            ..Made::default()
        });
        node.process(&Made {
            pid: 501,
            parent: 500,
            comm,
            age: 900,
            cgroup: &cgroup,
            command: &[comm],
            ..Made::default()
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
    // Nor does it hold up a status call of its container.
    let (node, script) = made("created-silent", "runc:[2:INIT]", ContainerState::Created);
    let report = diagnosed(&node, script.on_id(container_id(4), Behaviour::Hangs)).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D01, "{report:#?}");
    // In a container that runs a process has whatever name it likes.
    let (node, script) = made("created-no-more", "crun", ContainerState::Running);
    let report = diagnosed(&node, script).await;
    assert!(find(&report, RuleId::D10).is_none(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn oci_process_of_another_user_holds_no_call() {
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
        let runc = Made {
            pid: 700,
            parent: 200,
            comm: "runc",
            age: 40,
            cgroup,
            command: &command,
            ..Made::default()
        };
        node.process(&runc);
        node.file("proc/700/status", &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t700\n"));
        let script = Scripted::with_pods(20).under_crio().on_id(id.clone(), Behaviour::Hangs);
        let report = diagnosed(&node, script).await;
        assert_eq!(report.culprits[0].holder.is_some(), holds, "{name}: {report:#?}");
        assert_eq!(find(&report, RuleId::D10).is_some(), holds, "{name}: {report:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conmon_names_the_container_that_a_restart_waits_for() {
    let node = crio("restoring-conmon");
    let id = container_id(4);
    let name = "k8s_app_web-18_shop_1234-5678_0";
    node.process(&Made {
        pid: 500,
        comm: "conmon",
        command: &["conmon", "-b", "/run/x", "-c", &id, "-n", name, "-P", "/run/y"],
        ..Made::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&Made {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 40,
        command: &command,
        ..Made::default()
    });
    let silent = Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let report = diagnosed(&node, silent).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::D21, "{report:#?}");
    assert!(primary.title.ends_with("waits for shop/web-18/app"), "{primary:#?}");
    assert_eq!(primary.pod.as_ref().unwrap().uid, "1234-5678");
}

/// The daemon of the copy is this very process: that is whom the kernel names to a client of the socket.
#[tokio::test(start_paused = true)]
async fn daemon_with_a_blocked_thread_is_found_by_its_socket() {
    let node = FakeNode::new("blocked-daemon");
    let daemon = std::process::id();
    let cgroup = "/system.slice/crio.service";
    node.process(&Made { pid: daemon, comm: "crio", command: &["crio"], cgroup, ..Made::default() });
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
    assert_eq!(host.ownership, Ownership::Ours { daemon: Some(daemon) });
    assert!(host.first.daemon_throttled.is_some());
    assert_eq!(evidence.daemon().map(|process| process.comm.as_str()), Some("crio"));
    let skipped: Vec<&str> = evidence.not_checked.iter().map(|skip| skip.what.as_str()).collect();
    assert!(!skipped.contains(&"the runtime's daemon"), "{skipped:?}");
}
