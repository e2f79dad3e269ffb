//! Lists that arrive as streams: which commands make them, what a stream means that stops, ends too early, repeats an id or has a
//! huge message, and what a capture keeps of a stream.

use plegctl_engine::cri::Rpc;
use prost::Message;
use prost::bytes::Bytes;
use serde_json::{Value, json};

use crate::support::plegctl::{EMPTY_PROC, Invocation, Output, plegctl};
use crate::support::raw_server::{RawAnswer, RawServer};
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node, RuntimeKind, wire};

const STREAM: [&str; 2] = ["StreamPodSandboxes", "StreamContainers"];
const UNARY: [&str; 2] = ["ListPodSandbox", "ListContainers"];

/// Returns a node whose list of containers has two messages.
fn large_node() -> Node {
    let with_pod = |node: Node, at| {
        let name = format!("default/web-{at}");
        node.pod(&name, &format!("uid-{at}"))
            .sandbox(&format!("s{at:04}"))
            .container(&format!("c{at:04}"), "app")
    };
    (0..1100).fold(Node::new(), with_pod)
}

fn small_node() -> Node {
    Node::new().pod("default/web-0", "uid-0").sandbox("s0").container("c0", "app")
}

fn document(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the RPCs of the lists that the fake received.
fn lists(fake: &FakeRuntime) -> Vec<Rpc> {
    let of_lists = |rpc: &Rpc| UNARY.contains(&rpc.name()) || STREAM.contains(&rpc.name());
    fake.calls().iter().map(|call| call.rpc).filter(of_lists).collect()
}

fn health(fake: &FakeRuntime, more: &[&str]) -> Output {
    let endpoint = fake.endpoint();
    plegctl(
        &[["health", "-v", "-r", &endpoint, "-o", "json", "--proc", EMPTY_PROC].as_slice(), more].concat(),
    )
}

#[test]
fn health_makes_the_list_calls_that_the_user_wants_and_says_which_and_why() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, small_node());
    let streamed = health(&fake, &["--list-calls", "stream"]);
    let report = document(&streamed);
    assert_eq!(report["listCalls"], json!({ "rpcs": STREAM, "why": "--list-calls" }), "{streamed}");
    assert_eq!(report["verdict"], "healthy", "{streamed}");
    assert!(lists(&fake).iter().all(|rpc| STREAM.contains(&rpc.name())), "{:?}", lists(&fake));
    let probe = |name: &str| {
        let probes = report["probes"].as_array().unwrap();
        probes.iter().find(|probe| probe["name"] == name).unwrap_or_else(|| panic!("{streamed}")).clone()
    };
    assert_eq!(probe("StreamContainers")["stream"]["entries"], 1);
    let note = "the list calls are StreamPodSandboxes and StreamContainers: --list-calls";
    assert!(streamed.stderr.contains(note), "{streamed}");
    let unary = document(&health(&fake, &["--list-calls", "unary"]));
    assert_eq!(unary["listCalls"]["rpcs"], json!(UNARY));
}

#[test]
fn health_follows_the_gauge_of_the_kubelet() {
    for (kind, gauge, rpcs) in [
        (RuntimeKind::Containerd24, "1", STREAM),
        (RuntimeKind::Containerd24, "0", UNARY),
        (RuntimeKind::Containerd21, "1", UNARY),
    ] {
        let fake = FakeRuntime::start_as(kind, small_node());
        let folder = TempDir::new();
        let metrics = folder.path().join("metrics");
        let text = format!(
            "kubernetes_build_info{{git_version=\"v1.38.0\"}} 1\n\
             kubelet_cri_streaming_enabled{{service=\"runtime\"}} {gauge}\n"
        );
        std::fs::write(&metrics, text).unwrap();
        let output = health(&fake, &["--kubelet-metrics", metrics.to_str().unwrap()]);
        let report = document(&output);
        assert_eq!(report["listCalls"]["rpcs"], json!(rpcs), "{kind:?} {gauge}: {output}");
        assert_eq!(report["verdict"], "healthy", "{output}");
        assert_eq!(lists(&fake).contains(&Rpc::StreamContainers), rpcs == STREAM, "{:?}", lists(&fake));
    }
}

