//! A server of the kubelet's Pods API, made from its proto file. It answers `ListPods` as its script says.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tokio::net::UnixListener;

/// The messages of the Pods API, generated from `proto/pods.proto`.
#[expect(missing_docs, reason = "generated from proto/pods.proto, which has the comments")]
pub mod wire {
    include!("../../src/cri/generated/v1alpha1.rs");
}

/// What the server does with a call: it answers with a message or with a gRPC status and its text, or never.
pub type PodsReply = Option<Result<Vec<u8>, (u32, &'static str)>>;

/// The answer that lists these pods.
pub fn listing(pods: Vec<wire::Pod>) -> PodsReply {
    Some(Ok(wire::ListPodsResponse { pods }.encode_to_vec()))
}

/// The server. Its thread ends with the test's process.
#[derive(Debug)]
pub struct PodsApiServer {
    socket: PathBuf,
    calls: Arc<AtomicUsize>,
}

impl PodsApiServer {
    /// Listens on `pods-api/pods-api.sock` below the kubelet's root directory `root`, and answers call number 0, 1, 2 and so
    /// on with `answer`.
    pub fn start(root: &Path, answer: impl Fn(usize) -> PodsReply + Send + Sync + 'static) -> Self {
        let directory = root.join("pods-api");
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap();
        let socket = directory.join("pods-api.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        thread::spawn(move || serve(listener, Arc::new(answer), &counter));
        Self { socket, calls }
    }

    /// The socket's path.
    pub fn socket(&self) -> &str {
        self.socket.to_str().unwrap()
    }

    /// The number of calls so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn serve<F>(listener: std::os::unix::net::UnixListener, answer: Arc<F>, calls: &Arc<AtomicUsize>)
where
    F: Fn(usize) -> PodsReply + Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = UnixListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (answer, calls) = (Arc::clone(&answer), Arc::clone(calls));
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, calls) = (Arc::clone(&answer), Arc::clone(&calls));
                async move {
                    assert_eq!(request.uri().path(), "/v1alpha1.Pods/ListPods");
                    let number = calls.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(respond(answer(number)).await)
                }
            });
            tokio::spawn(
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service),
            );
        }
    });
}

async fn respond(reply: PodsReply) -> Response<http_body_util::combinators::BoxBody<Bytes, Infallible>> {
    use http_body_util::BodyExt;
    let (message, status, text) = match reply {
        Some(Ok(message)) => (Some(message), 0, ""),
        Some(Err((status, text))) => (None, status, text),
        None => std::future::pending().await,
    };
    let mut body = BytesMut::new();
    if let Some(message) = message {
        body.put_u8(0);
        body.put_u32(message.len().try_into().unwrap());
        body.put_slice(&message);
    }
    let mut trailers = hyper::HeaderMap::new();
    trailers.insert("grpc-status", status.into());
    trailers.insert("grpc-message", text.parse().unwrap());
    let body = Full::new(body.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    response
}

/// A time of the API, in seconds since the Unix epoch.
pub fn time(seconds: i64) -> Option<wire::Time> {
    Some(wire::Time { seconds, nanos: 0 })
}

/// A pod that the kubelet has from `source`, bound to `node`, whose container `main` with this id has run since `started`.
pub fn running_pod(name: &str, uid: &str, (source, node): (&str, &str), id: &str, started: i64) -> wire::Pod {
    let annotation = wire::Pair { key: "kubernetes.io/config.source".to_owned(), value: source.to_owned() };
    let state = wire::ContainerState {
        running: Some(wire::ContainerStateRunning { started_at: time(started) }),
        ..Default::default()
    };
    wire::Pod {
        metadata: Some(wire::ObjectMeta {
            name: name.to_owned(),
            namespace: "shop".to_owned(),
            uid: uid.to_owned(),
            creation_timestamp: time(started),
            annotations: vec![annotation],
            ..Default::default()
        }),
        spec: Some(wire::PodSpec {
            node_name: node.to_owned(),
            restart_policy: "Always".to_owned(),
            containers: vec![wire::Container { name: "main".to_owned(), lifecycle: None }],
            ..Default::default()
        }),
        status: Some(wire::PodStatus {
            phase: "Running".to_owned(),
            start_time: time(started),
            container_statuses: vec![wire::ContainerStatus {
                name: "main".to_owned(),
                state: Some(state),
                ready: true,
                container_id: format!("containerd://{id}"),
                ..Default::default()
            }],
            ..Default::default()
        }),
    }
}
