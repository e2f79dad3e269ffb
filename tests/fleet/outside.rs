//! Tests of `plegctl health --node NAME` on a node without a recorder, against a scripted API server that gives real goroutine
//! dumps of kubelets.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::nodes::{authority, kubeconfig};
use super::remote::{node, pods};
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};

/// Noon of the day of every scripted answer, in seconds since the epoch.
const NOON: u32 = 1_795_262_400;

pub(super) const DUMP: &str = "/api/v1/nodes/n1/proxy/debug/pprof/goroutine?debug=2";

/// Reads a recorded dump of a kubelet.
fn dump(name: &str) -> String {
    let path = file(&format!("tests/recordings/stacks/k2-{name}.kubelet.debug2.gz"));
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Returns the metrics of a kubelet whose last relist began `age` seconds before noon.
fn metrics(age: u32) -> Reply {
    Reply::ok(format!("kubelet_pleg_last_seen_seconds {}\n", NOON - age))
}

/// Returns a time of the API, `seconds` before noon.
fn ago(seconds: u32) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(u64::from(NOON - seconds))).to_string()
}

/// Returns a pod as the API server has it: a static pod if `uid` has 32 characters. `changed` replaces parts of it.
fn pod(namespace: &str, name: &str, uid: &str, changed: &[(&str, Value)]) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": "0b5b5b5b-1111-2222-3333-000000000000",
            "creationTimestamp": ago(90_000), "annotations": {}},
        "spec": {"nodeName": "n1", "containers": [{"name": "ctr"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "startTime": ago(90_000), "containerStatuses": [
            {"name": "ctr", "containerID": format!("containerd://{uid:0>64}"),
             "state": {"running": {"startedAt": ago(89_000)}}}]}});
    if uid.len() == 32 {
        pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = uid.into();
    } else {
        pod["metadata"]["uid"] = uid.into();
    }
    for (place, value) in changed {
        let (parent, key) = place.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    pod
}

/// Returns pods that have not changed for a day: of each kind some whose names have the same length as those of a suspect.
fn bystanders() -> Vec<Value> {
    let of_api = (0..20)
        .map(|nth| pod("shop", &format!("web-{nth}"), &format!("0b5b5b5b-1111-2222-3333-{nth:012}"), &[]));
    let of_files = (0..10).map(|nth| pod("default", &format!("pod-{nth}-n1"), &format!("{nth:032x}"), &[]));
    of_api.chain(of_files).collect()
}

/// A pod that was deleted `seconds` before noon, with the usual grace period.
fn deleted(namespace: &str, name: &str, uid: &str, seconds: u32) -> Value {
    let changed = [
        ("/metadata/deletionTimestamp", ago(seconds - 30).into()),
        ("/metadata/deletionGracePeriodSeconds", 30.into()),
    ];
    pod(namespace, name, uid, &changed)
}

/// A pod that was created `seconds` before noon and has no sandbox yet.
fn created(namespace: &str, name: &str, uid: &str, seconds: u32) -> Value {
    let status = json!({"phase": "Pending", "startTime": ago(seconds),
        "containerStatuses": [{"name": "ctr", "state": {"waiting": {"reason": "ContainerCreating"}}}]});
    pod(namespace, name, uid, &[("/status", status)])
}

/// Starts a cluster with one node without a recorder. Its kubelet gives the dumps one after the other, and the last one again.
fn cluster(dumps: Vec<Reply>, others: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
    let taken = AtomicUsize::new(0);
    Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        DUMP => dumps[taken.fetch_add(1, Ordering::SeqCst).min(dumps.len() - 1)].clone(),
        path if path.starts_with("/api/v1/pods?labelSelector") => pods(&[]),
        path if path.ends_with("/configz") => {
            Reply::ok(r#"{"kubeletconfig":{"runtimeRequestTimeout":"2m0s"}}"#)
        }
        _ => others(request),
    })
}

