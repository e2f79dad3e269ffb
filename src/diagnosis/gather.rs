//! Runs every probe within the budget, and takes second samples where the first ones are suspicious.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use super::budget::Budget;
use super::commands::{self, Journal, SystemState};
use super::evidence::{Evidence, HostEvidence, RuntimeEvidence, Settings};
use super::input_file::InputFile;
use super::kubelet::{MetricsSource, Reading, requests};
use super::proc::{self, Ownership, ProcPaths, ProcSample, Process, Role, Shims};
use super::words::{plural, seconds};
use super::{Inputs, Mode, Progress, disks, id_search, limits, node_files, offload, probes, stacks};
use crate::clock::Mono;
use crate::cri::{Call, CgroupDriver, Error, Rpc, Runtime};
use crate::host::{HostRoot, WELL_KNOWN_SOCKETS};
use crate::kubelet::{Config, KubeletSettings, KubeletVersion, Sourced, doubt, kubelet_of, timing};
use crate::panics::catch_panic_async;

/// The time limit for reading a few files.
pub(super) const FILES_TIME_LIMIT: Duration = Duration::from_millis(500);

/// Runs all probes and returns the evidence.
pub async fn gather<R: Runtime + 'static>(inputs: &Inputs<R>, progress: Progress<'_>) -> Evidence {
    let budget = Budget::start(inputs);
    let mut evidence = Evidence {
        taken_at: inputs.clock.wall(),
        node: inputs.node.clone(),
        endpoint: inputs.endpoint.clone(),
        socket: inputs.socket.clone(),
        moment: inputs.recorded,
        runtime: RuntimeEvidence { silence: inputs.silence(), ..RuntimeEvidence::default() },
        ..Evidence::default()
    };
    let mut pending = probes::PendingCalls::default();
    // Each future is boxed: together they exceed a thread's stack.
    let first = first_probes(inputs, &budget, progress, &mut evidence, &mut pending);
    let (in_time, first) = Box::pin(first).await;
    let in_time = in_time && {
        let more = Box::pin(follow_up(inputs, &budget, progress, &mut evidence, first, &mut pending));
        let more = budget.until_over(catch_panic_async(more)).await;
        let in_time = more.is_some();
        evidence.value_or_skip("the last checks", more.unwrap_or(Ok(())));
        in_time
    };
    read_throttling(inputs, &budget, &mut evidence).await;
    pending.note(&budget, &mut evidence.runtime).await;
    if inputs.at_end == super::AtEnd::LeavePending {
        pending.leave();
    }
    evidence.drop_own_failures();
    note_missing_answers(&mut evidence);
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

/// Probes the runtime, the processes and the kubelet in parallel. Returns whether all ended in time, and the
/// first sample of the processes.
async fn first_probes<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: Progress<'_>,
    evidence: &mut Evidence,
    pending: &mut probes::PendingCalls,
) -> (bool, Option<FirstSample>) {
    let mut outside = Vec::new();
    let make_calls =
        probes::make_calls(inputs, budget, progress, &mut evidence.runtime, &mut outside, pending);
    let make_calls = Box::pin(make_calls);
    let first = first_sample(inputs, budget);
    let kubelet = Box::pin(requests::fetch_all(inputs, budget));
    // A panic in one of them does not affect the others.
    let all = async {
        tokio::join!(catch_panic_async(make_calls), catch_panic_async(first), catch_panic_async(kubelet))
    };
    let ended = budget.until_over(all).await;
    let in_time = ended.is_some();
    let first = match ended {
        Some((asked, first, kubelet)) => {
            evidence.value_or_skip("the calls to the runtime", asked);
            let mut kubelet = evidence.value_or_skip("the kubelet", kubelet);
            evidence.bad_input.append(&mut kubelet.bad_input);
            evidence.not_checked.append(&mut kubelet.not_checked);
            evidence.input_files.append(&mut kubelet.input_files);
            evidence.kubelet = kubelet.found;
            evidence.value_or_skip("processes of the node", first.map(Some))
        }
        None => None,
    };
    pending.note(budget, &mut evidence.runtime).await;
    evidence.names.learn_lists(
        evidence.runtime.sandboxes.items().unwrap_or_default(),
        evidence.runtime.containers.items().unwrap_or_default(),
    );
    evidence.names.learn_outside(&outside);
    skip_unrecorded_calls(evidence);
    (in_time, first)
}

