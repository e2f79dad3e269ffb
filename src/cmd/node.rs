//! [`Node`]: what a command knows of its node before it calls the runtime: the clock, the files, the kubelet and the name.
//! The node is this machine, or a simulated or recorded one if the user named such a runtime.

use std::cell::{Cell, OnceCell};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::args::GlobalArgs;
use super::event_loop::block_on;
use super::{CAPTURE, CAPTURE_SCHEME, Error, SIMULATED};
use crate::capture::ReplayClock;
use crate::clock::{Clock, ShiftedClock, SystemClock};
use crate::cri::{self, Endpoint};
use crate::host::proc::StatTable;
use crate::host::{self, HostRoot};
use crate::kubelet::{self, Config, KubeletProcess, KubeletVersion, ListGates, Metrics, Search, http};
use crate::sim;
use crate::threads::{self, StartedWork};

/// The time limit for reading the kubelet's metrics.
const METRICS_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The time limit for reading the process table or a configuration file.
const FILE_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The node of a command.
pub struct Node {
    /// The global arguments.
    pub global: GlobalArgs,
    /// The clock: the system's, a simulation's or a capture's.
    pub clock: Arc<dyn Clock>,
    /// The root of the node's file system.
    pub host: HostRoot,
    runtime: NamedRuntime,
    /// The clock of the capture, if the runtime is one.
    replay_clock: Option<Arc<ReplayClock>>,
    kubelet: KubeletSearch,
    /// The kubelet's metrics, once they were requested.
    metrics: OnceCell<Option<Metrics>>,
}

/// What the user says about the runtime.
#[derive(Clone, Default)]
struct NamedRuntime {
    /// The endpoint from `--runtime-endpoint`.
    flag: Option<String>,
    /// The endpoint from `$CONTAINER_RUNTIME_ENDPOINT`.
    variable: Option<String>,
    crictl_config: Option<PathBuf>,
}

impl NamedRuntime {
    /// Returns what the arguments and the environment say.
    fn given(global: &GlobalArgs) -> Self {
        let config = global.config.clone();
        Self {
            flag: global.runtime_endpoint.clone(),
            variable: env::var("CONTAINER_RUNTIME_ENDPOINT").ok(),
            crictl_config: config.or_else(|| env::var_os("CRI_CONFIG_FILE").map(PathBuf::from)),
        }
    }

    /// Returns the endpoint, if the user named one.
    fn endpoint(&self) -> Option<&str> {
        self.flag.as_deref().or(self.variable.as_deref()).map(str::trim)
    }

    /// Returns the name of the scenario, if the runtime is simulated.
    fn scenario(&self) -> Option<&str> {
        self.endpoint()?.strip_prefix(SIMULATED)
    }

    fn is_capture(&self) -> bool {
        self.endpoint().is_some_and(|endpoint| endpoint.starts_with(CAPTURE))
    }
}

/// The search for the node's kubelet. A thread does it, because a process table or a disk may not answer.
#[derive(Default)]
struct KubeletSearch {
    running: Cell<Option<io::Result<StartedWork<Search>>>>,
    /// The result, once it is known.
    found: OnceCell<Option<KubeletProcess>>,
    /// The process table that the search has read.
    processes: Cell<Option<Arc<StatTable>>>,
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

impl Node {
    /// Returns the node that the arguments and the environment name; reads no file.
    pub fn named_by(global: &GlobalArgs) -> Rc<Self> {
        let host = HostRoot::resolve(global.host_root.as_deref());
        Rc::new(Self::new(global.clone(), host, NamedRuntime::given(global)))
    }

    /// Returns this machine, for a command with `--node`: the environment may name the runtime of another node.
    pub fn of_this_machine(global: &GlobalArgs) -> Rc<Self> {
        let host = HostRoot::resolve(global.host_root.as_deref());
        Rc::new(Self::new(global.clone(), host, NamedRuntime::default()))
    }

    fn new(global: GlobalArgs, host: HostRoot, runtime: NamedRuntime) -> Self {
        let replay_clock = runtime.is_capture().then(Arc::default);
        let simulated = global.at.filter(|_| runtime.scenario().is_some());
        Self {
            clock: clock(replay_clock.as_ref(), simulated),
            global,
            host,
            runtime,
            replay_clock,
            kubelet: KubeletSearch::default(),
            metrics: OnceCell::new(),
        }
    }

    /// Returns the same node with another runtime. A simulation may have a time since its start: `sim:SCENARIO@2m`.
    pub fn at_endpoint(&self, endpoint: &str) -> Rc<Self> {
        let timed = endpoint.rsplit_once('@').filter(|_| endpoint.starts_with(SIMULATED));
        let timed = timed.and_then(|(scenario, at)| Some((scenario, humantime::parse_duration(at).ok()?)));
        let (endpoint, at) = timed.map_or((endpoint, self.global.at), |(scenario, at)| (scenario, Some(at)));
        let runtime = NamedRuntime { flag: Some(endpoint.to_owned()), variable: None, crictl_config: None };
        Rc::new(Self::new(GlobalArgs { at, ..self.global.clone() }, self.host.clone(), runtime))
    }

