//! The CRI messages of the harness with their calls. Messages that plegctl reads come from plegctl's own proto file.
//! The calls that create, change and remove pods are only here, with the fields that a test sets, because plegctl must
//! never be able to send them. Names, numbers and types are those of the CRI.

use std::collections::HashMap;

use prost::Message;

#[path = "../../support/wire.rs"]
pub mod product;

pub use product::{
    Container, ContainerMetadata, ContainerState, ContainerStatus, ContainerStatusRequest, ImageSpec,
    ListContainersRequest, ListPodSandboxRequest, Mount, NamespaceMode, Pair, PodSandbox, PodSandboxMetadata,
    PodSandboxState, VersionRequest, VersionResponse,
};
use product::{ContainerStatusResponse, ListContainersResponse, ListPodSandboxResponse};

/// A request with its RPC and its answer type.
pub trait Request: Message + 'static {
    /// `/SERVICE/METHOD`.
    const PATH: &'static str;
    /// The type of the answer.
    type Answer: Message + Default + 'static;
}

macro_rules! calls {
    ($($service:literal $method:literal: $request:ty => $answer:ty,)*) => {
        $(impl Request for $request {
            const PATH: &'static str = concat!("/runtime.v1.", $service, "/", $method);
            type Answer = $answer;
        })*
    };
}

calls! {
    "RuntimeService" "Version": VersionRequest => VersionResponse,
    "RuntimeService" "ListPodSandbox": ListPodSandboxRequest => ListPodSandboxResponse,
    "RuntimeService" "ListContainers": ListContainersRequest => ListContainersResponse,
    "RuntimeService" "ContainerStatus": ContainerStatusRequest => ContainerStatusResponse,
    "ImageService" "ImageStatus": ImageStatusRequest => ImageStatusResponse,
    "RuntimeService" "RunPodSandbox": RunPodSandboxRequest => RunPodSandboxResponse,
    "RuntimeService" "StopPodSandbox": StopPodSandboxRequest => Nothing,
    "RuntimeService" "RemovePodSandbox": RemovePodSandboxRequest => Nothing,
    "RuntimeService" "CreateContainer": CreateContainerRequest => CreateContainerResponse,
    "RuntimeService" "StartContainer": StartContainerRequest => Nothing,
    "RuntimeService" "StopContainer": StopContainerRequest => Nothing,
    "RuntimeService" "RemoveContainer": RemoveContainerRequest => Nothing,
    "RuntimeService" "UpdateContainerResources": UpdateContainerResourcesRequest => Nothing,
}

/// An answer without fields.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// An image, of which the tests read no field.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub image: Option<Nothing>,
}

/// No test sets a field of this message, but runtimes expect it to be present.
#[derive(Clone, PartialEq, Message)]
pub struct DnsConfig {}

/// The namespaces of a pod: its own or the host's. Pods in the host's network need no CNI plugin.
#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOption {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub network: i32,
    #[prost(enumeration = "NamespaceMode", tag = "2")]
    pub pid: i32,
    #[prost(enumeration = "NamespaceMode", tag = "3")]
    pub ipc: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub namespace_options: Option<NamespaceOption>,
    /// Only such a pod may have a privileged container.
    #[prost(bool, tag = "6")]
    pub privileged: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxPodSandboxConfig {
    /// The parent of all cgroups of the pod. `reap.sh` finds the processes of a test by this cgroup.
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<LinuxSandboxSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "3")]
    pub log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub dns_config: Option<DnsConfig>,
    #[prost(map = "string, string", tag = "6")]
    pub labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "7")]
    pub annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StopPodSandboxRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RemovePodSandboxRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Int64Value {
    #[prost(int64, tag = "1")]
    pub value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SecurityProfile {
    /// `RuntimeDefault` is 0, `Unconfined` 1.
    #[prost(int32, tag = "1")]
    pub profile_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Capability {
    #[prost(string, repeated, tag = "1")]
    pub add_capabilities: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub drop_capabilities: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub capabilities: Option<Capability>,
    #[prost(bool, tag = "2")]
    pub privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub run_as_user: Option<Int64Value>,
    #[prost(bool, tag = "7")]
    pub readonly_rootfs: bool,
    #[prost(bool, tag = "11")]
    pub no_new_privs: bool,
    #[prost(message, optional, tag = "12")]
    pub run_as_group: Option<Int64Value>,
    #[prost(message, optional, tag = "15")]
    pub seccomp: Option<SecurityProfile>,
}

/// Runtimes expect this message to be present even if no field is set.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerConfig {
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<LinuxContainerSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub args: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub envs: Vec<Pair>,
    #[prost(message, repeated, tag = "7")]
    pub mounts: Vec<Mount>,
    #[prost(map = "string, string", tag = "9")]
    pub labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "10")]
    pub annotations: HashMap<String, String>,
    /// Relative to the pod's log directory.
    #[prost(string, tag = "11")]
    pub log_path: String,
    #[prost(message, optional, tag = "15")]
    pub linux: Option<LinuxContainerConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    /// The configuration of the sandbox again.
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StartContainerRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// Seconds between SIGTERM and SIGKILL.
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RemoveContainerRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerResources {
    #[prost(int64, tag = "3")]
    pub cpu_shares: i64,
}

/// Makes containerd hold a container's status lock while it waits for the shim.
#[derive(Clone, PartialEq, Message)]
pub struct UpdateContainerResourcesRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerResources>,
}
