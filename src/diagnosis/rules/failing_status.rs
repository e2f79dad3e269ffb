//! D20: status calls fail.

use super::prelude::*;

/// Returns why a status call failed; `None` if it did not fail.
fn failure(evidence: &Evidence, record: &StatusRecord) -> Option<FactKind> {
    let of = evidence.names.item(&record.target.id);
    Some(match &record.result {
        Err(why) if why.is_failure() => FactKind::StatusError { of, error: why.into() },
        Ok(facts) if !facts.present => FactKind::StatusMissing { of },
        Ok(facts) if facts.created_at.is_none() => FactKind::StatusWithoutCreationTime { of },
        _ => return None,
    })
}

/// Applies D20. "Not found" is not a failure, because the item may have been removed after the list.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let listed = runtime.sandboxes.items().is_some() || runtime.containers.items().is_some();
    let failing: Vec<(&StatusRecord, FactKind)> = runtime
        .status_calls
        .iter()
        .filter_map(|record| Some((record, failure(case.evidence, record)?)))
        .collect();
    let (first, _) = failing.first().filter(|_| listed)?;
    let (id, rpc) = (&first.target.id, first.rpc);
    let title = FactKind::StatusFails { rpc, of: case.evidence.names.item(id) };
    let found = finding(RuleId::FailingStatus, Severity::Warning, case.confidence_in_answers(), title);
    let mut found = case.about(found, Some(id));
    found.rpc = Some(rpc.name().to_owned());
    let ids = failing.iter().take(limits::MAX_LISTED_IDS);
    found.ids = ids.map(|(record, _)| record.target.id.clone()).collect();
    found.add_fact(FactKind::FailingCalls { failing: failing.len(), of: runtime.status_calls.len() });
    let is_busy = |why: &Error| why.to_string().contains("device or resource busy");
    let is_in_use = failing.iter().any(|(record, _)| record.result.as_ref().is_err_and(is_busy));
    found.add_facts(failing.into_iter().take(5).map(|(_, why)| why));
    found.add_facts(is_in_use.then_some(FactKind::NetworkNamespaceInUse));
    Some(found)
}
