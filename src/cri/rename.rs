//! Replaces every name in CRI messages that could identify a user, for an anonymised export of a capture, and removes fields
//! that plegctl does not know. [`owners`] reads the owners of listed containers from a message.

use prost::Message;
use prost::bytes::Bytes;

use super::codec::encoded;
use super::decode_budget::decode_within_budget;
use super::generated as wire;
use super::{Rpc, label};
use crate::report::PodRef;
use crate::report::rename::{NameKind, ReplaceName};

/// The label and annotation keys that are the same on every node and whose values PLEG or a diagnosis needs.
pub(super) const PUBLIC_KEYS: [&str; 9] = [
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

/// Replaces the names in an answer; `None` if the message is not a valid answer to `rpc`.
pub fn answer(rpc: Rpc, message: &Bytes, replace: ReplaceName<'_>) -> Option<Bytes> {
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            // Both messages have their items in the first field.
            let mut list: wire::ListPodSandboxResponse = decode_within_budget(message)?;
            list.items.iter_mut().for_each(|item| {
                item.id = replace(NameKind::Id, &item.id);
                rename_metadata(item.metadata.as_mut(), replace);
                rename_pairs(&mut item.labels, replace);
                rename_pairs(&mut item.annotations, replace);
            });
            encoded(&list)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut list: wire::ListContainersResponse = decode_within_budget(message)?;
            for item in &mut list.containers {
                item.id = replace(NameKind::Id, &item.id);
                item.pod_sandbox_id = replace(NameKind::Id, &item.pod_sandbox_id);
                if let Some(metadata) = &mut item.metadata {
                    metadata.name = replace(NameKind::Container, &metadata.name);
                }
                rename_image(item.image.as_mut(), &mut item.image_ref, replace);
                rename_pairs(&mut item.labels, replace);
                rename_pairs(&mut item.annotations, replace);
            }
            encoded(&list)
        }
        Rpc::PodSandboxStatus => {
            let mut answer: wire::PodSandboxStatusResponse = decode_within_budget(message)?;
            if let Some(status) = &mut answer.status {
                rename_sandbox(status, replace);
            }
            answer.containers_statuses.iter_mut().for_each(|status| rename_container(status, replace));
            encoded(&answer)
        }
        Rpc::ContainerStatus => {
            let mut answer: wire::ContainerStatusResponse = decode_within_budget(message)?;
            if let Some(status) = &mut answer.status {
                rename_container(status, replace);
            }
            encoded(&answer)
        }
        Rpc::GetContainerEvents => {
            let mut event: wire::ContainerEventResponse = decode_within_budget(message)?;
            event.container_id = replace(NameKind::Id, &event.container_id);
            if let Some(status) = &mut event.pod_sandbox_status {
                rename_sandbox(status, replace);
            }
            event.containers_statuses.iter_mut().for_each(|status| rename_container(status, replace));
            encoded(&event)
        }
        Rpc::Version => {
            let mut answer: wire::VersionResponse = decode_within_budget(message)?;
            answer.version = replace(NameKind::Version, &answer.version);
            answer.runtime_name = replace(NameKind::Runtime, &answer.runtime_name);
            answer.runtime_version = replace(NameKind::Version, &answer.runtime_version);
            answer.runtime_api_version = replace(NameKind::Version, &answer.runtime_api_version);
            encoded(&answer)
        }
        Rpc::Status => {
            let mut answer: wire::StatusResponse = decode_within_budget(message)?;
            let conditions = answer.status.as_mut().map(|status| &mut status.conditions);
            for condition in conditions.into_iter().flatten() {
                condition.r#type = replace(NameKind::Condition, &condition.r#type);
                condition.reason = replace(NameKind::Condition, &condition.reason);
                condition.message.clear();
            }
            encoded(&answer)
        }
        Rpc::RuntimeConfig => encoded(&decode_within_budget::<wire::RuntimeConfigResponse>(message)?),
        Rpc::ContainerStats => encoded(&decode_within_budget::<wire::ContainerStatsResponse>(message)?),
    })
}

