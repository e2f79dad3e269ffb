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

use std::cell::{Cell, OnceCell};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use super::context::{Context, block_on, runtime_ref};
use super::health::{SIMULATED_KUBELET, diagnose};
use super::kubelet_access::KubeletAccess;
use super::render::capture as text;
use super::stop_signals::{StopSignals, Suspension, outlive_hangup};
use super::watch::{GuardedStream, QueuedOutput, StreamItem, StreamObserver, StreamSettings};
use super::{Error, Exit, positive_duration};
use crate::capture::entry::{Session, kind};
use crate::capture::node::KubeletSample;
use crate::capture::node::KubeletState;
use crate::capture::{Judgement, Limits, Look, Recorder, Rules, SMALLEST, Step, Subject, Watchman, node};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::{self, Client, Endpoint, EndpointError, Outcome, ReceivedEvent, Rpc, Runtime, Version};
use crate::diagnosis::stacks::Wanted;
use crate::diagnosis::{CallersPendingCall, HealthReport};
use crate::host::{self, WELL_KNOWN_SOCKETS};
use crate::kubelet::{Credentials, KubeletApi, KubeletProcess, KubeletVersion, Metrics, Search, http};
use crate::or_never::or_never;
use crate::pleg::readers::{StreamReaders, empty_stream, readers_of};
use crate::pleg::stream::{Event, Health, Stream};
use crate::pleg::{
    CallRecord, GenericPleg, OpenCall, PlegSettings, PlegTiming, RelistTimer, SharedState, Sink, TimerAction,
};
use crate::report::escape::label_value;
use crate::report::json;
use crate::sim::{self, KubeletPages, KubeletProcessState};
use crate::threads::blocking;

/// Deadline of a call while recording: the kubelet's own.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often what lasts is looked at.
const TICK: Duration = Duration::from_millis(500);

/// How often it is looked whether anything lasts, while all is well and nothing else happens.
const IDLE_TICK: Duration = Duration::from_secs(5);

/// How often pressure, processes and the runtime's own word are taken down.
const SAMPLE: Duration = Duration::from_secs(30);

/// How long after a Status another is asked.
const STATUS_AGAIN: Duration = Duration::from_secs(25);

/// How often Version is asked while an incident lasts, and how long after a silent one it is asked on another connection.
const VERSION_AGAIN: Duration = Duration::from_secs(5);
const VERSION_SOON: Duration = Duration::from_secs(2);

/// From which age of the kubelet's last relist on its metrics are read often, and how often.
const KUBELET_OLD: Duration = Duration::from_secs(60);
const KUBELET_AGAIN: Duration = Duration::from_secs(2);

/// How often the states of shims are read at most.
const SHIMS_AGAIN: Duration = Duration::from_secs(2);

/// How long the kubelet's metrics are waited for.
const METRICS: Duration = Duration::from_secs(5);

/// After this time the event stream is closed and opened again, as a watch does it.
const LONGEST_STREAM: Duration = Duration::from_secs(600);

/// How long the writer may take for the queued entries when a signal or `--for` ends the recording.
const CLOSE_LIMIT: Duration = Duration::from_millis(600);

/// The same when it ends by itself, and nobody waits for it to be gone.
const LONG_CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// How long the runtime may take to introduce itself before the recording begins without that.
const VERSION_LIMIT: Duration = Duration::from_secs(2);

/// The same for the disk.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Why it ends by itself.
const ENDED_BY_COUNT: &str = "--count";

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Directory of the capture; made if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    /// Maximum size on disk, pinned incidents included
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    max_size: u64,

    /// Delete recordings older than this, except pinned incidents
    #[arg(long, value_name = "DUR", default_value = "7d", value_parser = positive_duration)]
    max_age: Duration,

    /// Pause between the end of a relist and the start of the next
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = positive_duration)]
    period: Duration,

    /// Open an incident when a call or a relist takes longer than this (a failure opens one too)
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = positive_duration)]
    slow: Duration,

    /// Age of the last relist from which on PLEG is not healthy
    #[arg(long, value_name = "DUR", default_value = "3m", value_parser = positive_duration)]
    threshold: Duration,

    /// Time to pin before an incident
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = humantime::parse_duration)]
    before: Duration,

    /// Time to pin after an incident
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = humantime::parse_duration)]
    after: Duration,

    /// Number of incidents to pin
    #[arg(long, value_name = "N", default_value = "20")]
    keep: usize,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    lasting: Option<Duration>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// Do not record pressure and processes of the node, or the runtime's goroutines
    #[arg(long)]
    no_host: bool,

    /// Do not run the diagnosis during an incident
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
    let bytes = number.checked_mul(factor).ok_or("it is too large")?;
    if bytes < SMALLEST {
        return Err(format!("it must be at least {} KiB", SMALLEST / 1024));
    }
    Ok(bytes)
}

/// Runs the command.
pub fn run(arguments: &RecordArgs, context: &Context) -> Result<Exit, Error> {
    block_on(async {
        outlive_hangup().map_err(Error::Start)?;
        let found = OnceCell::new();
        let (endpoint, assumed) = match context.endpoint() {
            // The runtime may come later, and until then its absence is what is to be recorded.
            Err(Error::Endpoint(EndpointError::NothingFound { .. })) => {
                (default_endpoint(context), Some(&found))
            }
            endpoint => (endpoint?, None),
        };
        Box::pin(Recording::begin(arguments, context, &endpoint, assumed).await?.run()).await
    })?
}

