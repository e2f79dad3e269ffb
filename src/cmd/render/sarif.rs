//! Writes the findings of `static-pods lint` and `preflight` as SARIF 2.1.0, a common format for findings. The types
//! have the names of the SARIF standard.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::json;
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::preflight::{PreflightReport, StartCheck, StartFinding};
use crate::manifests::{Check, LintFinding, Severity};
use crate::report::Rule;

/// A SARIF document with one run.
#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<SarifResult<'a>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<ReportingDescriptor>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportingDescriptor {
    id: &'static str,
    short_description: Message<'static>,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    text: Cow<'a, str>,
}

/// A finding; SARIF calls it a result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: &'static str,
    message: Message<'a>,
    locations: [Location<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_locations: Option<[LogicalLocation<'a>; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
struct ArtifactLocation {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
    start_column: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'a> {
    fully_qualified_name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
}

/// Writes one run with every finding of the linter.
pub fn write(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<_> = Check::ALL.iter().map(|check| (check.row().rule, check.row().severity)).collect();
    let in_files = report
        .files
        .iter()
        .flat_map(|file| file.findings.iter().map(|finding| of_lint_finding(file, finding)));
    write_run(&rules, in_files.chain(report.runtime_findings.iter().map(of_runtime_finding)).collect(), out)
}

/// Writes one run with every finding of preflight.
pub fn write_preflight(report: &PreflightReport, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<_> =
        StartCheck::ALL.iter().map(|check| (check.row().rule, check.row().severity)).collect();
    write_run(&rules, report.findings.iter().map(of_start_finding).collect(), out)
}

fn write_run(
    rules: &[(&'static Rule, Severity)],
    mut results: Vec<SarifResult<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for result in &mut results {
        result.rule_index = rules.iter().position(|(rule, _)| rule.id == result.rule_id);
    }
    let rules = rules.iter().map(|(rule, severity)| ReportingDescriptor {
        id: rule.id,
        short_description: Message { text: rule.title.into() },
        default_configuration: Configuration { level: level(*severity) },
    });
    let driver = Driver { name: "plegctl", version: env!("CARGO_PKG_VERSION"), rules: rules.collect() };
    let run = Run { tool: Tool { driver }, column_kind: "unicodeCodePoints", results };
    let log = Log { schema: "https://json.schemastore.org/sarif-2.1.0.json", version: "2.1.0", runs: [run] };
    json::pretty(&log, out)
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn result<'a>(
    rule_id: &'static str,
    severity: Severity,
    message: &'a str,
    fix: Option<&str>,
    location: Location<'a>,
) -> SarifResult<'a> {
    let text = match fix {
        Some(fix) => format!("{message}\nfix: {fix}").into(),
        None => message.into(),
    };
    SarifResult {
        rule_id,
        rule_index: None,
        level: level(severity),
        message: Message { text },
        locations: [location],
    }
}

/// Returns the location of a finding: the place in a file, and the object that the finding is about.
fn location<'a>(
    file: Option<&str>,
    line_and_column: Option<(u32, u32)>,
    object: Option<LogicalLocation<'a>>,
) -> Location<'a> {
    let region = line_and_column.map(|(start_line, start_column)| Region { start_line, start_column });
    let physical = |path| PhysicalLocation { artifact_location: ArtifactLocation { uri: uri(path) }, region };
    Location { physical_location: file.map(physical), logical_locations: object.map(|object| [object]) }
}

/// Returns a field of a manifest as the object of a finding.
fn of_field(field: &str) -> LogicalLocation<'_> {
    LogicalLocation { fully_qualified_name: field.into(), kind: None }
}

fn of_lint_finding<'a>(file: &LintedFile, finding: &'a LintFinding) -> SarifResult<'a> {
    let field = finding.field.as_deref().map(of_field);
    let location = location(Some(&file.path), finding.line.zip(finding.column), field);
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), location)
}

fn of_runtime_finding(finding: &RuntimeFinding) -> SarifResult<'_> {
    let pod = format!("{}/{}", finding.pod.namespace, finding.pod.name);
    let pod = LogicalLocation { fully_qualified_name: pod.into(), kind: Some("resource") };
    let location = location(finding.file.as_deref(), None, Some(pod));
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), location)
}

fn of_start_finding(finding: &StartFinding) -> SarifResult<'_> {
    let field = finding.field.as_deref().map(of_field);
    let location = location(finding.file.as_deref(), finding.line.zip(finding.column), field);
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), location)
}

/// Converts a path to a URI reference. Bytes that a URI may not contain are percent-encoded.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_uri() {
        assert_eq!(uri("/etc/a b.yaml"), "file:///etc/a%20b.yaml");
        assert_eq!(uri("a#b/é"), "a%23b/%C3%A9");
    }
}
