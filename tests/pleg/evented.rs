//! What the evented PLEG does, case by case.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, ManualClock, Wall};
use plegctl::cri::{
    Code, ContainerEvent, ContainerEventType, ContainerState, Error, Network, ReceivedEvent, Rpc,
    SandboxState,
};
use plegctl::pleg::evented::Next;
use plegctl::pleg::stream::{Event, StreamState, Subject};
use plegctl::pleg::{Evented, Generic, Hub, KubeletState, PlegState, Settings};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox, sandbox_status_of, status_of};

use ContainerEventType::{Created, Deleted, Started, Stopped};
use ContainerState::{Exited, Running};

const NOW: i64 = 1_800_000_000_000_000_000;

/// A stream that is open, and what came of it.
struct Streamed {
    hub: Arc<Hub>,
    clock: ManualClock,
    evented: Evented,
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
        Self::with(Hub::new(true))
    }

    fn with(hub: Hub) -> Self {
        let hub = Arc::new(hub);
        let clock = ManualClock::at(Wall::from_nanos(NOW));
        let mut evented = Evented::start(Arc::clone(&hub));
        assert_eq!(evented.next(&clock), Next::Connect(1));
        evented.on_stream_opened(&clock);
        Self { hub, clock, evented, events: Vec::new() }
    }

    fn receive(&mut self, event: ContainerEvent) -> Option<String> {
        let received = ReceivedEvent { event, at: self.clock.wall(), bytes: 1, weight: 1 };
        let notice = self.evented.on_event(&received, &self.clock, &mut self.events)?;
        assert_eq!(notice.state, StreamState::Panic);
        notice.error
    }

    /// The events of one message, as `type id`.
    fn on(&mut self, message: &Message) -> Vec<String> {
        assert_eq!(self.receive(message.event()), None);
        let events = std::mem::take(&mut self.events).into_iter();
        events
            .filter(|event| event.delivered)
            .map(|event| format!("{} {}", event.event_type.as_str(), event.id.unwrap()))
            .collect()
    }

    fn ips(&self) -> Vec<String> {
        self.hub.lock().cache.get("a").status.unwrap().ips.clone()
    }

    fn cached_containers(&self) -> usize {
        self.hub.lock().cache.get("a").status.unwrap().containers.len()
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
fn an_event_says_which_container_of_which_pod_left_which_state_and_how_late_it_is() {
    let mut stream = Streamed::new();
    stream.on(&Message::of(Started, "c", &[("c", Running)]));
    stream.clock.advance(Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let event = stream.events.pop().unwrap();
    assert_eq!((event.pod.uid.as_str(), event.pod.name.as_str()), ("a", "name-a"));
    assert_eq!((event.subject, event.name.as_deref()), (Subject::Container, Some("name-c")));
    assert_eq!((event.from, event.to), (Some(PlegState::Running), Some(PlegState::Exited)));
    assert_eq!((event.exit_code, event.relist), (Some(7), None));
    assert_eq!(event.latency_seconds.unwrap().duration(), Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "s", &[]).event()), None);
    assert_eq!(stream.events.pop().unwrap().subject, Subject::Sandbox);
}

