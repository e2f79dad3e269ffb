//! Decides about the content of one file with the kubelet's steps: parse, check kind and version, decode, add defaults,
//! compute the UID, validate, and check for references to API objects.
//!
//! The first step that fails rejects the file. `source` reads the files and calls [`judge`] for each.

use std::path::Path;

use super::decode::{FieldError, decode};
use super::finding::LintFinding;
use super::pod_field::PodField;
use super::report::{DecodedPod, FileReport, FileVerdict, ManifestEntryMeta, ParsedManifest, PodIdentity};
use super::uid::{UidUnknown, uid};
use super::{Kubelet, defaults, references, validate};
use crate::Check;
use plegctl_api_values::reader::{ReadResult, ReaderNotes, SyntaxError, SyntaxFault, read};
use plegctl_api_values::tree::{ManifestNode, Map, Value};
use plegctl_base::report::Places;

/// The size at which the kubelet rejects a file without reading it (maxConfigLength in
/// pkg/kubelet/config/file.go).
pub const SIZE_LIMIT: u64 = 10 << 20;

/// Why a file is not loaded.
struct Rejection {
    /// The kubelet's error message. Empty if the verdict is not known, because the kubelet never finishes or the file is
    /// beyond a limit of plegctl.
    reason: String,
    findings: Vec<LintFinding>,
}

/// Returns the verdict on the bytes of one file. Other files with the same pod are not taken into account.
pub fn judge(path: &Path, meta: Option<ManifestEntryMeta>, bytes: &[u8], kubelet: &Kubelet) -> FileReport {
    let mut report = initial_report(path, meta, kubelet);
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) >= SIZE_LIMIT {
        return too_large(report);
    }
    let ReadResult { text, root, notes } = read(bytes);
    let mut document = ParsedManifest { text, root: None, notes, pod: None };
    let outcome = root.map_err(|error| syntax_rejection(&error)).and_then(|root| {
        let root = &*document.root.insert(root);
        let pod = document.pod.insert(as_pod(root, &document.notes, kubelet)?);
        report.uid = pod_uid(&pod.pod, report.kubelet_path.as_deref(), document.notes.json, kubelet);
        accept(&pod.pod, kubelet, &mut report.findings)
    });
    let is_decoded = document.pod.is_some();
    record_outcome(&mut report, document, outcome);
    if !is_decoded {
        report.kubelet_reason = report.kubelet_reason.map(|reason| {
            format!("{}: couldn't parse as pod({reason}), please check config file", path.display())
        });
    }
    report
}

/// Returns a report without content, with the verdict that remains if no step accepts the file.
fn initial_report(path: &Path, meta: Option<ManifestEntryMeta>, kubelet: &Kubelet) -> FileReport {
    let kubelet_path = kubelet.path_of(path);
    FileReport { kubelet_path, ..FileReport::new(path, meta, FileVerdict::Rejected) }
}

/// Returns the verdict on one item of a `PodList`. `list` is the parsed list. The item needs no kind, because the list
/// has it.
pub fn judge_item(
    source: &Path,
    item: &ManifestNode,
    list: &ParsedManifest,
    kubelet: &Kubelet,
) -> FileReport {
    let mut report = initial_report(source, None, kubelet);
    let mut document = ParsedManifest {
        text: std::sync::Arc::clone(&list.text),
        root: None,
        notes: ReaderNotes::default(),
        pod: None,
    };
    let outcome = decoded(item, list.notes.json, kubelet).and_then(|pod| {
        let pod = document.pod.insert(pod);
        accept(&pod.pod, kubelet, &mut report.findings)
    });
    record_outcome(&mut report, document, outcome);
    report
}

/// Sets the verdict: loaded with a pod, rejected with the kubelet's reason, or not judged if there is no reason.
fn record_outcome(
    report: &mut FileReport,
    document: ParsedManifest,
    outcome: Result<PodIdentity, Rejection>,
) {
    report.document = Some(document);
    match outcome {
        Ok(identity) => {
            report.verdict = FileVerdict::Loaded;
            report.pod = Some(identity);
        }
        Err(rejection) => {
            if rejection.reason.is_empty() {
                report.verdict = FileVerdict::NotJudged;
            } else {
                report.kubelet_reason = Some(rejection.reason);
            }
            report.findings.extend(rejection.findings);
        }
    }
}

