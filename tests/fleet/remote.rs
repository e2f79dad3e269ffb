//! Tests of `plegctl health --node NAME` on a machine that is not the node, against a scripted API server: through the
//! pod proxy to a recorder, else to the kubelet.

use std::fs;

use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::nodes::{authority, kubeconfig};
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};

/// Noon of the day of every scripted answer, in seconds since the epoch.
const NOON: u32 = 1_795_262_400;

const POD_PROXY: &str = "/api/v1/namespaces/plegctl/pods/plegctl-x:9469/proxy/verdict?o=json";

/// Returns a node of the API server, with its condition Ready.
pub(super) fn node(ready: &str, message: &str) -> Reply {
    let node = json!({"metadata": {"name": "n1"}, "status": {
        "nodeInfo": {"kubeletVersion": "v1.34.2", "containerRuntimeVersion": "containerd://2.1.4"},
        "conditions": [{"type": "Ready", "status": ready, "message": message,
            "lastTransitionTime": "2026-11-21T11:59:51Z"}]}});
    Reply::ok(node.to_string())
}

pub(super) fn pods(names: &[&str]) -> Reply {
    let pods = names.iter().map(|name| {
        json!({
            "metadata": {"namespace": "plegctl", "name": name},
            "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "metrics", "containerPort": 9469}]}]},
            "status": {"phase": "Running"}})
    });
    Reply::ok(json!({"kind": "PodList", "items": pods.collect::<Vec<_>>()}).to_string())
}

/// Returns a verdict of a recorder whose clock is 42 seconds ahead of the API server's.
pub(super) fn verdict() -> Value {
    json!({
        "apiVersion": "plegctl/v1", "kind": "RecorderVerdict", "takenAt": "2026-11-21T12:00:42Z", "node": "n1",
        "runtime": {"endpoint": "unix:///run/containerd/containerd.sock", "name": "containerd", "version": "2.1.4"},
        "verdict": "unhealthy", "since": "2026-11-21T11:58:42Z",
        "summary": "ContainerStatus of shop/db-0/postgres does not answer",
        "primary": {"id": "D01", "title": "t", "severity": "critical", "confidence": "certain", "phase": "status",
            "evidence": ["it has been silent for 2 m"], "steps": [{"purpose": "look at the shim", "changesState": false}]},
        "culprits": [{"rpc": "ContainerStatus", "id": "c1", "pod": {"uid": "u", "namespace": "shop", "name": "db-0"},
            "waitedSeconds": 12.0, "outcome": "silent", "confidence": "certain"}],
        "diagnosisAgeSeconds": 90.0,
        "incident": {"number": 3, "from": "2026-11-21T11:58:42Z", "why": "w"}})
}

fn kubelet(request: &Request) -> Reply {
    if request.path.ends_with("/configz") {
        return Reply::ok(r#"{"kubeletconfig":{}}"#);
    }
    Reply::ok(format!("kubelet_pleg_last_seen_seconds {}\n", NOON - 2))
}

/// Returns a cluster with one node, whose recorder gives this answer.
fn cluster(recorder: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
    Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        "/api/v1/nodes/n1" => node("True", "ok"),
        path if path.starts_with("/api/v1/pods?") => pods(&["plegctl-x"]),
        POD_PROXY => recorder(request),
        path if path.starts_with("/api/v1/nodes/n1/proxy/") => kubelet(request),
        _ => Reply::Answer(404, String::new()),
    })
}

fn health(server: &Server, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let known = ["health", "--kubeconfig", config.0.to_str().unwrap(), "--node", "n1"];
    Invocation::new(&[&known, arguments].concat()).run()
}

fn report(server: &Server, arguments: &[&str]) -> (Output, Value) {
    let output = health(server, &[&["-o", "json"], arguments].concat());
    let report = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    (output, report)
}

