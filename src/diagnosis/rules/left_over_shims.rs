//! D38: shims run that belong to no pod.

use super::prelude::*;
use crate::diagnosis::facts::Item;
use crate::diagnosis::left_over_shims::{Bundle, LeftOverShim};
use crate::diagnosis::proc::is_conmon;

/// The most shims that the evidence describes.
const MAX_DESCRIBED: usize = 5;

/// The most shims that one command ends.
const AT_ONCE: usize = 10;

/// Applies D38. A single left-over shim does not block PLEG, so only many of them change the verdict.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut shims: Vec<(&LeftOverShim, &Process)> = host
        .left_over_shims
        .iter()
        .filter_map(|shim| Some((shim, shim.process(case.evidence, sample)?)))
        .collect();
    // The oldest come first, because the oldest one shows when the problem began.
    shims.sort_by(|one, other| (other.1.age, one.1.pid).cmp(&(one.1.age, other.1.pid)));
    let (first, process) = shims.first()?;
    let is_likely = |shim: &LeftOverShim| host.second.is_some() && shim.bundle != Bundle::Unknown;
    let likely = shims.iter().filter(|(shim, _)| is_likely(shim)).count();
    let confidence = if likely > 0 { Confidence::Likely } else { Confidence::Possible };
    let is_many = likely >= limits::LEFT_OVER_SHIMS;
    let severity = if is_many { Severity::Warning } else { Severity::Info };
    let title = if shims.len() == 1 {
        FactKind::LeftOverShim { shim: (*process).into() }
    } else {
        FactKind::LeftOverShims { shims: shims.len(), are_conmons: is_conmon(&process.comm) }
    };
    let mut found = finding(RuleId::LeftOverShims, severity, confidence, title);
    if shims.len() > 1 {
        found.add_fact(FactKind::LeftOverTogether {
            bytes: shims.iter().map(|(_, process)| process.resident).sum(),
            threads: shims.iter().map(|(_, process)| process.threads).sum(),
            oldest: process.age.into(),
        });
    }
    let described = shims.iter().take(MAX_DESCRIBED);
    found.add_facts(described.map(|(shim, process)| describe(case, sample, shim, process)));
    if let Some(more) = shims.len().checked_sub(MAX_DESCRIBED).filter(|more| *more > 0) {
        let oldest = shims.iter().take(limits::MAX_LISTED_IDS).map(|(_, process)| process.pid).collect();
        found.add_fact(FactKind::MoreLeftOver { more, oldest });
    }
    found.add_fact(match &host.second {
        Some((apart, _)) => FactKind::LeftOverStillRan { after: (*apart).into() },
        None => FactKind::LeftOverSeenOnce,
    });
    // Those below which nothing runs: ending them ends nothing else.
    let empty = shims.iter().filter(|(_, process)| below(sample, process).next().is_none()).take(AT_ONCE);
    let (ids, pids): (Vec<&str>, Vec<u32>) =
        empty.map(|(shim, process)| (short(&shim.id), process.pid)).unzip();
    if pids.is_empty() {
        found.steps = steps_of("programsBelow", &of_process(process));
    } else {
        found.add_step(if is_conmon(&process.comm) {
            let list = Command::limited(20, "crictl --timeout {}s ps -a | grep {}").flagged("-e", &ids);
            Step::look("CRI-O must know none of these: this must print nothing").with(list)
        } else {
            let list =
                Command::limited(20, "ctr --timeout {}s -n k8s.io tasks ls | grep {}").flagged("-e", &ids);
            Step::look("containerd must know none of these: this must print nothing").with(list)
        });
        let kill = pids.iter().fold(Command::new("kill"), |kill, pid| kill.pid(*pid));
        let text = format!(
            "then end {} of the {}, the next time further ones, and run health again",
            pids.len(),
            shims.len()
        );
        found.add_step(Step::change(text).with(kill));
    }
    found.pod = pod_of(case, sample, first, process);
    found.ids = shims.iter().take(limits::MAX_LISTED_IDS).map(|(shim, _)| shim.id.clone()).collect();
    Some(found)
}

/// Describes a shim: process, id, age, size, pod, bundle and the processes below it.
fn describe(case: &Case<'_>, sample: &ProcSample, shim: &LeftOverShim, process: &Process) -> FactKind {
    FactKind::LeftOver {
        shim: process.into(),
        pod: pod_of(case, sample, shim, process),
        of: Item { id: shim.id.clone(), ..Item::default() },
        age: process.age.into(),
        bytes: process.resident,
        threads: process.threads,
        below: below(sample, process).count(),
        bundle_is_deleted: shim.bundle == Bundle::Deleted,
    }
}

/// Returns the processes that the shim started and that have not ended.
fn below<'a>(sample: &'a ProcSample, shim: &Process) -> impl Iterator<Item = &'a Process> {
    let pid = shim.pid;
    sample.processes.values().filter(move |process| !process.is_zombie() && sample.descends(process.pid, pid))
}

/// Returns the pod: from the bundle, or from the cgroup of a process below the shim.
fn pod_of(case: &Case<'_>, sample: &ProcSample, shim: &LeftOverShim, process: &Process) -> Option<PodRef> {
    let by_cgroup = || {
        let uid = below(sample, process).find_map(|process| process.pod_uid.as_deref())?;
        Some(case.evidence.names.pod_of_uid(uid))
    };
    shim.pod.clone().or_else(by_cgroup)
}
