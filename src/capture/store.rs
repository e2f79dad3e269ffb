//! Writes a capture: a directory of segments, which only one recorder at a time may change.
//!
//! Before a new segment is created, old segments are deleted, so that the capture never exceeds its size limit.
//! Segments that no incident pins are deleted first, then pinned ones. On a full disk only unpinned segments are
//! deleted.
//!
//! A [`Store`] writes to one [`OpenSegment`]; each complete segment is a [`SealedSegment`]. An [`IncidentPin`] protects the
//! segments around an incident from being deleted. [`CarriedEntries`] has the entries that each new segment repeats.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::answer_encoder::{AnswerEncoder, ListKey};
use super::entry::{Body, CaptureEntry, Incident, Lost, Session, nanos, rpc};
use super::on_node::FORECASTS;
use super::private_directory::PrivateDirectory;
use super::segment::{self, Entries, HeaderError, Segment, framed};
use super::timeline::{RunTime, RunTimeline};
use super::{Error, frame};
use crate::cri::Rpc;
use crate::report::DirectoryRefusal;
use crate::report::bytes::bytes as size_text;
use crate::report::load::open_nonblocking;

/// The number of segments that a capture has when it reaches its size limit.
const SEGMENTS_AT_LIMIT: u64 = 64;

/// The smallest size of a segment: an ordinary list fits into it.
const MIN_SEGMENT_SIZE: u64 = 64 * 1024;

/// The largest size of a segment. The limit is low because a segment is deleted as a whole.
const MAX_SEGMENT_SIZE: u64 = 4 * 1024 * 1024;

/// The size of the largest existing segment that the store reads when it opens a directory: no recorder writes a larger
/// one.
const MAX_ADOPTED_SIZE: u64 = 2 * MAX_SEGMENT_SIZE;

/// The smallest size limit of a capture: a smaller capture cannot contain an incident with the time before and after it.
pub const MIN_CAPTURE_SIZE: u64 = 4 * MIN_SEGMENT_SIZE;

/// The disk space that the directory itself, the lock file, and the file of forecasts with its next version use.
const LOCK_AND_DIRECTORY_SIZE: u64 = 16 * 1024;

/// On a full disk, the maximum number of segments that are deleted for one new segment. If that is not enough, another
/// program uses the freed space.
const MAX_SEGMENTS_DELETED_ON_FULL_DISK: u64 = 4;

/// The longest plausible time between the beginning of an incident and its first entry. A longer time is reduced to this.
const MAX_DETECTION_DELAY: Duration = Duration::from_secs(600);

/// The size of the largest file that is read: an export may contain a whole capture in one file.
const MAX_FILE_SIZE: u64 = 2 << 30;

/// The number of bytes that are read first, to find out whether a file is a segment.
const PROBE_SIZE: u64 = 64;

/// The name of the next version of the file of forecasts.
const NEW_FORECASTS: &str = "forecasts.new";

/// The name of the lock file.
pub const LOCK: &str = "lock";

/// The limits of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size limit in bytes, pinned segments included.
    pub size: u64,
    /// The age limit of segments that no incident pins; only the time during which recorders run counts.
    pub age: Duration,
    /// The number of incidents whose segments are pinned.
    pub incidents: usize,
}

/// The size of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of bytes on the disk.
    pub bytes: u64,
    /// The number of segments.
    pub segments: u64,
    /// The number of segments deleted so far.
    pub dropped: u64,
}

/// A complete segment.
struct SealedSegment {
    number: u64,
    size: u64,
    /// The run times of the first and last entry; `None` if no entry can be read.
    span: Option<(RunTime, RunTime)>,
}

/// The segment that is being written.
struct OpenSegment {
    segment: Segment,
    encoder: AnswerEncoder,
    span: (RunTime, RunTime),
}

/// The maximum number of incidents whose state the store keeps in memory.
const MAX_KNOWN_INCIDENTS: usize = 100;

