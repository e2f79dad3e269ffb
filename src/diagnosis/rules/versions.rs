//! D27: versions with a known bug. The finding is a hint, never a cause.

use super::{Case, finding};
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};

/// A release line with a bug, and the version that fixes it.
struct KnownBug {
    /// The runtime's name.
    runtime: &'static str,
    /// The first version with the bug.
    from: [u32; 3],
    /// The first version without the bug.
    fixed: Option<[u32; 3]>,
    /// What the bug does.
    fault: &'static str,
    /// Where the bug is described.
    source: &'static str,
}

const KNOWN: [KnownBug; 6] = [
    KnownBug {
        runtime: "containerd",
        from: [1, 4, 4],
        fixed: Some([1, 4, 5]),
        fault: "some builds of it hang in start and stop",
        source: "containerd/containerd#5274",
    },
    KnownBug {
        runtime: "containerd",
        from: [1, 7, 0],
        fixed: Some([1, 7, 35]),
        fault: "exec probes that leave children behind leak goroutines",
        source: "CVE-2026-53495",
    },
    KnownBug {
        runtime: "containerd",
        from: [2, 0, 0],
        fixed: Some([2, 0, 12]),
        fault: "exec probes that leave children behind leak goroutines",
        source: "CVE-2026-53495",
    },
    KnownBug {
        runtime: "containerd",
        from: [2, 2, 0],
        fixed: Some([2, 2, 8]),
        fault: "exec probes that leave children behind leak goroutines",
        source: "CVE-2026-53495",
    },
    KnownBug {
        runtime: "containerd",
        from: [2, 3, 0],
        fixed: Some([2, 3, 5]),
        fault: "exec probes that leave children behind leak goroutines",
        source: "CVE-2026-53495",
    },
    KnownBug {
        runtime: "cri-o",
        from: [1, 33, 2],
        fixed: Some([1, 33, 9]),
        fault: "stopping a container can deadlock",
        source: "cri-o/cri-o#9754",
    },
];

/// Returns the leading numbers of a version, whatever suffix a package adds.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.trim_start_matches('v').split(['.', '~', '+', '-']);
    let mut next = || parts.next()?.parse::<u32>().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

/// Applies D27.
pub(super) fn known_bad(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(version) = case.evidence.runtime.version_answer() else {
        return Vec::new();
    };
    let Some(ours) = numbers(&version.runtime_version) else {
        return Vec::new();
    };
    KNOWN
        .iter()
        .filter(|known| known.runtime == version.runtime_name)
        .filter(|known| {
            known.from[..2] == ours[..2] && known.from <= ours && known.fixed.is_none_or(|fixed| ours < fixed)
        })
        .map(|known| {
            let title = format!(
                "{} {} has a known fault: {}",
                version.runtime_name, version.runtime_version, known.fault
            );
            let mut found = finding(RuleId::D27, Severity::Info, Confidence::Possible, title);
            found.evidence.push(format!("see {}", known.source));
            found
                .evidence
                .extend(known.fixed.map(|[major, minor, patch]| format!("fixed in {major}.{minor}.{patch}")));
            found.evidence.push("there is no proof that it is the cause here".to_owned());
            found
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packagers_versions_are_read() {
        assert_eq!(numbers("1.6.20~ds1"), Some([1, 6, 20]));
        assert_eq!(numbers("2.1.9+unknown"), Some([2, 1, 9]));
        assert_eq!(numbers("v2.0.0-rc.1"), Some([2, 0, 0]));
        assert_eq!(numbers("devel"), None);
    }
}
