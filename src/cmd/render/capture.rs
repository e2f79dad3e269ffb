//! Formats the messages of `plegctl record`, and the output of `plegctl capture` as text.

use std::io;
use std::path::Path;

use super::page::Page;
use super::table::{self, Column};
use super::words::{UNKNOWN, or_none, took};
use std::time::Duration;

use serde_json::Value;

use crate::capture::entry::Incident;
use crate::capture::list::{CaptureList, CheckReport, CheckedSegment, ListedIncident};
use crate::capture::recording::RecordingSummary;
use crate::capture::report::{CallBar, CaptureReport, JumpPoint, KubeletPoint};
use crate::capture::{self, Exported, MAX_NUMBERED};
use crate::clock::Wall;
use crate::cri;
use crate::diagnosis::report::RuleId;
use crate::report::RuntimeRef;
use crate::report::bytes::bytes;
use crate::report::plural;

type IncidentColumn<'a> = Column<'a, ListedIncident>;
type CallColumn<'a> = Column<'a, CallBar>;
type SegmentColumn<'a> = Column<'a, CheckedSegment>;

/// Formats the message that a recording begins.
pub fn recording_started(endpoint: &str, directory: &Path, max_bytes: u64) -> String {
    let directory = directory.display().to_string();
    format!("recording {} to {}, at most {}", endpoint, directory, bytes(max_bytes))
}

/// Formats the message that the runtime is missing or does not answer `Version`.
pub fn no_runtime(why: Option<&cri::Error>) -> String {
    let why = why.map_or_else(|| "no container runtime was found".to_owned(), ToString::to_string);
    format!("waiting for the runtime, and recording that it is missing: {why}")
}

/// Formats the message that the runtime was found during the recording.
pub fn runtime_found(endpoint: &str) -> String {
    format!("found the runtime at {endpoint}")
}

/// Formats the message that the runtime answered `Version`.
pub fn runtime_answered(name: &str, release: &str) -> String {
    format!("the runtime is {name} {release}")
}

/// Formats the message that the directory cannot be written yet.
pub fn no_disk(directory: &Path, why: Option<capture::Error>) -> String {
    let why = why.map_or_else(
        || format!("the disk of `{}` does not answer", directory.display()),
        |why| why.to_string(),
    );
    format!("waiting for the disk; recording is paused: {why}")
}

/// Formats the message that the token file cannot be used at the moment.
pub fn closed_exports(token_file: &Path, why: &str) -> String {
    let file = token_file.display().to_string();
    format!("/capture and /verdict?facts=true are closed until the token file `{file}` can be used: {why}")
}

/// Formats the message that a recording has ended.
pub fn recording_ended(summary: &RecordingSummary) -> String {
    let status = &summary.status;
    let lost =
        if status.lost > 0 { format!(", {} lost", plural(status.lost, "entry")) } else { String::new() };
    let trouble = match &status.trouble {
        Some(trouble) => format!(": {trouble}"),
        None if !summary.written => "; the disk was too slow for the last entries".to_owned(),
        None => String::new(),
    };
    format!(
        "recorded {} and {}: {} in {}{lost}{trouble}",
        plural(summary.relists, "relist"),
        plural(summary.incidents, "incident"),
        bytes(status.extent.bytes),
        plural(status.extent.segments, "segment")
    )
}

/// Formats the message that an incident began or ended.
pub fn incident(number: u64, incident: &Incident) -> String {
    match incident.duration() {
        None => format!("incident {number}: {}", incident.why),
        Some(lasted) => format!("incident {number} is over after {}", took(lasted)),
    }
}

/// Formats the message with the diagnosis of an incident.
pub fn diagnosed(number: u64, summary: &str) -> String {
    format!("incident {number}: {summary}")
}

/// Formats a time to the millisecond. The user can copy this text into an endpoint `capture:PATH@TIME`.
pub fn brief(time: impl std::fmt::Display) -> String {
    let text = time.to_string();
    match text.split_at_checked("2026-11-22T03:00:00.000".len()) {
        Some((brief, digits)) if digits.ends_with('Z') => format!("{brief}Z"),
        _ => text,
    }
}

