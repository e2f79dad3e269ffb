//! What another release of the kubelet makes of the same files: which pods restart, which are refused, what is newly
//! read.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use super::report::{Document, Dropped, DroppedField};
use super::{FileReport, Finding, Kubelet, SourceReport, Verdict};
use crate::manifests::Check;

/// Two releases and each file that one of them reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// The release now.
    pub from: String,
    /// The release then.
    pub to: String,
    /// The files, in the kubelet's order.
    pub files: Vec<UpgradedFile>,
}

/// One file, read by two releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradedFile {
    /// Its path.
    pub path: String,
    /// Its pod, as `namespace/name`, if one of the two loads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// What the old release does with it.
    pub verdict_from: Verdict,
    /// What the new one does.
    pub verdict_to: Verdict,
    /// The pod's UID with the old release, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid_from: Option<String>,
    /// The pod's UID with the new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid_to: Option<String>,
    /// Whether the pod is stopped and started again. Absent where the UIDs cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<bool>,
    /// Why the new release does not load it, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Fields that the old release drops and the new one obeys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub newly_read: Vec<String>,
}

impl UpgradedFile {
    /// The old release runs it and the new one does not.
    pub fn is_lost(&self) -> bool {
        self.verdict_from == Verdict::Loaded && self.verdict_to != Verdict::Loaded
    }
}

/// Compares what two kubelets make of the same sources, and says so in the findings of `before`.
pub fn compare(before: &mut [SourceReport], after: &[SourceReport], old: &Kubelet, new: &Kubelet) -> Upgrade {
    let later: HashMap<&Path, &FileReport> =
        after.iter().flat_map(|source| &source.files).map(|file| (file.path.as_path(), file)).collect();
    let mut files = Vec::new();
    for file in before.iter_mut().flat_map(|source| &mut source.files) {
        let Some(later) = later.get(file.path.as_path()) else { continue };
        if file.verdict == Verdict::Ignored {
            continue;
        }
        let upgraded = upgraded(file, later);
        file.findings.extend(findings(&upgraded, later, old, new));
        files.push(upgraded);
    }
    Upgrade { from: old.version.to_string(), to: new.version.to_string(), files }
}

fn upgraded(file: &FileReport, later: &FileReport) -> UpgradedFile {
    let uid = |file: &FileReport| file.uid.clone().and_then(Result::ok);
    let (uid_from, uid_to) = (uid(file), uid(later));
    let runs_on = file.verdict == Verdict::Loaded && later.verdict == Verdict::Loaded;
    let restarts = match (&uid_from, &uid_to) {
        _ if !runs_on => Some(false),
        (Some(old), Some(new)) => Some(old != new),
        _ => None,
    };
    let pod = file.pod.as_ref().or(later.pod.as_ref());
    UpgradedFile {
        path: file.path.to_string_lossy().into_owned(),
        pod: pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
        verdict_from: file.verdict,
        verdict_to: later.verdict,
        uid_from,
        uid_to,
        restarts,
        reason: later.kubelet_reason.clone(),
        newly_read: newly_read(file, later),
    }
}

/// Fields that only the newer release knows, or for which only there the gate is open.
fn newly_read(file: &FileReport, later: &FileReport) -> Vec<String> {
    let dropped = dropped(later);
    let still = |field: &DroppedField| {
        dropped.iter().any(|other| other.parent == field.parent && other.name == field.name)
    };
    let waiting =
        |field: &&DroppedField| matches!(field.why, Dropped::TooNew { .. } | Dropped::GateClosed { .. });
    self::dropped(file)
        .iter()
        .filter(waiting)
        .filter(|field| !still(field))
        .map(|field| {
            let dot = if field.parent.is_empty() { "" } else { "." };
            format!("{}{dot}{}", field.parent, field.name)
        })
        .collect()
}

fn dropped(file: &FileReport) -> &[DroppedField] {
    let decoded = file.document.as_ref().and_then(|Document { pod, .. }| pod.as_ref());
    decoded.map(|decoded| decoded.dropped.as_slice()).unwrap_or_default()
}

fn findings(upgraded: &UpgradedFile, later: &FileReport, old: &Kubelet, new: &Kubelet) -> Vec<Finding> {
    let (old, new) = (old.version, new.version);
    let mut findings = Vec::new();
    if upgraded.is_lost() {
        let why = later.findings.iter().find(|finding| finding.severity >= super::Severity::Error);
        let mut finding = Finding::error(
            Check::NotLoadedThen,
            format!(
                "kubelet {new} does not load this file, which kubelet {old} runs: the upgrade stops the pod{}",
                why.map(|why| format!(" ({})", why.message)).unwrap_or_default()
            ),
        );
        if let Some(why) = why {
            finding = Finding { id: finding.id, message: finding.message, ..why.clone() };
        }
        findings.push(finding);
    }
    if upgraded.verdict_from == Verdict::Rejected && upgraded.verdict_to == Verdict::Loaded {
        findings.push(Finding::warning(
            Check::LoadedThen,
            format!("kubelet {new} loads this file, which kubelet {old} refuses: the upgrade starts the pod"),
        ));
    }
    if upgraded.restarts == Some(true) {
        findings.push(Finding::info(
            Check::RestartsThen,
            format!("the upgrade to kubelet {new} restarts this pod, because its UID is another one there"),
        ));
    }
    if !upgraded.newly_read.is_empty() {
        findings.push(Finding::warning(
            Check::ObeyedThen,
            format!("kubelet {new} obeys what kubelet {old} drops: {}", upgraded.newly_read.join(", ")),
        ));
    }
    findings
}
