//! A connection that limits the bytes that arrive before the final answer. HTTP allows any number of interim answers (1xx)
//! before it, so an endless series of them could keep a processor busy until the deadline.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// How many bytes may arrive until the headers of the final answer are complete. The first part of the body may arrive in
/// the same read as the headers, and counts too.
pub(super) const BEFORE_ANSWER: usize = 1024 * 1024;

/// The number of bytes that may still arrive until the headers of the final answer are complete; `usize::MAX` without a
/// limit.
#[derive(Clone, Debug)]
pub(super) struct PreAnswerLimit(Arc<AtomicUsize>);

impl PreAnswerLimit {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(BEFORE_ANSWER)))
    }

    /// Resets the limit before a request is sent.
    pub(super) fn reset(&self) {
        self.0.store(BEFORE_ANSWER, Ordering::Relaxed);
    }

    /// Removes the limit after the headers of the final answer; the body has its own limit.
    pub(super) fn remove(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// Subtracts received bytes; returns `false` if the limit is exceeded.
    fn subtract(&self, bytes: usize) -> bool {
        let reduced = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(bytes) };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reduced).is_ok()
    }
}

/// The receiving half of a connection, with a [`PreAnswerLimit`] for its bytes.
#[derive(Debug)]
pub(super) struct LimitedReader<S> {
    pub(super) stream: S,
    pub(super) pre_answer_limit: PreAnswerLimit,
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let received = into.filled().len().saturating_sub(before);
        if self.pre_answer_limit.subtract(received) {
            return Poll::Ready(Ok(()));
        }
        let why = format!("it sent more than {} KiB before its answer", BEFORE_ANSWER / 1024);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)))
    }
}
