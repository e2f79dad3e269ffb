//! Tests of the store and the recorder: which segments they keep and delete (size limit, age limit, pins), and how they react
//! to unexpected files and directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;

use super::entry::{
    Body, CallFinished, CallStarted, CaptureEntry, Incident, Jump, RecordedOutcome, Session, StoredMessage,
    rpc_number,
};
use super::testing::TestPath;
use super::{
    Capture, Error, IncidentAction, IncidentDetector, IncidentRules, Limits, Recorder, ReplayClock, Store,
    segment, store,
};
use crate::clock::{Clock, Mono, Wall};
use crate::cri::Rpc;
use crate::pleg::stream::Relist;

const START: i64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400;

/// A temporary directory, in which the test creates the directory of a capture.
struct CaptureParent(TestPath);

impl CaptureParent {
    fn new() -> Self {
        let path = TestPath::new();
        fs::create_dir(&path.0).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0.0
    }

    fn capture(&self) -> PathBuf {
        self.path().join("capture")
    }
}

fn limits(size: u64) -> Limits {
    Limits { size, age: Duration::from_secs(7 * DAY), incidents: 20 }
}

/// A store, and the clocks with which the test writes entries.
struct TestRecorder {
    store: Store,
    /// The seconds since the session began.
    mono: u64,
    /// The difference between the wall clock and the monotonic clock, in seconds.
    clock_offset: i64,
    calls: u64,
}

impl TestRecorder {
    fn start(place: &CaptureParent, limits: Limits) -> Self {
        let mut store = Store::open(&place.capture(), limits).unwrap();
        store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, START);
        Self { store, mono: 0, clock_offset: 0, calls: 0 }
    }

    fn wall(&self) -> i64 {
        START + (i64::try_from(self.mono).unwrap() + self.clock_offset) * 1_000_000_000
    }

    fn entry(&self, body: Body) -> CaptureEntry {
        CaptureEntry { wall: self.wall(), mono: self.mono * SECOND, body: Some(body) }
    }

    fn write(&mut self, body: Body) -> std::io::Result<()> {
        let entry = self.entry(body);
        self.store.write(entry)
    }

    /// Advances the clocks by `seconds`, and writes a call whose answer has 9 000 incompressible bytes.
    fn write_random_call(&mut self, seconds: u64) -> std::io::Result<()> {
        self.mono += seconds;
        self.calls += 1;
        let mut noise = self.calls ^ (self.mono << 20) ^ 1;
        let bytes: Vec<u8> = (0..9_000)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                noise.to_be_bytes()[0]
            })
            .collect();
        let call = self.calls;
        let rpc = rpc_number(Rpc::ContainerStatus);
        self.write(Body::CallStarted(CallStarted { call, rpc, request: Bytes::new(), relist: 0 }))?;
        let mut ended = CallFinished::new(call, Duration::from_millis(3), &RecordedOutcome::Answered);
        ended.answers.push(StoredMessage { bytes: bytes.into(), ..StoredMessage::default() });
        self.write(Body::CallFinished(ended))
    }

    fn write_random_calls(&mut self, count: u64, seconds: u64) {
        for _ in 0..count {
            self.write_random_call(seconds).unwrap();
        }
    }

    fn set_clock(&mut self, days: i64) {
        self.clock_offset += days * i64::try_from(DAY).unwrap();
        let by = days * i64::try_from(DAY * SECOND).unwrap();
        self.write(Body::Jump(Jump { by })).unwrap();
    }

    /// Opens an incident as the recorder does after a slow relist.
    fn incident(&mut self) -> Incident {
        let rules = IncidentRules {
            slow: Duration::from_secs(2),
            threshold: Duration::from_secs(180),
            before: Duration::from_secs(600),
            after: Duration::from_secs(300),
        };
        let mut detector = IncidentDetector::new(rules, self.store.incidents());
        let slow = Relist {
            duration_seconds: Duration::from_secs(3).into(),
            ..Relist::new(Wall::from_nanos(self.wall()), 1)
        };
        let steps = detector.relist_finished(Mono::at(Duration::from_secs(self.mono)), &slow);
        let Some(IncidentAction::Record(incident)) = steps.into_iter().next() else { panic!("no incident") };
        self.write(Body::Incident(incident.clone())).unwrap();
        incident
    }
}

