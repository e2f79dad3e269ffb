//! Tests of the recorder as a service: its signals and its output.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;

use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::plegctl::{Invocation, Running, plegctl};
use crate::support::{FakeRuntime, Node, Reply};

/// The number of the document kind for samples of pressure and processes, in captures of every release of plegctl.
const SAMPLE_KIND: u32 = 4;

/// Reads lines until one contains `words`, and returns it.
pub(super) fn until(running: &mut Running, words: &str) -> String {
    loop {
        let line = running.line().expect("the recorder ended too early");
        if line.contains(words) {
            return line;
        }
    }
}

#[test]
fn sigterm_ends_the_recorder_during_a_hang_and_the_summary_names_the_incident() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let how = ["record", "-r", "sim:hung-list", argument(&directory), "--slow", "200ms"];
    let mut running = Invocation::new(&how).with_short_silences().spawn();
    until(&mut running, "incident 1:");
    let judged = until(&mut running, "incident 1:");
    assert!(judged.contains("D0"), "{judged}");
    // The call would hang for two more minutes, longer than this test waits.
    running.signal("TERM");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    let list = plegctl(&["capture", "ls", argument(&directory), "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["incidents"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["damagedBytes"], 0);
}

#[test]
fn summary_at_the_end_equals_the_capture_on_disk() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    // With this limit, a call on a busy machine opens no incident.
    let stdout = record("sim:quiet", &directory, &["--count", "2", "--period", "1ms", "--slow", "1h"]).stdout;
    let list = plegctl(&["capture", "ls", argument(&directory)]).stdout;
    let (_, size) = list.lines().next().unwrap().split_once("2 relists, ").unwrap();
    assert!(stdout.ends_with(&format!("recorded 2 relists and 0 incidents: {size}\n")), "{stdout}{list}");
}

/// Without the incident, the next sample would come after half a minute.
#[test]
fn incident_causes_a_sample_of_pressure_and_processes() {
    if !Path::new("/proc/pressure/cpu").exists() {
        // A kernel without pressure figures gives no samples.
        return;
    }
    let fake = FakeRuntime::start(Node::default());
    fake.on(Rpc::ListContainers).replies([Reply::hang()]);
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how = ["record", "-r", &endpoint, argument(&directory), "--slow", "100ms", "--no-diagnose"];
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "incident 1:");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    let capture = Capture::open(&directory).unwrap();
    let samples = capture.documents.iter().filter(|document| document.kind == SAMPLE_KIND).count();
    assert!(samples >= 2, "one sample at the start, and one at the incident: {samples}");
}

#[test]
fn sighup_makes_the_recorder_reopen_its_directory() {
    let place = CaptureDir::make();
    let (directory, moved) = (place.path("capture"), place.path("moved"));
    let how = ["record", "-r", "sim:quiet", argument(&directory), "--period", "5ms"];
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "recording");
    // The recorder prints its first line before it creates the first segment.
    while !directory.join("0000000001.seg").exists() {
        std::thread::yield_now();
    }
    fs::rename(&directory, &moved).unwrap();
    running.signal("HUP");
    // The recorder prints nothing about this, so the test waits for a new segment.
    while !directory.join("0000000001.seg").exists() {
        std::thread::yield_now();
    }
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    for capture in [&directory, &moved] {
        assert_eq!(plegctl(&["capture", "check", argument(capture)]).code, Some(0));
    }
}

#[test]
fn recorder_metrics_have_the_kubelets_names_and_name_the_culprit() {
    let place = CaptureDir::make();
    let address = free_address();
    let directory = place.path("capture");
    let how = [
        "record",
        "-r",
        "sim:hung-container",
        argument(&directory),
        "--slow",
        "1s",
        "--metrics-listen",
        &address,
    ];
    let mut running = Invocation::new(&how).with_short_silences().spawn();
    until(&mut running, "incident 1:");
    until(&mut running, "D01");
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    for words in [
        "plegctl_pleg_relist_duration_seconds",
        "plegctl_record_incident_open 1",
        "plegctl_incident_culprit{rule=\"D01\",rpc=\"ContainerStatus\",namespace=\"shop\",pod=\"db-0\",container=\"postgres\"} 1",
    ] {
        assert!(page.contains(words), "{words}:\n{page}");
    }
    running.signal("TERM");
    running.wait();
}

