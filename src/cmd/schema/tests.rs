//! Generates the schemas from the types, and checks that `docs/schema/` is current.
//! `cargo xtask write schemas` updates it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::*;
use crate::pleg::stream;
use crate::report::API_VERSION;

/// Generates the schema of a document.
fn schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Generates the schemas of all kinds.
fn schemas() -> BTreeMap<&'static str, Value> {
    let mut all = BTreeMap::from([
        ("CaptureList", schema::<crate::capture::list::CaptureList>()),
        ("CaptureReport", schema::<crate::capture::report::CaptureReport>()),
        ("CheckReport", schema::<crate::capture::list::CheckReport>()),
        ("DiffReport", schema::<crate::pleg::diff::DiffReport>()),
        ("Divergence", schema::<stream::Divergence>()),
        ("Event", schema::<stream::Event>()),
        ("FleetCaptures", schema::<crate::fleet::FleetCaptures>()),
        ("FleetIncidents", schema::<crate::fleet::FleetIncidents>()),
        ("FleetPreflight", schema::<crate::fleet::FleetPreflight>()),
        ("Health", schema::<stream::Health>()),
        ("HealthBundle", schema::<crate::cmd::health::BundleIndex<'static>>()),
        ("HealthReport", schema::<crate::diagnosis::HealthReport>()),
        ("IncidentList", schema::<crate::capture::recorder_verdict::IncidentList>()),
        ("LintReport", schema::<crate::manifests::lint::LintReport>()),
        ("NodesReport", schema::<crate::fleet::NodesReport>()),
        ("PodFollow", schema::<crate::cmd::pods::PodFollow>()),
        ("PodSourceError", schema::<crate::cmd::pods::PodSourceError<'static>>()),
        ("PodUpdate", schema::<crate::cmd::pods::PodUpdate>()),
        ("PodWhy", schema::<crate::diagnosis::pod_holders::report::PodWhy>()),
        ("PodsReport", schema::<crate::cmd::pods::report::PodsReport>()),
        ("PreflightReport", schema::<crate::manifests::preflight::PreflightReport>()),
        ("RecorderVerdict", schema::<crate::capture::recorder_verdict::RecorderVerdict>()),
        ("Relist", schema::<stream::Relist>()),
        ("RelistReport", schema::<crate::pleg::RelistReport>()),
        ("RuleList", schema::<crate::cmd::explain::RuleList>()),
        ("ScenarioList", schema::<crate::cmd::sim::ScenarioList>()),
        ("Silence", schema::<stream::Silence>()),
        ("StackReport", schema::<crate::stacks::report::StackReport>()),
        ("Stream", schema::<stream::Stream>()),
        ("VersionReport", schema::<crate::cmd::version::VersionReport>()),
        ("WatchStarted", schema::<stream::WatchStarted>()),
        ("WatchSummary", schema::<stream::WatchSummary>()),
    ]);
    let kinds: Vec<&str> = all.keys().copied().collect();
    for (kind, schema) in &mut all {
        simplify(schema);
        let fields = schema.as_object_mut().unwrap();
        fields.insert("title".to_owned(), (*kind).into());
        add_constant(fields, "kind", kind);
        add_constant(fields, "apiVersion", API_VERSION);
        if *kind == "HealthReport" {
            let about = "In a file of --save and in a bundle: what the run measured, for `plegctl health --from` only.";
            let properties = fields.get_mut("properties").and_then(Value::as_object_mut).unwrap();
            properties.insert(
                "measured".to_owned(),
                json!({ "type": "object", "description": about, "additionalProperties": {} }),
            );
        }
        // A document within another one has a kind and no version.
        for (name, nested) in fields.get_mut("$defs").and_then(Value::as_object_mut).into_iter().flatten() {
            let name = name.replace("TimedStackReport", "StackReport");
            if kinds.contains(&name.as_str()) {
                add_constant(nested.as_object_mut().unwrap(), "kind", &name);
            }
        }
    }
    all
}

/// Adds a required field with one possible value.
fn add_constant(fields: &mut Map<String, Value>, name: &str, value: &str) {
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut).unwrap();
    properties.insert(name.to_owned(), json!({ "const": value }));
    let required = fields.entry("required").or_insert_with(|| json!([])).as_array_mut().unwrap();
    required.retain(|other| other != name);
    required.insert(0, name.into());
}

/// Removes what is not true of the documents or says nothing: null, which they never contain, the widths of numbers,
/// and defaults. Makes a line of each description.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(fields) => {
            fields.retain(|key, value| {
                !matches!((key.as_str(), &*value), ("default", _))
                    && (key != "format" || value == "date-time")
            });
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|one| one != "null");
                let one = types.first().cloned().unwrap();
                fields.insert("type".to_owned(), one);
            }
            if let Some(Value::Array(any)) = fields.get_mut("anyOf") {
                any.retain(|one| *one != json!({"type": "null"}));
                assert_eq!(any.len(), 1, "{any:?}");
                let Some(Value::Object(one)) = any.pop() else { unreachable!("a schema is an object") };
                fields.remove("anyOf");
                for (key, value) in one {
                    fields.entry(key).or_insert(value);
                }
            }
            fields.values_mut().for_each(simplify);
        }
        _ => {}
    }
}

fn text(schema: &Value) -> String {
    let mut out = Vec::new();
    crate::report::json::pretty(schema, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Checks that a file has this content; with `PLEGCTL_BLESS`, writes it.
fn check(name: &str, fresh: &str) {
    if env::var_os("PLEGCTL_BLESS").is_some() {
        fs::write(path(name), fresh).unwrap();
    }
    let is_current = fs::read_to_string(path(name)).is_ok_and(|text| text == fresh);
    assert!(is_current, "{name} is not current: run `cargo xtask write schemas`");
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let schemas = schemas();
    let texts: Vec<String> = schemas.values().map(text).collect();
    for (kind, text) in schemas.keys().zip(&texts) {
        check(&format!("docs/schema/{kind}.json"), text);
    }
    let files = fs::read_dir(path("docs/schema")).unwrap().count();
    assert_eq!(files, schemas.len(), "docs/schema has one file for each kind");
    assert!(kinds().eq(schemas.keys().copied()), "the program has a schema for each kind");
}

#[test]
fn a_mistyped_kind_finds_the_most_similar() {
    let kinds = ["Event", "RelistReport", "HealthReport"];
    assert_eq!(nearest("relistreprot", kinds.into_iter()).as_deref(), Some("RelistReport"));
    assert_eq!(nearest("Deployment", kinds.into_iter()), None);
}
