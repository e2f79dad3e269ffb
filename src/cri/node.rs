//! Plain types for the answers of a runtime: sandboxes, containers, statuses and events.
//!
//! The types keep the values as the runtime sent them: missing metadata stays missing, and a zero time stays zero, because
//! the `pleg` module decides what the kubelet does with an invalid answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rename::PUBLIC_KEYS;
use crate::report::word_enum;

/// Label and annotation keys that the kubelet sets.
pub mod label {
    /// Pod UID, on sandboxes and containers.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Pod name, on sandboxes and containers.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Pod namespace, on sandboxes and containers.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Container name, on containers.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// All of these, which name a pod and a container.
    pub const ALL: [&str; 4] = [POD_UID, POD_NAMESPACE, POD_NAME, CONTAINER_NAME];
}

/// A `map<string, string>` of a message, in the order in which it arrived. It needs two allocations, however many pairs it
/// has, because a large node has half a million pairs, and each relist reads all of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// All keys and values, one after another, without separators.
    text: Box<str>,
    /// The end of each key and value in `text`.
    ends: Box<[u32]>,
    /// The number of bytes of the pairs that were left out when this was written to a document.
    left_out: u32,
}

impl Labels {
    /// Returns the value of `key`. If a key is repeated, the last value counts, as in protobuf.
    pub fn get(&self, key: &str) -> Option<&str> {
        let is_key = |number: &usize| self.part(2 * number) == Some(key);
        self.numbers().rev().find(is_key).and_then(|number| self.part(2 * number + 1))
    }

    /// Iterates over all pairs, in the order in which they arrived.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.numbers().filter_map(|number| Some((self.part(2 * number)?, self.part(2 * number + 1)?)))
    }

    /// Returns the number of bytes of all keys and values, also of those that a document left out.
    pub const fn text_bytes(&self) -> usize {
        self.text.len().saturating_add(self.left_out as usize)
    }

    /// Returns the indices of the pairs.
    fn numbers(&self) -> Range<usize> {
        0..self.ends.len() / 2
    }

    /// Returns the key or value with this index in `ends`.
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
        // The final size is reserved, so that nothing is copied while the buffers grow.
        let bytes = pairs.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum();
        let (mut text, mut ends) = (String::with_capacity(bytes), Vec::with_capacity(2 * pairs.len()));
        for (key, value) in &pairs {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                // Messages are shorter than 4 GiB.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            }
        }
        Self { text: text.into(), ends: ends.into(), left_out: 0 }
    }
}

/// The form of [`Labels`] in a document: only the kubelet's own pairs, because users put anything into theirs.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenLabels<'a> {
    #[serde(borrow)]
    kubelet: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    left_out_bytes: u32,
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kubelet: BTreeMap<_, _> = label::ALL
            .into_iter()
            .chain(PUBLIC_KEYS)
            .filter_map(|key| Some((Cow::Borrowed(key), Cow::Borrowed(self.get(key)?))))
            .collect();
        let written: usize = kubelet.iter().map(|(key, value)| key.len() + value.len()).sum();
        let left_out_bytes = u32::try_from(self.text_bytes().saturating_sub(written)).unwrap_or(u32::MAX);
        WrittenLabels { kubelet, left_out_bytes }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenLabels { kubelet, left_out_bytes } = WrittenLabels::deserialize(deserializer)?;
        Ok(Self { left_out: left_out_bytes, ..kubelet.into_iter().collect() })
    }
}

/// The answer to `Version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    /// The version of the kubelet runtime API, always `0.1.0`.
    pub version: String,
    /// The name of the runtime, for example `containerd` or `cri-o`.
    pub runtime_name: String,
    /// The version of the runtime, as the packager wrote it; not always semver.
    pub runtime_version: String,
    /// The version of the CRI, for example `v1`.
    pub runtime_api_version: String,
}

/// Returns the name of the program behind a runtime's name. Microsoft's builds of containerd have a name of their own.
pub fn program_of(runtime_name: &str) -> &str {
    if runtime_name == "moby-containerd" { "containerd" } else { runtime_name }
}

/// The answer to `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeStatus {
    /// The conditions `RuntimeReady` and `NetworkReady`, and further conditions of the runtime.
    pub conditions: Vec<RuntimeCondition>,
}

impl RuntimeStatus {
    /// Returns the condition with this type.
    pub fn condition(&self, kind: &str) -> Option<&RuntimeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// One condition of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeCondition {
    /// The condition's type, for example `RuntimeReady`.
    pub kind: String,
    /// Whether the condition is true.
    pub holds: bool,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}

word_enum! {
    /// The component that creates the cgroups of containers, with the word for it in configurations.
    #[derive(Hash)]
    pub enum CgroupDriver: as_str {
        /// systemd, over D-Bus.
        Systemd = "systemd",
        /// The runtime itself.
        Cgroupfs = "cgroupfs",
    }
}

/// The state of a pod sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// `SANDBOX_READY`
    Ready,
    /// `SANDBOX_NOTREADY`
    NotReady,
    /// A number that the CRI does not define.
    #[default]
    Unknown,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// `CONTAINER_CREATED`
    Created,
    /// `CONTAINER_RUNNING`
    Running,
    /// `CONTAINER_EXITED`
    Exited,
    /// `CONTAINER_UNKNOWN`, and any number that the CRI does not define.
    #[default]
    Unknown,
}

