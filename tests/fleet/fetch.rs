//! `plegctl nodes --fetch` against a scripted API server.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::nodes::{TestFile, authority, kubeconfig};
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output};

const TOKEN: &str = "0123456789abcdef";

/// The part of a path through the pod proxy: the node and the page.
fn recorder(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/api/v1/namespaces/plegctl/pods/rec-")?.split_once("-x:9469/proxy/")
}

fn incident(number: u64, open: bool, verdict: &str, minutes: u32) -> Value {
    let mut incident = json!({"number": number, "from": "2026-11-21T02:00:00Z", "open": open, "why": "w", "verdict": verdict});
    if !open {
        incident["to"] = format!("2026-11-21T02:{minutes:02}:00Z").into();
    }
    incident
}

/// A cluster whose nodes have these incidents. A node with a name that is no DNS name is a trap.
fn cluster() -> Server {
    Server::start("server", Clients::Any, answers())
}

/// The answers of this cluster's API server.
fn answers() -> impl Fn(&Request) -> Reply {
    let nodes = ["long", "open", "short", "quiet", "liar", "..%2Fescape", "none"];
    let items: Vec<Value> =
        nodes.iter().map(|name| json!({"metadata": {"name": name.replace("%2F", "/")}})).collect();
    let pods: Vec<Value> = nodes
        .iter()
        .filter(|name| **name != "none")
        .map(|name| {
            json!({"metadata": {"namespace": "plegctl", "name": format!("rec-{}-x", name.replace("..%2F", ""))},
                "spec": {"nodeName": name.replace("%2F", "/"), "containers": [{"ports": [{"name": "metrics", "containerPort": 9469}]}]},
                "status": {"phase": "Running"}})
        })
        .collect();
    let capture = fs::read(file("tests/captures/0.1.0.plegcap")).unwrap();
    move |request: &Request| {
        let path = request.path.as_str();
        let Some((node, page)) = recorder(path) else {
            assert!(!path.starts_with("/api/v1/pods?"), "a pod in another namespace may be anybody's");
            if path.contains("labelSelector=none") {
                return Reply::ok(json!({"items": [items.last()]}).to_string());
            }
            let items = if path.starts_with("/api/v1/namespaces/plegctl/pods?") { &pods } else { &items };
            return Reply::ok(json!({"items": items}).to_string());
        };
        if page.starts_with("incidents?") {
            assert_eq!(request.token, None, "the token is sent only for captures");
            let incidents = match node {
                "long" => vec![incident(1, false, "unhealthy", 9), incident(2, false, "unhealthy", 50)],
                "open" => vec![incident(7, true, "degraded", 0)],
                "short" => vec![incident(4, false, "unhealthy", 1)],
                "quiet" => vec![],
                _ => vec![incident(3, false, "degraded", 1)],
            };
            return Reply::ok(
                json!({"apiVersion": "plegctl/v1", "kind": "IncidentList", "takenAt": "2026-11-21T12:00:00Z", "from": "2026-11-20T12:00:00Z", "incidents": incidents})
                    .to_string(),
            );
        }
        match (request.token.as_deref(), node) {
            (Some(TOKEN), "liar") => Reply::ok("<html>not a capture</html>"),
            (Some(TOKEN), "short") => Reply::Cut("plegcap"),
            (Some(TOKEN), _) => Reply::Bytes(200, capture.clone()),
            _ => Reply::Answer(403, "the recorder has another token".to_owned()),
        }
    }
}

