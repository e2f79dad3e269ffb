//! Fuzzes the reader of captures with captures that are expensive to read: each four bytes of the input become an
//! entry, whose size is a power of two. Whatever the entries are, reading the capture must keep a limit of memory and
//! time.

use std::fs;
use std::process::Stdio;

use flate2::{Compression, Crc, write::DeflateEncoder};
use std::io::Write;

use super::fuzz;
use crate::support::plegctl::command;
use crate::support::socket::TempDir;

/// The commands that read a capture.
const FORMS: [&str; 4] = [
    "capture check FILE",
    "capture report FILE -o json",
    "capture export FILE OUT --anonymise",
    "capture ls FILE",
];

/// The limit of the address space in KiB: the budget's memory and the threads.
const ADDRESS_SPACE: u32 = 3 << 20;

/// The limit of the processor time in seconds.
const PROCESSOR_TIME: u32 = 30;

/// The size limit of the file, so that the work that its budget allows ends within the test.
const LARGEST_FILE: usize = 512 << 10;

/// Encodes a number as a varint.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// Returns a protobuf field with a number.
fn varint_field(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

/// Returns a protobuf field with bytes: a text, a message or a list of messages.
fn bytes_field(field: u8, content: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2], &varint(content.len().try_into().unwrap())[..], content].concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a message of an answer with its number and its bytes, which are the difference from the message `base`; 0
/// is no message. `inflated` is the size before compression; 0 means that the bytes are not compressed.
fn message(number: u64, base: u64, bytes: &[u8], inflated: usize) -> Vec<u8> {
    [
        varint_field(1, number),
        varint_field(2, base),
        bytes_field(3, bytes),
        varint_field(4, inflated.try_into().unwrap()),
        varint_field(5, 1),
    ]
    .concat()
}

/// Returns the entry that begins a session.
fn session(id: u8, segment: u8) -> Vec<u8> {
    let id_field = [9, id, 0, 0, 0, 0, 0, 0, 0];
    bytes_field(3, &[&varint_field(9, 1)[..], &varint_field(12, segment.into()), &id_field].concat())
}

/// Encodes the entry of a call that is sent.
fn call_started(call: u64, rpc: u64) -> Vec<u8> {
    bytes_field(4, &[varint_field(1, call), varint_field(2, rpc), varint_field(4, call)].concat())
}

/// Returns the entry for the end of a call that took three seconds; `messages` is its encoded answer.
fn call_finished(call: u64, messages: &[u8]) -> Vec<u8> {
    bytes_field(5, &[&varint_field(1, call)[..], &varint_field(2, 3_000_000_000), messages].concat())
}

/// Encodes the entry of a relist.
fn relist(number: u64, began: u64, pods: u64) -> Vec<u8> {
    bytes_field(6, &[varint_field(1, number), varint_field(2, began), varint_field(4, pods)].concat())
}

/// Encodes the entry of a document.
fn document(kind: u64, json: &str) -> Vec<u8> {
    let size = json.len().try_into().unwrap();
    bytes_field(
        7,
        &[varint_field(1, kind), bytes_field(2, &deflated(json.as_bytes())), varint_field(3, size)].concat(),
    )
}

/// Encodes the entry of a message of the event stream.
fn stream_message(call: u64, message: &[u8]) -> Vec<u8> {
    bytes_field(12, &[varint_field(1, call), bytes_field(2, message)].concat())
}

