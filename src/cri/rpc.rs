//! The RPCs that plegctl can send: a closed list, all read-only.

use crate::kubelet::ListCalls;
use crate::report::word_enum;

// The macro adds the method `name`, which returns the word of an RPC, and the constant `ALL`, which contains all RPCs.
word_enum! {
    /// An RPC of the CRI. plegctl can send no other CRI RPC.
    #[derive(Hash, PartialOrd, Ord)]
    pub json enum Rpc: name {
        /// Name and version of the runtime. Runtimes answer it without taking a container's lock.
        Version = "Version",
        /// Runtime and network readiness.
        Status = "Status",
        /// The cgroup driver.
        RuntimeConfig = "RuntimeConfig",
        /// Every pod sandbox.
        ListPodSandbox = "ListPodSandbox",
        /// One pod sandbox.
        PodSandboxStatus = "PodSandboxStatus",
        /// Every container.
        ListContainers = "ListContainers",
        /// One container.
        ContainerStatus = "ContainerStatus",
        /// The stream of container events.
        GetContainerEvents = "GetContainerEvents",
        /// Every pod sandbox, in batches.
        StreamPodSandboxes = "StreamPodSandboxes",
        /// Every container, in batches.
        StreamContainers = "StreamContainers",
        /// Usage of one container; the only RPC in this list that reaches the container's shim.
        ContainerStats = "ContainerStats",
    } ALL
}

impl Rpc {
    /// Returns the RPC with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rpc| rpc.name() == name)
    }

    /// Returns the RPC that lists sandboxes, then the one that lists containers.
    pub const fn lists(calls: ListCalls) -> [Self; 2] {
        match calls {
            ListCalls::Unary => [Self::ListPodSandbox, Self::ListContainers],
            ListCalls::Stream => [Self::StreamPodSandboxes, Self::StreamContainers],
        }
    }

    /// Returns the call that lists the same in one message; every other call is its own.
    #[must_use]
    pub const fn unary(self) -> Self {
        match self {
            Self::StreamPodSandboxes => Self::ListPodSandbox,
            Self::StreamContainers => Self::ListContainers,
            other => other,
        }
    }

    /// Whether the call lists sandboxes or containers, in one message or with a stream.
    pub const fn is_list(self) -> bool {
        matches!(self.unary(), Self::ListPodSandbox | Self::ListContainers)
    }

    /// Whether the call lists with a stream.
    pub const fn is_streamed_list(self) -> bool {
        matches!(self, Self::StreamPodSandboxes | Self::StreamContainers)
    }

    /// Returns the full gRPC method path.
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
