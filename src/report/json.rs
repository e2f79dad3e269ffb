//! A document as JSON, for reading or for a stream.
//!
//! Every document goes through one and the same writer of serde's, however it is to look: what is indented is indented
//! on its way out. A second writer for each type of report would be a tenth of the program.

use std::io::{self, Write};

use serde::Serialize;

use super::escape::is_hostile;

/// Indented, over many lines.
pub fn pretty(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    line(document, &mut Indenting { out, depth: 0, place: Place::Value })
}

/// On one line.
pub fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(Escaping { out: &mut *out, held: Vec::new() }, document)?;
    writeln!(out)
}

/// The same as a text without the line's end; nothing for what cannot be JSON.
pub fn text(document: &impl Serialize) -> Option<String> {
    let mut out = Vec::new();
    line(document, &mut out).ok()?;
    out.pop();
    String::from_utf8(out).ok()
}

/// Where in a document the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Between texts.
    Value,
    /// Behind the bracket that opens a list or an object, of which nobody knows yet whether it is empty.
    Opened,
    /// In a text.
    Text,
    /// In a text, behind a backslash.
    Escape,
}

/// Puts JSON that comes without blanks on lines of its own, as serde does it.
struct Indenting<'a> {
    out: &'a mut dyn Write,
    depth: usize,
    place: Place,
}

impl Indenting<'_> {
    fn new_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| self.out.write_all(b"  "))
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        let closes = matches!(byte, b']' | b'}');
        match (self.place, byte) {
            (Place::Escape, _) => self.place = Place::Text,
            (Place::Text, b'\\') => self.place = Place::Escape,
            (Place::Text, b'"') => self.place = Place::Value,
            (Place::Text, _) => {}
            (place, _) => {
                self.depth -= usize::from(closes && self.depth > 0);
                if closes != (place == Place::Opened) {
                    self.new_line()?;
                }
                self.place = match byte {
                    b'"' => Place::Text,
                    b'[' | b'{' => {
                        self.depth += 1;
                        Place::Opened
                    }
                    _ => Place::Value,
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

impl Write for Indenting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Most of it is text, of which most stands for itself.
        let stays = |byte: &u8| !matches!(byte, b'"' | b'\\');
        for piece in bytes.chunk_by(|one, other| stays(one) && stays(other)) {
            match (self.place, piece) {
                (Place::Text, [first, ..]) if stays(first) => self.out.write_all(piece)?,
                _ => piece.iter().try_for_each(|byte| self.byte(*byte))?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes characters of JSON as escapes that it allows as they are and that are not plainly visible: some terminals obey
/// DEL and the control characters U+0080 to U+009F, and others reorder, hide or break what is around them. They stand in
/// texts only, where the escape means the same.
struct Escaping<'a> {
    out: &'a mut dyn Write,
    /// The bytes so far of a character that may be one of them.
    held: Vec<u8>,
}

impl Escaping<'_> {
    /// Writes the character that is held, if it is whole.
    fn release(&mut self) -> io::Result<()> {
        let length = match self.held.first() {
            Some(0x7f) => 1,
            Some(0xc2 | 0xd8) => 2,
            Some(0xf3) => 4,
            _ => 3,
        };
        if self.held.len() < length {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        match std::str::from_utf8(&held).ok().and_then(|text| text.chars().next()) {
            Some(hostile) if is_hostile(hostile) => {
                let mut units = [0; 2];
                hostile.encode_utf16(&mut units).iter().try_for_each(|unit| write!(self.out, "\\u{unit:04x}"))
            }
            _ => self.out.write_all(&held),
        }
    }
}

impl Write for Escaping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if self.held.is_empty() && is_plain(*first) {
                let length = rest.iter().take_while(|byte| is_plain(**byte)).count();
                let (plain, after) = rest.split_at(length);
                self.out.write_all(plain)?;
                rest = after;
            } else {
                self.held.push(*first);
                self.release()?;
                rest = after;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether no character begins with this byte that is written as an escape.
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe1 | 0xe2 | 0xef | 0xf3)
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Documents of such leaves, besides what every document has, and of such names.
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

    fn text() -> impl Strategy<Value = Value> {
        "[a-z\\[\\]{},:\"\\\\ \n]{0,9}".prop_map(Into::into)
    }

    proptest! {
        #[test]
        fn what_is_indented_looks_as_serde_has_it(document in documents(text(), "[a-z\"{]{0,3}")) {
            let mut out = Vec::new();
            pretty(&document, &mut out).unwrap();
            let expected = format!("{}\n", serde_json::to_string_pretty(&document).unwrap());
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn no_control_character_of_a_text_gets_out_as_it_is() {
        let text = "a\u{7f}b\u{9b}31m\u{85}\u{80}\u{9f}\u{a0}\u{c2}é\u{1b}ü\u{7f}\u{7f}x\u{9b}";
        let mut out = Vec::new();
        line(&text, &mut out).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert!(!json.trim_end().contains(char::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        // However the bytes come.
        let mut out = Vec::new();
        let mut escaping = Escaping { out: &mut out, held: Vec::new() };
        for byte in text.bytes().filter(|byte| *byte != 0x1b) {
            escaping.write_all(&[byte]).unwrap();
        }
        let one_by_one = String::from_utf8(out).unwrap();
        assert!(!one_by_one.contains(char::is_control), "{one_by_one:?}");
    }

    #[test]
    fn no_character_that_reorders_or_hides_text_gets_out_as_it_is() {
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
