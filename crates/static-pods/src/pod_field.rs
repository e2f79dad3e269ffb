//! A field of a decoded Pod, present or absent. A rule can read `spec.securityContext.runAsUser` without checking whether
//! each level exists, and an absent field also has a path and a position for messages.

use std::fmt;

use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Position, Value};

/// A field of the Pod, present or absent, with its path and its position in the file.
#[derive(Clone, Debug)]
pub struct PodField<'a> {
    node: Option<&'a ManifestNode>,
    /// The position of the field, or of its nearest ancestor if the field is absent.
    position: Position,
    path: String,
    /// The path in the kubelet's log, if it is not `path`.
    kubelet_path: Option<String>,
}

impl<'a> PodField<'a> {
    /// Creates the whole Pod.
    pub fn root(pod: &'a ManifestNode) -> Self {
        Self { node: Some(pod), position: pod.position, path: String::new(), kubelet_path: None }
    }

    /// Returns the field `name` of this field.
    #[must_use]
    pub fn get(&self, name: &str) -> Self {
        let entry = self.map().and_then(|map| map.entry(name));
        let dot = if self.path.is_empty() { "" } else { "." };
        self.below(entry.map(|entry| &entry.value), format_args!("{dot}{name}"))
    }

    /// Returns the value of a key of a mapping such as labels. Its path is `path[key]`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let entry = self.map().and_then(|map| map.entry(key));
        self.below(entry.map(|entry| &entry.value), format_args!("[{key}]"))
    }

    fn below(&self, node: Option<&'a ManifestNode>, step: fmt::Arguments<'_>) -> Self {
        Self {
            node,
            position: node.map_or(self.position, |node| node.position),
            path: format!("{}{step}", self.path),
            kubelet_path: self.kubelet_path.as_ref().map(|path| format!("{path}{step}")),
        }
    }

    /// Returns the fields at a path such as `containers[].env[].name`. `[]` stands for each item of a list, and `[a:b]` for
    /// each item whose field `a` has the same text as the field `b` of `object`. `.` is the field itself.
    pub fn at_path(&self, path: &str, object: &Self) -> Vec<Self> {
        path.split('.').filter(|step| !step.is_empty()).fold(vec![self.clone()], |fields, step| {
            let Some((list, condition)) = step.strip_suffix(']').and_then(|step| step.split_once('[')) else {
                return fields.iter().map(|field| field.get(step)).collect();
            };
            let mut items: Vec<Self> = fields.iter().flat_map(|field| field.get(list).items()).collect();
            if let Some((own, of_object)) = condition.split_once(':') {
                let text =
                    |field: &Self, name: &str| field.at_path(name, object).pop().map(|field| field.text());
                items.retain(|item| text(item, own) == text(object, of_object));
            }
            items
        })
    }

    /// Returns the items of a list; none if the list is absent.
    pub fn items(&self) -> Vec<Self> {
        let items = self.node.and_then(ManifestNode::as_list).unwrap_or_default();
        let item = |(index, node)| self.below(Some(node), format_args!("[{index}]"));
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the entries of a mapping such as labels, each with its field; none if the mapping is absent.
    pub fn entries(&self) -> Vec<(&'a MapEntry, Self)> {
        let entries = self.map().map(Map::entries).unwrap_or_default();
        let at = |entry: &'a MapEntry| {
            (
                entry,
                Self {
                    node: Some(&entry.value),
                    position: entry.key_position,
                    path: format!("{}[{}]", self.path, entry.key),
                    kubelet_path: None,
                },
            )
        };
        entries.iter().map(at).collect()
    }

    fn map(&self) -> Option<&'a Map> {
        self.node.and_then(ManifestNode::as_map)
    }

    /// Returns the node, if the field is present.
    pub fn node(&self) -> Option<&'a ManifestNode> {
        self.node
    }

    /// Whether the field is present. An empty string, list or object is present.
    pub fn is_set(&self) -> bool {
        self.node.is_some()
    }

    /// Whether the field is absent, null, or an empty string, list or mapping.
    pub fn is_empty(&self) -> bool {
        match self.node.map(|node| &node.value) {
            None | Some(Value::Null) => true,
            Some(Value::Str(text)) => text.is_empty(),
            Some(Value::List(items)) => items.is_empty(),
            Some(Value::Map(map)) => map.entries().is_empty(),
            Some(_) => false,
        }
    }

    /// Whether the field has what Go calls the zero value: it is empty, 0 or false.
    pub fn is_zero(&self) -> bool {
        match self.node.map(|node| &node.value) {
            Some(Value::Int(number)) => *number == 0,
            Some(Value::Bool(truth)) => !truth,
            Some(Value::Quantity(amount)) => amount.is_zero(),
            _ => self.is_empty(),
        }
    }

    /// Returns the number of items or entries.
    pub fn len(&self) -> usize {
        match self.node.map(|node| &node.value) {
            Some(Value::List(items)) => items.len(),
            Some(Value::Map(map)) => map.entries().len(),
            _ => 0,
        }
    }

    /// Returns the text; empty if the field is absent.
    pub fn str(&self) -> &'a str {
        self.node.and_then(ManifestNode::as_str).unwrap_or_default()
    }

    /// Returns a text, number, boolean or quantity as a text; empty if the field is absent.
    pub fn text(&self) -> String {
        match self.node.map(|node| &node.value) {
            Some(Value::Str(text)) => text.to_string(),
            Some(Value::Quantity(amount)) => amount.to_string(),
            Some(Value::Int(_) | Value::Bool(_)) => self.shown(),
            _ => String::new(),
        }
    }

    /// Returns the text, if the field is present.
    pub fn opt_str(&self) -> Option<&'a str> {
        self.node.and_then(ManifestNode::as_str)
    }

    /// Returns the number, if the field is present.
    pub fn opt_int(&self) -> Option<i64> {
        i64::try_from(self.node?.as_int()?).ok()
    }

    /// Returns the number; zero if the field is absent.
    pub fn int(&self) -> i64 {
        self.opt_int().unwrap_or_default()
    }

    /// Returns the boolean, if the field is present.
    pub fn opt_bool(&self) -> Option<bool> {
        self.node.and_then(ManifestNode::as_bool)
    }

    /// Whether the field is present and true.
    pub fn is_true(&self) -> bool {
        self.opt_bool() == Some(true)
    }

    /// Returns the quantity; zero if the field is absent.
    pub fn quantity(&self) -> Quantity {
        self.node.and_then(ManifestNode::as_quantity).cloned().unwrap_or_default()
    }

    /// Returns the value as messages show it.
    pub fn shown(&self) -> String {
        match self.node.map(|node| &node.value) {
            Some(Value::Str(text)) => format!("\"{text}\""),
            Some(Value::Quantity(amount)) => format!("\"{amount}\""),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::Bool(truth)) => truth.to_string(),
            Some(Value::Float(number)) => number.to_string(),
            _ => "\"\"".to_owned(),
        }
    }

    /// Whether the value is a text.
    pub fn is_text(&self) -> bool {
        matches!(self.node.map(|node| &node.value), Some(Value::Str(_)))
    }

    /// Whether the value is a list or a mapping.
    pub fn is_collection(&self) -> bool {
        matches!(self.node.map(|node| &node.value), Some(Value::List(_) | Value::Map(_)))
    }

    /// Returns the position of the field, or of its nearest ancestor if the field is absent.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Sets the path that the kubelet's log uses for this field and its descendants, except entries of a map.
    #[must_use]
    pub fn called(mut self, kubelet_path: String) -> Self {
        self.kubelet_path = Some(kubelet_path);
        self
    }

    /// Returns the path in the kubelet's log. It sometimes differs from the real path, and users search the log for
    /// it.
    pub fn kubelet_path(&self) -> &str {
        self.kubelet_path.as_deref().unwrap_or(&self.path)
    }

    /// Returns the path, such as `spec.containers[0].image`.
    pub fn path(&self) -> &str {
        &self.path
    }
}
