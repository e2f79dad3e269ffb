//! Tests of `pods --kubeconfig` with a scripted API server: list, watch, and the ways in which they end.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::server::{Request, Server, ServerAction, StreamEnd};
use crate::support::plegctl::{Invocation, Output, Running};

/// A directory that is removed when the test ends.
pub struct TestDir(pub PathBuf);

impl TestDir {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plegctl-pods-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a kubeconfig for `server` with these lines for the user.
    pub fn kubeconfig(&self, server: &str, user: &str) -> String {
        self.file(
            "kubeconfig",
            format!(
                "current-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers:\n- name: u\n  user:\n    {user}\n"
            ),
        )
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a pod of the API server.
pub fn pod(name: &str, version: u32, phase: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"app": name}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": phase},
    })
}

/// Creates the answer to a list request.
pub fn list(version: u32, pods: &[Value]) -> ServerAction {
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}, "items": pods});
    ServerAction::ok(list.to_string())
}

/// Creates an event of a watch request.
fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

/// Creates a bookmark event, which only has a resource version.
fn bookmark(version: u32) -> String {
    event("BOOKMARK", &json!({"kind": "Pod", "metadata": {"resourceVersion": version.to_string()}}))
}

/// Creates an error event.
fn status(code: u16) -> String {
    event("ERROR", &json!({"kind": "Status", "code": code, "message": "too old resource version"}))
}

fn is_watch(request: &Request) -> bool {
    request.path.contains("watch=true")
}

/// Answers list and watch requests in the given order. Then further watches stay silent, and the last list repeats.
fn scripted(lists: Vec<ServerAction>, watches: Vec<ServerAction>) -> Server {
    Server::start(move |request, before| {
        let number = before.iter().filter(|earlier| is_watch(earlier) == is_watch(request)).count();
        if is_watch(request) {
            watches.get(number).cloned().unwrap_or(ServerAction::Lines(Vec::new(), StreamEnd::Stay))
        } else {
            lists.get(number).or(lists.last()).unwrap().clone()
        }
    })
}

/// Runs `pods --watch` with this server as its only source.
struct Watch(Running);

impl Watch {
    fn start(scratch: &TestDir, server: &Server, more: &[&str]) -> Self {
        let config = scratch.kubeconfig(&server.url(), "token: x");
        let arguments =
            ["pods", "--watch", "-o", "jsonl", "--no-cri", "--node-name", "n1", "--kubeconfig", &config];
        Self(Invocation::new(&[&arguments, more].concat()).spawn())
    }

    /// Returns the next update or error: `ADD a b`, `error …`.
    fn next(&mut self) -> String {
        let line = self.0.line().expect("a line");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["kind"] == "PodSourceError" {
            return format!("error {}", line["error"].as_str().unwrap());
        }
        let names = line["pods"].as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap());
        let words: Vec<&str> = [line["op"].as_str().unwrap()].into_iter().chain(names).collect();
        words.join(" ")
    }
}

/// Returns the resource versions with which watches began.
fn versions(server: &Server) -> Vec<String> {
    let version = |request: &Request| request.path.rsplit_once("resourceVersion=").unwrap().1.to_owned();
    server.requests().iter().filter(|request| is_watch(request)).map(version).collect()
}

