//! D29: a list fails.

use super::prelude::*;

/// Applies D29. The kubelet gets the same error; it is not a hang.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let fails = |error: &&Error| {
        !matches!(error, Error::Silent { .. } | Error::TooLarge { .. }) && !error.is_unread()
    };
    let error = runtime.errors_of_lists().find(fails)?;
    let is_of_sandboxes = runtime.sandboxes.error() == Some(error);
    let [sandboxes, containers] = runtime.list_rpcs();
    let rpc = if is_of_sandboxes { sandboxes } else { containers };
    let title = FactKind::ListFails { rpc, code: error.code() };
    let mut found = finding(RuleId::FailingList, Severity::Critical, Confidence::Certain, title);
    found.rpc = Some(rpc.name().to_owned());
    found.add_fact(FactKind::CallFailed { error: error.into() });
    found.add_fact(FactKind::RelistTimeDoesNotAdvance);
    found.steps = case.evidence.steps("showJournal", &[]);
    Some(found)
}
