//! Tests with the event stream of real containerd: `plegctl watch` reads the right events from it, and plegctl never
//! blocks the node.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::driver::Driver;
use crate::messages::ContainerState;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Running};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{real, wait_for};

/// The number of changes that the driver makes.
const STEPS: usize = 120;

/// A time in which the comparison decides about every change: longer than it waits for the slower side.
const GRACE: Duration = Duration::from_secs(6);

/// More containers than containerd can create while a reader does not read its events (about 110).
const MANY: usize = 180;

/// The size of the annotation that makes a container's events large.
const ANNOTATION_BYTES: usize = 3000;

/// The time limit for the creation of a container. It is longer than the guard waits before it closes a stream.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// How long a creation must hang before containerd counts as blocked.
const BLOCKED: Duration = Duration::from_secs(8);

/// A watch that writes its records into a file, so that its stdout does not have to be read.
struct Watch {
    running: Running,
    log: PathBuf,
}

impl Watch {
    fn start(runtime: &RealRuntime, arguments: &[&str]) -> Self {
        let log = runtime.directory().join("watch.jsonl");
        // Several watches may read the same runtime one after the other.
        let _ = std::fs::remove_file(&log);
        let (endpoint, path) = (runtime.endpoint(), log.display().to_string());
        let watch_arguments = ["watch", "-r", &endpoint, "-o", "jsonl", "--log", &path, "--steal-events"];
        let running = Invocation::new(&[&watch_arguments, arguments].concat())
            .on_this_machine()
            .time_limit(Duration::from_secs(300))
            .spawn();
        let watch = Self { running, log };
        watch.wait_for_stream("connected");
        watch
    }

    fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn wait_for_stream(&self, state: &str) {
        wait_for(&format!("the stream to be {state}"), || {
            let is = |record: &Value| record["kind"] == "Stream" && record["state"] == state;
            self.records().iter().any(is).then_some(())
        });
    }

    /// Waits until the watch has read an event, because the watch reports `connected` before the runtime sees the
    /// request.
    fn wait_for_event(&self) {
        wait_for("an event of the stream", || {
            let is = |record: &Value| record["kind"] == "Event" && record["source"] == "evented";
            self.records().iter().any(is).then_some(())
        });
    }

    /// Waits until the watch ends a relist that is later than now by `duration`.
    fn wait_for_relists(&self, duration: Duration) {
        let until = SystemTime::now() + duration;
        wait_for("further relists", || {
            let records = self.records();
            let last = records.iter().rev().find(|record| record["kind"] == "Relist")?;
            let ended = humantime::parse_rfc3339(last["time"].as_str().unwrap()).unwrap();
            (ended > until).then_some(())
        });
    }

