//! Formats a health report for a person: the verdict and the culprit in the first line, then the reasons,
//! what to do and what to save. The default fits on one screen; `-o wide` has everything.
//!
//! All text from outside is escaped here; the report itself holds the original.

mod npd;
mod prometheus;
mod wide;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::time::Duration;

pub use self::npd::npd;
pub use self::prometheus::prometheus;
use crate::cmd::render::capture::brief;
use crate::cmd::render::words::{cut, elapsed, wrapped};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Verdict};
use crate::diagnosis::words::plural;
use crate::report::escape::escaped;

/// The longest line, however wide the terminal is, so that it can be pasted into a chat.
const COLUMNS: usize = 100;
/// The number of lines, however high the terminal is.
const LINES: usize = 24;
/// The smallest terminal size that counts as real.
const LEAST: (usize, usize) = (12, 40);

/// The style. Colour carries no meaning of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be written.
    pub color: bool,
    /// Whether everything is shown.
    pub wide: bool,
    /// Lines and columns of the terminal; `None` if it is none.
    pub terminal: Option<(usize, usize)>,
    /// The age of a saved report.
    pub saved: Option<Duration>,
}

#[derive(Clone, Copy)]
enum Tone {
    Good,
    Bad,
    Care,
    Head,
    Faint,
}

