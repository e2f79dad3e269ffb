//! The schema of a core/v1 Pod, read from the table `pod.txt`: `Pod` and each Go struct that a Pod contains, field by
//! field, with the kubelet releases that know the field.
//!
//! The decoder, the defaults, the suggestions for unknown fields and the printed form from which the kubelet computes a
//! UID all read this schema. The rows of the table are the only source of these facts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use super::report::DropReason;
use plegctl_api_values::tree::Value;

const TABLE: &str = include_str!("pod.txt");

/// Returns the schema of a whole Pod.
pub fn pod() -> &'static GoStruct {
    static POD: LazyLock<Arc<GoStruct>> = LazyLock::new(|| SchemaTable::read(TABLE).go_struct("core.Pod"));
    &POD
}

/// A Go struct: its fields, in the order in which the kubelet prints them.
#[derive(Debug, Default)]
pub struct GoStruct {
    /// The fields.
    pub fields: Vec<SchemaField>,
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct SchemaField {
    /// The name in JSON; `None` for an embedded struct, whose fields are in the same JSON object.
    pub key: Option<&'static str>,
    /// The name in Go.
    pub name: &'static str,
    /// The type in Go's notation.
    pub go_type: &'static str,
    /// The type.
    pub ty: FieldType,
    /// The value that the kubelet sets if the field is missing.
    pub default: Option<Value>,
    /// The minor releases that decode the field.
    decoded: Range<u8>,
    /// The minor releases whose printed struct has the field.
    printed: Range<u8>,
    /// The feature gate without which the kubelet drops the field.
    gate: Option<FieldGate>,
}

/// The type of a field, which decides how the field is decoded and printed.
#[derive(Debug)]
pub enum FieldType {
    /// A string or a named string type.
    Str,
    /// A boolean.
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
    Json,
    /// A pointer, which may be nil.
    Pointer(Box<Self>),
    /// A list.
    List(Box<Self>),
    /// A mapping with string keys.
    Map(Box<Self>),
    /// A struct.
    Struct(Arc<GoStruct>),
}

/// The feature gate of a field.
#[derive(Clone, Copy, Debug)]
struct FieldGate {
    name: &'static str,
    /// The first minor release in which the gate is on by default.
    on_since: u8,
}

impl GoStruct {
    /// Returns the field with this JSON name. If several fields have the name, returns the field that release `1.minor`
    /// decodes, or else a field that another release decodes.
    pub fn field(&self, key: &str, minor: u8) -> Option<&SchemaField> {
        let mut of_other_release = None;
        for field in &self.fields {
            let found = match (field.key, &field.ty) {
                (None, FieldType::Struct(embedded)) => embedded.field(key, minor),
                (Some(name), _) if name == key && !field.decoded.is_empty() => Some(field),
                _ => None,
            };
            if found.is_some_and(|field| field.decoded_in(minor)) {
                return found;
            }
            of_other_release = found.or(of_other_release);
        }
        of_other_release
    }

    /// Returns each field that some release decodes, including the fields of embedded structs.
    pub fn decoded_fields(&self) -> Vec<&SchemaField> {
        let mut all = Vec::new();
        for field in &self.fields {
            match (field.key, &field.ty) {
                (None, FieldType::Struct(embedded)) => all.extend(embedded.decoded_fields()),
                _ if field.decoded.is_empty() => {}
                _ => all.push(field),
            }
        }
        all
    }
}

impl SchemaField {
    /// Whether release `1.minor` decodes the field.
    pub fn decoded_in(&self, minor: u8) -> bool {
        self.decoded.contains(&minor)
    }

    /// Whether the printed struct of release `1.minor` has the field.
    pub fn printed_in(&self, minor: u8) -> bool {
        self.printed.contains(&minor)
    }

    /// Returns why release `1.minor` drops the field. The caller knows that this release does not decode the field.
    pub const fn why_not_decoded(&self, minor: u8) -> DropReason {
        if minor < self.decoded.start {
            DropReason::TooNew { since: self.decoded.start }
        } else {
            DropReason::Removed { until: self.decoded.end }
        }
    }

    /// Returns the field's feature gate, if the gate is off by default in release `1.minor`.
    pub fn closed_gate(&self, minor: u8) -> Option<&'static str> {
        self.gate.filter(|gate| minor < gate.on_since).map(|gate| gate.name)
    }
}

impl FieldType {
    /// Returns the struct of a field, of a list's items or of a map's values.
    pub fn inner_struct(&self) -> Option<&GoStruct> {
        match self {
            Self::Struct(object) => Some(object),
            Self::Pointer(inner) | Self::List(inner) | Self::Map(inner) => inner.inner_struct(),
            _ => None,
        }
    }
}

