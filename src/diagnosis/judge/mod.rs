//! Makes the report from the evidence: applies the rules, sorts the findings, decides the verdict and suggests what to
//! save. It makes no calls and reads no clock.

pub mod calls;
mod culprits;
pub mod not_ready;
mod summary;
mod verdict;

use std::cmp::Reverse;
use std::time::Duration;

use self::not_ready::NotReady;
pub use self::verdict::{Relists, VerdictFacts, Weight, verdict};
use crate::cri::{Call, Error, Outcome};
use crate::diagnosis::evidence::{Evidence, StatusRecord};
use crate::diagnosis::proc::{Blocked, Process, Role};
use crate::diagnosis::report::{
    Confidence, EstimateReport, HealthFinding, HealthReport, KubeletReport, NotChecked, Phase, ProbeReport,
    RuleId, Severity, Verdict,
};
use crate::diagnosis::rules::{self, Case, Refusal, StacksHelp, Trait};
use crate::diagnosis::words::seconds;
use crate::diagnosis::{advice, limits};
use crate::pleg::report::ListCallsReport;
use crate::report::{Command, RuntimeRef, Step};

/// Returns the first step of a report about a moment of a capture.
pub fn step_of_a_capture() -> Step {
    Step::look("what to do depends on the node as it is now; on the node")
        .with(Command::new("plegctl health"))
}

/// Judges the evidence and returns the report.
pub fn judge(evidence: &Evidence) -> HealthReport {
    match evidence.moment {
        Some(_) => judge_earlier(evidence),
        None => judge_now(evidence),
    }
}

/// Judges evidence of an earlier time: the report has no steps for the node as it was then.
pub fn judge_earlier(evidence: &Evidence) -> HealthReport {
    let mut report = judge_now(evidence);
    replace_steps(report.verdict, &mut report.findings);
    HealthReport { primary: report.findings.first().cloned(), keep: Vec::new(), ..report }
}

fn judge_now(evidence: &Evidence) -> HealthReport {
    let case = Case::new(evidence);
    let (mut findings, failed) = rules::apply(&case);
    findings.sort_by_key(order);
    let verdict = verdict(&facts(&case, &findings));
    limit_severity(verdict, &mut findings);
    if verdict == Verdict::Healthy {
        findings.insert(0, rules::nothing_found::find(&case));
    }
    let keep = keep(&case, verdict, &findings);
    let primary = findings.first().cloned();
    let not_ready = NotReady::of(&case, verdict, &findings);
    let phase = match (&primary, verdict) {
        (Some(primary), Verdict::Degraded | Verdict::Unhealthy | Verdict::Unknown) => primary.phase,
        _ => Phase::None,
    };
    let version = evidence.runtime.version_answer();
    let mut probes = probes(evidence);
    // Each call that was given up may still be pending in the runtime.
    let abandoned_calls = probes.iter().filter(|probe| probe.outcome == Outcome::Silent).count();
    let requests = evidence.kubelet.requests.iter();
    probes.extend(requests.map(|(name, outcome, took)| probe_without_answer(name.as_ref(), *outcome, *took)));
    HealthReport {
        moment: evidence.moment,
        node: evidence.node.clone(),
        runtime: RuntimeRef {
            endpoint: evidence.endpoint.clone(),
            name: version.map(|version| version.runtime_name.clone()),
            version: version.map(|version| version.runtime_version.clone()),
            api_version: version.map(|version| version.runtime_api_version.clone()),
        },
        list_calls: evidence.runtime.lists_by.as_ref().map(ListCallsReport::of),
        duration_seconds: evidence.took.as_secs_f64(),
        verdict,
        phase,
        summary: summary::sentence(&case, verdict, primary.as_ref(), not_ready),
        primary,
        culprits: culprits::culprits(&case),
        suspects: Vec::new(),
        findings,
        probes,
        abandoned_calls,
        not_checked: not_checked(evidence, verdict)
            .into_iter()
            .chain(failed.into_iter().map(not_applied))
            .collect(),
        estimate: estimate(&case, not_ready),
        kubelet: kubelet(&case),
        keep,
        stacks: evidence.stacks.clone(),
        ..HealthReport::new(evidence.taken_at)
    }
}

