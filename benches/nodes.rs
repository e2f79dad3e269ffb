//! Measures what one look at a large cluster costs: requests, bytes, duration and memory of `plegctl nodes`, against an API server
//! that answers each request after 20 ms.

pub mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use support::process::{PLEGCTL, peak_memory, wall};
use support::{figure, heading, mebibytes, once, ratio};

/// How long the server takes for an answer.
const LATENCY: Duration = Duration::from_millis(20);

/// The number of objects in a page of a list.
const PAGE: usize = 200;

/// The sizes of the documents of a usual node.
const OBJECT_BYTES: usize = 10_000;
const METRICS_BYTES: usize = 100_000;
const CONFIGZ_BYTES: usize = 5_000;

/// What the server has sent.
#[derive(Default)]
struct Sent {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

fn main() {
    for nodes in [2000, 10_000] {
        heading(&format!("nodes, one look at {nodes} nodes with recorders"), "nodes");
        let (config, sent) = serve(nodes);
        let run = |more: &'static [&'static str]| {
            let config = config.clone();
            move || {
                let known = ["nodes", "--kubeconfig", &config, "-o", "json", "--timeout", "60s"];
                wall(PLEGCTL, &[&known[..], more].concat())
            }
        };
        let count = |what: &str, more: &'static [&'static str]| {
            sent.requests.store(0, Ordering::SeqCst);
            sent.bytes.store(0, Ordering::SeqCst);
            run(more)();
            let (requests, bytes) = (sent.requests.load(Ordering::SeqCst), sent.bytes.load(Ordering::SeqCst));
            figure(what, &format!("{requests} requests, {} MB", bytes / 1_000_000));
        };
        count("verdicts", &["--limit", "1"]);
        count("verdicts without recorders", &["--limit", "1", "--no-recorders"]);
        count("incidents", &["--incidents"]);
        let (few, many) = once(run(&["--limit", "1"]), run(&["--limit", "1", "--concurrency", "64"]));
        ratio("64 nodes at a time", &many, "16 nodes at a time", &few);
        let (incidents, verdicts) = once(run(&["--incidents"]), run(&["--limit", "1"]));
        ratio("incidents, 16 nodes at a time", &incidents, "verdicts", &verdicts);
        let memory = peak_memory(PLEGCTL, &["nodes", "--kubeconfig", &config, "-o", "json", "--limit", "1"]);
        figure("peak memory", &mebibytes(memory));
        // The next server has another port.
        fs::remove_file(&config).expect("the kubeconfig can be removed");
    }
}

/// Starts the API server of a cluster. Returns the path of its kubeconfig, and what it has sent.
fn serve(nodes: usize) -> (String, Arc<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let sent = Arc::new(Sent::default());
    let counts = Arc::clone(&sent);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let counts = Arc::clone(&counts);
            let connection = connection.expect("a connection arrives");
            thread::spawn(move || converse(&connection, nodes, &counts));
        }
    });
    let config = format!("{}/nodes-bench-{}-{nodes}.yaml", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}], users: [{{name: c, user: {{}}}}], current-context: c}}\n"
    );
    fs::write(&config, text).expect("the kubeconfig can be written");
    (config, sent)
}

/// Answers the requests of one connection.
fn converse(connection: &TcpStream, nodes: usize, sent: &Sent) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let path = request.split(' ').nth(1).expect("a request has a path");
        let body = answer(path, nodes);
        thread::sleep(LATENCY);
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        answer.push_str(&body);
        sent.requests.fetch_add(1, Ordering::SeqCst);
        sent.bytes.fetch_add(answer.len(), Ordering::SeqCst);
        let mut writer = connection;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(path: &str, nodes: usize) -> String {
    if path.starts_with("/api/v1/nodes?") {
        return page(
            path,
            nodes,
            |number| {
                format!(
                    r#"{{"metadata":{{"name":"n{number}"}},"status":{{"nodeInfo":{{"kubeletVersion":"v1.34.2","containerRuntimeVersion":"containerd://2.1.4"}},"conditions":[{{"type":"Ready","status":"True"}}],"images":""#
                )
            },
            "\"}}",
        );
    }
    if path.starts_with("/api/v1/pods?") {
        return page(
            path,
            nodes,
            |number| {
                format!(
                    r#"{{"metadata":{{"namespace":"plegctl","name":"plegctl-n{number}"}},"spec":{{"nodeName":"n{number}","containers":[{{"ports":[{{"name":"metrics","containerPort":9469}}]}}]}},"status":{{"phase":"Running","message":""#
                )
            },
            "\"}}",
        );
    }
    if path.contains("/proxy/incidents?") {
        return r#"{"apiVersion":"plegctl/v1","kind":"IncidentList","takenAt":"2026-11-21T12:00:00Z","incidents":[]}"#.to_owned();
    }
    if path.contains("/proxy/verdict?") {
        return r#"{"apiVersion":"plegctl/v1","kind":"RecorderVerdict","takenAt":"2026-11-21T12:00:00Z","verdict":"healthy","since":"2026-11-21T08:00:00Z","summary":"no incident is open"}"#.to_owned();
    }
    if path.ends_with("/configz") {
        return padded(
            r#"{"kubeletconfig":{"runtimeRequestTimeout":"2m0s"}}"#.to_owned(),
            " ",
            CONFIGZ_BYTES,
        );
    }
    // The last relist was a second before noon, the time of the server.
    let metrics = "kubelet_pleg_last_seen_seconds 1795262399\n\
                   kubelet_pleg_relist_duration_seconds_bucket{le=\"0.01\"} 1000\n\
                   kubelet_pleg_relist_duration_seconds_bucket{le=\"+Inf\"} 1000\n";
    padded(metrics.to_owned(), "# HELP apiserver_audit_event_total A counter of events.\n", METRICS_BYTES)
}

/// Returns a page of a list: the objects from the one that `continue` names.
fn page(path: &str, nodes: usize, object: impl Fn(usize) -> String, end: &str) -> String {
    let from: usize = path.split_once("continue=").map_or(0, |(_, from)| from.parse().expect("a number"));
    let to = (from + PAGE).min(nodes);
    let next = if to < nodes { to.to_string() } else { String::new() };
    let mut page = format!("{{\"metadata\":{{\"continue\":\"{next}\"}},\"items\":[");
    for number in from..to {
        let comma = if number > from { "," } else { "" };
        let object = padded(object(number), "x", OBJECT_BYTES - end.len());
        let _ = write!(page, "{comma}{object}{end}");
    }
    page.push_str("]}");
    page
}

/// Repeats `filling` after a text, up to a size.
fn padded(mut text: String, filling: &str, bytes: usize) -> String {
    let times = bytes.saturating_sub(text.len()) / filling.len();
    text.push_str(&filling.repeat(times));
    text
}
