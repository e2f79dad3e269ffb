//! Metadata: name, labels, annotations, owners, finalizers, managed fields.

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;
use crate::manifests::report::PodIdentity;

use super::names;

/// The kubelet's limit for all annotations together (`TotalAnnotationSizeLimitB` in apimachinery).
const ANNOTATION_BYTES: usize = 256 * 1024;
/// The annotation that the kubelet adds: its key and a hash of 32 digits.
const HASH_KEY: &str = "kubernetes.io/config.hash";
const HASH_DIGITS: usize = 32;

/// Judges `metadata`, whose name already has the node's name as a suffix.
pub fn validate(judge: &mut Judge, meta: &Place<'_>, identity: &PodIdentity) {
    generate_name(judge, &meta.get("generateName"));
    name(judge, &meta.get("name"), identity);
    if let Some(wrong) = names::label(&identity.namespace) {
        judge.invalid(Check::BadMetadata, &meta.get("namespace"), wrong);
    }
    if meta.get("generation").int() < 0 {
        judge.invalid(Check::BadMetadata, &meta.get("generation"), "must be greater than or equal to 0");
    }
    labels(judge, Check::BadMetadata, &meta.get("labels"));
    annotations(judge, meta);
    owners(judge, &meta.get("ownerReferences"));
    finalizers(judge, &meta.get("finalizers"));
    managed_fields(judge, &meta.get("managedFields"));
}

fn generate_name(judge: &mut Judge, at: &Place<'_>) {
    if at.is_empty() {
        return;
    }
    // A trailing dash is fine: the server would put something behind it.
    if let Some(wrong) = names::object_prefix(at.str()) {
        judge.invalid(Check::BadMetadata, at, wrong);
    }
}

fn name(judge: &mut Judge, at: &Place<'_>, identity: &PodIdentity) {
    if let Some(wrong) = names::subdomain(&identity.name) {
        let why = format!("the pod's name with the node's, `{}`, {wrong}", identity.name);
        judge.invalid_as(Check::BadMetadata, at, &identity.name, &why);
    }
}

/// Labels: keys are qualified names, values are short.
pub fn labels(judge: &mut Judge, check: Check, at: &Place<'_>) {
    for (entry, value) in at.entries() {
        let value = value.called(at.path().to_owned());
        if let Some(wrong) = names::qualified(&entry.key) {
            judge.invalid(check, &value, &format!("the key `{}` {wrong}", entry.key));
        }
        if let Some(wrong) = names::label_value(value.str()) {
            judge.invalid(check, &value, wrong);
        }
    }
}

fn annotations(judge: &mut Judge, meta: &Place<'_>) {
    let at = meta.get("annotations");
    for (entry, value) in at.entries() {
        if let Some(wrong) = names::qualified(&entry.key.to_lowercase()) {
            let value = value.called(at.path().to_owned());
            judge.invalid(Check::BadMetadata, &value, &format!("the key `{}` {wrong}", entry.key));
        }
    }
    let own: usize = at
        .entries()
        .iter()
        .filter(|(entry, _)| &*entry.key != HASH_KEY)
        .map(|(entry, value)| entry.key.len().saturating_add(value.str().len()))
        .sum();
    let uid = meta.get("uid").str().len();
    let total = own + HASH_KEY.len() + if uid == 0 { HASH_DIGITS } else { uid };
    if total > ANNOTATION_BYTES {
        judge.object(
            Check::BadMetadata,
            &at,
            Objection::TooLong,
            "all annotations together may have at most 262144 bytes",
        );
    }
}

fn owners(judge: &mut Judge, at: &Place<'_>) {
    let mut controllers = 0;
    for owner in at.items() {
        let version = owner.get("apiVersion");
        let group_version: Vec<&str> = version.str().split('/').collect();
        let number = match *group_version.as_slice() {
            [number] | [_, number] => number,
            _ => "",
        };
        if number.is_empty() {
            judge.invalid(Check::BadMetadata, &version, "must name a version");
        }
        for field in ["kind", "name", "uid"] {
            if owner.get(field).is_empty() {
                judge.invalid(Check::BadMetadata, &owner.get(field), "must not be empty");
            }
        }
        if version.str() == "v1" && owner.get("kind").str() == "Event" {
            judge.invalid(Check::BadMetadata, &owner, "an Event may not be an owner");
        }
        controllers += usize::from(owner.get("controller").is_true());
    }
    if controllers > 1 {
        judge.invalid(Check::BadMetadata, at, "only one owner may be the controller");
    }
}

fn finalizers(judge: &mut Judge, at: &Place<'_>) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let items = at.items();
    for item in &items {
        if let Some(wrong) = names::qualified(item.str()) {
            judge.invalid(Check::BadMetadata, item, wrong);
        }
        if !item.str().contains('/') && !STANDARD.contains(&item.str()) {
            judge.invalid(
                Check::BadMetadata,
                item,
                "must be a standard finalizer or have a domain and `/` before its name",
            );
        }
    }
    let has = |name: &str| items.iter().any(|item| item.str() == name);
    if has("orphan") && has("foregroundDeletion") {
        judge.invalid(Check::BadMetadata, at, "may not have both `orphan` and `foregroundDeletion`");
    }
}

fn managed_fields(judge: &mut Judge, at: &Place<'_>) {
    for entry in at.items() {
        if !matches!(entry.get("operation").str(), "Apply" | "Update") {
            judge.invalid(Check::BadMetadata, &entry.get("operation"), "must be `Apply` or `Update`");
        }
        let kind = entry.get("fieldsType");
        if !kind.is_empty() && kind.str() != "FieldsV1" {
            judge.invalid(Check::BadMetadata, &kind, "must be `FieldsV1`");
        }
        let manager = entry.get("manager");
        if manager.str().len() > 128 {
            judge.object(
                Check::BadMetadata,
                &manager,
                Objection::TooLong,
                "may not be longer than 128 bytes",
            );
        }
        if manager
            .str()
            .chars()
            .any(|letter| letter.is_control() || (letter.is_whitespace() && letter != ' '))
        {
            judge.invalid(Check::BadMetadata, &manager, "must be printable");
        }
        let subresource = entry.get("subresource");
        if subresource.str().len() > 256 {
            judge.object(
                Check::BadMetadata,
                &subresource,
                Objection::TooLong,
                "may not be longer than 256 bytes",
            );
        }
    }
}
