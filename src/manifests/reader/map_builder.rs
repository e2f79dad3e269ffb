//! Builds a mapping whose keys are unique, in time linear in its size.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::manifests::tree::{Entry, Map};

/// A mapping under construction.
#[derive(Default)]
pub struct MapBuilder {
    entries: Vec<Entry>,
    index: HashMap<Arc<str>, usize>,
    /// Values that have been replaced, where that matters.
    replaced: Vec<Entry>,
    /// Keys that a merge brought.
    merged: HashSet<Arc<str>>,
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

    /// Keeps what was replaced: JSON values are decoded one by one, before the next of the same key comes.
    pub fn keep_replaced(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.replaced.extend(entries);
    }

    /// Adds an entry that is written here. What it replaces is given back if that was written here too: to override
    /// what a merge brought is what merges are for.
    pub fn insert_written(&mut self, entry: Entry) -> Option<Entry> {
        let merged = !self.merged.is_empty() && self.merged.remove(&entry.key);
        self.insert(entry).filter(|_| !merged)
    }

    /// Adds an entry of a merge. What it replaces is given back if that was written here.
    pub fn insert_merged(&mut self, entry: Entry) -> Option<Entry> {
        let merged = !self.merged.insert(Arc::clone(&entry.key));
        self.insert(entry).filter(|_| !merged)
    }

    /// The finished mapping.
    pub fn finish(self) -> Map {
        Map::with_replaced(self.entries, self.replaced)
    }
}
