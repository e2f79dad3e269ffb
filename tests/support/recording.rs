//! Reads histories that were recorded from real kubelets (`tests/recordings/`), and makes the fake runtime play them.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use plegctl_engine::cri::{Code, Rpc};
use serde_json::{Map, Value};

use super::answer::RuntimeKind;
use super::events::{Attempt, Event};
use super::fake::{FakeRuntime, Step};
use super::node::{ContainerInSandbox, Node};
use super::reply::Reply;
use super::wire::{self, pair};

/// The fake runtime sends the events at this interval. The kubelet got its events at the same interval when it was
/// recorded.
const BETWEEN_EVENTS: Duration = Duration::from_millis(5);

/// Returns the histories of a file, by its name without `.jsonl.gz`.
pub fn histories(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let file = File::open(folder.join(format!("{name}.jsonl.gz"))).unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl FakeRuntime {
    /// Plays a recorded history: its steps, its faults and its event stream, if it has one.
    pub fn replay(history: &Value) -> Self {
        let steps = list(&history["steps"]).iter().map(step);
        let fake = Self::start_steps(RuntimeKind::Containerd21, steps);
        if let Some(stream) = history["stream"].as_object() {
            fake.streams(attempts(stream));
        }
        fake
    }
}

/// Reads one step: the node, and what the event stream sends.
fn step(recorded: &Value) -> Step {
    let mut node = Node::new();
    for recorded in list(&recorded["sandboxes"]) {
        node = node.add_sandbox(sandbox(recorded));
    }
    for recorded in list(&recorded["containers"]) {
        let sandbox_id = text(&recorded["sandbox"]);
        node = node.add_container(ContainerInSandbox { sandbox_id, status: container(recorded) });
    }
    let mut step = Step::from(node);
    for (key, fault) in recorded["faults"].as_object().into_iter().flatten() {
        step = faulty(step, key, fault);
    }
    step
}

/// Adds a recorded fault to a step. The key is an RPC or an id; `nil:ID` means an answer without a status.
fn faulty(step: Step, key: &str, fault: &Value) -> Step {
    let (key, reply) = match key.strip_prefix("nil:") {
        Some(id) => (id, Reply::empty()),
        None => (key, Reply::fail(code(&fault["code"]), "recorded fault")),
    };
    match key {
        "ListPodSandbox" => step.on(Rpc::ListPodSandbox, None, reply),
        "ListContainers" => step.on(Rpc::ListContainers, None, reply),
        id => {
            step.on(Rpc::PodSandboxStatus, Some(id), reply.clone()).on(Rpc::ContainerStatus, Some(id), reply)
        }
    }
}

/// Reads the recorded attempts to open the event stream.
fn attempts(stream: &Map<String, Value>) -> Vec<Attempt> {
    let failure = match text(&stream["kind"]).as_str() {
        "eof" => Attempt::eof(),
        _ => Attempt::fail(code(&stream["kind"]), "recorded failure"),
    };
    let fails = number(&stream["fails"]);
    let delay_of_first_event = Duration::from_secs_f64(stream["first_after"].as_f64().unwrap());
    let events = list(&stream["messages"]).iter().map(event);
    let mut attempts = vec![failure; fails];
    attempts.push(Attempt::open().events(events).paced(delay_of_first_event, BETWEEN_EVENTS));
    attempts
}

/// Reads an event of the stream.
fn event(recorded: &Value) -> Event {
    let message = wire::ContainerEventResponse {
        container_id: text(&recorded["id"]),
        container_event_type: number(&recorded["type"]),
        created_at: 0,
        pod_sandbox_status: recorded["sandbox"].is_object().then(|| sandbox(&recorded["sandbox"])),
        containers_statuses: list(&recorded["containers"]).iter().map(container).collect(),
    };
    Event::aged(message, number(&recorded["age"]))
}

/// Reads the status of a sandbox.
fn sandbox(recorded: &Value) -> wire::PodSandboxStatus {
    let metadata = wire::PodSandboxMetadata {
        name: text(&recorded["name"]),
        uid: text(&recorded["uid"]),
        namespace: text(&recorded["namespace"]),
        attempt: number(&recorded["attempt"]),
    };
    let state = match text(&recorded["state"]).as_str() {
        "READY" => wire::PodSandboxState::SandboxReady,
        "NOTREADY" => wire::PodSandboxState::SandboxNotready,
        other => panic!("no sandbox state: {other}"),
    };
    wire::PodSandboxStatus {
        id: text(&recorded["id"]),
        metadata: has_metadata(recorded).then_some(metadata),
        state: state.into(),
        created_at: number(&recorded["created_at"]),
        network: Some(wire::PodSandboxNetworkStatus {
            ip: text(&recorded["ip"]),
            additional_ips: Vec::new(),
        }),
        linux: None,
        labels: labels(recorded),
        annotations: Vec::new(),
    }
}

/// Reads the status of a container.
fn container(recorded: &Value) -> wire::ContainerStatus {
    let metadata =
        wire::ContainerMetadata { name: text(&recorded["name"]), attempt: number(&recorded["attempt"]) };
    let state = match text(&recorded["state"]).as_str() {
        "CREATED" => wire::ContainerState::ContainerCreated,
        "RUNNING" => wire::ContainerState::ContainerRunning,
        "EXITED" => wire::ContainerState::ContainerExited,
        "UNKNOWN" => wire::ContainerState::ContainerUnknown,
        other => panic!("no container state: {other}"),
    };
    wire::ContainerStatus {
        id: text(&recorded["id"]),
        metadata: has_metadata(recorded).then_some(metadata),
        state: state.into(),
        created_at: number(&recorded["created_at"]),
        exit_code: number(&recorded["exit_code"]),
        image: Some(wire::ImageSpec { image: "img:1".to_owned(), user_specified_image: String::new() }),
        image_ref: "sha256:0".to_owned(),
        labels: labels(recorded),
        ..wire::ContainerStatus::default()
    }
}

/// Reads the labels of an object.
fn labels(recorded: &Value) -> Vec<wire::Pair> {
    let labels = recorded["labels"].as_object();
    labels.into_iter().flatten().map(|(key, value)| pair(key, &text(value))).collect()
}

/// Whether the recorded object has metadata.
fn has_metadata(recorded: &Value) -> bool {
    !recorded["no_metadata"].as_bool().unwrap_or_default()
}

/// Returns the items of a list; none if the value is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text; an empty text if the value is no text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a number; 0 if the value is no number.
fn number<T: TryFrom<i64, Error: std::fmt::Debug>>(value: &Value) -> T {
    value.as_i64().unwrap_or_default().try_into().unwrap()
}

/// Returns the gRPC code with this name in the gRPC documentation.
fn code(name: &Value) -> Code {
    match name.as_str() {
        Some("UNKNOWN") => Code::Unknown,
        Some("INTERNAL") => Code::Internal,
        Some("NOT_FOUND") => Code::NotFound,
        Some("UNAVAILABLE") => Code::Unavailable,
        Some("UNIMPLEMENTED") => Code::Unimplemented,
        _ => panic!("add this gRPC code of a recording here: {name}"),
    }
}
