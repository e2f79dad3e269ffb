//! Collects what is known about each node, for the judge of `health`: from its kubelet's documents, its recorder's verdict
//! and its condition `Ready`. The reason names what was observed; only the recorder's finding names a cause.

use std::time::Duration;

use super::histogram::BucketHistogram;
use super::node::{FleetReading, KubeletMetrics, MetricsError, NodeReading};
use super::recorders::RecorderReading;
use super::report::{NodeCounts, NodeReport, NodeVerdict, NodesReport, RelistSeconds};
use super::{ListedNode, NodeReady};
use crate::clock::Wall;
use crate::diagnosis::journal::pleg_age;
use crate::diagnosis::report::Verdict;
use crate::diagnosis::{Relists, VerdictFacts, Weight, verdict};
use crate::kubelet::http;
use crate::kubelet::timing::{EVENTED_THRESHOLD, THRESHOLD};
use crate::report::{NotChecked, plural};

/// The share of the threshold at which a relist is late. One that takes so long rarely ends by itself.
const LATE_SHARE: f64 = 0.5;

/// The duration in seconds at which a relist is slow. The kubelet's histogram has no larger bound.
const SLOW_RELIST: f64 = 10.0;

/// The age in seconds at which a kubelet that relists every second is late: two slow relists.
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
    let not_checked = (by_kubelet > 0).then(|| {
        let why = "no recorder gave a verdict: healthy means only that the kubelet relists";
        NotChecked::new(format!("the runtime of {}", plural(by_kubelet, "healthy node")), why)
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
    let (reach, facts) = match &reading.metrics {
        Ok(read) => (Reach::Answers, facts_of_metrics(read, earlier, &mut report)),
        Err(why) => {
            let (reach, why) = without_metrics(why, reading);
            report.why = why;
            (reach, reach.facts())
        }
    };
    report.recorder = reading.recorder.as_ref().map(RecorderReading::report);
    let facts = add_recorder(facts, reach, &mut report);
    let facts = add_condition(facts, &reading.listed, &mut report, now);
    report.judged = verdict(&facts);
    report.facts = facts;
    report.verdict = match (report.judged, reach) {
        (Verdict::Unhealthy, _) => NodeVerdict::Unhealthy,
        (Verdict::Degraded, _) => NodeVerdict::Degraded,
        (Verdict::Healthy, _) => NodeVerdict::Healthy,
        (Verdict::Unknown, Reach::Answers | Reach::Unknown) => NodeVerdict::Unknown,
        (Verdict::Unknown, Reach::Unreachable) => NodeVerdict::Unreachable,
        (Verdict::Unknown, Reach::Silent) => NodeVerdict::Silent,
    };
    report
}

/// How the kubelet answers a request for its metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Answers,
    /// Its `/configz` is answered and its `/metrics` is silent.
    Silent,
    Unreachable,
    Unknown,
}

impl Reach {
    /// Returns what the missing answer shows.
    fn facts(self) -> VerdictFacts {
        VerdictFacts {
            found: if self == Self::Silent { Weight::NeedsPerson } else { Weight::Nothing },
            // The recorder does not see that nothing reaches the kubelet.
            is_incomplete: self == Self::Unreachable,
            ..VerdictFacts::default()
        }
    }
}

/// Adds the verdict of the node's recorder, and says why.
fn add_recorder(facts: VerdictFacts, reach: Reach, report: &mut NodeReport) -> VerdictFacts {
    let Some(recorder) = &report.recorder else { return facts };
    let mut words = Vec::new();
    let reported = recorder.verdict.filter(|verdict| *verdict != Verdict::Unknown);
    if reported.is_some_and(|verdict| verdict != Verdict::Healthy) {
        let id = recorder.primary.as_ref().map_or("its recorder", |primary| primary.id.as_str());
        // The condition of a node that is not ready has the time, which the summary only predicts.
        let title = recorder.primary.as_ref().filter(|_| report.ready == Some(false));
        let title = title.map(|primary| primary.title.as_str()).filter(|title| !title.is_empty());
        let text = title.or(recorder.summary.as_deref()).unwrap_or_default();
        words.push(format!("{id}: {text}"));
    }
    if reported.is_some() && reach == Reach::Silent {
        let answered = "its /metrics is silent; its recorder's list calls are answered";
        report.why = (reported != Some(Verdict::Unhealthy)).then(|| answered.to_owned());
    }
    words.extend(report.why.take());
    words.extend(recorder.error.as_ref().map(|why| format!("its recorder {}: {why}", recorder.pod)));
    report.why = (!words.is_empty()).then(|| words.join("; "));
    VerdictFacts { reported, ..facts }
}

