//! What `plegctl nodes` says.

use serde::Serialize;

use crate::clock::Wall;
use crate::report::Seconds;

/// How it is with a node, the better first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    /// Relists come and go.
    Healthy,
    /// It may not be read, or says something else.
    #[default]
    Unknown,
    /// On the way to be unhealthy, or slow.
    Degraded,
    /// Nothing of it answers, or the API server does not get through.
    Unreachable,
    /// Its metrics hang while its configuration answers.
    Silent,
    /// Its PLEG is over the threshold, or it says so itself.
    Unhealthy,
}

impl NodeVerdict {
    /// All, the worst first.
    pub const ALL: [Self; 6] =
        [Self::Unhealthy, Self::Silent, Self::Unreachable, Self::Degraded, Self::Unknown, Self::Healthy];

    /// As it is written everywhere.
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

/// The whole document.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename = "NodesReport")]
pub struct NodesReport {
    /// When the last node had answered.
    pub taken_at: Wall,
    /// The API server.
    pub server: String,
    /// The context of the kubeconfig.
    pub context: String,
    /// How many nodes are how.
    pub counts: Counts,
    /// The nodes, the worst first.
    pub nodes: Vec<NodeReport>,
}

/// How many nodes are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
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

impl Counts {
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

    /// How many are so.
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
    /// How it is.
    pub verdict: NodeVerdict,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The condition Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// What its kubelet calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// Age of the last relist that succeeded, by the clock of who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pleg_age_seconds: Option<f64>,
    /// Its relists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relists: Option<Relists>,
    /// Events that it lost since it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discarded_events: Option<f64>,
    /// Calls to the runtime that failed since it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_errors: Option<f64>,
    /// Whether it uses `EventedPLEG`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evented_pleg: Option<bool>,
    /// What asking it took.
    pub took_seconds: Seconds,
}

/// The relists of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Relists {
    /// Since its kubelet started.
    pub count: f64,
    /// Median since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<QuantileReport>,
    /// 99th percentile since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<QuantileReport>,
    /// 99th percentile since the look before this one: the trend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_p99: Option<QuantileReport>,
    /// Relists since the look before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_count: Option<f64>,
}

/// A quantile in a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuantileReport {
    /// Its value, or the bound that it lies beyond.
    pub seconds: f64,
    /// Whether it lies beyond: the kubelet tells nothing above 10 s apart.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond: bool,
}
