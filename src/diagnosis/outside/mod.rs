//! Judges a node by what can be read of it from outside, without a program of plegctl on the node: its kubelet's documents
//! and goroutine dumps, and the API server's objects.
//!
//! The findings have the same rules and the same kinds of facts as those of a run on the node, and the same judge decides
//! the verdict. What was not read is absent from the facts, so a finding may be missing, and none is made up. The dumps
//! contain no names, so a pod is only a *suspect*.

mod failing;
pub mod pods;
mod steps;
mod suspects;

use std::time::Duration;

pub use self::pods::{OutsidePod, has_no_answer};
use super::facts::{Call, FactKind, Word};
use super::failing_pods::FailingPod;
use super::judge::{Relists, VerdictFacts, Weight};
use super::report::{Confidence, HealthFinding, RuleId, Severity, SuspectReport};
use super::rules::finding;
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::report::Step;
use crate::stacks::kubelet::{KubeletCalls, WaitingCall, WaitingWorker};

/// The number of the kubelet's goroutines that do not wait for the same call by chance.
const MIN_WAITING: usize = 3;

/// The age of a relist at which a kubelet that relists every second is late.
const LATE: Duration = Duration::from_secs(20);

/// For how long a call must be seen to wait, so that it is certain to hang (as for a call of plegctl itself).
const CERTAIN: Duration = Duration::from_secs(10);

/// The wait after which a call of a pod worker is too long although PLEG is healthy.
const LONG_CALL: Duration = Duration::from_secs(120);

/// The wait after which a call of a pod worker is too long if a pod's change is due.
const SLOW_CALL: Duration = Duration::from_secs(60);

/// The call that lasts until a container has ended.
const STOP: &str = "StopContainer";

/// What was read of a node from outside.
#[derive(Clone, Debug, Default)]
pub struct OutsideFacts {
    /// The node's name.
    pub node: String,
    /// The machine's id in its cloud (`spec.providerID`).
    pub provider_id: Option<String>,
    /// When the facts were read, by the API server's clock.
    pub taken_at: Option<Wall>,
    /// When the last successful relist began, by the same clock.
    pub last_seen: Option<Wall>,
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
    /// The pods of the node.
    pub pods: Vec<OutsidePod>,
    /// The lines of the kubelet's log about calls that had no answer.
    pub log: Vec<String>,
    /// The steps for pods that have failed again and again until a moment ago.
    pub failing: Vec<FailingPod>,
}

/// What the facts show.
#[derive(Clone, Debug, Default)]
pub struct OutsideFindings {
    /// The findings, the most important first.
    pub findings: Vec<HealthFinding>,
    /// The pods for which a call may hang, the most suspicious first.
    pub suspects: Vec<SuspectReport>,
    /// The steps that save evidence.
    pub keep: Vec<Step>,
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
        .is_some_and(|found| found.id != RuleId::HungStatus && found.severity == Severity::Critical);
    let workers = if hung.is_none() { stuck_workers(facts) } else { None };
    let all = hung.into_iter().chain(stale_kubelet(facts)).chain(workers);
    let mut findings: Vec<HealthFinding> = all.collect();
    let suspects = suspects::suspects(facts);
    if let Some(primary) = findings.first_mut() {
        primary.steps.extend(steps::to_settle(facts, primary.phase));
    }
    findings.extend(failing::find(facts));
    let is_worth_it = !(findings.is_empty() && suspects.is_empty());
    let keep = if is_worth_it { steps::to_keep(facts) } else { Vec::new() };
    OutsideFindings { findings, suspects, keep, relists_fail }
}

/// Applies D01, D02 and D07 to the call for which the kubelet's relist waits.
fn hung_call(facts: &OutsideFacts, calls: &KubeletCalls) -> Option<HealthFinding> {
    let call = calls.relist.call()?;
    let rpc = Rpc::named(&call.rpc)?;
    let id = match () {
        () if calls.is_silent_runtime() => RuleId::SilentRuntime,
        () if rpc.is_list() => RuleId::HungList,
        () => RuleId::HungStatus,
    };
    let waiting = calls.waiting.get(&call.rpc).copied().unwrap_or_default();
    let confidence = confidence(facts, call, waiting);
    let severity = match confidence {
        Confidence::Possible => Severity::Info,
        // A call that is only slow makes a relist late.
        Confidence::Likely if !(facts.metrics_are_silent || facts.is_reported) => Severity::Warning,
        Confidence::Likely | Confidence::Certain => Severity::Critical,
    };
    let title = FactKind::RelistWaitsFor { call: Call { rpc, of: None } };
    let mut found = finding(id, severity, confidence, title);
    found.rpc = Some(call.rpc.clone());
    if let Some(apart) = calls.compared.filter(|_| call.is_in_both) {
        found.add_fact(FactKind::SameCallInBothDumps { apart: apart.into() });
    }
    found.add_facts(by_gos_count(call));
    if id == RuleId::SilentRuntime {
        let rpcs = calls.waiting.keys().map(Word::from).collect();
        found.add_fact(FactKind::AllCallsWait { rpcs });
    } else if waiting > 1 {
        found.add_fact(FactKind::GoroutinesWaitForCall { rpc: Word::from(&call.rpc), goroutines: waiting });
    }
    let (workers, rpcs) = waiting_workers(&calls.workers.iter().collect::<Vec<_>>());
    found.add_facts((workers > 0).then_some(FactKind::WorkersWaitToo { rpcs, workers }));
    found.add_facts(facts.metrics_are_silent.then_some(FactKind::MetricsWaitToo));
    found.add_facts(facts.age.map(|age| FactKind::KubeletRelistAge { seconds: age.as_secs_f64().into() }));
    found.add_facts(facts.gives_up.map(|after| FactKind::CallIsRepeated { gives_up: after.into() }));
    Some(found)
}

