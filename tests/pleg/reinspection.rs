//! Pods that are inspected again, because it was asked for or because it failed.

use plegctl::cri::{Code, SandboxState};

use crate::node::{LISTS, Node};
use crate::scripted::Fault;

use SandboxState::Ready;

/// Why a pod is to be inspected again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    Nothing,
    Requested,
    FailedBefore,
    Both,
}

/// What happens to it then.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Succeeds,
    Fails,
    Vanished,
}

const REASONS: [Why; 3] = [Why::Requested, Why::Both, Why::FailedBefore];

/// One row of the kubelet's table of reinspections, for a pod that is recorded and has no containers.
async fn reinspection(why: Why, then: Then) -> (Node, Vec<String>) {
    let mut node = Node::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.relist().await;
    if matches!(why, Why::FailedBefore | Why::Both) {
        node.hub.request_reinspect("a");
        node.fault("s", Fault::Code(Code::Internal));
        node.relist().await;
        node.heal();
    }
    if matches!(why, Why::Requested | Why::Both) {
        node.hub.request_reinspect("a");
    }
    if then == Then::Fails {
        node.fault("s", Fault::Code(Code::Internal));
    }
    if then == Then::Vanished {
        node.sandboxes(&[]);
    }
    node.calls();
    let events = node.relist().await;
    (node, events)
}

#[tokio::test]
async fn a_reinspection_that_succeeds_is_a_pod_sync() {
    for why in REASONS {
        let (mut node, events) = reinspection(why, Then::Succeeds).await;
        assert_eq!(events, ["a PodSync -"]);
        assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
        assert!(node.cached("a").error.is_none());
        assert_eq!(node.relist().await, Vec::<String>::new());
        assert_eq!(node.calls(), LISTS);
    }
}

#[tokio::test]
async fn a_reinspection_that_fails_is_silent_and_made_again() {
    for why in REASONS {
        let (mut node, events) = reinspection(why, Then::Fails).await;
        assert_eq!(events, Vec::<String>::new());
        let cached = node.cached("a");
        assert!(cached.status.is_none() && cached.error.is_some());
        node.calls();
        let (report, _) = node.relist_raw().await;
        assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
        assert_eq!(report.reinspect, 1);
    }
}

#[tokio::test]
async fn without_a_request_an_unchanged_pod_is_left_alone() {
    let (node, events) = reinspection(Why::Nothing, Then::Succeeds).await;
    assert_eq!(events, Vec::<String>::new());
    assert_eq!(node.calls(), LISTS);
}

#[tokio::test]
async fn a_pod_that_failed_and_then_went_leaves_no_trace_in_the_cache() {
    let (node, events) = reinspection(Why::FailedBefore, Then::Vanished).await;
    assert_eq!(events, ["a ContainerDied s", "a ContainerRemoved s"]);
    assert_eq!(node.calls(), LISTS);
    assert!(node.cached("a").error.is_none());
}

#[tokio::test]
async fn a_new_pod_that_failed_and_then_went_is_one_pod_sync() {
    let mut node = Node::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.fault("s", Fault::Code(Code::Internal));
    assert_eq!(node.relist().await, Vec::<String>::new());
    node.sandboxes(&[]);
    node.calls();
    assert_eq!(node.relist().await, ["a PodSync -"]);
    assert_eq!(node.calls(), LISTS);
    let (report, events) = node.relist_raw().await;
    assert_eq!((events.len(), report.reinspect), (0, 0));
}
