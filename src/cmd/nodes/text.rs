//! Formats the report of `plegctl nodes` as a table.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::clock::Wall;
use crate::cmd::render::Style;
use crate::cmd::render::page::{Line, Page};
use crate::cmd::render::source::{label, one_line};
use crate::cmd::render::table::{self, Column, FilledColumn, GAP};
use crate::cmd::render::watch::seconds_of_day;
use crate::cmd::render::words::{UNKNOWN, cut, cut_in_the_middle, elapsed, grouped, took, wrapped};
use crate::diagnosis::report::Verdict;
use crate::fleet::{
    FleetPreflight, NodePreflight, NodeReport, NodeVerdict, NodesReport, RecorderReport, RelistSeconds,
    StartVerdict,
};

/// The number of characters of a reason in the normal table; `-o wide` shows the whole reason.
const MAX_REASON: usize = 90;

/// The lines of a screen below the fleet lines that show no node: the header, the number of other nodes and the next prompt.
const OTHER_LINES: usize = 3;

/// The number of versions that the fleet line names.
const MAX_VERSIONS: usize = 3;

type NodeColumn<'a> = Column<'a, NodeReport>;
type PreflightColumn<'a> = Column<'a, NodePreflight>;

/// What the table shows of the nodes.
#[derive(Clone, Debug)]
pub struct NodesView {
    /// The lines about all nodes.
    pub fleet: Vec<String>,
    /// The number of nodes that were selected but are beyond `--limit`.
    pub beyond_limit: usize,
    /// Whether every column is printed, however wide.
    pub wide: bool,
    /// The lines and the columns of the terminal.
    pub terminal: Option<(usize, usize)>,
    /// Whether the user gave a limit, so that there may be more rows than the terminal has lines.
    pub has_limit: bool,
}

/// Describes the whole fleet in two lines: the verdicts and the worst p99; the versions of kubelets and runtimes.
pub fn fleet(report: &NodesReport) -> Vec<String> {
    let of = |verdict: NodeVerdict| (report.counts.with_verdict(verdict), verdict.as_str());
    let mut verdicts = counts_line(report.counts.nodes, NodeVerdict::ALL.map(of));
    let is_of_kubelet =
        |node: &&NodeReport| node.verdict == NodeVerdict::Healthy && !node.has_recorders_verdict();
    let by_kubelet = report.nodes.iter().filter(is_of_kubelet).count();
    if by_kubelet > 0 {
        // Healthy is the last verdict in the line.
        let number = grouped(u64::try_from(by_kubelet).unwrap_or(u64::MAX));
        verdicts.extend([" (", &number, " by the kubelet alone)"]);
    }
    let known = report.nodes.iter().filter_map(|node| Some((node.relist_seconds.as_ref()?, &node.name)));
    if let Some((seconds, name)) = known.max_by(|one, other| one.0.p99.total_cmp(&other.0.p99)) {
        let p99 = quantile(Some(seconds), "p99", |seconds| seconds.p99).unwrap_or_default();
        verdicts.extend(["; worst p99 ", &p99, " on ", name]);
    }
    if report.nodes.is_empty() {
        return vec![verdicts];
    }
    let kubelets = report.nodes.iter().filter_map(|node| node.kubelet_version.clone());
    let runtimes = report.nodes.iter().filter_map(|node| node.runtime.as_ref());
    let runtimes = runtimes.map(|runtime| format!("{} {}", runtime.name, runtime.version));
    vec![verdicts, format!("kubelet {}; {}", versions(kubelets.collect()), versions(runtimes.collect()))]
}

