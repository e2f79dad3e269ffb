//! The data of `capture report`: the duration of each relist, the age of the last good one, the calls that were slow,
//! failed or hung, the events of the pods, and the incidents.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::entry::{RecordedOutcome, kind};
use super::list::{CaptureList, ListedIncident};
use super::node::KubeletSample;
use super::read::{Capture, CaptureMoment, DocumentEntry, NOT_OVER, RecordedCall};
use super::{Error, Range};
use crate::clock::Wall;
use crate::cri;
use crate::cri::server::RequestSubject;
use crate::kubelet::Metrics;
use crate::report::{RuntimeRef, Seconds, memory_bound};

/// The maximum number of calls in the report: the slowest ones.
const MOST_CALLS: usize = 400;

/// The maximum number of events in the report.
const MOST_EVENTS: usize = 2000;

/// The maximum memory of all documents together, in bytes.
const MOST_DOCUMENTS: usize = 128 << 20;

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CaptureReport {
    /// The beginning.
    pub from: Wall,
    /// The end.
    pub to: Wall,
    /// The node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// Age from which on PLEG is not healthy.
    pub threshold_seconds: Seconds,
    /// Duration from which on a call or a relist is slow.
    pub slow_seconds: Seconds,
    /// The incidents.
    pub incidents: Vec<ListedIncident>,
    /// Every relist.
    pub relists: Vec<RelistPoint>,
    /// Calls that were slow, failed or hung, in order.
    pub calls: Vec<CallBar>,
    /// How many of them are left out.
    pub calls_left_out: usize,
    /// The events of the pods, in order.
    pub events: Vec<Value>,
    /// How many of them are left out.
    pub events_left_out: usize,
    /// How many documents of any kind were not judged, because reading them would have cost too much.
    #[serde(skip_serializing_if = "is_none")]
    pub documents_not_judged: usize,
    /// How many answers were not judged for the same reason; answers that the report does not need are not counted.
    #[serde(skip_serializing_if = "is_none")]
    pub answers_not_judged: usize,
    /// The changes of PLEG's health.
    pub health: Vec<Value>,
    /// The times at which the wall clock was set, and by how much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jumps: Vec<JumpPoint>,
    /// The samples of the kubelet's own metrics, or their silence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubelet: Vec<KubeletPoint>,
    /// The waits in the runtime's goroutines, for each recorded dump.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_none(number: &usize) -> bool {
    *number == 0
}

/// The wall clock was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JumpPoint {
    /// The time that the wall clock showed after it was set.
    pub time: Wall,
    /// The difference; negative if the clock was set back.
    pub by_seconds: Seconds,
}

/// A sample of the kubelet's own metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletPoint {
    /// When.
    pub time: Wall,
    /// `ok`, `error` or `silent`.
    pub outcome: &'static str,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// Age of the kubelet's last relist at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<Seconds>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One relist.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistPoint {
    /// When it ended.
    pub time: Wall,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// The time until both list calls had been answered; absent if they failed. From then on, the age counts from this
    /// relist.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Why its list calls failed, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallBar {
    /// When it was sent.
    pub time: Wall,
    /// The RPC.
    pub rpc: String,
    /// The id of the container or sandbox, if the call is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The owner of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// How long it took, or how long the recorder waited.
    pub duration_seconds: Seconds,
    /// `ok`, `error`, `silent`, or `open` if its end was not recorded.
    pub outcome: &'static str,
    /// The error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl RelistPoint {
    /// When it began.
    pub fn began(&self) -> Wall {
        self.time.minus(self.duration_seconds.duration())
    }

    /// When both list calls had been answered.
    pub fn listed(&self) -> Option<Wall> {
        self.listed_seconds.map(|took| self.began().plus(took.duration()))
    }
}

impl CaptureReport {
    /// Returns the times in which no relist had yet succeeded since the recorder started, if they lasted long enough to
    /// be slow.
    pub fn none_yet(&self) -> Vec<(Wall, Wall)> {
        let mut spells: Vec<(Wall, Wall)> = Vec::new();
        for point in self.relists.iter().filter(|point| point.age_at_least) {
            let ends = point.listed().unwrap_or(point.time);
            match spells.last_mut() {
                // This belongs to the same start: `since` differs only by the time between two readings of the clock.
                Some((_, to)) if point.since < *to => *to = ends,
                _ => spells.push((point.since, ends)),
            }
        }
        spells.retain(|(from, to)| to.duration_since(*from) >= self.slow_seconds.duration());
        spells
    }

    /// Creates the report on the part of a capture in `range`.
    pub fn of(capture: &Capture, range: Range) -> Result<Self, Error> {
        let list = CaptureList::of(capture);
        let run = capture.sessions.last().ok_or_else(|| Error::Empty { path: capture.path.clone() })?;
        let session = &run.session;
        let slow = Duration::from_nanos(session.slow);
        let refusals = capture.refusals();
        let (calls, calls_left_out) = bars(capture, range, slow);
        let answers_not_judged = usize::try_from(capture.refusals() - refusals).unwrap_or(usize::MAX);
        let mut documents = DocumentReader { capture, range, left: MOST_DOCUMENTS, not_judged: 0 };
        let (events, events_left_out) = documents.first(kind::EVENT, MOST_EVENTS);
        let (health, _) = documents.first(kind::HEALTH, usize::MAX);
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
            incidents: list
                .incidents
                .into_iter()
                .filter(|incident| {
                    range.from.is_none_or(|from| incident.to.is_none_or(|to| to >= from))
                        && range.to.is_none_or(|to| incident.from <= to)
                })
                .collect(),
            relists: points(capture, range),
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
            stacks,
        })
    }
}