/// The time around an incident. Segments from this time are deleted last.
struct IncidentPin {
    number: u64,
    from: RunTime,
    /// `None` while the incident lasts.
    to: Option<RunTime>,
    /// The time after the end of the incident that is pinned too.
    after: u64,
}

/// The entries that the next segment repeats: the session, the open calls and the open incident. The next segment may be in
/// another directory.
#[derive(Debug, Default)]
pub struct CarriedEntries {
    session: Session,
    /// The [`CallStarted`](Body::CallStarted) entries of the calls that have not ended, by call number.
    open_calls: BTreeMap<u64, CaptureEntry>,
    /// The open incident.
    incident: Option<CaptureEntry>,
}

impl CarriedEntries {
    /// Updates the repeated entries after `entry`, even if `entry` itself could not be written.
    pub fn remember(&mut self, entry: CaptureEntry) {
        match &entry.body {
            Some(Body::CallStarted(started)) => {
                self.open_calls.insert(started.call, entry);
            }
            Some(Body::CallFinished(ended)) => {
                self.open_calls.remove(&ended.call);
            }
            Some(Body::Incident(incident)) => {
                self.incident = (incident.to == 0).then_some(entry);
            }
            _ => {}
        }
    }

    /// Starts a session without open calls and incidents.
    pub fn begin(&mut self, session: Session) {
        let id = RandomState::new().build_hasher().finish();
        *self = Self { session: Session { id, ..session }, ..Self::default() };
    }

    /// Replaces the session's details, for example once the runtime's name is known; its id stays.
    pub fn update_session(&mut self, session: Session) {
        self.session = Session { id: self.session.id, ..session };
    }

    /// Adds `earlier`, the number of incidents that the capture already has, to the number of the open incident.
    pub fn renumber(&mut self, earlier: u64) {
        if let Some(Body::Incident(incident)) = self.incident.as_mut().and_then(|entry| entry.body.as_mut()) {
            incident.number = incident.number.saturating_add(earlier);
        }
    }
}

/// A capture that is open for writing.
pub struct Store {
    directory: PrivateDirectory,
    /// The lock, held until the store is dropped.
    _lock: DirectoryLock,
    limits: Limits,
    segment_size: u64,
    carried: CarriedEntries,
    current: Option<OpenSegment>,
    /// The complete segments, in the order of their numbers.
    sealed: Vec<SealedSegment>,
    pins: Vec<IncidentPin>,
    timeline: RunTimeline,
    /// The number of the next segment.
    next: u64,
    /// The number of segments deleted so far.
    dropped: u64,
    /// The number of incidents so far.
    incidents: u64,
    /// The last state of each pinned incident, at most [`MAX_KNOWN_INCIDENTS`], in the order of their numbers.
    known_incidents: Arc<Vec<Incident>>,
    /// Whether there is a file of forecasts.
    shows_forecasts: bool,
    hashes: RandomState,
}

