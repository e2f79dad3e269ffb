//! The RPCs that plegctl can send: a closed list, all read-only.

use std::fmt;

/// An RPC of the CRI. plegctl can send no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rpc {
    /// Name and version of the runtime. Runtimes answer it without taking a container's lock.
    Version,
    /// Runtime and network readiness.
    Status,
    /// The cgroup driver.
    RuntimeConfig,
    /// Every pod sandbox.
    ListPodSandbox,
    /// One pod sandbox.
    PodSandboxStatus,
    /// Every container.
    ListContainers,
    /// One container.
    ContainerStatus,
    /// The stream of container events.
    GetContainerEvents,
    /// Every pod sandbox, in batches.
    StreamPodSandboxes,
    /// Every container, in batches.
    StreamContainers,
    /// Usage of one container; the only read-only call that reaches the container's shim.
    ContainerStats,
}

impl Rpc {
    /// All RPCs.
    pub const ALL: [Self; 11] = [
        Self::Version,
        Self::Status,
        Self::RuntimeConfig,
        Self::ListPodSandbox,
        Self::PodSandboxStatus,
        Self::ListContainers,
        Self::ContainerStatus,
        Self::GetContainerEvents,
        Self::StreamPodSandboxes,
        Self::StreamContainers,
        Self::ContainerStats,
    ];

    /// The name in the CRI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::Status => "Status",
            Self::RuntimeConfig => "RuntimeConfig",
            Self::ListPodSandbox => "ListPodSandbox",
            Self::PodSandboxStatus => "PodSandboxStatus",
            Self::ListContainers => "ListContainers",
            Self::ContainerStatus => "ContainerStatus",
            Self::GetContainerEvents => "GetContainerEvents",
            Self::StreamPodSandboxes => "StreamPodSandboxes",
            Self::StreamContainers => "StreamContainers",
            Self::ContainerStats => "ContainerStats",
        }
    }

    /// The full gRPC method path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Version => "/runtime.v1.RuntimeService/Version",
            Self::Status => "/runtime.v1.RuntimeService/Status",
            Self::RuntimeConfig => "/runtime.v1.RuntimeService/RuntimeConfig",
            Self::ListPodSandbox => "/runtime.v1.RuntimeService/ListPodSandbox",
            Self::PodSandboxStatus => "/runtime.v1.RuntimeService/PodSandboxStatus",
            Self::ListContainers => "/runtime.v1.RuntimeService/ListContainers",
            Self::ContainerStatus => "/runtime.v1.RuntimeService/ContainerStatus",
            Self::GetContainerEvents => "/runtime.v1.RuntimeService/GetContainerEvents",
            Self::StreamPodSandboxes => "/runtime.v1.RuntimeService/StreamPodSandboxes",
            Self::StreamContainers => "/runtime.v1.RuntimeService/StreamContainers",
            Self::ContainerStats => "/runtime.v1.RuntimeService/ContainerStats",
        }
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
