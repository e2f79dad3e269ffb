//! `plegctl record`: the flight recorder.
//!
//! ```text
//! $ plegctl record /var/lib/plegctl --metrics-listen 127.0.0.1:9188
//! recording unix:///run/containerd/containerd.sock to /var/lib/plegctl, at most 256.0 MiB
//! incident 1: ContainerStatus of shop/db-0 has not been answered for 2s
//! incident 1: UNHEALTHY: ContainerStatus of shop/db-0/postgres does not answer (D01, certain)
//! incident 1 is over after 2m3s
//! ```
//!
//! It relists as `watch` does, at a pace of its own, and keeps what every call came to, so that any question can be asked
//! the morning after. It makes the diagnosis while an incident lasts, because by then nothing else can be started on the
//! node, and never asks again what hangs. A disk that is full or hangs stops the recording and not the watching.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use super::context::{Context, ONE_SHOT_TIMEOUT, block_on, runtime_ref};
use super::health::diagnose;
use super::render::capture as text;
use super::stops::Stops;
use super::watch::Outlet;
use super::{Error, Exit, positive_duration};
use crate::capture::entry::{Session, kind};
use crate::capture::{Judgement, Limits, Look, Recorder, Rules, SMALLEST, Step, Store, Watchman, node};
use crate::cri::{Client, Endpoint, Outcome, Runtime};
use crate::diagnosis::stacks::Wanted;
use crate::diagnosis::{HealthReport, KnownHang};
use crate::kubelet::KubeletVersion;
use crate::pleg::stream::{Event, Health};
use crate::pleg::{CallRecord, Generic, Hub, OpenCall, Settings, Sink, Timing, Turn, Worker};

/// Deadline of a call while recording: the kubelet's own.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often what lasts is looked at.
const TICK: Duration = Duration::from_millis(500);

/// How often pressure, processes and the runtime's own word are taken down.
const SAMPLE: Duration = Duration::from_secs(30);

/// How long the writer may take for what is left when the recording ends.
const PATIENCE: Duration = Duration::from_millis(600);

/// The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Directory of the capture; made if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    /// Never take more than this on the disk, pinned incidents included
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    max_size: u64,

    /// Give up what is older than this and belongs to no incident
    #[arg(long, value_name = "DUR", default_value = "7d", value_parser = positive_duration)]
    max_age: Duration,

    /// Pause between the end of a relist and the start of the next
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = positive_duration)]
    period: Duration,

    /// A call or a relist beyond this opens an incident, as one that fails does
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = positive_duration)]
    slow: Duration,

    /// Age of the last relist from which on PLEG is not healthy
    #[arg(long, value_name = "DUR", default_value = "3m", value_parser = positive_duration)]
    threshold: Duration,

    /// How much before an incident is pinned
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = humantime::parse_duration)]
    before: Duration,

    /// How much after an incident is pinned
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = humantime::parse_duration)]
    after: Duration,

    /// How many incidents are pinned
    #[arg(long, value_name = "N", default_value = "20")]
    keep: usize,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    lasting: Option<Duration>,

    /// Leave out pressure and processes of the node, and the runtime's goroutines
    #[arg(long)]
    no_host: bool,

    /// Leave out the diagnosis that is made while an incident lasts
    #[arg(long)]
    no_diagnose: bool,

    /// Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: this node's, else the newest
    /// known]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// Serve the kubelet's PLEG metrics and the recorder's own over HTTP on this address, at `/metrics`
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<SocketAddr>,
}

/// A number of bytes with a unit: `64MiB`, `1GiB`, `500000`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: u64 = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        other => return Err(format!("`{other}` is no unit of size (KiB, MiB, GiB)")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{digits}` is no number"))?;
    let bytes = number.checked_mul(factor).ok_or("it is more than there can be")?;
    if bytes < SMALLEST {
        return Err(format!("it must be at least {} KiB", SMALLEST / 1024));
    }
    Ok(bytes)
}

/// Runs the command.
pub fn run(arguments: &RecordArgs, context: &Context) -> Result<Exit, Error> {
    let endpoint = context.endpoint()?;
    block_on(async { Box::pin(Flight::begin(arguments, context, &endpoint).await?.run()).await })?
}

/// A recording from its first word to its last.
struct Flight<'a> {
    arguments: &'a RecordArgs,
    context: &'a Context,
    endpoint: &'a Endpoint,
    client: Client,
    recorder: Recorder,
    hub: Arc<Hub>,
    generic: Generic,
    worker: Worker,
    said: Outlet,
    state: Arc<Mutex<State>>,
    outside: Outside,
    aside: Aside<'a>,
    samples: node::Samples,
}

