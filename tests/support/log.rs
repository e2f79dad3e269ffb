//! The log of the fake runtime: the calls that it received, in order, and their states.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use plegctl_engine::cri::Rpc;

/// The time limit for the calls that a test expects.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// One received call.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedCall {
    /// The RPC.
    pub rpc: Rpc,
    /// The requested container or sandbox; for a list its filter (`key=value,…`); otherwise empty.
    pub id: String,
    /// The `grpc-timeout` header.
    pub deadline: Option<Duration>,
    /// The `:authority` header.
    pub authority: String,
    /// The number of the connection, counted from 0.
    pub connection: usize,
    /// The state of the call.
    pub state: CallState,
}

/// The state of a call as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The call has no complete answer.
    InFlight,
    /// The event stream is open and sends new events.
    Streaming,
    /// The call has its answer.
    Answered,
    /// The client cancelled the call, or the connection ended.
    Cancelled,
}

/// The log that the fake writes and the test reads.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: Mutex<Vec<ReceivedCall>>,
    changed: Condvar,
}

impl Log {
    /// Records a call that was received.
    pub(super) fn begin(self: &Arc<Self>, call: ReceivedCall) -> OpenCall {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.len();
        calls.push(call);
        self.changed.notify_all();
        OpenCall { log: Arc::clone(self), number, end: CallState::Cancelled }
    }

    /// Returns all calls so far.
    pub(super) fn calls(&self) -> Vec<ReceivedCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the calls fulfil the condition.
    pub(super) fn wait_until(&self, wanted: impl Fn(&[ReceivedCall]) -> bool) -> Vec<ReceivedCall> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, wait) =
            self.changed.wait_timeout_while(calls, TIME_LIMIT, |calls| !wanted(calls)).unwrap();
        let calls = calls.clone();
        assert!(!wait.timed_out(), "not seen within {TIME_LIMIT:?}; the calls were {calls:#?}");
        calls
    }
}

/// An unfinished call; if it is dropped before its end, it counts as cancelled.
#[derive(Debug)]
pub(super) struct OpenCall {
    log: Arc<Log>,
    number: usize,
    end: CallState,
}

impl OpenCall {
    /// Marks the stream as open.
    pub(super) fn streaming(&self) {
        self.record(CallState::Streaming);
    }

    /// Notes that the call is answered, not given up.
    pub(super) fn answered(&mut self) {
        self.end = CallState::Answered;
    }

    /// Changes the recorded state of the call.
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
