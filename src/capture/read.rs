//! A capture that is read: every segment once for the index, answers when somebody wants them.
//!
//! What cannot be read is passed over and counted; what leans on it is *lost*, and everything else is there.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::bytes::Bytes;

use super::budget::{self, Budget};
use super::entry::{Answer, Body, Document, Entry, Incident, Jump, Lost, RelistDone, Session, rpc};
use super::frame::{self, Found};
use super::pack::{LARGEST, unpacked};
use super::segment::{self, Entries, NotOurs};
use super::{Error, delta, entry, order, store};
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::report::fits_in_memory;

/// How many differences are followed: far more than are ever written on top of each other.
const LONGEST_CHAIN: usize = 1024;

/// How many times the largest message the differences on the way to one may have, all together.
const MOST_PILED: usize = 4;

/// How many answers are held ready, and how many bytes of them.
const MOST_READY: usize = 256;
const MOST_READY_BYTES: usize = 64 * 1024 * 1024;

/// No document is longer: a diagnosis of the largest node is some hundred KiB.
const LARGEST_DOCUMENT: u64 = 8 << 20;

/// How many times its size a document costs: it is unpacked, weighed and taken apart.
const DOCUMENT_COST: usize = 8;

/// How many times its size a message costs that comes again in the same answer: no runtime lists anything twice, and to
/// replace its names is far more work than to copy it.
const REPEATED_COST: usize = 64;

/// How many segments are held ready: what is asked of one moment may lie on both sides of an edge.
const MOST_SEGMENTS: usize = 4;

/// What is said of a relist that was not over when its recorder ended.
pub const NOT_OVER: &str = "still open when the recording ended";

/// A point on the capture's own line of time: the recorder that ran, and its clock that never jumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Which recorder, from 0.
    pub session: usize,
    /// Nanoseconds since it started.
    pub mono: u64,
}

impl Moment {
    /// So much later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self { mono: self.mono.saturating_add(by), ..self }
    }

    /// Time from `earlier` to here, within one recorder's run.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.mono.saturating_sub(earlier.mono))
    }
}

/// One run of a recorder.
#[derive(Clone, Debug)]
pub struct Run {
    /// Who, and how.
    pub session: Session,
    /// Its first word.
    pub from: Moment,
    /// Its last.
    pub to: Moment,
    /// Whether it ended in good order.
    pub stopped: bool,
}

/// One call.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// Its number in the session.
    pub number: u64,
    /// What was asked.
    pub rpc: Rpc,
    /// The request.
    pub request: Bytes,
    /// Number of its relist; 0 for none.
    pub relist: u64,
    /// When it was sent.
    pub asked: Moment,
    /// The same by the wall clock.
    pub wall: Wall,
    /// How it ended, if it did while somebody recorded.
    pub end: Option<End>,
    /// From when on nobody knows whether it has ended: its end was not kept, or may be among what was not kept.
    pub lost: Option<Moment>,
}

/// What is known of a call at a moment.
#[derive(Clone, Copy, Debug)]
pub enum CallState<'a> {
    /// It had ended.
    Ended(&'a End),
    /// It had not been answered for so long, whatever became of it later.
    Open(Duration),
    /// The recorder did not keep what became of it.
    NotKnown,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct End {
    /// How long it took.
    pub took: Duration,
    /// In which way.
    pub outcome: entry::Outcome,
    /// Where its messages are.
    pub answers: Vec<Place>,
    /// Whether they were too large to be kept.
    pub omitted: bool,
}

/// Where a message of an answer is: a segment and its number there.
pub type Place = (usize, u32);

/// A message of an answer that goes on: an event of the runtime's stream.
#[derive(Clone, Copy, Debug)]
pub struct RecordedEvent {
    /// When it was read.
    pub at: Moment,
    /// The same by the wall clock.
    pub wall: Wall,
    /// Of which call, by its place among the calls.
    pub call: usize,
    /// Where the message is.
    pub place: Place,
}

/// One relist.
#[derive(Clone, Debug)]
pub struct RecordedRelist {
    /// Its number, how it ended, and how much there was.
    pub done: RelistDone,
    /// When it began.
    pub began: Moment,
    /// When it ended.
    pub ended: Moment,
    /// The same by the wall clock.
    pub wall: Wall,
}

/// A document and when it was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it is; see `entry::kind`.
    pub kind: u32,
    /// When.
    pub at: Moment,
    /// The same by the wall clock.
    pub wall: Wall,
    segment: usize,
    offset: usize,
}

