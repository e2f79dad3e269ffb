//! Tests of which segments the store keeps and deletes: the size limit, ages, pins, and an unexpected directory.

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

/// A directory that contains a capture.
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

/// A store with the clocks of its recorder.
struct TestRecorder {
    store: Store,
    /// Seconds since its session began.
    mono: u64,
    /// The difference between the wall clock and the monotonic clock, in seconds.
    ahead: i64,
    calls: u64,
}

impl TestRecorder {
    fn start(place: &CaptureParent, limits: Limits) -> Self {
        let mut store = Store::open(&place.capture(), limits).unwrap();
        store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, START);
        Self { store, mono: 0, ahead: 0, calls: 0 }
    }

    fn wall(&self) -> i64 {
        START + (i64::try_from(self.mono).unwrap() + self.ahead) * 1_000_000_000
    }

    fn entry(&self, body: Body) -> CaptureEntry {
        CaptureEntry { wall: self.wall(), mono: self.mono * SECOND, body: Some(body) }
    }

    fn write(&mut self, body: Body) -> std::io::Result<()> {
        let entry = self.entry(body);
        self.store.write(entry)
    }

    /// Advances the clocks by `seconds` and writes a call whose answer is 9 000 incompressible bytes.
    fn noise(&mut self, seconds: u64) -> std::io::Result<()> {
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

    fn noises(&mut self, count: u64, seconds: u64) {
        for _ in 0..count {
            self.noise(seconds).unwrap();
        }
    }

    fn set_clock(&mut self, days: i64) {
        self.ahead += days * i64::try_from(DAY).unwrap();
        let by = days * i64::try_from(DAY * SECOND).unwrap();
        self.write(Body::Jump(Jump { by })).unwrap();
    }

    /// Opens an incident as the recorder does.
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
fn make_stubborn(place: &CaptureParent, number: u64) {
    let path = place.capture().join(segment::name(number));
    fs::remove_file(&path).unwrap();
    fs::create_dir_all(path.join("inside")).unwrap();
}

#[test]
fn segment_that_cannot_be_removed_does_not_break_the_size_limit() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(20, 1);
    make_stubborn(&place, 1);
    for _ in 0..200 {
        recording.noises(1, 1);
        assert!(on_disk(&place.capture()) <= bound);
    }
    let left = segments(&place);
    assert_eq!(left[0], 1);
    assert!(left[1] > 20, "{left:?}");
}

#[test]
fn recording_stops_with_a_reason_if_no_segment_can_be_removed() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST;
    let mut recording = TestRecorder::start(&place, limits(bound));
    let mut why = None;
    for _ in 0..200 {
        let refused = recording.noise(1).err();
        why = why.or(refused.map(|why| why.to_string()));
        for number in segments(&place) {
            // Replace the current segment too: its writer has it open.
            if place.capture().join(segment::name(number)).is_file() {
                make_stubborn(&place, number);
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
    // TestRecorder continues as soon as a segment can be deleted.
    fs::remove_dir_all(place.capture().join(segment::name(1))).unwrap();
    recording.noises(1, 1);
}

#[test]
fn jump_of_the_wall_clock_deletes_nothing() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(64 << 20));
    // A segment is 1 MiB here; an hour of calls fills four.
    for days in [8, 30, -30, -60, 3_650] {
        recording.noises(400, 9);
        recording.set_clock(days);
    }
    recording.noises(400, 9);
    let kept = segments(&place);
    assert_eq!((recording.store.extent().dropped, kept[0]), (0, 1));
    // A recorder whose clock is years ahead at its start deletes nothing either.
    drop(recording);
    let mut recording = TestRecorder::start(&place, limits(64 << 20));
    recording.ahead = 10 * 365 * i64::try_from(DAY).unwrap();
    recording.noises(400, 9);
    assert_eq!((recording.store.extent().dropped, segments(&place)[0]), (0, 1));
}

#[test]
fn age_limit_counts_only_the_time_that_recorders_ran() {
    let place = CaptureParent::new();
    let hours = |recording: &mut TestRecorder, hours: u64| recording.noises(hours, 3_600);
    // Two sessions of four days; the time between them is not known.
    for _ in 0..2 {
        let mut recording = TestRecorder::start(&place, limits(8 << 20));
        recording.ahead = -99_999;
        hours(&mut recording, 96);
        assert_eq!(segments(&place)[0], 1);
    }
    let first = Capture::open(&place.capture()).unwrap().sessions[0].session.id;
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    hours(&mut recording, 110);
    let capture = Capture::open(&place.capture()).unwrap();
    assert!(capture.dropped > 0 && capture.sessions[0].session.id != first, "{:?}", capture.sessions);
    // Of eight and a half days, the last seven are left, plus the rest of the oldest segment.
    let calls = capture.calls.len();
    assert!((168..200).contains(&calls), "{calls} calls");
}

