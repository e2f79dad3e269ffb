//! Gathers the evidence of a run in three phases: [`make_first_calls`] calls the runtime and the kubelet, [`read_node`]
//! reads files and processes of the node, and [`follow_up`] takes second samples of what is suspicious.
//!
//! Each step returns what it found, and this file stores it in the evidence; only `probes` stores the outcomes of calls
//! to the runtime itself. So if the run ends early, the evidence has everything that was found until then.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::budget::RunBudget;
use super::evidence::{Evidence, HostEvidence, RuntimeEvidence, missing, suspicion};
use super::kernel_waits::FirstLook;
use super::kubelet::requests::{self, KubeletAnswers};
use super::kubelet::{MetricsReading, MetricsSource, files, start};
use super::names::OutsideId;
use super::node_facts::NodeFacts;
use super::probes::{self, PendingCalls};
use super::proc::ProcSample;
use super::processes::{self, FirstSample};
use super::report::NotChecked;
use super::words::seconds;
use super::{
    AtEnd, HealthMode, HealthRun, Inputs, OnProbe, commands, disks, id_search, kernel_waits, left_over_shims,
    limits, living_exits, node_files, offload, overdue_processes, rules, runtime_start, stacks,
};
use crate::clock::Mono;
use crate::cri::Runtime;
use crate::host::WELL_KNOWN_SOCKETS;
use crate::panics::catch_panic_async;

/// The interval at which the run checks the pending calls.
const TICK: Duration = Duration::from_millis(100);

/// Runs all probes and returns the evidence.
pub async fn gather<R: Runtime + 'static>(inputs: &Inputs<R>, progress: OnProbe<'_>) -> Evidence {
    let budget = RunBudget::start(inputs);
    let run = HealthRun { inputs, budget: &budget, progress };
    let mut pending = PendingCalls::default();
    let taken_at = inputs.clock.wall();
    // Each future is boxed: together they exceed a thread's stack.
    let answers = Box::pin(make_first_calls(run, &mut pending)).await;
    let mut in_time = answers.in_time.is_some();
    let (mut evidence, mut first) = assemble(inputs, answers);
    let watch = first.as_mut().and_then(|first| first.watch.take());
    evidence.taken_at = taken_at;
    evidence.forecasts.clone_from(&inputs.forecasts);
    if in_time {
        let other_phases = Box::pin(async {
            if let Some(facts) = &inputs.recorded_facts {
                use_facts(run, &mut evidence, facts, &mut pending).await;
            } else {
                let looked = read_node(run, &mut evidence, first, &mut pending).await;
                follow_up(run, &mut evidence, looked, &mut pending).await;
            }
        });
        let ended = budget.until_over(catch_panic_async(other_phases)).await;
        in_time = ended.is_some();
        evidence.value_or_skip("the last checks", ended.unwrap_or(Ok(())));
    }
    let throttled = processes::throttled_at_end(run, &evidence).await;
    if let Some(host) = evidence.host.as_mut().filter(|_| throttled.is_some()) {
        host.throttled_at_end = throttled;
    }
    let counted_again = processes::clients_counted_again(run, &evidence).await;
    if let Some(clients) = evidence.host.as_mut().and_then(|host| host.clients.as_mut()) {
        clients.counted_again = counted_again;
    }
    if let Some((host, watch)) = evidence.host.as_mut().zip(watch) {
        host.daemon_watch = Some(watch.end(offload::FILES_TIME_LIMIT.min(budget.left())).await);
    }
    pending.store_outcomes(&budget, &mut evidence.runtime).await;
    if inputs.at_end == AtEnd::LeavePending {
        pending.leave();
    }
    let failures = missing::own_failures(&mut evidence.runtime);
    evidence.not_checked.extend(failures);
    let missing = missing::missing_answers(&evidence);
    evidence.not_checked.extend(missing);
    evidence.took = budget.used();
    evidence.interrupted = !in_time && budget.is_stopped();
    if !in_time {
        let took = seconds(evidence.took);
        evidence.ended_early = Some(if evidence.interrupted {
            format!("interrupted after {took}")
        } else {
            format!("the budget of {} was spent", seconds(inputs.budget))
        });
    }
    evidence.no_thread = offload::refused();
    evidence
}

