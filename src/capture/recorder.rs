//! Records calls, documents and incidents in a capture. Entries go through a bounded queue to a writer thread, so that a
//! disk that hangs delays nothing else.
//!
//! The start of a call is queued before the call is sent. An entry that does not fit into the queue, or that the disk does
//! not accept, is counted as lost. As soon as entries are accepted again, the recorder first records an entry about the
//! loss.
//!
//! The queue never loses the end of a call whose start it has accepted, because a call without an end looks like a call
//! that hangs. If such an end does not fit, only its answer is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::watch;

use super::entry::{
    Body, CallFinished, CallStarted, CaptureEntry, Incident, Lost, LostEnd, RecordedOutcome, RelistDone,
    Session, Stopped, StoredDocument, StoredMessage, nanos, rpc_number, unencoded,
};
use super::store::CarriedEntries;
use super::{Error, Extent, Limits, Store, on_node};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::server::RequestSubject;
use crate::cri::{self, CallEnd, CallObserver, Rpc, WaitEnd};
use crate::diagnosis::forecast::LimitForecast;
use crate::pleg::stream::Relist;
use crate::report::json;
use crate::threads::locked;

/// The maximum size of the queued entries in bytes: hours of a quiet node. A single entry may be larger.
const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// The size of the largest end of a call without its answer: the entry and its error message, which has at most 4 KiB.
const MAX_END_SIZE: usize = size_of::<WriterMessage>() + 8 * 1024;

/// The pause after a failed write until the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The smallest change of the wall clock against the monotonic clock that counts as a jump; less is drift.
const MIN_CLOCK_JUMP: Duration = Duration::from_millis(500);

/// The reason for a loss if the queue is full.
pub const QUEUE_FULL: &str = "the disk did not keep up";

