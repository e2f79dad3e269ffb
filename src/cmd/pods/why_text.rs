//! Formats the report of `plegctl pods --why` as text: the answer in the first line, then what keeps the pod from ending or from
//! starting with its proof and the next steps. The short form fits on a screen; `-o wide` has everything.

use std::io;

use crate::cmd::render::health::step_lines;
use crate::cmd::render::page::Page;
use crate::cmd::render::watch::seconds_of_day;
use crate::cmd::render::words::{cut, elapsed, wrapped};
use crate::diagnosis::pod_holders::report::{PodHold, PodHolder, PodWhy};
use crate::report::{Step, plural};

/// The longest line.
const COLUMNS: usize = 100;
/// The most lines of the short form.
const LINES: usize = 24;
/// The most lines of evidence and of steps of the first holder in the short form.
const EVIDENCE_LINES: usize = 7;
const STEP_LINES: usize = 9;

/// Prints the pod's name, for a shell loop.
pub fn name(report: &PodWhy, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out, "{}", report.pod)
}

/// Prints the report.
pub fn screen(report: &PodWhy, wide: bool, out: &mut Page<'_>) -> io::Result<()> {
    let lines = if wide { all(report) } else { short(report) };
    let code = match report.state {
        PodHold::Held | PodHold::NotStarting => "1;31",
        PodHold::InGrace | PodHold::Starting => "33",
        PodHold::Free | PodHold::NotDeleted => "32",
    };
    let sentence = wrapped(&report.summary, COLUMNS, "  ");
    sentence.into_iter().try_for_each(|line| out.colored(code, line))?;
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Returns the lines below the first sentence.
fn short(report: &PodWhy) -> Vec<String> {
    let room = LINES - wrapped(&report.summary, COLUMNS, "  ").len();
    let mut lines = vec![facts(report)];
    if let Some(first) = report.holders.first() {
        lines.push(format!("WHY ({}, {})", first.kind, first.confidence));
        lines.extend(limited(texts(&first.evidence), EVIDENCE_LINES));
        lines.push("NEXT".to_owned());
        lines.extend(limited(steps(&first.steps), STEP_LINES));
    }
    let mut end = Vec::new();
    let others: Vec<String> = report.holders.iter().skip(1).map(title).collect();
    if !others.is_empty() {
        end.push("ALSO".to_owned());
        end.extend(others.iter().take(2).map(|other| cut(&format!("  {other}"), COLUMNS)));
    }
    let skipped: Vec<&str> = report.not_checked.iter().map(|skipped| skipped.what.as_str()).collect();
    if !skipped.is_empty() {
        end.push(cut(&format!("not checked: {}", skipped.join("; ")), COLUMNS));
    }
    if report.holders.len() > 1 || !skipped.is_empty() {
        end.push("-o wide shows everything".to_owned());
    }
    lines.truncate(room.saturating_sub(end.len()));
    lines.extend(end);
    lines
}

fn all(report: &PodWhy) -> Vec<String> {
    let mut lines = vec![facts(report), format!("  uid {}", report.pod.uid)];
    for holder in &report.holders {
        lines.push(String::new());
        lines.extend(wrapped(&title(holder), COLUMNS, "  "));
        lines.extend(texts(&holder.evidence));
        lines.extend(holder.path.as_ref().map(|path| format!("  path: {path}")));
        lines.push("  next:".to_owned());
        lines.extend(steps(&holder.steps));
    }
    if !report.not_checked.is_empty() {
        lines.extend([String::new(), "not checked:".to_owned()]);
        let texts = report.not_checked.iter().map(|skipped| format!("  {}: {}", skipped.what, skipped.why));
        lines.extend(texts.flat_map(|text| wrapped(&text, COLUMNS, "    ")));
    }
    lines
}

/// Formats the deletion, the grace period and the finalizers in one line.
fn facts(report: &PodWhy) -> String {
    let mut parts = Vec::new();
    if let Some(at) = report.deletion_at {
        let grace = report.grace_seconds.unwrap_or(0);
        let time = seconds_of_day(at);
        let (now, is_over) = (report.taken_at, report.taken_at > at);
        let away = elapsed(if is_over { now.duration_since(at) } else { at.duration_since(now) });
        parts.push(if is_over {
            format!("its grace period of {grace} s ended {away} ago ({time} UTC)")
        } else {
            format!("its grace period of {grace} s ends in {away} ({time} UTC)")
        });
    }
    parts.push(match report.finalizers.as_slice() {
        [] if report.deletion_at.is_none() => format!("uid {}", report.pod.uid),
        [] => "no finalizer".to_owned(),
        [one] => format!("finalizer {one}"),
        several => plural(several.len(), "finalizer"),
    });
    cut(&format!("  {}", parts.join(", ")), COLUMNS)
}

fn title(holder: &PodHolder) -> String {
    format!("{} ({}, {})", holder.title, holder.kind, holder.confidence)
}

fn texts(evidence: &[String]) -> Vec<String> {
    evidence.iter().flat_map(|text| wrapped(&format!("  {text}"), COLUMNS, "    ")).collect()
}

fn steps(steps: &[Step]) -> Vec<String> {
    steps.iter().flat_map(|step| step_lines(step, COLUMNS)).collect()
}

fn limited(mut lines: Vec<String>, most: usize) -> Vec<String> {
    lines.truncate(most);
    lines
}