#[test]
fn after_a_stream_that_the_runtime_does_not_implement_the_unary_calls_follow_and_the_document_says_so() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd21, small_node());
    let output = health(&fake, &["--list-calls", "stream"]);
    let report = document(&output);
    let why = "the runtime does not implement the streaming ones";
    assert_eq!(report["listCalls"], json!({ "rpcs": UNARY, "why": why }), "{output}");
    assert_eq!(report["verdict"], "healthy", "{output}");
}

#[test]
fn relist_watch_and_diff_say_which_list_calls_they_make() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, small_node());
    let endpoint = fake.endpoint();
    let relist = document(&plegctl(&["relist", "-r", &endpoint, "--list-calls", "stream", "-o", "json"]));
    assert_eq!(relist["listCalls"], json!({ "rpcs": STREAM, "why": "--list-calls" }));
    let watch = ["watch", "-r", &endpoint, "--list-calls", "stream", "--count", "1", "-o", "jsonl"];
    let started: Value = serde_json::from_str(plegctl(&watch).stdout.lines().next().unwrap()).unwrap();
    assert_eq!(started["listCalls"]["rpcs"], json!(STREAM));
    let diff = document(&plegctl(&["diff", &endpoint, &endpoint, "-o", "json"]));
    let why = "CRIListStreaming is off unless it is set";
    assert_eq!(diff["after"]["listCalls"], json!({ "rpcs": UNARY, "why": why }));
}

#[test]
fn a_capture_keeps_the_messages_of_a_stream_and_its_list_is_in_every_form() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, large_node());
    let folder = TempDir::new();
    let capture = folder.path().join("capture");
    let record = ["record", capture.to_str().unwrap(), "-r", &fake.endpoint(), "--list-calls", "stream"];
    let recorded = plegctl(&[&record[..], &["--count", "2", "--period", "10ms", "--no-host"]].concat());
    assert_eq!(recorded.code, Some(0), "{recorded}");
    let endpoint = format!("capture:{}", capture.display());
    let relist = |endpoint: &str, more: &[&str]| {
        document(&plegctl(&[["relist", "-r", endpoint, "-o", "json"].as_slice(), more].concat()))
    };
    let live = relist(&fake.endpoint(), &["--list-calls", "stream"]);
    let replayed = relist(&endpoint, &[]);
    assert_eq!(replayed["listCalls"], json!({ "rpcs": STREAM, "why": "the recorder made these calls" }));
    assert_eq!(replayed["relist"]["calls"][1]["stream"], live["relist"]["calls"][1]["stream"]);
    assert_eq!(live["relist"]["calls"][1]["stream"]["entries"], 1100);
    assert_eq!(replayed["pods"], live["pods"]);
    let unary = relist(&endpoint, &["--list-calls", "unary"]);
    assert_eq!(unary["relist"]["calls"][1]["rpc"], "ListContainers");
    assert_eq!(unary["pods"], live["pods"]);
    let report = document(&plegctl(&["health", "-r", &endpoint, "-o", "json"]));
    assert_eq!(report["listCalls"]["rpcs"], json!(STREAM), "{report:#}");
    // The verdict depends on how fast this machine answered; what the lists are judged for does not.
    let ids: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["id"].as_str().unwrap())
        .collect();
    assert!(!["D02", "D03", "D29", "D43"].iter().any(|id| ids.contains(id)), "{report:#}");
    assert!(
        report["notChecked"].as_array().unwrap().iter().all(|skipped| skipped["what"] != STREAM[1]),
        "{report:#}"
    );
}

