//! Faults recorded while they last, and judged from the capture: the same culprit as live.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::captures::{Place, word};
use crate::support::plegctl::{Invocation, Output};

/// What a diagnosis comes to: which rule, which call, whose.
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

fn judged_the_same(scenario: &str, lasts: [&str; 2]) {
    let place = Place::make();
    let directory = place.path("capture");
    let endpoint = format!("sim:{scenario}");
    // Ten thousand dead containers take a loaded machine far longer than any other scenario.
    let plegctl = |arguments: &[&str]| Invocation::new(arguments).bound(Duration::from_secs(600)).run();
    let how = [["record", "-r", &endpoint, word(&directory), "--period", "1s"].as_slice(), &lasts].concat();
    let recorded = plegctl(&how);
    assert_eq!(recorded.code, Some(0), "{recorded}");
    let live = plegctl(&["health", "-r", &endpoint, "-o", "json"]);
    let then = plegctl(&["health", "-r", &format!("capture:{}", word(&directory)), "-o", "json"]);
    assert_eq!(culprit(&then), culprit(&live), "{scenario}\nlive {live}\nthen {then}");
}

#[test]
fn faults_are_judged_from_a_capture_as_they_were_live() {
    // What hangs ends no relist; where every call ends, so many of them are seen, however long they take.
    let (hung, ends) = (["--for", "20s"], ["--count", "15"]);
    let scenarios = [
        ("hung-container", hung),
        ("hung-list", hung),
        ("hung-two-pods", hung),
        ("list-too-large", ends),
        ("too-many-dead", ends),
        ("quiet", ends),
        ("stale-kubelet", ends),
        ("dead-kubelet", ends),
    ];
    thread::scope(|scope| {
        let runs = scenarios.map(|(scenario, lasts)| scope.spawn(move || judged_the_same(scenario, lasts)));
        for run in runs {
            if let Err(why) = run.join() {
                std::panic::resume_unwind(why);
            }
        }
    });
}
