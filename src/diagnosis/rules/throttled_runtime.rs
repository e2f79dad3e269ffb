//! D35: the runtime is throttled by the CPU limit of its own cgroup.

use super::cpu_starved::throttling;
use super::prelude::*;

/// Applies D35. The kernel's counter proves the throttling, so no second sign is needed.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let throttled = case.evidence.node().and_then(|host| Some((host, host.throttled_percent()?)));
    let (host, percent) = throttled.filter(|_| case.evidence.daemon_is_throttled())?;
    // It is as severe as the slow status calls that it causes (D05), and so it stands before them.
    let is_slow = case.estimate.full_answering >= limits::RELIST_VERY_SLOW;
    let severity = if is_slow { Severity::Critical } else { case.severity_of_cause() };
    let mut found = case.cause(
        RuleId::ThrottledRuntime,
        severity,
        Confidence::Likely,
        FactKind::TitleOf { rule: RuleId::ThrottledRuntime },
    );
    found.add_fact(throttling(case, host, percent));
    found.add_fact(FactKind::EverythingIsLate);
    let cgroup = case.evidence.daemon().map_or("CGROUP", |daemon| daemon.cpu_cgroup.trim_start_matches('/'));
    let is_v1 = host.first.daemon_cgroup.throttled.is_some_and(|throttled| throttled.is_v1);
    let unit = cgroup.rsplit('/').next().filter(|unit| unit.ends_with(".service"));
    let by_file = if is_v1 { "limitInFileV1" } else { "limitInFile" };
    let id = if unit.is_some() && case.evidence.has_systemd() { "limitOfUnit" } else { by_file };
    let file = if is_v1 { format!("cpu/{cgroup}/cpu.cfs_quota_us") } else { format!("{cgroup}/cpu.max") };
    let file = Place::word(format!("/sys/fs/cgroup/{file}"));
    let unit = Place::word(unit.unwrap_or_default());
    found.steps = steps_of(id, &[("unit", unit), ("file", file)]);
    Some(found)
}

/// Returns a sign if a Version call is much slower than the quickest status call. Version needs no lock and little
/// work, so a slow Version shows that the daemon lacks CPU time. `control` is the Version call on a second connection.
pub(super) fn slow_version(case: &Case<'_>) -> Option<FactKind> {
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
