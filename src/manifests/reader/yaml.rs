//! The first document of a YAML stream, parsed by `libyaml-safer` into a flat list of nodes.
//!
//! libyaml and the kubelet's go-yaml v2 are ports of one scanner. What differs is settled here: `%YAML 1.2` is refused,
//! a tag may end in commas, text is fed in the pieces that decide how far ahead an encoding fault is seen.

use std::collections::HashMap;

use libyaml_safer::{
    Encoding, Error, ErrorKind, EventData, MappingStyle, Mark, Parser, ScalarStyle, SequenceStyle,
};

use super::disguise::Disguise;
use super::encoding::{EncodingFault, Source};
use super::feed::Feed;
use super::scalar::{self, Scalar, TagFault};
use super::{Fault, MAX_DEPTH, MAX_NODES, SyntaxError, alias, compose};
use crate::manifests::report::{LaterDocument, Notes};
use crate::manifests::tree::{Node, Position};

/// How much nesting in flow style is read: the sum, over all nodes, of the flow collections around them. The scanner
/// looks at each of these for each token, so that without a bound ten megabytes could keep it busy for minutes.
const FLOW_WORK: usize = 120_000_000;

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
    let disguise = Disguise::of(&source.text);
    let text = disguise.as_ref().map_or(source.text.as_str(), |disguise| disguise.text.as_str());
    // The scanner of libyaml-safer 0.3 gives up, in a way that cannot be caught, on a block scalar or a backslash that
    // ends with the file instead of a line.
    let padded = !text.is_empty() && !text.ends_with(['\n', '\r']);
    let mut text = if padded { format!("{text}\n") } else { text.to_owned() };
    let passes = MOST_PASSES.min(1 + MOST_BYTES / text.len().max(1));
    for _ in 0..passes {
        let mut attempt = Notes::default();
        match parse(&text, padded, source, disguise.as_ref(), &mut attempt) {
            Err(Stop::Rewrite { at, from, to }) => match rewritten(&text, at, from, to) {
                Some(changed) => text = changed,
                None => break,
            },
            Err(Stop::Error(error)) => return Err(error),
            Ok(document) => {
                notes.anchors = attempt.anchors;
                notes.later_documents = attempt.later_documents;
                return finish(document, notes);
            }
        }
    }
    let why = "too many escapes `\\'` and plain values that end in a colon to read them all";
    Err(yaml_error("not read", why, Position::START, None))
}

/// How often the text is read: each thing that go-yaml knows and libyaml does not costs one more pass.
const MOST_PASSES: usize = 100;

/// How many bytes all these passes may read.
const MOST_BYTES: usize = 20_000_000;

/// What both scanners say of an escape that they do not know.
const UNKNOWN_ESCAPE: &str = "found unknown escape character";

/// What libyaml says in flow style of a plain value that ends in a colon.
const UNEXPECTED_COLON: &str = "found unexpected ':'";

/// Stands for such a colon.
const COLON: &str = "\u{e001}";

/// Why a pass over the text ended early.
enum Stop {
    /// The document is broken.
    Error(SyntaxError),
    /// At this mark stands something that only go-yaml knows, to be written in another way.
    Rewrite { at: Mark, from: &'static str, to: &'static str },
}

impl From<SyntaxError> for Stop {
    fn from(error: SyntaxError) -> Self {
        Self::Error(error)
    }
}

fn parse(
    text: &str,
    padded: bool,
    source: &Source,
    disguise: Option<&Disguise>,
    notes: &mut Notes,
) -> Result<Option<RawDocument>, Stop> {
    let feed = Feed::new(text, source.fault.as_ref());
    // A mark counts bytes.
    let end = padded.then(|| u64::try_from(text.len()).unwrap_or(u64::MAX));
    let colons = text.contains(COLON) && !source.text.contains(COLON);
    let mut events = Events { parser: Parser::new(), source, text, disguise, end, colons };
    events.parser.set_encoding(Encoding::Utf8);
    events.parser.set_input(feed);
    events.document(notes)
}

