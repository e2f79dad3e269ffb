//! The two ways to a service: a pair of sockets in this process, and a socket that any CRI client finds.

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Service, serve_connection};
use crate::clock::Clock;
use crate::cri::{Client, Error};
use crate::threads;

/// A pause after a connection that could not be accepted, so that running out of file descriptors is no busy loop.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// A service on a thread of its own in this process: whatever hangs in it hangs nobody else. It ends with the last
/// clone of this and the last client.
#[derive(Clone, Debug)]
pub struct InProcess {
    callers: UnboundedSender<StdStream>,
    endpoint: Arc<str>,
}

impl InProcess {
    /// Starts to serve; `endpoint` is what the user calls it.
    pub fn start(endpoint: &str, service: Arc<impl Service>) -> io::Result<Self> {
        let (callers, waiting) = unbounded_channel();
        threads::drive("runtime", receive(service, waiting))?;
        Ok(Self { callers, endpoint: endpoint.into() })
    }

    /// A new connection; must be called within a tokio runtime.
    pub fn connect(&self) -> Result<UnixStream, Error> {
        let unreachable = |why: io::Error| Error::Unreachable {
            endpoint: self.endpoint.to_string(),
            detail: why.to_string(),
        };
        self.pair().map_err(unreachable)
    }

    fn pair(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        self.callers.send(theirs).map_err(|_| io::Error::other("nobody serves it any more"))?;
        UnixStream::from_std(ours)
    }

    /// A client of this service; it connects with its first call.
    pub fn client(&self, deadline: Duration, clock: Arc<dyn Clock>) -> Client {
        let server = self.clone();
        let connect = move || std::future::ready(server.connect());
        Client::over(connect, &self.endpoint, deadline, clock)
    }
}

async fn receive(service: Arc<impl Service>, mut callers: UnboundedReceiver<StdStream>) {
    while let Some(caller) = callers.recv().await {
        if let Ok(stream) = UnixStream::from_std(caller) {
            tokio::spawn(serve_connection(Arc::clone(&service), stream));
        }
    }
}

/// A socket on which somebody listens; it is removed when this is dropped.
#[derive(Debug)]
pub struct Listening {
    listener: Option<StdListener>,
    path: PathBuf,
}

impl Listening {
    /// Makes a socket at `path`, where nothing may be yet.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { listener: Some(StdListener::bind(path)?), path: path.to_path_buf() })
    }

    /// The same socket with nobody behind it: what a dead daemon leaves.
    #[must_use]
    pub fn abandoned(mut self) -> Self {
        self.listener = None;
        self
    }

    /// Answers whoever connects, until `end`.
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
        tokio::select! {
            () = accept(&service, &listener) => {}
            () = end => {}
        }
        Ok(())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have been removed by somebody else; that is what we want anyway.
        let _ = fs::remove_file(&self.path);
    }
}

async fn accept(service: &Arc<impl Service>, listener: &UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(Arc::clone(service), stream));
            }
            Err(_) => tokio::time::sleep(AFTER_TROUBLE).await,
        }
    }
}
