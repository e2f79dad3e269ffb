//! `plegctl record`: the flight recorder. It relists like the kubelet, writes every call with its answer to a
//! directory, and diagnoses each incident.
//!
//! ```text
//! $ plegctl record /var/lib/plegctl --metrics-listen 127.0.0.1:9188
//! recording unix:///run/containerd/containerd.sock to /var/lib/plegctl, at most 256.0 MiB
//! incident 1: ContainerStatus of shop/db-0 has not been answered for 2s
//! incident 1: UNHEALTHY: ContainerStatus of shop/db-0/postgres does not answer (D01, certain)
//! incident 1 is over after 2m3s
//! ```
//!
//! This file has the flags, the signals and the messages; [`crate::capture::recording`] records. A recording can
//! begin before the disk and the runtime are available; it waits for them.

use std::cell::OnceCell;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::args::{GlobalArgs, at_least_one, positive_duration, whole_number};
use super::diagnose::{SIMULATED_KUBELET, diagnose_with_facts};
use super::event_loop::block_on;
use super::flags::kubelet_access::{KubeletAccess, read_only_api};
use super::flags::list_calls::ListCallsArgs;
use super::node::Node;
use super::render::capture as text;
use super::serve::metrics_server::{MetricsPage, ServedPages};
use super::serve::recorder_exports::Exports;
use super::serve::token_file::RecorderToken;
use super::session::Session;
use super::term::queued_output::QueuedOutput;
use super::term::stop_signals::{StopSignals, ignore_hangup};
use super::term::streams;
use super::{Error, Exit, prediction};
use crate::capture::entry::{self, kind, nanos};
use crate::capture::node::{NodeSample, ProcessSample, SampledKubeletState};
use crate::capture::recorder_verdict;
use crate::capture::recording::{
    BegunRecorder, IncidentCulprit, IncidentDiagnosis, KubeletMetricsReader, MeasuredText, NodeSampler,
    Recording, RecordingHost, RecordingNotice, RecordingSettings, RecordingSignal, RecordingSignals,
    RecordingView,
};
use crate::capture::{
    IncidentRules, IncidentVerdict, Limits, LivePendingCall, MIN_CAPTURE_SIZE, Prediction, Recorder,
};
use crate::clock::Clock;
use crate::cmd::flags::list_calls;
use crate::cmd::serve::metrics_server;
use crate::cmd::serve::recorder_pages;
use crate::cri::{self, Client, Endpoint, EndpointError, Runtime};
use crate::diagnosis::facts::Fact;
use crate::diagnosis::report::Confidence;
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{CallersPendingCall, HealthReport, NodeFacts, RunFacts, SimulatedProcesses, Weight};
use crate::host::{self, WELL_KNOWN_SOCKETS};
use crate::kubelet::{Credentials, KubeletApi, KubeletProcess, KubeletVersion, timing};
use crate::pleg::report::ListCallsReport;
use crate::pleg::{PlegTiming, SharedState};
use crate::report::json;
use crate::sim::{self, KubeletPages, KubeletProcessState};
use crate::threads::{self, StartedWork, with_time_limit};

/// The deadline of a call while recording: the kubelet's own.
const TIMEOUT: Duration = timing::REQUEST_TIMEOUT;

/// How long the runtime may take to answer `Version`. After that, the recording begins without the runtime's name.
const VERSION_LIMIT: Duration = Duration::from_secs(2);

