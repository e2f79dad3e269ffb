//! [`SimulatedNode`]: the sandboxes and containers that the simulated runtime lists at a given simulated time, and
//! its events.
//!
//! They are a pure function of scenario, seed and time. Pods that do not change any more ("settled") are encoded
//! once, so that a node with ten thousand of them is listed quickly.

use std::collections::HashMap;
use std::sync::Arc;

use super::life::{ContainerLife, Nanos, PodLife, Slot};
use super::messages::MessageBuilder;
use super::scenario::{EventDelivery, RuntimeFamily, Scenario};
use super::seed::Seed;
use crate::cri::server::{Bytes, BytesMut, message};
use crate::cri::{Container, ContainerEvent, Sandbox};

/// The length of a complete id.
const WHOLE_ID: usize = 64;

/// Returns the number of items in each message of this runtime's streamed lists.
const fn batch(family: RuntimeFamily) -> usize {
    match family {
        // containerd 2.4 (containerd#13187).
        RuntimeFamily::Containerd => 5000,
        // streamChunkSize (cri-o, server/server.go).
        RuntimeFamily::CriO => 3000,
    }
}

/// The sandboxes and containers of a scenario.
#[derive(Debug)]
pub struct SimulatedNode {
    /// The builder of the runtime's messages.
    pub message_builder: MessageBuilder,
    /// Whether listeners compete for events.
    competing: bool,
    /// The slots whose pods still change.
    active: Vec<Slot>,
    /// The pods that do not change any more.
    settled: Vec<PodLife>,
    settled_ids: HashMap<String, ObjectIndex>,
    settled_sandboxes: EncodedList,
    settled_containers: EncodedList,
}

/// List items, encoded one after the other as the repeated first field of a CRI list answer. Further items can be
/// appended, because protobuf allows a repeated field in several parts.
#[derive(Debug, Default)]
struct EncodedList {
    bytes: Bytes,
    /// The offsets at which the list may be divided into batches.
    cuts: Vec<usize>,
}

/// The index of an object that does not change any more.
#[derive(Clone, Copy, Debug)]
enum ObjectIndex {
    Sandbox(usize),
    Container(usize, usize),
}

/// An event with its simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedEvent {
    /// The simulated time.
    pub at: Nanos,
    /// The event as the runtime sends it.
    pub message: ContainerEvent,
}

impl SimulatedNode {
    /// Creates the node of `scenario`, for times and events after `from`. Simulated time 0 is `origin`, in nanoseconds
    /// since the Unix epoch.
    pub fn new(scenario: &Scenario, origin: i64, from: Nanos) -> Self {
        let message_builder = MessageBuilder { origin, family: scenario.runtime.family };
        let seed = Seed::new(scenario.seed);
        let slots = scenario.groups.iter().flat_map(|group| {
            let group = Arc::new(group.clone());
            (0..group.count).map(move |index| Slot::new(Arc::clone(&group), index, seed))
        });
        let (mut active, mut settled): (Vec<Slot>, Vec<PodLife>) = (Vec::new(), Vec::new());
        for mut slot in slots {
            settled.extend(slot.settle(from));
            if slot.next_after(from).is_some() {
                active.push(slot);
            }
        }
        let most = batch(scenario.runtime.family);
        let settled_sandboxes = EncodedList::of(&settled, most, |pod| {
            (1, message::sandboxes([message_builder.sandbox(pod, from)]))
        });
        let settled_containers = EncodedList::of(&settled, most, |pod| {
            let lives =
                pod.containers_at(from).map(|container| message_builder.container(pod, container, from));
            let containers: Vec<_> = lives.collect();
            (containers.len(), message::containers(containers))
        });
        Self {
            message_builder,
            competing: scenario.runtime.events == EventDelivery::Competing,
            active,
            settled_ids: index(&settled),
            settled,
            settled_sandboxes,
            settled_containers,
        }
    }

