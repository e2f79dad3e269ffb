//! Takes samples of the node's process table, decides whether it belongs to the probed runtime, and reads suspicious
//! processes a second time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;

use super::daemon_watch::RunningWatch;
use super::evidence::{Evidence, HostEvidence, oddities, suspicion};
use super::offload::FILES_TIME_LIMIT;
use super::proc::clients::{self, Candidates, Crowd, IoCounters, SocketClients};
use super::proc::{self, Ownership, ProcPaths, ProcSample, Process, Psi, Role, Shims, StatTable, Throttled};
use super::report::NotChecked;
use super::{HealthMode, HealthRun, Inputs, RecordedProcesses, limits, living_exits, offload};
use crate::clock::Mono;

/// The name of this check in the report, for a run without a process table.
pub(super) const WHAT: &str = "processes, pressure and limits of the node";

/// The kernel's name of plegctl's own processes.
pub const OWN_NAME: &str = "plegctl";

/// The first sample, or why there is none, and its time.
pub(super) struct FirstSample {
    pub(super) sample: Result<ProcSample, String>,
    pub(super) at: Mono,
    /// The watch of the daemon, if the sample shows which process it is.
    pub(super) watch: Option<RunningWatch>,
}

pub(super) fn paths<R>(inputs: &Inputs<R>) -> Option<ProcPaths> {
    Some(ProcPaths {
        proc: inputs.proc.clone()?,
        cgroup: inputs.cgroup.clone(),
        socket: inputs.socket.clone(),
    })
}

/// Takes the first sample.
pub(super) async fn first_sample<R>(run: HealthRun<'_, R>) -> FirstSample {
    let inputs = run.inputs;
    let at = inputs.clock.mono();
    let sample = match (&inputs.simulated_processes, &inputs.recorded_processes, paths(inputs)) {
        (Some(simulated), _, _) => Ok(simulated.sample()),
        (None, Some(recorded), _) => Ok(recorded.first()),
        (None, None, None) if inputs.is_recorded() => Err("not recorded".to_owned()),
        (None, None, None) => Err("left out".to_owned()),
        (None, None, Some(paths)) => {
            let detailed = inputs.mode == HealthMode::Deep || inputs.keeps_input_files();
            let shims = if detailed { Shims::Detailed } else { Shims::Counted };
            let known = inputs.known_processes.clone();
            let mut sample = sample_proc(run, paths.clone(), known, shims).await;
            if let Ok(sample) = &mut sample
                && sample.socket_owner.is_none()
                && let Some(daemon) = listening_process(inputs, sample).await
            {
                sample.socket_owner = Some(daemon.pid);
                let cgroup = move || proc::daemon_cgroup(&paths, &daemon);
                sample.daemon_cgroup = offload::value(FILES_TIME_LIMIT, cgroup).await.unwrap_or_default();
            }
            sample
        }
    };
    let daemon = sample.as_ref().ok().and_then(likely_daemon);
    let watch = daemon.zip(inputs.proc.as_deref()).map(|(pid, proc)| {
        // Only then does a rule compare the pressure with the daemon's own wait, however short the run is.
        let pressed = sample.as_ref().is_ok_and(|sample| {
            sample.pressure_on(|pressure| pressure.cpu).of_daemon(Psi::some_waited) >= limits::CPU_SOME
        });
        RunningWatch::begin(proc, pid, &inputs.clock, pressed)
    });
    FirstSample { sample, at, watch }
}

/// Returns the process that listens on the socket, or the only daemon of the node.
fn likely_daemon(sample: &ProcSample) -> Option<u32> {
    let mut daemons = sample.with_role(Role::Daemon);
    let only = daemons.next().filter(|_| daemons.next().is_none()).map(|daemon| daemon.pid);
    sample.socket_owner.or(only)
}

