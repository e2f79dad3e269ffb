//! Tests of the evented PLEG with single stream messages.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, ManualClock, Wall};
use plegctl::cri::{
    Code, ContainerEvent, ContainerEventType, ContainerState, Error, Network, ReceivedEvent, Rpc,
    SandboxState,
};
use plegctl::pleg::evented::NextStreamAction;
use plegctl::pleg::stream::{Event, EventSubject, StreamState};
use plegctl::pleg::{EventedPleg, GenericPleg, KubeletState, PlegSettings, PlegState, SharedState};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox, sandbox_status_of, status_of};

use ContainerEventType::{Created, Deleted, Started, Stopped};
use ContainerState::{Exited, Running};

const NOW: i64 = 1_800_000_000_000_000_000;

/// An open stream, and the events and notices that it caused.
struct Streamed {
    shared_state: Arc<SharedState>,
    clock: ManualClock,
    evented: EventedPleg,
    events: Vec<Event>,
}

/// A message about pod `a`, whose sandbox is `s`.
struct Message {
    kind: ContainerEventType,
    id: &'static str,
    sandbox: SandboxState,
    ip: &'static str,
    containers: Vec<(&'static str, ContainerState)>,
    created_at: i64,
}

impl Message {
    fn of(kind: ContainerEventType, id: &'static str, containers: &[(&'static str, ContainerState)]) -> Self {
        Self {
            kind,
            id,
            sandbox: SandboxState::Ready,
            ip: "",
            containers: containers.to_vec(),
            created_at: NOW,
        }
    }

    fn event(&self) -> ContainerEvent {
        let network = Network { ip: self.ip.to_owned(), additional_ips: Vec::new() };
        let containers = self.containers.iter();
        ContainerEvent {
            container_id: self.id.to_owned(),
            kind: self.kind,
            created_at: self.created_at,
            sandbox: Some(sandbox_status_of(&sandbox("s", "a", 0, self.sandbox), Some(network))),
            containers: containers.map(|(id, state)| status_of(&container(id, "a", *state), 7)).collect(),
        }
    }
}

impl Streamed {
    fn new() -> Self {
        Self::with(SharedState::new(true))
    }

    fn with(shared_state: SharedState) -> Self {
        let shared_state = Arc::new(shared_state);
        let clock = ManualClock::at(Wall::from_nanos(NOW));
        let mut evented = EventedPleg::start(Arc::clone(&shared_state));
        assert_eq!(evented.next(&clock), NextStreamAction::Connect(1));
        evented.on_stream_opened(&clock);
        Self { shared_state, clock, evented, events: Vec::new() }
    }

    fn receive(&mut self, event: ContainerEvent) -> Option<String> {
        let received = ReceivedEvent { event, at: self.clock.wall(), bytes: 1, memory: 1 };
        let notice = self.evented.on_event(&received, &self.clock, &mut self.events)?;
        assert_eq!(notice.state, StreamState::Panic);
        notice.error
    }

    /// Receives one message. Returns its events as `type id`.
    fn on(&mut self, message: &Message) -> Vec<String> {
        assert_eq!(self.receive(message.event()), None);
        let events = std::mem::take(&mut self.events).into_iter();
        events
            .filter(|event| event.delivered)
            .map(|event| format!("{} {}", event.event_type.as_str(), event.id.unwrap()))
            .collect()
    }

    fn ips(&self) -> Vec<String> {
        self.shared_state.lock().cache.get("a").status.unwrap().ips.clone()
    }

    fn cached_containers(&self) -> usize {
        self.shared_state.lock().cache.get("a").status.unwrap().containers.len()
    }
}

fn unimplemented() -> Error {
    Error::Unimplemented { rpc: Rpc::GetContainerEvents, message: "unknown method".into() }
}

