//! Measures how fast plegctl reads events from the runtime's stream, compared with the minimum, which drops their
//! bytes.
//!
//! The scripted runtime sends the events one by one from a thread of this process and may be the slower side. So the
//! events per second are a lower bound, and a ratio near 1 means that the client is fast enough.

#[path = "../tests/support/mod.rs"]
pub mod scripted;
pub mod support;

use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::{Client, Runtime as _};
use scripted::wire::ContainerEventResponse;
use scripted::{FakeRuntime, Node};
use support::minimum::BareClient;
use support::{Samples, figure, heading, in_turn, ratio, time};
use tokio::runtime::Runtime;

/// Fewer events than the client's queue holds, so that none is dropped.
const EVENTS: u16 = 5_000;

fn main() {
    heading("GetContainerEvents, read from a scripted runtime", "stream");
    let network = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let fake = FakeRuntime::start(Node::new());
    let event = event();
    let (ours, minimum) = in_turn(7, || client(&network, &fake, &event), || minimum(&network, &fake, &event));
    figure("plegctl's client", &per_second(&ours));
    figure("minimum", &per_second(&minimum));
    ratio("5000 events: plegctl's client", &ours, "5000 events: minimum", &minimum);
}

/// Returns an event of containerd: the pod's status and its containers' statuses.
fn event() -> ContainerEventResponse {
    let node = Node::new()
        .pod("production/web-0", "uid-web-0")
        .sandbox("s1")
        .container("c1", "app")
        .container("c2", "log");
    ContainerEventResponse {
        container_id: "c1".to_owned(),
        pod_sandbox_status: node.find_sandbox("s1").cloned(),
        containers_statuses: node.containers_of("s1"),
        ..ContainerEventResponse::default()
    }
}

/// Pushes the events, which wait for the next subscriber.
fn push_events(fake: &FakeRuntime, event: &ContainerEventResponse) {
    // The previous subscriber has ended and must not get any of these events.
    fake.end_streams();
    for _ in 0..EVENTS {
        fake.push_event(event.clone());
    }
}

/// Measures how long plegctl's client takes for all events.
fn client(network: &Runtime, fake: &FakeRuntime, event: &ContainerEventResponse) -> Duration {
    push_events(fake, event);
    let clock = Arc::new(SystemClock::start());
    network.block_on(async {
        let client = Client::new(&fake.socket(), &fake.endpoint(), Duration::from_secs(30), clock);
        client.version().await.result.expect("the fake answers");
        let started = std::time::Instant::now();
        let mut stream = client.container_events().await.expect("the fake streams");
        for _ in 0..EVENTS {
            let event = stream.next().await.expect("the stream is whole");
            std::hint::black_box(event.expect("the stream is open"));
        }
        let took = started.elapsed();
        assert_eq!(stream.dropped(), 0, "a figure counts only if no event was dropped");
        took
    })
}

/// Measures how long a client takes that only receives the events.
fn minimum(network: &Runtime, fake: &FakeRuntime, event: &ContainerEventResponse) -> Duration {
    push_events(fake, event);
    let mut minimum = network.block_on(async {
        let mut minimum = BareClient::to(&fake.socket());
        minimum.connect().await;
        minimum
    });
    time(|| network.block_on(minimum.events(EVENTS)))
}

/// Formats the number of events per second.
fn per_second(samples: &Samples) -> String {
    format!("{:.0} /s", f64::from(EVENTS) / samples.median().as_secs_f64())
}
