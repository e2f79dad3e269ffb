//! Tests of the event stream in a capture: the recorder reads it by the same rules as `watch`, and a replay delivers
//! each event at its recorded time.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::captures::{CaptureDir, argument, record, replayed};
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{CallState, FakeRuntime, Node, ReceivedCall, RuntimeKind};
use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;

fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Records a scenario until the capture has this number of events, however long a busy machine takes.
fn record_events(endpoint: &str, directory: &Path, events: usize) {
    let how = ["record", "-r", endpoint, argument(directory), "--at", "20s", "--period", "500ms"];
    let mut recorder = Invocation::new(&how).spawn();
    assert!(recorder.line().is_some_and(|line| line.starts_with("recording")));
    let since = Instant::now();
    while Capture::open(directory).unwrap().stream_events.len() < events {
        assert!(since.elapsed() < Duration::from_secs(300), "{events} events were not recorded");
        thread::sleep(Duration::from_millis(100));
    }
    recorder.signal("INT");
    let output = recorder.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

/// Two replays of one capture give the same output, whatever the load of the machine is.
#[test]
fn replayed_event_stream_gives_the_same_events_each_time() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    record_events("sim:missed-events", &directory, 12);
    let endpoint = replayed(&directory, "+0s");
    let recorded = Capture::open(&directory).unwrap().stream_events.len();
    for mode in ["evented", "compare"] {
        let once = || {
            let output = plegctl(&["watch", "--mode", mode, "-r", &endpoint, "-o", "jsonl"]);
            assert_eq!(output.code, Some(0), "{output}");
            let wanted =
                |record: &Value| matches!(record["kind"].as_str(), Some("Event" | "Divergence" | "Stream"));
            records(&output.stdout).into_iter().filter(wanted).collect::<Vec<_>>()
        };
        let first = once();
        let replayed = first.iter().filter(|record| record["source"] == "evented").count();
        assert!(replayed > 5, "{mode}: {replayed} events of {recorded}");
        assert_eq!(first, once(), "{mode}");
    }
}

#[test]
fn event_stream_shows_as_not_recorded_if_the_recorder_did_not_read_it() {
    let capture = concat!("capture:", env!("CARGO_MANIFEST_DIR"), "/tests/captures/0.1.0.plegcap@+0s");
    for mode in ["evented", "compare"] {
        let output = plegctl(&["watch", "--mode", mode, "-r", capture]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("GetContainerEvents is not recorded"), "{output}");
    }
}

#[test]
fn recorder_reads_no_event_stream_whose_events_the_kubelet_would_lose() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd17, Node::default());
    let place = CaptureDir::make();
    record(&fake.endpoint(), &place.path("capture"), &["--no-host", "--period", "1ms", "--count", "5"]);
    assert!(fake.calls_of(Rpc::GetContainerEvents).is_empty());
}

/// Returns the kernel's letter for the state of a process.
fn state_of(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().take(1).collect()
}

#[test]
fn stopped_recorder_keeps_no_event_stream_open() {
    let fake = FakeRuntime::start(Node::default());
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how = ["record", "-r", &endpoint, argument(&directory), "--no-host", "--period", "10ms"];
    let streams = |wanted: CallState, count: usize| {
        fake.wait_until(|calls| {
            let opened = calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents);
            opened.filter(|call| call.state == wanted).count() >= count
        });
    };
    let mut running = Invocation::new(&how).spawn();
    assert!(running.line().is_some());
    // After SIGTSTP, the recorder closes the stream itself; after SIGSTOP, its guard closes it.
    for (number, signal) in ["TSTP", "STOP"].into_iter().enumerate() {
        streams(CallState::Streaming, 1);
        running.signal(signal);
        streams(CallState::Cancelled, number + 1);
        // A SIGCONT before the stop has no effect.
        while state_of(running.pid()) != "T" {
            std::thread::yield_now();
        }
        running.signal("CONT");
    }
    streams(CallState::Streaming, 1);
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    let check = plegctl(&["capture", "check", argument(&directory)]);
    assert_eq!(check.code, Some(0), "{check}");
}

/// The period of a recorder whose relist hangs.
const HANGING: &str = "100ms";

/// The recorder's thread that reads the stream closes it, so that neither the period nor a relist that hangs matters.
#[test]
fn recorder_closes_its_event_stream_when_the_guard_is_killed_whatever_its_period() {
    let recorders: Vec<_> = ["1s", "2s", "3s", "4s", "5s", "1h", HANGING]
        .into_iter()
        .map(|period| {
            let (fake, place) = (FakeRuntime::start(Node::default()), CaptureDir::make());
            let (directory, endpoint) = (place.path("capture"), fake.endpoint());
            let how = ["record", "-r", &endpoint, argument(&directory), "--period", period];
            let how = [&how[..], &["--no-host", "--no-diagnose"]].concat();
            (Invocation::new(&how).spawn(), fake, place, period)
        })
        .collect();
    let is_stream = |call: &&ReceivedCall| call.rpc == Rpc::GetContainerEvents;
    for (recorder, fake, _, period) in &recorders {
        fake.wait_until(|calls| calls.iter().any(|call| call.state == CallState::Streaming));
        if *period == HANGING {
            fake.on(Rpc::ListContainers).hang();
            let lists = fake.calls_of(Rpc::ListContainers).len();
            fake.wait_for(Rpc::ListContainers, lists + 1);
        }
        recorder.kill_guard();
        fake.wait_until(|calls| {
            calls.iter().find(is_stream).is_some_and(|call| call.state == CallState::Cancelled)
        });
    }
    // The next stream has a guard again.
    for (recorder, fake, ..) in recorders.iter().take(1) {
        fake.wait_until(|calls| calls.iter().filter(is_stream).count() == 2);
        recorder.guard();
    }
}