/// Returns the endpoint that a kubelet uses by default.
fn default_endpoint(context: &Context) -> Endpoint {
    let [(_, socket), ..] = WELL_KNOWN_SOCKETS;
    Endpoint::Unix { path: context.host.path(socket), name: format!("unix://{socket}") }
}

/// A running recording.
struct Recording<'a> {
    arguments: &'a RecordArgs,
    context: &'a Context,
    endpoint: &'a Endpoint,
    client: Client,
    recorder: Recorder,
    hub: Arc<SharedState>,
    generic: GenericPleg,
    timer: RelistTimer,
    output: QueuedOutput,
    state: Arc<Mutex<State>>,
    signals: Signals,
    background: Background<'a>,
    samples: node::Samples,
    metrics: Option<Rc<MetricsReader<'a>>>,
    guarded_stream: Option<GuardedStream>,
    availability: StreamAvailability,
    /// Where the runtime is found, if it was not when the recording began.
    assumed: Option<&'a OnceCell<Endpoint>>,
    /// The session, until the runtime has introduced itself.
    unnamed_session: Option<Session>,
}

/// Signals, `--for` and the sampling interval.
struct Signals {
    stop: StopSignals,
    suspension: Suspension,
    reopen: Signal,
    samples: Interval,
}

enum Interruption {
    End(&'static str),
    Suspend,
    Reopen,
    Tick,
    Sample,
    Stream(StreamItem),
}

/// Whether the runtime's event stream can be read. The client records the events, so they are ignored here.
#[derive(Default)]
struct StreamAvailability {
    /// The meaning of a stream that ends without an event, for this runtime.
    meaning_of_empty: Cell<Option<&'static str>>,
    /// Whether such an end was seen.
    ended_at_once: Cell<bool>,
    /// Whether the user has been informed that the stream cannot be opened at the moment.
    reported_unavailable: Cell<bool>,
}

impl StreamObserver for StreamAvailability {
    fn stream(&self, notice: Stream) {
        let meaning_of_empty = self.meaning_of_empty.get();
        if meaning_of_empty.is_some() && notice.error.as_deref() == meaning_of_empty {
            self.ended_at_once.set(true);
        }
    }

    fn event_received(&self, _event: &ReceivedEvent) {}

    fn dropped(&self, _events: u64, _notice: Stream) {}

    fn stream_failed(&self) {}

    fn crowded(&self) {}

    fn sink(&self) -> Box<dyn Sink + '_> {
        Box::<Vec<Event>>::default()
    }
}

/// The kubelet's own metrics, where they may be read.
struct MetricsReader<'a> {
    access: &'a KubeletAccess,
    context: Context,
    api: Mutex<KubeletApi>,
}

impl MetricsReader<'_> {
    /// Creates the reader for the kubelet that the user named, else for this node's: with the account of this pod, or by
    /// its read-only port.
    fn of<'a>(
        arguments: &'a RecordArgs,
        context: &Context,
        endpoint: &Endpoint,
    ) -> Result<Option<MetricsReader<'a>>, Error> {
        let access = &arguments.kubelet;
        let own = matches!(endpoint, Endpoint::Unix { .. }) && !arguments.no_host;
        let api = match access.api(context)? {
            None if matches!(endpoint, Endpoint::Sim { .. }) => simulated_kubelet(context, endpoint)?,
            None if own => access.api_or_own(context)?.or(read_only(context)?),
            api => api,
        };
        let context = context.with_kubelet(context.kubelet().cloned());
        Ok(api.map(|api| MetricsReader { access, context, api: Mutex::new(api) }))
    }

    /// Asks once, and keeps the few series that matter here.
    async fn read(&self, clock: &dyn Clock) -> KubeletSample {
        let api = self.api.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let started = clock.mono();
        let answer = api.get("/metrics", METRICS).await;
        let took = clock.mono().since(started).into();
        match answer.and_then(|answer| answer.document(&api.url("/metrics"))) {
            Ok(text) => {
                KubeletSample { took, text: Some(Metrics::relevant(&text)), ..KubeletSample::default() }
            }
            Err(why) => {
                // A token is replaced from time to time.
                let renewed = matches!(why, http::Error::Unauthorized { .. });
                let api = renewed.then(|| self.access.api_or_own(&self.context).ok().flatten()).flatten();
                if let Some(api) = api {
                    *self.api.lock().unwrap_or_else(PoisonError::into_inner) = api;
                }
                KubeletSample { took, silent: why.is_silent(), why: Some(why.to_string()), text: None }
            }
        }
    }
}

/// The calls and the diagnosis that run in parallel with relists.
#[derive(Default)]
struct Background<'a> {
    diagnosis: Option<Pin<Box<dyn Future<Output = Option<HealthReport>> + 'a>>>,
    version: Option<Pin<Box<dyn Future<Output = Option<Version>> + 'a>>>,
    /// When Version was asked last.
    version_asked: Mono,
    status: Option<Pin<Box<dyn Future<Output = bool> + 'a>>>,
    /// When Status was asked last, if it was.
    status_asked: Option<Mono>,
    metrics: Option<Pin<Box<dyn Future<Output = KubeletSample> + 'a>>>,
    /// Looks for a kubelet that was not there when its settings were read last.
    search: Option<Pin<Box<dyn Future<Output = Option<KubeletProcess>> + 'a>>>,
    /// The kubelet whose settings were read last.
    searched: Option<u32>,
    /// When the kubelet's metrics were asked for last.
    metrics_asked: Mono,
    /// When the kubelet had relisted last, by its metrics.
    kubelet_relisted: Option<Wall>,
    /// When the states of shims were read last.
    shims_read: Mono,
    /// How the kubelet's process was at the last look.
    kubelet: Option<KubeletState>,
    /// Whether the kubelet's metrics were silent: they wait for the runtime, and are left alone for as long.
    metrics_hang: bool,
    /// Whether `Status` was silent when it was asked last: then it is left alone until a list has been answered.
    status_hangs: bool,
}

