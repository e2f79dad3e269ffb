//! Tests of `plegctl sim fleet`: every command that goes through an API server works with it, and their answers agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};
use crate::support::simulated_fleet::simulated_fleet;

/// The findings whose verdict does not change while the fleet runs.
const STEADY: [(&str, &str); 4] =
    [("D02", "unhealthy"), ("D05", "degraded"), ("D06", "unhealthy"), ("D22", "unhealthy")];

/// How many nodes have each verdict that does not change while the fleet runs.
const VERDICTS: [(&str, usize); 5] =
    [("healthy", 179), ("degraded", 6), ("silent", 2), ("unreachable", 2), ("unknown", 2)];

/// How many recorders have each finding.
const FINDINGS: [(&str, usize); 5] = [("D01", 2), ("D02", 4), ("D05", 6), ("D06", 1), ("D22", 2)];

fn nodes(report: &Value) -> &Vec<Value> {
    report["nodes"].as_array().unwrap()
}

/// Returns the number of nodes with this value of a field.
fn counted(report: &Value, pointer: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes(report) {
        let value = node.pointer(pointer).and_then(Value::as_str).unwrap_or("none");
        *counts.entry(value.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn each_command_gives_a_node_of_the_fleet_the_same_verdict() {
    let fleet = simulated_fleet();
    // On a busy machine, a recorder diagnoses later, and an answer may be late.
    let mut looks = (0..10).map(|_| fleet.document(&["nodes", "--timeout", "10s"]));
    let is_settled = |(_, report): &(Output, Value)| {
        let (verdicts, findings) = (counted(report, "/verdict"), counted(report, "/recorder/primary/id"));
        VERDICTS.iter().all(|(verdict, count)| verdicts.get(*verdict) == Some(count))
            && FINDINGS.iter().all(|(rule, count)| findings.get(*rule) == Some(count))
    };
    let (output, report) = looks.find(is_settled).expect("each kind of node has its verdict and its finding");
    assert_eq!(output.code, Some(1), "{output}");
    let health = |node: &Value| {
        fleet.document(&["health", "--node", node["name"].as_str().unwrap(), "--budget", "60s"])
    };
    for (rule, verdict) in STEADY {
        let node = nodes(&report).iter().find(|node| node["recorder"]["primary"]["id"] == rule).unwrap();
        let (output, health) = health(node);
        assert_eq!((&node["verdict"], &health["verdict"]), (&verdict.into(), &verdict.into()), "{output}");
        assert_eq!((&health["primary"]["id"], &health["node"]), (&rule.into(), &node["name"]), "{output}");
        assert_eq!(health["source"]["pod"], node["recorder"]["pod"], "{output}");
    }
    for (verdict, expected) in
        [("healthy", "healthy"), ("silent", "unhealthy"), ("unreachable", "unknown"), ("unknown", "unknown")]
    {
        let node = nodes(&report).iter().find(|node| node["verdict"] == verdict).unwrap();
        let (output, health) = health(node);
        assert_eq!(health["verdict"], expected, "{output}");
    }
    assert_eq!(fleet.run(&["health", "--node", "node-999"]).code, Some(2));
}

#[test]
fn nodes_that_are_not_ready_say_what_a_kubelet_says() {
    let (output, report) = simulated_fleet().document(&["nodes", "--no-recorders", "--timeout", "10s"]);
    let why = |part: &str| {
        nodes(&report)
            .iter()
            .filter(|node| node["why"].as_str().is_some_and(|why| why.contains(part)))
            .count()
    };
    assert_eq!(why("PLEG is not healthy: pleg was last seen active 1"), 2, "{output}");
    assert_eq!(
        why("[container runtime is down, PLEG is not healthy: pleg has yet to be successful]"),
        1,
        "{output}"
    );
    assert_eq!(why("Kubelet stopped posting node status."), 2, "{output}");
    assert_eq!(why("nodes/proxy"), 2, "{output}");
    // The four nodes with a recorder and the two without hang in the same way.
    assert_eq!(why("its /metrics is silent while its /configz answers"), 6, "{output}");
}

#[test]
fn incidents_and_an_upgrade_are_judged_for_the_whole_fleet() {
    let fleet = simulated_fleet();
    let (output, report) = fleet.document(&["nodes", "--incidents", "--timeout", "60s"]);
    let groups = report["groups"].as_array().unwrap();
    let hung = groups.iter().find(|group| group["id"] == "D02").unwrap();
    let shared = |what: &str| {
        let facts = hung["shared"].as_array().unwrap();
        facts.iter().find(|fact| fact["what"] == what).unwrap()["value"].clone()
    };
    assert_eq!((hung["nodes"].as_array().unwrap().len(), shared("pool")), (4, "batch".into()), "{output}");
    assert_eq!(shared("container"), "shop/worker", "{output}");
    assert_eq!(shared("image"), "registry.example/worker:v1", "{output}");
    assert_eq!((&report["counts"]["withIncidents"], &report["counts"]["noAnswer"]), (&15.into(), &2.into()));

    let (output, report) =
        fleet.document(&["nodes", "--preflight", "1.37", "-l", "karpenter.sh/nodepool=batch"]);
    assert_eq!((output.code, &report["counts"]["starts"]), (Some(1), &0.into()), "{output}");
    assert!(nodes(&report).iter().all(|node| node["restartsStaticPods"] == true), "{output}");
    let (output, report) =
        fleet.document(&["nodes", "--preflight", "1.37", "-l", "karpenter.sh/nodepool notin (batch)"]);
    assert_eq!(
        (&report["counts"]["refused"], &report["counts"]["unknown"]),
        (&0.into(), &4.into()),
        "{output}"
    );
}

/// Checks that a file is a whole capture of this node, in which its recorder's finding is found again.
fn assert_capture_of(node: &str, rule: &str, file: &Path) {
    let endpoint = format!("capture:{}", file.display());
    let run = |arguments: &[&str]| Invocation::new(arguments).run();
    let checked = run(&["capture", "check", argument(file)]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let health = run(&["health", "-r", &endpoint, "-o", "json"]);
    let report: Value = serde_json::from_str(&health.stdout).unwrap();
    assert_eq!((&report["node"], &report["primary"]["id"]), (&node.into(), &rule.into()), "{health}");
    assert!(!health.stdout.contains("sim-node"), "{health}");
}

#[test]
fn captures_of_the_fleet_are_real_and_have_the_names_of_their_node() {
    let fleet = simulated_fleet();
    let place = CaptureDir::make();
    let (node, file) = (fleet.node_with("D02"), place.path("one.plegcap"));
    let export = ["capture", "export", "--node", &node, argument(&file), "--token-file", &fleet.token];
    let output = fleet.run(&export);
    assert_eq!(output.code, Some(0), "{output}");
    assert_capture_of(&node, "D02", &file);
    let number: u32 = node.trim_start_matches("node-").parse().unwrap();
    let listed = Invocation::new(&["capture", "ls", argument(&file)]).run();
    assert!(listed.stdout.contains(&format!("shop/queue-{}/worker", number - 1)), "{listed}");

    let directory = place.path("evidence");
    let fetch = ["nodes", "--fetch", argument(&directory), "--token-file", &fleet.token, "--limit", "20"];
    let (output, report) = fleet.document(&[&fetch[..], &["--timeout", "60s"]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    let files = report["files"].as_array().unwrap();
    assert_eq!((files.len(), &report["notKnown"]), (15, &18.into()), "{output}");
    let of = |name: &str| files.iter().find(|file| file["node"] == name).unwrap()["file"].as_str().unwrap();
    assert_capture_of(&node, "D02", &directory.join(of(&node)));
    let stale = fleet.node_with("D22");
    assert_capture_of(&stale, "D22", &directory.join(of(&stale)));
}

#[test]
fn fleet_ends_with_its_files_and_touches_no_file_of_the_user() {
    let place = CaptureDir::make();
    let (temporary, config) = (place.path(""), place.path("config"));
    let started = |more: &[&str]| {
        let arguments = [&["sim", "fleet", "--nodes", "2", "--quiet"], more].concat();
        Invocation::new(&arguments).env("TMPDIR", argument(&temporary)).with_short_silences()
    };
    let mut running = started(&["--kubeconfig", argument(&config)]).spawn();
    let first = running.line().unwrap();
    assert!(
        first.starts_with("http://127.0.0.1:") && first.ends_with(": 2 nodes: 1 healthy, 1 hung"),
        "{first}"
    );
    let listed = Invocation::new(&["nodes", "-o", "name", "--kubeconfig", argument(&config)]).run();
    assert_eq!((listed.code, listed.stdout.lines().count()), (Some(1), 1), "{listed}");
    // Another fleet does not replace the file.
    let refused = started(&["--kubeconfig", argument(&config)]).run();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused}");
    assert!(refused.stderr.contains("File exists"), "{refused}");
    running.signal("TERM");
    let ended: Output = running.wait();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
    // The terminal is closed.
    let mut running = started(&["--kubeconfig", argument(&config)]).spawn();
    running.line().unwrap();
    running.signal("HUP");
    let ended = running.wait();
    assert_eq!((ended.code, fs::read_dir(&temporary).unwrap().count()), (Some(0), 0), "{ended}");
    let everywhere = started(&["--listen", "0.0.0.0:0"]).run();
    assert_eq!(everywhere.code, Some(2), "{everywhere}");
    assert!(everywhere.stderr.contains("not an address of the loopback device"), "{everywhere}");
}

#[test]
fn fleet_shows_what_it_waits_for_and_prints_three_commands_that_can_be_pasted() {
    let place = CaptureDir::make();
    let temporary = place.path("a-directory-with-a-name-that-is-as-long-as-those-of-some-build-servers");
    fs::create_dir(&temporary).unwrap();
    let words = ["sim", "fleet", "--nodes", "3"];
    let mut running = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &words)
        .env("TMPDIR", argument(&temporary))
        .with_short_silences()
        .spawn();
    let mut shown = String::new();
    while !shown.contains("--incidents") {
        shown += &running.line().expect("the commands");
        shown.push('\n');
    }
    assert!(shown.contains("of about 20s: 0 of 3 simulated recorders have a verdict"), "{shown}");
    let commands = shown.replace('\r', "").replace("\\\n", "");
    let commands: Vec<&str> = commands.lines().filter(|line| line.contains("KUBECONFIG=")).collect();
    let [nodes, health, incidents] = commands[..] else { panic!("{shown}") };
    for (command, end) in
        [(nodes, "nodes"), (health, "health --node node-001"), (incidents, "nodes --incidents")]
    {
        let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(command.ends_with(&format!("/kubeconfig plegctl {end}")), "{command}: {shown}");
    }
    running.signal("TERM");
    running.wait();
}
