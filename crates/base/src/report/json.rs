//! Writes documents as JSON, on one line or indented.

use std::io::{self, Write};

use serde::Serialize;

use super::escape::is_hostile;

/// Returns what is wrong with JSON text, without the position.
pub fn without_position(why: &serde_json::Error) -> String {
    let mut text = why.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

/// Writes a document on one line.
pub fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(EscapingWriter { out: &mut *out, pending: Vec::new() }, document)?;
    writeln!(out)
}

/// Writes an indented document.
pub fn pretty(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(EscapingWriter { out: &mut *out, pending: Vec::new() }, document)?;
    writeln!(out)
}

/// Returns an indented document.
pub fn pretty_bytes(document: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pretty(document, &mut bytes)?;
    Ok(bytes)
}

/// Returns a document as one line of text without a line break; `None` if it cannot be JSON.
pub fn text(document: &impl Serialize) -> Option<String> {
    text_of_at_most(document, usize::MAX)
}

/// Returns a document as [`text`] does; `None` if it has more than `largest` bytes. Writes no more than these.
pub fn text_of_at_most(document: &impl Serialize, largest: usize) -> Option<String> {
    // The line break counts while the line is written.
    let mut out = LimitedText { text: Vec::new(), largest: largest.saturating_add(1) };
    line(document, &mut out).ok()?;
    out.text.pop();
    String::from_utf8(out.text).ok()
}

/// A text that refuses what makes it longer than a limit.
struct LimitedText {
    text: Vec<u8>,
    largest: usize,
}

impl Write for LimitedText {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.largest.saturating_sub(self.text.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes the characters that JSON allows in strings but that can mislead a reader of a terminal: control characters
/// (DEL and U+0080 to U+009F), which a terminal may execute, and characters that reorder, hide or break text. They
/// occur only in strings, where the escape has the same meaning.
struct EscapingWriter<'a> {
    out: &'a mut dyn Write,
    /// The first bytes of an incomplete character that may have to be escaped.
    pending: Vec<u8>,
}

impl EscapingWriter<'_> {
    /// Writes the pending character, if it is complete.
    fn write_pending(&mut self) -> io::Result<()> {
        // UTF-8 needs so many bytes for a character that begins with this byte.
        let length = match self.pending.first() {
            Some(0x7f) => 1,
            Some(0xc2 | 0xd8) => 2,
            Some(0xf3) => 4,
            _ => 3,
        };
        if self.pending.len() < length {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        match std::str::from_utf8(&pending).ok().and_then(|text| text.chars().next()) {
            Some(hostile) if is_hostile(hostile) => {
                let mut units = [0; 2];
                hostile.encode_utf16(&mut units).iter().try_for_each(|unit| write!(self.out, "\\u{unit:04x}"))
            }
            _ => self.out.write_all(&pending),
        }
    }
}

impl Write for EscapingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if self.pending.is_empty() && is_plain(*first) {
                let length = rest.iter().take_while(|byte| is_plain(**byte)).count();
                let (plain, after) = rest.split_at(length);
                self.out.write_all(plain)?;
                rest = after;
            } else {
                self.pending.push(*first);
                self.write_pending()?;
                rest = after;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether a byte can be written without a look at the bytes after it. The other bytes are the first bytes of the
/// hostile characters in UTF-8: DEL (0x7f), U+0080 to U+009F and U+00AD (0xc2), U+061C (0xd8), U+180E (0xe1), U+200B to
/// U+206F (0xe2), U+FEFF and U+FFF9 to U+FFFB (0xef), U+E0000 to U+E007F (0xf3).
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe1 | 0xe2 | 0xef | 0xf3)
}

/// Generators of documents for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use proptest::prelude::*;
    use serde_json::Value;

    /// Generates documents. Their leaves are null, Booleans, integers and `leaves`; the keys of their objects match the
    /// pattern `names`.
    pub fn documents(
        leaves: impl Strategy<Value = Value> + 'static,
        names: &'static str,
    ) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            leaves,
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(names, inner, 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn text_over_its_limit_is_none_and_is_not_written_further() {
        assert_eq!(text_of_at_most(&"abc", 5), Some("\"abc\"".to_owned()));
        assert_eq!(text_of_at_most(&"abc", 4), None);
        let mut out = LimitedText { text: Vec::new(), largest: 3 };
        assert!(out.write_all(b"ab").is_ok() && out.write_all(b"cd").is_err());
        assert_eq!(out.text, b"ab");
    }

    #[test]
    fn every_control_character_in_json_is_escaped() {
        let text = "a\u{7f}b\u{9b}31m\u{85}\u{80}\u{9f}\u{a0}\u{c2}é\u{1b}ü\u{7f}\u{7f}x\u{9b}";
        let mut out = Vec::new();
        line(&text, &mut out).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert!(!json.trim_end().contains(char::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        // The result does not depend on how the bytes are divided into writes. Without ESC (0x1b): serde_json escapes
        // it before this writer gets it.
        let mut out = Vec::new();
        let mut escaping = EscapingWriter { out: &mut out, pending: Vec::new() };
        for byte in text.bytes().filter(|byte| *byte != 0x1b) {
            escaping.write_all(&[byte]).unwrap();
        }
        let one_by_one = String::from_utf8(out).unwrap();
        assert!(!one_by_one.contains(char::is_control), "{one_by_one:?}");
    }

    #[test]
    fn every_reordering_or_hiding_character_in_json_is_escaped() {
        let all: String = ('\u{0}'..=char::MAX).filter(|letter| is_hostile(*letter)).collect();
        assert!(['\u{200f}', '\u{61c}', '\u{2028}', '\u{feff}'].iter().all(|letter| all.contains(*letter)));
        let text = format!("a{all}é…漢\u{f3}\u{e2}\u{1f600}{all}z");
        let mut out = Vec::new();
        line(&text, &mut out).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert!(!json.trim_end().contains(is_hostile), "{json:?}");
        assert!(json.contains("é…漢\u{f3}\u{e2}\u{1f600}"), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
