//! Connects to the runtime's socket and keeps the first bytes that arrive.
//!
//! The transport library merges all failures into one error. This module sees what an SRE needs to know: the error of
//! connect(2), and whether the first bytes were HTTP/2.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::{Error, FileKind};

/// How many of the first received bytes are kept.
const FIRST_BYTES: usize = 48;

/// The first bytes that the newest connection received.
#[derive(Clone, Debug, Default)]
pub struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    /// Which protocol the first bytes belong to.
    pub fn protocol(&self) -> Protocol {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match bytes.as_slice() {
            [] => Protocol::Nothing,
            // An HTTP/2 server begins with a SETTINGS frame: type 4, on stream 0.
            [_, _, _, 4, _, 0, 0, 0, 0, ..] => Protocol::Http2,
            short if short.len() < 9 && !short.is_ascii() => Protocol::Http2,
            other => {
                Protocol::Other(String::from_utf8_lossy(other).lines().next().unwrap_or_default().to_owned())
            }
        }
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn append(&self, received: &[u8]) {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_BYTES.saturating_sub(bytes.len());
        bytes.extend(received.iter().take(room));
    }
}

/// The protocol that the other side seems to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Nothing has arrived.
    Nothing,
    /// HTTP/2.
    Http2,
    /// Another protocol; its first line.
    Other(String),
}

/// Connects to `path`; `endpoint` is the user's name for the socket.
pub async fn dial(path: PathBuf, endpoint: String) -> Result<UnixStream, Error> {
    UnixStream::connect(&path).await.map_err(|why| explain(&path, endpoint, &why))
}

fn explain(path: &Path, endpoint: String, why: &io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::NotFound => Error::NoSuchSocket { endpoint },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { endpoint },
        // The kernel also refuses a connection to a file that is not a socket, so check the file type.
        io::ErrorKind::ConnectionRefused => match file_kind(path) {
            Some(kind) => Error::NotASocket { endpoint, kind },
            None => Error::Refused { endpoint },
        },
        io::ErrorKind::WouldBlock => Error::Unreachable {
            endpoint,
            detail: "its queue of waiting connections is full, the daemon accepts none".into(),
        },
        _ => Error::Unreachable { endpoint, detail: why.to_string() },
    }
}

fn file_kind(path: &Path) -> Option<FileKind> {
    let kind = fs::metadata(path).ok()?.file_type();
    if kind.is_socket() {
        None
    } else if kind.is_file() {
        Some(FileKind::File)
    } else if kind.is_dir() {
        Some(FileKind::Directory)
    } else {
        Some(FileKind::Other)
    }
}

/// A connection that keeps its first received bytes in a [`FirstBytes`].
#[derive(Debug)]
pub struct SniffedStream {
    stream: UnixStream,
    first_bytes: FirstBytes,
    is_filled: bool,
}

impl SniffedStream {
    /// Wraps a new connection and clears `first_bytes`.
    pub fn new(stream: UnixStream, first_bytes: FirstBytes) -> Self {
        first_bytes.clear();
        Self { stream, first_bytes, is_filled: false }
    }
}

impl AsyncRead for SniffedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if !self.is_filled && outcome.is_ready() {
            let fresh = buf.filled().get(before..).unwrap_or_default();
            self.first_bytes.append(fresh);
            self.is_filled = !fresh.is_empty();
        }
        outcome
    }
}

impl AsyncWrite for SniffedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_bytes(bytes: &[u8]) -> Protocol {
        let first_bytes = FirstBytes::default();
        first_bytes.append(bytes);
        first_bytes.protocol()
    }

    #[test]
    fn a_settings_frame_is_http2() {
        assert_eq!(first_bytes(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5]), Protocol::Http2);
    }

    #[test]
    fn an_http1_status_line_is_reported_as_another_protocol() {
        assert_eq!(
            first_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Protocol::Other("HTTP/1.1 400 Bad Request".into())
        );
    }

    #[test]
    fn silence_is_not_a_protocol() {
        assert_eq!(first_bytes(b""), Protocol::Nothing);
    }
}
