//! D33: the exit of a container was lost.

use super::prelude::*;

use crate::diagnosis::proc::Shims;

/// Returns the status calls in which CRI-O waited for a lost exit. They take as long as CRI-O waits for the exit file, and
/// return the exit code -1, which CRI-O sets then.
pub fn lost_exits(evidence: &Evidence) -> Vec<&StatusRecord> {
    if evidence.family() != DaemonFamily::Crio {
        return Vec::new();
    }
    let runtime = &evidence.runtime;
    let lost = |record: &&StatusRecord| {
        record.duration >= limits::LOST_EXIT_WAIT
            && record.result.as_ref().is_ok_and(|facts| facts.exit_code == Some(-1))
    };
    let mut found: Vec<&StatusRecord> = runtime.status_calls.iter().filter(lost).collect();
    found.sort_by(|one, other| one.target.id.cmp(&other.target.id));
    found
}

/// Applies D33. These calls are slow and do not hang: CRI-O answers them with exit code -1.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let lost = lost_exits(evidence);
    let first = lost.first()?;
    let of = evidence.names.item(&first.target.id);
    let title = FactKind::ExitLost { of, others: lost.len() - 1, wait: first.duration.into() };
    let found = finding(RuleId::LostExit, Severity::Warning, case.confidence_in_answers(), title);
    let mut found = case.about(found, Some(&first.target.id));
    found.rpc = Some(first.rpc.name().to_owned());
    found.ids = lost.iter().map(|record| record.target.id.clone()).collect();
    let of_pods = slow_pods_of(evidence, &lost);
    let total: Duration = lost.iter().chain(&of_pods).map(|record| record.duration).sum();
    found.add_fact(FactKind::LostExitAnswers { relist: total.into(), pods_wait: !of_pods.is_empty() });
    for record in lost.iter().take(5) {
        let id = &record.target.id;
        let of = evidence.names.item(id);
        match container_parts::parts_of(evidence, id).shim {
            Some(conmon) if conmon.is_stopped() => {
                let state = conmon.state;
                found.add_fact(FactKind::ConmonStopped { of, conmon: conmon.into(), state });
                found.steps.extend(steps_of("stoppedConmon", &of_process(conmon)));
            }
            Some(conmon) => found.add_fact(FactKind::ConmonRuns { of, conmon: conmon.into() }),
            None if evidence.node().is_some_and(|host| host.latest().shims == Shims::Detailed) => {
                found.add_fact(FactKind::ConmonGone { of });
                found.steps.extend(steps_of("lostConmon", &[("id", Place::word(short(id)))]));
            }
            None => found.add_fact(FactKind::ConmonStoppedOrGone { of }),
        }
    }
    if found.steps.is_empty() {
        found.steps = steps_of("unknownConmon", &[("id", Place::word(short(&first.target.id)))]);
    }
    Some(found)
}

/// Returns the slow `PodSandboxStatus` calls of these containers' pods. If pod events are on, CRI-O fetches the status of
/// each container for such a call.
pub fn slow_pods_of<'a>(evidence: &'a Evidence, lost: &[&StatusRecord]) -> Vec<&'a StatusRecord> {
    let pods: BTreeSet<&str> =
        lost.iter().filter_map(|record| evidence.names.sandbox_of(&record.target.id)).collect();
    let slow = |record: &&StatusRecord| {
        record.rpc == Rpc::PodSandboxStatus
            && record.duration >= limits::LOST_EXIT_WAIT
            && record.result.is_ok()
            && pods.contains(record.target.id.as_str())
    };
    evidence.runtime.status_calls.iter().filter(slow).collect()
}
