//! Finds contradictions in the runtime's lists, between the two lists, and between the lists and the node's processes.
//! Rule D19 reports them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, RuntimeEvidence};
use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::cri::{Container, ContainerState, Sandbox, SandboxState, label};
use crate::diagnosis::advice::DaemonFamily;
use crate::diagnosis::limits;
use crate::diagnosis::proc::{ProcSample, Role, is_conmon, monitored_ids};
use crate::diagnosis::report::Confidence;
use crate::report::Rename;

/// A contradiction, and the ids of the sandboxes or containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Oddity<'a> {
    /// What is wrong.
    pub kind: OddKind,
    /// The first id.
    pub id: &'a str,
    /// The other ids.
    others: Vec<&'a str>,
}

impl<'a> Oddity<'a> {
    /// Returns all ids.
    pub fn ids(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.id).chain(self.others.iter().copied())
    }
}

/// The kinds of contradictions, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase")]
pub enum OddKind {
    /// The state is `UNKNOWN`.
    UnknownState,
    /// The sandbox or container has no creation time.
    NoCreationTime,
    /// Two containers with the same name run in one pod.
    TwiceRunning,
    /// Two sandboxes of one pod are ready.
    TwiceReady,
    /// Sandboxes of one pod name with different UIDs are ready, and have been for longer than a start takes. The kubelet starts
    /// a pod only when an earlier pod of its name has ended, so one of them is left over.
    TwoVersions,
    /// The sandbox of a container is not listed.
    NoSandbox,
    /// A running container has no process.
    NoProcess,
    /// The processes of a running container of CRI-O are alive, and the conmon that started them is gone.
    NoMonitor,
}

impl OddKind {
    /// Returns the confidence in the contradiction if two samples show it.
    pub const fn confidence(self) -> Confidence {
        match self {
            Self::UnknownState
            | Self::NoCreationTime
            | Self::TwiceRunning
            | Self::TwiceReady
            | Self::TwoVersions => Confidence::Certain,
            Self::NoSandbox | Self::NoProcess | Self::NoMonitor => Confidence::Likely,
        }
    }
}

/// Returns the contradictions in the first lists.
pub fn first_oddities(evidence: &Evidence) -> BTreeSet<Oddity<'_>> {
    let sandboxes = evidence.runtime.sandboxes.items();
    let containers = evidence.runtime.containers.items();
    oddities(evidence, sandboxes, containers)
}

/// Returns the contradictions that a second look has shown too; without a second look, those of the first, and `false`. A
/// capture has only one list of each moment, so a replay knows from the recorder which of them lasted.
pub fn lasting_oddities(evidence: &Evidence) -> (BTreeSet<Oddity<'_>>, bool) {
    let mut lasting = first_oddities(evidence);
    let RuntimeEvidence { sandboxes, containers, .. } = &evidence.runtime;
    if let Some(recorded) = &evidence.lasting_oddities {
        lasting.retain(|oddity| recorded.iter().any(|id| id == oddity.id));
        return (lasting, true);
    }
    let again = sandboxes.second.is_some() || containers.second.is_some();
    if again {
        let later = oddities(evidence, sandboxes.latest(), containers.latest());
        lasting.retain(|oddity| later.contains(oddity));
    }
    (lasting, again)
}

/// Returns the contradictions in these lists.
fn oddities<'a>(
    evidence: &Evidence,
    sandboxes: Option<&'a [Sandbox]>,
    containers: Option<&'a [Container]>,
) -> BTreeSet<Oddity<'a>> {
    let mut found = BTreeSet::new();
    let mut odd = |kind, ids: &[&'a str]| {
        let mut others = ids.to_vec();
        others.sort_unstable();
        if !others.is_empty() {
            let id = others.remove(0);
            found.insert(Oddity { kind, id, others });
        }
    };
    let mut ready: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // The newest sandbox of each UID, by the name of the pod.
    let mut versions: BTreeMap<(&str, &str), BTreeMap<&str, &Sandbox>> = BTreeMap::new();
    for sandbox in sandboxes.into_iter().flatten() {
        if sandbox.created_at <= 0 {
            odd(OddKind::NoCreationTime, &[&sandbox.id]);
        }
        if sandbox.state == SandboxState::Unknown {
            odd(OddKind::UnknownState, &[&sandbox.id]);
        }
        if let (SandboxState::Ready, Some(metadata)) = (sandbox.state, &sandbox.metadata) {
            ready.entry(&metadata.uid).or_default().push(&sandbox.id);
            let version = versions.entry((&metadata.namespace, &metadata.name)).or_default();
            let newest = version.entry(&metadata.uid).or_insert(sandbox);
            *newest = if sandbox.created_at > newest.created_at { sandbox } else { newest };
        }
    }
    for ids in ready.values().filter(|ids| ids.len() > 1) {
        odd(OddKind::TwiceReady, ids);
    }
    for version in versions.values().filter(|version| version.len() > 1) {
        let is_settled = |sandbox: &&Sandbox| has_existed(evidence, sandbox.created_at);
        if version.values().copied().all(|sandbox| is_settled(&sandbox)) {
            let ids: Vec<&str> = version.values().map(|sandbox| sandbox.id.as_str()).collect();
            odd(OddKind::TwoVersions, &ids);
        }
    }
    let known: Option<BTreeSet<&str>> =
        sandboxes.map(|sandboxes| sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect());
    let mut running: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for container in containers.into_iter().flatten() {
        if container.created_at <= 0 {
            odd(OddKind::NoCreationTime, &[&container.id]);
        }
        if container.state == ContainerState::Unknown {
            odd(OddKind::UnknownState, &[&container.id]);
        }
        if known.as_ref().is_some_and(|known| !known.contains(container.sandbox_id.as_str())) {
            odd(OddKind::NoSandbox, &[&container.id]);
        }
        if let (ContainerState::Running, Some(metadata), Some(uid)) =
            (container.state, &container.metadata, container.labels.get(label::POD_UID))
        {
            running.entry((uid, &metadata.name)).or_default().push(&container.id);
        }
    }
    for ids in running.values().filter(|ids| ids.len() > 1) {
        odd(OddKind::TwiceRunning, ids);
    }
    for id in without_process(evidence, containers) {
        odd(OddKind::NoProcess, &[id]);
    }
    for id in without_monitor(evidence, containers) {
        odd(OddKind::NoMonitor, &[id]);
    }
    found
}

