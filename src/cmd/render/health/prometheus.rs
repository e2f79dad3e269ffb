//! `health -o prometheus`: formats a health report as metrics for the textfile collector of the node exporter.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::diagnosis::report::{HealthReport, Verdict};
use crate::report::escape::label_value;

/// Writes all metrics.
pub fn prometheus(report: &HealthReport, out: &mut dyn Write) -> io::Result<()> {
    family(out, "plegctl_health_verdict", "The verdict of plegctl health.")?;
    for verdict in Verdict::ALL {
        let labels = [("verdict", verdict.as_str())];
        sample(out, "plegctl_health_verdict", &labels, f64::from(u8::from(verdict == report.verdict)))?;
    }
    if !report.findings.is_empty() {
        family(out, "plegctl_health_finding", "A finding of the diagnosis.")?;
    }
    for finding in &report.findings {
        let id = finding.id.to_string();
        let pod = finding.pod.clone().unwrap_or_default();
        let container = finding.container.as_ref().map_or("", |container| container.name.as_str());
        let labels = [
            ("id", id.as_str()),
            ("severity", finding.severity.as_str()),
            ("confidence", finding.confidence.as_str()),
            ("phase", finding.phase.as_str()),
            ("rpc", finding.rpc.as_deref().unwrap_or_default()),
            ("namespace", pod.namespace.as_str()),
            ("pod", pod.name.as_str()),
            ("container", container),
        ];
        sample(out, "plegctl_health_finding", &labels, 1.0)?;
    }
    if let Some(estimate) = &report.estimate {
        let (now, full) = (estimate.serial_relist_seconds, estimate.full_relist_seconds);
        let hung_calls = f64::from(u32::try_from(estimate.hung_calls).unwrap_or(u32::MAX));
        let would_trip = f64::from(u8::from(estimate.would_trip));
        gauge(out, "serial_relist_seconds", "How long the kubelet's relist would take now.", now)?;
        gauge(out, "full_relist_seconds", "How long a relist of every pod would take.", full)?;
        let deadline = "Calls that reach the kubelet's deadline in each relist.";
        gauge(out, "hung_calls", deadline, Some(hung_calls))?;
        gauge(out, "would_trip", "Whether PLEG would be called unhealthy.", Some(would_trip))?;
    }
    gauge(out, "duration_seconds", "How long the diagnosis took.", Some(report.duration_seconds))
}

/// Writes a metric without labels, if its value is known.
fn gauge(out: &mut dyn Write, name: &str, help: &str, value: Option<f64>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    let name = format!("plegctl_health_{name}");
    family(out, &name, help)?;
    sample(out, &name, &[], value)
}

fn family(out: &mut dyn Write, name: &str, help: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")
}

/// Writes one sample. An empty label means the same as no label, so it is left out.
fn sample(out: &mut dyn Write, name: &str, labels: &[(&str, &str)], value: f64) -> io::Result<()> {
    let mut text = String::new();
    for (key, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{key}={}", label_value(value));
    }
    let labels = if text.is_empty() { text } else { format!("{{{text}}}") };
    writeln!(out, "{name}{labels} {value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_and_empty_labels_are_left_out() {
        let mut out = Vec::new();
        sample(&mut out, "m", &[("a", "x\"y\u{7f}"), ("b", "")], 1.0).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "m{a=\"x\\\"y\\\\u{7f}\"} 1\n");
    }
}
