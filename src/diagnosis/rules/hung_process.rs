//! D10: an OCI runtime process or a shim hangs.

use super::prelude::*;

use super::blocked_tasks::line;
use super::kernel_wait::awaited_by;
use crate::diagnosis::evidence::container_parts::{self, ContainerParts};
use crate::diagnosis::facts::{Waits, Word};
use crate::diagnosis::kernel_waits::KernelWait;
use crate::diagnosis::proc::{is_conmon, sub_command};

/// Applies D10: reports for each hung id the OCI runtime process or the shim that blocks it. Without a hang, it reports only
/// old OCI runtime processes and stopped shims.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let mut found: Vec<HealthFinding> =
        case.culprits.iter().filter_map(|culprit| holder_of(case, &culprit.id)).collect();
    let runtime = &case.evidence.runtime;
    let silent_shims =
        runtime.shims.iter().filter(|record| record.is_silent() && runtime.silence.hangs(record.duration));
    found.extend(silent_shims.map(|record| silent_shim(case, &record.target.id, record.duration)));
    if found.is_empty() {
        found.extend(overdue_oci_processes(case));
        found.extend(stopped_shims(case));
    }
    found
}

/// Reports the OCI runtime process or the shim that blocks the call about a culprit.
fn holder_of(case: &Case<'_>, id: &str) -> Option<HealthFinding> {
    let parts = container_parts::parts_of(case.evidence, id);
    let old = parts.oci.iter().find(|process| process.age >= limits::OCI_PROCESS_OLD);
    // A young OCI runtime process counts if the silent call's id is on its command line.
    let young = parts.oci.iter().find(|process| container_parts::works_on(process, id));
    // The main thread of a Go program always waits in a futex, so only stopped tasks and uninterruptible waits count.
    let blocked_shim = parts
        .shim
        .filter(|shim| shim.is_stopped() || parts.blocked.iter().any(|(process, _)| process.pid == shim.pid));
    // No list, status or stats call needs conmon, so conmon is not the cause while an OCI runtime process does not end.
    let blocked_shim = blocked_shim.filter(|shim| young.is_none() || !is_conmon(&shim.comm));
    let of = case.evidence.names.item(id);
    let (pid, title) = match (old, blocked_shim, young) {
        (Some(process), ..) | (None, None, Some(process)) => {
            let age = process.age.into();
            (process.pid, FactKind::OciProcessHasNotFinished { process: (*process).into(), of, age })
        }
        (None, Some(shim), _) if shim.is_stopped() => {
            (shim.pid, FactKind::MonitorIsStopped { monitor: shim.into(), of })
        }
        (None, Some(shim), _) => {
            let waits = wait_of(case, shim.pid);
            (shim.pid, FactKind::MonitorWaits { monitor: shim.into(), of, waits })
        }
        (None, None, None) => return None,
    };
    // The runtime's goroutine dump may show that goroutines wait for this process.
    let chain = [Some(pid), parts.shim.map(|shim| shim.pid)]
        .into_iter()
        .flatten()
        .find_map(|pid| case.evidence.chain_at(pid));
    let confidence = if chain.is_some() { Confidence::Certain } else { Confidence::Likely };
    let found = case.cause(RuleId::HungProcess, Severity::Critical, confidence, title);
    let mut found = case.about(found, Some(id));
    found.add_facts(chain);
    if let Some(culprit) = case.culprits.iter().find(|culprit| culprit.id == id) {
        let (of, waited) = (case.evidence.names.item(id), culprit.waited.into());
        found.add_fact(FactKind::CallAboutItIsSilent { rpc: culprit.rpc, of, waited });
    }
    if let Some((rpc, waited)) = case.evidence.runtime.hung_lists().first() {
        found.add_fact(FactKind::ListWaitsForIt { rpc: *rpc, waited: (*waited).into() });
    }
    found.add_facts(describe(&parts));
    found.add_step(advice::kernel_stack("where it waits", pid));
    found.steps.extend(last_resort(case.evidence, &parts));
    Some(found)
}

