//! Decides the verdict on each node from its kubelet's documents, its recorder's verdict and its condition `Ready`. The
//! reason names what was observed; only the recorder's finding names a cause.

use super::histogram::BucketHistogram;
use super::node::{FleetReading, KubeletMetrics, MetricsError, NodeReading};
use super::recorders::{RecorderReading, RecorderWord};
use super::report::{NodeCounts, NodeReport, NodeVerdict, NodesReport, RelistSeconds};
use super::{ListedNode, NodeReady};
use crate::clock::Wall;
use crate::kubelet::http;
use crate::kubelet::timing::{EVENTED_THRESHOLD, THRESHOLD};
use crate::report::{NotChecked, plural};

/// The share of the threshold at which a node is degraded. A relist that takes so long rarely ends by itself.
const DEGRADED_SHARE: f64 = 0.5;

/// The duration in seconds at which a relist is slow. The kubelet's histogram has no larger bound.
const SLOW_RELIST: f64 = 10.0;

/// The age in seconds at which a kubelet that relists every second is degraded: two slow relists.
const LATE_AGE: f64 = 2.0 * SLOW_RELIST;

/// Judges all nodes and returns the report, the worst node first. `before` is the previous reading, for the relists
/// since then.
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
            let earlier = earlier.find_map(|earlier| earlier.metrics.as_ref().ok());
            node_report(reading, earlier, readings.taken_at)
        })
        .collect();
    let is_of_kubelet =
        |node: &&NodeReport| node.verdict == NodeVerdict::Healthy && !node.has_recorders_verdict();
    let by_kubelet = nodes.iter().filter(is_of_kubelet).count();
    let not_checked = (by_kubelet > 0).then(|| NotChecked {
        what: format!("the runtime of {}", plural(by_kubelet, "healthy node")),
        why: "no recorder gave a verdict: healthy means only that the kubelet relists".to_owned(),
    });
    nodes.sort_by(|one, other| {
        let age = |node: &NodeReport| node.pleg_age_seconds.unwrap_or_default();
        let p99 = |node: &NodeReport| node.relist_seconds.as_ref().map_or(0.0, |seconds| seconds.p99);
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
        not_checked: Vec::from_iter(not_checked),
    }
}

/// Judges one node.
fn node_report(reading: &NodeReading, earlier: Option<&KubeletMetrics>, now: Wall) -> NodeReport {
    let mut report = NodeReport {
        name: reading.listed.name.clone(),
        ready: reading.listed.ready.as_ref().map(|ready| *ready == NodeReady::Yes),
        kubelet_version: reading.listed.kubelet_version.clone(),
        runtime: reading.listed.runtime.clone(),
        duration_seconds: reading.took,
        ..NodeReport::default()
    };
    let evented = reading.configz.as_ref().and_then(|configz| configz.config.evented);
    report.evented_pleg = evented.filter(|on| *on);
    match &reading.metrics {
        Ok(read) => apply_metrics(read, earlier, &mut report),
        Err(why) => {
            (report.verdict, report.why) = verdict_without_metrics(why, reading);
        }
    }
    report.recorder = reading.recorder.as_ref().map(RecorderReading::report);
    apply_recorder(&mut report);
    apply_condition(&reading.listed, &mut report, now);
    report
}

/// Applies the verdict of the node's recorder: it can make the verdict worse. It makes the verdict better only if nothing
/// is known from the kubelet, or only that its metrics are silent.
fn apply_recorder(report: &mut NodeReport) {
    let Some(recorder) = &report.recorder else { return };
    let mut words = Vec::new();
    if let Some(verdict) = recorder.verdict.and_then(RecorderWord::node_verdict) {
        if verdict != NodeVerdict::Healthy {
            let id = recorder.primary.as_ref().map_or("its recorder", |primary| primary.id.as_str());
            // The condition of a node that is not ready has the time, which the summary only predicts.
            let title = recorder.primary.as_ref().filter(|_| report.ready == Some(false));
            let title = title.map(|primary| primary.title.as_str()).filter(|title| !title.is_empty());
            let text = title.or(recorder.summary.as_deref()).unwrap_or_default();
            words.push(format!("{id}: {text}"));
        }
        report.verdict = match report.verdict {
            NodeVerdict::Unknown => verdict,
            NodeVerdict::Silent => {
                let answered = "its /metrics is silent; its recorder's list calls are answered";
                report.why = (verdict < NodeVerdict::Unhealthy).then(|| answered.to_owned());
                verdict.max(NodeVerdict::Degraded)
            }
            known => known.max(verdict),
        };
    }
    words.extend(report.why.take());
    words.extend(recorder.error.as_ref().map(|why| format!("its recorder {}: {why}", recorder.pod)));
    report.why = (!words.is_empty()).then(|| words.join("; "));
}

