//! The tree of a manifest. Each node has a value and its line and column in the file.
//!
//! The reader builds a tree of everything in the file; the decoder builds a second tree with the known fields of a Pod only.

use std::sync::Arc;

use super::quantity::Quantity;

pub use plegctl_go_yaml::Position;

/// A value with its position. Cloning is cheap, because collections and strings are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestNode {
    /// Where the value starts.
    pub position: Position,
    /// The value.
    pub value: Value,
    /// The text of a plain (unquoted) YAML scalar or of a JSON number, if the value is not a string: `0100`, `yes`,
    /// `1.20`. Also the text of a quantity.
    pub written: Option<Arc<str>>,
}

/// The value of a node, with JSON's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or an empty value.
    Null,
    /// `true`, `yes`, …
    Bool(bool),
    /// A number that the kubelet accepts for an integer field.
    Int(i128),
    /// A number that no integer field accepts.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// A resource quantity. Only the decoder creates it, for fields that have this type in the schema.
    Quantity(Arc<Quantity>),
    /// A list.
    List(Arc<Vec<ManifestNode>>),
    /// A mapping with unique keys.
    Map(Arc<Map>),
}

/// A mapping. The keys are unique, and are in the order in which they first occur.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    entries: Vec<MapEntry>,
    /// The earlier values of repeated JSON keys.
    replaced: Vec<MapEntry>,
}

/// One key of a mapping and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// The key as the kubelet reads it, which is always a string: `1` is `"1"`.
    pub key: Arc<str>,
    /// The position of the key.
    pub key_position: Position,
    /// The value.
    pub value: ManifestNode,
}

impl Map {
    /// Creates a mapping with these entries; the caller ensures that the keys are unique.
    pub fn new(entries: Vec<MapEntry>) -> Self {
        Self { entries, replaced: Vec::new() }
    }

    /// Creates a mapping that also keeps the earlier values of repeated keys.
    pub fn with_replaced(entries: Vec<MapEntry>, replaced: Vec<MapEntry>) -> Self {
        Self { entries, replaced }
    }

    /// Returns the earlier values of repeated JSON keys. They have no effect, but the kubelet checks their types.
    pub fn replaced(&self) -> &[MapEntry] {
        &self.replaced
    }

    /// Returns the entry of `key`.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&ManifestNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the value of `key`, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut ManifestNode> {
        self.entries.iter_mut().find(|entry| &*entry.key == key).map(|entry| &mut entry.value)
    }

    /// Returns all values, mutably.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut ManifestNode> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }

    /// Returns all entries, in the order in which the keys first occur.
    pub fn entries(&self) -> &[MapEntry] {
        &self.entries
    }

    /// Adds an entry or replaces the entry with the same key. Returns the replaced entry.
    pub fn insert(&mut self, entry: MapEntry) -> Option<MapEntry> {
        if let Some(old) = self.entries.iter_mut().find(|old| old.key == entry.key) {
            return Some(std::mem::replace(old, entry));
        }
        self.entries.push(entry);
        None
    }
}

impl ManifestNode {
    /// Creates a node with this value at this position.
    pub fn new(position: Position, value: Value) -> Self {
        Self { position, value, written: None }
    }

    /// Creates a string node at this position.
    pub fn string(position: Position, text: &str) -> Self {
        Self::new(position, Value::Str(Arc::from(text)))
    }

    /// Returns the mapping, if the node is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the items, if the node is a list.
    pub fn as_list(&self) -> Option<&[ManifestNode]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the text, if the node is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if the node is an integer.
    pub fn as_int(&self) -> Option<i128> {
        match self.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the boolean, if the node is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// Returns the value of `key`, if the node is a mapping with this key.
    pub fn get(&self, key: &str) -> Option<&ManifestNode> {
        self.as_map()?.get(key)
    }

    /// Returns the quantity, if the node is one.
    pub fn as_quantity(&self) -> Option<&Quantity> {
        match &self.value {
            Value::Quantity(amount) => Some(amount),
            _ => None,
        }
    }

    /// Whether the node is `null`.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Returns the type as Go's JSON decoder names it.
    pub fn json_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::Str(_) | Value::Quantity(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
        }
    }

    /// Returns the type in plain words: `a string`, `an integer`, …
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Str(_) => "a string",
            Value::Quantity(_) => "a quantity",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
