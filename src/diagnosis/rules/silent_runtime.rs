//! D07: the daemon does not answer at all.

use super::prelude::*;
use super::unreachable_runtime::without_descriptor;
use crate::diagnosis::daemon_watch::{DaemonWatch, Stop};

/// Applies D07. The finding says that the runtime does not answer, not that it crashed.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let Some((first, second)) = runtime.both_versions_silent() else { return stopped(case) };
    let mut confidence = runtime.silence.confidence(first.min(second));
    let mut title = FactKind::RuntimeDoesNotAnswer;
    let mut facts = Vec::new();
    let mut steps = Vec::new();
    if let Some(host) = case.evidence.node()
        && let Some(daemon) = case.evidence.daemon()
    {
        let (process, state) = (ProcessRef::from(daemon), daemon.state);
        if daemon.is_stopped() {
            confidence = Confidence::Certain;
            title = FactKind::RuntimeStopped { process: process.clone(), state };
        }
        facts.push(FactKind::DaemonState {
            process,
            state,
            threads: daemon.threads,
            resident_mebibytes: daemon.resident / (1024 * 1024),
            // A capture of an older release has no ages.
            up: (!daemon.age.is_zero()).then(|| daemon.age.into()),
        });
        if daemon.is_stopped() {
            facts.push(FactKind::StoppedBySomebody);
            steps.push(advice::continue_process(daemon.pid));
        }
        if let Some((full, more)) = without_descriptor(case.evidence, daemon).filter(|_| !daemon.is_stopped())
        {
            // The daemon cannot accept a connection without a free descriptor.
            title = FactKind::RuntimeAcceptsNothing { full };
            steps.extend(more);
        }
        if let Some((apart, later)) = &host.second
            && let (Some(before), Some(after)) =
                (host.first.processes.get(&daemon.pid), later.processes.get(&daemon.pid))
        {
            let used = after.cpu.saturating_sub(before.cpu);
            facts.push(FactKind::CpuUsed { used: used.into(), within: (*apart).into() });
        }
    }
    let mut found = finding(RuleId::SilentRuntime, Severity::Critical, confidence, title);
    found.rpc = Some("Version".to_owned());
    found.add_fact(FactKind::VersionSilentTwice { first: first.into(), second: second.into() });
    found.add_facts(facts);
    if let Some(stop) =
        case.evidence.daemon_watch().and_then(DaemonWatch::worst_stop).filter(|stop| !stop.lasts)
    {
        found.set_title(was_stopped(case, stop));
        found.confidence = Confidence::Certain;
        steps = steps_of("findStopper", &[]);
    }
    if steps.is_empty() {
        steps = steps_of("nodePressure", &[]);
        steps.push(case.evidence.restart_runtime());
    }
    found.steps = steps;
    Some(found)
}

/// Reports a daemon that was stopped for a part of the run, or is stopped since one. A call that waits meanwhile is late for no
/// other reason.
fn stopped(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let stop = evidence.daemon_watch()?.worst_stop()?;
    let daemon = evidence.daemon()?;
    let hangs = stop.lasts && evidence.runtime.silence.hangs(stop.length);
    let (severity, title) = if stop.lasts {
        let severity = if hangs { Severity::Critical } else { Severity::Warning };
        (severity, FactKind::RuntimeStopped { process: daemon.into(), state: stop.letter })
    } else {
        (Severity::Warning, was_stopped(case, stop))
    };
    let mut found = finding(RuleId::SilentRuntime, severity, Confidence::Certain, title);
    if !stop.lasts {
        found.phase = Phase::None;
    }
    let (process, state, length) = (daemon.into(), stop.letter, stop.length.into());
    found.add_fact(FactKind::StoppedInEveryLook { process, state, length });
    if stop.lasts {
        found.add_step(advice::continue_process(daemon.pid));
    } else {
        found.add_fact(FactKind::RunsAgain);
        found.steps = steps_of("findStopper", &[]);
    }
    Some(found)
}

/// Describes a stop that is over: `the runtime was stopped: crio[812] was in state T from 21:05:03 UTC to 21:05:10 UTC`.
fn was_stopped(case: &Case<'_>, stop: &Stop) -> FactKind {
    FactKind::RuntimeWasStopped {
        process: case.evidence.daemon().map(Into::into),
        state: stop.letter,
        from: stop.from,
        to: stop.to,
        began_before: stop.began_before,
        seen_at: case.evidence.taken_at,
    }
}