/// A listed sandbox or container with its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedOwner {
    /// The full id of the sandbox or container.
    pub id: String,
    /// The pod.
    pub pod: PodRef,
    /// The name of the container; `None` for a sandbox.
    pub container: Option<String>,
    /// The sandbox of a container.
    pub sandbox_id: Option<String>,
}

/// Returns the sandboxes or containers of an encoded list with their owners.
pub fn owners(rpc: Rpc, message: &Bytes) -> Vec<ListedOwner> {
    let value = |labels: &[wire::Pair], key: &str| {
        labels.iter().find(|pair| pair.key == key).map(|pair| pair.value.clone()).unwrap_or_default()
    };
    let pod = |labels: &[wire::Pair]| PodRef {
        uid: value(labels, label::POD_UID),
        namespace: value(labels, label::POD_NAMESPACE),
        name: value(labels, label::POD_NAME),
    };
    match rpc {
        Rpc::ListPodSandbox => decode_within_budget::<wire::ListPodSandboxResponse>(message).map(|list| {
            let listed = |item: wire::PodSandbox| ListedOwner {
                id: item.id,
                pod: pod(&item.labels),
                container: None,
                sandbox_id: None,
            };
            list.items.into_iter().map(listed).collect()
        }),
        Rpc::ListContainers => decode_within_budget::<wire::ListContainersResponse>(message).map(|list| {
            let listed = |item: wire::Container| {
                let (pod, name) = (pod(&item.labels), value(&item.labels, label::CONTAINER_NAME));
                ListedOwner { id: item.id, pod, container: Some(name), sandbox_id: Some(item.pod_sandbox_id) }
            };
            list.containers.into_iter().map(listed).collect()
        }),
        _ => None,
    }
    .unwrap_or_default()
}

/// Replaces the names in a request; `None` if the message is not a valid request of `rpc`.
pub fn request(rpc: Rpc, message: &Bytes, replace: ReplaceName<'_>) -> Option<Bytes> {
    let message = message.clone();
    Some(match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            let mut request = wire::ListPodSandboxRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                filter.id = replace(NameKind::Id, &filter.id);
                rename_pairs(&mut filter.label_selector, replace);
            }
            encoded(&request)
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            let mut request = wire::ListContainersRequest::decode(message).ok()?;
            if let Some(filter) = &mut request.filter {
                filter.id = replace(NameKind::Id, &filter.id);
                filter.pod_sandbox_id = replace(NameKind::Id, &filter.pod_sandbox_id);
                rename_pairs(&mut filter.label_selector, replace);
            }
            encoded(&request)
        }
        Rpc::PodSandboxStatus => {
            let mut request = wire::PodSandboxStatusRequest::decode(message).ok()?;
            request.pod_sandbox_id = replace(NameKind::Id, &request.pod_sandbox_id);
            encoded(&request)
        }
        Rpc::ContainerStatus => {
            let mut request = wire::ContainerStatusRequest::decode(message).ok()?;
            request.container_id = replace(NameKind::Id, &request.container_id);
            encoded(&request)
        }
        Rpc::ContainerStats => {
            let mut request = wire::ContainerStatsRequest::decode(message).ok()?;
            request.container_id = replace(NameKind::Id, &request.container_id);
            encoded(&request)
        }
        Rpc::Version => {
            let mut request = wire::VersionRequest::decode(message).ok()?;
            request.version = replace(NameKind::Version, &request.version);
            encoded(&request)
        }
        Rpc::Status => encoded(&wire::StatusRequest::decode(message).ok()?),
        Rpc::RuntimeConfig => encoded(&wire::RuntimeConfigRequest::decode(message).ok()?),
        Rpc::GetContainerEvents => encoded(&wire::GetEventsRequest::decode(message).ok()?),
    })
}

fn rename_metadata(metadata: Option<&mut wire::PodSandboxMetadata>, replace: ReplaceName<'_>) {
    if let Some(metadata) = metadata {
        metadata.name = replace(NameKind::Pod, &metadata.name);
        metadata.namespace = replace(NameKind::Namespace, &metadata.namespace);
        metadata.uid = replace(NameKind::Id, &metadata.uid);
    }
}

