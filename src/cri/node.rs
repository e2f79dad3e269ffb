//! What lives on a node, in plain types: the runtime's answers after conversion, before any judgement.
//!
//! Nothing is repaired here. Missing metadata stays missing and a zero time stays zero, because what the kubelet makes
//! of a broken answer is the engine's business.

use std::fmt;
use std::ops::Range;

/// Label and annotation keys that the kubelet sets.
pub mod label {
    /// Pod UID, on sandboxes and containers.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Pod name, on both.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Pod namespace, on both.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Container name, on containers.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
}

/// A `map<string, string>` in the order it arrived. In two pieces of memory however many pairs it has: a large node has
/// half a million, and a relist goes through all of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Key, value, key, value, … without anything between.
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[u32]>,
}

impl Labels {
    /// The value of `key`; the last one if the wire repeats a key, as protobuf has it.
    pub fn get(&self, key: &str) -> Option<&str> {
        let is_key = |number: &usize| self.part(2 * number) == Some(key);
        self.numbers().rev().find(is_key).and_then(|number| self.part(2 * number + 1))
    }

    /// Every pair, in the order it arrived.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.numbers().filter_map(|number| Some((self.part(2 * number)?, self.part(2 * number + 1)?)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn numbers(&self) -> Range<usize> {
        0..self.ends.len() / 2
    }

    /// The key or value with this number.
    fn part(&self, number: usize) -> Option<&str> {
        let end_of = |number: usize| self.ends.get(number).and_then(|end| usize::try_from(*end).ok());
        let start = match number.checked_sub(1) {
            Some(before) => end_of(before)?,
            None => 0,
        };
        self.text.get(start..end_of(number)?)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs: Vec<(K, V)> = pairs.into_iter().collect();
        // As long as they become, so that nothing is moved as they grow.
        let bytes = pairs.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum();
        let (mut text, mut ends) = (String::with_capacity(bytes), Vec::with_capacity(2 * pairs.len()));
        for (key, value) in &pairs {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                // No message of a runtime is that long.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

/// Answer to `Version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Version of the kubelet runtime API, always `0.1.0`.
    pub version: String,
    /// `containerd`, `cri-o`, …
    pub runtime_name: String,
    /// As the runtime's packager wrote it; not always semver.
    pub runtime_version: String,
    /// `v1`
    pub runtime_api_version: String,
}

/// Answer to `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// `RuntimeReady`, `NetworkReady` and whatever else the runtime adds.
    pub conditions: Vec<Condition>,
}

impl RuntimeStatus {
    /// The condition called `kind`.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// One condition of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Its type, `RuntimeReady` for one.
    pub kind: String,
    /// Whether it holds.
    pub holds: bool,
    /// One word why not.
    pub reason: String,
    /// A sentence why not.
    pub message: String,
}

/// Who makes the cgroups of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgroupDriver {
    /// systemd, asked over D-Bus.
    Systemd,
    /// The runtime itself.
    Cgroupfs,
}

/// State of a pod sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// `SANDBOX_READY`
    Ready,
    /// `SANDBOX_NOTREADY`
    NotReady,
    /// A number that the CRI does not define.
    Unknown,
}

/// State of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// `CONTAINER_CREATED`
    Created,
    /// `CONTAINER_RUNNING`
    Running,
    /// `CONTAINER_EXITED`
    Exited,
    /// `CONTAINER_UNKNOWN`, and any number that the CRI does not define.
    Unknown,
}

/// Which pod, and which try at it, a sandbox is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxMetadata {
    /// Pod name.
    pub name: String,
    /// Pod UID.
    pub uid: String,
    /// Pod namespace.
    pub namespace: String,
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
}

/// A pod sandbox as `ListPodSandbox` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Full id.
    pub id: String,
    /// Absent in a broken answer.
    pub metadata: Option<SandboxMetadata>,
    /// Its state.
    pub state: SandboxState,
    /// Unix nanoseconds as sent; see [`crate::clock::Wall::known`].
    pub created_at: i64,
    /// Pod labels and the kubelet's own.
    pub labels: Labels,
    /// Pod annotations.
    pub annotations: Labels,
}

/// Name of a container and how many of that name came before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerMetadata {
    /// Name in the pod spec.
    pub name: String,
    /// Restart count at creation.
    pub attempt: u32,
}

/// An image reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// What the runtime resolved it to.
    pub image: String,
    /// What the pod spec said (since CRI 1.28).
    pub user_specified: String,
}

/// A container as `ListContainers` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Full id.
    pub id: String,
    /// Id of its sandbox.
    pub sandbox_id: String,
    /// Absent in a broken answer.
    pub metadata: Option<ContainerMetadata>,
    /// Absent in a broken answer.
    pub image: Option<Image>,
    /// Reference of the image in use.
    pub image_ref: String,
    /// Its state.
    pub state: ContainerState,
    /// Unix nanoseconds as sent; see [`crate::clock::Wall::known`].
    pub created_at: i64,
    /// The kubelet's labels.
    pub labels: Labels,
    /// The kubelet's annotations.
    pub annotations: Labels,
}

