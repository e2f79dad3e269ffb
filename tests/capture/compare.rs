//! `watch --mode compare` prints the same for a capture as it did live. Two programs cannot see a runtime at the same
//! moment, so the test plays a script twice: once for a watch and once for a recorder. The first list of each relist
//! waits until the stream's scripted events have been read, so that the order is the same in both runs on any machine.
//! The test does not compare durations and what depends on them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plegctl::capture::Capture;
use plegctl::cri::Rpc;
use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, replayed};
use crate::support::events::Event;
use crate::support::plegctl::{Invocation, Running, plegctl};
use crate::support::wire::{self, ContainerEventResponse};
use crate::support::{FakeRuntime, Gate, Node, Reply, RuntimeKind};

/// The number of relists: enough that a change without an event counts as lost after the grace period of five seconds.
const RELISTS: usize = 14;

/// The time limit for the test.
const PATIENCE: Duration = Duration::from_secs(120);

const CREATED: i32 = 0;
const STARTED: i32 = 1;
const STOPPED: i32 = 2;
const DELETED: i32 = 3;

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

/// The node as one relist sees it.
fn node(relist: usize) -> Node {
    let mut node = Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app");
    if relist >= 3 {
        node = node.container("c2", "both-then-lost");
    }
    if relist >= 6 {
        // The stream never reports its end.
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

/// The events that the stream sends while a relist waits for its first list. A watch prints the last one of each group.
fn scripted_events(relist: usize) -> Vec<Event> {
    match relist {
        // One container that both see, and one that has ended before a relist can see it.
        3 => vec![
            event(STARTED, "c2", true),
            event(CREATED, "c9", true),
            event(STARTED, "c9", true),
            event(STOPPED, "c9", true),
            event(DELETED, "c9", true),
        ],
        // A relist reported this change earlier.
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

    /// Plays the script; `has_read` waits until this number of events was read, the last one of this container.
    fn play(&self, mut has_read: impl FnMut(usize)) {
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
                has_read(read);
            }
            gate.open();
        }
    }
}

fn records(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Value> {
    lines.into_iter().map(|line| serde_json::from_str(line.as_ref()).unwrap()).collect()
}

/// Watches the script live.
fn live() -> Vec<Value> {
    let scripted = Scripted::start();
    let (count, endpoint) = (RELISTS.to_string(), scripted.fake.endpoint());
    let how =
        ["watch", "--mode", "compare", "-o", "jsonl", "--period", "1s", "--count", &count, "-r", &endpoint];
    let mut running = Invocation::new(&how).bound(PATIENCE).spawn();
    let mut seen = Vec::new();
    // The last printed event of each group: the others came before it.
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

/// Records the script.
fn recorded(directory: &Path) {
    let scripted = Scripted::start();
    let (count, endpoint) = (RELISTS.to_string(), scripted.fake.endpoint());
    let how =
        ["record", "-r", &endpoint, argument(directory), "--no-host", "--no-diagnose", "--period", "1s"];
    let how = [how.as_slice(), &["--count", &count]].concat();
    let mut running: Running = Invocation::new(&how).bound(PATIENCE).spawn();
    assert!(running.line().is_some_and(|line| line.starts_with("recording")));
    let since = Instant::now();
    scripted.play(|events| {
        while Capture::open(directory).unwrap().stream_events.len() < events {
            assert!(since.elapsed() < PATIENCE, "{events} events were not read");
            thread::yield_now();
        }
    });
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The part of the records that does not depend on time: the events of each side in order, the divergences with their
/// explanations in order, and the counts.
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
    let then = replayed(&directory, "+0s");
    let output = plegctl(&["watch", "--mode", "compare", "-o", "jsonl", "-r", &then]);
    assert_eq!(output.code, Some(0), "{output}");
    let (live, then) = (comparable(&live), comparable(&records(output.stdout.lines())));
    // The live run has everything that the script contains.
    let (_, divergences, compared) = &live;
    let why = |words: &str| divergences.iter().filter(|divergence| divergence.contains(words)).count();
    let seen = [why("over before a relist"), why("its event had no pod status"), why("Some(true)")];
    assert_eq!(seen, [3, 2, 1], "{divergences:#?}");
    let counts = ["both", "missedByRelisting", "missedByStream", "withheld", "genericFirst", "undecided"];
    let counts = counts.map(|count| compared[count].as_u64().unwrap());
    assert_eq!(counts, [3, 3, 1, 2, 1, 0], "{compared:#}");
    assert_eq!(then, live);
}
