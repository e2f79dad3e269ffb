//! Builds a mapping whose keys are unique, in time linear in its size.

use std::collections::HashMap;
use std::sync::Arc;

use crate::manifests::tree::{Entry, Map};

/// A mapping under construction.
#[derive(Default)]
pub struct MapBuilder {
    entries: Vec<Entry>,
    index: HashMap<Arc<str>, usize>,
}

impl MapBuilder {
    /// Adds an entry, or replaces the one with its key and gives that back.
    pub fn insert(&mut self, entry: Entry) -> Option<Entry> {
        if let Some(old) = self.index.get(&entry.key).and_then(|&at| self.entries.get_mut(at)) {
            return Some(std::mem::replace(old, entry));
        }
        self.index.insert(Arc::clone(&entry.key), self.entries.len());
        self.entries.push(entry);
        None
    }

    /// The finished mapping.
    pub fn finish(self) -> Map {
        Map::new(self.entries)
    }
}
