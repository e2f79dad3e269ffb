//! Turns the evidence into the report: applies the rules, orders the findings and decides the verdict.

mod culprits;
mod summary;

use std::cmp::Reverse;

use crate::cri::{Call, Error, Outcome};
use crate::diagnosis::evidence::{Evidence, StatusRecord};
use crate::diagnosis::report::{
    Confidence, HealthFinding, HealthReport, KubeletReport, NotChecked, Phase, ProbeReport, RuleId, Severity,
    Verdict,
};
use crate::diagnosis::rules::{self, Case};
use crate::diagnosis::words::seconds;
use crate::report::RuntimeRef;

/// Judges the evidence and returns the report.
pub fn judge(evidence: &Evidence) -> HealthReport {
    let case = Case::new(evidence);
    let (mut findings, failed) = rules::apply(&case);
    findings.sort_by_key(order);
    let verdict = verdict(&case, &findings);
    if verdict == Verdict::Healthy {
        findings.insert(0, rules::nothing_found(&case));
    }
    let keep = keep(&case, verdict, &findings);
    let primary = findings.first().cloned();
    let phase = match (&primary, verdict) {
        (Some(primary), Verdict::Degraded | Verdict::Unhealthy | Verdict::Unknown) => primary.phase,
        _ => Phase::None,
    };
    let version = evidence.runtime.version_answer();
    HealthReport {
        api_version: HealthReport::API_VERSION.to_owned(),
        kind: HealthReport::KIND.to_owned(),
        taken_at: evidence.taken_at,
        moment: evidence.moment,
        node: evidence.node.clone(),
        runtime: RuntimeRef {
            endpoint: evidence.endpoint.clone(),
            name: version.map(|version| version.runtime_name.clone()),
            version: version.map(|version| version.runtime_version.clone()),
            api_version: version.map(|version| version.runtime_api_version.clone()),
        },
        duration_seconds: evidence.took.as_secs_f64(),
        verdict,
        phase,
        summary: summary::sentence(&case, verdict, primary.as_ref()),
        primary,
        culprits: culprits::culprits(&case),
        findings,
        probes: probes(evidence),
        abandoned_calls: abandoned(evidence),
        not_checked: not_checked(evidence).into_iter().chain(failed.into_iter().map(not_applied)).collect(),
        estimate: version
            .filter(|_| case.estimate_is_known())
            .map(|_| case.estimate.report(&evidence.settings)),
        kubelet: kubelet(&case),
        keep,
        stacks: evidence.stacks.clone(),
    }
}

fn not_applied((rule, why): (RuleId, String)) -> NotChecked {
    NotChecked { what: format!("rule {rule:?}"), why: format!("plegctl itself failed: {why}") }
}

fn order(finding: &HealthFinding) -> (bool, Reverse<Severity>, u8, Confidence) {
    let rank = rules::row(finding.id).map_or(u8::MAX, |row| row.rank);
    (finding.confidence == Confidence::Possible, Reverse(finding.severity), rank, finding.confidence)
}

fn verdict(case: &Case<'_>, findings: &[HealthFinding]) -> Verdict {
    let evidence = case.evidence;
    if let Some(verdict) = connection_verdict(evidence) {
        return verdict;
    }
    let runtime = &evidence.runtime;
    let sure = |finding: &&HealthFinding| finding.confidence != Confidence::Possible;
    let by_itself = |finding: &HealthFinding| match finding.id {
        RuleId::D31 => true,
        // The kubelet itself reports an unhealthy PLEG, or no kubelet works; otherwise D22 and D32 are only
        // warnings.
        RuleId::D22 => case.evidence.kubelet_is_over(),
        RuleId::D32 => finding.severity == Severity::Critical,
        _ => false,
    };
    if case.estimate.would_trip || findings.iter().filter(sure).any(by_itself) {
        return Verdict::Unhealthy;
    }
    if !runtime.lists_are_known() || !evidence.bad_input.is_empty() {
        return Verdict::Unknown;
    }
    let matters = findings.iter().filter(sure).any(|finding| finding.severity != Severity::Info);
    // Good answers to only a part of the calls do not make the node healthy.
    let open = runtime.cut_short().next().is_some() || runtime.status_is_open();
    match (matters, open || evidence.ended_early.is_some()) {
        (true, _) => Verdict::Degraded,
        (false, true) => Verdict::Unknown,
        (false, false) => Verdict::Healthy,
    }
}

/// Returns the verdict if the connection to the runtime decides it.
fn connection_verdict(evidence: &Evidence) -> Option<Verdict> {
    let runtime = &evidence.runtime;
    if runtime.version_answer().is_some() {
        return None;
    }
    let Some(version) = &runtime.version else {
        return Some(Verdict::Unknown);
    };
    Some(match version.result.as_ref().err() {
        // One silent Version proves nothing; long silences on two connections do.
        Some(Error::Silent { .. }) if runtime.both_versions_silent().is_none() => Verdict::Unknown,
        Some(
            Error::Unfinished { .. }
            | Error::NoSuchSocket { .. }
            | Error::NotASocket { .. }
            | Error::PermissionDenied { .. }
            | Error::Unreachable { .. },
        ) => Verdict::Unknown,
        _ => Verdict::Unhealthy,
    })
}

fn probe<T>(call: &Call<T>, name: &str) -> ProbeReport {
    ProbeReport {
        name: name.to_owned(),
        outcome: call.outcome(),
        duration_seconds: call.duration.as_secs_f64(),
        response_bytes: Some(call.response_bytes),
        calls: None,
        message: call.result.as_ref().err().map(ToString::to_string),
    }
}