#[test]
fn recorder_names_the_culprit_on_the_laptop_and_the_screen_says_how_old_that_is() {
    let server = cluster(|_| Reply::ok(verdict().to_string()));
    let output = health(&server, &[]);
    assert_eq!(output.code, Some(1), "{output}");
    let first = output.stdout.lines().next().unwrap();
    assert_eq!(first, "UNHEALTHY  ContainerStatus of shop/db-0/postgres does not answer", "{output}");
    let screen: String = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "source: the recorder plegctl/plegctl-x through the API server; incident 3 since 2026-11-21T11:58:42",
        "(2m); diagnosed 90s ago; the node's clock is 42s ahead of the API server's",
        "it has been silent for 2 m",
        "look at the shim",
    ] {
        assert!(screen.contains(words), "{words}: {output}");
    }
    assert!(output.stdout.lines().count() <= 24, "{output}");
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    let [node, list, proxy] = &paths[..] else { panic!("{paths:?}") };
    assert_eq!((node.as_str(), proxy.as_str()), ("/api/v1/nodes/n1", POD_PROXY));
    assert!(list.contains("labelSelector=app.kubernetes.io%2Fname%3Dplegctl"), "{list}");
    assert!(list.contains("fieldSelector=spec.nodeName%3Dn1"), "{list}");
    assert!(server.requests().iter().all(|request| request.method == "GET"), "{paths:?}");
}

#[test]
fn report_of_a_recorder_is_a_health_report_that_can_be_saved_and_shown_again() {
    let server = cluster(|_| Reply::ok(verdict().to_string()));
    let place = CaptureDir::make();
    let file = place.path("report.json");
    let (output, report) = report(&server, &["--save", argument(&file)]);
    assert_eq!(
        (&report["kind"], &report["verdict"]),
        (&"HealthReport".into(), &"unhealthy".into()),
        "{output}"
    );
    assert_eq!(report["source"]["kind"], "recorder");
    assert_eq!(report["source"]["incident"], 3);
    assert_eq!(report["source"]["clockAheadSeconds"], 42.0);
    assert_eq!(report["culprits"][0]["pod"]["name"], "db-0");
    let again = Invocation::new(&["health", "--from", argument(&file)]).run();
    assert_eq!(again.code, Some(1), "{again}");
    assert!(again.stdout.contains("source: the recorder plegctl/plegctl-x"), "{again}");
}

#[test]
fn runtime_of_the_environment_is_never_used_for_another_node() {
    let server = cluster(|_| Reply::ok(verdict().to_string()));
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let place = CaptureDir::make();
    let crictl = place.path("crictl.yaml");
    fs::write(&crictl, "runtime-endpoint: sim:hung-list\n").unwrap();
    let run = |arguments: &[&str], variable: (&str, &str)| {
        let known = ["--node", "n1", "--kubeconfig", argument(&config.0)];
        let invocation = Invocation::new(&[arguments, &known].concat());
        // The user's own variable, for example in a script.
        invocation.env("NODE_NAME", "n1").env(variable.0, variable.1).run()
    };
    let variables = [
        ("CONTAINER_RUNTIME_ENDPOINT", "sim:hung-list"),
        ("CONTAINER_RUNTIME_ENDPOINT", "capture:/nonexistent"),
        ("CRI_CONFIG_FILE", argument(&crictl)),
    ];
    for variable in variables {
        let output = run(&["health", "-o", "json"], variable);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
        assert_eq!(
            (&report["node"], &report["source"]["kind"]),
            (&"n1".into(), &"recorder".into()),
            "{output}"
        );
        assert_eq!(report["primary"]["id"], "D01", "{output}");
        let line = run(&["health", "--npd"], variable);
        assert!(line.stdout.starts_with("D01 "), "{line}");
    }
    for (command, option, value) in [
        (&["health"][..], "--runtime-endpoint", "sim:quiet"),
        (&["health"], "--config", "/etc/crictl.yaml"),
        (&["stacks"], "--runtime-endpoint", "sim:quiet"),
        (
            &["capture", "export", "x", "--incident", "1", "--token-file", "x"],
            "--runtime-endpoint",
            "sim:quiet",
        ),
    ] {
        let output = run(&[command, &[option, value]].concat(), ("LANG", "C"));
        assert!(
            output.code == Some(2) && output.stderr.contains("this command asks other nodes"),
            "{output}"
        );
    }
}

