//! A capture that is written: a directory of segments with one writer.
//!
//! Its bound is kept before a segment is made, never after: old segments go first, those around the last incidents
//! later, and what is written is never more than allowed.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statvfs};

use super::entry::{Body, Entry, Lost, Session, rpc};
use super::keeper::{Keeper, ListKey};
use super::segment::{self, Entries, NotOurs, Segment, framed};
use super::{Error, frame, private};
use crate::cri::Rpc;
use crate::report::load::opened;

/// Into how many segments the bound is divided.
const SEGMENTS: u64 = 64;

/// No segment is smaller, or an ordinary list would not fit.
const SMALLEST_SEGMENT: u64 = 64 * 1024;

/// No segment is larger: a segment is what is given up at once.
const LARGEST_SEGMENT: u64 = 4 * 1024 * 1024;

/// The smallest bound: less could not hold what is before and after an incident.
pub const SMALLEST: u64 = 4 * SMALLEST_SEGMENT;

/// What the lock and the directory itself take.
const BESIDES: u64 = 8 * 1024;

/// No file is longer: all that a recorder keeps may be exported to one.
const LARGEST_FILE: u64 = 2 << 30;

/// What says whether a file is a segment.
const HEAD: u64 = 64;

/// The name of the lock.
pub const LOCK: &str = "lock";

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, pinned incidents included.
    pub size: u64,
    /// How old the oldest may be that no incident pins.
    pub age: Duration,
    /// How many incidents are pinned.
    pub incidents: usize,
}

/// What a capture comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Bytes on the disk.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Segments given up so far.
    pub dropped: u64,
}

struct Sealed {
    number: u64,
    size: u64,
    first: i64,
    last: i64,
}

struct Current {
    segment: Segment,
    keeper: Keeper,
    first: i64,
    last: i64,
}

struct Pin {
    number: u64,
    from: i64,
    to: i64,
}

/// A capture that is written.
pub struct Store {
    directory: PathBuf,
    /// Held while this lives.
    _lock: fs::File,
    limits: Limits,
    segment_size: u64,
    session: Session,
    current: Option<Current>,
    sealed: VecDeque<Sealed>,
    pins: Vec<Pin>,
    next: u64,
    dropped: u64,
    incidents: u64,
    /// Calls without an end, by number: a new segment tells of them again.
    asked: BTreeMap<u64, Entry>,
    hashes: RandomState,
}

