//! Decides the verdict on each node from its documents. A verdict names what was seen, not its cause.

use super::NodeReady;
use super::histogram::{BucketHistogram, Quantile};
use super::node::{FleetReading, KubeletMetrics, MetricsError, NodeReading};
use super::report::{NodeCounts, NodeReport, NodeVerdict, NodesReport, QuantileReport, Relists};
use crate::kubelet::http;
use crate::kubelet::timing::{EVENTED_THRESHOLD, THRESHOLD};

/// Half of the threshold. A relist that is open for so long rarely ends by itself.
const DEGRADED_SHARE: f64 = 0.5;

/// Relists longer than this are slow in any cluster. The kubelet's histogram has no larger bucket.
const SLOW_RELIST: f64 = 10.0;

/// The age from which on a kubelet that relists every second is late: two slow relists.
const LATE_AGE: f64 = 2.0 * SLOW_RELIST;

/// Decides the verdicts, the worst first. `before` is the previous reading, for what happened since.
pub fn judge(
    readings: &FleetReading,
    before: Option<&FleetReading>,
    server: &str,
    context: &str,
) -> NodesReport {
    let mut nodes: Vec<NodeReport> = readings
        .readings
        .iter()
        .map(|reading| {
            let earlier = before.into_iter().flat_map(|before| &before.readings);
            let mut earlier = earlier.filter(|earlier| earlier.listed.name == reading.listed.name);
            node(reading, earlier.find_map(|earlier| earlier.metrics.as_ref().ok()))
        })
        .collect();
    nodes.sort_unstable_by(|one, other| {
        let age = |node: &NodeReport| node.pleg_age_seconds.unwrap_or_default();
        let p99 =
            |node: &NodeReport| node.relists.as_ref().and_then(|r| r.p99).map_or(0.0, |p99| p99.seconds);
        (other.verdict.cmp(&one.verdict))
            .then(age(other).total_cmp(&age(one)))
            .then(p99(other).total_cmp(&p99(one)))
            .then(one.name.cmp(&other.name))
    });
    let mut counts = NodeCounts::default();
    for node in &nodes {
        counts.add(node.verdict);
    }
    NodesReport {
        taken_at: readings.taken_at,
        server: server.to_owned(),
        context: context.to_owned(),
        counts,
        nodes,
    }
}

fn node(reading: &NodeReading, earlier: Option<&KubeletMetrics>) -> NodeReport {
    let mut report = NodeReport {
        name: reading.listed.name.clone(),
        ready: reading.listed.ready.as_ref().map(|ready| *ready == NodeReady::Yes),
        kubelet_version: reading.listed.kubelet_version.clone(),
        took_seconds: reading.took,
        ..NodeReport::default()
    };
    let evented = reading.configz.as_ref().ok().and_then(|configz| configz.config.evented);
    report.evented_pleg = evented.filter(|on| *on);
    match &reading.metrics {
        Ok(read) => of_metrics(read, earlier, &mut report),
        Err(why) => {
            (report.verdict, report.why) = of_error(why, reading);
        }
    }
    of_condition(reading.listed.ready.as_ref(), &mut report);
    report
}

/// Applies the node's Ready condition: a node that is not ready is not healthy, whatever its last relist.
fn of_condition(ready: Option<&NodeReady>, report: &mut NodeReport) {
    let (at_least, word, message) = match ready {
        Some(NodeReady::Yes) => return,
        // Two texts of the kubelet that concern what PLEG depends on.
        Some(NodeReady::No(message))
            if ["PLEG is not healthy", "container runtime is down"]
                .iter()
                .any(|part| message.contains(part)) =>
        {
            (NodeVerdict::Unhealthy, "NotReady", message.as_str())
        }
        Some(NodeReady::No(message)) => (NodeVerdict::Degraded, "NotReady", message.as_str()),
        Some(NodeReady::Unknown(message)) => (NodeVerdict::Degraded, "Ready is Unknown", message.as_str()),
        None => (NodeVerdict::Unknown, "it has no condition Ready", ""),
    };
    report.verdict = report.verdict.max(at_least);
    let condition = if message.is_empty() { word.to_owned() } else { format!("{word}: {message}") };
    report.why = Some(match report.why.take() {
        Some(why) => format!("{why}; {condition}"),
        None => condition,
    });
}

