//! Converts plain node types into generated messages: the opposite of what the client converts.

use crate::cri::generated as wire;
use crate::cri::{
    CgroupDriver, Container, ContainerEvent, ContainerEventType, ContainerMetadata, ContainerState,
    ContainerStatus, Image, Labels, Mount, Network, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, Version,
};

/// The number of a sandbox state that the CRI does not define.
const UNDEFINED_STATE: i32 = 2;

impl From<Version> for wire::VersionResponse {
    fn from(version: Version) -> Self {
        Self {
            version: version.version,
            runtime_name: version.runtime_name,
            runtime_version: version.runtime_version,
            runtime_api_version: version.runtime_api_version,
        }
    }
}

impl From<RuntimeStatus> for wire::StatusResponse {
    fn from(status: RuntimeStatus) -> Self {
        let conditions = status.conditions.into_iter().map(Into::into).collect();
        Self { status: Some(wire::RuntimeStatus { conditions }) }
    }
}

impl From<RuntimeCondition> for wire::RuntimeCondition {
    fn from(condition: RuntimeCondition) -> Self {
        Self {
            r#type: condition.kind,
            status: condition.holds,
            reason: condition.reason,
            message: condition.message,
        }
    }
}

impl From<CgroupDriver> for wire::RuntimeConfigResponse {
    fn from(driver: CgroupDriver) -> Self {
        let driver = match driver {
            CgroupDriver::Systemd => wire::CgroupDriver::Systemd,
            CgroupDriver::Cgroupfs => wire::CgroupDriver::Cgroupfs,
        };
        Self { linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: driver.into() }) }
    }
}

fn pairs(labels: &Labels) -> Vec<wire::Pair> {
    labels.iter().map(|(key, value)| wire::Pair { key: key.to_owned(), value: value.to_owned() }).collect()
}

fn sandbox_state(state: SandboxState) -> i32 {
    match state {
        SandboxState::Ready => wire::PodSandboxState::SandboxReady.into(),
        SandboxState::NotReady => wire::PodSandboxState::SandboxNotready.into(),
        SandboxState::Unknown => UNDEFINED_STATE,
    }
}

fn container_state(state: ContainerState) -> i32 {
    match state {
        ContainerState::Created => wire::ContainerState::ContainerCreated,
        ContainerState::Running => wire::ContainerState::ContainerRunning,
        ContainerState::Exited => wire::ContainerState::ContainerExited,
        ContainerState::Unknown => wire::ContainerState::ContainerUnknown,
    }
    .into()
}

impl From<SandboxMetadata> for wire::PodSandboxMetadata {
    fn from(metadata: SandboxMetadata) -> Self {
        Self {
            name: metadata.name,
            uid: metadata.uid,
            namespace: metadata.namespace,
            attempt: metadata.attempt,
        }
    }
}

impl From<Sandbox> for wire::PodSandbox {
    fn from(sandbox: Sandbox) -> Self {
        Self {
            id: sandbox.id,
            metadata: sandbox.metadata.map(Into::into),
            state: sandbox_state(sandbox.state),
            created_at: sandbox.created_at,
            labels: pairs(&sandbox.labels),
            annotations: pairs(&sandbox.annotations),
        }
    }
}

impl From<ContainerMetadata> for wire::ContainerMetadata {
    fn from(metadata: ContainerMetadata) -> Self {
        Self { name: metadata.name, attempt: metadata.attempt }
    }
}

impl From<Image> for wire::ImageSpec {
    fn from(image: Image) -> Self {
        Self { image: image.image, user_specified_image: image.user_specified }
    }
}

impl From<Container> for wire::Container {
    fn from(container: Container) -> Self {
        Self {
            id: container.id,
            pod_sandbox_id: container.sandbox_id,
            metadata: container.metadata.map(Into::into),
            image: container.image.map(Into::into),
            image_ref: container.image_ref,
            state: container_state(container.state),
            created_at: container.created_at,
            labels: pairs(&container.labels),
            annotations: pairs(&container.annotations),
        }
    }
}

impl From<SandboxStatusAnswer> for wire::PodSandboxStatusResponse {
    fn from(answer: SandboxStatusAnswer) -> Self {
        Self {
            status: answer.status.map(Into::into),
            containers_statuses: answer.containers.into_iter().map(Into::into).collect(),
            timestamp: answer.timestamp,
        }
    }
}

