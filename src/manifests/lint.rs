//! The whole answer of `plegctl static-pods lint`: files, what runs, and the sums.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::checks::runtime::{Compared, Made, RuntimeFinding};
use super::upgrade::Upgrade;
use super::{Check, FileReport, Finding, Kubelet, PathKind, PodIdentity, Severity, SourceReport, Verdict};
use crate::report::NotChecked;

/// What is said about a manifest path.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct LintReport {
    /// The name that pods get as a suffix.
    pub node: String,
    /// Whose rules were applied.
    pub kubelet_version: String,
    /// Each file in the kubelet's order, then each path that there is something to say about.
    pub files: Vec<LintedFile>,
    /// What does not agree with what runs.
    pub runtime: Vec<RuntimeFinding>,
    /// What another release makes of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// What could not be looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
    /// The sums.
    pub summary: Summary,
}

/// One file, or a path that was given.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintedFile {
    /// Its path, as the kubelet would log it.
    pub path: String,
    /// What the kubelet does with it.
    pub verdict: Verdict,
    /// The pod's name, node name included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<String>,
    /// The UID that the kubelet gives the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Why the UID cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid_unknown: Option<String>,
    /// Whether what runs was made from this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Made>,
    /// Why it is not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_reason: Option<String>,
    /// What that means for the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// What there is to say, in the order of the file.
    pub findings: Vec<Finding>,
    /// The text, for who wants to show a line of it.
    #[serde(skip)]
    pub text: Option<Arc<str>>,
    /// The path itself and not a file of it.
    #[serde(skip)]
    pub is_path: bool,
}

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Files seen.
    pub files: usize,
    /// Files whose pod runs.
    pub loaded: usize,
    /// Files that the kubelet refuses.
    pub rejected: usize,
    /// Entries that the kubelet does not read.
    pub ignored: usize,
    /// Files whose pod another file replaces.
    pub shadowed: usize,
    /// Files of which nothing can be said.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_judged: usize,
    /// Findings that are errors.
    pub errors: usize,
    /// Findings that are warnings.
    pub warnings: usize,
    /// Findings that are information.
    pub infos: usize,
    /// Which file gives which pod (SP105).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodOfFile>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A pod, the file that it comes from, and those that would give it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOfFile {
    /// Its namespace.
    pub namespace: String,
    /// Its name, node name included.
    pub name: String,
    /// The file that wins.
    pub file: String,
    /// Its UID, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Files that are shadowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<String>,
}

impl LintReport {
    /// Puts together what was found, without the findings of `ignored` checks.
    pub fn new(
        kubelet: &Kubelet,
        sources: Vec<SourceReport>,
        compared: Compared,
        upgrade: Option<Upgrade>,
        not_checked: Vec<NotChecked>,
        ignored: &HashSet<Check>,
    ) -> Self {
        let pods = if ignored.contains(&Check::FileGivesPod) { Vec::new() } else { pods(&sources) };
        let mut report = Self {
            node: kubelet.node_name.clone(),
            kubelet_version: kubelet.version.to_string(),
            files: sources.into_iter().flat_map(linted).collect(),
            runtime: compared.findings,
            upgrade,
            not_checked,
            summary: Summary { pods, ..Summary::default() },
        };
        for file in &mut report.files {
            file.runs = compared.made.get(&file.path).cloned();
            file.findings.retain(|finding| !ignored.contains(&finding.id));
        }
        report.files.retain(|file| !file.is_path || !file.findings.is_empty());
        report.runtime.retain(|finding| !ignored.contains(&finding.id));
        report.add_up();
        report
    }

    fn add_up(&mut self) {
        let summary = &mut self.summary;
        for file in self.files.iter().filter(|file| !file.is_path) {
            summary.files += 1;
            match file.verdict {
                Verdict::Loaded => summary.loaded += 1,
                Verdict::Rejected => summary.rejected += 1,
                Verdict::Ignored => summary.ignored += 1,
                Verdict::Shadowed => summary.shadowed += 1,
                Verdict::NotJudged => summary.not_judged += 1,
            }
        }
        let in_files = self.files.iter().flat_map(|file| &file.findings).map(|finding| finding.severity);
        for severity in in_files.chain(self.runtime.iter().map(|finding| finding.severity)) {
            match severity {
                Severity::Critical | Severity::Error => summary.errors += 1,
                Severity::Warning => summary.warnings += 1,
                Severity::Info => summary.infos += 1,
            }
        }
    }

    /// The worst that was found.
    pub fn worst(&self) -> Option<Severity> {
        let in_files = self.files.iter().flat_map(|file| &file.findings).map(|finding| finding.severity);
        in_files.chain(self.runtime.iter().map(|finding| finding.severity)).max()
    }
}

fn linted(source: SourceReport) -> Vec<LintedFile> {
    let path = LintedFile {
        path: source.path.to_string_lossy().into_owned(),
        verdict: Verdict::Ignored,
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
        // The path is the file: one entry for both.
        (PathKind::File, [only]) => only.findings.splice(0..0, path.findings).for_each(drop),
        _ => files.push(path),
    }
    files
}

const fn path_consequence(kind: PathKind) -> Option<&'static str> {
    match kind {
        PathKind::Missing => Some("the kubelet removes every static pod that came from a file"),
        PathKind::Special | PathKind::Unreadable => {
            Some("the kubelet logs an error every 20 s and keeps what runs")
        }
        PathKind::Directory | PathKind::File => None,
    }
}

fn linted_file(file: FileReport, in_directory: bool) -> LintedFile {
    let pod = file.pod.filter(|_| matches!(file.verdict, Verdict::Loaded | Verdict::Shadowed));
    let (namespace, name) =
        pod.map_or((None, None), |PodIdentity { namespace, name }| (Some(namespace), Some(name)));
    let (pod_uid, pod_uid_unknown) = match file.uid {
        Some(Ok(uid)) => (Some(uid), None),
        Some(Err(why)) => (None, Some(why.to_string())),
        None => (None, None),
    };
    let mut findings = file.findings;
    findings.sort_by_key(|finding| (finding.line, finding.column, finding.id));
    let consequence = (file.verdict == Verdict::Rejected).then(|| {
        if in_directory {
            "a pod that runs from this file is stopped within 20 s, and no new one starts"
        } else {
            "what runs from this file goes on until the kubelet restarts, and does not come back then"
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
    for file in source.files.iter().filter(|file| file.verdict == Verdict::Shadowed) {
        if let Some(pod) = &file.pod {
            shadowed.entry(pod).or_default().push(path(file));
        }
    }
    let loaded = source.files.iter().filter(|file| file.verdict == Verdict::Loaded);
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
