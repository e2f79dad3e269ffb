//! D38: shims and conmons that still run although no list has their sandbox or container.

use super::{Case, finding};
use crate::diagnosis::left_over_shims::{Bundle, LeftOverShim};
use crate::diagnosis::limits;
use crate::diagnosis::proc::{ProcSample, Process, is_conmon};
use crate::diagnosis::report::{Confidence, HealthFinding, PodRef, RuleId, Severity};
use crate::diagnosis::words::{seconds, short};
use crate::report::duration::elapsed;
use crate::report::{Command, Step, plural};

/// The most shims that the evidence describes.
const MAX_DESCRIBED: usize = 5;

/// Applies D38. A single left-over shim does not block PLEG, so only many of them change the verdict.
pub(super) fn left_over(case: &Case<'_>) -> Option<HealthFinding> {
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
        format!("{} still runs, but its {} is in no list", process.label(), subject(process))
    } else {
        let (kind, subjects) =
            if is_conmon(&process.comm) { ("conmon", "containers") } else { ("shim", "sandboxes") };
        format!("{} still run, but their {subjects} are in no list", plural(shims.len(), kind))
    };
    let mut found = finding(RuleId::D38, severity, confidence, title);
    let resident: u64 = shims.iter().map(|(_, process)| process.resident).sum();
    let threads: u64 = shims.iter().map(|(_, process)| process.threads).sum();
    if shims.len() > 1 {
        let oldest = elapsed(process.age);
        let size = size_of(resident, threads);
        found.add_evidence(format!(
            "together {size}, the oldest was started {oldest} ago; PLEG does not wait for them, so the node stays Ready"
        ));
    }
    let described = shims.iter().take(MAX_DESCRIBED);
    found.evidence.extend(described.map(|(shim, process)| describe(case, sample, shim, process)));
    if let Some(more) = shims.len().checked_sub(MAX_DESCRIBED).filter(|more| *more > 0) {
        let all = shims.iter().take(limits::MAX_LISTED_IDS).map(|(_, process)| process.pid.to_string());
        let (count, all) = (all.len(), all.collect::<Vec<_>>().join(" "));
        found.add_evidence(format!("and {more} more; the process ids of the {count} oldest: {all}"));
    }
    found.add_evidence(match &host.second {
        Some((apart, _)) => {
            format!("all of them still ran {} after the lists were answered", seconds(*apart))
        }
        None => "seen once; a shim that is just ending looks the same".to_owned(),
    });
    let tree = Command::new("pstree -p {}").pid(process.pid);
    found.add_step(Step::look("whether anything below it still runs").with(tree));
    found.add_step(if is_conmon(&process.comm) {
        let list = Command::limited(20, "crictl --timeout {}s ps -a | grep {}").arg(short(&first.id));
        Step::look("empty: CRI-O does not know it").with(list)
    } else {
        let list =
            Command::limited(20, "ctr --timeout {}s -n k8s.io tasks ls | grep {}").arg(short(&first.id));
        Step::look("empty: containerd itself does not know it").with(list)
    });
    let others = if shims.len() > 1 { ", and so for each process id in -o wide" } else { "" };
    found.add_step(
        Step::change(format!("if nothing below it is needed, end those processes and then the shim{others}"))
            .with(Command::new("kill {}").pid(process.pid)),
    );
    let explain = Command::new("plegctl explain D27");
    found.add_step(Step::look("releases of containerd that leave shims behind").with(explain));
    found.pod = pod_of(case, sample, first, process);
    found.ids = shims.iter().take(limits::MAX_LISTED_IDS).map(|(shim, _)| shim.id.clone()).collect();
    Some(found)
}

/// Returns the word for what the process was started for: a conmon for a container, a shim for a sandbox.
fn subject(process: &Process) -> &'static str {
    if is_conmon(&process.comm) { "container" } else { "sandbox" }
}

/// Formats memory and threads: `12 MiB and 9 threads`.
fn size_of(resident: u64, threads: u64) -> String {
    let threads = plural(usize::try_from(threads).unwrap_or(usize::MAX), "thread");
    format!("{} MiB and {threads}", resident >> 20)
}

/// Describes a shim: process, id, age, size, pod, bundle and the processes below it.
fn describe(case: &Case<'_>, sample: &ProcSample, shim: &LeftOverShim, process: &Process) -> String {
    let of_pod = pod_of(case, sample, shim, process).map(|pod| format!(" of {pod}")).unwrap_or_default();
    let bundle = if shim.bundle == Bundle::Deleted { "; its bundle is deleted" } else { "" };
    let below = match below(sample, process).count() {
        0 => "no process runs below it".to_owned(),
        count => format!("below it runs {}", plural(count, "process")),
    };
    format!(
        "{}{of_pod}, {} {}: {} old, {}; {below}{bundle}",
        process.label(),
        subject(process),
        short(&shim.id),
        elapsed(process.age),
        size_of(process.resident, process.threads)
    )
}

/// Returns the processes that the shim started and that have not ended.
fn below<'a>(sample: &'a ProcSample, shim: &Process) -> impl Iterator<Item = &'a Process> {
    let pid = shim.pid;
    sample.processes.values().filter(move |process| !process.is_zombie() && sample.descends(process.pid, pid))
}

/// Returns the pod: from the bundle, or from the cgroup of a process below the shim.
fn pod_of(case: &Case<'_>, sample: &ProcSample, shim: &LeftOverShim, process: &Process) -> Option<PodRef> {
    let by_cgroup = || {
        let uid = below(sample, process).find_map(|process| process.pod_uid.clone())?;
        let known = case.evidence.names.pod_by_uid(&uid);
        Some(known.unwrap_or_else(|| PodRef { uid, ..PodRef::default() }))
    };
    shim.pod.clone().or_else(by_cgroup)
}
