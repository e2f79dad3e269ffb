//! Parses the bytes of a file into a tree, with the rules of the kubelet's own parser.
//!
//! A file that starts with `{` after white space must be strict JSON. Any other file is YAML 1.1, and only its first
//! document is read. The reader does not know the fields of a Pod. If lists and mappings are nested deeper than in any
//! Pod, the reader checks the deep part but leaves it out of the tree.

mod alias;
mod compose;
mod json;
mod json_text;
mod map_builder;
mod notes;
mod raw;
mod scalar;
mod yaml;

use std::sync::Arc;

pub use json_text::{float, json_text, push_quoted};
pub use notes::{DuplicateKey, LaterDocument, Merge, ReaderNotes};

use super::tree::{ManifestNode, Position, Value};
use plegctl_go_yaml::{decode, first_char};

/// A list or mapping below this depth is empty in the tree. No Pod field is nested so deeply, and recursive functions can
/// walk a tree of this depth without exhausting the stack.
const KEPT_DEPTH: usize = 64;

/// The nesting at which the kubelet's JSON decoder rejects a file (maxNestingDepth in Go's encoding/json).
const MAX_DEPTH: usize = 10_000;

/// The maximum number of nodes in a file, which is far above any manifest and limits the memory. The kubelet has no
/// limit like this.
const MAX_NODES: usize = 500_000;

/// The maximum number of [`ReaderNotes`] of one kind.
const MAX_NOTES: usize = 1_000;

/// Why a file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The kind of error.
    pub fault: SyntaxFault,
    /// The problem, in plain words.
    pub message: String,
    /// The fix.
    pub fix: Option<String>,
    /// The kubelet's error message, as far as it is known.
    pub reason: String,
    /// The position.
    pub position: Option<Position>,
}

/// The kinds of syntax errors that the catalogue distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxFault {
    /// The parser does not accept the encoding or a character.
    Encoding,
    /// The YAML is invalid.
    Yaml,
    /// A `%YAML` directive other than 1.1.
    Directive,
    /// The file starts like JSON and is not valid JSON.
    Json,
    /// The file is beyond a limit of plegctl, so that plegctl does not know what the kubelet does with it.
    NotJudged,
}

/// The result of reading a file.
pub struct ReadResult {
    /// The text, with U+FFFD for bytes that cannot be decoded.
    pub text: Arc<str>,
    /// The tree of the first document.
    pub root: Result<ManifestNode, SyntaxError>,
    /// The properties of the text that the checks need.
    pub notes: ReaderNotes,
}

/// Reads a whole file.
pub fn read(bytes: &[u8]) -> ReadResult {
    let mut notes = ReaderNotes { carriage_returns: bytes.contains(&b'\r'), ..ReaderNotes::default() };
    if starts_like_json(bytes) {
        notes.json = true;
        let text: Arc<str> = Arc::from(String::from_utf8_lossy(bytes));
        let root = json::read(&text, &mut notes);
        return ReadResult { text, root, notes };
    }
    let source = decode(bytes);
    notes.byte_order_mark = source.byte_order_mark;
    notes.utf16 = source.utf16;
    let root = yaml::parse(&source, &mut notes).and_then(|document| match document {
        Some(document) => {
            alias::check(&document)?;
            compose::compose(&document, &mut notes)
        }
        None => Ok(ManifestNode::new(Position::START, Value::Null)),
    });
    ReadResult { text: Arc::from(source.whole(bytes)), root, notes }
}

/// Whether the first character after white space is `{`. A byte order mark is not white space.
fn starts_like_json(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        match rest {
            [b'{', ..] => return true,
            [byte, tail @ ..] if byte.is_ascii() => {
                if !char::from(*byte).is_whitespace() {
                    return false;
                }
                rest = tail;
            }
            _ => {
                let Some((first, length)) = first_char(rest) else {
                    return false;
                };
                if !first.is_whitespace() {
                    return false;
                }
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}