/// What comes from outside.
struct Outside {
    stops: Stops,
    reopen: Signal,
    ticks: Interval,
    samples: Interval,
}

#[derive(Clone, Copy)]
enum Interruption {
    End(&'static str),
    Reopen,
    Tick,
    Sample,
}

/// What goes on beside the relists.
#[derive(Default)]
struct Aside<'a> {
    diagnosis: Option<Pin<Box<dyn Future<Output = Option<HealthReport>> + 'a>>>,
    greeting: Option<Pin<Box<dyn Future<Output = bool> + 'a>>>,
    /// Whether `Status` was silent when it was asked last: then it is left alone until a list has been answered.
    status_hangs: bool,
}

/// What happens beside the relists.
enum Done {
    Diagnosed(Option<Box<HealthReport>>),
    Greeted(bool),
}

impl Aside<'_> {
    /// The next thing that is over.
    async fn next(&mut self) -> Done {
        let Self { diagnosis, greeting, .. } = self;
        let done = tokio::select! {
            report = or_never(diagnosis.as_mut()) => Done::Diagnosed(report.map(Box::new)),
            answered = or_never(greeting.as_mut()) => Done::Greeted(answered),
        };
        match &done {
            Done::Diagnosed(_) => self.diagnosis = None,
            Done::Greeted(answered) => {
                self.greeting = None;
                self.status_hangs = !answered;
            }
        }
        done
    }
}

async fn or_never<T>(something: Option<impl Future<Output = T>>) -> T {
    match something {
        Some(something) => something.await,
        None => std::future::pending().await,
    }
}

/// What the metrics tell and the sink learns.
struct State {
    watchman: Watchman,
    open: Option<OpenCall>,
    /// Told how long the open call took, when it is answered.
    answered: watch::Sender<Option<Duration>>,
    healthy: Option<bool>,
    incidents: u64,
    culprit: Option<Culprit>,
}

/// Whom the last diagnosis of the open incident names.
struct Culprit {
    rule: String,
    rpc: String,
    namespace: String,
    pod: String,
    container: String,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes down events, and knows which call is open.
struct Log<'a> {
    recorder: &'a Recorder,
    state: &'a Mutex<State>,
}

impl Sink for Log<'_> {
    fn event(&mut self, event: Event) {
        // What there was before is in the lists.
        if !event.initial {
            self.recorder.document(kind::EVENT, &event);
        }
    }

    fn call_started(&mut self, call: &OpenCall) {
        let mut state = locked(self.state);
        state.open = Some(call.clone());
        state.answered = watch::Sender::new(None);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        let mut state = locked(self.state);
        state.open = None;
        // A diagnosis that took it for hung wants to know.
        if call.outcome != Outcome::Silent {
            state.answered.send_replace(Some(call.duration_seconds.duration()));
        }
    }
}

impl<'a> Flight<'a> {
    /// Takes the directory, meets the runtime, and says what is going to happen.
    async fn begin(
        arguments: &'a RecordArgs,
        context: &'a Context,
        endpoint: &'a Endpoint,
    ) -> Result<Self, Error> {
        let limits = Limits { size: arguments.max_size, age: arguments.max_age, incidents: arguments.keep };
        let store = Store::open(&arguments.directory, limits)?;
        let last = store.incidents();
        let greeting = context.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
        let version = context.client(endpoint, greeting)?.with_deadline(greeting).version().await.result?;
        let kubelet = match arguments.kubelet_version {
            Some(version) => version,
            None => context.kubelet_release().await.unwrap_or(KubeletVersion::NEWEST),
        };
        let runtime = runtime_ref(endpoint, version);
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let session = Session {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            node: context.node_name().unwrap_or_default(),
            endpoint: runtime.endpoint,
            runtime: runtime.name.unwrap_or_default(),
            runtime_version: runtime.version.unwrap_or_default(),
            period: nanos(arguments.period),
            threshold: nanos(arguments.threshold),
            slow: nanos(arguments.slow),
            kubelet: kubelet.to_string(),
            timeout: nanos(context.timeout.unwrap_or(TIMEOUT)),
            ..Session::default()
        };
        let clock = Arc::clone(&context.clock);
        let directory = arguments.directory.clone();
        let recorder = Recorder::start(store, directory, limits, session, clock).map_err(Error::Start)?;
        // Whatever else is asked, as a diagnosis does, is taken down too.
        context.tape(recorder.tape(false));
        let client = context.client(endpoint, TIMEOUT)?.with_tape(recorder.tape(true));
        let rules = Rules {
            slow: arguments.slow,
            threshold: arguments.threshold,
            before: arguments.before,
            after: arguments.after,
        };
        let state = State {
            watchman: Watchman::new(rules, last),
            open: None,
            answered: watch::Sender::new(None),
            healthy: None,
            incidents: 0,
            culprit: None,
        };
        let state = Arc::new(Mutex::new(state));
        let hub = Arc::new(Hub::new(false));
        if let Some(address) = arguments.metrics_listen {
            let own = metrics(recorder.clone(), Arc::clone(&state));
            let bound = super::watch::serve_metrics(address, Arc::clone(&hub), own).await;
            bound.map_err(|source| Error::Listen { address, source })?;
        }
        let timing = Timing { period: arguments.period, threshold: arguments.threshold };
        let settings = Settings { era: kubelet.era(), evented_gate: false, inspect: true };
        let said = Outlet::plain(io::stdout());
        said.line(text::recording(&endpoint.to_string(), &arguments.directory, arguments.max_size));
        Ok(Self {
            arguments,
            context,
            endpoint,
            client,
            recorder,
            generic: Generic::new(Arc::clone(&hub), settings),
            hub,
            worker: Worker::start(timing, context.clock.mono()),
            said,
            state,
            outside: Outside::listen(arguments).map_err(Error::Start)?,
            aside: Aside::default(),
            samples: node::Samples::of(proc_of(arguments, endpoint)),
        })
    }

