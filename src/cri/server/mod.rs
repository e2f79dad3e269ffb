//! The server side of the CRI: serves a [`Service`] over gRPC. The simulator, the replay of captures and tests use it.
//!
//! There is no generated service: the methods are the RPCs of [`Rpc`]. Answers are bytes, so that a list is encoded once and
//! sent many times, and a recorded answer is sent unchanged. A [`Service`] can answer with messages made of the plain types of `node`
//! ([`message`]), with stored bytes, with an error, late or never. A call without an answer blocks no other call.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl_pleg::clock::SystemClock;
//! use plegctl_pleg::cri::server::{Answer, InProcess, CallRequest, ServiceError, Service, message};
//! use plegctl_pleg::cri::{Code, Rpc, Runtime, Version};
//!
//! struct Nameless;
//!
//! impl Service for Nameless {
//!     async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
//!         match request.rpc {
//!             Rpc::Version => Ok(Answer::one(message::version(Version::default()))),
//!             Rpc::Status => std::future::pending().await,
//!             rpc => Err(ServiceError::new(Code::Unavailable, format!("no {rpc} today"))),
//!         }
//!     }
//! }
//!
//! let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! event_loop.block_on(async {
//!     let server = InProcess::start("example:nameless", Arc::new(Nameless))?;
//!     let client = server.client(Duration::from_secs(1), Arc::new(SystemClock::start()));
//!     assert_eq!(client.version().await.result, Ok(Version::default()));
//!     assert!(client.container_status("c1").await.result.is_err());
//!     Ok::<_, std::io::Error>(())
//! })?;
//! # Ok::<_, std::io::Error>(())
//! ```

mod authority;
mod connection;
mod listen;
pub mod message;
mod request;

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::{Stream, StreamExt};

use super::Code;
use super::Rpc;

pub use connection::serve_connection;
pub use listen::{InProcess, SocketServer};
pub use prost::bytes::{Bytes, BytesMut};
pub use request::{CallRequest, ListFilter, RequestSubject};

/// A program that answers the CRI's read-only RPCs.
pub trait Service: Send + Sync + 'static {
    /// Answers one call. No other call waits for this call. If the caller disconnects, the future is dropped.
    fn answer(
        self: Arc<Self>,
        request: CallRequest,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send;
}

/// A [`Service`] with boxed futures, so that the server is compiled once and not for each service.
trait AnyService: Send + Sync {
    fn answer_boxed(self: Arc<Self>, request: CallRequest) -> BoxedAnswer;
}

type BoxedAnswer = Pin<Box<dyn Future<Output = Result<Answer, ServiceError>> + Send>>;

impl<S: Service> AnyService for S {
    fn answer_boxed(self: Arc<Self>, request: CallRequest) -> BoxedAnswer {
        Box::pin(self.answer(request))
    }
}

/// The answer to a call: messages one after another, then the end of the stream or an error.
pub struct Answer(Messages);

/// The messages of an answer.
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, ServiceError>> + Send>>;

impl Answer {
    /// Creates an answer with one message, for every RPC except the streamed ones.
    pub fn one(message: Bytes) -> Self {
        Self::all([message])
    }

    /// Creates an answer with these messages.
    pub fn all<I>(messages: I) -> Self
    where
        I: IntoIterator<Item = Bytes>,
        I::IntoIter: Send + 'static,
    {
        Self::stream(tokio_stream::iter(messages).map(Ok))
    }

    /// Creates an answer whose messages arrive one by one; an error is the last item.
    pub fn stream(messages: impl Stream<Item = Result<Bytes, ServiceError>> + Send + 'static) -> Self {
        Self(Box::pin(messages))
    }
}

/// The error that answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceError {
    /// The gRPC status code.
    pub code: Code,
    /// The status message.
    pub message: String,
}

impl ServiceError {
    /// Creates an error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates the error with which a Go gRPC server answers a method that it does not have.
    pub fn unknown_method(rpc: Rpc) -> Self {
        Self::new(Code::Unimplemented, format!("unknown method {rpc} for service runtime.v1.RuntimeService"))
    }
}
