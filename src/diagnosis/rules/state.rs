//! D16, D19, D20, D31, D33, D42: the runtime reports a problem of its own, or its answers about containers are wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Case, finding};
use crate::cri::{Call, Error, Rpc, RuntimeCondition, RuntimeStatus, Sandbox};
use crate::diagnosis::advice::{self, DaemonFamily};
use crate::diagnosis::evidence::oddities::{OddKind, Oddity, first_oddities, oddities};
use crate::diagnosis::evidence::{Evidence, StatusRecord, container_parts};
use crate::diagnosis::facts::{ConditionName, Fact, FactKind, ProcessRef, Quoted, Word};
use crate::diagnosis::limits;
use crate::diagnosis::living_exits::LivingExit;
use crate::diagnosis::overdue_processes;
use crate::diagnosis::proc::{Process, Role, Shims, monitored_ids, sub_command};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, PodRef, RuleId, Severity};
use crate::diagnosis::words::short;
use crate::host::CNI_DIRECTORY;
use crate::manifests::pod_versions::PodVersions;
use crate::manifests::running::running_pods;
use crate::manifests::{PodSource, RunningPod};
use crate::report::{Command, Step};

/// The most findings of D42.
const MAX_LIVING: usize = 5;

fn fact_of(condition: &RuntimeCondition) -> FactKind {
    FactKind::Condition {
        name: ConditionName::from(&condition.kind),
        holds: condition.holds,
        reason: ConditionName::from(&condition.reason),
        message: Quoted::from(&condition.message),
    }
}

/// Returns the answer of Status.
fn status_answer(evidence: &Evidence) -> Option<&RuntimeStatus> {
    evidence.runtime.status.as_ref()?.result.as_ref().ok()
}

/// Applies D31. This problem alone makes the node `NotReady` after 30 s.
pub(super) fn not_ready(case: &Case<'_>) -> Option<HealthFinding> {
    let call = case.evidence.runtime.status.as_ref()?;
    let mut confidence = Confidence::Certain;
    let (title, fact) = match &call.result {
        Ok(status) => match status.condition("RuntimeReady") {
            Some(ready) if ready.holds => return None,
            Some(ready) => (FactKind::RuntimeNotReady, fact_of(ready)),
            None => (FactKind::RuntimeReadinessUnknown, FactKind::NoRuntimeReady),
        },
        // The run ended before this silence could count as a hang.
        Err(_) if case.evidence.runtime.status_is_open() => return None,
        Err(Error::Silent { waited, .. }) => {
            confidence = case.evidence.runtime.silence.confidence(*waited);
            let (rpcs, waited) = (vec![Rpc::Status], (*waited).into());
            (FactKind::RuntimeStatusSilent, FactKind::CallsSilent { rpcs, waited })
        }
        Err(why) => (FactKind::RuntimeStatusFails, FactKind::CallFailed { error: why.into() }),
    };
    let mut found = finding(RuleId::RuntimeNotReady, Severity::Critical, confidence, title);
    found.rpc = Some("Status".to_owned());
    found.add_fact(fact);
    found.add_fact(FactKind::RuntimeDownAfter30s);
    found.add_step(case.evidence.show_journal());
    Some(found)
}

/// Returns the condition of Status which says that the network is not ready.
fn network_not_ready(evidence: &Evidence) -> Option<&RuntimeCondition> {
    status_answer(evidence)?.condition("NetworkReady").filter(|ready| !ready.holds)
}

/// Whether anything shows a problem of the network, so that D16 applies.
pub(in crate::diagnosis) fn has_network_problem(evidence: &Evidence) -> bool {
    network_not_ready(evidence).is_some()
        || !overdue_plugins(evidence).is_empty()
        || evidence.journal.as_ref().is_some_and(|journal| journal.network_failures > 0)
}

