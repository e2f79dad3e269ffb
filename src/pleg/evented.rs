//! The evented PLEG: lifecycle events from the runtime's stream, and the way back to relisting alone.
//!
//! A state machine that is told what happened to the stream. Whoever drives it opens the stream, relists when told to,
//! and ticks it. It follows the kubelet into its known defects, except the crashes: those it reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::addresses;
use super::caller::Sink;
use super::hub::{Hub, Shared};
use super::pods::{KubeletState, PlegState};
use super::status::{ContainerDetail, MemberStatus, PodStatus, sort_newest_first};
use super::stream::{Event, EventType, Source, Stream, StreamState, Subject};
use crate::clock::{Clock, Wall};
use crate::cri::{self, ContainerEvent, ContainerEventType, ReceivedEvent};
use crate::report::{PodRef, Seconds};

/// After how many ended streams, over the whole life of the process, the kubelet gives up.
pub const MAX_STREAM_FAILURES: u32 = 5;

/// How many pods that are gone may stay in the cache beside those that are there.
const SPARE: usize = 1024;

/// From how many pods on everything is listed to forget those that are gone, if that is not due anyway.
const CROWD: usize = 20_000;

/// The same by what the statuses of pods have grown by since it was last forgotten what is gone.
const HEAVY_CROWD: u64 = 64 * 1024 * 1024;

/// What to do about the stream next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Open it; this is the attempt's number, from 1.
    Connect(u32),
    /// Give it up for good and restart relisting with [`super::worker::Timing::GENERIC`].
    FallBack(Stream),
    /// Nothing: it was given up before.
    GivenUp,
}

/// State of the stream, and what its events mean.
#[derive(Debug)]
pub struct Evented {
    hub: Arc<Hub>,
    failures: u32,
    most_failures: u32,
    open: bool,
    /// How many pods may be in the cache by the last lists.
    room: usize,
    /// What their statuses have grown by since then.
    news: u64,
}

impl Evented {
    /// Starts: from here on the status cache goes by the runtime's time stamps.
    pub fn start(hub: Arc<Hub>) -> Self {
        hub.lock().evented_in_use = true;
        Self { hub, failures: 0, most_failures: MAX_STREAM_FAILURES, open: false, room: 0, news: 0 }
    }

    /// The same, giving up after another number of ended streams.
    #[must_use]
    pub const fn giving_up_after(mut self, failures: u32) -> Self {
        self.most_failures = failures;
        self
    }

    /// Whether the stream is still being tried.
    pub fn in_use(&self) -> bool {
        self.hub.lock().evented_in_use
    }

    /// The head of the kubelet's loop. Ask at the start and after the relist that follows each ended stream.
    pub fn next(&mut self, clock: &dyn Clock) -> Next {
        if !self.in_use() {
            return Next::GivenUp;
        }
        if self.failures < self.most_failures {
            return Next::Connect(self.failures + 1);
        }
        self.hub.lock().evented_in_use = false;
        Next::FallBack(Stream {
            time: clock.wall(),
            state: StreamState::Fallback,
            attempt: self.failures,
            error: None,
        })
    }

    /// A stream is open.
    pub fn on_stream_opened(&mut self, clock: &dyn Clock) -> Stream {
        self.open = true;
        self.hub.lock().metrics.connection_successes += 1;
        self.stream(clock, StreamState::Connected, None)
    }

    /// A stream has ended, or could not be opened; `None` is an end in good order, which counts as a failure too. The
    /// kubelet relists everything now, before it does anything else about the stream.
    pub fn on_stream_failed(&mut self, error: Option<&cri::Error>, clock: &dyn Clock) -> Stream {
        let text = error.map_or_else(|| "the runtime ended the stream".to_owned(), ToString::to_string);
        let mut shared = self.hub.lock();
        // The kubelet has its handle before the server answers, so a refusal by the server counts as a connection.
        let refused_by_server = !self.open && error.is_none_or(reached_the_server);
        shared.metrics.connection_successes += u64::from(refused_by_server);
        shared.metrics.connection_errors += 1;
        drop(shared);
        self.open = false;
        let ended = self.stream(clock, StreamState::Closed, Some(text));
        self.failures += 1;
        ended
    }

    /// The stream was closed from this side, which the kubelet never does: no failure.
    pub fn on_stream_released(&mut self, why: &str, clock: &dyn Clock) -> Stream {
        self.open = false;
        self.stream(clock, StreamState::Closed, Some(why.to_owned()))
    }