fn rename_pairs(pairs: &mut [wire::Pair], replace: ReplaceName<'_>) {
    for pair in pairs {
        let kind = match pair.key.as_str() {
            key if PUBLIC_KEYS.contains(&key) => NameKind::KnownValue,
            label::POD_UID => NameKind::Id,
            label::POD_NAME => NameKind::Pod,
            label::POD_NAMESPACE => NameKind::Namespace,
            label::CONTAINER_NAME => NameKind::Container,
            _ => {
                pair.key = replace(NameKind::Key, &pair.key);
                NameKind::Value
            }
        };
        pair.value = replace(kind, &pair.value);
    }
}

fn rename_image(image: Option<&mut wire::ImageSpec>, reference: &mut String, replace: ReplaceName<'_>) {
    if let Some(image) = image {
        image.image = replace(NameKind::Image, &image.image);
        image.user_specified_image = replace(NameKind::Image, &image.user_specified_image);
    }
    *reference = replace(NameKind::Image, reference);
}

fn rename_sandbox(status: &mut wire::PodSandboxStatus, replace: ReplaceName<'_>) {
    status.id = replace(NameKind::Id, &status.id);
    rename_metadata(status.metadata.as_mut(), replace);
    rename_pairs(&mut status.labels, replace);
    rename_pairs(&mut status.annotations, replace);
    if let Some(network) = &mut status.network {
        network.ip = replace(NameKind::Address, &network.ip);
        network.additional_ips.iter_mut().for_each(|other| other.ip = replace(NameKind::Address, &other.ip));
    }
}

