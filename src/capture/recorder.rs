//! Records calls, documents and incidents in a capture. Entries go through a bounded queue to a writer thread, so that a
//! disk that hangs delays nothing else.
//!
//! The start of a call is queued before the call is sent. An entry that does not fit into the queue, or that the disk does
//! not accept, is counted as lost. As soon as the disk accepts entries again, the recorder first writes an entry about the
//! loss.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::watch;

use super::entry::{
    Body, CallFinished, CallStarted, CaptureEntry, Incident, Lost, LostEnd, RecordedOutcome, RelistDone,
    Session, Stopped, StoredDocument, StreamMessage, nanos, rpc_number, unencoded,
};
use super::store::CarriedEntries;
use super::{Error, Extent, Limits, Store};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::server::RequestSubject;
use crate::cri::{self, CallEnd, CallObserver, Rpc, WaitEnd};
use crate::pleg::stream::Relist;
use crate::report::json;
use crate::threads::locked;

/// The maximum number of entries in the queue.
const MAX_QUEUED_ENTRIES: usize = 4096;

/// The maximum size of the queued answers in bytes. A single answer may be larger.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// The pause after a failed write until the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The smallest change of the wall clock against the monotonic clock that counts as a jump; less is drift.
const MIN_CLOCK_JUMP: Duration = Duration::from_millis(500);

/// The maximum number of calls that an entry about a loss names.
const MAX_LOST_ENDS: usize = 1024;

/// Counts the lost entries that the capture does not mention yet.
impl Lost {
    /// Adds a lost entry. If it is the end of a call, keeps the call's number, so that the call does not look silent.
    fn add(&mut self, entry: &CaptureEntry) {
        if self.entries == 0 {
            self.since = entry.mono.max(1);
        }
        self.entries += 1;
        if let Some(Body::CallFinished(ended)) = &entry.body {
            if self.ends.len() < MAX_LOST_ENDS {
                self.ends.push(LostEnd { call: ended.call, mono: entry.mono });
            } else {
                self.more_ends = true;
            }
        }
    }

    /// Adds later lost entries.
    fn add_all(&mut self, later: Self) {
        if self.entries == 0 {
            self.since = later.since;
        }
        self.entries += later.entries;
        self.more_ends |= later.more_ends || self.ends.len() + later.ends.len() > MAX_LOST_ENDS;
        self.ends.extend(later.ends);
        self.ends.truncate(MAX_LOST_ENDS);
    }
}

/// What the recorder knows about a pending call.
struct TrackedCall {
    rpc: Rpc,
    id: Option<String>,
    sent: Mono,
    /// Sends the end of the call to the receivers in [`LivePendingCall`].
    ended: watch::Sender<Option<WaitEnd>>,
}

/// A call that the runtime has not answered yet.
#[derive(Clone, Debug)]
pub struct LivePendingCall {
    /// The RPC.
    pub rpc: Rpc,
    /// The id of the container or sandbox, if the call is about one.
    pub id: Option<String>,
    /// The time since the call was sent.
    pub waited: Duration,
    /// The end of the call, once it has ended.
    pub ended: watch::Receiver<Option<WaitEnd>>,
}

/// A message to the writer thread.
enum WriterMessage {
    /// Write this entry.
    Entry(CaptureEntry),
    /// Begin a session at this time of the wall clock, and confirm it through the sender.
    Begin(Session, i64, SyncSender<()>),
    /// Handle the [`WriterRequests`].
    Wake,
}

/// Requests to the writer that must not be lost if the queue is full.
#[derive(Default)]
struct WriterRequests {
    reopen: bool,
    /// Incidents that did not fit into the queue. They must not be lost, because they decide which segments are kept.
    incidents: Vec<CaptureEntry>,
    /// The session with more details, and the times at which these became known.
    session_update: Option<(Session, Wall, u64)>,
    /// The reason for closing the capture, and the sender that confirms the end.
    close: Option<(String, SyncSender<()>)>,
}

/// The result of the first attempt to open the directory: the number of incidents in the capture.
type OpenResult = Result<u64, Error>;

