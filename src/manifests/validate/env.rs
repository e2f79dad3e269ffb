//! Validates environment variables and the sources of their values.

use super::validator::{Validator, ViolationKind};
use crate::manifests::Check;
use crate::manifests::pod_field::PodField;

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
    let is_relaxed = validator.applies_feature_gates();
    for variable in container.get("env").items() {
        let name = variable.get("name");
        if name.is_empty() {
            validator.required(Check::OtherRule, &name, "an environment variable needs a name");
        } else if let Some(wrong) = names::env(name.str(), is_relaxed) {
            validator.invalid(Check::OtherRule, &name, wrong);
        }
        value_from(validator, &variable, &volumes);
    }
    for source in container.get("envFrom").items() {
        let prefix = source.get("prefix");
        if let (false, Some(wrong)) = (prefix.is_empty(), names::env(prefix.str(), is_relaxed)) {
            validator.invalid(Check::OtherRule, &prefix, wrong);
        }
        let mut given = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.get(kind);
            if reference.is_set() {
                given += 1;
                object_name(validator, &reference.get("name"), names::object_prefix);
            }
        }
        exactly_one(validator, &source, given, "configMapRef or secretRef");
    }
}

fn object_name(validator: &mut Validator, name: &PodField<'_>, rule: fn(&str) -> names::FormatProblem) {
    if name.is_empty() {
        validator.required(Check::OtherRule, name, "the name of the object is required");
    } else if let Some(wrong) = rule(name.str()) {
        validator.invalid(Check::OtherRule, name, wrong);
    }
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
    let mut given = 0;
    if source.get("fieldRef").is_set() {
        given += 1;
        field_ref(validator, &source.get("fieldRef"), FIELDS);
    }
    if source.get("resourceFieldRef").is_set() {
        given += 1;
        super::resource_field::validate(validator, &source.get("resourceFieldRef"), false);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(kind);
        if reference.is_set() {
            given += 1;
            object_name(validator, &reference.get("name"), names::subdomain);
            let key = reference.get("key");
            if key.is_empty() {
                validator.required(Check::OtherRule, &key, "the key is required");
            } else if let Some(wrong) = names::config_key(key.str()) {
                validator.invalid(Check::OtherRule, &key, wrong);
            }
        }
    }
    if source.get("fileKeyRef").is_set() {
        given += 1;
        file_key(validator, &source.get("fileKeyRef"), volumes);
    }
    if given > 0 && !variable.get("value").is_empty() {
        validator.invalid(Check::OtherRule, &source, "may not be combined with a value that is not empty");
        return;
    }
    exactly_one(
        validator,
        &source,
        given,
        "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef",
    );
}

/// Validates `fileKeyRef`.
fn file_key(validator: &mut Validator, reference: &PodField<'_>, volumes: &[PodField<'_>]) {
    let volume = reference.get("volumeName");
    if volume.is_empty() {
        validator.required(Check::OtherRule, &volume, "the volume is required");
    } else if let Some(wrong) = names::label(volume.str()) {
        validator.invalid(Check::OtherRule, &volume, wrong);
    }
    match volumes.iter().rfind(|item| item.get("name").str() == volume.str()) {
        None => {
            validator.violation(
                Check::OtherRule,
                &volume,
                ViolationKind::NotFound,
                "the pod has no volume with this name",
            );
        }
        Some(found) if !found.get("emptyDir").is_set() => {
            validator.invalid(Check::OtherRule, &volume, "must be a volume of type emptyDir");
        }
        Some(_) => {}
    }
    let path = reference.get("path");
    if path.is_empty() {
        validator.required(Check::OtherRule, &path, "the path of the file is required");
    } else if let Some(wrong) = names::no_backsteps(path.str()) {
        validator.invalid(Check::OtherRule, &path, wrong);
    }
    let key = reference.get("key");
    if key.is_empty() {
        validator.required(Check::OtherRule, &key, "the key is required");
    } else if let Some(wrong) = names::env(key.str(), true) {
        validator.invalid(Check::OtherRule, &key, wrong);
    }
}

/// Validates a reference to a field of the pod itself.
pub fn field_ref(validator: &mut Validator, reference: &PodField<'_>, allowed: &[&str]) {
    let version = reference.get("apiVersion");
    let path = reference.get("fieldPath");
    if version.is_empty() {
        validator.required(Check::OtherRule, &version, "the version is required");
        return;
    }
    if path.is_empty() {
        validator.required(Check::OtherRule, &path, "the path of the field is required");
        return;
    }
    if version.str() != "v1" {
        validator.invalid(Check::OtherRule, &path, "fields can be named in version v1 only");
        return;
    }
    if let Some((map, key)) = subscript(path.str()) {
        match map {
            "metadata.annotations" => check_key(validator, &path, &key.to_lowercase()),
            "metadata.labels" => check_key(validator, &path, key),
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
    } else if text == "status.hostIPs" && host_ips_forbidden(validator) {
        validator.forbidden(Check::OtherRule, &path, "status.hostIPs is not available in this release");
    }
}

/// Whether this release rejects `status.hostIPs`. Before 1.32 it needs the feature gate `PodHostIPs`, which does not apply
/// to files.
fn host_ips_forbidden(validator: &Validator) -> bool {
    !validator.version.at_least(32)
}

fn check_key(validator: &mut Validator, path: &PodField<'_>, key: &str) {
    if let Some(wrong) = names::qualified(key) {
        validator.invalid(Check::OtherRule, path, wrong);
    }
}

/// Splits `metadata.labels['key']` into its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}