#[test]
fn age_limit_ignores_segments_from_before_a_jump() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    recording.noises(24, 3_600);
    let before = segments(&place).len();
    recording.set_clock(1);
    recording.noises(24 * 20, 3_600);
    let kept = segments(&place);
    let from_before = kept.iter().filter(|number| **number < u64::try_from(before).unwrap()).count();
    assert_eq!(from_before, before - 1, "{kept:?}");
    assert!(recording.store.extent().dropped > 0, "what came after ages");
}

#[test]
fn two_hundred_kills_within_an_incident_leave_no_open_pin() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 2;
    for kill in 0..200 {
        let mut recording = TestRecorder::start(&place, limits(bound));
        recording.noises(1, 60);
        recording.incident();
        assert_eq!(recording.store.open_pins(), 1, "kill {kill}");
        recording.noises(kill % 4, 60);
        recording.store.kill();
        assert!(on_disk(&place.capture()) <= bound, "kill {kill}");
    }
    let store = Store::open(&place.capture(), limits(bound)).unwrap();
    assert_eq!((store.incidents(), store.open_pins()), (200, 0));
    drop(store);
    // Every pin has an end on the disk too.
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
    recording.noises(10, 60);
    recording.incident();
    recording.noises(40, 60);
    recording.store.kill();
    // The pin of the incident ends five minutes after the kill.
    let mut recording = TestRecorder::start(&place, few);
    recording.noises(400, 3_600);
    let incidents = Capture::open(&place.capture()).unwrap().incidents.len();
    assert_eq!((segments(&place)[0], incidents), (1, 1), "the incident itself is kept");
    let dropped = recording.store.extent().dropped;
    assert!(dropped > 5, "what came after it is not: {dropped}");
    // With a limit of one incident, the next one replaces the pin.
    recording.incident();
    recording.noises(30, 3_600);
    assert!(segments(&place)[0] > 1);
}

#[test]
fn incident_of_an_older_release_without_an_end_is_unpinned_later() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    recording.noises(10, 60);
    let mut incident = recording.incident();
    incident.pinned_to = i64::MAX;
    recording.write(Body::Incident(incident)).unwrap();
    recording.noises(10, 60);
    recording.store.kill();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    assert_eq!(recording.store.open_pins(), 0);
    recording.noises(400, 3_600);
    assert!(recording.store.extent().dropped > 5);
}

#[test]
fn incident_whose_end_was_not_written_ends_with_its_session() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(8 << 20));
    let mut incident = recording.incident();
    incident.to = recording.wall();
    let entry = recording.entry(Body::Incident(incident));
    recording.store.pass_over(entry);
    assert_eq!(recording.store.open_pins(), 0);
    // If the end of an incident never reaches the store, the next incident ends it.
    recording.incident();
    recording.incident();
    assert_eq!(recording.store.open_pins(), 1);
}

#[test]
fn incident_during_which_the_clock_was_set_back_pins_only_itself() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 4;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(60, 60);
    let mut incident = recording.incident();
    recording.noises(5, 60);
    recording.set_clock(-30);
    recording.noises(5, 60);
    // The closed incident pins the time from its end minus 10 min to its beginning plus 5 min, because the clock was
    // set back.
    incident.to = recording.wall();
    incident.pinned_from = incident.to - 600_000_000_000;
    incident.pinned_to = incident.from + 300_000_000_000;
    recording.write(Body::Incident(incident)).unwrap();
    recording.noises(300, 60);
    let capture = Capture::open(&place.capture()).unwrap();
    let kept = |call: u64| capture.calls.iter().any(|known| known.number == call);
    assert!(kept(52) && kept(62) && kept(70) && kept(370));
    assert!(!kept(20) && !kept(100));
}

#[test]
fn directory_with_the_largest_segment_number_stays_usable() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(20, 1);
    drop(recording);
    let named = |number: u64| place.capture().join(segment::name(number));
    let before = segments(&place).len();
    fs::rename(named(u64::try_from(before).unwrap()), named(segment::LAST)).unwrap();
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(1, 1);
    let capture = Capture::open(&place.capture()).unwrap();
    let calls: Vec<_> = capture.calls.iter().map(|call| call.number).collect();
    assert_eq!(calls, (1..=20).chain(1..=1).collect::<Vec<_>>(), "in the order in which they were made");
    recording.noises(200, 1);
    assert!(on_disk(&place.capture()) <= bound);
    assert!(segments(&place).iter().all(|number| *number < 1_000));
}

