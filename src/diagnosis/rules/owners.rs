//! Counts the pods of a node by what created them, to name who is responsible for a list that is too long. The runtime does
//! not know a pod's owner, so the owner is the part of the pod's name that is the same for all its pods.

use std::collections::BTreeMap;

use crate::cri::{ContainerState, SandboxState, label};
use crate::diagnosis::evidence::RuntimeEvidence;
use crate::diagnosis::facts::{Name, Share};
use crate::diagnosis::rules::steps::Place;

/// The letters and digits of which Kubernetes generates the end of a pod's name (apimachinery, `rand.SafeEncodeString`).
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The pods that have the same namespace and the same beginning of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedPods {
    /// The number of sandboxes, or of containers if the sandboxes are not known.
    pub count: usize,
    /// The namespace.
    pub namespace: String,
    /// `NAMESPACE/NAME`; the name ends with `-*` if the rest of it was generated.
    pub name: String,
}

impl OwnedPods {
    /// Returns the places of the name and the namespace in a step.
    pub(super) fn places(&self) -> [(&'static str, Place); 2] {
        [("owner", Place::word(&self.name)), ("namespace", Place::word(&self.namespace))]
    }
}

/// Counts all sandboxes, or only the dead ones; without any, the containers. The largest number comes first.
pub(super) fn owners(runtime: &RuntimeEvidence, dead_only: bool) -> Vec<OwnedPods> {
    let sandboxes = runtime.sandboxes.known_items().iter();
    let sandboxes = sandboxes.filter(|sandbox| !dead_only || sandbox.state == SandboxState::NotReady);
    let mut pods: Vec<(&str, &str)> = sandboxes
        .filter_map(|sandbox| sandbox.metadata.as_ref())
        .map(|metadata| (metadata.namespace.as_str(), metadata.name.as_str()))
        .collect();
    if pods.is_empty() {
        let containers = runtime.containers.known_items().iter();
        pods = containers
            .filter(|container| !dead_only || container.state == ContainerState::Exited)
            .map(|container| &container.labels)
            .filter_map(|labels| Some((labels.get(label::POD_NAMESPACE)?, labels.get(label::POD_NAME)?)))
            .collect();
    }
    let mut counts = BTreeMap::new();
    for (namespace, name) in pods {
        *counts.entry((namespace, stem(name))).or_insert(0_usize) += 1;
    }
    let owned = |((namespace, (name, is_cut)), count): ((&str, (&str, bool)), usize)| OwnedPods {
        count,
        namespace: namespace.to_owned(),
        name: format!("{namespace}/{name}{}", if is_cut { "-*" } else { "" }),
    };
    let mut all: Vec<OwnedPods> = counts.into_iter().map(owned).collect();
    all.sort_by_key(|owner| std::cmp::Reverse(owner.count));
    all
}

/// Returns the first three owners.
pub(super) fn largest(owners: &[OwnedPods]) -> Vec<Share> {
    let share = |pods: &OwnedPods| Share { name: Name::from(&pods.name), count: pods.count };
    owners.iter().take(3).map(share).collect()
}

/// Returns the beginning of a pod's name without the parts that a controller generated, and whether there were such parts: the
/// random end, and before it the hash of a `ReplicaSet` or the number of the run of a `CronJob`.
fn stem(name: &str) -> (&str, bool) {
    let is_generated = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number || ((5..=10).contains(&part.len()) && part.chars().all(|letter| GENERATED.contains(letter)))
    };
    let cut = |name: &'_ str| -> Option<usize> {
        let (rest, part) = name.rsplit_once('-')?;
        (is_generated(part) && !rest.is_empty()).then_some(rest.len())
    };
    let once = cut(name).and_then(|end| name.get(..end));
    let twice = once.and_then(|name| cut(name).and_then(|end| name.get(..end)));
    (twice.or(once).unwrap_or(name), once.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_generated_parts_of_a_name_are_cut() {
        for (name, beginning) in [
            ("web-nwvxkdslmd-6qgfq", ("web", true)),
            ("cleanup-28930123-z5fdn", ("cleanup", true)),
            ("fluent-bit-x7k2p", ("fluent-bit", true)),
            ("db-0", ("db", true)),
            ("etcd-node-a", ("etcd-node-a", false)),
            ("kube-proxy", ("kube-proxy", false)),
            ("-6qgfq", ("-6qgfq", false)),
            ("", ("", false)),
        ] {
            assert_eq!(stem(name), beginning, "{name}");
        }
    }
}
