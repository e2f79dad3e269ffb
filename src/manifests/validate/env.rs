//! Environment variables and where they take their values from.

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::names;

/// Fields that an environment variable can show.
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

/// Fields that the API can name at all, whether or not they fit here.
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

/// Judges `env` and `envFrom` of one container.
pub fn validate(judge: &mut Judge, container: &Place<'_>, spec: &Place<'_>) {
    let volumes = spec.get("volumes").items();
    let relaxed = judge.relaxed();
    for variable in container.get("env").items() {
        let name = variable.get("name");
        if name.is_empty() {
            judge.required(Check::OtherRule, &name, "an environment variable needs a name");
        } else if let Some(wrong) = names::env(name.str(), relaxed) {
            judge.invalid(Check::OtherRule, &name, wrong);
        }
        value_from(judge, &variable, &volumes);
    }
    for source in container.get("envFrom").items() {
        let prefix = source.get("prefix");
        if let (false, Some(wrong)) = (prefix.is_empty(), names::env(prefix.str(), relaxed)) {
            judge.invalid(Check::OtherRule, &prefix, wrong);
        }
        let mut given = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.get(kind);
            if reference.is_set() {
                given += 1;
                object_name(judge, &reference.get("name"), names::object_prefix);
            }
        }
        exactly_one(judge, &source, given, "configMapRef or secretRef");
    }
}

fn object_name(judge: &mut Judge, name: &Place<'_>, rule: fn(&str) -> names::Wrong) {
    if name.is_empty() {
        judge.required(Check::OtherRule, name, "the name of the object is required");
    } else if let Some(wrong) = rule(name.str()) {
        judge.invalid(Check::OtherRule, name, wrong);
    }
}

fn exactly_one(judge: &mut Judge, at: &Place<'_>, given: usize, what: &str) {
    if given == 0 {
        judge.invalid(Check::OtherRule, at, &format!("must have one of {what}"));
    } else if given > 1 {
        judge.invalid(Check::OtherRule, at, &format!("must have only one of {what}"));
    }
}

fn value_from(judge: &mut Judge, variable: &Place<'_>, volumes: &[Place<'_>]) {
    let source = variable.get("valueFrom");
    if !source.is_set() {
        return;
    }
    let mut given = 0;
    if source.get("fieldRef").is_set() {
        given += 1;
        field_ref(judge, &source.get("fieldRef"), FIELDS);
    }
    if source.get("resourceFieldRef").is_set() {
        given += 1;
        super::resource_field::validate(judge, &source.get("resourceFieldRef"), false);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(kind);
        if reference.is_set() {
            given += 1;
            object_name(judge, &reference.get("name"), names::subdomain);
            let key = reference.get("key");
            if key.is_empty() {
                judge.required(Check::OtherRule, &key, "the key is required");
            } else if let Some(wrong) = names::config_key(key.str()) {
                judge.invalid(Check::OtherRule, &key, wrong);
            }
        }
    }
    if source.get("fileKeyRef").is_set() {
        given += 1;
        file_key(judge, &source.get("fileKeyRef"), volumes);
    }
    if given > 0 && !variable.get("value").is_empty() {
        judge.invalid(Check::OtherRule, &source, "may not stand beside a value that is not empty");
        return;
    }
    exactly_one(
        judge,
        &source,
        given,
        "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef",
    );
}

fn file_key(judge: &mut Judge, reference: &Place<'_>, volumes: &[Place<'_>]) {
    let volume = reference.get("volumeName");
    if volume.is_empty() {
        judge.required(Check::OtherRule, &volume, "the volume is required");
    } else if let Some(wrong) = names::label(volume.str()) {
        judge.invalid(Check::OtherRule, &volume, wrong);
    }
    match volumes.iter().rfind(|item| item.get("name").str() == volume.str()) {
        None => {
            judge.object(Check::OtherRule, &volume, Objection::NotFound, "there is no such volume");
        }
        Some(found) if !found.get("emptyDir").is_set() => {
            judge.invalid(Check::OtherRule, &volume, "must be a volume of type emptyDir");
        }
        Some(_) => {}
    }
    let path = reference.get("path");
    if path.is_empty() {
        judge.required(Check::OtherRule, &path, "the path of the file is required");
    } else if let Some(wrong) = names::no_backsteps(path.str()) {
        judge.invalid(Check::OtherRule, &path, wrong);
    }
    let key = reference.get("key");
    if key.is_empty() {
        judge.required(Check::OtherRule, &key, "the key is required");
    } else if let Some(wrong) = names::env(key.str(), true) {
        judge.invalid(Check::OtherRule, &key, wrong);
    }
}

/// A reference to a field of the pod itself.
pub fn field_ref(judge: &mut Judge, reference: &Place<'_>, allowed: &[&str]) {
    let version = reference.get("apiVersion");
    let path = reference.get("fieldPath");
    if version.is_empty() {
        judge.required(Check::OtherRule, &version, "the version is required");
        return;
    }
    if path.is_empty() {
        judge.required(Check::OtherRule, &path, "the path of the field is required");
        return;
    }
    if version.str() != "v1" {
        judge.invalid(Check::OtherRule, &path, "fields can be named in version v1 only");
        return;
    }
    if let Some((map, key)) = subscript(path.str()) {
        match map {
            "metadata.annotations" => check_key(judge, &path, &key.to_lowercase()),
            "metadata.labels" => check_key(judge, &path, key),
            _ => {
                judge.invalid(
                    Check::OtherRule,
                    &path,
                    "only metadata.labels and metadata.annotations can be subscripted",
                );
            }
        }
        return;
    }
    let text = if path.str() == "spec.host" { "spec.nodeName" } else { path.str() };
    if !KNOWN_FIELDS.contains(&text) {
        judge.invalid(Check::OtherRule, &path, "is no field of a pod that can be shown");
    } else if !allowed.contains(&text) {
        let why = format!("cannot be shown here; allowed are {}", allowed.join(", "));
        judge.object(Check::OtherRule, &path, Objection::Unsupported, &why);
    } else if text == "status.hostIPs" && host_ips_forbidden(judge) {
        judge.forbidden(Check::OtherRule, &path, "status.hostIPs is not available in this release");
    }
}

/// The gate `PodHostIPs` was asked through options that the file source left off.
fn host_ips_forbidden(judge: &Judge) -> bool {
    !judge.version.at_least(32)
}

fn check_key(judge: &mut Judge, path: &Place<'_>, key: &str) {
    if let Some(wrong) = names::qualified(key) {
        judge.invalid(Check::OtherRule, path, wrong);
    }
}

/// `metadata.labels['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}