#[test]
fn foreign_file_with_a_segment_number_is_skipped_and_counts_against_the_size_limit() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    let theirs = place.capture().join(segment::name(2));
    fs::write(&theirs, vec![7; 150_000]).unwrap();
    for _ in 0..200 {
        recording.noises(1, 1);
        assert!(on_disk(&place.capture()) <= bound);
    }
    assert!(!theirs.exists(), "the oldest goes first");
}

#[test]
fn recorder_starts_in_spite_of_an_unreadable_segment() {
    let place = CaptureParent::new();
    let bound = store::SMALLEST * 2;
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(20, 1);
    drop(recording);
    let precious = place.path().join("precious");
    fs::write(&precious, vec![0; 100]).unwrap();
    let named = |number: u64| place.capture().join(segment::name(number));
    fs::remove_file(named(1)).unwrap();
    std::os::unix::fs::symlink(&precious, named(1)).unwrap();
    make_stubborn(&place, 2);
    let mut recording = TestRecorder::start(&place, limits(bound));
    recording.noises(200, 1);
    assert!(!named(1).exists() && named(2).is_dir());
    assert_eq!(fs::metadata(&precious).unwrap().len(), 100);
}

#[test]
fn directory_replaced_by_a_link_during_the_recording_is_not_followed() {
    let place = CaptureParent::new();
    let mut recording = TestRecorder::start(&place, limits(store::SMALLEST));
    let (moved, trap) = (place.path().join("moved"), place.path().join("trap"));
    fs::create_dir(&trap).unwrap();
    fs::write(trap.join(segment::name(1)), "precious").unwrap();
    fs::rename(place.capture(), &moved).unwrap();
    std::os::unix::fs::symlink(&trap, place.capture()).unwrap();
    recording.noises(100, 1);
    assert_eq!(fs::read_dir(&trap).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(trap.join(segment::name(1))).unwrap(), "precious");
    assert!(on_disk(&moved) > 100_000);
    let opened = Store::open(&place.capture(), limits(store::SMALLEST));
    assert!(matches!(opened, Err(Error::Unsafe { why, .. }) if why == "it is a symbolic link"));
}

/// Starts a recorder whose clocks the test sets.
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

fn until(recorder: &Recorder, wanted: impl Fn(&super::recorder::RecorderStatus) -> bool) {
    while !wanted(&recorder.status()) {
        std::thread::yield_now();
    }
}

fn asked(recorder: &Recorder, call: u64) {
    let rpc = rpc_number(Rpc::ListContainers);
    recorder.note(Body::CallStarted(CallStarted { call, rpc, request: Bytes::new(), relist: 1 }));
}

#[test]
fn segment_after_a_failed_reopening_has_the_session_and_the_open_calls() {
    let place = CaptureParent::new();
    let (recorder, clock) = recorder(&place);
    assert!(matches!(recorder.opened(Duration::MAX), Some(Ok(0))));
    recorder.begin(Session { runtime: "containerd".into(), ..session() }, Duration::MAX);
    asked(&recorder, 1);
    until(&recorder, |state| state.extent.segments == 1);
    fs::rename(place.capture(), place.path().join("moved")).unwrap();
    // A file is now in the place of the directory.
    fs::write(place.capture(), "").unwrap();
    recorder.reopen();
    until(&recorder, |state| state.trouble.is_some());
    // The recorder also remembers the calls that begin and end meanwhile.
    asked(&recorder, 2);
    asked(&recorder, 3);
    recorder.note(Body::CallFinished(CallFinished::new(2, Duration::ZERO, &RecordedOutcome::Answered)));
    until(&recorder, |state| state.lost == 3);
    fs::remove_file(place.capture()).unwrap();
    clock.advance(Duration::from_secs(60));
    asked(&recorder, 4);
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
    asked(&recorder, 1);
    recorder.update_session(Session { runtime: "containerd".into(), ..session() });
    asked(&recorder, 2);
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
    until(&recorder, |state| state.lost == 1);
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
fn only_errors_of_the_disk_are_tried_again() {
    use rustix::io::Errno;
    let of = |errno: Errno| Error::Directory { path: "/x".into(), source: errno.into() };
    for errno in
        [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO, Errno::NODEV, Errno::STALE, Errno::MFILE]
    {
        assert!(of(errno).is_of_the_disk(), "{errno:?}");
    }
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOTDIR, Errno::NOENT, Errno::LOOP] {
        assert!(!of(errno).is_of_the_disk(), "{errno:?}");
    }
    assert!(!Error::Unsafe { path: "/x".into(), why: "it is a symbolic link".into() }.is_of_the_disk());
}
