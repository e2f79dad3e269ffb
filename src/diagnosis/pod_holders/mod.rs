//! Finds out what holds a pod that is being deleted: a container that runs on, a task that waits in the kernel, an umount
//! that does not return, the runtime, the kubelet, or a finalizer.
//!
//! [`look()`] reads the node's processes and mounts around one pod, after `health` has gathered its evidence. It makes no
//! calls and accesses no volume. [`judge()`] is a pure function of the evidence, of what the sources say about the pod
//! ([`PodFacts`]), and of that look.

mod judge;
mod look;
pub mod report;

use std::time::Duration;

use serde_json::Value;

pub use judge::judge;
pub use look::look;

use crate::clock::Wall;
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

/// A volume of a pod, from its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecVolume {
    /// Its name in the pod.
    pub name: String,
    /// What it is: `CSI driver nfs.csi.k8s.io`, `NFS 10.1.2.3:/export`, `claim data-db-0`.
    pub kind: String,
    /// Whether it may be on a network.
    pub may_be_remote: bool,
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
    /// Its volumes that are not made by the kubelet itself.
    pub volumes: Vec<SpecVolume>,
    /// Its preStop hooks.
    pub pre_stop: Vec<PreStop>,
}

impl PodFacts {
    /// Takes the volumes and the preStop hooks from `spec`.
    #[must_use]
    pub fn with_spec(mut self, spec: &Value) -> Self {
        self.volumes = items(spec, "volumes").iter().filter_map(volume).collect();
        self.pre_stop = items(spec, "containers").iter().filter_map(pre_stop).collect();
        self
    }
}

fn items<'a>(spec: &'a Value, key: &str) -> &'a [Value] {
    spec.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn volume(value: &Value) -> Option<SpecVolume> {
    let name = text(value, "name")?.to_owned();
    let (kind, may_be_remote) = if let Some(csi) = value.get("csi") {
        (format!("CSI driver {}", text(csi, "driver")?), true)
    } else if let Some(nfs) = value.get("nfs") {
        (format!("NFS {}:{}", text(nfs, "server")?, text(nfs, "path")?), true)
    } else if let Some(claim) = value.get("persistentVolumeClaim") {
        (format!("claim {}", text(claim, "claimName")?), true)
    } else {
        return None;
    };
    Some(SpecVolume { name, kind, may_be_remote })
}

fn pre_stop(container: &Value) -> Option<PreStop> {
    let hook = container.get("lifecycle")?.get("preStop")?;
    let command = hook.get("exec").map(|exec| items(exec, "command")).unwrap_or_default();
    let command = command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some(PreStop { container: text(container, "name")?.to_owned(), command })
}
