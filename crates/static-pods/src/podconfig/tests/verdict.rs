//! Tests of the verdicts on pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::verdict::PodVerdict;
use super::super::{KubeletPods, PodSource, RefusedFile, RuntimePod, SourceState, WantedPod};
use super::{Asked, HOUR, NOW, identity, running_pod, wanted};
use crate::{ContainerState, RunningPod};
use plegctl_base::clock::Wall;

fn pod(name: &str, uid: &str) -> Arc<WantedPod> {
    Arc::new(wanted(identity("kube-system", name), uid))
}

fn with(pod: &Arc<WantedPod>, change: impl FnOnce(&mut WantedPod)) -> Arc<WantedPod> {
    let mut pod = WantedPod::clone(pod);
    change(&mut pod);
    Arc::new(pod)
}

/// Returns a pod with a ready sandbox.
fn ready(name: &str, uid: &str, source: &str, age: i64, state: ContainerState) -> RunningPod {
    running_pod(identity("kube-system", name), (uid, source), true, age, state)
}

/// Returns a running pod.
fn running(name: &str, uid: &str, source: &str) -> RunningPod {
    ready(name, uid, source, HOUR, ContainerState::Running)
}

fn file(pods: Vec<Arc<WantedPod>>) -> BTreeMap<PodSource, SourceState> {
    [(PodSource::File, SourceState { pods: Some(pods), refused: Vec::new() })].into()
}

fn verdict_rows(
    sources: &BTreeMap<PodSource, SourceState>,
    runtime: impl IntoIterator<Item = RunningPod>,
) -> Vec<(String, PodVerdict, String)> {
    let runtime = RuntimePod::group(runtime);
    let rows = Asked { sources, runtime: Some(&runtime), kubelet: None }.rows();
    rows.into_iter().map(|row| (row.uid, row.verdict, row.why)).collect()
}

fn verdicts(rows: &[(String, PodVerdict, String)]) -> Vec<(&str, PodVerdict)> {
    rows.iter().map(|(uid, verdict, _)| (uid.as_str(), *verdict)).collect()
}

