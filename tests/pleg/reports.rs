//! Tests of the JSON documents: relist reports, watch records and diffs.

use std::time::Duration;

use plegctl_engine::clock::{ManualClock, Wall};
use plegctl_engine::cri::{Code, Container, ContainerState, SandboxState};
use plegctl_engine::pleg::diff::same_node;
use plegctl_engine::pleg::metrics::{MetricNames, PlegMetrics};
use plegctl_engine::pleg::single_relist::{self, Inspect, RelistRequest};
use plegctl_engine::pleg::stream::{Event, EventSource, EventSubject, EventType, Health, WatchRecord};
use plegctl_engine::pleg::{Era, KubeletState, PodRef, ReadError, RelistReport, RuntimeRef, diff, document};

use crate::pleg::scripted::{Fault, Scripted, container, sandbox};

fn node() -> Scripted {
    let runtime = Scripted::default();
    runtime.set(|state| {
        state.sandboxes =
            vec![sandbox("s1", "a", 0, SandboxState::Ready), sandbox("s2", "b", 0, SandboxState::Ready)];
        state.containers =
            vec![container("c1", "a", ContainerState::Running), container("c2", "b", ContainerState::Exited)];
    });
    runtime
}

async fn report_of(runtime: &Scripted, inspect: Inspect) -> RelistReport {
    let clock = ManualClock::at(Wall::from_nanos(1_700_000_000_000_000_000));
    let request = RelistRequest {
        node: Some("n1".into()),
        runtime: RuntimeRef {
            endpoint: "unix:///run/x.sock".into(),
            version: Some("2.1.9".into()),
            ..RuntimeRef::default()
        },
        era: Era::OnDemand,
        inspect,
    };
    single_relist::relist(runtime, &clock, request).await.unwrap()
}

#[tokio::test]
async fn a_report_is_a_document_of_the_contract() {
    let report = report_of(&node(), Inspect::Nothing).await;
    let text = serde_json::to_string(&document(&report)).unwrap();
    let start = r#"{"apiVersion":"plegctl/v1","kind":"RelistReport","takenAt":"2023-11-14T22:13:20.000000000Z","node":"n1","#;
    assert!(text.starts_with(start), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "pods": 2,
        "sandboxes": {"running": 2, "exited": 0, "unknown": 0},
        "containers": {"created": 0, "running": 1, "exited": 1, "unknown": 0},
    });
    assert_eq!(json["counts"], expected);
    let expected = serde_json::json!({
        "id": "c1", "name": "name-c1", "attempt": 0, "image": "img:1", "state": "running", "plegState": "running",
        "createdAt": "1970-01-01T00:00:00.000002000Z", "sandboxId": "a-sandbox",
    });
    assert_eq!(json["pods"][0]["containers"][0], expected);
    let expected = serde_json::json!({
        "rpc": "ListPodSandbox", "durationSeconds": 0.001, "responseBytes": 1, "outcome": "ok",
    });
    assert_eq!(json["relist"]["calls"][0], expected);
    assert_eq!(json["runtime"], serde_json::json!({"endpoint": "unix:///run/x.sock", "version": "2.1.9"}));
}

#[tokio::test]
async fn a_failed_status_call_is_listed_in_a_complete_report() {
    let runtime = node();
    runtime.set(|state| {
        state.containers.push(Container { created_at: 1, ..container("c0", "a", ContainerState::Exited) });
        state.faults = [("c0".to_owned(), Fault::Code(Code::Internal))].into();
    });
    let report = report_of(&runtime, Inspect::Everything { concurrency: 8 }).await;
    let failed: Vec<_> = report.relist.calls.iter().filter(|call| call.code.is_some()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].id.as_deref(), failed[0].code.as_deref()), (Some("c0"), Some("Internal")));
    assert_eq!(failed[0].pod.as_ref().unwrap().name, "name-a");
    let statuses: Vec<bool> = report
        .pods
        .iter()
        .flat_map(|pod| &pod.containers)
        .map(|container| container.status.is_some())
        .collect();
    assert_eq!(statuses, [true, false, true], "what was answered before the failure is kept");
}