    async fn run(mut self) -> Result<Exit, Error> {
        let why = loop {
            let turn = self.worker.next(self.context.clock.mono());
            let ended = match turn {
                Turn::Relist => self.relist().await,
                Turn::Wait(until) => {
                    let length = until.since(self.context.clock.mono());
                    self.rest(length).await
                }
            };
            if let Some(why) = ended {
                break why;
            }
        };
        self.finish(why)
    }

    /// One relist; `Some` if the recording is over.
    async fn relist(&mut self) -> Option<&'static str> {
        let number = self.generic.relists() + 1;
        let began = self.recorder.now();
        self.recorder.relist_begins(number);
        let started = self.context.clock.mono();
        let Self {
            arguments,
            context,
            endpoint,
            client,
            recorder,
            hub,
            generic,
            said,
            state,
            outside,
            aside,
            samples,
            ..
        } = self;
        let mut desk = Desk { arguments, context, endpoint, recorder, hub, said, state, aside, samples };
        let mut log = Log { recorder, state };
        let report = {
            let mut relist = pin!(generic.relist(client, &*context.clock, &mut log));
            loop {
                tokio::select! {
                    biased;
                    report = &mut relist => break report,
                    done = desk.aside.next() => desk.done(done),
                    interruption = outside.interruption(said) => {
                        if let Some(end) = desk.answer(interruption, Some(started)) {
                            return Some(end);
                        }
                    }
                }
            }
        };
        recorder.relist_begins(0);
        desk.relisted(began, &report);
        self.worker.relisted(self.context.clock.mono());
        let enough = self.arguments.count.is_some_and(|count| self.generic.relists() >= count.get());
        enough.then_some("--count")
    }

    async fn rest(&mut self, length: Duration) -> Option<&'static str> {
        let Self {
            arguments, context, endpoint, recorder, hub, said, state, outside, aside, samples, ..
        } = self;
        let mut desk = Desk { arguments, context, endpoint, recorder, hub, said, state, aside, samples };
        let mut rest = pin!(tokio::time::sleep(length));
        loop {
            tokio::select! {
                biased;
                () = &mut rest => return None,
                done = desk.aside.next() => desk.done(done),
                interruption = outside.interruption(said) => {
                    if let Some(end) = desk.answer(interruption, None) {
                        return Some(end);
                    }
                }
            }
        }
    }

    fn finish(self, why: &str) -> Result<Exit, Error> {
        if let Some(incident) = locked(&self.state).watchman.open() {
            self.recorder.incident(incident.clone());
        }
        // What is still asked is not waited for; that it was not is taken down as well.
        drop(self.aside);
        drop(self.client);
        let state = self.recorder.state();
        let written = self.recorder.close(why, PATIENCE);
        let relists = self.generic.relists();
        self.said.line(text::recorded(relists, locked(&self.state).incidents, &state, written));
        self.said.close().map_err(Error::Output)?;
        Ok(Exit::Good)
    }
}

/// A simulated node has no processes; this machine's are somebody else's.
fn proc_of(arguments: &RecordArgs, endpoint: &Endpoint) -> Option<PathBuf> {
    let real = matches!(endpoint, Endpoint::Unix { .. }) && !arguments.no_host;
    real.then(|| PathBuf::from("/proc"))
}

