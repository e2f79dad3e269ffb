//! D01, D02, D28: a status call or a list call hangs. Also chooses the culprits.

use super::{Case, Culprit, finding};
use crate::cri::{Error, Rpc};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::{Evidence, RuntimeEvidence, StatusRecord, StatusTarget};
use crate::diagnosis::kubelet::Healthz;
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::words::seconds;
use crate::report::{Command, Step, plural};

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
    let names: Vec<&str> = hung.iter().map(|(rpc, _)| rpc.name()).collect();
    let (lists, verb) = (names.join(" and "), if hung.len() == 1 { "does" } else { "do" });
    let title = match culprit {
        Some(culprit) => format!(
            "{lists} {verb} not answer, nor does {} of {}",
            culprit.rpc,
            case.evidence.names.name(&culprit.id)
        ),
        None if case.evidence.daemon_is_stopped() => format!("{lists} {verb} not answer"),
        None => format!("{lists} {verb} not answer; the daemon is alive"),
    };
    let by_silence = runtime.silence.confidence(waited);
    let by_stacks = case.evidence.chain_of(rpc.name()).map_or(by_silence, |chain| chain.confidence);
    let by_silence = by_silence.min(by_stacks);
    let confidence = culprit.map_or(by_silence, |culprit| by_silence.min(culprit.confidence));
    let mut found = finding(RuleId::D02, Severity::Critical, confidence, title);
    found.rpc = Some(rpc.name().to_owned());
    if let Some(culprit) = culprit {
        found = case.about(found, Some(&culprit.id));
        found.ids = case.culprits.iter().map(|culprit| culprit.id.clone()).collect();
    }
    found.add_evidence(format!("{} did not answer within {}", names.join(" and "), seconds(waited)));
    found.evidence.extend(case.evidence.chain_words(rpc.name()));
    found.evidence.extend(other_calls(case.evidence));
    found.evidence.extend(id_search_lines(case, &hung));
    let chain = case.evidence.chain_of(rpc.name());
    found.steps.extend(chain.and_then(|chain| chain.next.first().cloned()).map(Step::look));
    if culprit.is_some() {
        found.add_step(Step::look(
            "look for a start, an exit or a resource update of this container that does not finish: the list \
             probably waits for it",
        ));
        let culprits = case.culprits.iter().map(|culprit| (culprit.rpc, culprit.id.as_str()));
        found.steps.extend(advice::for_culprits(case.evidence, &culprits.collect::<Vec<_>>()));
    } else {
        let blamed = if id_search_is_complete(case, &hung) {
            "no single container is to blame"
        } else {
            "a container to blame is not known"
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

/// Lists the other calls with their outcomes, which show whether one lock or the whole daemon is blocked.
fn other_calls(evidence: &Evidence) -> Vec<String> {
    let runtime = &evidence.runtime;
    let mut lines = Vec::new();
    match runtime.control.as_ref() {
        Some(control) => lines.push(match &control.result {
            Ok(_) => format!(
                "Version is answered in {} at the same time, so the daemon is alive and waits for something \
                 internally",
                seconds(control.duration)
            ),
            Err(Error::Silent { waited, .. }) => format!(
                "Version is not answered within {} at the same time: the whole daemon is blocked, not one \
                 lock",
                seconds(*waited)
            ),
            Err(why) => why.to_string(),
        }),
        None => lines.extend(
            runtime
                .version
                .iter()
                .filter(|call| call.result.is_ok())
                .map(|call| format!("Version answered in {} just before", seconds(call.duration))),
        ),
    }
    if evidence.kubelet.metrics_silent.is_some() && evidence.kubelet.healthz == Some(Healthz::Ok) {
        lines.push(
            "the kubelet's /healthz is ok and its /metrics is silent: the kubelet waits for a list call too"
                .to_owned(),
        );
    }
    let lists = [
        (Rpc::ListPodSandbox, runtime.sandboxes.duration()),
        (Rpc::ListContainers, runtime.containers.duration()),
    ];
    for (rpc, took) in lists {
        lines.extend(took.map(|took| format!("{rpc} answered in {}", seconds(took))));
    }
    lines
}

/// The outcomes of the status calls for the sandboxes or containers of a hung list.
struct IdSearch {
    /// The status call.
    rpc: Rpc,
    /// `sandbox` or `container`.
    noun: &'static str,
    /// The number of ids with a status call, without those that the runtime did not find.
    known: usize,
    /// The number of status calls without an answer.
    silent: usize,
    /// The number of silent calls that count as hung.
    hung: usize,
}

impl IdSearch {
    fn of(runtime: &RuntimeEvidence, list: Rpc) -> Self {
        let (rpc, noun) = match list {
            Rpc::ListPodSandbox => (Rpc::PodSandboxStatus, "sandbox"),
            _ => (Rpc::ContainerStatus, "container"),
        };
        let calls = || runtime.status_calls.iter().filter(move |record| record.rpc == rpc);
        // The search does not know whether an id is a sandbox's or a container's. "Not found" means that it was the other
        // kind.
        let is_known = |record: &&StatusRecord| !record.result.as_ref().is_err_and(Error::is_not_found);
        Self {
            rpc,
            noun,
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

/// Describes the outcomes of the status calls, one line for each hung list.
fn id_search_lines(case: &Case<'_>, hung: &[(Rpc, std::time::Duration)]) -> Vec<String> {
    let runtime = &case.evidence.runtime;
    let mut lines = Vec::new();
    for (list, _) in hung {
        let IdSearch { rpc, noun, known, silent, hung } = IdSearch::of(runtime, *list);
        lines.push(match (known, silent) {
            (0, _) => format!("no {noun} is known without the list, so none can be named"),
            (_, 0) if runtime.ids_left_out > 0 => format!(
                "{rpc} is answered for {}, and there was no time for {}: no culprit is named",
                plural(known, noun),
                plural(runtime.ids_left_out, "other id")
            ),
            (_, 0) => format!(
                "{rpc} is answered for each of the {} that are known without the list: no culprit is named",
                plural(known, noun)
            ),
            _ if hung == 0 => format!(
                "{rpc} was not yet answered for {silent} of {} when the time was over, which is too early to \
                 count as hung: no culprit is named",
                plural(known, noun)
            ),
            _ if case.culprits.is_empty() => format!(
                "{rpc} is not answered for {silent} of {}: no single one is the cause, so no culprit is named",
                plural(known, noun)
            ),
            _ => format!("{silent} of {} not answering {rpc}:", plural(known, noun)),
        });
        let named = case.culprits.iter().filter(|culprit| culprit.rpc == rpc);
        lines.extend(named.map(|culprit| format!("  {}", case.evidence.names.describe(&culprit.id))));
    }
    lines
}

/// Applies D01, D02 and D07 with the confidence *possible*, to calls without an answer when the run was interrupted or when
/// the caller gave the calls up.
pub(super) fn silent_so_far(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let silent = evidence.runtime.silent_so_far(evidence.interrupted);
    let (rpc, target, waited) = silent.first()?;
    let about = |rpc: &Rpc, target: Option<&StatusTarget>| match target {
        Some(target) => format!("{rpc} of {}", evidence.names.name(&target.id)),
        None => rpc.to_string(),
    };
    let more = match silent.len() {
        1 => String::new(),
        many => format!(" (and {})", plural(many - 1, "other call")),
    };
    let title = format!("{}{more} has not answered for {}", about(rpc, *target), seconds(*waited));
    let id = match rpc {
        Rpc::Version => RuleId::D07,
        Rpc::ListPodSandbox | Rpc::ListContainers => RuleId::D02,
        _ => RuleId::D01,
    };
    let found = finding(id, Severity::Info, Confidence::Possible, title);
    let mut found = case.about(found, target.map(|target| target.id.as_str()));
    found.rpc = Some(rpc.name().to_owned());
    found.ids = silent.iter().filter_map(|(_, target, _)| Some(target.as_ref()?.id.clone())).collect();
    let lines = silent.iter().take(limits::MAX_CULPRITS);
    found.evidence.extend(lines.map(|(rpc, target, waited)| {
        format!("{}: no answer within {}", about(rpc, *target), seconds(*waited))
    }));
    let likely = seconds(evidence.runtime.silence.likely);
    found.add_evidence(format!("too early to count as hung: a hang is likely after {likely}"));
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
        format!(
            "{} of {} status calls do not answer: no single pod is to blame",
            silent.len(),
            runtime.status_calls.len()
        )
    } else {
        let (more, verb) = match silent.len() {
            1 => (String::new(), "does"),
            many => (format!(" and {} more", many - 1), "do"),
        };
        let who = case.evidence.names.name(&first.target.id);
        format!("{} of {who}{more} {verb} not answer", first.rpc)
    };
    let mut found = finding(RuleId::D01, Severity::Critical, confidence(first), title);
    if !case.culprits.is_empty() {
        found = case.about(found, Some(&first.target.id));
        found.ids = silent.iter().map(|record| record.target.id.clone()).collect();
    }
    found.rpc = Some(first.rpc.name().to_owned());
    let shown = if case.culprits.is_empty() { &[] } else { silent.as_slice() };
    for record in shown {
        let who = case.evidence.names.describe(&record.target.id);
        let also = case.evidence.second_evidence(&record.target.id);
        found.add_evidence(format!(
            "{} of {who} did not answer within {}{}",
            record.rpc,
            seconds(record.duration),
            also.map(|also| format!(", and {also}")).unwrap_or_default()
        ));
    }
    let lists = if estimate.lists.is_some() { "both lists answer" } else { "no list is silent" };
    found.add_evidence(format!("{lists}, and so do {}", plural(answered, "other status call")));
    found.add_evidence(consequence(case));
    if !case.culprits.is_empty() {
        let culprits = silent.iter().map(|record| (record.rpc, record.target.id.as_str()));
        found.steps.extend(advice::for_culprits(case.evidence, &culprits.collect::<Vec<_>>()));
    }
    Some(found)
}

/// Describes the effect of the hung calls on the kubelet.
fn consequence(case: &Case<'_>) -> String {
    let estimate = &case.estimate;
    let settings = &case.evidence.settings;
    let gives_up = seconds(settings.request_timeout.value);
    let threshold = seconds(settings.threshold.value);
    let calls = plural(estimate.hung_calls, "such call");
    if estimate.would_trip {
        format!(
            "the kubelet waits {gives_up} for each call and makes {calls} in a relist: so it relists every \
             {}, and the node is NotReady after {threshold}",
            estimate.peak_text()
        )
    } else {
        format!(
            "the kubelet gives up such a call after {gives_up}, before its threshold of {threshold}: the \
             node stays Ready"
        )
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
    let title =
        format!("the node stays Ready, but the state of its pods is up to {} old", case.estimate.peak_text());
    let mut found = case.about(finding(RuleId::D28, Severity::Warning, confidence, title), Some(&culprit.id));
    found.rpc = Some(culprit.rpc.name().to_owned());
    found.add_evidence("one hung call costs one time-out, which is below the threshold");
    found.evidence.extend(age.map(|age| format!("the kubelet's last relist is {age:.0} s old")));
    found.add_step(Step::look("start with the hung call (D01)"));
    Some(found)
}
