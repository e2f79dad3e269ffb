//! The simulated pods as the messages of the CRI.

use super::life::{ContainerLife, Happening, Moment, Nanos, Pod, Subject};
use super::scenario::{Family, Owner};
use super::seed::Seed;
use crate::cri::generated as wire;
use crate::cri::label;

/// Key of the annotation that makes objects as large as a scenario wants them.
const PADDING: &str = "example.com/rendered-config";

/// Where simulated time lies in wall time, and whose manners are played.
#[derive(Clone, Copy, Debug)]
pub struct Scribe {
    /// Wall time of the start of the simulation, in nanoseconds since the Unix epoch.
    pub origin: i64,
    /// Whose manners are played.
    pub family: Family,
}

impl Scribe {
    /// Wall time of a simulated moment.
    pub fn stamp(self, at: Nanos) -> i64 {
        self.origin.saturating_add(at)
    }

    /// An entry of `ListPodSandbox`.
    pub fn sandbox(self, pod: &Pod, at: Nanos) -> wire::PodSandbox {
        wire::PodSandbox {
            id: pod.sandbox_id(),
            metadata: Some(sandbox_metadata(pod)),
            state: sandbox_state(pod, at),
            created_at: self.stamp(pod.created),
            labels: sandbox_labels(pod),
            annotations: sandbox_annotations(pod),
        }
    }

    /// Answer to `PodSandboxStatus`, without the containers.
    pub fn sandbox_status(self, pod: &Pod, at: Nanos) -> wire::PodSandboxStatus {
        let mode = if on_host_network(pod) { wire::NamespaceMode::Node } else { wire::NamespaceMode::Pod };
        let options = wire::NamespaceOption { network: mode.into() };
        let network = wire::PodSandboxNetworkStatus { ip: address(pod, at), additional_ips: Vec::new() };
        wire::PodSandboxStatus {
            id: pod.sandbox_id(),
            metadata: Some(sandbox_metadata(pod)),
            state: sandbox_state(pod, at),
            created_at: self.stamp(pod.created),
            network: Some(network),
            linux: Some(wire::LinuxPodSandboxStatus {
                namespaces: Some(wire::Namespace { options: Some(options) }),
            }),
            labels: sandbox_labels(pod),
            annotations: sandbox_annotations(pod),
        }
    }

    /// An entry of `ListContainers`.
    pub fn container(self, pod: &Pod, container: &ContainerLife, at: Nanos) -> wire::Container {
        let (image, image_ref) = image(pod, container);
        wire::Container {
            id: pod.container_id(container),
            pod_sandbox_id: pod.sandbox_id(),
            metadata: Some(container_metadata(pod, container)),
            image: Some(image),
            image_ref,
            state: container_state(container, at).into(),
            created_at: self.stamp(container.created),
            labels: container_labels(pod, container),
            annotations: container_annotations(pod, container),
        }
    }

    /// Answer to `ContainerStatus`.
    pub fn container_status(self, pod: &Pod, container: &ContainerLife, at: Nanos) -> wire::ContainerStatus {
        let (image, image_ref) = image(pod, container);
        let finished = container.finished_by(at);
        let exit_code = finished.map_or(0, |(_, code)| code);
        let (namespace, name, uid) = (&pod.group.namespace, pod.name(), pod.uid());
        let directory = format!("{namespace}_{name}_{uid}/{}", pod.container_name(container));
        wire::ContainerStatus {
            id: pod.container_id(container),
            metadata: Some(container_metadata(pod, container)),
            state: container_state(container, at).into(),
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
            mounts: vec![wire::Mount {
                container_path: "/etc/hosts".into(),
                host_path: format!("/var/lib/kubelet/pods/{uid}/etc-hosts"),
                readonly: false,
            }],
            log_path: format!("/var/log/pods/{directory}/{}.log", pod.container_attempt(container)),
        }
    }

    /// Every container of a pod, as its events carry them.
    pub fn container_statuses(self, pod: &Pod, at: Nanos) -> Vec<wire::ContainerStatus> {
        pod.containers_at(at).map(|container| self.container_status(pod, container, at)).collect()
    }

    /// The event that tells of `moment`; `None` where the runtime does not tell.
    pub fn event(self, pod: &Pod, moment: Moment, competing: bool) -> Option<wire::ContainerEventResponse> {
        use Happening::{Created, Deleted};
        let of_sandbox = moment.subject == Subject::Sandbox;
        // CRI-O looks for the sandbox before it is there and after it is gone, and then keeps silent.
        if of_sandbox && self.family == Family::CriO && matches!(moment.what, Created | Deleted) {
            return None;
        }
        let container_id = match moment.subject {
            Subject::Sandbox => pod.sandbox_id(),
            Subject::Container(index) => pod.container_id(pod.containers.get(index)?),
        };
        // containerd 1.7 sends the last event when the sandbox has left its store, later ones before that.
        let forgotten = of_sandbox && moment.what == Deleted && competing;
        Some(wire::ContainerEventResponse {
            container_id,
            container_event_type: event_type(moment.what).into(),
            created_at: self.stamp(moment.at),
            pod_sandbox_status: (!forgotten).then(|| self.sandbox_status(pod, moment.at)),
            containers_statuses: self.container_statuses(pod, moment.at),
        })
    }
}