    /// Returns the same node of the same capture, whose time is that of this clock.
    pub fn with_replay_clock(&self, clock: Arc<ReplayClock>) -> Rc<Self> {
        let same: Arc<dyn Clock> = Arc::<ReplayClock>::clone(&clock);
        Rc::new(Self { clock: same, replay_clock: Some(clock), ..self.unread_copy() })
    }

    /// Returns the same node for a command that prints no remarks, because a screen owns the terminal.
    pub fn without_remarks(&self) -> Rc<Self> {
        let global = GlobalArgs { quiet: true, ..self.global.clone() };
        Rc::new(Self { global, ..self.unread_copy() })
    }

    /// Returns the same node with this kubelet, or without a kubelet.
    pub fn with_kubelet(&self, kubelet: Option<KubeletProcess>) -> Rc<Self> {
        let kubelet = KubeletSearch { found: OnceCell::from(kubelet), ..KubeletSearch::default() };
        Rc::new(Self { kubelet, ..self.unread_copy() })
    }

    /// Returns the same node, of which nothing has been read yet.
    fn unread_copy(&self) -> Self {
        Self {
            global: self.global.clone(),
            clock: Arc::clone(&self.clock),
            host: self.host.clone(),
            runtime: self.runtime.clone(),
            replay_clock: self.replay_clock.clone(),
            kubelet: KubeletSearch::default(),
            metrics: OnceCell::new(),
        }
    }

    /// Prints a remark on stderr, unless `--quiet` is given.
    pub fn remark(&self, text: &str) {
        self.global.remark(text);
    }

    /// Prints a note on stderr, if `-v` is given at least `level` times.
    pub fn note(&self, level: u8, text: &str) {
        self.global.note(level, text);
    }

    /// Whether the runtime is one of this machine, and not a simulated or a recorded one.
    pub fn is_live(&self) -> bool {
        self.replay_clock.is_none() && self.runtime.scenario().is_none()
    }

    /// Returns the clock of a capture, which shows the moment that is replayed.
    pub fn replay_clock(&self) -> Arc<ReplayClock> {
        self.replay_clock.clone().unwrap_or_default()
    }

    /// Whether the user named a runtime, on the command line or in the environment.
    pub fn names_a_runtime(&self) -> bool {
        self.runtime.endpoint().is_some() || self.runtime.crictl_config.is_some()
    }

