//! Resolves the global arguments, the environment and the node's settings once, for all commands.

use std::cell::OnceCell;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{cell::Cell, thread};

use super::render::Style;
use super::stop_signals;
use super::{ColorChoice, Error, GlobalArgs};
use crate::capture::{self, Capture, Playback, ReplayClock, ReplayServer};
use crate::clock::{Clock, ShiftedClock, SystemClock};
use crate::cri::{self, CallObserver, Client, Endpoint};
use crate::host::{self, HostRoot};
use crate::kubelet::{self, KubeletProcess, KubeletVersion, Metrics, Search, http};
use crate::report::RuntimeRef;
use crate::report::escape::escaped;
use crate::sim::{self, Simulator};
use crate::threads;

/// The default deadline of a call in a command that runs once.
pub const ONE_SHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for reading the kubelet's metrics.
const KUBELET_PATIENCE: Duration = Duration::from_secs(1);

/// The time limit for reading a process table or a configuration file.
const SEARCH: Duration = Duration::from_secs(1);

/// The prefix of a simulated endpoint.
const SIMULATED: &str = "sim:";

/// The prefix of an endpoint that is a capture.
pub const CAPTURE: &str = "capture:";

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
    flag: Option<String>,
    variable: Option<String>,
    crictl_config: Option<PathBuf>,
    search: Cell<Option<mpsc::Receiver<Search>>>,
    kubelet: OnceCell<Option<KubeletProcess>>,
    simulator: OnceCell<Simulator>,
    observer: OnceCell<Arc<dyn CallObserver>>,
    /// The clock of a replayed capture.
    replayed: Option<Arc<ReplayClock>>,
    replay_server: OnceCell<ReplayServer>,
}

/// Converts a Version answer for a report.
pub fn runtime_ref(endpoint: &Endpoint, version: cri::Version) -> RuntimeRef {
    let said = |text: String| (!text.is_empty()).then_some(text);
    RuntimeRef {
        endpoint: endpoint.to_string(),
        name: said(version.runtime_name),
        version: said(version.runtime_version),
        api_version: said(version.runtime_api_version),
    }
}

impl Context {
    /// Reads the arguments and the environment, and nothing else.
    pub fn resolve(arguments: &GlobalArgs) -> Self {
        let variable = env::var("CONTAINER_RUNTIME_ENDPOINT").ok();
        let said = arguments.runtime_endpoint.as_ref().or(variable.as_ref());
        let replayed = said.filter(|endpoint| endpoint.trim().starts_with(CAPTURE)).map(|_| Arc::default());
        Self {
            clock: match (&replayed, arguments.at) {
                (Some(clock), _) => Arc::<ReplayClock>::clone(clock) as Arc<dyn Clock>,
                (None, Some(at)) if said.is_some_and(|endpoint| endpoint.trim().starts_with(SIMULATED)) => {
                    let clock = SystemClock::start();
                    let moment = sim::timeline_start(clock.wall()).plus(at);
                    Arc::new(ShiftedClock::showing(clock, moment))
                }
                (None, _) => Arc::new(SystemClock::start()),
            },
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
            simulator: OnceCell::new(),
            observer: OnceCell::new(),
            replayed,
            replay_server: OnceCell::new(),
        }
    }

    /// Starts the search for the kubelet in a thread. Reading the process table of a busy node takes longer
    /// than the two list calls, so both run in parallel. A process table or a disk that does not answer
    /// blocks only that thread.
    pub fn look_for_kubelet(&self) {
        if self.kubelet.get().is_none() {
            let (sender, receiver) = mpsc::sync_channel(1);
            let root = self.host.clone();
            let search = move || {
                // Nobody receives the result after the time limit.
                let _ = sender.send(Search::of(&host::proc(), &root));
            };
            // Without a thread the kubelet is unknown: the receiver sees a closed channel.
            drop(thread::Builder::new().name("kubelet".to_owned()).spawn(search));
            self.search.set(Some(receiver));
        }
    }

    /// Returns the kubelet that runs on this node, if its process is visible.
    pub fn kubelet(&self) -> Option<&KubeletProcess> {
        let found = self.kubelet.get_or_init(|| {
            let search = self.search.take().or_else(|| {
                self.look_for_kubelet();
                self.search.take()
            })?;
            let Ok(found) = search.recv_timeout(SEARCH) else {
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
            found.kubelet
        });
        found.as_ref()
    }

    /// Returns the node's name; a simulated node has a fixed one.
    pub fn node_name(&self) -> Option<String> {
        let said = self.flag.as_ref().or(self.variable.as_ref());
        if said.is_some_and(|endpoint| endpoint.starts_with(SIMULATED)) {
            return Some(sim::NODE_NAME.to_owned());
        }
        if self.replayed.is_some() {
            return self.playback().and_then(|playback| playback.node());
        }
        let told = self.kubelet().map(KubeletProcess::settings);
        // A pod's own files name the pod, so the downward API is preferred; `--hostname-override` of a
        // visible kubelet overrides both.
        let downward = env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
        if told.is_none_or(|told| told.flag("hostname-override").is_none()) && downward.is_some() {
            return downward;
        }
        let (told, host, proc) = (told.cloned(), self.host.clone(), host::proc());
        let name = move || kubelet::node_name(told.as_ref(), &host, &proc);
        self.in_time("the file with the node's name", name).flatten()
    }

    /// Returns the result of `work`, which reads files; if a disk does not answer in time, prints a remark
    /// and returns nothing.
    pub fn in_time<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> T + Clone + Send + 'static,
    ) -> Option<T> {
        let left_out = |why: io::Error| self.remark(&format!("{what} is left out: {why}"));
        threads::with_time_limit_if_possible(SEARCH, work).map_err(left_out).ok()
    }

