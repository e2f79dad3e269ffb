//! Tests of `stacks` on real containerd: the signature names the cause, and the process's memory names the container.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plegctl_engine::report::Severity;
use plegctl_engine::stacks::judge::{DumpSource, KnownHangs, judge, rebuild_summary};
use plegctl_engine::stacks::read::{Bounds, read};
use plegctl_engine::stacks::report::{Finding, StackReport, WaitKind};
use plegctl_engine::stacks::signatures::signatures;
use plegctl_engine::stacks::{live, sources};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, plegctl_on_this_machine};
use crate::pods::{ContainerSpec, PodSpec};
use crate::{NO_DUMP, real, real_on_its_own_disk, wait_for};

on_each_containerd! {
    held_status_lock_names_its_container
    hanging_network_plugin_names_its_pod_and_process
    sleeping_oci_runtime_shows_as_a_shim_without_an_answer
    second_dump_confirms_a_hang_in_a_living_daemon_and_in_its_shim
    frozen_disk_names_the_file_and_the_container_that_wait
    health_names_the_holder_from_the_runtimes_goroutines
    a_recording_keeps_the_holder_of_an_incident
    fifty_dumps_of_a_busy_daemon_have_no_finding
}

/// Reads a dump from the debug socket, judges it and adds the names.
fn judged_dump(runtime: &RealRuntime) -> StackReport {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = runtime.directory().join("debug.sock");
    // On a busy machine the dump may time out, so the test tries again.
    let answer = wait_for("a dump", || tokio.block_on(sources::request_dump(&socket)).ok());
    let daemon = u32::try_from(runtime.daemon_pid().as_raw_nonzero().get()).unwrap();
    assert_eq!(answer.pid, Some(daemon));
    let dump = read(answer.body.as_slice(), Bounds::default()).unwrap().dumps.remove(0);
    assert_eq!((dump.announced, dump.not_understood), (dump.count(), 0));
    let source = DumpSource {
        name: "debug.sock".to_owned(),
        dump,
        pid: answer.pid,
        is_requested_here: true,
        ..DumpSource::default()
    };
    let mut sources = [source];
    live::add_child_ages(&mut sources[0], &live::NodeView::at(Path::new("/proc")));
    let mut report = judge(&sources, &signatures(), &KnownHangs::default());
    live::add_names(&mut report, &sources, &live::NodeView::at(Path::new("/proc")));
    rebuild_summary(&mut report);
    report
}

fn found<'a>(report: &'a StackReport, id: &str) -> Option<&'a Finding> {
    report.findings.iter().find(|finding| finding.id == id)
}

fn held_status_lock_names_its_container(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let held = runtime.hold_status_lock(&pod.containers[0]);
    // The test's own call hangs too and is one of the waiters.
    let _ = runtime.calls.list_containers(Duration::from_millis(500));
    let report = judged_dump(&runtime);
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
    assert_eq!((holder.waits_for.kind, holder.waits_for.pid), (WaitKind::Shim, Some(shim)));
    assert_eq!(holder.waits_for.state.as_deref(), Some("stopped"));
    assert!(finding.waiters >= 1 && finding.rpcs.iter().any(|rpc| rpc == "ListContainers"), "{report:#?}");
    assert!(report.summary.contains("guilty's status lock"), "{}", report.summary);
}

fn hanging_network_plugin_names_its_pod_and_process(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    // containerd itself starts the plugin `loopback` first; if that fails, it starts no other plugin.
    for name in ["hanging", "loopback"] {
        let plugin = runtime.directory().join("cni-bin").join(name);
        fs::write(&plugin, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    }
    runtime.configure_network("hanging");
    let waiting = runtime.start_pod_in_background(&PodSpec::new("netless").own_network());
    let report = wait_for("the plugin to hang", || {
        let report = judged_dump(&runtime);
        // Before containerd has started the plugin, no goroutine waits for it.
        let holder = found(&report, "ST03")?.holder.as_ref()?;
        (holder.waits_for.path.as_deref() == Some("sleep")).then_some(report)
    });
    // The end of the call also ends the plugin, so the test needs the report first.
    waiting.abort();
    let finding = found(&report, "ST03").unwrap();
    let holder = finding.holder.as_ref().unwrap();
    // To name the call, plegctl must know which goroutine started the one that waits. From Go 1.21 on, the dump shows
    // it; in a dump of containerd 1.6, the shared context does.
    assert_eq!(finding.rpcs, ["RunPodSandbox"], "{report:#?}");
    assert_eq!(holder.waits_for.kind, WaitKind::Process);
    assert!(holder.waits_for.pid.is_some(), "{report:#?}");
    // Go prints no age for so short a wait. The age of the plugin is known if the dump has its pidfd, from Go 1.23 on.
    assert!(finding.waited_seconds.is_some() || version == Containerd::V1_6, "{report:#?}");
    let pod = holder.pod.as_ref().map(ToString::to_string);
    assert_eq!(pod.as_deref(), Some("default/netless"), "{report:#?}");
}

fn sleeping_oci_runtime_shows_as_a_shim_without_an_answer(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("slow"), &[ContainerSpec::new("app")]);
    let (hanging, report) = hanging_stop(&runtime, &pod.containers[0]);
    hanging.abort();
    fs::remove_file(runtime.directory().join("bin/runc")).unwrap();
    let holder = found(&report, "ST02").unwrap().holder.as_ref().unwrap();
    let shim = u32::try_from(runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get()).unwrap();
    assert_eq!(
        holder.container.as_ref().map(|container| container.id.as_str()),
        Some(pod.containers[0].as_str())
    );
    assert_eq!((holder.waits_for.kind, holder.waits_for.pid), (WaitKind::Shim, Some(shim)), "{report:#?}");
}