/// Returns the answer of a recorder: its head and its body.
pub(super) fn get(address: &str, target: &str, header: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{header}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(super) fn document(address: &str, target: &str) -> serde_json::Value {
    let (head, body) = get(address, target, "Accept: application/json\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("Content-Type: application/json"), "{head}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn recorder_shows_the_culprit_as_the_screen_of_health_and_as_json() {
    let place = CaptureDir::make();
    let (directory, address) = (place.path("capture"), free_address());
    let how = ["record", "-r", "sim:hung-container", argument(&directory), "--slow", "1s"];
    let how = [&how[..], &["--metrics-listen", &address]].concat();
    let mut running = Invocation::new(&how).with_short_silences().spawn();
    until(&mut running, "incident 1:");
    until(&mut running, "D01");
    let (head, screen) = get(&address, "/verdict", "");
    assert!(head.contains("Content-Type: text/plain; charset=utf-8"), "{head}");
    assert!(screen.starts_with("DEGRADED  "), "{screen}");
    let first = screen.lines().next().unwrap();
    assert!(first.contains("shop/db-0/postgres"), "{screen}");
    assert!(screen.contains("source: the recorder; incident 1 since "), "{screen}");
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    for document in [document(&address, "/verdict"), document(&address, "/verdict?o=json")] {
        assert_eq!(
            (&document["apiVersion"], &document["kind"]),
            (&"plegctl/v1".into(), &"RecorderVerdict".into())
        );
        assert_eq!(document["verdict"], "degraded", "{document}");
        assert_eq!(document["listCalls"]["rpcs"][1], "ListContainers", "{document}");
        assert_eq!(document["primary"]["id"], "D01", "{document}");
        // The diagnosis may be hours old, so it has no command for the processes of that time.
        assert!(!document.to_string().contains("changes state"), "{document}");
        assert_eq!(document["culprits"][0]["container"]["name"], "postgres", "{document}");
        assert_eq!(document["incident"]["number"], 1, "{document}");
        assert_eq!(document["since"], document["incident"]["from"], "{document}");
        assert!(document["diagnosisAgeSeconds"].is_number(), "{document}");
    }
    let (_, text) = get(&address, "/verdict?o=text", "Accept: application/json\r\n");
    assert!(text.starts_with("DEGRADED  "), "{text}");
    let incidents = document(&address, "/incidents");
    assert_eq!(incidents["kind"], "IncidentList");
    let incident = &incidents["incidents"][0];
    assert_eq!((&incident["number"], &incident["open"]), (&1.into(), &true.into()), "{incidents}");
    assert_eq!(incident["primary"]["id"], "D01", "{incidents}");
    running.signal("TERM");
    running.wait();
    // The next recorder knows the incident from the capture.
    let address = free_address();
    let how =
        ["record", "-r", "sim:quiet", argument(&directory), "--slow", "1h", "--metrics-listen", &address];
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "recording");
    // The writer publishes the incidents after its first entry.
    let known = loop {
        let list = document(&address, "/incidents?since=24h");
        if !list["incidents"].as_array().unwrap().is_empty() {
            break list["incidents"][0].clone();
        }
    };
    assert_eq!((&known["number"], &known["open"]), (&1.into(), &false.into()), "{known}");
    assert_eq!(known["primary"]["pod"]["name"], "db-0", "{known}");
    running.signal("TERM");
    running.wait();
}

#[test]
fn list_over_the_kubelets_limit_is_an_incident_with_the_verdict_of_health() {
    let fake = FakeRuntime::start(Node::many(4, 5));
    fake.on(Rpc::ListContainers).oversize(17 << 20);
    let place = CaptureDir::make();
    let (directory, endpoint, address) = (place.path("capture"), fake.endpoint(), free_address());
    let how = ["record", "-r", &endpoint, argument(&directory), "--slow", "1h", "--metrics-listen", &address];
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "incident 1:");
    until(&mut running, "UNHEALTHY: ");
    let verdict = document(&address, "/verdict");
    assert_eq!(
        (&verdict["verdict"], &verdict["primary"]["id"]),
        (&"unhealthy".into(), &"D03".into()),
        "{verdict}"
    );
    // A debug build writes a list of this size slowly, and a signal ends the recorder before it has written everything.
    let list = loop {
        let list = plegctl(&["capture", "ls", argument(&directory), "-o", "json"]);
        let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
        if list["incidents"][0]["verdict"] == "unhealthy" {
            break list;
        }
    };
    running.signal("TERM");
    running.wait();
    assert_eq!(list["incidents"][0]["primary"]["id"], "D03", "{list}");
}

#[test]
fn recorder_answers_without_a_call_to_the_runtime_also_while_a_list_hangs() {
    let fake = FakeRuntime::start(Node::default());
    let place = CaptureDir::make();
    let (directory, endpoint, address) = (place.path("capture"), fake.endpoint(), free_address());
    let how = ["record", "-r", &endpoint, argument(&directory), "--no-diagnose", "--no-host", "--slow", "1s"];
    let how = [&how[..], &["--metrics-listen", &address, "--period", "50ms"]].concat();
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "recording");
    fake.wait_for(Rpc::ListContainers, 2);
    while document(&address, "/verdict")["verdict"] != "healthy" {
        std::thread::yield_now();
    }
    let (_, screen) = get(&address, "/verdict", "");
    assert!(screen.starts_with("HEALTHY  no incident is open; the last relist took "), "{screen}");
    assert!(screen.contains("containerd 2.1.9+unknown,"), "{screen}");
    fake.on(Rpc::ListContainers).hang();
    until(&mut running, "incident 1:");
    let calls = fake.calls_of(Rpc::ListContainers).len();
    for _ in 0..20 {
        let verdict = document(&address, "/verdict");
        // Without a diagnosis, a call that has been silent for a moment proves nothing.
        assert_eq!(verdict["verdict"], "unknown", "{verdict}");
        assert_eq!(verdict["incident"]["number"], 1, "{verdict}");
    }
    assert_eq!(fake.calls_of(Rpc::ListContainers).len(), calls);
    assert_eq!(fake.calls_of(Rpc::ContainerStats).len(), 0);
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn wrong_request_to_a_recorder_is_refused_with_the_reason() {
    let place = CaptureDir::make();
    let (directory, address) = (place.path("capture"), free_address());
    let how = ["record", "-r", "sim:quiet", argument(&directory), "--metrics-listen", &address];
    let mut running = Invocation::new(&how).spawn();
    until(&mut running, "recording");
    for (target, status, why) in [
        ("/verdict?o=yaml", "400 ", "o=json"),
        ("/verdict?since=1h", "400 ", "o=json"),
        ("/incidents?since=yesterday", "400 ", "24h"),
        ("/incidents?until=1h", "400 ", "since"),
        ("/capture?incident=1", "404 ", "--serve-token-file"),
        ("/verdict?facts=true", "404 ", "--serve-token-file"),
        ("/bundle", "404 ", "/verdict"),
        ("/captures", "404 ", "/verdict"),
    ] {
        let (head, body) = get(&address, target, "");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {head}");
        assert!(body.contains(why), "{target}: {body}");
    }
    running.signal("TERM");
    running.wait();
}

#[test]
fn systemd_accepts_the_unit_file() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/plegctl-record.service");
    let text = fs::read_to_string(unit).unwrap();
    for wanted in
        ["ProtectSystem=strict", "NoNewPrivileges=yes", "MemoryMax=", "CPUQuota=", "RestrictAddressFamilies="]
    {
        assert!(text.contains(wanted), "{wanted}");
    }
    // The program that the unit names is not installed here, so the copy names the tested one.
    let place = CaptureDir::make();
    let copy = place.path("plegctl-record.service");
    fs::write(&copy, text.replace("/usr/bin/plegctl", env!("CARGO_BIN_EXE_plegctl"))).unwrap();
    match std::process::Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(&copy).output() {
        Err(_) => skip("there is no systemd-analyze here"),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let unit_errors: Vec<_> = errors.lines().filter(|line| line.contains("plegctl-record")).collect();
            assert!(unit_errors.is_empty(), "{unit_errors:?}");
        }
    }
}