/// Counts the lost entries that the capture does not mention yet.
impl Lost {
    fn add(&mut self, entry: &CaptureEntry) {
        if self.entries == 0 {
            self.since = entry.mono.max(1);
        }
        self.entries += 1;
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
    /// Replace the session's details, which became known at these times.
    UpdateSession(Session, Wall, u64),
    /// Show this text about forecasts to readers on the node, or remove the earlier one.
    Forecasts(Option<String>),
    /// Close the current segment and open the directory's path again.
    Reopen,
    /// Close the capture for this reason, and confirm it through the sender.
    Close(String, SyncSender<()>),
}

/// What decides which entries go into the queue.
#[derive(Default)]
struct QueueAdmission {
    /// The wall clock minus the monotonic clock.
    offset: i64,
    /// The calls whose start went into the queue and whose end did not yet. The queue has room for these ends.
    begun: BTreeSet<u64>,
    /// The starts that did not fit, of calls that are still pending.
    left_out: BTreeMap<u64, CaptureEntry>,
    /// The lost entries that the queue does not mention yet.
    lost: Lost,
}

impl QueueAdmission {
    /// Whether entries were lost or left out, and the queue does not mention it yet.
    fn is_losing(&self) -> bool {
        self.lost.entries > 0 || !self.left_out.is_empty()
    }
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
    queue: Sender<WriterMessage>,
    /// The writer thread, which sleeps while the queue is empty.
    writer: Mutex<Option<Thread>>,
    queued_bytes: AtomicUsize,
    /// The number of lost entries.
    lost: AtomicU64,
    pending: Mutex<BTreeMap<u64, TrackedCall>>,
    status: Mutex<RecorderStatus>,
    clock: Arc<dyn Clock>,
    origin: Mono,
    /// The lock is held while the clocks are read and the entry is queued, so that entries are in the order of their times.
    admission: Mutex<QueueAdmission>,
    calls: AtomicU64,
    relist: AtomicU64,
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
    /// Whether the calls are written to the capture. If not, it is only known which of them are pending.
    writes: bool,
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
        let (queue, messages) = channel();
        let (open_result, opened) = sync_channel(1);
        let origin = clock.mono();
        let shared = Arc::new(RecorderShared {
            queue,
            writer: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            pending: Mutex::default(),
            status: Mutex::default(),
            admission: Mutex::new(QueueAdmission {
                offset: clock.wall().nanos(),
                ..QueueAdmission::default()
            }),
            clock,
            origin,
            calls: AtomicU64::new(1),
            relist: AtomicU64::new(0),
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
            unwritten_starts: BTreeSet::new(),
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
        self.send(WriterMessage::Begin(session, self.0.clock.wall().nanos(), done));
        // After the time limit, the session is still written before all later entries.
        let _ = over.recv_timeout(limit);
    }

    /// Replaces the session's details, for example once the runtime's name is known.
    pub fn update_session(&self, session: Session) {
        self.send(WriterMessage::UpdateSession(session, self.0.clock.wall(), self.now()));
    }

    /// Returns the number in the capture of an incident of this recording.
    pub fn number_in_capture(&self, incident: u64) -> u64 {
        incident.saturating_add(self.0.earlier_incidents.load(Ordering::SeqCst))
    }

    /// Returns an observer that records the calls of a client. `relists` is true for the client that makes the calls of
    /// relists.
    pub fn observer(&self, relists: bool) -> Arc<dyn CallObserver> {
        Arc::new(CallRecorder { recorder: self.clone(), relists, writes: true })
    }

    /// Returns an observer that records nothing: [`Self::pending_calls`] has the calls of its client too, so that no diagnosis
    /// repeats one that hangs.
    pub fn observer_of_pending_calls(&self) -> Arc<dyn CallObserver> {
        Arc::new(CallRecorder { recorder: self.clone(), relists: false, writes: false })
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
        self.add(body);
        self.wake_writer();
    }

    /// Queues an entry with the present time. The writer finds it when it is woken for the next one.
    fn add(&self, body: Body) {
        let mut admission = locked(&self.0.admission);
        let earliest = self.now();
        let wall = self.0.clock.wall();
        let latest = self.now();
        let jump = clock_jump(&mut admission.offset, wall, earliest..=latest);
        let entry = |body| CaptureEntry { wall: wall.nanos(), mono: earliest, body: Some(body) };
        if self.0.queued_bytes.load(Ordering::SeqCst) <= MAX_QUEUED_BYTES / 2 {
            self.end_loss(&mut admission, entry);
        }
        if let Some(by) = jump {
            self.queue(&mut admission, entry(Body::Jump(super::entry::Jump { by })));
        }
        self.queue(&mut admission, entry(body));
    }

    /// Queues an entry about the loss, if there is one, and the starts that did not fit of calls that are still pending.
    /// From now on, the queue accepts entries again.
    fn end_loss(&self, admission: &mut QueueAdmission, entry: impl Fn(Body) -> CaptureEntry) {
        let lost = std::mem::take(&mut admission.lost);
        if lost.entries > 0 {
            self.send_entry(entry(Body::Lost(Lost { why: QUEUE_FULL.to_owned(), ..lost })));
        }
        for (call, start) in std::mem::take(&mut admission.left_out) {
            admission.begun.insert(call);
            self.send_entry(start);
        }
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

    /// Queues an entry for the writer. If the queue is full, the entry counts as lost, except an incident, because incidents
    /// decide which segments are kept, and the end of a call.
    fn queue(&self, admission: &mut QueueAdmission, mut entry: CaptureEntry) {
        let fits = |admission: &QueueAdmission, size: usize| {
            let queued = self.0.queued_bytes.load(Ordering::SeqCst);
            let occupied = queued.saturating_add(admission.begun.len() * MAX_END_SIZE);
            // After a loss, entries are refused until the queue is half empty, so that there are few losses.
            !admission.is_losing() && (queued == 0 || occupied.saturating_add(size) <= MAX_QUEUED_BYTES)
        };
        let size = queue_size(&entry);
        match &mut entry.body {
            Some(Body::Incident(_)) => {}
            Some(Body::CallStarted(started)) => {
                let call = started.call;
                if !fits(admission, size + MAX_END_SIZE) {
                    admission.left_out.insert(call, entry);
                    return;
                }
                admission.begun.insert(call);
            }
            Some(Body::CallFinished(ended)) => {
                if let Some(start) = admission.left_out.remove(&ended.call) {
                    return self.lose(admission, &[start, entry]);
                }
                admission.begun.remove(&ended.call);
                if !ended.answers.is_empty() && !fits(admission, size) {
                    ended.answers.clear();
                    ended.omitted = true;
                    self.lose(admission, std::slice::from_ref(&entry));
                }
            }
            _ if !fits(admission, size) => return self.lose(admission, &[entry]),
            _ => {}
        }
        self.send_entry(entry);
    }

    /// Counts lost entries.
    fn lose(&self, admission: &mut QueueAdmission, entries: &[CaptureEntry]) {
        for entry in entries {
            admission.lost.add(entry);
            self.0.lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn send_entry(&self, entry: CaptureEntry) {
        self.0.queued_bytes.fetch_add(queue_size(&entry), Ordering::SeqCst);
        // The writer is gone only after the capture was closed.
        let _ = self.0.queue.send(WriterMessage::Entry(entry));
    }

    fn send(&self, message: WriterMessage) {
        // As above.
        let _ = self.0.queue.send(message);
        self.wake_writer();
    }

    fn wake_writer(&self) {
        // A writer that has not started yet looks into the queue first.
        if let Some(writer) = &*locked(&self.0.writer) {
            writer.unpark();
        }
    }

    /// Returns the pending calls of all clients in the order in which they were sent.
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

    /// Shows the commands on this node which limits of the runtime at `endpoint` will be reached.
    pub fn show_forecasts(&self, endpoint: &str, forecasts: &[LimitForecast]) {
        self.send(WriterMessage::Forecasts(on_node::text_of(endpoint, forecasts)));
    }

    /// Closes the current segment and opens the directory's path again, which may be another directory by now.
    pub fn reopen(&self) {
        self.send(WriterMessage::Reopen);
    }

    /// Returns the state of the recorder.
    pub fn status(&self) -> RecorderStatus {
        let status = locked(&self.0.status).clone();
        RecorderStatus { lost: self.0.lost.load(Ordering::SeqCst), ..status }
    }

    /// Writes the queued entries and closes the capture. Returns whether this was done within `limit`.
    pub fn close(&self, why: &str, limit: Duration) -> bool {
        let mut admission = locked(&self.0.admission);
        let (wall, mono) = (self.0.clock.wall().nanos(), self.now());
        self.end_loss(&mut admission, |body| CaptureEntry { wall, mono, body: Some(body) });
        drop(admission);
        let (done, over) = sync_channel(1);
        self.send(WriterMessage::Close(why.to_owned(), done));
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
    let content = match &entry.body {
        Some(Body::CallStarted(started)) => started.request.len(),
        Some(Body::CallFinished(ended)) => {
            let answers = ended.answers.iter().map(|answer| size_of::<StoredMessage>() + answer.bytes.len());
            ended.message.len() + answers.sum::<usize>()
        }
        Some(Body::Document(document)) => document.text.len(),
        _ => 0,
    };
    size_of::<WriterMessage>() + content
}

impl CallObserver for CallRecorder {
    fn call_started(&self, rpc: Rpc, request: Bytes) -> u64 {
        let shared = &self.recorder.0;
        let call = shared.calls.fetch_add(1, Ordering::SeqCst);
        let relist = if self.relists { shared.relist.load(Ordering::SeqCst) } else { 0 };
        let subject = RequestSubject::read(rpc, request.clone()).ok();
        let id = subject.map(|subject| subject.id().to_owned()).filter(|id| !id.is_empty());
        let sent = shared.clock.mono();
        let pending = TrackedCall { rpc, id, sent, ended: watch::Sender::new(None) };
        locked(&shared.pending).insert(call, pending);
        if self.writes {
            let rpc = rpc_number(rpc);
            self.recorder.record(Body::CallStarted(CallStarted { call, rpc, request, relist }));
        }
        call
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
        if !self.writes {
            return;
        }
        let mut ended = CallFinished::new(call, took, &outcome);
        ended.answers = messages.into_iter().map(unencoded).collect();
        // The end of a relist's call is followed at once by the start of the next one, or by the end of the relist.
        self.recorder.add(Body::CallFinished(ended));
        if !self.relists {
            self.recorder.wake_writer();
        }
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
    /// The entries that could not be written, and that the capture does not mention yet.
    unreported_loss: Lost,
    /// The calls whose start could not be written. The ends of other calls are missing in the capture.
    unwritten_starts: BTreeSet<u64>,
}

impl CaptureWriter {
    /// Writes entries and handles requests until the capture is closed.
    fn run(mut self, messages: &Receiver<WriterMessage>) {
        if let Err(why) = self.open() {
            self.trouble = Some((0, why.to_string()));
            self.answer(Err(why));
        }
        self.report();
        *locked(&self.shared.writer) = Some(thread::current());
        while let Some(message) = next_message(messages) {
            if let WriterMessage::Close(why, done) = message {
                self.close(why);
                // The receiver may have reached its time limit.
                let _ = done.send(());
                return;
            }
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
            WriterMessage::UpdateSession(session, wall, mono) => match &mut self.store {
                // If this cannot be written now, the next segment begins with the updated session.
                Some(store) => drop(store.update_session(session, wall.nanos(), mono)),
                None => self.carried.update_session(session),
            },
            WriterMessage::Forecasts(text) => {
                if let Some(store) = &mut self.store {
                    store.show_forecasts(text.as_deref());
                }
            }
            WriterMessage::Reopen => self.reopen(),
            // Handled by the caller, which ends.
            WriterMessage::Close(..) => {}
        }
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
        status.trouble = self.trouble.as_ref().map(|(_, why)| why.clone());
    }

    /// Writes an entry. If the disk does not accept it, tries again after a pause.
    fn write(&mut self, mut entry: CaptureEntry) {
        let again = nanos(RETRY_PAUSE);
        let is_pausing =
            self.trouble.as_ref().is_some_and(|(since, _)| entry.mono < since.saturating_add(again));
        let ready = if is_pausing || self.store.is_some() { Ok(()) } else { self.open() };
        if self.shared.earlier_known.load(Ordering::SeqCst)
            && let Some(Body::Incident(incident)) = &mut entry.body
        {
            incident.number =
                incident.number.saturating_add(self.shared.earlier_incidents.load(Ordering::SeqCst));
        }
        let written = ready
            .map_err(|why| why.to_string())
            .and_then(|()| if is_pausing { Ok(false) } else { self.write_now(&entry).map(|()| true) });
        if written == Ok(true) {
            self.trouble = None;
            return;
        }
        self.add_loss(&entry);
        let mono = entry.mono;
        // Open calls and incidents are remembered, and repeated in the next segment.
        match &mut self.store {
            Some(store) => store.track_unwritten(entry),
            None => self.carried.remember(entry),
        }
        if let Err(why) = written {
            self.trouble = Some((mono, why));
        }
    }

    /// Writes an entry, after an entry about earlier entries that could not be written, if there are any.
    fn write_now(&mut self, entry: &CaptureEntry) -> Result<(), String> {
        let Some(store) = &mut self.store else { return Ok(()) };
        if self.unreported_loss.entries > 0 {
            let why = self.trouble.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
            let body = Some(Body::Lost(Lost { why, ..self.unreported_loss.clone() }));
            store.write(CaptureEntry { body, ..entry.clone() }).map_err(|why| why.to_string())?;
            self.unreported_loss = Lost::default();
            self.unwritten_starts.clear();
        }
        store.write(entry.clone()).map_err(|why| why.to_string())
    }

    /// Counts an entry that could not be written. If it is the end of a call, keeps the call's number, so that the call does
    /// not look silent.
    fn add_loss(&mut self, entry: &CaptureEntry) {
        if let Some(Body::Lost(earlier)) = &entry.body {
            if self.unreported_loss.entries == 0 {
                self.unreported_loss.since = earlier.since;
            }
            self.unreported_loss.entries += earlier.entries;
            return;
        }
        self.unreported_loss.add(entry);
        self.shared.lost.fetch_add(1, Ordering::SeqCst);
        match &entry.body {
            Some(Body::CallStarted(started)) => {
                self.unwritten_starts.insert(started.call);
            }
            Some(Body::CallFinished(ended)) if !self.unwritten_starts.remove(&ended.call) => {
                self.unreported_loss.ends.push(LostEnd { call: ended.call, mono: entry.mono });
            }
            _ => {}
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
        let (wall, mono) = (self.shared.clock.wall().nanos(), self.shared.now());
        // If the disk is full, this entry is lost too.
        let _ = self.write_now(&CaptureEntry { wall, mono, body: Some(Body::Stopped(Stopped { why })) });
        if let Some(store) = &mut self.store {
            // The reserved space is released before the size is reported.
            store.seal();
            store.show_forecasts(None);
        }
        self.report();
        self.store = None;
    }
}

/// Returns the next message. The thread sleeps until it is woken, so that an idle recorder uses no processor time. It does not wait in
/// the channel, whose lock the sender holds while it wakes the thread.
fn next_message(messages: &Receiver<WriterMessage>) -> Option<WriterMessage> {
    loop {
        match messages.try_recv() {
            Err(TryRecvError::Empty) => thread::park(),
            received => return received.ok(),
        }
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

    /// Lets the writer write everything, and opens the capture.
    fn written(
        name: &str,
        recorder: &Recorder,
        writer: CaptureWriter,
        messages: Receiver<WriterMessage>,
    ) -> Capture {
        let writer = thread::spawn(move || writer.run(&messages));
        assert!(recorder.close("done", Duration::MAX));
        writer.join().unwrap();
        let directory = place(name);
        let capture = Capture::open(&directory).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        capture
    }

    const ANSWER: usize = 1 << 20;

    fn start_call(recorder: &Recorder) -> u64 {
        recorder.observer(true).call_started(Rpc::ListContainers, Bytes::new())
    }

    fn end_call(recorder: &Recorder, call: u64) {
        let answer = vec![Bytes::from(vec![0; ANSWER])];
        recorder.observer(true).call_ended(call, Duration::from_secs(1), CallEnd::Answered(answer));
    }

    /// Records answered calls until the queue is full. Returns their number.
    fn fill_queue(recorder: &Recorder) -> usize {
        for calls in 1.. {
            let call = start_call(recorder);
            end_call(recorder, call);
            if recorder.status().lost > 0 {
                return calls;
            }
        }
        unreachable!()
    }

    #[test]
    fn full_queue_loses_answers_but_no_end_of_a_recorded_call() {
        let clock = Arc::new(crate::clock::ManualClock::default());
        let (recorder, writer, messages) = prepared("ends", Arc::clone(&clock) as _);
        recorder.begin(Session::default(), Duration::ZERO);
        let [pending, ends_late] = [(); 2].map(|()| start_call(&recorder));
        let before = fill_queue(&recorder);
        assert!(before >= MAX_QUEUED_BYTES / ANSWER, "{before} answers of 1 MiB fit");
        clock.advance(Duration::from_secs(60));
        end_call(&recorder, ends_late);
        // These calls begin while the queue is full: one ends, the other one is still pending when the disk works again.
        let short = start_call(&recorder);
        end_call(&recorder, short);
        let hangs = start_call(&recorder);
        clock.advance(Duration::from_secs(60));
        // The answers of the last call before and of `ends_late` are lost, and both entries of `short`.
        assert_eq!(recorder.status().lost, 4);
        let capture = written("ends", &recorder, writer, messages);
        let open: Vec<_> =
            capture.calls.iter().filter(|call| call.end.is_none()).map(|call| call.number).collect();
        assert_eq!(open, [pending, hangs]);
        assert!(capture.calls.iter().all(|call| call.lost.is_none() && call.number != short));
        let hanging = capture.calls.iter().find(|call| call.number == hangs).unwrap();
        assert_eq!(capture.seen_open(hanging), Duration::from_secs(60));
        let late = capture.calls.iter().find(|call| call.number == ends_late).unwrap();
        assert!(late.end.as_ref().unwrap().omitted);
        let losses: Vec<_> =
            capture.losses.iter().map(|(.., lost)| (lost.entries, lost.why.as_str())).collect();
        assert_eq!(losses, [(4, QUEUE_FULL)]);
    }

    #[test]
    fn calls_of_a_look_at_a_quiet_node_are_pending_and_not_in_the_capture() {
        let (recorder, writer, messages) = prepared("look", Arc::new(crate::clock::ManualClock::default()));
        recorder.begin(Session::default(), Duration::ZERO);
        let observer = recorder.observer_of_pending_calls();
        let [answered, _hangs] = [(); 2].map(|()| observer.call_started(Rpc::ContainerStatus, Bytes::new()));
        observer.call_ended(answered, Duration::from_secs(1), CallEnd::Answered(Vec::new()));
        assert_eq!(recorder.pending_calls().len(), 1);
        assert!(written("look", &recorder, writer, messages).calls.is_empty());
    }

    #[test]
    fn closing_and_reopening_work_with_a_full_queue() {
        let (recorder, writer, messages) = prepared("full", Arc::new(crate::clock::ManualClock::default()));
        recorder.begin(Session::default(), Duration::ZERO);
        fill_queue(&recorder);
        recorder.incident(Incident { number: 1, from: 1, to: 2, ..Incident::default() });
        recorder.reopen();
        let capture = written("full", &recorder, writer, messages);
        assert_eq!(capture.incidents[&1].to, 2, "the end of an incident is never lost");
        assert!(capture.sessions[0].stopped);
    }

    #[test]
    fn entry_about_unwritten_entries_names_the_recorded_calls_that_ended_in_them() {
        let clock = Arc::new(crate::clock::ManualClock::default());
        let (recorder, mut writer, messages) = prepared("unwritten", Arc::clone(&clock) as _);
        recorder.begin(Session::default(), Duration::ZERO);
        let written_start = start_call(&recorder);
        (0..2).for_each(|_| writer.handle(messages.recv().unwrap()));
        // The disk refuses the entries of the next ten seconds.
        writer.trouble = Some((recorder.now(), "no space".to_owned()));
        let other = start_call(&recorder);
        end_call(&recorder, other);
        end_call(&recorder, written_start);
        (0..3).for_each(|_| writer.handle(messages.recv().unwrap()));
        assert_eq!(recorder.status().lost, 3);
        // The recorder ends before it tries again.
        writer.close("done".to_owned());
        let directory = place("unwritten");
        let capture = Capture::open(&directory).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        let lost = &capture.losses[0].2;
        assert_eq!((lost.entries, lost.why.as_str()), (3, "no space"));
        assert_eq!(lost.ends.iter().map(|end| end.call).collect::<Vec<_>>(), [written_start]);
        let call = |number| capture.calls.iter().find(|call| call.number == number);
        assert!(call(written_start).unwrap().lost.is_some() && call(other).is_none());
    }
}
