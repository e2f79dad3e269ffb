//! Groups the runtime's two lists into pods, with their sandboxes, sources and containers.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::PodSource;
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, ContainerStatus, Sandbox, SandboxState, label};
use crate::manifests::PodIdentity;

const SOURCE: &str = "kubernetes.io/config.source";
const RESTARTS: &str = "io.kubernetes.container.restartCount";

/// One sandbox of a pod with its containers.
#[derive(Clone, Debug)]
pub struct PodInstance {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// The kubelet's source of the pod, from its annotation.
    pub source: Option<PodSource>,
    /// The newest container of each name.
    pub containers: BTreeMap<String, NewestContainer>,
}

/// The newest container with a name, and how it or its predecessor ended.
#[derive(Clone, Debug)]
pub struct NewestContainer {
    /// The container.
    pub container: Container,
    /// The restart count.
    pub restarts: u32,
    /// The status of the last container that has ended, if it was fetched.
    pub ended: Option<ContainerStatus>,
}

impl PodInstance {
    /// The pod's UID.
    pub fn uid(&self) -> &str {
        self.sandbox.metadata.as_ref().map_or("", |metadata| metadata.uid.as_str())
    }

    /// Whether the sandbox is ready.
    pub fn is_ready(&self) -> bool {
        self.sandbox.state == SandboxState::Ready
    }

    /// The pod's namespace and name, from its labels or else from the sandbox's metadata.
    pub fn identity(&self) -> Option<PodIdentity> {
        let (labels, metadata) = (&self.sandbox.labels, self.sandbox.metadata.as_ref());
        let namespace =
            labels.get(label::POD_NAMESPACE).or(metadata.map(|metadata| metadata.namespace.as_str()))?;
        let name = labels.get(label::POD_NAME).or(metadata.map(|metadata| metadata.name.as_str()))?;
        Some(PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Groups the containers by sandbox. A container whose sandbox is not listed is left out.
pub fn instances(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> impl Iterator<Item = PodInstance> {
    let mut by_sandbox: HashMap<String, Vec<Container>> = HashMap::new();
    for container in containers {
        by_sandbox.entry(container.sandbox_id.clone()).or_default().push(container);
    }
    sandboxes.into_iter().map(move |sandbox| {
        let containers = latest(by_sandbox.remove(&sandbox.id).unwrap_or_default());
        PodInstance { source: source(&sandbox), sandbox, containers }
    })
}

fn source(sandbox: &Sandbox) -> Option<PodSource> {
    let annotation = sandbox.annotations.get(SOURCE)?;
    [PodSource::File, PodSource::Http, PodSource::Api]
        .into_iter()
        .find(|source| source.as_str() == annotation)
}

fn latest(mut containers: Vec<Container>) -> BTreeMap<String, NewestContainer> {
    containers.sort_by_key(|container| container.created_at);
    containers
        .into_iter()
        .filter_map(|container| {
            let metadata = container.metadata.as_ref()?;
            let counted = container.annotations.get(RESTARTS).and_then(|count| count.parse().ok());
            let restarts = counted.unwrap_or(metadata.attempt).max(metadata.attempt);
            Some((metadata.name.clone(), NewestContainer { container, restarts, ended: None }))
        })
        .collect()
}

/// The state of a pod in the runtime, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimeState {
    /// `running`, `starting` or `exited`.
    pub state: &'static str,
    /// When its newest sandbox was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// The UID under which it runs.
    pub uid: String,
}

/// A pod in the runtime with all its sandboxes: one UID.
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
    ready: usize,
    newest: i64,
    /// The newest container of each name.
    containers: BTreeMap<String, ContainerInfo>,
}

#[derive(Clone, Debug)]
struct ContainerInfo {
    id: String,
    created_at: i64,
    runs: bool,
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
                newest: i64::MIN,
                containers: BTreeMap::new(),
            });
            pod.add(instance);
        }
        pods
    }

    fn add(&mut self, instance: PodInstance) {
        self.source = self.source.or(instance.source);
        self.ready += usize::from(instance.is_ready());
        if instance.sandbox.created_at >= self.newest {
            self.newest = instance.sandbox.created_at;
            let labels = instance.sandbox.labels.iter();
            self.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        for (name, NewestContainer { container, .. }) in instance.containers {
            let runs = container.state == ContainerState::Running;
            let newest = ContainerInfo { id: container.id, created_at: container.created_at, runs };
            if self.containers.get(&name).is_none_or(|known| newest.created_at > known.created_at) {
                self.containers.insert(name, newest);
            }
        }
    }

    /// The number of running containers.
    pub fn running(&self) -> usize {
        self.containers.values().filter(|newest| newest.runs).count()
    }

    /// The number of containers, counting only the newest of each name.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// Whether one of the newest containers has this id.
    pub fn has(&self, id: &str) -> bool {
        self.containers.values().any(|newest| newest.id == id)
    }

    /// The number of ready sandboxes.
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

    /// When the newest sandbox was created.
    pub fn since(&self) -> Option<Wall> {
        (self.newest > 0).then(|| Wall::from_nanos(self.newest))
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
