//! The fault matrix: each test has a fault of the runtime, and asserts the verdict, the phase, the primary finding, and the
//! pod and container that the finding names.

use std::time::Duration;

use super::node::find;
use super::scripted::{
    Behaviour, Scripted, condition, container, container_id, id, inputs, sandbox, sandbox_id,
};
use super::travels::judge;
use crate::clock::Wall;
use crate::cri::{Code, ContainerState, Error, Labels, Outcome, Rpc, SandboxState, label};
use crate::diagnosis::evidence::{Evidence, StatusRecord};
use crate::diagnosis::journal::Journal;
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Phase, RuleId, Severity, Verdict};
use crate::diagnosis::{CallersPendingCall, Inputs, gather};
use crate::kubelet::KubeletVersion;

async fn diagnose(inputs: &Inputs<Scripted>) -> HealthReport {
    judge(&gather(inputs, &|_| ()).await)
}

async fn report(script: Scripted) -> HealthReport {
    diagnose(&inputs(script)).await
}

#[track_caller]
fn assert_row(report: &HealthReport, verdict: Verdict, phase: Phase, primary: RuleId) {
    let first = report.primary.as_ref().map(|primary| primary.id);
    assert_eq!((report.verdict, report.phase, first), (verdict, phase, Some(primary)), "{report:#?}");
    assert_eq!(report.primary.as_ref(), report.findings.first());
}

#[track_caller]
fn assert_names(report: &HealthReport, pod: &str, container: Option<&str>) {
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.pod.as_ref().map(ToString::to_string).as_deref(), Some(pod));
    let named = primary.container.as_ref().map(|container| container.id.as_str());
    assert_eq!(named, container);
}

fn has(report: &HealthReport, id: RuleId) -> bool {
    report.findings.iter().any(|finding| finding.id == id)
}

