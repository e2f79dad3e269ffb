//! Replays a capture as a runtime: it answers each call with the recorded answer, in recorded time.
//!
//! There are two modes ([`ReplayMode`]). *At a moment*, only what was known at that moment counts: a call that had ended has
//! its answer, and a call that was open is silent, whatever its later result. If the end of a call was lost, its result
//! is not known. *Played*, the recorded relists are replayed one after the other, and the recorded durations move the
//! clock. In both modes, a call that the recorder did not make fails as *not recorded*.
//!
//! [`Playback`] finds the answers. [`ReplayServer`] serves a playback on an in-process server and creates clients for it.
//! [`OwnClientService`] is the service for plegctl's own clients, [`AnyClientService`] the one for other CRI clients.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::ReplayClock;
use super::entry::{RecordedOutcome, kind};
use super::node::{KubeletSample, NodeSample};
use super::not_recorded;
use super::play::StreamReplay;
use super::read::{CallState, Capture, CaptureMoment, RecordedCall, RecordedEnd};
use super::stacks::RecordedStacks;
use crate::clock::{Clock, Mono, Wall};
use crate::cri::rename::{ListedOwner, owners};
use crate::cri::server::{
    Answer, Bytes, CallRequest, ExtraRequest, InProcess, RequestSubject, Service, ServiceError, message,
};
use crate::cri::{Client, Code, Error, EventStream, OutcomeOverride, Rpc, Version};
use crate::pleg::guarded_stream::RecordedStream;
use crate::stacks::report::StackReport;
use crate::threads::locked;

/// The length of one step of a long wait, so that events during the wait are delivered in time.
const STEP: Duration = Duration::from_millis(500);

/// How often the replay checks whether an event was processed.
const PROCESSING_CHECK: Duration = Duration::from_micros(200);

/// A call that has been open for less time is not silent: the answer before it counts.
const MIN_SILENCE: Duration = Duration::from_secs(2);

/// If two answers in a row took longer, the runtime counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// An answer that took longer ended a silence.
const SILENCE: Duration = Duration::from_secs(5);

/// A status that is older than this is reported as old.
const OLD: Duration = Duration::from_secs(60);

/// The reason for an answer that is in the capture but is not read.
const TOO_HEAVY: &str = "unpacking its answer costs more than a capture of this size may";

/// The maximum number of errors, and of durations, that are stored until the client fetches them.
const MOST_ERRORS: usize = 4096;

/// The prefix of an error message that refers to an error in [`SentErrors`].
const TICKET: &str = "recorded error ";

/// The subject of a call. Equal requests have the same key, even if their bytes differ.
#[derive(Clone, PartialEq, Eq, Hash)]
enum RequestKey {
    Runtime(Rpc),
    One(Rpc, String),
    Everything(Rpc),
    Some(Rpc, Bytes),
}

impl RequestKey {
    fn of(rpc: Rpc, subject: &RequestSubject, request: &Bytes) -> Self {
        match subject {
            RequestSubject::Runtime => Self::Runtime(rpc),
            RequestSubject::One(id) => Self::One(rpc, id.clone()),
            RequestSubject::Sandboxes(wanted) if wanted.matches_all() => Self::Everything(rpc),
            RequestSubject::Containers(wanted) if wanted.matches_all() => Self::Everything(rpc),
            RequestSubject::Sandboxes(_) | RequestSubject::Containers(_) => Self::Some(rpc, request.clone()),
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
    /// Returns how long to wait for an entry that was recorded `recorded` after the beginning, if the replay has run
    /// for `passed`. Both count from the beginning: waits from step to step would add up the time of the steps
    /// themselves.
    fn wait(self, recorded: Duration, passed: Duration) -> Duration {
        match self {
            Self::Times(times) => (recorded / times.max(1)).saturating_sub(passed),
            Self::Max => Duration::ZERO,
        }
    }
}

/// How a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReplayMode {
    /// As it was at one moment, the start of the playback.
    At,
    /// One relist after the other, at this speed, since this time of the machine's clock.
    Played(Speed, Mono),
}

/// What the caller that plays relists does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackStep {
    /// Wait for this duration, then call `next` again.
    Wait(Duration),
    /// Make the next relist.
    Relist,
    /// Process the event stream.
    Listen,
    /// Stop: the capture has no more entries.
    End,
}

