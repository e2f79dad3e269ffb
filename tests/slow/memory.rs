//! Tests that plegctl's memory is proportional to the received bytes, whatever they contain.
//!
//! `PLEGCTL_MEMORY_OF=PROGRAM cargo test --test product slow::memory -- --nocapture` prints the tables for another program
//! without checking limits; `PLEGCTL_MEMORY_BUDGET` is the budget of `health`, `PLEGCTL_FLOOD` the number of
//! short-lived pods.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plegctl_engine::cri::Rpc;
use prost::Message;
use prost::bytes::Bytes;
use serde_json::Value;

use super::exports::{assert_has_lists, record_forty, with_other_labels};
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::command;
use crate::support::raw_server::{RawAnswer, RawServer};
use crate::support::wire::{self, pair};
use crate::support::{FakeRuntime, RuntimeKind};

const MIB: usize = 1024 * 1024;

/// The kubelet's limit for an answer, and half of it.
const ANSWERS: [usize; 2] = [16 * MIB, 8 * MIB];

/// The memory limit for any answer within the kubelet's limit.
const MEMORY_LIMIT: usize = 400 * MIB;

/// The limit for memory divided by received bytes, as the documents promise it.
const LARGEST_RATIO: usize = 8;

/// The memory that the program of a test build takes in addition, because it is ten times as large as the released one.
/// How many status calls end within the budget, and so how much is kept, depends on the speed of the machine.
const TEST_BUILD: usize = 16 * MIB;

/// Returns an answer of about this number of bytes, with the entries that `entry` creates for 0, 1, 2 and so on.
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

/// Typical containers of a node, and containers that an attacker could create.
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

/// The resident part of the released program's file. [`peak_of`] uses it instead of the resident part of a test build,
/// which has 26 MiB and more.
const PROGRAM_MEMORY: usize = 7 * MIB;

/// Returns the peak memory of a process in bytes, corrected for the size of the released program.
pub fn peak_of(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? * 1024)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?) + PROGRAM_MEMORY)
}

/// Runs the command and returns its result and the largest sampled memory.
fn peak(program: &str, arguments: &[&str]) -> (Option<i32>, usize) {
    let mut child = command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let drained = thread::spawn(move || std::io::copy(&mut stdout.by_ref(), &mut std::io::sink()));
    let mut most = 0;
    let status = loop {
        most = most.max(peak_of(child.id()).unwrap_or_default());
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // Polling is the only way to observe another process.
        thread::sleep(Duration::from_millis(2));
    };
    drained.join().unwrap().unwrap();
    (status.code(), most)
}

#[test]
fn memory_is_proportional_to_the_bytes_of_the_answer() {
    let other = std::env::var("PLEGCTL_MEMORY_OF").ok();
    let program = other.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_plegctl").to_owned());
    println!("{:24} {:>7} {:>12} {:>12} {:>8}", "of", "bytes", "command", "peak", "times");
    for answer in ANSWERS {
        for (name, answer) in shapes(answer) {
            row(&program, name, answer, other.is_none());
        }
    }
}

#[test]
fn endless_streamed_list_has_bounded_memory() {
    let other = std::env::var("PLEGCTL_MEMORY_OF").ok();
    let program = other.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_plegctl").to_owned());
    for (name, answer) in shapes(MIB) {
        let server = RawServer::answering(Rpc::StreamContainers, RawAnswer::of([answer]).endless());
        let words = ["relist", "--list-calls", "stream", "-o", "json", "-r", &server.endpoint()];
        let (code, most) = peak(&program, &words);
        println!("{name:24} without an end: {:>8} MiB, exit {code:?}", most / MIB);
        if other.is_none() {
            assert_eq!(code, Some(2), "{name}");
            assert!(most < MEMORY_LIMIT, "{name}: {} MiB", most / MIB);
        }
    }
}

/// The memory limit of `capture export`, whatever the capture contains.
const EXPORT_LIMIT: usize = 32 * MIB;

#[test]
fn export_of_a_capture_with_many_names_has_bounded_memory() {
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (0..40).map(with_other_labels));
    let place = CaptureDir::make();
    let (directory, file) = (place.path("capture"), place.path("file"));
    record_forty(&fake.endpoint(), &directory);
    for more in [&["--anonymise"][..], &["--anonymise", "--from", "+0s"], &[]] {
        let words = [&["capture", "export", argument(&directory), argument(&file)], more].concat();
        let (code, most) = peak(env!("CARGO_BIN_EXE_plegctl"), &words);
        println!("{more:?}: {} MiB", most / MIB);
        assert_eq!(code, Some(0), "{more:?}");
        assert!(most < EXPORT_LIMIT, "{more:?}: {} MiB", most / MIB);
        assert_has_lists(&file, 40);
    }
}

