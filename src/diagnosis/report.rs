//! The types of the report of `plegctl health`. Their field names are the JSON names of the output with `-o json`, which
//! `--from` reads again.

use serde::{Deserialize, Serialize};

use super::facts::{Fact, FactKind};
pub use super::rules::RuleId;
use crate::clock::Wall;
use crate::cri::{Outcome, StreamedAnswer};
use crate::pleg::report::ListCallsReport;
pub use crate::report::{Confidence, ContainerRef, NotChecked, PodRef, Severity};
use crate::report::{Rename, RuntimeRef, Step, word_enum};
use crate::stacks::report::StackReport;

word_enum! {
    /// The verdict in one word.
    #[derive(Default)]
    pub json enum Verdict: as_str {
        /// No finding is worse than *info*.
        Healthy = "healthy",
        /// Something is wrong, but the node does not become `NotReady` because of it.
        Degraded = "degraded",
        /// The runtime or the kubelet makes the node `NotReady`.
        Unhealthy = "unhealthy",
        /// The runtime cannot be judged.
        #[default]
        Unknown = "unknown",
    } ALL
}

word_enum! {
    /// The step of the kubelet's work that is affected.
    #[derive(Default)]
    pub json enum Phase: as_str {
        /// No step is affected, or no step of a relist.
        #[default]
        None = "none",
        /// The connection to the runtime.
        Connect = "connect",
        /// A list call.
        List = "list",
        /// A status call.
        Status = "status",
        /// The kubelet's own work.
        Kubelet = "kubelet",
    }
}

/// One problem that `health` reports.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
// A step is for the node as it was, and its command contains names, so steps are left out.
#[names(Text(title, evidence), Word(rpc), Id(ids), emptied(steps), then(write_words))]
pub struct HealthFinding {
    /// The rule's id.
    pub id: RuleId,
    /// The problem in one line.
    pub title: String,
    /// How bad the problem is.
    pub severity: Severity,
    /// How certain the finding is.
    pub confidence: Confidence,
    /// The affected step.
    pub phase: Phase,
    /// The RPC concerned.
    pub rpc: Option<String>,
    /// The pod concerned.
    pub pod: Option<PodRef>,
    /// The container concerned.
    pub container: Option<ContainerRef>,
    /// The full ids of the sandboxes and containers concerned.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What was measured, in words.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The title and the evidence as data: the first fact is the one of the title.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// The suggested steps, in their order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// For what a task waits in the kernel, if this is the problem.
    pub kernel_reason: Option<KernelReason>,
    /// The id, at the moment of the finding, of the process that the title names.
    pub pid: Option<u32>,
}

/// For what a task waits in the kernel.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Word(id), Process(process), Function(function), Text(owner))]
pub struct KernelReason {
    /// The id in the table of reasons, such as `KR01`; `plegctl explain` describes it.
    pub id: String,
    /// The name of the waiting process.
    pub process: String,
    /// Its process id.
    pub pid: u32,
    /// The kernel function in which it waits.
    pub function: String,
    /// Who or what keeps it waiting, if known: `falcon-sensor[812]`, `10.1.2.3:/export (nfs4)`.
    pub owner: Option<String>,
}

/// How a culprit's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Rename)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CulpritOutcome {
    /// The call has no answer.
    Silent,
    /// The call was answered late.
    Slow,
    /// The call was answered with an error.
    Error,
}

/// One sandbox or container whose status call keeps the kubelet waiting.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Rename)]
#[names(Word(rpc), Id(id), Text(holder), then(write_words))]
pub struct CulpritReport {
    /// The call.
    pub rpc: String,
    /// Full id of the sandbox or container.
    pub id: String,
    /// Its pod.
    pub pod: Option<PodRef>,
    /// The container, if the id is a container's.
    pub container: Option<ContainerRef>,
    /// How long the call took, or has been silent.
    pub waited_seconds: f64,
    /// How the call ended.
    pub outcome: CulpritOutcome,
    /// How sure plegctl is of the outcome.
    pub confidence: Confidence,
    /// What blocks the call, if known.
    pub holder: Option<String>,
    /// The holder as data.
    pub holder_fact: Option<Fact>,
}

/// A pod for which a call of the kubelet may hang, found from outside the node.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[non_exhaustive]
pub struct SuspectReport {
    /// The pod, with the UID that the kubelet uses.
    pub pod: PodRef,
    /// The container, if the call can be about one of the pod's containers only.
    pub container: Option<ContainerRef>,
    /// Why the pod is suspected, as data.
    pub reasons: Vec<Fact>,
    /// How likely it is that the call is about this pod; never *certain*.
    pub confidence: Confidence,
}