    /// Events were received and did not get as far as this engine.
    pub fn on_events_dropped(&self, why: String, clock: &dyn Clock) -> Stream {
        self.stream(clock, StreamState::Dropped, Some(why))
    }

    /// Forgets pods that are no longer listed. The kubelet does not: a runtime that tells of no removed sandbox, as
    /// CRI-O does not, makes its cache grow until the next relist but one. `pods` is how many are listed.
    pub fn forget(&mut self, pods: usize, listed: impl Fn(&str) -> bool) {
        let crowded = self.is_crowded();
        self.room = pods.saturating_mul(2).saturating_add(SPARE);
        self.news = 0;
        let mut shared = self.hub.lock();
        if crowded || shared.cache.len() > self.room {
            shared.cache.retain(listed);
        }
    }

    /// Whether the cache holds so much that everything has to be listed now, to forget what is gone: a flood of pods
    /// between two relists would be kept whole, as the kubelet keeps it.
    pub fn is_crowded(&self) -> bool {
        self.news > HEAVY_CROWD || self.hub.lock().cache.len() > self.room.max(CROWD)
    }

    /// Works on one event. A notice comes back where the kubelet would have crashed.
    pub fn on_event(
        &mut self,
        received: &ReceivedEvent,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) -> Option<Stream> {
        let event = &received.event;
        // The kubelet ignores what does not say whose it is.
        let sandbox = event.sandbox.as_ref()?;
        let metadata = sandbox.metadata.as_ref()?;
        let mut status = PodStatus {
            pod: PodRef {
                uid: metadata.uid.clone(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            },
            ips: addresses::of(sandbox.network.as_ref()),
            sandboxes: vec![MemberStatus {
                id: sandbox.id.clone(),
                state: KubeletState::from(sandbox.state),
            }],
            containers: event.containers.iter().cloned().map(ContainerDetail::from).collect(),
            timestamp: Wall::default(),
        };
        sort_newest_first(&mut status.containers);
        let latency = Seconds::from_nanos(received.at.nanos().saturating_sub(event.created_at));
        let subject = if event.container_id == sandbox.id { Subject::Sandbox } else { Subject::Container };

        let mut shared = self.hub.lock();
        shared.preserve_ips(&mut status);
        let before = shared.cache.get(&metadata.uid);
        let crash = would_crash(event, before.error.as_deref());
        let known = before.status.as_deref();
        // A pod that comes with next to nothing may grow later.
        let grown = status.weight().saturating_sub(known.map_or(0, PodStatus::weight));
        self.news = self.news.saturating_add(grown);
        move_gauges(&mut shared, known, &status);
        shared.metrics.connection_latency.observe(latency.as_f64());
        let status = Arc::new(status);
        let accepted = store(&mut shared, event, subject, &status);
        drop(shared);

        if accepted {
            let told = StreamEvent { event, subject, status: &status, known, latency };
            for &event_type in lifecycle(event.kind) {
                sink.event(told.event(event_type, clock));
            }
        }
        crash.map(|why| self.stream(clock, StreamState::Panic, Some(why)))
    }

    fn stream(&self, clock: &dyn Clock, state: StreamState, error: Option<String>) -> Stream {
        Stream { time: clock.wall(), state, attempt: self.failures + 1, error }
    }
}

/// Whether a server was there to say no.
const fn reached_the_server(error: &cri::Error) -> bool {
    use cri::Error::{
        ClosedMidCall, Decode, Implausible, NoSuchSocket, NotASocket, NotRecorded, Own, PermissionDenied,
        Refused, Runtime, Silent, TooLarge, Unfinished, Unimplemented, Unreachable, WrongProtocol,
    };
    match error {
        NoSuchSocket { .. }
        | NotASocket { .. }
        | PermissionDenied { .. }
        | Refused { .. }
        | Unreachable { .. }
        | WrongProtocol { .. } => false,
        Silent { .. }
        | Unfinished { .. }
        | ClosedMidCall { .. }
        | Unimplemented { .. }
        | TooLarge { .. }
        | Decode { .. }
        | Implausible { .. }
        | Own { .. }
        | NotRecorded { .. }
        | Runtime { .. } => true,
    }
}

/// Lifecycle events of one stream event.
const fn lifecycle(kind: ContainerEventType) -> &'static [EventType] {
    match kind {
        ContainerEventType::Started => &[EventType::ContainerStarted],
        ContainerEventType::Stopped => &[EventType::ContainerDied],
        ContainerEventType::Deleted => &[EventType::ContainerDied, EventType::ContainerRemoved],
        ContainerEventType::Created | ContainerEventType::Other(_) => &[],
    }
}

