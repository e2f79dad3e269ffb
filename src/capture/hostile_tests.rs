//! Tests with small malicious captures that would need much memory or time to read. The tests check that the size of the
//! file limits the cost, and what happens to an entry beyond the limit: it is left out as *not judged*, or counts as damaged.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;
use prost::encoding::encode_varint;

use super::entry::{
    Body, CallFinished, CallStarted, CaptureEntry, RecordedOutcome, Session, StoredDocument, StoredMessage,
    kind, rpc_number,
};
use super::list::CheckReport;
use super::pack::packed;
use super::report::CaptureReport;
use super::segment::{framed, header};
use super::testing::TestPath;
use super::{Capture, CaptureMoment, Playback, Pseudonyms, Range, ReplayServer, export};
use crate::clock::Wall;
use crate::cri::{Filter, Rpc, Runtime};

fn open_capture(entries: impl IntoIterator<Item = Body>) -> (TestPath, Capture) {
    let mut bytes = header().to_vec();
    for (mono, body) in (1_u64..).zip(entries) {
        let wall = 1_700_000_000_000_000_000 + i64::try_from(mono).unwrap();
        bytes.extend(framed(&CaptureEntry { wall, mono, body: Some(body) }));
    }
    let path = TestPath::new();
    fs::write(&path.0, bytes).unwrap();
    let capture = Capture::open(&path.0).unwrap();
    (path, capture)
}

fn session(id: u64) -> Body {
    Body::Session(Session { id, segment: 1, slow: 1, ..Session::default() })
}

fn started(call: u64) -> Body {
    Body::CallStarted(CallStarted {
        call,
        rpc: rpc_number(Rpc::ListContainers),
        request: Bytes::new(),
        relist: call,
    })
}

fn answered(call: u64, answer: StoredMessage) -> Body {
    let ended = CallFinished::new(call, std::time::Duration::from_secs(3), &RecordedOutcome::Answered);
    Body::CallFinished(CallFinished { answers: vec![answer], ..ended })
}

fn document(kind: u32, text: String) -> Body {
    let (text, inflated) = packed(text.into());
    Body::Document(StoredDocument { kind, text, inflated })
}

fn exported(capture: &Capture, names: Option<Pseudonyms>) -> (super::Exported, Vec<u8>) {
    let mut bytes = Vec::new();
    let exported = export(capture, Range::default(), names, &mut bytes).unwrap();
    (exported, bytes)
}

/// Creates a list of `size` bytes that is stored in a few kilobytes, and `count - 1` differences. Each difference copies the
/// list before it.
fn chain_of_differences(size: usize, count: u32) -> Vec<Body> {
    let (bytes, inflated) = packed(vec![0; size].into());
    let whole =
        StoredMessage { number: 1, bytes, inflated, is_stored_here: true, ..StoredMessage::default() };
    let mut bodies = vec![session(1), started(1), answered(1, whole)];
    for number in 2..=count {
        let mut steps = vec![1, 7, 0];
        encode_varint(u64::try_from(size - 1).unwrap(), &mut steps);
        let answer = StoredMessage {
            number,
            base: number - 1,
            bytes: steps.into(),
            is_stored_here: true,
            ..StoredMessage::default()
        };
        bodies.extend([started(u64::from(number)), answered(u64::from(number), answer)]);
    }
    bodies
}

#[test]
fn long_chain_of_differences_beyond_the_budget_is_not_judged() {
    let (_path, capture) = open_capture(chain_of_differences(8 << 20, 300));
    let report = CheckReport::of(&capture);
    assert!(report.not_judged_answers > 0 && report.missing_answers == 0, "{report:?}");
    assert!(!report.is_damaged(), "answers over the budget are not damage");
    assert!(report.not_judged_answers < 300, "answers within the budget are read");
    let exported = exported(&capture, None).0;
    assert!(exported.left_out > 0, "{exported:?}");
}

#[test]
fn answer_beyond_the_budget_is_not_reported_as_lost() {
    let (_path, capture) = open_capture(chain_of_differences(40 << 20, 3));
    // Each of these calls takes three seconds.
    let moment =
        (CaptureMoment { session: 0, mono: 10_000_000_000 }, Wall::from_nanos(1_700_000_010_000_000_000));
    let playback = Playback::at(capture, moment, Arc::default());
    let server = ReplayServer::open("capture:expensive", playback).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = server.client(Duration::from_secs(60));
    let answer = tokio.block_on(async { client.list_containers(&Filter::default()).await });
    let why = answer.result.unwrap_err().to_string();
    assert!(why.contains("takes more memory than is allowed for a capture of this size"), "{why}");
}

#[test]
fn message_far_larger_than_its_file_is_not_judged() {
    let (_path, capture) = open_capture(chain_of_differences(40 << 20, 3));
    let report = CheckReport::of(&capture);
    assert_eq!((report.not_judged_answers, report.missing_answers), (3, 0));
}