/// The results of the first phase.
struct FirstAnswers {
    runtime: RuntimeEvidence,
    /// Ids that were found outside the CRI.
    outside: Vec<OutsideId>,
    /// The results of the parallel parts; `None` if the run ended before all of them did.
    in_time: Option<ParallelParts>,
}

/// The results of the parts that run in parallel. An error is the message of the panic that ended the part.
struct ParallelParts {
    runtime: Result<(), String>,
    kubelet: Result<KubeletAnswers, String>,
    sample: Result<FirstSample, String>,
}

/// Calls the runtime and the kubelet and samples the processes, all in parallel.
async fn make_first_calls<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    pending: &mut PendingCalls,
) -> FirstAnswers {
    let mut runtime = RuntimeEvidence { silence: run.inputs.silence(), ..RuntimeEvidence::default() };
    let mut outside = Vec::new();
    // The kubelet's metrics show how it lists, so they come before the list calls if they matter.
    let (tell, told) = watch::channel(None);
    let calls = Box::pin(probes::make_calls(run, &mut runtime, &mut outside, pending, told));
    let kubelet = Box::pin(requests::fetch_all(run.inputs, run.budget, tell));
    let sample = processes::first_sample(run);
    let all = async {
        tokio::join!(catch_panic_async(calls), catch_panic_async(kubelet), catch_panic_async(sample))
    };
    let in_time = run.budget.until_over(all).await;
    let in_time = in_time.map(|(runtime, kubelet, sample)| ParallelParts { runtime, kubelet, sample });
    pending.store_outcomes(run.budget, &mut runtime).await;
    FirstAnswers { runtime, outside, in_time }
}

/// Stores the results of the first phase in new evidence. Returns the first sample of the processes separately: only with
/// the ids from the lists can the next phase decide whether these processes belong to the probed runtime.
fn assemble<R>(inputs: &Inputs<R>, answers: FirstAnswers) -> (Evidence, Option<FirstSample>) {
    let mut evidence = Evidence {
        node: inputs.node.clone(),
        endpoint: inputs.endpoint.clone(),
        socket: inputs.socket.clone(),
        moment: inputs.recorded,
        recorded_diagnosis: inputs.recorded_diagnosis.clone(),
        runtime: answers.runtime,
        ..Evidence::default()
    };
    let mut first = None;
    if let Some(parts) = answers.in_time {
        evidence.value_or_skip("the calls to the runtime", parts.runtime);
        let kubelet = evidence.value_or_skip("the kubelet", parts.kubelet);
        evidence.bad_input.extend(kubelet.bad_input);
        // What the run itself could not request of a recorded kubelet is in the facts.
        if inputs.recorded_facts.is_none() {
            evidence.not_checked.extend(kubelet.not_checked);
        }
        evidence.input_files.extend(kubelet.input_files);
        evidence.kubelet = kubelet.found;
        first = evidence.value_or_skip("processes of the node", parts.sample.map(Some));
    }
    evidence.learn_listed_names();
    evidence.names.learn_outside(&answers.outside);
    let unrecorded = missing::unrecorded_calls(&mut evidence.runtime);
    evidence.not_checked.extend(unrecorded);
    (evidence, first)
}

/// The time of the first sample of the node's processes, and the first look at tasks that wait in the kernel.
struct FirstReading {
    sampled_at: Mono,
    look: Option<FirstLook>,
}

