//! What makes a list smaller that is too large (D03): the dead containers and sandboxes that nobody needs, and the pods with
//! the most bytes. The commands name ids, because the list call with which crictl could find them may fail too.

use super::prelude::*;
use std::collections::BTreeMap;

use crate::cri::{Container, ContainerState, Labels, SandboxState, label};
use crate::diagnosis::facts::PodBytes;
use crate::kubelet::timing::RECEIVE_LIMIT;

/// The number of containers or sandboxes that one command removes.
const AT_ONCE: usize = 10;

/// The number of pods that the evidence names.
const NAMED_PODS: usize = 3;

/// The containers and sandboxes of a node, with what can be removed of them. The largest come first.
pub(super) struct Removal<'a> {
    containers: &'a [Container],
    sandboxes: &'a [Sandbox],
    dead_containers: Vec<&'a Container>,
    dead_sandboxes: Vec<&'a Sandbox>,
    /// The number of exited containers that their pods still need.
    needed: usize,
    pods: Vec<PodSize<'a>>,
}

/// The bytes of a pod in the two lists.
struct PodSize<'a> {
    pod: PodRef,
    bytes: usize,
    /// The id of its sandbox, of a ready one if there is any.
    sandbox: Option<&'a str>,
    containers: Vec<&'a Container>,
}

