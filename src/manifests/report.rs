//! What the kubelet makes of a path and of each file below it.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::finding::Finding;
use super::tree::{Node, Position};
use super::uid::NotTold;

/// What the kubelet does with one directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It runs the pod.
    Loaded,
    /// It reads the file and refuses it, with an error in its log.
    Rejected,
    /// It never reads the entry.
    Ignored,
    /// It reads the file and accepts it, but another file of the same pod takes its place.
    Shadowed,
    /// What it does cannot be told: the file is too large to be read here, or keeps the kubelet busy for ever.
    NotJudged,
}

/// Namespace and name under which the kubelet runs the pod, node name included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdentity {
    /// The namespace, `default` if the file names none.
    pub namespace: String,
    /// `<name>-<node name>`.
    pub name: String,
}

/// What the path given to the kubelet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A directory: each entry is judged on its own.
    Directory,
    /// One regular file.
    File,
    /// Nothing is there.
    Missing,
    /// A FIFO, a socket or a device.
    Special,
    /// It cannot be looked at.
    Unreadable,
}

/// What a directory entry is, symbolic links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to nothing.
    DanglingLink,
    /// A FIFO. Never opened.
    Fifo,
    /// A file of the kernel's, such as `/proc/kmsg`, that may never end. Never opened.
    Endless,
    /// A socket or a device. Never opened.
    Special,
    /// It cannot be looked at.
    Unreadable,
}

/// What the metadata of an entry says, for the checks that care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    /// What it is, links followed.
    pub kind: EntryKind,
    /// Its name begins with a dot, so that a directory scan does not see it.
    pub hidden: bool,
    /// The entry itself is a symbolic link.
    pub symlink: bool,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits (Unix), without the file type.
    pub mode: u32,
    /// Owner (Unix).
    pub uid: u32,
    /// Device and inode (Unix): equal for hard links.
    pub inode: (u64, u64),
    /// Hard links to the file.
    pub links: u64,
    /// Last modification, in nanoseconds since the Unix epoch.
    pub modified_nanos: Option<i64>,
}

/// One directory entry, or the single file, and what the kubelet does with it.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The path as the kubelet would log it.
    pub path: PathBuf,
    /// The path under which the kubelet reads it; absent if that cannot be told.
    pub seen_as: Option<PathBuf>,
    /// What the metadata says. Absent for standard input.
    pub meta: Option<EntryMeta>,
    /// What the kubelet does with it.
    pub verdict: Verdict,
    /// The pod, if the file is loaded or shadowed.
    pub pod: Option<PodIdentity>,
    /// The pod's UID, or why it cannot be told; absent where no named pod was decoded. A pod that is refused later has
    /// one too.
    pub uid: Option<Result<String, NotTold>>,
    /// Why it is not loaded, in the kubelet's words as far as they are known.
    pub kubelet_reason: Option<String>,
    /// What the kubelet's own rules have to say. Other checks add theirs.
    pub findings: Vec<Finding>,
    /// What was read, if it could be read.
    pub document: Option<Document>,
}

impl FileReport {
    /// The UID that the file itself gives its pod.
    pub fn fixed_uid(&self) -> Option<String> {
        let pod = &self.document.as_ref()?.pod.as_ref()?.pod;
        let uid = pod.get("metadata")?.get("uid")?.as_str()?;
        (!uid.is_empty()).then(|| uid.to_owned())
    }
}

/// The text of a file and what was understood of it.
#[derive(Clone, Debug)]
pub struct Document {
    /// The text, decoded to UTF-8; what could not be decoded is U+FFFD.
    pub text: Arc<str>,
    /// The first document as a tree, if it parses.
    pub root: Option<Node>,
    /// What the reader noticed on the way.
    pub notes: Notes,
    /// The decoded Pod, if it is one.
    pub pod: Option<DecodedPod>,
}

/// What the reader noticed, whether or not it is an error.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent observations, each with a check of its own")]
pub struct Notes {
    /// The file starts with a byte order mark.
    pub byte_order_mark: bool,
    /// The file is UTF-16.
    pub utf16: bool,
    /// The file has carriage returns.
    pub carriage_returns: bool,
    /// It was read as JSON.
    pub json: bool,
    /// Keys given more than once in one mapping.
    pub duplicate_keys: Vec<DuplicateKey>,
    /// `<<` merges, in order.
    pub merges: Vec<Merge>,
    /// Anchors or aliases are used.
    pub anchors: bool,
    /// What follows the first document.
    pub later_documents: Vec<LaterDocument>,
}

/// A key given twice. The value of the later place counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The key.
    pub key: String,
    /// Where it stood first.
    pub first: Position,
    /// Where it stands again.
    pub again: Position,
}

/// One `<<`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Where the `<<` stands.
    pub position: Position,
    /// Keys that stood before it and whose values it replaced.
    pub overrides: Vec<String>,
}

/// A document after the first one. The kubelet never looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterDocument {
    /// Where its `---` stands.
    pub position: Position,
    /// It has something in it besides comments.
    pub has_content: bool,
    /// Its top-level `kind`, as far as it can be told without parsing.
    pub kind: Option<String>,
}

/// A Pod after decoding and defaulting, as the kubelet holds it before it adds its own node name.
#[derive(Clone, Debug)]
pub struct DecodedPod {
    /// Known fields only, nulls resolved, defaults filled in. Defaults stand at the place of their parent.
    pub pod: Node,
    /// Fields that were dropped.
    pub dropped: Vec<DroppedField>,
}

/// A field that the kubelet drops without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedField {
    /// Path of the object that held it, `spec.containers[0]`; empty at the top.
    pub parent: String,
    /// Its name as written.
    pub name: String,
    /// Where the name stands.
    pub position: Position,
    /// Why it is dropped.
    pub why: Dropped,
}

/// Why a field is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// No release knows it here. `near` is a known name of this object that looks like it, `home` a path where a field
    /// of exactly this name belongs.
    Unknown {
        /// A similar field name of the same object.
        near: Option<String>,
        /// The path of an object that has a field of this name.
        home: Option<String>,
    },
    /// Known from release `1.since` on.
    TooNew {
        /// The minor release.
        since: u8,
    },
    /// Known and checked for its type, but behind a feature gate that is closed by default in this release: it has no
    /// effect.
    GateClosed {
        /// The name of the gate.
        gate: &'static str,
    },
}

/// What the kubelet makes of a path.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// The path as given, trailing slashes stripped.
    pub path: PathBuf,
    /// What it is.
    pub kind: PathKind,
    /// The entries in the kubelet's order, hidden ones included.
    pub files: Vec<FileReport>,
    /// Findings about the path itself.
    pub findings: Vec<Finding>,
}
