//! Tests that `health` gives the same verdict from a capture of a real containerd as live. During each fault, a
//! recorder runs, and `health` runs every few seconds; afterwards the test queries the capture at the same moments.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output, copy_program};
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;

on_each_containerd! {
    a_held_status_lock_is_judged_from_the_capture_as_it_was_live
    a_hung_shim_and_then_a_stopped_daemon_are_judged_from_the_capture_as_they_were_live
    a_stopped_kubelet_is_judged_from_the_capture_as_it_was_live
}

/// The time between the starts of two live runs of `health`.
const INTERVAL: Duration = Duration::from_secs(3);

/// The recorder may make a call this much later than a live run: during an incident it calls Version every 5 s.
const LAG: Duration = Duration::from_secs(6);

/// The time between two moments at which the test queries the capture.
const STEP: Duration = Duration::from_secs(1);

/// A process of root with the name `kubelet` that does nothing. Dropping this ends it.
struct Kubelet(Child);

impl Kubelet {
    fn start(runtime: &RealRuntime) -> Self {
        let program = runtime.directory().join("kubelet");
        copy_program("/bin/dash", &program);
        // The process ends when its standard input ends. Port 0 means that it has no health check.
        let arguments = ["-c", "read line", "kubelet", "--healthz-port=0"];
        Self(Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One live run of `health`: its judgement, its start and its end.
struct Live {
    began: SystemTime,
    ended: SystemTime,
    judgement: Judgement,
}

/// The parts of a report that the test compares.
#[derive(Clone, Debug, PartialEq)]
struct Judgement {
    /// The position in [`VERDICTS`].
    verdict: usize,
    /// The verdict, the primary finding and the culprits.
    what: String,
    /// The position of the primary finding's confidence in [`CONFIDENCES`].
    certainty: usize,
    /// The pods with a certain finding.
    certain: BTreeSet<String>,
}

/// The verdicts, from the best to the worst.
const VERDICTS: [&str; 4] = ["healthy", "unknown", "degraded", "unhealthy"];
/// The confidences, from the lowest to the highest.
const CONFIDENCES: [&str; 3] = ["possible", "likely", "certain"];

impl Judgement {
    fn of(output: &Output) -> Self {
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        let text =
            |of: &Value, path: &str| of.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
        let describe =
            |of: &Value| ["/id", "/rpc", "/pod/name", "/container/name"].map(|path| text(of, path)).join(" ");
        let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
        let rank = |ordered: &[&str], word: String| ordered.iter().position(|known| *known == word);
        let culprits: Vec<String> = list("culprits").iter().map(describe).collect();
        let certain = list("findings").into_iter().filter(|finding| finding["confidence"] == "certain");
        Self {
            verdict: rank(&VERDICTS, text(&report, "/verdict")).unwrap(),
            what: format!("{} {} {culprits:?}", report["verdict"], describe(&report["primary"])),
            certainty: rank(&CONFIDENCES, text(&report, "/primary/confidence")).unwrap_or(0),
            certain: certain.map(|finding| text(&finding, "/pod/name")).filter(|pod| pod != "-").collect(),
        }
    }
}

/// Whether a live judgement agrees with the judgements from the capture around the time of the live run.
/// `has_one_state` says that no fault began or ended during the run.
fn agrees(live: &Judgement, from_capture: &[Judgement], has_one_state: bool) -> bool {
    let is_within = |rank: fn(&Judgement) -> usize| {
        let ranks = || from_capture.iter().map(rank);
        (ranks().min().unwrap()..=ranks().max().unwrap()).contains(&rank(live))
    };
    if has_one_state {
        from_capture.iter().any(|judgement| judgement.what == live.what)
            && is_within(|judgement| judgement.certainty)
    } else {
        // The run saw answers of both states, so its verdict must be between the verdicts of these states.
        is_within(|judgement| judgement.verdict)
    }
}

/// The node on which a test causes faults.
struct Faults<'a> {
    runtime: &'a RealRuntime,
    /// The container that the faults affect.
    container: &'a str,
    kubelet: &'a Kubelet,
    /// The times just before and after each beginning or end of a fault.
    edges: Vec<SystemTime>,
}

impl Faults<'_> {
    /// Begins or ends a fault with `change`, then waits for `duration`. Returns the result of `change`.
    fn change<T>(&mut self, duration: Duration, change: impl FnOnce(&Self) -> T) -> T {
        self.edges.push(SystemTime::now());
        let guard = change(self);
        self.edges.push(SystemTime::now());
        thread::sleep(duration);
        guard
    }
}

/// Records and runs `health` while `play` causes faults. Then compares each live report with the reports from the
/// capture.
fn assert_same_judgements(version: Containerd, play: impl FnOnce(&mut Faults<'_>)) {
    let Some(runtime) = real(version) else { return };
    with_network(&runtime);
    runtime.run_pods(3, 1);
    let guilty = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let kubelet = Kubelet::start(&runtime);
    let node = runtime.node_with(&[kubelet.pid()]);
    let (capture, endpoint) = (runtime.directory().join("capture"), runtime.endpoint());
    let plegctl = |arguments: &[&str]| Invocation::new(arguments).env("PLEGCTL_TEST_NODE", &node);
    let mut recorder = plegctl(&["record", capture.to_str().unwrap(), "-r", &endpoint, "--period", "1s"])
        .time_limit(Duration::from_secs(600))
        .spawn();
    assert!(recorder.line().unwrap().starts_with("recording"));
    let mut faults =
        Faults { runtime: &runtime, container: &guilty.containers[0], kubelet: &kubelet, edges: Vec::new() };
    let (over, live) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    thread::sleep(LAG);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                scope.spawn(|| {
                    let began = SystemTime::now();
                    let output = plegctl(&["health", "-r", &endpoint, "-o", "json"]).run();
                    let judgement = Judgement::of(&output);
                    live.lock().unwrap().push(Live { began, ended: SystemTime::now(), judgement });
                });
                thread::sleep(INTERVAL);
            }
        });
        thread::sleep(LAG);
        play(&mut faults);
        thread::sleep(Duration::from_secs(12));
        over.store(true, Ordering::SeqCst);
    });
    thread::sleep(LAG);
    recorder.signal("TERM");
    let printed = recorder.wait();
    assert_eq!(printed.code, Some(0), "{printed}");
    let judgement_at = |time: SystemTime| {
        let time = humantime::format_rfc3339_nanos(time);
        let endpoint = format!("capture:{}@{time}", capture.display());
        Judgement::of(&plegctl(&["health", "-r", &endpoint, "-o", "json"]).run())
    };
    let edges = faults.edges;
    let mut live = live.into_inner().unwrap();
    live.sort_by_key(|run| run.began);
    let start = live[0].began;
    let seconds = |time: SystemTime| time.duration_since(start).unwrap_or_default().as_secs_f64();
    let last = live.iter().map(|run| run.ended).max().unwrap() + LAG;
    let steps = (0..).map(|step| start + step * STEP).take_while(|moment| *moment < last);
    let from_capture: Vec<(SystemTime, Judgement)> =
        steps.map(|moment| (moment, judgement_at(moment))).collect();
    let (mut equal, mut differences) = (0, Vec::new());
    for run in &live {
        let has_one_state = edges.iter().all(|edge| *edge < run.began || run.ended < *edge);
        let at_end = judgement_at(run.ended);
        equal +=
            usize::from((&at_end.what, at_end.certainty) == (&run.judgement.what, run.judgement.certainty));
        // The recorder makes its calls at its own pace, so it may know something later than a live run.
        let around = (run.began - STEP)..=(run.ended + LAG);
        let mut judgements: Vec<Judgement> = from_capture
            .iter()
            .filter(|(moment, _)| around.contains(moment))
            .map(|(_, judgement)| judgement.clone())
            .collect();
        judgements.push(at_end);
        let blames_another_pod =
            judgements.iter().flat_map(|judgement| &judgement.certain).any(|pod| pod != "guilty");
        if blames_another_pod || !agrees(&run.judgement, &judgements, has_one_state) {
            judgements.dedup();
            let (began, ended) = (seconds(run.began), seconds(run.ended));
            let mut text = format!("{began:.1} s to {ended:.1} s: {:?}", run.judgement);
            for judgement in judgements {
                write!(text, "\n    {judgement:?}").unwrap();
            }
            differences.push(text);
        }
    }
    println!("{version}: {} live runs compared, {equal} equal to the capture at their end", live.len());
    assert!(differences.is_empty(), "{}\n{printed}", differences.join("\n"));
    let end = edges.last().unwrap();
    // The recorder learns a little later than a live run that a process runs again.
    for after in [LAG, LAG + Duration::from_secs(4)] {
        let judgement = judgement_at(*end + after);
        assert_eq!(
            (judgement.verdict, judgement.certain.len()),
            (0, 0),
            "{after:?} after the end: {judgement:?}"
        );
    }
}

