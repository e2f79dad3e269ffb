//! D22, D23, D32: the kubelet itself.

use super::{Case, finding, state};
use crate::diagnosis::kubelet::Healthz;
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, Finding, Phase, RuleId, Severity};

/// D22. Needs two readings, a relist time that is there, and a runtime that is well now.
pub(super) fn stale(case: &Case<'_>) -> Vec<Finding> {
    let kubelet = &case.evidence.kubelet;
    let runtime = &case.evidence.runtime;
    let (Some(first), Some(second)) = (&kubelet.first, &kubelet.second) else {
        return Vec::new();
    };
    let (Some(before), Some(after)) = (first.pleg_age(), second.pleg_age()) else {
        return Vec::new();
    };
    let apart = second.at.seconds_since(first.at);
    let grows = apart >= limits::METRICS_APART.as_secs_f64() && after - before >= apart - 1.0;
    let well = state::quick(runtime.sandboxes.first.as_ref())
        && state::quick(runtime.containers.first.as_ref())
        && !case.hangs()
        && case.estimate.full_answering < limits::RELIST_SLOW;
    let old = after > limits::PLEG_AGE_STALE.as_secs_f64();
    if !(old && grows && well) || kubelet.evented() == Some(true) {
        return Vec::new();
    }
    let title = format!("the runtime is well; the kubelet's own relist is {after:.0} s old and stands still");
    let mut found = finding(RuleId::D22, Severity::Critical, Confidence::Likely, title);
    found.phase = Phase::Kubelet;
    found.evidence.push(format!("age {before:.0} s, {apart:.0} s later {after:.0} s"));
    if let (Some(before), Some(after)) = (first.metrics.discarded, second.metrics.discarded)
        && after > before
    {
        found
            .evidence
            .push(format!("it threw away {:.0} events meanwhile: its event channel is full", after - before));
    }
    let stuck = case.blocked().into_iter().filter(|(process, _)| Some(process.pid) == kubelet.pid);
    found.evidence.extend(stuck.take(3).map(|(process, task)| {
        format!("{}, task {} waits uninterruptibly in {}", process.label(), task.tid, task.wchan)
    }));
    found
        .next
        .push("kubectl get --raw '/api/v1/nodes/<node>/proxy/debug/pprof/goroutine?debug=2'".to_owned());
    found.next.push("then restart the kubelet (changes state)".to_owned());
    vec![found]
}

/// D23. A fact, not a cause.
pub(super) fn evented(case: &Case<'_>) -> Vec<Finding> {
    let kubelet = &case.evidence.kubelet;
    if kubelet.evented() != Some(true) {
        return Vec::new();
    }
    let mut found =
        finding(RuleId::D23, Severity::Info, Confidence::Certain, "this kubelet uses Evented PLEG");
    found.phase = Phase::Kubelet;
    found.evidence.push(
        "it relists every 300 s and is unhealthy after 10 min; its last-seen metric proves nothing"
            .to_owned(),
    );
    if let Some(verbosity) = kubelet.config.verbosity.filter(|verbosity| *verbosity < 4) {
        found
            .evidence
            .push(format!("it logs a fall-back to polling from verbosity 4 on; it runs with {verbosity}"));
    }
    let errors = kubelet.latest().and_then(|reading| reading.metrics.evented_errors);
    found.evidence.extend(
        errors
            .filter(|errors| *errors > 0.0)
            .map(|errors| format!("its event stream broke {errors:.0} times")),
    );
    vec![found]
}

/// D32. A machine that never had a kubelet misses none.
pub(super) fn absent(case: &Case<'_>) -> Vec<Finding> {
    let kubelet = &case.evidence.kubelet;
    let runtime_runs = case.evidence.node().is_some();
    let (severity, confidence, title, line) = match &kubelet.healthz {
        Some(Healthz::Failing { status, text }) => (
            Severity::Warning,
            Confidence::Certain,
            "the kubelet says that it is not healthy".to_owned(),
            format!("/healthz answers {status}: {}", text.trim()),
        ),
        Some(Healthz::Silent(waited)) => (
            Severity::Warning,
            Confidence::Likely,
            "the kubelet does not answer /healthz".to_owned(),
            format!("no answer within {}", crate::diagnosis::words::seconds(*waited)),
        ),
        Some(Healthz::Ok) => return Vec::new(),
        None | Some(Healthz::Refused) if kubelet.pid.is_some() || !runtime_runs => return Vec::new(),
        None | Some(Healthz::Refused) => {
            let (severity, confidence) = if kubelet.installed {
                (Severity::Warning, Confidence::Likely)
            } else {
                (Severity::Info, Confidence::Possible)
            };
            (
                severity,
                confidence,
                "no kubelet runs beside this runtime".to_owned(),
                "the process table has the runtime and no kubelet".to_owned(),
            )
        }
    };
    let mut found = finding(RuleId::D32, severity, confidence, title);
    found.phase = Phase::Kubelet;
    found.evidence.push(line);
    found.evidence.push("the runtime is not at fault for this".to_owned());
    found.next.push("systemctl status kubelet; journalctl -u kubelet --since -15min".to_owned());
    vec![found]
}
