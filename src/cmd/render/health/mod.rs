//! Formats a health report as text: the verdict and the culprit in the first line, then the evidence, what to do and
//! what to save. The default output fits on one screen; `-o wide` has everything.
//!
//! The page escapes all text from the runtime and the node; the report contains the original text.

mod npd;
mod prometheus;
mod steps;
mod wide;

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

pub use self::npd::npd;
pub use self::prometheus::prometheus;
pub(crate) use self::steps::lines as step_lines;
use crate::cmd::render::capture::brief;
use crate::cmd::render::page::{Color, Line, Page};
use crate::cmd::render::words::{cut, elapsed, wrapped};
use crate::diagnosis::facts::{Fact, FactKind};
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::report::{
    Confidence, HealthFinding, HealthReport, KubeletReport, NotChecked, Phase, ReportSource, RuleId,
    SourceKind, SuspectReport, Verdict,
};
use crate::diagnosis::rules::{ConfidenceIsOf, Impact, row};
use crate::report::{Command, Step, plural};

/// The longest line, even on a wider terminal, so that the text can be pasted into a chat.
const COLUMNS: usize = 100;
/// The largest number of lines, even on a higher terminal.
const LINES: usize = 24;
/// The largest number of lines for findings that are only possible.
const MAX_POSSIBLE: usize = 4;
/// The smallest number of lines and columns that the text is fitted to.
const SMALLEST: (usize, usize) = (12, 40);

/// The time after which a node that is `NotReady` loses its pods: the default toleration that the API server adds to each pod
/// (plugin/pkg/admission/defaulttolerationseconds: `--default-not-ready-toleration-seconds`).
const TOLERATED: Duration = Duration::from_secs(300);

/// The heading of what a healthy report is based on.
const LOOKED_AT: &str = "looked at";
/// The heading of the pods for which a call may hang.
const SUSPECTS: &str = "which pod (suspects: the kubelet's goroutines have no names)";
/// The heading of further findings.
const ALSO: &str = "also";

/// The style of the screen. The text without colour has the same information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenStyle {
    /// Whether the whole report is shown (`-o wide`).
    pub wide: bool,
    /// The lines and columns of the terminal; `None` if stdout is no terminal.
    pub terminal: Option<(usize, usize)>,
    /// The age of the report, if it comes from a file.
    pub saved: Option<Duration>,
}

/// The colours of the parts of the text.
const GOOD: Color = "32";
const BAD: Color = "1;31";
const WARNING: Color = "33";
const HEADING: Color = "1";
const DETAIL: Color = "2";

impl ScreenStyle {
    pub(crate) fn columns(self) -> usize {
        self.terminal.map_or(COLUMNS, |(_, columns)| columns.max(SMALLEST.1).min(COLUMNS))
    }

    /// Returns the number of lines to use; one line of the terminal stays free for the next prompt.
    pub(crate) fn lines(self) -> usize {
        self.terminal.map_or(LINES, |(lines, _)| lines.saturating_sub(1).max(SMALLEST.0).min(LINES))
    }
}

/// Prints the pod of each culprit once, for a shell loop.
pub fn names(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    let mut pods: Vec<String> =
        report.culprits.iter().filter_map(|of| Some(of.pod.as_ref()?.to_string())).collect();
    pods.sort();
    pods.dedup();
    pods.iter().try_for_each(|pod| writeln!(out, "{pod}"))
}

/// Prints the report.
pub fn screen(report: &HealthReport, out: &mut Page<'_>, style: ScreenStyle) -> io::Result<()> {
    if style.wide {
        head(report, style).iter().try_for_each(|line| out.line(line))?;
        wide::sections(report, out)?;
    } else {
        short(report, out, style)?;
    }
    if style.terminal.is_some_and(|(rows, _)| out.count() >= rows) {
        // The first line has scrolled away, so the verdict is repeated.
        writeln!(out)?;
        return sentence(report, style).iter().try_for_each(|line| out.line(line));
    }
    Ok(())
}

