//! The command line: one file for each sub-command, with renderers in `render`.
//!
//! Only this module knows terminals, flags and exit status. It draws no conclusion that is not in a report.

mod capture;
mod catalogue;
mod complete;
mod completions;
mod context;
mod diff;
mod error;
mod exit;
mod explain;
mod health;
mod health_state;
mod kubelet_access;
mod lint;
mod manifest_url;
mod metrics_server;
mod nodes;
mod output;
mod pods;
mod preflight;
mod queued_output;
mod record;
mod relist;
mod relist_progress;
mod render;
mod select;
mod sim;
mod stacks;
mod static_pods;
mod stop_signals;
mod watch;

pub use error::Error;
pub use exit::Exit;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::cri::stream_guard;
use crate::report::escape::escaped;
use crate::{children, panics};
use context::Context;

/// Find the CRI call, the pod and the container that block the kubelet's PLEG.
///
/// Connects to the node's container runtime, does what the kubelet's Pod Lifecycle Event Generator does, and times
/// every call. Read-only.
#[derive(Debug, Parser)]
#[command(name = "plegctl", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what blocks PLEG (call, pod, container) and what to do first.
    Health(Chosen<health::HealthArgs>),
    /// Do one relist: show all pods and containers as the kubelet sees them, with the time of each call.
    Relist(Chosen<relist::RelistArgs>),
    /// Run the kubelet's PLEG live: show every event and the time of every relist.
    Watch(Chosen<watch::WatchArgs>),
    /// Show the events that PLEG would have emitted between two relists, and the changes that it would have missed.
    Diff(Chosen<diff::DiffArgs>),
    /// Show PLEG on every node of the cluster, the worst first: age of the last relist, relist times, lost events
    Nodes(Chosen<nodes::NodesArgs>),
    /// Record every call to the runtime with its answer, so that you can query it later.
    Record(Chosen<record::RecordArgs>),
    /// List, check, export or report on a recording.
    Capture(Chosen<capture::CaptureArgs>),
    /// Explain a finding by its id: D… of `health`, ST… of `stacks`, SP… of `static-pods lint`, KP… of
    /// `preflight`. Without an id: list all.
    Explain(Chosen<explain::ExplainArgs>),
    /// Show who waits for whom inside containerd, its shim, CRI-O or a kubelet, from a goroutine dump.
    ///
    /// Without a source, plegctl reads the dumps that this node provides without a signal: CRI-O's socket, containerd's
    /// debug socket if it is configured, and dumps in /tmp. You can create a dump there with `kill -USR1 $(pidof
    /// containerd)`; plegctl sends no signals. Several dumps of one process show what is stuck in all of them.
    Stacks(Chosen<stacks::StacksArgs>),
    /// Check the static pods that this node's kubelet runs from files.
    StaticPods(Chosen<static_pods::StaticPodsArgs>),
    /// Check whether a kubelet starts on this node and keeps running: this release, or the one of an upgrade.
    ///
    /// Without options: this node's kubelet with its own command line, configuration file and drop-in files. With
    /// `--config FILE`: that file, without a node.
    Preflight(Chosen<preflight::PreflightArgs>),
    /// Show which pods the kubelet should run, from every source, and what happened to them.
    Pods(Chosen<pods::PodsArgs>),
    /// Simulate a runtime: list and describe scenarios, or serve one on a socket.
    Sim(Chosen<sim::SimArgs>),
    /// Print the completion script of a shell.
    Completions(Chosen<completions::CompletionsArgs>),
    /// Write a man page for every command.
    Man(Chosen<completions::ManArgs>),
}

/// The arguments of one sub-command. They are described to the parser only when that sub-command is chosen:
/// describing all of them takes longer than calling the runtime.
#[derive(Debug)]
struct Chosen<T>(T);

impl<T: FromArgMatches> FromArgMatches for Chosen<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Chosen<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| described_as_before(command, T::augment_args))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(|command| described_as_before(command, T::augment_args_for_update))
    }
}

/// A flattened part of the arguments has a description of its own, which would replace the command's.
fn described_as_before(
    command: clap::Command,
    augment: impl FnOnce(clap::Command) -> clap::Command,
) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let long_about = command.get_long_about().cloned();
    let command = augment(command).about(about);
    match long_about {
        Some(long_about) => command.long_about(long_about),
        None => command.long_about(None::<&str>),
    }
}

/// What every command understands, as typed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The runtime: `unix:///path`, `/path`, `sim:SCENARIO` or `capture:PATH[@TIME]` [default:
    /// `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet's, the well-known sockets]
    #[arg(short, long, global = true, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    runtime_endpoint: Option<String>,

    /// crictl's settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The node's root directory, if it is mounted elsewhere, as in a debug pod [default: /host if a node is mounted
    /// there, else /]
    #[arg(long, global = true, value_name = "DIR")]
    host_root: Option<PathBuf>,

    /// Deadline of each call to the runtime, and of each request to a kubelet or an API server [default: 10s; 2m for
    /// `watch` and `record`; 5s to 30s for requests and programs that give a credential]
    #[arg(long, global = true, value_name = "DUR", value_parser = positive_duration)]
    timeout: Option<Duration>,

    /// The time of the simulated node since its start [default: since midnight UTC, so that time goes on from one
    /// command to the next; 0s for `sim serve`]
    #[arg(long, global = true, value_name = "DUR", value_parser = humantime::parse_duration)]
    at: Option<Duration>,

    /// When to use colour on a terminal
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,

    /// Do not print progress and notes
    #[arg(short, long, global = true)]
    quiet: bool,

    /// Print more: which runtime was chosen and why; give it twice to see every call
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Leave out table headers
    #[arg(long, global = true)]
    no_headers: bool,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Parses a duration with units that is greater than zero.
fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be more than zero".to_owned()),
        Ok(duration) => Ok(duration),
        Err(why) => Err(format!("{why} (write it with a unit: 500ms, 10s, 3m)")),
    }
}

/// Parses the command line, runs the command and prints its error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    panics::print_panics();
    panics::catch_panic(|| parse_and_run(arguments.into_iter().collect())).unwrap_or_else(|_| {
        // Nothing can be printed if stderr is closed.
        let _ = writeln!(io::stderr(), "hint: please report this; other commands may still work");
        Exit::NoAnswer
    })
}

fn parse_and_run(arguments: Vec<OsString>) -> Exit {
    // The guard is an internal command without help and completions.
    if arguments.get(1).is_some_and(|word| word == stream_guard::COMMAND) {
        return ended(stream_guard::run().map(|()| Exit::Good).map_err(Error::Start));
    }
    if arguments.get(1).is_some_and(|word| word == children::GUARD) {
        return ended(children::guard().map(|()| Exit::Good).map_err(Error::Start));
    }
    if let Err(why) = writable_stdout() {
        return ended(Err(why));
    }
    if let Some(shell) = env::var(complete::VARIABLE).ok().filter(|shell| !shell.is_empty()) {
        return ended(complete::run(&shell, &arguments).map(|()| Exit::Good).map_err(Error::Output));
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            return match usage.print() {
                // Nothing can be printed if stderr is closed.
                _ if usage.use_stderr() => Exit::NoAnswer,
                printed => ended(printed.map(|()| Exit::Good).map_err(Error::Output)),
            };
        }
    };
    ended(run(&cli))
}

fn ended(outcome: Result<Exit, Error>) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Good,
        Err(error) => {
            complain(&error);
            Exit::NoAnswer
        }
    }
}

/// Whether stdout was closed when plegctl started, so that the output is lost. The standard library then
/// opens `/dev/null` for reading and writing. A caller that wants only the exit status looks the same (Python's
/// `subprocess.DEVNULL`), so this is a note and no error.
fn stdout_was_closed() -> bool {
    let stdout = io::stdout();
    let is_null = rustix::fs::fstat(&stdout).is_ok_and(|about| {
        FileType::from_raw_mode(about.st_mode) == FileType::CharacterDevice
            && about.st_rdev == rustix::fs::makedev(1, 3)
    });
    is_null && access_of(&stdout) == Some(OFlags::RDWR)
}

/// Returns an error if stdout is open for reading only: the standard library would ignore the failed writes.
fn writable_stdout() -> Result<(), Error> {
    let is_unwritable = access_of(&io::stdout()) == Some(OFlags::RDONLY);
    if is_unwritable { Err(Error::Output(Errno::BADF.into())) } else { Ok(()) }
}

fn access_of(stream: &impl AsFd) -> Option<OFlags> {
    let access = OFlags::RDONLY | OFlags::WRONLY | OFlags::RDWR;
    Some(rustix::fs::fcntl_getfl(stream).ok()? & access)
}

fn run(cli: &Cli) -> Result<Exit, Error> {
    if !cli.global.quiet && stdout_was_closed() {
        // Nothing can be printed if stderr is closed.
        let _ = writeln!(io::stderr(), "note: stdout is closed, so the output is lost");
    }
    let context = || Context::resolve(&cli.global);
    match &cli.command {
        Command::Health(Chosen(arguments)) => health::run(arguments, &context()),
        Command::Relist(Chosen(arguments)) => relist::run(arguments, &context()),
        Command::Watch(Chosen(arguments)) => watch::run(arguments, &context()),
        Command::Diff(Chosen(arguments)) => diff::run(arguments, &context()),
        Command::Nodes(Chosen(arguments)) => nodes::run(arguments, &context()),
        Command::Record(Chosen(arguments)) => record::run(arguments, &context()),
        Command::Capture(Chosen(arguments)) => capture::run(arguments, &context()),
        Command::Explain(Chosen(arguments)) => explain::run(arguments, &context()),
        Command::Stacks(Chosen(arguments)) => stacks::run(arguments, &context()),
        Command::Preflight(Chosen(arguments)) => {
            preflight::run(arguments, cli.global.config.as_deref(), &context())
        }
        Command::Pods(Chosen(arguments)) => pods::run(arguments, &context()),
        Command::StaticPods(Chosen(arguments)) => static_pods::run(arguments, &context()),
        Command::Sim(Chosen(arguments)) => sim::run(arguments, &context()),
        Command::Completions(Chosen(arguments)) => completions::completions(arguments),
        Command::Man(Chosen(arguments)) => completions::man(arguments),
    }
}

fn complain(error: &Error) {
    let mut stderr = io::stderr().lock();
    // Nothing can be printed if stderr is closed.
    let _ = writeln!(stderr, "error: {}", escaped(&error.to_string()));
    if let Some(hint) = error.hint() {
        let _ = writeln!(stderr, "hint: {}", escaped(&hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_that_is_chosen_is_described_as_in_the_list_of_all() {
        let listed = Cli::command();
        let mut chosen = listed.clone();
        chosen.build();
        for command in listed.get_subcommands() {
            let same = chosen.find_subcommand(command.get_name()).unwrap();
            let texts = |command: &clap::Command| {
                [command.get_about(), command.get_long_about()].map(|text| text.map(ToString::to_string))
            };
            assert_eq!(texts(same), texts(command));
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn a_duration_needs_a_unit_and_a_size() {
        assert_eq!(positive_duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(positive_duration("10").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