/// The result of work in parallel with relists.
enum BackgroundResult {
    Diagnosed(Option<Box<HealthReport>>),
    /// What Version answered, if it did.
    Version(Option<Version>),
    Status,
    Measured(KubeletSample),
    /// The kubelet that runs here now.
    Searched(Option<Box<KubeletProcess>>),
}

impl Background<'_> {
    /// On a node with this kubelet.
    fn beside(kubelet: Option<&KubeletProcess>) -> Self {
        Self { searched: kubelet.map(|kubelet| kubelet.pid), ..Self::default() }
    }

    /// Waits for the next result.
    async fn next(&mut self) -> BackgroundResult {
        let Self { diagnosis, version, status, metrics, search, .. } = self;
        let done = tokio::select! {
                    report = or_never(diagnosis.as_mut()) => BackgroundResult::Diagnosed(report.map(Box::new)),
                    version = or_never(version.as_mut()) => BackgroundResult::Version(version),
                    answered = or_never(status.as_mut()) => {
                        self.status_hangs = !answered;
                        BackgroundResult::Status
                    }
                    sample = or_never(metrics.as_mut()) => BackgroundResult::Measured(sample),
        found = or_never(search.as_mut()) => BackgroundResult::Searched(found.map(Box::new)),
                };
        match &done {
            BackgroundResult::Diagnosed(_) => self.diagnosis = None,
            BackgroundResult::Version(_) => self.version = None,
            BackgroundResult::Status => self.status = None,
            BackgroundResult::Searched(_) => self.search = None,
            BackgroundResult::Measured(sample) => {
                self.metrics = None;
                self.metrics_hang = sample.silent;
                let relisted = sample.text.as_ref().and_then(|text| Metrics::parse(text).ok()?.last_seen);
                let relisted = relisted.and_then(|seen| Duration::try_from_secs_f64(seen).ok());
                self.kubelet_relisted = relisted.map(|since| Wall::default().plus(since));
            }
        }
        done
    }
}

/// The state that the metrics page and the event sink share.
struct State {
    watchman: Watchman,
    /// When pending calls and the age of PLEG were last checked.
    looked: Mono,
    open: Option<OpenCall>,
    healthy: Option<bool>,
    incidents: u64,
    culprit: Option<Culprit>,
}

/// The culprit in the last diagnosis of the open incident.
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

/// Records events, and remembers the pending call.
struct Log<'a> {
    recorder: &'a Recorder,
    state: &'a Mutex<State>,
}

impl Sink for Log<'_> {
    fn event(&mut self, event: Event) {
        // Events of the first relist are left out: the lists contain the same.
        if !event.initial {
            self.recorder.document(kind::EVENT, &event);
        }
    }

    fn call_started(&mut self, call: &OpenCall) {
        locked(self.state).open = Some(call.clone());
    }

    fn call_finished(&mut self, _call: &CallRecord) {
        locked(self.state).open = None;
    }
}

