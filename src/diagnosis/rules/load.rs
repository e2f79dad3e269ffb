//! The rules about the load of the node: D12 (memory), D13 (CPU time), D14 (exhausted limits), D15 (systemd), D17 (exec
//! probes) and D35 (CPU limit of the runtime). No rule uses the load average, because blocked tasks raise it too.

use std::time::Duration;

use super::node::blocking_processes;
use super::{Case, finding, reach};
use crate::diagnosis::daemon_watch::DaemonWatch;
use crate::diagnosis::evidence::{HostEvidence, Population};
use crate::diagnosis::facts::{DescriptorUse, ExpectedLoad, FactKind, ProcessRef, Resource};
use crate::diagnosis::journal::SystemState;
use crate::diagnosis::limits;
use crate::diagnosis::proc::{Ownership, ProcSample, Psi, Role};
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::report::{Command, Step};

/// Returns how much a counter of `vmstat` grew between two samples, and the time between them.
fn grown(host: &HostEvidence, name: &str) -> Option<(u64, Duration)> {
    let (apart, later) = host.second.as_ref()?;
    let before = host.first.vmstat.get(name)?;
    Some((later.vmstat.get(name)?.saturating_sub(*before), *apart))
}

fn per_second(count: u64, apart: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / apart.as_secs_f64().max(0.001)
}

/// Creates a finding from signs: with one sign it is only possible, with two it is likely.
fn from_signs(
    case: &Case<'_>,
    id: RuleId,
    title: FactKind,
    signs: Vec<FactKind>,
    steps: impl IntoIterator<Item = Step>,
) -> Option<HealthFinding> {
    let mut found = match signs.len() {
        0 => return None,
        1 => finding(id, Severity::Warning, Confidence::Possible, title),
        _ => case.cause(id, case.severity_of_cause(), Confidence::Likely, title),
    };
    found.add_facts(signs);
    found.steps = steps.into_iter().collect();
    Some(found)
}

/// Applies D12: the node lacks memory. This rule never reports a memory leak, because a run of plegctl is too short to
/// show a leak.
pub(super) fn memory(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut signs = Vec::new();
    let pressure = sample.pressure_on(|pressure| pressure.memory);
    if pressure.highest(Psi::all_waited) >= limits::MEMORY_FULL {
        signs.extend(Resource::Memory.pressure(&pressure));
    }
    let memory = sample.memory;
    if memory.total > 0 && memory.available * 100 < memory.total * limits::MEMORY_AVAILABLE_PERCENT {
        let (available_bytes, bytes) = (memory.available * 1024, memory.total * 1024);
        signs.push(FactKind::MemoryIsAvailable { available_bytes, bytes });
    }
    if let Some((processes, within)) = grown(host, "oom_kill").filter(|(killed, _)| *killed > 0) {
        signs.push(FactKind::KilledForMemory { processes, within: within.into() });
    }
    if let Some((faults, apart)) = grown(host, "pgmajfault")
        && per_second(faults, apart) >= limits::MAJOR_FAULTS_PER_SECOND
    {
        signs.push(FactKind::MajorPageFaults { faults, within: apart.into() });
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.out_of_memory.as_ref());
    let names_a_daemon = |line: &&String| {
        ["kubelet", "containerd", "crio", "runc", "conmon"].iter().any(|name| line.contains(name))
    };
    signs.extend(logged.filter(names_a_daemon).map(|line| FactKind::Logged { line: line.into() }));
    let largest = Command::new("ps -eo pid,rss,comm --sort -rss | head");
    let steps = [
        Step::look("set system-reserved and kube-reserved; limit the largest consumers"),
        Step::look("which processes are the largest").with(largest),
    ];
    from_signs(case, RuleId::OutOfMemory, FactKind::NodeIsOutOfMemory, signs, steps)
}