/// Returns the body of an entry, from four bytes of the input: the kind of the entry, the number of a call, the
/// exponent of a size, and the number of a message, of an RPC or of a kind of documents.
fn body([kind, call_byte, exponent, number_byte]: [u8; 4]) -> Vec<u8> {
    let (call, number) = (u64::from(call_byte), u64::from(number_byte));
    let power = |limit: u8| 1_usize << (exponent % limit);
    match kind % 9 {
        0 => session(call_byte, number_byte % 4),
        1 => call_started(call, number % 16),
        // Many empty messages.
        2 => call_finished(call, &bytes_field(6, &[]).repeat(power(18))),
        // Many references to one earlier message.
        3 => call_finished(call, &bytes_field(6, &varint_field(1, number)).repeat(power(18))),
        // A large message with a very small compressed form.
        4 => {
            let whole = vec![if call & 1 == 0 { 0 } else { 10 }; power(25)];
            call_finished(call, &bytes_field(6, &message(number, 0, &deflated(&whole), whole.len())))
        }
        // A few bytes that are a large difference from the previous message.
        5 => {
            let length = u64::try_from(power(25) - 1).unwrap();
            let steps = [vec![1, 7, 0], varint(length)].concat();
            call_finished(call, &bytes_field(6, &message(number, number.saturating_sub(1), &steps, 0)))
        }
        6 => document(number % 8, &format!("[{}[]]", "[],".repeat(power(21)))),
        7 => relist(call, number, 1 << (exponent % 40)),
        _ => stream_message(call, &message(number, 0, &[10, 0].repeat(power(16)), 0)),
    }
}

/// Returns a capture: the header, a session, and an entry for each four bytes of the input, except entries that would
/// make the file too large.
fn capture(header: &[u8], input: &[u8]) -> Vec<u8> {
    let mut file = header.to_vec();
    let first_session = [0, 1, 0, 1];
    for (index, four) in [first_session].iter().chain(input.as_chunks().0).enumerate() {
        let nanos = u64::try_from(index + 1).unwrap();
        let wall = (1_700_000_000_000_000_000 + nanos).to_le_bytes();
        let content = [&[9], &wall[..], &varint_field(2, nanos), &body(*four)].concat();
        if file.len() + content.len() > LARGEST_FILE {
            continue;
        }
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        let mut checksum = Crc::new();
        checksum.update(&length);
        checksum.update(&content);
        file.extend([&[0xA7, 0x50], &length[..], &checksum.sum().to_le_bytes(), &content].concat());
    }
    file
}

#[test]
fn capture_costs() {
    let header = &include_bytes!("../tests/captures/0.1.0.plegcap")[..16];
    let folder = TempDir::new();
    let (file, out) = (folder.path().join("in.plegcap"), folder.path().join("out.plegcap"));
    // A list of 8 MiB with a chain of differences, documents, unfinished calls in many sessions, and two short mixes.
    let differences: Vec<u8> =
        (1..60).flat_map(|call| [1, call, 0, 0, if call == 1 { 4 } else { 5 }, call, 23, call]).collect();
    let documents: Vec<u8> = (0..40).flat_map(|kind| [6, 1, 18, kind]).collect();
    let sessions: Vec<u8> = (0..200).flat_map(|id| [0, id, 0, 1, 1, id, 0, 0]).collect();
    let seeds = vec![
        differences,
        documents,
        sessions,
        vec![1, 1, 0, 0, 2, 1, 17, 0, 1, 2, 0, 0, 3, 2, 17, 9, 7, 1, 30, 1],
        vec![1, 1, 0, 4, 8, 1, 15, 1, 8, 1, 3, 2],
    ];
    let mut forms = FORMS.iter().cycle();
    fuzz("capture_costs", seeds, |input| {
        fs::write(&file, capture(header, input)).unwrap();
        let _ = fs::remove_file(&out);
        let words = forms.next().unwrap().split(' ').map(|word| match word {
            "FILE" => file.to_str().unwrap(),
            "OUT" => out.to_str().unwrap(),
            word => word,
        });
        let limited = format!("ulimit -t {PROCESSOR_TIME}; ulimit -v {ADDRESS_SPACE}; exec \"$@\"");
        let output = command("sh")
            .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_plegctl")])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=2)), "{}: {text}", output.status);
        assert!(!text.contains("fault:"), "{text}");
    });
}
