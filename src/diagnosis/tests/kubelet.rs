//! Tests of the rules about the kubelet and the journal. Each test takes the evidence of a healthy runtime and adds answers
//! of a kubelet or lines of a journal.

use std::time::Duration;

use super::scripted::{Behaviour, Scripted, container_id, inputs};
use super::travels::judge;
use crate::clock::Wall;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gather;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::kubelet::{Healthz, MetricsReading};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Phase, RuleId, Severity, Verdict};
use crate::kubelet::{KubeletVersion, Metrics};

async fn healthy() -> Evidence {
    gather(&inputs(Scripted::with_pods(3)), &|_| ()).await
}

fn reading(at: u64, last_seen: f64) -> MetricsReading {
    MetricsReading {
        at: Wall::from_nanos(0).plus(Duration::from_secs(at)),
        metrics: Metrics { last_seen: Some(last_seen), ..Metrics::default() },
    }
}

fn find(report: &HealthReport, id: RuleId) -> Option<&HealthFinding> {
    report.findings.iter().find(|finding| finding.id == id)
}

#[tokio::test(start_paused = true)]
async fn an_old_relist_with_a_healthy_runtime_is_d22() {
    let mut evidence = healthy().await;
    evidence.kubelet.first = Some(reading(1000, 900.0));
    evidence.kubelet.second = Some(reading(1005, 900.0));
    let report = judge(&evidence);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(
        (primary.id, primary.confidence, report.phase),
        (RuleId::StaleKubelet, Confidence::Likely, Phase::Kubelet)
    );
    assert_eq!(report.verdict, Verdict::Degraded, "the runtime is not at fault");
    assert_eq!(report.kubelet.unwrap().pleg_age_seconds, Some(105.0));
}

#[tokio::test(start_paused = true)]
async fn a_falling_age_evented_pleg_or_one_reading_below_the_threshold_is_no_d22() {
    let mut near = healthy().await;
    near.kubelet.first = Some(reading(1000, 821.0));
    let report = judge(&near);
    assert!(
        find(&report, RuleId::StaleKubelet).is_none(),
        "179 s are below the threshold, and nothing shows that it grows"
    );
    assert_eq!(report.verdict, Verdict::Healthy);
    let disagreements = report.kubelet.unwrap().disagreements;
    assert!(disagreements[0].contains("2m59s old"), "{disagreements:?}");

    let mut recovered = healthy().await;
    recovered.kubelet.first = Some(reading(1000, 900.0));
    recovered.kubelet.second = Some(reading(1005, 1004.0));
    assert!(find(&judge(&recovered), RuleId::StaleKubelet).is_none());

    let mut evented = healthy().await;
    evented.kubelet.first = Some(reading(1000, 300.0));
    evented.kubelet.config.evented = Some(true);
    let report = judge(&evented);
    assert!(find(&report, RuleId::StaleKubelet).is_none());
    assert_eq!(find(&report, RuleId::EventedPleg).unwrap().severity, Severity::Info);
    assert_eq!(report.verdict, Verdict::Healthy);

    // From 1.37 on the event stream is only a hint, and the kubelet relists every second, so the age counts again.
    evented.settings.kubelet.value = KubeletVersion::parse("1.37").unwrap();
    let report = judge(&evented);
    assert_eq!(report.verdict, Verdict::Unhealthy);
    assert!(find(&report, RuleId::StaleKubelet).is_some());
    let fact = &find(&report, RuleId::EventedPleg).unwrap().evidence;
    assert!(fact[0].contains("a hint") && fact[0].contains("according to its code"), "{fact:?}");
}

