//! `plegctl health`: reports whether PLEG is healthy and which call, pod and container block it.
//!
//! ```text
//! $ plegctl health
//! UNHEALTHY: ContainerStatus of shop/db-0/postgres does not answer (D01, certain)
//! ```
//!
//! The command never repeats a call that hangs. It ends within a time limit (the *budget*), and reports which calls it
//! could not make.
//! It changes nothing on the node; it prints the steps that a user can do.
//!
//! `gather` collects the evidence from the `Inputs`, `judge` turns it into a `HealthReport`, and this module prints
//! the report.

mod bundle;
#[cfg(test)]
pub(super) use bundle::BundleIndex;
pub(super) use bundle::bundle_path;
mod calls;
mod files;
mod recorded;
mod remote;
pub(super) use remote::explain_node;
#[cfg(test)]
mod replay_tests;
mod saved;
pub(super) use saved::SavedReport;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::watch;

use self::calls::CallPrinter;
use super::context::{Context, block_on, block_on_to_the_end};
use super::kubelet_access::KubeletAccess;
use super::list_calls::{self, ListCallsArgs};
use super::output::Output;
use super::pods::own_socket;
use super::remote_node::TokenArgs;
use super::render::health::{self as text, npd, screen};
use super::stop_signals::StopSignals;
use super::{Error, Exit, health_state, positive_duration};
use crate::clock::{Clock, Mono};
use crate::cmd::streams;
use crate::cri::{Client, Endpoint, EndpointError};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::health_state::HealthState;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::report::{HealthReport, Verdict};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{
    AtEnd, CallersAbandonedCall, CallersPendingCall, HealthMode, HungUmount, Inputs, ItemKind, Keep,
    KubeletInputs, LazyKubeletApi, MetricsSource, OpenCalls, OutsideId, PodsSource, SimulatedPod,
    SimulatedProcesses, gather, judge,
};
use crate::host::{self, cpu_and_waiting_time};
use crate::kubelet::kubeconfig::{self, KubeconfigSources};
use crate::kubelet::{KubeletApi, KubeletVersion, http};
use crate::sim::{self, KubeletPages, KubeletProcessState};

/// The default budget.
pub const BUDGET: Duration = Duration::from_secs(30);

/// The default budget with `--deep`.
const DEEP_BUDGET: Duration = Duration::from_secs(120);

/// The default budget with `--npd`: node-problem-detector kills plegctl after five seconds.
const NPD_BUDGET: Duration = Duration::from_secs(4);

