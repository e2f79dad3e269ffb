//! `plegctl sim fleet`: simulates a cluster for `nodes`, `health --node` and every other command that goes through an API
//! server.
//!
//! ```text
//! $ plegctl sim fleet --nodes 200
//! http://127.0.0.1:41573: 166 healthy, 4 hung, 6 slow, 2 NotReady, …
//! try, in another terminal:
//!   KUBECONFIG=/tmp/plegctl-fleet-4711/kubeconfig plegctl nodes
//! ```
//!
//! Each scenario of the fleet is played once, and recorded by a real recorder in a thread of its own ([`scenario_run`]). The
//! nodes of a scenario share its recorder, with names of their own: so thousands of nodes cost as much as a few, and the
//! verdicts, incidents and captures are what a recorder on such a node would answer. [`api`] answers the requests, [`objects`]
//! makes the API server's objects and the kubelets' documents.
//!
//! The server listens on an address of the loopback device only, without TLS.

mod api;
mod files;
mod goroutines;
mod objects;
mod scenario_run;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};

use self::api::SimulatedCluster;
use self::files::FleetFiles;
use self::scenario_run::{RecorderThreads, ScenarioRun};
use crate::clock::{Clock, SystemClock};
use crate::cmd::args::{GlobalArgs, whole_number};
use crate::cmd::event_loop::block_on;
use crate::cmd::render::page::Page;
use crate::cmd::serve::metrics_server::{self, Pages};
use crate::cmd::term::stop_signals::StopSignals;
use crate::cmd::term::streams::{self, ProgressLine};
use crate::cmd::{Error, Exit};
use crate::report::duration::elapsed;
use crate::report::escape::shell_word;
use crate::report::plural;
use crate::sim::fleet::{FleetNode, SHAPES, plan};

/// The largest fleet. Kubernetes supports 5000 nodes.
const MAX_NODES: usize = 10_000;

/// The number of answers that are sent at the same time. A node that hangs keeps its place until the client gives up.
const MAX_ANSWERS: usize = 4096;

/// How long the recorders may need for their first verdicts. The slowest one needs 20 s.
const FIRST_VERDICTS: Duration = Duration::from_secs(60);

/// The pause between two looks at the verdicts.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value = "200", value_parser = number_of_nodes)]
    nodes: usize,

    /// Address of the API server, on the loopback device [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", hide_default_value = true, value_parser = loopback_address)]
    listen: SocketAddr,

    /// Which nodes are hung, slow, silent and so on: the same seed chooses the same nodes
    #[arg(long, value_name = "N", value_parser = whole_number::<u64>, default_value = "1")]
    seed: u64,

    /// Write the kubeconfig to this file, which must not exist; it is removed at the end [default: in a new directory under
    /// `$TMPDIR`, else /tmp]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,
}

fn number_of_nodes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_NODES).contains(number));
    number.ok_or_else(|| format!("it must be a whole number from 1 to {MAX_NODES}"))
}

/// Parses the address. Anybody who reaches the server can read everything, so only this machine may reach it.
fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address = metrics_server::address(text)?;
    let refused = "it is not an address of the loopback device, such as 127.0.0.1:8001 or [::1]:8001";
    if address.ip().is_loopback() { Ok(address) } else { Err(refused.to_owned()) }
}

/// Runs the command.
pub fn run(arguments: &FleetArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    block_on(async {
        let mut stop = StopSignals::listen(None).and_then(StopSignals::or_hangup).map_err(Error::Start)?;
        let files = FleetFiles::create(arguments.kubeconfig.as_deref())?;
        let served = async {
            let nodes = plan(arguments.nodes, arguments.seed);
            let mut threads = RecorderThreads::default();
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
            let runs = start_runs(&nodes, &files, (global, &clock), &mut threads).await?;
            let cluster = SimulatedCluster::new(nodes.clone(), runs, files.token(), clock);
            let address = serve(arguments.listen, cluster)?;
            let path = files.write_kubeconfig(address)?;
            streams::text(global.style(), |out| {
                print(&nodes, address, &shown(&path), &shown(files.token()), out)
            })?;
            global.remark("serving until Ctrl-C");
            std::future::pending::<Result<(), Error>>().await
        };
        tokio::select! {
            never = served => never?,
            () = stop.next() => {}
        }
        Ok(Exit::Good)
    })?
}

