//! What a watch prints as JSON lines, and what the recordings have of the same.

use std::collections::BTreeMap;

use serde_json::Value;

/// Pod UID → events in order, as the recordings have them.
pub type Events = BTreeMap<String, Vec<(String, String)>>;

/// Every line.
pub fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Those of one kind.
pub fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

/// A text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
