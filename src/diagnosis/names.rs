//! Collects the names of pods and containers by id, from the lists and from outside the CRI.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use serde::{Deserialize, Serialize};

use super::facts::Item;
use super::report::{ContainerRef, PodRef};
use crate::cri::{Container, Rpc, Sandbox, label};
use crate::report::Rename;

/// The kind of an id: sandbox or container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ItemKind {
    /// A pod sandbox.
    Sandbox,
    /// A container.
    Container,
}

impl ItemKind {
    /// Returns the status call for this kind.
    pub const fn rpc(self) -> Rpc {
        match self {
            Self::Sandbox => Rpc::PodSandboxStatus,
            Self::Container => Rpc::ContainerStatus,
        }
    }
}

/// An id that was found outside the CRI, with the names from the same source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Id(id, sandbox_id), Container(container))]
#[serde(rename_all = "camelCase", default)]
pub struct OutsideId {
    /// The id, 64 hex digits.
    pub id: String,
    /// Sandbox or container, if known.
    pub kind: Option<ItemKind>,
    /// Its pod.
    pub pod: Option<PodRef>,
    /// The container's name.
    pub container: Option<String>,
    /// The id of its sandbox.
    pub sandbox_id: Option<String>,
}

impl OutsideId {
    /// Creates an entry of which only the id is known.
    pub fn bare(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }
}

/// What is known about one id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemIdentity {
    /// Its pod.
    pub pod: Option<PodRef>,
    /// Its name, if it is a container.
    pub container: Option<String>,
    /// The id of its sandbox, if it is a container.
    pub sandbox_id: Option<String>,
}

/// The names for each id. The key is a pair of hashes of the id, because there may be a hundred thousand ids of any
/// length. With two hashes, a collision is practically impossible.
#[derive(Clone, Debug, Default)]
pub struct IdNames {
    known: HashMap<(u64, u64), ItemIdentity>,
    keys: (RandomState, RandomState),
}

impl IdNames {
    /// Returns the names in the two lists.
    pub fn of_lists(sandboxes: &[Sandbox], containers: &[Container]) -> Self {
        let mut names = Self::default();
        names.learn_lists(sandboxes, containers);
        names
    }

    /// Adds the names in the two lists.
    pub fn learn_lists(&mut self, sandboxes: &[Sandbox], containers: &[Container]) {
        for sandbox in sandboxes {
            let pod = sandbox.metadata.as_ref().map(|metadata| PodRef {
                uid: metadata.uid.clone(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            });
            self.learn(&sandbox.id, ItemIdentity { pod, ..ItemIdentity::default() });
        }
        for container in containers {
            let of_label = |key| container.labels.get(key).unwrap_or_default().to_owned();
            let pod = PodRef {
                uid: of_label(label::POD_UID),
                namespace: of_label(label::POD_NAMESPACE),
                name: of_label(label::POD_NAME),
            };
            let identity = ItemIdentity {
                pod: (pod != PodRef::default()).then_some(pod),
                container: container.metadata.as_ref().map(|metadata| metadata.name.clone()),
                sandbox_id: Some(container.sandbox_id.clone()),
            };
            self.learn(&container.id, identity);
        }
    }

    /// Changes the names of all pods.
    #[cfg(test)]
    pub fn rename(&mut self, rename: &dyn Fn(&mut PodRef)) {
        self.known.values_mut().filter_map(|identity| identity.pod.as_mut()).for_each(rename);
    }

    /// Adds the names of ids that were found outside the CRI.
    pub fn learn_outside(&mut self, outside: &[OutsideId]) {
        for found in outside {
            self.learn(
                &found.id,
                ItemIdentity {
                    pod: found.pod.clone(),
                    container: found.container.clone(),
                    sandbox_id: found.sandbox_id.clone(),
                },
            );
        }
    }

    /// Returns what is known about an id, as if it had been found outside the CRI.
    pub fn outside(&self, id: &str) -> OutsideId {
        let ItemIdentity { pod, container, sandbox_id } = self.get(id).cloned().unwrap_or_default();
        OutsideId { pod, container, sandbox_id, ..OutsideId::bare(id) }
    }

    fn key(&self, id: &str) -> (u64, u64) {
        (self.keys.0.hash_one(id), self.keys.1.hash_one(id))
    }

    fn get(&self, id: &str) -> Option<&ItemIdentity> {
        self.known.get(&self.key(id))
    }

    /// Adds the values that were not known; known values are not overwritten.
    fn learn(&mut self, id: &str, new: ItemIdentity) {
        let known = self.known.entry(self.key(id)).or_default();
        match (&mut known.pod, new.pod) {
            (Some(known), Some(new)) => {
                fill(&mut known.uid, new.uid);
                fill(&mut known.namespace, new.namespace);
                fill(&mut known.name, new.name);
            }
            (known @ None, new) => *known = new,
            (Some(_), None) => {}
        }
        known.container = known.container.take().or(new.container);
        known.sandbox_id = known.sandbox_id.take().or(new.sandbox_id);
    }

    /// Returns the pod of an id, or the pod of its sandbox.
    pub fn pod(&self, id: &str) -> Option<PodRef> {
        let identity = self.get(id)?;
        let of_sandbox = || self.get(identity.sandbox_id.as_deref()?)?.pod.clone();
        let mut pod = identity.pod.clone().or_else(of_sandbox)?;
        if let Some(sandbox) = of_sandbox() {
            fill(&mut pod.uid, sandbox.uid);
        }
        Some(pod)
    }

    /// Returns the container of an id, or `None` if the id is not known to be a container's.
    pub fn container(&self, id: &str) -> Option<ContainerRef> {
        let identity = self.get(id)?;
        identity.container.as_ref().map(|name| ContainerRef { id: id.to_owned(), name: name.clone() })
    }

    /// Returns the id of a container's sandbox.
    pub fn sandbox_of(&self, id: &str) -> Option<&str> {
        self.get(id)?.sandbox_id.as_deref()
    }

    /// Returns the pod with this UID.
    pub fn pod_by_uid(&self, uid: &str) -> Option<PodRef> {
        // The map has another order in every run. The minimum makes the result the same.
        self.known
            .values()
            .filter_map(|identity| identity.pod.as_ref())
            .filter(|pod| pod.uid == uid && !uid.is_empty())
            .min_by_key(|pod| (&pod.namespace, &pod.name))
            .cloned()
    }

    /// Returns the pod with this UID; if no source names it, only its UID.
    pub fn pod_of_uid(&self, uid: &str) -> PodRef {
        self.pod_by_uid(uid).unwrap_or_else(|| PodRef { uid: uid.to_owned(), ..PodRef::default() })
    }

    /// Returns whether any source has this id.
    pub fn knows(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Returns what is known about the id, for a fact.
    pub fn item(&self, id: &str) -> Item {
        let container = self.container(id).map(|container| container.name);
        Item { id: id.to_owned(), pod: self.pod(id), container }
    }

    /// Formats `namespace/pod/container`, as far as known, otherwise the short id.
    pub fn name(&self, id: &str) -> String {
        self.item(id).to_string()
    }

    /// Formats `namespace/pod/container`, if at least the pod is known.
    pub fn known_name(&self, id: &str) -> Option<String> {
        self.pod(id).map(|_| self.name(id))
    }

    /// Formats `namespace/pod/container`, as far as known, and the short id.
    pub fn describe(&self, id: &str) -> String {
        format!("{:#}", self.item(id))
    }
}

/// Sets `known` if it is empty.
fn fill(known: &mut String, new: String) {
    if known.is_empty() {
        *known = new;
    }
}
