//! Makes random changes to the pods of a real runtime and computes the events that each change must cause.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Signal, kill_process};

use crate::daemon::RealRuntime;
use crate::messages::ContainerState;
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::wait_for;

/// A fixed seed, so that each run makes the same changes.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A container that ends with 0 on SIGTERM and with 3 on SIGUSR1.
const EXITS_ON_SIGNAL: &str = "trap 'exit 0' TERM; trap 'exit 3' USR1; while :; do sleep 0.02; done";

/// The fields of a delivered event that the tests compare: type, id, exit code.
pub type Seen = (String, String, Option<i64>);

/// The events of one change. They are a set, because the order of different ids is not fixed.
pub type Expected = BTreeSet<Seen>;

fn event(kind: &str, id: &str) -> Seen {
    (kind.to_owned(), id.to_owned(), None)
}

fn died(id: &str, code: i64) -> Seen {
    ("ContainerDied".to_owned(), id.to_owned(), Some(code))
}

/// Changes a node and remembers the state of its pods.
pub struct Driver<'a> {
    runtime: &'a RealRuntime,
    random: u64,
    pods: Vec<LivePod>,
    made: usize,
}

/// A pod that the driver has not removed yet.
struct LivePod {
    name: String,
    pod: Pod,
    /// The state of each container, by id.
    containers: BTreeMap<String, ContainerFate>,
    attempts: u32,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ContainerFate {
    Created,
    Runs,
    Exited,
}

impl<'a> Driver<'a> {
    /// Creates a driver for an empty node.
    pub fn of(runtime: &'a RealRuntime) -> Self {
        Self { runtime, random: SEED, pods: Vec::new(), made: 0 }
    }

    /// Returns a random number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        // Xorshift is random enough for a choice among a few changes.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Makes one change and returns the expected events.
    pub fn step(&mut self) -> Expected {
        if self.pods.is_empty() || (self.pods.len() < 4 && self.below(8) == 0) {
            return self.run_pod();
        }
        let chosen = self.below(self.pods.len());
        let action = self.below(10);
        if self.pods[chosen].stopped {
            return self.remove_pod(chosen);
        }
        let of_fate = |fate| {
            let containers = &self.pods[chosen].containers;
            containers.iter().find(|(_, is)| **is == fate).map(|(id, _)| id.clone())
        };
        let created = of_fate(ContainerFate::Created);
        let runs = of_fate(ContainerFate::Runs);
        let exited = of_fate(ContainerFate::Exited);
        match (action, created, runs, exited) {
            (0 | 1, Some(id), _, _) => self.start(chosen, &id),
            (2, Some(id), _, _) => self.remove(chosen, &id, ContainerFate::Created),
            (3, _, Some(id), _) => self.end(chosen, &id, Signal::TERM),
            (4, _, Some(id), _) => self.end(chosen, &id, Signal::USR1),
            (5, _, Some(id), _) => self.kill(chosen, &id),
            (6, _, _, Some(id)) => self.remove(chosen, &id, ContainerFate::Exited),
            (7, ..) => self.stop_pod(chosen),
            _ => self.create(chosen),
        }
    }

    /// Creates a pod with a container, or a container of a pod that has the same name.
    fn run_pod(&mut self) -> Expected {
        // Pods reuse names but not UIDs, like pods of a StatefulSet.
        let name = format!("pod-{}", self.made % 4);
        let uid = format!("uid-{}", self.made);
        self.made += 1;
        if self.pods.iter().any(|living| living.name == name) {
            return self.create(0);
        }
        let pod = self.runtime.run_pod(&PodSpec::new(&name).uid(&uid), &[]);
        let expected = Expected::from([event("ContainerStarted", &pod.sandbox_id)]);
        self.pods.push(LivePod { name, pod, containers: BTreeMap::new(), attempts: 0, stopped: false });
        expected
    }

    /// Creates a container.
    fn create(&mut self, chosen: usize) -> Expected {
        let living = &mut self.pods[chosen];
        if living.stopped {
            return Expected::new();
        }
        let spec = ContainerSpec::new("app").attempt(living.attempts).shell(EXITS_ON_SIGNAL);
        living.attempts += 1;
        let id = self.runtime.create_container(&living.pod, &spec);
        living.containers.insert(id, ContainerFate::Created);
        Expected::new()
    }

    /// Starts a container.
    fn start(&mut self, chosen: usize, id: &str) -> Expected {
        self.runtime.start_container(id);
        self.pods[chosen].containers.insert(id.to_owned(), ContainerFate::Runs);
        Expected::from([event("ContainerStarted", id)])
    }

    /// Sends a signal to a container's process, and waits for the end of the container.
    fn end(&mut self, chosen: usize, id: &str, signal: Signal) -> Expected {
        let process = self.runtime.container_pid(id);
        let status = wait_for("the container to end", || {
            // Fails if the container has ended.
            let _ = kill_process(process, signal);
            let status = self.runtime.calls.container_status(id, crate::TIME_LIMIT).unwrap();
            (status.state() == ContainerState::ContainerExited).then_some(status)
        });
        self.pods[chosen].containers.insert(id.to_owned(), ContainerFate::Exited);
        // A signal that arrives before the shell has set its trap gives another exit code, so the test expects the
        // runtime's value.
        Expected::from([died(id, i64::from(status.exit_code))])
    }

    /// Kills a container's process.
    fn kill(&mut self, chosen: usize, id: &str) -> Expected {
        self.runtime.kill_container_process(id);
        self.runtime.wait_for_state(id, ContainerState::ContainerExited);
        self.pods[chosen].containers.insert(id.to_owned(), ContainerFate::Exited);
        Expected::from([died(id, 137)])
    }

    /// Removes a container.
    fn remove(&mut self, chosen: usize, id: &str, was: ContainerFate) -> Expected {
        self.runtime.remove_container(id);
        self.pods[chosen].containers.remove(id);
        let mut expected = Expected::from([event("ContainerRemoved", id)]);
        if was == ContainerFate::Created {
            expected.insert(event("ContainerDied", id));
        }
        expected
    }

    /// Stops a pod's sandbox.
    fn stop_pod(&mut self, chosen: usize) -> Expected {
        let living = &mut self.pods[chosen];
        self.runtime.stop_pod(&living.pod.sandbox_id);
        living.stopped = true;
        let mut expected = Expected::from([event("ContainerDied", &living.pod.sandbox_id)]);
        for (id, fate) in &mut living.containers {
            if *fate == ContainerFate::Runs {
                *fate = ContainerFate::Exited;
                expected.insert(died(id, 137));
            }
        }
        expected
    }

    /// Removes a pod's sandbox with its containers.
    fn remove_pod(&mut self, chosen: usize) -> Expected {
        let living = self.pods.swap_remove(chosen);
        self.runtime.remove_pod(&living.pod.sandbox_id);
        let mut expected = Expected::from([event("ContainerRemoved", &living.pod.sandbox_id)]);
        for (id, fate) in &living.containers {
            expected.insert(event("ContainerRemoved", id));
            if *fate == ContainerFate::Created {
                expected.insert(event("ContainerDied", id));
            }
        }
        expected
    }
}
