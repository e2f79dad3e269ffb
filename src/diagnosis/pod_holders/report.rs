//! The types of the report of `plegctl pods --why`. Their field names are the JSON names of the output.

use serde::Serialize;

use crate::clock::Wall;
use crate::diagnosis::proc::Process;
use crate::diagnosis::report::KernelReason;
use crate::report::{Confidence, NotChecked, PodRef, Step, word_enum};

word_enum! {
    /// What kind of thing holds a pod. If several are equally sure, the first kind comes first.
    #[derive(PartialOrd, Ord)]
    pub json enum HolderKind: as_str {
        /// An umount of a volume that does not return.
        Umount = "umount",
        /// A task that waits in the kernel.
        Kernel = "kernel",
        /// No kubelet works on this node.
        Kubelet = "kubelet",
        /// The runtime, or a process of it, does not finish its work on the pod.
        Runtime = "runtime",
        /// The network plugin does not finish, or the network of the node is not ready.
        Network = "network",
        /// The command of a preStop hook, which runs.
        PreStop = "preStop",
        /// A container that runs on.
        Container = "container",
        /// A volume that is still mounted, or whose mount does not return.
        Mount = "mount",
        /// What the kubelet itself says about the pod, such as why it has no image.
        Status = "status",
        /// Finalizers, because of which the API server keeps the pod.
        Finalizer = "finalizer",
        /// How far a pod that does not start has come, if nothing else explains it.
        Stage = "stage",
    }
}

word_enum! {
    /// Whether something holds the pod.
    pub json enum PodHold: as_str {
        /// Something holds the pod that is being deleted, or keeps calls about it waiting.
        Held = "held",
        /// The pod should run, and does not run or not completely.
        NotStarting = "notStarting",
        /// The pod does not run yet, and is younger than a minute.
        Starting = "starting",
        /// The grace period is not over, or has been over for less than a minute.
        InGrace = "inGrace",
        /// plegctl found nothing that holds the pod, or only what possibly does.
        Free = "free",
        /// The pod runs or has ended, and is not being deleted.
        NotDeleted = "notDeleted",
        /// The pod should run, and the runtime does not say whether it does.
        Unknown = "unknown",
    }
}

/// Something that keeps a pod from ending or from starting, with its proof and with what to do.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodHolder {
    /// The kind.
    pub kind: HolderKind,
    /// What holds the pod, in one line.
    pub title: String,
    /// The process that holds the pod or waits.
    pub pid: Option<u32>,
    /// The name of this process.
    pub process: Option<String>,
    /// The mount point or the file.
    pub path: Option<String>,
    /// For what the process waits in the kernel.
    pub kernel_reason: Option<KernelReason>,
    /// How sure plegctl is.
    pub confidence: Confidence,
    /// The measured facts.
    pub evidence: Vec<String>,
    /// The suggested steps, in their order.
    pub steps: Vec<Step>,
}

impl PodHolder {
    /// Creates a holder without a process and without evidence.
    pub fn new(kind: HolderKind, confidence: Confidence, title: impl Into<String>) -> Self {
        Self {
            kind,
            title: title.into(),
            pid: None,
            process: None,
            path: None,
            kernel_reason: None,
            confidence,
            evidence: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Sets the process that holds the pod or waits.
    pub(super) fn of_process(self, process: &Process) -> Self {
        Self { pid: Some(process.pid), process: Some(process.comm.clone()), ..self }
    }

    /// Adds a measured fact.
    pub(super) fn add_evidence(&mut self, line: impl Into<String>) {
        self.evidence.push(line.into());
    }
}

/// What keeps a pod from ending or from starting.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodWhy")]
pub struct PodWhy {
    /// When the node was read.
    pub taken_at: Wall,
    /// The node's name.
    pub node: String,
    /// The pod.
    pub pod: PodRef,
    /// Whether something holds the pod.
    pub state: PodHold,
    /// The answer in one sentence.
    pub summary: String,
    /// The deletion timestamp, which is the end of the grace period.
    pub deletion_at: Option<Wall>,
    /// The grace period.
    pub grace_seconds: Option<u64>,
    /// The finalizers of the pod.
    pub finalizers: Vec<String>,
    /// What keeps the pod from ending or from starting, the surest first.
    pub holders: Vec<PodHolder>,
    /// What to save before the steps of the first holder, if it is the first finding of `health`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<Step>,
    /// What could not be checked, with the reasons.
    pub not_checked: Vec<NotChecked>,
}