/// The state of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// The size of the capture.
    pub extent: Extent,
    /// The number of lost entries.
    pub lost: u64,
    /// Why nothing can be written at the moment.
    pub trouble: Option<String>,
    /// The last state of each pinned incident of the capture, as far as the disk has accepted it.
    pub(super) incidents: Arc<Vec<Incident>>,
}

/// The state that the recorder and its writer thread share.
struct RecorderShared {
    queue: SyncSender<WriterMessage>,
    queued_bytes: AtomicUsize,
    unreported_loss: Mutex<Lost>,
    pending: Mutex<BTreeMap<u64, TrackedCall>>,
    status: Mutex<RecorderStatus>,
    clock: Arc<dyn Clock>,
    origin: Mono,
    /// The wall clock minus the monotonic clock. The lock is held while both are read and the entry is queued, so that
    /// entries are in the order of their times.
    offset: Mutex<i64>,
    calls: AtomicU64,
    relist: AtomicU64,
    requests: Mutex<WriterRequests>,
    opened: Mutex<Receiver<OpenResult>>,
    /// Whether the number of incidents that were in the capture before this recording is known.
    earlier_known: AtomicBool,
    /// The number of incidents that were in the capture before this recording, if it became known only after the start.
    earlier_incidents: AtomicU64,
}

impl RecorderShared {
    /// Returns the nanoseconds since the recorder started.
    fn now(&self) -> u64 {
        nanos(self.clock.mono().since(self.origin))
    }
}

/// A running recorder. Its clones record into the same capture.
#[derive(Clone)]
pub struct Recorder(Arc<RecorderShared>);

/// Records the calls of one client. `relists` is true for the client that makes the calls of relists.
struct CallRecorder {
    recorder: Recorder,
    relists: bool,
}

impl Recorder {
    /// Starts the writer thread, which opens `directory`; [`Self::opened`] returns the result. Nothing is recorded before
    /// [`Self::begin`].
    pub fn start(directory: PathBuf, limits: Limits, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (recorder, writer, messages) = Self::prepare(directory, limits, clock);
        thread::Builder::new().name("recorder".into()).spawn(move || writer.run(&messages))?;
        Ok(recorder)
    }

    /// Creates the recorder, the writer and the receiver of the writer's messages, without starting the thread.
    fn prepare(
        directory: PathBuf,
        limits: Limits,
        clock: Arc<dyn Clock>,
    ) -> (Self, CaptureWriter, Receiver<WriterMessage>) {
        let (queue, messages) = sync_channel(MAX_QUEUED_ENTRIES);
        let (open_result, opened) = sync_channel(1);
        let origin = clock.mono();
        let shared = Arc::new(RecorderShared {
            queue,
            queued_bytes: AtomicUsize::new(0),
            unreported_loss: Mutex::default(),
            pending: Mutex::default(),
            status: Mutex::default(),
            offset: Mutex::new(clock.wall().nanos()),
            clock,
            origin,
            calls: AtomicU64::new(1),
            relist: AtomicU64::new(0),
            requests: Mutex::default(),
            opened: Mutex::new(opened),
            earlier_known: AtomicBool::new(false),
            earlier_incidents: AtomicU64::new(0),
        });
        let writer = CaptureWriter {
            store: None,
            carried: CarriedEntries::default(),
            directory,
            limits,
            trouble: None,
            shared: Arc::clone(&shared),
            open_result: Some(open_result),
            begun: false,
            unreported_loss: Lost::default(),
            lost: 0,
        };
        (Self(shared), writer, messages)
    }

    /// Waits until the writer has opened the directory, and returns the number of incidents in it; `None` after `limit`.
    /// After an error of the disk ([`Error::is_disk_error`]) the writer tries again later, so the caller may continue.
    pub fn opened(&self, limit: Duration) -> Option<OpenResult> {
        let opened = locked(&self.0.opened);
        let opened = opened.recv_timeout(limit).ok();
        self.0.earlier_known.store(matches!(opened, Some(Ok(_))), Ordering::SeqCst);
        opened
    }

    /// Begins a session. Waits at most `limit` until the session is written; a slow or full disk receives it later.
    pub fn begin(&self, session: Session, limit: Duration) {
        let (done, over) = sync_channel(1);
        if self.send(WriterMessage::Begin(session, self.0.clock.wall().nanos(), done)).is_none() {
            // After the time limit, the session is still written before all later entries.
            let _ = over.recv_timeout(limit);
        }
    }