    /// Returns the endpoint of the runtime; with `-v`, prints why it was chosen.
    pub fn endpoint(&self) -> Result<Endpoint, Error> {
        let resolved = cri::resolve(&cri::Sources {
            flag: self.runtime.flag.as_deref(),
            variable: self.runtime.variable.as_deref(),
            crictl_config: self.runtime.crictl_config.as_deref(),
            kubelet: if self.runtime.endpoint().is_some() { None } else { self.kubelet() },
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

    /// Returns what the kubelet and the API server of a simulated node say about its pods; `None` for any other endpoint.
    pub fn simulated_pods(&self) -> Result<Option<sim::PodDocuments>, Error> {
        let Some(name) = self.runtime.scenario() else { return Ok(None) };
        let scenario = sim::load(name)?;
        let processes = scenario.processes.clone();
        Ok(processes.and_then(|processes| sim::pod_documents(&scenario, &processes, self.clock.wall())))
    }

    /// Returns the directory of a simulated node's manifests, and the manifests; `None` for any other endpoint.
    pub fn simulated_manifests(&self) -> Result<Option<(&'static Path, Vec<sim::StaticManifest>)>, Error> {
        let Some(name) = self.runtime.scenario() else { return Ok(None) };
        Ok(Some(sim::manifests(&sim::load(name)?)))
    }

    /// Returns the node's name. A simulated node has a fixed name; only an opened capture shows its node's name.
    pub fn name(&self) -> Option<String> {
        if self.runtime.scenario().is_some() {
            return Some(sim::NODE_NAME.to_owned());
        }
        if self.replay_clock.is_some() {
            return None;
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

    /// Whether this machine is the node of this name, and its runtime is found. On a laptop, `$NODE_NAME` is a variable of
    /// the user and names another machine.
    pub fn is_node(&self, name: &str) -> bool {
        let is_said = env::var_os("NODE_NAME").is_some() && env::var_os("KUBERNETES_SERVICE_HOST").is_none();
        (!is_said || self.kubelet().is_some())
            && self.name().as_deref() == Some(name)
            && self.endpoint().is_ok()
    }

    /// Returns the result of `work`, which reads the files described by `what`. If the disk does not answer in
    /// time, prints a remark and returns `None`.
    pub fn in_time<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> T + Clone + Send + 'static,
    ) -> Option<T> {
        self.within(FILE_TIME_LIMIT, what, work)
    }

    /// Returns the result of `work` as [`Self::in_time`] does, with another time limit.
    pub fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        what: &str,
        work: impl FnOnce() -> T + Clone + Send + 'static,
    ) -> Option<T> {
        let left_out = |why: io::Error| self.remark(&format!("{what} is left out: {why}"));
        threads::with_time_limit_if_possible(limit, work).map_err(left_out).ok()
    }

    /// Starts the search for the kubelet in parallel with the list calls, because reading the process table of a busy
    /// node takes longer than these calls.
    pub fn look_for_kubelet(&self) {
        self.start_search(Search::of);
    }

    /// Starts the search like [`Self::look_for_kubelet`], for a command that needs all processes. They are read only once.
    pub fn look_at_processes(&self) {
        self.start_search(Search::with_processes);
    }

    fn start_search(&self, search: fn(&Path, &HostRoot) -> Search) {
        if self.kubelet.found.get().is_none() {
            let root = self.host.clone();
            let running = threads::start("kubelet", move || search(&host::proc(), &root));
            self.kubelet.running.set(Some(running));
        }
    }

    /// Returns the process table after [`Self::look_at_processes`], only once, because it soon is out of date.
    pub fn take_processes(&self) -> Option<Arc<StatTable>> {
        self.kubelet();
        self.kubelet.processes.take()
    }

    /// Returns the kubelet that runs on this node, if its process is visible.
    pub fn kubelet(&self) -> Option<&KubeletProcess> {
        self.kubelet.found.get_or_init(|| self.finish_search()).as_ref()
    }

    fn finish_search(&self) -> Option<KubeletProcess> {
        let search = self.kubelet.running.take().or_else(|| {
            self.look_for_kubelet();
            self.kubelet.running.take()
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
        self.kubelet.processes.set(found.processes);
        found.kubelet
    }

    /// Returns the read-only port of the kubelet on this node, if it is open.
    pub fn read_only_port(&self) -> Option<u16> {
        if !self.is_live() {
            return None;
        }
        let port = self.kubelet()?.setting("read-only-port", "readOnlyPort").ok()??;
        port.value.parse().ok().filter(|port| *port != 0)
    }

    /// Returns the settings of the gate of streamed lists of this node's kubelet.
    pub fn list_gates(&self) -> ListGates {
        let kubelet = self.kubelet().filter(|_| self.is_live());
        kubelet.map(|kubelet| Config::from_settings(kubelet.settings()).list_gates).unwrap_or_default()
    }

    /// Returns the release that the program of this node's kubelet shows.
    pub fn program_release(&self) -> Option<KubeletVersion> {
        let kubelet = self.kubelet().filter(|_| self.is_live())?.clone();
        self.in_time("the kubelet's program", move || kubelet.program_release()).flatten()
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

    /// Returns the release of the kubelet, read without a request if its program shows it.
    pub async fn release_by_program_or_metrics(&self) -> Option<KubeletVersion> {
        match self.release_by_program().await {
            Some(release) => Some(release),
            None => self.release_by_metrics().await,
        }
    }

    async fn release_by_metrics(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse(self.metrics().await?.version.as_deref()?).ok()
    }

    async fn release_by_program(&self) -> Option<KubeletVersion> {
        let kubelet = self.kubelet().filter(|_| self.is_live())?.clone();
        let read = threads::blocking(move || kubelet.program_release());
        tokio::time::timeout(FILE_TIME_LIMIT, read).await.ok()?.ok()?
    }

    /// Returns the metrics of this node's kubelet, if its read-only port is open. They are requested once.
    pub async fn metrics(&self) -> Option<&Metrics> {
        if self.metrics.get().is_none() {
            let metrics = self.request_metrics().await;
            // Nothing else requests them meanwhile.
            let _ = self.metrics.set(metrics);
        }
        self.metrics.get()?.as_ref()
    }

    /// Requests the metrics of this node's kubelet, if its read-only port is open.
    pub async fn request_metrics(&self) -> Option<Metrics> {
        let port = self.read_only_port()?;
        let url = format!("http://127.0.0.1:{port}/metrics");
        let answer = http::get(&url, METRICS_TIME_LIMIT).await.ok().filter(|answer| answer.status == 200)?;
        Metrics::parse(&answer.text()).ok()
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

    /// Prints which rules are applied if the release is not known, and which of its rules are inferred: with `-v` if UIDs of
    /// the release are known. Returns the release.
    pub fn note_release(&self, release: KubeletVersion) -> KubeletVersion {
        let version = release.known();
        if !release.is_known() {
            self.remark(&format!(
                "kubelet {release} is not known; using the rules of {version}, the nearest known release; the UIDs of \
                 static pods are not known"
            ));
        }
        if let Some(inferred) = release.inferred() {
            if release.is_known() && !release.has_known_uids() {
                self.remark(inferred);
            } else {
                self.note(1, inferred);
            }
        }
        release
    }
}
