//! Converts generated messages into the plain types of `node` and back. It changes no values.

use super::generated as wire;
use super::{
    CgroupDriver, Container, ContainerEvent, ContainerEventType, ContainerMetadata, ContainerState,
    ContainerStatus, Filter, Image, Labels, Mount, Network, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, Version,
};

/// The number of a sandbox state that the CRI does not define.
const UNDEFINED_STATE: i32 = 2;

/// A plain value that has another type in a message.
pub(super) trait Wire<W> {
    /// Converts a value of a message: the client receives it.
    fn from_wire(wire: W) -> Self;
    /// Converts a value into one for a message: the server sends it.
    fn into_wire(self) -> W;
}

/// Lists the fields of plain types and messages once, for both directions: first the fields that have one name, then
/// `plain = wire`.
macro_rules! mirror {
    ($($plain:ident = $message:ident { $($same:ident),*; $($field:ident = $other:ident),* })*) => {$(
        impl From<wire::$message> for $plain {
            fn from(wire: wire::$message) -> Self {
                Self {
                    $($same: Wire::from_wire(wire.$same),)*
                    $($field: Wire::from_wire(wire.$other),)*
                }
            }
        }

        impl From<$plain> for wire::$message {
            fn from(plain: $plain) -> Self {
                Self {
                    $($same: Wire::into_wire(plain.$same),)*
                    $($other: Wire::into_wire(plain.$field),)*
                }
            }
        }

        impl Wire<wire::$message> for $plain {
            fn from_wire(wire: wire::$message) -> Self {
                wire.into()
            }

            fn into_wire(self) -> wire::$message {
                self.into()
            }
        }
    )*};
}

mirror! {
    Version = VersionResponse { version, runtime_name, runtime_version, runtime_api_version; }
    RuntimeStatus = RuntimeStatus { conditions; }
    RuntimeCondition = RuntimeCondition { reason, message; kind = r#type, holds = status }
    SandboxMetadata = PodSandboxMetadata { name, uid, namespace, attempt; }
    Sandbox = PodSandbox { id, metadata, state, created_at, labels, annotations; }
    ContainerMetadata = ContainerMetadata { name, attempt; }
    Image = ImageSpec { image; user_specified = user_specified_image }
    Container = Container {
        id, metadata, image, image_ref, state, created_at, labels, annotations; sandbox_id = pod_sandbox_id
    }
    Network = PodSandboxNetworkStatus { ip, additional_ips; }
    SandboxStatus = PodSandboxStatus {
        id, metadata, state, created_at, network, labels, annotations; host_network = linux
    }
    SandboxStatusAnswer = PodSandboxStatusResponse { status, timestamp; containers = containers_statuses }
    Mount = Mount { container_path, host_path, readonly; }
    ContainerStatus = ContainerStatus {
        id, metadata, state, created_at, started_at, finished_at, exit_code, image, image_ref, reason, message,
        labels, annotations, mounts, log_path;
    }
    ContainerEvent = ContainerEventResponse {
        container_id, created_at;
        kind = container_event_type, sandbox = pod_sandbox_status, containers = containers_statuses
    }
}

/// Values that are the same in a message.
macro_rules! unchanged {
    ($($value:ty),*) => {$(
        impl Wire<Self> for $value {
            fn from_wire(wire: Self) -> Self {
                wire
            }

            fn into_wire(self) -> Self {
                self
            }
        }
    )*};
}

unchanged!(String, bool, i32, i64, u32);

impl<W, T: Wire<W>> Wire<Option<W>> for Option<T> {
    fn from_wire(wire: Option<W>) -> Self {
        wire.map(T::from_wire)
    }

    fn into_wire(self) -> Option<W> {
        self.map(T::into_wire)
    }
}

impl<W, T: Wire<W>> Wire<Vec<W>> for Vec<T> {
    fn from_wire(wire: Vec<W>) -> Self {
        wire.into_iter().map(T::from_wire).collect()
    }

    fn into_wire(self) -> Vec<W> {
        self.into_iter().map(T::into_wire).collect()
    }
}

impl Wire<wire::PodIp> for String {
    fn from_wire(wire: wire::PodIp) -> Self {
        wire.ip
    }

    fn into_wire(self) -> wire::PodIp {
        wire::PodIp { ip: self }
    }
}

impl Wire<Vec<wire::Pair>> for Labels {
    fn from_wire(pairs: Vec<wire::Pair>) -> Self {
        pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    fn into_wire(self) -> Vec<wire::Pair> {
        self.iter().map(|(key, value)| wire::Pair { key: key.to_owned(), value: value.to_owned() }).collect()
    }
}

impl Wire<i32> for SandboxState {
    fn from_wire(number: i32) -> Self {
        match wire::PodSandboxState::try_from(number) {
            Ok(wire::PodSandboxState::SandboxReady) => Self::Ready,
            Ok(wire::PodSandboxState::SandboxNotready) => Self::NotReady,
            Err(_) => Self::Unknown,
        }
    }

    fn into_wire(self) -> i32 {
        match self {
            Self::Ready => wire::PodSandboxState::SandboxReady.into(),
            Self::NotReady => wire::PodSandboxState::SandboxNotready.into(),
            Self::Unknown => UNDEFINED_STATE,
        }
    }
}

impl Wire<i32> for ContainerState {
    fn from_wire(number: i32) -> Self {
        match wire::ContainerState::try_from(number) {
            Ok(wire::ContainerState::ContainerCreated) => Self::Created,
            Ok(wire::ContainerState::ContainerRunning) => Self::Running,
            Ok(wire::ContainerState::ContainerExited) => Self::Exited,
            Ok(wire::ContainerState::ContainerUnknown) | Err(_) => Self::Unknown,
        }
    }

    fn into_wire(self) -> i32 {
        match self {
            Self::Created => wire::ContainerState::ContainerCreated,
            Self::Running => wire::ContainerState::ContainerRunning,
            Self::Exited => wire::ContainerState::ContainerExited,
            Self::Unknown => wire::ContainerState::ContainerUnknown,
        }
        .into()
    }
}

impl Wire<i32> for ContainerEventType {
    fn from_wire(number: i32) -> Self {
        match wire::ContainerEventType::try_from(number) {
            Ok(wire::ContainerEventType::ContainerCreatedEvent) => Self::Created,
            Ok(wire::ContainerEventType::ContainerStartedEvent) => Self::Started,
            Ok(wire::ContainerEventType::ContainerStoppedEvent) => Self::Stopped,
            Ok(wire::ContainerEventType::ContainerDeletedEvent) => Self::Deleted,
            Err(_) => Self::Other(number),
        }
    }

    fn into_wire(self) -> i32 {
        match self {
            Self::Created => wire::ContainerEventType::ContainerCreatedEvent.into(),
            Self::Started => wire::ContainerEventType::ContainerStartedEvent.into(),
            Self::Stopped => wire::ContainerEventType::ContainerStoppedEvent.into(),
            Self::Deleted => wire::ContainerEventType::ContainerDeletedEvent.into(),
            Self::Other(number) => number,
        }
    }
}

/// Whether a pod uses the node's network.
impl Wire<Option<wire::LinuxPodSandboxStatus>> for Option<bool> {
    fn from_wire(linux: Option<wire::LinuxPodSandboxStatus>) -> Self {
        let options = linux?.namespaces?.options?;
        Some(options.network() == wire::NamespaceMode::Node)
    }

    fn into_wire(self) -> Option<wire::LinuxPodSandboxStatus> {
        let mode = if self? { wire::NamespaceMode::Node } else { wire::NamespaceMode::Pod };
        let options = wire::NamespaceOption { network: mode.into() };
        Some(wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options: Some(options) }) })
    }
}

