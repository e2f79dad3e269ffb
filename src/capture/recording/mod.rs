//! Runs a recording: relists periodically, records each call with its answer, and detects and diagnoses incidents.
//!
//! A diagnosis runs while the incident lasts, because afterwards its evidence is gone. A call that hangs is never repeated.
//! A disk that is full or does not answer stops only the writing.
//!
//! The recording prints nothing, catches no signal and applies no rule of the diagnosis. The command `record` does this for
//! it, through the traits [`RecordingHost`] and [`RecordingSignals`].
//!
//! [`Recording::run`] waits for the next relist or makes it, and meanwhile does the [`ParallelWork`]: signals, samples of the
//! node, checks for incidents, and the event stream. `incident_handler` acts on what a check finds, `background` has the
//! tasks that run next to the relists, and `state` has what the relists and the checks share.

mod background;
mod incident_handler;
mod kubelet_metrics;
mod state;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

pub use kubelet_metrics::KubeletMetricsReader;
pub use state::{FinishedRelist, IncidentCulprit, IncidentSnapshot, RecordingSnapshot};

use super::entry::{Incident, Session, kind};
use super::incident::{IncidentDetector, IncidentRules, IncidentVerdict};
use super::node::NodeSampler;
use super::recorder::{LivePendingCall, Recorder, RecorderStatus};
use crate::clock::{Clock, Mono};
use crate::cri::{Client, Endpoint, Outcome, ReceivedEvent, Version};
use crate::host::HostRoot;
use crate::kubelet::KubeletProcess;
use crate::optional_future::or_pending;
use crate::pleg::guarded_stream::{GuardedStream, StreamItem, StreamObserver, StreamSettings};
use crate::pleg::readers::{StreamReaders, readers_of, reason_of_empty_stream};
use crate::pleg::stream::{Event, Stream};
use crate::pleg::{
    CallRecord, Era, GenericPleg, OpenCall, PlegSettings, PlegTiming, RelistTimer, SharedState, Sink,
    TimerAction,
};
use crate::threads::locked;
use background::Background;
use incident_handler::IncidentHandler;
use state::RecordingState;

/// How often the node, the kubelet's metrics and the runtime's version are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// The age at which the event stream is closed and opened again, the same as in `watch`.
const MAX_STREAM_AGE: Duration = Duration::from_secs(600);

/// The time limit for writing the queued entries when a signal or `--for` ends the recording.
const CLOSE_LIMIT: Duration = Duration::from_millis(600);

/// The time limit for writing the queued entries when `--count` ends the recording, because nobody waits for that end.
const LONG_CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The reason that the capture contains if the recording ends after the number of relists in
/// [`RecordingSettings::count`].
const ENDED_BY_COUNT: &str = "--count";

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordingSettings {
    /// The pause between relists, and the age from which on PLEG is not healthy.
    pub timing: PlegTiming,
    /// The kubelet releases whose way of relisting is used.
    pub era: Era,
    /// When an incident begins, and what is pinned around it.
    pub rules: IncidentRules,
    /// The number of relists after which the recording ends.
    pub count: Option<NonZeroU64>,
    /// Whether incidents are diagnosed.
    pub diagnose: bool,
    /// The host root for the search for a restarted kubelet's settings; `None` if the user named the kubelet, so that there
    /// is no search.
    pub search_kubelet: Option<HostRoot>,
}

