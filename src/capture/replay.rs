//! Replays a capture as a runtime: answers each call with the recorded answer, while the clock shows recorded time.
//!
//! There are two modes (`ReplayMode`):
//!
//! * *At a moment*: each call gets what was known at that moment. A call that had ended gets its recorded answer; a call that
//!   was pending is silent, even if it was answered later.
//! * *Played*: the recorded relists are replayed one after the other, and the recorded durations move the clock.
//!
//! In both modes, a call that the recorder did not make, or whose end was lost, fails as *not recorded*.
//!
//! [`Playback`] finds the answers. [`ReplayServer`] serves a playback on an in-process server and creates clients for it.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::ReplayClock;
use super::entry::{Incident, RecordedOutcome, kind};
use super::node::{KubeletMetricsSample, NodeSample, ProcessSample};
use super::not_recorded;
use super::read::{
    CallState, Capture, CaptureMoment, DocumentEntry, RecordedCall, RecordedEnd, RecordedRelist,
};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::rename::{ListedOwner, owners};
use crate::cri::server::{
    Answer, Bytes, CallRequest, InProcess, RequestSubject, Service, ServiceError, message,
};
use crate::cri::{Client, Code, Error, OutcomeOverride, Rpc, Version};
use crate::diagnosis::NodeFacts;
use crate::diagnosis::forecast::LimitForecast;
use crate::kubelet::KubeletVersion;
use crate::kubelet::ListCalls;
use crate::report::duration::in_sentence;
use crate::stacks::report::StackReport;
use crate::threads::locked;

/// The longest step of a long wait. The wait is split so that the replay can be paused in it.
const MAX_STEP: Duration = Duration::from_millis(500);

/// The interval at which a paused replay checks whether it continues.
const PAUSE_CHECK: Duration = Duration::from_millis(20);

/// A call that has been pending for less than this does not count as silent; the previous answer counts.
const MIN_SILENCE: Duration = Duration::from_secs(2);

/// An answer that takes at least this long is slow. For a verdict, the runtime is slow if two answers in a row were slow.
const SLOW: Duration = Duration::from_secs(1);

/// The duration at which a call counts as silent before it was answered.
const SILENCE: Duration = Duration::from_secs(5);

/// How much later than the period the next relist may begin. After that, nothing is recorded about the node.
const RELIST_DELAY: Duration = Duration::from_secs(5);

/// The age at which the report mentions that a status is old.
const OLD_STATUS: Duration = Duration::from_secs(60);

/// The age at which a sample of the node's processes shows nothing any more: the pause between two samples and a margin.
const NODE_SAMPLE_AGE: Duration = Duration::from_secs(40);

/// The age at which the facts of a diagnosis show nothing any more. A wait or a process below a shim may end without a sample of
/// the recorder; what the samples show is compared with them.
const FACTS_AGE: Duration = Duration::from_secs(60);

/// The longest time between storing the documents of a diagnosis and the beginning of the incident that it opens.
const SAME_MOMENT: Duration = Duration::from_secs(1);

/// The reason why an answer that the capture contains is not returned.
const TOO_EXPENSIVE: &str =
    "unpacking its answer takes more memory than is allowed for a capture of this size";

/// The maximum number of errors that are stored until the client fetches them; the same limit holds for durations.
const MAX_STORED: usize = 4096;

/// The prefix of an error message that contains the number of an error in [`SentErrors`].
const ERROR_NUMBER_PREFIX: &str = "recorded error ";

/// The key under which recorded calls are found. Requests with the same meaning have the same key, even if their bytes
/// differ.
#[derive(Clone, PartialEq, Eq, Hash)]
enum RequestKey {
    /// A call about the runtime itself, for example Version.
    Runtime(Rpc),
    /// A call about the container or sandbox with this id.
    One(Rpc, String),
    /// A list of all containers or sandboxes, by its unary call: the same list is in the answer of a stream.
    All(Rpc),
    /// A list with a filter, by its unary call, and the encoded request.
    Part(Rpc, Bytes),
}

impl RequestKey {
    fn for_request(rpc: Rpc, subject: &RequestSubject, request: &Bytes) -> Self {
        match subject {
            RequestSubject::Runtime => Self::Runtime(rpc),
            RequestSubject::One(id) => Self::One(rpc, id.clone()),
            RequestSubject::Sandboxes(wanted) if wanted.matches_all() => Self::All(rpc.unary()),
            RequestSubject::Containers(wanted) if wanted.matches_all() => Self::All(rpc.unary()),
            RequestSubject::Sandboxes(_) | RequestSubject::Containers(_) => {
                Self::Part(rpc.unary(), request.clone())
            }
        }
    }
}

/// The speed of the replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This many times as fast as recorded.
    Times(u32),
    /// Without waiting.
    Max,
}

impl Speed {
    /// Returns how long to wait for an entry that was recorded `recorded` after the beginning, if the replay has run for
    /// `passed`. Both count from the beginning, so that the time that the steps themselves need does not add up.
    fn wait(self, recorded: Duration, passed: Duration) -> Duration {
        match self {
            Self::Times(times) => (recorded / times.max(1)).saturating_sub(passed),
            Self::Max => Duration::ZERO,
        }
    }
}

/// The speed of the replay, and since when it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlaySpeed {
    speed: Speed,
    /// The real time at which this speed was set.
    since: Mono,
    /// The replayed time since which the speed counts.
    from: Mono,
}