/// Reads the node's files and the runtime's goroutine dump, as far as the first answers make that necessary.
async fn read_node<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut Evidence,
    first: Option<FirstSample>,
    pending: &mut PendingCalls,
) -> FirstReading {
    let sampled_at = first.as_ref().map_or_else(|| run.inputs.clock.mono(), |first| first.at);
    if let Some(first) = first {
        match first.sample {
            Ok(sample) => {
                let (mut host, skipped) = match &run.inputs.recorded_processes {
                    Some(recorded) => {
                        let (host, skipped) = processes::recorded(recorded, sampled_at);
                        (host, Some(skipped))
                    }
                    None => processes::with_ownership(sample, sampled_at, evidence),
                };
                if let Some(simulated) = &run.inputs.simulated_processes {
                    host.waits = simulated.waits(&host.first);
                }
                evidence.host = Some(host);
                evidence.not_checked.extend(skipped);
            }
            Err(why) => {
                if run.inputs.proc_is_explicit {
                    evidence.bad_input.push(why.clone());
                }
                evidence.skip(processes::WHAT, why);
            }
        }
    }
    // Only with all cgroups is it known whether a container has no process, which is a sign too.
    let with_cgroups = processes::with_all_cgroups(run, evidence).await;
    store_first(evidence, with_cgroups);
    let with_shims = processes::with_details_of_shims(run, evidence).await;
    store_first(evidence, with_shims);
    let blocked = processes::blocked_again(run, evidence).await;
    if let (Some((pids, again)), Some(host)) = (blocked, &mut evidence.host) {
        host.first.confirm(&pids, again);
    }
    let left_over = left_over_shims::find(run, evidence).await;
    let living_exits = living_exits::find(run, evidence).await;
    let (clients, skipped) = processes::socket_clients(run, evidence).await;
    evidence.not_checked.extend(skipped);
    if let Some(host) = &mut evidence.host {
        host.clients = clients;
        host.left_over_shims = left_over;
        host.living_exits = living_exits;
    }
    let (files, doubt) = files::read_files(run.inputs, evidence).await;
    if let Some(why) = doubt {
        evidence.skip("the kubelet's process", why);
    }
    if let Some(host) = &mut evidence.host {
        host.network_plugins = files.network_plugins;
    }
    let overdue = overdue_processes::identify(run, evidence).await;
    for (pid, id) in overdue {
        evidence.names.learn_outside(std::slice::from_ref(&id));
        if let Some(host) = &mut evidence.host {
            host.overdue_ids.insert(pid, id.id);
        }
    }
    let look =
        if suspicion::of_node(evidence) { kernel_waits::first_look(run, evidence).await } else { None };
    evidence.kubelet.installed = files.installed;
    evidence.kubelet.pid = files.pid;
    evidence.kubelet.age = files.age;
    evidence.kubelet.certificates = files.certificates;
    // The answer of `/configz` overrides the command line and the files.
    evidence.kubelet.config = std::mem::take(&mut evidence.kubelet.config).over(files.config);
    let (disks, socket) = tokio::join!(disks::read_disks(run, evidence), stacks::debug_socket(run, evidence));
    evidence.debug_socket = socket;
    if let Some((disks, skipped)) = disks
        && let Some(host) = &mut evidence.host
    {
        host.disks = disks;
        evidence.not_checked.extend(skipped);
    }
    judge_dump(run, evidence, pending).await;
    FirstReading { sampled_at, look }
}

/// Chooses the kubelet's settings, and judges the runtime's goroutine dump.
async fn judge_dump<R>(run: HealthRun<'_, R>, evidence: &mut Evidence, pending: &mut PendingCalls) {
    if let Some(version) = files::program_version_if_it_matters(run.inputs, evidence).await {
        evidence.kubelet.program_version = Some(version);
    }
    evidence.settings = files::settings(&run.inputs.kubelet, &evidence.kubelet);
    pending.store_outcomes(run.budget, &mut evidence.runtime).await;
    let dump = stacks::judge_dump(run, evidence).await;
    evidence.stacks = dump.report;
    evidence.input_files.extend(dump.input_file);
    // Facts of a capture say already why their diagnosis had no dump.
    let is_known = |missing: &NotChecked| evidence.not_checked.iter().any(|known| known.what == missing.what);
    let missing = dump.not_checked.filter(|missing| !is_known(missing));
    evidence.not_checked.extend(missing);
}

