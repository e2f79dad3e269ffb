//! A YAML document as a tree in which everything knows where it stands: settings, kubeconfigs and scenarios are read from it.
//!
//! What a manifest needs beyond that (aliases followed, merges in their order, the types of go-yaml, bytes fed in its
//! pieces) is in `manifests::reader`, over the same scanner.

use libyaml_safer::{Event, EventData, Mark, Parser};

/// A place in a file; both numbers count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl Position {
    /// Where every file begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value, or a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it starts.
    pub at: Position,
    /// Whether it has an anchor or a tag.
    pub adorned: bool,
    /// What it is.
    pub kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text, a number, a word.
    Scalar {
        /// Without its quotes.
        text: String,
        /// Whether it had none.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in their order.
    Map(Vec<(Node, Node)>),
    /// The name of an anchor.
    Alias,
}

/// Why there is no tree.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not YAML.
    Syntax {
        /// Where.
        at: Position,
        /// What the parser says.
        problem: String,
        /// The same with what it was at and where.
        whole: String,
    },
    /// Collections in collections.
    TooDeep(Position),
}

/// The documents of a text, one after the other.
pub struct Documents<'t> {
    parser: Parser<&'t [u8]>,
    deepest: usize,
    began: Position,
}

impl<'t> Documents<'t> {
    /// Reads `text`; collections in more than `deepest` others are refused.
    pub fn of(text: &'t [u8], deepest: usize) -> Self {
        let mut parser = Parser::new();
        parser.set_input(text);
        Self { parser, deepest, began: Position::START }
    }

    /// The next document; none at the end.
    pub fn next_document(&mut self) -> Result<Option<Node>, Fault> {
        loop {
            let event = self.event()?;
            match event.data {
                EventData::StreamEnd => return Ok(None),
                EventData::DocumentStart { .. } => {
                    self.began = position(event.start_mark);
                    let first = self.event()?;
                    return self.node(first, 0).map(Some);
                }
                _ => {}
            }
        }
    }

    /// Where the last of them begins, with its `---`.
    pub const fn began(&self) -> Position {
        self.began
    }

    fn event(&mut self) -> Result<Event, Fault> {
        self.parser.parse().map_err(|why| Fault::Syntax {
            at: why.problem_mark().map_or(Position::START, position),
            problem: why.problem().to_owned(),
            whole: why.to_string(),
        })
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event, depth: usize) -> Result<Node, Fault> {
        let at = position(event.start_mark);
        if depth > self.deepest {
            return Err(Fault::TooDeep(at));
        }
        let (adorned, kind) = match event.data {
            EventData::Scalar { anchor, tag, value, plain_implicit, .. } => {
                (anchor.is_some() || tag.is_some(), Kind::Scalar { text: value, plain: plain_implicit })
            }
            EventData::SequenceStart { anchor, tag, .. } => {
                (anchor.is_some() || tag.is_some(), Kind::List(self.list(depth)?))
            }
            EventData::MappingStart { anchor, tag, .. } => {
                (anchor.is_some() || tag.is_some(), Kind::Map(self.map(depth)?))
            }
            _ => (false, Kind::Alias),
        };
        Ok(Node { at, adorned, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        loop {
            let event = self.event()?;
            if event.data == EventData::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(event, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Node, Node)>, Fault> {
        let mut entries = Vec::new();
        loop {
            let event = self.event()?;
            if event.data == EventData::MappingEnd {
                return Ok(entries);
            }
            let key = self.node(event, depth + 1)?;
            let event = self.event()?;
            entries.push((key, self.node(event, depth + 1)?));
        }
    }
}

fn position(mark: Mark) -> Position {
    Position { line: mark.line + 1, column: mark.column + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_knows_where_it_stands() {
        let root = Documents::of(b"a: 1\nb:\n  - x\n  - y: 2\n", 8).next_document().unwrap().unwrap();
        let Kind::Map(entries) = root.kind else { panic!("a map") };
        assert_eq!(entries[1].0.at, Position { line: 2, column: 1 });
        let Kind::List(items) = &entries[1].1.kind else { panic!("a list") };
        assert_eq!(items[1].at, Position { line: 4, column: 5 });
    }

    #[test]
    fn documents_come_one_by_one_and_what_is_behind_is_not_read() {
        let mut documents = Documents::of(b"a: 1\n---\nb: 2\n", 8);
        assert!(documents.next_document().unwrap().is_some() && documents.next_document().unwrap().is_some());
        assert!(documents.next_document().unwrap().is_none());
        assert!(Documents::of(b"a: 1\n---\nb: [1\n", 8).next_document().unwrap().is_some());
        assert!(Documents::of(b"# nothing\n", 8).next_document().unwrap().is_none());
        assert!(matches!(Documents::of(b"[[[", 1).next_document(), Err(Fault::TooDeep(_))));
    }
}