/// Applies D16. The network makes the node `NotReady`, but does not affect PLEG.
pub(super) fn network(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let mut signs = Vec::new();
    let mut confidence = Confidence::Possible;
    let mut title = FactKind::NetworkPluginSlow;
    let (mut about, mut pid) = (None, None);
    let not_ready = network_not_ready(evidence);
    if let Some(condition) = not_ready {
        confidence = Confidence::Certain;
        title = FactKind::NetworkNotReady;
        signs.push(fact_of(condition));
    }
    for plugin in overdue_plugins(evidence) {
        let id = evidence.node().and_then(|host| host.overdue_ids.get(&plugin.pid));
        let (process, age) = (ProcessRef::from(plugin), plugin.age.into());
        let sandbox = id.map(|id| evidence.names.item(id));
        if plugin.age >= limits::CNI_PROCESS_STUCK && confidence == Confidence::Possible {
            confidence = Confidence::Likely;
            title = FactKind::NetworkPluginHangs { process: process.clone(), sandbox: sandbox.clone() };
            pid = Some(plugin.pid);
        } else if signs.is_empty() {
            let (process, sandbox) = (process.clone(), sandbox.clone());
            title = FactKind::NetworkPluginUnfinished { process, sandbox, age };
            pid = Some(plugin.pid);
        }
        signs.push(FactKind::NetworkPluginAge { process, sandbox, age });
        about = about.or_else(|| id.cloned());
    }
    if let Some(journal) = evidence.journal.as_ref().filter(|journal| journal.network_failures > 0) {
        signs.push(FactKind::NetworkFailuresLogged { failures: journal.network_failures });
    }
    if signs.is_empty() {
        return None;
    }
    let found = finding(RuleId::NetworkNotReady, Severity::Warning, confidence, title);
    let mut found = case.about(found, about.as_deref());
    found.pid = pid;
    if not_ready.is_some() {
        found.rpc = Some("Status".to_owned());
    }
    found.add_facts(signs);
    found.add_fact(FactKind::PodsCannotStartOrStop);
    let directory = evidence.cni_directory.as_deref().unwrap_or(CNI_DIRECTORY);
    let list = Command::new("ls {}").arg(directory);
    found.add_step(Step::look("check that the network plugin's DaemonSet runs on this node").with(list));
    Some(found)
}

/// Returns the overdue network plugins.
fn overdue_plugins(evidence: &Evidence) -> Vec<&Process> {
    let Some(host) = evidence.node() else { return Vec::new() };
    let overdue = overdue_processes::find(evidence, host.latest());
    overdue.filter(|process| process.role == Role::Other).collect()
}

/// Returns whether a container of CRI-O has no conmon.
fn has_no_conmon(evidence: &Evidence, id: &str, sandbox: Option<&str>) -> bool {
    let Some(host) = evidence.node().filter(|_| evidence.family() == DaemonFamily::Crio) else {
        return false;
    };
    // Without their command lines, the conmon processes cannot be compared.
    if host.latest().shims == Shims::Counted {
        return false;
    }
    let is_searched = |named: &str| named == id || Some(named) == sandbox;
    let monitors_it = |conmon: &Process| monitored_ids(&conmon.command).any(is_searched);
    !host.latest().with_role(Role::Shim).any(monitors_it)
}