#[test]
fn each_kind_of_message_has_its_lifecycle_events() {
    let mut stream = Streamed::new();
    let running = [("c", Running)];
    let exited = [("c", Exited)];
    assert_eq!(stream.on(&Message::of(Created, "c", &running)), Vec::<String>::new());
    assert_eq!(stream.cached_containers(), 1, "a creation is no event, but is cached");
    assert_eq!(stream.on(&Message::of(Started, "c", &running)), ["ContainerStarted c"]);
    assert_eq!(stream.on(&Message::of(Stopped, "c", &exited)), ["ContainerDied c"]);
    assert_eq!(stream.on(&Message::of(Deleted, "c", &[])), ["ContainerDied c", "ContainerRemoved c"]);
    let other = ContainerEventType::Other(9);
    assert_eq!(stream.on(&Message::of(other, "c", &[])), Vec::<String>::new());
    assert_eq!(stream.cached_containers(), 0, "an unknown message is cached too");
}

#[test]
fn an_event_has_its_container_pod_previous_state_and_latency() {
    let mut stream = Streamed::new();
    stream.on(&Message::of(Started, "c", &[("c", Running)]));
    stream.clock.advance(Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let event = stream.events.pop().unwrap();
    assert_eq!((event.pod.uid.as_str(), event.pod.name.as_str()), ("a", "name-a"));
    assert_eq!((event.subject, event.name.as_deref()), (EventSubject::Container, Some("name-c")));
    assert_eq!((event.from, event.to), (Some(PlegState::Running), Some(PlegState::Exited)));
    assert_eq!((event.exit_code, event.relist), (Some(7), None));
    assert_eq!(event.latency_seconds.unwrap().duration(), Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "s", &[]).event()), None);
    assert_eq!(stream.events.pop().unwrap().subject, EventSubject::Sandbox);
}

#[test]
fn no_event_has_the_same_state_before_and_after() {
    // A container that ends at once: the status in its start message already has its end.
    let mut stream = Streamed::new();
    stream.on(&Message::of(Started, "c", &[("c", Exited)]));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let died = stream.events.pop().unwrap();
    assert_eq!((died.from, died.to), (None, Some(PlegState::Exited)));
    // Every sequence of two messages.
    let kinds = [Created, Started, Stopped, Deleted, ContainerEventType::Other(9)];
    let messages =
        kinds.into_iter().flat_map(|kind| [None, Some(Running), Some(Exited)].map(|state| (kind, state)));
    let messages: Vec<_> = messages.collect();
    for first in &messages {
        for second in &messages {
            let mut stream = Streamed::new();
            for (kind, state) in [first, second, second] {
                let containers: Vec<_> = state.iter().map(|state| ("c", *state)).collect();
                stream.receive(Message::of(*kind, "c", &containers).event());
            }
            for event in stream.events {
                assert!(event.from.is_none() || event.from != event.to, "{first:?}, {second:?}: {event:?}");
            }
        }
    }
}

#[test]
fn growing_pod_statuses_make_the_cache_too_large() {
    let mut stream = Streamed::new();
    let grown = |number: u32, message: &str| {
        let mut event = Message::of(Created, "c", &[("c", Exited)]).event();
        event.sandbox.as_mut().unwrap().metadata.as_mut().unwrap().uid = number.to_string();
        event.containers[0].message = message.to_owned();
        event
    };
    let long = "x".repeat(1 << 20);
    for number in 0..70 {
        assert!(!stream.evented.is_cache_too_large(), "{number}");
        stream.receive(grown(number, ""));
    }
    for number in 0..70 {
        stream.receive(grown(number, &long));
    }
    assert!(stream.evented.is_cache_too_large(), "70 MiB");
    // Pods that are no longer listed leave the cache, and statuses that do not grow do not count.
    stream.evented.forget(1, |uid| uid == "0");
    assert_eq!(stream.shared_state.lock().cache.len(), 1);
    for _ in 0..70 {
        stream.receive(grown(0, &long));
    }
    assert!(!stream.evented.is_cache_too_large());
}

#[test]
fn a_message_without_a_sandbox_or_its_metadata_is_ignored() {
    let mut stream = Streamed::new();
    let mut nameless = Message::of(Started, "c", &[("c", Running)]).event();
    nameless.sandbox.as_mut().unwrap().metadata = None;
    let mut homeless = nameless.clone();
    homeless.sandbox = None;
    for event in [nameless, homeless] {
        assert_eq!(stream.receive(event), None);
    }
    assert_eq!(stream.events, Vec::new());
    assert_eq!(stream.shared_state.lock().metrics.connection_latency.count(), 0);
}

