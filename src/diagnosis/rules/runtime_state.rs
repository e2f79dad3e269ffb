//! What the runtime says of itself.

use crate::cri::{Call, RuntimeCondition, RuntimeStatus};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::facts::{ConditionName, FactKind, Quoted};
use crate::diagnosis::limits;

pub(super) fn fact_of(condition: &RuntimeCondition) -> FactKind {
    FactKind::Condition {
        name: ConditionName::from(&condition.kind),
        holds: condition.holds,
        reason: ConditionName::from(&condition.reason),
        message: Quoted::from(&condition.message),
    }
}

/// Returns the answer of Status.
pub(super) fn status_answer(evidence: &Evidence) -> Option<&RuntimeStatus> {
    evidence.runtime.status.as_ref()?.result.as_ref().ok()
}

/// Returns whether a call was answered quickly.
pub(super) fn quick<T>(call: Option<&Call<T>>) -> bool {
    call.is_some_and(|call| call.result.is_ok() && call.duration < limits::LIST_SLOW)
}