impl From<Network> for wire::PodSandboxNetworkStatus {
    fn from(network: Network) -> Self {
        let additional_ips = network.additional_ips.into_iter().map(|ip| wire::PodIp { ip }).collect();
        Self { ip: network.ip, additional_ips }
    }
}

impl From<SandboxStatus> for wire::PodSandboxStatus {
    fn from(status: SandboxStatus) -> Self {
        let linux = status.host_network.map(|shared| {
            let mode = if shared { wire::NamespaceMode::Node } else { wire::NamespaceMode::Pod };
            let options = wire::NamespaceOption { network: mode.into() };
            wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options: Some(options) }) }
        });
        Self {
            id: status.id,
            metadata: status.metadata.map(Into::into),
            state: sandbox_state(status.state),
            created_at: status.created_at,
            network: status.network.map(Into::into),
            linux,
            labels: pairs(&status.labels),
            annotations: pairs(&status.annotations),
        }
    }
}

impl From<ContainerStatus> for wire::ContainerStatus {
    fn from(status: ContainerStatus) -> Self {
        Self {
            id: status.id,
            metadata: status.metadata.map(Into::into),
            state: container_state(status.state),
            created_at: status.created_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
            image: status.image.map(Into::into),
            image_ref: status.image_ref,
            reason: status.reason,
            message: status.message,
            labels: pairs(&status.labels),
            annotations: pairs(&status.annotations),
            mounts: status.mounts.into_iter().map(Into::into).collect(),
            log_path: status.log_path,
        }
    }
}

impl From<Mount> for wire::Mount {
    fn from(mount: Mount) -> Self {
        Self { container_path: mount.container_path, host_path: mount.host_path, readonly: mount.readonly }
    }
}

impl From<ContainerEvent> for wire::ContainerEventResponse {
    fn from(event: ContainerEvent) -> Self {
        let kind = match event.kind {
            ContainerEventType::Created => wire::ContainerEventType::ContainerCreatedEvent.into(),
            ContainerEventType::Started => wire::ContainerEventType::ContainerStartedEvent.into(),
            ContainerEventType::Stopped => wire::ContainerEventType::ContainerStoppedEvent.into(),
            ContainerEventType::Deleted => wire::ContainerEventType::ContainerDeletedEvent.into(),
            ContainerEventType::Other(number) => number,
        };
        Self {
            container_id: event.container_id,
            container_event_type: kind,
            created_at: event.created_at,
            pod_sandbox_status: event.sandbox.map(Into::into),
            containers_statuses: event.containers.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converting there and back changes nothing: the client receives what the server sends.
    #[test]
    fn converting_back_and_forth_changes_nothing() {
        let labels: Labels = [("a", "1"), ("b", "")].into_iter().collect();
        for state in [SandboxState::Ready, SandboxState::NotReady, SandboxState::Unknown] {
            let status = SandboxStatus {
                id: "s".into(),
                metadata: Some(SandboxMetadata { name: "web-0".into(), attempt: 3, ..Default::default() }),
                state,
                created_at: 7,
                network: Some(Network { ip: "10.0.0.1".into(), additional_ips: vec!["fd00::1".into()] }),
                host_network: Some(false),
                labels: labels.clone(),
                annotations: Labels::default(),
            };
            assert_eq!(SandboxStatus::from(wire::PodSandboxStatus::from(status.clone())), status);
        }
        for state in [
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Exited,
            ContainerState::Unknown,
        ] {
            let status = ContainerStatus {
                id: "c".into(),
                metadata: None,
                state,
                created_at: 1,
                started_at: 2,
                finished_at: 3,
                exit_code: -1,
                image: Some(Image { image: "sha256:0".into(), user_specified: "web:v1".into() }),
                image_ref: "web@sha256:0".into(),
                reason: "Error".into(),
                message: "gone".into(),
                labels: labels.clone(),
                annotations: labels.clone(),
                mounts: vec![Mount { container_path: "/a".into(), host_path: "/b".into(), readonly: true }],
                log_path: "/log".into(),
            };
            let event = ContainerEvent {
                container_id: "c".into(),
                kind: ContainerEventType::Other(9),
                created_at: 5,
                sandbox: None,
                containers: vec![status],
            };
            assert_eq!(ContainerEvent::from(wire::ContainerEventResponse::from(event.clone())), event);
        }
    }
}