fn segments(place: &CaptureParent) -> Vec<u64> {
    let found = store::segments_in(&place.capture()).unwrap();
    found.into_iter().map(|(number, _)| number).collect()
}

fn on_disk(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

/// Replaces a segment with a directory, which cannot be deleted as a file.
fn make_undeletable(place: &CaptureParent, number: u64) {
    let path = place.capture().join(segment::name(number));
    fs::remove_file(&path).unwrap();
    fs::create_dir_all(path.join("inside")).unwrap();
}

#[test]
fn segment_that_cannot_be_removed_does_not_break_the_size_limit() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.write_random_calls(20, 1);
    make_undeletable(&place, 1);
    for _ in 0..200 {
        recording.write_random_calls(1, 1);
        assert!(on_disk(&place.capture()) <= bound);
    }
    let left = segments(&place);
    assert_eq!(left[0], 1);
    assert!(left[1] > 20, "{left:?}");
}

#[test]
fn recording_stops_with_a_reason_if_no_segment_can_be_removed() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE;
    let mut recording = TestRecorder::start(&place, limits(bound));
    let mut why = None;
    for _ in 0..200 {
        let refused = recording.write_random_call(1).err();
        why = why.or(refused.map(|why| why.to_string()));
        for number in segments(&place) {
            // This also replaces the current segment, which the store has open.
            if place.capture().join(segment::name(number)).is_file() {
                make_undeletable(&place, number);
            }
        }
        assert!(segments(&place).len() < 5, "{:?}", segments(&place));
    }
    let why = why.unwrap();
    assert!(
        why.starts_with(
            "the capture has reached its size limit of 256.0 KiB: `0000000001.seg` cannot be removed: "
        ),
        "{why}"
    );
    // The recording continues as soon as a segment can be deleted.
    fs::remove_dir_all(place.capture().join(segment::name(1))).unwrap();
    recording.write_random_calls(1, 1);
}

#[test]
fn jump_of_the_wall_clock_deletes_nothing() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(64 << 20));
    // A segment has 1 MiB here. The 400 calls of an hour fill four segments.
    for days in [8, 30, -30, -60, 3_650] {
        recording.write_random_calls(400, 9);
        recording.set_clock(days);
    }
    recording.write_random_calls(400, 9);
    let kept = segments(&place);
    assert_eq!((recording.store.extent().dropped, kept[0]), (0, 1));
    // A recorder whose clock is years ahead at its start deletes nothing either.
    drop(recording);
    let mut recording = TestRecorder::start(&place, limits(64 << 20));
    recording.clock_offset = 10 * 365 * i64::try_from(DAY).unwrap();
    recording.write_random_calls(400, 9);
    assert_eq!((recording.store.extent().dropped, segments(&place)[0]), (0, 1));
}

#[test]
fn age_limit_counts_only_the_time_that_recorders_ran() {
    let place = CaptureParent::new();
    let hours = |recording: &mut TestRecorder, hours: u64| recording.write_random_calls(hours, 3_600);
    // Two sessions of four days. The time between the sessions does not count.
    for _ in 0..2 {
        let mut recording = TestRecorder::start(&place, limits(8 << 20));
        recording.clock_offset = -99_999;
        hours(&mut recording, 96);
        assert_eq!(segments(&place)[0], 1);
    }
    let first = Capture::open(&place.capture()).unwrap().sessions[0].session.id;
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    hours(&mut recording, 110);
    let capture = Capture::open(&place.capture()).unwrap();
    assert!(capture.dropped > 0 && capture.sessions[0].session.id != first, "{:?}", capture.sessions);
    // The recorders ran for more than twelve days. The last seven days are left, and the rest of the oldest segment.
    let calls = capture.calls.len();
    assert!((168..200).contains(&calls), "{calls} calls");
}

