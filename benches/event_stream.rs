//! Measures how fast plegctl reads the event stream while the reader of its output is slow.
//!
//! A scripted runtime sends a burst of events and records when the last one was read. `cargo bench --bench
//! event_stream` prints the events per second. It fails if an event was neither processed nor counted as dropped.

#[path = "../tests/support/mod.rs"]
#[expect(clippy::missing_panics_doc, reason = "a measurement that cannot be made fails by panicking")]
pub mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plegctl_engine::cri::Rpc;
use serde_json::Value;

use support::events::{Attempt, End};
use support::plegctl::Invocation;
use support::wire::{ContainerEventResponse, PodSandboxMetadata, PodSandboxStatus};
use support::{CallState, FakeRuntime, Node};

const EVENTS: usize = 500_000;
const ROUNDS: usize = 5;

/// How long the reader pauses after each line of plegctl's output.
const READER_PAUSE: Duration = Duration::from_millis(1);

/// Creates an event of a container.
fn event(number: usize) -> ContainerEventResponse {
    let metadata = PodSandboxMetadata {
        name: "web-0".to_owned(),
        uid: "uid-1".to_owned(),
        namespace: "default".to_owned(),
        attempt: 0,
    };
    ContainerEventResponse {
        container_id: format!("{number:064x}"),
        container_event_type: 1,
        created_at: 1_700_000_000_000_000_000,
        pod_sandbox_status: Some(PodSandboxStatus {
            id: "s1".to_owned(),
            metadata: Some(metadata),
            ..PodSandboxStatus::default()
        }),
        containers_statuses: Vec::new(),
    }
}

/// Returns one burst: the events per second, and how many of them were dropped.
fn burst() -> (f64, u64) {
    let fake = FakeRuntime::start(Node::new());
    let log = fake.folder().join("watch.jsonl");
    fake.streams([
        // When this stream ends, the runtime has sent every event.
        Attempt::ending(End::Eof).events((0..EVENTS).map(event)),
        Attempt::open(),
    ]);
    let (endpoint, path) = (fake.endpoint(), log.display().to_string());
    let arguments = ["watch", "--mode", "evented", "-o", "jsonl", "-r", &endpoint, "--log", &path];
    let mut running = Invocation::new(&arguments).time_limit(Duration::from_secs(300)).spawn();
    let started = Instant::now();
    fake.wait_for(Rpc::GetContainerEvents, 1);
    let drained = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            fake.wait_until(|calls| {
                let mut streams = calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents);
                streams.next().is_some_and(|call| call.state == CallState::Answered)
            });
            started.elapsed()
        });
        while !waiting.is_finished() {
            running.line();
            thread::sleep(READER_PAUSE);
        }
        waiting.join().unwrap()
    });
    // The socket may still contain some events, which plegctl reads before it ends.
    thread::sleep(Duration::from_secs(1));
    running.signal("INT");
    running.wait();
    let text = fs::read_to_string(log).unwrap();
    let mut records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary = records.rfind(|record| record["kind"] == "WatchSummary").unwrap();
    let of = |key: &str| summary["stream"][key].as_u64().unwrap();
    assert_eq!(
        of("events") + of("dropped"),
        u64::try_from(EVENTS).unwrap(),
        "an event is neither processed nor counted as dropped"
    );
    (f64::from(u32::try_from(EVENTS).unwrap()) / drained.as_secs_f64(), of("dropped"))
}

fn main() {
    println!("{EVENTS} events at once, one line of output read every {READER_PAUSE:?}");
    for _ in 0..ROUNDS {
        let (rate, dropped) = burst();
        println!("{rate:>10.0} events/s drained, {dropped} of {EVENTS} dropped and counted");
    }
}
