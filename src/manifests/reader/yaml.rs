//! The first document of a YAML stream, parsed by `libyaml-safer` into a flat list of nodes.
//!
//! libyaml and the kubelet's go-yaml v2 are ports of one scanner. What differs is settled here: `%YAML 1.2` is refused,
//! a tag may end in commas, text is fed in the pieces that decide how far ahead an encoding fault is seen.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use libyaml_safer::{Encoding, Error, ErrorKind, EventData, Mark, Parser, ScalarStyle};

use super::encoding::{EncodingFault, Source};
use super::scalar::{self, Scalar, TagFault};
use super::{Fault, MAX_DEPTH, SyntaxError, alias, compose};
use crate::manifests::report::{LaterDocument, Notes};
use crate::manifests::tree::{Node, Position};

/// Bytes that go-yaml reads at a time (input_raw_buffer_size in readerc.go).
const PIECE: usize = 512;

/// One node as parsed, children by number.
pub struct RawNode {
    pub position: Position,
    pub kind: RawKind,
    /// How the scalar was written, if it is plain.
    pub written: Option<String>,
}

/// What a parsed node is.
pub enum RawKind {
    Scalar(Scalar),
    /// A plain `<<` key.
    Merge,
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Alias(usize),
}

/// All nodes of the document; the first one is the root.
pub struct RawDocument {
    pub nodes: Vec<RawNode>,
}

impl RawDocument {
    /// The node with this number, aliases followed once.
    pub fn target(&self, number: usize) -> Option<&RawNode> {
        let node = self.nodes.get(number)?;
        match node.kind {
            RawKind::Alias(target) => self.nodes.get(target),
            _ => Some(node),
        }
    }
}

/// Reads the first document.
pub fn read(source: &Source, notes: &mut Notes) -> Result<Node, SyntaxError> {
    let commas = Commas::hidden_in_tags(&source.text);
    let text = commas.as_ref().map_or(source.text.as_str(), |commas| commas.text.as_str());
    // The scanner looks one character past a backslash without asking whether there is one.
    let padded = text.ends_with('\\').then(|| format!("{text}\n"));
    let feed =
        Feed { text: padded.as_deref().unwrap_or(text).as_bytes(), given: 0, fault: source.fault.as_ref() };
    let mut events = Events { parser: Parser::new(), source };
    events.parser.set_encoding(Encoding::Utf8);
    events.parser.set_input(feed);
    let document = events.document(commas.as_ref(), notes)?;
    let Some(document) = document else {
        return Ok(Node::new(Position::START, crate::manifests::tree::Value::Null));
    };
    alias::check(&document)?;
    compose::compose(&document, notes)
}

/// Hands the text out in go-yaml's pieces; a piece with a fault in it is not handed out.
struct Feed<'a> {
    text: &'a [u8],
    given: usize,
    fault: Option<&'a EncodingFault>,
}

impl Read for Feed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let count = piece.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(piece) {
            *to = *from;
        }
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Feed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let end = (self.given / PIECE + 1) * PIECE;
        if end > self.text.len() && self.fault.is_some() {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(self.text.get(self.given..end.min(self.text.len())).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.given = self.given.saturating_add(amount).min(self.text.len());
    }
}

struct Events<'a> {
    parser: Parser<Feed<'a>>,
    source: &'a Source,
}

/// A collection that is not finished: its number, and for a mapping the key that waits for its value.
struct Open {
    number: usize,
    key: Option<usize>,
}

