//! D01, D02, D28: a status call or a list call hangs. Also chooses the culprits.

use super::{Case, Culprit, finding};
use crate::cri::{Error, Rpc};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::{Evidence, RuntimeEvidence, StatusRecord, StatusTarget};
use crate::diagnosis::facts::{Call, FactKind, Items, Took};
use crate::diagnosis::kubelet::Healthz;
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::report::{Command, Step};

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

/// Applies D02. The title has "does not answer", not "deadlock", because a very long wait looks the same.
pub(super) fn list_hangs(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let hung = runtime.hung_lists();
    let (rpc, waited) = hung.first().copied()?;
    let culprit = case.culprits.first();
    let rpcs: Vec<Rpc> = hung.iter().map(|(rpc, _)| *rpc).collect();
    let title = FactKind::ListsHang {
        rpcs: rpcs.clone(),
        as_does: culprit.map(|culprit| call(case.evidence, culprit.rpc, Some(&culprit.id))),
        daemon_is_stopped: case.evidence.daemon_is_stopped(),
    };
    let by_silence = runtime.silence.confidence(waited);
    let by_stacks = case.evidence.chain_of(rpc.name()).map_or(by_silence, |chain| chain.confidence);
    let by_silence = by_silence.min(by_stacks);
    let confidence = culprit.map_or(by_silence, |culprit| by_silence.min(culprit.confidence));
    let mut found = finding(RuleId::HungList, Severity::Critical, confidence, title);
    found.rpc = Some(rpc.name().to_owned());
    if let Some(culprit) = culprit {
        found = case.about(found, Some(&culprit.id));
        found.ids = case.culprits.iter().map(|culprit| culprit.id.clone()).collect();
    }
    found.add_fact(FactKind::CallsSilent { rpcs, waited: waited.into() });
    found.add_facts(case.evidence.chain_fact(rpc.name()));
    found.add_facts(other_calls(case.evidence));
    found.add_facts(id_search_facts(case, &hung));
    let chain = case.evidence.chain_of(rpc.name());
    found.steps.extend(chain.and_then(|chain| chain.next.first().cloned()).map(Step::look));
    if culprit.is_some() {
        // The list probably waits for a start, an exit or a resource update of this container that does not finish.
        let purpose = "what the list waits for (in the stacks saved above)";
        let look = || case.evidence.read_stacks(purpose).or_else(|| case.evidence.show_holder());
        let culprits = case.culprits.iter().map(|culprit| (culprit.rpc, culprit.id.as_str()));
        let of_culprits = advice::for_culprits(case.evidence, &culprits.collect::<Vec<_>>());
        let is_among = |look: &Step| of_culprits.iter().any(|step| step.command == look.command);
        found.steps.extend(chain.is_none().then(look).flatten().filter(|look| !is_among(look)));
        found.steps.extend(of_culprits);
    } else {
        let blamed = if id_search_is_complete(case, &hung) {
            "no single container is to blame"
        } else {
            "it is not known which container causes this"
        };
        found.steps.extend(case.evidence.show_holder().filter(|_| chain.is_none()));
        // With a process table, such a process is a finding of its own.
        if case.evidence.node().is_none() {
            found.steps.extend(advice::oci_processes());
        }
        found.add_step(advice::node_pressure(format!(
            "look at storage, memory and CPU of the node: {blamed}"
        )));
        found.add_step(case.evidence.restart_runtime());
    }
    Some(found)
}

/// Returns the call as a part of a fact.
fn call(evidence: &Evidence, rpc: Rpc, id: Option<&str>) -> Call {
    Call { rpc, of: id.map(|id| evidence.names.item(id)) }
}

