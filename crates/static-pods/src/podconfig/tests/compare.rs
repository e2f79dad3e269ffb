//! Tests of the four views and of the verdicts that only their comparison gives: *deaf*, *late* and *unreported* (see
//! docs/pods.md).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::verdict::PodVerdict;
use super::super::{
    ApiServerLink, ComparisonInputs, Contradiction, KubeletPods, PodRow, PodSource, ReadTimes, RuntimePod,
    SourceState, Suspects, VerdictInput, WantedPod, add_comparison, contradictions, pod_rows, suspects,
};
use super::{HOUR, NOW, identity, running_pod, wanted};
use crate::ContainerState;
use plegctl_base::clock::Wall;
use plegctl_base::report::Seconds;

fn ago(seconds: u64) -> Wall {
    NOW.minus(Duration::from_secs(seconds))
}

/// A pod of the API server that was bound to the node this many seconds ago.
fn bound(uid: &str, seconds: u64) -> WantedPod {
    let status = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(seconds)}]});
    WantedPod { status: status.into(), ..wanted(identity("shop", "web"), uid) }
}

/// A pod of the kubelet whose container `main` has the state `state`, as the kubelet's answer has it.
fn known(uid: &str, source: &str, container: &str, state: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": uid,
            "annotations": {"kubernetes.io/config.source": source}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "startTime": ago(3600), "containerStatuses": [
            {"name": "main", "containerID": format!("containerd://{container}")}]},
    });
    pod["status"]["containerStatuses"][0]["state"] = state;
    pod
}

fn running_since(seconds: u64) -> Value {
    json!({"running": {"startedAt": ago(seconds)}})
}

/// The four views, each with its time.
struct Views {
    sources: BTreeMap<PodSource, SourceState>,
    runtime: BTreeMap<String, RuntimePod>,
    kubelet: Option<KubeletPods>,
    times: ReadTimes,
}

impl Views {
    fn of(api: Vec<WantedPod>, kubelet: Option<Vec<Value>>) -> Self {
        let pods = Some(api.into_iter().map(Arc::new).collect());
        let list = |pods| json!({"kind": "PodList", "items": pods}).to_string();
        Self {
            sources: [(PodSource::Api, SourceState { pods, refused: Vec::new() })].into(),
            runtime: BTreeMap::new(),
            kubelet: kubelet.map(|pods: Vec<Value>| KubeletPods::parse(list(pods).as_bytes(), NOW).unwrap()),
            times: ReadTimes::default(),
        }
    }

    /// Adds the pod with this UID to the runtime, with a container in this state.
    fn with_runtime(mut self, uid: &str, state: ContainerState) -> Self {
        let pod = running_pod(identity("shop", "web"), (uid, "api"), true, HOUR, state);
        self.runtime = RuntimePod::group([pod]);
        self
    }

    fn input(&self) -> VerdictInput<'_> {
        VerdictInput {
            sources: &self.sources,
            runtime: Some(&self.runtime),
            kubelet: self.kubelet.as_ref(),
            times: &self.times,
            now: NOW,
        }
    }

    fn suspects(&self, started: Option<Wall>) -> (Vec<String>, Vec<String>) {
        let Suspects { deaf, unreported } = suspects(&self.input(), "n1", started);
        (deaf.into_iter().collect(), unreported.into_iter().collect())
    }

    /// The rows after the comparison. The runtime changed its container at this time.
    fn compared(&self, at: Option<Wall>, link: Option<&ApiServerLink>) -> Vec<PodRow> {
        let input = self.input();
        let mut rows = pod_rows(&input);
        let found = contradictions(&input);
        let changes = found.iter().filter_map(|one| Some((one.id.clone(), at?))).collect();
        let confirmed = suspects(&input, "n1", Some(ago(3600)));
        add_comparison(
            &mut rows,
            &input,
            &found,
            &ComparisonInputs { confirmed, changes, kubelet_started: Some(ago(3600)), link },
        );
        rows
    }
}

