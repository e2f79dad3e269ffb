//! Tests of D41: pods neither start nor end although the runtime is healthy, so the kubelet itself is stuck.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::scripted::{Scripted, inputs};
use super::travels::judge;
use crate::clock::{Clock, ManualClock, Wall};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gather;
use crate::diagnosis::kubelet::{PodsSource, StuckPod, read_stuck_pods};
use crate::diagnosis::report::{Confidence, HealthReport, PodRef, RuleId, Severity, Verdict};

const HALF_AN_HOUR: u64 = 1800;

/// A healthy runtime with three pods that were created an hour ago, and a kubelet that has run for long.
async fn healthy() -> Evidence {
    let script = Scripted::with_pods(3);
    let newest = script.containers.iter().map(|container| container.created_at).max().unwrap();
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    evidence.taken_at = Wall::from_nanos(newest).plus(Duration::from_secs(3600));
    evidence.kubelet.age = Some(Duration::from_secs(86_400));
    evidence
}

/// A pod that has been stuck for this many seconds.
fn stuck(evidence: &Evidence, (uid, owner): (&str, &str), is_ending: bool, seconds: u64) -> StuckPod {
    StuckPod {
        pod: PodRef { uid: uid.into(), namespace: "shop".into(), name: format!("p-{uid}") },
        owner: owner.into(),
        since: evidence.taken_at.minus(Duration::from_secs(seconds)),
        is_ending,
    }
}

/// The verdict, and the confidence and severity of D41.
fn judged(evidence: &Evidence) -> (Verdict, Option<(Confidence, Severity)>, HealthReport) {
    let report = judge(evidence);
    let found = report.findings.iter().find(|finding| finding.id == RuleId::ReadyAndDead);
    (report.verdict, found.map(|found| (found.confidence, found.severity)), report)
}

/// Evidence with pods of these owners that do not start and do not end. The pods `uid-0` to `uid-2` run.
async fn with(waiting: &[&str], ending: &[&str], seconds: u64) -> Evidence {
    let mut evidence = healthy().await;
    let mut pods = Vec::new();
    for (number, owner) in waiting.iter().enumerate() {
        pods.push(stuck(&evidence, (&format!("new-{number}"), owner), false, seconds));
    }
    for (number, owner) in ending.iter().enumerate() {
        pods.push(stuck(&evidence, (&format!("uid-{number}"), owner), true, seconds));
    }
    evidence.kubelet.stuck_pods = pods;
    evidence
}

#[tokio::test(start_paused = true)]
async fn pods_of_two_owners_each_that_neither_start_nor_end_make_the_node_unhealthy() {
    let (verdict, found, report) = judged(&with(&["a", "b"], &["c", "d"], HALF_AN_HOUR).await);
    assert_eq!(
        (verdict, found),
        (Verdict::Unhealthy, Some((Confidence::Certain, Severity::Critical))),
        "{report:#?}"
    );
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::ReadyAndDead);
    assert_eq!(
        report.summary,
        "the kubelet starts no pod (2 wait) and ends none (2 wait), although PLEG works"
    );
    assert_eq!(report.estimate.unwrap().not_ready_at, None, "the node stays Ready");
}

#[tokio::test(start_paused = true)]
async fn fewer_proofs_are_degraded_and_one_side_alone_is_only_possible() {
    let (verdict, found, _) = judged(&with(&["a", "b"], &["c", "c"], HALF_AN_HOUR).await);
    assert_eq!((verdict, found), (Verdict::Degraded, Some((Confidence::Likely, Severity::Warning))));
    let possible = Some((Confidence::Possible, Severity::Info));
    let (verdict, found, _) = judged(&with(&[], &["c", "d"], HALF_AN_HOUR).await);
    assert_eq!(
        (verdict, found),
        (Verdict::Healthy, possible),
        "a process that cannot be killed explains it too"
    );
    let (verdict, found, _) = judged(&with(&["a", "b"], &[], HALF_AN_HOUR).await);
    assert_eq!((verdict, found), (Verdict::Healthy, possible), "volumes explain it too");
    let (verdict, found, _) = judged(&with(&["a", "a"], &[], HALF_AN_HOUR).await);
    assert_eq!((verdict, found), (Verdict::Healthy, None), "pods of one owner wait for the same thing");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_found_on_a_node_that_works() {
    let none = (Verdict::Healthy, None);
    let of = |(verdict, found, _): (Verdict, Option<(Confidence, Severity)>, HealthReport)| (verdict, found);
    assert_eq!(of(judged(&with(&["a", "b"], &["c", "d"], 290).await)), none, "no pod is old enough");
    // The runtime created containers after these pods began to wait.
    let started = with(&["a", "b"], &[], 3601).await;
    assert_eq!(of(judged(&started)), none);
    // The pods have a sandbox, and the deleted ones have ended in the runtime.
    let mut present = with(&["a", "b"], &["c", "d"], HALF_AN_HOUR).await;
    for (number, pod) in present.kubelet.stuck_pods.iter_mut().enumerate() {
        pod.pod.uid = if pod.is_ending { format!("gone-{number}") } else { format!("uid-{number}") };
    }
    assert_eq!(of(judged(&present)), none);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_has_just_started_or_whose_age_is_not_known_gives_no_verdict() {
    for age in [None, Some(Duration::from_secs(200))] {
        let mut evidence = with(&["a", "b"], &["c", "d"], HALF_AN_HOUR).await;
        evidence.kubelet.age = age;
        let (verdict, found, _) = judged(&evidence);
        assert_eq!((verdict, found), (Verdict::Healthy, Some((Confidence::Possible, Severity::Info))));
    }
}

/// The stuck pods of a kubelet's answer with one pod.
async fn read(pod: Value) -> Vec<(bool, i64)> {
    let list = json!({"kind": "PodList", "items": [pod]}).to_string().into_bytes();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let pods = read_stuck_pods(&PodsSource::Simulated(list), Duration::from_secs(60), &clock).await.unwrap();
    pods.into_iter().map(|pod| (pod.is_ending, pod.since.nanos() / 1_000_000_000)).collect()
}

#[tokio::test]
async fn pods_that_wait_for_something_of_their_own_are_not_stuck() {
    let waiting = |reason: &str| {
        json!({"metadata": {"name": "a", "uid": "1"}, "status": {"phase": "Pending", "startTime": "1970-01-01T00:01:00Z",
            "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}}]}})
    };
    assert_eq!(read(waiting("ContainerCreating")).await, [(false, 60)]);
    for reason in ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"] {
        assert_eq!(read(waiting(reason)).await, [], "{reason}");
    }
    let mut begun = waiting("PodInitializing");
    begun["status"]["containerStatuses"][0]["containerID"] = json!("containerd://1");
    assert_eq!(read(begun).await, []);
    let mut unseen = waiting("ContainerCreating");
    unseen["status"].as_object_mut().unwrap().remove("startTime");
    assert_eq!(read(unseen).await, [], "the kubelet has not begun with it");
    let mut ended = waiting("ContainerCreating");
    ended["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:02:00Z");
    assert_eq!(read(ended).await, [(true, 120)]);
    assert_eq!(
        read(json!({"metadata": {"name": "a", "uid": "1"}, "status": {"phase": "Running"}})).await,
        []
    );
}
