//! The event stream in a capture: read by the same rules as by `watch`, replayed at the same times.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{CallState, FakeRuntime, Kind, Node};
use crate::{Place, record, replayed, word};
use plegctl::capture::Capture;
use plegctl::cri::Rpc;

fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the stream never told, of the middle of a watch: at its edges one of two who look sees more.
fn missed(records: &[Value], from: &str, to: &str) -> BTreeSet<(String, String)> {
    let divergences = records.iter().filter(|record| record["kind"] == "Divergence");
    let missed = divergences.filter(|record| record["only"] == "generic" && record["why"].is_null());
    let within = missed.filter(|record| {
        let time = record["time"].as_str().unwrap();
        from <= time && time <= to
    });
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    within.map(|record| (text(&record["id"]), text(&record["type"]))).collect()
}

#[test]
fn a_comparison_over_a_capture_says_what_it_said_live() {
    let place = Place::make();
    let (directory, socket) = (place.path("capture"), place.path("sim.sock"));
    let mut serving =
        Invocation::new(&["sim", "serve", "missed-events", "--listen", word(&socket), "--at", "0s"]).spawn();
    assert!(serving.line().is_some());
    let endpoint = format!("unix://{}", word(&socket));
    let (lasting, period) = (["--for", "40s"], ["--period", "1s"]);
    let recording =
        [["record", "-r", &endpoint, word(&directory), "--no-host"].as_slice(), &lasting, &period].concat();
    let watching = ["watch", "--mode", "compare", "-r", &endpoint, "-o", "jsonl"];
    let watching = [watching.as_slice(), &lasting, &period].concat();
    let recording = Invocation::new(&recording).spawn();
    let live = Invocation::new(&watching).run();
    assert_eq!(recording.wait().code, Some(0));
    serving.signal("TERM");
    serving.wait();
    let then = plegctl(&["watch", "--mode", "compare", "-r", &replayed(&directory, "+0s"), "-o", "jsonl"]);
    assert_eq!((live.code, then.code), (Some(0), Some(0)), "{live}\n{then}");
    let (live, then) = (records(&live.stdout), records(&then.stdout));
    let relists: Vec<_> = live.iter().filter(|record| record["kind"] == "Relist").collect();
    let time = |place: usize| relists[place]["time"].as_str().unwrap().to_owned();
    let (early, from) = (time(0), time(relists.len() / 4));
    let (to, late) = (time(relists.len() * 3 / 4), time(relists.len() - 1));
    let said = missed(&live, &from, &to);
    assert!(said.len() > 2, "{said:?}");
    assert!(said.is_subset(&missed(&then, &early, &late)), "{said:?}\n{:?}", missed(&then, &early, &late));
    let said = missed(&then, &from, &to);
    assert!(said.is_subset(&missed(&live, &early, &late)), "{said:?}\n{:?}", missed(&live, &early, &late));
    let connected = |records: &[Value]| {
        records.iter().filter(|record| record["kind"] == "Stream" && record["state"] == "connected").count()
    };
    assert_eq!((connected(&live), connected(&then)), (1, 1));
}

/// Twice the same is said of the same capture, whatever the machine does meanwhile.
#[test]
fn a_replayed_stream_comes_to_the_same_each_time() {
    let place = Place::make();
    let directory = place.path("capture");
    record("sim:missed-events", &directory, &["--at", "0s", "--period", "500ms", "--for", "12s"]);
    let endpoint = replayed(&directory, "+0s");
    let told = Capture::open(&directory).unwrap().told.len();
    assert!(told > 10, "{told} events");
    for mode in ["evented", "compare"] {
        let once = || {
            let output = plegctl(&["watch", "--mode", mode, "-r", &endpoint, "-o", "jsonl"]);
            assert_eq!(output.code, Some(0), "{output}");
            let wanted =
                |record: &Value| matches!(record["kind"].as_str(), Some("Event" | "Divergence" | "Stream"));
            records(&output.stdout).into_iter().filter(wanted).collect::<Vec<_>>()
        };
        let first = once();
        let heard = first.iter().filter(|record| record["source"] == "evented").count();
        assert!(heard > 5, "{mode}: {heard} events of {told}");
        assert_eq!(first, once(), "{mode}");
    }
}

#[test]
fn a_stream_that_nobody_read_is_not_recorded() {
    let capture = concat!("capture:", env!("CARGO_MANIFEST_DIR"), "/tests/captures/0.1.0.plegcap@+0s");
    for mode in ["evented", "compare"] {
        let output = plegctl(&["watch", "--mode", mode, "-r", capture]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("GetContainerEvents is not recorded"), "{output}");
    }
}

#[test]
fn a_recorder_reads_no_stream_that_it_would_take_away_from_the_kubelet() {
    let fake = FakeRuntime::start_as(Kind::Containerd17, Node::default());
    let place = Place::make();
    record(&fake.endpoint(), &place.path("capture"), &["--no-host", "--period", "1ms", "--count", "5"]);
    assert!(fake.calls_of(Rpc::GetContainerEvents).is_empty());
}

/// The kernel's letter for the state of a process.
fn state_of(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().take(1).collect()
}

#[test]
fn a_recorder_that_stands_still_holds_no_stream() {
    let fake = FakeRuntime::start(Node::default());
    let place = Place::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how = ["record", "-r", &endpoint, word(&directory), "--no-host", "--period", "10ms"];
    let streams = |wanted: CallState, count: usize| {
        fake.wait_until(|calls| {
            let own = calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents);
            own.filter(|call| call.state == wanted).count() >= count
        });
    };
    let mut running = Invocation::new(&how).spawn();
    assert!(running.line().is_some());
    // Asked to stand still, it closes the stream itself; stopped hard, its guard does.
    for (number, signal) in ["TSTP", "STOP"].into_iter().enumerate() {
        streams(CallState::Streaming, 1);
        running.signal(signal);
        streams(CallState::Cancelled, number + 1);
        // What is told to go on before it stands still stands still afterwards.
        while state_of(running.pid()) != "T" {
            std::thread::yield_now();
        }
        running.signal("CONT");
    }
    streams(CallState::Streaming, 1);
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    let check = plegctl(&["capture", "check", word(&directory)]);
    assert_eq!(check.code, Some(0), "{check}");
}
