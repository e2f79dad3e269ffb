//! Tests that every command works with a capture as with a runtime, at any moment of the capture.

use plegctl_engine::capture::Capture;
use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, record, replayed, replayed_after};
use crate::support::plegctl::{Output, plegctl};

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Records a node whose static pod differs from its manifest.
fn capture(place: &CaptureDir) -> std::path::PathBuf {
    let directory = place.path("capture");
    let how = ["--at", "0s", "--period", "500ms", "--for", "6s", "--no-diagnose"];
    record("sim:stale-static-pod", &directory, &how);
    directory
}

/// Returns the names and ids of the listed objects, in order.
fn listed(output: &Output) -> Vec<String> {
    let report = json(output);
    let pods = report["pods"].as_array().unwrap().iter();
    pods.map(|pod| format!("{} {} {}", pod["namespace"], pod["name"], pod["uid"])).collect()
}

#[test]
fn relist_diff_and_health_show_the_moment_of_the_endpoint() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    record(
        "sim:crash-loop",
        &directory,
        &["--at", "0s", "--period", "200ms", "--for", "12s", "--no-diagnose"],
    );
    let relists = u64::try_from(Capture::open(&directory).unwrap().relists.len()).unwrap();
    let (early, late) = (replayed_after(&directory, 2), replayed_after(&directory, relists - 1));
    let relists = [&early, &late].map(|at| plegctl(&["relist", "-r", at, "-o", "json"]));
    let taken = relists.each_ref().map(|relist| json(relist)["takenAt"].as_str().unwrap().to_owned());
    assert!(taken[0] < taken[1], "{taken:?}");
    assert_eq!(listed(&relists[0]).len(), listed(&relists[1]).len());
    let difference = plegctl(&["diff", &early, &late, "-o", "json"]);
    assert_eq!(difference.code, Some(1), "{difference}");
    let events = json(&difference)["events"].as_array().unwrap().len();
    assert!(events > 0, "{difference}");
    // A saved relist of that moment gives the same report.
    let saved = place.path("early.json");
    plegctl(&["relist", "-r", &early, "--save", argument(&saved)]);
    let again = plegctl(&["diff", argument(&saved), &late, "-o", "json"]);
    let transitions = |output: &Output| {
        let mut events = json(output)["events"].take();
        for event in events.as_array_mut().unwrap() {
            // Each report has its own recorded time.
            event.as_object_mut().unwrap().remove("time");
        }
        events
    };
    assert_eq!(transitions(&again), transitions(&difference), "{again}");
    let health = plegctl(&["health", "-r", &late, "-o", "json"]);
    assert_eq!((health.code, &json(&health)["verdict"]), (Some(0), &Value::from("healthy")), "{health}");
}

#[test]
fn pods_and_lint_compare_manifests_with_the_recorded_pods() {
    let place = CaptureDir::make();
    let directory = capture(&place);
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/manifests");
    let node = "node-a";
    let moment = replayed(&directory, "+3s");
    let of = |endpoint: &str| {
        let pods = ["pods", "--manifests", manifests, "--node-name", node, "-r", endpoint, "-o", "json"];
        let lint = ["static-pods", "lint", manifests, "--node-name", node, "-r", endpoint, "-o", "json"];
        let at = ["--at", "3s"];
        let at: &[&str] = if endpoint.starts_with("sim:") { &at } else { &[] };
        let (pods, lint) = (plegctl(&[&pods, at].concat()), plegctl(&[&lint, at].concat()));
        let verdict = json(&pods)["pods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| format!("{} {} {} {}", pod["namespace"], pod["name"], pod["uid"], pod["verdict"]))
            .collect::<Vec<_>>();
        let findings = json(&lint)["runtimeFindings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| {
                let ids =
                    pod["findings"].as_array().into_iter().flatten().map(|found| found["id"].to_string());
                format!("{} {:?}", pod["path"], ids.collect::<Vec<_>>())
            })
            .collect::<Vec<_>>();
        ((pods.code, verdict), (lint.code, findings))
    };
    let (live, recorded) = (of("sim:stale-static-pod"), of(&moment));
    assert!(!live.0.1.is_empty());
    assert_eq!(recorded, live);
}
