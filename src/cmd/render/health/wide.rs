//! Formats the whole health report, section by section, for `-o wide`.

use std::io;

use super::HEADING;
use crate::cmd::render::page::{Line, Page};
use crate::diagnosis::report::{
    Confidence, CulpritOutcome, EstimateReport, HealthFinding, HealthReport, KubeletReport, PodRef,
};
use crate::diagnosis::words::seconds;
use crate::report::{Step, plural};

/// Writes everything after the first two lines.
pub(super) fn sections(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    if let Some(primary) = &report.primary {
        culprit(primary, out)?;
        section(out, &super::heading_of_evidence(report), &primary.evidence)?;
    }
    culprits(report, out)?;
    section(out, super::SUSPECTS, &super::suspect_lines(report))?;
    steps(out, super::what_to_keep(report), &report.keep)?;
    if let Some(primary) = &report.primary {
        steps(out, super::what_to_do(report), &primary.steps)?;
    }
    others(report, out)?;
    if let Some(estimate) = &report.estimate {
        relist(estimate, out)?;
    }
    if let Some(kubelet) = &report.kubelet {
        kubelets_view(kubelet, out)?;
    }
    probes(report, out)?;
    not_checked(report, out)
}

fn culprit(primary: &HealthFinding, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out)?;
    out.line(&Line::from(format!("{} ", primary.id)).and(HEADING, &primary.title))?;
    let mut row = |name: &str, value: &str| writeln!(out, "  {name:<10} {value}");
    if let Some(rpc) = &primary.rpc {
        row("call", rpc)?;
    }
    if let Some(pod) = &primary.pod {
        row("pod", &pod_text(pod))?;
    }
    if let Some(container) = &primary.container {
        row("container", &format!("{} {}", container.name, container.id))?;
    } else if let Some(id) = primary.ids.first() {
        row("id", id)?;
    }
    Ok(())
}

fn culprits(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    let lines: Vec<String> = report
        .culprits
        .iter()
        .map(|culprit| {
            let pod = culprit.pod.as_ref().map_or_else(String::new, |pod| format!("{pod} "));
            let container = culprit.container.as_ref().map_or("", |container| container.name.as_str());
            let outcome = match culprit.outcome {
                CulpritOutcome::Silent => "silent for",
                CulpritOutcome::Slow => "answered after",
                CulpritOutcome::Error => "failed after",
            };
            let waited = std::time::Duration::try_from_secs_f64(culprit.waited_seconds).unwrap_or_default();
            let holder = culprit.holder.as_ref().map(|holder| format!("; {holder}")).unwrap_or_default();
            format!(
                "{} {pod}{container} {}: {outcome} {} ({}){holder}",
                culprit.rpc,
                culprit.id,
                seconds(waited),
                culprit.confidence.as_str()
            )
        })
        .collect();
    section(out, "calls that keep the kubelet waiting", &lines)
}

fn pod_text(pod: &PodRef) -> String {
    if pod.uid.is_empty() || pod.name.is_empty() { pod.to_string() } else { format!("{pod} ({})", pod.uid) }
}

fn section(out: &mut Page<'_>, name: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.colored(HEADING, name)?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn steps(out: &mut Page<'_>, name: &str, steps: &[Step]) -> io::Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.colored(HEADING, name)?;
    let lines = steps.iter().flat_map(|step| super::steps::painted(step, usize::MAX));
    lines.into_iter().try_for_each(|line| out.line(&line))
}

fn others(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    let rest = report.findings.get(1..).unwrap_or_default();
    let (possible, sure): (Vec<&HealthFinding>, Vec<&HealthFinding>) =
        rest.iter().partition(|finding| finding.confidence == Confidence::Possible);
    let line = |finding: &&HealthFinding| {
        let severity = finding.severity.as_str();
        let about = match (&finding.pod, finding.ids.as_slice()) {
            (Some(_), [_, _, ..]) => format!(" (and {} more)", finding.ids.len() - 1),
            _ => String::new(),
        };
        format!("{} {severity}, {}: {}{about}", finding.id, finding.confidence.as_str(), finding.title)
    };
    let sure: Vec<String> = sure.iter().map(line).collect();
    let possible: Vec<String> = possible.iter().map(line).collect();
    section(out, "contributing", &sure)?;
    section(out, "also seen, not part of the verdict", &possible)
}

