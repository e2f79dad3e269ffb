//! Formats the report of `plegctl stacks`: the main finding with its chain of waiters as a tree, then the other
//! findings and the groups of identical goroutines.

use std::io;

use crate::report::plural;
use crate::report::{Confidence, Severity};
use crate::stacks::report::{Finding, StackGroup, StackReport};
use crate::stacks::words;

use crate::cmd::render::health::ScreenStyle;
use crate::cmd::render::page::{Color, Line, Page};
use crate::cmd::render::words::{cut, wrapped};

/// The number of lines of waiters on the screen.
const MAX_WAITERS: usize = 4;

/// The number of frames of a holder on the screen.
const MAX_FRAMES: usize = 3;

/// Prints one screen: the verdict, the chain of waiters and the next steps. The wide style prints everything.
pub fn screen(report: &StackReport, style: ScreenStyle, out: &mut Page<'_>) -> io::Result<()> {
    let columns = match style.terminal {
        terminal if style.wide => terminal.map_or(usize::MAX, |(_, columns)| columns),
        _ => style.columns(),
    };
    let lines_of = |texts: &[String]| -> Vec<String> {
        texts.iter().flat_map(|text| wrapped(text, columns, "       ")).collect()
    };
    let head = lines_of(&[headline(report)]);
    for (number, line) in head.iter().enumerate() {
        out.colored(if number == 0 { color(report) } else { "" }, line)?;
    }
    if style.wide {
        let rest = Page::lines_of(out.style(), |page| everything(report, page))?;
        return lines_of(&rest.iter().map(Line::text).collect::<Vec<_>>())
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"));
    }
    let mut parts = vec![Vec::new(); 5];
    if let [chain, steps, facts, others, last] = parts.as_mut_slice() {
        if let Some(primary) = &report.primary {
            let tree = Page::lines_of(out.style(), |page| tree(primary, false, page))?;
            *chain = tree.iter().map(|line| cut(&line.text(), columns)).collect();
            *steps = lines_of(&steps_of(primary));
            *facts = lines_of(&evidence_of(primary));
        }
        let rest = report.findings.iter().skip(1).map(|finding| format!("also:  {}", title_of(finding)));
        *others = rest.map(|line| cut(&line, columns)).collect();
        *last = lines_of(&notes(report));
    }
    let room = style.lines().saturating_sub(head.len() + 1);
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
    for line in chain_facts_steps.flatten() {
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
    let explain = report.primary.as_ref().map(|primary| format!("; plegctl explain {}", primary.id));
    format!("with -o wide: {}{}", parts.join(", "), explain.unwrap_or_default())
}

/// Prints the whole report without its first line.
fn everything(report: &StackReport, out: &mut Page<'_>) -> io::Result<()> {
    if let Some(primary) = &report.primary {
        tree(primary, true, out)?;
        let lines = evidence_of(primary).into_iter().chain(steps_of(primary));
        lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if !primary.threads.is_empty() {
            writeln!(out, "see:   {}", primary.threads.join(", "))?;
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
    format!("{} {} ({})", finding.id, finding.title, finding.confidence.as_str())
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
        format!(
            "{}: {} of {}{release}{taken}{lost}",
            dump.source,
            plural(dump.goroutines, "goroutine"),
            dump.daemon.as_str()
        )
    });
    let limits = report.limits.iter().map(|limit| format!("note: {limit}"));
    limits.chain(dumps).collect()
}

/// Formats the verdict.
fn headline(report: &StackReport) -> String {
    let summary = &report.summary;
    match &report.primary {
        None => summary.clone(),
        Some(primary) => format!("{summary} ({}, {})", primary.id, primary.confidence.as_str()),
    }
}

/// Returns the colour of the verdict.
fn color(report: &StackReport) -> Color {
    match report.primary.as_ref().map(|primary| primary.severity) {
        None => "",
        Some(Severity::Critical | Severity::Error) => "31;1",
        Some(Severity::Warning) => "33;1",
        _ => "1",
    }
}

/// Prints the waiters, below them the holder, and at the end what the holder waits for.
fn tree(finding: &Finding, wide: bool, out: &mut Page<'_>) -> io::Result<()> {
    let chain = &finding.chain;
    let shown = if wide { usize::MAX } else { MAX_WAITERS };
    for waiters in chain.behind.iter().take(shown) {
        let call = waiters.call.as_deref().unwrap_or("(no CRI call)");
        writeln!(out, "  {:>4} {}  at {}", waiters.count, call, waiters.at)?;
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
    writeln!(out, "{lead}{who}{more}{call}")?;
    let frames = if wide { usize::MAX } else { MAX_FRAMES };
    for frame in chain.root_frames.iter().take(frames).rev() {
        writeln!(out, "       {frame}")?;
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
        writeln!(out, "       for {}", named.join(", "))?;
    }
    let target = &holder.waits_for;
    let mut details = Vec::new();
    details.extend(target.pid.map(|pid| format!("pid {pid}")));
    details.extend(target.path.clone());
    details.extend(target.state.clone());
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    if !chain.target.is_empty() {
        writeln!(out, "       └─ waits for {}{details}", chain.target)?;
    }
    Ok(())
}

/// Formats the evidence of a finding.
fn evidence_of(finding: &Finding) -> Vec<String> {
    let mut lines = Vec::new();
    if !finding.chain.hangs.is_empty() {
        lines.push(format!("hangs: {}", finding.chain.hangs));
    }
    lines.extend(finding.evidence.iter().map(|why| format!("why:   {why}")));
    if finding.confidence == Confidence::Possible && !finding.chain.compared {
        lines.push(
            "       a single dump proves nothing: a busy daemon looks like this for milliseconds".to_owned(),
        );
    }
    lines
}

/// Formats what to do next.
fn steps_of(finding: &Finding) -> Vec<String> {
    finding.next.iter().map(|act| format!("next:  {act}")).collect()
}

/// Prints the groups of identical goroutines.
fn groups(groups: &[StackGroup], out: &mut Page<'_>) -> io::Result<()> {
    if !groups.is_empty() {
        writeln!(out, "goroutines (identical ones grouped):")?;
    }
    for group in groups {
        let age = words::waited(group.waited_seconds, false);
        let state = if group.state.is_empty() { String::new() } else { format!("[{}{age}] ", group.state) };
        writeln!(out, "  {:>4} {}{}", group.count, state, group.frames.join(" < "))?;
    }
    Ok(())
}
