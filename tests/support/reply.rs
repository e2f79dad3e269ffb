//! What the fake does with a call instead of, or before, the plain answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plegctl::cri::server::Bytes;
use plegctl::cri::{Code, Rpc};
use tokio::sync::watch;

/// What happens to one call.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(super) delay: Duration,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Normal,
    Fail(Code, String),
    Hang,
    Held(Gate),
    Oversize(usize),
    Raw(Vec<Bytes>),
    Broken(usize, Code, String),
    Cut(ConnectionEnd),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Both directions are closed.
    Close,
    /// The fake will send nothing more and says so; it does not close its reading side.
    HalfClose,
    /// The connection stays open and nobody is at the other end: not even a ping is answered.
    Freeze,
}

impl Reply {
    /// The plain answer.
    pub fn normal() -> Self {
        Self { delay: Duration::ZERO, action: Action::Normal }
    }

    /// A gRPC status.
    pub fn fail(code: Code, text: &str) -> Self {
        Action::Fail(code, text.to_owned()).into()
    }

    /// No answer, ever. The connection stays alive.
    pub fn hang() -> Self {
        Action::Hang.into()
    }

    /// The plain answer, once the gate is open.
    pub fn held(gate: &Gate) -> Self {
        Action::Held(gate.clone()).into()
    }

    /// An answer with no field set: a status call without a status, a list without entries.
    pub fn empty() -> Self {
        Self::raw([Bytes::new()])
    }

    /// OK without any message.
    pub fn nothing() -> Self {
        Action::Raw(Vec::new()).into()
    }

    /// The plain answer, padded by annotations to at least so many bytes.
    pub fn oversize(bytes: usize) -> Self {
        Action::Oversize(bytes).into()
    }

    /// These messages, whatever they are.
    pub fn raw(messages: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Action::Raw(messages.into_iter().map(Into::into).collect()).into()
    }

    /// The first messages of the plain answer, then a gRPC status.
    pub fn broken_after(messages: usize, code: Code, text: &str) -> Self {
        Action::Broken(messages, code, text.to_owned()).into()
    }

    /// The connection is cut instead of an answer.
    pub fn cut(cut: ConnectionEnd) -> Self {
        Action::Cut(cut).into()
    }

    /// The same, so much later.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl From<Action> for Reply {
    fn from(action: Action) -> Self {
        Self { delay: Duration::ZERO, action }
    }
}

/// Holds calls back until the test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets all through, those who wait and those who come later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// Which calls get which replies.
#[derive(Debug)]
pub(super) struct Rule {
    rpc: Rpc,
    id: Option<String>,
    replies: VecDeque<Reply>,
    last_stays: bool,
}

impl Rule {
    pub(super) fn always(rpc: Rpc, id: Option<String>, reply: Reply) -> Self {
        Self::sequence(rpc, id, [reply], true)
    }

    pub(super) fn sequence(
        rpc: Rpc,
        id: Option<String>,
        replies: impl IntoIterator<Item = Reply>,
        last_stays: bool,
    ) -> Self {
        Self { rpc, id, replies: replies.into_iter().collect(), last_stays }
    }

    /// The reply for this call, if the rule is about it and has one left.
    pub(super) fn take(&mut self, rpc: Rpc, id: &str) -> Option<Reply> {
        if self.rpc != rpc || self.id.as_deref().is_some_and(|wanted| wanted != id) {
            return None;
        }
        if self.last_stays && self.replies.len() == 1 {
            self.replies.front().cloned()
        } else {
            self.replies.pop_front()
        }
    }
}
