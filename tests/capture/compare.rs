//! Checks that `watch --mode compare` prints the same for a capture as it printed live.
//!
//! Two programs never see a runtime at exactly the same moment, so the test plays a script twice: once for a watch and
//! once for a recorder. The first list of each relist waits until the program has read the stream's scripted events, so
//! the order is the same in both runs on any machine. The test does not compare durations and the values that depend on
//! them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;
use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, replayed};
use crate::support::events::Event;
use crate::support::plegctl::{Invocation, Running, plegctl};
use crate::support::wire::{self, ContainerEventResponse};
use crate::support::{FakeRuntime, Gate, Node, Reply, RuntimeKind};

/// The number of relists: enough that a change without an event counts as lost after the grace period of five seconds.
const RELISTS: usize = 14;

/// The time limit for the test.
const TIME_LIMIT: Duration = Duration::from_secs(300);

// The values of ContainerEventType in the CRI.
const CREATED: i32 = 0;
const STARTED: i32 = 1;
const STOPPED: i32 = 2;
const DELETED: i32 = 3;

/// Creates an event of the stream, with or without the status of its pod.
fn event(kind: i32, id: &str, with_pod: bool) -> Event {
    let sandbox = with_pod.then(|| wire::PodSandboxStatus {
        id: "s1".to_owned(),
        metadata: Some(wire::PodSandboxMetadata {
            name: "web-0".to_owned(),
            namespace: "default".to_owned(),
            uid: "uid-1".to_owned(),
            attempt: 0,
        }),
        ..wire::PodSandboxStatus::default()
    });
    let message = ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: kind,
        created_at: 1,
        pod_sandbox_status: sandbox,
        containers_statuses: Vec::new(),
    };
    Event::aged(message, 0)
}

/// Returns the node as one relist sees it.
fn node(relist: usize) -> Node {
    let mut node = Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app");
    if relist >= 3 {
        node = node.container("c2", "both-then-lost");
    }
    if relist >= 6 {
        // The stream sends no event for the end of c2.
        node = node.exited(1);
    }
    if (4..7).contains(&relist) {
        node = node.container("c3", "late-then-withheld");
    }
    if relist >= 7 {
        node = node.container("c4", "both");
    }
    node
}

/// Returns the events that the stream sends while a relist waits for its first list. The watch prints the last event
/// of each relist.
fn scripted_events(relist: usize) -> Vec<Event> {
    match relist {
        // Both sides see c2. c9 is removed before a relist can see it.
        3 => vec![
            event(STARTED, "c2", true),
            event(CREATED, "c9", true),
            event(STARTED, "c9", true),
            event(STOPPED, "c9", true),
            event(DELETED, "c9", true),
        ],
        // The relist before saw c3 first.
        5 => vec![event(STARTED, "c3", true)],
        // The kubelet ignores an event without a pod.
        7 => vec![event(DELETED, "c3", false), event(STARTED, "c4", true)],
        _ => Vec::new(),
    }
}

/// A runtime that plays the script.
struct Scripted {
    fake: FakeRuntime,
    gates: Vec<Gate>,
}

impl Scripted {
    fn start() -> Self {
        let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (1..=RELISTS).map(node));
        let gates: Vec<Gate> = (0..RELISTS).map(|_| Gate::new()).collect();
        fake.on(Rpc::ListPodSandbox).replies(gates.iter().map(Reply::held));
        Self { fake, gates }
    }

    /// Plays the script. `wait_for_events(count)` waits until the program has read this number of events in all.
    fn play(&self, mut wait_for_events: impl FnMut(usize)) {
        let mut read = 0;
        for (relist, gate) in (1..).zip(&self.gates) {
            self.fake.wait_for(Rpc::ListPodSandbox, relist);
            if relist == 2 {
                self.fake.wait_for(Rpc::GetContainerEvents, 1);
            }
            let events = scripted_events(relist);
            if !events.is_empty() {
                read += events.len();
                for event in events {
                    self.fake.push_event(event);
                }
                wait_for_events(read);
            }
            gate.open();
        }
    }
}

