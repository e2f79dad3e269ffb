//! Tests of the fake runtime, on which the other tests depend.

mod client;
mod events;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plegctl_engine::cri::{self, Rpc};
use prost::bytes::Bytes;
use serde_json::Value;
use tonic::{Code, Request, Status};

use self::client::Client;
use crate::support::fake::Step;
use crate::support::socket::NotARuntime;
use crate::support::wire::{self, pair};
use crate::support::{
    CallState, ConnectionFault, FakeRuntime, Gate, Node, Reply, RuntimeKind, STREAM_BATCH, recording,
};

/// Returns a node with two pods.
fn two_pods() -> Node {
    Node::new()
        .pod("default/web-0", "uid-web")
        .sandbox("s-web")
        .container("c-web", "web")
        .container("c-init", "init")
        .exited(3)
        .pod("default/db-0", "uid-db")
        .sandbox("s-db")
        .not_ready()
        .container("c-db", "db")
        .created()
}

#[tokio::test]
async fn answers_contain_the_pods_that_the_builder_describes() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    assert_eq!(client.version().await.unwrap().runtime_version, "2.1.9+unknown");
    assert_eq!(client.sandboxes().await.unwrap(), ["s-web", "s-db"]);
    assert_eq!(client.containers(None).await.unwrap(), ["c-web", "c-init", "c-db"]);
    let init = client.container("c-init").await.unwrap().unwrap();
    assert_eq!((init.state(), init.exit_code), (wire::ContainerState::ContainerExited, 3));
    let db = client.sandbox("s-db").await.unwrap().status.unwrap();
    assert_eq!(db.state(), wire::PodSandboxState::SandboxNotready);
    assert_eq!(client.container("gone").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn builder_methods_apply_to_the_last_sandbox_or_container() {
    let node = Node::new()
        .pod("default/web-0", "uid-web")
        .sandbox("s-old")
        .without_labels()
        .sandbox("s-new")
        .host_network()
        .annotation("where", "sandbox")
        .container("c-web", "web")
        .unknown()
        .attempt(7)
        .created_at(5)
        .annotation("where", "container")
        .container("c-bare", "bare")
        .without_metadata()
        .without_labels();
    let fake = FakeRuntime::start(node);
    let client = Client::connect(&fake).await;
    let old = client.sandbox("s-old").await.unwrap().status.unwrap();
    assert_eq!((old.metadata.unwrap().attempt, old.labels), (0, Vec::new()));
    let new = client.sandbox("s-new").await.unwrap().status.unwrap();
    assert_eq!((new.metadata.unwrap().attempt, new.network.unwrap().ip), (1, String::new()));
    assert_eq!(new.annotations, [pair("where", "sandbox")]);
    assert_eq!(new.labels.len(), 3);
    let web = client.container("c-web").await.unwrap().unwrap();
    assert_eq!(web.state(), wire::ContainerState::ContainerUnknown);
    assert_eq!((web.metadata.unwrap().attempt, web.created_at), (7, 5));
    assert_eq!(web.annotations, [pair("where", "container")]);
    let bare = client.container("c-bare").await.unwrap().unwrap();
    assert_eq!((bare.metadata, bare.labels), (None, Vec::new()));
    let request = wire::ContainerStatsRequest { container_id: "c-web".to_owned() };
    assert_eq!(client.messages(Rpc::ContainerStats, &request).await.unwrap(), [Bytes::new()]);
}

#[tokio::test]
async fn filter_is_honoured_and_recorded() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    let of_pod = wire::ContainerFilter {
        label_selector: vec![pair("io.kubernetes.pod.uid", "uid-db")],
        ..Default::default()
    };
    assert_eq!(client.containers(Some(of_pod)).await.unwrap(), ["c-db"]);
    let running = wire::ContainerStateValue { state: wire::ContainerState::ContainerRunning.into() };
    let running = wire::ContainerFilter { state: Some(running), ..Default::default() };
    assert_eq!(client.containers(Some(running)).await.unwrap(), ["c-web"]);
    // For a list call, the log has the filter instead of an id.
    let filters: Vec<String> = fake.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(filters, ["io.kubernetes.pod.uid=uid-db", "state=CONTAINER_RUNNING"]);
}

