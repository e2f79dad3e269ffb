//! Formats the report of `static-pods lint`: each finding with its line and a caret below the error, then one row for
//! each file.

use std::collections::BTreeMap;
use std::io;

use crate::cmd::render::page::{Line, Page};
use crate::cmd::render::preflight::upgrade_columns;
use crate::cmd::render::source::{counted, fix, label, lines, one_line, source_line};
use crate::cmd::render::table::{self, Column};
use crate::cmd::render::words::UNKNOWN;
use crate::manifests::checks::runtime::{MadeFromFile, RuntimeFinding};
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::upgrade::{Upgrade, UpgradedFile};
use crate::manifests::{Check, FileVerdict, LintFinding};

/// The number of findings of one check that are shown for each file.
const MAX_SAME_KIND: usize = 20;

type FileColumn<'a> = Column<'a, LintedFile>;

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
    pod(linted).map_or_else(|| word.to_owned(), |pod| format!("{word} as {pod}"))
}

fn pod(linted: &LintedFile) -> Option<String> {
    Some(format!("{}/{}", linted.pod_namespace.as_ref()?, linted.pod_name.as_ref()?))
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
    let mut files = report.files.iter().filter(|file| !file.is_path).peekable();
    if files.peek().is_none() {
        return Ok(());
    }
    let columns = vec![
        FileColumn::new("FILE", |file| file.path.clone()),
        FileColumn::new("VERDICT", |file| verdict(file.verdict).to_owned()),
        FileColumn::new("POD", pod),
        FileColumn::new("UID", |file| file.pod_uid.clone()).unless_empty(),
        FileColumn::new("RUNS", |file| file.made_from_file.as_ref().map(made_from)).unless_empty(),
    ];
    table::write(out, columns, files)?;
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
    let mut columns = upgrade_columns();
    columns.extend([
        Column::new(format!("UID {from}"), |file: &UpgradedFile| file.uid_from.clone()),
        Column::new(format!("UID {to}"), |file: &UpgradedFile| file.uid_to.clone()),
        Column::new("NEWLY READ", |file: &UpgradedFile| file.newly_read.join(", ")),
    ]);
    table::write(out, columns, &upgrade.files)?;
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