fn rename_container(status: &mut wire::ContainerStatus, replace: ReplaceName<'_>) {
    status.id = replace(NameKind::Id, &status.id);
    status.reason = replace(NameKind::Reason, &status.reason);
    if let Some(metadata) = &mut status.metadata {
        metadata.name = replace(NameKind::Container, &metadata.name);
    }
    rename_image(status.image.as_mut(), &mut status.image_ref, replace);
    rename_pairs(&mut status.labels, replace);
    rename_pairs(&mut status.annotations, replace);
    // The runtime's message may contain any name.
    status.message.clear();
    status.log_path = replace(NameKind::Path, &status.log_path);
    for mount in &mut status.mounts {
        mount.container_path = replace(NameKind::Path, &mount.container_path);
        mount.host_path = replace(NameKind::Path, &mount.host_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    fn pairs_with_secrets() -> Vec<wire::Pair> {
        let pair = |key: &str| wire::Pair { key: key.to_owned(), value: SECRET.to_owned() };
        let own = [label::POD_UID, label::POD_NAME, label::POD_NAMESPACE, label::CONTAINER_NAME, SECRET];
        PUBLIC_KEYS.into_iter().chain(own).map(pair).collect()
    }

    fn metadata_with_secrets() -> wire::PodSandboxMetadata {
        let text = || SECRET.to_owned();
        wire::PodSandboxMetadata { name: text(), uid: text(), namespace: text(), attempt: 1 }
    }

    fn image_with_secrets() -> wire::ImageSpec {
        wire::ImageSpec { image: SECRET.to_owned(), user_specified_image: SECRET.to_owned() }
    }

    fn container_name_with_secrets() -> wire::ContainerMetadata {
        wire::ContainerMetadata { name: SECRET.to_owned(), attempt: 1 }
    }

    fn sandbox_status_with_secrets() -> wire::PodSandboxStatus {
        let ip = || wire::PodIp { ip: SECRET.to_owned() };
        wire::PodSandboxStatus {
            id: SECRET.to_owned(),
            metadata: Some(metadata_with_secrets()),
            state: 0,
            created_at: 1,
            network: Some(wire::PodSandboxNetworkStatus {
                ip: SECRET.to_owned(),
                additional_ips: vec![ip()],
            }),
            linux: None,
            labels: pairs_with_secrets(),
            annotations: pairs_with_secrets(),
        }
    }

    fn container_status_with_secrets() -> wire::ContainerStatus {
        let text = || SECRET.to_owned();
        wire::ContainerStatus {
            id: text(),
            metadata: Some(container_name_with_secrets()),
            state: 0,
            created_at: 1,
            started_at: 1,
            finished_at: 1,
            exit_code: 1,
            image: Some(image_with_secrets()),
            image_ref: text(),
            reason: text(),
            message: text(),
            labels: pairs_with_secrets(),
            annotations: pairs_with_secrets(),
            mounts: vec![wire::Mount { container_path: text(), host_path: text(), readonly: false }],
            log_path: text(),
        }
    }

    /// Creates an answer with a secret in each field. Whoever adds a field to a message adds it here too.
    fn answer_with_secrets(rpc: Rpc) -> Bytes {
        let text = || SECRET.to_owned();
        match rpc {
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => encoded(&wire::ListPodSandboxResponse {
                items: vec![wire::PodSandbox {
                    id: text(),
                    metadata: Some(metadata_with_secrets()),
                    state: 0,
                    created_at: 1,
                    labels: pairs_with_secrets(),
                    annotations: pairs_with_secrets(),
                }],
            }),
            Rpc::ListContainers | Rpc::StreamContainers => encoded(&wire::ListContainersResponse {
                containers: vec![wire::Container {
                    id: text(),
                    pod_sandbox_id: text(),
                    metadata: Some(container_name_with_secrets()),
                    image: Some(image_with_secrets()),
                    image_ref: text(),
                    state: 1,
                    created_at: 1,
                    labels: pairs_with_secrets(),
                    annotations: pairs_with_secrets(),
                }],
            }),
            Rpc::PodSandboxStatus => encoded(&wire::PodSandboxStatusResponse {
                status: Some(sandbox_status_with_secrets()),
                containers_statuses: vec![container_status_with_secrets()],
                timestamp: 1,
            }),
            Rpc::ContainerStatus => {
                encoded(&wire::ContainerStatusResponse { status: Some(container_status_with_secrets()) })
            }
            Rpc::GetContainerEvents => encoded(&wire::ContainerEventResponse {
                container_id: text(),
                container_event_type: 1,
                created_at: 1,
                pod_sandbox_status: Some(sandbox_status_with_secrets()),
                containers_statuses: vec![container_status_with_secrets()],
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

    /// Creates a request with a secret in each field.
    fn request_with_secrets(rpc: Rpc) -> Bytes {
        let text = || SECRET.to_owned();
        match rpc {
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => encoded(&wire::ListPodSandboxRequest {
                filter: Some(wire::PodSandboxFilter {
                    id: text(),
                    state: None,
                    label_selector: pairs_with_secrets(),
                }),
            }),
            Rpc::ListContainers | Rpc::StreamContainers => encoded(&wire::ListContainersRequest {
                filter: Some(wire::ContainerFilter {
                    id: text(),
                    state: None,
                    pod_sandbox_id: text(),
                    label_selector: pairs_with_secrets(),
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
    fn with_unknown_field(message: &Bytes) -> Bytes {
        let unknown = [&[0xFA, 0x07, 7][..], SECRET.as_bytes()].concat();
        [&message[..], &unknown].concat().into()
    }

    #[test]
    fn every_text_of_every_message_is_renamed_or_removed() {
        for rpc in Rpc::ALL {
            let mut kinds = 0;
            let mut replace = |_: NameKind, text: &str| {
                kinds += 1;
                if text.is_empty() { String::new() } else { "other".to_owned() }
            };
            let renamed = [
                answer(rpc, &with_unknown_field(&answer_with_secrets(rpc)), &mut replace).unwrap(),
                request(rpc, &with_unknown_field(&request_with_secrets(rpc)), &mut replace).unwrap(),
            ];
            for message in renamed {
                let found = message.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
                assert!(!found, "{rpc}: {message:?}");
            }
            let has_names = !answer_with_secrets(rpc).is_empty() || !request_with_secrets(rpc).is_empty();
            assert_eq!(kinds > 0, has_names, "{rpc}");
        }
    }
}