impl Store {
    /// Opens the capture in `directory`, or begins one. What an earlier recorder left stays.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, Error> {
        let fail = |source| Error::Directory { path: directory.to_path_buf(), source };
        private::directory(directory).map_err(fail)?;
        let segments = segments_in(directory)?;
        if segments.is_empty() && !is_ours_or_empty(directory).map_err(fail)? {
            return Err(Error::NotACapture {
                path: directory.to_path_buf(),
                why: "it is not empty and has no segments".into(),
            });
        }
        let lock = lock(directory)?;
        let free = statvfs(directory).map_or(limits.size, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let own: u64 = segments.iter().map(|(_, path)| size_of(path)).sum();
        let whole = limits.size.min(free.saturating_add(own));
        let mut store = Self {
            directory: directory.to_path_buf(),
            _lock: lock,
            limits,
            segment_size: (whole / SEGMENTS).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT),
            session: Session::default(),
            current: None,
            sealed: VecDeque::new(),
            pins: Vec::new(),
            next: 1,
            dropped: 0,
            incidents: 0,
            asked: BTreeMap::new(),
            hashes: RandomState::new(),
        };
        for (number, path) in segments {
            store.adopt(number, &path)?;
        }
        Ok(store)
    }

    /// Takes over a segment of an earlier recorder.
    fn adopt(&mut self, number: u64, path: &Path) -> Result<(), Error> {
        let bytes = read(path)?;
        self.next = self.next.max(number + 1);
        let mut sealed = Sealed { number, size: size_of(path), first: i64::MAX, last: i64::MIN };
        if segment::check(&bytes).is_ok() {
            let mut entries = Entries::of(&bytes);
            for (_, entry) in &mut entries {
                sealed.first = sealed.first.min(entry.wall);
                sealed.last = sealed.last.max(entry.wall);
                match entry.body {
                    Some(Body::Session(session)) => self.dropped = self.dropped.max(session.dropped),
                    Some(Body::Incident(incident)) => {
                        self.pin(incident.number, incident.pinned_from, incident.pinned_to);
                    }
                    _ => {}
                }
            }
            // What is cut or damaged stays, for whoever checks; what was never written goes.
            let end = entries.end().max(frame::used(&bytes));
            sealed.size = give_back(path, end).unwrap_or(sealed.size);
        }
        self.sealed.push_back(sealed);
        Ok(())
    }

    /// Opens the directory of the same name anew, which may be another one by now, and goes on in the same session.
    pub fn reopen(mut self) -> Result<Self, Error> {
        self.seal();
        let (directory, limits) = (self.directory.clone(), self.limits);
        let (session, asked) = (self.session.clone(), std::mem::take(&mut self.asked));
        drop(self);
        let mut again = Self::open(&directory, limits)?;
        again.session = session;
        again.asked = asked;
        Ok(again)
    }

    /// Begins to write: who, and how. Comes again at the head of every segment, the first of which is made at once: from
    /// here on this is a capture, whatever becomes of its recorder.
    pub fn begin(&mut self, session: Session, wall: i64) {
        self.session = Session { id: RandomState::new().build_hasher().finish(), ..session };
        self.asked.clear();
        self.seal();
        // The first entry tries again, and says what is wrong.
        let _ = self.start_segment(wall);
    }

    /// How many incidents there were, so that the next has a number of its own.
    pub const fn incidents(&self) -> u64 {
        self.incidents
    }

    /// What it comes to.
    pub fn extent(&self) -> Extent {
        let current = self.current.as_ref().map(|current| current.segment.size());
        Extent {
            bytes: self.sealed.iter().map(|sealed| sealed.size).chain(current).sum(),
            segments: self.sealed.iter().map(|_| 1).chain(current.map(|_| 1)).sum(),
            dropped: self.dropped,
        }
    }

    /// Keeps what lies between the two moments of the wall clock, as long as there are not too many incidents.
    pub fn pin(&mut self, incident: u64, from: i64, to: i64) {
        self.incidents = self.incidents.max(incident);
        match self.pins.iter_mut().find(|pin| pin.number == incident) {
            Some(pin) => (pin.from, pin.to) = (from, to),
            None => self.pins.push(Pin { number: incident, from, to }),
        }
        let surplus = self.pins.len().saturating_sub(self.limits.incidents);
        self.pins.sort_unstable_by_key(|pin| pin.number);
        self.pins.drain(..surplus);
    }

    /// Writes one entry. An error leaves the capture as it was; the next entry is tried anew.
    pub fn write(&mut self, entry: Entry) -> io::Result<()> {
        if let Some(Body::Incident(incident)) = &entry.body {
            self.pin(incident.number, incident.pinned_from, incident.pinned_to);
        }
        let list = self.list_of(&entry);
        if self.current.is_none() {
            self.start_segment(entry.wall)?;
        }
        let mut frames = self.frame(entry.clone(), list);
        if self.room() < length(&frames) {
            self.seal();
            self.start_segment(entry.wall)?;
            frames = self.frame(entry.clone(), list);
        }
        if self.room() < length(&frames) {
            // Even a segment of its own does not hold it.
            let smaller = without_answers(entry.clone());
            frames = self.frame(smaller, None);
        }
        let wall = entry.wall;
        self.remember(entry);
        let Some(current) = &mut self.current else { return Ok(()) };
        if self.limits.size == 0 || current.segment.room() < length(&frames) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = current.segment.append(&frames);
        current.first = current.first.min(wall);
        current.last = current.last.max(wall);
        if written.is_err() {
            self.seal();
        }
        written
    }

    fn room(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.segment.room())
    }

    /// Which list an answer is, if it is one.
    fn list_of(&self, entry: &Entry) -> Option<ListKey> {
        let Some(Body::Ended(ended)) = &entry.body else { return None };
        let Some(Body::Asked(asked)) = &self.asked.get(&ended.call)?.body else { return None };
        let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
        let is_list = rpc(asked.rpc).is_some_and(|rpc| lists.contains(&rpc));
        is_list.then(|| (asked.rpc, self.hashes.hash_one(&asked.request)))
    }

    fn remember(&mut self, entry: Entry) {
        match &entry.body {
            Some(Body::Asked(asked)) => {
                self.asked.insert(asked.call, entry);
            }
            Some(Body::Ended(ended)) => {
                self.asked.remove(&ended.call);
            }
            _ => {}
        }
    }

    /// The entry as it is written: its answers by reference, as a difference, or deflated.
    fn frame(&mut self, mut entry: Entry, list: Option<ListKey>) -> Vec<u8> {
        if let Some(current) = &mut self.current {
            current.keeper.keep_all(&mut entry, list);
        }
        if let Some(Body::Document(document)) = &mut entry.body {
            (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
        }
        framed(&entry)
    }

    fn start_segment(&mut self, wall: i64) -> io::Result<()> {
        self.make_room(wall);
        let mut segment = Segment::create(&self.directory, self.next, self.segment_size)?;
        self.session.dropped = self.dropped;
        self.session.segment = self.next;
        self.next += 1;
        let mut frames = framed(&Entry { wall, mono: 0, body: Some(Body::Session(self.session.clone())) });
        for asked in self.asked.values() {
            let again = framed(asked);
            // What is said again is a convenience; it must not fill the segment.
            if length(&frames) + length(&again) < segment.room() / 4 {
                frames.extend(again);
            }
        }
        segment.append(&frames)?;
        self.current = Some(Current { segment, keeper: Keeper::new(), first: wall, last: wall });
        Ok(())
    }

    /// Removes old segments until another one keeps within the bound.
    fn make_room(&mut self, now: i64) {
        self.forget_old(now);
        let most = self.limits.size.saturating_sub(BESIDES);
        while self.extent().bytes.saturating_add(self.segment_size) > most {
            let free = self.sealed.iter().position(|sealed| !self.is_pinned(sealed)).unwrap_or(0);
            if !self.remove(free) {
                return;
            }
        }
    }

    fn forget_old(&mut self, now: i64) {
        let age = i64::try_from(self.limits.age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(age);
        while let Some(place) =
            self.sealed.iter().position(|sealed| sealed.last < oldest && !self.is_pinned(sealed))
        {
            if !self.remove(place) {
                return;
            }
        }
    }

    fn is_pinned(&self, sealed: &Sealed) -> bool {
        self.pins.iter().any(|pin| sealed.first <= pin.to && sealed.last >= pin.from)
    }

    /// False if there is nothing at this place, or it cannot be removed.
    fn remove(&mut self, place: usize) -> bool {
        let Some(sealed) = self.sealed.get(place) else { return false };
        let path = segment::path(&self.directory, sealed.number);
        match fs::remove_file(path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => false,
            _ => {
                self.sealed.remove(place);
                self.dropped += 1;
                true
            }
        }
    }

    /// Ends the current segment.
    pub fn seal(&mut self) {
        let Some(Current { segment, first, last, .. }) = self.current.take() else { return };
        let number = segment.number;
        let size = segment.seal();
        self.sealed.push_back(Sealed { number, size, first, last });
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.seal();
    }
}

fn length(frames: &[u8]) -> u64 {
    u64::try_from(frames.len()).unwrap_or(u64::MAX)
}

/// The entry without what makes it large.
fn without_answers(mut entry: Entry) -> Entry {
    match &mut entry.body {
        Some(Body::Ended(ended)) => {
            ended.answers.clear();
            ended.omitted = true;
        }
        Some(Body::Document(_)) => {
            let why = "a document does not fit a segment".to_owned();
            entry.body = Some(Body::Lost(Lost { entries: 1, why }));
        }
        Some(Body::Told(_)) => {
            let why = "an event does not fit a segment".to_owned();
            entry.body = Some(Body::Lost(Lost { entries: 1, why }));
        }
        Some(Body::Asked(asked)) => asked.request.clear(),
        _ => {}
    }
    entry
}

/// The segments in a directory, oldest first.
pub fn segments_in(directory: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let fail = |source| Error::Directory { path: directory.to_path_buf(), source };
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some(number) = entry.file_name().to_str().and_then(segment::number) {
            segments.push((number, entry.path()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

fn is_ours_or_empty(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        // A file system of its own brings this along.
        if name != LOCK && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lock(directory: &Path) -> Result<fs::File, Error> {
    let path = directory.join(LOCK);
    let fail = |source| Error::Directory { path: path.clone(), source };
    let mut file = private::open(&path).map_err(fail)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        // Who holds it is only said where it can be read.
        let _ = Read::by_ref(&mut file).take(32).read_to_string(&mut holder);
        return Err(Error::TwoRecorders {
            path: directory.to_path_buf(),
            holder: holder.trim().parse().ok(),
        });
    }
    // The lock holds without a word in it, also on a disk that is full.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// Whether somebody writes the capture in `directory`.
pub fn is_written(directory: &Path) -> bool {
    opened(&directory.join(LOCK))
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Cuts off the room that a recorder which did not end in good order had reserved.
fn give_back(path: &Path, end: usize) -> Option<u64> {
    let end = u64::try_from(end).ok()?;
    private::existing(path).ok()?.set_len(end).ok()?;
    Some(end)
}

/// The bytes of a segment. What is read again when somebody wants an answer must be a regular file, and what does not begin
/// like a segment is not read to its end.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Segment { path: path.to_path_buf(), source };
    let mut file = opened(path).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    if !about.is_file() {
        let why = "it is neither a directory nor a regular file".to_owned();
        return Err(Error::NotACapture { path: path.to_path_buf(), why });
    }
    if about.len() > LARGEST_FILE {
        let why = format!("it is longer than {} MiB, which is all that is read", LARGEST_FILE >> 20);
        return Err(fail(io::Error::new(io::ErrorKind::FileTooLarge, why)));
    }
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(HEAD).read_to_end(&mut bytes).map_err(fail)?;
    // One of a directory may have lost its head, and is looked through.
    if about.len() <= LARGEST_SEGMENT || segment::check(&bytes) != Err(NotOurs::Other) {
        file.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(fail)?;
    }
    Ok(bytes)
}
