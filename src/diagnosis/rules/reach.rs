//! D06, D07, D29: the runtime cannot be reached, is silent, or answers its lists with errors.

use super::{Case, cri_missing, finding};
use crate::cri::{Error, FileKind};
use crate::diagnosis::advice::{self, DaemonFamily};
use crate::diagnosis::proc::Ownership;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::words::seconds;

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
    found.next.extend(error.hint().filter(|_| !matches!(error, Error::Refused { .. })));
    cri_missing::explain(case, error, &mut found);
    if matches!(error, Error::Refused { .. } | Error::NoSuchSocket { .. } | Error::ClosedMidCall { .. }) {
        let units = match evidence.family() {
            DaemonFamily::Containerd => "containerd",
            DaemonFamily::Crio => "crio",
            DaemonFamily::Other => "containerd crio",
        };
        if !found.next.iter().any(|line| line.contains("systemctl status")) {
            found.add_step(evidence.show_units(units));
        }
        found.add_step(match units.split_once(' ') {
            _ if !evidence.has_systemd() => "then start the runtime (changes state)".to_owned(),
            None => format!("then start the runtime (changes state): systemctl start {units}"),
            Some((first, second)) => {
                format!("then start the runtime (changes state): systemctl start {first}   # or {second}")
            }
        });
    }
    Some(found)
}

/// Applies D07. The finding says that the runtime does not answer, not that it crashed.
pub(super) fn silent(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let (first, second) = runtime.both_versions_silent()?;
    let mut confidence = runtime.silence.confidence(first.min(second));
    let mut title = "the runtime accepts connections and does not answer".to_owned();
    let mut facts = Vec::new();
    let mut next = Vec::new();
    if let Some(host) = case.evidence.node()
        && let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership
        && let Some(daemon) = host.latest().processes.get(&pid)
    {
        if daemon.is_stopped() {
            confidence = Confidence::Certain;
            title = format!("the runtime is stopped: {} is in state {}", daemon.label(), daemon.state);
        }
        facts.push(format!(
            "{}: state {}, {} threads, {} MiB resident, up {}",
            daemon.label(),
            daemon.state,
            daemon.threads,
            daemon.resident / (1024 * 1024),
            seconds(daemon.age)
        ));
        if daemon.is_stopped() {
            facts.push("somebody stopped it with a signal or a debugger".to_owned());
            next.push(format!("find out who stopped it; to continue it (changes state): kill -CONT {pid}"));
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
    if next.is_empty() {
        next.push(format!("look at storage, memory and CPU of the node: {}", advice::NODE_PRESSURE));
        next.push(case.evidence.restart_runtime());
    }
    found.next = next;
    Some(found)
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