/// How long the disk may take to open the directory. After that, the recording begins without the disk.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Why a recorder does not keep what a diagnosis measured, if nobody can read it.
const NOT_SERVED: &str = "the recorder runs without --serve-token-file";

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Directory of the capture; created if it does not exist
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

    /// PLEG is not healthy if its last relist is at least this old
    #[arg(long, value_name = "DUR", default_value = "3m", value_parser = positive_duration)]
    threshold: Duration,

    /// Time to pin before an incident
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = humantime::parse_duration)]
    before: Duration,

    /// Time to pin after an incident
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = humantime::parse_duration)]
    after: Duration,

    /// Number of incidents to pin
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, default_value = "20")]
    keep: usize,

    /// End after this many relists, failed ones included
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    count: Option<NonZeroU64>,

    /// End after this time
    #[arg(long = "for", value_name = "DUR", value_parser = positive_duration)]
    lasting: Option<Duration>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// Do not record pressure and processes of the node, or the runtime's goroutines
    #[arg(long)]
    no_host: bool,

    /// Do not run the diagnosis: after the first relist, every 10 minutes, and during incidents
    #[arg(long)]
    no_diagnose: bool,

    #[command(flatten)]
    list_calls: ListCallsArgs,

    /// Follow the algorithm of this kubelet release, such as 1.34 [default: this node's kubelet's, if its metrics report
    /// it, else the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// Serve the kubelet's PLEG metrics and the recorder's own over HTTP on this address, at `/metrics`; the
    /// verdict at `/verdict` and the incidents at `/incidents`
    #[arg(long, value_name = "ADDR", value_parser = metrics_server::address)]
    metrics_listen: Option<SocketAddr>,

    /// The names of PLEG's metrics. The kubelet's names are for dashboards and rules that tell the two apart by the label
    /// `job`
    #[arg(long, value_name = "NAMES", default_value = "plegctl", requires = "metrics_listen")]
    metric_names: metrics_server::NamesOption,

    /// Also serve parts of the capture at `/capture`, and what the last diagnosis measured at `/verdict?facts=true`, to
    /// clients that send the token in this file in the header `X-Plegctl-Token`. The file is read for each request; only
    /// its owner may read it
    #[arg(long, value_name = "FILE", requires = "metrics_listen")]
    serve_token_file: Option<PathBuf>,
}

/// Parses a number of bytes with an optional unit: `64MiB`, `1GiB`, `500000`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: u64 = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        other => return Err(format!("`{other}` is not a unit of size (KiB, MiB, GiB)")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{digits}` is not a number"))?;
    let bytes = number.checked_mul(factor).ok_or("it is too large")?;
    if bytes < MIN_CAPTURE_SIZE {
        return Err(format!("it must be at least {} KiB", MIN_CAPTURE_SIZE / 1024));
    }
    Ok(bytes)
}

/// Runs the command.
pub fn run(arguments: &RecordArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    if let Some(parent) = arguments.directory.parent().filter(|parent| !parent.as_os_str().is_empty())
        && parent.try_exists().is_ok_and(|exists| !exists)
    {
        return Err(Error::NoDirectory(parent.display().to_string()));
    }
    block_on(async {
        ignore_hangup().map_err(Error::Start)?;
        let node = Node::named_by(global);
        let (session, found_later) = match Session::of_node(&node) {
            // The runtime may start later; until then, its absence is recorded.
            Err(Error::Endpoint(EndpointError::NothingFound { .. })) => {
                (Session::at(&node, default_endpoint(&node))?, Some(OnceCell::new()))
            }
            session => (session?, None),
        };
        let output = QueuedOutput::plain(streams::stdout());
        let begun = begin(arguments, &session, found_later.is_some()).await?;
        let host = CommandHost::new(arguments, session, found_later, &begun, &output);
        Box::pin(record(&host, begun)).await?;
        output.close().map_err(Error::Output)?;
        Ok(Exit::Good)
    })?
}

/// Returns the endpoint that a kubelet uses by default.
fn default_endpoint(node: &Node) -> Endpoint {
    let [(_, socket), ..] = WELL_KNOWN_SOCKETS;
    Endpoint::Unix { path: node.host.path(socket), name: format!("unix://{socket}") }
}

/// A recording that can run.
struct PreparedRecording<'a, S> {
    recording: Recording<'a, CommandHost<'a>, S>,
    /// The name of the node; empty if it is not known.
    node: String,
    /// Warnings for the user.
    warnings: Vec<String>,
}

/// Prepares the recording. `listen` returns the signals that end it.
async fn prepare<'a, S: RecordingSignals>(
    host: &'a CommandHost<'a>,
    begun: BegunSession,
    listen: impl FnOnce() -> io::Result<S>,
) -> Result<PreparedRecording<'a, S>, Error> {
    let CommandHost { arguments, .. } = host;
    let BegunSession { begun, kubelet_version, warnings } = begun;
    let session = host.session();
    let node = begun.session.node.clone();
    let client = session.client(TIMEOUT).with_observer(begun.recorder.observer(true));
    let (client, lists) = list_calls::choose(client, session, Some(kubelet_version)).await;
    let settings = RecordingSettings {
        timing: PlegTiming { period: arguments.period, threshold: arguments.threshold },
        era: kubelet_version.era(),
        list_limit: session.kubelet_lists(Some(kubelet_version)).await.limit(),
        list_calls: ListCallsReport::of(&lists),
        rules: IncidentRules {
            slow: arguments.slow,
            threshold: arguments.threshold,
            before: arguments.before,
            after: arguments.after,
        },
        count: arguments.count,
        diagnose: !arguments.no_diagnose,
        search_kubelet: (!arguments.kubelet.is_given()).then(|| session.node.host.clone()),
    };
    let kubelet = session.node.kubelet();
    let metrics = host.metrics_reader(&session.node)?;
    let sampler = host.sampler()?;
    let signals = listen().map_err(Error::Start)?;
    let kubelet = (kubelet.map(|kubelet| kubelet.pid), metrics);
    let recording = Recording::new(settings, host, signals, begun, client, sampler, kubelet);
    Ok(PreparedRecording { recording, node, warnings })
}