fn finish(document: Option<RawDocument>, notes: &mut Notes) -> Result<Node, SyntaxError> {
    let Some(document) = document else {
        return Ok(Node::new(Position::START, crate::manifests::tree::Value::Null));
    };
    alias::check(&document)?;
    compose::compose(&document, notes)
}

/// The text with what stands at `mark` written in another way, if it is `from`.
fn rewritten(text: &str, mark: Mark, from: &str, to: &str) -> Option<String> {
    let (before, rest) = text.split_at_checked(usize::try_from(mark.index).ok()?)?;
    Some(format!("{before}{to}{}", rest.strip_prefix(from)?))
}

struct Events<'a> {
    parser: Parser<Feed<'a>>,
    source: &'a Source,
    /// What is parsed.
    text: &'a str,
    disguise: Option<&'a Disguise>,
    /// How many bytes there are, if the last line was given an end that it does not have.
    end: Option<u64>,
    /// Whether some colons were rewritten.
    colons: bool,
}

/// A collection that is not finished: its number, and for a mapping the key that waits for its value.
struct Open {
    number: usize,
    key: Option<usize>,
    flow: bool,
}

/// How deep in flow style the parser is, and how much that has cost so far.
#[derive(Default)]
struct Flow {
    depth: usize,
    work: usize,
}

