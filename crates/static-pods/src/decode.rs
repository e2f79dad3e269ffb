//! Decodes the tree of a file into a Pod, with the schema and as leniently as the kubelet's decoder.
//!
//! The decoder drops unknown fields and notes them, reads `null` as an absent field, distinguishes upper and lower case
//! in names, and reports a wrong type as an error, for which the kubelet rejects the file. It collects all errors, but
//! the kubelet stops at the first.

use std::fmt::Display;
use std::sync::Arc;

use super::field_path::FieldPath;
use super::report::{DropReason, DroppedField};
use super::schema::{self, FieldType, GoStruct};
use crate::finding::LintFinding;
use crate::nearest;
use plegctl_api_values::quantity::{NotAQuantity, Quantity};
use plegctl_api_values::reader::float;
use plegctl_api_values::timestamp;
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Position, Value};
use plegctl_base::report::Places;
use plegctl_node::kubelet::KubeletVersion;

/// An error of the decoder.
pub struct FieldError {
    /// The finding about it.
    pub finding: LintFinding,
    /// The kubelet's error message, as far as it is known.
    pub reason: String,
}

/// The result of the decoder.
pub struct Decoded {
    /// The known fields.
    pub pod: ManifestNode,
    /// The errors.
    pub errors: Vec<FieldError>,
    /// The fields that were dropped.
    pub dropped: Vec<DroppedField>,
}

/// Decodes a Pod. `json` means that the file is JSON, in which numbers keep their notation.
pub fn decode(root: &ManifestNode, json: bool, version: KubeletVersion) -> Decoded {
    let mut decoder = PodDecoder { version, json, errors: Vec::new(), dropped: Vec::new() };
    let pod =
        decoder.object(schema::pod(), root, &FieldPath::Root).unwrap_or_else(|| empty_object(root.position));
    Decoded { pod, errors: decoder.errors, dropped: decoder.dropped }
}

struct PodDecoder {
    version: KubeletVersion,
    json: bool,
    errors: Vec<FieldError>,
    dropped: Vec<DroppedField>,
}

/// Returns an object without fields.
fn empty_object(position: Position) -> ManifestNode {
    ManifestNode::new(position, Value::Map(Arc::default()))
}

/// The maximum number of errors, and of dropped fields, in the result. A huge file must not fill the memory with them.
const MAX_REPORTED: usize = 1_000;

impl PodDecoder {
    /// Records an error with the texts of a row of `findings.txt`, up to the limit.
    fn report(&mut self, node: &ManifestNode, path: &FieldPath<'_>, row: &str, places: &Places<'_>) {
        if self.errors.len() < MAX_REPORTED {
            let field = path.to_string();
            let place: [(&str, &dyn Display); 1] = [("field", &field)];
            let (finding, reason) = LintFinding::of_refusal(row, &[&place, places].concat());
            self.errors.push(FieldError { finding: finding.at(node.position).on_field(field), reason });
        }
    }

    /// Records a dropped field of the object at `path`, up to the limit.
    fn note_dropped(&mut self, path: &FieldPath<'_>, field: &MapEntry, why: DropReason) {
        if self.dropped.len() < MAX_REPORTED {
            self.dropped.push(DroppedField {
                parent: path.to_string(),
                name: field.key.to_string(),
                position: field.key_position,
                why,
            });
        }
    }

    /// Decodes a value of this type. Returns `None` for `null` and after an error.
    fn value(&mut self, ty: &FieldType, node: &ManifestNode, path: &FieldPath<'_>) -> Option<ManifestNode> {
        if node.is_null() {
            return None;
        }
        match ty {
            FieldType::Json => Some(node.clone()),
            FieldType::Pointer(target) => self.value(target, node, path),
            FieldType::Str => self.expect(node, path, node.as_str().is_some(), "a string"),
            FieldType::Bool => self.expect(node, path, node.as_bool().is_some(), "a boolean"),
            FieldType::Int64 => {
                self.integer(node, path, i128::from(i64::MIN)..=i128::from(i64::MAX), "int64")
            }
            FieldType::IntOrString if node.as_str().is_some() => Some(node.clone()),
            FieldType::Int32 | FieldType::IntOrString => {
                self.integer(node, path, i128::from(i32::MIN)..=i128::from(i32::MAX), "int32")
            }
            FieldType::Quantity => self.quantity(node, path),
            FieldType::Time => self.time(node, path),
            FieldType::Struct(object) => self.object(object, node, path),
            FieldType::List(item) => self.list(item, node, path),
            FieldType::Map(value) => self.map(value, node, path),
        }
    }

