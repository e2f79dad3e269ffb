//! The fake runtime does what it is told; the other tests rest on that.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use plegctl::cri::Rpc;
use prost::Message;
use prost::bytes::Bytes;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use crate::support::events::{Attempt, End};
use crate::support::fake::Step;
use crate::support::socket::NotARuntime;
use crate::support::wire::{self, RawCodec, pair};
use crate::support::{CallState, Cut, FakeRuntime, Gate, Kind, Node, Reply, STREAM_BATCH, recording};

/// A client without manners of its own: no deadline, no retry.
struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn connect(fake: &FakeRuntime) -> Self {
        let socket = fake.socket();
        let dial = move |_| {
            let socket: PathBuf = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(tower::service_fn(dial)).await.unwrap();
        Self(tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20))
    }

    async fn stream(&self, rpc: Rpc, request: Request<Bytes>) -> Result<Streaming<Bytes>, Status> {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(rpc.path());
        Ok(grpc.server_streaming(request, path, RawCodec).await?.into_inner())
    }

    async fn messages(&self, rpc: Rpc, request: &impl Message) -> Result<Vec<Bytes>, Status> {
        let mut stream = self.stream(rpc, Request::new(request.encode_to_vec().into())).await?;
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await? {
            messages.push(message);
        }
        Ok(messages)
    }

    async fn ask<T: Message + Default>(&self, rpc: Rpc, request: &impl Message) -> Result<T, Status> {
        let messages = self.messages(rpc, request).await?;
        assert_eq!(messages.len(), 1, "{rpc} answers in one message");
        Ok(T::decode(messages[0].clone()).unwrap())
    }

    async fn version(&self) -> Result<wire::VersionResponse, Status> {
        self.ask(Rpc::Version, &wire::VersionRequest::default()).await
    }

    async fn sandboxes(&self) -> Result<Vec<String>, Status> {
        let answer: wire::ListPodSandboxResponse =
            self.ask(Rpc::ListPodSandbox, &wire::ListPodSandboxRequest::default()).await?;
        Ok(answer.items.into_iter().map(|sandbox| sandbox.id).collect())
    }

    async fn containers(&self, filter: Option<wire::ContainerFilter>) -> Result<Vec<String>, Status> {
        let answer: wire::ListContainersResponse =
            self.ask(Rpc::ListContainers, &wire::ListContainersRequest { filter }).await?;
        Ok(answer.containers.into_iter().map(|container| container.id).collect())
    }

    async fn container(&self, id: &str) -> Result<Option<wire::ContainerStatus>, Status> {
        let request = wire::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        Ok(self.ask::<wire::ContainerStatusResponse>(Rpc::ContainerStatus, &request).await?.status)
    }

    async fn sandbox(&self, id: &str) -> Result<wire::PodSandboxStatusResponse, Status> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        self.ask(Rpc::PodSandboxStatus, &request).await
    }

    async fn events(&self) -> Result<Streaming<Bytes>, Status> {
        self.stream(Rpc::GetContainerEvents, Request::new(Bytes::new())).await
    }
}

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

fn event(id: &str) -> wire::ContainerEventResponse {
    wire::ContainerEventResponse { container_id: id.to_owned(), ..Default::default() }
}

fn event_id(message: Option<Bytes>) -> Option<String> {
    message.map(|message| wire::ContainerEventResponse::decode(message).unwrap().container_id)
}

#[tokio::test]
async fn node_is_answered_as_built() {
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
    let ids: Vec<String> = fake.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(ids, ["io.kubernetes.pod.uid=uid-db", "state=CONTAINER_RUNNING"]);
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
async fn replies_come_in_turn_and_the_last_stays() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    fake.on(Rpc::Version).replies([Reply::normal(), Reply::fail(Code::Internal, "broken")]);
    assert!(client.version().await.is_ok());
    for _ in 0..2 {
        let status = client.version().await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Internal, "broken"));
    }
    fake.on(Rpc::Version).times(1, &Reply::fail(Code::Unavailable, "starting"));
    assert_eq!(client.version().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(client.version().await.unwrap_err().code(), Code::Internal);
    fake.forgive();
    assert!(client.version().await.is_ok());
}