#[tokio::test]
async fn one_id_hangs_and_the_others_answer() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::ContainerStatus).id("c-web").hang();
    let client = Client::connect(&fake).await;
    let mut hung = Box::pin(client.container("c-web"));
    tokio::select! {
        biased;
        answer = &mut hung => panic!("a hung call answered {answer:?}"),
        other = client.container("c-db") => assert!(other.unwrap().is_some()),
    }
    fake.seen(|calls| calls.len() == 2 && calls[1].state == CallState::Answered).await;
    assert_eq!(fake.in_flight(), 1);
    drop(hung);
    drop(client);
    let calls = fake.seen(|calls| calls.iter().any(|call| call.state == CallState::Cancelled)).await;
    let given_up: Vec<&str> =
        calls.iter().filter(|call| call.state == CallState::Cancelled).map(|call| call.id.as_str()).collect();
    assert_eq!(given_up, ["c-web"]);
}

#[tokio::test]
async fn held_call_answers_when_the_gate_opens() {
    let fake = FakeRuntime::start(two_pods());
    let gate = Gate::new();
    fake.on(Rpc::Version).hold(&gate);
    let client = Client::connect(&fake).await;
    let held = async {
        client.version().await.unwrap();
        assert_eq!(fake.calls_of(Rpc::ListPodSandbox).len(), 1, "the list was answered first");
    };
    let other = async {
        client.sandboxes().await.unwrap();
        gate.open();
    };
    tokio::join!(held, other);
}

#[tokio::test]
async fn replies_are_used_in_order_and_the_last_one_repeats() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    fake.on(Rpc::Version).replies([Reply::normal(), Reply::fail(cri::Code::Internal, "broken")]);
    assert!(client.version().await.is_ok());
    for _ in 0..2 {
        let status = client.version().await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Internal, "broken"));
    }
    fake.on(Rpc::Version).times(1, &Reply::fail(cri::Code::Unavailable, "starting"));
    assert_eq!(client.version().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(client.version().await.unwrap_err().code(), Code::Internal);
    fake.remove_rules();
    assert!(client.version().await.is_ok());
}

#[tokio::test]
async fn rules_can_remove_the_status_or_the_answer_or_make_the_answer_invalid() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    fake.on(Rpc::ContainerStatus).id("c-web").empty();
    assert_eq!(client.container("c-web").await.unwrap(), None);
    fake.on(Rpc::Version).reply(Reply::nothing());
    let nothing = client.messages(Rpc::Version, &wire::VersionRequest::default()).await.unwrap();
    assert_eq!(nothing, Vec::<Bytes>::new());
    fake.on(Rpc::Version).reply(Reply::raw([&b"\xff"[..]]));
    let garbage = client.messages(Rpc::Version, &wire::VersionRequest::default()).await.unwrap();
    assert_eq!(garbage, [&b"\xff"[..]]);
}

#[tokio::test]
async fn answer_above_the_size_limit_is_sent_completely() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    fake.on(Rpc::ListContainers).oversize(17 << 20);
    let messages =
        client.messages(Rpc::ListContainers, &wire::ListContainersRequest::default()).await.unwrap();
    assert!(messages[0].len() >= 17 << 20, "{} bytes", messages[0].len());
    assert_eq!(client.containers(None).await.unwrap(), ["c-web", "c-init", "c-db"]);
}

#[tokio::test]
async fn each_relist_sees_the_next_node_state_and_later_relists_see_the_last() {
    let empty = Step::from(Node::new()).on(Rpc::ListContainers, None, Reply::fail(cri::Code::Unknown, "x"));
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, [empty, two_pods().into()]);
    let client = Client::connect(&fake).await;
    assert_eq!(client.sandboxes().await.unwrap(), [""; 0]);
    let one_container = wire::ContainerFilter { id: "c-web".to_owned(), ..Default::default() };
    assert_eq!(client.containers(Some(one_container)).await.unwrap_err().code(), Code::Unknown);
    for _ in 0..2 {
        assert_eq!(client.sandboxes().await.unwrap(), ["s-web", "s-db"]);
        assert_eq!(client.containers(None).await.unwrap().len(), 3);
    }
    fake.set_node(Node::new());
    assert_eq!(client.sandboxes().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn closed_connection_fails_the_call_and_no_other_connection() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::ContainerStatus).id("c-web").close();
    let client = Client::connect(&fake).await;
    let other = Client::connect(&fake).await;
    assert!(client.container("c-web").await.is_err());
    assert!(other.version().await.is_ok());
}

