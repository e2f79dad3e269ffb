//! Builds a mapping whose keys are unique, in time linear in its size.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::tree::{Map, MapEntry};

/// An unfinished mapping.
#[derive(Default)]
pub struct MapBuilder {
    entries: Vec<MapEntry>,
    /// The index of each key in `entries`.
    index: HashMap<Arc<str>, usize>,
    /// Replaced values, which the kubelet decodes nevertheless.
    replaced: Vec<MapEntry>,
    /// The keys whose value comes from a merge (`<<`).
    merged: HashSet<Arc<str>>,
}

impl MapBuilder {
    /// Adds an entry or replaces the entry with the same key. Returns the replaced entry.
    pub fn insert(&mut self, entry: MapEntry) -> Option<MapEntry> {
        if let Some(old) = self.index.get(&entry.key).and_then(|&at| self.entries.get_mut(at)) {
            return Some(std::mem::replace(old, entry));
        }
        self.index.insert(Arc::clone(&entry.key), self.entries.len());
        self.entries.push(entry);
        None
    }

    /// Keeps replaced values: the kubelet decodes every JSON value, even one that a later value replaces.
    pub fn keep_replaced(&mut self, entries: impl IntoIterator<Item = MapEntry>) {
        self.replaced.extend(entries);
    }

    /// Adds an entry that is written in the mapping itself. Returns the replaced entry if that entry was written in the
    /// mapping too. Replacing an entry of a merge is normal, so that entry is not returned.
    pub fn insert_written(&mut self, entry: MapEntry) -> Option<MapEntry> {
        let merged = !self.merged.is_empty() && self.merged.remove(&entry.key);
        self.insert(entry).filter(|_| !merged)
    }

    /// Adds an entry of a merge. Returns the replaced entry if that entry was written in the mapping itself.
    pub fn insert_merged(&mut self, entry: MapEntry) -> Option<MapEntry> {
        let merged = !self.merged.insert(Arc::clone(&entry.key));
        self.insert(entry).filter(|_| !merged)
    }

    /// Returns the finished mapping.
    pub fn finish(self) -> Map {
        Map::with_replaced(self.entries, self.replaced)
    }
}
