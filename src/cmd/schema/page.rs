//! Writes the generated part of `docs/json.md`: a table of the fields of each kind, and of each object in them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// Returns the page.
pub fn page(schemas: &BTreeMap<&'static str, Value>) -> String {
    let mut page = "\n## Kinds\n".to_owned();
    let mut objects: BTreeMap<&str, &Value> = BTreeMap::new();
    for (kind, schema) in schemas {
        section(kind, schema, &mut page);
        for (name, object) in schema["$defs"].as_object().into_iter().flatten() {
            if !schemas.contains_key(name.as_str()) {
                let other = objects.insert(name, object);
                assert!(other.is_none_or(|other| other == object), "{name} is two different objects");
            }
        }
    }
    page += "\n## Objects in them\n";
    for (name, object) in objects {
        section(name, object, &mut page);
    }
    page
}

/// Writes the section of a kind or an object: the table of its fields, or of its values.
fn section(name: &str, schema: &Value, page: &mut String) {
    let about = schema["description"].as_str().unwrap_or_default();
    let _ = writeln!(page, "\n### {name}\n\n{about}\n");
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    if schema["oneOf"].is_array() {
        page.push_str("| value | meaning |\n|---|---|\n");
    } else if schema["enum"].is_array() {
        let _ = writeln!(page, "One of {}.", words(schema));
    }
    for variant in variants {
        let value = match variant["properties"].as_object() {
            // An object whose first field says which fields it has.
            Some(fields) => fields
                .iter()
                .map(|(name, field)| match field["const"].as_str() {
                    Some(value) => format!("`{name}: {value}`"),
                    None => format!("`{name}`"),
                })
                .collect::<Vec<_>>()
                .join(", "),
            None => words(variant),
        };
        let _ = writeln!(page, "| {value} | {} |", cell(variant));
    }
    if let Some(fields) = schema["properties"].as_object() {
        page.push_str("| field | type | meaning |\n|---|---|---|\n");
        let is_required =
            |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        for (name, field) in fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind") || schema["title"].is_null())
        {
            let mark = if is_required(name) { "" } else { "?" };
            let _ = writeln!(page, "| `{name}`{mark} | {} | {} |", kind_of(field), cell(field));
        }
    }
}

/// Returns the values of an enumeration.
fn words(schema: &Value) -> String {
    let values = schema["enum"].as_array().into_iter().flatten().chain(schema.get("const"));
    values.filter_map(|value| Some(format!("`{}`", value.as_str()?))).collect::<Vec<_>>().join(", ")
}

/// Returns the description for a cell of a table.
fn cell(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('|', "\\|")
}

/// Returns the type of a field in words.
fn kind_of(field: &Value) -> String {
    if let Some(target) = field["$ref"].as_str() {
        let name = target.trim_start_matches("#/$defs/");
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    if let Some(value) = field["const"].as_str() {
        return format!("`{value}`");
    }
    match field["type"].as_str() {
        Some("array") => format!("list of {}", kind_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(&field["additionalProperties"]))
        }
        Some("string") if field["format"] == "date-time" => "time".to_owned(),
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}
