//! Converts the flat list of parsed YAML nodes into the tree of the manifest.
//!
//! Keys become strings, aliases are expanded, merges (`<<`) are applied at their position, and the last of several equal
//! keys wins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::map_builder::MapBuilder;
use super::raw::{RawDocument, RawKind, RawNode, yaml_error};
use super::scalar::{self, Scalar};
use super::{KEPT_DEPTH, MAX_NOTES, SyntaxError};
use crate::reader::{DuplicateKey, Merge, ReaderNotes};
use crate::tree::{ManifestNode, MapEntry, Position, Value};

/// Builds the tree of a document whose aliases have been checked.
pub fn compose(document: &RawDocument, notes: &mut ReaderNotes) -> Result<ManifestNode, SyntaxError> {
    check_nodes(document, &keys(document))?;
    let mut composer = Composer { document, notes, expanded: HashMap::new(), nested_expansions: 0 };
    composer.node(0, 0)
}

/// Returns the indexes of the nodes that are keys of a mapping.
fn keys(document: &RawDocument) -> HashSet<usize> {
    let pairs = document.nodes.iter().filter_map(|node| match &node.kind {
        RawKind::Map(pairs) => Some(pairs),
        _ => None,
    });
    pairs.flatten().map(|(key, _)| *key).collect()
}

