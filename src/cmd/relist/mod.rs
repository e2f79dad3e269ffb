//! `plegctl relist`: does one relist as the kubelet does it and shows the pods and the time of each call. It calls
//! `Version`, makes the two list calls, groups the answers into pods, and makes the status calls with `--inspect all`.
//!
//! ```text
//! $ plegctl relist -n kube-system --state exited
//! NAMESPACE     POD       CONTAINER   STATE    ATTEMPT   AGE    CONTAINER-ID
//! kube-system   etcd-n1   etcd        exited   3         4m2s   3f2a9c1b7d55
//!
//! relist 4.1ms = ListPodSandbox 1.9ms (12.3 KiB, 0.1% of 16 MiB) + ListContainers 2.2ms (30.1 KiB, 0.2% of
//! 16 MiB)
//! ```
//!
//! The command judges nothing; `plegctl health` does that. Options such as `-n` and `--state` change what is shown,
//! not which calls are made or what `--save` writes.

mod progress;
mod text;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use self::progress::RelistProgressLine;
use self::text::{Durations, Row};
use super::args::{GlobalArgs, at_least_one};
use super::event_loop::block_on;
use super::flags::list_calls::ListCallsArgs;
use super::flags::select::{Candidate, Selection};
use super::node::Node;
use super::session::{ONE_SHOT_TIMEOUT, Session, runtime_ref};
use super::term::output::Output;
use super::term::streams;
use super::{Error, Exit};
use crate::cmd::flags::list_calls;
use crate::cri::{Outcome, Runtime};
use crate::kubelet::{KubeletLists, ListCallsSource};
use crate::pleg::report::{ListCallsReport, RelistReport, ReportedPod};
use crate::pleg::single_relist::{Inspect, RelistRequest, relist_with_progress};
use crate::pleg::{CallFailure, KubeletState, KubeletVersion, document};
use crate::report::save::save;
use crate::report::{RuntimeRef, plural};

#[derive(Debug, Args)]
pub struct RelistArgs {
    /// Whether to make the kubelet's status calls too; --inspect alone means all
    #[arg(long, value_name = "PODS", default_value = "none", num_args = 0..=1, default_missing_value = "all")]
    inspect: Inspected,

    /// Number of pods for which status calls are made at once
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>, default_value = "8")]
    concurrency: NonZeroUsize,

    /// Make the status calls one pod after the other, as the kubelet does
    #[arg(long, conflicts_with = "concurrency")]
    serial: bool,

    #[command(flatten)]
    list_calls: ListCallsArgs,

    /// Also write the complete report as JSON to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    selection: Selection,

    /// Show only containers in this state
    #[arg(long, value_parser = state_parser())]
    state: Option<KubeletState>,

    /// Order of the rows [default: the kubelet's]
    #[arg(long, value_name = "COLUMN")]
    sort_by: Option<Column>,

    /// How to print; `wide` has the slowest calls too, `name` prints NAMESPACE/NAME of each pod
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name, Output::Prometheus]))]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Inspected {
    /// The two list calls only
    None,
    /// Every pod
    All,
}