/// Follows up on the first answers: files, second samples and a goroutine dump, where they are needed.
async fn follow_up<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: Progress<'_>,
    evidence: &mut Evidence,
    first: Option<FirstSample>,
    pending: &mut probes::PendingCalls,
) {
    let at = first.as_ref().map_or_else(|| inputs.clock.mono(), |first| first.at);
    if let Some(first) = first {
        store_first_sample(inputs, evidence, first.sample, at);
    }
    read_shims(inputs, budget, evidence).await;
    confirm_blocked(inputs, budget, evidence).await;
    read_kubelet_files(inputs, evidence).await;
    disks::read_disks(inputs, budget, evidence).await;
    choose_settings(inputs, evidence);
    pending.note(budget, &mut evidence.runtime).await;
    stacks::explain(inputs, budget, progress, evidence).await;
    second_samples(inputs, budget, progress, evidence, at).await;
    ask_systemd(inputs, budget, progress, evidence).await;
    if unreachable(evidence) && !inputs.is_recorded() {
        evidence.other_sockets = other_sockets(inputs).await;
        name_restored_container(inputs, budget, evidence).await;
    }
    if inputs.keeps_input_files() {
        progress("files for the bundle");
        node_files::collect(inputs, evidence).await;
    }
    pending.wait(inputs, budget, progress, evidence).await;
}

/// Names the container that a recovering runtime restores: such a runtime lists no containers, but its files
/// name them.
async fn name_restored_container<R>(inputs: &Inputs<R>, budget: &Budget, evidence: &mut Evidence) {
    if evidence.restored_by_child().is_some() && inputs.outside.is_none() {
        let outside = id_search::collect(&inputs.host_root, inputs.proc.as_deref(), budget).await;
        evidence.names.learn_outside(&outside);
    }
}

/// Reads at the end of the run how much the CPU limit of the daemon's cgroup stopped the daemon. This reads
/// one file, so it fits into a short run.
async fn read_throttling<R>(inputs: &Inputs<R>, budget: &Budget, evidence: &mut Evidence) {
    let Some(daemon) = evidence.daemon().cloned() else { return };
    let Some(places) = places(inputs) else { return };
    let limit = FILES_TIME_LIMIT.min(budget.left());
    let now = offload::value(limit, move || proc::throttled_now(&places, &daemon)).await.flatten();
    if let (Some(now), Some(host)) = (now, &mut evidence.host) {
        host.throttled_at_end = Some((inputs.clock.mono().since(host.sampled_at), now));
    }
}

struct FirstSample {
    sample: Result<ProcSample, String>,
    at: Mono,
}

fn places<R>(inputs: &Inputs<R>) -> Option<ProcPaths> {
    Some(ProcPaths {
        proc: inputs.proc.clone()?,
        cgroup: inputs.cgroup.clone(),
        socket: inputs.socket.clone(),
    })
}

async fn first_sample<R>(inputs: &Inputs<R>, budget: &Budget) -> FirstSample {
    let at = inputs.clock.mono();
    let sample = match (&inputs.played, places(inputs)) {
        (Some(played), _) => Ok(played.sample()),
        (None, None) => Err("left out".to_owned()),
        (None, Some(places)) => {
            let whole = inputs.mode == Mode::Deep || inputs.keeps_input_files();
            let shims = if whole { Shims::Detailed } else { Shims::Counted };
            let limit = inputs.deadlines().proc.min(budget.left());
            let mut sample = sample_proc(places.clone(), shims, limit).await;
            if let Ok(sample) = &mut sample {
                find_listener(inputs, places, sample).await;
            }
            sample
        }
    };
    FirstSample { sample, at }
}

