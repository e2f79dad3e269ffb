//! Gives the static-pods crate what the runtime lists: each sandbox as a [`RunningPod`] with its newest containers.

use std::collections::{BTreeMap, HashMap};

use crate::cri::{Container, Labels, Sandbox, SandboxState, label};
use crate::manifests::{PodIdentity, PodSource, RunningContainer, RunningPod};

/// Groups the containers by sandbox. Leaves out a container whose sandbox is not listed.
pub fn running_pods<'a>(
    sandboxes: impl IntoIterator<Item = &'a Sandbox>,
    containers: impl IntoIterator<Item = &'a Container>,
) -> impl Iterator<Item = RunningPod> {
    let mut by_sandbox: HashMap<&str, Vec<&Container>> = HashMap::new();
    for container in containers {
        by_sandbox.entry(&container.sandbox_id).or_default().push(container);
    }
    sandboxes.into_iter().map(move |sandbox| RunningPod {
        sandbox_id: sandbox.id.clone(),
        uid: sandbox.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default(),
        identity: identity(sandbox),
        source: source(sandbox),
        is_ready: sandbox.state == SandboxState::Ready,
        created_at: sandbox.created_at,
        labels: map(&sandbox.labels),
        annotations: map(&sandbox.annotations),
        containers: newest_by_name(by_sandbox.remove(sandbox.id.as_str()).unwrap_or_default()),
    })
}

/// Returns the kubelet's source of a sandbox's pod.
pub fn source(sandbox: &Sandbox) -> Option<PodSource> {
    PodSource::named(sandbox.annotations.get(PodSource::ANNOTATION)?)
}

/// Returns the pod's namespace and name, from its labels or else from the sandbox's metadata.
fn identity(sandbox: &Sandbox) -> Option<PodIdentity> {
    let (labels, metadata) = (&sandbox.labels, sandbox.metadata.as_ref());
    let namespace =
        labels.get(label::POD_NAMESPACE).or(metadata.map(|metadata| metadata.namespace.as_str()))?;
    let name = labels.get(label::POD_NAME).or(metadata.map(|metadata| metadata.name.as_str()))?;
    Some(PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn map(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Returns the newest container of each name.
fn newest_by_name(mut containers: Vec<&Container>) -> BTreeMap<String, RunningContainer> {
    containers.sort_by_key(|container| container.created_at);
    containers
        .into_iter()
        .filter_map(|container| Some((container.metadata.as_ref()?.name.clone(), running(container)?)))
        .collect()
}

fn running(container: &Container) -> Option<RunningContainer> {
    let attempt = container.metadata.as_ref()?.attempt;
    let annotated =
        container.annotations.get(RunningContainer::RESTARTS).and_then(|count| count.parse().ok());
    let image = container.image.clone().unwrap_or_default();
    Some(RunningContainer {
        id: container.id.clone(),
        state: state(container.state),
        created_at: container.created_at,
        given_image: image.user_specified,
        image: image.image,
        hash: container.annotations.get(RunningContainer::HASH).map(str::to_owned),
        restarts: annotated.unwrap_or(attempt).max(attempt),
        ended: None,
    })
}

fn state(state: crate::cri::ContainerState) -> crate::manifests::ContainerState {
    use crate::cri::ContainerState as Listed;
    use crate::manifests::ContainerState as State;
    match state {
        Listed::Created => State::Created,
        Listed::Running => State::Running,
        Listed::Exited => State::Exited,
        Listed::Unknown => State::Unknown,
    }
}

pub use listed::list_static_pods;

mod listed {
    use std::collections::HashMap;

    use super::running_pods;
    use crate::cri::{self, Container, ContainerState, Filter, Runtime};
    use crate::manifests::EndedContainer;
    use crate::manifests::checks::runtime::RunningStaticPods;

    /// Lists the static pods. For a container with many restarts, also fetches the status of the newest exited container
    /// with the same name in the same sandbox.
    pub async fn list_static_pods(runtime: &impl Runtime) -> Result<RunningStaticPods, cri::Error> {
        let sandboxes = runtime.list_sandboxes(&Filter::default()).await.result?;
        let containers = runtime.list_containers(&Filter::default()).await.result?;
        let mut running = RunningStaticPods::new(running_pods(&sandboxes, &containers));
        let exited = newest_exited(&containers);
        for (sandbox_id, name, latest) in running.restarting() {
            let Some(id) = exited.get(&(sandbox_id, name)) else { continue };
            // The runtime may remove the container between the two calls; then it has no status.
            let status = runtime.container_status(id).await.result.ok().flatten();
            latest.ended = status.map(|status| EndedContainer {
                id: status.id,
                exit_code: status.exit_code,
                reason: status.reason,
                log_path: status.log_path,
            });
        }
        Ok(running)
    }

    /// Returns the id of the newest exited container for each sandbox id and container name.
    fn newest_exited(containers: &[Container]) -> HashMap<(&str, &str), &str> {
        let mut exited: Vec<&Container> =
            containers.iter().filter(|container| container.state == ContainerState::Exited).collect();
        exited.sort_by_key(|container| container.created_at);
        let named = exited.into_iter().filter_map(|container| {
            let name = container.metadata.as_ref()?.name.as_str();
            Some(((container.sandbox_id.as_str(), name), container.id.as_str()))
        });
        named.collect()
    }
}
