//! Captures: opened, exported again, and shown by the program. Each input is tried unchanged and with correct
//! checksums, so that the code behind the checksums is reached too.

use std::fs;

use flate2::Crc;
use plegctl::capture::{Capture, Pseudonyms, Range, export};

use super::{fuzz, shown};
use crate::support::socket::TempDir;

/// The commands that show a capture.
const FORMS: [&[&str]; 5] = [
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

/// The end of each frame, as far as the lengths are valid.
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

/// The capture with the correct checksum of each frame.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let (mut sealed, mut begin) = (bytes.to_vec(), HEADER);
    for end in ends(bytes) {
        let mut crc = Crc::new();
        crc.update(&bytes[begin + 2..begin + 6]);
        crc.update(&bytes[begin + OVERHEAD..end]);
        sealed[begin + 6..begin + OVERHEAD].copy_from_slice(&crc.sum().to_le_bytes());
        begin = end;
    }
    sealed
}

#[test]
fn captures() {
    let recorded = include_bytes!("../tests/captures/0.1.0.plegcap");
    // Only the first entries: in small seeds, mutations hit what matters, and other tests read whole captures.
    let ends = ends(recorded);
    let beginning = |entries: usize| recorded[..ends[entries.min(ends.len()) - 1]].to_vec();
    let seeds = vec![beginning(3), beginning(6), beginning(12), beginning(24)];
    let folder = TempDir::new();
    let path = folder.path().join("bent.plegcap");
    let mut forms = FORMS.iter().cycle();
    fuzz("captures", seeds, |bytes| {
        for bytes in [bytes.to_vec(), sealed(bytes)] {
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
            shown(forms.next().unwrap(), &[path.to_str().unwrap()]);
        }
    });
}
