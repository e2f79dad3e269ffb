//! Collects observations of the node, passes them to the incident detector, and does what the detector decides: records
//! incidents and starts their diagnoses.

use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::NodeSampler;
use super::background::{Background, BackgroundResult};
use super::kubelet_metrics::{KubeletMetricsReader, TIME_LIMIT};
use super::state::{FinishedRelist, RecordingState};
use super::{IncidentDiagnosis, RecordingHost, RecordingNotice, RecordingSettings};
use crate::capture::entry::kind;
use crate::capture::incident::{IncidentAction, Observation};
use crate::capture::node::SampledKubeletState;
use crate::capture::recorder::Recorder;
use crate::clock::Mono;
use crate::cri::{self, Outcome, Rpc, Runtime, Version};
use crate::diagnosis::facts::{Call, Fact, FactKind, ProcessRef};
use crate::diagnosis::report::Verdict;
use crate::host;
use crate::kubelet::{KubeletProcess, Search};
use crate::pleg::SharedState;
use crate::pleg::stream::{Health, Relist};
use crate::threads::{blocking, locked};

/// The part of a relist, as its divisor, after which a pending call is named instead of the relist.
const NAMED_CALL_PART: u32 = 4;

/// The interval of checks while a relist runs or an incident is open.
const BUSY_INTERVAL: Duration = Duration::from_millis(500);

/// The longest interval of checks at other times.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// The shortest interval of `Status` calls.
const STATUS_INTERVAL: Duration = Duration::from_secs(25);

/// The interval of Version calls during an incident.
const VERSION_INTERVAL: Duration = Duration::from_secs(5);

/// The silence after which Version is sent on a second connection.
const SECOND_VERSION_DELAY: Duration = Duration::from_secs(2);

/// The age of the kubelet's last relist at which the kubelet's metrics are read more often during an incident.
const OLD_KUBELET_RELIST: Duration = Duration::from_secs(60);

/// The interval at which the kubelet's metrics are read in that case.
const METRICS_INTERVAL: Duration = Duration::from_secs(2);

/// The interval of looks at the whole node without an incident. Each costs more than a minute of recording.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

/// The pause after the first look that found something. Each further pause is twice as long, up to [`LOOK_INTERVAL`].
const FOUND_INTERVAL: Duration = Duration::from_secs(30);

/// The shortest interval at which the states of the daemons and of shims are read.
const SHIMS_INTERVAL: Duration = Duration::from_secs(2);

/// Detects incidents from relists, pending calls and samples of the node.
pub struct IncidentHandler<'a, H> {
    pub settings: RecordingSettings,
    pub host: &'a H,
    pub recorder: Recorder,
    pub shared: Arc<SharedState>,
    pub state: Arc<Mutex<RecordingState>>,
    pub background: Background<'a>,
    pub sampler: NodeSampler,
    pub metrics: Option<Rc<KubeletMetricsReader>>,
}