impl PlaySpeed {
    /// Returns how long to wait for an entry at the replayed time `then`, if the machine's time is `now`.
    fn wait(self, then: Mono, now: Mono) -> Duration {
        self.speed.wait(then.since(self.from), now.since(self.since))
    }
}

/// How a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReplayMode {
    /// The capture shows one moment, the start of the playback.
    At,
    /// The relists are replayed one after the other.
    Played(PlaySpeed),
}

/// The next step of a command that replays relists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackStep {
    /// Wait for this duration, then call [`Playback::next`] again.
    Wait(Duration),
    /// Make the next relist.
    Relist,
    /// Stop: the capture has no more entries.
    End,
}

/// A capture that is replayed: finds the recorded answer to each call, and moves the clock.
pub struct Playback {
    capture: Arc<Capture>,
    /// The indices of the recorded calls by their key, in the order in which they were sent.
    calls: Arc<HashMap<RequestKey, Vec<usize>>>,
    clock: Arc<ReplayClock>,
    start: (CaptureMoment, Wall),
    mode: Mutex<ReplayMode>,
    /// The index of the next relist to play.
    next_relist: AtomicUsize,
    /// The relist that is being played.
    current: Mutex<Option<PlayedRelist>>,
    errors: SentErrors,
    /// The recorded durations of the latest answers, until the client fetches them.
    took: Mutex<HashMap<(Rpc, Bytes), Duration>>,
    /// The incident whose worst moment is replayed.
    incident: Option<u64>,
    /// Why the runtime could not be reached at the start moment.
    unreachable: Option<Error>,
    /// Why nothing is recorded about the start moment; `None` if a relist ran, or had ended a short time before.
    gap: Option<String>,
    /// Whether the answers are the basis of a verdict, for which a silence that was over does not count.
    for_verdict: AtomicBool,
    remarks: Mutex<Remarks>,
    /// Whether the replayed time stands still.
    paused: AtomicBool,
}

/// Remarks for the report about the answers on which the verdict is based.
#[derive(Default)]
struct Remarks {
    /// The number of old statuses, and the time of the oldest one.
    old: usize,
    oldest: Option<Wall>,
    /// The answers that ended a silence before the moment: the RPC, the duration and the time of the answer.
    late: Vec<(Rpc, Duration, Wall)>,
}

/// A call that had not been answered at the replayed moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The RPC.
    pub rpc: Rpc,
    /// The id of the container or sandbox, if the call is about one.
    pub id: Option<String>,
    /// How long the call had been open.
    pub waited: Duration,
}

/// The relist that is being played.
struct PlayedRelist {
    session: usize,
    number: u64,
    /// The indices of the recorded calls that have already answered a call of this relist.
    used: Vec<usize>,
}

/// The errors that the in-process server returns to plegctl's own clients. gRPC transports only a code and a message, so the
/// message contains a number, under which the client finds the original error here.
#[derive(Default)]
struct SentErrors {
    known: Mutex<(u64, HashMap<u64, Error>)>,
}

impl SentErrors {
    /// Stores an error, and returns a gRPC error that refers to it.
    fn send(&self, error: Error) -> ServiceError {
        let code = error.code().unwrap_or(Code::Unavailable);
        let mut known = locked(&self.known);
        known.0 += 1;
        let number = known.0;
        if known.1.len() >= MAX_STORED {
            known.1.clear();
        }
        known.1.insert(number, error);
        ServiceError::new(code, format!("{ERROR_NUMBER_PREFIX}{number}"))
    }

    /// Returns the stored error that a message refers to.
    fn receive(&self, message: &str) -> Option<Error> {
        let number = message.strip_prefix(ERROR_NUMBER_PREFIX)?.parse().ok()?;
        locked(&self.known).1.remove(&number)
    }
}

/// The result of a request that was known at a moment.
enum KnownResult<'a> {
    /// The last answer, and its call.
    Answer(&'a RecordedCall, &'a RecordedEnd),
    /// The call had been sent, but not answered for this long.
    Silent(&'a RecordedCall, Duration),
    /// The call had been sent, but its end is not in the capture.
    Lost,
    /// The recorder had not made such a call.
    Nothing,
}

impl Playback {
    /// Replays `capture` as it was at `start`; from now on `clock` shows recorded time.
    pub fn at(capture: Capture, start: (CaptureMoment, Wall), clock: Arc<ReplayClock>) -> Self {
        let mut calls: HashMap<RequestKey, Vec<usize>> = HashMap::new();
        for (index, call) in capture.calls.iter().enumerate() {
            if let Ok(subject) = RequestSubject::read(call.rpc, call.request.clone()) {
                calls
                    .entry(RequestKey::for_request(call.rpc, &subject, &call.request))
                    .or_default()
                    .push(index);
            }
        }
        Self::start_at(Arc::new(capture), Arc::new(calls), start, clock)
    }

    /// Replays the same capture from another moment.
    #[must_use]
    pub fn moved_to(&self, start: (CaptureMoment, Wall), clock: Arc<ReplayClock>) -> Self {
        Self::start_at(Arc::clone(&self.capture), Arc::clone(&self.calls), start, clock)
    }

