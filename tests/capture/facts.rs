//! Tests that a replay judges the facts of the recorder's diagnosis: processes that only a diagnosis looks at.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use plegctl_engine::cri::Rpc;
use serde_json::Value;

use super::long::matrix::assert_incidents_are_replayed_as_listed;
use super::service::until;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::Invocation;
use crate::support::{FakeRuntime, Node, RuntimeKind};

/// The id of the container whose status call hangs; a runtime's ids have 64 hexadecimal digits.
const CONTAINER: &str = "c0ffee0000000000000000000000000000000000000000000000000000000001";

/// The uptime of the node in seconds.
const UPTIME: u64 = 100_000;

/// Adds a process to the process table of `node`.
fn add_process(node: &Path, (pid, parent, state): (u32, u32, char), age: u64, command: &[&str]) {
    let dir = node.join("proc").join(pid.to_string());
    fs::create_dir_all(dir.join("task").join(pid.to_string())).unwrap();
    fs::create_dir_all(dir.join("fd")).unwrap();
    let comm = command[0].rsplit('/').next().unwrap();
    let started = (UPTIME - age) * 100;
    let stat =
        format!("{pid} ({comm}) {state} {parent} 0 0 0 -1 0 0 0 0 0 10 10 0 0 20 0 5 0 {started} 0 100\n");
    for (file, text) in [
        ("stat", stat.clone()),
        ("comm", format!("{comm}\n")),
        ("cmdline", command.join("\0") + "\0"),
        ("cgroup", format!("0::/system.slice/{comm}.service\n")),
        ("status", format!("Uid:\t0\t0\t0\t0\nNSpid:\t{pid}\n")),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
    fs::write(dir.join("task").join(pid.to_string()).join("stat"), stat).unwrap();
}

/// Makes a node with a kubelet and a daemon (process 200) that listens on the socket.
fn make_node(node: &Path, daemon: (&str, char), socket: &str) {
    fs::create_dir_all(node.join("proc/pressure")).unwrap();
    fs::write(node.join("proc/uptime"), format!("{UPTIME}.00 1.00\n")).unwrap();
    fs::write(node.join("proc/stat"), "cpu  1000 0 1000 100000 0 0 0 0 0 0\n").unwrap();
    fs::write(node.join("proc/meminfo"), "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\n").unwrap();
    add_process(node, (1, 0, 'S'), UPTIME, &["/usr/lib/systemd"]);
    add_process(node, (100, 1, 'S'), 5000, &["/usr/bin/kubelet", "--bootstrap-token=secret-of-the-node"]);
    add_process(node, (200, 1, daemon.1), 5000, &[daemon.0]);
    fs::create_dir_all(node.join("proc/200/net")).unwrap();
    let line = format!("0000: 00000002 00000000 00010000 0001 01 77 {socket}\n");
    fs::write(node.join("proc/200/net/unix"), line).unwrap();
    symlink("socket:[77]", node.join("proc/200/fd/8")).unwrap();
}

/// Records an incident on the node until it is diagnosed. Returns the replay of the incident.
fn replayed(node: &Path, endpoint: &str, directory: &Path) -> Value {
    let run = |arguments: &[&str]| {
        Invocation::new(arguments).with_short_silences().without_load().env("PLEGCTL_TEST_NODE", node)
    };
    let how = ["record", "-r", endpoint, argument(directory), "--slow", "200ms", "--period", "100ms"];
    let mut recorder = run(&how).spawn();
    until(&mut recorder, "incident 1:");
    until(&mut recorder, "incident 1:");
    recorder.signal("TERM");
    let output = recorder.wait();
    assert_eq!(output.code, Some(0), "{output}");
    // The replay must not look at the node.
    let elsewhere =
        |arguments: &[&str]| Invocation::new(arguments).with_short_silences().without_load().run();
    assert_incidents_are_replayed_as_listed(directory, elsewhere);
    let moment = format!("capture:{}@incident:1", argument(directory));
    let replay = elsewhere(&["health", "-r", &moment, "-o", "json"]);
    serde_json::from_str(&replay.stdout).unwrap_or_else(|why| panic!("{why}: {replay}"))
}

fn node_with_a_pod() -> Node {
    Node::new().pod("shop/db-0", "uid-0").sandbox("a").container(CONTAINER, "postgres")
}

#[test]
fn hung_oci_runtime_of_an_incident_is_found_in_its_replay() {
    let fake = FakeRuntime::start_as(RuntimeKind::Crio, node_with_a_pod());
    fake.on(Rpc::ContainerStatus).hang();
    let place = CaptureDir::make();
    let node = place.path("node");
    make_node(&node, ("/usr/bin/crio", 'S'), fake.socket().to_str().unwrap());
    add_process(&node, (501, 200, 'S'), 95, &["/usr/bin/crun", "--root", "/run/crun", "state", CONTAINER]);
    let replay = replayed(&node, &fake.endpoint(), &place.path("capture"));
    let title = replay["primary"]["title"].as_str().unwrap();
    assert!(title.starts_with("crun[501] of shop/db-0/postgres has not finished"), "{replay:#}");
    let mut skipped: Vec<&str> =
        replay["notChecked"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    let count = skipped.len();
    skipped.sort_unstable();
    skipped.dedup();
    assert_eq!(skipped.len(), count, "{replay:#}");
}

#[test]
fn the_runtimes_own_daemon_is_known_in_a_replay_of_a_node_with_two() {
    let fake = FakeRuntime::start(node_with_a_pod());
    fake.on(Rpc::Version).hang();
    fake.on(Rpc::ListPodSandbox).hang();
    let place = CaptureDir::make();
    let node = place.path("node");
    make_node(&node, ("/usr/bin/containerd", 'T'), fake.socket().to_str().unwrap());
    add_process(&node, (300, 1, 'S'), 5000, &["/usr/bin/containerd"]);
    let replay = replayed(&node, &fake.endpoint(), &place.path("capture"));
    let title = replay["primary"]["title"].as_str().unwrap();
    assert!(title.ends_with("containerd[200] is in state T"), "{replay:#}");
}

#[test]
fn a_capture_has_no_secret_of_a_command_line() {
    let fake = FakeRuntime::start(node_with_a_pod());
    fake.on(Rpc::ContainerStatus).hang();
    let place = CaptureDir::make();
    let (node, directory) = (place.path("node"), place.path("capture"));
    make_node(&node, ("/usr/bin/containerd", 'S'), fake.socket().to_str().unwrap());
    replayed(&node, &fake.endpoint(), &directory);
    let capture = plegctl_engine::capture::Capture::open(&directory).unwrap();
    let facts = capture.documents.iter().filter(|document| document.kind == FACTS_KIND);
    let texts: Vec<String> =
        facts.map(|facts| String::from_utf8(capture.text(facts).unwrap().to_vec()).unwrap()).collect();
    assert!(!texts.is_empty());
    for text in texts {
        let facts: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(facts["host"]["first"]["processes"]["100"]["comm"], "kubelet", "{text}");
        assert!(!text.contains("secret-of-the-node"), "{text}");
    }
}

/// The number of the document kind for the facts of a diagnosis, in captures of every release of plegctl.
const FACTS_KIND: u32 = 7;
