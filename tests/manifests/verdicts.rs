//! Compares the verdict on each recorded file with those of four real kubelets.

use std::path::PathBuf;

use plegctl_engine::manifests::{self, FileVerdict, Kubelet, KubeletVersion};
use serde_json::Value;

use crate::support::static_pods::{RECORDINGS, content};

/// Judges a recorded file with the rules of kubelet 1.`minor`. Returns the difference from the verdict of that kubelet.
fn verdict_differs(record: &Value, minor: u8, expected: &Value) -> Option<String> {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    let name = record["file"].as_str().unwrap();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("verdict-{minor}-{name}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(name), content(record)).unwrap();
    let report = manifests::inspect(&directory, &kubelet);
    assert_eq!(report.files.len(), 1, "{name}");
    let file = &report.files[0];
    let found = match (file.verdict, &file.pod) {
        (FileVerdict::Loaded, Some(pod)) => format!("loaded {}/{}", pod.namespace, pod.name),
        (verdict, _) => format!("{verdict:?}").to_lowercase(),
    };
    let wanted = match expected["ok"].as_bool() {
        Some(true) => {
            format!(
                "loaded {}/{}",
                expected["namespace"].as_str().unwrap(),
                expected["name"].as_str().unwrap()
            )
        }
        Some(false) => "rejected".to_owned(),
        None => "ignored".to_owned(),
    };
    (found != wanted).then(|| {
        format!(
            "{name} 1.{minor}: {found}, the kubelet: {wanted}\n  ours: {:?}\n  its:  {}",
            file.kubelet_reason, expected["error"]
        )
    })
}

#[test]
fn every_verdict_equals_the_recorded_kubelets() {
    let mut compared = 0;
    let mut different = Vec::new();
    for line in RECORDINGS.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        for (version, expected) in record["kubelet"].as_object().unwrap() {
            let minor = version.trim_start_matches("1.").parse().unwrap();
            compared += 1;
            different.extend(verdict_differs(&record, minor, expected));
        }
    }
    assert_eq!(compared, 336);
    assert!(different.is_empty(), "{} of {compared} differ:\n{}", different.len(), different.join("\n"));
}
