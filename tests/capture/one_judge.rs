//! Tests that a recorder, its incidents and `health --npd` give the verdict of `health` on every simulated node, or *unknown*,
//! and that a replay of each incident gives the verdict and the culprit of its diagnosis.
//! `diagnosis::tests::one_judge` compares the relists alone, as `top` judges them, for hours of simulated time.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::long::matrix::assert_incidents_are_replayed_as_listed;
use super::service::{document, until};
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::Invocation;

/// Whether a verdict from fewer facts agrees with the verdict of `health`: it is the same or *unknown*.
fn agrees(verdict: &Value, health: &Value) -> bool {
    *verdict == "unknown" || verdict == health
}

/// Whether the line of `health --npd` has the word of the verdict of `health`: without a word, it is unhealthy.
fn npd_agrees(line: &str, verdict: &str) -> bool {
    let words =
        [("healthy", " healthy"), ("healthy", " nothing found"), ("degraded", " degraded, PLEG works: ")];
    words.iter().find(|(_, word)| line.contains(word)).map_or("unhealthy", |(verdict, _)| *verdict) == verdict
}

/// Compares the verdicts on a scenario while a recorder runs, and says what contradicts `health`.
fn contradiction(scenario: &str) -> Option<String> {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let (endpoint, address) = (format!("sim:{scenario}"), free_address());
    let how =
        ["record", "-r", &endpoint, argument(&directory), "--period", "1s", "--metrics-listen", &address];
    let mut recorder = Invocation::new(&how).with_short_silences().without_load().spawn();
    until(&mut recorder, "recording ");
    // A verdict without a diagnosis is from the relists alone, and says so.
    while document(&address, "/verdict")["diagnosisAgeSeconds"].is_null() {
        thread::sleep(Duration::from_millis(200));
    }
    let health = |more: &[&str]| {
        let arguments = [["health", "-r", &endpoint].as_slice(), more].concat();
        Invocation::new(&arguments).with_short_silences().without_load().run()
    };
    let output = health(&["-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let verdict = document(&address, "/verdict");
    let incidents = document(&address, "/incidents");
    let npd = health(&["--npd"]);
    recorder.signal("TERM");
    recorder.wait();
    assert_incidents_are_replayed_as_listed(&directory, |arguments| {
        Invocation::new(arguments).with_short_silences().without_load().run()
    });
    if !agrees(&verdict["verdict"], &report["verdict"]) {
        return Some(format!("recorder {verdict:#}\nhealth {output}"));
    }
    for incident in incidents["incidents"].as_array().unwrap() {
        if incident.get("verdict").is_some_and(|known| !agrees(known, &report["verdict"])) {
            return Some(format!("{incident:#}\nhealth {output}"));
        }
    }
    let agrees = npd_agrees(&npd.stdout, report["verdict"].as_str().unwrap());
    // Without an answer in its four seconds, it says that it does not know.
    let is_open = npd.code == Some(2) && npd.stdout.contains(" unknown: ");
    (!(is_open || npd.code == output.code && agrees)).then(|| format!("{npd}\nhealth {output}"))
}

/// Whether the runtime lists so many pods that the speed of the machine decides which rule comes first. Such a node is compared in
/// `diagnosis::tests::one_judge`.
fn is_large(scenario: &str) -> bool {
    let endpoint = format!("sim:{scenario}");
    let arguments = ["relist", "-r", &endpoint, "-o", "name", "--timeout", "30s"];
    Invocation::new(&arguments).run().stdout.lines().count() > 1000
}

/// Asserts that no verdict contradicts `health`. A busy machine may give no processor to only one of the programs for seconds,
/// so that they see different nodes; what two more recorders do not show again is not a contradiction of the programs.
fn compare(scenario: &str) {
    if is_large(scenario) {
        return println!("{scenario} is not compared");
    }
    let mut found = None;
    for _ in 0..3 {
        found = contradiction(scenario);
        match &found {
            None => break,
            Some(found) => println!("{scenario}\n{found}"),
        }
    }
    assert!(found.is_none(), "{scenario}: three recorders contradict health");
}

/// One test for each scenario, so that they run at the same time and each failure has a name.
macro_rules! compared {
    ($($test:ident: $scenario:literal,)*) => {
        mod recorder_and_npd_do_not_contradict_health {
            $(#[test]
            fn $test() {
                super::compare($scenario);
            })*
        }
    };
}

plegctl_engine::each_scenario!(compared);

/// No call of the recorder's relists shows a delete that fails; the kubelet's journal does.
#[test]
fn recorder_opens_an_incident_for_a_delete_that_fails_at_once() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let address = free_address();
    let how = [
        "record",
        "-r",
        "sim:failing-cni",
        argument(&directory),
        "--period",
        "1s",
        // On a busy machine, a call may wait for a processor.
        "--slow",
        "60s",
        "--metrics-listen",
        &address,
    ];
    let mut recorder = Invocation::new(&how).with_short_silences().without_load().spawn();
    until(&mut recorder, "incident 1: DEGRADED: ");
    let verdict = document(&address, "/verdict");
    let incidents = document(&address, "/incidents");
    recorder.signal("TERM");
    recorder.wait();
    let title = "CNI DEL fails: shop/db-0 cannot end";
    assert_eq!((&verdict["verdict"], &verdict["primary"]["id"]), (&"degraded".into(), &"D45".into()));
    assert_eq!(
        (&verdict["primary"]["title"], &verdict["primary"]["confidence"]),
        (&title.into(), &"certain".into())
    );
    assert_eq!(incidents["incidents"][0]["why"], title, "{incidents:#}");
    assert_incidents_are_replayed_as_listed(&directory, |arguments| {
        Invocation::new(arguments).with_short_silences().without_load().run()
    });
}