/// Applies D13: the daemons wait for CPU time.
pub(super) fn cpu(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut signs = Vec::new();
    // On a busy node, the daemon may still have all the CPU time that it needs.
    let pressure = sample.pressure_on(|pressure| pressure.cpu);
    let own_wait = case.evidence.daemon_watch().and_then(DaemonWatch::cpu_wait_percent);
    let daemon_waits = own_wait.is_none_or(|percent| percent >= limits::CPU_WAIT_PERCENT);
    if daemon_waits && pressure.of_daemon(Psi::some_waited) >= limits::CPU_SOME {
        signs.extend(Resource::Cpu.pressure(&pressure));
    }
    signs.extend(slow_version(case).filter(|_| daemon_waits));
    if let Some((_, later)) = &host.second {
        let total = later.cpu.total.saturating_sub(host.first.cpu.total);
        let steal = later.cpu.steal.saturating_sub(host.first.cpu.steal);
        let share = |part: u64| {
            100.0 * per_second(part, Duration::from_secs(1))
                / per_second(total, Duration::from_secs(1)).max(1.0)
        };
        if total > 0 && share(steal) >= limits::STEAL_PERCENT {
            signs.push(FactKind::HypervisorTakes { percent: share(steal).into() });
        }
    }
    let throttled = host.throttled_percent().filter(|_| !case.evidence.daemon_is_throttled());
    let throttled = throttled.filter(|percent| *percent >= limits::THROTTLED_HINT);
    signs.extend(throttled.map(|percent| throttling(case, host, percent)));
    let steps = [Step::look("give the node more CPU, or its daemons a reserve (system-reserved)")];
    let mut found = from_signs(case, RuleId::CpuStarved, FactKind::CpuIsStarved, signs, steps);
    if let Some(found) = &mut found {
        match own_wait.filter(|_| daemon_waits) {
            Some(percent) => {
                found.add_fact(FactKind::ThreadsOfRuntimeWaited { percent: percent.into() });
            }
            // The pressure of the node does not show that the daemon waits.
            None if pressure.daemon.is_none() && throttled.is_none() => {
                found.confidence = Confidence::Possible;
            }
            None => {}
        }
    }
    // CPU contention does not stop a task. If a stopped or waiting task blocks the calls, the finding about the task must
    // come first.
    let blocked_by = blocking_processes(case);
    let is_blocked = blocked_by.iter().any(|finding| finding.confidence != Confidence::Possible);
    if let Some(found) = found.as_mut().filter(|_| is_blocked) {
        found.severity = Severity::Warning;
    }
    found
}

/// Returns for how much of the time a CPU limit stopped the daemon.
fn throttling(case: &Case<'_>, host: &HostEvidence, percent: f64) -> FactKind {
    let limit = host.first.daemon_cgroup.throttled.and_then(|throttled| throttled.limit);
    FactKind::CpuLimitThrottled {
        process: case.evidence.daemon().map(ProcessRef::from),
        limit_percent: limit.map(|limit| (100.0 * limit).into()),
        percent: percent.min(100.0).into(),
    }
}

/// Applies D35. The kernel's counter proves the throttling, so no second sign is needed.
pub(super) fn throttled(case: &Case<'_>) -> Option<HealthFinding> {
    let throttled = case.evidence.node().and_then(|host| Some((host, host.throttled_percent()?)));
    let (host, percent) = throttled.filter(|_| case.evidence.daemon_is_throttled())?;
    // It is as severe as the slow status calls that it causes (D05), and so it stands before them.
    let is_slow = case.estimate.full_answering >= limits::RELIST_VERY_SLOW;
    let severity = if is_slow { Severity::Critical } else { case.severity_of_cause() };
    let mut found =
        case.cause(RuleId::ThrottledRuntime, severity, Confidence::Likely, FactKind::RuntimeIsThrottled);
    found.add_fact(throttling(case, host, percent));
    found.add_fact(FactKind::EverythingIsLate);
    let cgroup = case.evidence.daemon().map_or("CGROUP", |daemon| daemon.cpu_cgroup.trim_start_matches('/'));
    let is_v1 = host.first.daemon_cgroup.throttled.is_some_and(|throttled| throttled.is_v1);
    let (tree, file, none) =
        if is_v1 { ("cpu/", "cpu.cfs_quota_us", "echo -1 > {}") } else { ("", "cpu.max", "echo max > {}") };
    let file = format!("/sys/fs/cgroup/{tree}{cgroup}/{file}");
    found.add_step(Step::look("the limit, and who set it").with(Command::new("cat {}").arg(&file)));
    let unit = cgroup.rsplit('/').next().filter(|unit| unit.ends_with(".service"));
    found.add_step(Step::change("remove the limit").with(
        match unit.filter(|_| case.evidence.has_systemd()) {
            Some(unit) => Command::new("systemctl set-property --runtime {} CPUQuota=").arg(unit),
            None => Command::new(none).arg(file),
        },
    ));
    Some(found)
}

/// Returns a sign if a Version call is much slower than the quickest status call. Version needs no lock and little
/// work, so a slow Version shows that the daemon lacks CPU time. `control` is the Version call on a second connection.
fn slow_version(case: &Case<'_>) -> Option<FactKind> {
    let runtime = &case.evidence.runtime;
    let slowest = [&runtime.version, &runtime.control]
        .into_iter()
        .flatten()
        .filter(|call| call.result.is_ok())
        .map(|call| call.duration)
        .max()?;
    let best = runtime
        .status_calls
        .iter()
        .filter(|record| !record.is_silent())
        .map(|record| record.duration)
        .min()?;
    let took = slowest.saturating_sub(case.evidence.daemon_was_held());
    let slow = took >= limits::VERSION_FLOOR && took >= best * limits::VERSION_FACTOR;
    slow.then(|| FactKind::VersionIsSlow { version: slowest.into(), quickest_status: best.into() })
}

