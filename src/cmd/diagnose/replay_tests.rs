//! Tests that `health` on a capture reports the same as `health` reported live. Each test plays a sequence of faults
//! with a paused clock, records the calls, and runs `health` live every few seconds. Then it runs `health` on the
//! capture for the same moments and compares the verdicts.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;

use super::recorded;
use crate::capture::entry::{Incident, Session, kind};
use crate::capture::node::{
    KubeletMetricsSample, NodeSample, ProcessSample, SampledKubeletState, ShimSample,
};
use crate::capture::{
    Capture, CaptureMoment, IncidentAction, IncidentDetector, IncidentRules, Limits, Observation, Playback,
    Pseudonyms, Range, Recorder, ReplayClock, ReplayServer, export,
};
use crate::clock::{Clock, Mono, SystemClock, Wall};
use crate::cmd::record::incident_diagnosis;
use crate::cri::server::message;
use crate::cri::{
    Call, CallEnd, CallObserver, CgroupDriver, Code, Container, ContainerState, ContainerStatus, Error,
    EventStream, Filter, Rpc, Runtime, RuntimeStatus, Sandbox, SandboxState, SandboxStatusAnswer, Version,
};
use crate::diagnosis::facts::FactKind;
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, NotChecked, RuleId, Verdict};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{
    CallersPendingCall, Inputs, KubeletInputs, MetricsSource, NodeFacts, SimulatedProcesses, gather, judge,
};
use crate::pleg::{GenericPleg, PlegSettings, SharedState};
use crate::scripted::{Scripted, container_id, sandbox_id};
use crate::seen_calls::{SeenCalls, assert_agrees};
use crate::threads::locked;

const SECOND: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(120);

/// A clock whose monotonic and wall time follow tokio's.
struct TestClock {
    clock: SystemClock,
    start: Wall,
}

impl Clock for TestClock {
    fn mono(&self) -> Mono {
        self.clock.mono()
    }

    fn wall(&self) -> Wall {
        self.start.plus(self.clock.mono().since(Mono::default()))
    }
}

/// A fault of the runtime: from one moment to another, calls with these RPCs get no answer or an error.
#[derive(Clone)]
struct Fault {
    rpcs: Vec<Rpc>,
    id: Option<String>,
    from: Duration,
    to: Duration,
    error: Option<Error>,
}

fn hangs(rpcs: &[Rpc], id: Option<String>, from: f64, to: f64) -> Fault {
    let (from, to) = (Duration::from_secs_f64(from), Duration::from_secs_f64(to));
    Fault { rpcs: rpcs.to_vec(), id, from, to, error: None }
}

/// The faults of one test, and when they begin and end.
#[derive(Clone, Default)]
struct FaultPlan {
    faults: Vec<Fault>,
    /// The second since which the container of a pod has been exited, so that a relist makes status calls for the pod.
    exits: Vec<(f64, usize)>,
    /// The state letter of the kubelet's process from each of these seconds on; `None` means that no kubelet runs.
    kubelet: Vec<(f64, Option<char>)>,
    /// The seconds between which the kubelet does not relist.
    stale: Option<(f64, f64)>,
    /// The seconds between which the runtime's daemon is stopped.
    stopped_daemon: Option<(f64, f64)>,
    /// The second from which the shim of pod 3 is stopped. Only the recorder sees it: a live run reads no process twice.
    stopped_shim: Option<f64>,
    /// Whether the facts of each diagnosis are stored only to the half.
    damages_facts: bool,
    /// The length of the recording in seconds.
    lasts: u32,
}

/// A scripted runtime with the faults of a plan. An observer sees its calls.
#[derive(Clone)]
struct FaultyRuntime {
    clock: Arc<TestClock>,
    plan: Arc<FaultPlan>,
    scripts: Arc<Vec<(Duration, Arc<Scripted>)>>,
    observer: Option<Arc<dyn CallObserver>>,
}

/// A pending call that the observer sees; it counts as abandoned if it is dropped before its end.
struct ObservedCall {
    observer: Arc<dyn CallObserver>,
    clock: Arc<TestClock>,
    call: u64,
    started: Mono,
    ended: bool,
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        if !self.ended {
            let took = self.clock.mono().since(self.started);
            self.observer.call_ended(self.call, took, CallEnd::Abandoned);
        }
    }
}

impl FaultyRuntime {
    fn of(plan: &FaultPlan) -> Self {
        let mut script = Scripted::with_pods(6);
        let mut scripts = vec![(Duration::ZERO, Arc::new(script.same_node()))];
        for (from, pod) in &plan.exits {
            script.containers[*pod].state = ContainerState::Exited;
            scripts.push((Duration::from_secs_f64(*from), Arc::new(script.same_node())));
        }
        let clock = SystemClock::start();
        let start = clock.wall();
        let clock = Arc::new(TestClock { clock, start });
        Self { clock, plan: Arc::new(plan.clone()), scripts: Arc::new(scripts), observer: None }
    }

    fn observed(&self, observer: Arc<dyn CallObserver>) -> Self {
        Self { observer: Some(observer), ..self.clone() }
    }

    fn now(&self) -> Duration {
        self.clock.mono().since(Mono::default())
    }