#[test]
fn age_limit_ignores_segments_from_before_a_jump() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    recording.write_random_calls(24, 3_600);
    let before = segments(&place).len();
    recording.set_clock(1);
    recording.write_random_calls(24 * 20, 3_600);
    let kept = segments(&place);
    let from_before = kept.iter().filter(|number| **number < u64::try_from(before).unwrap()).count();
    assert_eq!(from_before, before - 1, "{kept:?}");
    assert!(recording.store.extent().dropped > 0, "newer segments are deleted by age");
}

#[test]
fn repeated_kills_within_an_incident_leave_no_open_pin() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    for kill in 0..200 {
        let mut recording = TestRecorder::start(&place, limits(bound));
        recording.write_random_calls(1, 60);
        recording.incident();
        assert_eq!(recording.store.open_pins(), 1, "kill {kill}");
        recording.write_random_calls(kill % 4, 60);
        recording.store.kill();
        assert!(on_disk(&place.capture()) <= bound, "kill {kill}");
    }
    let store = Store::open(&place.capture(), limits(bound)).unwrap();
    assert_eq!((store.incidents(), store.open_pins()), (200, 0));
    drop(store);
    // The incidents on the disk have an end of their pinned time too.
    let capture = Capture::open(&place.capture()).unwrap();
    let lasting: Vec<_> =
        capture.incidents.values().filter(|incident| incident.pinned_to == i64::MAX).collect();
    assert!(!capture.incidents.is_empty() && lasting.is_empty(), "{lasting:?}");
}

#[test]
fn pinned_segments_of_a_killed_recorder_are_deleted_by_age() {
    let place = CaptureParent::new();
    let few = Limits { incidents: 1, ..limits(8 << 20) };
    let mut recording = TestRecorder::start(&place, few);
    recording.write_random_calls(10, 60);
    recording.incident();
    recording.write_random_calls(40, 60);
    recording.store.kill();
    // The pin of the incident ends five minutes after the kill.
    let mut recording = TestRecorder::start(&place, few);
    recording.write_random_calls(400, 3_600);
    let incidents = Capture::open(&place.capture()).unwrap().incidents.len();
    assert_eq!((segments(&place)[0], incidents), (1, 1), "the segment with the incident is kept");
    let dropped = recording.store.extent().dropped;
    assert!(dropped > 5, "segments after the incident are deleted: {dropped}");
    // The limit is one pinned incident, so the next incident replaces the pin.
    recording.incident();
    recording.write_random_calls(30, 3_600);
    assert!(segments(&place)[0] > 1);
}

#[test]
fn incident_whose_end_was_not_written_ends_with_its_session() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    let mut incident = recording.incident();
    incident.to = recording.wall();
    let entry = recording.entry(Body::Incident(incident));
    recording.store.track_unwritten(entry);
    assert_eq!(recording.store.open_pins(), 0);
    // If the end of an incident never reaches the store, the next incident ends the pin.
    recording.incident();
    recording.incident();
    assert_eq!(recording.store.open_pins(), 1);
}

#[test]
fn incident_pins_only_its_own_time_although_the_clock_was_set_back() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE * 4;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.write_random_calls(60, 60);
    let mut incident = recording.incident();
    recording.write_random_calls(5, 60);
    recording.set_clock(-30);
    recording.write_random_calls(5, 60);
    // The clock was set back, so the incident pins the time from 10 min before its end to 5 min after its beginning.
    incident.to = recording.wall();
    incident.pinned_from = incident.to - 600_000_000_000;
    incident.pinned_to = incident.from + 300_000_000_000;
    recording.write(Body::Incident(incident)).unwrap();
    recording.write_random_calls(300, 60);
    let capture = Capture::open(&place.capture()).unwrap();
    let kept = |call: u64| capture.calls.iter().any(|known| known.number == call);
    assert!(kept(52) && kept(62) && kept(70) && kept(370));
    assert!(!kept(20) && !kept(100));
}