/// Applies D14. A line in the journal makes the finding certain, a limit that is nearly used up makes it likely.
pub(super) fn exhausted(case: &Case<'_>) -> Option<HealthFinding> {
    let mut signs = Vec::new();
    if case.evidence.no_thread {
        signs.push(FactKind::PlegctlGotNoThread);
    }
    if let Some(host) = case.evidence.node() {
        signs.extend(exhausted_on_node(case, host.latest()));
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.exhausted.as_ref());
    let confidence = if logged.is_some() { Confidence::Certain } else { Confidence::Likely };
    signs.extend(logged.map(|line| FactKind::Logged { line: line.into() }));
    if signs.is_empty() {
        return None;
    }
    let mut found =
        case.cause(RuleId::ExhaustedLimits, case.severity_of_cause(), confidence, FactKind::LimitsRunOut);
    found.add_facts(signs);
    let without_descriptor =
        case.evidence.daemon().and_then(|daemon| reach::without_descriptor(case.evidence, daemon));
    if let Some((full, steps)) = without_descriptor {
        found.set_title(FactKind::RuntimeOpensNoFile { full });
        found.steps = steps;
        let runtime = &case.evidence.runtime;
        let fails = runtime.status.as_ref().is_some_and(|call| call.result.is_err());
        if fails || runtime.errors_of_lists().next().is_some() {
            found.severity = Severity::Critical;
        }
    } else {
        found.add_step(Step::change("end the process that uses most of them, or raise the limit"));
    }
    Some(found)
}

/// Returns a sign for each maximum that the node, a cgroup or a process has nearly reached: a maximum number of tasks
/// or of file descriptors.
fn exhausted_on_node(case: &Case<'_>, sample: &ProcSample) -> Vec<FactKind> {
    let mut signs = Vec::new();
    let nearly = limits::EXHAUSTED_PERCENT;
    for (name, max) in [("pid_max", sample.tasks.pid_max), ("threads-max", sample.tasks.threads_max)] {
        if limits::reaches(sample.tasks.now, max, nearly) {
            signs.push(FactKind::TasksOf { tasks: sample.tasks.now, setting: name.into(), max });
            signs.extend(processes_with_most_tasks(case));
        }
    }
    signs.extend(sample.pids.iter().filter(|pids| limits::reaches(pids.current, pids.max, nearly)).map(
        |pids| FactKind::ProcessesIn { processes: pids.current, max: pids.max, cgroup: (&pids.path).into() },
    ));
    for process in sample.processes.values() {
        if let (Some(open), Some(limit)) = (process.descriptors, process.descriptor_limit)
            && limits::reaches(open, limit, nearly)
        {
            let full = DescriptorUse { process: process.into(), open, limit };
            signs.push(FactKind::DescriptorsOpen { full });
        }
    }
    signs
}

/// Names the process with the most threads, and the process with the most zombie children. A zombie counts as a task
/// until its parent collects it.
fn processes_with_most_tasks(case: &Case<'_>) -> Vec<FactKind> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let processes = &host.latest().processes;
    let mut facts = Vec::new();
    let threads = processes.values().max_by_key(|process| process.threads);
    facts.extend(
        threads.map(|process| FactKind::HasThreads { process: process.into(), threads: process.threads }),
    );
    let mut zombies = std::collections::BTreeMap::<u32, usize>::new();
    for process in processes.values().filter(|process| process.is_zombie()) {
        *zombies.entry(process.parent).or_default() += 1;
    }
    if let Some((parent, count)) = zombies.into_iter().max_by_key(|(_, count)| *count) {
        let name = processes.get(&parent).map(|parent| (&parent.comm).into());
        facts.push(FactKind::ZombieChildren { pid: parent, name, zombies: count });
    }
    facts
}

