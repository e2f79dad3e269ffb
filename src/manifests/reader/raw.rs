//! A parsed YAML document: a flat list of nodes in which aliases and merges are not resolved.

use super::scalar::Scalar;
use super::{SyntaxError, SyntaxFault};
use crate::manifests::tree::Position;

/// One parsed node. Children are numbers of nodes.
pub struct RawNode {
    pub position: Position,
    pub kind: RawKind,
    /// How the scalar was written, if it is plain.
    pub written: Option<String>,
}

/// The kind of a parsed node.
pub enum RawKind {
    Scalar(Scalar),
    /// A plain `<<` key.
    Merge,
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Alias(usize),
}

/// All nodes of a document. The first node is the root.
pub struct RawDocument {
    pub nodes: Vec<RawNode>,
}

impl RawDocument {
    /// Returns the node with this number, or the node that it is an alias of.
    pub fn target(&self, number: usize) -> Option<&RawNode> {
        let node = self.nodes.get(number)?;
        match node.kind {
            RawKind::Alias(target) => self.nodes.get(target),
            _ => Some(node),
        }
    }
}

/// Creates the error of an invalid document, in plain words and in the kubelet's words.
pub fn yaml_error(reason: &str, message: &str, position: Position, fix: Option<&str>) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::Yaml,
        message: message.to_owned(),
        fix: fix.map(str::to_owned),
        reason: format!("yaml: {reason}"),
        position: Some(position),
    }
}
