//! `plegctl nodes` with recorders on the nodes, against a scripted API server: their verdicts in the rows, and their
//! incidents joined over all nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::nodes::{authority, kubeconfig};
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};

/// Noon of the day of every scripted answer, in seconds since the epoch.
const NOON: u32 = 1_795_262_400;

/// A node whose condition Ready has this status.
fn node(name: &str, ready: &str, runtime: &str, pool: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"cloud.google.com/gke-nodepool": pool}}, "status": {
        "nodeInfo": {"kubeletVersion": "v1.34.2", "kernelVersion": "6.1.0",
            "containerRuntimeVersion": format!("containerd://{runtime}")},
        "conditions": [{"type": "Ready", "status": ready, "message": "PLEG is not healthy: long ago"}]}})
}

/// A recorder's pod on a node.
fn pod(node: &str) -> Value {
    json!({
        "metadata": {"namespace": "plegctl", "name": format!("rec-{node}")},
        "spec": {"nodeName": node, "containers": [{"ports": [{"name": "metrics", "containerPort": 9469}]}]},
        "status": {"phase": "Running"}})
}

fn list(items: &[Value], next: &str) -> Reply {
    Reply::ok(json!({"metadata": {"continue": next}, "items": items}).to_string())
}

/// The page of `items` that a request wants; a page has 200 items.
fn page(items: &[Value], path: &str) -> Reply {
    let start: usize = path.split_once("continue=").map_or(0, |(_, start)| start.parse().unwrap());
    let end = (start + 200).min(items.len());
    list(&items[start..end], &if end < items.len() { end.to_string() } else { String::new() })
}

/// A recorder's verdict with this primary finding.
fn verdict(verdict: &str, id: &str, rpc: &str) -> Value {
    json!({
        "apiVersion": "plegctl/v1", "kind": "RecorderVerdict", "takenAt": "2026-11-21T12:00:00Z", "node": "x",
        "runtime": {"endpoint": "unix:///run/c.sock"}, "verdict": verdict, "since": "2026-11-21T11:58:00Z",
        "summary": format!("{rpc} of shop/db-0/postgres does not answer"),
        "primary": {"id": id, "title": "a call does not answer", "severity": "critical", "confidence": "certain", "phase": "list", "rpc": rpc},
        "culprits": [{"rpc": rpc, "id": "c1", "pod": {"uid": "u", "namespace": "shop", "name": "db-0"},
            "container": {"id": "c1", "name": "postgres"}, "waitedSeconds": 12.0, "outcome": "silent", "confidence": "certain"}],
        "incident": {"number": 3, "from": "2026-11-21T11:58:00Z", "why": "w"}})
}

fn healthy() -> Value {
    json!({
        "apiVersion": "plegctl/v1", "kind": "RecorderVerdict", "takenAt": "2026-11-21T12:00:00Z",
        "runtime": {"endpoint": "unix:///run/c.sock"}, "verdict": "healthy", "since": "2026-11-21T08:00:00Z",
        "summary": "no incident is open", "culprits": []})
}

/// The node and the page of a request to a recorder.
fn recorder(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/api/v1/namespaces/plegctl/pods/rec-")?.split_once(":9469/proxy/")
}

/// The node and the document of a request to a kubelet.
fn kubelet(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/api/v1/nodes/")?.split_once("/proxy/")
}