/// One file of the capture, as it was found.
#[derive(Clone, Debug)]
pub struct SegmentState {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes that are no entry.
    pub damaged: u64,
    /// Bytes of a last entry that was never whole: its recorder was killed, or the file was cut.
    pub cut: u64,
    /// Where the first fault is.
    pub fault: Option<usize>,
    /// Whole entries.
    pub entries: u64,
    /// Its earliest and latest moment by the wall clock.
    pub span: Option<(Wall, Wall)>,
    answers: HashMap<u32, (usize, usize)>,
}

/// A capture that is read.
#[derive(Debug, Default)]
pub struct Capture {
    /// Where it is.
    pub path: PathBuf,
    /// Every run of a recorder.
    pub runs: Vec<Run>,
    /// Every call, in the order in which they were sent.
    pub calls: Vec<RecordedCall>,
    /// Every event of the runtime's stream.
    pub told: Vec<RecordedEvent>,
    /// Every relist.
    pub relists: Vec<RecordedRelist>,
    /// Every incident.
    pub incidents: BTreeMap<u64, Incident>,
    /// The recorder that wrote of each of them last.
    writers: BTreeMap<u64, usize>,
    /// Every document.
    pub documents: Vec<Written>,
    /// Where the wall clock was set.
    pub jumps: Vec<(Wall, Jump)>,
    /// What was not kept.
    pub losses: Vec<(Moment, Wall, Lost)>,
    /// Segments given up to keep within bounds.
    pub dropped: u64,
    /// The files.
    pub segments: Vec<SegmentState>,
    /// Whether a recorder writes it right now.
    is_written: bool,
    ready: Mutex<Ready>,
    budget: Budget,
}

/// What is held in memory.
#[derive(Debug, Default)]
struct Ready {
    /// The one that was used last stands last.
    segments: Vec<(usize, Arc<Vec<u8>>)>,
    answers: HashMap<Place, Held>,
    /// Which of them came first.
    oldest: VecDeque<Place>,
    bytes: usize,
    parted: Option<Parted>,
}

impl Ready {
    /// Holds an answer ready. The oldest go first: the next answer is most likely a difference to one of the last.
    fn hold(&mut self, place: Place, held: Held) {
        while self.answers.len() >= MOST_READY || self.bytes >= MOST_READY_BYTES {
            let Some(oldest) = self.oldest.pop_front() else { break };
            if let Some(gone) = self.answers.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(gone.bytes.len());
            }
        }
        let size = held.bytes.len();
        if self.answers.insert(place, held).is_none() {
            self.bytes += size;
            self.oldest.push_back(place);
        }
    }
}

/// A message as others lean on it, and where its items stood.
#[derive(Clone, Debug)]
struct Held {
    bytes: Bytes,
    order: Bytes,
}

/// The answers of the entry that was taken apart last: one may have very many.
#[derive(Clone, Debug)]
struct Parted {
    /// Its segment, and where it begins there.
    entry: (usize, usize),
    answers: Arc<Vec<Answer>>,
}

