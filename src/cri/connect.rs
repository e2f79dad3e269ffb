//! Connects to the runtime's socket, and keeps the first bytes that arrive.
//!
//! The transport library merges all failures into one error. This module keeps the details that help the user: the error of
//! connect(2), and whether the first bytes were HTTP/2.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{self, AsyncRead, Join, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::UnixStream;

use super::{Error, FileKind};

/// At most this many bytes of the first read are kept.
const FIRST_BYTES: usize = 48;

/// The number of bytes before the payload of an HTTP/2 frame.
const FRAME_HEADER: usize = 9;

/// The first bytes that the newest connection received.
#[derive(Clone, Debug, Default)]
pub struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    /// Returns the protocol to which the first bytes belong.
    pub fn protocol(&self) -> Protocol {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match bytes.as_slice() {
            [] => Protocol::Nothing,
            // An HTTP/2 server begins with a SETTINGS frame: type 4, on stream 0.
            [_, _, _, 4, _, 0, 0, 0, 0, ..] => Protocol::Http2,
            // A frame that has not arrived completely: its length is below 64 KiB, so its first byte is 0.
            [0, ..] if bytes.len() < FRAME_HEADER => Protocol::Http2,
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
    /// Another protocol, with its first line.
    Other(String),
}

/// Connects to `path`; `endpoint` is the user's name for the socket.
pub async fn dial(path: PathBuf, endpoint: String) -> Result<UnixStream, Error> {
    UnixStream::connect(&path).await.map_err(|why| explain(&path, endpoint, &why))
}

/// Converts the error of connect(2) into the error that callers see.
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
            detail: "its queue of waiting connections is full, because the daemon accepts no connection"
                .into(),
        },
        _ => Error::Unreachable { endpoint, detail: why.to_string() },
    }
}

/// Returns the kind of the file at `path`; `None` for a socket or a missing file.
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
pub type SniffedStream = Join<SniffedReader, WriteHalf<UnixStream>>;

/// Wraps a new connection and clears `first_bytes`.
pub fn sniffed(stream: UnixStream, first_bytes: FirstBytes) -> SniffedStream {
    first_bytes.clear();
    let (stream, writer) = io::split(stream);
    io::join(SniffedReader { stream, first_bytes, is_filled: false }, writer)
}

/// The receiving half of a [`SniffedStream`].
#[derive(Debug)]
pub struct SniffedReader {
    stream: ReadHalf<UnixStream>,
    first_bytes: FirstBytes,
    is_filled: bool,
}

impl AsyncRead for SniffedReader {
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
        let frame = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(first_bytes(&frame), Protocol::Http2);
        for length in 1..FRAME_HEADER {
            assert_eq!(first_bytes(&frame[..length]), Protocol::Http2, "{length} bytes");
        }
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
