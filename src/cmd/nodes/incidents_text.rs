//! Formats the report of `plegctl nodes --incidents`: one paragraph for each group of incidents, the largest first.

use std::io;

use crate::clock::Wall;
use crate::cmd::render::page::Page;
use crate::cmd::render::words::grouped;
use crate::fleet::{FleetIncidents, IncidentGroup, SharedFact};

/// The number of nodes that a group names, unless the output is wide.
const MAX_NAMES: usize = 6;

/// Prints the groups, and then of how many nodes nothing is known.
pub fn incidents(report: &FleetIncidents, is_wide: bool, out: &mut Page<'_>) -> io::Result<()> {
    for group in &report.groups {
        self::group(group, is_wide, out)?;
    }
    let counts = &report.counts;
    let mut words = vec![format!(
        "{} of {} had incidents since {}",
        grouped(counts.with_incidents),
        nodes(counts.nodes),
        minute(report.from)
    )];
    if counts.no_recorder > 0 {
        words.push(format!("{} have no recorder", grouped(counts.no_recorder)));
    }
    if counts.no_answer > 0 {
        words.push(format!("the recorders of {} gave no answer", nodes(counts.no_answer)));
    }
    writeln!(out, "{}", words.join("; "))?;
    let unanswered = report.not_answered.iter().take(if is_wide { usize::MAX } else { 0 });
    for node in unanswered {
        writeln!(out, "  {}: {}", node.node, node.why)?;
    }
    Ok(())
}

/// Formats a group, such as `14 nodes, D02 ListContainers does not answer; since 2026-11-21 02:10 UTC, 3 still open`.
fn group(group: &IncidentGroup, is_wide: bool, out: &mut Page<'_>) -> io::Result<()> {
    let cause = match (&group.id, &group.title) {
        (Some(id), Some(title)) => format!("{id} {title}"),
        (Some(id), None) => id.clone(),
        (None, _) => "without a finding".to_owned(),
    };
    let count = u64::try_from(group.nodes.len()).unwrap_or(u64::MAX);
    let mut line = format!("{}, {cause}; since {}", nodes(count), minute(group.from));
    match group.open {
        0 => line.extend(group.to.map(|to| format!(", over since {}", minute(to)))),
        open => line.extend([", ", &grouped(open), " still open"]),
    }
    out.colored(if group.open > 0 { "31" } else { "" }, line)?;
    if !group.shared.is_empty() {
        let facts: Vec<String> = group.shared.iter().map(fact).collect();
        let all = if count == 1 { "it has" } else { "in all" };
        writeln!(out, "  {all}: {}", facts.join(", "))?;
    }
    if is_wide {
        for node in &group.nodes {
            let words = [&node.pod, &node.container, &node.image, &node.runtime, &node.kernel, &node.pool];
            let known: Vec<_> = words.into_iter().flatten().map(String::as_str).collect();
            let open = if node.open { " (open)" } else { "" };
            writeln!(out, "  {} {}{open} {}", node.name, minute(node.from), known.join(", "))?;
        }
    } else {
        let names = group.nodes.iter().take(MAX_NAMES);
        let mut names: Vec<String> = names.map(|node| node.name.clone()).collect();
        let others = group.nodes.len().saturating_sub(MAX_NAMES);
        if others > 0 {
            names.push(format!("{others} more"));
        }
        writeln!(out, "  {}", names.join(", "))?;
    }
    writeln!(out)
}

/// Formats what all nodes share, and on how many other nodes the same is found.
fn fact(fact: &SharedFact) -> String {
    let value = &fact.value;
    let what = match fact.what {
        "runtime" => String::new(),
        "owner" => "waits for ".to_owned(),
        what => format!("{what} "),
    };
    let others = match fact.other_nodes {
        None => String::new(),
        Some(0) => " (on no other node)".to_owned(),
        Some(1) => " (also on 1 other node)".to_owned(),
        Some(others) => format!(" (also on {} other nodes)", grouped(others)),
    };
    format!("{what}{value}{others}")
}

fn nodes(count: u64) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{} nodes", grouped(count)) }
}

/// Formats a time to the minute: `2026-11-21 02:10 UTC`.
fn minute(time: Wall) -> String {
    let text = time.to_string();
    format!("{} {} UTC", text.get(..10).unwrap_or_default(), text.get(11..16).unwrap_or_default())
}
