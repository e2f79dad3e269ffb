//! Runs a recording: relists periodically, records each call with its answer, and detects and diagnoses incidents.
//!
//! A diagnosis runs while the incident lasts, because afterwards its evidence is gone. A call that hangs is never repeated.
//! A disk that is full or does not answer stops only the writing.
//!
//! The recording prints nothing, catches no signal and applies no rule of the diagnosis. The command `record` does this for
//! it, through the traits [`RecordingHost`] and [`RecordingSignals`].
//!
//! [`Recording::run`] waits for the next relist or makes it. Meanwhile `ParallelWork` handles signals, samples of the node
//! and checks for incidents. `incident_handler` acts on what a check finds, `background` has the tasks that run next to the
//! relists, and `state` has what the relists and the checks share.

mod background;
mod incident_handler;
mod kubelet_metrics;
mod node_sampler;
mod parallel_work;
mod state;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

pub use kubelet_metrics::KubeletMetricsReader;
pub use node_sampler::NodeSampler;
pub use state::{FinishedRelist, IncidentCulprit, IncidentSnapshot, MeasuredText, RecordingSnapshot};

use super::entry::{ENDED_BY_COUNT, Incident, Session, kind};
use super::incident::{IncidentDetector, IncidentRules, IncidentVerdict, Prediction};
use super::recorder::{LivePendingCall, Recorder, RecorderStatus};
use crate::clock::Clock;
use crate::cri::{Client, Endpoint, Outcome, Version};
use crate::diagnosis::facts::Fact;
use crate::diagnosis::report::NotChecked;
use crate::host::HostRoot;
use crate::kubelet::{KubeletProcess, ListLimit};
use crate::pleg::report::ListCallsReport;
use crate::pleg::stream::Event;
use crate::pleg::{
    CallRecord, Era, GenericPleg, OpenCall, PlegSettings, PlegState, PlegTiming, RelistTimer, SharedState,
    Sink, TimerAction,
};
use crate::test_settings;
use crate::threads::locked;
use background::Background;
use incident_handler::IncidentHandler;
use parallel_work::ParallelWork;
use state::RecordingState;

/// How often the node, the kubelet's metrics and the runtime's version are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit for writing the queued entries when a signal or the end of `--for` ends the recording. It is short,
/// because the sender of a signal may soon kill the process.
const CLOSE_LIMIT: Duration = Duration::from_millis(600);