/// A capture that is replayed.
pub struct Playback {
    capture: Arc<Capture>,
    calls: HashMap<RequestKey, Vec<usize>>,
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
    stream: StreamReplay,
    incident: Option<u64>,
    /// Why the runtime could not be reached at the start moment.
    unreachable: Option<Error>,
    /// Whether the answers are for a verdict, which ignores a silence that was over.
    judged: AtomicBool,
    remarks: Mutex<Remarks>,
}

/// Remarks for the report about the answers on which the verdict is based.
#[derive(Default)]
struct Remarks {
    /// The number of old statuses, and the time of the oldest one.
    old: usize,
    oldest: Option<Wall>,
    /// Answers that ended a silence before the moment.
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

/// The relist that is being played, and its calls that were already used.
struct PlayedRelist {
    session: usize,
    number: u64,
    used: Vec<usize>,
}

/// Errors that the in-process server returns to a client. gRPC transports only a code and a message, so the message
/// contains a number under which the client finds the original error here.
#[derive(Default)]
struct SentErrors {
    known: Mutex<(u64, HashMap<u64, Error>)>,
}

impl SentErrors {
    fn send(&self, error: Error) -> ServiceError {
        let code = error.code().unwrap_or(Code::Unavailable);
        let mut known = locked(&self.known);
        known.0 += 1;
        let ticket = known.0;
        if known.1.len() >= MOST_ERRORS {
            known.1.clear();
        }
        known.1.insert(ticket, error);
        ServiceError::new(code, format!("{TICKET}{ticket}"))
    }

    fn receive(&self, words: &str) -> Option<Error> {
        let ticket = words.strip_prefix(TICKET)?.parse().ok()?;
        locked(&self.known).1.remove(&ticket)
    }
}

/// What was known about a request at a moment.
enum KnownResult<'a> {
    /// The last answer, and its call.
    Answer(&'a RecordedCall, &'a RecordedEnd),
    /// The call had not been answered for this long.
    Silent(&'a RecordedCall, Duration),
    /// The call had been sent, but its result was lost.
    Lost,
    /// The recorder had not made this call.
    Nothing,
}

impl RecordedStream for Playback {
    fn is_open(&self) -> bool {
        self.stream.is_open()
    }

    fn listen(&self) -> EventStream {
        self.stream.listen()
    }
}

impl Playback {
    /// Replays `capture` as it was at `start`; from now on `clock` shows recorded time.
    pub fn at(capture: Capture, start: (CaptureMoment, Wall), clock: Arc<ReplayClock>) -> Self {
        let mut calls: HashMap<RequestKey, Vec<usize>> = HashMap::new();
        for (index, call) in capture.calls.iter().enumerate() {
            if let Ok(subject) = RequestSubject::read(call.rpc, call.request.clone()) {
                calls.entry(RequestKey::of(call.rpc, &subject, &call.request)).or_default().push(index);
            }
        }
        clock.run_from(start.1);
        let capture = Arc::new(capture);
        Self {
            stream: StreamReplay::of(&capture, start.0),
            unreachable: unreachable_at(&capture, start.0),
            incident: None,
            judged: AtomicBool::new(false),
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
        }
    }

    /// The recorded event stream.
    pub const fn stream(&self) -> &StreamReplay {
        &self.stream
    }

    /// Plays the recorded relists from now on, one after the other.
    pub fn play(&self, speed: Speed) {
        let first = self.capture.relists.iter().position(|relist| relist.ended >= self.start.0);
        self.next_relist.store(first.unwrap_or(self.capture.relists.len()), Ordering::SeqCst);
        *locked(&self.mode) = ReplayMode::Played(speed, self.clock.own());
        self.clock.set(Duration::ZERO, self.start.1);
    }