/// Formats how long an incident lasted.
fn lasted(incident: &ListedIncident) -> String {
    match (incident.lasted_seconds, incident.at_least_seconds) {
        (Some(lasted), _) => took(lasted.duration()),
        // The recorder ended before the incident did.
        (None, Some(least)) => format!(">{}", took(least.duration())),
        (None, None) => "open".to_owned(),
    }
}

/// Prints the result of `capture ls`.
pub fn list(list: &CaptureList, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(
        out,
        "{} to {}, {}, {} in {}",
        brief(list.from),
        brief(list.to),
        plural(list.relists, "relist"),
        bytes(list.bytes),
        plural(list.segments, "segment")
    )?;
    if list.dropped > 0 {
        let dropped = plural(list.dropped, "older segment");
        writeln!(out, "deleted to stay within the limits: {dropped}")?;
    }
    if list.damaged_bytes > 0 {
        writeln!(out, "{} cannot be read; `plegctl capture check` shows where", bytes(list.damaged_bytes))?;
    }
    if list.incidents.is_empty() {
        return writeln!(out, "no incidents");
    }
    writeln!(out)?;
    let columns = vec![
        IncidentColumn::new("INCIDENT", |incident| incident.number.to_string()),
        IncidentColumn::new("FROM", |incident| brief(incident.from)),
        IncidentColumn::new("LASTED", lasted),
        IncidentColumn::new("VERDICT", |incident| {
            incident.verdict.clone().or_else(|| Some(UNKNOWN.to_owned()))
        }),
        IncidentColumn::new("KEPT", |incident| if incident.pinned { "yes" } else { "no" }.to_owned()),
        IncidentColumn::new("WHAT", |incident| incident.summary.as_ref().unwrap_or(&incident.why).clone()),
    ];
    table::write(out, columns, &list.incidents)
}

/// Describes the result of `capture export --node`.
pub fn fetched(capture: &[u8], pod: &str, node: &str) -> String {
    let size = bytes(u64::try_from(capture.len()).unwrap_or(u64::MAX));
    format!("{size} from the recorder {pod} of {node}")
}

/// Describes the result of `capture export`.
pub fn exported(exported: Exported) -> String {
    let names = match exported.names {
        0 => String::new(),
        MAX_NUMBERED.. => format!(", at least {MAX_NUMBERED} names replaced"),
        names => format!(", {} replaced", plural(names, "name")),
    };
    let left_out = match exported.left_out {
        0 => String::new(),
        left_out => format!(", {left_out} left out: {TOO_COSTLY}"),
    };
    let not_understood = match usize::try_from(exported.not_understood).unwrap_or(usize::MAX) {
        0 => String::new(),
        count => format!(", {} of another release left out", plural(count, "document")),
    };
    format!("{} written{names}{left_out}{not_understood}", plural(exported.entries, "entry"))
}

/// The reason why a part of a capture was left out or not judged.
const TOO_COSTLY: &str = "unpacking it would exceed the limit for a capture of this size";

/// Describes how much of a capture was not judged.
pub fn not_judged(report: &CaptureReport) -> Option<String> {
    let count = report.documents_not_judged.saturating_add(report.answers_not_judged);
    match count {
        0 => None,
        1 => Some(format!("1 document or answer not judged: {TOO_COSTLY}")),
        _ => Some(format!("{count} documents and answers not judged: {TOO_COSTLY}")),
    }
}

/// The number of characters in a strip. A strip is a line of text that draws a value over time; see [`strip`]. A label
/// of 9 characters and a strip fill a terminal of 80 columns.
const STRIP: usize = 71;

/// Formats the runtime's name, version and endpoint.
pub fn runtime(runtime: &RuntimeRef) -> String {
    let RuntimeRef { endpoint, name, version, .. } = runtime;
    format!(
        "{} {} at {endpoint}",
        name.as_deref().unwrap_or_default(),
        version.as_deref().unwrap_or_default()
    )
}

