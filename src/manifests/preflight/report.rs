//! The document of `plegctl preflight`.

use std::sync::Arc;

use serde::Serialize;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use crate::manifests::upgrade::UpgradedFile;
use crate::report::{NotChecked, Severity};

/// The text of a configuration file, for the line under a finding.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The path, as the kubelet sees it.
    pub path: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// Whether a kubelet starts.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct PreflightReport {
    /// The node, if its settings were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The release that runs, or the release that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The release that is to be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_to: Option<String>,
    /// Where the settings come from.
    pub settings: String,
    /// The findings, in the order in which the kubelet meets the faults.
    pub findings: Vec<StartFinding>,
    /// What the upgrade does with each static pod.
    pub pods: Vec<UpgradedFile>,
    /// What was not checked, and why.
    pub not_checked: Vec<NotChecked>,
    /// The number of findings by severity.
    pub counts: FindingCounts,
    /// The answer in one sentence.
    pub summary: String,
    /// The texts of the files.
    #[serde(skip)]
    pub texts: Vec<SourceText>,
}

/// The number of findings by severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingCounts {
    /// Faults with which the kubelet does not start or does not keep running.
    pub errors: usize,
    /// Probable mistakes.
    pub warnings: usize,
    /// Information.
    pub infos: usize,
}

impl PreflightReport {
    /// Leaves out findings of ignored checks, and fills in the counts and the summary.
    #[must_use]
    pub fn finished(mut self, is_ignored: impl Fn(StartCheck) -> bool) -> Self {
        self.findings.retain(|finding| !is_ignored(finding.id));
        let mut counts = FindingCounts::default();
        for finding in &self.findings {
            match finding.severity {
                Severity::Critical | Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Info => counts.infos += 1,
            }
        }
        self.counts = counts;
        self.summary = self.sentence();
        self
    }

    fn sentence(&self) -> String {
        let release =
            self.upgrade_to.as_deref().or(self.release.as_deref()).unwrap_or("of an unknown release");
        let first = self.findings.iter().find(|finding| finding.severity >= Severity::Error);
        match (first, self.counts.warnings) {
            (Some(first), _) => {
                format!("kubelet {release} would not start or keep running: {}", first.message)
            }
            (None, 0) => format!("nothing here keeps kubelet {release} from starting"),
            (None, 1) => format!("nothing here keeps kubelet {release} from starting; 1 warning"),
            (None, warnings) => {
                format!("nothing here keeps kubelet {release} from starting; {warnings} warnings")
            }
        }
    }

    /// The highest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
