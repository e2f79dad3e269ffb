//! D06: the endpoint cannot be reached.

use super::cri_missing;
use super::prelude::*;
use crate::cri::FileKind;
use crate::diagnosis::facts::{Address, DescriptorUse};

/// Applies D06. The finding says that plegctl cannot reach the endpoint, not that the runtime is down: the kubelet may use
/// another endpoint, or plegctl may lack the permission.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
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
            found.steps.extend(evidence.steps("showUnits", &[("shown", Place::words(units))]));
        }
        let start = if units.len() > 1 { "startOneOfTwo" } else { "startRuntime" };
        found.steps.extend(evidence.steps(start, &[]));
    }
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
    let limits = Place::word(format!("{more}:{}", hard.unwrap_or_default()));
    let mut steps = steps_of("noDescriptor", &[("pid", Place::Process(pid)), ("limits", limits)]);
    steps.push(evidence.restart_runtime());
    Some((DescriptorUse { process: daemon.into(), open, limit }, steps))
}
