//! The types of tokens, which the scanner creates and the parser reads.

use super::Mark;

/// A token with its position.
#[derive(Debug)]
pub struct Token {
    /// The kind of token, with its text.
    pub kind: TokenKind,
    /// The position of its first character.
    pub start: Mark,
    /// The position after its last character.
    pub end: Mark,
}

/// The kinds of tokens. The tokens at the start and the end of block collections result from indentation.
#[derive(Debug)]
pub enum TokenKind {
    /// The end of the text.
    StreamEnd,
    /// `%YAML`.
    VersionDirective {
        /// The number before the dot.
        major: u32,
        /// The number after the dot.
        minor: u32,
    },
    /// `%TAG`.
    TagDirective {
        /// The handle, with its exclamation marks.
        handle: String,
        /// The text that replaces the handle.
        prefix: String,
    },
    /// `---`
    DocumentStart,
    /// `...`
    DocumentEnd,
    /// The start of a list in block style.
    BlockSequenceStart,
    /// The start of a map in block style.
    BlockMappingStart,
    /// The end of a collection in block style.
    BlockEnd,
    /// `[`
    FlowSequenceStart,
    /// `]`
    FlowSequenceEnd,
    /// `{`
    FlowMappingStart,
    /// `}`
    FlowMappingEnd,
    /// `-`
    BlockEntry,
    /// `,`
    FlowEntry,
    /// The start of a key.
    Key,
    /// `:`
    Value,
    /// `*name`
    Alias(String),
    /// `&name`
    Anchor(String),
    /// A tag, such as `!!str`.
    Tag {
        /// The handle, with its exclamation marks; empty for `!<…>` and `!`.
        handle: String,
        /// The text after the handle.
        suffix: String,
    },
    /// A scalar.
    Scalar {
        /// The text without quotes.
        text: String,
        /// Whether the scalar has neither quotes nor `|` nor `>`.
        plain: bool,
    },
}
