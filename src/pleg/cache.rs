//! The kubelet's pod status cache: what pod workers wait on.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

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

/// Answer to "anything newer than that?".
#[derive(Debug)]
pub enum Newer {
    /// Yes.
    Now(Cached),
    /// Not yet; it will come through here.
    Later(oneshot::Receiver<Cached>),
}

#[derive(Debug)]
struct Entry {
    cached: Cached,
    modified: Wall,
    observed: Wall,
}

#[derive(Debug)]
struct Subscriber {
    newer_than: Wall,
    answer: oneshot::Sender<Cached>,
}

/// The cache.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, Entry>,
    subscribers: HashMap<String, Vec<Subscriber>>,
    global: Option<Wall>,
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
        let entry = Entry { cached: Cached { status, error }, modified: time, observed: time };
        self.entries.insert(uid.to_owned(), entry);
        self.notify(uid, time);
        true
    }

    /// Notes that what is known of a pod was still so at `time`.
    pub fn set_observed_time(&mut self, uid: &str, time: Wall) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.observed = time;
        }
        self.notify(uid, time);
    }

    /// How many pods it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all pods but these. Nobody is told.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.entries.retain(|uid, _| wanted(uid));
        self.entries.shrink_to_fit();
    }

    /// Forgets a pod. Nobody is told.
    pub fn delete(&mut self, uid: &str) {
        self.entries.remove(uid);
    }

    /// Notes that everything known was still so at `time`, even if `time` is in the past.
    pub fn update_time(&mut self, time: Wall) {
        self.global = Some(time);
        let uids: Vec<String> = self.subscribers.keys().cloned().collect();
        for uid in uids {
            self.notify(&uid, time);
        }
    }

    /// What is known of a pod, provided that it is strictly newer than `than`.
    pub fn get_newer_than(&mut self, uid: &str, than: Wall) -> Newer {
        let entry = self.entries.get(uid);
        let global = self.global.is_some_and(|global| global > than);
        let own = entry.is_some_and(|entry| entry.modified > than || entry.observed > than);
        if global || own {
            return Newer::Now(self.get(uid));
        }
        let (answer, later) = oneshot::channel();
        let subscribers = self.subscribers.entry(uid.to_owned()).or_default();
        // Who has stopped waiting must not be kept for ever.
        subscribers.retain(|subscriber| !subscriber.answer.is_closed());
        subscribers.push(Subscriber { newer_than: than, answer });
        Newer::Later(later)
    }

    /// Not strict, unlike [`Self::get_newer_than`]: that is how the kubelet has it.
    fn notify(&mut self, uid: &str, time: Wall) {
        let Some(subscribers) = self.subscribers.remove(uid) else {
            return;
        };
        let (served, waiting): (Vec<_>, Vec<_>) =
            subscribers.into_iter().partition(|subscriber| subscriber.newer_than <= time);
        for subscriber in served {
            // A worker that is gone needs no answer.
            let _ = subscriber.answer.send(self.get(uid));
        }
        if !waiting.is_empty() {
            self.subscribers.insert(uid.to_owned(), waiting);
        }
    }
}