    fn mode(&self) -> ReplayMode {
        *locked(&self.mode)
    }

    /// Whether relists are played.
    pub fn is_played(&self) -> bool {
        matches!(self.mode(), ReplayMode::Played(..))
    }

    /// The node's name.
    pub fn node(&self) -> Option<String> {
        let run = self.capture.sessions.get(self.start.0.session)?;
        Some(run.session.node.clone()).filter(|node| !node.is_empty())
    }

    /// The capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Returns the last sample of the kubelet's metrics before now, with its time.
    pub fn kubelet_metrics(&self) -> Option<(KubeletSample, Wall)> {
        let now = self.now();
        let mut known = self.capture.documents.iter().filter(|document| document.kind == kind::KUBELET);
        let last = known.rfind(|document| document.at <= now && document.at.session == now.session)?;
        Some((serde_json::from_slice(&self.capture.text(last)?).ok()?, last.wall))
    }

    /// Returns the last sample of the node's processes. The recorder takes one as soon as the kubelet or a shim stops
    /// or continues.
    pub fn node_sample(&self) -> Option<NodeSample> {
        self.last_document(kind::NODE).map(|(sample, _)| sample)
    }

    /// Returns what the last goroutine dump shows about the calls that have not been answered since.
    pub fn stacks(&self) -> Option<StackReport> {
        let (kept, at) = self.last_document::<RecordedStacks>(kind::STACKS)?;
        let age = self.now().since(at);
        let open = self.unanswered().into_iter().filter(|call| call.waited >= age);
        kept.about_calls(&open.map(|call| call.rpc.name()).collect())
    }

    /// Returns the last document of this kind before now, with its moment.
    fn last_document<T: serde::de::DeserializeOwned>(&self, kind: u32) -> Option<(T, CaptureMoment)> {
        let now = self.now();
        let known = self.capture.documents.iter().filter(|document| document.kind == kind);
        let mut known = known.filter(|document| document.at <= now && document.at.session == now.session);
        let last = known.next_back()?;
        Some((serde_json::from_slice(&self.capture.text(last)?).ok()?, last.at))
    }

    /// The replayed moment, and the incident whose worst moment it is, if the moment was chosen for that.
    pub const fn chosen(&self) -> (Wall, Option<u64>) {
        (self.start.1, self.incident)
    }

    /// Marks the replayed moment as the worst moment of this incident.
    #[must_use]
    pub fn of_incident(mut self, incident: Option<u64>) -> Self {
        self.incident = incident;
        self
    }

    /// Returns what the caller does next. `waited` means that the caller has finished the requested wait.
    pub fn next(&self, waited: bool) -> PlaybackStep {
        let ReplayMode::Played(speed, origin) = self.mode() else { return PlaybackStep::Relist };
        let index = self.next_relist.load(Ordering::SeqCst);
        let relist = self.capture.relists.get(index);
        let at = relist.map(|relist| {
            let (since, wall) = self.time_of(relist.began, relist.wall, relist.ended.since(relist.began));
            (since, wall, relist)
        });
        let event = self.stream.next().map(|(at, wall)| self.time_of(at, wall, Duration::ZERO));
        let event = event.filter(|event| at.is_none_or(|(since, ..)| event.0 <= since));
        let (since, wall) = match (event, at) {
            (Some(event), _) => event,
            (None, Some((since, wall, _))) => (since, wall),
            (None, None) => return PlaybackStep::End,
        };
        let now = self.clock.mono();
        let wait = speed.wait(since, self.clock.own().since(origin));
        if !waited && wait > Duration::ZERO {
            return PlaybackStep::Wait(wait);
        }
        // The replayed answers may take a little longer than the recorded ones; the clock never runs backwards.
        let since = since.max(now.since(Mono::default()));
        self.clock.set(since, wall);
        if event.is_some() {
            self.stream.send_next(&self.capture);
            return PlaybackStep::Listen;
        }
        let Some(relist) = relist else { return PlaybackStep::End };
        *locked(&self.current) = Some(PlayedRelist {
            session: relist.began.session,
            number: relist.done.number,
            used: Vec::new(),
        });
        self.next_relist.store(index + 1, Ordering::SeqCst);
        PlaybackStep::Relist
    }

