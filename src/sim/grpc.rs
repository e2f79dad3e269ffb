//! gRPC over HTTP/2 on any stream: takes calls apart, hands them to the simulation, puts answers together.
//!
//! The counterpart of the client: no generated service, the methods are those of [`Rpc`], and messages pass as bytes,
//! so that a list encoded once is sent many times.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::{Buf, BufMut, Bytes};
use tokio::net::UnixStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

use super::simulation::{Answer, Refusal, Simulation};
use crate::cri::{Code, Rpc};

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Serves one connection until the client is gone.
pub async fn serve_connection(simulation: Arc<Simulation>, stream: UnixStream) {
    let service = service_fn(move |request| {
        let simulation = Arc::clone(&simulation);
        async move { Ok::<_, Infallible>(respond(simulation, request).await) }
    });
    // A client that hangs up in the middle is nothing that anybody here has to be told.
    let _ = http2::Builder::new(TokioExecutor::new())
        // As in Go's server: a hung call must not keep others from being made.
        .max_concurrent_streams(None)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    simulation: Arc<Simulation>,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    let Some(rpc) = Rpc::ALL.into_iter().find(|rpc| rpc.path() == request.uri().path()) else {
        return unknown(request.uri().path()).into_http();
    };
    let service = tower::service_fn(move |request: Request<Bytes>| {
        let simulation = Arc::clone(&simulation);
        async move {
            let answer = simulation.answer(rpc, request.into_inner()).await.map_err(Status::from)?;
            Ok::<_, Status>(Response::new(messages(answer)))
        }
    });
    // A single answer looks like a stream of one message on the wire.
    Grpc::new(RawCodec).server_streaming(service, request).await
}

fn unknown(path: &str) -> Status {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    if service == "runtime.v1.RuntimeService" {
        Status::unimplemented(format!("unknown method {method} for service {service}"))
    } else {
        Status::unimplemented(format!("unknown service {service}"))
    }
}

fn messages(answer: Answer) -> Messages {
    match answer {
        Answer::Messages(messages) => Box::pin(tokio_stream::iter(messages).map(Ok)),
        Answer::Feed(feed) => Box::pin(ReceiverStream::new(feed).map(Ok)),
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code.into(), refusal.message)
    }
}

impl From<Code> for tonic::Code {
    fn from(code: Code) -> Self {
        match code {
            Code::Cancelled => Self::Cancelled,
            Code::Unknown => Self::Unknown,
            Code::InvalidArgument => Self::InvalidArgument,
            Code::DeadlineExceeded => Self::DeadlineExceeded,
            Code::NotFound => Self::NotFound,
            Code::AlreadyExists => Self::AlreadyExists,
            Code::PermissionDenied => Self::PermissionDenied,
            Code::ResourceExhausted => Self::ResourceExhausted,
            Code::FailedPrecondition => Self::FailedPrecondition,
            Code::Aborted => Self::Aborted,
            Code::OutOfRange => Self::OutOfRange,
            Code::Unimplemented => Self::Unimplemented,
            Code::Internal => Self::Internal,
            Code::Unavailable => Self::Unavailable,
            Code::DataLoss => Self::DataLoss,
            Code::Unauthenticated => Self::Unauthenticated,
        }
    }
}

/// Messages as they are on the wire.
#[derive(Clone, Copy, Debug)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size)))
    }
}
