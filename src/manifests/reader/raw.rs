//! A parsed YAML document: a flat list of nodes whose aliases are not followed and whose merges are not made.

use super::scalar::Scalar;
use super::{Fault, SyntaxError};
use crate::manifests::tree::Position;

/// One node as parsed, children by number.
pub struct RawNode {
    pub position: Position,
    pub kind: RawKind,
    /// How the scalar was written, if it is plain.
    pub written: Option<String>,
}

/// What a parsed node is.
pub enum RawKind {
    Scalar(Scalar),
    /// A plain `<<` key.
    Merge,
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Alias(usize),
}

/// All nodes of the document; the first one is the root.
pub struct RawDocument {
    pub nodes: Vec<RawNode>,
}

impl RawDocument {
    /// The node with this number, aliases followed once.
    pub fn target(&self, number: usize) -> Option<&RawNode> {
        let node = self.nodes.get(number)?;
        match node.kind {
            RawKind::Alias(target) => self.nodes.get(target),
            _ => Some(node),
        }
    }
}

/// A broken document, in our words and the kubelet's.
pub fn yaml_error(reason: &str, message: &str, position: Position, fix: Option<&str>) -> SyntaxError {
    SyntaxError {
        fault: Fault::Yaml,
        message: message.to_owned(),
        fix: fix.map(str::to_owned),
        reason: format!("yaml: {reason}"),
        position: Some(position),
    }
}
