//! What the linter found, with the line it is about and a caret under the fault.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::words::or_none;
use super::{Style, table as columns};
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::{CheckId, Finding, Severity, Verdict};
use crate::report::escape::escaped;

/// The widest part of a line that is shown.
const SHOWN: usize = 100;
/// So many findings of one kind in a file are shown.
const OF_ONE_KIND: usize = 20;
/// How much of it stands before the fault.
const BEFORE: usize = 60;

/// Writes every finding, then which file gives which pod, then the sums.
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
    sums(report, out)
}

/// Never more than a line of what the kubelet says: it may quote a whole file.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let shown: String = text.chars().take(LONGEST).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{more}", escaped(&shown))
}

fn file(linted: &LintedFile, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", bold(&escaped(&linted.path), style), headline(linted))?;
    let lines: Vec<&str> = linted.text.as_deref().map(lines).unwrap_or_default();
    let mut said: BTreeMap<CheckId, usize> = BTreeMap::new();
    for finding in &linted.findings {
        let count = said.entry(finding.id).or_default();
        *count += 1;
        if *count <= OF_ONE_KIND {
            one(finding, &lines, style, out)?;
        }
    }
    for (id, count) in said.into_iter().filter(|(_, count)| *count > OF_ONE_KIND) {
        writeln!(out, "  {id}: {} more like these", count - OF_ONE_KIND)?;
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

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Loaded => "loaded",
        Verdict::Rejected => "rejected",
        Verdict::Ignored => "ignored",
        Verdict::Shadowed => "shadowed",
        Verdict::NotJudged => "not judged",
    }
}

fn one(finding: &Finding, lines: &[&str], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let label = label(finding.severity, &finding.id.to_string(), style);
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
    let label = label(finding.severity, &finding.id.to_string(), style);
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
    let skipped = before.saturating_sub(BEFORE);
    let shown: String = found.chars().skip(skipped).take(SHOWN).collect();
    let ahead: String = shown.chars().take(before - skipped).collect();
    let caret = " ".repeat(escaped(&ahead).chars().count());
    let gutter = line.to_string();
    let blank = " ".repeat(gutter.len());
    let mark = if style.color { "\u{1b}[31;1m^\u{1b}[0m" } else { "^" };
    writeln!(out, "    {gutter} | {}", escaped(shown.trim_end()))?;
    writeln!(out, "    {blank} | {caret}{mark}")
}

/// The parser's lines: it knows the line breaks of YAML 1.1.
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
    let rows = files.into_iter().map(|file| {
        let pod = match (&file.pod_namespace, &file.pod_name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => String::new(),
        };
        vec![or_none(&file.path), verdict(file.verdict).to_owned(), or_none(&pod)]
    });
    columns::write(out, style, &["FILE", "VERDICT", "POD"], rows)?;
    writeln!(out)
}

fn sums(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    let sums = &report.summary;
    let verdicts = [
        (sums.loaded, "loaded"),
        (sums.rejected, "rejected"),
        (sums.shadowed, "shadowed"),
        (sums.ignored, "ignored"),
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
