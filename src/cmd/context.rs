//! [`Context`]: the global arguments, the environment and the node's settings, which all commands share. The kubelet
//! and the simulated or replayed runtime are found on first use and kept.

use std::cell::{Cell, OnceCell};
use std::env;
use std::io::{self, IsTerminal};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::render::Style;
use super::stop_signals;
use super::streams::{self, stdout};
use super::{ColorChoice, Error, GlobalArgs};
use crate::capture::{self, Capture, CaptureMoment, Playback, ReplayClock, ReplayServer};
use crate::clock::{Clock, ShiftedClock, SystemClock, Wall};
use crate::cri::{self, CallObserver, Client, Endpoint, Runtime as _};
use crate::host::proc::StatTable;
use crate::host::{self, HostRoot};
use crate::kubelet::{
    self, Config, KubeletLists, KubeletProcess, KubeletVersion, ListCalls, ListGates, ListSigns, Metrics,
    Search, http,
};
use crate::report::RuntimeRef;
use crate::sim::{self, Simulator};
use crate::threads::{self, StartedWork};

/// The default deadline of a call in a command that runs once.
pub const ONE_SHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for reading the kubelet's metrics.
const METRICS_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The time limit for reading the process table or a configuration file.
const FILE_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The prefix of a simulated endpoint.
pub const SIMULATED: &str = "sim:";

/// The prefix of an endpoint that is a capture.
pub const CAPTURE: &str = "capture:";

/// The scheme of an endpoint that is a capture: [`CAPTURE`] without the colon.
pub const CAPTURE_SCHEME: &str = "capture";

/// The resolved [`GlobalArgs`].
pub struct Context {
    /// The clock: the system's, a simulation's or a capture's.
    pub clock: Arc<dyn Clock>,
    /// The root of the node's file system.
    pub host: HostRoot,
    /// `--timeout`, if it was given.
    pub timeout: Option<Duration>,
    /// `--at`, if it was given: how far a simulation has advanced.
    pub at: Option<Duration>,
    /// Whether tables have headers.
    headers: bool,
    /// Whether progress and notes are left out.
    pub quiet: bool,
    /// How often `-v` was given.
    pub verbose: u8,
    color: ColorChoice,
    /// The endpoint from `--runtime-endpoint`.
    flag: Option<String>,
    /// The endpoint from `$CONTAINER_RUNTIME_ENDPOINT`.
    variable: Option<String>,
    crictl_config: Option<PathBuf>,
    /// The running search for the kubelet, which a thread does.
    search: Cell<Option<io::Result<StartedWork<Search>>>>,
    /// The result of the search, once it is known.
    kubelet: OnceCell<Option<KubeletProcess>>,
    /// The process table that the search has read.
    processes: Cell<Option<Arc<StatTable>>>,
    simulator: OnceCell<Simulator>,
    /// The recorder, or the printer of `-vv`, which sees every call.
    observer: OnceCell<Arc<dyn CallObserver>>,
    /// The clock of a replayed capture, if the endpoint is a capture.
    replay_clock: Option<Arc<ReplayClock>>,
    replay_server: OnceCell<ReplayServer>,
    /// The list calls of `--list-calls`, if the user wants certain ones.
    wanted_lists: Cell<Option<ListCalls>>,
    /// How the node's kubelet lists, once it is known.
    lists: OnceCell<KubeletLists>,
    /// The kubelet's metrics, once they were requested.
    metrics: OnceCell<Option<Metrics>>,
}

/// Converts the runtime's answer to `Version` for a report.
pub fn runtime_ref(endpoint: &Endpoint, version: cri::Version) -> RuntimeRef {
    let non_empty = |text: String| (!text.is_empty()).then_some(text);
    RuntimeRef {
        endpoint: endpoint.to_string(),
        name: non_empty(version.runtime_name),
        version: non_empty(version.runtime_version),
        api_version: non_empty(version.runtime_api_version),
    }
}

/// Returns the clock of a capture, of a simulation at this time since its start, or of the system.
fn clock(replay_clock: Option<&Arc<ReplayClock>>, simulated: Option<Duration>) -> Arc<dyn Clock> {
    match (replay_clock, simulated) {
        (Some(clock), _) => Arc::<ReplayClock>::clone(clock),
        (None, Some(at)) => {
            let clock = SystemClock::start();
            let moment = sim::timeline_start(clock.wall()).plus(at);
            Arc::new(ShiftedClock::showing(clock, moment))
        }
        (None, None) => Arc::new(SystemClock::start()),
    }
}