fn verdict_of(rows: &[PodRow]) -> (PodVerdict, &str) {
    let [row] = rows else { panic!("{rows:#?}") };
    (row.verdict, &row.why)
}

fn of(uids: &[&str]) -> Vec<String> {
    uids.iter().map(|uid| (*uid).to_owned()).collect()
}

#[test]
fn each_view_has_the_time_of_its_answer_and_the_age_of_its_state() {
    let mut views = Views::of(vec![bound("1", 300)], Some(vec![known("1", "api", "c1", running_since(120))]))
        .with_runtime("1", ContainerState::Running);
    views.times.sources.insert(PodSource::Api, ago(40));
    let row = pod_rows(&views.input()).remove(0);
    let shown: Vec<_> = row
        .views
        .columns()
        .into_iter()
        .map(|(name, view)| {
            let view = view.unwrap();
            (
                name,
                view.state.as_str(),
                view.observed_at,
                view.age_seconds.map(Seconds::duration).map(|age| age.as_secs()),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("wanted", "wanted", ago(40), None),
            ("kubelet", "Running", NOW, Some(120)),
            ("runtime", "running", NOW, Some(0)),
            ("api", "Pending", ago(40), Some(260)),
        ]
    );
    assert!(row.views.disagree(), "the API server says Pending, and the kubelet says Running");
}

#[test]
fn a_view_that_was_not_read_is_left_out_and_one_without_the_pod_is_absent() {
    let views = Views::of(vec![bound("1", 300)], None);
    let row = pod_rows(&views.input()).remove(0);
    assert!(row.views.kubelet.is_none());
    assert_eq!(row.views.runtime.unwrap().state, "absent");
    let mut views = Views::of(vec![bound("1", 300)], None);
    let ended = running_pod(identity("shop", "web"), ("1", "api"), false, HOUR, ContainerState::Exited);
    views.runtime = RuntimePod::group([ended]);
    let exited = pod_rows(&views.input()).remove(0).views.runtime.unwrap();
    let (state, age) = (exited.state.as_str(), exited.age_seconds);
    assert_eq!((state, age), ("exited", None), "the runtime lists only when it was created");
    let mut deleted = bound("1", 300);
    deleted.content.deleted = json!(ago(5)).into();
    deleted.content.grace = json!(30).into();
    let row = pod_rows(&Views::of(vec![deleted], Some(Vec::new())).input()).remove(0);
    assert_eq!(row.views.kubelet.unwrap().state, "absent");
    let wanted = row.views.wanted.unwrap();
    assert_eq!(
        (wanted.state.as_str(), wanted.age_seconds),
        ("deleted", Some(Duration::from_secs(35).into()))
    );
    assert_eq!(row.views.api.unwrap().state, "Terminating");
}

#[test]
fn a_pod_that_was_bound_over_a_minute_ago_and_that_the_kubelet_does_not_know_makes_it_deaf() {
    let other = known("9", "api", "c9", running_since(3600));
    let views = |seconds| Views::of(vec![bound("1", seconds)], Some(vec![other.clone()]));
    let old = Some(ago(3600));
    assert_eq!(views(61).suspects(old), (of(&["1"]), of(&["9"])));
    assert_eq!(views(60).suspects(old).0, of(&[]), "a young pod may be on its way");
    assert_eq!(views(600).suspects(Some(ago(30))).0, of(&[]), "a kubelet that has just started");
    assert_eq!(
        views(600).suspects(None).0,
        of(&["1"]),
        "a kubelet that has pods of the API server has read them"
    );
    let link = ApiServerLink {
        address: Some("10.0.0.1:6443".to_owned()),
        lease_age_seconds: Some(Duration::from_secs(720).into()),
        is_connected: Some(false),
        ..ApiServerLink::default()
    };
    let rows = Views::of(vec![bound("1", 600)], Some(Vec::new())).compared(None, Some(&link));
    let (verdict, why) = verdict_of(&rows);
    assert_eq!(verdict, PodVerdict::Deaf);
    assert!(
        why.ends_with("; the node's lease is 12m old, the kubelet has no connection to 10.0.0.1:6443"),
        "{why}"
    );
}

#[test]
fn views_that_cannot_be_compared_make_no_kubelet_deaf() {
    let old = Some(ago(3600));
    let none = (of(&[]), of(&[]));
    let unread = Views::of(vec![bound("1", 600)], None);
    assert_eq!(unread.suspects(old), none, "the kubelet did not answer");
    let mut aged = Views::of(vec![bound("1", 600)], Some(Vec::new()));
    aged.times.sources.insert(PodSource::Api, ago(61));
    assert_eq!(aged.suspects(old), none, "the pod may have been deleted since");
    let mut unsure = Views::of(vec![bound("1", 600)], Some(Vec::new()));
    assert_eq!(unsure.suspects(None), none, "the kubelet may have just started");
    unsure.sources.insert(PodSource::Api, SourceState::default());
    assert_eq!(unsure.suspects(old), none, "the API server did not answer");
    let mut elsewhere = known("9", "api", "c9", running_since(3600));
    elsewhere["spec"]["nodeName"] = json!("n2");
    assert_eq!(
        Views::of(vec![bound("1", 600)], Some(vec![elsewhere])).suspects(old),
        none,
        "another node's kubelet"
    );
    let mut ended = bound("1", 600);
    ended.content.deleted = json!(ago(1)).into();
    assert_eq!(Views::of(vec![ended], Some(Vec::new())).suspects(old), none, "a pod that ends");
    let mut unbound = bound("1", 600);
    unbound.status = json!({"phase": "Pending"}).into();
    assert_eq!(
        Views::of(vec![unbound], Some(Vec::new())).suspects(old),
        none,
        "nothing says when it was bound"
    );
    let mirror = WantedPod { mirror_of: Some("2".to_owned()), ..bound("1", 600) };
    assert_eq!(Views::of(vec![mirror], Some(Vec::new())).suspects(old), none, "a mirror pod");
}

#[test]
fn a_pod_that_only_the_kubelet_knows_is_unreported() {
    let views = |pod: Value| Views::of(Vec::new(), Some(vec![pod]));
    let pod = || known("9", "api", "c9", running_since(3600));
    let rows = views(pod()).compared(None, None);
    assert_eq!(verdict_of(&rows).0, PodVerdict::Unreported);
    assert_eq!(rows[0].views.api.as_ref().unwrap().state, "absent");
    let old = Some(ago(3600));
    assert_eq!(views(known("9", "file", "c9", running_since(3600))).suspects(old).1, of(&[]), "a static pod");
    let mut ending = pod();
    ending["metadata"]["deletionTimestamp"] = json!(ago(1));
    assert_eq!(views(ending).suspects(old).1, of(&[]), "a pod that ends");
    let mut young = pod();
    young["status"]["startTime"] = json!(ago(30));
    assert_eq!(views(young).suspects(old).1, of(&[]), "the API server's list may be some seconds old");
}

#[test]
fn suspects_must_be_found_twice() {
    let mut found = Suspects { deaf: ["1".into(), "2".into()].into(), unreported: ["3".into()].into() };
    found.confirmed_by(&Suspects { deaf: ["2".into()].into(), unreported: ["4".into()].into() });
    assert_eq!(found, Suspects { deaf: ["2".into()].into(), unreported: [].into() });
}

/// The verdict on a pod whose container ended in the runtime this many seconds before, and runs in the kubelet's status.
fn after_end(seconds: u64, change: impl FnOnce(&mut Value)) -> (PodVerdict, String) {
    let mut pod = known("1", "api", "c1", running_since(3600));
    change(&mut pod);
    let views = Views::of(vec![bound("1", 3600)], Some(vec![pod])).with_runtime("1", ContainerState::Exited);
    let rows = views.compared(Some(ago(seconds)), None);
    let (verdict, why) = verdict_of(&rows);
    (verdict, why.to_owned())
}

#[test]
fn a_status_of_the_kubelet_that_lags_by_5_s_is_not_late_and_by_90_s_is() {
    assert_ne!(after_end(5, |_| {}).0, PodVerdict::Late);
    assert_ne!(after_end(60, |_| {}).0, PodVerdict::Late);
    let (verdict, why) = after_end(90, |_| {});
    assert_eq!(verdict, PodVerdict::Late);
    assert!(why.starts_with("container main ended 90s ago in the runtime"), "{why}");
}

#[test]
fn a_pod_whose_worker_is_busy_is_not_late() {
    let not_late = |change: fn(&mut Value)| assert_ne!(after_end(90, change).0, PodVerdict::Late);
    not_late(|pod| pod["metadata"]["deletionTimestamp"] = json!(ago(1)));
    not_late(|pod| pod["status"]["phase"] = json!("Failed"));
    not_late(|pod| pod["spec"]["containers"][0]["lifecycle"] = json!({"postStart": {}}));
    not_late(|pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(60));
    not_late(|pod| {
        let pulling = json!({"name": "other", "state": {"waiting": {"reason": "ContainerCreating"}}});
        pod["status"]["containerStatuses"].as_array_mut().unwrap().push(pulling);
    });
    assert_eq!(
        after_end(91, |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(60)).0,
        PodVerdict::Late
    );
}

#[test]
fn a_container_that_started_in_the_runtime_and_is_not_in_the_kubelets_status_is_late() {
    let views = |state: Value| {
        Views::of(vec![bound("1", 3600)], Some(vec![known("1", "api", "c0", state)]))
            .with_runtime("1", ContainerState::Running)
    };
    let waiting = views(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    assert_eq!(verdict_of(&waiting.compared(Some(ago(90)), None)).0, PodVerdict::Late);
    // The kubelet answered after the runtime, and its container is newer.
    let newer = views(running_since(2)).compared(Some(ago(90)), None);
    assert_eq!(verdict_of(&newer).0, PodVerdict::Running);
    // Without the time of the change there is no verdict.
    assert_eq!(verdict_of(&waiting.compared(None, None)).0, PodVerdict::Running);
}

#[test]
fn views_that_agree_are_no_contradiction() {
    let pod = known("1", "api", "c1", running_since(3600));
    let views = Views::of(vec![bound("1", 3600)], Some(vec![pod])).with_runtime("1", ContainerState::Running);
    assert_eq!(contradictions(&views.input()), Vec::<Contradiction>::new());
    let ended = known("1", "api", "c1", json!({"terminated": {"exitCode": 0}}));
    let views =
        Views::of(vec![bound("1", 3600)], Some(vec![ended])).with_runtime("1", ContainerState::Exited);
    assert_eq!(contradictions(&views.input()), Vec::<Contradiction>::new());
}

#[test]
fn a_lost_mirror_pod_is_unreported_only_if_the_kubelet_does_not_reach_the_api_server() {
    let mut views = Views::of(Vec::new(), Some(vec![known("1", "file", "c1", running_since(3600))]))
        .with_runtime("1", ContainerState::Running);
    let pods = Some(vec![Arc::new(wanted(identity("shop", "web"), "1"))]);
    views.sources.insert(PodSource::File, SourceState { pods, refused: Vec::new() });
    let rows = views.compared(None, None);
    assert_eq!(verdict_of(&rows).0, PodVerdict::Running);
    assert_eq!(rows[0].mirror.as_ref().unwrap().state, "lost");
    let link = |age| ApiServerLink {
        lease_age_seconds: Some(Duration::from_secs(age).into()),
        ..ApiServerLink::default()
    };
    assert_eq!(verdict_of(&views.compared(None, Some(&link(10)))).0, PodVerdict::Running);
    assert_eq!(verdict_of(&views.compared(None, Some(&link(50)))).0, PodVerdict::Unreported);
}
