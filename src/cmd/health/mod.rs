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
mod recorder_on_node;
mod remote;
mod saved;
mod state_file;
pub(super) use saved::SavedReport;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::watch;

use self::calls::CallPrinter;
use self::recorder_on_node::add_forecasts;
use super::args::{GlobalArgs, positive_duration};
use super::diagnose::{BUDGET, inputs, inputs_of_caller, own_api, own_healthz};
use super::event_loop::{block_on, block_on_to_the_end};
use super::flags::kubelet_access::KubeletAccess;
use super::flags::list_calls::{self, ListCallsArgs};
use super::flags::remote_node::{self, TokenArgs};
use super::node::Node;
use super::render::health::{self as text, npd, screen};
use super::session::Session;
use super::term::output::Output;
use super::term::stop_signals::StopSignals;
use super::{Error, Exit};
use crate::clock::{Clock, Mono};
use crate::cmd::term::streams;
use crate::cri::{Client, Endpoint, EndpointError};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::health_state::HealthState;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::report::{HealthReport, RuleId, Verdict};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{
    CallersPendingCall, HealthMode, Inputs, Keep, KubeletInputs, LazyKubeletApi, MetricsSource, OpenCalls,
    gather, judge,
};
use crate::kubelet::kubeconfig::{self, KubeconfigSources};
use crate::kubelet::{KubeletApi, KubeletVersion, http};
use crate::threads::locked;

/// The default budget with `--deep`.
const DEEP_BUDGET: Duration = Duration::from_secs(120);

/// The default budget with `--npd`: node-problem-detector kills plegctl after five seconds.
const NPD_BUDGET: Duration = Duration::from_secs(4);

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
    /// by its kubelet. On the node itself, its runtime is queried too. The endpoint of the environment is never used
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
    #[arg(long, requires = "node", conflicts_with_all = ["from", "npd"])]
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

    /// Write an archive for a colleague: the report, the kubelet's metrics and configuration, journals, `/proc` of the
    /// processes concerned, a goroutine dump
    #[arg(long, value_name = "FILE.tar.gz", value_parser = bundle_path())]
    bundle: Option<PathBuf>,

    /// Show a saved report instead of a new one: a file, `-` for stdin, or a bundle
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
pub fn run(arguments: &HealthArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = if arguments.node.is_some() {
        remote_node::refuse_named_runtime(global)?;
        Node::of_this_machine(global)
    } else {
        Node::named_by(global)
    };
    let mut state = None;
    let end = match &arguments.from {
        Some(path) => RunEnd::Ended(Box::new(saved_report(path, global)?), None),
        None if remote::is_wanted(arguments, &node) => block_on(diagnose_remotely(arguments, &node))??,
        None => match local_session(arguments, &node) {
            Ok(session) => {
                state = arguments.state.as_deref().map(|path| state_file::read(path, &session));
                let diagnosis = diagnose_with_state(arguments, &session, state.as_mut());
                // With `-vv`, plegctl also prints each call that it gives up at the end. `block_on` drops these calls,
                // and a dropped call is printed; `block_on_to_the_end` does not drop them.
                if global.verbose >= 2 { block_on(diagnosis) } else { block_on_to_the_end(diagnosis) }??
            }
            Err(Error::Endpoint(EndpointError::NothingFound { .. })) if arguments.npd => {
                streams::text(global.style(), |out| {
                    writeln!(out, "{} no container runtime found", RuleId::UnreachableRuntime.as_str())
                })?;
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
                let printed = print(arguments, &node, &found.report, None);
                files::write(arguments, &node, *found, None)?;
                printed?;
            }
            return Ok(Exit::Interrupted);
        }
    };
    let report = &found.report;
    let mut exit = arguments.fail_on.exit(report.verdict);
    if let Some(state) = state.as_mut().filter(|_| arguments.npd) {
        exit = state_file::reported_exit(state, report, exit);
    }
    // The verdict is printed first, because the disk of the files may hang too. The files are written even if
    // printing fails.
    let printed = print(arguments, &node, report, hung_for);
    files::write(arguments, &node, found, state)?;
    printed?;
    Ok(exit)
}

/// Returns the report of a file.
fn saved_report(path: &Path, global: &GlobalArgs) -> Result<ReportWithEvidence, Error> {
    let (report, note) = saved::read_report(path)?;
    if let Some(note) = note {
        global.remark(&note);
    }
    Ok(ReportWithEvidence::alone(report))
}

