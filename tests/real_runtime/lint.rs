//! Tests of `plegctl static-pods lint` against static pods that real containerd runs with the kubelet's fields.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ::plegctl_engine::manifests::checks::runtime::container_hash;
use ::plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect_bytes};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::messages::ContainerState;
use crate::packages::Containerd;
use crate::plegctl::plegctl_on_this_machine;
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;

const UID: &str = "0123456789abcdef0123456789abcdef";
const IMAGE: &str = "registry.k8s.io/app:1.0";
const HOUR: Duration = Duration::from_secs(3600);

const GOOD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: kube-system
spec:
  containers:
  - name: app
    image: registry.k8s.io/app:1.0
";

on_each_containerd! {
    a_pod_that_runs_as_written_has_no_finding_until_the_file_changes
    missing_pods_and_missing_files_are_distinguished
    two_versions_and_two_sandboxes_are_distinguished
    crash_loop_and_old_sandboxes_are_reported
    uid_shows_the_release_and_whether_the_text_is_the_same
}

/// Writes the manifest of the pod, sets its age, and returns its path, an hour older than the running pods.
fn manifest(runtime: &RealRuntime, text: &str) -> PathBuf {
    let directory = runtime.directory().join("manifests");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("web.yaml");
    fs::write(&file, text).unwrap();
    touched(&file, SystemTime::now() - HOUR);
    file
}

