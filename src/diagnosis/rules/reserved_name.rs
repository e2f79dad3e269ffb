//! D18: a name stays reserved.

use super::failing_pods;
use super::prelude::*;
use crate::diagnosis::facts::Quoted;
use crate::diagnosis::failing_pods::FailureCause;

/// Applies D18. The cause is not a conflict of two names: an earlier create call for the same name has not finished.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let line = case.evidence.journal.as_ref().and_then(|journal| journal.name_reserved.clone());
    let line = line?;
    let found =
        finding(RuleId::ReservedName, Severity::Warning, Confidence::Certain, FactKind::NameStaysReserved);
    let id = line.split(|letter: char| !letter.is_ascii_hexdigit()).find(|word| word.len() == 64);
    let mut found = case.about(found, id);
    found.add_fact(FactKind::Logged { line: Quoted(line) });
    let failing = failing_pods::persisting(case.evidence);
    let waits = failing.iter().find(|failing| failing.cause == FailureCause::NameReserved);
    found.add_facts(waits.map(|failing| failing_pods::since(failing, case.evidence.taken_at)));
    found.add_step(Step::look(
        "find what that create waits for: storage, the network plugin, a mount; do not delete the pod first",
    ));
    Some(found)
}