#[test]
fn foreign_file_with_a_segment_number_is_skipped_and_counts_against_the_size_limit() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    let theirs = place.capture().join(segment::name(2));
    fs::write(&theirs, vec![7; 150_000]).unwrap();
    for _ in 0..200 {
        recording.write_random_calls(1, 1);
        assert!(on_disk(&place.capture()) <= bound);
    }
    assert!(!theirs.exists(), "the oldest segment is deleted first");
}

#[test]
fn recorder_starts_in_spite_of_an_unreadable_segment() {
    let place = CaptureParent::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.write_random_calls(20, 1);
    drop(recording);
    let precious = place.path().join("precious");
    fs::write(&precious, vec![0; 100]).unwrap();
    let named = |number: u64| place.capture().join(segment::name(number));
    fs::remove_file(named(1)).unwrap();
    std::os::unix::fs::symlink(&precious, named(1)).unwrap();
    make_undeletable(&place, 2);
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.write_random_calls(200, 1);
    assert!(!named(1).exists() && named(2).is_dir());
    assert_eq!(fs::metadata(&precious).unwrap().len(), 100);
}

#[test]
fn directory_replaced_by_a_link_during_the_recording_is_not_followed() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(store::MIN_CAPTURE_SIZE));
    let (moved, trap) = (place.path().join("moved"), place.path().join("trap"));
    fs::create_dir(&trap).unwrap();
    fs::write(trap.join(segment::name(1)), "precious").unwrap();
    fs::rename(place.capture(), &moved).unwrap();
    std::os::unix::fs::symlink(&trap, place.capture()).unwrap();
    recording.write_random_calls(100, 1);
    assert_eq!(fs::read_dir(&trap).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(trap.join(segment::name(1))).unwrap(), "precious");
    assert!(on_disk(&moved) > 100_000);
    let opened = Store::open(&place.capture(), limits(store::MIN_CAPTURE_SIZE));
    assert!(matches!(opened, Err(Error::Unsafe { why, .. }) if why == "it is a symbolic link"));
}

/// Starts a recorder with a clock that the test sets.
fn recorder(place: &CaptureParent) -> (Recorder, Arc<ReplayClock>) {
    let clock = Arc::new(ReplayClock::new());
    clock.set(Duration::ZERO, Wall::from_nanos(START));
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let recorder = Recorder::start(place.capture(), limits(16 << 20), shared).unwrap();
    (recorder, clock)
}

fn session() -> Session {
    Session { endpoint: "unix:///x".into(), node: "node-7".into(), ..Session::default() }
}

fn wait_until(recorder: &Recorder, wanted: impl Fn(&super::recorder::RecorderStatus) -> bool) {
    while !wanted(&recorder.status()) {
        std::thread::yield_now();
    }
}

fn call_started(recorder: &Recorder, call: u64) {
    let rpc = rpc_number(Rpc::ListContainers);
    recorder.record(Body::CallStarted(CallStarted { call, rpc, request: Bytes::new(), relist: 1 }));
}

#[test]
fn segment_after_a_failed_reopening_has_the_session_and_the_open_calls() {
    let place = CaptureParent::new();
    let (recorder, clock) = recorder(&place);
    assert!(matches!(recorder.opened(Duration::MAX), Some(Ok(0))));
    recorder.begin(Session { runtime: "containerd".into(), ..session() }, Duration::MAX);
    call_started(&recorder, 1);
    wait_until(&recorder, |state| state.extent.segments == 1);
    fs::rename(place.capture(), place.path().join("moved")).unwrap();
    // A file replaces the directory.
    fs::write(place.capture(), "").unwrap();
    recorder.reopen();
    wait_until(&recorder, |state| state.trouble.is_some());
    // The recorder also remembers the calls that begin and end while it cannot write.
    call_started(&recorder, 2);
    call_started(&recorder, 3);
    recorder.record(Body::CallFinished(CallFinished::new(2, Duration::ZERO, &RecordedOutcome::Answered)));
    wait_until(&recorder, |state| state.lost == 3);
    fs::remove_file(place.capture()).unwrap();
    clock.advance(Duration::from_secs(60));
    call_started(&recorder, 4);
    assert!(recorder.close("done", Duration::MAX));
    let capture = Capture::open(&place.capture()).unwrap();
    let run = &capture.sessions[0].session;
    assert_eq!((run.node.as_str(), run.runtime.as_str()), ("node-7", "containerd"));
    let mut open: Vec<_> =
        capture.calls.iter().filter(|call| call.end.is_none()).map(|call| call.number).collect();
    open.sort_unstable();
    assert_eq!(open, [1, 3, 4]);
    assert_eq!(capture.losses[0].2.entries, 3);
}

