//! The structs in which the kubelet holds a Pod, field by field, as each release has them.
//!
//! Declarations only. They are not the fields of the API (those are in `schema`): the kubelet converts what it decodes
//! into types of its own, which have other names, another order, and other releases in which a field appeared.

mod container;
mod meta;
mod pod;
mod status;
mod volume;

pub use pod::POD;

/// A struct: its fields in order.
#[derive(Debug)]
pub struct Layout {
    /// The fields.
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Its name in Go.
    pub name: &'static str,
    /// Where its value stands in the decoded Pod.
    pub place: Place,
    /// Go's name of its type.
    pub ty: &'static str,
    /// What is printed for it.
    pub kind: Kind,
    since: u8,
    until: u8,
}

/// Where the value of a field stands in the decoded Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under this key.
    Key(&'static str),
    /// In the same object: an embedded struct.
    Here,
    /// Nowhere: the kubelet blanks it.
    Nowhere,
}

/// How a value is printed.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text of any named type.
    Str,
    /// A truth value.
    Bool,
    /// A whole number.
    Int,
    /// A resource quantity.
    Quantity,
    /// A time.
    Time,
    /// A number or a text.
    IntOrString,
    /// JSON as bytes.
    Raw,
    /// Something that may be absent.
    Pointer(&'static Kind),
    /// A list.
    List(&'static Kind),
    /// A mapping from text.
    Map(&'static Kind),
    /// A struct.
    Struct(&'static Layout),
}

impl Field {
    /// True if release `1.minor` has the field.
    pub const fn known_in(&self, minor: u8) -> bool {
        minor >= self.since && minor < self.until
    }

    /// The same field, which came with release `1.since`.
    const fn since(mut self, since: u8) -> Self {
        self.since = since;
        self
    }

    /// The same field, which went with release `1.until`.
    const fn until(mut self, until: u8) -> Self {
        self.until = until;
        self
    }
}

const fn field(name: &'static str, key: &'static str, ty: &'static str, kind: Kind) -> Field {
    Field { name, place: Place::Key(key), ty, kind, since: 0, until: u8::MAX }
}

/// An embedded struct.
const fn inline(name: &'static str, ty: &'static str, kind: Kind) -> Field {
    Field { place: Place::Here, ..field(name, "", ty, kind) }
}

/// A struct that the kubelet empties before it prints it.
const fn blank(name: &'static str, ty: &'static str, kind: Kind) -> Field {
    Field { place: Place::Nowhere, ..field(name, "", ty, kind) }
}
