//! Tests of the state of a static pod's mirror.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::mirror::MirrorPod;
use super::super::verdict::PodVerdict;
use super::super::{PodSource, RuntimePod, SourceState, WantedPod};
use super::{Asked, HOUR, NOW, identity, running_pod, wanted};
use crate::ContainerState;

fn named(namespace: &str, uid: &str) -> WantedPod {
    wanted(identity(namespace, "etcd-n1"), uid)
}

fn mirror_of(hash: &str, status: Value) -> WantedPod {
    let mirror_of = Some(hash.to_owned());
    WantedPod { mirror_of, status: status.into(), ..named("shop", "api-uid") }
}

/// Returns the state of the mirror pod and the reason of the verdict, for the static pod `wanted` with the UID `1`, which
/// has run for `age`, and these pods in the API server.
fn mirror_after(wanted: WantedPod, age: i64, api: Vec<WantedPod>) -> (MirrorPod, String) {
    let running = ContainerState::Running;
    let pod = running_pod(wanted.identity.clone(), ("1", "file"), true, age, running);
    let runtime = RuntimePod::group([pod]);
    let state = |pods: Vec<WantedPod>| SourceState {
        pods: Some(pods.into_iter().map(Arc::new).collect()),
        refused: Vec::new(),
    };
    let sources = BTreeMap::from([(PodSource::File, state(vec![wanted])), (PodSource::Api, state(api))]);
    let rows = Asked { sources: &sources, runtime: Some(&runtime), kubelet: None }.rows();
    let row = rows.into_iter().find(|row| row.source == Some(PodSource::File)).unwrap();
    assert_eq!(row.verdict, PodVerdict::Running, "the mirror pod does not change the verdict");
    (row.mirror.unwrap(), row.why)
}

fn mirror_state(age: i64, api: Vec<WantedPod>) -> (&'static str, String) {
    let (mirror, why) = mirror_after(named("shop", "1"), age, api);
    (mirror.state, why)
}

fn containers(id: &str) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "containerID": format!("containerd://{id}")}]})
}

#[test]
fn a_mirror_pod_is_matched_by_hash_and_never_by_uid() {
    let (mirror, why) = mirror_after(named("shop", "1"), HOUR, vec![mirror_of("1", containers("c1"))]);
    let expected = MirrorPod { state: "current", uid: Some("api-uid".into()), hash: Some("1".into()) };
    assert_eq!((mirror, why.as_str()), (expected, "runs exactly this version, 1 of 1 containers"));
}

#[test]
fn a_mirror_pods_hash_and_status_may_belong_to_two_versions() {
    let (state, why) = mirror_state(HOUR, vec![mirror_of("0", containers("c0"))]);
    assert!(state == "old" && why.contains("does not show what runs"), "{why}");
    let (state, why) = mirror_state(HOUR, vec![mirror_of("0", containers("c1"))]);
    assert!(state == "old" && why.contains("the status of this one"), "{why}");
    let (state, why) = mirror_state(HOUR, vec![mirror_of("1", containers("c0"))]);
    assert!(state == "current" && why.contains("it is out of date"), "{why}");
}

#[test]
fn a_recreated_mirror_pod_is_pending() {
    let (state, why) = mirror_state(HOUR, vec![mirror_of("1", json!({"phase": "Pending"}))]);
    assert!(state == "current" && why.contains("Pending"), "{why}");
}

#[test]
fn another_pod_may_have_the_mirror_pods_name() {
    let (mirror, why) = mirror_after(named("shop", "1"), HOUR, vec![named("shop", "x")]);
    assert!(
        mirror.state == "taken" && mirror.uid.as_deref() == Some("x") && why.contains("another pod"),
        "{why}"
    );
}

#[test]
fn a_missing_mirror_pod_is_not_reported_for_a_minute() {
    for api in [vec![], vec![mirror_of("0", containers("c0"))], vec![mirror_of("1", containers("c0"))]] {
        let (_, why) = mirror_state(HOUR / 120, api);
        assert_eq!(why, "runs exactly this version, 1 of 1 containers");
    }
    assert_eq!(mirror_state(HOUR / 120, vec![]).0, "young");
    let touched = WantedPod { changed: Some(NOW), ..named("shop", "1") };
    assert_eq!(mirror_after(touched, HOUR, vec![]).0.state, "young");
}

#[test]
fn impossible_causes_of_a_missing_mirror_pod_are_omitted() {
    let (state, why) = mirror_state(HOUR, vec![]);
    assert!(state == "absent" && why.contains("no namespace shop") && why.contains("admission"), "{why}");
    let neighbour = wanted(identity("shop", "web"), "2");
    let (_, why) = mirror_state(HOUR, vec![neighbour]);
    assert!(!why.contains("no namespace") && why.contains("cannot reach the API server"), "{why}");
    let (_, why) = mirror_after(named("kube-system", "1"), HOUR, vec![]);
    assert!(!why.contains("no namespace"), "{why}");
    let refers =
        WantedPod { mirror_refusal: Some("spec.serviceAccountName …".into()), ..named("shop", "1") };
    let (_, why) = mirror_after(refers, HOUR, vec![]);
    assert!(why.ends_with("serviceAccountName …"), "{why}");
}