    /// Returns the time since the start of the replay at which an entry began, and the time of the wall clock then.
    /// `ended` is the wall clock's time at its end.
    fn time_of(&self, began: CaptureMoment, ended: Wall, took: Duration) -> (Duration, Wall) {
        let wall = ended.minus(took);
        let since = if began.session == self.start.0.session {
            began.since(self.start.0)
        } else {
            // Each session has its own monotonic clock, so only the wall clock compares them.
            wall.duration_since(self.start.1)
        };
        (since, wall)
    }

    /// Finds the recorded call for `key`: in the played relist, else the last one before `now`.
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
        let before = indices.partition_point(|index| call(*index).is_some_and(|call| call.sent <= now));
        let mut before = indices.iter().take(before).rev().filter_map(|index| call(*index));
        let last = before.find(|call| !self.capture.was_cut_short(call));
        last.filter(|call| call.sent.session == now.session)
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

    /// Returns what was known about `key` at `now`, from the last call that has a known state.
    fn known(&self, key: &RequestKey, now: CaptureMoment) -> KnownResult<'_> {
        let mut just_sent = None;
        for call in self.sent_by(key, now) {
            match self.capture.state_at(call, now) {
                CallState::NotKnown => return KnownResult::Lost,
                CallState::Open(waited) if waited < MIN_SILENCE => just_sent = Some((call, waited)),
                CallState::Open(waited) => return KnownResult::Silent(call, waited),
                CallState::Ended(end) => match &end.outcome {
                    RecordedOutcome::Abandoned if end.took < MIN_SILENCE => {}
                    RecordedOutcome::Abandoned | RecordedOutcome::Failed(Error::Silent { .. }) => {
                        // Nothing more is known about a call that was given up: the recorder soon repeats it, or never
                        // does.
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

    /// Returns every call that had not been answered at the replayed moment. A silent call for a container or sandbox
    /// that no longer existed is left out: it blocks nothing.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        let now = self.start.0;
        let listed = [Rpc::ListPodSandbox, Rpc::ListContainers].map(|list| self.listed(list, false));
        let is_gone = |rpc: Rpc, id: &str| {
            let [sandboxes, containers] = &listed;
            let list = if rpc == Rpc::PodSandboxStatus { sandboxes } else { containers };
            list.as_ref().is_some_and(|list| list.iter().all(|listed| listed.id != id))
        };
        let mut found = Vec::new();
        for key in self.calls.keys() {
            let (rpc, id) = match key {
                RequestKey::Runtime(Rpc::GetContainerEvents) | RequestKey::Some(..) => continue,
                RequestKey::Runtime(rpc) | RequestKey::Everything(rpc) => (*rpc, None),
                RequestKey::One(rpc, id) if is_gone(*rpc, id) => continue,
                RequestKey::One(rpc, id) => (*rpc, Some(id.clone())),
            };
            // The recorder calls Version on two connections, and two silent calls are stronger evidence than one.
            let most = if rpc == Rpc::Version { 2 } else { 1 };
            if let KnownResult::Silent(last, waited) = self.known(key, now) {
                let open = self.sent_by(key, now).skip_while(|call| call.number != last.number).skip(1);
                let open = open.map_while(|call| match self.capture.state_at(call, now) {
                    CallState::Open(waited) => Some(waited),
                    _ => None,
                });
                let all = std::iter::once(waited).chain(open).take(most);
                found.extend(all.map(|waited| Unanswered { rpc, id: id.clone(), waited }));
            }
        }
        found
            .sort_unstable_by(|one, other| other.waited.cmp(&one.waited).then_with(|| one.id.cmp(&other.id)));
        found
    }

    /// Returns the ids and their owners from the last list that had been answered. Without `also_old`: `None` if a
    /// later list call is silent.
    fn listed(&self, rpc: Rpc, also_old: bool) -> Option<Vec<ListedOwner>> {
        let (key, now) = (RequestKey::Everything(rpc), self.start.0);
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

    /// Returns the sandboxes and the containers from the last lists that were answered.
    pub fn last_listed(&self) -> [Vec<ListedOwner>; 2] {
        [Rpc::ListPodSandbox, Rpc::ListContainers].map(|list| self.listed(list, true).unwrap_or_default())
    }

    /// Marks the answers from now on as the basis of a verdict: a long duration counts only if the slowness still
    /// lasts.
    pub fn answer_for_verdict(&self) {
        self.judged.store(true, Ordering::SeqCst);
    }

    /// Returns remarks for the report about the answers: the subject and the reason.
    pub fn remarks(&self) -> Vec<(String, String)> {
        let remarks = locked(&self.remarks);
        let old = remarks.oldest.map(|oldest| {
            (
                format!("{} statuses at this moment", remarks.old),
                format!("not recorded: the last answers are as of {oldest} and later"),
            )
        });
        let late = remarks.late.iter().map(|(rpc, took, at)| {
            let why = format!("it was answered at {at}, and the next answer is not recorded yet");
            (format!("how long {rpc} takes after one that took {:.1} s", took.as_secs_f64()), why)
        });
        old.into_iter().chain(late).collect()
    }

    /// Returns the duration of an answer that counts for a verdict. A silence that was over does not count. The runtime
    /// is slow only if two answers in a row were slow.
    fn lasting(
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

    /// Waits as long as the recorded call took, but at most until `deadline`. Returns whether the call ended before it.
    async fn wait(
        &self,
        call: &RecordedCall,
        speed: Speed,
        origin: Mono,
        deadline: Option<Duration>,
    ) -> bool {
        let took = match &call.end {
            Some(end) => end.took,
            None => self.capture.seen_open(call),
        };
        let limit = deadline.unwrap_or(took);
        let mut left = took.min(limit);
        while left > Duration::ZERO {
            let step = left.min(STEP).min(self.until_stream_item().unwrap_or(STEP));
            left -= step;
            let then = self.clock.mono().plus(step).since(Mono::default());
            let wait = speed.wait(then, self.clock.own().since(origin));
            // A full step takes some real time even at maximum speed, so that other tasks run.
            let wait = if step == STEP { wait.max(Duration::from_millis(1)) } else { wait };
            if wait > Duration::ZERO {
                tokio::time::sleep(wait).await;
            }
            self.clock.advance(step);
            self.deliver_due_items().await;
        }
        took <= limit
    }

    /// Stores the recorded duration of an answer for the client, which reports it instead of the time that the replay
    /// needs.
    fn store_duration(&self, request: &Bytes, rpc: Rpc, took_then: Duration) {
        let mut took = locked(&self.took);
        if took.len() >= MOST_ERRORS {
            took.clear();
        }
        took.insert((rpc, request.clone()), took_then);
    }

    /// Returns the time until the next item of the event stream.
    fn until_stream_item(&self) -> Option<Duration> {
        let (at, wall) = self.stream.next()?;
        let (since, _) = self.time_of(at, wall, Duration::ZERO);
        Some(Mono::at(since).since(self.clock.mono()))
    }

    /// Delivers the events that are due, and waits until each is processed, so that they arrive before the open call is
    /// answered.
    async fn deliver_due_items(&self) {
        while self.until_stream_item() == Some(Duration::ZERO) {
            self.stream.send_next(&self.capture);
            while !self.stream.is_processed() {
                tokio::time::sleep(PROCESSING_CHECK).await;
            }
        }
    }

    fn messages_of(&self, call: &RecordedCall) -> Result<Vec<Bytes>, Error> {
        let Some(end) = &call.end else {
            let why = "its result was not recorded".to_owned();
            return Err(not_recorded(call.rpc, why));
        };
        match &end.outcome {
            RecordedOutcome::Answered => {
                let refusals = self.capture.refusals();
                self.capture.messages(end).ok_or_else(|| {
                    let is_too_heavy = self.capture.refusals() > refusals;
                    let why = if is_too_heavy { TOO_HEAVY } else { "its answer was not kept" };
                    not_recorded(call.rpc, why.to_owned())
                })
            }
            RecordedOutcome::Failed(error) => Err(error.clone()),
            RecordedOutcome::Abandoned => Err(Error::Silent { rpc: call.rpc, waited: end.took }),
            RecordedOutcome::Unknown => {
                let why = "it ended in a way that this version of plegctl does not know".to_owned();
                Err(not_recorded(call.rpc, why))
            }
        }
    }

    fn version_of_session(&self, now: CaptureMoment) -> Answer {
        let session = self.capture.sessions.get(now.session).map(|run| &run.session);
        Answer::one(message::version(Version {
            version: "0.1.0".to_owned(),
            runtime_name: session.map(|session| session.runtime.clone()).unwrap_or_default(),
            runtime_version: session.map(|session| session.runtime_version.clone()).unwrap_or_default(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn play_back(&self, request: CallRequest) -> Result<Answer, Error> {
        match self.mode() {
            ReplayMode::At => self.answer_then(&request),
            ReplayMode::Played(speed, origin) => self.play_call(request, speed, origin).await,
        }
    }

    /// Returns the answer that was known at the replayed moment.
    fn answer_then(&self, request: &CallRequest) -> Result<Answer, Error> {
        let (rpc, now) = (request.rpc, self.start.0);
        let mut key = RequestKey::of(rpc, &request.subject, &request.message);
        let mut known = self.known(&key, now);
        let mut part = None;
        if matches!(known, KnownResult::Nothing)
            && let Some(wider) = self.wider(&key)
        {
            // The requested part of a list is in the recorded whole list.
            part = Some(&request.subject).filter(|subject| subject.id().is_empty());
            known = self.known(&wider, now);
            key = wider;
        }
        if rpc == Rpc::Version && !matches!(known, KnownResult::Silent(..)) {
            if let Some(error) = &self.unreachable {
                return Err(error.clone());
            }
            match &known {
                KnownResult::Answer(_, RecordedEnd { outcome: RecordedOutcome::Failed(error), .. })
                    if is_connection_error(error) =>
                {
                    return Ok(self.version_of_session(now));
                }
                // The recorder called Version before it began to write; the answer is in the session entry.
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
        let took = if self.judged.load(Ordering::SeqCst) {
            self.note_age(call, end, now);
            self.lasting(&key, call, end, now)
        } else {
            Some(end.took)
        };
        if let Some(took) = took {
            self.store_duration(&request.message, rpc, took);
        }
        let answer = self.messages_of(call)?;
        Ok(Answer::all(match part {
            Some(part) => answer.into_iter().filter_map(|list| part.select(list)).collect(),
            None => answer,
        }))
    }

    fn note_age(&self, call: &RecordedCall, end: &RecordedEnd, now: CaptureMoment) {
        let is_status = matches!(call.rpc, Rpc::PodSandboxStatus | Rpc::ContainerStatus);
        if is_status && now.since(call.sent.plus(end.took)) >= OLD {
            let answered = call.wall.plus(end.took);
            let mut remarks = locked(&self.remarks);
            remarks.old += 1;
            remarks.oldest = Some(remarks.oldest.map_or(answered, |oldest| oldest.min(answered)));
        }
    }

    async fn play_call(&self, request: CallRequest, speed: Speed, origin: Mono) -> Result<Answer, Error> {
        let key = RequestKey::of(request.rpc, &request.subject, &request.message);
        let now = self.now();
        let mut part = None;
        let mut found = self.find(&key, now);
        if found.is_none()
            && let Some(wider) = self.wider(&key)
        {
            part = Some(&request.subject);
            found = self.find(&wider, now);
        }
        let call = match found {
            Some(call) => call,
            None if request.rpc == Rpc::Version => return Ok(self.version_of_session(now)),
            None => {
                let why = "the recorder had not made this call by then".to_owned();
                return Err(not_recorded(request.rpc, why));
            }
        };
        let deadline = request.deadline;
        if !self.wait(call, speed, origin, deadline).await {
            let waited = deadline.unwrap_or_default();
            return Err(Error::Silent { rpc: call.rpc, waited });
        }
        let answer = self.messages_of(call)?;
        Ok(Answer::all(match part.filter(|subject| subject.id().is_empty()) {
            Some(part) => answer.into_iter().filter_map(|list| part.select(list)).collect(),
            None => answer,
        }))
    }

    /// Returns a recorded key whose answer contains the answer to `key`: the whole list, or the only id with this
    /// prefix.
    fn wider(&self, key: &RequestKey) -> Option<RequestKey> {
        match key {
            RequestKey::Some(rpc, _) => Some(RequestKey::Everything(*rpc)),
            RequestKey::One(rpc, id) if !id.is_empty() => {
                let begins = |known: &&RequestKey| matches!(known, RequestKey::One(other, known) if other == rpc && known.starts_with(id));
                let mut known = self.calls.keys().filter(begins);
                known.next().filter(|_| known.next().is_none()).cloned()
            }
            _ => None,
        }
    }
}

/// Whether the error means that the connection to the runtime failed, which affects every other call too.
const fn is_connection_error(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSuchSocket { .. }
            | Error::NotASocket { .. }
            | Error::PermissionDenied { .. }
            | Error::Refused { .. }
            | Error::Unreachable { .. }
            | Error::WrongProtocol { .. }
    )
}

/// Returns why the runtime could not be reached, from the last call that had ended.
fn unreachable_at(capture: &Capture, now: CaptureMoment) -> Option<Error> {
    let ended = capture.calls.iter().filter(|call| call.sent.session == now.session && call.sent <= now);
    let ended = ended.filter_map(|call| match capture.state_at(call, now) {
        CallState::Ended(end) => Some((call.sent.plus(end.took), &end.outcome)),
        _ => None,
    });
    let known = ended.filter_map(|(at, outcome)| match outcome {
        RecordedOutcome::Failed(error) if is_connection_error(error) => Some((at, Some(error))),
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
struct OwnClientService(Arc<Playback>);

/// The service for other CRI clients, which get gRPC errors; a silent call never ends.
pub struct AnyClientService(pub Arc<Playback>);

impl Service for OwnClientService {
    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
        self.0.play_back(request).await.map_err(|error| self.0.errors.send(error))
    }
}

impl Service for AnyClientService {
    /// crictl calls `ImageFsInfo` before everything else, and `ImageStatus` for names. A capture does not contain their
    /// answers. An empty answer lets crictl continue, an error would not.
    async fn answer_extra(self: Arc<Self>, request: ExtraRequest) -> Option<Result<Bytes, ServiceError>> {
        Some(match request {
            ExtraRequest::ImageFilesystem | ExtraRequest::Image(_) => Ok(Bytes::new()),
            _ => Err(ServiceError::new(
                Code::Unavailable,
                "it is not recorded: the recorder did not make this call",
            )),
        })
    }

    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
        let refusal = |error: Error| {
            let message = match &error {
                Error::Runtime { message, .. } | Error::Unimplemented { message, .. } => message.clone(),
                other => other.to_string(),
            };
            ServiceError::new(error.code().unwrap_or(Code::Unavailable), message)
        };
        match self.0.play_back(request).await {
            // The client waits, as the recorder did.
            Err(Error::Silent { .. }) => std::future::pending().await,
            ended => ended.map_err(refusal),
        }
    }
}

impl ReplayServer {
    /// Starts the server; `endpoint` is the name that the user gave.
    pub fn open(endpoint: &str, playback: Playback) -> io::Result<Self> {
        let playback = Arc::new(playback);
        let server = InProcess::start(endpoint, Arc::new(OwnClientService(Arc::clone(&playback))))?;
        Ok(Self { playback, server })
    }

    /// The playback.
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
    fn error(&self, words: &str) -> Option<Error> {
        self.errors.receive(words)
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
