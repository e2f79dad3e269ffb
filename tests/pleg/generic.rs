//! Tests of the generic PLEG with a few changes between relists.

use std::time::Duration;

use plegctl_engine::clock::Mono;
use plegctl_engine::cri::{Code, ContainerState, Network, SandboxState};
use plegctl_engine::pleg::stream::EventSubject;
use plegctl_engine::pleg::{Era, KubeletState, PlegSettings, PlegState, PlegTiming, SharedState};

use crate::pleg::node::{LISTS, WatchedNode, delivered};
use crate::pleg::scripted::Fault;

use ContainerState::{Created, Exited, Running, Unknown};
use SandboxState::{NotReady, Ready};

fn sorted(mut events: Vec<String>) -> Vec<String> {
    events.sort();
    events
}

fn first_listing(node: &WatchedNode) {
    node.containers(&[("a", "c1", Exited), ("a", "c2", Running), ("a", "c3", Unknown), ("b", "c1", Exited)]);
}

fn third_listing(node: &WatchedNode) {
    node.containers(&[("a", "c2", Exited), ("a", "c3", Running), ("b", "c4", Running)]);
}

const FIRST_EVENTS: [&str; 3] = ["a ContainerDied c1", "a ContainerStarted c2", "b ContainerDied c1"];
const THIRD_EVENTS: [&str; 5] = [
    "a ContainerDied c2",
    "a ContainerRemoved c1",
    "a ContainerStarted c3",
    "b ContainerRemoved c1",
    "b ContainerStarted c4",
];

#[tokio::test]
async fn three_relists_of_containers_give_started_died_and_removed() {
    let mut node = WatchedNode::new();
    first_listing(&node);
    assert_eq!(sorted(node.relist().await), FIRST_EVENTS);
    assert_eq!(node.relist().await, Vec::<String>::new());
    third_listing(&node);
    assert_eq!(sorted(node.relist().await), THIRD_EVENTS);
}

#[tokio::test]
async fn three_relists_of_sandboxes_give_the_same_events_as_of_containers() {
    let mut node = WatchedNode::new();
    let unknown = SandboxState::Unknown;
    node.sandboxes(&[
        ("a", "c1", 0, NotReady),
        ("a", "c2", 0, Ready),
        ("a", "c3", 0, unknown),
        ("b", "c1", 0, NotReady),
    ]);
    assert_eq!(sorted(node.relist().await), FIRST_EVENTS);
    assert_eq!(node.relist().await, Vec::<String>::new());
    node.sandboxes(&[("a", "c2", 0, NotReady), ("a", "c3", 0, Ready), ("b", "c4", 0, Ready)]);
    let (_, events) = node.relist_raw().await;
    assert_eq!(sorted(delivered(&events)), THIRD_EVENTS);
    assert!(events.iter().all(|event| event.subject == EventSubject::Sandbox));
}

#[tokio::test]
async fn containers_that_are_missing_died_if_they_ran_and_are_removed() {
    for relists_before in [1, 3] {
        let mut node = WatchedNode::new();
        node.containers(&[("a", "c1", Running), ("a", "c2", Running), ("a", "c3", Exited)]);
        for _ in 0..relists_before {
            node.relist().await;
        }
        node.containers(&[("a", "c1", Running)]);
        let expected = ["a ContainerDied c2", "a ContainerRemoved c2", "a ContainerRemoved c3"];
        assert_eq!(node.relist().await, expected);
    }
}

#[tokio::test]
async fn a_missing_pod_removes_its_containers_without_a_call() {
    for relists_before in [1, 3] {
        let mut node = WatchedNode::new();
        node.containers(&[("a", "c2", Running)]);
        for _ in 0..relists_before {
            node.relist().await;
        }
        node.containers(&[]);
        node.calls();
        assert_eq!(node.relist().await, ["a ContainerDied c2", "a ContainerRemoved c2"]);
        assert_eq!(node.calls(), LISTS);
        assert_eq!(node.relist().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_failed_fetch_delays_only_the_events_of_its_pod() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c1", Running), ("b", "c2", Running)]);
    node.fault("c2", Fault::Code(Code::Unknown));
    assert_eq!(node.relist().await, ["a ContainerStarted c1"]);
    assert!(node.cached("a").error.is_none());
    let failed = node.cached("b");
    assert!(failed.status.is_none() && failed.error.unwrap().contains("scripted"));

    node.remove_faults();
    node.calls();
    assert_eq!(node.relist().await, ["b ContainerStarted c2"]);
    assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "ContainerStatus c2"]);
    assert!(node.cached("b").error.is_none());
}

