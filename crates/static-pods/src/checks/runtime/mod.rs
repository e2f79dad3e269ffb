//! Compares the manifest files with the static pods that the runtime runs: SP120 to SP134.
//!
//! A runtime's lists do not show the command lines of the containers. But the kubelet computes a pod's UID from the whole
//! manifest (`made`): if a running pod has the UID of a file, the kubelet made the pod from exactly that text.

mod compare;
mod differences;
mod hash;
mod input;
mod loaded_file;
mod made;
mod names;
mod running;
mod running_pod;

pub use compare::{RuntimeComparison, compare};
pub use hash::container_hash;
pub use input::CompareInput;
pub use made::MadeFromFile;
pub use running::{MANY_RESTARTS, RunningStaticPods};

pub(crate) use loaded_file::LONGEST_BACK_OFF;

use serde::Serialize;

use crate::{Check, LintFinding, PodIdentity, Severity};
use plegctl_base::report::Places;

/// One difference between a file and the runtime.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimeFinding {
    /// The check that made the finding.
    pub id: Check,
    /// The severity.
    pub severity: Severity,
    /// The problem, in plain words.
    pub message: String,
    /// What the user can do about the problem.
    pub fix: Option<String>,
    /// The pod.
    pub pod: RuntimePodRef,
    /// The manifest, if the pod has one.
    pub file: Option<String>,
    /// The full ids of the sandboxes and containers that the finding is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

/// The pod of a runtime finding, by the name under which it runs or would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct RuntimePodRef {
    /// Its UID, if the pod runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Its name, including the node name.
    pub name: String,
}

impl RuntimeFinding {
    /// Creates a finding with the texts of a row of `findings.txt`.
    fn of(row: &str, pod: &PodIdentity, places: &Places<'_>) -> Self {
        let texts = LintFinding::of(row, places);
        Self { fix: texts.fix, ..Self::new(texts.id, texts.severity, pod, texts.message) }
    }

    fn new(check: Check, severity: Severity, pod: &PodIdentity, message: impl Into<String>) -> Self {
        let PodIdentity { namespace, name } = pod.clone();
        Self {
            id: check,
            severity,
            message: message.into(),
            fix: None,
            pod: RuntimePodRef { uid: None, namespace, name },
            file: None,
            ids: Vec::new(),
        }
    }

    /// Creates a finding about the pod of a file.
    pub(crate) fn of_file(
        check: Check,
        severity: Severity,
        pod: &PodIdentity,
        message: String,
        file: String,
    ) -> Self {
        Self { file: Some(file), ..Self::new(check, severity, pod, message) }
    }

    fn with_ids(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.ids.extend(ids.into_iter().map(Into::into));
        self
    }
}
