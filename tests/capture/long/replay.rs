//! Tests that commands on a capture give the answers that were recorded.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, record, replayed, replayed_after};
use crate::support::plegctl::plegctl;
use crate::support::{FakeRuntime, Node, recording};
use plegctl_engine::cri::Rpc;

type Events = BTreeMap<String, Vec<(String, String)>>;

fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the delivered events of each relist, by pod.
fn events(records: &[Value], relists: usize) -> Vec<Events> {
    let mut all = vec![Events::new(); relists];
    for event in records.iter().filter(|record| record["kind"] == "Event" && record["delivered"] == true) {
        let relist = usize::try_from(event["relist"].as_u64().unwrap()).unwrap();
        let id = event["id"].as_str().unwrap_or("<nil>").to_owned();
        let uid = event["pod"]["uid"].as_str().unwrap().to_owned();
        let pod_events = all[relist - 1].entry(uid).or_default();
        pod_events.push((event["type"].as_str().unwrap().to_owned(), id));
    }
    all
}

/// Returns the kubelet's events at each step.
fn expected(history: &Value) -> Vec<Events> {
    let steps = history["expect"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let pods = step["events"].as_object().unwrap().iter();
            pods.map(|(uid, events)| {
                let pair = |pair: &Value| {
                    (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned())
                };
                (uid.clone(), events.as_array().unwrap().iter().map(pair).collect())
            })
            .collect()
        })
        .collect()
}

/// Records each history of a kubelet. A replay of the capture must give the same events as the kubelet.
fn assert_replay_equals_the_kubelet(version: &str, histories: usize) {
    let recorded = recording::histories(&format!("pleg-{version}"));
    assert_eq!(recorded.len(), histories);
    let place = CaptureDir::make();
    for (number, history) in recorded.iter().enumerate() {
        let fake = FakeRuntime::replay(history);
        let steps = history["expect"].as_array().unwrap().len();
        let directory = place.path(&number.to_string());
        let count = steps.to_string();
        let how = ["--kubelet-version", version, "--period", "1ms", "--count", &count, "--no-diagnose"];
        record(&fake.endpoint(), &directory, &how);
        drop(fake);
        // The fake runtime has ended, so only the capture can answer.
        let endpoint = replayed(&directory, "+0s");
        let output = plegctl(&["watch", "-r", &endpoint, "--kubelet-version", version, "-o", "jsonl"]);
        assert_eq!(output.code, Some(0), "{output}");
        let replayed = events(&records(&output.stdout), steps);
        assert_eq!(replayed, expected(history), "{} of {version}", history["name"]);
    }
}

#[test]
fn recorded_histories_of_1_36_2_are_equal_when_replayed() {
    assert_replay_equals_the_kubelet("1.36.2", 60);
}

#[test]
fn recorded_histories_of_1_32_10_are_equal_when_replayed() {
    assert_replay_equals_the_kubelet("1.32.10", 20);
}

#[test]
fn recorded_histories_of_1_31_12_are_equal_when_replayed() {
    assert_replay_equals_the_kubelet("1.31.12", 20);
}

#[test]
fn recorded_histories_of_1_28_6_are_equal_when_replayed() {
    assert_replay_equals_the_kubelet("1.28.6", 20);
}

#[test]
fn replayed_relist_equals_the_live_one_and_diff_compares_two_moments() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    // This node never changes, so both relists see the same pods, however much time is between them.
    let fake = FakeRuntime::start(Node::many(12, 2));
    record(&fake.endpoint(), &directory, &["--period", "100ms", "--count", "5"]);
    let live = plegctl(&["relist", "-r", &fake.endpoint(), "-o", "json"]);
    let replayed = plegctl(&["relist", "-r", &replayed_after(&directory, 3), "-o", "json"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    let pods = |text: &str| {
        let report: Value = serde_json::from_str(text).unwrap();
        let name = |pod: &Value| format!("{}/{}", pod["namespace"], pod["name"]);
        let mut names: Vec<_> = report["pods"].as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    };
    let replayed = pods(&replayed.stdout);
    assert_eq!(replayed.len(), 12);
    assert_eq!(replayed, pods(&live.stdout));
    let moment = replayed_after(&directory, 3);
    let same = plegctl(&["diff", &moment, &moment]);
    assert_eq!(same.code, Some(0), "{same}");
}

#[test]
fn calls_that_the_recorder_did_not_make_show_as_not_recorded() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    record("sim:quiet", &directory, &["--period", "100ms", "--count", "3"]);
    let endpoint = replayed_after(&directory, 2);
    let streamed = plegctl(&["relist", "-r", &endpoint, "--list-calls", "stream"]);
    assert_eq!(streamed.code, Some(2), "{streamed}");
    assert!(streamed.stderr.contains("is not recorded"), "{streamed}");
    // A diagnosis omits the missing call instead of blaming the runtime.
    let health = plegctl(&["health", "-r", &endpoint, "--probe-shims", "-o", "json"]);
    let report: Value = serde_json::from_str(&health.stdout).unwrap();
    // On a busy machine, the recorded calls may be slow.
    let is_slow = report["verdict"] == "degraded" && report["primary"]["id"] == "D05";
    assert!(report["verdict"] == "healthy" || is_slow, "{health}");
    let left_out = report["notChecked"].to_string();
    assert!(left_out.contains("not recorded"), "{left_out}");
}

/// A second reader of the stream that stops reading can block the node.
#[test]
fn recorder_never_reads_the_event_stream_and_says_so_of_its_capture() {
    let fake = FakeRuntime::start(Node::default());
    let place = CaptureDir::make();
    let directory = place.path("capture");
    record(&fake.endpoint(), &directory, &["--no-host", "--period", "1ms", "--count", "5"]);
    assert!(fake.calls_of(Rpc::GetContainerEvents).is_empty());
    for mode in ["evented", "compare"] {
        let output = plegctl(&["watch", "--mode", mode, "-r", &replayed(&directory, "+0s")]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("GetContainerEvents is not recorded"), "{output}");
    }
}

#[test]
fn captures_of_all_releases_of_plegctl_are_readable() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut seen = 0;
    for entry in std::fs::read_dir(captures).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|end| end != "plegcap") {
            continue;
        }
        let check = plegctl(&["capture", "check", argument(&file)]);
        assert_eq!(check.code, Some(0), "{check}");
        seen += 1;
        let list = plegctl(&["capture", "ls", argument(&file), "-o", "json"]);
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        assert_eq!(list["incidents"][0]["primary"]["id"], "D01", "{list}");
        assert_eq!(list["incidents"][0]["primary"]["pod"]["name"], "db-0");
        let relist = plegctl(&["relist", "-r", &format!("capture:{}", argument(&file))]);
        assert!(relist.stdout.contains("db-0") && relist.code == Some(0), "{relist}");
    }
    assert!(seen > 0, "there is no capture");
}
