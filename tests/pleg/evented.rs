//! Tests of the evented PLEG: the effects of one or a few stream messages.

use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::{Clock, ManualClock, Wall};
use plegctl_engine::cri::{
    Code, ContainerEvent, ContainerEventType, ContainerState, Error, Network, ReceivedEvent, Rpc,
    SandboxState,
};
use plegctl_engine::pleg::evented::NextStreamAction;
use plegctl_engine::pleg::stream::{Event, EventSubject, StreamState};
use plegctl_engine::pleg::{EventedPleg, GenericPleg, KubeletState, PlegSettings, PlegState, SharedState};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox, sandbox_status_of, status_of};

use ContainerEventType::{Created, Deleted, Started, Stopped};
use ContainerState::{Exited, Running};

const NOW: i64 = 1_800_000_000_000_000_000;

/// The exit code in the status of every container.
const EXIT_CODE: i32 = 7;

/// An evented PLEG with an open stream, and the events that its messages caused.
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
            containers: containers
                .map(|(id, state)| status_of(&container(id, "a", *state), EXIT_CODE))
                .collect(),
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

    /// Receives one message. Returns why the kubelet would crash, or `None`.
    fn receive(&mut self, event: ContainerEvent) -> Option<String> {
        let received = ReceivedEvent { event, at: self.clock.wall(), bytes: 1, memory: 1 };
        let notice = self.evented.on_event(&received, &self.clock, &mut self.events)?;
        assert_eq!(notice.state, StreamState::Panic);
        notice.error
    }

    /// Receives one message on which the kubelet would not crash. Returns the delivered events as `type id`.
    fn events_of(&mut self, message: &Message) -> Vec<String> {
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
    assert_eq!(stream.events_of(&Message::of(Created, "c", &running)), Vec::<String>::new());
    assert_eq!(stream.cached_containers(), 1, "a creation is no event, but is cached");
    assert_eq!(stream.events_of(&Message::of(Started, "c", &running)), ["ContainerStarted c"]);
    assert_eq!(stream.events_of(&Message::of(Stopped, "c", &exited)), ["ContainerDied c"]);
    assert_eq!(stream.events_of(&Message::of(Deleted, "c", &[])), ["ContainerDied c", "ContainerRemoved c"]);
    let other = ContainerEventType::Other(9);
    assert_eq!(stream.events_of(&Message::of(other, "c", &[])), Vec::<String>::new());
    assert_eq!(stream.cached_containers(), 0, "an unknown message is cached too");
}

#[test]
fn an_event_has_its_container_pod_previous_state_and_latency() {
    let mut stream = Streamed::new();
    stream.events_of(&Message::of(Started, "c", &[("c", Running)]));
    stream.clock.advance(Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let event = stream.events.pop().unwrap();
    assert_eq!((event.pod.uid.as_str(), event.pod.name.as_str()), ("a", "name-a"));
    assert_eq!((event.subject, event.name.as_deref()), (EventSubject::Container, Some("name-c")));
    assert_eq!((event.from, event.to), (Some(PlegState::Running), Some(PlegState::Exited)));
    assert_eq!((event.exit_code, event.relist), (Some(EXIT_CODE), None));
    assert_eq!(event.latency_seconds.unwrap().duration(), Duration::from_millis(250));
    assert_eq!(stream.receive(Message::of(Stopped, "s", &[]).event()), None);
    assert_eq!(stream.events.pop().unwrap().subject, EventSubject::Sandbox);
}

#[test]
fn no_event_has_the_same_state_before_and_after() {
    // The container ends so soon that the status in its start message is already `Exited`.
    let mut stream = Streamed::new();
    stream.events_of(&Message::of(Started, "c", &[("c", Exited)]));
    assert_eq!(stream.receive(Message::of(Stopped, "c", &[("c", Exited)]).event()), None);
    let died = stream.events.pop().unwrap();
    assert_eq!((died.from, died.to), (None, Some(PlegState::Exited)));
    // Every pair of messages. The second message comes twice: the first time, it brings its state into the cache; the
    // second time, the cached state and the new state are equal.
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
    // A relist that lists only pod 0 removes the other pods from the cache.
    let listed_pods = 1;
    stream.evented.remove_unlisted(listed_pods, |uid| uid == "0");
    assert_eq!(stream.shared_state.lock().cache.len(), 1);
    for _ in 0..70 {
        stream.receive(grown(0, &long));
    }
    assert!(!stream.evented.is_cache_too_large(), "a status of the same size does not make the cache larger");
}

#[test]
fn more_than_twenty_thousand_pods_make_the_cache_too_large() {
    let mut stream = Streamed::new();
    for number in 0..=20_000 {
        assert!(!stream.evented.is_cache_too_large(), "{number} pods");
        let mut event = Message::of(Created, "c", &[("c", Exited)]).event();
        event.sandbox.as_mut().unwrap().metadata.as_mut().unwrap().uid = number.to_string();
        stream.receive(event);
    }
    assert!(stream.evented.is_cache_too_large());
}

#[test]
fn a_message_without_a_sandbox_or_its_metadata_is_ignored() {
    let mut stream = Streamed::new();
    let mut nameless = Message::of(Started, "c", &[("c", Running)]).event();
    nameless.sandbox.as_mut().unwrap().metadata = None;
    let mut without_sandbox = nameless.clone();
    without_sandbox.sandbox = None;
    for event in [nameless, without_sandbox] {
        assert_eq!(stream.receive(event), None);
    }
    assert_eq!(stream.events, Vec::new());
    assert_eq!(stream.shared_state.lock().metrics.connection_latency.count(), 0);
}

#[test]
fn only_a_message_that_is_older_than_the_cached_status_gives_no_event() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Started, "c", &[("c", Running)]);
    assert_eq!(stream.events_of(&message).len(), 1);
    message.created_at = NOW - 1;
    assert_eq!(stream.events_of(&message), Vec::<String>::new());
    assert_eq!(
        stream.shared_state.lock().metrics.connection_latency.count(),
        2,
        "an old message counts for the latency too"
    );
    message.created_at = NOW;
    assert_eq!(stream.events_of(&message), ["ContainerStarted c"]);
}