/// The pod of a sandbox, and the number of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxMetadata {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The number of sandboxes that the pod had before.
    pub attempt: u32,
}

/// A pod sandbox in the answer to `ListPodSandbox`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// The full id.
    pub id: String,
    /// The pod; `None` in an invalid answer.
    pub metadata: Option<SandboxMetadata>,
    /// The state.
    pub state: SandboxState,
    /// The creation time in Unix nanoseconds, as the runtime sent it; see [`crate::clock::Wall::known`].
    pub created_at: i64,
    /// The labels of the pod and of the kubelet.
    pub labels: Labels,
    /// The annotations of the pod.
    pub annotations: Labels,
}

/// The name of a container, and the number of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerMetadata {
    /// The container's name in the pod spec.
    pub name: String,
    /// The restart count when the container was created.
    pub attempt: u32,
}

/// An image reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The reference to which the runtime resolved the image.
    pub image: String,
    /// The reference in the pod spec (since CRI 1.28).
    pub user_specified: String,
}

/// A container in the answer to `ListContainers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The full id.
    pub id: String,
    /// The id of the container's sandbox.
    pub sandbox_id: String,
    /// The name and the attempt; `None` in an invalid answer.
    pub metadata: Option<ContainerMetadata>,
    /// The image; `None` in an invalid answer.
    #[serde(skip)]
    pub image: Option<Image>,
    /// The reference of the image in use.
    pub image_ref: String,
    /// The state.
    pub state: ContainerState,
    /// The creation time in Unix nanoseconds, as the runtime sent it; see [`crate::clock::Wall::known`].
    pub created_at: i64,
    /// The kubelet's labels.
    pub labels: Labels,
    /// The kubelet's annotations.
    pub annotations: Labels,
}

/// The IP addresses of a sandbox, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The primary address; empty if there is none.
    pub ip: String,
    /// The other addresses.
    pub additional_ips: Vec<String>,
}

/// A pod sandbox in the answer to `PodSandboxStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The full id.
    pub id: String,
    /// The pod; `None` in an invalid answer.
    pub metadata: Option<SandboxMetadata>,
    /// The state.
    pub state: SandboxState,
    /// The creation time in Unix nanoseconds, as the runtime sent it.
    pub created_at: i64,
    /// The IP addresses; `None` if the runtime does not report them.
    pub network: Option<Network>,
    /// Whether the sandbox shares the node's network namespace; `None` if the runtime does not report it.
    pub host_network: Option<bool>,
    /// The labels of the pod and of the kubelet.
    pub labels: Labels,
    /// The annotations of the pod.
    pub annotations: Labels,
}

/// The answer to `PodSandboxStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxStatusAnswer {
    /// The status of the sandbox; `None` in an invalid answer.
    pub status: Option<SandboxStatus>,
    /// The statuses of the pod's containers; only runtimes that support `EventedPLEG` send them.
    pub containers: Vec<ContainerStatus>,
    /// The time of the statuses in Unix nanoseconds; 0 if the runtime does not send [`Self::containers`].
    pub timestamp: i64,
}

/// A container in the answer to `ContainerStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The full id.
    pub id: String,
    /// The name and the attempt; `None` in an invalid answer.
    pub metadata: Option<ContainerMetadata>,
    /// The state.
    pub state: ContainerState,
    /// The creation time in Unix nanoseconds, as the runtime sent it.
    pub created_at: i64,
    /// The start time in Unix nanoseconds; 0 if the container never started.
    pub started_at: i64,
    /// The end time in Unix nanoseconds; 0 if the container has not finished.
    pub finished_at: i64,
    /// The exit code; only set for exited containers.
    pub exit_code: i32,
    /// The image; `None` in an invalid answer.
    pub image: Option<Image>,
    /// The reference of the image in use.
    pub image_ref: String,
    /// The reason for the state in one word, for example `Completed`, `Error` or `OOMKilled`.
    pub reason: String,
    /// The runtime's message.
    pub message: String,
    /// The kubelet's labels.
    pub labels: Labels,
    /// The kubelet's annotations.
    pub annotations: Labels,
    /// The container's mounts.
    pub mounts: Vec<Mount>,
    /// The path of the log file.
    pub log_path: String,
}

/// One mount of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The path in the container.
    pub container_path: String,
    /// The path on the node.
    pub host_path: String,
    /// Whether the mount is read-only.
    pub readonly: bool,
}

/// The change that a container event reports.
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
    /// The id of the container or of the sandbox that changed.
    pub container_id: String,
    /// The change.
    pub kind: ContainerEventType,
    /// The time of the change in Unix nanoseconds, as the runtime sent it.
    pub created_at: i64,
    /// The status of the sandbox at the time of the event; `None` if the sandbox no longer existed.
    pub sandbox: Option<SandboxStatus>,
    /// The statuses of the pod's containers at the time of the event.
    pub containers: Vec<ContainerStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_values() {
        let pairs = [("ä", "1"), ("", "empty key"), ("empty value", ""), ("ä", "2")];
        let labels: Labels = pairs.into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), pairs);
        assert_eq!(labels.get("ä"), Some("2"), "the last one counts");
        assert_eq!(labels.get(""), Some("empty key"));
        assert_eq!(labels.get("empty value"), Some(""));
        assert_eq!(labels.get("empty"), None);
        assert_eq!(labels.get("1"), None, "a value is no key");
    }
}
