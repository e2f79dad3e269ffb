//! D08, D09, D10, D11: processes on the node that block calls: tasks in uninterruptible sleep, OCI runtimes that do not end,
//! stopped shims, frozen cgroups.

use std::time::Duration;

use super::kernel::awaited_by;
use super::{Case, finding};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::evidence::container_parts::{self, ContainerParts};
use crate::diagnosis::facts::{FactKind, FilePath, Resource, WaitOwner, Waits, Word};
use crate::diagnosis::kernel_waits::KernelWait;
use crate::diagnosis::limits;
use crate::diagnosis::overdue_processes;
use crate::diagnosis::proc::{
    Blocked, Freeze, NodeMount, ProcSample, Process, Psi, Role, is_conmon, sub_command,
};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, PodRef, RuleId, Severity};
use crate::report::{Command, Step};

/// Parts of the names of kernel functions that wait for a remote or FUSE file system.
const REMOTE_WAITS: [&str; 12] = [
    "nfs",
    "rpc_wait",
    "rpc_",
    "ceph",
    "cifs",
    "smb2_",
    "fuse",
    "request_wait_answer",
    "p9_client",
    "lustre",
    "ptlrpc_",
    // CIFS.
    "wait_for_response",
];
/// Parts of the names of kernel functions that wait for local storage.
const LOCAL_WAITS: [&str; 14] = [
    "io_schedule",
    "blk_",
    "jbd2",
    "ext4",
    "xfs_",
    "btrfs",
    "wait_on_page",
    "folio_wait",
    "sync_inodes",
    "fsync",
    "writeback",
    "submit_bio",
    "umount",
    "balance_dirty",
];

/// Returns the longest part of a kernel function's name by which the rules recognise a wait for a file system.
pub(crate) fn known_wait(function: &str) -> Option<&'static str> {
    let parts = REMOTE_WAITS.iter().chain(&LOCAL_WAITS).copied();
    parts.filter(|part| function.contains(part)).max_by_key(|part| part.len())
}

fn waits_for(task: &Blocked, parts: &[&str]) -> bool {
    let in_function = |function: &str| parts.iter().any(|part| function.contains(part));
    in_function(&task.wchan) || task.stack.iter().any(|line| in_function(line))
}

fn is_remote(task: &Blocked) -> bool {
    waits_for(task, &REMOTE_WAITS)
}

/// Describes a blocked task.
fn line(process: &Process, task: &Blocked) -> FactKind {
    let is_known = !task.wchan.is_empty() && task.wchan != "0";
    FactKind::TaskIsUninterruptible {
        process: process.into(),
        task: task.tid,
        function: is_known.then(|| (&task.wchan).into()),
        age: process.age.into(),
    }
}

/// Returns a line of the journal as a fact.
fn logged(line: &String) -> FactKind {
    FactKind::Logged { line: line.into() }
}

fn pod_of(case: &Case<'_>, process: &Process) -> Option<PodRef> {
    let by_id = process.container_id.as_deref().and_then(|id| case.evidence.names.pod(id));
    by_id.or_else(|| {
        let uid = process.pod_uid.as_deref()?;
        Some(
            case.evidence
                .names
                .pod_by_uid(uid)
                .unwrap_or_else(|| PodRef { uid: uid.to_owned(), ..PodRef::default() }),
        )
    })
}

/// Applies D08, for local file systems only. I/O pressure shows that a task waits, but not the cause.
pub(super) fn storage(case: &Case<'_>) -> Option<HealthFinding> {
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
    found.add_step(Step::look("is the cloud disk throttled? are images pulled, or logs written, in bulk?"));
    let purpose = "which disk is busy (a task waits for storage; this does not mean that a disk is broken)";
    found.add_step(Step::look(purpose).with(Command::new("iostat -x 1 5")));
    Some(found)
}

