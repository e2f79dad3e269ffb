//! Writes a document as YAML, with the same fields in the same order as in JSON: converts the indented JSON text line by
//! line.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Deserializer;

use super::json;
use crate::report::escape::is_hostile;

/// Words that YAML 1.1 or 1.2 reads as something other than text, so they need quotes.
const RESERVED_WORDS: [&str; 12] =
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "undefined"];

/// Writes `document` as one YAML document.
pub fn write(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let json = String::from_utf8(json::pretty_bytes(document)?).map_err(io::Error::other)?;
    // What is between the last value and the next one, if not a line break.
    let mut space = Some("");
    for line in json.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let content = content.strip_suffix(',').unwrap_or(content);
        if matches!(content, "}" | "]") {
            continue;
        }
        match space.take() {
            Some(space) => out.write_all(space.as_bytes())?,
            // JSON indents what is in the document itself, YAML does not.
            None => write!(out, "\n{:indent$}", "", indent = indent.saturating_sub(2))?,
        }
        let (key, value) = key_and_value(content);
        let (mark, before_value) = match &key {
            Some(key) => (format!("{}:", plain_or_quoted(key)), " "),
            None if indent > 0 => ("-".to_owned(), " "),
            None => (String::new(), ""),
        };
        out.write_all(mark.as_bytes())?;
        if matches!(value, "{" | "[") {
            space = key.is_none().then_some(before_value);
        } else {
            write!(out, "{before_value}{}", scalar(value)?)?;
        }
    }
    writeln!(out)
}

/// Returns the key of a line of indented JSON, if it has one, and the value or its beginning.
fn key_and_value(line: &str) -> (Option<String>, &str) {
    let mut texts = Deserializer::from_str(line).into_iter::<String>();
    let key = texts.next().and_then(Result::ok);
    match line.get(texts.byte_offset()..).and_then(|rest| rest.strip_prefix(": ")) {
        Some(value) if key.is_some() => (key, value),
        _ => (None, line),
    }
}

/// Converts a value that is neither a list nor a map, or that is empty.
fn scalar(value: &str) -> io::Result<String> {
    let text = || serde_json::from_str::<String>(value).map(|text| plain_or_quoted(&text));
    Ok(if value.starts_with('"') { text()? } else { value.to_owned() })
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
