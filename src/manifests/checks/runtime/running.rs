//! The static pods that the runtime knows.

use std::collections::{BTreeMap, HashMap};

use crate::cri::{
    self, Container, ContainerState, ContainerStatus, Filter, Runtime, Sandbox, SandboxState, label,
};
use crate::manifests::PodIdentity;

const SOURCE: &str = "kubernetes.io/config.source";
const RESTARTS: &str = "io.kubernetes.container.restartCount";

/// From so many restarts on a container's end is worth a question.
pub const MANY_RESTARTS: u32 = 3;

/// Where the kubelet got a static pod from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A manifest file.
    File,
    /// A URL.
    Http,
}

/// The static pods of a node, by name.
#[derive(Clone, Debug, Default)]
pub struct Running {
    pods: BTreeMap<PodIdentity, Vec<Instance>>,
}

/// One sandbox of a static pod and what is in it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Where the kubelet got it from.
    pub source: Source,
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
}

impl Running {
    /// The static pods among what the runtime listed.
    pub fn new(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> Self {
        let mut by_sandbox: HashMap<String, Vec<Container>> = HashMap::new();
        for container in containers {
            by_sandbox.entry(container.sandbox_id.clone()).or_default().push(container);
        }
        let mut pods: BTreeMap<PodIdentity, Vec<Instance>> = BTreeMap::new();
        for sandbox in sandboxes {
            let Some(source) = source(&sandbox) else { continue };
            let Some(identity) = identity(&sandbox) else { continue };
            let containers = latest(by_sandbox.remove(&sandbox.id).unwrap_or_default());
            pods.entry(identity).or_default().push(Instance { sandbox, source, containers });
        }
        // Newest first.
        for instances in pods.values_mut() {
            instances.sort_by_key(|instance| std::cmp::Reverse(instance.sandbox.created_at));
        }
        Self { pods }
    }

    /// The sandboxes of a pod, newest first.
    pub fn of(&self, pod: &PodIdentity) -> &[Instance] {
        self.pods.get(pod).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every pod.
    pub fn pods(&self) -> impl Iterator<Item = (&PodIdentity, &[Instance])> {
        self.pods.iter().map(|(identity, instances)| (identity, instances.as_slice()))
    }

    fn restarting(&mut self) -> impl Iterator<Item = &mut Latest> {
        let ready = self.pods.values_mut().flatten().filter(|instance| instance.is_ready());
        ready
            .flat_map(|instance| instance.containers.values_mut())
            .filter(|latest| latest.restarts >= MANY_RESTARTS)
    }
}

/// Asks for the two lists, and how containers ended that were restarted often.
pub async fn look(runtime: &impl Runtime) -> Result<Running, cri::Error> {
    let sandboxes = runtime.list_sandboxes(&Filter::default()).await.result?;
    let containers = runtime.list_containers(&Filter::default()).await.result?;
    let exited: HashMap<(String, String), String> = newest_exited(&containers);
    let mut running = Running::new(sandboxes, containers);
    for latest in running.restarting() {
        let Some(metadata) = &latest.container.metadata else { continue };
        let Some(id) = exited.get(&(latest.container.sandbox_id.clone(), metadata.name.clone())) else {
            continue;
        };
        // A container that goes while we look has nothing to tell.
        latest.ended = runtime.container_status(id).await.result.ok().flatten();
    }
    Ok(running)
}

/// The id of the last container of each sandbox and name that has ended.
fn newest_exited(containers: &[Container]) -> HashMap<(String, String), String> {
    let mut exited: Vec<&Container> =
        containers.iter().filter(|container| container.state == ContainerState::Exited).collect();
    exited.sort_by_key(|container| container.created_at);
    exited
        .into_iter()
        .filter_map(|container| {
            let name = container.metadata.as_ref()?.name.clone();
            Some(((container.sandbox_id.clone(), name), container.id.clone()))
        })
        .collect()
}

fn source(sandbox: &Sandbox) -> Option<Source> {
    match sandbox.annotations.get(SOURCE)? {
        "file" => Some(Source::File),
        "http" => Some(Source::Http),
        _ => None,
    }
}

fn identity(sandbox: &Sandbox) -> Option<PodIdentity> {
    let metadata = sandbox.metadata.as_ref();
    let namespace =
        sandbox.labels.get(label::POD_NAMESPACE).or(metadata.map(|metadata| metadata.namespace.as_str()))?;
    let name = sandbox.labels.get(label::POD_NAME).or(metadata.map(|metadata| metadata.name.as_str()))?;
    Some(PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() })
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
