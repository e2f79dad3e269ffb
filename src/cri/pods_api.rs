//! The client of the kubelet's Pods API: gRPC on a unix socket of the kubelet, from Kubernetes 1.36 on. It needs no
//! credential, and the kubelet answers also while it cannot reach the API server.
//!
//! The client sends one RPC, `ListPods`. It uses the connection, the limits and the checks of the runtime's client, but has
//! its own closed list of RPCs: it cannot send a call of the CRI, and the runtime's client cannot send a call of the
//! kubelet. A call is sent once, with a deadline, and never again after it hung.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::timeout;

use super::client::{
    ExchangeError, causes, dial_error, innermost_cause, is_connection_failure, shorten_message,
};
use super::codec::{self, ListResponse};
use super::decode_budget::{DecodeBudget, MessageError};
use super::decoded_list::ListDecoder;
use super::generated::pods as wire;
use super::grpc_check::NotGrpc;
use super::progress::AnswerProgress;
use super::{Client, Error};
use crate::clock::{Clock, Wall};
use crate::panics::catch_panic_async;
use crate::report::word_enum;

/// The path of the socket below the kubelet's root directory (pkg/kubelet/apis/pods).
pub const PODS_API_SOCKET: &str = "pods-api/pods-api.sock";

/// The beginning of the annotations that the kubelet itself reads and writes. Only these are kept, because others may be
/// as large as the pod.
const OWN_ANNOTATIONS: &str = "kubernetes.io/config.";

// The macro adds the method `name`, which returns the word of an RPC.
word_enum! {
    /// An RPC of the kubelet. plegctl can send no other to a kubelet.
    pub enum KubeletRpc: name {
        /// Every pod that the kubelet knows, with the kubelet's own status of it.
        ListPods = "ListPods",
    } ALL
}

impl KubeletRpc {
    /// The full gRPC method path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ListPods => "/v1alpha1.Pods/ListPods",
        }
    }
}

/// The reason why the kubelet's pods are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodsApiError {
    /// The socket cannot be reached.
    #[error("cannot reach the kubelet's Pods API at `{socket}`: {detail}")]
    Unreachable {
        /// The socket.
        socket: String,
        /// Why.
        detail: String,
    },
    /// No complete answer arrived within the deadline.
    #[error("the kubelet's Pods API did not answer ListPods within {}", humantime::format_duration(*.waited))]
    Silent {
        /// The deadline.
        waited: Duration,
    },
    /// The kubelet has not read every source of pods yet, so that its list would be incomplete.
    #[error("the kubelet has not read every source of its pods yet, so its Pods API does not list them")]
    NotReady,
    /// What listens on the socket does not offer the Pods API.
    #[error("`{socket}` is not the kubelet's Pods API: {detail}")]
    Other {
        /// The socket.
        socket: String,
        /// What it answered.
        detail: String,
    },
    /// The answer cannot be used.
    #[error("the answer of the kubelet's Pods API cannot be used: {0}")]
    Unusable(String),
    /// The kubelet answered with an error.
    #[error("the kubelet's Pods API answered ListPods with an error: {0}")]
    Failed(String),
}

/// A pod of the kubelet as JSON text, in the API server's form.
struct PodText(String);

impl ListResponse for wire::ListPodsResponse {
    type ListItem = wire::Pod;
}

