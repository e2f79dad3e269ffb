//! [`NodesReport`]: the report of `plegctl nodes`, as it is printed in JSON.

use serde::Serialize;

use super::recorders::RecorderReport;
use crate::clock::Wall;
use crate::diagnosis::VerdictFacts;
use crate::diagnosis::report::Verdict;
use crate::report::{NotChecked, Seconds, word_enum};

word_enum! {
    /// The verdict on a node, from good to bad.
    #[derive(Default, PartialOrd, Ord)]
    pub json enum NodeVerdict: as_str {
        /// PLEG relists normally. Without a recorder's verdict, the runtime was not looked at.
        Healthy = "healthy",
        /// The user may not read the node, or the answer cannot be used.
        #[default]
        Unknown = "unknown",
        /// PLEG is slow or close to the threshold, or the node is not ready for another reason.
        Degraded = "degraded",
        /// The kubelet cannot be reached.
        Unreachable = "unreachable",
        /// The kubelet answers `/configz` but not `/metrics`, and no recorder has a verdict.
        Silent = "silent",
        /// PLEG's age is over the threshold, or the kubelet reports that PLEG is unhealthy.
        Unhealthy = "unhealthy",
    }
}

impl NodeVerdict {
    /// All verdicts, the worst first.
    pub const ALL: [Self; 6] =
        [Self::Unhealthy, Self::Silent, Self::Unreachable, Self::Degraded, Self::Unknown, Self::Healthy];
}

/// The PLEG of every node of a cluster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "NodesReport")]
pub struct NodesReport {
    /// When the last node was read.
    pub taken_at: Wall,
    /// The API server.
    pub server: String,
    /// The kubeconfig context.
    pub context: String,
    /// The number of nodes by verdict.
    pub counts: NodeCounts,
    /// The nodes, the worst first.
    pub nodes: Vec<NodeReport>,
    /// What plegctl could not check on any node, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
}

/// The number of nodes by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All nodes.
    pub nodes: u64,
    /// The healthy nodes.
    pub healthy: u64,
    /// The nodes that could not be judged.
    pub unknown: u64,
    /// The degraded nodes.
    pub degraded: u64,
    /// The nodes that could not be reached.
    pub unreachable: u64,
    /// The silent nodes.
    pub silent: u64,
    /// The unhealthy nodes.
    pub unhealthy: u64,
}

impl NodeCounts {
    pub(super) const fn add(&mut self, verdict: NodeVerdict) {
        self.nodes += 1;
        *self.count_of(verdict) += 1;
    }

    /// Returns the number of nodes with this verdict.
    pub const fn with_verdict(mut self, verdict: NodeVerdict) -> u64 {
        *self.count_of(verdict)
    }

    const fn count_of(&mut self, verdict: NodeVerdict) -> &mut u64 {
        match verdict {
            NodeVerdict::Healthy => &mut self.healthy,
            NodeVerdict::Unknown => &mut self.unknown,
            NodeVerdict::Degraded => &mut self.degraded,
            NodeVerdict::Unreachable => &mut self.unreachable,
            NodeVerdict::Silent => &mut self.silent,
            NodeVerdict::Unhealthy => &mut self.unhealthy,
        }
    }
}

/// One node.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The node's name.
    pub name: String,
    /// The verdict on the node.
    pub verdict: NodeVerdict,
    /// The same verdict in the words of `health`.
    #[serde(skip)]
    pub judged: Verdict,
    /// The facts by which the node was judged.
    #[serde(skip)]
    pub facts: VerdictFacts,
    /// Why the node is not healthy.
    pub why: Option<String>,
    /// Whether the Ready condition is true.
    pub ready: Option<bool>,
    /// The version of the node's kubelet.
    pub kubelet_version: Option<String>,
    /// The node's container runtime.
    pub runtime: Option<NodeRuntime>,
    /// The age of the last successful relist, by the server's clock.
    pub pleg_age_seconds: Option<f64>,
    /// The number of relists since the kubelet's start.
    pub relists: Option<f64>,
    /// The durations of the relists since the kubelet's start.
    pub relist_seconds: Option<RelistSeconds>,
    /// The number of relists since the previous reading.
    pub recent_relists: Option<f64>,
    /// The durations of the relists since the previous reading.
    pub recent_relist_seconds: Option<RelistSeconds>,
    /// The number of events that the kubelet has lost since its start.
    pub discarded_events: Option<f64>,
    /// The number of failed calls to the runtime since the kubelet's start.
    pub runtime_errors: Option<f64>,
    /// Whether the kubelet uses `EventedPLEG`.
    pub evented_pleg: Option<bool>,
    /// What the node's recorder answers; absent if no recorder's pod runs on the node, or none was asked.
    pub recorder: Option<RecorderReport>,
    /// The time that the requests took.
    pub duration_seconds: Seconds,
}

impl NodeReport {
    /// Whether the node's recorder has a verdict on it.
    pub fn has_recorders_verdict(&self) -> bool {
        let verdict = self.recorder.as_ref().and_then(|recorder| recorder.verdict);
        verdict.is_some_and(|verdict| verdict != Verdict::Unknown)
    }
}

/// The container runtime that a node reports to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeRuntime {
    /// The runtime's name.
    pub name: String,
    /// The runtime's version.
    pub version: String,
}

impl NodeRuntime {
    /// Parses `containerd://2.1.4`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = text.split_once("://")?;
        Some(Self { name: name.to_owned(), version: version.to_owned() })
    }
}

/// The quantiles of a histogram of relists.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RelistSeconds {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The quantiles that are only lower bounds, because the kubelet's histogram ends at 10 s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<&'static str>,
}
