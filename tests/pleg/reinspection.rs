//! Pods that are inspected again, because it failed.

use plegctl::cri::{Code, SandboxState};

use crate::pleg::node::{LISTS, Node};
use crate::pleg::scripted::Fault;

use SandboxState::{NotReady, Ready};

/// What happens to it then.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Succeeds,
    Fails,
    Vanished,
}

/// One row of the kubelet's table of reinspections, for a pod that is recorded and has no containers. It changed, its fetch
/// failed, and now it is as it was.
async fn reinspection(then: Then) -> (Node, Vec<String>) {
    let mut node = Node::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.relist().await;
    node.sandboxes(&[("a", "s", 0, NotReady)]);
    node.fault("s", Fault::Code(Code::Internal));
    node.relist().await;
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.heal();
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
    let (mut node, events) = reinspection(Then::Succeeds).await;
    assert_eq!(events, ["a PodSync -"]);
    assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
    assert!(node.cached("a").error.is_none());
    assert_eq!(node.relist().await, Vec::<String>::new());
    assert_eq!(node.calls(), LISTS);
}

#[tokio::test]
async fn a_reinspection_that_fails_is_silent_and_made_again() {
    let (mut node, events) = reinspection(Then::Fails).await;
    assert_eq!(events, Vec::<String>::new());
    let cached = node.cached("a");
    assert!(cached.status.is_none() && cached.error.is_some());
    node.calls();
    let (report, _) = node.relist_raw().await;
    assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
    assert_eq!(report.reinspect, 1);
}

#[tokio::test]
async fn a_pod_that_failed_and_then_went_leaves_no_trace_in_the_cache() {
    let (node, events) = reinspection(Then::Vanished).await;
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