impl ListedNode {
    /// Returns when the last successful relist began, by the kubelet's message that PLEG is not healthy.
    pub fn last_relist(&self) -> Option<Wall> {
        let Some(NodeReady::No(message)) = &self.ready else { return None };
        Some(self.reported_at?.minus(pleg_age(message)?))
    }

    /// Adds what the node's condition `Ready` says: a node that is not ready needs a person, even if it relists normally.
    pub fn add_ready(&self, facts: VerdictFacts) -> VerdictFacts {
        let (weight, is_incomplete) = match &self.ready {
            Some(NodeReady::Yes) => (Weight::Nothing, false),
            Some(ready @ NodeReady::No(_)) if ready.is_about_pleg() => (Weight::MakesUnhealthy, false),
            Some(NodeReady::No(_) | NodeReady::Unknown(_)) => (Weight::NeedsPerson, false),
            None => (Weight::Nothing, true),
        };
        VerdictFacts {
            found: facts.found.max(weight),
            is_incomplete: facts.is_incomplete || is_incomplete,
            ..facts
        }
    }
}

/// Adds the node's condition `Ready`, and says what it is.
fn add_condition(
    facts: VerdictFacts,
    listed: &ListedNode,
    report: &mut NodeReport,
    now: Wall,
) -> VerdictFacts {
    let facts = listed.add_ready(facts);
    let (word, message) = match &listed.ready {
        Some(NodeReady::Yes) => return facts,
        Some(NodeReady::No(message)) => ("NotReady", message.as_str()),
        Some(NodeReady::Unknown(message)) => ("Ready is Unknown", message.as_str()),
        None => ("it has no condition Ready", ""),
    };
    let since = listed.ready_since.map(|since| format!(" since {}", since.time_of_day(now)));
    let word = format!("{word}{}", since.unwrap_or_default());
    let condition = if message.is_empty() { word } else { format!("{word}: {message}") };
    report.why = Some(match report.why.take() {
        Some(why) => format!("{why}; {condition}"),
        None => condition,
    });
    facts
}

/// Returns what the kubelet's metrics show.
fn facts_of_metrics(
    read: &KubeletMetrics,
    earlier: Option<&KubeletMetrics>,
    report: &mut NodeReport,
) -> VerdictFacts {
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
        report.why = Some("no relist has succeeded since the kubelet started".to_owned());
        return VerdictFacts::default();
    };
    let age = (read.now - seen).max(0.0);
    report.pleg_age_seconds = Some(age);
    let evented = report.evented_pleg.is_some();
    let limit = if evented { EVENTED_THRESHOLD } else { THRESHOLD };
    let threshold = limit.as_secs_f64();
    let slow =
        |relists: &BucketHistogram| relists.quantile(0.99).is_some_and(|p99| p99.seconds >= SLOW_RELIST);
    // With EventedPLEG, the kubelet relists only every 300 s.
    let is_late = age > threshold * LATE_SHARE || !evented && age > LATE_AGE;
    let is_slow = recent.as_ref().is_some_and(slow);
    report.why = if age > threshold {
        Some(format!("PLEG was last seen {age:.0} s ago, the threshold is {threshold:.0} s"))
    } else if is_late && evented {
        Some(format!("PLEG was last seen {age:.0} s ago"))
    } else if is_late {
        Some(format!("PLEG was last seen {age:.0} s ago, the kubelet relists every second"))
    } else if is_slow {
        Some(format!("relists take {SLOW_RELIST:.0} s and more"))
    } else {
        // The relists may have been slow long ago, so they do not change the verdict.
        (recent.is_none() && slow(&read.relists))
            .then(|| format!("1 % of the relists since its start took {SLOW_RELIST:.0} s and more"))
    };
    // The histogram ends at 10 s, so only the sum shows whether one of the slow relists was longer than the threshold.
    let sums = metrics.relist_seconds.zip(earlier.and_then(|earlier| earlier.metrics.relist_seconds));
    let is_short = sums.is_some_and(|(now, before)| (0.0..=threshold).contains(&(now - before)));
    // An age that no duration holds is over every threshold.
    let age = Duration::try_from_secs_f64(age).unwrap_or(Duration::MAX);
    VerdictFacts {
        // A relist that is late may hang, may be slow, or may end in this moment.
        relists: Relists::Succeed { peak_age: age, may_be_higher: is_late || is_slow && !is_short },
        age: Some(age),
        threshold: limit,
        found: if is_slow { Weight::NeedsPerson } else { Weight::Nothing },
        is_incomplete: is_late,
        ..VerdictFacts::default()
    }
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

