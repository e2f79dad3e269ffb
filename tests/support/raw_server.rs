//! A server for tests, which answers over HTTP/2 with any headers, bytes and trailers, including those that a gRPC
//! library would not send.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use plegctl_engine::cri::Rpc;
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tokio::net::UnixListener;

use super::socket::TempDir;
use super::wire;

/// One answer as it is sent.
#[derive(Clone, Debug)]
#[must_use]
pub struct RawAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// The body in pieces, including gRPC's frame headers.
    data: Vec<Bytes>,
    /// Whether the last piece of the body repeats for ever.
    endless: bool,
    /// The source of further messages; after its end the body stays open.
    generated: Option<MessageSource>,
    trailers: Option<Vec<(&'static str, String)>>,
}

/// Creates messages on demand.
#[derive(Clone)]
struct MessageSource(Arc<dyn Fn(usize) -> Option<Bytes> + Send + Sync>);

impl fmt::Debug for MessageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageSource")
    }
}

impl RawAnswer {
    /// Creates a regular gRPC answer with these messages.
    pub fn of(messages: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "application/grpc".into())],
            data: messages.into_iter().map(|message| framed(&message.into(), 0)).collect(),
            endless: false,
            generated: None,
            trailers: Some(vec![("grpc-status", "0".into())]),
        }
    }

    /// Creates the answer of a healthy, empty node.
    pub fn healthy(rpc: Rpc) -> Self {
        let condition =
            |name: &str| wire::RuntimeCondition { r#type: name.into(), status: true, ..Default::default() };
        let conditions = vec![condition("RuntimeReady"), condition("NetworkReady")];
        match rpc {
            Rpc::Version => Self::of([wire::VersionResponse {
                version: "0.1.0".into(),
                runtime_name: "containerd".into(),
                runtime_version: "2.1.9".into(),
                runtime_api_version: "v1".into(),
            }
            .encode_to_vec()]),
            Rpc::Status => {
                let status = Some(wire::RuntimeStatus { conditions });
                Self::of([wire::StatusResponse { status }.encode_to_vec()])
            }
            _ => Self::of([Bytes::new()]),
        }
    }

    /// Creates an answer without a body: all fields are in its headers.
    pub fn headers_only(pairs: &[(&'static str, &str)]) -> Self {
        let plain = Self { data: Vec::new(), trailers: None, ..Self::of([Bytes::new()]) };
        pairs.iter().fold(plain, |answer, (name, value)| answer.header(name, value))
    }

    /// Sets the HTTP status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets a header, replacing one of the same name.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sets a trailer, replacing one of the same name.
    pub fn trailer(mut self, name: &'static str, value: &str) -> Self {
        let trailers = self.trailers.get_or_insert_default();
        trailers.retain(|(known, _)| *known != name);
        trailers.push((name, value.into()));
        self
    }

    /// Sets the body instead of messages.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.data = vec![body.into()];
        self
    }

    /// Ends after the messages, without trailers.
    pub fn cut_off(mut self) -> Self {
        self.trailers = None;
        self
    }

    /// Repeats the last message for ever.
    pub fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// Creates a stream of the messages that `generate` creates for 0, 1, 2 and so on; after the first `None` it
    /// stays open without messages.
    pub fn generated(generate: impl Fn(usize) -> Option<Bytes> + Send + Sync + 'static) -> Self {
        Self { generated: Some(MessageSource(Arc::new(generate))), ..Self::of(Vec::<Bytes>::new()) }
    }

    /// Creates the HTTP response.
    fn respond(&self) -> Response<RawBody> {
        let mut response = Response::new(RawBody {
            data: self.data.iter().rev().cloned().collect(),
            endless: self.endless,
            generated: self.generated.clone(),
            number: 0,
            trailers: self.trailers.as_deref().map(header_map),
        });
        *response.status_mut() = self.status.try_into().unwrap();
        *response.headers_mut() = header_map(&self.headers);
        response
    }
}

/// Returns a message with gRPC's header of five bytes.
pub fn framed(message: &[u8], compressed: u8) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(compressed);
    framed.put_u32(message.len().try_into().unwrap());
    framed.put_slice(message);
    framed.freeze()
}

fn header_map(pairs: &[(&'static str, String)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

struct RawBody {
    data: Vec<Bytes>,
    endless: bool,
    generated: Option<MessageSource>,
    number: usize,
    trailers: Option<HeaderMap>,
}

impl Body for RawBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(MessageSource(generate)) = &self.generated {
            let message = generate(self.number);
            self.number += 1;
            // Nothing wakes the reader, so the stream stays open without messages.
            return message
                .map_or(Poll::Pending, |message| Poll::Ready(Some(Ok(Frame::data(framed(&message, 0))))));
        }
        let data = match self.data.last() {
            Some(last) if self.endless && self.data.len() == 1 => Some(last.clone()),
            _ => self.data.pop(),
        };
        let next = data.map(Frame::data).or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(next.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.generated.is_none() && self.trailers.is_none()
    }
}

/// The server. Its thread ends with the test's process.
#[derive(Debug)]
pub struct RawServer {
    folder: TempDir,
}

impl RawServer {
    /// Answers each call with `answer`; if that is `None`, like a healthy, empty node.
    pub fn start(answer: impl Fn(Rpc) -> Option<RawAnswer> + Send + Sync + 'static) -> Self {
        let folder = TempDir::new();
        let listener = std::os::unix::net::UnixListener::bind(socket_in(&folder)).unwrap();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || serve(listener, Arc::new(answer)));
        Self { folder }
    }

    /// Gives this answer to one RPC, and answers all others like a healthy, empty node.
    pub fn answering(rpc: Rpc, answer: RawAnswer) -> Self {
        Self::start(move |called| (called == rpc).then(|| answer.clone()))
    }

    /// Returns the socket's path.
    pub fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Returns the socket as an endpoint.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    let path: &Path = folder.path();
    path.join("cri.sock")
}

/// Accepts connections, in a thread.
fn serve<F>(listener: std::os::unix::net::UnixListener, answer: Arc<F>)
where
    F: Fn(Rpc) -> Option<RawAnswer> + Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = UnixListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let rpc = Rpc::ALL.into_iter().find(|rpc| rpc.path() == request.uri().path()).unwrap();
                    Ok::<_, Infallible>(answer(rpc).unwrap_or_else(|| RawAnswer::healthy(rpc)).respond())
                }
            });
            tokio::spawn(
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service),
            );
        }
    });
}