/// Applies D09. It does not access the mount, and names a pod only if a task of this pod waits.
pub(super) fn remote(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let blocked = case.blocked();
    let waiting: Vec<_> = blocked.iter().filter(|(_, task)| is_remote(task)).collect();
    let (process, _) = waiting.first()?;
    let pod = pod_of(case, process);
    let uid = pod.as_ref().map(|pod| pod.uid.as_str()).filter(|uid| !uid.is_empty());
    let mounts: Vec<_> =
        host.latest().remote_mounts().filter(|mount| uid.is_none() || mount.pod_uid() == uid).collect();
    let message = case.evidence.journal.as_ref().and_then(|journal| journal.server_silent.as_ref());
    let likely = !mounts.is_empty() || message.is_some();
    let (confidence, severity) = if likely {
        (Confidence::Likely, case.severity_of_cause())
    } else {
        (Confidence::Possible, Severity::Warning)
    };
    let owners = host.waits.iter().filter(|wait| wait.reason.rule.id == "KR04");
    let mut named = owners.filter_map(|wait| wait.owner.as_ref().map(|owner| (wait, owner)));
    // The owner of this process's own wait is the server or the daemon; of several mounts, the first may be another one.
    let owner = named.clone().find(|(wait, _)| wait.pid == process.pid).map(|(_, owner)| owner.clone());
    let of_mount = |mount: &&NodeMount| WaitOwner::Mounted {
        source: (&mount.source).into(),
        file_system: (&mount.kind).into(),
        daemon: None,
    };
    let title = FactKind::ServerDoesNotAnswer {
        server: owner.or_else(|| mounts.first().map(of_mount)),
        pod: pod.clone(),
        process: (*process).into(),
    };
    let mut found = case.cause(RuleId::RemoteStorageStall, severity, confidence, title);
    if let Some(id) = process.container_id.as_deref() {
        found.container = case.evidence.names.container(id);
        found.ids = vec![id.to_owned()];
    }
    found.pod = pod;
    found.add_facts(waiting.iter().take(5).map(|(process, task)| line(process, task)));
    found.add_facts(mounts.iter().take(3).map(|mount| FactKind::MountedAt { path: (&mount.target).into() }));
    found.add_facts(named.next().map(|(wait, _)| FactKind::ItWaits { waits: wait.waits() }));
    found.add_facts(message.map(logged));
    found.add_step(Step::look("make the file server available again"));
    found
        .add_step(Step::change("otherwise umount -f, then umount -l; after -l the waiting tasks still wait"));
    Some(found)
}

/// Applies D10: reports for each hung id the OCI runtime process or the shim that blocks it. Without a hang, it reports only
/// old OCI runtime processes and stopped shims.
pub(super) fn blocking_processes(case: &Case<'_>) -> Vec<HealthFinding> {
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
        let end = || {
            Step::change(format!("end {}; in similar cases this unblocked the node", process.comm))
                .with(Command::new("kill {}").pid(process.pid))
        };
        steps.push(advice::if_state_ends(evidence, process).unwrap_or_else(end));
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
            let hangs = effect.is_some() && process.age >= limits::OCI_COMMAND_STUCK;
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
            found.add_step(advice::kernel_stack("where it waits", process.pid));
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
            let twice =
                host.second.is_some() && host.first.processes.get(&shim.pid).is_some_and(Process::is_stopped);
            let confidence = if twice { Confidence::Likely } else { Confidence::Possible };
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
                let ask = Command::new("plegctl health --probe-shims");
                found.add_step(Step::look("make sure (asks each shim)").with(ask));
            }
            found.add_step(advice::continue_process(shim.pid));
            found
        })
        .collect()
}