    /// Replaces the session's details, for example once the runtime's name is known.
    pub fn update_session(&self, session: Session) {
        let more = (session, self.0.clock.wall(), self.now());
        self.request(|requests| requests.session_update = Some(more));
    }

    /// Returns the number in the capture of an incident of this recording.
    pub fn number_in_capture(&self, incident: u64) -> u64 {
        incident.saturating_add(self.0.earlier_incidents.load(Ordering::SeqCst))
    }

    /// Returns an observer that records the calls of a client. `relists` is true for the client that makes the calls of
    /// relists.
    pub fn observer(&self, relists: bool) -> Arc<dyn CallObserver> {
        Arc::new(CallRecorder { recorder: self.clone(), relists })
    }

    /// Notes that the calls from now on belong to this relist; 0 means none.
    pub fn relist_begins(&self, number: u64) {
        self.0.relist.store(number, Ordering::SeqCst);
    }

    /// Returns the nanoseconds since the recorder started.
    pub fn now(&self) -> u64 {
        self.0.now()
    }

    /// Records an entry with the present time.
    pub fn record(&self, body: Body) {
        let mut offset = locked(&self.0.offset);
        let earliest = self.now();
        let wall = self.0.clock.wall();
        let latest = self.now();
        if let Some(by) = clock_jump(&mut offset, wall, earliest..=latest) {
            let jump = Body::Jump(super::entry::Jump { by });
            self.queue(CaptureEntry { wall: wall.nanos(), mono: earliest, body: Some(jump) });
        }
        self.queue(CaptureEntry { wall: wall.nanos(), mono: earliest, body: Some(body) });
    }

    /// Records a document.
    pub fn document(&self, kind: u32, document: &impl serde::Serialize) {
        // plegctl's own documents have string keys only, so writing them as JSON cannot fail.
        if let Some(text) = json::text(document) {
            self.document_text(kind, text);
        }
    }

    /// Records a document that is already JSON text.
    pub fn document_text(&self, kind: u32, text: String) {
        self.record(Body::Document(StoredDocument { kind, text: text.into(), inflated: 0 }));
    }

    /// Queues an entry for the writer. If the queue is full, the entry counts as lost, except an incident.
    fn queue(&self, entry: CaptureEntry) {
        let bytes = queue_size(&entry);
        let waiting = self.0.queued_bytes.fetch_add(bytes, Ordering::SeqCst);
        let fits = waiting == 0 || waiting.saturating_add(bytes) <= MAX_QUEUED_BYTES;
        let unsent =
            if fits { self.send(WriterMessage::Entry(entry)) } else { Some(WriterMessage::Entry(entry)) };
        let Some(WriterMessage::Entry(entry)) = unsent else { return };
        self.0.queued_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if matches!(entry.body, Some(Body::Incident(_))) {
            self.request(|requests| requests.incidents.push(entry));
        } else {
            locked(&self.0.unreported_loss).add(&entry);
        }
    }

    /// Queues a message; returns it if the queue is full.
    fn send(&self, message: WriterMessage) -> Option<WriterMessage> {
        match self.0.queue.try_send(message) {
            Ok(()) => None,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => Some(message),
        }
    }

    /// Returns the pending calls of all clients in the order in which they were sent. The event stream is left out, because
    /// its call is always pending.
    pub fn pending_calls(&self) -> Vec<LivePendingCall> {
        let now = self.0.clock.mono();
        let pending = locked(&self.0.pending);
        let calls = pending.values().map(|call| LivePendingCall {
            rpc: call.rpc,
            id: call.id.clone(),
            waited: now.since(call.sent),
            ended: call.ended.subscribe(),
        });
        calls.collect()
    }

    /// Records an incident, which was opened, diagnosed or closed.
    pub fn incident(&self, incident: Incident) {
        self.record(Body::Incident(incident));
    }

    /// Records a finished relist, which began at `began`.
    pub fn relist_finished(&self, began: u64, relist: &Relist) {
        self.record(Body::Relist(RelistDone {
            number: relist.relist,
            began,
            error: relist.error.clone().unwrap_or_default(),
            pods: relist.pods,
            containers: relist.containers,
            events: relist.events,
        }));
    }