    /// Returns a runtime that hides filtered list calls from the observer, because no test needs them.
    fn observed_if(&self, is_whole_list: bool) -> Self {
        Self { observer: self.observer.clone().filter(|_| is_whole_list), ..self.clone() }
    }

    /// Returns the scripted runtime that answers this call now. While a fault affects the call, waits for the end of the
    /// fault or returns the fault's error.
    async fn script(&self, rpc: Rpc, id: &str) -> Result<Arc<Scripted>, Error> {
        loop {
            let now = self.now();
            let fault = self.plan.faults.iter().find(|fault| {
                (fault.rpcs.is_empty() || fault.rpcs.contains(&rpc))
                    && fault.id.as_ref().is_none_or(|about| about == id)
                    && (fault.from..fault.to).contains(&now)
            });
            match fault {
                None => {
                    let mut scripts = self.scripts.iter().rev();
                    return Ok(Arc::clone(&scripts.find(|(from, _)| *from <= now).unwrap().1));
                }
                Some(Fault { error: Some(error), .. }) => return Err(error.clone()),
                Some(fault) => tokio::time::sleep(fault.to.saturating_sub(now)).await,
            }
        }
    }

    /// Makes a call with a deadline, and reports its start and its end to the observer.
    async fn call<T>(
        &self,
        rpc: Rpc,
        id: &str,
        work: impl Future<Output = Result<T, Error>>,
        encoded: impl Fn(&T) -> Bytes,
    ) -> Call<T> {
        let started = self.clock.mono();
        let mut request = Vec::new();
        if !id.is_empty() {
            // The id is the first field of the request, a text (protobuf: tag, length, bytes).
            request.extend([0x0A, u8::try_from(id.len()).unwrap()]);
            request.extend(id.as_bytes());
        }
        let observed = self.observer.as_ref().map(|observer| ObservedCall {
            observer: Arc::clone(observer),
            clock: Arc::clone(&self.clock),
            call: observer.call_started(rpc, request.into()),
            started,
            ended: false,
        });
        let result = tokio::time::timeout(TIMEOUT, work).await;
        let result = result.unwrap_or(Err(Error::Silent { rpc, waited: TIMEOUT }));
        let duration = self.clock.mono().since(started);
        if let Some(mut observed) = observed {
            observed.ended = true;
            let end = match &result {
                Ok(answer) => CallEnd::Answered(vec![encoded(answer)]),
                Err(error) => CallEnd::Failed(error),
            };
            observed.observer.call_ended(observed.call, duration, end);
        }
        Call { rpc, duration, response_bytes: 100, stream: None, result }
    }
}

impl Runtime for FaultyRuntime {
    async fn version(&self) -> Call<Version> {
        let work = async { self.script(Rpc::Version, "").await?.version().await.result };
        self.call(Rpc::Version, "", work, |answer| message::version(answer.clone())).await
    }

    async fn status(&self) -> Call<RuntimeStatus> {
        let work = async { self.script(Rpc::Status, "").await?.status().await.result };
        self.call(Rpc::Status, "", work, |answer| message::status(answer.clone())).await
    }

    async fn cgroup_driver(&self) -> Call<Option<CgroupDriver>> {
        self.scripts[0].1.cgroup_driver().await
    }

    async fn list_sandboxes(&self, filter: &Filter<SandboxState>) -> Call<Vec<Sandbox>> {
        let work = async { self.script(Rpc::ListPodSandbox, "").await?.list_sandboxes(filter).await.result };
        let node = self.observed_if(*filter == Filter::default());
        node.call(Rpc::ListPodSandbox, "", work, |answer| message::sandboxes(answer.clone())).await
    }

    async fn list_containers(&self, filter: &Filter<ContainerState>) -> Call<Vec<Container>> {
        let work = async { self.script(Rpc::ListContainers, "").await?.list_containers(filter).await.result };
        let node = self.observed_if(*filter == Filter::default());
        node.call(Rpc::ListContainers, "", work, |answer| message::containers(answer.clone())).await
    }

    async fn sandbox_status(&self, id: &str) -> Call<SandboxStatusAnswer> {
        let work = async { self.script(Rpc::PodSandboxStatus, id).await?.sandbox_status(id).await.result };
        self.call(Rpc::PodSandboxStatus, id, work, |answer| message::sandbox_status(answer.clone())).await
    }

    async fn container_status(&self, id: &str) -> Call<Option<ContainerStatus>> {
        let work = async { self.script(Rpc::ContainerStatus, id).await?.container_status(id).await.result };
        self.call(Rpc::ContainerStatus, id, work, |answer| message::container_status(answer.clone())).await
    }

    async fn container_stats(&self, id: &str) -> Call<()> {
        self.scripts[0].1.container_stats(id).await
    }

    async fn container_events(&self) -> Result<EventStream, Error> {
        self.scripts[0].1.container_events().await
    }
}

/// One run of `health` during the recording.
struct LiveRun {
    began: f64,
    ended: f64,
    moment: CaptureMoment,
    wall: Wall,
    report: HealthReport,
    /// The verdict of a command that knows only the calls of the relists, at the end of the run.
    by_calls: Verdict,
}

