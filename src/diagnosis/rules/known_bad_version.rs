//! D27: a version with a known fault.

use std::sync::LazyLock;

use super::large_daemon::Size;
use super::prelude::*;
use crate::cri::program_of;
use crate::diagnosis::evidence::Settings;
use crate::diagnosis::facts::Release;

/// A range of versions of a program that have a bug.
struct KnownBug {
    /// The program's name: a runtime's, or `kubelet`.
    program: &'static str,
    /// The first version with the bug.
    from: [u32; 3],
    /// The first version that is not listed as buggy: the one with the fix or, if no fix is known, the one after the
    /// last version in which the bug was seen.
    until: [u32; 3],
    /// Whether `until` is known to fix the bug.
    is_fixed: bool,
    /// What the bug does.
    fault: &'static str,
    /// Where the bug is described.
    source: &'static str,
    /// The words of the [`Size`]s that grow in the program because of the bug.
    grows: &'static str,
}

/// The rows of `known_versions.txt`.
static KNOWN: LazyLock<Vec<KnownBug>> = LazyLock::new(|| rows().filter_map(known_bug).collect());

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("known_versions.txt").lines().filter(|line| !line.starts_with('#'))
}

/// Parses a row of the table. A test checks that each row is complete.
fn known_bug(row: &'static str) -> Option<KnownBug> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [program, from, until, grows, source, fault] = *cells.as_slice() else { return None };
    let last = until.strip_suffix('?');
    let (from, until) = (numbers(from)?, numbers(last.unwrap_or(until))?);
    Some(KnownBug { program, from, until, is_fixed: last.is_none(), fault, source, grows })
}

/// Returns the numbers of a version, without the suffix that a package may add.
pub(super) fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.trim_start_matches('v').split(['.', '~', '+', '-']);
    let mut next = || parts.next()?.parse::<u32>().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

/// Applies D27 to the runtime and to the kubelet, as far as their versions are known.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let findings = |(program, version): (&str, String)| known_bugs(program, &version);
    programs(case).flat_map(findings).collect()
}

/// Describes the known bugs by which `size` grows in a process of the runtime or of the kubelet.
pub(super) fn growth(case: &Case<'_>, process: &Process, size: Size) -> Vec<FactKind> {
    let is_kubelet = process.role == Role::Kubelet;
    let bugs = programs(case).filter(|(program, _)| (*program == "kubelet") == is_kubelet);
    let describe = |(program, version): (&str, String)| {
        let bugs =
            bugs_of(program, &version).filter(|bug| bug.grows.split(' ').any(|word| word == size.word()));
        let describe = |bug: &KnownBug| FactKind::KnownLeak {
            program: program.into(),
            version: (&version).into(),
            fault: bug.fault.into(),
            source: bug.source.into(),
            fixed_in: bug.fixed_in(),
        };
        bugs.map(describe).collect::<Vec<_>>()
    };
    bugs.flat_map(describe).collect()
}

/// Returns the runtime and the kubelet with their versions, as far as they are known.
fn programs<'a>(case: &Case<'a>) -> impl Iterator<Item = (&'a str, String)> {
    // A simulated program has its version only for show.
    let is_real = !case.evidence.endpoint.starts_with("sim:");
    let version = case.evidence.runtime.version_answer();
    let runtime = version.map(|version| (version.runtime_name.as_str(), version.runtime_version.clone()));
    let kubelet = kubelet_version(case).map(|version| ("kubelet", version));
    runtime.into_iter().chain(kubelet).filter(move |_| is_real)
}

/// Returns the version that the kubelet's metrics name, or the release that the user named.
fn kubelet_version(case: &Case<'_>) -> Option<String> {
    let metrics = case.evidence.kubelet.latest().and_then(|reading| reading.metrics.version.clone());
    let settings = &case.evidence.settings.kubelet;
    let is_named = *settings != Settings::default().kubelet;
    metrics.or_else(|| is_named.then(|| settings.value.to_string()))
}

impl KnownBug {
    /// Returns the version that fixes the bug, if it is known.
    fn fixed_in(&self) -> Option<Release> {
        let [major, minor, patch] = self.until;
        self.is_fixed.then(|| Release(format!("{major}.{minor}.{patch}")))
    }
}

/// Returns the known bugs of a version.
fn bugs_of(program: &str, version: &str) -> impl Iterator<Item = &'static KnownBug> {
    let ours = numbers(version);
    let program = program_of(program).to_owned();
    let known = KNOWN.iter().filter(move |known| known.program == program);
    known.filter(move |known| ours.is_some_and(|ours| known.from <= ours && ours < known.until))
}

