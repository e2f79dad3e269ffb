//! Tests that each built-in scenario shows its fault, and that events are sent as real runtimes send them. The calls
//! go over real gRPC; the clock is paused, so that no test waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;

use super::simulation::Simulation;
use super::{EventDelivery, FaultEffect, Scenario, load};
use crate::clock::{Clock, Mono, SystemClock, Wall};
use crate::cri::server::serve_connection;
use crate::cri::{
    Call, Client, Code, Container, ContainerEvent, ContainerEventType, ContainerState, Error, EventStream,
    Filter, KUBELET_RECEIVE_LIMIT, Rpc, Runtime, Sandbox, SandboxState,
};
use crate::diagnosis::failing_pods::{FailingStep, FailureCause};
use crate::diagnosis::journal::Journal;
use crate::diagnosis::report::RuleId;

/// The deadline of a call.
const DEADLINE: Duration = Duration::from_secs(10);

/// A simulation on the test's own thread.
pub struct RunningSimulation(Arc<Simulation>);

/// A clock whose wall time follows the paused monotonic time, so that each simulation starts at its beginning.
pub struct PausedClock {
    clock: SystemClock,
    start: Wall,
    at: Mono,
}

impl PausedClock {
    pub fn start() -> Self {
        let clock = SystemClock::start();
        let (start, at) = (clock.wall(), clock.mono());
        Self { clock, start, at }
    }
}

impl Clock for PausedClock {
    fn mono(&self) -> Mono {
        self.clock.mono()
    }

    fn wall(&self) -> Wall {
        self.start.plus(self.clock.mono().since(self.at))
    }
}

impl RunningSimulation {
    pub fn new(scenario: &Scenario) -> Self {
        let clock = PausedClock::start();
        let start = clock.start;
        Self(Simulation::start(scenario, Arc::new(clock), start))
    }

    fn client(&self) -> Client {
        self.client_with(DEADLINE)
    }

    /// Returns a client whose calls have this deadline.
    pub fn client_with(&self, deadline: Duration) -> Client {
        let simulation = Arc::clone(&self.0);
        let connect = move || {
            let simulation = Arc::clone(&simulation);
            async move {
                let (client_end, server_end) = UnixStream::pair().unwrap();
                tokio::spawn(serve_connection(simulation, server_end));
                Ok(client_end)
            }
        };
        Client::over(connect, "sim:test", deadline, Arc::new(SystemClock::start()))
    }
}

fn start_scenario(name: &str) -> Client {
    RunningSimulation::new(&load(name).unwrap()).client()
}

async fn sandboxes(client: &Client) -> Vec<Sandbox> {
    client.list_sandboxes(&Filter::default()).await.result.unwrap()
}

async fn containers(client: &Client) -> Vec<Container> {
    client.list_containers(&Filter::default()).await.result.unwrap()
}

/// Returns the names of the pods and containers whose status call is silent. Checks that all other calls are
/// answered.
async fn silent_ones(client: &Client) -> Vec<String> {
    let mut silent = Vec::new();
    let mut note = |name: String, error: Option<Error>| match error {
        Some(Error::Silent { .. }) => silent.push(name),
        None => {}
        // A container that was removed in the meantime is not found.
        Some(why) => assert!(why.is_not_found(), "{why}"),
    };
    for sandbox in sandboxes(client).await {
        let answer = client.sandbox_status(&sandbox.id).await;
        note(sandbox.metadata.unwrap().name, answer.result.err());
    }
    for container in client.list_containers(&Filter::default()).await.result.unwrap_or_default() {
        let answer = client.container_status(&container.id).await;
        note(container.metadata.unwrap().name, answer.result.err());
    }
    silent
}

fn is_silent<T>(call: &Call<T>) -> bool {
    matches!(call.result, Err(Error::Silent { .. }))
}

#[tokio::test(start_paused = true)]
async fn quiet_answers_every_call() {
    let client = start_scenario("quiet");
    assert!(silent_ones(&client).await.is_empty());
    assert!(sandboxes(&client).await.len() > 20);
}

#[tokio::test(start_paused = true)]
async fn hung_container_hangs_on_one_container() {
    assert_eq!(silent_ones(&start_scenario("hung-container")).await, ["postgres"]);
}

