//! Event streams: what each attempt to subscribe meets, and events pushed by the test.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plegctl::cri::Code;
use plegctl::cri::server::{Bytes, Refusal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::node::encode;
use super::reply::ConnectionEnd;
use super::wire::ContainerEventResponse;

/// What one `GetContainerEvents` call meets.
#[derive(Clone, Debug)]
#[must_use]
pub struct Attempt {
    pub(super) first_after: Duration,
    pub(super) between: Duration,
    pub(super) events: Vec<Event>,
    pub(super) end: End,
}

/// How a stream goes on after its scripted events.
#[derive(Clone, Debug)]
pub enum End {
    /// It stays open, and pushed events come through it.
    StayOpen,
    /// It stays open, and nothing comes.
    Stall,
    /// OK.
    Eof,
    /// A gRPC status.
    Fail(Code, String),
    /// The connection is cut.
    Cut(ConnectionEnd),
}

impl Attempt {
    /// Open and quiet.
    pub fn open() -> Self {
        Self::ending(End::StayOpen)
    }

    /// OK at once, without a message: what CRI-O says when pod events are off.
    pub fn eof() -> Self {
        Self::ending(End::Eof)
    }

    /// A gRPC status at once.
    pub fn fail(code: Code, text: &str) -> Self {
        Self::ending(End::Fail(code, text.to_owned()))
    }

    /// No events, then this.
    pub fn ending(end: End) -> Self {
        Self { first_after: Duration::ZERO, between: Duration::ZERO, events: Vec::new(), end }
    }

    /// Events to begin with.
    pub fn events(mut self, events: impl IntoIterator<Item = impl Into<Event>>) -> Self {
        self.events.extend(events.into_iter().map(Into::into));
        self
    }

    /// Time before the first event, and between one and the next.
    pub fn paced(mut self, first_after: Duration, between: Duration) -> Self {
        self.first_after = first_after;
        self.between = between;
        self
    }
}

/// An event to be sent.
#[derive(Clone, Debug)]
pub struct Event {
    message: ContainerEventResponse,
    age_nanos: Option<i64>,
}

impl Event {
    /// Sent with a creation time so long before its sending.
    pub fn aged(message: ContainerEventResponse, age_nanos: i64) -> Self {
        Self { message, age_nanos: Some(age_nanos) }
    }

    pub(super) fn encode(mut self) -> Bytes {
        if let Some(age) = self.age_nanos {
            self.message.created_at = unix_nanos() - age;
        }
        encode(&self.message)
    }
}

impl From<ContainerEventResponse> for Event {
    /// Sent as it is.
    fn from(message: ContainerEventResponse) -> Self {
        Self { message, age_nanos: None }
    }
}

pub(super) fn unix_nanos() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since_epoch.as_nanos().try_into().unwrap()
}

/// What comes through an open stream.
pub(super) type Pushed = Result<Bytes, Refusal>;

/// Who gets a pushed event.
#[derive(Debug, Default)]
pub(super) struct OpenStreams {
    competing: bool,
    subscribers: VecDeque<UnboundedSender<Pushed>>,
    backlog: Vec<Bytes>,
}

impl OpenStreams {
    pub(super) fn new(competing: bool) -> Self {
        Self { competing, ..Self::default() }
    }

    pub(super) fn subscribe(&mut self) -> UnboundedReceiver<Pushed> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for event in self.backlog.drain(..) {
            let _ = sender.send(Ok(event));
        }
        self.subscribers.push_back(sender);
        receiver
    }

    /// To all; or, as containerd 1.7 does, to one, each in turn. Without any it waits for the first to come.
    pub(super) fn push(&mut self, event: &Bytes) {
        self.subscribers.retain(|subscriber| !subscriber.is_closed());
        if self.subscribers.is_empty() {
            self.backlog.push(event.clone());
        } else if self.competing {
            self.subscribers.rotate_left(1);
            let _ = self.subscribers[0].send(Ok(event.clone()));
        } else {
            for subscriber in &self.subscribers {
                let _ = subscriber.send(Ok(event.clone()));
            }
        }
    }

    /// Ends all open streams: with a status, or with OK.
    pub(super) fn end(&mut self, failure: Option<&Refusal>) {
        for subscriber in self.subscribers.drain(..) {
            if let Some(status) = failure {
                let _ = subscriber.send(Err(status.clone()));
            }
        }
    }
}
