//! Formats the report of `static-pods lint`: each finding with its line and a caret below the error, then one row for
//! each file.

use std::collections::BTreeMap;
use std::io;

use crate::cmd::render::page::{Line, Page};
use crate::cmd::render::source::{counted, fix, label, lines, one_line, source_line};
use crate::cmd::render::table as columns;
use crate::cmd::render::words::{UNKNOWN, or_none};
use crate::manifests::checks::runtime::{MadeFromFile, RuntimeFinding};
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::upgrade::{Upgrade, UpgradedFile};
use crate::manifests::{Check, FileVerdict, LintFinding};

/// The number of findings of one check that are shown for each file.
const MAX_SAME_KIND: usize = 20;

/// Prints every finding, then the pod of each file, then the totals.
pub fn table(report: &LintReport, out: &mut Page<'_>) -> io::Result<()> {
    for linted in &report.files {
        if !linted.findings.is_empty() {
            file(linted, out)?;
            writeln!(out)?;
        }
    }
    if !report.runtime_findings.is_empty() {
        out.colored("1", "what runs:")?;
        for finding in &report.runtime_findings {
            runtime_finding(finding, out)?;
        }
        writeln!(out)?;
    }
    verdicts(report, out)?;
    if let Some(found) = &report.upgrade {
        upgrade(found, out)?;
    }
    writeln!(out, "{} (rules of kubelet {})", report.summary, report.kubelet_version)
}

fn file(linted: &LintedFile, out: &mut Page<'_>) -> io::Result<()> {
    out.line(&Line::colored("1", &linted.path).and("", format_args!(": {}", headline(linted))))?;
    let lines: Vec<&str> = linted.text.as_deref().map(lines).unwrap_or_default();
    let mut counts: BTreeMap<Check, usize> = BTreeMap::new();
    for finding in &linted.findings {
        let count = counts.entry(finding.id).or_default();
        *count += 1;
        if *count <= MAX_SAME_KIND {
            file_finding(finding, &lines, out)?;
        }
    }
    for (id, count) in counts.into_iter().filter(|(_, count)| *count > MAX_SAME_KIND) {
        writeln!(out, "  {id}: {} more like these", count - MAX_SAME_KIND)?;
    }
    if let Some(reason) = &linted.kubelet_reason {
        writeln!(out, "  the kubelet: {}", one_line(reason))?;
    }
    if let Some(consequence) = &linted.consequence {
        writeln!(out, "  so: {consequence}")?;
    }
    Ok(())
}

fn headline(linted: &LintedFile) -> String {
    if linted.is_path {
        return "the path itself".to_owned();
    }
    let word = verdict(linted.verdict);
    match (&linted.pod_namespace, &linted.pod_name) {
        (Some(namespace), Some(name)) => format!("{word} as {namespace}/{name}"),
        _ => word.to_owned(),
    }
}

const fn verdict(verdict: FileVerdict) -> &'static str {
    match verdict {
        FileVerdict::Loaded => "loaded",
        FileVerdict::Rejected => "rejected",
        FileVerdict::Ignored => "ignored",
        FileVerdict::Shadowed => "shadowed",
        FileVerdict::NotJudged => "not judged",
    }
}

fn file_finding(finding: &LintFinding, lines: &[&str], out: &mut Page<'_>) -> io::Result<()> {
    let place = match (finding.line, finding.column) {
        (Some(line), Some(column)) => format!(" line {line}, column {column}"),
        _ => String::new(),
    };
    let label = label("  ", finding.severity, finding.id.id());
    out.line(&label.and("", format_args!("{place}: {}", finding.message)))?;
    if let (Some(line), Some(column)) = (finding.line, finding.column) {
        source_line(lines, line, column, out)?;
    }
    fix(finding.fix.as_deref(), out)
}

