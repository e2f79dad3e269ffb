//! A [`StackReport`] that is read again: a capture and a bundle keep it, so that a later verdict can name the goroutine that blocks
//! the unanswered calls.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};

use crate::report::{Finding, StackGroup, StackReport};

/// The part of a [`StackReport`] that is read again.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordedStacks {
    summary: String,
    primary: Option<Finding>,
    findings: Vec<Finding>,
    groups: Vec<StackGroup>,
}

impl<'de> Deserialize<'de> for StackReport {
    /// Returns the report without its waits. Its findings keep their recorded sentences.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RecordedStacks { summary, primary, mut findings, groups } =
            RecordedStacks::deserialize(deserializer)?;
        for found in &mut findings {
            // The recorded summary describes only the primary finding.
            let sentence = if primary.as_ref() == Some(found) { &summary } else { &found.title };
            found.chain.recorded = Some(sentence.clone());
        }
        let limits = vec!["only the findings of this dump are known".to_owned()];
        Ok(Self { summary, primary: findings.first().cloned(), findings, groups, limits, ..Self::default() })
    }
}

impl StackReport {
    /// Returns what a report that was read again says of the calls with the names `open`; `None` if no finding is about one of
    /// these calls.
    pub fn about_calls(mut self, open: &BTreeSet<&str>) -> Option<Self> {
        self.findings.retain(|found| found.rpcs.iter().any(|rpc| open.contains(rpc.as_str())));
        self.groups.clear();
        self.primary = self.findings.first().cloned();
        self.summary = self.primary.as_ref()?.chain.recorded.clone().unwrap_or_default();
        Some(self)
    }
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
        let kept = || serde_json::from_str::<StackReport>(&text).unwrap();
        let report = kept().about_calls(&BTreeSet::from(["ListContainers", "Version"])).unwrap();
        let found = &report.findings[0];
        assert_eq!(found.holder.as_ref().unwrap().waits_for.pid, Some(7880));
        assert_eq!(crate::words::sentence(found), "11 calls wait");
        assert_eq!(kept().about_calls(&BTreeSet::from(["Version"])), None);
        // The summary is not used for a finding that is not the primary one.
        let other = text.replacen("ListContainers", "ContainerStatus", 1);
        let kept: StackReport = serde_json::from_str(&other).unwrap();
        assert_eq!(kept.about_calls(&BTreeSet::from(["ListContainers"])).unwrap().summary, "a lock is held");
    }
}