/// Applies D19. With a single sample the finding is only possible: the runtime may be creating or removing the item.
pub(super) fn inconsistent(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let first = first_oddities(case.evidence);
    let again = runtime.sandboxes.second.is_some() || runtime.containers.second.is_some();
    let mut lasting = first;
    if again {
        let later = oddities(case.evidence, runtime.sandboxes.latest(), runtime.containers.latest());
        lasting.retain(|oddity| later.contains(oddity));
    }
    let worst = lasting.first()?;
    let confidence = if again { worst.kind.confidence() } else { Confidence::Possible };
    let id = worst.id;
    let item = |id: &str| case.evidence.names.item(id);
    let title = FactKind::Contradiction { of: item(id), what: worst.kind };
    let found = finding(RuleId::InconsistentState, Severity::Warning, confidence, title);
    let mut found = case.about(found, Some(id));
    let ids = lasting.iter().flat_map(Oddity::ids).take(limits::MAX_LISTED_IDS);
    found.ids = ids.map(str::to_owned).collect();
    if worst.kind == OddKind::TwoVersions {
        add_versions(&mut found, case.evidence, worst);
        return Some(found);
    }
    found.add_facts(lasting.iter().take(10).map(|oddity| FactKind::Contradictions {
        of: oddity.ids().take(10).map(item).collect(),
        what: oddity.kind,
    }));
    if lasting.len() > 10 {
        found.add_fact(FactKind::AndMore { others: lasting.len() - 10 });
    }
    let without_process = || lasting.iter().filter(|oddity| oddity.kind == OddKind::NoProcess);
    let awaited: Vec<&Process> =
        without_process().filter_map(|oddity| awaited_command(case.evidence, oddity.id)).collect();
    found.add_facts(awaited.iter().take(5).map(|process| FactKind::ExitAwaitsCommand {
        process: ProcessRef::from(*process),
        command: Word::from(sub_command(&process.command).unwrap_or_default()),
        age: process.age.into(),
    }));
    let lost_conmon = |oddity: &&Oddity<'_>| {
        let sandbox = case.evidence.names.sandbox_of(oddity.id);
        // conmon ends with its container, so its absence proves nothing while the runtime has not recorded the exit.
        has_no_conmon(case.evidence, oddity.id, sandbox)
            && awaited_command(case.evidence, oddity.id).is_none()
    };
    let without_conmon = without_process().filter(lost_conmon).count();
    if without_conmon > 0 {
        found.add_fact(FactKind::ConmonLostToo { containers: without_conmon });
    }
    if worst.kind == OddKind::NoMonitor {
        found.add_fact(FactKind::NothingMonitors);
    }
    found.add_fact(if again { FactKind::SeenTwice } else { FactKind::SeenOnce });
    found.add_step(match awaited.first() {
        Some(process) => advice::kernel_stack(&format!("for what {} waits", process.comm), process.pid),
        None if worst.kind == OddKind::NoMonitor => {
            Step::look("find out what ended it").with(Command::new("dmesg -T | grep -iE 'conmon|oom'"))
        }
        None => Step::look("compare with the processes of its cgroup; was the runtime restarted recently?"),
    });
    if worst.kind == OddKind::NoMonitor
        && let Some(PodRef { namespace, name, .. }) = &found.pod
    {
        let delete = Command::new("kubectl -n {} delete pod {} --wait=false").arg(namespace).arg(name);
        found.steps.push(Step::change("let it be started anew").with(delete));
    }
    Some(found)
}

/// Adds what the versions of a pod are, which of them is wanted, and what to do then.
fn add_versions(found: &mut HealthFinding, evidence: &Evidence, oddity: &Oddity<'_>) {
    let sandboxes = evidence.runtime.sandboxes.items().into_iter().flatten();
    let mut sandboxes: Vec<&Sandbox> =
        sandboxes.filter(|sandbox| oddity.ids().any(|id| id == sandbox.id)).collect();
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
    let containers = evidence.runtime.containers.items().into_iter().flatten();
    let own = containers.filter(|container| oddity.ids().any(|id| id == container.sandbox_id));
    let pods: Vec<RunningPod> = running_pods(sandboxes, own).collect();
    let versions = PodVersions { instances: pods.iter().collect(), wanted: None, now: evidence.taken_at };
    found.add_facts(versions.describe().into_iter().map(Fact::line));
    found.phase = Phase::None;
    let is_static = pods.iter().any(|pod| pod.source == Some(PodSource::File));
    found.steps.extend(if is_static {
        Some(
            Step::look("which of the two matches its manifest file, and what to do")
                .with(Command::new("plegctl static-pods lint")),
        )
    } else {
        let pod = found.pod.as_ref();
        pod.map(|pod| Step::look("why both run").with(Command::new("plegctl pods --why {}").arg(pod)))
    });
    found.steps.extend(versions.steps());
}

/// Returns the command of the OCI runtime on a container for which the runtime waits before it records the container's exit.
fn awaited_command<'a>(evidence: &'a Evidence, id: &str) -> Option<&'a Process> {
    let holds_lock = |process: &&Process| {
        container_parts::works_on(process, id) && sub_command(&process.command) != Some("exec")
    };
    container_parts::parts_of(evidence, id).oci.into_iter().find(holds_lock)
}