impl Style {
    fn paint(self, tone: Tone, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Care => "33",
            Tone::Head => "1",
            Tone::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    fn columns(self) -> usize {
        self.terminal.map_or(COLUMNS, |(_, columns)| columns.max(LEAST.1).min(COLUMNS))
    }

    /// One line of the terminal is left for the next prompt.
    fn lines(self) -> usize {
        self.terminal.map_or(LINES, |(lines, _)| lines.saturating_sub(1).max(LEAST.0).min(LINES))
    }
}

/// Prints the pods that hold something up, once each, for a shell loop.
pub fn names(report: &HealthReport, out: &mut dyn Write) -> io::Result<()> {
    let mut pods: Vec<String> =
        report.culprits.iter().filter_map(|of| Some(of.pod.as_ref()?.to_string())).collect();
    pods.sort_unstable();
    pods.dedup();
    pods.iter().try_for_each(|pod| writeln!(out, "{}", escaped(pod)))
}

/// Prints the report.
pub fn screen(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let mut whole = Vec::new();
    if style.wide {
        head(report, style).iter().try_for_each(|line| writeln!(whole, "{line}"))?;
        wide::sections(report, &mut whole, style)?;
    } else {
        short(report, &mut whole, style)?;
    }
    out.write_all(&whole)?;
    let lines = whole.split(|byte| *byte == b'\n').count();
    if style.terminal.is_some_and(|(rows, _)| lines > rows) {
        // The first line has scrolled away, so the verdict is repeated.
        writeln!(out)?;
        return sentence(report, style).iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    Ok(())
}

/// Formats the verdict and the sentence in as few lines as the width allows.
fn sentence(report: &HealthReport, style: Style) -> Vec<String> {
    let word = report.verdict.as_str().to_uppercase();
    let tone = match report.verdict {
        Verdict::Healthy => Tone::Good,
        Verdict::Degraded | Verdict::Unknown => Tone::Care,
        Verdict::Unhealthy => Tone::Bad,
    };
    // A report of an earlier release has no summary.
    let title = report.primary.as_ref().map_or("", |primary| primary.title.as_str());
    let text = if report.summary.is_empty() { title } else { &report.summary };
    let mut lines = wrapped(&format!("{word}  {}", escaped(text)), style.columns(), "  ");
    if let Some(first) = lines.first_mut()
        && let Some(rest) = first.strip_prefix(&word)
    {
        *first = format!("{}{rest}", style.paint(tone, &word));
    }
    lines
}

/// Formats the sentence, and below it the runtime, the time and the confidence.
fn head(report: &HealthReport, style: Style) -> Vec<String> {
    let mut lines = sentence(report, style);
    if let Some(moment) = &report.moment {
        let at = brief(moment.at);
        let line = match moment.incident {
            Some(number) => format!("as it was at {at}, the worst moment of incident {number}"),
            None => format!("as it was at {at}"),
        };
        lines.extend(wrapped(&line, style.columns(), "  "));
    }
    let mut parts = Vec::new();
    if let Some(age) = style.saved {
        parts.push(format!("SAVED {} ago", elapsed(age)));
    }
    if let Some(primary) = &report.primary {
        parts.push(format!("{} {}", primary.id, primary.confidence.as_str()));
    }
    if !report.node.is_empty() {
        parts.push(escaped(&report.node).into_owned());
    }
    let runtime = match (&report.runtime.name, &report.runtime.version) {
        (Some(name), Some(version)) => format!("{} {}", escaped(name), escaped(version)),
        _ => "runtime unknown".to_owned(),
    };
    parts.push(format!("{runtime} at {}", escaped(&report.runtime.endpoint)));
    let taken = report.taken_at.to_string();
    let moment = taken.get(..19).map_or_else(|| taken.clone(), |text| text.replace('T', " "));
    parts.push(format!("{moment} UTC in {:.1} s", report.duration_seconds));
    lines.push(style.paint(Tone::Faint, &cut(&parts.join(", "), style.columns())));
    lines
}

/// A heading and its lines, already wrapped.
struct Part {
    name: &'static str,
    lines: Vec<String>,
    shown: usize,
}

impl Part {
    fn new(name: &'static str, texts: impl IntoIterator<Item = String>, most: usize, style: Style) -> Self {
        let lines: Vec<String> = texts
            .into_iter()
            .flat_map(|text| wrapped(&format!("  {}", escaped(&text)), style.columns(), "      "))
            .collect();
        let shown = lines.len().min(most);
        Self { name, lines, shown }
    }
}

fn short(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let head = head(report, style);
    let primary = report.primary.as_ref();
    let evidence = primary.map(|primary| primary.evidence.clone()).unwrap_or_default();
    let disagreements = report.kubelet.iter().flat_map(|kubelet| kubelet.disagreements.clone());
    let next = primary.map(|primary| primary.next.clone()).unwrap_or_default();
    let rest: Vec<&HealthFinding> = report.findings.iter().skip(1).collect();
    let sure = rest.iter().filter(|finding| finding.confidence != Confidence::Possible);
    let also =
        sure.map(|finding| format!("{} {}: {}", finding.id, finding.confidence.as_str(), finding.title));
    let not_accepted = report.kubelet.iter().filter_map(|kubelet| kubelet.not_accepted.clone());
    let mut parts = vec![
        Part::new("why", evidence.into_iter().chain(disagreements), 7, style),
        Part::new("do first", next, 6, style),
        Part::new("keep before any restart", report.keep.clone(), 4, style),
        Part::new("also", also, 4, style),
        Part::new("the kubelet was not asked", not_accepted, 2, style),
    ];
    parts.retain(|part| !part.lines.is_empty());
    let foot = |hidden| wrapped(&more(report, primary, hidden), style.columns(), "  ");
    let room = style.lines().saturating_sub(head.len() + parts.len());
    let mut end = foot(0);
    // A note on the hidden lines is needed, which may take one more line.
    loop {
        let room = room.saturating_sub(end.len());
        while parts.iter().map(|part| part.shown).sum::<usize>() > room {
            let Some(longest) = parts.iter_mut().max_by_key(|part| part.shown).filter(|part| part.shown > 1)
            else {
                break;
            };
            longest.shown -= 1;
        }
        let longer = foot(parts.iter().map(|part| part.lines.len() - part.shown).sum());
        let fits = longer.len() <= end.len();
        end = longer;
        if fits {
            break;
        }
    }
    head.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    for part in &parts {
        writeln!(out, "{}", style.paint(Tone::Head, part.name))?;
        part.lines.iter().take(part.shown).try_for_each(|line| writeln!(out, "{line}"))?;
    }
    end.iter().try_for_each(|line| writeln!(out, "{}", style.paint(Tone::Faint, line)))
}

/// Names what is not on the screen, and how to see it.
fn more(report: &HealthReport, primary: Option<&HealthFinding>, hidden: usize) -> String {
    let mut parts = Vec::new();
    if hidden > 0 {
        parts.push(format!("{} of this", plural(hidden, "more line")));
    }
    if report.estimate.is_some() {
        parts.push("the estimate".to_owned());
    }
    parts.push(plural(report.probes.len(), "probe"));
    let possible =
        report.findings.iter().filter(|finding| finding.confidence == Confidence::Possible).count();
    if possible > 0 {
        parts.push(plural(possible, "possible finding"));
    }
    if !report.not_checked.is_empty() {
        parts.push(format!("{} not checked", plural(report.not_checked.len(), "thing")));
    }
    let explain = primary.map(|primary| format!("; what {0} means: plegctl explain {0}", primary.id));
    format!("with -o wide: {}{}", parts.join(", "), explain.unwrap_or_default())
}