impl Outside {
    fn listen(arguments: &RecordArgs) -> io::Result<Self> {
        let every = |period| {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        Ok(Self {
            stops: Stops::listen(arguments.lasting)?,
            reopen: signal(SignalKind::hangup())?,
            ticks: every(TICK.min(arguments.slow)),
            samples: every(SAMPLE),
        })
    }

    async fn interruption(&mut self, said: &Outlet) -> Interruption {
        let Self { stops, reopen, ticks, samples } = self;
        tokio::select! {
            biased;
            () = stops.next() => Interruption::End("told to"),
            () = said.broken() => Interruption::End("nobody reads what it says"),
            Some(()) = reopen.recv() => Interruption::Reopen,
            _ = samples.tick() => Interruption::Sample,
            _ = ticks.tick() => Interruption::Tick,
        }
    }
}

/// Everything that is needed to react to something.
struct Desk<'d, 'a> {
    arguments: &'d &'a RecordArgs,
    context: &'d &'a Context,
    endpoint: &'d &'a Endpoint,
    recorder: &'d Recorder,
    hub: &'d Hub,
    said: &'d Outlet,
    state: &'d Mutex<State>,
    aside: &'d mut Aside<'a>,
    samples: &'d mut node::Samples,
}

impl Desk<'_, '_> {
    /// Does what an interruption asks for; `Some` if the recording is to end.
    fn answer(
        &mut self,
        interruption: Interruption,
        relist: Option<crate::clock::Mono>,
    ) -> Option<&'static str> {
        match interruption {
            Interruption::End(why) => return Some(why),
            Interruption::Reopen => self.recorder.reopen(),
            Interruption::Tick => self.look(relist),
            Interruption::Sample => self.sample(),
        }
        None
    }

    /// Looks at what lasts.
    fn look(&mut self, relist: Option<crate::clock::Mono>) {
        let clock = &*self.context.clock;
        let now = clock.mono();
        let verdict = self.hub.check(clock, self.arguments.threshold);
        let mut state = locked(self.state);
        // Before the first relist is over the kubelet calls itself unhealthy too, which says nothing.
        let young = self.hub.last_list().is_none();
        if !young && state.healthy.replace(verdict.is_ok()) != Some(verdict.is_ok()) {
            let message = verdict.err().map(|why| why.to_string()).unwrap_or_default();
            let health = Health { time: clock.wall(), healthy: message.is_empty(), message };
            self.recorder.document(kind::HEALTH, &health);
        }
        let call = state.open.as_ref().map(|open| (now.since(open.started), text::open_call(open)));
        let whole = relist.map(|started| (now.since(started), "the relist".to_owned()));
        let (waited, what) = match (call, whole) {
            // Many calls that are answered in time may be too much together.
            (Some(call), Some(whole)) if call.0 >= whole.0 / 4 => (whole.0, call.1),
            (_, Some(whole)) => whole,
            (call, None) => call.unwrap_or_default(),
        };
        let age = self.hub.last_list().map(|last| now.since(last));
        let steps = state.watchman.look(clock.wall(), &Look { waited, what, age });
        drop(state);
        self.take(steps);
    }

    /// A relist is over.
    fn relisted(&mut self, began: u64, report: &crate::pleg::stream::Relist) {
        self.recorder.relist_over(began, report);
        if report.outcome == Outcome::Ok {
            self.aside.status_hangs = false;
        }
        let mut state = locked(self.state);
        state.open = None;
        let steps = state.watchman.relist(report);
        drop(state);
        self.take(steps);
        self.look(None);
    }

