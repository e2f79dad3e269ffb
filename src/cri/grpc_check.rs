//! Checks that answers are gRPC before the gRPC library receives them.
//!
//! The socket may belong to any program, so an answer may be anything. If the answer cannot come from a gRPC server,
//! the call fails with a description of the answer. This module also removes all headers that the client does not read,
//! because tonic 0.14 panics on a `grpc-status-details-bin` that is not base64 (an `expect` in its `Status::from_header_map`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::Service;

use super::progress::AnswerProgress;

/// The only headers and trailers that are kept.
const KEPT_HEADERS: [HeaderName; 4] = [CONTENT_TYPE, ENCODING, STATUS, MESSAGE];
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The maximum number of characters of a header that an error message quotes.
const MAX_QUOTED_CHARS: usize = 80;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an answer is not gRPC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGrpc {
    /// The answer uses another protocol over HTTP/2, or is the page of a proxy.
    #[error("it answered {0}")]
    Protocol(String),
    /// The answer is gRPC, but breaks its rules.
    #[error("{0}")]
    Malformed(String),
}

/// A channel that checks each answer.
#[derive(Clone)]
pub struct CheckedChannel {
    channel: Channel,
    progress: Arc<AnswerProgress>,
}

impl CheckedChannel {
    /// Checks the answers of `channel` and reports the received bytes to `progress`.
    pub fn new(channel: Channel, progress: Arc<AnswerProgress>) -> Self {
        Self { channel, progress }
    }
}

impl Service<Request<Body>> for CheckedChannel {
    type Response = Response<CheckedBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.channel.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.channel.call(request);
        let progress = Arc::clone(&self.progress);
        Box::pin(async move {
            let (mut parts, body) = answer.await?.into_parts();
            check_is_grpc(parts.status, &parts.headers)?;
            parts.headers = kept_headers(&parts.headers)?;
            Ok(Response::from_parts(parts, CheckedBody { body, progress }))
        })
    }
}

/// The body of an answer; its trailers are checked too.
pub struct CheckedBody {
    body: Body,
    progress: Arc<AnswerProgress>,
}

impl HttpBody for CheckedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match frame {
            Ok(frame) => match frame.into_trailers() {
                Ok(trailers) => kept_headers(&trailers).map(Frame::trailers).map_err(Into::into),
                Err(data) => {
                    self.progress.received(data.data_ref().map_or(0, Bytes::len));
                    Ok(data)
                }
            },
            Err(status) => Err(status.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns an error that describes the answer if it is not gRPC.
fn check_is_grpc(status: StatusCode, headers: &HeaderMap) -> Result<(), NotGrpc> {
    let kind = headers.get(CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    // A gRPC status counts more than the HTTP status.
    if headers.contains_key(STATUS) && is_grpc {
        return Ok(());
    }
    let kind = kind.map_or_else(|| "no content type".to_owned(), |kind| format!("`{}`", quoted(kind)));
    if status != StatusCode::OK {
        return Err(NotGrpc::Protocol(format!("HTTP status {status} with {kind}")));
    }
    if !is_grpc {
        return Err(NotGrpc::Protocol(format!("over HTTP/2 with {kind}")));
    }
    Ok(())
}

/// Returns the headers that are kept. Fails if the gRPC library could not handle the answer.
fn kept_headers(headers: &HeaderMap) -> Result<HeaderMap, NotGrpc> {
    if let Some(encoding) = headers.get(ENCODING).filter(|encoding| *encoding != "identity") {
        let encoding = quoted(encoding);
        return Err(NotGrpc::Malformed(format!(
            "it is compressed (`{encoding}`), although plegctl did not request that"
        )));
    }
    // If this header is not base64, the kubelet's client also returns an error, even if the gRPC status is OK.
    if headers.get_all(DETAILS).iter().any(|details| !is_base64(details.as_bytes())) {
        let status = headers.get(STATUS).map_or_else(|| "none".to_owned(), quoted);
        let message =
            headers.get(MESSAGE).map_or_else(String::new, |message| format!(" `{}`", quoted(message)));
        return Err(NotGrpc::Malformed(format!(
            "its header {DETAILS} is not base64 (its gRPC status: {status}{message})"
        )));
    }
    Ok(KEPT_HEADERS
        .into_iter()
        .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)))
        .collect())
}

/// Whether the text can be gRPC's base64, with or without padding.
fn is_base64(bytes: &[u8]) -> bool {
    let unpadded = bytes.strip_suffix(b"==").or_else(|| bytes.strip_suffix(b"=")).unwrap_or(bytes);
    // A remainder of one letter after groups of four letters would encode less than a byte.
    unpadded.len() % 4 != 1
        && unpadded.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Returns the beginning of a header's value for an error message.
fn quoted(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).chars().take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_the_needed_headers_are_kept() {
        let some = headers(&[("grpc-status", "5"), ("grpc-status-details-bin", "CAU"), ("x-more", "1")]);
        assert_eq!(kept_headers(&some), Ok(headers(&[("grpc-status", "5")])));
    }

    #[test]
    fn details_that_are_not_base64_are_refused_and_the_error_has_the_status() {
        for details in ["!", "A", "CAU===", "C U", "CA=U"] {
            let bad = headers(&[
                ("grpc-status", "5"),
                ("grpc-message", "gone"),
                ("grpc-status-details-bin", details),
            ]);
            let why = kept_headers(&bad).unwrap_err().to_string();
            assert!(why.ends_with("not base64 (its gRPC status: 5 `gone`)"), "{details}: {why}");
        }
    }

    #[test]
    fn a_page_of_another_server_is_no_grpc() {
        let page = headers(&[("content-type", "text/html; charset=utf-8")]);
        let grpc = headers(&[("content-type", "application/grpc+proto")]);
        let status = headers(&[("content-type", "application/grpc"), ("grpc-status", "14")]);
        for (code, headers, why) in [
            (200, &page, Some("it answered over HTTP/2 with `text/html; charset=utf-8`")),
            (404, &page, Some("it answered HTTP status 404 Not Found with `text/html; charset=utf-8`")),
            (
                503,
                &grpc,
                Some("it answered HTTP status 503 Service Unavailable with `application/grpc+proto`"),
            ),
            (200, &HeaderMap::new(), Some("it answered over HTTP/2 with no content type")),
            (503, &status, None),
            (200, &grpc, None),
        ] {
            let error = check_is_grpc(StatusCode::from_u16(code).unwrap(), headers).err();
            assert_eq!(error.map(|error| error.to_string()).as_deref(), why);
        }
    }
}