#[test]
fn no_event_goes_from_a_state_to_the_same_one() {
    // A container that ends at once: its start tells a status that knows of its end already.
    let mut stream = Streamed::new();
    stream.on(&Message::of(Started, "c", &[("c", Exited)]));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let died = stream.events.pop().unwrap();
    assert_eq!((died.from, died.to), (None, Some(PlegState::Exited)));
    // Whatever comes after whatever.
    let kinds = [Created, Started, Stopped, Deleted, ContainerEventType::Other(9)];
    let told =
        kinds.into_iter().flat_map(|kind| [None, Some(Running), Some(Exited)].map(|state| (kind, state)));
    let told: Vec<_> = told.collect();
    for first in &told {
        for second in &told {
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
fn pods_that_come_small_and_grow_are_a_crowd_too() {
    let mut stream = Streamed::new();
    let grown = |number: u32, message: &str| {
        let mut event = Message::of(Created, "c", &[("c", Exited)]).event();
        event.sandbox.as_mut().unwrap().metadata.as_mut().unwrap().uid = number.to_string();
        event.containers[0].message = message.to_owned();
        event
    };
    let long = "x".repeat(1 << 20);
    for number in 0..70 {
        assert!(!stream.evented.is_crowded(), "{number}");
        stream.receive(grown(number, ""));
    }
    for number in 0..70 {
        stream.receive(grown(number, &long));
    }
    assert!(stream.evented.is_crowded(), "70 MiB");
    // What is listed no more is forgotten, and what grew no further is no news.
    stream.evented.forget(1, |uid| uid == "0");
    assert_eq!(stream.hub.lock().cache.len(), 1);
    for _ in 0..70 {
        stream.receive(grown(0, &long));
    }
    assert!(!stream.evented.is_crowded());
}

#[test]
fn a_message_without_a_sandbox_or_its_metadata_is_ignored_altogether() {
    let mut stream = Streamed::new();
    let mut nameless = Message::of(Started, "c", &[("c", Running)]).event();
    nameless.sandbox.as_mut().unwrap().metadata = None;
    let mut homeless = nameless.clone();
    homeless.sandbox = None;
    for event in [nameless, homeless] {
        assert_eq!(stream.receive(event), None);
    }
    assert_eq!(stream.events, Vec::new());
    assert_eq!(stream.hub.lock().metrics.connection_latency.count(), 0);
}

#[test]
fn what_is_older_than_the_cache_is_no_event_and_what_is_as_old_is() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Started, "c", &[("c", Running)]);
    assert_eq!(stream.on(&message).len(), 1);
    message.created_at = NOW - 1;
    assert_eq!(stream.on(&message), Vec::<String>::new());
    assert_eq!(stream.hub.lock().metrics.connection_latency.count(), 2, "its latency counts all the same");
    message.created_at = NOW;
    assert_eq!(stream.on(&message), ["ContainerStarted c"]);
}

#[test]
fn a_deleted_container_stays_cached_and_a_deleted_sandbox_takes_the_pod_out() {
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
fn new_addresses_win_over_cached_ones() {
    let mut stream = Streamed::new();
    for ip in ["10.0.0.1", "10.0.0.2"] {
        let mut message = Message::of(Started, "c", &[("c", Running)]);
        message.ip = ip;
        stream.on(&message);
        assert_eq!(stream.ips(), [ip]);
    }
}

#[test]
fn cached_addresses_are_kept_only_once_the_sandbox_is_down() {
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
fn without_new_or_cached_addresses_there_are_none() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Stopped, "c", &[]);
    message.sandbox = SandboxState::NotReady;
    stream.on(&message);
    assert_eq!(stream.ips(), Vec::<String>::new());
}

#[test]
fn the_pod_gauge_counts_only_sandboxes_that_are_among_the_containers() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| stream.hub.lock().metrics.running_pods();
    stream.on(&Message::of(Started, "c", &[("c", Running)]));
    assert_eq!(gauge(&stream), 0, "which they never are with a real runtime");
    stream.on(&Message::of(Deleted, "s", &[]));
    stream.on(&Message::of(Started, "s", &[("s", Running)]));
    assert_eq!(gauge(&stream), 1);
    stream.on(&Message::of(Stopped, "s", &[("s", Exited)]));
    assert_eq!(gauge(&stream), 0);
}

