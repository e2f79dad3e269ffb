//! Takes down what happens: a bounded queue, and a thread that writes, so that a disk which hangs hangs nothing else.
//!
//! A call is handed to the writer before it is sent. What finds no room in the queue, or no disk, is counted and said in
//! the capture as soon as it takes words again.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prost::bytes::Bytes;

use super::entry::{
    Asked, Body, Document, Ended, Entry, Lost, Outcome, RelistDone, Session, Stopped, Told, raw, rpc_number,
};
use super::{Extent, Limits, Store};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::{CallEnd, Rpc, Tape};
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

enum Note {
    Entry(Entry),
    Reopen,
    Close(String, SyncSender<()>),
}

/// How the recording goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
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
    lost: AtomicU64,
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    origin: Mono,
    offset: Mutex<i64>,
    calls: AtomicU64,
    relist: AtomicU64,
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
    /// Starts to write to `store`.
    pub fn start(
        store: Store,
        directory: PathBuf,
        limits: Limits,
        session: Session,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let (queue, notes) = sync_channel(MOST_WAITING);
        let origin = clock.mono();
        let shared = Arc::new(Shared {
            queue,
            waiting_bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            state: Mutex::default(),
            offset: Mutex::new(clock.wall().nanos()),
            clock,
            origin,
            calls: AtomicU64::new(1),
            relist: AtomicU64::new(0),
        });
        let mut store = store;
        store.begin(session, shared.clock.wall().nanos());
        let writer = Writer {
            store: Some(store),
            directory,
            limits,
            trouble: None,
            shared: Arc::clone(&shared),
            unsaid: 0,
            lost: 0,
        };
        thread::Builder::new().name("recorder".into()).spawn(move || writer.run(&notes))?;
        Ok(Self(shared))
    }

    /// What listens to a client: one that makes the calls of relists, or any other.
    pub fn tape(&self, relists: bool) -> Arc<dyn Tape> {
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
        let (wall, mono) = (self.0.clock.wall(), self.now());
        if let Some(by) = self.jumped(wall, mono) {
            self.queue(Entry { wall: wall.nanos(), mono, body: Some(Body::Jump(super::entry::Jump { by })) });
        }
        self.queue(Entry { wall: wall.nanos(), mono, body: Some(body) });
    }

    /// By how much the wall clock was set since somebody looked last.
    fn jumped(&self, wall: Wall, mono: u64) -> Option<i64> {
        let offset = wall.nanos().saturating_sub(i64::try_from(mono).unwrap_or(i64::MAX));
        let mut known = self.0.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let by = offset.saturating_sub(*known);
        // Drift is followed, so that it never adds up to a jump.
        *known = offset;
        (u128::from(by.unsigned_abs()) > JUMP.as_nanos()).then_some(by)
    }

    /// Takes down a document.
    pub fn document(&self, kind: u32, document: &impl serde::Serialize) {
        // Our own documents have string keys only, so that there is one.
        let Some(text) = json::text(document) else { return };
        self.note(Body::Document(Document { kind, text: text.into(), inflated: 0 }));
    }

    fn queue(&self, entry: Entry) {
        let bytes = weight(&entry);
        let waiting = self.0.waiting_bytes.fetch_add(bytes, Ordering::SeqCst);
        let fits = waiting == 0 || waiting.saturating_add(bytes) <= MOST_WAITING_BYTES;
        if !fits || !self.send(Note::Entry(entry)) {
            self.0.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
            self.0.lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn send(&self, note: Note) -> bool {
        match self.0.queue.try_send(note) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Takes down an incident, which is opened, learned of or closed.
    pub fn incident(&self, incident: super::entry::Incident) {
        self.note(Body::Incident(incident));
    }

    /// Takes down a relist that is over, and that began at `began`.
    pub fn relist_over(&self, began: u64, relist: &Relist) {
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
        self.send(Note::Reopen);
    }

    /// How it goes.
    pub fn state(&self) -> State {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        state.lost += self.0.lost.load(Ordering::SeqCst);
        state
    }

    /// Writes what is left and ends in good order, for as long as patience lasts: false if the disk did not take it.
    pub fn close(&self, why: &str, patience: Duration) -> bool {
        let (done, over) = sync_channel(1);
        self.send(Note::Close(why.to_owned(), done)) && over.recv_timeout(patience).is_ok()
    }
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

impl Tape for Listener {
    fn asked(&self, rpc: Rpc, request: Bytes) -> u64 {
        let shared = &self.recorder.0;
        let call = shared.calls.fetch_add(1, Ordering::SeqCst);
        let relist = if self.relists { shared.relist.load(Ordering::SeqCst) } else { 0 };
        self.recorder.note(Body::Asked(Asked { call, rpc: rpc_number(rpc), request, relist }));
        call
    }

    fn told(&self, call: u64, message: Bytes) {
        self.recorder.note(Body::Told(Told { call, answer: raw(message) }));
    }

    fn ended(&self, call: u64, took: Duration, end: CallEnd<'_>) {
        let (outcome, messages) = match end {
            CallEnd::Answered(messages) => (Outcome::Answered, messages),
            CallEnd::Failed(error) => (Outcome::Failed(error.clone()), Vec::new()),
            CallEnd::Abandoned => (Outcome::Abandoned, Vec::new()),
        };
        let mut ended = Ended::new(call, took, &outcome);
        ended.answers = messages.into_iter().map(raw).collect();
        self.recorder.note(Body::Ended(ended));
    }
}

/// The thread that writes.
struct Writer {
    store: Option<Store>,
    directory: PathBuf,
    limits: Limits,
    /// Since when nothing can be written, by the entries' own clock, and why.
    trouble: Option<(u64, String)>,
    shared: Arc<Shared>,
    /// Entries that are lost, and that the capture does not know of yet.
    unsaid: u64,
    /// All that are lost.
    lost: u64,
}

impl Writer {
    fn run(mut self, notes: &Receiver<Note>) {
        loop {
            // Nothing to be done while nobody says anything: a recorder at rest wakes nobody.
            let Ok(note) = notes.recv() else { return };
            match note {
                Note::Entry(entry) => {
                    self.shared.waiting_bytes.fetch_sub(weight(&entry), Ordering::SeqCst);
                    self.write(&entry);
                }
                Note::Reopen => self.reopen(),
                Note::Close(why, done) => {
                    self.close(why);
                    // Whoever asked may have left.
                    let _ = done.send(());
                    return;
                }
            }
            self.report();
        }
    }

    fn report(&self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &self.store {
            state.extent = store.extent();
        }
        state.lost = self.lost;
        state.trouble = self.trouble.as_ref().map(|(_, why)| why.clone());
    }

    fn write(&mut self, entry: &Entry) {
        let again = u64::try_from(AGAIN_AFTER.as_nanos()).unwrap_or(u64::MAX);
        let resting =
            self.trouble.as_ref().is_some_and(|(since, _)| entry.mono < since.saturating_add(again));
        let dropped = self.shared.lost.swap(0, Ordering::SeqCst);
        self.unsaid += dropped;
        self.lost += dropped;
        let failed = if resting { None } else { self.try_write(entry).err() };
        if resting || failed.is_some() {
            self.unsaid += 1;
            self.lost += 1;
        }
        if let Some(why) = failed {
            self.trouble = Some((entry.mono, why));
        }
    }

    fn try_write(&mut self, entry: &Entry) -> Result<(), String> {
        if self.store.is_none() {
            self.store = Some(Store::open(&self.directory, self.limits).map_err(|why| why.to_string())?);
        }
        let Some(store) = &mut self.store else { return Ok(()) };
        if self.unsaid > 0 {
            let known = self.trouble.as_ref().map(|(_, why)| why.clone());
            let why = known.unwrap_or_else(|| "the disk did not keep up".to_owned());
            let lost = Body::Lost(Lost { entries: self.unsaid, why });
            let told = Entry { body: Some(lost), ..entry.clone() };
            store.write(told).map_err(|why| why.to_string())?;
            self.unsaid = 0;
        }
        store.write(entry.clone()).map_err(|why| why.to_string())?;
        self.trouble = None;
        Ok(())
    }

    fn reopen(&mut self) {
        let Some(store) = self.store.take() else { return };
        match store.reopen() {
            Ok(store) => self.store = Some(store),
            Err(why) => self.trouble = Some((0, why.to_string())),
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
