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
    fixed: [u32; 3],
    /// What the bug does.
    fault: &'static str,
    /// Where the bug is described.
    source: &'static str,
}

/// What several releases of containerd do.
const EXEC_LEAK: &str = "exec probes that leave children behind leak goroutines";

const KNOWN: [KnownBug; 6] = [
    containerd(
        [1, 4, 4],
        [1, 4, 5],
        "some builds of it hang in start and stop",
        "containerd/containerd#5274",
    ),
    containerd([1, 7, 0], [1, 7, 35], EXEC_LEAK, "CVE-2026-53495"),
    containerd([2, 0, 0], [2, 0, 12], EXEC_LEAK, "CVE-2026-53495"),
    containerd([2, 2, 0], [2, 2, 8], EXEC_LEAK, "CVE-2026-53495"),
    containerd([2, 3, 0], [2, 3, 5], EXEC_LEAK, "CVE-2026-53495"),
    KnownBug {
        runtime: "cri-o",
        from: [1, 33, 2],
        fixed: [1, 33, 9],
        fault: "stopping a container can deadlock",
        source: "cri-o/cri-o#9754",
    },
];

const fn containerd(from: [u32; 3], fixed: [u32; 3], fault: &'static str, source: &'static str) -> KnownBug {
    KnownBug { runtime: "containerd", from, fixed, fault, source }
}

/// Returns the leading numbers of a version, whatever suffix a package adds.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.trim_start_matches('v').split(['.', '~', '+', '-']);
    let mut next = || parts.next()?.parse::<u32>().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

/// Applies D27.
pub(super) fn known_bad(case: &Case<'_>) -> Vec<HealthFinding> {
    let version = case.evidence.runtime.version_answer();
    let Some((version, ours)) =
        version.and_then(|version| Some((version, numbers(&version.runtime_version)?)))
    else {
        return Vec::new();
    };
    KNOWN
        .iter()
        .filter(|known| known.runtime == version.runtime_name)
        .filter(|known| known.from[..2] == ours[..2] && known.from <= ours && ours < known.fixed)
        .map(|known| {
            let title = format!(
                "{} {} has a known fault: {}",
                version.runtime_name, version.runtime_version, known.fault
            );
            let mut found = finding(RuleId::D27, Severity::Info, Confidence::Possible, title);
            found.evidence.push(format!("see {}", known.source));
            let [major, minor, patch] = known.fixed;
            found.evidence.push(format!("fixed in {major}.{minor}.{patch}"));
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
