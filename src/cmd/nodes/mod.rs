//! `plegctl nodes`: shows the PLEG of every node of a cluster, the worst node first. It reads the kubelets' metrics
//! and settings through the API server.
//!
//! ```text
//! $ plegctl nodes
//! 2 nodes: 1 silent, 1 healthy (1 by the kubelet alone); worst p99 44ms on n1
//! kubelet v1.34.2 (2); containerd 2.1.4 (2)
//! NAME   VERDICT     AGE   P50    P99   DISCARDED   ERRORS   VERSION   WHY
//! n7     silent      -     -      -     -           -        v1.34.2   its /metrics is silent while its /configz answers: the kubelet waits, possibly for a list call or a shim
//! n1     healthy     1s    12ms   44ms  0           3        v1.34.2   <none>
//! ```
//!
//! With `--preflight`, shows instead on which nodes another release would not start:
//!
//! ```text
//! $ plegctl nodes --preflight 1.37
//! NAME   VERDICT   VERSION   RESTARTS   WHY
//! n7     refused   v1.36.2   0          the gate SidecarContainers was removed in 1.37: kubelet 1.37 does not start
//! n1     starts    v1.36.2   4          <none>
//! ```
//!
//! With `--incidents`, shows which nodes had an incident, by cause, and what these nodes share:
//!
//! ```text
//! $ plegctl nodes --incidents --since 24h
//! 14 nodes, D02 ListContainers does not answer; since 2026-11-21 02:10 UTC, 3 still open
//!   in all: container kube-system/csi-nfs, containerd 2.3.2 (on no other node)
//!   n1, n2, n3, n4, n5, n6, 8 more
//!
//! 14 of 2 000 nodes had incidents since 2026-11-20 12:00 UTC; 300 have no recorder
//! ```
//!
//! The command uses the credential in the user's kubeconfig, and reports which rights are missing.

mod fetch;
mod incidents_text;
mod text;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use tokio::signal::unix::{SignalKind, signal};

use super::args::{GlobalArgs, at_least_one, positive_duration, whole_number};
use super::event_loop::block_on;
use super::flags::remote_node::{self, CREDENTIAL_TIMEOUT, REQUEST_TIMEOUT, refuse_named_runtime};
use super::node::Node;
use super::render::page::Line;
use super::render::words::cut;
use super::term::output::Output;
use super::term::stop_signals::StopSignals;
use super::term::streams;
use super::term::streams::ProgressLine;
use super::{Error, Exit};
use crate::fleet::{
    self, FleetReading, FleetRequest, NodeReport, NodeVerdict, NodesReport, RecorderPods, StartVerdict,
};
use crate::kubelet::KubeletVersion;
use crate::kubelet::kubeconfig::Cluster;
use crate::report::{NotChecked, document};

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The kubeconfig [default: `$KUBECONFIG`, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// With --fetch: the namespace of the recorders, which get the token [default: plegctl]. Nodes have no namespace, so it
    /// changes nothing else
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(super) namespace: Option<String>,

    /// Only nodes with these labels, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Number of nodes to query at once
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>, default_value = "16")]
    concurrency: NonZeroUsize,

    /// Repeat until Ctrl-C, in place on a terminal; from the second update on, relist times are those since the previous update
    #[arg(short, long)]
    watch: bool,

    /// Pause between two updates with --watch
    #[arg(long, value_name = "DUR", value_parser = positive_duration, default_value = "15s")]
    period: Duration,

    /// Show instead which nodes this release, such as 1.37, would not start on, and where it restarts the static pods
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse, conflicts_with = "watch")]
    preflight: Option<KubeletVersion>,

    #[command(flatten)]
    pub(super) recorders: RecorderArgs,

    /// Show at most this many nodes; 0 is all [default: one screen on a terminal, else all]
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, conflicts_with_all = ["preflight", "incidents"])]
    pub(super) limit: Option<usize>,

    /// The order of the nodes: the worst verdict, the oldest PLEG, the slowest relists, or names from A to Z
    #[arg(long, value_name = "KEY", default_value = "verdict", conflicts_with_all = ["preflight", "incidents"])]
    sort_by: SortKey,

    /// Show only nodes that are not healthy
    #[arg(long, conflicts_with_all = ["preflight", "incidents"])]
    unhealthy: bool,

    /// How to print; `name` prints the names of the nodes that are not healthy, that may not start, or that had an incident
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name]))]
    pub(super) output: Output,
}

/// What the nodes' recorders are asked for.
#[derive(Debug, Args)]
pub(super) struct RecorderArgs {
    /// Show instead the incidents that the nodes' recorders have kept, by cause, and what the nodes of each cause share
    #[arg(long, conflicts_with_all = ["watch", "preflight", "no_recorders"])]
    incidents: bool,

