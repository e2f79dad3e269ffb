//! YAML as a tree in which everything knows where it stands.
//!
//! Less than YAML on purpose: no anchors, no tags, no second document, no key twice.

use libyaml_safer::{Event, EventData, Mark, Parser};

use super::error::Position;

/// Deeper than any scenario goes, and shallow enough for the stack.
const DEEPEST: usize = 16;

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Where it starts.
    pub at: Position,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text, a number, a word.
    Scalar(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, in their order.
    Map(Vec<(Key, Value)>),
}

/// A key and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where it stands.
    pub at: Position,
    /// The key.
    pub name: String,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where.
    pub at: Position,
    /// What.
    pub problem: String,
    /// What might have been meant.
    pub hint: Option<String>,
}

impl Wrong {
    /// Something is wrong at `at`.
    pub fn new(at: Position, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into(), hint: None }
    }
}

/// Reads the one document of `text`.
pub fn parse(text: &[u8]) -> Result<Value, Wrong> {
    let mut input = text;
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut reader = Reader { parser };
    let mut value = None;
    loop {
        let event = reader.next()?;
        match event.data {
            EventData::StreamStart { .. } | EventData::DocumentEnd { .. } => {}
            EventData::DocumentStart { .. } if value.is_none() => value = Some(reader.value(0)?),
            EventData::StreamEnd => break,
            _ => return Err(Wrong::new(position(event.start_mark), "a scenario is one document")),
        }
    }
    value.ok_or_else(|| Wrong::new(Position { line: 1, column: 1 }, "the file is empty"))
}

struct Reader<'r, 't> {
    parser: Parser<&'r mut &'t [u8]>,
}

impl Reader<'_, '_> {
    fn next(&mut self) -> Result<Event, Wrong> {
        self.parser.parse().map_err(|why| {
            let at = why.problem_mark().map_or(Position { line: 1, column: 1 }, position);
            Wrong::new(at, format!("this is not YAML: {}", why.problem()))
        })
    }

    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        let event = self.next()?;
        self.rest_of(event, depth)
    }

    /// The value that begins with `event`.
    fn rest_of(&mut self, event: Event, depth: usize) -> Result<Value, Wrong> {
        let at = position(event.start_mark);
        if depth > DEEPEST {
            return Err(Wrong::new(at, "this is nested too deeply"));
        }
        let kind = match event.data {
            EventData::Scalar { anchor: None, tag: None, value, .. } => Kind::Scalar(value),
            EventData::SequenceStart { anchor: None, tag: None, .. } => Kind::List(self.list(depth)?),
            EventData::MappingStart { anchor: None, tag: None, .. } => Kind::Map(self.map(depth)?),
            _ => return Err(Wrong::new(at, "anchors, aliases and tags are not for scenarios")),
        };
        Ok(Value { at, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, Wrong> {
        let mut items = Vec::new();
        loop {
            let event = self.next()?;
            if event.data == EventData::SequenceEnd {
                return Ok(items);
            }
            items.push(self.rest_of(event, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Value)>, Wrong> {
        let mut entries: Vec<(Key, Value)> = Vec::new();
        loop {
            let event = self.next()?;
            if event.data == EventData::MappingEnd {
                return Ok(entries);
            }
            let key = self.rest_of(event, depth + 1)?;
            let Value { at, kind: Kind::Scalar(name) } = key else {
                return Err(Wrong::new(key.at, "a key is a single word"));
            };
            if entries.iter().any(|(key, _)| key.name == name) {
                return Err(Wrong::new(at, format!("`{name}` is there twice")));
            }
            let value = self.value(depth + 1)?;
            entries.push((Key { at, name }, value));
        }
    }
}

fn position(mark: Mark) -> Position {
    Position { line: mark.line + 1, column: mark.column + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (u64, u64, String) {
        let Wrong { at, problem, .. } = parse(text.as_bytes()).unwrap_err();
        (at.line, at.column, problem)
    }

    #[test]
    fn everything_knows_where_it_stands() {
        let Value { kind: Kind::Map(entries), .. } = parse(b"a: 1\nb:\n  - x\n  - y: 2\n").unwrap() else {
            panic!("a map")
        };
        let (key, value) = &entries[1];
        assert_eq!((key.name.as_str(), key.at.line, key.at.column), ("b", 2, 1));
        let Kind::List(items) = &value.kind else { panic!("a list") };
        assert_eq!((items[1].at.line, items[1].at.column), (4, 5));
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let (line, column, problem) = wrong("a: 1\nb: [1, 2\nc: 3\n");
        assert_eq!((line, column), (3, 2), "{problem}");
        assert!(problem.starts_with("this is not YAML"), "{problem}");
    }

    #[test]
    fn less_than_yaml_is_taken() {
        assert_eq!(wrong("a: 1\na: 2\n"), (2, 1, "`a` is there twice".into()));
        assert_eq!(wrong("a: &x 1\n").0, 1);
        assert_eq!(wrong("a: !!str 1\n").0, 1);
        assert_eq!(wrong("a: 1\n---\nb: 2\n").0, 2);
        assert_eq!(wrong(""), (1, 1, "the file is empty".into()));
        assert_eq!(wrong("{[a]: 1}\n"), (1, 2, "a key is a single word".into()));
        assert!(wrong(&"[".repeat(100)).2.contains("too deeply"));
    }
}
