//! Tests of the kubelet's own metrics in a capture: the recorder reads them, and notes if the kubelet does not answer.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plegctl_engine::capture::{Capture, CaptureMoment};
use serde_json::Value;

use super::service::document;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{FakeRuntime, Node};

/// The time limit for the test.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The number of the document kind for the kubelet's metrics, in captures of every release of plegctl.
const METRICS_KIND: u32 = 6;

/// Returns a kubelet that answers each GET with `page`, or never, and counts the requests.
fn kubelet(page: Option<&'static str>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        let mut unanswered = Vec::new();
        for caller in listener.incoming() {
            let mut caller = caller.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let Some(page) = page else {
                unanswered.push(caller);
                continue;
            };
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && caller.read(&mut byte).unwrap() > 0 {
                request.extend(byte);
            }
            assert!(request.starts_with(b"GET /metrics "), "{}", String::from_utf8_lossy(&request));
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", page.len());
            caller.write_all((head + page).as_bytes()).unwrap();
        }
    });
    (url, requests)
}

/// Records until the capture contains the kubelet's metrics and `enough` other entries.
fn recorded(how: &[&str], directory: &Path, enough: impl Fn(&Capture, CaptureMoment) -> bool) {
    let mut running = Invocation::new(&[["record", argument(directory)].as_slice(), how].concat()).spawn();
    assert!(running.line().is_some_and(|line| line.starts_with("recording")));
    let since = Instant::now();
    let is_there = || {
        let capture = Capture::open(directory).unwrap();
        let metrics = capture.documents.iter().find(|document| document.kind == METRICS_KIND);
        metrics.is_some_and(|metrics| enough(&capture, metrics.at))
    };
    while !is_there() {
        assert!(since.elapsed() < TIME_LIMIT, "the kubelet's metrics were not read");
        thread::yield_now();
    }
    running.signal("TERM");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

fn report(capture: &str) -> Value {
    let output = plegctl(&["capture", "report", capture, "-o", "json"]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

const PAGE: &str = "# TYPE kubelet_pleg_last_seen_seconds gauge\nkubelet_pleg_last_seen_seconds 1.7e+09\n\
    kubelet_http_requests_total{path=\"secret-of-somebody\"} 3\nkubelet_pleg_relist_duration_seconds_count 7\n\
    kubernetes_build_info{git_version=\"v1.36.2\"} 1\n";

#[test]
fn kubelet_metrics_are_recorded_and_judged_in_the_replay() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let (url, _) = kubelet(Some(PAGE));
    let how = ["-r", "sim:quiet", "--at", "0s", "--kubelet-url", &url, "--period", "100ms"];
    // The last diagnosis needs a relist from after the metrics were read.
    recorded(&how, &directory, |capture, read_at| {
        capture.relists.iter().any(|relist| relist.began > read_at)
    });
    let found = report(argument(&directory));
    let metrics = &found["kubelet"][0];
    assert_eq!(metrics["outcome"], "ok", "{found}");
    assert!(metrics["ageSeconds"].as_f64().unwrap() > 0.0, "{metrics}");
    // The rest of the page is not recorded.
    let segment = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    for file in segment {
        let bytes = std::fs::read(file).unwrap();
        assert!(!bytes.windows(18).any(|window| window == b"secret-of-somebody"));
    }
    // The kubelet of this page has not relisted for years, and a diagnosis of that moment reports it.
    let health = plegctl(&["health", "-r", &format!("capture:{}", argument(&directory)), "-o", "json"]);
    let health: Value = serde_json::from_str(&health.stdout).unwrap_or_else(|why| panic!("{why}: {health}"));
    assert_eq!(health["kubelet"]["version"], "v1.36.2", "{health}");
    assert_eq!(health["primary"]["id"], "D22", "{health}");
}

#[test]
fn silent_kubelet_metrics_are_recorded_and_not_requested_again() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let (url, requests) = kubelet(None);
    recorded(&["-r", "sim:hung-list", "--kubelet-url", &url, "--slow", "1s"], &directory, |_, _| true);
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    let found = report(argument(&directory));
    assert_eq!(found["kubelet"][0]["outcome"], "silent", "{found}");
    let table = plegctl(&["capture", "report", argument(&directory)]);
    assert!(table.stdout.contains("the kubelet's metrics from "), "{table}");
    assert!(table.stdout.contains("did not answer within 5s"), "{table}");
}

/// Writes a process into a process table, or its new state.
fn write_process(proc: &Path, pid: u32, (name, command): (&str, &str), state: char) {
    let (made, own) = (proc.join("made"), proc.join(pid.to_string()));
    fs::create_dir_all(&made).unwrap();
    let fields = ["0"; 40].join(" ");
    for (file, text) in [
        ("comm", format!("{name}\n")),
        ("cmdline", command.to_owned()),
        ("stat", format!("{pid} ({name}) {state} 1 {fields}")),
        ("status", format!("Uid:\t0\t0\t0\t0\nNSpid:\t{pid}\n")),
    ] {
        fs::write(made.join(file), text).unwrap();
    }
    if own.exists() {
        fs::rename(made.join("stat"), own.join("stat")).unwrap();
    } else {
        fs::rename(made, own).unwrap();
    }
}

/// A kubelet in a process table that serves its metrics on the port of `url`.
fn start_kubelet(proc: &Path, pid: u32, url: &str) {
    let port = url.rsplit(':').next().unwrap();
    let command = format!("/usr/bin/kubelet\0--read-only-port={port}\0");
    write_process(proc, pid, ("kubelet", &command), 'S');
}

#[test]
fn kubelet_that_starts_later_or_restarts_is_recorded() {
    let place = CaptureDir::make();
    let proc = place.path("node/proc");
    fs::create_dir_all(&proc).unwrap();
    let fake = FakeRuntime::start(Node::new());
    let (first, second) = (kubelet(Some(PAGE)), kubelet(Some(PAGE)));
    let directory = place.path("capture");
    let how = ["record", argument(&directory), "-r", &fake.endpoint(), "--period", "50ms"];
    let mut running = Invocation::new(&how).env("PLEGCTL_TEST_NODE", place.path("node")).spawn();
    assert!(running.line().is_some_and(|line| line.starts_with("recording")));
    let is_read = |(_, requests): &(String, Arc<AtomicUsize>)| {
        let since = Instant::now();
        while requests.load(Ordering::SeqCst) == 0 {
            assert!(since.elapsed() < TIME_LIMIT, "the kubelet's metrics were not read");
            thread::sleep(Duration::from_millis(20));
        }
    };
    start_kubelet(&proc, 77, &first.0);
    is_read(&first);
    fs::remove_dir_all(proc.join("77")).unwrap();
    start_kubelet(&proc, 78, &second.0);
    is_read(&second);
    running.signal("TERM");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn shim_that_stays_stopped_is_an_incident_and_degrades_its_replay() {
    let place = CaptureDir::make();
    let proc = place.path("node/proc");
    let sandbox = "5a".repeat(32);
    let command = format!("/usr/bin/containerd-shim-runc-v2\0-id\0{sandbox}\0");
    let shim = |state| write_process(&proc, 811, ("containerd-shim", &command), state);
    shim('S');
    // Without this file, it would not be a process table.
    fs::write(proc.join("stat"), "").unwrap();
    // The fake runtime listens in this process.
    write_process(&proc, std::process::id(), ("containerd", "containerd\0"), 'S');
    let fake = FakeRuntime::start(
        Node::new().pod("default/web-0", "uid-0").sandbox(&sandbox).container("c0", "app"),
    );
    let (directory, address) = (place.path("capture"), free_address());
    // With this limit, a call on a busy machine opens no incident, and with this period, none is open at the diagnosis.
    let how = [
        "record",
        argument(&directory),
        "-r",
        &fake.endpoint(),
        "--period",
        "1h",
        "--slow",
        "1h",
        "--for",
        "10m",
        "--metrics-listen",
        &address,
    ];
    let mut running = Invocation::new(&how).env("PLEGCTL_TEST_NODE", place.path("node")).spawn();
    assert!(running.line().is_some_and(|line| line.starts_with("recording")));
    // The diagnosis of the quiet node must not see the stopped shim first.
    while document(&address, "/verdict")["diagnosisAgeSeconds"].is_null() {
        thread::sleep(Duration::from_millis(50));
    }
    shim('T');
    assert_eq!(running.line().unwrap(), "incident 1: containerd-shim is stopped: process 811");
    let judged = running.line().unwrap();
    assert!(judged.starts_with("incident 1: DEGRADED: ") && judged.contains("(D10, likely)"), "{judged}");
    running.signal("TERM");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    let replay = format!("capture:{}@incident:1", argument(&directory));
    let health = plegctl(&["health", "-r", &replay, "-o", "json"]);
    let report: Value = serde_json::from_str(&health.stdout).unwrap_or_else(|why| panic!("{why}: {health}"));
    let primary = &report["primary"];
    assert_eq!((&report["verdict"], &primary["id"]), (&"degraded".into(), &"D10".into()), "{health}");
    assert_eq!(
        (&primary["confidence"], &primary["pod"]["name"]),
        (&"likely".into(), &"web-0".into()),
        "{health}"
    );
}

#[test]
fn manifests_are_judged_by_the_release_of_this_nodes_kubelet() {
    const OLDER: &str = "kubernetes_build_info{git_version=\"v1.33.4\"} 1\n";
    let place = CaptureDir::make();
    let proc = place.path("node/proc");
    fs::create_dir_all(&proc).unwrap();
    start_kubelet(&proc, 77, &kubelet(Some(OLDER)).0);
    let lint = ["static-pods", "lint", "docs/examples/manifests", "--no-cri"];
    let lint = |more: &[&str]| {
        let words = [&lint[..], more].concat();
        Invocation::new(&words).env("PLEGCTL_TEST_NODE", place.path("node")).run().stdout
    };
    assert!(lint(&[]).contains("(rules of kubelet 1.33)"), "{}", lint(&[]));
    assert!(lint(&["--kubelet-version", "1.36"]).contains("(rules of kubelet 1.36)"));
}

#[test]
fn unusable_kubelet_options_end_record_before_it_records() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let output = plegctl(&["record", "-r", "sim:quiet", argument(&directory), "--kubelet-url", "ftp://here"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("ftp://here"), "{output}");
}
