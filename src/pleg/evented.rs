//! The evented PLEG: turns the events of the runtime's event stream into lifecycle events, and gives the stream up after
//! too many failures, as the kubelet does.
//!
//! [`EventedPleg`] is a state machine without I/O. Its caller (`guarded_stream`) opens the stream, passes in its events and
//! its end, and relists when the state machine requires a relist. The state machine reproduces known defects of the kubelet.
//! Where the kubelet would crash, it returns a record with [`StreamState::Panic`] and continues.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::addresses;
use super::caller::Sink;
use super::pods::{KubeletState, PlegState};
use super::shared_state::{PlegData, SharedState};
use super::status::{ContainerDetail, MemberStatus, PodStatus, sort_newest_first};
use super::stream::{Event, EventSource, EventSubject, EventType, Stream, StreamState};
use crate::clock::{Clock, Wall};
use crate::cri::{self, ContainerEvent, ContainerEventType, ReceivedEvent};
use crate::report::{PodRef, Seconds};

/// The number of ended streams, during the life of the process, after which the kubelet gives up.
pub const MAX_STREAM_FAILURES: u32 = 5;

/// The number of removed pods that may stay in the cache in addition to twice the listed pods.
const SPARE_ENTRIES: usize = 1024;

/// The number of cached pods beyond which a relist is required at once, to remove pods that no longer exist.
const MAX_CACHED_PODS: usize = 20_000;

/// The growth of the cached statuses since the last cleanup beyond which a relist is required at once.
const MAX_CACHE_GROWTH_BYTES: u64 = 64 * 1024 * 1024;

/// The next action of the caller for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStreamAction {
    /// Open the stream; the number of the attempt counts from 1.
    Connect(u32),
    /// Give the stream up permanently, and restart relisting with [`super::relist_timer::PlegTiming::GENERIC`].
    FallBack(Stream),
    /// Do nothing, because the stream was given up before.
    GivenUp,
}

/// The state of the event stream.
#[derive(Debug)]
pub struct EventedPleg {
    shared_state: Arc<SharedState>,
    failures: u32,
    max_failures: u32,
    open: bool,
    /// The number of pods that may be in the cache, computed at the last relist.
    cache_limit: usize,
    /// The number of bytes by which the cached statuses have grown since the last relist.
    cache_growth_bytes: u64,
}

impl EventedPleg {
    /// Creates the state machine. From now on the status cache uses the time stamps of the runtime.
    pub fn start(shared_state: Arc<SharedState>) -> Self {
        shared_state.lock().evented_in_use = true;
        Self {
            shared_state,
            failures: 0,
            max_failures: MAX_STREAM_FAILURES,
            open: false,
            cache_limit: 0,
            cache_growth_bytes: 0,
        }
    }

    /// Sets another number of ended streams after which the stream is given up.
    #[must_use]
    pub const fn with_max_failures(mut self, failures: u32) -> Self {
        self.max_failures = failures;
        self
    }

    /// Whether the stream has not been given up.
    pub fn in_use(&self) -> bool {
        self.shared_state.lock().evented_in_use
    }

    /// Returns the next action for the stream. Call this at the start, and after the relist that follows each ended stream.
    pub fn next(&mut self, clock: &dyn Clock) -> NextStreamAction {
        if !self.in_use() {
            return NextStreamAction::GivenUp;
        }
        if self.failures < self.max_failures {
            return NextStreamAction::Connect(self.failures + 1);
        }
        self.shared_state.lock().evented_in_use = false;
        NextStreamAction::FallBack(Stream {
            time: clock.wall(),
            state: StreamState::Fallback,
            attempt: self.failures,
            error: None,
        })
    }

    /// Records that a stream is open.
    pub fn on_stream_opened(&mut self, clock: &dyn Clock) -> Stream {
        self.open = true;
        self.shared_state.lock().metrics.connection_successes += 1;
        self.stream(clock, StreamState::Connected, None)
    }

    /// Records that a stream has ended or could not be opened. `None` is an end without an error, which counts as a failure
    /// too. The kubelet then relists all pods before it opens the stream again.
    pub fn on_stream_failed(&mut self, error: Option<&cri::Error>, clock: &dyn Clock) -> Stream {
        let text = error.map_or_else(|| "the runtime ended the stream".to_owned(), ToString::to_string);
        let mut shared = self.shared_state.lock();
        // The kubelet counts a connection before the server answers, so a call that the server refuses counts as a successful
        // connection too.
        let reached_the_server = error.is_none_or(|error| !error.is_connection_error());
        let refused_by_server = !self.open && reached_the_server;
        shared.metrics.connection_successes += u64::from(refused_by_server);
        shared.metrics.connection_errors += 1;
        drop(shared);
        self.open = false;
        let ended = self.stream(clock, StreamState::Closed, Some(text));
        self.failures += 1;
        ended
    }