    /// Ends the watch and returns all its records.
    fn end(self) -> Vec<Value> {
        let Self { running, log } = self;
        running.signal("INT");
        let output = running.wait();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let text = std::fs::read_to_string(log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Returns the totals of the comparison.
fn comparison(records: &[Value]) -> Value {
    let summary = records.iter().find(|record| record["kind"] == "WatchSummary").unwrap();
    summary["compare"].clone()
}

#[test]
fn stream_and_relists_of_containerd_1_7_differ_only_for_known_reasons() {
    assert_known_differences(Containerd::V1_7);
}

#[test]
fn stream_and_relists_of_containerd_2_differ_only_for_known_reasons() {
    assert_known_differences(Containerd::V2);
}

fn assert_known_differences(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let watch = Watch::start(&runtime, &["--mode", "compare", "--period", "10ms"]);
    watch.wait_for_relists(Duration::from_secs(1));
    let mut driver = Driver::of(&runtime);
    for _ in 0..STEPS {
        driver.step();
    }
    watch.wait_for_relists(GRACE);
    let records = watch.end();
    let compare = comparison(&records);
    let unexplained: Vec<&Value> = records
        .iter()
        .filter(|record| {
            record["kind"] == "Divergence" && !record["only"].is_null() && record["why"].is_null()
        })
        .collect();
    assert_eq!(unexplained, Vec::<&Value>::new(), "{compare}");
    for nothing in ["unexplained", "undecided", "missedByStream", "inAGap", "outOfOrder", "duplicatesGeneric"]
    {
        assert_eq!(compare[nothing], 0, "{nothing}: {compare}");
    }
    assert!(compare["both"].as_u64().unwrap() > 50, "{compare}");
    // Before 2.0 the last event of a sandbox has no status.
    assert_eq!(compare["withheld"].as_u64().unwrap() > 0, version == Containerd::V1_7, "{compare}");
    println!("{version}: {compare}");
}

#[test]
fn container_of_50_ms_is_in_the_stream_of_containerd_1_7_and_missed_by_relists() {
    assert_relists_miss_short_containers(Containerd::V1_7);
}

#[test]
fn container_of_50_ms_is_in_the_stream_of_containerd_2_and_missed_by_relists() {
    assert_relists_miss_short_containers(Containerd::V2);
}

fn assert_relists_miss_short_containers(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[]);
    let watch = Watch::start(&runtime, &["--mode", "compare", "--period", "12s"]);
    let mut ids = Vec::new();
    for number in 0..5 {
        let spec = ContainerSpec::new("brief").attempt(number).shell("sleep 0.05");
        let id = runtime.create_container(&pod, &spec);
        runtime.start_container(&id);
        runtime.wait_for_state(&id, ContainerState::ContainerExited);
        runtime.remove_container(&id);
        ids.push(id);
    }
    watch.wait_for_relists(GRACE + Duration::from_secs(8));
    let records = watch.end();
    for id in &ids {
        let seen = |record: &&Value| {
            record["source"] == "evented"
                && record["type"] == "ContainerStarted"
                && record["id"] == id.as_str()
        };
        assert_eq!(records.iter().filter(seen).count(), 1, "{id}");
    }
    let compare = comparison(&records);
    // A relist may happen while one of the containers exists.
    assert!(compare["missedByRelisting"].as_u64().unwrap() >= 6, "{compare}");
    assert_eq!(compare["unexplained"], 0, "{compare}");
}

/// Returns a container whose events are large.
fn large(number: usize) -> ContainerSpec {
    let attempt = u32::try_from(number).unwrap();
    ContainerSpec::new("large").attempt(attempt).annotation("padding", &"x".repeat(ANNOTATION_BYTES))
}

/// Creates [`MANY`] containers in a new pod. If a creation takes longer than `time_limit`, returns the number of
/// containers before it.
fn create_many(runtime: &RealRuntime, what: &str, time_limit: Duration) -> Option<usize> {
    let pod = runtime.run_pod(&PodSpec::new(what), &[]);
    let started = Instant::now();
    let failed = create_until_blocked(runtime, &pod, time_limit);
    println!("{what}: {} containers in {:.1?}", failed.unwrap_or(MANY), started.elapsed());
    failed
}

/// Creates containers until one cannot be created in time; returns its number.
fn create_until_blocked(runtime: &RealRuntime, pod: &Pod, time_limit: Duration) -> Option<usize> {
    (0..MANY).find(|number| !runtime.can_create_container(pod, &large(*number), time_limit))
}

/// Removes all pods.
fn clear(runtime: &RealRuntime) {
    for pod in runtime.list_pods() {
        runtime.stop_pod(&pod.id);
        runtime.remove_pod(&pod.id);
    }
}

/// Returns the process id of the guard.
fn guard_of(running: &Running) -> u32 {
    let pid = running.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().expect("the guard is the only child")
}

/// A stopped process. Dropping this continues the process, also if the test fails.
struct Stopped(Pid);

impl Stopped {
    /// Stops a process; it continues when the value is dropped.
    fn stop(pid: u32) -> Self {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn stopped_plegctl_does_not_block_containerd_2() {
    let Some(runtime) = real(Containerd::V2) else { return };
    assert_eq!(create_many(&runtime, "alone", TIME_LIMIT), None);
    clear(&runtime);

    // Nobody reads the output of this watch, so the watch cannot write more than a pipe holds.
    let watch = Watch::start(&runtime, &["--mode", "compare", "--period", "1ms"]);
    assert_eq!(create_many(&runtime, "blocked-stdout", TIME_LIMIT), None);
    drop(watch);
    clear(&runtime);

    let watch = Watch::start(&runtime, &["--mode", "evented"]);
    watch.running.signal("TSTP");
    assert_eq!(create_many(&runtime, "ctrl-z", TIME_LIMIT), None);
    drop(watch);
    clear(&runtime);

    let watch = Watch::start(&runtime, &["--mode", "evented"]);
    watch.running.signal("STOP");
    assert_eq!(create_many(&runtime, "stopped-hard", TIME_LIMIT), None);
    drop(watch);
}

/// Without the guard, a stopped plegctl blocks the runtime. So the guard cannot help if it is stopped too, for example
/// in a frozen cgroup.
#[test]
fn plegctl_stopped_together_with_its_guard_blocks_containerd_2_until_it_continues() {
    let Some(runtime) = real(Containerd::V2) else { return };
    let watch = Watch::start(&runtime, &["--mode", "evented"]);
    runtime.run_pod(&PodSpec::new("seen"), &[]);
    watch.wait_for_event();
    let guard = Stopped::stop(guard_of(&watch.running));
    watch.running.signal("STOP");
    let created = create_many(&runtime, "stopped-with-guard", BLOCKED);
    assert!(created.is_some_and(|number| number > 50), "{created:?}");
    watch.running.signal("CONT");
    drop(guard);
    assert_eq!(create_many(&runtime, "continued", TIME_LIMIT), None);
    watch.end();
}