/// Lists versions with the number of their nodes, the most frequent first.
fn versions(all: Vec<String>) -> String {
    let mut counts = BTreeMap::<String, u64>::new();
    for version in all {
        *counts.entry(version).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let others = counts.len().saturating_sub(MAX_VERSIONS);
    let named = counts.iter().take(MAX_VERSIONS);
    let mut words: Vec<String> =
        named.map(|(version, count)| format!("{} ({})", version, grouped(*count))).collect();
    if others > 0 {
        words.push(format!("{others} more"));
    }
    if words.is_empty() { UNKNOWN.to_owned() } else { words.join(", ") }
}

/// Formats the fleet lines, one row for each node, and the number of nodes that have no row. A terminal gets one
/// screenful, with one line for each node.
pub fn table(report: &NodesReport, view: &NodesView, style: Style) -> io::Result<Vec<Line>> {
    let columns = view.terminal.map(|(_, columns)| columns);
    let mut lines = Vec::new();
    if style.headers {
        let fleet = view.fleet.iter().flat_map(|line| wrapped(line, columns.unwrap_or(usize::MAX), "  "));
        lines.extend(fleet.map(Line::from));
    }
    let fleet_lines = lines.len();
    let room = view.terminal.filter(|_| !view.has_limit).map_or(usize::MAX, |(lines, _)| {
        // Without hidden nodes, the line with their number is not needed.
        let all = lines.saturating_sub(fleet_lines + OTHER_LINES - 1);
        if report.nodes.len() <= all { all } else { all.saturating_sub(1).max(1) }
    });
    let (shown, hidden) = report.nodes.split_at(room.min(report.nodes.len()));
    if !shown.is_empty() {
        let limit = columns.filter(|_| !view.wide);
        let mut filled = table::filled(node_columns(shown, view.wide, limit), shown, style);
        if let Some(limit) = limit {
            fit(&mut filled, limit);
        }
        let header = usize::from(style.headers);
        let rows = Page::lines_of(style, |page| table::print(page, &filled))?;
        for (number, line) in rows.iter().enumerate() {
            let node = number.checked_sub(header).and_then(|number| shown.get(number));
            let color = node.map_or("", |node| color_of(node.verdict));
            lines.push(Line::colored(color, line.text()));
        }
    }
    let more = u64::try_from(hidden.len() + view.beyond_limit).unwrap_or(u64::MAX);
    if more > 0 && style.headers {
        let nodes = if more == 1 { "node" } else { "nodes" };
        lines.push(format!("{} more {nodes}; --limit 0 shows all", grouped(more)).into());
    }
    Ok(lines)
}

/// Formats when the table was made, and when the next one comes. `failure` is why the table is not newer.
pub fn updated(taken_at: Wall, interval: Duration, failure: &str) -> String {
    let at = seconds_of_day(taken_at);
    let failure = if failure.is_empty() { String::new() } else { format!("; {failure}") };
    format!("{at} UTC, again every {}; Ctrl-C ends{failure}", elapsed(interval))
}

const fn color_of(verdict: NodeVerdict) -> &'static str {
    match verdict {
        NodeVerdict::Healthy => "",
        NodeVerdict::Unknown => "2",
        NodeVerdict::Degraded | NodeVerdict::Unreachable => "33",
        NodeVerdict::Silent | NodeVerdict::Unhealthy => "31",
    }
}

/// Cuts the domain that all names have in common, such as `.eu-central-1.compute.internal`.
fn cut_common_domain(names: &mut [String]) {
    let domain = |name: &String| name.split_once('.').map(|(_, domain)| domain.to_owned());
    let Some(common) = names.first().and_then(domain) else { return };
    if names.iter().all(|name| domain(name).as_ref() == Some(&common)) {
        for name in names {
            name.truncate(name.len() - common.len() - 1);
            name.push('…');
        }
    }
}

/// Returns the columns of the table. If a width is given, rows get this width.
fn node_columns(nodes: &[NodeReport], wide: bool, limit: Option<usize>) -> Vec<NodeColumn<'_>> {
    let culprit_width = limit.map_or(usize::MAX, |limit| limit / 3);
    let has_recent = nodes.iter().any(|node| node.recent_relist_seconds.is_some());
    let count = |value: Option<f64>| value.map(|value| format!("{value:.0}"));
    vec![
        NodeColumn::new("NAME", |node| node.name.clone()),
        NodeColumn::new("VERDICT", |node| node.verdict.as_str().to_owned()),
        NodeColumn::new("RECORDER", |node| node.recorder.as_ref().map(recorder)).unless_empty().leaves(6),
        NodeColumn::new("CULPRIT", move |node| {
            let culprit = node.recorder.as_ref()?.culprit()?;
            Some(cut_in_the_middle(&culprit, culprit_width))
        })
        .unless_empty()
        .leaves(10),
        NodeColumn::new("LIMIT", limit_of).unless_empty().leaves(8),
        NodeColumn::new("AGE", |node| Some(format!("{:.0}s", node.pleg_age_seconds?))).leaves(9),
        NodeColumn::new("P50", |node| quantile(node.relist_seconds.as_ref(), "p50", |of| of.p50)).leaves(3),
        NodeColumn::new("P99", |node| quantile(node.relist_seconds.as_ref(), "p99", |of| of.p99)).leaves(7),
        NodeColumn::new("RECENT", |node| quantile(node.recent_relist_seconds.as_ref(), "p99", |of| of.p99))
            .shown_if(limit.is_none() || has_recent)
            .leaves(5),
        NodeColumn::new("DISCARDED", move |node| count(node.discarded_events)).leaves(2),
        NodeColumn::new("ERRORS", move |node| count(node.runtime_errors)).leaves(1),
        NodeColumn::new("VERSION", |node| node.kubelet_version.clone()).leaves(4),
        NodeColumn::new("RELISTS", move |node| count(node.relists)).shown_if(wide),
        NodeColumn::new("TOOK", |node| took(node.duration_seconds.duration())).shown_if(wide),
        NodeColumn::new("WHY", move |node| shortened_reason(node.why.as_deref(), wide)),
    ]
}

