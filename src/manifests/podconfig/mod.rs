//! The kubelet's `PodConfig`: merges the pods that files, a URL and the API server want into one stream of updates.
//!
//! Each source sends its complete set of pods whenever it has a new one. [`PodConfig`] compares the set with the
//! previous set of that source, by UID, and returns which pods were added, changed and removed, as the kubelet's sync
//! loop receives it. The sources are state machines without a clock or a thread: their caller passes in what happens.

mod api;
mod api_watch;
mod compact_json;
mod file;
mod file_watch;
mod follow;
mod load;
mod merge;
mod mirror;
mod runtime_pods;
mod selector;
#[cfg(test)]
mod tests;
mod url;
mod verdict;

pub use api::{ApiPods, PodListDocument, PodListError};
pub use api_watch::{ApiServer, follow_api};
pub use compact_json::CompactJson;
pub use file::{FileSource, RefusedFile};
pub use file_watch::{SourceMessage, follow_files};
pub use follow::{PodFollower, PodProgress, PodStage};
pub use merge::PodConfig;
pub use mirror::mirror_findings;
pub use runtime_pods::{NewestContainer, PodInstance, RuntimePod, instances};
pub use selector::Selector;
pub use url::{BODY_LIMIT, UrlAnswer, UrlSource, inspect_url};
pub use verdict::{PodRow, SourceState, VerdictInput, pod_rows};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::report::PodIdentity;
use crate::clock::Wall;

/// How long a change may take to show: one scan of the files, a pause of the pod worker, and the start of an image
/// pull.
const GRACE: Duration = Duration::from_secs(60);

/// A source of the pods that the kubelet runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodSource {
    /// A directory or a file on the node.
    File,
    /// A URL that serves a manifest.
    Http,
    /// The API server.
    Api,
}

impl PodSource {
    /// The kubelet's name, also the value of the annotation `kubernetes.io/config.source`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for PodSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A pod that a source wants.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedPod {
    /// The namespace and name, including the node's suffix.
    pub identity: PodIdentity,
    /// The UID that the kubelet gives the pod, or a placeholder if it is not known; see [`Self::known_uid`].
    pub uid: String,
    /// The fields whose change makes it another version of the pod: spec, labels, annotations, deletion.
    pub content: PodContent,
    /// The status, which only the API server sends.
    pub status: CompactJson,
    /// The hash of the static pod, if this is a mirror pod that the kubelet created.
    pub mirror_of: Option<String>,
    /// When the file was last modified.
    pub changed: Option<Wall>,
    /// Why the API server refuses the mirror pod, if the pod's own text shows it.
    pub mirror_refusal: Option<Box<str>>,
    /// The identity of the object in the kubelet's memory, for a pod of the file source. The merge writes into the file
    /// source's own object, so a pod compared with itself never differs.
    pub object: Option<u64>,
}

/// The prefix of the placeholder for a UID that is not known from the file. No UID starts with this character.
const UNKNOWN_UID: char = '?';

impl WantedPod {
    /// The UID, if it is known.
    pub fn known_uid(&self) -> Option<&str> {
        (!self.uid.starts_with(UNKNOWN_UID)).then_some(self.uid.as_str())
    }

    /// Whether the pod has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        !self.content.deleted.is_null()
    }
}

/// The fields of a pod that the merge compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodContent {
    /// `spec`
    pub spec: CompactJson,
    /// `metadata.labels`
    pub labels: CompactJson,
    /// `metadata.annotations` without the kubelet's own.
    pub annotations: CompactJson,
    /// `metadata.deletionTimestamp`
    pub deleted: CompactJson,
    /// `metadata.deletionGracePeriodSeconds`
    pub grace: CompactJson,
}

/// The operation of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Op {
    /// Pods that are new.
    Add,
    /// Pods whose content changed.
    Update,
    /// Pods that got a deletion timestamp.
    Delete,
    /// Pods that the source no longer has.
    Remove,
    /// Pods whose status only has changed.
    Reconcile,
}

impl Op {
    /// The kubelet's name of the operation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Remove => "REMOVE",
            Self::Reconcile => "RECONCILE",
        }
    }
}

/// One update as the sync loop receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The operation.
    pub op: Op,
    /// The source.
    pub source: PodSource,
    /// Whether every configured source has sent a set. Until then the kubelet cleans up no pods.
    pub ready: bool,
    /// The pods. Empty in the first update of a source that has none.
    pub pods: Vec<Arc<WantedPod>>,
}
