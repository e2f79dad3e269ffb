//! The default answers of the fake runtime, for each kind of runtime.

use plegctl_engine::cri::server::{Bytes, ServiceError};
use plegctl_engine::cri::{Code, Rpc};
use prost::Message;

use super::events::Attempt;
use super::node::{Node, encode};
use super::wire::{self, pair};

/// The number of entries in one message of a streamed list.
pub const STREAM_BATCH: usize = 1000;

/// The runtime that the fake behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// 1.6.20: no events, no `RuntimeConfig`.
    Containerd16,
    /// 1.7.24: each event goes to one subscriber only; no `RuntimeConfig`.
    Containerd17,
    /// 2.1.9: every subscriber gets every event.
    Containerd21,
    /// 2.4.0: like 2.1.9, and lists can be streamed.
    Containerd24,
    /// CRI-O 1.36.3 with pod events off, which is its default.
    Crio,
    /// CRI-O 1.36.3 with pod events on.
    CrioWithEvents,
}

impl RuntimeKind {
    /// Returns the error with which this runtime refuses an RPC that it does not implement.
    pub(super) fn refusal(self, rpc: Rpc) -> Option<ServiceError> {
        match rpc {
            Rpc::GetContainerEvents if self == Self::Containerd16 => {
                Some(ServiceError::new(Code::Unimplemented, "method GetContainerEvents not implemented"))
            }
            Rpc::RuntimeConfig if matches!(self, Self::Containerd16 | Self::Containerd17) => {
                Some(ServiceError::unknown_method(rpc))
            }
            Rpc::StreamPodSandboxes | Rpc::StreamContainers if !self.streams_lists() => {
                Some(ServiceError::unknown_method(rpc))
            }
            _ => None,
        }
    }

    /// Whether this runtime also sends lists in batches.
    fn streams_lists(self) -> bool {
        !matches!(self, Self::Containerd16 | Self::Containerd17 | Self::Containerd21)
    }

    /// Returns how this runtime answers `GetContainerEvents` by default.
    pub(super) fn stream(self) -> Attempt {
        if self == Self::Crio { Attempt::eof() } else { Attempt::open() }
    }

    /// Whether this runtime is CRI-O.
    fn is_crio(self) -> bool {
        matches!(self, Self::Crio | Self::CrioWithEvents)
    }

    /// Returns the answer to `Version`.
    fn version(self) -> wire::VersionResponse {
        let (name, version) = match self {
            Self::Containerd16 => ("containerd", "1.6.20~ds1"),
            Self::Containerd17 => ("containerd", "1.7.24~ds1"),
            Self::Containerd21 => ("containerd", "2.1.9+unknown"),
            Self::Containerd24 => ("containerd", "2.4.0"),
            Self::Crio | Self::CrioWithEvents => ("cri-o", "1.36.3"),
        };
        wire::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: name.to_owned(),
            runtime_version: version.to_owned(),
            runtime_api_version: "v1".to_owned(),
        }
    }

    /// Returns the answer to `Status`.
    fn status(self) -> wire::StatusResponse {
        let mut names = vec!["RuntimeReady", "NetworkReady"];
        if !self.is_crio() {
            names.push("ContainerdHasNoDeprecationWarnings");
        }
        let condition = |name: &str| wire::RuntimeCondition {
            r#type: name.to_owned(),
            status: true,
            ..wire::RuntimeCondition::default()
        };
        let conditions = names.into_iter().map(condition).collect();
        wire::StatusResponse { status: Some(wire::RuntimeStatus { conditions }) }
    }

    /// Returns the answer to `RuntimeConfig`.
    fn config(self) -> wire::RuntimeConfigResponse {
        let driver = if self.is_crio() { wire::CgroupDriver::Systemd } else { wire::CgroupDriver::Cgroupfs };
        wire::RuntimeConfigResponse {
            linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: driver.into() }),
        }
    }
}

/// The part of a request that the fake evaluates.
#[derive(Debug)]
pub(super) enum RequestTarget {
    Plain,
    Id(String),
    Sandboxes(wire::PodSandboxFilter),
    Containers(wire::ContainerFilter),
}

impl RequestTarget {
    /// Decodes a request.
    pub(super) fn decode(rpc: Rpc, bytes: Bytes) -> Result<Self, prost::DecodeError> {
        Ok(match rpc {
            Rpc::ListPodSandbox => {
                Self::Sandboxes(wire::ListPodSandboxRequest::decode(bytes)?.filter.unwrap_or_default())
            }
            Rpc::StreamPodSandboxes => {
                Self::Sandboxes(wire::StreamPodSandboxesRequest::decode(bytes)?.filter.unwrap_or_default())
            }
            Rpc::ListContainers => {
                Self::Containers(wire::ListContainersRequest::decode(bytes)?.filter.unwrap_or_default())
            }
            Rpc::StreamContainers => {
                Self::Containers(wire::StreamContainersRequest::decode(bytes)?.filter.unwrap_or_default())
            }
            Rpc::PodSandboxStatus => Self::Id(wire::PodSandboxStatusRequest::decode(bytes)?.pod_sandbox_id),
            Rpc::ContainerStatus => Self::Id(wire::ContainerStatusRequest::decode(bytes)?.container_id),
            Rpc::ContainerStats => Self::Id(wire::ContainerStatsRequest::decode(bytes)?.container_id),
            Rpc::Version | Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => Self::Plain,
        })
    }

