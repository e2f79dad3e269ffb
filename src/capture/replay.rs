//! A capture as one more runtime: it answers what was asked then as it was answered then, in recorded time.
//!
//! Two ways. At a *moment*, only what was known then counts: a call that had ended has its answer, one that was open is
//! silent since it was sent, whatever became of it later, and of one whose end was not kept nothing is known. *Played*,
//! the recorded relists come one after the other, and the clock is moved by the answers. What nobody asked then is not
//! recorded, and that is the answer: nothing is made up.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clock::ReplayClock;
use super::entry::{Outcome, kind};
use super::node::{KubeletSample, NodeSample};
use super::play::Stream;
use super::read::{CallState, Capture, End, Moment, RecordedCall};
use super::stacks::KeptStacks;
use crate::clock::{Clock, Mono, Wall};
use crate::cri::rename::{Listed, owners};
use crate::cri::server::{
    Answer, Bytes, CallRequest, ExtraRequest, InProcess, Refusal, Service, Subject, message,
};
use crate::cri::{Client, Code, Error, OutcomeOverride, Rpc, Version};
use crate::stacks::report::StackReport;

/// In which steps a long wait is played, so that what happens meanwhile is seen.
const STEP: Duration = Duration::from_millis(500);

/// How often it is looked whether what the stream brought was taken.
const TAKING: Duration = Duration::from_micros(200);

/// A call that has been open for less is on its way, and the answer before it counts.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// An answer that took longer says that the runtime is slow, if the one before it did too.
const SLOW: Duration = Duration::from_secs(1);

/// What took longer was a silence, and is over.
const SILENCE: Duration = Duration::from_secs(5);

/// A status that is older than this is said to be old.
const OLD: Duration = Duration::from_secs(60);

/// Why an answer that is in the capture is not given.
const TOO_HEAVY: &str = "unpacking its answer costs more than a capture of this size may";

/// How many errors that are on their way to the client are known by number.
const MOST_ERRORS: usize = 4096;

/// What an error of ours begins with on its way through our own server.
const TICKET: &str = "recorded error ";

/// What a call is about, so that the same request is known again however it was written.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Runtime(Rpc),
    One(Rpc, String),
    Everything(Rpc),
    Some(Rpc, Bytes),
}

impl Key {
    fn of(rpc: Rpc, subject: &Subject, request: &Bytes) -> Self {
        match subject {
            Subject::Runtime => Self::Runtime(rpc),
            Subject::One(id) => Self::One(rpc, id.clone()),
            Subject::Sandboxes(wanted) if wanted.matches_all() => Self::Everything(rpc),
            Subject::Containers(wanted) if wanted.matches_all() => Self::Everything(rpc),
            Subject::Sandboxes(_) | Subject::Containers(_) => Self::Some(rpc, request.clone()),
        }
    }
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was.
    Times(u32),
    /// Without waiting.
    Max,
}

impl Speed {
    /// How long is to be waited for what was recorded so long after the beginning, now that so much time has passed. By
    /// the whole of it and not from one step to the next: what the steps themselves take would add up.
    fn wait(self, recorded: Duration, passed: Duration) -> Duration {
        match self {
            Self::Times(times) => (recorded / times.max(1)).saturating_sub(passed),
            Self::Max => Duration::ZERO,
        }
    }
}

/// How a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// As it was at the moment at which it begins.
    At,
    /// One relist after the other, since the machine's clock showed this.
    Played(Speed, Mono),
}

/// What is to be done next by whoever plays relists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait so long, and ask again.
    Wait(Duration),
    /// Relist.
    Relist,
    /// Look at the event stream.
    Listen,
    /// The capture ends here.
    End,
}

/// A capture that is replayed.
pub struct Playback {
    capture: Arc<Capture>,
    calls: HashMap<Key, Vec<usize>>,
    clock: Arc<ReplayClock>,
    start: (Moment, Wall),
    way: Mutex<Way>,
    /// Relists to come.
    place: AtomicUsize,
    /// The relist that is played.
    current: Mutex<Option<Current>>,
    errors: Errors,
    /// How long the calls took that were answered last.
    took: Mutex<HashMap<(Rpc, Bytes), Duration>>,
    stream: Stream,
    incident: Option<u64>,
    /// Why the runtime could not be reached then.
    unreachable: Option<Error>,
    /// Whether answers are for a verdict, in which a silence that was over has no part.
    judged: AtomicBool,
    remarks: Mutex<Remarks>,
}

