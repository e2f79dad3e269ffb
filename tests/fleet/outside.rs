//! Tests of `plegctl health --node NAME` on a node without a recorder, against a scripted API server that gives real goroutine
//! dumps of kubelets.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::nodes::{authority, kubeconfig};
use super::remote::{node, pods};
use crate::support::plegctl::{Invocation, Output};

/// Noon of the day of every scripted answer, in seconds since the epoch.
const NOON: u32 = 1_795_262_400;

const DUMP: &str = "/api/v1/nodes/n1/proxy/debug/pprof/goroutine?debug=2";

/// Reads a recorded dump of a kubelet.
fn dump(name: &str) -> String {
    let path = file(&format!("tests/recordings/stacks/k2-{name}.kubelet.debug2.gz"));
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Returns the metrics of a kubelet whose last relist began `age` seconds before noon.
fn metrics(age: u32) -> Reply {
    Reply::ok(format!("kubelet_pleg_last_seen_seconds {}\n", NOON - age))
}

/// Starts a cluster with one node without a recorder. Its kubelet gives the dumps one after the other.
fn cluster(dumps: Vec<Reply>, others: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
    let taken = AtomicUsize::new(0);
    Server::start("server", Clients::Any, move |request| match request.path.as_str() {
        DUMP => dumps[taken.fetch_add(1, Ordering::SeqCst)].clone(),
        path if path.starts_with("/api/v1/pods?labelSelector") => pods(&[]),
        path if path.ends_with("/configz") => {
            Reply::ok(r#"{"kubeletconfig":{"runtimeRequestTimeout":"2m0s"}}"#)
        }
        _ => others(request),
    })
}

fn health(server: &Server, arguments: &[&str]) -> Output {
    let config = kubeconfig(&server.url(), &authority(), "token: t0ken");
    let known = ["health", "--kubeconfig", config.0.to_str().unwrap(), "--node", "n1"];
    Invocation::new(&[&known, arguments].concat()).with_short_silences().run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

fn requests(server: &Server, path: &str) -> usize {
    server.requests().iter().filter(|request| request.path == path).count()
}

#[test]
fn kubelets_goroutines_name_the_call_for_which_the_relist_waits() {
    let recorded = ["lock.t35", "lock.t100"].map(|name| Reply::ok(dump(name)));
    let server = cluster(recorded.to_vec(), |request| match request.path.as_str() {
        "/api/v1/nodes/n1" => node("True", "ok"),
        path if path.ends_with("/metrics") => metrics(70),
        _ => Reply::Answer(404, String::new()),
    });
    let output = health(&server, &["-o", "json"]);
    let report = report(&output);
    assert_eq!((output.code, &report["verdict"]), (Some(1), &"unhealthy".into()), "{output}");
    assert_eq!(report["summary"], "ListContainers does not answer: the kubelet's relist waits for it");
    let primary = &report["primary"];
    assert_eq!((&primary["id"], &primary["rpc"]), (&"D02".into(), &"ListContainers".into()), "{output}");
    assert_eq!(primary["confidence"], "certain", "{output}");
    assert_eq!(requests(&server, DUMP), 2);
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}
