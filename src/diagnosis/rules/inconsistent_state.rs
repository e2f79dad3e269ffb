//! D19: the runtime's state contradicts reality.

use super::prelude::*;
use crate::diagnosis::evidence::oddities::{OddKind, Oddity, lasting_oddities};
use crate::diagnosis::facts::{Fact, Word};
use crate::diagnosis::proc::{Shims, monitored_ids, sub_command};
use crate::manifests::pod_versions::PodVersions;
use crate::manifests::running::running_pods;
use crate::manifests::{PodSource, RunningPod};

/// Returns whether a container of CRI-O has no conmon.
fn has_no_conmon(evidence: &Evidence, id: &str, sandbox: Option<&str>) -> bool {
    let Some(host) = evidence.node().filter(|_| evidence.family() == DaemonFamily::Crio) else {
        return false;
    };
    // Without their command lines, the conmon processes cannot be compared.
    if host.latest().shims == Shims::Counted {
        return false;
    }
    let is_searched = |named: &str| named == id || Some(named) == sandbox;
    let monitors_it = |conmon: &Process| monitored_ids(&conmon.command).any(is_searched);
    !host.latest().with_role(Role::Shim).any(monitors_it)
}

/// Applies D19. With a single sample the finding is only possible: the runtime may be creating or removing the item.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let (lasting, again) = lasting_oddities(case.evidence);
    let worst = lasting.first()?;
    let confidence = if again { worst.kind.confidence() } else { Confidence::Possible };
    let id = worst.id;
    let item = |id: &str| case.evidence.names.item(id);
    let title = FactKind::Contradiction { of: item(id), what: worst.kind };
    let found = finding(RuleId::InconsistentState, Severity::Warning, confidence, title);
    let mut found = case.about(found, Some(id));
    let ids = lasting.iter().flat_map(Oddity::ids).take(limits::MAX_LISTED_IDS);
    found.ids = ids.map(str::to_owned).collect();
    if worst.kind == OddKind::TwoVersions {
        add_versions(&mut found, case.evidence, worst);
        return Some(found);
    }
    found.add_facts(lasting.iter().take(10).map(|oddity| FactKind::Contradictions {
        of: oddity.ids().take(10).map(item).collect(),
        what: oddity.kind,
    }));
    if lasting.len() > 10 {
        found.add_fact(FactKind::AndMore { others: lasting.len() - 10 });
    }
    let without_process = || lasting.iter().filter(|oddity| oddity.kind == OddKind::NoProcess);
    let awaited: Vec<&Process> =
        without_process().filter_map(|oddity| awaited_command(case.evidence, oddity.id)).collect();
    found.add_facts(awaited.iter().take(5).map(|process| FactKind::ExitAwaitsCommand {
        process: ProcessRef::from(*process),
        command: Word::from(sub_command(&process.command).unwrap_or_default()),
        age: process.age.into(),
    }));
    // The shim reports the exit, and unmounts before the runtime records it.
    let unawaited = without_process().filter(|oddity| awaited_command(case.evidence, oddity.id).is_none());
    let held = unawaited.filter_map(|oddity| Some((oddity, case.evidence.second_evidence(oddity.id)?)));
    found.add_facts(
        held.take(5)
            .map(|(oddity, why)| FactKind::ExitIsHeld { of: item(oddity.id), why: Box::new(why.into()) }),
    );
    let lost_conmon = |oddity: &&Oddity<'_>| {
        let sandbox = case.evidence.names.sandbox_of(oddity.id);
        // conmon ends with its container, so its absence proves nothing while the runtime has not recorded the exit.
        has_no_conmon(case.evidence, oddity.id, sandbox)
            && awaited_command(case.evidence, oddity.id).is_none()
    };
    let without_conmon = without_process().filter(lost_conmon).count();
    if without_conmon > 0 {
        found.add_fact(FactKind::ConmonLostToo { containers: without_conmon });
    }
    if worst.kind == OddKind::NoMonitor {
        found.add_fact(FactKind::NothingMonitors);
    }
    found.add_fact(if again { FactKind::SeenTwice } else { FactKind::SeenOnce });
    found.steps = match awaited.first() {
        Some(process) => steps_of("awaitedCommand", &of_process(process)),
        None if worst.kind == OddKind::NoMonitor => steps_of("lostMonitor", &[]),
        None => steps_of("noProcess", &[]),
    };
    if worst.kind == OddKind::NoMonitor
        && let Some(PodRef { namespace, name, .. }) = &found.pod
    {
        let places = [("namespace", Place::word(namespace)), ("pod", Place::word(name))];
        found.steps.extend(steps_of("startAnew", &places));
    }
    Some(found)
}

/// Adds what the versions of a pod are, which of them is wanted, and what to do then.
fn add_versions(found: &mut HealthFinding, evidence: &Evidence, oddity: &Oddity<'_>) {
    let sandboxes = evidence.runtime.sandboxes.items().into_iter().flatten();
    let mut sandboxes: Vec<&Sandbox> =
        sandboxes.filter(|sandbox| oddity.ids().any(|id| id == sandbox.id)).collect();
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
    let containers = evidence.runtime.containers.items().into_iter().flatten();
    let own = containers.filter(|container| oddity.ids().any(|id| id == container.sandbox_id));
    let pods: Vec<RunningPod> = running_pods(sandboxes, own).collect();
    let versions = PodVersions { instances: pods.iter().collect(), wanted: None, now: evidence.taken_at };
    found.add_facts(versions.describe().into_iter().map(Fact::line));
    found.phase = Phase::None;
    let is_static = pods.iter().any(|pod| pod.source == Some(PodSource::File));
    found.steps = match &found.pod {
        _ if is_static => steps_of("staticVersions", &[]),
        Some(pod) => steps_of("versions", &[("pod", Place::word(pod))]),
        None => Vec::new(),
    };
    found.steps.extend(versions.steps());
}

/// Returns the command of the OCI runtime on a container for which the runtime waits before it records the container's exit.
fn awaited_command<'a>(evidence: &'a Evidence, id: &str) -> Option<&'a Process> {
    let holds_lock = |process: &&Process| {
        container_parts::works_on(process, id) && sub_command(&process.command) != Some("exec")
    };
    container_parts::parts_of(evidence, id).oci.into_iter().find(holds_lock)
}