    fn start_at(
        capture: Arc<Capture>,
        calls: Arc<HashMap<RequestKey, Vec<usize>>>,
        start: (CaptureMoment, Wall),
        clock: Arc<ReplayClock>,
    ) -> Self {
        clock.run_from(start.1);
        Self {
            unreachable: unreachable_at(&capture, start.0),
            gap: gap_at(&capture, start.0),
            incident: None,
            for_verdict: AtomicBool::new(false),
            remarks: Mutex::default(),
            capture,
            calls,
            clock,
            start,
            mode: Mutex::new(ReplayMode::At),
            next_relist: AtomicUsize::new(0),
            current: Mutex::default(),
            errors: SentErrors::default(),
            took: Mutex::default(),
            paused: AtomicBool::new(false),
        }
    }

    /// Plays the recorded relists from now on, one after the other.
    pub fn play(&self, speed: Speed) {
        let first = self.capture.relists.iter().position(|relist| relist.ended >= self.start.0);
        self.next_relist.store(first.unwrap_or(self.capture.relists.len()), Ordering::SeqCst);
        self.clock.set(Duration::ZERO, self.start.1);
        self.set_speed(speed);
    }

    /// Plays at this speed from now on.
    pub fn set_speed(&self, speed: Speed) {
        let play_speed = PlaySpeed { speed, since: self.clock.machine_time(), from: self.clock.mono() };
        *locked(&self.mode) = ReplayMode::Played(play_speed);
    }

    /// Stops the replayed time, or lets it continue. After a pause, the caller sets the speed again.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    /// Returns when the next relist began, by the wall clock; `None` at the end of the capture.
    pub fn next_relist_at(&self) -> Option<Wall> {
        let relist = self.capture.relists.get(self.next_relist.load(Ordering::SeqCst))?;
        Some(relist.wall.minus(relist.ended.since(relist.began)))
    }

    /// Moves the clock forward to `wall`.
    pub fn show(&self, wall: Wall) {
        self.clock.advance(wall.duration_since(self.clock.wall()));
    }

    fn mode(&self) -> ReplayMode {
        *locked(&self.mode)
    }

    /// Whether the recorder watched the node at the replayed moment.
    pub fn is_recorded(&self) -> bool {
        self.gap.is_none() || self.mode() != ReplayMode::At
    }

    /// Returns the node's name.
    pub fn node(&self) -> Option<String> {
        let run = self.capture.sessions.get(self.start.0.session)?;
        Some(run.session.node.clone()).filter(|node| !node.is_empty())
    }

