//! [`Scenario`]: the content of a scenario file. `docs/scenarios.md` describes the keys.

use std::time::Duration;

use super::manifests::StaticManifest;
use crate::cri::{Code, Rpc};
use crate::report::word_enum;

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
    /// The id of the rule of `health` that finds it, if one does.
    pub finds: Option<String>,
    /// The word of the verdict of `health` at the start of the simulation.
    pub verdict: Option<&'static str>,
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
    /// The age of its last relist at the start of the simulation, if the kubelet makes no more relists.
    pub last_relist: Option<Duration>,
    /// The groups whose pods have a stopped shim process.
    pub stopped_shims: Vec<String>,
    /// The number of shims that run although their pods are gone.
    pub left_over_shims: u32,
    /// The number of pods that the kubelet has accepted and that never start.
    pub waiting_pods: u32,
    /// The number of pods that the API server has bound to the node, and that the kubelet does not know.
    pub unknown_pods: u32,
    /// The groups whose pods were deleted and still run.
    pub ending_pods: Vec<String>,
    /// The waits of shims in the kernel.
    pub kernel_waits: Vec<SimulatedWait>,
    /// The pods that are being deleted, and the umounts that hold them.
    pub hung_umounts: Vec<SimulatedUmount>,
    /// The pods that cannot end because the runtime answers with an error.
    pub failing_ends: Vec<FailingEnd>,
}

/// The kubelet cannot stop the sandboxes of a group of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingEnd {
    /// The group.
    pub pod: String,
    /// The time since the first attempt.
    pub since: Duration,
    /// What the runtime answers to each attempt.
    pub error: String,
}

/// A group of pods is being deleted, and the umount of their volume does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedUmount {
    /// The group.
    pub pod: String,
    /// The time since the deletion.
    pub since: Duration,
    /// The grace period.
    pub grace: Duration,
    /// The file server and its path.
    pub source: String,
    /// The program that runs the umount.
    pub by: String,
    /// The process id of this program.
    pub pid: u32,
}

/// The shims of a group of pods wait in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedWait {
    /// The group.
    pub pod: String,
    /// The id of the reason: `KR01`.
    pub reason: String,
    /// Who or what keeps them waiting, if known.
    pub owner: Option<String>,
}

word_enum! {
    /// The state of the kubelet's process.
    pub enum KubeletProcessState: word {
        /// The process runs.
        Running = "running",
        /// The process was stopped by a signal.
        Stopped = "stopped",
        /// The process does not exist.
        Dead = "dead",
    } ALL
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
    /// How many events there are for each lost event, on average; 0 if no event is lost.
    pub loses_every: u32,
    /// Whether the lists can be streamed.
    pub streamed_lists: bool,
    /// The condition `RuntimeReady` in the answer to `Status`.
    pub ready: bool,
    /// Whether the runtime listens on its socket.
    pub listens: bool,
}

word_enum! {
    /// The runtime whose events and error messages are simulated.
    pub enum RuntimeFamily: word {
        /// containerd
        Containerd = "containerd",
        /// CRI-O
        CriO = "cri-o",
    } ALL
}

word_enum! {
    /// How events reach several listeners.
    pub enum EventDelivery: word {
        /// Every listener gets every event (containerd 2.x, CRI-O from 1.28).
        Broadcast = "broadcast",
        /// Listeners take events away from each other (containerd 1.7).
        Competing = "competing",
        /// The RPC is not implemented (containerd 1.6).
        Unimplemented = "unimplemented",
        /// The stream ends at once without an error (CRI-O with events switched off).
        Ends = "ends",
    } ALL
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
    /// The exit code of a container that ends by itself.
    pub exit_code: i32,
    /// Whether the kubelet restarts a container that has ended.
    pub restarts: bool,
    /// The first pause before a restart; each further pause is twice as long.
    pub backoff: Duration,
    /// The longest pause before a restart.
    pub backoff_limit: Duration,
    /// The age at which a pod is deleted.
    pub lives: Option<Duration>,
    /// What follows a deleted pod.
    pub successor: Successor,
    /// The time from the start of a pod to the start of its successor.
    pub every: Option<Duration>,
    /// How long a dead pod is kept before it is removed; `None` if it is never removed.
    pub kept: Option<Duration>,
    /// The size of an additional annotation on each sandbox and container.
    pub annotation_bytes: u32,
    /// The manifest of a group of static pods, unless its file is gone.
    pub manifest: Option<StaticManifest>,
}

word_enum! {
    /// What follows a deleted pod.
    pub enum Successor: word {
        /// Another pod of the group.
        Pod = "pod",
        /// The same pod with a new sandbox, because only the sandbox died.
        Sandbox = "sandbox",
    } ALL
}

word_enum! {
    /// The kind of object that created a pod. Its name, UID and network depend on this.
    pub enum Owner: word {
        /// A `Deployment`.
        Deployment = "deployment",
        /// A `DaemonSet`.
        DaemonSet = "daemonset",
        /// A `StatefulSet`.
        StatefulSet = "statefulset",
        /// A `Job` or `CronJob`.
        Job = "job",
        /// A file in the manifest directory.
        Static = "static",
    } ALL
}

/// A fault that affects some calls for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFault {
    /// The RPCs.
    pub calls: Vec<Rpc>,
    /// The group of pods, if only calls about pods of this group are affected.
    pub pod: Option<String>,
    /// The container name, if only calls about this container are affected.
    pub container: Option<String>,
    /// The effect on the calls.
    pub effect: FaultEffect,
    /// The time from the start of the simulation to the start of the fault.
    pub after: Duration,
    /// How long the fault lasts; `None` if it never ends.
    pub lasts: Option<Duration>,
    /// The period with which the fault is repeated.
    pub every: Option<Duration>,
}

/// The effect of a fault on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The call is not answered while the fault lasts.
    Hangs,
    /// The answer is delayed by a time between `least` and `most`, which is always the same for the same id.
    Takes {
        /// The shortest delay.
        least: Duration,
        /// The longest delay.
        most: Duration,
    },
    /// The call is answered with an error.
    Fails {
        /// The gRPC status code.
        code: Code,
        /// The runtime's message.
        message: String,
    },
}