/// Answers with the node, the kubelet's metrics and the pods, and nothing else.
fn of_node(request: &Request, node: &Reply, metrics: &Reply, pods: &[Value]) -> Reply {
    match request.path.as_str() {
        "/api/v1/nodes/n1" => node.clone(),
        path if path.ends_with("/metrics") => metrics.clone(),
        path if path.starts_with("/api/v1/pods?limit") || path.ends_with("/proxy/pods") => {
            Reply::ok(json!({"kind": "PodList", "items": pods}).to_string())
        }
        _ => Reply::Answer(404, String::new()),
    }
}

pub(super) fn health(server: &Server, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let known = ["health", "--kubeconfig", config.0.to_str().unwrap(), "--node", "n1"];
    Invocation::new(&[&known, arguments].concat()).with_short_silences().run()
}

pub(super) fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

fn requests(server: &Server, path: &str) -> usize {
    server.requests().iter().filter(|request| request.path == path).count()
}

fn recorded(names: [&str; 2]) -> Vec<Reply> {
    names.map(|name| Reply::ok(dump(name))).to_vec()
}

/// The condition of a node whose PLEG was last seen 193 s before noon.
fn not_ready() -> Reply {
    let Reply::Answer(status, text) =
        node("False", "PLEG is not healthy: pleg was last seen active 3m13s ago; threshold is 3m0s")
    else {
        panic!("a node is an answer")
    };
    let mut node: Value = serde_json::from_str(&text).unwrap();
    node["status"]["conditions"][0]["lastHeartbeatTime"] = ago(0).into();
    node["spec"]["providerID"] = "aws:///eu-west-1a/i-0123456789abcdef0".into();
    Reply::Answer(status, node.to_string())
}

/// A hang of a real kubelet: its dumps, what else is known, and the truth.
struct Hang {
    dumps: [&'static str; 2],
    node: Reply,
    metrics: Reply,
    /// The pods for which a call hangs, and their names.
    culprits: Vec<Value>,
    arguments: &'static [&'static str],
    expected: (&'static str, &'static str),
}

/// Returns the hangs of the recorded kubelets: the list call, storage that does not write, a network plugin.
fn hangs() -> Vec<Hang> {
    let ready = || node("True", "ok");
    let list = |dumps, node, metrics, culprit: Value| Hang {
        dumps,
        node,
        metrics,
        culprits: vec![culprit],
        arguments: &["--budget", "16s"],
        expected: ("D02", "ListContainers"),
    };
    let workers = |dumps, metrics: u32, [run, stop]: [&str; 2], rpc| {
        let uid = |nth: u32| format!("{:032x}", 4096 + nth);
        Hang {
            dumps,
            node: ready(),
            metrics: self::metrics(metrics),
            culprits: vec![created("default", run, &uid(1), 82), deleted("default", stop, &uid(2), 170)],
            arguments: &["--deep"],
            expected: ("D44", rpc),
        }
    };
    let uid = "5c5c5c5c-1111-2222-3333-444444444444";
    let finished = json!({"terminated": {"finishedAt": ago(73)}});
    let ended = pod("shop", "db-0", uid, &[("/status/containerStatuses/0/state", finished)]);
    vec![
        list(["lock.t35", "lock.t100"], ready(), metrics(70), ended.clone()),
        list(["lock.t35", "lock.t100"], ready(), metrics(70), deleted("shop", "db-0", uid, 75)),
        list(["lock.t170", "lock.t230"], not_ready(), Reply::Silent, deleted("shop", "db-0", uid, 200)),
        list(["lock.t170", "lock.t230"], ready(), metrics(110), created("shop", "db-0", uid, 111)),
        workers(["bolt.t8", "bolt.t80"], 1, ["pod-new-n1", "pod-c-n1"], "StopContainer"),
        workers(["bolt.t80", "bolt.t170"], 2, ["pod-new-n1", "pod-c-n1"], "RunPodSandbox"),
        workers(["cni.t8", "cni.t80"], 1, ["pod-hang-n1", "pod-net-n1"], "StopPodSandbox"),
        workers(["cni.t80", "cni.t170"], 2, ["pod-hang-n1", "pod-net-n1"], "RunPodSandbox"),
    ]
}

