//! Applies D45 to the pods that fail, by the kubelet's journal or events.
//!
//! The rule is that of a run on the node. What the runtime shows there, the pods' objects show here: a step counts only while its
//! pod waits for it. The objects may be late, and more than the kubelet may write events, so no finding is *certain*.

use super::OutsideFacts;
use crate::diagnosis::failing_pods::{FailingPod, FailureCause};
use crate::diagnosis::report::{Confidence, HealthFinding};
use crate::diagnosis::rules::failing_pods::{FailingSteps, find_in};
use crate::diagnosis::rules::steps::{Place, steps_of};
use crate::report::Step;

/// Returns the findings, none of them certain.
pub(super) fn find(facts: &OutsideFacts) -> Vec<HealthFinding> {
    let Some(now) = facts.taken_at else { return Vec::new() };
    let waits = |failing: &&FailingPod| {
        let mut own = facts.pods.iter().filter(|pod| pod.pod.uid == failing.pod.uid);
        own.any(|pod| pod.waits_for(failing.step, now).is_some())
    };
    let mut findings = find_in(&FailingSteps {
        now,
        persisting: facts.failing.iter().filter(waits).collect(),
        started_since: &|failing| {
            let started = facts.pods.iter().filter(|pod| pod.has_started_since(failing));
            started.map(|pod| pod.pod.uid.clone()).collect()
        },
        what_to_do: &|failing| what_to_do(facts, failing),
    });
    for found in findings.iter_mut().filter(|found| found.confidence == Confidence::Certain) {
        found.confidence = Confidence::Likely;
    }
    findings.sort_by_key(|found| found.confidence);
    findings
}

fn what_to_do(facts: &OutsideFacts, failing: &FailingPod) -> Vec<Step> {
    let is_network = failing.cause == FailureCause::Network;
    let id = if is_network { "networkFromOutside" } else { "failingFromOutside" };
    steps_of(
        id,
        &[("node", Place::word(&facts.node)), ("pods", Place::word(format!("spec.nodeName={}", facts.node)))],
    )
}
