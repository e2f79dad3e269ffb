//! `stacks` on real containerd: the cause by its signature, and the container by the name that memory gives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plegctl::report::Severity;
use plegctl::stacks::judge::{Source, Told, conclude, judge};
use plegctl::stacks::read::{Bounds, read};
use plegctl::stacks::report::{Finding, Kind, StackReport};
use plegctl::stacks::signatures::signatures;
use plegctl::stacks::{live, sources};

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::{real, wait_for};

on_each_containerd! {
    a_held_status_lock_has_its_container_by_name
    a_hanging_network_plugin_has_its_pod_and_its_process
    a_sleeping_oci_runtime_is_a_shim_that_does_not_answer
    fifty_dumps_of_a_busy_daemon_alarm_nobody
}

/// A dump by the debug socket, read and judged, with names.
fn look(runtime: &RealRuntime) -> StackReport {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = runtime.directory().join("debug.sock");
    // A machine with too much to do answers late; that is not what is tried here.
    let answer = wait_for("a dump", || tokio.block_on(sources::socket(&socket)).ok());
    let daemon = u32::try_from(runtime.daemon_pid().as_raw_nonzero().get()).unwrap();
    assert_eq!(answer.pid, Some(daemon));
    let dump = read(answer.body.as_slice(), Bounds::default()).unwrap().dumps.remove(0);
    assert_eq!((dump.announced, dump.not_understood), (dump.count(), 0));
    let source = Source { name: "debug.sock".to_owned(), dump, pid: answer.pid, taken_at: None, fresh: true };
    let sources = [source];
    let mut report = judge(&sources, &signatures(), &Told::default());
    live::name(&mut report, &sources, Path::new("/proc"), false);
    conclude(&mut report);
    report
}

fn found<'a>(report: &'a StackReport, id: &str) -> Option<&'a Finding> {
    report.findings.iter().find(|finding| finding.id == id)
}

fn a_held_status_lock_has_its_container_by_name(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let held = runtime.hold_status_lock(&pod.containers[0]);
    // Ours hangs too, and is one of the waiters.
    let _ = runtime.calls.list_containers(Duration::from_millis(500));
    let report = look(&runtime);
    let shim = u32::try_from(runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get()).unwrap();
    drop(held);
    let finding = found(&report, "ST01").unwrap_or_else(|| panic!("{report:#?}"));
    let holder = finding.holder.as_ref().unwrap();
    assert_eq!(
        holder.container.as_ref().map(|container| container.id.as_str()),
        Some(pod.containers[0].as_str())
    );
    assert_eq!(holder.container.as_ref().unwrap().name, "app", "{report:#?}");
    assert_eq!(holder.pod.as_ref().map(|pod| pod.name.as_str()), Some("guilty"));
    assert_eq!((holder.waits_for.kind, holder.waits_for.pid), (Kind::Shim, Some(shim)));
    assert_eq!(holder.waits_for.state.as_deref(), Some("stopped"));
    assert!(finding.waiters >= 1 && finding.rpcs.iter().any(|rpc| rpc == "ListContainers"), "{report:#?}");
    assert!(report.summary.contains("guilty's status lock"), "{}", report.summary);
}

fn a_hanging_network_plugin_has_its_pod_and_its_process(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    // containerd calls `loopback` by itself; where that fails it gives the others up.
    for name in ["standstill", "loopback"] {
        let plugin = runtime.directory().join("cni-bin").join(name);
        fs::write(&plugin, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let network = r#"{"cniVersion":"0.4.0","name":"test","plugins":[{"type":"standstill"}]}"#;
    fs::write(runtime.directory().join("cni/10-test.conflist"), network).unwrap();
    let waiting = runtime.start_pod_in_background(&PodSpec::new("netless").own_network());
    // Go says which goroutine made another from 1.21 on, and waits by pidfd from 1.23 on.
    let tells = version != Containerd::V1_6;
    let report = wait_for("the plugin to hang", || {
        let report = look(&runtime);
        // A dump may come while the plugin is being started: then nobody waits for it yet.
        let holder = found(&report, "ST03")?.holder.as_ref()?;
        (!tells || holder.waits_for.path.as_deref() == Some("sleep")).then_some(report)
    });
    // Whoever gives the call up ends the plugin with it, so only now.
    waiting.abort();
    let finding = found(&report, "ST03").unwrap();
    let holder = finding.holder.as_ref().unwrap();
    if tells {
        assert_eq!(finding.rpcs, ["RunPodSandbox"], "{report:#?}");
        assert_eq!(holder.waits_for.kind, Kind::Process);
        assert!(holder.waits_for.pid.is_some(), "{report:#?}");
    }
}

fn a_sleeping_oci_runtime_is_a_shim_that_does_not_answer(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("slow"), &[ContainerSpec::new("app")]);
    let wrapper = runtime.directory().join("bin/runc");
    fs::write(&wrapper, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let stopping = runtime.stop_container_in_background(&pod.containers[0]);
    let report = wait_for("the stop to hang", || {
        let report = look(&runtime);
        found(&report, "ST02").filter(|finding| finding.rpcs.iter().any(|rpc| rpc == "StopContainer"))?;
        Some(report)
    });
    stopping.abort();
    fs::remove_file(&wrapper).unwrap();
    let holder = found(&report, "ST02").unwrap().holder.as_ref().unwrap();
    let shim = u32::try_from(runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get()).unwrap();
    assert_eq!(
        holder.container.as_ref().map(|container| container.id.as_str()),
        Some(pod.containers[0].as_str())
    );
    assert_eq!((holder.waits_for.kind, holder.waits_for.pid), (Kind::Shim, Some(shim)), "{report:#?}");
}

fn fifty_dumps_of_a_busy_daemon_alarm_nobody(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let mut dumps = 0;
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            for _ in 0..3 {
                for pod in runtime.run_pods(4, 2) {
                    runtime.stop_pod(&pod.sandbox_id);
                    runtime.remove_pod(&pod.sandbox_id);
                }
            }
        });
        while dumps < 50 || !busy.is_finished() {
            let report = look(&runtime);
            assert!(!report.is_held_up(), "{report:#?}");
            let loud = report.findings.iter().find(|finding| finding.severity > Severity::Info);
            assert!(loud.is_none(), "{report:#?}");
            dumps += 1;
        }
    });
    assert!(dumps >= 50);
}