/// What a recording needs from the command that runs it.
pub trait RecordingHost {
    /// Returns the clock.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// Returns the endpoint of the runtime.
    fn endpoint(&self) -> &Endpoint;
    /// Searches for a runtime, if none was found so far. Returns whether one was found just now.
    fn find_runtime(&self) -> bool;
    /// Returns a client with a connection of its own.
    fn client(&self) -> Option<Client>;
    /// Returns a reader for the metrics of this kubelet; `None` if plegctl has no access to them.
    fn kubelet_metrics(&self, kubelet: KubeletProcess) -> Option<KubeletMetricsReader>;
    /// Diagnoses the node, without repeating the pending calls.
    async fn diagnose(&self, pending: Vec<LivePendingCall>) -> Option<IncidentDiagnosis>;
    /// Prints a message.
    fn notify(&self, notice: RecordingNotice<'_>);
}

/// The signals that a recording reacts to.
pub trait RecordingSignals {
    /// Waits for the next signal.
    async fn next(&mut self) -> RecordingSignal;
    /// Suspends this process until it is continued.
    async fn suspend(&mut self);
}

/// A signal to a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingSignal {
    /// End the recording, for this reason.
    End(&'static str),
    /// Close the current file and open the directory again.
    Reopen,
    /// Suspend the process.
    Suspend,
}

/// A message of a recording for its user.
#[derive(Debug)]
pub enum RecordingNotice<'a> {
    /// The runtime was found at this endpoint.
    RuntimeFound(&'a Endpoint),
    /// The runtime answered Version for the first time.
    RuntimeAnswered(&'a Version),
    /// The event stream could not be opened, and will be tried again.
    StreamUnavailable(io::Error),
    /// The runtime has no events, for this reason.
    StreamNotRecorded(&'a str),
    /// An incident began or ended: its number in the capture, and the incident.
    Incident(u64, &'a Incident),
    /// An incident was diagnosed: its number in the capture, and the first line of the diagnosis.
    Diagnosed(u64, &'a str),
}

/// The diagnosis of an incident.
#[derive(Clone, Debug)]
pub struct IncidentDiagnosis {
    /// The documents to record, each with its kind ([`kind`]) and its JSON text.
    pub documents: Vec<(u32, String)>,
    /// The verdict.
    pub verdict: IncidentVerdict,
    /// The call that the diagnosis names.
    pub culprit: Option<IncidentCulprit>,
    /// The part of the report that the recorder shows over HTTP, as JSON.
    pub shown: Arc<str>,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct RecordingSummary {
    /// The number of relists, failed ones included.
    pub relists: u64,
    /// The number of incidents.
    pub incidents: u64,
    /// The state of the recorder at the end.
    pub status: RecorderStatus,
    /// Whether the writer wrote all queued entries in time.
    pub written: bool,
}

/// A recorder that has begun its session.
pub struct BegunRecorder {
    /// The recorder.
    pub recorder: Recorder,
    /// The number of the last incident in the capture.
    pub last_incident: u64,
    /// The session.
    pub session: Session,
    /// The runtime's answer to Version, if it has answered.
    pub version: Option<Version>,
}

/// A running recording: its relists, and the work in parallel with them.
pub struct Recording<'a, H, S> {
    host: &'a H,
    count: Option<NonZeroU64>,
    client: Client,
    recorder: Recorder,
    generic: GenericPleg,
    timer: RelistTimer,
    parallel: ParallelWork<'a, H, S>,
}

/// A view of a recording for another thread. It only copies what the recording knows already.
#[derive(Clone)]
pub struct RecordingView {
    recorder: Recorder,
    state: Arc<Mutex<RecordingState>>,
    shared: Arc<SharedState>,
    clock: Arc<dyn Clock>,
}

impl RecordingView {
    /// Returns the state at this moment.
    pub fn snapshot(&self) -> RecordingSnapshot {
        let last_list = self.shared.last_list();
        let now = (self.clock.wall(), self.clock.mono());
        let mut snapshot = locked(&self.state).snapshot(now);
        snapshot.pleg_age = last_list.map(|last| now.1.since(last));
        if let Some(incident) = &mut snapshot.incident {
            incident.number = self.recorder.number_in_capture(incident.number);
        }
        snapshot
    }

    /// Returns the pinned incidents of the capture and the incidents of this recording.
    pub fn incidents(&self) -> IncidentSnapshot {
        let mut incidents: BTreeMap<u64, Incident> = BTreeMap::new();
        let in_capture = self.recorder.status().incidents;
        incidents.extend(in_capture.iter().map(|incident| (incident.number, incident.clone())));
        let state = locked(&self.state);
        let (listed, open) = (state.listed.clone(), state.detector.open_incident().map(|open| open.number));
        drop(state);
        let number_in_capture = |number| self.recorder.number_in_capture(number);
        // This recording knows its incidents even if the disk does not answer.
        incidents.extend(listed.into_iter().map(|mut incident| {
            incident.number = number_in_capture(incident.number);
            (incident.number, incident)
        }));
        IncidentSnapshot {
            taken_at: self.clock.wall(),
            open: open.map(number_in_capture),
            incidents: incidents.into_values().collect(),
        }
    }
}

/// The work in parallel with relists: checks for incidents, signals, samples of the node and the event stream.
struct ParallelWork<'a, H, S> {
    handler: IncidentHandler<'a, H>,
    signals: S,
    sample_ticks: Interval,
    guarded_stream: Option<GuardedStream>,
    availability: StreamAvailability,
    /// The session as the capture has it, while the name of the runtime is missing in it; `None` as soon as the runtime has
    /// answered Version.
    unnamed_session: Option<Session>,
}

/// A reason to work while a relist runs or is not yet due.
enum Interruption {
    /// A signal arrived.
    Signal(RecordingSignal),
    /// The next sample of the node is due.
    Sample,
    /// The next check for incidents is due.
    Check,
    /// The event stream has an event or an end.
    Stream(StreamItem),
}

/// Tracks whether the runtime's event stream can be read. It ignores the events, because the client's observer records
/// them.
#[derive(Default)]
struct StreamAvailability {
    /// The error with which this runtime ends the stream at once, because its events are switched off; `None` if it has no
    /// such error.
    reason_of_empty: Cell<Option<&'static str>>,
    /// Whether the stream has ended with the error in `reason_of_empty`.
    ended_at_once: Cell<bool>,
    /// Whether the user knows that the stream cannot be opened at the moment.
    reported_unavailable: Cell<bool>,
}

impl StreamObserver for StreamAvailability {
    fn stream(&self, notice: Stream) {
        let reason_of_empty = self.reason_of_empty.get();
        if reason_of_empty.is_some() && notice.error.as_deref() == reason_of_empty {
            self.ended_at_once.set(true);
        }
    }

    fn event_received(&self, _event: &ReceivedEvent) {}

    fn dropped(&self, _events: u64, _notice: Stream) {}

    fn stream_failed(&self) {}

    fn cache_too_large(&self) {}

    fn sink(&self) -> Box<dyn Sink + '_> {
        Box::<Vec<Event>>::default()
    }
}

/// Records the pod events of a relist, and remembers the pending call.
struct RelistSink<'a> {
    recorder: &'a Recorder,
    state: &'a Mutex<RecordingState>,
}

impl Sink for RelistSink<'_> {
    fn event(&mut self, event: Event) {
        // Events of the first relist are left out, because the lists contain the same information.
        if !event.initial {
            self.recorder.document(kind::EVENT, &event);
        }
    }

    fn call_started(&mut self, call: &OpenCall) {
        locked(self.state).open_call = Some(call.clone());
    }

    fn call_finished(&mut self, _call: &CallRecord) {
        locked(self.state).open_call = None;
    }
}

impl<'a, H: RecordingHost, S: RecordingSignals> Recording<'a, H, S> {
    /// Prepares a recording. `client` makes the calls of relists; `kubelet` is the process id of the kubelet that `metrics`
    /// reads.
    pub fn new(
        settings: RecordingSettings,
        host: &'a H,
        signals: S,
        begun: BegunRecorder,
        client: Client,
        sampler: NodeSampler,
        (kubelet, metrics): (Option<u32>, Option<KubeletMetricsReader>),
    ) -> Self {
        let BegunRecorder { recorder, last_incident, session, version } = begun;
        let now = host.clock().mono();
        let availability = StreamAvailability::default();
        availability.reason_of_empty.set(version.as_ref().and_then(reason_of_empty_stream));
        let shared = Arc::new(SharedState::new(false));
        let pleg = PlegSettings { era: settings.era, evented_gate: false, inspect: true };
        let detector = IncidentDetector::new(settings.rules, last_incident);
        let mut sample_ticks = tokio::time::interval(SAMPLE_INTERVAL);
        sample_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            host,
            count: settings.count,
            client,
            recorder: recorder.clone(),
            generic: GenericPleg::new(Arc::clone(&shared), pleg),
            timer: RelistTimer::start(settings.timing, now),
            parallel: ParallelWork {
                unnamed_session: version.is_none().then_some(session),
                guarded_stream: version.and_then(|version| guarded_stream(host, version)),
                handler: IncidentHandler {
                    settings,
                    host,
                    recorder,
                    shared,
                    state: Arc::new(Mutex::new(RecordingState::new(detector, (host.clock().wall(), now)))),
                    background: Background::new(kubelet),
                    sampler,
                    metrics: metrics.map(Rc::new),
                },
                signals,
                sample_ticks,
                availability,
            },
        }
    }

