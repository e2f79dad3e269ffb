//! The records that a watch emits, in the order in which things happen: one compact JSON object per line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calls::CallRecord;
use super::pods::PlegState;
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::report::{PodRef, RuntimeRef, Seconds};

/// Type of a pod lifecycle event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventType {
    /// A container or sandbox that was not running is running.
    ContainerStarted,
    /// A container or sandbox that was running or unknown is no longer running.
    ContainerDied,
    /// A container or sandbox is no longer listed.
    ContainerRemoved,
    /// The state of a container or sandbox became unknown. The kubelet computes this event and drops it.
    ContainerChanged,
    /// A pod was inspected again.
    PodSync,
}

impl EventType {
    /// The kubelet's name of the type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::ContainerChanged => "ContainerChanged",
            Self::PodSync => "PodSync",
        }
    }

    /// Whether the kubelet delivers events of this type to its sync loop.
    pub const fn is_delivered(self) -> bool {
        !matches!(self, Self::ContainerChanged)
    }
}

/// The PLEG that emits an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventSource {
    /// Relisting.
    Generic,
    /// The runtime's event stream.
    Evented,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventSubject {
    /// A container.
    Container,
    /// A pod sandbox.
    Sandbox,
    /// The pod as a whole.
    Pod,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A pod lifecycle event, delivered or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Event {
    /// When the event was emitted.
    pub time: Wall,
    /// The number of the relist, from 1; absent for stream events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist: Option<u64>,
    /// Whether the event belongs to the first relist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub initial: bool,
    /// Which PLEG emitted the event.
    pub source: EventSource,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Whether the kubelet's sync loop receives the event.
    pub delivered: bool,
    /// The pod.
    pub pod: PodRef,
    /// Whether the event is about a container, a sandbox or the pod.
    pub subject: EventSubject,
    /// Container or sandbox id; absent for `PodSync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Container name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State before; absent for `PodSync` and where the stream does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PlegState>,
    /// State after; absent for `PodSync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PlegState>,
    /// Exit code of a container that died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The runtime's one-word reason why a container died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of receipt minus the runtime's time stamp, for stream events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Seconds>,
}

impl Event {
    /// An event without optional fields.
    pub const fn new(
        time: Wall,
        source: EventSource,
        event_type: EventType,
        pod: PodRef,
        subject: EventSubject,
    ) -> Self {
        Self {
            time,
            relist: None,
            initial: false,
            source,
            event_type,
            delivered: event_type.is_delivered(),
            pod,
            subject,
            id: None,
            name: None,
            from: None,
            to: None,
            exit_code: None,
            reason: None,
            latency_seconds: None,
        }
    }
}

/// The watch has started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchStarted {
    /// When the watch started.
    pub time: Wall,
    /// The node's name, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// `generic`, `evented` or `compare`.
    pub mode: String,
    /// Pause between relists.
    pub period_seconds: Seconds,
    /// The age from which on PLEG is unhealthy.
    pub threshold_seconds: Seconds,
    /// The kubelet release whose algorithm is used.
    pub kubelet_version: String,
    /// Where that version comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_version_source: Option<String>,
    /// What a kubelet of this release sees and this watch cannot see, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_seen: Option<String>,
}

/// A relist has ended. The records of its events come before this record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Relist {
    /// When it ended.
    pub time: Wall,
    /// Its number, from 1.
    pub relist: u64,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// From the start of the last successful relist to the start of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// Whether both list calls succeeded.
    pub outcome: Outcome,
    /// Why a list call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Every call it made.
    pub calls: Vec<CallRecord>,
    /// How many pods are listed.
    pub pods: u64,
    /// How many sandboxes they have.
    pub sandboxes: u64,
    /// How many containers they have.
    pub containers: u64,
    /// How many events the relist caused, `ContainerChanged` not counted.
    pub events: u64,
    /// How many pods failed their status fetch and will be inspected again.
    pub reinspect: u64,
}

impl Relist {
    /// A successful relist without pods, calls or duration.
    pub const fn new(time: Wall, relist: u64) -> Self {
        Self {
            time,
            relist,
            duration_seconds: Seconds::from_nanos(0),
            interval_seconds: None,
            outcome: Outcome::Ok,
            error: None,
            calls: Vec::new(),
            pods: 0,
            sandboxes: 0,
            containers: 0,
            events: 0,
            reinspect: 0,
        }
    }
}

/// State of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamState {
    /// A stream is open.
    Connected,
    /// The stream has ended, with or without an error.
    Closed,
    /// The kubelet would give the stream up.
    Fallback,
    /// The kubelet would have crashed here; the watch goes on.
    Panic,
    /// Events were received and dropped because plegctl's own queue was full.
    Dropped,
}

/// The event stream changed its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Stream {
    /// When the state changed.
    pub time: Wall,
    /// The new state.
    pub state: StreamState,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Why the stream ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The health of PLEG changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Health {
    /// When the health changed.
    pub time: Wall,
    /// Whether PLEG is healthy now.
    pub healthy: bool,
    /// The kubelet's message.
    pub message: String,
}

/// A call has had no answer for 5 s, 10 s, 30 s or a number of minutes, and is still open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Silence {
    /// When the silence was reported.
    pub time: Wall,
    /// The name of the RPC.
    pub rpc: String,
    /// The pod that the call is for; absent for a list of all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The id of the container or sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How long the call has been open.
    pub waited_seconds: Seconds,
}

