//! The two ways to reach a simulated runtime: [`Simulator`] for clients in this process, and [`Socket`] for any CRI
//! client.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::scenario::Scenario;
use super::simulation::Simulation;
use crate::clock::{Clock, Wall};
use crate::cri;
use crate::cri::server::{InProcess, SocketServer};

/// A simulated runtime for clients in this process. It runs in its own thread, so that it does not block its clients.
#[derive(Clone, Debug)]
pub struct Simulator {
    server: InProcess,
    endpoint: Arc<str>,
    listens: bool,
}

impl Simulator {
    /// Starts `scenario` from its beginning. The simulation ends when the last clone of the simulator and its last
    /// client are dropped.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let start_time = clock.wall();
        Self::since(scenario, clock, start_time)
    }

    /// Starts `scenario` in the state that it has now if it started at `start_time`.
    pub fn since(scenario: &Scenario, clock: Arc<dyn Clock>, start_time: Wall) -> Result<Self, Error> {
        let endpoint = format!("sim:{}", scenario.name);
        let server = InProcess::start(&endpoint, Simulation::start(scenario, clock, start_time))
            .map_err(|source| Error::Start { source })?;
        Ok(Self { server, endpoint: endpoint.into(), listens: scenario.runtime.listens })
    }

    /// Creates a client of this runtime, which connects with its first call.
    pub fn client(&self, deadline: Duration, clock: Arc<dyn Clock>) -> cri::Client {
        if self.listens {
            return self.server.client(deadline, clock);
        }
        let refused = cri::Error::Refused { endpoint: self.endpoint.to_string() };
        let connect = move || std::future::ready(Err(refused.clone()));
        cri::Client::over(connect, &self.endpoint, deadline, clock)
    }
}

/// A simulated runtime on a socket, which is removed when this is dropped.
pub struct Socket {
    listening: SocketServer,
    simulation: Arc<Simulation>,
    path: PathBuf,
}

impl Socket {
    /// Starts `scenario` on a socket at `path`, which must not exist.
    pub fn bind(path: &Path, scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let start_time = clock.wall();
        Self::bind_since(path, scenario, clock, start_time)
    }

    /// Starts the scenario in the state that it has now if it started at `start_time`.
    pub fn bind_since(
        path: &Path,
        scenario: &Scenario,
        clock: Arc<dyn Clock>,
        start_time: Wall,
    ) -> Result<Self, Error> {
        // The simulation starts before the socket exists, so that the first client does not wait.
        let simulation = Simulation::start(scenario, clock, start_time);
        let path = path.to_path_buf();
        let listening = match SocketServer::bind(&path) {
            Ok(listening) if scenario.runtime.listens => listening,
            Ok(listening) => listening.without_listener(),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => return Err(Error::PathTaken { path }),
            Err(source) => return Err(Error::Listen { path, source }),
        };
        Ok(Self { listening, simulation, path })
    }

    /// Serves clients until `end` completes.
    pub async fn serve(self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { listening, simulation, path } = self;
        listening.serve(simulation, end).await.map_err(|source| Error::Listen { path, source })
    }
}
