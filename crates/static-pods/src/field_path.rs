//! Paths of fields such as `spec.containers[0].image`. A path is cheap, because its text is built only for a message.

use std::fmt;

/// The path of a field: a linked list from the field to the root.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'a> {
    /// The whole object.
    Root,
    /// A field of an object.
    Field(&'a FieldPath<'a>, &'a str),
    /// An item of a list.
    Item(&'a FieldPath<'a>, usize),
    /// A key of a mapping.
    Key(&'a FieldPath<'a>, &'a str),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(name),
            FieldPath::Field(parent, name) => write!(f, "{parent}.{name}"),
            FieldPath::Item(parent, index) => write!(f, "{parent}[{index}]"),
            FieldPath::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}