impl Context {
    /// Creates the context from the arguments and the environment; reads no file.
    pub fn resolve(arguments: &GlobalArgs) -> Self {
        let variable = env::var("CONTAINER_RUNTIME_ENDPOINT").ok();
        let named = arguments.runtime_endpoint.as_ref().or(variable.as_ref());
        let replay_clock =
            named.filter(|endpoint| endpoint.trim().starts_with(CAPTURE)).map(|_| Arc::default());
        let is_simulated = named.is_some_and(|endpoint| endpoint.trim().starts_with(SIMULATED));
        Self {
            clock: clock(replay_clock.as_ref(), arguments.at.filter(|_| is_simulated)),
            host: HostRoot::resolve(arguments.host_root.as_deref()),
            timeout: arguments.timeout,
            at: arguments.at,
            headers: !arguments.no_headers,
            quiet: arguments.quiet,
            verbose: arguments.verbose,
            color: arguments.color,
            flag: arguments.runtime_endpoint.clone(),
            variable,
            crictl_config: arguments
                .config
                .clone()
                .or_else(|| env::var_os("CRI_CONFIG_FILE").map(PathBuf::from)),
            search: Cell::new(None),
            kubelet: OnceCell::new(),
            processes: Cell::new(None),
            simulator: OnceCell::new(),
            observer: OnceCell::new(),
            replay_clock,
            replay_server: OnceCell::new(),
            wanted_lists: Cell::new(None),
            lists: OnceCell::new(),
            metrics: OnceCell::new(),
        }
    }

    /// Starts the search for the kubelet in a thread, in parallel with the list calls, because reading the process
    /// table of a busy node takes longer than these calls. A process table or a disk that does not answer blocks
    /// only that thread.
    pub fn look_for_kubelet(&self) {
        self.start_search(Search::of);
    }

    /// Starts the search like [`Self::look_for_kubelet`], for a command that needs all processes. They are read only once.
    pub fn look_at_processes(&self) {
        self.start_search(Search::with_processes);
    }

    fn start_search(&self, search: fn(&Path, &HostRoot) -> Search) {
        if self.kubelet.get().is_none() {
            let root = self.host.clone();
            self.search.set(Some(threads::start("kubelet", move || search(&host::proc(), &root))));
        }
    }

    /// Returns the process table after [`Self::look_at_processes`], only once, because it soon is out of date.
    pub fn take_processes(&self) -> Option<Arc<StatTable>> {
        self.kubelet();
        self.processes.take()
    }

    /// Returns the kubelet that runs on this node, if its process is visible.
    pub fn kubelet(&self) -> Option<&KubeletProcess> {
        let found = self.kubelet.get_or_init(|| {
            let search = self.search.take().or_else(|| {
                self.look_for_kubelet();
                self.search.take()
            })?;
            let Ok(found) = search.and_then(|work| work.wait(FILE_TIME_LIMIT)) else {
                self.remark("the node's kubelet is not known: /proc or its configuration does not answer");
                return None;
            };
            // If a kubelet was found, other processes with its name are mentioned only with `-v`.
            for why in &found.refused {
                self.note(u8::from(found.kubelet.is_some()), why);
            }
            for why in &found.elsewhere {
                self.note(1, why);
            }
            self.processes.set(found.processes);
            found.kubelet
        });
        found.as_ref()
    }

    /// Whether the runtime is one of this node, and not a simulated or a recorded one.
    pub fn is_live(&self) -> bool {
        let named = self.flag.as_ref().or(self.variable.as_ref());
        self.replay_clock.is_none() && !named.is_some_and(|name| name.trim().starts_with(SIMULATED))
    }

    /// Returns what the kubelet and the API server of a simulated node say about its pods; `None` for any other endpoint.
    pub fn simulated_pods(&self) -> Result<Option<sim::PodDocuments>, Error> {
        let named = self.flag.as_ref().or(self.variable.as_ref());
        let Some(name) = named.and_then(|name| name.trim().strip_prefix(SIMULATED)) else { return Ok(None) };
        let scenario = sim::load(name)?;
        let processes = scenario.processes.clone();
        Ok(processes.and_then(|processes| sim::pod_documents(&scenario, &processes, self.clock.wall())))
    }

