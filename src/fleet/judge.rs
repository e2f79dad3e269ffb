//! What a node's documents mean. A verdict from outside is a careful one: it names what was seen, not its cause.

use super::Ready;
use super::histogram::{Histogram, Quantile};
use super::node::{MetricsTrouble, NodeReading, Read, Readings};
use super::report::{Counts, NodeReport, NodeVerdict, NodesReport, QuantileReport, Relists};
use crate::kubelet::http;
use crate::kubelet::timing::{EVENTED_THRESHOLD, THRESHOLD};

/// Half of the threshold: a relist that has not come back for so long rarely does by itself.
const OLD_SHARE: f64 = 0.5;

/// Relists from here on are slow in any cluster; the histogram has nothing above it.
const SLOW: f64 = 10.0;

/// The age from which on a kubelet that relists every second is late: two slow relists one after the other.
const LATE: f64 = 2.0 * SLOW;

/// Judges what came back, the worst first. `before` is an earlier look, for what happened since.
pub fn judge(readings: &Readings, before: Option<&Readings>, server: &str, context: &str) -> NodesReport {
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
    let mut counts = Counts::default();
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

fn node(reading: &NodeReading, earlier: Option<&Read>) -> NodeReport {
    let mut report = NodeReport {
        name: reading.listed.name.clone(),
        ready: reading.listed.ready.as_ref().map(|ready| *ready == Ready::Yes),
        kubelet_version: reading.listed.kubelet_version.clone(),
        took_seconds: reading.took,
        ..NodeReport::default()
    };
    let evented = reading.configz.as_ref().ok().and_then(|configz| configz.config.evented);
    report.evented_pleg = evented.filter(|on| *on);
    match &reading.metrics {
        Ok(read) => of_metrics(read, earlier, &mut report),
        Err(why) => {
            (report.verdict, report.why) = of_trouble(why, reading);
        }
    }
    of_condition(reading.listed.ready.as_ref(), &mut report);
    report
}

/// Adds what the API server says of the node: whatever the last relist was like, a node that is not ready is not healthy.
fn of_condition(ready: Option<&Ready>, report: &mut NodeReport) {
    let (at_least, word, message) = match ready {
        Some(Ready::Yes) => return,
        // The kubelet's own words; these two are about what PLEG depends on.
        Some(Ready::No(message))
            if ["PLEG is not healthy", "container runtime is down"]
                .iter()
                .any(|part| message.contains(part)) =>
        {
            (NodeVerdict::Unhealthy, "NotReady", message.as_str())
        }
        Some(Ready::No(message)) => (NodeVerdict::Degraded, "NotReady", message.as_str()),
        Some(Ready::Unknown(message)) => (NodeVerdict::Degraded, "Ready is Unknown", message.as_str()),
        None => (NodeVerdict::Unknown, "it has no condition Ready", ""),
    };
    report.verdict = report.verdict.max(at_least);
    let said = if message.is_empty() { word.to_owned() } else { format!("{word}: {message}") };
    report.why = Some(match report.why.take() {
        Some(why) => format!("{why}; {said}"),
        None => said,
    });
}

fn of_metrics(read: &Read, earlier: Option<&Read>, report: &mut NodeReport) {
    let metrics = &read.metrics;
    report.discarded_events = metrics.discarded;
    report.runtime_errors = metrics.runtime_errors;
    report.kubelet_version = metrics.version.clone().or(report.kubelet_version.take());
    let recent: Option<Histogram> = earlier.map(|earlier| read.relists.since(&earlier.relists));
    report.relists = Some(Relists {
        count: read.relists.count(),
        p50: read.relists.quantile(0.5).map(shown),
        p99: read.relists.quantile(0.99).map(shown),
        recent_p99: recent.as_ref().and_then(|recent| recent.quantile(0.99)).map(shown),
        recent_count: recent.as_ref().map(Histogram::count),
    });
    let Some(seen) = metrics.last_seen else {
        report.verdict = NodeVerdict::Degraded;
        report.why = Some("no relist has succeeded since the kubelet started".to_owned());
        return;
    };
    let age = (read.now - seen).max(0.0);
    report.pleg_age_seconds = Some(age);
    let threshold = if report.evented_pleg.is_some() { EVENTED_THRESHOLD } else { THRESHOLD }.as_secs_f64();
    let slow = |relists: &Histogram| relists.quantile(0.99).is_some_and(|p99| p99.seconds >= SLOW);
    let evented = report.evented_pleg.is_some();
    (report.verdict, report.why) = if age > threshold {
        (
            NodeVerdict::Unhealthy,
            Some(format!("PLEG was last seen {age:.0} s ago, the threshold is {threshold:.0} s")),
        )
    } else if age > threshold * OLD_SHARE {
        (NodeVerdict::Degraded, Some(format!("PLEG was last seen {age:.0} s ago")))
    } else if !evented && age > LATE {
        // With Evented PLEG a relist comes every 300 s.
        let why = format!("PLEG was last seen {age:.0} s ago, the kubelet relists every second");
        (NodeVerdict::Degraded, Some(why))
    } else if recent.as_ref().is_some_and(slow) {
        (NodeVerdict::Degraded, Some(format!("relists take {SLOW:.0} s and more")))
    } else if recent.is_none() && slow(&read.relists) {
        // When they did is not known: this is no verdict.
        let why = format!("1 % of the relists since its start took {SLOW:.0} s and more");
        (NodeVerdict::Healthy, Some(why))
    } else {
        (NodeVerdict::Healthy, None)
    };
}

const fn shown(quantile: Quantile) -> QuantileReport {
    QuantileReport { seconds: quantile.seconds, beyond: quantile.beyond }
}

fn of_trouble(why: &MetricsTrouble, reading: &NodeReading) -> (NodeVerdict, Option<String>) {
    let configz_answers = reading.configz.is_ok();
    match why {
        MetricsTrouble::Http(why) if why.is_silent() && reading.answers_after => (
            NodeVerdict::Silent,
            Some("its /metrics is silent and its /configz answers, as in a hang of a list".to_owned()),
        ),
        MetricsTrouble::Http(why) if why.is_silent() && configz_answers => (
            NodeVerdict::Unknown,
            Some("not known: its /configz answered, and then nothing came through the API server".to_owned()),
        ),
        MetricsTrouble::Http(why) if why.is_silent() => (
            NodeVerdict::Unreachable,
            Some(
                "nothing comes through the API server: it, the way from there or the kubelet hangs"
                    .to_owned(),
            ),
        ),
        MetricsTrouble::Http(why @ (http::Error::Unauthorized { .. } | http::Error::Forbidden { .. })) => {
            (NodeVerdict::Unknown, Some(format!("may not be read: {}", words(why))))
        }
        // The API server's own word for a kubelet that it does not get through to.
        MetricsTrouble::Http(why @ http::Error::Status { status: 500..=504, .. }) => {
            (NodeVerdict::Unreachable, Some(format!("the API server does not reach it: {}", words(why))))
        }
        MetricsTrouble::Http(why) => (NodeVerdict::Unknown, Some(words(why))),
        MetricsTrouble::Other(_) => (NodeVerdict::Unknown, Some(why.to_string())),
    }
}

/// Without the URL, which is the same for every node but for its name.
fn words(why: &http::Error) -> String {
    match why {
        http::Error::Forbidden { text, .. } => text.clone(),
        http::Error::Status { status, text, .. } => format!("{status} {text}"),
        http::Error::Unauthorized { .. } => "the credentials are not accepted (401)".to_owned(),
        http::Error::Redirect { to, .. } => format!("it redirects to {to}"),
        other => other.to_string(),
    }
}
