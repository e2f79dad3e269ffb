//! `plegctl health`: the verdict and the culprit.
//!
//! ```text
//! $ plegctl health
//! UNHEALTHY: ContainerStatus of shop/db-0/postgres does not answer (D01, certain)
//! ```
//!
//! Makes each call once, within a time limit (the *budget*), and reports which calls it could not make. It changes
//! nothing: steps that would change the node are printed for the user.
//!
//! `gather` collects the evidence from the `Inputs`, `judge` turns it into a `HealthReport`, and this module prints the
//! report.

mod bundle;
mod calls;
mod files;
#[cfg(test)]
mod proof;
mod recorded;
mod saved;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};
use tokio::sync::watch;

use self::calls::EveryCall;
use super::context::{Context, block_on, block_on_to_the_end};
use super::kubelet_access::KubeletAccess;
use super::output::Output;
use super::render::health::{self as text, npd, screen};
use super::stop_signals::StopSignals;
use super::{Error, Exit, health_state, positive_duration};
use crate::clock::Mono;
use crate::cri::{Client, Endpoint, EndpointError};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::health_state::HealthState;
use crate::diagnosis::report::{HealthReport, Verdict};
use crate::diagnosis::stacks::Wanted;
use crate::diagnosis::{
    AtEnd, CallersAbandonedCall, CallersPendingCall, HealthMode, Inputs, Keep, KubeletInputs, LazyKubeletApi,
    MetricsSource, SimulatedPod, SimulatedProcesses, gather, judge,
};
use crate::host::{self, time_on_and_for_processors};
use crate::kubelet::kubeconfig::{self, KubeconfigSources};
use crate::kubelet::{KubeletApi, KubeletVersion, http};
use crate::sim::{self, KubeletPages, KubeletProcessState};

/// The default budget.
const BUDGET: Duration = Duration::from_secs(30);

/// The default budget with `--deep`.
const DEEP_BUDGET: Duration = Duration::from_secs(120);

/// The default budget with `--npd`: node-problem-detector kills plegctl after five seconds.
const NPD_BUDGET: Duration = Duration::from_secs(4);

/// The process id of a simulated node's kubelet.
pub const SIMULATED_KUBELET: u32 = 813;

/// The refresh interval of the progress line.
const SPIN: Duration = Duration::from_millis(120);

#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Time limit of the whole run [default: 30s; 2m with --deep; 4s with --npd]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    budget: Option<Duration>,

    /// How long to wait for a silent call; a hang is likely after 5s and certain after 10s
    #[arg(long, value_name = "DUR", value_parser = positive_duration, default_value = "12s")]
    patience: Duration,

    /// Measure everything twice
    #[arg(long)]
    deep: bool,

    /// Also call `ContainerStats` for every running container: the only call that detects a shim that does not answer
    #[arg(long)]
    probe_shims: bool,

    /// The kubelet's health check [default: the running kubelet's, else `http://127.0.0.1:10248/healthz`]
    #[arg(long, value_name = "URL")]
    kubelet_healthz: Option<String>,

    /// The kubelet's metrics: a URL, a file, or `-` for stdin [default: its own API's, where a credential is given]
    #[arg(long, value_name = "SOURCE")]
    kubelet_metrics: Option<String>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// Reach the kubelet of this node through the API server, with the kubeconfig or the pod's service account
    #[arg(long, value_name = "NAME", conflicts_with = "KubeletAccess")]
    node: Option<String>,

    /// The kubeconfig for --node [default: `$KUBECONFIG`, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE", requires = "node")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "node")]
    context: Option<String>,

    /// Release of the kubelet whose relist is estimated [default: what the running kubelet's metrics say, else the
    /// newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// The kubelet's deadline for one call [default: the running kubelet's, else 2m]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    runtime_request_timeout: Option<Duration>,

    /// Age of the last relist from which on PLEG is not healthy [default: 3m]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    threshold: Option<Duration>,

    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Write an archive for a colleague: the report, a relist with statuses, the kubelet's metrics and configuration,
    /// journals, `/proc` of the processes concerned, a goroutine dump
    #[arg(long, value_name = "FILE.tar.gz")]
    bundle: Option<PathBuf>,

    /// Show a saved report instead of a new one: a file, `-` for stdin, or a bundle; also a file of `relist --inspect
    /// all --save`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "bundle", "deep", "probe_shims", "kubelet_metrics"])]
    from: Option<PathBuf>,

    /// Source of a goroutine dump when a call is silent: `auto` (what the runtime provides without a signal), `never`,
    /// a file or `unix://SOCKET`
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    stacks: String,

    /// The node's process table [default: /proc]
    #[arg(long, value_name = "DIR")]
    proc: Option<PathBuf>,

    /// One line of at most 80 bytes, for node-problem-detector
    #[arg(long, conflicts_with_all = ["deep", "output"])]
    npd: bool,

    /// Store in this file which calls hung, so that the next run makes only Version and those calls. With --npd, a
    /// likely finding counts from the second run on, and so does a recovery
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    state: Option<PathBuf>,

    /// Which findings make the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "critical")]
    fail_on: FailOnVerdict,

    /// How to print; `name` is NAMESPACE/NAME of each pod that holds something up
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name, Output::Prometheus]))]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOnVerdict {
    /// An unhealthy PLEG
    Critical,
    /// A degraded PLEG too
    Warning,
}

