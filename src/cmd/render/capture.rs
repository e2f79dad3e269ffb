//! Formats the messages of `record` and the output of `capture` as text.

use std::io::{self, Write};
use std::path::Path;

use super::words::took;
use super::{Style, table};
use std::time::Duration;

use crate::capture::entry::Incident;
use crate::capture::list::{CaptureList, CheckReport, CheckedSegment, ListedIncident};
use crate::capture::recording::RecordingSummary;
use crate::capture::report::{CaptureReport, JumpPoint, KubeletPoint};
use crate::capture::{self, Exported};
use crate::clock::Wall;
use crate::cri;
use crate::diagnosis::HealthReport;
use crate::diagnosis::words::plural;
use crate::report::RuntimeRef;
use crate::report::bytes::bytes;
use crate::report::escape::escaped;

/// Says that the recording begins.
pub fn recording(endpoint: &str, directory: &Path, most: u64) -> String {
    let directory = directory.display().to_string();
    format!("recording {} to {}, at most {}", escaped(endpoint), escaped(&directory), bytes(most))
}

/// Says that the runtime is missing or does not answer Version.
pub fn no_runtime(why: Option<&cri::Error>) -> String {
    let why = why.map_or_else(|| "no container runtime is found".to_owned(), ToString::to_string);
    format!("waiting for the runtime, and recording that it is missing: {}", escaped(&why))
}

/// Names the runtime that was found later.
pub fn found(endpoint: &str) -> String {
    format!("found the runtime at {}", escaped(endpoint))
}

/// Says that the runtime answered Version.
pub fn met(name: &str, release: &str) -> String {
    format!("the runtime is {} {}", escaped(name), escaped(release))
}

/// Says that the directory cannot be written yet.
pub fn no_disk(directory: &Path, why: Option<capture::Error>) -> String {
    let why = why.map_or_else(
        || format!("the disk of `{}` does not answer", directory.display()),
        |why| why.to_string(),
    );
    format!("waiting for the disk; recording is paused: {}", escaped(&why))
}

/// Says that the event stream cannot be opened at the moment.
pub fn not_listening_now(why: &str) -> String {
    format!("the event stream is not recorded for now: {}", escaped(why))
}

/// Says that the event stream is not read.
pub fn not_listening(why: &str) -> String {
    format!("the event stream is not recorded: {}", escaped(why))
}

/// `1 relist`, `2 relists`.
fn counted(count: u64, one: &str) -> String {
    plural(usize::try_from(count).unwrap_or(usize::MAX), one)
}

/// Says that the recording is over.
pub fn recorded(summary: &RecordingSummary) -> String {
    let status = &summary.status;
    let lost = if status.lost > 0 { format!(", {} entries lost", status.lost) } else { String::new() };
    let trouble = match &status.trouble {
        Some(trouble) => format!(": {}", escaped(trouble)),
        None if !summary.written => "; the disk was too slow for the last entries".to_owned(),
        None => String::new(),
    };
    format!(
        "recorded {} and {}: {} in {}{lost}{trouble}",
        counted(summary.relists, "relist"),
        counted(summary.incidents, "incident"),
        bytes(status.extent.bytes),
        counted(status.extent.segments, "segment")
    )
}

/// Describes an incident that began or ended.
pub fn incident(number: u64, incident: &Incident) -> String {
    match incident.duration() {
        None => format!("incident {number}: {}", escaped(&incident.why)),
        Some(lasted) => format!("incident {number} is over after {}", took(lasted)),
    }
}

/// Returns the first line of a diagnosis.
pub fn verdict_line(report: &HealthReport) -> String {
    let verdict = report.verdict.as_str().to_uppercase();
    match &report.primary {
        Some(finding) => {
            format!("{verdict}: {} ({}, {})", finding.title, finding.id, finding.confidence.as_str())
        }
        None => format!("{verdict}: nothing found"),
    }
}

/// Describes the diagnosis of an incident.
pub fn diagnosed(number: u64, summary: &str) -> String {
    format!("incident {number}: {}", escaped(summary))
}

/// Formats a time to the millisecond, in a form that `@TIME` accepts.
pub fn brief(time: impl std::fmt::Display) -> String {
    let text = time.to_string();
    match text.split_at_checked("2026-11-22T03:00:00.000".len()) {
        Some((brief, digits)) if digits.ends_with('Z') => format!("{brief}Z"),
        _ => text,
    }
}

fn lasted(incident: &ListedIncident) -> String {
    match (incident.lasted_seconds, incident.at_least_seconds) {
        (Some(lasted), _) => took(lasted.duration()),
        // Nobody saw its end.
        (None, Some(least)) => format!(">{}", took(least.duration())),
        (None, None) => "open".to_owned(),
    }
}

