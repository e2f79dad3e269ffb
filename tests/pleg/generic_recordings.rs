//! Replays listings recorded with real kubelets: the generic PLEG must give the same events and calls in each relist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::pleg::recording::RecordedStep;
use crate::pleg::scripted::Scripted;
use plegctl_engine::clock::{ManualClock, Wall};
use plegctl_engine::pleg::stream::Event;
use plegctl_engine::pleg::{Era, GenericPleg, KubeletVersion, PlegSettings, SharedState};
use serde::Deserialize;

#[derive(Deserialize)]
struct History {
    name: String,
    steps: Vec<RecordedStep>,
    expect: Vec<Expected>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Expected {
    events: BTreeMap<String, Vec<(String, String)>>,
    calls: Vec<(String, String)>,
}

/// Groups the delivered events by pod.
fn by_pod(events: &[Event]) -> BTreeMap<String, Vec<(String, String)>> {
    let mut pods: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.delivered) {
        let id = event.id.clone().unwrap_or_else(|| "<nil>".to_owned());
        let pod_events = pods.entry(event.pod.uid.clone()).or_default();
        pod_events.push((event.event_type.as_str().to_owned(), id));
    }
    pods
}

/// Plays a recorded history, and compares the events and the calls of each relist.
async fn replay(history: &History, era: Era) {
    let runtime = Scripted::default();
    let clock = ManualClock::at(Wall::from_nanos(1_800_000_000_000_000_000));
    let settings = PlegSettings { era, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
    for (number, (step, expected)) in history.steps.iter().zip(&history.expect).enumerate() {
        runtime.set(|state| step.play(state));
        let mut events = Vec::new();
        generic.relist(&runtime, &clock, &mut events).await;
        clock.advance(Duration::from_secs(1));
        let mut calls = runtime.calls();
        calls.sort();
        let found = Expected { events: by_pod(&events), calls };
        assert_eq!(&found, expected, "{}: relist {number} (left ours, right the kubelet's)", history.name);
    }
}

/// Plays all recorded histories of a release.
async fn replay_all(version: &str, histories: usize) {
    let recorded: Vec<History> = crate::pleg::recording::lines(&format!("pleg-{version}.jsonl.gz"));
    assert_eq!(recorded.len(), histories);
    for history in &recorded {
        assert_eq!(history.steps.len(), history.expect.len());
        replay(history, KubeletVersion::parse(version).unwrap().era()).await;
    }
}

#[tokio::test]
async fn the_events_and_calls_of_1_36_2_are_reproduced() {
    replay_all("1.36.2", 60).await;
}

#[tokio::test]
async fn the_events_and_calls_of_1_32_10_are_reproduced() {
    replay_all("1.32.10", 20).await;
}

#[tokio::test]
async fn the_events_and_calls_of_1_31_12_are_reproduced() {
    replay_all("1.31.12", 20).await;
}

#[tokio::test]
async fn the_events_and_calls_of_1_28_6_are_reproduced() {
    replay_all("1.28.6", 20).await;
}