#[test]
fn a_message_older_than_the_cache_gives_no_event_and_one_as_old_gives_one() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Started, "c", &[("c", Running)]);
    assert_eq!(stream.on(&message).len(), 1);
    message.created_at = NOW - 1;
    assert_eq!(stream.on(&message), Vec::<String>::new());
    assert_eq!(
        stream.shared_state.lock().metrics.connection_latency.count(),
        2,
        "its latency counts all the same"
    );
    message.created_at = NOW;
    assert_eq!(stream.on(&message), ["ContainerStarted c"]);
}

#[test]
fn a_deleted_container_stays_cached_and_a_deleted_sandbox_removes_the_pod() {
    let mut stream = Streamed::new();
    stream.on(&Message::of(Started, "c", &[("c", Running)]));
    stream.on(&Message::of(Deleted, "c", &[]));
    assert_eq!(stream.cached_containers(), 1);
    let mut late = Message::of(Deleted, "s", &[]);
    late.created_at = NOW - 1;
    assert_eq!(stream.on(&late), ["ContainerDied s", "ContainerRemoved s"], "a deletion is never stale");
    assert_eq!(stream.cached_containers(), 0);
}

#[test]
fn new_addresses_replace_cached_ones() {
    let mut stream = Streamed::new();
    for ip in ["10.0.0.1", "10.0.0.2"] {
        let mut message = Message::of(Started, "c", &[("c", Running)]);
        message.ip = ip;
        stream.on(&message);
        assert_eq!(stream.ips(), [ip]);
    }
}

#[test]
fn cached_addresses_are_kept_only_if_the_sandbox_is_not_ready() {
    for (state, kept) in
        [(SandboxState::Ready, vec![]), (SandboxState::NotReady, vec!["10.0.0.1".to_owned()])]
    {
        let mut stream = Streamed::new();
        let mut message = Message::of(Started, "c", &[("c", Running)]);
        message.ip = "10.0.0.1";
        stream.on(&message);
        message.ip = "";
        message.sandbox = state;
        stream.on(&message);
        assert_eq!(stream.ips(), kept);
    }
}

#[test]
fn a_pod_without_new_or_cached_addresses_has_none() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Stopped, "c", &[]);
    message.sandbox = SandboxState::NotReady;
    stream.on(&message);
    assert_eq!(stream.ips(), Vec::<String>::new());
}

#[test]
fn the_pod_gauge_counts_only_sandboxes_that_are_among_the_containers() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| stream.shared_state.lock().metrics.running_pods();
    stream.on(&Message::of(Started, "c", &[("c", Running)]));
    assert_eq!(gauge(&stream), 0, "which they never are with a real runtime");
    stream.on(&Message::of(Deleted, "s", &[]));
    stream.on(&Message::of(Started, "s", &[("s", Running)]));
    assert_eq!(gauge(&stream), 1);
    stream.on(&Message::of(Stopped, "s", &[("s", Exited)]));
    assert_eq!(gauge(&stream), 0);
}

