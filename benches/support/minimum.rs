//! The minimum with which the benches compare plegctl: the same calls over the same socket, without decoding the
//! answers.
//!
//! The minimum has only the parts that every client needs: HTTP/2, the frames of gRPC, and the time of the runtime.

use std::path::Path;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use plegctl_engine::cri::server::Bytes;
use plegctl_engine::cri::{RawCodec, Rpc};
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

/// plegctl's flow-control window, so that the minimum waits as often as plegctl.
const WINDOW: u32 = 4 << 20;

/// A connection that decodes nothing.
#[derive(Debug)]
pub struct BareClient(Grpc<Channel>);

impl BareClient {
    /// Creates a client that connects with the first call. It needs a running event loop.
    pub fn to(socket: &Path) -> Self {
        let socket = socket.to_owned();
        let dial = move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let channel = Endpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .connect_with_connector_lazy(tower::service_fn(dial));
        Self(Grpc::new(channel).max_decoding_message_size(usize::MAX))
    }

    /// Connects, so that the next call does not have to.
    pub async fn connect(&mut self) {
        self.unary(Rpc::Version).await;
    }

    /// Makes both list calls and returns the number of bytes of each answer.
    pub async fn lists(&mut self) -> [usize; 2] {
        [self.unary(Rpc::ListPodSandbox).await, self.unary(Rpc::ListContainers).await]
    }

    /// Makes a call with an empty request; returns the size of the answer.
    async fn unary(&mut self, rpc: Rpc) -> usize {
        self.0.ready().await.expect("somebody listens");
        let path = PathAndQuery::from_static(rpc.path());
        let answer = self.0.unary(Request::new(Bytes::new()), path, RawCodec).await;
        answer.expect("it is answered").into_inner().len()
    }

    /// Reads this number of events from the stream and returns their size in bytes.
    pub async fn events(&mut self, events: u16) -> usize {
        self.0.ready().await.expect("somebody listens");
        let path = PathAndQuery::from_static(Rpc::GetContainerEvents.path());
        let answer = self.0.server_streaming(Request::new(Bytes::new()), path, RawCodec).await;
        let mut stream: Streaming<Bytes> = answer.expect("it is answered").into_inner();
        let mut bytes = 0;
        for _ in 0..events {
            bytes += stream.message().await.expect("the stream is whole").expect("the stream is open").len();
        }
        bytes
    }
}