fn of_metrics(read: &KubeletMetrics, earlier: Option<&KubeletMetrics>, report: &mut NodeReport) {
    let metrics = &read.metrics;
    report.discarded_events = metrics.discarded;
    report.runtime_errors = metrics.runtime_errors;
    report.kubelet_version = metrics.version.clone().or(report.kubelet_version.take());
    let recent: Option<BucketHistogram> = earlier.map(|earlier| read.relists.since(&earlier.relists));
    report.relists = Some(Relists {
        count: read.relists.count(),
        p50: read.relists.quantile(0.5).map(quantile_report),
        p99: read.relists.quantile(0.99).map(quantile_report),
        recent_p99: recent.as_ref().and_then(|recent| recent.quantile(0.99)).map(quantile_report),
        recent_count: recent.as_ref().map(BucketHistogram::count),
    });
    let Some(seen) = metrics.last_seen else {
        report.verdict = NodeVerdict::Degraded;
        report.why = Some("no relist has succeeded since the kubelet started".to_owned());
        return;
    };
    let age = (read.now - seen).max(0.0);
    report.pleg_age_seconds = Some(age);
    let threshold = if report.evented_pleg.is_some() { EVENTED_THRESHOLD } else { THRESHOLD }.as_secs_f64();
    let slow =
        |relists: &BucketHistogram| relists.quantile(0.99).is_some_and(|p99| p99.seconds >= SLOW_RELIST);
    let evented = report.evented_pleg.is_some();
    (report.verdict, report.why) = if age > threshold {
        (
            NodeVerdict::Unhealthy,
            Some(format!("PLEG was last seen {age:.0} s ago, the threshold is {threshold:.0} s")),
        )
    } else if age > threshold * DEGRADED_SHARE {
        (NodeVerdict::Degraded, Some(format!("PLEG was last seen {age:.0} s ago")))
    } else if !evented && age > LATE_AGE {
        // With Evented PLEG, a relist is made every 300 s.
        let why = format!("PLEG was last seen {age:.0} s ago, the kubelet relists every second");
        (NodeVerdict::Degraded, Some(why))
    } else if recent.as_ref().is_some_and(slow) {
        (NodeVerdict::Degraded, Some(format!("relists take {SLOW_RELIST:.0} s and more")))
    } else if recent.is_none() && slow(&read.relists) {
        // The time of the slow relists is not known, so this does not change the verdict.
        let why = format!("1 % of the relists since its start took {SLOW_RELIST:.0} s and more");
        (NodeVerdict::Healthy, Some(why))
    } else {
        (NodeVerdict::Healthy, None)
    };
}

const fn quantile_report(quantile: Quantile) -> QuantileReport {
    QuantileReport { seconds: quantile.seconds, beyond: quantile.beyond }
}

fn of_error(why: &MetricsError, reading: &NodeReading) -> (NodeVerdict, Option<String>) {
    let configz_answers = reading.configz.is_ok();
    match why {
        MetricsError::Http(why) if why.is_silent() && reading.answers_after => (
            NodeVerdict::Silent,
            Some("its /metrics is silent while its /configz answers: a list call probably hangs".to_owned()),
        ),
        MetricsError::Http(why) if why.is_silent() && configz_answers => (
            NodeVerdict::Unknown,
            Some(
                "not known: /configz was answered, and then no answer arrived through the API \
                  server"
                    .to_owned(),
            ),
        ),
        MetricsError::Http(why) if why.is_silent() => (
            NodeVerdict::Unreachable,
            Some(
                "no answer arrives through the API server: the API server, the connection to the kubelet or \
                 the kubelet hangs"
                    .to_owned(),
            ),
        ),
        MetricsError::Http(why @ (http::Error::Unauthorized { .. } | http::Error::Forbidden { .. })) => {
            (NodeVerdict::Unknown, Some(format!("no permission to read it: {}", error_text(why))))
        }
        // The API server answers so if it cannot reach a kubelet.
        MetricsError::Http(why @ http::Error::Status { status: 500..=504, .. }) => {
            (NodeVerdict::Unreachable, Some(format!("the API server does not reach it: {}", error_text(why))))
        }
        MetricsError::Http(why) => (NodeVerdict::Unknown, Some(error_text(why))),
        MetricsError::Other(_) => (NodeVerdict::Unknown, Some(why.to_string())),
    }
}

/// Returns the error text without the URL, which differs between nodes only in the name.
fn error_text(why: &http::Error) -> String {
    match why {
        http::Error::Forbidden { text, .. } => text.clone(),
        http::Error::Status { status, text, .. } => format!("{status} {text}"),
        http::Error::Unauthorized { .. } => "the credentials are not accepted (401)".to_owned(),
        http::Error::Redirect { to, .. } => format!("it redirects to {to}"),
        other => other.to_string(),
    }
}
