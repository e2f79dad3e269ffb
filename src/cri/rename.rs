//! The messages of the CRI with other names in them, and without anything that this program does not know.

use prost::Message;
use prost::bytes::Bytes;

use super::generated as wire;
use super::{Rpc, label};

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A namespace.
    Namespace,
    /// A pod.
    Pod,
    /// A container.
    Container,
    /// An image.
    Image,
    /// The key of a label or an annotation.
    Key,
    /// The value of one.
    Value,
    /// An address of a pod.
    Address,
    /// A path.
    Path,
}

/// Gives the other name.
type Name<'a> = &'a mut dyn FnMut(Kind, &str) -> String;

/// Keys that are the same everywhere, with values that PLEG or a diagnosis needs.
const KEPT: [&str; 10] = [
    label::POD_UID,
    "io.kubernetes.container.hash",
    "io.kubernetes.container.restartCount",
    "io.kubernetes.container.terminationMessagePolicy",
    "io.kubernetes.pod.terminationGracePeriod",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.source",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.mirror",
    "io.cri-containerd.kind",
];

/// An answer with other names; `None` if it is none, or of a call that has no names.
pub fn answer(rpc: Rpc, message: &Bytes, name: Name<'_>) -> Option<Bytes> {
    let message = message.clone();
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            // Both have their items in the first field.
            let mut list = wire::ListPodSandboxResponse::decode(message).ok()?;
            list.items.iter_mut().for_each(|item| {
                metadata(item.metadata.as_mut(), name);
                pairs(&mut item.labels, name);
                pairs(&mut item.annotations, name);
            });
            encoded(&list)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut list = wire::ListContainersResponse::decode(message).ok()?;
            for item in &mut list.containers {
                if let Some(metadata) = &mut item.metadata {
                    metadata.name = name(Kind::Container, &metadata.name);
                }
                image(item.image.as_mut(), &mut item.image_ref, name);
                pairs(&mut item.labels, name);
                pairs(&mut item.annotations, name);
            }
            encoded(&list)
        }
        Rpc::PodSandboxStatus => {
            let mut answer = wire::PodSandboxStatusResponse::decode(message).ok()?;
            if let Some(status) = &mut answer.status {
                sandbox(status, name);
            }
            answer.containers_statuses.iter_mut().for_each(|status| container(status, name));
            encoded(&answer)
        }
        Rpc::ContainerStatus => {
            let mut answer = wire::ContainerStatusResponse::decode(message).ok()?;
            if let Some(status) = &mut answer.status {
                container(status, name);
            }
            encoded(&answer)
        }
        Rpc::GetContainerEvents => {
            let mut event = wire::ContainerEventResponse::decode(message).ok()?;
            if let Some(status) = &mut event.pod_sandbox_status {
                sandbox(status, name);
            }
            event.containers_statuses.iter_mut().for_each(|status| container(status, name));
            encoded(&event)
        }
        Rpc::Version => encoded(&wire::VersionResponse::decode(message).ok()?),
        Rpc::Status => {
            let mut answer = wire::StatusResponse::decode(message).ok()?;
            let conditions = answer.status.as_mut().map(|status| &mut status.conditions);
            conditions.into_iter().flatten().for_each(|condition| condition.message.clear());
            encoded(&answer)
        }
        Rpc::RuntimeConfig => encoded(&wire::RuntimeConfigResponse::decode(message).ok()?),
        Rpc::ContainerStats => encoded(&wire::ContainerStatsResponse::decode(message).ok()?),
    })
}

/// Whose the ids in a list are: `namespace/pod`, and the container where it is one.
pub fn owners(rpc: Rpc, message: &Bytes) -> Vec<(String, String)> {
    let value = |labels: &[wire::Pair], key: &str| {
        labels.iter().find(|pair| pair.key == key).map(|pair| pair.value.clone()).unwrap_or_default()
    };
    let pod = |labels: &[wire::Pair]| {
        format!("{}/{}", value(labels, label::POD_NAMESPACE), value(labels, label::POD_NAME))
    };
    match rpc {
        Rpc::ListPodSandbox => wire::ListPodSandboxResponse::decode(message.clone())
            .map(|list| list.items.into_iter().map(|item| (item.id, pod(&item.labels))).collect()),
        Rpc::ListContainers => wire::ListContainersResponse::decode(message.clone()).map(|list| {
            let owner = |item: wire::Container| {
                let owner = format!("{}/{}", pod(&item.labels), value(&item.labels, label::CONTAINER_NAME));
                (item.id, owner)
            };
            list.containers.into_iter().map(owner).collect()
        }),
        _ => Ok(Vec::new()),
    }
    .unwrap_or_default()
}

/// A request with other names; `None` if it is none.
pub fn request(rpc: Rpc, message: &Bytes, name: Name<'_>) -> Option<Bytes> {
    let message = message.clone();
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            let mut request = wire::ListPodSandboxRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                pairs(&mut filter.label_selector, name);
            }
            encoded(&request)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut request = wire::ListContainersRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                pairs(&mut filter.label_selector, name);
            }
            encoded(&request)
        }
        // Nothing but ids and versions.
        _ => message,
    })
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn metadata(metadata: Option<&mut wire::PodSandboxMetadata>, name: Name<'_>) {
    if let Some(metadata) = metadata {
        metadata.name = name(Kind::Pod, &metadata.name);
        metadata.namespace = name(Kind::Namespace, &metadata.namespace);
    }
}

fn pairs(pairs: &mut [wire::Pair], name: Name<'_>) {
    for pair in pairs {
        let kind = match pair.key.as_str() {
            key if KEPT.contains(&key) => continue,
            label::POD_NAME => Kind::Pod,
            label::POD_NAMESPACE => Kind::Namespace,
            label::CONTAINER_NAME => Kind::Container,
            _ => {
                pair.key = name(Kind::Key, &pair.key);
                Kind::Value
            }
        };
        pair.value = name(kind, &pair.value);
    }
}

fn image(image: Option<&mut wire::ImageSpec>, reference: &mut String, name: Name<'_>) {
    if let Some(image) = image {
        image.image = name(Kind::Image, &image.image);
        image.user_specified_image = name(Kind::Image, &image.user_specified_image);
    }
    *reference = name(Kind::Image, reference);
}

fn sandbox(status: &mut wire::PodSandboxStatus, name: Name<'_>) {
    metadata(status.metadata.as_mut(), name);
    pairs(&mut status.labels, name);
    pairs(&mut status.annotations, name);
    if let Some(network) = &mut status.network {
        network.ip = name(Kind::Address, &network.ip);
        network.additional_ips.iter_mut().for_each(|other| other.ip = name(Kind::Address, &other.ip));
    }
}

fn container(status: &mut wire::ContainerStatus, name: Name<'_>) {
    if let Some(metadata) = &mut status.metadata {
        metadata.name = name(Kind::Container, &metadata.name);
    }
    image(status.image.as_mut(), &mut status.image_ref, name);
    pairs(&mut status.labels, name);
    pairs(&mut status.annotations, name);
    // The runtime's own words may name anything.
    status.message.clear();
    status.log_path = name(Kind::Path, &status.log_path);
    for mount in &mut status.mounts {
        mount.container_path = name(Kind::Path, &mount.container_path);
        mount.host_path = name(Kind::Path, &mount.host_path);
    }
}