/// Finds the daemon by the peer credentials of a connection to the socket. This also works if the daemon /// waits in the kernel, or if another user's files may not be read.
async fn find_listener<R>(inputs: &Inputs<R>, places: ProcPaths, sample: &mut ProcSample) {
    let Some(path) = inputs.socket_here.as_deref().filter(|_| sample.socket_owner.is_none()) else { return };
    let Ok(Ok(stream)) = tokio::time::timeout(FILES_TIME_LIMIT, UnixStream::connect(path)).await else {
        return;
    };
    let pid = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
    let listens = |process: &&Process| matches!(process.role, Role::Daemon | Role::Kubelet);
    let Some(daemon) = pid.and_then(|pid| sample.processes.get(&pid)).filter(listens).cloned() else {
        return;
    };
    sample.socket_owner = Some(daemon.pid);
    sample.daemon_throttled =
        offload::value(FILES_TIME_LIMIT, move || proc::throttled_now(&places, &daemon)).await.flatten();
}

async fn sample_proc(places: ProcPaths, shims: Shims, limit: Duration) -> Result<ProcSample, String> {
    let shown = places.proc.display().to_string();
    let (sections, ended) = offload::collect(limit, move |send: &dyn Fn(proc::Section)| {
        if places.is_proc() {
            proc::read(&places, shims, send);
        }
    })
    .await;
    if sections.is_empty() {
        return Err(if offload::refused() {
            format!("no thread could be started to read `{shown}`")
        } else if ended {
            format!("`{shown}` is not a process file system")
        } else {
            format!("`{shown}` did not answer in time")
        });
    }
    Ok(proc::assemble(sections, ended))
}

fn store_first_sample<R>(
    inputs: &Inputs<R>,
    evidence: &mut Evidence,
    first: Result<ProcSample, String>,
    sampled_at: Mono,
) {
    let sample = match first {
        Ok(sample) => sample,
        Err(why) => {
            if inputs.proc_is_explicit {
                evidence.bad_input.push(why.clone());
            }
            evidence.skip("processes, pressure and limits of the node", why);
            return;
        }
    };
    // Only ids from the runtime count: ids that were found outside the CRI may come from this very process
    // table.
    let runtime = &evidence.runtime;
    let sandboxes = runtime.sandboxes.items().into_iter().flatten().map(|sandbox| sandbox.id.as_str());
    let containers = runtime.containers.items().into_iter().flatten().map(|container| container.id.as_str());
    let answered = runtime.status_calls.iter().filter(|record| record.result.is_ok());
    let ids = sandboxes.chain(containers).chain(answered.map(|record| record.target.id.as_str()));
    let ownership = sample.ownership(ids);
    if ownership == Ownership::Foreign {
        evidence.skip(
            "processes, pressure and limits of the node",
            "the process table belongs to another machine or pod, not to this runtime",
        );
    } else if !sample.complete {
        evidence.skip("part of /proc", "it was not read in time");
    } else if ownership == (Ownership::Ours { daemon: None }) && inputs.socket.is_some() {
        if sample.with_role(Role::Daemon).next().is_some() {
            let why = "several runtimes run here, and plegctl may not see which one listens on this socket";
            evidence.skip("the runtime's daemon", why);
        } else {
            // A pod without hostPID sees only its own processes.
            evidence
                .skip("processes outside of this pod", "the runtime's daemon is not in this process table");
        }
    }
    evidence.host = Some(HostEvidence { ownership, sampled_at, first: sample, ..HostEvidence::default() });
}

