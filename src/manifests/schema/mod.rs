//! Every field of a core/v1 Pod: its JSON type, and from which kubelet release on it is known.
//!
//! Declarations only. The decoder is driven by them, and so is the search for the field that was meant.

mod container;
mod meta;
mod pod;
mod status;
mod volume;

pub use pod::POD;

/// The JSON type of a field, and what the kubelet's decoder does with it.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// Text.
    Str,
    /// A truth value.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A resource quantity: text or a number.
    Quantity,
    /// An integer of 32 bits or text.
    IntOrString,
    /// An RFC 3339 time.
    Time,
    /// Anything at all.
    Any,
    /// An object of this kind.
    Object(&'static Object),
    /// An object with the fields of two kinds.
    Both(&'static Object, &'static Object),
    /// A list.
    List(&'static Type),
    /// A mapping from any key.
    Map(&'static Type),
}

/// An object type.
#[derive(Debug)]
pub struct Object {
    /// Kubernetes' name of the type.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// The first minor release that knows it; 0 if every supported one does.
    pub since: u8,
    /// The first minor release that no longer knows it.
    pub until: u8,
    /// The feature gate that it waited behind.
    pub gate: Option<Gate>,
}

/// A feature gate, as far as a default kubelet has it.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The first minor release that opens it by default.
    pub open: u8,
}

impl Object {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// True if release `1.minor` knows the field.
    pub const fn known_in(&self, minor: u8) -> bool {
        minor >= self.since && minor < self.until
    }

    /// The name of the gate, if release `1.minor` has it closed by default.
    pub fn closed_gate(&self, minor: u8) -> Option<&'static str> {
        self.gate.filter(|gate| minor < gate.open).map(|gate| gate.name)
    }
}

/// A field that every supported release knows.
const fn field(name: &'static str, ty: Type) -> Field {
    Field { name, ty, since: 0, until: u8::MAX, gate: None }
}

/// A field that came with release `1.since`.
const fn newer(since: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since, until: u8::MAX, gate: None }
}

/// A field that went with release `1.until`.
const fn older(until: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since: 0, until, gate: None }
}

/// A field that came with one release and went with another.
const fn between(since: u8, until: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since, until, gate: None }
}

impl Field {
    /// The same field, behind a gate that release `1.open` is the first to open by default.
    const fn behind(mut self, name: &'static str, open: u8) -> Self {
        self.gate = Some(Gate { name, open });
        self
    }
}

const STRINGS: Type = Type::List(&Type::Str);
const STRING_MAP: Type = Type::Map(&Type::Str);
const QUANTITIES: Type = Type::Map(&Type::Quantity);
