//! Checks JSON documents against the schemas in `docs/schema/`. The check knows the part of JSON Schema that the schemas
//! use, and is stricter: a field that the schema does not have is a fault.

use std::path::Path;
use std::sync::Mutex;
use std::{collections::HashMap, fs};

use serde_json::{Map, Value};

/// Checks the documents of plegctl in a text: one document, or one in each line. Any other text is fine.
pub fn check(text: &str) {
    let is_ours = |document: &Value| document["apiVersion"] == "plegctl/v1";
    if let Ok(document) = serde_json::from_str::<Value>(text) {
        if is_ours(&document) {
            check_document(&document);
        }
        return;
    }
    for line in text.lines().filter(|line| line.starts_with("{\"apiVersion\":\"plegctl/v1\"")) {
        // The last line of a program that was killed may be incomplete.
        if let Ok(document) = serde_json::from_str::<Value>(line) {
            check_document(&document);
        }
    }
}

/// Checks one document.
pub fn check_document(document: &Value) {
    let schema = schema_of(document["kind"].as_str().expect("a document has a kind"));
    let faults = faults(document, &schema, &schema, "");
    assert!(faults.is_empty(), "the document does not fit its schema:\n{}\n{document:#}", faults.join("\n"));
}

/// Reads the schema of a kind.
fn schema_of(kind: &str) -> Value {
    static READ: Mutex<Option<HashMap<String, Value>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap();
    let read = read.get_or_insert_default();
    let load = || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/schema/{kind}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        serde_json::from_str(&text).unwrap()
    };
    read.entry(kind.to_owned()).or_insert_with(load).clone()
}

/// Returns where a value does not fit a schema that has its own definitions.
pub fn misfits(value: &Value, schema: &Value) -> Vec<String> {
    faults(value, schema, schema, "")
}

/// Returns where a value does not fit a schema. `root` has the definitions.
fn faults(value: &Value, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    // The empty schema accepts any value: the fields of a fact depend on its kind.
    if schema.as_object().is_some_and(Map::is_empty) {
        return Vec::new();
    }
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.strip_prefix("#/$defs/").expect("a reference to a definition");
        return faults(value, &root["$defs"][name], root, at);
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        let fits = variants.iter().filter(|variant| faults(value, variant, root, at).is_empty()).count();
        return if fits == 1 { Vec::new() } else { vec![format!("{at}: {value} fits {fits} variants")] };
    }
    let is_wrong = schema.get("const").is_some_and(|one| one != value)
        || schema["enum"].as_array().is_some_and(|all| !all.contains(value))
        || schema["minimum"]
            .as_f64()
            .is_some_and(|least| value.as_f64().is_some_and(|number| number < least));
    let has_type = match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(_))
        | (Some("array"), Value::Array(_))
        | (Some("boolean"), Value::Bool(_))
        | (Some("number"), Value::Number(_))
        | (None, _) => true,
        (Some("string"), Value::String(text)) => {
            schema["format"] != "date-time" || humantime::parse_rfc3339(text).is_ok()
        }
        (Some("integer"), Value::Number(number)) => {
            number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    };
    if is_wrong || !has_type {
        return vec![format!("{at}: {value} is not {schema}")];
    }
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, item)| faults(item, &schema["items"], root, &format!("{at}[{index}]")))
            .collect(),
        Value::Object(fields) => object_faults(fields, schema, root, at),
        _ => Vec::new(),
    }
}

/// Returns the faults of an object's fields.
fn object_faults(fields: &Map<String, Value>, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut all: Vec<String> =
        names.filter(|name| !fields.contains_key(*name)).map(|name| format!("{at}: no {name}")).collect();
    for (name, value) in fields {
        let at = format!("{at}.{name}");
        let schema = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match schema {
            Some(schema) if schema.is_object() => all.extend(faults(value, schema, root, &at)),
            _ => all.push(format!("{at}: the schema has no such field")),
        }
    }
    all
}

#[test]
fn a_wrong_document_does_not_fit_its_schema() {
    let pod = serde_json::json!({"uid": "u", "namespace": "n", "name": "p"});
    let right = serde_json::json!({"apiVersion": "plegctl/v1", "kind": "Silence", "time": "2026-01-01T00:00:00Z",
        "rpc": "ListContainers", "pod": pod, "waitedSeconds": 5.0});
    check_document(&right);
    for (name, wrong) in [
        ("time", "yesterday".into()),
        ("waitedSeconds", "5 s".into()),
        ("pod", "n/p".into()),
        ("rpc", Value::Null),
        ("other", 1.into()),
        ("kind", "Event".into()),
    ] {
        let mut document = right.clone();
        document[name] = wrong;
        let schema = schema_of("Silence");
        assert!(!faults(&document, &schema, &schema, "").is_empty(), "{name}");
    }
}
