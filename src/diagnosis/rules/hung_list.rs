//! D02: a list does not answer and the daemon is alive.

use super::prelude::*;
use super::silent_calls::call;
use crate::diagnosis::facts::Items;

/// Applies D02. The title has "does not answer", not "deadlock", because a very long wait looks the same.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
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
    found.add_facts(runtime.stalled_streams().map(|(rpc, entries)| FactKind::StreamStalled { rpc, entries }));
    found.add_facts(case.evidence.chain_fact(rpc.name()));
    // With a culprit, the reason why it is one comes first.
    if culprit.is_some() {
        found.add_facts(id_search_facts(case, &hung));
        found.add_facts(other_calls(case.evidence));
    } else {
        found.add_facts(other_calls(case.evidence));
        found.add_facts(id_search_facts(case, &hung));
    }
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
            "no container is known to cause this"
        };
        found.steps.extend(case.evidence.show_holder().filter(|_| chain.is_none()));
        // With a process table, such a process is a finding of its own.
        if case.evidence.node().is_none() {
            found.steps.extend(steps_of("ociProcesses", &[]));
        }
        found.steps.extend(steps_of("blamed", &[("blamed", Place::word(blamed))]));
        found.add_step(case.evidence.restart_runtime());
    }
    Some(found)
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
    let [sandboxes, containers] = runtime.list_rpcs();
    let lists = [(sandboxes, runtime.sandboxes.duration()), (containers, runtime.containers.duration())];
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
        let (rpc, items) = match list.unary() {
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
fn id_search_is_complete(case: &Case<'_>, hung: &[(Rpc, Duration)]) -> bool {
    let runtime = &case.evidence.runtime;
    let answers = |id_search: IdSearch| id_search.known > 0 && id_search.silent == id_search.hung;
    runtime.ids_left_out == 0 && hung.iter().all(|(list, _)| answers(IdSearch::of(runtime, *list)))
}

/// Describes the outcomes of the status calls, with one fact for each hung list and one for each culprit.
fn id_search_facts(case: &Case<'_>, hung: &[(Rpc, Duration)]) -> Vec<FactKind> {
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
