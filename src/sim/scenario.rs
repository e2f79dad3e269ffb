//! The content of a scenario file.

use std::time::Duration;

use crate::cri::{CgroupDriver, Code, Rpc};

/// A node, its runtime and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name of a built-in scenario, or the path of its file.
    pub name: String,
    /// The title, one line.
    pub title: String,
    /// A paragraph about what the scenario shows.
    pub teaches: String,
    /// What is wrong with the node.
    pub wrong: String,
    /// What a kubelet on this node would report.
    pub kubelet: String,
    /// Commands to try.
    pub attempts: Vec<String>,
    /// The seed of ids, names and jitter.
    pub seed: u64,
    /// The simulated runtime.
    pub runtime: RuntimeSettings,
    /// The groups of pods.
    pub groups: Vec<PodGroup>,
    /// The faults of calls.
    pub faults: Vec<ScenarioFault>,
    /// The kubelet and the processes of the node, if they are simulated.
    pub processes: Option<NodeProcesses>,
}

/// The simulated kubelet and processes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProcesses {
    /// The state of the kubelet's process.
    pub kubelet: KubeletProcessState,
    /// The age of its last relist at the first request, if the kubelet makes no more relists.
    pub last_relist: Option<Duration>,
    /// The groups whose pods have a stopped shim process.
    pub stopped_shims: Vec<String>,
}

/// The state of the kubelet's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletProcessState {
    /// The process runs.
    Running,
    /// The process was stopped by a signal.
    Stopped,
    /// The process does not exist.
    Dead,
}

/// The simulated runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeSettings {
    /// `containerd` or `cri-o`.
    pub family: RuntimeFamily,
    /// The version in the answer to `Version`.
    pub version: String,
    /// How events reach several listeners.
    pub events: EventDelivery,
    /// One of this many events is lost before it is sent; 0 for none.
    pub loses_every: u32,
    /// Whether the lists can be streamed.
    pub streamed_lists: bool,
    /// The answer to `RuntimeConfig`; `None` if the runtime does not implement it.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The size of the largest message that the runtime sends.
    pub send_limit: u64,
    /// The conditions in its status.
    pub ready: RuntimeConditions,
    /// Whether the runtime listens on its socket.
    pub listens: bool,
}

/// The conditions in the answer to `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeConditions {
    /// `RuntimeReady`
    pub runtime: bool,
    /// `NetworkReady`
    pub network: bool,
}

/// The runtime whose events and error messages are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeFamily {
    /// containerd
    Containerd,
    /// CRI-O
    CriO,
}

/// How events reach several listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventDelivery {
    /// Every listener gets every event (containerd 2.x, CRI-O from 1.28).
    Broadcast,
    /// Listeners take events away from each other (containerd 1.7).
    Competing,
    /// The RPC is not implemented (containerd 1.6).
    Unimplemented,
    /// The stream ends at once without an error (CRI-O with events switched off).
    Ends,
}

/// Pods with the same life.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGroup {
    /// The name of the group, which is also the prefix of the pods' names.
    pub name: String,
    /// Another prefix of the pods' names.
    pub pod_name: Option<String>,
    /// Namespace.
    pub namespace: String,
    /// The kind of object that created the pods.
    pub owner: Owner,
    /// The number of pods at a time.
    pub count: u32,
    /// Names of the containers.
    pub containers: Vec<String>,
    /// The age of the oldest pod at the start of the simulation.
    pub age: Duration,
    /// How long a container runs by itself; `None` if it does not exit.
    pub runs: Option<Duration>,
    /// Its exit code.
    pub exit_code: i32,
    /// Whether the kubelet restarts it.
    pub restarts: bool,
    /// First pause before a restart; doubles each time.
    pub backoff: Duration,
    /// Longest pause before a restart.
    pub backoff_limit: Duration,
    /// The age at which a pod is deleted.
    pub lives: Option<Duration>,
    /// What follows a deleted pod.
    pub successor: Successor,
    /// The time from the start of a pod to the start of its successor.
    pub every: Option<Duration>,
    /// How long a dead pod is kept before it is removed; `None` for ever.
    pub kept: Option<Duration>,
    /// The size of an additional annotation on each sandbox and container.
    pub annotation_bytes: u32,
}

/// What follows a deleted pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// Another pod of the group.
    Pod,
    /// The same pod with a new sandbox, because only the sandbox died.
    Sandbox,
}

/// The kind of object that created a pod. Its name, UID and network depend on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A `Deployment`.
    Deployment,
    /// A `DaemonSet`.
    DaemonSet,
    /// A `StatefulSet`.
    StatefulSet,
    /// A `Job` or `CronJob`.
    Job,
    /// A file in the manifest directory.
    Static,
}

/// A fault that affects some calls for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFault {
    /// The RPCs.
    pub calls: Vec<Rpc>,
    /// The group of pods, if only calls about these are affected.
    pub pod: Option<String>,
    /// The container name, if only calls about this container are affected.
    pub container: Option<String>,
    /// The effect on the calls.
    pub effect: FaultEffect,
    /// The time from the start of the simulation to the start of the fault.
    pub after: Duration,
    /// How long it lasts; `None` for ever.
    pub lasts: Option<Duration>,
    /// The period with which the fault is repeated.
    pub every: Option<Duration>,
}

/// The effect of a fault on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The call is not answered while the fault lasts.
    Hangs,
    /// The answer is delayed by a time between these two, always the same for the same id.
    Takes {
        /// At least.
        least: Duration,
        /// At most.
        most: Duration,
    },
    /// The call is answered with an error.
    Fails {
        /// gRPC status.
        code: Code,
        /// The runtime's words.
        message: String,
    },
}
