//! Takes down what happens: a bounded queue, and a thread that writes, so that a disk which hangs hangs nothing else.
//!
//! A call is handed to the writer before it is sent. What finds no room in the queue, or no disk, is counted and said in
//! the capture as soon as it takes words again.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::watch;

use super::entry::{
    Asked, Body, Document, Ended, Entry, Lost, LostEnd, Outcome, RelistDone, Session, Stopped, Told, raw,
    rpc_number,
};
use super::store::Carried;
use super::{Error, Extent, Limits, Store};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::server::Subject;
use crate::cri::{self, CallEnd, CallObserver, Rpc, WaitEnd};
use crate::pleg::stream::Relist;
use crate::report::json;

/// How many entries may wait for the writer.
const MOST_WAITING: usize = 4096;

/// How many bytes of answers may wait. One answer always may, however large.
const MOST_WAITING_BYTES: usize = 8 * 1024 * 1024;

/// How long after an error the disk is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A difference between the two clocks that is more than their ordinary drift.
const JUMP: Duration = Duration::from_millis(500);

/// How many calls are named whose end could not be kept.
const MOST_LOST_ENDS: usize = 1024;

/// Entries that could not be kept, and that the capture does not say so yet.
#[derive(Debug, Default)]
struct Missing {
    entries: u64,
    since: u64,
    ends: Vec<LostEnd>,
    more_ends: bool,
}

impl Missing {
    /// One more. What ended is remembered by name, so that nobody takes it for silent.
    fn add(&mut self, entry: &Entry) {
        if self.entries == 0 {
            self.since = entry.mono.max(1);
        }
        self.entries += 1;
        if let Some(Body::Ended(ended)) = &entry.body {
            if self.ends.len() < MOST_LOST_ENDS {
                self.ends.push(LostEnd { call: ended.call, mono: entry.mono });
            } else {
                self.more_ends = true;
            }
        }
    }

    /// The entry of the capture that says what is missing, and why.
    fn entry(&self, why: String) -> Lost {
        Lost {
            entries: self.entries,
            why,
            ends: self.ends.clone(),
            since: self.since,
            more_ends: self.more_ends,
        }
    }

    fn add_all(&mut self, later: Self) {
        if self.entries == 0 {
            self.since = later.since;
        }
        self.entries += later.entries;
        self.more_ends |= later.more_ends || self.ends.len() + later.ends.len() > MOST_LOST_ENDS;
        self.ends.extend(later.ends);
        self.ends.truncate(MOST_LOST_ENDS);
    }
}

/// A call that has not been answered yet.
struct Pending {
    rpc: Rpc,
    id: Option<String>,
    asked: Mono,
    /// How it ended, once it has.
    ended: watch::Sender<Option<WaitEnd>>,
}

/// A call that the runtime has not answered yet.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// What was asked.
    pub rpc: Rpc,
    /// About which container or sandbox.
    pub id: Option<String>,
    /// How long it has not been answered.
    pub waited: Duration,
    /// How it ended, once it has.
    pub ended: watch::Receiver<Option<WaitEnd>>,
}

enum Note {
    Entry(Entry),
    /// A recorder begins, at this time of the wall clock; who waits for it.
    Begin(Session, i64, SyncSender<()>),
    /// There is a wish.
    Look,
}

/// What is wanted of the writer besides entries; finds its way whether or not the queue has room.
#[derive(Default)]
struct Wishes {
    reopen: bool,
    /// Incidents that the queue had no room for: how one ends decides what is kept.
    incidents: Vec<Entry>,
    /// More is known of the session than when it began, since this time.
    introduce: Option<(Session, Wall, u64)>,
    close: Option<(String, SyncSender<()>)>,
}

/// What became of the first attempt to open the directory: how many incidents there were.
type Opened = Result<u64, Error>;

/// How the recording goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// What the capture comes to.
    pub extent: Extent,
    /// Entries that could not be kept.
    pub lost: u64,
    /// Why nothing is written right now.
    pub trouble: Option<String>,
}