/// Prints the start message and records until the user or a limit ends it.
async fn record(host: &CommandHost<'_>, begun: BegunSession) -> Result<(), Error> {
    let CommandHost { arguments, output, .. } = host;
    let PreparedRecording { recording, node, mut warnings } =
        prepare(host, begun, || CommandSignals::listen(arguments, output)).await?;
    if let Some(address) = arguments.metrics_listen {
        let names = (node, host.endpoint().to_string());
        let token_file = arguments.serve_token_file.clone();
        warnings.extend(token_file.as_ref().and_then(|path| closed_exports(path)));
        let exports = Exports::new(recording.view(), names.clone(), arguments.directory.clone(), token_file);
        let pages = ServedPages {
            shared_state: recording.shared_state(),
            names: arguments.metric_names.into(),
            metrics: recording.metrics_page(),
            more: recorder_pages::pages(recording.view(), names, Arc::new(exports)),
        };
        let bound = metrics_server::serve(address, pages);
        bound.map_err(|source| Error::Listen { address, source })?;
    }
    let endpoint = host.endpoint().to_string();
    output.line(text::recording_started(&endpoint, &arguments.directory, arguments.max_size));
    for line in warnings {
        output.line(line);
    }
    output.line(text::recording_ended(&recording.run().await));
    Ok(())
}

/// What another thread sees of a recording.
pub(super) struct RecordingHandles {
    /// What the recording knows.
    pub view: RecordingView,
    /// The state of its relists.
    pub shared_state: Arc<SharedState>,
    /// The recorder's own metrics.
    pub metrics: MetricsPage,
    /// The endpoint of the runtime.
    pub endpoint: String,
}

/// Records in a thread of its own until the other end of `stop` is dropped. `begun` gets the handles when the recording
/// begins; the returned work ends with the recording.
pub(super) fn start_thread(
    global: GlobalArgs,
    arguments: RecordArgs,
    stop: oneshot::Receiver<()>,
    begun: oneshot::Sender<RecordingHandles>,
) -> io::Result<StartedWork<Result<(), Error>>> {
    threads::start("recorder", move || {
        block_on(async {
            let output = QueuedOutput::plain(io::sink());
            let session = Session::open(&global)?;
            let session_begun = begin(&arguments, &session, false).await?;
            let host = CommandHost::new(&arguments, session, None, &session_begun, &output);
            let PreparedRecording { recording, .. } =
                prepare(&host, session_begun, || Ok(ThreadSignals(stop))).await?;
            let handles = RecordingHandles {
                view: recording.view(),
                shared_state: recording.shared_state(),
                metrics: recording.metrics_page(),
                endpoint: host.endpoint().to_string(),
            };
            // Nobody may be interested any more; then `stop` ends the recording at once.
            let _ = begun.send(handles);
            recording.run().await;
            Ok(())
        })?
    })
}

/// Ends the recording of a thread.
struct ThreadSignals(oneshot::Receiver<()>);

impl RecordingSignals for ThreadSignals {
    async fn next(&mut self) -> RecordingSignal {
        // The sender sends nothing, but is dropped.
        let _ = (&mut self.0).await;
        RecordingSignal::End("a signal or --for")
    }
}

/// Returns a warning if the token file cannot be used, so that `/capture` and the facts are closed for now.
fn closed_exports(path: &Path) -> Option<String> {
    let file = path.to_path_buf();
    // The disk of the file may hang.
    let why = match with_time_limit(OPEN_LIMIT, move || RecorderToken::of_server(&file)) {
        Ok(Ok(_)) => return None,
        Ok(Err(why)) => why.to_string(),
        Err(why) => why.to_string(),
    };
    Some(text::closed_exports(path, &why))
}