#[tokio::test]
async fn a_pod_that_is_no_longer_listed_leaves_the_cache() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c1", Running)]);
    node.relist().await;
    assert_eq!(node.cached("a").status.unwrap().containers.len(), 1);
    node.containers(&[]);
    node.relist().await;
    let forgotten = node.cached("a");
    assert!(forgotten.error.is_none());
    let status = forgotten.status.unwrap();
    assert_eq!((status.pod.uid.as_str(), status.containers.len()), ("a", 0));
}

#[tokio::test]
async fn health_counts_from_the_start_of_the_last_successful_lists() {
    let mut node = WatchedNode::new();
    let threshold = PlegTiming::GENERIC.threshold;
    assert!(node.shared_state.check(&node.clock, threshold).is_err());
    node.clock.advance(Duration::from_secs(600));
    assert!(node.shared_state.check(&node.clock, threshold).is_err());
    node.relist().await;
    node.clock.advance(Duration::from_secs(60));
    assert_eq!(node.shared_state.check(&node.clock, threshold), Ok(()));
    node.clock.advance(Duration::from_secs(180));
    let error = node.shared_state.check(&node.clock, threshold).unwrap_err().to_string();
    assert_eq!(error, "pleg was last seen active 4m1s ago; threshold is 3m0s");
}

fn network(ips: &[&str]) -> Network {
    let mut ips = ips.iter().map(ToString::to_string);
    Network { ip: ips.next().unwrap_or_default(), additional_ips: ips.collect() }
}

#[tokio::test]
async fn a_pod_keeps_its_addresses_after_its_sandbox_stops() {
    for ips in [&["10.0.0.1"][..], &["10.0.0.1", "fd00::1"]] {
        let mut node = WatchedNode::new();
        node.sandboxes(&[("a", "s", 0, Ready)]);
        node.containers(&[("a", "c", Running)]);
        node.runtime.set(|state| state.networks = [("s".into(), network(ips))].into());
        node.relist().await;
        assert_eq!(node.ips("a"), ips);
        node.sandboxes(&[("a", "s", 0, NotReady)]);
        node.containers(&[("a", "c", Exited)]);
        assert_eq!(node.relist().await, ["a ContainerDied c", "a ContainerDied s"]);
        assert_eq!(node.ips("a"), ips);
    }
}

#[tokio::test]
async fn a_ready_sandbox_without_addresses_has_none_whatever_the_cache_says() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.runtime.set(|state| state.networks = [("s".into(), network(&["10.0.0.1"]))].into());
    node.relist().await;
    node.sandboxes(&[("a", "s2", 1, Ready), ("a", "s", 0, NotReady)]);
    node.relist().await;
    assert_eq!(node.ips("a"), Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_fetch_loses_the_cached_addresses() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.runtime.set(|state| state.networks = [("s".into(), network(&["10.0.0.1"]))].into());
    node.relist().await;
    node.sandboxes(&[("a", "s", 0, NotReady)]);
    node.fault("s", Fault::Code(Code::Internal));
    node.relist().await;
    node.remove_faults();
    assert_eq!(node.relist().await, ["a ContainerDied s"]);
    assert_eq!(node.ips("a"), Vec::<String>::new());
}

#[tokio::test]
async fn the_gauges_count_containers_by_state_and_pods_once() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c1", Running), ("a", "c2", Unknown), ("a", "c3", Unknown), ("b", "c4", Exited)]);
    node.sandboxes(&[
        ("a", "s1", 0, Ready),
        ("a", "s2", 1, Ready),
        ("a", "s3", 2, SandboxState::Unknown),
        ("b", "s4", 1, Ready),
        ("b", "s5", 0, NotReady),
    ]);
    node.relist().await;
    let gauges = |node: &WatchedNode| {
        let shared = node.shared_state.lock();
        let containers = KubeletState::ALL.map(|state| shared.metrics.running_containers(state));
        (shared.metrics.running_pods(), containers)
    };
    assert_eq!(gauges(&node), (2, [None, Some(1), Some(1), Some(2)]));
    // A state that no container is in any more keeps its last value.
    node.containers(&[("a", "c1", Running), ("b", "c4", Running)]);
    node.relist().await;
    assert_eq!(gauges(&node), (2, [None, Some(2), Some(1), Some(2)]));
}