/// Prints the result of `capture ls`.
pub fn list(list: &CaptureList, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} to {}, {}, {} in {}",
        brief(list.from),
        brief(list.to),
        counted(list.relists, "relist"),
        bytes(list.bytes),
        counted(list.segments, "segment")
    )?;
    if list.dropped > 0 {
        writeln!(out, "{} older segments were deleted to stay within the limits", list.dropped)?;
    }
    if list.damaged_bytes > 0 {
        writeln!(out, "{} cannot be read; `plegctl capture check` says where", bytes(list.damaged_bytes))?;
    }
    if list.incidents.is_empty() {
        return writeln!(out, "no incidents");
    }
    writeln!(out)?;
    let rows = list.incidents.iter().map(|incident| {
        let lasted = lasted(incident);
        vec![
            incident.number.to_string(),
            brief(incident.from),
            lasted,
            incident.verdict.clone().unwrap_or_else(|| super::words::UNKNOWN.to_owned()),
            if incident.pinned { "yes" } else { "no" }.to_owned(),
            escaped(incident.summary.as_deref().unwrap_or(&incident.why)).into_owned(),
        ]
    });
    table::write(out, style, &["INCIDENT", "FROM", "LASTED", "VERDICT", "KEPT", "WHAT"], rows)
}

/// Describes the result of `capture export`.
pub fn exported(exported: Exported) -> String {
    let names = match exported.names {
        0 => String::new(),
        names => format!(", {names} names replaced"),
    };
    let left_out = match exported.left_out {
        0 => String::new(),
        left_out => format!(", {left_out} left out: {TOO_COSTLY}"),
    };
    format!("{} entries written{names}{left_out}", exported.entries)
}

/// Why a part of a capture was not judged.
const TOO_COSTLY: &str = "unpacking it would exceed the limit for a capture of this size";

/// Describes how much of a capture was not judged.
pub fn not_judged(report: &CaptureReport) -> Option<String> {
    let count = report.documents_not_judged.saturating_add(report.answers_not_judged);
    (count > 0).then(|| format!("{count} documents and answers not judged: {TOO_COSTLY}"))
}

/// The width of a strip: with its label it fills a terminal of 80 columns.
const STRIP: usize = 71;

/// The runtime, its version and its endpoint.
pub fn runtime(runtime: &RuntimeRef) -> String {
    let RuntimeRef { endpoint, name, version, .. } = runtime;
    format!(
        "{} {} at {endpoint}",
        name.as_deref().unwrap_or_default(),
        version.as_deref().unwrap_or_default()
    )
}

/// Prints `capture report`: one strip for latency and one for age, then incidents, calls and events.
pub fn report(report: &CaptureReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} to {}\n{}", brief(report.from), brief(report.to), escaped(&runtime(&report.runtime)))?;
    let threshold = report.threshold_seconds;
    writeln!(out, "latency  {}", strip(report, latency(report), report.slow_seconds.duration()))?;
    writeln!(out, "age      {}", strip(report, age(report), threshold.duration()))?;
    let slowest = report.relists.iter().map(|point| point.duration_seconds).max().unwrap_or_default();
    let oldest = report.relists.iter().map(|point| point.age_seconds).max().unwrap_or_default();
    writeln!(
        out,
        "         relists: {}, slowest {}, oldest {} of {}; `!` beyond, `x` failed",
        report.relists.len(),
        took(slowest.duration()),
        took(oldest.duration()),
        took(threshold.duration())
    )?;
    for incident in &report.incidents {
        let lasted = lasted(incident);
        let what = incident.summary.as_deref().unwrap_or(&incident.why);
        writeln!(
            out,
            "\nincident {} at {}, {lasted}: {}",
            incident.number,
            brief(incident.from),
            escaped(what)
        )?;
        writeln!(out, "  opened because: {}", escaped(&incident.why))?;
    }
    for line in none_yet(report) {
        writeln!(out, "\n{line}")?;
    }
    for jump in &report.jumps {
        writeln!(out, "\n{}", jumped(jump))?;
    }
    for line in silences(&report.kubelet) {
        writeln!(out, "\n{line}")?;
    }
    for stacks in &report.stacks {
        let (time, summary, findings) = held_up(stacks);
        writeln!(out, "\nthe runtime's goroutines at {time}: {}", escaped(summary))?;
        for finding in findings {
            writeln!(out, "  {}", escaped(&finding))?;
        }
    }
    if !report.calls.is_empty() {
        writeln!(out)?;
        let rows = report.calls.iter().map(|call| {
            let whose = call.pod.as_deref().or(call.id.as_deref()).unwrap_or_default();
            vec![
                brief(call.time),
                call.rpc.clone(),
                super::words::or_none(whose),
                took(call.duration_seconds.duration()),
                call.outcome.to_owned(),
            ]
        });
        table::write(out, style, &["TIME", "CALL", "WHOSE", "TOOK", "OUTCOME"], rows)?;
    }
    if report.calls_left_out > 0 {
        writeln!(out, "and {} faster ones", report.calls_left_out)?;
    }
    if !report.events.is_empty() {
        writeln!(out)?;
        let rows = report.events.iter().map(|event| {
            let said = |value: &serde_json::Value| super::words::or_none(value.as_str().unwrap_or_default());
            let pod = event.get("pod").unwrap_or(&serde_json::Value::Null);
            let field = |key: &str| said(event.get(key).unwrap_or(&serde_json::Value::Null));
            let of_pod = |key: &str| said(pod.get(key).unwrap_or(&serde_json::Value::Null));
            vec![
                brief(field("time")),
                format!("{}/{}", of_pod("namespace"), of_pod("name")),
                field("name"),
                field("type"),
            ]
        });
        table::write(out, style, &["TIME", "POD", "CONTAINER", "EVENT"], rows)?;
    }
    if let Some(line) = not_judged(report) {
        writeln!(out, "{line}")?;
    }
    if report.events_left_out > 0 {
        writeln!(out, "and {} more events", report.events_left_out)?;
    }
    Ok(())
}

