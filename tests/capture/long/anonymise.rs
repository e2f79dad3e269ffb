//! Searches an anonymised export for every name of the original capture. None may be left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;
use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, record};
use crate::support::plegctl::{command, plegctl};

/// Returns all names in the lists of a capture.
fn names(capture: &Path) -> BTreeSet<String> {
    let relist = plegctl(&["relist", "-r", &format!("capture:{}", argument(capture)), "-o", "json"]);
    let report: Value = serde_json::from_str(&relist.stdout).unwrap_or_else(|why| panic!("{why}: {relist}"));
    let mut names = BTreeSet::new();
    let mut add = |value: &Value| names.extend(value.as_str().map(str::to_owned));
    for pod in report["pods"].as_array().unwrap() {
        add(&pod["namespace"]);
        add(&pod["name"]);
        for container in pod["containers"].as_array().unwrap() {
            add(&container["name"]);
            add(&container["image"]);
        }
    }
    names
}

/// Returns all readable text of a capture.
fn texts(capture: &Path) -> Vec<String> {
    let capture = Capture::open(capture).unwrap();
    let messages = capture.calls.iter().filter_map(|call| capture.messages(call.end.as_ref()?)).flatten();
    let requests = capture.calls.iter().map(|call| call.request.clone());
    let documents = capture.documents.iter().filter_map(|document| capture.text(document));
    let incidents = capture.incidents.values().map(|incident| format!("{incident:?}"));
    let ends = capture.calls.iter().map(|call| format!("{:?}", call.end));
    let bytes = messages.chain(requests).chain(documents);
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).chain(incidents).chain(ends).collect()
}

/// Whether `text` contains `name` as a separate word.
fn contains_word(text: &str, name: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[test]
fn anonymised_export_has_no_names_and_gives_the_same_events() {
    let scenarios = [
        ("quiet", "1s"),
        ("quiet", "100ms"),
        ("busy-deploy", "1s"),
        ("busy-deploy", "100ms"),
        ("crash-loop", "100ms"),
        ("hung-container", "100ms"),
        ("hung-two-pods", "100ms"),
        ("flapping", "100ms"),
        ("stale-static-pod", "100ms"),
        ("missed-events", "100ms"),
    ];
    let place = CaptureDir::make();
    // The recordings mostly wait, so they run at the same time.
    thread::scope(|scope| {
        let place = &place;
        for (number, (scenario, period)) in scenarios.into_iter().enumerate() {
            scope.spawn(move || assert_same_events_without_names(place, number, scenario, period));
        }
    });
}

/// Records a scenario, exports it without names, and compares the two captures.
fn assert_same_events_without_names(place: &CaptureDir, number: usize, scenario: &str, period: &str) {
    let (directory, file) = (place.path(&number.to_string()), place.path(&format!("{number}.plegcap")));
    let how = ["--at", "0s", "--period", period, "--for", "4s", "--slow", "1s"];
    record(&format!("sim:{scenario}"), &directory, &how);
    let exported = plegctl(&["capture", "export", argument(&directory), argument(&file), "--anonymise"]);
    assert_eq!(exported.code, Some(0), "{exported}");
    let texts = texts(&file);
    // A container is called `late`, which is also a word of plegctl's own sentences.
    for name in names(&directory).into_iter().filter(|name| name != "late") {
        let found = texts.iter().find(|text| contains_word(text, &name));
        assert!(found.is_none(), "{scenario}: `{name}` is still in {found:?}");
    }
    // Both captures give the same events.
    let kinds = |capture: &Path| -> Vec<String> {
        let endpoint = format!("capture:{}@+0s", argument(capture));
        let watch = plegctl(&["watch", "-r", &endpoint, "-o", "jsonl"]);
        let events = watch.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let events = events.filter(|record| record["kind"] == "Event");
        events.map(|event| format!("{} {} {}", event["relist"], event["type"], event["id"])).collect()
    };
    let (before, after) = (kinds(&directory), kinds(&file));
    assert!(!before.is_empty() && before == after, "{scenario}: {} and {}", before.len(), after.len());
    // A replay of both gives the same verdict, with the same rules and confidences.
    let judged = |capture: &Path, incident: u64| -> Vec<String> {
        let endpoint = format!("capture:{}@incident:{incident}", argument(capture));
        let health = plegctl(&["health", "-r", &endpoint, "-o", "json"]);
        let report: Value =
            serde_json::from_str(&health.stdout).unwrap_or_else(|why| panic!("{why}: {health}"));
        let findings = report["findings"].as_array().unwrap().iter();
        let findings = findings.map(|found| format!("{} {}", found["id"], found["confidence"]));
        [report["verdict"].to_string()].into_iter().chain(findings).collect()
    };
    let original = Capture::open(&directory).unwrap();
    for incident in original.incidents.keys() {
        assert_eq!(
            judged(&directory, *incident),
            judged(&file, *incident),
            "{scenario}, incident {incident}"
        );
    }
    assert!(!original.incidents.is_empty() || !scenario.starts_with("hung-"), "{scenario}");
    let lists = original.calls.iter().filter(|call| call.rpc == Rpc::ListContainers);
    assert!(lists.count() > 0, "{scenario}");
}

/// In an image without `tar`, standard output is the only way to copy a capture.
#[test]
fn export_to_stdout_equals_the_capture() {
    let place = CaptureDir::make();
    let (directory, file, piped) = (place.path("capture"), place.path("file"), place.path("piped"));
    record("sim:quiet", &directory, &["--count", "2", "--period", "1ms"]);
    let written = plegctl(&["capture", "export", argument(&directory), argument(&file)]);
    assert_eq!(written.code, Some(0), "{written}");
    let output = command(env!("CARGO_BIN_EXE_plegctl"))
        .args(["capture", "export", argument(&directory), "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == fs::read(&file).unwrap(), "the two differ");
    fs::write(&piped, &output.stdout).unwrap();
    let checked = plegctl(&["capture", "check", argument(&piped)]);
    assert_eq!(checked.code, Some(0), "{checked}");
}