impl<H: RecordingHost> IncidentHandler<'_, H> {
    /// Returns the time until the next check. `relist` is the time at which the current relist began, if one runs. Otherwise,
    /// and without an open incident, only the age of the last relist changes, so checks are rare.
    pub fn time_to_next_check(&self, relist: Option<Mono>) -> Duration {
        let state = locked(&self.state);
        let busy =
            relist.is_some() || state.detector.open_incident().is_some() || state.healthy == Some(false);
        let checked = state.checked.max(relist.unwrap_or_default());
        let pause = if busy {
            BUSY_INTERVAL.min(self.settings.rules.slow)
        } else {
            let age = self.shared.last_list().map(|last| checked.since(last));
            age.and_then(|age| state.detector.time_to_age_limit(age))
                .unwrap_or(IDLE_INTERVAL)
                .min(IDLE_INTERVAL)
        };
        checked.plus(pause).since(self.host.clock().mono())
    }

    /// Passes the pending calls, the age of PLEG and the state of the kubelet to the incident detector.
    pub fn check(&mut self, relist: Option<Mono>) {
        let clock = &**self.host.clock();
        let now = clock.mono();
        let verdict = self.shared.check(clock, self.settings.rules.threshold);
        let mut state = locked(&self.state);
        state.checked = now;
        // Before the first relist is over, PLEG counts as unhealthy, which is no fault.
        let is_first = self.shared.last_list().is_none();
        if !is_first && state.healthy.replace(verdict.is_ok()) != Some(verdict.is_ok()) {
            let message = verdict.err().map(|why| why.to_string()).unwrap_or_default();
            let health = Health { time: clock.wall(), healthy: message.is_empty(), message };
            self.recorder.document(kind::HEALTH, &health);
        }
        let call = state.calls.open().map(|open| (now.since(open.started), Some(open.clone())));
        let whole = relist.map(|started| (now.since(started), None));
        let (waited, what) = match (call, whole) {
            // Many calls that are each answered in time may together take too long, so the time of the whole relist counts.
            // A call with a large part of it is named.
            (Some(call), Some(whole)) if call.0 >= whole.0 / NAMED_CALL_PART => (whole.0, call.1),
            (_, Some(whole)) => whole,
            (call, None) => call.unwrap_or_default(),
        };
        let call = state.calls.open().map(|open| format!("{} {:?}", open.rpc, open.id));
        let age = self.shared.last_list().map(|last| now.since(last));
        let is_wrong = waited >= self.settings.rules.slow || state.detector.open_incident().is_some();
        drop(state);
        let (kubelet, restarted) = self.check_kubelet(is_wrong);
        let pending = self.recorder.pending_calls().into_iter();
        let version = pending.filter(|call| call.rpc == Rpc::Version).map(|call| call.waited).max();
        let shim = self.sampler.stopped_shim();
        let shim = shim.map(|shim| {
            FactKind::ProcessIsStopped { process: ProcessRef { name: shim.name.clone(), pid: shim.pid } }
                .into()
        });
        let what = Some(match &what {
            Some(open) => {
                let call = Call::of_pod(open.rpc, open.id.as_deref(), open.pod.as_ref());
                FactKind::CallIsOpen { call, waited: waited.into() }.into()
            }
            None => FactKind::RelistIsOpen { waited: waited.into() }.into(),
        });
        let found = self.background.found.clone();
        let observation = Observation { waited, what, age, call, version, kubelet, restarted, shim, found };
        let mut state = locked(&self.state);
        let actions = state.detector.observe((clock.wall(), now), &observation);
        let is_open = state.detector.open_incident().is_some();
        drop(state);
        self.perform(actions, &observation);
        if is_open {
            self.request_more_often(now);
        }
    }

    /// Checks the kubelet and the states of daemons and shims. Returns what is wrong with the kubelet, and how it was restarted
    /// since the last check.
    fn check_kubelet(&mut self, is_wrong: bool) -> (Option<Fact>, Option<Fact>) {
        let found = self.sampler.kubelet();
        let before = std::mem::replace(&mut self.background.kubelet, found);
        let now = self.host.clock().mono();
        let due = now.since(self.background.shims_read) >= SHIMS_INTERVAL;
        if due {
            self.background.shims_read = now;
        }
        if found != before || (due && self.sampler.states_changed(is_wrong)) {
            self.record_node(true);
        }
        self.search_kubelet(found);
        let pid = |state: Option<SampledKubeletState>| state?.pid();
        let restarted = match (before, found) {
            (Some(SampledKubeletState::Gone), Some(SampledKubeletState::Running { .. })) => {
                Some(FactKind::KubeletWasStarted)
            }
            _ => pid(before)
                .zip(pid(found))
                .filter(|(before, now)| before != now)
                .map(|(before, now)| FactKind::KubeletWasReplaced { before, now }),
        };
        let wrong = match found {
            Some(SampledKubeletState::Stopped { pid }) => Some(FactKind::KubeletProcessIsStopped { pid }),
            Some(SampledKubeletState::Gone) => Some(FactKind::KubeletGone),
            Some(SampledKubeletState::Running { .. }) | None => self
                .kubelet_age()
                .filter(|age| *age > self.settings.rules.threshold)
                .map(|_| FactKind::KubeletIsOverThreshold),
        };
        (wrong.map(Fact::from), restarted.map(Fact::from))
    }

    /// Returns the time since the kubelet's last relist, according to its metrics.
    fn kubelet_age(&self) -> Option<Duration> {
        self.background.kubelet_relisted.map(|last| self.host.clock().wall().duration_since(last))
    }

    /// During an incident, requests Version and the kubelet's metrics at shorter intervals.
    fn request_more_often(&mut self, now: Mono) {
        if now.since(self.background.version_requested) >= VERSION_INTERVAL {
            self.request_version(now);
        }
        let is_old = self.kubelet_age().is_some_and(|age| age >= OLD_KUBELET_RELIST);
        if is_old && now.since(self.background.metrics_requested) >= METRICS_INTERVAL {
            self.request_kubelet_metrics(now);
        }
    }

    /// Records the end of a relist, which began at `began`, and passes the relist to the incident detector.
    pub fn relist_finished(&mut self, began: u64, report: &Relist) {
        self.recorder.relist_finished(began, report);
        if report.outcome == Outcome::Ok {
            self.background.status_hangs = false;
            self.background.metrics_hang = false;
        }
        let error = self.shared.lock().list_error.clone();
        let mut state = locked(&self.state);
        let now = self.host.clock().mono();
        state.calls.relist_ended(report, error);
        if report.outcome == Outcome::Ok {
            state.last_relist = Some(FinishedRelist::new(now, report));
        }
        let actions = state.detector.relist_finished(now, report);
        drop(state);
        self.perform(actions, &Observation::default());
        self.check(None);
        if report.outcome == Outcome::Ok {
            self.look(now);
        }
    }

    /// Diagnoses a node whose relists show nothing, if that is due: a process may hang, a disk may be full, or pods may fail
    /// to start although each call of a relist is answered.
    fn look(&mut self, now: Mono) {
        let is_found = self.background.found.is_some();
        let is_quiet = locked(&self.state).detector.open_incident().is_none();
        let pause = self.background.look_pause;
        let is_due = self.background.diagnosis_began.is_none_or(|then| now.since(then) >= pause);
        if self.settings.diagnose && (is_quiet || is_found) && is_due {
            self.start_diagnosis();
        }
    }

    /// Carries out what the incident detector decided.
    fn perform(&mut self, actions: Vec<IncidentAction>, observation: &Observation) {
        for action in actions {
            match action {
                IncidentAction::Record(incident) => {
                    // The capture has a sample of the node at the beginning and at the end of each incident.
                    self.record_node(true);
                    let mut state = locked(&self.state);
                    if incident.to == 0 {
                        state.incidents += 1;
                    } else {
                        state.culprit = None;
                        state.diagnosis = None;
                    }
                    state.list(&incident);
                    drop(state);
                    let number = self.recorder.number_in_capture(incident.number);
                    self.host.notify(RecordingNotice::Incident(number, &incident));
                    self.recorder.incident(incident);
                }
                IncidentAction::Diagnose => self.diagnose(observation),
            }
        }
    }

    /// Starts a diagnosis, unless one runs already.
    fn diagnose(&mut self, observation: &Observation) {
        if !self.settings.diagnose || self.background.diagnosis.is_running() {
            return;
        }
        locked(&self.state).detector.diagnosis_started(self.host.clock().mono(), observation);
        self.start_diagnosis();
    }

    fn start_diagnosis(&mut self) {
        if self.background.diagnosis.is_running() {
            return;
        }
        let state = locked(&self.state);
        let is_quiet = state.detector.open_incident().is_none();
        let predicted = state.detector.prediction();
        drop(state);
        let background = &mut self.background;
        background.is_look = is_quiet || background.found.is_some();
        background.diagnosis_began = Some(self.host.clock().mono());
        let diagnosis = self.host.diagnose(self.recorder.pending_calls(), predicted, is_quiet);
        background.diagnosis.start(diagnosis);
    }

    /// Handles a result of work in parallel with relists. If the result is an answer to Version, returns the answer.
    pub fn background_finished(&mut self, result: BackgroundResult) -> Option<Version> {
        match result {
            BackgroundResult::Diagnosis(diagnosis) => self.diagnosed(*diagnosis?),
            BackgroundResult::KubeletMetrics(sample) => self.recorder.document(kind::KUBELET, &sample),
            BackgroundResult::Version(version) => {
                if version.is_some() {
                    self.request_status();
                }
                return version;
            }
            BackgroundResult::Kubelet(found) => self.found_kubelet(*found?),
            BackgroundResult::Status => {}
        }
        None
    }

    /// Reads the settings of a kubelet that was started or restarted since the settings were last read.
    fn search_kubelet(&mut self, found: Option<SampledKubeletState>) {
        let Some(SampledKubeletState::Running { pid }) = found else { return };
        let is_known = self.background.searched == Some(pid) || self.background.search.is_running();
        let Some(root) = self.settings.search_kubelet.clone().filter(|_| !is_known) else { return };
        self.background.searched = Some(pid);
        self.background.search.start(async move {
            let search = blocking(move || Search::of(&host::proc(), &root));
            tokio::time::timeout(TIME_LIMIT, search).await.ok()?.ok()?.kubelet
        });
    }

    /// Reads the metrics of the kubelet that was found, whose address may differ from the previous kubelet's address.
    fn found_kubelet(&mut self, found: KubeletProcess) {
        // Without readable settings, the recording continues without metrics.
        if let Some(reader) = self.host.kubelet_metrics(found) {
            self.metrics = Some(Rc::new(reader));
            self.background.metrics_hang = false;
            self.request_kubelet_metrics(self.host.clock().mono());
        }
    }

    /// Records a diagnosis, and passes its verdict to the incident detector.
    fn diagnosed(&mut self, diagnosis: IncidentDiagnosis) {
        let IncidentDiagnosis { documents, verdict, culprit, found, report, not_checked, measured } =
            diagnosis;
        let clock = &**self.host.clock();
        let is_look = self.background.is_look;
        // A look that finds nothing on a quiet node leaves no documents, so that the capture holds more days.
        if !is_look || found.is_some() || self.background.found.is_some() {
            for (kind, text) in documents {
                self.recorder.document_text(kind, text);
            }
        }
        if is_look {
            self.looked(found);
        }
        let summary = verdict.summary.to_string();
        let is_healthy = verdict.verdict == Verdict::Healthy;
        let mut state = locked(&self.state);
        state.looked = Some((clock.mono(), not_checked));
        let incidents = state.detector.apply_verdict((clock.wall(), clock.mono()), verdict);
        if !incidents.is_empty() {
            state.culprit = culprit;
            state.diagnosis = Some((clock.mono(), report, measured));
        }
        if is_healthy {
            // The diagnosis has made every call again.
            state.calls.forget_late();
        }
        for incident in &incidents {
            state.list(incident);
        }
        // If the diagnosis ends an incident, the detector has opened another one in its place.
        state.incidents += u64::from(incidents.iter().any(|incident| incident.to != 0));
        drop(state);
        for incident in incidents {
            let number = self.recorder.number_in_capture(incident.number);
            self.host.notify(match incident.to {
                0 => RecordingNotice::Diagnosed(number, &summary),
                _ => RecordingNotice::Incident(number, &incident),
            });
            self.recorder.incident(incident);
        }
    }

    /// Passes what a look at the node has found to the incident detector.
    fn looked(&mut self, found: Option<Fact>) {
        let pause = self.background.look_pause;
        self.background.look_pause = match (&self.background.found, &found) {
            (_, None) => LOOK_INTERVAL,
            (None, Some(_)) => FOUND_INTERVAL,
            (Some(_), Some(_)) => (pause * 2).min(LOOK_INTERVAL),
        };
        let is_new = self.background.found.is_none() && found.is_some();
        self.background.found = found;
        if is_new {
            // Opens the incident now, so that this diagnosis is its first one.
            self.check(None);
        }
    }

    /// Records a sample of pressure, of the important processes and of their limits.
    fn record_node(&mut self, is_wrong: bool) {
        let Some(mut sample) = self.sampler.sample(self.host.clock().mono(), is_wrong) else { return };
        let clock = &**self.host.clock();
        let mut state = locked(&self.state);
        state.add_lists(&mut sample);
        state.follow_limits(&sample, (clock.wall(), clock.mono()));
        self.recorder.show_forecasts(&self.host.endpoint().to_string(), state.forecasts());
        drop(state);
        self.recorder.document(kind::NODE, &sample);
    }

    /// Samples the node, the kubelet's metrics and the runtime's version.
    pub fn sample(&mut self) {
        let is_wrong = locked(&self.state).detector.open_incident().is_some();
        self.record_node(is_wrong);
        let now = self.host.clock().mono();
        self.request_kubelet_metrics(now);
        self.request_version(now);
    }

    /// Reads the kubelet's metrics, unless a request is pending or the last one got no answer.
    fn request_kubelet_metrics(&mut self, now: Mono) {
        let is_possible = !self.background.metrics.is_running() && !self.background.metrics_hang;
        let Some(reader) = self.metrics.clone().filter(|_| is_possible) else { return };
        self.background.metrics_requested = now;
        let clock = Arc::clone(self.host.clock());
        self.background.metrics.start(async move { reader.read(&*clock).await });
    }

    /// Sends Version on a new connection, unless a Version call is pending. Without an early answer, sends it on a second
    /// connection too. Both calls have the deadline of a relist's calls, so that the capture shows when they are answered.
    pub fn request_version(&mut self, now: Mono) {
        if self.background.version.is_running() {
            return;
        }
        self.background.version_requested = now;
        let host = self.host;
        self.background.version.start(async move {
            let (first, second) = (host.client()?, host.client()?);
            let later = async {
                tokio::time::sleep(SECOND_VERSION_DELAY).await;
                second.version().await.result.ok()
            };
            let (mut first, mut later) = (pin!(first.version()), pin!(later));
            tokio::select! {
                call = &mut first => match call.result {
                    Err(cri::Error::Silent { .. }) => later.await,
                    answer => answer.ok(),
                },
                answer = &mut later => match answer {
                    None => first.await.result.ok(),
                    answer => answer,
                },
            }
        });
    }

    /// Sends Status, unless a Status call is pending, got no answer last time, or was sent a short time ago.
    fn request_status(&mut self) {
        let now = self.host.clock().mono();
        let background = &mut self.background;
        let is_due = background.status_requested.is_none_or(|then| now.since(then) >= STATUS_INTERVAL);
        if background.status.is_running() || background.status_hangs || !is_due {
            return;
        }
        background.status_requested = Some(now);
        let host = self.host;
        background.status.start(async move {
            let Some(client) = host.client() else { return true };
            client.status().await.outcome() != Outcome::Silent
        });
    }
}