/// Describes a jump of the wall clock.
pub fn jumped(jump: &JumpPoint) -> String {
    // Rounded to milliseconds, because two clocks are never read at the same moment.
    let by = (jump.by_seconds.as_f64() * 1000.0).round() / 1000.0;
    let way = if by < 0.0 { "back" } else { "forward" };
    format!(
        "the wall clock was set {way} by {}, to {}",
        took(Duration::from_secs_f64(by.abs())),
        brief(jump.time)
    )
}

/// Lists when the kubelet's metrics were silent, which is a fact of its own.
pub fn silences(looks: &[KubeletPoint]) -> Vec<String> {
    let Some(last) = looks.last() else { return Vec::new() };
    let oldest = looks.iter().filter_map(|look| look.age_seconds).max();
    let mut lines: Vec<String> = looks
        .chunk_by(|left, right| left.outcome == right.outcome)
        .filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            let count = run.len();
            (first.outcome != "ok").then(|| {
                let why = first.message.as_deref().unwrap_or(first.outcome);
                format!(
                    "the kubelet's metrics from {} to {}, {count} times: {}",
                    brief(first.time),
                    brief(last.time),
                    escaped(why)
                )
            })
        })
        .collect();
    let age =
        oldest.map(|oldest| format!(", the age of its last relist was at most {}", took(oldest.duration())));
    lines.push(format!(
        "the kubelet's metrics: {} samples up to {}{}",
        looks.len(),
        brief(last.time),
        age.unwrap_or_default()
    ));
    lines
}

/// Returns when a goroutine dump was judged, the result, and its evidence line by line.
pub fn held_up(stacks: &serde_json::Value) -> (&str, &str, Vec<String>) {
    fn said<'a>(value: &'a serde_json::Value, path: &str) -> &'a str {
        value.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default()
    }
    let findings = stacks.get("findings").and_then(serde_json::Value::as_array).into_iter().flatten();
    let lines = findings.flat_map(|finding| {
        let evidence = finding.get("evidence").and_then(serde_json::Value::as_array).into_iter().flatten();
        let evidence = evidence.filter_map(|line| line.as_str().map(|line| format!("  {line}")));
        let head = format!(
            "{} {} ({})",
            said(finding, "/id"),
            said(finding, "/title"),
            said(finding, "/confidence")
        );
        std::iter::once(head).chain(evidence).collect::<Vec<_>>()
    });
    (said(stacks, "/time"), said(stacks, "/summary"), lines.collect())
}

/// Describes how long no relist succeeded after a recorder started.
pub fn none_yet(report: &CaptureReport) -> impl Iterator<Item = String> {
    report.none_yet().into_iter().map(|(from, to)| {
        format!(
            "no relist succeeded from {} (start of the recorder) to {}, {}: the age shown until then is a \
             lower bound; a kubelet that has just started reports \"pleg has yet to be successful\"",
            brief(from),
            brief(to),
            took(to.duration_since(from))
        )
    })
}

/// A value that grows with time, between two moments.
struct Grows {
    since: Wall,
    from: Wall,
    to: Wall,
    failed: bool,
}

fn latency(report: &CaptureReport) -> impl Iterator<Item = Grows> {
    report.relists.iter().map(|point| {
        let (began, failed) = (point.began(), point.error.is_some());
        Grows { since: began, from: began, to: point.time, failed }
    })
}

