//! A call as it came in, in plain types.

use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;

use super::Refusal;
use crate::cri::convert::{container_state, sandbox_state};
use crate::cri::generated as wire;
use crate::cri::{Code, Container, ContainerState, Filter, Rpc, Sandbox, SandboxState};

/// A call as it came in.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked.
    pub rpc: Rpc,
    /// About what.
    pub subject: Subject,
    /// The request as it is on the wire.
    pub message: Bytes,
    /// How long the caller will wait.
    pub deadline: Option<Duration>,
    /// Whom the caller believes to be talking to.
    pub authority: String,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The runtime itself.
    Runtime,
    /// One sandbox or container, by its id.
    One(String),
    /// Those sandboxes.
    Sandboxes(Wanted<SandboxState>),
    /// Those containers.
    Containers(Wanted<ContainerState>),
}

/// Which sandboxes or containers are wanted in a list. The default wants all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<S> {
    /// Those whose id begins so.
    pub id: String,
    /// Those whose sandbox's id begins so.
    pub sandbox_id: String,
    /// Those in this state and with these labels.
    pub filter: Filter<S>,
}

impl<S> Default for Wanted<S> {
    fn default() -> Self {
        Self { id: String::new(), sandbox_id: String::new(), filter: Filter::default() }
    }
}

impl<S: PartialEq> Wanted<S> {
    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

impl Wanted<SandboxState> {
    /// Whether this one is wanted.
    pub fn sandbox(&self, sandbox: &Sandbox) -> bool {
        sandbox.id.starts_with(&self.id)
            && self.filter.state.is_none_or(|wanted| wanted == sandbox.state)
            && self.filter.labels.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value))
    }
}

impl Wanted<ContainerState> {
    /// Whether this one is wanted.
    pub fn container(&self, container: &Container) -> bool {
        container.id.starts_with(&self.id)
            && container.sandbox_id.starts_with(&self.sandbox_id)
            && self.filter.state.is_none_or(|wanted| wanted == container.state)
            && self.filter.labels.iter().all(|(key, value)| container.labels.get(key) == Some(value))
    }
}

impl Subject {
    /// What the request `message` of `rpc` is about.
    pub(crate) fn read(rpc: Rpc, message: Bytes) -> Result<Self, Refusal> {
        Ok(match rpc {
            Rpc::Version | Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => Self::Runtime,
            // A streamed list asks with the same message.
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
                let filter = decoded::<wire::ListPodSandboxRequest>(message)?.filter.unwrap_or_default();
                Self::Sandboxes(Wanted {
                    id: filter.id,
                    sandbox_id: String::new(),
                    filter: Filter {
                        state: filter.state.map(|value| sandbox_state(value.state)),
                        labels: selectors(filter.label_selector),
                    },
                })
            }
            Rpc::ListContainers | Rpc::StreamContainers => {
                let filter = decoded::<wire::ListContainersRequest>(message)?.filter.unwrap_or_default();
                Self::Containers(Wanted {
                    id: filter.id,
                    sandbox_id: filter.pod_sandbox_id,
                    filter: Filter {
                        state: filter.state.map(|value| container_state(value.state)),
                        labels: selectors(filter.label_selector),
                    },
                })
            }
            Rpc::PodSandboxStatus => {
                Self::One(decoded::<wire::PodSandboxStatusRequest>(message)?.pod_sandbox_id)
            }
            Rpc::ContainerStatus => Self::One(decoded::<wire::ContainerStatusRequest>(message)?.container_id),
            Rpc::ContainerStats => Self::One(decoded::<wire::ContainerStatsRequest>(message)?.container_id),
        })
    }

    /// What of a list of everything is wanted; `None` if that is no list.
    pub(crate) fn select(&self, list: Bytes) -> Option<Bytes> {
        let message = match self {
            Self::Sandboxes(wanted) => {
                let mut list = wire::ListPodSandboxResponse::decode(list).ok()?;
                list.items.retain(|item| wanted.sandbox(&item.clone().into()));
                list.encode_to_vec()
            }
            Self::Containers(wanted) => {
                let mut list = wire::ListContainersResponse::decode(list).ok()?;
                list.containers.retain(|item| wanted.container(&item.clone().into()));
                list.encode_to_vec()
            }
            Self::Runtime | Self::One(_) => return None,
        };
        Some(message.into())
    }

    /// The id asked about; empty where it is not about one.
    pub fn id(&self) -> &str {
        match self {
            Self::One(id) => id,
            Self::Runtime | Self::Sandboxes(_) | Self::Containers(_) => "",
        }
    }
}

pub(super) fn selectors(pairs: Vec<wire::Pair>) -> Vec<(String, String)> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

pub(super) fn decoded<M: Message + Default>(request: Bytes) -> Result<M, Refusal> {
    let refused = |why| Refusal::new(Code::Internal, format!("grpc: error unmarshalling request: {why}"));
    M::decode(request).map_err(refused)
}

/// The `grpc-timeout` header as a duration: digits and a unit.
pub(super) fn deadline(header: &str) -> Option<Duration> {
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
        assert_eq!(deadline("10S"), Some(Duration::from_secs(10)));
        assert_eq!(deadline("250m"), Some(Duration::from_millis(250)));
        assert_eq!(deadline("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "10", "10x", "ä", "99999999999999999999S"] {
            assert_eq!(deadline(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_request_that_is_none_is_answered_in_the_words_of_go() {
        let refusal = Subject::read(Rpc::ContainerStatus, Bytes::from_static(b"\x0a\xff")).unwrap_err();
        assert_eq!(refusal.code, Code::Internal);
        assert!(refusal.message.starts_with("grpc: error unmarshalling request: "), "{refusal:?}");
    }
}