/// Returns an encoded message of a streamed list with containers of these ids.
fn message(ids: &[&str]) -> Bytes {
    let container = |id: &&str| wire::Container {
        id: (*id).to_owned(),
        pod_sandbox_id: "s".to_owned(),
        metadata: Some(wire::ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
        image: Some(wire::ImageSpec { image: "i".to_owned(), ..Default::default() }),
        state: 1,
        created_at: 1_790_000_000_000_000_000,
        labels: [("pod.uid", "u"), ("pod.name", "p"), ("pod.namespace", "n"), ("container.name", "app")]
            .map(|(key, value)| wire::pair(&format!("io.kubernetes.{key}"), value))
            .into(),
        ..Default::default()
    };
    wire::StreamContainersResponse { containers: ids.iter().map(container).collect() }.encode_to_vec().into()
}

fn streamed_relist(server: &RawServer, more: &[&str]) -> Output {
    plegctl(&[["relist", "-r", &server.endpoint(), "--list-calls", "stream"].as_slice(), more].concat())
}

#[test]
fn a_stream_that_stops_in_the_middle_is_silent_and_says_after_how_many_entries() {
    let messages = [message(&["c1", "c2"]), message(&["c3"])];
    let stalls = RawAnswer::generated(move |at| messages.get(at).cloned());
    let server = RawServer::answering(Rpc::StreamContainers, stalls);
    let output = streamed_relist(&server, &["--timeout", "1s"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("StreamContainers stopped after 3 entries"), "{output}");
    assert!(output.stderr.contains("StreamContainers did not answer within 1s"), "{output}");
    let arguments = ["health", "-r", &server.endpoint(), "--list-calls", "stream", "-o", "json"];
    let output = Invocation::new(&arguments).with_short_silences().run();
    let report = document(&output);
    let found = (&report["verdict"], &report["primary"]["id"]);
    assert_eq!(found, (&"unhealthy".into(), &"D02".into()), "{output}");
    assert!(
        output.stdout.contains("StreamContainers stalled after 3 entries; the kubelet uses none of them")
    );
}

/// A stream of gRPC ends with its status. Without it the kubelet discards what has arrived, as its gRPC library does.
#[test]
fn a_stream_that_ends_without_its_status_is_an_error_and_no_shorter_list() {
    let server = RawServer::answering(Rpc::StreamContainers, RawAnswer::of([message(&["c1"])]).cut_off());
    let output = streamed_relist(&server, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("StreamContainers"), "{output}");
    let output = plegctl(&["health", "-r", &server.endpoint(), "--list-calls", "stream", "-o", "json"]);
    let report = document(&output);
    let found = (&report["verdict"], &report["primary"]["id"]);
    assert_eq!(found, (&"unhealthy".into(), &"D29".into()), "{output}");
}

#[test]
fn an_id_that_a_stream_repeats_is_listed_as_often_as_in_one_message() {
    let repeated = [message(&["c1", "c2"]), message(&["c1"])];
    let server = RawServer::start(move |rpc| match rpc {
        Rpc::StreamContainers => Some(RawAnswer::of(repeated.clone())),
        Rpc::ListContainers => Some(RawAnswer::of([repeated.concat()])),
        _ => None,
    });
    let streamed = document(&streamed_relist(&server, &["-o", "json"]));
    let unary = document(&plegctl(&["relist", "-r", &server.endpoint(), "-o", "json"]));
    assert_eq!(streamed["pods"], unary["pods"]);
    assert_eq!(streamed["counts"]["containers"]["running"], 3);
}

/// Returns an encoded message with one container of this size.
fn large(mebibytes: usize) -> Bytes {
    let annotations = vec![wire::pair("a", &"x".repeat(mebibytes << 20))];
    let container = wire::Container { id: "c".to_owned(), annotations, ..Default::default() };
    wire::StreamContainersResponse { containers: vec![container] }.encode_to_vec().into()
}

#[test]
fn the_kubelet_refuses_one_huge_entry_of_a_stream_and_accepts_as_much_in_several_messages() {
    for (messages, outcome) in [(vec![large(17)], "error"), (vec![large(6); 3], "ok")] {
        let server = RawServer::answering(Rpc::StreamContainers, RawAnswer::of(messages));
        let watch =
            ["watch", "-r", &server.endpoint(), "--list-calls", "stream", "--count", "1", "-o", "jsonl"];
        let output = plegctl(&watch);
        let records = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let relist = records.into_iter().find(|record| record["kind"] == "Relist");
        assert_eq!(relist.unwrap_or_else(|| panic!("{output}"))["outcome"], outcome, "{output}");
    }
}
