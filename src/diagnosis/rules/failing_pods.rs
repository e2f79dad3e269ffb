//! D45: creates or deletes fail at once, again and again.

use super::prelude::*;
use std::collections::BTreeMap;

use crate::diagnosis::facts::Program;
use crate::diagnosis::failing_pods::FailingStep;

/// The most pods that the evidence names.
pub(super) const MAX_NAMED: usize = 3;

/// Returns whether the journal has an error with this cause.
pub(super) fn any(evidence: &Evidence, cause: FailureCause) -> bool {
    evidence.journal.iter().flat_map(|journal| &journal.failing_pods).any(|pod| pod.cause == cause)
}

/// Returns the pods for which a step fails again and again, and still does.
pub fn persisting(evidence: &Evidence) -> Vec<&FailingPod> {
    let Some(journal) = &evidence.journal else { return Vec::new() };
    let span = Duration::try_from_secs_f64(journal.span_seconds).unwrap_or_default();
    let persists = |pod: &&FailingPod| pod.persists(span) && may_last(evidence, pod);
    journal.failing_pods.iter().filter(persists).collect()
}

/// Returns whether a step may still fail: its last error is recent, and nothing shows that it has succeeded since.
pub fn may_last(evidence: &Evidence, failing: &FailingPod) -> bool {
    failing.is_recent(evidence.taken_at) && !is_over(evidence, failing)
}

/// Returns whether the runtime shows that the step has succeeded since its last error: the pod has a new sandbox or a new
/// container, or no sandbox any more.
fn is_over(evidence: &Evidence, failing: &FailingPod) -> bool {
    let runtime = &evidence.runtime;
    let is_own = |id: &str| evidence.names.pod(id).is_some_and(|pod| pod.uid == failing.pod.uid);
    let is_newer = |at: i64| at > failing.last.nanos();
    let (Some(sandboxes), Some(containers)) = (runtime.sandboxes.latest(), runtime.containers.latest())
    else {
        return false;
    };
    let mut sandboxes = sandboxes.iter().filter(|one| is_own(&one.id));
    match failing.step {
        FailingStep::CreateSandbox => sandboxes.any(|one| is_newer(one.created_at)),
        FailingStep::StartContainer => {
            containers.iter().any(|one| is_newer(one.created_at) && is_own(&one.id))
        }
        FailingStep::StopContainer | FailingStep::StopSandbox => sandboxes.next().is_none(),
    }
}

/// What D45 is applied to, on the node and from outside.
pub struct FailingSteps<'a> {
    /// When this was read.
    pub now: Wall,
    /// The steps that fail again and again, and still do.
    pub persisting: Vec<&'a FailingPod>,
    /// Returns the UIDs of the pods for which the same step has succeeded since the first error.
    pub started_since: &'a dyn Fn(&FailingPod) -> BTreeSet<String>,
    /// Returns what to do.
    pub what_to_do: &'a dyn Fn(&FailingPod) -> Vec<Step>,
}

/// Applies D45.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let evidence = case.evidence;
    find_in(&FailingSteps {
        now: evidence.taken_at,
        persisting: persisting(evidence),
        started_since: &|failing| started_since(evidence, failing),
        what_to_do: &|failing| steps(evidence, failing),
    })
}

/// Applies D45, once for each cause of starts and of ends. A pod that cannot end is certain. A create may fail because of the
/// pod itself, so it needs a cause that is the node's, and more pods that fail than pods that start.
pub fn find_in(failing: &FailingSteps<'_>) -> Vec<HealthFinding> {
    let mut groups: BTreeMap<(bool, FailureCause), Vec<&FailingPod>> = BTreeMap::new();
    // D18 reports reserved names, and the program of a container may not exist.
    let counts = |pod: &&&FailingPod| {
        pod.cause != FailureCause::NameReserved
            && (pod.cause != FailureCause::Other || pod.step != FailingStep::StartContainer)
    };
    for pod in failing.persisting.iter().filter(counts) {
        groups.entry((pod.step.is_of_end(), pod.cause)).or_default().push(pod);
    }
    groups.into_values().filter_map(|pods| of_group(failing, pods)).collect()
}