#[test]
fn recorder_starts_before_the_runtime_and_records_its_absence() {
    let mut fake = FakeRuntime::start(Node::default());
    fake.stop();
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how =
        ["record", "-r", &endpoint, argument(&directory), "--period", "20ms", "--no-diagnose", "--no-host"];
    let mut running = Invocation::new(&how).spawn();
    let waits = until(&mut running, "waiting for the runtime");
    assert!(waits.contains("connection refused"), "{waits}");
    until(&mut running, "incident 1:");
    fake.restart();
    let line = until(&mut running, "the runtime is");
    assert!(line.contains("containerd"), "{line}");
    let now = fake.calls_of(Rpc::ListContainers).len();
    fake.wait_for(Rpc::ListContainers, now + 2);
    running.signal("TERM");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!output.stdout.contains("waiting for the runtime"), "reported only once: {output}");
    let capture = Capture::open(&directory).unwrap();
    assert_eq!((capture.sessions.len(), capture.sessions[0].session.runtime.as_str()), (1, "containerd"));
    let absent = capture.relists.iter().filter(|relist| relist.done.error.contains("refused")).count();
    assert!(absent > 0 && absent < capture.relists.len(), "{absent} of {}", capture.relists.len());
}

#[test]
fn recorder_records_while_version_is_silent() {
    let fake = FakeRuntime::start(Node::default());
    fake.on(Rpc::Version).hang();
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how = [
        "record",
        "-r",
        &endpoint,
        argument(&directory),
        "--period",
        "20ms",
        "--count",
        "3",
        "--timeout",
        "200ms",
    ];
    let output = Invocation::new(&[how.as_slice(), &["--no-diagnose", "--no-host"]].concat()).run();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output
            .stdout
            .contains("waiting for the runtime, and recording that it is missing: Version did not answer"),
        "{output}"
    );
    let capture = Capture::open(&directory).unwrap();
    assert_eq!(capture.relists.len(), 3);
    assert!(capture.calls.iter().any(|call| call.rpc == Rpc::Version));
}

