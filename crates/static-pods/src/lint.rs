//! The report of `plegctl static-pods lint`: the files with their findings, the comparison with the runtime, and counts.
//!
//! [`LintReport::new`] builds the report from the results of the other modules of `manifests`; it checks nothing itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::checks::runtime::{MadeFromFile, RuntimeComparison, RuntimeFinding};
use super::upgrade::Upgrade;
use super::{
    Check, FileReport, FileVerdict, Kubelet, LintFinding, PathKind, PodIdentity, Severity, SourceReport,
};
use plegctl_base::report::NotChecked;
use plegctl_base::report::plural;

/// The report about one or several manifest paths.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct LintReport {
    /// The node name that is appended to pod names.
    pub node: String,
    /// The kubelet release whose rules were applied.
    pub kubelet_version: String,
    /// The files in the kubelet's order, and the manifest paths that have findings about the path itself.
    pub files: Vec<LintedFile>,
    /// The pods, each with the file that defines it (check SP105).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodOfFile>,
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

/// One file, or a manifest path itself (see [`Self::is_path`]).
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, Serialize)]
pub struct LintedFile {
    /// The path.
    pub path: String,
    /// The kubelet's verdict on the file.
    pub verdict: FileVerdict,
    /// The pod's name, including the node name.
    pub pod_name: Option<String>,
    /// The pod's namespace.
    pub pod_namespace: Option<String>,
    /// The UID that the kubelet gives the pod.
    pub pod_uid: Option<String>,
    /// Why the UID is not known.
    pub pod_uid_unknown: Option<String>,
    /// Whether the kubelet made the running pod from the file's present text.
    #[serde(rename = "runs")]
    pub made_from_file: Option<MadeFromFile>,
    /// Why the kubelet does not load the file.
    pub kubelet_reason: Option<String>,
    /// What a rejected file or a wrong path means for the running pods.
    pub consequence: Option<String>,
    /// The findings, in the order of their lines.
    pub findings: Vec<LintFinding>,
    /// The file's text, for output that shows the line of a finding.
    #[serde(skip)]
    pub text: Option<Arc<str>>,
    /// Whether this entry is about a manifest path itself, not about a file: the path is a directory, is missing, or
    /// cannot be read as a file.
    #[serde(skip)]
    pub is_path: bool,
}

/// The counts of files and findings.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LintCounts {
    /// The files of all manifest paths, including the directory entries that the kubelet ignores.
    pub files: usize,
    /// Files that the kubelet loads.
    pub loaded: usize,
    /// Files that the kubelet rejects.
    pub rejected: usize,
    /// Entries that the kubelet does not read.
    pub ignored: usize,
    /// Files that define a pod which the kubelet takes from another file.
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
}

impl LintCounts {
    /// Returns the counts in one sentence: `3 files: 2 loaded, 1 rejected; 1 error`.
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
            (self.infos > 0).then(|| format!("{} info", self.infos)),
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

/// Returns a number with its noun, such as `2 files`; `None` for zero.
pub fn counted(count: usize, noun: &str) -> Option<String> {
    (count > 0).then(|| plural(count, noun))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A pod, the file that defines it, and the files that this file shadows.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodOfFile {
    /// Its namespace.
    pub namespace: String,
    /// Its name, including the node name.
    pub name: String,
    /// The file from which the kubelet runs the pod.
    pub file: String,
    /// The pod's UID, if it is known.
    pub uid: Option<String>,
    /// The shadowed files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<String>,
}

impl LintReport {
    /// Builds the report, without the findings of the `ignored` checks.
    pub fn new(
        kubelet: &Kubelet,
        sources: Vec<SourceReport>,
        compared: RuntimeComparison,
        upgrade: Option<Upgrade>,
        not_checked: Vec<NotChecked>,
        ignored: &HashSet<Check>,
    ) -> Self {
        let lists_pods = !ignored.contains(&Check::FileDefinesPod);
        let pods = sources.iter().filter(|_| lists_pods).flat_map(pods_of).collect();
        let mut report = Self {
            node: kubelet.node_name.clone(),
            kubelet_version: kubelet.version.to_string(),
            files: sources.into_iter().flat_map(linted).collect(),
            pods,
            runtime_findings: compared.findings,
            upgrade,
            not_checked,
            counts: LintCounts::default(),
            summary: String::new(),
        };
        for file in &mut report.files {
            file.made_from_file = compared.made.get(&file.path).cloned();
            file.findings.retain(|finding| !ignored.contains(&finding.id));
        }
        report.files.retain(|file| !file.is_path || !file.findings.is_empty());
        report.runtime_findings.retain(|finding| !ignored.contains(&finding.id));
        report.count();
        report.summary = report.counts.sentence();
        report
    }

    /// Counts files and findings.
    fn count(&mut self) {
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

    /// Returns the highest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        let in_files = self.files.iter().flat_map(|file| &file.findings).map(|finding| finding.severity);
        in_files.chain(self.runtime_findings.iter().map(|finding| finding.severity)).max()
    }
}

/// Returns the entries of the report for one manifest path: its files, and the path itself.
fn linted(source: SourceReport) -> Vec<LintedFile> {
    let path = LintedFile {
        consequence: path_consequence(source.kind).map(str::to_owned),
        findings: source.findings,
        is_path: true,
        ..linted_file(FileReport::new(&source.path, None, FileVerdict::Ignored), false)
    };
    let in_directory = source.kind == PathKind::Directory;
    let mut files: Vec<LintedFile> =
        source.files.into_iter().map(|file| linted_file(file, in_directory)).collect();
    match (source.kind, files.as_mut_slice()) {
        // The path is a single file, so the findings about the path go into the entry of the file.
        (PathKind::File, [only]) => only.findings.splice(0..0, path.findings).for_each(drop),
        _ => files.push(path),
    }
    files
}

/// Returns what a wrong path means for the running static pods.
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
            "a pod that runs from this file keeps running until the kubelet restarts; then the kubelet does not start it again"
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
        made_from_file: None,
        kubelet_reason: file.kubelet_reason,
        consequence,
        findings,
        text: file.document.map(|document| document.text),
        is_path: false,
    }
}

/// Returns which file defines which pod (SP105).
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