/// Replaces the OCI runtime by a program that sleeps, and stops a container with it. Returns the call, which is not
/// answered, and a report about the daemon that waits.
fn hanging_stop(runtime: &RealRuntime, container_id: &str) -> (JoinHandle<()>, StackReport) {
    let wrapper = runtime.directory().join("bin/runc");
    fs::write(&wrapper, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let stopping = runtime.stop_container_in_background(container_id);
    let report = wait_for("the stop to hang", || {
        let report = judged_dump(runtime);
        let finding = found(&report, "ST02").filter(|finding| finding.rpcs == ["StopContainer"])?;
        // Before the kill, the stop makes other calls, which the shim answers.
        finding.evidence.iter().any(|line| line == "it waits for Kill over ttrpc").then_some(report)
    });
    (stopping, report)
}

fn second_dump_confirms_a_hang_in_a_living_daemon_and_in_its_shim(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("slow"), &[ContainerSpec::new("app")]);
    let (hanging, first) = hanging_stop(&runtime, &pod.containers[0]);
    assert!(!first.has_problem(), "a wait of a moment proves nothing: {first:#?}");
    let shim = runtime.shim_pid(&pod.sandbox_id);
    let log = runtime.directory().join("containerd.log");
    // A shim gives a dump only for this signal, which plegctl never sends.
    let dump_of_shim = |nth| {
        kill_process(shim, Signal::USR1).unwrap();
        wait_for("the shim's dump in the log", || {
            let text = fs::read_to_string(&log).ok()?;
            (text.matches("=== END goroutine stack dump ===").count() == nth).then_some(())
        });
    };
    let confirmed = |source: &str, id: &str| {
        let output = plegctl_on_this_machine(&["stacks", "-o", "json", "--host-root", "/", source]);
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        assert_eq!(output.code, Some(1), "{output}");
        assert_eq!(report["dumps"].as_array().map(Vec::len), Some(2), "{output}");
        assert_eq!(report["primary"]["id"], id, "{output}");
        assert!(report["primary"]["evidence"].to_string().contains("in both dumps"), "{output}");
    };
    dump_of_shim(1);
    // The daemon's second dump follows after ten seconds, so the shim's two dumps are ten seconds apart too.
    confirmed(&format!("unix://{}", runtime.directory().join("debug.sock").display()), "ST02");
    dump_of_shim(2);
    confirmed(log.to_str().unwrap(), "ST06");
    hanging.abort();
}

fn fifty_dumps_of_a_busy_daemon_have_no_finding(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let enough = AtomicBool::new(false);
    let (mut dumps, mut serving, mut possible) = (0, 0, 0);
    std::thread::scope(|scope| {
        let _ends = SetOnDrop(&enough);
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                for pod in runtime.run_pods(4, 2) {
                    runtime.stop_pod(&pod.sandbox_id);
                    runtime.remove_pod(&pod.sandbox_id);
                }
            }
        });
        while serving < 50 {
            let report = judged_dump(&runtime);
            assert!(!report.has_problem(), "{report:#?}");
            let warning = report.findings.iter().find(|finding| finding.severity > Severity::Info);
            assert!(warning.is_none(), "{report:#?}");
            let served = report.groups.iter().flat_map(|group| &group.frames);
            serving += u32::from(served.into_iter().any(|frame| frame.contains("RuntimeService_")));
            possible += report.findings.len();
            dumps += 1;
        }
    });
    let _ = writeln!(
        std::io::stderr(),
        "{version}: {dumps} dumps, {serving} of them while a call was served: {possible} possible findings, no warning"
    );
}

/// Sets the flag when it is dropped, also if the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the holder is the daemon's garbage collection.
fn collects(finding: &Finding) -> bool {
    finding.chain.root_frames.iter().any(|frame| frame.contains("GarbageCollect"))
}

