//! Renames everything in CRI messages that could identify a user, and removes fields that plegctl does not know.

use prost::Message;
use prost::bytes::Bytes;

use super::decode_budget::decoded;
use super::generated as wire;
use super::{Rpc, label};

/// What kind of thing a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
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
    /// The value of a label or an annotation.
    Value,
    /// An address of a pod.
    Address,
    /// A path.
    Path,
    /// The id of a sandbox, a container or a pod.
    Id,
    /// The value of a label that the kubelet or the runtime writes.
    Fact,
    /// The reason for a container's state.
    Reason,
    /// A condition of the runtime, or the reason for it.
    Condition,
    /// The name of a runtime.
    Runtime,
    /// A version.
    Version,
}

/// Returns the replacement for a name.
type Rename<'a> = &'a mut dyn FnMut(NameKind, &str) -> String;

/// Label and annotation keys that are the same on every node. PLEG or a diagnosis needs their values.
const PUBLIC_KEYS: [&str; 9] = [
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

/// Renames an answer; `None` if the message is not a valid answer to `rpc`.
pub fn answer(rpc: Rpc, message: &Bytes, name: Rename<'_>) -> Option<Bytes> {
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            // Both messages have their items in the first field.
            let mut list: wire::ListPodSandboxResponse = decoded(message)?;
            list.items.iter_mut().for_each(|item| {
                item.id = name(NameKind::Id, &item.id);
                metadata(item.metadata.as_mut(), name);
                pairs(&mut item.labels, name);
                pairs(&mut item.annotations, name);
            });
            encoded(&list)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut list: wire::ListContainersResponse = decoded(message)?;
            for item in &mut list.containers {
                item.id = name(NameKind::Id, &item.id);
                item.pod_sandbox_id = name(NameKind::Id, &item.pod_sandbox_id);
                if let Some(metadata) = &mut item.metadata {
                    metadata.name = name(NameKind::Container, &metadata.name);
                }
                image(item.image.as_mut(), &mut item.image_ref, name);
                pairs(&mut item.labels, name);
                pairs(&mut item.annotations, name);
            }
            encoded(&list)
        }
        Rpc::PodSandboxStatus => {
            let mut answer: wire::PodSandboxStatusResponse = decoded(message)?;
            if let Some(status) = &mut answer.status {
                sandbox(status, name);
            }
            answer.containers_statuses.iter_mut().for_each(|status| container(status, name));
            encoded(&answer)
        }
        Rpc::ContainerStatus => {
            let mut answer: wire::ContainerStatusResponse = decoded(message)?;
            if let Some(status) = &mut answer.status {
                container(status, name);
            }
            encoded(&answer)
        }
        Rpc::GetContainerEvents => {
            let mut event: wire::ContainerEventResponse = decoded(message)?;
            event.container_id = name(NameKind::Id, &event.container_id);
            if let Some(status) = &mut event.pod_sandbox_status {
                sandbox(status, name);
            }
            event.containers_statuses.iter_mut().for_each(|status| container(status, name));
            encoded(&event)
        }
        Rpc::Version => {
            let mut answer: wire::VersionResponse = decoded(message)?;
            answer.version = name(NameKind::Version, &answer.version);
            answer.runtime_name = name(NameKind::Runtime, &answer.runtime_name);
            answer.runtime_version = name(NameKind::Version, &answer.runtime_version);
            answer.runtime_api_version = name(NameKind::Version, &answer.runtime_api_version);
            encoded(&answer)
        }
        Rpc::Status => {
            let mut answer: wire::StatusResponse = decoded(message)?;
            let conditions = answer.status.as_mut().map(|status| &mut status.conditions);
            for condition in conditions.into_iter().flatten() {
                condition.r#type = name(NameKind::Condition, &condition.r#type);
                condition.reason = name(NameKind::Condition, &condition.reason);
                condition.message.clear();
            }
            encoded(&answer)
        }
        Rpc::RuntimeConfig => encoded(&decoded::<wire::RuntimeConfigResponse>(message)?),
        Rpc::ContainerStats => encoded(&decoded::<wire::ContainerStatsResponse>(message)?),
    })
}

