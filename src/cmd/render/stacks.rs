//! Formats the report of `plegctl stacks`: the main finding with its chain of waiters as a tree, then the other
//! findings and the groups of identical goroutines.

use std::io::{self, Write};

use crate::report::escape::escaped;
use crate::report::plural;
use crate::report::{Confidence, Severity};
use crate::stacks::report::{Finding, StackGroup, StackReport};
use crate::stacks::words;

use super::Style;
use super::words::{cut, wrapped};

/// The number of lines of waiters on the screen.
const MAX_WAITERS: usize = 4;

/// The number of frames of a holder on the screen.
const MAX_FRAMES: usize = 3;

/// The largest number of lines and columns of the screen.
const LARGEST: (usize, usize) = (24, 100);

/// Prints one screen: the verdict, the chain of waiters and the next steps. With `wide`, prints everything.
pub fn screen(
    report: &StackReport,
    wide: bool,
    terminal: Option<(usize, usize)>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if wide {
        return everything(report, style, out);
    }
    let (lines, columns) = terminal
        .map_or(LARGEST, |(lines, columns)| (lines.saturating_sub(1).clamp(12, 24), columns.clamp(40, 100)));
    let lines_of = |texts: &[String]| -> Vec<String> {
        texts.iter().flat_map(|text| wrapped(text, columns, "       ")).collect()
    };
    let mut head = lines_of(&[headline(report)]);
    if let Some(first) = head.first_mut() {
        *first = painted(report, style, first);
    }
    let mut parts = vec![Vec::new(); 5];
    if let [chain, steps, facts, others, last] = parts.as_mut_slice() {
        if let Some(primary) = &report.primary {
            let mut text = Vec::new();
            tree(primary, false, &mut text)?;
            *chain = String::from_utf8_lossy(&text).lines().map(|line| cut(line, columns)).collect();
            *steps = lines_of(&steps_of(primary));
            *facts = lines_of(&evidence_of(primary));
        }
        let rest = report.findings.iter().skip(1).map(|finding| format!("also:  {}", title_of(finding)));
        *others = rest.map(|line| cut(&line, columns)).collect();
        *last = lines_of(&notes(report));
    }
    let room = lines.saturating_sub(head.len() + 1);
    let all: usize = parts.iter().map(Vec::len).sum();
    while parts.iter().map(Vec::len).sum::<usize>() > room {
        // The notes are left out first, the chain and the steps last.
        let is_longer =
            |at: &usize| parts.get(*at).is_some_and(|part| part.len() > if *at == 4 { 0 } else { 2 });
        let at = [4, 2, 3, 1].into_iter().find(is_longer).unwrap_or(0);
        let Some(part) = parts.get_mut(at).filter(|part| !part.is_empty()) else { break };
        part.pop();
    }
    let left_out = all - parts.iter().map(Vec::len).sum::<usize>();
    let chain_facts_steps = [0, 2, 1, 3, 4].into_iter().filter_map(|at| parts.get(at));
    for line in head.iter().chain(chain_facts_steps.flatten()) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", cut(&footer(report, left_out), columns))
}

/// Formats what the screen does not show.
fn footer(report: &StackReport, left_out: usize) -> String {
    let mut parts = Vec::new();
    if left_out > 0 {
        parts.push(plural(left_out, "more line"));
    }
    parts.push(format!("{} of goroutines", plural(report.groups.len(), "group")));
    let explain =
        report.primary.as_ref().map(|primary| format!("; plegctl explain {}", escaped(&primary.id)));
    format!("with -o wide: {}{}", parts.join(", "), explain.unwrap_or_default())
}

