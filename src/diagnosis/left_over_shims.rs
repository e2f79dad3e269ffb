//! Finds shims and conmons that still run although no list of the runtime has their sandbox or container.
//!
//! It compares the process table with the lists that the run has anyway, and makes no calls. A shim of another client of
//! containerd (another namespace, or a container that `nerdctl` made) and a sandbox that is being created are left out.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::id_search::{bundle_identity, under_root};
use super::offload::FILES_TIME_LIMIT;
use super::proc::cgroup::container_id;
use super::proc::{self, ProcSample, Process, Role, conmon_container, is_conmon};
use super::report::PodRef;
use super::{HealthRun, limits, offload, overdue_processes};
use crate::cri::{ContainerState, SandboxState};
use crate::host::KernelDir;
use crate::report::Rename;

/// The namespace of containerd in which the CRI plugin keeps all its containers.
const CRI_NAMESPACE: &str = "k8s.io";

/// A shim or conmon whose sandbox or container is in no list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Id(id))]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOverShim {
    /// The process id.
    pub pid: u32,
    /// The id for which it was started.
    pub id: String,
    /// The pod, from the bundle or the name on the command line.
    pub pod: Option<PodRef>,
    /// What the working directory shows about the bundle.
    pub bundle: Bundle,
}

/// What a shim's working directory, the bundle of its sandbox, shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Bundle {
    /// plegctl could not read it.
    #[default]
    Unknown,
    /// The runtime has deleted it.
    Deleted,
    /// Its annotations name a sandbox or a container of the CRI.
    OfCri,
    /// Another client of containerd made it.
    OfOtherClient,
}

/// Returns whether the node has more shims than the lists explain, so that their command lines must be read. Young shims
/// do not count.
pub fn has_too_many_shims(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    let Some(listed) = ListedIds::of(evidence) else { return false };
    let settled = |shim: &&Process| shim.age >= limits::STARTING && !shim.is_zombie();
    let settled = host.first.with_role(Role::Shim).filter(settled);
    let (conmons, shims): (Vec<_>, Vec<_>) = settled.partition(|shim| is_conmon(&shim.comm));
    shims.len() > listed.ready_sandboxes || conmons.len() > listed.running_containers
}

/// The ids in the first lists and in the second ones.
struct ListedIds<'a> {
    ids: BTreeSet<&'a str>,
    ready_sandboxes: usize,
    running_containers: usize,
}

impl<'a> ListedIds<'a> {
    /// Returns `None` unless both lists were answered as a whole.
    fn of(evidence: &'a Evidence) -> Option<Self> {
        let runtime = &evidence.runtime;
        let (sandboxes, containers) = (runtime.sandboxes.items()?, runtime.containers.items()?);
        let second_sandboxes = runtime.sandboxes.latest().into_iter().flatten();
        let second_containers = runtime.containers.latest().into_iter().flatten();
        let of_sandboxes = sandboxes.iter().chain(second_sandboxes).map(|sandbox| sandbox.id.as_str());
        let of_containers = containers
            .iter()
            .chain(second_containers)
            .flat_map(|container| [container.id.as_str(), container.sandbox_id.as_str()]);
        let is_running = |state: ContainerState| state == ContainerState::Running;
        Some(Self {
            ids: of_sandboxes.chain(of_containers).collect(),
            ready_sandboxes: sandboxes.iter().filter(|one| one.state == SandboxState::Ready).count(),
            running_containers: containers.iter().filter(|one| is_running(one.state)).count(),
        })
    }
}