fn frozen_disk_names_the_file_and_the_container_that_wait(version: Containerd) {
    let Some(runtime) = real_on_its_own_disk(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let frozen = runtime.freeze_disk();
    // containerd holds the container's status lock while it writes the container's end to disk, so a list waits too.
    runtime.kill_container_process(&pod.containers[0]);
    let creating = runtime.start_pod_in_background(&PodSpec::new("late"));
    let mut dumps = 0;
    let report = wait_for("a goroutine that waits for the disk", || {
        let _ = runtime.calls.list_containers(Duration::from_millis(200));
        dumps += 1;
        let report = judged_dump(&runtime);
        let finding = found(&report, "ST04")?;
        let ended = match version {
            Containerd::V1_6 | Containerd::V1_7 => finding.rpcs.iter().any(|rpc| rpc == "ListContainers"),
            // If the garbage collection reaches the disk first, every other goroutine waits for it and not for the
            // disk.
            Containerd::V2 => finding.chain.root_count > 1 || (dumps > 20 && collects(finding)),
        };
        ended.then_some(report)
    });
    creating.abort();
    drop(frozen);
    let finding = found(&report, "ST04").unwrap();
    let holder = finding.holder.as_ref().unwrap();
    assert_eq!(holder.waits_for.kind, WaitKind::File, "{report:#?}");
    if collects(finding) && finding.chain.root_count == 1 {
        let file = holder.waits_for.path.as_deref().unwrap();
        assert!(file.ends_with("/meta.db"), "{report:#?}");
        assert_eq!(finding.rpcs, ["RunPodSandbox"], "{report:#?}");
        return;
    }
    let id = pod.containers[0].as_str();
    let held = holder.container.as_ref().is_some_and(|container| container.id == id);
    if version == Containerd::V2 && !held {
        // containerd removes the bundle before it takes a lock, so nothing waits for the container: the report names
        // both goroutines that wait for the disk.
        let whose = "default/guilty/app waits for the same";
        let is_named = finding.evidence.iter().any(|line| line.contains(whose) && line.contains(&id[..13]));
        assert!(is_named, "{report:#?}");
        return;
    }
    assert!(held, "{report:#?}");
    assert_eq!(holder.container.as_ref().unwrap().name, "app", "{report:#?}");
    assert_eq!(holder.pod.as_ref().map(|pod| pod.name.as_str()), Some("guilty"));
}

fn health_names_the_holder_from_the_runtimes_goroutines(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let held = runtime.hold_status_lock(&pod.containers[0]);
    // `--stacks auto` is the default: the debug socket is in the daemon's configuration.
    // On a busy machine the dump may not arrive in time. Only then the test runs `health` again.
    let arguments = ["health", "-r", &runtime.endpoint(), "-o", "json", "--host-root", "/"];
    let output = wait_for("a report with the dump", || {
        let output = plegctl_on_this_machine(&arguments);
        (!output.stdout.contains(NO_DUMP)).then_some(output)
    });
    let shim = runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get();
    drop(held);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    assert_eq!(output.code, Some(1), "{output}");
    let all = report["findings"].as_array().unwrap();
    let chain = all.iter().flat_map(|finding| finding["evidence"].as_array().unwrap()).find(|line| {
        let line = line.as_str().unwrap();
        line.contains("default/guilty's status lock, held by an UpdateContainerResources that waits")
            && line.contains(&format!("pid {shim}, stopped"))
    });
    assert!(chain.is_some(), "{output}");
    let primary = &report["primary"];
    assert_eq!(primary["confidence"], "certain", "{output}");
    assert_eq!(primary["container"]["id"].as_str(), Some(pod.containers[0].as_str()), "{output}");
}

fn a_recording_keeps_the_holder_of_an_incident(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let held = runtime.hold_status_lock(&pod.containers[0]);
    let directory = runtime.directory().join("capture");
    let directory = directory.to_str().unwrap();
    let mut recording =
        Invocation::new(&["record", "-r", &runtime.endpoint(), directory, "--host-root", "/"])
            .on_this_machine()
            .spawn();
    // The diagnosis waits until a silence is long enough to count.
    while recording.line().expect("the recorder still runs").split_once(": UNHEALTHY").is_none() {}
    recording.signal("TERM");
    let output = recording.wait();
    drop(held);
    assert_eq!(output.code, Some(0), "{output}");
    let report = plegctl_on_this_machine(&["capture", "report", directory, "-o", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap_or_else(|why| panic!("{why}: {report}"));
    let holder = &report["stacks"][0]["primary"]["holder"];
    assert_eq!(holder["container"]["id"].as_str(), Some(pod.containers[0].as_str()), "{report}");
    assert_eq!(holder["pod"]["name"], "guilty", "{report}");
}
