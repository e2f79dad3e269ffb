//! A document as JSON, for reading or for a stream.

use std::io::{self, Write};

use serde::Serialize;

/// Indented, over many lines.
pub fn pretty(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(Escaping { out: &mut *out, lead: false }, document)?;
    writeln!(out)
}

/// On one line.
pub fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(Escaping { out: &mut *out, lead: false }, document)?;
    writeln!(out)
}

/// The same as a text without the line's end; nothing for what cannot be JSON.
pub fn text(document: &impl Serialize) -> Option<String> {
    let mut out = Vec::new();
    line(document, &mut out).ok()?;
    out.pop();
    String::from_utf8(out).ok()
}

/// What the first byte of U+0080 to U+00BF is.
const LEAD: u8 = 0xc2;

/// Writes DEL and the control characters U+0080 to U+009F of JSON as escapes: JSON allows them as they are, and some
/// terminals obey them. They stand in texts only, where the escape means the same.
struct Escaping<'a> {
    out: &'a mut dyn Write,
    /// Whether the last byte was a [`LEAD`] that is not written yet.
    lead: bool,
}

impl Write for Escaping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.chunk_by(|one, other| is_plain(*one) && is_plain(*other)) {
            match (std::mem::take(&mut self.lead), piece) {
                (false, [LEAD]) => self.lead = true,
                (true, [control @ 0x80..=0x9f, rest @ ..]) => {
                    write!(self.out, "\\u{control:04x}")?;
                    self.out.write_all(rest)?;
                }
                (false, [0x7f]) => self.out.write_all(b"\\u007f")?,
                (lead, piece) => {
                    if lead {
                        self.out.write_all(&[LEAD])?;
                    }
                    self.out.write_all(piece)?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether a byte stands for itself, whatever is before it.
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0x7f | LEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_12_no_control_character_of_a_text_gets_out_as_it_is() {
        let text = "a\u{7f}b\u{9b}31m\u{85}\u{80}\u{9f}\u{a0}\u{c2}é\u{1b}ü\u{7f}\u{7f}x\u{9b}";
        let mut out = Vec::new();
        line(&text, &mut out).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert!(!json.trim_end().contains(char::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        // However the bytes come.
        let mut out = Vec::new();
        let mut escaping = Escaping { out: &mut out, lead: false };
        for byte in text.bytes().filter(|byte| *byte != 0x1b) {
            escaping.write_all(&[byte]).unwrap();
        }
        let one_by_one = String::from_utf8(out).unwrap();
        assert!(!one_by_one.contains(char::is_control), "{one_by_one:?}");
    }
}