/// Computes the UID of a pod that has a name. Like the kubelet, this needs no validation of the pod.
fn pod_uid(
    pod: &ManifestNode,
    source: Option<&Path>,
    json: bool,
    kubelet: &Kubelet,
) -> Option<Result<String, UidUnknown>> {
    if PodField::root(pod).get("metadata").get("name").is_empty() {
        return None;
    }
    Some(source.ok_or(UidUnknown::Path).and_then(|source| uid(pod, kubelet, source, json)))
}

/// Returns the UID that another kubelet would give the pod of an inspected file.
pub fn uid_by(file: &FileReport, kubelet: &Kubelet) -> Option<Result<String, UidUnknown>> {
    let document = file.document.as_ref()?;
    let decoded = as_pod(document.root.as_ref()?, &document.notes, kubelet).ok()?;
    pod_uid(&decoded.pod, file.kubelet_path.as_deref(), document.notes.json, kubelet)
}

/// Sets the verdict of a file at the size limit.
pub fn too_large(mut report: FileReport) -> FileReport {
    let name = report.path.display();
    report.kubelet_reason = Some(format!("can't read config file \"{name}\": the read limit is reached"));
    report.findings.push(LintFinding::of("too-large", &[("bytes", &SIZE_LIMIT)]));
    report
}

/// Creates the rejection of a file that does not parse.
fn syntax_rejection(error: &SyntaxError) -> Rejection {
    let check = match error.fault {
        SyntaxFault::Yaml => Check::Syntax,
        SyntaxFault::Encoding => Check::Encoding,
        SyntaxFault::Json => Check::NotJson,
        SyntaxFault::Directive => Check::Directive,
        SyntaxFault::NotJudged => Check::NotJudged,
    };
    let mut finding = LintFinding::new(check, error.message.clone());
    finding.fix.clone_from(&error.fix);
    if let Some(position) = error.position {
        finding = finding.at(position);
    }
    Rejection { reason: error.reason.clone(), findings: vec![finding] }
}

/// Checks kind and version, then decodes the fields.
fn as_pod(root: &ManifestNode, notes: &ReaderNotes, kubelet: &Kubelet) -> Result<DecodedPod, Rejection> {
    check_is_object(root, notes)?;
    check_kind_and_version(root, notes)?;
    decoded(root, notes.json, kubelet)
}

/// Decodes the fields and fills in the defaults.
fn decoded(root: &ManifestNode, json: bool, kubelet: &Kubelet) -> Result<DecodedPod, Rejection> {
    let version = kubelet.version;
    let decoded = decode(root, json, version);
    if let Some(first) = decoded.errors.first() {
        // The kubelet decodes the whole file before it reports the first error. So if one quantity never ends or is too
        // long for plegctl, the first error is not known.
        let is_finite =
            |error: &FieldError| !matches!(error.finding.id, Check::EndlessQuantity | Check::NotJudged);
        let reason = if decoded.errors.iter().all(is_finite) { first.reason.clone() } else { String::new() };
        let findings = decoded.errors.into_iter().map(|error| error.finding).collect();
        return Err(Rejection { reason, findings });
    }
    let mut pod = decoded.pod;
    defaults::apply(&mut pod, version);
    Ok(DecodedPod { pod, dropped: decoded.dropped })
}

/// Rejects a document that is not a mapping.
fn check_is_object(root: &ManifestNode, notes: &ReaderNotes) -> Result<(), Rejection> {
    if root.as_map().is_some() {
        return Ok(());
    }
    if root.is_null() {
        let (finding, reason) = LintFinding::of_refusal("no-object", &[]);
        let finding = later_pod(notes).unwrap_or(finding.at(root.position));
        return Err(Rejection { reason, findings: vec![finding] });
    }
    let (finding, reason) = LintFinding::of_refusal("no-mapping", &[("found", &root.type_name())]);
    Err(Rejection { reason, findings: vec![finding.at(root.position)] })
}

/// Reports a Pod in a later document, which the kubelet does not read.
fn later_pod(notes: &ReaderNotes) -> Option<LintFinding> {
    let later = notes.later_documents.iter().find(|document| document.kind.as_deref() == Some("Pod"))?;
    Some(LintFinding::of("later-pod", &[]).at(later.position))
}