/// Reads what the shims wait for, and their command lines, if something suggests that a call hangs.
async fn read_shims<R>(inputs: &Inputs<R>, budget: &Budget, evidence: &mut Evidence) {
    let Some(host) = evidence.node().filter(|host| host.first.shims == Shims::Counted) else { return };
    let shims: Vec<u32> = host.first.with_role(Role::Shim).map(|shim| shim.pid).collect();
    let odd = |shim: &Process| shim.is_stopped() || !shim.blocked.is_empty();
    // Shims that wait for storage show in the I/O pressure, if the kernel measures it.
    let storage = host.first.pressure.io.is_none_or(|psi| psi.some >= limits::IO_FULL_HINT);
    let suspicious = storage
        || host.first.with_role(Role::Shim).any(odd)
        || node_is_suspicious(evidence)
        || super::rules::state::lists_are_suspicious(evidence)
        || evidence.runtime.ids_left_out > 0;
    let Some(places) = places(inputs).filter(|_| suspicious) else { return };
    let limit = inputs.deadlines().proc.min(budget.left());
    let again = offload::value(limit, move || proc::read_again(&places, shims)).await;
    if let (Some(again), Some(host)) = (again, &mut evidence.host) {
        host.first.processes.extend(again);
        host.first.shims = Shims::Detailed;
    }
}

/// Checks a moment later whether the blocked tasks are still blocked: every write to a disk blocks for a
/// moment.
async fn confirm_blocked<R>(inputs: &Inputs<R>, budget: &Budget, evidence: &mut Evidence) {
    let Some(host) = evidence.node() else { return };
    let pids: Vec<u32> = host
        .first
        .processes
        .values()
        .filter(|process| !process.blocked.is_empty() && evidence.concerns(process))
        .map(|process| process.pid)
        .collect();
    let Some(places) = places(inputs).filter(|_| !pids.is_empty() && budget.left() > FILES_TIME_LIMIT) else {
        return;
    };
    tokio::time::sleep(limits::UNINTERRUPTIBLE_WAIT_NORMAL).await;
    let asked = pids.clone();
    let again = offload::value(FILES_TIME_LIMIT, move || proc::read_again(&places, asked)).await;
    if let (Some(again), Some(host)) = (again, &mut evidence.host) {
        host.first.confirm(&pids, again);
    }
}

/// Reads the kubelet's process, command line and configuration files.
async fn read_kubelet_files<R>(inputs: &Inputs<R>, evidence: &mut Evidence) {
    let kubelet = evidence.node().and_then(|host| kubelet_of(&host.first).cloned());
    if let Some(why) = evidence.node().and_then(|host| doubt(&host.first)) {
        evidence.skip("the kubelet's process", why);
    }
    if let Some(played) = &inputs.played {
        // The files of this machine do not belong to the simulated node.
        evidence.kubelet.installed = played.has_kubelet;
        evidence.kubelet.pid = kubelet.map(|process| process.pid);
        return;
    }
    let root = inputs.host_root.clone();
    let told = kubelet.as_ref().map(|process| (process.command.clone(), process.directory.clone()));
    let read = offload::value(FILES_TIME_LIMIT, move || {
        let plugins = network_plugins(&root);
        // Reads the names in the parent directory, because the directory itself may be a mount that does not
        // answer.
        let installed =
            ["kubelet", "rancher", "k0s"].iter().any(|name| has_entry(&root.join("var/lib"), name))
                || has_entry(&root.join("var/snap"), "microk8s");
        let config = told.map(|(command, directory)| {
            Config::of(&KubeletSettings::read(command, directory.as_deref(), &HostRoot::resolve(Some(&root))))
        });
        (installed, config, plugins)
    });
    let (installed, config, plugins) = read.await.unwrap_or_default();
    if let Some(host) = &mut evidence.host {
        host.network_plugins = plugins;
    }
    evidence.kubelet.installed = installed;
    // What `/configz` answers overrides the command line and the files.
    let said = std::mem::take(&mut evidence.kubelet.config);
    evidence.kubelet.config = said.over(config.unwrap_or_default());
    if let Some(process) = kubelet {
        evidence.kubelet.pid = Some(process.pid);
        evidence.kubelet.age = Some(process.age);
    }
}

/// Returns the names of the installed network plugins, cut to 15 characters as the kernel does for process
/// names.
fn network_plugins(root: &Path) -> BTreeSet<String> {
    const DIRS: [&str; 4] = ["opt/cni/bin", "usr/libexec/cni", "usr/lib/cni", "var/lib/rancher/k3s/data/cni"];
    DIRS.iter()
        .filter_map(|dir| std::fs::read_dir(root.join(dir)).ok())
        .flat_map(Iterator::flatten)
        .filter_map(|entry| Some(entry.file_name().to_str()?.chars().take(15).collect()))
        .collect()
}