    /// Returns the directory of a simulated node's manifests, and the manifests; `None` for any other endpoint.
    pub fn simulated_manifests(&self) -> Result<Option<(&'static Path, Vec<sim::StaticManifest>)>, Error> {
        let named = self.flag.as_ref().or(self.variable.as_ref());
        let Some(name) = named.and_then(|name| name.trim().strip_prefix(SIMULATED)) else { return Ok(None) };
        Ok(Some(sim::manifests(&sim::load(name)?)))
    }

    /// Returns the node's name. A simulated node has a fixed name; a capture contains its node's name.
    pub fn node_name(&self) -> Option<String> {
        let endpoint = self.flag.as_ref().or(self.variable.as_ref());
        if endpoint.is_some_and(|endpoint| endpoint.starts_with(SIMULATED)) {
            return Some(sim::NODE_NAME.to_owned());
        }
        if self.replay_clock.is_some() {
            return self.playback().and_then(|playback| playback.node());
        }
        let settings = self.kubelet().map(KubeletProcess::settings);
        // In a pod, /etc/hostname names the pod, so $NODE_NAME (downward API) is preferred to it. The
        // `--hostname-override` of a visible kubelet overrides both.
        let downward = env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
        let is_overridden = settings.is_some_and(|settings| settings.flag("hostname-override").is_some());
        if !is_overridden && downward.is_some() {
            return downward;
        }
        let (settings, host, proc) = (settings.cloned(), self.host.clone(), host::proc());
        let name = move || kubelet::node_name(settings.as_ref(), &host, &proc);
        self.in_time("the file with the node's name", name).flatten()
    }

