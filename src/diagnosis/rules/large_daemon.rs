//! D40: a runtime, a kubelet or a shim is larger than its pods explain.

use super::known_bad_version;
use super::prelude::*;
use crate::diagnosis::facts::ExpectedLoad;
use crate::diagnosis::shim_sizes::{self, ShimSizes};
use crate::report::word_enum;

word_enum! {
    /// What grows in a process that leaks.
    pub(super) enum Size: word {
        Memory = "memory",
        Threads = "threads",
        Descriptors = "descriptors",
    }
}

const SECONDS_PER_DAY: u64 = 86_400;

/// The most shims that are reported.
const MAX_SHIMS: usize = 3;

/// Applies D40.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else { return Vec::new() };
    // A k3s contains much more than a kubelet.
    let kubelet = host.latest().with_role(Role::Kubelet).find(|process| process.comm == "kubelet");
    let daemons =
        case.evidence.daemon().into_iter().chain(kubelet).filter_map(|process| grown(case, host, process));
    daemons.chain(shims(case, host)).collect()
}

/// Reports a runtime or a kubelet that is larger than the number of its containers explains. One reading shows its size and
/// its age, and no growth; a release that is known to leak makes the growth likely.
fn grown(case: &Case<'_>, host: &HostEvidence, process: &Process) -> Option<HealthFinding> {
    let expected = ExpectedLoad::of(case, host)?;
    let descriptors = process.descriptors.unwrap_or(0);
    let most_bytes =
        limits::GROWN_BYTES.saturating_add(expected.items().saturating_mul(limits::GROWN_BYTES_EACH));
    let sizes = [
        (Size::Memory, process.resident, most_bytes),
        (Size::Threads, process.threads, expected.times(limits::LEAK_FACTOR)),
        (Size::Descriptors, descriptors, expected.times(limits::DESCRIPTOR_FACTOR)),
    ];
    let large: Vec<_> = sizes.iter().filter(|(_, size, least)| size >= least).collect();
    if large.is_empty() || process.age < limits::GROWN_AGE {
        return None;
    }
    let bugs: Vec<FactKind> =
        large.iter().flat_map(|(size, ..)| known_bad_version::growth(case, process, *size)).collect();
    let confidence = if bugs.is_empty() { Confidence::Possible } else { Confidence::Likely };
    let total = host.latest().memory.total.saturating_mul(1024);
    let is_heavy = limits::reaches(process.resident, total, limits::GROWN_PERCENT);
    let severity = if is_heavy { Severity::Warning } else { Severity::Info };
    let size_if_large = |kind| large.iter().find(|(size, ..)| *size == kind).map(|(_, size, _)| *size);
    let age = process.age.into();
    let title = FactKind::HasGrown {
        process: process.into(),
        bytes: size_if_large(Size::Memory),
        threads: size_if_large(Size::Threads),
        descriptors: size_if_large(Size::Descriptors),
        age,
    };
    let mut found = finding(RuleId::LargeDaemon, severity, confidence, title);
    let (bytes, threads) = (process.resident, process.threads);
    found.add_fact(FactKind::SizeOfProcess { bytes, threads, descriptors, expected, age });
    let bytes_per_day = bytes.checked_div(process.age.as_secs() / SECONDS_PER_DAY);
    found.add_facts(bytes_per_day.map(|bytes_per_day| FactKind::SteadyGrowth { bytes_per_day }));
    found.add_facts(bugs);
    if confidence == Confidence::Possible {
        found.add_fact(FactKind::NoKnownLeak);
    }
    found.steps = steps_of("largeDaemon", &of_process(process));
    Some(found)
}

/// Reports shims that are far larger than the others.
fn shims<'a>(case: &Case<'a>, host: &'a HostEvidence) -> impl Iterator<Item = HealthFinding> {
    let sample = host.latest();
    let was_large = |shim: &Process| shim_sizes::outliers(&host.first).any(|before| before.pid == shim.pid);
    let large = shim_sizes::outliers(sample).filter(|shim| case.evidence.concerns(shim)).take(MAX_SHIMS);
    large.filter_map(move |shim| {
        let sizes = ShimSizes::of(sample)?;
        let is_likely = host.second.is_some() && was_large(shim);
        let confidence = if is_likely { Confidence::Likely } else { Confidence::Possible };
        let id = shim.flag("id");
        let title = FactKind::ShimIsLarge {
            shim: shim.into(),
            pod: id.and_then(|id| case.evidence.names.pod(id)),
            bytes: shim.resident,
            threads: shim.threads,
        };
        let found = finding(RuleId::LargeDaemon, Severity::Warning, confidence, title);
        let mut found = case.about(found, id);
        found.add_fact(FactKind::SizeAmongShims {
            bytes: shim.resident,
            threads: shim.threads,
            age: shim.age.into(),
            shims: sizes.count,
            median_bytes: sizes.resident,
            median_threads: sizes.threads,
        });
        found.add_fact(FactKind::GoroutinesWaitForEver);
        found.add_step(advice::shim_stacks(shim.pid));
        found.add_step(Step::change("delete the pod; if it stays Terminating, end the shim"));
        Some(found)
    })
}
