//! D26: a watchdog restarts the kubelet.

use super::prelude::*;

/// Applies D26: a watchdog restarts the kubelet, which hides the cause of the problem.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let journal = case.evidence.journal.as_ref()?;
    let young = case.evidence.kubelet.age.is_some_and(|age| age < limits::PLEG_AGE_STALE * 5);
    let line = journal.watchdog.clone().filter(|_| young && !journal.pleg_ages.is_empty())?;
    let title = FactKind::TitleOf { rule: RuleId::WatchdogRestarts };
    let mut found = finding(RuleId::WatchdogRestarts, Severity::Warning, Confidence::Likely, title);
    found.add_fact(FactKind::Logged { line: Quoted(line) });
    found.add_fact(FactKind::RestartsHideCause);
    Some(found)
}
