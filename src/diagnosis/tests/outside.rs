//! Findings and suspects from the dumps of real kubelets, with pods and times that vary.

use std::fs::File;
use std::time::Duration;

use crate::clock::Wall;
use crate::diagnosis::facts::PodChange;
use crate::diagnosis::outside::{OutsideFacts, OutsideFindings, OutsidePod, find};
use crate::diagnosis::report::{Confidence, RuleId, Severity, Verdict};
use crate::diagnosis::{Relists, VerdictFacts};
use crate::kubelet::MeasuredContainer;
use crate::report::{ContainerRef, PodRef};
use crate::stacks::dump::Dump;
use crate::stacks::kubelet::{KubeletCalls, kubelet_calls};
use crate::stacks::read::{Bounds, read};

fn dump(name: &str) -> Dump {
    let path =
        format!("{}/../../tests/recordings/stacks/k2-{name}.kubelet.debug2.gz", env!("CARGO_MANIFEST_DIR"));
    read(File::open(path).unwrap(), Bounds::default()).unwrap().dumps.remove(0)
}

fn calls(names: [&str; 2]) -> KubeletCalls {
    let dumps = names.map(dump);
    kubelet_calls(&[&dumps[0], &dumps[1]], Duration::from_secs(5)).unwrap()
}

fn noon() -> Wall {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn before(seconds: u64) -> Wall {
    noon().minus(Duration::from_secs(seconds))
}

fn pod(name: &str, uid: &str, changes: &[(PodChange, u64)]) -> OutsidePod {
    OutsidePod {
        pod: PodRef { uid: uid.to_owned(), namespace: "default".to_owned(), name: name.to_owned() },
        changes: changes.iter().map(|(what, ago)| (*what, before(*ago))).collect(),
        is_ending: changes.iter().any(|(what, _)| *what == PodChange::Deleted),
        has_started: !matches!(changes, [(PodChange::Created, _)]),
        containers: vec![ContainerRef { id: "c".repeat(64), name: "ctr".to_owned() }],
        ..OutsidePod::default()
    }
}

/// Returns the facts of a kubelet whose last relist began this long ago.
fn facts(calls: KubeletCalls, age: u64, pods: Vec<OutsidePod>) -> OutsideFacts {
    OutsideFacts {
        node: "n1".to_owned(),
        taken_at: Some(noon()),
        last_seen: Some(before(age)),
        age: Some(Duration::from_secs(age)),
        threshold: Duration::from_secs(180),
        calls: Some(calls),
        pods,
        ..OutsideFacts::default()
    }
}

fn names(found: &OutsideFindings) -> Vec<(&str, Confidence)> {
    found.suspects.iter().map(|suspect| (suspect.pod.name.as_str(), suspect.confidence)).collect()
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn healthy_kubelet_has_no_suspect_in_two_hundred_runs() {
    let busy = calls(["base.t3-busy", "base.t5-busy"]);
    let idle = calls(["base.t0-idle", "base.t140-idle-hanging-exec-probe"]);
    for seed in 0..200 {
        let mut random = Numbers(seed);
        let changes = [PodChange::Created, PodChange::Deleted, PodChange::ContainerFinished];
        let pods = (0..random.below(40)).map(|nth| {
            let what = changes[usize::try_from(random.below(3)).unwrap()];
            let uid = if random.below(2) == 0 { format!("{nth:032}") } else { format!("{nth:036}") };
            pod(&format!("pod-{nth}"), &uid, &[(what, random.below(20))])
        });
        let pods = pods.collect();
        let calls = if seed % 2 == 0 { busy.clone() } else { idle.clone() };
        let found = find(&facts(calls, random.below(3), pods));
        assert!(found.suspects.is_empty() && found.findings.is_empty(), "{seed}: {found:?}");
    }
}

#[test]
fn one_worker_whose_arguments_fit_one_pod_makes_it_likely_and_two_workers_make_none() {
    let created = pod("pod-hang-n1", &"a".repeat(32), &[(PodChange::Created, 90)]);
    let deleted = pod("pod-net-n1", &"b".repeat(32), &[(PodChange::Deleted, 90), (PodChange::GraceOver, 60)]);
    let others = (0..5).map(|nth| {
        pod(&format!("web-{nth}-n1"), &format!("{nth:032}"), &[(PodChange::ContainerStarted, 9999)])
    });
    let pods: Vec<OutsidePod> = others.chain([created, deleted]).collect();
    let both = facts(calls(["cni.t8", "cni.t80"]), 1, pods);
    let found = find(&both);
    assert_eq!(names(&found), [("pod-hang-n1", Confidence::Possible), ("pod-net-n1", Confidence::Possible)]);
    let mut one = both.clone();
    one.calls.as_mut().unwrap().workers.retain(|worker| worker.call.rpc == "StopPodSandbox");
    let found = find(&one);
    assert_eq!(names(&found), [("pod-net-n1", Confidence::Likely)]);
    let primary = &found.findings[0];
    assert_eq!(
        (primary.id, primary.severity, primary.confidence),
        (RuleId::StuckWorkers, Severity::Warning, Confidence::Likely)
    );
    // A second pod that fits takes the certainty away.
    let twin = pod("pod-not-n1", &"c".repeat(32), &[(PodChange::Deleted, 90), (PodChange::GraceOver, 60)]);
    one.pods.push(twin);
    assert!(find(&one).suspects.iter().all(|suspect| suspect.confidence == Confidence::Possible));
}

/// A pod that waits for its volumes is as old as one whose sandbox hangs. So a call that has not waited for long, and that may be
/// for a pod that was created just now, is not too long.
#[test]
fn call_that_may_be_for_a_new_pod_is_no_finding_before_it_has_waited_for_a_minute() {
    let old = pod("pod-volumes-n1", &"a".repeat(32), &[(PodChange::Created, 600)]);
    let new = pod("pod-new-n1", &"b".repeat(32), &[(PodChange::Created, 6)]);
    let finding = |pods: &[&OutsidePod], about: Option<u64>| {
        let mut facts = facts(calls(["cni.t8", "cni.t80"]), 1, pods.iter().copied().cloned().collect());
        let workers = &mut facts.calls.as_mut().unwrap().workers;
        workers.retain(|worker| worker.call.rpc == "RunPodSandbox");
        workers[0].call.waited.about = about.map(Duration::from_secs);
        find(&facts).findings.first().map(|found| found.id)
    };
    let stuck = Some(RuleId::StuckWorkers);
    assert_eq!((finding(&[&old, &new], None), finding(&[&old], None)), (None, stuck));
    assert_eq!((finding(&[&old, &new], Some(60)), finding(&[&new], Some(60))), (stuck, None));
    // A pod that waits for its image has no part in it.
    let image = OutsidePod { waiting: vec!["ctr".to_owned()], ..old };
    assert_eq!((finding(&[&image], None), finding(&[&image, &new], Some(60))), (None, None));
}

#[test]
fn containers_that_the_kubelet_does_not_measure_are_gone_unless_it_measures_few() {
    let running = |name: &str, since: u64| OutsidePod {
        running: vec![("ctr".to_owned(), before(since))],
        ..pod(name, &"a".repeat(36), &[])
    };
    let gone = |measured: &[&str]| {
        let mut pods = vec![running("web-0", 90), running("web-1", 90), running("web-2", 5)];
        let measured = measured.iter().map(|pod| MeasuredContainer {
            namespace: "default".to_owned(),
            pod: (*pod).to_owned(),
            container: "ctr".to_owned(),
        });
        OutsidePod::compare(&mut pods, &measured.collect(), noon());
        pods.into_iter().filter(|pod| !pod.gone.is_empty()).map(|pod| pod.pod.name).collect::<Vec<_>>()
    };
    assert_eq!(gone(&["web-0", "db-0", "db-1"]), ["web-1"]);
    assert!(gone(&["web-0", "web-1"]).is_empty() && gone(&[]).is_empty() && gone(&["db-0"]).is_empty());
}

#[test]
fn two_pods_that_the_kubelets_messages_name_are_not_likely() {
    let named = |name: &str, uid: &str| OutsidePod {
        no_answer: vec!["context deadline exceeded".to_owned()],
        ..pod(name, uid, &[(PodChange::Deleted, 71)])
    };
    let (one, other) = (named("db-0", &"a".repeat(36)), named("db-1", &"b".repeat(36)));
    let suspects = |pods: Vec<OutsidePod>| {
        let found = find(&facts(calls(["lock.t35", "lock.t100"]), 70, pods));
        found.suspects.iter().map(|suspect| suspect.confidence).collect::<Vec<_>>()
    };
    assert_eq!(suspects(vec![one.clone()]), [Confidence::Likely]);
    assert_eq!(suspects(vec![one, other]), [Confidence::Possible, Confidence::Possible]);
}

#[test]
fn stop_within_the_grace_period_is_no_finding() {
    let stop = |ends: u64| {
        let deleted =
            pod("pod-c-n1", &"b".repeat(32), &[(PodChange::Deleted, 600), (PodChange::GraceOver, ends)]);
        let mut facts = facts(calls(["bolt.t8", "bolt.t80"]), 1, vec![deleted]);
        facts.calls.as_mut().unwrap().workers.retain(|worker| worker.call.rpc == "StopContainer");
        find(&facts).findings.len()
    };
    assert_eq!((stop(0), stop(40)), (0, 1));
}

#[test]
fn fewer_facts_never_make_a_hang_more_certain() {
    let full = facts(calls(["lock.t35", "lock.t100"]), 70, Vec::new());
    let confidence = |facts: &OutsideFacts| find(facts).findings.first().map(|found| found.confidence);
    assert_eq!(confidence(&full), Some(Confidence::Certain));
    let without_age = OutsideFacts { age: None, last_seen: None, ..full.clone() };
    assert_eq!(confidence(&without_age), Some(Confidence::Likely));
    let mut one_dump = without_age.clone();
    let calls = one_dump.calls.as_mut().unwrap();
    *calls = kubelet_calls(&[&dump("lock.t100")], Duration::ZERO).unwrap();
    assert_eq!(confidence(&one_dump), Some(Confidence::Possible));
    assert_eq!(confidence(&OutsideFacts { calls: None, ..without_age }), None);
}

#[test]
fn list_that_hangs_in_the_dumps_lets_no_relist_succeed() {
    use crate::diagnosis::verdict;
    let threshold = Duration::from_secs(180);
    let relists = Relists::Succeed { peak_age: Duration::from_secs(70), may_be_higher: true };
    let known =
        VerdictFacts { relists, age: Some(Duration::from_secs(70)), threshold, ..VerdictFacts::default() };
    let found = find(&facts(calls(["lock.t35", "lock.t100"]), 70, Vec::new()));
    assert!(verdict(&known) == Verdict::Unknown && verdict(&found.add_to(known)) == Verdict::Unhealthy);
    let nothing = find(&OutsideFacts { threshold, ..OutsideFacts::default() });
    assert_eq!(nothing.add_to(known), known);
}

#[test]
fn runtime_that_answers_no_call_is_d07_and_no_pod_is_suspected() {
    let deleted = pod("db-0", &"b".repeat(36), &[(PodChange::Deleted, 71)]);
    let mut facts = facts(calls(["lock.t35", "lock.t100"]), 70, vec![deleted]);
    assert_eq!(names(&find(&facts)), [("db-0", Confidence::Possible)]);
    facts.calls.as_mut().unwrap().waiting.insert("Version".to_owned(), 1);
    let found = find(&facts);
    assert_eq!((found.findings[0].id, found.suspects.len()), (RuleId::SilentRuntime, 0));
}