    #[command(flatten)]
    pub(super) download: FetchArgs,

    /// With --incidents and --fetch: how far to look back
    #[arg(long, value_name = "DUR", value_parser = positive_duration, default_value = "24h", conflicts_with_all = ["watch", "preflight"])]
    pub(super) since: Duration,

    /// Do not ask the nodes' recorders, only the kubelets
    #[arg(long, conflicts_with = "preflight")]
    no_recorders: bool,
}

/// What is downloaded about the worst incidents.
#[derive(Debug, Args)]
pub(super) struct FetchArgs {
    /// Download the captures of the worst incidents from the nodes' recorders into this directory, one for each node; it is
    /// created if it does not exist. Without --limit, of 5 nodes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "token_file", conflicts_with_all = ["watch", "preflight", "no_recorders", "incidents", "sort_by", "unhealthy"])]
    pub(super) fetch: Option<PathBuf>,

    /// With --fetch: the file with the recorders' token (`record --serve-token-file`)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "fetch")]
    pub(super) token_file: Option<PathBuf>,

    /// With --fetch: replace names in the captures by pseudonyms
    #[arg(long, requires = "fetch")]
    pub(super) anonymise: bool,
}

/// The order of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Verdict,
    Age,
    P99,
    Name,
}

/// Runs the command.
pub fn run(arguments: &NodesArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    refuse_named_runtime(global)?;
    let here = &Node::named_by(global);
    let timeout = here.global.timeout.unwrap_or(CREDENTIAL_TIMEOUT);
    let (file, context) = (arguments.kubeconfig.clone(), arguments.context.as_deref());
    let cluster = remote_node::cluster(file, context, timeout, global)?;
    here.note(1, &format!("API server {} by context {}", cluster.server, cluster.context));
    if let Some(namespace) =
        arguments.namespace.as_ref().filter(|_| arguments.recorders.download.fetch.is_none())
    {
        here.note(1, &format!("nodes have no namespace, so --namespace {namespace} changes nothing"));
    }
    let wanted = &arguments.recorders.download;
    if let (Some(directory), Some(token_file)) = (&wanted.fetch, &wanted.token_file) {
        return block_on(fetch::run(arguments, here, &cluster, directory, token_file))?;
    }
    match arguments.preflight {
        Some(release) => block_on(preflight(arguments, here, &cluster, release))?,
        None if arguments.recorders.incidents => block_on(incidents(arguments, here, &cluster))?,
        None => block_on(query_and_print(arguments, here, cluster))?,
    }
}

