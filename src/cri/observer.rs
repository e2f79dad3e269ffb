//! Reports each call of a client to a [`CallObserver`], for example the recorder: the encoded request before it is sent, and
//! the encoded answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::bytes::Bytes;

use super::{Error, Rpc};
use crate::clock::{Clock, Mono};

/// Receives every request and answer of a client. The client calls these methods while a call is running, so they
/// must not wait.
pub trait CallObserver: Send + Sync {
    /// The client is about to send a call. It passes the returned number to the other methods.
    fn call_started(&self, rpc: Rpc, request: Bytes) -> u64;
    /// The call has ended.
    fn call_ended(&self, call: u64, took: Duration, end: CallEnd<'_>);
}

/// The end of an observed call.
#[derive(Debug)]
pub enum CallEnd<'a> {
    /// The runtime answered with these encoded messages.
    Answered(Vec<Bytes>),
    /// The call failed.
    Failed(&'a Error),
    /// The caller stopped waiting.
    Abandoned,
}

/// Reports one call to the observer. If it is dropped before [`Self::end`], it reports the call as abandoned.
pub(super) struct CallGuard {
    observer: Arc<dyn CallObserver>,
    clock: Arc<dyn Clock>,
    call: u64,
    started: Mono,
    messages: Mutex<Vec<Bytes>>,
    is_ended: AtomicBool,
}

impl CallGuard {
    /// Reports the start of a call.
    pub fn start(observer: &Arc<dyn CallObserver>, clock: &Arc<dyn Clock>, rpc: Rpc, request: Bytes) -> Self {
        let started = clock.mono();
        let call = observer.call_started(rpc, request);
        Self {
            observer: Arc::clone(observer),
            clock: Arc::clone(clock),
            call,
            started,
            messages: Mutex::default(),
            is_ended: AtomicBool::new(false),
        }
    }

    /// Keeps a message of the answer until the call ends.
    pub fn keep_message(&self, message: Bytes) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Reports the end of the call: the error, or the messages of the answer. Reports it only once.
    pub fn end(&self, took: Duration, error: Option<&Error>) {
        if self.is_ended.swap(true, Ordering::SeqCst) {
            return;
        }
        let messages = std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        let end = error.map_or_else(|| CallEnd::Answered(messages), CallEnd::Failed);
        self.observer.call_ended(self.call, took, end);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if !*self.is_ended.get_mut() {
            let took = self.clock.mono().since(self.started);
            self.observer.call_ended(self.call, took, CallEnd::Abandoned);
        }
    }
}
