//! `plegctl health` as a process: the scripted rows of the fault matrix, the exit status, and every way to print.

use std::fs;
use std::time::Duration;

use plegctl::cri::{Code, Rpc};
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::NotARuntime;
use crate::support::{FakeRuntime, Kind, Node};

/// Runs `health -o json`.
fn health(endpoint: &str, more: &[&str]) -> Output {
    plegctl(&[["health", "-r", endpoint, "-o", "json"].as_slice(), more].concat())
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// What a row of the matrix must come to.
struct Row {
    verdict: &'static str,
    phase: &'static str,
    primary: &'static str,
    exit: i32,
}

const fn row(verdict: &'static str, phase: &'static str, primary: &'static str, exit: i32) -> Row {
    Row { verdict, phase, primary, exit }
}

/// Runs `health` and holds it against the row.
fn expect(fake: &FakeRuntime, row: &Row) -> Value {
    let output = health(&fake.endpoint(), &[]);
    let report = report(&output);
    let found = (report["verdict"].as_str(), report["phase"].as_str(), report["primary"]["id"].as_str());
    assert_eq!(found, (Some(row.verdict), Some(row.phase), Some(row.primary)), "{output}");
    assert_eq!(output.code, Some(row.exit), "{output}");
    assert_eq!(report["primary"], report["findings"][0]);
    report
}

/// Pods with one running container each; `p17` has the sandbox `s17` and the container `c17`.
fn pods(count: usize) -> Node {
    (0..count).fold(Node::new(), |node, number| {
        node.pod(&format!("default/p{number}"), &format!("uid-{number}"))
            .sandbox(&format!("s{number}"))
            .container(&format!("c{number}"), "app")
    })
}

#[test]
fn one_hung_container_status_among_many_is_named() {
    let fake = FakeRuntime::start(pods(60));
    fake.on(Rpc::ContainerStatus).id("c17").hang();
    let report = expect(&fake, &row("degraded", "status", "D01", 0));
    assert_eq!(report["primary"]["rpc"], "ContainerStatus");
    assert_eq!(report["primary"]["pod"]["name"], "p17");
    assert_eq!(report["primary"]["container"]["id"], "c17");
    assert_eq!(report["estimate"]["wouldTrip"], false);
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).iter().filter(|call| call.id == "c17").count(), 1);
}

#[test]
fn four_slow_status_calls_are_slow_and_not_hung() {
    let fake = FakeRuntime::start(pods(20));
    for id in ["c1", "c4", "c9", "c16"] {
        fake.on(Rpc::ContainerStatus).id(id).delay(Duration::from_millis(3500));
    }
    let report = expect(&fake, &row("degraded", "status", "D05", 0));
    assert_eq!(report["primary"]["ids"].as_array().unwrap().len(), 4);
    assert_eq!(report["abandonedCalls"], 0);
    assert!(!report.to_string().contains(" hang"), "{report}");
}

#[test]
fn two_hung_pods_trip_the_threshold() {
    let fake = FakeRuntime::start(pods(20));
    fake.on(Rpc::PodSandboxStatus).id("s3").hang();
    fake.on(Rpc::PodSandboxStatus).id("s4").hang();
    let report = expect(&fake, &row("unhealthy", "status", "D01", 1));
    assert_eq!(report["estimate"]["wouldTrip"], true);
    assert_eq!(report["estimate"]["hungCalls"], 2);
}

#[test]
fn one_hung_pod_trips_an_old_kubelet_only() {
    let fake = FakeRuntime::start(pods(20));
    fake.on(Rpc::PodSandboxStatus).id("s3").hang();
    let output = health(&fake.endpoint(), &["--kubelet-version", "1.30"]);
    assert_eq!(
        (output.code, report(&output)["estimate"]["wouldTrip"].as_bool()),
        (Some(1), Some(true)),
        "{output}"
    );
    let output = health(&fake.endpoint(), &["--kubelet-version", "1.36"]);
    assert_eq!(
        (output.code, report(&output)["estimate"]["wouldTrip"].as_bool()),
        (Some(0), Some(false)),
        "{output}"
    );
}

#[test]
fn a_hung_list_invents_no_culprit() {
    let fake = FakeRuntime::start(pods(5));
    fake.on(Rpc::ListContainers).hang();
    let report = expect(&fake, &row("unhealthy", "list", "D02", 1));
    assert_eq!(report["primary"]["rpc"], "ListContainers");
    assert!(report["primary"].get("container").is_none(), "{report}");
    assert_eq!(fake.calls_of(Rpc::ListContainers).len(), 1, "a hung list is not repeated");
}