/// What is known when the session of a recorder has begun.
struct BegunSession {
    begun: BegunRecorder,
    /// The kubelet release whose relist is imitated.
    kubelet_version: KubeletVersion,
    /// Warnings about a missing disk or runtime.
    warnings: Vec<String>,
}

/// Opens the directory, calls `Version` and begins the session of the recorder. The endpoint may be only `assumed`.
async fn begin(arguments: &RecordArgs, session: &Session, assumed: bool) -> Result<BegunSession, Error> {
    let node = &session.node;
    let limits = Limits { size: arguments.max_size, age: arguments.max_age, incidents: arguments.keep };
    let recorder =
        Recorder::start(arguments.directory.clone(), limits, session.clock()).map_err(Error::Start)?;
    let mut warnings = Vec::new();
    let last_incident = match recorder.opened(OPEN_LIMIT) {
        Some(Ok(last)) => last,
        Some(Err(why)) if !why.is_disk_error() => return Err(why.into()),
        why => {
            warnings.push(text::no_disk(&arguments.directory, why.and_then(Result::err)));
            0
        }
    };
    let deadline = node.global.timeout.unwrap_or(VERSION_LIMIT).min(VERSION_LIMIT);
    let version = session.client(deadline).with_deadline(deadline).version().await.result;
    let version = match version {
        Ok(version) => Some(version),
        Err(why) if is_temporary(&why) => {
            warnings.push(text::no_runtime((!assumed).then_some(&why)));
            None
        }
        Err(why) => return Err(why.into()),
    };
    let (kubelet, _) = node.release_or_default(arguments.kubelet_version).await;
    let runtime = version.clone().unwrap_or_default();
    let session = entry::Session {
        release: env!("CARGO_PKG_VERSION").to_owned(),
        node: session.node_name().unwrap_or_default(),
        endpoint: session.endpoint.to_string(),
        runtime: runtime.runtime_name,
        runtime_version: runtime.runtime_version,
        period: nanos(arguments.period),
        threshold: nanos(arguments.threshold),
        slow: nanos(arguments.slow),
        kubelet: kubelet.to_string(),
        timeout: nanos(node.global.timeout.unwrap_or(TIMEOUT)),
        ..entry::Session::default()
    };
    // After a warning, the time limit for the disk is used up already.
    recorder.begin(session.clone(), if warnings.is_empty() { OPEN_LIMIT } else { Duration::ZERO });
    let begun = BegunRecorder { recorder, last_incident, session, version };
    Ok(BegunSession { begun, kubelet_version: kubelet, warnings })
}

/// Lets the recorder see the calls of the session's clients, those of a diagnosis too, which make the same list calls.
fn observed(session: Session, arguments: &RecordArgs, recorder: &Recorder) -> Session {
    session.listing_with(arguments.list_calls.wanted()).observed_by(recorder.observer(false))
}

/// Gives the recording what comes from the command line, the node and the terminal.
struct CommandHost<'a> {
    arguments: &'a RecordArgs,
    session: Session,
    /// The runtime that is found during the recording; `None` if a runtime was named or found at the start.
    found_later: Option<OnceCell<Session>>,
    recorder: Recorder,
    output: &'a QueuedOutput,
}

impl<'a> CommandHost<'a> {
    fn new(
        arguments: &'a RecordArgs,
        session: Session,
        found_later: Option<OnceCell<Session>>,
        begun: &BegunSession,
        output: &'a QueuedOutput,
    ) -> Self {
        let recorder = begun.begun.recorder.clone();
        let session = observed(session, arguments, &recorder);
        Self { arguments, session, found_later, recorder, output }
    }

    /// Returns the session with the runtime that is recorded.
    fn session(&self) -> &Session {
        self.found_later.as_ref().and_then(OnceCell::get).unwrap_or(&self.session)
    }

    /// Whether this machine is the node, and the user allows reading its processes.
    fn is_on_node(&self) -> bool {
        matches!(self.endpoint(), Endpoint::Unix { .. }) && !self.arguments.no_host
    }

