//! Tests that write a capture and read it again: undamaged, truncated, with flipped bits, after a kill of the recorder, and
//! after the wall clock was set.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::bytes::Bytes;

use super::entry::{
    Body, CallFinished, CallStarted, CaptureEntry, Incident, Lost, RecordedOutcome, RelistDone, Session,
    StoredDocument, StoredMessage, kind, rpc_number,
};
use super::list::CheckReport;
use super::node::{NodeSample, ProcessSample};
use super::report::CaptureReport;
use super::testing::TestPath;
use super::{Capture, Error, Limits, Playback, Range, Store, segment, store};
use crate::clock::Wall;
use crate::cri::Rpc;

const MINUTE: Duration = Duration::from_secs(60);
const START: i64 = 1_700_000_000_000_000_000;

fn limits(size: u64) -> Limits {
    Limits { size, age: 7 * 24 * 60 * MINUTE, incidents: 20 }
}

fn at(second: u64) -> i64 {
    START + i64::try_from(second).unwrap() * 1_000_000_000
}

fn entry(second: u64, body: Body) -> CaptureEntry {
    CaptureEntry { wall: at(second), mono: second * 1_000_000_000, body: Some(body) }
}

fn call_started(second: u64, call: u64, rpc: Rpc) -> CaptureEntry {
    let started =
        CallStarted { call, rpc: rpc_number(rpc), request: Bytes::from_static(b"\n\0"), relist: second };
    entry(second, Body::CallStarted(started))
}

fn call_answered(second: u64, call: u64, bytes: &[u8]) -> CaptureEntry {
    let mut ended = CallFinished::new(call, Duration::from_millis(3), &RecordedOutcome::Answered);
    ended.answers.push(StoredMessage { bytes: Bytes::copy_from_slice(bytes), ..StoredMessage::default() });
    entry(second, Body::CallFinished(ended))
}

fn relist(second: u64) -> CaptureEntry {
    entry(second, Body::Relist(RelistDone { number: second, ..RelistDone::default() }))
}

/// Returns the list at a second. Every third second adds an item, and every 97th second replaces all items.
fn list(second: u64) -> Vec<u8> {
    let item =
        |number: u64| format!("{number:05}-{}-{}|", number * 7919, "label=value,".repeat(20)).into_bytes();
    let shift = if second % 97 == 96 { 50_000 } else { 0 };
    (0..30 + second / 3).flat_map(|number| item(number + shift)).collect()
}

fn write(store: &mut Store, seconds: std::ops::Range<u64>) {
    for second in seconds {
        store.write(call_started(second, 2 * second, Rpc::ListContainers)).unwrap();
        store.write(call_answered(second, 2 * second, &list(second))).unwrap();
        store.write(call_started(second, 2 * second + 1, Rpc::ContainerStatus)).unwrap();
        store
            .write(call_answered(second, 2 * second + 1, format!("status {}", second % 5).as_bytes()))
            .unwrap();
        store.write(relist(second)).unwrap();
    }
}

