//! `plegctl pods` with four views of a pod that contradict each other: what the sources want, the kubelet's Pods API, the
//! runtime and the API server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::api_server::{TestDir, list, pod};
use super::server::{Server, ServerAction};
use crate::support::plegctl::{Invocation, Output};
use crate::support::pods_api::{PodsApiServer, PodsReply, listing, running_pod, wire};
use crate::support::{FakeRuntime, Node};

const SOURCE_AND_NODE: (&str, &str) = ("api", "n1");

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

fn rfc3339(seconds: i64) -> String {
    humantime::format_rfc3339_seconds(
        UNIX_EPOCH + std::time::Duration::from_secs(seconds.try_into().unwrap()),
    )
    .to_string()
}

/// A pod of the API server that was bound to the node `age` seconds ago.
fn bound(name: &str, age: i64) -> Value {
    let mut pod = pod(name, 3, "Running");
    pod["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(now() - age)}]);
    pod
}

/// A runtime that runs `web`, whose container ended `ended` seconds ago, if it has ended.
fn runtime(ended: Option<i64>) -> FakeRuntime {
    let node = Node::new()
        .pod("shop/web", "uid-web")
        .sandbox("s1")
        .annotation("kubernetes.io/config.source", "api")
        .container("c1", "main");
    FakeRuntime::start(match ended {
        None => node,
        Some(ago) => {
            node.exited(137).edit_container(|container| container.finished_at = (now() - ago) * 1_000_000_000)
        }
    })
}

/// The kubelet's status of `web`: its container has run for an hour.
fn web() -> wire::Pod {
    running_pod("web", "uid-web", SOURCE_AND_NODE, "c1", now() - 3600)
}

/// Runs `pods` with these views, and returns the output and the report.
fn pods(runtime: &FakeRuntime, api: &Server, socket: &str, more: &[&str]) -> (Output, Value) {
    let scratch = TestDir::new(&format!("views-{}", runtime.socket().display()).replace('/', "-"));
    let config = scratch.kubeconfig(&api.url(), "token: x");
    let endpoint = runtime.endpoint();
    let words = [
        "pods",
        "-r",
        &endpoint,
        "--node-name",
        "n1",
        "--kubeconfig",
        &config,
        "--pods-api",
        socket,
        "-o",
        "json",
    ];
    let output = Invocation::new(&[&words, more].concat()).run();
    let report = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    (output, report)
}

fn api_of(pods: Vec<Value>) -> Server {
    Server::start(move |request, _| {
        if request.path.contains("/leases/") {
            let renewed = format!("{}.000000Z", rfc3339(now() - 720).trim_end_matches('Z'));
            return ServerAction::ok(json!({"kind": "Lease", "spec": {"renewTime": renewed}}).to_string());
        }
        list(5, &pods)
    })
}

#[test]
fn views_that_agree_are_one_row_with_four_states() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-agree"));
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let (output, report) = pods(&runtime, &api_of(vec![bound("web", 3600)]), server.socket(), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    let row = &report["pods"][0];
    let states =
        ["wanted", "kubelet", "runtime", "api"].map(|view| row["views"][view]["state"].as_str().unwrap());
    assert_eq!(
        (row["verdict"].as_str(), states),
        (Some("running"), ["wanted", "Running", "running", "Running"])
    );
    let age = row["views"]["kubelet"]["ageSeconds"].as_f64().unwrap();
    assert!((3600.0..7200.0).contains(&age), "the age of the state, not of the answer: {age}");
    assert_eq!((server.calls(), report.get("apiServer")), (1, None), "agreement needs no second look");
}

#[test]
fn a_kubelet_that_does_not_know_a_bound_pod_is_deaf_after_two_looks() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-deaf"));
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let api = api_of(vec![bound("web", 3600), bound("new", 600), bound("young", 5)]);
    let (output, report) = pods(&runtime, &api, server.socket(), &[]);
    assert_eq!(output.code, Some(1), "{output}");
    let verdicts: Vec<_> = report["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].clone(), row["verdict"].clone()))
        .collect();
    assert_eq!(verdicts[0], ("new".into(), "deaf".into()), "{report:#}");
    assert_eq!(verdicts[2], ("young".into(), "missing".into()), "{report:#}");
    assert_eq!(server.calls(), 2);
    let age = report["apiServer"]["leaseAgeSeconds"].as_f64().unwrap();
    assert!((720.0..3600.0).contains(&age), "{report:#}");
    assert!(report["pods"][0]["why"].as_str().unwrap().contains("the node's lease is 12m old"), "{report:#}");
}

#[test]
fn a_pod_that_reaches_the_kubelet_between_the_looks_is_not_deaf() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-arrives"));
    let new = || running_pod("new", "uid-new", SOURCE_AND_NODE, "c9", now() - 1);
    let server = PodsApiServer::start(&folder.0, move |call| {
        listing(if call == 0 { vec![web()] } else { vec![web(), new()] })
    });
    let api = api_of(vec![bound("web", 3600), bound("new", 600)]);
    let (_, report) = pods(&runtime, &api, server.socket(), &[]);
    assert_eq!(report["pods"][0]["verdict"], "missing", "{report:#}");
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_pod_that_only_the_kubelet_knows_is_unreported_and_a_forbidden_lease_is_said() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-unreported"));
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let api = Server::start(|request, _| {
        if request.path.contains("/leases/") {
            ServerAction::status(403, "leases is forbidden")
        } else {
            list(5, &[])
        }
    });
    let (output, report) = pods(&runtime, &api, server.socket(), &[]);
    let row = &report["pods"][0];
    assert_eq!((output.code, row["verdict"].as_str()), (Some(1), Some("unreported")), "{report:#}");
    assert_eq!(row["views"]["api"]["state"], "absent");
    assert!(
        report["apiServer"]["notChecked"][0].as_str().unwrap().contains("leases is forbidden"),
        "{report:#}"
    );
}