/// One probe and how it ended.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Rename)]
#[names(Word(name), Text(message))]
pub struct ProbeReport {
    /// The probe's name; for a call the RPC's name.
    pub name: String,
    /// The outcome; for several calls the worst one.
    pub outcome: Outcome,
    /// The duration; for several calls the sum.
    pub duration_seconds: f64,
    /// Bytes received.
    pub response_bytes: Option<u64>,
    /// What has arrived of a streamed list, also if the call failed.
    pub stream: Option<StreamedAnswer>,
    /// The number of calls that this entry summarises, if more than one.
    pub calls: Option<usize>,
    /// The error message.
    pub message: Option<String>,
}

/// A value on which the estimate is based, and its source.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Rename)]
#[names(Text(what, value, source))]
pub struct Basis {
    /// The name of the value.
    pub what: String,
    /// The value, as text.
    pub value: String,
    /// The flag, file or metric that has the value.
    pub source: String,
}

/// An estimate of the kubelet's serial relist, and whether it exceeds the threshold.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(Text(other_era))]
pub struct EstimateReport {
    /// The duration of a relist now: the two lists, the status calls for the pods that changed within a minute, and the
    /// kubelet's time-out for each hung call. Absent if the runtime does not answer.
    pub serial_relist_seconds: Option<f64>,
    /// The duration of a relist with status calls for all pods, as after a restart of the kubelet. Absent if the runtime does
    /// not answer.
    pub full_relist_seconds: Option<f64>,
    /// The number of calls that reach the kubelet's time-out in each relist.
    pub hung_calls: usize,
    /// Pods that changed within the last minute.
    pub changed_pods: usize,
    /// The kubelet's time-out of one runtime call.
    pub request_timeout_seconds: f64,
    /// The age of the last relist at which PLEG is unhealthy.
    pub threshold_seconds: f64,
    /// The highest age that PLEG reaches before each successful relist; absent if no relist succeeds.
    pub peak_age_seconds: Option<f64>,
    /// Whether the peak age exceeds the threshold.
    pub would_trip: bool,
    /// Whether PLEG becomes healthy again between two relists.
    pub flaps: bool,
    /// The time at which the node becomes `NotReady`, at the latest. It stays the same for one hang, also when it is over.
    /// Absent if the node stays Ready or is known to be `NotReady`.
    pub not_ready_at: Option<Wall>,
    /// The time since which the node has been `NotReady`, according to its condition or to the kubelet.
    pub not_ready_since: Option<Wall>,
    /// The values on which the estimate is based.
    pub basis: Vec<Basis>,
    /// A note if the estimate exceeds the threshold only for a kubelet of another era, or only for this one.
    pub other_era: Option<String>,
}

/// The kubelet's process and answers.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(Version(version), Word(healthz), Text(disagreements, not_accepted))]
pub struct KubeletReport {
    /// The process id.
    pub pid: Option<u32>,
    /// The release.
    pub version: Option<String>,
    /// `ok`, or the answer of `/healthz`.
    pub healthz: Option<String>,
    /// The age of the last relist, by the kubelet's own metric.
    pub pleg_age_seconds: Option<f64>,
    /// The number of events that the kubelet discarded.
    pub discarded_events: Option<f64>,
    /// The age of the metrics, if they come from a file.
    pub reading_age_seconds: Option<f64>,
    /// Whether the kubelet reads the runtime's event stream.
    pub evented_pleg: Option<bool>,
    /// Contradictions between the kubelet's metrics and plegctl's measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    /// Why the kubelet's API refused plegctl's credential, or plegctl the API's certificate.
    pub not_accepted: Option<String>,
}

word_enum! {
    /// Who gave the verdict, if plegctl did not query the runtime itself.
    pub json enum SourceKind: as_str {
        /// The recorder on the node.
        Recorder = "recorder",
        /// The kubelet's own endpoints.
        Kubelet = "kubelet",
    }
}

/// The source of a verdict, if plegctl did not query the runtime itself. Every age is by the clock of the source.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Rename)]
#[names(Pod(pod), Text(no_recorder))]
pub struct ReportSource {
    /// The source.
    pub kind: SourceKind,
    /// The namespace and the name of the recorder's pod, if it was reached through the API server.
    pub pod: Option<String>,
    /// When the present state began: the beginning of the open incident, or the end of the last one.
    pub since: Option<Wall>,
    /// The number of the open incident.
    pub incident: Option<u64>,
    /// The age of the diagnosis.
    pub diagnosis_age_seconds: Option<f64>,
    /// The time since the end of the last relist whose list calls succeeded.
    pub last_relist_age_seconds: Option<f64>,
    /// How far the node's clock is ahead of the API server's clock; negative if it is behind.
    pub clock_ahead_seconds: Option<f64>,
    /// Why the kubelet is the source and not a recorder.
    pub no_recorder: Option<String>,
}