    /// Returns the runtime's name.
    pub fn runtime(&self) -> Option<&str> {
        let run = self.capture.sessions.get(self.start.0.session)?;
        Some(run.session.runtime.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the kubelet release whose relist the recorder followed.
    pub fn kubelet_release(&self) -> Option<KubeletVersion> {
        let run = self.capture.sessions.get(self.start.0.session)?;
        KubeletVersion::parse(&run.session.kubelet).ok()
    }

    /// Returns the capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Returns the last sample of the kubelet's metrics before now, with its time.
    pub fn kubelet_metrics(&self) -> Option<(KubeletMetricsSample, Wall)> {
        self.last_document(kind::KUBELET).map(|(sample, document)| (sample, document.wall))
    }

    /// Returns the last sample of the node's processes, and the last one that was taken at least `apart` before it, each with
    /// its place. The recorder takes two samples as soon as a process stops or continues, so an old sample is still true;
    /// but if the last one is older than the pause between two samples, the states are not recorded.
    pub fn node_samples(&self, apart: Duration) -> Vec<(NodeSample, &DocumentEntry)> {
        let now = self.now();
        let mut found: Vec<(NodeSample, &DocumentEntry)> = Vec::new();
        for document in self.documents_before_now(kind::NODE).rev() {
            let is_wanted = match found.first() {
                None if now.since(document.at) > NODE_SAMPLE_AGE => break,
                None => true,
                Some((_, last)) => last.at.since(document.at) >= apart,
            };
            let sample = || serde_json::from_slice(&self.capture.text(document)?).ok();
            if is_wanted && let Some(sample) = sample() {
                found.push((sample, document));
            }
            if found.len() == 2 {
                break;
            }
        }
        found
    }

    /// Returns the limits that will be reached, by the recorder's samples before now.
    pub fn forecasts(&self) -> Vec<LimitForecast> {
        self.capture.forecasts(self.now(), self.chosen().0)
    }

    /// Returns the facts of the node that the last diagnosis before now measured; `None` if it belongs to another incident, or if
    /// its facts are too old to be true now.
    pub fn facts(&self) -> Option<NodeFacts> {
        let document = self.documents_before_now(kind::FACTS).next_back()?;
        let incident = self.incident_now()?;
        // A diagnosis that opens an incident is stored at the moment of its beginning.
        let is_of_incident = document.wall.plus(SAME_MOMENT) >= Wall::from_nanos(incident.from);
        let is_recent = self.now().since(document.at) <= FACTS_AGE && !self.states_changed_since(document);
        NodeFacts::read(&self.capture.text(document).filter(|_| is_of_incident && is_recent)?)
    }

    /// Whether the recorder has seen since `document` that the kubelet, a daemon or a shim was stopped, continued or ended.
    fn states_changed_since(&self, document: &DocumentEntry) -> bool {
        let samples = || self.documents_before_now(kind::NODE).rev();
        let states = |sample: &DocumentEntry| {
            let sample: NodeSample = serde_json::from_slice(&self.capture.text(sample)?).ok()?;
            let stopped = |process: &ProcessSample| (process.pid, process.state == "T");
            Some((
                sample.kubelet,
                sample.stopped_shims,
                sample.processes.iter().map(stopped).collect::<Vec<_>>(),
            ))
        };
        let before = samples().find(|sample| sample.at <= document.at);
        let last = samples().next().filter(|sample| sample.at > document.at);
        last.is_some_and(|last| before.and_then(states) != states(last))
    }

    /// Returns the incident that lasted at the replayed moment.
    fn incident_now(&self) -> Option<&Incident> {
        let now = self.chosen().0;
        let is_now = |incident: &&Incident| {
            let last = Wall::known(incident.to).or_else(|| self.capture.left_open(incident));
            Wall::from_nanos(incident.from) <= now && last.is_none_or(|last| now <= last)
        };
        self.capture.incidents.values().rev().find(is_now)
    }

    /// Returns the first line of the recorder's diagnosis, if it had found a problem by now and the incident was not over.
    pub fn diagnosis_of_incident(&self) -> Option<String> {
        let now = self.chosen().0;
        let found = self.incident_now().filter(|incident| Wall::from_nanos(incident.peak) <= now)?;
        matches!(found.verdict.as_str(), "degraded" | "unhealthy").then(|| found.summary.clone())
    }

    /// Returns the recorder's last diagnosis.
    pub fn diagnosis<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        self.last_document(kind::DIAGNOSIS).map(|(diagnosis, _)| diagnosis)
    }

    /// Returns the last goroutine dump's findings about the calls that were pending then and still are.
    pub fn stacks(&self) -> Option<StackReport> {
        let (kept, document) = self.last_document::<StackReport>(kind::STACKS)?;
        let age = self.now().since(document.at);
        let open = self.unanswered().into_iter().filter(|call| call.waited >= age);
        kept.about_calls(&open.map(|call| call.rpc.name()).collect())
    }

    /// Returns the documents of this kind before now, in order.
    fn documents_before_now(&self, kind: u32) -> impl DoubleEndedIterator<Item = &DocumentEntry> {
        let now = self.now();
        let known = self.capture.documents.iter().filter(move |document| document.kind == kind);
        known.filter(move |document| document.at <= now && document.at.session == now.session)
    }

    /// Returns the content of the last document of this kind before now, with its place in the capture.
    fn last_document<T: serde::de::DeserializeOwned>(&self, kind: u32) -> Option<(T, &DocumentEntry)> {
        let last = self.documents_before_now(kind).next_back()?;
        Some((serde_json::from_slice(&self.capture.text(last)?).ok()?, last))
    }

    /// Returns the replayed moment, and the number of the incident if the moment is the worst moment of one.
    pub fn chosen(&self) -> (Wall, Option<u64>) {
        match self.mode() {
            ReplayMode::At => (self.start.1, self.incident),
            ReplayMode::Played(_) => (self.clock.wall(), None),
        }
    }

    /// Marks the replayed moment as the worst moment of this incident.
    #[must_use]
    pub fn of_incident(mut self, incident: Option<u64>) -> Self {
        self.incident = incident;
        self
    }

    /// Returns the next step for the caller. `waited` means that the caller has finished the requested wait.
    pub fn next(&self, waited: bool) -> PlaybackStep {
        let ReplayMode::Played(speed) = self.mode() else { return PlaybackStep::Relist };
        let index = self.next_relist.load(Ordering::SeqCst);
        let Some(relist) = self.capture.relists.get(index) else { return PlaybackStep::End };
        let (since, wall) = self.time_of(relist);
        let now = self.clock.mono();
        let wait = speed.wait(Mono::at(since), self.clock.machine_time());
        if !waited && wait > Duration::ZERO {
            return PlaybackStep::Wait(wait);
        }
        // The replayed answers may take a little longer than the recorded ones; the clock never runs backwards.
        let since = since.max(now.since(Mono::default()));
        self.clock.set(since, wall);
        *locked(&self.current) = Some(PlayedRelist {
            session: relist.began.session,
            number: relist.done.number,
            used: Vec::new(),
        });
        self.next_relist.store(index + 1, Ordering::SeqCst);
        PlaybackStep::Relist
    }

    /// Returns when a relist began: the time since the start of the replay, and the wall clock's time.
    fn time_of(&self, relist: &RecordedRelist) -> (Duration, Wall) {
        let began = relist.began;
        let wall = relist.wall.minus(relist.ended.since(began));
        let since = if began.session == self.start.0.session {
            began.since(self.start.0)
        } else {
            // Each session has its own monotonic clock, so only the wall clock compares them.
            wall.duration_since(self.start.1)
        };
        (since, wall)
    }

    /// Finds the recorded call for `key`: a call of the played relist if there is one, otherwise the last call before `now`.
    fn find(&self, key: &RequestKey, now: CaptureMoment) -> Option<&RecordedCall> {
        let indices = self.calls.get(key)?;
        let call = |index: usize| self.capture.calls.get(index);
        let mut current = locked(&self.current);
        if let Some(current) = current.as_mut() {
            let own = indices.iter().copied().find(|index| {
                call(*index).is_some_and(|call| {
                    call.sent.session == current.session
                        && call.relist == current.number
                        && !self.capture.was_cut_short(call)
                }) && !current.used.contains(index)
            });
            if let Some(index) = own {
                current.used.push(index);
                return call(index);
            }
        }
        // The end of the recorder cuts some calls short, so that their missing answers mean nothing.
        self.sent_by(key, now).find(|call| !self.capture.was_cut_short(call))
    }

    /// Returns the current moment of the replay.
    fn now(&self) -> CaptureMoment {
        match self.mode() {
            ReplayMode::At => self.start.0,
            ReplayMode::Played(..) => {
                let index = self.next_relist.load(Ordering::SeqCst);
                let current = index.checked_sub(1).and_then(|index| self.capture.relists.get(index));
                current.map_or(self.start.0, |relist| relist.began)
            }
        }
    }

    /// Returns the calls for `key` that were sent before `now`, the last one first.
    fn sent_by<'a>(
        &'a self,
        key: &RequestKey,
        now: CaptureMoment,
    ) -> impl Iterator<Item = &'a RecordedCall> + use<'a> {
        let indices = self.calls.get(key).map(Vec::as_slice).unwrap_or_default();
        let call = |index: &usize| self.capture.calls.get(*index);
        let sent = indices.partition_point(|index| call(index).is_some_and(|call| call.sent <= now));
        let sent = indices.get(..sent).unwrap_or_default().iter().rev().filter_map(call);
        sent.take_while(move |call| call.sent.session == now.session)
    }

