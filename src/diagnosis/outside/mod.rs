//! Judges a node by what can be read of it from outside, without a program of plegctl on the node: its kubelet's documents
//! and goroutine dumps, and the API server's objects.
//!
//! The findings have the same rules and the same kinds of facts as those of a run on the node, and the same judge decides
//! the verdict. What was not read is absent from the facts, so a finding may be missing, and none is made up. The dumps
//! contain no names, so a pod is only a *suspect*.

use std::time::Duration;

use super::facts::{Call, FactKind, Word};
use super::judge::{Relists, VerdictFacts, Weight};
use super::report::{Confidence, HealthFinding, RuleId, Severity};
use super::rules::finding;
use crate::cri::Rpc;
use crate::stacks::kubelet::{KubeletCalls, WaitingCall};

/// The number of the kubelet's goroutines that do not wait for the same call by chance.
const MIN_WAITING: usize = 3;

/// The age of a relist at which a kubelet that relists every second is late.
const LATE: Duration = Duration::from_secs(20);

/// For how long a call must be seen to wait, so that it is certain to hang (as for a call of plegctl itself).
const CERTAIN: Duration = Duration::from_secs(10);

/// What was read of a node from outside.
#[derive(Clone, Debug, Default)]
pub struct OutsideFacts {
    /// The age of PLEG by the kubelet's metrics.
    pub age: Option<Duration>,
    /// The age at which PLEG is unhealthy.
    pub threshold: Duration,
    /// Whether the kubelet's `/metrics` is silent while its `/configz` answers.
    pub metrics_are_silent: bool,
    /// Whether the node's condition says that PLEG is not healthy.
    pub is_reported: bool,
    /// The time after which the kubelet gives up a call.
    pub gives_up: Option<Duration>,
    /// What the kubelet's goroutine dumps show of its calls.
    pub calls: Option<KubeletCalls>,
}

/// What the facts show.
#[derive(Clone, Debug, Default)]
pub struct OutsideFindings {
    /// The findings, the most important first.
    pub findings: Vec<HealthFinding>,
    /// Whether a list call that hangs lets no relist succeed.
    relists_fail: bool,
}

impl OutsideFindings {
    /// Adds what was found to the facts that decide the verdict.
    pub fn add_to(&self, facts: VerdictFacts) -> VerdictFacts {
        let found = self.findings.iter().map(Weight::of).max().unwrap_or_default();
        VerdictFacts {
            found: facts.found.max(found),
            relists: if self.relists_fail { Relists::Fail } else { facts.relists },
            ..facts
        }
    }
}

/// Applies the rules to what was read from outside.
pub fn find(facts: &OutsideFacts) -> OutsideFindings {
    let hung = facts.calls.as_ref().and_then(|calls| hung_call(facts, calls));
    let relists_fail = hung
        .as_ref()
        .is_some_and(|found| found.id == RuleId::HungList && found.confidence != Confidence::Possible);
    let stale = stale_kubelet(facts);
    OutsideFindings { findings: hung.into_iter().chain(stale).collect(), relists_fail }
}

/// Applies D01 and D02 to the call for which the kubelet's relist waits.
fn hung_call(facts: &OutsideFacts, calls: &KubeletCalls) -> Option<HealthFinding> {
    let call = calls.relist.call()?;
    let rpc = Rpc::ALL.into_iter().find(|rpc| rpc.name() == call.rpc)?;
    let id = if rpc.is_list() { RuleId::HungList } else { RuleId::HungStatus };
    let waiting = calls.waiting.get(&call.rpc).copied().unwrap_or_default();
    let confidence = confidence(facts, call, waiting);
    let severity = if confidence == Confidence::Possible { Severity::Info } else { Severity::Critical };
    let title = FactKind::RelistWaitsFor { call: Call { rpc, of: None } };
    let mut found = finding(id, severity, confidence, title);
    found.rpc = Some(call.rpc.clone());
    if let Some(apart) = calls.compared.filter(|_| call.is_in_both) {
        found.add_fact(FactKind::SameCallInBothDumps { apart: apart.into() });
    }
    found.add_facts(call.waited.about.map(|about| FactKind::CallHasWaited { about: about.into() }));
    if waiting > 1 {
        found.add_fact(FactKind::GoroutinesWaitForCall { rpc: Word::from(&call.rpc), goroutines: waiting });
    }
    found.add_facts(facts.metrics_are_silent.then_some(FactKind::MetricsWaitToo));
    found.add_facts(facts.age.map(|age| FactKind::KubeletRelistAge { seconds: age.as_secs_f64().into() }));
    found.add_facts(facts.gives_up.map(|after| FactKind::CallIsRepeated { gives_up: after.into() }));
    Some(found)
}

/// Returns how certain it is that the call hangs. Each piece of evidence is from another source: two dumps, the age of the
/// last relist, and other goroutines that wait for the same call.
fn confidence(facts: &OutsideFacts, call: &WaitingCall, waiting: usize) -> Confidence {
    let late = facts.age.is_some_and(|age| age >= LATE) || facts.metrics_are_silent || facts.is_reported;
    let shared = waiting >= MIN_WAITING;
    match (call.is_in_both, late, shared) {
        (true, true, _) => Confidence::Certain,
        _ if call.waited.at_least >= CERTAIN => Confidence::Certain,
        (true, false, _) | (false, true, true) => Confidence::Likely,
        (false, _, _) => Confidence::Possible,
    }
}

/// Applies D22.
fn stale_kubelet(facts: &OutsideFacts) -> Option<HealthFinding> {
    let age = facts.age.filter(|age| *age > facts.threshold)?;
    let title = FactKind::RelistIsOverThreshold { age: age.into(), threshold: facts.threshold.into() };
    Some(finding(RuleId::StaleKubelet, Severity::Critical, Confidence::Certain, title))
}