/// Measures the memory of each command for one answer, and prints it.
fn row(program: &str, name: &str, answer: Bytes, is_ours: bool) {
    let bytes = answer.len();
    let server =
        RawServer::start(move |rpc| (rpc == Rpc::ListContainers).then(|| RawAnswer::of([answer.clone()])));
    let endpoint = server.endpoint();
    let budget = std::env::var("PLEGCTL_MEMORY_BUDGET").unwrap_or_else(|_| "5s".to_owned());
    for (command, arguments) in [
        ("relist", &["relist", "-o", "json", "-r", &endpoint][..]),
        ("health", &["health", "--proc", "/nowhere", "--budget", &budget, "-o", "json", "-r", &endpoint]),
    ] {
        let (code, most) = peak(program, arguments);
        let (whole, tenth) = (most / bytes, most * 10 / bytes % 10);
        let (shown, size) = (most / MIB, bytes / MIB);
        println!("{name:24} {size:>3} MiB {command:>12} {shown:>8} MiB {whole:>6}.{tenth}  exit {code:?}");
        if is_ours {
            assert!(code.is_some(), "{name}, {command}: ended by a signal");
            assert!(
                most < LARGEST_RATIO * bytes + TEST_BUILD && most < MEMORY_LIMIT,
                "{name}, {command}: {shown} MiB for {size} MiB"
            );
        }
    }
}

/// More short-lived pods than a watch can process: more than an evented watch stores (20 000 pods), and more than a
/// comparison stores (50 000 containers and sandboxes).
const FLOOD: usize = 30_000;

/// The memory limit of a watch during the flood: the stored pods, the event queue, and the program.
const FLOOD_MEMORY_LIMIT: usize = 128 * MIB;

/// Returns the event with this number. Each pod has six events: its sandbox and its container are created, start and
/// end. Every second pod has no event for the end of its sandbox, as on CRI-O.
fn flood_event(number: usize) -> Bytes {
    let (pod, stage) = (number / 6, number % 6);
    let (sandbox, container) = (format!("{pod:064x}"), format!("{:064x}", pod | 1 << 60));
    let metadata = wire::PodSandboxMetadata {
        name: format!("flood-{pod}"),
        uid: format!("00000000-0000-4000-8000-{pod:012x}"),
        namespace: "default".to_owned(),
        attempt: 0,
    };
    let kinds = [(0, &sandbox), (1, &sandbox), (0, &container), (1, &container), (2, &container)];
    let last = if pod.is_multiple_of(2) { (3, &sandbox) } else { (3, &container) };
    let (kind, id) = *kinds.get(stage).unwrap_or(&last);
    let status = wire::ContainerStatus {
        id: container.clone(),
        metadata: Some(wire::ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
        image: Some(wire::ImageSpec::default()),
        ..wire::ContainerStatus::default()
    };
    let sandbox =
        Some(wire::PodSandboxStatus { id: sandbox.clone(), metadata: Some(metadata), ..Default::default() });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let event = wire::ContainerEventResponse {
        container_id: id.clone(),
        container_event_type: kind,
        created_at: i64::try_from(now.as_nanos()).unwrap(),
        pod_sandbox_status: sandbox,
        containers_statuses: if stage < 2 { Vec::new() } else { vec![status] },
    };
    event.encode_to_vec().into()
}

#[test]
fn many_short_lived_pods_have_bounded_memory() {
    let other = std::env::var("PLEGCTL_MEMORY_OF").ok();
    let program = other.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_plegctl").to_owned());
    let flood = std::env::var("PLEGCTL_FLOOD").map_or(FLOOD, |flood| flood.parse().unwrap());
    for mode in ["evented", "compare"] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let server = RawServer::answering(
            Rpc::GetContainerEvents,
            RawAnswer::generated(move |number| {
                let event = (number < 6 * flood).then(|| flood_event(number));
                counted.fetch_add(usize::from(event.is_some()), Ordering::SeqCst);
                event
            }),
        );
        let endpoint = server.endpoint();
        let began = Instant::now();
        let mut watch = command(&program)
            .args(["watch", "--mode", mode, "-o", "jsonl", "-r", &endpoint])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(watch.stdout.take().unwrap());
        let drained = thread::spawn(move || stdout.lines().map(Result::unwrap).last());
        let mut most = 0;
        // Polling is the only way to observe another process.
        while sent.load(Ordering::SeqCst) < 6 * flood && watch.try_wait().unwrap().is_none() {
            most = most.max(peak_of(watch.id()).unwrap_or_default());
            thread::sleep(Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_raw(watch.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        while watch.try_wait().unwrap().is_none() {
            most = most.max(peak_of(watch.id()).unwrap_or_default());
            thread::sleep(Duration::from_millis(2));
        }
        let summary: Value = serde_json::from_str(&drained.join().unwrap().unwrap()).unwrap();
        let stream = &summary["stream"];
        println!(
            "{mode}: {flood} pods in {:.0?}, peak {} MiB; {} events worked on, {} dropped, crowded {}, not compared {}",
            began.elapsed(),
            most / MIB,
            stream["events"],
            stream["dropped"],
            stream["crowded"],
            summary["compare"]["notCompared"],
        );
        if other.is_none() {
            assert!(most < FLOOD_MEMORY_LIMIT, "{mode}: {} MiB", most / MIB);
            assert_eq!(
                (&summary["kind"], stream["events"].as_u64() > Some(0)),
                (&"WatchSummary".into(), true),
                "{summary}"
            );
        }
    }
}
