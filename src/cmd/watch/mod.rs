//! `plegctl watch`: the kubelet's PLEG, live.
//!
//! ```text
//! $ plegctl watch --for 1m
//! 12:03:04.512  kube-system/etcd-n1  etcd  running → exited (137 OOMKilled)  ContainerDied
//! 12:03:05.530  kube-system/etcd-n1  etcd  non-existent → running  ContainerStarted
//! ```
//!
//! It relists as the kubelet does and prints each event as soon as its pod is done. It never asks twice, ends at once
//! when it is told to even while a call hangs, and waits for its reader only between relists.

mod latency;
mod metrics;
mod outlet;
mod reporter;
mod session;
mod tally;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::context::{Context, block_on};
use super::{Error, Exit, positive_duration};
use crate::pleg::KubeletVersion;
use session::Session;

/// Deadline of a call while watching: the kubelet's own.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The kubelet's PLEG, live: every event it would have seen, every relist timed.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Pause between the end of a relist and the start of the next [default: 1s]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    period: Option<Duration>,

    /// Age from which on PLEG is not healthy [default: 3m]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    threshold: Option<Duration>,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    lasting: Option<Duration>,

    /// End with exit status 1 as soon as a relist, or one call of it, takes longer than this
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    until_slow: Option<Duration>,

    /// End with exit status 1 as soon as PLEG is not healthy
    #[arg(long)]
    until_unhealthy: bool,

    /// Append the JSON lines to this file too
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Show the events of the first relist in the table too
    #[arg(long)]
    initial: bool,

    /// Leave out the status calls that the kubelet makes for changed pods
    #[arg(long)]
    no_inspect: bool,

    /// Serve the kubelet's PLEG metrics over HTTP on this address, at `/metrics`
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<SocketAddr>,

    /// Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: the newest known]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A line for each event, and a live line on a terminal
    Table,
    /// A JSON object a line for everything that happens
    Jsonl,
}

/// Runs the command.
pub fn run(arguments: &WatchArgs, context: &Context) -> Result<Exit, Error> {
    let endpoint = context.endpoint()?;
    block_on(async {
        let session = Session::open(arguments, context, &endpoint).await?;
        session.run().await
    })?
}
