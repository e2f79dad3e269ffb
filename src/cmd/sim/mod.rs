//! `plegctl sim`: lists, describes and serves simulated runtimes, for training, for tests and for trying plegctl on a
//! laptop.
//!
//! ```text
//! $ plegctl sim describe hung-list
//! $ plegctl sim serve hung-list --listen /tmp/hung.sock
//! unix:///tmp/hung.sock
//! $ plegctl health -r sim:hung-list
//! $ plegctl sim fleet --nodes 200
//! ```
//!
//! `serve` creates one socket and removes it at the end. It
//! prints the address of the socket and, if the scenario has a kubelet, the URL below which the kubelet's `/metrics`
//! and `/healthz` are.

pub(super) mod fleet;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::Serialize;

use self::fleet::FleetArgs;
use super::args::GlobalArgs;
use super::event_loop::block_on;
use super::node::Node;
use super::term::output::Output;
use super::term::stop_signals::StopSignals;
use super::term::streams;
use super::{Error, Exit, complete};
use crate::report::document;
use crate::sim::{KubeletPages, Scenario, Socket, built_in, load};

#[derive(Debug, Args)]
pub struct SimArgs {
    #[command(subcommand)]
    action: SimAction,
}

#[derive(Debug, Subcommand)]
enum SimAction {
    /// List all scenarios
    List {
        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Name]))]
        output: Output,
    },
    /// Show what is wrong in a scenario, what a kubelet would report and what you can try
    Describe {
        /// A built-in scenario, or the path of a file
        #[arg(add = ArgValueCompleter::new(complete::scenarios))]
        scenario: String,
    },
    /// Serve a scenario on a socket for any CRI client, until Ctrl-C or SIGTERM
    Serve {
        /// A built-in scenario, or the path of a file
        #[arg(add = ArgValueCompleter::new(complete::scenarios))]
        scenario: String,
        /// Path of the socket, with or without `unix://`; it must not exist yet
        #[arg(long, value_name = "PATH", value_parser = socket_path, value_hint = ValueHint::FilePath)]
        listen: PathBuf,
    },
    /// Serve a simulated cluster, with healthy, slow and hung nodes and their recorders, for `nodes` and `--node`, from 20 s
    /// after its start until Ctrl-C
    Fleet(FleetArgs),
}

/// The scenarios of the simulator.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct ScenarioList {
    /// The scenarios.
    scenarios: Vec<ListedScenario>,
}

/// One scenario of the list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ListedScenario {
    /// The name.
    name: String,
    /// The endpoint to pass with `-r`.
    endpoint: String,
    /// The title.
    title: String,
    /// What is wrong on the simulated node.
    wrong: String,
}

/// Prints every scenario.
fn list(output: Output, global: &GlobalArgs) -> Result<(), Error> {
    let scenarios = built_in().map_err(crate::sim::Error::from)?;
    let listed = |scenario: &Scenario| ListedScenario {
        name: scenario.name.clone(),
        endpoint: format!("sim:{}", scenario.name),
        title: scenario.title.clone(),
        wrong: scenario.wrong.clone(),
    };
    let list = ScenarioList { scenarios: scenarios.iter().map(listed).collect() };
    output.print(&document(&list), global.style(), |out| match output {
        Output::Name => scenarios.iter().try_for_each(|scenario| writeln!(out, "sim:{}", scenario.name)),
        _ => text::list(&scenarios, out),
    })?;
    Ok(())
}

/// Runs the command.
pub fn run(arguments: &SimArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    match &arguments.action {
        SimAction::List { output } => list(*output, global)?,
        SimAction::Describe { scenario } => {
            let scenario = load(scenario)?;
            streams::text(global.style(), |out| text::describe(&scenario, out))?;
        }
        SimAction::Serve { scenario, listen } => serve(&load(scenario)?, listen, &Node::named_by(global))?,
        SimAction::Fleet(arguments) => return fleet::run(arguments, global),
    }
    Ok(Exit::Good)
}

/// Parses the socket's path, with or without `unix://`.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    if path.is_empty() { Err("the socket has no name".to_owned()) } else { Ok(PathBuf::from(path)) }
}

/// Serves a scenario until a signal arrives. Prints the address as soon as a client can connect.
fn serve(scenario: &Scenario, listen: &Path, node: &Node) -> Result<(), Error> {
    block_on(async {
        // A closed terminal must not leave the socket behind.
        let stop_signals = StopSignals::listen(None).and_then(StopSignals::or_hangup);
        let mut stop_signals = stop_signals.map_err(Error::Start)?;
        let start = node.clock.wall().minus(node.global.at.unwrap_or_default());
        let socket = Socket::bind_since(listen, scenario, Arc::clone(&node.clock), start)?;
        node.remark(&format!("playing {} until Ctrl-C", scenario.name));
        let path = std::path::absolute(listen)?;
        let mut addresses = vec![format!("unix://{}", path.display())];
        // A scenario that simulates processes also has a kubelet.
        if let Some(processes) = &scenario.processes {
            let pages = KubeletPages::new(processes.clone(), Arc::clone(&node.clock));
            addresses.push(pages.serve().map_err(Error::Start)?.clone());
        }
        streams::text(node.global.style(), |out| {
            addresses.iter().try_for_each(|address| writeln!(out, "{address}"))
        })?;
        socket.serve(stop_signals.next()).await?;
        Ok(())
    })?
}