/// What a verdict should say about the answers that it rests on.
#[derive(Default)]
struct Remarks {
    /// How many statuses are old, and when the oldest of them was answered.
    old: usize,
    oldest: Option<Wall>,
    /// Answers that came after a silence that was over by then.
    late: Vec<(Rpc, Duration, Wall)>,
}

/// A call that had not been answered at the moment that is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// What was asked.
    pub rpc: Rpc,
    /// About which container or sandbox.
    pub id: Option<String>,
    /// For how long.
    pub waited: Duration,
}

struct Current {
    session: usize,
    number: u64,
    used: Vec<usize>,
}

/// Errors on their way through our own server, which only carries a code and words.
#[derive(Default)]
struct Errors {
    known: Mutex<(u64, HashMap<u64, Error>)>,
}

impl Errors {
    fn send(&self, error: Error) -> Refusal {
        let code = error.code().unwrap_or(Code::Unavailable);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 += 1;
        let ticket = known.0;
        if known.1.len() >= MOST_ERRORS {
            known.1.clear();
        }
        known.1.insert(ticket, error);
        Refusal::new(code, format!("{TICKET}{ticket}"))
    }

    fn receive(&self, words: &str) -> Option<Error> {
        let ticket = words.strip_prefix(TICKET)?.parse().ok()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&ticket)
    }
}

/// What was recorded of a request.
enum Recorded<'a> {
    Call(&'a RecordedCall),
    Nothing,
}

/// What was known of a request at a moment.
enum Known<'a> {
    /// The answer to this call, the last that there was.
    Answer(&'a RecordedCall, &'a End),
    /// It had not been answered for so long.
    Silent(&'a RecordedCall, Duration),
    /// It had been asked, and what became of that was not kept.
    Lost,
    /// Nobody had asked it.
    Nothing,
}

impl Playback {
    /// Replays `capture` as it was at `start`, with `clock` showing recorded time from now on.
    pub fn at(capture: Capture, start: (Moment, Wall), clock: Arc<ReplayClock>) -> Self {
        let mut calls: HashMap<Key, Vec<usize>> = HashMap::new();
        for (place, call) in capture.calls.iter().enumerate() {
            if let Ok(subject) = Subject::read(call.rpc, call.request.clone()) {
                calls.entry(Key::of(call.rpc, &subject, &call.request)).or_default().push(place);
            }
        }
        clock.go_on_from(start.1);
        let capture = Arc::new(capture);
        Self {
            stream: Stream::of(&capture, start.0),
            unreachable: unreachable_at(&capture, start.0),
            incident: None,
            judged: AtomicBool::new(false),
            remarks: Mutex::default(),
            capture,
            calls,
            clock,
            start,
            way: Mutex::new(Way::At),
            place: AtomicUsize::new(0),
            current: Mutex::default(),
            errors: Errors::default(),
            took: Mutex::default(),
        }
    }

    /// The event stream as it was.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// From now on recorded relists are played, one after the other.
    pub fn play(&self, speed: Speed) {
        let first = self.capture.relists.iter().position(|relist| relist.ended >= self.start.0);
        self.place.store(first.unwrap_or(self.capture.relists.len()), Ordering::SeqCst);
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Way::Played(speed, self.clock.own());
        self.clock.stand_at(Duration::ZERO, self.start.1);
    }

