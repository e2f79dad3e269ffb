//! Rows about the kubelet and the journal: what a healthy runtime was asked, with a kubelet's words added.

use std::time::Duration;

use super::scripted::{Behaviour, Scripted, container_id, inputs};
use crate::clock::Wall;
use crate::diagnosis::commands::Journal;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::kubelet::{Healthz, Reading};
use crate::diagnosis::report::{Confidence, Finding, HealthReport, Phase, RuleId, Severity, Verdict};
use crate::diagnosis::{gather, judge};
use crate::kubelet::Metrics;

async fn healthy() -> Evidence {
    gather(&inputs(Scripted::with_pods(3)), &|_| ()).await
}

fn reading(at: u64, last_seen: f64) -> Reading {
    Reading {
        at: Wall::from_nanos(0).plus(Duration::from_secs(at)),
        metrics: Metrics { last_seen: Some(last_seen), ..Metrics::default() },
    }
}

fn find(report: &HealthReport, id: RuleId) -> Option<&Finding> {
    report.findings.iter().find(|finding| finding.id == id)
}

#[tokio::test(start_paused = true)]
async fn a_stale_kubelet_beside_a_healthy_runtime_is_d22() {
    let mut evidence = healthy().await;
    evidence.kubelet.first = Some(reading(1000, 900.0));
    evidence.kubelet.second = Some(reading(1005, 900.0));
    let report = judge(&evidence);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(
        (primary.id, primary.confidence, report.phase),
        (RuleId::D22, Confidence::Likely, Phase::Kubelet)
    );
    assert_eq!(report.verdict, Verdict::Degraded, "the runtime is not at fault");
    assert_eq!(report.kubelet.unwrap().pleg_age_seconds, Some(105.0));
}

#[tokio::test(start_paused = true)]
async fn one_reading_a_recovery_or_evented_pleg_are_no_d22() {
    let mut once = healthy().await;
    once.kubelet.first = Some(reading(1000, 900.0));
    assert!(find(&judge(&once), RuleId::D22).is_none());

    let mut recovered = healthy().await;
    recovered.kubelet.first = Some(reading(1000, 900.0));
    recovered.kubelet.second = Some(reading(1005, 1004.0));
    assert!(find(&judge(&recovered), RuleId::D22).is_none());

    let mut evented = healthy().await;
    evented.kubelet.first = Some(reading(1000, 900.0));
    evented.kubelet.second = Some(reading(1005, 900.0));
    evented.kubelet.config.evented = Some(true);
    let report = judge(&evented);
    assert!(find(&report, RuleId::D22).is_none());
    assert_eq!(find(&report, RuleId::D23).unwrap().severity, Severity::Info);
    assert_eq!(report.verdict, Verdict::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_late_by_one_time_out_makes_the_hidden_stall_certain() {
    let mut evidence =
        gather(&inputs(Scripted::with_pods(3).on_id(container_id(1), Behaviour::Hangs)), &|_| ()).await;
    assert_eq!(find(&judge(&evidence), RuleId::D28).unwrap().confidence, Confidence::Likely);
    evidence.kubelet.first = Some(reading(1000, 900.0));
    assert_eq!(find(&judge(&evidence), RuleId::D28).unwrap().confidence, Confidence::Certain);
}

#[tokio::test(start_paused = true)]
async fn a_failing_healthz_is_the_kubelets_fault() {
    let mut evidence = healthy().await;
    evidence.kubelet.healthz = Some(Healthz::Failing { status: 500, text: "[-]syncloop failed".into() });
    let report = judge(&evidence);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::D32, Confidence::Certain));
    assert_eq!((report.verdict, report.phase), (Verdict::Degraded, Phase::Kubelet));
    assert!(primary.evidence[0].contains("syncloop"));

    evidence.kubelet.healthz = Some(Healthz::Refused);
    assert!(find(&judge(&evidence), RuleId::D32).is_none(), "no process table, so nobody is missed");
}

fn journal(lines: &[&str]) -> Journal {
    let stamped: Vec<String> =
        lines.iter().enumerate().map(|(at, line)| format!("{}.0 n1 {line}", 1000 + at)).collect();
    Journal::of(&stamped.join("\n"))
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_flaps_is_read_as_time_outs() {
    let line = |age: &str| {
        format!("kubelet[1]: PLEG is not healthy: pleg was last seen active {age} ago; threshold is 3m0s")
    };
    let (one, two) = (line("3m5s"), line("4m1s"));
    let mut evidence = healthy().await;
    evidence.journal = Some(journal(&[&one, &two, &one, &two]));
    let report = judge(&evidence);
    let found = find(&report, RuleId::D25).unwrap();
    assert!(
        found.evidence.iter().any(|line| line.starts_with("about 2 calls of 2m00s")),
        "{:?}",
        found.evidence
    );
}

#[tokio::test(start_paused = true)]
async fn a_recovery_without_an_end_outranks_a_runtime_that_is_not_reached() {
    let why = crate::cri::Error::Refused { endpoint: "unix:///run/test.sock".into() };
    let script = Scripted::with_pods(1).on(crate::cri::Rpc::Version, Behaviour::Fails(why));
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    assert_eq!(judge(&evidence).primary.unwrap().id, RuleId::D06);
    evidence.journal = Some(journal(&["containerd[1]: msg=\"Start recovering state\""]));
    let report = judge(&evidence);
    assert_eq!((report.verdict, report.phase), (Verdict::Unhealthy, Phase::Connect));
    assert_eq!(report.primary.unwrap().id, RuleId::D21);
}

#[tokio::test(start_paused = true)]
async fn a_reserved_name_names_its_holder_and_no_conflict() {
    let mut evidence = healthy().await;
    let holder = container_id(2);
    let line = format!(
        "containerd[1]: failed to reserve container name app_web-2: name \"app\" is reserved for \"{holder}\""
    );
    evidence.journal = Some(journal(&[&line]));
    let report = judge(&evidence);
    let found = find(&report, RuleId::D18).unwrap();
    assert_eq!(found.ids, [holder]);
    assert_eq!(found.pod.as_ref().unwrap().to_string(), "default/web-2");
    assert!(!found.title.contains("conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_never_relisted_is_told_with_what_is_under_it() {
    let too_large = crate::cri::Error::TooLarge {
        rpc: crate::cri::Rpc::ListContainers,
        message: "larger than max (2 vs. 1)".into(),
    };
    let script = Scripted::with_pods(2).on(crate::cri::Rpc::ListContainers, Behaviour::Fails(too_large));
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    evidence.journal = Some(journal(&["kubelet[1]: PLEG is not healthy: pleg has yet to be successful"]));
    let report = judge(&evidence);
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::D03);
    assert_eq!(find(&report, RuleId::D24).unwrap().phase, Phase::Kubelet);
}
