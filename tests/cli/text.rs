//! Tests that no text from outside reaches a terminal unescaped: each command gets input in which every text carries hostile
//! characters. `Output` itself checks that neither stream has such a character; the tests here add the input, and that no text
//! begins a line of its own.

use std::collections::BTreeSet;
use std::fs;

use plegctl_engine::cri::Rpc;
use prost::Message;
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output};
use crate::support::raw_server::{RawAnswer, RawServer};
use crate::support::socket::TempDir;
use crate::support::wire;

/// Control characters, line breaks, and characters that reorder or hide text.
const HOSTILE: &str = "h\u{1b}[2J\u{7}\u{9b}\u{202e}\u{200b}\r\t\nINJECTED";

/// Runs plegctl; checks that it printed something and that no hostile text began a line.
fn run(arguments: &[&str]) -> Output {
    let output = Invocation::new(arguments).run();
    assert!(!(output.stdout.is_empty() && output.stderr.is_empty()), "{output}");
    assert!(
        !output.stdout.lines().chain(output.stderr.lines()).any(|line| line.starts_with("INJECTED")),
        "{output}"
    );
    output
}

/// Like [`run`]; checks that hostile texts were printed.
fn shown(arguments: &[&str]) -> Output {
    let output = run(arguments);
    assert!(output.stdout.contains("INJECTED") || output.stderr.contains("INJECTED"), "{output}");
    output
}

fn hostile(text: &str) -> String {
    format!("{text}{HOSTILE}")
}

/// Returns a runtime with one pod and one container, whose every text is hostile, and whose last calls fail with a hostile
/// message. `state` is the container's state.
fn runtime(state: i32) -> RawServer {
    let pairs = || vec![wire::pair("io.kubernetes.container.name", HOSTILE), wire::pair(HOSTILE, HOSTILE)];
    let pod = wire::PodSandboxMetadata {
        name: hostile("pod"),
        uid: hostile("uid"),
        namespace: hostile("space"),
        attempt: 0,
    };
    let sandbox = wire::PodSandbox {
        id: hostile("sandbox"),
        metadata: Some(pod.clone()),
        labels: pairs(),
        annotations: pairs(),
        ..Default::default()
    };
    let metadata = Some(wire::ContainerMetadata { name: hostile("name"), attempt: 1 });
    let image = Some(wire::ImageSpec { image: hostile("image"), ..Default::default() });
    let container = wire::Container {
        id: hostile("id"),
        pod_sandbox_id: sandbox.id.clone(),
        metadata: metadata.clone(),
        image: image.clone(),
        image_ref: HOSTILE.to_owned(),
        state,
        labels: pairs(),
        annotations: pairs(),
        ..Default::default()
    };
    let sandbox_status = wire::PodSandboxStatus {
        id: sandbox.id.clone(),
        metadata: Some(pod),
        labels: pairs(),
        annotations: pairs(),
        ..Default::default()
    };
    let status = wire::ContainerStatus {
        id: container.id.clone(),
        metadata,
        state,
        created_at: 1_790_000_000_000_000_000,
        started_at: 1_790_000_001_000_000_000,
        finished_at: 1_790_000_002_000_000_000,
        exit_code: 3,
        image,
        image_ref: HOSTILE.to_owned(),
        reason: hostile("reason"),
        message: hostile("message"),
        labels: pairs(),
        annotations: pairs(),
        log_path: HOSTILE.to_owned(),
        ..Default::default()
    };
    let event = wire::ContainerEventResponse {
        container_id: container.id.clone(),
        container_event_type: 1,
        pod_sandbox_status: Some(sandbox_status.clone()),
        containers_statuses: vec![status.clone()],
        ..Default::default()
    };
    let conditions = ["RuntimeReady", "NetworkReady"].map(|name| wire::RuntimeCondition {
        r#type: name.to_owned(),
        status: false,
        reason: hostile("reason"),
        message: hostile("message"),
    });
    let version = wire::VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: hostile("containerd"),
        runtime_version: hostile("2.1.9"),
        runtime_api_version: "v1".to_owned(),
    };
    let answer = move |rpc: Rpc| match rpc {
        Rpc::Version => version.encode_to_vec(),
        Rpc::Status => {
            wire::StatusResponse { status: Some(wire::RuntimeStatus { conditions: conditions.to_vec() }) }
                .encode_to_vec()
        }
        Rpc::ListPodSandbox => wire::ListPodSandboxResponse { items: vec![sandbox.clone()] }.encode_to_vec(),
        Rpc::ListContainers => {
            wire::ListContainersResponse { containers: vec![container.clone()] }.encode_to_vec()
        }
        Rpc::PodSandboxStatus => {
            wire::PodSandboxStatusResponse { status: Some(sandbox_status.clone()), ..Default::default() }
                .encode_to_vec()
        }
        Rpc::ContainerStatus => {
            wire::ContainerStatusResponse { status: Some(status.clone()) }.encode_to_vec()
        }
        Rpc::GetContainerEvents => event.encode_to_vec(),
        _ => Vec::new(),
    };
    let failed = |message: &str| RawAnswer::headers_only(&[("grpc-status", "2"), ("grpc-message", message)]);
    RawServer::start(move |rpc| match rpc {
        Rpc::RuntimeConfig | Rpc::ContainerStats | Rpc::StreamContainers | Rpc::StreamPodSandboxes => {
            Some(failed("h%1B%5B2J%C2%9B%E2%80%AE%0D%09%0AINJECTED"))
        }
        _ => Some(RawAnswer::of([answer(rpc)])),
    })
}