/// Takes a second sample, and returns the time since the first one.
pub(super) async fn second_sample<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
    first: Mono,
) -> Option<(Duration, ProcSample)> {
    let apart = run.inputs.clock.mono().since(first);
    if let Some(simulated) = &run.inputs.simulated_processes {
        return Some((apart, simulated.sample()));
    }
    let paths = paths(run.inputs)?;
    let mut second = sample_proc(run, paths.clone(), None, Shims::Detailed).await.ok()?;
    if second.socket_owner.is_none()
        && let Some(daemon) = evidence.daemon().cloned()
    {
        let cgroup = move || proc::daemon_cgroup(&paths, &daemon);
        second.daemon_cgroup = offload::value(FILES_TIME_LIMIT, cgroup).await.unwrap_or_default();
    }
    Some((apart, second))
}

/// Finds the daemon by the peer credentials of a connection to the socket. This also works if the daemon waits in the
/// kernel, or if this user may not read the daemon's files in `/proc`.
async fn listening_process<R>(inputs: &Inputs<R>, sample: &ProcSample) -> Option<Process> {
    let connect = UnixStream::connect(inputs.socket_here.as_deref()?);
    let stream = tokio::time::timeout(FILES_TIME_LIMIT, connect).await.ok()?.ok()?;
    let pid = u32::try_from(stream.peer_cred().ok()?.pid()?).ok()?;
    let is_daemon = |process: &&Process| matches!(process.role, Role::Daemon | Role::Kubelet);
    sample.processes.get(&pid).filter(is_daemon).cloned()
}

async fn sample_proc<R>(
    run: HealthRun<'_, R>,
    paths: ProcPaths,
    known: Option<Arc<StatTable>>,
    shims: Shims,
) -> Result<ProcSample, String> {
    let limit = run.inputs.deadlines().proc.min(run.budget.left());
    let path = paths.proc.display().to_string();
    let (sections, ended) = offload::collect(limit, move |send: &dyn Fn(proc::Section)| {
        if paths.is_proc() {
            proc::read(&paths, known, shims, send);
        }
    })
    .await;
    if sections.is_empty() {
        return Err(if offload::refused() {
            format!("no thread could be started to read `{path}`")
        } else if ended {
            format!("`{path}` is not a process file system")
        } else {
            format!("`{path}` did not answer in time")
        });
    }
    Ok(proc::assemble(sections, ended))
}

/// Returns the samples of a recorded node, and what they cannot show. The recorder ran on the node, so its samples belong to
/// the recorded runtime.
pub(super) fn recorded(recorded: &RecordedProcesses, sampled_at: Mono) -> (HostEvidence, NotChecked) {
    let (first, second) = (recorded.first(), recorded.second());
    let ownership = Ownership::OfRuntime { daemon: recorded.latest.socket_owner };
    let host = HostEvidence { ownership, sampled_at, first, second, ..HostEvidence::default() };
    let why = format!(
        "not recorded, apart from the runtime, the kubelet and stopped shims as of {}",
        recorded.taken_at
    );
    (host, NotChecked::new(WHAT, why))
}

/// Decides whether a sample shows the process table of the probed runtime. Returns also what the sample cannot show, and
/// why.
pub(super) fn with_ownership(
    sample: ProcSample,
    sampled_at: Mono,
    evidence: &Evidence,
) -> (HostEvidence, Option<NotChecked>) {
    // Only ids from the runtime are compared, because ids from outside the CRI may come from this process table.
    let runtime = &evidence.runtime;
    let answered = runtime.status_calls.iter().filter(|record| record.result.is_ok());
    let ids = runtime.listed_ids().chain(answered.map(|record| record.target.id.as_str()));
    let ownership = sample.ownership(ids);
    let is_hidden = ownership == (Ownership::OfRuntime { daemon: None }) && evidence.socket.is_some();
    let skipped = if ownership == Ownership::Foreign {
        Some((WHAT, "the process table belongs to another machine or pod, not to this runtime"))
    } else if !sample.complete {
        Some(("part of /proc", "it was not read in time"))
    } else if is_hidden && sample.with_role(Role::Daemon).next().is_some() {
        let why = "several runtimes run here, and plegctl cannot see which of them listens on this socket";
        Some(("the runtime's daemon", why))
    } else if is_hidden {
        // In a pod without hostPID, `/proc` has only the pod's own processes.
        Some(("processes outside of this pod", "the runtime's daemon is not in this process table"))
    } else {
        None
    };
    let host = HostEvidence { ownership, sampled_at, first: sample, ..HostEvidence::default() };
    (host, skipped.map(|(what, why)| NotChecked::new(what, why)))
}