/// Describes for what a task of this process waits in the kernel, if known. If the process waits until its child has
/// executed a program, the child's wait counts.
fn wait_of(case: &Case<'_>, pid: u32) -> Option<Waits> {
    let host = case.evidence.node()?;
    let is_for_it = |wait: &&KernelWait| {
        let process = host.latest().processes.get(&wait.pid);
        process.is_some_and(|process| awaited_by(case, process).pid == pid)
    };
    let own = host.waits.iter().find(|wait| wait.pid == pid);
    Some(own.or_else(|| host.waits.iter().find(is_for_it))?.waits())
}

/// Describes all parts of a container as evidence, one fact each.
fn describe(parts: &ContainerParts<'_>) -> Vec<FactKind> {
    let mut facts = Vec::new();
    facts.extend(parts.oci.iter().map(|process| FactKind::OciProcess {
        process: (*process).into(),
        verb: sub_command(&process.command).map(Word::from),
        state: process.state,
        age: process.age.into(),
    }));
    facts.extend(parts.shim.map(|shim| FactKind::ItsMonitor {
        monitor: shim.into(),
        state: shim.state,
        threads: shim.threads,
    }));
    facts.extend(parts.blocked.iter().take(5).map(|(process, task)| line(process, task)));
    facts.extend(parts.frozen.map(|freeze| FactKind::CgroupFrozen { path: (&freeze.path).into() }));
    facts.extend(parts.mounts.iter().take(3).map(|mount| FactKind::ItsPodHasMounted {
        source: (&mount.source).into(),
        file_system: (&mount.kind).into(),
    }));
    facts
}

/// Suggests what to do with the parts of a container.
fn last_resort(evidence: &Evidence, parts: &ContainerParts<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(shim) = parts.shim {
        steps.push(if shim.is_stopped() {
            advice::continue_process(shim.pid)
        } else if is_conmon(&shim.comm) {
            // A signal that conmon does not handle would kill conmon, and the exit code of its container would be lost.
            advice::kernel_stack("where its conmon waits; do not signal it", shim.pid)
        } else {
            advice::shim_stacks(shim.pid)
        });
    }
    if let Some(process) = parts.oci.first() {
        let end = || steps_of("endProcess", &of_process(process));
        steps.extend(advice::if_state_ends(evidence, process).map_or_else(end, |step| vec![step]));
    }
    steps
}

/// Reports a shim that does not answer `ContainerStats`.
fn silent_shim(case: &Case<'_>, id: &str, waited: Duration) -> HealthFinding {
    let parts = container_parts::parts_of(case.evidence, id);
    let title = FactKind::ShimDoesNotAnswer { of: case.evidence.names.item(id) };
    let found =
        finding(RuleId::HungProcess, Severity::Warning, case.evidence.hang_confidence(id, waited), title);
    let mut found = case.about(found, Some(id));
    found.rpc = Some("ContainerStats".to_owned());
    found.add_fact(FactKind::StatsSilent { waited: waited.into() });
    found.add_facts(describe(&parts));
    found.steps.extend(last_resort(case.evidence, &parts));
    found
}