impl Events<'_> {
    fn document(
        &mut self,
        commas: Option<&Commas>,
        notes: &mut Notes,
    ) -> Result<Option<RawDocument>, SyntaxError> {
        let mut nodes: Vec<RawNode> = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let mut anchors: HashMap<String, usize> = HashMap::new();
        loop {
            let event = self.parser.parse().map_err(|error| self.syntax_error(&error))?;
            let position = position(event.start_mark);
            let (kind, written, anchor) = match event.data {
                EventData::StreamStart { .. } => continue,
                EventData::StreamEnd => return Ok(None),
                EventData::DocumentStart { version_directive, .. } => {
                    if version_directive.is_some_and(|version| (version.major, version.minor) != (1, 1)) {
                        return Err(directive_error(position));
                    }
                    continue;
                }
                EventData::DocumentEnd { .. } => {
                    notes.later_documents =
                        later_documents(&self.source.text, event.start_mark, event.end_mark);
                    return Ok(Some(RawDocument { nodes }));
                }
                EventData::SequenceEnd | EventData::MappingEnd => {
                    open.pop();
                    continue;
                }
                EventData::Alias { anchor } => {
                    notes.anchors = true;
                    let target =
                        anchors.get(&anchor).copied().ok_or_else(|| unknown_anchor(&anchor, position))?;
                    (RawKind::Alias(target), None, None)
                }
                EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                    let value = commas.map_or_else(|| value.clone(), |commas| commas.restore(&value));
                    let plain = style == ScalarStyle::Plain;
                    let merge = value == "<<" && (plain_implicit || tag.as_deref() == Some(MERGE_TAG));
                    let kind = if merge {
                        RawKind::Merge
                    } else {
                        let scalar = scalar::resolve(tag.as_deref(), plain, &value)
                            .map_err(|fault| tag_error(&fault, &value, position))?;
                        RawKind::Scalar(scalar)
                    };
                    (kind, plain.then_some(value), anchor)
                }
                EventData::SequenceStart { anchor, .. } => (RawKind::List(Vec::new()), None, anchor),
                EventData::MappingStart { anchor, .. } => (RawKind::Map(Vec::new()), None, anchor),
            };
            let number = nodes.len();
            let collection = matches!(kind, RawKind::List(_) | RawKind::Map(_));
            nodes.push(RawNode { position, kind, written });
            if let Some(anchor) = anchor {
                notes.anchors = true;
                anchors.insert(anchor, number);
            }
            attach(&mut nodes, open.last_mut(), number);
            if collection {
                open.push(Open { number, key: None });
                if open.len() > MAX_DEPTH {
                    return Err(yaml_error(
                        "exceeded max depth of 10000",
                        "nested too deeply",
                        position,
                        None,
                    ));
                }
            }
        }
    }

    fn syntax_error(&self, error: &Error) -> SyntaxError {
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Reader) {
            if let Some(fault) = &self.source.fault {
                return encoding_error(fault);
            }
        }
        let mark = error.problem_mark().unwrap_or_default();
        let context = error.context_mark().unwrap_or_default();
        // go-yaml's own idea of the line: scanner marks count from zero and get one added, others do not.
        let line = match (mark.line, error.kind()) {
            (0, _) => context.line,
            (line, ErrorKind::Scanner) => line.saturating_add(1),
            (line, _) => line,
        };
        let place = if line == 0 { String::new() } else { format!("line {line}: ") };
        let problem = error.problem();
        let position = position(mark);
        let line_text =
            self.source.text.lines().nth(usize::try_from(mark.line).unwrap_or(usize::MAX)).unwrap_or("");
        SyntaxError {
            fault: Fault::Yaml,
            message: format!("this is not valid YAML: {problem}"),
            fix: hint(problem, line_text).map(str::to_owned),
            reason: format!("yaml: {place}{problem}"),
            position: Some(position),
        }
    }
}

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Hangs a new node below the innermost open collection.
fn attach(nodes: &mut [RawNode], parent: Option<&mut Open>, number: usize) {
    let Some(parent) = parent else { return };
    let Some(node) = nodes.get_mut(parent.number) else {
        return;
    };
    match &mut node.kind {
        RawKind::List(items) => items.push(number),
        RawKind::Map(pairs) => match parent.key.take() {
            Some(key) => pairs.push((key, number)),
            None => parent.key = Some(number),
        },
        _ => {}
    }
}

fn position(mark: Mark) -> Position {
    let from_one = |count: u64| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: from_one(mark.line), column: from_one(mark.column) }
}

/// A broken document, in our words and the kubelet's.
pub fn yaml_error(reason: &str, message: &str, position: Position, fix: Option<&str>) -> SyntaxError {
    SyntaxError {
        fault: Fault::Yaml,
        message: message.to_owned(),
        fix: fix.map(str::to_owned),
        reason: format!("yaml: {reason}"),
        position: Some(position),
    }
}

fn directive_error(position: Position) -> SyntaxError {
    SyntaxError {
        fault: Fault::Directive,
        message: "the kubelet's parser accepts no %YAML directive but 1.1".to_owned(),
        fix: Some("delete the %YAML line".to_owned()),
        reason: "yaml: found incompatible YAML document".to_owned(),
        position: Some(position),
    }
}

