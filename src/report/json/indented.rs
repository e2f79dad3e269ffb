//! Writes documents as indented JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::line;

/// Writes an indented document: adds line breaks and blanks to the output of [`line`].
pub fn pretty(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    line(document, &mut IndentingWriter { out, depth: 0, state: TextState::OutsideString })
}

/// Where the next byte of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextState {
    /// Outside of a string, but not directly after an opening bracket.
    OutsideString,
    /// Directly after the opening bracket of a list or an object.
    Opened,
    /// In a string, but not after a backslash.
    Text,
    /// In a string, after a backslash.
    Escape,
}

/// Indents compact JSON in serde's format.
struct IndentingWriter<'a> {
    out: &'a mut dyn Write,
    depth: usize,
    state: TextState,
}

impl IndentingWriter<'_> {
    fn new_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| self.out.write_all(b"  "))
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        let closes = matches!(byte, b']' | b'}');
        match (self.state, byte) {
            (TextState::Escape, _) => self.state = TextState::Text,
            (TextState::Text, b'\\') => self.state = TextState::Escape,
            (TextState::Text, b'"') => self.state = TextState::OutsideString,
            (TextState::Text, _) => {}
            (state, _) => {
                self.depth -= usize::from(closes && self.depth > 0);
                // A line ends before a closing bracket, and before the first item after an opening bracket. In an empty
                // list or object, the closing bracket follows the opening one, and the line does not end.
                if closes != (state == TextState::Opened) {
                    self.new_line()?;
                }
                self.state = match byte {
                    b'"' => TextState::Text,
                    b'[' | b'{' => {
                        self.depth += 1;
                        TextState::Opened
                    }
                    _ => TextState::OutsideString,
                };
                self.out.write_all(&[byte])?;
                return match byte {
                    b',' => self.new_line(),
                    b':' => self.out.write_all(b" "),
                    _ => Ok(()),
                };
            }
        }
        self.out.write_all(&[byte])
    }
}

impl Write for IndentingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Most bytes are in strings, do not change the state, and are written together.
        let keeps_state = |byte: &u8| !matches!(byte, b'"' | b'\\');
        for piece in bytes.chunk_by(|one, other| keeps_state(one) && keeps_state(other)) {
            match (self.state, piece) {
                (TextState::Text, [first, ..]) if keeps_state(first) => self.out.write_all(piece)?,
                _ => piece.iter().try_for_each(|byte| self.byte(*byte))?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
