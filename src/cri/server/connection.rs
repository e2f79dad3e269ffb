//! Serves gRPC over HTTP/2 on one connection: decodes calls, passes them to a service and sends the answers.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use tokio::net::UnixStream;
use tokio_stream::StreamExt;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

use super::authority::AnyAuthority;
use super::request::{CallRequest, RequestSubject, parse_deadline};
use super::{AnyService, Service, ServiceError};
use crate::cri::codec::RawCodec;
use crate::cri::{Code, Rpc};

/// The calls about images that crictl makes before `ps`; it stops if one of them fails, and shows the rest of a row after an
/// empty answer.
const EMPTY_ANSWERS: [&str; 2] =
    ["/runtime.v1.ImageService/ImageFsInfo", "/runtime.v1.ImageService/ImageStatus"];

/// Serves one connection until the client closes it.
pub async fn serve_connection(service: Arc<impl Service>, stream: UnixStream) {
    serve(service, stream).await;
}

pub(super) async fn serve(service: Arc<dyn AnyService>, stream: UnixStream) {
    let service = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(respond(service, request).await) }
    });
    let (read, write) = tokio::io::split(stream);
    let stream = tokio::io::join(AnyAuthority::new(read), write);
    // A client that disconnects during a call is not an error.
    let _ = http2::Builder::new(TokioExecutor::new())
        // As in Go's server: a hanging call must not block other calls.
        .max_concurrent_streams(None)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Answers one call.
async fn respond(
    service: Arc<dyn AnyService>,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    let Some(rpc) = Rpc::ALL.into_iter().find(|rpc| rpc.path() == request.uri().path()) else {
        return answer_foreign(request).await;
    };
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let answer = tower::service_fn(move |request: Request<Bytes>| {
        let (service, authority) = (Arc::clone(&service), authority.clone());
        async move {
            let header = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
            let deadline = header.and_then(parse_deadline);
            let message = request.into_inner();
            let subject = RequestSubject::read(rpc, message.clone())?;
            let request = CallRequest { rpc, subject, message, deadline, authority };
            let messages = service.answer_boxed(request).await?.0.map(|next| next.map_err(Status::from));
            Ok::<_, Status>(Response::new(messages))
        }
    });
    // In the gRPC protocol, a single answer is a stream with one message.
    Grpc::new(RawCodec).server_streaming(answer, request).await
}

/// Answers an RPC that plegctl never sends.
async fn answer_foreign(request: http::Request<Incoming>) -> http::Response<tonic::body::Body> {
    let path = request.uri().path().to_owned();
    let answer = tower::service_fn(move |_: Request<Bytes>| {
        let is_known = EMPTY_ANSWERS.contains(&path.as_str());
        let answer = if is_known { Ok(Response::new(Bytes::new())) } else { Err(unknown(&path).into()) };
        std::future::ready(answer)
    });
    Grpc::new(RawCodec).unary(answer, request).await
}

/// Creates the error that a Go server returns if it does not have the called service or method.
fn unknown(path: &str) -> ServiceError {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let words = if service == "runtime.v1.RuntimeService" {
        format!("unknown method {method} for service {service}")
    } else {
        format!("unknown service {service}")
    };
    ServiceError::new(Code::Unimplemented, words)
}

impl From<ServiceError> for Status {
    fn from(refusal: ServiceError) -> Self {
        Self::new(refusal.code.into(), refusal.message)
    }
}
