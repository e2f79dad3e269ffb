//! D37: a task waits in the kernel for something with a known reason.

use super::prelude::*;
use super::{frozen_cgroup, remote_storage_stall};
use crate::diagnosis::evidence::container_parts::parts_of;
use crate::diagnosis::facts::WaitOwner;
use crate::diagnosis::kernel_waits::{KernelWait, KernelWaitReason, WaitKind};

/// The most findings of this rule.
const MAX_FINDINGS: usize = 3;
/// If this many programs wait for the same security agent, that is no coincidence.
const UNRELATED_PROGRAMS: usize = 3;
/// The most pods that are named for one file system.
const MAX_PODS: usize = 5;

/// Applies D37: one finding for each reason and owner.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else { return Vec::new() };
    let remote_is_reported = remote_storage_stall::find(case).is_some();
    let frozen_is_reported = !frozen_cgroup::find(case).is_empty();
    let is_reported = |wait: &KernelWait| match wait.reason.kind {
        WaitKind::RemoteFileSystem => remote_is_reported,
        WaitKind::FrozenCgroup => frozen_is_reported,
        _ => false,
    };
    let mut waits: Vec<(&KernelWait, &Process)> = host
        .waits
        .iter()
        .filter(|wait| !is_reported(wait))
        .filter_map(|wait| Some((wait, host.latest().processes.get(&wait.pid)?)))
        .collect();
    // A wait that explains the hang represents the others with the same reason and owner.
    waits.sort_by_key(|(wait, process)| (!explains_hang(case, process), wait.reason.kind, wait.pid));
    let mut found: Vec<HealthFinding> = Vec::new();
    let mut seen: Vec<(WaitKind, &Option<WaitOwner>)> = Vec::new();
    for (wait, process) in &waits {
        let kind = (wait.reason.kind, &wait.owner);
        if !seen.contains(&kind) && found.len() < MAX_FINDINGS {
            seen.push(kind);
            let all = waits.iter().filter(|(other, _)| (other.reason.kind, &other.owner) == kind);
            found.push(finding_of(case, wait, process, &all.copied().collect::<Vec<_>>()));
        }
    }
    found.extend(lockups(case));
    found
}

/// Returns the process that waits for this one: the overdue process for which it works, or the shim that started it. A
/// process that has not executed its program yet has the name of its parent, and the parent waits for it.
pub(super) fn awaited_by<'a>(case: &Case<'a>, process: &'a Process) -> &'a Process {
    let Some(host) = case.evidence.node() else { return process };
    let sample = host.latest();
    let parent = || sample.processes.get(&process.parent).filter(|parent| parent.role == process.role);
    match process.role {
        Role::Shim | Role::Daemon => parent().unwrap_or(process),
        _ => overdue_processes::origin(case.evidence, sample, process).unwrap_or(process),
    }
}

/// Whether a wait of this process explains the hung call: the process belongs to a culprit (a pod or container whose call
/// hangs), or is the daemon. Without a culprit, it may be any process of the runtime.
fn explains_hang(case: &Case<'_>, process: &Process) -> bool {
    let process = awaited_by(case, process);
    let is_part = |id: &str| {
        let parts = parts_of(case.evidence, id);
        let mut shim_and_runtime = parts.shim.into_iter().chain(parts.oci.iter().copied());
        shim_and_runtime.any(|part| part.pid == process.pid) || process.container_id.as_deref() == Some(id)
    };
    case.stuck()
        && match process.role {
            Role::Daemon => true,
            Role::Kubelet => false,
            _ if !case.culprits.is_empty() => case.culprits.iter().any(|culprit| is_part(&culprit.id)),
            role => role != Role::Other,
        }
}

