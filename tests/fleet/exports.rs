//! `capture export` and `stacks` with `--node NAME` on a machine that is not the node: through the API server of a simulated
//! fleet to a running recorder, and through a scripted one to a scripted recorder and to the kubelet.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::nodes::{authority, kubeconfig, wait_until};
use super::remote::{node, pods};
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Output, Running, plegctl};
use crate::support::simulated_fleet::simulated_fleet;

const PROXY: &str = "/api/v1/namespaces/plegctl/pods/plegctl-x:9469/proxy/";
const TOKEN: &str = "0123456789abcdef-token";

/// An API server with one node, whose recorder gives these answers for the part of the path after `proxy/`.
pub(super) fn cluster(recorder: impl Fn(&str, &Request) -> Reply + Send + Sync + 'static) -> Server {
    Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        "/api/v1/nodes/n1" => node("True", "ok"),
        path if path.starts_with("/api/v1/pods?") => pods(&["plegctl-x"]),
        path if path.starts_with("/api/v1/namespaces/plegctl/pods?") => pods(&["plegctl-x"]),
        path => match path.strip_prefix(PROXY) {
            Some(page) => recorder(page, request),
            None => Reply::Answer(404, String::new()),
        },
    })
}

pub(super) fn token_file(place: &CaptureDir) -> PathBuf {
    let file = place.path("token");
    let _ = fs::remove_file(&file);
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    file
}

/// Runs a command with `--node n1` for the API server.
pub(super) fn run(server: &Server, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let known = ["--node", "n1", "--kubeconfig", config.0.to_str().unwrap()];
    Invocation::new(&[arguments, &known].concat()).run()
}

