//! D24: the first relist never succeeded.

use super::prelude::*;
use crate::diagnosis::judge::not_ready::is_recent;

/// How long a kubelet must have written that no relist has succeeded. The first relist of a healthy node takes seconds.
const FIRST_RELIST_SECONDS: f64 = 15.0;

/// Applies D24. The usual causes are a list that is too large and a runtime that cannot be reached. The kubelet's metrics show
/// whether a relist has succeeded after its last message.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let said = &evidence.journal.as_ref()?.no_relist_yet;
    let (first, last) = said.between;
    let has_relisted = evidence.kubelet.latest().is_some_and(|reading| reading.metrics.last_seen > Some(0.0));
    if last - first < FIRST_RELIST_SECONDS || !is_recent(evidence, Some(last)) || has_relisted {
        return None;
    }
    let mut found = finding(
        RuleId::NeverRelisted,
        Severity::Warning,
        Confidence::Certain,
        FactKind::NoRelistHasSucceeded,
    );
    found.add_fact(FactKind::LinesAboutIt { lines: said.lines });
    Some(found)
}
