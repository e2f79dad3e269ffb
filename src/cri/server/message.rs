//! The answers of the CRI as they are on the wire, made of plain node types.
//!
//! The items of a list are its first field, in the streamed lists too, and repeated fields may be written in pieces:
//! what [`sandboxes`] or [`containers`] made can be put behind what it made before.

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
