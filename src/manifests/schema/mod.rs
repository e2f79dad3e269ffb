//! The schema of a core/v1 Pod: every field with its JSON type, and the kubelet releases that know it.
//!
//! This module has declarations only. The decoder uses them, and so does the suggestion for an unknown field.

mod container;
mod meta;
mod pod;
mod status;
mod volume;

pub use pod::POD;

/// The JSON type of a field, which decides how the kubelet decodes it.
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
    /// Any JSON value.
    Any,
    /// An object of this kind.
    Object(&'static Object),
    /// An object with the fields of two schemas.
    Both(&'static Object, &'static Object),
    /// A list.
    List(&'static Type),
    /// A mapping with string keys.
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
    /// The type.
    pub ty: Type,
    /// The first minor release that knows the field; 0 if every supported release does.
    pub since: u8,
    /// The first minor release that no longer knows the field.
    pub until: u8,
    /// The feature gate of the field.
    pub gate: Option<Gate>,
}

/// A feature gate with its default.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The first minor release in which the gate is on by default.
    pub open: u8,
}

impl Object {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Whether release `1.minor` knows the field.
    pub const fn known_in(&self, minor: u8) -> bool {
        minor >= self.since && minor < self.until
    }

    /// Returns the gate, if it is off by default in release `1.minor`.
    pub fn closed_gate(&self, minor: u8) -> Option<&'static str> {
        self.gate.filter(|gate| minor < gate.open).map(|gate| gate.name)
    }
}

/// A field that every supported release knows.
const fn field(name: &'static str, ty: Type) -> Field {
    Field { name, ty, since: 0, until: u8::MAX, gate: None }
}

/// A field that was added in release `1.since`.
const fn newer(since: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since, until: u8::MAX, gate: None }
}

/// A field that was removed in release `1.until`.
const fn older(until: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since: 0, until, gate: None }
}

/// A field that was added in one release and removed in another.
const fn between(since: u8, until: u8, name: &'static str, ty: Type) -> Field {
    Field { name, ty, since, until, gate: None }
}

impl Field {
    /// Puts the field behind a gate that is on by default from release `1.open` on.
    const fn behind(mut self, name: &'static str, open: u8) -> Self {
        self.gate = Some(Gate { name, open });
        self
    }
}

const STRINGS: Type = Type::List(&Type::Str);
const STRING_MAP: Type = Type::Map(&Type::Str);
const QUANTITIES: Type = Type::Map(&Type::Quantity);
