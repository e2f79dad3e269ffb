//! D12, D13, D14, D15, D17, D35: memory, CPU, limits, systemd, exec probes. The load average proves none of
//! them.

use std::fmt;
use std::time::Duration;

use super::node::holder;
use super::{Case, finding};
use crate::diagnosis::commands::SystemState;
use crate::diagnosis::evidence::{HostEvidence, Population};
use crate::diagnosis::limits;
use crate::diagnosis::proc::{Ownership, ProcSample, Process, Role};
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::words::seconds;

/// Returns how much a counter of `vmstat` grew between two samples, and the time between them.
fn grown(host: &HostEvidence, name: &str) -> Option<(u64, Duration)> {
    let (apart, later) = host.second.as_ref()?;
    let before = host.first.vmstat.get(name)?;
    Some((later.vmstat.get(name)?.saturating_sub(*before), *apart))
}

fn per_second(count: u64, apart: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / apart.as_secs_f64().max(0.001)
}

/// Creates a finding that needs two signs: with one sign it is only possible.
fn from_signs(
    case: &Case<'_>,
    id: RuleId,
    title: &str,
    signs: Vec<String>,
    next: &[&str],
) -> Option<HealthFinding> {
    let mut found = match signs.len() {
        0 => return None,
        1 => finding(id, Severity::Warning, Confidence::Possible, title),
        _ => case.cause(id, case.severity_of_cause(), Confidence::Likely, title),
    };
    found.evidence = signs;
    found.next = next.iter().map(|line| (*line).to_owned()).collect();
    Some(found)
}

/// Applies D12. One reading of a size does not show a leak.
pub(super) fn memory(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut signs = Vec::new();
    if let Some(psi) = sample.pressure.memory.filter(|psi| psi.all_waited() >= limits::MEMORY_FULL) {
        signs.push(format!("memory pressure: all tasks waited {:.0} % of the last 10 s", psi.all_waited()));
    }
    let memory = sample.memory;
    if memory.total > 0 && memory.available * 100 < memory.total * limits::MEMORY_AVAILABLE_PERCENT {
        signs.push(format!(
            "{} of {} MiB of memory are available",
            memory.available / 1024,
            memory.total / 1024
        ));
    }
    if let Some((killed, apart)) = grown(host, "oom_kill").filter(|(killed, _)| *killed > 0) {
        signs.push(format!("{killed} processes were killed for memory within {}", seconds(apart)));
    }
    if let Some((faults, apart)) = grown(host, "pgmajfault")
        && per_second(faults, apart) >= limits::MAJOR_FAULTS_PER_SECOND
    {
        signs.push(format!("{faults} major faults within {}", seconds(apart)));
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.out_of_memory.clone());
    let names_us = |line: &String| {
        ["kubelet", "containerd", "crio", "runc", "conmon"].iter().any(|name| line.contains(name))
    };
    signs.extend(logged.filter(names_us));
    let next = [
        "set system-reserved and kube-reserved; limit the largest consumers",
        "ps -eo pid,rss,comm --sort -rss | head",
    ];
    from_signs(case, RuleId::D12, "the node is out of memory", signs, &next)
}

/// Applies D13.
pub(super) fn cpu(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut signs = Vec::new();
    if let Some(psi) = sample.pressure.cpu.filter(|psi| psi.some >= limits::CPU_SOME) {
        signs.push(format!("CPU pressure: some tasks waited {:.0} % of the last 10 s", psi.some));
    }
    signs.extend(slow_version(case));
    if let Some((_, later)) = &host.second {
        let total = later.cpu.total.saturating_sub(host.first.cpu.total);
        let steal = later.cpu.steal.saturating_sub(host.first.cpu.steal);
        let share = |part: u64| {
            100.0 * per_second(part, Duration::from_secs(1))
                / per_second(total, Duration::from_secs(1)).max(1.0)
        };
        if total > 0 && share(steal) >= limits::STEAL_PERCENT {
            signs.push(format!("the hypervisor takes {:.0} % of the CPU", share(steal)));
        }
    }
    let held_back = host.held_back_percent().filter(|_| !case.evidence.daemon_is_held_back());
    let held_back = held_back.filter(|percent| *percent >= limits::HELD_BACK_HINT);
    signs.extend(held_back.map(|percent| throttling_sign(case, host, percent)));
    let next = ["give the node more CPU, or its daemons a reserve (system-reserved)"];
    let mut found = from_signs(case, RuleId::D13, "the CPU is starved", signs, &next);
    // CPU contention does not stop a task: if a stopped or waiting task holds the calls up, that finding
    // comes first.
    let is_held_up = holder(case).iter().any(|holder| holder.confidence != Confidence::Possible);
    if let Some(found) = found.as_mut().filter(|_| is_held_up) {
        found.severity = Severity::Warning;
    }
    found
}