/// Returns the first sample with the cgroups of all processes, if a running container seems to have no process, or an exited one
/// may have one. A process whose shim or conmon has ended is below neither, and only its cgroup shows to which container it
/// belongs.
pub(super) async fn with_all_cgroups<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Option<ProcSample> {
    let is_odd = || oddities::a_container_is_missing(evidence) || living_exits::an_exit_is_unknown(evidence);
    let host = counted(evidence).filter(|_| is_odd())?;
    completed(run, host, proc::add_cgroups).await
}

/// Returns the first sample with all cgroups, the command lines of the shims and what their tasks wait for, if a sign suggests
/// that a shim does not answer.
pub(super) async fn with_details_of_shims<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<ProcSample> {
    let host = counted(evidence).filter(|_| suspicion::of_shims(evidence))?;
    let add = |paths: &ProcPaths, sample: &mut ProcSample| {
        proc::add_details_of_shims(paths, sample);
        proc::add_cgroups(paths, sample);
    };
    completed(run, host, add).await
}

/// Returns the node's processes if their shims were only counted.
fn counted(evidence: &Evidence) -> Option<&HostEvidence> {
    evidence.node().filter(|host| host.first.shims == Shims::Counted)
}

/// Returns the first sample with more details; `None` if they were not read in time.
async fn completed<R>(
    run: HealthRun<'_, R>,
    host: &HostEvidence,
    add: fn(&ProcPaths, &mut ProcSample),
) -> Option<ProcSample> {
    let (paths, mut sample) = (paths(run.inputs)?, host.first.clone());
    let limit = run.inputs.deadlines().proc.min(run.budget.left());
    let work = move || {
        add(&paths, &mut sample);
        sample
    };
    offload::value(limit, work).await
}

/// Finds the processes that are connected to the runtime's socket, without plegctl itself. Looks at all processes only if so
/// many connections exist, or so many bytes are not read, that D39 may report them, or if the lists are suspicious: then it
/// also reads for the first time what the clients have read and written. Returns also why the clients are not known although
/// the process table of the node is. A service that allows no netlink sockets, such as that of the recorder, cannot ask the
/// kernel.
pub(super) async fn socket_clients<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> (Option<SocketClients>, Option<NotChecked>) {
    let inputs = run.inputs;
    let (Some(host), Some(proc), Some(socket)) =
        (evidence.node(), inputs.proc.clone(), inputs.socket.clone().filter(|_| !inputs.is_recorded()))
    else {
        return (None, None);
    };
    let readable =
        |process: &&Process| !process.is_kernel_thread && process.state != 'D' && !process.is_zombie();
    let is_expected = |process: &&Process| process.role == Role::Kubelet || process.comm == OWN_NAME;
    let (expected, others): (Vec<&Process>, Vec<&Process>) =
        host.first.processes.values().filter(readable).partition(is_expected);
    let named = |processes: Vec<&Process>| {
        processes.into_iter().map(|process| (process.pid, process.comm.clone())).collect()
    };
    let candidates = Candidates { expected: named(expected), others: named(others) };
    let is_counted = inputs.mode == HealthMode::Deep || suspicion::of_lists(evidence);
    let connections = if is_counted { 1 } else { limits::SOCKET_CLIENTS };
    let crowd = Crowd { connections, unread: limits::UNREAD_BYTES };
    let daemon = evidence.daemon().map(|daemon| daemon.pid);
    let counted_at = inputs.clock.mono();
    let work = move || {
        let mut found = clients::read(&proc, &socket, &candidates, crowd)?;
        found.clients.retain(|client| client.comm != OWN_NAME);
        if is_counted {
            let all = [candidates.expected, candidates.others].concat();
            let elsewhere = clients::in_other_networks(&proc, &socket, &all);
            found.connections += elsewhere.iter().map(|client| client.connections).sum::<usize>();
            found.clients.extend(elsewhere);
            let pids: Vec<u32> = found.clients.iter().map(|client| client.pid).chain(daemon).collect();
            found.counted = IoCounters::of(&proc, &pids);
        }
        Some(SocketClients { counted_at, ..found })
    };
    // A node may have a hundred thousand descriptors.
    let limit = if is_counted { inputs.deadlines().proc } else { FILES_TIME_LIMIT };
    let found = offload::value(limit.min(run.budget.left()), work).await.flatten();
    let why = "the kernel did not list its sockets (sock_diag); a service may forbid netlink sockets";
    let skipped = || NotChecked::new("the clients of the runtime's socket", why);
    let skipped = found.is_none().then(skipped);
    (found, skipped)
}

