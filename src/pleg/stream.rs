//! The records of a watch, in the order things happen; one compact JSON object a line.

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
    /// Something runs that did not.
    ContainerStarted,
    /// Something that ran or was unknown runs no more.
    ContainerDied,
    /// Something is no longer listed.
    ContainerRemoved,
    /// Something became unknown. The kubelet computes this and drops it.
    ContainerChanged,
    /// A pod was inspected again.
    PodSync,
}

impl EventType {
    /// The kubelet's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::ContainerChanged => "ContainerChanged",
            Self::PodSync => "PodSync",
        }
    }

    /// Whether the kubelet hands such events on at all.
    pub const fn is_delivered(self) -> bool {
        !matches!(self, Self::ContainerChanged)
    }
}

/// Which of the two PLEGs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Relisting.
    Generic,
    /// The runtime's event stream.
    Evented,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
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
    /// When it was handed out.
    pub time: Wall,
    /// Number of the relist, from 1; absent for stream events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist: Option<u64>,
    /// Whether it is of the first relist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub initial: bool,
    /// Which PLEG found it.
    pub source: Source,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Whether the kubelet's sync loop gets it.
    pub delivered: bool,
    /// The pod.
    pub pod: PodRef,
    /// What it is about.
    pub subject: Subject,
    /// Container or sandbox id; absent for `PodSync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Container name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State before; absent for `PodSync` and where the stream does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PlegState>,
    /// State after; absent for `PodSync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PlegState>,
    /// Exit code of a container that died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why a container died, in the runtime's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Receipt minus the runtime's time stamp, for stream events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Seconds>,
}

impl Event {
    /// An event about which nothing more is known.
    pub const fn new(
        time: Wall,
        source: Source,
        event_type: EventType,
        pod: PodRef,
        subject: Subject,
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

/// The watch begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchStarted {
    /// When.
    pub time: Wall,
    /// Which node, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Which runtime.
    pub runtime: RuntimeRef,
    /// `generic`, `evented` or `compare`.
    pub mode: String,
    /// Pause between relists.
    pub period_seconds: Seconds,
    /// From which age on PLEG is unhealthy.
    pub threshold_seconds: Seconds,
    /// The kubelet release whose relist is followed.
    pub kubelet_version: String,
    /// Where that version comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_version_source: Option<String>,
    /// What such a kubelet sees and this watch cannot, where there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_seen: Option<String>,
}

/// A relist is over. Its events came before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Relist {
    /// When it ended.
    pub time: Wall,
    /// Its number, from 1.
    pub relist: u64,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// From the start of the last successful one to the start of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// Whether both lists succeeded.
    pub outcome: Outcome,
    /// Why not.
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
    /// How many events came of it, `ContainerChanged` not counted.
    pub events: u64,
    /// How many pods failed their status fetch and will be asked again.
    pub reinspect: u64,
}

impl Relist {
    /// A relist that went well, found nothing and took no time.
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
    /// It ended, in good order or not.
    Closed,
    /// The kubelet would not try again.
    Fallback,
    /// The kubelet would have crashed here; the watch goes on.
    Panic,
    /// Events were read that there was no room for on our side.
    Dropped,
}

/// The event stream changed its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Stream {
    /// When.
    pub time: Wall,
    /// The new state.
    pub state: StreamState,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// What ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The health of PLEG changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Health {
    /// When.
    pub time: Wall,
    /// The new verdict.
    pub healthy: bool,
    /// The kubelet's text.
    pub message: String,
}

/// A call has had no answer for 5 s, 10 s, 30 s or so many minutes, and goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Silence {
    /// When.
    pub time: Wall,
    /// Its name in the CRI.
    pub rpc: String,
    /// The pod it is made for; absent for the lists of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The container or sandbox asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// For how long.
    pub waited_seconds: Seconds,
}

