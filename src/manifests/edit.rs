//! Edits a tree in place. Nodes shared with the original tree are copied first.

use std::sync::Arc;

use super::tree::{ManifestNode, Map, MapEntry, Value};

/// Edits a mapping in place, and copies it first if it is shared.
pub fn with_map(node: &mut ManifestNode, change: impl FnOnce(&mut Map)) {
    if let Value::Map(map) = &mut node.value {
        change(Arc::make_mut(map));
    }
}

/// Edits the value of `key`, if the key is present.
pub fn edit(node: &mut ManifestNode, key: &str, change: impl FnOnce(&mut ManifestNode)) {
    with_map(node, |map| {
        if let Some(value) = map.get_mut(key) {
            change(value);
        }
    });
}

/// Edits each item of the list `key`, if the key is present.
pub fn each(node: &mut ManifestNode, key: &str, mut change: impl FnMut(&mut ManifestNode)) {
    edit(node, key, |list| {
        if let Value::List(items) = &mut list.value {
            Arc::make_mut(items).iter_mut().for_each(&mut change);
        }
    });
}

/// Sets `key` if it is absent.
pub fn fill(node: &mut ManifestNode, key: &str, value: impl FnOnce() -> Value) {
    let position = node.position;
    with_map(node, |map| {
        if map.get(key).is_none() {
            map.insert(MapEntry {
                key: Arc::from(key),
                key_position: position,
                value: ManifestNode::new(position, value()),
            });
        }
    });
}
