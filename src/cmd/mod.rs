//! The command line: flags, terminals and exit status, with one file or folder for each sub-command. A command gets the
//! [`GlobalArgs`], names its [`node`](node::Node) or opens a [`session`](session::Session), lets the engine make a report, and
//! prints it. The commands decide nothing that is not in a report.
//!
//! What several commands need has a place of its own, and is not reached through another command: options (`flags`), the
//! diagnosis (`diagnose`), pages over HTTP (`serve`), the terminal (`term`), and the formats of reports (`render`).

mod args;
mod capture;
mod catalogue;
mod complete;
mod completions;
mod diagnose;
mod diff;
mod docs;
mod error;
mod event_loop;
mod exit;
mod explain;
mod flags;
mod health;
mod help;
mod named_file;
mod node;
mod nodes;
mod plugin;
mod pods;
mod prediction;
mod preflight;
mod record;
mod relist;
pub(crate) mod render;
mod schema;
mod serve;
mod session;
mod sim;
mod stacks;
mod static_pods;
mod term;
mod top;
mod version;
mod watch;

pub use error::Error;
pub use exit::Exit;

use std::env;
use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::cri::stream_guard;
use crate::report::escape::escaped;
use crate::{children, panics};
use args::GlobalArgs;
use plugin::StartedAs;
use render::PLAIN;
use term::streams;

/// The prefix of a simulated endpoint.
const SIMULATED: &str = "sim:";

/// The prefix of an endpoint that is a capture.
const CAPTURE: &str = "capture:";

/// The scheme of an endpoint that is a capture: [`CAPTURE`] without the colon.
const CAPTURE_SCHEME: &str = "capture";

/// Find the CRI call, the pod and the container that block the kubelet's PLEG.
///
/// Connects to the node's container runtime, does what the kubelet's Pod Lifecycle Event Generator does, and times
/// every call. Read-only.
#[derive(Debug, Parser)]
#[command(name = "plegctl", version, max_term_width = 100, after_help = help::examples("plegctl"))]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Show what blocks PLEG (call, pod, container) and what to do first.
    Health(Deferred<health::HealthArgs>),
    /// Do one relist: show all pods and containers as the kubelet sees them, with the time of each call.
    Relist(Deferred<relist::RelistArgs>),
    /// Run the kubelet's PLEG live: show every event and the time of every relist.
    Watch(Deferred<watch::WatchArgs>),
    /// Show one live screen of the node: verdict, PLEG's age, relist latency, pending calls, slowest pods, transitions.
    Top(Deferred<top::TopArgs>),
    /// Show the events that PLEG would have emitted between two relists, and the changes that it would have missed.
    Diff(Deferred<diff::DiffArgs>),
    /// Show PLEG on every node of the cluster, the worst first: age of the last relist, relist times, lost events
    Nodes(Deferred<nodes::NodesArgs>),
    /// Record every call to the runtime with its answer, so that you can query it later.
    Record(Deferred<record::RecordArgs>),
    /// List, check, export or report on a recording.
    Capture(Deferred<capture::CaptureArgs>),
    /// Explain a finding by its id: D… of `health`, ST… of `stacks`, SP… of `static-pods lint`, KP… of
    /// `preflight`. Without an id: list all.
    Explain(Deferred<explain::ExplainArgs>),
    /// Print the JSON Schema (2020-12) of a kind of document. Without a kind: list all.
    Schema(Deferred<schema::SchemaArgs>),
    /// Show a page of the documentation in the pager. Without a name: what to do during an incident.
    Docs(Deferred<docs::DocsArgs>),
    /// Show who waits for whom inside containerd, its shim, CRI-O or a kubelet, from a goroutine dump.
    ///
    /// Without a source, plegctl reads the dumps that this node provides without a signal: CRI-O's socket,
    /// containerd's debug socket if it is configured, and dumps in /tmp. You can create a dump there with `kill -USR1
    /// $(pidof containerd)`, or with `crio` instead of `containerd`; plegctl sends no signals. Several dumps of one
    /// process show what is stuck in all of them.
    Stacks(Deferred<stacks::StacksArgs>),
    /// Check the static pods that this node's kubelet runs from files.
    StaticPods(Deferred<static_pods::StaticPodsArgs>),
    /// Check whether a kubelet starts on this node and keeps running: this release, or the one of an upgrade.
    ///
    /// Without options: this node's kubelet with its own command line, configuration file and drop-in files. With
    /// `--config FILE`: that file, without a node.
    Preflight(Deferred<preflight::PreflightArgs>),
    /// Show which pods the kubelet should run, from every source, and what happened to them.
    Pods(Deferred<pods::PodsArgs>),
    /// Simulate a runtime: list and describe scenarios, or serve one on a socket.
    Sim(Deferred<sim::SimArgs>),
    /// Print the completion script of a shell.
    Completions(Deferred<completions::CompletionsArgs>),
    /// Write a man page for every command.
    Man(Deferred<completions::ManArgs>),
    /// Print the version of plegctl.
    Version(Deferred<version::VersionArgs>),
}

