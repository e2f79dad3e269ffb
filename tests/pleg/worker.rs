//! The kubelet's worker: timer, requests, waiters, and the age that its relists reach.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, ManualClock};
use plegctl::cri::ContainerState;
use plegctl::pleg::cache::{Cached, Newer};
use plegctl::pleg::{Timing, Turn, Worker};

use crate::node::Node;
use crate::scripted::Fault;

use ContainerState::{Exited, Running};

/// The worker and its node, as the kubelet's loop has them.
struct Loop {
    node: Node,
    worker: Worker,
    waiting: Vec<(&'static str, tokio::sync::oneshot::Receiver<Cached>)>,
}

impl Loop {
    fn wait_for(&mut self, name: &'static str, uid: &str) {
        let now = self.node.clock.wall();
        match self.node.hub.lock().cache.get_newer_than(uid, now) {
            Newer::Later(answer) => self.waiting.push((name, answer)),
            Newer::Now(cached) => panic!("{name} does not have to wait: {cached:?}"),
        }
        self.node.clock.advance(Duration::from_millis(1));
    }

    fn request(&mut self, uid: &str) {
        assert!(self.worker.request(uid, self.node.clock.mono()));
        self.node.clock.advance(Duration::from_millis(1));
    }

    /// One turn: the calls it made, and who waits no longer.
    async fn turn(&mut self) -> (Vec<String>, Vec<&'static str>) {
        let mut events = Vec::new();
        let (node, worker) = (&mut self.node, &mut self.worker);
        match worker.next(node.clock.mono(), node.hub.last_list()) {
            Turn::Relist => {
                node.generic.relist(&node.runtime, &node.clock, &mut events).await;
                worker.relisted(node.clock.mono());
            }
            Turn::RelistPod(uid) => {
                assert!(node.generic.relist_pod(&uid, &node.runtime, &node.clock, &mut events).await);
            }
            Turn::Wait(_) | Turn::Stop => {}
        }
        node.clock.advance(Duration::from_millis(1));
        let calls = node.calls();
        let mut released = Vec::new();
        self.waiting.retain_mut(|(name, answer)| {
            let answered = answer.try_recv().is_ok();
            if answered {
                released.push(*name);
            }
            !answered
        });
        (calls, released)
    }
}

#[tokio::test]
async fn the_worker_serves_requests_waiters_and_the_timer_in_the_kubelets_order() {
    let mut node = Node::new();
    node.containers(&[("p1", "c1", Running), ("p2", "c2", Running)]);
    node.relist().await;
    let timing = Timing { period: Duration::from_secs(2), threshold: Duration::from_secs(180) };
    let mut worker = Worker::start(timing, node.clock.mono());
    worker.relisted(node.clock.mono());
    node.calls();
    let mut turns = Loop { node, worker, waiting: Vec::new() };

    turns.wait_for("first", "p1");
    turns.wait_for("second", "p2");
    turns.node.containers(&[("p1", "c1", Exited), ("p2", "c2", Running)]);
    turns.request("p1");
    let filter = "io.kubernetes.pod.uid=p1";
    let lists = [format!("ListPodSandbox {filter}"), format!("ListContainers {filter}")];
    let (calls, released) = turns.turn().await;
    assert_eq!(calls, [&lists[..], &["ContainerStatus c1".to_owned()]].concat());
    assert_eq!(released, ["first"]);

    turns.wait_for("third", "p1");
    assert_eq!(turns.turn().await, (vec![], vec![]));

    // The timer is due as well: it goes first, and what changed is pod 2.
    turns.node.containers(&[("p1", "c1", Exited), ("p2", "c2", Exited)]);
    turns.request("p2");
    turns.node.clock.advance(Duration::from_secs(2));
    let (calls, mut released) = turns.turn().await;
    released.sort_unstable();
    assert_eq!(calls, ["ListPodSandbox", "ListContainers", "ContainerStatus c2"]);
    assert_eq!(released, ["second", "third"]);
    // The request is older than the relist that has just been: it costs nothing.
    assert_eq!(turns.turn().await, (vec![], vec![]));

    turns.wait_for("fourth", "p1");
    turns.node.hub.request_reinspect("p1");
    turns.request("p1");
    turns.node.clock.advance(Duration::from_secs(2));
    let (calls, released) = turns.turn().await;
    assert_eq!(calls, ["ListPodSandbox", "ListContainers", "ContainerStatus c1"]);
    assert_eq!(released, ["fourth"]);
    assert_eq!(turns.turn().await, (vec![], vec![]));
}

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
        assert_eq!(worker.next(clock.mono(), node.hub.last_list()), Turn::Relist);
        let began = clock.mono();
        let (report, _) = {
            let mut events = Vec::new();
            (node.generic.relist(&node.runtime, &*clock, &mut events).await, events)
        };
        assert_eq!(report.reinspect, u64::try_from(hung).unwrap());
        assert_eq!(node.hub.last_list(), Some(began), "good lists count from their start, hung calls or not");
        worker.relisted(clock.mono());
        let Turn::Wait(due) = worker.next(clock.mono(), node.hub.last_list()) else {
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
