//! Formats the report of `plegctl preflight`: each finding with its line and a caret below the error, then the
//! answer.

use std::io;

use super::page::Page;
use super::source::{counted, fix, label, lines, one_line, source_line};
use super::table::{self, Column};
use crate::manifests::preflight::{PreflightReport, StartFinding};
use crate::manifests::upgrade::UpgradedFile;
use crate::report::Confidence;

/// Prints every finding, then what was not checked, then the answer.
pub fn table(report: &PreflightReport, out: &mut Page<'_>) -> io::Result<()> {
    for finding in &report.findings {
        print_finding(finding, report, out)?;
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    if !report.pods.is_empty() {
        pods(report, out)?;
    }
    for skipped in &report.not_checked {
        writeln!(out, "not checked: {}: {}", skipped.what, skipped.why)?;
    }
    if !report.not_checked.is_empty() {
        writeln!(out)?;
    }
    out.colored("1", &report.summary)?;
    let counts = report.counts;
    let infos = (counts.infos > 0).then(|| format!("{} info", counts.infos));
    let by_severity = [counted(counts.errors, "error"), counted(counts.warnings, "warning"), infos];
    let present: Vec<String> = by_severity.into_iter().flatten().collect();
    let totals = if present.is_empty() { "no finding".to_owned() } else { present.join(", ") };
    let release = report.upgrade_to.as_ref().or(report.release.as_ref()).map_or("?", String::as_str);
    writeln!(out, "{totals} (rules of kubelet {release}; {})", report.settings)
}

fn print_finding(finding: &StartFinding, report: &PreflightReport, out: &mut Page<'_>) -> io::Result<()> {
    let place = match (&finding.file, finding.line, finding.column) {
        (Some(file), Some(line), Some(column)) => format!(" {file}:{line}:{column}"),
        (Some(file), _, _) => format!(" {file}"),
        _ => String::new(),
    };
    let sure = match finding.confidence {
        Confidence::Certain => String::new(),
        confidence => format!(" ({})", confidence.as_str()),
    };
    let label = label("", finding.severity, finding.id.id());
    out.line(&label.and("", format_args!("{place}: {}{sure}", finding.message)))?;
    let text = report.texts.iter().find(|text| finding.file.as_deref() == Some(&*text.path));
    if let (Some(text), Some(line), Some(column)) = (text, finding.line, finding.column) {
        source_line(&lines(&text.text), line, column, out)?;
    }
    if let Some(reason) = &finding.kubelet_reason {
        writeln!(out, "    the kubelet: {}", one_line(reason))?;
    }
    fix(finding.fix.as_deref(), out)
}

/// Returns the columns that `preflight` and `static-pods lint` show of a static pod after an upgrade.
pub fn upgrade_columns() -> Vec<Column<'static, UpgradedFile>> {
    vec![
        Column::new("FILE", |file: &UpgradedFile| file.path.clone()),
        Column::new("POD", |file: &UpgradedFile| file.pod.as_ref().map(ToString::to_string)),
        Column::new("AFTER", |file: &UpgradedFile| file.outcome().to_owned()),
    ]
}

/// Prints a row for each static pod: its file, its name and what happens to it after the upgrade.
fn pods(report: &PreflightReport, out: &mut Page<'_>) -> io::Result<()> {
    table::write(out, upgrade_columns(), &report.pods)?;
    writeln!(out)
}
