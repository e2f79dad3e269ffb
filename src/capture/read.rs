//! Reads a capture. [`Capture::open`] reads each segment once and builds an index of calls, relists, documents and
//! incidents. Answers and documents are read again when they are requested.
//!
//! Damaged bytes are skipped and counted. An answer that is stored as a difference from a damaged answer cannot be read
//! either; everything else can.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::bytes::Bytes;

use super::budget::{self, ReadBudget};
use super::entry::{
    Body, CallFinished, CaptureEntry, Incident, Jump, Lost, RelistDone, Session, StoredDocument,
    StoredMessage, rpc,
};
use super::frame::{self, FrameRead};
use super::pack::{MAX_UNPACKED, unpacked};
use super::processor_limit::ProcessorLimit;
use super::segment::{self, Entries, HeaderError};
use super::{Error, delta, entry, list_order, store};
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::report::fits_in_memory;
use crate::threads::locked;

/// The maximum number of differences that are applied to one message; the recorder writes far fewer.
const MAX_CHAIN: usize = 1024;

/// The maximum size of all differences for one message, as a multiple of the largest message.
const MAX_DIFFERENCES_FACTOR: usize = 4;

/// The maximum number of cached messages.
const MAX_CACHED_MESSAGES: usize = 256;

/// The maximum size of all cached messages.
const MAX_CACHED_BYTES: usize = 64 * 1024 * 1024;

/// The maximum size of all cached messages of a capture without an index.
const MAX_CACHED_BYTES_WITHOUT_INDEX: usize = 2 * 1024 * 1024;

/// The size of the largest document that is read. The diagnosis of the largest node has several hundred KiB.
const MAX_DOCUMENT_SIZE: u64 = 8 << 20;

/// A document takes its size times this number from the [`ReadBudget`], because it is unpacked, measured and parsed.
const DOCUMENT_COST: usize = 8;

/// A message that is repeated in one answer takes its size times this number from the [`ReadBudget`]. No runtime lists
/// anything twice, and the export replaces the names in each message, which is far more work than copying it.
const REPEATED_COST: usize = 64;

/// The maximum number of cached segments. The entries of one moment may be in two segments.
const MAX_CACHED_SEGMENTS: usize = 4;

/// The error of a relist that was running when the recorder ended.
pub const UNFINISHED: &str = "still open when the recording ended";

/// A moment of a capture: a session, and the time of the session's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureMoment {
    /// The index of the session.
    pub session: usize,
    /// Nanoseconds since the recorder of the session started.
    pub mono: u64,
}

impl CaptureMoment {
    /// Returns the moment that is later by this duration.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self { mono: self.mono.saturating_add(entry::nanos(by)), ..self }
    }

    /// Returns the time since an earlier moment of the same session.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.mono.saturating_sub(earlier.mono))
    }
}

/// One session of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderSession {
    /// The recorder, the runtime and the settings.
    pub session: Session,
    /// The moment of the first entry.
    pub from: CaptureMoment,
    /// The moment of the last entry.
    pub to: CaptureMoment,
    /// Whether the recorder ended normally.
    pub stopped: bool,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// The number of the call in the session.
    pub number: u64,
    /// The RPC.
    pub rpc: Rpc,
    /// The encoded request.
    pub request: Bytes,
    /// The number of the relist that made the call; 0 if the call belongs to no relist.
    pub relist: u64,
    /// When the call was sent.
    pub sent: CaptureMoment,
    /// When the call was sent, by the wall clock.
    pub wall: Wall,
    /// The end of the call; `None` if the capture does not contain the end.
    pub end: Option<RecordedEnd>,
    /// If entries were lost: after this moment, it is not known whether the call has ended.
    pub lost: Option<CaptureMoment>,
}

/// The state of a call at a moment.
#[derive(Clone, Copy, Debug)]
pub enum CallState<'a> {
    /// The call had ended.
    Ended(&'a RecordedEnd),
    /// The call was pending, and had been pending for this long. It may have ended after this moment.
    Open(Duration),
    /// The end of the call may be among the lost entries.
    NotKnown,
}

/// The end of a recorded call.
#[derive(Clone, Debug)]
pub struct RecordedEnd {
    /// The duration of the call.
    pub took: Duration,
    /// The outcome.
    pub outcome: entry::RecordedOutcome,
    /// The messages of the answer.
    pub answers: Vec<MessageId>,
    /// Whether the capture lacks the messages because they did not fit into a segment.
    pub omitted: bool,
}

/// Identifies a message: the index of a segment, and the number of the message in that segment. An answer has one
/// message or several messages.
pub type MessageId = (usize, u32);

