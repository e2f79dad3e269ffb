//! D17: too many exec probes, or exec probes that leak.

use super::load::from_signs;
use super::prelude::*;
use crate::diagnosis::facts::ExpectedLoad;

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
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let host = evidence.node()?;
    let mut signs = Vec::new();
    if let Some(expected) = ExpectedLoad::of(case, host)
        && let Some(daemon) = evidence.daemon()
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
        if let Some(before) = host.first.processes.get(&daemon.pid).filter(|_| host.second.is_some())
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
    let mut found = from_signs(case, RuleId::ExecStorm, FactKind::ExecProbesPileUp, signs);
    if let Some(found) = &mut found {
        found.severity = Severity::Warning;
    }
    found
}
