//! Validates metadata: name, labels, annotations, owners, finalizers, managed fields.

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;
use crate::report::PodIdentity;

use super::names;

/// The kubelet's limit for all annotations together (`TotalAnnotationSizeLimitB` in apimachinery).
const ANNOTATION_BYTES: usize = 256 * 1024;
/// The key of the annotation with the pod's hash, which the kubelet adds before validation.
const HASH_KEY: &str = "kubernetes.io/config.hash";
/// The number of digits of this hash.
const HASH_DIGITS: usize = 32;

/// Validates `metadata`. `identity` has the pod's full name, with the node's name.
pub fn validate(validator: &mut Validator, meta: &PodField<'_>, identity: &PodIdentity) {
    // A trailing dash is valid, because the API server would append text to the prefix.
    validator.optional_text(Check::BadMetadata, &meta.get("generateName"), names::object_prefix);
    name(validator, &meta.get("name"), identity);
    validator.problem(Check::BadMetadata, &meta.get("namespace"), names::label(&identity.namespace));
    if meta.get("generation").int() < 0 {
        validator.invalid(Check::BadMetadata, &meta.get("generation"), "must be greater than or equal to 0");
    }
    labels(validator, Check::BadMetadata, &meta.get("labels"));
    annotations(validator, meta);
    owners(validator, &meta.get("ownerReferences"));
    finalizers(validator, &meta.get("finalizers"));
    managed_fields(validator, &meta.get("managedFields"));
}

/// Validates the pod's full name.
fn name(validator: &mut Validator, at: &PodField<'_>, identity: &PodIdentity) {
    if let Some(wrong) = names::subdomain(&identity.name) {
        let what = format!("the pod's name together with the node's name, `{}`,", identity.name);
        validator.wrong_text(Check::BadMetadata, at, &identity.name, &what, wrong);
    }
}

/// Validates labels: the format of their keys and values.
pub fn labels(validator: &mut Validator, check: Check, at: &PodField<'_>) {
    for (entry, value) in at.entries() {
        let value = value.called(at.path().to_owned());
        if let Some(wrong) = names::qualified(&entry.key) {
            validator.wrong_text(check, &value, &entry.key, &format!("the key `{}`", entry.key), wrong);
        }
        validator.text(check, &value, names::label_value);
    }
}

/// Validates the keys of the annotations and their total size, including the annotation that the kubelet adds.
fn annotations(validator: &mut Validator, meta: &PodField<'_>) {
    let at = meta.get("annotations");
    for (entry, value) in at.entries() {
        if let Some(wrong) = names::qualified(&entry.key.to_lowercase()) {
            let value = value.called(at.path().to_owned());
            let what = format!("the key `{}`", entry.key);
            validator.wrong_text(Check::BadMetadata, &value, &entry.key, &what, wrong);
        }
    }
    let in_file: usize = at
        .entries()
        .iter()
        .filter(|(entry, _)| &*entry.key != HASH_KEY)
        .map(|(entry, value)| entry.key.len().saturating_add(value.str().len()))
        .sum();
    let uid = meta.get("uid").str().len();
    let total = in_file + HASH_KEY.len() + if uid == 0 { HASH_DIGITS } else { uid };
    if total > ANNOTATION_BYTES {
        validator.too_long(Check::BadMetadata, &at, "all annotations together may have at most 262144 bytes");
    }
}

fn owners(validator: &mut Validator, at: &PodField<'_>) {
    let mut controllers = 0;
    for owner in at.items() {
        let version = owner.get("apiVersion");
        let group_version: Vec<&str> = version.str().split('/').collect();
        let number = match *group_version.as_slice() {
            [number] | [_, number] => number,
            _ => "",
        };
        if number.is_empty() {
            validator.invalid(Check::BadMetadata, &version, "must name a version");
        }
        for field in ["kind", "name", "uid"] {
            if owner.get(field).is_empty() {
                validator.invalid(Check::BadMetadata, &owner.get(field), "must not be empty");
            }
        }
        if version.str() == "v1" && owner.get("kind").str() == "Event" {
            validator.invalid(Check::BadMetadata, &owner, "an Event may not be an owner");
        }
        controllers += usize::from(owner.get("controller").is_true());
    }
    if controllers > 1 {
        validator.invalid(Check::BadMetadata, at, "only one owner may be the controller");
    }
}

fn finalizers(validator: &mut Validator, at: &PodField<'_>) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let items = at.items();
    for item in &items {
        validator.text(Check::BadMetadata, item, names::qualified);
        if !item.str().contains('/') && !STANDARD.contains(&item.str()) {
            validator.invalid(
                Check::BadMetadata,
                item,
                "must be a standard finalizer or have a domain and `/` before its name",
            );
        }
    }
    let has = |name: &str| items.iter().any(|item| item.str() == name);
    if has("orphan") && has("foregroundDeletion") {
        validator.invalid(Check::BadMetadata, at, "may not have both `orphan` and `foregroundDeletion`");
    }
}

fn managed_fields(validator: &mut Validator, at: &PodField<'_>) {
    for entry in at.items() {
        if !matches!(entry.get("operation").str(), "Apply" | "Update") {
            validator.invalid(Check::BadMetadata, &entry.get("operation"), "must be `Apply` or `Update`");
        }
        let kind = entry.get("fieldsType");
        if !kind.is_empty() && kind.str() != "FieldsV1" {
            validator.invalid(Check::BadMetadata, &kind, "must be `FieldsV1`");
        }
        let manager = entry.get("manager");
        if manager.str().len() > 128 {
            validator.too_long(Check::BadMetadata, &manager, "may not be longer than 128 bytes");
        }
        if manager
            .str()
            .chars()
            .any(|letter| letter.is_control() || (letter.is_whitespace() && letter != ' '))
        {
            validator.invalid(Check::BadMetadata, &manager, "must be printable");
        }
        let subresource = entry.get("subresource");
        if subresource.str().len() > 256 {
            validator.too_long(Check::BadMetadata, &subresource, "may not be longer than 256 bytes");
        }
    }
}
