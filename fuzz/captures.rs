//! Fuzzes the reader of captures. The fuzzer mutates a recorded capture; this target opens, exports and shows each
//! mutated capture. It tries each one twice: unchanged, and with corrected checksums, so that it also reaches the code
//! behind the check of the checksums.

use std::fs;

use flate2::Crc;
use plegctl::capture::{Capture, Pseudonyms, Range, export};

use super::{assert_shows, fuzz};
use crate::support::socket::TempDir;

/// The commands that show a capture.
const COMMANDS: [&[&str]; 5] = [
    &["capture", "ls"],
    &["capture", "check"],
    &["capture", "report"],
    &["capture", "report", "-o", "json"],
    &["capture", "report", "-o", "html"],
];

/// The file header: magic, version and reserved space before the first frame.
const HEADER: usize = 16;

/// The mark, length and checksum before the content of a frame.
const OVERHEAD: usize = 10;

/// Returns the end of each frame, as far as the lengths are valid.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let (mut all, mut at) = (Vec::new(), HEADER);
    while let Some(length) = bytes.get(at + 2..at + 6) {
        let length = u32::from_le_bytes(length.try_into().unwrap());
        at += OVERHEAD + usize::try_from(length).unwrap();
        if at > bytes.len() {
            break;
        }
        all.push(at);
    }
    all
}

/// Returns the capture with a correct checksum in each frame.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let (mut fixed, mut begin) = (bytes.to_vec(), HEADER);
    for end in ends(bytes) {
        let mut crc = Crc::new();
        crc.update(&bytes[begin + 2..begin + 6]);
        crc.update(&bytes[begin + OVERHEAD..end]);
        fixed[begin + 6..begin + OVERHEAD].copy_from_slice(&crc.sum().to_le_bytes());
        begin = end;
    }
    fixed
}

#[test]
fn captures() {
    let recorded = include_bytes!("../tests/captures/0.1.0.plegcap");
    // Seeds have only the first entries, because a mutation of a small seed changes something important more often.
    // Other tests read whole captures.
    let ends = ends(recorded);
    let beginning = |entries: usize| recorded[..ends[entries.min(ends.len()) - 1]].to_vec();
    let seeds = vec![beginning(3), beginning(6), beginning(12), beginning(24)];
    let folder = TempDir::new();
    let path = folder.path().join("mutated.plegcap");
    let mut commands = COMMANDS.iter().cycle();
    fuzz("captures", seeds, |bytes| {
        for bytes in [bytes.to_vec(), with_checksums(bytes)] {
            fs::write(&path, bytes).unwrap();
            let Ok(capture) = Capture::open(&path) else { continue };
            for end in capture.calls.iter().filter_map(|call| call.end.as_ref()) {
                let _ = capture.messages(end);
            }
            for document in &capture.documents {
                let _ = capture.text(document);
            }
            let mut out = Vec::new();
            export(&capture, Range::default(), Some(Pseudonyms::default()), &mut out).unwrap();
            assert_shows(commands.next().unwrap(), &[path.to_str().unwrap()]);
        }
    });
}
