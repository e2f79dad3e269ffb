// This file is @generated from proto/pods.proto by tests/generated.rs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListPodsRequest {}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPodsResponse {
    #[prost(message, repeated, tag = "1")]
    pub pods: ::prost::alloc::vec::Vec<Pod>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub key: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub value: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Pod {
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: ::core::option::Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: ::core::option::Option<PodStatus>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    #[prost(string, tag = "5")]
    pub uid: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "8")]
    pub creation_timestamp: ::core::option::Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub deletion_timestamp: ::core::option::Option<Time>,
    #[prost(int64, optional, tag = "10")]
    pub deletion_grace_period_seconds: ::core::option::Option<i64>,
    #[prost(message, repeated, tag = "11")]
    pub labels: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "12")]
    pub annotations: ::prost::alloc::vec::Vec<Pair>,
    #[prost(message, repeated, tag = "13")]
    pub owner_references: ::prost::alloc::vec::Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    pub finalizers: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct OwnerReference {
    #[prost(string, tag = "1")]
    pub kind: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub uid: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodSpec {
    #[prost(message, repeated, tag = "1")]
    pub volumes: ::prost::alloc::vec::Vec<Volume>,
    #[prost(message, repeated, tag = "2")]
    pub containers: ::prost::alloc::vec::Vec<Container>,
    #[prost(string, tag = "3")]
    pub restart_policy: ::prost::alloc::string::String,
    #[prost(int64, optional, tag = "4")]
    pub termination_grace_period_seconds: ::core::option::Option<i64>,
    #[prost(string, tag = "10")]
    pub node_name: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "20")]
    pub init_containers: ::prost::alloc::vec::Vec<Container>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "12")]
    pub lifecycle: ::core::option::Option<Lifecycle>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Lifecycle {
    #[prost(message, optional, tag = "1")]
    pub post_start: ::core::option::Option<LifecycleHandler>,
    #[prost(message, optional, tag = "2")]
    pub pre_stop: ::core::option::Option<LifecycleHandler>,
}
/// Only whether there is a handler is of interest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LifecycleHandler {}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Volume {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub volume_source: ::core::option::Option<VolumeSource>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VolumeSource {
    #[prost(message, optional, tag = "7")]
    pub nfs: ::core::option::Option<NfsVolumeSource>,
    #[prost(message, optional, tag = "10")]
    pub persistent_volume_claim: ::core::option::Option<PersistentVolumeClaimVolumeSource>,
    #[prost(message, optional, tag = "28")]
    pub csi: ::core::option::Option<CsiVolumeSource>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NfsVolumeSource {
    #[prost(string, tag = "1")]
    pub server: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub path: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PersistentVolumeClaimVolumeSource {
    #[prost(string, tag = "1")]
    pub claim_name: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CsiVolumeSource {
    #[prost(string, tag = "1")]
    pub driver: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PodStatus {
    #[prost(string, tag = "1")]
    pub phase: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "2")]
    pub conditions: ::prost::alloc::vec::Vec<PodCondition>,
    #[prost(string, tag = "3")]
    pub message: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub reason: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "7")]
    pub start_time: ::core::option::Option<Time>,
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: ::prost::alloc::vec::Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    pub init_container_statuses: ::prost::alloc::vec::Vec<ContainerStatus>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PodCondition {
    #[prost(string, tag = "1")]
    pub r#type: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub status: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: ::core::option::Option<Time>,
    #[prost(string, tag = "5")]
    pub reason: ::prost::alloc::string::String,
    #[prost(string, tag = "6")]
    pub message: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub state: ::core::option::Option<ContainerState>,
    #[prost(message, optional, tag = "3")]
    pub last_state: ::core::option::Option<ContainerState>,
    #[prost(bool, tag = "4")]
    pub ready: bool,
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
    #[prost(string, tag = "8")]
    pub container_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerState {
    #[prost(message, optional, tag = "1")]
    pub waiting: ::core::option::Option<ContainerStateWaiting>,
    #[prost(message, optional, tag = "2")]
    pub running: ::core::option::Option<ContainerStateRunning>,
    #[prost(message, optional, tag = "3")]
    pub terminated: ::core::option::Option<ContainerStateTerminated>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStateWaiting {
    #[prost(string, tag = "1")]
    pub reason: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub message: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStateRunning {
    #[prost(message, optional, tag = "1")]
    pub started_at: ::core::option::Option<Time>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ContainerStateTerminated {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    #[prost(string, tag = "3")]
    pub reason: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "5")]
    pub started_at: ::core::option::Option<Time>,
    #[prost(message, optional, tag = "6")]
    pub finished_at: ::core::option::Option<Time>,
}