/// Applies D42, the reverse of D19. The first sample is as old as the list, and a container that is just ending looks the
/// same. So only the second sample or an end that was recorded earlier makes the finding certain.
pub(super) fn exited_but_alive(case: &Case<'_>) -> Vec<HealthFinding> {
    let evidence = case.evidence;
    let Some(host) = evidence.node() else { return Vec::new() };
    let living = host.living_exits.iter().filter_map(|living| Some((living, living.process(evidence)?)));
    let finding_of = |(living, process): (&LivingExit, &Process)| {
        let (id, of) = (&living.id, evidence.names.item(&living.id));
        let title = FactKind::ExitedButAlive { of: of.clone(), process: process.into() };
        let status = evidence.runtime.status_calls.iter().find(|record| record.target.id == *id);
        let status = status.and_then(|record| record.result.as_ref().ok());
        let ended = status.and_then(|facts| Some(evidence.taken_at.duration_since(facts.finished_at?)));
        let (confidence, lasts) = match (&host.second, ended.filter(|ended| *ended >= limits::SAMPLES_APART))
        {
            (Some((apart, _)), _) => (Confidence::Certain, FactKind::RanAfterList { after: (*apart).into() }),
            (None, Some(ended)) => (Confidence::Certain, FactKind::EndRecorded { ago: ended.into() }),
            (None, None) => (Confidence::Possible, FactKind::SeenOnceMayEnd),
        };
        let mut found = case
            .about(finding(RuleId::ExitedButAlive, Severity::Warning, confidence, title), Some(id.as_str()));
        let monitor = host.latest().processes.get(&process.parent);
        found.add_fact(FactKind::FirstProcess {
            process: process.into(),
            of,
            age: process.age.into(),
            state: process.state,
            below: monitor.map(Into::into),
        });
        let is_crio = evidence.family() == DaemonFamily::Crio;
        if let Some(code) = status.and_then(|facts| facts.exit_code) {
            let is_of_failed_state = is_crio && code == 255;
            found.add_fact(FactKind::ExitCodeRecorded { code, is_of_failed_state });
        }
        found.add_fact(FactKind::KubeletActsOnFalseExit);
        found.add_fact(lasts);
        let show = Command::new("ps -o pid,ppid,stat,etime,args -p {}").pid(process.pid);
        found.add_step(Step::look("what still runs").with(show));
        found.add_step(if is_crio {
            Step::change("end this copy and its record").with(remove(id))
        } else {
            Step::change("end this copy").with(Command::new("kill {}").pid(process.pid))
        });
        found
    };
    living.map(finding_of).take(MAX_LIVING).collect()
}

/// Returns why a status call failed; `None` if it did not fail.
fn failure(evidence: &Evidence, record: &StatusRecord) -> Option<FactKind> {
    let of = evidence.names.item(&record.target.id);
    Some(match &record.result {
        Err(why) if why.is_failure() => FactKind::StatusError { of, error: why.into() },
        Ok(facts) if !facts.present => FactKind::StatusMissing { of },
        Ok(facts) if facts.created_at.is_none() => FactKind::StatusWithoutCreationTime { of },
        _ => return None,
    })
}

/// Applies D20. "Not found" is not a failure, because the item may have been removed after the list.
pub(super) fn failing_status(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let listed = runtime.sandboxes.items().is_some() || runtime.containers.items().is_some();
    let failing: Vec<(&StatusRecord, FactKind)> = runtime
        .status_calls
        .iter()
        .filter_map(|record| Some((record, failure(case.evidence, record)?)))
        .collect();
    let (first, _) = failing.first().filter(|_| listed)?;
    let (id, rpc) = (&first.target.id, first.rpc);
    let title = FactKind::StatusFails { rpc, of: case.evidence.names.item(id) };
    let found = finding(RuleId::FailingStatus, Severity::Warning, case.confidence_in_answers(), title);
    let mut found = case.about(found, Some(id));
    found.rpc = Some(rpc.name().to_owned());
    let ids = failing.iter().take(limits::MAX_LISTED_IDS);
    found.ids = ids.map(|(record, _)| record.target.id.clone()).collect();
    found.add_fact(FactKind::FailingCalls { failing: failing.len(), of: runtime.status_calls.len() });
    let is_busy = |why: &Error| why.to_string().contains("device or resource busy");
    let is_in_use = failing.iter().any(|(record, _)| record.result.as_ref().is_err_and(is_busy));
    found.add_facts(failing.into_iter().take(5).map(|(_, why)| why));
    found.add_facts(is_in_use.then_some(FactKind::NetworkNamespaceInUse));
    found.add_step(Step::look(
        "the pod's events wait until this call is answered; see the runtime's journal for this id",
    ));
    Some(found)
}

