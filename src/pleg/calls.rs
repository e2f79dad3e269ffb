//! The log of CRI calls: finished calls with their outcomes, and the call that is still open.

use serde::{Deserialize, Serialize};

use crate::clock::Mono;
use crate::cri::{self, Outcome, Rpc, StreamedAnswer};
use crate::report::{PodRef, Seconds};

/// A call that has ended.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The name of the RPC.
    pub rpc: String,
    /// The id of the container or sandbox; absent for a list call.
    pub id: Option<String>,
    /// The pod that the call is for; absent for a list of all pods.
    pub pod: Option<PodRef>,
    /// The duration of the call.
    pub duration_seconds: Seconds,
    /// The number of bytes received.
    pub response_bytes: u64,
    /// What has arrived of a streamed list, also if the call failed.
    pub stream: Option<StreamedAnswer>,
    /// The outcome.
    pub outcome: Outcome,
    /// The gRPC status code, if there is one.
    pub code: Option<String>,
    /// The error message, if the call failed.
    pub message: Option<String>,
}

/// A call that has started and has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The RPC.
    pub rpc: Rpc,
    /// The id of the container or sandbox; absent for a list call.
    pub id: Option<String>,
    /// The pod that the call is for.
    pub pod: Option<PodRef>,
    /// When the call started.
    pub started: Mono,
}

/// The calls of one relist.
#[derive(Debug, Default)]
pub struct CallLog {
    open: Option<OpenCall>,
    finished: Vec<CallRecord>,
}

/// The reason why a relist has no usable answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] cri::Error),
    /// The runtime answered, but the kubelet's client rejects the answer.
    #[error("{0}")]
    Refused(String),
}

impl CallFailure {
    /// Returns the error of the call; `None` if the runtime answered.
    pub(super) const fn error(&self) -> Option<&cri::Error> {
        match self {
            Self::Call(error) => Some(error),
            Self::Refused(_) => None,
        }
    }

    /// Returns the outcome that the failure stands for.
    pub(super) fn outcome(&self) -> Outcome {
        self.error().map_or(Outcome::Error, cri::Error::outcome)
    }

    /// Whether the runtime does not know the id. The kubelet ignores this error, because a container may be removed between
    /// two calls.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_not_found())
    }
}

impl CallLog {
    /// Returns the call that has no answer yet. The call stays in the log even if the future that made it was dropped.
    pub const fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    /// Returns the calls that have ended, in order.
    pub fn finished(&self) -> &[CallRecord] {
        &self.finished
    }

    /// Notes that a call starts.
    pub(super) fn begin(&mut self, call: OpenCall) {
        self.open = Some(call);
    }

    /// Removes and returns the open call, which has ended.
    pub(super) fn end(&mut self) -> Option<OpenCall> {
        self.open.take()
    }

    /// Adds a finished call.
    pub(super) fn add(&mut self, call: CallRecord) {
        self.finished.push(call);
    }

    pub(super) fn clear(&mut self) {
        self.open = None;
        self.finished.clear();
    }

    /// Removes and returns the finished calls.
    pub(super) fn take_finished(&mut self) -> Vec<CallRecord> {
        std::mem::take(&mut self.finished)
    }
}