    /// Returns the result of `work`, which reads the files described by `what`. If the disk does not answer in
    /// time, prints a remark and returns `None`.
    pub fn in_time<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> T + Clone + Send + 'static,
    ) -> Option<T> {
        let left_out = |why: io::Error| self.remark(&format!("{what} is left out: {why}"));
        threads::with_time_limit_if_possible(FILE_TIME_LIMIT, work).map_err(left_out).ok()
    }

    /// Returns the release of the kubelet on this node, if its metrics or its program show it.
    pub async fn kubelet_release(&self) -> Option<KubeletVersion> {
        self.release_and_source().await.map(|(release, _)| release)
    }

    async fn release_and_source(&self) -> Option<(KubeletVersion, &'static str)> {
        match self.release_by_metrics().await {
            Some(release) => Some((release, "the metrics of this node's kubelet")),
            None => Some((self.release_by_program().await?, "the program of this node's kubelet")),
        }
    }

    async fn release_by_metrics(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse(self.node_metrics().await?.version.as_deref()?).ok()
    }

    /// Returns the metrics of this node's kubelet, if its read-only port is open. They are requested once.
    async fn node_metrics(&self) -> Option<&Metrics> {
        if self.metrics.get().is_none() {
            let metrics = self.request_metrics().await;
            // Nothing else requests them meanwhile.
            let _ = self.metrics.set(metrics);
        }
        self.metrics.get()?.as_ref()
    }

    async fn request_metrics(&self) -> Option<Metrics> {
        let port = self.read_only_port()?;
        let url = format!("http://127.0.0.1:{port}/metrics");
        let answer = http::get(&url, METRICS_TIME_LIMIT).await.ok().filter(|answer| answer.status == 200)?;
        Metrics::parse(&answer.text()).ok()
    }

    async fn release_by_program(&self) -> Option<KubeletVersion> {
        let kubelet = self.kubelet().filter(|_| self.is_live())?.clone();
        let read = threads::blocking(move || kubelet.program_release());
        tokio::time::timeout(FILE_TIME_LIMIT, read).await.ok()?.ok()?
    }

    /// Keeps which list calls the user wants; `None` for those of the kubelet.
    pub fn want_lists(&self, wanted: Option<ListCalls>) {
        self.wanted_lists.set(wanted);
    }

    /// Returns which list calls the user wants.
    pub fn wanted_lists(&self) -> Option<ListCalls> {
        self.wanted_lists.get()
    }

    /// Returns how the node's kubelet lists. `release` is its release, if the caller knows it. The signs are read once.
    pub async fn kubelet_lists(&self, release: Option<KubeletVersion>) -> &KubeletLists {
        if let Some(lists) = self.lists.get() {
            return lists;
        }
        let lists = self.find_kubelet_lists(release).await;
        self.lists.get_or_init(|| lists)
    }

    async fn find_kubelet_lists(&self, release: Option<KubeletVersion>) -> KubeletLists {
        let gates = self.list_gates();
        let mut signs = ListSigns {
            release: KubeletVersion::CONFIRMED,
            gates: &gates,
            gauge: None,
            logged_fallback: false,
        };
        if let Some(playback) = self.playback() {
            signs.release = release.or_else(|| playback.kubelet_release()).unwrap_or(signs.release);
            let sample = playback.kubelet_metrics().and_then(|(sample, _)| sample.text);
            signs.gauge = sample.and_then(|text| Metrics::parse(&text).ok()?.streams_lists);
            return KubeletLists::of(signs);
        }
        // The program shows the release without a request.
        let release = match release {
            Some(release) => Some(release),
            None => match self.release_by_program().await {
                Some(release) => Some(release),
                None => self.release_by_metrics().await,
            },
        };
        signs.release = release.unwrap_or(signs.release);
        if KubeletLists::of(signs).may_differ() {
            signs.gauge = self.node_metrics().await.and_then(|metrics| metrics.streams_lists);
        }
        KubeletLists::of(signs)
    }

    /// Returns the settings of the gate of streamed lists of this node's kubelet.
    pub fn list_gates(&self) -> ListGates {
        let kubelet = self.kubelet().filter(|_| self.is_live());
        kubelet.map(|kubelet| Config::of(kubelet.settings()).list_gates).unwrap_or_default()
    }

    /// Returns the release that the program of this node's kubelet shows.
    pub fn program_release(&self) -> Option<KubeletVersion> {
        let kubelet = self.kubelet().filter(|_| self.is_live())?.clone();
        self.in_time("the kubelet's program", move || kubelet.program_release()).flatten()
    }

    /// Returns the kubelet release that a command assumes, and its source: `named` is the value of `--kubelet-version`.
    pub async fn release_or_default(&self, named: Option<KubeletVersion>) -> (KubeletVersion, &'static str) {
        match named {
            Some(version) => (version, "--kubelet-version"),
            None => {
                self.release_and_source().await.unwrap_or((KubeletVersion::CONFIRMED, "the newest confirmed"))
            }
        }
    }

    /// Like [`Self::release_or_default`], for a command without an event loop.
    pub fn assumed_release(&self, named: Option<KubeletVersion>) -> KubeletVersion {
        if named.is_some() || !self.is_live() {
            return named.unwrap_or(KubeletVersion::CONFIRMED);
        }
        block_on(self.release_or_default(None)).map_or(KubeletVersion::CONFIRMED, |(release, _)| release)
    }

    /// Returns the read-only port of the kubelet on this node, if it is open.
    pub fn read_only_port(&self) -> Option<u16> {
        if !self.is_live() {
            return None;
        }
        let port = self.kubelet()?.setting("read-only-port", "readOnlyPort").ok()??;
        port.value.parse().ok().filter(|port| *port != 0)
    }

    /// Whether the user named a runtime, on the command line or in the environment.
    pub fn names_a_runtime(&self) -> bool {
        self.flag.is_some() || self.variable.is_some() || self.crictl_config.is_some()
    }

    /// Returns the endpoint of the runtime; with `-v`, prints why it was chosen.
    pub fn endpoint(&self) -> Result<Endpoint, Error> {
        let is_named = self.flag.is_some() || self.variable.is_some();
        let resolved = cri::resolve(&cri::Sources {
            flag: self.flag.as_deref(),
            variable: self.variable.as_deref(),
            crictl_config: self.crictl_config.as_deref(),
            kubelet: if is_named { None } else { self.kubelet() },
            host: &self.host,
            custom_schemes: &[CAPTURE_SCHEME],
        })?;
        if self.host.assumed {
            self.note(1, &format!("using {} as the node's root directory", self.host.as_path().display()));
        }
        if let Some(path) = &resolved.silent_path {
            self.remark(&format!("skipping `{}`: reading it takes too long", path.display()));
        }
        self.note(1, &format!("runtime {} from {}", resolved.endpoint, resolved.source));
        Ok(resolved.endpoint)
    }

    /// Creates a client of `endpoint` whose calls end after `--timeout`, or else after `default`. This works
    /// only within [`block_on`], whose thread runs the connection.
    pub fn client(&self, endpoint: &Endpoint, default: Duration) -> Result<Client, Error> {
        let deadline = self.timeout.unwrap_or(default);
        let client = match endpoint {
            Endpoint::Unix { path, name } => Client::new(path, name, deadline, Arc::clone(&self.clock)),
            Endpoint::Sim { scenario } => self.simulator(scenario)?.client(deadline, Arc::clone(&self.clock)),
            Endpoint::Custom { name, .. } => {
                let server = self.replay_server(name)?;
                let client = server.client(deadline);
                client.list_with(server.playback().list_calls());
                client
            }
        };
        Ok(match self.observer.get() {
            Some(observer) => client.with_observer(Arc::clone(observer)),
            None => client,
        })
    }

    /// Lets `observer` see the calls of every client that is created from now on.
    pub fn set_observer(&self, observer: Arc<dyn CallObserver>) {
        // A command sets at most one observer.
        let _ = self.observer.set(observer);
    }

    /// Returns the capture that is replayed, once a client of it exists.
    pub fn playback(&self) -> Option<&Arc<Playback>> {
        self.replay_server.get().map(ReplayServer::playback)
    }

    /// Opens the capture `what`, which is `PATH[@TIME]`, once for all clients.
    fn replay_server(&self, what: &str) -> Result<&ReplayServer, Error> {
        if let Some(replay_server) = self.replay_server.get() {
            return Ok(replay_server);
        }
        let playback = self.open_capture(what)?;
        let replay_server =
            ReplayServer::open(&format!("{CAPTURE}{what}"), playback).map_err(Error::Start)?;
        Ok(self.replay_server.get_or_init(|| replay_server))
    }

    /// Opens the capture `what` at its moment, and sets the clock to that moment.
    pub fn open_capture(&self, what: &str) -> Result<Playback, Error> {
        let (path, time) = capture::split_path_and_time(what);
        let capture = Capture::open(Path::new(path))?;
        let start = capture.moment(time)?;
        let incident = capture.chosen_incident(time);
        self.note(1, &format!("showing the capture at {}", start.1));
        let clock = self.replay_clock.clone().unwrap_or_default();
        Ok(Playback::at(capture, start, clock).of_incident(incident))
    }

    /// Returns the same context with another runtime. A simulation may have a time since its start:
    /// `sim:SCENARIO@2m`.
    pub fn at_endpoint(&self, endpoint: &str) -> Self {
        let replay_clock = endpoint.starts_with(CAPTURE).then(Arc::default);
        let is_simulated = endpoint.starts_with(SIMULATED);
        let timed = endpoint.rsplit_once('@').filter(|_| is_simulated);
        let timed = timed.and_then(|(scenario, at)| Some((scenario, humantime::parse_duration(at).ok()?)));
        let (endpoint, at) = timed.map_or((endpoint, self.at), |(scenario, at)| (scenario, Some(at)));
        Self {
            clock: clock(replay_clock.as_ref(), at.filter(|_| is_simulated)),
            at,
            flag: Some(endpoint.to_owned()),
            variable: None,
            crictl_config: None,
            replay_clock,
            ..self.unresolved_copy()
        }
    }

    /// Returns the same context with the same capture, replayed from another moment.
    pub fn at_moment(&self, endpoint: &Endpoint, start: (CaptureMoment, Wall)) -> Result<Self, Error> {
        let replay_clock: Arc<ReplayClock> = Arc::default();
        let playback = self.playback().map(|playback| playback.moved_to(start, Arc::clone(&replay_clock)));
        let replay_server = playback.map(|playback| ReplayServer::open(&endpoint.to_string(), playback));
        let replay_server = replay_server.transpose().map_err(Error::Start)?;
        Ok(Self {
            clock: Arc::clone(&replay_clock) as Arc<dyn Clock>,
            replay_clock: Some(replay_clock),
            replay_server: replay_server.map_or_else(OnceCell::new, OnceCell::from),
            ..self.unresolved_copy()
        })
    }

    /// Returns a context with the same command line that prints no remarks, because a screen owns the terminal.
    pub fn without_remarks(&self) -> Self {
        Self { quiet: true, ..self.unresolved_copy() }
    }

    /// Returns a context with the same command line for a node with this kubelet, or without a kubelet.
    pub fn with_kubelet(&self, kubelet: Option<KubeletProcess>) -> Self {
        Self { kubelet: OnceCell::from(kubelet), ..self.unresolved_copy() }
    }

    /// Returns a context with the same command line, which has not found or started anything yet.
    fn unresolved_copy(&self) -> Self {
        Self {
            clock: Arc::clone(&self.clock),
            host: self.host.clone(),
            timeout: self.timeout,
            at: self.at,
            headers: self.headers,
            quiet: self.quiet,
            verbose: self.verbose,
            color: self.color,
            flag: self.flag.clone(),
            variable: self.variable.clone(),
            crictl_config: self.crictl_config.clone(),
            search: Cell::new(None),
            kubelet: OnceCell::new(),
            processes: Cell::new(None),
            simulator: OnceCell::new(),
            observer: OnceCell::new(),
            replay_clock: self.replay_clock.clone(),
            replay_server: OnceCell::new(),
            wanted_lists: Cell::new(self.wanted_lists.get()),
            lists: OnceCell::new(),
            metrics: OnceCell::new(),
        }
    }

    /// Starts the simulated runtime of `scenario` once for all clients.
    fn simulator(&self, scenario: &str) -> Result<&Simulator, Error> {
        if let Some(simulator) = self.simulator.get() {
            return Ok(simulator);
        }
        let start = sim::timeline_start(self.clock.wall());
        let started = Simulator::since(&sim::load(scenario)?, Arc::clone(&self.clock), start)?;
        Ok(self.simulator.get_or_init(|| started))
    }

    /// Returns the rows and columns of the terminal on stdout, if stdout is a terminal.
    pub fn terminal_size() -> Option<(usize, usize)> {
        let size = stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(stdout()).ok())??;
        Some((usize::from(size.ws_row), usize::from(size.ws_col)))
            .filter(|(rows, columns)| *rows > 0 && *columns > 0)
    }

    /// Whether the terminal can rewrite a line, according to `$TERM`.
    pub fn can_rewrite() -> bool {
        env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
    }

    /// Returns the style of text on stdout.
    pub fn style(&self) -> Style {
        Style { headers: self.headers, color: self.color() }
    }

    fn color(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
                    && streams::stdout_is_seen()
            }
        }
    }

    /// Prints a remark on stderr, unless `--quiet` is given.
    pub fn remark(&self, text: &str) {
        self.note(0, text);
    }

    /// Prints a note on stderr, if `-v` is given at least `level` times.
    pub fn note(&self, level: u8, text: &str) {
        if self.verbose >= level && !self.quiet {
            streams::remark(text);
        }
    }
}

