//! Listening in on a client: every question before it is sent and every answer as it came, for the flight recorder.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::bytes::Bytes;

use super::{Error, Rpc};
use crate::clock::{Clock, Mono};

/// Takes down what a client asks and hears. It is called on the way of the call and must not wait.
pub trait Tape: Send + Sync {
    /// A call is about to be sent; the number is given back with its end.
    fn asked(&self, rpc: Rpc, request: Bytes) -> u64;
    /// A message of an answer that goes on: an event of the stream.
    fn told(&self, _call: u64, _message: Bytes) {}
    /// The call is over.
    fn ended(&self, call: u64, took: Duration, end: CallEnd<'_>);
}

/// What came of a call.
#[derive(Debug)]
pub enum CallEnd<'a> {
    /// It was answered with these messages, as they were on the wire.
    Answered(Vec<Bytes>),
    /// It was not.
    Failed(&'a Error),
    /// Nobody waits for its end any more.
    Abandoned,
}

/// One call that is taken down. Dropped before its end, it is one that nobody waited for.
pub(super) struct Take {
    tape: Arc<dyn Tape>,
    clock: Arc<dyn Clock>,
    call: u64,
    started: Mono,
    heard: Mutex<Vec<Bytes>>,
    over: bool,
}

impl Take {
    pub fn start(tape: &Arc<dyn Tape>, clock: &Arc<dyn Clock>, rpc: Rpc, request: Bytes) -> Self {
        let started = clock.mono();
        let call = tape.asked(rpc, request);
        Self {
            tape: Arc::clone(tape),
            clock: Arc::clone(clock),
            call,
            started,
            heard: Mutex::default(),
            over: false,
        }
    }

    /// A message of the answer.
    pub fn hear(&self, message: Bytes) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// A message of an answer that goes on for as long as somebody listens.
    pub fn tell(&self, message: Bytes) {
        self.tape.told(self.call, message);
    }

    /// The call is over, with an error or with what was heard.
    pub fn end(mut self, took: Duration, error: Option<&Error>) {
        self.over = true;
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        let end = error.map_or_else(|| CallEnd::Answered(heard), CallEnd::Failed);
        self.tape.ended(self.call, took, end);
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        if !self.over {
            let took = self.clock.mono().since(self.started);
            self.tape.ended(self.call, took, CallEnd::Abandoned);
        }
    }
}