/// Returns the parts of a verdict and its primary finding that must be equal in a list of incidents and in their replays.
fn listed_parts(verdict: &str, primary: Option<&HealthFinding>) -> String {
    let primary = primary.map(|primary| {
        let pod = primary.pod.as_ref().map(|pod| pod.name.clone());
        (primary.id, primary.rpc.clone(), pod, primary.ids.clone(), primary.confidence)
    });
    format!("{verdict} {primary:?}")
}

/// Returns the parts of a report that must be equal live and on the capture.
fn compared_parts(report: &HealthReport) -> String {
    let culprits = report.culprits.iter();
    let culprits: Vec<_> =
        culprits.map(|culprit| (&culprit.rpc, &culprit.id, culprit.outcome, culprit.confidence)).collect();
    format!("{} {culprits:?}", listed_parts(report.verdict.as_str(), report.primary.as_ref()))
}

/// Sets the inputs that are equal live and on the capture, and excludes the machine of the test.
fn isolate<R>(inputs: &mut Inputs<R>) {
    inputs.endpoint = "unix:///run/test.sock".into();
    inputs.node = "n1".into();
    inputs.proc = None;
    inputs.host_root = "/plegctl-test-no-such-root".into();
    inputs.cpu_time = || None;
    inputs.slowdown = || None;
}

impl FaultPlan {
    fn kubelet_at(&self, second: f64) -> Option<(u32, char)> {
        let state = self.kubelet.iter().rev().find(|(from, _)| *from <= second)?.1;
        state.map(|state| (813, state))
    }

    fn metrics(&self, clock: &dyn Clock, second: f64) -> Option<String> {
        let (from, to) = self.stale?;
        let ago = if (from..to).contains(&second) { second - from } else { 0.0 };
        let seen = clock.wall().seconds_since(Wall::default()) - ago;
        Some(format!("# TYPE kubelet_pleg_last_seen_seconds gauge\nkubelet_pleg_last_seen_seconds {seen}\n"))
    }

    fn daemon_at(&self, second: f64) -> char {
        let is_stopped = self.stopped_daemon.is_some_and(|(from, to)| (from..to).contains(&second));
        if is_stopped { 'T' } else { 'S' }
    }

    fn has_kubelet(&self) -> bool {
        !self.kubelet.is_empty() || self.stale.is_some() || self.stopped_daemon.is_some()
    }

    /// Returns what the recorder samples of the processes.
    fn node_sample(&self, second: f64, kubelet: Option<SampledKubeletState>) -> NodeSample {
        let daemon = ProcessSample {
            pid: 812,
            name: "containerd".into(),
            state: self.daemon_at(second).into(),
            threads: 8,
            ..ProcessSample::default()
        };
        let shim = ShimSample { pid: 4711, name: "containerd-shim".into(), id: Some(sandbox_id(3)) };
        let is_stopped = self.stopped_shim.is_some_and(|from| second >= from);
        NodeSample {
            kubelet,
            processes: vec![daemon],
            stopped_shims: Vec::from_iter(is_stopped.then_some(shim)),
            ..NodeSample::default()
        }
    }
}

/// Returns the inputs of a run of `health` on the node as it is now.
fn live_inputs(node: FaultyRuntime) -> Inputs<FaultyRuntime> {
    let clock = Arc::clone(&node.clock);
    let second = node.now().as_secs_f64();
    let plan = Arc::clone(&node.plan);
    let runtime = Arc::new(node);
    let mut inputs = Inputs::new(Arc::clone(&runtime), runtime, Arc::<TestClock>::clone(&clock));
    isolate(&mut inputs);
    if plan.has_kubelet() {
        let kubelet = if plan.kubelet.is_empty() { Some((813, 'S')) } else { plan.kubelet_at(second) };
        inputs.simulated_processes = Some(SimulatedProcesses {
            kubelet,
            has_kubelet: true,
            daemon: Some(plan.daemon_at(second)),
            ..SimulatedProcesses::default()
        });
    }
    let text = plan.metrics(&*clock, second);
    let metrics = text.map(|text| MetricsSource::Text { name: "test".into(), text, written: None });
    inputs.kubelet = KubeletInputs { metrics, ..KubeletInputs::default() };
    inputs
}

/// Runs `health`, and returns also the facts of the node.
async fn diagnosis(inputs: Inputs<FaultyRuntime>) -> (HealthReport, NodeFacts) {
    let evidence = Box::pin(gather(&inputs, &|_| ())).await;
    (judge(&evidence), evidence.into())
}

/// A diagnosis that runs.
type RunningDiagnosis = Pin<Box<dyn Future<Output = (HealthReport, NodeFacts)>>>;

/// What `record` does between relists: samples, Version calls, incidents and their diagnosis.
struct RecorderWork {
    node: FaultyRuntime,
    recorder: Recorder,
    detector: Rc<RefCell<IncidentDetector>>,
    open_since: Rc<RefCell<Option<Mono>>>,
    diagnosis: Option<RunningDiagnosis>,
    /// The last sample of the processes, and its second.
    sampled: Option<(f64, NodeSample)>,
    /// The second at which the metrics were read last.
    metrics_read: Option<f64>,
    /// The second at which Version was called last.
    version_called: Option<f64>,
}