/// Addresses of a sandbox, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Primary address, empty for none.
    pub ip: String,
    /// The others.
    pub additional_ips: Vec<String>,
}

/// A pod sandbox as `PodSandboxStatus` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    /// Full id.
    pub id: String,
    /// Absent in a broken answer.
    pub metadata: Option<SandboxMetadata>,
    /// Its state.
    pub state: SandboxState,
    /// Unix nanoseconds as sent.
    pub created_at: i64,
    /// Absent where the runtime does not say.
    pub network: Option<Network>,
    /// Whether it shares the node's network namespace; absent where the runtime does not say.
    pub host_network: Option<bool>,
    /// Pod labels and the kubelet's own.
    pub labels: Labels,
    /// Pod annotations.
    pub annotations: Labels,
}

impl SandboxStatus {
    /// What a list already tells of a status.
    pub fn listed(sandbox: &Sandbox) -> Self {
        Self {
            id: sandbox.id.clone(),
            metadata: sandbox.metadata.clone(),
            state: sandbox.state,
            created_at: sandbox.created_at,
            network: None,
            host_network: None,
            labels: sandbox.labels.clone(),
            annotations: sandbox.annotations.clone(),
        }
    }
}

/// Answer to `PodSandboxStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxStatusAnswer {
    /// Absent in a broken answer.
    pub status: Option<SandboxStatus>,
    /// Filled by runtimes that support evented PLEG.
    pub containers: Vec<ContainerStatus>,
    /// Unix nanoseconds, 0 where the runtime does not fill [`Self::containers`].
    pub timestamp: i64,
}

/// A container as `ContainerStatus` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Full id.
    pub id: String,
    /// Absent in a broken answer.
    pub metadata: Option<ContainerMetadata>,
    /// Its state.
    pub state: ContainerState,
    /// Unix nanoseconds as sent.
    pub created_at: i64,
    /// Unix nanoseconds, 0 if it never started.
    pub started_at: i64,
    /// Unix nanoseconds, 0 if it has not finished.
    pub finished_at: i64,
    /// Meaningful for exited containers only.
    pub exit_code: i32,
    /// Absent in a broken answer.
    pub image: Option<Image>,
    /// Reference of the image in use.
    pub image_ref: String,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// The runtime's words.
    pub message: String,
    /// The kubelet's labels.
    pub labels: Labels,
    /// The kubelet's annotations.
    pub annotations: Labels,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
    /// Path of the log.
    pub log_path: String,
}

impl ContainerStatus {
    /// What a list already tells of a status.
    pub fn listed(container: &Container) -> Self {
        Self {
            id: container.id.clone(),
            metadata: container.metadata.clone(),
            state: container.state,
            created_at: container.created_at,
            started_at: 0,
            finished_at: 0,
            exit_code: 0,
            image: container.image.clone(),
            image_ref: container.image_ref.clone(),
            reason: String::new(),
            message: String::new(),
            labels: container.labels.clone(),
            annotations: container.annotations.clone(),
            mounts: Vec::new(),
            log_path: String::new(),
        }
    }
}

/// One mount of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Path inside.
    pub container_path: String,
    /// Path on the node.
    pub host_path: String,
    /// Whether it cannot be written.
    pub readonly: bool,
}

/// What a container event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerEventType {
    /// `CONTAINER_CREATED_EVENT`
    Created,
    /// `CONTAINER_STARTED_EVENT`
    Started,
    /// `CONTAINER_STOPPED_EVENT`
    Stopped,
    /// `CONTAINER_DELETED_EVENT`
    Deleted,
    /// A number that the CRI does not define.
    Other(i32),
}

/// One message of `GetContainerEvents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEvent {
    /// Id of the container, or of the sandbox.
    pub container_id: String,
    /// What happened to it.
    pub kind: ContainerEventType,
    /// Unix nanoseconds as sent.
    pub created_at: i64,
    /// Status of the sandbox when the event was built; absent when it was gone.
    pub sandbox: Option<SandboxStatus>,
    /// Status of the pod's containers when the event was built.
    pub containers: Vec<ContainerStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back_as_they_were() {
        let pairs = [("ä", "1"), ("", "empty key"), ("empty value", ""), ("ä", "2")];
        let labels: Labels = pairs.into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), pairs);
        assert_eq!(labels.get("ä"), Some("2"), "the last one counts");
        assert_eq!(labels.get(""), Some("empty key"));
        assert_eq!(labels.get("empty value"), Some(""));
        assert_eq!(labels.get("empty"), None);
        assert_eq!(labels.get("1"), None, "a value is no key");
        assert!(Labels::default().is_empty());
        assert!(!labels.is_empty());
    }
}
