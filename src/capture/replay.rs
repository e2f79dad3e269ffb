//! A capture as one more runtime: it answers what was asked then as it was answered then, in recorded time.
//!
//! Two ways. At a *moment*, time goes on by itself, and a call is answered as the last of its kind before then was: one
//! that was pending stays so for as long as it did. *Played*, the recorded relists come one after the other, and the clock
//! is moved by the answers. What nobody asked then is not recorded, and that is the answer: nothing is made up.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clock::ReplayClock;
use super::entry::{Outcome, kind};
use super::node::KubeletSample;
use super::play::Stream;
use super::read::{Capture, Moment, RecordedCall};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::server::{Answer, Bytes, Courtesy, InProcess, Question, Refusal, Service, Subject, message};
use crate::cri::{Client, Code, Error, Interpreter, Rpc, Version};

/// In which steps a long wait is played, so that what happens meanwhile is seen.
const STEP: Duration = Duration::from_millis(500);

/// How often it is looked whether what the stream brought was taken.
const TAKING: Duration = Duration::from_micros(200);

/// How many errors that are on their way to the client are known by number.
const MOST_ERRORS: usize = 4096;

/// What an error of ours begins with on its way through our own server.
const TICKET: &str = "recorded error ";

/// What a call is about, so that the same question is known again however it was written.
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
            Subject::Sandboxes(wanted) if wanted.is_everything() => Self::Everything(rpc),
            Subject::Containers(wanted) if wanted.is_everything() => Self::Everything(rpc),
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
    /// As it was at a moment.
    At(Moment, Mono),
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

/// What was recorded of a question.
enum Recorded<'a> {
    Call(&'a RecordedCall),
    Nothing,
}

