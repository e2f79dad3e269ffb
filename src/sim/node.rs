//! The logical node: what its runtime knows at a given moment of simulated time.
//!
//! A pure function of scenario, seed and time. Pods to which nothing happens any more are written down once, so that
//! a node of ten thousand of them is cheap to ask.

use std::collections::HashMap;
use std::sync::Arc;

use super::life::{ContainerLife, Nanos, Pod, Slot};
use super::scenario::{Delivery, Scenario};
use super::scribe::Scribe;
use super::seed::Seed;
use crate::cri::server::{Bytes, BytesMut, message};
use crate::cri::{Container, ContainerEvent, Sandbox};

/// Length of an id that is not abbreviated.
const WHOLE_ID: usize = 64;

/// How many items containerd puts into one message of a streamed list.
const BATCH: usize = 5000;

/// The pods of a scenario.
#[derive(Debug)]
pub struct Node {
    scribe: Scribe,
    competing: bool,
    lively: Vec<Slot>,
    settled: Vec<Pod>,
    settled_ids: HashMap<String, Place>,
    settled_sandboxes: Written,
    settled_containers: Written,
}

/// Items of a list, encoded one after another as its first field. That is what each of the CRI's list answers looks
/// like, the streamed ones too; and since repeated fields may be written in pieces, what else there is can follow.
#[derive(Debug, Default)]
struct Written {
    bytes: Bytes,
    /// Where it may be cut into batches.
    cuts: Vec<usize>,
}

/// Where a settled object is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Sandbox(usize),
    Container(usize, usize),
}

/// Something that happened, with the moment of simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// The event as the runtime sends it.
    pub message: ContainerEvent,
}

impl Node {
    /// The node of `scenario` whose simulated time 0 is `origin`, in nanoseconds since the Unix epoch.
    pub fn new(scenario: &Scenario, origin: i64) -> Self {
        let scribe = Scribe { origin, family: scenario.runtime.family };
        let seed = Seed::new(scenario.seed);
        let slots = scenario.groups.iter().flat_map(|group| {
            let group = Arc::new(group.clone());
            (0..group.count).map(move |index| Slot::new(Arc::clone(&group), index, seed))
        });
        let (mut lively, mut settled): (Vec<Slot>, Vec<Pod>) = (Vec::new(), Vec::new());
        for mut slot in slots {
            settled.extend(slot.settle(0));
            if slot.next_after(0).is_some() {
                lively.push(slot);
            }
        }
        let settled_sandboxes =
            Written::of(&settled, |pod| (1, message::sandboxes([scribe.sandbox(pod, 0)])));
        let settled_containers = Written::of(&settled, |pod| {
            let lives = pod.containers_at(0).map(|container| scribe.container(pod, container, 0));
            let containers: Vec<_> = lives.collect();
            (containers.len(), message::containers(containers))
        });
        Self {
            scribe,
            competing: scenario.runtime.events == Delivery::Competing,
            lively,
            settled_ids: index(&settled),
            settled,
            settled_sandboxes,
            settled_containers,
        }
    }

    fn lively_at(&self, at: Nanos) -> impl Iterator<Item = Pod> + '_ {
        self.lively.iter().flat_map(move |slot| slot.pods_at(at))
    }

    /// Answer to `ListPodSandbox` without a filter, encoded.
    pub fn all_sandboxes(&self, at: Nanos) -> Bytes {
        appended(&self.settled_sandboxes.bytes, &self.lively_sandboxes(at))
    }

    /// Answer to `StreamPodSandboxes` without a filter, in batches.
    pub fn sandbox_batches(&self, at: Nanos) -> Vec<Bytes> {
        self.settled_sandboxes.batches(self.lively_sandboxes(at))
    }

    fn lively_sandboxes(&self, at: Nanos) -> Bytes {
        message::sandboxes(self.lively_at(at).map(|pod| self.scribe.sandbox(&pod, at)))
    }

    /// Answer to `ListContainers` without a filter, encoded.
    pub fn all_containers(&self, at: Nanos) -> Bytes {
        appended(&self.settled_containers.bytes, &self.lively_containers(at))
    }

    /// Answer to `StreamContainers` without a filter, in batches.
    pub fn container_batches(&self, at: Nanos) -> Vec<Bytes> {
        self.settled_containers.batches(self.lively_containers(at))
    }

    fn lively_containers(&self, at: Nanos) -> Bytes {
        message::containers(self.lively_at(at).flat_map(|pod| self.containers_of(&pod, at)))
    }

    /// The sandboxes that `wanted` lets through.
    pub fn sandboxes(&self, at: Nanos, wanted: impl Fn(&Sandbox) -> bool) -> Vec<Sandbox> {
        let lively: Vec<Pod> = self.lively_at(at).collect();
        let pods = self.settled.iter().chain(&lively);
        pods.map(|pod| self.scribe.sandbox(pod, at)).filter(wanted).collect()
    }

    /// The containers that `wanted` lets through.
    pub fn containers(&self, at: Nanos, wanted: impl Fn(&Container) -> bool) -> Vec<Container> {
        let lively: Vec<Pod> = self.lively_at(at).collect();
        let pods = self.settled.iter().chain(&lively);
        pods.flat_map(|pod| self.containers_of(pod, at)).filter(wanted).collect()
    }

    fn containers_of(&self, pod: &Pod, at: Nanos) -> Vec<Container> {
        pod.containers_at(at).map(|container| self.scribe.container(pod, container, at)).collect()
    }

    /// The pod whose sandbox is called `id`, or is the only one whose id starts so.
    pub fn find_sandbox(&self, id: &str, at: Nanos) -> Option<Pod> {
        let place = |place: &Place| match place {
            Place::Sandbox(pod) => self.settled.get(*pod).cloned(),
            Place::Container(..) => None,
        };
        if let Some(found) = self.settled_ids.get(id).and_then(place) {
            return Some(found);
        }
        let lively = self.lively_at(at).filter(|pod| pod.sandbox_id().starts_with(id));
        only(id, self.abbreviated(id).filter_map(place).chain(lively))
    }

    /// The container called `id`, or the only one whose id starts so, and its pod.
    pub fn find_container(&self, id: &str, at: Nanos) -> Option<(Pod, ContainerLife)> {
        let place = |place: &Place| match place {
            Place::Container(pod, container) => {
                let pod = self.settled.get(*pod)?;
                Some((pod.clone(), pod.containers.get(*container)?.clone()))
            }
            Place::Sandbox(_) => None,
        };
        if let Some(found) = self.settled_ids.get(id).and_then(place) {
            return Some(found);
        }
        let lively = self.lively_at(at).flat_map(|pod| {
            let its: Vec<ContainerLife> = pod
                .containers_at(at)
                .filter(|life| pod.container_id(life).starts_with(id))
                .cloned()
                .collect();
            its.into_iter().map(move |life| (pod.clone(), life))
        });
        only(id, self.abbreviated(id).filter_map(place).chain(lively))
    }

    /// The settled objects whose ids start with `id`; none for a whole id, which the index would have had.
    fn abbreviated(&self, id: &str) -> impl Iterator<Item = &Place> {
        let settled = (id.len() < WHOLE_ID).then_some(&self.settled_ids).into_iter().flatten();
        settled.filter(move |(other, _)| other.starts_with(id)).map(|(_, place)| place)
    }

    /// Everything that the runtime tells of after `from` and up to `to`, in order.
    pub fn events(&self, from: Nanos, to: Nanos) -> Vec<Event> {
        let mut events = Vec::new();
        for slot in &self.lively {
            for (pod, moments) in slot.happenings(from, to) {
                let told = moments.into_iter().filter_map(|moment| {
                    let message = self.scribe.event(&pod, moment, self.competing)?;
                    Some(Event { at: moment.at, message })
                });
                events.extend(told);
            }
        }
        events.sort_by_key(|event| event.at);
        events
    }

    /// When something next happens after `at`, whether it is told of or not.
    pub fn next_after(&self, at: Nanos) -> Option<Nanos> {
        self.lively.iter().filter_map(|slot| slot.next_after(at)).min()
    }

    /// How its objects are written.
    pub fn scribe(&self) -> Scribe {
        self.scribe
    }
}