/// Returns the status calls in which CRI-O waited for a lost exit. They take as long as CRI-O waits for the exit file, and
/// return the exit code -1, which CRI-O sets then.
pub fn lost_exits(evidence: &Evidence) -> Vec<&StatusRecord> {
    if evidence.family() != DaemonFamily::Crio {
        return Vec::new();
    }
    let runtime = &evidence.runtime;
    let lost = |record: &&StatusRecord| {
        record.duration >= limits::LOST_EXIT_WAIT
            && record.result.as_ref().is_ok_and(|facts| facts.exit_code == Some(-1))
    };
    let mut found: Vec<&StatusRecord> = runtime.status_calls.iter().filter(lost).collect();
    found.sort_by(|one, other| one.target.id.cmp(&other.target.id));
    found
}

/// Applies D33. These calls are slow and do not hang: CRI-O answers them with exit code -1.
pub(super) fn lost_exit(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let lost = lost_exits(evidence);
    let first = lost.first()?;
    let of = evidence.names.item(&first.target.id);
    let title = FactKind::ExitLost { of, others: lost.len() - 1, wait: first.duration.into() };
    let found = finding(RuleId::LostExit, Severity::Warning, case.confidence_in_answers(), title);
    let mut found = case.about(found, Some(&first.target.id));
    found.rpc = Some(first.rpc.name().to_owned());
    found.ids = lost.iter().map(|record| record.target.id.clone()).collect();
    let of_pods = slow_pods_of(evidence, &lost);
    let total: Duration = lost.iter().chain(&of_pods).map(|record| record.duration).sum();
    found.add_fact(FactKind::LostExitAnswers { relist: total.into(), pods_wait: !of_pods.is_empty() });
    for record in lost.iter().take(5) {
        let id = &record.target.id;
        let of = evidence.names.item(id);
        match container_parts::parts_of(evidence, id).shim {
            Some(conmon) if conmon.is_stopped() => {
                let state = conmon.state;
                found.add_fact(FactKind::ConmonStopped { of, conmon: conmon.into(), state });
                let run_on = Command::new("kill -CONT {}").pid(conmon.pid);
                found.add_step(Step::change("who stopped it? to make its calls quick again").with(run_on));
            }
            Some(conmon) => found.add_fact(FactKind::ConmonRuns { of, conmon: conmon.into() }),
            None if evidence.node().is_some_and(|host| host.latest().shims == Shims::Detailed) => {
                found.add_fact(FactKind::ConmonGone { of });
                found.add_step(Step::change("remove it").with(remove(id)));
            }
            None => found.add_fact(FactKind::ConmonStoppedOrGone { of }),
        }
    }
    if found.steps.is_empty() {
        let conmon = Command::new("pgrep -af {}").arg(short(&first.target.id));
        found.add_step(
            Step::look("its conmon; if it is in state T, continue it with kill -CONT").with(conmon),
        );
        found.add_step(Step::change("if its conmon is gone, remove it").with(remove(&first.target.id)));
    }
    Some(found)
}

/// Returns the command that removes a container whose exit was lost. CRI-O waits for the exit here too, and crictl gives up
/// after 2 s by default.
fn remove(id: &str) -> Command {
    Command::limited(60, "crictl --timeout {}s rm {}").arg(short(id))
}

/// Returns the slow `PodSandboxStatus` calls of these containers' pods. If pod events are on, CRI-O fetches the status of
/// each container for such a call.
pub fn slow_pods_of<'a>(evidence: &'a Evidence, lost: &[&StatusRecord]) -> Vec<&'a StatusRecord> {
    let pods: BTreeSet<&str> =
        lost.iter().filter_map(|record| evidence.names.sandbox_of(&record.target.id)).collect();
    let slow = |record: &&StatusRecord| {
        record.rpc == Rpc::PodSandboxStatus
            && record.duration >= limits::LOST_EXIT_WAIT
            && record.result.is_ok()
            && pods.contains(record.target.id.as_str())
    };
    evidence.runtime.status_calls.iter().filter(slow).collect()
}

/// Returns whether a call was answered quickly.
pub(super) fn quick<T>(call: Option<&Call<T>>) -> bool {
    call.is_some_and(|call| call.result.is_ok() && call.duration < limits::LIST_SLOW)
}
