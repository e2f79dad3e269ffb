//! D15: systemd or D-Bus does not answer.

use super::load::from_signs;
use super::prelude::*;
use crate::diagnosis::journal::SystemState;

/// Applies D15. If the cgroup driver is cgroupfs, starts and stops of containers do not need systemd.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
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
    from_signs(case, RuleId::StuckSystemd, FactKind::SystemdDoesNotKeepUp, signs)
}