/// Applies D15. If the cgroup driver is cgroupfs, starts and stops of containers do not need systemd.
pub(super) fn systemd(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let host = evidence.node()?;
    if evidence.kubelet.config.cgroup_driver.as_deref() == Some("cgroupfs") || !evidence.has_systemd() {
        return None;
    }
    let sample = host.latest();
    let mut signs = Vec::new();
    if let Some(init) = sample.processes.get(&1).filter(|init| init.comm == "systemd") {
        if init.state == 'D' {
            signs.push(FactKind::SystemdWaits);
        }
        if let Some((apart, _)) = &host.second
            && let Some(before) = host.first.processes.get(&1)
        {
            let busy =
                100.0 * init.cpu.saturating_sub(before.cpu).as_secs_f64() / apart.as_secs_f64().max(0.001);
            if busy >= limits::INIT_BUSY_PERCENT {
                signs.push(FactKind::SystemdIsBusy { percent: busy.into() });
            }
        }
    }
    if let Some(SystemState::Silent(waited)) = &evidence.systemd {
        signs.push(FactKind::SystemctlDidNotEnd { waited: (*waited).into() });
    }
    if let Some(journal) = evidence.journal.as_ref().filter(|journal| journal.bus_timeouts > 0) {
        signs.push(FactKind::BusTimeouts { timeouts: journal.bus_timeouts });
    }
    if sample.mounts.len() > limits::MANY_MOUNTS {
        signs.push(FactKind::ManyMounts { mounts: sample.mounts.len() });
    }
    let jobs = Command::limited(10, "timeout {} systemctl --no-pager list-jobs");
    let again = Command::limited(60, "timeout {} systemctl daemon-reexec");
    let steps = [
        Step::look("what it does now").with(jobs),
        Step::change("then start it again (a newer systemd handles mounts better)").with(again),
    ];
    from_signs(case, RuleId::StuckSystemd, FactKind::SystemdDoesNotKeepUp, signs, steps)
}

impl ExpectedLoad {
    /// Returns the numbers; `None` if not all shims are in the sample.
    pub(super) fn of(case: &Case<'_>, host: &HostEvidence) -> Option<Self> {
        let Population { containers, sandboxes, .. } = case.evidence.runtime.population();
        let sample = host.latest();
        sample.complete.then(|| Self { containers, sandboxes, shims: sample.with_role(Role::Shim).count() })
    }

    pub(super) fn items(&self) -> u64 {
        let all = self.containers.saturating_add(self.sandboxes).saturating_add(self.shims);
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    pub(super) fn times(&self, factor: u64) -> u64 {
        factor.saturating_mul(self.items().saturating_add(limits::LEAK_OFFSET))
    }
}

/// Applies D17. It does not execute anything in a container.
pub(super) fn execs(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let host = evidence.node()?;
    let mut signs = Vec::new();
    if let Some(expected) = ExpectedLoad::of(case, host)
        && let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership
        && let Some(daemon) = host.latest().processes.get(&pid)
    {
        if daemon.threads >= expected.times(limits::LEAK_FACTOR) {
            let threads = daemon.threads;
            signs.push(FactKind::HasThreadsFor { process: daemon.into(), threads, expected });
        }
        if let Some(open) =
            daemon.descriptors.filter(|open| *open >= expected.times(limits::DESCRIPTOR_FACTOR))
        {
            let (process, descriptors) = (daemon.into(), open);
            signs.push(FactKind::HasDescriptorsFor { process, descriptors, expected });
        }
        if let Some(before) = host.first.processes.get(&pid).filter(|_| host.second.is_some())
            && daemon.threads * 100 >= before.threads * (100 + limits::GROWTH_PERCENT)
            && daemon.threads > limits::LEAK_OFFSET
        {
            signs.push(FactKind::ThreadsGrew { from: before.threads, to: daemon.threads });
        }
    }
    if let Some(journal) = &evidence.journal {
        let minutes = (journal.span_seconds / 60.0).max(1.0);
        let rate = f64::from(u32::try_from(journal.exec_timeouts).unwrap_or(u32::MAX)) / minutes;
        if rate >= f64::from(u32::try_from(limits::EXEC_ERRORS_PER_MINUTE).unwrap_or(u32::MAX)) {
            signs.push(FactKind::ExecProbesTimeOut { per_minute: rate.round().into() });
        }
    }
    if let Some(metrics) = evidence.kubelet.latest().map(|reading| &reading.metrics)
        && let (Some(execs), Some(all)) = (metrics.exec_calls, metrics.runtime_calls)
        && all > 0.0
        && execs / all > 0.5
    {
        signs.push(FactKind::CallsAreExecs { percent: (100.0 * execs / all).into() });
    }
    let zombies = host.latest().zombies_of_shims();
    if zombies > limits::ZOMBIES_OF_SHIMS {
        signs.push(FactKind::ZombiesUnderShims { zombies });
    }
    let steps = [Step::look("replace exec probes by httpGet, tcpSocket or grpc; raise their periodSeconds")];
    let mut found = from_signs(case, RuleId::ExecStorm, FactKind::ExecProbesPileUp, signs, steps);
    if let Some(found) = &mut found {
        found.severity = Severity::Warning;
    }
    found
}