/// Rejects nodes that the kubelet cannot convert into JSON. Checks all nodes, also those that the tree leaves out because
/// they are nested too deeply.
fn check_nodes(document: &RawDocument, keys: &HashSet<usize>) -> Result<(), SyntaxError> {
    for (index, node) in document.nodes.iter().enumerate() {
        match &node.kind {
            RawKind::Scalar(Scalar::NotFinite) if keys.contains(&index) => {}
            RawKind::Scalar(Scalar::NotFinite) => return Err(not_finite(node.position)),
            RawKind::Map(pairs) => {
                for (key, value) in pairs {
                    check_pair(document, *key, *value)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_pair(document: &RawDocument, key: usize, value: usize) -> Result<(), SyntaxError> {
    let Some(node) = document.target(key) else {
        return Ok(());
    };
    let Some(place) = document.nodes.get(key).map(|node| node.position) else {
        return Ok(());
    };
    match &node.kind {
        RawKind::Merge => check_merge(document, value, place),
        RawKind::List(_) | RawKind::Map(_) => Err(yaml_error(
            "invalid map key",
            "a key must not be a mapping or a list",
            place,
            Some("quote the key; if these are braces of a template, render the template first"),
        )),
        RawKind::Scalar(Scalar::Null) => Err(key_error("a key is null", place)),
        // The kubelet cannot convert an integer from 2^63 to 2^64-1 into a key. A larger number is a float, which it can
        // convert.
        RawKind::Scalar(Scalar::Int(number))
            if (i128::from(i64::MAX) + 1..=i128::from(u64::MAX)).contains(number) && !is_float(node) =>
        {
            Err(key_error("a key is a number that is too large", place))
        }
        _ => Ok(()),
    }
}

fn check_merge(document: &RawDocument, value: usize, place: Position) -> Result<(), SyntaxError> {
    let is_map =
        |number: usize| document.target(number).is_some_and(|node| matches!(node.kind, RawKind::Map(_)));
    let fits = match document.nodes.get(value).map(|node| &node.kind) {
        Some(RawKind::List(items)) => items.iter().all(|item| is_map(*item)),
        _ => is_map(value),
    };
    if fits {
        return Ok(());
    }
    Err(yaml_error(
        "map merge requires map or sequence of maps as the value",
        "the value of `<<` must be a mapping or a list of mappings",
        place,
        None,
    ))
}

fn key_error(what: &str, place: Position) -> SyntaxError {
    yaml_error(
        "unsupported map key",
        &format!("{what}, which the kubelet cannot convert into JSON"),
        place,
        Some("quote the key"),
    )
}

fn not_finite(place: Position) -> SyntaxError {
    let message = "the kubelet cannot convert `.nan` and `.inf` into JSON";
    let mut error = yaml_error("", message, place, Some("quote the value"));
    "json: unsupported value".clone_into(&mut error.reason);
    error
}

struct Composer<'a> {
    document: &'a RawDocument,
    notes: &'a mut ReaderNotes,
    /// The expanded targets of aliases and merges, by node and depth. All uses share one copy, so that a file whose
    /// aliases refer to further aliases needs little memory.
    expanded: HashMap<(usize, usize), ManifestNode>,
    /// How many expansions contain the present node. Inside an expansion nothing is noted, because the same node was
    /// noted at its anchor.
    nested_expansions: u32,
}

impl Composer<'_> {
    /// Converts the node with this index and the nodes in it.
    fn node(&mut self, index: usize, depth: usize) -> Result<ManifestNode, SyntaxError> {
        let document = self.document;
        let Some(raw) = document.nodes.get(index) else {
            return Ok(ManifestNode::new(Position::START, Value::Null));
        };
        let value = match &raw.kind {
            RawKind::Alias(target) => {
                let mut node = self.expand(*target, depth)?;
                node.position = raw.position;
                return Ok(node);
            }
            RawKind::Merge => Value::Str(Arc::from("<<")),
            RawKind::Scalar(scalar) => scalar_value(scalar),
            RawKind::List(_) | RawKind::Map(_) if depth > KEPT_DEPTH => empty(raw),
            RawKind::List(items) => {
                let items = items.iter().map(|item| self.node(*item, depth + 1));
                Value::List(Arc::new(items.collect::<Result<_, _>>()?))
            }
            RawKind::Map(pairs) => {
                let mut entries = MapBuilder::default();
                self.fill(&mut entries, pairs, depth)?;
                Value::Map(Arc::new(entries.finish()))
            }
        };
        let written = match value {
            Value::Str(_) => None,
            _ => raw.written.as_deref().map(Arc::from),
        };
        Ok(ManifestNode { position: raw.position, value, written })
    }

    /// Converts the target of an alias or a merge.
    fn expand(&mut self, target: usize, depth: usize) -> Result<ManifestNode, SyntaxError> {
        if let Some(node) = self.expanded.get(&(target, depth)) {
            return Ok(node.clone());
        }
        self.nested_expansions += 1;
        let node = self.node(target, depth);
        self.nested_expansions -= 1;
        let node = node?;
        self.expanded.insert((target, depth), node.clone());
        Ok(node)
    }

    /// Adds the pairs of a mapping to its entries, in their order.
    fn fill(
        &mut self,
        entries: &mut MapBuilder,
        pairs: &[(usize, usize)],
        depth: usize,
    ) -> Result<(), SyntaxError> {
        for (key, value) in pairs {
            let document = self.document;
            let (Some(place), Some(raw)) = (document.nodes.get(*key), document.target(*key)) else {
                continue;
            };
            match &raw.kind {
                RawKind::Merge => self.merge(entries, place.position, *value, depth)?,
                RawKind::Scalar(scalar) => {
                    let value = self.node(*value, depth + 1)?;
                    let entry = MapEntry { key: key_text(scalar, raw), key_position: place.position, value };
                    self.insert(entries, entry);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds an entry, and notes a repeated key.
    fn insert(&mut self, entries: &mut MapBuilder, entry: MapEntry) {
        let (key, again) = (Arc::clone(&entry.key), entry.key_position);
        if let (Some(old), 0) = (entries.insert_written(entry), self.nested_expansions) {
            if self.notes.duplicate_keys.len() >= MAX_NOTES {
                return;
            }
            let key = key.to_string();
            self.notes.duplicate_keys.push(DuplicateKey { key, first: old.key_position, again });
        }
    }

    /// Applies a merge: its values replace the values of keys before it. If several mappings are merged, the first wins.
    fn merge(
        &mut self,
        entries: &mut MapBuilder,
        position: Position,
        value: usize,
        depth: usize,
    ) -> Result<(), SyntaxError> {
        let document = self.document;
        let mut sources: Vec<usize> = match document.nodes.get(value).map(|node| &node.kind) {
            Some(RawKind::List(items)) => items.clone(),
            _ => vec![value],
        };
        sources.reverse();
        let mut overrides = Vec::new();
        for source in sources {
            let node = self.expand(source, depth)?;
            for entry in node.as_map().map_or(&[][..], |map| map.entries()) {
                if let Some(old) = entries.insert_merged(entry.clone()) {
                    overrides.push(old.key.to_string());
                }
            }
        }
        if self.nested_expansions == 0 && self.notes.merges.len() < MAX_NOTES {
            self.notes.merges.push(Merge { position, overrides });
        }
        Ok(())
    }
}

/// Returns an empty collection of the same kind.
fn empty(raw: &RawNode) -> Value {
    match raw.kind {
        RawKind::List(_) => Value::List(Arc::default()),
        _ => Value::Map(Arc::default()),
    }
}

fn scalar_value(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Null | Scalar::NotFinite => Value::Null,
        Scalar::Bool(truth) => Value::Bool(*truth),
        Scalar::Int(number) => Value::Int(*number),
        Scalar::Float(number) => Value::Float(*number),
        Scalar::Str(text) => Value::Str(Arc::clone(text)),
    }
}

/// Whether go-yaml reads a number as a float, even if its value is an integer: `1e3`.
fn is_float(raw: &RawNode) -> bool {
    raw.written.as_deref().is_some_and(|written| !scalar::is_integer(written))
}

/// Formats a 32-bit float in Go's shortest form. The kubelet converts float keys to 32 bits.
fn float_key(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the kubelet's converter loses the same digits")]
    let number = number as f32;
    let text = format!("{number:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    if (-4..21).contains(&power) {
        return number.to_string();
    }
    format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
}

/// Returns the text into which the kubelet converts a key.
fn key_text(scalar: &Scalar, raw: &RawNode) -> Arc<str> {
    match scalar {
        Scalar::NotFinite => {
            let written = raw.written.as_deref().unwrap_or_default().to_lowercase();
            Arc::from(match written.as_str() {
                ".nan" => ".nan",
                "-.inf" => "-.inf",
                _ => ".inf",
            })
        }
        Scalar::Int(_) if is_float(raw) => {
            let number = raw.written.as_deref().and_then(|text| text.replace('_', "").parse().ok());
            Arc::from(float_key(number.unwrap_or_default()))
        }
        Scalar::Float(number) => Arc::from(float_key(*number)),
        Scalar::Str(text) => Arc::clone(text),
        Scalar::Bool(truth) => Arc::from(truth.to_string()),
        Scalar::Int(number) => Arc::from(number.to_string()),
        Scalar::Null => Arc::from("null"),
    }
}
