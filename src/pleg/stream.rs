//! The records that `watch` emits as JSON, one compact object per line: events, relists, states of the event stream, health,
//! silent calls, divergences and the summary.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calls::CallRecord;
use super::pods::PlegState;
use super::report::ListCallsReport;
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::report::{PodRef, RuntimeRef, Seconds, word_enum};

word_enum! {
    /// Type of a pod lifecycle event.
    #[derive(Hash, PartialOrd, Ord)]
    pub json enum EventType: as_str {
        /// A container or sandbox that was not running is running.
        ContainerStarted = "ContainerStarted",
        /// A container or sandbox that was running or unknown is no longer running.
        ContainerDied = "ContainerDied",
        /// A container or sandbox is no longer listed.
        ContainerRemoved = "ContainerRemoved",
        /// The state of a container or sandbox became unknown. The kubelet computes this event and drops it.
        ContainerChanged = "ContainerChanged",
        /// A pod was inspected again.
        PodSync = "PodSync",
    }
}

impl EventType {
    /// Whether the kubelet delivers events of this type to its sync loop.
    pub const fn is_delivered(self) -> bool {
        !matches!(self, Self::ContainerChanged)
    }
}

/// The PLEG that emits an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventSource {
    /// The generic PLEG, which relists.
    Generic,
    /// The evented PLEG, which reads the runtime's event stream.
    Evented,
}

/// The kind of item that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventSubject {
    /// A container.
    Container,
    /// A pod sandbox.
    Sandbox,
    /// The pod as a whole.
    Pod,
}

/// A pod lifecycle event, delivered or not.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Event {
    /// When the event was emitted.
    pub time: Wall,
    /// The number of the relist, from 1; absent for stream events.
    pub relist: Option<u64>,
    /// Whether the event belongs to the first relist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub initial: bool,
    /// The PLEG that emitted the event.
    pub source: EventSource,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Whether the kubelet's sync loop receives the event.
    pub delivered: bool,
    /// The pod.
    pub pod: PodRef,
    /// Whether the event is about a container, a sandbox or the pod.
    pub subject: EventSubject,
    /// The id of the container or sandbox; absent for `PodSync`.
    pub id: Option<String>,
    /// The name of the container.
    pub name: Option<String>,
    /// The state before; absent for `PodSync`, and if the stream does not report it.
    pub from: Option<PlegState>,
    /// The state after; absent for `PodSync`.
    pub to: Option<PlegState>,
    /// The exit code of a container that died.
    pub exit_code: Option<i32>,
    /// The runtime's one-word reason why a container died.
    pub reason: Option<String>,
    /// The time of receipt minus the runtime's time stamp, for stream events.
    pub latency_seconds: Option<Seconds>,
}

impl Event {
    /// Creates an event without optional fields.
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

/// The record of the start of the watch.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchStarted {
    /// When the watch started.
    pub time: Wall,
    /// The node's name, if it is known.
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// `generic`, `evented` or `compare`.
    pub mode: String,
    /// The pause between relists.
    pub period_seconds: Seconds,
    /// The age at which PLEG is unhealthy.
    pub threshold_seconds: Seconds,
    /// The kubelet release whose way of relisting is used.
    pub kubelet_version: String,
    /// The source from which the kubelet release is known.
    pub kubelet_version_source: Option<String>,
    /// The list calls, and why they are made.
    pub list_calls: Option<ListCallsReport>,
    /// The changes that a kubelet of this release sees and this watch cannot see, as a sentence.
    pub not_seen: Option<String>,
}

/// The record of a relist that has ended. The records of its events come before this record.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Relist {
    /// When the relist ended.
    pub time: Wall,
    /// The number of the relist, from 1.
    pub relist: u64,
    /// The duration of the relist.
    pub duration_seconds: Seconds,
    /// The time from the start of the last successful relist to the start of this one.
    pub interval_seconds: Option<Seconds>,
    /// Whether both list calls succeeded.
    pub outcome: Outcome,
    /// Why a list call failed.
    pub error: Option<String>,
    /// All calls of the relist.
    pub calls: Vec<CallRecord>,
    /// The number of listed pods.
    pub pods: u64,
    /// The number of listed sandboxes.
    pub sandboxes: u64,
    /// The number of listed containers.
    pub containers: u64,
    /// The number of events that the relist caused, without `ContainerChanged`.
    pub events: u64,
    /// The number of pods whose status fetch failed and that will be inspected again.
    pub reinspect: u64,
}

impl Relist {
    /// Creates a successful relist without pods, calls or duration.
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

/// The state of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StreamState {
    /// A stream is open.
    Connected,
    /// The stream has ended, with or without an error.
    Closed,
    /// The kubelet would give the stream up.
    Fallback,
    /// The kubelet would have crashed here; the watch continues.
    Panic,
    /// Events were received and dropped because plegctl's own queue was full.
    Dropped,
}

