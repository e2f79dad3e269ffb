//! Signs of load on the node, for the rules about memory, CPU time, limits, systemd and exec probes. None uses the load average,
//! because blocked tasks raise it too.

use super::prelude::*;

/// Returns how much a counter of `vmstat` grew between two samples, and the time between them.
pub(super) fn grown(host: &HostEvidence, name: &str) -> Option<(u64, Duration)> {
    let (apart, later) = host.second.as_ref()?;
    let before = host.first.vmstat.get(name)?;
    Some((later.vmstat.get(name)?.saturating_sub(*before), *apart))
}

pub(super) fn per_second(count: u64, apart: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / apart.as_secs_f64().max(0.001)
}

/// Creates a finding from signs: with one sign it is only possible, with two it is likely.
pub(super) fn from_signs(
    case: &Case<'_>,
    id: RuleId,
    title: FactKind,
    signs: Vec<FactKind>,
) -> Option<HealthFinding> {
    let mut found = match signs.len() {
        0 => return None,
        1 => finding(id, Severity::Warning, Confidence::Possible, title),
        _ => case.cause(id, case.severity_of_cause(), Confidence::Likely, title),
    };
    found.add_facts(signs);
    Some(found)
}
