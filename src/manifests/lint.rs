//! The complete report of `plegctl static-pods lint`: files, comparison with the runtime, and counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::checks::runtime::{MadeFromFile, RuntimeComparison, RuntimeFinding};
use super::upgrade::Upgrade;
use super::{
    Check, FileReport, FileVerdict, Kubelet, LintFinding, PathKind, PodIdentity, Severity, SourceReport,
};
use crate::report::NotChecked;

/// The report about one or several manifest paths.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct LintReport {
    /// The node name that is appended to pod names.
    pub node: String,
    /// The kubelet release whose rules were applied.
    pub kubelet_version: String,
    /// The files in the kubelet's order, and the paths that have findings of their own.
    pub files: Vec<LintedFile>,
    /// Findings of the comparison with the runtime.
    pub runtime_findings: Vec<RuntimeFinding>,
    /// What changes with another kubelet release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// What was not checked, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
    /// The counts.
    pub counts: LintCounts,
    /// The counts in one sentence.
    pub summary: String,
}

/// One file, or a path that was given on the command line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintedFile {
    /// The path, as the kubelet would log it.
    pub path: String,
    /// The kubelet's verdict on the file.
    pub verdict: FileVerdict,
    /// The pod's name, including the node name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<String>,
    /// The UID that the kubelet gives the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Why the UID is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid_unknown: Option<String>,
    /// Whether the running pod was made from this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<MadeFromFile>,
    /// Why the kubelet does not load the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_reason: Option<String>,
    /// The effect on the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The findings, in the order of their lines.
    pub findings: Vec<LintFinding>,
    /// The text, for renderers that show a source line.
    #[serde(skip)]
    pub text: Option<Arc<str>>,
    /// Whether this is the path itself and not a file in it.
    #[serde(skip)]
    pub is_path: bool,
}

/// The counts of files and findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintCounts {
    /// The entries of the directory, including those that the kubelet ignores.
    pub files: usize,
    /// Files that the kubelet loads.
    pub loaded: usize,
    /// Files that the kubelet rejects.
    pub rejected: usize,
    /// Entries that the kubelet does not read.
    pub ignored: usize,
    /// Files whose pod another file replaces.
    pub shadowed: usize,
    /// Files without a verdict.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_judged: usize,
    /// Findings of the severity error or critical.
    pub errors: usize,
    /// Findings of the severity warning.
    pub warnings: usize,
    /// Findings of the severity info.
    pub infos: usize,
    /// Which file defines which pod (check SP105).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodOfFile>,
}

