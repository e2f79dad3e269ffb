//! `health` gives the same verdict from a capture of a real containerd as it gave live. Each fault is recorded while
//! `health` runs every few seconds at the same time.

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

/// How long after the start of one `health` the next one starts.
const AGAIN: Duration = Duration::from_secs(3);

/// How much later than a live run the recorder may make a call: during an incident it calls Version every 5 s.
const LAG: Duration = Duration::from_secs(6);

/// The distance between the moments at which the capture is queried.
const STEP: Duration = Duration::from_secs(1);

/// A process of root with the name `kubelet` that does nothing. It ends with the test.
struct Kubelet(Child);

impl Kubelet {
    fn start(runtime: &RealRuntime) -> Self {
        let program = runtime.directory().join("kubelet");
        copy_program("/bin/dash", &program);
        // The process ends when its standard input does. Port 0 means that it serves nothing.
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

/// The parts of a report that are compared.
#[derive(Clone, Debug, PartialEq)]
struct Judgement {
    verdict: usize,
    what: String,
    certainty: usize,
    /// The pods with a certain finding.
    certain: BTreeSet<String>,
}

/// From the best to the worst.
const VERDICTS: [&str; 4] = ["healthy", "unknown", "degraded", "unhealthy"];
const CERTAINTIES: [&str; 3] = ["possible", "likely", "certain"];

impl Judgement {
    fn of(output: &Output) -> Self {
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        let text =
            |of: &Value, path: &str| of.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
        let named =
            |of: &Value| ["/id", "/rpc", "/pod/name", "/container/name"].map(|path| text(of, path)).join(" ");
        let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
        let place = |of: &[&str], word: String| of.iter().position(|known| *known == word);
        let culprits: Vec<String> = list("culprits").iter().map(named).collect();
        let certain = list("findings").into_iter().filter(|finding| finding["confidence"] == "certain");
        Self {
            verdict: place(&VERDICTS, text(&report, "/verdict")).unwrap(),
            what: format!("{} {} {culprits:?}", report["verdict"], named(&report["primary"])),
            certainty: place(&CERTAINTIES, text(&report, "/primary/confidence")).unwrap_or(0),
            certain: certain.map(|finding| text(&finding, "/pod/name")).filter(|pod| pod != "-").collect(),
        }
    }
}

/// The faults of a test: the affected container, and the times at which faults begin and end.
struct Faults<'a> {
    runtime: &'a RealRuntime,
    container: &'a str,
    kubelet: &'a Kubelet,
    edges: Vec<SystemTime>,
}

impl Faults<'_> {
    /// Begins or ends a fault and then waits for this time.
    fn then<T>(&mut self, lasts: Duration, happens: impl FnOnce(&Self) -> T) -> T {
        self.edges.push(SystemTime::now());
        let held = happens(self);
        self.edges.push(SystemTime::now());
        thread::sleep(lasts);
        held
    }
}