/// Returns how certain it is that the call hangs. Each piece of evidence is from another source: two dumps, the age of the
/// last relist, and other goroutines that wait for the same call. A slow call can be in both dumps, and make the relist late.
fn confidence(facts: &OutsideFacts, call: &WaitingCall, waiting: usize) -> Confidence {
    let late = facts.is_late();
    let shared = waiting >= MIN_WAITING;
    match (call.is_in_both, late, shared) {
        (true, true, true) => Confidence::Certain,
        _ if call.waited.at_least >= CERTAIN => Confidence::Certain,
        (true, _, _) | (false, true, true) => Confidence::Likely,
        (false, _, _) => Confidence::Possible,
    }
}

/// Applies D44 to the calls for which pod workers wait.
fn stuck_workers(facts: &OutsideFacts) -> Option<HealthFinding> {
    let stuck = facts.stuck_workers();
    let longest = stuck.iter().max_by_key(|worker| (worker.call.is_in_both, worker.call.waited.about))?;
    let (workers, rpcs) = waiting_workers(&stuck);
    let title = FactKind::WorkersWaitFor { rpcs, workers };
    let mut found = finding(RuleId::StuckWorkers, Severity::Warning, Confidence::Likely, title);
    found.rpc = Some(longest.call.rpc.clone());
    let compared = facts.calls.as_ref().and_then(|calls| calls.compared);
    found.add_facts(compared.map(|apart| FactKind::SameCallInBothDumps { apart: apart.into() }));
    found.add_facts(by_gos_count(&longest.call));
    Some(found)
}

/// Returns how long a call has waited, if Go counts it. Go counts whole minutes.
fn by_gos_count(call: &WaitingCall) -> Option<FactKind> {
    let about = call.waited.about.filter(|about| *about >= Duration::from_secs(60))?;
    Some(FactKind::CallHasWaited { about: about.into() })
}

/// Returns the number of workers and their calls.
fn waiting_workers(workers: &[&WaitingWorker]) -> (usize, Vec<Word>) {
    let mut rpcs: Vec<&str> = workers.iter().map(|worker| worker.call.rpc.as_str()).collect();
    rpcs.sort_unstable();
    rpcs.dedup();
    (workers.len(), rpcs.into_iter().map(Word::from).collect())
}

impl OutsideFacts {
    /// Whether the kubelet has not relisted for too long.
    fn is_late(&self) -> bool {
        self.metrics_are_silent || self.is_reported || self.age.is_some_and(|age| age >= LATE)
    }

    /// Returns the pod workers whose call is in both dumps and takes too long. While PLEG is late, every such call counts.
    fn stuck_workers(&self) -> Vec<&WaitingWorker> {
        let calls = self.calls.iter().flat_map(|calls| &calls.workers);
        calls.filter(|worker| worker.call.is_in_both && (self.is_late() || self.is_overdue(worker))).collect()
    }

    /// Whether a call of a pod worker takes too long although PLEG is healthy. The end of a container may take as long as the pod
    /// allows. A call that has not waited for long may be for the one pod of several that has just changed.
    fn is_overdue(&self, worker: &WaitingWorker) -> bool {
        let call = &worker.call;
        let has_waited = |least: Duration| call.waited.about.is_some_and(|about| about >= least);
        let is_due =
            |pod: &OutsidePod| pod.overdue(worker.task, self.taken_at).is_some() || !pod.no_answer.is_empty();
        let due: Vec<bool> = self.pods.iter().filter(|pod| pod.may_wait_for(worker)).map(is_due).collect();
        let is_over = due.contains(&true) && (has_waited(SLOW_CALL) || !due.contains(&false));
        is_over || call.rpc != STOP && has_waited(LONG_CALL)
    }
}

/// Applies D22.
fn stale_kubelet(facts: &OutsideFacts) -> Option<HealthFinding> {
    let age = facts.age.filter(|age| *age > facts.threshold)?;
    let title = FactKind::RelistIsOverThreshold { age: age.into(), threshold: facts.threshold.into() };
    Some(finding(RuleId::StaleKubelet, Severity::Critical, Confidence::Certain, title))
}
