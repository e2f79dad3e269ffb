//! Hands the text to the scanner.

use std::io::{self, BufRead, Read};

use super::encoding::Source;

/// Bytes of the file that go-yaml reads at a time (`input_raw_buffer_size` in readerc.go).
const PIECE: usize = 512;

/// Hands the text out in go-yaml's pieces; a piece with a fault in it is not handed out.
pub struct Feed<'a> {
    text: &'a str,
    /// Where the piece starts that is handed out now.
    given: usize,
    /// How much of that piece has been taken.
    taken: usize,
    /// How long the piece is.
    piece: usize,
    /// The piece holds what comes after the text, which is none.
    faulty: bool,
    source: &'a Source,
}

impl<'a> Feed<'a> {
    /// The whole text, up to its fault if there is one.
    pub fn new(source: &'a Source) -> Self {
        let mut feed = Self { text: &source.text, given: 0, taken: 0, piece: 0, faulty: false, source };
        let mark = match (source.byte_order_mark, source.utf16) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => 0,
        };
        feed.cut(PIECE - mark);
        feed
    }

    /// The next piece: as much of the text as makes so many bytes of the file. A character that does not fit is left
    /// for the one after.
    fn cut(&mut self, bytes: usize) {
        self.given += self.piece;
        (self.taken, self.piece) = (0, 0);
        let rest = self.text.get(self.given..).unwrap_or_default();
        let mut left = bytes;
        for character in rest.chars() {
            let width = if self.source.utf16 { 2 * character.len_utf16() } else { character.len_utf8() };
            if width > left {
                return;
            }
            left -= width;
            self.piece += character.len_utf8();
        }
        let fault = self.source.fault.as_ref();
        self.faulty = left > 0 && fault.is_some_and(|fault| self.piece == 0 || !fault.is_the_end());
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
        if self.taken >= self.piece {
            self.cut(PIECE);
        }
        if self.faulty {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let piece = self.text.get(self.given + self.taken..self.given + self.piece);
        Ok(piece.unwrap_or_default().as_bytes())
    }

    fn consume(&mut self, amount: usize) {
        self.taken = self.taken.saturating_add(amount).min(self.piece);
    }
}