    /// Returns the result for `key` that was known at `now`, from the last call with a known state.
    fn known(&self, key: &RequestKey, now: CaptureMoment) -> KnownResult<'_> {
        let mut just_sent = None;
        for call in self.sent_by(key, now) {
            match self.capture.state_at(call, now) {
                CallState::NotKnown => return KnownResult::Lost,
                CallState::Open(waited) if waited < MIN_SILENCE => just_sent = Some((call, waited)),
                CallState::Open(waited) => return KnownResult::Silent(call, waited),
                // A later call may be among the lost entries.
                CallState::Ended(_) if self.capture.is_lost_at(now) => return KnownResult::Lost,
                CallState::Ended(end) => match &end.outcome {
                    RecordedOutcome::Abandoned if end.took < MIN_SILENCE => {}
                    RecordedOutcome::Abandoned | RecordedOutcome::Failed(Error::Silent { .. }) => {
                        // After the recorder gave up a call, the capture shows nothing more about it. The recorder
                        // repeats the call soon or not at all, so the silence counts only for a short time.
                        let since = now.since(call.sent.plus(end.took));
                        return if since < SILENCE {
                            KnownResult::Silent(call, since)
                        } else {
                            KnownResult::Lost
                        };
                    }
                    _ => return KnownResult::Answer(call, end),
                },
            }
        }
        just_sent.map_or(KnownResult::Nothing, |(call, waited)| KnownResult::Silent(call, waited))
    }

    /// Returns every call that had not been answered at the replayed moment. A silent call for a container or sandbox that
    /// no longer existed is left out, because it blocks nothing.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        if !self.is_recorded() {
            return Vec::new();
        }
        let now = self.now();
        let listed = [Rpc::ListPodSandbox, Rpc::ListContainers].map(|list| self.listed(list, false));
        let is_gone = |rpc: Rpc, id: &str| {
            let [sandboxes, containers] = &listed;
            let list = if rpc == Rpc::PodSandboxStatus { sandboxes } else { containers };
            list.as_ref().is_some_and(|list| list.iter().all(|listed| listed.id != id))
        };
        let mut found = Vec::new();
        for key in self.calls.keys() {
            let (rpc, id) = match key {
                RequestKey::Part(..) => continue,
                RequestKey::Runtime(rpc) | RequestKey::All(rpc) => (*rpc, None),
                RequestKey::One(rpc, id) if is_gone(*rpc, id) => continue,
                RequestKey::One(rpc, id) => (*rpc, Some(id.clone())),
            };
            // The recorder sends Version on two connections, and two silent calls are stronger evidence than one.
            let most = if rpc == Rpc::Version { 2 } else { 1 };
            if let KnownResult::Silent(last, waited) = self.known(key, now) {
                let open = self.sent_by(key, now).skip_while(|call| call.number != last.number).skip(1);
                let open = open.map_while(|call| match self.capture.state_at(call, now) {
                    CallState::Open(waited) => Some(waited),
                    _ => None,
                });
                let all = std::iter::once(waited).chain(open).take(most);
                // A list that was sent as a stream is silent as a stream.
                let rpc = last.rpc;
                found.extend(all.map(|waited| Unanswered { rpc, id: id.clone(), waited }));
            }
        }
        found.sort_by(|one, other| other.waited.cmp(&one.waited).then_with(|| one.id.cmp(&other.id)));
        found
    }

    /// Returns the listed containers or sandboxes with their owners, from the last list that had been answered. If a later
    /// list call was silent, returns `None` unless `also_old` is true.
    fn listed(&self, rpc: Rpc, also_old: bool) -> Option<Vec<ListedOwner>> {
        let (key, now) = (RequestKey::All(rpc), self.now());
        let end = match self.known(&key, now) {
            KnownResult::Answer(_, end) => Some(end),
            _ if !also_old => None,
            _ => self.sent_by(&key, now).find_map(|call| match self.capture.state_at(call, now) {
                CallState::Ended(end) if end.outcome == RecordedOutcome::Answered => Some(end),
                _ => None,
            }),
        };
        let messages = self.capture.messages(end.filter(|end| end.outcome == RecordedOutcome::Answered)?)?;
        Some(messages.iter().flat_map(|message| owners(rpc, message)).collect())
    }

    /// Returns the calls with which the recorder had listed last by now.
    pub fn list_calls(&self) -> ListCalls {
        let now = self.now();
        let sent = self.sent_by(&RequestKey::All(Rpc::ListPodSandbox), now).next();
        let streams = sent.is_some_and(|call| call.rpc.is_streamed_list());
        if streams { ListCalls::Stream } else { ListCalls::Unary }
    }

    /// Returns the sandboxes and the containers from the last lists that were answered.
    pub fn last_listed(&self) -> [Vec<ListedOwner>; 2] {
        [Rpc::ListPodSandbox, Rpc::ListContainers].map(|list| self.listed(list, true).unwrap_or_default())
    }

    /// Marks the answers from now on as the basis of a verdict, for which a long duration counts only if the slowness still
    /// lasts.
    pub fn answer_for_verdict(&self) {
        self.for_verdict.store(true, Ordering::SeqCst);
    }

    /// Returns remarks about the answers for the report: each with its subject and the reason.
    pub fn remarks(&self) -> Vec<(String, String)> {
        let remarks = locked(&self.remarks);
        let old = remarks.oldest.map(|oldest| {
            (
                format!("{} statuses at this moment", remarks.old),
                format!("not recorded: the last answers are as of {oldest} and later"),
            )
        });
        let late = remarks.late.iter().map(|(rpc, took, at)| {
            let why = format!("that call was answered at {at}, and the next answer is not recorded yet");
            (format!("the duration of {rpc} after a call that took {:.1} s", took.as_secs_f64()), why)
        });
        old.into_iter().chain(late).collect()
    }

    /// Returns the duration that counts for a verdict; `None` if the answer was slow, and no answer before it is known or that
    /// one took too long. The runtime is slow only if two answers in a row were slow.
    fn duration_for_verdict(
        &self,
        key: &RequestKey,
        call: &RecordedCall,
        end: &RecordedEnd,
        now: CaptureMoment,
    ) -> Option<Duration> {
        if end.took < SLOW {
            return Some(end.took);
        }
        let earlier = self.sent_by(key, now).skip_while(|other| other.number != call.number).skip(1);
        let answered = earlier.filter_map(|call| match self.capture.state_at(call, now) {
            CallState::Ended(end) if end.outcome == RecordedOutcome::Answered => Some(end.took),
            _ => None,
        });
        let before = answered.into_iter().next();
        match before {
            Some(before) if before >= SLOW && end.took < SILENCE => Some(end.took.min(before)),
            _ => {
                let ended = call.wall.plus(end.took);
                let mut remarks = locked(&self.remarks);
                if remarks.late.len() < 8 {
                    remarks.late.push((call.rpc, end.took, ended));
                }
                before.filter(|before| *before < SLOW)
            }
        }
    }

    /// Waits as long as the recorded call took, but not longer than `deadline`. Returns whether the call ended in time.
    async fn wait(&self, call: &RecordedCall, deadline: Option<Duration>) -> bool {
        let took = match &call.end {
            Some(end) => end.took,
            None => self.capture.seen_open(call),
        };
        let limit = deadline.unwrap_or(took);
        let mut left = took.min(limit);
        while left > Duration::ZERO {
            let step = left.min(MAX_STEP);
            left -= step;
            while self.paused.load(Ordering::SeqCst) {
                tokio::time::sleep(PAUSE_CHECK).await;
            }
            let then = self.clock.mono().plus(step);
            // The speed may change while the call is pending.
            let wait = match self.mode() {
                ReplayMode::Played(speed) => speed.wait(then, self.clock.machine_time()),
                ReplayMode::At => Duration::ZERO,
            };
            // Even at maximum speed a full step waits for a moment, so that other tasks run.
            let wait = if step == MAX_STEP { wait.max(Duration::from_millis(1)) } else { wait };
            if wait > Duration::ZERO {
                tokio::time::sleep(wait).await;
            }
            self.clock.advance(step);
        }
        took <= limit
    }

    /// Stores the recorded duration of an answer for the client, which reports it instead of the time that the replay
    /// needs.
    fn store_duration(&self, request: &Bytes, rpc: Rpc, took_then: Duration) {
        let mut took = locked(&self.took);
        if took.len() >= MAX_STORED {
            took.clear();
        }
        took.insert((rpc, request.clone()), took_then);
    }

    /// Returns the recorded answer or error of a call.
    fn messages_of(&self, call: &RecordedCall) -> Result<Vec<Bytes>, Error> {
        let Some(end) = &call.end else {
            let why = "its result was not recorded".to_owned();
            return Err(not_recorded(call.rpc, why));
        };
        match &end.outcome {
            RecordedOutcome::Answered => {
                let refusals = self.capture.refusals();
                self.capture.messages(end).ok_or_else(|| {
                    let is_too_expensive = self.capture.refusals() > refusals;
                    let why = if is_too_expensive { TOO_EXPENSIVE } else { "its answer was not kept" };
                    not_recorded(call.rpc, why.to_owned())
                })
            }
            RecordedOutcome::Failed(error) => Err(error.clone()),
            RecordedOutcome::Abandoned => Err(Error::Silent { rpc: call.rpc, waited: end.took }),
            RecordedOutcome::Unknown => {
                let why = "this version of plegctl does not know its outcome".to_owned();
                Err(not_recorded(call.rpc, why))
            }
        }
    }

    /// Returns the answer to Version from the session entry, which has the runtime's name and version.
    fn version_of_session(&self, now: CaptureMoment) -> Answer {
        let session = self.capture.sessions.get(now.session).map(|run| &run.session);
        Answer::one(message::version(Version {
            version: "0.1.0".to_owned(),
            runtime_name: session.map(|session| session.runtime.clone()).unwrap_or_default(),
            runtime_version: session.map(|session| session.runtime_version.clone()).unwrap_or_default(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    /// Answers a call in the present mode.
    async fn answer_recorded(&self, request: CallRequest) -> Result<Answer, Error> {
        match self.mode() {
            ReplayMode::At => self.answer_at_moment(&request),
            ReplayMode::Played(_) => self.play_call(request).await,
        }
    }

    /// Returns the answer that was known at the replayed moment.
    fn answer_at_moment(&self, request: &CallRequest) -> Result<Answer, Error> {
        let (rpc, now) = (request.rpc, self.start.0);
        let is_for_verdict = self.for_verdict.load(Ordering::SeqCst);
        if let Some(gap) = self.gap.as_ref().filter(|_| is_for_verdict) {
            // Without an answer to Version, the verdict would be about the connection.
            return match rpc {
                Rpc::Version => Ok(self.version_of_session(now)),
                _ => Err(not_recorded(rpc, gap.clone())),
            };
        }
        let mut key = RequestKey::for_request(rpc, &request.subject, &request.message);
        let mut known = self.known(&key, now);
        let mut is_part = false;
        if matches!(known, KnownResult::Nothing)
            && let Some(containing) = self.containing_key(&key)
        {
            is_part = true;
            known = self.known(&containing, now);
            key = containing;
        }
        if rpc == Rpc::Version && !matches!(known, KnownResult::Silent(..)) {
            if let Some(error) = &self.unreachable {
                return Err(error.clone());
            }
            match &known {
                KnownResult::Answer(_, RecordedEnd { outcome: RecordedOutcome::Failed(error), .. })
                    if error.is_connection_error() =>
                {
                    return Ok(self.version_of_session(now));
                }
                // The recorder called Version before it began to write, so only the session entry has the answer.
                KnownResult::Lost | KnownResult::Nothing => return Ok(self.version_of_session(now)),
                KnownResult::Answer(..) | KnownResult::Silent(..) => {}
            }
        }
        let missing = |why: &str| not_recorded(rpc, why.to_owned());
        let (call, end) = match known {
            KnownResult::Answer(call, end) => (call, end),
            KnownResult::Silent(_, waited) => return Err(Error::Silent { rpc, waited }),
            KnownResult::Lost => return Err(missing("its result was not recorded")),
            KnownResult::Nothing => return Err(missing("the recorder had not made this call by then")),
        };
        let age = now.since(call.sent.plus(end.took));
        let took = if is_for_verdict {
            if matches!(end.outcome, RecordedOutcome::Failed(_))
                && is_status(rpc)
                && age > self.relist_pause()
            {
                let ago = in_sentence(age);
                return Err(missing(&format!("its last call failed {ago} before, and was not repeated")));
            }
            self.note_status_age(call, end, now);
            self.duration_for_verdict(&key, call, end, now)
        } else {
            Some(end.took)
        };
        if let Some(took) = took {
            self.store_duration(&request.message, rpc, took);
        }
        self.answer_from(call, request, is_part)
    }

    /// Returns the recorded answer of a call, or only the requested part if the call lists everything.
    fn answer_from(
        &self,
        call: &RecordedCall,
        request: &CallRequest,
        is_part: bool,
    ) -> Result<Answer, Error> {
        let mut messages = as_requested(request.rpc, call, self.messages_of(call)?)?;
        if is_part && request.subject.id().is_empty() {
            messages = messages.into_iter().filter_map(|list| request.subject.select(list)).collect();
        }
        Ok(Answer::all(messages))
    }

    fn relist_pause(&self) -> Duration {
        relist_pause(&self.capture, self.start.0.session)
    }

    /// Counts an old status for the remarks.
    fn note_status_age(&self, call: &RecordedCall, end: &RecordedEnd, now: CaptureMoment) {
        if is_status(call.rpc) && now.since(call.sent.plus(end.took)) >= OLD_STATUS {
            let answered = call.wall.plus(end.took);
            let mut remarks = locked(&self.remarks);
            remarks.old += 1;
            remarks.oldest = Some(remarks.oldest.map_or(answered, |oldest| oldest.min(answered)));
        }
    }

    /// Answers a call of a played relist, after the recorded duration.
    async fn play_call(&self, request: CallRequest) -> Result<Answer, Error> {
        let key = RequestKey::for_request(request.rpc, &request.subject, &request.message);
        let now = self.now();
        let own = self.find(&key, now);
        let whole = || self.find(&self.containing_key(&key)?, now);
        let call = match own.or_else(whole) {
            Some(call) => call,
            None if request.rpc == Rpc::Version => return Ok(self.version_of_session(now)),
            None => {
                let why = "the recorder had not made this call by then".to_owned();
                return Err(not_recorded(request.rpc, why));
            }
        };
        let deadline = request.deadline;
        if !self.wait(call, deadline).await {
            let waited = deadline.unwrap_or_default();
            return Err(Error::Silent { rpc: call.rpc, waited });
        }
        self.answer_from(call, &request, own.is_none())
    }

    /// Returns a key whose answer contains the answer to `key`: the whole list for a part, or the full id for a unique
    /// prefix of an id.
    fn containing_key(&self, key: &RequestKey) -> Option<RequestKey> {
        match key {
            RequestKey::Part(rpc, _) => Some(RequestKey::All(*rpc)),
            RequestKey::One(rpc, id) if !id.is_empty() => {
                let begins = |known: &&RequestKey| matches!(known, RequestKey::One(other, known) if other == rpc && known.starts_with(id));
                let mut known = self.calls.keys().filter(begins);
                known.next().filter(|_| known.next().is_none()).cloned()
            }
            _ => None,
        }
    }
}

/// Returns the messages of a list as the requested call has them: a unary call has one, and lists of protobuf can be joined. The
/// messages of a stream are not known from a list that was recorded whole.
fn as_requested(rpc: Rpc, call: &RecordedCall, messages: Vec<Bytes>) -> Result<Vec<Bytes>, Error> {
    if rpc == call.rpc || !rpc.is_list() {
        Ok(messages)
    } else if rpc.is_streamed_list() {
        Err(not_recorded(rpc, format!("the recorder had made {} by then", call.rpc)))
    } else {
        Ok(vec![messages.concat().into()])
    }
}

const fn is_status(rpc: Rpc) -> bool {
    matches!(rpc, Rpc::PodSandboxStatus | Rpc::ContainerStatus)
}

/// Returns the longest pause after a relist in which the recorder knows the node.
fn relist_pause(capture: &Capture, session: usize) -> Duration {
    let run = capture.sessions.get(session);
    run.map_or(Duration::ZERO, |run| Duration::from_nanos(run.session.period)) + RELIST_DELAY
}

/// Returns why nothing is recorded about `now`: no relist ran then, and the last one had ended too long before.
fn gap_at(capture: &Capture, now: CaptureMoment) -> Option<String> {
    let relists = capture.relists.iter().map(|relist| (relist.began, relist.ended.min(now)));
    let calls = capture.calls.iter().filter(|call| call.relist != 0).map(|call| {
        let known = match capture.state_at(call, now) {
            CallState::Open(_) => now,
            CallState::Ended(end) => call.sent.plus(end.took),
            CallState::NotKnown => call.lost.unwrap_or(call.sent),
        };
        (call.sent, known)
    });
    let of_session = |(began, _): &(CaptureMoment, _)| began.session == now.session && *began <= now;
    let last = relists.chain(calls).filter(of_session).map(|(_, known)| known).max();
    let Some(last) = last else { return Some("no relist had begun by then".to_owned()) };
    let ago = now.since(last);
    (ago > relist_pause(capture, now.session))
        .then(|| format!("the last relist before this moment had ended {} before", in_sentence(ago)))
}

/// Returns why the runtime could not be reached at `now`, according to the last call that had ended.
fn unreachable_at(capture: &Capture, now: CaptureMoment) -> Option<Error> {
    let ended = capture.calls.iter().filter(|call| call.sent.session == now.session && call.sent <= now);
    let ended = ended.filter_map(|call| match capture.state_at(call, now) {
        CallState::Ended(end) => Some((call.sent.plus(end.took), &end.outcome)),
        _ => None,
    });
    let known = ended.filter_map(|(at, outcome)| match outcome {
        RecordedOutcome::Failed(error) if error.is_connection_error() => Some((at, Some(error))),
        RecordedOutcome::Failed(Error::Silent { .. })
        | RecordedOutcome::Abandoned
        | RecordedOutcome::Unknown => None,
        RecordedOutcome::Answered | RecordedOutcome::Failed(_) => Some((at, None)),
    });
    known.max_by_key(|(at, _)| *at)?.1.cloned()
}

/// A playback behind an in-process server. Its clients get exactly the recorded answers and errors.
pub struct ReplayServer {
    playback: Arc<Playback>,
    server: InProcess,
}

/// The service for plegctl's own clients, which get the original errors.
struct ReplayService(Arc<Playback>);

impl Service for ReplayService {
    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
        self.0.answer_recorded(request).await.map_err(|error| self.0.errors.send(error))
    }
}

impl ReplayServer {
    /// Starts the server; `endpoint` is the name that the user gave.
    pub fn open(endpoint: &str, playback: Playback) -> io::Result<Self> {
        let playback = Arc::new(playback);
        let server = InProcess::start(endpoint, Arc::new(ReplayService(Arc::clone(&playback))))?;
        Ok(Self { playback, server })
    }

    /// Returns the playback.
    pub const fn playback(&self) -> &Arc<Playback> {
        &self.playback
    }

    /// Creates a client of the playback.
    pub fn client(&self, deadline: Duration) -> Client {
        let clock: Arc<dyn Clock> = Arc::clone(&self.playback.clock) as _;
        self.server.client(deadline, clock).with_outcome_override(Arc::clone(&self.playback) as _)
    }
}

impl OutcomeOverride for Playback {
    fn error(&self, message: &str) -> Option<Error> {
        self.errors.receive(message)
    }

    fn duration(&self, rpc: Rpc, request: &[u8]) -> Option<Duration> {
        let mut took = locked(&self.took);
        took.remove(&(rpc, Bytes::copy_from_slice(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_of_replay_steps_does_not_add_up() {
        let seconds = Duration::from_secs;
        // A hundred recorded seconds at ten times the speed; each step itself takes 30 ms.
        let mut passed = Duration::ZERO;
        for step in 1..=100 {
            passed += Speed::Times(10).wait(seconds(step), passed) + Duration::from_millis(30);
        }
        assert_eq!(passed, seconds(10) + Duration::from_millis(30));
        assert_eq!(
            Speed::Times(1).wait(seconds(5), seconds(7)),
            Duration::ZERO,
            "a late replay does not wait"
        );
        assert_eq!(Speed::Max.wait(seconds(5), Duration::ZERO), Duration::ZERO);
    }
}
