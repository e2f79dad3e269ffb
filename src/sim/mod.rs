//! The simulator: a container runtime inside plegctl, for training, for tests and for trying plegctl without a node.
//!
//! The simulator is a CRI server that a client reaches over HTTP/2 and gRPC like a real runtime. A [`Scenario`]
//! describes a node whose pods start, restart, finish and are removed, and faults that affect some of the calls. The
//! state is a pure function of scenario, seed and time, so two runs of a scenario are equal.
//!
//! The simulated runtime answers the calls that plegctl makes. It cannot create or change
//! pods.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl_engine::clock::SystemClock;
//! use plegctl_engine::cri::Runtime;
//! use plegctl_engine::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! let client = simulator.client(Duration::from_secs(10), clock);
//! assert!(client.version().await.result.is_ok());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod catalogue;
mod error;
mod events;
mod fault;
mod fields;
pub mod fleet;
mod format;
mod kubelet;
mod life;
mod manifests;
mod messages;
mod naming;
mod node;
mod scenario;
mod seed;
mod simulation;
mod simulator;
#[cfg(test)]
pub mod tests;
mod timeline;
mod tree;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::Wall;
use crate::cri::{ContainerState, SandboxMetadata, SandboxState};
use crate::report::PodRef;
use life::Nanos;
use node::SimulatedNode;

pub use catalogue::{built_in, load, names};
pub use error::{Error, Malformed, Position};
pub use kubelet::{KubeletPages, VERSION as KUBELET_VERSION};
pub use manifests::StaticManifest;
pub use scenario::{
    EventDelivery, FailingEnd, FaultEffect, KubeletProcessState, NodeProcesses, Owner, PodGroup,
    RuntimeFamily, RuntimeSettings, Scenario, ScenarioFault, SimulatedUmount, SimulatedWait, Successor,
};
pub use simulator::{Simulator, Socket};

/// Returns the start of the simulation that a command shows at `now`: the last midnight (UTC), so that successive
/// commands show the same simulation.
pub fn timeline_start(now: Wall) -> Wall {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    Wall::from_nanos(now.nanos() - now.nanos().rem_euclid(DAY))
}

/// Creates the node of `scenario` as it is at `now`, and returns it with the simulated time.
fn node_at(scenario: &Scenario, now: Wall) -> (SimulatedNode, Nanos) {
    let start = timeline_start(now);
    let at = now.nanos().saturating_sub(start.nanos());
    (SimulatedNode::new(scenario, start.nanos(), at), at)
}

/// The processes of a simulated pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProcesses {
    /// The id of the pod's sandbox.
    pub sandbox_id: String,
    /// The pod.
    pub pod: PodRef,
    /// Whether the pod's shim process is stopped.
    pub shim_is_stopped: bool,
    /// What the pod's shim waits for in the kernel.
    pub kernel_wait: Option<SimulatedWait>,
    /// The ids and names of the pod's running containers.
    pub containers: Vec<(String, String)>,
}

/// Returns the processes of the pods that run at `now`.
pub fn pod_processes(scenario: &Scenario, processes: &NodeProcesses, now: Wall) -> Vec<PodProcesses> {
    let (node, at) = node_at(scenario, now);
    let running = node.sandboxes(at, |sandbox| sandbox.state == SandboxState::Ready).into_iter();
    let pods = running.map(|sandbox| {
        let containers = node.containers(at, |container| {
            container.sandbox_id == sandbox.id && container.state == ContainerState::Running
        });
        let named =
            containers.into_iter().filter_map(|container| Some((container.id, container.metadata?.name)));
        let app = sandbox.labels.get("app");
        PodProcesses {
            shim_is_stopped: processes.stopped_shims.iter().any(|group| Some(group.as_str()) == app),
            kernel_wait: processes.kernel_waits.iter().find(|wait| Some(wait.pod.as_str()) == app).cloned(),
            containers: named.collect(),
            pod: sandbox
                .metadata
                .map(|SandboxMetadata { uid, namespace, name, .. }| PodRef { uid, namespace, name })
                .unwrap_or_default(),
            sandbox_id: sandbox.id,
        }
    });
    pods.collect()
}

/// A simulated pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedPod {
    /// The pod.
    pub pod: PodRef,
    /// The umount that holds it.
    pub umount: SimulatedUmount,
}

/// Returns the pods that are being deleted at `now`.
pub fn deleted_pods(scenario: &Scenario, now: Wall) -> Vec<DeletedPod> {
    let umounts = scenario.processes.as_ref().map(|processes| processes.hung_umounts.as_slice());
    let umounts = umounts.unwrap_or_default();
    let (node, at) = node_at(scenario, now);
    let sandboxes = if umounts.is_empty() { Vec::new() } else { node.sandboxes(at, |_| true) };
    let deleted = sandboxes.into_iter().filter_map(|sandbox| {
        let group = sandbox.labels.get("app")?;
        let umount = umounts.iter().find(|umount| umount.pod == group)?.clone();
        let SandboxMetadata { name, uid, namespace, .. } = sandbox.metadata?;
        Some(DeletedPod { pod: PodRef { uid, namespace, name }, umount })
    });
    deleted.collect()
}