    /// Returns the state from which the metrics page renders the kubelet's PLEG metrics.
    pub fn shared_state(&self) -> Arc<SharedState> {
        Arc::clone(&self.parallel.handler.shared)
    }

    /// Returns a function that renders the recorder's own metrics for Prometheus.
    pub fn metrics_page(&self) -> Arc<dyn Fn() -> String + Send + Sync> {
        let (recorder, state) = (self.recorder.clone(), Arc::clone(&self.parallel.handler.state));
        Arc::new(move || locked(&state).metrics_page(&recorder.status()))
    }

    /// Returns a view of the recording for another thread, which makes no call to the runtime and does not read the disk.
    pub fn view(&self) -> RecordingView {
        let handler = &self.parallel.handler;
        RecordingView {
            recorder: self.recorder.clone(),
            state: Arc::clone(&handler.state),
            shared: Arc::clone(&handler.shared),
            clock: Arc::clone(self.host.clock()),
        }
    }

    /// Records until a signal or the requested number of relists ends the recording.
    pub async fn run(mut self) -> RecordingSummary {
        let why = loop {
            let ended = match self.timer.next(self.host.clock().mono()) {
                TimerAction::Relist => {
                    self.find_runtime();
                    self.relist().await
                }
                TimerAction::Wait(until) => {
                    let pause = until.since(self.host.clock().mono());
                    self.parallel.work_during(tokio::time::sleep(pause), None).await.err()
                }
            };
            if let Some(why) = ended {
                break why;
            }
        };
        self.finish(why)
    }