    /// Closes the current segment and opens the directory's path again, which may be another directory by now.
    pub fn reopen(&self) {
        self.request(|requests| requests.reopen = true);
    }

    /// Adds a request to the writer, which cannot be lost.
    fn request(&self, request: impl FnOnce(&mut WriterRequests)) {
        request(&mut locked(&self.0.requests));
        // If the queue is full, the writer finds the request after the queued entries.
        self.send(WriterMessage::Wake);
    }

    /// Returns the state of the recorder.
    pub fn status(&self) -> RecorderStatus {
        let mut status = locked(&self.0.status).clone();
        status.lost += locked(&self.0.unreported_loss).entries;
        status
    }

    /// Writes the queued entries and closes the capture. Returns whether this was done within `limit`.
    pub fn close(&self, why: &str, limit: Duration) -> bool {
        let (done, over) = sync_channel(1);
        self.request(|requests| requests.close = Some((why.to_owned(), done)));
        over.recv_timeout(limit).is_ok()
    }
}

/// Returns by how much the wall clock was set since the last reading; `None` if it was not set. `mono` has the readings of
/// the monotonic clock before and after that of the wall clock, so that a pause between two readings does not look like a
/// jump.
fn clock_jump(offset: &mut i64, wall: Wall, mono: RangeInclusive<u64>) -> Option<i64> {
    let to = |mono: u64| wall.nanos().saturating_sub(i64::try_from(mono).unwrap_or(i64::MAX));
    let nearest = (*offset).max(to(*mono.end())).min(to(*mono.start()));
    let by = nearest.saturating_sub(*offset);
    // The offset follows drift, so that drift never adds up to a jump.
    *offset = nearest;
    (u128::from(by.unsigned_abs()) > MIN_CLOCK_JUMP.as_nanos()).then_some(by)
}

/// Returns the number of bytes that an entry counts against [`MAX_QUEUED_BYTES`].
fn queue_size(entry: &CaptureEntry) -> usize {
    match &entry.body {
        Some(Body::CallFinished(ended)) => ended.answers.iter().map(|answer| answer.bytes.len()).sum(),
        Some(Body::Document(document)) => document.text.len(),
        Some(Body::StreamMessage(streamed)) => streamed.answer.bytes.len(),
        _ => 0,
    }
}

impl CallObserver for CallRecorder {
    fn call_started(&self, rpc: Rpc, request: Bytes) -> u64 {
        let shared = &self.recorder.0;
        let call = shared.calls.fetch_add(1, Ordering::SeqCst);
        let relist = if self.relists { shared.relist.load(Ordering::SeqCst) } else { 0 };
        if rpc != Rpc::GetContainerEvents {
            let subject = RequestSubject::read(rpc, request.clone()).ok();
            let id = subject.map(|subject| subject.id().to_owned()).filter(|id| !id.is_empty());
            let sent = shared.clock.mono();
            let pending = TrackedCall { rpc, id, sent, ended: watch::Sender::new(None) };
            locked(&shared.pending).insert(call, pending);
        }
        self.recorder.record(Body::CallStarted(CallStarted { call, rpc: rpc_number(rpc), request, relist }));
        call
    }

    fn message_received(&self, call: u64, message: Bytes) {
        self.recorder.record(Body::StreamMessage(StreamMessage { call, answer: unencoded(message) }));
    }

    fn call_ended(&self, call: u64, took: Duration, end: CallEnd<'_>) {
        let (outcome, messages) = match end {
            CallEnd::Answered(messages) => (RecordedOutcome::Answered, messages),
            CallEnd::Failed(error) => (RecordedOutcome::Failed(error.clone()), Vec::new()),
            CallEnd::Abandoned => (RecordedOutcome::Abandoned, Vec::new()),
        };
        let mut pending = locked(&self.recorder.0.pending);
        if let Some(call) = pending.remove(&call) {
            let end = match &outcome {
                RecordedOutcome::Failed(cri::Error::Silent { .. }) => Some(WaitEnd::GivenUp(took)),
                RecordedOutcome::Answered | RecordedOutcome::Failed(_) => Some(WaitEnd::Answered(took)),
                // The caller abandoned the call, so its end is not known.
                RecordedOutcome::Abandoned | RecordedOutcome::Unknown => None,
            };
            call.ended.send_replace(end);
        }
        drop(pending);
        let mut ended = CallFinished::new(call, took, &outcome);
        ended.answers = messages.into_iter().map(unencoded).collect();
        self.recorder.record(Body::CallFinished(ended));
    }
}