impl Playback {
    /// Replays `capture` as it was at `start`, with `clock` showing recorded time from now on.
    pub fn at(capture: Capture, start: (Moment, Wall), clock: Arc<ReplayClock>) -> Self {
        let mut calls: HashMap<Key, Vec<usize>> = HashMap::new();
        let told = |(_, call): &(usize, &RecordedCall)| !capture.was_cut_short(call);
        for (place, call) in capture.calls.iter().enumerate().filter(told) {
            if let Ok(subject) = Subject::read(call.rpc, call.request.clone()) {
                calls.entry(Key::of(call.rpc, &subject, &call.request)).or_default().push(place);
            }
        }
        clock.go_on_from(start.1);
        let way = Way::At(start.0, clock.mono());
        let capture = Arc::new(capture);
        Self {
            stream: Stream::of(&capture, start.0),
            capture,
            calls,
            clock,
            start,
            way: Mutex::new(way),
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
                    call.asked.session == current.session && call.relist == current.number
                }) && !current.used.contains(place)
            });
            if let Some(place) = own {
                current.used.push(place);
                return call(place).map_or(Recorded::Nothing, Recorded::Call);
            }
        }
        let before = places.partition_point(|place| call(*place).is_some_and(|call| call.asked <= now));
        let last = before.checked_sub(1).and_then(|place| places.get(place)).and_then(|place| call(*place));
        match last.filter(|call| call.asked.session == now.session) {
            Some(call) => Recorded::Call(call),
            None => Recorded::Nothing,
        }
    }

    /// The recorder's moment that it is now.
    fn now(&self) -> Moment {
        match self.way() {
            Way::At(start, origin) => start.plus(self.clock.mono().since(origin)),
            Way::Played(..) => {
                let place = self.place.load(Ordering::SeqCst);
                let current = place.checked_sub(1).and_then(|place| self.capture.relists.get(place));
                current.map_or(self.start.0, |relist| relist.began)
            }
        }
    }

    /// Waits as long as it took then, and no longer than somebody waits now. False if nobody waits any more.
    async fn wait(&self, call: &RecordedCall, now: Moment, deadline: Option<Duration>) -> bool {
        match self.way() {
            Way::At(..) => {
                let Some(left) = left(call, now) else { return std::future::pending().await };
                self.takes(call, left);
                // The timer counts in whole milliseconds and rounds up: a quick call would be slower than it was.
                let whole = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                if !whole.is_zero() {
                    tokio::time::sleep(whole).await;
                }
                true
            }
            Way::Played(speed, origin) => {
                let took = match &call.end {
                    Some(end) => end.took,
                    // The recorder did not live to see the end.
                    None => deadline.unwrap_or(Duration::from_secs(120)),
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
        }
    }

    /// Remembers for the client how long an answer takes, which is what it is worth: that it is looked up here, and
    /// carried through a socket, is none of the runtime's business.
    fn takes(&self, call: &RecordedCall, left: Duration) {
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        if took.len() >= MOST_ERRORS {
            took.clear();
        }
        took.insert((call.rpc, call.request.clone()), left);
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
            return Err(Error::Silent { rpc: call.rpc, waited: Duration::ZERO });
        };
        match &end.outcome {
            Outcome::Answered => match self.capture.messages(end) {
                Some(messages) => Ok(messages),
                None => Err(Error::NotRecorded { rpc: call.rpc, why: "its answer was not kept".to_owned() }),
            },
            Outcome::Failed(error) => Err(error.clone()),
            Outcome::Abandoned => Err(Error::Silent { rpc: call.rpc, waited: end.took }),
            Outcome::Unknown => {
                let why = "it ended in a way that this plegctl does not know".to_owned();
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

    async fn play_back(&self, question: Question) -> Result<Answer, Error> {
        let key = Key::of(question.rpc, &question.subject, &question.message);
        let now = self.now();
        let mut part = None;
        let mut found = self.find(&key, now);
        if matches!(found, Recorded::Nothing)
            && let Some(whole) = self.whole(&key, now)
        {
            // A part of what was listed then is there, although nobody asked for the part.
            part = Some(&question.subject);
            found = Recorded::Call(whole);
        }
        let call = match found {
            Recorded::Call(call) => call,
            // The recorder asked before it began to write, and wrote down the answer with its own name.
            Recorded::Nothing if question.rpc == Rpc::Version => return Ok(self.introduction(now)),
            Recorded::Nothing => {
                let why = "nobody asked that by then".to_owned();
                return Err(Error::NotRecorded { rpc: question.rpc, why });
            }
        };
        let deadline = question.deadline;
        if !self.wait(call, now, deadline).await {
            let waited = deadline.unwrap_or_default();
            return Err(Error::Silent { rpc: call.rpc, waited });
        }
        let answer = self.messages_of(call)?;
        Ok(Answer::all(match part.filter(|subject| subject.id().is_empty()) {
            Some(part) => answer.into_iter().filter_map(|list| part.select(list)).collect(),
            None => answer,
        }))
    }

    /// The call that has what `key` asks for among other things: a whole list, or the one id that begins so.
    fn whole(&self, key: &Key, now: Moment) -> Option<&RecordedCall> {
        let wider = match key {
            Key::Some(rpc, _) => Key::Everything(*rpc),
            Key::One(rpc, id) if !id.is_empty() => {
                let begins = |known: &&Key| matches!(known, Key::One(other, known) if other == rpc && known.starts_with(id));
                let mut known = self.calls.keys().filter(begins);
                known.next().filter(|_| known.next().is_none())?.clone()
            }
            _ => return None,
        };
        match self.find(&wider, now) {
            Recorded::Call(call) => Some(call),
            Recorded::Nothing => None,
        }
    }
}

/// How long an answer is still to come at `now`; `None` if it never does.
fn left(call: &RecordedCall, now: Moment) -> Option<Duration> {
    let end = call.end.as_ref()?;
    match end.outcome {
        // Nobody saw its end.
        Outcome::Abandoned | Outcome::Failed(Error::Silent { .. }) => None,
        _ => {
            let over = call.asked.plus(end.took);
            // What was over by then takes as long as it took.
            Some(if over > now { over.since(now) } else { end.took })
        }
    }
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
    async fn answer(self: Arc<Self>, question: Question) -> Result<Answer, Refusal> {
        self.0.play_back(question).await.map_err(|error| self.0.errors.send(error))
    }
}

impl Service for Plain {
    /// crictl asks for the image service's file system before everything, and for images by name; what they were is not
    /// recorded, which for these two is no answer but no error either.
    async fn oblige(self: Arc<Self>, asked: Courtesy) -> Option<Result<Bytes, Refusal>> {
        Some(match asked {
            Courtesy::ImageFilesystem | Courtesy::Image(_) => Ok(Bytes::new()),
            _ => Err(Refusal::new(Code::Unavailable, "it is not recorded: nobody asked that then")),
        })
    }

    async fn answer(self: Arc<Self>, question: Question) -> Result<Answer, Refusal> {
        let said = |error: Error| {
            let message = match &error {
                Error::Runtime { message, .. } | Error::Unimplemented { message, .. } => message.clone(),
                other => other.to_string(),
            };
            Refusal::new(error.code().unwrap_or(Code::Unavailable), message)
        };
        self.0.play_back(question).await.map_err(said)
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
        self.server.client(deadline, clock).with_interpreter(Arc::clone(&self.playback) as _)
    }
}

impl Interpreter for Playback {
    fn error(&self, words: &str) -> Option<Error> {
        self.errors.receive(words)
    }

    fn took(&self, rpc: Rpc, request: &[u8]) -> Option<Duration> {
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
