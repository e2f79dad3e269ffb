//! `plegctl watch` on real containerd, against a driver that changes the node at random and keeps the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::generated::ContainerState;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Running};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{real, wait_for};

/// How many changes the driver makes on each containerd.
const STEPS: usize = 200;

/// So that the driver does the same each time.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A container that ends with 0 on SIGTERM and with 3 on SIGUSR1.
const OBEDIENT: &str = "trap 'exit 0' TERM; trap 'exit 3' USR1; while :; do sleep 0.02; done";

on_each_containerd! {
    two_hundred_random_steps_give_the_events_of_the_truth
    a_pod_recreated_under_its_name_is_another_pod
}

/// A delivered event, as far as the truth goes: type, id, exit code.
type Seen = (String, String, Option<i64>);

/// A watch under way, and what it has said.
struct Watch {
    running: Running,
    events: Vec<Seen>,
}

impl Watch {
    fn of(runtime: &RealRuntime) -> Self {
        let arguments = ["watch", "-r", &runtime.endpoint(), "--period", "10ms", "-o", "jsonl"];
        let mut watch = Self { running: Invocation::new(&arguments).spawn(), events: Vec::new() };
        watch.relist();
        watch
    }

    /// Reads on to the end of the next relist; when that relist began.
    fn relist(&mut self) -> SystemTime {
        loop {
            let line = self.running.line().expect("the watch goes on");
            let record: Value = serde_json::from_str(&line).unwrap();
            match record["kind"].as_str().unwrap() {
                "Event" if record["delivered"] == true => self.events.push((
                    record["type"].as_str().unwrap().to_owned(),
                    record["id"].as_str().unwrap_or_default().to_owned(),
                    record["exitCode"].as_i64(),
                )),
                "Relist" => {
                    let ended = humantime::parse_rfc3339(record["time"].as_str().unwrap()).unwrap();
                    return ended - Duration::from_secs_f64(record["durationSeconds"].as_f64().unwrap());
                }
                _ => {}
            }
        }
    }

    /// Reads on to the end of a relist that began after now, and takes the events up to there.
    fn catch_up(&mut self) -> Vec<Seen> {
        let now = SystemTime::now();
        while self.relist() <= now {}
        std::mem::take(&mut self.events)
    }
}

/// The events of one change, in any order across ids.
type Expected = BTreeSet<Seen>;

fn event(kind: &str, id: &str) -> Seen {
    (kind.to_owned(), id.to_owned(), None)
}

fn died(id: &str, code: i64) -> Seen {
    ("ContainerDied".to_owned(), id.to_owned(), Some(code))
}

/// The node as the driver made it.
struct Driver<'a> {
    runtime: &'a RealRuntime,
    random: u64,
    pods: Vec<Living>,
    made: usize,
}

struct Living {
    name: String,
    pod: Pod,
    /// Container id to what became of it.
    containers: BTreeMap<String, Fate>,
    attempts: u32,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Created,
    Runs,
    Exited,
}

