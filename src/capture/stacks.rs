//! Reads the findings of a recorded goroutine dump, so that a verdict from a capture can name the goroutine that blocks the
//! unanswered calls.

use std::collections::BTreeSet;

use serde::Deserialize;

#[cfg(feature = "cli")]
use crate::stacks::report::PastDump;
use crate::stacks::report::{Finding, StackReport};
#[cfg(feature = "cli")]
use crate::stacks::words::as_of;

/// The part of a recorded [`StackReport`] that a later verdict uses.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedStacks {
    summary: String,
    primary: Option<Finding>,
    findings: Vec<Finding>,
}

impl RecordedStacks {
    /// Returns the report that was recorded, without its waits and groups. `past` is set if the dump does not show the
    /// present state.
    #[cfg(feature = "cli")]
    pub(crate) fn into_report(self, source: String, past: Option<PastDump>) -> StackReport {
        let limits = vec![source, "only the findings of this dump are known".to_owned()];
        let summary = as_of(past, self.summary.clone());
        let mut report = StackReport { summary, limits, ..self.findings_report() };
        for finding in report.findings.iter_mut().chain(&mut report.primary) {
            finding.chain.past = past;
        }
        report
    }

    /// Returns the findings about the calls with the names `open`; `None` if no finding is about one of these calls.
    pub fn about_calls(mut self, open: &BTreeSet<&str>) -> Option<StackReport> {
        self.findings.retain(|found| found.rpcs.iter().any(|rpc| open.contains(rpc.as_str())));
        let report = self.findings_report();
        let summary = report.primary.as_ref()?.chain.recorded.clone().unwrap_or_default();
        let limits = vec!["only the findings of this dump are in the capture".to_owned()];
        Some(StackReport { summary, limits, ..report })
    }

    /// Returns a report with the findings and their recorded sentences.
    fn findings_report(self) -> StackReport {
        let Self { summary, primary, mut findings } = self;
        for found in &mut findings {
            // The recorded summary describes only the primary finding.
            let sentence = if primary.as_ref() == Some(found) { &summary } else { &found.title };
            found.chain.recorded = Some(sentence.clone());
        }
        StackReport { primary: findings.first().cloned(), findings, ..StackReport::default() }
    }
}

/// A recorded [`StackReport`] with the time of the dump, for the JSON Schema of a capture's report.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TimedStackReport {
    /// When the dump was read.
    time: crate::clock::Wall,
    #[schemars(flatten)]
    report: StackReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_count_only_for_calls_that_are_still_open() {
        let finding = r#"{"confidence":"certain","evidence":["behind it, by address"],"holder":{"container":{"id":"c1","name":"app"},
            "function":"Update","goroutine":469,"pod":{"name":"guilty","namespace":"default","uid":"u1"},
            "waitsFor":{"kind":"shim","pid":7880,"state":"stopped"}},"id":"ST01","next":[],"rpcs":["ListContainers"],
            "severity":"critical","threads":[],"title":"a lock is held","waiters":11}"#;
        let text = format!(
            r#"{{"kind":"StackReport","summary":"11 calls wait","dumps":[],"primary":{finding},
            "findings":[{finding}],"waits":[],"groups":[],"limits":[]}}"#
        );
        let kept = || serde_json::from_str::<RecordedStacks>(&text).unwrap();
        let report = kept().about_calls(&BTreeSet::from(["ListContainers", "Version"])).unwrap();
        let found = &report.findings[0];
        assert_eq!(found.holder.as_ref().unwrap().waits_for.pid, Some(7880));
        assert_eq!(crate::stacks::words::sentence(found), "11 calls wait");
        assert_eq!(kept().about_calls(&BTreeSet::from(["Version"])), None);
        // The summary is not used for a finding that is not the primary one.
        let other = text.replacen("ListContainers", "ContainerStatus", 1);
        let kept: RecordedStacks = serde_json::from_str(&other).unwrap();
        assert_eq!(kept.about_calls(&BTreeSet::from(["ListContainers"])).unwrap().summary, "a lock is held");
    }
}
