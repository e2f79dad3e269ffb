//! Makes the calls of crictl's commands, over a connection like crictl's.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::wire;

/// The service for pods and containers.
pub const RUNTIME: &str = "runtime.v1.RuntimeService";
/// The service for images.
pub const IMAGES: &str = "runtime.v1.ImageService";

/// A connection like crictl's: one socket for both services.
#[derive(Debug)]
pub struct Crictl(Grpc<Channel>);

impl Crictl {
    /// Connects to the socket.
    pub async fn connect(socket: PathBuf) -> Self {
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        Self(Grpc::new(channel))
    }

    /// Makes one call.
    pub async fn call<Q, A>(&mut self, service: &str, method: &str, target: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.0.ready().await.unwrap();
        let path = format!("/{service}/{method}").parse().unwrap();
        let answer = self.0.unary(Request::new(target), path, tonic_prost::ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// Returns the running containers, by the call that `crictl ps` makes.
    pub async fn running(&mut self) -> Vec<wire::Container> {
        let state = Some(wire::ContainerStateValue { state: wire::ContainerState::ContainerRunning.into() });
        let filter = Some(wire::ContainerFilter { state, ..wire::ContainerFilter::default() });
        let list: wire::ListContainersResponse =
            self.call(RUNTIME, "ListContainers", wire::ListContainersRequest { filter }).await.unwrap();
        list.containers
    }
}

/// Runs `session` with a connection to the socket.
pub fn with_crictl<T>(socket: &Path, session: impl AsyncFnOnce(Crictl) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { session(Crictl::connect(socket.to_path_buf()).await).await })
}