/// The arguments of one sub-command. The parser builds them only when the user runs that sub-command, because
/// building the arguments of all sub-commands takes longer than calling the runtime.
#[derive(Debug)]
struct Deferred<T>(T);

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| with_own_description(command, T::augment_args))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(|command| with_own_description(command, T::augment_args_for_update))
    }
}

/// Adds the arguments of a command and keeps the command's description, which clap would replace with the description
/// of a flattened part of the arguments.
fn with_own_description(
    command: clap::Command,
    augment: impl FnOnce(clap::Command) -> clap::Command,
) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let long_about = command.get_long_about().cloned();
    // A negative value is a wrong value and not an unknown option.
    let may_be_negative = |argument: &clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().any(|name| matches!(name.as_str(), "DUR" | "N" | "SIZE" | "ADDR"))
    };
    let with_negative_values = |argument: clap::Arg| {
        let is_number = may_be_negative(&argument);
        if is_number { argument.allow_hyphen_values(true) } else { argument }
    };
    let command = augment(command).mut_args(with_negative_values);
    let command = command.mut_subcommands(|command| command.mut_args(with_negative_values));
    let command = help::with_examples(command).about(about);
    match long_about {
        Some(long_about) => command.long_about(long_about),
        None => command.long_about(None::<&str>),
    }
}

/// Parses the command line, runs the command and prints its error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    print_panics();
    panics::catch_panic(|| exit_of(parse_and_run(arguments.into_iter().collect()))).unwrap_or_else(|_| {
        streams::remark("hint: please report this; other commands may still work");
        Exit::NoAnswer
    })
}

/// Prints each panic's message and place on stderr, as one line without control characters.
fn print_panics() {
    std::panic::set_hook(Box::new(|info: &std::panic::PanicHookInfo<'_>| {
        let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
        let message = panics::panic_message(info.payload());
        streams::remark(format_args!("fault: plegctl itself failed{place}: {message}"));
    }));
}

fn parse_and_run(arguments: Vec<OsString>) -> Result<Exit, Error> {
    // The guard is an internal command without help and completions.
    if arguments.get(1).is_some_and(|word| word == stream_guard::COMMAND) {
        return stream_guard::run().map(|()| Exit::Good).map_err(Error::Start);
    }
    if arguments.get(1).is_some_and(|word| word == children::guard::COMMAND) {
        return children::guard::run().map(|()| Exit::Good).map_err(Error::Start);
    }
    writable_stdout()?;
    let started_as = StartedAs::from_program(arguments.first());
    if started_as == StartedAs::Completion {
        return complete::kubectl(arguments).map(|()| Exit::Good).map_err(Error::Output);
    }
    if let Some(shell) = env::var(complete::VARIABLE).ok().filter(|shell| !shell.is_empty()) {
        return complete::run(&shell, &arguments).map(|()| Exit::Good).map_err(Error::Output);
    }
    match parse(arguments, started_as) {
        Ok(cli) => run(&cli),
        Err(mut usage) => {
            keep_best_suggestion(&mut usage);
            let text = escaped_usage(&mut usage);
            if usage.use_stderr() {
                text.lines().for_each(streams::remark);
                return Ok(Exit::NoAnswer);
            }
            streams::text(PLAIN, |out| out.lines(&text)).map(|()| Exit::Good).map_err(Error::Output)
        }
    }
}