struct Shared {
    queue: SyncSender<Note>,
    waiting_bytes: AtomicUsize,
    missing: Mutex<Missing>,
    pending: Mutex<BTreeMap<u64, Pending>>,
    status: Mutex<RecorderStatus>,
    clock: Arc<dyn Clock>,
    origin: Mono,
    /// The wall clock less the monotonic one. Held while both are read and their entry is queued, so that entries are in
    /// the order of their times.
    offset: Mutex<i64>,
    calls: AtomicU64,
    relist: AtomicU64,
    wishes: Mutex<Wishes>,
    opened: Mutex<Receiver<Opened>>,
    /// Whether it was known when the recording began how many incidents were in the capture.
    counted: AtomicBool,
    /// How many there were, where it was not.
    earlier: AtomicU64,
}

/// A running recorder. Its clones record into the same capture.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

/// Listens to one client.
struct Listener {
    recorder: Recorder,
    relists: bool,
}

impl Recorder {
    /// Starts to write to `directory`, which a thread opens: see [`Self::opened`] for what comes of that. Nothing is taken
    /// down before [`Self::begin`].
    pub fn start(directory: PathBuf, limits: Limits, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (recorder, writer, notes) = Self::prepare(directory, limits, clock);
        thread::Builder::new().name("recorder".into()).spawn(move || writer.run(&notes))?;
        Ok(recorder)
    }

    fn prepare(directory: PathBuf, limits: Limits, clock: Arc<dyn Clock>) -> (Self, Writer, Receiver<Note>) {
        let (queue, notes) = sync_channel(MOST_WAITING);
        let (first, opened) = sync_channel(1);
        let origin = clock.mono();
        let shared = Arc::new(Shared {
            queue,
            waiting_bytes: AtomicUsize::new(0),
            missing: Mutex::default(),
            pending: Mutex::default(),
            status: Mutex::default(),
            offset: Mutex::new(clock.wall().nanos()),
            clock,
            origin,
            calls: AtomicU64::new(1),
            relist: AtomicU64::new(0),
            wishes: Mutex::default(),
            opened: Mutex::new(opened),
            counted: AtomicBool::new(false),
            earlier: AtomicU64::new(0),
        });
        let writer = Writer {
            store: None,
            carried: Carried::default(),
            directory,
            limits,
            trouble: None,
            shared: Arc::clone(&shared),
            first: Some(first),
            begun: false,
            missing: Missing::default(),
            lost: 0,
        };
        (Self(shared), writer, notes)
    }

    /// What came of opening the directory, how many incidents it has; nothing if that takes longer than `patience`. An error
    /// that is not the disk's ([`Error::is_of_the_disk`]) is an end, any other is tried again for as long as this records.
    pub fn opened(&self, patience: Duration) -> Option<Opened> {
        let opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.recv_timeout(patience).ok();
        self.0.counted.store(matches!(opened, Some(Ok(_))), Ordering::SeqCst);
        opened
    }

    /// A session begins: who records, and how. From here on this is a capture, unless that takes longer than `patience` or
    /// the disk does not take it: then it is one as soon as it does.
    pub fn begin(&self, session: Session, patience: Duration) {
        let (done, over) = sync_channel(1);
        if self.send(Note::Begin(session, self.0.clock.wall().nanos(), done)).is_none() {
            // What is not done yet comes before everything that is taken down from now on.
            let _ = over.recv_timeout(patience);
        }
    }

    /// More is known of the session than when it began.
    pub fn update_session(&self, session: Session) {
        let more = (session, self.0.clock.wall(), self.now());
        self.wish(|wishes| wishes.introduce = Some(more));
    }

    /// The number that an incident of this recording has in the capture.
    pub fn number_in_capture(&self, incident: u64) -> u64 {
        incident.saturating_add(self.0.earlier.load(Ordering::SeqCst))
    }

