//! A scripted node and a generic PLEG that relists it, with short methods for the tests.

use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::{ManualClock, Wall};
use plegctl_engine::cri::{Container, ContainerState, Sandbox, SandboxState};
use plegctl_engine::pleg::cache::CachedStatus;
use plegctl_engine::pleg::stream::{Event, Relist};
use plegctl_engine::pleg::{Era, GenericPleg, PlegSettings, SharedState};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox};

pub const LISTS: [&str; 2] = ["ListPodSandbox", "ListContainers"];

/// A node, and a PLEG that watches it.
pub struct WatchedNode {
    pub runtime: Scripted,
    pub clock: ManualClock,
    pub shared_state: Arc<SharedState>,
    pub generic: GenericPleg,
}

impl WatchedNode {
    pub fn new() -> Self {
        Self::with(SharedState::new(false), PlegSettings::default())
    }

    /// Creates a node that is watched as kubelets of this era do.
    pub fn of_era(era: Era) -> Self {
        let settings = PlegSettings { era, ..PlegSettings::default() };
        Self::with(SharedState::new(false), settings)
    }

    pub fn with(shared_state: SharedState, settings: PlegSettings) -> Self {
        let shared_state = Arc::new(shared_state);
        Self {
            runtime: Scripted::default(),
            clock: ManualClock::at(Wall::from_nanos(1_800_000_000_000_000_000)),
            shared_state: Arc::clone(&shared_state),
            generic: GenericPleg::new(shared_state, settings),
        }
    }

    /// Sets the containers, each as pod, id, state.
    pub fn containers(&self, containers: &[(&str, &str, ContainerState)]) {
        let containers: Vec<Container> =
            containers.iter().map(|(pod, id, state)| container(id, pod, *state)).collect();
        self.runtime.set(|state| state.containers = containers);
    }

    /// Sets the sandboxes, each as pod, id, attempt, state.
    pub fn sandboxes(&self, sandboxes: &[(&str, &str, u32, SandboxState)]) {
        let sandboxes: Vec<Sandbox> =
            sandboxes.iter().map(|(pod, id, attempt, state)| sandbox(id, pod, *attempt, *state)).collect();
        self.runtime.set(|state| state.sandboxes = sandboxes);
    }

    /// Sets a fault of the calls with this key.
    pub fn fault(&self, key: &str, fault: Fault) {
        self.runtime.set(|state| drop(state.faults.insert(key.to_owned(), fault)));
    }

    pub fn remove_faults(&self) {
        self.runtime.set(|state| state.faults.clear());
    }

    /// Relists once, then advances the clock by a second. Returns the relist and all its events.
    pub async fn relist_raw(&mut self) -> (Relist, Vec<Event>) {
        let mut events = Vec::new();
        let report = self.generic.relist(&self.runtime, &self.clock, &mut events).await;
        self.clock.advance(Duration::from_secs(1));
        (report, events)
    }

    /// Relists once. Returns the delivered events as `pod type id`.
    pub async fn relist(&mut self) -> Vec<String> {
        let (_, events) = self.relist_raw().await;
        delivered(&events)
    }

    /// Returns the calls since the last time as name and id.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.runtime.calls().into_iter();
        calls.map(|(rpc, id)| if id.is_empty() { rpc } else { format!("{rpc} {id}") }).collect()
    }

    /// Returns the cached status of a pod.
    pub fn cached(&self, uid: &str) -> CachedStatus {
        self.shared_state.lock().cache.get(uid)
    }

    pub fn ips(&self, uid: &str) -> Vec<String> {
        self.cached(uid).status.map(|status| status.ips.clone()).unwrap_or_default()
    }
}

/// Returns the delivered events as `pod type id`.
pub fn delivered(events: &[Event]) -> Vec<String> {
    let delivered = events.iter().filter(|event| event.delivered);
    delivered
        .map(|event| {
            let id = event.id.as_deref().unwrap_or("-");
            format!("{} {} {id}", event.pod.uid, event.event_type.as_str())
        })
        .collect()
}
