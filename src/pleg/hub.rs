//! What the relisting PLEG, the evented PLEG, the health check and the metrics endpoint share.
//!
//! None of it is held across a call to the runtime, so that health can be judged while a relist hangs.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::Cache;
use super::health::{self, Unhealthy};
use super::metrics::Metrics;
use super::pods::KubeletState;
use super::status::PodStatus;
use crate::clock::{Clock, Mono, Wall};

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub mono: Mono,
    pub wall: Wall,
}

impl Moment {
    pub fn now(clock: &dyn Clock) -> Self {
        Self { mono: clock.mono(), wall: clock.wall() }
    }
}

/// The shared state.
#[derive(Debug)]
pub struct Shared {
    /// Pod statuses.
    pub cache: Cache,
    /// What the kubelet would report.
    pub metrics: Metrics,
    pub(super) reinspect: HashSet<String>,
    pub(super) last_list: Option<Moment>,
    /// Why the last relist that ended got no connection at all.
    pub(super) unreachable: Option<String>,
    pub(super) evented_in_use: bool,
}

/// Owner of the shared state; each access is short.
#[derive(Debug)]
pub struct Hub {
    shared: Mutex<Shared>,
}

impl Hub {
    /// A hub as the kubelet has it. The sync loop behind it always keeps up, so that no event is ever lost to a full channel.
    pub fn new(evented_gate: bool) -> Self {
        Self {
            shared: Mutex::new(Shared {
                cache: Cache::new(evented_gate),
                metrics: Metrics::default(),
                reinspect: HashSet::new(),
                last_list: None,
                unreachable: None,
                evented_in_use: false,
            }),
        }
    }

    /// The shared state, until the guard goes.
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing panics while it holds the lock; if something did, the state is still consistent enough to report.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start of the last relist whose lists both succeeded.
    pub fn last_list(&self) -> Option<Mono> {
        self.lock().last_list.map(|moment| moment.mono)
    }

    /// Notes that both lists of the relist that began then succeeded.
    pub(super) fn listed(&self, started: Moment) {
        let mut shared = self.lock();
        shared.last_list = Some(started);
        shared.unreachable = None;
    }

    /// Whether the runtime can be reached at all, else why not. One that hangs is reached.
    pub fn reached(&self) -> Result<(), String> {
        let shared = self.lock();
        match (&shared.unreachable, shared.last_list) {
            (Some(why), _) => Err(why.clone()),
            (None, None) => Err("no relist has succeeded yet".to_owned()),
            (None, Some(_)) => Ok(()),
        }
    }

    /// The kubelet's check `PLEG`. Like the kubelet's it moves the last-seen gauge, whatever it finds.
    pub fn check(&self, clock: &dyn Clock, threshold: Duration) -> Result<(), Unhealthy> {
        let mut shared = self.lock();
        let last_list = shared.last_list;
        if let Some(moment) = last_list {
            shared.metrics.seen(moment.wall);
        }
        health::check(last_list.map(|moment| moment.mono), clock.mono(), threshold)
    }
}

impl Shared {
    /// Gives a status without addresses those that the cache has, once every sandbox of the pod is down.
    pub(super) fn preserve_ips(&self, status: &mut PodStatus) {
        if !status.ips.is_empty() {
            return;
        }
        let cached = self.cache.get(&status.pod.uid);
        if cached.error.is_some() {
            return;
        }
        let ready = status.sandboxes.iter().any(|sandbox| sandbox.state == KubeletState::Running);
        if !ready && let Some(known) = cached.status {
            status.ips.clone_from(&known.ips);
        }
    }
}
