//! SARIF 2.1.0, for whoever collects findings of many tools.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::manifests::checks::catalogue::CHECKS;
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::lint::{LintReport, LintedFile};
use crate::manifests::{CheckId, Finding, Severity};

/// Writes one run with every finding as a result.
pub fn write(report: &LintReport, out: &mut dyn Write) -> io::Result<()> {
    let in_files =
        report.files.iter().flat_map(|file| file.findings.iter().map(|finding| result(file, finding)));
    let results: Vec<Value> = in_files.chain(report.runtime.iter().map(runtime_result)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "plegctl",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn rules() -> Vec<Value> {
    let rule = |check: &crate::manifests::checks::catalogue::Check| {
        json!({
            "id": check.id.to_string(),
            "shortDescription": { "text": check.title },
            "defaultConfiguration": { "level": level(check.severity) },
        })
    };
    CHECKS.iter().map(rule).collect()
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn bare(id: CheckId, severity: Severity, message: &str, fix: Option<&str>) -> Value {
    let text = match fix {
        Some(fix) => format!("{message}\nfix: {fix}"),
        None => message.to_owned(),
    };
    let mut result = json!({
        "ruleId": id.to_string(),
        "level": level(severity),
        "message": { "text": text },
    });
    if let (Some(index), Some(result)) =
        (CHECKS.iter().position(|check| check.id == id), result.as_object_mut())
    {
        result.insert("ruleIndex".to_owned(), json!(index));
    }
    result
}

fn result(file: &LintedFile, finding: &Finding) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": uri(&file.path) } });
    if let (Some(line), Some(column), Some(place)) = (finding.line, finding.column, place.as_object_mut()) {
        place.insert("region".to_owned(), json!({ "startLine": line, "startColumn": column }));
    }
    let mut location = json!({ "physicalLocation": place });
    if let (Some(field), Some(location)) = (&finding.field, location.as_object_mut()) {
        location.insert("logicalLocations".to_owned(), json!([{ "fullyQualifiedName": field }]));
    }
    with_location(bare(finding.id, finding.severity, &finding.message, finding.fix.as_deref()), &location)
}

fn runtime_result(finding: &RuntimeFinding) -> Value {
    let pod = format!("{}/{}", finding.pod.namespace, finding.pod.name);
    let mut location = json!({ "logicalLocations": [{ "fullyQualifiedName": pod, "kind": "resource" }] });
    if let (Some(file), Some(location)) = (&finding.file, location.as_object_mut()) {
        location.insert("physicalLocation".to_owned(), json!({ "artifactLocation": { "uri": uri(file) } }));
    }
    with_location(bare(finding.id, finding.severity, &finding.message, finding.fix.as_deref()), &location)
}

fn with_location(mut result: Value, location: &Value) -> Value {
    if let Some(result) = result.as_object_mut() {
        result.insert("locations".to_owned(), json!([location]));
    }
    result
}

/// A path as a URI reference: what is not allowed in one is percent-encoded, byte by byte.
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