fn event_type(what: Happening) -> wire::ContainerEventType {
    match what {
        Happening::Created => wire::ContainerEventType::ContainerCreatedEvent,
        Happening::Started => wire::ContainerEventType::ContainerStartedEvent,
        Happening::Stopped => wire::ContainerEventType::ContainerStoppedEvent,
        Happening::Deleted => wire::ContainerEventType::ContainerDeletedEvent,
    }
}

fn sandbox_state(pod: &Pod, at: Nanos) -> i32 {
    let state = if pod.is_ready(at) {
        wire::PodSandboxState::SandboxReady
    } else {
        wire::PodSandboxState::SandboxNotready
    };
    state.into()
}

fn container_state(container: &ContainerLife, at: Nanos) -> wire::ContainerState {
    if container.finished_by(at).is_some() {
        wire::ContainerState::ContainerExited
    } else if container.started_by(at).is_some() {
        wire::ContainerState::ContainerRunning
    } else {
        wire::ContainerState::ContainerCreated
    }
}

fn sandbox_metadata(pod: &Pod) -> wire::PodSandboxMetadata {
    wire::PodSandboxMetadata {
        name: pod.name(),
        uid: pod.uid(),
        namespace: pod.group.namespace.clone(),
        attempt: pod.sandbox_attempt(),
    }
}

fn container_metadata(pod: &Pod, container: &ContainerLife) -> wire::ContainerMetadata {
    wire::ContainerMetadata {
        name: pod.container_name(container).to_owned(),
        attempt: pod.container_attempt(container),
    }
}

fn on_host_network(pod: &Pod) -> bool {
    matches!(pod.group.owner, Owner::Static | Owner::DaemonSet)
}

/// A pod has an address of its own as long as it has a network of its own.
fn address(pod: &Pod, at: Nanos) -> String {
    if on_host_network(pod) || !pod.is_ready(at) {
        return String::new();
    }
    let seed = pod.identity.of("address");
    format!("10.244.{}.{}", seed.below(250), 2 + seed.nth(1).below(250))
}

fn image(pod: &Pod, container: &ContainerLife) -> (wire::ImageSpec, String) {
    let name = pod.container_name(container);
    let digest = Seed::new(0).of("image").of(name).id();
    let asked = format!("registry.example/{name}:v1");
    let image = wire::ImageSpec { image: format!("sha256:{digest}"), user_specified_image: asked };
    (image, format!("registry.example/{name}@sha256:{digest}"))
}

fn reason(exit_code: i32) -> &'static str {
    match exit_code {
        0 => "Completed",
        137 => "OOMKilled",
        _ => "Error",
    }
}

fn pair(key: &str, value: impl Into<String>) -> wire::Pair {
    wire::Pair { key: key.to_owned(), value: value.into() }
}

/// The labels that sandbox and containers share.
fn pod_labels(pod: &Pod) -> Vec<wire::Pair> {
    vec![
        pair(label::POD_NAME, pod.name()),
        pair(label::POD_NAMESPACE, pod.group.namespace.as_str()),
        pair(label::POD_UID, pod.uid()),
    ]
}

fn sandbox_labels(pod: &Pod) -> Vec<wire::Pair> {
    let mut labels = pod_labels(pod);
    labels.insert(0, pair("app", pod.group.name.as_str()));
    labels
}

fn container_labels(pod: &Pod, container: &ContainerLife) -> Vec<wire::Pair> {
    let mut labels = pod_labels(pod);
    labels.insert(0, pair(label::CONTAINER_NAME, pod.container_name(container)));
    labels
}

fn sandbox_annotations(pod: &Pod) -> Vec<wire::Pair> {
    let mut annotations = match pod.group.owner {
        Owner::Static => {
            vec![pair("kubernetes.io/config.hash", pod.uid()), pair("kubernetes.io/config.source", "file")]
        }
        _ => vec![pair("kubernetes.io/config.source", "api")],
    };
    annotations.extend(padding(pod));
    annotations
}

fn container_annotations(pod: &Pod, container: &ContainerLife) -> Vec<wire::Pair> {
    let hash = Seed::new(0).of(&pod.group.name).of(pod.container_name(container)).below(u64::from(u32::MAX));
    let mut annotations = vec![
        pair("io.kubernetes.container.hash", format!("{hash:x}")),
        pair("io.kubernetes.container.restartCount", pod.container_attempt(container).to_string()),
        pair("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        pair("io.kubernetes.container.terminationMessagePolicy", "File"),
        pair("io.kubernetes.pod.terminationGracePeriod", "30"),
    ];
    annotations.extend(padding(pod));
    annotations
}

fn padding(pod: &Pod) -> Option<wire::Pair> {
    let bytes = usize::try_from(pod.group.annotation_bytes).ok().filter(|bytes| *bytes > 0)?;
    Some(pair(PADDING, "x".repeat(bytes)))
}