#[test]
fn a_pod_that_the_api_server_lists_in_the_second_reading_is_not_unreported() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-reported"));
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let lists = Arc::new(AtomicUsize::new(0));
    let api = Server::start(move |_, _| {
        if lists.fetch_add(1, Ordering::SeqCst) == 0 { list(5, &[]) } else { list(6, &[bound("web", 3600)]) }
    });
    let (_, report) = pods(&runtime, &api, server.socket(), &[]);
    // The first list decides what is wanted, and this pod is not in it.
    assert_eq!(report["pods"][0]["verdict"], "orphan", "{report:#}");
}

#[test]
fn a_status_that_lags_by_5_s_is_not_late_and_by_90_s_is_late() {
    let folder = TestDir::new("views-lag");
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let api = api_of(vec![bound("web", 3600)]);
    let (_, report) = pods(&runtime(Some(5)), &api, server.socket(), &[]);
    assert_ne!(report["pods"][0]["verdict"], "late", "{report:#}");
    let runtime = runtime(Some(90));
    let (output, report) = pods(&runtime, &api, server.socket(), &[]);
    let row = &report["pods"][0];
    assert_eq!((output.code, row["verdict"].as_str()), (Some(1), Some("late")), "{report:#}");
    assert!(row["why"].as_str().unwrap().starts_with("container main ended "), "{report:#}");
    let pods = json!({"kind": "PodList", "items": [bound("web", 3600)]}).to_string();
    let words = [
        "pods",
        "-r",
        &runtime.endpoint(),
        "--node-name",
        "n1",
        "--pods-api",
        server.socket(),
        "--api-pods",
        "-",
    ];
    let output = Invocation::new(&words).stdin(pods).run();
    assert!(
        output.stdout.contains("late") && output.stdout.contains("[kubelet Running 60m, runtime "),
        "{output}"
    );
}

#[test]
fn a_pods_api_that_never_answers_is_named_and_gives_no_verdict() {
    let (runtime, folder) = (runtime(Some(90)), TestDir::new("views-silent"));
    let server = PodsApiServer::start(&folder.0, |_| None);
    let api = api_of(vec![bound("web", 3600), bound("new", 600)]);
    let (output, report) = pods(&runtime, &api, server.socket(), &["--timeout", "2s"]);
    let row = |at: usize| &report["pods"][at];
    assert!(
        ![row(0), row(1)].iter().any(|row| row["verdict"] == "late" || row["verdict"] == "deaf"),
        "{output}"
    );
    assert_eq!(row(0)["views"].get("kubelet"), None);
    assert_eq!(report["kubeletError"], "the kubelet's Pods API did not answer ListPods within 2s");
    assert_eq!(server.calls(), 1, "a call that hung is not made again");
}

#[test]
fn wrong_answers_of_the_pods_api_are_errors_of_the_kubelets_view_only() {
    let runtime = runtime(None);
    let api = api_of(vec![bound("web", 3600)]);
    let refused = |name: &str, reply: PodsReply| {
        let folder = TestDir::new(&format!("views-{name}"));
        let server = PodsApiServer::start(&folder.0, move |_| reply.clone());
        let (output, report) = pods(&runtime, &api, server.socket(), &[]);
        assert_eq!(
            (output.code, report["pods"][0]["verdict"].as_str()),
            (Some(0), Some("running")),
            "{output}"
        );
        report["kubeletError"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned()
    };
    assert!(refused("garbage", Some(Ok(vec![0x0a, 5, 1]))).contains("cannot be used: an entry of 5 bytes"));
    let empty = Some(Ok([0x0a, 0].repeat(4 << 20)));
    assert!(refused("bomb", empty).contains("would take more than"));
    let nameless = listing(vec![wire::Pod::default()]);
    assert!(refused("nameless", nameless).contains("pod number 1 has no name or no uid"));
    assert!(
        refused("unimplemented", Some(Err((12, "unknown service"))))
            .contains("is not the kubelet's Pods API")
    );
    assert!(refused("starts", Some(Err((9, "not synced")))).contains("has not read every source"));
    assert!(refused("busy", Some(Err((8, "rate limit")))).contains("ResourceExhausted: rate limit"));
    let huge = Some(Ok(vec![0; 97 << 20]));
    assert!(refused("huge", huge).contains("cannot be used"), "more than 96 MiB");
}

#[test]
fn a_socket_that_is_missing_or_no_socket_is_named() {
    let runtime = runtime(None);
    let api = api_of(vec![bound("web", 3600)]);
    let folder = TestDir::new("views-no-socket");
    let error =
        |socket: &str| pods(&runtime, &api, socket, &[]).1["kubeletError"].as_str().unwrap().to_owned();
    let missing = folder.0.join("none.sock");
    assert!(error(missing.to_str().unwrap()).ends_with("none.sock`: no such socket"));
    let file = folder.file("file.sock", "");
    assert!(error(&file).contains("not a socket"));
}

/// Returns the name and the verdict of each row.
fn verdicts(report: &Value) -> Vec<(&str, &str)> {
    let rows = report["pods"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap(), row["verdict"].as_str().unwrap())).collect()
}