    fn way(&self) -> Way {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether relists are played.
    pub fn is_played(&self) -> bool {
        matches!(self.way(), Way::Played(..))
    }

    /// The node's name.
    pub fn node(&self) -> Option<String> {
        let run = self.capture.runs.get(self.start.0.session)?;
        Some(run.session.node.clone()).filter(|node| !node.is_empty())
    }

    /// The capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// What the kubelet's metrics had said last by now, and when.
    pub fn kubelet_metrics(&self) -> Option<(KubeletSample, Wall)> {
        let now = self.now();
        let mut known = self.capture.documents.iter().filter(|document| document.kind == kind::KUBELET);
        let last = known.rfind(|document| document.at <= now && document.at.session == now.session)?;
        Some((serde_json::from_slice(&self.capture.text(last)?).ok()?, last.wall))
    }

    /// The recorder's last look at the node's processes. It looks again as soon as the kubelet or a shim stops or goes on.
    pub fn node_sample(&self) -> Option<NodeSample> {
        self.last_document(kind::NODE).map(|(sample, _)| sample)
    }

    /// What the recorder's last goroutine dump said of calls that have not been answered since.
    pub fn stacks(&self) -> Option<StackReport> {
        let (kept, at) = self.last_document::<KeptStacks>(kind::STACKS)?;
        let age = self.now().since(at);
        let open = self.unanswered().into_iter().filter(|call| call.waited >= age);
        kept.of_calls(&open.map(|call| call.rpc.name()).collect())
    }

    /// The last document of this kind that was written by now, and when.
    fn last_document<T: serde::de::DeserializeOwned>(&self, kind: u32) -> Option<(T, Moment)> {
        let now = self.now();
        let known = self.capture.documents.iter().filter(|document| document.kind == kind);
        let mut known = known.filter(|document| document.at <= now && document.at.session == now.session);
        let last = known.next_back()?;
        Some((serde_json::from_slice(&self.capture.text(last)?).ok()?, last.at))
    }

    /// The moment that is replayed, and the incident of which it is the worst, if it was chosen as that.
    pub const fn chosen(&self) -> (Wall, Option<u64>) {
        (self.start.1, self.incident)
    }

    /// The moment that is replayed is the worst of this incident.
    #[must_use]
    pub fn of_incident(mut self, incident: Option<u64>) -> Self {
        self.incident = incident;
        self
    }

    /// What comes next. `waited` tells that the wait that was asked for is over.
    pub fn next(&self, waited: bool) -> Next {
        let Way::Played(speed, origin) = self.way() else { return Next::Relist };
        let place = self.place.load(Ordering::SeqCst);
        let relist = self.capture.relists.get(place);
        let at = relist.map(|relist| {
            let (since, wall) = self.time_of(relist.began, relist.wall, relist.ended.since(relist.began));
            (since, wall, relist)
        });
        let told = self.stream.next().map(|(at, wall)| self.time_of(at, wall, Duration::ZERO));
        let told = told.filter(|told| at.is_none_or(|(since, ..)| told.0 <= since));
        let (since, wall) = match (told, at) {
            (Some(told), _) => told,
            (None, Some((since, wall, _))) => (since, wall),
            (None, None) => return Next::End,
        };
        let now = self.clock.mono();
        let wait = speed.wait(since, self.clock.own().since(origin));
        if !waited && wait > Duration::ZERO {
            return Next::Wait(wait);
        }
        // Answers may have taken a little longer than they did; time does not go back for it.
        let since = since.max(now.since(Mono::default()));
        self.clock.stand_at(since, wall);
        if told.is_some() {
            self.stream.tell(&self.capture);
            return Next::Listen;
        }
        let Some(relist) = relist else { return Next::End };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Current { session: relist.began.session, number: relist.done.number, used: Vec::new() });
        self.place.store(place + 1, Ordering::SeqCst);
        Next::Relist
    }

    /// When something was on the line of time that is played, and by the wall clock, which was read when it ended.
    fn time_of(&self, began: Moment, ended: Wall, took: Duration) -> (Duration, Wall) {
        let took = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
        let wall = Wall::from_nanos(ended.nanos().saturating_sub(took));
        let since = if began.session == self.start.0.session {
            began.since(self.start.0)
        } else {
            // Another recorder has another clock; the wall clock is what they share.
            wall.duration_since(self.start.1)
        };
        (since, wall)
    }

