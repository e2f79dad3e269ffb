//! Tests that `health` distinguishes slow calls from hung calls: a late answer is reported with its time, and a silence with
//! a confidence that depends on its length.

use std::sync::Arc;
use std::time::Duration;

use super::scripted::{Behaviour, Scripted, container_id, inputs, sandbox_id};
use super::travels::judge;
use crate::cri::{Outcome, Rpc};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Phase, RuleId, Verdict};
use crate::diagnosis::{CallEnd, CallersAbandonedCall, CallersPendingCall, Inputs, gather};
use crate::kubelet::{KubeletVersion, ListCalls};

async fn diagnose(inputs: &Inputs<Scripted>) -> HealthReport {
    judge(&gather(inputs, &|_| ()).await)
}

fn late(millis: u64) -> Behaviour {
    Behaviour::After(Duration::from_millis(millis))
}

fn find(report: &HealthReport, id: RuleId) -> Option<&HealthFinding> {
    report.findings.iter().find(|finding| finding.id == id)
}

/// Asserts verdict and primary finding, that no call is silent, and that no text says that something hangs.
#[track_caller]
fn assert_slow(report: &HealthReport, verdict: Verdict, primary: RuleId) {
    let first = report.primary.as_ref().map(|primary| primary.id);
    assert_eq!((report.verdict, first), (verdict, Some(primary)), "{report:#?}");
    assert_eq!(report.abandoned_calls, 0, "{report:#?}");
    assert!(!report.estimate.as_ref().unwrap().would_trip);
    for finding in &report.findings {
        assert!(
            !matches!(
                finding.id,
                RuleId::HungStatus | RuleId::HungList | RuleId::SilentRuntime | RuleId::HiddenStall
            ),
            "{finding:#?}"
        );
        let steps: Vec<String> = finding.steps.iter().map(ToString::to_string).collect();
        for line in finding.evidence.iter().chain(&steps).chain([&finding.title]) {
            let is_about_a_hang = |word: &str| word.starts_with("hang") || word.starts_with("hung");
            assert!(!line.split(' ').any(is_about_a_hang) && !line.contains("delete this"), "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_status_calls_are_reported_as_slow_with_their_time() {
    for (count, millis) in [(1, 3500), (4, 3500), (1, 6000), (1, 9500)] {
        // An old kubelet makes each slow call twice in a relist, but this does not change the verdict.
        for release in ["1.30", "1.36"] {
            let script = (0..count).fold(Scripted::with_pods(60), |script, pod| {
                script.on_id(container_id(pod * 13), late(millis))
            });
            let mut inputs = inputs(script);
            inputs.kubelet.version = Some(KubeletVersion::parse(release).unwrap());
            let report = diagnose(&inputs).await;
            assert_slow(&report, Verdict::Degraded, RuleId::SlowStatuses);
            let primary = report.primary.as_ref().unwrap();
            assert_eq!(primary.confidence, Confidence::Certain);
            assert_eq!(primary.ids.len(), count, "{primary:#?}");
            let time = format!("answered after {:.1} s", f64::from(u32::try_from(millis).unwrap()) / 1000.0);
            assert!(primary.title.contains(&time), "{}", primary.title);
            for pod in 0..count {
                let calls = inputs.runtime.times_called(Rpc::ContainerStatus, &container_id(pod * 13));
                assert_eq!(calls, 1, "a slow call is made once");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_is_d30_and_all_status_calls_are_made() {
    for (rpc, millis) in [
        (Rpc::ListContainers, 4500),
        (Rpc::ListContainers, 6000),
        (Rpc::ListPodSandbox, 4500),
        (Rpc::ListPodSandbox, 9500),
    ] {
        let inputs = inputs(Scripted::with_pods(20).on(rpc, late(millis)));
        let report = diagnose(&inputs).await;
        assert_slow(&report, Verdict::Degraded, RuleId::SlowLists);
        let calls = report.probes.iter().filter_map(|probe| probe.calls).sum::<usize>();
        assert_eq!(calls, 40, "all status calls are made: {:#?}", report.probes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_version_or_status_does_not_change_the_verdict() {
    for millis in [2000, 4500, 8000] {
        let report = diagnose(&inputs(Scripted::with_pods(5).on(Rpc::Version, late(millis)))).await;
        assert_slow(&report, Verdict::Healthy, RuleId::NothingFound);
    }
    let report = diagnose(&inputs(Scripted::with_pods(5).on(Rpc::Status, late(6000)))).await;
    assert_slow(&report, Verdict::Healthy, RuleId::NothingFound);
}

#[tokio::test(start_paused = true)]
async fn a_hung_call_is_certain_within_13_seconds_and_likely_in_a_short_run() {
    let row = |patience: Option<u64>| {
        let mut inputs = inputs(Scripted::with_pods(60).on_id(container_id(31), Behaviour::Hangs));
        if let Some(patience) = patience {
            inputs.patience = Duration::from_secs(patience);
        }
        inputs
    };
    for (patience, confidence, at_most) in [
        (None, Confidence::Certain, 13.0),
        (Some(7), Confidence::Likely, 9.0),
        (Some(3), Confidence::Likely, 5.0),
    ] {
        let report = diagnose(&row(patience)).await;
        let primary = report.primary.as_ref().unwrap();
        assert_eq!((primary.id, primary.confidence), (RuleId::HungStatus, confidence), "{patience:?}");
        assert_eq!(report.phase, Phase::Status);
        assert!(report.duration_seconds <= at_most, "{patience:?}: {}", report.duration_seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_call_is_reported_before_slow_calls() {
    let script = Scripted::with_pods(60)
        .on_id(container_id(7), late(3740))
        .on_id(container_id(8), late(3740))
        .on_id(container_id(31), Behaviour::Hangs);
    let report = diagnose(&inputs(script)).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.ids.as_slice()), (RuleId::HungStatus, [container_id(31)].as_slice()));
    let slow = find(&report, RuleId::SlowStatuses).unwrap();
    assert_eq!(slow.ids.len(), 2);
    assert_eq!(report.verdict, Verdict::Degraded, "one hung pod is below the threshold");
}

#[tokio::test(start_paused = true)]
async fn with_npd_and_small_budgets_a_hang_is_likely() {
    let mut npd = inputs(Scripted::with_pods(20).on_id(sandbox_id(3), Behaviour::Hangs));
    npd.budget = Duration::from_secs(4);
    let report = diagnose(&npd).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungStatus, Confidence::Likely));
    assert!(report.duration_seconds <= 4.0);

    for budget in [1500, 2000] {
        let mut healthy = inputs(Scripted::with_pods(20));
        healthy.budget = Duration::from_millis(budget);
        assert_eq!(diagnose(&healthy).await.verdict, Verdict::Healthy, "{budget} ms");
        let mut sick = inputs(Scripted::with_pods(20).on(Rpc::ListContainers, Behaviour::Hangs));
        sick.budget = Duration::from_millis(budget);
        let report = diagnose(&sick).await;
        let primary = report.primary.as_ref().unwrap();
        assert_eq!((report.verdict, primary.id), (Verdict::Unhealthy, RuleId::HungList), "{budget} ms");
        assert_eq!(primary.confidence, Confidence::Likely);
        assert!(report.duration_seconds <= 2.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_made_late_in_a_short_run_is_no_culprit() {
    // The status calls take so long that the last of them begin shortly before the end of the run.
    let mut script = Scripted::with_pods(40);
    for pod in 0..40 {
        script = script.on_id(container_id(pod), late(1800));
    }
    let mut inputs = inputs(script);
    inputs.budget = Duration::from_secs(4);
    let report = diagnose(&inputs).await;
    assert!(find(&report, RuleId::HungStatus).is_none(), "{report:#?}");
    assert_ne!(report.verdict, Verdict::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_caller_that_is_answered_during_the_run_is_slow() {
    let (sender, ended) = tokio::sync::watch::channel(None);
    let mut inputs = inputs(Scripted::with_pods(5));
    inputs.callers_pending = vec![CallersPendingCall {
        rpc: Rpc::ContainerStatus,
        id: Some(container_id(1)),
        waited: Duration::from_secs(2),
        ended: Some(ended),
    }];
    let answer = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        sender.send(Some(CallEnd::Answered(Duration::from_secs(4)))).unwrap();
    };
    let (report, ()) = tokio::join!(diagnose(&inputs), answer);
    assert_slow(&report, Verdict::Degraded, RuleId::SlowStatuses);
    assert!(report.primary.unwrap().title.contains("answered after 4.0 s"));
}

#[tokio::test(start_paused = true)]
async fn progress_counts_the_answers_and_names_the_silent_call() {
    let inputs = inputs(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs));
    let (calls, clock) = (Arc::clone(&inputs.calls), Arc::clone(&inputs.clock));
    let began = clock.mono();
    let looks = async {
        let mut lines = Vec::new();
        while clock.mono().since(began) < Duration::from_secs(9) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lines.push(calls.line(clock.mono(), "step"));
        }
        lines
    };
    let (_, lines) = tokio::join!(gather(&inputs, &|_| ()), looks);
    let last = lines.last().unwrap();
    assert!(last.contains("calls ended; silent for ") && !last.starts_with("0 of"), "{lines:?}");
    let name = format!(": ContainerStatus of default/web-1/app ({})", &container_id(1)[..12]);
    assert!(last.ends_with(&name), "{lines:?}");
    assert!(lines.is_sorted_by(|one, other| one != other), "the time grows: {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn culprits_are_complete_and_sorted() {
    let why = crate::cri::Error::Runtime {
        rpc: Rpc::PodSandboxStatus,
        code: crate::cri::Code::Unknown,
        message: "busy".into(),
    };
    let script = Scripted::with_pods(20)
        .on_id(sandbox_id(1), Behaviour::Fails(why))
        .on_id(container_id(2), late(3000))
        .on_id(container_id(3), late(6000))
        .on_id(container_id(9), Behaviour::Hangs)
        .on_id(container_id(4), Behaviour::Hangs);
    let report = diagnose(&inputs(script)).await;
    let json = serde_json::to_value(&report.culprits).unwrap();
    let rows: Vec<(&str, &str)> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["pod"]["name"].as_str().unwrap(), row["outcome"].as_str().unwrap()))
        .collect();
    let silent = |rows: &[(&str, &str)]| rows.iter().all(|(_, outcome)| *outcome == "silent");
    assert!(rows.len() == 5 && silent(&rows[..2]), "{json:#}");
    assert_eq!(rows[2..], [("web-3", "slow"), ("web-2", "slow"), ("web-1", "error")]);
    assert_eq!(json[0]["rpc"], "ContainerStatus");
    assert_eq!(json[0]["container"]["name"], "app");
    assert_eq!(json[0]["confidence"], "certain");
    assert!(json[0]["waitedSeconds"].as_f64().unwrap() >= 10.0);
}

/// Returns the CPU time of a program that works all the time and therefore never could have read an answer.
fn endless_cpu_time() -> Duration {
    static STARTED: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    // A million times the real time is always more than the time that passes on tokio's paused clock.
    let started = STARTED.get_or_init(std::time::Instant::now);
    started.elapsed() * 1_000_000
}

#[tokio::test(start_paused = true)]
async fn a_silence_while_plegctl_itself_had_no_time_is_no_hang() {
    for script in [
        Scripted::with_pods(20).on_id(container_id(3), Behaviour::Hangs),
        Scripted::with_pods(20).on(Rpc::ListContainers, Behaviour::Hangs),
        Scripted::with_pods(20).on(Rpc::Version, Behaviour::Hangs),
        Scripted::with_pods(20).on(Rpc::Status, Behaviour::Hangs),
    ] {
        let mut inputs = inputs(script);
        inputs.cpu_time = || Some(endless_cpu_time());
        let report = diagnose(&inputs).await;
        assert_eq!(report.verdict, Verdict::Unknown, "{report:#?}");
        for finding in &report.findings {
            assert!(
                !matches!(
                    finding.id,
                    RuleId::HungStatus | RuleId::HungList | RuleId::SilentRuntime | RuleId::RuntimeNotReady
                ),
                "{finding:#?}"
            );
        }
        assert!(report.duration_seconds <= 30.0, "{}", report.duration_seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_caller_stops_returns_what_is_known_so_far() {
    let stopped_after = |script: Scripted, seconds: u64| async move {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut inputs = inputs(script);
        inputs.stop = Some(stopped);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            stop.send_replace(true);
        };
        let (report, ()) = tokio::join!(diagnose(&inputs), stop);
        let whole = f64::from(u32::try_from(seconds).unwrap());
        assert!(report.duration_seconds <= whole + 0.3, "{}", report.duration_seconds);
        assert_eq!(report.not_checked[0].what, "the rest");
        assert!(report.not_checked[0].why.starts_with("interrupted after "), "{report:#?}");
        report
    };
    // After 3 s the silence is too short for a hang, so the verdict is unknown.
    let hung = || Scripted::with_pods(20).on_id(container_id(3), Behaviour::Hangs);
    let early = stopped_after(hung(), 3).await;
    assert_eq!(early.verdict, Verdict::Unknown, "{early:#?}");
    assert_eq!(early.probes.iter().filter_map(|probe| probe.calls).sum::<usize>(), 39);
    assert_eq!(early.abandoned_calls, 1);
    // After 7 s the hang is likely.
    let late = stopped_after(hung(), 7).await;
    let primary = late.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungStatus, Confidence::Likely));
    assert_eq!(late.verdict, Verdict::Degraded);
    for rpc in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
        let early = stopped_after(Scripted::with_pods(3).on(rpc, Behaviour::Hangs), 1).await;
        assert_eq!(early.verdict, Verdict::Unknown, "{rpc}: {early:#?}");
        let silent = early.probes.iter().find(|probe| probe.name == rpc.name()).unwrap();
        assert_eq!(silent.outcome, crate::cri::Outcome::Silent, "{early:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_at_any_moment_reports_that_the_rest_is_not_checked() {
    // The moments of one interval between two checks of the pending call, with the stop polled before and after the run.
    for turn in 0..220 {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut inputs = inputs(Scripted::with_pods(20).on_id(container_id(3), Behaviour::Hangs));
        inputs.stop = Some(stopped);
        let stop = async {
            tokio::time::sleep(Duration::from_millis(3000 + turn / 2)).await;
            stop.send_replace(true);
        };
        let report = if turn % 2 == 0 {
            tokio::join!(stop, diagnose(&inputs)).1
        } else {
            tokio::join!(diagnose(&inputs), stop).0
        };
        assert_eq!(report.not_checked[0].what, "the rest", "{turn}: {report:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_answers_in_every_phase_are_slow() {
    // Version, Status, both lists, a sandbox and a container, all of them late in one run.
    let script = Scripted::with_pods(20)
        .on(Rpc::Version, late(2000))
        .on(Rpc::Status, late(6000))
        .on(Rpc::ListPodSandbox, late(1500))
        .on(Rpc::ListContainers, late(4500))
        .on_id(sandbox_id(4), late(3500))
        .on_id(container_id(9), late(6000));
    let report = diagnose(&inputs(script)).await;
    assert_slow(&report, Verdict::Degraded, RuleId::SlowStatuses);
    assert_eq!(find(&report, RuleId::SlowStatuses).unwrap().ids.len(), 2);
    // In a run with little patience, one late call in each phase is not a hang either.
    for patience in [3, 7] {
        for (rpc, millis) in [
            (Rpc::Version, 1200),
            (Rpc::Status, 1400),
            (Rpc::ListPodSandbox, 1400),
            (Rpc::ListContainers, 1400),
        ] {
            let mut inputs = inputs(Scripted::with_pods(5).on(rpc, late(millis)));
            inputs.patience = Duration::from_secs(patience);
            let report = diagnose(&inputs).await;
            assert_ne!(report.verdict, Verdict::Unhealthy, "{rpc} {patience}: {report:#?}");
            assert_eq!(report.abandoned_calls, 0, "{rpc} {patience}: {report:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_still_arriving_at_the_end_of_the_budget_is_not_silent() {
    let every = Duration::from_millis(90);
    for rpc in [Rpc::ListPodSandbox, Rpc::ListContainers] {
        for (budget, at_least) in [(2, 10), (30, 16)] {
            let mut inputs = inputs(Scripted::with_pods(3).on(rpc, Behaviour::Arrives(every, 10_000)));
            inputs.budget = Duration::from_secs(budget);
            let report = diagnose(&inputs).await;
            let probe = report.probes.iter().find(|probe| probe.name == rpc.name()).unwrap();
            assert_eq!((probe.outcome, report.abandoned_calls), (Outcome::Error, 0), "{report:#?}");
            assert!(probe.response_bytes >= Some(at_least << 20), "{probe:#?}");
            for finding in &report.findings {
                assert!(
                    !matches!(finding.id, RuleId::HungList | RuleId::SilentRuntime | RuleId::FailingList),
                    "{finding:#?}"
                );
                let lines = finding.evidence.iter().chain([&finding.title]);
                assert!(lines.into_iter().all(|line| !line.contains("not answer")), "{finding:#?}");
            }
            // More than 16 MiB is too much for the kubelet, however long the rest is.
            let over = probe.response_bytes > Some(16 << 20);
            assert_eq!(report.verdict, if over { Verdict::Unhealthy } else { Verdict::Unknown });
            if over {
                let primary = report.primary.as_ref().unwrap();
                assert_eq!(primary.id, RuleId::LargeList, "{primary:#?}");
                assert!(
                    primary.evidence.iter().all(|line| !line.contains("0 of 0 sandboxes")),
                    "{primary:#?}"
                );
                assert!(primary.title.contains(" MiB and more is over its 16 MiB"), "{}", primary.title);
            } else {
                let reason = format!("the answer to {rpc} did not arrive completely within");
                assert!(
                    report.not_checked.iter().any(|skipped| skipped.why.contains(&reason)),
                    "{report:#?}"
                );
                assert!(report.summary.contains(&reason), "{}", report.summary);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stops_arriving_is_silent_from_its_last_byte_on() {
    let stops = Behaviour::Arrives(Duration::from_millis(500), 6);
    let report = diagnose(&inputs(Scripted::with_pods(3).on(Rpc::ListContainers, stops))).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Unhealthy, RuleId::HungList), "{report:#?}");
    assert_eq!(primary.confidence, Confidence::Certain);
    // The list arrives for three seconds, and ten seconds of silence follow.
    assert!((12.5..15.0).contains(&report.duration_seconds), "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stops_arriving_is_the_same_hang_and_says_after_how_many_entries() {
    let stops = Behaviour::Arrives(Duration::from_millis(500), 6);
    let script = Scripted::with_pods(3).with_streams(Some(1000)).on(Rpc::StreamContainers, stops);
    let mut inputs = inputs(script);
    inputs.wanted_lists = Some(ListCalls::Stream);
    let report = diagnose(&inputs).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Unhealthy, RuleId::HungList), "{report:#?}");
    assert_eq!((primary.confidence, primary.rpc.as_deref()), (Confidence::Certain, Some("StreamContainers")));
    let stalled = "StreamContainers stalled after 6000 entries; the kubelet uses none of them".to_owned();
    assert!(primary.evidence.contains(&stalled), "{primary:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_still_arriving_is_no_culprit() {
    let arrives = Behaviour::Arrives(Duration::from_millis(100), 10_000);
    let mut inputs = inputs(Scripted::with_pods(20).on_id(container_id(7), arrives));
    inputs.budget = Duration::from_secs(20);
    let report = diagnose(&inputs).await;
    assert!(report.culprits.is_empty(), "{report:#?}");
    assert_eq!(report.verdict, Verdict::Unknown, "{report:#?}");
    assert!(find(&report, RuleId::HungStatus).is_none(), "{report:#?}");
}

/// Runs `health` and stops it after `length`.
async fn interrupted_after(mut inputs: Inputs<Scripted>, length: Duration) -> HealthReport {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    inputs.stop = Some(stopped);
    let interruption = async {
        tokio::time::sleep(length).await;
        stop.send_replace(true);
    };
    let (report, ()) = tokio::join!(diagnose(&inputs), interruption);
    report
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_reports_silent_calls_as_possible_and_has_no_estimate() {
    let script = Scripted::with_pods(20)
        .on_id(container_id(3), Behaviour::Hangs)
        .on_id(container_id(11), Behaviour::Hangs);
    let report = interrupted_after(inputs(script), Duration::from_millis(4500)).await;
    assert_eq!(report.verdict, Verdict::Unknown, "{report:#?}");
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungStatus, Confidence::Possible));
    let mut ids = primary.ids.clone();
    ids.sort();
    assert_eq!(ids, [container_id(3), container_id(11)]);
    assert_eq!(report.culprits.len(), 2, "{report:#?}");
    for culprit in &report.culprits {
        assert_eq!(culprit.confidence, Confidence::Possible);
        assert!((1.0..4.6).contains(&culprit.waited_seconds), "{culprit:#?}");
    }
    assert!(report.summary.contains("has not answered for"), "{}", report.summary);
    assert!(report.summary.contains("interrupted after"), "{}", report.summary);
    assert!(report.estimate.is_none(), "{report:#?}");
    assert!(!format!("{report:#?}").contains("stays Ready"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_reports_a_silent_list_but_no_call_of_half_a_second() {
    let script = Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::Hangs);
    let report = interrupted_after(inputs(script), Duration::from_secs(4)).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungList, Confidence::Possible));
    assert!(primary.title.starts_with("ListContainers has not answered for"), "{}", primary.title);
    // Half a second of silence is normal.
    let script = Scripted::with_pods(3).on_id(container_id(1), Behaviour::Hangs);
    let report = interrupted_after(inputs(script), Duration::from_millis(500)).await;
    assert!(report.culprits.is_empty() && report.primary.is_none(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_caller_gave_up_is_reported_and_not_repeated() {
    let mut inputs = inputs(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs));
    inputs.callers_abandoned = vec![CallersAbandonedCall {
        rpc: Rpc::ContainerStatus,
        id: Some(container_id(1)),
        waited: Duration::from_secs(2),
    }];
    let (sender, ended) = tokio::sync::watch::channel(None);
    inputs.callers_pending = vec![CallersPendingCall {
        rpc: Rpc::ContainerStatus,
        id: Some(container_id(2)),
        waited: Duration::from_secs(1),
        ended: Some(ended),
    }];
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sender.send(Some(CallEnd::GivenUp(Duration::from_secs(2)))).unwrap();
    };
    let (report, ()) = tokio::join!(diagnose(&inputs), end);
    for pod in [1, 2] {
        assert_eq!(inputs.runtime.times_called(Rpc::ContainerStatus, &container_id(pod)), 0);
    }
    assert_eq!(report.culprits.len(), 2, "{report:#?}");
    assert!(report.culprits.iter().all(|culprit| culprit.confidence == Confidence::Possible), "{report:#?}");
    assert!(report.culprits.iter().all(|culprit| culprit.waited_seconds <= 2.0), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_the_caller_gave_up_is_not_repeated() {
    let mut inputs = inputs(Scripted::with_pods(5));
    inputs.callers_abandoned =
        vec![CallersAbandonedCall { rpc: Rpc::ListContainers, id: None, waited: Duration::from_secs(20) }];
    let report = diagnose(&inputs).await;
    assert_eq!(inputs.runtime.times_called(Rpc::ListContainers, ""), 0);
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::HungList, "{report:#?}");
}
