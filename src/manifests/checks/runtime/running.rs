//! Lists the static pods in the runtime.

use std::collections::{BTreeMap, HashMap};

use crate::cri::{self, Container, ContainerState, Filter, Runtime, Sandbox};
use crate::manifests::PodIdentity;
use crate::manifests::podconfig::{PodSource, instances};

pub use crate::manifests::podconfig::{NewestContainer, PodInstance};

/// From this number of restarts on, the status of the last ended container is fetched.
pub const MANY_RESTARTS: u32 = 3;

/// The static pods of a node, by name.
#[derive(Clone, Debug, Default)]
pub struct RunningStaticPods {
    pods: BTreeMap<PodIdentity, Vec<PodInstance>>,
}

impl RunningStaticPods {
    /// Selects the static pods from the runtime's lists.
    pub fn new(sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> Self {
        let mut pods: BTreeMap<PodIdentity, Vec<PodInstance>> = BTreeMap::new();
        let of_files_or_url =
            |found: &PodInstance| matches!(found.source, Some(PodSource::File | PodSource::Http));
        for instance in instances(sandboxes, containers).filter(of_files_or_url) {
            if let Some(identity) = instance.identity() {
                pods.entry(identity).or_default().push(instance);
            }
        }
        // Newest first.
        for instances in pods.values_mut() {
            instances.sort_by_key(|instance| std::cmp::Reverse(instance.sandbox.created_at));
        }
        Self { pods }
    }

    /// The sandboxes of a pod, newest first.
    pub fn of(&self, pod: &PodIdentity) -> &[PodInstance] {
        self.pods.get(pod).map(Vec::as_slice).unwrap_or_default()
    }

    /// All pods with their sandboxes.
    pub fn pods(&self) -> impl Iterator<Item = (&PodIdentity, &[PodInstance])> {
        self.pods.iter().map(|(identity, instances)| (identity, instances.as_slice()))
    }

    fn restarting(&mut self) -> impl Iterator<Item = &mut NewestContainer> {
        let ready = self.pods.values_mut().flatten().filter(|instance| instance.is_ready());
        ready
            .flat_map(|instance| instance.containers.values_mut())
            .filter(|latest| latest.restarts >= MANY_RESTARTS)
    }
}

/// Makes the two list calls, and fetches how containers with many restarts have ended.
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
        // A container that is removed in the meantime has no status.
        latest.ended = runtime.container_status(id).await.result.ok().flatten();
    }
    Ok(running)
}

/// Returns the id of the last ended container of each sandbox and name.
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
