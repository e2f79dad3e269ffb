//! Tests of `plegctl_engine::stacks` on goroutine dumps of real daemons with known faults: the report must have the known
//! cause and the known holder.
//!
//! `tests/recordings/stacks/truth.jsonl.gz` has the correct result for each dump. We derived it by hand from the hung
//! calls and the injected fault.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use plegctl_engine::report::Severity;
use plegctl_engine::stacks::judge::{DumpSource, KnownHangs, judge};
use plegctl_engine::stacks::read::{Bounds, read};
use plegctl_engine::stacks::report::StackReport;
use plegctl_engine::stacks::signatures::signatures;
use proptest::prelude::*;
use serde_json::Value;

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks").join(name)
}

/// Returns the lines of `truth.jsonl.gz`, one for each dump.
fn truth() -> Vec<Value> {
    let file = BufReader::new(File::open(recording("truth.jsonl.gz")).unwrap());
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

#[test]
fn every_goroutine_of_every_dump_is_counted() {
    let truth = truth();
    assert_eq!(truth.len(), 103);
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

/// Prints figures even if the test passes. The test harness would hide the output of `println!`.
fn print_always(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn source(name: &str) -> DumpSource {
    let mut reading = read(File::open(recording(name)).unwrap(), Bounds::default()).unwrap();
    DumpSource { name: name.to_owned(), dump: reading.dumps.remove(0), ..DumpSource::default() }
}

fn judged(name: &str) -> StackReport {
    judge(&[source(name)], &signatures(), &KnownHangs::default())
}

/// A dump of a kubelet between two calls to the frozen runtime. Every pod worker waits for work, as in a healthy
/// kubelet, so the dump does not show the fault.
const BETWEEN_ATTEMPTS: &str = "k2-bolt.t275.kubelet.debug2.gz";

#[test]
fn every_dump_has_its_finding_and_healthy_dumps_only_infos() {
    let (mut wrong, mut named, mut quiet, mut between) = (Vec::new(), 0, 0, 0);
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
        match (right, expected.is_empty(), name == BETWEEN_ATTEMPTS) {
            (false, ..) => wrong.push(format!("{name}: expected {expected:?}, found {found:?}")),
            (true, _, true) => between += 1,
            (true, true, _) => quiet += 1,
            (true, false, _) => named += 1,
        }
    }
    print_always(&format!(
        "findings: {named} dumps with the known cause, {quiet} healthy dumps without a finding above info, {between} dump \
         between two calls, {} wrong",
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn holders_of_nineteen_of_twenty_waiters_are_correct() {
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
    print_always(&format!(
        "holders: {exact} of {all} exact, {wider} with others named too, {} wrong",
        wrong.len()
    ));
    assert_eq!(all, 163);
    assert!(exact * 100 >= all * 95, "exact {exact}, wider {wider}, of {all}; wrong:\n{}", wrong.join("\n"));
}

/// Complete and broken parts of dumps.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        (
            any::<u16>(),
            "(select|sync\\.Mutex\\.Lock|semacquire|running|chan send|sync\\.RWMutex\\.RLock)",
            0..9_u8
        )
            .prop_map(|(id, state, minutes)| format!("goroutine {id} [{state}, {minutes} minutes]:")),
        any::<u16>().prop_map(|id| format!("goroutine {id} [select labels:{{\"a]\": \"b\\\"}}\"}}]:")),
        any::<u16>().prop_map(|id| format!("goroutine {id} gp=0x1 m=nil mp=0x2 [GC worker (idle)]:")),
        any::<u8>().prop_map(|id| format!("goroutine {id} [")),
        (0..6_usize, any::<u32>()).prop_map(|(nth, word)| {
            let names = [
                "a/b.(*T).Get",
                "go.etcd.io/bbolt.(*DB).beginRWTx",
                "sync.(*Mutex).lockSlow",
                "x/v1._RuntimeService_ListContainers_Handler",
                "github.com/containerd/ttrpc.(*Client).dispatch",
                "x/store/container.(*statusStorage).UpdateSync",
            ];
            format!("{}(0x{word:x}, {{0xc000{word:x}?, _}}, ...)", names[nth])
        }),
        Just("\t/a/b.go:12 +0x3f fp=0x1 sp=0x2 pc=0x3".to_owned()),
        Just("created by main.main in goroutine 1".to_owned()),
        Just("[originating from goroutine 4]:".to_owned()),
        Just("...additional frames elided...".to_owned()),
        Just("goroutine profile: total 14".to_owned()),
        Just("12 @ 0x1 0x2".to_owned()),
        Just("#\t0x1\ta.f+0x1\t/a.go:1".to_owned()),
        Just("=== BEGIN goroutine stack dump ===".to_owned()),
        Just("SIGQUIT: quit".to_owned()),
        Just(String::new()),
        "[ -~]{0,40}",
        any::<String>(),
    ]
}

/// Reads and judges a text. Returns the numbers of announced and of parsed goroutines, or `None` if the text has no
/// dump.
fn read_and_judge(bytes: &[u8]) -> Option<(u64, u64)> {
    let bounds = Bounds { bytes: 1 << 20, goroutines: 2000 };
    let dumps = read(bytes, bounds).ok()?.dumps;
    let counts = (
        dumps.iter().map(|dump| dump.announced).sum(),
        dumps.iter().map(|dump| dump.goroutines.len() as u64).sum(),
    );
    let source = |dump| DumpSource { name: "fuzz".to_owned(), dump, ..DumpSource::default() };
    let sources: Vec<DumpSource> = dumps.into_iter().map(source).collect();
    let report = judge(&sources, &signatures(), &KnownHangs::default());
    assert_eq!(report.dumps.len(), sources.len());
    Some(counts)
}

proptest! {
    /// `PROPTEST_CASES=1000000 cargo test --test product stacks::parts` runs more cases.
    #[test]
    fn parts_of_dumps_in_any_order_are_read_and_judged(pieces in prop::collection::vec(piece(), 0..60)) {
        read_and_judge(pieces.join("\n").as_bytes());
    }

    #[test]
    fn every_header_has_its_goroutine(ids in prop::collection::vec(any::<u32>(), 1..40), junk in "[a-z ]{0,20}") {
        let one = |id| format!("goroutine {id} [select]:\nmain.f(0x1)\n\t/a.go:1\n{junk}\n\n");
        let text = ids.iter().map(one).collect::<Vec<_>>().concat();
        let (announced, kept) = read_and_judge(text.as_bytes()).unwrap();
        prop_assert_eq!((announced, kept), (ids.len() as u64, ids.len() as u64));
    }

    #[test]
    fn long_damaged_real_dump_is_read_and_judged(nth in 0..100_usize, at in any::<u32>(), damage in prop::collection::vec(any::<u8>(), 0..40)) {
        let row = &truth()[nth];
        let mut bytes = Vec::new();
        MultiGzDecoder::new(BufReader::new(File::open(recording(row["file"].as_str().unwrap())).unwrap())).read_to_end(&mut bytes).unwrap();
        let at = at as usize % bytes.len();
        let end = (at + damage.len()).min(bytes.len());
        bytes.splice(at..end, damage);
        read_and_judge(&bytes);
    }
}
