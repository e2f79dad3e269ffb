//! Builds `culprits[]` of the report, for scripts (`jq`): one entry for each call about a pod or a shim that hangs, is
//! silent so far, was slow or failed. The findings explain the same calls to people.

use crate::cri::Error;
use crate::diagnosis::evidence::StatusRecord;
use crate::diagnosis::facts::Fact;
use crate::diagnosis::report::{Confidence, CulpritOutcome, CulpritReport};
use crate::diagnosis::rules::Case;

/// The maximum number of entries, because there may be many slow and failing calls.
const MAX_ENTRIES: usize = 100;

/// Returns the culprits: silent calls first (those that hang before those that do not yet count as hung), then slow
/// calls, then failing calls. Of each kind, the most certain and the longest come first.
pub(super) fn culprits(case: &Case<'_>) -> Vec<CulpritReport> {
    let runtime = &case.evidence.runtime;
    let holder_of = |record: &StatusRecord| case.evidence.holder(&record.target.id).map(Fact::from);
    let entry = |record: &StatusRecord, outcome, confidence| {
        let holder = if outcome == CulpritOutcome::Silent { holder_of(record) } else { None };
        CulpritReport {
            rpc: record.rpc.name().to_owned(),
            id: record.target.id.clone(),
            pod: case.evidence.names.pod(&record.target.id),
            container: case.evidence.names.container(&record.target.id),
            waited_seconds: record.duration.as_secs_f64(),
            outcome,
            confidence,
            holder: holder.as_ref().map(Fact::to_string),
            holder_fact: holder,
        }
    };
    let hung =
        runtime.hung().filter(|record| case.culprits.iter().any(|culprit| culprit.id == record.target.id));
    let mut all: Vec<CulpritReport> = hung
        .map(|record| {
            entry(
                record,
                CulpritOutcome::Silent,
                case.evidence.hang_confidence(&record.target.id, record.duration),
            )
        })
        .collect();
    let not_yet_hung = runtime.silent_so_far(case.evidence.interrupted);
    let is_not_yet_hung = |record: &&StatusRecord| {
        record.is_silent()
            && not_yet_hung
                .iter()
                .any(|(rpc, target, _)| (*rpc, *target) == (record.rpc, Some(&record.target)))
    };
    let records = runtime.status_calls.iter().chain(&runtime.shims).filter(is_not_yet_hung);
    all.extend(records.map(|record| entry(record, CulpritOutcome::Silent, Confidence::Possible)));
    let answered = case.confidence_in_answers();
    let slow = case.evidence.slow_calls().into_iter().filter(|record| record.result.is_ok());
    all.extend(slow.map(|record| entry(record, CulpritOutcome::Slow, answered)));
    let failing =
        runtime.status_calls.iter().filter(|record| record.result.as_ref().is_err_and(Error::is_failure));
    all.extend(failing.map(|record| entry(record, CulpritOutcome::Error, answered)));
    all.sort_unstable_by(|one, other| {
        (one.outcome, one.confidence)
            .cmp(&(other.outcome, other.confidence))
            .then(other.waited_seconds.total_cmp(&one.waited_seconds))
            .then(one.id.cmp(&other.id))
    });
    all.truncate(MAX_ENTRIES);
    all
}