fn probes(evidence: &Evidence) -> Vec<ProbeReport> {
    let runtime = &evidence.runtime;
    let mut probes = Vec::new();
    probes.extend(runtime.version.iter().map(|call| probe(call, "Version")));
    probes.extend(runtime.control.iter().map(|call| probe(call, "Version (second connection)")));
    probes.extend(runtime.status.iter().map(|call| probe(call, "Status")));
    probes.extend(runtime.sandboxes.first.iter().map(|call| probe(call, "ListPodSandbox")));
    probes.extend(runtime.containers.first.iter().map(|call| probe(call, "ListContainers")));
    probes.extend(runtime.sandboxes.second.iter().map(|call| probe(call, "ListPodSandbox (again)")));
    probes.extend(runtime.containers.second.iter().map(|call| probe(call, "ListContainers (again)")));
    for rpc in [crate::cri::Rpc::PodSandboxStatus, crate::cri::Rpc::ContainerStatus] {
        let calls = runtime.status_calls.iter().filter(|record| record.rpc == rpc);
        probes.extend(together(rpc.name(), calls));
    }
    probes.extend(together("ContainerStats", runtime.shims.iter()));
    probes.extend(evidence.kubelet.requests.iter().map(|(name, outcome, took)| ProbeReport {
        name: (*name).to_owned(),
        outcome: *outcome,
        duration_seconds: took.as_secs_f64(),
        response_bytes: None,
        calls: None,
        message: None,
    }));
    probes
}

/// Summarises many calls of one kind in one line, with a line of its own for each silent call.
fn together<'a>(name: &str, calls: impl Iterator<Item = &'a StatusRecord>) -> Vec<ProbeReport> {
    let (silent, answered): (Vec<_>, Vec<_>) = calls.partition(|record| record.is_silent());
    let mut lines = Vec::new();
    if !answered.is_empty() {
        // An item may be removed between the list and the status call; that is no failure.
        let is_failure = |why: &Error| !why.is_not_found();
        let failed = answered.iter().filter(|record| record.result.as_ref().is_err_and(is_failure)).count();
        lines.push(ProbeReport {
            name: name.to_owned(),
            outcome: if failed > 0 { Outcome::Error } else { Outcome::Ok },
            duration_seconds: answered.iter().map(|record| record.duration.as_secs_f64()).sum(),
            response_bytes: Some(answered.iter().map(|record| record.response_bytes).sum()),
            calls: Some(answered.len()),
            message: (failed > 0).then(|| format!("{failed} answered with an error")),
        });
    }
    lines.extend(silent.into_iter().map(|record| ProbeReport {
        name: format!("{name} {}", record.target.id),
        outcome: Outcome::Silent,
        duration_seconds: record.duration.as_secs_f64(),
        response_bytes: None,
        calls: None,
        message: None,
    }));
    lines
}

/// Counts the calls that were given up: each may still be pending inside the runtime.
fn abandoned(evidence: &Evidence) -> usize {
    let runtime = &evidence.runtime;
    let silent = |outcome: Option<Outcome>| usize::from(outcome == Some(Outcome::Silent));
    silent(runtime.version.as_ref().map(Call::outcome))
        + silent(runtime.control.as_ref().map(Call::outcome))
        + silent(runtime.status.as_ref().map(Call::outcome))
        + silent(runtime.sandboxes.first.as_ref().map(Call::outcome))
        + silent(runtime.containers.first.as_ref().map(Call::outcome))
        + silent(runtime.sandboxes.second.as_ref().map(Call::outcome))
        + silent(runtime.containers.second.as_ref().map(Call::outcome))
        + runtime.status_calls.iter().filter(|record| record.is_silent()).count()
        + runtime.shims.iter().filter(|record| record.is_silent()).count()
}

fn not_checked(evidence: &Evidence) -> Vec<NotChecked> {
    let ended_early =
        evidence.ended_early.iter().map(|why| NotChecked { what: "the rest".into(), why: why.clone() });
    let mut all: Vec<NotChecked> = ended_early.chain(evidence.not_checked.iter().cloned()).collect();
    for bad in &evidence.bad_input {
        if !all.iter().any(|skipped| skipped.why == *bad) {
            all.push(NotChecked { what: "a source that you named".into(), why: bad.clone() });
        }
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
        disagreements: rules::disagreements(case),
        not_accepted: kubelet.not_accepted.clone(),
        discarded_events: reading.and_then(|reading| reading.metrics.discarded),
        evented_pleg: kubelet.evented(),
    };
    (report != KubeletReport::default()).then_some(report)
}

/// Returns the commands that save evidence before anybody restarts anything. plegctl prints these commands
/// and never runs them.
fn keep(case: &Case<'_>, verdict: Verdict, findings: &[HealthFinding]) -> Vec<String> {
    if verdict == Verdict::Healthy {
        return Vec::new();
    }
    let evidence = case.evidence;
    let mut keep = Vec::new();
    if findings.iter().all(|finding| finding.id != RuleId::D06) {
        keep.extend(evidence.save_stacks());
    }
    for (process, task) in case.blocked().into_iter().take(5) {
        keep.push(format!("cat /proc/{}/task/{}/stack   # {} in D", process.pid, task.tid, process.comm));
    }
    keep.push(format!(
        "dmesg -T > dmesg.txt; journalctl --since -30min -u kubelet {} > journal.txt",
        evidence.runtime_units()
    ));
    keep
}
