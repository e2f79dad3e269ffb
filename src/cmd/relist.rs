//! `plegctl relist`: one relist with the kubelet's two list calls in its order, grouped into pods as the
//! kubelet does.
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
//! The command draws no conclusions; `plegctl health` does. Filters change what is shown, never which calls
//! are made or what is saved.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::context::{Context, ONE_SHOT_TIMEOUT, block_on, runtime_ref};
use super::output::Output;
use super::relist_progress::RelistProgressLine;
use super::render::relist::{self as text, Durations, Row};
use super::select::{Candidate, Selection};
use super::{Error, Exit};
use crate::cri::{Client, Endpoint, Runtime};
use crate::pleg::report::{RelistReport, ReportedPod};
use crate::pleg::single_relist::{Inspect, RelistRequest, relist_with_progress};
use crate::pleg::{CallFailure, KubeletState, KubeletVersion, document};
use crate::report::RuntimeRef;
use crate::report::save::save;

#[derive(Debug, Args)]
pub struct RelistArgs {
    /// Whether to make the kubelet's status calls too, for every pod
    #[arg(long, value_name = "PODS", default_value = "none")]
    inspect: Inspected,

    /// Number of pods for which status calls are made at once
    #[arg(long, value_name = "N", default_value = "8")]
    concurrency: NonZeroUsize,

    /// Make the status calls one pod after the other, as the kubelet does
    #[arg(long, conflicts_with = "concurrency")]
    serial: bool,

    /// List through the runtime's streaming RPCs (CRI 1.36) instead of the kubelet's default ones
    #[arg(long)]
    stream_lists: bool,

    /// Also write the complete report as JSON to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    selection: Selection,

    /// Show only containers in this state
    #[arg(long)]
    state: Option<ShownState>,

    /// Order of the rows [default: the kubelet's]
    #[arg(long, value_name = "COLUMN")]
    sort_by: Option<Column>,

    /// How to print; `wide` has the slowest calls too, `name` is NAMESPACE/NAME of each pod
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShownState {
    Created,
    Running,
    Exited,
    Unknown,
}

impl From<ShownState> for KubeletState {
    fn from(state: ShownState) -> Self {
        match state {
            ShownState::Created => Self::Created,
            ShownState::Running => Self::Running,
            ShownState::Exited => Self::Exited,
            ShownState::Unknown => Self::Unknown,
        }
    }
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
pub fn run(arguments: &RelistArgs, context: &Context) -> Result<Exit, Error> {
    if arguments.sort_by == Some(Column::Duration) && arguments.inspect == Inspected::None {
        return Err(Error::NothingInspected);
    }
    // The kubelet may use another name for the node; a table does not show the name.
    let named =
        arguments.save.is_some() || matches!(arguments.output, Output::Json | Output::Yaml | Output::Jsonl);
    if named {
        context.look_for_kubelet();
    }
    let endpoint = context.endpoint()?;
    let mut report = block_on(async {
        let client = context.client(&endpoint, ONE_SHOT_TIMEOUT)?;
        let client = if arguments.stream_lists { client.with_streamed_lists() } else { client };
        let progress = RelistProgressLine::begin(context);
        let report = tokio::select! {
            report = ask(context, &endpoint, &client, arguments.inspection(), &progress) => report,
            never = progress.turn() => match never {},
        };
        progress.end();
        report
    })??;
    if named {
        report.node = context.node_name();
    }
    // A file that cannot be written is an error only after everything is printed.
    let saved = arguments.save.as_deref().map_or(Ok(()), |path| save(&document(&report), path));
    arguments.reduce(&mut report.pods);
    if report.pods.is_empty() {
        context.remark(&format!("No pods found{}", arguments.in_words()));
    }
    print(arguments, context, &report)?;
    saved?;
    Ok(Exit::Good)
}

/// Makes the two list calls, and adds the node's name to the report.
pub async fn lists_only(context: &Context, endpoint: &Endpoint) -> Result<RelistReport, Error> {
    context.look_for_kubelet();
    let client = context.client(endpoint, ONE_SHOT_TIMEOUT)?;
    let report =
        ask(context, endpoint, &client, Inspect::Nothing, &RelistProgressLine::unseen(context)).await?;
    Ok(RelistReport { node: context.node_name(), ..report })
}

async fn ask(
    context: &Context,
    endpoint: &Endpoint,
    client: &Client,
    inspect: Inspect,
    progress: &RelistProgressLine<'_>,
) -> Result<RelistReport, Error> {
    let version = async {
        let call = client.version().await;
        context.note(2, &format!("Version: {}", text::one_call(call.duration, call.response_bytes)));
        call.result.map_err(Error::Runtime)
    };
    let order = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: KubeletVersion::CONFIRMED.era(),
        inspect,
    };
    let listed = async {
        relist_with_progress(client, &*context.clock, order, progress).await.map_err(|failed| {
            for call in &failed.calls {
                context.note(1, &text::call(call));
            }
            match failed.failure {
                CallFailure::Call(error) => Error::Runtime(error),
                CallFailure::Refused(why) => Error::Refused(why),
            }
        })
    };
    // The lists do not wait for Version. If both fail, the error of Version is clearer.
    let (version, report) = tokio::try_join!(biased; version, listed)?;
    Ok(RelistReport { runtime: runtime_ref(endpoint, version), ..report })
}

impl RelistArgs {
    fn inspection(&self) -> Inspect {
        match self.inspect {
            Inspected::None => Inspect::Nothing,
            Inspected::All => {
                Inspect::Everything { concurrency: if self.serial { 1 } else { self.concurrency.get() } }
            }
        }
    }

    /// Keeps the selected pods and sorts them.
    fn reduce(&self, pods: &mut Vec<ReportedPod>) {
        pods.retain(|pod| {
            let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
            let label = |key: &str| pod.labels.get(key);
            self.selection.shows(Candidate { namespace, name, uid, label: &label })
        });
        if let Some(state) = self.state.map(KubeletState::from) {
            for pod in pods.iter_mut() {
                pod.containers.retain(|container| container.state == state);
            }
            pods.retain(|pod| !pod.containers.is_empty());
        }
    }

    /// Describes the selection, for the message that nothing matches.
    fn in_words(&self) -> String {
        let state =
            self.state.map(|state| format!(" with {} containers", KubeletState::from(state).as_str()));
        self.selection.in_words() + &state.unwrap_or_default()
    }

    fn sort(&self, rows: &mut [Row<'_>], took: &Durations) {
        match self.sort_by {
            None => {}
            Some(Column::Name) => rows.sort_by_cached_key(|(pod, container)| {
                (pod.namespace.clone(), pod.name.clone(), container.map(|container| container.name.clone()))
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
            Some(Column::Duration) => rows.sort_by_key(|row| std::cmp::Reverse(took.of(row))),
        }
    }
}

fn print(arguments: &RelistArgs, context: &Context, report: &RelistReport) -> io::Result<()> {
    arguments.output.print(&document(report), |out| match arguments.output {
        Output::Name => text::names(report, out),
        Output::Prometheus => text::prometheus(report, out),
        output => {
            let mut rows = text::rows(report);
            let took = Durations::of_calls(&report.relist.calls);
            arguments.sort(&mut rows, &took);
            let wide = output == Output::Wide;
            let shown = text::Shown { rows: &rows, took: &took, wide, now: context.clock.wall() };
            text::table(report, &shown, context.style(), out)
        }
    })
}