/// Returns the running containers that have no process in any cgroup and are older than a start takes. If half of the
/// containers have no process, the process table is not trusted, and none is returned.
fn without_process<'a>(evidence: &Evidence, containers: Option<&'a [Container]>) -> Vec<&'a str> {
    let Some(host) = evidence.node().filter(|host| host.latest().complete) else {
        return Vec::new();
    };
    let running: Vec<&Container> = running(containers).collect();
    let missing = missing(host.latest(), containers);
    if missing.len() * 2 >= running.len() {
        return Vec::new();
    }
    let missing = missing.into_iter().filter(|container| is_settled(evidence, container));
    missing.map(|container| container.id.as_str()).collect()
}

/// Returns the running containers of which no process is known.
fn missing<'a>(sample: &ProcSample, containers: Option<&'a [Container]>) -> Vec<&'a Container> {
    let living = sample.living_containers();
    running(containers).filter(|container| !living.contains(container.id.as_str())).collect()
}

/// Whether the first sample lacks the processes of a running container that is older than a start takes.
pub fn a_container_is_missing(evidence: &Evidence) -> bool {
    let containers = evidence.runtime.containers.items();
    let missing = evidence.node().map(|host| missing(&host.first, containers)).unwrap_or_default();
    missing.into_iter().any(|container| is_settled(evidence, container))
}

fn running(containers: Option<&[Container]>) -> impl Iterator<Item = &Container> {
    containers.into_iter().flatten().filter(|container| container.state == ContainerState::Running)
}

/// Whether a container is older than a start takes.
fn is_settled(evidence: &Evidence, container: &Container) -> bool {
    has_existed(evidence, container.created_at)
}

/// Whether something that was created at this time is older than a start takes.
fn has_existed(evidence: &Evidence, created_at: i64) -> bool {
    Wall::known(created_at).is_some_and(|at| evidence.taken_at.duration_since(at) > limits::STARTING)
}

/// Returns the running containers of CRI-O whose conmon is gone in both samples. If no container has a conmon, another program
/// starts them on this node, and none is returned.
fn without_monitor<'a>(evidence: &Evidence, containers: Option<&'a [Container]>) -> Vec<&'a str> {
    let Some(host) = evidence.node().filter(|_| evidence.family() == DaemonFamily::Crio) else {
        return Vec::new();
    };
    let lost = [without_conmon(&host.first), without_conmon(host.latest())];
    let ids: Vec<&str> = running(containers)
        .filter(|container| is_settled(evidence, container))
        .map(|container| container.id.as_str())
        .collect();
    let is_lost = |id: &&str| lost.iter().all(|lost| lost.contains(id));
    let found: Vec<&str> = ids.iter().copied().filter(is_lost).collect();
    if found.len() == ids.len() { Vec::new() } else { found }
}

/// Returns the ids of the containers whose processes are alive, and of whose processes none is the child of a conmon. A process
/// whose parent ends becomes the child of another one.
fn without_conmon(sample: &ProcSample) -> BTreeSet<&str> {
    let mut by_id: BTreeMap<&str, bool> = BTreeMap::new();
    for process in sample.processes.values().filter(|process| !process.is_zombie()) {
        let Some(id) = process.container_id.as_deref().filter(|_| !is_conmon(&process.comm)) else {
            continue;
        };
        let parent = sample.processes.get(&process.parent);
        // An OCI runtime is the parent for a moment at the start.
        let is_adopted = parent.is_some_and(|parent| !is_conmon(&parent.comm) && parent.role == Role::Other);
        *by_id.entry(id).or_insert(true) &= is_adopted;
    }
    let named = sample.with_role(Role::Shim).flat_map(|conmon| monitored_ids(&conmon.command));
    let named: BTreeSet<&str> = named.collect();
    by_id.into_iter().filter(|(id, lost)| *lost && !named.contains(id)).map(|(id, _)| id).collect()
}
