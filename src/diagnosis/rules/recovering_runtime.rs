//! D21: the runtime restarts or recovers.

use super::prelude::*;

/// Applies D21. A daemon that is young or stopped is not enough evidence for a recovery.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let version_fails = evidence.runtime.version_answer().is_none();
    if let Some((child, id)) = evidence.hung_state_process().filter(|_| version_fails) {
        return Some(restoring(case, child, id));
    }
    let journal = evidence.journal.as_ref()?;
    let stopped = evidence.node().is_some_and(|host| {
        host.latest().with_role(Role::Daemon).any(|daemon| daemon.is_stopped() && evidence.concerns(daemon))
    });
    let restarts = journal.runtime_restarts;
    if stopped || !(journal.recovering || restarts > 1) {
        return None;
    }
    let severity = if version_fails { Severity::Critical } else { Severity::Warning };
    let title =
        if journal.recovering { FactKind::RecoveryHasNotFinished } else { FactKind::RuntimeKeepsRestarting };
    let mut found = finding(RuleId::RecoveringRuntime, severity, Confidence::Likely, title);
    found.phase = if version_fails { Phase::Connect } else { Phase::None };
    if restarts > 0 {
        found.add_fact(FactKind::RuntimeRestarts { restarts });
    }
    if journal.recovering {
        found.add_fact(FactKind::RecoveryHasNoEnd);
    }
    found.steps = evidence.steps(if journal.recovering { "recovery" } else { "restarts" }, &[]);
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