fn of_group(steps: &FailingSteps<'_>, mut pods: Vec<&FailingPod>) -> Option<HealthFinding> {
    pods.sort_by_key(|failing| (failing.first, failing.step, &failing.pod.uid));
    let first = *pods.first()?;
    let uids: BTreeSet<&str> = pods.iter().map(|failing| failing.pod.uid.as_str()).collect();
    let mut started = if first.step.is_of_end() { BTreeSet::new() } else { (steps.started_since)(first) };
    started.retain(|uid| !uids.contains(uid.as_str()));
    let started = started.len();
    let confidence = confidence(&pods, uids.len(), started);
    let step = first.step;
    let title =
        FactKind::PodsFail { step, cause: first.cause, pod: first.pod.clone(), others: uids.len() - 1 };
    let mut found = finding(RuleId::FailingPods, Severity::Warning, confidence, title);
    found.pod = Some(first.pod.clone());
    found.ids = uids.iter().take(limits::MAX_LISTED_IDS).map(|&uid| uid.to_owned()).collect();
    let latest = pods.iter().max_by_key(|failing| failing.last).copied().unwrap_or(first);
    found.add_fact(words(latest));
    found.add_facts(pods.iter().take(MAX_NAMED).map(|failing| since(failing, steps.now)));
    if !step.is_of_end() && started == 0 {
        found.add_fact(FactKind::NothingElseStarted { step });
    } else if started > 0 {
        found.add_fact(FactKind::OthersStarted { pods: started });
    }
    found.steps = (steps.what_to_do)(latest);
    Some(found)
}

fn confidence(pods: &[&FailingPod], failing: usize, started: usize) -> Confidence {
    let Some(first) = pods.first() else { return Confidence::Possible };
    let namespaces: BTreeSet<&str> = pods.iter().map(|failing| failing.pod.namespace.as_str()).collect();
    // One container may ask for something that the node does not have; so may the pods of one application.
    let is_of_node = match (first.cause, first.step) {
        (FailureCause::Other, _) => namespaces.len() > 1,
        (_, FailingStep::StartContainer) => failing > 1,
        _ => true,
    };
    match (first.step.is_of_end(), is_of_node && failing > started) {
        (true, _) => Confidence::Certain,
        (false, true) if failing > 1 && started == 0 => Confidence::Certain,
        (false, true) => Confidence::Likely,
        (false, false) => Confidence::Possible,
    }
}

/// Returns the pods for which the same step has succeeded since the first error. A pod in the node's network needs no network
/// plugin.
fn started_since(evidence: &Evidence, failing: &FailingPod) -> BTreeSet<String> {
    let rpc =
        if failing.step == FailingStep::CreateSandbox { Rpc::PodSandboxStatus } else { Rpc::ContainerStatus };
    let started = evidence.runtime.status_calls.iter().filter(|record| record.rpc == rpc).filter(|record| {
        record.result.as_ref().is_ok_and(|facts| {
            let needs_plugin = failing.cause != FailureCause::Network || facts.host_network != Some(true);
            needs_plugin && facts.started_at.or(facts.created_at) > Some(failing.first)
        })
    });
    started.filter_map(|record| Some(evidence.names.pod(&record.target.id)?.uid)).collect()
}

/// Quotes the plugin or the runtime.
pub fn words(failing: &FailingPod) -> FactKind {
    let words = Quoted::from(&failing.words);
    match &failing.plugin {
        Some(plugin) => FactKind::PluginSays { plugin: Program::from(plugin), words },
        None => FactKind::RuntimeSays { words },
    }
}

/// Says how often a step has failed, and since when.
pub fn since(failing: &FailingPod, now: Wall) -> FactKind {
    FactKind::HasFailed {
        pod: failing.pod.clone(),
        failures: failing.failures,
        since: now.duration_since(failing.first).into(),
        last: now.duration_since(failing.last).into(),
    }
}

/// Returns what to do about a cause.
pub fn steps(evidence: &Evidence, failing: &FailingPod) -> Vec<Step> {
    evidence.steps(failing.cause.as_str(), &[("pod", Place::word(&failing.pod.name))])
}