#[test]
fn runtime_that_answers_version_late_is_named_in_the_capture() {
    let place = CaptureParent::new();
    let (recorder, _) = recorder(&place);
    assert!(recorder.opened(Duration::MAX).is_some());
    recorder.begin(session(), Duration::MAX);
    call_started(&recorder, 1);
    recorder.update_session(Session { runtime: "containerd".into(), ..session() });
    call_started(&recorder, 2);
    assert!(recorder.close("done", Duration::MAX));
    let capture = Capture::open(&place.capture()).unwrap();
    assert_eq!((capture.sessions.len(), capture.calls.len()), (1, 2));
    assert_eq!(capture.sessions[0].session.runtime, "containerd");
}

#[test]
fn incidents_of_a_recording_that_began_without_its_disk_have_new_numbers() {
    let place = CaptureParent::new();
    let mut earlier = TestRecorder::start(&place, limits(16 << 20));
    earlier.incident();
    earlier.incident();
    drop(earlier);
    fs::rename(place.capture(), place.path().join("away")).unwrap();
    fs::write(place.capture(), "").unwrap();
    let (recorder, clock) = recorder(&place);
    assert!(matches!(recorder.opened(Duration::MAX), Some(Err(_))));
    recorder.begin(session(), Duration::MAX);
    let incident = |to: i64| Incident { number: 1, from: START, to, ..Incident::default() };
    recorder.incident(incident(0));
    wait_until(&recorder, |state| state.lost == 1);
    fs::remove_file(place.capture()).unwrap();
    fs::rename(place.path().join("away"), place.capture()).unwrap();
    clock.advance(Duration::from_secs(60));
    recorder.incident(incident(START + 1));
    assert!(recorder.close("done", Duration::MAX));
    assert_eq!(recorder.number_in_capture(1), 3);
    let capture = Capture::open(&place.capture()).unwrap();
    assert_eq!(capture.incidents.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn only_disk_errors_are_tried_again() {
    use rustix::io::Errno;
    let of = |errno: Errno| Error::Directory { path: "/x".into(), source: errno.into() };
    for errno in
        [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO, Errno::NODEV, Errno::STALE, Errno::MFILE]
    {
        assert!(of(errno).is_disk_error(), "{errno:?}");
    }
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOTDIR, Errno::NOENT, Errno::LOOP] {
        assert!(!of(errno).is_disk_error(), "{errno:?}");
    }
    assert!(!Error::Unsafe { path: "/x".into(), why: "it is a symbolic link".into() }.is_disk_error());
}

#[test]
fn file_of_forecasts_is_replaced_and_removed_also_after_the_recorder_was_killed() {
    let place = CaptureParent::new();
    // The directory has no segment yet, so its other files say whether it is a capture.
    let open = || Store::open(&place.capture(), limits(1 << 20)).unwrap();
    let file = place.capture().join("forecasts");
    let mut store = open();
    for text in ["one", "two"] {
        store.show_forecasts(Some(text));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    drop(store);
    fs::write(place.capture().join("forecasts.new"), "half of it").unwrap();
    let mut store = open();
    store.show_forecasts(Some("three"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
    drop(store);
    open().show_forecasts(None);
    assert!(!file.exists());
}
