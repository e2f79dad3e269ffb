//! Writes a document as YAML, with the same fields in the same order as in JSON: converts the compact JSON text token
//! by token.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::json;
use crate::report::escape::is_hostile;

/// Words that YAML 1.1 or 1.2 reads as something other than text, so they need quotes.
const RESERVED_WORDS: [&str; 12] =
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "undefined"];

/// Writes `document` as one YAML document.
pub fn write(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let text = json::text(document).ok_or(io::ErrorKind::InvalidData)?;
    let mut yaml = Yaml { out: &mut *out, last: LastWritten::Start, open: Vec::new(), key_is_next: false };
    let mut rest = text.as_str();
    while let Some((token, more)) = rest.split_at_checked(length_of_token(rest)).filter(|_| !rest.is_empty())
    {
        yaml.token(token)?;
        rest = more;
    }
    writeln!(out)
}

/// Returns the length of the first token of compact JSON.
fn length_of_token(text: &str) -> usize {
    match text.as_bytes().first() {
        Some(b'"') => {
            let mut escaped = false;
            let ends = |byte: u8| {
                let end = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                end
            };
            text.bytes().skip(1).position(ends).map_or(text.len(), |end| end + 2)
        }
        Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => 1,
        _ => text.find([',', ']', '}']).unwrap_or(text.len()),
    }
}

/// What was written last; it decides what separates the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWritten {
    /// Nothing.
    Start,
    /// A key with its colon, or a whole value.
    KeyOrValue,
    /// The dash of a list.
    Dash,
}

/// A list or map whose end has not been reached.
#[derive(Clone, Copy, Debug)]
struct Open {
    is_map: bool,
    /// Whether an item or key was written.
    filled: bool,
}

/// Converts the tokens of JSON into block YAML.
struct Yaml<'a> {
    out: &'a mut dyn Write,
    last: LastWritten,
    open: Vec<Open>,
    /// Whether the next text is a key.
    key_is_next: bool,
}

impl Yaml<'_> {
    /// Converts one token of the JSON text.
    fn token(&mut self, token: &str) -> io::Result<()> {
        match token {
            ":" => Ok(()),
            "," => {
                self.key_is_next = self.open.last().is_some_and(|open| open.is_map);
                Ok(())
            }
            "}" | "]" => {
                self.key_is_next = false;
                let empty = self.open.pop().is_some_and(|open| !open.filled);
                if empty { self.scalar(if token == "}" { "{}" } else { "[]" }) } else { Ok(()) }
            }
            _ => {
                let text = || serde_json::from_str::<String>(token).map(|text| plain_or_quoted(&text));
                let scalar = if token.starts_with('"') { text()? } else { token.to_owned() };
                if std::mem::take(&mut self.key_is_next) {
                    self.item()?;
                    self.last = LastWritten::KeyOrValue;
                    return write!(self.out, "{scalar}:");
                }
                if self.open.last().is_some_and(|open| !open.is_map) {
                    self.item()?;
                    self.last = LastWritten::Dash;
                    self.out.write_all(b"-")?;
                }
                if matches!(token, "{" | "[") {
                    self.key_is_next = token == "{";
                    self.open.push(Open { is_map: self.key_is_next, filled: false });
                    return Ok(());
                }
                self.scalar(&scalar)
            }
        }
    }

    /// Writes a scalar, an empty list or an empty map.
    fn scalar(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(if self.last == LastWritten::Start { b"" } else { b" " })?;
        self.last = LastWritten::KeyOrValue;
        self.out.write_all(text.as_bytes())
    }

    /// Begins a line for the next item or key. The first item or key after a dash continues the line of the dash.
    fn item(&mut self) -> io::Result<()> {
        let first = self.open.last_mut().is_some_and(|open| !std::mem::replace(&mut open.filled, true));
        match self.last {
            LastWritten::Dash if first => self.out.write_all(b" "),
            LastWritten::Start if first => Ok(()),
            _ => {
                self.out.write_all(b"\n")?;
                (1..self.open.len()).try_for_each(|_| self.out.write_all(b"  "))
            }
        }
    }
}

fn plain_or_quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether the text needs no quotes: it starts with a letter, contains only harmless characters, and is no reserved
/// word.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./ ".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.bytes().all(plain)
        && !RESERVED_WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Quotes text; characters that control a terminal are escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            hostile if is_hostile(hostile) => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(hostile));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::testing::documents;
    use plegctl_go_yaml::{EventKind, YamlParser, decode};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn written(document: &Value) -> String {
        let mut out = Vec::new();
        write(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn yaml_has_no_unnecessary_quotes_or_line_breaks() {
        let document = json!({
            "apiVersion": "plegctl/v1",
            "kind": "RelistReport",
            "none": [],
            "nothing": {},
            "pods": [{ "containers": [{ "id": "c1" }, { "id": "0" }], "name": "web-0" }, "alone", [1, [true]]],
            "seconds": 1.5,
        });
        let text = "apiVersion: plegctl/v1\nkind: RelistReport\nnone: []\nnothing: {}\npods:\n  - containers:\n      - id: c1\n      \
                    - id: \"0\"\n    name: web-0\n  - alone\n  - - 1\n    - - true\nseconds: 1.5\n";
        assert_eq!(written(&document), text);
    }

    /// Parses the YAML, to compare it with the original.
    fn read_back(text: &str) -> Value {
        let mut parser = YamlParser::new(decode(text.as_bytes()));
        let mut next = move || parser.next_event().unwrap().kind;
        assert_eq!(next(), EventKind::DocumentStart);
        value(next(), &mut next)
    }

    fn value(event: EventKind, next: &mut dyn FnMut() -> EventKind) -> Value {
        match event {
            EventKind::Scalar { value, plain: true, .. } => match value.as_str() {
                "null" => Value::Null,
                "true" => true.into(),
                "false" => false.into(),
                number if number.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
                    number.parse::<i64>().map_or_else(|_| number.parse::<f64>().unwrap().into(), Into::into)
                }
                text => text.into(),
            },
            EventKind::Scalar { value, .. } => value.into(),
            EventKind::SequenceStart { .. } => {
                let mut items = Vec::new();
                loop {
                    match next() {
                        EventKind::SequenceEnd => return items.into(),
                        event => items.push(value(event, next)),
                    }
                }
            }
            EventKind::MappingStart { .. } => {
                let mut entries = Map::new();
                loop {
                    match next() {
                        EventKind::MappingEnd => return entries.into(),
                        key => {
                            let Value::String(key) = value(key, next) else { panic!("a key is text") };
                            let event = next();
                            entries.insert(key, value(event, next));
                        }
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn leaves() -> impl Strategy<Value = Value> {
        prop_oneof![
            (-1000_i32..1000).prop_map(|number| (f64::from(number) + 0.5).into()),
            "\\PC*|[a-z:# -]{0,9}|true|null|NaN|-|~|0x1|\u{7}\u{85}\u{9b}".prop_map(Into::into),
        ]
    }

    proptest! {
        #[test]
        fn parsing_the_yaml_gives_the_document_back(document in documents(leaves(), "[a-z.: ]{1,9}|no")) {
            let text = written(&document);
            prop_assert_eq!(read_back(&text), document, "{}", text);
        }
    }

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(
            written(&json!({ "name": "a\u{1b}[2J\u{9b}\u{202e}" })),
            "name: \"a\\U0000001B[2J\\U0000009B\\U0000202E\"\n"
        );
    }
}
