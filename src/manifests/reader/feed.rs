//! Hands the text to the scanner.

use std::io::{self, BufRead, Read};

use super::encoding::EncodingFault;

/// Bytes that go-yaml reads at a time (`input_raw_buffer_size` in readerc.go).
const PIECE: usize = 512;

/// Hands the text out in go-yaml's pieces; a piece with a fault in it is not handed out.
pub struct Feed<'a> {
    text: &'a [u8],
    given: usize,
    fault: Option<&'a EncodingFault>,
}

impl<'a> Feed<'a> {
    /// The whole text, which ends in `fault` if there is one.
    pub fn new(text: &'a str, fault: Option<&'a EncodingFault>) -> Self {
        Self { text: text.as_bytes(), given: 0, fault }
    }
}

impl Read for Feed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let count = piece.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(piece) {
            *to = *from;
        }
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Feed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let end = (self.given / PIECE + 1) * PIECE;
        if end > self.text.len() && self.fault.is_some() {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(self.text.get(self.given..end.min(self.text.len())).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.given = self.given.saturating_add(amount).min(self.text.len());
    }
}
