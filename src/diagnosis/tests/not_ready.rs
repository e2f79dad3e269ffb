//! Tests of the time at which the node becomes `NotReady`.

use std::time::Duration;

use super::scripted::{Behaviour, Scripted, container_id, inputs};
use super::travels::judge;
use crate::clock::Wall;
use crate::cri::{Error, Rpc};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::kubelet::MetricsReading;
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::report::{HealthReport, RuleId, Verdict};
use crate::diagnosis::{CallersPendingCall, gather};
use crate::kubelet::Metrics;

async fn evidence(script: Scripted) -> Evidence {
    gather(&inputs(script), &|_| ()).await
}

/// Returns how many seconds after the beginning of the run the node is `NotReady`, at the latest.
fn latest(evidence: &Evidence) -> f64 {
    let report = judge(evidence);
    assert_eq!(report.verdict, Verdict::Unhealthy, "{report:#?}");
    let Some(NotReady::AtLatest(at)) = report.not_ready() else { panic!("{report:#?}") };
    at.seconds_since(evidence.taken_at)
}

fn is_about(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 0.2, "{seconds} s, expected {expected} s");
}

/// The kubelet's last relist began this long before the run, according to metrics that were read this long before the run.
fn last_relist(evidence: &mut Evidence, relisted: u64, read: u64) {
    let before = |seconds| evidence.taken_at.minus(Duration::from_secs(seconds));
    let last_seen = Some(before(relisted).seconds_since(Wall::default()));
    let metrics = Metrics { last_seen, ..Metrics::default() };
    evidence.kubelet.first = Some(MetricsReading { at: before(read), metrics });
}