/// Applies D11. The finding mentions that a cgroup may be frozen on purpose.
pub(super) fn frozen(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let is_in_both = |freeze: &&Freeze| match &host.second {
        None => true,
        Some(_) => host.first.frozen.iter().any(|before| before.path == freeze.path),
    };
    let sample = host.latest();
    let all: Vec<&Freeze> = sample
        .frozen
        .iter()
        .filter(is_in_both)
        .filter(|freeze| case.evidence.concerns_cgroup(freeze))
        .collect();
    // All cgroups below a frozen cgroup are frozen too, so only the outermost cgroup is reported.
    let outermost = all.iter().filter(|freeze| {
        !all.iter()
            .any(|other| freeze.path != other.path && freeze.path.starts_with(&format!("{}/", other.path)))
    });
    outermost
        .take(5)
        .map(|freeze| {
            let ids: Vec<String> = sample
                .processes
                .values()
                .filter(|process| container_parts::is_frozen_by(process, freeze))
                .filter_map(|process| process.container_id.clone())
                .collect();
            let id = freeze.container_id.clone().or_else(|| ids.first().cloned());
            let hangs = case
                .culprits
                .iter()
                .any(|culprit| ids.contains(&culprit.id) || Some(&culprit.id) == id.as_ref());
            let of_a_pod = freeze.pod_uid.is_some() || id.is_some();
            let checkpoint = of_a_pod && case.evidence.settings.kubelet.value.at_least(37);
            let (severity, confidence) = match (hangs, host.second.is_some()) {
                (false, _) if checkpoint => (Severity::Info, Confidence::Possible),
                (true, _) => (Severity::Critical, Confidence::Certain),
                (false, true) => (Severity::Warning, Confidence::Likely),
                (false, false) => (Severity::Warning, Confidence::Possible),
            };
            let uid = freeze.pod_uid.as_deref();
            let pod = id
                .as_deref()
                .and_then(|id| case.evidence.names.pod(id))
                .or_else(|| uid.and_then(|uid| case.evidence.names.pod_by_uid(uid)));
            let cgroup = FilePath::from(&freeze.path);
            let title = FactKind::CgroupIsFrozen { cgroup: cgroup.clone(), pod: pod.clone() };
            let mut found = finding(RuleId::FrozenCgroup, severity, confidence, title);
            found.phase = if hangs { case.hang_phase() } else { Phase::None };
            found.rpc = case.hung_rpc().filter(|_| hangs).map(|rpc| rpc.name().to_owned());
            found.container = id.as_deref().and_then(|id| case.evidence.names.container(id));
            found.pod = pod;
            found.ids = id.into_iter().collect();
            found.add_fact(FactKind::IsFrozen { cgroup, seen_twice: host.second.is_some() });
            found.add_fact(FactKind::ProcessesInIt { processes: ids.len() });
            found.add_fact(who_froze(sample, &ids));
            if checkpoint {
                found.add_fact(FactKind::CheckpointMayFreeze);
            }
            found.add_step(Step::change("unless it was paused on purpose, thaw it").with(freeze.thaw()));
            found.add_step(Step::look(
                "find out who froze it: a pause, a checkpoint, a debugger, systemctl freeze, or an OCI runtime that was \
                 interrupted; the runtime's journal may show it",
            ));
            found.add_step(Step::look("runc before 1.1.0 leaves a cgroup frozen when `delete -f` is interrupted"));
            found
        })
        .collect()
}

/// Names the program that may have frozen a cgroup with these containers. The kernel does not record who did it, so only a
/// program that still runs can be named.
fn who_froze(sample: &ProcSample, ids: &[String]) -> FactKind {
    // runc freezes a cgroup also while it kills, updates or removes the container.
    const FREEZES: [&str; 5] = ["pause", "checkpoint", "kill", "update", "delete"];
    let may_freeze = |process: &&Process| {
        let has_verb = || process.command.iter().find(|word| FREEZES.contains(&word.as_str()));
        let is_about_it = || ids.iter().any(|id| process.command.mentions(id));
        process.comm == "criu" || (process.role == Role::OciRuntime && is_about_it() && has_verb().is_some())
    };
    match sample.processes.values().find(may_freeze) {
        Some(process) => FactKind::MayHaveFrozenIt { process: process.into() },
        None => FactKind::NobodyKnownFrozeIt,
    }
}
