//! Parses YAML into a tree in which every node has its position. Configuration files, kubeconfigs and scenarios are read
//! with it.
//!
//! It does not resolve aliases, merge keys or types. Manifests need these, so `plegctl-api-values` makes its own tree from
//! the events of the same parser.

use super::{EventKind, Position, YamlEvent, YamlFault, YamlParser, decode};

/// A value or a key.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// The position of its first character.
    pub at: Position,
    /// Whether the node has an anchor or a tag.
    pub has_anchor_or_tag: bool,
    /// The content.
    pub kind: YamlKind,
}

/// The content of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlKind {
    /// A text, number or other scalar.
    Scalar {
        /// The text without quotes.
        text: String,
        /// Whether the scalar had no quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<YamlNode>),
    /// Keys and values in their order.
    Map(Vec<(YamlNode, YamlNode)>),
    /// An alias of an anchor.
    Alias,
}

/// Why a text cannot be parsed into a tree.
#[derive(Debug, PartialEq, Eq)]
pub enum YamlError {
    /// The text is not YAML.
    Syntax(YamlFault),
    /// Collections are nested too deeply.
    TooDeep(Position),
}

/// The documents of a text, one after another.
pub struct Documents<'t> {
    parser: YamlParser<'t>,
    max_depth: usize,
    /// The position at which the last document begins.
    began: Position,
}

impl<'t> Documents<'t> {
    /// Reads `text`. More than `max_depth` nested collections are an error.
    pub fn of(text: &'t [u8], max_depth: usize) -> Self {
        Self { parser: YamlParser::new(decode(text)), max_depth, began: Position::START }
    }

    /// Returns the next document; `None` at the end.
    pub fn next_document(&mut self) -> Result<Option<YamlNode>, YamlError> {
        loop {
            let event = self.event()?;
            match event.kind {
                EventKind::StreamEnd => return Ok(None),
                EventKind::DocumentStart => {
                    self.began = event.start.position();
                    let first = self.event()?;
                    return self.node(first, 0).map(Some);
                }
                _ => {}
            }
        }
    }

    /// Returns the position at which the last returned document begins, including its `---`.
    pub const fn began(&self) -> Position {
        self.began
    }

    fn event(&mut self) -> Result<YamlEvent, YamlError> {
        self.parser.next_event().map_err(YamlError::Syntax)
    }

    /// Parses the node that begins with `event`.
    fn node(&mut self, event: YamlEvent, depth: usize) -> Result<YamlNode, YamlError> {
        let at = event.start.position();
        if depth > self.max_depth {
            return Err(YamlError::TooDeep(at));
        }
        let (has_anchor_or_tag, kind) = match event.kind {
            EventKind::Scalar { anchor, tag, value, plain_implicit, .. } => {
                (anchor.is_some() || tag.is_some(), YamlKind::Scalar { text: value, plain: plain_implicit })
            }
            EventKind::SequenceStart { anchor, tag, .. } => {
                (anchor.is_some() || tag.is_some(), YamlKind::List(self.list(depth)?))
            }
            EventKind::MappingStart { anchor, tag, .. } => {
                (anchor.is_some() || tag.is_some(), YamlKind::Map(self.map(depth)?))
            }
            _ => (false, YamlKind::Alias),
        };
        Ok(YamlNode { at, has_anchor_or_tag, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<YamlNode>, YamlError> {
        let mut items = Vec::new();
        loop {
            let event = self.event()?;
            if event.kind == EventKind::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(event, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(YamlNode, YamlNode)>, YamlError> {
        let mut entries = Vec::new();
        loop {
            let event = self.event()?;
            if event.kind == EventKind::MappingEnd {
                return Ok(entries);
            }
            let key = self.node(event, depth + 1)?;
            let event = self.event()?;
            entries.push((key, self.node(event, depth + 1)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_position() {
        let root = Documents::of(b"a: 1\nb:\n  - x\n  - y: 2\n", 8).next_document().unwrap().unwrap();
        let YamlKind::Map(entries) = root.kind else { panic!("a map") };
        assert_eq!(entries[1].0.at, Position { line: 2, column: 1 });
        let YamlKind::List(items) = &entries[1].1.kind else { panic!("a list") };
        assert_eq!(items[1].at, Position { line: 4, column: 5 });
    }

    #[test]
    fn documents_are_read_one_by_one() {
        let mut documents = Documents::of(b"a: 1\n---\nb: 2\n", 8);
        assert!(documents.next_document().unwrap().is_some() && documents.next_document().unwrap().is_some());
        assert!(documents.next_document().unwrap().is_none());
        assert!(Documents::of(b"a: 1\n---\nb: [1\n", 8).next_document().unwrap().is_some());
        assert!(Documents::of(b"# nothing\n", 8).next_document().unwrap().is_none());
        assert!(matches!(Documents::of(b"[[[", 1).next_document(), Err(YamlError::TooDeep(_))));
    }
}
