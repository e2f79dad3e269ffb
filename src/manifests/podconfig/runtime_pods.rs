//! The runtime's two lists as pods: which sandboxes a pod has, where the kubelet got it from, what is in them.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::Source;
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, ContainerStatus, Sandbox, SandboxState, label};
use crate::manifests::PodIdentity;

const SOURCE: &str = "kubernetes.io/config.source";
const RESTARTS: &str = "io.kubernetes.container.restartCount";

/// One sandbox of a pod and what is in it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Where the kubelet got the pod from, as its annotation says.
    pub source: Option<Source>,
    /// The newest container of each name.
    pub containers: BTreeMap<String, Latest>,
}

/// The newest container of a name, and how it or the one before it ended.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The container.
    pub container: Container,
    /// How often it was restarted.
    pub restarts: u32,
    /// The last one that has ended, if the runtime was asked and knew.
    pub ended: Option<ContainerStatus>,
}

impl Instance {
    /// The pod's UID.
    pub fn uid(&self) -> &str {
        self.sandbox.metadata.as_ref().map_or("", |metadata| metadata.uid.as_str())
    }

    /// Whether the sandbox is ready.
    pub fn is_ready(&self) -> bool {
        self.sandbox.state == SandboxState::Ready
    }

    /// The pod's name, by its labels, else by the sandbox's own.
    pub fn identity(&self) -> Option<PodIdentity> {
        let (labels, metadata) = (&self.sandbox.labels, self.sandbox.metadata.as_ref());
        let namespace =
            labels.get(label::POD_NAMESPACE).or(metadata.map(|metadata| metadata.namespace.as_str()))?;
        let name = labels.get(label::POD_NAME).or(metadata.map(|metadata| metadata.name.as_str()))?;
        Some(PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// The sandboxes with what is in them. A container whose sandbox is not listed is left out.
pub fn instances(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> impl Iterator<Item = Instance> {
    let mut by_sandbox: HashMap<String, Vec<Container>> = HashMap::new();
    for container in containers {
        by_sandbox.entry(container.sandbox_id.clone()).or_default().push(container);
    }
    sandboxes.into_iter().map(move |sandbox| {
        let containers = latest(by_sandbox.remove(&sandbox.id).unwrap_or_default());
        Instance { source: source(&sandbox), sandbox, containers }
    })
}

fn source(sandbox: &Sandbox) -> Option<Source> {
    let told = sandbox.annotations.get(SOURCE)?;
    [Source::File, Source::Http, Source::Api].into_iter().find(|source| source.as_str() == told)
}

fn latest(mut containers: Vec<Container>) -> BTreeMap<String, Latest> {
    containers.sort_by_key(|container| container.created_at);
    containers
        .into_iter()
        .filter_map(|container| {
            let metadata = container.metadata.as_ref()?;
            let counted = container.annotations.get(RESTARTS).and_then(|count| count.parse().ok());
            let restarts = counted.unwrap_or(metadata.attempt).max(metadata.attempt);
            Some((metadata.name.clone(), Latest { container, restarts, ended: None }))
        })
        .collect()
}

/// What the runtime has of a pod, in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InRuntime {
    /// `running`, `starting` or `exited`.
    pub state: &'static str,
    /// When its newest sandbox was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// The UID that it runs under.
    pub uid: String,
}

/// A pod of the runtime, whatever its sandboxes: one UID.
#[derive(Clone, Debug)]
pub struct RuntimePod {
    /// Its name.
    pub identity: PodIdentity,
    /// Its UID.
    pub uid: String,
    /// Where the kubelet got it from.
    pub source: Option<Source>,
    /// Its labels, the kubelet's own included.
    pub labels: BTreeMap<String, String>,
    ready: usize,
    newest: i64,
    /// The newest container of each name: its id, and whether it runs.
    containers: BTreeMap<String, Newest>,
}

#[derive(Clone, Debug)]
struct Newest {
    id: String,
    created_at: i64,
    runs: bool,
}

impl RuntimePod {
    /// The runtime's lists, by pod UID.
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
            pod.take(instance);
        }
        pods
    }

    fn take(&mut self, instance: Instance) {
        self.source = self.source.or(instance.source);
        self.ready += usize::from(instance.is_ready());
        if instance.sandbox.created_at >= self.newest {
            self.newest = instance.sandbox.created_at;
            let labels = instance.sandbox.labels.iter();
            self.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        for (name, Latest { container, .. }) in instance.containers {
            let runs = container.state == ContainerState::Running;
            let newest = Newest { id: container.id, created_at: container.created_at, runs };
            if self.containers.get(&name).is_none_or(|known| newest.created_at > known.created_at) {
                self.containers.insert(name, newest);
            }
        }
    }

    /// How many of its containers run.
    pub fn running(&self) -> usize {
        self.containers.values().filter(|newest| newest.runs).count()
    }

    /// How many containers it has, counting the newest of each name.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// Whether one of its newest containers has this id.
    pub fn has(&self, id: &str) -> bool {
        self.containers.values().any(|newest| newest.id == id)
    }

    /// How many of its sandboxes are ready.
    pub const fn ready(&self) -> usize {
        self.ready
    }

    /// Whether anything of it is alive.
    pub fn lives(&self) -> bool {
        self.ready > 0 || self.running() > 0
    }

    /// Whether a container of it runs in a ready sandbox.
    pub fn runs(&self) -> bool {
        self.ready > 0 && self.running() > 0
    }

    /// When its newest sandbox was made.
    pub fn since(&self) -> Option<Wall> {
        (self.newest > 0).then(|| Wall::from_nanos(self.newest))
    }

    /// For a report.
    pub fn shown(&self) -> InRuntime {
        let state = if self.runs() {
            "running"
        } else if self.lives() {
            "starting"
        } else {
            "exited"
        };
        InRuntime { state, since: self.since(), uid: self.uid.clone() }
    }
}
