//! The log of calls: what was asked of the runtime, what came of it, and what has not come back yet.

use serde::{Deserialize, Serialize};

use crate::clock::Mono;
use crate::cri::{self, Outcome, Rpc};
use crate::report::{PodRef, Seconds};

/// A call that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Its name in the CRI.
    pub rpc: String,
    /// The container or sandbox asked about; absent for a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The pod it was made for; absent for the lists of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// Bytes received.
    pub response_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// gRPC status code, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A call that has been made and has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// What is asked.
    pub rpc: Rpc,
    /// The container or sandbox asked about.
    pub id: Option<String>,
    /// The pod it is made for.
    pub pod: Option<PodRef>,
    /// Since when.
    pub started: Mono,
}

/// The calls of one relist.
#[derive(Debug, Default)]
pub struct CallLog {
    open: Option<OpenCall>,
    finished: Vec<CallRecord>,
}

/// Why the engine can do nothing with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] cri::Error),
    /// The runtime answered, and the kubelet's client refuses the answer.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// Whether the runtime does not know the id, which the kubelet takes for a race.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_not_found())
    }
}

impl CallLog {
    /// The call that has not come back. Still there after the future that made it was dropped.
    pub const fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    /// The calls that are over, in order.
    pub fn finished(&self) -> &[CallRecord] {
        &self.finished
    }

    pub(super) fn begin(&mut self, call: OpenCall) {
        self.open = Some(call);
    }

    pub(super) fn end(&mut self) -> Option<OpenCall> {
        self.open.take()
    }

    pub(super) fn note(&mut self, call: CallRecord) {
        self.finished.push(call);
    }

    pub(super) fn clear(&mut self) {
        self.open = None;
        self.finished.clear();
    }

    pub(super) fn take_finished(&mut self) -> Vec<CallRecord> {
        std::mem::take(&mut self.finished)
    }
}
