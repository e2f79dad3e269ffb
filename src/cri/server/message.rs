//! Encodes the answers of the CRI from plain node types.
//!
//! The items of a list are its first field, also in the streamed lists, and protobuf allows a repeated field in
//! pieces. The results of several calls of [`sandboxes`] or [`containers`] can therefore be concatenated.

use prost::Message;
use prost::bytes::Bytes;

use crate::cri::generated as wire;
use crate::cri::{
    CgroupDriver, Container, ContainerEvent, ContainerStatus, RuntimeStatus, Sandbox, SandboxStatusAnswer,
    Version,
};

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Answer to `Version`.
pub fn version(version: Version) -> Bytes {
    encoded(&wire::VersionResponse::from(version))
}

/// Answer to `Status`.
pub fn status(status: RuntimeStatus) -> Bytes {
    encoded(&wire::StatusResponse::from(status))
}

/// Answer to `RuntimeConfig`.
pub fn runtime_config(driver: CgroupDriver) -> Bytes {
    encoded(&wire::RuntimeConfigResponse::from(driver))
}

/// Items of `ListPodSandbox` or `StreamPodSandboxes`.
pub fn sandboxes(sandboxes: impl IntoIterator<Item = Sandbox>) -> Bytes {
    encoded(&wire::ListPodSandboxResponse { items: sandboxes.into_iter().map(Into::into).collect() })
}

/// Items of `ListContainers` or `StreamContainers`.
pub fn containers(containers: impl IntoIterator<Item = Container>) -> Bytes {
    encoded(&wire::ListContainersResponse { containers: containers.into_iter().map(Into::into).collect() })
}

/// Answer to `PodSandboxStatus`.
pub fn sandbox_status(answer: SandboxStatusAnswer) -> Bytes {
    encoded(&wire::PodSandboxStatusResponse::from(answer))
}

/// Answer to `ContainerStatus`; `None` is one without a status.
pub fn container_status(status: Option<ContainerStatus>) -> Bytes {
    encoded(&wire::ContainerStatusResponse { status: status.map(Into::into) })
}

/// One message of `GetContainerEvents`.
pub fn event(event: ContainerEvent) -> Bytes {
    encoded(&wire::ContainerEventResponse::from(event))
}