#[test]
fn no_text_of_a_runtime_reaches_the_terminal_unescaped() {
    let (running, exited, folder) = (runtime(1), runtime(2), TempDir::new());
    let (one, other) = (running.endpoint(), exited.endpoint());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (before, after, capture) = (path("before"), path("after"), path("capture"));
    for output in ["table", "wide", "name"] {
        shown(&["relist", "-r", &one, "-o", output, "--save", &before, "-vv"]);
        shown(&["relist", "-r", &other, "-o", output, "--save", &after]);
        run(&["health", "-r", &one, "--proc", "/nowhere", "-o", output, "-vv"]);
    }
    shown(&["health", "-r", &one, "--proc", "/nowhere"]);
    run(&["health", "-r", &one, "--proc", "/nowhere", "--npd"]);
    run(&["health", "-r", &one, "--proc", "/nowhere", "-o", "prometheus"]);
    shown(&["diff", &before, &after]);
    for mode in ["generic", "evented", "compare"] {
        shown(&["watch", "-r", &other, "--mode", mode, "--count", "2", "--initial"]);
    }
    run(&["record", &capture, "-r", &other, "--for", "3s", "--period", "1s"]);
    run(&["capture", "ls", &capture]);
    run(&["capture", "check", &capture]);
    shown(&["capture", "report", &capture]);
    shown(&["capture", "report", &capture, "-o", "html"]);
    shown(&["relist", "-r", &format!("capture:{capture}")]);
    run(&["health", "-r", &format!("capture:{capture}")]);
    run(&["pods", "-r", &one, "--node-name", HOSTILE]);
}

/// Puts the hostile text at the end of one text of a document.
fn replace(document: &mut Value, path: &str) {
    let text = document.pointer_mut(path).unwrap();
    *text = hostile(text.as_str().unwrap()).into();
}