    fn take(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Write(incident) => {
                    let mut state = locked(self.state);
                    if incident.to == 0 {
                        state.incidents += 1;
                    } else {
                        state.culprit = None;
                    }
                    drop(state);
                    self.said.line(text::incident(&incident));
                    self.recorder.incident(incident);
                }
                Step::Diagnose => self.diagnose(),
            }
        }
    }

    /// Starts to find out what holds PLEG up, unless somebody does already. What hangs is not asked again.
    fn diagnose(&mut self) {
        if self.arguments.no_diagnose || self.aside.diagnosis.is_some() {
            return;
        }
        let now = self.context.clock.mono();
        let state = locked(self.state);
        let known = state.open.as_ref().map(|open| KnownHang {
            rpc: open.rpc,
            id: open.id.clone(),
            waited: now.since(open.started),
            answered: Some(state.answered.subscribe()),
        });
        drop(state);
        let (context, endpoint) = (*self.context, *self.endpoint);
        let stacks = if self.arguments.no_host { Wanted::Never } else { Wanted::Auto };
        self.aside.diagnosis =
            Some(Box::pin(async move { diagnose(context, endpoint, known, stacks).await.ok() }));
    }

    /// Something beside the relists is over.
    fn done(&mut self, done: Done) {
        let Done::Diagnosed(Some(report)) = done else { return };
        self.recorder.document(kind::DIAGNOSIS, &report);
        if let Some(stacks) = &report.stacks {
            self.recorder.document(kind::STACKS, stacks);
        }
        let judgement = judgement(&report);
        let mut state = locked(self.state);
        let number = state.watchman.open().map(|incident| incident.number);
        let Some(incident) = state.watchman.judged(judgement) else { return };
        state.culprit = culprit(&report);
        drop(state);
        if let Some(number) = number {
            self.said.line(text::judged(number, &report));
        }
        self.recorder.incident(incident);
    }

    /// Pressure, processes, and the runtime's own word.
    fn sample(&mut self) {
        if let Some(sample) = self.samples.take() {
            self.recorder.document(kind::NODE, &sample);
        }
        if self.aside.greeting.is_some() {
            return;
        }
        let (context, endpoint, hangs) = (*self.context, *self.endpoint, self.aside.status_hangs);
        self.aside.greeting = Some(Box::pin(async move {
            let Ok(client) = context.client(endpoint, ONE_SHOT_TIMEOUT) else { return true };
            let client = client.with_deadline(ONE_SHOT_TIMEOUT);
            let greeted = client.version().await.outcome() != Outcome::Silent;
            if !greeted || hangs {
                return false;
            }
            client.status().await.outcome() != Outcome::Silent
        }));
    }
}

fn judgement(report: &HealthReport) -> Judgement {
    use crate::diagnosis::report::Verdict;
    let primary = report.primary.as_ref().and_then(|finding| serde_json::to_string(finding).ok());
    Judgement {
        verdict: report.verdict.as_str().to_owned(),
        summary: text::verdict_line(report),
        primary,
        weight: match report.verdict {
            Verdict::Unhealthy => 3,
            Verdict::Degraded => 2,
            Verdict::Healthy => 1,
            Verdict::Unknown => 0,
        },
    }
}

fn culprit(report: &HealthReport) -> Option<Culprit> {
    let finding = report.primary.as_ref()?;
    let pod = finding.pod.clone().unwrap_or_default();
    Some(Culprit {
        rule: finding.id.to_string(),
        rpc: finding.rpc.clone().unwrap_or_default(),
        namespace: pod.namespace,
        pod: pod.name,
        container: finding.container.as_ref().map(|container| container.name.clone()).unwrap_or_default(),
    })
}

/// The recorder's own part of the page at `/metrics`.
fn metrics(recorder: Recorder, state: Arc<Mutex<State>>) -> super::watch::Page {
    Arc::new(move || {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = own_metrics(&mut page, &recorder, &locked(&state));
        page
    })
}

fn own_metrics(page: &mut String, recorder: &Recorder, state: &State) -> std::fmt::Result {
    let recording = recorder.state();
    let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
        writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
    };
    metric("plegctl_record_bytes", "gauge", "Size of the capture on the disk.", recording.extent.bytes)?;
    metric("plegctl_record_segments", "gauge", "Segments of the capture.", recording.extent.segments)?;
    metric(
        "plegctl_record_lost_entries_total",
        "counter",
        "Entries that could not be kept.",
        recording.lost,
    )?;
    metric(
        "plegctl_record_writing",
        "gauge",
        "Whether the capture takes entries right now.",
        u64::from(recording.trouble.is_none()),
    )?;
    metric("plegctl_record_incidents_total", "counter", "Incidents opened.", state.incidents)?;
    metric(
        "plegctl_record_incident_open",
        "gauge",
        "Whether an incident lasts right now.",
        u64::from(state.watchman.open().is_some()),
    )?;
    let Some(culprit) = &state.culprit else { return Ok(()) };
    let name = "plegctl_incident_culprit";
    writeln!(
        page,
        "# HELP {name} What the diagnosis of the incident that lasts names.\n# TYPE {name} gauge"
    )?;
    writeln!(
        page,
        "{name}{{rule={},rpc={},namespace={},pod={},container={}}} 1",
        quoted(&culprit.rule),
        quoted(&culprit.rpc),
        quoted(&culprit.namespace),
        quoted(&culprit.pod),
        quoted(&culprit.container),
    )
}

/// A label value as Prometheus wants it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("256MiB"), Ok(256 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("500000"), Ok(500_000));
        for bad in ["", "MiB", "12MB", "-1MiB", "1KiB", "99999999999TiB", "ä"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_label_cannot_end_early() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