    /// Searches for the runtime again if no runtime was found at the start.
    fn find_runtime(&mut self) {
        let Some(session) = &mut self.parallel.unnamed_session else { return };
        if !self.host.find_runtime() {
            return;
        }
        let Some(client) = self.host.client() else { return };
        self.client = client.with_observer(self.recorder.observer(true));
        let endpoint = self.host.endpoint();
        session.endpoint = endpoint.to_string();
        self.recorder.update_session(session.clone());
        self.host.notify(RecordingNotice::RuntimeFound(endpoint));
    }

    /// Makes one relist; returns the reason if the recording is over.
    async fn relist(&mut self) -> Option<&'static str> {
        let Self { host, client, recorder, generic, parallel, .. } = self;
        let clock = host.clock();
        let began = recorder.now();
        recorder.relist_begins(generic.relists() + 1);
        let started = clock.mono();
        let state = Arc::clone(&parallel.handler.state);
        let mut sink = RelistSink { recorder, state: &state };
        if let Some(guarded_stream) = &mut parallel.guarded_stream {
            guarded_stream.relisted();
        }
        let relist = generic.relist(client, &**clock, &mut sink);
        let report = match parallel.work_during(relist, Some(started)).await {
            Ok(report) => report,
            Err(why) => return Some(why),
        };
        recorder.relist_begins(0);
        parallel.handler.relist_finished(began, &report);
        parallel.relist_finished(report.outcome == Outcome::Ok).await;
        self.timer.relisted(clock.mono());
        self.count.is_some_and(|count| self.generic.relists() >= count.get()).then_some(ENDED_BY_COUNT)
    }

    /// Closes the event stream and the capture.
    fn finish(self, why: &str) -> RecordingSummary {
        let Self { client, recorder, generic, parallel, .. } = self;
        let ParallelWork { handler, guarded_stream, availability, .. } = parallel;
        if let Some(incident) = locked(&handler.state).detector.open_incident() {
            recorder.incident(incident.clone());
        }
        // Pending calls are abandoned, and recorded as abandoned.
        if let Some(mut guarded_stream) = guarded_stream {
            guarded_stream.release("the recording is over", &availability);
        }
        drop(handler.background);
        drop(client);
        let time_limit = if why == ENDED_BY_COUNT { LONG_CLOSE_LIMIT } else { CLOSE_LIMIT };
        let written = recorder.close(why, time_limit);
        let incidents = locked(&handler.state).incidents;
        RecordingSummary { relists: generic.relists(), incidents, status: recorder.status(), written }
    }
}