impl RecorderWork {
    async fn run(mut self) {
        loop {
            let tick = tokio::time::sleep(Duration::from_millis(500));
            let report = async {
                match &mut self.diagnosis {
                    Some(diagnosis) => diagnosis.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                (report, facts) = report => {
                    self.diagnosis = None;
                    let diagnosis = incident_diagnosis(&report, Some(facts));
                    for (kind, mut text) in diagnosis.documents {
                        if kind == kind::FACTS && self.node.plan.damages_facts {
                            text.truncate(text.len() / 2);
                        }
                        self.recorder.document_text(kind, text);
                    }
                    let verdict = diagnosis.verdict;
                    let now = (self.node.clock.wall(), self.node.clock.mono());
                    for incident in self.detector.borrow_mut().apply_verdict(now, verdict) {
                        self.recorder.incident(incident);
                    }
                }
                () = tick => self.tick(),
            }
        }
    }

    fn tick(&mut self) {
        let (clock, plan) = (Arc::clone(&self.node.clock), Arc::clone(&self.node.plan));
        let (now, second) = (clock.mono(), self.node.now().as_secs_f64());
        let waited = self.open_since.borrow().map_or(Duration::ZERO, |since| now.since(since));
        let kubelet = plan.kubelet.first().map(|_| match plan.kubelet_at(second) {
            Some((pid, 'T')) => SampledKubeletState::Stopped { pid },
            Some((pid, _)) => SampledKubeletState::Running { pid },
            None => SampledKubeletState::Gone,
        });
        let kubelet = kubelet.or(plan.has_kubelet().then_some(SampledKubeletState::Running { pid: 813 }));
        let sample = plan.node_sample(second, kubelet);
        if self.sampled.as_ref().is_none_or(|(last, before)| second - last >= 30.0 || *before != sample) {
            self.recorder.document(kind::NODE, &sample);
            self.sampled = Some((second, sample));
        }
        let pause = if plan.stale.is_some_and(|(from, to)| (from + 60.0..to + 60.0).contains(&second)) {
            2.0
        } else {
            30.0
        };
        if self.metrics_read.is_none_or(|last| second - last >= pause - 0.01) {
            self.metrics_read = Some(second);
            if let Some(text) = plan.metrics(&*clock, second) {
                let sample = KubeletMetricsSample { text: Some(text), ..KubeletMetricsSample::default() };
                self.recorder.document(kind::KUBELET, &sample);
            }
        }
        let version = self.recorder.pending_calls().into_iter().filter(|call| call.rpc == Rpc::Version);
        let observation = Observation {
            waited,
            what: Some(FactKind::RelistIsOpen { waited: waited.into() }.into()),
            call: Some("a call".into()).filter(|_| !waited.is_zero()),
            version: version.map(|call| call.waited).max(),
            ..Observation::default()
        };
        let steps = self.detector.borrow_mut().observe((clock.wall(), now), &observation);
        let lasts = self.detector.borrow().open_incident().is_some();
        self.apply(steps, &observation);
        let pause = if lasts { 5.0 } else { 30.0 };
        let pending = self.recorder.pending_calls().iter().any(|call| call.rpc == Rpc::Version);
        if !pending && self.version_called.is_none_or(|last| second - last >= pause) {
            self.version_called = Some(second);
            let node = self.node.clone();
            tokio::task::spawn_local(async move {
                let later = async {
                    tokio::time::sleep(2 * SECOND).await;
                    node.version().await
                };
                tokio::select! {
                    _ = node.version() => {}
                    _ = later => {}
                }
            });
        }
    }

    fn apply(&mut self, steps: Vec<IncidentAction>, observation: &Observation) {
        for step in steps {
            match step {
                IncidentAction::Record(incident) => self.recorder.incident(incident),
                IncidentAction::Diagnose if self.diagnosis.is_none() => {
                    self.detector.borrow_mut().diagnosis_started(self.node.clock.mono(), observation);
                    let known = self.recorder.pending_calls().into_iter().map(|call| CallersPendingCall {
                        rpc: call.rpc,
                        id: call.id,
                        waited: call.waited,
                        ended: Some(call.ended),
                    });
                    let mut inputs = live_inputs(self.node.clone());
                    inputs.callers_pending = known.collect();
                    inputs.at_end = crate::diagnosis::AtEnd::LeavePending;
                    self.diagnosis = Some(Box::pin(diagnosis(inputs)));
                }
                IncidentAction::Diagnose => {}
            }
        }
    }
}

/// Plays the faults and records them into `place`. Returns the runs of `health` during that time.
async fn record_and_judge(plan: &FaultPlan, place: &Path) -> Vec<LiveRun> {
    let node = FaultyRuntime::of(plan);
    let limits = Limits { size: 64 << 20, age: 3600 * SECOND, incidents: 20 };
    let session = Session {
        endpoint: "unix:///run/test.sock".into(),
        node: "n1".into(),
        runtime: "containerd".into(),
        runtime_version: "v2.1.4".into(),
        period: 1_000_000_000,
        slow: 2_000_000_000,
        threshold: 180_000_000_000,
        ..Session::default()
    };
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(&node.clock);
    let recorder = Recorder::start(place.to_path_buf(), limits, Arc::clone(&clock)).unwrap();
    assert!(matches!(recorder.opened(600 * SECOND), Some(Ok(0))));
    recorder.begin(session, 600 * SECOND);
    let rules = IncidentRules {
        slow: 2 * SECOND,
        threshold: 180 * SECOND,
        before: 600 * SECOND,
        after: 300 * SECOND,
    };
    let detector = Rc::new(RefCell::new(IncidentDetector::new(rules, 0)));
    let open_since = Rc::new(RefCell::new(None));
    let live = Rc::new(RefCell::new(Vec::new()));
    let seen = SeenCalls::new(&clock);
    let shared = Arc::new(SharedState::new(false));
    let relists = {
        let (mut seen, shared) = (seen.clone(), Arc::clone(&shared));
        let (node, recorder) = (node.observed(recorder.observer(true)), recorder.clone());
        let (clock, detector, open_since) =
            (Arc::clone(&clock), Rc::clone(&detector), Rc::clone(&open_since));
        async move {
            let settings = PlegSettings {
                era: crate::kubelet::KubeletVersion::CONFIRMED.era(),
                evented_gate: false,
                inspect: true,
            };
            let mut generic = GenericPleg::new(Arc::clone(&shared), settings);
            loop {
                locked(&seen.calls).relist_begins(clock.mono());
                recorder.relist_begins(generic.relists() + 1);
                let began = recorder.now();
                *open_since.borrow_mut() = Some(clock.mono());
                let report = generic.relist(&node, &*clock, &mut seen).await;
                let error = shared.lock().list_error.clone();
                locked(&seen.calls).relist_ended(&report, error);
                *open_since.borrow_mut() = None;
                recorder.relist_begins(0);
                recorder.relist_finished(began, &report);
                let steps = detector.borrow_mut().relist_finished(clock.mono(), &report);
                for step in steps {
                    if let IncidentAction::Record(incident) = step {
                        recorder.incident(incident);
                    }
                }
                tokio::time::sleep(SECOND).await;
            }
        }
    };
    let recorder_work = RecorderWork {
        node: node.observed(recorder.observer(false)),
        recorder: recorder.clone(),
        detector,
        open_since,
        diagnosis: None,
        sampled: None,
        metrics_read: None,
        version_called: None,
    };
    let live_runs = {
        let (node, recorder, live) = (node.clone(), recorder.clone(), Rc::clone(&live));
        async move {
            loop {
                // Long after the last fault nothing changes any more.
                let pause = if node.now() + 600 * SECOND < node.plan.lasts * SECOND { 5 } else { 60 };
                tokio::time::sleep(pause * SECOND).await;
                let (node, recorder, live) = (node.clone(), recorder.clone(), Rc::clone(&live));
                let (seen, shared) = (seen.clone(), Arc::clone(&shared));
                tokio::task::spawn_local(async move {
                    let began = node.now().as_secs_f64();
                    let (report, _) = diagnosis(live_inputs(node.clone())).await;
                    let moment = CaptureMoment { session: 0, mono: recorder.now() };
                    let (ended, wall) = (node.now().as_secs_f64(), node.clock.wall());
                    let by_calls = seen.verdict(&shared);
                    live.borrow_mut().push(LiveRun { began, ended, moment, wall, report, by_calls });
                });
            }
        }
    };
    let everything = async { tokio::join!(relists, recorder_work.run(), live_runs) };
    let over = tokio::time::timeout(plan.lasts * SECOND, everything).await;
    assert!(over.is_err());
    assert!(recorder.close("the plan is over", 60 * SECOND));
    Rc::try_unwrap(live).map_or_else(|live| live.take(), RefCell::into_inner)
}

/// Returns the report for a moment of the capture.
async fn health_on_capture(place: &Path, (moment, wall): (CaptureMoment, Wall)) -> HealthReport {
    let clock = Arc::new(ReplayClock::new());
    let capture = Capture::open(place).unwrap();
    let playback = Playback::at(capture, (moment, wall), Arc::clone(&clock));
    let server = ReplayServer::open("capture:test", playback).unwrap();
    let [main, control] = [(); 2].map(|()| Arc::new(server.client(30 * SECOND)));
    let mut inputs = Inputs::new(main, control, clock);
    isolate(&mut inputs);
    recorded::fill_inputs(&mut inputs, server.playback());
    if inputs.stacks == WantedDump::Never {
        inputs.stacks = WantedDump::Auto;
    }
    let report = judge(&Box::pin(gather(&inputs, &|_| ())).await);
    assert_is_about_the_past(&report, server.playback());
    report
}

/// Asserts that a report from a capture has no command for a process of that moment and none that changes the node, that only
/// a call that was open then is a certain culprit, and that no process of this machine was asked for its goroutines.
fn assert_is_about_the_past(report: &HealthReport, playback: &Playback) {
    let steps = report.findings.iter().flat_map(|finding| &finding.steps).chain(&report.keep);
    for step in steps {
        assert!(!step.changes_state && !step.names_process, "{step}");
        let words = ["kill", "last resort", "812", "4711"];
        assert!(!words.iter().any(|word| step.to_string().contains(word)), "{step}");
    }
    let mut stacks = report.not_checked.iter().filter(|skipped| skipped.what.ends_with("(stacks)"));
    assert!(stacks.all(|skipped| skipped.why == "not recorded"), "{:?}", report.not_checked);
    let open = playback.unanswered();
    let certain = report.culprits.iter().filter(|culprit| culprit.confidence == Confidence::Certain);
    for culprit in certain {
        assert!(open.iter().any(|call| call.id.as_ref() == Some(&culprit.id)), "{culprit:#?}");
    }
}

/// Records the faults of `plan` and compares every live run with a run on the capture. Skips runs during which a
/// fault begins or ends; `edges` are the seconds of these changes. Returns the number of compared runs.
fn compare_live_and_replayed(name: &str, plan: &FaultPlan, edges: &[f64]) -> usize {
    let place: PathBuf = std::env::temp_dir().join(format!("plegctl-proof-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let local = tokio::task::LocalSet::new();
    let live = local.block_on(&paused.unwrap(), record_and_judge(plan, &place));
    let real = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut compared = 0;
    for run in &live {
        // The live run saw the answers before and after the change; the capture has only those of one moment.
        if edges.iter().any(|edge| run.began - 3.0 <= *edge && *edge <= run.ended) {
            continue;
        }
        assert_agrees(name, run.by_calls, &run.report);
        let replayed = real.block_on(health_on_capture(&place, (run.moment, run.wall)));
        assert_eq!(
            compared_parts(&replayed),
            compared_parts(&run.report),
            "{name}: begun at {}, ended at {}\nreplayed {replayed:#?}\nlive {:#?}",
            run.began,
            run.ended,
            run.report
        );
        compared += 1;
    }
    let end = edges.iter().copied().fold(0.0, f64::max);
    let start = live.first().map(|run| (run.moment, run.wall, run.ended)).unwrap();
    for after in [2.0, 10.0, 600.0] {
        let by = Duration::from_secs_f64(end + after - start.2);
        let replayed = real.block_on(health_on_capture(&place, (start.0.plus(by), start.1.plus(by))));
        let certain = replayed.findings.iter().filter(|found| found.confidence == Confidence::Certain);
        let certain: Vec<_> = certain.map(|found| found.id).collect();
        assert_eq!(
            (replayed.verdict, certain),
            (Verdict::Healthy, vec![RuleId::NothingFound]),
            "{name}: {after} s after"
        );
    }
    let anonymous = place.with_extension("plegcap");
    let mut bytes = Vec::new();
    let original = Capture::open(&place).unwrap();
    export(&original, Range::default(), Some(Pseudonyms::default()), &mut bytes).unwrap();
    fs::write(&anonymous, bytes).unwrap();
    let facts = |capture: &Capture| capture.documents.iter().filter(|one| one.kind == kind::FACTS).count();
    assert_eq!(facts(&Capture::open(&anonymous).unwrap()), facts(&original), "{name}");
    for incident in original.incidents.values() {
        let worst = Capture::open(&place).unwrap().moment(Some(&format!("incident:{}", incident.number)));
        let replayed = real.block_on(health_on_capture(&place, worst.unwrap()));
        let listed: Option<HealthFinding> = serde_json::from_str(&incident.primary).ok();
        assert_eq!(
            listed_parts(replayed.verdict.as_str(), replayed.primary.as_ref()),
            listed_parts(&incident.verdict, listed.as_ref()),
            "{name}: {incident:#?}\nreplayed {replayed:#?}"
        );
        let renamed = Capture::open(&anonymous).unwrap();
        let worst = renamed.moment(Some(&format!("incident:{}", incident.number))).unwrap();
        let renamed = real.block_on(health_on_capture(&anonymous, worst));
        let judged = |report: &HealthReport| -> (Verdict, Vec<(RuleId, Confidence)>) {
            (report.verdict, report.findings.iter().map(|found| (found.id, found.confidence)).collect())
        };
        assert_eq!(judged(&renamed), judged(&replayed), "{name}, without names: {renamed:#?}");
    }
    let _ = (fs::remove_dir_all(&place), fs::remove_file(&anonymous));
    compared
}

fn plan(faults: Vec<Fault>, exits: &[(f64, usize)]) -> FaultPlan {
    FaultPlan { faults, exits: exits.to_vec(), lasts: 720, ..FaultPlan::default() }
}

#[test]
fn hung_list_has_the_same_verdict_live_and_from_the_capture() {
    let plan = plan(vec![hangs(&[Rpc::ListContainers], None, 20.2, 62.2)], &[]);
    assert!(compare_live_and_replayed("list", &plan, &[20.2, 62.2]) > 15);
}

#[test]
fn hung_status_call_has_the_same_verdict_live_and_from_the_capture() {
    let fault = hangs(&[Rpc::ContainerStatus], Some(container_id(3)), 20.2, 62.2);
    assert!(compare_live_and_replayed("status", &plan(vec![fault], &[(20.2, 3)]), &[20.2, 62.2]) > 15);
}

#[test]
fn two_hung_status_calls_of_one_pod_have_the_same_verdict_live_and_from_the_capture() {
    let faults = vec![
        hangs(&[Rpc::ContainerStatus], Some(container_id(3)), 20.2, 62.2),
        hangs(&[Rpc::PodSandboxStatus], Some(sandbox_id(3)), 20.2, 62.2),
    ];
    assert!(compare_live_and_replayed("two", &plan(faults, &[(20.2, 3)]), &[20.2, 62.2]) > 15);
}

#[test]
fn silent_runtime_has_the_same_verdict_live_and_from_the_capture() {
    let plan = plan(vec![hangs(&[], None, 20.2, 62.2)], &[]);
    assert!(compare_live_and_replayed("version", &plan, &[20.2, 62.2]) > 15);
}

#[test]
fn absent_runtime_has_the_same_verdict_live_and_from_the_capture() {
    let error = Error::NoSuchSocket { endpoint: "unix:///run/test.sock".into() };
    let absent = Fault { error: Some(error), ..hangs(&[], None, 20.2, 62.2) };
    assert!(compare_live_and_replayed("absent", &plan(vec![absent], &[]), &[20.2, 62.2]) > 15);
}

#[test]
fn two_faults_one_after_the_other_have_the_same_verdicts_live_and_from_the_capture() {
    let faults = vec![
        hangs(&[Rpc::ListContainers], None, 20.2, 48.2),
        hangs(&[Rpc::ContainerStatus], Some(container_id(3)), 52.2, 92.2),
    ];
    let edges = [20.2, 48.2, 52.2, 92.2];
    assert!(compare_live_and_replayed("after-another", &plan(faults, &[(52.2, 3)]), &edges) > 15);
}

#[test]
fn long_stopped_or_dead_kubelet_has_the_same_verdict_live_and_from_the_capture() {
    for (name, state) in [("stopped", Some('T')), ("dead", None)] {
        let kubelet = vec![(0.0, Some('S')), (20.2, state), (62.2, Some('S'))];
        let plan = FaultPlan { kubelet, lasts: 720, ..FaultPlan::default() };
        assert!(compare_live_and_replayed(name, &plan, &[20.2, 62.2]) > 15);
    }
}

/// Records `plan` and returns its reports for these seconds.
fn replayed_at(name: &str, plan: &FaultPlan, seconds: &[f64]) -> Vec<HealthReport> {
    let place: PathBuf = std::env::temp_dir().join(format!("plegctl-past-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&paused.unwrap(), record_and_judge(plan, &place));
    let real = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The first call is sent at the start of the plan.
    let (start, wall) = {
        let calls = Capture::open(&place).unwrap().calls;
        (calls[0].sent, calls[0].wall)
    };
    let at = |second: &f64| {
        let since = Duration::from_secs_f64(*second);
        real.block_on(health_on_capture(&place, (start.plus(since), wall.plus(since))))
    };
    let reports = seconds.iter().map(at).collect();
    let _ = fs::remove_dir_all(&place);
    reports
}

#[test]
fn stopped_daemon_has_the_same_verdict_and_its_state_live_and_from_the_capture() {
    let faults = vec![hangs(&[], None, 20.2, 62.2)];
    let plan = FaultPlan { stopped_daemon: Some((20.2, 62.2)), ..plan(faults, &[]) };
    assert!(compare_live_and_replayed("daemon", &plan, &[20.2, 62.2]) > 15);
    let report = replayed_at("daemon", &plan, &[50.0]).remove(0);
    let primary = report.primary.unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::SilentRuntime, Confidence::Certain));
    assert!(primary.title.ends_with("containerd[812] is in state T"), "{}", primary.title);
    // The facts of the diagnosis have the age of the process.
    let measured = "containerd[812]: state T, 8 threads, 0 MiB resident, up 57600m00s";
    assert!(primary.evidence.iter().any(|line| line == measured), "{:?}", primary.evidence);
}

#[test]
fn without_readable_facts_a_replay_judges_the_samples_and_says_so() {
    let faults = vec![hangs(&[], None, 20.2, 62.2)];
    let stopped_daemon = Some((20.2, 62.2));
    let plan = FaultPlan { stopped_daemon, damages_facts: true, ..plan(faults, &[]) };
    let report = replayed_at("damaged-facts", &plan, &[50.0]).remove(0);
    let primary = report.primary.unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::SilentRuntime, Confidence::Certain));
    let sampled = "containerd[812]: state T, 8 threads, 0 MiB resident";
    assert!(primary.evidence.iter().any(|line| line == sampled), "{:?}", primary.evidence);
    let is_said = |skipped: &NotChecked| skipped.why.starts_with("not recorded, apart from the runtime");
    assert!(report.not_checked.iter().any(is_said), "{:?}", report.not_checked);
}

#[test]
fn shim_that_two_samples_show_stopped_degrades_the_moment() {
    let plan = FaultPlan { stopped_shim: Some(20.2), lasts: 90, ..FaultPlan::default() };
    let reports = replayed_at("shim", &plan, &[18.0, 24.0, 58.0]);
    let found = reports.iter().map(|report| {
        let shim = report.findings.iter().find(|finding| finding.id == RuleId::HungProcess);
        (report.verdict, shim.map(|finding| finding.confidence))
    });
    let expected = [
        (Verdict::Healthy, None),
        (Verdict::Healthy, Some(Confidence::Possible)),
        (Verdict::Degraded, Some(Confidence::Likely)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let primary = reports[2].primary.as_ref().unwrap();
    assert_eq!(primary.pod.as_ref().unwrap().name, "web-3");
    assert!(
        primary.title.ends_with("its shim containerd-shim[4711] is stopped (state T)"),
        "{}",
        primary.title
    );
}

#[test]
fn moment_after_the_last_relist_is_not_recorded() {
    let plan =
        FaultPlan { kubelet: vec![(0.0, Some('S')), (27.0, Some('T'))], lasts: 30, ..FaultPlan::default() };
    let reports = replayed_at("gap", &plan, &[29.0, 33.0, 40.0]);
    let verdicts = reports.iter().map(|report| report.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts, [Verdict::Unhealthy, Verdict::Unhealthy, Verdict::Unknown]);
    let last = &reports[2];
    assert!(last.findings.iter().all(|found| found.confidence != Confidence::Certain), "{last:#?}");
    let why = "not judged: ListPodSandbox: not recorded: the last relist before this moment had ended ";
    assert!(last.summary.starts_with(why), "{}", last.summary);
}

#[test]
fn moment_early_in_a_silence_says_which_call_was_silent() {
    let seconds = [22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0];
    // If everything is silent, the list call is so first, and later Version is too.
    for rpcs in [&[Rpc::ListPodSandbox] as &[Rpc], &[]] {
        let plan = plan(vec![hangs(rpcs, None, 20.2, 62.2)], &[]);
        let mut early = replayed_at("early", &plan, &seconds);
        early.retain(|report| report.verdict == Verdict::Unknown);
        assert!(!early.is_empty());
        let says = |rpc: Rpc, summary: &str| {
            summary.starts_with(&format!("not judged: {rpc} had no answer yet after "))
        };
        for summary in early.iter().map(|report| &report.summary) {
            let is_version = rpcs.is_empty() && says(Rpc::Version, summary);
            assert!(is_version || says(Rpc::ListPodSandbox, summary), "{summary}");
        }
    }
}

/// A diagnosis can find a full disk, or what a task waits for in the kernel. A capture has no such facts.
#[test]
fn moment_is_unknown_if_the_facts_of_its_diagnosis_are_not_recorded() {
    let place: PathBuf = std::env::temp_dir().join(format!("plegctl-facts-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let limits = Limits { size: 64 << 20, age: 3600 * SECOND, incidents: 20 };
    let recorder = Recorder::start(place.clone(), limits, Arc::clone(&clock)).unwrap();
    assert!(matches!(recorder.opened(600 * SECOND), Some(Ok(0))));
    recorder.begin(Session { period: 5_000_000_000, ..Session::default() }, 600 * SECOND);
    let plan = FaultPlan { lasts: 10, ..FaultPlan::default() };
    let node = FaultyRuntime::of(&plan).observed(recorder.observer(true));
    let real = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = PlegSettings::default();
    let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
    recorder.relist_begins(1);
    let began = recorder.now();
    let report = real.block_on(generic.relist(&node, &*clock, &mut SeenCalls::new(&clock)));
    recorder.relist_finished(began, &report);
    let (now, wall) = (CaptureMoment { session: 0, mono: recorder.now() }, clock.wall());
    let found = "DEGRADED: the runtime or the kubelet cannot write to its directories (D34, likely)";
    recorder.incident(Incident {
        number: 1,
        from: wall.nanos(),
        peak: wall.nanos(),
        to: wall.plus(SECOND).nanos(),
        verdict: "degraded".into(),
        summary: found.into(),
        ..Incident::default()
    });
    assert!(recorder.close("the test is over", 60 * SECOND));
    let during = real.block_on(health_on_capture(&place, (now, wall)));
    let after = real.block_on(health_on_capture(&place, (now.plus(2 * SECOND), wall.plus(2 * SECOND))));
    let _ = fs::remove_dir_all(&place);
    assert_eq!(
        (during.verdict, after.verdict),
        (Verdict::Unknown, Verdict::Healthy),
        "{during:#?}\n{after:#?}"
    );
    assert!(during.summary.ends_with(found), "{}", during.summary);
}

#[test]
fn failure_of_an_old_status_call_names_no_culprit() {
    let id = container_id(3);
    let error = Error::Runtime { rpc: Rpc::ContainerStatus, code: Code::Unknown, message: "no".into() };
    let fails = Fault { error: Some(error), ..hangs(&[Rpc::ContainerStatus], Some(id.clone()), 20.2, 400.0) };
    let faults = vec![fails, hangs(&[Rpc::ListContainers], None, 25.2, 140.0)];
    let plan = FaultPlan { lasts: 200, ..plan(faults, &[(20.2, 3)]) };
    let reports = replayed_at("failed", &plan, &[24.0, 110.0]);
    let culprits = |report: &HealthReport| {
        let about = report.culprits.iter().filter(|culprit| culprit.id == id);
        about.map(|culprit| culprit.confidence).collect::<Vec<_>>()
    };
    assert_eq!(culprits(&reports[0]), [Confidence::Likely]);
    assert_eq!(culprits(&reports[1]), []);
    assert_eq!(reports[1].verdict, Verdict::Unhealthy, "the list hangs");
}

#[test]
fn long_kubelet_that_does_not_relist_has_the_same_verdict_live_and_from_the_capture() {
    let plan = FaultPlan { stale: Some((20.2, 282.2)), lasts: 930, ..FaultPlan::default() };
    // The age exceeds the threshold of three minutes from 200.2 s on.
    assert!(compare_live_and_replayed("stale", &plan, &[20.2, 200.2, 282.2]) > 15);
}
