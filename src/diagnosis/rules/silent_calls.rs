//! Calls that have no answer: which ids may be named as culprits, and what is silent so far.

use super::Culprit;
use super::prelude::*;
use crate::diagnosis::evidence::StatusTarget;
use crate::diagnosis::facts::Call;

/// Returns the ids that may be named as culprits. No single container is the cause, and no id is returned, if the runtime
/// answers only Version, if very many calls are silent, or if a CPU limit or a signal stops the daemon.
pub fn culprits(evidence: &Evidence) -> Vec<Culprit> {
    let runtime = &evidence.runtime;
    let silent: Vec<&StatusRecord> = runtime.hung().collect();
    let many = silent.len() > limits::MAX_CULPRITS && silent.len() * 2 > runtime.status_calls.len();
    let is_held = evidence.daemon_is_throttled() || evidence.daemon_is_stopped();
    let whole_daemon = is_held || !runtime.anything_but_version_answers();
    if many || silent.len() >= limits::MAX_SILENT || whole_daemon {
        return Vec::new();
    }
    let mut culprits: Vec<Culprit> = silent
        .into_iter()
        .map(|record| Culprit {
            id: record.target.id.clone(),
            rpc: record.rpc,
            waited: record.duration,
            confidence: evidence.hang_confidence(&record.target.id, record.duration),
        })
        .collect();
    // Answers arrive in any order. The sort makes the report the same in every run.
    culprits.sort_by(|one, other| (one.confidence, &one.id).cmp(&(other.confidence, &other.id)));
    culprits
}

/// Returns the call as a part of a fact.
pub(super) fn call(evidence: &Evidence, rpc: Rpc, id: Option<&str>) -> Call {
    Call { rpc, of: id.map(|id| evidence.names.item(id)) }
}

/// Applies D01, D02 and D07 with the confidence *possible*, to calls without an answer when the run was interrupted or when
/// the caller gave the calls up.
pub(super) fn silent_so_far(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let silent = evidence.runtime.silent_so_far(evidence.interrupted);
    let (rpc, target, waited) = silent.first()?;
    let about =
        |rpc: Rpc, target: Option<&StatusTarget>| call(evidence, rpc, target.map(|of| of.id.as_str()));
    let title = FactKind::SilentSoFar {
        call: about(*rpc, *target),
        others: silent.len() - 1,
        waited: (*waited).into(),
    };
    let id = match rpc {
        Rpc::Version => RuleId::SilentRuntime,
        list if list.is_list() => RuleId::HungList,
        _ => RuleId::HungStatus,
    };
    let found = finding(id, Severity::Info, Confidence::Possible, title);
    let mut found = case.about(found, target.map(|target| target.id.as_str()));
    found.rpc = Some(rpc.name().to_owned());
    found.ids = silent.iter().filter_map(|(_, target, _)| Some(target.as_ref()?.id.clone())).collect();
    let shown = silent.iter().take(limits::MAX_CULPRITS);
    found.add_facts(shown.map(|(rpc, target, waited)| FactKind::NoAnswerSoFar {
        call: about(*rpc, *target),
        waited: (*waited).into(),
    }));
    found.add_fact(FactKind::TooEarlyForHang { likely_after: evidence.runtime.silence.likely.into() });
    found.add_step(Step::look("run it again and let it finish").with(Command::new("plegctl health")));
    Some(found)
}
