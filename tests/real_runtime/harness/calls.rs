//! Makes the CRI calls of the tests; the calls block, and each has a time limit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request as Envelope, Response, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    Container, ContainerStatus, ContainerStatusRequest, ImageSpec, ImageStatusRequest, ListContainersRequest,
    ListPodSandboxRequest, PodSandbox, Request, VersionRequest, VersionResponse,
};

/// The default size limit of runtimes.
const LARGEST_ANSWER: usize = 80 << 20;

/// A connection to the daemon. It connects again after a restart of the daemon.
pub struct Calls {
    network: Runtime,
    client: Client,
}

/// Sends any request of the harness.
#[derive(Clone)]
pub struct Client(Grpc<Channel>);

impl Client {
    /// Sends a request and waits for its answer without a limit.
    pub async fn send<R: Request>(&self, request: R) -> Result<Response<R::Answer>, Status> {
        let mut connection = self.0.clone();
        connection.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
        let codec: ProstCodec<R, R::Answer> = ProstCodec::default();
        connection.unary(Envelope::new(request), PathAndQuery::from_static(R::PATH), codec).await
    }
}

impl Calls {
    /// Creates the calls without connecting.
    pub fn to(socket: &Path) -> Self {
        let network =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let guard = network.enter();
        let channel = connect_lazily(socket.to_owned());
        drop(guard);
        let client = Client(Grpc::new(channel).max_decoding_message_size(LARGEST_ANSWER));
        Self { network, client }
    }

    /// Runs `future` to its end.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.network.block_on(future)
    }

    /// Runs `future` in the background.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.network.spawn(future)
    }

    /// Returns the client itself, for calls that have no method here.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Calls `Version`.
    pub fn version(&self, limit: Duration) -> Result<VersionResponse, Status> {
        let client = self.client();
        self.block_on(within(limit, client.send(VersionRequest::default())))
    }

    /// Calls `ListPodSandbox`, unfiltered.
    pub fn list_pods(&self, limit: Duration) -> Result<Vec<PodSandbox>, Status> {
        let client = self.client();
        let call = client.send(ListPodSandboxRequest::default());
        Ok(self.block_on(within(limit, call))?.items)
    }

    /// Calls `ListContainers`, unfiltered.
    pub fn list_containers(&self, limit: Duration) -> Result<Vec<Container>, Status> {
        let client = self.client();
        let call = client.send(ListContainersRequest::default());
        Ok(self.block_on(within(limit, call))?.containers)
    }

    /// Calls `ImageStatus`: whether the runtime has the image.
    pub fn has_image(&self, image: &str, limit: Duration) -> Result<bool, Status> {
        let client = self.client();
        let call = client.send(ImageStatusRequest { image: Some(image_named(image)) });
        Ok(self.block_on(within(limit, call))?.image.is_some())
    }

    /// Calls `ContainerStatus`.
    pub fn container_status(&self, container_id: &str, limit: Duration) -> Result<ContainerStatus, Status> {
        let client = self.client();
        let call = client
            .send(ContainerStatusRequest { container_id: container_id.to_owned(), ..Default::default() });
        let answer = self.block_on(within(limit, call))?;
        answer.status.ok_or_else(|| Status::internal("no status in the answer"))
    }
}

/// Returns an image by its name.
pub fn image_named(image: &str) -> ImageSpec {
    ImageSpec { image: image.to_owned(), ..ImageSpec::default() }
}

/// Returns the answer to `call`, or `DEADLINE_EXCEEDED` after `limit`.
pub async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {limit:?}"))),
    }
}

fn connect_lazily(socket: PathBuf) -> Channel {
    // The address is not used: the connector connects to the socket.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}
