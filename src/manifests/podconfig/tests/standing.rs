//! What became of a pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::standing::Standing;
use super::super::{Part, Question, Refused, RuntimePod, Source, SourceState, Wanted, standings};
use super::{HOUR, NOW, container, identity, wanted};
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, Sandbox, SandboxState};

fn pod(name: &str, uid: &str) -> Arc<Wanted> {
    Arc::new(wanted(identity("kube-system", name), uid))
}

fn with(pod: &Arc<Wanted>, change: impl FnOnce(&mut Wanted)) -> Arc<Wanted> {
    let mut pod = Wanted::clone(pod);
    change(&mut pod);
    Arc::new(pod)
}

fn sandbox(name: &str, uid: &str, source: &str, state: SandboxState, age: i64) -> Sandbox {
    super::sandbox(identity("kube-system", name), uid, source, state, age)
}

/// One living pod.
fn living(name: &str, uid: &str, source: &str) -> (Sandbox, Container) {
    (sandbox(name, uid, source, SandboxState::Ready, HOUR), container(uid, ContainerState::Running))
}

fn file(pods: Vec<Arc<Wanted>>) -> BTreeMap<Source, SourceState> {
    [(Source::File, SourceState { pods: Some(pods), refused: Vec::new() })].into()
}

fn judged(
    sources: &BTreeMap<Source, SourceState>,
    runtime: impl IntoIterator<Item = (Sandbox, Container)>,
) -> Vec<(String, Standing, String)> {
    let (sandboxes, containers): (Vec<_>, Vec<_>) = runtime.into_iter().unzip();
    let runtime = RuntimePod::group(sandboxes, containers);
    let rows = standings(&Question { sources, runtime: Some(&runtime), kubelet: None, now: NOW });
    rows.into_iter().map(|row| (row.uid, row.verdict, row.why)).collect()
}

fn verdicts(rows: &[(String, Standing, String)]) -> Vec<(&str, Standing)> {
    rows.iter().map(|(uid, verdict, _)| (uid.as_str(), *verdict)).collect()
}

#[test]
fn the_very_version_that_is_wanted_runs() {
    let rows = judged(&file(vec![pod("etcd-n1", "1")]), [living("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", Standing::Running)]);
}

