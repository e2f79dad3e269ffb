//! D22: the kubelet's own relist is too old.

use super::kubelet::runtime_answers_well;
use super::prelude::*;
use crate::diagnosis::kubelet::KubeletEvidence;

/// Applies D22. If the age is over the threshold, one reading of the kubelet's metrics is enough. Below the threshold, the
/// age must grow between two readings while the runtime answers well.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    let threshold = case.evidence.settings.threshold.value;
    let (Some(age), false) = (kubelet.pleg_age(), case.evidence.relists_seldom()) else {
        return None;
    };
    let over = case.evidence.kubelet_is_over();
    let grown = growth(kubelet);
    let does_not_relist = grown.is_some_and(|(before, apart)| {
        apart >= limits::METRICS_APART.as_secs_f64() && age - before >= apart - 1.0
    });
    let well = runtime_answers_well(case);
    let stuck = age > limits::PLEG_AGE_STALE.as_secs_f64() && does_not_relist && well;
    if !(over || stuck) {
        return None;
    }
    let (confidence, title) = if over {
        let (age, threshold) = (age.into(), threshold.into());
        (Confidence::Certain, FactKind::RelistIsOverThreshold { age, threshold })
    } else {
        (Confidence::Likely, FactKind::NoNewRelistSucceeds { age: age.into() })
    };
    let mut found = finding(RuleId::StaleKubelet, Severity::Critical, confidence, title);
    if let Some((before, apart)) = grown {
        let (before, after) = (before.into(), age.into());
        found.add_fact(FactKind::RelistAges { before, apart_seconds: apart.into(), after });
    }
    if grown.is_some_and(|(before, _)| age < before) {
        found.add_fact(FactKind::KubeletRelistsAgain);
    }
    let old =
        kubelet.reading_age(case.evidence.taken_at).filter(|old| *old >= limits::READING_OLD.as_secs_f64());
    found.add_facts(old.map(|old| FactKind::MetricsAreOld { age: old.into() }));
    let still_grows = grown.is_some_and(|(before, _)| age > before);
    found.add_fact(match (well, still_grows) {
        (true, true) => FactKind::CauseIsInKubelet,
        (true, false) => FactKind::CauseIsInKubeletOrOver,
        (false, _) => FactKind::RuntimeDoesNotAnswerWell,
    });
    if let (Some(first), Some(second)) = (&kubelet.first, &kubelet.second)
        && let (Some(before), Some(after)) = (first.metrics.discarded, second.metrics.discarded)
        && after > before
    {
        found.add_fact(FactKind::EventsWereDiscarded { events: (after - before).into() });
    }
    let blocked = case.blocked().into_iter().filter(|(process, _)| Some(process.pid) == kubelet.pid);
    found.add_facts(blocked.take(3).map(|(process, task)| FactKind::TaskWaitsIn {
        process: process.into(),
        task: task.tid,
        function: (&task.wchan).into(),
    }));
    found.steps = case.evidence.steps("staleKubelet", &[]);
    Some(found)
}

/// Returns the age at the first of two readings, and the seconds between them.
fn growth(kubelet: &KubeletEvidence) -> Option<(f64, f64)> {
    let (first, second) = (kubelet.first.as_ref()?, kubelet.second.as_ref()?);
    Some((first.pleg_age()?, second.at.seconds_since(first.at)))
}