/// Prints the whole report.
fn everything(report: &StackReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", painted(report, style, &headline(report)))?;
    if let Some(primary) = &report.primary {
        tree(primary, true, out)?;
        let lines = evidence_of(primary).into_iter().chain(steps_of(primary));
        lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if !primary.threads.is_empty() {
            writeln!(out, "see:   {}", escaped(&primary.threads.join(", ")))?;
        }
    }
    let others: Vec<&Finding> = report.findings.iter().skip(1).collect();
    if !others.is_empty() {
        writeln!(out, "also seen:")?;
        for finding in others {
            writeln!(out, "  {}", title_of(finding))?;
            tree(finding, true, out)?;
        }
    }
    groups(&report.groups, out)?;
    notes(report).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Formats the id, the title and the confidence of a finding.
fn title_of(finding: &Finding) -> String {
    let (id, title) = (escaped(&finding.id), escaped(&finding.title));
    format!("{id} {title} ({})", finding.confidence.as_str())
}

/// Formats the limits of the dumps, and one line for each dump.
fn notes(report: &StackReport) -> Vec<String> {
    let dumps = report.dumps.iter().map(|dump| {
        let release = dump.go_version.as_deref().map_or_else(String::new, |release| format!(", {release}"));
        let taken = dump.taken_at.as_deref().map_or_else(String::new, |at| format!(", taken {at}"));
        let lost = match dump.not_understood {
            0 => String::new(),
            lines => format!(", {} not understood", plural(lines, "line")),
        };
        let text = format!(
            "{}: {} of {}{release}{taken}{lost}",
            dump.source,
            plural(dump.goroutines, "goroutine"),
            dump.daemon.as_str()
        );
        escaped(&text).into_owned()
    });
    let limits = report.limits.iter().map(|limit| format!("note: {}", escaped(limit)));
    limits.chain(dumps).collect()
}

/// Formats the verdict.
fn headline(report: &StackReport) -> String {
    let summary = escaped(&report.summary);
    match &report.primary {
        None => summary.into_owned(),
        Some(primary) => format!("{summary} ({}, {})", escaped(&primary.id), primary.confidence.as_str()),
    }
}

/// Adds the colour of the verdict.
fn painted(report: &StackReport, style: Style, text: &str) -> String {
    let color = match report.primary.as_ref().map(|primary| primary.severity) {
        None => return text.to_owned(),
        Some(Severity::Critical | Severity::Error) => "31;1",
        Some(Severity::Warning) => "33;1",
        _ => "1",
    };
    if style.color { format!("\u{1b}[{color}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Prints the waiters, below them the holder, and at the end what the holder waits for.
fn tree(finding: &Finding, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let chain = &finding.chain;
    let shown = if wide { usize::MAX } else { MAX_WAITERS };
    for waiters in chain.behind.iter().take(shown) {
        let call = waiters.call.as_deref().unwrap_or("(no CRI call)");
        writeln!(out, "  {:>4} {}  at {}", waiters.count, escaped(call), escaped(&waiters.at))?;
    }
    if chain.behind.len() > shown {
        writeln!(out, "       and {}", plural(chain.behind.len() - shown, "more place"))?;
    }
    let Some(holder) = &finding.holder else { return Ok(()) };
    let who = holder.goroutine.map_or_else(|| "goroutines".to_owned(), |id| format!("goroutine {id}"));
    let call = chain.root_call.as_deref().map_or_else(String::new, |call| format!("  {call}"));
    let lead = if chain.behind.is_empty() { "  " } else { "  └─ " };
    let more = match chain.root_count {
        0 | 1 => String::new(),
        count => format!(" and {} like it", count - 1),
    };
    writeln!(out, "{}", escaped(&format!("{lead}{who}{more}{call}")))?;
    let frames = if wide { usize::MAX } else { MAX_FRAMES };
    for frame in chain.root_frames.iter().take(frames).rev() {
        writeln!(out, "       {}", escaped(frame))?;
    }
    let mut named = Vec::new();
    if let Some(pod) = &holder.pod {
        named.push(format!("pod {pod}"));
    }
    if let Some(container) = &holder.container {
        named.push(if container.name.is_empty() {
            format!("container {}", container.id)
        } else {
            format!("container {} {}", container.name, container.id)
        });
    }
    if !named.is_empty() {
        writeln!(out, "       for {}", escaped(&named.join(", ")))?;
    }
    let target = &holder.waits_for;
    let mut details = Vec::new();
    details.extend(target.pid.map(|pid| format!("pid {pid}")));
    details.extend(target.path.clone());
    details.extend(target.state.clone());
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    if !chain.target.is_empty() {
        writeln!(out, "{}", escaped(&format!("       └─ waits for {}{details}", chain.target)))?;
    }
    Ok(())
}

/// Formats the evidence of a finding.
fn evidence_of(finding: &Finding) -> Vec<String> {
    let mut lines = Vec::new();
    if !finding.chain.hangs.is_empty() {
        lines.push(format!("hangs: {}", escaped(&finding.chain.hangs)));
    }
    lines.extend(finding.evidence.iter().map(|why| format!("why:   {}", escaped(why))));
    if finding.confidence == Confidence::Possible && !finding.chain.compared {
        lines.push(
            "       a single dump proves nothing: a busy daemon looks like this for milliseconds".to_owned(),
        );
    }
    lines
}

/// Formats what to do next.
fn steps_of(finding: &Finding) -> Vec<String> {
    finding.next.iter().map(|act| format!("next:  {}", escaped(act))).collect()
}

/// Prints the groups of identical goroutines.
fn groups(groups: &[StackGroup], out: &mut dyn Write) -> io::Result<()> {
    if !groups.is_empty() {
        writeln!(out, "goroutines (identical ones grouped):")?;
    }
    for group in groups {
        let age = words::waited(group.waited_seconds, false);
        let state = if group.state.is_empty() { String::new() } else { format!("[{}{age}] ", group.state) };
        writeln!(out, "  {:>4} {}{}", group.count, escaped(&state), escaped(&group.frames.join(" < ")))?;
    }
    Ok(())
}
