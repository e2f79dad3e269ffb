//! [`RunningPod`]: one sandbox of a pod with its newest containers, as the caller's runtime lists them.

use std::collections::BTreeMap;

use plegctl_base::report::word_enum;

use super::PodIdentity;

word_enum! {
    /// A source of the pods that the kubelet runs, with the value of the annotation `kubernetes.io/config.source`.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum PodSource: as_str {
        /// A directory or a file on the node.
        File = "file",
        /// A URL that serves a manifest.
        Http = "http",
        /// The API server.
        Api = "api",
    } ALL
}

impl PodSource {
    /// The annotation of a sandbox with the kubelet's source of the pod.
    pub const ANNOTATION: &str = "kubernetes.io/config.source";

    /// Returns the source with this value of the annotation.
    pub fn named(annotation: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == annotation)
    }
}

/// One sandbox of a pod with its containers.
#[derive(Clone, Debug, Default)]
pub struct RunningPod {
    /// The sandbox's full id.
    pub sandbox_id: String,
    /// The pod's UID; empty if the runtime does not know it.
    pub uid: String,
    /// The pod's namespace and name, if the runtime knows them.
    pub identity: Option<PodIdentity>,
    /// The kubelet's source of the pod.
    pub source: Option<PodSource>,
    /// Whether the sandbox is ready.
    pub is_ready: bool,
    /// When the sandbox was created, in nanoseconds since the Unix epoch; 0 if the runtime does not say.
    pub created_at: i64,
    /// The sandbox's labels, including the kubelet's own.
    pub labels: BTreeMap<String, String>,
    /// The sandbox's annotations, including the kubelet's own.
    pub annotations: BTreeMap<String, String>,
    /// The newest container of each name.
    pub containers: BTreeMap<String, RunningContainer>,
}

/// The newest of the containers with the same name, and how the last of them ended.
#[derive(Clone, Debug, Default)]
pub struct RunningContainer {
    /// The full id.
    pub id: String,
    /// The state.
    pub state: ContainerState,
    /// When the container was created, in nanoseconds since the Unix epoch; 0 if the runtime does not say.
    pub created_at: i64,
    /// The image that the kubelet gave to the runtime; empty if the runtime does not say.
    pub given_image: String,
    /// The image that the runtime made of it; empty if the runtime does not say.
    pub image: String,
    /// The kubelet's hash of the container, from its annotation.
    pub hash: Option<String>,
    /// The restart count.
    pub restarts: u32,
    /// How the last container of this name ended, if its status was read.
    pub ended: Option<EndedContainer>,
}

impl RunningContainer {
    /// The annotation of a container with its restart count.
    pub const RESTARTS: &str = "io.kubernetes.container.restartCount";
    /// The annotation of a container with the kubelet's hash.
    pub const HASH: &str = "io.kubernetes.container.hash";
}

/// The state of a container in the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, and not started yet.
    Created,
    /// Started, and not ended yet.
    Running,
    /// Ended.
    Exited,
    /// Any other state.
    #[default]
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, Default)]
pub struct EndedContainer {
    /// The full id.
    pub id: String,
    /// The exit code.
    pub exit_code: i32,
    /// The runtime's reason; empty if there is none.
    pub reason: String,
    /// The path of the log; empty if the runtime does not say.
    pub log_path: String,
}