/// What is needed while the index is made.
#[derive(Default)]
struct Making {
    runs: HashMap<u64, usize>,
    current: Option<usize>,
    open: HashMap<(usize, u64), usize>,
    /// The last entry of each session: which segment of it, and when.
    last: HashMap<usize, (u64, u64)>,
    /// In which file each open call was named last.
    named: HashMap<usize, usize>,
    /// Calls whose end was not kept, and when it was.
    ends: HashMap<(usize, u64), u64>,
    gaps: Vec<Gap>,
}

impl Making {
    /// Entries were not kept; `before` is when the last one before them was.
    fn lose(&mut self, lost: &Lost, at: Moment, before: u64, file: usize) {
        let session = at.session;
        for end in &lost.ends {
            self.ends.entry((session, end.call)).or_insert(end.mono);
        }
        if lost.since == 0 || lost.more_ends {
            let from = if lost.since == 0 { before } else { lost.since };
            self.gaps.push(Gap { session, from, to: at.mono, file });
        }
    }

    /// A recorder goes on in another file. Where one of its files is gone, so is what ended in it.
    fn go_on(&mut self, run: usize, number: u64, file: usize) {
        let before = self.last.get(&run).copied();
        if let Some((_, mono)) = before.filter(|(last, _)| *last > 0 && number > last + 1) {
            let file = file.saturating_sub(1);
            self.gaps.push(Gap { session: run, from: mono, to: u64::MAX, file });
        }
        self.last.insert(run, (number, before.map_or(0, |(_, mono)| mono)));
    }
}

/// A time of which nobody knows which calls ended in it.
struct Gap {
    session: usize,
    from: u64,
    to: u64,
    /// What a later file names as open is open.
    file: usize,
}

impl Capture {
    /// Opens the directory or the exported file at `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Directory { path: path.to_path_buf(), source };
        let directory = fs::metadata(path).map_err(fail)?.is_dir();
        let files = if directory {
            store::segments_in(path)?.into_iter().map(|(_, path)| path).collect()
        } else {
            vec![path.to_path_buf()]
        };
        if files.is_empty() {
            return Err(Error::NotACapture { path: path.to_path_buf(), why: "it has no segments".into() });
        }
        let mut capture = Self { path: path.to_path_buf(), ..Self::default() };
        let mut making = Making::default();
        let last = files.len() - 1;
        for (place, file) in files.into_iter().enumerate() {
            let bytes = match store::read(&file) {
                Ok(bytes) => bytes,
                // Whoever records removes the oldest while we read.
                Err(Error::Segment { source, .. })
                    if directory && source.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(why) => return Err(why),
            };
            let unfinished = directory && place == last && store::is_written(path);
            capture.take(file, &bytes, directory, unfinished, &mut making)?;
        }
        capture.budget = Budget::of(capture.segments.iter().map(|segment| segment.bytes).sum());
        capture.is_written = directory && store::is_written(path);
        capture.note_lost_ends(&making);
        capture.add_what_was_cut_short();
        if capture.runs.is_empty() && !directory {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        Ok(capture)
    }

    /// A relist that was not over when its recorder ended is one too: often the one that hung. There may be very many
    /// sessions, so that relists and calls are gone through once for all of them.
    fn add_what_was_cut_short(&mut self) {
        let mut finished = vec![0; self.runs.len()];
        for relist in &self.relists {
            if let Some(last) = finished.get_mut(relist.ended.session) {
                *last = relist.done.number.max(*last);
            }
        }
        let mut begun = vec![false; self.runs.len()];
        for call in &self.calls {
            let session = call.asked.session;
            let (Some(run), Some(begun)) = (self.runs.get(session), begun.get_mut(session)) else { continue };
            if *begun || finished.get(session).is_none_or(|finished| call.relist <= *finished) {
                continue;
            }
            *begun = true;
            self.relists.push(RecordedRelist {
                done: RelistDone {
                    number: call.relist,
                    began: call.asked.mono,
                    error: NOT_OVER.to_owned(),
                    ..RelistDone::default()
                },
                began: call.asked,
                ended: run.to,
                wall: call.wall.plus(run.to.since(call.asked)),
            });
        }
        // Those that are in order stay so, and the new ones come behind those that ended at the same moment.
        self.relists.sort_by_key(|relist| relist.ended);
    }

