//! `plegctl::stacks` against dumps of real daemons in known faults: what was found by hand is found again.
//!
//! `tests/recordings/stacks/truth.jsonl.gz` says of each dump who waits for what, found from the calls that were
//! hanging and from the fault that had been injected.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use plegctl::stacks::read::{Bounds, read};
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
