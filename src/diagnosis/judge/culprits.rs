//! Lists every call that keeps the kubelet waiting, one entry each, for scripts (`jq`); the findings explain
//! the same to a person.

use crate::cri::Error;
use crate::diagnosis::evidence::StatusRecord;
use crate::diagnosis::report::{Confidence, CulpritOutcome, CulpritReport};
use crate::diagnosis::rules::Case;

/// The number of entries that the report has at most. Slow and failing calls can be many; hung calls never
/// are.
const MOST: usize = 100;

/// Returns the culprits: hung calls first, then slow ones, then failing ones; the most certain and the
/// longest first.
pub(super) fn culprits(case: &Case<'_>) -> Vec<CulpritReport> {
    let runtime = &case.evidence.runtime;
    let named = |record: &StatusRecord, outcome, confidence| CulpritReport {
        rpc: record.rpc.name().to_owned(),
        id: record.target.id.clone(),
        pod: case.evidence.names.pod(&record.target.id),
        container: case.evidence.names.container(&record.target.id),
        waited_seconds: record.duration.as_secs_f64(),
        outcome,
        confidence,
        holder: (outcome == CulpritOutcome::Silent)
            .then(|| case.evidence.holder(&record.target.id))
            .flatten(),
    };
    let hung =
        runtime.hung().filter(|record| case.culprits.iter().any(|guilty| guilty.id == record.target.id));
    let mut all: Vec<CulpritReport> = hung
        .map(|record| {
            named(
                record,
                CulpritOutcome::Silent,
                case.evidence.hang_confidence(&record.target.id, record.duration),
            )
        })
        .collect();
    let young = runtime.silent_so_far(case.evidence.interrupted);
    let is_young = |record: &&StatusRecord| {
        record.is_silent()
            && young.iter().any(|(rpc, target, _)| (*rpc, *target) == (record.rpc, Some(&record.target)))
    };
    let records = runtime.status_calls.iter().chain(&runtime.shims).filter(is_young);
    all.extend(records.map(|record| named(record, CulpritOutcome::Silent, Confidence::Possible)));
    let slow = runtime.slow_calls().into_iter().filter(|record| record.result.is_ok());
    all.extend(slow.map(|record| named(record, CulpritOutcome::Slow, Confidence::Certain)));
    let failing =
        runtime.status_calls.iter().filter(|record| record.result.as_ref().is_err_and(Error::is_failure));
    all.extend(failing.map(|record| named(record, CulpritOutcome::Error, Confidence::Certain)));
    all.sort_unstable_by(|one, other| {
        (one.outcome, one.confidence)
            .cmp(&(other.outcome, other.confidence))
            .then(other.waited_seconds.total_cmp(&one.waited_seconds))
            .then(one.id.cmp(&other.id))
    });
    all.truncate(MOST);
    all
}
