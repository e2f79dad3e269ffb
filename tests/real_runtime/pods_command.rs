//! Tests of `plegctl pods` on pods that real containerd runs with a kubelet's fields: each verdict, and `--watch`
//! during the edit of a manifest until the new version runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ::plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect_bytes};
use serde_json::{Value, json};

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output, Running, plegctl_on_this_machine};
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;

const HOUR: Duration = Duration::from_secs(3600);

on_each_containerd! {
    every_verdict_is_given_at_least_once
    watch_follows_an_edit_until_only_the_new_version_runs
    mirror_pod_is_matched_by_its_hash
}

fn directory(runtime: &RealRuntime) -> PathBuf {
    let directory = runtime.directory().join("manifests");
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn manifest(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: kube-system}}\nspec:\n  containers: [{{name: app, image: \"{image}\"}}]\n"
    )
}

/// Writes a manifest whose modification time is an hour ago.
fn written(runtime: &RealRuntime, name: &str, text: &str) -> PathBuf {
    let path = directory(runtime).join(format!("{name}.yaml"));
    fs::write(&path, text).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - HOUR).unwrap();
    path
}

/// Returns the kubelet's UID for a file.
fn uid(path: &Path, text: &str) -> String {
    let kubelet = Kubelet::new(KubeletVersion::CONFIRMED, "node1");
    inspect_bytes(path, text.as_bytes(), &kubelet).uid.unwrap().unwrap()
}

/// Returns a static pod with the fields that the kubelet sets.
fn of_file(name: &str, uid: &str) -> PodSpec {
    PodSpec::new(&format!("{name}-node1")).namespace("kube-system").static_pod(uid)
}

/// Returns a pod of the API server.
fn of_api(name: &str, uid: &str) -> PodSpec {
    PodSpec::new(name).namespace("kube-system").uid(uid).annotation("kubernetes.io/config.source", "api")
}

fn app() -> ContainerSpec {
    ContainerSpec::new("app")
}

fn pods(runtime: &RealRuntime, more: &[&str]) -> Output {
    let directory = directory(runtime).display().to_string();
    let endpoint = runtime.endpoint();
    let fixed = ["pods", "--manifests", &directory, "--node-name", "node1", "-r", &endpoint, "-o", "json"];
    plegctl_on_this_machine(&[&fixed, more].concat())
}

/// Returns `verdict name` of each row, and the reason.
fn verdicts(output: &Output) -> BTreeMap<String, String> {
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = report["pods"].as_array().unwrap().iter();
    rows.map(|row| (format!("{} {}", text(row, "verdict"), text(row, "name")), text(row, "why"))).collect()
}

/// Returns a kubelet that serves its `/pods`.
fn kubelet(pods: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = json!({"kind": "PodList", "apiVersion": "v1", "items": pods}).to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

fn api_pod(name: &str, uid: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "kube-system", "uid": uid},
        "spec": {"nodeName": "node1"}, "status": {"phase": "Running"}})
}

fn every_verdict_is_given_at_least_once(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let text = |name: &str| manifest(name, "x:1");
    let file = |name: &str| written(&runtime, name, &text(name));

    let runs = uid(&file("runs"), &text("runs"));
    runtime.run_pod(&of_file("runs", &runs), &[app()]);
    // The file was edited, and the old version still runs.
    let old = uid(&file("edited"), &text("edited"));
    runtime.run_pod(&of_file("edited", &old), &[app()]);
    written(&runtime, "edited", &manifest("edited", "x:2"));
    file("gone");
    let orphan = "0123456789abcdef0123456789abcdef";
    runtime.run_pod(&of_file("orphan", orphan), &[app()]);
    // A pod of the API server has the same name as the pod of a file.
    let twice = uid(&file("twice"), &text("twice"));
    runtime.run_pod(&of_file("twice", &twice), &[app()]);
    // The kubelet has refused the pod. Only the kubelet's own /pods shows this.
    let refused = uid(&file("refused"), &text("refused"));
    written(&runtime, "broken", "kind: Pod\n");
    let mut ending = api_pod("ending", "00000000-0000-4000-8000-00000000e001");
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
    runtime.run_pod(&of_api("ending", "00000000-0000-4000-8000-00000000e001"), &[app()]);

    let list = runtime.directory().join("list.json");
    let items = [ending, api_pod("twice-node1", "00000000-0000-4000-8000-00000000e002")];
    fs::write(&list, json!({"kind": "List", "items": items}).to_string()).unwrap();
    let url =
        kubelet(&json!([{"metadata": {"name": "refused-node1", "namespace": "kube-system", "uid": refused},
        "spec": {"nodeName": "node1"}, "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no devices"}}]));
    // The pod has a sandbox and no container. The test creates it last, because after a minute the verdict would be
    // `missing`.
    let starts = uid(&file("starts"), &text("starts"));
    runtime.run_pod(&of_file("starts", &starts), &[]);
    let output = pods(&runtime, &["--api-pods", list.to_str().unwrap(), "--kubelet-url", &url]);
    assert_eq!(output.code, Some(1), "{output}");
    let found = verdicts(&output);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let broken = format!("refused {}", directory(&runtime).join("broken.yaml").display());
    assert_eq!(
        names,
        [
            "duplicate twice-node1",
            "missing gone-node1",
            "orphan orphan-node1",
            &broken,
            "refused refused-node1",
            "running runs-node1",
            "running twice-node1",
            "stale edited-node1",
            "starting starts-node1",
            "stuck ending",
            "terminating edited-node1",
        ],
        "{output}"
    );
    assert_eq!(found["refused refused-node1"], "UnexpectedAdmissionError: Allocate failed due to no devices");
    assert!(found["stale edited-node1"].contains(&old), "{output}");
    assert!(found["missing gone-node1"].contains("does not have it among its pods"), "{output}");
    assert!(found["running twice-node1"].contains("another pod with this name"), "{output}");
    let _ = writeln!(std::io::stderr(), "{}: {}", runtime.name(), names.join(", "));
}

