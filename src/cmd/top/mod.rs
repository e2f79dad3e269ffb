//! `plegctl top`: one live screen of a node, for the time of an incident.
//!
//! ```text
//! $ plegctl top
//! ```
//!
//! The screen shows the verdict, the age of PLEG, the latency of the relists, the pending calls, the slowest pods and the
//! transitions. `top` relists as `watch` does and makes the same calls. Without a terminal, on a terminal that cannot
//! rewrite a line and on a very small one, it runs as `watch`.
//!
//! `model` collects what the relists show, `view` has what the user did, and `screen` draws both; all three are pure.
//! `terminal` owns the terminal, and `ui` waits for keys and signals. `engine_run` runs the engine, `actions` does what the
//! keys ask for, and `seek` moves in a capture.

mod actions;
mod engine_run;
mod explanation;
mod model;
mod screen;
mod seek;
mod terminal;
#[cfg(test)]
mod tests;
mod ui;
mod view;

use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::args::{GlobalArgs, at_least_one, positive_duration};
use super::event_loop::block_on;
use super::flags::list_calls::ListCallsArgs;
use super::session::Session;
use super::watch::{self, WatchArgs};
use super::{Error, Exit};
use crate::cmd::health::bundle_path;
use crate::cmd::term::streams;
use crate::pleg::KubeletVersion;

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Pause between the end of a relist and the start of the next
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = positive_duration)]
    period: Duration,

    /// Age at which PLEG is not healthy
    #[arg(long, value_name = "DUR", default_value = "3m", value_parser = positive_duration)]
    threshold: Duration,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    lasting: Option<Duration>,

    /// Do not make the kubelet's status calls for changed pods
    #[arg(long)]
    no_inspect: bool,

    /// The file to which the key `s` writes a bundle [default: `s` asks for it]
    #[arg(long, value_name = "FILE.tar.gz", value_parser = bundle_path())]
    bundle: Option<PathBuf>,

    #[command(flatten)]
    list_calls: ListCallsArgs,

    /// Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,
}

impl TopArgs {
    /// Returns the arguments of a `watch` that relists in the same way.
    fn for_watch(&self) -> Result<WatchArgs, Error> {
        let defaults = WatchArgs::without_options();
        let mut arguments = defaults.map_err(|why| Error::Start(io::Error::other(why.to_string())))?;
        (arguments.period, arguments.threshold) = (Some(self.period), Some(self.threshold));
        (arguments.count, arguments.lasting) = (self.count, self.lasting);
        arguments.no_inspect = self.no_inspect;
        arguments.list_calls = self.list_calls;
        arguments.kubelet_version = self.kubelet_version;
        Ok(arguments)
    }
}

/// Runs the command.
pub fn run(arguments: &TopArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    if !is_possible() {
        if arguments.bundle.is_some() {
            global.remark(
                "--bundle is not used: without a terminal that can show a screen, top runs as plegctl watch",
            );
        }
        return watch::run(&arguments.for_watch()?, global);
    }
    let session = Session::open_from_the_start(global)?.listing_with(arguments.list_calls.wanted());
    block_on(engine_run::run(arguments, &session))?
}

/// Whether stdin and stdout are a terminal on which a screen of the smallest size can be drawn.
fn is_possible() -> bool {
    let (columns, lines) = screen::SMALLEST;
    streams::is_seen(&io::stdin())
        && streams::can_rewrite()
        && streams::terminal_size()
            .is_some_and(|(rows, width)| rows >= usize::from(lines) && width >= usize::from(columns))
}
