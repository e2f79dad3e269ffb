//! Tests of the kubelet's relist timer and of PLEG's age, which is the time since the last list calls.

use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::{Clock, ManualClock};
use plegctl_engine::cri::ContainerState;
use plegctl_engine::pleg::{PlegTiming, RelistTimer, TimerAction};

use crate::pleg::node::WatchedNode;
use crate::pleg::scripted::Fault;

use ContainerState::Running;

fn health(node: &WatchedNode, clock: &ManualClock) -> Option<String> {
    let checked = node.shared_state.check(clock, PlegTiming::GENERIC.threshold);
    checked.err().map(|why| why.to_string())
}

/// Relists three times on a node with `hung` pods. In the first two relists, the status call of each pod takes two
/// minutes, the kubelet's deadline. In the third relist, no call hangs. Returns the health message right before the
/// second relist and right after the third relist.
async fn health_around_the_lists(hung: usize) -> (Option<String>, Option<String>) {
    let mut node = WatchedNode::new();
    let ids: Vec<String> = (0..hung).map(|number| format!("c{number}")).collect();
    let pods: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_str(), Running)).collect();
    node.containers(&pods);
    let clock = Arc::new(ManualClock::default());
    for id in &ids {
        node.fault(id, Fault::TimesOut(Arc::clone(&clock), Duration::from_secs(120)));
    }
    let mut timer = RelistTimer::start(PlegTiming::GENERIC, clock.mono());
    let mut around = (None, None);
    for _ in 0..2 {
        around.0 = health(&node, &clock);
        assert_eq!(timer.next(clock.mono()), TimerAction::Relist);
        let began = clock.mono();
        let (report, _) = {
            let mut events = Vec::new();
            (node.generic.relist(&node.runtime, &*clock, &mut events).await, events)
        };
        assert_eq!(report.reinspect, u64::try_from(hung).unwrap());
        assert_eq!(
            node.shared_state.last_list(),
            Some(began),
            "the age counts from the start of the lists, even if a status call hangs"
        );
        timer.relisted(clock.mono());
        let TimerAction::Wait(due) = timer.next(clock.mono()) else {
            panic!("the timer does not wait after a relist");
        };
        clock.advance(due.since(clock.mono()));
    }
    // In the third relist, every call succeeds at once. Its list calls reset the age.
    node.remove_faults();
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
