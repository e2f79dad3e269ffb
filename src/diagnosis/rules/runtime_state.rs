//! What the runtime says of itself.

use crate::cri::{Call, RuntimeCondition};
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

/// Returns a condition in the answer to Status.
pub fn condition<'a>(evidence: &'a Evidence, name: &str) -> Option<&'a RuntimeCondition> {
    evidence.runtime.status.as_ref()?.result.as_ref().ok()?.condition(name)
}

/// Returns whether a call was answered quickly.
pub(super) fn quick<T>(call: Option<&Call<T>>) -> bool {
    call.is_some_and(|call| call.result.is_ok() && call.duration < limits::LIST_SLOW)
}