/// Sets the modification time of a file.
fn touched(file: &PathBuf, time: SystemTime) {
    File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

/// Returns the findings about the runtime.
fn found(runtime: &RealRuntime) -> Vec<String> {
    let report = report(runtime);
    let findings = report["runtimeFindings"].as_array().unwrap();
    findings.iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

fn report(runtime: &RealRuntime) -> Value {
    let directory = runtime.directory().join("manifests").display().to_string();
    let output = plegctl_on_this_machine(&[
        "static-pods",
        "lint",
        &directory,
        "--node-name",
        "node1",
        "-r",
        &runtime.endpoint(),
        "-o",
        "json",
        "--as",
        "/etc/kubernetes/manifests",
    ]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the UID that a kubelet 1.`minor` gives a file with this name.
fn uid_by(name: &str, text: &str, minor: u8) -> String {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    let path = Path::new("/etc/kubernetes/manifests").join(name);
    inspect_bytes(&path, text.as_bytes(), &kubelet).uid.unwrap().unwrap()
}

fn uid_shows_the_release_and_whether_the_text_is_the_same(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    manifest(&runtime, GOOD);
    for minor in [28, 30, 32, 34, 36] {
        let pod = runtime.run_pod(&web().static_pod(&uid_by("web.yaml", GOOD, minor)), &[app()]);
        let report = report(&runtime);
        let runs = &report["files"][0]["runs"];
        assert_eq!(runs["text"], "same", "{report}");
        assert!(runs["madeBy"].as_array().unwrap().contains(&format!("1.{minor}").into()), "{report}");
        assert_eq!(found(&runtime), [""; 0]);
        runtime.stop_pod(&pod.sandbox_id);
        runtime.remove_pod(&pod.sandbox_id);
    }

    let db = GOOD.replace("name: web", "name: db");
    let file = manifest(&runtime, &GOOD.replace("app:1.0", "app:1.0\n    args: [--verbose]"));
    let other = file.with_file_name("db.yaml");
    fs::write(&other, &db).unwrap();
    touched(&other, SystemTime::now() - HOUR);
    runtime.run_pod(&web().static_pod(&uid_by("web.yaml", GOOD, 34)), &[app()]);
    let explained = PodSpec::new("db-node1").namespace("kube-system").static_pod(&uid_by("db.yaml", &db, 34));
    runtime.run_pod(&explained, &[app()]);
    assert_eq!(found(&runtime), ["SP123"]);
    assert!(report(&runtime)["runtimeFindings"][0]["message"].as_str().unwrap().contains("arguments"));
}

fn web() -> PodSpec {
    PodSpec::new("web-node1").namespace("kube-system").static_pod(UID)
}

fn app() -> ContainerSpec {
    ContainerSpec::new("app").hash(&container_hash("app", IMAGE))
}

fn a_pod_that_runs_as_written_has_no_finding_until_the_file_changes(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let file = manifest(&runtime, GOOD);
    let pod = runtime.run_pod(&web(), &[app()]);
    assert_eq!(found(&runtime), [""; 0]);

    touched(&file, SystemTime::now() + HOUR);
    assert_eq!(found(&runtime), ["SP125"]);
    manifest(&runtime, &GOOD.replace("app:1.0", "app:2.0"));
    assert_eq!(found(&runtime), ["SP123"]);
    manifest(&runtime, &GOOD.replace("  name: web\n", "  name: web\n  labels: {tier: edge}\n"));
    assert_eq!(found(&runtime), ["SP124"]);
    manifest(&runtime, &GOOD.replace("  name: web\n", "  name: web\n  uid: another\n"));
    assert_eq!(found(&runtime), ["SP130"]);
    manifest(&runtime, "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: web\n  namespace: kube-system\n");
    assert_eq!(found(&runtime), ["SP122"]);

    manifest(&runtime, GOOD);
    let more = runtime.create_container(&pod, &ContainerSpec::new("more"));
    assert_eq!(found(&runtime), ["SP123"]);
    runtime.remove_container(&more);
    assert_eq!(found(&runtime), [""; 0]);
}

fn missing_pods_and_missing_files_are_distinguished(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let file = manifest(&runtime, GOOD);
    assert_eq!(found(&runtime), ["SP120"]);
    touched(&file, SystemTime::now());
    assert_eq!(found(&runtime), [""; 0]);

    let pod = runtime.run_pod(&web(), &[app()]);
    fs::rename(&file, file.with_file_name(".web.yaml")).unwrap();
    assert_eq!(found(&runtime), ["SP121"]);
    runtime.stop_pod(&pod.sandbox_id);
    assert_eq!(found(&runtime), [""; 0]);
    runtime.remove_pod(&pod.sandbox_id);

    let of_the_api = PodSpec::new("other").annotation("kubernetes.io/config.source", "api");
    runtime.run_pod(&of_the_api, &[]);
    assert_eq!(found(&runtime), [""; 0]);

    manifest(&runtime, GOOD);
    runtime.run_pod(&PodSpec::new("web-elsewhere").namespace("kube-system").static_pod(UID), &[app()]);
    assert_eq!(found(&runtime), ["SP131"]);
}

fn two_versions_and_two_sandboxes_are_distinguished(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    manifest(&runtime, GOOD);
    let first = runtime.run_pod(&web(), &[app()]);
    let other = runtime.run_pod(&web().static_pod("fedcba9876543210fedcba9876543210"), &[app()]);
    assert_eq!(found(&runtime), ["SP126"]);
    runtime.stop_pod(&other.sandbox_id);
    assert_eq!(found(&runtime), [""; 0]);
    let second = runtime.run_pod(&web().attempt(1), &[app().attempt(1)]);
    assert_eq!(found(&runtime), ["SP127"]);
    runtime.stop_pod(&first.sandbox_id);
    assert_eq!(found(&runtime), [""; 0]);
    runtime.remove_pod(&second.sandbox_id);
    assert_eq!(found(&runtime), ["SP120"]);
}

fn crash_loop_and_old_sandboxes_are_reported(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    manifest(&runtime, GOOD);
    let pod = runtime.run_pod(&web(), &[]);
    let crashing = runtime.create_container(&pod, &app().shell("exit 3").attempt(4));
    runtime.start_container(&crashing);
    runtime.wait_for_state(&crashing, ContainerState::ContainerExited);
    assert_eq!(found(&runtime), ["SP128"]);
    runtime.remove_container(&crashing);
    let ends = runtime.create_container(&pod, &app().shell("exit 0").attempt(5));
    runtime.start_container(&ends);
    runtime.wait_for_state(&ends, ContainerState::ContainerExited);
    assert_eq!(found(&runtime), [""; 0]);

    for attempt in 1..5 {
        let dead = runtime.run_pod(&web().attempt(attempt), &[]);
        runtime.stop_pod(&dead.sandbox_id);
    }
    assert_eq!(found(&runtime), [""; 0]);
    let fifth = runtime.run_pod(&web().attempt(5), &[]);
    runtime.stop_pod(&fifth.sandbox_id);
    assert_eq!(found(&runtime), ["SP132"]);
}
