//! The replies of the fake runtime that differ from its default answer, such as a delay, an error or a hang.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::cri::server::Bytes;
use plegctl_engine::cri::{Code, Rpc};
use tokio::sync::watch;

/// The reply to one call.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(super) delay: Duration,
    pub(super) action: Action,
}

/// What the fake runtime does with a call; [`Reply`] has a constructor for each action.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// It sends the default answer.
    Normal,
    /// It sends a gRPC status.
    Fail(Code, String),
    /// It never answers.
    Hang,
    /// It answers as soon as the gate is open.
    Held(Gate),
    /// It sends the default answer with at least this number of bytes.
    Oversize(usize),
    /// It sends these messages.
    Raw(Vec<Bytes>),
    /// It sends this number of messages, and then a gRPC status.
    Broken(usize, Code, String),
    /// It breaks the connection.
    Cut(ConnectionFault),
}

/// How a connection fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Both directions close.
    Close,
    /// The fake closes its sending side and still reads.
    HalfClose,
    /// The connection stays open without any data, not even an answer to a ping.
    Freeze,
}

impl Reply {
    /// Replies with the default answer.
    pub fn normal() -> Self {
        Self { delay: Duration::ZERO, action: Action::Normal }
    }

    /// Replies with a gRPC status.
    pub fn fail(code: Code, text: &str) -> Self {
        Action::Fail(code, text.to_owned()).into()
    }

    /// Never replies; the connection stays alive.
    pub fn hang() -> Self {
        Action::Hang.into()
    }

    /// Replies with the default answer as soon as the gate is open.
    pub fn held(gate: &Gate) -> Self {
        Action::Held(gate.clone()).into()
    }

    /// Replies with a message without fields: an answer without a status, or a list without entries.
    pub fn empty() -> Self {
        Self::raw([Bytes::new()])
    }

    /// Replies with the gRPC status OK and without a message.
    pub fn nothing() -> Self {
        Action::Raw(Vec::new()).into()
    }

    /// Replies with the default answer, padded with annotations to at least this number of bytes.
    pub fn oversize(bytes: usize) -> Self {
        Action::Oversize(bytes).into()
    }

    /// Replies with these encoded messages.
    pub fn raw(messages: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Action::Raw(messages.into_iter().map(Into::into).collect()).into()
    }

    /// Replies with the first `messages` messages of the default answer, then with a gRPC status.
    pub fn broken_after(messages: usize, code: Code, text: &str) -> Self {
        Action::Broken(messages, code, text.to_owned()).into()
    }

    /// Breaks the connection instead of replying.
    pub fn connection_fault(fault: ConnectionFault) -> Self {
        Action::Cut(fault).into()
    }

    /// Delays the reply by this time.
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

/// A gate that delays calls until the test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens the gate for waiting and later calls.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub(super) async fn passed(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// The replies to the calls of one RPC, and for one id if `id` is set.
#[derive(Debug)]
pub(super) struct Rule {
    rpc: Rpc,
    id: Option<String>,
    /// The replies to the next calls.
    replies: VecDeque<Reply>,
    /// Whether the last reply is used for all later calls too.
    last_stays: bool,
}

impl Rule {
    /// Creates a rule with one reply for all calls.
    pub(super) fn always(rpc: Rpc, id: Option<String>, reply: Reply) -> Self {
        Self::sequence(rpc, id, [reply], true)
    }

    /// Creates a rule with a reply for each of the next calls.
    pub(super) fn sequence(
        rpc: Rpc,
        id: Option<String>,
        replies: impl IntoIterator<Item = Reply>,
        last_stays: bool,
    ) -> Self {
        Self { rpc, id, replies: replies.into_iter().collect(), last_stays }
    }

    /// Returns the reply to this call, if the rule applies and has a reply left.
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