/// Puts the status of an event into the cache; false if the cache has something newer. A deleted container leaves the
/// cache as it is, so that it stays in the cached status; a deleted sandbox takes the whole pod out.
fn store(shared: &mut Shared, event: &ContainerEvent, subject: Subject, status: &Arc<PodStatus>) -> bool {
    let uid = &status.pod.uid;
    match (event.kind, subject) {
        (ContainerEventType::Deleted, Subject::Sandbox) => {
            shared.cache.delete(uid);
            true
        }
        (ContainerEventType::Deleted, _) => true,
        _ => {
            let as_of = Wall::from_nanos(event.created_at);
            shared.cache.set(uid, Some(Arc::clone(status)), None, as_of)
        }
    }
}

/// Why the kubelet would crash over this event, if it would.
fn would_crash(event: &ContainerEvent, cached_error: Option<&str>) -> Option<String> {
    if let Some(container) = event.containers.iter().find(|container| container.image.is_none()) {
        return Some(format!(
            "the kubelet would crash here: the event has the status of container {} without an image",
            container.id
        ));
    }
    cached_error.map(|error| {
        format!("the kubelet would crash here: the pod's last status fetch failed ({error}), and now an event came for it")
    })
}

/// Moves the gauges as the kubelet does between relists: by what the event changes against the cache.
fn move_gauges(shared: &mut Shared, known: Option<&PodStatus>, status: &PodStatus) {
    let known = known.filter(|known| !known.sandboxes.is_empty());
    let pods = i64::from(sandbox_runs(status)) - i64::from(known.is_some_and(sandbox_runs));
    let mut containers = container_states(status);
    for (state, count) in known.map(container_states).unwrap_or_default() {
        *containers.entry(state).or_insert(0) -= count;
    }
    shared.metrics.move_running(pods, &containers);
}

/// The kubelet looks for the sandbox among the containers. It is never there with a real runtime, so to the kubelet no
/// sandbox of a stream event ever runs.
fn sandbox_runs(status: &PodStatus) -> bool {
    let sandbox = status.sandboxes.first();
    sandbox
        .and_then(|sandbox| status.container(&sandbox.id))
        .is_some_and(|container| container.state == KubeletState::Running)
}

fn container_states(status: &PodStatus) -> BTreeMap<KubeletState, i64> {
    let mut counts = BTreeMap::new();
    for container in &status.containers {
        *counts.entry(container.state).or_insert(0) += 1;
    }
    counts
}

/// One stream event and what is known around it.
struct StreamEvent<'a> {
    event: &'a ContainerEvent,
    subject: Subject,
    status: &'a PodStatus,
    known: Option<&'a PodStatus>,
    latency: Seconds,
}

impl StreamEvent<'_> {
    fn event(&self, event_type: EventType, clock: &dyn Clock) -> Event {
        let id = &self.event.container_id;
        let detail = self.status.container(id);
        let named = detail.or_else(|| self.known.and_then(|known| known.container(id)));
        let died = detail.filter(|_| event_type == EventType::ContainerDied);
        let to = match self.event.kind {
            ContainerEventType::Started => PlegState::Running,
            ContainerEventType::Deleted => PlegState::NonExistent,
            _ => PlegState::Exited,
        };
        // An earlier event may have brought a status that knew this already; then nobody knows what was before it.
        let from = self.known.map(|known| state_of(known, id)).filter(|from| *from != to);
        Event {
            id: Some(id.clone()),
            name: named.map(|container| container.name.clone()).filter(|name| !name.is_empty()),
            from,
            to: Some(to),
            exit_code: died.and_then(|container| container.exit_code),
            reason: died.map(|container| container.reason.clone()).filter(|reason| !reason.is_empty()),
            latency_seconds: Some(self.latency),
            ..Event::new(clock.wall(), Source::Evented, event_type, self.status.pod.clone(), self.subject)
        }
    }
}

/// State of a container or sandbox in a cached status.
fn state_of(status: &PodStatus, id: &str) -> PlegState {
    let container = status.container(id).map(|container| container.state);
    let sandbox = status.sandboxes.iter().find(|sandbox| sandbox.id == id);
    container
        .or_else(|| sandbox.map(|sandbox| sandbox.state))
        .map_or(PlegState::NonExistent, KubeletState::pleg)
}
