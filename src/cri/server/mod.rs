//! The other end of the socket: whoever can answer the CRI's read-only questions is served over gRPC.
//!
//! The counterpart of [`Client`](super::Client): no generated service, the methods are those of [`Rpc`], and answers
//! are bytes, so that a list encoded once is sent many times and an answer that was recorded is sent as it was. A
//! [`Service`] answers with messages made of plain node types ([`message`]), with bytes that it holds, with an error
//! of its own, late or never; what it does not answer hangs nobody else.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl::clock::SystemClock;
//! use plegctl::cri::server::{Answer, InProcess, Question, Refusal, Service, message};
//! use plegctl::cri::{Code, Rpc, Runtime, Version};
//!
//! struct Nameless;
//!
//! impl Service for Nameless {
//!     async fn answer(self: Arc<Self>, question: Question) -> Result<Answer, Refusal> {
//!         match question.rpc {
//!             Rpc::Version => Ok(Answer::one(message::version(Version::default()))),
//!             Rpc::Status => std::future::pending().await,
//!             rpc => Err(Refusal::new(Code::Unavailable, format!("no {rpc} today"))),
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
mod convert;
pub mod courtesy;
mod door;
pub mod message;
mod question;

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::{Stream, StreamExt};

use super::Code;
use super::Rpc;

pub use connection::serve_connection;
pub use courtesy::Courtesy;
pub use door::{InProcess, Listening};
pub use prost::bytes::{Bytes, BytesMut};
pub use question::{Question, Subject, Wanted};

/// Something that answers the CRI's read-only questions.
pub trait Service: Send + Sync + 'static {
    /// Answers one call. It may take its time: nobody else waits for it, and when the caller is gone the future is
    /// dropped.
    fn answer(self: Arc<Self>, question: Question) -> impl Future<Output = Result<Answer, Refusal>> + Send;

    /// Answers what plegctl itself never asks; `None` for a service that has nothing to say to it.
    fn oblige(
        self: Arc<Self>,
        _asked: Courtesy,
    ) -> impl Future<Output = Option<Result<Bytes, Refusal>>> + Send {
        std::future::ready(None)
    }
}

/// What a call is answered with: messages one after another, and the end, in good order or with an error.
pub struct Answer(Messages);

/// Messages on their way out.
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Refusal>> + Send>>;

impl Answer {
    /// One message: what every call but the streamed ones is answered with.
    pub fn one(message: Bytes) -> Self {
        Self::all([message])
    }

    /// These messages, which are there already.
    pub fn all<I>(messages: I) -> Self
    where
        I: IntoIterator<Item = Bytes>,
        I::IntoIter: Send + 'static,
    {
        Self::stream(tokio_stream::iter(messages).map(Ok))
    }

    /// Messages as they come; an error is the last of them.
    pub fn stream(messages: impl Stream<Item = Result<Bytes, Refusal>> + Send + 'static) -> Self {
        Self(Box::pin(messages))
    }
}

/// The error that a call is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// gRPC status.
    pub code: Code,
    /// The runtime's words.
    pub message: String,
}

impl Refusal {
    /// An error in these words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What a gRPC server of Go says of a method that it was not built with.
    pub fn unknown_method(rpc: Rpc) -> Self {
        Self::new(Code::Unimplemented, format!("unknown method {rpc} for service runtime.v1.RuntimeService"))
    }
}
