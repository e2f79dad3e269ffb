//! Bytes to a tree, in the dialect of the kubelet's own parser.
//!
//! White space and then `{` means strict JSON; anything else is the first document of a YAML 1.1 stream. Nothing here
//! knows what a Pod is. Collections nested deeper than any Pod field are checked, then kept without their content.

mod alias;
mod compose;
mod encoding;
mod feed;
mod json;
mod json_text;
mod map_builder;
mod raw;
mod scalar;
mod yaml;

use std::sync::Arc;

pub use json_text::{float, json_text};

use super::report::Notes;
use super::tree::{Node, Position, Value};

/// Collections below this depth are kept empty: no Pod field is nested so deeply, and a tree this shallow can be
/// walked and dropped by plain recursion.
const KEPT_DEPTH: usize = 64;

/// Nesting that the kubelet's JSON decoder refuses (maxNestingDepth in Go's encoding/json).
const MAX_DEPTH: usize = 10_000;

/// Nodes that are read: no manifest comes near, and so many fit into little memory. The kubelet has no such bound.
const MAX_NODES: usize = 500_000;

/// Notes of one kind that are kept; what follows says nothing new.
const MAX_NOTES: usize = 1_000;

/// Why bytes are not a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What kind of fault it is.
    pub fault: Fault,
    /// In plain words.
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// The kubelet's words.
    pub reason: String,
    /// Where.
    pub position: Option<Position>,
}

/// The kinds of syntax error that the catalogue tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are no text that the parser accepts.
    Encoding,
    /// The YAML is broken.
    Yaml,
    /// A `%YAML` directive other than 1.1.
    Directive,
    /// It starts like JSON and is not JSON.
    Json,
    /// It is too large to be read here. The kubelet reads it.
    TooLarge,
}

/// What became of the bytes.
pub struct Reading {
    /// The text, with U+FFFD for what is no text.
    pub text: Arc<str>,
    /// The first document.
    pub root: Result<Node, SyntaxError>,
    /// What was noticed.
    pub notes: Notes,
}

/// Reads a whole file.
pub fn read(bytes: &[u8]) -> Reading {
    let mut notes = Notes { carriage_returns: bytes.contains(&b'\r'), ..Notes::default() };
    if starts_like_json(bytes) {
        notes.json = true;
        let text: Arc<str> = Arc::from(String::from_utf8_lossy(bytes));
        let root = json::read(&text, &mut notes);
        return Reading { text, root, notes };
    }
    let source = encoding::decode(bytes);
    notes.byte_order_mark = source.byte_order_mark;
    notes.utf16 = source.utf16;
    let root = yaml::parse(&source, &mut notes).and_then(|document| match document {
        Some(document) => {
            alias::check(&document)?;
            compose::compose(&document, &mut notes)
        }
        None => Ok(Node::new(Position::START, Value::Null)),
    });
    Reading { text: Arc::from(source.whole(bytes)), root, notes }
}

/// Only the first character after white space decides. A byte order mark is no white space.
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
                let Some((first, length)) = encoding::first_char(rest) else {
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