#[test]
fn without_a_recorder_the_kubelet_is_the_source() {
    for (list, why) in [
        (pods(&[]), "no running pod of it was found on n1"),
        (Reply::Answer(403, r#"{"message":"pods is forbidden"}"#.to_owned()), "pods is forbidden"),
        (Reply::ok("[]"), "the list of its pods cannot be read"),
    ] {
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            "/api/v1/nodes/n1" => node("True", "ok"),
            path if path.contains("/pods?") => list.clone(),
            _ => kubelet(request),
        });
        let (output, report) = report(&server, &[]);
        assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{output}");
        assert_eq!(report["source"]["kind"], "kubelet", "{output}");
        assert_eq!(report["kubelet"]["plegAgeSeconds"], 2.0, "{output}");
        let no_recorder = report["source"]["noRecorder"].as_str().unwrap();
        assert!(no_recorder.contains(why), "{why}: {output}");
        let screen = health(&server, &[]);
        let first = "HEALTHY  PLEG was last seen 2 s ago; not looked at: the runtime, its shims and the node's disks\n";
        assert!(screen.stdout.starts_with(first), "{screen}");
        assert!(screen.stdout.contains("source: the kubelet's /metrics and /configz"), "{screen}");
    }
}

#[test]
fn right_to_list_one_namespace_is_enough_to_find_the_recorder() {
    let server = Server::start("server", Clients::Any, |request| match request.path.as_str() {
        "/api/v1/nodes/n1" => Reply::Answer(403, r#"{"message":"nodes is forbidden"}"#.to_owned()),
        path if path.starts_with("/api/v1/pods?") => Reply::Answer(403, String::new()),
        path if path.starts_with("/api/v1/namespaces/plegctl/pods?") => pods(&["plegctl-x"]),
        _ => Reply::ok(verdict().to_string()),
    });
    let (output, report) = report(&server, &[]);
    assert_eq!((output.code, &report["source"]["kind"]), (Some(1), &"recorder".into()), "{output}");
    assert_eq!(report["notChecked"][0]["what"], "the node's condition Ready", "{output}");
}

#[test]
fn recorder_that_is_silent_or_lies_is_not_believed() {
    let mut other_kind = verdict();
    other_kind["kind"] = "HealthReport".into();
    let mut no_verdict = verdict();
    no_verdict["verdict"] = "splendid".into();
    let large = format!("{{\"kind\":\"{}\"}}", "x".repeat(2 << 20));
    for (answer, why) in [
        (Reply::Silent, "did not answer within"),
        (Reply::Half("{\"kind\":"), "stopped after 8 bytes"),
        (Reply::Cut("{\"kind\":"), "ended the connection"),
        (Reply::ok("<html>"), "is no verdict"),
        (Reply::ok(other_kind.to_string()), "it is `HealthReport` of `plegctl/v1`"),
        (Reply::ok(no_verdict.to_string()), "splendid"),
        (Reply::ok(large), "more than 1 MiB"),
        (Reply::ok("[".repeat(1 << 19)), "is no verdict"),
        (Reply::Redirect("https://elsewhere.example/"), "does not follow redirects"),
        (Reply::Answer(401, String::new()), "(401)"),
        (Reply::Answer(404, "the metrics are at /metrics\n".to_owned()), "answers 404"),
        (Reply::Answer(503, "error trying to reach service: EOF".to_owned()), "EOF"),
    ] {
        let server = cluster(move |_| answer.clone());
        let budget = if why.starts_with("did not") || why.starts_with("stopped") { "16s" } else { "5m" };
        let (output, report) = report(&server, &["--budget", budget]);
        assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{why}: {output}");
        assert_eq!(report["source"]["kind"], "kubelet", "{why}: {output}");
        let no_recorder = report["source"]["noRecorder"].as_str().unwrap();
        assert!(no_recorder.contains(why), "{why}: {no_recorder}");
    }
}

#[test]
fn node_that_is_not_ready_is_never_healthy() {
    let mut healthy = verdict();
    for part in ["primary", "incident", "diagnosisAgeSeconds"] {
        healthy.as_object_mut().unwrap().remove(part);
    }
    healthy["verdict"] = "healthy".into();
    healthy["culprits"] = json!([]);
    for (ready, message, expected) in [
        ("True", "", "healthy"),
        ("False", "PLEG is not healthy: pleg was last seen active 3m13s ago", "unhealthy"),
        ("False", "network is not ready", "degraded"),
        ("Unknown", "Kubelet stopped posting node status.", "degraded"),
    ] {
        let answer = healthy.to_string();
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            "/api/v1/nodes/n1" => node(ready, message),
            path if path.starts_with("/api/v1/pods?") => pods(&["plegctl-x"]),
            _ => Reply::ok(answer.clone()),
        });
        let (output, report) = report(&server, &[]);
        assert_eq!(report["verdict"], expected, "{output}");
        assert!(report["summary"].as_str().unwrap().contains(message), "{output}");
    }
}