/// A recorded relist.
#[derive(Clone, Debug)]
pub struct RecordedRelist {
    /// The number, the error and the counts of the relist.
    pub done: RelistDone,
    /// When the relist began.
    pub began: CaptureMoment,
    /// When the relist ended.
    pub ended: CaptureMoment,
    /// When the relist ended, by the wall clock.
    pub wall: Wall,
}

/// A recorded document: its kind, its time and its place in the capture.
#[derive(Clone, Debug)]
pub struct DocumentEntry {
    /// The kind; see `entry::kind`.
    pub kind: u32,
    /// When the document was recorded.
    pub at: CaptureMoment,
    /// When the document was recorded, by the wall clock.
    pub wall: Wall,
    segment: usize,
    offset: usize,
}

/// A file of the capture, with the amount of readable and damaged content.
#[derive(Clone, Debug, Default)]
pub struct SegmentState {
    /// The path.
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of bytes that are not part of an entry.
    pub damaged: u64,
    /// The number of bytes of an incomplete last entry: the recorder was killed, or the file was truncated.
    pub cut: u64,
    /// The offset of the first fault.
    pub fault: Option<usize>,
    /// The number of complete entries.
    pub entries: u64,
    /// The times of the earliest and the latest entry, by the wall clock.
    pub span: Option<(Wall, Wall)>,
    /// Empty if the capture has no index.
    messages: MessagePlaces,
}

/// The position of each message of a segment by its number: the offset of the entry, and the index of the message in the
/// entry.
type MessagePlaces = HashMap<u32, (usize, usize)>;

/// How a capture is opened.
pub(super) struct Opening {
    /// Whether the files are the segments of a directory, and not an exported file.
    pub is_directory: bool,
    /// Whether all entries are in the index. Otherwise only the calls and relists without an end are, and no documents and
    /// events, which is all that an export needs.
    pub is_indexed: bool,
    /// How much of a processor the thread uses.
    pub processor_limit: ProcessorLimit,
}

/// A capture that was opened for reading.
#[derive(Debug, Default)]
pub struct Capture {
    /// The path of the directory or file.
    pub path: PathBuf,
    /// The sessions.
    pub sessions: Vec<RecorderSession>,
    /// The calls in the order in which they were sent.
    pub calls: Vec<RecordedCall>,
    /// The relists.
    pub relists: Vec<RecordedRelist>,
    /// The incidents by number.
    pub incidents: BTreeMap<u64, Incident>,
    /// The session that wrote the last entry about each incident.
    incident_sessions: BTreeMap<u64, usize>,
    /// The documents.
    pub documents: Vec<DocumentEntry>,
    /// The jumps of the wall clock.
    pub jumps: Vec<(Wall, Jump)>,
    /// The losses of entries.
    pub losses: Vec<(CaptureMoment, Wall, Lost)>,
    /// The number of segments that were deleted to stay within the limits.
    pub dropped: u64,
    /// The files.
    pub segments: Vec<SegmentState>,
    /// Whether a recorder is writing the capture at the moment.
    is_being_recorded: bool,
    cache: Mutex<ReadCache>,
    budget: ReadBudget,
    processor_limit: ProcessorLimit,
    is_indexed: bool,
}

/// The segments and messages that were read last.
#[derive(Debug, Default)]
struct ReadCache {
    /// The cached segments with their indices, the most recently used one last.
    segments: Vec<(usize, Arc<Vec<u8>>)>,
    messages: HashMap<MessageId, CachedMessage>,
    /// The cached messages, the oldest one first.
    oldest: VecDeque<MessageId>,
    bytes: usize,
    decoded: Option<DecodedEntry>,
    /// Without an index, the messages of the segment that was read last.
    places: Option<(usize, Arc<MessagePlaces>)>,
}

impl ReadCache {
    /// Adds a message. If the cache is full, removes the oldest messages, because the next answer is most likely a
    /// difference from a recent one.
    fn add(&mut self, id: MessageId, message: CachedMessage, max_bytes: usize) {
        while self.messages.len() >= MAX_CACHED_MESSAGES || self.bytes >= max_bytes {
            let Some(oldest) = self.oldest.pop_front() else { break };
            if let Some(removed) = self.messages.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(removed.bytes.len());
            }
        }
        let size = message.bytes.len();
        if self.messages.insert(id, message).is_none() {
            self.bytes += size;
            self.oldest.push_back(id);
        }
    }
}

/// A message whose items are in canonical order, and the permutation that restores their original order. Differences
/// between messages are differences between their canonical orders.
#[derive(Clone, Debug)]
struct CachedMessage {
    bytes: Bytes,
    order: Bytes,
}

/// The messages of the entry that was decoded last. There may be very many, so they are not decoded for each message.
#[derive(Clone, Debug)]
struct DecodedEntry {
    /// The index of the segment, and the offset of the entry in the segment.
    entry: (usize, usize),
    messages: Arc<Vec<StoredMessage>>,
}