/// Formats the verdict and the summary, wrapped at the width of the screen.
fn sentence(report: &HealthReport, style: ScreenStyle) -> Vec<Line> {
    let word = report.verdict.as_str().to_uppercase();
    let color = match report.verdict {
        Verdict::Healthy => GOOD,
        Verdict::Degraded | Verdict::Unknown => WARNING,
        Verdict::Unhealthy => BAD,
    };
    let is_partial = report.primary.as_ref().is_some_and(|primary| {
        matches!(primary.facts.first(), Some(Fact(FactKind::NothingFound { kubelet_is_unchecked: true, .. })))
    });
    let limits = if is_partial { " (kubelet and events not looked at)" } else { "" };
    let mut text = format!("{word}{limits}  {}", report.summary);
    // The time of NotReady stays on one line: it is wrapped as one word.
    let at = text.rfind(": NotReady ").filter(|at| text.len() - at < style.columns());
    let time = at.map(|at| text.split_off(at + 2)).unwrap_or_default();
    let word_of_time = time.replace(' ', "_");
    text.push_str(&word_of_time);
    let lines = wrapped(&text, style.columns(), "  ").into_iter();
    let lines = lines.map(|line| line.replace(&word_of_time, &time));
    let painted = |line: String| match line.strip_prefix(&word) {
        Some(rest) => Line::colored(color, &word).and("", rest),
        None => line.into(),
    };
    lines.map(painted).collect()
}

/// Formats the verdict and the summary, and below them the confidence, the node, the runtime and the time.
fn head(report: &HealthReport, style: ScreenStyle) -> Vec<Line> {
    let mut lines = sentence(report, style);
    let plain = |text: &str| wrapped(text, style.columns(), "  ").into_iter().map(Line::from);
    if let Some(moment) = &report.moment {
        let at = brief(moment.time);
        let line = match moment.incident {
            Some(number) => format!("as it was at {at}, the worst moment of incident {number}"),
            None => format!("as it was at {at}"),
        };
        lines.extend(plain(&line));
    }
    if let Some(source) = &report.source {
        lines.extend(plain(&source_line(source, report)));
    }
    // A small terminal has no room for it.
    if let Some(impact) = impact(report).filter(|_| style.lines() >= 20) {
        lines.extend(plain(&impact));
    }
    let mut parts = Vec::new();
    if let Some(age) = style.saved {
        parts.push(format!("SAVED {} ago", elapsed(age)));
    }
    let taken = report.taken_at.to_string();
    let time = taken.get(..19).map_or_else(|| taken.clone(), |text| text.replace('T', " "));
    parts.push(match &report.source {
        None => format!("{time} UTC in {:.1} s", report.duration_seconds),
        Some(_) => format!("{time} UTC"),
    });
    if !report.node.is_empty() {
        parts.push(report.node.clone());
    }
    let runtime = match (&report.runtime.name, &report.runtime.version) {
        (Some(name), Some(version)) => format!("{name} {version}"),
        _ => "runtime unknown".to_owned(),
    };
    match report.runtime.endpoint.as_str() {
        "" => parts.push(runtime),
        endpoint => parts.push(format!("{runtime}, {endpoint}")),
    }
    let detail = wrapped(&parts.join(", "), style.columns(), "  ");
    lines.extend(detail.iter().map(|line| Line::colored(DETAIL, line)));
    lines
}

/// Says what an unhealthy node means for its pods.
fn impact(report: &HealthReport) -> Option<String> {
    let primary = report.primary.as_ref().filter(|_| report.verdict == Verdict::Unhealthy)?;
    let took = Duration::try_from_secs_f64(report.duration_seconds).unwrap_or_default();
    let now = report.taken_at.plus(took);
    let marked = match report.not_ready() {
        Some(NotReady::Since(at)) if at.plus(TOLERATED) <= now => {
            format!("marked for deletion from {}", at.plus(TOLERATED).time_of_day(now))
        }
        _ => "marked for deletion 5m after NotReady".to_owned(),
    };
    Some(match (row(primary.id).impact, primary.phase) {
        (Impact::StaysReady, _) => {
            "impact: the node stays Ready and gets more pods; rollouts and drains wait here".to_owned()
        }
        (Impact::NoKubelet, _) => {
            format!("impact: pods run on; nothing restarts or probes them; {marked}")
        }
        (Impact::NoSync, _) | (Impact::OfRelist | Impact::NoRuntime, Phase::Connect) => {
            format!("impact: pods run on; none starts or ends; {marked}")
        }
        (
            Impact::OfRelist | Impact::NoRuntime,
            Phase::None | Phase::List | Phase::Status | Phase::Kubelet,
        ) => "impact: pods run; once NotReady, none start or end; 5m later marked for deletion".to_owned(),
    })
}