#[tokio::test(start_paused = true)]
async fn healthy_nodes_of_any_size_are_healthy() {
    for pods in [0, 1, 100, 300] {
        let report = report(Scripted::with_pods(pods)).await;
        assert_row(&report, Verdict::Healthy, Phase::None, RuleId::NothingFound);
        assert!(report.findings.iter().all(|finding| finding.severity == Severity::Info), "{pods} pods");
        assert_eq!(report.abandoned_calls, 0);
        assert!(report.keep.is_empty());
        assert!(report.duration_seconds < 2.0, "{pods} pods took {}", report.duration_seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn one_hung_container_among_300_is_named_and_called_once() {
    let guilty = container_id(137);
    let inputs = inputs(Scripted::with_pods(300).on_id(guilty.clone(), Behaviour::Hangs));
    let report = diagnose(&inputs).await;
    assert_row(&report, Verdict::Degraded, Phase::Status, RuleId::HungStatus);
    assert_names(&report, "default/web-137", Some(&guilty));
    let estimate = report.estimate.as_ref().unwrap();
    assert!(!estimate.would_trip && estimate.hung_calls == 1, "{estimate:?}");
    assert!(estimate.other_era.as_ref().unwrap().contains("up to 1.31"), "{:?}", estimate.other_era);
    assert!(has(&report, RuleId::HiddenStall));
    assert_eq!(inputs.runtime.times_called(Rpc::ContainerStatus, &guilty), 1);
    assert_eq!(report.abandoned_calls, 1);
    assert!(report.duration_seconds <= 13.0, "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn one_hung_container_trips_an_old_kubelet() {
    let mut inputs = inputs(Scripted::with_pods(3).on_id(container_id(1), Behaviour::Hangs));
    inputs.kubelet.version = Some(KubeletVersion::parse("1.30").unwrap());
    let report = diagnose(&inputs).await;
    assert_row(&report, Verdict::Unhealthy, Phase::Status, RuleId::HungStatus);
    let estimate = report.estimate.unwrap();
    assert!(estimate.would_trip && estimate.flaps);
    assert_eq!(estimate.hung_calls, 2);
    assert!(!report.findings.iter().any(|finding| finding.id == RuleId::HiddenStall));
}

#[tokio::test(start_paused = true)]
async fn one_hung_sandbox_is_named() {
    let guilty = sandbox_id(7);
    let report = report(Scripted::with_pods(20).on_id(guilty.clone(), Behaviour::Hangs)).await;
    assert_row(&report, Verdict::Degraded, Phase::Status, RuleId::HungStatus);
    assert_names(&report, "default/web-7", None);
    let primary = report.primary.unwrap();
    assert_eq!(primary.rpc.as_deref(), Some("PodSandboxStatus"));
    assert_eq!(primary.ids, [guilty]);
}

#[tokio::test(start_paused = true)]
async fn two_hung_pods_trip_the_threshold_and_flap() {
    let script = Scripted::with_pods(300)
        .on_id(container_id(5), Behaviour::Hangs)
        .on_id(container_id(250), Behaviour::Hangs);
    let report = report(script).await;
    assert_row(&report, Verdict::Unhealthy, Phase::Status, RuleId::HungStatus);
    let estimate = report.estimate.as_ref().unwrap();
    assert!(estimate.would_trip && estimate.flaps);
    assert_eq!(estimate.hung_calls, 2);
    let peak = estimate.peak_age_seconds.unwrap();
    assert!((peak - 241.0).abs() < 1.0, "{peak}");
    assert_eq!(report.primary.as_ref().unwrap().ids.len(), 2);
    assert!(report.duration_seconds <= 13.0, "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn two_hung_calls_of_one_pod_cost_the_kubelet_one_time_out() {
    let script = Scripted::with_pods(3)
        .on_id(container_id(1), Behaviour::Hangs)
        .on_id(sandbox_id(1), Behaviour::Hangs);
    let report = report(script).await;
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(report.estimate.unwrap().hung_calls, 1);
}

/// Returns a host root with a log link for each pod.
fn root_with_logs(name: &str, pods: usize) -> std::path::PathBuf {
    let root = std::env::temp_dir().join(format!("plegctl-diagnosis-{}-{name}", std::process::id()));
    let logs = root.join("var/log/containers");
    std::fs::create_dir_all(&logs).unwrap();
    for pod in 0..pods {
        std::fs::write(logs.join(format!("web-{pod}_default_app-{}.log", container_id(pod))), "").unwrap();
    }
    root
}

#[tokio::test(start_paused = true)]
async fn a_hung_list_names_the_one_id_that_is_silent() {
    let guilty = container_id(42);
    let script = Scripted::with_pods(143)
        .on(Rpc::ListContainers, Behaviour::Hangs)
        .on_id(guilty.clone(), Behaviour::Hangs);
    let mut inputs = inputs(script);
    inputs.host_root = root_with_logs("guilty", 143);
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    assert_names(&report, "default/web-42", Some(&guilty));
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.rpc.as_deref(), Some("ListContainers"));
    assert_eq!(primary.pod.as_ref().unwrap().uid, "");
    assert!(
        primary.evidence.iter().any(|line| line.contains("only this one of 143")),
        "{:?}",
        primary.evidence
    );
    assert_eq!(inputs.runtime.times_called(Rpc::ContainerStatus, &guilty), 1);
    assert_eq!(inputs.runtime.times_called(Rpc::ListContainers, ""), 1);
    assert!(report.duration_seconds <= 13.0, "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn hung_list_is_found_although_version_is_slow() {
    let guilty = container_id(42);
    for (number, millis) in [900, 2000, 4500, 8000, 9500].into_iter().enumerate() {
        let late = Behaviour::After(Duration::from_millis(millis));
        let script = Scripted::with_pods(60)
            .on(Rpc::Version, late)
            .on(Rpc::ListContainers, Behaviour::Hangs)
            .on_id(guilty.clone(), Behaviour::Hangs);
        let mut inputs = inputs(script);
        inputs.host_root = root_with_logs(&format!("greeting-{number}"), 60);
        let report = diagnose(&inputs).await;
        std::fs::remove_dir_all(&inputs.host_root).unwrap();
        assert!(!has(&report, RuleId::SilentRuntime), "{millis}: {report:#?}");
        assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
        assert_names(&report, "default/web-42", Some(&guilty));
    }
}

#[tokio::test(start_paused = true)]
async fn hung_list_without_a_silent_id_names_no_culprit() {
    let script = Scripted::with_pods(30).on(Rpc::ListContainers, Behaviour::Hangs);
    let mut inputs = inputs(script);
    inputs.host_root = root_with_logs("innocent", 30);
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    let primary = report.primary.unwrap();
    assert!(primary.pod.is_none() && primary.container.is_none() && primary.ids.is_empty());
    assert!(primary.evidence.iter().any(|line| line.contains("no culprit is named")));
}

/// Under load, the time may be over before the container that blocks the list is found.
#[tokio::test(start_paused = true)]
async fn if_an_id_had_not_enough_time_the_finding_does_not_rule_out_a_single_container() {
    let guilty = container_id(4);
    let script = Scripted::with_pods(30)
        .on(Rpc::ListContainers, Behaviour::Hangs)
        .on_id(guilty.clone(), Behaviour::Hangs);
    let mut inputs = inputs(script);
    inputs.host_root = root_with_logs("late", 30);
    let mut evidence = gather(&inputs, &|_| ()).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    let silent = evidence.runtime.status_calls.iter_mut().find(|record| record.is_silent()).unwrap();
    *silent = StatusRecord::silent(silent.target.clone(), silent.rpc, Duration::from_millis(300));
    let assert_not_ruled_out = |evidence: &Evidence, why: &str| {
        let primary = judge(evidence).primary.unwrap();
        assert_eq!((primary.id, primary.pod.is_none()), (RuleId::HungList, true), "{primary:#?}");
        assert!(primary.evidence.iter().any(|line| line.contains(why)), "{primary:#?}");
        assert!(
            primary
                .steps
                .iter()
                .map(ToString::to_string)
                .any(|line| line.contains("no container is known to cause this")),
            "{primary:#?}"
        );
    };
    assert_not_ruled_out(
        &evidence,
        "ContainerStatus was not yet answered for 1 of 30 containers when the time was over",
    );
    evidence.runtime.status_calls.retain(|record| !record.is_silent());
    evidence.runtime.ids_left_out = 1;
    assert_not_ruled_out(&evidence, "there was no time for 1 other id: no culprit is named");
    // The status calls of all ids were answered.
    evidence.runtime.ids_left_out = 0;
    let primary = judge(&evidence).primary.unwrap();
    assert!(
        primary
            .steps
            .iter()
            .map(ToString::to_string)
            .any(|line| line.contains("no single container is to blame")),
        "{primary:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn culprit_of_a_hung_sandbox_list_is_found_through_the_containers() {
    let guilty = sandbox_id(3);
    let script = Scripted::with_pods(10)
        .on(Rpc::ListPodSandbox, Behaviour::Hangs)
        .on_id(guilty.clone(), Behaviour::Hangs);
    let report = report(script).await;
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    let primary = report.primary.unwrap();
    assert_eq!(primary.rpc.as_deref(), Some("ListPodSandbox"));
    assert_eq!(primary.ids, [guilty]);
}

#[tokio::test(start_paused = true)]
async fn runtime_that_answers_only_version_names_no_culprit() {
    let mut script = Scripted::with_pods(30);
    for rpc in
        [Rpc::Status, Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::PodSandboxStatus, Rpc::ContainerStatus]
    {
        script = script.on(rpc, Behaviour::Hangs);
    }
    let mut inputs = inputs(script);
    inputs.host_root = root_with_logs("version-only", 30);
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    assert!(report.primary.as_ref().unwrap().pod.is_none());
    assert!(has(&report, RuleId::RuntimeNotReady));
    assert!(report.abandoned_calls <= 3 + 16 + 8, "{}", report.abandoned_calls);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_accepts_connections_and_is_silent_is_d07() {
    let script = Scripted::with_pods(3).on(Rpc::Version, Behaviour::Hangs);
    let inputs = inputs(script);
    let report = diagnose(&inputs).await;
    assert_row(&report, Verdict::Unhealthy, Phase::Connect, RuleId::SilentRuntime);
    assert_eq!(inputs.runtime.times_called(Rpc::Version, ""), 2);
    assert_eq!(inputs.runtime.times_called(Rpc::ListContainers, ""), 0);
    assert!(report.duration_seconds <= 13.0);
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_fast_are_no_hang() {
    let unavailable = |rpc| {
        Behaviour::Fails(Error::Runtime {
            rpc,
            code: Code::Unavailable,
            message: "server is not initialized yet".into(),
        })
    };
    let script = Scripted::with_pods(5)
        .on(Rpc::ListPodSandbox, unavailable(Rpc::ListPodSandbox))
        .on(Rpc::ListContainers, unavailable(Rpc::ListContainers));
    let report = report(script).await;
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::FailingList);
    assert!(!has(&report, RuleId::HungList));
    assert_eq!(report.abandoned_calls, 0);
    assert!(report.estimate.unwrap().would_trip);
}

#[tokio::test(start_paused = true)]
async fn a_list_refused_for_its_size_is_counted_in_shards() {
    let message = "trying to send message larger than max (18374652 vs. 16777216)";
    let mut script = Scripted::with_pods(20);
    let old = script.now - 3_600_000_000_000;
    script.containers.extend((1000..1300).map(|pod| container(pod, ContainerState::Exited, old)));
    // Only the list without a filter is too large. The name `by-state` means the list calls with a filter by state.
    let too_large = Error::TooLarge { rpc: Rpc::ListContainers, message: message.into() };
    script = script
        .on(Rpc::ListContainers, Behaviour::Fails(too_large))
        .on_id("by-state".into(), Behaviour::Answers);
    let report = report(script).await;
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::LargeList);
    let primary = report.primary.unwrap();
    assert_eq!(primary.evidence[0], message);
    assert!(
        primary
            .evidence
            .iter()
            .any(|line| line.contains("300 of 320") && line.contains("counted in smaller lists")),
        "{:?}",
        primary.evidence
    );
    assert!(primary.evidence.iter().any(|line| line.contains("default 320")), "{:?}", primary.evidence);
}

#[tokio::test(start_paused = true)]
async fn a_list_by_state_that_is_too_large_is_counted_by_namespace() {
    let too_large = Error::TooLarge { rpc: Rpc::ListContainers, message: "larger than max (2 vs. 1)".into() };
    let script = Scripted::with_pods(20)
        .on(Rpc::ListContainers, Behaviour::Fails(too_large.clone()))
        .on_id("by-state".into(), Behaviour::Fails(too_large))
        .on_id("by-label".into(), Behaviour::Answers);
    let mut inputs = inputs(script);
    inputs.host_root = root_with_logs("shards", 0);
    std::fs::create_dir_all(inputs.host_root.join("var/log/pods/default_web-1_uid-1")).unwrap();
    std::fs::create_dir_all(inputs.host_root.join("var/log/pods/other_x_uid-9")).unwrap();
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::LargeList);
    let primary = report.primary.unwrap();
    assert!(
        primary.evidence.iter().any(|line| line.contains("most in default 20")),
        "{:?}",
        primary.evidence
    );
}

/// Returns the steps of the first finding, which is D03.
async fn steps_of_large_list(inputs: &Inputs<Scripted>) -> (HealthFinding, String) {
    let report = diagnose(inputs).await;
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::LargeList);
    let primary = report.primary.unwrap();
    let steps = primary.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    (primary, steps)
}

/// Annotations of 300 KiB.
fn large() -> Labels {
    [("a", "x".repeat(300 << 10))].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn pods_with_large_annotations_are_named_although_the_runtime_refuses_their_list() {
    let mut script = Scripted::with_pods(65);
    script.refuses_over = Some(16 << 20);
    for sandbox in script.sandboxes.iter_mut().skip(5) {
        sandbox.annotations = large();
    }
    let (primary, steps) = steps_of_large_list(&inputs(script)).await;
    let counted = "ListPodSandbox in smaller lists: 65 items (17.6 MiB), most in default 65";
    assert!(primary.evidence.iter().any(|line| line == counted), "{primary:#?}");
    // The list is 1.6 MiB over the limit, which are six of these pods. Their containers are small, so each pod is removed as
    // a whole.
    let pods: Vec<String> = [10, 11, 12, 13, 14, 15].map(|pod| format!("web-{pod}")).to_vec();
    let end = format!(" -n default delete pod {} --wait=false", pods.join(" "));
    assert!(steps.contains(&end), "{steps}");
    let ids = |verb: &str| {
        let command = steps.lines().find_map(|line| line.split_once(&format!("60s {verb} "))).unwrap();
        command.1.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids("stopp").len(), 6, "{steps}");
    assert_eq!(ids("stopp"), ids("rmp"), "{steps}");
    assert!(!steps.contains("web-1 ") && !steps.contains(" rm "), "a small pod, or a container: {steps}");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_very_many_pods_is_not_fetched_pod_by_pod() {
    let mut script = Scripted::with_pods(200);
    script.refuses_over = Some(16 << 20);
    for container in &mut script.containers {
        container.annotations = large();
    }
    let inputs = inputs(script);
    let (primary, _) = steps_of_large_list(&inputs).await;
    assert!(
        primary.evidence.iter().any(|line| line.ends_with("too large even alone: default")),
        "{primary:#?}"
    );
    let calls = inputs.runtime.calls.lock().unwrap();
    let lists = calls.iter().filter(|(rpc, _)| *rpc == Rpc::ListContainers).count();
    assert!(lists < 20, "{lists} list calls");
}

#[tokio::test(start_paused = true)]
async fn containers_of_a_pod_that_is_too_large_alone_are_found_by_the_names_in_its_log_directory() {
    let mut script = Scripted::with_pods(2);
    script.refuses_over = Some(16 << 20);
    let old = script.now - 3_600_000_000_000;
    for number in 0..60 {
        let name = format!("c{number}");
        let mut large_one = container(1, ContainerState::Running, old);
        large_one.id = format!("{number:064x}");
        large_one.metadata.as_mut().unwrap().name.clone_from(&name);
        let labels = large_one.labels.iter().chain([(label::CONTAINER_NAME, name.as_str())]);
        large_one.labels = labels.collect();
        large_one.annotations = large();
        script.containers.push(large_one);
    }
    let mut inputs = inputs(script);
    let (_, unknown) = steps_of_large_list(&inputs).await;
    assert!(unknown.contains(
        "find the pods with the longest annotations and labels: kubectl --request-timeout=30s get pods"
    ));
    assert!(!unknown.contains("delete pod") && !unknown.contains("crictl"), "nothing is known: {unknown}");
    inputs.host_root = root_with_logs("names", 0);
    for number in 0..60 {
        let logs = format!("var/log/pods/default_web-1_uid-1/c{number}");
        std::fs::create_dir_all(inputs.host_root.join(logs)).unwrap();
    }
    let (_, steps) = steps_of_large_list(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert!(steps.contains(" -n default delete pod web-1 --wait=false"), "{steps}");
    assert!(steps.contains(&format!("60s rm {:064x} ", 10)), "a longer name has more bytes: {steps}");
    assert!(!steps.contains("60s rmp"), "the status of this pod is too large too: {steps}");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_15_mib_is_close_to_the_limit_and_one_of_17_mib_is_over_it() {
    let mut near = Scripted::with_pods(50);
    near.list_bytes = Some(15 * 1024 * 1024);
    let near = report(near).await;
    assert_row(&near, Verdict::Degraded, Phase::List, RuleId::LargeList);
    assert_eq!(
        near.primary.as_ref().unwrap().severity,
        Severity::Warning,
        "--fail-on critical does not fail"
    );

    let mut over = Scripted::with_pods(50);
    over.list_bytes = Some(17 * 1024 * 1024);
    let over = report(over).await;
    assert_row(&over, Verdict::Unhealthy, Phase::List, RuleId::LargeList);
    assert!(over.estimate.unwrap().would_trip);

    let mut early = Scripted::with_pods(50);
    early.list_bytes = Some(11 * 1024 * 1024);
    let early = report(early).await;
    assert_eq!(early.primary.unwrap().severity, Severity::Warning);
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_dead_containers_are_a_backlog() {
    let mut script = Scripted::with_pods(100);
    let old = script.now - 3_600_000_000_000;
    script.containers.extend((1000..21_000).map(|pod| container(pod, ContainerState::Exited, old)));
    for dead in &mut script.containers {
        dead.sandbox_id = sandbox_id(1);
    }
    script.list_bytes = Some(9 * 1024 * 1024);
    let report = report(script).await;
    assert_eq!(report.verdict, Verdict::Degraded);
    let backlog = report.findings.iter().find(|finding| finding.id == RuleId::DeadContainers).unwrap();
    assert_eq!(backlog.confidence, Confidence::Likely);
    assert!(backlog.evidence[0].contains("20000 exited"), "{:?}", backlog.evidence);
    let delete = backlog.steps.last().unwrap().to_string();
    assert!(delete.contains(" -n default delete pods ") && delete.ends_with(" --wait=false"), "{delete}");
    assert!(report.duration_seconds <= 30.0);
}

#[tokio::test(start_paused = true)]
async fn if_all_status_calls_are_slow_the_number_of_pods_is_not_blamed() {
    let slow = Behaviour::After(Duration::from_millis(700));
    let mut script = Scripted::with_pods(100);
    for rpc in [
        Rpc::Version,
        Rpc::Status,
        Rpc::ListPodSandbox,
        Rpc::ListContainers,
        Rpc::PodSandboxStatus,
        Rpc::ContainerStatus,
    ] {
        script = script.on(rpc, slow.clone());
    }
    let report = report(script).await;
    assert_row(&report, Verdict::Degraded, Phase::Status, RuleId::SlowStatuses);
    let primary = report.primary.as_ref().unwrap();
    assert!(primary.evidence.iter().any(|line| line.contains("latency")), "{:?}", primary.evidence);
    assert!(!has(&report, RuleId::HungStatus) && !has(&report, RuleId::HungList));
    assert!(report.duration_seconds <= 30.5, "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn if_only_the_lists_are_slow_the_number_of_pods_is_not_blamed() {
    let slow = Behaviour::After(Duration::from_millis(4500));
    let script =
        Scripted::with_pods(20).on(Rpc::ListPodSandbox, slow.clone()).on(Rpc::ListContainers, slow.clone());
    // The lists take 9 s and the status calls 1.6 s. Only together they are above the limit of D05.
    let script = script.on(Rpc::PodSandboxStatus, Behaviour::After(Duration::from_millis(80)));
    let report = report(script).await;
    assert_row(&report, Verdict::Degraded, Phase::List, RuleId::SlowLists);
    assert!(!has(&report, RuleId::SlowStatuses), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_not_ready_is_unhealthy_and_a_network_that_is_not_is_degraded() {
    let mut script = Scripted::with_pods(3);
    script.conditions = vec![condition("RuntimeReady", false), condition("NetworkReady", true)];
    let runtime = report(script).await;
    assert_row(&runtime, Verdict::Unhealthy, Phase::None, RuleId::RuntimeNotReady);

    let mut script = Scripted::with_pods(3);
    script.conditions = vec![condition("RuntimeReady", true), condition("NetworkReady", false)];
    let network = report(script).await;
    assert_row(&network, Verdict::Degraded, Phase::None, RuleId::NetworkNotReady);
}

#[tokio::test(start_paused = true)]
async fn contradicting_states_are_reported_after_a_second_sample() {
    let mut script = Scripted::with_pods(5);
    script.containers[3].state = ContainerState::Unknown;
    let unknown = report(script).await;
    assert_row(&unknown, Verdict::Degraded, Phase::List, RuleId::InconsistentState);
    assert_names(&unknown, "default/web-3", Some(&container_id(3)));
    assert_eq!(unknown.primary.as_ref().unwrap().confidence, Confidence::Certain);

    let mut script = Scripted::with_pods(5);
    let mut twin = sandbox(2, SandboxState::Ready, script.now - 3_600_000_000_000);
    twin.id = id(999, 'a');
    script.sandboxes.push(twin);
    let twice = report(script).await;
    assert_row(&twice, Verdict::Degraded, Phase::List, RuleId::InconsistentState);
    assert_names(&twice, "default/web-2", None);
    assert_eq!(twice.primary.unwrap().ids.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_recovers_is_no_hang() {
    let mut script =
        Scripted::with_pods(10).on(Rpc::ListContainers, Behaviour::After(Duration::from_secs(2)));
    script.recovers = true;
    let report = report(script).await;
    assert_row(&report, Verdict::Degraded, Phase::List, RuleId::SlowLists);
    assert!(report.primary.unwrap().evidence.iter().any(|line| line.contains("recovered")));
    assert!(!report.estimate.unwrap().would_trip);
    assert_eq!(report.abandoned_calls, 0);
}

#[tokio::test(start_paused = true)]
async fn failed_status_calls_are_reported_and_not_found_is_not() {
    let why = Error::Runtime {
        rpc: Rpc::PodSandboxStatus,
        code: Code::Unknown,
        message: "device or resource busy".into(),
    };
    let failing = report(Scripted::with_pods(5).on_id(sandbox_id(1), Behaviour::Fails(why))).await;
    assert_row(&failing, Verdict::Degraded, Phase::Status, RuleId::FailingStatus);
    assert_names(&failing, "default/web-1", None);

    let mut script = Scripted::with_pods(5);
    script.gone.insert(container_id(2));
    let raced = report(script).await;
    assert_row(&raced, Verdict::Healthy, Phase::None, RuleId::NothingFound);
}

#[tokio::test(start_paused = true)]
async fn each_error_of_the_connection_has_its_verdict() {
    let endpoint = || "unix:///run/test.sock".to_owned();
    let rows = [
        (Error::NoSuchSocket { endpoint: endpoint() }, Verdict::Unknown),
        (Error::PermissionDenied { endpoint: endpoint() }, Verdict::Unknown),
        (Error::NotASocket { endpoint: endpoint(), kind: crate::cri::FileKind::File }, Verdict::Unknown),
        (Error::Refused { endpoint: endpoint() }, Verdict::Unhealthy),
        (Error::WrongProtocol { endpoint: endpoint(), detail: "HTTP/1.1".into() }, Verdict::Unknown),
        (Error::Unimplemented { rpc: Rpc::Version, message: "unknown service".into() }, Verdict::Unhealthy),
    ];
    for (error, verdict) in rows {
        let report = report(Scripted::with_pods(1).on(Rpc::Version, Behaviour::Fails(error.clone()))).await;
        assert_row(&report, verdict, Phase::Connect, RuleId::UnreachableRuntime);
        assert!(report.primary.unwrap().evidence[0] == error.to_string());
        assert_eq!(report.probes[0].outcome, Outcome::Error);
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_too_small_for_one_probe_is_unknown() {
    let mut inputs = inputs(Scripted::with_pods(1).on(Rpc::ListContainers, Behaviour::Hangs));
    inputs.budget = Duration::from_millis(10);
    let report = diagnose(&inputs).await;
    assert_eq!(report.verdict, Verdict::Unknown);
    assert!(!has(&report, RuleId::HungList), "ten milliseconds of silence are no hang");
    assert!(
        report.not_checked.iter().any(|skipped| skipped.why.contains("budget")),
        "{:?}",
        report.not_checked
    );
}

#[tokio::test(start_paused = true)]
async fn bad_metrics_make_a_healthy_node_unknown_and_leave_an_unhealthy_node_unhealthy() {
    let source = || crate::diagnosis::MetricsSource::Text {
        name: "m.txt".into(),
        text: "<html>".into(),
        written: None,
    };
    let mut healthy = inputs(Scripted::with_pods(1));
    healthy.kubelet.metrics = Some(source());
    let report = diagnose(&healthy).await;
    assert_eq!(report.verdict, Verdict::Unknown);
    assert!(report.not_checked.iter().any(|skipped| skipped.why.contains("m.txt")));

    let mut sick = inputs(Scripted::with_pods(1).on(Rpc::ListContainers, Behaviour::Hangs));
    sick.kubelet.metrics = Some(source());
    assert_eq!(diagnose(&sick).await.verdict, Verdict::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn npd_ends_within_its_budget() {
    let guilty = container_id(42);
    let script = Scripted::with_pods(143)
        .on(Rpc::ListContainers, Behaviour::Hangs)
        .on_id(guilty.clone(), Behaviour::Hangs);
    let mut inputs = inputs(script);
    inputs.budget = Duration::from_secs(4);
    inputs.host_root = root_with_logs("npd", 143);
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    assert!(report.duration_seconds <= 4.0, "{}", report.duration_seconds);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_of_the_caller_is_not_repeated() {
    let guilty = container_id(1);
    let script = Scripted::with_pods(5).on_id(guilty.clone(), Behaviour::Hangs);
    let mut inputs = inputs(script);
    inputs.callers_pending = vec![CallersPendingCall {
        rpc: Rpc::ContainerStatus,
        id: Some(guilty.clone()),
        waited: Duration::from_secs(40),
        ended: None,
    }];
    let report = diagnose(&inputs).await;
    assert_row(&report, Verdict::Degraded, Phase::Status, RuleId::HungStatus);
    assert_names(&report, "default/web-1", Some(&guilty));
    assert_eq!(inputs.runtime.times_called(Rpc::ContainerStatus, &guilty), 0);

    let script = Scripted::with_pods(5)
        .on(Rpc::ListContainers, Behaviour::Hangs)
        .on_id(guilty.clone(), Behaviour::Hangs);
    let mut inputs = super::scripted::inputs(script);
    inputs.host_root = root_with_logs("known", 5);
    inputs.callers_pending = vec![CallersPendingCall {
        rpc: Rpc::ListContainers,
        id: None,
        waited: Duration::from_secs(40),
        ended: None,
    }];
    let report = diagnose(&inputs).await;
    std::fs::remove_dir_all(&inputs.host_root).unwrap();
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::HungList);
    assert_names(&report, "default/web-1", Some(&guilty));
    assert_eq!(inputs.runtime.times_called(Rpc::ListContainers, ""), 0);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_the_same_after_json() {
    let report = report(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs)).await;
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert!(text.starts_with("{\n  \"apiVersion\": \"plegctl/v1\",\n  \"kind\": \"HealthReport\","));
    assert_eq!(serde_json::from_str::<HealthReport>(&text).unwrap(), report);
}

#[tokio::test(start_paused = true)]
async fn silent_shims_are_found_only_with_probe_shims() {
    let silent = || {
        Scripted::with_pods(3)
            .on_id(container_id(1), Behaviour::Answers)
            .on(Rpc::ContainerStats, Behaviour::Hangs)
    };
    let quiet = report(silent()).await;
    assert_eq!(quiet.verdict, Verdict::Healthy);

    let mut inputs = inputs(silent());
    inputs.probe_shims = true;
    let report = diagnose(&inputs).await;
    assert_row(&report, Verdict::Degraded, Phase::None, RuleId::HungProcess);
}

#[tokio::test(start_paused = true)]
async fn internal_error_in_one_call_does_not_affect_the_others() {
    for (rpc, verdict) in [
        (Rpc::Status, Verdict::Healthy),
        (Rpc::ContainerStatus, Verdict::Healthy),
        (Rpc::ListContainers, Verdict::Unknown),
        (Rpc::Version, Verdict::Unknown),
    ] {
        let report = report(Scripted::with_pods(3).on(rpc, Behaviour::Panics)).await;
        assert_eq!(report.verdict, verdict, "{rpc}: {report:#?}");
        let skipped = report.not_checked.iter().find(|missing| missing.what == rpc.name());
        assert!(
            skipped.is_some_and(|missing| missing.why.contains("plegctl itself failed")),
            "{rpc}: {report:#?}"
        );
        // The panic of one call causes no finding.
        let blamed = report.findings.iter().find(|finding| finding.severity > Severity::Info);
        assert_eq!(blamed, None, "{rpc}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_thread_is_a_sign_of_exhausted_limits() {
    let mut evidence = gather(&inputs(Scripted::with_pods(1)), &|_| ()).await;
    assert!(!has(&judge(&evidence), RuleId::ExhaustedLimits));
    evidence.no_thread = true;
    let report = judge(&evidence);
    assert_row(&report, Verdict::Degraded, Phase::None, RuleId::ExhaustedLimits);
}

/// A line of a kubelet 1.36.2 beside containerd 2.1.9 whose unit had reached its `TasksMax`, shortened in the middle.
#[tokio::test(start_paused = true)]
async fn a_limit_that_was_reached_minutes_ago_is_only_possible() {
    let mut evidence = gather(&inputs(Scripted::with_pods(1)), &|_| ()).await;
    let now = evidence.taken_at.duration_since(Wall::default()).as_secs();
    let logged = |ago: u64| {
        let names = "x".repeat(600);
        format!(
            "{}.0 n4 kubelet[11901]: E1128 04:10:25.620561 11901 pod_workers.go:1324] \"Error syncing pod, skipping\" \
             err=\"failed to {names}: plugin type=\\\"bridge\\\" failed (add): netplugin failed: \\\"runtime/cgo: \
             pthread_create failed: Resource temporarily unavailable\\\"\"",
            now - ago
        )
    };
    let mut judged = |ago| {
        evidence.journal = Some(Journal::of(&logged(ago)));
        judge(&evidence)
    };
    let report = judged(10);
    let found = find(&report, RuleId::ExhaustedLimits).unwrap();
    assert_eq!((report.verdict, found.confidence), (Verdict::Degraded, Confidence::Certain), "{report:#?}");
    let line = &found.evidence[0];
    assert!(line.starts_with("kubelet[11901]: …xxx"), "{line}");
    assert!(line.contains("pthread_create failed: Resource temporarily unavailable"), "{line}");
    let report = judged(120);
    let found = find(&report, RuleId::ExhaustedLimits).unwrap();
    assert_eq!((report.verdict, found.confidence), (Verdict::Healthy, Confidence::Possible), "{report:#?}");
    assert_eq!(found.title, "processes, threads or file descriptors ran out within the last 15 minutes");
}

#[tokio::test(start_paused = true)]
async fn the_estimate_for_many_new_pods_hardly_depends_on_which_calls_are_late() {
    let mut seen = Vec::new();
    for late in 0..6 {
        // Every pod is new, so the estimate includes the status calls of all pods. Of six calls one is late, in each run
        // another one.
        let mut script = Scripted::with_pods(110);
        let now = script.now;
        script.containers.iter_mut().for_each(|container| container.created_at = now);
        script.sandboxes.iter_mut().for_each(|sandbox| sandbox.created_at = now);
        for pod in (late..110).step_by(6) {
            script = script
                .on_id(container_id(pod), Behaviour::After(Duration::from_millis(200)))
                .on_id(sandbox_id(pod), Behaviour::After(Duration::from_millis(150)));
        }
        let estimate = report(script).await.estimate.unwrap();
        assert_eq!(estimate.changed_pods, 110);
        seen.push(estimate.serial_relist_seconds.unwrap());
    }
    let (least, most) =
        (seen.iter().copied().fold(f64::MAX, f64::min), seen.iter().copied().fold(0.0, f64::max));
    assert!(most < 1.5 * least, "{seen:?}");
}

/// A static pod whose file was edited, and whose earlier pod did not end.
#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_twice_under_two_uids_needs_a_person_as_soon_as_it_cannot_be_a_start() {
    let with_twin = |seconds: i64| {
        let mut script = Scripted::with_pods(5);
        let mut twin = sandbox(2, SandboxState::Ready, script.now - seconds * 1_000_000_000);
        twin.id = id(999, 'a');
        twin.metadata.as_mut().unwrap().uid = "another-uid".to_owned();
        script.sandboxes.push(twin);
        script
    };
    assert_row(&report(with_twin(5)).await, Verdict::Healthy, Phase::None, RuleId::NothingFound);
    let report = report(with_twin(90)).await;
    assert_row(&report, Verdict::Degraded, Phase::None, RuleId::InconsistentState);
    assert_eq!(
        report.summary,
        "default/web-2 has sandboxes of two versions, with two UIDs; this alone does not make the node NotReady"
    );
    let primary = report.primary.unwrap();
    assert_eq!(primary.confidence, Confidence::Certain);
    assert!(primary.evidence[0].contains("UID another-uid"), "{:?}", primary.evidence);
    assert!(primary.evidence[0].contains("0 of 0 containers run"), "{:?}", primary.evidence);
    assert!(primary.steps[1].to_string().ends_with("it is the version that works"), "{:?}", primary.steps);
    assert!(primary.steps[2].to_string().contains("has no container: crictl"), "{:?}", primary.steps);
    assert!(
        !primary.steps.iter().any(|step| step.changes_state),
        "which of them is wanted is not known: {:?}",
        primary.steps
    );
}