    /// Returns the requested id, or the filter as text.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Plain => String::new(),
            Self::Id(id) => id.clone(),
            Self::Sandboxes(filter) => {
                let state = filter.state.map(|value| value.state().as_str_name());
                filter_text(&[("id", &filter.id)], state, &filter.label_selector)
            }
            Self::Containers(filter) => {
                let state = filter.state.map(|value| value.state().as_str_name());
                let ids = [("id", filter.id.as_str()), ("pod_sandbox_id", &filter.pod_sandbox_id)];
                filter_text(&ids, state, &filter.label_selector)
            }
        }
    }

    /// Whether this is an unfiltered sandbox list, with which a relist begins.
    pub(super) fn begins_relist(&self) -> bool {
        matches!(self, Self::Sandboxes(filter) if *filter == wire::PodSandboxFilter::default())
    }
}

/// Describes a filter for the log of calls.
fn filter_text(ids: &[(&str, &str)], state: Option<&str>, labels: &[wire::Pair]) -> String {
    let ids = ids.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={value}"));
    let state = state.map(|state| format!("state={state}"));
    let labels = labels.iter().map(|label| format!("{}={}", label.key, label.value));
    ids.chain(state).chain(labels).collect::<Vec<_>>().join(",")
}

/// Returns the messages of the default answer; with `pad`, they have at least this number of bytes.
pub(super) fn plain(
    kind: RuntimeKind,
    node: &Node,
    rpc: Rpc,
    target: &RequestTarget,
    pad: usize,
) -> Result<Vec<Bytes>, ServiceError> {
    if let Some(status) = kind.refusal(rpc) {
        return Err(status);
    }
    let one = match (rpc, target) {
        (Rpc::Status, _) => encode(&kind.status()),
        (Rpc::RuntimeConfig, _) => encode(&kind.config()),
        (Rpc::PodSandboxStatus, RequestTarget::Id(id)) => encode(&sandbox_status(kind, node, id, pad)?),
        (Rpc::ContainerStatus, RequestTarget::Id(id)) => encode(&container_status(node, id, pad)?),
        (Rpc::ContainerStats, RequestTarget::Id(id)) => {
            container_status(node, id, 0)?;
            encode(&wire::ContainerStatsResponse {})
        }
        (_, RequestTarget::Sandboxes(filter)) => return Ok(sandbox_list(node, rpc, filter, pad)),
        (_, RequestTarget::Containers(filter)) => return Ok(container_list(node, rpc, filter, pad)),
        _ => encode(&kind.version()),
    };
    Ok(vec![one])
}

/// Returns the answer to `PodSandboxStatus`.
fn sandbox_status(
    kind: RuntimeKind,
    node: &Node,
    id: &str,
    pad: usize,
) -> Result<wire::PodSandboxStatusResponse, ServiceError> {
    let mut status = node.find_sandbox(id).cloned().ok_or_else(|| {
        ServiceError::new(Code::NotFound, "an error occurred when try to find sandbox: not found")
    })?;
    status.annotations.extend(padding(pad));
    let mut answer = wire::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
    if kind == RuntimeKind::CrioWithEvents {
        answer.containers_statuses = node.containers_of(id);
        answer.timestamp = super::events::unix_nanos();
    }
    Ok(answer)
}

/// Returns the answer to `ContainerStatus`.
fn container_status(
    node: &Node,
    id: &str,
    pad: usize,
) -> Result<wire::ContainerStatusResponse, ServiceError> {
    let found = node.find_container(id).ok_or_else(|| {
        ServiceError::new(
            Code::NotFound,
            format!("an error occurred when try to find container \"{id}\": not found"),
        )
    })?;
    let mut status = found.status.clone();
    status.annotations.extend(padding(pad));
    Ok(wire::ContainerStatusResponse { status: Some(status) })
}

/// Returns the messages that answer a list call for sandboxes.
fn sandbox_list(node: &Node, rpc: Rpc, filter: &wire::PodSandboxFilter, pad: usize) -> Vec<Bytes> {
    if rpc == Rpc::ListPodSandbox && pad == 0 && *filter == wire::PodSandboxFilter::default() {
        return vec![node.sandbox_list()];
    }
    let mut items = node.list_sandboxes(filter);
    if let Some(first) = items.first_mut() {
        first.annotations.extend(padding(pad));
    }
    if rpc == Rpc::ListPodSandbox {
        return vec![encode(&wire::ListPodSandboxResponse { items })];
    }
    let batches = items.chunks(STREAM_BATCH);
    batches.map(|batch| encode(&wire::StreamPodSandboxesResponse { pod_sandboxes: batch.to_vec() })).collect()
}

/// Returns the messages that answer a list call for containers.
fn container_list(node: &Node, rpc: Rpc, filter: &wire::ContainerFilter, pad: usize) -> Vec<Bytes> {
    if rpc == Rpc::ListContainers && pad == 0 && *filter == wire::ContainerFilter::default() {
        return vec![node.container_list()];
    }
    let mut containers = node.list_containers(filter);
    if let Some(first) = containers.first_mut() {
        first.annotations.extend(padding(pad));
    }
    if rpc == Rpc::ListContainers {
        return vec![encode(&wire::ListContainersResponse { containers })];
    }
    let batches = containers.chunks(STREAM_BATCH);
    batches.map(|batch| encode(&wire::StreamContainersResponse { containers: batch.to_vec() })).collect()
}

/// Returns an annotation of this size.
fn padding(bytes: usize) -> Option<wire::Pair> {
    (bytes > 0).then(|| pair("plegctl.test/padding", &"x".repeat(bytes)))
}
