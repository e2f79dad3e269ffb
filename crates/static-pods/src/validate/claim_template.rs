//! Validates the volume claim template of an ephemeral volume.

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::tree::{ManifestNode, Map, Value};

use super::{meta, names, scheduling};

/// Validates an ephemeral volume. The name of its claim consists of the pod's name and the volume's name.
pub fn validate(validator: &mut Validator, volume: &PodField<'_>, pod_name: &str) {
    let template = volume.get("ephemeral").get("volumeClaimTemplate");
    if !template.is_set() {
        validator.required(Check::Volume, &template, "is required for this type of volume");
        return;
    }
    metadata(validator, &template.get("metadata"));
    spec(validator, &template.get("spec"));
    let name = volume.get("name");
    if let (false, Some(wrong)) = (name.is_empty(), names::subdomain(&format!("{pod_name}-{}", name.str()))) {
        validator.invalid(Check::Volume, &name, &format!("the name of the volume's claim {wrong}"));
    }
}

/// Validates the metadata: only labels and annotations may be set.
fn metadata(validator: &mut Validator, at: &PodField<'_>) {
    meta::labels(validator, Check::Volume, &at.get("labels"));
    let entries = at.node().and_then(ManifestNode::as_map).map(Map::entries).unwrap_or_default();
    for entry in entries {
        let field = at.get(&entry.key);
        let is_zero = field.is_empty()
            && !matches!(field.node().map(|node| &node.value), Some(Value::Map(_) | Value::List(_)));
        if !matches!(&*entry.key, "labels" | "annotations") && !is_zero {
            validator.forbidden(Check::Volume, &field, "may not be set in a claim template");
        }
    }
    for (entry, value) in at.get("annotations").entries() {
        validator.problem(Check::Volume, &value, names::qualified(&entry.key.to_lowercase()));
    }
}

fn spec(validator: &mut Validator, spec: &PodField<'_>) {
    const MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let modes = spec.get("accessModes");
    validator.not_empty(Check::Volume, &modes, "at least one access mode is required");
    for mode in modes.items() {
        validator.one_of(Check::Volume, &mode, MODES);
    }
    let is_exclusive = modes.items().iter().any(|mode| mode.str() == "ReadWriteOncePod");
    if is_exclusive
        && modes.items().iter().any(|mode| MODES.contains(&mode.str()) && mode.str() != "ReadWriteOncePod")
    {
        validator.forbidden(Check::Volume, &modes, "ReadWriteOncePod excludes other modes");
    }
    scheduling::label_selector(validator, &spec.get("selector"));
    let storage = spec.get("resources").get("requests").key("storage");
    if !storage.is_set() {
        validator.required(Check::Volume, &storage, "a request for storage is required");
    } else if storage.quantity() <= Quantity::ZERO {
        validator.invalid(Check::Volume, &storage, "must be greater than 0");
    }
    let class = spec.get("storageClassName");
    validator.optional_text(Check::Volume, &class, names::subdomain);
    validator.optional_one_of(Check::Volume, &spec.get("volumeMode"), &["Block", "Filesystem"]);
    for field in ["dataSource", "dataSourceRef"] {
        data_source(validator, &spec.get(field));
    }
    data_source_fields(validator, spec);
}

/// Validates that the old field `dataSource` and the new field `dataSourceRef` are equal if both are set, and that only the
/// new field is set if it has a namespace.
fn data_source_fields(validator: &mut Validator, spec: &PodField<'_>) {
    let (old, new) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    let namespace = new.get("namespace");
    validator.optional_text(Check::Volume, &namespace, names::label);
    if !old.is_set() || !new.is_set() {
        return;
    }
    let same = ["apiGroup", "kind", "name"].iter().all(|field| {
        let (old, new) = (old.get(field), new.get(field));
        old.str() == new.str() && (*field != "apiGroup" || old.is_set() == new.is_set())
    });
    if !namespace.is_empty() {
        validator.invalid(
            Check::Volume,
            spec,
            "may not have a dataSource together with a dataSourceRef with a namespace",
        );
    } else if !same {
        validator.invalid(Check::Volume, spec, "dataSource and dataSourceRef must be the same");
    }
}

fn data_source(validator: &mut Validator, source: &PodField<'_>) {
    if !source.is_set() {
        return;
    }
    for field in ["name", "kind"] {
        validator.not_empty(Check::Volume, &source.get(field), "is required for a data source");
    }
    let group = source.get("apiGroup");
    if validator.version.at_least(29) {
        validator.optional_text(Check::Volume, &group, names::subdomain);
    }
    if group.is_empty() && source.get("kind").str() != "PersistentVolumeClaim" {
        validator.invalid(Check::Volume, source, "needs an apiGroup, unless it is a PersistentVolumeClaim");
    }
}
