//! A client for the tests of the fake runtime, independent of plegctl's client.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use plegctl_engine::cri::{RawCodec, Rpc};
use prost::Message;
use prost::bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::support::FakeRuntime;
use crate::support::wire;

/// A client without deadlines and retries.
pub struct Client(tonic::client::Grpc<Channel>);

impl Client {
    pub async fn connect(fake: &FakeRuntime) -> Self {
        let socket = fake.socket();
        let dial = move |_| {
            let socket: PathBuf = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(tower::service_fn(dial)).await.unwrap();
        Self(tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20))
    }

    pub async fn stream(&self, rpc: Rpc, request: Request<Bytes>) -> Result<Streaming<Bytes>, Status> {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(rpc.path());
        Ok(grpc.server_streaming(request, path, RawCodec).await?.into_inner())
    }

    pub async fn messages(&self, rpc: Rpc, request: &impl Message) -> Result<Vec<Bytes>, Status> {
        let mut stream = self.stream(rpc, Request::new(request.encode_to_vec().into())).await?;
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await? {
            messages.push(message);
        }
        Ok(messages)
    }

    pub async fn unary<T: Message + Default>(&self, rpc: Rpc, request: &impl Message) -> Result<T, Status> {
        let messages = self.messages(rpc, request).await?;
        assert_eq!(messages.len(), 1, "{rpc} answers in one message");
        Ok(T::decode(messages[0].clone()).unwrap())
    }

    pub async fn version(&self) -> Result<wire::VersionResponse, Status> {
        self.unary(Rpc::Version, &wire::VersionRequest::default()).await
    }

    pub async fn sandboxes(&self) -> Result<Vec<String>, Status> {
        let answer: wire::ListPodSandboxResponse =
            self.unary(Rpc::ListPodSandbox, &wire::ListPodSandboxRequest::default()).await?;
        Ok(answer.items.into_iter().map(|sandbox| sandbox.id).collect())
    }

    pub async fn containers(&self, filter: Option<wire::ContainerFilter>) -> Result<Vec<String>, Status> {
        let answer: wire::ListContainersResponse =
            self.unary(Rpc::ListContainers, &wire::ListContainersRequest { filter }).await?;
        Ok(answer.containers.into_iter().map(|container| container.id).collect())
    }

    pub async fn container(&self, id: &str) -> Result<Option<wire::ContainerStatus>, Status> {
        let request = wire::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        Ok(self.unary::<wire::ContainerStatusResponse>(Rpc::ContainerStatus, &request).await?.status)
    }

    pub async fn sandbox(&self, id: &str) -> Result<wire::PodSandboxStatusResponse, Status> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        self.unary(Rpc::PodSandboxStatus, &request).await
    }

    pub async fn events(&self) -> Result<Streaming<Bytes>, Status> {
        self.stream(Rpc::GetContainerEvents, Request::new(Bytes::new())).await
    }
}