    /// What was recorded of `key`, of the relist that is played or else before now.
    fn find(&self, key: &Key, now: Moment) -> Recorded<'_> {
        let Some(places) = self.calls.get(key) else { return Recorded::Nothing };
        let call = |place: usize| self.capture.calls.get(place);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_mut() {
            let own = places.iter().copied().find(|place| {
                call(*place).is_some_and(|call| {
                    call.asked.session == current.session
                        && call.relist == current.number
                        && !self.capture.was_cut_short(call)
                }) && !current.used.contains(place)
            });
            if let Some(place) = own {
                current.used.push(place);
                return call(place).map_or(Recorded::Nothing, Recorded::Call);
            }
        }
        let before = places.partition_point(|place| call(*place).is_some_and(|call| call.asked <= now));
        let mut before = places.iter().take(before).rev().filter_map(|place| call(*place));
        let last = before.find(|call| !self.capture.was_cut_short(call));
        match last.filter(|call| call.asked.session == now.session) {
            Some(call) => Recorded::Call(call),
            None => Recorded::Nothing,
        }
    }

    /// The recorder's moment that it is now.
    fn now(&self) -> Moment {
        match self.way() {
            Way::At => self.start.0,
            Way::Played(..) => {
                let place = self.place.load(Ordering::SeqCst);
                let current = place.checked_sub(1).and_then(|place| self.capture.relists.get(place));
                current.map_or(self.start.0, |relist| relist.began)
            }
        }
    }

    /// The calls about `key` that had been sent by then, the last of them first.
    fn sent_by<'a>(&'a self, key: &Key, now: Moment) -> impl Iterator<Item = &'a RecordedCall> + use<'a> {
        let places = self.calls.get(key).map(Vec::as_slice).unwrap_or_default();
        let call = |place: &usize| self.capture.calls.get(*place);
        let sent = places.partition_point(|place| call(place).is_some_and(|call| call.asked <= now));
        let sent = places.get(..sent).unwrap_or_default().iter().rev().filter_map(call);
        sent.take_while(move |call| call.asked.session == now.session)
    }

    /// What was known of `key` then: the last call that tells anything.
    fn known(&self, key: &Key, now: Moment) -> Known<'_> {
        let mut on_its_way = None;
        for call in self.sent_by(key, now) {
            match self.capture.state_at(call, now) {
                CallState::NotKnown => return Known::Lost,
                CallState::Open(waited) if waited < ON_ITS_WAY => on_its_way = Some((call, waited)),
                CallState::Open(waited) => return Known::Silent(call, waited),
                CallState::Ended(end) => match &end.outcome {
                    Outcome::Abandoned if end.took < ON_ITS_WAY => {}
                    Outcome::Abandoned | Outcome::Failed(Error::Silent { .. }) => {
                        // Whoever gives up a call learns no more of it. It is asked again soon, or not at all.
                        let since = now.since(call.asked.plus(end.took));
                        return if since < SILENCE { Known::Silent(call, since) } else { Known::Lost };
                    }
                    _ => return Known::Answer(call, end),
                },
            }
        }
        on_its_way.map_or(Known::Nothing, |(call, waited)| Known::Silent(call, waited))
    }

    /// Every call that had not been answered at the moment that is replayed. What was gone by then, and silent before, holds
    /// nobody up.
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
                Key::Runtime(Rpc::GetContainerEvents) | Key::Some(..) => continue,
                Key::Runtime(rpc) | Key::Everything(rpc) => (*rpc, None),
                Key::One(rpc, id) if is_gone(*rpc, id) => continue,
                Key::One(rpc, id) => (*rpc, Some(id.clone())),
            };
            // Version is asked on two connections, and two silences are more than one.
            let most = if rpc == Rpc::Version { 2 } else { 1 };
            if let Known::Silent(last, waited) = self.known(key, now) {
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

    /// Ids and their owners by the last list that had been answered then; without `also_old`, only where no later one is
    /// silent.
    fn listed(&self, rpc: Rpc, also_old: bool) -> Option<Vec<Listed>> {
        let (key, now) = (Key::Everything(rpc), self.start.0);
        let end = match self.known(&key, now) {
            Known::Answer(_, end) => Some(end),
            _ if !also_old => None,
            _ => self.sent_by(&key, now).find_map(|call| match self.capture.state_at(call, now) {
                CallState::Ended(end) if end.outcome == Outcome::Answered => Some(end),
                _ => None,
            }),
        };
        let messages = self.capture.messages(end.filter(|end| end.outcome == Outcome::Answered)?)?;
        Some(messages.iter().flat_map(|message| owners(rpc, message)).collect())
    }

    /// Sandboxes and then containers, by the last lists that were answered.
    pub fn last_listed(&self) -> [Vec<Listed>; 2] {
        [Rpc::ListPodSandbox, Rpc::ListContainers].map(|list| self.listed(list, true).unwrap_or_default())
    }

    /// From now on answers are for a verdict: how long one took counts only if that still lasts.
    pub fn is_judged(&self) {
        self.judged.store(true, Ordering::SeqCst);
    }

    /// What a verdict should say about the answers that it was given: what, and why.
    pub fn remarks(&self) -> Vec<(String, String)> {
        let remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How long an answer counts as having taken, for a verdict: a silence that was over then leaves no trace, and the
    /// runtime is slow if two answers in a row were.
    fn lasting(&self, key: &Key, call: &RecordedCall, end: &End, now: Moment) -> Option<Duration> {
        if end.took < SLOW {
            return Some(end.took);
        }
        let earlier = self.sent_by(key, now).skip_while(|other| other.number != call.number).skip(1);
        let answered = earlier.filter_map(|call| match self.capture.state_at(call, now) {
            CallState::Ended(end) if end.outcome == Outcome::Answered => Some(end.took),
            _ => None,
        });
        let before = answered.into_iter().next();
        match before {
            Some(before) if before >= SLOW && end.took < SILENCE => Some(end.took.min(before)),
            _ => {
                let ended = call.wall.plus(end.took);
                let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
                if remarks.late.len() < 8 {
                    remarks.late.push((call.rpc, end.took, ended));
                }
                before.filter(|before| *before < SLOW)
            }
        }
    }

    /// Plays how long a call took, and no longer than somebody waits now. False if nobody waits any more.
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
            let step = left.min(STEP).min(self.until_told().unwrap_or(STEP));
            left -= step;
            let then = self.clock.mono().plus(step).since(Mono::default());
            let wait = speed.wait(then, self.clock.own().since(origin));
            // A long wait is seen from outside, also where time flies.
            let wait = if step == STEP { wait.max(Duration::from_millis(1)) } else { wait };
            if wait > Duration::ZERO {
                tokio::time::sleep(wait).await;
            }
            self.clock.advance(step);
            self.tell_what_is_due().await;
        }
        took <= limit
    }

    /// Remembers for the client how long an answer takes, which is what it is worth: that it is looked up here, and
    /// carried through a socket, is none of the runtime's business.
    fn takes(&self, request: &Bytes, rpc: Rpc, took_then: Duration) {
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        if took.len() >= MOST_ERRORS {
            took.clear();
        }
        took.insert((rpc, request.clone()), took_then);
    }

    /// How long it is until the event stream brings something.
    fn until_told(&self) -> Option<Duration> {
        let (at, wall) = self.stream.next()?;
        let (since, _) = self.time_of(at, wall, Duration::ZERO);
        Some(Mono::at(since).since(self.clock.mono()))
    }

    /// What the stream brought while a call was open, taken before the call is answered.
    async fn tell_what_is_due(&self) {
        while self.until_told() == Some(Duration::ZERO) {
            self.stream.tell(&self.capture);
            while !self.stream.is_taken() {
                tokio::time::sleep(TAKING).await;
            }
        }
    }

    fn messages_of(&self, call: &RecordedCall) -> Result<Vec<Bytes>, Error> {
        let Some(end) = &call.end else {
            let why = "its result was not recorded".to_owned();
            return Err(Error::NotRecorded { rpc: call.rpc, why });
        };
        match &end.outcome {
            Outcome::Answered => {
                let refusals = self.capture.refusals();
                self.capture.messages(end).ok_or_else(|| {
                    let is_too_heavy = self.capture.refusals() > refusals;
                    let why = if is_too_heavy { TOO_HEAVY } else { "its answer was not kept" };
                    Error::NotRecorded { rpc: call.rpc, why: why.to_owned() }
                })
            }
            Outcome::Failed(error) => Err(error.clone()),
            Outcome::Abandoned => Err(Error::Silent { rpc: call.rpc, waited: end.took }),
            Outcome::Unknown => {
                let why = "it ended in a way that this version of plegctl does not know".to_owned();
                Err(Error::NotRecorded { rpc: call.rpc, why })
            }
        }
    }

    fn introduction(&self, now: Moment) -> Answer {
        let session = self.capture.runs.get(now.session).map(|run| &run.session);
        Answer::one(message::version(Version {
            version: "0.1.0".to_owned(),
            runtime_name: session.map(|session| session.runtime.clone()).unwrap_or_default(),
            runtime_version: session.map(|session| session.runtime_version.clone()).unwrap_or_default(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn play_back(&self, request: CallRequest) -> Result<Answer, Error> {
        match self.way() {
            Way::At => self.answer_then(&request),
            Way::Played(speed, origin) => self.play_call(request, speed, origin).await,
        }
    }

    /// The answer as it was known at the moment that is replayed.
    fn answer_then(&self, request: &CallRequest) -> Result<Answer, Error> {
        let (rpc, now) = (request.rpc, self.start.0);
        let mut key = Key::of(rpc, &request.subject, &request.message);
        let mut known = self.known(&key, now);
        let mut part = None;
        if matches!(known, Known::Nothing)
            && let Some(wider) = self.wider(&key)
        {
            // A part of what was listed then is there, although nobody asked for the part.
            part = Some(&request.subject).filter(|subject| subject.id().is_empty());
            known = self.known(&wider, now);
            key = wider;
        }
        if rpc == Rpc::Version && !matches!(known, Known::Silent(..)) {
            if let Some(error) = &self.unreachable {
                return Err(error.clone());
            }
            match &known {
                Known::Answer(_, End { outcome: Outcome::Failed(error), .. }) if is_about_the_way(error) => {
                    return Ok(self.introduction(now));
                }
                // The recorder asked before it began to write, and wrote down the answer with its own name.
                Known::Lost | Known::Nothing => return Ok(self.introduction(now)),
                Known::Answer(..) | Known::Silent(..) => {}
            }
        }
        let not_recorded = |why: &str| Error::NotRecorded { rpc, why: why.to_owned() };
        let (call, end) = match known {
            Known::Answer(call, end) => (call, end),
            Known::Silent(_, waited) => return Err(Error::Silent { rpc, waited }),
            Known::Lost => return Err(not_recorded("its result was not recorded")),
            Known::Nothing => return Err(not_recorded("the recorder had not made this call by then")),
        };
        let took = if self.judged.load(Ordering::SeqCst) {
            self.note_age(call, end, now);
            self.lasting(&key, call, end, now)
        } else {
            Some(end.took)
        };
        if let Some(took) = took {
            self.takes(&request.message, rpc, took);
        }
        let answer = self.messages_of(call)?;
        Ok(Answer::all(match part {
            Some(part) => answer.into_iter().filter_map(|list| part.select(list)).collect(),
            None => answer,
        }))
    }

    fn note_age(&self, call: &RecordedCall, end: &End, now: Moment) {
        let is_status = matches!(call.rpc, Rpc::PodSandboxStatus | Rpc::ContainerStatus);
        if is_status && now.since(call.asked.plus(end.took)) >= OLD {
            let answered = call.wall.plus(end.took);
            let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
            remarks.old += 1;
            remarks.oldest = Some(remarks.oldest.map_or(answered, |oldest| oldest.min(answered)));
        }
    }

    async fn play_call(&self, request: CallRequest, speed: Speed, origin: Mono) -> Result<Answer, Error> {
        let key = Key::of(request.rpc, &request.subject, &request.message);
        let now = self.now();
        let mut part = None;
        let mut found = self.find(&key, now);
        if matches!(found, Recorded::Nothing)
            && let Some(wider) = self.wider(&key)
        {
            part = Some(&request.subject);
            found = self.find(&wider, now);
        }
        let call = match found {
            Recorded::Call(call) => call,
            Recorded::Nothing if request.rpc == Rpc::Version => return Ok(self.introduction(now)),
            Recorded::Nothing => {
                let why = "the recorder had not made this call by then".to_owned();
                return Err(Error::NotRecorded { rpc: request.rpc, why });
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

    /// What has the answer to `key` among others: a whole list, or the one id that begins so.
    fn wider(&self, key: &Key) -> Option<Key> {
        match key {
            Key::Some(rpc, _) => Some(Key::Everything(*rpc)),
            Key::One(rpc, id) if !id.is_empty() => {
                let begins = |known: &&Key| matches!(known, Key::One(other, known) if other == rpc && known.starts_with(id));
                let mut known = self.calls.keys().filter(begins);
                known.next().filter(|_| known.next().is_none()).cloned()
            }
            _ => None,
        }
    }
}

/// Whether an error says that there was no way to the runtime, which every other call would have met too.
const fn is_about_the_way(error: &Error) -> bool {
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

/// Why the runtime could not be reached then: by the last call that had ended.
fn unreachable_at(capture: &Capture, now: Moment) -> Option<Error> {
    let ended = capture.calls.iter().filter(|call| call.asked.session == now.session && call.asked <= now);
    let ended = ended.filter_map(|call| match capture.state_at(call, now) {
        CallState::Ended(end) => Some((call.asked.plus(end.took), &end.outcome)),
        _ => None,
    });
    let told = ended.filter_map(|(at, outcome)| match outcome {
        Outcome::Failed(error) if is_about_the_way(error) => Some((at, Some(error))),
        Outcome::Failed(Error::Silent { .. }) | Outcome::Abandoned | Outcome::Unknown => None,
        Outcome::Answered | Outcome::Failed(_) => Some((at, None)),
    });
    told.max_by_key(|(at, _)| *at)?.1.cloned()
}

/// A playback behind a server of this process, whose clients hear exactly what was heard then.
pub struct Stage {
    playback: Arc<Playback>,
    server: InProcess,
}

/// For clients of ours.
struct Exact(Arc<Playback>);

/// For everybody else's.
pub struct Plain(pub Arc<Playback>);

impl Service for Exact {
    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, Refusal> {
        self.0.play_back(request).await.map_err(|error| self.0.errors.send(error))
    }
}

impl Service for Plain {
    /// crictl asks for the image service's file system before everything, and for images by name; what they were is not
    /// recorded, which for these two is no answer but no error either.
    async fn answer_extra(self: Arc<Self>, asked: ExtraRequest) -> Option<Result<Bytes, Refusal>> {
        Some(match asked {
            ExtraRequest::ImageFilesystem | ExtraRequest::Image(_) => Ok(Bytes::new()),
            _ => Err(Refusal::new(
                Code::Unavailable,
                "it is not recorded: the recorder did not make this call",
            )),
        })
    }

    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, Refusal> {
        let said = |error: Error| {
            let message = match &error {
                Error::Runtime { message, .. } | Error::Unimplemented { message, .. } => message.clone(),
                other => other.to_string(),
            };
            Refusal::new(error.code().unwrap_or(Code::Unavailable), message)
        };
        match self.0.play_back(request).await {
            // Whoever asks is kept waiting, as it was then.
            Err(Error::Silent { .. }) => std::future::pending().await,
            ended => ended.map_err(said),
        }
    }
}

impl Stage {
    /// Starts to serve; `endpoint` is what the user calls it.
    pub fn open(endpoint: &str, playback: Playback) -> io::Result<Self> {
        let playback = Arc::new(playback);
        let server = InProcess::start(endpoint, Arc::new(Exact(Arc::clone(&playback))))?;
        Ok(Self { playback, server })
    }

    /// What is played.
    pub const fn playback(&self) -> &Arc<Playback> {
        &self.playback
    }

    /// A client of what is played.
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
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        took.remove(&(rpc, Bytes::copy_from_slice(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_steps_of_a_replay_take_does_not_add_up() {
        let seconds = Duration::from_secs;
        // A hundred steps of a second each, at ten times the speed, each of which takes three hundredths itself.
        let mut passed = Duration::ZERO;
        for step in 1..=100 {
            passed += Speed::Times(10).wait(seconds(step), passed) + Duration::from_millis(30);
        }
        assert_eq!(passed, seconds(10) + Duration::from_millis(30));
        assert_eq!(
            Speed::Times(1).wait(seconds(5), seconds(7)),
            Duration::ZERO,
            "who is late waits for nothing"
        );
        assert_eq!(Speed::Max.wait(seconds(5), Duration::ZERO), Duration::ZERO);
    }
}
