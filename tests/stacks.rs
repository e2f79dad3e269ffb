//! `plegctl::stacks` against dumps of real daemons in known faults: what was found by hand is found again.
//!
//! `tests/recordings/stacks/truth.jsonl.gz` says of each dump who waits for what, found from the calls that were
//! hanging and from the fault that had been injected.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use plegctl::report::Severity;
use plegctl::stacks::judge::{Source, Told, judge};
use plegctl::stacks::read::{Bounds, read};
use plegctl::stacks::report::StackReport;
use plegctl::stacks::signatures::signatures;
use serde_json::Value;

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks").join(name)
}

/// One line of the truth for each dump.
fn truth() -> Vec<Value> {
    let file = BufReader::new(File::open(recording("truth.jsonl.gz")).unwrap());
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

#[test]
fn every_goroutine_of_every_dump_is_counted() {
    let truth = truth();
    assert_eq!(truth.len(), 100);
    for row in truth {
        let name = row["file"].as_str().unwrap();
        let reading = read(File::open(recording(name)).unwrap(), Bounds::default()).unwrap();
        assert_eq!(reading.dumps.len(), 1, "{name}");
        let dump = &reading.dumps[0];
        let count = row["goroutines"].as_u64().unwrap();
        assert_eq!((dump.announced, dump.count(), dump.not_understood), (count, count, 0), "{name}");
        assert_eq!(reading.cut, None, "{name}");
    }
}

fn source(name: &str) -> Source {
    let mut reading = read(File::open(recording(name)).unwrap(), Bounds::default()).unwrap();
    Source { name: name.to_owned(), dump: reading.dumps.remove(0), pid: None, taken_at: None }
}

fn judged(name: &str) -> StackReport {
    judge(&[source(name)], &signatures(), &Told::default())
}

/// Taken between two attempts: the call to the frozen runtime had ended, its next had not begun, and every pod worker
/// waits for work as in a healthy kubelet. Nothing in it tells of the fault.
const BETWEEN_ATTEMPTS: &str = "k2-bolt.t275.kubelet.debug2.gz";

#[test]
fn every_dump_has_its_finding_and_a_healthy_one_none_above_info() {
    let mut wrong = Vec::new();
    for row in truth() {
        let name = row["file"].as_str().unwrap();
        let expected = row["expect"].as_str().unwrap();
        let report = judged(name);
        let found: Vec<String> = report
            .findings
            .iter()
            .map(|finding| {
                format!("{} {} {}", finding.id, finding.confidence.as_str(), finding.severity.as_str())
            })
            .collect();
        let right = if expected.is_empty() || name == BETWEEN_ATTEMPTS {
            report.findings.iter().all(|finding| finding.severity == Severity::Info)
        } else {
            report.primary.as_ref().is_some_and(|primary| expected.split('|').any(|id| id == primary.id))
        };
        if !right {
            wrong.push(format!("{name}: expected {expected:?}, found {found:?}"));
        }
        println!("{name}: {found:?}: {}", report.summary);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn holders_are_right_for_nineteen_of_twenty_waiters() {
    let (mut exact, mut wider, mut wrong) = (0, 0, Vec::new());
    for row in truth() {
        let name = row["file"].as_str().unwrap();
        let waiters = row["waiters"].as_array().unwrap();
        if waiters.is_empty() {
            continue;
        }
        let report = judged(name);
        for waiter in waiters {
            let id = waiter["goroutine"].as_u64();
            let expected: BTreeSet<u64> =
                waiter["holders"].as_array().unwrap().iter().map(|holder| holder.as_u64().unwrap()).collect();
            let found: BTreeSet<u64> = report
                .waits
                .iter()
                .filter(|wait| wait.goroutine == id)
                .flat_map(|wait| wait.holders.iter().copied())
                .collect();
            if found == expected {
                exact += 1;
            } else if found.is_superset(&expected) {
                wider += 1;
            } else {
                wrong.push(format!(
                    "{name}: {id:?} at {} waits for {expected:?}, found {found:?}",
                    waiter["at"]
                ));
            }
        }
    }
    let all = exact + wider + wrong.len();
    assert_eq!(all, 163);
    println!("exact {exact}, wider {wider}, of {all}; wrong:\n{}", wrong.join("\n"));
    assert!(exact * 100 >= all * 95, "exact {exact}, wider {wider}, of {all}; wrong:\n{}", wrong.join("\n"));
}
