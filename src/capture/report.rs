//! Collects the data of `capture report` from a capture: the duration of each relist, the age of PLEG, the calls that were
//! slow, failed or hung, the events of the pods, and the incidents.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::entry::{RecordedOutcome, kind};
use super::list::{CaptureList, ListedIncident};
use super::node::KubeletMetricsSample;
use super::read::{Capture, CaptureMoment, DocumentEntry, RecordedCall, UNFINISHED};
use super::{Error, Range};
use crate::clock::Wall;
use crate::cri;
use crate::cri::rename::ListedOwner;
use crate::cri::server::RequestSubject;
use crate::diagnosis::forecast::LimitForecast;
use crate::kubelet::Metrics;
use crate::report::{ContainerRef, PodRef, RuntimeRef, Seconds, memory_bound, optional_pod};

/// The maximum number of calls in the report. If there are more, the slowest are shown.
const MAX_CALLS: usize = 400;

/// The maximum number of events in the report.
const MAX_EVENTS: usize = 2000;

/// The maximum memory of all documents together, in bytes.
const MAX_DOCUMENT_MEMORY: usize = 128 << 20;

/// The timeline of a capture: relists, calls, events and incidents.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CaptureReport {
    /// The beginning.
    pub from: Wall,
    /// The end.
    pub to: Wall,
    /// The name of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The age at which PLEG is not healthy.
    pub threshold_seconds: Seconds,
    /// The duration at which a call or a relist is slow.
    pub slow_seconds: Seconds,
    /// The pause between two relists.
    #[serde(skip)]
    pub period: Duration,
    /// The incidents.
    pub incidents: Vec<ListedIncident>,
    /// Every relist.
    pub relists: Vec<RelistPoint>,
    /// The calls that were slow, failed or hung, in order.
    pub calls: Vec<CallBar>,
    /// The number of calls that were slow, failed or hung and are left out.
    pub calls_left_out: usize,
    /// The events of the pods, in order.
    #[cfg_attr(feature = "testing", schemars(with = "Vec<crate::pleg::stream::Event>"))]
    pub events: Vec<Value>,
    /// The number of events that are left out.
    pub events_left_out: usize,
    /// The number of documents that were not judged, because reading them would have cost too much.
    #[serde(skip_serializing_if = "crate::report::is_zero")]
    pub documents_not_judged: usize,
    /// The number of answers that were not judged for the same reason. Answers that the report does not need do not count.
    #[serde(skip_serializing_if = "crate::report::is_zero")]
    pub answers_not_judged: usize,
    /// The changes of PLEG's health.
    #[cfg_attr(feature = "testing", schemars(with = "Vec<crate::pleg::stream::Health>"))]
    pub health: Vec<Value>,
    /// The times at which the wall clock was set, and by how much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jumps: Vec<JumpPoint>,
    /// The samples of the kubelet's own metrics, failed requests included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubelet: Vec<KubeletPoint>,
    /// The limits that will be reached, by the samples until the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<LimitForecast>,
    /// The waits in the runtime's goroutines, for each recorded dump.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "testing", schemars(with = "Vec<TimedStackReport>"))]
    pub stacks: Vec<Value>,
}

/// A recorded stack report with the time of the dump, for the JSON Schema of a capture's report.
#[cfg(feature = "testing")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TimedStackReport {
    /// When the dump was read.
    time: Wall,
    #[schemars(flatten)]
    report: crate::stacks::report::StackReport,
}

/// A moment at which the wall clock was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JumpPoint {
    /// The time that the wall clock showed after it was set.
    pub time: Wall,
    /// The difference; negative if the clock was set back.
    pub by_seconds: Seconds,
}

/// A sample of the kubelet's own metrics.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubeletPoint {
    /// The time of the sample.
    pub time: Wall,
    /// `ok`, `error` or `silent`.
    pub outcome: &'static str,
    /// The duration of the request.
    pub duration_seconds: Seconds,
    /// The age of the kubelet's last relist at the time of the sample.
    pub age_seconds: Option<Seconds>,
    /// The error of the request, if it failed.
    pub message: Option<String>,
}