/// The time limit for writing the queued entries after the requested number of relists. It is long, because no signal asked
/// the process to end quickly.
const LONG_CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordingSettings {
    /// The pause between relists, and the age at which PLEG is not healthy.
    pub timing: PlegTiming,
    /// The kubelet releases whose way of relisting is used.
    pub era: Era,
    /// To what the limit for the size of the kubelet's lists applies.
    pub list_limit: ListLimit,
    /// The list calls that the recording makes.
    pub list_calls: ListCallsReport,
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
    /// Diagnoses the node, without repeating the pending calls. The diagnosis of the same hang keeps the predicted time. The
    /// capture does not get the calls of a look at a quiet node.
    fn diagnose(
        &self,
        pending: Vec<LivePendingCall>,
        predicted: Option<Prediction>,
        is_quiet: bool,
    ) -> impl Future<Output = Option<IncidentDiagnosis>>;
    /// Prints a message.
    fn notify(&self, notice: RecordingNotice<'_>);
}

/// The signals that a recording reacts to.
pub trait RecordingSignals {
    /// Waits for the next signal.
    fn next(&mut self) -> impl Future<Output = RecordingSignal>;
}

/// A signal to a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingSignal {
    /// End the recording, for this reason.
    End(&'static str),
    /// Close the current file and open the directory again.
    Reopen,
}

/// A message of a recording for its user.
#[derive(Debug)]
pub enum RecordingNotice<'a> {
    /// The runtime was found at this endpoint.
    RuntimeFound(&'a Endpoint),
    /// The runtime answered Version for the first time.
    RuntimeAnswered(&'a Version),
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
    /// The first thing that needs a person.
    pub found: Option<Fact>,
    /// The part of the report that the recorder shows over HTTP, as JSON.
    pub report: Arc<str>,
    /// What was not checked.
    pub not_checked: Vec<NotChecked>,
    /// What the diagnosis measured, or why the recorder does not keep that.
    pub measured: Result<MeasuredText, &'static str>,
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
        snapshot.last_list = last_list;
        if let Some(incident) = &mut snapshot.incident {
            incident.number = self.recorder.number_in_capture(incident.number);
        }
        snapshot
    }

    /// Returns the clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
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

/// Records the pod events of a relist, and remembers the pending call.
struct RelistSink<'a> {
    recorder: &'a Recorder,
    state: &'a Mutex<RecordingState>,
}

impl Sink for RelistSink<'_> {
    fn event(&mut self, event: Event) {
        if let (Some(PlegState::NonExistent), Some(id)) = (event.to, &event.id) {
            locked(self.state).calls.removed(id);
        }
        // Events of the first relist are left out, because the lists contain the same information.
        if !event.initial {
            self.recorder.document(kind::EVENT, &event);
        }
    }

    fn call_started(&mut self, call: &OpenCall) {
        locked(self.state).calls.call_started(call);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        locked(self.state).calls.call_finished(call);
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
        let shared = Arc::new(SharedState::new(false));
        let pleg = PlegSettings { era: settings.era, evented_gate: false, inspect: true };
        let detector = IncidentDetector::new(settings.rules, last_incident);
        let mut state =
            RecordingState::new(detector, (settings.era, settings.list_limit), (host.clock().wall(), now));
        state.runtime.clone_from(&version);
        state.list_calls.clone_from(&settings.list_calls);
        let mut sample_ticks = tokio::time::interval(SAMPLE_INTERVAL / test_settings::sampling_speed());
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
                handler: IncidentHandler {
                    settings,
                    host,
                    recorder,
                    shared,
                    state: Arc::new(Mutex::new(state)),
                    background: Background::new(kubelet),
                    sampler,
                    metrics: metrics.map(Rc::new),
                },
                signals,
                sample_ticks,
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
        let clock = Arc::clone(self.host.clock());
        Arc::new(move || locked(&state).metrics_page(&recorder.status(), clock.wall()))
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
        let Self { host, client, recorder, generic, parallel, timer, .. } = self;
        let clock = host.clock();
        let began = recorder.now();
        recorder.relist_begins(generic.relists() + 1);
        let started = clock.mono();
        let state = Arc::clone(&parallel.handler.state);
        locked(&state).calls.relist_begins(started);
        let mut sink = RelistSink { recorder, state: &state };
        let relist = generic.relist(client, &**clock, &mut sink);
        let report = match parallel.work_during(relist, Some(started)).await {
            Ok(report) => report,
            Err(why) => return Some(why),
        };
        recorder.relist_begins(0);
        // This comes before the check that a finished relist causes, so that the next relist is due before the next check.
        timer.relisted(clock.mono());
        parallel.handler.relist_finished(began, &report);
        parallel.relist_finished(report.outcome == Outcome::Ok);
        self.count.is_some_and(|count| self.generic.relists() >= count.get()).then_some(ENDED_BY_COUNT)
    }

    /// Closes the capture.
    fn finish(self, why: &str) -> RecordingSummary {
        let Self { client, recorder, generic, parallel, .. } = self;
        let handler = parallel.handler;
        if let Some(incident) = locked(&handler.state).detector.open_incident() {
            recorder.incident(incident.clone());
        }
        // The calls that are still pending end here, and the capture shows them as abandoned.
        drop(handler.background);
        drop(client);
        let time_limit = if why == ENDED_BY_COUNT { LONG_CLOSE_LIMIT } else { CLOSE_LIMIT };
        let written = recorder.close(why, time_limit);
        let incidents = locked(&handler.state).incidents;
        RecordingSummary { relists: generic.relists(), incidents, status: recorder.status(), written }
    }
}
