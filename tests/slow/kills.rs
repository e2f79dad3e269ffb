//! Kills a recorder many times and checks that the capture stays readable and complete.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use plegctl_engine::capture::Capture;

use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::Invocation;

/// Pseudo-random numbers, the same in every run.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// The number of kills. Unit tests of the store also cover a kill at any byte of a segment.
const KILLS: usize = 200;

#[test]
fn capture_is_readable_and_complete_after_two_hundred_kills() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let (mut relists, mut calls) = (0, 0);
    let mut cut = BTreeMap::new();
    for (number, random) in numbers().take(KILLS).enumerate() {
        let how =
            ["record", "-r", "sim:crash-loop", argument(&directory), "--period", "1ms", "--no-diagnose"];
        let mut running = Invocation::new(&how).spawn();
        assert!(running.line().is_some_and(|line| line.starts_with("recording")), "kill {number}");
        // Kills the recorder at a random time.
        thread::sleep(Duration::from_micros(random % 25_000));
        running.signal("KILL");
        assert_eq!(running.wait().signal, Some(9));
        let capture = Capture::open(&directory).unwrap();
        assert!(capture.relists.len() >= relists && capture.calls.len() >= calls, "kill {number}");
        (relists, calls) = (capture.relists.len(), capture.calls.len());
        let damaged: Vec<_> = capture.segments.iter().filter(|segment| segment.damaged > 0).collect();
        assert!(damaged.is_empty(), "kill {number}: {damaged:?}");
        // A kill may cut the entry that the recorder was writing. A later recorder or kill must not cut more entries of
        // a segment.
        let (last, earlier) = capture.segments.split_last().unwrap();
        for segment in earlier {
            let before = cut.get(&segment.path).copied().unwrap_or_default();
            assert_eq!(segment.cut, before, "kill {number}: {segment:?}");
        }
        cut.insert(last.path.clone(), last.cut);
    }
    let capture = Capture::open(&directory).unwrap();
    let answered = capture.calls.iter().filter_map(|call| call.end.as_ref());
    assert!(calls > KILLS, "{calls} calls");
    for end in answered {
        assert!(end.answers.is_empty() || capture.messages(end).is_some());
    }
}

#[test]
fn kills_within_an_incident_leave_no_permanent_pin() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    for number in 1..=6 {
        let how = ["record", "-r", "sim:hung-list", argument(&directory), "--slow", "10ms", "--no-diagnose"];
        let mut running = Invocation::new(&how).spawn();
        running.until(&format!("incident {number}:"));
        // The recorder prints the incident before it writes it.
        while Capture::open(&directory).map_or(0, |capture| capture.incidents.len()) < number {
            thread::yield_now();
        }
        running.signal("KILL");
        assert_eq!(running.wait().signal, Some(9));
    }
    let capture = Capture::open(&directory).unwrap();
    assert_eq!(capture.incidents.len(), 6);
    for incident in capture.incidents.values() {
        assert!(incident.to == 0 && incident.pinned_to < i64::MAX, "{incident:?}");
    }
}
