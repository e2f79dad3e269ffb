//! Checks of the file's encoding, its YAML documents and how values are written: SP031, SP035 to SP037, SP039 and SP040.
//! Errors for which the kubelet rejects a file are part of the verdict.

use crate::ReaderNotes;
use crate::{FileReport, LintFinding, ManifestNode, ParsedManifest, Position, Value};
use plegctl_base::report::Places;

/// Adds findings to a file whose text could be read.
pub fn check(file: &mut FileReport) {
    let Some(document) = &file.document else { return };
    let mut findings = Vec::new();
    check_later_documents(document, &mut findings);
    check_encoding(&document.notes, &mut findings);
    check_duplicate_keys(&document.notes, &mut findings);
    check_merges(&document.notes, &mut findings);
    if let Some(root) = &document.root {
        check_look_alikes(root, &mut findings);
    }
    if let Some(pod) = &document.pod {
        check_yaml_1_1_values(&pod.pod, "", &mut findings);
    }
    file.findings.extend(findings);
}

/// Reports documents with content after a Pod. (If the first document has no Pod but a later one has, the verdict
/// includes SP032.)
fn check_later_documents(document: &ParsedManifest, findings: &mut Vec<LintFinding>) {
    if document.pod.is_none() {
        return;
    }
    let with_content = || document.notes.later_documents.iter().filter(|later| later.has_content);
    let Some(first) = with_content().next() else { return };
    let finding = match with_content().count() {
        1 => LintFinding::of("later-document", &[]),
        count => LintFinding::of("later-documents", &[("count", &count)]),
    };
    findings.push(finding.at(first.position));
}

/// Reports an encoding that other tools may not read.
fn check_encoding(notes: &ReaderNotes, findings: &mut Vec<LintFinding>) {
    let what = if notes.utf16 {
        "UTF-16"
    } else if notes.byte_order_mark {
        "a byte order mark"
    } else if notes.carriage_returns {
        "carriage returns"
    } else {
        return;
    };
    findings.push(LintFinding::of("odd-encoding", &[("what", &what)]));
}

/// Reports keys that one mapping contains twice.
fn check_duplicate_keys(notes: &ReaderNotes, findings: &mut Vec<LintFinding>) {
    for duplicate in &notes.duplicate_keys {
        let places: &Places<'_> =
            &[("key", &duplicate.key), ("first", &duplicate.first.line), ("again", &duplicate.again.line)];
        findings.push(LintFinding::of("key-twice", places).at(duplicate.again));
    }
}

/// Reports a merge (`<<`) that replaces values of keys before it.
fn check_merges(notes: &ReaderNotes, findings: &mut Vec<LintFinding>) {
    for merge in notes.merges.iter().filter(|merge| !merge.overrides.is_empty()) {
        let keys = merge.overrides.join("`, `");
        findings.push(LintFinding::of("merge-replaces-key", &[("keys", &keys)]).at(merge.position));
    }
}

/// Returns the name of a character that looks like a space or a quote but is part of the text.
const fn look_alike(character: char) -> Option<&'static str> {
    match character {
        '\u{a0}' | '\u{2007}' | '\u{202f}' => Some("a non-breaking space"),
        '\u{3000}' | '\u{2002}'..='\u{200a}' => Some("a typographic space"),
        '\u{2018}'..='\u{201f}' => Some("a typographic quote"),
        _ => None,
    }
}

/// Reports keys that contain a look-alike, and values that start or end with one. Inside a value, a look-alike is normal
/// text.
fn check_look_alikes(node: &ManifestNode, findings: &mut Vec<LintFinding>) {
    match &node.value {
        Value::Map(map) => {
            for entry in map.entries() {
                if let Some(what) = entry.key.chars().find_map(look_alike) {
                    findings.push(look_alike_finding(what, "key", entry.key_position));
                }
                check_look_alikes(&entry.value, findings);
            }
        }
        Value::List(items) => items.iter().for_each(|item| check_look_alikes(item, findings)),
        Value::Str(text) => {
            let ends = [text.chars().next(), text.chars().next_back()];
            if let Some(what) = ends.into_iter().flatten().find_map(look_alike) {
                findings.push(look_alike_finding(what, "value", node.position));
            }
        }
        _ => {}
    }
}

fn look_alike_finding(what: &str, part: &str, at: Position) -> LintFinding {
    LintFinding::of("look-alike", &[("part", &part), ("what", &what)]).at(at)
}

