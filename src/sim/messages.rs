//! Builds the CRI messages about simulated pods: list entries, statuses and events.

use super::life::{ContainerLife, LifeChange, LifeEvent, LifeSubject, Nanos, PodLife};
use super::scenario::{Owner, RuntimeFamily};
use super::seed::Seed;
use crate::cri::{
    Container, ContainerEvent, ContainerEventType, ContainerMetadata, ContainerState, ContainerStatus, Image,
    Labels, Mount, Network, Sandbox, SandboxMetadata, SandboxState, SandboxStatus, label,
};

/// The annotation that enlarges objects to the size in the scenario.
const PADDING: &str = "example.com/rendered-config";

/// Builds CRI messages, with the wall time of the simulation and the behaviour of a runtime.
#[derive(Clone, Copy, Debug)]
pub struct MessageBuilder {
    /// Wall time of the start of the simulation, in nanoseconds since the Unix epoch.
    pub origin: i64,
    /// The runtime whose behaviour is simulated.
    pub family: RuntimeFamily,
}

impl MessageBuilder {
    /// Converts simulated time into wall time.
    pub fn stamp(self, at: Nanos) -> i64 {
        self.origin.saturating_add(at)
    }

    /// Returns an entry of `ListPodSandbox`.
    pub fn sandbox(self, pod: &PodLife, at: Nanos) -> Sandbox {
        Sandbox {
            id: pod.sandbox_id(),
            metadata: Some(sandbox_metadata(pod)),
            state: sandbox_state(pod, at),
            created_at: self.stamp(pod.created),
            labels: sandbox_labels(pod),
            annotations: sandbox_annotations(pod),
        }
    }

    /// Returns the answer to `PodSandboxStatus`, without the containers.
    pub fn sandbox_status(self, pod: &PodLife, at: Nanos) -> SandboxStatus {
        SandboxStatus {
            id: pod.sandbox_id(),
            metadata: Some(sandbox_metadata(pod)),
            state: sandbox_state(pod, at),
            created_at: self.stamp(pod.created),
            network: Some(Network { ip: address(pod, at), additional_ips: Vec::new() }),
            host_network: Some(on_host_network(pod)),
            labels: sandbox_labels(pod),
            annotations: sandbox_annotations(pod),
        }
    }

    /// Returns an entry of `ListContainers`.
    pub fn container(self, pod: &PodLife, container: &ContainerLife, at: Nanos) -> Container {
        let (image, image_ref) = image(pod, container);
        Container {
            id: pod.container_id(container),
            sandbox_id: pod.sandbox_id(),
            metadata: Some(container_metadata(pod, container)),
            image: Some(image),
            image_ref,
            state: container_state(container, at),
            created_at: self.stamp(container.created),
            labels: container_labels(pod, container),
            annotations: container_annotations(pod, container),
        }
    }

    /// Returns the answer to `ContainerStatus`.
    pub fn container_status(self, pod: &PodLife, container: &ContainerLife, at: Nanos) -> ContainerStatus {
        let (image, image_ref) = image(pod, container);
        let finished = container.finished_by(at);
        let exit_code = finished.map_or(0, |(_, code)| code);
        let (namespace, name, uid) = (&pod.group.namespace, pod.name(), pod.uid());
        let directory = format!("{namespace}_{name}_{uid}/{}", pod.container_name(container));
        ContainerStatus {
            id: pod.container_id(container),
            metadata: Some(container_metadata(pod, container)),
            state: container_state(container, at),
            created_at: self.stamp(container.created),
            started_at: container.started_by(at).map_or(0, |started| self.stamp(started)),
            finished_at: finished.map_or(0, |(finished, _)| self.stamp(finished)),
            exit_code,
            image: Some(image),
            image_ref,
            reason: finished.map(|_| reason(exit_code).to_owned()).unwrap_or_default(),
            message: String::new(),
            labels: container_labels(pod, container),
            annotations: container_annotations(pod, container),
            mounts: vec![Mount {
                container_path: "/etc/hosts".into(),
                host_path: format!("/var/lib/kubelet/pods/{uid}/etc-hosts"),
                readonly: false,
            }],
            log_path: format!("/var/log/pods/{directory}/{}.log", pod.container_attempt(container)),
        }
    }

    /// Returns the statuses of all containers of a pod, as its events contain them.
    pub fn container_statuses(self, pod: &PodLife, at: Nanos) -> Vec<ContainerStatus> {
        pod.containers_at(at).map(|container| self.container_status(pod, container, at)).collect()
    }

    /// Returns the event of a change; `None` if the runtime sends none.
    pub fn event(self, pod: &PodLife, change: LifeChange, competing: bool) -> Option<ContainerEvent> {
        use LifeEvent::{Created, Deleted};
        let of_sandbox = change.subject == LifeSubject::Sandbox;
        // CRI-O looks for the sandbox before it is created and after it is removed, and then sends no event.
        if of_sandbox && self.family == RuntimeFamily::CriO && matches!(change.what, Created | Deleted) {
            return None;
        }
        let container_id = match change.subject {
            LifeSubject::Sandbox => pod.sandbox_id(),
            LifeSubject::Container(index) => pod.container_id(pod.containers.get(index)?),
        };
        // containerd 1.7 sends the DELETED event of a sandbox after it has removed the sandbox from its store, so the
        // event contains no sandbox status.
        let without_status = of_sandbox && change.what == Deleted && competing;
        Some(ContainerEvent {
            container_id,
            kind: event_type(change.what),
            created_at: self.stamp(change.at),
            sandbox: (!without_status).then(|| self.sandbox_status(pod, change.at)),
            containers: self.container_statuses(pod, change.at),
        })
    }
}

