//! D18: a name stays reserved.

use super::failing_pods;
use super::prelude::*;

/// Applies D18 while the kubelet's creates fail because of a reserved name. This is no conflict of two names: an earlier create
/// for the same name has not finished, unless the runtime lists the holder.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let mut failing = failing_pods::persisting(case.evidence);
    failing.retain(|failing| failing.cause == FailureCause::NameReserved);
    let (failing, others) = failing.split_first().map(|(first, others)| (*first, others.len()))?;
    let holder = holder(failing);
    let is_created = holder.is_some_and(|id| is_listed(case.evidence, id));
    let pod = failing.pod.clone();
    let title = if is_created {
        FactKind::NameIsTaken { pod, others }
    } else {
        FactKind::NameStaysReserved { pod, others }
    };
    let mut found = finding(RuleId::ReservedName, Severity::Warning, Confidence::Certain, title);
    found.pod = Some(failing.pod.clone());
    found.ids.extend(holder.map(str::to_owned));
    found.add_fact(failing_pods::words(failing));
    found.add_fact(failing_pods::since(failing, case.evidence.taken_at));
    Some(found)
}

/// Returns whether the runtime lists a sandbox or a container with this id.
fn is_listed(evidence: &Evidence, id: &str) -> bool {
    let runtime = &evidence.runtime;
    let mut sandboxes = runtime.sandboxes.latest().into_iter().flatten();
    let mut containers = runtime.containers.latest().into_iter().flatten();
    sandboxes.any(|one| one.id == id) || containers.any(|one| one.id == id)
}

/// Returns the id for which containerd keeps the name. CRI-O does not say it.
fn holder(failing: &FailingPod) -> Option<&str> {
    let (_, holder) = failing.words.rsplit_once(" is reserved for \"")?;
    holder.split('"').next().filter(|id| id.len() == 64)
}
