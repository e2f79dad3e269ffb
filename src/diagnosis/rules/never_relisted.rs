//! D24: the first relist never succeeded.

use super::prelude::*;

/// Applies D24. The usual causes are a list that is too large and a runtime that cannot be reached.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let count = case.evidence.journal.as_ref().map_or(0, |journal| journal.never_relisted);
    if count == 0 {
        return None;
    }
    let mut found = finding(
        RuleId::NeverRelisted,
        Severity::Warning,
        Confidence::Certain,
        FactKind::NoRelistHasSucceeded,
    );
    found.add_fact(FactKind::LinesAboutIt { lines: count });
    Some(found)
}