fn has_entry(dir: &Path, name: &str) -> bool {
    std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() == name))
}

/// Chooses the kubelet's settings for the estimate: the user's flags, else the kubelet's own values, else the
/// defaults.
fn choose_settings<R>(inputs: &Inputs<R>, evidence: &mut Evidence) {
    let defaults = Settings::default();
    let request_timeout = inputs
        .kubelet
        .request_timeout
        .map(|value| Sourced::new(value, "--runtime-request-timeout"))
        .or_else(|| evidence.kubelet.config.request_timeout.clone())
        .unwrap_or(defaults.request_timeout);
    let by_flag = inputs.kubelet.version;
    let reading = evidence.kubelet.first.as_ref();
    let by_metrics =
        reading.and_then(|reading| KubeletVersion::parse(reading.metrics.version.as_deref()?).ok());
    let kubelet = by_flag
        .map(|minor| Sourced::new(minor, "--kubelet-version"))
        .or_else(|| by_metrics.map(|minor| Sourced::new(minor, "the kubelet's metrics")))
        .unwrap_or(defaults.kubelet);
    let evented = evidence.kubelet.evented() == Some(true) && !kubelet.value.evented_is_a_hint();
    let (by_mode, period) = if evented {
        (Sourced::new(timing::EVENTED_THRESHOLD, "Evented PLEG is in use"), timing::EVENTED_PERIOD)
    } else {
        (defaults.threshold, defaults.period)
    };
    let threshold = inputs.kubelet.threshold.map_or(by_mode, |value| Sourced::new(value, "--threshold"));
    evidence.settings = Settings { request_timeout, threshold, period, kubelet };
}

/// Takes second samples of the lists, the node's processes and the kubelet's metrics, if the first ones are
/// suspicious.
async fn second_samples<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: Progress<'_>,
    evidence: &mut Evidence,
    first_sample: Mono,
) {
    let deep = inputs.mode == Mode::Deep;
    let lists = deep || super::rules::state::lists_are_suspicious(evidence);
    let node = evidence.node().is_some() && (deep || node_is_suspicious(evidence) || lists);
    let stale = evidence.kubelet.pleg_age().is_some_and(|age| age > limits::PLEG_AGE_STALE.as_secs_f64());
    let metrics = match &inputs.kubelet.metrics {
        Some(source @ (MetricsSource::Url(_) | MetricsSource::Api(_))) if deep || stale => Some(source),
        _ => None,
    };
    let wanted = if metrics.is_some() { limits::METRICS_APART } else { limits::SAMPLES_APART };
    // A capture has only one sample of each moment.
    if !(lists || node || metrics.is_some()) || inputs.mode == Mode::Npd || inputs.is_recorded() {
        return;
    }
    let first_reading = evidence.kubelet.first.as_ref().filter(|_| metrics.is_some());
    let since_reading = first_reading.map(|reading| inputs.clock.wall().duration_since(reading.at));
    let since_sample = inputs.clock.mono().since(first_sample);
    // The rules need a minimum time between two readings; the first reading is later than the first sample.
    let wait = wanted.saturating_sub(since_reading.unwrap_or(since_sample).min(since_sample));
    if budget.for_waiting() < wait + inputs.deadlines().list {
        evidence.skip("second samples", "no budget left");
        return;
    }
    progress("second samples");
    tokio::time::sleep(wait).await;
    if lists {
        probes::lists_again(inputs, budget, progress, &mut evidence.runtime).await;
    }
    if node && let Some(places) = places(inputs) {
        let limit = inputs.deadlines().proc.min(budget.left());
        let apart = inputs.clock.mono().since(first_sample);
        if let Ok(sample) = sample_proc(places, Shims::Detailed, limit).await
            && let Some(host) = &mut evidence.host
        {
            host.second = Some((apart, sample));
        }
    }
    if let Some(source) = metrics {
        let limit = inputs.deadlines().http.min(budget.left());
        if let Ok((metrics, _)) = requests::read_metrics(source, limit, budget).await {
            evidence.kubelet.second = Some(Reading { at: inputs.clock.wall(), metrics });
        }
    }
}

