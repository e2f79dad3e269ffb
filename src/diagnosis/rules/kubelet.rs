//! D22, D23, D32: the kubelet itself. Also compares the kubelet's metrics with plegctl's measurements.

use std::time::Duration;

use super::{Case, finding, state};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::evidence::container_parts::is_frozen_by;
use crate::diagnosis::facts::{FactKind, Refusal};
use crate::diagnosis::kubelet::{Healthz, KubeletEvidence, KubeletExit};
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::kubelet::{doubt, kubelet_of};
use crate::manifests::preflight::{StartCheck, refusal};
use crate::report::{Command, Step};

impl Evidence {
    /// Returns whether the kubelet uses Evented PLEG as it was up to 1.36: it relists only every 300 s, and its last-seen
    /// metric does not show the last relist.
    pub fn relists_seldom(&self) -> bool {
        self.kubelet.evented() == Some(true) && !self.settings.kubelet.value.evented_is_a_hint()
    }

    /// Returns whether the age of PLEG in the kubelet's metrics is over the threshold.
    pub fn kubelet_is_over(&self) -> bool {
        self.kubelet_age().is_some_and(|age| age > self.settings.threshold.value)
    }

    /// Returns the age of PLEG in the kubelet's metrics, if they show it.
    pub fn kubelet_age(&self) -> Option<Duration> {
        // In a capture, the reading may be older than the judged moment, and the kubelet may have relisted since.
        let reading_age = self.moment.and_then(|moment| self.kubelet.reading_age(moment.time));
        let is_recent = reading_age.is_none_or(|age| age <= limits::RECORDED_READING.as_secs_f64());
        let age = self.kubelet.pleg_age().filter(|_| is_recent && !self.relists_seldom())?;
        // An age that no duration holds is over every threshold.
        Some(Duration::try_from_secs_f64(age).unwrap_or(Duration::MAX))
    }
}

/// Returns whether the runtime answers all calls quickly now, so that it does not explain an old relist.
fn runtime_answers_well(case: &Case<'_>) -> bool {
    let runtime = &case.evidence.runtime;
    state::quick(runtime.sandboxes.first.as_ref())
        && state::quick(runtime.containers.first.as_ref())
        && !case.hangs()
        && case.estimate.full_answering < limits::RELIST_SLOW
}

/// Applies D22. If the age is over the threshold, one reading of the kubelet's metrics is enough. Below the threshold, the
/// age must grow between two readings while the runtime answers well.
pub(super) fn stale(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    let threshold = case.evidence.settings.threshold.value;
    let (Some(age), false) = (kubelet.pleg_age(), case.evidence.relists_seldom()) else {
        return None;
    };
    let over = case.evidence.kubelet_is_over();
    let grown = growth(kubelet);
    let does_not_relist = grown.is_some_and(|(before, apart)| {
        apart >= limits::METRICS_APART.as_secs_f64() && age - before >= apart - 1.0
    });
    let well = runtime_answers_well(case);
    let stuck = age > limits::PLEG_AGE_STALE.as_secs_f64() && does_not_relist && well;
    if !(over || stuck) {
        return None;
    }
    let (confidence, title) = if over {
        let (age, threshold) = (age.into(), threshold.into());
        (Confidence::Certain, FactKind::RelistIsOverThreshold { age, threshold })
    } else {
        (Confidence::Likely, FactKind::NoNewRelistSucceeds { age: age.into() })
    };
    let mut found = finding(RuleId::StaleKubelet, Severity::Critical, confidence, title);
    if let Some((before, apart)) = grown {
        let (before, after) = (before.into(), age.into());
        found.add_fact(FactKind::RelistAges { before, apart_seconds: apart.into(), after });
    }
    if grown.is_some_and(|(before, _)| age < before) {
        found.add_fact(FactKind::KubeletRelistsAgain);
    }
    let old =
        kubelet.reading_age(case.evidence.taken_at).filter(|old| *old >= limits::READING_OLD.as_secs_f64());
    found.add_facts(old.map(|old| FactKind::MetricsAreOld { age: old.into() }));
    let still_grows = grown.is_some_and(|(before, _)| age > before);
    found.add_fact(match (well, still_grows) {
        (true, true) => FactKind::CauseIsInKubelet,
        (true, false) => FactKind::CauseIsInKubeletOrOver,
        (false, _) => FactKind::RuntimeDoesNotAnswerWell,
    });
    if let (Some(first), Some(second)) = (&kubelet.first, &kubelet.second)
        && let (Some(before), Some(after)) = (first.metrics.discarded, second.metrics.discarded)
        && after > before
    {
        found.add_fact(FactKind::EventsWereDiscarded { events: (after - before).into() });
    }
    let blocked = case.blocked().into_iter().filter(|(process, _)| Some(process.pid) == kubelet.pid);
    found.add_facts(blocked.take(3).map(|(process, task)| FactKind::TaskWaitsIn {
        process: process.into(),
        task: task.tid,
        function: (&task.wchan).into(),
    }));
    let show = Command::new("plegctl stacks kubelet.txt");
    found.add_step(Step::look("who waits for whom in the kubelet (saved above)").with(show));
    found.add_step(restart_kubelet(case.evidence, "then restart the kubelet"));
    Some(found)
}

