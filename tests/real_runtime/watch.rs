//! Tests of `plegctl watch` on real containerd: a driver changes the node at random, and the watch must report the
//! expected events.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::driver::{Driver, Expected, Seen};
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Running};
use crate::pods::{ContainerSpec, PodSpec};
use crate::{real, wait_for};

/// The number of changes that the driver makes on each containerd.
const STEPS: usize = 200;

on_each_containerd! {
    events_of_two_hundred_random_steps_are_correct
    pod_recreated_with_the_same_name_is_another_pod
}

/// A running watch and its records.
struct Watch {
    running: Running,
    events: Vec<Seen>,
}

impl Watch {
    fn of(runtime: &RealRuntime) -> Self {
        let arguments = ["watch", "-r", &runtime.endpoint(), "--period", "10ms", "-o", "jsonl"];
        let mut watch =
            Self { running: Invocation::new(&arguments).on_this_machine().spawn(), events: Vec::new() };
        watch.relist();
        watch
    }

    /// Reads to the end of the next relist and returns when that relist began.
    fn relist(&mut self) -> SystemTime {
        loop {
            let line = self.running.line().expect("the watch still runs");
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

    /// Reads to the end of a relist that begins after now, and returns the events up to there.
    fn catch_up(&mut self) -> Vec<Seen> {
        let now = SystemTime::now();
        while self.relist() <= now {}
        std::mem::take(&mut self.events)
    }
}

fn events_of_two_hundred_random_steps_are_correct(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let mut watch = Watch::of(&runtime);
    let mut driver = Driver::of(&runtime);
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

fn pod_recreated_with_the_same_name_is_another_pod(version: Containerd) {
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