/// Prints the result of `capture report`: one strip of characters for relist latency and one for the age of PLEG,
/// then incidents, calls and events.
pub fn report(report: &CaptureReport, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out, "{} to {}", brief(report.from), brief(report.to))?;
    writeln!(out, "{}", runtime(&report.runtime))?;
    let threshold = report.threshold_seconds;
    writeln!(out, "latency  {}", strip(report, latency(report), report.slow_seconds.duration()))?;
    writeln!(out, "age      {}", strip(report, age(report), threshold.duration()))?;
    let slowest = report.relists.iter().map(|point| point.duration_seconds).max().unwrap_or_default();
    let largest_age = report.relists.iter().map(|point| point.age_seconds).max().unwrap_or_default();
    // `oldest` is the largest age of PLEG. The time after `of` is the age at which PLEG is not healthy.
    writeln!(
        out,
        "         relists: {}, slowest {}, oldest {} of {}; `!` beyond, `x` failed",
        report.relists.len(),
        took(slowest.duration()),
        took(largest_age.duration()),
        took(threshold.duration())
    )?;
    for incident in &report.incidents {
        let lasted = lasted(incident);
        let what = incident.summary.as_deref().unwrap_or(&incident.why);
        writeln!(out)?;
        writeln!(out, "incident {} at {}, {lasted}: {}", incident.number, brief(incident.from), what)?;
        writeln!(out, "  opened because: {}", incident.why)?;
    }
    let jumps = report.jumps.iter().map(clock_jump);
    for line in waits_for_first_relist(report).chain(jumps).chain(kubelet_samples(&report.kubelet)) {
        writeln!(out)?;
        writeln!(out, "{line}")?;
    }
    for stacks in &report.stacks {
        let (time, summary, findings) = stack_findings(stacks);
        writeln!(out)?;
        writeln!(out, "the runtime's goroutines at {time}: {summary}")?;
        for finding in findings {
            writeln!(out, "  {finding}")?;
        }
    }
    for forecast in &report.forecasts {
        writeln!(out)?;
        writeln!(out, "{}, {}: {forecast}", RuleId::ApproachingLimit.as_str(), forecast.confidence)?;
    }
    if !report.calls.is_empty() {
        writeln!(out)?;
        let columns = vec![
            CallColumn::new("TIME", |call| brief(call.time)),
            CallColumn::new("CALL", |call| call.rpc.clone()),
            CallColumn::new("WHOSE", CallBar::subject),
            CallColumn::new("TOOK", |call| took(call.duration_seconds.duration())),
            CallColumn::new("OUTCOME", |call| call.outcome.to_owned()),
        ];
        table::write(out, columns, &report.calls)?;
    }
    if report.calls_left_out > 0 {
        writeln!(out, "and {}", plural(report.calls_left_out, "faster call"))?;
    }
    if !report.events.is_empty() {
        writeln!(out)?;
        let text = |event: &Value, path: &str| or_none(text_at(event, path));
        let columns = vec![
            Column::new("TIME", |event: &Value| brief(text(event, "/time"))),
            Column::new("POD", |event: &Value| {
                format!("{}/{}", text(event, "/pod/namespace"), text(event, "/pod/name"))
            }),
            Column::new("CONTAINER", |event: &Value| text(event, "/name")),
            Column::new("EVENT", |event: &Value| text(event, "/type")),
        ];
        table::write(out, columns, &report.events)?;
    }
    if let Some(line) = not_judged(report) {
        writeln!(out, "{line}")?;
    }
    if report.events_left_out > 0 {
        writeln!(out, "and {}", plural(report.events_left_out, "more event"))?;
    }
    Ok(())
}

/// Describes a jump of the wall clock.
pub fn clock_jump(jump: &JumpPoint) -> String {
    // Rounded to milliseconds, because the two clocks cannot be read at exactly the same moment.
    let by = (jump.by_seconds.as_f64() * 1000.0).round() / 1000.0;
    let direction = if by < 0.0 { "back" } else { "forward" };
    format!(
        "the wall clock was set {direction} by {}, to {}",
        took(Duration::from_secs_f64(by.abs())),
        brief(jump.time)
    )
}

