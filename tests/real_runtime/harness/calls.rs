//! The CRI calls the tests send, blocking and with a bound on each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::generated::image_service_client::ImageServiceClient;
use super::generated::runtime_service_client::RuntimeServiceClient;
use super::generated::{
    Container, ContainerStatus, ContainerStatusRequest, ImageSpec, ImageStatusRequest, ListContainersRequest,
    ListPodSandboxRequest, PodSandbox, VersionRequest, VersionResponse,
};

/// As much as any runtime sends by default.
const LARGEST_ANSWER: usize = 80 << 20;

/// A connection that is made anew when the daemon was.
pub struct Calls {
    network: Runtime,
    client: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

impl Calls {
    /// Does not connect yet.
    pub fn to(socket: &Path) -> Self {
        let network =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let guard = network.enter();
        let channel = connect_lazily(socket.to_owned());
        drop(guard);
        let images = ImageServiceClient::new(channel.clone());
        let client = RuntimeServiceClient::new(channel).max_decoding_message_size(LARGEST_ANSWER);
        Self { network, client, images }
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

    /// The client itself, for calls that have no method here.
    pub fn client(&self) -> RuntimeServiceClient<Channel> {
        self.client.clone()
    }

    /// `Version`.
    pub fn version(&self, limit: Duration) -> Result<VersionResponse, Status> {
        let mut client = self.client();
        self.block_on(within(limit, client.version(VersionRequest::default())))
    }

    /// `ListPodSandbox`, unfiltered.
    pub fn list_pods(&self, limit: Duration) -> Result<Vec<PodSandbox>, Status> {
        let mut client = self.client();
        let call = client.list_pod_sandbox(ListPodSandboxRequest {});
        Ok(self.block_on(within(limit, call))?.items)
    }

    /// `ListContainers`, unfiltered.
    pub fn list_containers(&self, limit: Duration) -> Result<Vec<Container>, Status> {
        let mut client = self.client();
        let call = client.list_containers(ListContainersRequest {});
        Ok(self.block_on(within(limit, call))?.containers)
    }

    /// `ImageStatus`: whether the runtime has the image.
    pub fn has_image(&self, image: &str, limit: Duration) -> Result<bool, Status> {
        let mut client = self.images.clone();
        let call =
            client.image_status(ImageStatusRequest { image: Some(ImageSpec { image: image.to_owned() }) });
        Ok(self.block_on(within(limit, call))?.image.is_some())
    }

    /// `ContainerStatus`.
    pub fn container_status(&self, container_id: &str, limit: Duration) -> Result<ContainerStatus, Status> {
        let mut client = self.client();
        let call = client.container_status(ContainerStatusRequest { container_id: container_id.to_owned() });
        let answer = self.block_on(within(limit, call))?;
        answer.status.ok_or_else(|| Status::internal("no status in the answer"))
    }
}

/// The answer of `call`, or `DEADLINE_EXCEEDED` once `limit` has passed.
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
    // The address is never looked at: the connector goes to the socket.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}