/// Returns the journal of the kubelet in the last 15 minutes; `None` unless pods cannot end.
pub fn kubelet_journal(scenario: &Scenario, now: Wall) -> Option<String> {
    /// The pause of the kubelet between two attempts, and the length of the journal.
    const PAUSE: u64 = 12;
    const LENGTH: u64 = 15 * 60;
    let failing = scenario.processes.as_ref().map(|processes| &processes.failing_ends);
    let failing = failing.filter(|failing| !failing.is_empty())?;
    let (node, at) = node_at(scenario, now);
    let mut lines = Vec::new();
    for sandbox in node.sandboxes(at, |_| true) {
        let group = sandbox.labels.get("app");
        let own = failing.iter().find(|failing| Some(failing.pod.as_str()) == group).zip(sandbox.metadata);
        let Some((failing, SandboxMetadata { name, uid, namespace, .. })) = own else { continue };
        let error = format!(
            "error killing terminating pod: failed to \"KillPodSandbox\" for \"{uid}\" with KillPodSandboxError: {:?}",
            failing.error
        );
        for ago in (1..=failing.since.as_secs().min(LENGTH)).step_by(usize::try_from(PAUSE).ok()?) {
            let at = now.minus(Duration::from_secs(ago)).seconds_since(Wall::default());
            lines.push(format!(
                "{at:.6} {NODE_NAME} kubelet[813]: E0101 00:00:00.000000     813 pod_workers.go:1324] \"Error syncing pod, \
                 skipping\" err={error:?} pod=\"{namespace}/{name}\" podUID=\"{uid}\""
            ));
        }
    }
    lines.sort_unstable();
    Some(lines.join("\n"))
}

/// Returns the sandbox ids of the shims that run although their pods are gone.
pub fn left_over_shims(scenario: &Scenario, processes: &NodeProcesses) -> Vec<String> {
    let seed = seed::Seed::new(scenario.seed).of("left-over");
    (0..processes.left_over_shims).map(|number| seed.nth(number.into()).id()).collect()
}

/// What a simulated kubelet and a simulated API server each say about the pods, as a `PodList`.
#[derive(Clone, Debug)]
pub struct PodDocuments {
    /// The answer of the kubelet's Pods API.
    pub kubelet: Vec<u8>,
    /// The pods of the node in the API server.
    pub api: Vec<u8>,
}

/// Returns what the kubelet and the API server say about the pods at `now`; `None` unless the scenario has pods that wait,
/// should have ended, or are not known to the kubelet.
pub fn pod_documents(scenario: &Scenario, processes: &NodeProcesses, now: Wall) -> Option<PodDocuments> {
    /// How long the pods have waited, and how long ago the others should have ended.
    const STUCK_FOR: Duration = Duration::from_secs(44 * 60);
    if processes.waiting_pods + processes.unknown_pods == 0 && processes.ending_pods.is_empty() {
        return None;
    }
    let since = now.minus(STUCK_FOR);
    let pod = |namespace: &str, name: &str, uid: &str, phase: &str, deleted: Option<Wall>, start: Wall| {
        json!({
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "deletionTimestamp": deleted,
                "annotations": {"kubernetes.io/config.source": "api"}},
            "spec": {"nodeName": NODE_NAME},
            "status": {"phase": phase, "startTime": start, "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": start}]},
        })
    };
    let (node, at) = node_at(scenario, now);
    let mut known = Vec::new();
    for sandbox in node.sandboxes(at, |sandbox| sandbox.state == SandboxState::Ready) {
        let Some(metadata) = sandbox.metadata else { continue };
        let app = sandbox.labels.get("app");
        let ends = processes.ending_pods.iter().any(|group| Some(group.as_str()) == app);
        let created = Wall::from_nanos(sandbox.created_at);
        let deleted = ends.then_some(since);
        known.push(pod(&metadata.namespace, &metadata.name, &metadata.uid, "Running", deleted, created));
    }
    let seed = seed::Seed::new(scenario.seed).of("stuck");
    let new = |number: u32| {
        pod("shop", &format!("new-{number}"), &seed.nth(number.into()).id(), "Pending", None, since)
    };
    known.extend((0..processes.waiting_pods).map(new));
    let unknown = (processes.waiting_pods..processes.waiting_pods + processes.unknown_pods).map(new);
    let list = |pods: &[Value]| json!({"kind": "PodList", "items": pods}).to_string().into_bytes();
    let kubelet = list(&known);
    known.extend(unknown);
    Some(PodDocuments { kubelet, api: list(&known) })
}

/// Returns the directory of a simulated kubelet's manifests, and the manifests.
pub fn manifests(scenario: &Scenario) -> (&'static Path, Vec<StaticManifest>) {
    let manifests = scenario.groups.iter().filter_map(|group| group.manifest.clone());
    (Path::new(manifests::DIRECTORY), manifests.collect())
}

/// The name of every simulated node, which is a part of the names of its static pods.
pub const NODE_NAME: &str = "sim-node";