#[test]
fn document_of_many_empty_lists_is_not_judged() {
    let lists = |size: usize| format!("[{}[]]", "[],".repeat(size / 3));
    let bodies = vec![
        session(1),
        document(kind::EVENT, lists(12 << 20)),
        document(kind::EVENT, lists(3 << 20)),
        document(kind::HEALTH, lists(3 << 20)),
        document(kind::STACKS, lists(3 << 20)),
        document(kind::HEALTH, "{\"healthy\":true}".to_owned()),
    ];
    let (_path, capture) = open_capture(bodies);
    let report = CaptureReport::of(&capture, Range::default()).unwrap();
    assert_eq!((report.events.len(), report.health.len(), report.stacks.len()), (0, 1, 0));
    assert_eq!(report.documents_not_judged, 4);
    let (exported, bytes) = exported(&capture, Some(Pseudonyms::default()));
    assert_eq!(exported.left_out, 4, "{exported:?}");
    assert!(bytes.len() < 4096, "{} bytes", bytes.len());
}

#[test]
fn memory_for_documents_is_limited() {
    // Each document is within the limit, but all together exceed it.
    let lists = format!("[{}[]]", "[],".repeat(200_000));
    let bodies = (0..12).map(|_| document(kind::HEALTH, lists.clone()));
    let (_path, capture) = open_capture([session(1)].into_iter().chain(bodies));
    let report = CaptureReport::of(&capture, Range::default()).unwrap();
    assert!(report.documents_not_judged > 0 && !report.health.is_empty());
    assert_eq!(report.documents_not_judged + report.health.len(), 12);
}

#[test]
fn answer_with_empty_items_is_not_parsed() {
    let items = Bytes::from([0x0A, 0].repeat(4 << 20));
    let (bytes, inflated) = packed(items);
    let answer =
        StoredMessage { number: 1, bytes, inflated, is_stored_here: true, ..StoredMessage::default() };
    let (_path, capture) = open_capture([session(1), started(1), answered(1, answer)]);
    let (_, bytes) = exported(&capture, Some(Pseudonyms::default()));
    assert!(bytes.len() < 4096, "{} bytes", bytes.len());
    CaptureReport::of(&capture, Range::default()).unwrap();
}

#[test]
fn entry_with_many_empty_answers_is_skipped_and_its_call_has_no_known_end() {
    let ended = CallFinished::new(1, std::time::Duration::from_secs(3), &RecordedOutcome::Answered);
    let empty =
        Body::CallFinished(CallFinished { answers: vec![StoredMessage::default(); 1 << 20], ..ended });
    let (_path, capture) = open_capture([session(1), started(1), empty, session(1), started(2)]);
    assert!(capture.damaged() > 0);
    assert!(
        capture.calls[0].end.is_none() && capture.calls[0].lost.is_some(),
        "nobody knows how the call ended"
    );
}

/// A reference to a message has only four bytes, but reading the reference costs as much as reading the message.
#[test]
fn message_repeated_in_one_answer_is_not_judged_and_one_repeated_in_many_answers_is() {
    let (bytes, inflated) = packed(Bytes::from([0x0A, 0].repeat(1 << 19)));
    let whole =
        StoredMessage { number: 1, bytes, inflated, is_stored_here: true, ..StoredMessage::default() };
    let again = StoredMessage { number: 1, ..StoredMessage::default() };
    let many = (2..200).flat_map(|call| [started(call), answered(call, again.clone())]);
    let first = [session(1), started(1), answered(1, whole)];
    let (_path, capture) = open_capture(first.iter().cloned().chain(many));
    let report = CheckReport::of(&capture);
    assert_eq!((report.not_judged_answers, report.missing_answers), (0, 0), "{report:?}");
    let ended = CallFinished::new(2, std::time::Duration::from_secs(3), &RecordedOutcome::Answered);
    let repeated = Body::CallFinished(CallFinished { answers: vec![again; 1000], ..ended });
    let (_path, capture) = open_capture(first.into_iter().chain([started(2), repeated]));
    let report = CheckReport::of(&capture);
    assert!(report.not_judged_answers > 0 && report.missing_answers == 0, "{report:?}");
    assert!(exported(&capture, Some(Pseudonyms::default())).0.left_out > 0);
}

/// The test would take minutes if each session needed a pass over all entries.
#[test]
fn each_of_40_000_sessions_has_its_unfinished_relist() {
    let sessions = 40_000;
    let bodies = (1..=sessions).flat_map(|id| [session(id), started(1)]);
    let (_path, capture) = open_capture(bodies);
    assert_eq!(capture.relists.len(), capture.sessions.len());
    assert_eq!(u64::try_from(capture.sessions.len()).unwrap(), sessions);
}
