//! D05: status calls answer, and too slowly.

use super::prelude::*;

use super::list_size::against_dead_pods;
use super::many_clients;
use super::owners::{largest, owners};
use crate::diagnosis::facts;

/// Applies D05. If each call is slow, the finding does not blame the number of pods. If each status call is quick, the
/// number of pods is blamed only for the time of these calls: slow lists are D30.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let estimate = &case.estimate;
    let Some(lists) = estimate.lists else { return late_answers(case) };
    let pass = estimate.full_answering;
    // A few slow calls among many quick ones do not make each call slow.
    let is_slow = |took: Option<Duration>, limit| took.is_some_and(|took| took > limit);
    let slow_calls =
        is_slow(estimate.p99, limits::CALL_SLOW) && is_slow(estimate.per_call, limits::CALL_SLOW / 2);
    let explained = estimate.late + if slow_calls { Duration::ZERO } else { lists };
    if pass.saturating_sub(explained) < limits::RELIST_SLOW {
        return late_answers(case);
    }
    let severity = if pass >= limits::RELIST_VERY_SLOW { Severity::Critical } else { Severity::Warning };
    let pods = case.evidence.runtime.pod_uids().len();
    let (each, full) = (estimate.per_call.unwrap_or_default().into(), pass.into());
    let (dead, all) = {
        let population = case.evidence.runtime.population();
        (population.dead_sandboxes, population.sandboxes)
    };
    // After a restart, the kubelet makes status calls for dead pods too.
    let are_dead = dead * 2 > all;
    let title = if slow_calls {
        FactKind::StatusCallsSlow { each, relist: estimate.serial.into(), full }
    } else {
        FactKind::RelistSlow { pods, most_are_dead: are_dead, full }
    };
    let mut found = finding(RuleId::SlowStatuses, severity, Confidence::Likely, title);
    let (changed, takes) = (estimate.changed_pods, estimate.serial.into());
    found.add_fact(FactKind::RelistNow { pods, changed, takes });
    found.add_fact(FactKind::StatusCallTimes { each, p99: estimate.p99.unwrap_or_default().into() });
    found.add_fact(if slow_calls { FactKind::EachCallIsSlow } else { FactKind::MostCallsAreQuick });
    if are_dead {
        let names = largest(&owners(&case.evidence.runtime, true));
        found.add_fact(FactKind::MostPods { are_dead, names });
    }
    found.add_facts(stays_below(case));
    found.add_fact(FactKind::AllPodsAfterRestart);
    found.add_facts(many_clients::busiest_client(case));
    found.steps = match (slow_calls, are_dead) {
        (true, _) => steps_of("slowCalls", &[]),
        (false, true) => against_dead_pods(case),
        (false, false) => steps_of("manyCalls", &[]),
    };
    Some(found)
}

/// Says that PLEG stays healthy, if the estimate is that the age of PLEG stays below the threshold.
pub(super) fn stays_below(case: &Case<'_>) -> Option<FactKind> {
    let estimate = &case.estimate;
    let is_known = case.estimate_is_known() && estimate.lists.is_some() && !estimate.would_trip;
    let threshold = case.evidence.settings.threshold.value.into();
    is_known.then(|| FactKind::AgeStaysBelow { peak: estimate.peak_age.map(Into::into), threshold })
}

/// Applies D05 to single calls whose late answers delay the events of their pods.
fn late_answers(case: &Case<'_>) -> Option<HealthFinding> {
    let mut lost = super::lost_exit::lost_exits(case.evidence);
    lost.extend(super::lost_exit::slow_pods_of(case.evidence, &lost));
    let mut slow = case.evidence.slow_calls();
    slow.retain(|record| !lost.iter().any(|lost| lost.target == record.target));
    let slowest = slow.first()?;
    let of = case.evidence.names.item(&slowest.target.id);
    let call = facts::Call { rpc: slowest.rpc, of: Some(of) };
    let title = FactKind::StatusSlow { call, others: slow.len() - 1, took: slowest.duration.into() };
    let mut found = case.about(
        finding(RuleId::SlowStatuses, Severity::Warning, case.confidence_in_answers(), title),
        Some(&slowest.target.id),
    );
    found.rpc = Some(slowest.rpc.name().to_owned());
    found.ids = slow.iter().map(|record| record.target.id.clone()).collect();
    found.add_facts(slow.iter().take(5).map(|record| FactKind::StatusAnsweredLate {
        rpc: record.rpc,
        of: case.evidence.names.item(&record.target.id),
        took: record.duration.into(),
    }));
    let calls = case.evidence.runtime.status_calls.len() - slow.len();
    found.add_fact(FactKind::OtherCallsQuicker { calls, than: limits::STATUS_SLOW.into() });
    let estimate = &case.estimate;
    let takes = estimate.serial.into();
    if estimate.serial >= slowest.duration {
        found.add_fact(FactKind::RelistWithSlowCalls { takes });
        found.add_facts(stays_below(case));
    } else {
        found.add_fact(FactKind::RelistWithoutSlowCalls { takes });
        let threshold = case.evidence.settings.threshold.value;
        if estimate.lists.is_some() && estimate.hung_calls == 0 && estimate.full < threshold / 2 {
            let full = estimate.full.into();
            found.add_fact(FactKind::FullRelistStaysBelow { full, threshold: threshold.into() });
        }
    }
    found.add_facts(many_clients::busiest_client(case));
    found.steps = steps_of("lateAnswers", &[("id", Place::word(short(&slowest.target.id)))]);
    Some(found)
}