impl<'a> Recording<'a> {
    /// Opens the directory, calls Version and prints the start message. Neither directory nor runtime has to exist yet.
    async fn begin(
        arguments: &'a RecordArgs,
        context: &'a Context,
        endpoint: &'a Endpoint,
        assumed: Option<&'a OnceCell<Endpoint>>,
    ) -> Result<Self, Error> {
        let limits = Limits { size: arguments.max_size, age: arguments.max_age, incidents: arguments.keep };
        let clock = Arc::clone(&context.clock);
        let recorder = Recorder::start(arguments.directory.clone(), limits, clock).map_err(Error::Start)?;
        let mut absent = Vec::new();
        let last = match recorder.opened(OPEN_LIMIT) {
            Some(Ok(last)) => last,
            Some(Err(why)) if !why.is_of_the_disk() => return Err(why.into()),
            why => {
                absent.push(text::no_disk(&arguments.directory, why.and_then(Result::err)));
                0
            }
        };
        let greeting = context.timeout.unwrap_or(VERSION_LIMIT).min(VERSION_LIMIT);
        let version = context.client(endpoint, greeting)?.with_deadline(greeting).version().await.result;
        let version = match version {
            Ok(version) => Some(version),
            Err(why) if is_temporary(&why) => {
                absent.push(text::no_runtime(assumed.is_none().then_some(&why)));
                None
            }
            Err(why) => return Err(why.into()),
        };
        let kubelet = match arguments.kubelet_version {
            Some(version) => version,
            None => context.kubelet_release().await.unwrap_or(KubeletVersion::NEWEST),
        };
        let runtime = runtime_ref(endpoint, version.clone().unwrap_or_default());
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
        // The time limit for the disk applies only once.
        recorder.begin(session.clone(), if absent.is_empty() { OPEN_LIMIT } else { Duration::ZERO });
        // Calls of a diagnosis are recorded too.
        context.observer(recorder.tape(false));
        let client = context.client(endpoint, TIMEOUT)?.with_observer(recorder.tape(true));
        let rules = Rules {
            slow: arguments.slow,
            threshold: arguments.threshold,
            before: arguments.before,
            after: arguments.after,
        };
        let metrics = MetricsReader::of(arguments, context, endpoint)?.map(Rc::new);
        let availability = StreamAvailability::default();
        availability.meaning_of_empty.set(version.as_ref().and_then(empty_stream));
        let unnamed_session = version.is_none().then_some(session);
        let guarded_stream =
            version.map_or(Ok(None), |version| guarded_stream(context, endpoint, version))?;
        let state = State {
            watchman: Watchman::new(rules, last),
            looked: context.clock.mono(),
            open: None,
            healthy: None,
            incidents: 0,
            culprit: None,
        };
        let state = Arc::new(Mutex::new(state));
        let hub = Arc::new(SharedState::new(false));
        if let Some(address) = arguments.metrics_listen {
            let own = own_page(recorder.clone(), Arc::clone(&state));
            let bound = super::watch::serve_metrics(address, Arc::clone(&hub), own);
            bound.map_err(|source| Error::Listen { address, source })?;
        }
        let timing = PlegTiming { period: arguments.period, threshold: arguments.threshold };
        let settings = PlegSettings { era: kubelet.era(), evented_gate: false, inspect: true };
        let output = QueuedOutput::plain(io::stdout());
        output.line(text::recording(&endpoint.to_string(), &arguments.directory, arguments.max_size));
        for line in absent {
            output.line(line);
        }
        Ok(Self {
            arguments,
            context,
            endpoint,
            client,
            recorder,
            generic: GenericPleg::new(Arc::clone(&hub), settings),
            hub,
            timer: RelistTimer::start(timing, context.clock.mono()),
            output,
            state,
            signals: Signals::listen(arguments).map_err(Error::Start)?,
            background: Background::beside(context.kubelet()),
            samples: samples(arguments, endpoint)?,
            metrics,
            guarded_stream,
            availability,
            assumed,
            unnamed_session,
        })
    }