/// The record of a change of the event stream's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Stream {
    /// When the state changed.
    pub time: Wall,
    /// The new state.
    pub state: StreamState,
    /// The number of the attempt to open the stream, from 1.
    pub attempt: u32,
    /// The reason for the change, for example why the stream ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The record of a change of PLEG's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Health {
    /// When the health changed.
    pub time: Wall,
    /// Whether PLEG is healthy now.
    pub healthy: bool,
    /// The kubelet's message.
    pub message: String,
}

/// The record of a call that is open and has had no answer for 5 s, 10 s, 30 s or a number of minutes.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Silence {
    /// When the silence was reported.
    pub time: Wall,
    /// The name of the RPC.
    pub rpc: String,
    /// The pod that the call is for; absent for a list of all pods.
    pub pod: Option<PodRef>,
    /// The id of the container or sandbox.
    pub id: Option<String>,
    /// The time since the call was sent.
    pub waited_seconds: Seconds,
}

/// The record of a transition that only relisting or only the event stream reported, or that relisting reported first.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Divergence {
    /// When the divergence was decided.
    pub time: Wall,
    /// The pod.
    pub pod: PodRef,
    /// The id of the container or sandbox.
    pub id: String,
    /// The type of the transition.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The only side that reported the transition.
    pub only: Option<EventSource>,
    /// The time by which the stream reported the transition earlier; negative if relisting was first.
    pub latency_seconds: Option<Seconds>,
    /// Why only one side reported the transition, if that is known.
    pub why: Option<String>,
}

/// Quantiles of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// The median.
    pub p50: Seconds,
    /// The 90th percentile.
    pub p90: Seconds,
    /// The 99th percentile.
    pub p99: Seconds,
    /// The largest value.
    pub max: Seconds,
}

/// One of the slowest calls.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlowCall {
    /// The name of the RPC.
    pub rpc: String,
    /// The pod that the call was for.
    pub pod: Option<PodRef>,
    /// The id of the container or sandbox.
    pub id: Option<String>,
    /// The duration of the call, or the time since it was sent if it is still open.
    pub duration_seconds: Seconds,
    /// Whether the call was still open when the watch ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent_so_far: bool,
}

/// The record of the end of the watch.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchSummary {
    /// When the watch ended.
    pub time: Wall,
    /// The number of relists.
    pub relists: u64,
    /// The number of failed relists.
    pub failed: u64,
    /// The number of delivered events, by type.
    pub events: BTreeMap<EventType, u64>,
    /// The durations of relists.
    pub relist_seconds: Option<Quantiles>,
    /// The times between the starts of relists.
    pub interval_seconds: Option<Quantiles>,
    /// The slowest calls, slowest first.
    pub slowest: Vec<SlowCall>,
    /// The totals of the event stream, if one was opened.
    pub stream: Option<StreamSummary>,
    /// The comparison of the stream with relisting, if both were watched.
    pub compare: Option<Box<CompareSummary>>,
}

/// The comparison of the event stream with relisting.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompareSummary {
    /// A sentence about whether `EventedPLEG` would be safe on this node.
    pub verdict: String,
    /// The number of transitions that both sides reported.
    pub both: u64,
    /// The number of transitions that the stream reported first.
    pub evented_first: u64,
    /// The number of transitions that relisting reported first.
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
    /// The times by which the stream was earlier than relisting.
    pub gained_seconds: Option<Quantiles>,
    /// The times from the runtime's time stamp to the stream's event, for transitions that both sides reported.
    pub stream_seconds: Option<Quantiles>,
    /// The times from the runtime's time stamp to the relist's event, for transitions that both sides reported.
    pub relist_seconds: Option<Quantiles>,
    /// The number of relists.
    pub relists: u64,
    /// The number of calls that the relists made.
    pub relist_calls: u64,
    /// The number of bytes that the relists received.
    pub relist_bytes: u64,
    /// The number of bytes received from the stream.
    pub stream_bytes: u64,
    /// The number of calls that a kubelet with the evented PLEG would not have made.
    pub spared_calls: u64,
    /// The number of bytes that a kubelet with the evented PLEG would have received: the stream, and a relist every five
    /// minutes.
    pub evented_bytes: u64,
}

/// The totals of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StreamSummary {
    /// The number of times that the stream was opened.
    pub attempts: u64,
    /// The number of times that the runtime ended the stream or could not be reached.
    pub failures: u64,
    /// Whether the kubelet would have given the stream up.
    pub fell_back: bool,
    /// The number of times that the kubelet would have crashed.
    pub panics: u64,
    /// The number of received events.
    pub events: u64,
    /// The number of events without a pod, which the kubelet ignores.
    pub ignored: u64,
    /// The number of events that were received and dropped because plegctl's own queue was full.
    pub dropped: u64,
    /// The number of received bytes.
    pub bytes: u64,
    /// The number of early relists, which removed pods from the cache that no longer existed.
    #[serde(default, skip_serializing_if = "crate::report::is_zero")]
    pub crowded: u64,
    /// For each event, the time of receipt minus the runtime's time stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Quantiles>,
}

/// Any record that a watch emits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[expect(missing_docs, reason = "each variant has the name of its content")]
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
