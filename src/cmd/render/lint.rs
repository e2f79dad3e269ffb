//! Formats the findings of the linter, each with its line and a caret below the error.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::words::or_none;
use super::{Style, table as columns};
use crate::manifests::checks::runtime::{MadeFromFile, RuntimeFinding};
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::upgrade::{Upgrade, UpgradedFile};
use crate::manifests::{Check, FileVerdict, LintFinding, Severity};
use crate::report::escape::escaped;

/// The number of columns of a line that are shown.
const MAX_COLUMNS: usize = 100;
/// The number of findings of one kind that are shown for each file.
const MAX_SAME_KIND: usize = 20;
/// The number of columns that are shown before the error.
const COLUMNS_BEFORE: usize = 60;

/// Prints every finding, then the pod of each file, then the totals.
pub fn table(report: &LintReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for linted in &report.files {
        if !linted.findings.is_empty() {
            file(linted, style, out)?;
            writeln!(out)?;
        }
    }
    if !report.runtime.is_empty() {
        writeln!(out, "{}", bold("what runs:", style))?;
        for finding in &report.runtime {
            runtime(finding, style, out)?;
        }
        writeln!(out)?;
    }
    verdicts(report, style, out)?;
    if let Some(found) = &report.upgrade {
        upgrade(found, style, out)?;
    }
    sums(report, out)
}

/// Shortens a message to one line: the kubelet may quote a whole file.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let shown: String = text.chars().take(LONGEST).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{more}", escaped(&shown))
}

fn file(linted: &LintedFile, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", bold(&escaped(&linted.path), style), headline(linted))?;
    let lines: Vec<&str> = linted.text.as_deref().map(lines).unwrap_or_default();
    let mut said: BTreeMap<Check, usize> = BTreeMap::new();
    for finding in &linted.findings {
        let count = said.entry(finding.id).or_default();
        *count += 1;
        if *count <= MAX_SAME_KIND {
            one(finding, &lines, style, out)?;
        }
    }
    for (id, count) in said.into_iter().filter(|(_, count)| *count > MAX_SAME_KIND) {
        writeln!(out, "  {id}: {} more like these", count - MAX_SAME_KIND)?;
    }
    if let Some(reason) = &linted.kubelet_reason {
        writeln!(out, "  the kubelet: {}", one_line(reason))?;
    }
    if let Some(consequence) = &linted.consequence {
        writeln!(out, "  so: {}", escaped(consequence))?;
    }
    Ok(())
}

fn headline(linted: &LintedFile) -> String {
    if linted.is_path {
        return "the path itself".to_owned();
    }
    let word = verdict(linted.verdict);
    match (&linted.pod_namespace, &linted.pod_name) {
        (Some(namespace), Some(name)) => format!("{word} as {}/{}", escaped(namespace), escaped(name)),
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

fn one(finding: &LintFinding, lines: &[&str], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let label = label(finding.severity, finding.id.id(), style);
    let place = match (finding.line, finding.column) {
        (Some(line), Some(column)) => format!(" line {line}, column {column}"),
        _ => String::new(),
    };
    writeln!(out, "  {label}{place}: {}", escaped(&finding.message))?;
    if let (Some(line), Some(column)) = (finding.line, finding.column) {
        source_line(lines, line, column, style, out)?;
    }
    fix(finding.fix.as_deref(), out)
}

fn runtime(finding: &RuntimeFinding, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let label = label(finding.severity, finding.id.id(), style);
    let pod = format!("{}/{}", finding.pod.namespace, finding.pod.name);
    writeln!(out, "  {label} {}: {}", escaped(&pod), escaped(&finding.message))?;
    fix(finding.fix.as_deref(), out)
}

fn fix(fix: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    match fix {
        Some(fix) => writeln!(out, "    fix: {}", escaped(fix)),
        None => Ok(()),
    }
}

fn label(severity: Severity, id: &str, style: Style) -> String {
    let (word, color) = match severity {
        Severity::Critical | Severity::Error => ("error", "31"),
        Severity::Warning => ("warning", "33"),
        Severity::Info => ("info", "36"),
    };
    let label = format!("{word}[{id}]");
    if style.color { format!("\u{1b}[{color};1m{label}\u{1b}[0m") } else { label }
}

fn bold(text: &str, style: Style) -> String {
    if style.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn source_line(lines: &[&str], line: u32, column: u32, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(found) = lines.get(index) else { return Ok(()) };
    let before = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let skipped = before.saturating_sub(COLUMNS_BEFORE);
    let shown: String = found.chars().skip(skipped).take(MAX_COLUMNS).collect();
    let ahead: String = shown.chars().take(before - skipped).collect();
    let caret = " ".repeat(escaped(&ahead).chars().count());
    let gutter = line.to_string();
    let blank = " ".repeat(gutter.len());
    let mark = if style.color { "\u{1b}[31;1m^\u{1b}[0m" } else { "^" };
    writeln!(out, "    {gutter} | {}", escaped(shown.trim_end()))?;
    writeln!(out, "    {blank} | {caret}{mark}")
}

/// Splits the text at the parser's line breaks, which are those of YAML 1.1.
fn lines(text: &str) -> Vec<&str> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Vec::new();
    while let Some(end) = rest.find(is_break) {
        let (line, tail) = rest.split_at(end);
        lines.push(line);
        let tail = tail.strip_prefix("\r\n").or_else(|| tail.strip_prefix(is_break));
        rest = tail.unwrap_or_default();
    }
    lines.push(rest);
    lines
}

const fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn verdicts(report: &LintReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let files: Vec<&LintedFile> = report.files.iter().filter(|file| !file.is_path).collect();
    if files.is_empty() {
        return Ok(());
    }
    // A column without any value is left out.
    let uids = files.iter().any(|file| file.pod_uid.is_some());
    let compared = files.iter().any(|file| file.runs.is_some());
    let kept = |all: [String; 5]| {
        let shown = [true, true, true, uids, compared];
        all.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell)).collect::<Vec<String>>()
    };
    let headers = kept(["FILE", "VERDICT", "POD", "UID", "RUNS"].map(str::to_owned));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let rows = files.into_iter().map(|file| {
        let pod = match (&file.pod_namespace, &file.pod_name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => String::new(),
        };
        let uid = or_none(file.pod_uid.as_deref().unwrap_or_default());
        let runs = or_none(&file.runs.as_ref().map(made).unwrap_or_default());
        kept([or_none(&file.path), verdict(file.verdict).to_owned(), or_none(&pod), uid, runs])
    });
    columns::write(out, style, &headers, rows)?;
    writeln!(out)
}

