//! The four views of a pod beside a real containerd: a server of the kubelet's Pods API whose status lags behind.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::daemon::RealRuntime;
use crate::messages::ContainerState;
use crate::packages::Containerd;
use crate::plegctl::Invocation;
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::pods_api::{PodsApiServer, listing, running_pod, wire};
use crate::{real, wait_for};

on_each_containerd! {
    a_killed_container_makes_the_kubelets_view_late_only_after_a_minute
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// The report of `pods` with this server, and the pod's row in it.
fn row(runtime: &RealRuntime, server: &PodsApiServer, uid: &str) -> (Value, Value) {
    let api = runtime.directory().join("api-pods.json");
    let pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": uid},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    fs::write(&api, json!({"kind": "PodList", "items": [pod]}).to_string()).unwrap();
    let words = [
        "pods",
        "-r",
        &runtime.endpoint(),
        "--node-name",
        "n1",
        "--api-pods",
        api.to_str().unwrap(),
        "--pods-api",
        server.socket(),
        "-o",
        "json",
    ];
    let output = Invocation::new(&words).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let row = report["pods"].as_array().unwrap().iter().find(|row| row["uid"] == uid).cloned();
    (row.unwrap_or_else(|| panic!("{output}")), report)
}

fn a_killed_container_makes_the_kubelets_view_late_only_after_a_minute(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let uid = "5e1b8f3c-0000-4000-8000-000000000001";
    let spec =
        PodSpec::new("web").namespace("shop").uid(uid).annotation("kubernetes.io/config.source", "api");
    let pod: Pod = runtime.run_pod(&spec, &[ContainerSpec::new("main")]);
    let container = pod.containers[0].clone();
    let started = now();
    // The kubelet's status, which never changes.
    let status = move || -> wire::Pod { running_pod("web", uid, ("api", "n1"), &container, started) };
    let server = PodsApiServer::start(&runtime.directory().join("kubelet"), move |_| listing(vec![status()]));
    let (healthy, report) = row(&runtime, &server, uid);
    assert_eq!(healthy["verdict"], "running", "{report:#}");
    let views = ["kubelet", "runtime", "api"].map(|view| healthy["views"][view]["state"].clone());
    assert_eq!(views, ["Running", "running", "Running"].map(Value::from));

    runtime.kill_container_process(&pod.containers[0]);
    let ended = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited).finished_at;
    let lag = || now() - ended / 1_000_000_000;
    let (row_now, report) = row(&runtime, &server, uid);
    // A busy machine may need more than a minute for the steps before.
    if lag() <= 60 {
        assert_ne!(row_now["verdict"], "late", "{report:#}");
    }
    assert_eq!(row_now["views"]["runtime"]["state"], "starting", "the sandbox is still ready: {report:#}");
    assert_eq!(row_now["views"]["kubelet"]["state"], "Running");
    wait_for("the status to be older than a minute", || (lag() > 62).then_some(()));
    let (late, report) = row(&runtime, &server, uid);
    assert_eq!(late["verdict"], "late", "{report:#}");
    assert!(late["why"].as_str().unwrap().starts_with("container main ended "), "{report:#}");
    assert_eq!(server.calls(), 3, "one call for each run");
}