/// Relisting and the event stream disagree about a transition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Divergence {
    /// When the disagreement was decided.
    pub time: Wall,
    /// The pod.
    pub pod: PodRef,
    /// Container or sandbox id.
    pub id: String,
    /// The type of the transition.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The only side that reported the transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<EventSource>,
    /// How much earlier the stream reported the transition; negative if relisting was first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Seconds>,
    /// Why only one side reported the transition, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Quantiles of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: Seconds,
    /// 90th percentile.
    pub p90: Seconds,
    /// 99th percentile.
    pub p99: Seconds,
    /// Largest.
    pub max: Seconds,
}

impl Quantiles {
    /// Computes the quantiles of these samples by nearest rank; `None` without samples.
    pub fn of(samples: impl IntoIterator<Item = Seconds>) -> Option<Self> {
        let mut sorted: Vec<Seconds> = samples.into_iter().collect();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let nearest = (sorted.len() * percent).div_ceil(100);
            sorted.get(nearest.saturating_sub(1)).copied()
        };
        Some(Self { p50: rank(50)?, p90: rank(90)?, p99: rank(99)?, max: rank(100)? })
    }
}

/// One of the slowest calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowCall {
    /// The name of the RPC.
    pub rpc: String,
    /// The pod that the call was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The id of the container or sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How long it took, or has taken so far.
    pub duration_seconds: Seconds,
    /// Whether the call was still open when the watch ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silent_so_far: bool,
}

/// The watch has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchSummary {
    /// When the watch ended.
    pub time: Wall,
    /// How many relists there were.
    pub relists: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Events delivered, by type.
    pub events: BTreeMap<EventType, u64>,
    /// How long relists took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist_seconds: Option<Quantiles>,
    /// How far apart they started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Quantiles>,
    /// The slowest calls, slowest first.
    pub slowest: Vec<SlowCall>,
    /// The totals of the event stream, if one was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSummary>,
    /// The comparison of the stream with relisting, if both were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Box<CompareSummary>>,
}

/// The comparison of the event stream with relisting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareSummary {
    /// Whether `EventedPLEG` would be safe on this node, in a sentence.
    pub verdict: String,
    /// Transitions that both sides reported.
    pub both: u64,
    /// Of these, how many the stream reported first.
    pub evented_first: u64,
    /// Of these, how many relisting reported first.
    pub generic_first: u64,
    /// Transitions that only the stream reported, because they were over before a relist could list them.
    pub missed_by_relisting: u64,
    /// Transitions that only relisting reported.
    pub missed_by_stream: u64,
    /// Transitions that the stream sent in a form that the kubelet ignores.
    pub withheld: u64,
    /// Transitions that only relisting reported, because this runtime sends no events for removals.
    #[serde(default)]
    pub untold: u64,
    /// Transitions that only relisting reported, while the stream was not open.
    pub in_a_gap: u64,
    /// Transitions that only one side reported, without a known reason.
    pub unexplained: u64,
    /// Transitions that were not decided when the watch ended.
    pub undecided: u64,
    /// Transitions that relisting reported again.
    pub duplicates_generic: u64,
    /// Transitions that the stream reported again.
    pub duplicates_evented: u64,
    /// Transitions reported after a later stage of the same container.
    pub out_of_order: u64,
    /// Events that the runtime had buffered before the stream was opened.
    pub leftovers: u64,
    /// Containers that were not compared, because too many were tracked or their names were too long.
    pub not_compared: u64,
    /// How much earlier the stream was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gained_seconds: Option<Quantiles>,
    /// From the runtime's time stamp to the stream's event, for transitions that both sides reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_seconds: Option<Quantiles>,
    /// From the runtime's time stamp to the relist's event, for transitions that both sides reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist_seconds: Option<Quantiles>,
    /// Number of relists.
    pub relists: u64,
    /// Number of calls of these relists.
    pub relist_calls: u64,
    /// Bytes received by these relists.
    pub relist_bytes: u64,
    /// Bytes received from the stream.
    pub stream_bytes: u64,
    /// Calls that a kubelet with the evented PLEG would have saved.
    pub spared_calls: u64,
    /// Bytes that a kubelet with the evented PLEG would have received: the stream, and a relist every five minutes.
    pub evented_bytes: u64,
}

/// Totals of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamSummary {
    /// How often it was opened.
    pub attempts: u64,
    /// How often the runtime ended it or could not be reached.
    pub failures: u64,
    /// Whether the kubelet would have given the stream up.
    pub fell_back: bool,
    /// How often the kubelet would have crashed.
    pub panics: u64,
    /// Events received.
    pub events: u64,
    /// Events without a pod, which the kubelet ignores.
    pub ignored: u64,
    /// Events that were received and dropped because plegctl's own queue was full.
    pub dropped: u64,
    /// Bytes received.
    pub bytes: u64,
    /// How often a relist was made early, to remove pods that are gone from the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crowded: u64,
    /// Time of receipt minus the runtime's time stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Quantiles>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a field over by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Any record that a watch emits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each is named for what it holds")]
pub enum WatchRecord {
    WatchStarted(WatchStarted),
    Event(Event),
    Relist(Relist),
    Stream(Stream),
    Health(Health),
    Silence(Silence),
    Divergence(Divergence),
    WatchSummary(WatchSummary),
}