/// Runs `work` on an event loop in this thread. What needs the event loop, such as a timer, must be created by `work`
/// itself, not in the argument, which is evaluated before the event loop exists.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let event_loop = new_event_loop()?;
    let answer = event_loop.block_on(work);
    // A pending call must not delay the exit.
    event_loop.shutdown_background();
    Ok(answer)
}

/// Like [`block_on`], for the last work of a process. Pending calls are not dropped, because freeing a list of
/// many entries may take longer than the process may still run.
pub fn block_on_to_the_end<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let event_loop = new_event_loop()?;
    let answer = event_loop.block_on(work);
    std::mem::forget(event_loop);
    Ok(answer)
}

/// Creates the event loop of this thread.
fn new_event_loop() -> Result<Runtime, Error> {
    // tokio panics if it cannot open all five descriptors of an event loop, so these are opened and closed here first, and
    // three more for the files that other threads read meanwhile.
    let descriptors = || -> io::Result<_> {
        let pairs = (UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?);
        Ok((pairs, UnixDatagram::unbound()?, UnixDatagram::unbound()?))
    };
    drop(descriptors().map_err(Error::Start)?);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    let entered = runtime.enter();
    stop_signals::ignore_harmless().map_err(Error::Start)?;
    drop(entered);
    Ok(runtime)
}
