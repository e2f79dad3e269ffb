//! D08: storage stalls.

use super::blocked_tasks::{LOCAL_WAITS, is_remote, line, logged, waits_for};
use super::prelude::*;

/// Applies D08, for local file systems only. I/O pressure shows that a task waits, but not the cause.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let pressure = host.latest().pressure_on(|pressure| pressure.io);
    let blocked = case.blocked();
    let local: Vec<_> = blocked
        .iter()
        .filter(|(process, task)| {
            process.role != Role::Other && !is_remote(task) && waits_for(task, &LOCAL_WAITS)
        })
        .collect();
    let messages: Vec<&String> = case
        .evidence
        .journal
        .iter()
        .flat_map(|journal| &journal.blocked_tasks)
        .filter(|line| {
            ["kubelet", "containerd", "crio", "runc", "crun", "conmon"].iter().any(|name| line.contains(name))
        })
        .collect();
    let enough = local.len() >= limits::BLOCKED_TASKS;
    // The pressure of the node does not explain a hang if the runtime's own tasks do not wait.
    let stalled = pressure.of_daemon(Psi::all_waited) >= limits::IO_FULL_STALL && case.stuck();
    let is_hint = pressure.highest(Psi::all_waited) >= limits::IO_FULL_HINT;
    if !enough && !stalled && messages.is_empty() && !is_hint {
        return None;
    }
    let likely = enough || stalled || !messages.is_empty();
    let confidence = if likely { Confidence::Likely } else { Confidence::Possible };
    let severity = if likely { case.severity_of_cause() } else { Severity::Warning };
    let mut found = case.cause(RuleId::StorageStall, severity, confidence, FactKind::StorageKeepsWaiting);
    found.add_fact(Resource::Io.pressure(&pressure).unwrap_or(FactKind::IoPressureIsNotMeasured));
    found.add_facts(local.iter().take(5).map(|(process, task)| line(process, task)));
    found.add_facts(messages.iter().rev().take(3).map(|line| logged(line)));
    Some(found)
}
