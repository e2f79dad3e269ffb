//! The JSON document of one relist, [`RelistReport`], which `relist --save` writes and `diff` reads.

use serde::{Deserialize, Serialize};

use super::calls::CallRecord;
use super::pods::{KubeletState, ListedPod, PlegState};
use super::status::PodStatus;
use crate::clock::Wall;
use crate::cri::{Labels, Rpc};
use crate::kubelet::KubeletLists;
use crate::report::{API_VERSION, PodRef, Rename, RuntimeRef, Seconds};

/// The result of one relist.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct RelistReport {
    /// When the list calls were made.
    pub taken_at: Wall,
    /// The node's name.
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The list calls, and why they were made.
    pub list_calls: Option<ListCallsReport>,
    /// The duration and the calls.
    pub relist: RelistCost,
    /// The numbers of pods, sandboxes and containers of the whole node.
    pub counts: Counts,
    /// The pods, in the kubelet's order.
    pub pods: Vec<ReportedPod>,
}

/// The list calls that were made, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Word(rpcs), Text(why))]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListCallsReport {
    /// The RPC that lists sandboxes, and the RPC that lists containers.
    pub rpcs: Vec<String>,
    /// Why these calls were made, as a sentence.
    pub why: String,
}

impl ListCallsReport {
    /// Describes these list calls.
    pub fn of(lists: &KubeletLists) -> Self {
        let rpcs = Rpc::lists(lists.calls).map(|rpc| rpc.name().to_owned());
        Self { rpcs: rpcs.into(), why: lists.reason() }
    }
}

/// The duration and the calls of a relist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RelistCost {
    /// The time from before the first call until after the last.
    pub duration_seconds: Seconds,
    /// All calls of the relist.
    pub calls: Vec<CallRecord>,
}

/// The numbers of pods, sandboxes and containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Counts {
    /// The number of pods.
    pub pods: u64,
    /// The numbers of sandboxes by state.
    pub sandboxes: SandboxCounts,
    /// The numbers of containers by state.
    pub containers: ContainerCounts,
}

/// The numbers of sandboxes by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct SandboxCounts {
    /// Ready sandboxes.
    pub running: u64,
    /// Sandboxes that are not ready.
    pub exited: u64,
    /// Sandboxes in any other state.
    pub unknown: u64,
}

/// The numbers of containers by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct ContainerCounts {
    /// Containers that were never started.
    pub created: u64,
    /// Running containers.
    pub running: u64,
    /// Exited containers.
    pub exited: u64,
    /// Containers in any other state.
    pub unknown: u64,
}

impl Counts {
    /// Counts these pods and their members.
    pub fn of(pods: &[ReportedPod]) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            counts.pods += 1;
            for sandbox in &pod.sandboxes {
                let by_state = &mut counts.sandboxes;
                *match sandbox.state {
                    KubeletState::Running => &mut by_state.running,
                    KubeletState::Exited => &mut by_state.exited,
                    KubeletState::Created | KubeletState::Unknown => &mut by_state.unknown,
                } += 1;
            }
            for container in &pod.containers {
                let by_state = &mut counts.containers;
                *match container.state {
                    KubeletState::Created => &mut by_state.created,
                    KubeletState::Running => &mut by_state.running,
                    KubeletState::Exited => &mut by_state.exited,
                    KubeletState::Unknown => &mut by_state.unknown,
                } += 1;
            }
        }
        counts
    }
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReportedPod {
    /// The UID; empty for containers without a UID label.
    pub uid: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The creation time of the last sandbox in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Wall>,
    /// The sandboxes, highest attempt first.
    pub sandboxes: Vec<ReportedSandbox>,
    /// The containers, newest first.
    pub containers: Vec<ReportedContainer>,
    /// The labels of the newest sandbox, for label selectors. They are not part of the document.
    #[serde(skip)]
    pub labels: Labels,
}

