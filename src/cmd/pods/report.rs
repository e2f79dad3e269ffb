//! What `plegctl pods` says.

use serde::Serialize;

use crate::clock::Wall;
use crate::manifests::podconfig::{PodRow, Source};

/// One source in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceRow {
    /// Which.
    pub name: Source,
    /// Whether it has been heard.
    pub ready: bool,
    /// How many pods it wants.
    pub pods: usize,
    /// What is wrong with it, or why it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the command says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodsReport")]
pub struct PodsReport {
    /// When.
    pub taken_at: Wall,
    /// Which node.
    pub node: String,
    /// The sources.
    pub sources: Vec<SourceRow>,
    /// The pods.
    pub pods: Vec<PodRow>,
    /// Why the runtime was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_error: Option<String>,
    /// Why the kubelet's own pods are not known, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_error: Option<String>,
}