#[tokio::test(start_paused = true)]
async fn a_silent_runtime_holds_up_the_update_of_the_nodes_status_until_its_call_times_out() {
    let mut evidence = evidence(Scripted::with_pods(3).on(Rpc::Version, Behaviour::Hangs)).await;
    is_about(latest(&evidence), 120.0 + 10.4);
    evidence.settings.request_timeout.value = Duration::from_secs(240);
    is_about(latest(&evidence), 240.0 + 10.4);
    // With a short time-out, the first updates come before the runtime counts as down.
    evidence.settings.request_timeout.value = Duration::from_secs(15);
    is_about(latest(&evidence), 15.0 + 30.0 + 10.4);
    let estimate = judge(&evidence).estimate.unwrap();
    assert!(estimate.would_trip && estimate.hung_calls == 1, "{estimate:?}");
    assert_eq!(
        (estimate.serial_relist_seconds, estimate.full_relist_seconds),
        (None, None),
        "nothing was measured"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_runtime_counts_as_down_after_half_a_minute() {
    let why = Error::Refused { endpoint: "unix:///run/test.sock".into() };
    let mut dead = evidence(Scripted::with_pods(3).on(Rpc::Version, Behaviour::Fails(why))).await;
    is_about(latest(&dead), 30.0 + 10.4);
    dead.settings.status_period = Duration::from_secs(60);
    is_about(latest(&dead), 30.0 + 60.0);
    let no_status = evidence(Scripted::with_pods(3).on(Rpc::Status, Behaviour::Hangs)).await;
    is_about(latest(&no_status), 30.0 + 10.4);
}

#[tokio::test(start_paused = true)]
async fn a_hung_list_makes_the_node_notready_a_threshold_after_the_last_relist() {
    let mut evidence = evidence(Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::Hangs)).await;
    is_about(latest(&evidence), 180.0 + 10.4);
    last_relist(&mut evidence, 1, 0);
    // The metric has whole seconds.
    assert!((latest(&evidence) - (180.0 + 10.4 - 1.0)).abs() < 1.1, "{}", latest(&evidence));
    // After a reading from before the hang, the kubelet may have relisted again.
    last_relist(&mut evidence, 41, 40);
    is_about(latest(&evidence), 180.0 + 10.4);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_start_of_the_call_that_the_caller_still_waits_for() {
    let mut inputs = inputs(Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::Hangs));
    let waited = Duration::from_secs(100);
    inputs.callers_pending =
        vec![CallersPendingCall { rpc: Rpc::ListContainers, id: None, waited, ended: None }];
    is_about(latest(&gather(&inputs, &|_| ()).await), 180.0 + 10.4 - 100.0);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_fails_beside_a_hung_list_decides_because_it_is_reported_earlier() {
    let script =
        Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::Hangs).on(Rpc::Status, Behaviour::Hangs);
    let evidence = evidence(script).await;
    assert_eq!(judge(&evidence).primary.unwrap().id, RuleId::HungList);
    is_about(latest(&evidence), 30.0 + 10.4);
}

fn since(report: &HealthReport) -> Option<String> {
    match report.not_ready()? {
        NotReady::Since(at) => Some(at.whole_seconds()),
        NotReady::AtLatest(_) => None,
    }
}

/// Lines that a kubelet 1.36.2 logged while its runtime was stopped.
#[tokio::test(start_paused = true)]
async fn the_kubelets_message_that_the_node_became_not_ready_has_the_time() {
    const BECAME: &str = r#"kubelet[9]: I1126 15:05:55.859322 29539 setters.go:547] "Node became not ready" node="n1" condition={"type":"Ready","status":"False","reason":"KubeletNotReady","message":"container runtime is down"}"#;
    const SKIPS: &str = r#"kubelet[9]: E1126 15:05:56.222721 29539 kubelet.go:2661] "Skipping pod synchronization" err="container runtime is down""#;
    const READY: &str = r#"kubelet[9]: I1126 15:06:43.897294 29539 kubelet_node_status.go:689] "Recording event message for node" node="n1" event="NodeReady""#;
    let hung = Scripted::with_pods(3).on(Rpc::Version, Behaviour::Hangs);
    let mut evidence = evidence(hung).await;
    evidence.taken_at = Wall::from_nanos(0).plus(Duration::from_secs(1_700_000_400));
    let mut at = |lines: &[(u32, &str)]| {
        let lines = lines.iter().map(|(second, line)| format!("1700000{second:03}.0 n1 {line}\n"));
        evidence.journal = Some(Journal::of(&lines.collect::<String>()));
        since(&judge(&evidence))
    };
    let known = Some("2023-11-14T22:15:20Z".to_owned());
    // The kubelet's loop may wait for a call of its own when the node becomes not ready.
    assert_eq!(at(&[(120, BECAME), (230, SKIPS), (380, SKIPS)]), known);
    assert_eq!(at(&[(20, SKIPS), (120, BECAME), (390, BECAME)]), Some("2023-11-14T22:19:50Z".to_owned()));
    assert_eq!(at(&[(120, BECAME), (230, SKIPS), (360, SKIPS)]), None, "the last message is old");
    assert_eq!(at(&[(120, BECAME), (140, READY), (380, SKIPS)]), None, "it became ready again");
    assert_eq!(at(&[(120, BECAME), (140, SKIPS), (380, SKIPS)]), None, "the kubelet worked in between");
}

#[tokio::test(start_paused = true)]
async fn a_predicted_time_is_never_replaced_by_a_later_one() {
    let hung = Scripted::with_pods(3)
        .on_id(container_id(1), Behaviour::Hangs)
        .on_id(container_id(2), Behaviour::Hangs);
    let evidence = evidence(hung).await;
    let mut report = judge(&evidence);
    let Some(NotReady::AtLatest(at)) = report.not_ready() else { panic!("{report:#?}") };
    let before = report.clone();
    report.keep_prediction(at.plus(Duration::from_secs(1)));
    assert_eq!(report, before);
    let earlier = at.minus(Duration::from_secs(120));
    report.keep_prediction(earlier);
    assert_eq!(report.not_ready(), Some(NotReady::AtLatest(earlier)));
    let time = earlier.time_of_day(report.taken_at);
    assert!(
        report.summary.contains(&format!(": NotReady at the latest at {time} (in ")),
        "{}",
        report.summary
    );
    // A known time is not a prediction.
    report.set_not_ready(NotReady::Since(at), at);
    report.keep_prediction(earlier);
    assert_eq!(report.not_ready(), Some(NotReady::Since(at)));
}
