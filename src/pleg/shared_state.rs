//! The state that the generic PLEG, the evented PLEG, the health check and the metrics endpoint share.
//!
//! No caller holds the lock during a call to the runtime, so health can be checked while a relist hangs.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::StatusCache;
use super::health::{self, Unhealthy};
use super::metrics::PlegMetrics;
use super::pods::KubeletState;
use super::status::PodStatus;
use crate::clock::{Clock, Mono, Wall};
use crate::cri;

/// One moment on the monotonic and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub mono: Mono,
    pub wall: Wall,
}

impl ClockReading {
    pub fn now(clock: &dyn Clock) -> Self {
        Self { mono: clock.mono(), wall: clock.wall() }
    }
}

/// The data behind the lock of [`SharedState`].
#[derive(Debug, Default)]
pub struct PlegData {
    /// The pod statuses.
    pub cache: StatusCache,
    /// The metrics that the kubelet would report.
    pub metrics: PlegMetrics,
    /// The UIDs of the pods that the next relist inspects again.
    pub(super) reinspect: HashSet<String>,
    /// The start of the last relist whose two list calls succeeded.
    pub(super) last_list: Option<ClockReading>,
    /// The error of the list call of the last finished relist.
    pub list_error: Option<cri::Error>,
    /// Whether the event stream is used and has not been given up.
    pub(super) evented_in_use: bool,
}

/// Owns the shared data. Each user locks it only for a moment.
#[derive(Debug)]
pub struct SharedState {
    shared: Mutex<PlegData>,
}

impl SharedState {
    /// Creates the state of a kubelet that has just started. The simulated sync loop is always fast enough, so no event is
    /// lost to a full channel.
    pub fn new(evented_gate: bool) -> Self {
        let data = PlegData { cache: StatusCache::new(evented_gate), ..PlegData::default() };
        Self { shared: Mutex::new(data) }
    }

    /// Locks the data until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, PlegData> {
        // No code panics while it holds the lock. If some code did, the data would still be consistent enough for a report.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the start of the last relist whose two list calls succeeded.
    pub fn last_list(&self) -> Option<Mono> {
        self.lock().last_list.map(|moment| moment.mono)
    }

    /// Notes that both list calls of a relist succeeded; `started` is the start of the relist.
    pub(super) fn listed(&self, started: ClockReading) {
        let mut shared = self.lock();
        shared.last_list = Some(started);
        shared.list_error = None;
    }

    /// Returns an error with the reason if the runtime cannot be reached. A runtime that hangs counts as reachable.
    pub fn reachable(&self) -> Result<(), String> {
        let shared = self.lock();
        match (shared.list_error.as_ref().filter(|why| why.is_unreachable()), shared.last_list) {
            (Some(why), _) => Err(why.to_string()),
            (None, None) => Err("no relist has succeeded yet".to_owned()),
            (None, Some(_)) => Ok(()),
        }
    }

    /// Runs the kubelet's health check of PLEG. Like the kubelet, this sets the last-seen metric even if PLEG is unhealthy.
    pub fn check(&self, clock: &dyn Clock, threshold: Duration) -> Result<(), Unhealthy> {
        let mut shared = self.lock();
        let last_list = shared.last_list;
        if let Some(moment) = last_list {
            shared.metrics.set_last_seen(moment.wall);
        }
        health::check(last_list.map(|moment| moment.mono), clock.mono(), threshold)
    }
}

impl PlegData {
    /// Copies the cached IP addresses into a status without addresses, if no sandbox of the pod is ready any more.
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
