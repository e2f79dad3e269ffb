//! Measures a whole relist, compared with the minimum: the same two calls without decoding the answers.

pub mod support;
#[path = "support/target.rs"]
pub mod target;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::Client;
use plegctl_engine::pleg::Era;
use plegctl_engine::pleg::single_relist::{Inspect, RelistRequest, relist};
use plegctl_engine::report::RuntimeRef;
use support::minimum::BareClient;
use support::process::{PLEGCTL, peak_memory, wall};
use support::{alone, figure, heading, in_turn, kibibytes, mebibytes, milliseconds, ratio, time};
use target::{Options, Target};
use tokio::runtime::Runtime;

#[derive(Debug, Parser)]
struct Arguments {
    /// Make only the minimum's two calls on this socket, once
    #[arg(long, value_name = "SOCKET")]
    minimum: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

fn main() {
    let arguments = Arguments::parse();
    let network = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Some(socket) = &arguments.minimum {
        network.block_on(async { BareClient::to(socket).lists().await });
        return;
    }
    if let Some(node) = Target::real(&arguments.options) {
        against_the_minimum(&network, &node, 101);
    }
    against_the_minimum(&network, &Target::simulated("quiet"), 101);
    let big = Target::simulated("big-node");
    against_the_minimum(&network, &big, 11);
    whole_big_node(&big);
}

/// Compares the relist with a client that only makes the calls: in this process, and as whole processes.
fn against_the_minimum(network: &Runtime, target: &Target, turns: usize) {
    heading(&format!("relist against the minimum, {}", target.name), "relist");
    let (ours, minimum, bytes) = network.block_on(async {
        let client = Client::new(
            target.socket(),
            &target.endpoint(),
            Duration::from_secs(30),
            Arc::new(SystemClock::start()),
        );
        let mut minimum = BareClient::to(target.socket());
        let bytes = minimum.lists().await;
        (client, minimum, bytes)
    });
    let [sandboxes, containers] = bytes;
    figure("ListPodSandbox", &kibibytes(sandboxes));
    figure("ListContainers", &kibibytes(containers));
    in_process(network, &ours, minimum, turns);
    whole_process(target, turns);
}

/// Measures the relist and the minimum in this process.
fn in_process(network: &Runtime, client: &Client, mut minimum: BareClient, turns: usize) {
    let clock = SystemClock::start();
    let request = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: Era::OnDemand,
        inspect: Inspect::Nothing,
    };
    let containers = network
        .block_on(relist(client, &clock, request.clone()))
        .expect("both lists answer")
        .counts
        .containers;
    let containers = containers.created + containers.running + containers.exited + containers.unknown;
    figure("containers", &containers.to_string());
    let (ours, theirs) = in_turn(
        turns,
        || time(|| network.block_on(relist(client, &clock, request.clone())).expect("both lists answer")),
        || time(|| network.block_on(minimum.lists())),
    );
    ratio("in process: lists, grouping, report", &ours, "in process: minimum", &theirs);
}

/// Measures the relist and the minimum as whole processes.
fn whole_process(target: &Target, turns: usize) {
    let this_bench = std::env::current_exe().expect("the bench has a path");
    let this_bench = text(&this_bench);
    let endpoint = target.endpoint();
    let (ours, theirs) = in_turn(
        turns,
        || wall(PLEGCTL, &["relist", "-r", &endpoint, "-o", "jsonl"]),
        || wall(this_bench, &["--minimum", text(target.socket())]),
    );
    ratio("whole process: plegctl relist -o jsonl", &ours, "whole process: minimum", &theirs);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// Measures the time and the memory of commands on a very large node.
fn whole_big_node(big: &Target) {
    heading("whole commands on sim:big-node, the client alone", "relist");
    let endpoint = big.endpoint();
    let folder = big.socket().parent().expect("the socket is in a folder");
    let [before, after] = ["before.json", "after.json"].map(|name| folder.join(name));
    for report in [&before, &after] {
        wall(PLEGCTL, &["relist", "-r", &endpoint, "--save", text(report)]);
    }
    let commands: [(&str, &[&str]); 3] = [
        ("plegctl relist", &["relist", "-r", &endpoint]),
        ("plegctl relist -o jsonl", &["relist", "-r", &endpoint, "-o", "jsonl"]),
        ("plegctl diff", &["diff", text(&before), text(&after)]),
    ];
    for (name, command) in commands {
        figure(name, &milliseconds(alone(5, || wall(PLEGCTL, command)).median()));
        figure("  peak memory", &mebibytes(peak_memory(PLEGCTL, command)));
    }
}
