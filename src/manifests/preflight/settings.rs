//! The settings that a kubelet gets in the end: its configuration file, the drop-in files over it, and the flags over
//! both. Each value keeps its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command_line::FlagUse;
use super::tables::{FlagKind, Tables};
use crate::host::truth;
use crate::kubelet::go_nanoseconds;
use crate::manifests::tree::{ManifestNode, Position, Value};

/// Where a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kubelet's own default.
    Default,
    /// A flag, by its name without dashes.
    Flag(String),
    /// A file.
    File {
        /// The path, as the kubelet sees it.
        file: Arc<str>,
        /// The position of the value.
        position: Position,
    },
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The place.
    pub origin: Origin,
}

/// The merged settings by the path of their field; a key of a mapping is in brackets, as in `evictionHard[memory.available]`.
#[derive(Debug, Default)]
pub struct MergedSettings {
    values: BTreeMap<String, Placed<ManifestNode>>,
}

/// Whether a field with this Go type is a mapping whose keys are free, so that files are merged key by key.
pub fn is_free_mapping(go_type: &str) -> bool {
    go_type.starts_with("map[") || go_type == "v1.ResourceList"
}

impl MergedSettings {
    /// Adds the values of a file over those of earlier files.
    pub fn add_file(&mut self, root: &ManifestNode, file: &Arc<str>) {
        self.add(root, "", file);
    }

    fn add(&mut self, node: &ManifestNode, parent: &str, file: &Arc<str>) {
        let Some(map) = node.as_map() else { return };
        for entry in map.entries() {
            let path =
                if parent.is_empty() { entry.key.to_string() } else { format!("{parent}.{}", entry.key) };
            let Some(field) = Tables::get().field(&path) else { continue };
            let has_fields = Tables::get().fields_below(&path).next().is_some();
            match entry.value.as_map() {
                Some(keys) if is_free_mapping(field.go_type) => {
                    for entry in keys.entries() {
                        self.set(format!("{path}[{}]", entry.key), &entry.value, entry.key_position, file);
                    }
                }
                Some(_) if has_fields => {
                    self.values.insert(path.clone(), placed(&entry.value, entry.key_position, file));
                    self.add(&entry.value, &path, file);
                }
                _ => self.set(path, &entry.value, entry.key_position, file),
            }
        }
    }

    /// Sets a value; `null` restores the default.
    fn set(&mut self, path: String, value: &ManifestNode, at: Position, file: &Arc<str>) {
        if value.is_null() {
            self.values.remove(&path);
        } else {
            self.values.insert(path, placed(value, at, file));
        }
    }

    /// Adds the values of the command line over those of the files.
    pub fn add_flags(&mut self, flags: &[FlagUse]) {
        for flag in flags {
            let Some(known) = Tables::get().flag(&flag.name) else { continue };
            let (Some(path), Some(text)) = (known.field, &flag.value) else { continue };
            let Some(field) = Tables::get().field(path) else { continue };
            let origin = Origin::Flag(flag.name.clone());
            if field.go_type == "map[string]bool" {
                // Feature gates are merged gate by gate and checked on their own.
                continue;
            }
            if is_free_mapping(field.go_type) {
                let prefix = format!("{path}[");
                let is_first =
                    !flags.iter().any(|earlier| earlier.name == flag.name && !std::ptr::eq(earlier, flag))
                        || flags
                            .iter()
                            .find(|earlier| earlier.name == flag.name)
                            .is_some_and(|first| std::ptr::eq(first, flag));
                if is_first {
                    self.values.retain(|key, _| !key.starts_with(&prefix));
                }
                for pair in text.split(',').filter(|pair| !pair.is_empty()) {
                    let Some((key, value)) = pair.split_once(['=', '<']) else { continue };
                    let node = ManifestNode::string(Position::START, value.trim());
                    let path = format!("{path}[{}]", key.trim());
                    self.values.insert(path, Placed { value: node, origin: origin.clone() });
                }
                continue;
            }
            if let Some(value) = flag_value(text, known.kind, field.go_type) {
                let value = ManifestNode::new(Position::START, value);
                self.values.insert(path.to_owned(), Placed { value, origin });
            }
        }
    }