impl LintCounts {
    fn sentence(&self) -> String {
        let verdicts = [
            (self.loaded, "loaded"),
            (self.rejected, "rejected"),
            (self.shadowed, "shadowed"),
            (self.ignored, "ignored"),
            (self.not_judged, "not judged"),
        ];
        let findings = [
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            match self.infos {
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
        let files = counted(self.files, "file").unwrap_or_else(|| "no file".to_owned());
        let verdicts = if verdicts.is_empty() { String::new() } else { format!(": {}", verdicts.join(", ")) };
        let findings = if findings.is_empty() { "no finding".to_owned() } else { findings.join(", ") };
        format!("{files}{verdicts}; {findings}")
    }
}

/// A number and its noun, unless it is zero: `2 files`.
pub fn counted(count: usize, noun: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        _ => Some(format!("{count} {noun}s")),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A pod, the file that defines it, and the files that this file shadows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOfFile {
    /// Its namespace.
    pub namespace: String,
    /// Its name, including the node name.
    pub name: String,
    /// The file that wins.
    pub file: String,
    /// Its UID, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The shadowed files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<String>,
}

impl LintReport {
    /// Puts the report together, without the findings of `ignored` checks.
    pub fn new(
        kubelet: &Kubelet,
        sources: Vec<SourceReport>,
        compared: RuntimeComparison,
        upgrade: Option<Upgrade>,
        not_checked: Vec<NotChecked>,
        ignored: &HashSet<Check>,
    ) -> Self {
        let pods = if ignored.contains(&Check::FileGivesPod) { Vec::new() } else { pods(&sources) };
        let mut report = Self {
            node: kubelet.node_name.clone(),
            kubelet_version: kubelet.version.to_string(),
            files: sources.into_iter().flat_map(linted).collect(),
            runtime_findings: compared.findings,
            upgrade,
            not_checked,
            counts: LintCounts { pods, ..LintCounts::default() },
            summary: String::new(),
        };
        for file in &mut report.files {
            file.runs = compared.made.get(&file.path).cloned();
            file.findings.retain(|finding| !ignored.contains(&finding.id));
        }
        report.files.retain(|file| !file.is_path || !file.findings.is_empty());
        report.runtime_findings.retain(|finding| !ignored.contains(&finding.id));
        report.add_up();
        report.summary = report.counts.sentence();
        report
    }

    fn add_up(&mut self) {
        let counts = &mut self.counts;
        for file in self.files.iter().filter(|file| !file.is_path) {
            counts.files += 1;
            match file.verdict {
                FileVerdict::Loaded => counts.loaded += 1,
                FileVerdict::Rejected => counts.rejected += 1,
                FileVerdict::Ignored => counts.ignored += 1,
                FileVerdict::Shadowed => counts.shadowed += 1,
                FileVerdict::NotJudged => counts.not_judged += 1,
            }
        }
        let in_files = self.files.iter().flat_map(|file| &file.findings).map(|finding| finding.severity);
        for severity in in_files.chain(self.runtime_findings.iter().map(|finding| finding.severity)) {
            match severity {
                Severity::Critical | Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Info => counts.infos += 1,
            }
        }
    }

    /// The highest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        let in_files = self.files.iter().flat_map(|file| &file.findings).map(|finding| finding.severity);
        in_files.chain(self.runtime_findings.iter().map(|finding| finding.severity)).max()
    }
}

fn linted(source: SourceReport) -> Vec<LintedFile> {
    let path = LintedFile {
        path: source.path.to_string_lossy().into_owned(),
        verdict: FileVerdict::Ignored,
        pod_name: None,
        pod_namespace: None,
        pod_uid: None,
        pod_uid_unknown: None,
        runs: None,
        kubelet_reason: None,
        consequence: path_consequence(source.kind).map(str::to_owned),
        findings: source.findings,
        text: None,
        is_path: true,
    };
    let in_directory = source.kind == PathKind::Directory;
    let mut files: Vec<LintedFile> =
        source.files.into_iter().map(|file| linted_file(file, in_directory)).collect();
    match (source.kind, files.as_mut_slice()) {
        // The path is the file: one entry has the findings of both.
        (PathKind::File, [only]) => only.findings.splice(0..0, path.findings).for_each(drop),
        _ => files.push(path),
    }
    files
}

const fn path_consequence(kind: PathKind) -> Option<&'static str> {
    match kind {
        PathKind::Missing => Some("the kubelet removes every static pod that came from a file"),
        PathKind::Special | PathKind::Unreadable => {
            Some("the kubelet logs an error every 20 s and keeps the running static pods")
        }
        PathKind::Directory | PathKind::File => None,
    }
}

fn linted_file(file: FileReport, in_directory: bool) -> LintedFile {
    let pod = file.pod.filter(|_| matches!(file.verdict, FileVerdict::Loaded | FileVerdict::Shadowed));
    let (namespace, name) =
        pod.map_or((None, None), |PodIdentity { namespace, name }| (Some(namespace), Some(name)));
    let (pod_uid, pod_uid_unknown) = match file.uid {
        Some(Ok(uid)) => (Some(uid), None),
        Some(Err(why)) => (None, Some(why.to_string())),
        None => (None, None),
    };
    let mut findings = file.findings;
    findings.sort_by_key(|finding| (finding.line, finding.column, finding.id));
    let consequence = (file.verdict == FileVerdict::Rejected).then(|| {
        if in_directory {
            "if a pod runs from this file, the kubelet stops it within 20 s and starts no new one"
        } else {
            "a pod that runs from this file keeps running until the kubelet restarts, and is not started again then"
        }
        .to_owned()
    });
    LintedFile {
        path: file.path.to_string_lossy().into_owned(),
        verdict: file.verdict,
        pod_name: name,
        pod_namespace: namespace,
        pod_uid,
        pod_uid_unknown,
        runs: None,
        kubelet_reason: file.kubelet_reason,
        consequence,
        findings,
        text: file.document.map(|document| document.text),
        is_path: false,
    }
}

fn pods(sources: &[SourceReport]) -> Vec<PodOfFile> {
    sources.iter().flat_map(pods_of).collect()
}

fn pods_of(source: &SourceReport) -> Vec<PodOfFile> {
    let path = |file: &FileReport| file.path.to_string_lossy().into_owned();
    let mut shadowed: HashMap<&PodIdentity, Vec<String>> = HashMap::new();
    for file in source.files.iter().filter(|file| file.verdict == FileVerdict::Shadowed) {
        if let Some(pod) = &file.pod {
            shadowed.entry(pod).or_default().push(path(file));
        }
    }
    let loaded = source.files.iter().filter(|file| file.verdict == FileVerdict::Loaded);
    loaded
        .filter_map(|file| {
            let pod = file.pod.as_ref()?;
            Some(PodOfFile {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                file: path(file),
                uid: file.uid.clone().and_then(Result::ok),
                shadows: shadowed.get(pod).cloned().unwrap_or_default(),
            })
        })
        .collect()
}
