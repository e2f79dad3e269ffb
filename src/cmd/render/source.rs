//! Formats the parts of a finding in a file that `static-pods lint` and `preflight` share: the label, the line of the
//! file, and a caret below the error.

use std::io;

use super::page::{Line, Page};
use crate::report::Severity;
use crate::report::escape::escaped;

pub use crate::manifests::lint::counted;

/// The number of columns of a line that are shown.
const MAX_COLUMNS: usize = 100;
/// The number of columns that are shown before the error.
const COLUMNS_BEFORE: usize = 60;

/// Shortens a message to one line: the kubelet may quote a whole file.
pub fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let shown: String = text.chars().take(LONGEST).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}

/// Begins a line with the label of a finding, such as `error[SP001]`.
pub fn label(indent: &str, severity: Severity, id: &str) -> Line {
    let (word, color) = match severity {
        Severity::Critical | Severity::Error => ("error", "31;1"),
        Severity::Warning => ("warning", "33;1"),
        Severity::Info => ("info", "36;1"),
    };
    Line::from(indent).and(color, format_args!("{word}[{id}]"))
}

/// Prints a line of a file and a caret below the column.
pub fn source_line(lines: &[&str], line: u32, column: u32, out: &mut Page<'_>) -> io::Result<()> {
    let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(found) = lines.get(index) else { return Ok(()) };
    let before = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let skipped = before.saturating_sub(COLUMNS_BEFORE);
    let shown: String = found.chars().skip(skipped).take(MAX_COLUMNS).collect();
    let text_before: String = shown.chars().take(before - skipped).collect();
    let caret = " ".repeat(escaped(&text_before).chars().count());
    let gutter = line.to_string();
    let blank = " ".repeat(gutter.len());
    writeln!(out, "    {gutter} | {}", shown.trim_end())?;
    out.line(&Line::from(format!("    {blank} | {caret}")).and("31;1", "^"))
}

/// Prints how to fix a finding, if that is known.
pub fn fix(fix: Option<&str>, out: &mut Page<'_>) -> io::Result<()> {
    match fix {
        Some(fix) => writeln!(out, "    fix: {fix}"),
        None => Ok(()),
    }
}

/// Splits text into lines at the line breaks of YAML 1.1, so that the line numbers are those of the parser.
pub fn lines(text: &str) -> Vec<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::render::PLAIN;
    use crate::cmd::render::page::tests::printed;

    fn caret(text: &str, line: u32, column: u32) -> String {
        printed(PLAIN, |page| source_line(&lines(text), line, column, page))
    }

    #[test]
    fn the_caret_is_below_the_error() {
        assert_eq!(caret("a: 1\nbc: 2\n", 2, 5), "    2 | bc: 2\n      |     ^\n");
    }

    #[test]
    fn escaped_characters_before_the_error_move_the_caret() {
        assert_eq!(caret("\u{1b}[31m: 2", 1, 8), "    1 | \\u{1b}[31m: 2\n      |             ^\n");
    }

    #[test]
    fn lines_end_at_every_line_break_of_the_parser() {
        for text in ["a\nb", "a\r\nb", "a\rb", "a\u{2028}b"] {
            assert_eq!(lines(text), ["a", "b"], "{text:?}");
        }
        assert_eq!(lines("a\n"), ["a", ""]);
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut_around_the_error() {
        let text = format!("{}X{}", "a".repeat(500_000), "b".repeat(500_000));
        let shown = caret(&text, 1, 500_001);
        assert!(shown.contains("aaaaXbbb") && shown.len() < 300, "{}", shown.len());
    }
}