/// Reads the table: the rows of each struct, and the structs that are already built.
struct SchemaTable {
    rows: HashMap<&'static str, Vec<&'static str>>,
    complete: HashMap<&'static str, Arc<GoStruct>>,
}

impl SchemaTable {
    /// Splits the table into the rows of each struct.
    fn read(text: &'static str) -> Self {
        let mut rows: HashMap<_, Vec<_>> = HashMap::new();
        let mut name = "";
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            if line.contains(' ') {
                rows.entry(name).or_default().push(line);
            } else {
                name = line;
            }
        }
        Self { rows, complete: HashMap::new() }
    }

    /// Returns the struct with this Go name, and builds it first if necessary.
    fn go_struct(&mut self, name: &'static str) -> Arc<GoStruct> {
        if let Some(complete) = self.complete.get(name) {
            return Arc::clone(complete);
        }
        let rows = self.rows.get(name).cloned().unwrap_or_default();
        let fields = rows.into_iter().filter_map(|row| self.field(row)).collect();
        let object = Arc::new(GoStruct { fields });
        self.complete.insert(name, Arc::clone(&object));
        object
    }

    /// Reads a row. Returns `None` if the row is malformed; a test ensures that no row is.
    fn field(&mut self, row: &'static str) -> Option<SchemaField> {
        let mut words = row.split(' ');
        let (key, name, go_type) = (words.next()?, words.next()?, words.next()?);
        let only_printed = key.strip_prefix('(').and_then(|key| key.strip_suffix(')'));
        let mut field = SchemaField {
            key: Some(only_printed.unwrap_or(key)).filter(|key| *key != "+"),
            name,
            go_type,
            ty: self.field_type(go_type),
            default: None,
            decoded: 0..u8::MAX,
            printed: 0..u8::MAX,
            gate: None,
        };
        for marker in words {
            match marker.split_once('=')? {
                ("since", minor) => {
                    field.decoded.start = minor.parse().ok()?;
                    field.printed.start = field.decoded.start;
                }
                ("until", minor) => {
                    field.decoded.end = minor.parse().ok()?;
                    field.printed.end = field.decoded.end;
                }
                ("printed", minor) => field.printed.start = minor.parse().ok()?,
                ("gate", gate) => {
                    let (name, on_since) = gate.split_once(':').unwrap_or((gate, "255"));
                    field.gate = Some(FieldGate { name, on_since: on_since.parse().ok()? });
                }
                ("default", text) => field.default = Some(default_value(&field.ty, text)?),
                _ => return None,
            }
        }
        if only_printed.is_some() {
            field.decoded = 0..0;
        }
        Some(field)
    }

    /// Converts a type as Go writes it, such as `[]core.Volume`.
    fn field_type(&mut self, go_type: &'static str) -> FieldType {
        if let Some(target) = go_type.strip_prefix('*') {
            return FieldType::Pointer(Box::new(self.field_type(target)));
        }
        if let Some(item) = go_type.strip_prefix("[]") {
            return FieldType::List(Box::new(self.field_type(item)));
        }
        if let Some((_, value)) = go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return FieldType::Map(Box::new(self.field_type(value)));
        }
        match go_type {
            "bool" => FieldType::Bool,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "resource.Quantity" => FieldType::Quantity,
            "core.ResourceList" => FieldType::Map(Box::new(FieldType::Quantity)),
            "intstr.IntOrString" => FieldType::IntOrString,
            "v1.Time" => FieldType::Time,
            "v1.FieldsV1" => FieldType::Json,
            name if self.rows.contains_key(name) => FieldType::Struct(self.go_struct(name)),
            _ => FieldType::Str,
        }
    }
}

