//! Parses the first document of a YAML stream into a flat list of nodes.

use std::collections::HashMap;

use super::raw::{RawDocument, RawKind, RawNode, too_many_values, yaml_error};
use super::scalar::{self, Scalar, TagFault};
use super::{MAX_DEPTH, MAX_NODES, SyntaxError, SyntaxFault};
use crate::reader::{LaterDocument, ReaderNotes};
use crate::tree::Position;
use plegctl_go_yaml::{DecodedText, EncodingFault, EventKind, FaultStage, Mark, YamlFault, YamlParser};

/// Parses the first document; `None` for an empty stream.
pub fn parse(source: &DecodedText<'_>, notes: &mut ReaderNotes) -> Result<Option<RawDocument>, SyntaxError> {
    EventReader { parser: YamlParser::new(source.borrowed()), source }.document(notes)
}

struct EventReader<'a> {
    parser: YamlParser<'a>,
    source: &'a DecodedText<'a>,
}

/// A list or mapping whose end has not been read.
struct OpenCollection {
    /// The index of its node.
    index: usize,
    /// The index of the key whose value comes next, in a mapping.
    key: Option<usize>,
}

impl EventReader<'_> {
    /// Reads the parser's events up to the end of the first document, and builds one node for each event.
    fn document(&mut self, notes: &mut ReaderNotes) -> Result<Option<RawDocument>, SyntaxError> {
        let mut parsed: Vec<RawNode> = Vec::new();
        let mut open: Vec<OpenCollection> = Vec::new();
        let mut anchors: HashMap<String, usize> = HashMap::new();
        loop {
            let event = self.parser.next_event().map_err(|error| self.syntax_error(&error))?;
            let position = event.start.position();
            let (kind, written, anchor) = match event.kind {
                EventKind::DocumentStart => continue,
                EventKind::StreamEnd => return Ok(None),
                EventKind::DocumentEnd { end } => {
                    notes.later_documents = later_documents(&self.source.text, end);
                    return Ok(Some(RawDocument { nodes: parsed }));
                }
                EventKind::SequenceEnd | EventKind::MappingEnd => {
                    open.pop();
                    continue;
                }
                EventKind::Alias { anchor } => {
                    notes.anchors = true;
                    let target =
                        anchors.get(&anchor).copied().ok_or_else(|| unknown_anchor(&anchor, position))?;
                    (RawKind::Alias(target), None, None)
                }
                EventKind::Scalar { anchor, tag, value, plain_implicit, plain } => {
                    let kind = scalar_kind(tag.as_deref(), plain, plain_implicit, &value)
                        .map_err(|fault| tag_error(&fault, &value, position))?;
                    let is_string = matches!(kind, RawKind::Scalar(Scalar::Str(_)));
                    (kind, (plain && !is_string).then_some(value), anchor)
                }
                EventKind::SequenceStart { anchor, .. } => (RawKind::List(Vec::new()), None, anchor),
                EventKind::MappingStart { anchor, .. } => (RawKind::Map(Vec::new()), None, anchor),
            };
            let index = parsed.len();
            if index >= MAX_NODES {
                return Err(too_many_values(position));
            }
            let is_collection = matches!(kind, RawKind::List(_) | RawKind::Map(_));
            parsed.push(RawNode { position, kind, written });
            if let Some(anchor) = anchor {
                notes.anchors = true;
                anchors.insert(anchor, index);
            }
            attach(&mut parsed, open.last_mut(), index);
            if is_collection {
                open.push(OpenCollection { index, key: None });
                if open.len() > MAX_DEPTH {
                    return Err(too_deep(position));
                }
            }
        }
    }

    /// Converts an error of the YAML parser. The line number in the kubelet's message is go-yaml's, which may be wrong.
    fn syntax_error(&self, fault: &YamlFault) -> SyntaxError {
        if let (FaultStage::Reader, Some(fault)) = (fault.stage, &self.source.fault) {
            return encoding_error(fault);
        }
        let YamlFault { problem, mark, .. } = *fault;
        let position = mark.position();
        if problem == INCOMPATIBLE_VERSION {
            return directive_error(position);
        }
        // go-yaml counts lines from zero. It adds one only to the line of a scanner's error.
        let line = match (mark.line, fault.stage) {
            (0, _) => fault.context.map_or(0, |(_, mark)| mark.line),
            (line, FaultStage::Scanner) => line.saturating_add(1),
            (line, _) => line,
        };
        let line_prefix = if line == 0 { String::new() } else { format!("line {line}: ") };
        let line_text = self.source.text.lines().nth(mark.line).unwrap_or("");
        SyntaxError {
            fault: SyntaxFault::Yaml,
            message: format!("this is not valid YAML: {problem}"),
            fix: fix_for(problem, line_text).map(str::to_owned),
            reason: format!("yaml: {line_prefix}{problem}"),
            position: Some(position),
        }
    }
}

/// The parser's message for a `%YAML` directive other than 1.1.
const INCOMPATIBLE_VERSION: &str = "found incompatible YAML document";

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Creates the error of a document that is nested too deeply for the JSON that the kubelet converts the YAML into. The
/// YAML scanner has a limit too, which is not checked here.
fn too_deep(position: Position) -> SyntaxError {
    let message = "lists and mappings are nested more than 10000 levels deep";
    yaml_error("exceeded max depth of 10000", message, position, None)
}

/// Returns whether a scalar is a `<<` key, and its value if not.
fn scalar_kind(tag: Option<&str>, plain: bool, implicit: bool, value: &str) -> Result<RawKind, TagFault> {
    if value == "<<" && (implicit || tag == Some(MERGE_TAG)) {
        return Ok(RawKind::Merge);
    }
    scalar::resolve(tag, plain, value).map(RawKind::Scalar)
}

/// Adds the new node with this index to the innermost open collection.
fn attach(nodes: &mut [RawNode], parent: Option<&mut OpenCollection>, index: usize) {
    let Some(parent) = parent else { return };
    let Some(node) = nodes.get_mut(parent.index) else {
        return;
    };
    match &mut node.kind {
        RawKind::List(items) => items.push(index),
        RawKind::Map(pairs) => match parent.key.take() {
            Some(key) => pairs.push((key, index)),
            None => parent.key = Some(index),
        },
        _ => {}
    }
}

fn directive_error(position: Position) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::Directive,
        message: "the kubelet's parser accepts only the directive %YAML 1.1".to_owned(),
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
        Some("define the anchor with `&` before the alias, or quote the value if it is text"),
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
            &format!("the tag requires {wanted}, but the value is {found}"),
            position,
            Some("remove the tag"),
        ),
    }
}

fn encoding_error(fault: &EncodingFault) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::Encoding,
        message: format!("the kubelet's parser does not accept the encoding: {}", fault.reason),
        fix: Some("save the file as UTF-8 without control characters".to_owned()),
        reason: format!("yaml: {}", fault.reason),
        position: Some(fault.position),
    }
}

/// Returns a fix for a problem of the YAML parser in this line.
fn fix_for(problem: &str, line: &str) -> Option<&'static str> {
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

/// Finds the later documents by their `---` lines. Does not parse the documents, because the kubelet does not either.
fn later_documents(text: &str, end: Mark) -> Vec<LaterDocument> {
    let mut documents: Vec<LaterDocument> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(end.line) {
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
