//! Tests of what `deploy/base/daemonset.yaml` uses: the paths of its liveness probe (`/healthz`) and its readiness
//! probe (`/readyz`), and the variable `NODE_NAME`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::address::free_address;
use crate::support::plegctl::Invocation;

pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the metrics that `watch --metrics-listen` serves. They have the same names as the kubelet's own metrics. The
/// tests of the dashboard need them.
pub fn served_metrics() -> String {
    let address = free_address();
    let mut watch =
        Invocation::new(&["watch", "-r", "sim:quiet", "-o", "jsonl", "--metrics-listen", &address]).spawn();
    while !watch.line().expect("the watch still runs").contains("\"kind\":\"Health\"") {}
    let metrics = get(&address, "/metrics");
    watch.signal("TERM");
    watch.wait();
    metrics
}

/// Returns the metrics that `record --metrics-listen` serves while the diagnosis names the culprit of an incident.
pub fn recorded_metrics() -> String {
    recorded("/metrics")
}

/// Returns what `record --metrics-listen` answers under a path while the diagnosis names the culprit of an incident.
pub fn recorded(path: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let captures = format!("{}/recorded-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let address = free_address();
    let arguments =
        ["record", "-r", "sim:hung-container", &captures, "--slow", "1s", "--metrics-listen", &address];
    let mut record = Invocation::new(&arguments).with_short_silences().spawn();
    while !record.line().expect("the recorder still runs").contains("D01") {}
    let answer = get(&address, path);
    record.signal("TERM");
    record.wait();
    std::fs::remove_dir_all(&captures).unwrap();
    answer
}

#[test]
fn readiness_depends_on_the_socket_and_liveness_does_not() {
    let socket = format!("{}/probes-{}.sock", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut runtime = Invocation::new(&["sim", "serve", "quiet", "--listen", &socket]).spawn();
    runtime.line().expect("the server prints its socket");

    let address = free_address();
    let endpoint = format!("unix://{socket}");
    let arguments =
        ["watch", "-r", &endpoint, "-o", "jsonl", "--period", "100ms", "--metrics-listen", &address];
    let mut watch = Invocation::new(&arguments).spawn();
    let mut wait_for_relist = |outcome: &str| loop {
        let line = watch.line().expect("the watch still runs");
        if line.contains("\"kind\":\"Relist\"") && line.contains(&format!("\"outcome\":\"{outcome}\"")) {
            break;
        }
    };
    wait_for_relist("ok");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200 "));

    runtime.signal("KILL");
    // The first failure is a connection that ends; later attempts find no listener.
    wait_for_relist("error");
    wait_for_relist("error");
    let answer = get(&address, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("cannot reach the runtime at"), "{answer}");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
    watch.signal("TERM");
    assert_eq!(watch.wait().code, Some(0));
    let _ = std::fs::remove_file(&socket);
}

#[test]
fn node_name_comes_from_the_downward_api() {
    let socket = format!("{}/node-{}.sock", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut runtime = Invocation::new(&["sim", "serve", "quiet", "--listen", &socket]).spawn();
    runtime.line().expect("the server prints its socket");
    let output = Invocation::new(&["relist", "-r", &socket, "-o", "json"]).env("NODE_NAME", "worker-7").run();
    assert!(output.stdout.contains("\"node\": \"worker-7\""), "{output}");
    runtime.signal("KILL");
    let _ = std::fs::remove_file(&socket);
}
