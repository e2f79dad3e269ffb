//! D06, D07, D29: the runtime cannot be reached, is silent, or answers its lists with errors.

use super::{Case, cri_missing, finding};
use crate::cri::{Error, FileKind, Rpc};
use crate::diagnosis::advice;
use crate::diagnosis::daemon_watch::{DaemonWatch, Stop};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::facts::{Address, DescriptorUse, FactKind, ProcessRef, Quoted};
use crate::diagnosis::proc::{Ownership, Process};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use crate::report::{Command, Step};

/// Applies D06. The finding says that plegctl cannot reach the endpoint, not that the runtime is down: the kubelet may use
/// another endpoint, or plegctl may lack the permission.
pub(super) fn unreachable(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    if evidence.runtime.version_answer().is_some() {
        return None;
    }
    let error = evidence.runtime.version.as_ref().and_then(|call| call.result.as_ref().err());
    let is_late = |error: &&Error| matches!(error, Error::Silent { .. } | Error::Unfinished { .. });
    let error = error.filter(|error| !is_late(error))?;
    let title = match error {
        Error::NoSuchSocket { .. } => FactKind::NoSuchSocket,
        Error::NotASocket { kind: FileKind::Directory, .. } => FactKind::EndpointIsDirectory,
        Error::NotASocket { .. } => FactKind::EndpointIsFile,
        Error::PermissionDenied { .. } => FactKind::SocketPermissionDenied,
        Error::Refused { .. } => FactKind::NothingListens,
        Error::WrongProtocol { .. } => FactKind::NoGrpc,
        Error::Unimplemented { .. } => FactKind::NoCriV1,
        Error::ClosedMidCall { .. } => FactKind::ConnectionClosed,
        Error::Unreachable { .. } => FactKind::RuntimeUnreachable,
        Error::Silent { .. }
        | Error::Unfinished { .. }
        | Error::TooLarge { .. }
        | Error::Decode { .. }
        | Error::Implausible { .. }
        | Error::Internal { .. }
        | Error::Unanswerable { .. }
        | Error::Runtime { .. } => FactKind::VersionFails,
    };
    let mut found = finding(RuleId::UnreachableRuntime, Severity::Critical, Confidence::Certain, title);
    found.rpc = Some("Version".to_owned());
    found.add_fact(FactKind::CallFailed { error: error.into() });
    let used = evidence.kubelet.config.endpoint.as_ref();
    if let Some(used) = used {
        let same =
            used.value.trim_start_matches("unix://") == evidence.endpoint.trim_start_matches("unix://");
        let source = Quoted::from(&used.source);
        found.add_fact(if same {
            FactKind::KubeletUsesThisEndpoint { source }
        } else {
            FactKind::KubeletUsesAnotherEndpoint { endpoint: Address::from(&used.value), source }
        });
    }
    let others = evidence.other_sockets.iter();
    found.add_facts(others.map(|socket| FactKind::OtherSocket { endpoint: Address::from(socket) }));
    // A socket without a listener has better steps, below.
    found.steps.extend(error.hint().filter(|_| !matches!(error, Error::Refused { .. })).map(Step::look));
    let shows_units = cri_missing::explain(case, error, &mut found);
    if matches!(error, Error::Refused { .. } | Error::NoSuchSocket { .. } | Error::ClosedMidCall { .. }) {
        let units = evidence.runtime_units();
        if !shows_units {
            found.add_step(evidence.show_units(units));
        }
        let start = |unit: &str| Command::new("systemctl start {}").arg(unit);
        found.add_step(match units {
            _ if !evidence.has_systemd() => Step::change("then start the runtime"),
            [only] => Step::change("then start the runtime").with(start(only)),
            [first, others @ ..] => {
                let others = others.join(" or ");
                Step::change(format!("then start the runtime ({first}, or {others})")).with(start(first))
            }
            [] => Step::change("then start the runtime"),
        });
    }
    Some(found)
}

/// Applies D07. The finding says that the runtime does not answer, not that it crashed.
pub(super) fn silent(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let Some((first, second)) = runtime.both_versions_silent() else { return stopped(case) };
    let mut confidence = runtime.silence.confidence(first.min(second));
    let mut title = FactKind::RuntimeDoesNotAnswer;
    let mut facts = Vec::new();
    let mut steps = Vec::new();
    if let Some(host) = case.evidence.node()
        && let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership
        && let Some(daemon) = host.latest().processes.get(&pid)
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
            steps.push(advice::continue_process(pid));
        }
        if let Some((full, more)) = without_descriptor(case.evidence, daemon).filter(|_| !daemon.is_stopped())
        {
            // The daemon cannot accept a connection without a free descriptor.
            title = FactKind::RuntimeAcceptsNothing { full };
            steps.extend(more);
        }
        if let Some((apart, later)) = &host.second
            && let (Some(before), Some(after)) = (host.first.processes.get(&pid), later.processes.get(&pid))
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
        steps = vec![Step::look(FIND_STOPPER)];
    }
    if steps.is_empty() {
        steps.push(advice::node_pressure("look at storage, memory and CPU of the node"));
        steps.push(case.evidence.restart_runtime());
    }
    found.steps = steps;
    Some(found)
}

/// Returns how many descriptors the daemon has, and what to do, if it has no free one.
pub(super) fn without_descriptor(
    evidence: &Evidence,
    daemon: &Process,
) -> Option<(DescriptorUse, Vec<Step>)> {
    let (pid, open, limit) = (daemon.pid, daemon.descriptors?, daemon.descriptor_limit?);
    if open < limit {
        return None;
    }
    // A limit may be set below the number that is open.
    let more = open.saturating_mul(2);
    let hard = daemon.descriptor_hard_limit.filter(|hard| *hard < more).map(|_| more.to_string());
    let list = "ls -l /proc/{}/fd | awk '{print $NF}' | tr -d 0-9 | sort | uniq -c | sort -rn | head";
    let limits = format!("{more}:{}", hard.unwrap_or_default());
    let raise = Command::new("prlimit --pid {} --nofile={}").pid(pid).arg(limits);
    let steps = vec![
        Step::look("what it has most of").with(Command::new(list).pid(pid)),
        Step::change("let it answer until the cause is found").with(raise),
        evidence.restart_runtime(),
    ];
    Some((DescriptorUse { process: daemon.into(), open, limit }, steps))
}

/// The step that finds out why a daemon was stopped.
const FIND_STOPPER: &str =
    "find out who stops it: a debugger, a checkpoint, a snapshot tool; the kernel does not record it";

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
        found.add_step(Step::look(FIND_STOPPER));
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

/// Applies D29. The kubelet gets the same error; it is not a hang.
pub(super) fn list_fails(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let fails = |error: &&Error| {
        !matches!(error, Error::Silent { .. } | Error::TooLarge { .. }) && !error.is_unread()
    };
    let error = runtime.errors_of_lists().find(fails)?;
    let is_of_sandboxes = runtime.sandboxes.error() == Some(error);
    let rpc = if is_of_sandboxes { Rpc::ListPodSandbox } else { Rpc::ListContainers };
    let title = FactKind::ListFails { rpc, code: error.code() };
    let mut found = finding(RuleId::FailingList, Severity::Critical, Confidence::Certain, title);
    found.rpc = Some(rpc.name().to_owned());
    found.add_fact(FactKind::CallFailed { error: error.into() });
    found.add_fact(FactKind::RelistTimeDoesNotAdvance);
    found.add_step(case.evidence.show_journal());
    Some(found)
}