/// The state that is only needed while the index is built.
#[derive(Default)]
struct IndexBuilder {
    /// The index of each session by its id.
    sessions: HashMap<u64, usize>,
    /// The session of the present segment.
    current: Option<usize>,
    /// The index of each open call, by session and number.
    open: HashMap<(usize, u64), usize>,
    /// The number of the last segment, and the time of the last entry, of each session.
    last: HashMap<usize, (u64, u64)>,
    /// The index of the last segment that contains each open call.
    last_segment: HashMap<usize, usize>,
    /// The number of the last finished relist of each session.
    finished: HashMap<usize, u64>,
    /// The first call of each session's relist that is not finished, unless entries were lost after the call.
    begun: BTreeMap<usize, BegunRelist>,
    /// The time of the last loss of entries in each session.
    last_loss: HashMap<usize, u64>,
    /// The calls whose last entry was lost, with the time at which they ended: the entry about the loss contains both.
    lost_ends: HashMap<(usize, u64), u64>,
    gaps: Vec<LossGap>,
}

/// A relist that has begun: its number, and when its first call was sent.
struct BegunRelist {
    number: u64,
    sent: CaptureMoment,
    wall: Wall,
}

impl IndexBuilder {
    /// Notes that a relist has made a call.
    fn begin_relist(&mut self, relist: BegunRelist) {
        let session = relist.sent.session;
        if self.is_unfinished(&relist)
            && !self.begun.get(&session).is_some_and(|begun| self.is_unfinished(begun))
        {
            self.begun.insert(session, relist);
        }
    }

    /// Whether the relist has no end. If entries were lost after its first call, its end may be among them.
    fn is_unfinished(&self, relist: &BegunRelist) -> bool {
        let session = relist.sent.session;
        let is_finished = relist.number <= self.finished.get(&session).copied().unwrap_or_default();
        let is_lost = self.last_loss.get(&session).is_some_and(|loss| *loss > relist.sent.mono);
        !is_finished && !is_lost
    }

    fn add_gap(&mut self, gap: LossGap) {
        self.note_loss(gap.session, gap.from);
        self.gaps.push(gap);
    }

    fn note_loss(&mut self, session: usize, mono: u64) {
        let last = self.last_loss.entry(session).or_default();
        *last = mono.max(*last);
    }

    /// Adds a loss of entries.
    fn add_loss(&mut self, lost: &Lost, at: CaptureMoment, segment: usize) {
        let session = at.session;
        for end in &lost.ends {
            self.lost_ends.entry((session, end.call)).or_insert(end.mono);
        }
        // If the entry does not list every lost end, each call that was open in this period may have ended.
        if lost.more_ends {
            self.add_gap(LossGap { session, from: lost.since, to: at.mono, segment });
        }
    }

    /// Notes that a session continues in another segment. If a segment in between was deleted, the ends of calls in the
    /// deleted segment are lost.
    fn continue_in(&mut self, session: usize, number: u64, segment: usize) {
        let before = self.last.get(&session).copied();
        if let Some((_, mono)) = before.filter(|(last, _)| *last > 0 && number > last + 1) {
            // The gap is before this segment, so it does not concern the calls that this segment repeats as open.
            let segment = segment.saturating_sub(1);
            self.add_gap(LossGap { session, from: mono, to: u64::MAX, segment });
        }
        self.last.insert(session, (number, before.map_or(0, |(_, mono)| mono)));
    }
}

/// A period in which entries were lost, so that the ends of calls may be missing.
struct LossGap {
    session: usize,
    from: u64,
    to: u64,
    /// The index of the segment with the gap. If a later segment repeats a call as open, the call had not ended in the
    /// gap.
    segment: usize,
}

