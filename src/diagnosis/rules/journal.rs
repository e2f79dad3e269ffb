//! D18, D21, D24, D25, D26: problems that only the journal shows. If the journal could not be read, these rules report
//! nothing, and the report lists the journal as not checked.

use super::{Case, finding};
use crate::diagnosis::advice;
use crate::diagnosis::facts::{FactKind, Quoted};
use crate::diagnosis::limits;
use crate::diagnosis::proc::{Process, Role};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use crate::report::Step;

/// Applies D18. The cause is not a conflict of two names: an earlier create call for the same name has not finished.
pub(super) fn reserved(case: &Case<'_>) -> Option<HealthFinding> {
    let line = case.evidence.journal.as_ref().and_then(|journal| journal.name_reserved.clone());
    let line = line?;
    let found =
        finding(RuleId::ReservedName, Severity::Warning, Confidence::Certain, FactKind::NameStaysReserved);
    let id = line.split(|letter: char| !letter.is_ascii_hexdigit()).find(|word| word.len() == 64);
    let mut found = case.about(found, id);
    found.add_fact(FactKind::Logged { line: Quoted(line) });
    found.add_step(Step::look(
        "find what that create waits for: storage, the network plugin, a mount; do not delete the pod first",
    ));
    Some(found)
}

/// Applies D21. A daemon that is young or stopped is not enough evidence for a recovery.
pub(super) fn recovering(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let version_fails = evidence.runtime.version_answer().is_none();
    if let Some((child, id)) = evidence.hung_state_process().filter(|_| version_fails) {
        return Some(restoring(case, child, id));
    }
    let journal = evidence.journal.as_ref()?;
    let stopped = evidence.node().is_some_and(|host| {
        host.latest().with_role(Role::Daemon).any(|daemon| daemon.is_stopped() && evidence.concerns(daemon))
    });
    let restarts = journal.runtime_starts > 1;
    if stopped || !(journal.recovering || restarts) {
        return None;
    }
    let severity = if version_fails { Severity::Critical } else { Severity::Warning };
    let title =
        if journal.recovering { FactKind::RecoveryHasNotFinished } else { FactKind::RuntimeKeepsRestarting };
    let mut found = finding(RuleId::RecoveringRuntime, severity, Confidence::Likely, title);
    found.phase = if version_fails { Phase::Connect } else { Phase::None };
    found.add_fact(FactKind::RuntimeStarts { starts: journal.runtime_starts });
    if journal.recovering {
        found.add_fact(FactKind::RecoveryHasNoEnd);
    }
    found.add_step(Step::look(
        "if the recovery has just begun, wait; the runtime's journal names the shim for which it waits",
    ));
    Some(found)
}

/// Returns D21 with the name of a container. The runtime restores its containers one after the other and waits for this
/// one.
fn restoring(case: &Case<'_>, child: &Process, id: &str) -> HealthFinding {
    let title = FactKind::RuntimeRestores { waits_for: case.evidence.names.item(id) };
    let found = finding(RuleId::RecoveringRuntime, Severity::Critical, Confidence::Likely, title);
    let mut found = case.about(found, Some(id));
    found.phase = Phase::Connect;
    found.rpc = Some("Version".to_owned());
    found.add_fact(FactKind::StateDelaysCalls { process: child.into(), age: child.age.into() });
    found.add_facts(
        child
            .blocked
            .iter()
            .map(|task| FactKind::ItsTaskWaits { task: task.tid, function: (&task.wchan).into() }),
    );
    found.add_step(advice::kernel_stack("what it waits for", child.pid));
    found.steps.extend(advice::if_state_ends(case.evidence, child));
    found
}

/// Applies D24. The usual causes are a list that is too large and a runtime that cannot be reached.
pub(super) fn never_relisted(case: &Case<'_>) -> Option<HealthFinding> {
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

/// Applies D25. It counts only the messages about PLEG.
pub(super) fn flapping(case: &Case<'_>) -> Option<HealthFinding> {
    let journal = case.evidence.journal.as_ref()?;
    let peaks = peaks(&journal.pleg_ages);
    let peak = peaks.iter().copied().reduce(f64::max)?;
    let timeout = case.evidence.settings.request_timeout.value;
    let resets = peaks.len() > 1;
    let title = if resets { FactKind::PlegCameBack } else { FactKind::PlegWasUnhealthy };
    let mut found = finding(RuleId::FlappingPleg, Severity::Warning, Confidence::Likely, title);
    found.add_fact(FactKind::PlegAgeRose {
        seconds: peak.into(),
        messages: journal.pleg_ages.len(),
        periods: peaks.len(),
    });
    found.add_fact(if resets {
        let calls = (peak / timeout.as_secs_f64()).round().into();
        FactKind::CallsTimedOutInRelists { calls, timeout: timeout.into() }
    } else {
        FactKind::PlegAgeOnlyGrew
    });
    found.add_step(advice::until_slow());
    Some(found)
}

/// Returns the age at the end of each period in which the age only grows.
fn peaks(ages: &[f64]) -> Vec<f64> {
    let mut peaks = Vec::new();
    for (at, age) in ages.iter().enumerate() {
        if ages.get(at + 1).is_none_or(|next| next < age) {
            peaks.push(*age);
        }
    }
    peaks
}

/// Applies D26: a watchdog restarts the kubelet, which hides the cause of the problem.
pub(super) fn watchdog(case: &Case<'_>) -> Option<HealthFinding> {
    let journal = case.evidence.journal.as_ref()?;
    let young = case.evidence.kubelet.age.is_some_and(|age| age < limits::PLEG_AGE_STALE * 5);
    let line = journal.watchdog.clone().filter(|_| young && !journal.pleg_ages.is_empty())?;
    let title = FactKind::WatchdogRestartsKubelet;
    let mut found = finding(RuleId::WatchdogRestarts, Severity::Warning, Confidence::Likely, title);
    found.add_fact(FactKind::Logged { line: Quoted(line) });
    found.add_fact(FactKind::RestartsHideCause);
    found.add_step(Step::change("switch the watchdog off until the cause is found"));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_the_last_age_before_a_smaller_one() {
        assert_eq!(peaks(&[181.0, 191.0, 241.0, 182.0, 240.0]), [241.0, 240.0]);
        assert_eq!(peaks(&[181.0, 191.0]), [191.0]);
        assert!(peaks(&[]).is_empty());
    }
}