    /// Marks the calls of which it is not known when they ended, or whether.
    fn note_lost_ends(&mut self, making: &Making) {
        for (place, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| call.end.is_none()) {
            let session = call.asked.session;
            let own = making.ends.get(&(session, call.number)).copied();
            let named = making.named.get(&place).copied().unwrap_or_default();
            let covers =
                |gap: &&Gap| gap.session == session && gap.file >= named && call.asked.mono <= gap.to;
            let in_gap = making.gaps.iter().filter(covers).map(|gap| gap.from.max(call.asked.mono)).min();
            let from = [own, in_gap].into_iter().flatten().min();
            call.lost = from.map(|mono| Moment { session, mono });
        }
    }

    /// What is known of `call` at a moment of its session.
    pub fn state_at<'a>(&'a self, call: &'a RecordedCall, at: Moment) -> CallState<'a> {
        let waited = at.since(call.asked);
        match &call.end {
            Some(end) if end.took <= waited => CallState::Ended(end),
            None if call.lost.is_some_and(|lost| lost <= at) => CallState::NotKnown,
            // A recorder that was killed saw nothing after its last word.
            None if at > self.known_until(call.asked.session) => CallState::NotKnown,
            Some(_) | None => CallState::Open(waited),
        }
    }

    /// For how long a call without an end is known to have been open.
    pub fn seen_open(&self, call: &RecordedCall) -> Duration {
        let run = self.runs.get(call.asked.session).map_or(call.asked, |run| run.to);
        call.lost.unwrap_or(run).since(call.asked)
    }

    /// Whether the recorder of a session still writes.
    fn goes_on(&self, session: usize) -> bool {
        let is_last = session + 1 == self.runs.len();
        self.is_written && is_last && self.runs.get(session).is_some_and(|run| !run.stopped)
    }

    /// When the recorder of an incident ended, if that was before the incident did.
    pub fn left_open(&self, incident: &Incident) -> Option<Wall> {
        let session = *self.writers.get(&incident.number)?;
        let is_open = Wall::known(incident.to).is_none();
        let run = self.runs.get(session).filter(|_| is_open && !self.goes_on(session))?;
        Some(self.shown_at(run.to)?.1)
    }

    /// Up to when it is known which calls of a session were open.
    fn known_until(&self, session: usize) -> Moment {
        let end_of_time = Moment { session, mono: u64::MAX };
        let Some(run) = self.runs.get(session) else { return end_of_time };
        if self.goes_on(session) { end_of_time } else { run.to }
    }

    /// Whether the recorder ended so soon after a call was sent that nothing can be said about it.
    pub fn was_cut_short(&self, call: &RecordedCall) -> bool {
        let Some(run) = self.runs.get(call.asked.session) else { return true };
        let slow = Duration::from_nanos(run.session.slow);
        match &call.end {
            None => call.lost.unwrap_or(run.to).since(call.asked) < slow,
            Some(end) => end.outcome == entry::Outcome::Abandoned && end.took < slow,
        }
    }

