//! D06, D07, D29: the runtime cannot be reached, is silent, or answers its lists with errors.

use super::{Case, cri_missing, finding};
use crate::cri::{Error, FileKind};
use crate::diagnosis::advice;
use crate::diagnosis::daemon_watch::{DaemonWatch, Stop};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::proc::{Ownership, Process};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use crate::diagnosis::words::{clock_time, seconds};
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
        Error::NoSuchSocket { .. } => "there is no such socket",
        Error::NotASocket { kind: FileKind::Directory, .. } => "the endpoint is a directory, not a socket",
        Error::NotASocket { .. } => "the endpoint is a file, not a socket",
        Error::PermissionDenied { .. } => "no permission to open the socket",
        Error::Refused { .. } => "nothing listens on the runtime's socket",
        Error::WrongProtocol { .. } => "the process that listens on the socket does not speak gRPC",
        Error::Unimplemented { .. } => "the process that listens there does not serve the CRI v1 API",
        Error::ClosedMidCall { .. } => "the runtime closes the connection",
        Error::Unreachable { .. } => "the runtime cannot be reached",
        Error::Silent { .. }
        | Error::Unfinished { .. }
        | Error::TooLarge { .. }
        | Error::Decode { .. }
        | Error::Implausible { .. }
        | Error::Internal { .. }
        | Error::Unanswerable { .. }
        | Error::Runtime { .. } => "the runtime answers Version with an error",
    };
    let mut found = finding(RuleId::D06, Severity::Critical, Confidence::Certain, title);
    found.rpc = Some("Version".to_owned());
    found.add_evidence(error.to_string());
    let used = evidence.kubelet.config.endpoint.as_ref();
    if let Some(used) = used {
        let same =
            used.value.trim_start_matches("unix://") == evidence.endpoint.trim_start_matches("unix://");
        found.add_evidence(if same {
            format!("the kubelet uses this endpoint ({})", used.source)
        } else {
            format!("the kubelet uses another endpoint, {} ({})", used.value, used.source)
        });
    }
    let others = evidence.other_sockets.iter();
    found.evidence.extend(others.map(|socket| format!("there is also {socket}")));
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
    let mut title = "the runtime accepts connections and does not answer".to_owned();
    let mut facts = Vec::new();
    let mut steps = Vec::new();
    if let Some(host) = case.evidence.node()
        && let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership
        && let Some(daemon) = host.latest().processes.get(&pid)
    {
        if daemon.is_stopped() {
            confidence = Confidence::Certain;
            title = format!("the runtime is stopped: {} is in state {}", daemon.label(), daemon.state);
        }
        // A capture of an older release has no ages.
        let up = if daemon.age.is_zero() { String::new() } else { format!(", up {}", seconds(daemon.age)) };
        facts.push(format!(
            "{}: state {}, {} threads, {} MiB resident{up}",
            daemon.label(),
            daemon.state,
            daemon.threads,
            daemon.resident / (1024 * 1024),
        ));
        if daemon.is_stopped() {
            facts.push("somebody stopped it with a signal or a debugger".to_owned());
            steps.push(advice::continue_process(pid));
        }
        if let Some((full, more)) = without_descriptor(case.evidence, daemon).filter(|_| !daemon.is_stopped())
        {
            // The daemon cannot accept a connection without a free descriptor.
            title = format!("the runtime accepts no connection: {full}");
            steps.extend(more);
        }
        if let Some((apart, later)) = &host.second
            && let (Some(before), Some(after)) = (host.first.processes.get(&pid), later.processes.get(&pid))
        {
            let used = after.cpu.saturating_sub(before.cpu);
            facts.push(format!("it used {} of CPU time in {}", seconds(used), seconds(*apart)));
        }
    }
    let mut found = finding(RuleId::D07, Severity::Critical, confidence, title);
    found.rpc = Some("Version".to_owned());
    found.add_evidence(format!(
        "Version did not answer within {}, nor within {} on a second connection",
        seconds(first),
        seconds(second)
    ));
    found.evidence.extend(facts);
    if let Some(stop) =
        case.evidence.daemon_watch().and_then(DaemonWatch::worst_stop).filter(|stop| !stop.lasts)
    {
        found.title = was_stopped(case, stop);
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
pub(super) fn without_descriptor(evidence: &Evidence, daemon: &Process) -> Option<(String, Vec<Step>)> {
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
    Some((format!("{} has {open} of {limit} descriptors open", daemon.label()), steps))
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
        (severity, format!("the runtime is stopped: {} is in state {}", daemon.label(), stop.letter))
    } else {
        (Severity::Warning, was_stopped(case, stop))
    };
    let mut found = finding(RuleId::D07, severity, Confidence::Certain, title);
    if !stop.lasts {
        found.phase = Phase::None;
    }
    found.add_evidence(format!(
        "{} was in state {} in every look for {}, at intervals of 0.25 s, and used no CPU time: no call was answered meanwhile",
        daemon.label(),
        stop.letter,
        seconds(stop.length)
    ));
    if stop.lasts {
        found.add_step(advice::continue_process(daemon.pid));
    } else {
        found.add_evidence("it runs again, so nothing has to be restarted or deleted");
        found.add_step(Step::look(FIND_STOPPER));
    }
    Some(found)
}

/// Describes a stop that is over: `the runtime was stopped: crio[812] was in state T from 21:05:03 UTC to 21:05:10 UTC`.
fn was_stopped(case: &Case<'_>, stop: &Stop) -> String {
    let who = case.evidence.daemon().map_or_else(|| "the daemon".to_owned(), Process::label);
    let now = case.evidence.taken_at;
    let (from, to) = (clock_time(now, stop.from), clock_time(now, stop.to));
    let from = if stop.began_before { format!("{from} or earlier") } else { from };
    format!("the runtime was stopped: {who} was in state {} from {from} to {to}", stop.letter)
}

/// Applies D29. The kubelet gets the same error; it is not a hang.
pub(super) fn list_fails(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let fails = |error: &&Error| {
        !matches!(error, Error::Silent { .. } | Error::TooLarge { .. }) && !error.is_unread()
    };
    let error = runtime.errors_of_lists().find(fails)?;
    let rpc = if runtime.sandboxes.error() == Some(error) { "ListPodSandbox" } else { "ListContainers" };
    let code = error.code().map_or("no answer", crate::cri::Code::name);
    let title = format!("{rpc} fails at once: {code}");
    let mut found = finding(RuleId::D29, Severity::Critical, Confidence::Certain, title);
    found.rpc = Some(rpc.to_owned());
    found.add_evidence(error.to_string());
    found.add_evidence(
        "after each such error, the kubelet's time of the last relist does not advance, while its duration \
         metric stays small",
    );
    found.add_step(case.evidence.show_journal());
    Some(found)
}
