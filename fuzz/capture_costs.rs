//! Captures whose reading is expensive: each four bytes of the input become an entry, whose size is a power of two.
//! Reading any such capture has bounded memory and time.

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

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// A number field.
fn number(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

/// A field with a length.
fn part(field: u8, content: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2], &varint(content.len().try_into().unwrap())[..], content].concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An answer: its number, the number of the answer from which it differs, its bytes and their size.
fn answer(own: u64, base: u64, bytes: &[u8], inflated: usize) -> Vec<u8> {
    [number(1, own), number(2, base), part(3, bytes), number(4, inflated.try_into().unwrap()), number(5, 1)]
        .concat()
}

/// The body of an entry by its field, from four bytes.
fn body([kind, first, size, last]: [u8; 4]) -> Vec<u8> {
    let (call, own) = (u64::from(first), u64::from(last));
    let ended =
        |answers: &[u8]| part(5, &[number(1, call), number(2, 3_000_000_000), answers.to_vec()].concat());
    match kind % 9 {
        0 => part(
            3,
            &[number(9, 1), number(12, u64::from(last % 4)), [9, first, 0, 0, 0, 0, 0, 0, 0].to_vec()]
                .concat(),
        ),
        1 => part(4, &[number(1, call), number(2, own % 16), number(4, call)].concat()),
        2 => ended(&part(6, &[]).repeat(1 << (size % 18))),
        3 => ended(&part(6, &number(1, own)).repeat(1 << (size % 18))),
        4 => {
            let whole = vec![if first & 1 == 0 { 0 } else { 10 }; 1 << (size % 25)];
            ended(&part(6, &answer(own, 0, &deflated(&whole), whole.len())))
        }
        5 => {
            let steps = [vec![1, 7, 0], varint((1 << (size % 25)) - 1)].concat();
            ended(&part(6, &answer(own, own.saturating_sub(1), &steps, 0)))
        }
        6 => {
            let text = format!("[{}[]]", "[],".repeat(1 << (size % 21)));
            let document = [
                number(1, own % 8),
                part(2, &deflated(text.as_bytes())),
                number(3, text.len().try_into().unwrap()),
            ];
            part(7, &document.concat())
        }
        7 => part(6, &[number(1, call), number(2, own), number(4, 1 << (size % 40))].concat()),
        _ => part(
            12,
            &[number(1, call), part(2, &answer(own, 0, &[10, 0].repeat(1 << (size % 16)), 0))].concat(),
        ),
    }
}

fn capture(header: &[u8], input: &[u8]) -> Vec<u8> {
    let mut file = header.to_vec();
    let session = [0, 1, 0, 1];
    for (at, four) in [session].iter().chain(input.as_chunks().0).enumerate() {
        let moment = u64::try_from(at + 1).unwrap();
        let wall = (1_700_000_000_000_000_000 + moment).to_le_bytes();
        let content = [&[9], &wall[..], &number(2, moment), &body(*four)].concat();
        if file.len() + content.len() > LARGEST_FILE {
            continue;
        }
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        let mut sum = Crc::new();
        sum.update(&length);
        sum.update(&content);
        file.extend([&[0xA7, 0x50], &length[..], &sum.sum().to_le_bytes(), &content].concat());
    }
    file
}

#[test]
fn capture_costs() {
    let header = &include_bytes!("../tests/captures/0.1.0.plegcap")[..16];
    let folder = TempDir::new();
    let (file, out) = (folder.path().join("made.plegcap"), folder.path().join("out.plegcap"));
    // A list of 8 MiB with differences; documents; truncated sessions; empty answers.
    let differences: Vec<u8> =
        (1..60).flat_map(|own| [1, own, 0, 0, if own == 1 { 4 } else { 5 }, own, 23, own]).collect();
    let documents: Vec<u8> = (0..40).flat_map(|own| [6, 1, 18, own]).collect();
    let sessions: Vec<u8> = (0..200).flat_map(|own| [0, own, 0, 1, 1, own, 0, 0]).collect();
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=2)), "{}: {said}", output.status);
        assert!(!said.contains("fault:"), "{said}");
    });
}
