//! Reads strict JSON into a tree with positions, with the rules of Go's decoder.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::map_builder::MapBuilder;
use super::raw::too_many_values;
use super::{KEPT_DEPTH, MAX_DEPTH, MAX_NODES, MAX_NOTES, SyntaxError, SyntaxFault};
use crate::reader::{DuplicateKey, ReaderNotes};
use crate::tree::{ManifestNode, Map, MapEntry, Position, Value};
use plegctl_base::report::json;

/// Reads one JSON value. Anything after the value is an error.
pub fn read(text: &str, notes: &mut ReaderNotes) -> Result<ManifestNode, SyntaxError> {
    let whole: &RawValue = serde_json::from_str(text).map_err(|why| parser_error(text, &why))?;
    let extent = JsonExtent::measure(text);
    let start = Position::START;
    if extent.depth > MAX_DEPTH {
        return Err(json_error(start, "nested more than 10000 levels deep", WRITE_JSON));
    }
    if extent.values > MAX_NODES {
        return Err(too_many_values(start));
    }
    // The text is valid JSON, so reading its parts does not fail.
    let mut reader = JsonReader { text, offset: 0, position: start, notes };
    reader.node(whole, 0).map_err(|why| parser_error(text, &why))
}

/// The number of values in a valid JSON text, and the depth to which they are nested.
#[derive(Default)]
struct JsonExtent {
    values: usize,
    depth: usize,
}

impl JsonExtent {
    fn measure(text: &str) -> Self {
        let mut extent = Self { values: 1, depth: 0 };
        let (mut open, mut quoted, mut escaped) = (0_usize, false, false);
        for byte in text.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => {
                    open += 1;
                    extent.values += 1;
                    extent.depth = extent.depth.max(open);
                }
                b'}' | b']' => open = open.saturating_sub(1),
                b',' => extent.values += 1,
                _ => {}
            }
        }
        extent
    }
}

/// The fix for a file that is not JSON.
const WRITE_JSON: &str = "write valid JSON, or YAML that does not start with `{`";

fn json_error(position: Position, what: &str, fix: &str) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::Json,
        reason: format!("couldn't get version/kind; json parse error: {what}"),
        message: format!(
            "the file starts with `{{`, so the kubelet reads it as JSON, but it is not JSON: {what}"
        ),
        fix: Some(fix.to_owned()),
        position: Some(position),
    }
}

/// Converts an error of the JSON parser.
fn parser_error(text: &str, why: &serde_json::Error) -> SyntaxError {
    // The parser's column is a number of bytes, from one; a position has a number of characters.
    let line = text.split('\n').nth(why.line().saturating_sub(1)).unwrap_or_default();
    let before: Vec<char> =
        line.char_indices().take_while(|(at, _)| at + 1 < why.column()).map(|(_, letter)| letter).collect();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let position =
        Position { line: number(why.line().max(1)), column: number(before.len()).saturating_add(1) };
    let what = json::without_position(why);
    let fix = match line.chars().nth(before.len()) {
        Some('/' | '#') => "remove the comment, because JSON has no comments, or write the file as YAML",
        Some('}' | ']') => "remove the trailing comma",
        _ => WRITE_JSON,
    };
    json_error(position, &what, fix)
}

/// The keys and values of an object in their order, including repeated keys.
struct ObjectEntries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for ObjectEntries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = ObjectEntries<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(ObjectEntries(entries))
            }
        }
        from.deserialize_map(EntriesVisitor)
    }
}

struct JsonReader<'a, 'n> {
    text: &'a str,
    /// The number of bytes before `position`.
    offset: usize,
    /// The start of the last value or key that was read.
    position: Position,
    notes: &'n mut ReaderNotes,
}

impl JsonReader<'_, '_> {
    /// Returns the position of a part of the text. The parts must come in the order of the text.
    fn position(&mut self, part: &RawValue) -> Position {
        let start = part.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        for letter in self.text.get(self.offset..start).unwrap_or_default().chars() {
            if letter == '\n' {
                self.position.line = self.position.line.saturating_add(1);
                self.position.column = 1;
            } else {
                self.position.column = self.position.column.saturating_add(1);
            }
        }
        self.offset = start;
        self.position
    }

