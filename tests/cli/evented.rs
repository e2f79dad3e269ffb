//! `plegctl watch --mode evented` as a process: the kubelet's evented PLEG, and what this one does to be no danger.

use std::collections::BTreeMap;
use std::time::Duration;

use plegctl::cri::Rpc;
use serde_json::Value;
use tonic::Code;

use crate::support::events::{Attempt, End, Event};
use crate::support::plegctl::{Invocation, Output, Running, plegctl};
use crate::support::wire::{self, ContainerEventResponse};
use crate::support::{CallState, FakeRuntime, Kind, Node, Received, recording};

/// Pod UID → events in order, as the recordings have them.
type Events = BTreeMap<String, Vec<(String, String)>>;

/// How many recordings are played at a time: each takes three seconds and next to no work.
const AT_A_TIME: usize = 10;

fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The delivered events, of both sources.
fn delivered(records: &[Value]) -> Events {
    let mut events = Events::new();
    for event in of_kind(records, "Event").into_iter().filter(|event| event["delivered"] == true) {
        let id = event["id"].as_str().unwrap_or("<nil>").to_owned();
        events.entry(text(&event["pod"]["uid"])).or_default().push((text(&event["type"]), id));
    }
    events
}

fn replayed(history: &Value) -> Result<(), String> {
    let fake = FakeRuntime::replay(history);
    let endpoint = fake.endpoint();
    let output = plegctl(&["watch", "--mode", "evented", "--for", "2800ms", "-o", "jsonl", "-r", &endpoint]);
    assert_eq!(output.code, Some(0), "{output}");
    let found = delivered(&records(&output.stdout));
    let streams = u64::try_from(fake.calls_of(Rpc::GetContainerEvents).len()).unwrap();
    let expected = &history["expect"];
    let recorded: Events = expected["events"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(uid, events)| {
            let pairs = events.as_array().into_iter().flatten();
            (uid.clone(), pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect())
        })
        .collect();
    if found == recorded && streams == expected["streams"].as_u64().unwrap() {
        return Ok(());
    }
    Err(format!("{}: {streams} streams\n ours {found:?}\n kubelet {expected}", history["name"]))
}

#[test]
fn what_the_evented_kubelet_1_36_2_did_is_repeated() {
    let histories = recording::histories("evented-1.36.2");
    assert_eq!(histories.len(), 20);
    for some in histories.chunks(AT_A_TIME) {
        std::thread::scope(|scope| {
            let plays: Vec<_> = some.iter().map(|history| scope.spawn(|| replayed(history))).collect();
            for play in plays {
                assert_eq!(play.join().unwrap(), Ok(()));
            }
        });
    }
}