#[tokio::test]
async fn half_closed_connection_ends_the_clients_reads() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).reply(Reply::connection_fault(ConnectionFault::HalfClose));
    let client = Client::connect(&fake).await;
    assert!(client.version().await.is_err());
}

#[tokio::test]
async fn frozen_connection_stays_open_and_sends_nothing() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).reply(Reply::connection_fault(ConnectionFault::Freeze));
    let client = Client::connect(&fake).await;
    let other = Client::connect(&fake).await;
    let mut frozen = Box::pin(client.version());
    tokio::select! {
        biased;
        answer = &mut frozen => panic!("a frozen connection answered {answer:?}"),
        sandboxes = other.sandboxes() => assert_eq!(sandboxes.unwrap().len(), 2),
    }
}

#[tokio::test]
async fn deadline_and_authority_are_recorded() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    let mut request = Request::new(Bytes::new());
    request.set_timeout(Duration::from_millis(2500));
    client.stream(Rpc::Version, request).await.unwrap();
    let calls = fake.calls();
    assert_eq!(calls[0].deadline, Some(Duration::from_millis(2500)));
    assert_eq!(calls[0].authority, "localhost");
    assert_eq!(calls[0].connection, 0);
}

/// Reaches a deadline without waiting: the paused clock does not advance before the call has arrived.
#[tokio::test(start_paused = true)]
async fn paused_clock_does_not_advance_before_the_call_is_logged() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::ContainerStatus).id("c-web").hang();
    let client = Client::connect(&fake).await;
    let hour = Duration::from_secs(3600);
    let (answer, calls) = tokio::join!(
        tokio::time::timeout(hour, client.container("c-web")),
        fake.seen(|calls| !calls.is_empty())
    );
    assert!(answer.is_err(), "a hung call answered");
    assert_eq!((calls[0].rpc, calls[0].state), (Rpc::ContainerStatus, CallState::InFlight));
}

#[tokio::test]
async fn delayed_answer_arrives_after_the_delay() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).delay(Duration::from_millis(1));
    let client = Client::connect(&fake).await;
    assert_eq!(client.version().await.unwrap().runtime_name, "containerd");
}

#[tokio::test]
async fn each_runtime_rejects_the_calls_that_it_does_not_implement() {
    for (kind, version, config, stream) in [
        (RuntimeKind::Containerd16, "1.6.20~ds1", Some(Code::Unimplemented), Some(Code::Unimplemented)),
        (RuntimeKind::Containerd17, "1.7.24~ds1", Some(Code::Unimplemented), Some(Code::Unimplemented)),
        (RuntimeKind::Containerd21, "2.1.9+unknown", None, Some(Code::Unimplemented)),
        (RuntimeKind::Containerd24, "2.4.0", None, None),
        (RuntimeKind::Crio, "1.36.3", None, None),
    ] {
        let fake = FakeRuntime::start_as(kind, Node::new());
        let client = Client::connect(&fake).await;
        assert_eq!(client.version().await.unwrap().runtime_version, version);
        let answer = client.messages(Rpc::RuntimeConfig, &wire::RuntimeConfigRequest {}).await;
        assert_eq!(answer.err().map(|status| status.code()), config, "{kind:?}");
        let request = wire::StreamPodSandboxesRequest::default();
        let answer = client.messages(Rpc::StreamPodSandboxes, &request).await;
        assert_eq!(answer.err().map(|status| status.code()), stream, "{kind:?}");
    }
    let old = FakeRuntime::start_as(RuntimeKind::Containerd16, Node::new());
    let status = Client::connect(&old).await.events().await.unwrap_err();
    assert_eq!(status.message(), "method GetContainerEvents not implemented");
    let crio = FakeRuntime::start_as(RuntimeKind::Crio, Node::new());
    let mut stream = Client::connect(&crio).await.events().await.unwrap();
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn crio_with_events_puts_the_containers_into_the_sandbox_status() {
    let fake = FakeRuntime::start_as(RuntimeKind::CrioWithEvents, two_pods());
    let answer = Client::connect(&fake).await.sandbox("s-web").await.unwrap();
    let ids: Vec<&str> = answer.containers_statuses.iter().map(|status| status.id.as_str()).collect();
    assert_eq!(ids, ["c-web", "c-init"]);
    assert!(answer.timestamp > 0);
}

#[tokio::test]
async fn streamed_list_comes_in_batches_and_can_break() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, Node::many(2, STREAM_BATCH));
    let client = Client::connect(&fake).await;
    let request = wire::StreamContainersRequest::default();
    assert_eq!(client.messages(Rpc::StreamContainers, &request).await.unwrap().len(), 2);
    fake.on(Rpc::StreamContainers).reply(Reply::broken_after(1, cri::Code::Internal, "half-way"));
    let mut stream = client.stream(Rpc::StreamContainers, Request::new(Bytes::new())).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    assert_eq!(stream.message().await.unwrap_err().message(), "half-way");
}

