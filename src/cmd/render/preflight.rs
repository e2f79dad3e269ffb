//! Formats the report of `plegctl preflight`: each finding with its line and a caret below the error, then the
//! answer.

use std::io::{self, Write};

use super::Style;
use super::source::{bold, counted, fix, label, lines, one_line, source_line};
use super::words::or_none;
use crate::manifests::preflight::{PreflightReport, StartFinding};
use crate::report::Confidence;
use crate::report::escape::escaped;

/// Prints every finding, then what was not checked, then the answer.
pub fn table(report: &PreflightReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        print_finding(finding, report, style, out)?;
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
    let by_severity = [counted(counts.errors, "error"), counted(counts.warnings, "warning"), infos];
    let present: Vec<String> = by_severity.into_iter().flatten().collect();
    let totals = if present.is_empty() { "no finding".to_owned() } else { present.join(", ") };
    let release = report.upgrade_to.as_ref().or(report.release.as_ref()).map_or("?", String::as_str);
    writeln!(out, "{totals} (rules of kubelet {release}; {})", escaped(&report.settings))
}

fn print_finding(
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
    fix(finding.fix.as_deref(), out)
}

/// Prints a row for each static pod: its file, its name and what happens to it after the upgrade.
fn pods(report: &PreflightReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.pods.iter().map(|upgraded| {
        let pod = upgraded.pod.as_ref().map(ToString::to_string).unwrap_or_default();
        vec![or_none(&upgraded.path), or_none(&pod), upgraded.outcome().to_owned()]
    });
    super::table::write(out, style, &["FILE", "POD", "AFTER"], rows)?;
    writeln!(out)
}