    /// Returns the pods that still change and exist at `at`.
    fn active_at(&self, at: Nanos) -> impl Iterator<Item = PodLife> + '_ {
        self.active.iter().flat_map(move |slot| slot.pods_at(at))
    }

    /// Returns the encoded answer to `ListPodSandbox` without a filter.
    pub fn all_sandboxes(&self, at: Nanos) -> Bytes {
        appended(&self.settled_sandboxes.bytes, &self.active_sandboxes(at))
    }

    /// Returns the encoded answer to `StreamPodSandboxes` without a filter, in batches.
    pub fn sandbox_batches(&self, at: Nanos) -> Vec<Bytes> {
        self.settled_sandboxes.batches(self.active_sandboxes(at))
    }

    fn active_sandboxes(&self, at: Nanos) -> Bytes {
        message::sandboxes(self.active_at(at).map(|pod| self.message_builder.sandbox(&pod, at)))
    }

    /// Returns the encoded answer to `ListContainers` without a filter.
    pub fn all_containers(&self, at: Nanos) -> Bytes {
        appended(&self.settled_containers.bytes, &self.active_containers(at))
    }

    /// Returns the encoded answer to `StreamContainers` without a filter, in batches.
    pub fn container_batches(&self, at: Nanos) -> Vec<Bytes> {
        self.settled_containers.batches(self.active_containers(at))
    }

    fn active_containers(&self, at: Nanos) -> Bytes {
        message::containers(self.active_at(at).flat_map(|pod| self.containers_of(&pod, at)))
    }

    /// Returns the sandboxes that `wanted` accepts.
    pub fn sandboxes(&self, at: Nanos, wanted: impl Fn(&Sandbox) -> bool) -> Vec<Sandbox> {
        let active: Vec<PodLife> = self.active_at(at).collect();
        let pods = self.settled.iter().chain(&active);
        pods.map(|pod| self.message_builder.sandbox(pod, at)).filter(wanted).collect()
    }

    /// Returns the containers that `wanted` accepts.
    pub fn containers(&self, at: Nanos, wanted: impl Fn(&Container) -> bool) -> Vec<Container> {
        let active: Vec<PodLife> = self.active_at(at).collect();
        let pods = self.settled.iter().chain(&active);
        pods.flat_map(|pod| self.containers_of(pod, at)).filter(wanted).collect()
    }

    fn containers_of(&self, pod: &PodLife, at: Nanos) -> Vec<Container> {
        pod.containers_at(at).map(|container| self.message_builder.container(pod, container, at)).collect()
    }

    /// Returns the pod whose sandbox has this id, or the only one whose id starts with it.
    pub fn find_sandbox(&self, id: &str, at: Nanos) -> Option<PodLife> {
        let settled = |index: &ObjectIndex| match index {
            ObjectIndex::Sandbox(pod) => self.settled.get(*pod).cloned(),
            ObjectIndex::Container(..) => None,
        };
        if let Some(found) = self.settled_ids.get(id).and_then(settled) {
            return Some(found);
        }
        let active = self.active_at(at).filter(|pod| pod.sandbox_id().starts_with(id));
        only(id, self.abbreviated(id).filter_map(settled).chain(active))
    }

    /// Returns the container with this id, or the only one whose id starts with it, and its pod.
    pub fn find_container(&self, id: &str, at: Nanos) -> Option<(PodLife, ContainerLife)> {
        let settled = |index: &ObjectIndex| match index {
            ObjectIndex::Container(pod, container) => {
                let pod = self.settled.get(*pod)?;
                Some((pod.clone(), pod.containers.get(*container)?.clone()))
            }
            ObjectIndex::Sandbox(_) => None,
        };
        if let Some(found) = self.settled_ids.get(id).and_then(settled) {
            return Some(found);
        }
        let active = self.active_at(at).flat_map(|pod| {
            let its: Vec<ContainerLife> = pod
                .containers_at(at)
                .filter(|life| pod.container_id(life).starts_with(id))
                .cloned()
                .collect();
            its.into_iter().map(move |life| (pod.clone(), life))
        });
        only(id, self.abbreviated(id).filter_map(settled).chain(active))
    }

    /// Returns the unchanging objects whose ids start with `id`; none for a complete id, which the index would have
    /// found.
    fn abbreviated(&self, id: &str) -> impl Iterator<Item = &ObjectIndex> {
        let settled = (id.len() < WHOLE_ID).then_some(&self.settled_ids).into_iter().flatten();
        settled.filter(move |(other, _)| other.starts_with(id)).map(|(_, index)| index)
    }

    /// Returns all events that the runtime sends after `from` and up to `to`, in order.
    pub fn events(&self, from: Nanos, to: Nanos) -> Vec<TimedEvent> {
        let mut events = Vec::new();
        for slot in &self.active {
            for (pod, changes) in slot.changes(from, to) {
                let sent = changes.into_iter().filter_map(|change| {
                    let message = self.message_builder.event(&pod, change, self.competing)?;
                    Some(TimedEvent { at: change.at, message })
                });
                events.extend(sent);
            }
        }
        events.sort_by_key(|event| event.at);
        events
    }

    /// Returns the time of the next change after `at`, whether or not it causes an event.
    pub fn next_after(&self, at: Nanos) -> Option<Nanos> {
        self.active.iter().filter_map(|slot| slot.next_after(at)).min()
    }
}

