//! Parses YAML into a tree with the position of each value.
//!
//! Only a part of YAML is allowed: no anchors, no tags, no second document, no repeated keys.

use super::error::Position;
use crate::yaml::{self, Documents, YamlError, YamlNode};

/// The maximum depth, which limits the use of the stack.
const MAX_DEPTH: usize = 16;

/// The message about anchors and tags.
const UNSUPPORTED_SYNTAX: &str = "anchors, aliases and tags are not for scenarios";

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlValue {
    /// The position.
    pub at: Position,
    /// The value.
    pub kind: YamlKind,
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlKind {
    /// Text or a number.
    Scalar(String),
    /// A list.
    List(Vec<YamlValue>),
    /// The keys and values, in order.
    Map(Vec<(YamlKey, YamlValue)>),
}

/// A key with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlKey {
    /// The position.
    pub at: Position,
    /// The key.
    pub name: String,
}

/// A problem with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// The position.
    pub at: Position,
    /// The problem.
    pub problem: String,
    /// What the author may have meant.
    pub hint: Option<String>,
}

impl FieldProblem {
    /// Creates a problem at `at`.
    pub fn new(at: Position, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into(), hint: None }
    }
}

/// Parses the only document of `text`.
pub fn parse(text: &[u8]) -> Result<YamlValue, FieldProblem> {
    let mut documents = Documents::of(text, MAX_DEPTH);
    let root = documents.next_document().map_err(wrong)?;
    let root = root.ok_or_else(|| FieldProblem::new(Position::START, "the file is empty"))?;
    let value = value(root)?;
    match documents.next_document().map_err(wrong)? {
        Some(_) => Err(FieldProblem::new(documents.began(), "a scenario is one document")),
        None => Ok(value),
    }
}

fn wrong(fault: YamlError) -> FieldProblem {
    match fault {
        YamlError::Syntax(fault) => {
            FieldProblem::new(fault.mark.position(), format!("this is not YAML: {}", fault.problem))
        }
        YamlError::TooDeep(at) => FieldProblem::new(at, "this is nested too deeply"),
    }
}

fn value(node: YamlNode) -> Result<YamlValue, FieldProblem> {
    let at = node.at;
    let kind = match node.kind {
        _ if node.has_anchor_or_tag => return Err(FieldProblem::new(at, UNSUPPORTED_SYNTAX)),
        yaml::YamlKind::Alias => return Err(FieldProblem::new(at, UNSUPPORTED_SYNTAX)),
        yaml::YamlKind::Scalar { text, .. } => YamlKind::Scalar(text),
        yaml::YamlKind::List(items) => {
            YamlKind::List(items.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        yaml::YamlKind::Map(entries) => YamlKind::Map(map(entries)?),
    };
    Ok(YamlValue { at, kind })
}

fn map(nodes: Vec<(YamlNode, YamlNode)>) -> Result<Vec<(YamlKey, YamlValue)>, FieldProblem> {
    let mut entries: Vec<(YamlKey, YamlValue)> = Vec::new();
    for (key, node) in nodes {
        let YamlValue { at, kind } = value(key)?;
        let YamlKind::Scalar(name) = kind else {
            return Err(FieldProblem::new(at, "a key is a single word"));
        };
        if entries.iter().any(|(key, _)| key.name == name) {
            return Err(FieldProblem::new(at, format!("`{name}` is given twice")));
        }
        entries.push((YamlKey { at, name }, value(node)?));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (u32, u32, String) {
        let FieldProblem { at, problem, .. } = parse(text.as_bytes()).unwrap_err();
        (at.line, at.column, problem)
    }

    #[test]
    fn every_value_has_its_position() {
        let YamlValue { kind: YamlKind::Map(entries), .. } = parse(b"a: 1\nb:\n  - x\n  - y: 2\n").unwrap()
        else {
            panic!("a map")
        };
        let (key, value) = &entries[1];
        assert_eq!((key.name.as_str(), key.at.line, key.at.column), ("b", 2, 1));
        let YamlKind::List(items) = &value.kind else { panic!("a list") };
        assert_eq!((items[1].at.line, items[1].at.column), (4, 5));
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_position() {
        let (line, column, problem) = wrong("a: 1\nb: [1, 2\nc: 3\n");
        assert_eq!((line, column), (3, 2), "{problem}");
        assert!(problem.starts_with("this is not YAML"), "{problem}");
    }

    #[test]
    fn anchors_tags_and_repeated_keys_are_rejected() {
        assert_eq!(wrong("a: 1\na: 2\n"), (2, 1, "`a` is given twice".into()));
        assert_eq!(wrong("a: &x 1\n").0, 1);
        assert_eq!(wrong("a: !!str 1\n").0, 1);
        assert_eq!(wrong("a: 1\n---\nb: 2\n").0, 2);
        assert_eq!(wrong(""), (1, 1, "the file is empty".into()));
        assert_eq!(wrong("{[a]: 1}\n"), (1, 2, "a key is a single word".into()));
        assert!(wrong(&"[".repeat(100)).2.contains("too deeply"));
    }
}
