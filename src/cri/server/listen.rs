//! The two ways to reach a service: [`InProcess`], a socket pair within this process, and [`SocketServer`], a Unix socket that
//! any CRI client can use.

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::serve;
use super::{AnyService, Service};
use crate::clock::Clock;
use crate::cri::{Client, Error};
use crate::threads;

/// The pause after a failed accept, so that a lack of file descriptors does not cause a busy loop.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A service that runs in its own thread of this process, so that a hanging answer blocks nothing else. The thread ends when
/// the last clone of this value and the last client are dropped.
#[derive(Clone, Debug)]
pub struct InProcess {
    callers: UnboundedSender<StdStream>,
    endpoint: Arc<str>,
}

impl InProcess {
    /// Starts the thread; `endpoint` is the user's name for the service.
    pub fn start(endpoint: &str, service: Arc<impl Service>) -> io::Result<Self> {
        let (callers, waiting) = unbounded_channel();
        threads::run_event_loop("runtime", receive(service, waiting))?;
        Ok(Self { callers, endpoint: endpoint.into() })
    }

    /// Opens a new connection. Must be called within a tokio runtime.
    pub fn connect(&self) -> Result<UnixStream, Error> {
        self.pair().map_err(|why| Error::unreachable(&self.endpoint, &why))
    }

    /// Creates a socket pair, and passes one end to the thread of the service.
    fn pair(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        self.callers.send(theirs).map_err(|_| io::Error::other("it has no listener any more"))?;
        UnixStream::from_std(ours)
    }

    /// Creates a client of this service. The first call connects.
    pub fn client(&self, deadline: Duration, clock: Arc<dyn Clock>) -> Client {
        let server = self.clone();
        let connect = move || std::future::ready(server.connect());
        Client::over(connect, &self.endpoint, deadline, clock)
    }
}

/// Serves each connection that arrives through the channel.
async fn receive(service: Arc<dyn AnyService>, mut callers: UnboundedReceiver<StdStream>) {
    while let Some(caller) = callers.recv().await {
        if let Ok(stream) = UnixStream::from_std(caller) {
            tokio::spawn(serve(Arc::clone(&service), stream));
        }
    }
}

/// A Unix socket at a path. Dropping it removes the file.
#[derive(Debug)]
pub struct SocketServer {
    listener: Option<StdListener>,
    path: PathBuf,
}

impl SocketServer {
    /// Creates the socket at `path`, where no file may exist yet.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self { listener: Some(StdListener::bind(path)?), path: path.to_path_buf() })
    }

    /// Closes the socket but keeps its file, as after the death of a daemon.
    #[must_use]
    pub fn without_listener(mut self) -> Self {
        self.listener = None;
        self
    }

    /// Serves every connection until `end` resolves.
    pub async fn serve(
        mut self,
        service: Arc<impl Service>,
        end: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let Some(listener) = self.listener.take() else {
            end.await;
            return Ok(());
        };
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let service: Arc<dyn AnyService> = service;
        tokio::select! {
            () = accept(&service, &listener) => {}
            () = end => {}
        }
        Ok(())
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        // Another program may have removed the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves each connection to the socket.
async fn accept(service: &Arc<dyn AnyService>, listener: &UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(Arc::clone(service), stream));
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}