fn record_capture(place: &Path, size: u64, seconds: u64) {
    let mut store = Store::open(place, limits(size)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    write(&mut store, 0..seconds);
}

/// Returns for each call whether it has an answer, and checks each answer against the written one.
fn answers(capture: &Capture) -> BTreeMap<u64, bool> {
    let mut found = BTreeMap::new();
    for call in &capture.calls {
        let messages = call.end.as_ref().and_then(|end| capture.messages(end));
        if let Some(messages) = &messages {
            let second = call.number / 2;
            let written = match call.rpc {
                Rpc::ListContainers => list(second),
                _ => format!("status {}", second % 5).into_bytes(),
            };
            assert_eq!(messages.as_slice(), [Bytes::from(written)], "{} of second {second}", call.rpc);
        }
        *found.entry(call.number).or_default() |= messages.is_some();
    }
    found
}

fn files(place: &Path) -> Vec<PathBuf> {
    store::segments_in(place).unwrap().into_iter().map(|(_, path)| path).collect()
}

fn on_disk(place: &Path) -> u64 {
    fs::read_dir(place).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Returns a sample of a node with so many threads of containerd.
fn node_sample(second: u64, threads: u64) -> CaptureEntry {
    let process = ProcessSample { pid: 812, name: "containerd".into(), threads, ..ProcessSample::default() };
    let sample = NodeSample { processes: vec![process], pods: Some(9), ..NodeSample::default() };
    let text = serde_json::to_vec(&sample).unwrap().into();
    entry(second, Body::Document(StoredDocument { kind: kind::NODE, text, inflated: 0 }))
}

#[test]
fn replay_forecasts_a_limit_from_the_samples_before_its_moment() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    for second in (0..=5400).step_by(30) {
        store.write(relist(second)).unwrap();
        store.write(node_sample(second, 5000 + second / 2)).unwrap();
    }
    drop(store);
    let at_second = |second: u64| {
        let moment = super::CaptureMoment { session: 0, mono: second * 1_000_000_000 };
        let capture = Capture::open(&place.0).unwrap();
        let playback = Playback::at(capture, (moment, Wall::from_nanos(at(second))), Arc::default());
        playback.forecasts().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(at_second(1500), [""; 0], "it has grown for less than half an hour");
    let text =
        "containerd[812] has 6,800 of 10,000 threads, +30.0 a minute since 22:13:20 UTC: full in about 106m";
    assert_eq!(at_second(3600), [text]);
    let report = CaptureReport::of(&Capture::open(&place.0).unwrap(), Range::default()).unwrap();
    assert_eq!(report.forecasts.iter().map(|one| one.used).collect::<Vec<_>>(), [7700], "at its end");
}

#[test]
fn capture_is_read_as_it_was_written_and_is_small() {
    let place = TestPath::new();
    record_capture(&place.0, 16 << 20, 300);
    let capture = Capture::open(&place.0).unwrap();
    assert_eq!((capture.relists.len(), capture.damaged(), capture.dropped), (300, 0, 0));
    let found = answers(&capture);
    assert_eq!(found.len(), 600);
    assert!(found.values().all(|has_answer| *has_answer));
    let raw: usize = (0..300).map(|second| list(second).len()).sum();
    let (raw, kept) = (u64::try_from(raw).unwrap(), on_disk(&place.0));
    assert!(kept * 50 < raw, "{kept} bytes for {raw}");
}

/// Returns a list in a different order each time, as a runtime with a hash map of containers does.
fn shuffled_list(second: u64) -> Vec<u8> {
    let mut items: Vec<u64> = (0..100).collect();
    items.sort_by_key(|item| (item + 1).wrapping_mul(second + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let content = |item: u64| {
        let state = if item == second / 50 { "exited" } else { "running" };
        format!(
            "{:064x}-{state}-{}",
            (item + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            "label=value,".repeat(4)
        )
    };
    let item =
        |item: u64| [&[0x0A, u8::try_from(content(item).len()).unwrap()], content(item).as_bytes()].concat();
    items.into_iter().flat_map(item).collect()
}

#[test]
fn shuffled_list_is_stored_as_a_permutation_and_restored() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(64 << 20)).unwrap();
    store.begin(Session::default(), at(0));
    for second in 0..400 {
        store.write(call_started(second, second, Rpc::ListContainers)).unwrap();
        store.write(call_answered(second, second, &shuffled_list(second))).unwrap();
    }
    drop(store);
    // A permutation needs seven bits for each of a hundred items; the rest is the size of the two entries.
    assert!(on_disk(&place.0) < 400 * 256, "{} bytes", on_disk(&place.0));
    let exported = {
        let mut out = Vec::new();
        super::export(&Capture::open(&place.0).unwrap(), super::Range::default(), None, &mut out).unwrap();
        let file = place.0.join("part.plegcap");
        fs::write(&file, out).unwrap();
        file
    };
    for path in [&place.0, &exported] {
        let capture = Capture::open(path).unwrap();
        assert_eq!(capture.calls.len(), 400);
        // The loop starts at the end, so that no base of a difference is in the cache.
        for call in capture.calls.iter().rev() {
            let messages = capture.messages(call.end.as_ref().unwrap()).unwrap();
            assert_eq!(messages, [Bytes::from(shuffled_list(call.number))], "second {}", call.number);
        }
    }
}

#[test]
fn capture_never_exceeds_its_size_limit_and_contains_the_newest_entries() {
    let place = TestPath::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    let mut store = Store::open(&place.0, limits(bound)).unwrap();
    store.begin(Session::default(), at(0));
    let mut noise = 1_u64;
    for second in 0..200 {
        let bytes: Vec<u8> = (0..9_000)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                noise.to_be_bytes()[0]
            })
            .collect();
        store.write(call_started(second, second, Rpc::ContainerStatus)).unwrap();
        store.write(call_answered(second, second, &bytes)).unwrap();
        assert!(on_disk(&place.0) <= bound, "second {second}: {} bytes", on_disk(&place.0));
    }
    assert!(store.extent().dropped > 10);
    let capture = Capture::open(&place.0).unwrap();
    assert_eq!(capture.calls.last().unwrap().number, 199);
    assert_eq!(capture.dropped, store.extent().dropped);
    assert!(capture.calls.len() < 60);
}

fn incident(number: u64, second: u64, from: u64, to: u64) -> CaptureEntry {
    let wall = |second: u64| START + i64::try_from(second * 1_000_000_000).unwrap();
    let incident = Incident {
        number,
        from: wall(from),
        to: wall(to),
        pinned_from: wall(from),
        pinned_to: wall(to),
        ..Incident::default()
    };
    entry(second, Body::Incident(incident))
}

fn write_random_calls(store: &mut Store, seconds: std::ops::Range<u64>) {
    for second in seconds {
        let mut noise = second + 1;
        let bytes: Vec<u8> = (0..9_000)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                noise.to_be_bytes()[0]
            })
            .collect();
        store.write(call_started(second, second, Rpc::ContainerStatus)).unwrap();
        store.write(call_answered(second, second, &bytes)).unwrap();
    }
}