/// Returns the age at the first of two readings, and the seconds between them.
fn growth(kubelet: &KubeletEvidence) -> Option<(f64, f64)> {
    let (first, second) = (kubelet.first.as_ref()?, kubelet.second.as_ref()?);
    Some((first.pleg_age()?, second.at.seconds_since(first.at)))
}

/// Describes contradictions between the kubelet's answers and plegctl's measurements.
pub(crate) fn disagreements(case: &Case<'_>) -> Vec<FactKind> {
    let evidence = case.evidence;
    let kubelet = &evidence.kubelet;
    let mut facts = Vec::new();
    let well = runtime_answers_well(case);
    if let Some(age) = kubelet.pleg_age().filter(|_| !evidence.relists_seldom()) {
        if well && age > limits::PLEG_AGE_STALE.as_secs_f64() {
            facts.push(FactKind::OwnRelistIsQuick { age: age.into(), own: case.estimate.serial.into() });
        }
        if case.estimate.would_trip && age < limits::PLEG_AGE_YOUNG.as_secs_f64() {
            facts.push(FactKind::KubeletRelistedMeanwhile { age: age.into() });
        }
        if evidence.kubelet_is_over() && kubelet.healthz == Some(Healthz::Ok) {
            facts.push(FactKind::HealthzDoesNotCheckPleg);
        }
    }
    if well && let Some(Healthz::Failing { status, .. }) = &kubelet.healthz {
        facts.push(FactKind::HealthzFailsAlone { status: *status });
    }
    if kubelet.metrics_silent.is_some() && kubelet.healthz == Some(Healthz::Ok) {
        let lists_hang = !evidence.runtime.hung_lists().is_empty();
        facts.push(FactKind::MetricsSilentThoughHealthy { lists_hang });
    }
    if let Some(used) = &kubelet.config.endpoint {
        let plain = |endpoint: &str| endpoint.trim_start_matches("unix://").to_owned();
        if plain(&used.value) != plain(&evidence.endpoint) && evidence.socket.is_some() {
            let (kubelet, plegctl) = ((&used.value).into(), (&evidence.endpoint).into());
            facts.push(FactKind::EndpointsDiffer { kubelet, plegctl });
        }
    }
    facts
}

/// Applies D23, which reports a fact, not a cause.
pub(super) fn evented(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    if kubelet.evented() != Some(true) {
        return None;
    }
    let mut found =
        finding(RuleId::EventedPleg, Severity::Info, Confidence::Certain, FactKind::KubeletUsesEventedPleg);
    let seldom = case.evidence.relists_seldom();
    found.add_fact(if seldom { FactKind::EventedRelistsSeldom } else { FactKind::EventedIsAHint });
    let verbosity = kubelet.config.verbosity.filter(|verbosity| seldom && *verbosity < 4);
    found.add_facts(verbosity.map(|verbosity| FactKind::FallbackIsNotLogged { verbosity }));
    let errors = kubelet.latest().and_then(|reading| reading.metrics.evented_errors);
    let errors = errors.filter(|errors| *errors > 0.0);
    found.add_facts(errors.map(|errors| FactKind::EventStreamBroke { times: errors.into() }));
    Some(found)
}

/// Applies D32. It reports no missing kubelet on a machine without an installed kubelet, or in a pod that sees only its own
/// processes.
pub(super) fn absent(case: &Case<'_>) -> Option<HealthFinding> {
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
        found.add_step(preflight("all faults, with the kubelet's words"));
    } else {
        found.add_fact(FactKind::RuntimeIsNotAtFault);
    }
    found.add_step(if evidence.has_systemd() {
        let show =
            "systemctl --no-pager status kubelet; journalctl --no-pager -u kubelet -S -15min | tail -50";
        Step::look("why it ended").with(Command::new(show))
    } else {
        Step::look("see the kubelet's log: why did it end, and what should start it?")
    });
    if kubelet.pid.is_none() {
        found.add_step(restart_kubelet(evidence, "restart the kubelet"));
    }
    Some(found)
}

/// Returns the step that restarts the kubelet.
pub(super) fn restart_kubelet(evidence: &Evidence, purpose: &str) -> Step {
    let step = Step::change(purpose);
    if evidence.has_systemd() { step.with(Command::new("systemctl restart kubelet")) } else { step }
}

fn preflight(purpose: &str) -> Step {
    Step::look(purpose).with(Command::new("plegctl preflight"))
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
    let explain = |check: StartCheck| Command::new("plegctl explain {}").arg(check);
    found.steps.extend(check.map(|check| Step::look("what this means").with(explain(check))));
    found.add_step(preflight("all faults; the kubelet names only its first"));
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
