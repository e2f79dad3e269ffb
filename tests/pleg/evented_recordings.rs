//! Replays stream messages recorded with a real kubelet: the evented PLEG must give the same events and connection
//! attempts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::pleg::recording::{RecordedContainer, RecordedSandbox, RecordedStep};
use crate::pleg::scripted::{Scripted, sandbox_status_of, status_of};
use plegctl_engine::clock::{Clock, ManualClock, Mono, Wall};
use plegctl_engine::cri::{ContainerEvent, ContainerEventType, Error, ReceivedEvent, Rpc};
use plegctl_engine::pleg::evented::NextStreamAction;
use plegctl_engine::pleg::stream::Event;
use plegctl_engine::pleg::{
    EventedPleg, GenericPleg, PlegSettings, PlegTiming, RelistTimer, SharedState, TimerAction,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Script {
    name: String,
    steps: Vec<RecordedStep>,
    stream: RecordedStream,
    expect: Expected,
}

#[derive(Deserialize)]
struct RecordedStream {
    first_after: f64,
    fails: u32,
    kind: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: i32,
    id: String,
    age: i64,
    sandbox: Option<RecordedSandbox>,
    containers: Option<Vec<RecordedContainer>>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Expected {
    events: BTreeMap<String, Vec<(String, String)>>,
    streams: u32,
}

impl Message {
    fn received(&self, now: Wall) -> ReceivedEvent {
        let containers = self.containers.iter().flatten();
        ReceivedEvent {
            event: ContainerEvent {
                container_id: self.id.clone(),
                kind: match self.kind {
                    0 => ContainerEventType::Created,
                    1 => ContainerEventType::Started,
                    2 => ContainerEventType::Stopped,
                    3 => ContainerEventType::Deleted,
                    other => ContainerEventType::Other(other),
                },
                created_at: now.nanos() - self.age,
                sandbox: self
                    .sandbox
                    .as_ref()
                    .map(|sandbox| sandbox_status_of(&sandbox.sandbox(), Some(sandbox.network()))),
                containers: containers.map(|item| status_of(&item.container(), item.exit_code())).collect(),
            },
            at: now,
            bytes: 1,
            memory: 1,
        }
    }
}

fn failure(kind: &str) -> Option<Error> {
    (kind != "eof").then(|| Error::Runtime {
        rpc: Rpc::GetContainerEvents,
        code: crate::pleg::recording::code(kind),
        message: "scripted".into(),
    })
}

/// Replays a script with both PLEGs as it was recorded: the evented PLEG starts 0.3 s after the generic PLEG.
async fn replay(script: &Script) -> Expected {
    let runtime = Scripted::default();
    let clock = ManualClock::at(Wall::from_nanos(1_800_000_000_000_000_000));
    let shared_state = Arc::new(SharedState::new(true));
    let settings = PlegSettings { evented_gate: true, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::clone(&shared_state), settings);
    let mut events: Vec<Event> = Vec::new();
    let mut steps = script.steps.iter();

    let mut play = |runtime: &Scripted| {
        if let Some(step) = steps.next() {
            runtime.set(|state| step.play(state));
        }
    };
    let mut worker = RelistTimer::start(PlegTiming::EVENTED, clock.mono());
    assert_eq!(worker.next(clock.mono()), TimerAction::Relist);
    play(&runtime);
    generic.relist(&runtime, &clock, &mut events).await;
    worker.relisted(clock.mono());
    clock.advance(Duration::from_millis(300));

    let mut evented = EventedPleg::start(Arc::clone(&shared_state));
    let mut streams = 0;
    loop {
        match evented.next(&clock) {
            NextStreamAction::Connect(attempt) => {
                streams += 1;
                assert_eq!(attempt, streams);
                evented.on_stream_opened(&clock);
                if attempt > script.stream.fails {
                    clock.advance(Duration::from_secs_f64(script.stream.first_after));
                    for message in &script.stream.messages {
                        evented.on_event(&message.received(clock.wall()), &clock, &mut events);
                        clock.advance(Duration::from_millis(5));
                    }
                    break;
                }
                evented.on_stream_failed(failure(&script.stream.kind).as_ref(), &clock);
                play(&runtime);
                generic.relist(&runtime, &clock, &mut events).await;
            }
            NextStreamAction::FallBack(_) => worker.restart(PlegTiming::GENERIC, clock.mono()),
            NextStreamAction::GivenUp => break,
        }
    }
    // The rest of the two and a half seconds is relisted with the present period.
    let end = Mono::at(Duration::from_millis(2500));
    while clock.mono() < end {
        if worker.next(clock.mono()) == TimerAction::Relist {
            play(&runtime);
            generic.relist(&runtime, &clock, &mut events).await;
            worker.relisted(clock.mono());
        }
        clock.advance(Duration::from_millis(100));
    }
    let mut pods: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.delivered) {
        let id = event.id.clone().unwrap_or_else(|| "<nil>".to_owned());
        let pod_events = pods.entry(event.pod.uid.clone()).or_default();
        pod_events.push((event.event_type.as_str().to_owned(), id));
    }
    Expected { events: pods, streams }
}

#[tokio::test]
async fn the_event_streams_of_1_36_2_give_the_same_events_and_attempts() {
    let scripts: Vec<Script> = crate::pleg::recording::lines("evented-1.36.2.jsonl.gz");
    assert_eq!(scripts.len(), 20);
    let mut wrong = Vec::new();
    for script in &scripts {
        let found = replay(script).await;
        if found != script.expect {
            wrong.push(&script.name);
            eprintln!("{}:\n ours {found:?}\n kubelet {:?}", script.name, script.expect);
        }
    }
    assert_eq!(wrong, Vec::<&String>::new());
}
