//! Writes the findings of `static-pods lint` and `preflight` as SARIF 2.1.0, a common format for findings.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::json;
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::preflight::{PreflightReport, StartCheck, StartFinding};
use crate::manifests::{Check, LintFinding, Severity};
use crate::report::{CheckRow, Rule};

/// Writes one run with every finding of the linter.
pub fn write(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    let in_files = report
        .files
        .iter()
        .flat_map(|file| file.findings.iter().map(|finding| of_lint_finding(file, finding)));
    let results = in_files.chain(report.runtime_findings.iter().map(of_runtime_finding));
    write_run(Check::ALL.iter().map(|check| check.row()), results.collect(), out)
}

/// Writes one run with every finding of preflight.
pub fn write_preflight(report: &PreflightReport, out: &mut dyn Write) -> io::Result<()> {
    let results = report.findings.iter().map(of_start_finding).collect();
    write_run(StartCheck::ALL.iter().map(|check| check.row()), results, out)
}

/// A finding, which SARIF calls a result, and the id of its check.
type CheckResult = (&'static str, Value);

fn write_run(
    checks: impl Iterator<Item = CheckRow>,
    results: Vec<CheckResult>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rules: Vec<(&Rule, Severity)> = checks.map(|check| (check.rule, check.severity)).collect();
    let with_index = |(id, mut result): CheckResult| {
        let index = rules.iter().position(|(rule, _)| rule.id == id);
        result.as_object_mut().map(|fields| fields.insert("ruleIndex".to_owned(), index.into()));
        result
    };
    let results: Vec<Value> = results.into_iter().map(with_index).collect();
    let rules = rules.iter().map(|(rule, severity)| {
        json!({
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "defaultConfiguration": {"level": level(*severity)},
        })
    });
    let rules: Vec<Value> = rules.collect();
    let driver = json!({"name": "plegctl", "version": env!("CARGO_PKG_VERSION"), "rules": rules});
    let run = json!({"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results});
    let schema = "https://json.schemastore.org/sarif-2.1.0.json";
    json::pretty(&json!({"$schema": schema, "version": "2.1.0", "runs": [run]}), out)
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn result(
    check: &'static str,
    severity: Severity,
    message: &str,
    fix: Option<&str>,
    location: &Value,
) -> CheckResult {
    let fix = fix.map(|fix| format!("\nfix: {fix}")).unwrap_or_default();
    let text = format!("{message}{fix}");
    let result = json!({
        "ruleId": check,
        "level": level(severity),
        "message": {"text": text},
        "locations": [location],
    });
    (check, result)
}

/// Returns the location of a finding: the place in a file, and the object that the finding is about.
fn location(file: Option<&str>, line_and_column: Option<(u32, u32)>, object: Option<Value>) -> Value {
    let region = line_and_column.map(|(line, column)| json!({"startLine": line, "startColumn": column}));
    let physical = |path| {
        let artifact = json!({"uri": uri(path)});
        known([("artifactLocation", Some(artifact)), ("region", region)])
    };
    let objects = object.map(|object| json!([object]));
    known([("physicalLocation", file.map(physical)), ("logicalLocations", objects)])
}

/// Returns an object with the fields that have a value.
fn known(fields: [(&str, Option<Value>); 2]) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns a field of a manifest as the object of a finding.
fn of_field(field: &String) -> Value {
    json!({"fullyQualifiedName": field})
}

fn of_lint_finding(file: &LintedFile, finding: &LintFinding) -> CheckResult {
    let field = finding.field.as_ref().map(of_field);
    let location = location(Some(&file.path), finding.line.zip(finding.column), field);
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), &location)
}

fn of_runtime_finding(finding: &RuntimeFinding) -> CheckResult {
    let pod = format!("{}/{}", finding.pod.namespace, finding.pod.name);
    let pod = json!({"fullyQualifiedName": pod, "kind": "resource"});
    let location = location(finding.file.as_deref(), None, Some(pod));
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), &location)
}

fn of_start_finding(finding: &StartFinding) -> CheckResult {
    let field = finding.field.as_ref().map(of_field);
    let location = location(finding.file.as_deref(), finding.line.zip(finding.column), field);
    result(finding.id.id(), finding.severity, &finding.message, finding.fix.as_deref(), &location)
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