fn a_held_status_lock_is_judged_from_the_capture_as_it_was_live(version: Containerd) {
    assert_same_judgements(version, |faults| {
        let runtime = faults.runtime;
        let held =
            faults.change(Duration::from_secs(26), |faults| runtime.hold_status_lock(faults.container));
        faults.change(Duration::ZERO, |_| drop(held));
    });
}

fn a_hung_shim_and_then_a_stopped_daemon_are_judged_from_the_capture_as_they_were_live(version: Containerd) {
    assert_same_judgements(version, |faults| {
        let runtime = faults.runtime;
        let held =
            faults.change(Duration::from_secs(11), |faults| runtime.hold_status_lock(faults.container));
        let stopped = faults.change(Duration::from_secs(30), |_| runtime.stop_daemon());
        faults.change(Duration::ZERO, |_| {
            drop(stopped);
            drop(held);
        });
    });
}

fn a_stopped_kubelet_is_judged_from_the_capture_as_it_was_live(version: Containerd) {
    assert_same_judgements(version, |faults| {
        let kubelet = faults.kubelet.pid();
        faults.change(Duration::from_secs(15), |_| kill_process(kubelet, Signal::STOP).unwrap());
        faults.change(Duration::ZERO, |_| kill_process(kubelet, Signal::CONT).unwrap());
    });
}