impl Written {
    /// Encodes what `items` makes of each pod.
    fn of(pods: &[Pod], items: impl Fn(&Pod) -> (usize, Bytes)) -> Self {
        let (mut bytes, mut cuts, mut in_batch) = (BytesMut::new(), Vec::new(), 0);
        for pod in pods {
            let (count, message) = items(pod);
            if in_batch + count > BATCH {
                cuts.push(bytes.len());
                in_batch = 0;
            }
            in_batch += count;
            bytes.extend_from_slice(&message);
        }
        Self { bytes: bytes.freeze(), cuts }
    }

    /// The batches, and `rest` behind them; an empty batch is none.
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

fn appended(settled: &Bytes, rest: &Bytes) -> Bytes {
    if rest.is_empty() {
        return settled.clone();
    }
    let mut buffer = BytesMut::with_capacity(settled.len() + rest.len());
    buffer.extend_from_slice(settled);
    buffer.extend_from_slice(rest);
    buffer.freeze()
}

/// The only one found; an empty abbreviation stands for nobody.
fn only<T>(id: &str, mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next().filter(|_| !id.is_empty())?;
    found.next().is_none().then_some(first)
}

fn index(pods: &[Pod]) -> HashMap<String, Place> {
    let mut places = HashMap::new();
    for (number, pod) in pods.iter().enumerate() {
        places.insert(pod.sandbox_id(), Place::Sandbox(number));
        // Nothing happens to these any more: who is not there now never will be.
        for (position, container) in pod.containers.iter().enumerate().filter(|(_, life)| life.is_there(0)) {
            places.insert(pod.container_id(container), Place::Container(number, position));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::format::read;

    const SECOND: Nanos = 1_000_000_000;

    fn node(pods: &str) -> Node {
        let file = format!("title: a\nteaches: b\nwrong: c\nkubelet: d\npods: {pods}\n");
        Node::new(&read("test", file.as_bytes()).unwrap(), 1_700_000_000 * SECOND)
    }

    const MIXED: &str =
        "[{ name: still, count: 7, containers: [a, b] }, { name: busy, count: 3, lives: 10s }]";

    #[test]
    fn what_is_written_down_once_is_what_would_be_written_each_time() {
        let node = node(MIXED);
        assert_eq!((node.settled.len(), node.lively.len()), (7, 3));
        for at in [0, 5 * SECOND, 333 * SECOND] {
            assert_eq!(node.all_sandboxes(at), message::sandboxes(node.sandboxes(at, |_| true)));
            let containers = message::containers(node.containers(at, |_| true));
            assert_eq!(node.all_containers(at), containers);
            assert_eq!(node.container_batches(at).concat(), containers);
        }
    }

    #[test]
    fn streamed_lists_come_in_batches_of_five_thousand() {
        let node = node("[{ name: still, count: 5600, containers: [a, b] }]");
        let containers = node.containers(0, |_| true);
        let batches: Vec<Bytes> =
            containers.chunks(BATCH).map(|batch| message::containers(batch.iter().cloned())).collect();
        assert_eq!(node.container_batches(0), batches);
        assert_eq!(batches.len(), 3);
        assert!(Written::default().batches(Bytes::new()).is_empty());
    }

    #[test]
    fn everything_listed_is_found_by_its_id_and_by_its_beginning() {
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
