//! [`RuntimePod`]: a pod as the runtime lists it, all sandboxes with the same pod UID together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{ContainerState, PodIdentity, PodSource, RunningContainer, RunningPod};
use plegctl_base::clock::Wall;

/// The state of a pod in the runtime, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct RuntimeState {
    /// `running`, `starting` or `exited`.
    pub state: &'static str,
    /// The creation time of the pod's newest sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// The UID of the pod in the runtime.
    pub uid: String,
}

/// A pod in the runtime: all sandboxes with the same pod UID, and their containers.
#[derive(Clone, Debug)]
pub struct RuntimePod {
    /// Its name.
    pub identity: PodIdentity,
    /// Its UID.
    pub uid: String,
    /// The kubelet's source of the pod.
    pub source: Option<PodSource>,
    /// Its labels, including the kubelet's own.
    pub labels: BTreeMap<String, String>,
    /// The number of ready sandboxes.
    ready: usize,
    /// The creation time of the newest sandbox, in nanoseconds since the Unix epoch.
    newest_created_at: i64,
    /// The newest container of each name.
    containers: BTreeMap<String, RunningContainer>,
}

impl RuntimePod {
    /// Groups the runtime's sandboxes by pod UID.
    pub fn group(sandboxes: impl IntoIterator<Item = RunningPod>) -> BTreeMap<String, Self> {
        let mut pods: BTreeMap<String, Self> = BTreeMap::new();
        for sandbox in sandboxes {
            let Some(identity) = sandbox.identity.clone() else { continue };
            let pod = pods.entry(sandbox.uid.clone()).or_insert_with(|| Self {
                identity,
                uid: sandbox.uid.clone(),
                source: None,
                labels: BTreeMap::new(),
                ready: 0,
                newest_created_at: i64::MIN,
                containers: BTreeMap::new(),
            });
            pod.add(sandbox);
        }
        pods
    }

    /// Adds a sandbox with its containers.
    fn add(&mut self, sandbox: RunningPod) {
        self.source = self.source.or(sandbox.source);
        self.ready += usize::from(sandbox.is_ready);
        if sandbox.created_at >= self.newest_created_at {
            self.newest_created_at = sandbox.created_at;
            self.labels = sandbox.labels;
        }
        for (name, newest) in sandbox.containers {
            if self.containers.get(&name).is_none_or(|known| newest.created_at > known.created_at) {
                self.containers.insert(name, newest);
            }
        }
    }

    /// Returns the number of running containers.
    pub fn running(&self) -> usize {
        self.containers.values().filter(|newest| newest.state == ContainerState::Running).count()
    }

    /// Returns the number of container names.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// Whether one of the pod's newest containers has this id.
    pub fn has(&self, id: &str) -> bool {
        self.containers.values().any(|newest| newest.id == id)
    }

    /// Returns the id and the state of the newest container of this name.
    pub fn container(&self, name: &str) -> Option<(&str, ContainerState)> {
        self.containers.get(name).map(|newest| (newest.id.as_str(), newest.state))
    }

    /// Returns the creation time of the newest sandbox or container.
    pub fn newest(&self) -> Option<Wall> {
        let containers = self.containers.values().map(|newest| newest.created_at);
        containers.chain([self.newest_created_at]).max().and_then(Wall::known)
    }

    /// Returns the number of ready sandboxes.
    pub const fn ready(&self) -> usize {
        self.ready
    }

    /// Whether a sandbox is ready or a container runs.
    pub fn is_alive(&self) -> bool {
        self.ready > 0 || self.running() > 0
    }

    /// Whether a container runs in a ready sandbox.
    pub fn runs(&self) -> bool {
        self.ready > 0 && self.running() > 0
    }

    /// Returns the creation time of the newest sandbox.
    pub fn since(&self) -> Option<Wall> {
        (self.newest_created_at > 0).then(|| Wall::from_nanos(self.newest_created_at))
    }

    /// Returns the state for a report.
    pub fn state(&self) -> RuntimeState {
        let state = if self.runs() {
            "running"
        } else if self.is_alive() {
            "starting"
        } else {
            "exited"
        };
        RuntimeState { state, since: self.since(), uid: self.uid.clone() }
    }
}
