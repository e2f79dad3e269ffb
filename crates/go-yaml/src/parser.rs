//! Makes events of tokens, as go-yaml v2 does. The parser is a state machine: its state [`Expected`] is what it expects
//! next. For each enclosing node, a stack has the state that follows when the inner node ends.

use super::encoding::DecodedText;
use super::scanner::Scanner;
use super::token::{Token, TokenKind};
use super::{Mark, YamlFault};

/// An event with its position.
#[derive(Debug, PartialEq)]
pub struct YamlEvent {
    /// The kind of the event, with its content.
    pub kind: EventKind,
    /// The position at which the event begins.
    pub start: Mark,
}

/// The kinds of events. The events between the start and the end of a document form one node.
#[derive(Debug, PartialEq)]
pub enum EventKind {
    /// The text ends.
    StreamEnd,
    /// A document begins.
    DocumentStart,
    /// A document ends.
    DocumentEnd {
        /// The position after the document.
        end: Mark,
    },
    /// An alias: a reference to an earlier node.
    Alias {
        /// The anchor of that node.
        anchor: String,
    },
    /// A scalar.
    Scalar {
        /// The anchor.
        anchor: Option<String>,
        /// The tag, with its prefix instead of its handle.
        tag: Option<String>,
        /// The text without quotes.
        value: String,
        /// Whether only the text decides the type. This is so for a scalar that is plain and has no tag, and for the
        /// tag `!`.
        plain_implicit: bool,
        /// Whether the scalar has neither quotes nor `|` nor `>`.
        plain: bool,
    },
    /// A list begins; its items follow.
    SequenceStart {
        /// The anchor.
        anchor: Option<String>,
        /// The tag, with its prefix instead of its handle.
        tag: Option<String>,
    },
    /// A list ends.
    SequenceEnd,
    /// A map begins; its keys and values follow alternately.
    MappingStart {
        /// The anchor.
        anchor: Option<String>,
        /// The tag, with its prefix instead of its handle.
        tag: Option<String>,
    },
    /// A map ends.
    MappingEnd,
}

/// What the parser expects next. *Indentless* is a list in a map whose `-` has the column of the map's keys.
#[derive(Clone, Copy)]
enum Expected {
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowSequenceEntryMappingKey,
    FlowSequenceEntryMappingValue,
    FlowSequenceEntryMappingEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    Nothing,
}

/// A `%TAG` directive: tags with this handle begin with this prefix.
struct TagDirective {
    handle: String,
    prefix: String,
}

/// Which styles a node may have at its position.
#[derive(Clone, Copy)]
enum NodeStyle {
    /// Only flow style.
    Flow,
    /// Flow style or block style.
    Block,
    /// Like `Block`, or a list whose `-` has the column of the map's keys.
    BlockOrIndentless,
}

/// Parses a text.
pub struct YamlParser<'t> {
    scanner: Scanner<'t>,
    expected: Expected,
    /// What the enclosing nodes expect after the current node.
    enclosing: Vec<Expected>,
    /// The positions at which the open collections begin.
    starts: Vec<Mark>,
    /// The directives of this document.
    tag_directives: Vec<TagDirective>,
}

