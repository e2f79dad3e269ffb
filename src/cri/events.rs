//! The event stream on a connection and a thread of its own.
//!
//! A reader that stops reading can wedge the creation of pods on the whole node (containerd 2.x), so nothing else may
//! stand between the socket and its reader: no call, no output, no other task of this process.

use std::fmt;
use std::future::ready;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;

use super::client::EVENT_QUEUE;
use super::{Client, Error, EventStream, Tape};
use crate::clock::Clock;
use crate::threads;

/// A connection that will carry the event stream and nothing else.
pub struct EventConnection {
    socket: StdStream,
    endpoint: Arc<str>,
    clock: Arc<dyn Clock>,
    tape: Option<Arc<dyn Tape>>,
}

impl fmt::Debug for EventConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventConnection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Shuts a connection down, whoever else holds it: on purpose with [`Self::hang_up`], and when dropped.
#[derive(Debug)]
pub struct HangUp(StdStream);

impl HangUp {
    /// Ends the connection at once, for this process and for the runtime.
    pub fn hang_up(&self) {
        // A connection that is over already is what we want.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl EventConnection {
    pub(super) fn new(
        socket: StdStream,
        endpoint: Arc<str>,
        clock: Arc<dyn Clock>,
        tape: Option<Arc<dyn Tape>>,
    ) -> Self {
        Self { socket, endpoint, clock, tape }
    }

    /// The socket once more, for a process that watches over it.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Asks for the events and starts the thread that reads them. Whatever comes over `questions` it gives back, for as
    /// long as it would read an event if there were one. A runtime that has nothing to say sends nothing, not even
    /// headers: the stream counts as open from here on.
    pub fn subscribe(self, questions: Option<StdStream>) -> io::Result<(EventStream, HangUp)> {
        let Self { socket, endpoint, clock, tape } = self;
        let hang_up = HangUp(socket.try_clone()?);
        let (feed, events) = EventStream::bounded(EVENT_QUEUE);
        let read = async move {
            if let Some(questions) = questions {
                tokio::spawn(answer(questions));
            }
            let connect = once(socket, Arc::clone(&endpoint));
            // No deadline: a stream that was cancelled after an hour was not silent.
            let mut client = Client::over(connect, &endpoint, Duration::MAX, clock);
            if let Some(tape) = tape {
                client = client.with_tape(tape);
            }
            client.feed(feed).await;
        };
        threads::drive("events", read)?;
        Ok((events, hang_up))
    }
}

/// Gives back what is asked. A line that breaks is for whoever asks to notice.
async fn answer(line: StdStream) {
    if let Ok(mut line) = line.set_nonblocking(true).and_then(|()| UnixStream::from_std(line)) {
        let (mut asked, mut answered) = line.split();
        let _ = tokio::io::copy(&mut asked, &mut answered).await;
    }
}

/// Hands out the one connection; a client that wants another has lost it.
fn once(
    socket: StdStream,
    endpoint: Arc<str>,
) -> impl Fn() -> std::future::Ready<Result<UnixStream, Error>> + Send + Sync + 'static {
    let socket = Mutex::new(Some(socket));
    move || {
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = match socket {
            Some(socket) => UnixStream::from_std(socket),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        ready(
            stream.map_err(|why| Error::Unreachable {
                endpoint: endpoint.to_string(),
                detail: why.to_string(),
            }),
        )
    }
}
