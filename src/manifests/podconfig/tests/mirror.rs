//! What is said of a static pod's mirror.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::mirror::Mirror;
use super::super::standing::Standing;
use super::super::{Question, RuntimePod, Source, SourceState, Wanted, standings};
use super::{HOUR, NOW, container, identity, sandbox, wanted};
use crate::cri::{ContainerState, SandboxState};

fn named(namespace: &str, uid: &str) -> Wanted {
    wanted(identity(namespace, "etcd-n1"), uid)
}

fn mirror_of(hash: &str, status: Value) -> Wanted {
    let mirror_of = Some(hash.to_owned());
    Wanted { mirror_of, status: status.into(), ..named("shop", "api-uid") }
}

/// The static pod `1`, running for so long, beside what the API server shows.
fn said_of(wanted: Wanted, age: i64, api: Vec<Wanted>) -> (Mirror, String) {
    let sandbox = sandbox(wanted.identity.clone(), "1", "file", SandboxState::Ready, age);
    let container = container("1", ContainerState::Running);
    let runtime = RuntimePod::group(vec![sandbox], vec![container]);
    let state = |pods: Vec<Wanted>| SourceState {
        pods: Some(pods.into_iter().map(Arc::new).collect()),
        refused: Vec::new(),
    };
    let sources = BTreeMap::from([(Source::File, state(vec![wanted])), (Source::Api, state(api))]);
    let rows = standings(&Question { sources: &sources, runtime: Some(&runtime), kubelet: None, now: NOW });
    let row = rows.into_iter().find(|row| row.source == Some(Source::File)).unwrap();
    assert_eq!(row.verdict, Standing::Running, "a mirror is no reason to say that a pod does not run");
    (row.mirror.unwrap(), row.why)
}

fn said(age: i64, api: Vec<Wanted>) -> (&'static str, String) {
    let (mirror, why) = said_of(named("shop", "1"), age, api);
    (mirror.state, why)
}

fn containers(id: &str) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "containerID": format!("containerd://{id}")}]})
}

#[test]
fn the_join_is_by_hash_and_never_by_the_apis_uid() {
    let (mirror, why) = said_of(named("shop", "1"), HOUR, vec![mirror_of("1", containers("c1"))]);
    let expected = Mirror { state: "current", uid: Some("api-uid".into()), hash: Some("1".into()) };
    assert_eq!((mirror, why.as_str()), (expected, "runs exactly this version, 1 of 1 containers"));
}

#[test]
fn hash_and_status_may_be_of_two_generations() {
    let (state, why) = said(HOUR, vec![mirror_of("0", containers("c0"))]);
    assert!(state == "old" && why.contains("not what runs"), "{why}");
    let (state, why) = said(HOUR, vec![mirror_of("0", containers("c1"))]);
    assert!(state == "old" && why.contains("the status of this one"), "{why}");
    let (state, why) = said(HOUR, vec![mirror_of("1", containers("c0"))]);
    assert!(state == "current" && why.contains("it is behind"), "{why}");
}

#[test]
fn a_mirror_that_was_made_anew_shows_pending() {
    let (state, why) = said(HOUR, vec![mirror_of("1", json!({"phase": "Pending"}))]);
    assert!(state == "current" && why.contains("Pending"), "{why}");
}

#[test]
fn one_name_may_be_two_pods() {
    let (mirror, why) = said_of(named("shop", "1"), HOUR, vec![named("shop", "x")]);
    assert!(
        mirror.state == "taken" && mirror.uid.as_deref() == Some("x") && why.contains("another pod"),
        "{why}"
    );
}

#[test]
fn for_a_minute_nothing_is_missed() {
    for api in [vec![], vec![mirror_of("0", containers("c0"))], vec![mirror_of("1", containers("c0"))]] {
        let (_, why) = said(HOUR / 120, api);
        assert_eq!(why, "runs exactly this version, 1 of 1 containers");
    }
    assert_eq!(said(HOUR / 120, vec![]).0, "young");
    let touched = Wanted { changed: Some(NOW), ..named("shop", "1") };
    assert_eq!(said_of(touched, HOUR, vec![]).0.state, "young");
}

#[test]
fn of_the_causes_of_absence_those_that_cannot_be_are_left_out() {
    let (state, why) = said(HOUR, vec![]);
    assert!(state == "absent" && why.contains("no namespace shop") && why.contains("admission"), "{why}");
    let neighbour = wanted(identity("shop", "web"), "2");
    let (_, why) = said(HOUR, vec![neighbour]);
    assert!(!why.contains("no namespace") && why.contains("does not get through"), "{why}");
    let (_, why) = said_of(named("kube-system", "1"), HOUR, vec![]);
    assert!(!why.contains("no namespace"), "{why}");
    let refers = Wanted { unmirrored: Some("spec.serviceAccountName …".into()), ..named("shop", "1") };
    let (_, why) = said_of(refers, HOUR, vec![]);
    assert!(why.ends_with("serviceAccountName …"), "{why}");
}