    async fn run(mut self) -> Result<Exit, Error> {
        let why = loop {
            let turn = self.timer.next(self.context.clock.mono());
            let ended = match turn {
                TimerAction::Relist => {
                    self.find_runtime();
                    self.relist().await
                }
                TimerAction::Wait(until) => {
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

    /// Searches the runtime again, if no endpoint was found at the start.
    fn find_runtime(&mut self) {
        let Some(found) = self.assumed.filter(|_| self.unnamed_session.is_some()) else { return };
        let Ok(endpoint) = self.context.endpoint() else { return };
        let endpoint = found.get_or_init(|| endpoint);
        let Ok(client) = self.context.client(endpoint, TIMEOUT) else { return };
        self.client = client.with_observer(self.recorder.tape(true));
        self.endpoint = endpoint;
        self.assumed = None;
        if let Some(session) = &mut self.unnamed_session {
            session.endpoint = endpoint.to_string();
            self.recorder.introduce(session.clone());
        }
        self.output.line(text::found(&endpoint.to_string()));
    }

    /// Makes one relist; returns `Some` if the recording is over.
    async fn relist(&mut self) -> Option<&'static str> {
        let number = self.generic.relists() + 1;
        let began = self.recorder.now();
        self.recorder.relist_begins(number);
        let started = self.context.clock.mono();
        let (mut parts, generic, client) = self.parts();
        let (context, recorder) = (*parts.handler.context, parts.handler.recorder);
        let mut log = Log { recorder, state: parts.handler.state };
        if let Some(guarded_stream) = parts.guarded_stream {
            guarded_stream.relisted();
        }
        let report = {
            let mut relist = pin!(generic.relist(client, &*context.clock, &mut log));
            loop {
                tokio::select! {
                    biased;
                    report = &mut relist => break report,
                    end = parts.next(Some(started)) => {
                        if let Some(end) = end {
                            return Some(end);
                        }
                    }
                }
            }
        };
        recorder.relist_begins(0);
        parts.handler.relisted(began, &report);
        parts.listen(report.outcome == Outcome::Ok).await;
        self.timer.relisted(self.context.clock.mono());
        let enough = self.arguments.count.is_some_and(|count| self.generic.relists() >= count.get());
        enough.then_some(ENDED_BY_COUNT)
    }

    async fn rest(&mut self, length: Duration) -> Option<&'static str> {
        let (mut parts, ..) = self.parts();
        let mut rest = pin!(tokio::time::sleep(length));
        loop {
            tokio::select! {
                biased;
                () = &mut rest => return None,
                end = parts.next(None) => {
                    if end.is_some() {
                        return end;
                    }
                }
            }
        }
    }

    /// Splits the recording into the relist engine and everything that runs in parallel with it.
    fn parts(&mut self) -> (Parts<'_, 'a>, &mut GenericPleg, &Client) {
        let Self {
            arguments,
            context,
            endpoint,
            client,
            recorder,
            hub,
            generic,
            output,
            state,
            signals,
            background,
            samples,
            metrics,
            guarded_stream,
            availability,
            unnamed_session,
            ..
        } = self;
        let handler = IncidentHandler {
            arguments,
            context,
            endpoint,
            recorder,
            hub,
            output,
            state,
            background,
            samples,
            metrics,
        };
        (Parts { handler, signals, guarded_stream, availability, unnamed_session }, generic, client)
    }

    fn finish(self, why: &str) -> Result<Exit, Error> {
        if let Some(incident) = locked(&self.state).watchman.open() {
            self.recorder.incident(incident.clone());
        }
        // Pending calls are given up, and recorded as such.
        if let Some(mut guarded_stream) = self.guarded_stream {
            guarded_stream.release("the recording is over", &self.availability);
        }
        drop(self.background);
        drop(self.client);
        let patience = if why == ENDED_BY_COUNT { LONG_CLOSE_LIMIT } else { CLOSE_LIMIT };
        let written = self.recorder.close(why, patience);
        let state = self.recorder.state();
        let relists = self.generic.relists();
        self.output.line(text::recorded(relists, locked(&self.state).incidents, &state, written));
        self.output.close().map_err(Error::Output)?;
        Ok(Exit::Good)
    }
}

/// Everything that runs in parallel with relists.
struct Parts<'d, 'a> {
    handler: IncidentHandler<'d, 'a>,
    signals: &'d mut Signals,
    guarded_stream: &'d mut Option<GuardedStream>,
    availability: &'d StreamAvailability,
    unnamed_session: &'d mut Option<Session>,
}

impl Parts<'_, '_> {
    /// Waits for the next thing that happens and does what it asks for; `Some` if the recording is to end. May be dropped
    /// while it waits.
    async fn next(&mut self, relist: Option<Mono>) -> Option<&'static str> {
        let Self { handler, signals, guarded_stream, availability, .. } = self;
        let tick = handler.time_to_next_check(relist);
        let interruption = tokio::select! {
            biased;
            done = handler.background.next() => {
                if let Some(version) = handler.done(done) {
                    self.runtime_answered(version);
                }
                return None;
            }
            interruption = signals.next(tick, handler.output, guarded_stream.as_mut()) => interruption,
        };
        match interruption {
            Interruption::End(why) => return Some(why),
            Interruption::Reopen => handler.recorder.reopen(),
            Interruption::Sample => handler.sample(),
            Interruption::Tick => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.check(*availability);
                }
                handler.check(relist);
            }
            Interruption::Stream(news) => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.handle(news, *availability);
                }
            }
            Interruption::Suspend => {
                // A suspended process does not read the stream, and an unread stream can block the node.
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.release("closed by plegctl before it was suspended", *availability);
                }
                // Where it cannot stop it goes on.
                let _ = Suspension::stop_here().await;
            }
        }
        None
    }

    /// Notes that the runtime answered Version for the first time.
    fn runtime_answered(&mut self, version: Version) {
        let Some(session) = self.unnamed_session.take() else { return };
        let (context, endpoint) = (*self.handler.context, *self.handler.endpoint);
        self.availability.meaning_of_empty.set(empty_stream(&version));
        let runtime = runtime_ref(endpoint, version.clone());
        let name = runtime.name.unwrap_or_default();
        let release = runtime.version.unwrap_or_default();
        self.handler.output.line(text::met(&name, &release));
        self.handler.recorder.introduce(Session { runtime: name, runtime_version: release, ..session });
        // A client could be created before, so this one can be created too.
        *self.guarded_stream = guarded_stream(context, endpoint, version).ok().flatten();
    }

    /// A relist is over: asks at once for the name of a runtime that answers and has not introduced itself, and opens the
    /// event stream if it is to be opened now, as the kubelet does after a relist.
    async fn listen(&mut self, answered: bool) {
        if answered && self.unnamed_session.is_some() {
            self.handler.request_version(self.handler.context.clock.mono());
        }
        let Some(guarded_stream) = self.guarded_stream else { return };
        if let Err(why) = guarded_stream.attend(self.availability).await {
            // Threads or descriptors may be available again later.
            guarded_stream.postpone();
            if !self.availability.reported_unavailable.replace(true) {
                self.handler.output.line(text::not_listening_now(&why.to_string()));
            }
        } else if self.availability.ended_at_once.get() {
            self.handler
                .output
                .line(text::not_listening(self.availability.meaning_of_empty.get().unwrap_or_default()));
            *self.guarded_stream = None;
        } else if guarded_stream.is_open() {
            self.availability.reported_unavailable.set(false);
        }
    }
}

/// Whether a runtime that answers like this may answer otherwise later. Anything else is for the user to change.
fn is_temporary(why: &cri::Error) -> bool {
    use cri::Error;
    matches!(
        why,
        Error::NoSuchSocket { .. }
            | Error::Refused { .. }
            | Error::Unreachable { .. }
            | Error::Silent { .. }
            | Error::Unfinished { .. }
            | Error::ClosedMidCall { .. }
            | Error::Runtime { .. }
    )
}

/// The event stream of a runtime that has room for another reader.
fn guarded_stream(
    context: &Context,
    endpoint: &Endpoint,
    version: Version,
) -> Result<Option<GuardedStream>, Error> {
    let replayed = matches!(endpoint, Endpoint::Capture { .. });
    if replayed || readers_of(&version) != StreamReaders::Several {
        return Ok(None);
    }
    let settings = StreamSettings {
        // A recorder outlives any number of restarts of its runtime.
        retries: u32::MAX,
        longest: LONGEST_STREAM,
        guarded: matches!(endpoint, Endpoint::Unix { .. }),
        // The recorder does not process the events.
        hint: true,
    };
    let client = context.client(endpoint, TIMEOUT)?;
    let hub = Arc::new(SharedState::new(true));
    Ok(Some(GuardedStream::new(client, version, Arc::clone(&context.clock), hub, settings)))
}

