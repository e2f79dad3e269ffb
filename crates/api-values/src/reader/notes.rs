//! [`ReaderNotes`]: what a tree does not show of its text.

use crate::tree::Position;

/// Properties of the text that the tree does not show and that the checks need.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties, which the checks read one by one")]
pub struct ReaderNotes {
    /// The file starts with a byte order mark.
    pub byte_order_mark: bool,
    /// The file is UTF-16.
    pub utf16: bool,
    /// The file has carriage returns.
    pub carriage_returns: bool,
    /// The file was read as JSON.
    pub json: bool,
    /// Keys that occur more than once in one mapping.
    pub duplicate_keys: Vec<DuplicateKey>,
    /// `<<` merges, in order.
    pub merges: Vec<Merge>,
    /// Whether anchors or aliases are used.
    pub anchors: bool,
    /// The documents after the first.
    pub later_documents: Vec<LaterDocument>,
}

/// A key that occurs twice in one mapping. The later value counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The key.
    pub key: String,
    /// The position of the first occurrence.
    pub first: Position,
    /// The position of the repeated occurrence.
    pub again: Position,
}

/// One `<<` merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The position of the `<<`.
    pub position: Position,
    /// The keys before the merge whose values the merge replaces.
    pub overrides: Vec<String>,
}

/// A document after the first. The kubelet never reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterDocument {
    /// The position of its `---`.
    pub position: Position,
    /// Whether the document has content besides comments.
    pub has_content: bool,
    /// Its top-level `kind`, if a line starts with `kind:`. The document is not parsed.
    pub kind: Option<String>,
}
