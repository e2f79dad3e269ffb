//! What a live `health` and `top` say of the forecasts of a recorder that runs on the same node. The recorder and the process
//! whose descriptors grow are real; the recorder samples so often that a few seconds count as more than half an hour.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::service::until;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{EMPTY_PROC, Invocation};
use crate::support::terminal::{Shell, has_tmux};
use crate::support::{FakeRuntime, Node};

/// A process named containerd that opens ten files a second, from 700 of 1024 on. The number follows the clock, so that a
/// pause of the process changes no slope.
const GROWING: &str = "
    printf containerd > /proc/$$/comm
    ulimit -n 1024
    began=${EPOCHREALTIME/./} open=0
    while true; do
        now=${EPOCHREALTIME/./}
        while (( open < 700 + (now - began) / 100000 )); do
            exec {file}</dev/null || exit
            (( ++open ))
            (( open == 700 )) && echo ready
        done
        sleep 0.05
    done";

/// How often `health` runs until the recorder has measured for long enough, and the pause before each run.
const RUNS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A node that has only those processes of this machine that it is shown.
struct PartOfMachine {
    place: CaptureDir,
    fake: FakeRuntime,
}

impl PartOfMachine {
    fn new() -> Self {
        let node = Self { place: CaptureDir::make(), fake: FakeRuntime::start(Node::new()) };
        fs::create_dir(node.path("proc")).unwrap();
        for entry in fs::read_dir(EMPTY_PROC).unwrap() {
            let entry = entry.unwrap();
            symlink(entry.path(), node.path("proc").join(entry.file_name())).unwrap();
        }
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    fn show(&self, pid: u32) {
        symlink(format!("/proc/{pid}"), self.path("proc").join(pid.to_string())).unwrap();
    }

    fn on(&self, how: Invocation) -> Invocation {
        how.env("PLEGCTL_TEST_NODE", self.path(""))
    }

    fn health(&self) -> Value {
        let how = ["health", "-r", &self.fake.endpoint(), "-o", "json"];
        serde_json::from_str(&self.on(Invocation::new(&how)).run().stdout).unwrap()
    }
}

/// Returns the finding about a limit.
fn limit(report: &Value) -> Option<&Value> {
    report["findings"].as_array().unwrap().iter().find(|found| found["id"] == "D46")
}

fn is_skipped(report: &Value) -> bool {
    let skipped = report["notChecked"].as_array().unwrap();
    skipped.iter().any(|skipped| skipped["what"] == "the forecasts of the recorder on this node")
}

#[test]
fn live_health_and_top_have_the_forecast_of_the_recorder_that_runs_beside_them() {
    let node = PartOfMachine::new();
    let mut containerd = Invocation::program("bash", &["-c", GROWING]).spawn();
    until(&mut containerd, "ready");
    node.show(containerd.pid());
    let (endpoint, capture) = (node.fake.endpoint(), node.path("capture"));
    let how = ["record", "-r", &endpoint, argument(&capture), "--period", "200ms", "--no-diagnose"];
    let how = node.on(Invocation::new(&how)).env("PLEGCTL_TEST_SAMPLING_SPEED", "600");
    let mut recorder = how.spawn();
    until(&mut recorder, "recording");
    let before = node.health();
    assert_eq!((limit(&before), is_skipped(&before)), (None, false), "{before}");
    node.show(recorder.pid());

    let next = |_| {
        thread::sleep(PAUSE);
        node.health()
    };
    let report = (0..RUNS).map(next).find(|report| limit(report).is_some()).unwrap();
    let (found, pid) = (limit(&report).unwrap(), containerd.pid());
    let title = found["title"].as_str().unwrap();
    assert!(title.starts_with(&format!("containerd[{pid}] has ")), "{title}");
    assert!(title.contains(" of 1,024 descriptors open, +"), "{title}");
    assert_eq!((&found["confidence"], &found["severity"]), (&"likely".into(), &"warning".into()), "{found}");
    assert_eq!(report["verdict"], "degraded");
    assert!(found["evidence"][0].as_str().unwrap().contains("measured over"), "{found}");

    if has_tmux() {
        let shell = Shell::open((100, 24));
        let (plegctl, root) = (env!("CARGO_BIN_EXE_plegctl"), node.path(""));
        shell.run(&format!("clear; PLEGCTL_TEST_NODE={} '{plegctl}' top -r {endpoint}", root.display()));
        let limit = format!("LIMIT  containerd[{pid}] has ");
        shell.until("the limit", |screen| {
            screen.contains(&limit) && screen.contains("DEGRADED  a hard limit is likely reached in about ")
        });
    }

    let allow = |mode| fs::set_permissions(&capture, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o777);
    let refused = node.health();
    assert_eq!((limit(&refused), is_skipped(&refused)), (None, true), "{refused}");
    allow(0o700);
    recorder.signal("TERM");
    assert_eq!(recorder.wait().code, Some(0));
    assert!(!capture.join("forecasts").exists());
    let after = node.health();
    assert_eq!((limit(&after), is_skipped(&after)), (None, false), "{after}");
}
