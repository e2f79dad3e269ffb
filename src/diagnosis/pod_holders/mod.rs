//! Finds out what keeps a pod from ending (a container that runs on, a task that waits in the kernel, an umount that does not
//! return, the runtime, the kubelet, a finalizer) or from starting (an image, its network, a mount, the runtime, the kubelet).
//!
//! [`look()`] reads the node's processes and mounts around one pod, after `health` has gathered its evidence. It makes no
//! calls and accesses no volume. [`judge()`] is a pure function of the evidence, of what the sources say about the pod
//! ([`PodFacts`]), and of that look.

mod failing;
mod judge;
mod look;
pub mod report;
mod start;

use std::time::Duration;

use serde_json::Value;

pub use judge::judge;
pub use look::look;

use crate::clock::Wall;
use crate::kubelet::pod_status::{WaitingContainer, has_ended, moment, transition};
use crate::report::PodRef;

/// What the sources say about the deletion of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// The pod is being deleted.
    Requested {
        /// `metadata.deletionTimestamp`: the end of the grace period.
        at: Wall,
        /// `metadata.deletionGracePeriodSeconds`
        grace: Option<u64>,
    },
    /// The pod is not being deleted.
    NotRequested,
    /// The source of the pod no longer has it.
    Gone,
    /// It is an earlier version of a static pod: the kubelet starts the present one after its end.
    Replaced,
    /// No source could be read that has deletion timestamps.
    #[default]
    Unknown,
}

impl Deletion {
    /// Returns when the deletion was requested.
    pub fn requested_at(self) -> Option<Wall> {
        match self {
            Self::Requested { at, grace } => Some(at.minus(Duration::from_secs(grace.unwrap_or(0)))),
            _ => None,
        }
    }
}

/// The preStop hook of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreStop {
    /// The container's name.
    pub container: String,
    /// Its command; empty for a hook that the kubelet runs itself (HTTP, sleep).
    pub command: Vec<String>,
}

/// What the sources say about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its names and its UID.
    pub pod: PodRef,
    /// Whether it is being deleted.
    pub deletion: Deletion,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Whether it has a volume that may be on a network.
    pub has_remote_volume: bool,
    /// Its preStop hooks.
    pub pre_stop: Vec<PreStop>,
    /// Whether its restart policy lets its containers end.
    pub may_end: bool,
    /// Its status, if the kubelet or the API server has one.
    pub status: Option<PodStatus>,
    /// Whether the API server bound the pod to the node more than a minute ago, and the kubelet does not know it.
    pub is_unknown_to_kubelet: bool,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// Who says so: `the kubelet` or `the API server`.
    pub by: &'static str,
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// The reason and the message of the phase.
    pub reason: Option<String>,
    /// Whether the pod has ended, so that none of its containers is started again.
    pub has_ended: bool,
    /// The containers that wait for something of their own, in the kubelet's words.
    pub waiting: Vec<WaitingContainer>,
    /// When the kubelet accepted the pod, else when the pod was bound to the node.
    pub since: Option<Wall>,
}

impl PodStatus {
    /// Reads a status; `None` if it has no phase.
    pub fn of(status: &Value, by: &'static str) -> Option<Self> {
        let reason = text(status, "reason").filter(|reason| !reason.is_empty());
        let message = text(status, "message").filter(|message| !message.is_empty());
        let reason = reason.map(|reason| match message {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        });
        Some(Self {
            by,
            phase: text(status, "phase")?.to_owned(),
            reason,
            has_ended: has_ended(status),
            waiting: WaitingContainer::all(status).collect(),
            since: moment(status.get("startTime")).or_else(|| transition(status, "PodScheduled")),
        })
    }
}

impl PodFacts {
    /// Takes the volumes, the preStop hooks and the restart policy from `spec`.
    #[must_use]
    pub fn with_spec(mut self, spec: &Value) -> Self {
        self.has_remote_volume = items(spec, "volumes").iter().any(may_be_remote);
        self.pre_stop = items(spec, "containers").iter().filter_map(pre_stop).collect();
        self.may_end = matches!(text(spec, "restartPolicy"), Some("Never" | "OnFailure"));
        self
    }
}

fn items<'a>(spec: &'a Value, key: &str) -> &'a [Value] {
    spec.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn may_be_remote(volume: &Value) -> bool {
    ["csi", "nfs", "persistentVolumeClaim"].iter().any(|kind| volume.get(kind).is_some())
}

fn pre_stop(container: &Value) -> Option<PreStop> {
    let hook = container.get("lifecycle")?.get("preStop")?;
    let command = hook.get("exec").map(|exec| items(exec, "command")).unwrap_or_default();
    let command = command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some(PreStop { container: text(container, "name")?.to_owned(), command })
}