    /// Returns the node if it has the right type, else reports an error.
    fn expect(
        &mut self,
        node: &ManifestNode,
        path: &FieldPath<'_>,
        has_type: bool,
        wanted: &str,
    ) -> Option<ManifestNode> {
        if has_type {
            return Some(node.clone());
        }
        self.report_type(node, path, wanted);
        None
    }

    /// Reports a value of a wrong type. `wanted` is the right type in plain words.
    fn report_type(&mut self, node: &ManifestNode, path: &FieldPath<'_>, wanted: &str) {
        self.report_go_type(node, path, wanted, go_name(wanted));
    }

    /// Reports a value of a wrong type, whose name in Go is `go`.
    fn report_go_type(&mut self, node: &ManifestNode, path: &FieldPath<'_>, wanted: &str, go: &str) {
        let written = node.written.as_deref().filter(|_| wanted == "a string");
        let row = if written.is_some() { "unquoted-text" } else { "wrong-type" };
        let places: &Places<'_> = &[
            ("wanted", &wanted),
            ("found", &node.type_name()),
            ("json", &node.json_name()),
            ("go", &go),
            ("written", &written.unwrap_or_default()),
        ];
        self.report(node, path, row, places);
    }

    /// Decodes an integer in `range`.
    fn integer(
        &mut self,
        node: &ManifestNode,
        path: &FieldPath<'_>,
        range: std::ops::RangeInclusive<i128>,
        kind: &str,
    ) -> Option<ManifestNode> {
        match node.value {
            Value::Int(number) if range.contains(&number) => Some(node.clone()),
            Value::Int(number) => {
                let places: &Places<'_> = &[("number", &number), ("kind", &kind)];
                self.report(node, path, "number-out-of-range", places);
                None
            }
            _ => {
                self.report_go_type(node, path, "an integer", kind);
                None
            }
        }
    }

    /// Decodes a quantity, such as `100m`.
    fn quantity(&mut self, node: &ManifestNode, path: &FieldPath<'_>) -> Option<ManifestNode> {
        let text = match &node.value {
            Value::Str(text) => text.to_string(),
            Value::Int(_) | Value::Float(_) if self.json => {
                node.written.as_deref().unwrap_or_default().to_owned()
            }
            Value::Int(number) => number.to_string(),
            // The kubelet converts YAML to JSON first, so a float has Go's notation.
            Value::Float(number) => float(*number),
            _ => {
                self.report_type(node, path, "a quantity");
                return None;
            }
        };
        // The kubelet trims white space around the quantity in the JSON text. Tabs and line breaks are escape sequences
        // in that text, so the kubelet does not trim them.
        let text = text.trim_matches(|letter: char| letter.is_whitespace() && !letter.is_ascii_control());
        let why = match Quantity::parse_by(text, self.version) {
            Ok(amount) => {
                return Some(ManifestNode {
                    position: node.position,
                    value: Value::Quantity(Arc::new(amount)),
                    written: Some(Arc::from(text)),
                });
            }
            Err(why) => why,
        };
        let row = match why {
            NotAQuantity::Endless => "endless-quantity",
            NotAQuantity::TooLong => "long-quantity",
            _ => "no-quantity",
        };
        self.report(node, path, row, &[("text", &text), ("why", &why)]);
        None
    }

    /// Decodes a time.
    fn time(&mut self, node: &ManifestNode, path: &FieldPath<'_>) -> Option<ManifestNode> {
        let Some(text) = node.as_str() else {
            self.report_type(node, path, "a string");
            return None;
        };
        if timestamp::is_rfc3339(text) {
            return Some(node.clone());
        }
        self.report(node, path, "no-time", &[("text", &text)]);
        None
    }

    /// Decodes the fields of a Go struct.
    fn object(
        &mut self,
        object: &GoStruct,
        node: &ManifestNode,
        path: &FieldPath<'_>,
    ) -> Option<ManifestNode> {
        let Some(map) = node.as_map() else {
            self.report_type(node, path, "a mapping");
            return None;
        };
        let mut decoded = Map::default();
        // The kubelet also decodes values that later values replace, so their errors count, but not the values.
        for entry in map.replaced() {
            let field = object.field(&entry.key, self.version.minor());
            if let Some(field) = field.filter(|field| field.decoded_in(self.version.minor())) {
                self.value(&field.ty, &entry.value, &FieldPath::Field(path, &entry.key));
            }
        }
        for entry in map.entries() {
            let known = object.field(&entry.key, self.version.minor());
            let Some(field) = known.filter(|field| field.decoded_in(self.version.minor())) else {
                if self.dropped.len() >= MAX_REPORTED {
                    continue;
                }
                let why = known.map_or_else(
                    || DropReason::Unknown {
                        near: nearest::field(object, &entry.key),
                        home: nearest::home(&entry.key),
                    },
                    |field| field.why_not_decoded(self.version.minor()),
                );
                self.note_dropped(path, entry, why);
                continue;
            };
            if let Some(gate) = field.closed_gate(self.version.minor()) {
                self.note_dropped(path, entry, DropReason::GateClosed { gate });
            }
            if let Some(value) = self.value(&field.ty, &entry.value, &FieldPath::Field(path, &entry.key)) {
                decoded.insert(MapEntry {
                    key: Arc::clone(&entry.key),
                    key_position: entry.key_position,
                    value,
                });
            }
        }
        Some(ManifestNode::new(node.position, Value::Map(Arc::new(decoded))))
    }

    /// Decodes a list.
    fn list(&mut self, item: &FieldType, node: &ManifestNode, path: &FieldPath<'_>) -> Option<ManifestNode> {
        let Some(items) = node.as_list() else {
            self.report_type(node, path, "a list");
            return None;
        };
        let decoded = items.iter().enumerate().map(|(index, node)| {
            let value = self.value(item, node, &FieldPath::Item(path, index));
            value.unwrap_or_else(|| zero(item, node.position))
        });
        Some(ManifestNode::new(node.position, Value::List(Arc::new(decoded.collect()))))
    }

    /// Decodes a mapping with any keys.
    fn map(&mut self, value: &FieldType, node: &ManifestNode, path: &FieldPath<'_>) -> Option<ManifestNode> {
        let Some(map) = node.as_map() else {
            self.report_type(node, path, "a mapping");
            return None;
        };
        let decoded = map.entries().iter().map(|entry| {
            let decoded = self.value(value, &entry.value, &FieldPath::Key(path, &entry.key));
            let value = decoded.unwrap_or_else(|| zero(value, entry.value.position));
            MapEntry { key: Arc::clone(&entry.key), key_position: entry.key_position, value }
        });
        Some(ManifestNode::new(node.position, Value::Map(Arc::new(Map::new(decoded.collect())))))
    }
}

/// Returns the zero value of a type, which `null` means inside a list or a mapping.
fn zero(ty: &FieldType, position: Position) -> ManifestNode {
    let value = match ty {
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString => Value::Int(0),
        FieldType::Quantity => Value::Quantity(Arc::new(Quantity::ZERO)),
        FieldType::Struct(_) | FieldType::Map(_) => Value::Map(Arc::default()),
        FieldType::List(_) => Value::List(Arc::default()),
        FieldType::Json => Value::Null,
        FieldType::Pointer(target) => return zero(target, position),
        FieldType::Str | FieldType::Time => Value::Str(Arc::from("")),
    };
    ManifestNode::new(position, value)
}

/// Returns the name that Go's JSON decoder has for a wanted type.
fn go_name(wanted: &str) -> &str {
    match wanted {
        "a string" | "a quantity" => "string",
        "a boolean" => "bool",
        "a list" => "slice",
        _ => "struct",
    }
}