/// The process id of a simulated node's kubelet.
pub const SIMULATED_KUBELET: u32 = 813;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag on the command line")]
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

    #[command(flatten)]
    list_calls: ListCallsArgs,

    /// Also call `ContainerStats` for every running container: the only call that detects a shim that does not answer
    #[arg(long)]
    probe_shims: bool,

    /// The kubelet's health check [default: the running kubelet's, else `http://127.0.0.1:10248/healthz`]
    #[arg(long, value_name = "URL")]
    kubelet_healthz: Option<String>,

    /// The kubelet's metrics: a URL, a file, or `-` for stdin [default: those of its API, if a credential is given]
    #[arg(long, value_name = "SOURCE")]
    kubelet_metrics: Option<String>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// Judge this node through the API server, with the kubeconfig or the pod's service account: by its recorder, else
    /// by its kubelet. On the node itself, or with -r, the runtime is queried too
    #[arg(long, alias = "node-name", value_name = "NAME", conflicts_with = "KubeletAccess")]
    node: Option<String>,

    /// The kubeconfig for --node [default: `$KUBECONFIG`, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE", requires = "node")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "node")]
    context: Option<String>,

    #[command(flatten)]
    token: TokenArgs,

    /// Judge the node of --node by its kubelet, although a recorder may answer
    #[arg(long, requires = "node")]
    no_recorder: bool,

    /// Release of the kubelet whose relist is estimated, such as 1.34 [default: this node's kubelet's, if its metrics
    /// report it, else the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// The kubelet's deadline for one call [default: the running kubelet's, else 2m]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    runtime_request_timeout: Option<Duration>,

    /// PLEG is not healthy if its last relist is at least this old [default: 3m]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    threshold: Option<Duration>,

    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Write an archive for a colleague: the report, a relist with statuses, the kubelet's metrics and configuration,
    /// journals, `/proc` of the processes concerned, a goroutine dump
    #[arg(long, value_name = "FILE.tar.gz", value_parser = bundle_path())]
    bundle: Option<PathBuf>,

    /// Show a saved report instead of a new one: a file, `-` for stdin, or a bundle; also a file of `relist --inspect
    /// all --save`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "bundle", "deep", "probe_shims", "kubelet_metrics"])]
    from: Option<PathBuf>,

    /// Source of a goroutine dump when a call is silent, or a process of the runtime is overdue or left over: `auto` (what
    /// the runtime provides without a signal), `never`, a file that is younger than a minute, or `unix://SOCKET`
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    stacks: String,

    /// The node's process table [default: /proc]
    #[arg(long, value_name = "DIR")]
    proc: Option<PathBuf>,

    /// One line of at most 80 bytes, for node-problem-detector
    #[arg(long, conflicts_with_all = ["deep", "output"])]
    npd: bool,

    /// Store in this file which calls hang. The next runs make only Version and, after a pause, one such call. With
    /// --npd, plegctl reports a likely finding, and the end of a finding, only after a second run has confirmed it
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    state: Option<PathBuf>,

    /// Exit with status 1 for findings of this severity and above
    #[arg(long, value_name = "SEVERITY", default_value = "critical")]
    fail_on: FailOnVerdict,

    /// How to print; `name` prints NAMESPACE/NAME of each pod that keeps the kubelet waiting
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name, Output::Prometheus]))]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOnVerdict {
    /// An unhealthy PLEG
    #[value(alias = "error")]
    Critical,
    /// A degraded PLEG too
    Warning,
    /// Nothing
    Never,
}

