//! Tests of `plegctl nodes` against a scripted API server.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::api::{Clients, Reply, Request, Server};
use super::file;
use crate::support::plegctl::{Invocation, Output};

/// Noon of the day of every scripted answer, in seconds since the epoch.
const NOON: u32 = 1_795_262_400;

const CONFIGZ: &str = r#"{"kubeletconfig":{"runtimeRequestTimeout":"2m0s"}}"#;

/// Returns the metrics of a kubelet whose last relist was this number of seconds before noon.
fn metrics(age: u32) -> String {
    format!(
        "# TYPE kubelet_pleg_last_seen_seconds gauge\nkubelet_pleg_last_seen_seconds {}\n\
         kubelet_pleg_relist_duration_seconds_bucket{{le=\"0.005\"}} 0\n\
         kubelet_pleg_relist_duration_seconds_bucket{{le=\"0.01\"}} 1000\n\
         kubelet_pleg_relist_duration_seconds_bucket{{le=\"+Inf\"}} 1000\n\
         kubelet_pleg_discard_events 4\n\
         kubelet_runtime_operations_errors_total{{operation_type=\"container_status\"}} 3\n\
         kubernetes_build_info{{git_version=\"v1.34.2\"}} 1\n",
        NOON - age
    )
}

fn node_list(names: &[String]) -> String {
    let items: Vec<Value> = names
        .iter()
        .map(|name| {
            serde_json::json!({"metadata": {"name": name}, "status": {
                "nodeInfo": {"kubeletVersion": "v1.34.2", "containerRuntimeVersion": "containerd://2.1.4"}, "conditions": [{"type": "Ready", "status": "True", "message": "ok"}]}})
        })
        .collect();
    serde_json::json!({"kind": "NodeList", "metadata": {}, "items": items}).to_string()
}

/// Returns the node and the document in the path of a request through the API server's node proxy.
fn proxied(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/api/v1/nodes/")?.split_once("/proxy/")
}