impl Driver<'_> {
    fn below(&mut self, bound: usize) -> usize {
        // Xorshift: plenty for choosing among a handful of changes.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Makes one change and says which events it must give.
    fn step(&mut self) -> Expected {
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
        let created = of_fate(Fate::Created);
        let runs = of_fate(Fate::Runs);
        let exited = of_fate(Fate::Exited);
        match (action, created, runs, exited) {
            (0 | 1, Some(id), _, _) => self.start(chosen, &id),
            (2, Some(id), _, _) => self.remove(chosen, &id, Fate::Created),
            (3, _, Some(id), _) => self.end(chosen, &id, Signal::TERM),
            (4, _, Some(id), _) => self.end(chosen, &id, Signal::USR1),
            (5, _, Some(id), _) => self.kill(chosen, &id),
            (6, _, _, Some(id)) => self.remove(chosen, &id, Fate::Exited),
            (7, ..) => self.stop_pod(chosen),
            _ => self.create(chosen),
        }
    }

    fn run_pod(&mut self) -> Expected {
        // Names come back, UIDs do not.
        let name = format!("pod-{}", self.made % 4);
        let uid = format!("uid-{}", self.made);
        self.made += 1;
        if self.pods.iter().any(|living| living.name == name) {
            return self.create(0);
        }
        let pod = self.runtime.run_pod(&PodSpec::new(&name).uid(&uid), &[]);
        let expected = Expected::from([event("ContainerStarted", &pod.sandbox_id)]);
        self.pods.push(Living { name, pod, containers: BTreeMap::new(), attempts: 0, stopped: false });
        expected
    }

    fn create(&mut self, chosen: usize) -> Expected {
        let living = &mut self.pods[chosen];
        if living.stopped {
            return Expected::new();
        }
        let spec = ContainerSpec::new("app").attempt(living.attempts).shell(OBEDIENT);
        living.attempts += 1;
        let id = self.runtime.create_container(&living.pod, &spec);
        living.containers.insert(id, Fate::Created);
        Expected::new()
    }

    fn start(&mut self, chosen: usize, id: &str) -> Expected {
        self.runtime.start_container(id);
        self.pods[chosen].containers.insert(id.to_owned(), Fate::Runs);
        Expected::from([event("ContainerStarted", id)])
    }

    fn end(&mut self, chosen: usize, id: &str, signal: Signal) -> Expected {
        let process = self.runtime.container_pid(id);
        let status = wait_for("the container to obey", || {
            // Once it has ended there is nobody to signal.
            let _ = kill_process(process, signal);
            let status = self.runtime.calls.container_status(id, crate::PATIENCE).unwrap();
            (status.state() == ContainerState::ContainerExited).then_some(status)
        });
        self.pods[chosen].containers.insert(id.to_owned(), Fate::Exited);
        // A signal that comes before the shell has set its trap ends it in another way, so the runtime has the last word.
        Expected::from([died(id, i64::from(status.exit_code))])
    }

    fn kill(&mut self, chosen: usize, id: &str) -> Expected {
        self.runtime.kill_container_process(id);
        self.runtime.wait_for_state(id, ContainerState::ContainerExited);
        self.pods[chosen].containers.insert(id.to_owned(), Fate::Exited);
        Expected::from([died(id, 137)])
    }

    fn remove(&mut self, chosen: usize, id: &str, was: Fate) -> Expected {
        self.runtime.remove_container(id);
        self.pods[chosen].containers.remove(id);
        let mut expected = Expected::from([event("ContainerRemoved", id)]);
        if was == Fate::Created {
            expected.insert(event("ContainerDied", id));
        }
        expected
    }

    fn stop_pod(&mut self, chosen: usize) -> Expected {
        let living = &mut self.pods[chosen];
        self.runtime.stop_pod(&living.pod.sandbox_id);
        living.stopped = true;
        let mut expected = Expected::from([event("ContainerDied", &living.pod.sandbox_id)]);
        for (id, fate) in &mut living.containers {
            if *fate == Fate::Runs {
                *fate = Fate::Exited;
                expected.insert(died(id, 137));
            }
        }
        expected
    }

    fn remove_pod(&mut self, chosen: usize) -> Expected {
        let living = self.pods.swap_remove(chosen);
        self.runtime.remove_pod(&living.pod.sandbox_id);
        let mut expected = Expected::from([event("ContainerRemoved", &living.pod.sandbox_id)]);
        for (id, fate) in &living.containers {
            expected.insert(event("ContainerRemoved", id));
            if *fate == Fate::Created {
                expected.insert(event("ContainerDied", id));
            }
        }
        expected
    }
}

fn two_hundred_random_steps_give_the_events_of_the_truth(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let mut watch = Watch::of(&runtime);
    let mut driver = Driver { runtime: &runtime, random: SEED, pods: Vec::new(), made: 0 };
    for step in 0..STEPS {
        let expected = driver.step();
        let mut seen = Expected::new();
        wait_for(&format!("the events of step {step}: {expected:?}, seen {seen:?}"), || {
            for event in watch.catch_up() {
                assert!(seen.insert(event.clone()), "step {step}: {event:?} came twice");
            }
            (seen.len() >= expected.len()).then_some(())
        });
        assert_eq!(seen, expected, "step {step}");
    }
}

fn a_pod_recreated_under_its_name_is_another_pod(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let mut watch = Watch::of(&runtime);
    let first = runtime.run_pod(&PodSpec::new("web").uid("first"), &[ContainerSpec::new("app")]);
    watch.catch_up();
    runtime.stop_pod(&first.sandbox_id);
    runtime.remove_pod(&first.sandbox_id);
    let second = runtime.run_pod(&PodSpec::new("web").uid("second"), &[ContainerSpec::new("app")]);
    let mut seen = Vec::new();
    wait_for("both pods' events", || {
        seen.extend(watch.catch_up().into_iter().map(|(kind, id, _)| (kind, id)));
        let has = |kind: &str, id: &String| seen.contains(&(kind.to_owned(), id.clone()));
        (has("ContainerRemoved", &first.containers[0])
            && has("ContainerRemoved", &first.sandbox_id)
            && has("ContainerStarted", &second.sandbox_id)
            && has("ContainerStarted", &second.containers[0]))
        .then_some(())
    });
}