/// Returns the type that the event has in the event stream.
fn event_type(what: LifeEvent) -> ContainerEventType {
    match what {
        LifeEvent::Created => ContainerEventType::Created,
        LifeEvent::Started => ContainerEventType::Started,
        LifeEvent::Stopped => ContainerEventType::Stopped,
        LifeEvent::Deleted => ContainerEventType::Deleted,
    }
}

/// Returns the state of a pod's sandbox.
fn sandbox_state(pod: &PodLife, at: Nanos) -> SandboxState {
    if pod.is_ready(at) { SandboxState::Ready } else { SandboxState::NotReady }
}

/// Returns the state of a container.
fn container_state(container: &ContainerLife, at: Nanos) -> ContainerState {
    if container.finished_by(at).is_some() {
        ContainerState::Exited
    } else if container.started_by(at).is_some() {
        ContainerState::Running
    } else {
        ContainerState::Created
    }
}

/// Returns the name, the UID, the namespace and the attempt of a sandbox.
fn sandbox_metadata(pod: &PodLife) -> SandboxMetadata {
    SandboxMetadata {
        name: pod.name(),
        uid: pod.uid(),
        namespace: pod.group.namespace.clone(),
        attempt: pod.sandbox_attempt(),
    }
}

/// Returns the name and the attempt of a container.
fn container_metadata(pod: &PodLife, container: &ContainerLife) -> ContainerMetadata {
    ContainerMetadata {
        name: pod.container_name(container).to_owned(),
        attempt: pod.container_attempt(container),
    }
}

/// Whether the pod uses the network of the node.
fn on_host_network(pod: &PodLife) -> bool {
    matches!(pod.group.owner, Owner::Static | Owner::DaemonSet)
}

/// Returns the pod's IP address; empty if the pod uses the host network or its sandbox has ended.
fn address(pod: &PodLife, at: Nanos) -> String {
    if on_host_network(pod) || !pod.is_ready(at) {
        return String::new();
    }
    let seed = pod.identity.of("address");
    format!("10.244.{}.{}", seed.below(250), 2 + seed.nth(1).below(250))
}

/// Returns the image of a container, and its reference.
fn image(pod: &PodLife, container: &ContainerLife) -> (Image, String) {
    image_called(pod.container_name(container))
}

/// Returns an image with this name, and its reference.
pub(super) fn image_called(name: &str) -> (Image, String) {
    let digest = Seed::new(0).of("image").of(name).id();
    let tag = format!("registry.example/{name}:v1");
    let image = Image { image: format!("sha256:{digest}"), user_specified: tag };
    (image, format!("registry.example/{name}@sha256:{digest}"))
}

/// Returns the reason that the runtime gives for an exit code.
fn reason(exit_code: i32) -> &'static str {
    match exit_code {
        0 => "Completed",
        137 => "OOMKilled",
        _ => "Error",
    }
}

/// Returns the labels that a pod's sandbox and containers have in common.
fn pod_labels(pod: &PodLife) -> [(&'static str, String); 3] {
    [
        (label::POD_NAME, pod.name()),
        (label::POD_NAMESPACE, pod.group.namespace.clone()),
        (label::POD_UID, pod.uid()),
    ]
}

/// Returns the labels of a sandbox.
fn sandbox_labels(pod: &PodLife) -> Labels {
    [("app", pod.group.name.clone())].into_iter().chain(pod_labels(pod)).collect()
}

/// Returns the labels of a container.
fn container_labels(pod: &PodLife, container: &ContainerLife) -> Labels {
    let name = pod.container_name(container).to_owned();
    [(label::CONTAINER_NAME, name)].into_iter().chain(pod_labels(pod)).collect()
}

/// Returns the annotations of a sandbox.
fn sandbox_annotations(pod: &PodLife) -> Labels {
    let hash = (pod.group.owner == Owner::Static).then(|| ("kubernetes.io/config.hash", pod.uid()));
    let source = if hash.is_some() { "file" } else { "api" };
    let source = ("kubernetes.io/config.source", source.to_owned());
    hash.into_iter().chain([source]).chain(padding(pod)).collect()
}

/// Returns the annotations of a container.
fn container_annotations(pod: &PodLife, container: &ContainerLife) -> Labels {
    let hash = Seed::new(0).of(&pod.group.name).of(pod.container_name(container)).below(u64::from(u32::MAX));
    let annotations = [
        ("io.kubernetes.container.hash", format!("{hash:x}")),
        ("io.kubernetes.container.restartCount", pod.container_attempt(container).to_string()),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".to_owned()),
        ("io.kubernetes.container.terminationMessagePolicy", "File".to_owned()),
        ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
    ];
    annotations.into_iter().chain(padding(pod)).collect()
}

/// Returns the annotation that makes the answers as large as the scenario wants.
fn padding(pod: &PodLife) -> Option<(&'static str, String)> {
    let bytes = usize::try_from(pod.group.annotation_bytes).ok().filter(|bytes| *bytes > 0)?;
    Some((PADDING, "x".repeat(bytes)))
}