/// Reports OCI runtime processes that are older than a normal command takes.
fn overdue_oci_processes(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let overdue = overdue_processes::find(case.evidence, host.latest());
    overdue
        .filter(|process| process.role != Role::Other)
        .take(5)
        .map(|process| {
            let effect = effect_of_hang(process);
            let is_stuck = process.age >= limits::OCI_COMMAND_STUCK || is_stopped_twice(host, process.pid);
            let hangs = effect.is_some() && is_stuck;
            let confidence = if hangs { Confidence::Likely } else { Confidence::Possible };
            let pod = host.overdue_ids.get(&process.pid).and_then(|id| case.evidence.names.pod(id));
            let (of, age) = (process.into(), process.age.into());
            let title = if process.role == Role::Shim {
                FactKind::ShimHasNotStarted { shim: of, pod, age }
            } else {
                let verb = sub_command(&process.command).map(Word::from);
                FactKind::ProcessHasNotFinished { process: of, verb, pod, age }
            };
            let known = |word: &&String| case.evidence.names.knows(word);
            let id = process.container_id.as_ref().or_else(|| host.overdue_ids.get(&process.pid));
            let id = id.or_else(|| process.command.iter().find(known)).cloned();
            let mut found = finding(RuleId::HungProcess, Severity::Warning, confidence, title);
            if let Some(id) = id {
                found.add_fact(FactKind::WorksOn { of: case.evidence.names.item(&id) });
                found = case.about(found, Some(&id));
            }
            found.pid = Some(process.pid);
            found.add_fact(effect.unwrap_or(FactKind::NoCallWaitsForItNow));
            found.add_facts(case.evidence.chain_at(process.pid));
            found.add_facts(process.blocked.iter().map(|task| line(process, task)));
            if process.is_stopped() {
                let state = process.state;
                found.add_fact(FactKind::StoppedBySignal { process: process.into(), state });
                found.add_step(advice::continue_process(process.pid));
            } else {
                found.add_step(advice::kernel_stack("where it waits", process.pid));
            }
            found.steps.extend(advice::if_state_ends(case.evidence, process));
            found
        })
        .collect()
}

/// Describes what waits for an overdue process and cannot happen before it ends; `None` for a command that may run for any
/// time.
fn effect_of_hang(process: &Process) -> Option<FactKind> {
    match sub_command(&process.command) {
        Some("create") => Some(FactKind::CreateDelaysStart),
        Some("state") => Some(FactKind::StateDelaysRecord),
        Some("kill") => Some(FactKind::KillDelaysEnd),
        Some("delete") => Some(FactKind::DeleteDelaysRemoval),
        _ if process.role == Role::Shim => Some(FactKind::ShimDelaysStart),
        _ => None,
    }
}

/// Whether a process is stopped in both samples.
fn is_stopped_twice(host: &HostEvidence, pid: u32) -> bool {
    let is_stopped = |sample: &ProcSample| sample.processes.get(&pid).is_some_and(Process::is_stopped);
    host.second.is_some() && is_stopped(&host.first) && is_stopped(host.latest())
}

/// Reports stopped shims. Normally no shim is stopped, so a shim that is stopped in two samples is likely a problem.
fn stopped_shims(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let sample = host.latest();
    let stopped =
        sample.with_role(Role::Shim).filter(|shim| shim.is_stopped() && case.evidence.concerns(shim));
    stopped
        .take(5)
        .map(|shim| {
            let confidence =
                if is_stopped_twice(host, shim.pid) { Confidence::Likely } else { Confidence::Possible };
            let id = shim.flag("id").or_else(|| shim.flag("c")).map(str::to_owned).or_else(|| {
                sample
                    .processes
                    .values()
                    .filter(|process| sample.descends(process.pid, shim.pid))
                    .find_map(|process| process.container_id.clone())
            });
            let of = id.as_deref().map(|id| case.evidence.names.item(id));
            let (is_conmon, state) = (is_conmon(&shim.comm), shim.state);
            let title = match of {
                Some(of) if !is_conmon => FactKind::StoppedShimBlocks { of, shim: shim.into(), state },
                of => FactKind::MonitorIsInState { monitor: shim.into(), of, state },
            };
            let found = finding(RuleId::HungProcess, Severity::Warning, confidence, title);
            let mut found = case.about(found, id.as_deref());
            found.add_fact(if is_conmon { FactKind::ConmonIsMissed } else { FactKind::ShimIsMissed });
            if !is_conmon {
                found.steps = steps_of("stoppedShim", &[]);
            }
            found.add_step(advice::continue_process(shim.pid));
            found
        })
        .collect()
}
