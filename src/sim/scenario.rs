//! What a scenario is made of, once its file is read.

use std::time::Duration;

use crate::cri::{CgroupDriver, Code, Rpc};

/// A node, its runtime and what is wrong with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `quiet`, or the path of the file it came from.
    pub name: String,
    /// One line.
    pub title: String,
    /// A paragraph: what this is an example of.
    pub teaches: String,
    /// What is wrong with the node.
    pub wrong: String,
    /// What a kubelet on it would show.
    pub kubelet: String,
    /// Commands worth trying.
    pub attempts: Vec<String>,
    /// Where ids, names and jitter come from.
    pub seed: u64,
    /// The runtime that is played.
    pub runtime: Runtime,
    /// The pods.
    pub groups: Vec<Group>,
    /// What goes wrong with which calls.
    pub faults: Vec<Fault>,
    /// What there is besides the runtime, if anything is played.
    pub around: Option<NodeAround>,
}

/// What a node has besides its runtime: a kubelet and processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAround {
    /// What became of the kubelet.
    pub kubelet: KubeletLife,
    /// How old its last relist is when it is first asked, if it makes no more.
    pub last_relist: Option<Duration>,
    /// The groups whose pods have a stopped shim.
    pub stopped_shims: Vec<String>,
}

/// What became of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletLife {
    /// It runs.
    Running,
    /// A signal has stopped it.
    Stopped,
    /// It is gone.
    Dead,
}

/// The runtime that is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// `containerd` or `cri-o`.
    pub family: Family,
    /// As `Version` tells it.
    pub version: String,
    /// How events reach those who listen.
    pub events: Delivery,
    /// One event in so many is lost before it is sent; 0 for none.
    pub loses_every: u32,
    /// Whether the lists can be streamed.
    pub streamed_lists: bool,
    /// What `RuntimeConfig` answers; `None` where the runtime does not have it.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Largest message that it sends.
    pub send_limit: u64,
    /// What it says of itself.
    pub ready: Ready,
    /// Whether anybody listens on its socket.
    pub listens: bool,
}

/// What a runtime says of itself in `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// `RuntimeReady`
    pub runtime: bool,
    /// `NetworkReady`
    pub network: bool,
}

/// Whose manners are played: which events there are, and the words of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// containerd
    Containerd,
    /// CRI-O
    CriO,
}

/// How events reach those who listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Every listener gets every event (containerd 2.x, CRI-O from 1.28).
    Broadcast,
    /// Listeners take events from each other (containerd 1.7).
    Competing,
    /// There is no such call (containerd 1.6).
    Unimplemented,
    /// The stream ends at once and in good order (CRI-O with events switched off).
    Ends,
}

/// Pods that have the same life.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How faults and people refer to it, and the stem of the pods' names.
    pub name: String,
    /// Stem of the pods' names where it is another.
    pub pod_name: Option<String>,
    /// Namespace.
    pub namespace: String,
    /// What made the pods.
    pub owner: Owner,
    /// How many at a time.
    pub count: u32,
    /// Names of the containers.
    pub containers: Vec<String>,
    /// How long ago the first of them started when the simulation begins.
    pub age: Duration,
    /// How long a container runs by itself; `None` for as long as it may.
    pub runs: Option<Duration>,
    /// With what it then exits.
    pub exit_code: i32,
    /// Whether the kubelet starts it again.
    pub restarts: bool,
    /// First pause before a restart; doubles each time.
    pub backoff: Duration,
    /// Longest pause before a restart.
    pub backoff_limit: Duration,
    /// When a pod is deleted, counted from its start.
    pub lives: Option<Duration>,
    /// What comes after it.
    pub successor: Successor,
    /// When its successor starts, counted from its start.
    pub every: Option<Duration>,
    /// How long a dead pod is kept before it is collected; `None` for ever.
    pub kept: Option<Duration>,
    /// Size of one more annotation on each sandbox and container.
    pub annotation_bytes: u32,
}

/// What comes after a pod that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// Another pod of the group.
    Pod,
    /// The same pod in a new sandbox: only the sandbox had died.
    Sandbox,
}

/// What made a pod; its name, UID and network follow from it.
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

/// What goes wrong with some calls for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Which calls.
    pub calls: Vec<Rpc>,
    /// Only those about pods of this group.
    pub pod: Option<String>,
    /// Only those about the container of this name.
    pub container: Option<String>,
    /// What happens to them.
    pub effect: Effect,
    /// When it begins, counted from the start of the simulation.
    pub after: Duration,
    /// How long it lasts; `None` for ever.
    pub lasts: Option<Duration>,
    /// When it comes back, counted from its beginning.
    pub every: Option<Duration>,
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is not answered while the fault lasts.
    Hangs,
    /// It is answered late: by a time between these two, the same for the same subject.
    Takes {
        /// At least.
        least: Duration,
        /// At most.
        most: Duration,
    },
    /// It is answered with an error.
    Fails {
        /// gRPC status.
        code: Code,
        /// The runtime's words.
        message: String,
    },
}
