//! The kubelet's cache of pod statuses, with only the operations that PLEG uses.

use std::collections::HashMap;
use std::sync::Arc;

use super::status::PodStatus;
use crate::clock::Wall;

/// The cached status of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedStatus {
    /// The status; `None` after a failed fetch.
    pub status: Option<Arc<PodStatus>>,
    /// The error of the last fetch, if it failed.
    pub error: Option<String>,
}

impl CachedStatus {
    fn unknown(uid: &str) -> Self {
        Self { status: Some(Arc::new(PodStatus::unknown(uid))), error: None }
    }
}

/// A cached status, and the time for which it is valid.
#[derive(Debug)]
struct CacheEntry {
    cached: CachedStatus,
    modified: Wall,
}

/// The status cache of all pods, by UID.
#[derive(Debug, Default)]
pub struct StatusCache {
    entries: HashMap<String, CacheEntry>,
    rejects_older: bool,
}

impl StatusCache {
    /// Creates an empty cache. With the kubelet's `EventedPLEG` gate on, the cache rejects a status older than the
    /// cached status.
    pub fn new(evented_gate: bool) -> Self {
        Self { rejects_older: evented_gate, ..Self::default() }
    }

    /// Returns the cached status of a pod. A pod without an entry has an empty status and no error.
    pub fn get(&self, uid: &str) -> CachedStatus {
        self.entries.get(uid).map_or_else(|| CachedStatus::unknown(uid), |entry| entry.cached.clone())
    }

    /// Stores the status of a pod as of `time`. Returns false if the cache rejects the status as stale.
    pub fn set(
        &mut self,
        uid: &str,
        status: Option<Arc<PodStatus>>,
        error: Option<String>,
        time: Wall,
    ) -> bool {
        if self.rejects_older && self.entries.get(uid).is_some_and(|entry| entry.modified > time) {
            return false;
        }
        let entry = CacheEntry { cached: CachedStatus { status, error }, modified: time };
        self.entries.insert(uid.to_owned(), entry);
        true
    }

    /// Returns the number of pods in the cache.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all pods except those that `wanted` accepts.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.entries.retain(|uid, _| wanted(uid));
        self.entries.shrink_to_fit();
    }

    /// Removes a pod.
    pub fn delete(&mut self, uid: &str) {
        self.entries.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Wall = Wall::from_nanos(1_800_000_000_000_000_000);

    fn status(name: &str) -> Arc<PodStatus> {
        let mut status = PodStatus::unknown("a");
        status.pod.name.push_str(name);
        Arc::new(status)
    }

    #[test]
    fn the_cache_returns_statuses_and_errors_until_they_are_deleted() {
        let mut cache = StatusCache::default();
        for (status, error) in
            [(Some(status("x")), None), (Some(status("y")), Some("bad")), (None, Some("worse"))]
        {
            assert!(cache.set("a", status.clone(), error.map(str::to_owned), T0));
            let cached = cache.get("a");
            assert_eq!((cached.status, cached.error.as_deref()), (status, error));
        }
        cache.delete("a");
        assert_eq!(cache.get("a"), CachedStatus::unknown("a"));
    }

    #[test]
    fn only_with_the_evented_gate_the_cache_rejects_an_older_status() {
        for (gate, kept) in [(false, true), (true, false)] {
            let mut cache = StatusCache::new(gate);
            cache.set("a", Some(status("new")), None, T0.plus(std::time::Duration::from_secs(1)));
            assert_eq!(cache.set("a", Some(status("old")), None, T0), kept, "gate {gate}");
        }
    }
}