/// Gives rows at most this width: less important columns leave, and names and reasons are shortened.
fn fit(columns: &mut Vec<FilledColumn>, limit: usize) {
    if let Some(names) = columns.first_mut().filter(|names| names.width() > limit / 4) {
        cut_common_domain(&mut names.cells);
    }
    let name = columns.first().map_or(0, FilledColumn::width);
    let why = columns.last().map_or(0, FilledColumn::width);
    let gap = usize::from(GAP);
    let others = |columns: &[FilledColumn]| {
        columns.iter().map(|column| column.width() + gap).sum::<usize>().saturating_sub(name + why + gap)
    };
    let least = name.min(limit / 4) + why.min(limit / 3);
    while others(columns) + least > limit
        && let Some(first) = columns.iter().filter_map(|column| column.leaves).min()
    {
        columns.retain(|column| column.leaves != Some(first));
    }
    let room = limit.saturating_sub(others(columns));
    let name = name.min(room.saturating_sub(why).max(room / 2));
    for cell in columns.first_mut().into_iter().flat_map(|names| &mut names.cells) {
        *cell = cut_in_the_middle(cell, name);
    }
    for cell in columns.last_mut().into_iter().flat_map(|reasons| &mut reasons.cells) {
        *cell = cut(cell, room.saturating_sub(name));
    }
}

/// Formats the number of nodes, and how many of them have each verdict.
fn counts_line<const N: usize>(nodes: u64, verdicts: [(u64, &str); N]) -> String {
    let counts: Vec<String> = verdicts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, verdict)| format!("{} {verdict}", grouped(count)))
        .collect();
    let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", grouped(nodes)) };
    if counts.is_empty() { nodes } else { format!("{nodes}: {}", counts.join(", ")) }
}

/// Prints one row for each node, those that would not start first, then the answer. The wide form adds every
/// finding.
pub fn preflight(report: &FleetPreflight, wide: bool, out: &mut Page<'_>) -> io::Result<()> {
    let restarts = |node: &NodePreflight| match node.restarts_static_pods {
        Some(true) => "all",
        Some(false) => "none",
        None => UNKNOWN,
    };
    let columns = vec![
        PreflightColumn::new("NAME", |node| node.name.clone()),
        PreflightColumn::new("VERDICT", |node| node.verdict.as_str().to_owned()),
        PreflightColumn::new("VERSION", |node| node.kubelet_version.clone()),
        PreflightColumn::new("RESTARTS", |node| restarts(node).to_owned()),
        PreflightColumn::new("WHY", |node| shortened_reason(node.why.as_deref(), wide)),
    ];
    table::write(out, columns, &report.nodes)?;
    if wide {
        for node in &report.nodes {
            details(node, out)?;
        }
    }
    let of = |verdict: StartVerdict| (report.counts.with_verdict(verdict), verdict.as_str());
    writeln!(out)?;
    writeln!(out, "{}", counts_line(report.counts.nodes, StartVerdict::ALL.map(of)))?;
    for skipped in &report.not_checked {
        writeln!(out, "not checked: {}: {}", skipped.what, skipped.why)?;
    }
    writeln!(out, "{}", report.summary)
}

fn details(node: &NodePreflight, out: &mut Page<'_>) -> io::Result<()> {
    if node.findings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{}:", node.name)?;
    for finding in &node.findings {
        let label = label("  ", finding.severity, finding.id.id());
        out.line(&label.and("", format_args!(": {}", finding.message)))?;
        if let Some(reason) = &finding.kubelet_reason {
            writeln!(out, "    the kubelet: {}", one_line(reason))?;
        }
    }
    Ok(())
}

