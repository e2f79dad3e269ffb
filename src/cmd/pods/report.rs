//! The report of `plegctl pods`, as it is printed in JSON.

use serde::Serialize;

use crate::clock::Wall;
use crate::manifests::podconfig::{ApiServerLink, PodRow, PodSource};

/// One source in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceRow {
    /// The name of the source.
    pub name: PodSource,
    /// Whether the source has been read.
    pub ready: bool,
    /// The number of pods in the source.
    pub pods: usize,
    /// The source's error, or why it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The pods that the kubelet should run, and what runs.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodsReport")]
pub struct PodsReport {
    /// When the sources were read.
    pub taken_at: Wall,
    /// The node's name.
    pub node: String,
    /// The sources.
    pub sources: Vec<SourceRow>,
    /// The pods.
    pub pods: Vec<PodRow>,
    /// Why the runtime was not called.
    pub runtime_error: Option<String>,
    /// Why the kubelet's own pods are unknown, if the kubelet was called.
    pub kubelet_error: Option<String>,
    /// The kubelet's connection to the API server, if the views contradict each other so that it matters.
    pub api_server: Option<ApiServerLink>,
}