#[test]
fn an_api_server_that_does_not_answer_hides_no_pod_of_the_kubelet_or_the_runtime() {
    let (runtime, folder) = (runtime(None), TestDir::new("views-no-api"));
    let server = PodsApiServer::start(&folder.0, |_| listing(vec![web()]));
    let silent = Server::start(|_, _| ServerAction::Silent);
    let (output, report) = pods(&runtime, &silent, server.socket(), &["--timeout", "500ms"]);
    assert_eq!((output.code, verdicts(&report)), (Some(0), vec![("web", "running")]), "{output}");
    assert!(
        report["sources"][0]["error"].as_str().unwrap().contains("did not answer within 500ms"),
        "{output}"
    );
    assert!(report["pods"][0]["why"].as_str().unwrap().contains("source api could not be read"), "{output}");
    // Without the kubelet's pods, nobody says what should run.
    let none = folder.0.join("none.sock");
    let (output, report) = pods(&runtime, &silent, none.to_str().unwrap(), &["--timeout", "500ms"]);
    assert_eq!((output.code, verdicts(&report)), (Some(2), vec![("web", "unknown")]), "{output}");
    assert_eq!(report["pods"][0]["views"]["runtime"]["state"], "running", "{output}");
}

#[test]
fn a_runtime_that_hangs_or_refuses_leaves_running_pods_unknown_and_ended_pods_known() {
    let folder = TestDir::new("views-no-runtime");
    let list = |pods: &[Value]| folder.file("pods.json", json!({"kind": "List", "items": pods}).to_string());
    let with = |scenario: &str, list: &str| {
        let words = [
            "pods",
            "-r",
            scenario,
            "--node-name",
            "n1",
            "--api-pods",
            list,
            "--timeout",
            "500ms",
            "-o",
            "json",
        ];
        let output = Invocation::new(&words).run();
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        (output, report)
    };
    for (scenario, why) in [("sim:hung-list", "did not answer within 500ms"), ("sim:runtime-down", "refused")]
    {
        let both = list(&[pod("done", 3, "Succeeded"), pod("web", 3, "Running")]);
        let (output, report) = with(scenario, &both);
        assert_eq!(verdicts(&report), [("done", "running"), ("web", "unknown")], "{output}");
        assert_eq!(output.code, Some(2), "{output}");
        assert!(report["runtimeError"].as_str().unwrap().contains(why), "{output}");
        let mut refused = pod("web", 3, "Failed");
        refused["status"]["reason"] = "OutOfcpu".into();
        let (output, report) = with(scenario, &list(&[pod("api", 3, "Running"), refused]));
        assert_eq!(verdicts(&report), [("api", "unknown"), ("web", "refused")], "{output}");
        assert_eq!(output.code, Some(1), "bad news stays bad news: {output}");
    }
}

#[test]
fn the_pods_api_below_a_directory_that_others_may_write_to_is_not_used() {
    let folder = TestDir::new("views-trust");
    let root = folder.0.join("var/lib/kubelet");
    fs::create_dir_all(&root).unwrap();
    let server = PodsApiServer::start(&root, |_| listing(vec![web()]));
    let run = || {
        Invocation::new(&[
            "health",
            "-r",
            &runtime(None).endpoint(),
            "--host-root",
            folder.0.to_str().unwrap(),
        ])
        .run()
    };
    let api = root.join("pods-api");
    fs::set_permissions(&api, fs::Permissions::from_mode(0o777)).unwrap();
    let output = run();
    assert!(output.stderr.contains("other users can write to"), "{output}");
    assert_eq!(server.calls(), 0);
    fs::set_permissions(&api, fs::Permissions::from_mode(0o750)).unwrap();
    let output = run();
    assert_eq!((server.calls(), output.stderr.contains("other users can write to")), (1, false), "{output}");
}
