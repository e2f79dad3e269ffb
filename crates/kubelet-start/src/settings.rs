//! Merges the kubelet's settings: drop-in files override the configuration file, and flags override both. Each value keeps
//! its origin, the flag or the position in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command_line::FlagUse;
use super::finding::StartFinding;
use super::tables::{FlagKind, Tables};
use plegctl_api_values::tree::{ManifestNode, Position, Value};
use plegctl_base::report::Places;
use plegctl_node::host::parse_boolean;
use plegctl_node::kubelet::go_nanoseconds;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kubelet's own default.
    Default,
    /// The flag with this name, without dashes.
    Flag(String),
    /// A configuration file.
    File {
        /// The path, as the kubelet sees it.
        file: Arc<str>,
        /// The position of the value.
        position: Position,
    },
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub struct ValueWithOrigin<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

/// The merged settings, by path. A key of a free mapping is in brackets, as in `evictionHard[memory.available]`.
#[derive(Debug, Default)]
pub struct MergedSettings {
    values: BTreeMap<String, ValueWithOrigin<ManifestNode>>,
    /// Whether settings may be missing: a file or a value in it could not be decoded, or the kubelet is built into another
    /// program, which sets values that nobody sees. Then nothing is known of a setting that is not here.
    pub is_incomplete: bool,
}

/// Whether a field with this Go type is a free mapping: a mapping with any keys, which is merged key by key.
pub fn is_free_mapping(go_type: &str) -> bool {
    go_type.starts_with("map[") || go_type == "v1.ResourceList"
}

impl MergedSettings {
    /// Creates a finding about the field at `path` with the texts of a row of `findings.txt`.
    pub fn finding(&self, path: &str, row: &str, places: &Places<'_>) -> StartFinding {
        StartFinding::of(row, places).at(&self.origin(path)).on(path)
    }

