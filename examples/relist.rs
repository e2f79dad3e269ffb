//! Relists a runtime once and prints the events that the kubelet's PLEG would emit.
//!
//! ```console
//! $ cargo run --example relist -- /run/containerd/containerd.sock
//! $ cargo run --example relist -- sim:slow-disk
//! ```
//!
//! The first relist of a kubelet finds every container new, so this prints one `ContainerStarted` for each container
//! and sandbox that runs, and one `ContainerDied` for each that has exited. The engine makes the kubelet's calls in
//! the kubelet's order: the two lists, then the status calls of each pod.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::Client;
use plegctl_engine::pleg::{GenericPleg, PlegSettings, SharedState};
use plegctl_engine::sim::{self, Simulator};

/// Reads the endpoint from the command line.
pub fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| "sim:quiet".to_owned());
    let network = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    network.block_on(run(&endpoint, &mut io::stdout()))
}

/// Relists the runtime at `endpoint`: the path of a socket, or `sim:` and the name of a scenario.
pub async fn run(endpoint: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    const DEADLINE: Duration = Duration::from_secs(10);
    let clock = Arc::new(SystemClock::start());
    // The simulator serves as long as it is not dropped.
    let (client, _simulator) = match endpoint.strip_prefix("sim:") {
        Some(scenario) => {
            let simulator = Simulator::start(&sim::load(scenario)?, clock.clone())?;
            (simulator.client(DEADLINE, clock.clone()), Some(simulator))
        }
        None => (Client::new(Path::new(endpoint), endpoint, DEADLINE, clock.clone()), None),
    };

    let mut pleg = GenericPleg::new(Arc::new(SharedState::new(false)), PlegSettings::default());
    let mut events = Vec::new();
    let relist = pleg.relist(&client, &*clock, &mut events).await;
    if let Some(error) = relist.error {
        return Err(error.into());
    }
    for event in events {
        let name = event.name.as_deref().unwrap_or("(sandbox)");
        writeln!(out, "{:?} {} {name}", event.event_type, event.pod)?;
    }
    writeln!(out, "{} calls in {:?}", relist.calls.len(), relist.duration_seconds.duration())?;
    Ok(())
}
