//! The body of a request: bytes, or pieces that another thread makes, so that a long body needs little memory. Its length is
//! known before it is sent, because object stores refuse a body of unknown length.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// The largest size of a piece, and the number of pieces that wait to be sent.
const LARGEST_PIECE: usize = 32 * 1024;
const WAITING_PIECES: usize = 2;

/// The body of a request. The default is empty.
#[derive(Debug, Default)]
pub struct RequestBody {
    /// The bytes that are known at once.
    first: Option<Bytes>,
    /// The pieces that follow.
    pieces: Option<mpsc::Receiver<Bytes>>,
    /// The number of bytes that were not sent yet.
    left: u64,
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self { left: u64::try_from(bytes.len()).unwrap_or(u64::MAX), first: Some(bytes), pieces: None }
    }
}

impl RequestBody {
    /// Creates a body of `length` bytes, which another thread writes. If it writes fewer, the request fails; if the request
    /// fails, writing fails too.
    pub fn pieces(length: u64) -> (PieceWriter, Self) {
        let (sender, pieces) = mpsc::channel(WAITING_PIECES);
        (PieceWriter { sender, left: length }, Self { first: None, pieces: Some(pieces), left: length })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match (self.first.take(), &mut self.pieces) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(pieces)) => ready!(pieces.poll_recv(context)),
            (None, None) => None,
        };
        Poll::Ready(next.map(|bytes| {
            self.left = self.left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok(Frame::data(bytes))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Writes the pieces of a [`RequestBody`]. Each write is a piece, so wrap this in a [`BufWriter`](io::BufWriter).
#[derive(Debug)]
pub struct PieceWriter {
    sender: mpsc::Sender<Bytes>,
    /// The number of bytes that must follow.
    left: u64,
}

impl PieceWriter {
    /// Ends the body. Fails if it is shorter than announced.
    pub fn end(self) -> io::Result<()> {
        if self.left == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..LARGEST_PIECE).unwrap_or(bytes);
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or(io::ErrorKind::FileTooLarge)?;
        let sent = self.sender.blocking_send(Bytes::copy_from_slice(piece));
        sent.map(|()| piece.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
