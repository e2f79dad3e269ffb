//! D13: the CPU is starved.

use super::prelude::*;

use super::hung_process;
use super::load::{from_signs, per_second};
use super::throttled_runtime::slow_version;
use crate::diagnosis::daemon_watch::DaemonWatch;

/// Applies D13: the daemons wait for CPU time.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
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
    let title = FactKind::TitleOf { rule: RuleId::CpuStarved };
    let mut found = from_signs(case, RuleId::CpuStarved, title, signs);
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
    let blocked_by = hung_process::find(case);
    let is_blocked = blocked_by.iter().any(|finding| finding.confidence != Confidence::Possible);
    if let Some(found) = found.as_mut().filter(|_| is_blocked) {
        found.severity = Severity::Warning;
    }
    found
}

/// Returns for how much of the time a CPU limit stopped the daemon.
pub(super) fn throttling(case: &Case<'_>, host: &HostEvidence, percent: f64) -> FactKind {
    let limit = host.first.daemon_cgroup.throttled.and_then(|throttled| throttled.limit);
    FactKind::CpuLimitThrottled {
        process: case.evidence.daemon().map(ProcessRef::from),
        limit_percent: limit.map(|limit| (100.0 * limit).into()),
        percent: percent.min(100.0).into(),
    }
}
