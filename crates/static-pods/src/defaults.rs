//! Adds the kubelet's default values to a decoded Pod.
//!
//! All defaults are added, because all of them are part of the pod's UID. A default has the position of its parent. The
//! schema has the fixed defaults; this module computes the defaults that depend on other fields.

use std::sync::Arc;

use super::edit::{each, edit, fill, with_map};
use super::image_name;
use super::schema::{self, FieldType, GoStruct, SchemaField};
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Value};
use plegctl_node::kubelet::KubeletVersion;

/// Adds the defaults to a decoded Pod.
pub fn apply(pod: &mut ManifestNode, version: KubeletVersion) {
    let minor = version.minor();
    each_field(pod, schema::pod(), minor, &set_default);
    edit(pod, "spec", |spec| pod_spec(spec, version));
    each_field(pod, schema::pod(), minor, &round);
}

/// Calls `change` for each object of the Pod and each field that the object may have, outer objects first.
fn each_field(
    node: &mut ManifestNode,
    object: &GoStruct,
    minor: u8,
    change: &impl Fn(&mut ManifestNode, &SchemaField, &str),
) {
    for field in &object.fields {
        match (field.key, &field.ty) {
            (None, FieldType::Struct(embedded)) => each_field(node, embedded, minor, change),
            (Some(key), ty) if field.decoded_in(minor) => {
                change(node, field, key);
                let Some(inner) = ty.inner_struct() else { continue };
                edit(node, key, |value| match &mut value.value {
                    Value::List(items) => {
                        for item in Arc::make_mut(items) {
                            each_field(item, inner, minor, change);
                        }
                    }
                    _ => each_field(value, inner, minor, change),
                });
            }
            _ => {}
        }
    }
}

/// Sets the default of a field. In a pointer field, an empty text or a zero is a value, so it stays.
fn set_default(parent: &mut ManifestNode, field: &SchemaField, key: &str) {
    let Some(default) = &field.default else { return };
    fill(parent, key, || default.clone());
    if !matches!(field.ty, FieldType::Pointer(_)) {
        edit(parent, key, |value| {
            if value.as_str() == Some("") || value.as_int() == Some(0) {
                value.value = default.clone();
            }
        });
    }
}

/// Rounds the quantities of a resource list to thousandths, as the kubelet does.
fn round(parent: &mut ManifestNode, field: &SchemaField, key: &str) {
    if field.go_type != "core.ResourceList" {
        return;
    }
    edit(parent, key, |list| {
        with_map(list, |map| {
            for value in map.values_mut() {
                if let Value::Quantity(amount) = &mut value.value {
                    *amount = Arc::new(Quantity::clone(amount).rounded_to_milli());
                }
            }
        });
    });
}

/// Adds the defaults that depend on other fields of the spec.
fn pod_spec(spec: &mut ManifestNode, version: KubeletVersion) {
    edit(spec, "terminationGracePeriodSeconds", |grace| {
        if grace.as_int().is_some_and(|seconds| seconds < 0) {
            grace.value = Value::Int(1);
        }
    });
    copy_service_account(spec);
    let host_network = spec.get("hostNetwork").and_then(ManifestNode::as_bool) == Some(true);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, |container| {
            let image = container.get("image").and_then(ManifestNode::as_str).unwrap_or_default();
            let policy = pull_policy(image);
            set_text(container, "imagePullPolicy", policy);
            if list == "ephemeralContainers" {
                return;
            }
            edit(container, "resources", requests_from_limits);
            if host_network {
                each(container, "ports", set_host_port);
            }
        });
    }
    each(spec, "volumes", |volume| volume_defaults(volume, version));
    if version.at_least(super::pod_resources::SINCE) {
        super::pod_resources::apply(spec);
    }
}

/// Copies the deprecated field `serviceAccount` to `serviceAccountName`, if only the deprecated field is set.
fn copy_service_account(spec: &mut ManifestNode) {
    let given = |spec: &ManifestNode, name: &str| {
        spec.get(name).and_then(ManifestNode::as_str).is_some_and(|text| !text.is_empty())
    };
    if !given(spec, "serviceAccount") || given(spec, "serviceAccountName") {
        return;
    }
    if let Some(old) = spec.as_map().and_then(|map| map.entry("serviceAccount")).cloned() {
        with_map(spec, |map| {
            map.insert(MapEntry { key: Arc::from("serviceAccountName"), ..old });
        });
    }
}

/// Sets the host port to the container port, for a pod in the host network.
fn set_host_port(port: &mut ManifestNode) {
    let number = |key: &str| port.get(key).and_then(ManifestNode::as_int).unwrap_or_default();
    if number("hostPort") == 0 && number("containerPort") != 0 {
        let same = Value::Int(number("containerPort"));
        set(port, "hostPort", same);
    }
}

/// Returns the default pull policy: `Always` for the tag `latest` and for a missing tag, else `IfNotPresent`. An invalid
/// image name has no tag.
pub fn pull_policy(image: &str) -> &'static str {
    if image_name::tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// Adds a request for each limit that has none, with the same amount.
pub fn requests_from_limits(resources: &mut ManifestNode) {
    let Some(limits) = resources.get("limits").cloned() else {
        return;
    };
    fill(resources, "requests", || Value::Map(Arc::default()));
    edit(resources, "requests", |requests| {
        with_map(requests, |requests| {
            for limit in limits.as_map().map(Map::entries).unwrap_or_default() {
                if requests.get(&limit.key).is_none() {
                    requests.insert(limit.clone());
                }
            }
        });
    });
}

/// Adds an empty directory to a volume without a source, and the pull policy to an image volume.
fn volume_defaults(volume: &mut ManifestNode, version: KubeletVersion) {
    let has_no_source =
        volume.as_map().is_none_or(|map| map.entries().iter().all(|entry| &*entry.key == "name"));
    if has_no_source {
        fill(volume, "emptyDir", || Value::Map(Arc::default()));
    }
    // The gate ImageVolume is on from 1.35; earlier releases know the field, but do not set the default.
    if version.at_least(35) {
        edit(volume, "image", |source| {
            let image = source.get("reference").and_then(ManifestNode::as_str).unwrap_or_default();
            let policy = pull_policy(image);
            set_text(source, "pullPolicy", policy);
        });
    }
}

/// Sets `key` if it is absent or empty.
fn set_text(node: &mut ManifestNode, key: &str, text: &str) {
    if node.get(key).and_then(ManifestNode::as_str).is_none_or(str::is_empty) {
        set(node, key, Value::Str(Arc::from(text)));
    }
}

/// Sets `key`. The new value has the position of the old value, if the key is present.
fn set(node: &mut ManifestNode, key: &str, value: Value) {
    fill(node, key, || Value::Null);
    edit(node, key, |old| old.value = value);
}
