//! D22, D23, D32: the kubelet itself. Also compares the kubelet's metrics with plegctl's measurements.

use std::time::Duration;

use super::{Case, finding, state};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::evidence::container_parts::is_frozen_by;
use crate::diagnosis::kubelet::{Healthz, KubeletEvidence, KubeletExit};
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::words::seconds;
use crate::kubelet::{doubt, kubelet_of};
use crate::manifests::preflight::{StartCheck, refusal};
use crate::report::{Command, Step, plural};

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
    let age_words = age_text(age);
    let (confidence, title) = if over {
        (
            Confidence::Certain,
            format!(
                "the kubelet's last relist is {age_words} old, over its threshold of {}",
                seconds(threshold)
            ),
        )
    } else {
        (Confidence::Likely, format!("the kubelet's last relist is {age_words} old, and no new one succeeds"))
    };
    let mut found = finding(RuleId::D22, Severity::Critical, confidence, title);
    if let Some((before, apart)) = grown {
        found.add_evidence(format!(
            "its last relist was {before:.0} s old, and {apart:.0} s later {age:.0} s"
        ));
        if age < before {
            found.add_evidence("the age falls: the kubelet relists again");
        }
    }
    let old =
        kubelet.reading_age(case.evidence.taken_at).filter(|old| *old >= limits::READING_OLD.as_secs_f64());
    found.evidence.extend(old.map(|old| format!("according to metrics that are {} old", age_text(old))));
    let still_grows = grown.is_some_and(|(before, _)| age > before);
    found.add_evidence(if well && still_grows {
        "the runtime answers, and the age still grows: the cause is in the kubelet"
    } else if well {
        "the runtime answers now: the cause is in the kubelet, or the problem is over"
    } else {
        "the runtime does not answer well either: start with the runtime"
    });
    if let (Some(first), Some(second)) = (&kubelet.first, &kubelet.second)
        && let (Some(before), Some(after)) = (first.metrics.discarded, second.metrics.discarded)
        && after > before
    {
        found.add_evidence(format!(
            "the kubelet discarded {:.0} events between the readings: its event channel is full",
            after - before
        ));
    }
    let blocked = case.blocked().into_iter().filter(|(process, _)| Some(process.pid) == kubelet.pid);
    found.evidence.extend(blocked.take(3).map(|(process, task)| {
        format!("{}, task {} waits uninterruptibly in {}", process.label(), task.tid, task.wchan)
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

/// Formats an age in seconds.
fn age_text(age: f64) -> String {
    std::time::Duration::try_from_secs_f64(age).map_or_else(|_| format!("{age:.0} s"), seconds)
}

/// Describes contradictions between the kubelet's answers and plegctl's measurements.
pub fn disagreements(case: &Case<'_>) -> Vec<String> {
    let evidence = case.evidence;
    let kubelet = &evidence.kubelet;
    let mut lines = Vec::new();
    let well = runtime_answers_well(case);
    if let Some(age) = kubelet.pleg_age().filter(|_| !evidence.relists_seldom()) {
        let age_words = age_text(age);
        if well && age > limits::PLEG_AGE_STALE.as_secs_f64() {
            lines.push(format!(
                "the kubelet's last relist is {age_words} old; plegctl's own relist takes {}",
                seconds(case.estimate.serial)
            ));
        }
        if case.estimate.would_trip && age < limits::PLEG_AGE_YOUNG.as_secs_f64() {
            lines.push(format!(
                "the kubelet relisted {age_words} ago, although a call of plegctl is not answered"
            ));
        }
        if evidence.kubelet_is_over() && kubelet.healthz == Some(Healthz::Ok) {
            lines.push("its /healthz says ok, but /healthz does not check PLEG".to_owned());
        }
    }
    if well && let Some(Healthz::Failing { status, .. }) = &kubelet.healthz {
        lines.push(format!("its /healthz answers {status}; the runtime answers"));
    }
    if kubelet.metrics_silent.is_some() && kubelet.healthz == Some(Healthz::Ok) {
        lines.push(if evidence.runtime.hung_lists().is_empty() {
            "its /healthz says ok and its /metrics is silent; plegctl's list calls are answered".to_owned()
        } else {
            "its /healthz says ok and its /metrics is silent: it waits for a list call itself".to_owned()
        });
    }
    if let Some(used) = &kubelet.config.endpoint {
        let plain = |endpoint: &str| endpoint.trim_start_matches("unix://").to_owned();
        if plain(&used.value) != plain(&evidence.endpoint) && evidence.socket.is_some() {
            lines.push(format!(
                "the kubelet uses the runtime at {}, but plegctl called the runtime at {}",
                used.value, evidence.endpoint
            ));
        }
    }
    lines
}

/// Applies D23, which reports a fact, not a cause.
pub(super) fn evented(case: &Case<'_>) -> Option<HealthFinding> {
    let kubelet = &case.evidence.kubelet;
    if kubelet.evented() != Some(true) {
        return None;
    }
    let mut found =
        finding(RuleId::D23, Severity::Info, Confidence::Certain, "this kubelet uses Evented PLEG");
    let effect = if case.evidence.relists_seldom() {
        "it relists every 300 s and is unhealthy after 10 min; its last-seen metric proves nothing"
    } else {
        "from 1.37 on, EventedPLEG is only a hint: the kubelet relists every second and is unhealthy after 3 min as \
         without it, a CONTAINER_STOPPED event relists one pod, and after five failures the stream is off until the \
         kubelet restarts (according to its code)"
    };
    found.add_evidence(effect);
    let seldom = case.evidence.relists_seldom();
    if let Some(verbosity) = kubelet.config.verbosity.filter(|verbosity| seldom && *verbosity < 4) {
        found.add_evidence(format!(
            "it logs a fallback to relisting only from verbosity 4 on; it runs with {verbosity}"
        ));
    }
    let errors = kubelet.latest().and_then(|reading| reading.metrics.evented_errors);
    found.evidence.extend(
        errors
            .filter(|errors| *errors > 0.0)
            .map(|errors| format!("its event stream broke {errors:.0} times")),
    );
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
    let (severity, confidence, title, line) = match &kubelet.healthz {
        Some(Healthz::Failing { status, text }) => (
            Severity::Warning,
            Confidence::Certain,
            "the kubelet says that it is not healthy".to_owned(),
            format!("/healthz answers {status}: {}", text.trim()),
        ),
        Some(Healthz::Silent(waited)) => (
            Severity::Warning,
            Confidence::Likely,
            "the kubelet does not answer /healthz".to_owned(),
            format!("no answer within {}", seconds(*waited)),
        ),
        // If a list hangs for plegctl too, D02 reports the cause.
        healthz if kubelet.metrics_silent.is_some() && evidence.runtime.lists_are_known() => (
            Severity::Warning,
            Confidence::Likely,
            "the kubelet does not answer /metrics".to_owned(),
            if *healthz == Some(Healthz::Ok) {
                "its /healthz says ok: the kubelet waits for a list call, or for its own lock".to_owned()
            } else {
                "it may wait for a list call, but plegctl's list calls are answered".to_owned()
            },
        ),
        Some(Healthz::Ok) => return None,
        None | Some(Healthz::Refused) if kubelet.pid.is_some() || !runtime_runs => return None,
        // A process has the kubelet's name, but nothing shows that it is the kubelet.
        None | Some(Healthz::Refused) if evidence.node().is_some_and(|host| doubt(&host.first).is_some()) => {
            return None;
        }
        None | Some(Healthz::Refused) if last_exit(case).is_some() => {
            return last_exit(case).map(|exit| exited(case, &exit, "no kubelet runs on this node"));
        }
        None | Some(Healthz::Refused) => {
            let has_pods = !evidence.runtime.pod_uids().is_empty();
            let (severity, confidence) = match (kubelet.installed, has_pods) {
                (true, true) => (Severity::Critical, Confidence::Likely),
                (true, false) => (Severity::Warning, Confidence::Likely),
                (false, _) => (Severity::Info, Confidence::Possible),
            };
            (
                severity,
                confidence,
                "no kubelet runs on this node".to_owned(),
                "the process table has the runtime and no kubelet".to_owned(),
            )
        }
    };
    let mut found = finding(RuleId::D32, severity, confidence, title);
    found.add_evidence(line);
    if severity == Severity::Critical {
        found.add_evidence(format!(
            "a kubelet should run here: its directory exists and the runtime has {}",
            plural(evidence.runtime.pod_uids().len(), "pod")
        ));
    }
    if let Some(error) = kubelet.start_error.as_ref().filter(|_| kubelet.pid.is_none()) {
        found.title = format!("no kubelet runs on this node, and it would not start: {}", error.title);
        found.add_evidence(format!("preflight, {}: {}", error.id, error.message));
        found.evidence.extend(error.file.as_ref().map(|file| match error.line {
            Some(line) => format!("see {file}, line {line}"),
            None => format!("see {file}"),
        }));
        found.steps.extend(error.fix.clone().map(Step::look));
        found.add_step(preflight("all faults, with the kubelet's words"));
    } else {
        found.add_evidence("the runtime is not at fault for this");
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
fn exited(case: &Case<'_>, exit: &KubeletExit<'_>, what: &str) -> HealthFinding {
    let refusal = refusal(exit.reason);
    let why = refusal.as_ref().map_or("it exits at its start", |refusal| refusal.meaning);
    let mut found = finding(RuleId::D32, Severity::Critical, Confidence::Certain, format!("{what}: {why}"));
    found.add_evidence(format!("its last message: {}", exit.reason));
    if exit.count > 1 {
        found.add_evidence(format!("{} processes in a row ended so within the last 15 minutes", exit.count));
    }
    let check = refusal.and_then(|refusal| refusal.check);
    let is_about_the_runtime =
        matches!(check, Some(StartCheck::CriNotServed | StartCheck::RuntimeSocketMissing));
    found.add_evidence(if is_about_the_runtime && case.evidence.runtime.is_reached() {
        "the runtime answers now: the kubelet may start at its next attempt"
    } else if is_about_the_runtime {
        "start with the runtime"
    } else {
        "the runtime is not at fault for this"
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
    (is_young && exit.count > 1 && !has_started && !answers)
        .then(|| exited(case, &exit, "the kubelet keeps exiting"))
}

/// Applies D32 to a kubelet process that does not run: a signal stopped it, or its cgroup is frozen.
fn stopped_kubelet(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let process = kubelet_of(sample)?;
    let frozen = sample.frozen.iter().find(|freeze| is_frozen_by(process, freeze));
    let (title, step) = match frozen {
        _ if process.is_stopped() => (
            format!("the kubelet is stopped: {} is in state {}", process.label(), process.state),
            advice::continue_process(process.pid),
        ),
        Some(freeze) => (
            format!("the kubelet is frozen: {} is in {}", process.label(), freeze.path),
            Step::change("find out who froze it; to thaw it").with(freeze.thaw()),
        ),
        None => return None,
    };
    let mut found = finding(RuleId::D32, Severity::Critical, Confidence::Certain, title);
    if let Some(Healthz::Silent(waited)) = &case.evidence.kubelet.healthz {
        found.add_evidence(format!("its /healthz did not answer within {}", seconds(*waited)));
    }
    found.add_evidence("while the kubelet is stopped, nothing relists; this is not the runtime's fault");
    found.add_step(step);
    Some(found)
}