/// Returns the estimate, if it is known.
fn estimate(case: &Case<'_>, not_ready: Option<NotReady>) -> Option<EstimateReport> {
    let runtime = &case.evidence.runtime;
    let has_content = runtime.is_reached() || not_ready.is_some();
    if !case.estimate_is_known() || !has_content {
        return None;
    }
    let estimate = case.estimate.report(&case.evidence.settings).with_not_ready(not_ready);
    if runtime.is_reached() {
        return Some(estimate);
    }
    // Without an answer, no duration is known. Of a silent runtime, the first list call reaches the time-out.
    Some(EstimateReport {
        serial_relist_seconds: None,
        full_relist_seconds: None,
        peak_age_seconds: None,
        hung_calls: usize::from(runtime.both_versions_silent().is_some()),
        would_trip: true,
        flaps: false,
        other_era: None,
        ..estimate
    })
}

/// Notes a rule that panicked.
fn not_applied((rule, why): (RuleId, String)) -> NotChecked {
    NotChecked::new(format!("rule {rule:?}"), format!("plegctl itself failed: {why}"))
}

/// Returns the key by which findings are sorted: findings that are only possible come last, then the more severe come
/// first, then the causes come before their effects.
fn order(finding: &HealthFinding) -> (bool, Reverse<Severity>, u8, Confidence) {
    let rank = rules::row(finding.id).rank;
    (finding.confidence == Confidence::Possible, Reverse(finding.severity), rank, finding.confidence)
}

/// Returns the facts that decide the verdict.
fn facts(case: &Case<'_>, findings: &[HealthFinding]) -> VerdictFacts {
    let evidence = case.evidence;
    let runtime = &evidence.runtime;
    let (is_blind, relists) = match connection(evidence) {
        Connection::Works => (false, relists(case)),
        Connection::Fails => (false, Relists::Fail),
        Connection::IsUnknown => (true, Relists::Unknown),
    };
    VerdictFacts {
        is_blind,
        relists,
        age: evidence.kubelet_age(),
        threshold: evidence.settings.threshold.value,
        found: findings.iter().map(Weight::of).max().unwrap_or_default(),
        // If the outcome of some calls is unknown, the others do not make the node healthy.
        is_incomplete: runtime.cut_short().next().is_some()
            || runtime.status_is_open()
            || evidence.ended_early.is_some()
            || evidence.recorded_diagnosis.is_some()
            || evidence.list_may_be_large()
            // A second look might have confirmed what is only possible.
            || evidence.lacks_second_samples
                && findings.iter().any(|finding| finding.confidence == Confidence::Possible),
        reported: None,
    }
}

/// Returns what the estimate says about the kubelet's relists.
fn relists(case: &Case<'_>) -> Relists {
    let evidence = case.evidence;
    let may_be_higher = !evidence.runtime.lists_are_known()
        || !evidence.bad_input.is_empty()
        || evidence.refusal() == Refusal::Possible;
    case.estimate.peak_age.map_or(Relists::Fail, |peak_age| Relists::Succeed { peak_age, may_be_higher })
}

/// Removes from a report about an earlier time the steps that change the state or name a process: the process may have
/// ended since, and another one may have its id.
fn replace_steps(verdict: Verdict, findings: &mut [HealthFinding]) {
    for finding in findings.iter_mut() {
        finding.steps.retain(|step| !step.changes_state && !step.names_process);
    }
    if let Some(primary) = findings.first_mut().filter(|_| verdict != Verdict::Healthy) {
        primary.steps.insert(0, step_of_a_capture());
    }
}

/// Makes critical findings warnings, unless the verdict is *unhealthy*. So a report has a critical finding only if its
/// verdict is *unhealthy*.
pub fn limit_severity(verdict: Verdict, findings: &mut [HealthFinding]) {
    if verdict != Verdict::Unhealthy {
        for finding in findings {
            finding.severity = finding.severity.min(Severity::Warning);
        }
    }
}

/// Whether the runtime can be reached.
enum Connection {
    /// Version is answered.
    Works,
    /// Neither the kubelet nor plegctl can use the runtime.
    Fails,
    /// Nothing is known about the runtime.
    IsUnknown,
}