/// An entry of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedOwner {
    /// The full id of the sandbox or container.
    pub id: String,
    /// The owner: `namespace/pod`, and for a container `namespace/pod/container`.
    pub owner: String,
    /// The sandbox of a container.
    pub sandbox_id: Option<String>,
}

/// Returns the owner of each id in a list.
pub fn owners(rpc: Rpc, message: &Bytes) -> Vec<ListedOwner> {
    let value = |labels: &[wire::Pair], key: &str| {
        labels.iter().find(|pair| pair.key == key).map(|pair| pair.value.clone()).unwrap_or_default()
    };
    let pod = |labels: &[wire::Pair]| {
        format!("{}/{}", value(labels, label::POD_NAMESPACE), value(labels, label::POD_NAME))
    };
    match rpc {
        Rpc::ListPodSandbox => decoded::<wire::ListPodSandboxResponse>(message).map(|list| {
            let listed = |item: wire::PodSandbox| {
                let owner = pod(&item.labels);
                ListedOwner { id: item.id, owner, sandbox_id: None }
            };
            list.items.into_iter().map(listed).collect()
        }),
        Rpc::ListContainers => decoded::<wire::ListContainersResponse>(message).map(|list| {
            let listed = |item: wire::Container| {
                let owner = format!("{}/{}", pod(&item.labels), value(&item.labels, label::CONTAINER_NAME));
                ListedOwner { id: item.id, owner, sandbox_id: Some(item.pod_sandbox_id) }
            };
            list.containers.into_iter().map(listed).collect()
        }),
        _ => None,
    }
    .unwrap_or_default()
}

/// Renames a request; `None` if the message is not a valid request of `rpc`.
pub fn request(rpc: Rpc, message: &Bytes, name: Rename<'_>) -> Option<Bytes> {
    let message = message.clone();
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            let mut request = wire::ListPodSandboxRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                filter.id = name(NameKind::Id, &filter.id);
                pairs(&mut filter.label_selector, name);
            }
            encoded(&request)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut request = wire::ListContainersRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                filter.id = name(NameKind::Id, &filter.id);
                filter.pod_sandbox_id = name(NameKind::Id, &filter.pod_sandbox_id);
                pairs(&mut filter.label_selector, name);
            }
            encoded(&request)
        }
        Rpc::PodSandboxStatus => {
            let mut request = wire::PodSandboxStatusRequest::decode(message).ok()?;
            request.pod_sandbox_id = name(NameKind::Id, &request.pod_sandbox_id);
            encoded(&request)
        }
        Rpc::ContainerStatus => {
            let mut request = wire::ContainerStatusRequest::decode(message).ok()?;
            request.container_id = name(NameKind::Id, &request.container_id);
            encoded(&request)
        }
        Rpc::ContainerStats => {
            let mut request = wire::ContainerStatsRequest::decode(message).ok()?;
            request.container_id = name(NameKind::Id, &request.container_id);
            encoded(&request)
        }
        Rpc::Version => {
            let mut request = wire::VersionRequest::decode(message).ok()?;
            request.version = name(NameKind::Version, &request.version);
            encoded(&request)
        }
        Rpc::Status => encoded(&wire::StatusRequest::decode(message).ok()?),
        Rpc::RuntimeConfig => encoded(&wire::RuntimeConfigRequest::decode(message).ok()?),
        Rpc::GetContainerEvents => encoded(&wire::GetEventsRequest::decode(message).ok()?),
    })
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn metadata(metadata: Option<&mut wire::PodSandboxMetadata>, name: Rename<'_>) {
    if let Some(metadata) = metadata {
        metadata.name = name(NameKind::Pod, &metadata.name);
        metadata.namespace = name(NameKind::Namespace, &metadata.namespace);
        metadata.uid = name(NameKind::Id, &metadata.uid);
    }
}

fn pairs(pairs: &mut [wire::Pair], name: Rename<'_>) {
    for pair in pairs {
        let kind = match pair.key.as_str() {
            key if PUBLIC_KEYS.contains(&key) => NameKind::Fact,
            label::POD_UID => NameKind::Id,
            label::POD_NAME => NameKind::Pod,
            label::POD_NAMESPACE => NameKind::Namespace,
            label::CONTAINER_NAME => NameKind::Container,
            _ => {
                pair.key = name(NameKind::Key, &pair.key);
                NameKind::Value
            }
        };
        pair.value = name(kind, &pair.value);
    }
}