/// Describes the source of a verdict, and how old its parts are.
pub fn source_line(source: &ReportSource, report: &HealthReport) -> String {
    let way = if source.pod.is_some() || source.kind == SourceKind::Kubelet {
        " through the API server"
    } else {
        ""
    };
    let pod = source.pod.as_ref().map(|pod| format!(" {pod}")).unwrap_or_default();
    let mut parts = vec![match source.kind {
        SourceKind::Recorder => format!("source: the recorder{pod}{way}"),
        SourceKind::Kubelet if report.probes.is_empty() => {
            format!("source: the kubelet's /metrics and /configz{way}")
        }
        SourceKind::Kubelet => format!("source: the kubelet's /metrics, /configz and goroutines{way}"),
    }];
    let age = |seconds: f64| elapsed(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let since = source.since.map(|since| {
        let lasted = elapsed(report.taken_at.duration_since(since));
        match source.incident {
            Some(number) => format!("incident {number} since {} ({lasted})", brief(since)),
            None => format!("no incident since {} ({lasted})", brief(since)),
        }
    });
    parts.extend(since);
    parts.extend(source.diagnosis_age_seconds.map(|seconds| format!("diagnosed {} ago", age(seconds))));
    parts.extend(
        source.last_relist_age_seconds.map(|seconds| format!("last relist ended {} ago", age(seconds))),
    );
    parts.extend(source.clock_ahead_seconds.map(|seconds| {
        let way = if seconds < 0.0 { "behind" } else { "ahead of" };
        format!("the node's clock is {} {way} the API server's", age(seconds.abs()))
    }));
    parts.extend(source.no_recorder.as_ref().map(|why| format!("no recorder: {why}")));
    parts.join("; ")
}

/// A heading and its texts, each wrapped to lines. The first `shown` texts are printed.
pub(crate) struct Part {
    name: String,
    texts: Vec<Vec<Line>>,
    pub(crate) shown: usize,
    /// The number of first texts that are not left out before texts of other parts.
    needed: usize,
    /// The number of lines that this part may have more than the others.
    bonus: usize,
}

impl Part {
    pub(crate) fn new(
        name: impl Into<String>,
        texts: impl IntoIterator<Item = String>,
        max_lines: usize,
        style: ScreenStyle,
    ) -> Self {
        let lines = |text: String| {
            wrapped(&format!("  {text}"), style.columns(), "      ").into_iter().map(Line::from).collect()
        };
        Self::of_lines(name.into(), texts.into_iter().map(lines).collect(), max_lines)
    }

    /// Creates a part of steps. The lines of a step that changes the state are coloured.
    pub(crate) fn of_steps(
        name: impl Into<String>,
        steps: &[Step],
        max_lines: usize,
        style: ScreenStyle,
    ) -> Self {
        let lines = steps.iter().map(|step| steps::painted(step, style.columns())).collect();
        Self::of_lines(name.into(), lines, max_lines)
    }

    fn of_lines(name: String, texts: Vec<Vec<Line>>, max_lines: usize) -> Self {
        let mut lines = 0;
        let fit = texts.iter().take_while(|text| {
            lines += text.len();
            lines <= max_lines
        });
        let shown = fit.count().max(1).min(texts.len());
        Self { name, texts, shown, needed: shown, bonus: 0 }
    }

    /// Lets this part have more lines than the others.
    pub(crate) fn with_bonus(self, bonus: usize) -> Self {
        Self { bonus, ..self }
    }

    /// Adds texts that are shown only if there is room.
    fn add_optional(&mut self, texts: impl IntoIterator<Item = String>, style: ScreenStyle) {
        if self.shown < self.texts.len() {
            return;
        }
        let more = Self::new("", texts, MAX_POSSIBLE, style);
        self.shown += more.shown;
        self.texts.extend(more.texts);
    }

    /// Returns the lines that are printed.
    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.texts.iter().take(self.shown).flatten()
    }

    /// Leaves out the last text; of a single text, the last line.
    fn shorten(&mut self) {
        if self.shown > 1 {
            self.shown -= 1;
        } else if let Some(only) = self.texts.first_mut() {
            only.pop();
        }
    }
}