fn fetch(server: &Server, directory: &Path, token: &str, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let token = TestFile::new(token);
    let known = ["nodes", "--kubeconfig", config.0.to_str().unwrap(), "--fetch", argument(directory)];
    let known = [&known[..], &["--token-file", argument(&token.0), "--timeout", "60s"]].concat();
    Invocation::new(&[&known, arguments].concat()).run()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn captures_of_the_worst_incidents_are_complete_private_files() {
    let server = cluster();
    let place = CaptureDir::make();
    let directory = place.path("evidence");
    let output = fetch(&server, &directory, TOKEN, &["--limit", "2", "--anonymise", "-o", "json"]);
    assert_eq!(output.code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["kind"], "FleetCaptures");
    let fetched: Vec<_> =
        report["files"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    assert_eq!(
        fetched,
        ["open-20261121T020000Z.plegcap", "long-20261121T020000Z.plegcap"],
        "the open incident is the worst one: {output}"
    );
    assert_eq!((&report["beyondLimit"], &report["notKnown"]), (&3.into(), &1.into()), "{output}");
    assert_eq!(names(&directory), ["long-20261121T020000Z.plegcap", "open-20261121T020000Z.plegcap"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("open-20261121T020000Z.plegcap"))), (0o700, 0o600));
    let listed =
        Invocation::new(&["capture", "ls", argument(&directory.join("open-20261121T020000Z.plegcap"))]).run();
    assert_eq!(listed.code, Some(0), "{listed}");
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.method == "GET"), "{requests:?}");
    let captures: Vec<&str> = requests
        .iter()
        .filter_map(|request| request.path.split_once("/proxy/capture?").map(|(_, query)| query))
        .collect();
    assert_eq!(captures, ["incident=7&anonymise=1", "incident=2&anonymise=1"]);
}

#[test]
fn incomplete_and_wrong_answers_and_wrong_names_leave_no_file() {
    let server = cluster();
    let place = CaptureDir::make();
    let directory = place.path("evidence");
    let output = fetch(&server, &directory, TOKEN, &["--limit", "0"]);
    assert_eq!(output.code, Some(2), "some captures are missing: {output}");
    for words in ["the answer is no capture", "ended the connection after", "cannot be the name of a file"] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert_eq!(names(&directory), ["long-20261121T020000Z.plegcap", "open-20261121T020000Z.plegcap"]);
    assert_eq!(names(&place.path("")), ["evidence"]);
    let output = fetch(&server, &directory, "fedcba9876543210", &["--limit", "1"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stdout.contains("the recorder has another token") && !output.stdout.contains("fedcba"),
        "{output}"
    );
    assert_eq!(names(&directory).len(), 2, "the old file is kept");
    let open = "open-20261121T020000Z.plegcap";
    fs::write(directory.join(open), "earlier evidence").unwrap();
    for _ in 0..2 {
        let output = fetch(&server, &directory, TOKEN, &["--limit", "1"]);
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(names(&directory)[1..], ["open-20261121T020000Z.2.plegcap", open], "{output}");
    }
    assert_eq!(fs::read_to_string(directory.join(open)).unwrap(), "earlier evidence");
}

#[test]
fn unusable_tokens_and_directories_are_errors_before_any_request() {
    let server = cluster();
    let place = CaptureDir::make();
    let shared = place.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let link = place.path("link");
    symlink(place.path(""), &link).unwrap();
    let plain = place.path("file");
    fs::write(&plain, "").unwrap();
    for (directory, token, why) in [
        (&place.path("a"), "", "it is empty"),
        (&place.path("a"), "short", "a token needs at least 16"),
        (&shared, TOKEN, "others may write to this directory"),
        (&link, TOKEN, "it is not a directory"),
        (&plain, TOKEN, "it is not a directory"),
        (&place.path("no/such"), TOKEN, "No such file or directory"),
    ] {
        let output = fetch(&server, directory, token, &[]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{why}: {output}");
        assert!(output.stderr.contains(why), "{why}: {output}");
    }
    assert_eq!(server.requests(), []);
}

#[test]
fn cluster_without_recorders_is_no_answer() {
    let server = cluster();
    let place = CaptureDir::make();
    let output = fetch(&server, &place.path("evidence"), TOKEN, &["-l", "none"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stdout.contains("0 captures in ") && output.stdout.contains("of 1 node are not known"),
        "{output}"
    );
}

#[test]
fn token_is_not_sent_without_encryption() {
    let server = Server::start_plain(answers());
    // Only an address is known to be this machine's.
    let url = server.plain_url().replace("127.0.0.1", "localhost");
    let config = kubeconfig(&url, "insecure-skip-tls-verify: false", "{}");
    let token = TestFile::new(TOKEN);
    let place = CaptureDir::make();
    let directory = place.path("evidence");
    let known = ["nodes", "--kubeconfig", config.0.to_str().unwrap(), "--fetch", argument(&directory)];
    let output = Invocation::new(&[&known[..], &["--token-file", argument(&token.0)]].concat()).run();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stdout.contains("is sent over TLS only"), "{output}");
    assert!(server.requests().iter().all(|request| request.token.is_none()));
}