/// Rejects an object that is not a Pod of version `v1`. Only for the names `kind` and `apiVersion` does the kubelet ignore
/// upper and lower case.
fn check_kind_and_version(root: &ManifestNode, notes: &ReaderNotes) -> Result<(), Rejection> {
    let kind = type_field(root, "kind", notes)?;
    let version = type_field(root, "apiVersion", notes)?;
    let kind_text = kind.and_then(ManifestNode::as_str).unwrap_or_default();
    let version_text = version.and_then(ManifestNode::as_str).unwrap_or_default();
    let (at_kind, at_version) = (kind.unwrap_or(root), version.unwrap_or(root));
    let (row, at) = match (matches!(version_text, "v1" | "/v1"), kind_text) {
        (true, "Pod") => return Ok(()),
        (_, "") => ("no-kind", at_kind),
        _ if version_text.is_empty() => ("no-api-version", at_version),
        (_, "Pod") => ("version-without-pod", at_version),
        (true, other) if other.eq_ignore_ascii_case("pod") => ("kind-in-other-case", at_kind),
        // The kubelet's message contains a Go dump of the whole object.
        (true, _) => ("not-a-pod", at_kind),
        (false, _) => ("kind-of-other-version", at_kind),
    };
    let places: &Places<'_> = &[("kind", &kind_text), ("version", &version_text)];
    let (finding, reason) = LintFinding::of_refusal(row, places);
    let mut findings = vec![finding.at(at.position)];
    findings.extend(later_pod(notes));
    Err(Rejection { reason, findings })
}

/// Returns the value of `kind` or `apiVersion`. If several fields match the name, the last one wins: the last in the file
/// for JSON, the last in sorted order for YAML, which the kubelet converts into JSON with sorted keys.
fn type_field<'a>(
    root: &'a ManifestNode,
    name: &str,
    notes: &ReaderNotes,
) -> Result<Option<&'a ManifestNode>, Rejection> {
    let entries = root.as_map().map(Map::entries).unwrap_or_default();
    let mut matching: Vec<_> = entries.iter().filter(|entry| same_letters(&entry.key, name)).collect();
    if !notes.json {
        matching.sort_by(|left, right| left.key.cmp(&right.key));
    }
    let mut last = None;
    for entry in matching {
        match entry.value.value {
            Value::Null => {}
            Value::Str(_) => last = Some(&entry.value),
            _ => {
                let places: &Places<'_> = &[("name", &name), ("found", &entry.value.type_name())];
                let (finding, reason) = LintFinding::of_refusal("type-not-string", places);
                let findings = vec![finding.on_field(name).at(entry.value.position)];
                return Err(Rejection { reason, findings });
            }
        }
    }
    Ok(last)
}

/// Whether two names are equal in Go's case folding, in which two letters outside ASCII count as `s` and `k`.
fn same_letters(written: &str, name: &str) -> bool {
    let folded = written.chars().map(|letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => letter.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|letter| letter.to_ascii_lowercase()))
}

/// Returns the pod's name and namespace, if the Pod is valid and refers to no API object that this release refuses.
fn accept(
    pod: &ManifestNode,
    kubelet: &Kubelet,
    findings: &mut Vec<LintFinding>,
) -> Result<PodIdentity, Rejection> {
    let root = PodField::root(pod);
    let metadata = root.get("metadata");
    if metadata.get("name").is_empty() {
        let is_generated = !metadata.get("generateName").is_empty();
        let row = if is_generated { "generated-name" } else { "no-name" };
        let (finding, reason) = LintFinding::of_refusal(row, &[]);
        let findings = vec![finding.on_field("metadata.name").at(metadata.position())];
        return Err(Rejection { reason, findings });
    }
    let namespace = metadata.get("namespace").str();
    let identity = PodIdentity {
        namespace: if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() },
        name: format!("{}-{}", metadata.get("name").str(), kubelet.node_name.to_lowercase()),
    };
    if let Some((reason, findings)) = validate::validate(&root, &identity.name, kubelet) {
        return Err(Rejection { reason, findings });
    }
    let (refused, references) = references::check(&root, kubelet.version);
    if let Some(reason) = refused {
        Err(Rejection { reason, findings: references })
    } else {
        findings.extend(references);
        Ok(identity)
    }
}