/// Describes the samples of the kubelet's metrics: when they could not be read, how many there are, and the highest
/// age.
pub fn kubelet_samples(samples: &[KubeletPoint]) -> Vec<String> {
    let Some(last) = samples.last() else { return Vec::new() };
    let oldest = samples.iter().filter_map(|sample| sample.age_seconds).max();
    let mut lines: Vec<String> = samples
        .chunk_by(|left, right| left.outcome == right.outcome)
        .filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            let count = run.len();
            (first.outcome != "ok").then(|| {
                let why = first.message.as_deref().unwrap_or(first.outcome);
                format!(
                    "the kubelet's metrics from {} to {}, {}: {}",
                    brief(first.time),
                    brief(last.time),
                    plural(count, "time"),
                    why
                )
            })
        })
        .collect();
    let age =
        oldest.map(|oldest| format!(", the age of its last relist was at most {}", took(oldest.duration())));
    lines.push(format!(
        "the kubelet's metrics: {} up to {}{}",
        plural(samples.len(), "sample"),
        brief(last.time),
        age.unwrap_or_default()
    ));
    lines
}

/// Returns the text at a JSON pointer; an empty text if there is none.
pub fn text_at<'a>(value: &'a serde_json::Value, path: &str) -> &'a str {
    value.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Returns the time and the summary of a judged goroutine dump, and its findings with their evidence line by line.
pub fn stack_findings(stacks: &serde_json::Value) -> (&str, &str, Vec<String>) {
    let findings = stacks.get("findings").and_then(serde_json::Value::as_array).into_iter().flatten();
    let lines = findings.flat_map(|finding| {
        let evidence = finding.get("evidence").and_then(serde_json::Value::as_array).into_iter().flatten();
        let evidence = evidence.filter_map(|line| line.as_str().map(|line| format!("  {line}")));
        let head = format!(
            "{} {} ({})",
            text_at(finding, "/id"),
            text_at(finding, "/title"),
            text_at(finding, "/confidence")
        );
        std::iter::once(head).chain(evidence).collect::<Vec<_>>()
    });
    (text_at(stacks, "/time"), text_at(stacks, "/summary"), lines.collect())
}

/// Describes each long wait from the start of a recorder until its first successful relist.
pub fn waits_for_first_relist(report: &CaptureReport) -> impl Iterator<Item = String> {
    report.times_without_relist().into_iter().map(|(from, to)| {
        format!(
            "no relist succeeded from {} (start of the recorder) to {}, {}: the age shown until then is a \
             lower bound; a kubelet that has just started reports \"pleg has yet to be successful\"",
            brief(from),
            brief(to),
            took(to.duration_since(from))
        )
    })
}

/// A latency or an age, which grows by one second in each second. A strip shows it from the time `from` to the time
/// `to`.
struct GrowingValue {
    /// The time at which the value was 0, which may be earlier than `from`.
    since: Wall,
    from: Wall,
    to: Wall,
    /// Whether a relist failed at `to`.
    failed: bool,
}

/// Returns the latency of each relist while the relist runs.
fn latency(report: &CaptureReport) -> impl Iterator<Item = GrowingValue> {
    report.relists.iter().map(|point| {
        let (began, failed) = (point.began(), point.error.is_some());
        GrowingValue { since: began, from: began, to: point.time, failed }
    })
}

/// Returns the age of PLEG, which grows until the lists of a relist are answered.
fn age(report: &CaptureReport) -> impl Iterator<Item = GrowingValue> {
    let mut before = report.from;
    report.relists.iter().flat_map(move |point| {
        let from = before.max(point.since);
        before = point.time;
        let (since, failed) = (point.since, false);
        match point.listed() {
            Some(listed) => {
                let after = GrowingValue { since: point.began(), from: listed, to: point.time, failed };
                [Some(GrowingValue { since, from, to: listed, failed }), Some(after)]
            }
            None => [Some(GrowingValue { since, from, to: point.time, failed: true }), None],
        }
        .into_iter()
        .flatten()
    })
}