#[test]
fn pinned_segments_are_deleted_last_and_count_against_the_size_limit() {
    let place = TestPath::new();
    let bound = store::MIN_CAPTURE_SIZE * 2;
    let mut store = Store::open(&place.0, limits(bound)).unwrap();
    store.begin(Session::default(), at(0));
    write_random_calls(&mut store, 0..10);
    store.write(incident(1, 10, 8, 11)).unwrap();
    write_random_calls(&mut store, 11..300);
    drop(store);
    let has = |second: u64| Capture::open(&place.0).unwrap().calls.iter().any(|call| call.number == second);
    assert!(has(9) && has(299) && !has(100));
    // A new recorder still knows the incident.
    let mut store = Store::open(&place.0, limits(bound)).unwrap();
    assert_eq!(store.incidents(), 1);
    store.begin(Session::default(), at(300));
    write_random_calls(&mut store, 300..600);
    assert!(has(9) && has(599) && !has(299));
    // If every segment is pinned, the oldest one is deleted, because the size limit has priority.
    for number in 2..40 {
        let from = 600 + number * 10;
        store.write(incident(number, from, from, from + 10)).unwrap();
        write_random_calls(&mut store, from..from + 10);
        assert!(on_disk(&place.0) <= bound);
    }
    assert!(!has(9) && has(999));
}

#[test]
fn every_segment_contains_the_open_calls() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(store::MIN_CAPTURE_SIZE)).unwrap();
    store.begin(Session::default(), at(0));
    store.write(call_started(0, 1_000_000, Rpc::ListContainers)).unwrap();
    write_random_calls(&mut store, 1..200);
    let capture = Capture::open(&place.0).unwrap();
    assert!(capture.dropped > 0);
    let hung: Vec<_> = capture.calls.iter().filter(|call| call.number == 1_000_000).collect();
    assert_eq!(hung.len(), 1);
    assert_eq!((hung[0].sent.mono, hung[0].end.is_some()), (0, false));
}

#[test]
fn long_file_truncated_at_any_byte_keeps_its_earlier_entries() {
    let place = TestPath::new();
    record_capture(&place.0, 16 << 20, 20);
    let file = files(&place.0).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    let ends: Vec<(usize, u64)> = {
        let mut entries = super::segment::Entries::in_bytes(&whole);
        let mut ends = Vec::new();
        let mut number = 0;
        while let Some((_, _)) = entries.next() {
            number += 1;
            ends.push((entries.end(), number));
        }
        ends
    };
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    runner
        .run(&(super::segment::HEADER_SIZE..whole.len()), |cut| {
            fs::write(&file, &whole[..cut]).unwrap();
            let capture = Capture::open(&place.0).unwrap();
            answers(&capture);
            let expected = ends.iter().take_while(|(end, _)| *end <= cut).map(|(_, number)| *number).last();
            let expected = expected.unwrap_or(0);
            prop_assert_eq!(capture.segments[0].entries, expected);
            // An incomplete entry counts as cut, not as damaged, even with reserved space after it.
            let before = ends.iter().map(|(end, _)| *end).take_while(|end| *end <= cut).last();
            let torn = u64::try_from(cut - before.unwrap_or(segment::HEADER_SIZE)).unwrap();
            let mut reserved = whole[..cut].to_vec();
            reserved.resize(1 << 20, 0);
            // Zeros at the end of the cut entry look like reserved space.
            let is_cut = |capture: &Capture, torn: u64| {
                let found = capture.cut();
                capture.damaged() == 0 && found <= torn && (found > 0) == (torn > 0)
            };
            prop_assert!(is_cut(&capture, torn), "{} of {torn}", capture.cut());
            fs::write(&file, reserved).unwrap();
            let capture = Capture::open(&place.0).unwrap();
            // If only zeros are missing from an entry, the reserved space completes it.
            let end = ends.iter().map(|(end, _)| *end).find(|end| *end > cut).filter(|_| torn > 0);
            let is_whole = end.is_some_and(|end| whole[cut..end].iter().all(|byte| *byte == 0));
            let torn = if is_whole { 0 } else { torn };
            prop_assert!(is_cut(&capture, torn), "{} of {torn}", capture.cut());
            prop_assert_eq!(capture.segments[0].entries, expected + u64::from(is_whole));
            Ok(())
        })
        .unwrap();
}

/// A recorder that is killed during an incident cannot write the end of the incident.
#[test]
fn incident_of_a_killed_recorder_ends_with_its_session() {
    use super::list::CaptureList;
    use crate::report::Seconds;

    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session::default(), at(0));
    let incident = Incident { number: 1, from: at(5), peak: at(5), ..Incident::default() };
    store.write(entry(5, Body::Incident(incident))).unwrap();
    write(&mut store, 6..10);
    let listed = || CaptureList::of(&Capture::open(&place.0).unwrap()).incidents.remove(0);
    let of = |listed: &super::list::ListedIncident| (listed.lasted_seconds, listed.at_least_seconds);
    assert_eq!(of(&listed()), (None, None), "the incident lasts while the recorder runs");
    drop(store);
    let seconds = |seconds| Some(Seconds::from(Duration::from_secs(seconds)));
    assert_eq!(of(&listed()), (None, seconds(4)));
    // The next recorder has a different session id.
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { id: 2, ..Session::default() }, at(60));
    write(&mut store, 60..62);
    assert_eq!(of(&listed()), (None, seconds(4)));
}