/// Returns whether the runtime can be reached.
fn connection(evidence: &Evidence) -> Connection {
    let runtime = &evidence.runtime;
    if runtime.version_answer().is_some() {
        return Connection::Works;
    }
    let Some(version) = &runtime.version else {
        return Connection::IsUnknown;
    };
    match version.result.as_ref().err() {
        // A silent Version makes the runtime unhealthy only if Version is silent for long on two connections.
        Some(Error::Silent { .. }) if runtime.both_versions_silent().is_none() => Connection::IsUnknown,
        Some(why) if why.leaves_runtime_unknown() => Connection::IsUnknown,
        _ => Connection::Fails,
    }
}

/// Describes a single call.
fn probe<T>(call: &Call<T>, name: &str) -> ProbeReport {
    ProbeReport {
        response_bytes: Some(call.response_bytes),
        stream: call.stream,
        message: call.result.as_ref().err().map(ToString::to_string),
        ..probe_without_answer(name, call.outcome(), call.duration)
    }
}

/// Describes a call without the size of its answer and without its error.
fn probe_without_answer(name: impl Into<String>, outcome: Outcome, took: Duration) -> ProbeReport {
    ProbeReport {
        name: name.into(),
        outcome,
        duration_seconds: took.as_secs_f64(),
        response_bytes: None,
        stream: None,
        calls: None,
        message: None,
    }
}

/// Describes the calls to the runtime.
fn probes(evidence: &Evidence) -> Vec<ProbeReport> {
    let runtime = &evidence.runtime;
    let mut probes = Vec::new();
    probes.extend(runtime.version.iter().map(|call| probe(call, "Version")));
    probes.extend(runtime.control.iter().map(|call| probe(call, "Version (second connection)")));
    probes.extend(runtime.status.iter().map(|call| probe(call, "Status")));
    probes.extend(runtime.sandboxes.first.iter().map(|call| probe(call, call.rpc.name())));
    probes.extend(runtime.containers.first.iter().map(|call| probe(call, call.rpc.name())));
    probes.extend(runtime.sandboxes.second.iter().map(|call| probe(call, &format!("{} (again)", call.rpc))));
    probes.extend(runtime.containers.second.iter().map(|call| probe(call, &format!("{} (again)", call.rpc))));
    for rpc in [crate::cri::Rpc::PodSandboxStatus, crate::cri::Rpc::ContainerStatus] {
        let calls = runtime.status_calls.iter().filter(|record| record.rpc == rpc);
        probes.extend(summarised(rpc.name(), calls));
    }
    probes.extend(summarised("ContainerStats", runtime.shims.iter()));
    probes
}

/// Summarises the answered calls of one kind in one entry, and adds an entry for each silent call.
fn summarised<'a>(name: &str, calls: impl Iterator<Item = &'a StatusRecord>) -> Vec<ProbeReport> {
    let (silent, answered): (Vec<_>, Vec<_>) = calls.partition(|record| record.is_silent());
    let mut lines = Vec::new();
    if !answered.is_empty() {
        // "Not found" is not a failure: the item may have been removed between the list and the status call.
        let is_failure = |why: &Error| !why.is_not_found();
        let failed = answered.iter().filter(|record| record.result.as_ref().is_err_and(is_failure)).count();
        let outcome = if failed > 0 { Outcome::Error } else { Outcome::Ok };
        lines.push(ProbeReport {
            response_bytes: Some(answered.iter().map(|record| record.response_bytes).sum()),
            calls: Some(answered.len()),
            message: (failed > 0).then(|| format!("{failed} answered with an error")),
            ..probe_without_answer(name, outcome, answered.iter().map(|record| record.duration).sum())
        });
    }
    lines.extend(silent.into_iter().map(|record| {
        let name = format!("{name} {}", record.target.id);
        probe_without_answer(name, Outcome::Silent, record.duration)
    }));
    lines
}