/// One relist.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RelistPoint {
    /// When the relist ended.
    pub time: Wall,
    /// The duration of the relist.
    pub duration_seconds: Seconds,
    /// The time from the beginning of the relist until both list calls had been answered; absent if a list call failed.
    /// After the answers, the age counts from this relist.
    pub listed_seconds: Option<Seconds>,
    /// The highest age, during this relist, of the last relist whose list calls succeeded. If none has succeeded since
    /// the recorder started, the time since that start.
    pub age_seconds: Seconds,
    /// Whether the age is only a lower limit, because no relist has succeeded since the recorder started.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub age_at_least: bool,
    /// The time from which the age counts until the list calls are answered.
    #[serde(skip)]
    pub since: Wall,
    /// The error of a list call, if one failed.
    pub error: Option<String>,
}

/// One call: a bar in the chart of the report.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallBar {
    /// When the call was sent.
    pub time: Wall,
    /// The RPC.
    pub rpc: String,
    /// The id of the container or sandbox, if the call is about one.
    pub id: Option<String>,
    /// The pod of the container or sandbox.
    #[serde(with = "optional_pod")]
    #[cfg_attr(
        feature = "testing",
        schemars(with = "Option<crate::report::optional_pod::KnownNames<'static>>")
    )]
    pub pod: Option<PodRef>,
    /// The container, if the id is a container's.
    pub container: Option<ContainerRef>,
    /// The duration of the call, or the time for which the recorder waited.
    pub duration_seconds: Seconds,
    /// `ok`, `error`, `silent`, or `open` if the end was not recorded.
    pub outcome: &'static str,
    /// The error message.
    pub message: Option<String>,
}

impl CallBar {
    /// Returns the pod and the container, such as `shop/web-0/app`; the id if they are not known.
    pub fn subject(&self) -> String {
        match (&self.pod, &self.container) {
            (Some(pod), Some(container)) => format!("{pod}/{}", container.name),
            (Some(pod), None) => pod.to_string(),
            (None, _) => self.id.clone().unwrap_or_default(),
        }
    }
}

impl RelistPoint {
    /// Returns when the relist began.
    pub fn began(&self) -> Wall {
        self.time.minus(self.duration_seconds.duration())
    }

    /// Returns when both list calls had been answered.
    pub fn listed(&self) -> Option<Wall> {
        self.listed_seconds.map(|took| self.began().plus(took.duration()))
    }
}

impl CaptureReport {
    /// Returns the periods from a start of the recorder until its first successful relist, if they lasted long enough to be
    /// slow.
    pub fn times_without_relist(&self) -> Vec<(Wall, Wall)> {
        let mut spells: Vec<(Wall, Wall)> = Vec::new();
        for point in self.relists.iter().filter(|point| point.age_at_least) {
            let ends = point.listed().unwrap_or(point.time);
            match spells.last_mut() {
                // This relist belongs to the same start of the recorder: `since` differs by a few clock ticks at most.
                Some((_, to)) if point.since < *to => *to = ends,
                _ => spells.push((point.since, ends)),
            }
        }
        spells.retain(|(from, to)| to.duration_since(*from) >= self.slow_seconds.duration());
        spells
    }

    /// Returns the periods in which at least one relist was due, but none was recorded: the recorder did not run, had no
    /// runtime, or could not write.
    pub fn times_not_recorded(&self) -> Vec<(Wall, Wall)> {
        let pause = self.period * 2 + Duration::from_secs(2);
        let mut last = self.from;
        let mut gaps = Vec::new();
        for (from, to) in
            self.relists.iter().map(|point| (point.began(), point.time)).chain([(self.to, self.to)])
        {
            if from.duration_since(last) > pause {
                gaps.push((last, from));
            }
            last = last.max(to);
        }
        gaps
    }