#[tokio::test]
async fn list_of_a_big_node_is_complete() {
    let fake = FakeRuntime::start(Node::many(500, 100));
    let client = Client::connect(&fake).await;
    assert_eq!(client.sandboxes().await.unwrap().len(), 500);
    assert_eq!(client.containers(None).await.unwrap().len(), 50_000);
    assert!(client.container("c499-99").await.unwrap().is_some());
}

#[tokio::test]
async fn restarted_fake_answers_on_the_same_socket() {
    let mut fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    client.version().await.unwrap();
    fake.stop();
    assert!(client.version().await.is_err());
    let refused = UnixStream::connect(fake.socket()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    fake.restart();
    assert!(Client::connect(&fake).await.version().await.is_ok());
}

#[tokio::test]
async fn recorded_faults_occur_in_their_recorded_step() {
    for history in recording::histories("pleg-1.32.10") {
        let fake = FakeRuntime::replay(&history);
        let client = Client::connect(&fake).await;
        for step in history["steps"].as_array().unwrap() {
            let faults = &step["faults"];
            let fails = |rpc: Rpc| faults.get(rpc.name()).is_some();
            assert_eq!(client.sandboxes().await.is_err(), fails(Rpc::ListPodSandbox));
            assert_eq!(client.containers(None).await.is_err(), fails(Rpc::ListContainers));
            for sandbox in recorded_ids(&step["sandboxes"]) {
                let answer = client.sandbox(sandbox).await.map(|answer| answer.status);
                assert_eq!(fault_of(&answer), recorded_fault(faults, sandbox), "{sandbox}");
            }
            for container in recorded_ids(&step["containers"]) {
                let answer = client.container(container).await;
                assert_eq!(fault_of(&answer), recorded_fault(faults, container), "{container}");
            }
        }
    }
}

/// Returns the ids in a recorded list.
fn recorded_ids(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|entry| entry["id"].as_str().unwrap())
}

/// Returns what went wrong with a recorded status call.
fn recorded_fault(faults: &Value, id: &str) -> &'static str {
    let no_status = faults.get(format!("nil:{id}")).is_some();
    if faults.get(id).is_some() {
        "failed"
    } else if no_status {
        "no status"
    } else {
        "status"
    }
}

/// Returns what went wrong with a status call.
fn fault_of<T>(answer: &Result<Option<T>, Status>) -> &'static str {
    match answer {
        Err(_) => "failed",
        Ok(None) => "no status",
        Ok(Some(_)) => "status",
    }
}

#[test]
fn each_socket_without_a_runtime_behaves_as_its_constructor_says() {
    let first_bytes = |socket: &NotARuntime| {
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        bytes
    };
    assert!(first_bytes(&NotARuntime::answers_http1()).starts_with(b"HTTP/1.1 400"));
    assert_eq!(first_bytes(&NotARuntime::closes_at_once()), b"");
    let silent = NotARuntime::accepts_and_is_silent();
    let mut stream = UnixStream::connect(silent.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let dead = NotARuntime::nobody_listens();
    let refused = UnixStream::connect(dead.path()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(NotARuntime::missing().path().metadata().is_err());
    let (file, folder) = (NotARuntime::regular_file(), NotARuntime::directory());
    assert!(file.path().is_file() && folder.path().is_dir());
}
