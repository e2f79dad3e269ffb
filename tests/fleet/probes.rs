//! The probes of the `DaemonSet`'s pod.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::support::plegctl::Invocation;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// An address without a listener: the test had the port a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The metrics of `watch --metrics-listen`, under the kubelet's names.
pub fn served_metrics() -> String {
    let address = free_address();
    let mut watch =
        Invocation::new(&["watch", "-r", "sim:quiet", "-o", "jsonl", "--metrics-listen", &address]).spawn();
    while !watch.line().expect("the watch goes on").contains("\"kind\":\"Health\"") {}
    let metrics = get(&address, "/metrics");
    watch.signal("TERM");
    watch.wait();
    metrics
}

#[test]
fn readiness_depends_on_the_socket_and_liveness_does_not() {
    let socket = format!("{}/probes-{}.sock", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut runtime = Invocation::new(&["sim", "serve", "quiet", "--listen", &socket]).spawn();
    runtime.line().expect("it says that it listens");

    let address = free_address();
    let endpoint = format!("unix://{socket}");
    let arguments =
        ["watch", "-r", &endpoint, "-o", "jsonl", "--period", "100ms", "--metrics-listen", &address];
    let mut watch = Invocation::new(&arguments).spawn();
    let mut relist = |outcome: &str| loop {
        let line = watch.line().expect("the watch goes on");
        if line.contains("\"kind\":\"Relist\"") && line.contains(&format!("\"outcome\":\"{outcome}\"")) {
            break;
        }
    };
    relist("ok");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200 "));

    runtime.signal("KILL");
    // The first failure is a connection that ends; later attempts find no listener.
    relist("error");
    relist("error");
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
    runtime.line().expect("it says that it listens");
    let named = Invocation::new(&["relist", "-r", &socket, "-o", "json"]).env("NODE_NAME", "worker-7").run();
    assert!(named.stdout.contains("\"node\": \"worker-7\""), "{named}");
    runtime.signal("KILL");
    let _ = std::fs::remove_file(&socket);
}