impl Store {
    /// Opens the capture in the directory `path`, or creates one. The segments of earlier recorders are kept.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, Error> {
        let fail = |source| Error::Directory { path: path.to_path_buf(), source };
        let directory = PrivateDirectory::open(path).map_err(|refusal| match refusal {
            DirectoryRefusal::Io(source) => fail(source),
            DirectoryRefusal::Unsafe(why) => Error::Unsafe { path: path.to_path_buf(), why },
        })?;
        // Check this before the lock is created, so that a directory that is not a capture is not changed.
        if !is_capture_or_empty(&directory).map_err(fail)? {
            return Err(Error::NotACapture {
                path: path.to_path_buf(),
                why: "it is not empty and has no segments".into(),
            });
        }
        let lock = lock(&directory, path)?;
        // From here on, no other recorder adds or deletes segments.
        let numbers = numbers(&directory).map_err(fail)?;
        let own: u64 = numbers.iter().map(|number| directory.size(&segment::name(*number))).sum();
        let free = directory.free_bytes().unwrap_or(limits.size);
        let whole = limits.size.min(free.saturating_add(own));
        let mut store = Self {
            shows_forecasts: directory.size(FORECASTS) > 0,
            directory,
            _lock: lock,
            limits,
            segment_size: (whole / SEGMENTS_AT_LIMIT).clamp(MIN_SEGMENT_SIZE, MAX_SEGMENT_SIZE),
            carried: CarriedEntries::default(),
            current: None,
            sealed: Vec::new(),
            pins: Vec::new(),
            timeline: RunTimeline::default(),
            next: numbers.last().map_or(1, |last| last + 1),
            dropped: 0,
            incidents: 0,
            known_incidents: Arc::default(),
            hashes: RandomState::new(),
        };
        for number in numbers {
            store.adopt(number);
        }
        store.close_open_pins();
        Ok(store)
    }

    /// Takes over a segment of an earlier recorder. An unreadable segment counts towards the size limit too.
    fn adopt(&mut self, number: u64) {
        let name = segment::name(number);
        let mut sealed = SealedSegment { number, size: self.directory.size(&name), span: None };
        if let Ok(bytes) = self.directory.read(&name, MAX_ADOPTED_SIZE)
            && segment::check(&bytes).is_ok()
        {
            let mut entries = Entries::in_bytes(&bytes);
            for (_, entry) in &mut entries {
                let position = match &entry.body {
                    Some(Body::Session(session)) => {
                        self.dropped = self.dropped.max(session.dropped);
                        self.enter_session(session.id);
                        self.timeline.last()
                    }
                    _ => self.timeline.at(entry.mono),
                };
                let (first, last) = sealed.span.unwrap_or((position, position));
                sealed.span = Some((first.min(position), last.max(position)));
                self.observe(&entry, position);
            }
            // Incomplete and damaged entries are kept for `capture check`; the reserved space after them is freed.
            let end = u64::try_from(entries.end().max(frame::used_length(&bytes))).unwrap_or(u64::MAX);
            if end < sealed.size && self.directory.truncate(&name, end).is_ok() {
                sealed.size = end;
            }
        }
        self.sealed.push(sealed);
    }

    /// Ends the current segment, and returns the entries that the next segment repeats.
    pub fn into_carried(mut self) -> CarriedEntries {
        self.seal();
        std::mem::take(&mut self.carried)
    }

    /// Continues a session that began in another directory, or before this directory could be opened.
    pub fn resume(&mut self, carried: CarriedEntries) {
        self.seal();
        self.carried = carried;
        self.enter_session(self.carried.session.id);
        if let Some(entry) = self.carried.incident.clone() {
            // If this directory has no entry about the incident yet, the pin starts at the last run time.
            self.observe(&entry, self.timeline.last());
        }
    }

    /// Starts a session. The session entry is the first entry of every segment. The first segment is created at once,
    /// so that the directory is a capture even if the recorder is killed now.
    pub fn begin(&mut self, session: Session, wall: i64) {
        self.seal();
        self.carried.begin(session);
        self.enter_session(self.carried.session.id);
        // If this fails, writing the first entry tries again and returns the error.
        let _ = self.start_segment(wall);
    }

    /// Writes the session again with details that were not known when it began.
    pub fn update_session(&mut self, session: Session, wall: i64, mono: u64) -> io::Result<()> {
        self.carried.update_session(session);
        let body = Body::Session(self.carried.session.clone());
        self.write(CaptureEntry { wall, mono, body: Some(body) })
    }

    /// Notes that the next entries belong to this session.
    fn enter_session(&mut self, session: u64) {
        if self.timeline.session(session) {
            self.close_open_pins();
        }
    }

    /// Ends all open pins at the last run time, plus the time after the incident, because the recorder that could have
    /// closed these incidents has ended.
    fn close_open_pins(&mut self) {
        let here = self.timeline.last();
        for pin in self.pins.iter_mut().filter(|pin| pin.to.is_none()) {
            pin.to = Some(here.saturating_add(pin.after));
        }
    }

    /// Replaces the file of forecasts, or removes it. After an error, the next forecasts try again.
    pub fn show_forecasts(&mut self, text: Option<&str>) {
        let _ = match text {
            Some(text) => self.directory.replace(FORECASTS, NEW_FORECASTS, text.as_bytes()),
            None if self.shows_forecasts => self.directory.remove(FORECASTS),
            None => Ok(()),
        };
        self.shows_forecasts = text.is_some();
    }

    /// Returns the number of incidents so far, so that the next incident gets a new number.
    pub const fn incidents(&self) -> u64 {
        self.incidents
    }

    /// Returns the last state of each pinned incident, so that nobody has to read the disk for it.
    pub fn known_incidents(&self) -> Arc<Vec<Incident>> {
        Arc::clone(&self.known_incidents)
    }

    /// Remembers the last state of an incident, and forgets the oldest incidents above the limits.
    fn remember_incident(&mut self, incident: &Incident) {
        let known = Arc::make_mut(&mut self.known_incidents);
        known.retain(|known| known.number != incident.number);
        known.push(incident.clone());
        known.sort_by_key(|known| known.number);
        let surplus = known.len().saturating_sub(self.limits.incidents.min(MAX_KNOWN_INCIDENTS));
        known.drain(..surplus);
    }

    /// Returns the size of the capture.
    pub fn extent(&self) -> Extent {
        let current = self.current.as_ref().map(|current| current.segment.size());
        Extent {
            bytes: self.sealed.iter().map(|sealed| sealed.size).chain(current).sum(),
            segments: self.sealed.iter().map(|_| 1).chain(current.map(|_| 1)).sum(),
            dropped: self.dropped,
        }
    }

    /// Updates the timeline and the pins, which decide which segments are kept.
    fn observe(&mut self, entry: &CaptureEntry, position: RunTime) {
        match &entry.body {
            Some(Body::Jump(_)) => self.timeline.jumped(position),
            Some(Body::Incident(incident)) => self.pin(incident, entry.wall, position),
            _ => {}
        }
    }

    /// Pins the segments around an incident; if there are too many pins, removes the oldest. The incident has times of the
    /// wall clock, which may be set at any time, so only the differences between these times are used.
    fn pin(&mut self, incident: &Incident, wall: i64, position: RunTime) {
        self.incidents = self.incidents.max(incident.number);
        self.remember_incident(incident);
        let positive = |nanos: i64| u64::try_from(nanos).unwrap_or_default();
        let after = positive(incident.pinned_to.saturating_sub(incident.to.max(incident.from)));
        let to = (incident.to != 0).then(|| position.saturating_add(after));
        if let Some(pin) = self.pins.iter_mut().find(|pin| pin.number == incident.number) {
            (pin.to, pin.after) = (to, after);
            return;
        }
        let latest = nanos(MAX_DETECTION_DELAY);
        let late = positive(wall.saturating_sub(incident.from)).min(latest);
        let before = positive(incident.from.saturating_sub(incident.pinned_from));
        let from = position.saturating_sub(late).saturating_sub(before);
        // The closing entry of an earlier incident may be lost, so all earlier pins end now.
        self.close_open_pins();
        self.pins.push(IncidentPin { number: incident.number, from, to, after });
        self.pins.sort_by_key(|pin| pin.number);
        let surplus = self.pins.len().saturating_sub(self.limits.incidents);
        self.pins.drain(..surplus);
    }

    /// Writes one entry. After an error, the capture is unchanged, and the next entry may be written again.
    pub fn write(&mut self, entry: CaptureEntry) -> io::Result<()> {
        let position = self.timeline.at(entry.mono);
        self.observe(&entry, position);
        let list = self.list_of(&entry);
        let mut written = self.append(&entry, list, position);
        // If the file system cannot reserve space, the disk may become full within a segment.
        if written.as_ref().is_err_and(is_full) && self.delete_oldest(false).is_ok() {
            written = self.append(&entry, list, position);
        }
        self.carried.remember(entry);
        written
    }

    /// Updates pins and carried entries after an entry that could not be written.
    pub fn track_unwritten(&mut self, entry: CaptureEntry) {
        let position = self.timeline.at(entry.mono);
        self.observe(&entry, position);
        self.carried.remember(entry);
    }

    /// Encodes an entry and appends it to the current segment, or to a new one if it does not fit.
    fn append(&mut self, entry: &CaptureEntry, list: Option<ListKey>, position: RunTime) -> io::Result<()> {
        if self.current.is_none() {
            self.start_segment(entry.wall)?;
        }
        let mut frames = self.encode(entry.clone(), list);
        if self.room() < length(&frames) {
            self.seal();
            self.start_segment(entry.wall)?;
            frames = self.encode(entry.clone(), list);
        }
        if self.room() < length(&frames) {
            // The entry does not fit into an empty segment.
            let smaller = without_answers(entry.clone());
            frames = self.encode(smaller, None);
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.segment.room() < length(&frames) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = current.segment.append(&frames);
        current.span = (current.span.0.min(position), current.span.1.max(position));
        if written.is_err() {
            self.seal();
        }
        written
    }

    fn room(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.segment.room())
    }

    /// Returns the key of the list call that this entry answers, if it answers one.
    fn list_of(&self, entry: &CaptureEntry) -> Option<ListKey> {
        let Some(Body::CallFinished(ended)) = &entry.body else { return None };
        let Some(Body::CallStarted(started)) = &self.carried.open_calls.get(&ended.call)?.body else {
            return None;
        };
        let is_list = rpc(started.rpc).is_some_and(Rpc::is_list);
        is_list.then(|| (started.rpc, self.hashes.hash_one(&started.request)))
    }

    /// Returns the bytes to write for an entry. Answers are replaced by references and differences, or compressed.
    fn encode(&mut self, mut entry: CaptureEntry, list: Option<ListKey>) -> Vec<u8> {
        if let Some(current) = &mut self.current {
            current.encoder.encode_entry(&mut entry, list);
        }
        if let Some(Body::Document(document)) = &mut entry.body {
            (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
        }
        framed(&entry)
    }

    /// Creates the next segment, and deletes older ones if necessary.
    fn start_segment(&mut self, wall: i64) -> io::Result<()> {
        self.delete_old_segments();
        let mut deleted_bytes = 0;
        let segment = loop {
            self.make_room()?;
            match self.create_segment(wall, self.segment_size) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                    // Another program created this file. It counts towards the size limit, and the next number is
                    // tried.
                    let number = self.next;
                    self.sealed.push(SealedSegment {
                        number,
                        size: self.directory.size(&segment::name(number)),
                        span: None,
                    });
                    self.next += 1;
                }
                Err(why) if is_full(&why) => {
                    if deleted_bytes >= MAX_SEGMENTS_DELETED_ON_FULL_DISK.saturating_mul(self.segment_size) {
                        return Err(why);
                    }
                    match self.delete_oldest(false) {
                        // If the disk has no free inodes, deleting even an empty file helps.
                        Ok(size) => deleted_bytes += size.max(MIN_SEGMENT_SIZE),
                        Err(_) => break self.create_segment(wall, MIN_SEGMENT_SIZE)?,
                    }
                }
                other => break other?,
            }
        };
        self.next += 1;
        let here = self.timeline.last();
        self.current = Some(OpenSegment { segment, encoder: AnswerEncoder::new(), span: (here, here) });
        Ok(())
    }

    /// Creates the segment with the next number and writes its first entries. After an error, the new segment does not
    /// exist.
    fn create_segment(&mut self, wall: i64, size: u64) -> io::Result<Segment> {
        let number = self.next;
        if number > segment::MAX_NUMBER {
            return Err(io::Error::other("all segment numbers are used up"));
        }
        let mut segment = Segment::create(&self.directory, number, size)?;
        self.carried.session.dropped = self.dropped;
        self.carried.session.segment = number;
        let session = Body::Session(self.carried.session.clone());
        let mut frames = framed(&CaptureEntry { wall, mono: 0, body: Some(session) });
        for call in self.carried.open_calls.values() {
            let again = framed(call);
            // A reader can do without the repeated calls, so they use at most a quarter of the segment.
            if length(&frames) + length(&again) < segment.room() / 4 {
                frames.extend(again);
            }
        }
        if let Err(why) = segment.append(&frames) {
            // A segment without its session entry is useless.
            let _ = self.directory.remove(&segment::name(number));
            return Err(why);
        }
        Ok(segment)
    }

    /// Deletes old segments until a new one fits into the size limit.
    fn make_room(&mut self) -> io::Result<()> {
        let most = self.limits.size.saturating_sub(LOCK_AND_DIRECTORY_SIZE);
        while self.extent().bytes.saturating_add(self.segment_size) > most {
            if let Err(why) = self.delete_oldest(true) {
                let why = why.unwrap_or_else(|| "no segment is left to remove".to_owned());
                let bound = size_text(self.limits.size);
                return Err(io::Error::other(format!(
                    "the capture has reached its size limit of {bound}: {why}"
                )));
            }
        }
        Ok(())
    }

    /// Deletes the segments that exceed the age limit and that no incident pins.
    fn delete_old_segments(&mut self) {
        let is_old = |store: &Self, sealed: &SealedSegment| {
            !store.is_pinned(sealed)
                && sealed.span.is_some_and(|(_, end)| store.timeline.is_older(end, store.limits.age))
        };
        let old = self.sealed.iter().filter(|sealed| is_old(self, sealed)).map(|sealed| sealed.number);
        for number in old.collect::<Vec<_>>() {
            // If this fails, the next new segment tries again.
            let _ = self.delete_segment(number);
        }
    }

    /// Whether an incident pins the segment.
    fn is_pinned(&self, sealed: &SealedSegment) -> bool {
        sealed.span.is_some_and(|(first, last)| {
            self.pins.iter().any(|pin| pin.from <= last && pin.to.is_none_or(|to| first <= to))
        })
    }

    /// Deletes the oldest unpinned segment. If no unpinned segment can be deleted, deletes the oldest pinned segment,
    /// provided that `pinned_too` is true. Returns the size of the deleted segment, or the reason why the first candidate
    /// could not be deleted.
    fn delete_oldest(&mut self, pinned_too: bool) -> Result<u64, Option<String>> {
        let candidates =
            self.sealed.iter().map(|sealed| (self.is_pinned(sealed), sealed.number, sealed.size));
        let mut order: Vec<_> = candidates.filter(|(pinned, ..)| pinned_too || !pinned).collect();
        order.sort_unstable();
        let mut refusal = None;
        for (_, number, size) in order {
            match self.delete_segment(number) {
                Ok(()) => return Ok(size),
                Err(why) => {
                    let name = segment::name(number);
                    refusal.get_or_insert_with(|| format!("`{name}` cannot be removed: {why}"));
                }
            }
        }
        Err(refusal)
    }

    fn delete_segment(&mut self, number: u64) -> io::Result<()> {
        self.directory.remove(&segment::name(number))?;
        self.sealed.retain(|sealed| sealed.number != number);
        self.dropped += 1;
        Ok(())
    }

    /// Ends the current segment.
    pub fn seal(&mut self) {
        let Some(OpenSegment { segment, span, .. }) = self.current.take() else { return };
        let number = segment.number;
        let size = segment.seal();
        self.sealed.push(SealedSegment { number, size, span: Some(span) });
        self.sealed.sort_by_key(|sealed| sealed.number);
    }

    /// Drops the store without sealing the current segment, as if the recorder were killed.
    #[cfg(test)]
    pub fn kill(mut self) {
        self.current = None;
    }

    /// Returns the number of pins that have no end yet.
    #[cfg(test)]
    pub fn open_pins(&self) -> usize {
        self.pins.iter().filter(|pin| pin.to.is_none()).count()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.seal();
    }
}