    /// The place of a field, if it is set.
    pub fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map_or(Origin::Default, |placed| placed.origin.clone())
    }

    /// Whether the field is set to something.
    pub fn is_set(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    fn typed<T>(&self, path: &str, read: impl Fn(&ManifestNode) -> Option<T>) -> Option<Placed<T>> {
        let placed = self.values.get(path)?;
        Some(Placed { value: read(&placed.value)?, origin: placed.origin.clone() })
    }

    /// An integer.
    pub fn int(&self, path: &str) -> Option<Placed<i128>> {
        self.typed(path, ManifestNode::as_int)
    }

    /// A number.
    pub fn number(&self, path: &str) -> Option<Placed<f64>> {
        self.typed(path, |node| match node.value {
            #[expect(clippy::cast_precision_loss, reason = "only compared with small limits")]
            Value::Int(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        })
    }

    /// A boolean.
    pub fn bool(&self, path: &str) -> Option<Placed<bool>> {
        self.typed(path, ManifestNode::as_bool)
    }

    /// Whether a boolean is true, if it is set, otherwise `default`.
    pub fn is_on(&self, path: &str, default: bool) -> bool {
        self.bool(path).map_or(default, |placed| placed.value)
    }

    /// A text.
    pub fn text(&self, path: &str) -> Option<Placed<String>> {
        self.typed(path, |node| node.as_str().map(str::to_owned))
    }

    /// A text that is not empty.
    pub fn filled(&self, path: &str) -> Option<Placed<String>> {
        self.text(path).filter(|placed| !placed.value.is_empty())
    }

    /// A duration in nanoseconds.
    pub fn nanoseconds(&self, path: &str) -> Option<Placed<i64>> {
        self.typed(path, |node| node.as_str().and_then(|text| go_nanoseconds(text).ok()))
    }

    /// A list of texts.
    pub fn list(&self, path: &str) -> Option<Placed<Vec<String>>> {
        self.typed(path, |node| {
            node.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        })
    }

    /// Any value.
    pub fn node(&self, path: &str) -> Option<&Placed<ManifestNode>> {
        self.values.get(path)
    }

    /// The keys and values of a free mapping, by key.
    pub fn entries<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a str, &'a Placed<ManifestNode>)> {
        let prefix = format!("{path}[");
        self.values.iter().filter_map(move |(key, placed)| {
            let key = key.strip_prefix(prefix.as_str())?.strip_suffix(']')?;
            Some((key, placed))
        })
    }
}

fn placed(node: &ManifestNode, at: Position, file: &Arc<str>) -> Placed<ManifestNode> {
    // A scalar is shown itself; of a collection, its key.
    let is_collection = node.as_map().is_some() || node.as_list().is_some();
    let position = if is_collection { at } else { node.position };
    Placed { value: node.clone(), origin: Origin::File { file: Arc::clone(file), position } }
}

/// The value of a flag as the field's type; `None` if it cannot be parsed, which is a finding of its own.
fn flag_value(text: &str, kind: FlagKind, go_type: &str) -> Option<Value> {
    match kind {
        FlagKind::Bool => truth(text).map(Value::Bool),
        FlagKind::Int(_) => text.parse().ok().map(Value::Int),
        FlagKind::Duration => go_nanoseconds(text).ok().map(|_| Value::Str(Arc::from(text))),
        FlagKind::Text if go_type == "[]string" => {
            let items = text.split(',').filter(|item| !item.is_empty());
            let items = items.map(|item| ManifestNode::string(Position::START, item)).collect();
            Some(Value::List(Arc::new(items)))
        }
        FlagKind::Text if go_type == "string" || go_type.starts_with("Kubelet") => {
            Some(Value::Str(Arc::from(text)))
        }
        FlagKind::Text => None,
    }
}
