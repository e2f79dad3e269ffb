//! The logical node: what its runtime knows at a given moment of simulated time.
//!
//! A pure function of scenario, seed and time. Pods to which nothing happens any more are written down once, so that
//! a node of ten thousand of them is cheap to ask.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};

use super::life::{ContainerLife, Nanos, Pod, Slot};
use super::scenario::{Delivery, Scenario};
use super::seed::Seed;
use super::wire::Scribe;
use crate::cri::generated as wire;

/// The pods of a scenario.
#[derive(Debug)]
pub struct Node {
    scribe: Scribe,
    competing: bool,
    lively: Vec<Slot>,
    settled: Vec<Pod>,
    settled_ids: HashMap<String, Place>,
    settled_sandboxes: Bytes,
    settled_containers: Bytes,
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
    pub message: wire::ContainerEventResponse,
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
        let (lively, still): (Vec<Slot>, Vec<Slot>) = slots.partition(|slot| slot.next_after(0).is_some());
        let settled: Vec<Pod> = still.iter().flat_map(|slot| slot.pods_at(0)).collect();
        let (settled_sandboxes, settled_containers) = written_down(scribe, &settled);
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
        let items = self.lively_at(at).map(|pod| self.scribe.sandbox(&pod, at)).collect();
        appended(&self.settled_sandboxes, &wire::ListPodSandboxResponse { items })
    }

    /// Answer to `ListContainers` without a filter, encoded.
    pub fn all_containers(&self, at: Nanos) -> Bytes {
        let containers = self.lively_at(at).flat_map(|pod| self.containers_of(&pod, at)).collect();
        appended(&self.settled_containers, &wire::ListContainersResponse { containers })
    }

    /// The sandboxes that `wanted` lets through.
    pub fn sandboxes(&self, at: Nanos, wanted: impl Fn(&wire::PodSandbox) -> bool) -> Vec<wire::PodSandbox> {
        let lively: Vec<Pod> = self.lively_at(at).collect();
        let pods = self.settled.iter().chain(&lively);
        pods.map(|pod| self.scribe.sandbox(pod, at)).filter(wanted).collect()
    }

    /// The containers that `wanted` lets through.
    pub fn containers(&self, at: Nanos, wanted: impl Fn(&wire::Container) -> bool) -> Vec<wire::Container> {
        let lively: Vec<Pod> = self.lively_at(at).collect();
        let pods = self.settled.iter().chain(&lively);
        pods.flat_map(|pod| self.containers_of(pod, at)).filter(wanted).collect()
    }

    fn containers_of(&self, pod: &Pod, at: Nanos) -> Vec<wire::Container> {
        pod.containers_at(at).map(|container| self.scribe.container(pod, container, at)).collect()
    }

    /// The pod whose sandbox is called `id`.
    pub fn find_sandbox(&self, id: &str, at: Nanos) -> Option<Pod> {
        match self.settled_ids.get(id) {
            Some(Place::Sandbox(pod)) => self.settled.get(*pod).cloned(),
            Some(Place::Container(..)) => None,
            None => self.lively_at(at).find(|pod| pod.sandbox_id() == id),
        }
    }

    /// The container called `id` and its pod.
    pub fn find_container(&self, id: &str, at: Nanos) -> Option<(Pod, ContainerLife)> {
        match self.settled_ids.get(id) {
            Some(Place::Container(pod, container)) => {
                let pod = self.settled.get(*pod)?;
                Some((pod.clone(), pod.containers.get(*container)?.clone()))
            }
            Some(Place::Sandbox(_)) => None,
            None => self.lively_at(at).find_map(|pod| {
                let found =
                    pod.containers_at(at).find(|container| pod.container_id(container) == id)?.clone();
                Some((pod, found))
            }),
        }
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

/// The settled pods' part of the two unfiltered lists. Repeated fields may be written one after another, so what
/// else there is can follow.
fn written_down(scribe: Scribe, pods: &[Pod]) -> (Bytes, Bytes) {
    let (mut sandboxes, mut containers) = (BytesMut::new(), BytesMut::new());
    for pod in pods {
        let items = vec![scribe.sandbox(pod, 0)];
        write(&mut sandboxes, &wire::ListPodSandboxResponse { items });
        let of_pod = pod.containers_at(0).map(|container| scribe.container(pod, container, 0)).collect();
        write(&mut containers, &wire::ListContainersResponse { containers: of_pod });
    }
    (sandboxes.freeze(), containers.freeze())
}

fn write(buffer: &mut BytesMut, message: &impl Message) {
    buffer.put_slice(&message.encode_to_vec());
}

fn appended(settled: &Bytes, rest: &impl Message) -> Bytes {
    if rest.encoded_len() == 0 {
        return settled.clone();
    }
    let mut buffer = BytesMut::with_capacity(settled.len() + rest.encoded_len());
    buffer.put_slice(settled);
    write(&mut buffer, rest);
    buffer.freeze()
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
