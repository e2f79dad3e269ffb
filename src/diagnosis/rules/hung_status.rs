//! D01: a single pod or container does not answer its status call.

use super::prelude::*;
use super::silent_calls::call;
use crate::diagnosis::facts::Took;

/// Applies D01. The finding names no reason for the hang: the volume, the OCI runtime and the shim are as likely as the
/// application.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    if !runtime.hung_lists().is_empty() {
        return None;
    }
    let confidence =
        |record: &StatusRecord| case.evidence.hang_confidence(&record.target.id, record.duration);
    let mut silent: Vec<&StatusRecord> = runtime.hung().collect();
    silent
        .sort_by(|one, other| (confidence(one), &one.target.id).cmp(&(confidence(other), &other.target.id)));
    let first = silent.first()?;
    let answered = runtime.status_calls.iter().filter(|record| !record.is_silent()).count();
    let estimate = &case.estimate;
    let title = if case.culprits.is_empty() {
        FactKind::ManyStatusCallsHang { silent: silent.len(), of: runtime.status_calls.len() }
    } else {
        let call = call(case.evidence, first.rpc, Some(&first.target.id));
        // Two calls of one kind are both named.
        let and = match silent.as_slice() {
            [one, other] if one.rpc == other.rpc => Some(case.evidence.names.item(&other.target.id)),
            _ => None,
        };
        FactKind::StatusHangs { call, and, others: silent.len() - 1 }
    };
    let mut found = finding(RuleId::HungStatus, Severity::Critical, confidence(first), title);
    if !case.culprits.is_empty() {
        found = case.about(found, Some(&first.target.id));
        found.ids = silent.iter().map(|record| record.target.id.clone()).collect();
    }
    found.rpc = Some(first.rpc.name().to_owned());
    let shown = if case.culprits.is_empty() { &[] } else { silent.as_slice() };
    // The title of several calls does not say why they make the node NotReady. That of one call needs its answer first.
    let consequence = consequence(case);
    let (before, after) =
        if silent.len() > 1 { (Some(consequence), None) } else { (None, Some(consequence)) };
    found.add_facts(before);
    found.add_facts(shown.iter().map(|record| FactKind::StatusSilent {
        rpc: record.rpc,
        of: case.evidence.names.item(&record.target.id),
        waited: record.duration.into(),
        blocked_by: case.evidence.second_evidence(&record.target.id).map(|fact| Box::new(fact.into())),
    }));
    found.add_facts(after);
    found.add_fact(FactKind::OtherCallsAnswered { lists_answer: estimate.lists.is_some(), answered });
    if !case.culprits.is_empty() {
        let culprits = silent.iter().map(|record| (record.rpc, record.target.id.as_str()));
        found.steps.extend(advice::for_culprits(case.evidence, &culprits.collect::<Vec<_>>()));
    }
    Some(found)
}

/// Describes the effect of the hung calls on the kubelet.
fn consequence(case: &Case<'_>) -> FactKind {
    let estimate = &case.estimate;
    let settings = &case.evidence.settings;
    let (gives_up, threshold) = (settings.request_timeout.value.into(), settings.threshold.value.into());
    if estimate.would_trip {
        let peak = estimate.peak_age.map(Took::from);
        FactKind::HangTripsThreshold { gives_up, hung_calls: estimate.hung_calls, peak, threshold }
    } else {
        FactKind::HangStaysBelow { gives_up, threshold }
    }
}