impl FailOnVerdict {
    /// Returns the exit status for a verdict.
    const fn exit(self, verdict: Verdict) -> Exit {
        match (verdict, self) {
            (Verdict::Unknown, _) => Exit::NoAnswer,
            (Verdict::Healthy, _) | (_, Self::Never) | (Verdict::Degraded, Self::Critical) => Exit::Good,
            (Verdict::Degraded, Self::Warning) | (Verdict::Unhealthy, _) => Exit::Bad,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &HealthArgs, context: &Context) -> Result<Exit, Error> {
    let mut state = None;
    let end = match &arguments.from {
        Some(path) => {
            let (report, note) = saved::read_report(path)?;
            if let Some(note) = note {
                context.remark(&note);
            }
            RunEnd::Ended(Box::new(ReportWithEvidence::alone(report)), None)
        }
        None if remote::is_wanted(arguments, context) => block_on(diagnose_remotely(arguments, context))??,
        None => match local_endpoint(context) {
            Ok(endpoint) => {
                if context.verbose >= 2 && !context.quiet {
                    context.set_observer(Arc::<CallPrinter>::default());
                }
                state = arguments.state.as_deref().map(|path| health_state::read(path, &endpoint, context));
                let diagnosis = diagnose_with_state(arguments, context, &endpoint, state.as_mut());
                // With `-vv`, plegctl also prints each call that it gives up at the end. `block_on` drops these calls,
                // and a dropped call is printed; `block_on_to_the_end` does not drop them.
                if context.verbose >= 2 { block_on(diagnosis) } else { block_on_to_the_end(diagnosis) }??
            }
            Err(Error::Endpoint(EndpointError::NothingFound { .. })) if arguments.npd => {
                streams::text(context.style(), |out| writeln!(out, "D06 no container runtime found"))?;
                return Ok(Exit::NoAnswer);
            }
            Err(error) => return Err(error),
        },
    };
    let (found, hung_for) = match end {
        RunEnd::Ended(found, hung_for) => (*found, hung_for),
        RunEnd::Interrupted(found) => {
            // An incomplete run must not overwrite the state of the last complete run.
            if let Some(found) = found {
                let printed = print(arguments, context, &found.report, None);
                files::write(arguments, context, *found, None)?;
                printed?;
            }
            return Ok(Exit::Interrupted);
        }
    };
    let report = &found.report;
    let mut exit = arguments.fail_on.exit(report.verdict);
    if let Some(state) = state.as_mut().filter(|_| arguments.npd) {
        exit = health_state::reported_exit(state, report, exit);
    }
    // The verdict is printed first, because the disk of the files may hang too. The files are written even if
    // printing fails.
    let printed = print(arguments, context, report, hung_for);
    files::write(arguments, context, found, state)?;
    printed?;
    Ok(exit)
}

/// Returns the endpoint. For a runtime of this node, starts to read the processes first.
fn local_endpoint(context: &Context) -> Result<Endpoint, Error> {
    if context.is_live() {
        context.look_at_processes();
    }
    context.endpoint()
}

/// A health report and, for a bundle or a file, the evidence for it.
struct ReportWithEvidence {
    report: HealthReport,
    /// The evidence; `None` if neither a bundle nor a file is requested, or if this run measured nothing.
    evidence: Option<Box<Evidence>>,
    /// What was read of a node from outside, for a bundle.
    read: Option<Vec<InputFile>>,
}

impl ReportWithEvidence {
    /// A report without evidence.
    const fn alone(report: HealthReport) -> Self {
        Self { report, evidence: None, read: None }
    }
}

/// How the run ended.
enum RunEnd {
    /// The run is complete, or its budget is spent. The duration is the age of a hang that the state file contains.
    Ended(Box<ReportWithEvidence>, Option<Duration>),
    /// The user interrupted the run. The report contains what was known by then; it is missing after a second
    /// interrupt.
    Interrupted(Option<Box<ReportWithEvidence>>),
}

/// Judges the node of `--node` from outside, until the user interrupts.
async fn diagnose_remotely(arguments: &HealthArgs, context: &Context) -> Result<RunEnd, Error> {
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let node = arguments.node.as_deref().unwrap_or_default();
    tokio::select! {
        report = Box::pin(remote::diagnose(arguments, context, node)) => {
            let (report, read) = report?;
            let found = ReportWithEvidence { read: Some(read), ..ReportWithEvidence::alone(report) };
            Ok(RunEnd::Ended(Box::new(found), None))
        }
        () = stop_signals.next() => Ok(RunEnd::Interrupted(None)),
    }
}

/// Runs the diagnosis. If the state file contains a hung call, makes only `Version` and, after a pause, that call, and
/// returns the stored report while the hang lasts.
async fn diagnose_with_state(
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
        return Ok(RunEnd::Ended(Box::new(ReportWithEvidence::alone(report)), age));
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
    context.want_lists(arguments.list_calls.wanted());
    let mut inputs = inputs(context, endpoint, (budget, budget), arguments.kubelet(context, endpoint)?)?;
    inputs.mode = mode;
    // The budget starts with the process, so it includes the search for the endpoint.
    inputs.began = Mono::default();
    // Tests set a divisor, so that they do not wait for the real limits of silence.
    inputs.patience = arguments.patience / inputs.silence_divisor;
    inputs.stacks = match arguments.stacks.as_str() {
        // If a capture contains the recorded judgement of a goroutine dump, `inputs.stacks` already has it, and `auto`
        // keeps it.
        "auto" if inputs.stacks == WantedDump::Never => WantedDump::Auto,
        "auto" => inputs.stacks,
        "never" => WantedDump::Never,
        source => WantedDump::From(source.to_owned()),
    };
    inputs.probe_shims = arguments.probe_shims;
    if let Some(proc) = &arguments.proc {
        inputs.proc = Some(proc.clone());
        inputs.known_processes = None;
        inputs.simulated_processes = None;
        inputs.proc_is_explicit = true;
    }
    if arguments.bundle.is_some() {
        inputs.keep = Keep::InputFiles;
    }
    inputs.stop = Some(stopped);
    let progress = ProgressLine::begin(
        context.quiet || arguments.npd || context.verbose >= 2,
        Arc::clone(&inputs.calls),
        Arc::clone(&context.clock),
    );
    let show_probe = |probe: &str| progress.show(probe);
    let interrupted = async {
        stop_signals.next().await;
        // The first interrupt makes `gather` finish early; the second interrupt abandons it.
        stop.send_replace(true);
        stop_signals.next().await;
    };
    let gathered = async {
        tokio::select! {
            evidence = Box::pin(gather(&inputs, &show_probe)) => Some(evidence),
            () = interrupted => None,
        }
    };
    let evidence = progress.during(gathered).await;
    let Some(mut evidence) = evidence else { return Ok(RunEnd::Interrupted(None)) };
    if let Some(playback) = context.playback() {
        // Each remark names something that the capture does not contain, so the report lists it as not checked.
        playback.remarks().into_iter().for_each(|(what, why)| evidence.skip(&what, why));
    }
    let report = judge(&evidence);
    if let Some(lists) = evidence.runtime.lists_by.as_ref().filter(|_| !arguments.npd) {
        list_calls::note(context, lists);
    }
    let evidence = if arguments.bundle.is_some() || arguments.save.is_some() {
        Some(Box::new(evidence))
    } else {
        // Freeing a hundred thousand entries takes a part of the budget; the process ends soon anyway.
        std::mem::forget(evidence);
        None
    };
    let found = Box::new(ReportWithEvidence { report, evidence, read: None });
    if *stop.borrow() {
        return Ok(RunEnd::Interrupted(Some(found)));
    }
    let report = &found.report;
    let version_in_metrics = || {
        let version = report.kubelet.as_ref()?.version.as_deref()?;
        KubeletVersion::parse(version).ok()
    };
    if let Some(note) = arguments.kubelet_version.or_else(version_in_metrics).and_then(KubeletVersion::note) {
        context.remark(&note);
    }
    Ok(RunEnd::Ended(found, None))
}

/// Runs the diagnosis for `watch`; see [`diagnose_with_facts`].
pub async fn diagnose(
    context: &Context,
    endpoint: &Endpoint,
    known: Vec<CallersPendingCall>,
    given_up: Vec<CallersAbandonedCall>,
    stacks: WantedDump,
) -> Result<HealthReport, Error> {
    let diagnosis = diagnose_with_facts(context, endpoint, known, given_up, stacks, None);
    diagnosis.await.map(|(report, _)| report)
}

/// Runs the diagnosis for `watch` or `record`. These commands pass their pending calls (`known`) and the calls that
/// they gave up (`given_up`), so that the diagnosis does not repeat them. With `keep_waiting`, calls that hang at the
/// end of the diagnosis stay pending for that time. Returns also what it measured.
pub async fn diagnose_with_facts(
    context: &Context,
    endpoint: &Endpoint,
    known: Vec<CallersPendingCall>,
    given_up: Vec<CallersAbandonedCall>,
    stacks: WantedDump,
    keep_waiting: Option<Duration>,
) -> Result<(HealthReport, Evidence), Error> {
    let mut inputs = inputs_of_caller(context, endpoint, keep_waiting.unwrap_or(BUDGET), known)?;
    inputs.callers_abandoned = given_up;
    inputs.at_end = if keep_waiting.is_some() { AtEnd::LeavePending } else { AtEnd::CancelPending };
    // Only a runtime behind a socket can provide a new goroutine dump. A capture keeps the one that it contains.
    if matches!(endpoint, Endpoint::Unix { .. }) {
        inputs.stacks = stacks;
    }
    let evidence = Box::pin(gather(&inputs, &|_| ())).await;
    Ok((judge(&evidence), evidence))
}

/// Runs the diagnosis for `top` and writes a bundle to `path`, as `health --bundle` does. The diagnosis does not repeat
/// the pending calls of the caller (`known`).
pub async fn save_bundle(
    context: &Context,
    endpoint: &Endpoint,
    known: Vec<CallersPendingCall>,
    path: &Path,
) -> Result<Arc<HealthReport>, Error> {
    let mut inputs = inputs_of_caller(context, endpoint, BUDGET, known)?;
    inputs.keep = Keep::InputFiles;
    if matches!(endpoint, Endpoint::Unix { .. }) {
        inputs.stacks = WantedDump::Auto;
    }
    let evidence = Box::new(Box::pin(gather(&inputs, &|_| ())).await);
    let report = Arc::new(judge(&evidence));
    let (bundled, clock, path) = (Arc::clone(&report), Arc::clone(&context.clock), path.to_path_buf());
    let written = tokio::task::spawn_blocking(move || files::write_bundle(&path, clock, bundled, evidence));
    written.await.map_err(|why| Error::Start(io::Error::other(why)))??;
    Ok(report)
}

/// Describes the runtime, the node and the kubelet for another command, which may have pending calls of its own.
pub fn inputs_of_caller(
    context: &Context,
    endpoint: &Endpoint,
    deadline: Duration,
    known: Vec<CallersPendingCall>,
) -> Result<Inputs<Client>, Error> {
    let api = own_api(&KubeletAccess::default(), context, endpoint)?;
    let kubelet = KubeletInputs {
        healthz: own_healthz(context, endpoint),
        metrics: api.clone().map(MetricsSource::Api),
        api,
        ..KubeletInputs::default()
    };
    let mut inputs = inputs(context, endpoint, (BUDGET, deadline), kubelet)?;
    inputs.callers_pending.extend(known);
    Ok(inputs)
}

/// Describes the runtime, the node and the kubelet of this endpoint for `gather`.
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
    inputs.wanted_lists = context.wanted_lists();
    inputs.list_gates = context.list_gates();
    inputs.program_release = context.program_release();
    match endpoint {
        Endpoint::Unix { path, .. } => {
            inputs.socket = endpoint.path_on_node().map(PathBuf::from);
            inputs.socket_here = Some(path.clone());
            inputs.commands = true;
            inputs.known_processes = context.take_processes();
            // Only this node's kubelet, and never beside another node's runtime.
            inputs.kubelet.pods = own_socket(context).map(PodsSource::Socket);
        }
        // The processes, kubelet and journal of this machine do not belong to a simulated node, and perhaps
        // not to a capture's node.
        Endpoint::Sim { scenario } => {
            forget_own_healthz(&mut inputs.kubelet);
            inputs.proc = None;
            inputs.outside = Some(Vec::new());
            // This very process serves the answers, so its waits for a processor may delay them.
            inputs.cpu_time = cpu_and_waiting_time;
            add_simulated_processes(&mut inputs, context, scenario)?;
        }
        Endpoint::Custom { .. } => {
            forget_own_healthz(&mut inputs.kubelet);
            if let Some(playback) = context.playback() {
                recorded::fill_inputs(&mut inputs, playback);
            }
        }
    }
    Ok(inputs)
}

/// Removes the URL of a health check on this machine, because this machine's kubelet does not belong to a simulated or
/// recorded node. A path stays: with `--node`, it goes through the API server to the named node.
fn forget_own_healthz(kubelet: &mut KubeletInputs) {
    kubelet.healthz = kubelet.healthz.take().filter(|url| url.starts_with('/'));
}

/// Adds the processes and the kubelet of a scenario to the inputs, if the scenario has them.
fn add_simulated_processes(
    inputs: &mut Inputs<Client>,
    context: &Context,
    scenario: &str,
) -> Result<(), Error> {
    let scenario = sim::load(scenario)?;
    let Some(processes) = scenario.processes.clone() else { return Ok(()) };
    // The state letters of /proc/PID/stat.
    let letter = |stopped: bool| if stopped { 'T' } else { 'S' };
    let pods = sim::pod_processes(&scenario, &processes, context.clock.wall());
    inputs.outside = Some(pods.iter().flat_map(ids_on_node).collect());
    inputs.simulated_processes = Some(SimulatedProcesses {
        kubelet: match processes.kubelet {
            KubeletProcessState::Dead => None,
            state => Some((SIMULATED_KUBELET, letter(state == KubeletProcessState::Stopped))),
        },
        has_kubelet: true,
        daemon: None,
        left_over_shims: sim::left_over_shims(&scenario, &processes),
        hung_umounts: sim::deleted_pods(&scenario, context.clock.wall())
            .into_iter()
            .map(|deleted| HungUmount {
                pod_uid: deleted.pod.uid,
                source: deleted.umount.source,
                by: (deleted.umount.by, deleted.umount.pid),
                age: deleted.umount.since.saturating_sub(deleted.umount.grace),
            })
            .collect(),
        pods: pods
            .into_iter()
            .map(|pod| SimulatedPod {
                sandbox_id: pod.sandbox_id,
                uid: pod.pod.uid,
                shim: if pod.kernel_wait.is_some() { 'D' } else { letter(pod.shim_is_stopped) },
                kernel_wait: pod.kernel_wait.map(|wait| (wait.reason, wait.owner)),
                containers: pod.containers,
            })
            .collect(),
    });
    inputs.kubelet.pods = sim::pod_documents(&scenario, &processes, context.clock.wall())
        .map(|documents| PodsSource::Simulated(documents.kubelet));
    let url = KubeletPages::new(processes, Arc::clone(&context.clock)).serve().map_err(Error::Start)?;
    inputs.kubelet.healthz = Some(format!("{url}/healthz"));
    inputs.kubelet.metrics.get_or_insert_with(|| MetricsSource::Url(format!("{url}/metrics")));
    Ok(())
}

/// Returns the ids that the processes and the files of the runtime show for a simulated pod.
fn ids_on_node(pod: &sim::PodProcesses) -> Vec<OutsideId> {
    let found =
        |id: &str, kind| OutsideId { kind: Some(kind), pod: Some(pod.pod.clone()), ..OutsideId::bare(id) };
    let containers = pod.containers.iter().map(|(id, name)| OutsideId {
        container: Some(name.clone()),
        sandbox_id: Some(pod.sandbox_id.clone()),
        ..found(id, ItemKind::Container)
    });
    containers.chain([found(&pod.sandbox_id, ItemKind::Sandbox)]).collect()
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
            Some(node) => Some(self.via_api_server(node.clone())),
            None => own_api(&self.kubelet, context, endpoint)?,
        };
        let metrics = self.kubelet_metrics.as_deref().map(metrics).transpose()?;
        // With `--node`, requests go through the API server. If the named node is this node, the kubelet's health
        // check is requested directly too.
        let is_own_node = |node: &String| {
            matches!(endpoint, Endpoint::Unix { .. }) && context.node_name().as_ref() == Some(node)
        };
        let asks_directly_too = self.kubelet_healthz.is_none() && self.node.as_ref().is_some_and(is_own_node);
        Ok(KubeletInputs {
            healthz,
            healthz_on_node: asks_directly_too.then(|| own_healthz(context, endpoint)).flatten(),
            metrics: metrics.or_else(|| api.clone().map(MetricsSource::Api)),
            api,
            version: self.kubelet_version,
            pods: None,
            request_timeout: self.runtime_request_timeout,
            threshold: self.threshold,
        })
    }

    /// Returns the API of a node's kubelet through the API server's proxy; connects on first use.
    fn via_api_server(&self, node: String) -> LazyKubeletApi {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        LazyKubeletApi::made_by(move |limit| {
            let places = KubeconfigSources::of_environment(kubeconfig.clone());
            let cluster = kubeconfig::cluster(&places, context.as_deref(), limit);
            cluster.map(|cluster| KubeletApi::through(&cluster, &node)).map_err(|why| why.to_string())
        })
    }
}