    /// Records that plegctl itself closed the stream, which the kubelet never does. This is not a failure.
    pub fn on_stream_released(&mut self, why: &str, clock: &dyn Clock) -> Stream {
        self.open = false;
        self.stream(clock, StreamState::Closed, Some(why.to_owned()))
    }

    /// Records that events were received but dropped before they reached this state machine.
    pub fn on_events_dropped(&self, why: String, clock: &dyn Clock) -> Stream {
        self.stream(clock, StreamState::Dropped, Some(why))
    }

    /// Removes pods that are no longer listed from the cache, if the cache is large. `pods` is the number of listed pods.
    /// The kubelet does not do this: with a runtime that sends no event for a removed sandbox (CRI-O), the kubelet's cache
    /// grows until the relist after the next one.
    pub fn remove_unlisted(&mut self, pods: usize, listed: impl Fn(&str) -> bool) {
        let too_large = self.is_cache_too_large();
        self.cache_limit = pods.saturating_mul(2).saturating_add(SPARE_ENTRIES);
        self.cache_growth_bytes = 0;
        let mut shared = self.shared_state.lock();
        if too_large || shared.cache.len() > self.cache_limit {
            shared.cache.retain(listed);
        }
    }

    /// Whether a relist is required now to remove pods from the cache that no longer exist. Without it the cache would keep
    /// every pod that was created and removed between two relists, as the kubelet's cache does.
    pub fn is_cache_too_large(&self) -> bool {
        self.cache_growth_bytes > MAX_CACHE_GROWTH_BYTES
            || self.shared_state.lock().cache.len() > self.cache_limit.max(MAX_CACHED_PODS)
    }

    /// Processes one event of the stream, and sends the lifecycle events to `sink`. Returns a record if the kubelet would
    /// crash on this event.
    pub fn on_event(
        &mut self,
        received: &ReceivedEvent,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) -> Option<Stream> {
        let event = &received.event;
        // The kubelet ignores an event that does not name its pod.
        let sandbox = event.sandbox.as_ref()?;
        let metadata = sandbox.metadata.as_ref()?;
        let mut status = PodStatus {
            pod: PodRef {
                uid: metadata.uid.clone(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            },
            ips: addresses::pod_addresses(sandbox.network.as_ref()),
            sandboxes: vec![MemberStatus {
                id: sandbox.id.clone(),
                state: KubeletState::from(sandbox.state),
            }],
            containers: event.containers.iter().cloned().map(ContainerDetail::from).collect(),
            timestamp: Wall::default(),
        };
        sort_newest_first(&mut status.containers);
        let latency = Seconds::from_nanos(received.at.nanos().saturating_sub(event.created_at));
        let subject =
            if event.container_id == sandbox.id { EventSubject::Sandbox } else { EventSubject::Container };

        let mut shared = self.shared_state.lock();
        shared.preserve_ips(&mut status);
        let before = shared.cache.get(&metadata.uid);
        let crash = would_crash(event, before.error.as_deref());
        let known = before.status.as_deref();
        // Growth is counted for each event, because the status of a known pod may grow too.
        let grown = status.memory_bytes().saturating_sub(known.map_or(0, PodStatus::memory_bytes));
        self.cache_growth_bytes = self.cache_growth_bytes.saturating_add(grown);
        adjust_gauges(&mut shared, known, &status);
        shared.metrics.connection_latency.observe(latency.as_f64());
        let status = Arc::new(status);
        let accepted = cache_status(&mut shared, event, subject, &status);
        drop(shared);

        if accepted {
            let stream_event = StreamEvent { event, subject, status: &status, known, latency };
            for &event_type in lifecycle_events(event.kind) {
                sink.event(stream_event.event(event_type, clock));
            }
        }
        crash.map(|why| self.stream(clock, StreamState::Panic, Some(why)))
    }

    /// Creates a record about the state of the stream.
    fn stream(&self, clock: &dyn Clock, state: StreamState, error: Option<String>) -> Stream {
        Stream { time: clock.wall(), state, attempt: self.failures + 1, error }
    }
}

/// Returns the lifecycle events that the kubelet derives from one stream event.
const fn lifecycle_events(kind: ContainerEventType) -> &'static [EventType] {
    match kind {
        ContainerEventType::Started => &[EventType::ContainerStarted],
        ContainerEventType::Stopped => &[EventType::ContainerDied],
        ContainerEventType::Deleted => &[EventType::ContainerDied, EventType::ContainerRemoved],
        ContainerEventType::Created | ContainerEventType::Other(_) => &[],
    }
}