/// A connection to the Pods API of one kubelet.
#[derive(Clone)]
pub struct PodsApi {
    client: Client,
    socket: String,
    deadline: Duration,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for PodsApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodsApi")
            .field("socket", &self.socket)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl PodsApi {
    /// Creates a client for the socket at `path`. The first call connects.
    pub fn new(path: &Path, deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let socket = path.display().to_string();
        let client = Client::new(path, &socket, deadline, Arc::clone(&clock));
        Self { client, socket, deadline, clock }
    }

    /// Lists the pods that the kubelet knows, and returns a `PodList` in the API server's JSON form. It has only the
    /// fields of `proto/pods.proto`.
    pub async fn list_pods(&self) -> Result<Vec<u8>, PodsApiError> {
        let start = self.clock.mono();
        let progress = AnswerProgress::new(&self.clock);
        let exchange = Box::pin(async {
            let path = KubeletRpc::ListPods.path();
            let answer = self.client.receive_single(path, &wire::ListPodsRequest {}, &progress).await?;
            let (mut pods, mut budget) = (ListDecoder::new(None), DecodeBudget::for_list());
            codec::decode_entries::<<wire::ListPodsResponse as ListResponse>::ListItem, PodText>(
                answer,
                &mut budget,
                &mut pods,
                &progress,
            )
            .await?;
            Ok::<_, ExchangeError>(pods.finish().into_items())
        });
        match timeout(self.deadline, catch_panic_async(exchange)).await {
            Ok(Ok(Ok(pods))) => Ok(pod_list(&pods)),
            Ok(Ok(Err(why))) => Err(self.explain(&why, self.clock.mono().since(start))),
            Ok(Err(detail)) => Err(PodsApiError::Unusable(format!("plegctl itself failed: {detail}"))),
            Err(_) => Err(PodsApiError::Silent { waited: self.deadline }),
        }
    }

    /// Converts a failed exchange into the error that callers see.
    fn explain(&self, why: &ExchangeError, took: Duration) -> PodsApiError {
        let status = match why {
            ExchangeError::Status(status) => status,
            ExchangeError::Bytes(MessageError::Undecodable(detail) | MessageError::Implausible(detail)) => {
                return PodsApiError::Unusable(detail.clone());
            }
            ExchangeError::OverLimit => return PodsApiError::Unusable("it is too large".to_owned()),
        };
        let socket = self.socket.clone();
        if let Some(dialled) = dial_error(status) {
            let detail = match dialled {
                Error::NoSuchSocket { .. } => "no such socket".to_owned(),
                Error::NotASocket { kind, .. } => format!("it is {kind}, not a socket"),
                Error::PermissionDenied { .. } => "permission denied".to_owned(),
                Error::Refused { .. } => "connection refused".to_owned(),
                Error::Unreachable { detail, .. } => detail,
                other => other.to_string(),
            };
            return PodsApiError::Unreachable { socket, detail };
        }
        if let Some(not_grpc) = causes(status).find_map(|cause| cause.downcast_ref::<NotGrpc>()) {
            return PodsApiError::Other { socket, detail: not_grpc.to_string() };
        }
        if causes(status).any(<dyn std::error::Error>::is::<tonic::TimeoutExpired>) {
            return PodsApiError::Silent { waited: self.deadline };
        }
        if is_connection_failure(status) {
            return PodsApiError::Other { socket, detail: innermost_cause(status) };
        }
        let message = shorten_message(status.message());
        match status.code() {
            tonic::Code::DeadlineExceeded | tonic::Code::Cancelled if took >= self.deadline.mul_f64(0.9) => {
                PodsApiError::Silent { waited: self.deadline }
            }
            tonic::Code::FailedPrecondition => PodsApiError::NotReady,
            tonic::Code::Unimplemented => {
                PodsApiError::Other { socket, detail: format!("ListPods is not implemented: {message}") }
            }
            tonic::Code::OutOfRange => PodsApiError::Unusable(message),
            code => PodsApiError::Failed(format!("{code:?}: {message}")),
        }
    }
}

/// Joins the pods to a `PodList`.
fn pod_list(pods: &[PodText]) -> Vec<u8> {
    let mut list = String::from(r#"{"kind":"PodList","items":["#);
    for (number, pod) in pods.iter().enumerate() {
        if number > 0 {
            list.push(',');
        }
        list.push_str(&pod.0);
    }
    list.push_str("]}");
    list.into_bytes()
}

/// Creates a JSON object from the fields that have a value.
fn object(fields: &mut [(&str, Value)]) -> Value {
    let mut object = Map::new();
    for (key, value) in fields.iter_mut().filter(|(_, value)| !value.is_null()) {
        object.insert((*key).to_owned(), value.take());
    }
    Value::Object(object)
}

/// Returns `null` for an empty text, as the API server leaves it out.
fn text(value: String) -> Value {
    if value.is_empty() { Value::Null } else { Value::String(value) }
}

/// Returns `null` for a time that is not set. The encoding of an unset time is an empty message.
fn time(value: Option<wire::Time>) -> Value {
    let nanos = value.and_then(|time| {
        let seconds = time.seconds.checked_mul(1_000_000_000)?;
        seconds.checked_add(i64::from(time.nanos))
    });
    match nanos.and_then(Wall::known) {
        Some(time) => Value::String(time.to_string()),
        None => Value::Null,
    }
}

fn list<T>(values: Vec<T>, convert: impl Fn(T) -> Value) -> Value {
    if values.is_empty() { Value::Null } else { values.into_iter().map(convert).collect() }
}

/// Creates a JSON object from the pairs whose keys begin with `prefix`; `null` if there is none.
fn map(pairs: Vec<wire::Pair>, prefix: &str) -> Value {
    let mut kept = Map::new();
    for pair in pairs.into_iter().filter(|pair| pair.key.starts_with(prefix)) {
        kept.insert(pair.key, Value::String(pair.value));
    }
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

impl From<wire::Pod> for PodText {
    fn from(pod: wire::Pod) -> Self {
        let wire::Pod { metadata, spec, status } = pod;
        let pod = object(&mut [
            ("metadata", metadata.map_or(Value::Null, metadata_json)),
            ("spec", spec.map_or(Value::Null, spec_json)),
            ("status", status.map_or(Value::Null, status_json)),
        ]);
        Self(pod.to_string())
    }
}

fn metadata_json(metadata: wire::ObjectMeta) -> Value {
    object(&mut [
        ("name", text(metadata.name)),
        ("namespace", text(metadata.namespace)),
        ("uid", text(metadata.uid)),
        ("creationTimestamp", time(metadata.creation_timestamp)),
        ("deletionTimestamp", time(metadata.deletion_timestamp)),
        ("deletionGracePeriodSeconds", metadata.deletion_grace_period_seconds.into()),
        ("labels", map(metadata.labels, "")),
        ("annotations", map(metadata.annotations, OWN_ANNOTATIONS)),
        (
            "ownerReferences",
            list(metadata.owner_references, |owner| {
                object(&mut [
                    ("kind", text(owner.kind)),
                    ("name", text(owner.name)),
                    ("uid", text(owner.uid)),
                ])
            }),
        ),
        ("finalizers", list(metadata.finalizers, Value::String)),
    ])
}

fn spec_json(spec: wire::PodSpec) -> Value {
    object(&mut [
        ("nodeName", text(spec.node_name)),
        ("restartPolicy", text(spec.restart_policy)),
        ("terminationGracePeriodSeconds", spec.termination_grace_period_seconds.into()),
        ("containers", list(spec.containers, container_json)),
        ("initContainers", list(spec.init_containers, container_json)),
        ("volumes", list(spec.volumes, volume_json)),
    ])
}

fn container_json(container: wire::Container) -> Value {
    let handler = |handler: Option<_>| handler.map_or(Value::Null, |_| Value::Object(Map::new()));
    let lifecycle = container.lifecycle.map_or(Value::Null, |lifecycle| {
        object(&mut [("postStart", handler(lifecycle.post_start)), ("preStop", handler(lifecycle.pre_stop))])
    });
    object(&mut [("name", text(container.name)), ("lifecycle", lifecycle)])
}

fn volume_json(volume: wire::Volume) -> Value {
    let source = volume.volume_source.unwrap_or_default();
    let nfs =
        |nfs: wire::NfsVolumeSource| object(&mut [("server", text(nfs.server)), ("path", text(nfs.path))]);
    object(&mut [
        ("name", text(volume.name)),
        ("nfs", source.nfs.map_or(Value::Null, nfs)),
        (
            "persistentVolumeClaim",
            source
                .persistent_volume_claim
                .map_or(Value::Null, |claim| object(&mut [("claimName", text(claim.claim_name))])),
        ),
        ("csi", source.csi.map_or(Value::Null, |csi| object(&mut [("driver", text(csi.driver))]))),
    ])
}

fn status_json(status: wire::PodStatus) -> Value {
    object(&mut [
        ("phase", text(status.phase)),
        ("message", text(status.message)),
        ("reason", text(status.reason)),
        ("startTime", time(status.start_time)),
        (
            "conditions",
            list(status.conditions, |condition| {
                object(&mut [
                    ("type", text(condition.r#type)),
                    ("status", text(condition.status)),
                    ("reason", text(condition.reason)),
                    ("message", text(condition.message)),
                    ("lastTransitionTime", time(condition.last_transition_time)),
                ])
            }),
        ),
        ("containerStatuses", list(status.container_statuses, container_status_json)),
        ("initContainerStatuses", list(status.init_container_statuses, container_status_json)),
    ])
}

fn container_status_json(status: wire::ContainerStatus) -> Value {
    object(&mut [
        ("name", text(status.name)),
        ("containerID", text(status.container_id)),
        ("ready", status.ready.into()),
        ("restartCount", status.restart_count.into()),
        ("state", status.state.map_or(Value::Null, state_json)),
        ("lastState", status.last_state.map_or(Value::Null, state_json)),
    ])
}

fn state_json(state: wire::ContainerState) -> Value {
    let terminated = |ended: wire::ContainerStateTerminated| {
        object(&mut [
            ("exitCode", ended.exit_code.into()),
            ("reason", text(ended.reason)),
            ("startedAt", time(ended.started_at)),
            ("finishedAt", time(ended.finished_at)),
        ])
    };
    object(&mut [
        (
            "waiting",
            state.waiting.map_or(Value::Null, |waiting| {
                object(&mut [("reason", text(waiting.reason)), ("message", text(waiting.message))])
            }),
        ),
        (
            "running",
            state
                .running
                .map_or(Value::Null, |running| object(&mut [("startedAt", time(running.started_at))])),
        ),
        ("terminated", state.terminated.map_or(Value::Null, terminated)),
    ])
}
