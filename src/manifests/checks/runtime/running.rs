//! Lists the static pods that the runtime has, each with its sandboxes and their newest containers.

use std::collections::{BTreeMap, HashMap};

use crate::cri::{self, Container, ContainerState, Filter, Runtime, Sandbox};
use crate::manifests::PodIdentity;
use crate::manifests::pod_instances::{PodSource, instances};

pub use crate::manifests::pod_instances::{NewestContainer, PodInstance};

/// If a container was restarted at least this many times, plegctl also fetches the status of the newest exited
/// container with the same name in the same sandbox.
pub const MANY_RESTARTS: u32 = 3;

/// The static pods of a node, by name. Each `PodInstance` is one sandbox of its pod, with the containers.
#[derive(Clone, Debug, Default)]
pub struct RunningStaticPods {
    pods: BTreeMap<PodIdentity, Vec<PodInstance>>,
}

impl RunningStaticPods {
    /// Selects the static pods from the runtime's lists.
    pub fn new(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> Self {
        let mut pods: BTreeMap<PodIdentity, Vec<PodInstance>> = BTreeMap::new();
        let is_static =
            |instance: &PodInstance| matches!(instance.source, Some(PodSource::File | PodSource::Http));
        for instance in instances(sandboxes, containers).filter(is_static) {
            if let Some(identity) = instance.identity() {
                pods.entry(identity).or_default().push(instance);
            }
        }
        for instances in pods.values_mut() {
            instances.sort_by_key(|instance| std::cmp::Reverse(instance.sandbox.created_at));
        }
        Self { pods }
    }

    /// Returns the instances of a pod, newest first. Each instance has one sandbox.
    pub fn instances_of(&self, pod: &PodIdentity) -> &[PodInstance] {
        self.pods.get(pod).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all pods, each with its instances, newest first.
    pub fn pods(&self) -> impl Iterator<Item = (&PodIdentity, &[PodInstance])> {
        self.pods.iter().map(|(identity, instances)| (identity, instances.as_slice()))
    }

    /// Returns the containers in ready sandboxes that were restarted at least [`MANY_RESTARTS`] times.
    fn restarting(&mut self) -> impl Iterator<Item = &mut NewestContainer> {
        let ready = self.pods.values_mut().flatten().filter(|instance| instance.is_ready());
        ready
            .flat_map(|instance| instance.containers.values_mut())
            .filter(|latest| latest.restarts >= MANY_RESTARTS)
    }
}

/// Lists the sandboxes and containers of the static pods. For a container with many restarts (see `MANY_RESTARTS`),
/// also fetches the status of the newest exited container with the same name in the same sandbox.
pub async fn list_static_pods(runtime: &impl Runtime) -> Result<RunningStaticPods, cri::Error> {
    let sandboxes = runtime.list_sandboxes(&Filter::default()).await.result?;
    let containers = runtime.list_containers(&Filter::default()).await.result?;
    let exited: HashMap<(String, String), String> = newest_exited(&containers);
    let mut running = RunningStaticPods::new(sandboxes, containers);
    for latest in running.restarting() {
        let Some(metadata) = &latest.container.metadata else { continue };
        let Some(id) = exited.get(&(latest.container.sandbox_id.clone(), metadata.name.clone())) else {
            continue;
        };
        // The runtime may remove the container between the two calls; then it has no status.
        latest.ended = runtime.container_status(id).await.result.ok().flatten();
    }
    Ok(running)
}

/// Returns the id of the newest exited container for each sandbox id and container name.
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

/// Selects the instances with a ready sandbox.
pub fn ready(instances: &[PodInstance]) -> impl Iterator<Item = &PodInstance> {
    instances.iter().filter(|instance| instance.is_ready())
}

/// Returns the ids of the ready sandboxes.
pub fn ready_sandbox_ids(instances: &[PodInstance]) -> Vec<String> {
    ready(instances).map(|instance| instance.sandbox.id.clone()).collect()
}