/// Returns the verdict of a recorder that predicts a time 23 seconds before its answer.
fn verdict_with_a_prediction() -> Value {
    let mut verdict = verdict();
    verdict["primary"]["title"] = "ListContainers does not answer".into();
    verdict["summary"] =
        "ListContainers does not answer: NotReady at the latest at 12:00:19 UTC (23s ago)".into();
    verdict["estimate"] = json!({"hungCalls": 1, "changedPods": 0, "requestTimeoutSeconds": 120.0,
        "thresholdSeconds": 180.0, "wouldTrip": true, "flaps": false, "basis": [],
        "notReadyAt": "2026-11-21T12:00:19Z"});
    verdict
}

#[test]
fn nodes_condition_has_the_time_since_which_the_node_is_not_ready() {
    for (ready, summary, since) in [
        (
            "False",
            "ListContainers does not answer: NotReady since 11:59:51 UTC",
            Some("2026-11-21T11:59:51.000000000Z"),
        ),
        (
            "Unknown",
            "ListContainers does not answer: NotReady since 11:59:51 UTC",
            Some("2026-11-21T11:59:51.000000000Z"),
        ),
        ("True", "ListContainers does not answer; the node is still Ready", None),
    ] {
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            "/api/v1/nodes/n1" => node(ready, "PLEG is not healthy: pleg was last seen active 3m1s ago"),
            path if path.starts_with("/api/v1/pods?") => pods(&["plegctl-x"]),
            _ => Reply::ok(verdict_with_a_prediction().to_string()),
        });
        let (output, report) = report(&server, &[]);
        assert_eq!((output.code, &report["verdict"]), (Some(1), &"unhealthy".into()), "{output}");
        assert_eq!(report["summary"], summary, "{output}");
        assert_eq!(report["estimate"]["notReadySince"].as_str(), since, "{output}");
        assert_eq!(report["estimate"].get("notReadyAt").is_some(), since.is_none(), "{output}");
    }
}

#[test]
fn silent_kubelet_and_an_unreachable_node_are_distinguished() {
    for (configz, why) in
        [(true, "possibly for a list call"), (false, "no answer arrives through the API server")]
    {
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            "/api/v1/nodes/n1" => node("True", "ok"),
            path if path.contains("/pods?") => pods(&[]),
            path if configz && path.ends_with("/configz") => kubelet(request),
            _ => Reply::Silent,
        });
        let (output, report) = report(&server, &["--budget", "16s"]);
        // A silent /metrics may have another reason than a list call that hangs.
        assert_eq!((output.code, &report["verdict"]), (Some(2), &"unknown".into()), "{output}");
        assert!(report["summary"].as_str().unwrap().contains(why), "{output}");
    }
}

#[test]
fn node_that_does_not_exist_and_a_flag_for_the_runtime_are_errors() {
    let server = Server::start("server", Clients::Any, |_| {
        Reply::Answer(404, r#"{"kind":"Status","message":"nodes \"n1\" not found"}"#.to_owned())
    });
    let output = health(&server, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("nodes \"n1\" not found"), "{output}");
    for flag in [&["--probe-shims"][..], &["--proc", "/proc"], &["--stacks", "stacks.txt"]] {
        let output = health(&server, flag);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(&format!("`{}` needs the runtime of `n1`", flag[0])), "{output}");
    }
}