fn relist(estimate: &EstimateReport, out: &mut Page<'_>) -> io::Result<()> {
    let time =
        |value: f64| std::time::Duration::try_from_secs_f64(value).map_or_else(|_| "?".to_owned(), seconds);
    let now = estimate.serial_relist_seconds.map(|now| {
        format!(
            "a relist now takes {}: both lists, and {} that changed within a minute",
            time(now),
            plural(estimate.changed_pods, "pod"),
        )
    });
    let full = estimate
        .full_relist_seconds
        .map(|full| format!("one that visits every pod, as after a kubelet restart, takes {}", time(full)));
    let mut lines: Vec<String> = now.into_iter().chain(full).collect();
    if estimate.hung_calls > 0 {
        lines.push(format!(
            "{} in it reach the kubelet's deadline of {}",
            plural(estimate.hung_calls, "call"),
            time(estimate.request_timeout_seconds)
        ));
    }
    lines.push(match estimate.peak_age_seconds {
        None => "no relist succeeds, so the age of PLEG grows until the list calls are answered".to_owned(),
        Some(peak) => format!(
            "the age of PLEG reaches {}, and the node becomes NotReady at {}: {}",
            time(peak),
            time(estimate.threshold_seconds),
            match (estimate.would_trip, estimate.flaps) {
                (false, _) => "it stays Ready",
                (true, true) => "it becomes NotReady and Ready again and again",
                (true, false) => "it becomes NotReady and stays NotReady",
            }
        ),
    });
    lines.extend(
        estimate.basis.iter().map(|basis| format!("{} {} ({})", basis.what, basis.value, basis.source)),
    );
    lines.extend(estimate.other_era.clone());
    section(out, "estimated relist of the kubelet", &lines)
}

fn kubelets_view(kubelet: &KubeletReport, out: &mut Page<'_>) -> io::Result<()> {
    let mut lines = Vec::new();
    lines.extend(kubelet.pid.map(|pid| format!("process {pid}")));
    lines.extend(kubelet.version.as_ref().map(|version| format!("version {version}")));
    lines.extend(kubelet.healthz.as_ref().map(|healthz| format!("/healthz: {healthz}")));
    lines.extend(kubelet.pleg_age_seconds.map(|age| format!("last relist {age:.0} s ago by its metrics")));
    lines.extend(kubelet.disagreements.iter().map(|line| format!("but: {line}")));
    lines.extend(kubelet.discarded_events.map(|count| format!("events dropped: {count:.0}")));
    lines.extend(kubelet.evented_pleg.filter(|on| *on).map(|_| "Evented PLEG is in use".to_owned()));
    section(out, "the kubelet", &lines)
}

fn probes(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    let mut lines: Vec<String> = report
        .probes
        .iter()
        .map(|probe| {
            let calls = probe.calls.map(|calls| format!(" x {calls}")).unwrap_or_default();
            let bytes =
                probe.response_bytes.map(|bytes| format!(", {}", plural(bytes, "byte"))).unwrap_or_default();
            format!(
                "{}{calls}: {}, {:.3} s{bytes}",
                probe.name,
                probe.outcome.as_str(),
                probe.duration_seconds
            )
        })
        .collect();
    if report.abandoned_calls > 0 {
        lines.push(format!(
            "{} given up, perhaps still pending in the runtime; plegctl repeated none",
            plural(report.abandoned_calls, "call")
        ));
    }
    section(out, "probes", &lines)
}

fn not_checked(report: &HealthReport, out: &mut Page<'_>) -> io::Result<()> {
    let lines: Vec<String> =
        report.not_checked.iter().map(|skipped| format!("{}: {}", skipped.what, skipped.why)).collect();
    section(out, "not checked", &lines)
}
