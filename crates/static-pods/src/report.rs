//! The types of the kubelet's verdict on a manifest path and on each file in it. They contain data only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use plegctl_api_values::reader::ReaderNotes;
use plegctl_api_values::tree::{ManifestNode, Position};

use super::finding::LintFinding;
use super::pod_field::PodField;
use super::uid::UidUnknown;

/// The kubelet's verdict on one directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum FileVerdict {
    /// The kubelet runs the pod.
    Loaded,
    /// The kubelet reads the file and rejects it, with an error in its log.
    Rejected,
    /// The kubelet does not read the entry.
    Ignored,
    /// The kubelet accepts the file, but another file that defines the same pod wins.
    Shadowed,
    /// The verdict is not known: the file is too large for plegctl, or the kubelet would never finish reading it.
    NotJudged,
}

/// Namespace and name under which the kubelet runs the pod, including the node name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdentity {
    /// The namespace; `default` if the file has none.
    pub namespace: String,
    /// `<name>-<node name>`.
    pub name: String,
}

/// The type of a manifest path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A directory: each entry gets its own verdict.
    Directory,
    /// One regular file.
    File,
    /// The path does not exist.
    Missing,
    /// A FIFO, a socket or a device.
    Special,
    /// The path cannot be read.
    Unreadable,
}

/// The type of a directory entry, after following symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to a missing file.
    DanglingLink,
    /// A FIFO. plegctl never opens it.
    Fifo,
    /// A file of the kernel that may never end, such as `/proc/kmsg`. plegctl never opens it.
    Endless,
    /// A socket or a device. plegctl never opens it.
    Special,
    /// The entry cannot be read.
    Unreadable,
}

/// The metadata of an entry that the checks use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntryMeta {
    /// The type, after following symbolic links.
    pub kind: ManifestEntryKind,
    /// Whether the name starts with a dot, so that a directory scan skips the entry.
    pub hidden: bool,
    /// Whether the entry itself is a symbolic link.
    pub symlink: bool,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits (Unix), without the file type.
    pub mode: u32,
    /// Owner (Unix).
    pub uid: u32,
    /// Device and inode (Unix): equal for hard links.
    pub inode: (u64, u64),
    /// The number of hard links to the file.
    pub links: u64,
    /// The time of the last modification, in nanoseconds since the Unix epoch.
    pub modified_nanos: Option<i64>,
}

/// One directory entry or single file, and the kubelet's verdict.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The path under which plegctl inspects the file.
    pub path: PathBuf,
    /// The path under which the kubelet reads the file; absent if it is not known.
    pub kubelet_path: Option<PathBuf>,
    /// The metadata. Absent for standard input.
    pub meta: Option<ManifestEntryMeta>,
    /// The verdict.
    pub verdict: FileVerdict,
    /// The pod, if the file is loaded or shadowed.
    pub pod: Option<PodIdentity>,
    /// The pod's UID, or why it is not known. Absent if no pod with a name was decoded. A pod that validation rejects also
    /// has a UID.
    pub uid: Option<Result<String, UidUnknown>>,
    /// Why the kubelet does not load the file: its own message, as far as it is known.
    pub kubelet_reason: Option<String>,
    /// The findings. At first they are about the kubelet's own rules; the checks add further findings.
    pub findings: Vec<LintFinding>,
    /// The content, if the file could be read.
    pub document: Option<ParsedManifest>,
}

impl FileReport {
    /// Creates a report without content.
    pub(super) fn new(path: &Path, meta: Option<ManifestEntryMeta>, verdict: FileVerdict) -> Self {
        Self {
            path: path.to_path_buf(),
            kubelet_path: None,
            meta,
            verdict,
            pod: None,
            uid: None,
            kubelet_reason: None,
            findings: Vec::new(),
            document: None,
        }
    }

    /// Returns the decoded Pod, if the file contains one.
    pub(super) fn decoded(&self) -> Option<&DecodedPod> {
        self.document.as_ref()?.pod.as_ref()
    }

    /// Returns the root of the decoded Pod, if the file contains one.
    pub(super) fn decoded_root(&self) -> Option<PodField<'_>> {
        Some(PodField::root(&self.decoded()?.pod))
    }

    /// Returns the UID that the file itself sets.
    pub fn fixed_uid(&self) -> Option<String> {
        let pod = &self.decoded()?.pod;
        let uid = pod.get("metadata")?.get("uid")?.as_str()?;
        (!uid.is_empty()).then(|| uid.to_owned())
    }
}

/// The text of a file and its parsed forms.
#[derive(Clone, Debug)]
pub struct ParsedManifest {
    /// The text as UTF-8, with U+FFFD for bytes that cannot be decoded.
    pub text: Arc<str>,
    /// The first document as a tree, if it parses.
    pub root: Option<ManifestNode>,
    /// The properties of the text that the checks need.
    pub notes: ReaderNotes,
    /// The decoded Pod, if the document is a Pod.
    pub pod: Option<DecodedPod>,
}

/// A Pod with defaults, before the kubelet appends the node's name to the pod's name.
#[derive(Clone, Debug)]
pub struct DecodedPod {
    /// The known fields, with defaults. A `null` is an absent field. A default has the position of its parent.
    pub pod: ManifestNode,
    /// The fields that were dropped.
    pub dropped: Vec<DroppedField>,
}

/// A field that the kubelet drops without a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedField {
    /// The path of the object that contains the field, such as `spec.containers[0]`; empty for the Pod itself.
    pub parent: String,
    /// The name as written.
    pub name: String,
    /// The position of the name.
    pub position: Position,
    /// The reason.
    pub why: DropReason,
}

/// Why a field is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// No release knows the field in this object.
    Unknown {
        /// A similar field name of the same object.
        near: Option<String>,
        /// The path of another object that has a field with this name.
        home: Option<String>,
    },
    /// The field is known from release `1.since` on.
    TooNew {
        /// The first minor release that knows the field.
        since: u8,
    },
    /// The field was removed in release `1.until`.
    Removed {
        /// The first minor release that no longer knows the field.
        until: u8,
    },
    /// The field is known and its type is checked, but its feature gate is off by default in this release, so it has no
    /// effect.
    GateClosed {
        /// The name of the gate.
        gate: &'static str,
    },
}

/// The kubelet's verdicts on a path.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// The inspected path, without trailing slashes.
    pub path: PathBuf,
    /// The type of the path.
    pub kind: PathKind,
    /// The entries in the kubelet's order, including hidden ones.
    pub files: Vec<FileReport>,
    /// Findings about the path itself.
    pub findings: Vec<LintFinding>,
}
