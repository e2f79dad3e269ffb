//! Predicts what a kubelet does with the manifests of its static pods.
//!
//! [`inspect`] reads a manifest path and returns the kubelet's verdict on each entry, as in the given kubelet release. For
//! each file, `plegctl-api-values` parses the bytes into a tree with positions, `decode` converts the tree into a Pod with the
//! kubelet's lenient rules, `defaults` adds the default values, and `validate` checks the Pod (`pipeline`). If several
//! files define the same pod, `source` decides which file wins. The rules of the API server are not applied.
//!
//! On top of the verdicts, [`checks`] find problems that the kubelet does not report, and [`podconfig`] follows the pods
//! from all sources of the kubelet. What runs on the node is given as [`RunningPod`]s: this crate calls no runtime.
//!
//! ```no_run
//! use plegctl_static_pods::{Kubelet, KubeletVersion, inspect};
//!
//! let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
//! let report = inspect("/etc/kubernetes/manifests".as_ref(), &kubelet);
//! for file in &report.files {
//!     println!("{}: {:?}", file.path.display(), file.verdict);
//! }
//! ```

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

mod catalogue;
pub mod checks;
mod decode;
mod defaults;
mod edit;
mod field_path;
mod finding;
pub mod glob;
mod image_name;
pub mod lint;
mod nearest;
mod pipeline;
mod pod_field;
mod pod_resources;
pub mod pod_versions;
pub mod podconfig;
mod references;
mod report;
mod running_pod;
mod schema;
mod source;
mod sysctl;
mod uid;
pub mod upgrade;
mod validate;

use std::path::{Component, Path, PathBuf};

pub use catalogue::Check;
pub use finding::{LintFinding, Severity};
pub use pipeline::SIZE_LIMIT;
pub use plegctl_api_values::quantity::Quantity;
pub use plegctl_api_values::reader::{DuplicateKey, LaterDocument, Merge, ReaderNotes};
pub use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Position, Value};
pub use plegctl_node::kubelet::KubeletVersion;
pub use pod_field::PodField;
pub use report::{
    DecodedPod, DropReason, DroppedField, FileReport, FileVerdict, ManifestEntryKind, ManifestEntryMeta,
    ParsedManifest, PathKind, PodIdentity, SourceReport,
};
pub use running_pod::{ContainerState, EndedContainer, PodSource, RunningContainer, RunningPod};
pub use source::{each_file, inspect, inspect_bytes, inspect_file};
pub use uid::UidUnknown;

/// The kubelet whose rules are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// The release whose rules are applied: the kubelet's own, or the nearest known one.
    pub version: KubeletVersion,
    /// The kubelet's own release. If plegctl does not know it, no UID is computed.
    pub release: KubeletVersion,
    /// The name of the node; the kubelet appends it to pod names.
    pub node_name: String,
    /// The directory from which this kubelet reads the files, if plegctl inspects a copy or sees the directory under
    /// another path. The kubelet's path is part of a pod's UID.
    pub manifest_dir: Option<PathBuf>,
}

impl Kubelet {
    /// Creates a kubelet that reads the files from the inspected paths.
    pub fn new(release: KubeletVersion, node_name: impl Into<String>) -> Self {
        Self { version: release.known(), release, node_name: node_name.into(), manifest_dir: None }
    }

    /// Returns the same kubelet with another release.
    #[must_use]
    pub fn with_release(&self, release: KubeletVersion) -> Self {
        Self { version: release.known(), release, ..self.clone() }
    }

    /// Returns the path under which this kubelet reads a file; `None` if it is not known.
    fn path_of(&self, file: &Path) -> Option<PathBuf> {
        match (&self.manifest_dir, file.file_name()) {
            (Some(directory), Some(name)) => Some(cleaned(&directory.join(name))),
            _ if file.is_absolute() => Some(cleaned(file)),
            _ => None,
        }
    }
}

/// Removes `.`, `..` and repeated slashes, as Go's `filepath.Join` does. Symbolic links are not followed.
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

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