/// Writes entries to the capture, in the writer thread.
struct CaptureWriter {
    store: Option<Store>,
    /// The entries that the next segment repeats; used while `store` is `None`.
    carried: CarriedEntries,
    directory: PathBuf,
    limits: Limits,
    /// Since when nothing can be written, by the monotonic clock, and why.
    trouble: Option<(u64, String)>,
    shared: Arc<RecorderShared>,
    /// Sends the result of the first attempt to open the directory.
    open_result: Option<SyncSender<OpenResult>>,
    /// Whether the session has begun.
    begun: bool,
    /// The lost entries that the capture does not mention yet.
    unreported_loss: Lost,
    /// The number of lost entries.
    lost: u64,
}

impl CaptureWriter {
    /// Writes entries and handles requests until the capture is closed.
    fn run(mut self, messages: &Receiver<WriterMessage>) {
        if let Err(why) = self.open() {
            self.trouble = Some((0, why.to_string()));
            self.answer(Err(why));
        }
        self.report();
        loop {
            // Entries that were queued before a request are written first.
            let message = if let Ok(message) = messages.try_recv() {
                message
            } else {
                if self.handle_requests() {
                    return;
                }
                // The thread sleeps until the next message, so that an idle recorder uses no processor time.
                let Ok(message) = messages.recv() else { return };
                message
            };
            self.handle(message);
            self.report();
        }
    }