/// Forwards a request as the API server's proxy does: with its own headers, without `Authorization`, and no upgrade.
pub(super) fn forwarded(address: &str, page: &str, request: &Request) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    let token =
        request.token.as_ref().map(|token| format!("X-Plegctl-Token: {token}\r\n")).unwrap_or_default();
    let head =
        "Host: n1\r\nAccept: application/json\r\nAccept-Encoding: gzip\r\nX-Forwarded-For: 10.0.0.1\r\n";
    stream.write_all(format!("GET /{page} HTTP/1.1\r\n{head}{token}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &answer[end + 4..];
    let mut body = Vec::new();
    if !head.contains("Transfer-Encoding: chunked") {
        return Reply::Bytes(status, rest.to_vec());
    }
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return Reply::Bytes(status, body);
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

/// Starts a recorder of this runtime that has found this rule.
pub(super) fn recorder_of(place: &CaptureDir, runtime: &str, rule: &str) -> (Running, String) {
    let directory = place.path("capture");
    let address = free_address();
    let token = token_file(place);
    let how = ["record", "-r", runtime, argument(&directory), "--slow", "1s"];
    let how = [&how[..], &["--metrics-listen", &address, "--serve-token-file", argument(&token)]].concat();
    let mut running = Invocation::new(&how).with_short_silences().spawn();
    while !running.line().unwrap().contains(rule) {}
    (running, address)
}

#[test]
fn incidents_and_captures_of_a_running_recorder_reach_the_laptop() {
    let fleet = simulated_fleet();
    let node = fleet.node_with("D02");
    let run = |arguments: &[&str]| fleet.run(&[arguments, &["--node", &node]].concat());
    let source = "the recorder plegctl/plegctl-";

    let place = CaptureDir::make();
    let mut copies = (1..).map(|number| place.path(&format!("{number}.plegcap")));
    // A diagnosis names the container later than the incident begins.
    let container = wait_until(|| {
        let copy = copies.next().unwrap();
        let exported =
            run(&["capture", "export", argument(&copy), "--incident", "1", "--token-file", &fleet.token]);
        assert_eq!(exported.code, Some(0), "{exported}");
        assert!(exported.stderr.contains(&format!("from {source}")), "{exported}");
        let listed = plegctl(&["capture", "ls", argument(&copy), "-o", "json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        listed["incidents"][0]["primary"]["container"]["name"].as_str().map(str::to_owned)
    });
    assert_eq!(container, "worker");

    let stacks = run(&["stacks", "--once"]);
    assert!(stacks.stdout.starts_with("PLEG's relist waits "), "{stacks}");
}

#[test]
fn pod_that_looks_like_a_recorder_in_another_namespace_gets_no_token() {
    let place = CaptureDir::make();
    let (token, copy) = (token_file(&place), place.path("one.plegcap"));
    let server = Server::start("server", Clients::Any, |request| match request.path.as_str() {
        "/api/v1/nodes/n1" => node("True", "ok"),
        path if path.starts_with("/api/v1/pods?") => pods(&["plegctl-x"]),
        path if path.starts_with("/api/v1/namespaces/") => Reply::ok(r#"{"items":[]}"#),
        _ => Reply::Answer(404, String::new()),
    });
    let how = ["capture", "export", argument(&copy), "--incident", "1", "--token-file", argument(&token)];
    for (own, namespace) in [(&[][..], "plegctl"), (&["-n", "monitoring"], "monitoring")] {
        let output = run(&server, &[&how[..], own].concat());
        assert_eq!(output.code, Some(2), "{output}");
        let why = format!("the namespace {namespace} has no running pod of it");
        assert!(output.stderr.contains(&why), "{output}");
        assert!(server.requests().iter().all(|request| request.token.is_none()), "{:?}", server.requests());
    }
}

#[test]
fn a_recorder_that_refuses_or_lies_gives_no_capture_and_no_file() {
    let place = CaptureDir::make();
    let token = token_file(&place);
    let copy = place.path("one.plegcap");
    for (answer, why) in [
        (Reply::Silent, "did not answer within"),
        (Reply::Half("plegcap\n"), "stopped after 8 bytes"),
        (Reply::Cut("plegcap\n"), "ended the connection after 8 bytes"),
        (Reply::ok("<html>"), "sent no capture"),
        (Reply::Redirect("https://elsewhere.example/"), "does not follow redirects"),
        (Reply::Answer(401, "needs the token".to_owned()), "plegctl/plegctl-x answers 401: needs the token"),
        (Reply::Answer(401, r#"{"kind":"Status"}"#.to_owned()), "does not accept the credentials (401)"),
        (Reply::Answer(403, "another token\n".to_owned()), "answers 403: another token"),
        (
            Reply::Answer(403, r#"{"message":"pods/proxy is forbidden"}"#.to_owned()),
            "pods/proxy is forbidden",
        ),
        (Reply::Answer(404, "no such incident".to_owned()), "answers 404: no such incident"),
        (Reply::Answer(503, "another export\u{1b}[2J".to_owned()), "answers 503: another export"),
    ] {
        let server = cluster(move |_, _| answer.clone());
        let limit = if why.starts_with("did not") || why.starts_with("stopped") { "2s" } else { "5m" };
        let how = ["capture", "export", argument(&copy), "--incident", "1", "--timeout", limit];
        let output = run(&server, &[&how[..], &["--token-file", argument(&token)]].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{why}: {output}");
        assert!(output.stderr.contains(why), "{why}: {output}");
        assert!(!output.stderr.contains(TOKEN) && !output.stderr.contains('\u{1b}'), "{output}");
        assert!(!copy.exists(), "{why}");
    }
}

#[test]
fn missing_token_path_or_recorder_is_a_clear_error() {
    let server = cluster(|_, _| Reply::Answer(404, String::new()));
    for (arguments, why) in [
        (&["capture", "export", "one.plegcap"][..], "only with its token"),
        (&["capture", "export", "a", "b"], "only the FILE with --node"),
        (&["capture", "export", "one.plegcap", "--token-file", "/nowhere"], "cannot use the token file"),
        (&["capture", "export", "one.plegcap", "--token-file", "/dev/null"], "it is empty"),
        (&["stacks", "file"], "cannot be used with"),
    ] {
        let output = run(&server, arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}: {output}");
        assert!(output.stderr.contains(why), "{arguments:?}: {output}");
    }
    let none = Server::start("server", Clients::Any, |request| match request.path.as_str() {
        path if path.contains("/pods?") => pods(&[]),
        _ => Reply::Answer(404, String::new()),
    });
    let place = CaptureDir::make();
    let output = run(&none, &["capture", "export", "x", "--token-file", argument(&token_file(&place))]);
    assert_eq!(output.code, Some(2), "{output}");
    let why = "cannot read the recorder of `n1`: the namespace plegctl has no running pod of it";
    assert!(output.stderr.contains(why), "{output}");
    let output = plegctl(&["capture", "export", "one.plegcap"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("needs a CAPTURE and a FILE"), "{output}");
}

#[test]
fn stacks_reads_the_kubelet_through_the_node_proxy() {
    let mut dump = String::new();
    let packed = fs::File::open(file("tests/recordings/stacks/c2-lock.t75.debug2.gz")).unwrap();
    GzDecoder::new(packed).read_to_string(&mut dump).unwrap();
    let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        path if path.starts_with("/api/v1/nodes/n1/proxy/debug/pprof/goroutine") => Reply::ok(dump.clone()),
        _ => Reply::Answer(404, String::new()),
    });
    let output = run(&server, &["stacks", "--once", "-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let source = report["dumps"][0]["source"].as_str().unwrap();
    assert!(source.ends_with("/api/v1/nodes/n1/proxy/debug/pprof/goroutine?debug=2"), "{source}");
    assert!(report["limits"].to_string().contains("the process runs on another node"), "{report}");
}

#[test]
fn doubt_about_a_kubelet_behind_the_api_server_is_settled_by_a_second_dump() {
    let dumps = ["k2-cni.t8.kubelet.debug2.gz", "k2-cni.t80.kubelet.debug2.gz"].map(|name| {
        let mut dump = String::new();
        let packed = fs::File::open(file(&format!("tests/recordings/stacks/{name}"))).unwrap();
        GzDecoder::new(packed).read_to_string(&mut dump).unwrap();
        dump
    });
    let requests = AtomicUsize::new(0);
    let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        path if path.starts_with("/api/v1/nodes/n1/proxy/debug/pprof/goroutine") => {
            Reply::ok(dumps[requests.fetch_add(1, Ordering::SeqCst)].clone())
        }
        _ => Reply::Answer(404, String::new()),
    });
    let output = run(&server, &["stacks", "-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!((output.code, report["dumps"].as_array().map(Vec::len)), (Some(1), Some(2)), "{output}");
    assert_eq!(
        (&report["primary"]["id"], &report["primary"]["confidence"]),
        (&"ST15".into(), &"likely".into())
    );
}