impl<'a> Removal<'a> {
    pub(super) fn of(runtime: &'a RuntimeEvidence) -> Self {
        let (containers, sandboxes) = (runtime.containers.known_items(), runtime.sandboxes.known_items());
        let mut dead_sandboxes: Vec<&Sandbox> =
            sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::NotReady).collect();
        dead_sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox_bytes(sandbox)));
        let newest = newest_attempts(containers);
        // The kubelet starts a container again whose last exit it no longer finds, also one that must run only once. So the
        // last container of a name is removed only with its sandbox.
        let is_replaced = |container: &&&Container| {
            let known = attempt_of(container).and_then(|(key, attempt)| Some((newest.get(&key)?, attempt)));
            known.is_some_and(|(newest, attempt)| *newest > attempt)
        };
        let of_dead: BTreeSet<&str> = dead_sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        let is_of_dead_sandbox = |container: &&&Container| of_dead.contains(container.sandbox_id.as_str());
        let exited: Vec<&Container> =
            containers.iter().filter(|container| container.state == ContainerState::Exited).collect();
        let (mut dead_containers, needed): (Vec<&Container>, Vec<&Container>) =
            exited.iter().partition(|container| is_replaced(container) || is_of_dead_sandbox(container));
        dead_containers.sort_by_key(|container| std::cmp::Reverse(container_bytes(container)));
        let pods = pod_sizes(containers, sandboxes);
        Self { containers, sandboxes, dead_containers, dead_sandboxes, needed: needed.len(), pods }
    }

    /// Whether something dead can be removed.
    pub(super) fn is_possible(&self) -> bool {
        !self.dead_containers.is_empty() || !self.dead_sandboxes.is_empty()
    }

    /// Returns the bytes of everything dead that can be removed.
    pub(super) fn dead_bytes(&self) -> u64 {
        let containers = self.dead_containers.iter().map(|container| container_bytes(container));
        let sandboxes = self.dead_sandboxes.iter().map(|sandbox| sandbox_bytes(sandbox));
        count(containers.chain(sandboxes).sum())
    }

    /// Describes what is large, and whether something dead can be removed.
    pub(super) fn facts(&self) -> Vec<FactKind> {
        let mut facts = Vec::new();
        if self.explains_size() {
            let describe =
                |size: &PodSize<'_>| PodBytes { pod: size.pod.clone(), bytes: Bytes(count(size.bytes)) };
            let pods = self.pods.iter().take(NAMED_PODS).map(describe).collect();
            facts.push(FactKind::LargestPods { pods });
        }
        if !self.is_possible() && !self.containers.is_empty() {
            facts.push(FactKind::NothingDeadToRemove);
        }
        if self.needed > 0 {
            facts.push(FactKind::ExitedContainersNeeded { containers: self.needed });
        }
        facts
    }

    /// Returns the commands that remove dead containers and sandboxes, some at a time.
    pub(super) fn of_dead(&self) -> Vec<Step> {
        let sandboxes = self.sandbox_ids(self.dead_sandboxes.iter().map(|sandbox| sandbox.id.as_str()));
        let containers = self.container_ids(&self.dead_containers);
        let dead = [("deadContainers", containers), ("deadSandboxes", sandboxes)];
        let steps = |(id, ids): (_, Option<Vec<&str>>)| Some(steps_of(id, &[("ids", Place::words(ids?))]));
        dead.into_iter().filter_map(steps).flatten().collect()
    }

    /// Returns the number of dead sandboxes that one command does not remove.
    pub(super) fn further_sandboxes(&self) -> usize {
        self.dead_sandboxes.len().saturating_sub(AT_ONCE)
    }

    /// Whether the known items have most of the bytes. Otherwise what makes the list large was not received, and no known pod
    /// is to blame.
    fn explains_size(&self) -> bool {
        count(self.pods.iter().map(|pod| pod.bytes).sum()) >= RECEIVE_LIMIT / 2
    }

    /// Returns the steps against the pods with the most bytes. `excess` is the number of bytes over the limit, 1 if it is not
    /// known; if there are any, the kubelet cannot list and thus ends no pod.
    pub(super) fn of_living(&self, case: &Case<'_>, excess: Option<u64>) -> Vec<Step> {
        let node = Some(&*case.evidence.node).filter(|node| is_plain(node)).unwrap_or("NODE");
        let node = [("node", Place::word(node))];
        let mut steps = steps_of("noNewPod", &node);
        let is_named = |size: &&PodSize<'_>| is_plain(&size.pod.namespace) && is_plain(&size.pod.name);
        if !self.explains_size() {
            steps.extend(steps_of("longestLabels", &node));
        } else if let Some(largest) = self.pods.first().filter(is_named) {
            let namespace = &largest.pod.namespace;
            let places = [("namespace", Place::word(namespace)), ("pod", Place::word(&largest.pod))];
            steps.extend(steps_of("scaleDown", &places));
            if let Some(excess) = excess {
                let ended = self.to_end(namespace, excess);
                let which = if ended.len() == 1 { "this pod" } else { "the largest pods" };
                let names = Place::words(ended.iter().map(|size| &size.pod.name));
                let [namespace, _] = places;
                let places = [namespace, ("which", Place::word(which)), ("pods", names)];
                steps.extend(steps_of("endLargest", &places));
                steps.extend(self.end_here(&ended));
            }
        }
        steps.extend(steps_of("lowerMaxPods", &[]));
        steps
    }

    /// Returns the largest pods of a namespace that have so many bytes together, but not more than one command ends.
    fn to_end(&self, namespace: &str, excess: u64) -> Vec<&PodSize<'a>> {
        let mut bytes = 0;
        let of_namespace = |size: &&PodSize<'_>| size.pod.namespace == namespace && is_plain(&size.pod.name);
        let is_needed = |size: &&PodSize<'_>| {
            let is_needed = bytes < excess;
            bytes += count(size.bytes);
            is_needed
        };
        self.pods.iter().filter(of_namespace).take(AT_ONCE).take_while(is_needed).collect()
    }

    /// Returns the steps that end pods on the node. `crictl rmp` reads the status of a pod first, so it cannot remove one
    /// whose status may be too large too.
    fn end_here(&self, pods: &[&PodSize<'_>]) -> Vec<Step> {
        let sandboxes = self.sandbox_ids(pods.iter().filter_map(|pod| pod.sandbox));
        let Some((sandboxes, largest)) = sandboxes.zip(pods.first()) else {
            return Vec::new();
        };
        let them = Place::word(if pods.len() == 1 { "it" } else { "them" });
        let of_sandboxes = [("them", them), ("ids", Place::words(sandboxes))];
        if count(largest.bytes) < RECEIVE_LIMIT / 2 {
            return steps_of("stopAndRemoveHere", &of_sandboxes);
        }
        let containers = self.container_ids(&largest.containers);
        let stop = |containers| {
            let remove = steps_of("removeContainersHere", &[("ids", Place::words(containers))]);
            [steps_of("stopHere", &of_sandboxes), remove].concat()
        };
        containers.map(stop).unwrap_or_default()
    }

    fn sandbox_ids<'b>(&self, ids: impl Iterator<Item = &'b str>) -> Option<Vec<&'b str>> {
        shell_ids(ids, |prefix| self.sandboxes.iter().filter(|one| one.id.starts_with(prefix)).count())
    }

    fn container_ids<'b>(&self, containers: &[&'b Container]) -> Option<Vec<&'b str>> {
        let ids = containers.iter().map(|container| container.id.as_str());
        shell_ids(ids, |prefix| self.containers.iter().filter(|one| one.id.starts_with(prefix)).count())
    }
}