    fn handle(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Entry(entry) => {
                self.shared.queued_bytes.fetch_sub(queue_size(&entry), Ordering::SeqCst);
                self.write(entry);
            }
            WriterMessage::Begin(session, wall, done) => {
                self.begun = true;
                match &mut self.store {
                    Some(store) => store.begin(session, wall),
                    None => self.carried.begin(session),
                }
                self.count_earlier_incidents();
                // The receiver may have reached its time limit.
                let _ = done.send(());
            }
            WriterMessage::Wake => {}
        }
    }

    /// Handles the requests; returns whether the capture is closed now.
    fn handle_requests(&mut self) -> bool {
        let requests = std::mem::take(&mut *locked(&self.shared.requests));
        for entry in requests.incidents {
            self.write(entry);
        }
        if let Some((session, wall, mono)) = requests.session_update {
            match &mut self.store {
                // If this cannot be written now, the next segment begins with the updated session.
                Some(store) => drop(store.update_session(session, wall.nanos(), mono)),
                None => self.carried.update_session(session),
            }
        }
        if requests.reopen {
            self.reopen();
            self.report();
        }
        let Some((why, done)) = requests.close else { return false };
        self.close(why);
        // The receiver may have reached its time limit.
        let _ = done.send(());
        true
    }

    /// Sends the result of the first attempt to open the directory.
    fn answer(&mut self, opened: OpenResult) {
        if let Some(open_result) = self.open_result.take() {
            // The receiver may have reached its time limit.
            let _ = open_result.send(opened);
        }
    }

    /// Opens the directory and continues the session there.
    fn open(&mut self) -> Result<(), Error> {
        let store = Store::open(&self.directory, self.limits)?;
        self.answer(Ok(store.incidents()));
        self.store = Some(store);
        self.count_earlier_incidents();
        if let Some(store) = &mut self.store {
            store.resume(std::mem::take(&mut self.carried));
        }
        Ok(())
    }

    /// Reads once how many incidents the capture has, so that new incidents get the numbers after that.
    fn count_earlier_incidents(&mut self) {
        let Some(store) = self.store.as_ref().filter(|_| self.begun) else { return };
        if !self.shared.earlier_known.swap(true, Ordering::SeqCst) {
            let earlier_incidents = store.incidents();
            self.shared.earlier_incidents.store(earlier_incidents, Ordering::SeqCst);
            self.carried.renumber(earlier_incidents);
        }
    }

    /// Publishes the state for [`Recorder::status`].
    fn report(&self) {
        let mut status = locked(&self.shared.status);
        if let Some(store) = &self.store {
            status.extent = store.extent();
            status.incidents = store.known_incidents();
        }
        status.lost = self.lost;
        status.trouble = self.trouble.as_ref().map(|(_, why)| why.clone());
    }

    /// Writes an entry, after an entry about earlier losses if there were any.
    fn write(&mut self, mut entry: CaptureEntry) {
        let again = nanos(RETRY_PAUSE);
        let is_pausing =
            self.trouble.as_ref().is_some_and(|(since, _)| entry.mono < since.saturating_add(again));
        let dropped = std::mem::take(&mut *locked(&self.shared.unreported_loss));
        self.lost += dropped.entries;
        self.unreported_loss.add_all(dropped);
        let mono = entry.mono;
        let ready = if is_pausing || self.store.is_some() { Ok(()) } else { self.open() };
        if self.shared.earlier_known.load(Ordering::SeqCst)
            && let Some(Body::Incident(incident)) = &mut entry.body
        {
            incident.number =
                incident.number.saturating_add(self.shared.earlier_incidents.load(Ordering::SeqCst));
        }
        let written = ready.map_err(|why| why.to_string()).and_then(|()| match &mut self.store {
            Some(store) if !is_pausing => {
                if self.unreported_loss.entries > 0 {
                    for end in &self.unreported_loss.ends {
                        store.remove_open_call(end.call);
                    }
                    let known = self.trouble.as_ref().map(|(_, why)| why.clone());
                    let why = known.unwrap_or_else(|| "the disk did not keep up".to_owned());
                    let body = Some(Body::Lost(Lost { why, ..self.unreported_loss.clone() }));
                    store.write(CaptureEntry { body, ..entry.clone() }).map_err(|why| why.to_string())?;
                    self.unreported_loss = Lost::default();
                }
                store.write(entry.clone()).map_err(|why| why.to_string()).map(|()| true)
            }
            _ => Ok(false),
        });
        if written == Ok(true) {
            self.trouble = None;
            return;
        }
        self.unreported_loss.add(&entry);
        self.lost += 1;
        // Open calls and incidents are remembered, and repeated in the next segment.
        match &mut self.store {
            Some(store) => store.track_unwritten(entry),
            None => self.carried.remember(entry),
        }
        if let Err(why) = written {
            self.trouble = Some((mono, why));
        }
    }

    /// Closes the current segment, and opens the directory's path again.
    fn reopen(&mut self) {
        if let Some(store) = self.store.take() {
            self.carried = store.into_carried();
        }
        if let Err(why) = self.open() {
            // The next entry tries again.
            self.trouble = Some((0, why.to_string()));
        }
    }

    /// Writes the entry about the end of the recorder, and closes the capture.
    fn close(&mut self, why: String) {
        if let Some(store) = &mut self.store {
            let wall = self.shared.clock.wall().nanos();
            let mono = self.shared.now();
            // If the disk is full, this entry is lost too.
            let _ = store.write(CaptureEntry { wall, mono, body: Some(Body::Stopped(Stopped { why })) });
            // The reserved space is released before the size is reported.
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
    fn late_reading_of_the_wall_clock_is_no_jump() {
        let mut offset = 100 * SECOND;
        let read = |offset: &mut i64, wall: i64, mono: RangeInclusive<u64>| {
            clock_jump(offset, Wall::from_nanos(wall), mono).map(|by| by / SECOND)
        };
        let second = SECOND.unsigned_abs();
        // The thread pauses for twenty seconds before it reads the wall clock, and then after it.
        assert_eq!(read(&mut offset, 130 * SECOND, 10 * second..=30 * second), None);
        assert_eq!(read(&mut offset, 131 * SECOND, 31 * second..=51 * second), None);
        assert_eq!(offset, 100 * SECOND);
        // The wall clock drifts by 0.1 s per second for 99 s.
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

    /// A clock on which time passes between two readings, as if the thread paused there.
    struct SteppingClock(Mutex<VecDeque<u64>>, Mutex<u64>);

    impl SteppingClock {
        fn next(&self) -> u64 {
            let mut steps = self.0.lock().unwrap();
            let mut now: MutexGuard<'_, u64> = self.1.lock().unwrap();
            *now += steps.pop_front().unwrap_or(0);
            *now
        }
    }

    impl Clock for SteppingClock {
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

    fn prepared(name: &str, clock: Arc<dyn Clock>) -> (Recorder, CaptureWriter, Receiver<WriterMessage>) {
        let limits = Limits { size: 16 << 20, age: Duration::MAX, incidents: 1 };
        Recorder::prepare(place(name), limits, clock)
    }

    fn stopped(text: &str) -> Body {
        Body::Stopped(Stopped { why: text.to_owned() })
    }

    #[test]
    fn pause_between_the_readings_of_two_clocks_is_no_jump() {
        // Each time, the second and the third of the three readings come ten seconds late.
        let steps = std::iter::repeat_n([0, 10, 10], 50).flatten();
        let clock =
            Arc::new(SteppingClock(Mutex::new([0, 0].into_iter().chain(steps).collect()), Mutex::new(5)));
        let (recorder, writer, messages) = prepared("pauses", clock);
        recorder.begin(Session::default(), Duration::ZERO);
        for _ in 0..10 {
            recorder.record(stopped("an entry"));
        }
        let writer = thread::spawn(move || writer.run(&messages));
        assert!(recorder.close("done", Duration::MAX));
        writer.join().unwrap();
        let directory = place("pauses");
        assert_eq!(Capture::open(&directory).unwrap().jumps, []);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn closing_and_reopening_work_with_a_full_queue() {
        let (recorder, writer, messages) = prepared("full", Arc::new(crate::clock::ManualClock::default()));
        recorder.begin(Session::default(), Duration::ZERO);
        for _ in 1..MAX_QUEUED_ENTRIES {
            recorder.record(stopped("an entry"));
        }
        assert_eq!(recorder.status().lost, 0);
        recorder.record(stopped("one too many"));
        assert_eq!(recorder.status().lost, 1);
        recorder.incident(Incident { number: 1, from: 1, to: 2, ..Incident::default() });
        recorder.reopen();
        let shared = Arc::clone(&recorder.0);
        let writer = thread::spawn(move || {
            // The writer starts only after the recorder was closed, so the queue stays full until then.
            while shared.requests.lock().unwrap().close.is_none() {
                thread::yield_now();
            }
            writer.run(&messages);
        });
        assert!(recorder.close("done", Duration::MAX));
        writer.join().unwrap();
        let directory = place("full");
        let capture = Capture::open(&directory).unwrap();
        let entries: u64 = capture.segments.iter().map(|segment| segment.entries).sum();
        // Five further entries: the sessions of two segments, the loss, the incident and the end of the recorder.
        assert_eq!(
            (capture.segments.len(), entries),
            (2, u64::try_from(MAX_QUEUED_ENTRIES).unwrap() - 1 + 5)
        );
        assert_eq!(capture.incidents[&1].to, 2, "the end of an incident is never lost");
        assert!(capture.sessions[0].stopped);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn loss_entry_names_the_calls_that_ended_in_it() {
        let ended = |mono, call| {
            let body =
                Body::CallFinished(CallFinished::new(call, Duration::ZERO, &RecordedOutcome::Answered));
            CaptureEntry { wall: 0, mono, body: Some(body) }
        };
        let mut unreported_loss = Lost::default();
        unreported_loss.add(&ended(5, 1));
        unreported_loss.add(&CaptureEntry {
            wall: 0,
            mono: 6,
            body: Some(Body::Relist(RelistDone::default())),
        });
        let mut later = Lost::default();
        later.add(&ended(9, 2));
        unreported_loss.add_all(later);
        assert_eq!(
            (unreported_loss.entries, unreported_loss.since, unreported_loss.more_ends),
            (3, 5, false)
        );
        assert_eq!(unreported_loss.ends, [LostEnd { call: 1, mono: 5 }, LostEnd { call: 2, mono: 9 }]);
        (0..2000).for_each(|call| unreported_loss.add(&ended(10, call)));
        assert!(unreported_loss.more_ends && unreported_loss.ends.len() == MAX_LOST_ENDS);
    }
}
