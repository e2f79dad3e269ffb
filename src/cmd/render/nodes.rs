//! Formats the nodes of a cluster as text.

use std::io::{self, Write};
use std::time::Duration;

use super::Style;
use super::table;
use super::words::{NONE, took};
use crate::fleet::{NodeReport, NodeVerdict, NodesReport, QuantileReport};
use crate::report::escape::escaped;

/// The number of characters of a reason in the narrow table; the wide table has all.
const NARROW: usize = 90;

/// Prints one row for each node, the worst first, then the number of nodes by verdict.
pub fn table(report: &NodesReport, wide: bool, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut headers =
        vec!["NAME", "VERDICT", "AGE", "P50", "P99", "RECENT", "DISCARDED", "ERRORS", "VERSION"];
    if wide {
        headers.extend(["RELISTS", "TOOK"]);
    }
    headers.push("WHY");
    table::write(out, style, &headers, report.nodes.iter().map(|node| cells(node, wide)))?;
    writeln!(out)?;
    let counts: Vec<String> = NodeVerdict::ALL
        .into_iter()
        .filter(|verdict| report.counts.of(*verdict) > 0)
        .map(|verdict| format!("{} {}", report.counts.of(verdict), verdict.as_str()))
        .collect();
    let nodes =
        if report.counts.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", report.counts.nodes) };
    if counts.is_empty() {
        return writeln!(out, "{nodes}");
    }
    writeln!(out, "{nodes}: {}", counts.join(", "))
}

fn cells(node: &NodeReport, wide: bool) -> Vec<String> {
    let relists = node.relists.as_ref();
    let count = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.0}"));
    let why = node.why.as_deref().map_or_else(
        || NONE.to_owned(),
        |why| {
            let why = escaped(why);
            if wide || why.chars().count() <= NARROW {
                return why.into_owned();
            }
            why.chars().take(NARROW - 1).chain(['…']).collect()
        },
    );
    let mut cells = vec![
        escaped(&node.name).into_owned(),
        node.verdict.as_str().to_owned(),
        node.pleg_age_seconds.map_or_else(|| NONE.to_owned(), |age| format!("{age:.0}s")),
        quantile(relists.and_then(|relists| relists.p50)),
        quantile(relists.and_then(|relists| relists.p99)),
        quantile(relists.and_then(|relists| relists.recent_p99)),
        count(node.discarded_events),
        count(node.runtime_errors),
        node.kubelet_version
            .as_deref()
            .map_or_else(|| NONE.to_owned(), |version| escaped(version).into_owned()),
    ];
    if wide {
        cells.extend([count(relists.map(|relists| relists.count)), took(node.took_seconds.duration())]);
    }
    cells.push(why);
    cells
}

fn quantile(quantile: Option<QuantileReport>) -> String {
    let Some(quantile) = quantile else { return NONE.to_owned() };
    let text = took(Duration::try_from_secs_f64(quantile.seconds).unwrap_or_default());
    if quantile.beyond { format!(">{text}") } else { text }
}