fn default_value(ty: &FieldType, text: &str) -> Option<Value> {
    Some(match ty {
        FieldType::Pointer(target) => default_value(target, text)?,
        FieldType::Str => Value::Str(Arc::from(text.trim_matches('"'))),
        FieldType::Bool => Value::Bool(text.parse().ok()?),
        FieldType::Int32 | FieldType::Int64 => Value::Int(text.parse().ok()?),
        FieldType::Struct(_) if text == "{}" => Value::Map(Arc::default()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value as Json;

    use super::*;

    const RECORDED: &str = include_str!("../../../../tests/recordings/pod-layouts-1.28-1.36.json");

    /// The structs that differ in 1.37. Two recorded UIDs confirm some of them; the others follow the same rule.
    const RECORDED_37: &str = include_str!("../../../../tests/recordings/static-pod-layout-1.37.json");

    /// Returns both recordings as one.
    fn recorded() -> Json {
        let mut all: Json = serde_json::from_str(RECORDED).unwrap();
        let newer: Json = serde_json::from_str(RECORDED_37).unwrap();
        for part in ["structs", "named"] {
            for (name, value) in newer[part].as_object().unwrap() {
                if let (Some(old), Some(new)) = (all[part][name].as_object_mut(), value.as_object()) {
                    old.extend(new.clone());
                } else {
                    all[part][name] = value.clone();
                }
            }
        }
        all
    }

    /// Returns the fields of a recorded struct in release `1.minor`, from the newest recording that is not newer than
    /// this release.
    fn recorded_fields(versions: &Json, minor: u8) -> Vec<String> {
        let by_minor: BTreeMap<u8, &Json> = versions
            .as_object()
            .unwrap()
            .iter()
            .map(|(version, fields)| (version.trim_start_matches("1.").parse().unwrap(), fields))
            .collect();
        let (_, fields) = by_minor.range(..=minor).next_back().unwrap();
        let name = |field: &Json| field.as_str().unwrap().trim_start_matches('^').to_owned();
        fields.as_array().unwrap().iter().map(name).collect()
    }

    /// Collects each struct that release `1.minor` prints, with its Go name, and the named string types.
    fn collect_printed(
        name: &str,
        object: &GoStruct,
        minor: u8,
        structs: &mut BTreeMap<String, Vec<String>>,
        strings: &mut BTreeSet<String>,
    ) {
        let mut fields = Vec::new();
        for field in object.fields.iter().filter(|field| field.printed_in(minor)) {
            fields.push(format!("{} {}", field.name, field.go_type));
            let inner = field.go_type.trim_start_matches(['*', '[', ']']);
            let mut ty = &field.ty;
            while let FieldType::Pointer(inner) | FieldType::List(inner) = ty {
                ty = inner;
            }
            match ty {
                FieldType::Struct(object) if !structs.contains_key(inner) => {
                    collect_printed(inner, object, minor, structs, strings);
                }
                FieldType::Str => {
                    strings.insert(inner.to_owned());
                }
                _ => {}
            }
        }
        structs.insert(name.to_owned(), fields);
    }

    #[test]
    fn every_struct_of_every_release_equals_the_recorded_struct() {
        let recorded = recorded();
        for minor in 28..=37 {
            let (mut structs, mut strings) = (BTreeMap::new(), BTreeSet::new());
            collect_printed("core.Pod", pod(), minor, &mut structs, &mut strings);
            assert!(structs.len() > 110, "{}", structs.len());
            for (name, fields) in structs {
                assert_eq!(
                    fields,
                    recorded_fields(&recorded["structs"][&name], minor),
                    "{name} in 1.{minor}"
                );
            }
            for name in strings {
                assert_eq!(recorded["named"][&name], "string", "{name} in 1.{minor}");
            }
        }
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let table = SchemaTable::read(TABLE);
        for name in table.rows.keys().copied().collect::<Vec<_>>() {
            let mut table = SchemaTable::read(TABLE);
            for row in table.rows[name].clone() {
                assert!(table.field(row).is_some(), "{name}: {row}");
            }
        }
        let (mut structs, mut fields) = (vec![pod()], 0);
        while let Some(object) = structs.pop() {
            fields += object.fields.len();
            structs.extend(object.fields.iter().filter_map(|field| field.ty.inner_struct()));
        }
        // A struct that several fields use counts several times, so the total is below the number of rows only if a
        // struct is never used.
        assert!(fields > table.rows.values().map(Vec::len).sum(), "a struct is not used: {fields}");
    }

    #[test]
    fn a_malformed_row_is_not_a_field() {
        for row in [
            "a A",
            "a A string since=x",
            "a A string size=3",
            "a A bool default=yes",
            "a A []string default=x",
        ] {
            assert!(SchemaTable::read("").field(row).is_none(), "{row}");
        }
    }

    #[test]
    fn a_field_that_changed_its_type_has_the_type_of_the_release() {
        let type_of_claim_resources = |minor| {
            let spec = pod().field("spec", minor).unwrap().ty.inner_struct().unwrap();
            let volume = spec.field("volumes", minor).unwrap().ty.inner_struct().unwrap();
            let ephemeral = volume.field("ephemeral", minor).unwrap().ty.inner_struct().unwrap();
            let template = ephemeral.field("volumeClaimTemplate", minor).unwrap().ty.inner_struct().unwrap();
            let claim = template.field("spec", minor).unwrap().ty.inner_struct().unwrap();
            claim.field("resources", minor).unwrap().go_type
        };
        assert_eq!(type_of_claim_resources(28), "core.ResourceRequirements");
        assert_eq!(type_of_claim_resources(29), "core.VolumeResourceRequirements");
    }
}
