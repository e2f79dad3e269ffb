//! The event streams of the fake runtime: the answer to each subscription, and events that the test sends.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plegctl_engine::cri::Code;
use plegctl_engine::cri::server::{Bytes, ServiceError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::node::encode;
use super::reply::ConnectionFault;
use super::wire::ContainerEventResponse;

/// The answer to one `GetContainerEvents` call: its events and its end.
#[derive(Clone, Debug)]
#[must_use]
pub struct Attempt {
    /// The time from the call to the first event.
    pub(super) first_after: Duration,
    /// The time between two events.
    pub(super) between: Duration,
    pub(super) events: Vec<Event>,
    pub(super) end: End,
}

/// How a stream continues after its scripted events.
#[derive(Clone, Debug)]
pub enum End {
    /// The stream stays open and sends the events that the test pushes.
    StayOpen,
    /// The stream stays open and sends nothing.
    Stall,
    /// The stream ends with OK.
    Eof,
    /// The stream ends with a gRPC status.
    Fail(Code, String),
    /// The connection ends.
    Cut(ConnectionFault),
}

impl Attempt {
    /// Creates an open stream without events.
    pub fn open() -> Self {
        Self::ending(End::StayOpen)
    }

    /// Creates a stream that ends at once with OK and without a message, as CRI-O's does if pod events are off.
    pub fn eof() -> Self {
        Self::ending(End::Eof)
    }

    /// Creates a stream that ends at once with a gRPC status.
    pub fn fail(code: Code, text: &str) -> Self {
        Self::ending(End::Fail(code, text.to_owned()))
    }

    /// Creates a stream without events and with this end.
    pub fn ending(end: End) -> Self {
        Self { first_after: Duration::ZERO, between: Duration::ZERO, events: Vec::new(), end }
    }

    /// Adds events that the stream sends at its start.
    pub fn events(mut self, events: impl IntoIterator<Item = impl Into<Event>>) -> Self {
        self.events.extend(events.into_iter().map(Into::into));
        self
    }

    /// Sets the time before the first event, and the time between two events.
    pub fn paced(mut self, first_after: Duration, between: Duration) -> Self {
        self.first_after = first_after;
        self.between = between;
        self
    }
}

/// An event to send.
#[derive(Clone, Debug)]
pub struct Event {
    message: ContainerEventResponse,
    age_nanos: Option<i64>,
}

impl Event {
    /// Creates an event whose creation time is `age_nanos` before the moment at which the fake sends it.
    pub fn aged(message: ContainerEventResponse, age_nanos: i64) -> Self {
        Self { message, age_nanos: Some(age_nanos) }
    }

    /// Encodes the event. An event with an age gets the creation time that it has now.
    pub(super) fn encode(mut self) -> Bytes {
        if let Some(age) = self.age_nanos {
            self.message.created_at = unix_nanos() - age;
        }
        encode(&self.message)
    }
}

impl From<ContainerEventResponse> for Event {
    /// Creates an event that the fake sends unchanged.
    fn from(message: ContainerEventResponse) -> Self {
        Self { message, age_nanos: None }
    }
}

/// Returns the time in nanoseconds since the Unix epoch.
pub(super) fn unix_nanos() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since_epoch.as_nanos().try_into().unwrap()
}

/// A message of an open stream.
pub(super) type Pushed = Result<Bytes, ServiceError>;

/// The open streams, and which of them get an event.
#[derive(Debug, Default)]
pub(super) struct OpenStreams {
    /// Whether only one stream gets each event.
    competing: bool,
    subscribers: VecDeque<UnboundedSender<Pushed>>,
    /// The events that wait for the first stream.
    backlog: Vec<Bytes>,
}

impl OpenStreams {
    pub(super) fn new(competing: bool) -> Self {
        Self { competing, ..Self::default() }
    }

    /// Adds a receiver, which first gets the backlog.
    pub(super) fn subscribe(&mut self) -> UnboundedReceiver<Pushed> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for event in self.backlog.drain(..) {
            let _ = sender.send(Ok(event));
        }
        self.subscribers.push_back(sender);
        receiver
    }

    /// Sends to all streams or, like containerd 1.7, to one stream in turn. Without a stream, the event waits for the
    /// first one.
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

    /// Ends all open streams with a status, or with OK.
    pub(super) fn end(&mut self, failure: Option<&ServiceError>) {
        for subscriber in self.subscribers.drain(..) {
            if let Some(status) = failure {
                let _ = subscriber.send(Err(status.clone()));
            }
        }
    }
}