impl<H: RecordingHost, S: RecordingSignals> ParallelWork<'_, H, S> {
    /// Runs the parallel work until `work` is done. `relist` is the time at which the current relist began, if one runs.
    /// Fails with the reason if the recording is over.
    async fn work_during<T>(
        &mut self,
        work: impl Future<Output = T>,
        relist: Option<Mono>,
    ) -> Result<T, &'static str> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Ok(result),
                end = self.handle_next(relist) => {
                    if let Some(why) = end {
                        return Err(why);
                    }
                }
            }
        }
    }

    /// Waits for the next interruption or background result, and handles it. Returns the reason if the recording is over.
    /// The future may be dropped while it waits.
    async fn handle_next(&mut self, relist: Option<Mono>) -> Option<&'static str> {
        let Self { handler, signals, sample_ticks, guarded_stream, availability, .. } = self;
        let time_to_check = handler.time_to_next_check(relist);
        let items = guarded_stream.as_mut().map(|stream| stream.next_item(std::future::ready(())));
        let interruption = tokio::select! {
            biased;
            result = handler.background.next() => {
                if let Some(version) = handler.background_finished(result) {
                    self.runtime_answered(version);
                }
                return None;
            }
            signal = signals.next() => Interruption::Signal(signal),
            _ = sample_ticks.tick() => Interruption::Sample,
            () = tokio::time::sleep(time_to_check) => Interruption::Check,
            item = or_pending(items) => Interruption::Stream(item),
        };
        match interruption {
            Interruption::Signal(RecordingSignal::End(why)) => return Some(why),
            Interruption::Signal(RecordingSignal::Reopen) => handler.recorder.reopen(),
            Interruption::Signal(RecordingSignal::Suspend) => {
                // A suspended process does not read the stream, and an unread stream can block the node.
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.release("closed by plegctl before it was suspended", availability);
                }
                signals.suspend().await;
            }
            Interruption::Sample => handler.sample(),
            Interruption::Check => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.check(availability);
                }
                handler.check(relist);
            }
            Interruption::Stream(item) => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.handle(item, availability);
                }
            }
        }
        None
    }

    /// Records the name of a runtime that answered Version for the first time, and prepares its event stream.
    fn runtime_answered(&mut self, version: Version) {
        let Some(mut session) = self.unnamed_session.take() else { return };
        self.availability.reason_of_empty.set(reason_of_empty_stream(&version));
        self.handler.host.notify(RecordingNotice::RuntimeAnswered(&version));
        session.runtime.clone_from(&version.runtime_name);
        session.runtime_version.clone_from(&version.runtime_version);
        self.handler.recorder.update_session(session);
        self.guarded_stream = guarded_stream(self.handler.host, version);
    }

    /// After a relist, requests the version of a runtime that has just answered its first call. Opens the event stream if it
    /// is due, as the kubelet does.
    async fn relist_finished(&mut self, answered: bool) {
        let host = self.handler.host;
        if answered && self.unnamed_session.is_some() {
            self.handler.request_version(host.clock().mono());
        }
        let Some(guarded_stream) = &mut self.guarded_stream else { return };
        let availability = &self.availability;
        if let Err(why) = guarded_stream.open_if_due(availability).await {
            // The process may have run out of threads or file descriptors, so a later attempt may succeed.
            guarded_stream.postpone();
            if !availability.reported_unavailable.replace(true) {
                host.notify(RecordingNotice::StreamUnavailable(why));
            }
        } else if availability.ended_at_once.get() {
            let why = availability.reason_of_empty.get().unwrap_or_default();
            host.notify(RecordingNotice::StreamNotRecorded(why));
            self.guarded_stream = None;
        } else if guarded_stream.is_open() {
            availability.reported_unavailable.set(false);
        }
    }
}

/// Returns the event stream, if the runtime allows a second reader next to the kubelet.
fn guarded_stream(host: &impl RecordingHost, version: Version) -> Option<GuardedStream> {
    let replayed = matches!(host.endpoint(), Endpoint::Custom { .. });
    if replayed || readers_of(&version) != StreamReaders::Several {
        return None;
    }
    let settings = StreamSettings {
        // A recorder outlives any number of restarts of its runtime.
        retries: u32::MAX,
        max_age: MAX_STREAM_AGE,
        guarded: matches!(host.endpoint(), Endpoint::Unix { .. }),
        // The recorder does not process the events.
        hint: true,
    };
    let shared = Arc::new(SharedState::new(true));
    Some(GuardedStream::new(host.client()?, version, Arc::clone(host.clock()), shared, settings))
}
