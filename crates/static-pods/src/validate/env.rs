//! Validates environment variables and the sources of their values.

use super::validator::{Validator, ViolationKind};
use crate::Check;
use crate::pod_field::PodField;

use super::names;

/// Fields that an environment variable may refer to.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The first minor release that accepts `status.hostIPs` in a file. Earlier releases need the feature gate `PodHostIPs`,
/// which does not apply to files.
pub const HOST_IPS_SINCE: u8 = 32;

/// All fields to which any reference in the API may refer. A field that is only here gives another error than an unknown
/// field.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Validates `env` and `envFrom` of one container.
pub fn validate(validator: &mut Validator, container: &PodField<'_>, spec: &PodField<'_>) {
    let volumes = spec.get("volumes").items();
    let name_rule: names::TextRule =
        if validator.applies_feature_gates() { names::relaxed_env } else { names::strict_env };
    for variable in container.get("env").items() {
        let name = variable.get("name");
        validator.required_text(Check::OtherRule, &name, "an environment variable needs a name", name_rule);
        value_from(validator, &variable, &volumes);
    }
    for source in container.get("envFrom").items() {
        validator.optional_text(Check::OtherRule, &source.get("prefix"), name_rule);
        let references = source.present(&["configMapRef", "secretRef"]);
        for (_, reference) in &references {
            object_name(validator, &reference.get("name"), names::object_prefix);
        }
        exactly_one(validator, &source, references.len(), "configMapRef or secretRef");
    }
}

fn object_name(validator: &mut Validator, name: &PodField<'_>, rule: names::TextRule) {
    validator.required_text(Check::OtherRule, name, "the name of the object is required", rule);
}

fn exactly_one(validator: &mut Validator, at: &PodField<'_>, given: usize, what: &str) {
    if given == 0 {
        validator.invalid(Check::OtherRule, at, &format!("must have one of {what}"));
    } else if given > 1 {
        validator.invalid(Check::OtherRule, at, &format!("must have only one of {what}"));
    }
}

/// Validates `valueFrom`.
fn value_from(validator: &mut Validator, variable: &PodField<'_>, volumes: &[PodField<'_>]) {
    let source = variable.get("valueFrom");
    if !source.is_set() {
        return;
    }
    let references =
        source.present(&["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"]);
    for (kind, reference) in &references {
        match *kind {
            "fieldRef" => field_ref(validator, reference, FIELDS),
            "resourceFieldRef" => super::resource_field::validate(validator, reference, false),
            "fileKeyRef" => file_key(validator, reference, volumes),
            _ => {
                object_name(validator, &reference.get("name"), names::subdomain);
                let key = reference.get("key");
                validator.required_text(Check::OtherRule, &key, "the key is required", names::config_key);
            }
        }
    }
    if !references.is_empty() && !variable.get("value").is_empty() {
        validator.invalid(Check::OtherRule, &source, "may not be combined with a value that is not empty");
        return;
    }
    exactly_one(
        validator,
        &source,
        references.len(),
        "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef",
    );
}

/// Validates `fileKeyRef`.
fn file_key(validator: &mut Validator, reference: &PodField<'_>, volumes: &[PodField<'_>]) {
    let volume = reference.get("volumeName");
    validator.required_text(Check::OtherRule, &volume, "the volume is required", names::label);
    match volumes.iter().rfind(|item| item.get("name").str() == volume.str()) {
        None => {
            validator.not_found(Check::OtherRule, &volume, "the pod has no volume with this name");
        }
        Some(found) if !found.get("emptyDir").is_set() => {
            validator.invalid(Check::OtherRule, &volume, "must be a volume of type emptyDir");
        }
        Some(_) => {}
    }
    let path = reference.get("path");
    validator.required_text(Check::OtherRule, &path, "the path of the file is required", names::no_backsteps);
    let key = reference.get("key");
    validator.required_text(Check::OtherRule, &key, "the key is required", names::relaxed_env);
}

/// Validates a reference to a field of the pod itself.
pub fn field_ref(validator: &mut Validator, reference: &PodField<'_>, allowed: &[&str]) {
    let version = reference.get("apiVersion");
    let path = reference.get("fieldPath");
    if !validator.not_empty(Check::OtherRule, &version, "the version is required")
        || !validator.not_empty(Check::OtherRule, &path, "the path of the field is required")
    {
        return;
    }
    if version.str() != "v1" {
        validator.invalid(Check::OtherRule, &path, "fields can be named in version v1 only");
        return;
    }
    if let Some((map, key)) = subscript(path.str()) {
        match map {
            "metadata.annotations" => {
                validator.problem(Check::OtherRule, &path, names::qualified(&key.to_lowercase()));
            }
            "metadata.labels" => validator.problem(Check::OtherRule, &path, names::qualified(key)),
            _ => {
                validator.invalid(
                    Check::OtherRule,
                    &path,
                    "only metadata.labels and metadata.annotations allow a key in brackets",
                );
            }
        }
        return;
    }
    let text = if path.str() == "spec.host" { "spec.nodeName" } else { path.str() };
    if !KNOWN_FIELDS.contains(&text) {
        validator.invalid(Check::OtherRule, &path, "is not a field to which a reference may refer");
    } else if !allowed.contains(&text) {
        let why = format!("is not allowed here; allowed are {}", allowed.join(", "));
        validator.violation(Check::OtherRule, &path, ViolationKind::Unsupported, &why);
    } else if text == "status.hostIPs" && !validator.version.at_least(HOST_IPS_SINCE) {
        validator.forbidden(Check::OtherRule, &path, "status.hostIPs is not available in this release");
    }
}

/// Splits `metadata.labels['key']` into its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}