impl EncodedList {
    /// Encodes the items of each pod, with at most `most` in a batch.
    fn of(pods: &[PodLife], most: usize, items: impl Fn(&PodLife) -> (usize, Bytes)) -> Self {
        let (mut bytes, mut cuts, mut in_batch) = (BytesMut::new(), Vec::new(), 0);
        for pod in pods {
            let (count, message) = items(pod);
            if in_batch + count > most {
                cuts.push(bytes.len());
                in_batch = 0;
            }
            in_batch += count;
            bytes.extend_from_slice(&message);
        }
        Self { bytes: bytes.freeze(), cuts }
    }

    /// Returns the batches with `rest` appended; an empty batch is omitted.
    fn batches(&self, rest: Bytes) -> Vec<Bytes> {
        let mut left = self.bytes.clone();
        let mut done = 0;
        let mut batches = Vec::with_capacity(self.cuts.len() + 2);
        for cut in &self.cuts {
            batches.push(left.split_to(cut - done));
            done = *cut;
        }
        batches.push(left);
        batches.push(rest);
        batches.retain(|batch| !batch.is_empty());
        batches
    }
}

/// Appends encoded list items to others.
fn appended(settled: &Bytes, rest: &Bytes) -> Bytes {
    if rest.is_empty() {
        return settled.clone();
    }
    let mut buffer = BytesMut::with_capacity(settled.len() + rest.len());
    buffer.extend_from_slice(settled);
    buffer.extend_from_slice(rest);
    buffer.freeze()
}

/// Returns the only item found; an empty id prefix matches nothing.
fn only<T>(id: &str, mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next().filter(|_| !id.is_empty())?;
    found.next().is_none().then_some(first)
}

