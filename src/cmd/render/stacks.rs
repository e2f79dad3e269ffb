//! Formats the findings of a goroutine dump: the chain of waiters as a sentence and as a tree, the rest in
//! short.

use std::io::{self, Write};

use crate::report::escape::escaped;
use crate::report::{Confidence, Severity};
use crate::stacks::report::{Finding, StackGroup, StackReport};

use super::Style;

/// The number of lines for waiters.
const MAX_WAITERS: usize = 6;

/// The number of frames of a holder.
const MAX_FRAMES: usize = 8;

/// The number of groups on the screen, and of frames in each.
const MAX_GROUPS: usize = 10;
const GROUP_FRAMES: usize = 3;

/// Prints one screen, or everything.
pub fn screen(report: &StackReport, wide: bool, style: Style, out: &mut dyn Write) -> io::Result<()> {
    headline(report, style, out)?;
    if let Some(primary) = &report.primary {
        tree(primary, wide, out)?;
        acts(primary, wide, out)?;
    }
    let others: Vec<&Finding> = report.findings.iter().skip(1).collect();
    if !others.is_empty() {
        writeln!(out, "also seen:")?;
        for finding in others {
            writeln!(
                out,
                "  {} {} ({})",
                escaped(&finding.id),
                escaped(&finding.title),
                finding.confidence.as_str()
            )?;
            if wide {
                tree(finding, wide, out)?;
            }
        }
    }
    groups(&report.groups, wide, out)?;
    for dump in &report.dumps {
        let release = dump.go_version.as_deref().map_or_else(String::new, |release| format!(", {release}"));
        let taken = dump.taken_at.as_deref().map_or_else(String::new, |at| format!(", taken {at}"));
        let lost = match dump.not_understood {
            0 => String::new(),
            lines => format!(", {lines} lines not understood"),
        };
        let text = format!(
            "{}: {} goroutines of {}{release}{taken}{lost}",
            dump.source,
            dump.goroutines,
            dump.daemon.as_str()
        );
        writeln!(out, "{}", escaped(&text))?;
    }
    for limit in &report.limits {
        writeln!(out, "note: {}", escaped(limit))?;
    }
    Ok(())
}

fn headline(report: &StackReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let text = match &report.primary {
        None => return writeln!(out, "{}", escaped(&report.summary)),
        Some(primary) => {
            format!(
                "{} ({}, {})",
                escaped(&report.summary),
                escaped(&primary.id),
                primary.confidence.as_str()
            )
        }
    };
    let color = match report.primary.as_ref().map(|primary| (primary.severity, primary.confidence)) {
        Some((Severity::Critical | Severity::Error, _)) => "31;1",
        Some((Severity::Warning, _)) => "33;1",
        _ => "1",
    };
    if style.color { writeln!(out, "\u{1b}[{color}m{text}\u{1b}[0m") } else { writeln!(out, "{text}") }
}

/// Prints the waiters, below them the holder, and at the end what the holder waits for.
fn tree(finding: &Finding, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let chain = &finding.chain;
    let shown = if wide { usize::MAX } else { MAX_WAITERS };
    for behind in chain.behind.iter().take(shown) {
        let call = behind.call.as_deref().unwrap_or("no call");
        writeln!(out, "  {:>4} {}  at {}", behind.count, escaped(call), escaped(&behind.at))?;
    }
    if chain.behind.len() > shown {
        writeln!(out, "       and {} more places", chain.behind.len() - shown)?;
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
    let on = &holder.waits_for;
    let mut details = Vec::new();
    details.extend(on.pid.map(|pid| format!("pid {pid}")));
    details.extend(on.path.clone());
    details.extend(on.state.clone());
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    if !chain.target.is_empty() {
        writeln!(out, "{}", escaped(&format!("       └─ waits for {}{details}", chain.target)))?;
    }
    Ok(())
}

fn acts(finding: &Finding, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    if !finding.chain.hangs.is_empty() {
        writeln!(out, "hangs: {}", escaped(&finding.chain.hangs))?;
    }
    for why in &finding.evidence {
        writeln!(out, "why:   {}", escaped(why))?;
    }
    if finding.confidence == Confidence::Possible && !finding.chain.compared {
        writeln!(out, "       a single dump proves nothing: a busy daemon looks like this for milliseconds")?;
    }
    for act in &finding.next {
        writeln!(out, "next:  {}", escaped(act))?;
    }
    if wide && !finding.threads.is_empty() {
        writeln!(out, "see:   {}", escaped(&finding.threads.join(", ")))?;
    }
    Ok(())
}

fn groups(groups: &[StackGroup], wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let shown = if wide { usize::MAX } else { MAX_GROUPS };
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "goroutines (identical ones grouped):")?;
    for group in groups.iter().take(shown) {
        let age = group.minutes.map_or_else(String::new, |minutes| format!(" {minutes} min"));
        let state = if group.state.is_empty() { String::new() } else { format!("[{}{age}] ", group.state) };
        let frames: Vec<&str> = group
            .frames
            .iter()
            .map(String::as_str)
            .filter(|frame| !is_plumbing(frame))
            .take(GROUP_FRAMES)
            .collect();
        let frames = if wide || frames.is_empty() { group.frames.join(" < ") } else { frames.join(" < ") };
        writeln!(out, "  {:>4} {}{}", group.count, escaped(&state), escaped(&frames))?;
    }
    if groups.len() > shown {
        writeln!(out, "       and {} more (-o wide)", groups.len() - shown)?;
    }
    Ok(())
}

/// Whether a frame belongs to the Go runtime or to a library, so that it explains nothing.
fn is_plumbing(frame: &str) -> bool {
    ["sync.", "runtime.", "poll.", "syscall.", "os.", "unix."]
        .iter()
        .any(|package| frame.starts_with(package))
}