    /// Returns the release of the kubelet on this node, if its read-only port is open.
    pub async fn kubelet_release(&self) -> Option<KubeletVersion> {
        let port = self.read_only_port()?;
        let url = format!("http://127.0.0.1:{port}/metrics");
        let answer = http::get(&url, KUBELET_PATIENCE).await.ok().filter(|answer| answer.status == 200)?;
        KubeletVersion::parse(&Metrics::parse(&answer.text()).ok()?.version?).ok()
    }

    /// Returns the read-only port of the kubelet on this node, if it is open.
    pub fn read_only_port(&self) -> Option<u16> {
        if self.replayed.is_some() {
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
        let said_outright = self.flag.is_some() || self.variable.is_some();
        let resolved = cri::resolve(&cri::Sources {
            flag: self.flag.as_deref(),
            variable: self.variable.as_deref(),
            crictl_config: self.crictl_config.as_deref(),
            kubelet: if said_outright { None } else { self.kubelet() },
            host: &self.host,
        })?;
        if self.host.assumed {
            self.note(1, &format!("using {} as the node's root directory", self.host.as_path().display()));
        }
        if let Some(path) = &resolved.silent_file {
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
            Endpoint::Capture { what } => self.replay_server(what)?.client(deadline),
        };
        Ok(match self.observer.get() {
            Some(observer) => client.with_observer(Arc::clone(observer)),
            None => client,
        })
    }

    /// Lets the recorder observe the calls of every client that is created from now on.
    pub fn observer(&self, observer: Arc<dyn CallObserver>) {
        // A process has only one recorder.
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
        let (path, time) = capture::parts(what);
        let capture = Capture::open(Path::new(path))?;
        let start = capture.moment(time)?;
        let incident = capture.chosen_incident(time);
        self.note(1, &format!("showing the capture at {}", start.1));
        let clock = self.replayed.clone().unwrap_or_default();
        Ok(Playback::at(capture, start, clock).of_incident(incident))
    }

    /// Returns the same context with a capture as its runtime.
    pub fn at_capture(&self, what: &str) -> Self {
        let replayed: Arc<ReplayClock> = Arc::default();
        Self {
            clock: Arc::clone(&replayed) as Arc<dyn Clock>,
            flag: Some(what.to_owned()),
            variable: None,
            crictl_config: None,
            replayed: Some(replayed),
            ..self.anew()
        }
    }

    /// The same command line on a node with this kubelet, or with none.
    pub fn with_kubelet(&self, kubelet: Option<KubeletProcess>) -> Self {
        Self { kubelet: OnceCell::from(kubelet), ..self.anew() }
    }

    /// The same command line, with nothing found out yet.
    fn anew(&self) -> Self {
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
            simulator: OnceCell::new(),
            observer: OnceCell::new(),
            replayed: self.replayed.clone(),
            replay_server: OnceCell::new(),
        }
    }

    /// Starts the simulated runtime of `scenario` once for all clients.
    fn simulator(&self, scenario: &str) -> Result<&Simulator, Error> {
        if let Some(simulator) = self.simulator.get() {
            return Ok(simulator);
        }
        let begun = sim::timeline_start(self.clock.wall());
        let started = Simulator::since(&sim::load(scenario)?, Arc::clone(&self.clock), begun)?;
        Ok(self.simulator.get_or_init(|| started))
    }

    /// Returns lines and columns of the terminal on stdout, if it is one.
    pub fn terminal_size() -> Option<(usize, usize)> {
        let size = io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok())??;
        Some((usize::from(size.ws_row), usize::from(size.ws_col)))
            .filter(|(rows, columns)| *rows > 0 && *columns > 0)
    }

    /// Whether a stream is a terminal that somebody sees. `kubectl debug` has a terminal of 0×0 until a user
    /// attaches; its output goes to the pod's log, so it does not count.
    pub fn is_seen(stream: &(impl IsTerminal + AsFd)) -> bool {
        stream.is_terminal() && rustix::termios::tcgetwinsize(stream).is_ok_and(|size| size.ws_col > 0)
    }

    /// Whether this terminal can rewrite a line; if not, plain lines are printed.
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
                    && Self::is_seen(&io::stdout())
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
            // Nothing can be printed if stderr is closed.
            let _ = writeln!(io::stderr(), "{}", escaped(text));
        }
    }
}

/// Runs `work` on an event loop in this thread.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = of_this_thread()?;
    let answer = runtime.block_on(work);
    // A pending call must not delay the exit.
    runtime.shutdown_background();
    Ok(answer)
}

/// Like [`block_on`], for the last work of a process: pending calls are not even dropped, because freeing
/// half a list may take longer than the process has.
pub fn block_on_to_the_end<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = of_this_thread()?;
    let answer = runtime.block_on(work);
    std::mem::forget(runtime);
    Ok(answer)
}

fn of_this_thread() -> Result<tokio::runtime::Runtime, Error> {
    // The number of descriptors that an event loop needs: tokio panics if it cannot open the last of them.
    let all =
        || -> io::Result<_> { Ok((UnixStream::pair()?, UnixStream::pair()?, UnixDatagram::unbound()?)) };
    drop(all().map_err(Error::Start)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    let inside = runtime.enter();
    stop_signals::outlive_harmless().map_err(Error::Start)?;
    drop(inside);
    Ok(runtime)
}