impl<'t> YamlParser<'t> {
    /// Creates a parser at the start of `text`.
    pub fn new(text: DecodedText<'t>) -> Self {
        Self {
            scanner: Scanner::new(text),
            expected: Expected::ImplicitDocumentStart,
            enclosing: Vec::new(),
            starts: Vec::new(),
            tag_directives: Vec::new(),
        }
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Result<YamlEvent, YamlFault> {
        match self.expected {
            Expected::ImplicitDocumentStart => self.document_start(true),
            Expected::DocumentStart => self.document_start(false),
            Expected::DocumentContent => self.document_content(),
            Expected::DocumentEnd => self.document_end(),
            Expected::BlockNode => self.node(NodeStyle::Block),
            Expected::BlockSequenceEntry => self.block_sequence_entry(),
            Expected::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            Expected::BlockMappingKey => self.block_mapping_key(),
            Expected::BlockMappingValue => self.block_mapping_value(),
            Expected::FlowSequenceFirstEntry => self.flow_sequence_entry(true),
            Expected::FlowSequenceEntry => self.flow_sequence_entry(false),
            Expected::FlowSequenceEntryMappingKey => self.flow_sequence_entry_mapping_key(),
            Expected::FlowSequenceEntryMappingValue => self.flow_sequence_entry_mapping_value(),
            Expected::FlowSequenceEntryMappingEnd => {
                let start = self.scanner.peek()?.start;
                self.expected = Expected::FlowSequenceEntry;
                Ok(YamlEvent { kind: EventKind::MappingEnd, start })
            }
            Expected::FlowMappingFirstKey => self.flow_mapping_key(true),
            Expected::FlowMappingKey => self.flow_mapping_key(false),
            Expected::FlowMappingValue => self.flow_mapping_value(),
            Expected::FlowMappingEmptyValue => {
                let start = self.scanner.peek()?.start;
                Ok(self.empty_scalar(start, Expected::FlowMappingKey))
            }
            Expected::Nothing => Ok(YamlEvent { kind: EventKind::StreamEnd, start: Mark::default() }),
        }
    }

    /// Parses the beginning of a document, with its directives.
    fn document_start(&mut self, implicit: bool) -> Result<YamlEvent, YamlFault> {
        if !implicit {
            while matches!(self.scanner.peek()?.kind, TokenKind::DocumentEnd) {
                self.scanner.skip();
            }
        }
        let token = self.scanner.peek()?;
        let start = token.start;
        let explicit = match token.kind {
            TokenKind::StreamEnd => {
                self.expected = Expected::Nothing;
                self.scanner.skip();
                return Ok(YamlEvent { kind: EventKind::StreamEnd, start });
            }
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => true,
            _ => !implicit,
        };
        self.directives()?;
        self.expected = Expected::BlockNode;
        if explicit {
            let token = self.scanner.peek()?;
            if !matches!(token.kind, TokenKind::DocumentStart) {
                return Err(YamlFault::parser("did not find expected <document start>", token.start, None));
            }
            self.scanner.skip();
            self.expected = Expected::DocumentContent;
        }
        self.enclosing.push(Expected::DocumentEnd);
        Ok(YamlEvent { kind: EventKind::DocumentStart, start })
    }

    /// Parses the directives before a document.
    fn directives(&mut self) -> Result<(), YamlFault> {
        let mut has_version = false;
        loop {
            let Token { kind, start, .. } = self.scanner.peek()?;
            let start = *start;
            match kind {
                TokenKind::VersionDirective { .. } if has_version => {
                    return Err(YamlFault::parser("found duplicate %YAML directive", start, None));
                }
                TokenKind::VersionDirective { major: 1, minor: 1 } => has_version = true,
                TokenKind::VersionDirective { .. } => {
                    return Err(YamlFault::parser("found incompatible YAML document", start, None));
                }
                TokenKind::TagDirective { handle, prefix } => {
                    let (handle, prefix) = (std::mem::take(handle), std::mem::take(prefix));
                    if self.prefix_of(&handle).is_some() {
                        return Err(YamlFault::parser("found duplicate %TAG directive", start, None));
                    }
                    self.tag_directives.push(TagDirective { handle, prefix });
                }
                _ => break,
            }
            self.scanner.skip();
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if self.prefix_of(handle).is_none() {
                self.tag_directives
                    .push(TagDirective { handle: handle.to_owned(), prefix: prefix.to_owned() });
            }
        }
        Ok(())
    }

    /// Returns the prefix for which a tag handle stands.
    fn prefix_of(&self, handle: &str) -> Option<&str> {
        let directive = self.tag_directives.iter().find(|directive| directive.handle == handle)?;
        Some(&directive.prefix)
    }

    /// Parses the content of a document; an empty document has an empty scalar.
    fn document_content(&mut self) -> Result<YamlEvent, YamlFault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                let start = token.start;
                let next = self.pop_enclosing();
                Ok(self.empty_scalar(start, next))
            }
            _ => self.node(NodeStyle::Block),
        }
    }

    /// Parses the end of a document.
    fn document_end(&mut self) -> Result<YamlEvent, YamlFault> {
        let token = self.scanner.peek()?;
        let start = token.start;
        let mut end = start;
        if matches!(token.kind, TokenKind::DocumentEnd) {
            end = token.end;
            self.scanner.skip();
        }
        self.tag_directives.clear();
        self.expected = Expected::DocumentStart;
        Ok(YamlEvent { kind: EventKind::DocumentEnd { end }, start })
    }

    /// Parses a node with its anchor and its tag.
    fn node(&mut self, style: NodeStyle) -> Result<YamlEvent, YamlFault> {
        let block = !matches!(style, NodeStyle::Flow);
        let start = self.scanner.peek()?.start;
        let mut anchor: Option<String> = None;
        let mut tag: Option<(String, String, Mark)> = None;
        while anchor.is_none() || tag.is_none() {
            let token = self.scanner.peek()?;
            match &mut token.kind {
                TokenKind::Alias(name) if anchor.is_none() && tag.is_none() => {
                    let kind = EventKind::Alias { anchor: std::mem::take(name) };
                    self.scanner.skip();
                    self.expected = self.pop_enclosing();
                    return Ok(YamlEvent { kind, start });
                }
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(std::mem::take(name)),
                TokenKind::Tag { handle, suffix } if tag.is_none() => {
                    tag = Some((std::mem::take(handle), std::mem::take(suffix), token.start));
                }
                _ => break,
            }
            self.scanner.skip();
        }
        let tag = match tag {
            None => None,
            Some((handle, suffix, _)) if handle.is_empty() => Some(suffix),
            Some((handle, suffix, mark)) => {
                let Some(prefix) = self.prefix_of(&handle) else {
                    let context = Some(("while parsing a node", start));
                    return Err(YamlFault::parser("found undefined tag handle", mark, context));
                };
                Some(format!("{prefix}{suffix}"))
            }
        };
        let token = self.scanner.peek()?;
        let token_start = token.start;
        let (kind, expected) = match &mut token.kind {
            TokenKind::Scalar { text, plain } => {
                let plain_implicit = *plain && tag.is_none() || tag.as_deref() == Some("!");
                let value = std::mem::take(text);
                let kind = EventKind::Scalar { anchor, tag, value, plain_implicit, plain: *plain };
                self.scanner.skip();
                (kind, self.pop_enclosing())
            }
            TokenKind::BlockEntry if matches!(style, NodeStyle::BlockOrIndentless) => {
                (EventKind::SequenceStart { anchor, tag }, Expected::IndentlessSequenceEntry)
            }
            TokenKind::FlowSequenceStart => {
                self.open(token_start);
                (EventKind::SequenceStart { anchor, tag }, Expected::FlowSequenceFirstEntry)
            }
            TokenKind::FlowMappingStart => {
                self.open(token_start);
                (EventKind::MappingStart { anchor, tag }, Expected::FlowMappingFirstKey)
            }
            TokenKind::BlockSequenceStart if block => {
                self.open(token_start);
                (EventKind::SequenceStart { anchor, tag }, Expected::BlockSequenceEntry)
            }
            TokenKind::BlockMappingStart if block => {
                self.open(token_start);
                (EventKind::MappingStart { anchor, tag }, Expected::BlockMappingKey)
            }
            _ if anchor.is_some() || tag.is_some() => {
                let plain_implicit = tag.as_deref().is_none_or(str::is_empty);
                let kind =
                    EventKind::Scalar { anchor, tag, value: String::new(), plain_implicit, plain: true };
                (kind, self.pop_enclosing())
            }
            _ => {
                let words = if block { "while parsing a block node" } else { "while parsing a flow node" };
                let context = Some((words, token_start));
                return Err(YamlFault::parser("did not find expected node content", token_start, context));
            }
        };
        self.expected = expected;
        Ok(YamlEvent { kind, start })
    }

    /// Skips the first token of a collection, which begins at `start`, and enters the collection.
    fn open(&mut self, start: Mark) {
        self.starts.push(start);
        self.scanner.skip();
    }

    /// Skips the last token of a collection, which begins at `start`, and leaves the collection.
    fn close(&mut self, kind: EventKind, start: Mark) -> YamlEvent {
        self.starts.pop();
        self.scanner.skip();
        self.expected = self.pop_enclosing();
        YamlEvent { kind, start }
    }

    /// Removes the state of the enclosing node from the stack, and returns it: what that node expects next.
    fn pop_enclosing(&mut self) -> Expected {
        self.enclosing.pop().unwrap_or(Expected::Nothing)
    }

    /// Parses a node, after which `next` is expected.
    fn node_then(&mut self, style: NodeStyle, next: Expected) -> Result<YamlEvent, YamlFault> {
        self.enclosing.push(next);
        self.node(style)
    }

    /// Returns the event for a value that is missing in the text. After it, `next` is expected.
    fn empty_scalar(&mut self, start: Mark, next: Expected) -> YamlEvent {
        self.expected = next;
        let kind = EventKind::Scalar {
            anchor: None,
            tag: None,
            value: String::new(),
            plain_implicit: true,
            plain: true,
        };
        YamlEvent { kind, start }
    }

    /// Returns a fault in the innermost collection.
    fn collection_fault(
        &mut self,
        context: &'static str,
        problem: &'static str,
        mark: Mark,
    ) -> Result<YamlEvent, YamlFault> {
        let start = self.starts.pop().unwrap_or_default();
        Err(YamlFault::parser(problem, mark, Some((context, start))))
    }

    /// Parses the next item of a block sequence, or its end.
    fn block_sequence_entry(&mut self) -> Result<YamlEvent, YamlFault> {
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, end) = (*start, *end);
        match kind {
            TokenKind::BlockEntry => {
                self.scanner.skip();
                match self.scanner.peek()?.kind {
                    TokenKind::BlockEntry | TokenKind::BlockEnd => {
                        Ok(self.empty_scalar(end, Expected::BlockSequenceEntry))
                    }
                    _ => self.node_then(NodeStyle::Block, Expected::BlockSequenceEntry),
                }
            }
            TokenKind::BlockEnd => Ok(self.close(EventKind::SequenceEnd, start)),
            _ => self.collection_fault(
                "while parsing a block collection",
                "did not find expected '-' indicator",
                start,
            ),
        }
    }

    /// Parses the next item of a sequence that is not indented more than its mapping, or its end.
    fn indentless_sequence_entry(&mut self) -> Result<YamlEvent, YamlFault> {
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, end) = (*start, *end);
        if !matches!(kind, TokenKind::BlockEntry) {
            self.expected = self.pop_enclosing();
            return Ok(YamlEvent { kind: EventKind::SequenceEnd, start });
        }
        self.scanner.skip();
        match self.scanner.peek()?.kind {
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                Ok(self.empty_scalar(end, Expected::IndentlessSequenceEntry))
            }
            _ => self.node_then(NodeStyle::Block, Expected::IndentlessSequenceEntry),
        }
    }

    /// Parses the next key of a block mapping, or the end of the mapping.
    fn block_mapping_key(&mut self) -> Result<YamlEvent, YamlFault> {
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, end) = (*start, *end);
        match kind {
            TokenKind::Key => {
                self.scanner.skip();
                self.block_mapping_node(end, Expected::BlockMappingValue)
            }
            TokenKind::BlockEnd => Ok(self.close(EventKind::MappingEnd, start)),
            _ => self.collection_fault("while parsing a block mapping", "did not find expected key", start),
        }
    }

    /// Parses a value of a block mapping.
    fn block_mapping_value(&mut self) -> Result<YamlEvent, YamlFault> {
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, end) = (*start, *end);
        if !matches!(kind, TokenKind::Value) {
            return Ok(self.empty_scalar(start, Expected::BlockMappingKey));
        }
        self.scanner.skip();
        self.block_mapping_node(end, Expected::BlockMappingKey)
    }

    /// Parses the key or value after the indicator that ends at `end`.
    fn block_mapping_node(&mut self, end: Mark, next: Expected) -> Result<YamlEvent, YamlFault> {
        match self.scanner.peek()?.kind {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(self.empty_scalar(end, next)),
            _ => self.node_then(NodeStyle::BlockOrIndentless, next),
        }
    }

    /// Parses the next item of a flow sequence, or its end.
    fn flow_sequence_entry(&mut self, first: bool) -> Result<YamlEvent, YamlFault> {
        if !first && !self.skip_flow_entry(|kind| matches!(kind, TokenKind::FlowSequenceEnd))? {
            let mark = self.scanner.peek()?.start;
            return self.collection_fault(
                "while parsing a flow sequence",
                "did not find expected ',' or ']'",
                mark,
            );
        }
        let token = self.scanner.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::FlowSequenceEnd => Ok(self.close(EventKind::SequenceEnd, start)),
            TokenKind::Key => {
                self.expected = Expected::FlowSequenceEntryMappingKey;
                self.scanner.skip();
                Ok(YamlEvent { kind: EventKind::MappingStart { anchor: None, tag: None }, start })
            }
            _ => self.node_then(NodeStyle::Flow, Expected::FlowSequenceEntry),
        }
    }

    /// Skips the comma between two entries. Returns whether it skipped a comma or the end of the collection comes next.
    fn skip_flow_entry(&mut self, is_end: fn(&TokenKind) -> bool) -> Result<bool, YamlFault> {
        let kind = &self.scanner.peek()?.kind;
        if matches!(kind, TokenKind::FlowEntry) {
            self.scanner.skip();
            return Ok(true);
        }
        Ok(is_end(kind))
    }

    /// Parses the key of a mapping with one entry in a flow sequence: `[key: value]`.
    fn flow_sequence_entry_mapping_key(&mut self) -> Result<YamlEvent, YamlFault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                // go-yaml skips this token in a list, but not in a map.
                let end = token.end;
                self.scanner.skip();
                Ok(self.empty_scalar(end, Expected::FlowSequenceEntryMappingValue))
            }
            _ => self.node_then(NodeStyle::Flow, Expected::FlowSequenceEntryMappingValue),
        }
    }

    /// Parses the value of such a mapping.
    fn flow_sequence_entry_mapping_value(&mut self) -> Result<YamlEvent, YamlFault> {
        self.flow_value(Expected::FlowSequenceEntryMappingEnd, |kind| {
            matches!(kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd)
        })
    }

    /// Parses the next key of a flow mapping, or the end of the mapping.
    fn flow_mapping_key(&mut self, first: bool) -> Result<YamlEvent, YamlFault> {
        if !first && !self.skip_flow_entry(|kind| matches!(kind, TokenKind::FlowMappingEnd))? {
            let mark = self.scanner.peek()?.start;
            return self.collection_fault(
                "while parsing a flow mapping",
                "did not find expected ',' or '}'",
                mark,
            );
        }
        let token = self.scanner.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::FlowMappingEnd => Ok(self.close(EventKind::MappingEnd, start)),
            TokenKind::Key => {
                self.scanner.skip();
                let token = self.scanner.peek()?;
                match token.kind {
                    TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => {
                        let start = token.start;
                        Ok(self.empty_scalar(start, Expected::FlowMappingValue))
                    }
                    _ => self.node_then(NodeStyle::Flow, Expected::FlowMappingValue),
                }
            }
            _ => self.node_then(NodeStyle::Flow, Expected::FlowMappingEmptyValue),
        }
    }

    /// Parses a value of a flow mapping.
    fn flow_mapping_value(&mut self) -> Result<YamlEvent, YamlFault> {
        self.flow_value(Expected::FlowMappingKey, |kind| {
            matches!(kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd)
        })
    }

    /// Parses the value after a colon. Without a colon or a value, the value is empty.
    fn flow_value(&mut self, next: Expected, is_end: fn(&TokenKind) -> bool) -> Result<YamlEvent, YamlFault> {
        if matches!(self.scanner.peek()?.kind, TokenKind::Value) {
            self.scanner.skip();
            if !is_end(&self.scanner.peek()?.kind) {
                return self.node_then(NodeStyle::Flow, next);
            }
        }
        let start = self.scanner.peek()?.start;
        Ok(self.empty_scalar(start, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    /// Writes the events in a short form: brackets for collections, scalars with `'` before them unless they are plain, and
    /// `.` or the fault at the end.
    fn events(text: &str) -> String {
        let mut parser = YamlParser::new(decode(text.as_bytes()));
        let mut words: Vec<String> = Vec::new();
        loop {
            match parser.next_event() {
                Ok(YamlEvent { kind: EventKind::StreamEnd, .. }) => words.push(".".to_owned()),
                Err(fault) => words.push(fault.to_string()),
                Ok(event) => {
                    words.extend(word(event.kind));
                    continue;
                }
            }
            return words.join(" ");
        }
    }

    fn word(kind: EventKind) -> Option<String> {
        let with = |anchor: Option<String>, tag: Option<String>, text: &str| {
            let anchor = anchor.map_or_else(String::new, |anchor| format!("&{anchor} "));
            let tag = tag.map_or_else(String::new, |tag| format!("!{tag} "));
            Some(format!("{anchor}{tag}{text}"))
        };
        match kind {
            EventKind::DocumentStart => Some("---".to_owned()),
            EventKind::DocumentEnd { .. } | EventKind::StreamEnd => None,
            EventKind::Alias { anchor } => Some(format!("*{anchor}")),
            EventKind::Scalar { anchor, tag, value, plain: true, .. } => {
                with(anchor, tag, &value.replace('\n', "\\n"))
            }
            EventKind::Scalar { anchor, tag, value, .. } => {
                with(anchor, tag, &format!("'{}", value.replace('\n', "\\n")))
            }
            EventKind::SequenceStart { anchor, tag } => with(anchor, tag, "["),
            EventKind::MappingStart { anchor, tag } => with(anchor, tag, "{"),
            EventKind::SequenceEnd => Some("]".to_owned()),
            EventKind::MappingEnd => Some("}".to_owned()),
        }
    }

    #[test]
    fn texts_are_parsed_into_the_events_of_go_yaml() {
        for (text, expected) in [
            ("", "."),
            ("a: 1\nb:\n- x\n- y: 2\n  z:\n", "--- { a 1 b [ x { y 2 z  } ] } ."),
            ("[a, b: c, {d, e: f}]", "--- [ a { b c } { d  e f } ] ."),
            ("? a\n: b\n? c\n", "--- { a b c  } ."),
            ("a: &x !!str b\nc: *x\n", "--- { a &x !tag:yaml.org,2002:str b c *x } ."),
            ("--- 'it''s'\n...\n--- \"\\x41\\u00e9\"\n", "--- 'it's --- 'Aé ."),
            ("a: |\n  b\n   c\n\nd: >-\n  e\n  f\n", r"--- { a 'b\n c\n d 'e f } ."),
            ("a b\n  c\n\n  d", r"--- a b c\nd ."),
            ("%TAG !e! x:\n--- !e!a,[b] c", "--- !x:a,[b] c ."),
            ("[a:, b:]", "--- [ a: b: ] ."),
            ("\"\\'\"", "--- '' ."),
            (
                "a: [{}: b]",
                "--- { a [ { } Parser error: line 1 column 5: did not find expected ',' or ']' while parsing a flow sequence (line 1 column 4)",
            ),
        ] {
            assert_eq!(events(text), expected, "{text:?}");
        }
    }

    #[test]
    fn faults_have_the_same_text_and_position_and_context_as_in_go_yaml() {
        for (text, expected) in [
            (
                "a: b: c",
                "--- { a b Scanner error: line 1 column 5: mapping values are not allowed in this context",
            ),
            (
                "a: 'b\n",
                "--- { a Scanner error: line 2 column 1: found unexpected end of stream while scanning a quoted scalar (line 1 column 4)",
            ),
            (
                "\"\\/\"",
                "Scanner error: line 1 column 2: found unknown escape character while parsing a quoted scalar (line 1 column 1)",
            ),
            (
                "[a, b",
                "--- [ a b Parser error: line 2 column 1: did not find expected ',' or ']' while parsing a flow sequence (line 1 column 1)",
            ),
            (
                "a: !x!y b",
                "--- { a Parser error: line 1 column 4: found undefined tag handle while parsing a node (line 1 column 4)",
            ),
            ("%YAML 1.2\n---\n", "Parser error: line 1 column 1: found incompatible YAML document"),
            ("a\u{1}b", "Reader error: line 1 column 2: control characters are not allowed"),
        ] {
            assert_eq!(events(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nesting_ends_at_the_limit_of_go_yaml() {
        let deep = "[".repeat(10_001);
        assert!(
            events(&deep)
                .ends_with("exceeded max depth of 10000 while increasing flow level (line 1 column 10001)")
        );
    }
}
