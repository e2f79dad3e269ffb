//! The report of `plegctl preflight`.

use serde::Serialize;

use super::{SourceText, StartCheck, StartFinding};
use crate::manifests::upgrade::UpgradedFile;
use crate::report::{NotChecked, Severity};

/// The report about whether a kubelet starts.
#[crate::report::omit_none]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct PreflightReport {
    /// The node, if its settings were checked.
    pub node: Option<String>,
    /// The release of the running kubelet, or the release that the user gave.
    pub release: Option<String>,
    /// The release after the upgrade, if an upgrade is checked.
    pub upgrade_to: Option<String>,
    /// Where the settings come from.
    pub settings: String,
    /// The findings, in the order in which the kubelet would report the errors.
    pub findings: Vec<StartFinding>,
    /// The effect of the upgrade on each static pod.
    pub pods: Vec<UpgradedFile>,
    /// What was not checked, and why.
    pub not_checked: Vec<NotChecked>,
    /// The number of findings by severity.
    pub counts: FindingCounts,
    /// The result in one sentence.
    pub summary: String,
    /// The texts of the files.
    #[serde(skip)]
    pub texts: Vec<SourceText>,
}

/// The number of findings by severity.
#[crate::report::document_part]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingCounts {
    /// The number of errors, with which the kubelet does not start or does not keep running.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
    /// The number of findings that are only information.
    pub infos: usize,
}

impl PreflightReport {
    /// Removes the findings of ignored checks, and sets the counts and the summary.
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

    /// Returns the summary.
    fn sentence(&self) -> String {
        let release =
            self.upgrade_to.as_deref().or(self.release.as_deref()).unwrap_or("of an unknown release");
        let first = self.findings.iter().find(|finding| finding.severity >= Severity::Error);
        match (first, self.counts.warnings) {
            (Some(first), _) => {
                // Many messages end with the words with which this sentence begins.
                let end = format!("kubelet {release} does not start");
                let reason = first.message.strip_suffix(&end).unwrap_or(&first.message);
                let reason = reason.trim_end_matches(", so ").trim_end_matches(": ");
                format!("kubelet {release} would not start or keep running: {reason}")
            }
            (None, 0) => format!("no finding prevents kubelet {release} from starting"),
            (None, 1) => format!("no finding prevents kubelet {release} from starting; 1 warning"),
            (None, warnings) => {
                format!("no finding prevents kubelet {release} from starting; {warnings} warnings")
            }
        }
    }

    /// Returns the highest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