fn throttling_sign(case: &Case<'_>, host: &HostEvidence, percent: f64) -> String {
    let limit = host.first.daemon_throttled.and_then(|throttled| throttled.limit);
    let limit = limit.map(|limit| format!(" of {:.1} % of a processor", 100.0 * limit)).unwrap_or_default();
    let who = case.evidence.daemon().map_or_else(|| "the runtime".to_owned(), Process::label);
    format!("{who} has a CPU limit{limit}, which throttled it {:.0} % of the time", percent.min(100.0))
}

/// Applies D35. The kernel's counter proves the limit, so no second sign is needed.
pub(super) fn throttled(case: &Case<'_>) -> Option<HealthFinding> {
    let held_back = case.evidence.node().and_then(|host| Some((host, host.held_back_percent()?)));
    let (host, percent) = held_back.filter(|_| case.evidence.daemon_is_held_back())?;
    let title = "the runtime is throttled by the CPU limit of its own cgroup";
    let mut found = case.cause(RuleId::D35, case.severity_of_cause(), Confidence::Likely, title);
    found.evidence.push(throttling_sign(case, host, percent));
    found.evidence.push(
        "everything that the runtime does is late because of this; no single pod is the cause".to_owned(),
    );
    let cgroup = case.evidence.daemon().map_or("CGROUP", |daemon| daemon.cgroup.trim_start_matches('/'));
    found.next.push(format!("cat /sys/fs/cgroup/{cgroup}/cpu.max   # who set it?"));
    let unit = cgroup.rsplit('/').next().filter(|unit| unit.ends_with(".service")).unwrap_or("UNIT");
    found
        .next
        .push(format!("systemctl set-property --runtime {unit} CPUQuota=   # takes it off (changes state)"));
    Some(found)
}

/// Returns a sign if Version is far slower than the quickest status call: Version needs no lock and little
/// work, so the daemon lacks CPU time.
fn slow_version(case: &Case<'_>) -> Option<String> {
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
    let slow = slowest >= limits::VERSION_FLOOR && slowest >= best * limits::VERSION_FACTOR;
    slow.then(|| format!("Version took {}, the quickest status call {}", seconds(slowest), seconds(best)))
}

/// Applies D14. A log line makes it certain, a ratio likely.
pub(super) fn exhausted(case: &Case<'_>) -> Option<HealthFinding> {
    let mut signs = Vec::new();
    if case.evidence.no_thread {
        signs.push(
            "plegctl could not start a thread: a limit of its user, its cgroup (pids.max) or the node is \
             reached"
                .to_owned(),
        );
    }
    if let Some(host) = case.evidence.node() {
        signs.extend(exhausted_on_node(case, host.latest()));
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.exhausted.clone());
    let confidence = if logged.is_some() { Confidence::Certain } else { Confidence::Likely };
    signs.extend(logged);
    if signs.is_empty() {
        return None;
    }
    let title = "processes, threads or file descriptors run out";
    let mut found = case.cause(RuleId::D14, case.severity_of_cause(), confidence, title);
    found.evidence = signs;
    found.next.push("find who holds them and end it, or raise that limit (changes state)".to_owned());
    Some(found)
}

fn exhausted_on_node(case: &Case<'_>, sample: &ProcSample) -> Vec<String> {
    let mut signs = Vec::new();
    let percent = limits::EXHAUSTED_PERCENT;
    for (name, max) in [("pid_max", sample.tasks.pid_max), ("threads-max", sample.tasks.threads_max)] {
        if limits::reaches(sample.tasks.now, max, percent) {
            signs.push(format!("{} tasks of {name} {max}", sample.tasks.now));
            signs.extend(busiest_parent(case));
        }
    }
    signs.extend(
        sample
            .pids
            .iter()
            .filter(|pids| limits::reaches(pids.current, pids.max, percent))
            .map(|pids| format!("{} of {} processes in {}", pids.current, pids.max, pids.path)),
    );
    for process in sample.processes.values() {
        if let (Some(open), Some(limit)) = (process.descriptors, process.descriptor_limit)
            && limits::reaches(open, limit, percent)
        {
            signs.push(format!("{} has {open} of {limit} descriptors open", process.label()));
        }
    }
    signs
}

/// Names the process with the most threads, and the parent with the most zombies: zombies are no load, but
/// their parent has to be fixed.
fn busiest_parent(case: &Case<'_>) -> Vec<String> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let processes = &host.latest().processes;
    let mut lines = Vec::new();
    let threads = processes.values().max_by_key(|process| process.threads);
    lines.extend(threads.map(|process| format!("{} has {} threads", process.label(), process.threads)));
    let mut zombies = std::collections::BTreeMap::<u32, usize>::new();
    for process in processes.values().filter(|process| process.is_zombie()) {
        *zombies.entry(process.parent).or_default() += 1;
    }
    if let Some((parent, count)) = zombies.into_iter().max_by_key(|(_, count)| *count) {
        let parent = processes.get(&parent).map_or_else(|| parent.to_string(), Process::label);
        lines.push(format!("zombie children of {parent}: {count}"));
    }
    lines
}