/// Runs the command.
pub fn run(arguments: &HealthArgs, context: &Context) -> Result<Exit, Error> {
    let mut state = None;
    let end = match &arguments.from {
        Some(path) => {
            RunEnd::Ended(Box::new(Diagnosis { report: saved::saved(path)?, evidence: None }), None)
        }
        None => match context.endpoint() {
            Ok(endpoint) => {
                if context.verbose >= 2 && !context.quiet {
                    context.observer(Arc::<EveryCall>::default());
                }
                state = arguments.state.as_deref().map(|path| health_state::read(path, &endpoint, context));
                let answer = answer(arguments, context, &endpoint, state.as_mut());
                // With `-vv`, calls that are given up at the end are printed too.
                if context.verbose >= 2 { block_on(answer) } else { block_on_to_the_end(answer) }??
            }
            Err(Error::Endpoint(EndpointError::NothingFound { .. })) if arguments.npd => {
                writeln!(io::stdout(), "D06 no container runtime found")?;
                return Ok(Exit::NoAnswer);
            }
            Err(error) => return Err(error),
        },
    };
    let (found, still) = match end {
        RunEnd::Ended(found, still) => (*found, still),
        RunEnd::Interrupted(found) => {
            // An interrupted run is not stored as state.
            if let Some(found) = found {
                let printed = print(arguments, context, &found.report, None);
                files::write(arguments, context, *found, None)?;
                printed?;
            }
            return Ok(Exit::Interrupted);
        }
    };
    let report = &found.report;
    let mut exit = match (report.verdict, arguments.fail_on) {
        (Verdict::Healthy, _) | (Verdict::Degraded, FailOnVerdict::Critical) => Exit::Good,
        (Verdict::Degraded, FailOnVerdict::Warning) | (Verdict::Unhealthy, _) => Exit::Bad,
        (Verdict::Unknown, _) => Exit::NoAnswer,
    };
    if let Some(state) = state.as_mut().filter(|_| arguments.npd) {
        exit = health_state::announced_exit(state, report, exit);
    }
    // The verdict is printed first, because the disk of the files may be what hangs. The files are written
    // even if nobody reads stdout.
    let printed = print(arguments, context, report, still);
    files::write(arguments, context, found, state)?;
    printed?;
    Ok(exit)
}

/// The result of a run.
struct Diagnosis {
    report: HealthReport,
    /// The evidence, if a bundle is written.
    evidence: Option<Box<Evidence>>,
}

/// How the run ended.
enum RunEnd {
    /// The run is complete or its budget is spent; the duration says how long a remembered hang has lasted.
    Ended(Box<Diagnosis>, Option<Duration>),
    /// The user interrupted the run: what was known by then, unless even the report took too long.
    Interrupted(Option<Box<Diagnosis>>),
}

/// Runs the diagnosis. If the last run left a hung call in the state file, only that call is repeated.
async fn answer(
    arguments: &HealthArgs,
    context: &Context,
    endpoint: &Endpoint,
    state: Option<&mut HealthState>,
) -> Result<RunEnd, Error> {
    let Some(state) = state else {
        return gather_and_judge(arguments, context, endpoint).await;
    };
    if let Some(report) = Box::pin(health_state::repeat_hung_call(state, context, endpoint)).await? {
        let age = state.hang().map(|hang| hang.age(report.taken_at));
        return Ok(RunEnd::Ended(Box::new(Diagnosis { report, evidence: None }), age));
    }
    let end = gather_and_judge(arguments, context, endpoint).await?;
    if let RunEnd::Ended(found, _) = &end {
        state.learn(&found.report, context.clock.wall());
    }
    Ok(end)
}

