//! Writes the findings of `static-pods lint` as annotations for GitHub Actions: one workflow command for each
//! finding.

use std::io::{self, Write};

use crate::manifests::Severity;
use crate::manifests::lint::LintReport;
use crate::report::escape::escaped;

/// Writes a workflow command for each finding.
pub fn write(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    for file in &report.files {
        for finding in &file.findings {
            let mut properties = vec![("file", file.path.clone())];
            properties.extend(finding.line.map(|line| ("line", line.to_string())));
            properties.extend(finding.column.map(|column| ("col", column.to_string())));
            properties.push(("title", finding.id.to_string()));
            annotation(finding.severity, &properties, &finding.message, finding.fix.as_deref(), out)?;
        }
    }
    for finding in &report.runtime_findings {
        let mut properties = Vec::new();
        properties.extend(finding.file.clone().map(|file| ("file", file)));
        properties.push(("title", finding.id.to_string()));
        let message = format!("{}/{}: {}", finding.pod.namespace, finding.pod.name, finding.message);
        annotation(finding.severity, &properties, &message, finding.fix.as_deref(), out)?;
    }
    Ok(())
}

fn annotation(
    severity: Severity,
    properties: &[(&str, String)],
    message: &str,
    fix: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let command = match severity {
        Severity::Critical | Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let properties: Vec<String> =
        properties.iter().map(|(name, value)| format!("{name}={}", encode_property(value))).collect();
    let message = match fix {
        Some(fix) => format!("{message} (fix: {fix})"),
        None => message.to_owned(),
    };
    writeln!(out, "::{command} {}::{}", properties.join(","), encode_message(&message))
}

/// Encodes a message: escapes characters that control a terminal, then encodes what the runner decodes (`%25`,
/// `%0D`, `%0A`).
fn encode_message(text: &str) -> String {
    escaped(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Encodes the value of a property; also encodes `:` and `,`, which separate properties.
fn encode_property(text: &str) -> String {
    encode_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_end_its_command_or_begin_another() {
        assert_eq!(encode_message("100%\n::error::x"), "100%25\\n::error::x");
        assert_eq!(encode_property("a:b,c\u{1b}"), "a%3Ab%2Cc\\u{1b}");
    }
}