#[test]
fn call_and_pod_of_each_recorded_hang_are_named() {
    let (mut first, mut among, all) = (0, 0, hangs());
    let number = all.len();
    for hang in all {
        let names: Vec<String> =
            hang.culprits.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let mut pods = bystanders();
        pods.splice(9..9, hang.culprits);
        let (node, metrics) = (hang.node, hang.metrics);
        let server = cluster(recorded(hang.dumps), move |request| of_node(request, &node, &metrics, &pods));
        let output = health(&server, &[&["-o", "json"], hang.arguments].concat());
        let report = report(&output);
        let found = (report["primary"]["id"].as_str().unwrap(), report["primary"]["rpc"].as_str().unwrap());
        assert_eq!(found, hang.expected, "{:?}: {output}", hang.dumps);
        assert_eq!(requests(&server, DUMP), 2, "{output}");
        let suspects: Vec<&str> = report["suspects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|suspect| {
                assert_ne!(suspect["confidence"], "certain", "{output}");
                assert!(
                    suspect["confidence"] != "likely"
                        || names.iter().any(|name| suspect["pod"]["name"] == **name),
                    "{output}"
                );
                suspect["pod"]["name"].as_str().unwrap()
            })
            .collect();
        assert!(suspects.len() <= 5, "{output}");
        among += usize::from(suspects.iter().any(|suspect| names.iter().any(|name| name == suspect)));
        first +=
            usize::from(suspects.first().is_some_and(|suspect| names.iter().any(|name| name == suspect)));
    }
    assert_eq!((among, first), (number, number));
}

#[test]
fn screen_says_which_call_which_pod_and_what_to_do_from_here() {
    let uid = "5c5c5c5c-1111-2222-3333-444444444444";
    let mut pods = bystanders();
    pods.push(deleted("shop", "db-0", uid, 200));
    let server = cluster(recorded(["lock.t170", "lock.t230"]), move |request| {
        of_node(request, &not_ready(), &Reply::Silent, &pods)
    });
    let output = health(&server, &["--budget", "16s"]);
    assert_eq!(output.code, Some(1), "{output}");
    let screen: String = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "UNHEALTHY ListContainers does not answer: the kubelet's relist waits for it: NotReady since 2026-11-21 11:59:51 UTC",
        "the kubelet's /metrics, /configz and goroutines through the API server",
        "5 goroutines of the kubelet wait for ListContainers",
        "which pod (suspects: the kubelet's goroutines have no names)",
        "shop/db-0 (possible): it was deleted 7s before the last relist began",
        "aws ssm start-session --target i-0123456789abcdef0",
        "plegctl health --node n1 --no-recorder --bundle n1.tar.gz",
    ] {
        assert!(screen.contains(words), "{words}: {output}");
    }
    assert!(output.stdout.lines().count() <= 24, "{output}");
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn healthy_kubelet_is_not_disturbed_and_has_no_suspect() {
    let mut pods = bystanders();
    pods.push(deleted("shop", "db-0", "5c5c5c5c-1111-2222-3333-444444444444", 31));
    for (arguments, dumps) in [(&[][..], 0), (&["--deep", "--stacks", "never"], 0), (&["--deep"], 2)] {
        let pods = pods.clone();
        let server = cluster(recorded(["base.t3-busy", "base.t5-busy"]), move |request| {
            of_node(request, &node("True", "ok"), &metrics(1), &pods)
        });
        let output = health(&server, &[&["-o", "json"], arguments].concat());
        let report = report(&output);
        assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{output}");
        assert_eq!(report.get("suspects"), None, "{output}");
        assert!(requests(&server, DUMP) <= dumps, "{output}");
    }
}