#[test]
fn lists_that_fail_are_told_from_lists_that_hang() {
    let fake = FakeRuntime::start(pods(5));
    fake.on(Rpc::ListPodSandbox).fail(Code::Unavailable, "server is not initialized yet");
    expect(&fake, &row("unhealthy", "list", "D29", 1));
    let fake = FakeRuntime::start(pods(5));
    let text = "grpc: trying to send message larger than max (17000000 vs. 16777216)";
    fake.on(Rpc::ListContainers).fail(Code::ResourceExhausted, text);
    expect(&fake, &row("unhealthy", "list", "D03", 1));
}

#[test]
fn a_list_over_the_kubelets_limit_is_not_healthy_because_we_can_read_it() {
    let fake = FakeRuntime::start(Node::many(40, 50));
    fake.on(Rpc::ListContainers).oversize(17 << 20);
    expect(&fake, &row("unhealthy", "list", "D03", 1));
    let fake = FakeRuntime::start(Node::many(40, 50));
    fake.on(Rpc::ListContainers).oversize(15 << 20);
    expect(&fake, &row("degraded", "list", "D03", 0));
}

#[test]
fn a_daemon_that_does_not_say_its_version_is_silent() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::Version).hang();
    expect(&fake, &row("unhealthy", "connect", "D07", 1));
}

#[test]
fn healthy_nodes_are_healthy_every_time() {
    for count in [0, 1, 100] {
        let fake = FakeRuntime::start(pods(count));
        for _ in 0..3 {
            let report = expect(&fake, &row("healthy", "none", "D00", 0));
            let findings = report["findings"].as_array().unwrap();
            assert!(findings.iter().all(|finding| finding["severity"] == "info"), "{report}");
        }
    }
}

#[test]
fn what_is_no_runtime_is_unknown_or_unhealthy_and_always_reported() {
    let verdict = |socket: &NotARuntime| {
        let output = health(&socket.path().display().to_string(), &[]);
        (report(&output)["verdict"].as_str().unwrap().to_owned(), output.code)
    };
    assert_eq!(verdict(&NotARuntime::missing()), ("unknown".to_owned(), Some(2)));
    assert_eq!(verdict(&NotARuntime::regular_file()), ("unknown".to_owned(), Some(2)));
    assert_eq!(verdict(&NotARuntime::nobody_listens()), ("unhealthy".to_owned(), Some(1)));
    assert_eq!(verdict(&NotARuntime::accepts_and_is_silent()), ("unhealthy".to_owned(), Some(1)));
}

#[test]
fn a_budget_too_small_for_one_probe_is_no_verdict() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::Version).hang();
    let output = health(&fake.endpoint(), &["--budget", "1ms"]);
    assert_eq!((report(&output)["verdict"].as_str(), output.code), (Some("unknown"), Some(2)), "{output}");
}

#[test]
fn only_the_read_only_rpcs_are_sent_and_no_event_stream_is_opened() {
    let fake = FakeRuntime::start_as(Kind::Containerd21, pods(10));
    health(&fake.endpoint(), &["--deep", "--budget", "10s"]);
    let sent: Vec<Rpc> = fake.calls().iter().map(|call| call.rpc).collect();
    assert!(!sent.contains(&Rpc::GetContainerEvents) && !sent.contains(&Rpc::ContainerStats), "{sent:?}");
    health(&fake.endpoint(), &["--probe-shims"]);
    assert_eq!(fake.calls_of(Rpc::ContainerStats).len(), 10);
}

#[test]
fn one_line_for_node_problem_detector() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    fake.on(Rpc::ContainerStatus).id("c2").hang();
    let output = plegctl(&["health", "-r", &fake.endpoint(), "--npd"]);
    assert_eq!(output.code, Some(1), "{output}");
    let line = output.stdout.strip_suffix('\n').unwrap();
    assert!(
        line.starts_with("D01 ") && line.len() <= 80 && line.is_ascii() && !line.contains('\n'),
        "{output}"
    );
}