/// Whether the disk has no free space or inode, or the user's quota is used up.
fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn length(frames: &[u8]) -> u64 {
    u64::try_from(frames.len()).unwrap_or(u64::MAX)
}

/// Why a document is lost.
pub const LARGE_DOCUMENT: &str = "a document does not fit a segment";

/// Returns the entry without its large parts; a document is replaced by an entry about the loss.
fn without_answers(mut entry: CaptureEntry) -> CaptureEntry {
    let since = entry.mono.max(1);
    match &mut entry.body {
        Some(Body::CallFinished(ended)) => {
            ended.answers.clear();
            ended.omitted = true;
        }
        Some(Body::Document(_)) => {
            let lost = Lost { entries: 1, why: LARGE_DOCUMENT.into(), since, ..Lost::default() };
            entry.body = Some(Body::Lost(lost));
        }
        Some(Body::CallStarted(started)) => started.request.clear(),
        _ => {}
    }
    entry
}

/// Returns the numbers and paths of the segments in a directory, oldest first.
pub fn segments_in(directory: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let fail = |source| Error::Directory { path: directory.to_path_buf(), source };
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some(number) = entry.file_name().to_str().and_then(segment::number) {
            segments.push((number, entry.path()));
        }
    }
    segments.sort();
    Ok(segments)
}

