//! Compares the running static pods with the files: SP120 to SP134.
//!
//! This makes the runtime's two list calls, and a status call for each container of a static pod that restarts often.
//! The answers have no command lines, but the pod's UID depends on them: a pod with the UID of a file was made from all
//! of the file's text.

mod compare;
mod hash;
mod made;
mod running;

pub use compare::{CompareInput, RuntimeComparison, compare};
pub use hash::container_hash;
pub use made::MadeFromFile;
pub use running::{RunningStaticPods, list_static_pods};

use serde::Serialize;

use crate::manifests::{Check, PodIdentity, Severity};

/// One difference between a file and the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFinding {
    /// The check.
    pub id: Check,
    /// The severity.
    pub severity: Severity,
    /// The problem, in plain words.
    pub message: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The pod.
    pub pod: RuntimePodRef,
    /// The manifest, if the pod has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Full ids of the sandboxes and containers concerned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

/// The pod of a runtime finding, by the name under which it runs or would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    pub(in crate::manifests) fn of_file(
        check: Check,
        severity: Severity,
        pod: &PodIdentity,
        message: String,
        file: String,
    ) -> Self {
        Self { file: Some(file), ..Self::new(check, severity, pod, message) }
    }

    fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    fn with_ids(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.ids.extend(ids.into_iter().map(Into::into));
        self
    }
}