#[test]
fn long_flipped_bit_loses_one_entry_and_the_differences_from_it() {
    let place = TestPath::new();
    record_capture(&place.0, 16 << 20, 60);
    let file = files(&place.0).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    let before = answers(&Capture::open(&place.0).unwrap()).len();
    let last = segment::Entries::in_bytes(&whole).last().unwrap().0;
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    runner
        .run(&(super::segment::HEADER_SIZE..whole.len(), 0..8_u32), |(byte, bit)| {
            let mut broken = whole.clone();
            broken[byte] ^= 1_u8 << bit;
            fs::write(&file, &broken).unwrap();
            let capture = Capture::open(&place.0).unwrap();
            // If the length of the last entry becomes larger than the file, the entry looks cut.
            let fault = if byte < last { capture.damaged() } else { capture.damaged() + capture.cut() };
            prop_assert!(fault > 0);
            let found = answers(&capture);
            // The first entry of the segment is the session; without it, the other entries belong to no session.
            prop_assert!(found.len() + 1 >= before || capture.sessions.is_empty());
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_bytes_are_read_or_refused_without_panic() {
    let place = TestPath::new();
    fs::create_dir_all(&place.0).unwrap();
    let file = place.0.join("0000000001.seg");
    record_capture(&place.0.join("good"), 16 << 20, 5);
    let good = fs::read(files(&place.0.join("good")).pop().unwrap()).unwrap();
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 300, ..Config::default() });
    runner
        .run(&edits, |edits| {
            let mut bytes = good.clone();
            for (place, byte) in edits {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            fs::write(&file, &bytes).unwrap();
            if let Ok(capture) = Capture::open(&place.0) {
                for call in &capture.calls {
                    call.end.as_ref().and_then(|end| capture.messages(end));
                }
                capture.documents.iter().for_each(|document| drop(capture.text(document)));
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn next_recorder_releases_the_space_reserved_by_a_killed_one() {
    let place = TestPath::new();
    record_capture(&place.0, 256 << 20, 3);
    let file = files(&place.0).pop().unwrap();
    let used = fs::metadata(&file).unwrap().len();
    // After a kill, the file still has its reserved space.
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(4 << 20).unwrap();
    assert_eq!(Capture::open(&place.0).unwrap().damaged(), 0);
    drop(Store::open(&place.0, limits(256 << 20)).unwrap());
    assert_eq!(fs::metadata(&file).unwrap().len(), used);
    assert_eq!(answers(&Capture::open(&place.0).unwrap()).len(), 6);
}

#[test]
fn incomplete_entry_of_a_killed_recorder_is_counted_once() {
    let place = TestPath::new();
    record_capture(&place.0, 256 << 20, 3);
    let file = files(&place.0).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    let (last, _) = segment::Entries::in_bytes(&whole).last().unwrap();
    let mut torn = whole[..last + 20].to_vec();
    torn.resize(4 << 20, 0);
    fs::write(&file, torn).unwrap();
    let cut = || {
        let capture = Capture::open(&place.0).unwrap();
        let report = CheckReport::of(&capture);
        assert!(report.is_damaged(), "an incomplete entry is damage");
        (capture.damaged(), capture.cut(), report.segments[0].cut_bytes, capture.relists.len())
    };
    // The entry about the third relist is incomplete, but the calls of the relist are recorded.
    assert_eq!(cut(), (0, 20, 20, 3));
    let mut store = Store::open(&place.0, limits(256 << 20)).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), u64::try_from(last + 20).unwrap());
    store.begin(Session::default(), at(10));
    write(&mut store, 10..12);
    drop(store);
    assert_eq!(cut(), (0, 20, 20, 5));
    // An incomplete entry before a complete one counts as damage.
    let mut broken = whole;
    broken[last - 1] ^= 1;
    fs::write(&file, broken).unwrap();
    assert!(Capture::open(&place.0).unwrap().damaged() > 0);
}

#[test]
fn directory_is_a_capture_before_the_first_call() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(1 << 20)).unwrap();
    assert!(Capture::open(&place.0).is_err());
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    // The destructor does not run, as in a killed recorder.
    std::mem::forget(store);
    let capture = Capture::open(&place.0).unwrap();
    assert_eq!((capture.segments.len(), capture.damaged(), capture.cut()), (1, 0, 0));
    assert_eq!(capture.sessions[0].session.endpoint, "unix:///x");
    assert!(matches!(capture.moment(Some("+0s")), Err(Error::Empty { .. })));
    // The capture's time begins with its first entry after the session.
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(1 << 20)).unwrap();
    store.begin(Session::default(), at(5));
    write(&mut store, 7..9);
    let capture = Capture::open(&place.0).unwrap();
    assert_eq!(capture.moment(Some("+0s")).unwrap().1, Wall::from_nanos(at(7)));
}

#[test]
fn capture_has_one_writer_and_many_readers() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(1 << 20)).unwrap();
    store.begin(Session::default(), at(0));
    write(&mut store, 0..5);
    let second = Store::open(&place.0, limits(1 << 20));
    let own = Some(std::process::id());
    assert!(matches!(second, Err(Error::TwoRecorders { holder, .. }) if holder == own));
    assert_eq!(Capture::open(&place.0).unwrap().relists.len(), 5);
    drop(store);
    assert!(Store::open(&place.0, limits(1 << 20)).is_ok());
}

