//! A report for a person: what is wrong, who holds it up, why we think so, what to do, what to keep, what we did not
//! look at. In that order, because the reader is tired. And the one line for node-problem-detector.
//!
//! All text from outside is escaped here; the report itself holds it as it came.

mod prometheus;

use std::io::{self, Write};

pub use self::prometheus::prometheus;
use super::report::{
    Confidence, EstimateReport, Finding, HealthReport, KubeletReport, PodRef, RuleId, Verdict,
};
use super::words::{plural, seconds};
use crate::report::escape::escaped;

/// How it may look. Colour helps and carries no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be written.
    pub color: bool,
    /// Whether every probe is shown.
    pub wide: bool,
}

#[derive(Clone, Copy)]
enum Tone {
    Good,
    Bad,
    Care,
    Head,
    Faint,
}

impl Style {
    fn paint(self, tone: Tone, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Care => "33",
            Tone::Head => "1",
            Tone::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Writes the whole screen.
pub fn screen(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    headline(report, out, style)?;
    if let Some(primary) = &report.primary {
        culprit(primary, out, style)?;
        section(out, style, "why we think so", &primary.evidence)?;
        section(out, style, "do this first", &primary.next)?;
    }
    section(out, style, "keep this evidence before you restart anything", &report.keep)?;
    others(report, out, style)?;
    if let Some(estimate) = &report.estimate {
        relist(estimate, out, style)?;
    }
    if let Some(kubelet) = &report.kubelet {
        kubelets_view(kubelet, out, style)?;
    }
    probes(report, out, style)?;
    not_checked(report, out, style)
}

fn headline(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let tone = match report.verdict {
        Verdict::Healthy => Tone::Good,
        Verdict::Degraded | Verdict::Unknown => Tone::Care,
        Verdict::Unhealthy => Tone::Bad,
    };
    let meaning = match report.verdict {
        Verdict::Healthy => "PLEG has nothing to wait for",
        Verdict::Degraded => "something is wrong; by this the node does not become NotReady",
        Verdict::Unhealthy => "by this the kubelet is NotReady, or will be",
        Verdict::Unknown => "this could not be judged",
    };
    let verdict = style.paint(tone, &report.verdict.as_str().to_uppercase());
    writeln!(out, "{verdict}   {meaning}")?;
    let runtime = match (&report.runtime.name, &report.runtime.version) {
        (Some(name), Some(version)) => format!("{} {}", escaped(name), escaped(version)),
        _ => "runtime unknown".to_owned(),
    };
    let node = if report.node.is_empty() { String::new() } else { format!("{}, ", escaped(&report.node)) };
    let line = format!(
        "{node}{runtime} at {}, asked {} in {:.1} s",
        escaped(&report.runtime.endpoint),
        report.taken_at,
        report.duration_seconds
    );
    writeln!(out, "{}", style.paint(Tone::Faint, &line))
}

fn culprit(primary: &Finding, out: &mut dyn Write, style: Style) -> io::Result<()> {
    writeln!(out)?;
    writeln!(
        out,
        "{} {}   ({}, phase {})",
        primary.id,
        style.paint(Tone::Head, &escaped(&primary.title)),
        primary.confidence.as_str(),
        primary.phase.as_str()
    )?;
    let mut row = |name: &str, value: &str| writeln!(out, "  {name:<10} {}", escaped(value));
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

fn pod_text(pod: &PodRef) -> String {
    if pod.uid.is_empty() || pod.name.is_empty() { pod.to_string() } else { format!("{pod} ({})", pod.uid) }
}

fn section(out: &mut dyn Write, style: Style, name: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{}", style.paint(Tone::Head, name))?;
    lines.iter().try_for_each(|line| writeln!(out, "  {}", escaped(line)))
}

fn others(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let rest = report.findings.get(1..).unwrap_or_default();
    let (possible, sure): (Vec<&Finding>, Vec<&Finding>) =
        rest.iter().partition(|finding| finding.confidence == Confidence::Possible);
    let line = |finding: &&Finding| {
        let severity = finding.severity.as_str();
        let about = match (&finding.pod, finding.ids.as_slice()) {
            (Some(_), [_, _, ..]) => format!(" (and {} more)", finding.ids.len() - 1),
            _ => String::new(),
        };
        format!("{} {severity}, {}: {}{about}", finding.id, finding.confidence.as_str(), finding.title)
    };
    let sure: Vec<String> = sure.iter().map(line).collect();
    let possible: Vec<String> = possible.iter().map(line).collect();
    section(out, style, "contributing", &sure)?;
    section(out, style, "also seen, not part of the verdict", &possible)
}

fn relist(estimate: &EstimateReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let time =
        |value: f64| std::time::Duration::try_from_secs_f64(value).map_or_else(|_| "?".to_owned(), seconds);
    let mut lines = vec![format!(
        "now {}; every pod {}; {}, {} changed within a minute",
        time(estimate.serial_relist_seconds),
        time(estimate.full_relist_seconds),
        plural(estimate.hung_calls, "hung call"),
        plural(estimate.changed_pods, "pod"),
    )];
    lines.push(match estimate.peak_age_seconds {
        None => "no relist succeeds: the age grows until the lists answer".to_owned(),
        Some(peak) => format!(
            "age peaks at {} of {}: {}",
            time(peak),
            time(estimate.threshold_seconds),
            match (estimate.would_trip, estimate.flaps) {
                (false, _) => "does not trip",
                (true, true) => "trips, and comes back in between",
                (true, false) => "trips and stays so",
            }
        ),
    });
    lines.extend(
        estimate.basis.iter().map(|basis| format!("{} {} ({})", basis.what, basis.value, basis.source)),
    );
    lines.extend(estimate.other_era.clone());
    section(out, style, "the kubelet's serial relist", &lines)
}

fn kubelets_view(kubelet: &KubeletReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let mut lines = Vec::new();
    lines.extend(kubelet.pid.map(|pid| format!("process {pid}")));
    lines.extend(kubelet.version.as_ref().map(|version| format!("version {version}")));
    lines.extend(kubelet.healthz.as_ref().map(|healthz| format!("/healthz: {healthz}")));
    lines.extend(kubelet.pleg_age_seconds.map(|age| format!("last relist {age:.0} s ago by its metrics")));
    lines.extend(kubelet.discarded_events.map(|count| format!("{count:.0} events thrown away")));
    lines.extend(kubelet.evented_pleg.filter(|on| *on).map(|_| "Evented PLEG is in use".to_owned()));
    section(out, style, "what the kubelet says", &lines)
}

fn probes(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let shown = report.probes.iter().filter(|probe| style.wide || probe.outcome != crate::cri::Outcome::Ok);
    let mut lines: Vec<String> = shown
        .map(|probe| {
            let calls = probe.calls.map(|calls| format!(" x {calls}")).unwrap_or_default();
            let bytes = probe.response_bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
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
            "{} given up, perhaps still waiting inside the runtime; none was repeated",
            plural(report.abandoned_calls, "call")
        ));
    }
    section(out, style, "probes", &lines)
}

fn not_checked(report: &HealthReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let lines: Vec<String> =
        report.not_checked.iter().map(|skipped| format!("{}: {}", skipped.what, skipped.why)).collect();
    section(out, style, "not checked", &lines)
}

/// One line of at most 80 ASCII bytes: the id first, and nothing that changes from run to run.
pub fn npd(report: &HealthReport) -> String {
    let line = match &report.primary {
        Some(primary) if report.verdict != Verdict::Healthy => {
            let mut line = format!("{} {}", primary.id, phrase(primary.id));
            if let Some(pod) = &primary.pod {
                line.push(' ');
                line.push_str(&pod.to_string());
                if let Some(container) = &primary.container {
                    line.push('/');
                    line.push_str(&container.name);
                }
            }
            if let Some(rpc) = &primary.rpc {
                line.push_str(" rpc=");
                line.push_str(rpc);
            }
            line
        }
        _ if report.verdict == Verdict::Healthy => "D00 healthy".to_owned(),
        _ => "D00 unknown: not judged".to_owned(),
    };
    line.chars()
        .map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' })
        .take(NPD_BYTES)
        .collect()
}

/// Two or three words for an id, the same in every run.
const fn phrase(id: RuleId) -> &'static str {
    match id {
        RuleId::D00 => "healthy",
        RuleId::D01 => "status hang",
        RuleId::D02 => "list hang",
        RuleId::D03 => "list too large",
        RuleId::D04 => "dead containers",
        RuleId::D05 => "slow status pass",
        RuleId::D06 => "runtime unreachable",
        RuleId::D07 => "runtime silent",
        RuleId::D08 => "storage stall",
        RuleId::D09 => "remote storage stall",
        RuleId::D10 => "shim or runc hang",
        RuleId::D11 => "frozen cgroup",
        RuleId::D12 => "out of memory",
        RuleId::D13 => "cpu starved",
        RuleId::D14 => "limits exhausted",
        RuleId::D15 => "systemd stuck",
        RuleId::D16 => "network not ready",
        RuleId::D17 => "exec probe storm",
        RuleId::D18 => "name reserved",
        RuleId::D19 => "state inconsistent",
        RuleId::D20 => "status fails",
        RuleId::D21 => "runtime recovering",
        RuleId::D22 => "kubelet stale",
        RuleId::D23 => "evented pleg",
        RuleId::D24 => "never relisted",
        RuleId::D25 => "pleg flaps",
        RuleId::D26 => "watchdog restarts",
        RuleId::D27 => "known bad version",
        RuleId::D28 => "hidden stall",
        RuleId::D29 => "list fails",
        RuleId::D30 => "lists slow",
        RuleId::D31 => "runtime not ready",
        RuleId::D32 => "kubelet down",
    }
}