    /// Returns the reader for the metrics of the kubelet that the user named. If the user named none, reads this
    /// node's kubelet with the service account of this pod, or through the read-only port.
    fn metrics_reader(&self, node: &Node) -> Result<Option<KubeletMetricsReader>, Error> {
        let access = self.arguments.kubelet.clone();
        let api = match (access.api(node)?, self.endpoint()) {
            (None, Endpoint::Sim { scenario }) => simulated_kubelet(node, scenario)?,
            (None, _) if self.is_on_node() => access.api_or_own(node)?.or(read_only_api(node)?),
            (api, _) => api,
        };
        let node = node.with_kubelet(node.kubelet().cloned());
        let renew = move || access.api_or_own(&node).ok().flatten();
        Ok(api.map(|api| KubeletMetricsReader::new(api, renew)))
    }

    /// Returns what a diagnosis measured, for the clients with a token; or why it is not kept.
    fn measured(&self, facts: &mut RunFacts) -> Result<MeasuredText, &'static str> {
        if self.arguments.no_host {
            return Err("the recorder runs with --no-host");
        }
        if self.arguments.serve_token_file.is_none() {
            return Err(NOT_SERVED);
        }
        let text = facts.text(MeasuredText::MAX_SIZE);
        text.and_then(MeasuredText::pack).ok_or("they are too large for the recorder's memory")
    }

    /// Returns the source of node samples: this node, or the processes of a scenario.
    fn sampler(&self) -> Result<NodeSampler, Error> {
        let Endpoint::Sim { scenario } = self.endpoint() else {
            let socket = match self.endpoint() {
                Endpoint::Unix { path, .. } => path.clone(),
                Endpoint::Sim { .. } | Endpoint::Custom { .. } => PathBuf::new(),
            };
            let (proc, root) = (self.is_on_node().then(host::proc), self.session.node.host.as_path());
            return Ok(NodeSampler::new(proc, root.to_path_buf(), socket));
        };
        let processes = sim::load(scenario)?.processes;
        Ok(NodeSampler::simulated(processes.map(|processes| simulated_sample(processes.kubelet))))
    }
}

/// Returns the sample of a simulated node: its kubelet and its runtime.
fn simulated_sample(kubelet: KubeletProcessState) -> NodeSample {
    let pid = SIMULATED_KUBELET;
    let kubelet = match kubelet {
        KubeletProcessState::Dead => SampledKubeletState::Gone,
        KubeletProcessState::Stopped => SampledKubeletState::Stopped { pid },
        KubeletProcessState::Running => SampledKubeletState::Running { pid },
    };
    let daemon = SimulatedProcesses::daemon();
    let daemon = ProcessSample {
        pid: daemon.pid,
        name: daemon.comm,
        state: daemon.state.to_string(),
        threads: daemon.threads,
        age: Some(daemon.age.into()),
        ..ProcessSample::default()
    };
    NodeSample { kubelet: Some(kubelet), processes: vec![daemon], ..NodeSample::default() }
}

impl RecordingHost for CommandHost<'_> {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.session.node.clock
    }

    fn endpoint(&self) -> &Endpoint {
        &self.session().endpoint
    }

    fn find_runtime(&self) -> bool {
        let Some(found) = self.found_later.as_ref().filter(|found| found.get().is_none()) else {
            return false;
        };
        let session = Session::of_node(&self.session.node);
        let session = session.map(|session| observed(session, self.arguments, &self.recorder));
        session.is_ok_and(|session| found.set(session).is_ok())
    }

    fn client(&self) -> Option<Client> {
        Some(self.session().client(TIMEOUT))
    }

    fn kubelet_metrics(&self, kubelet: KubeletProcess) -> Option<KubeletMetricsReader> {
        self.metrics_reader(&self.session.node.with_kubelet(Some(kubelet))).ok().flatten()
    }

    async fn diagnose(
        &self,
        pending: Vec<LivePendingCall>,
        predicted: Option<Prediction>,
        is_quiet: bool,
    ) -> Option<IncidentDiagnosis> {
        let pending = pending.into_iter().map(|call| CallersPendingCall {
            rpc: call.rpc,
            id: call.id,
            waited: call.waited,
            ended: Some(call.ended),
        });
        let stacks = if self.arguments.no_host { WantedDump::Never } else { WantedDump::Auto };
        let keep_waiting = Some(self.session.node.global.timeout.unwrap_or(TIMEOUT));
        let observer = is_quiet.then(|| self.recorder.observer_of_pending_calls());
        let session = (self.session(), observer);
        let diagnosis = diagnose_with_facts(session, pending.collect(), Vec::new(), stacks, keep_waiting);
        let (mut report, evidence) = diagnosis.await.ok()?;
        prediction::keep(&mut report, predicted.as_ref());
        let mut facts = RunFacts::from(evidence);
        let measured = self.measured(&mut facts);
        let facts = (!self.arguments.no_host).then(|| facts.into_node());
        Some(IncidentDiagnosis { measured, ..incident_diagnosis(&report, facts) })
    }

    fn notify(&self, notice: RecordingNotice<'_>) {
        self.output.line(match notice {
            RecordingNotice::RuntimeFound(endpoint) => text::runtime_found(&endpoint.to_string()),
            RecordingNotice::RuntimeAnswered(version) => {
                text::runtime_answered(&version.runtime_name, &version.runtime_version)
            }
            RecordingNotice::Incident(number, incident) => text::incident(number, incident),
            RecordingNotice::Diagnosed(number, summary) => text::diagnosed(number, summary),
        });
    }
}

