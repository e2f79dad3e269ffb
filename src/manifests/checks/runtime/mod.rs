//! What runs, compared with the files: SP120 to SP134.
//!
//! Asks the runtime for its two lists, and for the status of static pods' containers that restart. Command lines are
//! not in them, but they are in the pod's UID: a pod with the UID of a file was made from all of its text.

mod compare;
mod hash;
mod made;
mod running;

pub use compare::{Compared, Question, compare};
pub use hash::container_hash;
pub use made::Made;
pub use running::{Running, look};

use serde::Serialize;

use crate::manifests::{Check, PodIdentity, Severity};

/// One thing that does not agree with what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFinding {
    /// Which check.
    pub id: Check,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong, in plain words.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Which pod.
    pub pod: RuntimePod,
    /// The manifest, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Full ids of the sandboxes and containers that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

/// A pod by the names under which it runs, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimePod {
    /// Its UID, if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Its name, node name included.
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
            pod: RuntimePod { uid: None, namespace, name },
            file: None,
            ids: Vec::new(),
        }
    }

    /// One about the pod of a file.
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
