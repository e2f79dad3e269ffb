//! What `record` says while it records, and what `capture` shows, as text.

use std::io::{self, Write};
use std::path::Path;

use super::words::{bytes, took};
use super::{Style, table};
use crate::capture::Exported;
use crate::capture::entry::Incident;
use crate::capture::list::{CaptureList, CheckReport};
use crate::capture::recorder::State;
use crate::clock::Wall;
use crate::diagnosis::HealthReport;
use crate::pleg::OpenCall;
use crate::report::escape::escaped;

/// The recording begins.
pub fn recording(endpoint: &str, directory: &Path, most: u64) -> String {
    let directory = directory.display().to_string();
    format!("recording {} to {}, at most {}", escaped(endpoint), escaped(&directory), bytes(most))
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
    if incident.to == 0 {
        return format!("incident {number}: {}", escaped(&incident.why));
    }
    let lasted = Wall::from_nanos(incident.to).duration_since(Wall::from_nanos(incident.from));
    format!("incident {number} is over after {}", took(lasted))
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
        let lasted = match incident.to {
            Some(to) => took(to.duration_since(incident.from)),
            None => "open".to_owned(),
        };
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

/// `capture check`
pub fn check(report: &CheckReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.segments.iter().filter(|segment| segment.damaged_bytes > 0).map(|segment| {
        vec![
            escaped(&segment.path).into_owned(),
            segment.fault_at.map_or_else(String::new, |at| at.to_string()),
            bytes(segment.damaged_bytes),
            segment.entries.to_string(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        table::write(out, style, &["SEGMENT", "FAULT-AT", "UNREADABLE", "READABLE-ENTRIES"], rows)?;
        writeln!(out)?;
    }
    for loss in &report.losses {
        writeln!(out, "{}: {} entries were not kept: {}", loss.time, loss.entries, escaped(&loss.why))?;
    }
    let missing = report.missing_answers;
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