impl From<wire::StatusResponse> for RuntimeStatus {
    fn from(wire: wire::StatusResponse) -> Self {
        wire.status.unwrap_or_default().into()
    }
}

/// Converts the answer into the cgroup driver; `None` for a number that the CRI does not define.
pub fn cgroup_driver(wire: wire::RuntimeConfigResponse) -> Option<CgroupDriver> {
    match wire::CgroupDriver::try_from(wire.linux?.cgroup_driver).ok()? {
        wire::CgroupDriver::Systemd => Some(CgroupDriver::Systemd),
        wire::CgroupDriver::Cgroupfs => Some(CgroupDriver::Cgroupfs),
    }
}

/// Creates the message from which [`cgroup_driver`] reads the driver.
pub(super) fn runtime_config(driver: CgroupDriver) -> wire::RuntimeConfigResponse {
    let driver = match driver {
        CgroupDriver::Systemd => wire::CgroupDriver::Systemd,
        CgroupDriver::Cgroupfs => wire::CgroupDriver::Cgroupfs,
    };
    wire::RuntimeConfigResponse {
        linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: driver.into() }),
    }
}

fn pairs(labels: &[(String, String)]) -> Vec<wire::Pair> {
    labels.iter().map(|(key, value)| wire::Pair { key: key.clone(), value: value.clone() }).collect()
}

/// Returns the wire message for `filter`. The kubelet always sends a filter, even an empty one, and so does plegctl.
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

/// Converts a filter of containers. plegctl always sends a filter, even an empty one, as the kubelet does.
pub fn container_filter(filter: &Filter<ContainerState>) -> wire::ContainerFilter {
    wire::ContainerFilter {
        id: String::new(),
        state: filter.state.map(|state| wire::ContainerStateValue { state: state.into_wire() }),
        pod_sandbox_id: String::new(),
        label_selector: pairs(&filter.labels),
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
