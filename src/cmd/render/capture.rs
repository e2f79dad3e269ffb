//! What `record` says while it records, and what `capture` shows, as text.

use std::io::{self, Write};
use std::path::Path;

use super::words::took;
use super::{Style, table};
use std::time::Duration;

use crate::capture::Exported;
use crate::capture::entry::Incident;
use crate::capture::list::{CaptureList, CheckReport, CheckedSegment, ListedIncident};
use crate::capture::recorder::State;
use crate::capture::report::{CaptureReport, JumpPoint, KubeletPoint};
use crate::clock::Wall;
use crate::diagnosis::HealthReport;
use crate::pleg::OpenCall;
use crate::report::Seconds;
use crate::report::bytes::bytes;
use crate::report::escape::escaped;

/// The recording begins.
pub fn recording(endpoint: &str, directory: &Path, most: u64) -> String {
    let directory = directory.display().to_string();
    format!("recording {} to {}, at most {}", escaped(endpoint), escaped(&directory), bytes(most))
}

/// The event stream is not read.
pub fn not_listening(why: &str) -> String {
    format!("the event stream is not recorded: {}", escaped(why))
}

/// The recording is over.
pub fn recorded(relists: u64, incidents: u64, state: &State, written: bool) -> String {
    let lost = if state.lost > 0 { format!(", {} entries lost", state.lost) } else { String::new() };
    let trouble = match &state.trouble {
        Some(trouble) => format!(": {}", escaped(trouble)),
        None if !written => "; the disk did not take the last of it in time".to_owned(),
        None => String::new(),
    };
    format!(
        "recorded {relists} relists and {incidents} incidents: {} in {} segments{lost}{trouble}",
        bytes(state.extent.bytes),
        state.extent.segments
    )
}

/// A call that has no answer yet.
pub fn open_call(open: &OpenCall) -> String {
    match (&open.pod, &open.id) {
        (Some(pod), _) if !pod.name.is_empty() => format!("{} of {}/{}", open.rpc, pod.namespace, pod.name),
        (_, Some(id)) => format!("{} of {id}", open.rpc),
        _ => open.rpc.to_string(),
    }
}

/// An incident is opened, or over.
pub fn incident(incident: &Incident) -> String {
    let number = incident.number;
    match incident.duration() {
        None => format!("incident {number}: {}", escaped(&incident.why)),
        Some(lasted) => format!("incident {number} is over after {}", took(lasted)),
    }
}

/// Line 1 of a diagnosis.
pub fn verdict_line(report: &HealthReport) -> String {
    let verdict = report.verdict.as_str().to_uppercase();
    match &report.primary {
        Some(finding) => {
            format!("{verdict}: {} ({}, {})", finding.title, finding.id, finding.confidence.as_str())
        }
        None => format!("{verdict}: nothing found"),
    }
}

/// The diagnosis of an incident.
pub fn judged(number: u64, report: &HealthReport) -> String {
    format!("incident {number}: {}", escaped(&verdict_line(report)))
}

fn lasted(incident: &ListedIncident) -> String {
    incident.lasted_seconds.map_or_else(|| "open".to_owned(), |lasted| took(lasted.duration()))
}

/// `capture ls`
pub fn list(list: &CaptureList, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} to {}, {} relists, {} in {} segments",
        list.from,
        list.to,
        list.relists,
        bytes(list.bytes),
        list.segments
    )?;
    if list.dropped > 0 {
        writeln!(out, "{} older segments were given up to keep within bounds", list.dropped)?;
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
            incident.from.to_string(),
            lasted,
            incident.verdict.clone().unwrap_or_else(|| super::words::UNKNOWN.to_owned()),
            if incident.pinned { "yes" } else { "no" }.to_owned(),
            escaped(incident.summary.as_deref().unwrap_or(&incident.why)).into_owned(),
        ]
    });
    table::write(out, style, &["INCIDENT", "FROM", "LASTED", "VERDICT", "KEPT", "WHAT"], rows)
}

/// `capture export`
pub fn exported(exported: Exported) -> String {
    match exported.names {
        0 => format!("{} entries written", exported.entries),
        names => format!("{} entries written, {names} names replaced", exported.entries),
    }
}

/// How many columns a strip has.
const STRIP: usize = 72;