#[tokio::test]
async fn answer_can_lack_its_status_or_be_missing_or_be_garbage() {
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
async fn oversize_answer_is_still_the_answer() {
    let fake = FakeRuntime::start(two_pods());
    let client = Client::connect(&fake).await;
    fake.on(Rpc::ListContainers).oversize(17 << 20);
    let messages =
        client.messages(Rpc::ListContainers, &wire::ListContainersRequest::default()).await.unwrap();
    assert!(messages[0].len() >= 17 << 20, "{} bytes", messages[0].len());
    assert_eq!(client.containers(None).await.unwrap(), ["c-web", "c-init", "c-db"]);
}

#[tokio::test]
async fn each_relist_meets_its_step_and_the_last_stays() {
    let empty = Step::from(Node::new()).on(Rpc::ListContainers, None, Reply::fail(Code::Unknown, "x"));
    let fake = FakeRuntime::start_steps(Kind::Containerd21, [empty, two_pods().into()]);
    let client = Client::connect(&fake).await;
    assert_eq!(client.sandboxes().await.unwrap(), [""; 0]);
    let of_pod = wire::ContainerFilter { id: "c-web".to_owned(), ..Default::default() };
    assert_eq!(client.containers(Some(of_pod)).await.unwrap_err().code(), Code::Unknown);
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
async fn half_closed_connection_ends_what_the_client_reads() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).reply(Reply::cut(Cut::HalfClose));
    let client = Client::connect(&fake).await;
    assert!(client.version().await.is_err());
}

#[tokio::test]
async fn frozen_connection_is_open_and_dead() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).reply(Reply::cut(Cut::Freeze));
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

#[tokio::test]
async fn delay_is_before_the_answer() {
    let fake = FakeRuntime::start(two_pods());
    fake.on(Rpc::Version).delay(Duration::from_millis(1));
    let client = Client::connect(&fake).await;
    assert_eq!(client.version().await.unwrap().runtime_name, "containerd");
}

