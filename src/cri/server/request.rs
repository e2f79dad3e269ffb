//! Decodes the request of a received call into plain types, and filters lists as the request demands.

use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;

use super::ServiceError;
use crate::cri::convert::Wire;
use crate::cri::generated as wire;
use crate::cri::{Code, Container, ContainerState, Filter, Rpc, Sandbox, SandboxState};

/// A received call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The RPC.
    pub rpc: Rpc,
    /// The subject of the call.
    pub subject: RequestSubject,
    /// The encoded request.
    pub message: Bytes,
    /// The time for which the caller waits; `None` without a limit.
    pub deadline: Option<Duration>,
    /// The authority that the caller sent.
    pub authority: String,
}

/// The subject of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestSubject {
    /// The runtime itself.
    Runtime,
    /// One sandbox or container, by its id.
    One(String),
    /// The sandboxes that match a filter.
    Sandboxes(ListFilter<SandboxState>),
    /// The containers that match a filter.
    Containers(ListFilter<ContainerState>),
}

/// Selects sandboxes or containers in a list. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter<S> {
    /// The text with which the id must begin.
    pub id: String,
    /// The text with which the id of the container's sandbox must begin.
    pub sandbox_id: String,
    /// The state and the labels that an entry must have.
    pub filter: Filter<S>,
}

impl<S: Default + PartialEq> ListFilter<S> {
    /// Creates the filter of a request.
    pub(super) fn new(id: String, sandbox_id: String, state: Option<S>, labels: Vec<wire::Pair>) -> Self {
        let labels = labels.into_iter().map(|pair| (pair.key, pair.value)).collect();
        Self { id, sandbox_id, filter: Filter { state, labels } }
    }

    /// Whether the filter selects everything.
    pub fn matches_all(&self) -> bool {
        *self == Self::default()
    }
}

impl ListFilter<SandboxState> {
    /// Whether the filter selects this sandbox.
    pub fn matches_sandbox(&self, sandbox: &Sandbox) -> bool {
        sandbox.id.starts_with(&self.id)
            && self.filter.state.is_none_or(|wanted| wanted == sandbox.state)
            && self.filter.labels.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value))
    }
}

impl ListFilter<ContainerState> {
    /// Whether the filter selects this container.
    pub fn matches_container(&self, container: &Container) -> bool {
        container.id.starts_with(&self.id)
            && container.sandbox_id.starts_with(&self.sandbox_id)
            && self.filter.state.is_none_or(|wanted| wanted == container.state)
            && self.filter.labels.iter().all(|(key, value)| container.labels.get(key) == Some(value))
    }
}

impl RequestSubject {
    /// Decodes the subject of a request of `rpc`.
    pub fn read(rpc: Rpc, message: Bytes) -> Result<Self, ServiceError> {
        Ok(match rpc {
            Rpc::Version | Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => Self::Runtime,
            // A streamed list has the same request message.
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
                let filter =
                    decode_request::<wire::ListPodSandboxRequest>(message)?.filter.unwrap_or_default();
                let state = filter.state.map(|value| SandboxState::from_wire(value.state));
                Self::Sandboxes(ListFilter::new(filter.id, String::new(), state, filter.label_selector))
            }
            Rpc::ListContainers | Rpc::StreamContainers => {
                let filter =
                    decode_request::<wire::ListContainersRequest>(message)?.filter.unwrap_or_default();
                let (id, sandbox_id) = (filter.id, filter.pod_sandbox_id);
                let state = filter.state.map(|value| ContainerState::from_wire(value.state));
                Self::Containers(ListFilter::new(id, sandbox_id, state, filter.label_selector))
            }
            Rpc::PodSandboxStatus => {
                Self::One(decode_request::<wire::PodSandboxStatusRequest>(message)?.pod_sandbox_id)
            }
            Rpc::ContainerStatus => {
                Self::One(decode_request::<wire::ContainerStatusRequest>(message)?.container_id)
            }
            Rpc::ContainerStats => {
                Self::One(decode_request::<wire::ContainerStatsRequest>(message)?.container_id)
            }
        })
    }

    /// Returns the selected items of an encoded list; `None` if this subject is not a list or `list` is not valid.
    pub fn select(&self, list: Bytes) -> Option<Bytes> {
        let message = match self {
            Self::Sandboxes(wanted) => {
                let mut list = wire::ListPodSandboxResponse::decode(list).ok()?;
                list.items.retain(|item| wanted.matches_sandbox(&item.clone().into()));
                list.encode_to_vec()
            }
            Self::Containers(wanted) => {
                let mut list = wire::ListContainersResponse::decode(list).ok()?;
                list.containers.retain(|item| wanted.matches_container(&item.clone().into()));
                list.encode_to_vec()
            }
            Self::Runtime | Self::One(_) => return None,
        };
        Some(message.into())
    }

    /// Returns the id of the container or sandbox; empty if the call is not about a single one.
    pub fn id(&self) -> &str {
        match self {
            Self::One(id) => id,
            Self::Runtime | Self::Sandboxes(_) | Self::Containers(_) => "",
        }
    }
}

/// Decodes a request message, with the error of a Go server if it is not valid.
pub(super) fn decode_request<M: Message + Default>(request: Bytes) -> Result<M, ServiceError> {
    let refused =
        |why| ServiceError::new(Code::Internal, format!("grpc: error unmarshalling request: {why}"));
    M::decode(request).map_err(refused)
}

/// Parses the `grpc-timeout` header: digits and a unit.
pub(super) fn parse_deadline(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount.checked_mul(3600)?)),
        "M" => Some(Duration::from_secs(amount.checked_mul(60)?)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_has_a_unit() {
        assert_eq!(parse_deadline("10S"), Some(Duration::from_secs(10)));
        assert_eq!(parse_deadline("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_deadline("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "10", "10x", "ä", "99999999999999999999S"] {
            assert_eq!(parse_deadline(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_invalid_request_gets_the_error_of_a_go_server() {
        let refusal =
            RequestSubject::read(Rpc::ContainerStatus, Bytes::from_static(b"\x0a\xff")).unwrap_err();
        assert_eq!(refusal.code, Code::Internal);
        assert!(refusal.message.starts_with("grpc: error unmarshalling request: "), "{refusal:?}");
    }
}