/// Reads the documents of a part of a capture, up to a memory limit.
struct DocumentReader<'a> {
    capture: &'a Capture,
    range: Range,
    left: usize,
    not_judged: usize,
}

impl<'a> DocumentReader<'a> {
    fn of(&self, kind: u32) -> Vec<&'a DocumentEntry> {
        let wanted = |document: &&DocumentEntry| document.kind == kind && self.range.has(document.wall);
        self.capture.documents.iter().filter(wanted).collect()
    }

    /// Returns the first documents of a kind, and the number of the others.
    fn first(&mut self, kind: u32, most: usize) -> (Vec<Value>, usize) {
        let (mut read, mut more) = (Vec::new(), 0);
        for document in self.of(kind) {
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
        let wanted = self.of(kind::STACKS);
        let timed = |document: &DocumentEntry| {
            let mut stacks = self.read(document)?;
            stacks.as_object_mut()?.insert("time".to_owned(), serde_json::to_value(document.wall).ok()?);
            Some(stacks)
        };
        wanted.into_iter().filter_map(timed).collect()
    }

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

fn kubelet_points(capture: &Capture, range: Range) -> Vec<KubeletPoint> {
    let wanted = capture
        .documents
        .iter()
        .filter(|document| document.kind == kind::KUBELET && range.has(document.wall));
    let point = |document: &DocumentEntry| {
        let sample: KubeletSample = serde_json::from_slice(&capture.text(document)?).ok()?;
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

fn points(capture: &Capture, range: Range) -> Vec<RelistPoint> {
    let listed = listed(capture);
    let mut good = None;
    // The session that is recorded from its first relist on. For any other session, the earlier relists are not known.
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
            // The kubelet counts the age from this relist as soon as its list calls are answered, even if a later call
            // hangs.
            NOT_OVER => seen,
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

const fn is_list(rpc: cri::Rpc) -> bool {
    use cri::Rpc::{ListContainers, ListPodSandbox, StreamContainers, StreamPodSandboxes};
    matches!(rpc, ListPodSandbox | ListContainers | StreamPodSandboxes | StreamContainers)
}

/// Returns when the second list call of each relist was answered, by session and number.
fn listed(capture: &Capture) -> HashMap<(usize, u64), CaptureMoment> {
    let mut first = HashMap::new();
    let mut listed = HashMap::new();
    for call in capture.calls.iter().filter(|call| call.relist > 0 && is_list(call.rpc)) {
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

/// Returns the calls to show, and the number of those that are left out.
fn bars(capture: &Capture, range: Range, slow: Duration) -> (Vec<CallBar>, usize) {
    let names = names(capture);
    let mut bars: Vec<CallBar> = capture
        .calls
        .iter()
        .filter(|call| range.has(call.wall))
        .filter_map(|call| bar(capture, call, slow, &names))
        .collect();
    let left_out = bars.len().saturating_sub(MOST_CALLS);
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.duration_seconds));
    bars.truncate(MOST_CALLS);
    bars.sort_by_key(|bar| bar.time);
    (bars, left_out)
}

fn bar(
    capture: &Capture,
    call: &RecordedCall,
    slow: Duration,
    names: &HashMap<String, String>,
) -> Option<CallBar> {
    // The event stream stays open on purpose.
    if capture.was_cut_short(call) || call.rpc == cri::Rpc::GetContainerEvents {
        return None;
    }
    let last = capture.sessions.get(call.sent.session).map_or(call.sent, |run| run.to);
    let (took, outcome, message) = match &call.end {
        None => (last.since(call.sent), "open", None),
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
    Some(CallBar {
        time: call.wall,
        rpc: call.rpc.to_string(),
        pod: id.as_ref().and_then(|id| names.get(id).cloned()),
        id,
        duration_seconds: took.into(),
        outcome,
        message,
    })
}

/// Returns the owner of each id, from some of the recorded lists.
fn names(capture: &Capture) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for rpc in [cri::Rpc::ListPodSandbox, cri::Rpc::ListContainers] {
        // Five lists at most are read: the first, the middle and the last three. The events name the pods in between.
        let lists: Vec<_> = capture.calls.iter().filter(|call| call.rpc == rpc).collect();
        for call in
            lists.first().into_iter().chain(lists.get(lists.len() / 2)).chain(lists.iter().rev().take(3))
        {
            let messages = call.end.as_ref().and_then(|end| capture.messages(end));
            for message in messages.into_iter().flatten() {
                let listed = cri::rename::owners(rpc, &message).into_iter();
                names.extend(listed.map(|listed| (listed.id, listed.owner)));
            }
        }
    }
    names
}
