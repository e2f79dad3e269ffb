//! Tests of the fake runtime's event streams.

use plegctl_engine::cri;
use prost::Message;
use prost::bytes::Bytes;
use tokio_stream::StreamExt;
use tonic::Code;

use super::client::Client;
use crate::support::events::{Attempt, End};
use crate::support::{CallState, ConnectionFault, FakeRuntime, Node, RuntimeKind, recording, wire};

fn event(id: &str) -> wire::ContainerEventResponse {
    wire::ContainerEventResponse { container_id: id.to_owned(), ..Default::default() }
}

fn event_id(message: Option<Bytes>) -> Option<String> {
    message.map(|message| wire::ContainerEventResponse::decode(message).unwrap().container_id)
}

#[tokio::test]
async fn each_stream_attempt_gets_its_scripted_events() {
    let fake = FakeRuntime::start(Node::new());
    fake.streams([
        Attempt::eof(),
        Attempt::fail(cri::Code::Unavailable, "error reading from server: EOF"),
        Attempt::ending(End::Fail(cri::Code::Internal, "broken".to_owned()))
            .events([event("c1"), event("c2")]),
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
    fake.fail_streams(cri::Code::Unavailable, "gone");
    assert_eq!(fourth.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn pushed_event_is_kept_until_the_first_subscriber() {
    let fake = FakeRuntime::start(Node::new());
    fake.push_event(event("early"));
    let client = Client::connect(&fake).await;
    let mut stream = client.events().await.unwrap();
    assert_eq!(event_id(stream.message().await.unwrap()).unwrap(), "early");
    fake.end_streams();
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn every_subscriber_gets_every_event_except_with_containerd_1_7() {
    for (kind, second) in [(RuntimeKind::Containerd21, "c1"), (RuntimeKind::Containerd17, "c2")] {
        let fake = FakeRuntime::start_as(kind, Node::new());
        let client = Client::connect(&fake).await;
        let push_once_both_listen = async {
            fake.seen(|calls| {
                calls.len() == 2 && calls.iter().all(|call| call.state == CallState::Streaming)
            })
            .await;
            fake.push_event(event("c1"));
            fake.push_event(event("c2"));
        };
        let first_event = async || event_id(client.events().await.unwrap().message().await.unwrap()).unwrap();
        let (one, other, ()) = tokio::join!(first_event(), first_event(), push_once_both_listen);
        let mut seen = [one, other];
        seen.sort();
        assert_eq!(seen, ["c1", second], "{kind:?}");
    }
}

#[tokio::test]
async fn stalled_stream_sends_no_pushed_events() {
    let fake = FakeRuntime::start(Node::new());
    fake.streams([Attempt::ending(End::Stall).events([event("c1")])]);
    let client = Client::connect(&fake).await;
    let mut stream = client.events().await.unwrap();
    assert_eq!(event_id(stream.message().await.unwrap()).unwrap(), "c1");
    fake.push_event(event("c2"));
    tokio::select! {
        biased;
        message = stream.message() => panic!("a stalled stream sent {message:?}"),
        version = client.version() => assert!(version.is_ok()),
    }
}

#[tokio::test]
async fn stream_can_lose_its_connection() {
    let fake = FakeRuntime::start(Node::new());
    fake.streams([Attempt::ending(End::Cut(ConnectionFault::Close))]);
    let client = Client::connect(&fake).await;
    assert!(client.events().await.is_err());
}

#[tokio::test]
async fn dropped_stream_is_logged_as_cancelled() {
    let fake = FakeRuntime::start(Node::new());
    fake.push_event(event("c1"));
    let client = Client::connect(&fake).await;
    let stream = client.events().await.unwrap();
    drop(stream);
    drop(client);
    fake.seen(|calls| calls[0].state == CallState::Cancelled).await;
}

#[tokio::test]
async fn recorded_stream_fails_as_often_as_recorded_and_then_sends_events() {
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
