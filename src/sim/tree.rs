//! Parses the YAML of a scenario. Refuses anchors, aliases, tags, a second document and repeated keys, which
//! scenarios do not need.

use std::collections::HashSet;

use super::error::Position;
use crate::yaml::{Documents, YamlError, YamlKind, YamlNode};

/// The maximum nesting, so that parsing does not exhaust the stack.
const MAX_DEPTH: usize = 16;

/// A problem with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// The position.
    pub at: Position,
    /// The problem.
    pub problem: String,
    /// A hint for the author, such as the most similar known word.
    pub hint: Option<String>,
}

impl FieldProblem {
    /// Creates a problem at `at`.
    pub fn new(at: Position, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into(), hint: None }
    }
}

/// Parses the only document of `text`.
pub fn parse(text: &[u8]) -> Result<YamlNode, FieldProblem> {
    let mut documents = Documents::of(text, MAX_DEPTH);
    let root = documents.next_document().map_err(field_problem)?;
    let root = root.ok_or_else(|| FieldProblem::new(Position::START, "the file is empty"))?;
    check(&root)?;
    match documents.next_document().map_err(field_problem)? {
        Some(_) => Err(FieldProblem::new(documents.began(), "a scenario is one document")),
        None => Ok(root),
    }
}

fn field_problem(fault: YamlError) -> FieldProblem {
    match fault {
        YamlError::Syntax(fault) => {
            FieldProblem::new(fault.mark.position(), format!("this is not YAML: {}", fault.problem))
        }
        YamlError::TooDeep(at) => FieldProblem::new(at, "this is nested too deeply"),
    }
}

/// Rejects the parts of YAML that scenarios do not use.
fn check(node: &YamlNode) -> Result<(), FieldProblem> {
    if node.has_anchor_or_tag || node.kind == YamlKind::Alias {
        return Err(FieldProblem::new(node.at, "anchors, aliases and tags are not for scenarios"));
    }
    match &node.kind {
        YamlKind::List(items) => items.iter().try_for_each(check),
        YamlKind::Map(entries) => {
            let mut names = HashSet::new();
            entries.iter().try_for_each(|(key, value)| {
                check(key)?;
                let YamlKind::Scalar { text: name, .. } = &key.kind else {
                    return Err(FieldProblem::new(key.at, "a key is a single word"));
                };
                if !names.insert(name) {
                    return Err(FieldProblem::new(key.at, format!("`{name}` is given twice")));
                }
                check(value)
            })
        }
        YamlKind::Scalar { .. } | YamlKind::Alias => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (u32, u32, String) {
        let FieldProblem { at, problem, .. } = parse(text.as_bytes()).unwrap_err();
        (at.line, at.column, problem)
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
