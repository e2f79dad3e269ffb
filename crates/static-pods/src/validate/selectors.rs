//! The rules for selectors of pods, and for references to fields of the pod, that look at more than one field.

use std::collections::HashSet;

use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;
use plegctl_api_values::names;

/// The fields to which an environment variable may refer.
pub const ENV_FIELDS: &[&str] = &[
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

/// The fields to which a file in a volume may refer.
pub const VOLUME_FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];

/// The fields to which any reference in the API may refer, and that are in neither of the other lists. Such a field gives
/// another error than an unknown field.
const OTHER_FIELDS: &[&str] = &["spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// The first minor release that accepts `status.hostIPs` in a file. Earlier releases need the feature gate `PodHostIPs`,
/// which does not apply to files.
const HOST_IPS_SINCE: u8 = 32;

/// The path of a field of the pod itself.
pub fn field_path<'a>(validator: &mut Validator<'a>, path: &PodField<'a>, allowed: &[&str]) {
    let text = if path.str() == "spec.host" { "spec.nodeName" } else { path.str() };
    if let Some((map, key)) = subscript(text) {
        let problem = match map {
            "metadata.annotations" => names::qualified(&key.to_lowercase()),
            "metadata.labels" => names::qualified(key),
            _ => Some("only metadata.labels and metadata.annotations allow a key in brackets"),
        };
        if let Some(wrong) = problem {
            validator.invalid(path, wrong);
        }
    } else if ![ENV_FIELDS, VOLUME_FIELDS, OTHER_FIELDS].iter().any(|fields| fields.contains(&text)) {
        validator.invalid(path, "is not a field to which a reference may refer");
    } else if !allowed.contains(&text) {
        let why = format!("is not allowed here; allowed are {}", allowed.join(", "));
        validator.error(ViolationKind::Unsupported, path, &why);
    } else if text == "status.hostIPs" && !validator.version.at_least(HOST_IPS_SINCE) {
        let why = "status.hostIPs is not available in this release";
        validator.error(ViolationKind::Forbidden, path, why);
    }
}

/// Splits `metadata.labels['key']` into its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// No key of `matchLabelKeys` is in the selector.
pub fn selected_keys<'a>(validator: &mut Validator<'a>, keys: &PodField<'a>) {
    let selector = validator.owner().get("labelSelector");
    let selected = selected(&selector);
    for key in keys.items() {
        if selected.iter().any(|(selected, _)| *selected == key.str()) {
            validator.invalid(&key, "is in both matchLabelKeys and labelSelector");
        }
    }
}

/// No key of `matchLabelKeys` occurs twice in the selector. A key may occur once there, because the API server, or a
/// release that applies feature gates to files, adds these keys to the selector.
pub fn repeated_keys<'a>(validator: &mut Validator<'a>, keys: &PodField<'a>) {
    let selector = validator.owner().get("labelSelector");
    let mut seen = HashSet::new();
    for (selected, at) in selected(&selector) {
        if !seen.insert(selected) && keys.items().iter().any(|key| key.str() == selected) {
            validator.invalid(&at, "is in both matchLabelKeys and labelSelector");
        }
    }
}

/// Returns the keys in a selector, each with its field.
fn selected<'a>(selector: &PodField<'a>) -> Vec<(&'a str, PodField<'a>)> {
    let labels = selector.get("matchLabels").entries().into_iter().map(|(entry, value)| (&*entry.key, value));
    let keys = selector.at_path("matchExpressions[].key", selector).into_iter();
    labels.chain(keys.map(|key| (key.str(), key))).collect()
}