fn unreachable(evidence: &Evidence) -> bool {
    evidence.runtime.version_answer().is_none()
}

fn rpc_is_suspicious(evidence: &Evidence) -> bool {
    let runtime = &evidence.runtime;
    unreachable(evidence)
        || !runtime.hung_lists().is_empty()
        || runtime.sandboxes.error().is_some()
        || runtime.containers.error().is_some()
        || runtime.status_calls.iter().chain(&runtime.shims).any(super::evidence::StatusRecord::is_silent)
}

fn node_is_suspicious(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    let sample = &host.first;
    let pressed = |psi: Option<proc::Psi>, at: f64| psi.is_some_and(|psi| psi.all_waited() >= at);
    rpc_is_suspicious(evidence)
        || sample.frozen.iter().any(|freeze| evidence.concerns_cgroup(freeze))
        || sample
            .processes
            .values()
            .filter(|process| {
                !process.blocked.is_empty() || (process.role == Role::Shim && process.is_stopped())
            })
            .any(|process| evidence.concerns(process))
        || pressed(sample.pressure.io, limits::IO_FULL_HINT)
        || pressed(sample.pressure.memory, limits::MEMORY_FULL)
}

/// Reads the journal and asks systemd, if there is a reason to run other programs.
async fn ask_systemd<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: Progress<'_>,
    evidence: &mut Evidence,
) {
    if !inputs.commands {
        evidence.skip("the journal", "left out");
        return;
    }
    let suspicious = inputs.mode == Mode::Deep || rpc_is_suspicious(evidence) || node_is_suspicious(evidence);
    if !suspicious && !inputs.keeps_input_files() && evidence.kubelet.pid.is_none() {
        evidence
            .skip("the journal", "everything is answered and no kubelet runs here; use --deep to read it");
        return;
    }
    let Some(limit) = budget.allow(inputs.deadlines().command) else {
        evidence.skip("the journal", "no budget left");
        return;
    };
    progress("the journal");
    let (journal, systemd) = tokio::join!(commands::journal(&inputs.host_root, limit), async {
        if suspicious && inputs.host_root == Path::new("/") {
            Some(commands::system_state(limit).await)
        } else {
            None
        }
    });
    if suspicious && evidence.kubelet.config.cgroup_driver.is_none() && !unreachable(evidence) {
        evidence.kubelet.config.cgroup_driver = cgroup_driver(inputs, limit).await;
    }
    let journal = journal.map(|text| (Journal::of(&text), text));
    match journal {
        Ok((journal, text)) if journal.lines > 0 => {
            evidence.journal = Some(journal);
            if inputs.keeps_input_files() {
                evidence.input_files.push(InputFile::new("journal.txt", "kubelet, runtime and kernel", text));
            }
        }
        Ok(_) => evidence.skip("the journal", "it has no readable line of the last 15 minutes"),
        Err(why) => evidence.skip("the journal", why.to_string()),
    }
    match systemd {
        Some(Ok(SystemState::Says(word))) => evidence.systemd = Some(SystemState::Says(word)),
        Some(Ok(silent)) => evidence.systemd = Some(silent),
        Some(Err(why)) => evidence.skip("systemd", why.to_string()),
        None => {}
    }
}

/// Returns the runtime's cgroup driver, for a kubelet that does not report its own. Runtimes before 2023 do
/// not implement this call.
async fn cgroup_driver<R: Runtime + 'static>(inputs: &Inputs<R>, limit: Duration) -> Option<String> {
    let call = probes::bounded(Rpc::RuntimeConfig, limit, inputs.control.cgroup_driver()).await;
    let word = match call.result.ok()?? {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "cgroupfs",
    };
    Some(word.to_owned())
}