    /// Creates the report about the part of a capture in `range`.
    pub fn of(capture: &Capture, range: Range) -> Result<Self, Error> {
        let list = CaptureList::of(capture);
        let run = capture.sessions.last().ok_or_else(|| Error::Empty { path: capture.path.clone() })?;
        let session = &run.session;
        let slow = Duration::from_nanos(session.slow);
        let refusals = capture.refusals();
        let (calls, calls_left_out) = call_bars(capture, range, slow);
        let answers_not_judged = usize::try_from(capture.refusals() - refusals).unwrap_or(usize::MAX);
        let mut documents = DocumentReader { capture, range, left: MAX_DOCUMENT_MEMORY, not_judged: 0 };
        let (events, events_left_out) = documents.read_first(kind::EVENT, MAX_EVENTS);
        let (health, _) = documents.read_first(kind::HEALTH, usize::MAX);
        let stacks = documents.stacks();
        Ok(Self {
            from: range.from.unwrap_or(list.from).max(list.from),
            to: range.to.unwrap_or(list.to).min(list.to),
            node: session.node.clone(),
            runtime: RuntimeRef {
                endpoint: session.endpoint.clone(),
                name: Some(session.runtime.clone()).filter(|name| !name.is_empty()),
                version: Some(session.runtime_version.clone()).filter(|version| !version.is_empty()),
                api_version: None,
            },
            threshold_seconds: Duration::from_nanos(session.threshold).into(),
            slow_seconds: slow.into(),
            period: Duration::from_nanos(session.period),
            incidents: list
                .incidents
                .into_iter()
                .filter(|incident| range.overlaps(incident.from, incident.to))
                .collect(),
            relists: relist_points(capture, range),
            calls,
            calls_left_out,
            events,
            events_left_out,
            documents_not_judged: documents.not_judged,
            answers_not_judged,
            health,
            jumps: capture
                .jumps
                .iter()
                .filter(|(time, _)| range.has(*time))
                .map(|(time, jump)| JumpPoint { time: *time, by_seconds: Seconds::from_nanos(jump.by) })
                .collect(),
            kubelet: kubelet_points(capture, range),
            forecasts: forecasts(capture, range),
            stacks,
        })
    }
}

/// Returns the limits that will be reached, as they were known at the last sample in `range`.
fn forecasts(capture: &Capture, range: Range) -> Vec<LimitForecast> {
    let is_sample = |one: &&DocumentEntry| one.kind == kind::NODE && range.has(one.wall);
    let last = capture.documents.iter().rfind(is_sample);
    last.map(|last| capture.forecasts(last.at, last.wall)).unwrap_or_default()
}

/// Reads the documents of a part of a capture, up to a memory limit.
struct DocumentReader<'a> {
    capture: &'a Capture,
    range: Range,
    left: usize,
    not_judged: usize,
}

impl<'a> DocumentReader<'a> {
    /// Returns the documents of a kind in the range.
    fn entries_of(&self, kind: u32) -> Vec<&'a DocumentEntry> {
        let wanted = |document: &&DocumentEntry| document.kind == kind && self.range.has(document.wall);
        self.capture.documents.iter().filter(wanted).collect()
    }

    /// Returns the first documents of a kind, and the number of further documents.
    fn read_first(&mut self, kind: u32, most: usize) -> (Vec<Value>, usize) {
        let (mut read, mut more) = (Vec::new(), 0);
        for document in self.entries_of(kind) {
            if read.len() < most {
                read.extend(self.read(document));
            } else {
                more += 1;
            }
        }
        (read, more)
    }

    /// Returns the goroutine reports, each with its time.
    fn stacks(&mut self) -> Vec<Value> {
        let wanted = self.entries_of(kind::STACKS);
        let timed = |document: &DocumentEntry| {
            let mut stacks = self.read(document)?;
            without_steps(&mut stacks);
            stacks.as_object_mut()?.insert("time".to_owned(), serde_json::to_value(document.wall).ok()?);
            Some(stacks)
        };
        wanted.into_iter().filter_map(timed).collect()
    }

    /// Reads a document; `None` if it cannot be read or exceeds a limit.
    fn read(&mut self, document: &DocumentEntry) -> Option<Value> {
        let refusals = self.capture.refusals();
        let text = self.capture.text(document);
        let weight = text.as_ref().map_or(0, |text| memory_bound(text));
        if self.capture.refusals() > refusals || weight > self.left {
            self.not_judged += 1;
            return None;
        }
        self.left -= weight;
        serde_json::from_slice(&text?).ok()
    }
}

