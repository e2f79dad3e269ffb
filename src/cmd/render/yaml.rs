//! A document as YAML: the same fields in the same order as in JSON.
//!
//! Made of what serde's JSON writer says piece by piece, so that there is one way from a report to its fields.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use crate::report::escape::is_hostile;

/// Words that YAML 1.1 or 1.2 reads as something else than text.
const TAKEN: [&str; 12] =
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "undefined"];

/// Writes `document` as one YAML document.
pub fn write(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    document.serialize(&mut Serializer::with_formatter(&mut *out, Yaml::default()))?;
    writeln!(out)
}

/// What was written last, which decides what has to come before the next value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behind {
    /// Nothing.
    #[default]
    Start,
    /// A key and its colon.
    Key,
    /// The dash of a list.
    Dash,
}

/// Turns the pieces of JSON into block YAML.
#[derive(Debug, Default)]
struct Yaml {
    behind: Behind,
    /// For each list and map that is open, whether something is in it.
    open: Vec<bool>,
    /// The text that is being written.
    text: String,
    in_key: bool,
}

impl Yaml {
    /// What separates a value on the same line from what is before it.
    fn space<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.behind == Behind::Start || self.in_key { b"" } else { b" " })
    }

    fn scalar<W: ?Sized + Write>(&self, writer: &mut W, text: &str) -> io::Result<()> {
        self.space(writer)?;
        writer.write_all(text.as_bytes())
    }

    /// Begins a line for the next item or key, unless it goes behind a dash.
    fn item<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let first = self.open.last_mut().is_some_and(|filled| !std::mem::replace(filled, true));
        match self.behind {
            Behind::Dash if first => writer.write_all(b" "),
            Behind::Start if first => Ok(()),
            _ => {
                writer.write_all(b"\n")?;
                (1..self.open.len()).try_for_each(|_| writer.write_all(b"  "))
            }
        }
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, empty: &str) -> io::Result<()> {
        match self.open.pop() {
            Some(false) => self.scalar(writer, empty),
            _ => Ok(()),
        }
    }
}

impl Formatter for Yaml {
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.scalar(writer, "null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, writer: &mut W, value: bool) -> io::Result<()> {
        self.scalar(writer, if value { "true" } else { "false" })
    }

    fn write_i32<W: ?Sized + Write>(&mut self, writer: &mut W, value: i32) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_i64<W: ?Sized + Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_u8<W: ?Sized + Write>(&mut self, writer: &mut W, value: u8) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_u16<W: ?Sized + Write>(&mut self, writer: &mut W, value: u16) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_u32<W: ?Sized + Write>(&mut self, writer: &mut W, value: u32) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.scalar(writer, &value.to_string())
    }

    fn write_number_str<W: ?Sized + Write>(&mut self, writer: &mut W, value: &str) -> io::Result<()> {
        self.scalar(writer, value)
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        });
        Ok(())
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        if is_plain(&text) { self.scalar(writer, &text) } else { self.scalar(writer, &quoted(&text)) }
    }

    fn begin_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.open.push(false);
        Ok(())
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, _: bool) -> io::Result<()> {
        self.item(writer)?;
        self.behind = Behind::Dash;
        writer.write_all(b"-")
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.behind = Behind::Key;
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, "[]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.open.push(false);
        Ok(())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, _: bool) -> io::Result<()> {
        self.item(writer)?;
        self.in_key = true;
        Ok(())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.in_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.behind = Behind::Key;
        writer.write_all(b":")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.behind = Behind::Key;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, "{}")
    }
}

/// Text that YAML reads as itself without quotes: a word or words that begin with a letter.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./ ".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.bytes().all(plain)
        && !TAKEN.contains(&text.to_ascii_lowercase().as_str())
}

/// Text in double quotes; what no terminal should get is spelled out.
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
    use libyaml_safer::{EventData, Parser, ScalarStyle};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn written(document: &Value) -> String {
        let mut out = Vec::new();
        write(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn it_reads_like_yaml_written_by_hand() {
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

    /// What a YAML reader makes of it.
    fn read_back(text: &str) -> Value {
        let mut input = text.as_bytes();
        let mut parser = Parser::new();
        parser.set_input_string(&mut input);
        let mut next = move || parser.parse().unwrap().data;
        loop {
            let event = next();
            if !matches!(event, EventData::StreamStart { .. } | EventData::DocumentStart { .. }) {
                return value(event, &mut next);
            }
        }
    }

    fn value(event: EventData, next: &mut dyn FnMut() -> EventData) -> Value {
        match event {
            EventData::Scalar { value, style: ScalarStyle::Plain, .. } => match value.as_str() {
                "null" => Value::Null,
                "true" => true.into(),
                "false" => false.into(),
                number if number.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
                    number.parse::<i64>().map_or_else(|_| number.parse::<f64>().unwrap().into(), Into::into)
                }
                text => text.into(),
            },
            EventData::Scalar { value, .. } => value.into(),
            EventData::SequenceStart { .. } => {
                let mut items = Vec::new();
                loop {
                    match next() {
                        EventData::SequenceEnd => return items.into(),
                        event => items.push(value(event, next)),
                    }
                }
            }
            EventData::MappingStart { .. } => {
                let mut entries = Map::new();
                loop {
                    match next() {
                        EventData::MappingEnd => return entries.into(),
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

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (-1000_i32..1000).prop_map(|number| (f64::from(number) + 0.5).into()),
            "\\PC*|[a-z:# -]{0,9}|true|null|NaN|-|~|0x1|\u{7}\u{85}\u{9b}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map("[a-z.: ]{1,9}|no", inner, 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_read(document in documents()) {
            let text = written(&document);
            prop_assert_eq!(read_back(&text), document, "{}", text);
        }
    }

    #[test]
    fn no_terminal_gets_what_it_should_not() {
        assert_eq!(
            written(&json!({ "name": "a\u{1b}[2J\u{9b}\u{202e}" })),
            "name: \"a\\U0000001B[2J\\U0000009B\\U0000202E\"\n"
        );
    }
}
