//! The JSON lines that a watch prints, and the same events in the recordings.

use std::collections::BTreeMap;

use serde_json::Value;

/// Pod UID → events in order, as in the recordings.
pub type Events = BTreeMap<String, Vec<(String, String)>>;

/// Every record.
pub fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of one kind.
pub fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

/// A field as text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