#[test]
fn refused_silent_large_and_lying_answers_are_one_line_each_and_make_nobody_likely() {
    let uid = "5c5c5c5c-1111-2222-3333-444444444444";
    let text = |name: &str| Reply::ok(dump(name));
    let profile = Reply::Bytes(
        200,
        std::fs::read(file("tests/recordings/stacks/k2-lock.t100.kubelet.debug1.gz")).unwrap(),
    );
    let huge = format!("{}\n{}", dump("lock.t35"), format!("{}\n", "x".repeat(1 << 20)).repeat(66));
    let forbidden = || Reply::Answer(403, r#"{"message":"nodes \"n1\" is forbidden"}"#.to_owned());
    for (dumps, why) in [
        (vec![forbidden()], "nodes \"n1\" is forbidden; it needs `get` on nodes/proxy"),
        (vec![Reply::Answer(404, String::new())], "enableDebuggingHandlers or enableProfilingHandler is off"),
        (vec![Reply::Silent], "did not answer within"),
        (vec![Reply::Half("goroutine 1 [select]:\nmain.main()\n")], "stopped after"),
        (vec![Reply::Cut("goroutine 1 [select]:\n")], "ended the connection"),
        (vec![Reply::ok("<html>")], "the answer is no goroutine dump"),
        (vec![Reply::ok("")], "the answer is no goroutine dump: it is empty"),
        (vec![Reply::Redirect("https://elsewhere.example/")], "redirects"),
        (vec![Reply::ok(huge.clone()), Reply::ok(huge)], "more than 64 MiB"),
        (vec![text("lock.t35"), forbidden()], "is forbidden; it needs"),
        (vec![profile], ""),
        (vec![text("lock.t100"), text("lock.t100")], ""),
        (vec![text("lock.t100"), text("cni.t80")], ""),
        (vec![text("base.t3-busy"), text("base.t5-busy")], ""),
    ] {
        let mut pods = bystanders();
        pods.push(deleted("shop", "db-0", uid, 75));
        let server =
            cluster(dumps, move |request| of_node(request, &node("True", "ok"), &metrics(70), &pods));
        let output = health(&server, &["-o", "json", "--budget", "16s"]);
        let report = report(&output);
        let skipped = report["notChecked"].as_array().unwrap().iter();
        let skipped: Vec<&str> = skipped
            .filter(|skipped| skipped["what"] == "the kubelet's goroutines")
            .map(|skipped| skipped["why"].as_str().unwrap())
            .collect();
        assert_eq!(skipped.is_empty(), why.is_empty(), "{why}: {skipped:?}");
        assert!(skipped.iter().all(|words| words.contains(why)), "{why}: {skipped:?}");
        let suspects = report.get("suspects").and_then(Value::as_array);
        assert!(
            suspects.into_iter().flatten().all(|suspect| suspect["confidence"] == "possible"),
            "{why}: {output}"
        );
    }
}

#[test]
fn with_only_nodes_and_pods_the_times_of_changes_are_left() {
    let uid = "5c5c5c5c-1111-2222-3333-444444444444";
    let mut pods = bystanders();
    pods.push(deleted("shop", "db-0", uid, 200));
    let server = cluster(vec![Reply::Answer(403, String::new())], move |request| {
        if request.path.contains("/proxy/") || request.path.contains("/events?") {
            return Reply::Answer(403, r#"{"message":"nodes \"n1\" is forbidden"}"#.to_owned());
        }
        of_node(request, &not_ready(), &Reply::Silent, &pods)
    });
    let output = health(&server, &["-o", "json"]);
    let report = report(&output);
    assert_eq!((output.code, &report["verdict"]), (Some(1), &"unhealthy".into()), "{output}");
    let suspects: Vec<_> = report["suspects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|suspect| (&suspect["pod"]["name"], &suspect["confidence"]))
        .collect();
    assert_eq!(suspects, [(&"db-0".into(), &"possible".into())], "{output}");
    for (what, right) in [
        ("the kubelet's goroutines", "`get` on nodes/proxy"),
        ("the kubelet's /pods", "`get` on nodes/proxy"),
        ("the kubelet's log", "enableSystemLogQuery"),
        ("the suspects' events", "`list` on events"),
    ] {
        let why: Vec<&str> = report["notChecked"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|skipped| skipped["what"] == what)
            .map(|skipped| skipped["why"].as_str().unwrap())
            .collect();
        assert!(why.len() == 1 && why[0].contains(right), "{what}: {output}");
    }
}

#[test]
fn kubelets_log_that_names_the_pod_makes_it_likely() {
    let uid = "5c5c5c5c-1111-2222-3333-444444444444";
    let mut pods = bystanders();
    pods.push(deleted("shop", "db-0", uid, 75));
    let line = format!(
        "Nov 21 11:58:50.123456 n1 kubelet[7]: E1121 11:58:50.1 7 log.go:32] \"StopContainer from runtime \
        service failed\" err=\"rpc error: code = DeadlineExceeded\" containerID=\"{uid:0>64}\"\n"
    );
    let server = cluster(recorded(["lock.t35", "lock.t100"]), move |request| match request.path.as_str() {
        path if path.contains("/proxy/logs/?query=kubelet") => Reply::ok(line.clone()),
        _ => of_node(request, &node("True", "ok"), &metrics(70), &pods),
    });
    let output = health(&server, &["-o", "json"]);
    let report = report(&output);
    let suspect = &report["suspects"][0];
    assert_eq!(
        (&suspect["pod"]["name"], &suspect["confidence"]),
        (&"db-0".into(), &"likely".into()),
        "{output}"
    );
    let kinds: Vec<&str> = suspect["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["podChangedBefore", "kubeletLogged"], "{output}");
}

#[test]
fn no_recorder_forces_this_way_and_a_bundle_has_all_that_was_read() {
    let place = CaptureDir::make();
    let bundle = place.path("n1.tar.gz");
    let server = cluster(recorded(["lock.t35", "lock.t100"]), |request| {
        of_node(request, &node("True", "ok"), &metrics(70), &bystanders())
    });
    let output = health(&server, &["--no-recorder", "--bundle", argument(&bundle)]);
    assert_eq!(output.code, Some(1), "{output}");
    let screen: String = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("no recorder: not asked (--no-recorder)"), "{output}");
    assert!(server.requests().iter().all(|request| !request.path.contains("labelSelector")), "{output}");
    let listed = std::process::Command::new("tar").arg("-tzf").arg(&bundle).output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let expected = "index.json health.json kubelet/goroutines-1.txt.gz kubelet/goroutines-2.txt.gz pods.json";
    assert_eq!(names.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    let again = Invocation::new(&["health", "--from", argument(&bundle)]).run();
    assert_eq!(again.code, Some(1), "{again}");
    assert!(again.stdout.contains("ListContainers does not answer"), "{again}");
}

#[test]
fn no_recorder_conflicts_with_what_names_another_source() {
    for other in [&["--npd"][..], &["--from", "n1.json"]] {
        let output = Invocation::new(&[&["health", "--node", "n1", "--no-recorder"], other].concat()).run();
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("cannot be used with"), "{output}");
    }
    let output = Invocation::new(&["health", "--no-recorder"]).run();
    assert!(output.code == Some(2) && output.stderr.contains("--node <NAME>"), "{output}");
    let server = cluster(recorded(["base.t3-busy", "base.t5-busy"]), |request| {
        of_node(request, &node("True", "ok"), &metrics(1), &bystanders())
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let known = ["health", "--kubeconfig", config.0.to_str().unwrap(), "--node", "n1", "--no-recorder"];
    let output = Invocation::new(&known).run();
    let words = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.code == Some(0) && words.contains("not asked (--no-recorder)"), "{output}");
}

/// A pod that was created `seconds` before noon, and an event for each error of its network plugin since then.
fn failing(name: &str, seconds: u32) -> (Value, Value) {
    let uid =
        format!("7c7c7c7c-1111-2222-3333-{:0>12}", name.len() * 1000 + usize::try_from(seconds).unwrap());
    let events: Vec<Value> = (0..seconds / 15)
        .map(|nth| {
            let message = format!(
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
                 \"{nth:064}\": plugin type=\"example-cni\" failed (add): unable to connect to agent: dial unix \
                 /run/agent.sock: connect: no such file or directory"
            );
            let at = ago(seconds - 15 * nth);
            json!({"type": "Warning", "reason": "FailedCreatePodSandBox", "message": message, "count": 1,
                "firstTimestamp": at, "lastTimestamp": at, "source": {"component": "kubelet", "host": "n1"}})
        })
        .collect();
    (created("shop", name, &uid, seconds), json!({"kind": "EventList", "items": events}))
}

/// Starts a cluster whose kubelet is healthy and has two pods that fail among others. `events` answers requests for their events.
fn failing_cluster(events: impl Fn(&Value) -> Reply + Send + Sync + 'static, journal: Reply) -> Server {
    let failing = [failing("api", 130), failing("web", 190)];
    let mut pods = bystanders();
    pods.extend(failing.iter().map(|(pod, _)| pod.clone()));
    cluster(recorded(["base.t3-busy", "base.t5-busy"]), move |request| {
        if let Some((_, selector)) = request.path.split_once("/api/v1/namespaces/shop/events?") {
            let is_of = |pod: &Value| selector.contains(pod["metadata"]["uid"].as_str().unwrap());
            return events(&failing.iter().find(|(pod, _)| is_of(pod)).expect("it waits for nothing").1);
        }
        if request.path.contains("/proxy/logs/?query=kubelet") {
            return journal.clone();
        }
        of_node(request, &node("True", "ok"), &metrics(1), &pods)
    })
}

#[test]
fn creates_that_fail_at_once_are_named_from_outside_by_the_kubelets_events() {
    let server = failing_cluster(|events| Reply::ok(events.to_string()), Reply::Answer(500, String::new()));
    let output = health(&server, &[]);
    assert_eq!(output.code, Some(0), "{output}");
    let screen: String = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "DEGRADED CNI ADD fails: shop/web and 1 more cannot start",
        "D45",
        "the network plugin example-cni says: unable to connect to agent",
        "shop/web: 12 errors in the last 3m10s, the last one 25s ago",
        "no other pod has started since then",
        "kubectl get pods -A --field-selector 'spec.nodeName=n1'",
    ] {
        assert!(screen.contains(words), "{words}: {output}");
    }
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(paths.iter().all(|path| path != DUMP && !path.contains("/logs/")), "{paths:#?}");
    assert_eq!(paths.iter().filter(|path| path.contains("/events?")).count(), 2, "{paths:#?}");
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn kubelets_journal_shows_what_fails_if_its_events_may_not_be_read() {
    let forbidden = || Reply::Answer(403, r#"{"message":"events is forbidden"}"#.to_owned());
    let (pod, events) = failing("web", 190);
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let line = |nth: usize, event: &Value| {
        let words = event["message"]
            .as_str()
            .unwrap()
            .replace("Failed to create pod sandbox", "Failed to create sandbox");
        let error = format!(
            "failed to \"CreatePodSandbox\" for \"web_shop({uid})\" with CreatePodSandboxError: {words:?}"
        );
        format!(
            "Nov 21 11:57:{:02}.125 n1 kubelet[7]: E1121 11:57:00.125 7 pod_workers.go:1324] \"Error syncing pod, skipping\" \
             err={error:?} pod=\"shop/web\" podUID=\"{uid}\"\n",
            5 * nth
        )
    };
    let items = events["items"].as_array().unwrap();
    let early: String = items.iter().enumerate().map(|(nth, event)| line(nth, event)).collect();
    let lines = early.clone() + &early.replace("Nov 21 11:57:", "Nov 21 11:58:");
    for (journal, verdict, missing) in [
        (Reply::ok(lines), "degraded", &["the events of pods that wait"][..]),
        (Reply::ok("<html>"), "healthy", &["the events of pods that wait", "the kubelet's log"]),
        (Reply::ok(early), "healthy", &["the events of pods that wait"]),
    ] {
        let server = failing_cluster(move |_| forbidden(), journal);
        let output = health(&server, &["-o", "json"]);
        let report = report(&output);
        assert_eq!(report["verdict"], verdict, "{output}");
        let skipped = report["notChecked"].as_array().unwrap().iter();
        let skipped: Vec<&str> = skipped.map(|skipped| skipped["what"].as_str().unwrap()).collect();
        assert_eq!(skipped[1..], *missing, "{output}");
        assert_eq!(requests(&server, DUMP), 0);
        let is_found = report["findings"].as_array().unwrap().iter().any(|found| found["id"] == "D45");
        assert_eq!(is_found, verdict == "degraded", "{output}");
    }
}
