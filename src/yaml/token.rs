//! The tokens between scanner and parser.

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

/// The kinds of tokens. Those of block collections come from indentation.
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
        /// What the handle stands for.
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
    /// A tag.
    Tag {
        /// The handle, with its exclamation marks; empty for `!<…>` and `!`.
        handle: String,
        /// The rest.
        suffix: String,
    },
    /// A scalar.
    Scalar {
        /// The text without quotes.
        text: String,
        /// Whether it has neither quotes nor `|` nor `>`.
        plain: bool,
    },
}