/// Lists the other calls with their outcomes, which show whether one lock or the whole daemon is blocked.
fn other_calls(evidence: &Evidence) -> Vec<FactKind> {
    let runtime = &evidence.runtime;
    let mut facts = Vec::new();
    if let Some(control) = runtime.control.as_ref() {
        facts.push(match &control.result {
            Ok(_) => FactKind::VersionAnsweredMeanwhile { took: control.duration.into() },
            Err(Error::Silent { waited, .. }) => {
                FactKind::VersionSilentMeanwhile { waited: (*waited).into() }
            }
            Err(why) => FactKind::CallFailed { error: why.into() },
        });
    } else {
        let answered = runtime.version.iter().filter(|call| call.result.is_ok());
        facts.extend(answered.map(|call| FactKind::VersionAnsweredBefore { took: call.duration.into() }));
    }
    if evidence.kubelet.metrics_silent.is_some() && evidence.kubelet.healthz == Some(Healthz::Ok) {
        facts.push(FactKind::KubeletWaitsForListToo);
    }
    let lists = [
        (Rpc::ListPodSandbox, runtime.sandboxes.duration()),
        (Rpc::ListContainers, runtime.containers.duration()),
    ];
    for (rpc, took) in lists {
        facts.extend(took.map(|took| FactKind::ListAnswered { rpc, took: took.into() }));
    }
    facts
}

/// The outcomes of the status calls for the sandboxes or containers of a hung list.
struct IdSearch {
    /// The status call.
    rpc: Rpc,
    /// What the list has.
    items: Items,
    /// The number of ids with a status call, without those that the runtime did not find.
    known: usize,
    /// The number of status calls without an answer.
    silent: usize,
    /// The number of silent calls that count as hung.
    hung: usize,
}

impl IdSearch {
    fn of(runtime: &RuntimeEvidence, list: Rpc) -> Self {
        let (rpc, items) = match list {
            Rpc::ListPodSandbox => (Rpc::PodSandboxStatus, Items::Sandboxes),
            _ => (Rpc::ContainerStatus, Items::Containers),
        };
        let calls = || runtime.status_calls.iter().filter(move |record| record.rpc == rpc);
        // The search does not know whether an id is a sandbox's or a container's. "Not found" means that it was the other
        // kind.
        let is_known = |record: &&StatusRecord| !record.result.as_ref().is_err_and(Error::is_not_found);
        Self {
            rpc,
            items,
            known: calls().filter(is_known).count(),
            silent: calls().filter(|record| record.is_silent()).count(),
            hung: runtime.hung().filter(|record| record.rpc == rpc).count(),
        }
    }
}

/// Returns whether every known id that could block these lists had a status call that was answered or counts as hung.
fn id_search_is_complete(case: &Case<'_>, hung: &[(Rpc, std::time::Duration)]) -> bool {
    let runtime = &case.evidence.runtime;
    let answers = |id_search: IdSearch| id_search.known > 0 && id_search.silent == id_search.hung;
    runtime.ids_left_out == 0 && hung.iter().all(|(list, _)| answers(IdSearch::of(runtime, *list)))
}

