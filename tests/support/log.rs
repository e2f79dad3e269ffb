//! What the fake was asked, in the order in which it was asked.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use plegctl::cri::Rpc;

/// No test waits longer than this for something that should happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// One call as it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedCall {
    /// The RPC.
    pub rpc: Rpc,
    /// Container or sandbox asked about; for a list its filter (`key=value,…`); else empty.
    pub id: String,
    /// The `grpc-timeout` header.
    pub deadline: Option<Duration>,
    /// The `:authority` header.
    pub authority: String,
    /// Which connection it came over, counted from 0.
    pub connection: usize,
    /// How it went.
    pub state: CallState,
}

/// How a call went, as the server saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Not answered in full.
    InFlight,
    /// An event stream that is open: an event pushed now comes through it.
    Streaming,
    /// Answered, with whatever it was.
    Answered,
    /// The client gave it up, or the connection went.
    Cancelled,
}

/// The log that the fake writes and the test reads.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: Mutex<Vec<ReceivedCall>>,
    changed: Condvar,
}

impl Log {
    pub(super) fn begin(self: &Arc<Self>, call: ReceivedCall) -> OpenCall {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.len();
        calls.push(call);
        self.changed.notify_all();
        OpenCall { log: Arc::clone(self), number, end: CallState::Cancelled }
    }

    pub(super) fn calls(&self) -> Vec<ReceivedCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the calls are as the test wants them.
    pub(super) fn wait_until(&self, wanted: impl Fn(&[ReceivedCall]) -> bool) -> Vec<ReceivedCall> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, wait) = self.changed.wait_timeout_while(calls, PATIENCE, |calls| !wanted(calls)).unwrap();
        let calls = calls.clone();
        assert!(!wait.timed_out(), "not seen within {PATIENCE:?}; the calls were {calls:#?}");
        calls
    }
}

/// A call in flight; dropped unfinished, it was given up.
#[derive(Debug)]
pub(super) struct OpenCall {
    log: Arc<Log>,
    number: usize,
    end: CallState,
}

impl OpenCall {
    /// The stream is open.
    pub(super) fn streaming(&self) {
        self.record(CallState::Streaming);
    }

    pub(super) fn answered(&mut self) {
        self.end = CallState::Answered;
    }

    fn record(&self, state: CallState) {
        let mut calls = self.log.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls[self.number].state = state;
        self.log.changed.notify_all();
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.record(self.end);
    }
}
