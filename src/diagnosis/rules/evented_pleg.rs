//! D23: Evented PLEG is in use.

use super::prelude::*;

/// Applies D23, which reports a fact, not a cause.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    if kubelet.evented() != Some(true) {
        return None;
    }
    let mut found =
        finding(RuleId::EventedPleg, Severity::Info, Confidence::Certain, FactKind::KubeletUsesEventedPleg);
    let seldom = case.evidence.relists_seldom();
    found.add_fact(if seldom { FactKind::EventedRelistsSeldom } else { FactKind::EventedIsAHint });
    let verbosity = kubelet.config.verbosity.filter(|verbosity| seldom && *verbosity < 4);
    found.add_facts(verbosity.map(|verbosity| FactKind::FallbackIsNotLogged { verbosity }));
    let errors = kubelet.latest().and_then(|reading| reading.metrics.evented_errors);
    let errors = errors.filter(|errors| *errors > 0.0);
    found.add_facts(errors.map(|errors| FactKind::EventStreamBroke { times: errors.into() }));
    Some(found)
}
