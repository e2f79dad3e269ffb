//! Reads strict JSON with positions, with the rules of Go's decoder.

use std::sync::Arc;

use super::map_builder::MapBuilder;
use super::{KEPT_DEPTH, MAX_DEPTH, MAX_NODES, MAX_NOTES, SyntaxError, SyntaxFault};
use crate::manifests::report::{DuplicateKey, ReaderNotes};
use crate::manifests::tree::{ManifestNode, Map, MapEntry, Position, Value};

/// Reads one JSON value. Anything after the value is an error.
pub fn read(text: &str, notes: &mut ReaderNotes) -> Result<ManifestNode, SyntaxError> {
    let mut reader = JsonReader { rest: text, position: Position::START, nodes: 0, notes };
    let root = reader.document()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(root),
        Some(character) => {
            Err(reader.fault(&format!("{} after the end of the JSON object", describe(character))))
        }
    }
}

struct JsonReader<'a, 'n> {
    rest: &'a str,
    position: Position,
    nodes: usize,
    notes: &'n mut ReaderNotes,
}

/// A collection whose end has not been read.
enum OpenJson {
    List { position: Position, items: Vec<ManifestNode> },
    Map { position: Position, entries: MapBuilder, key: (Arc<str>, Position) },
}

impl JsonReader<'_, '_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        if character == '\n' {
            self.position.line = self.position.line.saturating_add(1);
            self.position.column = 1;
        } else {
            self.position.column = self.position.column.saturating_add(1);
        }
        Some(character)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n')) {
            self.next();
        }
    }

    fn fault(&self, what: &str) -> SyntaxError {
        let fix = match self.peek() {
            Some('/' | '#') => "remove the comment: JSON has none, or write the file as YAML",
            Some('}' | ']') => "remove the trailing comma",
            _ => "write valid JSON, or YAML that does not start with `{`",
        };
        SyntaxError {
            fault: SyntaxFault::Json,
            reason: format!("couldn't get version/kind; json parse error: {what}"),
            message: format!("a file that starts with `{{` is read as JSON, and this is not JSON: {what}"),
            fix: Some(fix.to_owned()),
            position: Some(self.position),
        }
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let what = self.peek().map_or_else(
            || format!("the file ends where {wanted} is expected"),
            |found| format!("{} where {wanted} is expected", describe(found)),
        );
        self.fault(&what)
    }

    fn document(&mut self) -> Result<ManifestNode, SyntaxError> {
        let mut open: Vec<OpenJson> = Vec::new();
        loop {
            let Some(mut value) = self.value_or_opening(&mut open)? else { continue };
            // A finished value may be the last of any number of open collections.
            loop {
                let depth = open.len();
                let Some(top) = open.pop() else { return Ok(value) };
                match self.add(top, value, depth)? {
                    ObjectState::Open(top) => {
                        open.push(top);
                        break;
                    }
                    ObjectState::Closed(finished) => value = finished,
                }
            }
        }
    }

    /// Reads a scalar or an empty collection, or opens a collection and returns `None`.
    fn value_or_opening(&mut self, open: &mut Vec<OpenJson>) -> Result<Option<ManifestNode>, SyntaxError> {
        self.skip_space();
        let position = self.position;
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let what = "more than 500000 values in one file: what the kubelet makes of it is not judged here";
            return Err(SyntaxError {
                fault: SyntaxFault::TooLarge,
                message: what.to_owned(),
                fix: None,
                reason: String::new(),
                position: Some(self.position),
            });
        }
        if open.len() >= MAX_DEPTH && matches!(self.peek(), Some('{' | '[')) {
            return Err(self.fault("nested more than 10000 levels deep"));
        }
        match self.peek() {
            Some('{') => {
                self.next();
                self.skip_space();
                if self.peek() == Some('}') {
                    self.next();
                    return Ok(Some(ManifestNode::new(position, Value::Map(Arc::default()))));
                }
                let key = self.key()?;
                open.push(OpenJson::Map { position, entries: MapBuilder::default(), key });
            }
            Some('[') => {
                self.next();
                self.skip_space();
                if self.peek() == Some(']') {
                    self.next();
                    return Ok(Some(ManifestNode::new(position, Value::List(Arc::default()))));
                }
                open.push(OpenJson::List { position, items: Vec::new() });
            }
            _ => return self.scalar(position).map(Some),
        }
        Ok(None)
    }

    fn add(&mut self, top: OpenJson, value: ManifestNode, depth: usize) -> Result<ObjectState, SyntaxError> {
        self.skip_space();
        let kept = depth <= KEPT_DEPTH;
        match top {
            OpenJson::List { position, mut items } => {
                if kept {
                    items.push(value);
                }
                match self.peek() {
                    Some(',') => {
                        self.next();
                        Ok(ObjectState::Open(OpenJson::List { position, items }))
                    }
                    Some(']') => {
                        self.next();
                        Ok(ObjectState::Closed(ManifestNode::new(position, Value::List(Arc::new(items)))))
                    }
                    _ => Err(self.unexpected("`,` or `]`")),
                }
            }
            OpenJson::Map { position, mut entries, key: (key, key_position) } => {
                if kept {
                    self.insert(&mut entries, MapEntry { key, key_position, value });
                }
                match self.peek() {
                    Some(',') => {
                        self.next();
                        self.skip_space();
                        let key = self.key()?;
                        Ok(ObjectState::Open(OpenJson::Map { position, entries, key }))
                    }
                    Some('}') => {
                        self.next();
                        Ok(ObjectState::Closed(ManifestNode::new(
                            position,
                            Value::Map(Arc::new(entries.finish())),
                        )))
                    }
                    _ => Err(self.unexpected("`,` or `}`")),
                }
            }
        }
    }

    /// Inserts an entry. Go decodes a repeated object into the existing one, so the fields of both count, and later
    /// fields replace earlier ones.
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
            let merged = overlay(before, after);
            let value = ManifestNode::new(entry.value.position, Value::Map(Arc::new(merged)));
            entries.insert(MapEntry { value, ..entry });
        } else {
            entries.keep_replaced([old]);
        }
    }

    fn key(&mut self) -> Result<(Arc<str>, Position), SyntaxError> {
        let position = self.position;
        if self.peek() != Some('"') {
            return Err(self.unexpected("a quoted key"));
        }
        let key = self.string()?;
        self.skip_space();
        if self.peek() != Some(':') {
            return Err(self.unexpected("`:`"));
        }
        self.next();
        Ok((Arc::from(key), position))
    }

    fn scalar(&mut self, position: Position) -> Result<ManifestNode, SyntaxError> {
        match self.peek() {
            Some('"') => Ok(ManifestNode::string(position, &self.string()?)),
            Some('-' | '0'..='9') => self.number(position),
            _ => {
                for (word, value) in
                    [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
                {
                    if self.rest.starts_with(word) {
                        word.chars().for_each(|_| {
                            self.next();
                        });
                        return Ok(ManifestNode::new(position, value));
                    }
                }
                Err(self.unexpected("a value"))
            }
        }
    }

    fn number(&mut self, position: Position) -> Result<ManifestNode, SyntaxError> {
        let mut text = String::new();
        if self.peek() == Some('-') {
            text.extend(self.next());
        }
        if self.peek() == Some('0') {
            text.extend(self.next());
            if matches!(self.peek(), Some('0'..='9')) {
                return Err(self.fault("a number with a leading zero"));
            }
        } else {
            self.digits(&mut text)?;
        }
        let mut integer = true;
        if self.peek() == Some('.') {
            integer = false;
            text.extend(self.next());
            self.digits(&mut text)?;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            integer = false;
            text.extend(self.next());
            if matches!(self.peek(), Some('+' | '-')) {
                text.extend(self.next());
            }
            self.digits(&mut text)?;
        }
        let whole = if integer { text.parse::<i128>().ok() } else { None };
        let value = whole.map_or_else(|| Value::Float(text.parse().unwrap_or(f64::MAX)), Value::Int);
        Ok(ManifestNode { position, value, written: Some(Arc::from(text)) })
    }

    fn digits(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        if !matches!(self.peek(), Some('0'..='9')) {
            return Err(self.unexpected("a digit"));
        }
        while matches!(self.peek(), Some('0'..='9')) {
            text.extend(self.next());
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(text);
                }
                Some('\\') => {
                    self.next();
                    self.escape(&mut text)?;
                }
                Some(character) if character >= ' ' => {
                    text.push(character);
                    self.next();
                }
                Some(_) => return Err(self.fault("a control character inside a string")),
                None => return Err(self.fault("the file ends inside a string")),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let plain = match self.peek() {
            Some(character @ ('"' | '\\' | '/')) => character,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                self.next();
                return self.unicode_escape(text);
            }
            _ => return Err(self.unexpected("an escape")),
        };
        self.next();
        text.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let first = self.four_hex()?;
        if let Some(character) = char::from_u32(first) {
            text.push(character);
            return Ok(());
        }
        // A surrogate pair consists of two escapes. A lone surrogate is replaced, as in Go.
        let (rest, position) = (self.rest, self.position);
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            self.next();
            self.next();
            let second = self.four_hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            (self.rest, self.position) = (rest, position);
        }
        text.push(char::REPLACEMENT_CHARACTER);
        Ok(())
    }

    fn four_hex(&mut self) -> Result<u32, SyntaxError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|character| character.to_digit(16)) else {
                return Err(self.unexpected("a hexadecimal digit"));
            };
            self.next();
            code = code * 16 + digit;
        }
        Ok(code)
    }
}

enum ObjectState {
    Open(OpenJson),
    Closed(ManifestNode),
}

fn overlay(before: &Map, after: &Map) -> Map {
    let mut merged = MapBuilder::default();
    for entry in before.entries().iter().chain(after.entries()) {
        if let Some(old) = merged.insert(entry.clone()) {
            merged.keep_replaced([old]);
        }
    }
    merged.keep_replaced(before.replaced().iter().chain(after.replaced()).cloned());
    merged.finish()
}

fn describe(character: char) -> String {
    format!("`{}`", character.escape_debug())
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
    fn nesting_is_limited_without_recursion() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&deep(9_999)).is_ok());
        assert!(parse(&deep(10_000)).is_err());
    }
}
