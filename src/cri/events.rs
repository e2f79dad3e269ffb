//! Reads the event stream on its own connection, in its own thread.
//!
//! In containerd 2.x, a client that stops reading the event stream can block the creation of pods on the whole node. So
//! nothing else may delay the reader: no call, no output and no other task of this process.

use std::fmt;
use std::future::ready;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;

use super::client::EVENT_QUEUE;
use super::{CallObserver, Client, Error, EventStream};
use crate::clock::Clock;
use crate::threads;

/// Answers a guard's pings until the guard has ended.
pub type PingAnswers = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection for the event stream only.
pub struct EventConnection {
    socket: StdStream,
    endpoint: Arc<str>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn CallObserver>>,
}

impl fmt::Debug for EventConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventConnection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Shuts a connection down, also for other processes that hold its socket: with [`Self::close`], or when dropped.
#[derive(Debug)]
pub struct ConnectionCloser(StdStream);

impl ConnectionCloser {
    /// Closes the connection at once, for this process and for the runtime.
    pub fn close(&self) {
        // The connection may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Drop for ConnectionCloser {
    fn drop(&mut self) {
        self.close();
    }
}

impl EventConnection {
    pub(super) fn new(
        socket: StdStream,
        endpoint: Arc<str>,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        Self { socket, endpoint, clock, observer }
    }

    /// Duplicates the socket, for the guard process that can close it.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Subscribes to the events, and starts the thread that reads them. The thread also answers the guard's pings, which
    /// proves that it can still read events, and closes the connection as soon as the guard has ended. A runtime without
    /// events sends nothing, not even headers, so the stream counts as open once this function returns.
    pub fn subscribe(self, pings: Option<PingAnswers>) -> io::Result<(EventStream, ConnectionCloser)> {
        let Self { socket, endpoint, clock, observer } = self;
        let close = ConnectionCloser(socket.try_clone()?);
        let for_guard = pings.is_some().then(|| socket.try_clone()).transpose()?.map(ConnectionCloser);
        let (feed, events) = EventStream::bounded(EVENT_QUEUE);
        let read = async move {
            if let Some((pings, close)) = pings.zip(for_guard) {
                tokio::spawn(async move {
                    pings.await;
                    close.close();
                });
            }
            let connect = single_use(socket, Arc::clone(&endpoint));
            // The stream has no deadline: a stream that is closed after an hour was not silent.
            let mut client = Client::over(connect, &endpoint, Duration::MAX, clock);
            if let Some(observer) = observer {
                client = client.with_observer(observer);
            }
            client.feed(feed).await;
        };
        threads::run_event_loop("events", read)?;
        Ok((events, close))
    }
}

/// Returns a connect function that returns this connection once; a second connection is an error.
fn single_use(
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
        ready(stream.map_err(|why| Error::unreachable(&endpoint, &why)))
    }
}
