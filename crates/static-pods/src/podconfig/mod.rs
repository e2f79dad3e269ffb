//! The kubelet's `PodConfig`: merges the pods from files, a URL and the API server into one stream of updates.
//!
//! Each source sends its complete set of pods whenever the set may have changed. [`PodConfig`] compares the set with the
//! previous set of that source, by UID, and returns which pods were added, changed and removed, as the kubelet's sync
//! loop receives it. [`FileSource`] and [`UrlSource`] have no clock and no thread: their caller passes in scans, file
//! events and answers. [`pod_rows`] compares the wanted pods with the runtime's pods.

mod api;
mod api_watch;
mod compact_json;
mod compare;
mod file;
mod file_watch;
mod follow;
mod kubelet_pods;
mod load;
mod merge;
mod mirror;
mod runtime_pods;
mod selector;
#[cfg(test)]
mod tests;
mod url;
mod verdict;
mod views;

pub use super::running_pod::PodSource;
pub use api::{ApiPods, PodListDocument, PodListError};
pub use api_watch::{ApiServer, follow_api};
pub use compact_json::CompactJson;
pub use compare::{
    ApiServerLink, ComparisonInputs, Contradiction, Suspects, add_comparison, contradictions, suspects,
};
pub use file::{FileSource, RefusedFile};
pub use file_watch::{SourceMessage, follow_files};
pub use follow::{PodFollower, PodProgress, PodStage};
pub use kubelet_pods::KubeletPods;
pub use merge::PodConfig;
pub use mirror::mirror_findings;
pub use runtime_pods::RuntimePod;
pub use selector::Selector;
pub use url::{BODY_LIMIT, UrlAnswer, UrlSource};
pub use verdict::{PodRow, PodVerdict, SourceState, VerdictInput, pod_rows};
pub use views::{PodView, ReadTimes};

use std::sync::Arc;
use std::time::Duration;

use super::report::PodIdentity;
use plegctl_base::clock::Wall;
use plegctl_base::report::word_enum;

/// How long the kubelet may need to apply a change: one scan of the files, a pause of the pod worker, and the start of an
/// image pull.
const GRACE: Duration = Duration::from_secs(60);

/// A pod that the kubelet should run according to a source.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedPod {
    /// The namespace and name, including the node's suffix.
    pub identity: PodIdentity,
    /// The UID that the kubelet gives the pod, or a placeholder if the UID is not known; see [`Self::known_uid`].
    pub uid: String,
    /// The fields that the merge compares: spec, labels, annotations, deletion.
    pub content: PodContent,
    /// The status, which only the API server sends.
    pub status: CompactJson,
    /// `metadata.finalizers`, which the kubelet does not compare.
    pub finalizers: CompactJson,
    /// For a mirror pod: the hash of its static pod. `None` for any other pod.
    pub mirror_of: Option<String>,
    /// When the file was last modified.
    pub changed: Option<Wall>,
    /// Why the API server refuses the mirror pod, if the manifest shows the reason.
    pub mirror_refusal: Option<Box<str>>,
    /// For a pod of the file source: the number of the object in the kubelet's memory. The kubelet's merge changes the
    /// file source's own object, and then sees no difference when it compares the object with itself.
    pub object: Option<u64>,
}

/// The prefix of the placeholder for a UID that is not known from the file. No UID starts with this character.
const UNKNOWN_UID: char = '?';

impl WantedPod {
    /// Returns the UID, if it is known.
    pub fn known_uid(&self) -> Option<&str> {
        (!self.uid.starts_with(UNKNOWN_UID)).then_some(self.uid.as_str())
    }

    /// Whether the pod has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        !self.content.deleted.is_null()
    }

    /// Returns the deletion timestamp, which is the end of the grace period.
    pub fn deletion_at(&self) -> Option<Wall> {
        self.content.deleted.parsed().ok()
    }

    /// Returns the names of the finalizers.
    pub fn finalizer_names(&self) -> Vec<String> {
        self.finalizers.parsed().unwrap_or_default()
    }
}

/// The fields of a pod that the merge compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodContent {
    /// `spec`
    pub spec: CompactJson,
    /// `metadata.labels`
    pub labels: CompactJson,
    /// `metadata.annotations`, without the annotations that the kubelet sets itself.
    pub annotations: CompactJson,
    /// `metadata.deletionTimestamp`
    pub deleted: CompactJson,
    /// `metadata.deletionGracePeriodSeconds`
    pub grace: CompactJson,
}

word_enum! {
    /// The operation of an update.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum Op: as_str {
        /// Pods that are new.
        Add = "ADD",
        /// Pods whose content changed.
        Update = "UPDATE",
        /// Pods that got a deletion timestamp.
        Delete = "DELETE",
        /// Pods that the source no longer has.
        Remove = "REMOVE",
        /// Pods whose status only has changed.
        Reconcile = "RECONCILE",
    }
}

/// One update as the sync loop receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The operation.
    pub op: Op,
    /// The source.
    pub source: PodSource,
    /// Whether every configured source has sent a set. Until then, the kubelet removes no unwanted pods.
    pub ready: bool,
    /// The pods. Empty in the first update of a source without pods.
    pub pods: Vec<Arc<WantedPod>>,
}
