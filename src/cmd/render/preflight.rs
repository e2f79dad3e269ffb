//! Formats the findings of preflight, each with its line and a caret below the fault.

use std::io::{self, Write};

use super::source::{bold, counted, label, lines, one_line, source_line};
use super::words::or_none;
use super::{Style, table as columns};
use crate::manifests::preflight::{PreflightReport, StartFinding};
use crate::report::Confidence;
use crate::report::escape::escaped;

/// Prints every finding, then what was not checked, then the answer.
pub fn table(report: &PreflightReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        one(finding, report, style, out)?;
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    if !report.pods.is_empty() {
        pods(report, style, out)?;
    }
    for skipped in &report.not_checked {
        writeln!(out, "not checked: {}: {}", escaped(&skipped.what), escaped(&skipped.why))?;
    }
    if !report.not_checked.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", bold(&escaped(&report.summary), style))?;
    let counts = report.counts;
    let infos = (counts.infos > 0).then(|| format!("{} info", counts.infos));
    let all = [counted(counts.errors, "error"), counted(counts.warnings, "warning"), infos];
    let all: Vec<String> = all.into_iter().flatten().collect();
    let all = if all.is_empty() { "no finding".to_owned() } else { all.join(", ") };
    let release = report.upgrade_to.as_ref().or(report.release.as_ref()).map_or("?", String::as_str);
    writeln!(out, "{all} (rules of kubelet {release}; {})", escaped(&report.settings))
}

fn one(
    finding: &StartFinding,
    report: &PreflightReport,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let label = label(finding.severity, finding.id.id(), style);
    let place = match (&finding.file, finding.line, finding.column) {
        (Some(file), Some(line), Some(column)) => format!(" {}:{line}:{column}", escaped(file)),
        (Some(file), _, _) => format!(" {}", escaped(file)),
        _ => String::new(),
    };
    let sure = match finding.confidence {
        Confidence::Certain => String::new(),
        confidence => format!(" ({})", confidence.as_str()),
    };
    writeln!(out, "{label}{place}: {}{sure}", escaped(&finding.message))?;
    let text = report.texts.iter().find(|text| finding.file.as_deref() == Some(&*text.path));
    if let (Some(text), Some(line), Some(column)) = (text, finding.line, finding.column) {
        source_line(&lines(&text.text), line, column, style, out)?;
    }
    if let Some(reason) = &finding.kubelet_reason {
        writeln!(out, "    the kubelet: {}", one_line(reason))?;
    }
    match &finding.fix {
        Some(fix) => writeln!(out, "    fix: {}", escaped(fix)),
        None => Ok(()),
    }
}

fn pods(report: &PreflightReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.pods.iter().map(|file| {
        vec![or_none(&file.path), or_none(file.pod.as_deref().unwrap_or_default()), file.outcome().to_owned()]
    });
    columns::write(out, style, &["FILE", "POD", "AFTER"], rows)?;
    writeln!(out)
}