/// Shows less of the longest parts until all parts together have at most this many lines.
pub(crate) fn fit(parts: &mut [Part], room: usize) {
    while parts.iter().map(|part| part.lines().count()).sum::<usize>() > room {
        let optional = parts.iter_mut().find(|part| part.shown > part.needed);
        if let Some(part) = optional {
            part.shown -= 1;
            continue;
        }
        let can_shrink = |part: &&mut Part| part.lines().count() > 1;
        // A text is left out whole as long as a part has several.
        let key = |part: &&mut Part| (part.shown > 1, part.lines().count().saturating_sub(part.bonus));
        let Some(part) = parts.iter_mut().filter(can_shrink).max_by_key(key) else { break };
        part.shorten();
    }
}

/// Prints the parts that have a shown text, each with its heading.
pub(crate) fn print_parts(parts: &[Part], out: &mut Page<'_>, style: ScreenStyle) -> io::Result<()> {
    for part in parts.iter().filter(|part| part.shown > 0) {
        out.colored(HEADING, cut(&part.name, style.columns()))?;
        part.lines().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

/// Prints the report on one screen: shows fewer lines of the longest parts until all parts fit.
fn short(report: &HealthReport, out: &mut Page<'_>, style: ScreenStyle) -> io::Result<()> {
    let head = head(report, style);
    let primary = report.primary.as_ref();
    let evidence = primary.map(|primary| primary.evidence.clone()).unwrap_or_default();
    let disagreements = report.kubelet.iter().flat_map(|kubelet| kubelet.disagreements.clone());
    let mut steps = primary.map(|primary| primary.steps.clone()).unwrap_or_default();
    let needed = steps.len();
    if report.verdict == Verdict::Degraded && report.moment.is_none() {
        let node = if report.node.is_empty() { "NODE" } else { &report.node };
        let describe = Command::new("kubectl describe node {}").arg(node);
        steps.push(Step::look("if the node is NotReady all the same").with(describe));
    }
    let (possible, likely_or_certain): (Vec<&HealthFinding>, Vec<_>) =
        report.findings.iter().skip(1).partition(|finding| finding.confidence == Confidence::Possible);
    let (hangs, if_room) = possible.into_iter().partition(|finding| may_hang(finding));
    let also = likely_or_certain
        .iter()
        .map(|finding| format!("{} {}: {}", finding.id, finding.confidence.as_str(), finding.title))
        .chain(possible_lines(hangs));
    // The kubelet refused plegctl's credential, or plegctl refused the kubelet's certificate.
    let why_not_queried = report.kubelet.iter().filter_map(|kubelet| kubelet.not_accepted.clone());
    let mut also = Part::new(ALSO, also, 4, style);
    also.add_optional(possible_lines(if_room), style);
    let mut to_do = Part::of_steps(what_to_do(report), &steps, 10, style).with_bonus(7);
    to_do.needed = to_do.needed.min(needed);
    let mut parts = vec![
        Part::new(
            heading_of_evidence(report),
            evidence.into_iter().chain(disagreements).chain(not_looked_at(report)),
            8,
            style,
        ),
        Part::new(SUSPECTS, suspect_lines(report), 6, style),
        Part::of_steps(what_to_keep(report), &report.keep, 6, style),
        to_do,
        also,
        Part::new("the kubelet was not queried", why_not_queried, 2, style),
    ];
    parts.retain(|part| part.shown > 0);
    if report.verdict == Verdict::Healthy {
        // What was looked at comes last, because nothing in it needs an action.
        let looked_at = parts.iter().position(|part| part.name == LOOKED_AT);
        if let Some(part) = looked_at.map(|at| parts.remove(at)) {
            parts.push(part);
        }
        // A wait in the kernel comes first, because it may be what the user is searching for.
        let may_matter = report.findings.iter().any(may_hang);
        if let Some(at) = parts.iter().position(|part| part.name == ALSO && may_matter) {
            let part = parts.remove(at);
            parts.insert(0, part);
        }
    }
    let all: usize = parts.iter().flat_map(|part| &part.texts).map(Vec::len).sum();
    let footer = |hidden| match footer_of_hidden_parts(report, primary, hidden) {
        text if text.is_empty() => Vec::new(),
        text => wrapped(&text, style.columns(), "  "),
    };
    let room = style.lines().saturating_sub(head.len() + parts.len());
    let mut end = footer(0);
    // The footer names the number of hidden lines. This may make the footer longer, which hides more lines.
    loop {
        fit(&mut parts, room.saturating_sub(end.len()));
        let shown: usize = parts.iter().map(|part| part.lines().count()).sum();
        let longer = footer(all.saturating_sub(shown));
        let fits = longer.len() <= end.len();
        end = longer;
        if fits {
            break;
        }
    }
    head.iter().try_for_each(|line| out.line(line))?;
    print_parts(&parts, out, style)?;
    end.iter().try_for_each(|line| out.colored(DETAIL, line))
}

/// Formats the heading of the evidence: the rule, how sure it is, and of what.
fn heading_of_evidence(report: &HealthReport) -> String {
    let Some(primary) = &report.primary else { return "why".to_owned() };
    if report.verdict == Verdict::Healthy {
        return LOOKED_AT.to_owned();
    }
    format!("why: {} {}{}", primary.id, primary.confidence.as_str(), what_the_confidence_is_about(primary))
}

/// Returns the line of a healthy report that names what was not checked. Other reports name the most important of it in
/// the footer.
fn not_looked_at(report: &HealthReport) -> Option<String> {
    if report.verdict != Verdict::Healthy || report.source.is_some() || report.not_checked.is_empty() {
        return None;
    }
    let parts: Vec<&str> = report.not_checked.iter().map(short_name).collect();
    Some(format!("not looked at: {}", parts.join(", ")))
}

/// Returns the heading of what to save. It is urgent only if a step may destroy it.
fn what_to_keep(report: &HealthReport) -> &'static str {
    let mut steps = report.primary.iter().flat_map(|primary| &primary.steps);
    // The logs, which are always among it, outlive a restart.
    if report.keep.len() > 1 && steps.any(|step| step.changes_state && !step.only_signals) {
        "keep before any change"
    } else {
        "keep for later"
    }
}

/// Returns the heading of the steps.
fn what_to_do(report: &HealthReport) -> &'static str {
    match report.verdict {
        Verdict::Healthy if kubelet_is_known(report) => "PLEG is healthy now; if something is wrong",
        Verdict::Healthy => "the runtime answers now; if something is wrong",
        _ if report.keep.is_empty() => "what to do",
        _ => "then do",
    }
}

