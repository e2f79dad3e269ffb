//! What a kubelet will run from its static pod directory.
//!
//! Bytes become a tree with positions (`reader`), the tree becomes a Pod by the kubelet's lenient rules (`decode`),
//! the Pod is completed (`defaults`) and judged (`validate`) as the given kubelet release would. [`inspect`] does
//! that for each entry of a path and settles who wins between files of the same pod (`source`). It refuses to know
//! the API server's rules: what counts here is what the kubelet does with a file.
//!
//! ```no_run
//! use plegctl::manifests::{Kubelet, KubeletVersion, inspect};
//!
//! let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
//! let report = inspect("/etc/kubernetes/manifests".as_ref(), &kubelet);
//! for file in &report.files {
//!     println!("{}: {:?}", file.path.display(), file.verdict);
//! }
//! ```

use std::path::{Component, Path, PathBuf};

mod catalogue;
pub mod checks;
mod decode;
mod defaults;
mod edit;
mod finding;
pub(crate) mod glob;
mod image_name;
pub(crate) mod lint;
mod nearest;
mod path;
mod pipeline;
mod place;
mod pod_resources;
pub(crate) mod podconfig;
mod quantity;
mod reader;
mod references;
mod report;
mod schema;
mod source;
mod timestamp;
mod tree;
mod uid;
pub(crate) mod upgrade;
mod validate;

pub use crate::kubelet::KubeletVersion;
pub use catalogue::Check;
pub use finding::{Finding, Severity};
pub use pipeline::SIZE_LIMIT;
pub use place::Place;
pub use quantity::Quantity;
pub use report::{
    DecodedPod, Document, Dropped, DroppedField, DuplicateKey, EntryKind, EntryMeta, FileReport,
    LaterDocument, Merge, Notes, PathKind, PodIdentity, SourceReport, Verdict,
};
pub use source::{each_file, inspect, inspect_bytes, inspect_file};
pub use tree::{Entry, Map, Node, Position, Value};
pub use uid::NotTold;

/// The kubelet whose eyes are borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Its release.
    pub version: KubeletVersion,
    /// The name of its node; pods get it as a suffix.
    pub node_name: String,
    /// The directory as this kubelet reads it, where that is not the path that is read here: a copy, or the host's
    /// files seen from a container. The path is part of a pod's UID.
    pub reads: Option<PathBuf>,
}

impl Kubelet {
    /// A kubelet that reads its files under the paths that are read here.
    pub fn new(version: KubeletVersion, node_name: impl Into<String>) -> Self {
        Self { version, node_name: node_name.into(), reads: None }
    }

    /// The path that this kubelet has of a file; nothing if that cannot be told.
    fn path_of(&self, file: &Path) -> Option<PathBuf> {
        match (&self.reads, file.file_name()) {
            (Some(directory), Some(name)) => Some(cleaned(&directory.join(name))),
            _ if file.is_absolute() => Some(cleaned(file)),
            _ => None,
        }
    }
}

/// Without `.`, `..` and repeated slashes, as Go's `filepath.Join` gives a path. Links are not followed.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}
