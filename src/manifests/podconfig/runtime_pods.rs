//! [`RuntimePod`]: a pod as the runtime lists it, all sandboxes with the same pod UID together.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{NewestContainer, PodInstance, PodSource, instances};
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, Sandbox};
use crate::manifests::PodIdentity;

/// The state of a pod in the runtime, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    containers: BTreeMap<String, ContainerInfo>,
}

#[derive(Clone, Debug)]
struct ContainerInfo {
    id: String,
    created_at: i64,
    state: ContainerState,
}

impl ContainerInfo {
    fn runs(&self) -> bool {
        self.state == ContainerState::Running
    }
}

impl RuntimePod {
    /// Groups the runtime's lists by pod UID.
    pub fn group(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> BTreeMap<String, Self> {
        let mut pods: BTreeMap<String, Self> = BTreeMap::new();
        for instance in instances(sandboxes, containers) {
            let Some(identity) = instance.identity() else { continue };
            let uid = instance.uid().to_owned();
            let pod = pods.entry(uid.clone()).or_insert_with(|| Self {
                identity,
                uid,
                source: None,
                labels: BTreeMap::new(),
                ready: 0,
                newest_created_at: i64::MIN,
                containers: BTreeMap::new(),
            });
            pod.add(instance);
        }
        pods
    }

    /// Adds a sandbox with its containers.
    fn add(&mut self, instance: PodInstance) {
        self.source = self.source.or(instance.source);
        self.ready += usize::from(instance.is_ready());
        if instance.sandbox.created_at >= self.newest_created_at {
            self.newest_created_at = instance.sandbox.created_at;
            let labels = instance.sandbox.labels.iter();
            self.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        for (name, NewestContainer { container, .. }) in instance.containers {
            let Container { id, created_at, state, .. } = container;
            let newest = ContainerInfo { id, created_at, state };
            if self.containers.get(&name).is_none_or(|known| newest.created_at > known.created_at) {
                self.containers.insert(name, newest);
            }
        }
    }

    /// Returns the number of running containers.
    pub fn running(&self) -> usize {
        self.containers.values().filter(|newest| newest.runs()).count()
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
