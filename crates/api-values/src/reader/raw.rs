//! A parsed YAML document: a flat list of nodes. Aliases and merges are not yet resolved; `compose` does that.

use super::scalar::Scalar;
use super::{MAX_NODES, SyntaxError, SyntaxFault};
use crate::tree::Position;

/// One parsed node. A node refers to other nodes by their index in [`RawDocument::nodes`].
pub struct RawNode {
    pub position: Position,
    pub kind: RawKind,
    /// How a plain (unquoted) scalar that is not a string was written.
    pub written: Option<String>,
}

/// The kind of a parsed node.
pub enum RawKind {
    Scalar(Scalar),
    /// A plain `<<` key.
    Merge,
    /// The items of a list.
    List(Vec<usize>),
    /// The keys and values of a mapping.
    Map(Vec<(usize, usize)>),
    /// The node that an alias refers to.
    Alias(usize),
}

/// All nodes of a document. The first node is the root.
pub struct RawDocument {
    pub nodes: Vec<RawNode>,
}

impl RawDocument {
    /// Returns the node with this index or, if that node is an alias, the node that the alias refers to.
    pub fn target(&self, index: usize) -> Option<&RawNode> {
        let node = self.nodes.get(index)?;
        match node.kind {
            RawKind::Alias(target) => self.nodes.get(target),
            _ => Some(node),
        }
    }
}

/// Creates the error of an invalid document. `reason` is the kubelet's message, `message` the same in plain words.
pub fn yaml_error(reason: &str, message: &str, position: Position, fix: Option<&str>) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::Yaml,
        message: message.to_owned(),
        fix: fix.map(str::to_owned),
        reason: format!("yaml: {reason}"),
        position: Some(position),
    }
}

/// Creates the error of a file with more nodes than plegctl reads.
pub fn too_many_values(position: Position) -> SyntaxError {
    SyntaxError {
        fault: SyntaxFault::NotJudged,
        message: format!(
            "the file has more than {MAX_NODES} values, so plegctl does not judge what the kubelet does with it"
        ),
        fix: None,
        reason: String::new(),
        position: Some(position),
    }
}