#[tokio::test(start_paused = true)]
async fn hung_two_pods_hang_on_two_sandboxes() {
    let mut silent = silent_ones(&start_scenario("hung-two-pods")).await;
    silent.sort();
    assert_eq!(silent, ["archive-0", "media-0"]);
}

#[tokio::test(start_paused = true)]
async fn hung_list_hangs_on_the_container_list_and_one_status() {
    let scenario = load("hung-list").unwrap();
    let client = RunningSimulation::new(&scenario).client();
    assert!(is_silent(&client.list_containers(&Filter::default()).await));
    assert!(!sandboxes(&client).await.is_empty());
    assert!(client.version().await.result.is_ok());
    // The list does not name the container; without the fault it does.
    let healthy = RunningSimulation::new(&Scenario { faults: Vec::new(), ..scenario }).client();
    for container in containers(&healthy).await {
        let name = container.metadata.unwrap().name;
        assert_eq!(is_silent(&client.container_status(&container.id).await), name == "worker", "{name}");
        assert_eq!(is_silent(&client.container_stats(&container.id).await), name == "worker", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_disk_answers_every_call_late() {
    let client = start_scenario("slow-disk");
    let listed = client.list_containers(&Filter::default()).await;
    assert!(listed.duration >= Duration::from_secs(1), "{:?}", listed.duration);
    let mut whole = Duration::ZERO;
    for container in listed.result.unwrap() {
        let answer = client.container_status(&container.id).await;
        assert!(answer.duration >= Duration::from_millis(300), "{:?}", answer.duration);
        whole += answer.duration;
    }
    assert!(whole > Duration::from_secs(20), "{whole:?}");
}

#[test]
fn failing_cni_has_an_error_for_each_attempt_in_the_kubelets_journal_only() {
    let now = Wall::from_nanos(1_795_262_400_000_000_000);
    let journal = Journal::of(&super::kubelet_journal(&load("failing-cni").unwrap(), now).unwrap());
    let [failing] = &journal.failing_pods[..] else { panic!("{journal:#?}") };
    let what = (failing.pod.to_string(), failing.step, failing.cause, failing.plugin.as_deref());
    let expected =
        ("shop/db-0".to_owned(), FailingStep::StopSandbox, FailureCause::Network, Some("example-cni"));
    assert_eq!(what, expected);
    assert_eq!((failing.failures, now.duration_since(failing.last)), (75, Duration::from_secs(1)));
    assert!(failing.words.starts_with("unable to connect to agent: dial unix"), "{failing:#?}");
    assert_eq!(super::kubelet_journal(&load("stopped-shim").unwrap(), now), None);
}

#[tokio::test(start_paused = true)]
async fn too_many_dead_are_more_than_two_thousand_sandboxes_and_fit_a_message() {
    let client = start_scenario("too-many-dead");
    let listed = client.list_containers(&Filter::default()).await;
    assert!(listed.response_bytes < KUBELET_RECEIVE_LIMIT);
    assert!(listed.duration > Duration::from_secs(1));
    let exited = listed.result.unwrap().iter().filter(|it| it.state == ContainerState::Exited).count();
    let all = sandboxes(&client).await;
    let dead = all.iter().filter(|sandbox| sandbox.state == SandboxState::NotReady).count();
    assert!(dead > 2000 && exited > 10 * (all.len() - dead), "{dead} dead, {exited} exited");
}

#[tokio::test(start_paused = true)]
async fn list_too_large_fails_as_one_message_and_succeeds_with_a_filter() {
    let client = start_scenario("list-too-large");
    let refused = client.list_containers(&Filter::default()).await.result.unwrap_err();
    assert_eq!(refused.code(), Some(Code::ResourceExhausted));
    assert!(refused.to_string().contains("trying to send message larger than max ("), "{refused}");
    assert!(refused.to_string().contains(" vs. 16777216)"), "{refused}");
    let running = Filter { state: Some(ContainerState::Running), ..Filter::default() };
    assert!(!client.list_containers(&running).await.result.unwrap().is_empty());
    let sandboxes = client.list_sandboxes(&Filter::default()).await;
    assert!(sandboxes.result.is_ok() && sandboxes.response_bytes < KUBELET_RECEIVE_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn flapping_hangs_and_answers_in_turns() {
    let client = start_scenario("flapping");
    let hangs = async || is_silent(&client.list_sandboxes(&Filter::default()).await);
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(hangs().await);
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    seen.dedup();
    assert_eq!(seen, [false, true, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_lock_is_answered_when_it_is_released() {
    let client = start_scenario("flapping").with_deadline(Duration::from_secs(600));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let answer = client.list_sandboxes(&Filter::default()).await;
    assert!(answer.result.is_ok());
    assert!(
        answer.duration.abs_diff(Duration::from_secs(210)) < Duration::from_secs(1),
        "{:?}",
        answer.duration
    );
}

#[tokio::test(start_paused = true)]
async fn stale_static_pod_has_two_pods_with_one_name_and_an_orphan() {
    let client = start_scenario("stale-static-pod");
    let from_file: Vec<Sandbox> = sandboxes(&client)
        .await
        .into_iter()
        .filter(|sandbox| sandbox.annotations.get("kubernetes.io/config.source") == Some("file"))
        .collect();
    let uids_of = |name: &str| {
        from_file
            .iter()
            .filter_map(|sandbox| sandbox.metadata.clone())
            .filter(|metadata| metadata.name == name)
            .map(|metadata| metadata.uid)
            .collect::<Vec<_>>()
    };
    assert_eq!(uids_of("old-proxy-sim-node").len(), 1);
    let both = uids_of("kube-apiserver-sim-node");
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1]);
}

#[tokio::test(start_paused = true)]
async fn long_big_node_has_its_documented_size_listed_and_streamed() {
    let client = start_scenario("big-node");
    let listed = client.list_containers(&Filter::default()).await;
    assert!(listed.response_bytes > KUBELET_RECEIVE_LIMIT);
    let listed = listed.result.unwrap();
    assert_eq!((sandboxes(&client).await.len(), listed.len()), (10_000, 50_000));
    let client = client.with_streamed_lists();
    let streamed = client.list_containers(&Filter::default()).await;
    assert_eq!(streamed.rpc, Rpc::StreamContainers);
    assert_eq!(streamed.result.unwrap(), listed);
}

#[tokio::test(start_paused = true)]
async fn crash_loop_restarts_containers_with_a_higher_attempt() {
    let client = start_scenario("crash-loop");
    let highest = async || {
        let all = containers(&client).await.into_iter();
        let of_late = all.filter_map(|it| it.metadata).filter(|it| it.name == "late");
        of_late.map(|metadata| metadata.attempt).max().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = highest().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(highest().await > before + 2);
}

#[tokio::test(start_paused = true)]
async fn no_container_was_restarted_more_often_than_the_kubelets_pauses_allow() {
    const DAY: Duration = Duration::from_secs(86_000);
    for name in ["crash-loop", "missed-events", "stale-static-pod"] {
        let client = start_scenario(name);
        tokio::time::sleep(DAY).await;
        let attempts =
            containers(&client).await.into_iter().filter_map(|it| it.metadata).map(|it| it.attempt);
        // Five restarts until the pauses are five minutes long, which they stay. The oldest pod is 9 minutes older.
        let most = 5 + (DAY.as_secs() + 9 * 60) / 300;
        let highest = attempts.max().unwrap();
        assert!(u64::from(highest) <= most, "{name}: {highest} of {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_lists_are_unimplemented_in_old_runtimes() {
    let client = start_scenario("quiet").with_streamed_lists();
    let refused = client.list_containers(&Filter::default()).await.result.unwrap_err();
    assert!(matches!(refused, Error::Unimplemented { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn as_in_the_kubelet_one_refused_stream_switches_both_lists_to_unary_calls_for_good() {
    let client = start_scenario("quiet").with_lists_of_gate();
    assert_eq!(client.list_rpcs(), [Rpc::StreamPodSandboxes, Rpc::StreamContainers]);
    let containers = client.list_containers(&Filter::default()).await;
    assert_eq!(containers.rpc, Rpc::ListContainers);
    assert!(!containers.result.unwrap().is_empty());
    assert_eq!(client.clone().list_rpcs(), [Rpc::ListPodSandbox, Rpc::ListContainers]);
    assert_eq!(client.list_sandboxes(&Filter::default()).await.rpc, Rpc::ListPodSandbox);
}

/// Returns the events that a client receives in `time`.
async fn events_within(stream: &mut EventStream, time: Duration) -> Vec<ContainerEvent> {
    let mut events = Vec::new();
    let listening = async {
        while let Some(received) = stream.next().await.unwrap() {
            events.push(received.event);
        }
    };
    // The stream does not end by itself.
    assert!(tokio::time::timeout(time, listening).await.is_err());
    events
}

const LIFE: &str = "
title: One pod from its beginning to its end
teaches: x
wrong: x
kubelet: x
pods: [{ name: web, containers: [app, proxy], age: 0s, lives: 20s, every: 1h, kept: 5s }]
";

fn one_life(change: impl FnOnce(&mut Scenario)) -> RunningSimulation {
    let mut scenario = super::format::read("life", LIFE.as_bytes()).unwrap();
    change(&mut scenario);
    RunningSimulation::new(&scenario)
}

#[tokio::test(start_paused = true)]
async fn events_have_the_order_and_content_of_containerds() {
    use ContainerEventType::{Created, Deleted, Started, Stopped};
    use SandboxState::{NotReady, Ready};
    let client = one_life(|_| ()).client();
    let events = events_within(&mut client.container_events().await.unwrap(), Duration::from_secs(60)).await;
    let sandbox_id = events[0].container_id.clone();
    let sent_events: Vec<_> = events
        .iter()
        .map(|event| {
            let of_sandbox = event.container_id == sandbox_id;
            let states: Vec<ContainerState> = event.containers.iter().map(|status| status.state).collect();
            (of_sandbox, event.kind, event.sandbox.as_ref().map(|sandbox| sandbox.state), states)
        })
        .collect();
    let (created, running, exited) =
        (ContainerState::Created, ContainerState::Running, ContainerState::Exited);
    assert_eq!(
        sent_events,
        [
            (true, Created, Some(Ready), vec![]),
            (true, Started, Some(Ready), vec![]),
            (false, Created, Some(Ready), vec![created]),
            (false, Started, Some(Ready), vec![running]),
            (false, Created, Some(Ready), vec![running, created]),
            (false, Started, Some(Ready), vec![running, running]),
            (false, Stopped, Some(Ready), vec![exited, running]),
            (false, Stopped, Some(Ready), vec![exited, exited]),
            (true, Stopped, Some(NotReady), vec![exited, exited]),
            (false, Deleted, Some(NotReady), vec![exited]),
            (false, Deleted, Some(NotReady), vec![]),
            (true, Deleted, Some(NotReady), vec![]),
        ]
    );
    let stamps: Vec<i64> = events.iter().map(|event| event.created_at).collect();
    assert!(stamps.is_sorted() && stamps[0] > 0);
    assert_eq!(events[7].containers[0].exit_code, 143);
    assert_eq!(events[7].containers[0].reason, "Error");
}

#[tokio::test(start_paused = true)]
async fn containerd_17_sends_the_last_event_without_the_sandbox() {
    let client = one_life(|scenario| scenario.runtime.events = EventDelivery::Competing).client();
    let events = events_within(&mut client.container_events().await.unwrap(), Duration::from_secs(60)).await;
    assert_eq!(events.last().unwrap().kind, ContainerEventType::Deleted);
    assert_eq!(events.last().unwrap().sandbox, None);
}

#[tokio::test(start_paused = true)]
async fn cri_o_sends_no_event_when_a_sandbox_is_created_or_removed() {
    let client = one_life(|scenario| scenario.runtime.family = super::RuntimeFamily::CriO).client();
    let events = events_within(&mut client.container_events().await.unwrap(), Duration::from_secs(60)).await;
    let of_sandbox: Vec<ContainerEventType> = events
        .iter()
        .filter(|event| event.sandbox.as_ref().is_some_and(|sandbox| sandbox.id == event.container_id))
        .map(|event| event.kind)
        .collect();
    assert_eq!(of_sandbox, [ContainerEventType::Started, ContainerEventType::Stopped]);
}

#[tokio::test(start_paused = true)]
async fn every_listener_receives_a_broadcast_and_the_first_receives_kept_events() {
    let simulation = one_life(|_| ());
    // Events before the first listener are kept for five minutes.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (one, other) = (simulation.client(), simulation.client());
    let (mut first, mut second) =
        (one.container_events().await.unwrap(), other.container_events().await.unwrap());
    let time = Duration::from_secs(60);
    let (first, second) = tokio::join!(events_within(&mut first, time), events_within(&mut second, time));
    assert_eq!((first.len(), second.len()), (12, 6));
    assert_eq!(first[6..], second[..]);
}

#[tokio::test(start_paused = true)]
async fn competing_listeners_take_events_from_each_other() {
    let simulation = one_life(|scenario| scenario.runtime.events = EventDelivery::Competing);
    let (one, other) = (simulation.client(), simulation.client());
    let (mut first, mut second) =
        (one.container_events().await.unwrap(), other.container_events().await.unwrap());
    let time = Duration::from_secs(60);
    let (first, second) = tokio::join!(events_within(&mut first, time), events_within(&mut second, time));
    assert!(!first.is_empty() && !second.is_empty());
    assert_eq!(first.len() + second.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_closed_stream_loses_one_event_of_containerd_17() {
    let simulation = one_life(|scenario| scenario.runtime.events = EventDelivery::Competing);
    let gone = simulation.client();
    drop(events_within(&mut gone.container_events().await.unwrap(), Duration::from_secs(10)).await);
    // Time for the runtime to notice the end of the stream before the next event.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let client = simulation.client();
    let rest = events_within(&mut client.container_events().await.unwrap(), Duration::from_secs(60)).await;
    assert_eq!(rest.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_missing_stream_is_unimplemented_and_a_disabled_one_ends_at_once() {
    let absent = one_life(|scenario| scenario.runtime.events = EventDelivery::Unimplemented).client();
    let refused = absent.container_events().await.unwrap().next().await.unwrap_err();
    assert!(matches!(refused, Error::Unimplemented { rpc: Rpc::GetContainerEvents, .. }), "{refused}");
    let disabled = one_life(|scenario| scenario.runtime.events = EventDelivery::Ends).client();
    assert!(disabled.container_events().await.unwrap().next().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn missed_events_loses_the_same_events_in_each_run() {
    let scenario = load("missed-events").unwrap();
    let whole = Scenario {
        runtime: super::scenario::RuntimeSettings { loses_every: 0, ..scenario.runtime.clone() },
        ..scenario.clone()
    };
    let listen = async |scenario: &Scenario| {
        let client = RunningSimulation::new(scenario).client();
        let events =
            events_within(&mut client.container_events().await.unwrap(), Duration::from_secs(120)).await;
        events.into_iter().map(|event| (event.container_id, event.kind)).collect::<Vec<_>>()
    };
    let (all, some, again) = (listen(&whole).await, listen(&scenario).await, listen(&scenario).await);
    assert_eq!(some, again);
    assert!(some.iter().all(|event| all.contains(event)));
    assert!(all.len() > 100 && some.len() < all.len() * 9 / 10, "{} of {}", some.len(), all.len());
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_events_and_different_seeds_different_ones() {
    let scenario = load("busy-deploy").unwrap();
    let ids = async |seed: u64| {
        let client = RunningSimulation::new(&Scenario { seed, ..scenario.clone() }).client();
        tokio::time::sleep(Duration::from_secs(77)).await;
        let all = containers(&client).await;
        all.into_iter().map(|container| (container.id, container.state)).collect::<Vec<_>>()
    };
    let first = ids(1).await;
    assert_eq!(first, ids(1).await);
    assert_ne!(first, ids(2).await);
}

/// Returns the containers at the start of the simulation.
pub fn containers_of(scenario: &Scenario) -> Vec<Container> {
    super::node_at(scenario, Wall::default()).0.containers(0, |_| true)
}

fn outcome<T>(call: Call<T>) -> (Duration, Option<Error>) {
    (call.duration, call.result.err())
}

/// Makes a call about a container or its sandbox, and returns the duration and the error.
async fn call(client: Client, rpc: Rpc, about: &Container) -> (Duration, Option<Error>) {
    let (pods, all) = (Filter::default(), Filter::default());
    match rpc {
        Rpc::Version => outcome(client.version().await),
        Rpc::Status => outcome(client.status().await),
        Rpc::RuntimeConfig => outcome(client.cgroup_driver().await),
        Rpc::ListPodSandbox => outcome(client.list_sandboxes(&pods).await),
        Rpc::ListContainers => outcome(client.list_containers(&all).await),
        Rpc::StreamPodSandboxes => outcome(client.with_streamed_lists().list_sandboxes(&pods).await),
        Rpc::StreamContainers => outcome(client.with_streamed_lists().list_containers(&all).await),
        Rpc::PodSandboxStatus => outcome(client.sandbox_status(&about.sandbox_id).await),
        Rpc::ContainerStatus => outcome(client.container_status(&about.id).await),
        Rpc::ContainerStats => outcome(client.container_stats(&about.id).await),
        Rpc::GetContainerEvents => {
            let begun = tokio::time::Instant::now();
            let first = async { client.container_events().await?.next().await };
            let first = tokio::time::timeout(DEADLINE, first).await;
            (begun.elapsed(), first.ok().and_then(Result::err))
        }
    }
}

/// Checks what every built-in scenario needs: a verdict, the rule behind a bad one, and that each fault affects its calls.
async fn check(name: &str) {
    let file = format!("src/sim/scenarios/{name}.yaml");
    let scenario = load(name).unwrap();
    assert_eq!(scenario.name, name);
    assert!(
        scenario.verdict.is_some(),
        "{file} needs `verdict`, the first word of `health --at 0s` in small letters"
    );
    let (finds, is_healthy) = (scenario.finds.as_deref(), scenario.verdict == Some("healthy"));
    let is_rule = |id| RuleId::ALL.iter().any(|rule| rule.as_str() == id);
    assert!(
        finds.map_or(is_healthy, is_rule),
        "{file} needs `finds`, the id in the line `why` of `health --at 0s`"
    );
    let client = |faults| RunningSimulation::new(&Scenario { faults, ..scenario.clone() }).client();
    for fault in &scenario.faults {
        let (faulty, healthy) = (client(vec![fault.clone()]), client(Vec::new()));
        tokio::time::sleep(fault.after).await;
        let pods = sandboxes(&healthy).await;
        let has_container = |container: &Container| {
            let name = container.metadata.as_ref().map(|metadata| metadata.name.as_str());
            let is_named = |wanted: &Option<String>, name| wanted.is_none() || wanted.as_deref() == name;
            let pod = pods.iter().find(|pod| pod.id == container.sandbox_id);
            is_named(&fault.pod, pod.and_then(|pod| pod.labels.get("app")))
                && is_named(&fault.container, name)
        };
        let about = containers(&healthy).await.into_iter().find(has_container);
        let about = about.unwrap_or_else(|| panic!("{file}: no container is there for {fault:?}"));
        for rpc in &fault.calls {
            let (took, error) = call(faulty.clone(), *rpc, &about).await;
            let is_affected = match &fault.effect {
                FaultEffect::Hangs => took >= fault.lasts.unwrap_or(DEADLINE).min(DEADLINE),
                FaultEffect::Takes { least, .. } => took >= *least,
                FaultEffect::Fails { code, .. } => error.as_ref().and_then(Error::code) == Some(*code),
            };
            assert!(is_affected, "{file}: {rpc} shows nothing of {fault:?}: {took:?}, {error:?}");
        }
    }
}

/// One test for each scenario.
macro_rules! checked {
    ($($test:ident: $scenario:literal,)*) => {
        mod faults_affect_their_calls {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::check($scenario).await;
            })*
        }
    };
}

each_scenario!(checked);

/// Builds a frame of the first HTTP/2 stream.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_the_socket_path_as_authority_is_answered() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let simulation = RunningSimulation::new(&load("quiet").unwrap());
    let (mut client_end, server_end) = UnixStream::pair().unwrap();
    tokio::spawn(serve_connection(Arc::clone(&simulation.0), server_end));
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/runtime.v1.RuntimeService/Version"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let named = headers.iter().flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat());
    // As gRPC's C core sends it: `:authority` by its index in the table, with the socket's path percent-encoded.
    let block: Vec<u8> = [&[0x41][..], &text("run%2Fcontainerd%2Fcontainerd.sock")].concat();
    let block: Vec<u8> = block.into_iter().chain(named).collect();
    let call = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &block),
        frame(0, 1, 1, &[0; 5]),
    ];
    client_end.write_all(&call.concat()).await.unwrap();
    loop {
        let mut header = [0; 9];
        client_end.read_exact(&mut header).await.unwrap();
        let [_, high, low, kind, _, _, _, _, stream] = header;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        client_end.read_exact(&mut payload).await.unwrap();
        if stream == 1 {
            assert_eq!(kind, 1, "headers of an answer, and no reset of the stream");
            return;
        }
    }
}
