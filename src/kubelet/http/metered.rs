//! A connection that counts what comes in before an answer begins: HTTP allows any number of interim answers (1xx), and
//! whoever sends them without end would keep a processor busy until the deadline.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much as may come before the answer itself begins; its head and a first part of its body are read at once.
pub(super) const BEFORE_ANSWER: usize = 1024 * 1024;

/// How much may still come.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(BEFORE_ANSWER)))
    }

    /// A question is about to be sent.
    pub(super) fn asked(&self) {
        self.0.store(BEFORE_ANSWER, Ordering::Relaxed);
    }

    /// An answer has begun; its body has a bound of its own.
    pub(super) fn answered(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// Whether so much more may come.
    fn spend(&self, bytes: usize) -> bool {
        let left = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(bytes) };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }
}

/// A connection whose incoming bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    pub(super) stream: S,
    pub(super) allowance: Allowance,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let came = into.filled().len().saturating_sub(before);
        if self.allowance.spend(came) {
            return Poll::Ready(Ok(()));
        }
        let why = format!("it sent more than {} KiB before its answer", BEFORE_ANSWER / 1024);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