#[tokio::test(start_paused = true)]
async fn one_reading_with_an_age_over_the_threshold_makes_the_node_unhealthy() {
    let mut evidence = healthy().await;
    evidence.kubelet.first = Some(reading(1000, 371.0));
    evidence.kubelet.healthz = Some(Healthz::Ok);
    let report = judge(&evidence);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::StaleKubelet, Confidence::Certain));
    assert_eq!((report.verdict, report.phase), (Verdict::Unhealthy, Phase::Kubelet));
    assert_eq!(
        report.summary,
        "the kubelet's last relist is 10m29s old, over its threshold of 3m00s: NotReady since 1970-01-01 \
         00:09:11 UTC"
    );
    let estimate = report.estimate.as_ref().unwrap();
    assert_eq!((estimate.not_ready_at, estimate.not_ready_since), (None, Some(reading(551, 0.0).at)));
    let disagreements = report.kubelet.unwrap().disagreements;
    assert_eq!(disagreements.len(), 2, "the runtime answers well, and /healthz is ok: {disagreements:?}");

    // If a call hangs, the hang is the primary finding, and D22 remains.
    let hung = Scripted::with_pods(3).on_id(container_id(1), Behaviour::Hangs);
    let mut evidence = gather(&inputs(hung), &|_| ()).await;
    evidence.kubelet.first = Some(reading(1000, 371.0));
    let report = judge(&evidence);
    assert_eq!(
        (report.verdict, report.primary.as_ref().unwrap().id),
        (Verdict::Unhealthy, RuleId::HungStatus)
    );
    assert!(find(&report, RuleId::StaleKubelet).is_some());
    assert!(report.summary.contains(": NotReady since 1970-01-01 00:09:11 UTC"), "{}", report.summary);
}

/// On a node that is `NotReady` already, a later run shows the same time.
#[tokio::test(start_paused = true)]
async fn the_time_of_notready_is_taken_from_the_kubelets_messages_and_does_not_move() {
    let hung = Scripted::with_pods(3).on(crate::cri::Rpc::ListContainers, Behaviour::Hangs);
    let mut evidence = gather(&inputs(hung), &|_| ()).await;
    for (later, age) in [(0, 190.0), (25, 215.0)] {
        evidence.taken_at = reading(1_700_000_000 + later, 0.0).at;
        let logged = 1_700_000_000.0 + f64::from(u32::try_from(later).unwrap());
        evidence.journal =
            Some(Journal { lines: 1, last_pleg_message: Some((logged, age)), ..Journal::default() });
        let report = judge(&evidence);
        assert!(report.summary.ends_with(": NotReady since 22:13:10 UTC"), "{}", report.summary);
        assert!(report.estimate.unwrap().not_ready_at.is_none());
    }
    // A message of the time before the kubelet relisted again does not count.
    evidence.taken_at = reading(1_700_000_100, 0.0).at;
    let report = judge(&evidence);
    assert!(report.summary.contains(": NotReady at the latest at "), "{}", report.summary);
}

#[tokio::test(start_paused = true)]
async fn the_summary_has_the_time_of_notready_by_the_kubelets_last_relist() {
    let hung = Scripted::with_pods(3).on(crate::cri::Rpc::ListContainers, Behaviour::Hangs);
    let mut evidence = gather(&inputs(hung), &|_| ()).await;
    (evidence.taken_at, evidence.took) = (reading(1000, 0.0).at, Duration::from_secs(6));
    evidence.kubelet.first = Some(reading(1000, 996.0));
    let report = judge(&evidence);
    let time = ": NotReady at the latest at 00:19:46 UTC (in 3m00s)";
    assert!(report.summary.ends_with(time), "{}", report.summary);
    let at = reading(1186, 0.0).at.plus(Duration::from_millis(400));
    assert_eq!(report.estimate.as_ref().unwrap().not_ready_at, Some(at));
    assert!(report.kubelet.unwrap().disagreements[0].contains("although a call of plegctl is not answered"));
}