/// Starts a server for a cluster without recorders.
fn without_recorders(
    certificate: &str,
    clients: Clients,
    script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(certificate, clients, move |request| {
        let is_pods = request.path.starts_with("/api/v1/pods?");
        if is_pods { Reply::ok(r#"{"items":[]}"#) } else { script(request) }
    })
}

/// A file that is removed when the test ends.
pub struct TestFile(pub PathBuf);

impl TestFile {
    pub fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("kubeconfig-{}-{number}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a kubeconfig with these lines for the cluster and for the user.
pub fn kubeconfig(server: &str, cluster: &str, user: &str) -> TestFile {
    TestFile::new(&format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts:\n- name: here\n  context: {{cluster: c, user: u}}\n- name: elsewhere\n  context: {{cluster: gone, user: u}}\n\
         clusters:\n- name: c\n  cluster:\n    server: {server}\n    {cluster}\n\
         users:\n- name: u\n  user:\n    {user}\n"
    ))
}

pub fn authority() -> String {
    format!("certificate-authority: {}", file("tests/fleet/pki/authority.crt").display())
}

/// Runs `nodes`. The default time limit of a request is too short for many TLS handshakes of a debug build on a busy machine.
fn nodes(config: &TestFile, arguments: &[&str]) -> Output {
    let config = config.0.to_str().unwrap();
    let patient: &[&str] = if arguments.contains(&"--timeout") { &[] } else { &["--timeout", "60s"] };
    Invocation::new(&[&["nodes", "--kubeconfig", config], patient, arguments].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the verdict and the reason of a node.
fn verdict<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let node = report["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap();
    (node["verdict"].as_str().unwrap(), node["why"].as_str().unwrap_or_default())
}

fn healthy(request: &Request) -> Reply {
    match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some((_, "metrics")) => Reply::ok(metrics(1)),
        _ => Reply::ok(node_list(&["n1".to_owned(), "n2".to_owned()])),
    }
}

#[test]
fn healthy_cluster_has_status_0_and_uses_the_servers_clock() {
    let server = without_recorders("server", Clients::Any, healthy);
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let output = nodes(&config, &["-o", "json"]);
    assert_eq!(output.code, Some(0), "{output}");
    let report = report(&output);
    assert_eq!((&report["apiVersion"], &report["kind"]), (&"plegctl/v1".into(), &"NodesReport".into()));
    let node = &report["nodes"][0];
    // With plegctl's own clock, the age would be years.
    assert_eq!(node["plegAgeSeconds"], 1.0, "{output}");
    assert_eq!(node["discardedEvents"], 4.0);
    assert_eq!(node["runtimeErrors"], 3.0);
    assert_eq!(node["kubeletVersion"], "v1.34.2");
    assert_eq!(node["relistSeconds"]["p50"], 0.0075);
    assert!(server.requests().iter().all(|request| request.authorization.as_deref() == Some("Bearer t0ken")));
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(
        paths.iter().all(|path| {
            ["/api/v1/nodes?", "/api/v1/pods?labelSelector="].iter().any(|list| path.starts_with(list))
                || proxied(path).is_some()
        }),
        "{paths:?}"
    );
}

#[test]
fn long_worst_node_is_first_and_each_problem_has_its_verdict() {
    let names: Vec<String> =
        ["good", "old", "stale", "silent", "gone", "forbidden", "page", "half", "away", "expired"]
            .map(str::to_owned)
            .into();
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        None => Reply::ok(node_list(&names)),
        Some(("gone", _)) => Reply::Silent,
        Some(("forbidden", _)) => Reply::Answer(
            403,
            r#"{"kind":"Status","message":"nodes \"forbidden\" is forbidden: no"}"#.to_owned(),
        ),
        Some(("away", _)) => {
            Reply::Answer(502, "dial tcp 10.0.0.9:10250: connect: no route to host".to_owned())
        }
        // A kubelet 1.36.2 with an expired client certificate.
        Some(("expired", document)) => {
            let who = format!(
                "(user=kube-apiserver-kubelet-client, verb=get, resource=nodes, subresource={document})"
            );
            Reply::Answer(500, format!("Authorization error {who}"))
        }
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(("old", _)) => Reply::ok(metrics(100)),
        Some(("stale", _)) => Reply::ok(metrics(300)),
        Some(("silent", _)) => Reply::Silent,
        Some(("half", _)) => Reply::Half("kubelet_pleg"),
        Some(("page", _)) => Reply::ok("<html>Welcome</html>"),
        Some(_) => Reply::ok(metrics(0)),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-o", "json", "--timeout", "4s"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    assert_eq!(report["nodes"][0]["name"], "stale", "{output}");
    assert_eq!(report["nodes"][9]["name"], "good", "{output}");
    for (name, expected, why) in [
        ("stale", "unhealthy", "last seen 300 s ago, the threshold is 180 s"),
        ("silent", "silent", "its /metrics is silent while its /configz answers"),
        ("half", "silent", "the kubelet waits, possibly for a list call"),
        ("gone", "unreachable", "no answer arrives through the API server"),
        ("away", "unreachable", "no route to host"),
        ("old", "unknown", "100 s ago"),
        ("forbidden", "unknown", "no permission to read it: nodes \"forbidden\" is forbidden"),
        ("page", "unknown", "answers something else"),
        ("expired", "unknown", "the kubelet cannot ask the API server who may read it"),
        ("good", "healthy", ""),
    ] {
        let (verdict, reason) = verdict(&report, name);
        assert_eq!(verdict, expected, "{name}: {output}");
        assert!(reason.contains(why), "{name}: {reason}");
    }
    assert_eq!(report["notChecked"][0]["what"], "the runtime of 1 healthy node", "{output}");
    let table = nodes(&config, &["--timeout", "4s"]);
    assert!(
        table.stdout.starts_with(
            "10 nodes: 1 unhealthy, 2 silent, 2 unreachable, 4 unknown, 1 healthy (1 by the kubelet alone); \
             worst p99 "
        ),
        "{table}"
    );
    assert!(
        table.stdout.contains("\nkubelet v1.34.2 (10); containerd 2.1.4 (10)\nNAME        VERDICT"),
        "{table}"
    );
    let names = |arguments: &[&str]| {
        let output = nodes(&config, &[&["--timeout", "4s", "--no-headers"], arguments].concat());
        let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        output.stdout.lines().map(first).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&["--limit", "1"]), "stale");
    assert_eq!(
        names(&["--sort-by", "name", "--unhealthy"]),
        "away expired forbidden gone half old page silent stale"
    );
}

/// Returns a node list. Each node has a name and its condition Ready, as status and message, or no such condition.
fn conditions(nodes: &[(&str, Option<(&str, &str)>)]) -> String {
    let items: Vec<Value> = nodes
        .iter()
        .map(|(name, ready)| {
            let ready = ready.map(|(status, message)| {
                serde_json::json!({"type": "Ready", "status": status, "message": message,
                    "lastTransitionTime": "2026-11-21T11:57:00Z"})
            });
            let ready: Vec<Value> = ready.into_iter().collect();
            serde_json::json!({"metadata": {"name": name}, "status": {"conditions": ready}})
        })
        .collect();
    serde_json::json!({"kind": "NodeList", "metadata": {}, "items": items}).to_string()
}

#[test]
fn node_that_is_not_ready_is_never_healthy() {
    let server = without_recorders("server", Clients::Any, |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(_) => Reply::ok(metrics(1)),
        None => Reply::ok(conditions(&[
            ("ready", Some(("True", "kubelet is posting ready status"))),
            ("down", Some(("False", "container runtime is down"))),
            ("network", Some(("False", "cni plugin not initialized"))),
            ("lost", Some(("Unknown", "Kubelet stopped posting node status."))),
            ("without", None),
        ])),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    for (name, expected, why) in [
        ("ready", "healthy", ""),
        ("down", "unhealthy", "NotReady since 2026-11-21 11:57:00 UTC: container runtime is down"),
        ("network", "degraded", "NotReady since 2026-11-21 11:57:00 UTC: cni plugin not initialized"),
        (
            "lost",
            "degraded",
            "Ready is Unknown since 2026-11-21 11:57:00 UTC: Kubelet stopped posting node status.",
        ),
        ("without", "unknown", "no condition Ready"),
    ] {
        let (verdict, reason) = verdict(&report, name);
        assert_eq!(verdict, expected, "{name}: {output}");
        assert!(reason.contains(why), "{name}: {reason}");
    }
}

#[test]
fn late_or_slow_relists_have_a_reason() {
    let slow = |age| metrics(age).replace("le=\"0.01\"} 1000", "le=\"10\"} 900");
    let names = ["late", "slow", "quick", "evented"].map(str::to_owned);
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        None => Reply::ok(node_list(&names)),
        Some(("evented", "configz")) => {
            Reply::ok(r#"{"kubeletconfig":{"featureGates":{"EventedPLEG":true}}}"#)
        }
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(("late", _)) => Reply::ok(slow(61)),
        Some(("slow", _)) => Reply::ok(slow(2)),
        Some(("evented", _)) => Reply::ok(metrics(61)),
        Some(_) => Reply::ok(metrics(11)),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let report = report(&nodes(&config, &["-o", "json"]));
    let (late, why) = verdict(&report, "late");
    assert_eq!(late, "unknown");
    assert!(why.contains("61 s ago"), "{why}");
    let (slow, why) = verdict(&report, "slow");
    assert_eq!(slow, "healthy");
    assert!(why.contains("took 10 s and more"), "{why}");
    assert_eq!(verdict(&report, "quick"), ("healthy", ""));
    assert_eq!(verdict(&report, "evented"), ("healthy", ""));
}

#[test]
fn silent_api_server_is_not_reported_as_a_hang_of_the_node() {
    let answered = AtomicU32::new(0);
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        None => Reply::ok(node_list(&["n1".to_owned()])),
        Some((_, "configz")) if answered.fetch_add(1, Ordering::Relaxed) == 0 => Reply::ok(CONFIGZ),
        Some(_) => Reply::Silent,
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-o", "json", "--timeout", "2s"]);
    let report = report(&output);
    let (verdict, why) = verdict(&report, "n1");
    assert_eq!((verdict, output.code), ("unknown", Some(2)), "{output}");
    assert!(why.starts_with("not known"), "{why}");
}

#[test]
fn two_hundred_nodes_share_sixteen_connections() {
    let names: Vec<String> = (0..200).map(|number| format!("node-{number:03}")).collect();
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(_) => Reply::ok(metrics(2)),
        None => Reply::ok(node_list(&names)),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-o", "json"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(report(&output)["counts"]["healthy"], 200);
    // One connection for each of the two lists, and one for each concurrent request.
    assert_eq!(server.connections(), 18);
}

/// The sizes of a node object, a pod, a `/configz`, a `/metrics` and a recorder's verdict in the test of the cost.
const POD_BYTES: usize = 10_000;
const VERDICT_BYTES: usize = 1_000;
const NODE_BYTES: usize = 10_000;
const CONFIGZ_BYTES: usize = 5_000;
const METRICS_BYTES: usize = 100_000;

/// Names of nodes, as a cloud gives them.
fn fleet(size: usize) -> Vec<String> {
    (0..size)
        .map(|number| format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 256, number % 256))
        .collect()
}

/// Returns a page of the node list: 200 nodes from the one that `continue` names.
fn page(names: &[String], path: &str, node_bytes: usize) -> String {
    let start: usize = path.split_once("continue=").map_or(0, |(_, start)| start.parse().unwrap());
    let end = (start + 200).min(names.len());
    let next = if end < names.len() { end.to_string() } else { String::new() };
    let mut page: Value = serde_json::from_str(&node_list(&names[start..end])).unwrap();
    page["metadata"] = serde_json::json!({ "continue": next });
    for item in page["items"].as_array_mut().unwrap() {
        let padding = node_bytes.saturating_sub(item.to_string().len());
        item["status"]["images"] = "x".repeat(padding).into();
    }
    page.to_string()
}

/// The page of the list of the recorders' pods: one on each node, from the one that `continue` names.
fn recorder_page(names: &[String], path: &str, pod_bytes: usize) -> String {
    let start: usize = path.split_once("continue=").map_or(0, |(_, start)| start.parse().unwrap());
    let end = (start + 200).min(names.len());
    let pod = |name: &String| {
        let mut pod = serde_json::json!({
            "metadata": {"namespace": "plegctl", "name": format!("plegctl-{name}")},
            "spec": {"nodeName": name, "containers": [{"ports": [{"name": "metrics", "containerPort": 9469}]}]},
            "status": {"phase": "Running"}});
        let padding = pod_bytes.saturating_sub(pod.to_string().len());
        pod["metadata"]["managedFields"] = "x".repeat(padding).into();
        pod
    };
    let next = if end < names.len() { end.to_string() } else { String::new() };
    let items: Vec<Value> = names[start..end].iter().map(pod).collect();
    serde_json::json!({"metadata": {"continue": next}, "items": items}).to_string()
}

#[test]
fn long_one_look_at_two_thousand_nodes_costs_what_the_documentation_says() {
    const NODES: usize = 2000;
    let padded = |text: &str, line: &str, bytes: usize| {
        let lines = bytes.saturating_sub(text.len()) / line.len();
        text.to_owned() + &line.repeat(lines)
    };
    let configz = padded(CONFIGZ, " ", CONFIGZ_BYTES);
    let metrics =
        padded(&metrics(1), "# HELP apiserver_audit_event_total A counter of events.\n", METRICS_BYTES);
    let verdict = r#"{"apiVersion":"plegctl/v1","kind":"RecorderVerdict","takenAt":"2026-11-21T12:00:00Z","verdict":"healthy","since":"2026-11-21T08:00:00Z","summary":"no incident is open"}"#;
    let verdict = padded(verdict, " ", VERDICT_BYTES);
    let names = fleet(NODES);
    let server = Server::start("server", Clients::Any, move |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(configz.as_str()),
        Some(_) => Reply::ok(metrics.as_str()),
        None if request.path.ends_with("/proxy/verdict?o=json") => Reply::ok(verdict.as_str()),
        None if request.path.starts_with("/api/v1/pods?") => {
            Reply::ok(recorder_page(&names, &request.path, POD_BYTES))
        }
        None => Reply::ok(page(&names, &request.path, NODE_BYTES)),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-o", "json", "--limit", "1"]);
    assert_eq!(output.code, Some(0), "{output}");
    let report = report(&output);
    assert_eq!((&report["counts"]["healthy"], report["nodes"].as_array().unwrap().len()), (&NODES.into(), 1));

    let requests = server.requests();
    let of_recorders = requests.iter().filter(|request| request.path.contains("/pods")).count();
    let megabytes = server.answered_bytes() / 1_000_000;
    println!("{} requests, {} bytes", requests.len(), server.answered_bytes());
    assert_eq!((requests.len(), of_recorders, server.connections()), (20 + 3 * NODES, 10 + NODES, 18));
    let documented = fs::read_to_string(file("docs/nodes.md")).unwrap();
    for figure in [
        format!("| requests | {} | {} |", requests.len() - of_recorders, requests.len()),
        format!("| {megabytes} MB |"),
    ] {
        assert!(documented.contains(&figure), "docs/nodes.md does not say `{figure}`");
    }
}

#[test]
fn terminal_shows_one_screen_and_updates_it_in_place() {
    let names = fleet(60);
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(("ip-10-0-0-59.eu-central-1.compute.internal", _)) => Reply::ok(metrics(300)),
        Some(_) => Reply::ok(metrics(1)),
        None => Reply::ok(page(&names, &request.path, 0)),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let path = config.0.to_str().unwrap();
    let plegctl = env!("CARGO_BIN_EXE_plegctl");
    let once = Invocation::in_terminal_of((24, 80), plegctl, &["nodes", "--kubeconfig", path]).run();
    assert_eq!(once.code, Some(1), "{once}");
    let (_, rows) = once.stdout.split_once("NAME ").unwrap_or_else(|| panic!("{once}"));
    let worst = rows.lines().nth(1).unwrap();
    assert!(
        worst.contains("ip-10-0-0-59… ") && worst.contains("unhealthy"),
        "the worst node is first: {once}"
    );
    assert!(once.stdout.contains("\n42 more nodes; --limit 0 shows all"), "{once}");
    assert!(!once.stdout.contains("\u{1b}[23A"), "{once}");

    let arguments = ["nodes", "--kubeconfig", path, "-w", "--period", "10ms"];
    let mut watch = Invocation::in_terminal_of((24, 80), plegctl, &arguments).spawn();
    let update =
        (0..1000).find_map(|_| watch.line().filter(|line| line.contains("\u{1b}[23A\u{1b}[J60 nodes: ")));
    assert!(update.is_some(), "the second table replaces the 23 lines of the first");
    watch.signal("TERM");
    watch.wait();
}

#[test]
fn watch_shows_recent_figures_and_survives_a_failed_update() {
    let looks = AtomicU32::new(0);
    // Each update has ten more relists, all of them slow.
    let slow = |looks: u32| {
        let all = format!("+Inf\"}} {}", 1000 + 10 * looks);
        metrics(1).replace("+Inf\"} 1000", &all)
    };
    let server = without_recorders("server", Clients::Any, move |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(_) => Reply::ok(slow(looks.load(Ordering::Relaxed))),
        None => match looks.fetch_add(1, Ordering::Relaxed) {
            1 => Reply::Answer(503, "not yet".to_owned()),
            _ => Reply::ok(node_list(&["n1".to_owned()])),
        },
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let path = config.0.to_str().unwrap();
    let arguments = ["nodes", "--kubeconfig", path, "--watch", "--period", "10ms", "-o", "jsonl"];
    let mut watch = Invocation::new(&arguments).spawn();
    let mut next = || -> Value { serde_json::from_str(&watch.line().expect("another look")).unwrap() };
    let first = &next()["nodes"][0];
    assert_eq!((first.get("recentRelists"), &first["verdict"]), (None, &"healthy".into()), "{first}");
    // The update between them has failed.
    let second = &next()["nodes"][0];
    assert_eq!(second["recentRelists"], 20.0, "{second}");
    assert_eq!(
        second["recentRelistSeconds"]["atLeast"],
        serde_json::json!(["p50", "p90", "p99"]),
        "{second}"
    );
    let third = &next()["nodes"][0];
    assert_eq!(third["recentRelists"], 10.0, "{third}");
    watch.signal("TERM");
    let output = watch.wait();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("update failed: ") && output.stderr.contains("503"), "{output}");
}

/// Runs plegctl as in a pod: in a mount namespace with the files of the pod's service account. Returns `None` if the
/// test may not create namespaces.
fn in_a_pod(server: &Server, account: &[(&str, String)], arguments: &[&str]) -> Option<Output> {
    let folder = TestFile::new("");
    let account_directory = format!("{}.account", folder.0.display());
    fs::create_dir_all(&account_directory).unwrap();
    for (name, text) in account {
        fs::write(format!("{account_directory}/{name}"), text).unwrap();
    }
    let script = "mount -t tmpfs none $(realpath /var/run) && mkdir -p /var/run/secrets/kubernetes.io \
                  && cp -r \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
    let inside = |words: &[&str]| {
        let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", script, &account_directory];
        Invocation::program("unshare", &[&unshare[..], words].concat())
    };
    let can = inside(&["true"]).run();
    let output = if can.code == Some(0) {
        let words = [&[env!("CARGO_BIN_EXE_plegctl")], arguments].concat();
        let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
        let run = inside(&words).env("KUBERNETES_SERVICE_HOST", host);
        Some(run.env("KUBERNETES_SERVICE_PORT", port).run())
    } else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot create a namespace: {can}");
        // Not `eprintln!`: the test harness captures its output in tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "skipped a test with a pod's service account: cannot create a namespace"
        );
        None
    };
    fs::remove_dir_all(account_directory).unwrap();
    output
}

#[test]
fn service_account_is_sent_to_the_api_server_of_the_environment() {
    let server = without_recorders("server", Clients::Any, healthy);
    let authority = fs::read_to_string(file("tests/fleet/pki/authority.crt")).unwrap();
    let account = [("token", "of-the-pod\n".to_owned()), ("ca.crt", authority)];
    let Some(output) = in_a_pod(&server, &account, &["nodes", "-o", "json"]) else { return };
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(report(&output)["context"], "the pod's account");
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer of-the-pod"));

    // The given authority has not signed the server's certificate.
    let requests_before = server.requests().len();
    let stranger = fs::read_to_string(file("tests/fleet/pki/stranger.crt")).unwrap();
    let account = [("token", "of-the-pod".to_owned()), ("ca.crt", stranger)];
    let output = in_a_pod(&server, &account, &["nodes"]).unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("a certificate that no trusted authority has signed"), "{output}");
    let output = in_a_pod(&server, &account[..1], &["nodes"]).unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("cannot read `/var/run/secrets/kubernetes.io/serviceaccount/ca.crt`"));
    assert_eq!(
        server.requests().len(),
        requests_before,
        "plegctl sent the token to a server without a trusted certificate"
    );
    // Without the files of a service account, plegctl does not run in a pod.
    let output = in_a_pod(&server, &[], &["nodes"]).unwrap();
    assert!(
        output.code == Some(2) && output.stderr.contains("this is not a pod with a service account"),
        "{output}"
    );
}

#[test]
fn node_list_follows_pages_and_passes_the_selector_on() {
    let server = without_recorders("server", Clients::Any, |request| match proxied(&request.path) {
        Some((_, "configz")) => Reply::ok(CONFIGZ),
        Some(_) => Reply::ok(metrics(2)),
        None if request.path.contains("continue=more%3D") => Reply::ok(node_list(&["n2".to_owned()])),
        None => Reply::ok(
            node_list(&["n1".to_owned()]).replace("\"metadata\":{}", "\"metadata\":{\"continue\":\"more=\"}"),
        ),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = nodes(&config, &["-l", "role=worker", "-o", "json"]);
    assert_eq!(report(&output)["counts"]["nodes"], 2, "{output}");
    assert!(server.requests()[0].path.contains("labelSelector=role%3Dworker"));
}

#[test]
fn client_certificate_authenticates_to_the_api_server() {
    let server = without_recorders("server", Clients::WithCertificate, healthy);
    let pki = file("tests/fleet/pki");
    let with = format!("client-certificate: {0}/client.crt\n    client-key: {0}/client.key", pki.display());
    let output = nodes(&kubeconfig(&server.url(), &authority(), &with), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = nodes(&kubeconfig(&server.url(), &authority(), "token: t"), &[]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stderr.contains("does not accept plegctl's client certificate, or requires one"),
        "{output}"
    );
}

#[test]
fn credential_program_gives_the_token() {
    let server = without_recorders("server", Clients::Any, healthy);
    let exec = r#"exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: ["-c", "echo \"{\\\"status\\\":{\\\"token\\\":\\\"$WORD-$0\\\"}}\"", made], env: [{name: WORD, value: well}]}"#;
    let output = nodes(&kubeconfig(&server.url(), &authority(), exec), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer well-made"));
    for (command, why) in [
        ("{command: \"false\"}", "failed: exit status: 1"),
        (
            r#"{command: sh, args: ["-c", "printf 'log in\\033[2J\\n' >&2; false"]}"#,
            r"status: 1: log in\u{1b}[2J",
        ),
        ("{command: no-such-program-of-ours}", "cannot be run"),
        ("{command: echo, args: [hello]}", "printed no ExecCredential"),
        ("{command: echo, args: [\"{}\"]}", "without token and certificate"),
    ] {
        let output = nodes(&kubeconfig(&server.url(), &authority(), &format!("exec: {command}")), &[]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(why), "{command}: {output}");
    }
}

#[test]
fn cluster_without_nodes_has_no_line_of_versions() {
    let empty = |_: &Request| Reply::ok(node_list(&[]));
    let server = without_recorders("server", Clients::Any, empty);
    let output = nodes(&kubeconfig(&server.url(), &authority(), "token: t"), &[]);
    assert_eq!(output.stdout.lines().count(), 1, "{output}");
    assert!(!output.stdout.contains("<unknown>"), "{output}");
}

#[test]
fn credential_program_and_its_children_end_with_plegctl() {
    for (name, signal) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("KILL", 9)] {
        let pids = TestFile::new("");
        let path = pids.0.display();
        let script = format!("sleep 600 & echo $$ $! whole > {path}; wait");
        let exec = format!("exec: {{command: sh, args: [\"-c\", \"{script}\"]}}");
        let config = kubeconfig("http://127.0.0.1:1", "insecure-skip-tls-verify: true", &exec);
        let running = Invocation::new(&["nodes", "--kubeconfig", config.0.to_str().unwrap()]).spawn();
        let written = wait_until(|| fs::read_to_string(&pids.0).ok().filter(|text| text.contains("whole")));
        running.signal(name);
        let output = running.wait();
        assert_eq!(output.signal, Some(signal), "{output}");
        for pid in written.split(' ').take(2) {
            // An ended process may be a zombie until process 1 reaps it.
            let has_ended = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(stat) => stat.contains(") Z ").then_some(()),
                Err(_) => Some(()),
            };
            wait_until(has_ended);
        }
    }
}

/// Repeats `condition` until it returns a value; fails after five minutes.
pub(super) fn wait_until<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "nothing has happened for five minutes");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rejected_certificates_are_named() {
    for (shown, cluster, why) in [
        ("other-name", authority(), "shows a certificate for another name"),
        ("expired", authority(), "shows a certificate that has expired"),
        (
            "server",
            format!("certificate-authority: {}", file("tests/fleet/pki/stranger.crt").display()),
            "shows a certificate that no trusted authority has signed",
        ),
    ] {
        let server = without_recorders(shown, Clients::Any, healthy);
        let output = nodes(&kubeconfig(&server.url(), &cluster, "token: t"), &[]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(why), "{shown}: {output}");
        assert!(server.requests().is_empty(), "plegctl sent a request");
    }
}

#[test]
fn skipped_certificate_check_is_reported() {
    let server = without_recorders("other-name", Clients::Any, healthy);
    let output = nodes(&kubeconfig(&server.url(), "insecure-skip-tls-verify: true", "token: t"), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("is not verified"), "{output}");
    let cluster = format!("{}\n    tls-server-name: n2.example", authority());
    let output = nodes(&kubeconfig(&server.url(), &cluster, "token: t"), &[]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
}

#[test]
fn api_server_that_rejects_the_list_is_an_error() {
    for (reply, why) in [
        (Reply::Answer(401, String::new()), "does not accept the credentials (401)"),
        (Reply::Answer(403, r#"{"message":"no"}"#.to_owned()), "forbids the request (403): no"),
        (Reply::Redirect("https://login.example/"), "redirects to `https://login.example/`"),
        (Reply::ok("<html>"), "is not a list of nodes"),
        (Reply::Silent, "did not answer within 4s"),
        (Reply::Half("{\"items"), "stopped after"),
        (Reply::Cut("{\"items"), "ended the connection after"),
    ] {
        let answer = reply.clone();
        let server = without_recorders("server", Clients::Any, move |_| answer.clone());
        let output = nodes(&kubeconfig(&server.url(), &authority(), "token: t"), &["--timeout", "4s"]);
        assert_eq!(output.code, Some(2), "{reply:?}: {output}");
        assert!(output.stderr.contains(why) && output.stdout.is_empty(), "{reply:?}: {output}");
    }
}

#[test]
fn user_that_the_kubeconfig_impersonates_is_sent_in_every_request() {
    let server = without_recorders("server", Clients::Any, healthy);
    let user = |name: &str| {
        let more = "as-groups: [viewers, \"a,b\"], as-uid: u-1, as-user-extra: {example.org/why: [x, z]}";
        let more = more.replace(", as-", "\n    as-");
        kubeconfig(&server.url(), &authority(), &format!("token: t\n    {name}{more}"))
    };
    let output = nodes(&user("as: anna\n    "), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    for request in server.requests() {
        let sent = request.impersonation.iter();
        let sent: Vec<(&str, &str)> = sent.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("impersonate-user", "anna"),
            ("impersonate-uid", "u-1"),
            ("impersonate-group", "viewers"),
            ("impersonate-group", "a,b"),
            ("impersonate-extra-example.org%2fwhy", "x"),
            ("impersonate-extra-example.org%2fwhy", "z"),
        ];
        assert_eq!(sent, expected);
    }
    let without_user = nodes(&user(""), &[]);
    assert_eq!(without_user.code, Some(2), "{without_user}");
    assert!(without_user.stderr.contains("user `u`: it has as-uid, as-groups"), "{without_user}");
}

#[test]
fn api_server_behind_the_proxy_of_its_kubeconfig_gets_no_request() {
    let server = without_recorders("server", Clients::Any, healthy);
    let config =
        kubeconfig(&server.url(), &format!("{}\n    proxy-url: http://127.0.0.1:1", authority()), "token: t");
    let output = nodes(&config, &[]);
    assert_eq!((output.code, server.requests().len()), (Some(2), 0), "{output}");
    assert!(output.stderr.contains("the proxy of proxy-url"), "{output}");
}

#[test]
fn api_server_behind_the_proxy_of_the_environment_gets_no_request() {
    let config = kubeconfig("https://kube.example:6443", &authority(), "token: t");
    let run = |none: &str| {
        let arguments = ["nodes", "--kubeconfig", config.0.to_str().unwrap()];
        Invocation::new(&arguments).env("https_proxy", "http://127.0.0.1:1").env("NO_PROXY", none).run()
    };
    let refused = run("other.example");
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("the proxy of HTTPS_PROXY"), "{refused}");
    assert!(!run(".example").stderr.contains("proxy"));
}

#[test]
fn error_names_what_is_wrong_with_a_kubeconfig() {
    let server = "https://127.0.0.1:1";
    let output = nodes(&kubeconfig(server, "tls-server-name: x", "token: t"), &["--context", "elsewhere"]);
    assert!(output.stderr.contains("has no cluster `gone`; it has c"), "{output}");
    let output = nodes(&kubeconfig(server, &authority(), "token: t"), &["--context", "nowhere"]);
    assert!(output.stderr.contains("has no context `nowhere`; it has here, elsewhere"), "{output}");
    let output = nodes(&kubeconfig(server, &authority(), "username: me"), &[]);
    assert!(output.stderr.contains("authenticates by user name and password"), "{output}");
    let output = nodes(&TestFile::new("- a\n"), &[]);
    assert!(output.stderr.contains("is not a kubeconfig: it is not a mapping"), "{output}");
    let output = nodes(&TestFile::new("a: &x b\nc: *x\n"), &[]);
    assert!(output.stderr.contains("it has an alias"), "{output}");
    let output = nodes(&kubeconfig(server, &authority(), "token: t"), &[]);
    assert!(output.stderr.contains("refuses the connection"), "{output}");
    for output in [output, Invocation::new(&["nodes"]).run()] {
        assert_eq!(output.code, Some(2), "{output}");
    }
}

#[test]
fn several_kubeconfigs_are_merged_and_the_first_value_counts() {
    let server = without_recorders("server", Clients::Any, healthy);
    // The token and the authority are next to the kubeconfig that names them.
    let folder = TestFile::new("");
    let at = |name: &str| format!("{}.several/{name}", folder.0.display());
    for part in ["work", "home"] {
        fs::create_dir_all(at(part)).unwrap();
    }
    fs::write(at("work/token"), "of-work").unwrap();
    fs::copy(file("tests/fleet/pki/authority.crt"), at("home/ca.crt")).unwrap();
    let work = "current-context: here\ncontexts:\n- {name: here, context: {cluster: c, user: u}}\n\
                users:\n- {name: u, user: {tokenFile: token}}\n";
    fs::write(at("work/config"), work).unwrap();
    let home = format!(
        "current-context: gone\nclusters:\n- {{name: c, cluster: {{server: '{}', certificate-authority: ca.crt}}}}\n\
         users:\n- {{name: u, user: {{token: of-home}}}}\n",
        server.url()
    );
    fs::write(at("home/config"), home).unwrap();
    fs::write(at("empty"), "").unwrap();
    let with = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| at(name)).collect();
        Invocation::new(&["nodes", "-o", "json"]).env("KUBECONFIG", paths.join(":")).run()
    };
    let output = with(&["not-there", "empty", "work/config", "home/config"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(report(&output)["context"], "here");
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer of-work"));
    let output = with(&["home/config", "work/config"]);
    assert!(output.stderr.contains("has no context `gone`; it has here"), "{output}");
    let output = with(&["not-there", "nor-this"]);
    assert!(output.stderr.contains("cannot read `") && output.stderr.contains("not-there`"), "{output}");
    fs::remove_dir_all(format!("{}.several", folder.0.display())).unwrap();
}

#[test]
fn hostile_texts_are_escaped() {
    let server = without_recorders("server", Clients::Any, |request| match proxied(&request.path) {
        Some(_) => Reply::Answer(403, "no\u{1b}[2J".to_owned()),
        None => Reply::ok(node_list(&["n\u{1b}[31m1".to_owned()])),
    });
    let output = nodes(&kubeconfig(&server.url(), &authority(), "token: t"), &[]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(!output.stdout.contains('\u{1b}'), "{output}");
}