fn unknown_anchor(anchor: &str, position: Position) -> SyntaxError {
    yaml_error(
        &format!("unknown anchor '{anchor}' referenced"),
        &format!("the alias *{anchor} refers to an anchor that is not defined above it"),
        position,
        Some("define the anchor with `&` first, or quote the value if it is meant as text"),
    )
}

fn tag_error(fault: &TagFault, value: &str, position: Position) -> SyntaxError {
    match fault {
        TagFault::Base64 => yaml_error(
            "!!binary value contains invalid base64 data",
            "the value of a !!binary tag is not base64",
            position,
            None,
        ),
        TagFault::Mismatch { found, wanted } => yaml_error(
            &format!("cannot decode {found} `{value}` as a {wanted}"),
            &format!("the tag asks for {wanted}, but the value is {found}"),
            position,
            Some("remove the tag"),
        ),
    }
}

fn encoding_error(fault: &EncodingFault) -> SyntaxError {
    SyntaxError {
        fault: Fault::Encoding,
        message: format!("the kubelet's parser does not accept this as text: {}", fault.reason),
        fix: Some("save the file as UTF-8 without control characters".to_owned()),
        reason: format!("yaml: {}", fault.reason),
        position: Some(fault.position),
    }
}

fn hint(problem: &str, line: &str) -> Option<&'static str> {
    if line.trim_start_matches(' ').starts_with('\t') {
        return Some("indent with spaces: YAML allows no tab here");
    }
    if line.contains("{{") || line.contains("}}") {
        return Some("render the template first, or quote the value");
    }
    match problem {
        "mapping values are not allowed in this context" => Some(
            "check the indentation of this line and the one above, or quote the value if it contains `: `",
        ),
        "did not find expected key" | "did not find expected '-' indicator" => {
            Some("align this line with its neighbours")
        }
        "found unexpected end of stream" => Some("close the quote"),
        "could not find expected ':'" => Some("add the `:` after the key"),
        "found character that cannot start any token" => Some("quote the value"),
        _ => None,
    }
}

/// What follows the first document, found by its `---` lines: the kubelet does not parse it, so neither do we.
fn later_documents(text: &str, start: Mark, end: Mark) -> Vec<LaterDocument> {
    let first = usize::try_from(start.line.max(end.line)).unwrap_or(usize::MAX);
    let mut documents: Vec<LaterDocument> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(first) {
        let content = match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '\r']) => {
                let line = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
                let position = Position { line, column: 1 };
                documents.push(LaterDocument { position, has_content: false, kind: None });
                rest.trim()
            }
            _ => line.trim(),
        };
        let Some(document) = documents.last_mut() else {
            continue;
        };
        if content.is_empty() || content.starts_with('#') || content == "..." {
            continue;
        }
        document.has_content = true;
        if let (None, Some(kind)) = (&document.kind, line.strip_prefix("kind:")) {
            document.kind = Some(kind.trim().trim_matches(['"', '\'']).to_owned());
        }
    }
    documents
}

/// The text with the commas inside tags exchanged for a character that occurs nowhere else.
///
/// go-yaml reads `!tag,` as a tag that ends in a comma. libyaml-safer 0.3 gives up there in a way that cannot be
/// caught, so the comma must not reach it.
struct Commas {
    text: String,
    stand_in: char,
}

impl Commas {
    fn hidden_in_tags(text: &str) -> Option<Self> {
        let stand_in =
            [';', '~', '$', '@', '+', '('].into_iter().find(|candidate| !text.contains(*candidate));
        let stand_in = stand_in.unwrap_or('\u{e000}');
        let mut hidden = String::new();
        let mut found = false;
        let mut in_tag = false;
        let mut may_start = true;
        for character in text.chars() {
            if character == '!' && may_start {
                in_tag = true;
            } else if character.is_whitespace() {
                in_tag = false;
            }
            if in_tag && character == ',' {
                found = true;
                hidden.push(stand_in);
            } else {
                hidden.push(character);
            }
            may_start = match character {
                ' ' | '\t' => may_start,
                '\n' | '\r' | '[' | '{' | ',' | ':' | '-' | '?' | '\'' | '"' => true,
                _ => false,
            };
        }
        found.then_some(Self { text: hidden, stand_in })
    }

    fn restore(&self, value: &str) -> String {
        value.replace(self.stand_in, ",")
    }
}
