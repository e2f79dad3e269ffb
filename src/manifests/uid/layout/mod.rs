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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use serde_json::Value;

    use super::*;

    const RECORDED: &str = include_str!("../../../../tests/recordings/pod-layouts-1.28-1.36.json");

    /// The fields of a recorded struct in release `1.minor`: those of the newest release that is not newer.
    fn recorded(versions: &Value, minor: u8) -> Option<Vec<String>> {
        let by_minor: BTreeMap<u8, &Value> = versions
            .as_object()?
            .iter()
            .map(|(version, fields)| (version.trim_start_matches("1.").parse().unwrap(), fields))
            .collect();
        let (_, fields) = by_minor.range(..=minor).next_back()?;
        fields.as_array()?.iter().map(|field| field.as_str().map(str::to_owned)).collect()
    }

    /// Each struct that release `1.minor` prints, by its Go name.
    fn declared(
        name: &str,
        layout: &'static Layout,
        minor: u8,
        seen: &mut HashSet<String>,
        all: &mut Vec<(String, Vec<String>)>,
    ) {
        if !seen.insert(name.to_owned()) {
            return;
        }
        let mut fields = Vec::new();
        for field in layout.fields.iter().filter(|field| field.known_in(minor)) {
            fields.push(format!("{} {}", field.name, field.ty));
            let mut kind = &field.kind;
            while let Kind::Pointer(inner) | Kind::List(inner) | Kind::Map(inner) = kind {
                kind = inner;
            }
            if let Kind::Struct(inner) = kind {
                let name = field.ty.trim_start_matches(['*', '[', ']']);
                declared(name, inner, minor, seen, all);
            }
        }
        all.push((name.to_owned(), fields));
    }

    #[test]
    fn every_struct_of_every_release_is_as_recorded() {
        let recorded_all: Value = serde_json::from_str(RECORDED).unwrap();
        for minor in 28..=36 {
            let mut all = Vec::new();
            declared("core.Pod", &POD, minor, &mut HashSet::new(), &mut all);
            assert!(all.len() > 110, "{}", all.len());
            for (name, fields) in all {
                let theirs = recorded(&recorded_all["structs"][&name], minor).unwrap();
                let theirs: Vec<&str> = theirs.iter().map(|field| field.trim_start_matches('^')).collect();
                assert_eq!(fields, theirs, "{name} in 1.{minor}");
            }
        }
    }

    /// Where the kubelet's own type has a field under another name or in another place than the API.
    const ELSEWHERE: &[&str] = &[
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostUsers",
        "serviceAccount",
        "podIP",
    ];

    /// Keys of the API that a struct reads, those of embedded structs included.
    fn keys(layout: &'static Layout, minor: u8, found: &mut Vec<(&'static str, &'static Kind)>) {
        for field in layout.fields.iter().filter(|field| field.known_in(minor)) {
            match (field.place, &field.kind) {
                (Place::Key(key), kind) => found.push((key, kind)),
                (Place::Here, Kind::Struct(inner)) => keys(inner, minor, found),
                _ => {}
            }
        }
    }

    fn agree(
        ty: crate::manifests::schema::Type,
        kind: &'static Kind,
        minor: u8,
        path: &str,
        seen: &mut HashSet<(usize, usize)>,
        faults: &mut Vec<String>,
    ) {
        use crate::manifests::schema::Type;
        match (ty, kind) {
            (ty, Kind::Pointer(inner)) => agree(ty, inner, minor, path, seen, faults),
            (Type::List(item), Kind::List(inner)) => agree(*item, inner, minor, path, seen, faults),
            (Type::Map(value), Kind::Map(inner)) => agree(*value, inner, minor, path, seen, faults),
            (Type::Object(object), Kind::Struct(layout)) => {
                let pair = (std::ptr::from_ref(object).addr(), std::ptr::from_ref(*layout).addr());
                if !seen.insert(pair) {
                    return;
                }
                let mut printed = Vec::new();
                keys(layout, minor, &mut printed);
                for field in object.fields.iter().filter(|field| field.known_in(minor)) {
                    let path = format!("{path}.{}", field.name);
                    if ELSEWHERE.contains(&field.name) || matches!(field.name, "kind" | "apiVersion") {
                        continue;
                    }
                    match printed.iter().find(|(key, _)| *key == field.name) {
                        Some((_, kind)) => agree(field.ty, kind, minor, &path, seen, faults),
                        None => faults.push(format!("{path} is decoded by 1.{minor} and not printed")),
                    }
                }
                for (key, _) in printed {
                    let known = object.field(key).is_some_and(|field| field.known_in(minor));
                    if !known && !ELSEWHERE.contains(&key) {
                        faults.push(format!("{path}.{key} is printed by 1.{minor} and not decoded"));
                    }
                }
            }
            (Type::Both(object, _), Kind::Struct(_)) => {
                // What ephemeral containers have besides stands in a second object; the rest is a container's.
                let mut rest = Vec::new();
                agree(Type::Object(object), kind, minor, path, seen, &mut rest);
                rest.retain(|fault| !fault.contains("targetContainerName"));
                faults.extend(rest);
            }
            (Type::Any, Kind::Struct(_))
            | (Type::Str, Kind::Str)
            | (Type::Bool, Kind::Bool)
            | (Type::Int32 | Type::Int64, Kind::Int)
            | (Type::Quantity, Kind::Quantity)
            | (Type::Time, Kind::Time)
            | (Type::IntOrString, Kind::IntOrString) => {}
            _ => faults.push(format!("{path} is printed as another type")),
        }
    }

    /// What is decoded is printed and what is printed is decoded, release by release: a field that stands in one
    /// table only would go unnoticed into a wrong UID.
    #[test]
    fn the_schema_and_the_layouts_have_the_same_fields() {
        use crate::manifests::schema::POD as SCHEMA;
        let mut faults = Vec::new();
        for minor in 28..=36 {
            for key in ["metadata", "spec", "status"] {
                let field = SCHEMA.field(key).unwrap();
                let mut printed = Vec::new();
                keys(&POD, minor, &mut printed);
                let (_, kind) = printed.iter().find(|(name, _)| *name == key).unwrap();
                agree(field.ty, kind, minor, key, &mut HashSet::new(), &mut faults);
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