/// Draws a strip of [`STRIP`] characters, each for an equal part of the report's time. A character shows the largest
/// value of its part: one of eight bars up to `limit`, `!` above it, `x` if a relist failed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the numbers are small, and a result that is out of range is limited to a column or a height"
)]
fn strip(report: &CaptureReport, values: impl Iterator<Item = GrowingValue>, limit: Duration) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let column_seconds = report.to.duration_since(report.from).as_secs_f64().max(1e-9) / STRIP as f64;
    let end_of_column =
        |place: usize| report.from.plus(Duration::from_secs_f64(column_seconds * (place + 1) as f64));
    let mut columns: [Option<(f64, bool)>; STRIP] = [None; STRIP];
    for value in values {
        let place = |time: Wall| {
            let place = (time.duration_since(report.from).as_secs_f64() / column_seconds) as usize;
            place.min(STRIP - 1)
        };
        let last = place(value.to);
        // After a jump back of the clock, a relist still has at least one column.
        for index in place(value.from).min(last)..=last {
            let seconds = end_of_column(index).min(value.to).duration_since(value.since).as_secs_f64();
            if let Some(column) = columns.get_mut(index) {
                let (largest, failed) = column.unwrap_or((0.0, false));
                *column = Some((largest.max(seconds), failed || value.failed && index == last));
            }
        }
    }
    let letter = |column: &Option<(f64, bool)>| match column {
        None => ' ',
        Some((_, true)) => 'x',
        Some((value, false)) if *value > limit.as_secs_f64() => '!',
        Some((value, false)) => {
            let share = value / limit.as_secs_f64().max(1e-9);
            let height = (share * 8.0) as usize;
            HEIGHTS.get(height).copied().unwrap_or('█')
        }
    };
    columns.iter().map(letter).collect()
}

/// Prints the result of `capture check`.
pub fn check(report: &CheckReport, out: &mut Page<'_>) -> io::Result<()> {
    let faulty = |segment: &&CheckedSegment| segment.damaged_bytes > 0 || segment.cut_bytes > 0;
    let mut faulty = report.segments.iter().filter(faulty).peekable();
    if faulty.peek().is_some() {
        let columns = vec![
            SegmentColumn::new("SEGMENT", |segment| segment.path.clone()),
            SegmentColumn::new("FAULT-AT", |segment| Some(segment.fault_offset?.to_string())),
            SegmentColumn::new("UNREADABLE", |segment| bytes(segment.damaged_bytes)),
            SegmentColumn::new("CUT", |segment| bytes(segment.cut_bytes)),
            SegmentColumn::new("READABLE-ENTRIES", |segment| segment.entries.to_string()),
        ];
        table::write(out, columns, faulty)?;
        writeln!(out)?;
    }
    for loss in &report.losses {
        writeln!(out, "{}: lost {}: {}", brief(loss.time), plural(loss.entries, "entry"), loss.why)?;
    }
    let missing = report.missing_answers;
    if report.cut_bytes > 0 {
        let what = "of an incomplete last entry: the recorder was killed, or the file was truncated";
        writeln!(out, "{} {what}", bytes(report.cut_bytes))?;
    }
    if report.not_judged_answers > 0 {
        writeln!(out, "{} not judged: {TOO_COSTLY}", plural(report.not_judged_answers, "answer"))?;
    }
    if report.damaged_bytes == 0 && missing == 0 && report.not_judged_answers == 0 {
        return writeln!(
            out,
            "{} in {}, all readable",
            plural(report.entries, "entry"),
            plural(report.segments.len(), "segment")
        );
    }
    writeln!(
        out,
        "{} in {}: {} unreadable, {} lost because of that",
        plural(report.entries, "entry"),
        plural(report.segments.len(), "segment"),
        bytes(report.damaged_bytes),
        plural(missing, "answer")
    )
}

#[cfg(test)]
pub(in crate::cmd) mod tests {
    use super::*;
    use crate::capture::report::RelistPoint;
    use crate::capture::{Capture, Range};
    use crate::cmd::render::PLAIN;
    use crate::cmd::render::page::tests::printed;
    use crate::report::escape::is_hostile;