fn not_checked(evidence: &Evidence, verdict: Verdict) -> Vec<NotChecked> {
    let ended_early = evidence.ended_early.iter().map(|why| NotChecked::new("the rest", why));
    let recorded = evidence.recorded_diagnosis.iter().map(|found| {
        NotChecked::new("the facts of the recorder's diagnosis", format!("not recorded; it found: {found}"))
    });
    let first = ended_early.chain(recorded);
    let mut all: Vec<NotChecked> = first.chain(evidence.not_checked.iter().cloned()).collect();
    for bad in &evidence.bad_input {
        if !all.iter().any(|skipped| skipped.why == *bad) {
            all.push(NotChecked::new("a source that you named", bad));
        }
    }
    if verdict == Verdict::Healthy && evidence.moment.is_none() {
        let why = "plegctl watch --mode compare shows lost events";
        all.push(NotChecked::new("the runtime's event stream", why));
    }
    all
}

fn kubelet(case: &Case<'_>) -> Option<KubeletReport> {
    use crate::diagnosis::kubelet::Healthz;
    let kubelet = &case.evidence.kubelet;
    let reading = kubelet.latest();
    let report = KubeletReport {
        pid: kubelet.pid,
        version: reading.and_then(|reading| reading.metrics.version.clone()),
        healthz: kubelet.healthz.as_ref().map(|healthz| match healthz {
            Healthz::Ok => "ok".to_owned(),
            Healthz::Failing { status, text } => format!("{status}: {}", text.trim()),
            Healthz::Refused => "connection refused".to_owned(),
            Healthz::Silent(waited) => format!("no answer within {}", seconds(*waited)),
        }),
        pleg_age_seconds: kubelet.pleg_age(),
        reading_age_seconds: kubelet.reading_age(case.evidence.taken_at).filter(|age| *age >= 1.0),
        disagreements: rules::disagreements(case).iter().map(ToString::to_string).collect(),
        not_accepted: kubelet.not_accepted.clone(),
        discarded_events: reading.and_then(|reading| reading.metrics.discarded),
        evented_pleg: kubelet.evented(),
    };
    (report != KubeletReport::default()).then_some(report)
}

/// Returns the commands that save evidence, to be run before anything is restarted. plegctl prints these commands and does
/// not run them.
fn keep(case: &Case<'_>, verdict: Verdict, findings: &[HealthFinding]) -> Vec<Step> {
    if verdict == Verdict::Healthy {
        return Vec::new();
    }
    let evidence = case.evidence;
    let mut keep = Vec::new();
    let Some(primary) = findings.first() else { return keep };
    if stacks_may_help(case, primary) {
        keep.extend(evidence.save_stacks());
    }
    let host = evidence.node();
    let reason = primary.kernel_reason.as_ref();
    let wait = reason.zip(host).and_then(|(reason, host)| {
        host.waits.iter().find(|wait| wait.pid == reason.pid && wait.reason.rule.id == reason.id)
    });
    keep.extend(reason.zip(wait).into_iter().flat_map(|(reason, wait)| wait.keep(&reason.process)));
    // The kubelet waits for the umounts of its volumes.
    let waiting = reason.zip(host).and_then(|(reason, host)| host.latest().processes.get(&reason.pid));
    let is_umount = waiting.is_some_and(Process::is_umount);
    if rules::row(primary.id).traits.contains(&Trait::KubeletStacksHelp) || is_umount {
        keep.extend(evidence.steps("keepStacks", &[]));
    }
    let is_new = |task: &Blocked| wait.is_none_or(|wait| wait.tid != task.tid);
    for (process, task) in case.blocked().into_iter().filter(|(_, task)| is_new(task)).take(5) {
        keep.push(advice::task_stack(&process.comm, process.pid, task.tid));
    }
    keep.extend(evidence.steps("keepLogs", &[]));
    keep
}

/// Returns whether the runtime's goroutine stacks may show the cause.
fn stacks_may_help(case: &Case<'_>, primary: &HealthFinding) -> bool {
    match rules::row(primary.id).stacks {
        StacksHelp::Yes => true,
        StacksHelp::No | StacksHelp::KernelShowsMore => false,
        StacksHelp::IfStuck => case.stuck(),
        StacksHelp::UnlessRestoring => case.evidence.hung_state_process().is_none(),
        StacksHelp::UnlessStopped => {
            let mut shims =
                case.evidence.node().into_iter().flat_map(|host| host.latest().with_role(Role::Shim));
            !shims.any(Process::is_stopped)
        }
        StacksHelp::IfCallsAreSlow => case.estimate.per_call.is_none_or(|took| took > limits::CALL_SLOW / 2),
    }
}