fn mirror_pod_is_matched_by_its_hash(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let text = manifest("web", "x:1");
    let hash = uid(&written(&runtime, "web", &text), &text);
    let pod = runtime.run_pod(&of_file("web", &hash), &[app()]);
    let mirror_state = |hash: &str, container: &str| {
        let mut mirror = api_pod("web-node1", "00000000-0000-4000-8000-00000000e003");
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": hash});
        mirror["status"]["containerStatuses"] =
            json!([{"name": "app", "containerID": format!("containerd://{container}")}]);
        let list = runtime.directory().join("list.json");
        fs::write(&list, json!({"kind": "List", "items": [mirror]}).to_string()).unwrap();
        let output = pods(&runtime, &["--api-pods", list.to_str().unwrap()]);
        assert_eq!(output.code, Some(0), "{output}");
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["pods"].as_array().unwrap().len(), 1, "{output}");
        report["pods"][0]["mirror"]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(mirror_state(&hash, &pod.containers[0]), "current");
    // For a minute after a file was written, its mirror pod does not count as outdated.
    fs::write(directory(&runtime).join("web.yaml"), &text).unwrap();
    assert_eq!(mirror_state("0123456789abcdef0123456789abcdef", &pod.containers[0]), "young");
}

/// `pods --watch -o jsonl`.
struct Watch(Running);

impl Watch {
    fn start(runtime: &RealRuntime) -> Self {
        let directory = directory(runtime).display().to_string();
        let arguments = [
            "pods",
            "--watch",
            "--manifests",
            &directory,
            "--node-name",
            "node1",
            "-r",
            &runtime.endpoint(),
            "-o",
            "jsonl",
        ];
        Self(Invocation::new(&arguments).on_this_machine().spawn())
    }

    /// Returns the next line: `ADD`, `REMOVE`, `running`, …, its UIDs, and the line itself.
    fn next(&mut self) -> (String, Vec<String>, Value) {
        let line: Value = serde_json::from_str(&self.0.line().unwrap()).unwrap();
        let uid = |pod: &Value| pod["uid"].as_str().unwrap().to_owned();
        if line["kind"] == "PodFollow" {
            return (line["state"].as_str().unwrap().to_owned(), vec![uid(&line["pod"])], line);
        }
        let uids = line["pods"].as_array().unwrap().iter().map(uid).collect();
        (line["op"].as_str().unwrap().to_owned(), uids, line)
    }
}

fn watch_follows_an_edit_until_only_the_new_version_runs(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let before = manifest("web", "x:1");
    let path = written(&runtime, "web", &before);
    let old = uid(&path, &before);
    let running = runtime.run_pod(&of_file("web", &old), &[app()]);
    let mut watch = Watch::start(&runtime);
    let (op, uids, _) = watch.next();
    assert_eq!((op.as_str(), &uids), ("ADD", &vec![old.clone()]));

    let after = manifest("web", "x:2");
    let new = uid(&path, &after);
    // The test replaces the file with a rename, as editors do.
    let aside = path.with_file_name(".web.yaml");
    fs::write(&aside, &after).unwrap();
    let edited = Instant::now();
    fs::rename(&aside, &path).unwrap();
    let (op, uids, _) = watch.next();
    let until_shown = edited.elapsed();
    assert_eq!((op.as_str(), &uids), ("REMOVE", &vec![old.clone()]));
    let (op, uids, _) = watch.next();
    assert_eq!((op.as_str(), &uids), ("ADD", &vec![new.clone()]));

    // Now the test acts as the kubelet.
    runtime.stop_pod(&running.sandbox_id);
    runtime.remove_pod(&running.sandbox_id);
    let (state, uids, gone) = watch.next();
    assert_eq!((state.as_str(), &uids), ("gone", &vec![old]));
    let pod = runtime.run_pod(&of_file("web", &new), &[]);
    let (state, uids, _) = watch.next();
    assert_eq!((state.as_str(), &uids), ("sandbox", &vec![new.clone()]));
    let started = Instant::now();
    runtime.start_container(&runtime.create_container(&pod, &app()));
    let (state, uids, runs) = watch.next();
    let seen = started.elapsed();
    assert_eq!((state.as_str(), &uids), ("running", &vec![new]));
    watch.0.signal("TERM");
    assert_eq!(watch.0.wait().code, Some(0));
    let _ = writeln!(
        std::io::stderr(),
        "{}: {until_shown:?} from the edit to its line, old version gone after {} s, new version running after {} s ({seen:?} after the call that started it)",
        runtime.name(),
        gone["afterSeconds"],
        runs["afterSeconds"],
    );
}