/// The answer of a kubelet whose last relist was a second ago.
fn good_kubelet(document: &str) -> Reply {
    match document {
        "configz" => Reply::ok(r#"{"kubeletconfig":{}}"#),
        _ => Reply::ok(format!("kubelet_pleg_last_seen_seconds {}\n", NOON - 1)),
    }
}

fn nodes(server: &Server, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    Invocation::new(&[&["nodes", "--kubeconfig", config.0.to_str().unwrap()], arguments].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

fn only_get(server: &Server) {
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.method == "GET"), "{requests:?}");
}

/// A cluster in which every node but `none` has a recorder.
fn cluster() -> Server {
    let names = ["hung", "slow", "good", "lies", "none", "page", "moved", "huge", "other", "half"];
    let listed: Vec<Value> = names
        .iter()
        .map(|name| node(name, if *name == "lies" { "False" } else { "True" }, "2.3.1", "p"))
        .collect();
    let pods: Vec<Value> = names.iter().filter(|name| **name != "none").map(|name| pod(name)).collect();
    Server::start("server", Clients::Any, move |request: &Request| {
        if let Some((node, page)) = recorder(&request.path) {
            assert_eq!(page, "verdict?o=json");
            return match node {
                "hung" => Reply::ok(verdict("unhealthy", "D02", "ListContainers").to_string()),
                "slow" => Reply::ok(verdict("degraded", "D01", "ContainerStatus").to_string()),
                "page" => Reply::ok("<html>"),
                "moved" => Reply::Redirect("https://elsewhere.example/"),
                "huge" => Reply::ok(format!("{{\"kind\":\"{}\"}}", "x".repeat(1_100_000))),
                "other" => Reply::ok(r#"{"apiVersion":"plegctl/v1","kind":"NodesReport"}"#),
                "half" => Reply::Cut("{\"apiVersion\""),
                _ => Reply::ok(healthy().to_string()),
            };
        }
        match (kubelet(&request.path), request.path.as_str()) {
            (Some((_, document)), _) => good_kubelet(document),
            (None, path) if path.starts_with("/api/v1/pods?") => list(&pods, ""),
            (None, _) => list(&listed, ""),
        }
    })
}

#[test]
fn row_has_the_recorders_verdict_and_culprit_and_a_lying_recorder_changes_nothing_for_the_better() {
    let server = cluster();
    let output = nodes(&server, &["-o", "json", "--timeout", "60s"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    let found = |name: &str| {
        let nodes = report["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).unwrap().clone()
    };
    for (name, verdict, why, recorder) in [
        ("hung", "unhealthy", "D02: ListContainers of shop/db-0/postgres does not answer", "unhealthy"),
        ("slow", "degraded", "D01: ContainerStatus of shop/db-0/postgres does not answer", "degraded"),
        ("good", "healthy", "", "healthy"),
        ("lies", "unhealthy", "NotReady: PLEG is not healthy", "healthy"),
        ("none", "healthy", "", ""),
        ("page", "healthy", "its recorder plegctl/rec-page: its answer cannot be used", ""),
        ("moved", "healthy", "it redirects to https://elsewhere.example/", ""),
        ("huge", "healthy", "answers with more than 1 MiB", ""),
        ("other", "healthy", "it is `NodesReport` of `plegctl/v1`", ""),
        ("half", "healthy", "ended the connection after", ""),
    ] {
        let node = found(name);
        assert_eq!(node["verdict"], verdict, "{name}: {output}");
        assert!(node["why"].as_str().unwrap_or_default().contains(why), "{name}: {node}");
        assert_eq!(node["recorder"]["verdict"].as_str().unwrap_or_default(), recorder, "{name}: {node}");
        assert_eq!(node["recorder"].is_null(), name == "none", "{name}");
    }
    let hung = found("hung");
    assert_eq!(hung["recorder"]["primary"]["id"], "D02");
    assert_eq!(hung["recorder"]["incident"], 3);
    assert_eq!(hung["recorder"]["culprits"][0]["pod"]["name"], "db-0");
    only_get(&server);
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    let lists = paths.iter().filter(|path| path.starts_with("/api/v1/pods?"));
    assert_eq!(lists.count(), 1, "one list finds all recorders: {paths:?}");
    // Its /metrics would not answer.
    assert!(!paths.iter().any(|path| path.starts_with("/api/v1/nodes/hung/")), "{paths:?}");

    let table = nodes(&server, &["--timeout", "60s"]);
    let line = |name: &str| table.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(table.stdout.contains("NAME    VERDICT     RECORDER        CULPRIT "), "{table}");
    assert!(line("hung").contains("unhealthy D02   shop/db-0/postgres "), "{table}");
    assert!(line("page").contains("no answer "), "{table}");
    assert!(line("none").contains("<none> "), "{table}");
    let requests = server.requests().len();
    let without = nodes(&server, &["--no-recorders", "-o", "json", "--timeout", "60s"]);
    assert_eq!(without.code, Some(1), "{without}");
    let asked = server.requests().split_off(requests);
    assert!(asked.iter().all(|request| !request.path.contains("/pods")), "{asked:?}");
    assert!(!without.stdout.contains("\"recorder\""), "{without}");
}

#[test]
fn silent_metrics_beside_a_recorder_whose_lists_are_answered_are_no_hung_list() {
    let server = Server::start("server", Clients::Any, move |request: &Request| {
        if let Some((node, _)) = recorder(&request.path) {
            return Reply::ok(match node {
                "good" => healthy().to_string(),
                "slow" => verdict("degraded", "D01", "ContainerStatus").to_string(),
                _ => healthy().to_string().replace("\"healthy\"", "\"unknown\""),
            });
        }
        match (kubelet(&request.path), request.path.as_str()) {
            (Some((_, "configz")), _) => good_kubelet("configz"),
            (Some(_), _) => Reply::Silent,
            (None, path) if path.starts_with("/api/v1/pods?") => list(&["good", "slow", "new"].map(pod), ""),
            (None, _) => list(&["good", "slow", "new"].map(|name| node(name, "True", "2", "p")), ""),
        }
    });
    let report = report(&nodes(&server, &["-o", "json", "--timeout", "2s"]));
    for (name, verdict, why) in [
        ("good", "degraded", "its /metrics is silent; its recorder's list calls are answered"),
        (
            "slow",
            "degraded",
            "D01: ContainerStatus of shop/db-0/postgres does not answer; its /metrics is silent; its",
        ),
        (
            "new",
            "silent",
            "its /metrics is silent while its /configz answers: the kubelet waits, possibly for a list call or a shim",
        ),
    ] {
        let nodes = report["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        assert_eq!(node["verdict"], verdict, "{node}");
        assert!(node["why"].as_str().unwrap().starts_with(why), "{node}");
    }
}

#[test]
fn rights_to_the_recorders_alone_are_enough_for_a_verdict() {
    let no = |what: &str| Reply::Answer(403, format!(r#"{{"message":"{what} is forbidden"}}"#));
    let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        path if path.starts_with("/api/v1/nodes?") => {
            list(&["a", "b", "c"].map(|name| node(name, "True", "2", "p")), "")
        }
        path if path.starts_with("/api/v1/pods?") => no("pods"),
        path if path.starts_with("/api/v1/namespaces/plegctl/pods?") => list(&[pod("a"), pod("b")], ""),
        path => match recorder(path) {
            Some(("a", _)) => Reply::ok(healthy().to_string()),
            Some(_) => Reply::ok(healthy().to_string().replace("\"healthy\"", "\"unknown\"")),
            None => no("nodes/proxy"),
        },
    });
    let output = nodes(&server, &["-o", "json", "--timeout", "60s"]);
    let report = report(&output);
    assert_eq!((output.code, &report["counts"]["healthy"]), (Some(0), &1.into()), "{output}");
    assert_eq!(report["counts"]["unknown"], 2, "{output}");

    let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        path if path.starts_with("/api/v1/nodes?") => list(&[node("a", "True", "2", "p")], ""),
        path if path.contains("/pods?") => no("pods"),
        path => good_kubelet(path.rsplit('/').next().unwrap()),
    });
    let output = nodes(&server, &["-o", "json", "--timeout", "60s"]);
    assert_eq!(output.code, Some(0), "without recorders, the kubelets are enough: {output}");
    assert!(
        output.stderr.contains("the recorders are not asked: ")
            && output.stderr.contains("pods is forbidden")
    );
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["notChecked"][0]["what"], "the recorders", "{output}");
}

/// A recorder's list without incidents.
const NO_INCIDENTS: &str = r#"{"apiVersion":"plegctl/v1","kind":"IncidentList","takenAt":"2026-11-21T12:00:00Z","from":"2026-11-20T12:00:00Z","incidents":[]}"#;

/// A recorder's list with one incident, whose culprit is this pod's container `csi-nfs`.
fn incidents(pod: &str, taken_at: &str, open: bool) -> String {
    let to = if open { json!({}) } else { json!({"to": "2026-11-21T02:30:00Z", "lastedSeconds": 1200.0}) };
    let mut incident = json!({"number": 1, "from": "2026-11-21T02:10:00Z", "open": open, "why": "w",
        "primary": {"id": "D02", "title": "ListContainers does not answer", "severity": "critical", "confidence": "certain",
            "phase": "list", "pod": {"namespace": "kube-system", "name": pod}, "container": {"id": "c", "name": "csi-nfs"}}});
    incident.as_object_mut().unwrap().extend(to.as_object().unwrap().clone());
    json!({"apiVersion": "plegctl/v1", "kind": "IncidentList", "takenAt": taken_at, "node": "x",
        "from": "2026-11-20T12:00:00Z", "incidents": [incident]})
    .to_string()
}

#[test]
fn incidents_of_all_nodes_are_joined_by_cause_and_say_what_the_nodes_share() {
    let names = ["a", "b", "quiet", "without", "broken"];
    let server = Server::start("server", Clients::Any, move |request| {
        if let Some((node, page)) = recorder(&request.path) {
            assert_eq!(page, "incidents?since=86400s");
            return match node {
                "a" => Reply::ok(incidents("csi-a", "2026-11-21T12:00:00Z", true)),
                // This node's clock is ten minutes ahead.
                "b" => Reply::ok(incidents("csi-b", "2026-11-21T12:10:00Z", false)),
                "quiet" => Reply::ok(NO_INCIDENTS),
                _ => Reply::ok("[]"),
            };
        }
        match request.path.as_str() {
            path if path.starts_with("/api/v1/nodes?") => list(
                &names.map(|name| {
                    let runtime = if name.len() == 1 { "2.3.2" } else { "2.3.1" };
                    node(name, "True", runtime, if name == "b" { "gpu" } else { "cpu" })
                }),
                "",
            ),
            path if path.starts_with("/api/v1/pods?") => list(&["a", "b", "quiet", "broken"].map(pod), ""),
            "/api/v1/namespaces/kube-system/pods/csi-a" | "/api/v1/namespaces/kube-system/pods/csi-b" => {
                Reply::ok(r#"{"spec":{"containers":[{"name":"csi-nfs","image":"csi-nfs:v4.9"}]}}"#)
            }
            path => panic!("{path} is requested"),
        }
    });
    let output = nodes(&server, &["--incidents", "-o", "json", "--timeout", "60s"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    assert_eq!(report["kind"], "FleetIncidents");
    assert_eq!(
        report["counts"],
        json!({"nodes": 5, "withIncidents": 2, "withoutIncidents": 1, "noRecorder": 1, "noAnswer": 1}),
        "{output}"
    );
    let group = &report["groups"][0];
    assert_eq!((&group["id"], &group["open"]), (&"D02".into(), &1.into()));
    assert_eq!(group["from"], "2026-11-21T02:00:00.000000000Z", "the clock of `b` is corrected: {output}");
    let shared: BTreeMap<&str, &Value> = group["shared"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (fact["what"].as_str().unwrap(), fact))
        .collect();
    assert_eq!(shared["container"]["value"], "kube-system/csi-nfs");
    assert_eq!(shared["image"]["value"], "csi-nfs:v4.9");
    assert_eq!(
        (&shared["runtime"]["value"], &shared["runtime"]["otherNodes"]),
        (&"containerd 2.3.2".into(), &0.into())
    );
    assert_eq!(shared["kernel"]["otherNodes"], 3);
    assert!(!shared.contains_key("pool"), "the nodes are in two pools: {output}");
    assert_eq!(report["notAnswered"][0]["node"], "broken");
    only_get(&server);

    let text = nodes(&server, &["--incidents", "--timeout", "60s"]);
    for words in [
        "2 nodes, D02 ListContainers does not answer; since 2026-11-21 02:00 UTC, 1 still open\n",
        "  in all: container kube-system/csi-nfs, image csi-nfs:v4.9, containerd 2.3.2 (on no other node), \
         kernel 6.1.0 (also on 3 other nodes)",
        "\n  a, b\n",
        "2 of 5 nodes had incidents since ",
        "; 1 have no recorder; the recorders of 1 node gave no answer\n",
    ] {
        assert!(text.stdout.contains(words), "{words}: {text}");
    }
    let names = nodes(&server, &["--incidents", "-o", "name", "--timeout", "60s"]);
    assert_eq!(names.stdout, "a\nb\n", "{names}");
}

#[test]
fn no_incident_is_good_news_and_no_recorder_is_no_answer() {
    for (answer, code) in [(Some(NO_INCIDENTS), 0), (Some("{}"), 2), (None, 2)] {
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            path if path.starts_with("/api/v1/nodes?") => list(&[node("a", "True", "2", "p")], ""),
            path if path.starts_with("/api/v1/pods?") => {
                list(&answer.map(|_| pod("a")).into_iter().collect::<Vec<_>>(), "")
            }
            _ => Reply::ok(answer.unwrap()),
        });
        let output = nodes(&server, &["--incidents", "--timeout", "60s"]);
        assert_eq!(output.code, Some(code), "{answer:?}: {output}");
    }
}

/// What a node of the large fleet is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Healthy,
    /// Its list call hangs, and its recorder says so.
    Hung,
    /// Its list call hangs, and it has no recorder.
    HungAlone,
    /// Its recorder does not answer; the kubelet is healthy.
    Silent,
    /// Its recorder answers something else; the kubelet is healthy.
    Liar,
}

/// In a fleet of any size, 500 nodes have an incident. 300 of them have no recorder, 20 other nodes a silent one, 5 a lying
/// one.
fn kind(number: usize) -> Kind {
    match number {
        0..200 => Kind::Hung,
        200..500 => Kind::HungAlone,
        500..520 => Kind::Silent,
        520..525 => Kind::Liar,
        _ => Kind::Healthy,
    }
}

/// An API server with a fleet of this size. It does not use TLS, because in this test build the handshakes would take
/// longer than the answers.
fn fleet(size: usize) -> Server {
    let names: Vec<String> = (0..size).map(|number| format!("node-{number:05}")).collect();
    let listed: Vec<Value> = names.iter().map(|name| node(name, "True", "2.3.1", "p")).collect();
    let with_recorder = |number: &usize| kind(*number) != Kind::HungAlone;
    let pods: Vec<Value> = (0..size).filter(with_recorder).map(|number| pod(&names[number])).collect();
    Server::start_plain(move |request| {
        let kind_of = |node: &str| kind(node.trim_start_matches("node-").parse().unwrap());
        if let Some((node, _)) = recorder(&request.path) {
            return match kind_of(node) {
                Kind::Hung => Reply::ok(verdict("unhealthy", "D02", "ListContainers").to_string()),
                Kind::Silent => Reply::Silent,
                Kind::Liar => match node.bytes().last() {
                    Some(b'0') => Reply::ok("{\"kind\":"),
                    Some(b'1') => Reply::Redirect("http://elsewhere.example/"),
                    Some(b'2') => Reply::ok(format!("[{}[]]", "[],".repeat(300_000))),
                    Some(b'3') => Reply::ok("x".repeat(1_100_000)),
                    _ => Reply::Half("{\"apiVersion\":"),
                },
                _ => Reply::ok(healthy().to_string()),
            };
        }
        match (kubelet(&request.path), request.path.as_str()) {
            (Some((node, "metrics")), _) if kind_of(node) == Kind::HungAlone => Reply::Silent,
            (Some((_, document)), _) => good_kubelet(document),
            (None, path) if path.starts_with("/api/v1/pods?") => page(&pods, path),
            (None, path) => page(&listed, path),
        }
    })
}

/// The number of requests of each kind.
fn requests(server: &Server) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for Request { path, method, .. } in server.requests() {
        assert_eq!(method, "GET", "{path}");
        let what = match path.as_str() {
            path if path.contains("/proxy/verdict") => "verdict",
            path if path.contains("/proxy/configz") => "configz",
            path if path.contains("/proxy/metrics") => "metrics",
            path if path.starts_with("/api/v1/pods?") => "pods",
            path if path.starts_with("/api/v1/nodes?") => "nodes",
            path => panic!("{path} is requested"),
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Looks at a fleet of this size, and checks each verdict, the order, and the number of requests.
fn look_at(size: usize, timeout: &str, concurrency: usize) {
    let server = fleet(size);
    let config = kubeconfig(&server.plain_url(), "insecure-skip-tls-verify: false", "{}");
    let concurrency = concurrency.to_string();
    let arguments = [
        "nodes",
        "--kubeconfig",
        config.0.to_str().unwrap(),
        "--timeout",
        timeout,
        "--concurrency",
        &concurrency,
    ];
    let began = Instant::now();
    let output = Invocation::new(&[&arguments[..], &["-o", "json"]].concat()).run();
    let took = began.elapsed().as_secs_f64();
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let report = report(&output);
    assert_eq!(report["counts"]["unhealthy"], 200);
    assert_eq!(report["counts"]["silent"], 300);
    assert_eq!(report["counts"]["healthy"], size - 500);
    let mut wrong = String::new();
    for (place, node) in report["nodes"].as_array().unwrap().iter().enumerate() {
        let name = node["name"].as_str().unwrap();
        let number: usize = name.trim_start_matches("node-").parse().unwrap();
        let expected = match kind(number) {
            Kind::Hung => ("unhealthy", Some("unhealthy"), None),
            Kind::HungAlone => ("silent", None, None),
            Kind::Silent => ("healthy", None, Some("did not answer within")),
            Kind::Liar => ("healthy", None, Some("")),
            Kind::Healthy => ("healthy", Some("healthy"), None),
        };
        let error = node["recorder"]["error"].as_str();
        let is_right = node["verdict"] == expected.0
            && node["recorder"]["verdict"].as_str() == expected.1
            && error.is_some() == expected.2.is_some()
            && error.unwrap_or_default().contains(expected.2.unwrap_or_default());
        // The worst nodes are first: 200 unhealthy ones, 300 silent ones, and then the healthy ones.
        let is_in_order = (place < 200) == (kind(number) == Kind::Hung)
            && (place < 500) == matches!(kind(number), Kind::Hung | Kind::HungAlone);
        if !is_right || !is_in_order {
            let _ = writeln!(wrong, "{place}: {node}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:.4000}");
    let pages = |items: usize| items.div_ceil(200);
    assert_eq!(
        requests(&server),
        BTreeMap::from([
            ("nodes", pages(size)),
            ("pods", pages(size - 300)),
            ("verdict", size - 300),
            // Not of the 200 nodes whose recorder reports a hung list; once more for each silent /metrics.
            ("configz", size - 200 + 300),
            ("metrics", size - 200),
        ])
    );
    println!(
        "{size} nodes, {concurrency} at a time, limit {timeout}: {} requests, {} bytes, {} connections, {took:.1} s",
        server.requests().len(),
        server.answered_bytes(),
        server.connections()
    );
}

#[test]
fn long_incident_on_five_hundred_nodes_is_shown_in_order_and_within_its_deadlines() {
    // The API server of this test has the same two processors as everything else here, so the limit is long.
    let mut runs = vec![(2000, "60s", 330)];
    // For the table in docs/nodes.md: `PLEGCTL_FLEET_COST=1 cargo test --test product fleet::recorders::incident_on -- --nocapture`.
    if std::env::var_os("PLEGCTL_FLEET_COST").is_some() {
        runs = vec![(2000, "5s", 16), (2000, "5s", 64), (10_000, "5s", 16), (10_000, "5s", 64)];
    }
    for (size, timeout, concurrency) in runs {
        look_at(size, timeout, concurrency);
    }
}

#[test]
fn recorder_sends_nothing_to_the_api_server() {
    let server = Server::start("server", Clients::Any, |_| Reply::Answer(500, String::new()));
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    let how = ["record", "-r", "sim:hung-container", argument(&directory), "--slow", "1s"];
    let recorder = Invocation::new(&how).env("KUBECONFIG", config.0.to_str().unwrap());
    let mut recorder = recorder.with_short_silences().spawn();
    while !recorder.line().expect("the recorder still runs").contains("D01") {}
    recorder.signal("TERM");
    recorder.wait();
    assert_eq!((server.requests(), server.connections()), (vec![], 0));
}