/// Collects the pointers to all texts, with one pointer for all entries of an array.
fn texts(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path.to_owned()),
        Value::Array(items) => items.iter().take(1).for_each(|item| texts(item, &format!("{path}/0"), found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| texts(value, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

/// Runs `command` once for each text of a document, in which that text is hostile. Returns the texts that were printed.
fn each_text_of(document: &Value, command: &[&str]) -> BTreeSet<String> {
    let folder = TempDir::new();
    let file = folder.path().join("document").display().to_string();
    let mut paths = Vec::new();
    texts(document, "", &mut paths);
    let mut printed = BTreeSet::new();
    for path in paths {
        let mut changed = document.clone();
        replace(&mut changed, &path);
        fs::write(&file, changed.to_string()).unwrap();
        let output = run(&[command, &[&file]].concat());
        if output.stdout.contains("INJECTED") {
            printed.insert(path);
        }
    }
    printed
}

#[test]
fn no_text_of_a_saved_report_reaches_the_terminal_unescaped() {
    let output =
        Invocation::new(&["health", "-r", "sim:hung-container", "-o", "json"]).with_short_silences().run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let printed = each_text_of(&report, &["health", "-o", "wide", "--from"]);
    for path in [
        "/summary",
        "/node",
        "/runtime/version",
        "/primary/evidence/0",
        "/primary/pod/name",
        "/keep/0/purpose",
    ] {
        assert!(printed.contains(path), "{path}: {printed:#?}");
    }
    each_text_of(&report, &["health", "--from"]);
    let saved = |at: &str| {
        let output = Invocation::new(&["relist", "-r", "sim:busy-deploy", "--at", at, "-o", "json"]).run();
        serde_json::from_str::<Value>(&output.stdout).unwrap()
    };
    let (folder, after) = (TempDir::new(), saved("70s"));
    let file = folder.path().join("after").display().to_string();
    fs::write(&file, after.to_string()).unwrap();
    let printed = each_text_of(&saved("1m"), &["diff", &file]);
    assert!(printed.iter().any(|path| path.ends_with("/name")), "{printed:#?}");
}

#[test]
fn no_text_of_a_file_reaches_the_terminal_unescaped() {
    let folder = TempDir::new();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let quoted = r#""h\x1b[2J\x07\x9b\u202e\u200b\r\t\nINJECTED""#;
    let manifests = folder.path().join(hostile("manifests"));
    fs::create_dir(&manifests).unwrap();
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {quoted}, namespace: {quoted}}}\nspec: {{{quoted}: 1, containers: \
         [{{name: {quoted}, image: {quoted}, imagePullPolicy: {quoted}}}]}}\n"
    );
    fs::write(manifests.join(hostile("a.yaml")), &manifest).unwrap();
    fs::write(manifests.join("b.yaml"), format!("a: b\u{7f}\t\u{1b}[2J: {manifest}")).unwrap();
    let manifests = manifests.display().to_string();
    shown(&["static-pods", "lint", "--no-cri", &manifests]);
    shown(&["static-pods", "lint", "--no-cri", &manifests, "-o", "github"]);
    let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let config = write(
        "config",
        &format!("{header}{quoted}: 1\nfeatureGates: {{{quoted}: true}}\ncgroupDriver: {quoted}\n"),
    );
    shown(&["preflight", "--config", &config, "--kubelet-version", "1.34"]);
    let scenario = fs::read_to_string("src/sim/scenarios/quiet.yaml").unwrap();
    let scenario =
        scenario.replace("title: A healthy node where little happens", &format!("title: {quoted}"));
    shown(&[
        "sim",
        "describe",
        &write("scenario", &scenario.replace("wrong: Nothing.", &format!("wrong: {quoted}"))),
    ]);
    let dump = "goroutine 1 [select, 9 minutes]:\nmain.\u{1b}[2J\u{9b}\u{202e}(0x1)\n\t/a/\u{1b}]0;x\u{7}.go:7 +0x1\n";
    run(&["stacks", "-o", "wide", &write("dump", dump)]);
}

/// clap prints the arguments of an error as they are.
#[test]
fn no_argument_reaches_the_terminal_unescaped() {
    // No directory can be created there.
    let path = hostile("/dev/null/");
    let option = hostile("--");
    for arguments in [
        &[HOSTILE][..],
        &[&option],
        &["health", &option],
        &["relist", "-o", HOSTILE],
        &["relist", "--timeout", HOSTILE],
        &["relist", "--color", HOSTILE],
        &["watch", "--count", HOSTILE],
        &["preflight", "--output-file", &hostile("x=")],
        &["preflight", "--kubelet-version", HOSTILE],
        &["completions", HOSTILE],
        &["explain", HOSTILE],
        &["schema", HOSTILE],
        &["relist", "-r", HOSTILE],
        &["relist", "-r", &hostile("sim:")],
        &["relist", "-r", &hostile("capture:")],
        &["health", "--from", &path],
        &["capture", "ls", &path],
        &["diff", &path, &path],
        &["stacks", &path],
        &["static-pods", "lint", "--no-cri", &path],
        &["preflight", "--config", &path],
        &["nodes", "--kubeconfig", &path],
        &["sim", "describe", HOSTILE],
        &["man", &path],
    ] {
        let output = shown(arguments);
        assert_eq!(output.code, Some(2), "{output}");
    }
}