impl Events<'_> {
    fn document(&mut self, notes: &mut Notes) -> Result<Option<RawDocument>, Stop> {
        let mut parsed: Vec<RawNode> = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let mut anchors: HashMap<String, usize> = HashMap::new();
        let mut flow = Flow::default();
        loop {
            let event = self.parser.parse().map_err(|error| self.stop(&error))?;
            let position = position(event.start_mark);
            flow.work = flow.work.saturating_add(flow.depth);
            if flow.work > FLOW_WORK {
                return Err(too_large("nested too deeply for its size", position).into());
            }
            let starts_flow = matches!(
                event.data,
                EventData::SequenceStart { style: SequenceStyle::Flow, .. }
                    | EventData::MappingStart { style: MappingStyle::Flow, .. }
            );
            let (kind, written, anchor) = match event.data {
                EventData::StreamStart { .. } => continue,
                EventData::StreamEnd => return Ok(None),
                EventData::DocumentStart { version_directive, .. } => {
                    if version_directive.is_some_and(|version| (version.major, version.minor) != (1, 1)) {
                        return Err(directive_error(position).into());
                    }
                    continue;
                }
                EventData::DocumentEnd { .. } => {
                    notes.later_documents =
                        later_documents(&self.source.text, event.start_mark, event.end_mark);
                    return Ok(Some(RawDocument { nodes: parsed }));
                }
                EventData::SequenceEnd | EventData::MappingEnd => {
                    let ended = open.pop();
                    flow.depth -= usize::from(ended.is_some_and(|ended| ended.flow));
                    continue;
                }
                EventData::Alias { anchor } => {
                    notes.anchors = true;
                    let target =
                        anchors.get(&anchor).copied().ok_or_else(|| unknown_anchor(&anchor, position))?;
                    (RawKind::Alias(target), None, None)
                }
                EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                    let span = (event.start_mark, event.end_mark);
                    let value = self.restore(value, style, event.end_mark);
                    self.check_scalar(&value, style, flow.depth > 0, span)?;
                    let plain = style == ScalarStyle::Plain;
                    let kind = scalar_kind(tag.as_deref(), plain, plain_implicit, &value)
                        .map_err(|fault| tag_error(&fault, &value, position))?;
                    let text = matches!(kind, RawKind::Scalar(Scalar::Str(_)));
                    (kind, (plain && !text).then_some(value), anchor)
                }
                EventData::SequenceStart { anchor, .. } => (RawKind::List(Vec::new()), None, anchor),
                EventData::MappingStart { anchor, .. } => (RawKind::Map(Vec::new()), None, anchor),
            };
            let number = parsed.len();
            if number >= MAX_NODES {
                return Err(too_large("more than 500000 values in one file", position).into());
            }
            let collection = matches!(kind, RawKind::List(_) | RawKind::Map(_));
            parsed.push(RawNode { position, kind, written });
            if let Some(anchor) = anchor {
                notes.anchors = true;
                anchors.insert(anchor, number);
            }
            attach(&mut parsed, open.last_mut(), number);
            if collection {
                flow.depth += usize::from(starts_flow);
                open.push(Open { number, key: None, flow: starts_flow });
                if open.len() > MAX_DEPTH {
                    return Err(limit("exceeded max depth of 10000", "nested too deeply", position));
                }
            }
        }
    }

    /// The value as the file has it.
    fn restore(&self, mut value: String, style: ScalarStyle, end: Mark) -> String {
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        // A last line of blanks is no content, so that the line before it has its own end.
        let last_line = self.text.trim_end_matches('\n').rsplit(['\n', '\r']).next().unwrap_or_default();
        let content = !last_line.trim_matches(' ').is_empty();
        if block && content && self.end.is_some_and(|last| end.index >= last) && value.ends_with('\n') {
            value.pop();
        }
        if self.colons {
            value = value.replace(COLON, ":");
        }
        self.disguise.map_or_else(|| value.clone(), |disguise| disguise.restore(&value))
    }

    /// What go-yaml refuses in a scalar and libyaml does not.
    fn check_scalar(
        &self,
        value: &str,
        style: ScalarStyle,
        in_flow: bool,
        (start, end): (Mark, Mark),
    ) -> Result<(), SyntaxError> {
        if style == ScalarStyle::DoubleQuoted && self.escapes_slash(start, end) {
            return Err(yaml_error(UNKNOWN_ESCAPE, "YAML 1.1 has no escape `\\/`", position(start), None));
        }
        // In flow style go-yaml ends a plain scalar at a question mark, where no key can follow.
        if style == ScalarStyle::Plain && in_flow && value.contains('?') {
            return Err(question_mark(position(start)));
        }
        Ok(())
    }

    fn escapes_slash(&self, start: Mark, end: Mark) -> bool {
        let place = |mark: Mark| usize::try_from(mark.index).unwrap_or(usize::MAX);
        let text = self.text.get(place(start)..place(end)).unwrap_or_default();
        let mut escaped = false;
        text.bytes().any(|letter| {
            let found = escaped && letter == b'/';
            escaped = !escaped && letter == b'\\';
            found
        })
    }

    fn stop(&self, error: &Error) -> Stop {
        match error.problem_mark() {
            Some(at) if error.problem() == UNKNOWN_ESCAPE && self.is_escaped_quote(at) => {
                Stop::Rewrite { at, from: "\\'", to: "\\x27" }
            }
            Some(at) if error.problem() == UNEXPECTED_COLON && !self.source.text.contains(COLON) => {
                Stop::Rewrite { at, from: ":", to: COLON }
            }
            _ => Stop::Error(self.syntax_error(error)),
        }
    }

    /// Whether the escape at this place of the file is one that go-yaml knows; columns may have moved, so the whole
    /// line is asked.
    fn is_escaped_quote(&self, mark: Mark) -> bool {
        let line = usize::try_from(mark.line).ok().and_then(|line| self.source.text.lines().nth(line));
        line.is_none_or(|line| line.contains("\\'"))
    }

    fn syntax_error(&self, error: &Error) -> SyntaxError {
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Reader)
            && let Some(fault) = &self.source.fault
        {
            return encoding_error(fault);
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

fn limit(reason: &str, message: &str, position: Position) -> Stop {
    yaml_error(reason, message, position, None).into()
}

fn too_large(what: &str, position: Position) -> SyntaxError {
    SyntaxError {
        fault: Fault::TooLarge,
        message: format!("{what}: what the kubelet makes of it is not judged here"),
        fix: None,
        reason: String::new(),
        position: Some(position),
    }
}

fn scalar_kind(tag: Option<&str>, plain: bool, implicit: bool, value: &str) -> Result<RawKind, TagFault> {
    if value == "<<" && (implicit || tag == Some(MERGE_TAG)) {
        return Ok(RawKind::Merge);
    }
    scalar::resolve(tag, plain, value).map(RawKind::Scalar)
}

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

fn question_mark(position: Position) -> SyntaxError {
    yaml_error(
        "did not find expected ',' or '}'",
        "inside [] and {} a question mark ends a value that is not in quotes",
        position,
        Some("quote the value"),
    )
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
