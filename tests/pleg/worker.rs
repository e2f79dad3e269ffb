//! The kubelet's worker: its timer, and the age that its relists reach.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, ManualClock};
use plegctl::cri::ContainerState;
use plegctl::pleg::{Timing, Turn, Worker};

use crate::pleg::node::Node;
use crate::pleg::scripted::Fault;

use ContainerState::Running;

fn health(node: &Node, clock: &ManualClock) -> Option<String> {
    let checked = node.hub.check(clock, Timing::GENERIC.threshold);
    checked.err().map(|why| why.to_string())
}

/// Two turns of the worker on a node with so many pods whose status call takes the kubelet's two minutes: the health
/// text right before the lists of the second turn, and right after them.
async fn health_around_the_lists(hung: usize) -> (Option<String>, Option<String>) {
    let mut node = Node::new();
    let ids: Vec<String> = (0..hung).map(|number| format!("c{number}")).collect();
    let pods: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_str(), Running)).collect();
    node.containers(&pods);
    let clock = Arc::new(ManualClock::default());
    for id in &ids {
        node.fault(id, Fault::TimesOut(Arc::clone(&clock), Duration::from_secs(120)));
    }
    let mut worker = Worker::start(Timing::GENERIC, clock.mono());
    let mut around = (None, None);
    for _ in 0..2 {
        around.0 = health(&node, &clock);
        assert_eq!(worker.next(clock.mono()), Turn::Relist);
        let began = clock.mono();
        let (report, _) = {
            let mut events = Vec::new();
            (node.generic.relist(&node.runtime, &*clock, &mut events).await, events)
        };
        assert_eq!(report.reinspect, u64::try_from(hung).unwrap());
        assert_eq!(node.hub.last_list(), Some(began), "good lists count from their start, hung calls or not");
        worker.relisted(clock.mono());
        let Turn::Wait(due) = worker.next(clock.mono()) else {
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
async fn one_hung_pod_never_trips_the_threshold() {
    assert_eq!(health_around_the_lists(1).await, (None, None));
}

#[tokio::test]
async fn two_hung_pods_trip_the_threshold_until_the_next_lists() {
    let text = "pleg was last seen active 4m1s ago; threshold is 3m0s".to_owned();
    assert_eq!(health_around_the_lists(2).await, (Some(text), None));
}