fn finding_of(
    case: &Case<'_>,
    wait: &KernelWait,
    process: &Process,
    all: &[(&KernelWait, &Process)],
) -> HealthFinding {
    let evidence = case.evidence;
    let explains = explains_hang(case, process);
    let awaited_by = awaited_by(case, process);
    let is_old = evidence.node().is_some_and(|host| {
        awaited_by.age >= limits::CNI_PROCESS_STUCK
            && overdue_processes::is_overdue(evidence, host.latest(), awaited_by)
    });
    let whole_node = wait.reason.kind == WaitKind::SecurityAgent && wait.programs >= UNRELATED_PROGRAMS;
    let is_overdue = is_overdue(wait, awaited_by);
    let hang_is_certain = case.culprits.iter().any(|culprit| culprit.confidence == Confidence::Certain);
    let (severity, confidence) = match (explains, is_old || whole_node || is_overdue) {
        (true, _) if wait.is_proven() && hang_is_certain => (Severity::Critical, Confidence::Certain),
        (true, _) => (Severity::Critical, Confidence::Likely),
        (false, true) if wait.is_proven() && is_overdue => (Severity::Warning, Confidence::Certain),
        (false, true) => (Severity::Warning, Confidence::Likely),
        (false, false) => (Severity::Warning, Confidence::Possible),
    };
    let id = id_of(case, process).or_else(|| id_of(case, awaited_by)).or_else(|| sandbox_of(evidence, wait));
    // The kubelet and the daemon work for all pods.
    let of_pod = id.as_deref().filter(|_| !matches!(process.role, Role::Kubelet | Role::Daemon));
    let title = FactKind::ProcessWaits {
        process: process.into(),
        pod: of_pod.and_then(|id| evidence.names.pod(id)),
        waits: wait.waits(),
    };
    let found = if explains {
        case.cause(RuleId::KernelWait, severity, confidence, title)
    } else {
        finding(RuleId::KernelWait, severity, confidence, title)
    };
    let mut found = case.about(found, id.as_deref());
    for (wait, process) in all.iter().take(3) {
        found.add_fact(FactKind::DidNotRun {
            process: (*process).into(),
            task: wait.tid,
            function: (&wait.function).into(),
            age: process.age.into(),
        });
    }
    if is_overdue {
        found.add_facts(wait.lasted.map(|lasted| FactKind::HasWaited { at_least: lasted.into() }));
    }
    found.add_facts(wait.facts.iter().cloned());
    found.add_facts(pods_of_mount(evidence, wait));
    if wait.reason.kind == WaitKind::Device {
        let error = evidence.journal.as_ref().and_then(|journal| journal.gpu_error.as_ref());
        found.add_facts(error.map(|line| FactKind::Logged { line: line.into() }));
    }
    if wait.programs > 1 {
        found.add_fact(FactKind::ProgramsWaitForTheSame { programs: wait.programs });
    }
    found.add_fact(wait.stack());
    found.steps.extend(wait.steps(evidence.node_or_placeholder()));
    found.kernel_reason = Some(wait.report(Some(process)));
    found
}

/// Whether a wait needs a person although no call hangs: the process belongs to the runtime, is the kubelet or unmounts a file
/// system, and has waited for too long. A container may wait for a file system that its own backup has frozen.
fn is_overdue(wait: &KernelWait, process: &Process) -> bool {
    // The owner of a file lock is often another thread of the same program.
    let is_known = wait.reason.kind != WaitKind::FileLock || wait.owner.is_some();
    (process.role != Role::Other || process.is_umount()) && is_known && wait.is_overdue()
}

/// Names the pods with a volume on the file system for which a task waits.
fn pods_of_mount(evidence: &Evidence, wait: &KernelWait) -> Option<FactKind> {
    let mounts = &evidence.node()?.latest().mounts;
    let uids = wait.pods_of_mount(mounts).into_iter().take(MAX_PODS);
    let pods: Vec<PodRef> = uids.map(|uid| evidence.names.pod_of_uid(uid)).collect();
    (!pods.is_empty()).then_some(FactKind::PodsOfMount { pods })
}

/// Returns the sandbox of the pod whose volume is the mount of the wait.
fn sandbox_of(evidence: &Evidence, wait: &KernelWait) -> Option<String> {
    let uid = wait.mount.as_ref()?.pod_uid()?;
    let mut sandboxes = evidence.runtime.sandboxes.items()?.iter();
    let of_pod = |sandbox: &&Sandbox| sandbox.metadata.as_ref().is_some_and(|metadata| metadata.uid == uid);
    sandboxes.find(of_pod).map(|sandbox| sandbox.id.clone())
}

/// Returns the id that the process works on.
fn id_of(case: &Case<'_>, process: &Process) -> Option<String> {
    let names = &case.evidence.names;
    let of_culprit = case.culprits.iter().map(|culprit| &culprit.id).find(|id| {
        let parts = parts_of(case.evidence, id);
        parts.shim.is_some_and(|shim| shim.pid == process.pid)
            || parts.oci.iter().any(|part| part.pid == process.pid)
    });
    let on_command_line = || process.command.iter().find(|word| names.knows(word));
    let of_command = case.evidence.node().and_then(|host| host.overdue_ids.get(&process.pid));
    process.container_id.clone().or_else(|| of_culprit.or(of_command).or_else(on_command_line).cloned())
}

/// Reports the kernel's own messages about processors that run no task and about broken hardware.
fn lockups(case: &Case<'_>) -> Option<HealthFinding> {
    let lines = &case.evidence.journal.as_ref()?.lockups;
    let last = lines.last()?;
    let reason = KernelWaitReason::row(WaitKind::StuckProcessor)?;
    let confidence = if case.stuck() { Confidence::Likely } else { Confidence::Possible };
    let mut found = finding(RuleId::KernelWait, Severity::Warning, confidence, FactKind::KernelReportsLockup);
    found.add_fact(FactKind::MessagesBefore { messages: lines.len() });
    found.add_fact(FactKind::Logged { line: last.into() });
    found.steps.extend(reason.general_steps());
    Some(found)
}
