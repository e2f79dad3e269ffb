//! The manifest files that real kubelets were given, with their verdicts.

use serde_json::Value;

/// A record a line.
pub const RECORDINGS: &str = include_str!("../recordings/static-pods.jsonl");

/// The bytes of a recorded file; huge ones are stored as a size and a tail.
pub fn content(record: &Value) -> Vec<u8> {
    if let Some(hex) = record["hex"].as_str() {
        return (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
    }
    let size = usize::try_from(record["pad"].as_u64().unwrap()).unwrap();
    let tail = record["tail"].as_str().unwrap();
    let mut bytes = vec![b'#'];
    bytes.resize(size - tail.len() - 1, b'x');
    bytes.push(b'\n');
    bytes.extend(tail.bytes());
    bytes
}
