//! Memory follows the bytes that came in, whatever they are made of.
//!
//! `PLEGCTL_MEMORY_OF=PROGRAM cargo test --test cli memory -- --nocapture` prints the table for another program and holds
//! it to nothing.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use plegctl::cri::Rpc;
use prost::Message;
use prost::bytes::Bytes;

use crate::support::impostor::{Answer, Impostor};
use crate::support::wire::{self, pair};

const MIB: usize = 1024 * 1024;

/// The kubelet's own limit for an answer, and half of it.
const ANSWERS: [usize; 2] = [16 * MIB, 8 * MIB];

/// What a run takes that has nothing to do with the answer. The program itself, which is mapped and not taken, does not
/// count.
const BASE: usize = 24 * MIB;

/// What nothing may take, whatever an answer within the kubelet's limit is made of.
const MOST: usize = 400 * MIB;

/// An answer of that many bytes, or nearly, made of what `entry` gives for each number.
fn list(bytes: usize, entry: impl Fn(usize) -> wire::Container) -> Bytes {
    let mut answer = Vec::with_capacity(bytes);
    for number in 0.. {
        let containers = vec![entry(number)];
        let one = wire::ListContainersResponse { containers }.encode_to_vec();
        if answer.len() + one.len() > bytes {
            break;
        }
        answer.extend(one);
    }
    answer.into()
}

/// What a node's containers look like, and how attackers' might.
fn shapes(answer: usize) -> Vec<(&'static str, Bytes)> {
    let plain = |number: usize| wire::Container {
        id: format!("{number:064x}"),
        pod_sandbox_id: format!("{:064x}", number / 2),
        metadata: Some(wire::ContainerMetadata { name: "app".into(), attempt: 0 }),
        image: Some(wire::ImageSpec { image: format!("sha256:{number:064x}"), ..Default::default() }),
        image_ref: format!("sha256:{number:064x}"),
        state: 1,
        created_at: 1_790_000_000_000_000_000,
        labels: vec![
            pair("io.kubernetes.container.name", "app"),
            pair("io.kubernetes.pod.name", &format!("web-{number}")),
            pair("io.kubernetes.pod.namespace", "default"),
            pair("io.kubernetes.pod.uid", &format!("00000000-0000-4000-8000-{number:012x}")),
        ],
        annotations: Vec::new(),
    };
    let id = |length: usize| {
        move |number: usize| wire::Container { id: format!("{number:0length$x}"), ..Default::default() }
    };
    let of_one = |container: wire::Container| {
        list(answer + MIB, move |number| {
            if number == 0 {
                container.clone()
            } else {
                wire::Container { id: "x".repeat(2 * MIB), ..Default::default() }
            }
        })
    };
    let labels = vec![pair("ab", "cd"); answer / 12];
    vec![
        ("empty entries", Bytes::from([0x0a, 0].repeat(answer / 2))),
        ("entries of 40 bytes", list(answer, id(38))),
        ("entries of 340 bytes", list(answer, id(337))),
        ("a node's", list(answer, plain)),
        ("one entry of labels", of_one(wire::Container { id: "c".into(), labels, ..Default::default() })),
        ("one long id", of_one(wire::Container { id: "x".repeat(answer - 64), ..Default::default() })),
        (
            "one id of controls",
            of_one(wire::Container { id: "\u{1}".repeat(answer - 64), ..Default::default() }),
        ),
    ]
}

/// Runs it and says how it ended and the most memory it had of its own, as often as that was looked at.
fn peak(program: &str, arguments: &[&str]) -> (Option<i32>, usize) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let drained = thread::spawn(move || std::io::copy(&mut stdout.by_ref(), &mut std::io::sink()));
    let path = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let status = loop {
        let seen = fs::read_to_string(&path).ok().and_then(|status| {
            let field = |name: &str| -> Option<usize> {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.trim().trim_end_matches(" kB").parse().ok()
            };
            // The highest that all of it was, but for the pages of the program's file.
            Some(field("VmHWM:")?.saturating_sub(field("RssFile:")?))
        });
        most = most.max(seen.unwrap_or_default() * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // The only way to look at another process again and again.
        thread::sleep(Duration::from_millis(2));
    };
    drained.join().unwrap().unwrap();
    (status.code(), most)
}

#[test]
fn issue_12_memory_follows_the_bytes_of_the_answer() {
    let other = std::env::var("PLEGCTL_MEMORY_OF").ok();
    let program = other.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_plegctl").to_owned());
    println!("{:24} {:>7} {:>12} {:>12} {:>8}", "of", "bytes", "command", "peak", "times");
    for answer in ANSWERS {
        for (name, answer) in shapes(answer) {
            row(&program, name, answer, other.is_none());
        }
    }
}

/// One answer, and what each command makes of it.
fn row(program: &str, name: &str, answer: Bytes, is_ours: bool) {
    let bytes = answer.len();
    let impostor =
        Impostor::start(move |rpc| (rpc == Rpc::ListContainers).then(|| Answer::of([answer.clone()])));
    let endpoint = impostor.endpoint();
    for (command, arguments) in [
        ("relist", &["relist", "-o", "json", "-r", &endpoint][..]),
        ("health", &["health", "--proc", "/nowhere", "--budget", "5s", "-o", "json", "-r", &endpoint]),
    ] {
        let (code, most) = peak(program, arguments);
        let (whole, tenth) = (most / bytes, most * 10 / bytes % 10);
        let (shown, size) = (most / MIB, bytes / MIB);
        println!("{name:24} {size:>3} MiB {command:>12} {shown:>8} MiB {whole:>6}.{tenth}  exit {code:?}");
        if is_ours {
            assert!(code.is_some(), "{name}, {command}: ended by a signal");
            let most_of_it = most < 8 * bytes + BASE && most < MOST;
            assert!(most_of_it, "{name}, {command}: {shown} MiB for {size} MiB");
        }
    }
}