    /// What listens to a client: one that makes the calls of relists, or any other.
    pub fn observer(&self, relists: bool) -> Arc<dyn CallObserver> {
        Arc::new(Listener { recorder: self.clone(), relists })
    }

    /// From now on calls belong to this relist.
    pub fn relist_begins(&self, number: u64) {
        self.0.relist.store(number, Ordering::SeqCst);
    }

    /// Nanoseconds since the recorder started.
    pub fn now(&self) -> u64 {
        let since = self.0.clock.mono().since(self.0.origin);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes down something that happens now.
    pub fn note(&self, body: Body) {
        let mut offset = self.0.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = self.now();
        let wall = self.0.clock.wall();
        let latest = self.now();
        if let Some(by) = jumped(&mut offset, wall, earliest..=latest) {
            let jump = Body::Jump(super::entry::Jump { by });
            self.queue(Entry { wall: wall.nanos(), mono: earliest, body: Some(jump) });
        }
        self.queue(Entry { wall: wall.nanos(), mono: earliest, body: Some(body) });
    }

    /// Records a document.
    pub fn document(&self, kind: u32, document: &impl serde::Serialize) {
        // Our own documents have string keys only, so writing them as JSON cannot fail.
        if let Some(text) = json::text(document) {
            self.document_text(kind, text);
        }
    }

    /// Records a document that is already JSON text.
    pub fn document_text(&self, kind: u32, text: String) {
        self.note(Body::Document(Document { kind, text: text.into(), inflated: 0 }));
    }

    fn queue(&self, entry: Entry) {
        let bytes = weight(&entry);
        let waiting = self.0.waiting_bytes.fetch_add(bytes, Ordering::SeqCst);
        let fits = waiting == 0 || waiting.saturating_add(bytes) <= MOST_WAITING_BYTES;
        let unsent = if fits { self.send(Note::Entry(entry)) } else { Some(Note::Entry(entry)) };
        let Some(Note::Entry(entry)) = unsent else { return };
        self.0.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if matches!(entry.body, Some(Body::Incident(_))) {
            self.wish(|wishes| wishes.incidents.push(entry));
        } else {
            self.0.missing.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
        }
    }

    /// What did not fit.
    fn send(&self, note: Note) -> Option<Note> {
        match self.0.queue.try_send(note) {
            Ok(()) => None,
            Err(TrySendError::Full(note) | TrySendError::Disconnected(note)) => Some(note),
        }
    }

    /// Calls that the runtime has not answered for so long, whoever made them; without the event stream, which is there to
    /// stay open. The one that was sent first comes first.
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        let now = self.0.clock.mono();
        let pending = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = pending.values().map(|call| PendingCall {
            rpc: call.rpc,
            id: call.id.clone(),
            waited: now.since(call.asked),
            ended: call.ended.subscribe(),
        });
        calls.collect()
    }

    /// Takes down an incident, which is opened, learned of or closed.
    pub fn incident(&self, incident: super::entry::Incident) {
        self.note(Body::Incident(incident));
    }

    /// Takes down a relist that is over, and that began at `began`.
    pub fn relist_finished(&self, began: u64, relist: &Relist) {
        self.note(Body::Relist(RelistDone {
            number: relist.relist,
            began,
            error: relist.error.clone().unwrap_or_default(),
            pods: relist.pods,
            containers: relist.containers,
            events: relist.events,
        }));
    }

    /// Ends the file that is written and opens the directory anew, which may be another by now.
    pub fn reopen(&self) {
        self.wish(|wishes| wishes.reopen = true);
    }

    fn wish(&self, wish: impl FnOnce(&mut Wishes)) {
        wish(&mut self.0.wishes.lock().unwrap_or_else(PoisonError::into_inner));
        // Where the queue has no room for this, the writer has work before it, and looks after that.
        self.send(Note::Look);
    }

    /// How it goes.
    pub fn status(&self) -> RecorderStatus {
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.lost += self.0.missing.lock().unwrap_or_else(PoisonError::into_inner).entries;
        status
    }

