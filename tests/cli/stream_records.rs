//! Helpers for the tests of `watch -o jsonl`: they parse its lines and select one kind of record. Tests compare
//! [`Events`] with the recordings of kubelets.

use std::collections::BTreeMap;

use serde_json::Value;

/// Pod UID → events in order, as in the recordings.
pub type Events = BTreeMap<String, Vec<(String, String)>>;

/// Parses every line.
pub fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Selects the records of one kind.
pub fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

/// Returns the text of a JSON string; panics for any other value.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
