//! The kubelet's internal Go structs of a Pod, field by field, for each release.
//!
//! This module has declarations only. These structs differ from the API types in `schema`: the kubelet converts a
//! decoded Pod into internal types with other names, another order, and fields that other releases added.

mod container;
mod meta;
mod pod;
mod status;
mod volume;

pub use pod::POD;

/// A Go struct: its fields in order.
#[derive(Debug)]
pub struct Layout {
    /// The fields.
    pub fields: &'static [LayoutField],
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct LayoutField {
    /// The Go name of the field.
    pub name: &'static str,
    /// Where the decoded Pod has the field's value.
    pub source: FieldSource,
    /// The Go name of the field's type.
    pub ty: &'static str,
    /// How the value is printed.
    pub kind: PrintKind,
    since: u8,
    until: u8,
}

/// Where the decoded Pod has a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSource {
    /// Under this key.
    Key(&'static str),
    /// In the same object, because the field is an embedded struct.
    SameObject,
    /// Nowhere, because the kubelet clears the field.
    Cleared,
}

/// How a value is printed.
#[derive(Clone, Copy, Debug)]
pub enum PrintKind {
    /// Text of any named string type.
    Str,
    /// A truth value.
    Bool,
    /// A whole number.
    Int,
    /// A resource quantity.
    Quantity,
    /// A time.
    Time,
    /// An integer or a text.
    IntOrString,
    /// JSON as bytes.
    Raw,
    /// A pointer, which may be nil.
    Pointer(&'static PrintKind),
    /// A list.
    List(&'static PrintKind),
    /// A mapping with string keys.
    Map(&'static PrintKind),
    /// A struct.
    Struct(&'static Layout),
}

impl LayoutField {
    /// Whether release `1.minor` has the field.
    pub const fn known_in(&self, minor: u8) -> bool {
        minor >= self.since && minor < self.until
    }

    /// Marks that the field was added in release `1.since`.
    const fn since(mut self, since: u8) -> Self {
        self.since = since;
        self
    }

    /// Marks that the field was removed in release `1.until`.
    const fn until(mut self, until: u8) -> Self {
        self.until = until;
        self
    }
}

const fn field(name: &'static str, key: &'static str, ty: &'static str, kind: PrintKind) -> LayoutField {
    LayoutField { name, source: FieldSource::Key(key), ty, kind, since: 0, until: u8::MAX }
}

/// An embedded struct.
const fn inline(name: &'static str, ty: &'static str, kind: PrintKind) -> LayoutField {
    LayoutField { source: FieldSource::SameObject, ..field(name, "", ty, kind) }
}

/// A struct that the kubelet clears before it prints the Pod.
const fn blank(name: &'static str, ty: &'static str, kind: PrintKind) -> LayoutField {
    LayoutField { source: FieldSource::Cleared, ..field(name, "", ty, kind) }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use serde_json::Value;

    use super::*;

    const RECORDED: &str = include_str!("../../../../tests/recordings/pod-layouts-1.28-1.36.json");

    /// Returns the fields of a recorded struct in release `1.minor`: those of the newest recording that is not newer.
    fn recorded(versions: &Value, minor: u8) -> Option<Vec<String>> {
        let by_minor: BTreeMap<u8, &Value> = versions
            .as_object()?
            .iter()
            .map(|(version, fields)| (version.trim_start_matches("1.").parse().unwrap(), fields))
            .collect();
        let (_, fields) = by_minor.range(..=minor).next_back()?;
        fields.as_array()?.iter().map(|field| field.as_str().map(str::to_owned)).collect()
    }

    /// Returns each struct that release `1.minor` prints, by its Go name.
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
            while let PrintKind::Pointer(inner) | PrintKind::List(inner) | PrintKind::Map(inner) = kind {
                kind = inner;
            }
            if let PrintKind::Struct(inner) = kind {
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

    /// Fields that the kubelet's internal type has under another name or in another struct than the API.
    const DIFFERENT_FIELDS: &[&str] = &[
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostUsers",
        "serviceAccount",
        "podIP",
    ];

    /// Collects the API keys that a struct reads, including those of embedded structs.
    fn keys(layout: &'static Layout, minor: u8, found: &mut Vec<(&'static str, &'static PrintKind)>) {
        for field in layout.fields.iter().filter(|field| field.known_in(minor)) {
            match (field.source, &field.kind) {
                (FieldSource::Key(key), kind) => found.push((key, kind)),
                (FieldSource::SameObject, PrintKind::Struct(inner)) => keys(inner, minor, found),
                _ => {}
            }
        }
    }

    fn agree(
        ty: crate::manifests::schema::Type,
        kind: &'static PrintKind,
        minor: u8,
        path: &str,
        seen: &mut HashSet<(usize, usize)>,
        faults: &mut Vec<String>,
    ) {
        use crate::manifests::schema::Type;
        match (ty, kind) {
            (ty, PrintKind::Pointer(inner)) => agree(ty, inner, minor, path, seen, faults),
            (Type::List(item), PrintKind::List(inner)) => agree(*item, inner, minor, path, seen, faults),
            (Type::Map(value), PrintKind::Map(inner)) => agree(*value, inner, minor, path, seen, faults),
            (Type::Object(object), PrintKind::Struct(layout)) => {
                let pair = (std::ptr::from_ref(object).addr(), std::ptr::from_ref(*layout).addr());
                if !seen.insert(pair) {
                    return;
                }
                let mut printed = Vec::new();
                keys(layout, minor, &mut printed);
                for field in object.fields.iter().filter(|field| field.known_in(minor)) {
                    let path = format!("{path}.{}", field.name);
                    if DIFFERENT_FIELDS.contains(&field.name) || matches!(field.name, "kind" | "apiVersion") {
                        continue;
                    }
                    match printed.iter().find(|(key, _)| *key == field.name) {
                        Some((_, kind)) => agree(field.ty, kind, minor, &path, seen, faults),
                        None => faults.push(format!("{path} is decoded by 1.{minor} and not printed")),
                    }
                }
                for (key, _) in printed {
                    let known = object.field(key).is_some_and(|field| field.known_in(minor));
                    if !known && !DIFFERENT_FIELDS.contains(&key) {
                        faults.push(format!("{path}.{key} is printed by 1.{minor} and not decoded"));
                    }
                }
            }
            (Type::Both(object, _), PrintKind::Struct(_)) => {
                // The additional fields of an ephemeral container are in a second object.
                let mut rest = Vec::new();
                agree(Type::Object(object), kind, minor, path, seen, &mut rest);
                rest.retain(|fault| !fault.contains("targetContainerName"));
                faults.extend(rest);
            }
            (Type::Any, PrintKind::Struct(_))
            | (Type::Str, PrintKind::Str)
            | (Type::Bool, PrintKind::Bool)
            | (Type::Int32 | Type::Int64, PrintKind::Int)
            | (Type::Quantity, PrintKind::Quantity)
            | (Type::Time, PrintKind::Time)
            | (Type::IntOrString, PrintKind::IntOrString) => {}
            _ => faults.push(format!("{path} is printed as another type")),
        }
    }

    /// A field that only one of the two tables has would silently give a wrong UID.
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