    /// Returns a capture in which the first relist hangs for 200 seconds.
    pub fn hung_at_once() -> CaptureReport {
        let capture = Capture::open("tests/captures/0.1.0.plegcap".as_ref()).unwrap();
        let report = CaptureReport::of(&capture, Range::default()).unwrap();
        let to = report.from.plus(Duration::from_secs(200));
        let hung = RelistPoint {
            time: to,
            duration_seconds: Duration::from_millis(199_900).into(),
            listed_seconds: None,
            since: report.from,
            age_seconds: Duration::from_secs(200).into(),
            age_at_least: true,
            error: Some("still open when the recording ended".to_owned()),
        };
        CaptureReport {
            to,
            threshold_seconds: Duration::from_secs(180).into(),
            slow_seconds: Duration::from_secs(2).into(),
            incidents: Vec::new(),
            relists: vec![hung],
            calls: Vec::new(),
            events: Vec::new(),
            ..report
        }
    }

    fn text(shown: &CaptureReport) -> String {
        printed(PLAIN, |page| report(shown, page))
    }

    /// Returns a strip with repeated letters removed.
    fn letters(text: &str, strip: &str) -> String {
        let line = text.lines().find_map(|line| line.strip_prefix(strip)).unwrap();
        let mut letters: Vec<char> = line.trim_start_matches("  ").chars().collect();
        letters.dedup();
        letters.into_iter().collect()
    }

    #[test]
    fn hang_of_the_first_relist_is_in_both_strips_and_has_a_note() {
        let text = text(&hung_at_once());
        assert_eq!(letters(&text, "age    "), "▁▂▃▄▅▆▇█!x", "{text}");
        assert_eq!(letters(&text, "latency"), "!x", "{text}");
        assert!(text.contains("\nno relist succeeded from "), "{text}");
    }

    #[test]
    fn no_text_of_an_incident_reaches_the_terminal_unescaped() {
        let hostile = "a\u{1b}[2J\u{7}\u{202e}b\r\nc".to_owned();
        let incident = ListedIncident {
            number: 1,
            from: Wall::default(),
            to: None,
            lasted_seconds: None,
            at_least_seconds: None,
            why: hostile.clone(),
            verdict: Some(hostile.clone()),
            summary: Some(hostile.clone()),
            primary: Some(hostile.clone().into()),
            pinned: true,
        };
        let listed = CaptureList {
            from: Wall::default(),
            to: Wall::default(),
            node: hostile,
            relists: 1,
            bytes: 1,
            segments: 1,
            dropped: 1,
            damaged_bytes: 1,
            incidents: vec![incident.clone(), ListedIncident { summary: None, ..incident }],
        };
        let text = printed(PLAIN, |page| list(&listed, page));
        assert!(!text.contains(|letter| letter != '\n' && is_hostile(letter)), "{text:?}");
        assert_eq!(text.matches(r"a\u{1b}[2J\u{7}\u{202e}b\r\nc").count(), 4, "{text:?}");
    }

    #[test]
    fn jump_of_hours_is_shown_in_whole_hours() {
        let by_seconds = crate::report::Seconds::from_nanos(-10_799_999_999_886);
        let jump = JumpPoint { time: Wall::default(), by_seconds };
        assert!(
            clock_jump(&jump).starts_with("the wall clock was set back by 3h, to "),
            "{}",
            clock_jump(&jump)
        );
    }

    #[test]
    fn short_wait_for_the_first_relist_has_no_note() {
        let mut quick = hung_at_once();
        let first = quick.relists[0].clone();
        let to = quick.from.plus(Duration::from_millis(50));
        let took = Duration::from_millis(40).into();
        quick.relists = vec![
            RelistPoint {
                time: to,
                duration_seconds: took,
                listed_seconds: Some(took),
                age_seconds: Duration::from_millis(50).into(),
                error: None,
                ..first.clone()
            },
            RelistPoint {
                duration_seconds: took,
                listed_seconds: Some(took),
                since: quick.from.plus(Duration::from_millis(10)),
                age_seconds: Duration::from_millis(199_990).into(),
                age_at_least: false,
                error: None,
                ..first
            },
        ];
        let text = text(&quick);
        assert!(!text.contains("no relist succeeded from "), "{text}");
        // The age grows also between the two relists, while no relist runs and the latency strip is empty.
        assert_eq!(letters(&text, "age    "), "▁▂▃▄▅▆▇█!", "{text}");
        assert_eq!(letters(&text, "latency"), "▁ ▁", "{text}");
    }
}