#[tokio::test(start_paused = true)]
async fn metrics_from_a_file_are_as_old_as_the_file() {
    let mut inputs = inputs(Scripted::with_pods(3));
    let now = inputs.clock.wall();
    let hour_ago = Wall::from_nanos(now.nanos() - 3_600_000_000_000);
    let last_seen = |seconds_before: i64| {
        format!("kubelet_pleg_last_seen_seconds {}\n", hour_ago.nanos() / 1_000_000_000 - seconds_before)
    };
    for (age, verdict) in [(2, Verdict::Healthy), (629, Verdict::Unhealthy)] {
        inputs.kubelet.metrics = Some(crate::diagnosis::MetricsSource::Text {
            name: "m.txt".into(),
            text: last_seen(age),
            written: Some(hour_ago),
        });
        let report = judge(&gather(&inputs, &|_| ()).await);
        assert_eq!(report.verdict, verdict, "{report:#?}");
        assert!(
            report.not_checked.iter().any(|skipped| skipped.why == "`m.txt` was written 60m00s ago"),
            "{report:#?}"
        );
        let kubelet = report.kubelet.unwrap();
        assert!((kubelet.reading_age_seconds.unwrap() - 3600.0).abs() < 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_is_late_by_one_time_out_makes_d28_certain() {
    let mut evidence =
        gather(&inputs(Scripted::with_pods(3).on_id(container_id(1), Behaviour::Hangs)), &|_| ()).await;
    assert_eq!(find(&judge(&evidence), RuleId::HiddenStall).unwrap().confidence, Confidence::Likely);
    evidence.kubelet.first = Some(reading(1000, 900.0));
    assert_eq!(find(&judge(&evidence), RuleId::HiddenStall).unwrap().confidence, Confidence::Certain);
}

#[tokio::test(start_paused = true)]
async fn a_failing_healthz_is_d32() {
    let mut evidence = healthy().await;
    evidence.kubelet.healthz = Some(Healthz::Failing { status: 500, text: "[-]syncloop failed".into() });
    let report = judge(&evidence);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::KubeletDown, Confidence::Certain));
    assert_eq!((report.verdict, report.phase), (Verdict::Degraded, Phase::Kubelet));
    assert!(primary.evidence[0].contains("syncloop"));

    evidence.kubelet.healthz = Some(Healthz::Refused);
    assert!(
        find(&judge(&evidence), RuleId::KubeletDown).is_none(),
        "without a process table, no kubelet is missing"
    );
}

/// A watchdog counts only if the kubelet is young and its PLEG was not healthy: it restarts a kubelet for other reasons too.
#[tokio::test(start_paused = true)]
async fn a_watchdog_that_restarts_the_kubelet_hides_the_cause() {
    let sick = "kubelet[1]: PLEG is not healthy: pleg was last seen active 3m5s ago; threshold is 3m0s";
    let dog = "node-problem-detector[7]: health checker: kubelet is unhealthy, restarting kubelet";
    let mut evidence = healthy().await;
    evidence.kubelet.age = Some(Duration::from_secs(60));
    evidence.journal = Some(journal(&[sick, dog]));
    let report = judge(&evidence);
    let found = find(&report, RuleId::WatchdogRestarts).unwrap();
    assert_eq!((found.confidence, report.verdict), (Confidence::Likely, Verdict::Degraded));
    assert!(found.evidence.iter().any(|line| line.contains("health checker")), "{found:#?}");

    evidence.journal = Some(journal(&[dog]));
    assert!(find(&judge(&evidence), RuleId::WatchdogRestarts).is_none(), "PLEG was healthy");
    evidence.journal = Some(journal(&[sick, dog]));
    evidence.kubelet.age = Some(Duration::from_secs(86_400));
    assert!(find(&judge(&evidence), RuleId::WatchdogRestarts).is_none(), "the kubelet is old");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_a_known_fault_is_named_and_the_release_that_mends_it_is_not() {
    let mut evidence = healthy().await;
    for (version, has_fault) in [("1.7.16", true), ("1.7.35", false), ("v2.1.4-k3s1", true), ("2.1.9", false)]
    {
        let answer = evidence.runtime.version.as_mut().unwrap().result.as_mut().unwrap();
        version.clone_into(&mut answer.runtime_version);
        let report = judge(&evidence);
        assert_eq!(find(&report, RuleId::KnownBadVersion).is_some(), has_fault, "{version}");
        assert_eq!(report.verdict, Verdict::Healthy, "a fault that may happen is no problem of this node");
    }
}

pub(super) fn journal(lines: &[&str]) -> Journal {
    let stamped: Vec<String> =
        lines.iter().enumerate().map(|(at, line)| format!("{}.0 n1 {line}", 1000 + at)).collect();
    Journal::of(&stamped.join("\n"))
}

#[tokio::test(start_paused = true)]
async fn ages_in_the_journal_that_rise_and_fall_are_d25() {
    let line = |age: &str| {
        format!("kubelet[1]: PLEG is not healthy: pleg was last seen active {age} ago; threshold is 3m0s")
    };
    let (one, two) = (line("3m5s"), line("4m1s"));
    let mut evidence = healthy().await;
    evidence.journal = Some(journal(&[&one, &two, &one, &two]));
    let report = judge(&evidence);
    let found = find(&report, RuleId::FlappingPleg).unwrap();
    assert!(
        found.evidence.iter().any(|line| line.starts_with("about 2 calls of 2m00s")),
        "{:?}",
        found.evidence
    );
}

#[tokio::test(start_paused = true)]
async fn a_recovery_without_an_end_comes_before_a_runtime_that_cannot_be_reached() {
    let why = crate::cri::Error::Refused { endpoint: "unix:///run/test.sock".into() };
    let script = Scripted::with_pods(1).on(crate::cri::Rpc::Version, Behaviour::Fails(why));
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    assert_eq!(judge(&evidence).primary.unwrap().id, RuleId::UnreachableRuntime);
    evidence.journal = Some(journal(&["containerd[1]: msg=\"Start recovering state\""]));
    let report = judge(&evidence);
    assert_eq!((report.verdict, report.phase), (Verdict::Unhealthy, Phase::Connect));
    assert_eq!(report.primary.unwrap().id, RuleId::RecoveringRuntime);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_a_person_restarts_is_no_finding_and_one_that_ends_twice_is_d21() {
    let mut evidence = healthy().await;
    let start =
        "containerd[1]: time=\"2026-11-28T00:57:12Z\" level=info msg=\"starting containerd\" version=2.1.9";
    let again = "systemd[1]: containerd.service: Scheduled restart job, restart counter is at 1.";
    let of_kubelet = "systemd[1]: kubelet.service: Scheduled restart job, restart counter is at 2.";
    for (lines, expected) in [
        (vec![start; 4], None),
        (vec![start, again, start], None),
        (vec![start, again, of_kubelet, start], None),
        (vec![again, start, again, start], Some(2)),
    ] {
        evidence.journal = Some(journal(&lines));
        let report = judge(&evidence);
        let found = find(&report, RuleId::RecoveringRuntime);
        assert_eq!(found.is_some(), expected.is_some(), "{lines:?}");
        let words =
            "it has ended by itself, and systemd has started it again, 2 times within the last 15 minutes";
        assert!(found.is_none_or(|found| found.evidence == [words]), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_never_relisted_is_reported_after_the_cause() {
    let too_large = crate::cri::Error::TooLarge {
        rpc: crate::cri::Rpc::ListContainers,
        message: "larger than max (2 vs. 1)".into(),
    };
    let script = Scripted::with_pods(2).on(crate::cri::Rpc::ListContainers, Behaviour::Fails(too_large));
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    evidence.journal = Some(no_relist_yet(&evidence, &[(1, 20), (1, 15), (1, 10), (1, 5), (1, 0)]));
    let report = judge(&evidence);
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::LargeList);
    assert_eq!(find(&report, RuleId::NeverRelisted).unwrap().phase, Phase::Kubelet);
}

/// Returns the journal of kubelets that say, so many seconds ago, that no relist has succeeded.
fn no_relist_yet(evidence: &Evidence, said: &[(u32, u64)]) -> Journal {
    let now = evidence.taken_at.duration_since(Wall::default()).as_secs();
    let line = |(pid, ago): &(u32, u64)| {
        let at = now - ago;
        format!("{at}.0 n1 kubelet[{pid}]: PLEG is not healthy: pleg has yet to be successful")
    };
    Journal::of(&said.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Lines of a kubelet 1.36.2 that was restarted while the shim of a pod was stopped: its start waits for each container of the
/// shim, and the node stays Ready.
#[tokio::test(start_paused = true)]
async fn a_kubelet_whose_start_waits_works_for_no_pod() {
    const WAITS: &str = "container runtime status check may not have completed yet";
    let mut evidence = healthy().await;
    let now = evidence.taken_at.duration_since(Wall::default()).as_secs();
    let mut judged = |said: &[(u32, u64)], words: &str| {
        let line = |(pid, ago): &(u32, u64)| {
            let words = format!("\"Skipping pod synchronization\" err=\"{words}\"");
            format!("{}.0 n1 kubelet[{pid}]: E1128 03:58:28.646187 4586 kubelet.go:2661] {words}", now - ago)
        };
        evidence.journal = Some(Journal::of(&said.iter().map(line).collect::<Vec<_>>().join("\n")));
        judge(&evidence)
    };
    let report = judged(&[(1, 65), (1, 30), (1, 5)], WAITS);
    let found = find(&report, RuleId::ReadyAndDead).unwrap();
    assert_eq!((report.verdict, found.confidence), (Verdict::Unhealthy, Confidence::Certain), "{report:#?}");
    assert_eq!(
        found.title,
        "the kubelet starts and ends no pod: for 60s, its start has waited to read the containers"
    );
    assert_eq!(report.not_ready(), None, "the node stays Ready");
    for (said, words) in [
        (&[(1, 40), (1, 5)][..], WAITS),
        (&[(1, 80), (1, 12)], WAITS),
        (&[(1, 80), (2, 40), (2, 1)], WAITS),
        // Its relists do not succeed either, which other rules report.
        (
            &[(1, 80), (1, 1)],
            "[container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]",
        ),
        (&[(1, 80), (1, 1)], "container runtime is down"),
    ] {
        assert!(find(&judged(said, words), RuleId::ReadyAndDead).is_none(), "{said:?} {words}");
    }
    let said = [(1, 65), (1, 30), (1, 5)];
    assert!(find(&judged(&said, WAITS), RuleId::ReadyAndDead).is_some());
    let status = evidence.runtime.status.as_mut().and_then(|call| call.result.as_mut().ok()).unwrap();
    status.conditions.clear();
    assert!(find(&judge(&evidence), RuleId::ReadyAndDead).is_none(), "it waits for the runtime");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_has_relisted_after_its_start_is_healthy() {
    let mut evidence = healthy().await;
    let is_found = |evidence: &Evidence| find(&judge(evidence), RuleId::NeverRelisted).is_some();
    let lasting = [(7, 20), (7, 10), (7, 0)];
    for said in [&[(7, 0)][..], &[(7, 1), (7, 0)], &[(7, 100), (7, 90), (7, 60)], &[(7, 20), (8, 0)]] {
        evidence.journal = Some(no_relist_yet(&evidence, said));
        assert!(!is_found(&evidence), "{said:?}");
    }
    evidence.journal = Some(no_relist_yet(&evidence, &lasting));
    assert!(is_found(&evidence));
    evidence.kubelet.first = Some(reading(7, 5.0));
    assert!(!is_found(&evidence), "its metrics show a relist");
}