    /// Reads one value and the values in it.
    fn node(&mut self, raw: &RawValue, depth: usize) -> Result<ManifestNode, serde_json::Error> {
        let position = self.position(raw);
        let text = raw.get();
        let value = match text.bytes().next() {
            Some(b'{') if depth > KEPT_DEPTH => Value::Map(Arc::default()),
            Some(b'[') if depth > KEPT_DEPTH => Value::List(Arc::default()),
            Some(b'{') => {
                let mut entries = MapBuilder::default();
                for (key, value) in serde_json::from_str::<ObjectEntries<'_>>(text)?.0 {
                    let key_position = self.position(key);
                    let value = self.node(value, depth + 1)?;
                    let key = Arc::from(unescaped(key.get()));
                    self.insert(&mut entries, MapEntry { key, key_position, value });
                }
                Value::Map(Arc::new(entries.finish()))
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                let items = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::List(Arc::new(items.collect::<Result<_, _>>()?))
            }
            Some(b'"') => return Ok(ManifestNode::string(position, &unescaped(text))),
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'n') => Value::Null,
            _ => {
                let whole = if text.contains(['.', 'e', 'E']) { None } else { text.parse().ok() };
                let value = whole.map_or_else(|| Value::Float(text.parse().unwrap_or(f64::MAX)), Value::Int);
                return Ok(ManifestNode { position, value, written: Some(Arc::from(text)) });
            }
        };
        Ok(ManifestNode::new(position, value))
    }

    /// Inserts an entry. If a key is repeated and both values are objects, Go decodes the second object into the first:
    /// the result has the fields of both, and a later field replaces an earlier field.
    fn insert(&mut self, entries: &mut MapBuilder, entry: MapEntry) {
        let (key, again) = (Arc::clone(&entry.key), entry.key_position);
        let Some(old) = entries.insert(entry.clone()) else {
            return;
        };
        if self.notes.duplicate_keys.len() < MAX_NOTES {
            self.notes.duplicate_keys.push(DuplicateKey {
                key: key.to_string(),
                first: old.key_position,
                again,
            });
        }
        if let (Value::Map(before), Value::Map(after)) = (&old.value.value, &entry.value.value) {
            let merged = merged(before, after);
            let value = ManifestNode::new(entry.value.position, Value::Map(Arc::new(merged)));
            entries.insert(MapEntry { value, ..entry });
        } else {
            entries.keep_replaced([old]);
        }
    }
}

/// Returns the text of a valid JSON string. Like Go, replaces an unpaired surrogate by U+FFFD.
fn unescaped(quoted: &str) -> String {
    let body = quoted.strip_prefix('"').and_then(|body| body.strip_suffix('"')).unwrap_or_default();
    let mut units: Vec<u16> = Vec::with_capacity(body.len());
    let mut letters = body.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => match letters.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    units.extend(u16::from_str_radix(&digits, 16));
                    continue;
                }
                other => other.unwrap_or_default(),
            },
            plain => plain,
        };
        units.extend_from_slice(letter.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

/// Returns the fields of both mappings; a field of `after` replaces a field of `before`.
fn merged(before: &Map, after: &Map) -> Map {
    let mut merged = MapBuilder::default();
    for entry in before.entries().iter().chain(after.entries()) {
        if let Some(old) = merged.insert(entry.clone()) {
            merged.keep_replaced([old]);
        }
    }
    merged.keep_replaced(before.replaced().iter().chain(after.replaced()).cloned());
    merged.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ManifestNode, SyntaxError> {
        read(text, &mut ReaderNotes::default())
    }

    #[test]
    fn positions_count_lines_and_columns_from_one() {
        let root = parse("{\n  \"a\": [1, true]\n}").unwrap();
        let list = root.get("a").unwrap();
        assert_eq!(list.position, Position { line: 2, column: 8 });
        assert_eq!(list.as_list().unwrap()[1].position, Position { line: 2, column: 12 });
    }

    #[test]
    fn invalid_json_is_rejected() {
        for text in [
            "{} x",
            "{}{}",
            "{\"a\":1,}",
            "{\"a\":[1,]}",
            "{\"a\":01}",
            "{/*c*/}",
            "{a:1}",
            "{\"a\":1",
            "{\"a\" 1}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":.5}",
            "{\"a\":1.}",
            "{\"a\":tru}",
            "{\"a\":\"",
            "{",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn floats_without_a_fraction_stay_floats() {
        assert_eq!(parse("{\"a\":80.0}").unwrap().get("a").unwrap().value, Value::Float(80.0));
        assert_eq!(parse("{\"a\":-0}").unwrap().get("a").unwrap().value, Value::Int(0));
    }

    #[test]
    fn escapes_and_surrogates_become_characters() {
        let root = parse(r#"{"a":"\u0041\n\ud83d\ude00\ud800x"}"#).unwrap();
        assert_eq!(root.get("a").unwrap().as_str(), Some("A\n\u{1f600}\u{fffd}x"));
    }

    #[test]
    fn the_last_of_two_equal_keys_wins_and_objects_are_merged() {
        let root = parse(r#"{"a":1,"b":{"x":1,"y":1},"a":2,"b":{"y":2}}"#).unwrap();
        assert_eq!(root.get("a").unwrap().as_int(), Some(2));
        assert_eq!(root.get("b").unwrap().get("x").unwrap().as_int(), Some(1));
        assert_eq!(root.get("b").unwrap().get("y").unwrap().as_int(), Some(2));
    }

    #[test]
    fn nesting_is_limited_to_10000_levels() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&deep(9_999)).is_ok());
        assert!(parse(&deep(10_000)).is_err());
    }
}