/// Maps the id of each sandbox and container of settled pods to its index.
fn index(pods: &[PodLife]) -> HashMap<String, ObjectIndex> {
    let mut indexes = HashMap::new();
    for (number, pod) in pods.iter().enumerate() {
        indexes.insert(pod.sandbox_id(), ObjectIndex::Sandbox(number));
        // These pods do not change any more: a container that does not exist now will never exist.
        for (position, container) in pod.containers.iter().enumerate().filter(|(_, life)| life.exists(0)) {
            indexes.insert(pod.container_id(container), ObjectIndex::Container(number, position));
        }
    }
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::format::read;

    const SECOND: Nanos = 1_000_000_000;

    fn node(pods: &str) -> SimulatedNode {
        let file = format!("title: a\nteaches: b\nwrong: c\nkubelet: d\npods: {pods}\n");
        SimulatedNode::new(&read("test", file.as_bytes()).unwrap(), 1_700_000_000 * SECOND, 0)
    }

    const MIXED: &str =
        "[{ name: still, count: 7, containers: [a, b] }, { name: busy, count: 3, lives: 10s }]";

    #[test]
    fn items_encoded_once_equal_items_encoded_each_time() {
        let node = node(MIXED);
        assert_eq!((node.settled.len(), node.active.len()), (7, 3));
        for at in [0, 5 * SECOND, 333 * SECOND] {
            assert_eq!(node.all_sandboxes(at), message::sandboxes(node.sandboxes(at, |_| true)));
            let containers = message::containers(node.containers(at, |_| true));
            assert_eq!(node.all_containers(at), containers);
            assert_eq!(node.container_batches(at).concat(), containers);
        }
    }

    #[test]
    fn a_node_that_is_created_later_has_the_same_objects_and_events() {
        let ids = |node: &SimulatedNode, at: Nanos| {
            let mut ids: Vec<String> = node.sandboxes(at, |_| true).into_iter().map(|one| one.id).collect();
            ids.extend(node.containers(at, |_| true).into_iter().map(|one| one.id));
            ids.sort();
            ids
        };
        // Finished pods of `done` stay, so they stop changing one after the other.
        let pods = "[{ name: done, owner: job, runs: 5s, every: 20s }, { name: busy, count: 3, lives: 10s }]";
        let file = format!("title: a\nteaches: b\nwrong: c\nkubelet: d\npods: {pods}\n");
        let scenario = read("test", file.as_bytes()).unwrap();
        let origin = 1_700_000_000 * SECOND;
        let first = SimulatedNode::new(&scenario, origin, 0);
        for from in [0, 90 * SECOND, 3600 * SECOND] {
            let later = SimulatedNode::new(&scenario, origin, from);
            assert_eq!(later.settled.len() > first.settled.len(), from > 0, "{from}");
            let until = from + 120 * SECOND;
            assert_eq!(ids(&later, from), ids(&first, from), "{from}");
            assert_eq!(ids(&later, until), ids(&first, until), "{from}");
            assert_eq!(later.events(from, until), first.events(from, until), "{from}");
        }
    }

    #[test]
    fn streamed_lists_have_the_batches_of_their_runtime() {
        let pods = "[{ name: still, count: 5600, containers: [a, b] }]";
        for (family, most, count) in [("containerd", 5000, 3), ("cri-o", 3000, 4)] {
            let node = node(&format!("{pods}\nruntime: {{ name: {family} }}"));
            let containers = node.containers(0, |_| true);
            let batches: Vec<Bytes> =
                containers.chunks(most).map(|batch| message::containers(batch.iter().cloned())).collect();
            assert_eq!(node.container_batches(0), batches, "{family}");
            assert_eq!(batches.len(), count, "{family}");
        }
        assert!(EncodedList::default().batches(Bytes::new()).is_empty());
    }

    #[test]
    fn every_listed_object_is_found_by_its_id_and_by_an_id_prefix() {
        let node = node(MIXED);
        let at = 42 * SECOND;
        for sandbox in node.sandboxes(at, |_| true) {
            assert_eq!(node.find_sandbox(&sandbox.id, at).unwrap().sandbox_id(), sandbox.id);
            assert_eq!(node.find_sandbox(&sandbox.id[..12], at).unwrap().sandbox_id(), sandbox.id);
            assert!(node.find_container(&sandbox.id, at).is_none());
        }
        for container in node.containers(at, |_| true) {
            let (pod, found) = node.find_container(&container.id[..12], at).unwrap();
            assert_eq!(pod.container_id(&found), container.id);
            assert!(node.find_container(&container.id, at).is_some());
            assert!(node.find_sandbox(&container.id, at).is_none());
        }
        assert!(node.find_sandbox("", at).is_none());
        assert!(node.find_container("nobody", at).is_none());
    }
}
