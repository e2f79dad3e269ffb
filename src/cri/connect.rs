//! Dialling the runtime's socket, and remembering what was heard on it.
//!
//! A transport library folds everything that can go wrong into one error. What an SRE needs to know is seen here, at
//! the socket: what connect(2) said, and whether the first bytes that came back were HTTP/2 at all.

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

/// How many bytes of the other side's first words are kept.
const FIRST_WORDS: usize = 48;

/// What the newest connection to a socket has said so far.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Whether the other side spoke, and if so whether it was HTTP/2.
    pub fn protocol(&self) -> Protocol {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match words.as_slice() {
            [] => Protocol::Nothing,
            // An HTTP/2 server opens with a SETTINGS frame: type 4, on stream 0.
            [_, _, _, 4, _, 0, 0, 0, 0, ..] => Protocol::Http2,
            short if short.len() < 9 && !short.is_ascii() => Protocol::Http2,
            other => {
                Protocol::Other(String::from_utf8_lossy(other).lines().next().unwrap_or_default().to_owned())
            }
        }
    }

    fn listen_anew(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn hear(&self, bytes: &[u8]) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_WORDS.saturating_sub(words.len());
        words.extend(bytes.iter().take(room));
    }
}

/// What kind of server the other side seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// It has not said anything.
    Nothing,
    /// It speaks HTTP/2.
    Http2,
    /// It speaks something else; its first line.
    Other(String),
}

/// Connects to `path`; `endpoint` is what the user calls it.
pub async fn dial(path: PathBuf, endpoint: String) -> Result<UnixStream, Error> {
    UnixStream::connect(&path).await.map_err(|why| explain(&path, endpoint, &why))
}

fn explain(path: &Path, endpoint: String, why: &io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::NotFound => Error::NoSuchSocket { endpoint },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { endpoint },
        // Anything that is no socket is refused too, so look what it is.
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

/// A connection whose first incoming bytes are noted.
#[derive(Debug)]
pub struct Listened {
    stream: UnixStream,
    heard: Heard,
    satisfied: bool,
}

impl Listened {
    /// Listens to a connection just made.
    pub fn new(stream: UnixStream, heard: Heard) -> Self {
        heard.listen_anew();
        Self { stream, heard, satisfied: false }
    }
}

impl AsyncRead for Listened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if !self.satisfied && outcome.is_ready() {
            let fresh = buf.filled().get(before..).unwrap_or_default();
            self.heard.hear(fresh);
            self.satisfied = !fresh.is_empty();
        }
        outcome
    }
}

impl AsyncWrite for Listened {
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

    fn heard(words: &[u8]) -> Protocol {
        let heard = Heard::default();
        heard.hear(words);
        heard.protocol()
    }

    #[test]
    fn a_settings_frame_is_http2() {
        assert_eq!(heard(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5]), Protocol::Http2);
    }

    #[test]
    fn an_http1_status_line_is_told_by_name() {
        assert_eq!(
            heard(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Protocol::Other("HTTP/1.1 400 Bad Request".into())
        );
    }

    #[test]
    fn silence_is_not_a_protocol() {
        assert_eq!(heard(b""), Protocol::Nothing);
    }
}
