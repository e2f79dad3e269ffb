//! The two ways to a simulated runtime: within this process, and a socket that any CRI client finds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::scenario::Scenario;
use super::simulation::Simulation;
use crate::clock::{Clock, Wall};
use crate::cri;
use crate::cri::server::{InProcess, Listening};

/// A runtime simulated in this process, on a thread of its own: whatever hangs in it hangs nobody else.
#[derive(Clone, Debug)]
pub struct Simulator {
    server: InProcess,
    endpoint: Arc<str>,
    listens: bool,
}

impl Simulator {
    /// Starts to play `scenario` from its beginning; it ends with the last clone of this and the last client.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let begun = clock.wall();
        Self::since(scenario, clock, begun)
    }

    /// Plays `scenario` from now on, as it has come to be since `begun`.
    pub fn since(scenario: &Scenario, clock: Arc<dyn Clock>, begun: Wall) -> Result<Self, Error> {
        let endpoint = format!("sim:{}", scenario.name);
        let server = InProcess::start(&endpoint, Simulation::start(scenario, clock, begun))
            .map_err(|source| Error::Start { source })?;
        Ok(Self { server, endpoint: endpoint.into(), listens: scenario.runtime.listens })
    }

    /// A client of this runtime; it connects with its first call.
    pub fn client(&self, deadline: Duration, clock: Arc<dyn Clock>) -> cri::Client {
        if self.listens {
            return self.server.client(deadline, clock);
        }
        let refused = cri::Error::Refused { endpoint: self.endpoint.to_string() };
        let connect = move || std::future::ready(Err(refused.clone()));
        cri::Client::over(connect, &self.endpoint, deadline, clock)
    }
}

/// A scenario on a socket, which is removed when this is dropped.
pub struct Socket {
    listening: Listening,
    simulation: Arc<Simulation>,
    path: PathBuf,
}

impl Socket {
    /// Starts to play `scenario` on a socket at `path`, where nothing may be yet.
    pub fn bind(path: &Path, scenario: &Scenario, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let begun = clock.wall();
        Self::bind_since(path, scenario, clock, begun, None)
    }

    /// The same as it has come to be since `begun`, with logs of containers below `logs`.
    pub fn bind_since(
        path: &Path,
        scenario: &Scenario,
        clock: Arc<dyn Clock>,
        begun: Wall,
        logs: Option<&Path>,
    ) -> Result<Self, Error> {
        // The node first: who sees the socket does not want to wait.
        let simulation = Simulation::start_with(scenario, clock, begun, logs);
        let path = path.to_path_buf();
        let listening = match Listening::at(&path) {
            Ok(listening) if scenario.runtime.listens => listening,
            Ok(listening) => listening.abandoned(),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => return Err(Error::PathTaken { path }),
            Err(source) => return Err(Error::Listen { path, source }),
        };
        Ok(Self { listening, simulation, path })
    }

    /// Answers whoever connects, until `end`.
    pub async fn serve(self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { listening, simulation, path } = self;
        listening.serve(simulation, end).await.map_err(|source| Error::Listen { path, source })
    }
}