async fn gather_and_judge(
    arguments: &HealthArgs,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<RunEnd, Error> {
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let (stop, stopped) = watch::channel(false);
    let mode = match (arguments.npd, arguments.deep) {
        (true, _) => HealthMode::Npd,
        (false, true) => HealthMode::Deep,
        (false, false) => HealthMode::Normal,
    };
    let budget = arguments.budget.unwrap_or(match mode {
        HealthMode::Npd => NPD_BUDGET,
        HealthMode::Deep => DEEP_BUDGET,
        HealthMode::Normal => BUDGET,
    });
    let mut inputs = inputs(context, endpoint, (budget, budget), arguments.kubelet(context, endpoint)?)?;
    inputs.mode = mode;
    // The budget starts with the process, so it includes the search for the endpoint.
    inputs.began = Mono::default();
    inputs.patience = arguments.patience / inputs.silence_divisor;
    inputs.stacks = match arguments.stacks.as_str() {
        // A capture has its own.
        "auto" if inputs.stacks == Wanted::Never => Wanted::Auto,
        "auto" => inputs.stacks,
        "never" => Wanted::Never,
        source => Wanted::From(source.to_owned()),
    };
    inputs.probe_shims = arguments.probe_shims;
    if let Some(proc) = &arguments.proc {
        inputs.proc = Some(proc.clone());
        inputs.played = None;
        inputs.proc_is_explicit = true;
    }
    if arguments.bundle.is_some() {
        inputs.keep = Keep::InputFiles;
    }
    inputs.stop = Some(stopped);
    let progress = ProgressLine::begin(context.quiet || arguments.npd || context.verbose >= 2);
    let now = |probe: &str| progress.now(probe);
    let interrupted = async {
        stop_signals.next().await;
        // The run holds the other end.
        stop.send_replace(true);
        stop_signals.next().await;
    };
    let evidence = tokio::select! {
        evidence = Box::pin(gather(&inputs, &now)) => Some(evidence),
        () = interrupted => None,
        never = progress.turn() => match never {},
    };
    progress.end();
    let Some(mut evidence) = evidence else { return Ok(RunEnd::Interrupted(None)) };
    if let Some(playback) = context.playback() {
        playback.remarks().into_iter().for_each(|(what, why)| evidence.skip(&what, why));
    }
    let report = judge(&evidence);
    let evidence = if arguments.bundle.is_some() {
        Some(Box::new(evidence))
    } else {
        // Freeing a hundred thousand entries takes a part of the budget; the process ends soon anyway.
        std::mem::forget(evidence);
        None
    };
    let found = Box::new(Diagnosis { report, evidence });
    if *stop.borrow() {
        return Ok(RunEnd::Interrupted(Some(found)));
    }
    let report = &found.report;
    let of_metrics = || {
        let version = report.kubelet.as_ref()?.version.as_deref()?;
        KubeletVersion::parse(version).ok()
    };
    if let Some(note) = arguments.kubelet_version.or_else(of_metrics).and_then(KubeletVersion::note) {
        context.remark(&note);
    }
    Ok(RunEnd::Ended(found, None))
}

/// Runs the diagnosis for `watch` or `record`, which pass their hung calls so that these are not repeated.
/// With `keep_waiting`, calls that hang at the end stay pending for that long.
pub async fn diagnose(
    context: &Context,
    endpoint: &Endpoint,
    known: Vec<CallersPendingCall>,
    given_up: Vec<CallersAbandonedCall>,
    stacks: Wanted,
    keep_waiting: Option<Duration>,
) -> Result<HealthReport, Error> {
    let api = own_api(&KubeletAccess::default(), context, endpoint)?;
    let kubelet = KubeletInputs {
        healthz: own_healthz(context, endpoint),
        metrics: api.clone().map(MetricsSource::Api),
        api,
        ..KubeletInputs::default()
    };
    let mut inputs = inputs(context, endpoint, (BUDGET, keep_waiting.unwrap_or(BUDGET)), kubelet)?;
    inputs.callers_pending.extend(known);
    inputs.callers_abandoned = given_up;
    inputs.at_end = if keep_waiting.is_some() { AtEnd::LeavePending } else { AtEnd::CancelPending };
    // A simulated or recorded runtime has no goroutine dump.
    if matches!(endpoint, Endpoint::Unix { .. }) {
        inputs.stacks = stacks;
    }
    Ok(Box::pin(crate::diagnosis::run(&inputs, &|_| ())).await)
}

fn inputs(
    context: &Context,
    endpoint: &Endpoint,
    (budget, deadline): (Duration, Duration),
    kubelet: KubeletInputs,
) -> Result<Inputs<Client>, Error> {
    let main = Arc::new(context.client(endpoint, deadline)?);
    let control = Arc::new(context.client(endpoint, deadline)?);
    let mut inputs = Inputs::new(main, control, Arc::clone(&context.clock));
    inputs.endpoint = endpoint.to_string();
    inputs.node = context.node_name().unwrap_or_default();
    inputs.host_root = context.host.as_path().to_path_buf();
    inputs.cgroup = context.host.path("/sys/fs/cgroup");
    inputs.budget = budget;
    inputs.kubelet = kubelet;
    match endpoint {
        Endpoint::Unix { path, .. } => {
            inputs.socket = endpoint.path_on_node().map(PathBuf::from);
            inputs.socket_here = Some(path.clone());
            inputs.commands = true;
        }
        // The processes, kubelet and journal of this machine do not belong to a simulated node, and perhaps
        // not to a capture's node.
        Endpoint::Sim { scenario } => {
            forget_own_healthz(&mut inputs.kubelet);
            inputs.proc = None;
            // This very process serves the answers, so its waits for a processor may delay them.
            inputs.cpu_time = time_on_and_for_processors;
            play_around(&mut inputs, context, scenario)?;
        }
        Endpoint::Capture { .. } => {
            forget_own_healthz(&mut inputs.kubelet);
            if let Some(playback) = context.playback() {
                recorded::take(&mut inputs, playback);
            }
        }
    }
    Ok(inputs)
}

/// Removes the health check of this machine's kubelet, which does not belong to a simulated or recorded node.
fn forget_own_healthz(kubelet: &mut KubeletInputs) {
    kubelet.healthz = kubelet.healthz.take().filter(|url| url.starts_with('/'));
}

/// Adds the processes and the kubelet of a scenario to the inputs.
fn play_around(inputs: &mut Inputs<Client>, context: &Context, scenario: &str) -> Result<(), Error> {
    let scenario = sim::load(scenario)?;
    let Some(around) = scenario.processes.clone() else { return Ok(()) };
    let letter = |stopped: bool| if stopped { 'T' } else { 'S' };
    let pods = sim::pod_processes(&scenario, &around, context.clock.wall()).into_iter();
    inputs.played = Some(SimulatedProcesses {
        kubelet: match around.kubelet {
            KubeletProcessState::Dead => None,
            life => Some((SIMULATED_KUBELET, letter(life == KubeletProcessState::Stopped))),
        },
        has_kubelet: true,
        owns_socket: false,
        pods: pods
            .map(|pod| SimulatedPod {
                sandbox_id: pod.sandbox_id,
                uid: pod.uid,
                shim: letter(pod.shim_is_stopped),
                shim_process: None,
                containers: pod.containers,
            })
            .collect(),
    });
    let url = KubeletPages::new(around, Arc::clone(&context.clock)).serve().map_err(Error::Start)?;
    inputs.kubelet.healthz = Some(format!("{url}/healthz"));
    inputs.kubelet.metrics.get_or_insert_with(|| MetricsSource::Url(format!("{url}/metrics")));
    Ok(())
}

impl HealthArgs {
    fn kubelet(&self, context: &Context, endpoint: &Endpoint) -> Result<KubeletInputs, Error> {
        let healthz = match (&self.kubelet_healthz, &self.node) {
            (Some(url), _) => {
                http::check(url).map_err(Error::Kubelet)?;
                Some(url.clone())
            }
            (None, Some(_)) => Some("/healthz".to_owned()),
            (None, None) => own_healthz(context, endpoint),
        };
        let api = match &self.node {
            Some(node) => Some(self.through(node.clone())),
            None => own_api(&self.kubelet, context, endpoint)?,
        };
        let metrics = self.kubelet_metrics.as_deref().map(metrics).transpose()?;
        // `--node` requests go through the API server, but if the node is this one, its kubelet's health
        // check needs none.
        let is_here = |node: &String| {
            matches!(endpoint, Endpoint::Unix { .. }) && context.node_name().as_ref() == Some(node)
        };
        let asked_through_server = self.kubelet_healthz.is_none() && self.node.as_ref().is_some_and(is_here);
        Ok(KubeletInputs {
            healthz,
            healthz_on_node: asked_through_server.then(|| own_healthz(context, endpoint)).flatten(),
            metrics: metrics.or_else(|| api.clone().map(MetricsSource::Api)),
            api,
            version: self.kubelet_version,
            request_timeout: self.runtime_request_timeout,
            threshold: self.threshold,
        })
    }

    /// Connects to the kubelet of a node through the API server's proxy.
    fn through(&self, node: String) -> LazyKubeletApi {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        LazyKubeletApi::made_by(move |limit| {
            let places = KubeconfigSources::of_environment(kubeconfig.clone());
            let cluster = kubeconfig::cluster(&places, context.as_deref(), limit);
            cluster.map(|cluster| KubeletApi::through(&cluster, &node)).map_err(|why| why.to_string())
        })
    }
}

/// Returns the kubelet's API from the user's flags, else that of this node's kubelet if the runtime is this
/// node's.
fn own_api(
    given: &KubeletAccess,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<Option<LazyKubeletApi>, Error> {
    let api = match endpoint {
        Endpoint::Unix { .. } => given.api_or_own(context),
        Endpoint::Sim { .. } | Endpoint::Capture { .. } => given.api(context),
    };
    match api {
        Ok(api) => Ok(api.map(LazyKubeletApi::known)),
        // A credential file on a disk that does not answer must not prevent the verdict.
        Err(Error::Credential(why)) if why.is_late() => {
            let why = why.to_string();
            Ok(Some(LazyKubeletApi::made_by(move |_| Err(why.clone()))))
        }
        Err(why) => Err(why),
    }
}

/// Returns the URL of the health check of this node's kubelet, unless it has none.
fn own_healthz(context: &Context, endpoint: &Endpoint) -> Option<String> {
    let Endpoint::Unix { .. } = endpoint else { return Some(usual_healthz()) };
    let Some(running) = context.kubelet() else { return Some(usual_healthz()) };
    let port = running.port("healthz-port", "healthzPort", host::healthz_port());
    let address = running.setting("healthz-bind-address", "healthzBindAddress").ok().flatten();
    let address = address.and_then(|address| address.value.parse::<IpAddr>().ok());
    let address = match address {
        // A kubelet that listens on all addresses also listens on this one.
        Some(address) if !address.is_unspecified() => address,
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    (port != 0).then(|| format!("http://{}/healthz", SocketAddr::new(address, port)))
}

/// Returns the kubelet's default health check.
fn usual_healthz() -> String {
    format!("http://127.0.0.1:{}/healthz", host::healthz_port())
}

fn metrics(source: &str) -> Result<MetricsSource, Error> {
    if source.contains("://") {
        http::check(source).map_err(Error::Kubelet)?;
        return Ok(MetricsSource::Url(source.to_owned()));
    }
    Ok(if source == "-" { MetricsSource::Stdin } else { MetricsSource::File(PathBuf::from(source)) })
}

fn print(
    arguments: &HealthArgs,
    context: &Context,
    report: &HealthReport,
    still: Option<Duration>,
) -> io::Result<()> {
    if arguments.npd {
        return writeln!(io::stdout(), "{}", npd(report, still));
    }
    let style = text::Style {
        color: context.style().color,
        wide: arguments.output == Output::Wide,
        terminal: Context::terminal_size(),
        saved: arguments.from.as_ref().map(|_| context.clock.wall().duration_since(report.taken_at)),
    };
    arguments.output.print(report, |out| match arguments.output {
        Output::Name => text::names(report, out),
        Output::Prometheus => text::prometheus(report, out),
        _ => screen(report, out, style),
    })
}

/// The progress line on stderr, if stderr is a terminal.
struct ProgressLine(ProgressBar);

impl ProgressLine {
    fn begin(quiet: bool) -> Self {
        let bar = if quiet || !Context::is_seen(&io::stderr()) {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        };
        Self(bar)
    }

    /// Refreshes the line. It uses no thread of its own, because none may be available on this node.
    async fn turn(&self) -> Infallible {
        loop {
            tokio::time::sleep(SPIN).await;
            self.0.tick();
        }
    }

    fn now(&self, probe: &str) {
        self.0.set_message(probe.to_owned());
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