    fn take(
        &mut self,
        path: PathBuf,
        bytes: &[u8],
        directory: bool,
        unfinished: bool,
        making: &mut Making,
    ) -> Result<(), Error> {
        let mut state = SegmentState {
            path,
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            damaged: 0,
            cut: 0,
            fault: None,
            entries: 0,
            span: None,
            answers: HashMap::new(),
        };
        match segment::check(bytes) {
            Ok(()) => {}
            Err(NotOurs::Version(found)) => {
                return Err(Error::OtherVersion { path: state.path, found });
            }
            // In a directory it is one segment of many that has lost its head.
            Err(NotOurs::Other) if directory => {
                state.damaged = u64::try_from(frame::used(bytes)).unwrap_or(u64::MAX);
                state.fault = Some(0);
                self.segments.push(state);
                return Ok(());
            }
            Err(NotOurs::Other) => {
                let why = "it does not start with the mark of a capture".to_owned();
                return Err(Error::NotACapture { path: state.path, why });
            }
        }
        making.current = None;
        let number = self.segments.len();
        let mut entries = Entries::of(bytes);
        let mut damaged = 0;
        while let Some((offset, entry)) = entries.next() {
            state.entries += 1;
            if let (true, Some(session)) = (entries.damaged > damaged, making.current) {
                let from = making.last.get(&session).map_or(0, |(_, mono)| *mono);
                making.gaps.push(Gap { session, from, to: entry.mono, file: number });
            }
            damaged = entries.damaged;
            // The head says who records, and nothing of what was.
            if !matches!(entry.body, Some(Body::Session(_))) {
                let wall = Wall::from_nanos(entry.wall);
                let (from, to) = state.span.unwrap_or((wall, wall));
                state.span = Some((from.min(wall), to.max(wall)));
            }
            self.learn(entry, (number, offset), &mut state.answers, making);
        }
        // The recorder may be in the middle of its last word.
        if let (false, Some(session)) = (unfinished, making.current)
            && entries.damaged + entries.cut > damaged
        {
            let from = making.last.get(&session).map_or(0, |(_, mono)| *mono);
            making.gaps.push(Gap { session, from, to: u64::MAX, file: number });
        }
        if !unfinished {
            (state.damaged, state.cut, state.fault) = (entries.damaged, entries.cut, entries.fault);
        }
        self.segments.push(state);
        Ok(())
    }

    fn learn(
        &mut self,
        entry: Entry,
        (segment, offset): (usize, usize),
        answers: &mut HashMap<u32, (usize, usize)>,
        making: &mut Making,
    ) {
        let Some(body) = entry.body else { return };
        let wall = Wall::from_nanos(entry.wall);
        if let Body::Session(session) = body {
            let number = session.segment;
            self.dropped = self.dropped.max(session.dropped);
            let introduced = session.clone();
            let run = *making.runs.entry(session.id).or_insert_with(|| {
                let from = Moment { session: self.runs.len(), mono: u64::MAX };
                let to = Moment { session: self.runs.len(), mono: 0 };
                self.runs.push(Run { session, from, to, stopped: false });
                self.runs.len() - 1
            });
            making.current = Some(run);
            // A runtime that was silent at first introduces itself later.
            if let Some(known) = self.runs.get_mut(run).filter(|known| known.session.runtime.is_empty()) {
                known.session = introduced;
            }
            making.go_on(run, number, segment);
            return;
        }
        // Without its head nobody knows whose segment it is.
        let Some(session) = making.current else { return };
        let at = Moment { session, mono: entry.mono };
        if let Some(run) = self.runs.get_mut(session) {
            run.from = run.from.min(at);
            run.to = run.to.max(at);
        }
        let before = making.last.get(&session).map_or(0, |(_, mono)| *mono);
        // An open call comes again at the head of a file, with the time at which it was sent.
        making.last.entry(session).or_default().1 = before.max(at.mono);
        match body {
            Body::Session(_) => {}
            Body::Asked(asked) => {
                let Some(rpc) = rpc(asked.rpc) else { return };
                // A new segment says again what is open.
                let place = *making.open.entry((session, asked.call)).or_insert_with(|| {
                    self.calls.push(RecordedCall {
                        number: asked.call,
                        rpc,
                        request: asked.request,
                        relist: asked.relist,
                        asked: at,
                        wall,
                        end: None,
                        lost: None,
                    });
                    self.calls.len() - 1
                });
                making.named.insert(place, segment);
            }
            Body::Ended(ended) => {
                for (which, answer) in ended.answers.iter().enumerate() {
                    if answer.here {
                        answers.insert(answer.number, (offset, which));
                    }
                }
                let call = making.open.remove(&(session, ended.call));
                let endpoint = self.runs.get(session).map_or("", |run| run.session.endpoint.as_str());
                if let Some(call) = call.and_then(|call| self.calls.get_mut(call)) {
                    call.end = Some(End {
                        took: Duration::from_nanos(ended.took),
                        outcome: ended.outcome(call.rpc, endpoint),
                        answers: ended.answers.iter().map(|answer| (segment, answer.number)).collect(),
                        omitted: ended.omitted,
                    });
                }
            }
            Body::Told(told) => {
                if told.answer.here {
                    answers.insert(told.answer.number, (offset, 0));
                }
                if let Some(call) = making.open.get(&(session, told.call)) {
                    let place = (segment, told.answer.number);
                    self.told.push(RecordedEvent { at, wall, call: *call, place });
                }
            }
            Body::Relist(done) => {
                let began = Moment { session, mono: done.began };
                self.relists.push(RecordedRelist { done, began, ended: at, wall });
            }
            Body::Document(document) => {
                self.documents.push(Written { kind: document.kind, at, wall, segment, offset });
            }
            Body::Incident(incident) => {
                self.writers.insert(incident.number, session);
                self.incidents.insert(incident.number, incident);
            }
            Body::Jump(jump) => self.jumps.push((wall, jump)),
            Body::Lost(lost) => {
                making.lose(&lost, at, before, segment);
                self.losses.push((at, wall, lost));
            }
            Body::Stopped(_) => {
                if let Some(run) = self.runs.get_mut(session) {
                    run.stopped = true;
                }
            }
        }
    }