/// Applies the node's condition `Ready`: a node that is not ready is at least degraded, even if it relists normally.
fn apply_condition(listed: &ListedNode, report: &mut NodeReport, now: Wall) {
    let (at_least, word, message) = match &listed.ready {
        Some(NodeReady::Yes) => return,
        Some(ready @ NodeReady::No(message)) if ready.is_about_pleg() => {
            (NodeVerdict::Unhealthy, "NotReady", message.as_str())
        }
        Some(NodeReady::No(message)) => (NodeVerdict::Degraded, "NotReady", message.as_str()),
        Some(NodeReady::Unknown(message)) => (NodeVerdict::Degraded, "Ready is Unknown", message.as_str()),
        None => (NodeVerdict::Unknown, "it has no condition Ready", ""),
    };
    report.verdict = report.verdict.max(at_least);
    let since = listed.ready_since.map(|since| format!(" since {}", since.time_of_day(now)));
    let word = format!("{word}{}", since.unwrap_or_default());
    let condition = if message.is_empty() { word } else { format!("{word}: {message}") };
    report.why = Some(match report.why.take() {
        Some(why) => format!("{why}; {condition}"),
        None => condition,
    });
}

/// Judges a node by the kubelet's metrics.
fn apply_metrics(read: &KubeletMetrics, earlier: Option<&KubeletMetrics>, report: &mut NodeReport) {
    let metrics = &read.metrics;
    report.discarded_events = metrics.discarded;
    report.runtime_errors = metrics.runtime_errors;
    report.kubelet_version = metrics.version.clone().or(report.kubelet_version.take());
    let recent: Option<BucketHistogram> = earlier.map(|earlier| read.relists.since(&earlier.relists));
    report.relists = Some(read.relists.count());
    report.relist_seconds = relist_seconds(&read.relists);
    report.recent_relists = recent.as_ref().map(BucketHistogram::count);
    report.recent_relist_seconds = recent.as_ref().and_then(relist_seconds);
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
        // With EventedPLEG, the kubelet relists only every 300 s.
        let why = format!("PLEG was last seen {age:.0} s ago, the kubelet relists every second");
        (NodeVerdict::Degraded, Some(why))
    } else if recent.as_ref().is_some_and(slow) {
        (NodeVerdict::Degraded, Some(format!("relists take {SLOW_RELIST:.0} s and more")))
    } else if recent.is_none() && slow(&read.relists) {
        // The relists may have been slow long ago, so they do not change the verdict.
        let why = format!("1 % of the relists since its start took {SLOW_RELIST:.0} s and more");
        (NodeVerdict::Healthy, Some(why))
    } else {
        (NodeVerdict::Healthy, None)
    };
}

/// Returns the quantiles of a histogram; `None` if there are no values.
fn relist_seconds(relists: &BucketHistogram) -> Option<RelistSeconds> {
    let mut at_least = Vec::new();
    let mut seconds = |rank, name| {
        let quantile = relists.quantile(rank)?;
        at_least.extend(quantile.beyond.then_some(name));
        Some(quantile.seconds)
    };
    let (p50, p90, p99) = (seconds(0.5, "p50")?, seconds(0.9, "p90")?, seconds(0.99, "p99")?);
    Some(RelistSeconds { p50, p90, p99, at_least })
}

/// Judges a node whose metrics could not be read.
fn verdict_without_metrics(why: &MetricsError, reading: &NodeReading) -> (NodeVerdict, Option<String>) {
    let why = match why {
        MetricsError::Http(why) => why,
        MetricsError::Other(_) => return (NodeVerdict::Unknown, Some(why.to_string())),
        MetricsError::NotRequested => return (NodeVerdict::Unknown, None),
    };
    let (verdict, text) = match why {
        why if why.is_silent() && reading.answers_after => (
            NodeVerdict::Silent,
            "its /metrics is silent while its /configz answers: the kubelet waits, possibly for a list call"
                .to_owned(),
        ),
        why if why.is_silent() && reading.configz.is_some() => (
            NodeVerdict::Unknown,
            "not known: /configz was answered, and then no answer arrived through the API server".to_owned(),
        ),
        why if why.is_silent() => (
            NodeVerdict::Unreachable,
            "no answer arrives through the API server: the API server, the connection to the kubelet or \
             the kubelet hangs"
                .to_owned(),
        ),
        http::Error::Unauthorized { .. } | http::Error::Forbidden { .. } => {
            (NodeVerdict::Unknown, format!("no permission to read it: {}", error_text(why)))
        }
        // The API server answers with these statuses if it cannot reach a kubelet.
        http::Error::Status { status: 500..=504, .. } => {
            (NodeVerdict::Unreachable, format!("the API server does not reach it: {}", error_text(why)))
        }
        why => (NodeVerdict::Unknown, error_text(why)),
    };
    (verdict, Some(text))
}

/// Returns the error text without the URL, which would repeat the node's name.
pub fn error_text(why: &http::Error) -> String {
    match why {
        http::Error::Forbidden { text, .. } => text.clone(),
        http::Error::Status { status, text, .. } => format!("{status} {text}"),
        http::Error::Unauthorized { .. } => "the credentials are not accepted (401)".to_owned(),
        http::Error::Redirect { to, .. } => format!("it redirects to {to}"),
        other => other.to_string(),
    }
}