/// Reports values that mean something else in YAML 1.1, which the kubelet reads, than in YAML 1.2.
fn check_yaml_1_1_values(node: &ManifestNode, path: &str, findings: &mut Vec<LintFinding>) {
    match &node.value {
        Value::Map(map) => {
            for entry in map.entries() {
                let dot = if path.is_empty() { "" } else { "." };
                check_yaml_1_1_values(&entry.value, &format!("{path}{dot}{}", entry.key), findings);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                check_yaml_1_1_values(item, &format!("{path}[{index}]"), findings);
            }
        }
        Value::Bool(truth) => {
            if let Some(written) = node.written.as_deref()
                && !written.eq_ignore_ascii_case("true")
                && !written.eq_ignore_ascii_case("false")
            {
                findings.push(yaml_1_1_finding(path, written, &truth.to_string(), node.position));
            }
        }
        Value::Int(number) => {
            if let Some(written) = node.written.as_deref().filter(|written| !is_plain_decimal(written)) {
                findings.push(yaml_1_1_finding(path, written, &number.to_string(), node.position));
            }
        }
        Value::Null | Value::Float(_) | Value::Str(_) | Value::Quantity(_) => {}
    }
}

/// Whether a number is written with decimal digits only and does not start with a zero, which would make it octal.
fn is_plain_decimal(written: &str) -> bool {
    let digits = written.strip_prefix('-').unwrap_or(written);
    let decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    decimal && (digits.len() == 1 || !digits.starts_with('0'))
}

fn yaml_1_1_finding(path: &str, written: &str, meaning: &str, at: Position) -> LintFinding {
    let field = path.rsplit('.').next().unwrap_or(path);
    // File modes are the only fields where octal is intended.
    let row = if matches!(field, "defaultMode" | "mode") { "octal-mode" } else { "yaml-1-1" };
    let places: &Places<'_> = &[("path", &path), ("written", &written), ("meaning", &meaning)];
    LintFinding::of(row, places).on_field(path).at(at)
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{GOOD, NONE, found, in_container, in_metadata, in_spec, with};

    #[test]
    fn a_good_pod_has_no_finding() {
        assert_eq!(found(GOOD), NONE);
    }

    #[test]
    fn sp031_reports_documents_with_content_after_a_pod() {
        assert_eq!(found(format!("{GOOD}---\n{GOOD}")), [31]);
        assert_eq!(found(format!("{GOOD}---\n# the end\n")), NONE);
        assert_eq!(found(format!("---\n{GOOD}")), NONE);
    }

    #[test]
    fn sp032_reports_a_pod_after_the_first_document() {
        assert_eq!(found(format!("---\n---\n{GOOD}")), [32]);
        assert!(found(format!("apiVersion: v1\nkind: ConfigMap\n---\n{GOOD}")).contains(&32));
    }

    #[test]
    fn sp033_sp034_sp038_and_sp041_report_files_that_do_not_parse() {
        assert_eq!(found(with("  name: web", "\tname: web")), [33]);
        assert_eq!(found(with("web", "{{ .Name }}")), [33]);
        assert_eq!(found(with("web", "w\u{0}b")), [34]);
        assert_eq!(found([GOOD.as_bytes(), b"# \xe9\n"].concat()), [34]);
        assert_eq!(found("{\"apiVersion\": \"v1\", // Pod\n\"kind\": \"Pod\"}"), [38]);
        assert_eq!(found(format!("%YAML 1.2\n---\n{GOOD}")), [41]);
        assert_eq!(found(format!("%YAML 1.1\n---\n{GOOD}")), NONE);
    }

    #[test]
    fn sp035_reports_encodings_that_other_tools_refuse() {
        assert_eq!(found(format!("\u{feff}{GOOD}")), [35]);
        assert_eq!(found(GOOD.replace('\n', "\r\n")), [35]);
        let utf16: Vec<u8> =
            std::iter::once(0xfeff).chain(GOOD.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(found(utf16), [35]);
    }

    #[test]
    fn sp036_reports_a_key_that_occurs_twice() {
        assert_eq!(found(in_container("image: registry.k8s.io/app:2.0")), [36]);
        assert_eq!(found(in_metadata("labels: {a: b, c: d}")), NONE);
    }

    #[test]
    fn sp037_reports_characters_that_look_like_a_space_or_a_quote() {
        assert_eq!(found(in_metadata("labels: {a: x}\n\u{a0}name: y")), [37, 53]);
        assert!(found(in_container("command: [“sleep”]")).contains(&37));
        assert_eq!(found(in_container("args: [it’s fine]")), NONE);
    }

    #[test]
    fn sp039_reports_values_with_another_meaning_in_yaml_1_1() {
        assert_eq!(found(in_spec("hostPID: yes")), [39]);
        assert_eq!(found(in_spec("hostPID: true")), NONE);
        assert_eq!(found(in_container("ports: [{containerPort: 0100}]")), [39]);
        assert_eq!(found(in_container("ports: [{containerPort: 1_0}]")), [39]);
        assert_eq!(found(in_container("ports: [{containerPort: 8080}]")), NONE);
    }

    #[test]
    fn sp040_reports_a_merge_that_replaces_a_value() {
        let merged = |map: &str| in_metadata(&format!("annotations: &a {{x: w}}\nlabels:\n{map}"));
        assert_eq!(found(merged("  x: z\n  <<: *a")), [40]);
        assert_eq!(found(merged("  <<: *a\n  x: z")), NONE);
    }
}
