//! [`PodInstance`]: one sandbox of a pod with its newest containers, as the runtime lists them.

use std::collections::{BTreeMap, HashMap};

use super::PodIdentity;
use crate::cri::{Container, ContainerStatus, Sandbox, SandboxState, label};
use crate::report::word_enum;

word_enum! {
    /// A source of the pods that the kubelet runs, with the value of the annotation `kubernetes.io/config.source`.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum PodSource: as_str {
        /// A directory or a file on the node.
        File = "file",
        /// A URL that serves a manifest.
        Http = "http",
        /// The API server.
        Api = "api",
    } ALL
}

/// The annotation of a sandbox with the kubelet's source of the pod.
const SOURCE: &str = "kubernetes.io/config.source";
/// The annotation of a container with its restart count.
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

/// The newest of the containers with the same name, and how the last of them ended.
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
    /// Returns the pod's UID; empty if the sandbox has no metadata.
    pub fn uid(&self) -> &str {
        self.sandbox.metadata.as_ref().map_or("", |metadata| metadata.uid.as_str())
    }

    /// Whether the sandbox is ready.
    pub fn is_ready(&self) -> bool {
        self.sandbox.state == SandboxState::Ready
    }

    /// Returns the pod's namespace and name, from its labels or else from the sandbox's metadata.
    pub fn identity(&self) -> Option<PodIdentity> {
        let (labels, metadata) = (&self.sandbox.labels, self.sandbox.metadata.as_ref());
        let namespace =
            labels.get(label::POD_NAMESPACE).or(metadata.map(|metadata| metadata.namespace.as_str()))?;
        let name = labels.get(label::POD_NAME).or(metadata.map(|metadata| metadata.name.as_str()))?;
        Some(PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Groups the containers by sandbox. Leaves out a container whose sandbox is not listed.
pub fn instances(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> impl Iterator<Item = PodInstance> {
    let mut by_sandbox: HashMap<String, Vec<Container>> = HashMap::new();
    for container in containers {
        by_sandbox.entry(container.sandbox_id.clone()).or_default().push(container);
    }
    sandboxes.into_iter().map(move |sandbox| {
        let containers = newest_by_name(by_sandbox.remove(&sandbox.id).unwrap_or_default());
        PodInstance { source: source(&sandbox), sandbox, containers }
    })
}

fn source(sandbox: &Sandbox) -> Option<PodSource> {
    let annotation = sandbox.annotations.get(SOURCE)?;
    PodSource::ALL.into_iter().find(|source| source.as_str() == annotation)
}

impl PodSource {
    /// Returns the kubelet's source of the pod, from the sandbox's annotation.
    #[cfg(feature = "cli")]
    pub fn of_sandbox(sandbox: &Sandbox) -> Option<Self> {
        source(sandbox)
    }
}

/// Returns the newest container of each name.
fn newest_by_name(mut containers: Vec<Container>) -> BTreeMap<String, NewestContainer> {
    containers.sort_by_key(|container| container.created_at);
    containers
        .into_iter()
        .filter_map(|container| {
            let metadata = container.metadata.as_ref()?;
            let annotated = container.annotations.get(RESTARTS).and_then(|count| count.parse().ok());
            let restarts = annotated.unwrap_or(metadata.attempt).max(metadata.attempt);
            Some((metadata.name.clone(), NewestContainer { container, restarts, ended: None }))
        })
        .collect()
}