/// Returns the samples of the kubelet's metrics in the range.
fn kubelet_points(capture: &Capture, range: Range) -> Vec<KubeletPoint> {
    let wanted = capture
        .documents
        .iter()
        .filter(|document| document.kind == kind::KUBELET && range.has(document.wall));
    let point = |document: &DocumentEntry| {
        let sample: KubeletMetricsSample = serde_json::from_slice(&capture.text(document)?).ok()?;
        let seen = sample.text.as_ref().and_then(|text| Metrics::parse(text).ok()?.last_seen);
        let epoch = Duration::from_secs_f64(document.wall.seconds_since(Wall::default()).max(0.0));
        let age = seen.and_then(|seen| Duration::try_from_secs_f64(epoch.as_secs_f64() - seen).ok());
        let outcome = match (&sample.text, sample.silent) {
            (Some(_), _) => "ok",
            (None, true) => "silent",
            (None, false) => "error",
        };
        Some(KubeletPoint {
            time: document.wall,
            outcome,
            duration_seconds: sample.took,
            age_seconds: age.map(Seconds::from),
            message: sample.why,
        })
    };
    wanted.filter_map(point).collect()
}

/// Returns the relists in the range, each with the age of PLEG.
fn relist_points(capture: &Capture, range: Range) -> Vec<RelistPoint> {
    let listed = listed_times(capture);
    let mut good = None;
    // The session whose first relist is in the capture. The capture lacks the first relists of other sessions, so nobody knows
    // whether one of them succeeded.
    let mut whole = None;
    let mut points = Vec::new();
    for relist in &capture.relists {
        let session = relist.ended.session;
        if relist.done.number == 1 {
            whole = Some(session);
        }
        let last = good.filter(|last: &CaptureMoment| last.session == session);
        let none_yet = last.is_none() && whole == Some(session);
        let since = last.unwrap_or(if none_yet { CaptureMoment { session, mono: 0 } } else { relist.began });
        let seen = listed.get(&(session, relist.done.number)).copied();
        let listed = match relist.done.error.as_str() {
            "" => Some(seen.unwrap_or(relist.ended)),
            // The kubelet counts the age from this relist as soon as the list calls are answered, even if a later call of
            // the relist hangs.
            UNFINISHED => seen,
            _ => None,
        };
        let before = listed.unwrap_or(relist.ended).since(since);
        let after = listed.map_or(Duration::ZERO, |_| relist.ended.since(relist.began));
        if relist.done.error.is_empty() {
            good = Some(relist.began);
        }
        if range.has(relist.wall) {
            points.push(RelistPoint {
                time: relist.wall,
                duration_seconds: relist.ended.since(relist.began).into(),
                listed_seconds: listed.map(|listed| listed.since(relist.began).into()),
                age_seconds: before.max(after).into(),
                age_at_least: none_yet && before > after,
                since: relist.wall.minus(relist.ended.since(since)),
                error: Some(relist.done.error.clone()).filter(|error| !error.is_empty()),
            });
        }
    }
    points
}

/// Returns when the second list call of each relist was answered, by session and number.
fn listed_times(capture: &Capture) -> HashMap<(usize, u64), CaptureMoment> {
    let mut first = HashMap::new();
    let mut listed = HashMap::new();
    for call in capture.calls.iter().filter(|call| call.relist > 0 && call.rpc.is_list()) {
        let Some(end) = call.end.as_ref().filter(|end| end.outcome == RecordedOutcome::Answered) else {
            continue;
        };
        let relist = (call.sent.session, call.relist);
        if first.insert(relist, call.rpc).is_some_and(|rpc| rpc != call.rpc) {
            listed.insert(relist, call.sent.plus(end.took));
        }
    }
    listed
}