/// Serves the simulated kubelet of a scenario, if it has one.
fn simulated_kubelet(context: &Context, endpoint: &Endpoint) -> Result<Option<KubeletApi>, Error> {
    let Endpoint::Sim { scenario } = endpoint else { return Ok(None) };
    let Some(around) = sim::load(scenario)?.processes else { return Ok(None) };
    let url = KubeletPages::new(around, Arc::clone(&context.clock)).serve().map_err(Error::Start)?;
    Ok(Some(KubeletApi::new(&url, &Credentials::default())?))
}

/// The kubelet of this node by its read-only port, where that is open.
fn read_only(context: &Context) -> Result<Option<KubeletApi>, Error> {
    let Some(port) = context.read_only_port() else { return Ok(None) };
    Ok(Some(KubeletApi::new(&format!("http://127.0.0.1:{port}"), &Credentials::default())?))
}

/// Returns the source of node samples: this node, or the simulated kubelet of a scenario.
fn samples(arguments: &RecordArgs, endpoint: &Endpoint) -> Result<node::Samples, Error> {
    let Endpoint::Sim { scenario } = endpoint else {
        return Ok(node::Samples::of(proc_of(arguments, endpoint)));
    };
    let pid = SIMULATED_KUBELET;
    let around = sim::load(scenario)?.processes;
    Ok(node::Samples::simulated(around.map(|around| match around.kubelet {
        KubeletProcessState::Dead => KubeletState::Gone,
        KubeletProcessState::Stopped => KubeletState::Stopped { pid },
        KubeletProcessState::Running => KubeletState::Running { pid },
    })))
}

/// A simulated node has no processes; this machine's do not belong to it.
fn proc_of(arguments: &RecordArgs, endpoint: &Endpoint) -> Option<PathBuf> {
    let real = matches!(endpoint, Endpoint::Unix { .. }) && !arguments.no_host;
    real.then(host::proc)
}

impl Signals {
    fn listen(arguments: &RecordArgs) -> io::Result<Self> {
        let mut samples = tokio::time::interval(SAMPLE);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            stop: StopSignals::listen(arguments.lasting)?,
            suspension: Suspension::listen()?,
            reopen: signal(SignalKind::hangup())?,
            samples,
        })
    }

    /// Waits for the next interruption; after `tick` it is a tick.
    async fn next(
        &mut self,
        tick: Duration,
        output: &QueuedOutput,
        guarded_stream: Option<&mut GuardedStream>,
    ) -> Interruption {
        let Self { stop, suspension, reopen, samples } = self;
        tokio::select! {
            biased;
            () = stop.next() => Interruption::End("told to"),
            () = output.broken() => Interruption::End("nothing reads its output"),
            Some(()) = reopen.recv() => Interruption::Reopen,
            _ = samples.tick() => Interruption::Sample,
            () = suspension.requested() => Interruption::Suspend,
            () = tokio::time::sleep(tick) => Interruption::Tick,
            news = or_never(guarded_stream.map(|guarded_stream| guarded_stream.news(std::future::ready(())))) => Interruption::Stream(news),
        }
    }
}

/// Reacts to interruptions and results: detects incidents and starts diagnoses.
struct IncidentHandler<'d, 'a> {
    arguments: &'d &'a RecordArgs,
    context: &'d &'a Context,
    endpoint: &'d &'a Endpoint,
    recorder: &'d Recorder,
    hub: &'d SharedState,
    output: &'d QueuedOutput,
    state: &'d Mutex<State>,
    background: &'d mut Background<'a>,
    samples: &'d mut node::Samples,
    metrics: &'d mut Option<Rc<MetricsReader<'a>>>,
}

impl IncidentHandler<'_, '_> {
    /// How long until there may be something to see: while all is well nothing changes by itself but the age of the last
    /// relist.
    fn time_to_next_check(&self, relist: Option<Mono>) -> Duration {
        let state = locked(self.state);
        let lasts = relist.is_some() || state.watchman.open().is_some() || state.healthy == Some(false);
        let looked = state.looked.max(relist.unwrap_or_default());
        let pause = if lasts {
            TICK.min(self.arguments.slow)
        } else {
            let age = self.hub.last_list().map(|last| looked.since(last));
            age.and_then(|age| state.watchman.until_turn(age)).unwrap_or(IDLE_TICK).min(IDLE_TICK)
        };
        looked.plus(pause).since(self.context.clock.mono())
    }

    /// Checks pending calls, the age of PLEG and the kubelet, and passes them to the incident detector.
    fn check(&mut self, relist: Option<Mono>) {
        let clock = &*self.context.clock;
        let now = clock.mono();
        let verdict = self.hub.check(clock, self.arguments.threshold);
        let mut state = locked(self.state);
        state.looked = now;
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
        let open = state.open.as_ref().map(|open| format!("{} {:?}", open.rpc, open.id));
        let age = self.hub.last_list().map(|last| now.since(last));
        drop(state);
        let (kubelet, restarted) = self.check_kubelet();
        let version =
            self.recorder.silent(Duration::ZERO).into_iter().filter(|call| call.rpc == Rpc::Version);
        let version = version.map(|call| call.waited).max();
        let look = Look { waited, what, age, call: open, version, kubelet, restarted };
        let mut state = locked(self.state);
        let steps = state.watchman.look((clock.wall(), now), &look);
        let lasts = state.watchman.open().is_some();
        drop(state);
        self.handle(steps, &look);
        if lasts {
            self.request_again(now);
        }
    }

