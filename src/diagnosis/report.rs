//! What `health` says, as data: the JSON of the contract, read back by `--from`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::cri::Outcome;
use crate::report::RuntimeRef;
pub use crate::report::{Confidence, ContainerRef, NotChecked, PodRef, Severity};
use crate::stacks::report::StackReport;

/// Number of an entry in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the title of each is in `rules::CATALOGUE`")]
#[rustfmt::skip]
pub enum RuleId {
    D00, D01, D02, D03, D04, D05, D06, D07, D08, D09, D10, D11, D12, D13, D14, D15, D16, D17, D18, D19, D20,
    D21, D22, D23, D24, D25, D26, D27, D28, D29, D30, D31, D32, D33, D34, D35,
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing found that matters.
    Healthy,
    /// Something is wrong; the node does not become `NotReady` by it.
    Degraded,
    /// The kubelet would be `NotReady` by the runtime's fault.
    Unhealthy,
    /// The path cannot be judged.
    Unknown,
}

impl Verdict {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
            Self::Unknown => "unknown",
        }
    }
}

/// Where in the kubelet's relist the trouble sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Nowhere, or not in a relist.
    None,
    /// The runtime is not reached.
    Connect,
    /// One of the two lists.
    List,
    /// A status call.
    Status,
    /// The kubelet's own loop.
    Kubelet,
}

impl Phase {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Connect => "connect",
            Self::List => "list",
            Self::Status => "status",
            Self::Kubelet => "kubelet",
        }
    }
}

/// One diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Entry of the catalogue.
    pub id: RuleId,
    /// One line that says it.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// How sure we are.
    pub confidence: Confidence,
    /// Where in the relist.
    pub phase: Phase,
    /// The call it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<String>,
    /// The pod it is about.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::report::optional_pod")]
    pub pod: Option<PodRef>,
    /// The container it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRef>,
    /// Full ids of sandboxes and containers it is about.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What was seen.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What to do, in order.
    #[serde(default)]
    pub next: Vec<String>,
}

/// How a culprit kept us waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CulpritOutcome {
    /// It was not answered.
    Silent,
    /// It was answered late.
    Slow,
    /// It was answered with an error.
    Error,
}

/// One sandbox or container whose status call keeps the kubelet waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CulpritReport {
    /// The call.
    pub rpc: String,
    /// Full id of the sandbox or container.
    pub id: String,
    /// Its pod.
    #[serde(default, with = "crate::report::optional_pod", skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The container, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRef>,
    /// How long it took, or has been waited for.
    pub waited_seconds: f64,
    /// How it ended.
    pub outcome: CulpritOutcome,
    /// How sure we are of that.
    pub confidence: Confidence,
    /// What holds it up, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// One probe and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport {
    /// Its name; the RPC's where it is one.
    pub name: String,
    /// How it ended; for several calls the worst of them.
    pub outcome: Outcome,
    /// How long it took; for several calls their sum.
    pub duration_seconds: f64,
    /// Bytes received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<u64>,
    /// How many calls this line stands for, if not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<usize>,
    /// What the other side said, if it was not an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A figure that the estimate rests on and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Basis {
    /// Which figure.
    pub what: String,
    /// Its value, as text.
    pub value: String,
    /// The flag, file or series that said so.
    pub source: String,
}

/// How long the kubelet's serial relist would take now, and what follows from that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimateReport {
    /// The lists, the pods that changed within a minute, and every hung call at the kubelet's time-out.
    pub serial_relist_seconds: f64,
    /// A relist that visits every pod, as the first one after a kubelet restart does.
    pub full_relist_seconds: f64,
    /// Calls that would run into the kubelet's time-out in each relist.
    pub hung_calls: usize,
    /// Pods that changed within the last minute.
    pub changed_pods: usize,
    /// The kubelet's time-out of one call.
    pub request_timeout_seconds: f64,
    /// Age of the last relist at which PLEG is called unhealthy.
    pub threshold_seconds: f64,
    /// The age that PLEG would reach in each cycle; absent where it grows without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_age_seconds: Option<f64>,
    /// Whether that is over the threshold.
    pub would_trip: bool,
    /// Whether the node would come back between two relists.
    pub flaps: bool,
    /// What the figures rest on.
    pub basis: Vec<Basis>,
    /// Present when a kubelet of another era would come to another verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_era: Option<String>,
}

/// What the kubelet says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletReport {
    /// Process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `ok`, or what `/healthz` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthz: Option<String>,
    /// Age of the last relist by the kubelet's own metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pleg_age_seconds: Option<f64>,
    /// Events that it threw away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_events: Option<f64>,
    /// How old the reading of its metrics was when it was used, if it came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading_age_seconds: Option<f64>,
    /// Whether it listens to the runtime's event stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evented_pleg: Option<bool>,
    /// Where what it says and what was measured here do not agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    /// Why its API was of no use: a credential or a certificate is not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_accepted: Option<String>,
}

/// A moment of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgedMoment {
    /// When it was.
    pub at: Wall,
    /// The incident of which it is the worst moment, if it was chosen as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
}

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// `plegctl/v1`
    pub api_version: String,
    /// `HealthReport`
    pub kind: String,
    /// When the probing began.
    pub taken_at: Wall,
    /// The moment of a capture that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<JudgedMoment>,
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// How long the diagnosis took.
    pub duration_seconds: f64,
    /// The answer.
    pub verdict: Verdict,
    /// Where in the relist.
    pub phase: Phase,
    /// The verdict's reason in one sentence.
    #[serde(default)]
    pub summary: String,
    /// The finding to start with, the same as the first of `findings`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Finding>,
    /// All of them, the one to start with first.
    pub findings: Vec<Finding>,
    /// Who keeps the kubelet waiting, the surest first.
    #[serde(default)]
    pub culprits: Vec<CulpritReport>,
    /// Every probe.
    pub probes: Vec<ProbeReport>,
    /// Calls that were given up and may still be pending in the runtime.
    pub abandoned_calls: usize,
    /// What could not be looked at.
    pub not_checked: Vec<NotChecked>,
    /// How long a relist would take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateReport>,
    /// What the kubelet says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletReport>,
    /// What to save before anybody restarts anything.
    #[serde(default)]
    pub keep: Vec<String>,
    /// What the runtime's goroutines said, for whoever keeps it: `plegctl stacks` has a document of its own.
    #[serde(skip)]
    pub stacks: Option<StackReport>,
}

impl HealthReport {
    /// Value of `apiVersion`.
    pub const API_VERSION: &'static str = crate::report::API_VERSION;
    /// Value of `kind`.
    pub const KIND: &'static str = "HealthReport";

    /// Whether this is a document of the kind that [`Self`] reads.
    pub fn is_ours(&self) -> bool {
        self.api_version == Self::API_VERSION && self.kind == Self::KIND
    }
}