/// Returns how a kubelet answers whose metrics could not be read, and the reason.
fn without_metrics(why: &MetricsError, reading: &NodeReading) -> (Reach, Option<String>) {
    let why = match why {
        MetricsError::Http(why) => why,
        MetricsError::Other(_) => return (Reach::Unknown, Some(why.to_string())),
        MetricsError::NotRequested => return (Reach::Unknown, None),
    };
    let (reach, text) = match why {
        why if why.is_silent() && reading.answers_after => (
            Reach::Silent,
            "its /metrics is silent while its /configz answers: the kubelet waits, possibly for a list call or a shim"
                .to_owned(),
        ),
        why if why.is_silent() && reading.configz.is_some() => (
            Reach::Unknown,
            "not known: /configz was answered, and then no answer arrived through the API server".to_owned(),
        ),
        why if why.is_silent() => (
            Reach::Unreachable,
            "no answer arrives through the API server: the API server, the connection to the kubelet or \
             the kubelet hangs"
                .to_owned(),
        ),
        http::Error::Unauthorized { .. } | http::Error::Forbidden { .. } => {
            (Reach::Unknown, format!("no permission to read it: {}", error_text(why)))
        }
        // The kubelet's own answer.
        http::Error::Status { status: 500, text, .. } if text.starts_with("Authorization error (user=") => {
            let why = "the kubelet cannot ask the API server who may read it, as with an expired client certificate";
            (Reach::Unknown, why.to_owned())
        }
        // The API server answers with these statuses if it cannot reach a kubelet.
        http::Error::Status { status: 500..=504, .. } => {
            (Reach::Unreachable, format!("the API server does not reach it: {}", error_text(why)))
        }
        why => (Reach::Unknown, error_text(why)),
    };
    (reach, Some(text))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::Metrics;

    /// Returns a reading: the number of relists that took longer than 10 s, the sum of all, and the age of the last one.
    fn read(slow: f64, sum: f64, age: f64) -> KubeletMetrics {
        let metrics = Metrics { last_seen: Some(1000.0), relist_seconds: Some(sum), ..Metrics::default() };
        let relists = BucketHistogram::new(vec![(10.0, 100.0), (f64::INFINITY, 100.0 + slow)]);
        KubeletMetrics { metrics, relists, now: 1000.0 + age }
    }

    #[test]
    fn relists_that_are_late_or_may_have_been_longer_than_the_threshold_leave_the_verdict_open() {
        let judged = |now: &KubeletMetrics| {
            let earlier = read(0.0, 500.0, 1.0);
            verdict(&facts_of_metrics(now, Some(&earlier), &mut NodeReport::default()))
        };
        assert_eq!(judged(&read(0.0, 500.0, 1.0)), Verdict::Healthy);
        assert_eq!(judged(&read(2.0, 530.0, 1.0)), Verdict::Degraded);
        // Two calls that reach their time-out in one relist, in a node that is NotReady from time to time.
        assert_eq!(judged(&read(1.0, 740.0, 1.0)), Verdict::Unknown);
        assert_eq!(judged(&read(0.0, 500.0, 21.0)), Verdict::Unknown);
        assert_eq!(judged(&read(0.0, 500.0, 181.0)), Verdict::Unhealthy);
    }
}