#[test]
fn a_deleted_container_stays_cached_and_a_deleted_sandbox_removes_the_pod() {
    let mut stream = Streamed::new();
    stream.events_of(&Message::of(Started, "c", &[("c", Running)]));
    stream.events_of(&Message::of(Deleted, "c", &[]));
    assert_eq!(stream.cached_containers(), 1);
    let mut older_deletion = Message::of(Deleted, "s", &[]);
    older_deletion.created_at = NOW - 1;
    assert_eq!(
        stream.events_of(&older_deletion),
        ["ContainerDied s", "ContainerRemoved s"],
        "a deletion is never stale"
    );
    assert_eq!(stream.cached_containers(), 0);
}

#[test]
fn new_addresses_replace_cached_ones() {
    let mut stream = Streamed::new();
    for ip in ["10.0.0.1", "10.0.0.2"] {
        let mut message = Message::of(Started, "c", &[("c", Running)]);
        message.ip = ip;
        stream.events_of(&message);
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
        stream.events_of(&message);
        message.ip = "";
        message.sandbox = state;
        stream.events_of(&message);
        assert_eq!(stream.ips(), kept);
    }
}

#[test]
fn a_pod_without_new_or_cached_addresses_has_none() {
    let mut stream = Streamed::new();
    let mut message = Message::of(Stopped, "c", &[]);
    message.sandbox = SandboxState::NotReady;
    stream.events_of(&message);
    assert_eq!(stream.ips(), Vec::<String>::new());
}

#[test]
fn the_pod_gauge_counts_a_pod_only_if_its_containers_include_its_sandbox() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| stream.shared_state.lock().metrics.running_pods();
    stream.events_of(&Message::of(Started, "c", &[("c", Running)]));
    assert_eq!(gauge(&stream), 0, "with a real runtime, a sandbox is never among the containers");
    stream.events_of(&Message::of(Deleted, "s", &[]));
    stream.events_of(&Message::of(Started, "s", &[("s", Running)]));
    assert_eq!(gauge(&stream), 1);
    stream.events_of(&Message::of(Stopped, "s", &[("s", Exited)]));
    assert_eq!(gauge(&stream), 0);
}

#[test]
fn a_message_changes_the_container_gauge_by_its_difference_from_the_cache() {
    let mut stream = Streamed::new();
    let gauge = |stream: &Streamed| {
        let shared = stream.shared_state.lock();
        [KubeletState::Running, KubeletState::Exited].map(|state| shared.metrics.running_containers(state))
    };
    stream.events_of(&Message::of(Started, "c", &[("c", Running), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(2), None]);
    stream.events_of(&Message::of(Stopped, "c", &[("c", Exited), ("d", Running)]));
    assert_eq!(gauge(&stream), [Some(1), Some(1)]);
}

#[tokio::test]
async fn a_message_after_a_failed_fetch_gives_a_crash_notice_and_an_event() {
    let mut stream = Streamed::new();
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.containers = vec![container("c", "a", Running)];
        state.faults = [("c".to_owned(), Fault::Code(Code::Internal))].into();
    });
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::clone(&stream.shared_state), settings);
    // With the gate on, PLEG does not fetch the containers of a pod without a sandbox, so the pod needs a sandbox.
    runtime.set(|state| state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)]);
    generic.relist(&runtime, &stream.clock, &mut Vec::new()).await;
    let notice = stream.receive(Message::of(Started, "c", &[("c", Running)]).event());
    assert!(notice.unwrap().contains("would crash"));
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn a_message_with_a_container_without_an_image_gives_a_crash_notice_and_an_event() {
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
        stream.events_of(&Message::of(Started, "c", &[("c", Running)]));
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
async fn with_the_evented_gate_pleg_takes_containers_from_a_sandbox_status_with_a_time_stamp() {
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.sandboxes = vec![sandbox("s", "a", 0, SandboxState::Ready)];
        state.containers = vec![container("c", "a", Running)];
        state.containers[0].sandbox_id = "s".into();
    });
    let clock = ManualClock::at(Wall::from_nanos(NOW));
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    // The two list calls and PodSandboxStatus; without a time stamp, PLEG also calls ContainerStatus.
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
    let mut newer_message = Message::of(Started, "s", &[]);
    newer_message.created_at = NOW + 1_000_000_000;
    stream.events_of(&newer_message);
    let mut events = Vec::new();
    generic.relist(&runtime, &stream.clock, &mut events).await;
    assert_eq!(events, Vec::new());
    stream.clock.advance(Duration::from_secs(2));
    generic.relist(&runtime, &stream.clock, &mut events).await;
    assert_eq!(events.len(), 1, "the first relist did not change PLEG's record of the pod");
}