async fn other_sockets<R>(inputs: &Inputs<R>) -> Vec<String> {
    use std::os::unix::fs::FileTypeExt;
    let root = inputs.host_root.clone();
    let ours = inputs.socket.clone();
    offload::value(FILES_TIME_LIMIT, move || {
        WELL_KNOWN_SOCKETS
            .iter()
            .map(|(_, path)| *path)
            .filter(|path| ours.as_deref() != Some(Path::new(path)))
            .filter(|path| {
                std::fs::symlink_metadata(id_search::under_root(&root, Path::new(path)))
                    .is_ok_and(|found| found.file_type().is_socket())
            })
            .map(|path| format!("unix://{path}"))
            .collect()
    })
    .await
    .unwrap_or_default()
}

/// Removes the calls that a capture does not contain, and notes them as not checked: they say nothing about
/// the runtime.
fn skip_unrecorded_calls(evidence: &mut Evidence) {
    fn is_missing<T>(call: Option<&Call<T>>) -> bool {
        call.is_some_and(|call| call.result.as_ref().is_err_and(Error::is_not_recorded))
    }
    let runtime = &mut evidence.runtime;
    let mut missing: Vec<String> = Vec::new();
    for records in [&mut runtime.status_calls, &mut runtime.shims] {
        let before = records.len();
        records.retain(|record| !record.result.as_ref().is_err_and(Error::is_not_recorded));
        if records.len() < before {
            missing.push(format!("{} status calls", before - records.len()));
        }
    }
    let mut leave_out = |what: &str| missing.push(what.to_owned());
    if is_missing(runtime.status.as_ref()) {
        runtime.status = None;
        leave_out("Status");
    }
    if is_missing(runtime.control.as_ref()) {
        runtime.control = None;
    }
    if is_missing(runtime.sandboxes.first.as_ref()) {
        runtime.sandboxes.first = None;
        leave_out("ListPodSandbox");
    }
    if is_missing(runtime.containers.first.as_ref()) {
        runtime.containers.first = None;
        leave_out("ListContainers");
    }
    for what in missing {
        evidence.skip(&what, "not recorded: the recorder had not made this call by then, or lost its end");
    }
}

fn note_missing_answers(evidence: &mut Evidence) {
    let runtime = &evidence.runtime;
    let mut missing: Vec<(String, String)> = Vec::new();
    let no_budget = "no budget left";
    if runtime.version.is_none() {
        missing.push(("the runtime".into(), no_budget.into()));
    } else if runtime.version_answer().is_some() {
        if runtime.status.is_none() {
            missing.push(("Status".into(), no_budget.into()));
        }
        let is_skipped = |what: &str| evidence.not_checked.iter().any(|skipped| skipped.what == what);
        if runtime.sandboxes.first.is_none() && !is_skipped("ListPodSandbox") {
            missing.push(("ListPodSandbox".into(), no_budget.into()));
        }
        if runtime.containers.first.is_none() && !is_skipped("ListContainers") {
            missing.push(("ListContainers".into(), no_budget.into()));
        }
        for error in [runtime.sandboxes.error(), runtime.containers.error()].into_iter().flatten() {
            if !matches!(error, Error::Silent { .. }) && !error.is_unread() {
                missing.push(("the status of the items of this list".into(), error.to_string()));
            }
        }
    } else {
        missing.push((
            "lists and status calls".into(),
            "the runtime does not answer Version, so plegctl made no further calls".into(),
        ));
    }
    for why in runtime.unread_lists() {
        missing.push(("the content of a large list".into(), why.to_string()));
    }
    if runtime.ids_left_out > 0 {
        missing.push((
            format!("the status of {} more ids", runtime.ids_left_out),
            "the budget was spent, or too many were silent already".into(),
        ));
    }
    let open = runtime.cut_short().count();
    if open > 0 {
        let why = "the run ended before these calls were answered or counted as hung";
        missing.push((format!("the result of {}", plural(open, "status call")), why.into()));
    }
    if runtime.status_is_open() {
        missing.push(("the result of Status".into(), "the run ended before it".into()));
    }
    for (what, why) in missing {
        evidence.skip(&what, why);
    }
}