/// Describes the outcomes of the status calls, with one fact for each hung list and one for each culprit.
fn id_search_facts(case: &Case<'_>, hung: &[(Rpc, std::time::Duration)]) -> Vec<FactKind> {
    let left_out = case.evidence.runtime.ids_left_out;
    let mut facts = Vec::new();
    for (list, _) in hung {
        let IdSearch { rpc, items, known, silent, hung } = IdSearch::of(&case.evidence.runtime, *list);
        facts.push(match (known, silent) {
            (0, _) => FactKind::NoneKnownWithoutList { items },
            (_, 0) if left_out > 0 => FactKind::NotAllAsked { rpc, known, items, left_out },
            (_, 0) => FactKind::AllKnownAnswered { rpc, known, items },
            _ if hung == 0 => FactKind::TooEarlyToName { rpc, silent, known, items },
            _ if case.culprits.is_empty() => FactKind::NoSingleCause { rpc, silent, known, items },
            _ => FactKind::CulpritsAre { rpc, silent, known, items },
        });
        let named = case.culprits.iter().filter(|culprit| culprit.rpc == rpc);
        facts.extend(named.map(|culprit| FactKind::Culprit { of: case.evidence.names.item(&culprit.id) }));
    }
    facts
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
        Rpc::ListPodSandbox | Rpc::ListContainers => RuleId::HungList,
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

/// Applies D01. The finding names no reason for the hang: the volume, the OCI runtime and the shim are as likely as the
/// application.
pub(super) fn status_hangs(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    if !runtime.hung_lists().is_empty() {
        return None;
    }
    let confidence =
        |record: &StatusRecord| case.evidence.hang_confidence(&record.target.id, record.duration);
    let mut silent: Vec<&StatusRecord> = runtime.hung().collect();
    silent
        .sort_by(|one, other| (confidence(one), &one.target.id).cmp(&(confidence(other), &other.target.id)));
    let first = silent.first()?;
    let answered = runtime.status_calls.iter().filter(|record| !record.is_silent()).count();
    let estimate = &case.estimate;
    let title = if case.culprits.is_empty() {
        FactKind::ManyStatusCallsHang { silent: silent.len(), of: runtime.status_calls.len() }
    } else {
        let call = call(case.evidence, first.rpc, Some(&first.target.id));
        // Two calls of one kind are both named.
        let and = match silent.as_slice() {
            [one, other] if one.rpc == other.rpc => Some(case.evidence.names.item(&other.target.id)),
            _ => None,
        };
        FactKind::StatusHangs { call, and, others: silent.len() - 1 }
    };
    let mut found = finding(RuleId::HungStatus, Severity::Critical, confidence(first), title);
    if !case.culprits.is_empty() {
        found = case.about(found, Some(&first.target.id));
        found.ids = silent.iter().map(|record| record.target.id.clone()).collect();
    }
    found.rpc = Some(first.rpc.name().to_owned());
    let shown = if case.culprits.is_empty() { &[] } else { silent.as_slice() };
    // The title of several calls does not say why they make the node NotReady. That of one call needs its answer first.
    let consequence = consequence(case);
    let (before, after) =
        if silent.len() > 1 { (Some(consequence), None) } else { (None, Some(consequence)) };
    found.add_facts(before);
    found.add_facts(shown.iter().map(|record| FactKind::StatusSilent {
        rpc: record.rpc,
        of: case.evidence.names.item(&record.target.id),
        waited: record.duration.into(),
        blocked_by: case.evidence.second_evidence(&record.target.id).map(|fact| Box::new(fact.into())),
    }));
    found.add_facts(after);
    found.add_fact(FactKind::OtherCallsAnswered { lists_answer: estimate.lists.is_some(), answered });
    if !case.culprits.is_empty() {
        let culprits = silent.iter().map(|record| (record.rpc, record.target.id.as_str()));
        found.steps.extend(advice::for_culprits(case.evidence, &culprits.collect::<Vec<_>>()));
    }
    Some(found)
}

/// Describes the effect of the hung calls on the kubelet.
fn consequence(case: &Case<'_>) -> FactKind {
    let estimate = &case.estimate;
    let settings = &case.evidence.settings;
    let (gives_up, threshold) = (settings.request_timeout.value.into(), settings.threshold.value.into());
    if estimate.would_trip {
        let peak = estimate.peak_age.map(Took::from);
        FactKind::HangTripsThreshold { gives_up, hung_calls: estimate.hung_calls, peak, threshold }
    } else {
        FactKind::HangStaysBelow { gives_up, threshold }
    }
}

/// Applies D28: one hung call stays below the threshold, so the node looks healthy.
pub(super) fn hidden_stall(case: &Case<'_>) -> Option<HealthFinding> {
    let lists_answer = case.evidence.runtime.hung_lists().is_empty();
    let [culprit] = case.culprits.as_slice() else {
        return None;
    };
    if !lists_answer || case.estimate.would_trip {
        return None;
    }
    let age = case.evidence.kubelet.pleg_age();
    let seen = age.is_some_and(|age| age >= limits::PLEG_AGE_STALE.as_secs_f64());
    let confidence = if seen { Confidence::Certain } else { Confidence::Likely };
    let title = FactKind::PodsAreOld { peak: case.estimate.peak_age.map(Took::from) };
    let mut found =
        case.about(finding(RuleId::HiddenStall, Severity::Warning, confidence, title), Some(&culprit.id));
    found.rpc = Some(culprit.rpc.name().to_owned());
    found.add_fact(FactKind::OneHungCall);
    found.add_facts(age.map(|age| FactKind::KubeletRelistAge { seconds: age.into() }));
    found.add_step(Step::look("start with the hung call (D01)"));
    Some(found)
}
