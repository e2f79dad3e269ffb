//! The report of `plegctl nodes`.

use serde::Serialize;

use crate::clock::Wall;
use crate::report::Seconds;

/// The verdict on a node, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    /// PLEG relists normally.
    Healthy,
    /// The node may not be read, or its answer cannot be parsed.
    #[default]
    Unknown,
    /// PLEG is close to being unhealthy, or slow.
    Degraded,
    /// The kubelet cannot be reached.
    Unreachable,
    /// The metrics request hangs while the configuration is answered.
    Silent,
    /// PLEG's age is over the threshold, or the kubelet reports that PLEG is unhealthy.
    Unhealthy,
}

impl NodeVerdict {
    /// All verdicts, the worst first.
    pub const ALL: [Self; 6] =
        [Self::Unhealthy, Self::Silent, Self::Unreachable, Self::Degraded, Self::Unknown, Self::Healthy];

    /// The name in JSON and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
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
}

/// The number of nodes by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All.
    pub nodes: u64,
    /// Healthy ones.
    pub healthy: u64,
    /// Those that could not be judged.
    pub unknown: u64,
    /// Degraded ones.
    pub degraded: u64,
    /// Those that are not reached.
    pub unreachable: u64,
    /// Silent ones.
    pub silent: u64,
    /// Unhealthy ones.
    pub unhealthy: u64,
}

impl NodeCounts {
    pub(super) const fn add(&mut self, verdict: NodeVerdict) {
        self.nodes += 1;
        *(match verdict {
            NodeVerdict::Healthy => &mut self.healthy,
            NodeVerdict::Unknown => &mut self.unknown,
            NodeVerdict::Degraded => &mut self.degraded,
            NodeVerdict::Unreachable => &mut self.unreachable,
            NodeVerdict::Silent => &mut self.silent,
            NodeVerdict::Unhealthy => &mut self.unhealthy,
        }) += 1;
    }

    /// The number of nodes with this verdict.
    pub const fn of(&self, verdict: NodeVerdict) -> u64 {
        match verdict {
            NodeVerdict::Healthy => self.healthy,
            NodeVerdict::Unknown => self.unknown,
            NodeVerdict::Degraded => self.degraded,
            NodeVerdict::Unreachable => self.unreachable,
            NodeVerdict::Silent => self.silent,
            NodeVerdict::Unhealthy => self.unhealthy,
        }
    }
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Its verdict.
    pub verdict: NodeVerdict,
    /// Why the node is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the Ready condition is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The version of its kubelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// The age of the last successful relist, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pleg_age_seconds: Option<f64>,
    /// Its relists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relists: Option<Relists>,
    /// The number of events that the kubelet has lost since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discarded_events: Option<f64>,
    /// The number of failed calls to the runtime since the kubelet's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_errors: Option<f64>,
    /// Whether the kubelet uses `EventedPLEG`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evented_pleg: Option<bool>,
    /// The time that the requests took.
    pub took_seconds: Seconds,
}

/// The relists of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Relists {
    /// The number since the kubelet's start.
    pub count: f64,
    /// The median since the kubelet's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<QuantileReport>,
    /// The 99th percentile since the kubelet's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<QuantileReport>,
    /// The 99th percentile since the previous reading, which shows the trend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_p99: Option<QuantileReport>,
    /// The number of relists since the previous reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_count: Option<f64>,
}

/// A quantile in the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuantileReport {
    /// The value, or the lower bound of the last bucket.
    pub seconds: f64,
    /// Whether the value is beyond the last bound: the kubelet's histogram ends at 10 s.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond: bool,
}