    /// the kubelet fault, and whether the kubelet restarted since the last check.
    fn check_kubelet(&mut self) -> (Option<String>, Option<String>) {
        let found = self.samples.kubelet();
        let before = std::mem::replace(&mut self.background.kubelet, found);
        let now = self.context.clock.mono();
        let due = now.since(self.background.shims_read) >= SHIMS_AGAIN;
        if due {
            self.background.shims_read = now;
        }
        if found != before || (due && self.samples.shims_changed()) {
            self.record_node();
        }
        let pid = |state: Option<KubeletState>| match state {
            Some(KubeletState::Running { pid } | KubeletState::Stopped { pid }) => Some(pid),
            Some(KubeletState::Gone) | None => None,
        };
        self.search_kubelet(found);
        let restarted = match (before, found) {
            (Some(KubeletState::Gone), Some(KubeletState::Running { .. })) => {
                Some("the kubelet was restarted".to_owned())
            }
            _ => pid(before).zip(pid(found)).filter(|(before, now)| before != now).map(|(before, now)| {
                format!("the kubelet was restarted: process {before} is gone, {now} is there")
            }),
        };
        let age = self.kubelet_age().filter(|age| *age > self.arguments.threshold);
        let wrong = match found {
            Some(KubeletState::Stopped { pid }) => Some(format!("the kubelet is stopped: process {pid}")),
            Some(KubeletState::Gone) => Some("the kubelet is gone".to_owned()),
            Some(KubeletState::Running { .. }) | None => {
                age.map(|_| "the kubelet has not relisted for longer than its threshold".to_owned())
            }
        };
        (wrong, restarted)
    }

    /// Returns the time since the kubelet's last relist, by its metrics.
    fn kubelet_age(&self) -> Option<Duration> {
        self.background.kubelet_relisted.map(|last| self.context.clock.wall().duration_since(last))
    }

    /// What an incident makes worth asking more often: whether the runtime answers Version, and when the kubelet relisted.
    fn request_again(&mut self, now: Mono) {
        if now.since(self.background.version_asked) >= VERSION_AGAIN {
            self.request_version(now);
        }
        let old = self.kubelet_age().is_some_and(|age| age >= KUBELET_OLD);
        if old && now.since(self.background.metrics_asked) >= KUBELET_AGAIN {
            self.request_kubelet_metrics(now);
        }
    }

    /// Handles the end of a relist.
    fn relisted(&mut self, began: u64, report: &crate::pleg::stream::Relist) {
        self.recorder.relist_over(began, report);
        if report.outcome == Outcome::Ok {
            self.background.status_hangs = false;
            self.background.metrics_hang = false;
        }
        let mut state = locked(self.state);
        state.open = None;
        let steps = state.watchman.relist(self.context.clock.mono(), report);
        drop(state);
        self.handle(steps, &Look::default());
        self.check(None);
    }

    fn handle(&mut self, steps: Vec<Step>, look: &Look) {
        for step in steps {
            match step {
                Step::Write(incident) => {
                    // How it is when it begins, and when it is over.
                    self.record_node();
                    let mut state = locked(self.state);
                    if incident.to == 0 {
                        state.incidents += 1;
                    } else {
                        state.culprit = None;
                    }
                    drop(state);
                    let number = self.recorder.number_of(incident.number);
                    self.output.line(text::incident(number, &incident));
                    self.recorder.incident(incident);
                }
                Step::Diagnose => self.diagnose(look),
            }
        }
    }

    /// Starts a diagnosis, unless one runs already. Pending calls are not repeated.
    fn diagnose(&mut self, look: &Look) {
        if self.arguments.no_diagnose || self.background.diagnosis.is_some() {
            return;
        }
        locked(self.state).watchman.asked(self.context.clock.mono(), look);
        let pending = self.recorder.silent(Duration::ZERO).into_iter();
        let known = pending.map(|call| CallersPendingCall {
            rpc: call.rpc,
            id: call.id,
            waited: call.waited,
            ended: Some(call.ended),
        });
        let known: Vec<CallersPendingCall> = known.collect();
        let (context, endpoint) = (*self.context, *self.endpoint);
        let stacks = if self.arguments.no_host { Wanted::Never } else { Wanted::Auto };
        let patience = Some(context.timeout.unwrap_or(TIMEOUT));
        self.background.diagnosis = Some(Box::pin(async move {
            diagnose(context, endpoint, known, Vec::new(), stacks, patience).await.ok()
        }));
    }

    /// Handles a result of parallel work; returns the answer of Version, if it is one.
    fn done(&mut self, done: BackgroundResult) -> Option<Version> {
        match done {
            BackgroundResult::Diagnosed(report) => self.judged(&*report?),
            BackgroundResult::Measured(sample) => self.recorder.document(kind::KUBELET, &sample),
            BackgroundResult::Version(version) => {
                if version.is_some() {
                    self.request_status();
                }
                return version;
            }
            BackgroundResult::Searched(found) => self.found_kubelet(found.map(|found| *found)),
            BackgroundResult::Status => {}
        }
        None
    }