/// Whether the kubelet has said how it is.
fn kubelet_is_known(report: &HealthReport) -> bool {
    let knows = |kubelet: &KubeletReport| kubelet.healthz.is_some() || kubelet.pleg_age_seconds.is_some();
    report.kubelet.as_ref().is_some_and(knows)
}

/// Says whether the confidence of a finding is about a symptom or about a cause.
fn what_the_confidence_is_about(finding: &HealthFinding) -> &'static str {
    match (row(finding.id).confidence_is_of, finding.confidence) {
        (ConfidenceIsOf::Nothing, Confidence::Likely) => " to be a problem",
        (ConfidenceIsOf::Nothing, Confidence::Certain | Confidence::Possible) => "",
        (ConfidenceIsOf::Symptom, _) | (ConfidenceIsOf::Estimate, Confidence::Certain) => {
            " (the symptom; its cause is not proven)"
        }
        (ConfidenceIsOf::Estimate, Confidence::Likely | Confidence::Possible) => {
            " (estimated from what was measured)"
        }
        (ConfidenceIsOf::Cause, Confidence::Certain) => " (the cause)",
        (ConfidenceIsOf::Cause, Confidence::Likely) => " to be the cause",
        (ConfidenceIsOf::Cause, Confidence::Possible) => " as the cause",
    }
}

