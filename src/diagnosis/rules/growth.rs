//! D40: a runtime, a kubelet or a shim that is larger than its pods explain, as it becomes by a leak.

use super::load::ExpectedLoad;
use super::{Case, finding, versions};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::HostEvidence;
use crate::diagnosis::limits;
use crate::diagnosis::proc::{Process, Role};
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::shim_sizes::{self, ShimSizes};
use crate::report::duration::elapsed;
use crate::report::{Command, Step, plural};

/// What grows in a process that leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Memory,
    Threads,
    Descriptors,
}

const SECONDS_PER_DAY: u64 = 86_400;

/// The most shims that are reported.
const MAX_SHIMS: usize = 3;

/// Applies D40.
pub(super) fn too_large(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else { return Vec::new() };
    let daemon = case.evidence.daemon().and_then(|daemon| host.latest().processes.get(&daemon.pid));
    // A k3s contains much more than a kubelet.
    let kubelet = host.latest().with_role(Role::Kubelet).find(|process| process.comm == "kubelet");
    let daemons = daemon.into_iter().chain(kubelet).filter_map(|process| grown(case, host, process));
    daemons.chain(shims(case, host)).collect()
}

/// Reports a runtime or a kubelet that is larger than the number of its containers explains. One reading shows its size and
/// its age, and no growth; a release that is known to leak makes the growth likely.
fn grown(case: &Case<'_>, host: &HostEvidence, process: &Process) -> Option<HealthFinding> {
    let expected = ExpectedLoad::of(case, host)?;
    let descriptors = process.descriptors.unwrap_or(0);
    let mebibytes = process.resident >> 20;
    let sizes = [
        (
            Size::Memory,
            process.resident,
            limits::GROWN_BYTES.saturating_add(expected.items().saturating_mul(limits::GROWN_BYTES_EACH)),
            format!("{mebibytes} MiB of memory"),
        ),
        (
            Size::Threads,
            process.threads,
            expected.times(limits::LEAK_FACTOR),
            format!("{} threads", process.threads),
        ),
        (
            Size::Descriptors,
            descriptors,
            expected.times(limits::DESCRIPTOR_FACTOR),
            format!("{descriptors} open descriptors"),
        ),
    ];
    let large: Vec<_> = sizes.iter().filter(|(_, size, least, _)| size >= least).collect();
    if large.is_empty() || process.age < limits::GROWN_AGE {
        return None;
    }
    let bugs: Vec<String> =
        large.iter().flat_map(|(size, ..)| versions::growth(case, process, *size)).collect();
    let confidence = if bugs.is_empty() { Confidence::Possible } else { Confidence::Likely };
    let total = host.latest().memory.total.saturating_mul(1024);
    let is_heavy = limits::reaches(process.resident, total, limits::GROWN_PERCENT);
    let severity = if is_heavy { Severity::Warning } else { Severity::Info };
    let words: Vec<&str> = large.iter().map(|(.., words)| words.as_str()).collect();
    let age = elapsed(process.age);
    let title = format!("{} has {} after {age}", process.label(), words.join(" and "));
    let mut found = finding(RuleId::D40, severity, confidence, title);
    found.add_evidence(format!(
        "{mebibytes} MiB, {} threads, {descriptors} descriptors for {expected}; started {age} ago",
        process.threads
    ));
    let days = process.age.as_secs() / SECONDS_PER_DAY;
    if let Some(each) = mebibytes.checked_div(days) {
        found.add_evidence(format!("if it grew steadily: {each} MiB for each day"));
    }
    found.evidence.extend(bugs);
    if confidence == Confidence::Possible {
        found.add_evidence("no release of this version is known to leak; a busy node can need as much");
    }
    let pid = process.pid;
    let read =
        Command::new("grep -E 'VmRSS|Threads' /proc/{}/status; ls /proc/{}/fd | wc -l").pid(pid).pid(pid);
    found.add_step(Step::look("does it grow? look now and in an hour").with(read));
    found.add_step(Step::change(
        "save its goroutine stacks, then restart it: a restart frees the memory and removes the evidence",
    ));
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
        let of_pod = id.and_then(|id| case.evidence.names.pod(id));
        let of_pod = of_pod.map(|pod| format!(" of {pod}")).unwrap_or_default();
        let threads = |count: u64| plural(usize::try_from(count).unwrap_or(usize::MAX), "thread");
        let size = format!("{} MiB and {}", shim.resident >> 20, threads(shim.threads));
        let title = format!("{}{of_pod} is far larger than the other shims: {size}", shim.label());
        let found = finding(RuleId::D40, Severity::Warning, confidence, title);
        let mut found = case.about(found, id);
        found.add_evidence(format!(
            "{size}, {} old; the median of {} shims is {} MiB and {}",
            elapsed(shim.age),
            sizes.count,
            sizes.resident >> 20,
            threads(sizes.threads)
        ));
        found.add_evidence(
            "goroutines that wait for ever make a shim so large; a stop or an exec of its pod may hang with them",
        );
        found.add_step(advice::shim_stacks(shim.pid));
        found.add_step(Step::change("delete the pod; if it stays Terminating, end the shim"));
        Some(found)
    })
}