#[tokio::test]
async fn a_failed_list_changes_nothing_but_the_duration_histogram() {
    for list in LISTS {
        let mut node = WatchedNode::new();
        node.containers(&[("a", "c", Running)]);
        node.relist().await;
        let listed = node.shared_state.last_list();
        node.containers(&[]);
        node.fault(list, Fault::Code(Code::Unavailable));
        let (report, events) = node.relist_raw().await;
        assert_eq!(
            (report.error.as_deref().unwrap(), events.len()),
            (format!("{list} failed: Unavailable: scripted").as_str(), 0)
        );
        assert_eq!((report.relist, report.reinspect), (2, 0));
        assert_eq!(node.shared_state.last_list(), listed);
        assert!(node.cached("a").status.is_some_and(|status| status.containers.len() == 1));
        assert_eq!(node.shared_state.lock().metrics.relist_duration.count(), 2);
        node.remove_faults();
        assert_eq!(node.relist().await, ["a ContainerDied c", "a ContainerRemoved c"]);
    }
}

#[tokio::test]
async fn containers_are_not_listed_after_a_failed_sandbox_list() {
    let mut node = WatchedNode::new();
    node.fault("ListPodSandbox", Fault::Code(Code::Internal));
    node.relist().await;
    assert_eq!(node.calls(), ["ListPodSandbox"]);
}

#[tokio::test]
async fn a_containers_life_gives_the_kubelets_events() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c", Created)]);
    assert_eq!(node.relist().await, Vec::<String>::new());
    assert_eq!(node.calls().len(), 3, "created is worth a fetch");
    node.containers(&[("a", "c", Running)]);
    assert_eq!(node.relist().await, ["a ContainerStarted c"]);
    node.containers(&[("a", "c", Exited)]);
    node.runtime.set(|state| state.exit_codes = [("c".into(), 137)].into());
    let (_, events) = node.relist_raw().await;
    assert_eq!(delivered(&events), ["a ContainerDied c"]);
    assert_eq!(events[0].exit_code, Some(137));
    node.containers(&[]);
    assert_eq!(node.relist().await, ["a ContainerRemoved c"]);
}

#[tokio::test]
async fn a_change_to_unknown_is_fetched_recorded_and_dropped() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c", Running)]);
    node.relist().await;
    node.containers(&[("a", "c", Unknown)]);
    node.calls();
    let (report, events) = node.relist_raw().await;
    assert_eq!(delivered(&events), Vec::<String>::new());
    assert_eq!(events[0].event_type.as_str(), "ContainerChanged");
    assert!(!events[0].delivered);
    assert_eq!((events[0].from, events[0].to), (Some(PlegState::Running), Some(PlegState::Unknown)));
    assert_eq!((report.events, node.calls().len()), (0, 3));
    let (_, events) = node.relist_raw().await;
    assert_eq!((events.len(), node.calls().len()), (0, 2));
}

#[tokio::test]
async fn created_to_unknown_is_no_change() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c", Created)]);
    node.relist().await;
    node.containers(&[("a", "c", Unknown)]);
    node.calls();
    let (_, events) = node.relist_raw().await;
    assert_eq!((events.len(), node.calls().len()), (0, 2));
}

#[tokio::test]
async fn events_of_a_new_pod_have_containers_before_sandboxes_and_newest_first() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s0", 0, NotReady), ("a", "s1", 1, Ready)]);
    node.containers(&[("a", "old", Exited), ("a", "new", Running), ("a", "b", Running)]);
    node.runtime.set(|state| state.containers[1].created_at = 9_000);
    let expected = [
        "a ContainerStarted new",
        "a ContainerStarted b",
        "a ContainerDied old",
        "a ContainerStarted s1",
        "a ContainerDied s0",
    ];
    assert_eq!(node.relist().await, expected);
}

#[tokio::test]
async fn a_not_ready_newest_sandbox_has_no_address_even_if_an_older_one_is_ready() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s1", 1, NotReady), ("a", "s0", 0, Ready)]);
    node.runtime.set(|state| {
        for id in ["s0", "s1"] {
            state.networks.insert(id.into(), network(&["10.0.0.1"]));
        }
    });
    node.relist().await;
    assert_eq!(node.ips("a"), Vec::<String>::new());
}

#[tokio::test]
async fn containers_without_a_uid_label_share_the_pod_without_a_uid() {
    let mut node = WatchedNode::new();
    node.containers(&[("x", "c1", Running), ("x", "c2", Running)]);
    node.runtime.set(|state| {
        for container in &mut state.containers {
            container.labels = plegctl_engine::cri::Labels::default();
        }
    });
    assert_eq!(node.relist().await, [" ContainerStarted c1", " ContainerStarted c2"]);
}