impl NodesArgs {
    /// Keeps the nodes that the user selects, in the user's order. Returns the number of nodes beyond the limit.
    fn select(&self, nodes: &mut Vec<NodeReport>) -> usize {
        nodes.retain(|node| !self.unhealthy || node.verdict != NodeVerdict::Healthy);
        match self.sort_by {
            // The report has this order.
            SortKey::Verdict => {}
            SortKey::Age => sort_by_figure(nodes, |node| node.pleg_age_seconds),
            SortKey::P99 => sort_by_figure(nodes, |node| Some(node.relist_seconds.as_ref()?.p99)),
            SortKey::Name => nodes.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        let limit = self.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let beyond = nodes.len().saturating_sub(limit);
        nodes.truncate(limit);
        beyond
    }

    pub(super) fn request(&self, here: &Node) -> FleetRequest {
        FleetRequest {
            selector: self.selector.clone(),
            concurrency: self.concurrency.get(),
            timeout: here.global.timeout.unwrap_or(REQUEST_TIMEOUT),
        }
    }
}

/// Sorts the largest figure first, and nodes without the figure last.
fn sort_by_figure(nodes: &mut [NodeReport], figure: fn(&NodeReport) -> Option<f64>) {
    let of = |node: &NodeReport| figure(node).unwrap_or(-1.0);
    nodes.sort_by(|one, other| of(other).total_cmp(&of(one)));
}

/// Judges the settings of all kubelets for another release.
async fn preflight(
    arguments: &NodesArgs,
    here: &Node,
    cluster: &Arc<Cluster>,
    release: KubeletVersion,
) -> Result<Exit, Error> {
    let request = arguments.request(here);
    let nodes = fleet::list(cluster, &request).await?;
    let progress = progress_bar(nodes.len(), here.global.quiet);
    let readings = fleet::read_settings(cluster, nodes, &request, |_| progress.step()).await;
    progress.end();
    let taken_at = here.clock.wall();
    let report = fleet::judge_settings(readings, release, taken_at, &cluster.server, &cluster.context);
    arguments.output.print(&document(&report), here.global.style(), |out| match arguments.output {
        Output::Name => {
            let mut not_starting = report.nodes.iter().filter(|node| node.verdict != StartVerdict::Starts);
            not_starting.try_for_each(|node| writeln!(out, "{}", node.name))
        }
        output => text::preflight(&report, output == Output::Wide, out),
    })?;
    Ok(if report.counts.refused > 0 {
        Exit::Bad
    } else if report.counts.unknown == report.counts.nodes {
        Exit::NoAnswer
    } else {
        Exit::Good
    })
}

/// Asks the recorders of all nodes for their incidents.
async fn incidents(arguments: &NodesArgs, here: &Node, cluster: &Arc<Cluster>) -> Result<Exit, Error> {
    let request = arguments.request(here);
    let nodes = fleet::list(cluster, &request).await?;
    let recorders = fleet::find_recorders(cluster, None, request.timeout).await?;
    let progress = progress_bar(nodes.len(), here.global.quiet);
    let since = arguments.recorders.since;
    let mut readings =
        fleet::read_incidents(cluster, nodes, recorders, since, &request, || progress.step()).await;
    progress.end();
    fleet::read_images(cluster, &mut readings, &request).await;
    let now = here.clock.wall();
    let report = fleet::join_incidents(&readings, now, since, &cluster.server, &cluster.context);
    arguments.output.print(&document(&report), here.global.style(), |out| match arguments.output {
        Output::Name => report.node_names().iter().try_for_each(|name| writeln!(out, "{name}")),
        output => incidents_text::incidents(&report, output == Output::Wide, out),
    })?;
    let counts = &report.counts;
    Ok(if counts.with_incidents > 0 {
        Exit::Bad
    } else if counts.without_incidents == 0 {
        Exit::NoAnswer
    } else {
        Exit::Good
    })
}

/// Queries all nodes and prints the report; with `--watch`, repeats this until Ctrl-C.
async fn query_and_print(arguments: &NodesArgs, here: &Node, cluster: Arc<Cluster>) -> Result<Exit, Error> {
    let request = arguments.request(here);
    let in_place = arguments.watch
        && matches!(arguments.output, Output::Table | Output::Wide)
        && streams::stdout_is_seen()
        && streams::can_rewrite();
    let mut screen = Screen { arguments, here, shown: in_place.then(Vec::new) };
    // During the first query, Ctrl-C kills the process, because there is no answer yet. After it, Ctrl-C is the normal end
    // of the watch.
    let (mut before, mut report) = query_once(arguments, &request, here, &cluster, None).await?;
    if !arguments.watch {
        screen.print(&report, "")?;
        return Ok(exit(&report));
    }
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let mut resized = signal(SignalKind::window_change()).map_err(Error::Start)?;
    let mut failure = String::new();
    screen.print(&report, &failure)?;
    loop {
        let next = async {
            tokio::time::sleep(arguments.period).await;
            query_once(arguments, &request, here, &cluster, Some((&before, in_place))).await
        };
        let result = {
            let mut next = pin!(next);
            loop {
                tokio::select! {
                    result = &mut next => break result,
                    () = stop_signals.next() => return Ok(Exit::Good),
                    _ = resized.recv(), if in_place => screen.print(&report, &failure)?,
                }
            }
        };
        match result {
            Ok((readings, newer)) => {
                (before, report) = (readings, newer);
                failure.clear();
                screen.print(&report, &failure)?;
            }
            // The watch continues if the API server does not answer for a moment.
            Err(why) => {
                failure = format!("update failed: {why}");
                if in_place {
                    screen.print(&report, &failure)?;
                } else {
                    here.remark(&failure);
                }
            }
        }
    }
}

/// The table on stdout.
struct Screen<'a> {
    arguments: &'a NodesArgs,
    here: &'a Node,
    /// The widths of the lines that the next table replaces; `None` if each table is printed below the last one.
    shown: Option<Vec<usize>>,
}

impl Screen<'_> {
    /// Prints a report. `failure` is why it is not newer.
    fn print(&mut self, report: &NodesReport, failure: &str) -> io::Result<()> {
        let Self { arguments, here, .. } = *self;
        if arguments.watch && arguments.output == Output::Yaml {
            streams::document(|out| out.write_all(b"---\n"))?;
        }
        let terminal = streams::terminal_size();
        let mut view = text::NodesView {
            fleet: text::fleet(report),
            beyond_limit: 0,
            wide: arguments.output == Output::Wide,
            terminal,
            has_limit: arguments.limit.is_some() && self.shown.is_none(),
        };
        let mut selected = report.clone();
        view.beyond_limit = arguments.select(&mut selected.nodes);
        let Some(shown) = &mut self.shown else {
            return arguments.output.print(&document(&selected), here.global.style(), |out| {
                if arguments.output == Output::Name {
                    let nodes = selected.nodes.iter();
                    let mut not_healthy = nodes.filter(|node| node.verdict != NodeVerdict::Healthy);
                    return not_healthy.try_for_each(|node| writeln!(out, "{}", node.name));
                }
                let lines = text::table(&selected, &view, here.global.style())?;
                lines.iter().try_for_each(|line| out.line(line))
            });
        };
        // The last line says how old the table is.
        view.terminal = terminal.map(|(lines, columns)| (lines.saturating_sub(1), columns));
        let mut lines = text::table(&selected, &view, here.global.style())?;
        let age = text::updated(report.taken_at, arguments.period, failure);
        lines.push(cut(&age, terminal.map_or(usize::MAX, |(_, columns)| columns)).into());
        let (rows, columns) = terminal.unwrap_or((usize::MAX, usize::MAX));
        let before = rows_of(shown, columns);
        *shown = lines.iter().map(Line::width).collect();
        streams::text(here.global.style(), |page| {
            page.erase(before, rows)?;
            lines.iter().try_for_each(|line| page.line(line))
        })
    }
}