/// Parses the word for a state, and names the possible words.
fn state_parser() -> impl TypedValueParser<Value = KubeletState> {
    PossibleValuesParser::new(KubeletState::ALL.map(KubeletState::as_str)).try_map(|word| {
        KubeletState::ALL.into_iter().find(|state| state.as_str() == word).ok_or("it is not a state")
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Column {
    /// Namespace, then pod, then container
    Name,
    /// Youngest first
    Age,
    /// Highest restart count first
    Attempt,
    /// Created, running, exited, unknown
    State,
    /// Longest status call first; needs `--inspect all`
    Duration,
}

/// Runs the command.
pub fn run(arguments: &RelistArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    if arguments.sort_by == Some(Column::Duration) && arguments.inspect == Inspected::None {
        return Err(Error::NothingInspected);
    }
    // Only a document contains the node's name, which depends on the kubelet's settings.
    let needs_node_name =
        arguments.save.is_some() || matches!(arguments.output, Output::Json | Output::Yaml | Output::Jsonl);
    let node = Node::named_by(global);
    if needs_node_name {
        node.look_for_kubelet();
    }
    let session = &Session::of_node(&node)?.listing_with(arguments.list_calls.wanted());
    let mut report = block_on(make_calls(session, arguments.inspection()))??;
    if needs_node_name {
        report.node = session.node_name();
    }
    // A file that cannot be written is an error only after everything is printed.
    let saved = arguments.save.as_deref().map_or(Ok(()), |path| save(&document(&report), path));
    let exit = print_selected(arguments, session, report)?;
    saved?;
    Ok(exit)
}

/// Prints what the user selects of a report. A silent call means that a part of the answer is missing.
fn print_selected(
    arguments: &RelistArgs,
    session: &Session,
    mut report: RelistReport,
) -> Result<Exit, Error> {
    arguments.keep_selected(&mut report.pods);
    if report.pods.is_empty() {
        session.node.remark(&format!("No pods found{}", arguments.in_words()));
    }
    print(arguments, session, &report)?;
    let silent = report.relist.calls.iter().filter(|call| call.outcome == Outcome::Silent).count();
    if silent == 0 {
        return Ok(Exit::Good);
    }
    session.node.remark(&format!(
        "note: {} got no answer, so the report is not complete; `plegctl health` finds out what blocks",
        plural(silent, "call")
    ));
    Ok(Exit::NoAnswer)
}

/// Makes the two list calls and returns the report, with the node's name.
pub async fn lists_only(session: &Session) -> Result<RelistReport, Error> {
    session.node.look_for_kubelet();
    let report = make_calls(session, Inspect::Nothing).await?;
    Ok(RelistReport { node: session.node_name(), ..report })
}

/// Calls `Version` and does the relist in parallel, with a progress line on a terminal.
async fn make_calls(session: &Session, inspect: Inspect) -> Result<RelistReport, Error> {
    let (client, lists) = list_calls::choose(session.client(ONE_SHOT_TIMEOUT), session, None).await;
    let client = &client;
    let progress = RelistProgressLine::begin(&session.node);
    let version = async {
        let call = client.version().await;
        session.node.note(2, &format!("Version: {}", text::call_figures(call.duration, call.response_bytes)));
        call.result.map_err(Error::Runtime)
    };
    let request = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: KubeletVersion::CONFIRMED.era(),
        inspect,
    };
    let listed = async {
        relist_with_progress(client, &*session.node.clock, request, &progress).await.map_err(|failed| {
            for call in &failed.calls {
                session.node.note(1, &text::call(call));
            }
            let stream = failed.calls.last().and_then(|call| Some((&call.rpc, call.stream?.entries)));
            if let Some((rpc, entries)) = stream.filter(|(_, entries)| *entries > 0) {
                session.node.remark(&format!("{rpc} stopped after {}", plural(entries, "entry")));
            }
            match failed.failure {
                CallFailure::Call(error) => Error::Runtime(error),
                CallFailure::Refused(why) => Error::Refused(why),
            }
        })
    };
    // If both fail, the user sees the error of Version, which is clearer.
    let answers = async { tokio::try_join!(biased; version, listed) };
    let (version, report) = progress.during(Box::pin(answers)).await?;
    // The runtime may have refused the first streaming call.
    let is_refused = client.list_calls() != lists.calls;
    let refused = KubeletLists { calls: client.list_calls(), source: ListCallsSource::Refused };
    let made = ListCallsReport::of(if is_refused { &refused } else { &lists });
    Ok(RelistReport { runtime: runtime_ref(&session.endpoint, version), list_calls: Some(made), ..report })
}

impl RelistArgs {
    fn inspection(&self) -> Inspect {
        if self.inspect == Inspected::None {
            return Inspect::Nothing;
        }
        Inspect::Everything { concurrency: if self.serial { 1 } else { self.concurrency.get() } }
    }

    /// Keeps only the pods and containers that the user selects.
    fn keep_selected(&self, pods: &mut Vec<ReportedPod>) {
        pods.retain(|pod| {
            let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
            let label = |key: &str| pod.labels.get(key);
            self.selection.shows(Candidate { namespace, name, uid, label: &label })
        });
        if let Some(state) = self.state {
            for pod in pods.iter_mut() {
                pod.containers.retain(|container| container.state == state);
            }
            pods.retain(|pod| !pod.containers.is_empty());
        }
    }

    /// Describes the selection, for the message that no pod matches.
    fn in_words(&self) -> String {
        let state = self.state.map(|state| format!(" with {state} containers"));
        self.selection.in_words() + &state.unwrap_or_default()
    }

    fn sort(&self, rows: &mut [Row<'_>], took: &Durations) {
        match self.sort_by {
            None => {}
            Some(Column::Name) => rows.sort_by_key(|(pod, container)| {
                (&pod.namespace, &pod.name, container.map(|container| &container.name))
            }),
            Some(Column::Age) => rows.sort_by_key(|(pod, container)| {
                std::cmp::Reverse(container.map_or(pod.created_at, |container| container.created_at))
            }),
            Some(Column::Attempt) => {
                rows.sort_by_key(|(_, container)| {
                    std::cmp::Reverse(container.map(|container| container.attempt))
                });
            }
            Some(Column::State) => {
                rows.sort_by_key(|(_, container)| container.map(|container| container.state));
            }
            Some(Column::Duration) => rows.sort_by_key(|row| std::cmp::Reverse(took.longest_of(row))),
        }
    }
}

fn print(arguments: &RelistArgs, session: &Session, report: &RelistReport) -> io::Result<()> {
    if arguments.output == Output::Prometheus {
        return streams::document(|out| text::prometheus(report, out));
    }
    arguments.output.print(&document(report), session.node.global.style(), |out| match arguments.output {
        Output::Name => text::names(report, out),
        output => {
            let mut rows = text::rows(report);
            let took = Durations::of_calls(&report.relist.calls);
            arguments.sort(&mut rows, &took);
            let wide = output == Output::Wide;
            let shown = text::Shown { rows: &rows, took: &took, wide, now: session.node.clock.wall() };
            text::table(report, &shown, out)
        }
    })
}
