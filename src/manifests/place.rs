//! A place in a decoded Pod: easy to descend, whether or not something is there.

use std::fmt;

use super::quantity::Quantity;
use super::tree::{Entry, Map, Node, Position, Value};

/// A field of the Pod, present or absent, with its path and the best place to point at.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    node: Option<&'a Node>,
    position: Position,
    path: String,
    /// What the kubelet calls it, where that is something else.
    kubelet_path: Option<String>,
}

impl<'a> Place<'a> {
    /// The whole Pod.
    pub fn root(pod: &'a Node) -> Self {
        Self { node: Some(pod), position: pod.position, path: String::new(), kubelet_path: None }
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn get(&self, name: &str) -> Self {
        let entry = self.map().and_then(|map| map.entry(name));
        let dot = if self.path.is_empty() { "" } else { "." };
        self.below(entry.map(|entry| &entry.value), format_args!("{dot}{name}"))
    }

    /// The value of a map key, written `path[key]`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let entry = self.map().and_then(|map| map.entry(key));
        self.below(entry.map(|entry| &entry.value), format_args!("[{key}]"))
    }

    fn below(&self, node: Option<&'a Node>, step: fmt::Arguments<'_>) -> Self {
        Self {
            node,
            position: node.map_or(self.position, |node| node.position),
            path: format!("{}{step}", self.path),
            kubelet_path: self.kubelet_path.as_ref().map(|path| format!("{path}{step}")),
        }
    }

    /// The items of a list; none if it is absent.
    pub fn items(&self) -> Vec<Self> {
        let items = self.node.and_then(Node::as_list).unwrap_or_default();
        let item = |(index, node)| self.below(Some(node), format_args!("[{index}]"));
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a mapping with the place of each key; none if it is absent.
    pub fn entries(&self) -> Vec<(&'a Entry, Self)> {
        let entries = self.map().map(Map::entries).unwrap_or_default();
        let at = |entry: &'a Entry| {
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
        self.node.and_then(Node::as_map)
    }

    /// The node, if it is there.
    pub fn node(&self) -> Option<&'a Node> {
        self.node
    }

    /// True if it is there; an empty string, list or object is.
    pub fn is_set(&self) -> bool {
        self.node.is_some()
    }

    /// True if it is absent or an empty string, list or mapping.
    pub fn is_empty(&self) -> bool {
        match self.node.map(|node| &node.value) {
            None | Some(Value::Null) => true,
            Some(Value::Str(text)) => text.is_empty(),
            Some(Value::List(items)) => items.is_empty(),
            Some(Value::Map(map)) => map.entries().is_empty(),
            Some(_) => false,
        }
    }

    /// How many items or entries it has.
    pub fn len(&self) -> usize {
        match self.node.map(|node| &node.value) {
            Some(Value::List(items)) => items.len(),
            Some(Value::Map(map)) => map.entries().len(),
            _ => 0,
        }
    }

    /// The text; empty if it is absent.
    pub fn str(&self) -> &'a str {
        self.node.and_then(Node::as_str).unwrap_or_default()
    }

    /// The text, if it is there.
    pub fn opt_str(&self) -> Option<&'a str> {
        self.node.and_then(Node::as_str)
    }

    /// The number, if it is there.
    pub fn opt_int(&self) -> Option<i64> {
        i64::try_from(self.node?.as_int()?).ok()
    }

    /// The number; zero if it is absent.
    pub fn int(&self) -> i64 {
        self.opt_int().unwrap_or_default()
    }

    /// The truth value, if it is there.
    pub fn opt_bool(&self) -> Option<bool> {
        self.node.and_then(Node::as_bool)
    }

    /// True if it is there and true.
    pub fn is_true(&self) -> bool {
        self.opt_bool() == Some(true)
    }

    /// The quantity; zero if it is absent.
    pub fn quantity(&self) -> Quantity {
        self.node.and_then(Node::as_quantity).cloned().unwrap_or_default()
    }

    /// The value as a message shows it.
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

    /// Where it stands, or where it would: its nearest ancestor.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The same place under the name that the kubelet's log has for it, and for what is below it.
    #[must_use]
    pub fn called(mut self, kubelet_path: String) -> Self {
        self.kubelet_path = Some(kubelet_path);
        self
    }

    /// Its path in the kubelet's log: not always its own, and a runbook greps for it.
    pub fn kubelet_path(&self) -> &str {
        self.kubelet_path.as_deref().unwrap_or(&self.path)
    }

    /// Its path, `spec.containers[0].image`.
    pub fn path(&self) -> &str {
        &self.path
    }
}