#[test]
fn recorder_without_an_endpoint_waits_for_a_runtime() {
    let fake = FakeRuntime::start(Node::default());
    let place = CaptureDir::make();
    let (directory, root) = (place.path("capture"), place.path("root"));
    fs::create_dir_all(root.join("run/crio")).unwrap();
    let how = [
        "record",
        argument(&directory),
        "--host-root",
        argument(&root),
        "--period",
        "20ms",
        "--no-diagnose",
        "--no-host",
    ];
    let mut running = Invocation::new(&how).spawn();
    let waits = until(&mut running, "waiting for the runtime");
    assert!(waits.contains("no container runtime was found"), "{waits}");
    std::os::unix::fs::symlink(fake.socket(), root.join("run/crio/crio.sock")).unwrap();
    assert_eq!(until(&mut running, "found the runtime"), "found the runtime at unix:///run/crio/crio.sock");
    until(&mut running, "the runtime is");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    let session = &Capture::open(&directory).unwrap().sessions[0].session;
    assert_eq!(
        (session.endpoint.as_str(), session.runtime.as_str()),
        ("unix:///run/crio/crio.sock", "containerd")
    );
}

#[test]
fn recorder_refuses_an_unusable_endpoint_at_once() {
    let place = CaptureDir::make();
    let file = place.path("file");
    fs::write(&file, "").unwrap();
    let output = plegctl(&["record", "-r", argument(&file), argument(&place.path("capture"))]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("not a socket"), "{output}");
}

#[test]
fn capture_directory_that_is_a_link_or_writable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = CaptureDir::make();
    let (link, open) = (place.path("link"), place.path("open"));
    fs::create_dir(place.path("precious")).unwrap();
    std::os::unix::fs::symlink(place.path("precious"), &link).unwrap();
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for (directory, why) in
        [(&link, "it is a symbolic link"), (&open, "it is a directory that others may write to")]
    {
        let output = plegctl(&["record", "-r", "sim:quiet", argument(directory), "--count", "1"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(&format!("for a capture: {why}")), "{output}");
        assert!(output.stderr.contains("hint: name a directory that only you may write to"), "{output}");
    }
    assert_eq!(fs::read_dir(place.path("precious")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
}