#[test]
fn another_version_runs_under_the_name() {
    let rows = judged(&file(vec![pod("etcd-n1", "2")]), [living("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("2", Standing::Stale), ("1", Standing::Terminating)]);
}

#[test]
fn a_young_file_is_starting_and_an_old_one_is_missing() {
    let young = with(&pod("a", "1"), |pod| pod.changed = Some(Wall::from_nanos(NOW.nanos() - 1_000_000_000)));
    assert_eq!(verdicts(&judged(&file(vec![young]), [])), [("1", Standing::Starting)]);
    assert_eq!(verdicts(&judged(&file(vec![pod("a", "1")]), [])), [("1", Standing::Missing)]);
}

#[test]
fn what_no_source_wants_is_an_orphan_and_why_it_lives_on_is_said() {
    let mut sources = file(vec![]);
    let rows = judged(&sources, [living("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", Standing::Orphan)]);
    sources.insert(Source::Api, SourceState::default());
    let rows = judged(&sources, [living("etcd-n1", "1", "file"), living("web", "2", "api")]);
    assert_eq!(
        verdicts(&rows),
        [("1", Standing::Orphan)],
        "pods of a source that was not read are left alone"
    );
    assert!(rows[0].2.contains("until source api is heard"), "{}", rows[0].2);
}

#[test]
fn two_sources_with_one_name_are_a_duplicate() {
    let mut sources = file(vec![pod("etcd-n1", "1")]);
    sources.insert(Source::Http, SourceState { pods: Some(vec![pod("etcd-n1", "2")]), refused: Vec::new() });
    let rows = judged(&sources, [living("etcd-n1", "1", "file")]);
    assert_eq!(verdicts(&rows), [("1", Standing::Running), ("2", Standing::Duplicate)]);
}

#[test]
fn the_kubelets_own_word_of_a_refusal_is_handed_on() {
    let refused = with(&pod("web", "1"), |pod| {
        pod.status =
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no cpu"}).into();
    });
    let sources = [(Source::Api, SourceState { pods: Some(vec![refused]), refused: Vec::new() })].into();
    let rows = judged(&sources, []);
    assert_eq!(verdicts(&rows), [("1", Standing::Refused)]);
    assert_eq!(rows[0].2, "UnexpectedAdmissionError: no cpu");
}

#[test]
fn an_ordered_end_is_terminating_and_good() {
    let ending = with(&pod("web", "1"), |pod| pod.content.deleted = json!("2026-11-21T00:00:00Z").into());
    let sources = [(Source::Api, SourceState { pods: Some(vec![ending]), refused: Vec::new() })].into();
    let rows = judged(&sources, [living("web", "1", "api")]);
    assert_eq!(verdicts(&rows), [("1", Standing::Terminating)]);
    assert!(rows[0].1.is_good());
}

#[test]
fn a_sandbox_without_a_running_container_is_starting_only_while_it_is_young() {
    let waiting = |age| {
        let sandbox = sandbox("a", "1", "file", SandboxState::Ready, age);
        judged(&file(vec![pod("a", "1")]), [(sandbox, container("1", ContainerState::Created))])
    };
    assert_eq!(verdicts(&waiting(HOUR / 3600)), [("1", Standing::Starting)]);
    assert_eq!(verdicts(&waiting(HOUR)), [("1", Standing::Missing)]);
}

#[test]
fn what_has_finished_and_may_is_as_it_should_be() {
    let once = with(&pod("job", "1"), |pod| pod.content.spec = json!({"restartPolicy": "Never"}).into());
    let ended =
        (sandbox("job", "1", "file", SandboxState::NotReady, HOUR), container("1", ContainerState::Exited));
    assert_eq!(verdicts(&judged(&file(vec![once]), [ended.clone()])), [("1", Standing::Running)]);
    assert_eq!(verdicts(&judged(&file(vec![pod("job", "1")]), [ended])), [("1", Standing::Missing)]);
}

#[test]
fn the_mirror_of_what_is_gone_is_stale_until_it_is_deleted() {
    let mirror = |change: fn(&mut Wanted)| {
        let mirror = with(&pod("gone-n1", "api-uid"), |pod| pod.mirror_of = Some("9".into()));
        let mut sources = file(vec![pod("etcd-n1", "1")]);
        let pods = Some(vec![with(&mirror, change)]);
        sources.insert(Source::Api, SourceState { pods, refused: Vec::new() });
        judged(&sources, [living("etcd-n1", "1", "file")])
    };
    assert_eq!(verdicts(&mirror(|_| {})), [("1", Standing::Running), ("api-uid", Standing::Stale)]);
    let ending = mirror(|pod| pod.content.deleted = json!("2026-11-21T00:00:00Z").into());
    assert_eq!(verdicts(&ending), [("1", Standing::Running), ("api-uid", Standing::Terminating)]);
}

#[test]
fn the_kubelets_own_pods_say_why_nothing_runs() {
    let sources = file(vec![pod("web", "1")]);
    let said = |kubelet: &[(&str, Value)]| {
        let kubelet: HashMap<String, Part> =
            kubelet.iter().map(|(uid, status)| ((*uid).to_owned(), status.clone().into())).collect();
        let runtime = BTreeMap::new();
        let question =
            Question { sources: &sources, runtime: Some(&runtime), kubelet: Some(&kubelet), now: NOW };
        let row = standings(&question).remove(0);
        (row.verdict, row.why)
    };
    let refused = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough"});
    assert_eq!(said(&[("1", refused)]), (Standing::Refused, "OutOfcpu: Node didn't have enough".to_owned()));
    assert!(said(&[]).1.contains("does not have it among its pods"));
    assert_eq!(said(&[("1", json!({"phase": "Pending"}))]).0, Standing::Starting);
    assert!(said(&[("1", json!({}))]).1.contains("its worker waits"));
}

#[test]
fn a_refused_file_is_a_row_of_its_own() {
    let refused = vec![Refused { path: "/m/a.yaml".into(), reason: "invalid pod".into() }];
    let sources = [(Source::File, SourceState { pods: Some(vec![]), refused })].into();
    let rows = standings(&Question { sources: &sources, runtime: None, kubelet: None, now: NOW });
    assert_eq!((rows[0].verdict, rows[0].name.as_str()), (Standing::Refused, "/m/a.yaml"));
}