/// Applies D15, unless the cgroup driver is cgroupfs.
pub(super) fn systemd(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let host = evidence.node()?;
    if evidence.kubelet.config.cgroup_driver.as_deref() == Some("cgroupfs") {
        return None;
    }
    let sample = host.latest();
    let mut signs = Vec::new();
    if let Some(init) = sample.processes.get(&1).filter(|init| init.comm == "systemd") {
        if init.state == 'D' {
            signs.push("systemd waits uninterruptibly".to_owned());
        }
        if let Some((apart, _)) = &host.second
            && let Some(before) = host.first.processes.get(&1)
        {
            let busy =
                100.0 * init.cpu.saturating_sub(before.cpu).as_secs_f64() / apart.as_secs_f64().max(0.001);
            if busy >= limits::INIT_BUSY_PERCENT {
                signs.push(format!("systemd uses {busy:.0} % of one CPU"));
            }
        }
    }
    if let Some(SystemState::Silent(waited)) = &evidence.systemd {
        signs.push(format!("systemctl is-system-running did not end within {}", seconds(*waited)));
    }
    if let Some(journal) = evidence.journal.as_ref().filter(|journal| journal.bus_timeouts > 0) {
        signs.push(format!("{} lines of D-Bus time-outs in the journal", journal.bus_timeouts));
    }
    if sample.mounts.len() > limits::MANY_MOUNTS {
        signs.push(format!("{} mounts", sample.mounts.len()));
    }
    let next =
        ["systemctl list-jobs; systemctl daemon-reexec (changes state); newer systemd handles mounts better"];
    from_signs(case, RuleId::D15, "systemd does not keep up", signs, &next)
}

/// The numbers that explain the threads and descriptors of a healthy runtime.
struct ExpectedLoad {
    containers: usize,
    sandboxes: usize,
    shims: usize,
}

impl ExpectedLoad {
    fn of(case: &Case<'_>, host: &HostEvidence) -> Self {
        let Population { containers, sandboxes, .. } = case.evidence.runtime.population();
        Self { containers, sandboxes, shims: host.latest().with_role(Role::Shim).count() }
    }

    fn times(&self, factor: u64) -> u64 {
        let all = self.containers.saturating_add(self.sandboxes).saturating_add(self.shims);
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        factor.saturating_mul(all.saturating_add(limits::LEAK_OFFSET))
    }
}

impl fmt::Display for ExpectedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { containers, sandboxes, shims } = self;
        write!(f, "{containers} containers, {sandboxes} sandboxes and {shims} shims")
    }
}

/// Applies D17. It executes nothing in a container.
pub(super) fn execs(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let host = evidence.node()?;
    let mut signs = Vec::new();
    let expected = ExpectedLoad::of(case, host);
    if let Ownership::Ours { daemon: Some(pid) } = host.ownership
        && let Some(daemon) = host.latest().processes.get(&pid)
    {
        if daemon.threads >= expected.times(limits::LEAK_FACTOR) {
            signs.push(format!("{} has {} threads for {expected}", daemon.label(), daemon.threads));
        }
        if let Some(open) =
            daemon.descriptors.filter(|open| *open >= expected.times(limits::DESCRIPTOR_FACTOR))
        {
            signs.push(format!("{} has {open} descriptors open for {expected}", daemon.label()));
        }
        if let Some(before) = host.first.processes.get(&pid).filter(|_| host.second.is_some())
            && daemon.threads * 100 >= before.threads * (100 + limits::GROWTH_PERCENT)
            && daemon.threads > limits::LEAK_OFFSET
        {
            signs.push(format!(
                "its number of threads grew from {} to {} during this run",
                before.threads, daemon.threads
            ));
        }
    }
    if let Some(journal) = &evidence.journal {
        let minutes = (journal.span_seconds / 60.0).max(1.0);
        let rate = f64::from(u32::try_from(journal.exec_timeouts).unwrap_or(u32::MAX)) / minutes;
        if rate >= f64::from(u32::try_from(limits::EXEC_ERRORS_PER_MINUTE).unwrap_or(u32::MAX)) {
            signs.push(format!("{} exec probes a minute run out of time", rate.round()));
        }
    }
    if let Some(metrics) = evidence.kubelet.latest().map(|reading| &reading.metrics)
        && let (Some(execs), Some(all)) = (metrics.exec_calls, metrics.runtime_calls)
        && all > 0.0
        && execs / all > 0.5
    {
        signs.push(format!("{:.0} % of the kubelet's calls to the runtime are execs", 100.0 * execs / all));
    }
    let zombies = host
        .latest()
        .processes
        .values()
        .filter(|process| process.is_zombie())
        .filter(|process| {
            host.latest().processes.get(&process.parent).is_some_and(|parent| parent.role == Role::Shim)
        })
        .count();
    if zombies > 50 {
        signs.push(format!("{zombies} zombies under shims"));
    }
    let next = ["replace exec probes by httpGet, tcpSocket or grpc; raise their periodSeconds"];
    let mut found = from_signs(case, RuleId::D17, "exec probes pile up", signs, &next);
    if let Some(found) = &mut found {
        found.severity = Severity::Warning;
    }
    found
}