fn age(report: &CaptureReport) -> impl Iterator<Item = Grows> {
    let mut before = report.from;
    report.relists.iter().flat_map(move |point| {
        let from = before.max(point.since);
        before = point.time;
        let (since, failed) = (point.since, false);
        match point.listed() {
            Some(listed) => {
                let own = Grows { since: point.began(), from: listed, to: point.time, failed };
                [Some(Grows { since, from, to: listed, failed }), Some(own)]
            }
            None => [Some(Grows { since, from, to: point.time, failed: true }), None],
        }
        .into_iter()
        .flatten()
    })
}

/// Draws the largest value of each column as one letter: eight heights up to `limit`, `!` above it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of the columns or of eight heights"
)]
fn strip(report: &CaptureReport, values: impl Iterator<Item = Grows>, limit: Duration) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let column = report.to.duration_since(report.from).as_secs_f64().max(1e-9) / STRIP as f64;
    let ends = |place: usize| report.from.plus(Duration::from_secs_f64(column * (place + 1) as f64));
    let mut columns: [Option<(f64, bool)>; STRIP] = [None; STRIP];
    for grows in values {
        let place = |time: Wall| {
            let place = (time.duration_since(report.from).as_secs_f64() / column) as usize;
            place.min(STRIP - 1)
        };
        let last = place(grows.to);
        // After a jump back of the clock, a relist still has at least one column.
        for here in place(grows.from).min(last)..=last {
            let value = ends(here).min(grows.to).duration_since(grows.since).as_secs_f64();
            if let Some(place) = columns.get_mut(here) {
                let (worst, bad) = place.unwrap_or((0.0, false));
                *place = Some((worst.max(value), bad || grows.failed && here == last));
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
pub fn check(report: &CheckReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let faulty = |segment: &&CheckedSegment| segment.damaged_bytes > 0 || segment.cut_bytes > 0;
    let rows = report.segments.iter().filter(faulty).map(|segment| {
        vec![
            escaped(&segment.path).into_owned(),
            segment.fault_at.map_or_else(|| super::words::NONE.to_owned(), |at| at.to_string()),
            bytes(segment.damaged_bytes),
            bytes(segment.cut_bytes),
            segment.entries.to_string(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        table::write(out, style, &["SEGMENT", "FAULT-AT", "UNREADABLE", "CUT", "READABLE-ENTRIES"], rows)?;
        writeln!(out)?;
    }
    for loss in &report.losses {
        writeln!(
            out,
            "{}: {} entries were not kept: {}",
            brief(loss.time),
            loss.entries,
            escaped(&loss.why)
        )?;
    }
    let missing = report.missing_answers;
    if report.cut_bytes > 0 {
        let what = "of an incomplete last entry: the recorder was killed, or the file was truncated";
        writeln!(out, "{} {what}", bytes(report.cut_bytes))?;
    }
    if report.not_judged_answers > 0 {
        writeln!(out, "{} answers not judged: {TOO_COSTLY}", report.not_judged_answers)?;
    }
    if report.damaged_bytes == 0 && missing == 0 && report.not_judged_answers == 0 {
        return writeln!(
            out,
            "{} entries in {} segments, all readable",
            report.entries,
            report.segments.len()
        );
    }
    writeln!(
        out,
        "{} entries in {} segments: {} unreadable, {missing} answers lost because of that",
        report.entries,
        report.segments.len(),
        bytes(report.damaged_bytes)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::capture::report::RelistPoint;
    use crate::capture::{Capture, Range};

    /// A capture in which the first relist hangs for 200 seconds.
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
        let mut out = Vec::new();
        report(shown, Style { headers: true, color: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns a strip with repeated letters removed.
    fn letters(text: &str, strip: &str) -> String {
        let line = text.lines().find_map(|line| line.strip_prefix(strip)).unwrap();
        let mut letters: Vec<char> = line.trim_start_matches("  ").chars().collect();
        letters.dedup();
        letters.into_iter().collect()
    }

    #[test]
    fn hang_in_the_first_relist_grows_in_both_strips_and_has_a_note() {
        let text = text(&hung_at_once());
        assert_eq!(letters(&text, "age    "), "▁▂▃▄▅▆▇█!x", "{text}");
        assert_eq!(letters(&text, "latency"), "!x", "{text}");
        assert!(text.contains("\nno relist succeeded from "), "{text}");
    }

    #[test]
    fn jump_of_hours_is_shown_in_whole_hours() {
        let by_seconds = crate::report::Seconds::from_nanos(-10_799_999_999_886);
        let jump = JumpPoint { time: Wall::default(), by_seconds };
        assert!(jumped(&jump).starts_with("the wall clock was set back by 3h, to "), "{}", jumped(&jump));
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
        assert!(!text.contains("had succeeded"), "{text}");
        // The age grows between two relists, when no relist runs.
        assert_eq!(letters(&text, "age    "), "▁▂▃▄▅▆▇█!", "{text}");
        assert_eq!(letters(&text, "latency"), "▁ ▁", "{text}");
    }
}
