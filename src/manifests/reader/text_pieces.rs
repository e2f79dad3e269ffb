//! Passes the text to the YAML scanner in pieces of go-yaml's size.

use std::io::{self, BufRead, Read};

use super::encoding::DecodedText;

/// How many bytes of the file go-yaml reads at a time (`input_raw_buffer_size` in readerc.go).
const PIECE: usize = 512;

/// Returns the text in go-yaml's pieces. A piece with an encoding error is not returned.
pub struct TextPieces<'a> {
    text: &'a str,
    /// The start of the current piece.
    start: usize,
    /// How many bytes of the piece have been read.
    consumed: usize,
    /// The length of the piece.
    length: usize,
    /// Whether the piece contains the encoding error after the text.
    faulty: bool,
    source: &'a DecodedText,
}

impl<'a> TextPieces<'a> {
    /// Starts with the first piece of the text up to its encoding error, if there is one.
    pub fn new(source: &'a DecodedText) -> Self {
        let mut pieces = Self { text: &source.text, start: 0, consumed: 0, length: 0, faulty: false, source };
        let mark = match (source.byte_order_mark, source.utf16) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => 0,
        };
        pieces.cut(PIECE - mark);
        pieces
    }

    /// Cuts the next piece: the part of the text that is this many bytes of the file. A character that does not fit
    /// belongs to the following piece.
    fn cut(&mut self, bytes: usize) {
        self.start += self.length;
        (self.consumed, self.length) = (0, 0);
        let rest = self.text.get(self.start..).unwrap_or_default();
        let mut left = bytes;
        for character in rest.chars() {
            let width = if self.source.utf16 { 2 * character.len_utf16() } else { character.len_utf8() };
            if width > left {
                return;
            }
            left -= width;
            self.length += character.len_utf8();
        }
        let fault = self.source.fault.as_ref();
        self.faulty = left > 0 && fault.is_some_and(|fault| self.length == 0 || !fault.is_the_end());
    }
}

impl Read for TextPieces<'_> {
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

impl BufRead for TextPieces<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed >= self.length {
            self.cut(PIECE);
        }
        if self.faulty {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let piece = self.text.get(self.start + self.consumed..self.start + self.length);
        Ok(piece.unwrap_or_default().as_bytes())
    }

    fn consume(&mut self, amount: usize) {
        self.consumed = self.consumed.saturating_add(amount).min(self.length);
    }
}