#[test]
fn the_container_gauge_moves_by_what_an_event_changes() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| {
        let shared = stream.hub.lock();
        [KubeletState::Running, KubeletState::Exited].map(|state| shared.metrics.running_containers(state))
    };
    stream.on(&Message::of(Started, "c", &[("c", Running), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(2), None]);
    stream.on(&Message::of(Stopped, "c", &[("c", Exited), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(1), Some(1)]);
}

#[tokio::test]
async fn an_event_for_a_pod_whose_fetch_failed_would_crash_the_kubelet_and_is_worked_on_here() {
    let mut stream = Streamed::new();
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.containers = vec![container("c", "a", Running)];
        state.faults = [("c".to_owned(), Fault::Code(Code::Internal))].into();
    });
    let settings = Settings { evented_gate: true, ..Settings::default() };
    let mut generic = Generic::new(Arc::clone(&stream.hub), settings);
    // A pod without a sandbox is not asked for containers under the gate, so give it one.
    runtime.set(|state| state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)]);
    generic.relist(&runtime, &stream.clock, &mut Vec::new()).await;
    let notice = stream.receive(Message::of(Started, "c", &[("c", Running)]).event());
    assert!(notice.unwrap().contains("would crash"));
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn a_container_without_an_image_would_crash_the_kubelet_and_is_worked_on_here() {
    let mut stream = Streamed::new();
    let mut event = Message::of(Started, "c", &[("c", Running)]).event();
    event.containers[0].image = None;
    assert!(stream.receive(event).unwrap().contains("without an image"));
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn five_ended_streams_are_the_end_whatever_lies_between_them() {
    let mut stream = Streamed::new();
    for attempt in 1..=5 {
        stream.on(&Message::of(Started, "c", &[("c", Running)]));
        let closed = stream.evented.on_stream_failed(None, &stream.clock);
        assert_eq!((closed.state, closed.attempt), (StreamState::Closed, attempt));
        if attempt < 5 {
            assert_eq!(stream.evented.next(&stream.clock), Next::Connect(attempt + 1));
            stream.evented.on_stream_opened(&stream.clock);
            stream.clock.advance(Duration::from_secs(3600));
        }
    }
    match stream.evented.next(&stream.clock) {
        Next::FallBack(record) => assert_eq!((record.state, record.attempt), (StreamState::Fallback, 5)),
        other => panic!("expected the fallback, not {other:?}"),
    }
    assert!(!stream.evented.in_use());
    assert_eq!(stream.evented.next(&stream.clock), Next::GivenUp);
    let shared = stream.hub.lock();
    assert_eq!((shared.metrics.connection_successes, shared.metrics.connection_errors), (5, 5));
}

#[test]
fn a_refusal_by_the_server_counts_as_a_connection_and_a_missing_socket_does_not() {
    let missing = Error::NoSuchSocket { endpoint: "unix:///run/x.sock".into() };
    for (error, connections) in [(unimplemented(), 1), (missing, 0)] {
        let hub = Arc::new(Hub::new(true));
        let clock = ManualClock::at(Wall::from_nanos(NOW));
        let mut evented = Evented::start(Arc::clone(&hub));
        evented.on_stream_failed(Some(&error), &clock);
        let shared = hub.lock();
        assert_eq!(shared.metrics.connection_successes, connections, "{error}");
        assert_eq!(shared.metrics.connection_errors, 1);
    }
}

#[tokio::test]
async fn with_the_gate_on_containers_come_with_the_sandbox_where_it_has_a_time_stamp() {
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)];
        state.containers = vec![container("c", "a", Running)];
        state.containers[0].sandbox_id = "s".into();
    });
    let clock = ManualClock::at(Wall::from_nanos(NOW));
    let settings = Settings { evented_gate: true, ..Settings::default() };
    for (timestamp, calls) in [(0, 4), (NOW + 5, 3)] {
        let hub = Arc::new(Hub::new(true));
        runtime.set(|state| state.timestamps = [("s".to_owned(), timestamp)].into());
        let mut generic = Generic::new(Arc::clone(&hub), settings);
        generic.relist(&runtime, &clock, &mut Vec::new()).await;
        assert_eq!(runtime.asked().len(), calls);
        let status = hub.lock().cache.get("a").status.unwrap();
        assert_eq!(status.containers.len(), 1);
        assert_eq!(status.timestamp.nanos(), if timestamp == 0 { NOW } else { timestamp });
    }
}

#[tokio::test]
async fn a_relist_older_than_a_cached_event_is_silent_and_comes_again() {
    let mut stream = Streamed::new();
    let runtime = Scripted::default();
    runtime.set(|state| state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)]);
    let settings = Settings { evented_gate: true, ..Settings::default() };
    let mut generic = Generic::new(Arc::clone(&stream.hub), settings);
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