/// Returns a reason, shortened in the narrow table.
fn shortened_reason(why: Option<&str>, wide: bool) -> Option<String> {
    let why = why?;
    let is_short = wide || why.chars().count() <= MAX_REASON;
    Some(if is_short { why.to_owned() } else { why.chars().take(MAX_REASON - 1).chain(['…']).collect() })
}

/// Formats the verdict of a recorder and the id of its finding.
fn recorder(recorder: &RecorderReport) -> String {
    let verdict = recorder.verdict.map_or("no answer", Verdict::as_str);
    match &recorder.primary {
        Some(primary) => format!("{verdict} {}", primary.id),
        None => verdict.to_owned(),
    }
}

/// Names the limit that the node likely reaches first, and the time until then: `threads 18h`.
fn limit_of(node: &NodeReport) -> Option<String> {
    let forecast = node.recorder.as_ref()?.forecast.as_ref()?;
    Some(format!("{} {}", forecast.limit, elapsed(forecast.left(forecast.taken_at))))
}

fn quantile(seconds: Option<&RelistSeconds>, name: &str, value: fn(&RelistSeconds) -> f64) -> Option<String> {
    let seconds = seconds?;
    let text = took(Duration::try_from_secs_f64(value(seconds)).unwrap_or_default());
    Some(if seconds.at_least.contains(&name) { format!(">{text}") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Wall;
    use crate::cmd::render::words::width;
    use crate::diagnosis::forecast::{LimitForecast, LimitKind};
    use crate::fleet::{NodeCounts, NodeRuntime};
    use crate::report::Confidence;

    const PLAIN: Style = Style { headers: true, color: false };

    /// Returns a fleet of this size whose first node is unhealthy.
    fn report(size: usize) -> NodesReport {
        let node = |number: usize| {
            let seconds = if number == 0 { 10.0 } else { 0.25 };
            let at_least = if number == 0 { vec!["p99"] } else { Vec::new() };
            let seconds = RelistSeconds { p50: seconds, p90: seconds, p99: seconds, at_least };
            NodeReport {
                name: format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 256, number % 256),
                verdict: if number == 0 { NodeVerdict::Unhealthy } else { NodeVerdict::Healthy },
                why: (number == 0).then(|| "PLEG was last seen 300 s ago, the threshold is 180 s".to_owned()),
                kubelet_version: Some(format!("v1.3{}.2-eks-ecaa3a6", number % 5)),
                runtime: NodeRuntime::parse("containerd://2.1.4"),
                pleg_age_seconds: Some(1.0),
                relist_seconds: Some(seconds),
                discarded_events: Some(0.0),
                runtime_errors: Some(3.0),
                ..NodeReport::default()
            }
        };
        let count = u64::try_from(size).unwrap();
        NodesReport {
            taken_at: Wall::default(),
            server: String::new(),
            context: String::new(),
            counts: NodeCounts { nodes: count, healthy: count - 1, unhealthy: 1, ..NodeCounts::default() },
            nodes: (0..size).map(node).collect(),
            not_checked: Vec::new(),
        }
    }

    fn screen(report: &NodesReport, terminal: Option<(usize, usize)>) -> Vec<String> {
        let view =
            NodesView { fleet: fleet(report), beyond_limit: 0, wide: false, terminal, has_limit: false };
        table(report, &view, PLAIN).unwrap().iter().map(Line::text).collect()
    }

    #[test]
    fn a_terminal_gets_one_screen_with_one_line_for_each_node() {
        let report = report(2000);
        for (lines, columns) in [(15, 60), (24, 80), (40, 120), (60, 200)] {
            let screen = screen(&report, Some((lines, columns)));
            assert_eq!(screen.len(), lines - 1, "one line is left for the prompt: {screen:#?}");
            assert!(screen.iter().all(|line| width(line) <= columns), "{screen:#?}");
            let nodes = screen.iter().position(|line| line.starts_with("NAME")).unwrap() + 1;
            assert!(
                screen[nodes].contains("unhealthy") && screen[nodes].contains("PLEG was last seen"),
                "{screen:#?}"
            );
            let counts = screen[..nodes].join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(counts.contains("1 999 healthy (1 999 by the kubelet alone); worst p99"), "{screen:#?}");
            let domain = if columns == 200 { ".eu-central-1.compute.internal " } else { "… " };
            assert!(screen[nodes].starts_with(&format!("ip-10-0-0-0{domain}")), "{screen:#?}");
            let hidden = 2000 - (lines - nodes - 2);
            assert_eq!(
                screen.last().unwrap(),
                &format!("{} more nodes; --limit 0 shows all", grouped(hidden as u64))
            );
        }
        assert_eq!(screen(&report, None).len(), 2003, "a pipe gets every node");
    }

    #[test]
    fn a_narrow_terminal_keeps_the_verdict_and_the_reason() {
        let headers = |columns| {
            let screen = screen(&report(3), Some((24, columns)));
            let headers = screen.iter().find(|line| line.starts_with("NAME")).unwrap();
            headers.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(headers(200), "NAME VERDICT AGE P50 P99 DISCARDED ERRORS VERSION WHY");
        assert_eq!(headers(80), "NAME VERDICT AGE P99 WHY");
        assert_eq!(headers(60), "NAME VERDICT AGE WHY");
        assert_eq!(headers(40), "NAME VERDICT WHY");
    }

    #[test]
    fn the_culprit_stays_in_a_narrow_terminal() {
        let mut report = report(2);
        let json = r#"{"rpc":"ListContainers","pod":{"namespace":"shop","name":"queue-21"},"container":{"id":"c","name":"worker"}}"#;
        let culprits = vec![serde_json::from_str(json).unwrap()];
        report.nodes[0].recorder = Some(RecorderReport { culprits, ..RecorderReport::default() });
        let screen = screen(&report, Some((24, 80)));
        assert!(screen.iter().any(|line| line.contains("shop/queue-21/worker")), "{screen:#?}");
        assert!(screen.iter().all(|line| width(line) <= 80), "{screen:#?}");
    }

    #[test]
    fn limit_that_a_node_will_reach_has_a_column() {
        let mut report = report(2);
        let since = Wall::from_nanos(1_795_000_000_000_000_000);
        let forecast = LimitForecast {
            limit: LimitKind::Threads,
            process: None,
            used: 6312,
            max: 10_000,
            per_minute: 3.4.into(),
            since,
            taken_at: since,
            full_at: since.plus(Duration::from_secs(18 * 3600)),
            confidence: Confidence::Likely,
        };
        report.nodes[1].recorder =
            Some(RecorderReport { forecast: Some(forecast), ..RecorderReport::default() });
        let screen = screen(&report, Some((24, 250)));
        assert!(screen[2].contains(" LIMIT "), "{screen:#?}");
        assert!(screen[4].contains(" threads 18h "), "{screen:#?}");
    }

    #[test]
    fn a_fleet_that_fits_needs_no_count_of_the_rest() {
        // Each of the two lines about the fleet needs two lines.
        let screen = screen(&report(18), Some((24, 80)));
        assert_eq!(screen.len(), 23);
        assert!(!screen.iter().any(|line| line.contains("more node")), "{screen:#?}");
    }

    #[test]
    fn fleet_lines_name_verdicts_versions_and_the_worst_p99() {
        let mut report = report(2000);
        let recorder = |verdict| Some(RecorderReport { verdict: Some(verdict), ..RecorderReport::default() });
        report.nodes[1].recorder = recorder(Verdict::Healthy);
        report.nodes[2].recorder = recorder(Verdict::Unknown);
        assert_eq!(
            fleet(&report),
            [
                "2 000 nodes: 1 unhealthy, 1 999 healthy (1 998 by the kubelet alone); worst p99 >10.0s on \
                 ip-10-0-0-0.eu-central-1.compute.internal",
                "kubelet v1.30.2-eks-ecaa3a6 (400), v1.31.2-eks-ecaa3a6 (400), v1.32.2-eks-ecaa3a6 (400), 2 more; \
                 containerd 2.1.4 (2 000)"
            ]
        );
    }

    #[test]
    fn colour_shows_the_verdict() {
        let report = report(2);
        let view = NodesView {
            fleet: fleet(&report),
            beyond_limit: 0,
            wide: false,
            terminal: Some((24, 80)),
            has_limit: false,
        };
        let lines = table(&report, &view, Style { headers: true, color: true }).unwrap();
        let at = lines.iter().position(|line| line.text().starts_with("ip-10")).unwrap();
        let (red, plain) = (lines[at].text(), lines[at + 1].text());
        assert_eq!((&lines[at], &lines[at + 1]), (&Line::colored("31", red), &Line::from(plain)));
    }
}
