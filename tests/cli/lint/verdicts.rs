//! The command says of each recorded file what four real kubelets made of it.

use std::fs;

use serde_json::Value;

use super::{lint, report};
use crate::support::socket::TempDir;

const RECORDINGS: &str = include_str!("../../recordings/static-pods.jsonl");

/// The bytes of a recorded file; huge ones are stored as a size and a tail.
fn content(record: &Value) -> Vec<u8> {
    if let Some(hex) = record["hex"].as_str() {
        return (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
    }
    let size = usize::try_from(record["pad"].as_u64().unwrap()).unwrap();
    let tail = record["tail"].as_str().unwrap();
    let mut bytes = vec![b'#'];
    bytes.resize(size - tail.len() - 1, b'x');
    bytes.push(b'\n');
    bytes.extend(tail.bytes());
    bytes
}

fn expected(kubelet: &Value) -> (&str, Option<&str>, Option<&str>) {
    match kubelet["ok"].as_bool() {
        Some(true) => ("loaded", kubelet["namespace"].as_str(), kubelet["name"].as_str()),
        Some(false) => ("rejected", None, None),
        None => ("ignored", None, None),
    }
}

#[test]
fn every_verdict_equals_the_recorded_kubelets() {
    let mut compared = 0;
    for line in RECORDINGS.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let directory = TempDir::new();
        fs::write(directory.path().join(record["file"].as_str().unwrap()), content(&record)).unwrap();
        for (version, kubelet) in record["kubelet"].as_object().unwrap() {
            let arguments = ["--kubelet-version", version, "--no-cri", "-o", "json", "--fail-on", "never"];
            let output = lint(directory.path(), &arguments);
            assert_eq!(output.code, Some(0), "{output}");
            let report = report(&output);
            let file = &report["files"][0];
            let found =
                (file["verdict"].as_str().unwrap(), file["podNamespace"].as_str(), file["podName"].as_str());
            assert_eq!(found, expected(kubelet), "{} {version}", record["file"]);
            // A refusal without a word about the reason helps nobody.
            let explained = file["findings"].as_array().unwrap().iter().any(|one| one["severity"] == "error");
            assert!(found.0 != "rejected" || explained, "{} {version}: {file}", record["file"]);
            compared += 1;
        }
    }
    assert_eq!(compared, 336);
}
