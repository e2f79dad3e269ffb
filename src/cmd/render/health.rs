//! A health report as metrics. The screen is `diagnosis::render`'s.

use std::io::{self, Write};

use super::relist::gauge;
use crate::diagnosis::report::{HealthReport, Verdict};

/// Writes verdict, findings and estimate.
pub fn prometheus(report: &HealthReport, out: &mut dyn Write) -> io::Result<()> {
    gauge(out, "plegctl_health", "1 for the verdict that holds, 0 for the others.")?;
    for verdict in [Verdict::Healthy, Verdict::Degraded, Verdict::Unhealthy, Verdict::Unknown] {
        let holds = u8::from(verdict == report.verdict);
        writeln!(out, "plegctl_health{{verdict=\"{}\"}} {holds}", verdict.as_str())?;
    }
    if !report.findings.is_empty() {
        gauge(out, "plegctl_health_findings", "Findings by id and confidence.")?;
    }
    let mut kinds: Vec<(String, &str)> =
        report.findings.iter().map(|finding| (finding.id.to_string(), finding.confidence.as_str())).collect();
    kinds.sort_unstable();
    for same in kinds.chunk_by(|one, other| one == other) {
        if let Some((id, confidence)) = same.first() {
            let count = same.len();
            writeln!(out, "plegctl_health_findings{{id=\"{id}\",confidence=\"{confidence}\"}} {count}")?;
        }
    }
    gauge(out, "plegctl_health_duration_seconds", "How long the diagnosis took.")?;
    writeln!(out, "plegctl_health_duration_seconds {}", report.duration_seconds)?;
    if let Some(estimate) = &report.estimate {
        let name = "plegctl_serial_relist_estimate_seconds";
        gauge(out, name, "How long the kubelet's relist of everything would take.")?;
        writeln!(out, "{name} {}", estimate.serial_relist_seconds)?;
    }
    Ok(())
}