impl Capture {
    /// Opens the directory or the exported file at `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_whole(path, true)
    }

    /// Opens the directory or the exported file at `path` for [`export`](super::export()) only: the capture has no index, so
    /// that the memory does not grow with the capture.
    pub fn open_for_export(path: &Path) -> Result<Self, Error> {
        Self::open_whole(path, false)
    }

    fn open_whole(path: &Path, is_indexed: bool) -> Result<Self, Error> {
        let fail = |source| Error::Read { path: path.to_path_buf(), source };
        let is_directory = fs::metadata(path).map_err(fail)?.is_dir();
        let files = if is_directory {
            let segments = store::segments_in(path).map_err(|why| match why {
                Error::Directory { path, source } => Error::Read { path, source },
                other => other,
            });
            segments?.into_iter().map(|(_, path)| path).collect()
        } else {
            vec![path.to_path_buf()]
        };
        Self::open_files(
            path,
            files,
            Opening { is_directory, is_indexed, processor_limit: ProcessorLimit::default() },
        )
    }

    /// Opens these files of the capture at `path`.
    pub(super) fn open_files(path: &Path, files: Vec<PathBuf>, how: Opening) -> Result<Self, Error> {
        if files.is_empty() {
            return Err(Error::NotACapture { path: path.to_path_buf(), why: "it has no segments".into() });
        }
        let Opening { is_directory: directory, is_indexed, processor_limit } = how;
        let mut capture = Self { path: path.to_path_buf(), processor_limit, is_indexed, ..Self::default() };
        let mut builder = IndexBuilder::default();
        let last = files.len() - 1;
        for (index, file) in files.into_iter().enumerate() {
            let bytes = match store::read(&file) {
                Ok(bytes) => bytes,
                // The recorder may have deleted this segment since the directory was listed.
                Err(Error::Segment { source, .. })
                    if directory && source.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(why) => return Err(why),
            };
            let unfinished = directory && index == last && store::is_being_recorded(path);
            capture.add_segment(file, &bytes, directory, unfinished, &mut builder)?;
        }
        capture.budget = ReadBudget::of_bytes(capture.segments.iter().map(|segment| segment.bytes).sum());
        capture.is_being_recorded = directory && store::is_being_recorded(path);
        capture.mark_lost_ends(&builder);
        if !is_indexed {
            // Removing calls has changed their order.
            capture.calls.sort_by_key(|call| call.sent);
        }
        capture.add_unfinished_relists(&builder);
        if capture.sessions.is_empty() && !directory {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        Ok(capture)
    }

    /// Adds the relists that were running when the recorder ended, because they are often the relists that hung.
    fn add_unfinished_relists(&mut self, builder: &IndexBuilder) {
        for begun in builder.begun.values().filter(|begun| builder.is_unfinished(begun)) {
            let Some(run) = self.sessions.get(begun.sent.session) else { continue };
            self.relists.push(RecordedRelist {
                done: RelistDone {
                    number: begun.number,
                    began: begun.sent.mono,
                    error: UNFINISHED.to_owned(),
                    ..RelistDone::default()
                },
                began: begun.sent,
                ended: run.to,
                wall: begun.wall.plus(run.to.since(begun.sent)),
            });
        }
        // The sort is stable, so an added relist comes after the relists that ended at the same moment.
        self.relists.sort_by_key(|relist| relist.ended);
    }

    /// Marks the calls without a recorded end that may have ended in a gap.
    fn mark_lost_ends(&mut self, builder: &IndexBuilder) {
        for (index, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| call.end.is_none()) {
            let session = call.sent.session;
            let own = builder.lost_ends.get(&(session, call.number)).copied();
            let last_segment = builder.last_segment.get(&index).copied().unwrap_or_default();
            let covers = |gap: &&LossGap| {
                gap.session == session && gap.segment >= last_segment && call.sent.mono <= gap.to
            };
            let in_gap = builder.gaps.iter().filter(covers).map(|gap| gap.from.max(call.sent.mono)).min();
            let from = [own, in_gap].into_iter().flatten().min();
            call.lost = from.map(|mono| CaptureMoment { session, mono });
        }
    }

    /// Returns the state of `call` at a moment of its session.
    pub fn state_at<'a>(&'a self, call: &'a RecordedCall, at: CaptureMoment) -> CallState<'a> {
        let waited = at.since(call.sent);
        match &call.end {
            Some(end) if end.took <= waited => CallState::Ended(end),
            None if call.lost.is_some_and(|lost| lost <= at) => CallState::NotKnown,
            // After the last entry of a session, nobody knows whether the call was still pending.
            None if at > self.known_until(call.sent.session) => CallState::NotKnown,
            Some(_) | None => CallState::Open(waited),
        }
    }

    /// Returns the time for which a call without a recorded end was certainly pending.
    pub fn seen_open(&self, call: &RecordedCall) -> Duration {
        let run = self.sessions.get(call.sent.session).map_or(call.sent, |run| run.to);
        call.lost.unwrap_or(run).since(call.sent)
    }

    /// Whether the recorder of a session is still running.
    fn is_running(&self, session: usize) -> bool {
        let is_last = session + 1 == self.sessions.len();
        self.is_being_recorded && is_last && self.sessions.get(session).is_some_and(|run| !run.stopped)
    }

    /// Returns when the recorder ended, if it ended before the incident did; otherwise `None`.
    pub fn left_open(&self, incident: &Incident) -> Option<Wall> {
        let session = *self.incident_sessions.get(&incident.number)?;
        let is_open = Wall::known(incident.to).is_none();
        let run = self.sessions.get(session).filter(|_| is_open && !self.is_running(session))?;
        Some(self.with_wall_time(run.to)?.1)
    }

    /// Returns the last moment at which the capture shows the pending calls of a session. The ends of calls may be in the
    /// queue of a recorder whose disk hangs, so this is the last entry even if the recorder is still running.
    fn known_until(&self, session: usize) -> CaptureMoment {
        let run = self.sessions.get(session);
        run.map_or(CaptureMoment { session, mono: u64::MAX }, |run| run.to)
    }

    /// Whether the recorder lost entries at this moment, so that calls of this moment may be missing.
    pub fn is_lost_at(&self, at: CaptureMoment) -> bool {
        let is_at = |(end, _, lost): &(CaptureMoment, Wall, Lost)| {
            end.session == at.session && lost.since <= at.mono && at < *end
        };
        self.losses.iter().any(is_at)
    }

    /// Whether the recorder ended so soon after it sent the call that the missing answer means nothing.
    pub fn was_cut_short(&self, call: &RecordedCall) -> bool {
        let Some(run) = self.sessions.get(call.sent.session) else { return true };
        let slow = Duration::from_nanos(run.session.slow);
        match &call.end {
            None => call.lost.unwrap_or(run.to).since(call.sent) < slow,
            Some(end) => end.outcome == entry::RecordedOutcome::Abandoned && end.took < slow,
        }
    }

    /// Adds the entries of a file to the index.
    fn add_segment(
        &mut self,
        path: PathBuf,
        bytes: &[u8],
        directory: bool,
        unfinished: bool,
        builder: &mut IndexBuilder,
    ) -> Result<(), Error> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut state = SegmentState { path, bytes: size, ..SegmentState::default() };
        match segment::check(bytes) {
            Ok(()) => {}
            Err(HeaderError::Version(found)) => {
                return Err(Error::OtherVersion { path: state.path, found });
            }
            // A directory has other segments, so a segment with a damaged header is skipped.
            Err(HeaderError::NoSegment) if directory => {
                state.damaged = u64::try_from(frame::used_length(bytes)).unwrap_or(u64::MAX);
                state.fault = Some(0);
                self.segments.push(state);
                return Ok(());
            }
            Err(HeaderError::NoSegment) => {
                let why = "it does not start with the mark of a capture".to_owned();
                return Err(Error::NotACapture { path: state.path, why });
            }
        }
        builder.current = None;
        let number = self.segments.len();
        let mut entries = Entries::in_bytes(bytes);
        let mut damaged = 0;
        while let Some((offset, entry)) = entries.next() {
            self.processor_limit.pause_if_due();
            state.entries += 1;
            if let (true, Some(session)) = (entries.damaged > damaged, builder.current) {
                let from = builder.last.get(&session).map_or(0, |(_, mono)| *mono);
                builder.add_gap(LossGap { session, from, to: entry.mono, segment: number });
            }
            damaged = entries.damaged;
            // Each segment begins with a session entry, which only repeats the session. So the span ignores its time.
            if !matches!(entry.body, Some(Body::Session(_))) {
                let wall = Wall::from_nanos(entry.wall);
                let (from, to) = state.span.unwrap_or((wall, wall));
                state.span = Some((from.min(wall), to.max(wall)));
            }
            self.add_entry(entry, (number, offset), &mut state.messages, builder);
        }
        // In an unfinished segment, incomplete bytes are no damage: the recorder may be writing an entry at the moment.
        if let (false, Some(session)) = (unfinished, builder.current)
            && entries.damaged + entries.cut > damaged
        {
            let from = builder.last.get(&session).map_or(0, |(_, mono)| *mono);
            builder.add_gap(LossGap { session, from, to: u64::MAX, segment: number });
        }
        if !unfinished {
            (state.damaged, state.cut, state.fault) = (entries.damaged, entries.cut, entries.fault);
        }
        self.segments.push(state);
        Ok(())
    }

    /// Adds an entry to the index.
    fn add_entry(
        &mut self,
        entry: CaptureEntry,
        (segment, offset): (usize, usize),
        messages: &mut MessagePlaces,
        builder: &mut IndexBuilder,
    ) {
        let Some(body) = entry.body else { return };
        let wall = Wall::from_nanos(entry.wall);
        if let Body::Session(session) = body {
            let number = session.segment;
            self.dropped = self.dropped.max(session.dropped);
            let latest = session.clone();
            let run = *builder.sessions.entry(session.id).or_insert_with(|| {
                let from = CaptureMoment { session: self.sessions.len(), mono: u64::MAX };
                let to = CaptureMoment { session: self.sessions.len(), mono: 0 };
                self.sessions.push(RecorderSession { session, from, to, stopped: false });
                self.sessions.len() - 1
            });
            builder.current = Some(run);
            // If the runtime was silent at first, a later session entry has its name.
            if let Some(known) = self.sessions.get_mut(run).filter(|known| known.session.runtime.is_empty()) {
                known.session = latest;
            }
            builder.continue_in(run, number, segment);
            return;
        }
        // Without a session entry, nobody knows to which session this entry belongs.
        let Some(session) = builder.current else { return };
        let at = CaptureMoment { session, mono: entry.mono };
        if let Some(run) = self.sessions.get_mut(session) {
            run.from = run.from.min(at);
            run.to = run.to.max(at);
        }
        let before = builder.last.get(&session).map_or(0, |(_, mono)| *mono);
        // Each segment repeats the open calls with the earlier time at which they were sent, hence the maximum.
        builder.last.entry(session).or_default().1 = before.max(at.mono);
        match body {
            Body::Session(_) => {}
            Body::CallStarted(started) => {
                let Some(rpc) = rpc(started.rpc) else { return };
                // A repeated open call is already in the index.
                let index = *builder.open.entry((session, started.call)).or_insert(self.calls.len());
                if index == self.calls.len() {
                    builder.begin_relist(BegunRelist { number: started.relist, sent: at, wall });
                    self.calls.push(RecordedCall {
                        number: started.call,
                        rpc,
                        request: started.request,
                        relist: started.relist,
                        sent: at,
                        wall,
                        end: None,
                        lost: None,
                    });
                }
                builder.last_segment.insert(index, segment);
            }
            Body::CallFinished(ended) => {
                let call = builder.open.remove(&(session, ended.call));
                if self.is_indexed {
                    add_places(messages, offset, &ended.answers);
                    self.end_call(call, &ended, (session, segment));
                } else if let Some(call) = call {
                    self.forget_call(call, builder);
                }
            }
            Body::Relist(done) => {
                let finished = builder.finished.entry(session).or_default();
                *finished = done.number.max(*finished);
                if !self.is_indexed {
                    return;
                }
                let began = CaptureMoment { session, mono: done.began };
                self.relists.push(RecordedRelist { done, began, ended: at, wall });
            }
            Body::Document(_) if !self.is_indexed => {}
            Body::Document(document) => {
                self.documents.push(DocumentEntry { kind: document.kind, at, wall, segment, offset });
            }
            Body::Incident(incident) => {
                self.incident_sessions.insert(incident.number, session);
                self.incidents.insert(incident.number, incident);
            }
            Body::Jump(jump) => self.jumps.push((wall, jump)),
            Body::Lost(lost) => {
                builder.add_loss(&lost, at, segment);
                // An export has an entry without a loss for each call whose end the original may have lost.
                if lost.entries > 0 {
                    builder.note_loss(session, lost.since);
                    self.losses.push((at, wall, lost));
                }
            }
            Body::Stopped(_) => {
                if let Some(run) = self.sessions.get_mut(session) {
                    run.stopped = true;
                }
            }
        }
    }

    /// Adds the end of a call, which is in this session and segment.
    fn end_call(&mut self, call: Option<usize>, ended: &CallFinished, (session, segment): (usize, usize)) {
        let endpoint = self.sessions.get(session).map_or("", |run| run.session.endpoint.as_str());
        if let Some(call) = call.and_then(|call| self.calls.get_mut(call)) {
            call.end = Some(RecordedEnd {
                took: Duration::from_nanos(ended.took),
                outcome: ended.outcome(call.rpc, endpoint),
                answers: ended.answers.iter().map(|answer| (segment, answer.number)).collect(),
                omitted: ended.omitted,
            });
        }
    }

    /// Removes a call that has ended.
    fn forget_call(&mut self, index: usize, builder: &mut IndexBuilder) {
        self.calls.swap_remove(index);
        builder.last_segment.remove(&index);
        // The last call has the index of the removed one now.
        if let Some(moved) = self.calls.get(index) {
            builder.open.insert((moved.sent.session, moved.number), index);
            let segment = builder.last_segment.remove(&self.calls.len());
            builder.last_segment.extend(segment.map(|segment| (index, segment)));
        }
    }

    /// Returns the beginning of the last relist that began before `wall`, otherwise of the first relist.
    pub fn relist_before(&self, wall: Wall) -> Option<(CaptureMoment, Wall)> {
        let begins =
            |relist: &RecordedRelist| (relist.began, relist.wall.minus(relist.ended.since(relist.began)));
        let before = self.relists.iter().map(begins).take_while(|(_, began)| *began <= wall);
        before.last().or_else(|| self.relists.first().map(begins))
    }

    /// Returns the earliest and the latest time by the wall clock.
    pub fn span(&self) -> Option<(Wall, Wall)> {
        let spans = self.segments.iter().filter_map(|segment| segment.span);
        spans.reduce(|(from, to), (earlier, later)| (from.min(earlier), to.max(later)))
    }

    /// Returns the number of bytes that cannot be read.
    pub fn damaged(&self) -> u64 {
        self.segments.iter().map(|segment| segment.damaged).sum()
    }

    /// Returns the number of bytes of incomplete entries.
    pub fn cut(&self) -> u64 {
        self.segments.iter().map(|segment| segment.cut).sum()
    }

    /// Returns the bytes of a segment, from the cache or from the file.
    fn bytes_of(&self, segment: usize) -> Option<Arc<Vec<u8>>> {
        let mut cache = self.cache();
        let cached = cache.segments.iter().position(|(cached, _)| *cached == segment);
        let cached = cached.map(|index| cache.segments.remove(index));
        let max_segments = if self.is_indexed { MAX_CACHED_SEGMENTS } else { 1 };
        while cache.segments.len() >= max_segments {
            cache.segments.remove(0);
        }
        let (_, bytes) = match cached {
            Some(cached) => cached,
            None => (segment, Arc::new(store::read(&self.segments.get(segment)?.path).ok()?)),
        };
        cache.segments.push((segment, Arc::clone(&bytes)));
        Some(bytes)
    }

    /// Calls `handle` with the index of the segment and the entry, for each readable entry in order. Entries that a recorder
    /// added after the capture was opened do not count, so that each pass handles the same entries.
    pub(super) fn for_each_entry(
        &self,
        mut handle: impl FnMut(usize, CaptureEntry) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        for (segment, state) in self.segments.iter().enumerate() {
            let Some(bytes) = self.bytes_of(segment).filter(|bytes| segment::check(bytes).is_ok()) else {
                continue;
            };
            let count = usize::try_from(state.entries).unwrap_or(usize::MAX);
            for (_, entry) in Entries::in_bytes(&bytes).take(count) {
                self.processor_limit.pause_if_due();
                handle(segment, entry)?;
            }
        }
        Ok(())
    }

    /// Returns the maximum size of all cached messages.
    pub(super) const fn cache_limit(&self) -> usize {
        if self.is_indexed { MAX_CACHED_BYTES } else { MAX_CACHED_BYTES_WITHOUT_INDEX }
    }

    /// Returns the place of a message in its segment.
    fn place(&self, (segment, number): MessageId) -> Option<(usize, usize)> {
        if self.is_indexed {
            return self.segments.get(segment)?.messages.get(&number).copied();
        }
        let cached = self.cache().places.clone().filter(|(cached, _)| *cached == segment);
        if let Some((_, places)) = cached {
            return places.get(&number).copied();
        }
        let bytes = self.bytes_of(segment)?;
        let mut places = MessagePlaces::new();
        for (offset, entry) in Entries::in_bytes(&bytes) {
            self.processor_limit.pause_if_due();
            if let Some(Body::CallFinished(ended)) = entry.body {
                add_places(&mut places, offset, &ended.answers);
            }
        }
        let place = places.get(&number).copied();
        self.cache().places = Some((segment, Arc::new(places)));
        place
    }

    /// Forgets what was read, so that the next pass over the entries does the same as the first.
    pub(super) fn clear_cache(&self) {
        *self.cache() = ReadCache::default();
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, ReadCache> {
        locked(&self.cache)
    }

    /// Reads the entry at an offset of a segment again.
    fn entry_at(&self, segment: usize, offset: usize) -> Option<CaptureEntry> {
        let bytes = self.bytes_of(segment)?;
        match frame::read_at(&bytes, offset) {
            FrameRead::Whole(content, _) => budget::decode_entry(content),
            FrameRead::End | FrameRead::Broken => None,
        }
    }

    /// Returns the text of a document; `None` if the text cannot be read.
    pub fn text(&self, document: &DocumentEntry) -> Option<Bytes> {
        match self.entry_at(document.segment, document.offset)?.body? {
            Body::Document(document) => self.document(&document),
            _ => None,
        }
    }

    /// Unpacks the text of a document entry; returns `None` if the text is damaged or exceeds the budget.
    pub(super) fn document(&self, document: &StoredDocument) -> Option<Bytes> {
        let size = document.inflated.max(u64::try_from(document.text.len()).unwrap_or(u64::MAX));
        self.budget.allow(size <= MAX_DOCUMENT_SIZE)?;
        self.budget.charge(usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(DOCUMENT_COST))?;
        let text = unpacked(&document.text, document.inflated)?;
        self.budget.allow(fits_in_memory(&text))?;
        Some(text)
    }

    /// Returns how many messages and documents were left out because they exceeded the budget.
    pub fn refusals(&self) -> u64 {
        self.budget.refusals()
    }

    /// Returns a message of an answer. Returns `None` if the message is damaged or exceeds the budget. If the message is stored as a
    /// difference, also returns `None` if an earlier message on which it depends is damaged.
    pub fn message(&self, id: MessageId) -> Option<Bytes> {
        self.processor_limit.pause_if_due();
        let CachedMessage { bytes, order } = self.canonical(id)?;
        if order.is_empty() {
            return Some(bytes);
        }
        self.budget.charge(bytes.len())?;
        Some(list_order::restored(&bytes, &order)?.into())
    }

    /// Returns a message in canonical order, from the cache or from the segment.
    fn canonical(&self, id: MessageId) -> Option<CachedMessage> {
        let (segment, mut number) = id;
        let mut differences = Vec::new();
        let mut size_of_differences = 0;
        let mut own_order = None;
        let (mut bytes, order) = loop {
            if let Some(cached) = self.cache().messages.get(&(segment, number)) {
                break (cached.bytes.clone(), cached.order.clone());
            }
            let stored = self.stored_message((segment, number))?;
            self.budget.charge_message(stored.inflated)?;
            let own = unpacked(&stored.bytes, stored.inflated)?;
            own_order.get_or_insert_with(|| stored.order.clone());
            if stored.base == 0 {
                break (own, stored.order);
            }
            // A difference always refers to an older message, so the loop ends.
            if stored.base >= number || differences.len() >= MAX_CHAIN {
                return None;
            }
            size_of_differences = own.len().saturating_add(size_of_differences);
            self.budget.allow(
                size_of_differences <= self.budget.largest_message().saturating_mul(MAX_DIFFERENCES_FACTOR),
            )?;
            differences.push(own);
            number = stored.base;
        };
        while let Some(difference) = differences.pop() {
            let most = MAX_UNPACKED.min(self.budget.largest_message());
            let Some(applied) = delta::apply(&bytes, &difference, most) else {
                // The difference is damaged, or its result is too large. `allow(false)` counts this as a refusal.
                return self.budget.allow(false).and(None);
            };
            // Each difference is charged, even a difference that copies little.
            self.budget.charge(applied.len().saturating_add(difference.len().saturating_mul(8)))?;
            // Two lists that differ only in their order are equal in canonical order. Then the cache keeps one copy of
            // the bytes.
            bytes = if applied == bytes { bytes } else { applied.into() };
        }
        let message = CachedMessage { bytes, order: own_order.unwrap_or(order) };
        self.cache().add(id, message.clone(), self.cache_limit());
        Some(message)
    }

    /// Returns a message in its stored form.
    fn stored_message(&self, id: MessageId) -> Option<StoredMessage> {
        let ((offset, which), (segment, _)) = (self.place(id)?, id);
        let entry = (segment, offset);
        let cached = self.cache().decoded.clone().filter(|decoded| decoded.entry == entry);
        let decoded = match cached {
            Some(decoded) => decoded,
            None => match self.entry_at(segment, offset)?.body? {
                Body::CallFinished(ended) => {
                    let decoded = DecodedEntry { entry, messages: Arc::new(ended.answers) };
                    self.cache().decoded = Some(decoded.clone());
                    decoded
                }
                _ => return None,
            },
        };
        decoded.messages.get(which).cloned()
    }

    /// Whether the segment of a message was deleted since the capture was opened.
    pub fn is_deleted(&self, (segment, _): MessageId) -> bool {
        self.segments.get(segment).is_some_and(|segment| matches!(segment.path.try_exists(), Ok(false)))
    }

    /// Returns the messages of an answer; `None` if one of them cannot be read.
    pub fn messages(&self, end: &RecordedEnd) -> Option<Vec<Bytes>> {
        if end.omitted {
            return None;
        }
        self.messages_with_ids(end.answers.iter().copied())
    }

    /// Returns the messages with these ids. A repeated message is charged again, because the caller processes each.
    pub(super) fn messages_with_ids(&self, ids: impl Iterator<Item = MessageId>) -> Option<Vec<Bytes>> {
        let mut seen = HashSet::new();
        let message = |id| {
            let message = self.message(id)?;
            if !seen.insert(id) {
                self.budget.charge(message.len().saturating_mul(REPEATED_COST))?;
            }
            Some(message)
        };
        ids.map(message).collect()
    }
}

/// Adds the places of the messages that the entry at `offset` stores.
fn add_places(places: &mut MessagePlaces, offset: usize, answers: &[StoredMessage]) {
    let stored = answers.iter().enumerate().filter(|(_, answer)| answer.is_stored_here);
    places.extend(stored.map(|(which, answer)| (answer.number, (offset, which))));
}
