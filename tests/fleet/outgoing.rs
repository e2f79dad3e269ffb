//! What `record` sends with another method than GET, and only with the flags `--events` and `--on-incident-put`.

use std::thread;
use std::time::Duration;

use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;
use serde_json::Value;

use super::api::{Clients, Reply, Request, Server};
use super::nodes::{authority, kubeconfig};
use super::probes::get;
use crate::capture::exports::large_node;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::memory_use::{EXPORT_MEMORY, MemoryUse};
use crate::support::plegctl::{Invocation, Running};
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node, RuntimeKind};

/// Waits until the server has received a request that `is` accepts; fails after five minutes.
fn received(server: &Server, is: impl Fn(&Request) -> bool) -> Request {
    for _ in 0..3000 {
        if let Some(request) = server.requests().into_iter().find(|request| is(request)) {
            return request;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("the request does not arrive: {:?}", server.requests());
}

fn until(running: &mut Running, part: &str) {
    while !running.line().expect("the recorder still runs").contains(part) {}
}

#[test]
fn incident_becomes_two_events_on_the_node() {
    let server = Server::start("server", Clients::Any, |request| {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/api/v1/namespaces/default/events")
        );
        Reply::Answer(201, "{}".to_owned())
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let place = TempDir::new();
    let socket = place.path().join("cri.sock").display().to_string();
    let mut runtime = Invocation::new(&["sim", "serve", "quiet", "--listen", &socket]).spawn();
    runtime.line().expect("the server prints its socket");
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    let how =
        ["record", "-r", &socket, argument(&directory), "--slow", "1s", "--period", "100ms", "--events"];
    let recorder = Invocation::new(&how).env("NODE_NAME", "n1").env("KUBECONFIG", config.0.to_str().unwrap());
    let mut recorder = recorder.with_short_silences().spawn();
    until(&mut recorder, "recording");
    // No answer arrives until the incident has an Event.
    runtime.signal("STOP");
    let event = |reason: &str| {
        let request = received(&server, |request| String::from_utf8_lossy(&request.body).contains(reason));
        assert_eq!(request.authorization.as_deref(), Some("Bearer t0ken"));
        serde_json::from_slice::<Value>(&request.body).unwrap()
    };
    let begun = event("PLEGIncidentBegun");
    assert_eq!(
        (&begun["involvedObject"]["kind"], &begun["involvedObject"]["name"]),
        (&"Node".into(), &"n1".into())
    );
    assert_eq!((&begun["type"], &begun["metadata"]["namespace"]), (&"Warning".into(), &"default".into()));
    runtime.signal("CONT");
    let ended = event("PLEGIncidentEnded");
    assert!(ended["message"].as_str().unwrap().starts_with("incident 1 is over after "), "{ended}");
    recorder.signal("TERM");
    recorder.wait();
    runtime.signal("KILL");
    runtime.wait();
}

#[test]
fn wrong_url_is_refused_without_quoting_its_signature() {
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    for url in ["https://user@store.example/a?sig=SECRET", "s3://bucket/a?sig=SECRET", "@"] {
        let how = ["record", "-r", "sim:quiet", argument(&directory), "--on-incident-put", url];
        let output = Invocation::new(&how).run();
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(
            output.stderr.contains("cannot use the URL of --on-incident-put: it is not an http"),
            "{output}"
        );
        assert!(!output.stderr.contains("SECRET"), "{output}");
    }
    assert!(!directory.exists());
}

#[test]
fn without_the_flags_a_recorder_sends_nothing_to_the_api_server() {
    let server = Server::start("server", Clients::Any, |_| Reply::Answer(500, String::new()));
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    let how = ["record", "-r", "sim:hung-container", argument(&directory), "--slow", "1s"];
    let recorder = Invocation::new(&how).env("KUBECONFIG", config.0.to_str().unwrap());
    let mut recorder = recorder.with_short_silences().spawn();
    until(&mut recorder, "D01");
    recorder.signal("TERM");
    recorder.wait();
    assert_eq!((server.requests(), server.connections()), (vec![], 0));
}

#[test]
fn capture_of_an_incident_is_sent_again_if_the_store_fails_and_the_signature_is_not_printed() {
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let server =
        Server::start_plain(move |_| match attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::Answer(503, "later".to_owned()),
            _ => Reply::Answer(200, String::new()),
        });
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    let url = format!("{}/bucket/{{node}}/{{incident}}-{{from}}.plegcap?sig=SECRET", server.plain_url());
    let address = free_address();
    let how = [
        "record",
        "-r",
        "sim:hung-container",
        argument(&directory),
        "--slow",
        "1s",
        "--on-incident-put",
        &url,
    ];
    let recorder = Invocation::new(&[&how[..], &["--metrics-listen", &address]].concat());
    let mut recorder = recorder.with_short_silences().spawn();
    until(&mut recorder, "D01");
    let sent = received(&server, |request| request.method == "PUT");
    let (name, query) = sent.path.split_once('?').unwrap();
    let from = name.strip_prefix("/bucket/sim-node/1-").and_then(|name| name.strip_suffix("Z.plegcap"));
    assert!(query == "sig=SECRET" && from.is_some_and(|from| from.len() == 15), "{}", sent.path);
    assert!(sent.authorization.is_none() && sent.body.starts_with(b"plegcap"), "{:?}", sent.path);
    let metric = "plegctl_record_uploads_total{outcome=\"done\"} 1\n";
    while !get(&address, "/metrics").contains(metric) {
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.requests().len(), 2);
    recorder.signal("TERM");
    let output = recorder.wait();
    assert!(!output.stdout.contains("SECRET") && !output.stderr.contains("SECRET"), "{output}");
    let file = captures.path("sent.plegcap");
    std::fs::write(&file, sent.body).unwrap();
    let listed = Invocation::new(&["capture", "ls", argument(&file), "-o", "json"]).run();
    assert!(listed.stdout.contains("\"number\": 1"), "{listed}");
}

#[test]
fn upload_of_a_large_capture_needs_little_memory() {
    let server = Server::start_plain(|_| Reply::Answer(200, String::new()));
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (0..24).map(large_node));
    let captures = CaptureDir::make();
    let directory = captures.path("capture");
    let quick = ["--count", "24", "--period", "1ms", "--no-host", "--no-diagnose", "--slow", "1h"];
    record(&fake.endpoint(), &directory, &quick);
    fake.set_node(Node::new());
    let (url, endpoint) = (format!("{}/one.plegcap", server.plain_url()), fake.endpoint());
    let how =
        ["record", "-r", &endpoint, argument(&directory), "--no-host", "--slow", "1s", "--period", "50ms"];
    let how = [&how[..], &["--on-incident-put", &url]].concat();
    let mut recorder = Invocation::new(&how).with_short_silences().spawn();
    until(&mut recorder, "recording");
    fake.wait_for(Rpc::ListContainers, 26);
    fake.on(Rpc::ListContainers).hang();
    until(&mut recorder, "incident 1");
    let Some(memory) = MemoryUse::start(recorder.pid()) else {
        return skip("the highest memory use of a process cannot be reset here");
    };
    let sent = received(&server, |request| request.method == "PUT");
    let more = memory.growth();
    println!("{} KiB were sent with {} KiB more", sent.body.len() >> 10, more >> 10);
    assert!(sent.body.len() > 8 << 20 && more <= EXPORT_MEMORY, "{} KiB more", more >> 10);
    recorder.signal("TERM");
    recorder.wait();
    let file = captures.path("sent.plegcap");
    std::fs::write(&file, sent.body).unwrap();
    let checked = Invocation::new(&["capture", "check", argument(&file)]).run();
    assert_eq!(checked.code, Some(0), "{checked}");
    assert!(Capture::open(&file).unwrap().relists.len() >= 24);
}
