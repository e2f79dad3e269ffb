//! Reads recorded manifest files that real kubelets have read, with the kubelets' verdicts.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// The first recordings: four kubelets, 84 files, one record in each line.
pub const RECORDINGS: &str = include_str!("../recordings/static-pods.jsonl");

/// Returns the bytes of a recorded file; large files are stored as a size and a tail.
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

/// Nine kubelets, 161 files: the verdict and UID of each.
pub fn nine_releases() -> Vec<Value> {
    let text = unpacked("static-pods-1.28-1.36.jsonl.gz");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Mutated files: name, bytes and each kubelet's result (0, or name, namespace and UID).
pub fn mutated_files() -> Vec<(String, Vec<u8>, Value)> {
    let groups: Value = serde_json::from_str(&unpacked("static-pods-odd.json.gz")).unwrap();
    let files = groups.as_array().unwrap().iter().flat_map(|group| group["files"].as_object().unwrap());
    files
        .map(|(name, file)| (name.clone(), base64(file["b64"].as_str().unwrap()), file["kubelet"].clone()))
        .collect()
}

/// Decompresses a recording.
fn unpacked(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<usize> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte| ALPHABET.iter().position(|one| *one == byte).unwrap())
        .collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        (0..four.len() - 1).map(move |place| u8::try_from(bits >> (16 - 8 * place) & 0xff).unwrap())
    });
    bytes.collect()
}
