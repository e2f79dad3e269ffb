//! Fuzzes the reader of captures. The fuzzer mutates a recorded capture; this target opens, exports and shows each
//! mutated capture. It tries each one twice: unchanged, and with corrected checksums, so that it also reaches the code
//! behind the check of the checksums.

use std::fs;

use flate2::Crc;
use plegctl_engine::capture::{Capture, Pseudonyms, Range, export};

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

/// The commands that show a recorded node.
const ENDPOINT_COMMANDS: [&[&str]; 9] = [
    &["health", "-o", "wide", "-r"],
    &["health", "-o", "prometheus", "-r"],
    &["relist", "-o", "wide", "-r"],
    &["relist", "--inspect", "all", "-r"],
    &["pods", "-r"],
    &["top", "--count", "3", "--for", "1s", "-r"],
    &["watch", "--speed", "max", "-r"],
    &["watch", "--speed", "max", "-o", "jsonl", "-r"],
    &["diff", "--force", "sim:quiet@1s"],
];

/// Returns where each text in the frames of a capture begins. Most of them are a name, an id, a label or a reason.
fn texts(bytes: &[u8]) -> Vec<usize> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/: ".contains(byte);
    let (mut all, mut begin) = (Vec::new(), HEADER);
    for end in ends(bytes) {
        let mut at = begin + OVERHEAD;
        while at < end {
            let length = bytes[at..end].iter().take_while(|byte| is_letter(byte)).count();
            if length >= ESCAPE.len() {
                all.push(at);
            }
            at += length + 1;
        }
        begin = end;
    }
    all
}

/// Clears a terminal.
const ESCAPE: &[u8] = b"\x1b[2J";

#[test]
fn texts_of_captures() {
    let recorded = include_bytes!("../tests/captures/0.1.0.plegcap");
    let texts = texts(recorded);
    assert!(texts.len() > 100, "{} texts", texts.len());
    let folder = TempDir::new();
    let path = folder.path().join("text.plegcap");
    let endpoint = format!("capture:{}", path.display());
    fuzz(
        "texts_of_captures",
        vec![b"one of the texts".to_vec(), b"and one of the commands".to_vec()],
        |bytes| {
            let number =
                bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            let mut changed = recorded.to_vec();
            let at = texts[number % texts.len()];
            changed[at..at + ESCAPE.len()].copy_from_slice(ESCAPE);
            fs::write(&path, with_checksums(&changed)).unwrap();
            let command = number / texts.len() % (COMMANDS.len() + ENDPOINT_COMMANDS.len());
            match COMMANDS.get(command) {
                Some(command) => assert_shows(command, &[path.to_str().unwrap()]),
                None => assert_shows(ENDPOINT_COMMANDS[command - COMMANDS.len()], &[&endpoint]),
            }
        },
    );
}