#[test]
fn only_the_owner_may_read_a_capture() {
    let place = TestPath::new();
    record_capture(&place.0, 1 << 20, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.0), 0o700);
    for entry in fs::read_dir(&place.0).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn other_files_are_not_read_as_captures() {
    let place = TestPath::new();
    fs::create_dir_all(&place.0).unwrap();
    assert!(matches!(Capture::open(&place.0), Err(Error::NotACapture { .. })));
    let why = Capture::open(&place.0.join("none")).unwrap_err();
    assert!(matches!(why, Error::Read { .. }), "{why}");
    assert!(why.hint().unwrap().contains("plegctl record"), "{why}");
    let file = place.0.join("notes.txt");
    fs::write(&file, "dear diary").unwrap();
    assert!(matches!(Capture::open(&file), Err(Error::NotACapture { .. })));
    assert!(matches!(Store::open(&place.0, limits(1 << 20)), Err(Error::NotACapture { .. })));
    let later = place.0.join("later");
    fs::create_dir_all(&later).unwrap();
    fs::write(later.join("0000000001.seg"), b"plegcap\n\x63\x00000000").unwrap();
    assert!(matches!(Capture::open(&later), Err(Error::OtherVersion { found: 0x63, .. })));
}

#[test]
fn answer_larger_than_a_segment_is_omitted() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(store::MIN_CAPTURE_SIZE)).unwrap();
    store.begin(Session::default(), at(0));
    let mut noise = 7_u64;
    let huge: Vec<u8> = (0..100_000)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.to_be_bytes()[0]
        })
        .collect();
    store.write(call_started(1, 1, Rpc::ListContainers)).unwrap();
    store.write(call_answered(1, 1, &huge)).unwrap();
    write(&mut store, 2..4);
    let capture = Capture::open(&place.0).unwrap();
    let end = capture.calls[0].end.as_ref().unwrap();
    assert!(end.omitted && capture.messages(end).is_none());
    assert_eq!(capture.relists.len(), 2);
}

/// The wall clock is set while the recorder runs; the test provides the clock.
#[test]
fn jump_of_the_wall_clock_is_recorded_and_loses_nothing() {
    use super::entry::kind;
    use super::report::CaptureReport;
    use super::{Playback, Range, Recorder, ReplayClock};
    use crate::clock::{Clock, Wall};
    use crate::pleg::stream::Relist;
    use std::sync::Arc;

    let place = TestPath::new();
    let clock = Arc::new(ReplayClock::new());
    let at = |second: i64| Wall::from_nanos(START + second * 1_000_000_000);
    clock.set(Duration::ZERO, at(0));
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let session = Session { endpoint: "unix:///x".into(), slow: 2_000_000_000, ..Session::default() };
    let recorder = Recorder::start(place.0.clone(), limits(16 << 20), shared).unwrap();
    assert!(matches!(recorder.opened(MINUTE), Some(Ok(0))));
    recorder.begin(session, MINUTE);
    // The wall clock is set one hour forward after 10 s, and two hours back after 20 s.
    let set = |second: u64| match second {
        0..10 => 0,
        10..20 => 3600,
        _ => -3600,
    };
    for second in 0..30_u64 {
        let wall = at(i64::try_from(second).unwrap() + set(second));
        clock.set(Duration::from_secs(second), wall);
        let began = recorder.now();
        clock.advance(Duration::from_millis(100));
        recorder.document(kind::HEALTH, &serde_json::json!({ "second": second }));
        recorder.relist_finished(
            began,
            &Relist {
                duration_seconds: Duration::from_millis(100).into(),
                ..Relist::new(clock.wall(), second + 1)
            },
        );
    }
    assert!(recorder.close("done", MINUTE));
    let capture = Capture::open(&place.0).unwrap();
    let jumps: Vec<i64> = capture.jumps.iter().map(|(_, jump)| jump.by / 1_000_000_000).collect();
    assert_eq!(jumps, [3600, -7200]);
    // Durations and ages are by the monotonic clock.
    let report = CaptureReport::of(&capture, Range::default()).unwrap();
    assert_eq!((report.relists.len(), report.jumps.len()), (30, 2));
    for point in &report.relists {
        assert_eq!(point.duration_seconds, Duration::from_millis(100).into(), "{point:?}");
        assert!(point.age_seconds.duration() <= Duration::from_millis(1100), "{point:?}");
    }
    // A replay keeps the order of the relists and the time between them.
    let playback = Playback::at(capture, (super::CaptureMoment::default(), at(0)), Arc::clone(&clock));
    playback.play(super::Speed::Max);
    let mut times = Vec::new();
    while playback.next(true) == super::PlaybackStep::Relist {
        times.push(clock.mono());
    }
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert_eq!(pauses, vec![Duration::from_secs(1); 29]);
    // A moment is found by the time that the wall clock showed then.
    let capture = Capture::open(&place.0).unwrap();
    let moment = |second: i64| capture.moment(Some(&at(second).to_string())).unwrap().0.mono / 1_000_000_000;
    for (second, shown) in [(5, 5), (12, 3612), (25, 25 - 3600)] {
        assert_eq!(moment(shown), second, "{shown}");
    }
    // A distance from the start and the end of the capture are found by the monotonic clock.
    let moment = |time| {
        let (moment, wall) = capture.moment(time).unwrap();
        (moment.mono / 1_000_000_000, wall.seconds_since(at(0)).round())
    };
    let times = [Some("+0s"), Some("+5s"), Some("+12s"), Some("+25s"), None].map(moment);
    assert_eq!(times, [(0, 0.0), (5, 5.0), (12, 3612.0), (25, 25.0 - 3600.0), (29, 29.0 - 3600.0)]);
    assert!(matches!(capture.moment(Some("+soon")), Err(Error::Moment { .. })));
    assert!(matches!(capture.moment(Some("+31h")), Err(Error::Outside { .. })));
}

