//! The command says of each recorded file what four real kubelets made of it.

use std::fs;

use serde_json::Value;

use super::{lint, report};
use crate::support::socket::TempDir;
use crate::support::static_pods::{RECORDINGS, content};

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