fn image(image: Option<&mut wire::ImageSpec>, reference: &mut String, name: Rename<'_>) {
    if let Some(image) = image {
        image.image = name(NameKind::Image, &image.image);
        image.user_specified_image = name(NameKind::Image, &image.user_specified_image);
    }
    *reference = name(NameKind::Image, reference);
}

fn sandbox(status: &mut wire::PodSandboxStatus, name: Rename<'_>) {
    status.id = name(NameKind::Id, &status.id);
    metadata(status.metadata.as_mut(), name);
    pairs(&mut status.labels, name);
    pairs(&mut status.annotations, name);
    if let Some(network) = &mut status.network {
        network.ip = name(NameKind::Address, &network.ip);
        network.additional_ips.iter_mut().for_each(|other| other.ip = name(NameKind::Address, &other.ip));
    }
}

fn container(status: &mut wire::ContainerStatus, name: Rename<'_>) {
    status.id = name(NameKind::Id, &status.id);
    status.reason = name(NameKind::Reason, &status.reason);
    if let Some(metadata) = &mut status.metadata {
        metadata.name = name(NameKind::Container, &metadata.name);
    }
    image(status.image.as_mut(), &mut status.image_ref, name);
    pairs(&mut status.labels, name);
    pairs(&mut status.annotations, name);
    // The runtime's message may contain any name.
    status.message.clear();
    status.log_path = name(NameKind::Path, &status.log_path);
    for mount in &mut status.mounts {
        mount.container_path = name(NameKind::Path, &mount.container_path);
        mount.host_path = name(NameKind::Path, &mount.host_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    fn pairs_of_a_secret() -> Vec<wire::Pair> {
        let pair = |key: &str| wire::Pair { key: key.to_owned(), value: SECRET.to_owned() };
        let own = [label::POD_UID, label::POD_NAME, label::POD_NAMESPACE, label::CONTAINER_NAME, SECRET];
        PUBLIC_KEYS.into_iter().chain(own).map(pair).collect()
    }

    fn metadata_of_a_secret() -> wire::PodSandboxMetadata {
        let text = || SECRET.to_owned();
        wire::PodSandboxMetadata { name: text(), uid: text(), namespace: text(), attempt: 1 }
    }

    fn image_of_a_secret() -> wire::ImageSpec {
        wire::ImageSpec { image: SECRET.to_owned(), user_specified_image: SECRET.to_owned() }
    }

    fn container_name_of_a_secret() -> wire::ContainerMetadata {
        wire::ContainerMetadata { name: SECRET.to_owned(), attempt: 1 }
    }

    fn status_of_a_sandbox() -> wire::PodSandboxStatus {
        let ip = || wire::PodIp { ip: SECRET.to_owned() };
        wire::PodSandboxStatus {
            id: SECRET.to_owned(),
            metadata: Some(metadata_of_a_secret()),
            state: 0,
            created_at: 1,
            network: Some(wire::PodSandboxNetworkStatus {
                ip: SECRET.to_owned(),
                additional_ips: vec![ip()],
            }),
            linux: None,
            labels: pairs_of_a_secret(),
            annotations: pairs_of_a_secret(),
        }
    }

    fn status_of_a_container() -> wire::ContainerStatus {
        let text = || SECRET.to_owned();
        wire::ContainerStatus {
            id: text(),
            metadata: Some(container_name_of_a_secret()),
            state: 0,
            created_at: 1,
            started_at: 1,
            finished_at: 1,
            exit_code: 1,
            image: Some(image_of_a_secret()),
            image_ref: text(),
            reason: text(),
            message: text(),
            labels: pairs_of_a_secret(),
            annotations: pairs_of_a_secret(),
            mounts: vec![wire::Mount { container_path: text(), host_path: text(), readonly: false }],
            log_path: text(),
        }
    }

    /// An answer with a secret in each of its fields. Whoever adds a field adds it here too.
    fn answer_of(rpc: Rpc) -> Bytes {
        let text = || SECRET.to_owned();
        match rpc {
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => encoded(&wire::ListPodSandboxResponse {
                items: vec![wire::PodSandbox {
                    id: text(),
                    metadata: Some(metadata_of_a_secret()),
                    state: 0,
                    created_at: 1,
                    labels: pairs_of_a_secret(),
                    annotations: pairs_of_a_secret(),
                }],
            }),
            Rpc::ListContainers | Rpc::StreamContainers => encoded(&wire::ListContainersResponse {
                containers: vec![wire::Container {
                    id: text(),
                    pod_sandbox_id: text(),
                    metadata: Some(container_name_of_a_secret()),
                    image: Some(image_of_a_secret()),
                    image_ref: text(),
                    state: 1,
                    created_at: 1,
                    labels: pairs_of_a_secret(),
                    annotations: pairs_of_a_secret(),
                }],
            }),
            Rpc::PodSandboxStatus => encoded(&wire::PodSandboxStatusResponse {
                status: Some(status_of_a_sandbox()),
                containers_statuses: vec![status_of_a_container()],
                timestamp: 1,
            }),
            Rpc::ContainerStatus => {
                encoded(&wire::ContainerStatusResponse { status: Some(status_of_a_container()) })
            }
            Rpc::GetContainerEvents => encoded(&wire::ContainerEventResponse {
                container_id: text(),
                container_event_type: 1,
                created_at: 1,
                pod_sandbox_status: Some(status_of_a_sandbox()),
                containers_statuses: vec![status_of_a_container()],
            }),
            Rpc::Version => encoded(&wire::VersionResponse {
                version: text(),
                runtime_name: text(),
                runtime_version: text(),
                runtime_api_version: text(),
            }),
            Rpc::Status => encoded(&wire::StatusResponse {
                status: Some(wire::RuntimeStatus {
                    conditions: vec![wire::RuntimeCondition {
                        r#type: text(),
                        status: true,
                        reason: text(),
                        message: text(),
                    }],
                }),
            }),
            Rpc::RuntimeConfig | Rpc::ContainerStats => Bytes::new(),
        }
    }

    /// A request with a secret in each of its fields.
    fn request_of(rpc: Rpc) -> Bytes {
        let text = || SECRET.to_owned();
        match rpc {
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => encoded(&wire::ListPodSandboxRequest {
                filter: Some(wire::PodSandboxFilter {
                    id: text(),
                    state: None,
                    label_selector: pairs_of_a_secret(),
                }),
            }),
            Rpc::ListContainers | Rpc::StreamContainers => encoded(&wire::ListContainersRequest {
                filter: Some(wire::ContainerFilter {
                    id: text(),
                    state: None,
                    pod_sandbox_id: text(),
                    label_selector: pairs_of_a_secret(),
                }),
            }),
            Rpc::PodSandboxStatus => {
                encoded(&wire::PodSandboxStatusRequest { pod_sandbox_id: text(), verbose: false })
            }
            Rpc::ContainerStatus => {
                encoded(&wire::ContainerStatusRequest { container_id: text(), verbose: false })
            }
            Rpc::ContainerStats => encoded(&wire::ContainerStatsRequest { container_id: text() }),
            Rpc::Version => encoded(&wire::VersionRequest { version: text() }),
            Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => Bytes::new(),
        }
    }

    /// Appends a field that no release knows.
    fn with_more(message: &Bytes) -> Bytes {
        let unknown = [&[0xFA, 0x07, 7][..], SECRET.as_bytes()].concat();
        [&message[..], &unknown].concat().into()
    }

    #[test]
    fn every_text_of_every_message_is_renamed_or_gone() {
        for rpc in Rpc::ALL {
            let mut kinds = 0;
            let mut name = |_: NameKind, text: &str| {
                kinds += 1;
                if text.is_empty() { String::new() } else { "other".to_owned() }
            };
            let renamed = [
                answer(rpc, &with_more(&answer_of(rpc)), &mut name).unwrap(),
                request(rpc, &with_more(&request_of(rpc)), &mut name).unwrap(),
            ];
            for message in renamed {
                let found = message.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
                assert!(!found, "{rpc}: {message:?}");
            }
            let has_names = !answer_of(rpc).is_empty() || !request_of(rpc).is_empty();
            assert_eq!(kinds > 0, has_names, "{rpc}");
        }
    }
}
