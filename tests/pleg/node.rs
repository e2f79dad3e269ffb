//! A scripted node under a relisting PLEG, with the words the tests speak.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{ManualClock, Wall};
use plegctl::cri::{Container, ContainerState, Sandbox, SandboxState};
use plegctl::pleg::cache::Cached;
use plegctl::pleg::stream::{Event, Relist};
use plegctl::pleg::{Era, Generic, Hub, Settings};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox};

pub const LISTS: [&str; 2] = ["ListPodSandbox", "ListContainers"];

/// A node, and a PLEG that watches it.
pub struct Node {
    pub runtime: Scripted,
    pub clock: ManualClock,
    pub hub: Arc<Hub>,
    pub generic: Generic,
}

impl Node {
    pub fn new() -> Self {
        Self::with(Hub::new(false), Settings::default())
    }

    pub fn of_era(era: Era) -> Self {
        let settings = Settings { era, ..Settings::default() };
        Self::with(Hub::new(false), settings)
    }

    pub fn with(hub: Hub, settings: Settings) -> Self {
        let hub = Arc::new(hub);
        Self {
            runtime: Scripted::default(),
            clock: ManualClock::at(Wall::from_nanos(1_800_000_000_000_000_000)),
            hub: Arc::clone(&hub),
            generic: Generic::new(hub, settings),
        }
    }

    /// Containers as pod, id, state.
    pub fn containers(&self, containers: &[(&str, &str, ContainerState)]) {
        let containers: Vec<Container> =
            containers.iter().map(|(pod, id, state)| container(id, pod, *state)).collect();
        self.runtime.set(|state| state.containers = containers);
    }

    /// Sandboxes as pod, id, attempt, state.
    pub fn sandboxes(&self, sandboxes: &[(&str, &str, u32, SandboxState)]) {
        let sandboxes: Vec<Sandbox> =
            sandboxes.iter().map(|(pod, id, attempt, state)| sandbox(id, pod, *attempt, *state)).collect();
        self.runtime.set(|state| state.sandboxes = sandboxes);
    }

    pub fn fault(&self, key: &str, fault: Fault) {
        self.runtime.set(|state| drop(state.faults.insert(key.to_owned(), fault)));
    }

    pub fn heal(&self) {
        self.runtime.set(|state| state.faults.clear());
    }

    pub async fn relist_raw(&mut self) -> (Relist, Vec<Event>) {
        let mut events = Vec::new();
        let report = self.generic.relist(&self.runtime, &self.clock, &mut events).await;
        self.clock.advance(Duration::from_secs(1));
        (report, events)
    }

    /// One relist: what was delivered, as `pod type id`.
    pub async fn relist(&mut self) -> Vec<String> {
        let (_, events) = self.relist_raw().await;
        delivered(&events)
    }

    /// The calls since the last time, by name and id.
    pub fn calls(&self) -> Vec<String> {
        let asked = self.runtime.asked().into_iter();
        asked.map(|(rpc, id)| if id.is_empty() { rpc } else { format!("{rpc} {id}") }).collect()
    }

    pub fn cached(&self, uid: &str) -> Cached {
        self.hub.lock().cache.get(uid)
    }

    pub fn ips(&self, uid: &str) -> Vec<String> {
        self.cached(uid).status.map(|status| status.ips.clone()).unwrap_or_default()
    }
}

pub fn delivered(events: &[Event]) -> Vec<String> {
    let delivered = events.iter().filter(|event| event.delivered);
    delivered
        .map(|event| {
            let id = event.id.as_deref().unwrap_or("-");
            format!("{} {} {id}", event.pod.uid, event.event_type.as_str())
        })
        .collect()
}