    /// Reads the settings of a kubelet that was started, or restarted, since they were last read.
    fn search_kubelet(&mut self, found: Option<KubeletState>) {
        let Some(KubeletState::Running { pid }) = found else { return };
        let is_known = self.background.searched == Some(pid) || self.background.search.is_some();
        if is_known || self.arguments.kubelet.is_given() {
            return;
        }
        self.background.searched = Some(pid);
        let root = self.context.host.clone();
        self.background.search = Some(Box::pin(async move {
            let search = blocking(move || Search::of(&host::proc(), &root));
            let found = tokio::time::timeout(METRICS, search).await;
            found.ok()?.ok()?.kubelet
        }));
    }

    /// Reads the metrics of the kubelet that was found: their address may differ from that of the previous one.
    fn found_kubelet(&mut self, found: Option<KubeletProcess>) {
        let Some(found) = found else { return };
        let context = self.context.with_kubelet(Some(found));
        // Without readable settings, the recording continues without metrics.
        if let Ok(Some(reader)) = MetricsReader::of(self.arguments, &context, self.endpoint) {
            *self.metrics = Some(Rc::new(reader));
            self.background.metrics_hang = false;
            self.request_kubelet_metrics(self.context.clock.mono());
        }
    }

    /// Handles a finished diagnosis.
    fn judged(&mut self, report: &HealthReport) {
        self.recorder.document(kind::DIAGNOSIS, report);
        if let Some(stacks) = &report.stacks {
            self.recorder.document(kind::STACKS, stacks);
        }
        let judgement = judgement(report);
        let clock = &*self.context.clock;
        let mut state = locked(self.state);
        let written = state.watchman.judged((clock.wall(), clock.mono()), judgement);
        if !written.is_empty() {
            state.culprit = culprit(report);
        }
        // The incident that ends here is replaced by another.
        state.incidents += u64::from(written.iter().any(|incident| incident.to != 0));
        drop(state);
        for incident in written {
            let number = self.recorder.number_of(incident.number);
            self.output.line(match incident.to {
                0 => text::judged(number, report),
                _ => text::incident(number, &incident),
            });
            self.recorder.incident(incident);
        }
    }

    /// Records a sample of pressure and of the important processes.
    fn record_node(&mut self) {
        if let Some(sample) = self.samples.take() {
            self.recorder.document(kind::NODE, &sample);
        }
    }

    /// Records a sample of the node, and calls the kubelet and Version.
    fn sample(&mut self) {
        self.record_node();
        let now = self.context.clock.mono();
        self.request_kubelet_metrics(now);
        self.request_version(now);
    }

    /// Reads the kubelet's metrics, unless they are being read or were silent.
    fn request_kubelet_metrics(&mut self, now: Mono) {
        let may_ask = self.background.metrics.is_none() && !self.background.metrics_hang;
        let Some(reader) = self.metrics.as_ref().filter(|_| may_ask) else {
            return;
        };
        self.background.metrics_asked = now;
        let (reader, clock) = (Rc::clone(reader), Arc::clone(&self.context.clock));
        self.background.metrics = Some(Box::pin(async move { reader.read(&*clock).await }));
    }

    /// Asks Version, unless it is being asked: on a connection of its own, and where it is not answered soon on another
    /// one too. Both wait for as long as a relist would, so that it is known when they are answered.
    fn request_version(&mut self, now: Mono) {
        if self.background.version.is_some() {
            return;
        }
        self.background.version_asked = now;
        let (context, endpoint) = (*self.context, *self.endpoint);
        self.background.version = Some(Box::pin(async move {
            let clients = [(); 2].map(|()| context.client(endpoint, TIMEOUT));
            let [Ok(first), Ok(second)] = clients else { return None };
            let later = async {
                tokio::time::sleep(VERSION_SOON).await;
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
        }));
    }

    /// Asks for the runtime's own state, unless it is being asked or was silent.
    fn request_status(&mut self) {
        let now = self.context.clock.mono();
        let due = self.background.status_asked.is_none_or(|asked| now.since(asked) >= STATUS_AGAIN);
        if self.background.status.is_some() || self.background.status_hangs || !due {
            return;
        }
        self.background.status_asked = Some(now);
        let (context, endpoint) = (*self.context, *self.endpoint);
        self.background.status = Some(Box::pin(async move {
            let Ok(client) = context.client(endpoint, TIMEOUT) else { return true };
            client.status().await.outcome() != Outcome::Silent
        }));
    }
}

fn judgement(report: &HealthReport) -> Judgement {
    use crate::diagnosis::report::{Confidence, Verdict};
    use crate::report::Severity;
    let primary = report.primary.as_ref().and_then(json::text);
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
        certainty: match report.primary.as_ref().map(|primary| primary.confidence) {
            Some(Confidence::Certain) => 2,
            Some(Confidence::Likely) => 1,
            Some(Confidence::Possible) | None => 0,
        },
        subject: report
            .primary
            .as_ref()
            .filter(|primary| {
                primary.confidence != Confidence::Possible && primary.severity != Severity::Info
            })
            .map(|primary| Subject { rule: primary.id.to_string(), ids: primary.ids.clone() }),
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

/// Returns the recorder's own metrics for the page at `/metrics`.
fn own_page(recorder: Recorder, state: Arc<Mutex<State>>) -> super::watch::Page {
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
        label_value(&culprit.rule),
        label_value(&culprit.rpc),
        label_value(&culprit.namespace),
        label_value(&culprit.pod),
        label_value(&culprit.container),
    )
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
}