fn known_bugs(program: &str, version: &str) -> Vec<HealthFinding> {
    bugs_of(program, version)
        .map(|known| {
            let version = version.trim_start_matches('v');
            let (program, version, fault) = (program.into(), version.into(), known.fault.into());
            let title = FactKind::KnownFault { program, version, fault };
            let mut found = finding(RuleId::KnownBadVersion, Severity::Info, Confidence::Possible, title);
            found.add_fact(FactKind::See { source: known.source.into() });
            found.add_fact(FactKind::FixedIn { version: known.fixed_in() });
            found.add_fact(FactKind::NoProofOfFault);
            found
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_suffixes_of_packages_are_parsed() {
        assert_eq!(numbers("1.6.20~ds1"), Some([1, 6, 20]));
        assert_eq!(numbers("2.1.9+unknown"), Some([2, 1, 9]));
        assert_eq!(numbers("v2.0.0-rc.1"), Some([2, 0, 0]));
        assert_eq!(numbers("devel"), None);
    }

    const EXEC_LEAK: &str = "exec probes that leave children behind leak goroutines";
    const SHIM_LEAK: &str = "shims stay after their pods are gone";

    fn faults(program: &str, version: &str) -> Vec<String> {
        let title = |found: HealthFinding| found.title.split_once(": ").unwrap().1.to_owned();
        known_bugs(program, version).into_iter().map(title).collect()
    }

    #[test]
    fn a_range_begins_with_its_first_version_and_ends_before_its_fix() {
        let deadlock = "its NRI calls can deadlock";
        assert_eq!(faults("containerd", "1.7.14"), [EXEC_LEAK]);
        assert_eq!(faults("containerd", "1.7.16~ds1"), [EXEC_LEAK, deadlock]);
        assert_eq!(faults("containerd", "1.7.17"), [EXEC_LEAK]);
        assert_eq!(faults("containerd", "v2.1.4"), [SHIM_LEAK]);
        assert_eq!(faults("containerd", "2.1.5"), [""; 0]);
        assert_eq!(faults("containerd", "2.3.1").len(), 2);
        assert_eq!(faults("containerd", "2.3.3"), [EXEC_LEAK]);
        assert_eq!(faults("cri-o", "1.33.8").len(), 1);
        for (program, version) in
            [("cri-o", "1.36.0"), ("cri-o", "1.37.0"), ("containerd", "2.3.5"), ("containerd", "v2.4.0")]
        {
            assert_eq!(faults(program, version), [""; 0], "{program} {version}");
        }
    }

    #[test]
    fn a_build_of_containerd_with_the_name_of_its_vendor_has_containerds_faults() {
        assert_eq!(faults("moby-containerd", "1.7.32-1"), [EXEC_LEAK]);
        assert_eq!(faults("moby-containerd", "2.3.5"), [""; 0]);
    }

    #[test]
    fn faults_of_kubelets_reach_across_releases() {
        assert_eq!(faults("kubelet", "v1.31.4").len(), 2);
        assert_eq!(faults("kubelet", "v1.35.0+k3s1").len(), 4);
        assert_eq!(faults("kubelet", "1.36").len(), 5);
        let until_138 = [
            "it may report a recreated container Ready after its restart",
            "it may panic when a memory limit is lowered in place",
        ];
        assert_eq!(faults("kubelet", "v1.37.1"), until_138);
        assert_eq!(
            faults("kubelet", "v1.32.0"),
            ["its shutdown manager leaks D-Bus connections", until_138[0]]
        );
        assert_eq!(faults("kubelet", "v1.38.0"), [""; 0]);
        assert_eq!(faults("dockerd", "1.36"), [""; 0]);
        let unfixed = known_bugs("kubelet", "1.35").swap_remove(1);
        assert!(unfixed.evidence.contains(&"no version with a fix is known".to_owned()), "{unfixed:?}");
    }

    #[test]
    fn every_range_has_a_version_and_a_fault_that_fits_a_line() {
        assert_eq!(KNOWN.len(), rows().count());
        for known in &*KNOWN {
            let words = known.grows.split(' ').filter(|word| !word.is_empty());
            let sizes = [Size::Memory, Size::Threads, Size::Descriptors].map(Size::word);
            assert!(words.into_iter().all(|word| sizes.contains(&word)), "{}", known.grows);
            assert!(known.from < known.until, "{}", known.source);
            let [major, minor, patch] = known.from;
            for found in known_bugs(known.program, &format!("{major}.{minor}.{patch}")) {
                assert!(found.title.len() <= 100, "{}", found.title);
            }
        }
    }
}