/// Reads at the end of the run what the clients of the socket have read and written, if the first look is long enough ago.
/// Returns also the time since then. The run does not wait for this.
pub(super) async fn clients_counted_again<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<(Duration, BTreeMap<u32, IoCounters>)> {
    let clients = evidence.node()?.clients.as_ref().filter(|clients| !clients.counted.is_empty())?;
    let apart = run.inputs.clock.mono().since(clients.counted_at);
    let proc = run.inputs.proc.clone().filter(|_| apart >= limits::CLIENTS_COUNTED_FOR)?;
    let pids: Vec<u32> = clients.counted.keys().copied().collect();
    let limit = FILES_TIME_LIMIT.min(run.budget.left());
    Some((apart, offload::value(limit, move || IoCounters::of(&proc, &pids)).await?))
}

/// Reads the processes with blocked tasks again a moment later, because every write to a disk blocks a task for a moment.
/// Returns the process ids and the processes.
pub(super) async fn blocked_again<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<(Vec<u32>, BTreeMap<u32, Process>)> {
    let processes = evidence.node()?.first.processes.values();
    let blocked = processes.filter(|process| !process.blocked.is_empty() && evidence.concerns(process));
    let pids: Vec<u32> = blocked.map(|process| process.pid).collect();
    let paths = paths(run.inputs).filter(|_| !pids.is_empty() && run.budget.left() > FILES_TIME_LIMIT)?;
    tokio::time::sleep(limits::UNINTERRUPTIBLE_WAIT_NORMAL).await;
    let wanted = pids.clone();
    let again = offload::value(FILES_TIME_LIMIT, move || proc::read_again(&paths, &wanted)).await?;
    Some((pids, again))
}

/// Reads at the end of the run how long the CPU limit of its cgroup has stopped the daemon, and returns also the time
/// since the first sample. It reads only one file, so that a short run has time for it, and nothing if the cgroup has no
/// CPU limit.
pub(super) async fn throttled_at_end<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<(Duration, Throttled)> {
    let daemon = evidence.daemon()?.clone();
    let before = evidence.node()?.first.daemon_cgroup.throttled?;
    if before.limit.is_none() && before.total.is_zero() {
        return None;
    }
    let paths = paths(run.inputs)?;
    let limit = FILES_TIME_LIMIT.min(run.budget.left());
    let now = offload::value(limit, move || proc::throttled_now(&paths, &daemon)).await.flatten()?;
    Some((run.inputs.clock.mono().since(evidence.host.as_ref()?.sampled_at), now))
}