/// Writes relists, each with its number, the seconds of its beginning and end, and whether the list calls succeeded. Returns
/// the age of PLEG at each relist in seconds, with `age_at_least`.
fn ages(numbers: &[(u64, u64, u64, bool)]) -> Vec<(u64, bool)> {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    for (number, began, ended, good) in numbers {
        let done = RelistDone {
            number: *number,
            began: began * 1_000_000_000,
            error: if *good { String::new() } else { "no answer".to_owned() },
            ..RelistDone::default()
        };
        store.write(entry(*ended, Body::Relist(done))).unwrap();
    }
    drop(store);
    let capture = Capture::open(&place.0).unwrap();
    let report = super::report::CaptureReport::of(&capture, super::Range::default()).unwrap();
    report.relists.iter().map(|point| (point.age_seconds.duration().as_secs(), point.age_at_least)).collect()
}

#[test]
fn age_counts_from_the_start_of_the_recorder_until_a_relist_succeeds() {
    let failing = [(1, 3, 5, false), (2, 10, 12, false), (3, 15, 16, true), (4, 20, 23, true)];
    assert_eq!(ages(&failing), [(5, true), (12, true), (16, true), (8, false)]);
    // If the beginning of the session was deleted, nobody knows whether an earlier relist succeeded.
    assert_eq!(ages(&failing[1..]), [(2, false), (1, false), (8, false)]);
}

#[test]
fn age_counts_from_the_list_calls_of_a_relist_whose_status_call_hangs() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    let calls = [(2, 1, Rpc::ListPodSandbox), (3, 2, Rpc::ListContainers), (5, 3, Rpc::ContainerStatus)];
    for (second, number, rpc) in calls {
        let started = CallStarted { call: number, rpc: rpc_number(rpc), request: Bytes::new(), relist: 1 };
        store.write(entry(second, Body::CallStarted(started))).unwrap();
        if number < 3 {
            store.write(call_answered(second + 1, number, b"")).unwrap();
        }
    }
    let version = CallStarted { call: 4, rpc: rpc_number(Rpc::Version), ..CallStarted::default() };
    store.write(entry(60, Body::CallStarted(version))).unwrap();
    drop(store);
    let capture = Capture::open(&place.0).unwrap();
    let report = super::report::CaptureReport::of(&capture, super::Range::default()).unwrap();
    let [point] = report.relists.as_slice() else { panic!("{:?}", report.relists) };
    // A list call takes 3 ms in this test.
    assert_eq!(point.listed_seconds.unwrap().duration(), Duration::from_millis(1_003));
    assert_eq!((point.age_seconds.duration(), point.age_at_least), (Duration::from_secs(58), false));
    assert_eq!(report.times_without_relist(), []);
}

#[test]
fn entry_with_very_many_answers_is_decoded_once() {
    let place = TestPath::new();
    fs::create_dir(&place.0).unwrap();
    let mut ended = CallFinished::new(1, Duration::from_millis(3), &RecordedOutcome::Answered);
    // The test would take hours if reading decoded the entry again for each answer.
    ended.answers = (1..=200_000)
        .map(|number| StoredMessage {
            number,
            bytes: Bytes::from_static(b"x"),
            is_stored_here: true,
            ..StoredMessage::default()
        })
        .collect();
    let session = Session { id: 1, ..Session::default() };
    let entries = [
        entry(0, Body::Session(session)),
        call_started(1, 1, Rpc::StreamContainers),
        entry(2, Body::CallFinished(ended)),
    ];
    let mut bytes = segment::header().to_vec();
    bytes.extend(entries.iter().flat_map(segment::framed));
    let file = place.0.join("many.plegcap");
    fs::write(&file, bytes).unwrap();
    let capture = Capture::open(&file).unwrap();
    let messages = capture.messages(capture.calls[0].end.as_ref().unwrap()).unwrap();
    assert_eq!(messages, vec![Bytes::from_static(b"x"); 200_000]);
}

