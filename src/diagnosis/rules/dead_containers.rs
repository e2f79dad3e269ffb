//! D04: too many dead containers or sandboxes.

use super::list_size::against_dead_pods;
use super::owners::{largest, owners};
use super::prelude::*;
use super::slow_statuses::stays_below;

/// Applies D04. It reports a leak only if the number grew during the run.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let population = runtime.population();
    let dead = population.dead();
    let ratio = population.exited > limits::DEAD_PER_RUNNING * population.running.max(1)
        && dead >= limits::DEAD_RATIO_FLOOR;
    if dead <= limits::DEAD_BACKLOG && !ratio {
        return None;
    }
    let slowest = runtime.sandboxes.duration().max(runtime.containers.duration());
    let slow = slowest.is_some_and(|slowest| slowest > limits::LIST_SLOW);
    let confidence =
        if slow || dead > limits::DEAD_BACKLOG { Confidence::Likely } else { Confidence::Possible };
    let mut found =
        finding(RuleId::DeadContainers, Severity::Warning, confidence, FactKind::DeadAreKept { dead });
    let Population { exited, running, dead_sandboxes, .. } = population;
    found.add_fact(FactKind::DeadAndRunning { exited, running, dead_sandboxes });
    found.add_facts(slowest.map(|slowest| FactKind::SlowerList { took: slowest.into() }));
    if let (Some(before), Some(after)) = (runtime.containers.items(), runtime.containers.second.as_ref())
        && let Ok(after) = &after.result
        && after.len() > before.len()
    {
        found.add_fact(FactKind::ListGrew { containers: after.len() - before.len() });
    }
    let owners = owners(runtime, true);
    if !owners.is_empty() {
        found.add_fact(FactKind::MostPods { are_dead: true, names: largest(&owners) });
    }
    found.add_facts(stays_below(case));
    found.steps = against_dead_pods(case);
    Some(found)
}