/// Returns the calls to show, and the number of calls that are left out.
fn call_bars(capture: &Capture, range: Range, slow: Duration) -> (Vec<CallBar>, usize) {
    let owners = listed_owners(capture);
    let mut bars: Vec<CallBar> = capture
        .calls
        .iter()
        .filter(|call| range.has(call.wall))
        .filter_map(|call| call_bar(capture, call, slow, &owners))
        .collect();
    let left_out = bars.len().saturating_sub(MAX_CALLS);
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.duration_seconds));
    bars.truncate(MAX_CALLS);
    bars.sort_by_key(|bar| bar.time);
    (bars, left_out)
}

/// Returns a call for the report; `None` if the call was neither slow nor failed, or shows nothing.
fn call_bar(
    capture: &Capture,
    call: &RecordedCall,
    slow: Duration,
    owners: &HashMap<String, ListedOwner>,
) -> Option<CallBar> {
    if capture.was_cut_short(call) {
        return None;
    }
    let (took, outcome, message) = match &call.end {
        None => (capture.seen_open(call), "open", None),
        Some(end) => match &end.outcome {
            RecordedOutcome::Answered => (end.took, "ok", None),
            RecordedOutcome::Failed(error) if error.is_not_found() => return None,
            RecordedOutcome::Failed(error @ cri::Error::Silent { .. }) => {
                (end.took, "silent", Some(error.to_string()))
            }
            RecordedOutcome::Failed(error) => (end.took, "error", Some(error.to_string())),
            RecordedOutcome::Abandoned => (end.took, "silent", None),
            RecordedOutcome::Unknown => return None,
        },
    };
    if outcome == "ok" && took < slow {
        return None;
    }
    let subject = RequestSubject::read(call.rpc, call.request.clone()).ok()?;
    let id = Some(subject.id().to_owned()).filter(|id| !id.is_empty());
    let owner = id.as_ref().and_then(|id| owners.get(id));
    let container =
        owner.and_then(|owner| Some(ContainerRef { id: owner.id.clone(), name: owner.container.clone()? }));
    Some(CallBar {
        time: call.wall,
        rpc: call.rpc.to_string(),
        pod: owner.map(|owner| owner.pod.clone()),
        container,
        id,
        duration_seconds: took.into(),
        outcome,
        message,
    })
}

/// Returns the owner of each container and sandbox id, from a few recorded lists.
fn listed_owners(capture: &Capture) -> HashMap<String, ListedOwner> {
    let mut owners = HashMap::new();
    for rpc in [cri::Rpc::ListPodSandbox, cri::Rpc::ListContainers] {
        // At most five lists are read: the first, the middle and the last three. The recorded events name pods that existed
        // only between these lists.
        let lists: Vec<_> = capture.calls.iter().filter(|call| call.rpc.unary() == rpc).collect();
        for call in
            lists.first().into_iter().chain(lists.get(lists.len() / 2)).chain(lists.iter().rev().take(3))
        {
            let messages = call.end.as_ref().and_then(|end| capture.messages(end));
            for message in messages.into_iter().flatten() {
                let listed = cri::rename::owners(rpc, &message).into_iter();
                owners.extend(listed.map(|listed| (listed.id.clone(), listed)));
            }
        }
    }
    owners
}

/// Removes the steps from a [`StackReport`]: they were for the processes of that moment.
fn without_steps(report: &mut Value) {
    match report {
        Value::Array(items) => items.iter_mut().for_each(without_steps),
        Value::Object(fields) => {
            fields.entry("steps").and_modify(|steps| *steps = Value::Array(Vec::new()));
            fields.values_mut().for_each(without_steps);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_left_out_at_every_depth() {
        let mut report =
            serde_json::json!({"findings": [{"steps": [{"command": "kill -CONT 7"}]}], "steps": [{}]});
        without_steps(&mut report);
        let expected = serde_json::json!({"findings": [{"steps": []}], "steps": []});
        assert_eq!(report, expected);
    }
}