fn records(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Value> {
    lines.into_iter().map(|line| serde_json::from_str(line.as_ref()).unwrap()).collect()
}

/// Plays the script for a watch and returns the watch's records.
fn live() -> Vec<Value> {
    let scripted = Scripted::start();
    let (count, endpoint) = (RELISTS.to_string(), scripted.fake.endpoint());
    let arguments =
        ["watch", "--mode", "compare", "-o", "jsonl", "--period", "1s", "--count", &count, "-r", &endpoint];
    let mut running = Invocation::new(&arguments).time_limit(TIME_LIMIT).spawn();
    let mut seen = Vec::new();
    // The last event that the watch prints in each relist of `scripted_events`.
    let mut last = ["ContainerRemoved c9", "ContainerStarted c3", "ContainerStarted c4"].into_iter();
    let streamed = |record: &Value| {
        let event = format!("{} {}", text(&record["type"]), text(&record["id"]));
        (record["source"] == "evented").then_some(event)
    };
    scripted.play(|_| {
        let wanted = last.next().unwrap();
        loop {
            let line = running.line().unwrap();
            let record: Value = serde_json::from_str(&line).unwrap();
            let found = streamed(&record).is_some_and(|event| event == wanted);
            seen.push(record);
            if found {
                return;
            }
        }
    });
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    seen.extend(records(output.stdout.lines()));
    seen
}

/// Plays the script for a recorder.
fn recorded(directory: &Path) {
    let scripted = Scripted::start();
    let (count, endpoint) = (RELISTS.to_string(), scripted.fake.endpoint());
    let arguments =
        ["record", "-r", &endpoint, argument(directory), "--no-host", "--no-diagnose", "--period", "1s"];
    let arguments = [arguments.as_slice(), &["--count", &count]].concat();
    let mut running: Running = Invocation::new(&arguments).time_limit(TIME_LIMIT).spawn();
    assert!(running.line().is_some_and(|line| line.starts_with("recording")));
    let since = Instant::now();
    scripted.play(|events| {
        while Capture::open(directory).unwrap().stream_events.len() < events {
            assert!(since.elapsed() < TIME_LIMIT, "{events} events were not read");
            thread::yield_now();
        }
    });
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the part of the records that does not depend on time: the events of each side in order, the divergences
/// with their explanations in order, and the counts.
fn comparable(records: &[Value]) -> (Vec<String>, Vec<String>, Value) {
    let of = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let events = of("Event").map(|event| {
        let fields = ["source", "relist", "type", "id", "delivered", "initial", "pod"];
        fields.map(|field| event[field].to_string()).join(" ")
    });
    let divergences = of("Divergence").map(|divergence| {
        let earlier = divergence["latencySeconds"].as_f64().map(|seconds| seconds < 0.0);
        let fields = ["type", "id", "pod", "only", "why"];
        format!("{} {earlier:?}", fields.map(|field| divergence[field].to_string()).join(" "))
    });
    let mut compared = of("WatchSummary").next().unwrap()["compare"].clone();
    // These fields depend on durations, because an evented kubelet relists by the clock.
    for by_time in ["gainedSeconds", "streamSeconds", "relistSeconds", "sparedCalls", "eventedBytes"] {
        compared.as_object_mut().unwrap().remove(by_time);
    }
    (events.collect(), divergences.collect(), compared)
}

#[test]
fn compare_mode_prints_the_same_live_and_replayed() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let live = thread::scope(|scope| {
        let live = scope.spawn(live);
        recorded(&directory);
        live.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
    });
    let endpoint = replayed(&directory, "+0s");
    let output = plegctl(&["watch", "--mode", "compare", "-o", "jsonl", "-r", &endpoint]);
    assert_eq!(output.code, Some(0), "{output}");
    let (live, replayed) = (comparable(&live), comparable(&records(output.stdout.lines())));
    // Makes sure that the live run found every case of the script.
    let (_, divergences, compared) = &live;
    let why = |words: &str| divergences.iter().filter(|divergence| divergence.contains(words)).count();
    let seen = [why("over before a relist"), why("its event had no pod status"), why("Some(true)")];
    assert_eq!(seen, [3, 2, 1], "{divergences:#?}");
    let counts = ["both", "missedByRelisting", "missedByStream", "withheld", "genericFirst", "undecided"];
    let counts = counts.map(|count| compared[count].as_u64().unwrap());
    assert_eq!(counts, [3, 3, 1, 2, 1, 0], "{compared:#}");
    assert_eq!(replayed, live);
}