#[test]
fn list_and_watch_of_the_api_server_give_the_kubelets_updates() {
    let scratch = TestDir::new("list-and-watch");
    let mut ending = pod("a", 8, "Running");
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
    let events = [
        event("ADDED", &pod("b", 6, "Pending")),
        event("MODIFIED", &pod("b", 7, "Running")),
        event("MODIFIED", &ending),
        event("DELETED", &ending),
    ];
    let server = scripted(
        vec![list(5, &[pod("a", 3, "Running")])],
        vec![ServerAction::Lines(events.to_vec(), StreamEnd::Stay)],
    );
    let mut watch = Watch::start(&scratch, &server, &[]);
    let updates: Vec<String> = (0..5).map(|_| watch.next()).collect();
    assert_eq!(updates, ["ADD a", "ADD b", "RECONCILE b", "DELETE a", "REMOVE a"]);
    let requests = server.requests();
    assert_eq!(requests[0].path, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0");
    assert_eq!(
        requests[1].path,
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=5"
    );
    watch.0.signal("TERM");
    assert_eq!(watch.0.wait().code, Some(0));
}

#[test]
fn closed_watch_continues_from_its_bookmark() {
    let scratch = TestDir::new("closed");
    let server = scripted(
        vec![list(5, &[])],
        vec![
            ServerAction::Lines(vec![event("ADDED", &pod("a", 6, "Pending")), bookmark(9)], StreamEnd::Close),
            ServerAction::Lines(vec![event("ADDED", &pod("b", 10, "Pending"))], StreamEnd::Stay),
        ],
    );
    let mut watch = Watch::start(&scratch, &server, &[]);
    let updates: Vec<String> = (0..3).map(|_| watch.next()).collect();
    assert_eq!(updates, ["ADD", "ADD a", "ADD b"]);
    assert_eq!(versions(&server)[..2], ["5", "9"], "plegctl does not list again");
    assert_eq!(server.requests().iter().filter(|request| !is_watch(request)).count(), 1);
}

#[test]
fn expired_resource_version_causes_a_new_list_without_a_message() {
    for gone in
        [ServerAction::Lines(vec![status(410)], StreamEnd::Close), ServerAction::status(410, "too old")]
    {
        let scratch = TestDir::new("gone");
        let server = scripted(
            vec![list(5, &[pod("a", 1, "Running")]), list(50, &[pod("b", 40, "Running")])],
            vec![gone],
        );
        let mut watch = Watch::start(&scratch, &server, &[]);
        let updates: Vec<String> = (0..3).map(|_| watch.next()).collect();
        assert_eq!(updates, ["ADD a", "REMOVE a", "ADD b"]);
    }
}

#[test]
fn errors_are_reported_and_retried_and_known_pods_stay() {
    let scratch = TestDir::new("trouble");
    let server = scripted(
        vec![
            list(5, &[pod("a", 1, "Running")]),
            ServerAction::status(403, "pods is forbidden: User \"x\" cannot list resource \"pods\""),
            list(7, &[pod("a", 1, "Running"), pod("b", 6, "Running")]),
        ],
        vec![ServerAction::Lines(vec![event("ADDED", &pod("c", 6, "Pending"))], StreamEnd::Break)],
    );
    let mut watch = Watch::start(&scratch, &server, &[]);
    assert_eq!((watch.next(), watch.next()), ("ADD a".to_owned(), "ADD c".to_owned()));
    let cut = watch.next();
    assert!(cut.contains("ended the connection after"), "{cut}");
    let forbidden = watch.next();
    assert!(
        forbidden.contains("cannot list resource") && forbidden.contains("`list` and `watch` on pods"),
        "{forbidden}"
    );
    assert_eq!((watch.next(), watch.next()), ("REMOVE c".to_owned(), "ADD b".to_owned()));
}

#[test]
fn invalid_or_failing_watch_is_replaced_by_a_list() {
    let scratch = TestDir::new("nonsense");
    let server = scripted(
        vec![list(5, &[])],
        vec![
            ServerAction::Lines(vec!["<html>".to_owned()], StreamEnd::Stay),
            ServerAction::Lines(vec![status(500)], StreamEnd::Stay),
        ],
    );
    let mut watch = Watch::start(&scratch, &server, &[]);
    assert_eq!(watch.next(), "ADD");
    let nonsense = watch.next();
    assert!(nonsense.contains("a line of the watch"), "{nonsense}");
    let ended = watch.next();
    assert!(ended.contains("ends the watch: 500 too old"), "{ended}");
}

#[test]
fn rejected_credential_is_read_again() {
    let scratch = TestDir::new("unauthorized");
    // The program prints another token in each run.
    let count = scratch.file("count", "");
    let program = scratch.file(
        "credential",
        format!(
            "#!/bin/sh\necho x >> {count}\necho '{{\"kind\": \"ExecCredential\", \"status\": {{\"token\": \"t\"}}}}'\n"
        ),
    );
    let server = Server::start(|request, before| match (is_watch(request), before.len()) {
        (false, 0) => ServerAction::status(401, "Unauthorized"),
        (false, _) => list(5, &[]),
        (true, _) => ServerAction::Lines(Vec::new(), StreamEnd::Stay),
    });
    let user = format!("exec: {{apiVersion: v1, command: /bin/sh, args: [{program}]}}");
    let config = scratch.kubeconfig(&server.url(), &user);
    let arguments =
        ["pods", "--watch", "-o", "jsonl", "--no-cri", "--node-name", "n1", "--kubeconfig", &config];
    let mut watch = Watch(Invocation::new(&arguments).spawn());
    let refused = watch.next();
    assert!(refused.contains("does not accept the credentials (401)"), "{refused}");
    assert_eq!(watch.next(), "ADD");
    assert_eq!(fs::read_to_string(count).unwrap().lines().count(), 2);
}

#[test]
fn namespace_and_labels_select_updates() {
    let scratch = TestDir::new("chosen");
    let mut elsewhere = pod("b", 6, "Pending");
    elsewhere["metadata"]["namespace"] = "other".into();
    let events = [event("ADDED", &elsewhere), event("ADDED", &pod("c", 7, "Pending"))];
    let server = scripted(
        vec![list(5, &[pod("a", 1, "Running")])],
        vec![ServerAction::Lines(events.to_vec(), StreamEnd::Stay)],
    );
    let mut watch = Watch::start(&scratch, &server, &["-n", "shop", "-l", "app in (b,c)"]);
    assert_eq!(watch.next(), "ADD c");
}

/// Runs `pods` once.
fn once(scratch: &TestDir, server: &Server, more: &[&str]) -> Output {
    let config = scratch.kubeconfig(&server.url(), "token: x");
    let arguments = ["pods", "-o", "json", "--no-cri", "--node-name", "n1", "--kubeconfig", &config];
    Invocation::new(&[&arguments, more].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

#[test]
fn one_run_lists_once_and_reads_the_kubelets_own_pods_if_permitted() {
    let scratch = TestDir::new("once");
    let refused = json!({"kind": "PodList", "apiVersion": "v1", "items": [{
        "metadata": {"name": "a", "namespace": "shop", "uid": "uid-a"}, "spec": {"nodeName": "n1"},
        "status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}}]});
    let server = Server::start(move |request, _| {
        if request.path == "/api/v1/nodes/n1/proxy/pods" {
            ServerAction::ok(refused.to_string())
        } else {
            list(5, &[pod("a", 1, "Pending"), pod("b", 1, "Running")])
        }
    });
    let output = once(&scratch, &server, &["-l", "app=a"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    assert_eq!(report["sources"], json!([{"name": "api", "ready": true, "pods": 2}]));
    assert_eq!(report["pods"].as_array().unwrap().len(), 1, "{output}");
    assert_eq!(report["pods"][0]["verdict"], "refused");
    assert_eq!(report["pods"][0]["why"], "OutOfcpu: Node didn't have enough resource: cpu");
    assert!(server.requests().iter().all(|request| !is_watch(request)));
}

#[test]
fn missing_permission_on_the_kubelet_is_no_error() {
    let scratch = TestDir::new("no-proxy");
    let server = Server::start(move |request, _| {
        if request.path.contains("proxy") {
            ServerAction::status(403, "nodes is forbidden")
        } else {
            list(5, &[])
        }
    });
    let output = once(&scratch, &server, &[]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
    assert!(report(&output)["kubeletError"].as_str().unwrap().contains("403"));
}