#[test]
fn an_event_changes_the_container_gauge_by_its_difference() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| {
        let shared = stream.shared_state.lock();
        [KubeletState::Running, KubeletState::Exited].map(|state| shared.metrics.running_containers(state))
    };
    stream.on(&Message::of(Started, "c", &[("c", Running), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(2), None]);
    stream.on(&Message::of(Stopped, "c", &[("c", Exited), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(1), Some(1)]);
}

#[tokio::test]
async fn an_event_after_a_failed_fetch_reports_the_kubelets_crash_and_is_processed() {
    let mut stream = Streamed::new();
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.containers = vec![container("c", "a", Running)];
        state.faults = [("c".to_owned(), Fault::Code(Code::Internal))].into();
    });
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::clone(&stream.shared_state), settings);
    // With the gate on, the containers of a pod without a sandbox are not fetched, so give the pod a sandbox.
    runtime.set(|state| state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)]);
    generic.relist(&runtime, &stream.clock, &mut Vec::new()).await;
    let notice = stream.receive(Message::of(Started, "c", &[("c", Running)]).event());
    assert!(notice.unwrap().contains("would crash"));
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn a_container_without_an_image_reports_the_kubelets_crash_and_is_processed() {
    let mut stream = Streamed::new();
    let mut event = Message::of(Started, "c", &[("c", Running)]).event();
    event.containers[0].image = None;
    assert!(stream.receive(event).unwrap().contains("without an image"));
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn after_five_ended_streams_the_stream_is_given_up() {
    let mut stream = Streamed::new();
    for attempt in 1..=5 {
        stream.on(&Message::of(Started, "c", &[("c", Running)]));
        let closed = stream.evented.on_stream_failed(None, &stream.clock);
        assert_eq!((closed.state, closed.attempt), (StreamState::Closed, attempt));
        if attempt < 5 {
            assert_eq!(stream.evented.next(&stream.clock), NextStreamAction::Connect(attempt + 1));
            stream.evented.on_stream_opened(&stream.clock);
            stream.clock.advance(Duration::from_secs(3600));
        }
    }
    match stream.evented.next(&stream.clock) {
        NextStreamAction::FallBack(record) => {
            assert_eq!((record.state, record.attempt), (StreamState::Fallback, 5));
        }
        other => panic!("expected the fallback, not {other:?}"),
    }
    assert!(!stream.evented.in_use());
    assert_eq!(stream.evented.next(&stream.clock), NextStreamAction::GivenUp);
    let shared = stream.shared_state.lock();
    assert_eq!((shared.metrics.connection_successes, shared.metrics.connection_errors), (5, 5));
}

#[test]
fn a_refusal_by_the_server_counts_as_a_connection_and_a_missing_socket_does_not() {
    let missing = Error::NoSuchSocket { endpoint: "unix:///run/x.sock".into() };
    for (error, connections) in [(unimplemented(), 1), (missing, 0)] {
        let shared_state = Arc::new(SharedState::new(true));
        let clock = ManualClock::at(Wall::from_nanos(NOW));
        let mut evented = EventedPleg::start(Arc::clone(&shared_state));
        evented.on_stream_failed(Some(&error), &clock);
        let shared = shared_state.lock();
        assert_eq!(shared.metrics.connection_successes, connections, "{error}");
        assert_eq!(shared.metrics.connection_errors, 1);
    }
}

#[tokio::test]
async fn with_the_gate_on_a_sandbox_status_with_a_time_stamp_brings_its_containers() {
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)];
        state.containers = vec![container("c", "a", Running)];
        state.containers[0].sandbox_id = "s".into();
    });
    let clock = ManualClock::at(Wall::from_nanos(NOW));
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    for (timestamp, calls) in [(0, 4), (NOW + 5, 3)] {
        let shared_state = Arc::new(SharedState::new(true));
        runtime.set(|state| state.timestamps = [("s".to_owned(), timestamp)].into());
        let mut generic = GenericPleg::new(Arc::clone(&shared_state), settings);
        generic.relist(&runtime, &clock, &mut Vec::new()).await;
        assert_eq!(runtime.calls().len(), calls);
        let status = shared_state.lock().cache.get("a").status.unwrap();
        assert_eq!(status.containers.len(), 1);
        assert_eq!(status.timestamp.nanos(), if timestamp == 0 { NOW } else { timestamp });
    }
}

#[tokio::test]
async fn a_relist_older_than_a_cached_event_emits_nothing_and_is_repeated() {
    let mut stream = Streamed::new();
    let runtime = Scripted::default();
    runtime.set(|state| state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)]);
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::clone(&stream.shared_state), settings);
    let mut early = Message::of(Started, "s", &[]);
    early.created_at = NOW + 1_000_000_000;
    stream.on(&early);
    let mut events = Vec::new();
    generic.relist(&runtime, &stream.clock, &mut events).await;
    assert_eq!(events, Vec::new());
    stream.clock.advance(Duration::from_secs(2));
    generic.relist(&runtime, &stream.clock, &mut events).await;
    assert_eq!(events.len(), 1, "the record was not advanced");
}