/// `capture report`: a strip for latency, one for age, then incidents, calls and events.
pub fn report(report: &CaptureReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} to {}, {}", report.from, report.to, escaped(&report.runtime))?;
    let latency = report.relists.iter().map(|point| (point.time, point.duration_seconds));
    let age = report.relists.iter().map(|point| (point.time, point.age_seconds));
    let threshold = report.threshold_seconds;
    writeln!(out, "latency  {}", strip(report, latency, report.slow_seconds.duration()))?;
    writeln!(out, "age      {}", strip(report, age, threshold.duration()))?;
    let slowest = report.relists.iter().map(|point| point.duration_seconds).max().unwrap_or_default();
    let oldest = report.relists.iter().map(|point| point.age_seconds).max().unwrap_or_default();
    writeln!(
        out,
        "         {} relists, the slowest {}; the oldest {} of {}; `!` is beyond, `x` failed",
        report.relists.len(),
        took(slowest.duration()),
        took(oldest.duration()),
        took(threshold.duration())
    )?;
    for incident in &report.incidents {
        let lasted = lasted(incident);
        let what = incident.summary.as_deref().unwrap_or(&incident.why);
        writeln!(out, "\nincident {} at {}, {lasted}: {}", incident.number, incident.from, escaped(what))?;
        writeln!(out, "  opened because: {}", escaped(&incident.why))?;
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
                call.time.to_string(),
                call.rpc.clone(),
                super::words::or_none(whose),
                took(call.duration_seconds.duration()),
                call.outcome.to_owned(),
            ]
        });
        table::write(out, style, &["TIME", "CALL", "WHOSE", "TOOK", "OUTCOME"], rows)?;
    }
    if report.calls_left_out > 0 {
        writeln!(out, "and {} quicker ones", report.calls_left_out)?;
    }
    if !report.events.is_empty() {
        writeln!(out)?;
        let rows = report.events.iter().map(|event| {
            let said = |value: &serde_json::Value| super::words::or_none(value.as_str().unwrap_or_default());
            let pod = event.get("pod").unwrap_or(&serde_json::Value::Null);
            let field = |key: &str| said(event.get(key).unwrap_or(&serde_json::Value::Null));
            let of_pod = |key: &str| said(pod.get(key).unwrap_or(&serde_json::Value::Null));
            vec![
                field("time"),
                format!("{}/{}", of_pod("namespace"), of_pod("name")),
                field("name"),
                field("type"),
            ]
        });
        table::write(out, style, &["TIME", "POD", "CONTAINER", "EVENT"], rows)?;
    }
    if report.events_left_out > 0 {
        writeln!(out, "and {} more events", report.events_left_out)?;
    }
    Ok(())
}

/// The wall clock was set.
pub fn jumped(jump: &JumpPoint) -> String {
    let by = jump.by_seconds.as_f64();
    let way = if by < 0.0 { "back" } else { "forward" };
    format!("the wall clock was set {way} by {}, to {}", took(Duration::from_secs_f64(by.abs())), jump.time)
}

/// When the kubelet's own metrics said nothing: a fact as good as any that they tell.
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
                    first.time,
                    last.time,
                    escaped(why)
                )
            })
        })
        .collect();
    let age = oldest.map(|oldest| format!(", its last relist never older than {}", took(oldest.duration())));
    lines.push(format!(
        "the kubelet's metrics: {} looks up to {}{}",
        looks.len(),
        last.time,
        age.unwrap_or_default()
    ));
    lines
}

/// When somebody looked at the runtime's goroutines, what that came to, and line by line why.
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

/// The largest value of each column, as one letter: eight heights up to `limit`, `!` beyond it.
fn strip(report: &CaptureReport, values: impl Iterator<Item = (Wall, Seconds)>, limit: Duration) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let failed = |time: Wall| report.relists.iter().any(|point| point.time == time && point.error.is_some());
    let whole = report.to.duration_since(report.from).as_secs_f64().max(1e-9);
    let mut columns: [Option<(f64, bool)>; STRIP] = [None; STRIP];
    for (time, value) in values {
        let share = time.duration_since(report.from).as_secs_f64() / whole;
        let share = share.clamp(0.0, 0.999_999);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of 72 columns"
        )]
        let column = (share * STRIP as f64) as usize;
        if let Some(place) = columns.get_mut(column) {
            let (worst, bad) = place.unwrap_or((0.0, false));
            *place = Some((worst.max(value.as_f64()), bad || failed(time)));
        }
    }
    let letter = |column: &Option<(f64, bool)>| match column {
        None => ' ',
        Some((_, true)) => 'x',
        Some((value, false)) if *value > limit.as_secs_f64() => '!',
        Some((value, false)) => {
            let share = value / limit.as_secs_f64().max(1e-9);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of eight heights"
            )]
            let height = (share * 8.0) as usize;
            HEIGHTS.get(height).copied().unwrap_or('█')
        }
    };
    columns.iter().map(letter).collect()
}

/// `capture check`
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
        writeln!(out, "{}: {} entries were not kept: {}", loss.time, loss.entries, escaped(&loss.why))?;
    }
    let missing = report.missing_answers;
    if report.cut_bytes > 0 {
        let what = "of a last entry that was never whole: the recorder was killed, or the file was cut";
        writeln!(out, "{} {what}", bytes(report.cut_bytes))?;
    }
    if report.damaged_bytes == 0 && missing == 0 {
        return writeln!(
            out,
            "{} entries in {} segments, all readable",
            report.entries,
            report.segments.len()
        );
    }
    writeln!(
        out,
        "{} entries in {} segments; {} unreadable, {missing} answers lost with them",
        report.entries,
        report.segments.len(),
        bytes(report.damaged_bytes)
    )
}
