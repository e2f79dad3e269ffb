//! What a manifest says, with line and column on every node, before and after decoding.
//!
//! The reader makes this tree from bytes; the decoder makes a second one from it, which holds known fields only.

use std::sync::Arc;

use super::quantity::Quantity;

/// A place in the file: line and column in characters, both from 1.
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

/// A value and where it stands. Cloning is cheap: collections and strings are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where the value starts.
    pub position: Position,
    /// The value.
    pub value: Value,
    /// How a plain (unquoted) YAML scalar or a JSON number was written, if it is not a string: `0100`, `yes`, `1.20`.
    pub written: Option<Arc<str>>,
}

/// What a node holds, in JSON's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true`, `yes`, …
    Bool(bool),
    /// A number that the kubelet hands to an integer field.
    Int(i128),
    /// A number that no integer field takes.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// An amount. Only decoding makes one, where the schema asks for it.
    Quantity(Arc<Quantity>),
    /// A list.
    List(Arc<Vec<Node>>),
    /// A mapping, with each key once.
    Map(Arc<Map>),
}

/// A mapping in the order of first appearance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    entries: Vec<Entry>,
    /// What later values of the same key replaced, where the kubelet decodes it all the same.
    replaced: Vec<Entry>,
}

/// One key of a mapping and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as the kubelet sees it: `1` is `"1"`.
    pub key: Arc<str>,
    /// Where the key stands.
    pub key_position: Position,
    /// The value.
    pub value: Node,
}

impl Map {
    /// A mapping with these entries; the caller answers for unique keys.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries, replaced: Vec::new() }
    }

    /// A mapping with what later values replaced.
    pub fn with_replaced(entries: Vec<Entry>, replaced: Vec<Entry>) -> Self {
        Self { entries, replaced }
    }

    /// Values of repeated JSON keys before the last: they have no effect, but their types count.
    pub fn replaced(&self) -> &[Entry] {
        &self.replaced
    }

    /// The entry of `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|entry| &*entry.key == key).map(|entry| &mut entry.value)
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }

    /// All entries, in the order of first appearance.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry, or replaces the one that has its key. Gives back what was replaced.
    pub fn insert(&mut self, entry: Entry) -> Option<Entry> {
        if let Some(old) = self.entries.iter_mut().find(|old| old.key == entry.key) {
            return Some(std::mem::replace(old, entry));
        }
        self.entries.push(entry);
        None
    }
}

impl Node {
    /// A node with this value at this place.
    pub fn new(position: Position, value: Value) -> Self {
        Self { position, value, written: None }
    }

    /// A string at this place.
    pub fn string(position: Position, text: &str) -> Self {
        Self::new(position, Value::Str(Arc::from(text)))
    }

    /// The mapping, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is an integer.
    pub fn as_int(&self) -> Option<i128> {
        match self.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The value of `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// The amount, if it is one.
    pub fn as_quantity(&self) -> Option<&Quantity> {
        match &self.value {
            Value::Quantity(amount) => Some(amount),
            _ => None,
        }
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// What a reader of the manifest would call this: `a string`, `an integer`, …
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