/// Finds the shims whose id is in no list, and reads what their bundles say.
pub(super) async fn find<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Vec<LeftOverShim> {
    let (Some(host), Some(listed)) = (evidence.node(), ListedIds::of(evidence)) else { return Vec::new() };
    // A capture has only the stopped shims.
    if run.inputs.is_recorded() {
        return Vec::new();
    }
    let mut found: Vec<LeftOverShim> = host
        .first
        .with_role(Role::Shim)
        .filter_map(|shim| of_process(evidence, &host.first, shim))
        .filter(|shim| !listed.ids.contains(shim.id.as_str()))
        .collect();
    let Some(proc) = run.inputs.proc.clone().filter(|_| run.inputs.simulated_processes.is_none()) else {
        for shim in &mut found {
            shim.bundle = Bundle::Deleted;
        }
        return found;
    };
    if found.is_empty() {
        return found;
    }
    let (root, unread) = (run.inputs.host_root.clone(), found.clone());
    let read = move || {
        for shim in &mut found {
            read_bundle(&proc, &root, shim);
        }
        found.retain(|shim| shim.bundle != Bundle::OfOtherClient);
        found
    };
    offload::value(FILES_TIME_LIMIT.min(run.budget.left()), read).await.unwrap_or(unread)
}

impl LeftOverShim {
    /// Returns the process in this sample, if the lists of both samples lack its id.
    pub fn process<'a>(&self, evidence: &Evidence, sample: &'a ProcSample) -> Option<&'a Process> {
        let process = sample.processes.get(&self.pid)?;
        let is_same = of_process(evidence, sample, process).is_some_and(|now| now.id == self.id);
        let is_listed = || ListedIds::of(evidence).is_none_or(|listed| listed.ids.contains(self.id.as_str()));
        (is_same && !is_listed()).then_some(process)
    }
}

/// Returns the id and pod of a shim of the CRI's own containers, unless its sandbox may still be in creation: a create
/// command runs below it, or the daemon waits for it. A conmon is never older than the call that created it.
fn of_process(evidence: &Evidence, sample: &ProcSample, shim: &Process) -> Option<LeftOverShim> {
    if shim.role != Role::Shim || shim.age < limits::STARTING || shim.is_zombie() {
        return None;
    }
    let is_created = || {
        let mut commands = sample.with_role(Role::OciRuntime);
        commands.any(|command| overdue_processes::creates(command) && sample.descends(command.pid, shim.pid))
    };
    if is_conmon(&shim.comm) {
        let (id, name) = conmon_container(&shim.command)?;
        let pod = Some(name?.pod);
        let is_awaited = is_created()
            || overdue_processes::is_awaited_by_daemon(sample, shim)
            || evidence.longest_create().is_some_and(|waited| shim.age <= waited + limits::STARTING);
        return (evidence.is_conmon_of_crio(shim) && !is_awaited).then(|| LeftOverShim {
            pid: shim.pid,
            id: id.to_owned(),
            pod,
            ..LeftOverShim::default()
        });
    }
    let address = Path::new(shim.flag("address")?);
    let is_ours = evidence.socket.as_ref().is_none_or(|socket| proc::same_socket(address, socket));
    // containerd runs the program of the shim also for single actions. The last word of such a command line is the action.
    let is_action = shim.command.last().is_some_and(|word| matches!(word.as_str(), "start" | "delete"));
    if !is_ours || is_action || shim.flag("namespace") != Some(CRI_NAMESPACE) || is_created() {
        return None;
    }
    let id = container_id(shim.flag("id")?)?.to_owned();
    Some(LeftOverShim { pid: shim.pid, id, ..LeftOverShim::default() })
}

/// Reads the bundle of a shim. A conmon has another working directory, but its name already shows its pod.
fn read_bundle(proc: &Path, root: &Path, shim: &mut LeftOverShim) {
    if shim.pod.is_some() {
        shim.bundle = Bundle::OfCri;
        return;
    }
    let opened = KernelDir::open(&proc.join(shim.pid.to_string()));
    let Ok(bundle) = opened.and_then(|dir| dir.link("cwd")) else { return };
    if bundle.to_string_lossy().ends_with(" (deleted)") {
        shim.bundle = Bundle::Deleted;
    } else if let Some(identity) = bundle_identity(&under_root(root, &bundle), &shim.id) {
        shim.bundle = if identity.kind.is_some() { Bundle::OfCri } else { Bundle::OfOtherClient };
        shim.pod = identity.pod;
    }
}