#[test]
fn the_wanted_version_is_running() {
    let rows = verdict_rows(&file(vec![pod("etcd-n1", "1")]), [running("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Running)]);
}

#[test]
fn another_version_with_the_same_name_is_stale() {
    let rows = verdict_rows(&file(vec![pod("etcd-n1", "2")]), [running("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("2", PodVerdict::Stale), ("1", PodVerdict::Terminating)]);
}

#[test]
fn a_pod_of_a_young_file_is_starting_and_of_an_old_file_is_missing() {
    let young = with(&pod("a", "1"), |pod| pod.changed = Some(Wall::from_nanos(NOW.nanos() - 1_000_000_000)));
    assert_eq!(verdicts(&verdict_rows(&file(vec![young]), [])), [("1", PodVerdict::Starting)]);
    assert_eq!(verdicts(&verdict_rows(&file(vec![pod("a", "1")]), [])), [("1", PodVerdict::Missing)]);
}

#[test]
fn a_pod_that_no_source_wants_is_an_orphan_with_a_reason() {
    let mut sources = file(vec![]);
    let rows = verdict_rows(&sources, [running("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Orphan)]);
    sources.insert(PodSource::Api, SourceState::default());
    let rows = verdict_rows(&sources, [running("etcd-n1", "1", "file"), running("web", "2", "api")]);
    assert_eq!(
        verdicts(&rows),
        [("1", PodVerdict::Orphan), ("2", PodVerdict::Unknown)],
        "a pod of a source that could not be read is not an orphan"
    );
    assert!(rows[0].2.contains("until source api is ready"), "{}", rows[0].2);
    assert!(rows[1].2.contains("source api, which may want it, could not be read"), "{}", rows[1].2);
    let foreign = verdict_rows(&file(vec![]), [running("web", "2", "api")]);
    assert_eq!(foreign, [], "a pod of a source that this kubelet does not have");
}

/// The kubelet's answer with one pod from the API server.
fn kubelet_with(name: &str, uid: &str, status: &Value) -> KubeletPods {
    let list = json!({"kind": "PodList", "items": [{"metadata": {"name": name, "namespace": "kube-system", "uid": uid,
        "annotations": {"kubernetes.io/config.source": "api"}}, "status": status}]});
    KubeletPods::parse(list.to_string().as_bytes(), NOW).unwrap()
}

#[test]
fn a_source_that_cannot_be_read_hides_neither_the_kubelets_pods_nor_those_of_the_runtime() {
    let mut sources = file(vec![]);
    sources.insert(PodSource::Api, SourceState::default());
    let kubelet = kubelet_with("web", "2", &json!({"phase": "Running"}));
    let runtime = RuntimePod::group([running("web", "2", "api"), running("job", "3", "api")]);
    let rows = Asked { sources: &sources, runtime: Some(&runtime), kubelet: Some(&kubelet) }.rows();
    let found: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.verdict)).collect();
    assert_eq!(found, [("job", PodVerdict::Unknown), ("web", PodVerdict::Running)]);
    assert!(rows[0].why.contains("the kubelet does not have it"), "{}", rows[0].why);
    assert!(rows[1].why.ends_with("source api could not be read, and the kubelet has this pod"));
    assert_eq!(rows[1].views.wanted, None, "nobody has said that it is wanted");
    let empty = BTreeMap::new();
    let rows = Asked { sources: &sources, runtime: Some(&empty), kubelet: Some(&kubelet) }.rows();
    assert_eq!(
        (rows.len(), rows[0].verdict),
        (1, PodVerdict::Missing),
        "the kubelet runs it, the runtime does not"
    );
}

#[test]
fn without_the_runtimes_pods_a_pod_is_unknown_unless_another_view_decides() {
    let of_api = |status: Value, change: fn(&mut WantedPod)| {
        let pod = with(&pod("web", "1"), |pod| pod.status = status.into());
        let pods = Some(vec![with(&pod, change)]);
        let sources = [(PodSource::Api, SourceState { pods, refused: Vec::new() })].into();
        let row = Asked { sources: &sources, runtime: None, kubelet: None }.rows().remove(0);
        (row.verdict, row.why)
    };
    let (verdict, why) = of_api(json!({"phase": "Running"}), |_| {});
    assert_eq!((verdict, verdict.is_good()), (PodVerdict::Unknown, None));
    assert!(why.ends_with("whose pods are not known; the API server says Running"), "{why}");
    assert_eq!(of_api(json!({"phase": "Succeeded"}), |_| {}).0, PodVerdict::Running);
    assert_eq!(of_api(json!({"phase": "Failed", "reason": "OutOfcpu"}), |_| {}).0, PodVerdict::Refused);
    let (verdict, why) = of_api(json!({}), |pod| pod.content.deleted = json!("2001-09-09T01:36:40Z").into());
    assert_eq!(verdict, PodVerdict::Stuck);
    assert!(why.starts_with("it still exists, and the runtime's pods are not known"), "{why}");
    let mut sources = file(vec![]);
    let mirror = with(&pod("gone-n1", "api-uid"), |pod| pod.mirror_of = Some("9".into()));
    sources.insert(PodSource::Api, SourceState { pods: Some(vec![mirror]), refused: Vec::new() });
    let rows = Asked { sources: &sources, runtime: None, kubelet: None }.rows();
    assert_eq!(
        rows[0].why, "the mirror pod of a static pod that no source has",
        "whether it runs is not known"
    );
}

#[test]
fn a_pod_that_has_ended_is_good_without_a_sandbox_and_a_pod_that_was_never_admitted_is_refused() {
    let verdict = |source: PodSource, status: Value| {
        let pods = Some(vec![with(&pod("job", "1"), |pod| pod.status = status.into())]);
        let (_, verdict, why) =
            verdict_rows(&[(source, SourceState { pods, refused: Vec::new() })].into(), []).remove(0);
        (verdict, why)
    };
    let done = verdict(PodSource::Api, json!({"phase": "Succeeded"}));
    assert_eq!(done.0, PodVerdict::Running);
    assert_eq!(done.1, "has finished (Succeeded); the kubelet does not start it again");
    // Statuses of kubelet 1.36, and the short one that older kubelets give an evicted pod.
    let low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. ";
    let terminated = json!([{"name": "main", "state": {"terminated": {"exitCode": 137}}}]);
    for status in [
        json!({"phase": "Failed", "reason": "Evicted", "message": low, "containerStatuses": terminated}),
        json!({"phase": "Failed", "reason": "Evicted", "message": low}),
        json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": low, "containerStatuses": terminated}),
    ] {
        let (found, why) = verdict(PodSource::Api, status.clone());
        assert_eq!(found, PodVerdict::Running, "{why}");
        assert!(why.starts_with("has ended: ") && why.contains("low on resource"), "{why}");
        assert_eq!(verdict(PodSource::File, status).0, PodVerdict::Refused, "a static pod should run on");
    }
    let at_admission = json!({"phase": "Failed", "reason": "Evicted",
        "message": "Pod was rejected: The node had condition: [DiskPressure]. "});
    assert_eq!(verdict(PodSource::Api, at_admission).0, PodVerdict::Refused);
}

#[test]
fn what_a_container_waits_for_comes_before_what_the_runtime_shows() {
    let waiting = |name: &str, reason: &str| json!({"name": name, "state": {"waiting": {"reason": reason, "message": "Back-off pulling image"}}});
    let verdict = |age: i64, runtime: ContainerState, status: Value| {
        let pods = Some(vec![with(&pod("web", "1"), |pod| pod.status = status.into())]);
        let sources = [(PodSource::Api, SourceState { pods, refused: Vec::new() })].into();
        let (_, verdict, why) = verdict_rows(&sources, [ready("web", "1", "api", age, runtime)]).remove(0);
        (verdict, why)
    };
    let pulls = json!({"phase": "Pending", "containerStatuses": [waiting("app", "ImagePullBackOff")]});
    let (found, why) = verdict(HOUR, ContainerState::Created, pulls);
    assert_eq!(found, PodVerdict::Stuck);
    assert!(
        why.starts_with("container app waits: ImagePullBackOff: Back-off pulling image; it has a"),
        "{why}"
    );
    let one_runs = json!({"phase": "Running", "containerStatuses": [waiting("app", "CrashLoopBackOff")]});
    let (found, why) = verdict(HOUR, ContainerState::Running, one_runs);
    assert_eq!(found, PodVerdict::Running);
    assert!(why.starts_with("container app waits: CrashLoopBackOff"), "{why}");
    // An old status, and a container that waits only for its pod.
    let old = json!({"phase": "Running", "containerStatuses": [waiting("main", "CrashLoopBackOff")]});
    assert!(verdict(HOUR, ContainerState::Running, old).1.starts_with("1 of 1 containers run"));
    let new = json!({"phase": "Pending", "containerStatuses": [waiting("app", "ContainerCreating")]});
    let (found, why) = verdict(HOUR, ContainerState::Created, new);
    assert_eq!(found, PodVerdict::Starting, "an image may be pulled for an hour");
    assert!(why.starts_with("it has a sandbox"), "{why}");
}

#[test]
fn a_pending_pod_without_a_sandbox_is_stuck_after_five_minutes() {
    let verdict = |accepted: &str| {
        let status = json!({"phase": "Pending", "startTime": accepted});
        let pods = Some(vec![with(&pod("web", "1"), |pod| pod.status = status.clone().into())]);
        let sources = [(PodSource::Api, SourceState { pods, refused: Vec::new() })].into();
        let (_, verdict, why) = verdict_rows(&sources, []).remove(0);
        (verdict, why)
    };
    // NOW is 2001-09-09T01:46:40Z.
    let late = "Pending for 5m1s: the kubelet has not created a sandbox for it".to_owned();
    assert_eq!(verdict("2001-09-09T01:41:39Z"), (PodVerdict::Stuck, late));
    assert_eq!(verdict("2001-09-09T01:41:40Z").0, PodVerdict::Starting);
}

#[test]
fn pods_of_two_sources_with_one_name_are_duplicates() {
    let mut sources = file(vec![pod("etcd-n1", "1")]);
    sources
        .insert(PodSource::Http, SourceState { pods: Some(vec![pod("etcd-n1", "2")]), refused: Vec::new() });
    let rows = verdict_rows(&sources, [running("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Running), ("2", PodVerdict::Duplicate)]);
}

#[test]
fn the_kubelets_reason_of_a_refusal_is_reported() {
    let refused = with(&pod("web", "1"), |pod| {
        pod.status =
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no cpu"}).into();
    });
    let sources = [(PodSource::Api, SourceState { pods: Some(vec![refused]), refused: Vec::new() })].into();
    let rows = verdict_rows(&sources, []);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Refused)]);
    assert_eq!(rows[0].2, "UnexpectedAdmissionError: no cpu");
}

#[test]
fn a_deleted_pod_is_terminating_and_good() {
    let ending = with(&pod("web", "1"), |pod| pod.content.deleted = json!("2026-11-21T00:00:00Z").into());
    let sources = [(PodSource::Api, SourceState { pods: Some(vec![ending]), refused: Vec::new() })].into();
    let rows = verdict_rows(&sources, [running("web", "1", "api")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Terminating)]);
    assert_eq!(rows[0].1.is_good(), Some(true));
}

#[test]
fn a_deleted_pod_whose_grace_period_ended_more_than_a_minute_ago_is_stuck() {
    // NOW is 2001-09-09T01:46:40Z.
    let ending = |at: &str, finalizers: &[&str]| {
        let pod = with(&pod("web", "1"), |pod| {
            pod.content.deleted = json!(at).into();
            pod.finalizers = json!(finalizers).into();
        });
        [(PodSource::Api, SourceState { pods: Some(vec![pod]), refused: Vec::new() })].into()
    };
    let rows = verdict_rows(&ending("2001-09-09T01:45:40Z", &[]), [running("web", "1", "api")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Terminating)], "the minute is not over");
    let rows = verdict_rows(&ending("2001-09-09T01:36:40Z", &[]), [running("web", "1", "api")]);
    assert_eq!(verdicts(&rows), [("1", PodVerdict::Stuck)]);
    assert_eq!(rows[0].2, "1 of 1 containers still run; its grace period has been over for 10m");
    assert_eq!(rows[0].1.is_good(), Some(false));
    let rows = verdict_rows(&ending("2001-09-09T01:36:40Z", &["example.com/backup"]), []);
    assert!(rows[0].2.starts_with("none of its containers runs; it has the finalizer example.com/backup"));
}

#[test]
fn only_a_young_sandbox_without_a_running_container_is_starting() {
    let waiting = |age| {
        verdict_rows(&file(vec![pod("a", "1")]), [ready("a", "1", "file", age, ContainerState::Created)])
    };
    assert_eq!(verdicts(&waiting(HOUR / 3600)), [("1", PodVerdict::Starting)]);
    assert_eq!(verdicts(&waiting(HOUR)), [("1", PodVerdict::Missing)]);
}

#[test]
fn a_pod_that_has_ended_is_good_only_if_its_restart_policy_allows_it() {
    let once = with(&pod("job", "1"), |pod| pod.content.spec = json!({"restartPolicy": "Never"}).into());
    let ended =
        running_pod(identity("kube-system", "job"), ("1", "file"), false, HOUR, ContainerState::Exited);
    assert_eq!(verdicts(&verdict_rows(&file(vec![once]), [ended.clone()])), [("1", PodVerdict::Running)]);
    assert_eq!(verdicts(&verdict_rows(&file(vec![pod("job", "1")]), [ended])), [("1", PodVerdict::Missing)]);
}

#[test]
fn the_mirror_of_a_removed_pod_is_stale_until_it_is_deleted() {
    let mirror = |change: fn(&mut WantedPod)| {
        let mirror = with(&pod("gone-n1", "api-uid"), |pod| pod.mirror_of = Some("9".into()));
        let mut sources = file(vec![pod("etcd-n1", "1")]);
        let pods = Some(vec![with(&mirror, change)]);
        sources.insert(PodSource::Api, SourceState { pods, refused: Vec::new() });
        verdict_rows(&sources, [running("etcd-n1", "1", "file")])
    };
    assert_eq!(verdicts(&mirror(|_| {})), [("1", PodVerdict::Running), ("api-uid", PodVerdict::Stale)]);
    let ending = mirror(|pod| pod.content.deleted = json!("2026-11-21T00:00:00Z").into());
    assert_eq!(verdicts(&ending), [("1", PodVerdict::Running), ("api-uid", PodVerdict::Terminating)]);
}

#[test]
fn the_kubelets_own_pods_explain_why_nothing_runs() {
    let sources = file(vec![pod("web", "1")]);
    let verdict = |kubelet: &[(&str, Value)]| {
        let pods: Vec<Value> = kubelet
            .iter()
            .map(|(uid, status)| json!({"metadata": {"name": "web", "uid": uid}, "status": status}))
            .collect();
        let list = json!({"kind": "PodList", "items": pods}).to_string();
        let kubelet = KubeletPods::parse(list.as_bytes(), NOW).unwrap();
        let runtime = BTreeMap::new();
        let row =
            Asked { sources: &sources, runtime: Some(&runtime), kubelet: Some(&kubelet) }.rows().remove(0);
        (row.verdict, row.why)
    };
    let refused = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough"});
    assert_eq!(
        verdict(&[("1", refused)]),
        (PodVerdict::Refused, "OutOfcpu: Node didn't have enough".to_owned())
    );
    assert!(verdict(&[]).1.contains("does not have it among its pods"));
    assert_eq!(verdict(&[("1", json!({"phase": "Pending"}))]).0, PodVerdict::Starting);
    assert!(verdict(&[("1", json!({}))]).1.contains("its pod worker waits"));
}

#[test]
fn a_refused_file_has_its_own_row() {
    let refused = vec![RefusedFile { path: "/m/a.yaml".into(), reason: "invalid pod".into() }];
    let sources = [(PodSource::File, SourceState { pods: Some(vec![]), refused })].into();
    let rows = Asked { sources: &sources, runtime: None, kubelet: None }.rows();
    assert_eq!((rows[0].verdict, rows[0].name.as_str()), (PodVerdict::Refused, "/m/a.yaml"));
}