    /// Writes what is left and ends in good order, for as long as patience lasts: false if the disk did not take it.
    pub fn close(&self, why: &str, patience: Duration) -> bool {
        let (done, over) = sync_channel(1);
        self.wish(|wishes| wishes.close = Some((why.to_owned(), done)));
        over.recv_timeout(patience).is_ok()
    }
}

/// By how much the wall clock was set since it was read last. The monotonic clock was read before and after it: however
/// long a thread stands still between two readings, that is no jump.
fn jumped(offset: &mut i64, wall: Wall, mono: RangeInclusive<u64>) -> Option<i64> {
    let to = |mono: u64| wall.nanos().saturating_sub(i64::try_from(mono).unwrap_or(i64::MAX));
    let nearest = (*offset).max(to(*mono.end())).min(to(*mono.start()));
    let by = nearest.saturating_sub(*offset);
    // Drift is followed, so that it never adds up to a jump.
    *offset = nearest;
    (u128::from(by.unsigned_abs()) > JUMP.as_nanos()).then_some(by)
}

/// How many bytes an entry holds back while it waits.
fn weight(entry: &Entry) -> usize {
    match &entry.body {
        Some(Body::Ended(ended)) => ended.answers.iter().map(|answer| answer.bytes.len()).sum(),
        Some(Body::Document(document)) => document.text.len(),
        Some(Body::Told(told)) => told.answer.bytes.len(),
        _ => 0,
    }
}

impl CallObserver for Listener {
    fn call_started(&self, rpc: Rpc, request: Bytes) -> u64 {
        let shared = &self.recorder.0;
        let call = shared.calls.fetch_add(1, Ordering::SeqCst);
        let relist = if self.relists { shared.relist.load(Ordering::SeqCst) } else { 0 };
        if rpc != Rpc::GetContainerEvents {
            let subject = Subject::read(rpc, request.clone()).ok();
            let id = subject.map(|subject| subject.id().to_owned()).filter(|id| !id.is_empty());
            let asked = shared.clock.mono();
            let pending = Pending { rpc, id, asked, ended: watch::Sender::new(None) };
            shared.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(call, pending);
        }
        self.recorder.note(Body::Asked(Asked { call, rpc: rpc_number(rpc), request, relist }));
        call
    }

    fn message_received(&self, call: u64, message: Bytes) {
        self.recorder.note(Body::Told(Told { call, answer: raw(message) }));
    }

    fn call_ended(&self, call: u64, took: Duration, end: CallEnd<'_>) {
        let (outcome, messages) = match end {
            CallEnd::Answered(messages) => (Outcome::Answered, messages),
            CallEnd::Failed(error) => (Outcome::Failed(error.clone()), Vec::new()),
            CallEnd::Abandoned => (Outcome::Abandoned, Vec::new()),
        };
        let mut pending = self.recorder.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = pending.remove(&call) {
            let end = match &outcome {
                Outcome::Failed(cri::Error::Silent { .. }) => Some(WaitEnd::GivenUp(took)),
                Outcome::Answered | Outcome::Failed(_) => Some(WaitEnd::Answered(took)),
                // Whoever made it has no use for it any more, which says nothing of its end.
                Outcome::Abandoned | Outcome::Unknown => None,
            };
            call.ended.send_replace(end);
        }
        drop(pending);
        let mut ended = Ended::new(call, took, &outcome);
        ended.answers = messages.into_iter().map(raw).collect();
        self.recorder.note(Body::Ended(ended));
    }
}

/// The thread that writes.
struct Writer {
    store: Option<Store>,
    /// What the next segment repeats, while there is no store.
    carried: Carried,
    directory: PathBuf,
    limits: Limits,
    /// Since when nothing can be written, by the entries' own clock, and why.
    trouble: Option<(u64, String)>,
    shared: Arc<Shared>,
    /// Who waits for the first attempt to open the directory.
    first: Option<SyncSender<Opened>>,
    /// Whether the session has begun.
    begun: bool,
    /// Entries that are lost, and that the capture does not know of yet.
    missing: Missing,
    /// All that are lost.
    lost: u64,
}