#[test]
fn long_segment_deleted_while_it_is_read_is_not_damaged() {
    let place = TestPath::new();
    record_capture(&place.0, 1 << 20, 1500);
    let capture = Capture::open(&place.0).unwrap();
    let all = CheckReport::of(&capture);
    assert!(!all.is_damaged() && all.segments.len() > 2, "{all:?}");
    let capture = Capture::open(&place.0).unwrap();
    fs::remove_file(&files(&place.0)[0]).unwrap();
    let fewer = CheckReport::of(&capture);
    assert!(!fewer.is_damaged(), "{fewer:?}");
    // An overwritten answer is damage.
    let spoiled = &files(&place.0)[1];
    let mut bytes = fs::read(spoiled).unwrap();
    let end = bytes.len();
    bytes[end / 4..end / 2].fill(0x55);
    fs::write(spoiled, bytes).unwrap();
    assert!(CheckReport::of(&Capture::open(&place.0).unwrap()).is_damaged());
}

/// Returns the state of the only call of a capture at a second, as text.
fn call_state(place: &TestPath, second: u64) -> String {
    let capture = Capture::open(&place.0).unwrap();
    let at = super::CaptureMoment { session: 0, mono: second * 1_000_000_000 };
    match capture.state_at(&capture.calls[0], at) {
        super::CallState::Ended(_) => "ended".to_owned(),
        super::CallState::Open(waited) => format!("open for {} s", waited.as_secs()),
        super::CallState::NotKnown => "not known".to_owned(),
    }
}

/// Writes a capture with a call that starts at second 10, and further entries.
fn capture_with_one_call(entries: impl IntoIterator<Item = CaptureEntry>) -> TestPath {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(1 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), slow: 2_000_000_000, ..Session::default() }, at(0));
    store.write(call_started(10, 1, Rpc::ListContainers)).unwrap();
    entries.into_iter().for_each(|entry| store.write(entry).unwrap());
    place
}

#[test]
fn call_is_open_until_its_end() {
    let mut ended = CallFinished::new(1, Duration::from_secs(25), &RecordedOutcome::Answered);
    ended.answers.push(StoredMessage { bytes: Bytes::from_static(b"x"), ..StoredMessage::default() });
    let place = capture_with_one_call([entry(35, Body::CallFinished(ended)), relist(40)]);
    assert_eq!(
        [12, 34, 35, 40].map(|second| call_state(&place, second)),
        ["open for 2 s", "open for 24 s", "ended", "ended"]
    );
}

#[test]
fn call_whose_end_was_lost_is_not_silent() {
    let ends = vec![super::entry::LostEnd { call: 1, mono: 11_000_000_000 }];
    let lost = Lost {
        entries: 1,
        why: "the disk did not keep up".into(),
        ends,
        since: 11_000_000_000,
        ..Lost::default()
    };
    // The recorder writes the *lost* entry when the disk works again.
    let place = capture_with_one_call([entry(30, Body::Lost(lost.clone())), relist(90)]);
    assert_eq!(
        [10, 11, 80].map(|second| call_state(&place, second)),
        ["open for 0 s", "not known", "not known"]
    );
    let unnamed = Lost { ends: Vec::new(), more_ends: true, ..lost };
    let place = capture_with_one_call([entry(30, Body::Lost(unnamed)), relist(90)]);
    assert_eq!(call_state(&place, 80), "not known");
    // Lost entries without the end of a call leave an open call open.
    let other = Lost { entries: 1, since: 11_000_000_000, ..Lost::default() };
    let place = capture_with_one_call([entry(30, Body::Lost(other)), relist(90)]);
    assert_eq!(call_state(&place, 80), "open for 70 s");
}

/// Exports the part of a capture between two seconds, and opens it.
fn export_of(place: &TestPath, from: u64, to: u64) -> (TestPath, Capture) {
    let range = super::Range { from: Some(Wall::from_nanos(at(from))), to: Some(Wall::from_nanos(at(to))) };
    let mut bytes = Vec::new();
    super::export(&Capture::open(&place.0).unwrap(), range, None, &mut bytes).unwrap();
    let exported = TestPath::new();
    fs::write(&exported.0, bytes).unwrap();
    let capture = Capture::open(&exported.0).unwrap();
    (exported, capture)
}

#[test]
fn export_of_a_later_time_does_not_show_a_call_whose_end_was_lost_as_silent() {
    let ends = vec![super::entry::LostEnd { call: 1, mono: 11_000_000_000 }];
    let named = Lost { entries: 1, ends, since: 11_000_000_000, ..Lost::default() };
    let unnamed = Lost { ends: Vec::new(), more_ends: true, ..named.clone() };
    for lost in [named, unnamed] {
        let place = capture_with_one_call([entry(30, Body::Lost(lost)), relist(90), relist(100)]);
        let (exported, capture) = export_of(&place, 60, 200);
        assert_eq!((capture.calls.len(), capture.losses.len(), capture.relists.len()), (1, 0, 2));
        assert_eq!(
            [10, 11, 95].map(|second| call_state(&exported, second)),
            ["open for 0 s", "not known", "not known"]
        );
        // An export of a part of the loss shows that this part is lost.
        let (_exported, capture) = export_of(&place, 15, 20);
        let is_lost = |second: u64| {
            let mono = second * 1_000_000_000;
            capture.is_lost_at(super::CaptureMoment { session: 0, mono })
        };
        assert_eq!([10, 11, 29, 30].map(is_lost), [false, true, true, false]);
    }
}