/// Records while `faults` runs, runs `health` at the same time, and compares.
fn every_moment_is_judged_alike(version: Containerd, play: impl FnOnce(&mut Faults<'_>)) {
    let Some(runtime) = real(version) else { return };
    with_network(&runtime);
    runtime.run_pods(3, 1);
    let guilty = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let kubelet = Kubelet::start(&runtime);
    let node = runtime.node_with(&[kubelet.pid()]);
    let (capture, endpoint) = (runtime.directory().join("capture"), runtime.endpoint());
    let plegctl = |arguments: &[&str]| Invocation::new(arguments).env("PLEGCTL_TEST_NODE", &node);
    let mut recorder = plegctl(&["record", capture.to_str().unwrap(), "-r", &endpoint, "--period", "1s"])
        .bound(Duration::from_secs(600))
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
                thread::sleep(AGAIN);
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
    let then = |time: SystemTime| {
        let time = humantime::format_rfc3339_nanos(time);
        let endpoint = format!("capture:{}@{time}", capture.display());
        Judgement::of(&plegctl(&["health", "-r", &endpoint, "-o", "json"]).run())
    };
    let edges = faults.edges;
    let mut live = live.into_inner().unwrap();
    live.sort_by_key(|run| run.began);
    let start = live[0].began;
    let at = |time: SystemTime| time.duration_since(start).unwrap_or_default().as_secs_f64();
    let last = live.iter().map(|run| run.ended).max().unwrap() + LAG;
    let steps = (0..).map(|step| start + step * STEP).take_while(|moment| *moment < last);
    let grid: Vec<(SystemTime, Judgement)> = steps.map(|moment| (moment, then(moment))).collect();
    let (mut equal, mut wrong) = (0, Vec::new());
    for run in &live {
        let whole = edges.iter().all(|edge| *edge < run.began || run.ended < *edge);
        let at_end = then(run.ended);
        equal +=
            usize::from((&at_end.what, at_end.certainty) == (&run.judgement.what, run.judgement.certainty));
        // The recorder makes its calls at its own pace, so it may know something later than a live run.
        let around = (run.began - STEP)..=(run.ended + LAG);
        let mut judgement: Vec<Judgement> = grid
            .iter()
            .filter(|(moment, _)| around.contains(moment))
            .map(|(_, judgement)| judgement.clone())
            .collect();
        judgement.push(at_end);
        let within = |of: fn(&Judgement) -> usize| {
            let (low, high) =
                (judgement.iter().map(of).min().unwrap(), judgement.iter().map(of).max().unwrap());
            (low..=high).contains(&of(&run.judgement))
        };
        let is_alike = if whole {
            judgement.iter().any(|judgement| judgement.what == run.judgement.what)
                && within(|judgement| judgement.certainty)
        } else {
            // A fault began or ended during this run: its answers are from both states, so its verdict is between
            // theirs.
            within(|judgement| judgement.verdict)
        };
        let innocent = judgement.iter().flat_map(|judgement| &judgement.certain).any(|pod| pod != "guilty");
        if !is_alike || innocent {
            judgement.dedup();
            let mut text = format!("{:.1} s to {:.1} s: {:?}", at(run.began), at(run.ended), run.judgement);
            for judgement in judgement {
                write!(text, "\n    {judgement:?}").unwrap();
            }
            wrong.push(text);
        }
    }
    println!("{version}: {} moments compared, {equal} equal to the instant", live.len());
    assert!(wrong.is_empty(), "{}\n{printed}", wrong.join("\n"));
    let end = edges.last().unwrap();
    for after in [2, 10] {
        let judgement = then(*end + Duration::from_secs(after));
        assert_eq!(
            (judgement.verdict, judgement.certain.len()),
            (0, 0),
            "{after} s after the end: {judgement:?}"
        );
    }
}

fn a_held_status_lock_is_judged_from_the_capture_as_it_was_live(version: Containerd) {
    every_moment_is_judged_alike(version, |faults| {
        let runtime = faults.runtime;
        let held = faults.then(Duration::from_secs(26), |faults| runtime.hold_status_lock(faults.container));
        faults.then(Duration::ZERO, |_| drop(held));
    });
}

fn a_hung_shim_and_then_a_stopped_daemon_are_judged_from_the_capture_as_they_were_live(version: Containerd) {
    every_moment_is_judged_alike(version, |faults| {
        let runtime = faults.runtime;
        let held = faults.then(Duration::from_secs(11), |faults| runtime.hold_status_lock(faults.container));
        let stopped = faults.then(Duration::from_secs(30), |_| runtime.stop_daemon());
        faults.then(Duration::ZERO, |_| {
            drop(stopped);
            drop(held);
        });
    });
}

fn a_stopped_kubelet_is_judged_from_the_capture_as_it_was_live(version: Containerd) {
    every_moment_is_judged_alike(version, |faults| {
        let kubelet = faults.kubelet.pid();
        faults.then(Duration::from_secs(15), |_| kill_process(kubelet, Signal::STOP).unwrap());
        faults.then(Duration::ZERO, |_| kill_process(kubelet, Signal::CONT).unwrap());
    });
}
