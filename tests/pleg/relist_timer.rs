//! Tests of the kubelet's relist timer, and of the age that PLEG reaches between relists.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, ManualClock};
use plegctl::cri::ContainerState;
use plegctl::pleg::{PlegTiming, RelistTimer, TimerAction};

use crate::pleg::node::WatchedNode;
use crate::pleg::scripted::Fault;

use ContainerState::Running;

fn health(node: &WatchedNode, clock: &ManualClock) -> Option<String> {
    let checked = node.shared_state.check(clock, PlegTiming::GENERIC.threshold);
    checked.err().map(|why| why.to_string())
}

/// Relists twice on a node with this many pods whose status call takes two minutes, the kubelet's deadline. Returns the
/// health message right before and right after the list calls of the second relist.
async fn health_around_the_lists(hung: usize) -> (Option<String>, Option<String>) {
    let mut node = WatchedNode::new();
    let ids: Vec<String> = (0..hung).map(|number| format!("c{number}")).collect();
    let pods: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_str(), Running)).collect();
    node.containers(&pods);
    let clock = Arc::new(ManualClock::default());
    for id in &ids {
        node.fault(id, Fault::TimesOut(Arc::clone(&clock), Duration::from_secs(120)));
    }
    let mut worker = RelistTimer::start(PlegTiming::GENERIC, clock.mono());
    let mut around = (None, None);
    for _ in 0..2 {
        around.0 = health(&node, &clock);
        assert_eq!(worker.next(clock.mono()), TimerAction::Relist);
        let began = clock.mono();
        let (report, _) = {
            let mut events = Vec::new();
            (node.generic.relist(&node.runtime, &*clock, &mut events).await, events)
        };
        assert_eq!(report.reinspect, u64::try_from(hung).unwrap());
        assert_eq!(
            node.shared_state.last_list(),
            Some(began),
            "good lists count from their start, hung calls or not"
        );
        worker.relisted(clock.mono());
        let TimerAction::Wait(due) = worker.next(clock.mono()) else {
            panic!("the pause comes after the relist");
        };
        clock.advance(due.since(clock.mono()));
    }
    // The lists of a third relist take no time: they reset the age at once.
    node.heal();
    node.generic.relist(&node.runtime, &*clock, &mut Vec::new()).await;
    around.1 = health(&node, &clock);
    around
}

#[tokio::test]
async fn one_hung_pod_never_exceeds_the_threshold() {
    assert_eq!(health_around_the_lists(1).await, (None, None));
}

#[tokio::test]
async fn two_hung_pods_exceed_the_threshold_until_the_next_lists() {
    let text = "pleg was last seen active 4m1s ago; threshold is 3m0s".to_owned();
    assert_eq!(health_around_the_lists(2).await, (Some(text), None));
}