    /// Adds the values of a file, which override the values of earlier files.
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
                // An empty mapping differs from a missing one: it replaces the defaults.
                Some(keys) if is_free_mapping(field.go_type) && keys.entries().is_empty() => {
                    self.set(path, &entry.value, entry.key_position, file);
                }
                Some(keys) if is_free_mapping(field.go_type) => {
                    for entry in keys.entries() {
                        self.set(format!("{path}[{}]", entry.key), &entry.value, entry.key_position, file);
                    }
                }
                Some(_) if has_fields => {
                    self.values.insert(path.clone(), file_setting(&entry.value, entry.key_position, file));
                    self.add(&entry.value, &path, file);
                }
                _ => self.set(path, &entry.value, entry.key_position, file),
            }
        }
    }

    /// Sets a value. `null` restores the default.
    fn set(&mut self, path: String, value: &ManifestNode, at: Position, file: &Arc<str>) {
        if value.is_null() {
            self.values.remove(&path);
        } else {
            self.values.insert(path, file_setting(value, at, file));
        }
    }

    /// Removes a value that has the wrong type.
    pub fn forget(&mut self, path: &str) {
        self.values.remove(path);
        self.is_incomplete = true;
    }

    /// Adds the values of the command line, which override the values of the files.
    pub fn add_flags(&mut self, flags: &[FlagUse]) {
        for flag in flags {
            let Some(known) = Tables::get().flag(&flag.name) else { continue };
            let (Some(path), Some(text)) = (known.field, &flag.value) else { continue };
            let Some(field) = Tables::get().field(path) else { continue };
            let origin = Origin::Flag(flag.name.clone());
            if field.go_type == "map[string]bool" {
                // `gates` collects and checks the feature gates.
                continue;
            }
            if is_free_mapping(field.go_type) {
                let prefix = format!("{path}[");
                let first = flags.iter().find(|earlier| earlier.name == flag.name);
                if first.is_some_and(|first| std::ptr::eq(first, flag)) {
                    self.values.retain(|key, _| !key.starts_with(&prefix));
                }
                for pair in text.split(',').filter(|pair| !pair.is_empty()) {
                    let Some((key, value)) = pair.split_once(['=', '<']) else { continue };
                    let node = ManifestNode::string(Position::START, value.trim());
                    let path = format!("{path}[{}]", key.trim());
                    self.values.insert(path, ValueWithOrigin { value: node, origin: origin.clone() });
                }
                continue;
            }
            // The flag overrides the files, also with a value that plegctl does not read.
            self.values.remove(path);
            if let Some(value) = flag_value(text, known.kind, field.go_type) {
                let value = ManifestNode::new(Position::START, value);
                self.values.insert(path.to_owned(), ValueWithOrigin { value, origin });
            }
        }
    }

    /// Returns the origin of a field's value.
    pub fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Whether a file or a flag sets the field.
    pub fn is_set(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    fn typed<T>(&self, path: &str, read: impl Fn(&ManifestNode) -> Option<T>) -> Option<ValueWithOrigin<T>> {
        let setting = self.values.get(path)?;
        Some(ValueWithOrigin { value: read(&setting.value)?, origin: setting.origin.clone() })
    }

    /// Returns an integer, if the field is set.
    pub fn int(&self, path: &str) -> Option<ValueWithOrigin<i128>> {
        self.typed(path, ManifestNode::as_int)
    }

    /// Returns an integer or a float, if the field is set.
    pub fn number(&self, path: &str) -> Option<ValueWithOrigin<f64>> {
        self.typed(path, |node| match node.value {
            #[expect(clippy::cast_precision_loss, reason = "only compared with small limits")]
            Value::Int(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        })
    }

    /// Returns a boolean, or `default` if the field is not set.
    pub fn is_on(&self, path: &str, default: bool) -> bool {
        self.typed(path, ManifestNode::as_bool).map_or(default, |setting| setting.value)
    }

    /// Returns a text, if the field is set.
    pub fn text(&self, path: &str) -> Option<ValueWithOrigin<String>> {
        self.typed(path, |node| node.as_str().map(str::to_owned))
    }

    /// Returns a text, if the field is set and not empty.
    pub fn non_empty(&self, path: &str) -> Option<ValueWithOrigin<String>> {
        self.text(path).filter(|setting| !setting.value.is_empty())
    }

    /// Returns a duration in nanoseconds, if the field is set.
    pub fn nanoseconds(&self, path: &str) -> Option<ValueWithOrigin<i64>> {
        self.typed(path, |node| node.as_str().and_then(|text| go_nanoseconds(text).ok()))
    }

    /// Returns a list of texts, if the field is set.
    pub fn list(&self, path: &str) -> Option<ValueWithOrigin<Vec<String>>> {
        self.typed(path, |node| {
            node.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        })
    }

    /// Returns a value of any type, if the field is set.
    pub fn node(&self, path: &str) -> Option<&ValueWithOrigin<ManifestNode>> {
        self.values.get(path)
    }

    /// Whether the kubelet's default thresholds of evictionHard apply. If evictionHard is set, even to an empty mapping,
    /// they do not, unless the settings merge them.
    pub fn keeps_default_thresholds(&self) -> bool {
        let is_set = self.is_set("evictionHard") || self.entries("evictionHard").next().is_some();
        !is_set || self.is_on("mergeDefaultEvictionSettings", false)
    }

    /// Returns the keys and values of a free mapping, sorted by key.
    pub fn entries<'a>(
        &'a self,
        path: &str,
    ) -> impl Iterator<Item = (&'a str, &'a ValueWithOrigin<ManifestNode>)> {
        let prefix = format!("{path}[");
        self.values.iter().filter_map(move |(key, setting)| {
            let key = key.strip_prefix(prefix.as_str())?.strip_suffix(']')?;
            Some((key, setting))
        })
    }
}

/// Returns the scheme of a URL in lower case, if the URL has one (`getScheme` in Go's `net/url`).
pub fn url_scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once(':')?;
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then(|| scheme.to_ascii_lowercase())
}

/// Returns the setting of a file. Its position is the value's position; for a list or a mapping, the key's position.
fn file_setting(
    node: &ManifestNode,
    key_position: Position,
    file: &Arc<str>,
) -> ValueWithOrigin<ManifestNode> {
    let is_collection = node.as_map().is_some() || node.as_list().is_some();
    let position = if is_collection { key_position } else { node.position };
    ValueWithOrigin { value: node.clone(), origin: Origin::File { file: Arc::clone(file), position } }
}

/// Converts the value of a flag into the field's type. Returns `None` if the value cannot be parsed; `command_line` reports
/// this.
fn flag_value(text: &str, kind: FlagKind, go_type: &str) -> Option<Value> {
    match kind {
        FlagKind::Bool => parse_boolean(text).map(Value::Bool),
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
