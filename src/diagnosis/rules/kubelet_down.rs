//! D32: the kubelet does not run or does not answer.

use super::prelude::*;
use crate::diagnosis::evidence::container_parts::is_frozen_by;
use crate::diagnosis::facts::Refusal;
use crate::diagnosis::kubelet::KubeletExit;
use crate::kubelet::{doubt, kubelet_of};
use crate::manifests::preflight::{StartCheck, refusal};

/// Applies D32. It reports no missing kubelet on a machine without an installed kubelet, or in a pod that sees only its own
/// processes.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let kubelet = &evidence.kubelet;
    if let Some(stopped) = stopped_kubelet(case) {
        return Some(stopped);
    }
    if let Some(restarting) = restarting_kubelet(case) {
        return Some(restarting);
    }
    // A known id in a cgroup shows that the process table belongs to this runtime. Only the daemon shows that it has the
    // processes of the whole node.
    let runtime_runs = evidence.daemon().is_some();
    let (severity, confidence, title, fact) = match &kubelet.healthz {
        Some(Healthz::Failing { status, text }) => (
            Severity::Warning,
            Confidence::Certain,
            FactKind::KubeletSaysUnhealthy,
            FactKind::HealthzAnswers { status: *status, text: text.trim().into() },
        ),
        Some(Healthz::Silent(waited)) => (
            Severity::Warning,
            Confidence::Likely,
            FactKind::HealthzIsSilent,
            FactKind::NoAnswerWithin { waited: (*waited).into() },
        ),
        // If a list hangs for plegctl too, D02 reports the cause.
        healthz if kubelet.metrics_silent.is_some() && evidence.runtime.lists_are_known() => (
            Severity::Warning,
            Confidence::Likely,
            FactKind::MetricsAreSilent,
            if *healthz == Some(Healthz::Ok) {
                FactKind::KubeletWaitsForListOrLock
            } else {
                FactKind::KubeletMayWaitForList
            },
        ),
        Some(Healthz::Ok) => return None,
        None | Some(Healthz::Refused) if kubelet.pid.is_some() || !runtime_runs => return None,
        // A process has the kubelet's name, but nothing shows that it is the kubelet.
        None | Some(Healthz::Refused) if evidence.node().is_some_and(|host| doubt(&host.first).is_some()) => {
            return None;
        }
        None | Some(Healthz::Refused) if last_exit(case).is_some() => {
            return last_exit(case).map(|exit| exited(case, &exit, false));
        }
        None | Some(Healthz::Refused) => {
            let has_pods = !evidence.runtime.pod_uids().is_empty();
            let (severity, confidence) = match (kubelet.installed, has_pods) {
                (true, true) => (Severity::Critical, Confidence::Likely),
                (true, false) => (Severity::Warning, Confidence::Likely),
                (false, _) => (Severity::Info, Confidence::Possible),
            };
            (severity, confidence, FactKind::NoKubeletRuns, FactKind::OnlyRuntimeRuns)
        }
    };
    let mut found = finding(RuleId::KubeletDown, severity, confidence, title);
    found.add_fact(fact);
    if severity == Severity::Critical {
        found.add_fact(FactKind::KubeletShouldRun { pods: evidence.runtime.pod_uids().len() });
    }
    if let Some(error) = kubelet.start_error.as_ref().filter(|_| kubelet.pid.is_none()) {
        found.set_title(FactKind::KubeletWouldNotStart { fault: (&error.title).into() });
        found.add_fact(FactKind::PreflightFinds {
            check: (&error.id).into(),
            message: (&error.message).into(),
        });
        let file = error.file.as_ref();
        found.add_facts(file.map(|file| FactKind::SeeFile { path: file.into(), line: error.line }));
        found.steps.extend(error.fix.clone().map(Step::look));
        found.steps.extend(steps_of("allFaults", &[]));
    } else {
        found.add_fact(FactKind::RuntimeIsNotAtFault);
    }
    found.steps.extend(evidence.steps("kubeletDown", &[]));
    if kubelet.pid.is_none() {
        found.steps.extend(evidence.steps("restartKubelet", &[]));
    }
    Some(found)
}

/// Returns why the last kubelet in the journal exited.
fn last_exit<'a>(case: &Case<'a>) -> Option<KubeletExit<'a>> {
    case.evidence.journal.as_ref()?.kubelet_runs.last_exit()
}

/// Returns D32 with the kubelet's last message.
fn exited(case: &Case<'_>, exit: &KubeletExit<'_>, is_restarted: bool) -> HealthFinding {
    let message = Refusal::from(exit.reason);
    let title = FactKind::KubeletExits { is_restarted, message: message.clone() };
    let mut found = finding(RuleId::KubeletDown, Severity::Critical, Confidence::Certain, title);
    found.add_fact(FactKind::LastMessage { message });
    if exit.count > 1 {
        found.add_fact(FactKind::EndedInARow { processes: exit.count });
    }
    let check = refusal(exit.reason).and_then(|refusal| refusal.check);
    let is_about_the_runtime =
        matches!(check, Some(StartCheck::CriNotServed | StartCheck::RuntimeSocketMissing));
    found.add_fact(if is_about_the_runtime && case.evidence.runtime.is_reached() {
        FactKind::KubeletMayStartNow
    } else if is_about_the_runtime {
        FactKind::StartWithTheRuntime
    } else {
        FactKind::RuntimeIsNotAtFault
    });
    let explain = |check: StartCheck| steps_of("explain", &[("check", Place::word(check))]);
    found.steps = check.map(explain).unwrap_or_default();
    found.steps.extend(steps_of("otherFaults", &[]));
    found
}

/// Applies D32 to a kubelet that was started again a moment ago: the processes before it exited at their start, and nothing
/// shows that the new process works.
fn restarting_kubelet(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    let exit = last_exit(case)?;
    let is_young = kubelet.age.is_some_and(|age| age < limits::STARTING);
    let has_started = case.evidence.journal.as_ref()?.kubelet_runs.has_started(kubelet.pid?);
    let answers = matches!(kubelet.healthz, Some(Healthz::Ok | Healthz::Failing { .. }));
    (is_young && exit.count > 1 && !has_started && !answers).then(|| exited(case, &exit, true))
}

/// Applies D32 to a kubelet process that does not run: a signal stopped it, or its cgroup is frozen.
fn stopped_kubelet(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let process = kubelet_of(sample)?;
    let frozen = sample.frozen.iter().find(|freeze| is_frozen_by(process, freeze));
    let (title, step) = match frozen {
        _ if process.is_stopped() => (
            FactKind::KubeletIsStopped { process: process.into(), state: process.state },
            advice::continue_process(process.pid),
        ),
        Some(freeze) => (
            FactKind::KubeletIsFrozen { process: process.into(), cgroup: (&freeze.path).into() },
            Step::change("find out who froze it; to thaw it").with(freeze.thaw()),
        ),
        None => return None,
    };
    let mut found = finding(RuleId::KubeletDown, Severity::Critical, Confidence::Certain, title);
    if let Some(Healthz::Silent(waited)) = &case.evidence.kubelet.healthz {
        found.add_fact(FactKind::ItsHealthzIsSilent { waited: (*waited).into() });
    }
    found.add_fact(FactKind::NothingRelists);
    found.add_step(step);
    Some(found)
}