fn runtime_finding(finding: &RuntimeFinding, out: &mut Page<'_>) -> io::Result<()> {
    let label = label("  ", finding.severity, finding.id.id());
    let pod = format!("{}/{}", finding.pod.namespace, finding.pod.name);
    out.line(&label.and("", format_args!(" {pod}: {}", finding.message)))?;
    fix(finding.fix.as_deref(), out)
}

/// Prints one row for each file: its verdict, its pod, and whether the running pod was made from this text.
fn verdicts(report: &LintReport, out: &mut Page<'_>) -> io::Result<()> {
    let files: Vec<&LintedFile> = report.files.iter().filter(|file| !file.is_path).collect();
    if files.is_empty() {
        return Ok(());
    }
    // A column without any value is left out.
    let uids = files.iter().any(|file| file.pod_uid.is_some());
    let compared = files.iter().any(|file| file.made_from_file.is_some());
    let without_empty = |all: [String; 5]| {
        let shown = [true, true, true, uids, compared];
        all.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell)).collect::<Vec<String>>()
    };
    let headers = without_empty(["FILE", "VERDICT", "POD", "UID", "RUNS"].map(str::to_owned));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let rows = files.into_iter().map(|file| {
        let pod = match (&file.pod_namespace, &file.pod_name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => String::new(),
        };
        let uid = or_none(file.pod_uid.as_deref().unwrap_or_default());
        let runs = or_none(&file.made_from_file.as_ref().map(made_from).unwrap_or_default());
        without_empty([or_none(&file.path), verdict(file.verdict).to_owned(), or_none(&pod), uid, runs])
    });
    columns::write(out, &headers, rows)?;
    writeln!(out)
}

/// Describes whether the running pod was made from the present text of the file.
fn made_from(made: &MadeFromFile) -> String {
    match made {
        MadeFromFile::Same { by } => format!("this text, by kubelet {}", by.join(" or ")),
        MadeFromFile::Another => "another text".to_owned(),
        MadeFromFile::Unknown => "<unknown>".to_owned(),
    }
}

/// Prints what another release does with each file.
fn upgrade(upgrade: &Upgrade, out: &mut Page<'_>) -> io::Result<()> {
    let (from, to) = (&upgrade.from, &upgrade.to);
    out.colored("1", format_args!("upgrade from kubelet {from} to {to}:"))?;
    let rows = upgrade.files.iter().map(|file| {
        vec![
            or_none(&file.path),
            or_none(&file.pod.as_ref().map(ToString::to_string).unwrap_or_default()),
            file.outcome().to_owned(),
            or_none(file.uid_from.as_deref().unwrap_or_default()),
            or_none(file.uid_to.as_deref().unwrap_or_default()),
            or_none(&file.newly_read.join(", ")),
        ]
    });
    let (before, then) = (format!("UID {from}"), format!("UID {to}"));
    columns::write(out, &["FILE", "POD", "AFTER", &before, &then, "NEWLY READ"], rows)?;
    let count =
        |wanted: &dyn Fn(&UpgradedFile) -> bool| upgrade.files.iter().filter(|file| wanted(file)).count();
    let restarts = count(&|file| file.restarts == Some(true));
    let lost = count(&UpgradedFile::is_lost);
    let pods = |number: usize| counted(number, "pod").unwrap_or_else(|| "no pod".to_owned());
    let lost = match lost {
        0 => "none is refused".to_owned(),
        lost => format!("{} refused and stopped", pods(lost)),
    };
    let unknown = count(&|file| file.outcome() == UNKNOWN);
    if unknown > 0 {
        writeln!(
            out,
            "not known for {}: whether the upgrade restarts it, because a UID is not known",
            pods(unknown)
        )?;
    }
    if unknown == 0 || restarts > 0 {
        writeln!(out, "{} restarted within a minute after the new kubelet starts; {lost}", pods(restarts))?;
    } else {
        writeln!(out, "{lost}")?;
    }
    if let Some(advice) = upgrade.advice {
        writeln!(out, "{advice}")?;
    }
    writeln!(out)
}