/// Describes how the running pod differs from the file.
fn made(made: &MadeFromFile) -> String {
    match made {
        MadeFromFile::Same { by } => format!("this text, by kubelet {}", by.join(" or ")),
        MadeFromFile::Another => "another text".to_owned(),
        MadeFromFile::Unknown => "<unknown>".to_owned(),
    }
}

/// Prints what another release does with each file.
fn upgrade(upgrade: &Upgrade, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (from, to) = (&upgrade.from, &upgrade.to);
    writeln!(out, "{}", bold(&format!("upgrade from kubelet {from} to {to}:"), style))?;
    let rows = upgrade.files.iter().map(|file| {
        vec![
            or_none(&file.path),
            or_none(file.pod.as_deref().unwrap_or_default()),
            after(file).to_owned(),
            or_none(file.uid_from.as_deref().unwrap_or_default()),
            or_none(file.uid_to.as_deref().unwrap_or_default()),
            or_none(&file.newly_read.join(", ")),
        ]
    });
    let (before, then) = (format!("UID {from}"), format!("UID {to}"));
    columns::write(out, style, &["FILE", "POD", "AFTER", &before, &then, "NEWLY READ"], rows)?;
    let count =
        |wanted: &dyn Fn(&UpgradedFile) -> bool| upgrade.files.iter().filter(|file| wanted(file)).count();
    let restarts = count(&|file| file.restarts == Some(true));
    let lost = count(&UpgradedFile::is_lost);
    let pods = |number: usize| counted(number, "pod").unwrap_or_else(|| "no pod".to_owned());
    let lost = match lost {
        0 => "none is refused".to_owned(),
        lost => format!("{} refused and stopped", pods(lost)),
    };
    writeln!(out, "{} restarted within a minute after the new kubelet starts; {lost}\n", pods(restarts))
}

fn after(file: &UpgradedFile) -> &'static str {
    match (file.verdict_from, file.verdict_to, file.restarts) {
        _ if file.is_lost() => "refused",
        (FileVerdict::Loaded, FileVerdict::Loaded, Some(true)) => "restarts",
        (FileVerdict::Loaded, FileVerdict::Loaded, Some(false)) => "runs on",
        (FileVerdict::Loaded, FileVerdict::Loaded, None) => "<unknown>",
        (_, FileVerdict::Loaded, _) => "starts",
        _ => "as before",
    }
}

fn sums(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    let sums = &report.summary;
    let verdicts = [
        (sums.loaded, "loaded"),
        (sums.rejected, "rejected"),
        (sums.shadowed, "shadowed"),
        (sums.ignored, "ignored"),
        (sums.not_judged, "not judged"),
    ];
    let findings = [
        counted(sums.errors, "error"),
        counted(sums.warnings, "warning"),
        match sums.infos {
            0 => None,
            infos => Some(format!("{infos} info")),
        },
    ];
    let verdicts: Vec<String> = verdicts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let findings: Vec<String> = findings.into_iter().flatten().collect();
    let files = counted(sums.files, "file").unwrap_or_else(|| "no file".to_owned());
    let verdicts = if verdicts.is_empty() { String::new() } else { format!(": {}", verdicts.join(", ")) };
    let findings = if findings.is_empty() { "no finding".to_owned() } else { findings.join(", ") };
    writeln!(out, "{files}{verdicts}; {findings} (rules of kubelet {})", report.kubelet_version)
}

fn counted(count: usize, word: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{count} {word}s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caret(text: &str, line: u32, column: u32) -> String {
        let mut out = Vec::new();
        source_line(&lines(text), line, column, Style { headers: true, color: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_caret_stands_under_the_fault() {
        assert_eq!(caret("a: 1\nbc: 2\n", 2, 5), "    2 | bc: 2\n      |     ^\n");
    }

    #[test]
    fn what_is_escaped_moves_the_caret() {
        assert_eq!(caret("\u{1b}[31m: 2", 1, 8), "    1 | \\u{1b}[31m: 2\n      |             ^\n");
    }

    #[test]
    fn every_line_break_of_the_parser_counts() {
        for text in ["a\nb", "a\r\nb", "a\rb", "a\u{2028}b"] {
            assert_eq!(lines(text), ["a", "b"], "{text:?}");
        }
        assert_eq!(lines("a\n"), ["a", ""]);
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut_around_the_fault() {
        let text = format!("{}X{}", "a".repeat(500_000), "b".repeat(500_000));
        let shown = caret(&text, 1, 500_001);
        assert!(shown.contains("aaaaXbbb") && shown.len() < 300, "{}", shown.len());
    }
}