    /// The first and the last moment by the wall clock.
    pub fn span(&self) -> Option<(Wall, Wall)> {
        let spans = self.segments.iter().filter_map(|segment| segment.span);
        spans.reduce(|(from, to), (earlier, later)| (from.min(earlier), to.max(later)))
    }

    /// Bytes that could not be read.
    pub fn damaged(&self) -> u64 {
        self.segments.iter().map(|segment| segment.damaged).sum()
    }

    /// Bytes of entries that were never whole.
    pub fn cut(&self) -> u64 {
        self.segments.iter().map(|segment| segment.cut).sum()
    }

    fn bytes_of(&self, segment: usize) -> Option<Arc<Vec<u8>>> {
        let mut ready = self.ready();
        let held = ready.segments.iter().position(|(held, _)| *held == segment);
        let (_, bytes) = match held {
            Some(place) => ready.segments.remove(place),
            None => (segment, Arc::new(store::read(&self.segments.get(segment)?.path).ok()?)),
        };
        if ready.segments.len() >= MOST_SEGMENTS {
            ready.segments.remove(0);
        }
        ready.segments.push((segment, Arc::clone(&bytes)));
        Some(bytes)
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry_at(&self, segment: usize, offset: usize) -> Option<Entry> {
        let bytes = self.bytes_of(segment)?;
        match frame::at(&bytes, offset) {
            Found::Whole(content, _) => budget::entry(content),
            Found::End | Found::Broken => None,
        }
    }

    /// The text of a document; `None` if it is lost.
    pub fn text(&self, document: &Written) -> Option<Bytes> {
        match self.entry_at(document.segment, document.offset)?.body? {
            Body::Document(document) => self.document(&document),
            _ => None,
        }
    }

    /// The text of a document that was read; `None` if it is lost, or costs more than it may.
    pub(super) fn document(&self, document: &Document) -> Option<Bytes> {
        let size = document.inflated.max(u64::try_from(document.text.len()).unwrap_or(u64::MAX));
        self.budget.allow(size <= LARGEST_DOCUMENT)?;
        self.budget.spend(usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(DOCUMENT_COST))?;
        let text = unpacked(&document.text, document.inflated)?;
        self.budget.allow(fits_in_memory(&text))?;
        Some(text)
    }

    /// How often something was left out because it would have cost too much.
    pub fn refusals(&self) -> u64 {
        self.budget.refusals()
    }

    /// A message of an answer; `None` if it, or what it leans on, is lost.
    pub fn message(&self, place: Place) -> Option<Bytes> {
        let Held { bytes, order } = self.held(place)?;
        if order.is_empty() {
            return Some(bytes);
        }
        self.budget.spend(bytes.len())?;
        Some(order::restored(&bytes, &order)?.into())
    }

    fn held(&self, place: Place) -> Option<Held> {
        let (segment, mut number) = place;
        let mut differences = Vec::new();
        let mut piled = 0;
        let mut own_order = None;
        let (mut bytes, order) = loop {
            if let Some(held) = self.ready().answers.get(&(segment, number)) {
                break (held.bytes.clone(), held.order.clone());
            }
            let answer = self.answer((segment, number))?;
            self.budget.spend_on_message(answer.inflated)?;
            let own = unpacked(&answer.bytes, answer.inflated)?;
            own_order.get_or_insert_with(|| answer.order.clone());
            if answer.base == 0 {
                break (own, answer.order);
            }
            // Differences lean on what is older, so that they come to an end.
            if answer.base >= number || differences.len() >= LONGEST_CHAIN {
                return None;
            }
            piled = own.len().saturating_add(piled);
            self.budget.allow(piled <= self.budget.largest_message().saturating_mul(MOST_PILED))?;
            differences.push(own);
            number = answer.base;
        };
        while let Some(difference) = differences.pop() {
            let most = LARGEST.min(self.budget.largest_message());
            let Some(made) = delta::apply(&bytes, &difference, most) else {
                // Damaged, or too large; which of the two is not known.
                return self.budget.allow(false).and(None);
            };
            // Each step costs something, however little it copies.
            self.budget.spend(made.len().saturating_add(difference.len().saturating_mul(8)))?;
            // A list that is the same but for its order is held once.
            bytes = if made == bytes { bytes } else { made.into() };
        }
        let held = Held { bytes, order: own_order.unwrap_or(order) };
        self.ready().hold(place, held.clone());
        Some(held)
    }

    fn answer(&self, (segment, number): Place) -> Option<Answer> {
        let (offset, which) = *self.segments.get(segment)?.answers.get(&number)?;
        let entry = (segment, offset);
        let held = self.ready().parted.clone().filter(|parted| parted.entry == entry);
        let parted = match held {
            Some(parted) => parted,
            None => match self.entry_at(segment, offset)?.body? {
                Body::Ended(ended) => {
                    let parted = Parted { entry, answers: Arc::new(ended.answers) };
                    self.ready().parted = Some(parted.clone());
                    parted
                }
                Body::Told(told) => return Some(told.answer),
                _ => return None,
            },
        };
        parted.answers.get(which).cloned()
    }

    /// Whether the segment of a message was there when the capture was opened, and is no more.
    pub fn is_given_up(&self, (segment, _): Place) -> bool {
        self.segments.get(segment).is_some_and(|segment| matches!(segment.path.try_exists(), Ok(false)))
    }

    /// The messages that a call was answered with; `None` if one of them is lost.
    pub fn messages(&self, end: &End) -> Option<Vec<Bytes>> {
        if end.omitted {
            return None;
        }
        self.messages_at(end.answers.iter().copied())
    }

    /// The messages at some places. One that comes again in the same answer is paid for again, as whoever asks looks at each.
    pub(super) fn messages_at(&self, places: impl Iterator<Item = Place>) -> Option<Vec<Bytes>> {
        let mut seen = HashSet::new();
        let message = |place| {
            let message = self.message(place)?;
            if !seen.insert(place) {
                self.budget.spend(message.len().saturating_mul(REPEATED_COST))?;
            }
            Some(message)
        };
        places.map(message).collect()
    }
}
