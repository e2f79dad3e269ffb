// This file is @generated from proto/cri.proto by tests/generated.rs.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub key: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub value: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VersionRequest {
    #[prost(string, tag = "1")]
    pub version: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VersionResponse {
    #[prost(string, tag = "1")]
    pub version: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub runtime_name: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub runtime_version: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub runtime_api_version: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub verbose: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: ::core::option::Option<RuntimeStatus>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub conditions: ::prost::alloc::vec::Vec<RuntimeCondition>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub r#type: ::prost::alloc::string::String,
    #[prost(bool, tag = "2")]
    pub status: bool,
    #[prost(string, tag = "3")]
    pub reason: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub message: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RuntimeConfigRequest {}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RuntimeConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub linux: ::core::option::Option<LinuxRuntimeConfiguration>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LinuxRuntimeConfiguration {
    #[prost(enumeration = "CgroupDriver", tag = "1")]
    pub cgroup_driver: i32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodSandboxStateValue {
    #[prost(enumeration = "PodSandboxState", tag = "1")]
    pub state: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxFilter {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub state: ::core::option::Option<PodSandboxStateValue>,
    #[prost(message, repeated, tag = "3")]
    pub label_selector: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<PodSandboxFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub items: ::prost::alloc::vec::Vec<PodSandbox>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamPodSandboxesRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<PodSandboxFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamPodSandboxesResponse {
    #[prost(message, repeated, tag = "1")]
    pub pod_sandboxes: ::prost::alloc::vec::Vec<PodSandbox>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub uid: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandbox {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<PodSandboxMetadata>,
    #[prost(enumeration = "PodSandboxState", tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(message, repeated, tag = "5")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "6")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: ::prost::alloc::string::String,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: ::core::option::Option<PodSandboxStatus>,
    #[prost(message, repeated, tag = "3")]
    pub containers_statuses: ::prost::alloc::vec::Vec<ContainerStatus>,
    #[prost(int64, tag = "4")]
    pub timestamp: i64,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<PodSandboxMetadata>,
    #[prost(enumeration = "PodSandboxState", tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(message, optional, tag = "5")]
    pub network: ::core::option::Option<PodSandboxNetworkStatus>,
    #[prost(message, optional, tag = "6")]
    pub linux: ::core::option::Option<LinuxPodSandboxStatus>,
    #[prost(message, repeated, tag = "7")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "8")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    pub ip: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "2")]
    pub additional_ips: ::prost::alloc::vec::Vec<PodIp>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodIp {
    #[prost(string, tag = "1")]
    pub ip: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LinuxPodSandboxStatus {
    #[prost(message, optional, tag = "1")]
    pub namespaces: ::core::option::Option<Namespace>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Namespace {
    #[prost(message, optional, tag = "2")]
    pub options: ::core::option::Option<NamespaceOption>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NamespaceOption {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub network: i32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStateValue {
    #[prost(enumeration = "ContainerState", tag = "1")]
    pub state: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerFilter {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub state: ::core::option::Option<ContainerStateValue>,
    #[prost(string, tag = "3")]
    pub pod_sandbox_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "4")]
    pub label_selector: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<ContainerFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: ::prost::alloc::vec::Vec<Container>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<ContainerFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: ::prost::alloc::vec::Vec<Container>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ImageSpec {
    #[prost(string, tag = "1")]
    pub image: ::prost::alloc::string::String,
    #[prost(string, tag = "18")]
    pub user_specified_image: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub image: ::core::option::Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub image_ref: ::prost::alloc::string::String,
    #[prost(enumeration = "ContainerState", tag = "6")]
    pub state: i32,
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    #[prost(message, repeated, tag = "8")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "9")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub container_id: ::prost::alloc::string::String,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: ::core::option::Option<ContainerStatus>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<ContainerMetadata>,
    #[prost(enumeration = "ContainerState", tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(int64, tag = "5")]
    pub started_at: i64,
    #[prost(int64, tag = "6")]
    pub finished_at: i64,
    #[prost(int32, tag = "7")]
    pub exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub image: ::core::option::Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub image_ref: ::prost::alloc::string::String,
    #[prost(string, tag = "10")]
    pub reason: ::prost::alloc::string::String,
    #[prost(string, tag = "11")]
    pub message: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "12")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "13")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "14")]
    pub mounts: ::prost::alloc::vec::Vec<Mount>,
    #[prost(string, tag = "15")]
    pub log_path: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Mount {
    #[prost(string, tag = "1")]
    pub container_path: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub host_path: ::prost::alloc::string::String,
    #[prost(bool, tag = "3")]
    pub readonly: bool,
}
/// plegctl only checks whether an answer arrives, so ContainerStatsResponse has no fields.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStatsRequest {
    #[prost(string, tag = "1")]
    pub container_id: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStatsResponse {}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetEventsRequest {}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub container_id: ::prost::alloc::string::String,
    #[prost(enumeration = "ContainerEventType", tag = "2")]
    pub container_event_type: i32,
    #[prost(int64, tag = "3")]
    pub created_at: i64,
    #[prost(message, optional, tag = "4")]
    pub pod_sandbox_status: ::core::option::Option<PodSandboxStatus>,
    #[prost(message, repeated, tag = "5")]
    pub containers_statuses: ::prost::alloc::vec::Vec<ContainerStatus>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ImageFilter {
    #[prost(message, optional, tag = "1")]
    pub image: ::core::option::Option<ImageSpec>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListImagesRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<ImageFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub images: ::prost::alloc::vec::Vec<Image>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(uint64, tag = "4")]
    pub size: u64,
    #[prost(string, tag = "6")]
    pub username: ::prost::alloc::string::String,
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub image: ::core::option::Option<ImageSpec>,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub image: ::core::option::Option<Image>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub image_filesystems: ::prost::alloc::vec::Vec<FilesystemUsage>,
    #[prost(message, repeated, tag = "2")]
    pub container_filesystems: ::prost::alloc::vec::Vec<FilesystemUsage>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub mountpoint: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FilesystemUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub fs_id: ::core::option::Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub used_bytes: ::core::option::Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub inodes_used: ::core::option::Option<UInt64Value>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub usage_core_nano_seconds: ::core::option::Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub usage_nano_cores: ::core::option::Option<UInt64Value>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub working_set_bytes: ::core::option::Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub usage_bytes: ::core::option::Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub rss_bytes: ::core::option::Option<UInt64Value>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<ContainerMetadata>,
    #[prost(message, repeated, tag = "3")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "4")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: ::core::option::Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub cpu: ::core::option::Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub memory: ::core::option::Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub writable_layer: ::core::option::Option<FilesystemUsage>,
}
/// The complete ContainerStatsResponse, as the simulator sends it. plegctl itself reads no field of it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerUsageResponse {
    #[prost(message, optional, tag = "1")]
    pub stats: ::core::option::Option<ContainerStats>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContainerStatsFilter {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub label_selector: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListContainerStatsRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<ContainerStatsFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListContainerStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub stats: ::prost::alloc::vec::Vec<ContainerStats>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxStatsFilter {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "2")]
    pub label_selector: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPodSandboxStatsRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<PodSandboxStatsFilter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPodSandboxStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub stats: ::prost::alloc::vec::Vec<PodSandboxStats>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodSandboxStatsRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxStatsResponse {
    #[prost(message, optional, tag = "1")]
    pub stats: ::core::option::Option<PodSandboxStats>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxAttributes {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<PodSandboxMetadata>,
    #[prost(message, repeated, tag = "3")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "4")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LinuxPodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub cpu: ::core::option::Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub memory: ::core::option::Option<MemoryUsage>,
    #[prost(message, repeated, tag = "5")]
    pub containers: ::prost::alloc::vec::Vec<ContainerStats>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: ::core::option::Option<PodSandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub linux: ::core::option::Option<LinuxPodSandboxStats>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum CgroupDriver {
    Systemd = 0,
    Cgroupfs = 1,
}
impl CgroupDriver {
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Systemd => "SYSTEMD",
            Self::Cgroupfs => "CGROUPFS",
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PodSandboxState {
    SandboxReady = 0,
    SandboxNotready = 1,
}
impl PodSandboxState {
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::SandboxReady => "SANDBOX_READY",
            Self::SandboxNotready => "SANDBOX_NOTREADY",
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum NamespaceMode {
    Pod = 0,
    Container = 1,
    Node = 2,
    Target = 3,
}
impl NamespaceMode {
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Pod => "POD",
            Self::Container => "CONTAINER",
            Self::Node => "NODE",
            Self::Target => "TARGET",
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    ContainerCreated = 0,
    ContainerRunning = 1,
    ContainerExited = 2,
    ContainerUnknown = 3,
}
impl ContainerState {
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ContainerCreated => "CONTAINER_CREATED",
            Self::ContainerRunning => "CONTAINER_RUNNING",
            Self::ContainerExited => "CONTAINER_EXITED",
            Self::ContainerUnknown => "CONTAINER_UNKNOWN",
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ContainerEventType {
    ContainerCreatedEvent = 0,
    ContainerStartedEvent = 1,
    ContainerStoppedEvent = 2,
    ContainerDeletedEvent = 3,
}
impl ContainerEventType {
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ContainerCreatedEvent => "CONTAINER_CREATED_EVENT",
            Self::ContainerStartedEvent => "CONTAINER_STARTED_EVENT",
            Self::ContainerStoppedEvent => "CONTAINER_STOPPED_EVENT",
            Self::ContainerDeletedEvent => "CONTAINER_DELETED_EVENT",
        }
    }
}
