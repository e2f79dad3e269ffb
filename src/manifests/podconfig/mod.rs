//! The kubelet's `PodConfig`: what it is told to run, from files, a URL and the API server, as one stream of updates.
//!
//! Each source sends its whole set of pods whenever it has one; [`PodConfig`] compares it with what the source sent
//! before, by UID, and says what was added, changed and removed, as the kubelet's sync loop gets it. The sources are
//! state machines without a clock or a thread: whoever drives them tells them what happened.

mod api;
mod drive;
mod file;
mod follow;
mod load;
mod merge;
mod mirror;
mod part;
mod reflect;
mod runtime_pods;
mod selector;
mod standing;
#[cfg(test)]
mod tests;
mod url;

pub use api::{ApiError, ApiPods, List};
pub use drive::{Heard, follow_files};
pub use file::{FileSource, Refused};
pub use follow::{Following, Stage, Step};
pub use merge::PodConfig;
pub use mirror::mirror_findings;
pub use part::Part;
pub use reflect::{ApiServer, follow_api};
pub use runtime_pods::{Instance, Latest, RuntimePod, instances};
pub use selector::Selector;
pub use standing::{PodRow, Question, SourceState, standings};
pub use url::{BODY_LIMIT, UrlAnswer, UrlSource, inspect_url};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::report::PodIdentity;
use crate::clock::Wall;

/// For so long nothing of a change need show: one scan of the files, a worker's pause, and the pull of an image begun.
const GRACE: Duration = Duration::from_secs(60);

/// Where the kubelet is told what to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A directory or a file on the node.
    File,
    /// A URL that serves a manifest.
    Http,
    /// The API server.
    Api,
}

impl Source {
    /// The kubelet's word, also the value of the annotation `kubernetes.io/config.source`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A pod as a source wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Namespace and name, the node's suffix included.
    pub identity: PodIdentity,
    /// The UID that the kubelet knows it by, or a stand-in where that cannot be told; see [`Self::told_uid`].
    pub uid: String,
    /// What makes it another pod when it changes: spec, labels, annotations, deletion.
    pub content: Content,
    /// Its status, which only the API server sends.
    pub status: Part,
    /// The static pod's hash, if this is a mirror that the kubelet itself made.
    pub mirror_of: Option<String>,
    /// When its file was last written.
    pub changed: Option<Wall>,
    /// Why the API server refuses its mirror, where its own text says so.
    pub unmirrored: Option<Box<str>>,
    /// Which object in the kubelet's memory this is, for one that it goes on holding: the merge writes into what the file
    /// store holds, so that a pod compared with itself never differs.
    pub object: Option<u64>,
}

/// What stands before the name in place of a UID that cannot be told from the file. No UID begins so.
const UNTOLD: char = '?';

impl Wanted {
    /// Its UID, if that can be told.
    pub fn told_uid(&self) -> Option<&str> {
        (!self.uid.starts_with(UNTOLD)).then_some(self.uid.as_str())
    }

    /// Whether its end was ordered.
    pub fn is_terminating(&self) -> bool {
        !self.content.deleted.is_null()
    }
}

/// The parts of a pod that the merge compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `spec`
    pub spec: Part,
    /// `metadata.labels`
    pub labels: Part,
    /// `metadata.annotations` without the kubelet's own.
    pub annotations: Part,
    /// `metadata.deletionTimestamp`
    pub deleted: Part,
    /// `metadata.deletionGracePeriodSeconds`
    pub grace: Part,
}

/// What the sync loop is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Op {
    /// Pods that were not there.
    Add,
    /// Pods whose content changed.
    Update,
    /// Pods whose end was ordered.
    Delete,
    /// Pods that the source no longer has.
    Remove,
    /// Pods of which only the status changed.
    Reconcile,
}

impl Op {
    /// The kubelet's word.
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

/// One update as the sync loop gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// What to do.
    pub op: Op,
    /// Who says so.
    pub source: Source,
    /// Whether every configured source has been heard by now. Until then the kubelet cleans nothing up.
    pub ready: bool,
    /// The pods. Empty where a source has nothing and says so for the first time.
    pub pods: Vec<Arc<Wanted>>,
}