/// Relisting and the stream do not agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct Divergence {
    /// When.
    pub time: Wall,
    /// The pod.
    pub pod: PodRef,
    /// Container or sandbox id.
    pub id: String,
    /// The event that both, or one, had.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Who alone saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Source>,
    /// How much earlier the stream had it; negative if relisting was first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Seconds>,
    /// Why only one side saw it, where that is known.
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
    /// Of these samples, by nearest rank; `None` without any.
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
    /// Its name in the CRI.
    pub rpc: String,
    /// The pod it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The container or sandbox asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How long it took, or has taken so far.
    pub duration_seconds: Seconds,
    /// Whether it was still open when the watch ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silent_so_far: bool,
}

/// The watch is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct WatchSummary {
    /// When.
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
    /// What became of the event stream, if there was to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSummary>,
    /// How the stream compares with relisting, if both were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Box<CompareSummary>>,
}

/// How the event stream compares with relisting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareSummary {
    /// Whether `EventedPLEG` would be safe on this node, in a sentence.
    pub verdict: String,
    /// Transitions that both had.
    pub both: u64,
    /// Those among them that the stream had first.
    pub evented_first: u64,
    /// Those among them that relisting had first.
    pub generic_first: u64,
    /// Only the stream had them: they were over before a relist could see them.
    pub missed_by_relisting: u64,
    /// Only relisting had them.
    pub missed_by_stream: u64,
    /// The stream had them, but in a way that the kubelet makes nothing of.
    pub withheld: u64,
    /// Only relisting had them, because this runtime tells no stream of removals.
    #[serde(default)]
    pub untold: u64,
    /// Only relisting had them, while the stream was not open.
    pub in_a_gap: u64,
    /// Only one side had them, and nothing is known that would explain it.
    pub unexplained: u64,
    /// Not decided when the watch ended.
    pub undecided: u64,
    /// Repeated by relisting.
    pub duplicates_generic: u64,
    /// Repeated by the stream.
    pub duplicates_evented: u64,
    /// Told after what comes later in a container's life.
    pub out_of_order: u64,
    /// Events that the runtime had kept from before the stream was opened.
    pub leftovers: u64,
    /// Left out because too many containers were to be kept in mind, or by names too long to be any.
    pub not_compared: u64,
    /// How much earlier the stream was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gained_seconds: Option<Quantiles>,
    /// From the runtime's time stamp to the stream's event, of what both had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_seconds: Option<Quantiles>,
    /// From the runtime's time stamp to the relist's event, of what both had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist_seconds: Option<Quantiles>,
    /// Relists made.
    pub relists: u64,
    /// Calls they made.
    pub relist_calls: u64,
    /// Bytes they received.
    pub relist_bytes: u64,
    /// Bytes that the stream brought.
    pub stream_bytes: u64,
    /// Calls that the evented kubelet would not have made.
    pub spared_calls: u64,
    /// Bytes that it would have received: those of the stream, and of a relist now and then.
    pub evented_bytes: u64,
}

/// What became of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamSummary {
    /// How often it was opened.
    pub attempts: u64,
    /// How often the runtime ended it, or could not be reached.
    pub failures: u64,
    /// Whether the kubelet would have given it up.
    pub fell_back: bool,
    /// How often the kubelet would have crashed.
    pub panics: u64,
    /// Events received.
    pub events: u64,
    /// Those among them that say no pod, which the kubelet ignores.
    pub ignored: u64,
    /// Events that were read and that there was no room for on our side.
    pub dropped: u64,
    /// Bytes received.
    pub bytes: u64,
    /// How often everything was listed before its time, because pods that are gone had piled up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crowded: u64,
    /// Receipt minus the runtime's time stamp, over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<Quantiles>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a field over by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Any record of the stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each is named for what it holds")]
pub enum Record {
    WatchStarted(WatchStarted),
    Event(Event),
    Relist(Relist),
    Stream(Stream),
    Health(Health),
    Silence(Silence),
    Divergence(Divergence),
    WatchSummary(WatchSummary),
}
