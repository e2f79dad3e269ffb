//! Tests of the finding about shims that containerd has forgotten: they run, and no list has their sandboxes.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::Invocation;
use crate::{real, wait_for};

on_each_containerd! {
    shims_of_a_killed_and_emptied_containerd_are_left_over_until_they_end
}

/// How much older the processes look: a shim younger than 60 s may belong to a sandbox that is being created.
const AGED_SECONDS: f64 = 600.0;

/// Returns the finding about left-over shims, and the whole report.
fn left_over(runtime: &RealRuntime) -> (Option<Value>, Value) {
    let words = ["health", "-r", &runtime.endpoint(), "-o", "json"];
    let output = Invocation::new(&words).env("PLEGCTL_TEST_NODE", runtime.aged_node(AGED_SECONDS)).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "D38");
    (found.cloned(), report)
}

fn is_running(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

fn shims_of_a_killed_and_emptied_containerd_are_left_over_until_they_end(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pods = runtime.run_pods(2, 1);
    let shims: Vec<Pid> = pods.iter().map(|pod| runtime.shim_pid(&pod.sandbox_id)).collect();
    let mut containers: Vec<Pid> = Vec::new();
    for pod in &pods {
        containers.push(runtime.container_pid(&pod.sandbox_id));
        containers.extend(pod.containers.iter().map(|id| runtime.container_pid(id)));
    }
    let (none, report) = left_over(&runtime);
    assert_eq!(none, None, "{report:#}");

    runtime.kill_daemon();
    // Without its database and the bundles, containerd does not find the shims that still run.
    let directory = runtime.directory();
    fs::rename(directory.join("root/io.containerd.metadata.v1.bolt"), directory.join("old-database"))
        .unwrap();
    fs::rename(directory.join("state/io.containerd.runtime.v2.task"), directory.join("old-bundles")).unwrap();
    runtime.start_daemon();
    assert!(shims.iter().all(|pid| is_running(*pid)), "the shims outlive their daemon");
    assert!(runtime.list_pods().is_empty(), "containerd has forgotten its pods");
    let (found, report) = left_over(&runtime);
    let found = found.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!((&found["confidence"], &found["severity"]), (&"likely".into(), &"info".into()), "{report:#}");
    assert_eq!(found["title"], "2 shims of pods that are gone still run");
    let ids = found["ids"].as_array().unwrap();
    let evidence = found["evidence"].to_string();
    for (pod, shim) in pods.iter().zip(&shims) {
        assert!(ids.contains(&pod.sandbox_id.clone().into()), "{found:#}");
        assert!(evidence.contains(&format!("containerd-shim[{}]", shim.as_raw_nonzero())), "{found:#}");
    }
    assert!(evidence.contains("below it runs 2 processes"), "{found:#}");

    // The last step that `explain D38` names.
    for pid in containers.iter().chain(&shims) {
        let signal = if shims.contains(pid) { Signal::TERM } else { Signal::KILL };
        // A process may have ended together with another one.
        let _ = kill_process(*pid, signal);
    }
    wait_for("the shims to end", || shims.iter().all(|pid| !is_running(*pid)).then_some(()));
    let (none, report) = left_over(&runtime);
    assert_eq!(none, None, "{report:#}");
}
