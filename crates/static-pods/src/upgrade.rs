//! Compares the verdicts of two kubelet releases on the same files, to predict an upgrade: which pods restart, which files
//! the new release rejects, and which fields only the new release uses (SP140 to SP143).

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

use super::report::{DropReason, DroppedField};
use super::{FileReport, FileVerdict, Kubelet, LintFinding, SourceReport};
use crate::PodIdentity;
use plegctl_base::report::PodRef;

/// The verdicts of two releases on each file.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upgrade {
    /// The present release.
    pub from: String,
    /// The release after the upgrade.
    pub to: String,
    /// The files, in the kubelet's order.
    pub files: Vec<UpgradedFile>,
    /// Advice for the upgrade, if pods restart.
    pub advice: Option<&'static str>,
}

/// The advice if pods restart: nodes that are upgraded together restart their static pods within the same seconds.
const ONE_BY_ONE: &str = "upgrade control-plane nodes one after another, because all these pods of a node restart at the same time";

/// The verdicts of two releases on one file.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpgradedFile {
    /// Its path.
    pub path: String,
    /// The pod, if one of the releases loads it. Its UID is in `uidFrom` and `uidTo`.
    pub pod: Option<PodRef>,
    /// The verdict of the present release.
    pub verdict_from: FileVerdict,
    /// The verdict of the release after the upgrade.
    pub verdict_to: FileVerdict,
    /// The pod's UID with the present release, if it is known.
    pub uid_from: Option<String>,
    /// The pod's UID after the upgrade, if it is known.
    pub uid_to: Option<String>,
    /// Whether the upgrade stops the pod and starts it again. Absent if a UID is not known.
    pub restarts: Option<bool>,
    /// Why the release after the upgrade does not load the file: the kubelet's message.
    pub kubelet_reason: Option<String>,
    /// The fields that the present release drops and the release after the upgrade uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub newly_read: Vec<String>,
}

impl UpgradedFile {
    /// Whether only the present release runs the pod.
    pub fn is_lost(&self) -> bool {
        self.verdict_from == FileVerdict::Loaded && self.verdict_to != FileVerdict::Loaded
    }

    /// Returns what happens to the pod, in one or two words.
    pub fn outcome(&self) -> &'static str {
        match (self.verdict_from, self.verdict_to, self.restarts) {
            _ if self.is_lost() => "refused",
            (FileVerdict::Loaded, FileVerdict::Loaded, Some(true)) => "restarts",
            (FileVerdict::Loaded, FileVerdict::Loaded, Some(false)) => "runs on",
            (FileVerdict::Loaded, FileVerdict::Loaded, None) => "<unknown>",
            (_, FileVerdict::Loaded, _) => "starts",
            _ => "as before",
        }
    }
}

/// Compares the verdicts of the old and the new kubelet on the same sources, and adds findings to `before`.
pub fn compare(before: &mut [SourceReport], after: &[SourceReport], old: &Kubelet, new: &Kubelet) -> Upgrade {
    let later: HashMap<&Path, &FileReport> =
        after.iter().flat_map(|source| &source.files).map(|file| (file.path.as_path(), file)).collect();
    let mut files = Vec::new();
    for file in before.iter_mut().flat_map(|source| &mut source.files) {
        let Some(later) = later.get(file.path.as_path()) else { continue };
        if file.verdict == FileVerdict::Ignored {
            continue;
        }
        let upgraded = upgraded(file, later);
        file.findings.extend(findings(&upgraded, later, old, new));
        files.push(upgraded);
    }
    let advice = files.iter().any(|file| file.restarts == Some(true)).then_some(ONE_BY_ONE);
    Upgrade { from: old.release.to_string(), to: new.release.to_string(), files, advice }
}

fn upgraded(file: &FileReport, later: &FileReport) -> UpgradedFile {
    let uid = |file: &FileReport| file.uid.clone().and_then(Result::ok);
    let (uid_from, uid_to) = (uid(file), uid(later));
    let runs_on = file.verdict == FileVerdict::Loaded && later.verdict == FileVerdict::Loaded;
    let restarts = match (&uid_from, &uid_to) {
        _ if !runs_on => Some(false),
        (Some(old), Some(new)) => Some(old != new),
        _ => None,
    };
    let pod = file.pod.as_ref().or(later.pod.as_ref());
    UpgradedFile {
        path: file.path.to_string_lossy().into_owned(),
        pod: pod.cloned().map(|PodIdentity { namespace, name }| PodRef {
            uid: String::new(),
            namespace,
            name,
        }),
        verdict_from: file.verdict,
        verdict_to: later.verdict,
        uid_from,
        uid_to,
        restarts,
        kubelet_reason: later.kubelet_reason.clone(),
        newly_read: newly_read(file, later),
    }
}

/// Returns the fields that only the newer release knows, or whose feature gate is on only in the newer release.
fn newly_read(file: &FileReport, later: &FileReport) -> Vec<String> {
    let dropped_later = dropped(later);
    let is_still_dropped = |field: &DroppedField| {
        dropped_later.iter().any(|other| other.parent == field.parent && other.name == field.name)
    };
    let needs_newer_release = |field: &&DroppedField| {
        matches!(field.why, DropReason::TooNew { .. } | DropReason::GateClosed { .. })
    };
    dropped(file)
        .iter()
        .filter(needs_newer_release)
        .filter(|field| !is_still_dropped(field))
        .map(|field| {
            let dot = if field.parent.is_empty() { "" } else { "." };
            format!("{}{dot}{}", field.parent, field.name)
        })
        .collect()
}

/// Returns the fields that the kubelet drops from a file.
fn dropped(file: &FileReport) -> &[DroppedField] {
    file.decoded().map(|decoded| decoded.dropped.as_slice()).unwrap_or_default()
}

fn findings(upgraded: &UpgradedFile, later: &FileReport, old: &Kubelet, new: &Kubelet) -> Vec<LintFinding> {
    let (old, new) = (old.release, new.release);
    let of =
        |row, value: &dyn Display| LintFinding::of(row, &[("old", &old), ("new", &new), ("value", value)]);
    let mut findings = Vec::new();
    if upgraded.is_lost() {
        let why = later.findings.iter().find(|finding| finding.severity >= super::Severity::Error);
        let because = why.map(|why| format!(" ({})", why.message)).unwrap_or_default();
        let mut finding = of("not-loaded-then", &because);
        if let Some(why) = why {
            finding = LintFinding { id: finding.id, message: finding.message, ..why.clone() };
        }
        findings.push(finding);
    }
    if upgraded.verdict_from == FileVerdict::Rejected && upgraded.verdict_to == FileVerdict::Loaded {
        findings.push(of("loaded-then", &""));
    }
    if upgraded.restarts == Some(true) {
        findings.push(of("restarts-then", &""));
    }
    if !upgraded.newly_read.is_empty() {
        findings.push(of("fields-used-then", &upgraded.newly_read.join(", ")));
    }
    findings
}
