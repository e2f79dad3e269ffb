//! Converts generated messages into plain node types. It changes no values.

use super::generated as wire;
use super::{
    CgroupDriver, Container, ContainerEvent, ContainerEventType, ContainerMetadata, ContainerState,
    ContainerStatus, Filter, Image, Labels, Mount, Network, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, Version,
};

impl From<wire::VersionResponse> for Version {
    fn from(wire: wire::VersionResponse) -> Self {
        Self {
            version: wire.version,
            runtime_name: wire.runtime_name,
            runtime_version: wire.runtime_version,
            runtime_api_version: wire.runtime_api_version,
        }
    }
}

impl From<wire::StatusResponse> for RuntimeStatus {
    fn from(wire: wire::StatusResponse) -> Self {
        let conditions = wire.status.unwrap_or_default().conditions;
        Self { conditions: conditions.into_iter().map(Into::into).collect() }
    }
}

impl From<wire::RuntimeCondition> for RuntimeCondition {
    fn from(wire: wire::RuntimeCondition) -> Self {
        Self { kind: wire.r#type, holds: wire.status, reason: wire.reason, message: wire.message }
    }
}

/// The cgroup driver; a number that the CRI does not define says nothing.
pub fn cgroup_driver(wire: wire::RuntimeConfigResponse) -> Option<CgroupDriver> {
    match wire::CgroupDriver::try_from(wire.linux?.cgroup_driver).ok()? {
        wire::CgroupDriver::Systemd => Some(CgroupDriver::Systemd),
        wire::CgroupDriver::Cgroupfs => Some(CgroupDriver::Cgroupfs),
    }
}

fn labels(pairs: Vec<wire::Pair>) -> Labels {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

fn pairs(labels: &[(String, String)]) -> Vec<wire::Pair> {
    labels.iter().map(|(key, value)| wire::Pair { key: key.clone(), value: value.clone() }).collect()
}

pub(super) fn sandbox_state(number: i32) -> SandboxState {
    match wire::PodSandboxState::try_from(number) {
        Ok(wire::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(wire::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

pub(super) fn container_state(number: i32) -> ContainerState {
    match wire::ContainerState::try_from(number) {
        Ok(wire::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(wire::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(wire::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(wire::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

/// The wire message for `filter`. The kubelet always sends a filter, even an empty one, and so does plegctl.
pub fn sandbox_filter(filter: &Filter<SandboxState>) -> wire::PodSandboxFilter {
    wire::PodSandboxFilter {
        id: String::new(),
        state: filter.state.map(|state| wire::PodSandboxStateValue {
            state: match state {
                SandboxState::Ready => wire::PodSandboxState::SandboxReady,
                SandboxState::NotReady | SandboxState::Unknown => wire::PodSandboxState::SandboxNotready,
            }
            .into(),
        }),
        label_selector: pairs(&filter.labels),
    }
}

/// The same for containers.
pub fn container_filter(filter: &Filter<ContainerState>) -> wire::ContainerFilter {
    wire::ContainerFilter {
        id: String::new(),
        state: filter.state.map(|state| wire::ContainerStateValue {
            state: match state {
                ContainerState::Created => wire::ContainerState::ContainerCreated,
                ContainerState::Running => wire::ContainerState::ContainerRunning,
                ContainerState::Exited => wire::ContainerState::ContainerExited,
                ContainerState::Unknown => wire::ContainerState::ContainerUnknown,
            }
            .into(),
        }),
        pod_sandbox_id: String::new(),
        label_selector: pairs(&filter.labels),
    }
}

impl From<wire::PodSandboxMetadata> for SandboxMetadata {
    fn from(wire: wire::PodSandboxMetadata) -> Self {
        Self { name: wire.name, uid: wire.uid, namespace: wire.namespace, attempt: wire.attempt }
    }
}

impl From<wire::PodSandbox> for Sandbox {
    fn from(wire: wire::PodSandbox) -> Self {
        Self {
            id: wire.id,
            metadata: wire.metadata.map(Into::into),
            state: sandbox_state(wire.state),
            created_at: wire.created_at,
            labels: labels(wire.labels),
            annotations: labels(wire.annotations),
        }
    }
}

impl From<wire::ContainerMetadata> for ContainerMetadata {
    fn from(wire: wire::ContainerMetadata) -> Self {
        Self { name: wire.name, attempt: wire.attempt }
    }
}

impl From<wire::ImageSpec> for Image {
    fn from(wire: wire::ImageSpec) -> Self {
        Self { image: wire.image, user_specified: wire.user_specified_image }
    }
}

impl From<wire::Container> for Container {
    fn from(wire: wire::Container) -> Self {
        Self {
            id: wire.id,
            sandbox_id: wire.pod_sandbox_id,
            metadata: wire.metadata.map(Into::into),
            image: wire.image.map(Into::into),
            image_ref: wire.image_ref,
            state: container_state(wire.state),
            created_at: wire.created_at,
            labels: labels(wire.labels),
            annotations: labels(wire.annotations),
        }
    }
}

impl From<wire::PodSandboxStatusResponse> for SandboxStatusAnswer {
    fn from(wire: wire::PodSandboxStatusResponse) -> Self {
        Self {
            status: wire.status.map(Into::into),
            containers: wire.containers_statuses.into_iter().map(Into::into).collect(),
            timestamp: wire.timestamp,
        }
    }
}

impl From<wire::PodSandboxStatus> for SandboxStatus {
    fn from(wire: wire::PodSandboxStatus) -> Self {
        let options = wire.linux.and_then(|linux| linux.namespaces).and_then(|namespaces| namespaces.options);
        Self {
            id: wire.id,
            metadata: wire.metadata.map(Into::into),
            state: sandbox_state(wire.state),
            created_at: wire.created_at,
            network: wire.network.map(|network| Network {
                ip: network.ip,
                additional_ips: network.additional_ips.into_iter().map(|ip| ip.ip).collect(),
            }),
            host_network: options.map(|options| options.network() == wire::NamespaceMode::Node),
            labels: labels(wire.labels),
            annotations: labels(wire.annotations),
        }
    }
}

impl From<wire::ContainerStatus> for ContainerStatus {
    fn from(wire: wire::ContainerStatus) -> Self {
        Self {
            id: wire.id,
            metadata: wire.metadata.map(Into::into),
            state: container_state(wire.state),
            created_at: wire.created_at,
            started_at: wire.started_at,
            finished_at: wire.finished_at,
            exit_code: wire.exit_code,
            image: wire.image.map(Into::into),
            image_ref: wire.image_ref,
            reason: wire.reason,
            message: wire.message,
            labels: labels(wire.labels),
            annotations: labels(wire.annotations),
            mounts: wire.mounts.into_iter().map(Into::into).collect(),
            log_path: wire.log_path,
        }
    }
}

impl From<wire::Mount> for Mount {
    fn from(wire: wire::Mount) -> Self {
        Self { container_path: wire.container_path, host_path: wire.host_path, readonly: wire.readonly }
    }
}

impl From<wire::ContainerEventResponse> for ContainerEvent {
    fn from(wire: wire::ContainerEventResponse) -> Self {
        Self {
            container_id: wire.container_id,
            kind: match wire::ContainerEventType::try_from(wire.container_event_type) {
                Ok(wire::ContainerEventType::ContainerCreatedEvent) => ContainerEventType::Created,
                Ok(wire::ContainerEventType::ContainerStartedEvent) => ContainerEventType::Started,
                Ok(wire::ContainerEventType::ContainerStoppedEvent) => ContainerEventType::Stopped,
                Ok(wire::ContainerEventType::ContainerDeletedEvent) => ContainerEventType::Deleted,
                Err(_) => ContainerEventType::Other(wire.container_event_type),
            },
            created_at: wire.created_at,
            sandbox: wire.pod_sandbox_status.map(Into::into),
            containers: wire.containers_statuses.into_iter().map(Into::into).collect(),
        }
    }
}
