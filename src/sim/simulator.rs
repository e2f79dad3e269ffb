//! The two ways to a simulated runtime: a pair of sockets in this process, and a socket that any CRI client finds.

use std::io;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Error;
use super::grpc::serve_connection;
use super::scenario::Scenario;
use super::simulation::Simulation;
use crate::clock::Clock;
use crate::cri;

/// A pause after a connection that could not be accepted, so that running out of file descriptors is no busy loop.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// A runtime simulated in this process, on a thread of its own: whatever hangs in it hangs nobody else.
#[derive(Clone, Debug)]
pub struct Simulator {
    door: UnboundedSender<StdStream>,
    endpoint: Arc<str>,
    listens: bool,
}

impl Simulator {
    /// Starts to play `scenario`; it ends with the last clone of this and the last client.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let (door, callers) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::Start { source })?;
        let simulation = Simulation::start(scenario, clock);
        thread::Builder::new()
            .name("simulator".into())
            .spawn(move || runtime.block_on(receive(simulation, callers)))
            .map_err(|source| Error::Start { source })?;
        let endpoint = format!("sim:{}", scenario.name).into();
        Ok(Self { door, endpoint, listens: scenario.runtime.listens })
    }

    /// A new connection; must be called within a tokio runtime.
    pub fn connect(&self) -> Result<UnixStream, cri::Error> {
        if !self.listens {
            return Err(cri::Error::Refused { endpoint: self.endpoint.to_string() });
        }
        self.pair().map_err(|why| cri::Error::Unreachable {
            endpoint: self.endpoint.to_string(),
            detail: why.to_string(),
        })
    }

    fn pair(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        self.door.send(theirs).map_err(|_| io::Error::other("the simulator is gone"))?;
        UnixStream::from_std(ours)
    }

    /// A client of this runtime; it connects with its first call.
    pub fn client(&self, deadline: Duration, clock: Arc<dyn Clock>) -> cri::Client {
        let simulator = self.clone();
        let connect = move || std::future::ready(simulator.connect());
        cri::Client::over(connect, &self.endpoint, deadline, clock)
    }
}

async fn receive(simulation: Arc<Simulation>, mut callers: UnboundedReceiver<StdStream>) {
    while let Some(caller) = callers.recv().await {
        if let Ok(stream) = UnixStream::from_std(caller) {
            tokio::spawn(serve_connection(Arc::clone(&simulation), stream));
        }
    }
}

/// A scenario on a socket, which is removed when this is dropped.
pub struct Socket {
    /// Absent where nobody is to listen: a socket file alone is what a dead daemon leaves behind.
    listener: Option<StdListener>,
    simulation: Arc<Simulation>,
    path: PathBuf,
}

impl Socket {
    /// Starts to play `scenario` on a socket at `path`, where nothing may be yet.
    pub fn bind(path: &Path, scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        // The node first: who sees the socket does not want to wait.
        let simulation = Simulation::start(scenario, clock);
        let path = path.to_path_buf();
        let listener = match StdListener::bind(&path) {
            Ok(listener) => Some(listener).filter(|_| scenario.runtime.listens),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => return Err(Error::PathTaken { path }),
            Err(source) => return Err(Error::Listen { path, source }),
        };
        Ok(Self { listener, simulation, path })
    }

    /// Answers whoever connects, until `end`.
    pub async fn serve(mut self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let Some(listener) = self.listener.take() else {
            end.await;
            return Ok(());
        };
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(|source| Error::Listen { path: self.path.clone(), source })?;
        tokio::select! {
            () = accept(&self.simulation, &listener) => {}
            () = end => {}
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It may have been removed by somebody else; that is what we want anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(simulation: &Arc<Simulation>, listener: &UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(Arc::clone(simulation), stream));
            }
            Err(_) => tokio::time::sleep(AFTER_TROUBLE).await,
        }
    }
}
