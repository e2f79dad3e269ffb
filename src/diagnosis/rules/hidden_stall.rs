//! D28: Ready, but events are late.

use super::prelude::*;
use crate::diagnosis::facts::Took;

/// Applies D28: one hung call stays below the threshold, so the node looks healthy.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let lists_answer = case.evidence.runtime.hung_lists().is_empty();
    let [culprit] = case.culprits.as_slice() else {
        return None;
    };
    if !lists_answer || case.estimate.would_trip {
        return None;
    }
    let age = case.evidence.kubelet.pleg_age();
    let seen = age.is_some_and(|age| age >= limits::PLEG_AGE_STALE.as_secs_f64());
    let confidence = if seen { Confidence::Certain } else { Confidence::Likely };
    let title = FactKind::PodsAreOld { peak: case.estimate.peak_age.map(Took::from) };
    let mut found =
        case.about(finding(RuleId::HiddenStall, Severity::Warning, confidence, title), Some(&culprit.id));
    found.rpc = Some(culprit.rpc.name().to_owned());
    found.add_fact(FactKind::OneHungCall);
    found.add_facts(age.map(|age| FactKind::KubeletRelistAge { seconds: age.into() }));
    Some(found)
}