impl From<&ReportedPod> for PodRef {
    fn from(pod: &ReportedPod) -> Self {
        Self { uid: pod.uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

/// One sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReportedSandbox {
    /// The full id.
    pub id: String,
    /// The number of sandboxes that the pod had before this one.
    pub attempt: u32,
    /// The state as the kubelet names it.
    pub state: KubeletState,
    /// The state as PLEG compares it.
    pub pleg_state: PlegState,
    /// When the sandbox was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Wall>,
}

/// One container.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReportedContainer {
    /// The full id.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// The restart count when the container was created.
    pub attempt: u32,
    /// The image as the runtime's list names it, which may be an id.
    pub image: Option<String>,
    /// The state as the kubelet names it.
    pub state: KubeletState,
    /// The state as PLEG compares it.
    pub pleg_state: PlegState,
    /// When the container was created.
    pub created_at: Option<Wall>,
    /// The id of the container's sandbox.
    pub sandbox_id: Option<String>,
    /// The additional fields of the container's status, if the status was fetched.
    pub status: Option<ReportedStatus>,
}

/// The fields that a container's status has in addition to the list.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReportedStatus {
    /// The exit code of an exited container.
    pub exit_code: Option<i32>,
    /// The runtime's one-word reason.
    pub reason: Option<String>,
    /// The runtime's message.
    pub message: Option<String>,
    /// When the container started.
    pub started_at: Option<Wall>,
    /// When the container finished.
    pub finished_at: Option<Wall>,
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Converts the pods of a relist, in the kubelet's order.
pub(super) fn reported(pods: &[ListedPod<'_>]) -> Vec<ReportedPod> {
    pods.iter().map(reported_pod).collect()
}

fn reported_pod(pod: &ListedPod<'_>) -> ReportedPod {
    let sandboxes = pod.sandboxes.iter().map(|sandbox| {
        let state = KubeletState::from(sandbox.state);
        ReportedSandbox {
            id: sandbox.id.clone(),
            attempt: sandbox.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
            state,
            pleg_state: state.pleg(),
            created_at: Wall::known(sandbox.created_at),
        }
    });
    let containers = pod.containers.iter().map(|container| {
        let state = KubeletState::from(container.state);
        let metadata = container.metadata.clone().unwrap_or_default();
        ReportedContainer {
            id: container.id.clone(),
            name: metadata.name,
            attempt: metadata.attempt,
            image: container.image.as_ref().and_then(|image| non_empty(&image.image)),
            state,
            pleg_state: state.pleg(),
            created_at: Wall::known(container.created_at),
            sandbox_id: non_empty(&container.sandbox_id),
            status: None,
        }
    });
    ReportedPod {
        uid: pod.uid.to_owned(),
        namespace: pod.namespace.to_owned(),
        name: pod.name.to_owned(),
        created_at: Wall::known(pod.created_at),
        sandboxes: sandboxes.collect(),
        containers: containers.collect(),
        labels: pod.sandboxes.first().map(|sandbox| sandbox.labels.clone()).unwrap_or_default(),
    }
}

/// Adds the fetched statuses to the containers of a pod.
pub(super) fn add_status(pod: &mut ReportedPod, status: &PodStatus) {
    for container in &mut pod.containers {
        container.status = status.container(&container.id).map(|detail| ReportedStatus {
            exit_code: detail.exit_code,
            reason: non_empty(&detail.reason),
            message: non_empty(&detail.message),
            started_at: detail.started_at,
            finished_at: detail.finished_at,
        });
    }
}

/// The reason why a text cannot be read as a report. The caller adds the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text starts as JSON and ends too early.
    #[error("it ends too early, at line {line}, column {column}")]
    Truncated {
        /// The line of the end.
        line: usize,
        /// The column of the end.
        column: usize,
    },
    /// The text is not JSON.
    #[error("it is not JSON: {0}")]
    NotJson(#[source] serde_json::Error),
    /// The text is JSON of another kind.
    #[error("it is {found}, not a RelistReport")]
    OtherKind {
        /// The kind that was found.
        found: String,
    },
    /// The report has an API version that this plegctl does not read.
    #[error("it has apiVersion `{found}`; this plegctl reads {API_VERSION}")]
    OtherVersion {
        /// The API version that was found.
        found: String,
    },
    /// The text has the right kind, but not the fields of a report.
    #[error("it is not a RelistReport: {0}")]
    Malformed(#[source] serde_json::Error),
}

impl RelistReport {
    /// Reads a saved report.
    pub fn read(text: &[u8]) -> Result<Self, ReadError> {
        if text.trim_ascii().is_empty() {
            return Err(ReadError::Empty);
        }
        let document: serde_json::Value = serde_json::from_slice(text).map_err(|why| {
            if why.is_eof() {
                return ReadError::Truncated { line: why.line(), column: why.column() };
            }
            ReadError::NotJson(why)
        })?;
        if !document.is_object() {
            return Err(ReadError::OtherKind { found: "JSON of another shape".to_owned() });
        }
        let word = |key: &str| {
            let value = document.get(key).filter(|value| !value.is_null())?;
            Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let found = word("apiVersion").unwrap_or_default();
        if found.starts_with("plegctl/") && found != API_VERSION {
            return Err(ReadError::OtherVersion { found });
        }
        match word("kind") {
            Some(kind) if kind == "RelistReport" && found == API_VERSION => {}
            Some(kind) => {
                let found = if found == API_VERSION { kind } else { format!("`{kind}` of `{found}`") };
                return Err(ReadError::OtherKind { found });
            }
            None => {
                return Err(ReadError::OtherKind { found: "JSON without a kind".to_owned() });
            }
        }
        serde_json::from_slice(text).map_err(ReadError::Malformed)
    }
}
