//! `plegctl nodes`: the PLEG of every node of a cluster, the worst first, through the API server.
//!
//! ```text
//! $ plegctl nodes
//! NAME   VERDICT     AGE   P50    P99   DISCARDED   ERRORS   VERSION   WHY
//! n7     silent      -     -      -     -           -        v1.34.2   its /metrics is silent while its /configz answers: a list call probably hangs
//! n1     healthy     1s    12ms   44ms  0           3        v1.34.2   <none>
//! ```
//!
//! Uses the rights of who runs it, and says which are missing.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::context::{Context, block_on};
use super::output::Output;
use super::render::nodes as render;
use super::stop_signals::StopSignals;
use super::{Error, Exit, positive_duration};
use crate::fleet::{self, FleetReading, FleetRequest, NodeVerdict, NodesReport};
use crate::kubelet::kubeconfig::{self, Cluster, KubeconfigSources};
use crate::report::document;

/// The time limit for one request. A kubelet whose list hangs is silent for minutes, so a longer wait gives
/// nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time limit for a credential program, which may have to ask a cloud service.
const CREDENTIAL_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The kubeconfig [default: `$KUBECONFIG`, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Only nodes with these labels, as in kubectl
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,

    /// Number of nodes to query at once
    #[arg(long, value_name = "N", default_value = "16")]
    concurrency: NonZeroUsize,

    /// Repeat until Ctrl-C; from the second update on, relist times are those since the previous update
    #[arg(short, long)]
    watch: bool,

    /// Pause between two updates with --watch
    #[arg(long, value_name = "DUR", value_parser = positive_duration, default_value = "15s")]
    interval: Duration,

    /// How to print; `name` is the names of the nodes that are not healthy
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name]))]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &NodesArgs, context: &Context) -> Result<Exit, Error> {
    let places = KubeconfigSources::of_environment(arguments.kubeconfig.clone());
    let patience = context.timeout.unwrap_or(CREDENTIAL_PATIENCE);
    let cluster = kubeconfig::cluster(&places, arguments.context.as_deref(), patience)?;
    context.note(1, &format!("API server {} by context {}", cluster.server, cluster.context));
    if cluster.insecure {
        context.remark(&format!(
            "the certificate of {} is not verified (insecure-skip-tls-verify in the kubeconfig): any server \
             can pretend to be it",
            cluster.server
        ));
    }
    block_on(look(arguments, context, Arc::new(cluster)))?
}

async fn look(arguments: &NodesArgs, context: &Context, cluster: Arc<Cluster>) -> Result<Exit, Error> {
    let question = FleetRequest {
        selector: arguments.selector.clone(),
        concurrency: arguments.concurrency.get(),
        timeout: context.timeout.unwrap_or(PATIENCE),
    };
    // An interrupt before the first answer ends the process by the signal; later there is an answer.
    let (mut before, report) = once(&question, context, &cluster, None).await?;
    print(arguments, context, &report)?;
    if !arguments.watch {
        return Ok(exit(&report));
    }
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    loop {
        let next = async {
            tokio::time::sleep(arguments.interval).await;
            once(&question, context, &cluster, Some(&before)).await
        };
        let looked = tokio::select! {
            looked = next => looked,
            () = stop_signals.next() => return Ok(Exit::Good),
        };
        match looked {
            Ok((readings, report)) => {
                print(arguments, context, &report)?;
                before = readings;
            }
            // The watch continues if the API server does not answer for a moment.
            Err(why) => context.remark(&format!("update failed: {why}")),
        }
    }
}

async fn once(
    question: &FleetRequest,
    context: &Context,
    cluster: &Arc<Cluster>,
    before: Option<&FleetReading>,
) -> Result<(FleetReading, NodesReport), Error> {
    let nodes = fleet::list(cluster, question).await?;
    let bar = bar(nodes.len(), context.quiet);
    let done = |reading: &fleet::NodeReading| {
        if reading.metrics.is_err() {
            bar.set_message(format!("last without an answer: {}", reading.listed.name));
        }
        bar.inc(1);
    };
    let readings = fleet::read_nodes(cluster, nodes, question, &context.clock, done).await;
    bar.finish_and_clear();
    let report = fleet::judge(&readings, before, &cluster.server, &cluster.context);
    Ok((readings, report))
}

fn bar(nodes: usize, quiet: bool) -> ProgressBar {
    if quiet || !Context::is_seen(&io::stderr()) {
        return ProgressBar::hidden();
    }
    let total = u64::try_from(nodes).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} nodes  {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// An unhealthy or silent node is bad news. If no node could be read, there is no answer.
const fn exit(report: &NodesReport) -> Exit {
    let counts = &report.counts;
    if counts.unhealthy + counts.silent + counts.unreachable > 0 {
        Exit::Bad
    } else if counts.nodes == counts.unknown {
        Exit::NoAnswer
    } else {
        Exit::Good
    }
}

fn print(arguments: &NodesArgs, context: &Context, report: &NodesReport) -> io::Result<()> {
    if arguments.watch && arguments.output == Output::Yaml {
        io::stdout().write_all(b"---\n")?;
    }
    arguments.output.print(&document(report), |out| match arguments.output {
        Output::Name => {
            let mut unwell = report.nodes.iter().filter(|node| node.verdict != NodeVerdict::Healthy);
            unwell.try_for_each(|node| writeln!(out, "{}", crate::report::escape::escaped(&node.name)))
        }
        output => render::table(report, output == Output::Wide, context.style(), out),
    })
}
