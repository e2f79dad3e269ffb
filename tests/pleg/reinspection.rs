//! Tests of pods that are inspected again because their status fetch failed.

use plegctl_engine::cri::{Code, SandboxState};

use crate::pleg::node::{LISTS, WatchedNode};
use crate::pleg::scripted::Fault;

use SandboxState::{NotReady, Ready};

/// The result of the second inspection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    Succeeds,
    Fails,
    PodIsGone,
}

/// Inspects a pod without containers twice: the pod changes, and its fetch fails; in the next relist, the pod is as
/// before the change. Returns the node and the events of that relist.
async fn reinspection(second: Second) -> (WatchedNode, Vec<String>) {
    let mut node = WatchedNode::new();
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.relist().await;
    node.sandboxes(&[("a", "s", 0, NotReady)]);
    node.fault("s", Fault::Code(Code::Internal));
    node.relist().await;
    node.sandboxes(&[("a", "s", 0, Ready)]);
    node.remove_faults();
    if second == Second::Fails {
        node.fault("s", Fault::Code(Code::Internal));
    }
    if second == Second::PodIsGone {
        node.sandboxes(&[]);
    }
    node.calls();
    let events = node.relist().await;
    (node, events)
}

#[tokio::test]
async fn a_successful_reinspection_emits_a_pod_sync() {
    let (mut node, events) = reinspection(Second::Succeeds).await;
    assert_eq!(events, ["a PodSync -"]);
    assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
    assert!(node.cached("a").error.is_none());
    assert_eq!(node.relist().await, Vec::<String>::new());
    assert_eq!(node.calls(), LISTS);
}

#[tokio::test]
async fn a_failed_reinspection_emits_nothing_and_is_repeated() {
    let (mut node, events) = reinspection(Second::Fails).await;
    assert_eq!(events, Vec::<String>::new());
    let cached = node.cached("a");
    assert!(cached.status.is_none() && cached.error.is_some());
    node.calls();
    let (report, _) = node.relist_raw().await;
    assert_eq!(node.calls(), ["ListPodSandbox", "ListContainers", "PodSandboxStatus s"]);
    assert_eq!(report.reinspect, 1);
}

#[tokio::test]
async fn a_failed_pod_that_is_removed_leaves_the_cache() {
    let (node, events) = reinspection(Second::PodIsGone).await;
    assert_eq!(events, ["a ContainerDied s", "a ContainerRemoved s"]);
    assert_eq!(node.calls(), LISTS);
    assert!(node.cached("a").error.is_none());
}

#[tokio::test]
async fn a_new_failed_pod_that_is_removed_emits_one_pod_sync() {
    let mut node = WatchedNode::new();
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
