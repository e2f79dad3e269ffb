//! The kubelet's pod status cache, as far as PLEG itself goes by it.

use std::collections::HashMap;
use std::sync::Arc;

use super::status::PodStatus;
use crate::clock::Wall;

/// What the cache says of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The status; `None` after a failed fetch.
    pub status: Option<Arc<PodStatus>>,
    /// Why the last fetch failed.
    pub error: Option<String>,
}

impl Cached {
    fn unknown(uid: &str) -> Self {
        Self { status: Some(Arc::new(PodStatus::unknown(uid))), error: None }
    }
}

#[derive(Debug)]
struct Entry {
    cached: Cached,
    modified: Wall,
}

/// The cache.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, Entry>,
    refuses_stale: bool,
}

impl Cache {
    /// An empty cache. With the kubelet's `EventedPLEG` gate on it refuses what is older than what it has.
    pub fn new(evented_gate: bool) -> Self {
        Self { refuses_stale: evented_gate, ..Self::default() }
    }

    /// What is known of a pod now. An unknown pod is no error.
    pub fn get(&self, uid: &str) -> Cached {
        self.entries.get(uid).map_or_else(|| Cached::unknown(uid), |entry| entry.cached.clone())
    }

    /// Stores what is known of a pod as of `time`; false if that is refused as stale.
    pub fn set(
        &mut self,
        uid: &str,
        status: Option<Arc<PodStatus>>,
        error: Option<String>,
        time: Wall,
    ) -> bool {
        if self.refuses_stale && self.entries.get(uid).is_some_and(|entry| entry.modified > time) {
            return false;
        }
        let entry = Entry { cached: Cached { status, error }, modified: time };
        self.entries.insert(uid.to_owned(), entry);
        true
    }

    /// How many pods it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all pods but these.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.entries.retain(|uid, _| wanted(uid));
        self.entries.shrink_to_fit();
    }

    /// Forgets a pod.
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
    fn what_was_set_is_got_errors_included_until_it_is_deleted() {
        let mut cache = Cache::default();
        for (status, error) in
            [(Some(status("x")), None), (Some(status("y")), Some("bad")), (None, Some("worse"))]
        {
            assert!(cache.set("a", status.clone(), error.map(str::to_owned), T0));
            let cached = cache.get("a");
            assert_eq!((cached.status, cached.error.as_deref()), (status, error));
        }
        cache.delete("a");
        assert_eq!(cache.get("a"), Cached::unknown("a"));
    }

    #[test]
    fn what_is_older_is_refused_behind_the_gate_alone() {
        for (gate, kept) in [(false, true), (true, false)] {
            let mut cache = Cache::new(gate);
            cache.set("a", Some(status("new")), None, T0.plus(std::time::Duration::from_secs(1)));
            assert_eq!(cache.set("a", Some(status("old")), None, T0), kept, "gate {gate}");
        }
    }
}