/// Returns the first ids as words of a shell; `None` if there is none that needs no quotation marks. An id is cut as crictl
/// cuts it if no other known id begins so.
fn shell_ids<'a>(ids: impl Iterator<Item = &'a str>, known: impl Fn(&str) -> usize) -> Option<Vec<&'a str>> {
    let words = ids.filter(|id| is_plain(id)).take(AT_ONCE);
    let words: Vec<&str> = words.map(|id| if known(short(id)) > 1 { id } else { short(id) }).collect();
    (!words.is_empty()).then_some(words)
}

/// Whether a shell and crictl take the text as one word that is no flag.
pub(super) fn is_plain(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(is_allowed)
}

/// A container's pod and name.
type NameInPod<'a> = (&'a str, &'a str);

fn attempt_of(container: &Container) -> Option<(NameInPod<'_>, u32)> {
    let metadata = container.metadata.as_ref()?;
    Some(((container.labels.get(label::POD_UID)?, metadata.name.as_str()), metadata.attempt))
}

fn newest_attempts(containers: &[Container]) -> BTreeMap<NameInPod<'_>, u32> {
    let mut newest = BTreeMap::new();
    for (key, attempt) in containers.iter().filter_map(attempt_of) {
        let known = newest.entry(key).or_insert(attempt);
        *known = attempt.max(*known);
    }
    newest
}

/// Adds up the bytes of each pod, the largest first. Only the texts count: the rest of an entry is a few dozen bytes.
fn pod_sizes<'a>(containers: &'a [Container], sandboxes: &'a [Sandbox]) -> Vec<PodSize<'a>> {
    let mut sizes: BTreeMap<(&str, &str, &str), PodSize<'a>> = BTreeMap::new();
    let empty = |(namespace, name, uid): (&str, &str, &str)| {
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        PodSize { pod: PodRef { uid, namespace, name }, bytes: 0, sandbox: None, containers: Vec::new() }
    };
    for sandbox in sandboxes {
        let Some(pod) = &sandbox.metadata else { continue };
        let key = (pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str());
        let size = sizes.entry(key).or_insert_with(|| empty(key));
        size.bytes += sandbox_bytes(sandbox);
        if sandbox.state == SandboxState::Ready || size.sandbox.is_none() {
            size.sandbox = Some(&sandbox.id);
        }
    }
    for container in containers {
        let labels = &container.labels;
        let key = (labels.get(label::POD_NAMESPACE), labels.get(label::POD_NAME), labels.get(label::POD_UID));
        let (Some(namespace), Some(name), Some(uid)) = key else { continue };
        let key = (namespace, name, uid);
        let size = sizes.entry(key).or_insert_with(|| empty(key));
        size.bytes += container_bytes(container);
        size.sandbox.get_or_insert(&container.sandbox_id);
        size.containers.push(container);
    }
    let mut sizes: Vec<PodSize<'a>> = sizes.into_values().collect();
    for size in &mut sizes {
        size.containers.sort_by_key(|container| std::cmp::Reverse(container_bytes(container)));
    }
    sizes.sort_by_key(|size| std::cmp::Reverse(size.bytes));
    sizes
}

fn container_bytes(container: &Container) -> usize {
    let texts = container.id.len() + container.sandbox_id.len() + container.image_ref.len();
    texts + label_bytes(&container.labels, &container.annotations)
}

fn sandbox_bytes(sandbox: &Sandbox) -> usize {
    sandbox.id.len() + label_bytes(&sandbox.labels, &sandbox.annotations)
}

const fn label_bytes(labels: &Labels, annotations: &Labels) -> usize {
    labels.text_bytes() + annotations.text_bytes()
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
