//! Replaces values of the HTTP/2 header `:authority` that the HTTP/2 library would refuse, in the bytes of a connection.
//!
//! gRPC's C core sends the socket's path, percent-encoded, as `:authority`, and older Go clients send the path itself.
//! Neither is a valid host name, so the HTTP/2 library would end the call, while Go's servers ignore the value. This module
//! replaces each invalid character by a dash, so that no length changes. A Huffman-compressed value stays unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use prost::bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

/// The length of the client's connection preface (RFC 9113, section 3.4).
const PREFACE_SIZE: usize = 24;
/// The length of a frame's header.
const FRAME_HEADER_SIZE: usize = 9;
/// The type of a HEADERS frame, which begins a header block.
const HEADERS: u8 = 0x1;
/// The PADDED flag of a HEADERS frame.
const PADDED: u8 = 0x8;
/// The PRIORITY flag of a HEADERS frame.
const PRIORITY: u8 = 0x20;
/// The index of `:authority` in HPACK's static table (RFC 7541, appendix A).
const AUTHORITY: usize = 1;
/// The maximum size of a read, and of a frame that a client may send.
const MAX_FRAME: usize = 16 * 1024;

/// The receiving half of a connection, which replaces invalid authorities.
#[derive(Debug)]
pub struct AnyAuthority<S> {
    stream: S,
    /// The bytes that were read and not yet passed on.
    buffer: BytesMut,
    /// The number of bytes in the buffer that may be passed on.
    ready: usize,
    /// The number of next bytes that are not part of a header block.
    pass_through: usize,
}

impl<S> AnyAuthority<S> {
    /// Wraps a new stream, from which nothing has been read yet.
    pub fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new(), ready: 0, pass_through: PREFACE_SIZE }
    }

    /// Computes how many bytes of the buffer may be passed on. A header block is passed on as a whole.
    fn advance(&mut self) {
        loop {
            let passed = self.pass_through.min(self.buffer.len() - self.ready);
            self.ready += passed;
            self.pass_through -= passed;
            let Some(rest) = self.buffer.get_mut(self.ready..).filter(|_| self.pass_through == 0) else {
                return;
            };
            let Some([high, middle, low, kind, flags, ..]) = rest.get(..FRAME_HEADER_SIZE) else { return };
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            let (kind, flags) = (*kind, *flags);
            let whole = FRAME_HEADER_SIZE + length;
            // The HTTP/2 library refuses longer frames with its own error.
            if kind == HEADERS && length <= MAX_FRAME {
                let Some(payload) = rest.get_mut(FRAME_HEADER_SIZE..whole) else { return };
                // A header block that cannot be parsed stays unchanged, and the HTTP/2 library reports it.
                let _ = fix_authority(payload, flags);
            }
            self.pass_through = whole;
        }
    }
}

