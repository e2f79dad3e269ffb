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
use super::entry::Outcome;
use super::read::{Capture, Moment, RecordedCall};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::server::{Answer, Bytes, InProcess, Question, Refusal, Service, Subject, message};
use crate::cri::{Client, Code, Error, Rpc, Version};

/// In which steps a long wait is played, so that what happens meanwhile is seen.
const STEP: Duration = Duration::from_millis(500);

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
    /// How long that is to be waited for.
    fn wait(self, recorded: Duration) -> Duration {
        match self {
            Self::Times(times) => recorded / times.max(1),
            Self::Max => Duration::ZERO,
        }
    }
}

/// How a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// As it was at a moment.
    At(Moment, Mono),
    /// One relist after the other.
    Played(Speed),
}

/// What is to be done next by whoever plays relists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait so long, and ask again.
    Wait(Duration),
    /// Relist.
    Relist,
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
    errors: Arc<Errors>,
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
        Self {
            capture: Arc::new(capture),
            calls,
            clock,
            start,
            way: Mutex::new(way),
            place: AtomicUsize::new(0),
            current: Mutex::default(),
            errors: Arc::default(),
        }
    }

    /// From now on recorded relists are played, one after the other.
    pub fn play(&self, speed: Speed) {
        let first = self.capture.relists.iter().position(|relist| relist.ended >= self.start.0);
        self.place.store(first.unwrap_or(self.capture.relists.len()), Ordering::SeqCst);
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Way::Played(speed);
        self.clock.stand_at(Duration::ZERO, self.start.1);
    }

    fn way(&self) -> Way {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether relists are played.
    pub fn is_played(&self) -> bool {
        matches!(self.way(), Way::Played(_))
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

    /// What comes next. `waited` tells that the wait that was asked for is over.
    pub fn next(&self, waited: bool) -> Next {
        let Way::Played(speed) = self.way() else { return Next::Relist };
        let place = self.place.load(Ordering::SeqCst);
        let Some(relist) = self.capture.relists.get(place) else { return Next::End };
        let (since, wall) = self.time_of(relist.began, relist.wall, relist.ended.since(relist.began));
        let now = self.clock.mono();
        let ahead = Mono::at(since).since(now);
        let wait = speed.wait(ahead);
        if !waited && wait > Duration::ZERO {
            return Next::Wait(wait);
        }
        // Answers may have taken a little longer than they did; time does not go back for it.
        let since = since.max(now.since(Mono::default()));
        self.clock.stand_at(since, wall);
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
            Way::Played(_) => {
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
                // The timer counts in whole milliseconds and rounds up: a quick call would be slower than it was.
                let whole = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                if !whole.is_zero() {
                    tokio::time::sleep(whole).await;
                }
                true
            }
            Way::Played(speed) => {
                let took = match &call.end {
                    Some(end) => end.took,
                    // The recorder did not live to see the end.
                    None => deadline.unwrap_or(Duration::from_secs(120)),
                };
                let limit = deadline.unwrap_or(took);
                let mut left = took.min(limit);
                while left > Duration::ZERO {
                    let step = left.min(STEP);
                    left -= step;
                    let wait = speed.wait(step);
                    // A long wait is seen from outside, also where time flies.
                    let wait = if step == STEP { wait.max(Duration::from_millis(1)) } else { wait };
                    if wait > Duration::ZERO {
                        tokio::time::sleep(wait).await;
                    }
                    self.clock.advance(step);
                }
                took <= limit
            }
        }
    }

    fn answer_of(&self, call: &RecordedCall) -> Result<Answer, Error> {
        let Some(end) = &call.end else {
            return Err(Error::Silent { rpc: call.rpc, waited: Duration::ZERO });
        };
        match &end.outcome {
            Outcome::Answered => match self.capture.messages(end) {
                Some(messages) => Ok(Answer::all(messages)),
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
        let call = match self.find(&key, now) {
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
        self.answer_of(call)
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
        let errors = Arc::clone(&self.playback.errors);
        let clock: Arc<dyn Clock> = Arc::clone(&self.playback.clock) as _;
        let client = self.server.client(deadline, clock);
        client.with_interpreter(Arc::new(move |words| errors.receive(words)))
    }
}