#[tokio::test]
async fn not_found_is_a_race_and_no_failure() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.containers(&[("a", "c1", Running), ("a", "c2", Running)]);
    for id in ["s", "c1", "c2"] {
        node.fault(id, Fault::Code(Code::NotFound));
    }
    assert_eq!(node.relist().await.len(), 3);
    let status = node.cached("a").status.unwrap();
    assert_eq!((status.pod.name.as_str(), status.containers.len(), status.sandboxes.len()), ("name-a", 0, 0));
}

#[tokio::test]
async fn an_answer_without_a_complete_status_fails_the_pod() {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.fault("s", Fault::Nil);
    let (report, _) = node.relist_raw().await;
    assert_eq!(report.calls[2].message.as_deref(), Some("pod sandbox status is nil"));
    node.remove_faults();
    node.runtime.set(|state| state.sandboxes[0].created_at = 0);
    let (report, events) = node.relist_raw().await;
    assert_eq!(report.calls[2].message.as_deref(), Some("status.CreatedAt is not set"));
    assert_eq!((events.len(), report.reinspect), (0, 1));
}

#[tokio::test]
async fn an_open_call_is_in_the_log_after_the_relist_was_dropped() {
    let mut node = WatchedNode::new();
    node.containers(&[("a", "c1", Running), ("b", "c2", Running)]);
    node.fault("c2", Fault::Hang);
    let mut events = Vec::new();
    {
        let relist = node.generic.relist(&node.runtime, &node.clock, &mut events);
        let mut relist = std::pin::pin!(relist);
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(relist.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    assert_eq!(delivered(&events), ["a ContainerStarted c1"], "what was done before the hang is out already");
    let open = node.generic.calls().open().unwrap();
    assert_eq!((open.rpc.name(), open.id.as_deref()), ("ContainerStatus", Some("c2")));
    assert_eq!(open.pod.as_ref().unwrap().uid, "b");
    assert_eq!(open.started, Mono::at(Duration::ZERO));
    assert_eq!(node.generic.calls().finished().len(), 3);
}

#[tokio::test]
async fn without_inspection_events_come_from_the_lists_only() {
    let settings = PlegSettings { inspect: false, ..PlegSettings::default() };
    let mut node = WatchedNode::with(SharedState::new(false), settings);
    node.containers(&[("a", "c", Running)]);
    assert_eq!(node.relist().await, ["a ContainerStarted c"]);
    assert_eq!(node.calls(), LISTS);
}

#[tokio::test]
async fn before_1_36_a_status_lists_the_pod_again_and_before_1_32_a_failing_pod_is_fetched_twice() {
    let filter = "io.kubernetes.pod.uid=a";
    let fetch = [
        format!("ListPodSandbox {filter}"),
        "PodSandboxStatus s".into(),
        format!("ListContainers {filter}"),
        "ContainerStatus c".into(),
    ];
    for (era, fetches_of_a_failing_pod) in [(Era::TwoRounds, 2), (Era::OneRound, 1)] {
        let mut node = WatchedNode::of_era(era);
        node.sandboxes(&[("a", "s", 0, Ready)]);
        node.containers(&[("a", "c", Running)]);
        node.fault("c", Fault::Code(Code::Internal));
        node.relist().await;
        assert_eq!(node.calls()[2..], fetch, "{era}: once when it begins to fail");
        node.relist().await;
        let expected: Vec<String> =
            std::iter::repeat_n(&fetch, fetches_of_a_failing_pod).flatten().cloned().collect();
        assert_eq!(node.calls()[2..], expected, "{era}");
    }
}

#[tokio::test]
async fn before_1_36_a_reinspection_is_no_event() {
    for era in [Era::TwoRounds, Era::OneRound] {
        let mut node = WatchedNode::of_era(era);
        node.sandboxes(&[("a", "s", 0, Ready)]);
        node.relist().await;
        node.sandboxes(&[("a", "s", 0, NotReady)]);
        node.fault("s", Fault::Code(Code::Internal));
        node.relist().await;
        node.sandboxes(&[("a", "s", 0, Ready)]);
        node.remove_faults();
        node.calls();
        assert_eq!(node.relist().await, Vec::<String>::new(), "{era}");
        assert!(node.calls().contains(&"PodSandboxStatus s".to_owned()), "{era}");
    }
}
