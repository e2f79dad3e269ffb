//! Changing a tree in place: what is shared with the file as it was read is copied first.

use std::sync::Arc;

use super::tree::{Entry, Map, Node, Value};

/// Changes a mapping in place, copying it if it is shared.
pub fn with_map(node: &mut Node, change: impl FnOnce(&mut Map)) {
    if let Value::Map(map) = &mut node.value {
        change(Arc::make_mut(map));
    }
}

/// Changes the value of `key`, if there is one.
pub fn edit(node: &mut Node, key: &str, change: impl FnOnce(&mut Node)) {
    with_map(node, |map| {
        if let Some(value) = map.get_mut(key) {
            change(value);
        }
    });
}

/// Changes each item of the list `key`, if there is one.
pub fn each(node: &mut Node, key: &str, mut change: impl FnMut(&mut Node)) {
    edit(node, key, |list| {
        if let Value::List(items) = &mut list.value {
            Arc::make_mut(items).iter_mut().for_each(&mut change);
        }
    });
}

/// Sets `key` if it is absent.
pub fn fill(node: &mut Node, key: &str, value: impl FnOnce() -> Value) {
    let position = node.position;
    with_map(node, |map| {
        if map.get(key).is_none() {
            map.insert(Entry {
                key: Arc::from(key),
                key_position: position,
                value: Node::new(position, value()),
            });
        }
    });
}
