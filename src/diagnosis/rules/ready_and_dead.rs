//! D41: ready and dead: pods neither start nor end.

use super::prelude::*;
use super::runtime_state::condition;

use crate::cri::{ContainerState, Labels, label};
use crate::diagnosis::facts::PodAge;
use crate::diagnosis::judge::not_ready::is_at_most;
use crate::diagnosis::kubelet::StuckPod;

/// The most pods that the evidence names.
const MAX_NAMED: usize = 2;

/// How long a kubelet must have written that its start is not complete. On a healthy node it takes seconds.
const START_SECONDS: f64 = 60.0;

/// The time for which its last message about that counts. It writes one every five seconds.
const START_MESSAGE_VALID: Duration = Duration::from_secs(10);

/// Applies D41. There are two proofs: pods that should have ended still run in the runtime, and pods of at least
/// `STUCK_OWNERS` owners (such as Deployments) wait while nothing at all starts on the node. With both, and a kubelet that
/// has run for longer than `STUCK_POD`, the finding is certain if the pods that do not end have as many owners too, and
/// otherwise likely. One proof alone has other explanations, so the finding is then only possible.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    start_waits(case).or_else(|| stuck_pods(case))
}

/// Reports a kubelet whose start waits. Before its first look at the runtime's state, it reads each container and each disk
/// (kubelet.go: `initializeRuntimeDependentModules`), without a limit in time. Until then it works for no pod.
fn start_waits(case: &Case<'_>) -> Option<HealthFinding> {
    let said = &case.evidence.journal.as_ref()?.start_waits;
    let (first, last) = said.between;
    if last - first < START_SECONDS || !is_at_most(START_MESSAGE_VALID, case.evidence, Some(last)) {
        return None;
    }
    // Without a runtime that says that it is ready, the kubelet writes the same, and waits for the runtime.
    condition(case.evidence, "RuntimeReady").filter(|ready| ready.holds)?;
    let title = FactKind::KubeletStartWaits { lasts: (last - first).into() };
    let mut found = finding(RuleId::ReadyAndDead, Severity::Critical, Confidence::Certain, title);
    found.add_fact(FactKind::StartReadsContainers);
    found.add_fact(FactKind::LinesAboutIt { lines: said.lines });
    let probe = Command::new("plegctl health --probe-shims");
    found.add_step(Step::look("whether a shim does not answer (asks each)").with(probe));
    let log = "journalctl --no-pager -u kubelet -S -15min | grep -e 'Failed to create existing container'";
    found.add_step(Step::look("which containers it could not read").with(Command::new(log)));
    Some(found)
}

fn stuck_pods(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let (sandboxes, containers) =
        (evidence.runtime.sandboxes.latest()?, evidence.runtime.containers.latest()?);
    let now = evidence.taken_at;
    let settled = evidence.kubelet.age.is_some_and(|age| age > limits::STUCK_POD);
    let uid_of = |labels: &Labels| labels.get(label::POD_UID).map(str::to_owned);
    let present: BTreeSet<String> = sandboxes
        .iter()
        .filter_map(|sandbox| {
            uid_of(&sandbox.labels).or_else(|| Some(sandbox.metadata.as_ref()?.uid.clone()))
        })
        .collect();
    let is_running = |state: ContainerState| state == ContainerState::Running;
    let running: BTreeSet<String> = containers
        .iter()
        .filter(|container| is_running(container.state))
        .filter_map(|container| uid_of(&container.labels))
        .collect();
    let births =
        sandboxes.iter().map(|one| one.created_at).chain(containers.iter().map(|one| one.created_at));
    let newest = births.max().unwrap_or_default();
    let is_old = |pod: &&StuckPod| now.duration_since(pod.since) > limits::STUCK_POD;
    let stuck = || evidence.kubelet.stuck_pods.iter().filter(is_old);
    let ending = by_age(stuck().filter(|pod| pod.is_ending && running.contains(&pod.pod.uid)));
    // If anything started since, the pod waits for something of its own, such as a volume.
    let waiting = by_age(
        stuck().filter(|pod| !pod.is_ending && !present.contains(&pod.pod.uid) && newest < pod.since.nanos()),
    );
    let (starts, ends) = (owners(&waiting), owners(&ending));
    // Pods of fewer owners than these may wait for one volume, secret or network.
    let cannot_start = starts >= limits::STUCK_OWNERS;
    let first = ending.first().or_else(|| waiting.first().filter(|_| cannot_start))?;
    let both = cannot_start && ends > 0 && settled;
    let (severity, confidence) = match (both, ends >= limits::STUCK_OWNERS) {
        (true, true) => (Severity::Critical, Confidence::Certain),
        (true, false) => (Severity::Warning, Confidence::Likely),
        (false, _) => (Severity::Warning, Confidence::Possible),
    };
    let age = now.duration_since(first.since).into();
    let title = match (cannot_start, ends > 0) {
        (true, true) => FactKind::PodsNeitherStartNorEnd { waiting: waiting.len(), ending: ending.len() },
        (true, false) => FactKind::NothingStarts { waiting: waiting.len(), age },
        _ if ending.len() == 1 => FactKind::PodRunsAfterEnd { pod: first.pod.clone(), age },
        _ => FactKind::PodsRunAfterEnd { ending: ending.len() },
    };
    let mut found = finding(RuleId::ReadyAndDead, severity, confidence, title);
    let named = |pods: &[&StuckPod]| -> (Vec<PodAge>, usize) {
        let age =
            |pod: &&StuckPod| PodAge { pod: pod.pod.clone(), age: now.duration_since(pod.since).into() };
        (pods.iter().take(MAX_NAMED).map(age).collect(), pods.len().saturating_sub(MAX_NAMED))
    };
    if cannot_start {
        let newest_age = now.duration_since(Wall::from_nanos(newest)).into();
        let (pods, others) = named(&waiting);
        found.add_fact(FactKind::PodsWithoutSandbox { pods, others, newest_age });
    }
    if !ending.is_empty() {
        let (pods, others) = named(&ending);
        found.add_fact(FactKind::PodsAfterGracePeriod { pods, others });
    }
    if !settled {
        found.add_fact(FactKind::KubeletAgeUnknown);
    } else if confidence == Confidence::Possible {
        found.add_fact(FactKind::OneSideOnly);
    }
    if confidence == Confidence::Certain {
        found.steps = evidence.steps("cordon", &[]);
    }
    let places = [("pod", Place::word(&first.pod)), ("uid", Place::word(&first.pod.uid))];
    found.steps.extend(evidence.steps("readyAndDead", &places));
    found.pod = Some(first.pod.clone());
    found.ids =
        ending.iter().chain(&waiting).take(limits::MAX_LISTED_IDS).map(|pod| pod.pod.uid.clone()).collect();
    Some(found)
}

/// Sorts pods, the oldest first.
fn by_age<'a>(pods: impl Iterator<Item = &'a StuckPod>) -> Vec<&'a StuckPod> {
    let mut pods: Vec<&StuckPod> = pods.collect();
    pods.sort_by(|one, other| (one.since, &one.pod.uid).cmp(&(other.since, &other.pod.uid)));
    pods
}

/// Counts the owners of pods.
fn owners(pods: &[&StuckPod]) -> usize {
    pods.iter().map(|pod| pod.owner.as_str()).collect::<BTreeSet<_>>().len()
}