/// Opens the runtime. For a runtime of this machine, starts to read the processes first.
fn local_session(arguments: &HealthArgs, node: &Rc<Node>) -> Result<Session, Error> {
    if node.is_live() {
        node.look_at_processes();
    }
    let session = Session::of_node(node)?.listing_with(arguments.list_calls.wanted());
    let prints_calls = node.global.verbose >= 2 && !node.global.quiet;
    Ok(if prints_calls { session.observed_by(Arc::<CallPrinter>::default()) } else { session })
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
async fn diagnose_remotely(arguments: &HealthArgs, here: &Node) -> Result<RunEnd, Error> {
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let node = arguments.node.as_deref().unwrap_or_default();
    tokio::select! {
        report = Box::pin(remote::diagnose(arguments, here, node)) => {
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
    session: &Session,
    state: Option<&mut HealthState>,
) -> Result<RunEnd, Error> {
    let Some(state) = state else {
        return gather_and_judge(arguments, session).await;
    };
    if let Some(report) = Box::pin(state_file::repeat_hung_call(state, session)).await {
        let age = state.hang().map(|hang| hang.age(report.taken_at));
        return Ok(RunEnd::Ended(Box::new(ReportWithEvidence::alone(report)), age));
    }
    let end = gather_and_judge(arguments, session).await?;
    if let RunEnd::Ended(found, _) = &end {
        state.learn(&found.report, session.node.clock.wall());
    }
    Ok(end)
}

/// Gathers the evidence until the user interrupts, and judges it.
async fn gather_and_judge(arguments: &HealthArgs, session: &Session) -> Result<RunEnd, Error> {
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let (stop, stopped) = watch::channel(false);
    let inputs = Inputs { stop: Some(stopped), ..arguments.inputs(session)? };
    let node = &session.node;
    let progress = ProgressLine::begin(
        node.global.quiet || arguments.npd || node.global.verbose >= 2,
        Arc::clone(&inputs.calls),
        session.clock(),
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
    let Some(mut evidence) = progress.during(gathered).await else { return Ok(RunEnd::Interrupted(None)) };
    add_forecasts(&inputs, &mut evidence);
    if let Some(playback) = session.playback() {
        // Each remark names something that the capture does not contain, so the report lists it as not checked.
        playback.remarks().into_iter().for_each(|(what, why)| evidence.skip(&what, why));
    }
    let report = judge(&evidence);
    if let Some(lists) = evidence.runtime.lists_by.as_ref().filter(|_| !arguments.npd) {
        list_calls::note(node, lists);
    }
    let was_interrupted = *stop.borrow();
    if let Some(note) = arguments.note_on_release(&report).filter(|_| !was_interrupted) {
        node.remark(&note);
    }
    let found = Box::new(ReportWithEvidence { report, evidence: arguments.kept(evidence), read: None });
    Ok(if was_interrupted { RunEnd::Interrupted(Some(found)) } else { RunEnd::Ended(found, None) })
}

/// Runs the diagnosis for `top` and writes a bundle to `path`, as `health --bundle` does. The diagnosis does not repeat
/// the pending calls of the caller (`known`).
pub async fn save_bundle(
    session: &Session,
    known: Vec<CallersPendingCall>,
    path: &Path,
) -> Result<Arc<HealthReport>, Error> {
    let mut inputs = inputs_of_caller(session, BUDGET, known)?;
    inputs.keep = Keep::InputFiles;
    if matches!(session.endpoint, Endpoint::Unix { .. }) {
        inputs.stacks = WantedDump::Auto;
    }
    let mut evidence = Box::new(Box::pin(gather(&inputs, &|_| ())).await);
    add_forecasts(&inputs, &mut evidence);
    let report = Arc::new(judge(&evidence));
    let (bundled, path) = (Arc::clone(&report), path.to_path_buf());
    let written = tokio::task::spawn_blocking(move || files::write_bundle(&path, &bundled, &evidence));
    written.await.map_err(|why| Error::Start(io::Error::other(why)))??;
    Ok(report)
}

impl HealthArgs {
    fn budget(&self) -> Duration {
        self.budget.unwrap_or(match (self.npd, self.deep) {
            (true, _) => NPD_BUDGET,
            (false, true) => DEEP_BUDGET,
            (false, false) => BUDGET,
        })
    }

    /// Returns what the diagnosis needs to know.
    fn inputs(&self, session: &Session) -> Result<Inputs<Client>, Error> {
        let budget = self.budget();
        let mut inputs = inputs(session, (budget, budget), self.kubelet(session)?)?;
        inputs.mode = if self.deep { HealthMode::Deep } else { HealthMode::Normal };
        // The budget starts with the process, so it includes the search for the endpoint.
        inputs.began = Mono::default();
        // Tests set a divisor, so that they do not wait for the real limits of silence.
        inputs.patience = self.patience / inputs.silence_divisor;
        inputs.stacks = match self.stacks.as_str() {
            // If a capture contains the recorded judgement of a goroutine dump, `inputs.stacks` already has it, and
            // `auto` keeps it.
            "auto" if inputs.stacks == WantedDump::Never => WantedDump::Auto,
            "auto" => inputs.stacks,
            "never" => WantedDump::Never,
            source => WantedDump::From(source.to_owned()),
        };
        inputs.probe_shims = self.probe_shims;
        if let Some(proc) = &self.proc {
            inputs.proc = Some(proc.clone());
            inputs.known_processes = None;
            inputs.simulated_processes = None;
            inputs.proc_is_explicit = true;
        }
        if self.bundle.is_some() {
            inputs.keep = Keep::InputFiles;
        }
        Ok(inputs)
    }

    /// Returns the evidence if a file needs it.
    fn kept(&self, evidence: Evidence) -> Option<Box<Evidence>> {
        if self.bundle.is_some() || self.save.is_some() {
            return Some(Box::new(evidence));
        }
        // Freeing a hundred thousand entries takes a part of the budget; the process ends soon anyway.
        std::mem::forget(evidence);
        None
    }

    /// Returns what the user must know of the kubelet's release, which the user named, or which its metrics show.
    fn note_on_release(&self, report: &HealthReport) -> Option<String> {
        let in_metrics = || KubeletVersion::parse(report.kubelet.as_ref()?.version.as_deref()?).ok();
        self.kubelet_version.or_else(in_metrics).and_then(KubeletVersion::note)
    }

    fn kubelet(&self, session: &Session) -> Result<KubeletInputs, Error> {
        let healthz = match (&self.kubelet_healthz, &self.node) {
            (Some(url), _) => {
                http::check(url).map_err(Error::Kubelet)?;
                Some(url.clone())
            }
            (None, Some(_)) => Some("/healthz".to_owned()),
            (None, None) => own_healthz(session),
        };
        let api = match &self.node {
            Some(node) => Some(self.via_api_server(node.clone())),
            None => own_api(&self.kubelet, session)?,
        };
        let metrics = self.kubelet_metrics.as_deref().map(metrics).transpose()?;
        // With `--node`, requests go through the API server. If the named node is this node, the kubelet's health
        // check is requested directly too.
        let is_own_node = |node: &String| {
            matches!(session.endpoint, Endpoint::Unix { .. }) && session.node_name().as_ref() == Some(node)
        };
        let asks_directly_too = self.kubelet_healthz.is_none() && self.node.as_ref().is_some_and(is_own_node);
        Ok(KubeletInputs {
            healthz,
            healthz_on_node: asks_directly_too.then(|| own_healthz(session)).flatten(),
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
    node: &Node,
    report: &HealthReport,
    hung_for: Option<Duration>,
) -> io::Result<()> {
    if arguments.npd {
        return streams::text(node.global.style(), |out| writeln!(out, "{}", npd(report, hung_for)));
    }
    let style = text::ScreenStyle {
        wide: arguments.output == Output::Wide,
        terminal: streams::terminal_size(),
        saved: arguments.from.as_ref().map(|_| node.clock.wall().duration_since(report.taken_at)),
    };
    match arguments.output {
        Output::Prometheus => streams::document(|out| text::prometheus(report, out)),
        Output::Name => streams::text(node.global.style(), |out| text::names(report, out)),
        output => output.print(report, node.global.style(), |out| screen(report, out, style)),
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
        let bar = streams::ProgressLine::sentence(quiet);
        Self { bar, step: Mutex::default(), calls, clock }
    }

    /// Shows the line until `work` ends, then removes it.
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.bar.during(|| Some(self.line()), work).await
    }

    fn line(&self) -> String {
        self.calls.line(self.clock.mono(), &locked(&self.step))
    }

    fn show(&self, probe: &str) {
        probe.clone_into(&mut locked(&self.step));
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