/// Starts the scenarios of the nodes, and waits until their recorders have found what is wrong.
async fn start_runs(
    nodes: &[FleetNode],
    files: &FleetFiles,
    (global, clock): (&GlobalArgs, &Arc<dyn Clock>),
    threads: &mut RecorderThreads,
) -> Result<BTreeMap<&'static str, ScenarioRun>, Error> {
    let names: BTreeSet<_> = nodes.iter().map(|node| node.shape.scenario).collect();
    let mut runs = BTreeMap::new();
    for name in names {
        runs.insert(name, ScenarioRun::start(name, files.capture(name), clock, threads).await?);
    }
    let (all, ready) = (runs.len(), Cell::new(0));
    let progress = ProgressLine::sentence(global.quiet);
    let began = clock.mono();
    let line = || {
        let waited = elapsed(clock.mono().since(began));
        Some(format!(
            "waiting {waited} of about 20s: {} of {all} simulated recorders have a verdict",
            ready.get()
        ))
    };
    let found = async {
        for run in runs.values() {
            while !run.has_found_the_fault() {
                tokio::time::sleep(LOOK).await;
            }
            ready.update(|ready| ready + 1);
        }
    };
    // A busy machine may need longer; then the recorders answer that they do not know yet.
    let _ = tokio::time::timeout(FIRST_VERDICTS, progress.during(line, found)).await;
    progress.end();
    Ok(runs)
}

/// Serves the cluster, and returns the address.
fn serve(address: SocketAddr, cluster: SimulatedCluster) -> Result<SocketAddr, Error> {
    let pages: Pages = Arc::new(move |request| Some(cluster.answer(request)));
    metrics_server::serve_pages(address, pages, MAX_ANSWERS)
        .map_err(|source| Error::Listen { address, source })
}

/// Returns a path as a word of a shell.
fn shown(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// Prints the address, what is wrong with the nodes, and commands to try.
fn print(
    nodes: &[FleetNode],
    address: SocketAddr,
    kubeconfig: &str,
    token: &str,
    out: &mut Page<'_>,
) -> io::Result<()> {
    let count = |name: &str| nodes.iter().filter(|node| node.shape.name == name).count();
    let counts = SHAPES.iter().map(|shape| (count(shape.name), shape.name)).filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    writeln!(out, "http://{address}: {}: {}", plural(nodes.len(), "node"), counts.join(", "))?;
    writeln!(out, "kubeconfig {kubeconfig}, token of the recorders {token}")?;
    writeln!(out, "try, in another terminal:")?;
    let hung = nodes.iter().find(|node| node.shape.name == "hung").or_else(|| nodes.first());
    let name = hung.map_or("", |node| node.name.as_str());
    for command in ["nodes".to_owned(), format!("health --node {name}"), "nodes --incidents".to_owned()] {
        out.command(2, &format!("KUBECONFIG={kubeconfig} plegctl {command}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_device_is_served() {
        for text in ["127.0.0.1:0", "127.8.9.1:8001", "[::1]:8001"] {
            assert!(loopback_address(text).is_ok(), "{text}");
        }
        for text in
            ["0.0.0.0:8001", "10.0.0.1:8001", "[::]:8001", "[::ffff:10.0.0.1]:8001", "localhost:8001", ""]
        {
            assert!(loopback_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fleet_has_a_node_and_not_too_many() {
        assert_eq!((number_of_nodes("1"), number_of_nodes("10000")), (Ok(1), Ok(10_000)));
        for text in ["0", "-1", "10001", "x"] {
            assert!(number_of_nodes(text).is_err(), "{text}");
        }
    }
}