/// Takes the facts of the node from a capture, instead of reading a node.
async fn use_facts<R>(
    run: HealthRun<'_, R>,
    evidence: &mut Evidence,
    facts: &NodeFacts,
    pending: &mut PendingCalls,
) {
    facts.clone().put_in(evidence);
    judge_dump(run, evidence, pending).await;
    wait_for_pending(run, evidence, pending).await;
}

/// Replaces the first sample of the processes by the same sample with more details, if there is one.
fn store_first(evidence: &mut Evidence, sample: Option<ProcSample>) {
    if let (Some(sample), Some(host)) = (sample, &mut evidence.host) {
        host.first = sample;
    }
}

/// Takes second samples, reads the journal, collects files for a bundle, and waits for the pending calls.
async fn follow_up<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut Evidence,
    first: FirstReading,
    pending: &mut PendingCalls,
) {
    take_second_samples(run, evidence, first).await;
    let system = commands::read_journal_and_systemd(run, evidence).await;
    evidence.journal = system.journal;
    evidence.systemd = system.systemd;
    evidence.input_files.extend(system.input_file);
    evidence.not_checked.extend(system.not_checked);
    if let Some(driver) = system.cgroup_driver {
        evidence.kubelet.config.cgroup_driver = Some(driver);
    }
    evidence.stream_probe = probes::probe_stream(run, evidence).await;
    if !evidence.runtime.is_reached() && !run.inputs.is_recorded() {
        evidence.other_sockets = other_sockets(run.inputs).await;
        let outside = restored_container(run, evidence).await;
        evidence.names.learn_outside(&outside);
        evidence.runtime_start = runtime_start::read(run, evidence).await;
    }
    if rules::has_network_problem(evidence) {
        evidence.cni_directory = runtime_start::cni_directory(run, evidence).await;
    }
    if kubelet_is_missed(evidence) {
        evidence.kubelet.start_error = start::first_error(run).await;
    }
    if run.inputs.keeps_input_files() {
        (run.progress)("files for the bundle");
        let (input_files, complete) = node_files::collect(run.inputs, evidence).await;
        evidence.input_files.extend(input_files);
        if !complete {
            evidence.skip("part of the files for the bundle", "they were not read in time");
        }
    }
    wait_for_pending(run, evidence, pending).await;
}

/// Returns whether a kubelet is installed, none runs, and the journal does not show the reason.
fn kubelet_is_missed(evidence: &Evidence) -> bool {
    let is_explained =
        evidence.journal.as_ref().is_some_and(|journal| journal.kubelet_runs.last_exit().is_some());
    evidence.kubelet.pid.is_none()
        && evidence.kubelet.installed
        && evidence.daemon().is_some()
        && !is_explained
}