#[test]
fn export_names_the_calls_whose_ends_were_in_a_deleted_segment_and_no_others() {
    let place = TestPath::new();
    record_capture(&place.0, 4 << 20, 40);
    let mut store = Store::open(&place.0, limits(4 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(100));
    store.write(call_started(100, 7, Rpc::ListContainers)).unwrap();
    store.seal();
    store.write(call_answered(101, 7, b"x")).unwrap();
    store.seal();
    store.write(call_started(102, 8, Rpc::ContainerStatus)).unwrap();
    store.write(relist(180)).unwrap();
    drop(store);
    let segments = files(&place.0);
    fs::remove_file(&segments[segments.len() - 2]).unwrap();
    let of = |capture: &Capture| {
        let calls =
            capture.calls.iter().filter(|call| call.number == 7 || call.number == 8 && call.end.is_none());
        calls.map(|call| (call.number, call.lost.map(|lost| lost.mono / 1_000_000_000))).collect::<Vec<_>>()
    };
    let expected = of(&Capture::open(&place.0).unwrap());
    assert_eq!(expected.last(), Some(&(8, None)), "this call hangs");
    assert!(expected.contains(&(7, Some(100))), "{expected:?}");
    assert_eq!(of(&export_of(&place, 0, 300).1), expected);
    assert_eq!(of(&export_of(&place, 150, 300).1), [(7, Some(100)), (8, None)]);
}

#[test]
fn export_without_a_whole_relist_has_no_unfinished_relist() {
    let place = TestPath::new();
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), slow: 1, ..Session::default() }, at(0));
    let started = |second: u64, call: u64, rpc: Rpc, id: u8, relist: u64| {
        let request = Bytes::from(vec![b'\n', 1, id]);
        entry(second, Body::CallStarted(CallStarted { call, rpc: rpc_number(rpc), request, relist }))
    };
    // Each relist takes two seconds, and has a status call of its own.
    for (number, call) in (1..=10).zip((1..).step_by(2)) {
        let begins = number * 6;
        store.write(started(begins, call, Rpc::ListContainers, b'x', number)).unwrap();
        store.write(call_answered(begins + 1, call, b"list")).unwrap();
        store.write(started(begins + 1, call + 1, Rpc::ContainerStatus, b'x', number)).unwrap();
        store.write(call_answered(begins + 2, call + 1, b"status")).unwrap();
        let done = RelistDone { number, began: begins * 1_000_000_000, ..RelistDone::default() };
        store.write(entry(begins + 2, Body::Relist(done))).unwrap();
    }
    drop(store);
    for from in 9..60 {
        let (_exported, capture) = export_of(&place, from, from + 2);
        let report = super::report::CaptureReport::of(&capture, super::Range::default()).unwrap();
        let errors = report.relists.iter().filter(|relist| relist.error.is_some()).count();
        assert_eq!((errors, report.times_without_relist().len()), (0, 0), "from second {from}: {report:?}");
    }
    // The entry about the end of a relist may be lost.
    let mut store = Store::open(&place.0, limits(16 << 20)).unwrap();
    store.begin(Session { endpoint: "unix:///x".into(), ..Session::default() }, at(0));
    store.write(started(1, 1, Rpc::ListContainers, b'x', 1)).unwrap();
    store.write(call_answered(2, 1, b"list")).unwrap();
    let lost = Lost { entries: 1, since: 3_000_000_000, ..Lost::default() };
    store.write(entry(90, Body::Lost(lost))).unwrap();
    drop(store);
    assert_eq!(Capture::open(&place.0).unwrap().relists.len(), 10);
}

#[test]
fn state_of_calls_is_unknown_after_the_last_entry_of_a_killed_recorder() {
    let place = capture_with_one_call([relist(15)]);
    assert_eq!([15, 16].map(|second| call_state(&place, second)), ["open for 5 s", "not known"]);
}

#[test]
fn default_moment_is_the_worst_moment_of_the_last_incident_or_the_end() {
    let worst = |number, peak| Incident { number, from: at(20), peak: at(peak), ..Incident::default() };
    let incidents = [worst(1, 25), worst(2, 30)];
    let place = capture_with_one_call(incidents.map(|incident| entry(40, Body::Incident(incident))));
    let capture = Capture::open(&place.0).unwrap();
    let chosen = |time| (capture.moment(time).unwrap().1, capture.chosen_incident(time));
    assert_eq!(chosen(None), (Wall::from_nanos(at(30)), Some(2)));
    assert_eq!(chosen(Some("incident:1")), (Wall::from_nanos(at(25)), Some(1)));
    assert_eq!(chosen(Some("+2s")).1, None);
    // An incident whose worst moment is before the capture's beginning has no moment.
    let place = capture_with_one_call([entry(40, Body::Incident(worst(1, 4)))]);
    let capture = Capture::open(&place.0).unwrap();
    assert_eq!(
        (capture.moment(None).unwrap().1, capture.chosen_incident(None)),
        (Wall::from_nanos(at(40)), None)
    );
}
