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
//! let kubelet = Kubelet { version: KubeletVersion::NEWEST, node_name: "node1".into() };
//! let report = inspect("/etc/kubernetes/manifests".as_ref(), &kubelet);
//! for file in &report.files {
//!     println!("{}: {:?}", file.path.display(), file.verdict);
//! }
//! ```

mod at;
pub mod checks;
mod decode;
mod defaults;
mod finding;
mod glob;
mod judge;
pub mod lint;
mod nearest;
mod path;
mod pod_resources;
mod quantity;
mod reader;
mod references;
mod report;
mod schema;
mod source;
mod timestamp;
mod tree;
mod validate;
mod verdict;

pub use crate::kubelet::KubeletVersion;
pub use at::At;
pub use finding::{CheckId, Finding, Severity};
pub use quantity::Quantity;
pub use report::{
    DecodedPod, Document, Dropped, DroppedField, DuplicateKey, EntryKind, EntryMeta, FileReport,
    LaterDocument, Merge, Notes, PathKind, PodIdentity, SourceReport, Verdict,
};
pub use source::{inspect, inspect_bytes};
pub use tree::{Entry, Map, Node, Position, Value};
pub use verdict::SIZE_LIMIT;

/// The kubelet whose eyes are borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Its release.
    pub version: KubeletVersion,
    /// The name of its node; pods get it as a suffix.
    pub node_name: String,
}
