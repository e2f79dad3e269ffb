//! What a goroutine dump said, read back from a capture: who holds up calls that are still not answered.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::report::{Confidence, Severity};
use crate::stacks::report::{Chain, Finding, Holder, StackReport};

/// The part of a recorded [`StackReport`] that a later verdict rests on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptStacks {
    summary: String,
    primary: Option<KeptFinding>,
    findings: Vec<KeptFinding>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct KeptFinding {
    id: String,
    title: String,
    severity: Severity,
    confidence: Confidence,
    #[serde(default)]
    rpcs: Vec<String>,
    #[serde(default)]
    waiters: u64,
    #[serde(default)]
    minutes: Option<u32>,
    #[serde(default)]
    holder: Option<Holder>,
    #[serde(default)]
    evidence: Vec<String>,
    #[serde(default)]
    next: Vec<String>,
    #[serde(default)]
    threads: Vec<String>,
}

impl KeptStacks {
    /// What it says of calls with these names, if it says anything.
    pub fn of_calls(self, open: &BTreeSet<&str>) -> Option<StackReport> {
        let Self { summary, primary, findings } = self;
        let concerned =
            findings.into_iter().filter(|found| found.rpcs.iter().any(|rpc| open.contains(rpc.as_str())));
        let findings: Vec<Finding> = concerned
            .map(|found| {
                let sentence =
                    if primary.as_ref() == Some(&found) { summary.clone() } else { found.title.clone() };
                found.with_sentence(sentence)
            })
            .collect();
        let primary = findings.first().cloned()?;
        Some(StackReport {
            summary,
            dumps: Vec::new(),
            primary: Some(primary),
            findings,
            waits: Vec::new(),
            groups: Vec::new(),
            limits: vec!["only the findings of this dump are in the capture".to_owned()],
        })
    }
}

impl KeptFinding {
    fn with_sentence(self, sentence: String) -> Finding {
        Finding {
            id: self.id,
            title: self.title,
            severity: self.severity,
            confidence: self.confidence,
            rpcs: self.rpcs,
            waiters: self.waiters,
            minutes: self.minutes,
            holder: self.holder,
            evidence: self.evidence,
            next: self.next,
            threads: self.threads,
            chain: Chain { recorded: Some(sentence), ..Chain::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_counts_for_the_calls_that_are_still_open_and_for_no_others() {
        let finding = r#"{"confidence":"certain","evidence":["behind it, by address"],"holder":{"container":{"id":"c1","name":"app"},
            "function":"Update","goroutine":469,"pod":{"name":"guilty","namespace":"default","uid":"u1"},
            "waitsFor":{"kind":"shim","pid":7880,"state":"stopped"}},"id":"ST01","next":[],"rpcs":["ListContainers"],
            "severity":"critical","threads":[],"title":"a lock is held","waiters":11}"#;
        let text = format!(
            r#"{{"kind":"StackReport","summary":"11 calls wait","dumps":[],"primary":{finding},
            "findings":[{finding}],"waits":[],"groups":[],"limits":[]}}"#
        );
        let kept = || serde_json::from_str::<KeptStacks>(&text).unwrap();
        let report = kept().of_calls(&BTreeSet::from(["ListContainers", "Version"])).unwrap();
        let found = &report.findings[0];
        assert_eq!(found.holder.as_ref().unwrap().waits_for.pid, Some(7880));
        assert_eq!(crate::stacks::words::sentence(found), "11 calls wait");
        assert_eq!(kept().of_calls(&BTreeSet::from(["Version"])), None);
    }
}