#[tokio::test]
async fn failed_lists_give_no_report_but_their_calls() {
    let runtime = node();
    runtime
        .set(|state| state.faults = [("ListContainers".to_owned(), Fault::Code(Code::Unavailable))].into());
    let request = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: Era::OnDemand,
        inspect: Inspect::Nothing,
    };
    let error = single_relist::relist(&runtime, &ManualClock::default(), request).await.unwrap_err();
    assert_eq!(error.to_string(), "ListContainers failed: Unavailable: scripted");
    assert_eq!(error.calls.len(), 2);
}

#[tokio::test]
async fn no_more_pods_are_inspected_at_once_than_requested() {
    let runtime = Scripted::default();
    runtime.set(|state| {
        for number in 0..10 {
            let id = format!("s{number}");
            state.sandboxes.push(sandbox(&id, &format!("pod{number}"), 0, SandboxState::Ready));
            state.faults.insert(id, Fault::Hang);
        }
    });
    let clock = ManualClock::default();
    let request = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: Era::OnDemand,
        inspect: Inspect::Everything { concurrency: 4 },
    };
    let mut relist = std::pin::pin!(single_relist::relist(&runtime, &clock, request));
    for _ in 0..3 {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(relist.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    assert_eq!(runtime.calls().len(), 2 + 4);
}

#[tokio::test]
async fn a_text_that_is_no_report_is_rejected_with_what_it_is() {
    let report = report_of(&node(), Inspect::Nothing).await;
    let text = serde_json::to_string(&document(&report)).unwrap();
    let newer = text.replace("plegctl/v1", "plegctl/v2");
    let other = text.replace("RelistReport", "DiffReport");
    let broken = text.replace("\"running\"", "\"walking\"");
    let cases = [
        (String::new(), "it is empty"),
        (" \n".into(), "it is empty"),
        ("hello".into(), "it is not JSON: expected value at line 1 column 1"),
        (text[..40].into(), "it ends too early, at line 1, column 40"),
        ("[1]".into(), "it is JSON of another shape, not a RelistReport"),
        ("{}".into(), "it is JSON without a kind, not a RelistReport"),
        (newer, "it has apiVersion `plegctl/v2`; this plegctl reads plegctl/v1"),
        (other, "it is DiffReport, not a RelistReport"),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#.into(), "it is `Pod` of `v1`, not a RelistReport"),
    ];
    for (text, message) in cases {
        assert_eq!(RelistReport::read(text.as_bytes()).unwrap_err().to_string(), message);
    }
    assert!(matches!(RelistReport::read(broken.as_bytes()), Err(ReadError::Malformed(_))));
}

#[tokio::test]
async fn a_diff_has_the_events_and_the_unnoticed_changes() {
    let runtime = node();
    let before = report_of(&runtime, Inspect::Nothing).await;
    runtime.set(|state| {
        state.containers =
            vec![container("c1", "a", ContainerState::Exited), container("c2", "b", ContainerState::Exited)];
        state.containers[1].image.as_mut().unwrap().image = "img:2".into();
        state.exit_codes = [("c1".into(), 137)].into();
    });
    let after = report_of(&runtime, Inspect::Everything { concurrency: 1 }).await;
    let found = diff(&before, &after);
    assert_eq!(found.events.len(), 1);
    let event = &found.events[0];
    assert_eq!((event.event_type, event.id.as_deref()), (EventType::ContainerDied, Some("c1")));
    assert_eq!((event.exit_code, event.relist, event.delivered), (Some(137), None, true));
    assert_eq!(found.unnoticed.len(), 1);
    let unnoticed = &found.unnoticed[0];
    assert_eq!((unnoticed.id.as_deref(), unnoticed.field.as_str()), (Some("c2"), "image"));
    assert_eq!((unnoticed.before.as_deref(), unnoticed.after.as_deref()), (Some("img:1"), Some("img:2")));
}

#[tokio::test]
async fn created_to_unknown_is_unnoticed_and_running_to_unknown_is_a_dropped_event() {
    let runtime = node();
    runtime.set(|state| state.containers[1].state = ContainerState::Created);
    let before = report_of(&runtime, Inspect::Nothing).await;
    runtime.set(|state| {
        for container in &mut state.containers {
            container.state = ContainerState::Unknown;
        }
    });
    let found = diff(&before, &report_of(&runtime, Inspect::Nothing).await);
    let events: Vec<_> = found.events.iter().map(|event| (event.event_type, event.delivered)).collect();
    assert_eq!(events, [(EventType::ContainerChanged, false)]);
    let unnoticed: Vec<_> = found.unnoticed.iter().map(|change| change.after.as_deref()).collect();
    assert_eq!(unnoticed, [Some("unknown")]);
}

#[tokio::test]
async fn reports_of_two_known_nodes_are_not_compared() {
    let report = report_of(&node(), Inspect::Nothing).await;
    let of = |node: Option<&str>| {
        let mut report = report.clone();
        report.node = node.map(str::to_owned);
        report
    };
    assert!(same_node(&of(Some("n1")), &of(Some("n1"))).is_ok());
    assert!(same_node(&of(Some("n1")), &of(None)).is_ok());
    let error = same_node(&of(Some("n1")), &of(Some("n2"))).unwrap_err();
    assert_eq!(error.to_string(), "the reports are of different nodes, `n1` and `n2`");
}

#[test]
fn a_watch_record_starts_with_its_kind_and_omits_unknown_fields() {
    let pod = PodRef { uid: "u".into(), namespace: "ns".into(), name: "p".into() };
    let event =
        Event::new(Wall::from_nanos(1), EventSource::Generic, EventType::PodSync, pod, EventSubject::Pod);
    let text = serde_json::to_string(&document(&WatchRecord::Event(event.clone()))).unwrap();
    let expected = r#"{"apiVersion":"plegctl/v1","kind":"Event","time":"1970-01-01T00:00:00.000000001Z","source":"generic","type":"PodSync","delivered":true,"pod":{"uid":"u","namespace":"ns","name":"p"},"subject":"pod"}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    let health =
        Health { time: Wall::from_nanos(1), healthy: false, message: "pleg has yet to be successful".into() };
    let text = serde_json::to_string(&document(&WatchRecord::Health(health))).unwrap();
    assert!(text.starts_with(r#"{"apiVersion":"plegctl/v1","kind":"Health","#), "{text}");
}

#[test]
fn metrics_are_written_with_the_kubelets_names() {
    let mut metrics = PlegMetrics::default();
    metrics.relist_duration.observe(0.2);
    metrics.set_last_seen(Wall::from_nanos(1_700_000_000_900_000_000));
    metrics.set_running(3, &[(KubeletState::Running, 5)].into());
    metrics.operation(plegctl_engine::cri::Rpc::ListContainers, Duration::from_secs(120), true);
    metrics.operation(plegctl_engine::cri::Rpc::ContainerStats, Duration::from_secs(1), true);
    let mut text = String::new();
    metrics.render(MetricNames::Kubelet, &mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for expected in [
        "# TYPE kubelet_pleg_relist_duration_seconds histogram",
        "kubelet_pleg_relist_duration_seconds_bucket{le=\"0.1\"} 0",
        "kubelet_pleg_relist_duration_seconds_bucket{le=\"0.25\"} 1",
        "kubelet_pleg_relist_duration_seconds_bucket{le=\"+Inf\"} 1",
        "kubelet_pleg_relist_duration_seconds_sum 0.2",
        "kubelet_pleg_relist_duration_seconds_count 1",
        "kubelet_pleg_last_seen_seconds 1700000000",
        "kubelet_pleg_discard_events 0",
        "kubelet_running_pods 3",
        "kubelet_running_containers{container_state=\"running\"} 5",
        "kubelet_runtime_operations_errors_total{operation_type=\"list_containers\"} 1",
        "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_containers\",le=\"119.20928955078125\"} 0",
        "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_containers\",le=\"298.0232238769531\"} 1",
    ] {
        assert!(lines.contains(&expected), "{expected} is not in\n{text}");
    }
    // With plegctl's names there is none of the kubelet's, nor the two that are always zero.
    let mut own = String::new();
    metrics.render(MetricNames::Plegctl, &mut own).unwrap();
    assert!(own.contains("\nplegctl_pleg_last_seen_seconds 1700000000\n"), "{own}");
    assert!(!own.contains("kubelet_") && !own.contains("discard") && !own.contains("pod_relist"), "{own}");
    assert!(!text.contains("container_stats") && !text.contains("container_state=\"exited\""), "{text}");
}