/// Whether a possible finding is always on the short screen: a process that may hang shows in no call.
fn may_hang(finding: &HealthFinding) -> bool {
    row(finding.id).may_hang
}

/// Formats the suspects: the pod, how likely it is, and why.
fn suspect_lines(report: &HealthReport) -> Vec<String> {
    let line = |suspect: &SuspectReport| {
        let container = suspect.container.as_ref().map(|container| format!("/{}", container.name));
        let reasons: Vec<String> = suspect.reasons.iter().map(ToString::to_string).collect();
        let (pod, confidence) = (&suspect.pod, suspect.confidence);
        format!("{pod}{} ({confidence}): {}", container.unwrap_or_default(), reasons.join("; "))
    };
    report.suspects.iter().map(line).collect()
}

/// Formats possible findings, one line for each rule.
fn possible_lines(findings: Vec<&HealthFinding>) -> Vec<String> {
    let mut lines: Vec<(RuleId, usize, String)> = Vec::new();
    for finding in findings {
        if let Some((_, more, _)) = lines.iter_mut().find(|(id, ..)| *id == finding.id) {
            *more += 1;
            continue;
        }
        lines.push((finding.id, 0, format!("{} possible: {}", finding.id, finding.title)));
    }
    let with_more = |(_, more, line)| if more > 0 { format!("{line} (and {more} more)") } else { line };
    lines.into_iter().map(with_more).collect()
}

/// Formats the footer: what the screen does not show, and how to see it.
fn footer_of_hidden_parts(report: &HealthReport, primary: Option<&HealthFinding>, hidden: usize) -> String {
    let mut parts = Vec::new();
    if hidden > 0 {
        parts.push(format!("{} of this", plural(hidden, "more line")));
    }
    if report.estimate.is_some() {
        parts.push("the estimate".to_owned());
    }
    if !report.probes.is_empty() || report.source.is_none() {
        parts.push(plural(report.probes.len(), "probe"));
    }
    let skipped = most_important(&report.not_checked).filter(|_| not_looked_at(report).is_none());
    if let Some((skipped, _)) = skipped {
        let rest = match report.not_checked.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        parts.push(format!("what was not checked ({skipped}{rest})"));
    }
    // D00 says only that nothing was found.
    let primary = primary.filter(|primary| primary.id != RuleId::NothingFound);
    let explain = primary.map(|primary| format!("; what {0} means: plegctl explain {0}", primary.id));
    let explain = explain.unwrap_or_default();
    if parts.is_empty() {
        return explain.trim_start_matches("; ").to_owned();
    }
    format!("with -o wide: {}{explain}", parts.join(", "))
}

/// Returns the part of the node that was not checked and may change the answer most, and whether findings come from there.
fn most_important(not_checked: &[NotChecked]) -> Option<(&str, bool)> {
    const FIRST: [&str; 5] = ["the rest", "lists and status calls", "processes", "who waits", "the journal"];
    let rank = |skipped: &&NotChecked| FIRST.iter().position(|what| skipped.what.starts_with(what));
    let known = not_checked.iter().filter(|skipped| rank(skipped).is_some()).min_by_key(rank);
    Some((short_name(known.or(not_checked.first())?), known.is_some()))
}

/// Returns the beginning of what was not checked, without its details.
fn short_name(skipped: &NotChecked) -> &str {
    skipped.what.split([',', '(']).next().unwrap_or_default().trim_end()
}