/// Returns the number of rows that lines of these widths have. A terminal that became narrower shows a line in several rows.
fn rows_of(shown: &[usize], columns: usize) -> usize {
    shown.iter().map(|width| width.div_ceil(columns).max(1)).sum()
}

/// Queries all nodes once. `before` is the previous result, for the relist times since then, and whether the screen shows
/// it, which a progress bar would move.
async fn query_once(
    arguments: &NodesArgs,
    request: &FleetRequest,
    here: &Node,
    cluster: &Arc<Cluster>,
    before: Option<(&FleetReading, bool)>,
) -> Result<(FleetReading, NodesReport), Error> {
    let nodes = fleet::list(cluster, request).await?;
    let mut not_checked = Vec::new();
    let recorders = if arguments.recorders.no_recorders {
        RecorderPods::default()
    } else {
        fleet::find_recorders(cluster, None, request.timeout).await.unwrap_or_else(|why| {
            if before.is_none() {
                here.remark(&format!("the recorders are not asked: {why}"));
            }
            not_checked.push(NotChecked::new("the recorders", why));
            RecorderPods::default()
        })
    };
    let bar = progress_bar(nodes.len(), here.global.quiet || before.is_some_and(|(_, in_place)| in_place));
    let done = |reading: &fleet::NodeReading| {
        if reading.metrics.is_err() {
            bar.show(&format!("last without an answer: {}", reading.listed.name));
        }
        bar.step();
    };
    let readings = fleet::read_nodes(cluster, nodes, recorders, request, &here.clock, done).await;
    bar.end();
    let before = before.map(|(before, _)| before);
    let mut report = fleet::judge(&readings, before, &cluster.server, &cluster.context);
    report.not_checked.splice(0..0, not_checked);
    Ok((readings, report))
}

pub(super) fn progress_bar(nodes: usize, quiet: bool) -> ProgressLine {
    ProgressLine::begin(!quiet, "{wide_bar} {pos}/{len} nodes  {msg}", u64::try_from(nodes).ok())
}

/// Returns the exit status: bad news for an unhealthy, silent or unreachable node; no answer if nothing is known
/// about any node.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> NodesArgs {
        #[derive(clap::Parser)]
        struct TestCommand {
            #[command(flatten)]
            nodes: NodesArgs,
        }
        <TestCommand as clap::Parser>::parse_from([&["nodes"], words].concat()).nodes
    }

    #[test]
    fn nodes_are_selected_sorted_and_limited() {
        let node = |name: &str, verdict, age: Option<f64>| NodeReport {
            name: name.to_owned(),
            verdict,
            pleg_age_seconds: age,
            ..NodeReport::default()
        };
        let all = [
            node("b", NodeVerdict::Silent, None),
            node("c", NodeVerdict::Healthy, Some(1.0)),
            node("a", NodeVerdict::Healthy, Some(2.0)),
        ];
        let selected = |words: &[&str]| {
            let mut nodes = all.to_vec();
            let beyond = arguments(words).select(&mut nodes);
            (nodes.into_iter().map(|node| node.name).collect::<String>(), beyond)
        };
        assert_eq!(selected(&[]), ("bca".to_owned(), 0));
        assert_eq!(selected(&["--sort-by", "age"]), ("acb".to_owned(), 0));
        assert_eq!(selected(&["--sort-by", "name", "--limit", "2"]), ("ab".to_owned(), 1));
        assert_eq!(selected(&["--unhealthy", "--limit", "0"]), ("b".to_owned(), 0));
    }

    #[test]
    fn a_table_has_more_rows_after_the_terminal_became_narrower() {
        let rows = |columns| rows_of(&[80, 0, 10], columns);
        assert_eq!([rows(80), rows(40), rows(usize::MAX), rows_of(&[], 80)], [3, 4, 3, 0]);
    }
}
