//! `plegctl watch`: relists again and again as the kubelet's PLEG does, and prints each event as soon as the status
//! calls of its pod are done.
//!
//! ```text
//! $ plegctl watch --for 1m
//! TIME (UTC)    POD                  CONTAINER  CHANGE                            EVENT
//! 12:03:04.512  kube-system/etcd-n1  etcd       running → exited (137 OOMKilled)  ContainerDied
//! 12:03:05.530  kube-system/etcd-n1  etcd       non-existent → running            ContainerStarted
//! ```
//!
//! `--mode evented` reads the runtime's event stream as the kubelet's `EventedPLEG` does. `--mode compare` relists and
//! reads the event stream, and shows where they differ. A separate thread reads the stream, and a guard process
//! closes the stream if this process is stopped: see `docs/safety.md`.
//!
//! A watch never repeats a pending call, can be ended while a call hangs, and waits for a slow reader of its output
//! only between relists.

mod reporter;
mod watch_run;

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches, ValueEnum};

use super::args::{GlobalArgs, at_least_one, positive_duration};
use super::event_loop::block_on;
use super::flags::list_calls::ListCallsArgs;
use super::session::Session;
use super::{Error, Exit};
use crate::capture::Speed;
use crate::cmd::serve::metrics_server;
use crate::pleg::{KubeletVersion, PlegTiming};
use crate::report::word_enum;
use watch_run::WatchRun;

/// The deadline of a call: the kubelet's own.
const TIMEOUT: Duration = crate::kubelet::timing::REQUEST_TIMEOUT;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag on the command line")]
pub struct WatchArgs {
    /// What to run: relists, the event stream as the kubelet's evented PLEG reads it, or both to compare them
    #[arg(long, value_name = "MODE", default_value = "generic")]
    mode: WatchMode,

    /// Pause between the end of a relist and the start of the next [default: 1s; 300s in evented mode]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    pub(super) period: Option<Duration>,

    /// PLEG is not healthy if its last relist is at least this old [default: 3m; 10m in evented mode]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    pub(super) threshold: Option<Duration>,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    pub(super) count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    pub(super) lasting: Option<Duration>,

    /// End with exit status 1 as soon as a relist, or one call of it, takes longer than this
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    until_slow: Option<Duration>,

    /// End with exit status 1 as soon as PLEG is not healthy
    #[arg(long)]
    until_unhealthy: bool,

    /// Print a one-line diagnosis while a call is silent for 5s or a relist takes more than 10s
    #[arg(long)]
    diagnose: bool,

    /// Append the JSON lines to this file too
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Show in the table also the events of the first relist, and events of the stream that are older than the watch
    #[arg(long)]
    initial: bool,

    /// Do not make the kubelet's status calls for changed pods
    #[arg(long)]
    pub(super) no_inspect: bool,

    #[command(flatten)]
    stream: StreamArgs,

    /// Serve the kubelet's PLEG metrics over HTTP on this address, at `/metrics`
    #[arg(long, value_name = "ADDR", value_parser = metrics_server::address)]
    metrics_listen: Option<SocketAddr>,

    /// The names of these metrics
    #[arg(long, value_name = "NAMES", default_value = "kubelet", requires = "metrics_listen")]
    metric_names: metrics_server::NamesOption,

    #[command(flatten)]
    pub(super) list_calls: ListCallsArgs,

    /// Follow the algorithm of this kubelet release, such as 1.34 [default: this node's kubelet's, if its metrics report
    /// it, else the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    pub(super) kubelet_version: Option<KubeletVersion>,

    /// Speed at which a capture is replayed: a factor, or `max`
    #[arg(long, value_name = "N", default_value = "max", value_parser = speed)]
    speed: Speed,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: WatchOutput,
}

impl WatchArgs {
    /// Returns the arguments of a `watch` without options.
    pub(super) fn without_options() -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("watch"));
        Self::from_arg_matches(&command.try_get_matches_from(["watch"])?)
    }
}

/// Parses `1`, `10` or `max`.
fn speed(text: &str) -> Result<Speed, String> {
    match text.parse() {
        _ if text == "max" => Ok(Speed::Max),
        Ok(0) | Err(_) => Err("write `max`, or a whole number of times".to_owned()),
        Ok(times) => Ok(Speed::Times(times)),
    }
}

/// How the event stream is read, in evented and compare mode.
#[derive(Debug, Args)]
struct StreamArgs {
    /// Stop reading the event stream after it has ended this many times
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>, default_value = "5")]
    retries: NonZeroU32,

    /// Close and reopen the event stream after this time; this does not count as a failure
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = positive_duration)]
    max_stream: Duration,

    /// Read the event stream even if this takes events away from the kubelet
    #[arg(long)]
    steal_events: bool,
}

word_enum! {
    /// What a watch runs.
    #[derive(ValueEnum)]
    pub enum WatchMode: as_str {
        /// Relist repeatedly
        Generic = "generic",
        /// Read the runtime's event stream, with occasional relists
        Evented = "evented",
        /// Run both at once, and show where they differ
        Compare = "compare",
    }
}

impl WatchMode {
    /// Returns the kubelet's timing.
    const fn timing(self) -> PlegTiming {
        match self {
            Self::Generic | Self::Compare => PlegTiming::GENERIC,
            Self::Evented => PlegTiming::EVENTED,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchOutput {
    /// A line for each event, and a live line on a terminal
    Table,
    /// One JSON object per line
    Jsonl,
}

/// Runs the command.
pub fn run(arguments: &WatchArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let session = Session::open_from_the_start(global)?.listing_with(arguments.list_calls.wanted());
    block_on(async {
        let run = WatchRun::open(arguments, &session).await?;
        Box::pin(run.run()).await
    })?
}
