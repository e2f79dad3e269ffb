//! Parses YAML as go-yaml v2 does, which is the kubelet's library. Bytes become characters (`encoding`, `text_cursor`),
//! tokens (`scanner`, with `scalars` and `properties`), and events (`parser`). [`Documents`] makes a simple tree of the
//! events.
//!
//! go-yaml v2 is a port of libyaml. libyaml-safer by Simon Ask Ulsnes is another port; this scanner and this parser are
//! derived from its version 0.3.0 (`LICENSE-libyaml-safer`). They differ from it where go-yaml differs from libyaml:
//!
//! * A tag may contain `,`, `[` and `]`.
//! * A double-quoted text may have the escape `\'` but not `\/`.
//! * In `[]` and `{}`, a plain text may contain a colon before a bracket or a comma, and ends at `?`.
//! * Only the simple key that may precede the next token is checked. If the parser has already taken that token
//!   (`a: [{}: b]`), the key token comes last.
//! * A simple key may have 1024 characters, not bytes.
//! * U+FEFF is skipped only where go-yaml's buffer starts with it.
//! * `%YAML` accepts 1.1 only.
//! * Flow collections and indents nest at most 10 000 deep.
//!
//! This module does not resolve tags, types or aliases, and does not write YAML.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

mod encoding;
mod error;
mod parser;
mod properties;
mod scalars;
mod scanner;
mod text_cursor;
mod token;
mod tree;

pub use encoding::{DecodedText, EncodingFault, decode, first_char};
pub use error::{FaultStage, YamlFault};
pub use parser::{EventKind, YamlEvent, YamlParser};
pub use tree::{Documents, YamlError, YamlKind, YamlNode};

/// A position in a file: line and column in characters, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A position in the scanner, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of characters before it.
    pub index: usize,
    /// The number of lines before it.
    pub line: usize,
    /// The number of characters before it in its line.
    pub column: usize,
}

impl Mark {
    /// Converts the mark to a position that is shown to users.
    pub fn position(self) -> Position {
        let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
        Position { line: from_one(self.line), column: from_one(self.column) }
    }
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