/// Takes second samples of the lists, the node's processes and the kubelet's metrics, each only if the first one is
/// suspicious or the user wants it, and only if the budget has time for it.
async fn take_second_samples<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut Evidence,
    FirstReading { sampled_at, look }: FirstReading,
) {
    let HealthRun { inputs, budget, .. } = run;
    let deep = inputs.mode == HealthMode::Deep;
    let lists = deep || suspicion::of_lists(evidence);
    let odd = |host: &HostEvidence| !host.left_over_shims.is_empty() || !host.living_exits.is_empty();
    let odd = evidence.node().is_some_and(odd);
    let node = evidence.node().is_some() && (deep || suspicion::of_node(evidence) || lists || odd);
    let stale = evidence.kubelet.pleg_age().is_some_and(|age| age > limits::PLEG_AGE_STALE.as_secs_f64());
    let metrics = match &inputs.kubelet.metrics {
        Some(source @ (MetricsSource::Url(_) | MetricsSource::Api(_))) if deep || stale => Some(source),
        _ => None,
    };
    // A capture has only one sample of each moment.
    if !(lists || node || metrics.is_some()) || inputs.is_recorded() {
        return;
    }
    let has_time = |wait: Duration| budget.for_waiting() >= wait + inputs.deadlines().list;
    let metrics = metrics.filter(|_| !(lists || node) || has_time(limits::METRICS_APART));
    let wanted = if metrics.is_some() { limits::METRICS_APART } else { limits::SAMPLES_APART };
    let first_reading = evidence.kubelet.first.as_ref().filter(|_| metrics.is_some());
    let since_reading = first_reading.map(|reading| inputs.clock.wall().duration_since(reading.at));
    let since_sample = inputs.clock.mono().since(look.as_ref().map_or(sampled_at, |look| look.at));
    // The rules need a minimum time between two readings; the first reading is later than the first sample.
    let wait = wanted.saturating_sub(since_reading.unwrap_or(since_sample).min(since_sample));
    if !has_time(wait) {
        evidence.lacks_second_samples = true;
        evidence.skip("second samples", "no budget left");
        return;
    }
    (run.progress)("second samples");
    tokio::time::sleep(wait).await;
    if lists {
        probes::make_second_lists(run, &mut evidence.runtime).await;
    }
    if node
        && let Some(second) = processes::second_sample(run, evidence, sampled_at).await
        && let Some(host) = &mut evidence.host
    {
        host.second = Some(second);
    }
    if let Some(look) = look {
        let waits = kernel_waits::second_look(run, evidence, look).await;
        if let Some(host) = &mut evidence.host {
            host.waits = waits;
        }
    }
    if let Some(source) = metrics {
        let limit = inputs.deadlines().http.min(budget.left());
        if let Ok((metrics, _)) = requests::read_metrics(source, limit, budget).await {
            evidence.kubelet.second = Some(MetricsReading { at: inputs.clock.wall(), metrics });
        }
    }
}

/// Searches ids outside the CRI if the runtime restores a container at its start: it lists no containers then, but its
/// files name them.
async fn restored_container<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Vec<OutsideId> {
    let inputs = run.inputs;
    if evidence.hung_state_process().is_none() || inputs.outside.is_some() {
        return Vec::new();
    }
    id_search::collect(&inputs.host_root, inputs.proc.as_deref(), run.budget).await
}

/// Returns the other sockets on this node on which a runtime usually listens. A simulated or recorded node has none.
async fn other_sockets<R>(inputs: &Inputs<R>) -> Vec<String> {
    use std::os::unix::fs::FileTypeExt;
    let root = inputs.host_root.clone();
    let Some(ours) = inputs.socket.clone() else { return Vec::new() };
    let is_socket = move |path: &&str| {
        // The same socket may have two names, for example below /var/run, which is a link to /run.
        let real = |path: &Path| std::fs::canonicalize(id_search::under_root(&root, path)).ok();
        let path = Path::new(path);
        let here = std::fs::symlink_metadata(id_search::under_root(&root, path));
        let is_ours = ours == path || (real(path).is_some() && real(path) == real(&ours));
        !is_ours && here.is_ok_and(|found| found.file_type().is_socket())
    };
    let work = move || {
        let paths = WELL_KNOWN_SOCKETS.iter().map(|(_, path)| *path).filter(is_socket);
        paths.map(|path| format!("unix://{path}")).collect()
    };
    offload::value(offload::FILES_TIME_LIMIT, work).await.unwrap_or_default()
}

/// Waits for the pending calls until they are answered, until more waiting cannot change the verdict, or until the time
/// is over.
async fn wait_for_pending<R>(run: HealthRun<'_, R>, evidence: &mut Evidence, pending: &mut PendingCalls) {
    loop {
        pending.store_outcomes(run.budget, &mut evidence.runtime).await;
        if run.inputs.is_recorded() {
            return;
        }
        if !pending.undecided(run.inputs.patience, evidence) {
            return;
        }
        let limit = TICK.min(run.budget.for_waiting());
        if limit.is_zero() {
            return;
        }
        run.budget.listening.name_silent(&|id| evidence.names.known_name(id));
        tokio::time::sleep(limit).await;
    }
}
