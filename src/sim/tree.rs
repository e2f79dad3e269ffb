//! YAML as a tree in which everything knows where it stands.
//!
//! Less than YAML on purpose: no anchors, no tags, no second document, no key twice.

use super::error::Position;
use crate::host::yaml::{self, Documents, Fault, Node};

/// Deeper than any scenario goes, and shallow enough for the stack.
const DEEPEST: usize = 16;

/// What is said of these.
const ADORNED: &str = "anchors, aliases and tags are not for scenarios";

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
    let mut documents = Documents::of(text, DEEPEST);
    let root = documents.next_document().map_err(wrong)?;
    let root = root.ok_or_else(|| Wrong::new(Position::START, "the file is empty"))?;
    let value = value(root)?;
    match documents.next_document().map_err(wrong)? {
        Some(_) => Err(Wrong::new(documents.began(), "a scenario is one document")),
        None => Ok(value),
    }
}

fn wrong(fault: Fault) -> Wrong {
    match fault {
        Fault::Syntax { at, problem, .. } => Wrong::new(at, format!("this is not YAML: {problem}")),
        Fault::TooDeep(at) => Wrong::new(at, "this is nested too deeply"),
    }
}

fn value(node: Node) -> Result<Value, Wrong> {
    let at = node.at;
    let kind = match node.kind {
        _ if node.adorned => return Err(Wrong::new(at, ADORNED)),
        yaml::Kind::Alias => return Err(Wrong::new(at, ADORNED)),
        yaml::Kind::Scalar { text, .. } => Kind::Scalar(text),
        yaml::Kind::List(items) => Kind::List(items.into_iter().map(value).collect::<Result<_, _>>()?),
        yaml::Kind::Map(entries) => Kind::Map(map(entries)?),
    };
    Ok(Value { at, kind })
}

fn map(nodes: Vec<(Node, Node)>) -> Result<Vec<(Key, Value)>, Wrong> {
    let mut entries: Vec<(Key, Value)> = Vec::new();
    for (key, node) in nodes {
        let Value { at, kind } = value(key)?;
        let Kind::Scalar(name) = kind else {
            return Err(Wrong::new(at, "a key is a single word"));
        };
        if entries.iter().any(|(key, _)| key.name == name) {
            return Err(Wrong::new(at, format!("`{name}` is there twice")));
        }
        entries.push((Key { at, name }, value(node)?));
    }
    Ok(entries)
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
