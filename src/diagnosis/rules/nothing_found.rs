//! D00: nothing found.

use super::prelude::*;
use crate::diagnosis::limits::{CRASH_LOOP_PAUSE, MANY_RESTARTS};
use crate::report::duration::elapsed;

/// Returns the finding D00: every call is answered, and nothing on the node needs a person, as far as plegctl has looked.
pub fn find(case: &Case<'_>) -> HealthFinding {
    let estimate = &case.estimate;
    let population = case.evidence.runtime.population();
    let pods = case.evidence.runtime.pod_uids().len();
    let kubelet = &case.evidence.kubelet;
    let is_unchecked = kubelet.healthz.is_none() && kubelet.latest().is_none();
    let title = FactKind::NothingFound { serial: estimate.serial.into(), kubelet_is_unchecked: is_unchecked };
    let mut finding = finding(RuleId::NothingFound, Severity::Info, Confidence::Certain, title);
    let Population { sandboxes, containers, running, exited, .. } = population;
    finding.add_fact(FactKind::Population { pods, sandboxes, containers, running, exited });
    finding.add_facts(
        estimate
            .lists
            .map(|lists| FactKind::RelistDurations { lists: lists.into(), full: estimate.full.into() }),
    );
    let threshold = case.evidence.settings.threshold.value.into();
    finding.add_fact(FactKind::UnhealthyAfter { threshold });
    if is_unchecked {
        finding.steps = case.evidence.steps("uncheckedKubelet", &[]);
    }
    finding.steps.extend(case.evidence.steps("ifNotReady", &[]));
    finding.steps.extend(most_restarted(case.evidence).into_iter().flatten());
    finding.steps.extend(steps_of("ifWrong", &[]));
    finding
}

/// Returns the step that shows why the container that was restarted most often ended.
fn most_restarted(evidence: &Evidence) -> Option<Vec<Step>> {
    let containers = evidence.runtime.containers.items().into_iter().flatten();
    let attempts = containers
        .filter_map(|container| Some((container.metadata.as_ref()?.attempt, &container.id, container)));
    let (attempt, id, newest) = attempts
        .max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)))
        .filter(|(attempt, ..)| *attempt >= MANY_RESTARTS)?;
    let age = |created_at| evidence.taken_at.duration_since(Wall::from_nanos(created_at));
    let last = age(newest.created_at);
    let (pod, container) = (evidence.names.pod(id)?, evidence.names.container(id)?);
    let (namespace, name, container) = (&pod.namespace, &pod.name, container.name);
    // The API server may be the container that is restarted, and another pod may have the same name.
    let sandboxes = || evidence.runtime.sandboxes.items().into_iter().flatten();
    let same_name = sandboxes().filter(|sandbox| {
        sandbox.metadata.as_ref().is_some_and(|other| other.namespace == *namespace && other.name == *name)
    });
    let log = if same_name.count() > 1 { "logOfContainer" } else { "logOfPod" };
    // Of a pod that is days old, five restarts are no loop, also if the last one was just now. A new sandbox restarts its
    // containers too.
    let first_sandbox = sandboxes().find(|sandbox| {
        sandbox.id == newest.sandbox_id && sandbox.metadata.as_ref().is_some_and(|of| of.attempt == 0)
    });
    let is_loop = last <= CRASH_LOOP_PAUSE
        && first_sandbox.is_some_and(|sandbox| age(sandbox.created_at) / attempt <= CRASH_LOOP_PAUSE);
    let places = [
        ("namespace", Place::word(namespace)),
        ("pod", Place::word(name)),
        ("container", Place::word(container)),
        ("id", Place::word(short(id))),
        ("sandbox", Place::word(short(&newest.sandbox_id))),
        ("again", Place::word(if is_loop { "crashes again and again:" } else { "was" })),
        ("attempt", Place::word(attempt)),
        ("last", Place::word(elapsed(last))),
    ];
    Some(steps_of(log, &places))
}