/// Replaces invalid characters of the authority in the payload of a HEADERS frame. Returns `None` if the payload is
/// truncated.
fn fix_authority(payload: &mut [u8], flags: u8) -> Option<()> {
    let mut at = 0;
    let mut end = payload.len();
    if flags & PADDED != 0 {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        at += 1;
    }
    if flags & PRIORITY != 0 {
        at += 5;
    }
    let block = payload.get_mut(at..end)?;
    let mut at = 0;
    while let Some(first) = block.get(at).copied() {
        // RFC 7541, section 6: how many bits of the first byte are an integer, and whether a string follows.
        let (bits, is_literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let name = decode_integer(block, &mut at, bits)?;
        if !is_literal {
            continue;
        }
        if name == 0 {
            decode_string(block, &mut at)?;
        }
        let (is_compressed, value) = decode_string(block, &mut at)?;
        if name == AUTHORITY && !is_compressed {
            for letter in value {
                if !letter.is_ascii_alphanumeric() && !b"-._~:[]".contains(letter) {
                    *letter = b'-';
                }
            }
        }
    }
    Some(())
}

/// Decodes an HPACK integer, and moves `at` to the byte after it.
fn decode_integer(block: &[u8], at: &mut usize, bits: u32) -> Option<usize> {
    let largest = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(*at)?) & largest;
    *at += 1;
    if value < largest {
        return Some(value);
    }
    for shift in [0, 7, 14, 21] {
        let next = *block.get(*at)?;
        *at += 1;
        value += usize::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Finds an HPACK string, and moves `at` to the byte after it. Returns whether the string is compressed, and its bytes.
fn decode_string<'a>(block: &'a mut [u8], at: &mut usize) -> Option<(bool, &'a mut [u8])> {
    let is_compressed = *block.get(*at)? & 0x80 != 0;
    let length = decode_integer(block, at, 7)?;
    let begin = *at;
    *at = begin.checked_add(length)?;
    Some((is_compressed, block.get_mut(begin..*at)?))
}

impl<S: AsyncRead + Unpin> AsyncRead for AnyAuthority<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready == 0 {
            let mut piece = [0; MAX_FRAME];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                // The stream has ended within a frame; the HTTP/2 library reports that.
                this.ready = this.buffer.len();
                break;
            }
            this.buffer.extend_from_slice(read.filled());
            this.advance();
        }
        let length = this.ready.min(into.remaining());
        if let Some(bytes) = this.buffer.get(..length) {
            into.put_slice(bytes);
        }
        this.buffer.advance(length);
        this.ready -= length;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Creates a header block as gRPC's C core writes it: indexed fields, a path, the authority as a literal, and a header
    /// with a literal name.
    fn block(authority: &str) -> Vec<u8> {
        let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let path = [&[0x44][..], &literal("/runtime.v1.RuntimeService/%Version")].concat();
        let authority = [&[0x41][..], &literal(authority)].concat();
        let named = [&[0x00][..], &literal("te%"), &literal("trailers%")].concat();
        [&[0x83, 0x86][..], &path, &authority, &named].concat()
    }

    /// Returns the bytes that the stream passes on if `bytes` arrive in pieces of this size.
    async fn pass_through(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(64);
        let pieces = bytes.to_vec();
        let send = async move {
            for part in pieces.chunks(piece) {
                client.write_all(part).await.unwrap();
            }
        };
        let mut out = Vec::new();
        let mut server = AnyAuthority::new(server);
        let ((), read) = tokio::join!(send, server.read_to_end(&mut out));
        read.unwrap();
        out
    }

    #[tokio::test]
    async fn socket_path_in_the_authority_is_replaced_and_nothing_else_changes() {
        let stream = |authority: &str| {
            let padded = [&[2][..], &block(authority), &[0, 0]].concat();
            let preceded = [&[0, 0, 0, 0, 16][..], &block(authority)].concat();
            [
                &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
                &frame(4, 0, &[]),
                &frame(HEADERS, 4, &block(authority)),
                &frame(0, 0, b"data with % and /"),
                &frame(HEADERS, 4 | PADDED, &padded),
                &frame(HEADERS, 4 | PRIORITY, &preceded),
            ]
            .concat()
        };
        for piece in [1, 7, 1000] {
            assert_eq!(pass_through(&stream("run%2Fx.sock"), piece).await, stream("run-2Fx.sock"));
            assert_eq!(pass_through(&stream("/run/x.sock"), piece).await, stream("-run-x.sock"));
            assert_eq!(pass_through(&stream("localhost:1"), piece).await, stream("localhost:1"));
        }
    }

    #[tokio::test]
    async fn other_protocols_and_truncated_frames_are_not_changed() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let short = frame(HEADERS, 4, &[0x41, 0x7f, b'%']);
        let half = frame(HEADERS, 4, &block("a%b"));
        let half = half.get(..20).unwrap();
        for rest in [short.as_slice(), half, b"hello"] {
            let sent = [&preface[..], rest].concat();
            assert_eq!(pass_through(&sent, 5).await, sent);
        }
    }
}