/// Updates the cache after an event. Returns false if the cache has a newer status. A deleted sandbox removes the whole pod
/// from the cache. A deleted container does not change the cache, so the cached status keeps the container.
fn cache_status(
    shared: &mut PlegData,
    event: &ContainerEvent,
    subject: EventSubject,
    status: &Arc<PodStatus>,
) -> bool {
    let uid = &status.pod.uid;
    match (event.kind, subject) {
        (ContainerEventType::Deleted, EventSubject::Sandbox) => {
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

/// Returns why the kubelet would crash on this event, or `None`.
fn would_crash(event: &ContainerEvent, cached_error: Option<&str>) -> Option<String> {
    if let Some(container) = event.containers.iter().find(|container| container.image.is_none()) {
        return Some(format!(
            "the kubelet would crash here: the event has the status of container {} without an image",
            container.id
        ));
    }
    cached_error.map(|error| {
        format!("the kubelet would crash here: an event arrived for a pod whose last status fetch failed ({error})")
    })
}

/// Changes the gauges of running pods and containers by the difference between the event and the cache, as the kubelet does
/// between relists.
fn adjust_gauges(shared: &mut PlegData, known: Option<&PodStatus>, status: &PodStatus) {
    let known = known.filter(|known| !known.sandboxes.is_empty());
    let pods = i64::from(sandbox_runs(status)) - i64::from(known.is_some_and(sandbox_runs));
    let mut containers = container_states(status);
    for (state, count) in known.map(container_states).unwrap_or_default() {
        *containers.entry(state).or_insert(0) -= count;
    }
    shared.metrics.adjust_running(pods, &containers);
}

/// Whether the kubelet counts the pod's sandbox as running. The kubelet searches for the sandbox among the containers, where
/// real runtimes never list it, so the result is false in practice.
fn sandbox_runs(status: &PodStatus) -> bool {
    let sandbox = status.sandboxes.first();
    sandbox
        .and_then(|sandbox| status.container(&sandbox.id))
        .is_some_and(|container| container.state == KubeletState::Running)
}

/// Counts the containers by state.
fn container_states(status: &PodStatus) -> BTreeMap<KubeletState, i64> {
    let mut counts = BTreeMap::new();
    for container in &status.containers {
        *counts.entry(container.state).or_insert(0) += 1;
    }
    counts
}

/// A stream event with the new and the cached status of its pod.
struct StreamEvent<'a> {
    event: &'a ContainerEvent,
    subject: EventSubject,
    status: &'a PodStatus,
    known: Option<&'a PodStatus>,
    latency: Seconds,
}

impl StreamEvent<'_> {
    /// Creates the lifecycle event of this type.
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
        // If the status of an earlier event already had this state, nobody knows the state before.
        let from = self.known.map(|known| state_of(known, id)).filter(|from| *from != to);
        Event {
            id: Some(id.clone()),
            name: named.map(|container| container.name.clone()).filter(|name| !name.is_empty()),
            from,
            to: Some(to),
            exit_code: died.and_then(|container| container.exit_code),
            reason: died.map(|container| container.reason.clone()).filter(|reason| !reason.is_empty()),
            latency_seconds: Some(self.latency),
            ..Event::new(
                clock.wall(),
                EventSource::Evented,
                event_type,
                self.status.pod.clone(),
                self.subject,
            )
        }
    }
}

/// Returns the state of a container or sandbox in a cached status.
fn state_of(status: &PodStatus, id: &str) -> PlegState {
    let container = status.container(id).map(|container| container.state);
    let sandbox = status.sandboxes.iter().find(|sandbox| sandbox.id == id);
    container
        .or_else(|| sandbox.map(|sandbox| sandbox.state))
        .map_or(PlegState::NonExistent, KubeletState::pleg)
}