/// The events that end or reopen a recording: signals, `--for`, and a closed stdout.
struct CommandSignals<'a> {
    stop: StopSignals,
    reopen: Signal,
    output: &'a QueuedOutput,
}

impl<'a> CommandSignals<'a> {
    /// Begins to listen for signals.
    fn listen(arguments: &RecordArgs, output: &'a QueuedOutput) -> io::Result<Self> {
        Ok(Self {
            stop: StopSignals::listen(arguments.lasting)?,
            reopen: signal(SignalKind::hangup())?,
            output,
        })
    }
}

impl RecordingSignals for CommandSignals<'_> {
    async fn next(&mut self) -> RecordingSignal {
        let Self { stop, reopen, output } = self;
        tokio::select! {
            biased;
            () = stop.next() => RecordingSignal::End("a signal or --for"),
            () = output.broken() => RecordingSignal::End("nothing reads its output"),
            Some(()) = reopen.recv() => RecordingSignal::Reopen,
        }
    }
}

/// Whether the error may disappear without the user: the runtime is missing, silent or failing at the moment.
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

/// Serves the simulated kubelet of a scenario, if it has one.
fn simulated_kubelet(node: &Node, scenario: &str) -> Result<Option<KubeletApi>, Error> {
    let Some(processes) = sim::load(scenario)?.processes else { return Ok(None) };
    let url = KubeletPages::new(processes, Arc::clone(&node.clock)).serve().map_err(Error::Start)?;
    Ok(Some(KubeletApi::new(&url, &Credentials::default())?))
}

/// Returns the first thing in a report that needs a person.
fn found(report: &HealthReport) -> Option<Fact> {
    report.findings.iter().find(|found| Weight::of(found) != Weight::Nothing)?.facts.first().cloned()
}

/// Converts a health report, and the facts of the node on which it rests, into the diagnosis of an incident.
pub(super) fn incident_diagnosis(report: &HealthReport, facts: Option<NodeFacts>) -> IncidentDiagnosis {
    // Reports have string keys only, so writing them as JSON cannot fail.
    let diagnosis = json::text(report).map(|text| (kind::DIAGNOSIS, text));
    let stacks = report.stacks.as_ref().and_then(json::text).map(|text| (kind::STACKS, text));
    let facts = facts.and_then(NodeFacts::text).map(|text| (kind::FACTS, text));
    let primary = report.primary.as_ref();
    let verdict = IncidentVerdict {
        verdict: report.verdict,
        summary: report.verdict_fact(),
        primary: primary.and_then(json::text),
        certainty: match primary.map(|primary| primary.confidence) {
            Some(Confidence::Certain) => 2,
            Some(Confidence::Likely) => 1,
            Some(Confidence::Possible) | None => 0,
        },
        subject: prediction::subject(report),
        not_ready_at: prediction::prediction(report).map(|predicted| predicted.not_ready_at),
    };
    let culprit = primary.map(|primary| {
        let pod = primary.pod.clone().unwrap_or_default();
        let container = primary.container.as_ref().map(|container| container.name.clone());
        IncidentCulprit {
            rule: primary.id.to_string(),
            rpc: primary.rpc.clone().unwrap_or_default(),
            namespace: pod.namespace,
            pod: pod.name,
            container: container.unwrap_or_default(),
        }
    });
    IncidentDiagnosis {
        documents: diagnosis.into_iter().chain(stacks).chain(facts).collect(),
        verdict,
        culprit,
        found: found(report),
        report: recorder_verdict::shown_part(report),
        not_checked: report.not_checked.clone(),
        measured: Err(NOT_SERVED),
    }
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