/// A moment of a capture.
#[crate::report::document_part]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
pub struct JudgedMoment {
    /// The moment.
    pub time: Wall,
    /// The incident whose worst moment was chosen.
    pub incident: Option<u64>,
}

/// The verdict of `health` on a node, with findings and culprits.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(Word(api_version, kind), Node(node), Text(summary), emptied(keep, stacks), then(write_words))]
pub struct HealthReport {
    /// `plegctl/v1`
    pub api_version: String,
    /// `HealthReport`
    pub kind: String,
    /// When the probing began.
    pub taken_at: Wall,
    /// The moment of a capture that was judged.
    pub moment: Option<JudgedMoment>,
    /// The source of the verdict, if plegctl did not query the runtime itself.
    pub source: Option<ReportSource>,
    /// The node's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The list calls, and why they were made.
    pub list_calls: Option<ListCallsReport>,
    /// How long the diagnosis took.
    pub duration_seconds: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The affected step.
    pub phase: Phase,
    /// The reason for the verdict, in one sentence.
    #[serde(default)]
    pub summary: String,
    /// The most important finding, the same as the first of `findings`.
    pub primary: Option<HealthFinding>,
    /// All findings, the most important one first.
    pub findings: Vec<HealthFinding>,
    /// The calls that keep the kubelet waiting, the most certain one first.
    #[serde(default)]
    pub culprits: Vec<CulpritReport>,
    /// The pods for which a call of the kubelet may hang, the most suspicious first, if the node was judged from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectReport>,
    /// All probes.
    pub probes: Vec<ProbeReport>,
    /// The number of calls that were given up and may still be pending in the runtime.
    pub abandoned_calls: usize,
    /// What could not be checked, with the reasons.
    pub not_checked: Vec<NotChecked>,
    /// The estimate of a relist.
    pub estimate: Option<EstimateReport>,
    /// The kubelet's process and answers.
    pub kubelet: Option<KubeletReport>,
    /// The steps that save evidence, to be done before anything is restarted.
    #[serde(default)]
    pub keep: Vec<Step>,
    /// The judged goroutine dump of the runtime, for a bundle. It is not part of the JSON document; `plegctl stacks` prints
    /// it.
    #[serde(skip)]
    pub stacks: Option<StackReport>,
}

impl HealthReport {
    /// Value of `apiVersion`.
    pub const API_VERSION: &'static str = crate::report::API_VERSION;
    /// Value of `kind`.
    pub const KIND: &'static str = "HealthReport";

    /// Creates a report that says nothing yet.
    pub fn new(taken_at: Wall) -> Self {
        let (api_version, kind) = (Self::API_VERSION.to_owned(), Self::KIND.to_owned());
        Self { api_version, kind, taken_at, ..Self::default() }
    }

    /// Returns the first line of the report as a fact: the verdict and the most important finding.
    pub fn verdict_fact(&self) -> Fact {
        verdict_fact(self.verdict, self.primary.as_ref())
    }

    /// Writes the words that depend on names again. The reason why nothing is known is in no fact.
    fn write_words(&mut self) {
        if let Some(primary) = self.primary.as_ref().filter(|_| self.verdict != Verdict::Unknown) {
            self.summary.clone_from(&primary.title);
        }
    }

    /// Returns whether `apiVersion` and `kind` are those of this document.
    pub fn is_ours(&self) -> bool {
        self.api_version == Self::API_VERSION && self.kind == Self::KIND
    }
}

impl HealthFinding {
    /// Writes the title and the evidence as the facts say. A finding of a release without facts keeps its texts.
    fn write_words(&mut self) {
        if let Some((title, evidence)) = self.facts.split_first() {
            self.title = title.to_string();
            self.evidence = evidence.iter().map(ToString::to_string).collect();
        }
    }
}

impl CulpritReport {
    /// Writes the holder as its fact says. A culprit of a release without this fact keeps its text.
    fn write_words(&mut self) {
        if let Some(fact) = &self.holder_fact {
            self.holder = Some(fact.to_string());
        }
    }
}

/// Returns the first line of a report as a fact.
pub fn verdict_fact(verdict: Verdict, primary: Option<&HealthFinding>) -> Fact {
    let found = |primary: &HealthFinding| FactKind::DiagnosisFound {
        verdict,
        what: Box::new(primary.facts.first().cloned().unwrap_or_else(|| Fact::line(primary.title.clone()))),
        rule: primary.id,
        confidence: primary.confidence,
    };
    primary.map_or(FactKind::DiagnosisFoundNothing { verdict }, found).into()
}