#[test]
fn a_saved_report_is_shown_again_with_its_exit_status() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ListContainers).fail(Code::Internal, "broken");
    let saved = fake.folder().join("health.json").display().to_string();
    let first = plegctl(&["health", "-r", &fake.endpoint(), "--save", &saved]);
    let again = plegctl(&["health", "--from", &saved]);
    let told = |text: &str| {
        text.lines().filter(|line| !line.contains(", containerd ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!((again.code, told(&again.stdout)), (first.code, told(&first.stdout)), "{first}{again}");
    assert!(again.stdout.contains("\nSAVED 0s ago, D29 certain"), "{again}");
    fs::write(&saved, "{}").unwrap();
    let broken = plegctl(&["health", "--from", &saved]);
    assert_eq!(broken.code, Some(2), "{broken}");
    assert!(broken.stderr.contains("not a HealthReport") && broken.stderr.contains("hint: "), "{broken}");
}

#[test]
fn an_old_relist_in_a_file_or_on_stdin_is_unhealthy() {
    let fake = FakeRuntime::start(pods(3));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (age, verdict, exit) in [(1, "healthy", 0), (170, "healthy", 0), (629, "unhealthy", 1)] {
        let text = format!("kubelet_pleg_last_seen_seconds {}\n", now - age);
        let file = fake.folder().join("metrics.txt").display().to_string();
        fs::write(&file, &text).unwrap();
        let by_file = health(&fake.endpoint(), &["--kubelet-metrics", &file]);
        let arguments = ["health", "-r", &fake.endpoint(), "--kubelet-metrics", "-", "-o", "json"];
        let by_stdin = Invocation::new(&arguments).stdin(text.clone()).run();
        for output in [by_file, by_stdin] {
            let report = report(&output);
            assert_eq!((report["verdict"].as_str(), output.code), (Some(verdict), Some(exit)), "{output}");
            if verdict == "unhealthy" {
                assert_eq!((&report["primary"]["id"], &report["phase"]), (&"D22".into(), &"kubelet".into()));
                assert!(report["kubelet"]["disagreements"][0].as_str().unwrap().contains("10m"), "{output}");
            }
        }
    }
}

#[test]
fn explain_knows_every_id_offline_and_the_nearest_of_a_slip() {
    let list = plegctl(&["explain"]);
    assert_eq!(list.code, Some(0), "{list}");
    let ids: Vec<&str> = list.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(ids.contains(&"D00") && ids.contains(&"D32") && ids.contains(&"SP001"), "{list}");
    for id in ids {
        let output = plegctl(&["explain", &id.to_lowercase()]);
        assert!(output.code == Some(0) && output.stdout.starts_with(&format!("{id}  ")), "{output}");
        assert!(output.stdout.contains("\nto confirm it\n"), "{output}");
    }
    let slip = plegctl(&["explain", "D1"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (Some(2), ""), "{slip}");
    assert!(slip.stderr.contains("hint: did you mean D01?"), "{slip}");
}

#[test]
fn warnings_fail_only_when_asked_to() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    assert_eq!(health(&fake.endpoint(), &[]).code, Some(0));
    assert_eq!(health(&fake.endpoint(), &["--fail-on", "warning"]).code, Some(1));
}

#[test]
fn metrics_come_from_stdin_and_must_be_metrics() {
    let fake = FakeRuntime::start(pods(3));
    let arguments = ["health", "-r", &fake.endpoint(), "--kubelet-metrics", "-", "-o", "json"];
    let output = Invocation::new(&arguments).stdin("not metrics at all\n").run();
    assert_eq!((report(&output)["verdict"].as_str(), output.code), (Some("unknown"), Some(2)), "{output}");
}

#[test]
fn prometheus_has_one_verdict() {
    let fake = FakeRuntime::start(pods(3));
    let output = plegctl(&["health", "-r", &fake.endpoint(), "-o", "prometheus"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("verdict=\"healthy\"} 1\n"), "{output}");
}

#[test]
fn a_kubelet_that_is_newer_than_we_know_is_said_to_be_once() {
    let metrics = std::env::temp_dir().join(format!("plegctl-newer-{}", std::process::id()));
    fs::write(&metrics, "kubernetes_build_info{git_version=\"v1.99.1\"} 1\n").unwrap();
    let output = health("sim:quiet", &["--kubelet-metrics", metrics.to_str().unwrap()]);
    fs::remove_file(&metrics).unwrap();
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(output.stderr.matches("kubelet 1.99 is not known").count(), 1, "{output}");
    let known = health("sim:quiet", &["--kubelet-version", "1.36"]);
    assert!(!known.stderr.contains("not known"), "{known}");
}