impl Writer {
    fn run(mut self, notes: &Receiver<Note>) {
        if let Err(why) = self.open() {
            self.trouble = Some((0, why.to_string()));
            self.answer(Err(why));
        }
        self.report();
        loop {
            // What was queued before a wish comes first.
            let note = if let Ok(note) = notes.try_recv() {
                note
            } else {
                if self.fulfil() {
                    return;
                }
                // Nothing to be done while nobody says anything: a recorder at rest wakes nobody.
                let Ok(note) = notes.recv() else { return };
                note
            };
            self.take(note);
            self.report();
        }
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Entry(entry) => {
                self.shared.waiting_bytes.fetch_sub(weight(&entry), Ordering::SeqCst);
                self.write(entry);
            }
            Note::Begin(session, wall, done) => {
                self.begun = true;
                match &mut self.store {
                    Some(store) => store.begin(session, wall),
                    None => self.carried.begin(session),
                }
                self.count();
                // Whoever waited may have gone on.
                let _ = done.send(());
            }
            Note::Look => {}
        }
    }

    /// Does what is wished; whether that is the end.
    fn fulfil(&mut self) -> bool {
        let wishes = std::mem::take(&mut *self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner));
        for entry in wishes.incidents {
            self.write(entry);
        }
        if let Some((session, wall, mono)) = wishes.introduce {
            match &mut self.store {
                // What cannot be written now is in the head of the next segment.
                Some(store) => drop(store.introduce(session, wall.nanos(), mono)),
                None => self.carried.introduce(session),
            }
        }
        if wishes.reopen {
            self.reopen();
            self.report();
        }
        let Some((why, done)) = wishes.close else { return false };
        self.close(why);
        // Whoever asked may have left.
        let _ = done.send(());
        true
    }

    /// Tells whoever waits for it what came of the first attempt.
    fn answer(&mut self, opened: Opened) {
        if let Some(first) = self.first.take() {
            // Whoever waited may have gone on.
            let _ = first.send(opened);
        }
    }

    /// Opens the directory and goes on with the session there.
    fn open(&mut self) -> Result<(), Error> {
        let store = Store::open(&self.directory, self.limits)?;
        self.answer(Ok(store.incidents()));
        self.store = Some(store);
        self.count();
        if let Some(store) = &mut self.store {
            store.resume(std::mem::take(&mut self.carried));
        }
        Ok(())
    }

    /// Learns once how many incidents there were, so that those of this recording have numbers of their own.
    fn count(&mut self) {
        let Some(store) = self.store.as_ref().filter(|_| self.begun) else { return };
        if !self.shared.counted.swap(true, Ordering::SeqCst) {
            let earlier = store.incidents();
            self.shared.earlier.store(earlier, Ordering::SeqCst);
            self.carried.renumber(earlier);
        }
    }

    fn report(&self) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &self.store {
            status.extent = store.extent();
        }
        status.lost = self.lost;
        status.trouble = self.trouble.as_ref().map(|(_, why)| why.clone());
    }

    fn write(&mut self, mut entry: Entry) {
        let again = u64::try_from(AGAIN_AFTER.as_nanos()).unwrap_or(u64::MAX);
        let resting =
            self.trouble.as_ref().is_some_and(|(since, _)| entry.mono < since.saturating_add(again));
        let dropped =
            std::mem::take(&mut *self.shared.missing.lock().unwrap_or_else(PoisonError::into_inner));
        self.lost += dropped.entries;
        self.missing.add_all(dropped);
        let mono = entry.mono;
        let ready = if resting || self.store.is_some() { Ok(()) } else { self.open() };
        if self.shared.counted.load(Ordering::SeqCst)
            && let Some(Body::Incident(incident)) = &mut entry.body
        {
            incident.number = incident.number.saturating_add(self.shared.earlier.load(Ordering::SeqCst));
        }
        let written = ready.map_err(|why| why.to_string()).and_then(|()| match &mut self.store {
            Some(store) if !resting => {
                if self.missing.entries > 0 {
                    for end in &self.missing.ends {
                        store.forget(end.call);
                    }
                    let known = self.trouble.as_ref().map(|(_, why)| why.clone());
                    let why = known.unwrap_or_else(|| "the disk did not keep up".to_owned());
                    let lost = Body::Lost(self.missing.entry(why));
                    let told = Entry { body: Some(lost), ..entry.clone() };
                    store.write(told).map_err(|why| why.to_string())?;
                    self.missing = Missing::default();
                }
                store.write(entry.clone()).map_err(|why| why.to_string()).map(|()| true)
            }
            _ => Ok(false),
        });
        if written == Ok(true) {
            self.trouble = None;
            return;
        }
        self.missing.add(&entry);
        self.lost += 1;
        // What is open is known all the same, and said again as soon as there is a segment.
        match &mut self.store {
            Some(store) => store.pass_over(entry),
            None => self.carried.remember(entry),
        }
        if let Err(why) = written {
            self.trouble = Some((mono, why));
        }
    }

    fn reopen(&mut self) {
        if let Some(store) = self.store.take() {
            self.carried = store.into_carried();
        }
        if let Err(why) = self.open() {
            // The next entry tries again.
            self.trouble = Some((0, why.to_string()));
        }
    }

    fn close(&mut self, why: String) {
        if let Some(store) = &mut self.store {
            let wall = self.shared.clock.wall().nanos();
            let since = self.shared.clock.mono().since(self.shared.origin);
            let mono = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            // A disk that takes no more has no use for this word either.
            let _ = store.write(Entry { wall, mono, body: Some(Body::Stopped(Stopped { why })) });
            // What was reserved is given back before it is said what is there.
            store.seal();
        }
        self.report();
        self.store = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use crate::capture::entry::Incident;
    use std::collections::VecDeque;
    use std::sync::MutexGuard;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_wall_clock_that_is_read_late_has_not_jumped() {
        let mut offset = 100 * SECOND;
        let read = |offset: &mut i64, wall: i64, mono: RangeInclusive<u64>| {
            jumped(offset, Wall::from_nanos(wall), mono).map(|by| by / SECOND)
        };
        let second = SECOND.unsigned_abs();
        // Stopped for twenty seconds before the wall clock was read, and after it.
        assert_eq!(read(&mut offset, 130 * SECOND, 10 * second..=30 * second), None);
        assert_eq!(read(&mut offset, 131 * SECOND, 31 * second..=51 * second), None);
        assert_eq!(offset, 100 * SECOND);
        // Drift adds up to nothing.
        for step in 1..100 {
            let mono = (100 + step) * second;
            let wall =
                100 * SECOND + i64::try_from(mono).unwrap() + i64::try_from(step).unwrap() * SECOND / 10;
            assert_eq!(read(&mut offset, wall, mono..=mono), None, "{step}");
        }
        let mono = 300 * second;
        assert_eq!(read(&mut offset, 1_000 * SECOND, mono..=mono), Some(590));
        assert_eq!(read(&mut offset, 1_001 * SECOND, 301 * second..=301 * second), None);
    }

    /// A clock on which time passes between two readings, as for a thread that is put aside there.
    struct Slow(Mutex<VecDeque<u64>>, Mutex<u64>);

    impl Slow {
        fn next(&self) -> u64 {
            let mut steps = self.0.lock().unwrap();
            let mut now: MutexGuard<'_, u64> = self.1.lock().unwrap();
            *now += steps.pop_front().unwrap_or(0);
            *now
        }
    }

    impl Clock for Slow {
        fn mono(&self) -> Mono {
            Mono::at(Duration::from_secs(self.next()))
        }

        fn wall(&self) -> Wall {
            Wall::from_nanos(i64::try_from(1_000_000 + self.next()).unwrap() * SECOND)
        }
    }

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plegctl-recorder-{}-{name}", std::process::id()))
    }

    fn prepared(name: &str, clock: Arc<dyn Clock>) -> (Recorder, Writer, Receiver<Note>) {
        let limits = Limits { size: 16 << 20, age: Duration::MAX, incidents: 1 };
        Recorder::prepare(place(name), limits, clock)
    }

    fn word(text: &str) -> Body {
        Body::Stopped(Stopped { why: text.to_owned() })
    }

    #[test]
    fn a_thread_that_is_put_aside_between_its_two_clocks_records_no_jump() {
        // Of each reading of both clocks the second and the third come ten seconds late.
        let steps = std::iter::repeat_n([0, 10, 10], 50).flatten();
        let clock = Arc::new(Slow(Mutex::new([0, 0].into_iter().chain(steps).collect()), Mutex::new(5)));
        let (recorder, writer, notes) = prepared("aside", clock);
        recorder.begin(Session::default(), Duration::ZERO);
        for _ in 0..10 {
            recorder.note(word("a word"));
        }
        let writer = thread::spawn(move || writer.run(&notes));
        assert!(recorder.close("done", Duration::MAX));
        writer.join().unwrap();
        let directory = place("aside");
        assert_eq!(Capture::open(&directory).unwrap().jumps, []);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn closing_and_reopening_wait_for_a_queue_that_is_full() {
        let (recorder, writer, notes) = prepared("full", Arc::new(crate::clock::ManualClock::default()));
        recorder.begin(Session::default(), Duration::ZERO);
        for _ in 1..MOST_WAITING {
            recorder.note(word("a word"));
        }
        assert_eq!(recorder.status().lost, 0);
        recorder.note(word("one too many"));
        assert_eq!(recorder.status().lost, 1);
        recorder.incident(Incident { number: 1, from: 1, to: 2, ..Incident::default() });
        recorder.reopen();
        let shared = Arc::clone(&recorder.0);
        let writer = thread::spawn(move || {
            // Not before it is to end.
            while shared.wishes.lock().unwrap().close.is_none() {
                thread::yield_now();
            }
            writer.run(&notes);
        });
        assert!(recorder.close("done", Duration::MAX));
        writer.join().unwrap();
        let directory = place("full");
        let capture = Capture::open(&directory).unwrap();
        let entries: u64 = capture.segments.iter().map(|segment| segment.entries).sum();
        // Besides the words: the heads of two segments, what is said of the lost one, the incident, and the word at the end.
        assert_eq!((capture.segments.len(), entries), (2, u64::try_from(MOST_WAITING).unwrap() - 1 + 5));
        assert_eq!(capture.incidents[&1].to, 2, "how an incident ends is never lost");
        assert!(capture.runs[0].stopped);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_is_lost_is_said_with_the_calls_that_ended_in_it() {
        let ended = |mono, call| {
            let body = Body::Ended(Ended::new(call, Duration::ZERO, &Outcome::Answered));
            Entry { wall: 0, mono, body: Some(body) }
        };
        let mut missing = Missing::default();
        missing.add(&ended(5, 1));
        missing.add(&Entry { wall: 0, mono: 6, body: Some(Body::Relist(RelistDone::default())) });
        let mut later = Missing::default();
        later.add(&ended(9, 2));
        missing.add_all(later);
        assert_eq!((missing.entries, missing.since, missing.more_ends), (3, 5, false));
        assert_eq!(missing.ends, [LostEnd { call: 1, mono: 5 }, LostEnd { call: 2, mono: 9 }]);
        (0..2000).for_each(|call| missing.add(&ended(10, call)));
        assert!(missing.more_ends && missing.ends.len() == MOST_LOST_ENDS);
    }
}
