//! Edits the tree of a manifest in place. A node that another tree shares is copied first, so that the other tree does
//! not change.

use std::sync::Arc;

use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Value};

/// Edits the node if it is a mapping.
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

/// Sets `key` if it is absent. The new value has the position of the node.
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
