//! The volume claim template of an ephemeral volume.

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;
use crate::manifests::quantity::Quantity;
use crate::manifests::tree::{Map, Node, Value};

use super::{meta, names, scheduling};

/// Judges an ephemeral volume, whose claim is named for the pod and the volume.
pub fn validate(judge: &mut Judge, volume: &Place<'_>, pod_name: &str) {
    let template = volume.get("ephemeral").get("volumeClaimTemplate");
    if !template.is_set() {
        judge.required(Check::Volume, &template, "is required for this type of volume");
        return;
    }
    metadata(judge, &template.get("metadata"));
    spec(judge, &template.get("spec"));
    let name = volume.get("name");
    if let (false, Some(wrong)) = (name.is_empty(), names::subdomain(&format!("{pod_name}-{}", name.str()))) {
        judge.invalid(Check::Volume, &name, &format!("the name of the claim made of it {wrong}"));
    }
}

/// Only labels and annotations may be set.
fn metadata(judge: &mut Judge, at: &Place<'_>) {
    meta::labels(judge, Check::Volume, &at.get("labels"));
    let entries = at.node().and_then(Node::as_map).map(Map::entries).unwrap_or_default();
    for entry in entries {
        let field = at.get(&entry.key);
        let zero = field.is_empty()
            && !matches!(field.node().map(|node| &node.value), Some(Value::Map(_) | Value::List(_)));
        if !matches!(&*entry.key, "labels" | "annotations") && !zero {
            judge.forbidden(Check::Volume, &field, "may not be set in a claim template");
        }
    }
    for (entry, value) in at.get("annotations").entries() {
        if let Some(wrong) = names::qualified(&entry.key.to_lowercase()) {
            judge.invalid(Check::Volume, &value, wrong);
        }
    }
}

fn spec(judge: &mut Judge, spec: &Place<'_>) {
    const MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        judge.required(Check::Volume, &modes, "at least one access mode is required");
    }
    for mode in modes.items() {
        judge.one_of(Check::Volume, &mode, MODES);
    }
    let exclusive = modes.items().iter().any(|mode| mode.str() == "ReadWriteOncePod");
    if exclusive
        && modes.items().iter().any(|mode| MODES.contains(&mode.str()) && mode.str() != "ReadWriteOncePod")
    {
        judge.forbidden(Check::Volume, &modes, "ReadWriteOncePod excludes other modes");
    }
    scheduling::label_selector(judge, &spec.get("selector"));
    let storage = spec.get("resources").get("requests").key("storage");
    if !storage.is_set() {
        judge.required(Check::Volume, &storage, "a request for storage is required");
    } else if storage.quantity() <= Quantity::ZERO {
        judge.invalid(Check::Volume, &storage, "must be greater than 0");
    }
    let class = spec.get("storageClassName");
    if let (false, Some(wrong)) = (class.is_empty(), names::subdomain(class.str())) {
        judge.invalid(Check::Volume, &class, wrong);
    }
    if spec.get("volumeMode").is_set() {
        judge.one_of(Check::Volume, &spec.get("volumeMode"), &["Block", "Filesystem"]);
    }
    for field in ["dataSource", "dataSourceRef"] {
        data_source(judge, &spec.get(field));
    }
    two_sources(judge, spec);
}

/// The old and the new name of the source say the same, unless only the new one can say it.
fn two_sources(judge: &mut Judge, spec: &Place<'_>) {
    let (old, new) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    let namespace = new.get("namespace");
    if !namespace.is_empty()
        && let Some(wrong) = names::label(namespace.str())
    {
        judge.invalid(Check::Volume, &namespace, wrong);
    }
    if !old.is_set() || !new.is_set() {
        return;
    }
    let same = ["apiGroup", "kind", "name"].iter().all(|field| {
        let (old, new) = (old.get(field), new.get(field));
        old.str() == new.str() && (*field != "apiGroup" || old.is_set() == new.is_set())
    });
    if !namespace.is_empty() {
        judge.invalid(
            Check::Volume,
            spec,
            "may not have a dataSource beside a dataSourceRef with a namespace",
        );
    } else if !same {
        judge.invalid(Check::Volume, spec, "dataSource and dataSourceRef must be the same");
    }
}

fn data_source(judge: &mut Judge, source: &Place<'_>) {
    if !source.is_set() {
        return;
    }
    for field in ["name", "kind"] {
        if source.get(field).is_empty() {
            judge.required(Check::Volume, &source.get(field), "is required for a data source");
        }
    }
    let group = source.get("apiGroup");
    if judge.version.at_least(29)
        && let (false, Some(wrong)) = (group.is_empty(), names::subdomain(group.str()))
    {
        judge.invalid(Check::Volume, &group, wrong);
    }
    if group.is_empty() && source.get("kind").str() != "PersistentVolumeClaim" {
        judge.object(
            Check::Volume,
            source,
            Objection::Invalid,
            "needs an apiGroup, unless it is a PersistentVolumeClaim",
        );
    }
}
