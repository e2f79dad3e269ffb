//! Formats the report of `plegctl pods --why` as text: the answer in the first line, then what keeps the pod from ending or from
//! starting with its proof and the next steps. The short form fits on a screen; `-o wide` has everything.

use std::io;

use crate::cmd::render::health::{Part, ScreenStyle, fit, print_parts, step_lines};
use crate::cmd::render::page::Page;
use crate::cmd::render::watch::seconds_of_day;
use crate::cmd::render::words::{cut, elapsed, wrapped};
use crate::diagnosis::pod_holders::report::{PodHold, PodHolder, PodWhy};
use crate::report::{Step, plural};

/// Prints the pod's name, for a shell loop.
pub fn name(report: &PodWhy, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out, "{}", report.pod)
}

/// Prints the report.
pub fn screen(report: &PodWhy, out: &mut Page<'_>, style: ScreenStyle) -> io::Result<()> {
    let code = match report.state {
        PodHold::Held | PodHold::NotStarting => "1;31",
        PodHold::InGrace | PodHold::Starting | PodHold::Unknown => "33",
        PodHold::Free | PodHold::NotDeleted => "32",
    };
    let sentence = wrapped(&report.summary, style.columns(), "  ");
    sentence.iter().try_for_each(|line| out.colored(code, line))?;
    if style.wide {
        return all(report, style).iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    short(report, out, style, style.lines().saturating_sub(sentence.len()))
}

/// Prints what is below the first sentence in this number of lines.
fn short(report: &PodWhy, out: &mut Page<'_>, style: ScreenStyle, room: usize) -> io::Result<()> {
    writeln!(out, "{}", cut(&facts(report).unwrap_or_else(|| uid(report)), style.columns()))?;
    let mut parts = Vec::new();
    if let Some(first) = report.holders.first() {
        let why = format!("WHY ({}, {})", first.kind, first.confidence);
        parts.push(Part::new(why, first.evidence.iter().cloned(), 7, style));
        parts.push(Part::of_steps("KEEP BEFORE ANY CHANGE", &report.keep, 5, style));
        parts.push(Part::of_steps("NEXT", &first.steps, 9, style).with_bonus(7));
    }
    parts.push(Part::new("ALSO", report.holders.iter().skip(1).map(title), 2, style));
    parts.retain(|part| part.shown > 0);
    let mut end = Vec::new();
    let skipped: Vec<&str> = report.not_checked.iter().map(|skipped| skipped.what.as_str()).collect();
    if !skipped.is_empty() {
        end.push(cut(&format!("not checked: {}", skipped.join("; ")), style.columns()));
    }
    if report.holders.len() > 1 || !skipped.is_empty() {
        end.push("-o wide shows everything".to_owned());
    }
    let room = room.saturating_sub(1 + parts.len() + end.len());
    fit(&mut parts, room);
    print_parts(&parts, out, style)?;
    end.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn all(report: &PodWhy, style: ScreenStyle) -> Vec<String> {
    let columns = style.columns();
    let steps = |steps: &[Step]| steps.iter().flat_map(|step| step_lines(step, columns)).collect::<Vec<_>>();
    let mut lines: Vec<String> = facts(report).into_iter().chain([uid(report)]).collect();
    if !report.keep.is_empty() {
        lines.extend([String::new(), "keep before any change:".to_owned()]);
        lines.extend(steps(&report.keep));
    }
    for holder in &report.holders {
        lines.push(String::new());
        lines.extend(wrapped(&title(holder), columns, "  "));
        lines.extend(holder.evidence.iter().flat_map(|text| wrapped(&format!("  {text}"), columns, "    ")));
        lines.extend(holder.path.as_ref().map(|path| format!("  path: {path}")));
        lines.push("  next:".to_owned());
        lines.extend(steps(&holder.steps));
    }
    if !report.not_checked.is_empty() {
        lines.extend([String::new(), "not checked:".to_owned()]);
        let texts = report.not_checked.iter().map(|skipped| format!("  {}: {}", skipped.what, skipped.why));
        lines.extend(texts.flat_map(|text| wrapped(&text, columns, "    ")));
    }
    lines
}

fn uid(report: &PodWhy) -> String {
    format!("  uid {}", report.pod.uid)
}

/// Formats the deletion, the grace period and the finalizers in one line; `None` if nothing of it is known.
fn facts(report: &PodWhy) -> Option<String> {
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
    match report.finalizers.as_slice() {
        [] if report.deletion_at.is_none() => return None,
        [] => parts.push("no finalizer".to_owned()),
        [one] => parts.push(format!("finalizer {one}")),
        several => parts.push(plural(several.len(), "finalizer")),
    }
    Some(format!("  {}", parts.join(", ")))
}

fn title(holder: &PodHolder) -> String {
    format!("{} ({}, {})", holder.title, holder.kind, holder.confidence)
}