/// Returns the numbers of the segments in a directory, lowest first.
fn numbers(directory: &PrivateDirectory) -> io::Result<Vec<u64>> {
    let names = directory.names()?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| segment::number(name.to_str()?)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether the directory is a capture or empty, so that a recorder may use it.
fn is_capture_or_empty(directory: &PrivateDirectory) -> io::Result<bool> {
    let names = directory.names()?;
    let is_segment = |name: &std::ffi::OsString| name.to_str().and_then(segment::number).is_some();
    // The root directory of a file system contains `lost+found`.
    let own = [LOCK, FORECASTS, NEW_FORECASTS, "lost+found"];
    let is_own = |name: &std::ffi::OsString| own.iter().any(|own| name == own);
    Ok(names.iter().any(is_segment) || names.iter().all(is_own))
}

/// A lock on the directory of a capture. A program that this process is starting has a copy of the lock's descriptor until
/// it runs, so closing the file is not enough to release the lock at once.
struct DirectoryLock(fs::File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks the directory against other recorders.
fn lock(directory: &PrivateDirectory, path: &Path) -> Result<DirectoryLock, Error> {
    let mut file =
        directory.lock(LOCK).map_err(|source| Error::Directory { path: path.join(LOCK), source })?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        // The process id is shown only if it can be read.
        let _ = Read::by_ref(&mut file).take(32).read_to_string(&mut holder);
        return Err(Error::TwoRecorders { path: path.to_path_buf(), holder: holder.trim().parse().ok() });
    }
    // The lock works without the process id in it, for example on a full disk.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(DirectoryLock(file))
}

/// Whether a recorder is writing the capture in `directory`.
pub fn is_being_recorded(directory: &Path) -> bool {
    open_nonblocking(&directory.join(LOCK)).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared).map(|()| DirectoryLock(file)).is_err()
    })
}

/// Reads a segment. The path must be a regular file, because the file is read again for each answer. A large file that
/// does not begin like a segment is not read to its end.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Segment { path: path.to_path_buf(), source };
    let mut file = open_nonblocking(path).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    if !about.is_file() {
        let why = "it is neither a directory nor a regular file".to_owned();
        return Err(Error::NotACapture { path: path.to_path_buf(), why });
    }
    if about.len() > MAX_FILE_SIZE {
        let why = format!("it is larger than the limit of {} MiB", MAX_FILE_SIZE >> 20);
        return Err(fail(io::Error::new(io::ErrorKind::FileTooLarge, why)));
    }
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(PROBE_SIZE).read_to_end(&mut bytes).map_err(fail)?;
    // A segment in a directory may have a damaged header, so a small file is read in any case.
    if about.len() <= MAX_SEGMENT_SIZE || segment::check(&bytes) != Err(HeaderError::NoSegment) {
        bytes.reserve_exact(usize::try_from(about.len()).unwrap_or_default().saturating_sub(bytes.len()));
        file.take(MAX_FILE_SIZE).read_to_end(&mut bytes).map_err(fail)?;
    }
    Ok(bytes)
}
