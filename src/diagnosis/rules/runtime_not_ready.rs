//! D31: the runtime says that it is not ready.

use super::prelude::*;
use super::runtime_state::fact_of;

/// Applies D31. This problem alone makes the node `NotReady` after 30 s.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let call = case.evidence.runtime.status.as_ref()?;
    let mut confidence = Confidence::Certain;
    let (title, fact) = match &call.result {
        Ok(status) => match status.condition("RuntimeReady") {
            Some(ready) if ready.holds => return None,
            Some(ready) => (FactKind::TitleOf { rule: RuleId::RuntimeNotReady }, fact_of(ready)),
            None => (FactKind::RuntimeReadinessUnknown, FactKind::NoRuntimeReady),
        },
        // The run ended before this silence could count as a hang.
        Err(_) if case.evidence.runtime.status_is_open() => return None,
        Err(Error::Silent { waited, .. }) => {
            confidence = case.evidence.runtime.silence.confidence(*waited);
            let (rpcs, waited) = (vec![Rpc::Status], (*waited).into());
            (FactKind::RuntimeStatusSilent, FactKind::CallsSilent { rpcs, waited })
        }
        Err(why) => (FactKind::RuntimeStatusFails, FactKind::CallFailed { error: why.into() }),
    };
    let mut found = finding(RuleId::RuntimeNotReady, Severity::Critical, confidence, title);
    found.rpc = Some("Status".to_owned());
    found.add_fact(fact);
    found.add_fact(FactKind::RuntimeDownAfter30s);
    found.steps = case.evidence.steps("showJournal", &[]);
    Some(found)
}
