//! What `health` makes of real faults on real containerd.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::{Clock, SystemClock};
use plegctl::cri::Client;
use plegctl::diagnosis::report::{HealthReport, Phase, RuleId, Severity, Verdict};
use plegctl::diagnosis::{self, Inputs};

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;

on_each_containerd! {
    pods_without_a_fault_are_healthy
    a_held_status_lock_is_traced_to_its_container
    a_stopped_daemon_is_silent_and_said_to_be_stopped
    a_killed_daemon_is_refused
    a_stopped_shim_is_told_although_everything_answers
    a_killed_shim_is_no_hang
    a_frozen_pod_is_told
}

fn diagnose(runtime: &RealRuntime) -> HealthReport {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = tokio.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let client = || {
            Arc::new(Client::new(
                &runtime.socket(),
                &runtime.endpoint(),
                Duration::from_secs(60),
                Arc::clone(&clock),
            ))
        };
        let mut inputs = Inputs::new(client(), client(), Arc::clone(&clock));
        inputs.endpoint = runtime.endpoint();
        inputs.socket = Some(runtime.socket());
        diagnosis::run(&inputs, &|_| ()).await
    });
    tokio.shutdown_background();
    report
}

#[track_caller]
fn assert_row(report: &HealthReport, verdict: Verdict, phase: Phase, primary: RuleId) {
    let first = report.primary.as_ref().map(|primary| primary.id);
    assert_eq!((report.verdict, report.phase, first), (verdict, phase, Some(primary)), "{report:#?}");
}

fn named(report: &HealthReport) -> (Option<String>, Option<String>) {
    let primary = report.primary.as_ref().unwrap();
    (
        primary.pod.as_ref().map(|pod| pod.name.clone()),
        primary.container.as_ref().map(|container| container.id.clone()),
    )
}

fn pods_without_a_fault_are_healthy(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let empty = diagnose(&runtime);
    runtime.run_pods(3, 2);
    let busy = diagnose(&runtime);
    for report in [empty, busy] {
        let beyond_network: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Info && finding.id != RuleId::D16)
            .collect();
        assert!(beyond_network.is_empty(), "{report:#?}");
    }
}

fn a_held_status_lock_is_traced_to_its_container(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let held = runtime.hold_status_lock(&pod.containers[0]);
    let report = diagnose(&runtime);
    drop(held);
    assert_row(&report, Verdict::Unhealthy, Phase::List, RuleId::D10);
    assert_eq!(named(&report), (Some("guilty".to_owned()), Some(pod.containers[0].clone())));
    assert!(report.duration_seconds < 6.0, "{}", report.duration_seconds);
}

fn a_stopped_daemon_is_silent_and_said_to_be_stopped(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(1, 1);
    let stopped = runtime.stop_daemon();
    let report = diagnose(&runtime);
    drop(stopped);
    assert_row(&report, Verdict::Unhealthy, Phase::Connect, RuleId::D07);
}

fn a_killed_daemon_is_refused(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.kill_daemon();
    let report = diagnose(&runtime);
    runtime.start_daemon();
    assert_row(&report, Verdict::Unhealthy, Phase::Connect, RuleId::D06);
}

fn a_stopped_shim_is_told_although_everything_answers(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let stopped = runtime.stop_shim(&pod.sandbox_id);
    let report = diagnose(&runtime);
    drop(stopped);
    let found = report.findings.iter().find(|finding| finding.id == RuleId::D10).unwrap();
    assert_eq!(found.pod.as_ref().unwrap().name, "web", "{report:#?}");
    assert_eq!(report.verdict, Verdict::Degraded);
}

fn a_killed_shim_is_no_hang(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    runtime.kill_shim(&pod.sandbox_id);
    let report = diagnose(&runtime);
    assert!(
        report.findings.iter().all(|finding| !matches!(finding.id, RuleId::D01 | RuleId::D02)),
        "{report:#?}"
    );
}

fn a_frozen_pod_is_told(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let frozen = runtime.freeze_pod(&pod.sandbox_id);
    let report = diagnose(&runtime);
    drop(frozen);
    let found = report.findings.iter().find(|finding| finding.id == RuleId::D11);
    assert_eq!(
        found.and_then(|found| found.pod.as_ref()).map(|pod| pod.name.as_str()),
        Some("web"),
        "{report:#?}"
    );
}