/// Parses the command line. The help of the plugin says `kubectl plegctl`, which is what its user types.
fn parse(arguments: Vec<OsString>, started_as: StartedAs) -> Result<Cli, clap::Error> {
    if started_as != StartedAs::Plugin {
        return Cli::try_parse_from(arguments);
    }
    let mut command = Cli::command().bin_name("kubectl plegctl");
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Suggests only the most similar command for an unknown one. clap suggests less similar ones before it.
fn keep_best_suggestion(usage: &mut clap::Error) {
    if let Some(ContextValue::Strings(names)) = usage.get(ContextKind::SuggestedSubcommand)
        && let Some(best) = names.last().cloned()
    {
        usage.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![best]));
    }
}

/// Formats an error or a help text of clap, which prints arguments as they are: escapes each argument and the reason why it
/// was refused, so that neither can begin a line.
fn escaped_usage(usage: &mut clap::Error) -> String {
    let safe = |text: &String| escaped(text).into_owned();
    let quoted = usage.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(safe(text)))),
        ContextValue::Strings(texts) => Some((kind, ContextValue::Strings(texts.iter().map(safe).collect()))),
        _ => None,
    });
    for (kind, value) in quoted.collect::<Vec<_>>() {
        usage.insert(kind, value);
    }
    let text = usage.to_string();
    match usage.source().map(ToString::to_string) {
        Some(why) => text.replace(&why, &escaped(&why)),
        None => text,
    }
}

/// Returns the exit status of a command; prints its error.
fn exit_of(outcome: Result<Exit, Error>) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Good,
        Err(error) => {
            print_error(&error);
            Exit::NoAnswer
        }
    }
}

/// Returns an error if stdout is open for reading only: the standard library would ignore the failed writes.
fn writable_stdout() -> Result<(), Error> {
    let access = OFlags::RDONLY | OFlags::WRONLY | OFlags::RDWR;
    let is_unwritable =
        rustix::fs::fcntl_getfl(streams::stdout()).is_ok_and(|flags| flags & access == OFlags::RDONLY);
    if is_unwritable { Err(Error::Output(Errno::BADF.into())) } else { Ok(()) }
}

fn run(cli: &Cli) -> Result<Exit, Error> {
    let global = &cli.global;
    match &cli.command {
        CliCommand::Health(Deferred(arguments)) => health::run(arguments, global),
        CliCommand::Relist(Deferred(arguments)) => relist::run(arguments, global),
        CliCommand::Watch(Deferred(arguments)) => watch::run(arguments, global),
        CliCommand::Top(Deferred(arguments)) => top::run(arguments, global),
        CliCommand::Diff(Deferred(arguments)) => diff::run(arguments, global),
        CliCommand::Nodes(Deferred(arguments)) => nodes::run(arguments, global),
        CliCommand::Record(Deferred(arguments)) => record::run(arguments, global),
        CliCommand::Capture(Deferred(arguments)) => capture::run(arguments, global),
        CliCommand::Explain(Deferred(arguments)) => explain::run(arguments, global),
        CliCommand::Schema(Deferred(arguments)) => schema::run(arguments),
        CliCommand::Docs(Deferred(arguments)) => docs::run(arguments),
        CliCommand::Stacks(Deferred(arguments)) => stacks::run(arguments, global),
        CliCommand::Preflight(Deferred(arguments)) => preflight::run(arguments, global),
        CliCommand::Pods(Deferred(arguments)) => pods::run(arguments, global),
        CliCommand::StaticPods(Deferred(arguments)) => static_pods::run(arguments, global),
        CliCommand::Sim(Deferred(arguments)) => sim::run(arguments, global),
        CliCommand::Completions(Deferred(arguments)) => completions::completions(arguments),
        CliCommand::Man(Deferred(arguments)) => completions::man(arguments),
        CliCommand::Version(Deferred(arguments)) => version::run(arguments),
    }
}

fn print_error(error: &Error) {
    streams::remark(format_args!("error: {error}"));
    if let Some(hint) = error.hint() {
        streams::remark(format_args!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_sub_commands_own_help_has_the_same_description_as_the_list_of_commands() {
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
    fn the_most_similar_command_is_the_only_suggestion() {
        for (typed, meant) in [("heatlh", "health"), ("heath", "health"), ("relsit", "relist")] {
            let mut usage = Cli::try_parse_from(["plegctl", typed]).unwrap_err();
            keep_best_suggestion(&mut usage);
            let text = usage.to_string();
            assert!(text.contains(&format!("a similar subcommand exists: '{meant}'")), "{text}");
        }
    }
}
