//! Tests that `static-pods lint` gives each recorded file the verdicts of nine real kubelets.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{TempDir, report};
use crate::support::plegctl::plegctl;
use crate::support::static_pods::{content, nine_releases};

/// The directory in which the recorded kubelets had the files.
const DIRECTORY: &str = "/etc/kubernetes/manifests";

/// Returns the recorded verdict of a kubelet, with the namespace and the name of the pod.
fn expected(kubelet: &Value) -> (&str, Option<&str>, Option<&str>) {
    match kubelet["ok"].as_bool() {
        Some(true) => ("loaded", kubelet["namespace"].as_str(), kubelet["name"].as_str()),
        Some(false) => ("rejected", None, None),
        None => ("ignored", None, None),
    }
}

/// Writes each file into its own directory, so that no file shadows another.
fn directories(place: &TempDir, records: &[Value]) -> Vec<PathBuf> {
    let directory = |(number, record): (usize, &Value)| {
        let directory = place.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(record["file"].as_str().unwrap()), content(record)).unwrap();
        directory
    };
    records.iter().enumerate().map(directory).collect()
}

#[test]
fn long_every_verdict_and_uid_equals_that_of_nine_kubelet_releases() {
    let records = nine_releases();
    let place = TempDir::new();
    let paths = directories(&place, &records);
    let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let (mut compared, mut uids) = (0, 0);
    for minor in 28..=36 {
        let version = format!("1.{minor}");
        let arguments = [
            "static-pods",
            "lint",
            "--node-name",
            "node1",
            "--kubelet-version",
            &version,
            "--no-cri",
            "--as",
            DIRECTORY,
        ];
        let output = plegctl(&[&arguments[..], &["-o", "json", "--fail-on", "never"], &paths].concat());
        assert_eq!(output.code, Some(0), "{output}");
        let report = report(&output);
        let files = report["files"].as_array().unwrap();
        for (record, path) in records.iter().zip(&paths) {
            let name = record["file"].as_str().unwrap();
            let is_this = |file: &&Value| file["path"] == format!("{path}/{name}");
            let file = files.iter().find(is_this).unwrap_or_else(|| panic!("{name} is not in the report"));
            let found =
                (file["verdict"].as_str().unwrap(), file["podNamespace"].as_str(), file["podName"].as_str());
            let kubelet = &record["kubelet"][&version];
            assert_eq!(found, expected(kubelet), "{name} {version}");
            if let Some(uid) = kubelet["uid"].as_str() {
                assert_eq!(file["podUid"], uid, "{name} {version}: {file}");
                uids += 1;
            }
            // Every rejection has a reason.
            let explained = file["findings"].as_array().unwrap().iter().any(|one| one["severity"] == "error");
            assert!(found.0 != "rejected" || explained, "{name} {version}: {file}");
            compared += 1;
        }
    }
    assert_eq!((compared, uids), (161 * 9, 715));
}

/// Returns the UID that the command computes for a manifest.
fn uid_of(place: &TempDir, text: &str) -> String {
    let path = place.path().join("web.yaml");
    fs::write(&path, text).unwrap();
    let fixed = ["static-pods", "lint", "--node-name", "node1", "--kubelet-version", "1.36", "--no-cri"];
    let more = ["-o", "json", "--fail-on", "never", path.to_str().unwrap()];
    let output = plegctl(&[&fixed[..], &more].concat());
    assert_eq!(output.code, Some(0), "{output}");
    let report = report(&output);
    report["files"][0]["podUid"].as_str().unwrap_or_else(|| panic!("{output}")).to_owned()
}

#[test]
fn invalid_image_name_has_the_uid_with_pull_policy_if_not_present() {
    let place = TempDir::new();
    let pod = |container: &str, volumes: &str| {
        let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n";
        uid_of(&place, &format!("{head}spec:\n  containers: [{{name: app, {container}}}]\n{volumes}"))
    };
    let image = |rest: &str| pod(&format!("image: '{{{{ image }}}}'{rest}"), "");
    assert_eq!(image(""), image(", imagePullPolicy: IfNotPresent"));
    assert_ne!(image(""), image(", imagePullPolicy: Always"));
    let volume =
        |source: &str| pod("image: 'a:1'", &format!("  volumes: [{{name: data, image: {source}}}]\n"));
    assert_eq!(volume("{}"), volume("{pullPolicy: IfNotPresent}"));
    assert_ne!(volume("{}"), volume("{pullPolicy: Always}"));
}