/// Returns the kubelet's API that the user's flags name. Without flags, returns the API of this node's kubelet if the
/// runtime runs on this node.
fn own_api(
    given: &KubeletAccess,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<Option<LazyKubeletApi>, Error> {
    let api = match endpoint {
        Endpoint::Unix { .. } => given.api_or_own(context),
        Endpoint::Sim { .. } | Endpoint::Custom { .. } => given.api(context),
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

/// Returns the URL of the health check of this node's kubelet, unless the kubelet serves none.
fn own_healthz(context: &Context, endpoint: &Endpoint) -> Option<String> {
    let Endpoint::Unix { .. } = endpoint else { return Some(default_healthz()) };
    let Some(running) = context.kubelet() else { return Some(default_healthz()) };
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
fn default_healthz() -> String {
    format!("http://127.0.0.1:{}/healthz", host::healthz_port())
}

/// Parses the source of the kubelet's metrics: a URL, a file or `-`.
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
    hung_for: Option<Duration>,
) -> io::Result<()> {
    if arguments.npd {
        return streams::text(context.style(), |out| writeln!(out, "{}", npd(report, hung_for)));
    }
    let style = text::ScreenStyle {
        wide: arguments.output == Output::Wide,
        terminal: Context::terminal_size(),
        saved: arguments.from.as_ref().map(|_| context.clock.wall().duration_since(report.taken_at)),
    };
    match arguments.output {
        Output::Prometheus => streams::document(|out| text::prometheus(report, out)),
        Output::Name => streams::text(context.style(), |out| text::names(report, out)),
        output => output.print(report, context.style(), |out| screen(report, out, style)),
    }
}

/// The progress line on stderr, if stderr is a terminal that can rewrite a line: the present step, how many calls are
/// answered, and which one has been silent longest.
struct ProgressLine {
    bar: streams::ProgressLine,
    step: Mutex<String>,
    calls: Arc<OpenCalls>,
    clock: Arc<dyn Clock>,
}

impl ProgressLine {
    fn begin(quiet: bool, calls: Arc<OpenCalls>, clock: Arc<dyn Clock>) -> Self {
        let bar = streams::ProgressLine::begin(!quiet && Context::can_rewrite(), "{wide_msg}", None);
        Self { bar, step: Mutex::default(), calls, clock }
    }

    /// Shows the line until `work` ends, then removes it.
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let done = self.bar.during(|| Some(self.line()), work).await;
        self.bar.end();
        done
    }

    fn line(&self) -> String {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.calls.line(self.clock.mono(), &step)
    }

    fn show(&self, probe: &str) {
        probe.clone_into(&mut self.step.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_follows_from_the_verdict_and_from_fail_on() {
        let verdicts = [Verdict::Healthy, Verdict::Degraded, Verdict::Unhealthy, Verdict::Unknown];
        let expected = [
            (FailOnVerdict::Critical, [Exit::Good, Exit::Good, Exit::Bad, Exit::NoAnswer]),
            (FailOnVerdict::Warning, [Exit::Good, Exit::Bad, Exit::Bad, Exit::NoAnswer]),
            (FailOnVerdict::Never, [Exit::Good, Exit::Good, Exit::Good, Exit::NoAnswer]),
        ];
        for (fail_on, expected) in expected {
            assert_eq!(verdicts.map(|verdict| fail_on.exit(verdict)), expected, "{fail_on:?}");
        }
    }
}
