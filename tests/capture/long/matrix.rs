//! Tests that `health` names the same culprit from a capture as live and as `capture ls`, for each fault. The recording ends
//! while the fault lasts.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};

/// Returns the result of a diagnosis: its verdict, rule, call, pod and container.
fn culprit(output: &Output) -> [String; 5] {
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let of = |path: &str| report.pointer(path).map(Value::to_string).unwrap_or_default();
    [
        of("/verdict"),
        of("/primary/id"),
        of("/primary/rpc"),
        of("/primary/pod/name"),
        of("/primary/container/name"),
    ]
}

/// Runs `health` on a scenario and on a capture of the scenario. `length` is the option that ends the recording.
fn live_and_replayed(scenario: &str, length: &[&str]) -> [Output; 2] {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let endpoint = format!("sim:{scenario}");
    // With ten thousand dead containers, a busy machine takes far longer than with any other scenario.
    let plegctl = |arguments: &[&str]| {
        let invocation = Invocation::new(arguments).time_limit(Duration::from_secs(600));
        if *length == WHILE_IT_HANGS { invocation.with_short_silences().without_load() } else { invocation }
            .run()
    };
    let how =
        [["record", "-r", &endpoint, argument(&directory), "--period", "1s"].as_slice(), length].concat();
    let recorded = plegctl(&how);
    assert_eq!(recorded.code, Some(0), "{recorded}");
    assert_incidents_are_replayed_as_listed(&directory, plegctl);
    let replay = format!("capture:{}", argument(&directory));
    // A debug build on a busy machine may need more time than the default budget.
    let [live, replayed] = [&endpoint, &replay]
        .map(|source| plegctl(&["health", "-r", source, "--budget", "10m", "-o", "json"]));
    [live, replayed]
}

/// Asserts that the replay of each diagnosed incident has the verdict, the rule, the pod and the container of the recorder's
/// diagnosis, and that neither has a command for the processes of that moment.
pub fn assert_incidents_are_replayed_as_listed(directory: &Path, plegctl: impl Fn(&[&str]) -> Output) {
    let listed = plegctl(&["capture", "ls", argument(directory), "-o", "json"]);
    let list: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|why| panic!("{why}: {listed}"));
    let no_command = |text: &str| {
        let words = ["\"changesState\": true", "namesProcess", "kill -", "pkill"];
        assert!(words.iter().all(|word| !text.contains(word)), "{text}");
    };
    no_command(&listed.stdout);
    for incident in list["incidents"].as_array().unwrap().iter().filter(|one| one["verdict"].is_string()) {
        let moment = format!("capture:{}@incident:{}", argument(directory), incident["number"]);
        let replayed = plegctl(&["health", "-r", &moment, "--budget", "10m", "-o", "json"]);
        no_command(&replayed.stdout);
        let report: Value = serde_json::from_str(&replayed.stdout).unwrap();
        assert_eq!(report["verdict"], incident["verdict"], "{listed}\n{replayed}");
        for part in ["/primary/id", "/primary/phase", "/primary/pod", "/primary/container"] {
            assert_eq!(report.pointer(part), incident.pointer(part), "{part}\n{listed}\n{replayed}");
        }
    }
}

/// Asserts that the replayed diagnosis names the same culprit as the live one.
fn assert_same_culprit(scenario: &str, length: [&str; 2]) {
    let [live, replayed] = live_and_replayed(scenario, &length);
    assert_eq!(culprit(&replayed), culprit(&live), "{scenario}\nlive {live}\nreplayed {replayed}");
}

#[test]
fn too_many_dead_containers_are_found_live_and_replayed() {
    // The duration of ten thousand status calls depends on the machine, so either D05 or D04 may come first. The
    // recorder's own diagnosis is off, because the capture must hold enough for a later one.
    for output in live_and_replayed("too-many-dead", &["--count", "1", "--no-diagnose"]) {
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(report["verdict"], "degraded", "{output}");
        assert!(findings.iter().any(|finding| finding["id"] == "D04"), "{output}");
    }
}

/// A relist with a hung call does not end, so the recording ends after a time.
const WHILE_IT_HANGS: [&str; 2] = ["--for", "8s"];
/// If every call ends, the recording ends after a number of relists.
const RELISTS: [&str; 2] = ["--count", "15"];

/// One test for each fault, so that they run at the same time and each failure has a name.
macro_rules! fault_is_judged_from_a_capture_as_it_was_live {
    ($($fault:ident: $scenario:literal $length:expr,)*) => {
        $(#[test]
        fn $fault() {
            assert_same_culprit($scenario, $length);
        })*
    };
}

fault_is_judged_from_a_capture_as_it_was_live! {
    hung_container_is_judged_as_it_was_live: "hung-container" WHILE_IT_HANGS,
    hung_list_is_judged_as_it_was_live: "hung-list" WHILE_IT_HANGS,
    two_hung_pods_are_judged_as_they_were_live: "hung-two-pods" WHILE_IT_HANGS,
    list_that_is_too_large_is_judged_as_it_was_live: "list-too-large" RELISTS,
    quiet_node_is_judged_as_it_was_live: "quiet" RELISTS,
    stale_kubelet_is_judged_as_it_was_live: "stale-kubelet" RELISTS,
    dead_kubelet_is_judged_as_it_was_live: "dead-kubelet" RELISTS,
    runtime_that_is_down_is_judged_as_it_was_live: "runtime-down" RELISTS,
}
