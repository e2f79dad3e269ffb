//! Encodes the plain types of `cri::node` as the answers of the CRI.
//!
//! In all lists, the items are the first field, and protobuf allows a repeated field in several pieces. So the results of
//! several calls of [`sandboxes`] or [`containers`] can be concatenated into one list.

use prost::bytes::Bytes;

use crate::cri::codec::encoded;
use crate::cri::convert;
use crate::cri::generated as wire;
use crate::cri::{
    CgroupDriver, Container, ContainerEvent, ContainerStatus, RuntimeStatus, Sandbox, SandboxStatusAnswer,
    Version,
};

/// Encodes the answer to `Version`.
pub fn version(version: Version) -> Bytes {
    encoded(&wire::VersionResponse::from(version))
}

/// Encodes the answer to `Status`.
pub fn status(status: RuntimeStatus) -> Bytes {
    encoded(&wire::StatusResponse { status: Some(status.into()) })
}

/// Encodes the answer to `RuntimeConfig`.
pub fn runtime_config(driver: CgroupDriver) -> Bytes {
    encoded(&convert::runtime_config(driver))
}

/// Encodes items of `ListPodSandbox` or `StreamPodSandboxes`.
pub fn sandboxes(sandboxes: impl IntoIterator<Item = Sandbox>) -> Bytes {
    encoded(&wire::ListPodSandboxResponse { items: sandboxes.into_iter().map(Into::into).collect() })
}

/// Encodes items of `ListContainers` or `StreamContainers`.
pub fn containers(containers: impl IntoIterator<Item = Container>) -> Bytes {
    encoded(&wire::ListContainersResponse { containers: containers.into_iter().map(Into::into).collect() })
}

/// Encodes the answer to `PodSandboxStatus`.
pub fn sandbox_status(answer: SandboxStatusAnswer) -> Bytes {
    encoded(&wire::PodSandboxStatusResponse::from(answer))
}

/// Encodes the answer to `ContainerStatus`; `None` for an answer without a status.
pub fn container_status(status: Option<ContainerStatus>) -> Bytes {
    encoded(&wire::ContainerStatusResponse { status: status.map(Into::into) })
}

/// Encodes one message of `GetContainerEvents`.
pub fn event(event: ContainerEvent) -> Bytes {
    encoded(&wire::ContainerEventResponse::from(event))
}