#[tokio::test]
async fn events_are_scripted_attempt_by_attempt() {
    let fake = FakeRuntime::start(Node::new());
    fake.streams([
        Attempt::eof(),
        Attempt::fail(Code::Unavailable, "error reading from server: EOF"),
        Attempt::ending(End::Fail(Code::Internal, "broken".to_owned())).events([event("c1"), event("c2")]),
        Attempt::open().events([event("c3")]),
    ]);
    let client = Client::connect(&fake).await;
    assert!(client.events().await.unwrap().message().await.unwrap().is_none());
    assert_eq!(client.events().await.unwrap_err().code(), Code::Unavailable);
    let mut third = client.events().await.unwrap();
    assert_eq!(event_id(third.message().await.unwrap()).unwrap(), "c1");
    assert_eq!(event_id(third.message().await.unwrap()).unwrap(), "c2");
    assert_eq!(third.message().await.unwrap_err().code(), Code::Internal);
    let mut fourth = client.events().await.unwrap();
    assert_eq!(event_id(fourth.message().await.unwrap()).unwrap(), "c3");
    fake.push_event(event("c4"));
    assert_eq!(event_id(fourth.message().await.unwrap()).unwrap(), "c4");
    fake.fail_streams(Code::Unavailable, "gone");
    assert_eq!(fourth.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn pushed_event_waits_for_the_first_subscriber() {
    let fake = FakeRuntime::start(Node::new());
    fake.push_event(event("early"));
    let client = Client::connect(&fake).await;
    let mut stream = client.events().await.unwrap();
    assert_eq!(event_id(stream.message().await.unwrap()).unwrap(), "early");
    fake.end_streams();
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn stream_given_up_is_seen_as_cancelled() {
    let fake = FakeRuntime::start(Node::new());
    fake.push_event(event("c1"));
    let client = Client::connect(&fake).await;
    let stream = client.events().await.unwrap();
    drop(stream);
    drop(client);
    fake.seen(|calls| calls[0].state == CallState::Cancelled).await;
}

#[tokio::test]
async fn each_runtime_refuses_what_it_does_not_know() {
    for (kind, version, config, stream) in [
        (Kind::Containerd16, "1.6.20~ds1", Some(Code::Unimplemented), Some(Code::Unimplemented)),
        (Kind::Containerd17, "1.7.24~ds1", Some(Code::Unimplemented), Some(Code::Unimplemented)),
        (Kind::Containerd21, "2.1.9+unknown", None, Some(Code::Unimplemented)),
        (Kind::Containerd24, "2.4.0", None, None),
        (Kind::Crio, "1.36.3", None, None),
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
    let old = FakeRuntime::start_as(Kind::Containerd16, Node::new());
    let status = Client::connect(&old).await.events().await.unwrap_err();
    assert_eq!(status.message(), "method GetContainerEvents not implemented");
    let crio = FakeRuntime::start_as(Kind::Crio, Node::new());
    let mut stream = Client::connect(&crio).await.events().await.unwrap();
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn crio_with_events_puts_the_containers_into_the_sandbox_status() {
    let fake = FakeRuntime::start_as(Kind::CrioWithEvents, two_pods());
    let answer = Client::connect(&fake).await.sandbox("s-web").await.unwrap();
    let ids: Vec<&str> = answer.containers_statuses.iter().map(|status| status.id.as_str()).collect();
    assert_eq!(ids, ["c-web", "c-init"]);
    assert!(answer.timestamp > 0);
}

#[tokio::test]
async fn streamed_list_comes_in_batches_and_can_break() {
    let fake = FakeRuntime::start_as(Kind::Containerd24, Node::many(2, STREAM_BATCH));
    let client = Client::connect(&fake).await;
    let request = wire::StreamContainersRequest::default();
    assert_eq!(client.messages(Rpc::StreamContainers, &request).await.unwrap().len(), 2);
    fake.on(Rpc::StreamContainers).reply(Reply::broken_after(1, Code::Internal, "half-way"));
    let mut stream = client.stream(Rpc::StreamContainers, Request::new(Bytes::new())).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    assert_eq!(stream.message().await.unwrap_err().message(), "half-way");
}

#[tokio::test]
async fn big_node_is_listed_whole() {
    let fake = FakeRuntime::start(Node::many(500, 100));
    let client = Client::connect(&fake).await;
    assert_eq!(client.sandboxes().await.unwrap().len(), 500);
    assert_eq!(client.containers(None).await.unwrap().len(), 50_000);
    assert!(client.container("c499-99").await.unwrap().is_some());
}

#[tokio::test]
async fn restarted_fake_answers_at_the_same_place() {
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
async fn recorded_faults_hit_the_step_they_were_recorded_in() {
    for name in ["pleg-1.28.6", "pleg-1.31.12", "pleg-1.32.10", "pleg-1.36.2"] {
        for history in recording::histories(name) {
            let fake = FakeRuntime::replay(&history);
            let client = Client::connect(&fake).await;
            for step in history["steps"].as_array().unwrap() {
                let fails = |rpc: Rpc| step["faults"].get(rpc.name()).is_some();
                assert_eq!(client.sandboxes().await.is_err(), fails(Rpc::ListPodSandbox), "{name}");
                assert_eq!(client.containers(None).await.is_err(), fails(Rpc::ListContainers), "{name}");
                for container in step["containers"].as_array().into_iter().flatten() {
                    let id = container["id"].as_str().unwrap();
                    let answer = client.container(id).await;
                    assert_eq!(answer.is_err(), step["faults"].get(id).is_some(), "{name} {id}");
                    let no_status = step["faults"].get(format!("nil:{id}")).is_some();
                    assert_eq!(answer.is_ok_and(|status| status.is_none()), no_status, "{name} {id}");
                }
            }
        }
    }
}

#[tokio::test]
async fn recorded_stream_fails_as_often_as_recorded_and_then_speaks() {
    for history in recording::histories("evented-1.36.2") {
        let stream = &history["stream"];
        if stream["fails"] != 2 {
            continue;
        }
        let fake = FakeRuntime::replay(&history);
        let client = Client::connect(&fake).await;
        for _ in 0..2 {
            let attempt = client.events().await;
            match stream["kind"].as_str().unwrap() {
                "eof" => assert!(attempt.unwrap().message().await.unwrap().is_none()),
                _ => assert!(attempt.is_err()),
            }
        }
        let mut open = client.events().await.unwrap();
        for message in stream["messages"].as_array().unwrap() {
            let id = event_id(open.message().await.unwrap());
            assert_eq!(id.as_deref(), message["id"].as_str());
        }
        return;
    }
    panic!("no recorded stream fails twice");
}

#[test]
fn odd_sockets_are_what_they_say() {
    let first_bytes = |socket: &NotARuntime| {
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        std::io::Write::write_all(&mut stream, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        bytes
    };
    assert!(first_bytes(&NotARuntime::speaks_http1()).starts_with(b"HTTP/1.1 400"));
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
