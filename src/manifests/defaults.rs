//! Fills in the kubelet's defaults.
//!
//! All defaults are filled in, because all of them are part of the UID. A default has the position of its parent.

use std::sync::Arc;

use super::edit::{each, edit, fill, with_map};
use super::image_name;
use super::quantity::Quantity;
use super::tree::{ManifestNode, Map, MapEntry, Value};
use crate::kubelet::KubeletVersion;

/// Fills in the defaults of a decoded Pod.
pub fn apply(pod: &mut ManifestNode, version: KubeletVersion) {
    fill(pod, "spec", || Value::Map(Arc::default()));
    edit(pod, "spec", |spec| pod_spec(spec, version));
    edit(pod, "status", |status| round_status(status, version));
}

fn pod_spec(spec: &mut ManifestNode, version: KubeletVersion) {
    text(spec, "restartPolicy", "Always");
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", || Value::Map(Arc::default()));
    fill(spec, "enableServiceLinks", || Value::Bool(true));
    fill(spec, "terminationGracePeriodSeconds", || Value::Int(30));
    edit(spec, "terminationGracePeriodSeconds", |grace| {
        if grace.as_int().is_some_and(|seconds| seconds < 0) {
            grace.value = Value::Int(1);
        }
    });
    copy_service_account(spec);
    let host_network = spec.get("hostNetwork").and_then(ManifestNode::as_bool) == Some(true);
    for list in ["containers", "initContainers"] {
        each(spec, list, |item| {
            container(item, version);
            edit(item, "resources", requests_from_limits);
            if host_network {
                each(item, "ports", host_port);
            }
        });
    }
    each(spec, "ephemeralContainers", |item| container(item, version));
    each(spec, "volumes", |item| volume(item, version));
    if version.at_least(super::pod_resources::SINCE) {
        super::pod_resources::apply(spec);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, |item| edit(item, "resources", round));
    }
    edit(spec, "overhead", round_list);
    edit(spec, "resources", round);
}

/// Rounds requests and limits up to thousandths, as the kubelet stores them.
fn round(resources: &mut ManifestNode) {
    for list in ["limits", "requests"] {
        edit(resources, list, round_list);
    }
}

fn round_list(list: &mut ManifestNode) {
    with_map(list, |map| {
        for value in map.values_mut() {
            if let Value::Quantity(amount) = &mut value.value {
                *amount = Arc::new(Quantity::clone(amount).rounded_to_milli());
            }
        }
    });
}

fn round_status(status: &mut ManifestNode, version: KubeletVersion) {
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        each(status, list, |item| {
            edit(item, "allocatedResources", round_list);
            edit(item, "resources", round);
        });
    }
    if version.at_least(35) {
        edit(status, "allocatedResources", round_list);
        edit(status, "resources", round);
    }
}

/// The deprecated field and the new field are copies of each other.
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

/// A port of a pod in the host network gets the same host port.
fn host_port(port: &mut ManifestNode) {
    let number = port.get("containerPort").and_then(ManifestNode::as_int).unwrap_or_default();
    if number != 0 {
        number_if_zero(port, "hostPort", number);
    }
}

fn container(container: &mut ManifestNode, version: KubeletVersion) {
    let image = container.get("image").and_then(ManifestNode::as_str).unwrap_or_default();
    let policy = pull_policy(image);
    text(container, "imagePullPolicy", policy);
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| text(port, "protocol", "TCP"));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        edit(container, name, probe);
    }
    edit(container, "lifecycle", |lifecycle| {
        for name in ["postStart", "preStop"] {
            edit(lifecycle, name, |handler| edit(handler, "httpGet", http_get));
        }
    });
    each(container, "env", |env| {
        edit(env, "valueFrom", |source| {
            edit(source, "fieldRef", field_ref);
            if version.at_least(34) {
                edit(source, "fileKeyRef", |key| fill(key, "optional", || Value::Bool(false)));
            }
        });
    });
}

/// The default pull policy: `Always` for the tag `latest`, written or implied. An invalid image name has no tag.
pub fn pull_policy(image: &str) -> &'static str {
    if image_name::tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut ManifestNode) {
    for (name, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        number_if_zero(probe, name, number);
    }
    edit(probe, "httpGet", http_get);
    edit(probe, "grpc", |action| text_if_absent(action, "service", ""));
}

fn http_get(action: &mut ManifestNode) {
    text(action, "path", "/");
    text(action, "scheme", "HTTP");
}

fn field_ref(reference: &mut ManifestNode) {
    text(reference, "apiVersion", "v1");
}

/// Copies each limit without a request to the requests.
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

fn volume(volume: &mut ManifestNode, version: KubeletVersion) {
    let sourceless =
        volume.as_map().is_none_or(|map| map.entries().iter().all(|entry| &*entry.key == "name"));
    if sourceless {
        fill(volume, "emptyDir", || Value::Map(Arc::default()));
    }
    edit(volume, "iscsi", |source| text(source, "iscsiInterface", "default"));
    edit(volume, "rbd", |source| {
        text(source, "pool", "rbd");
        text(source, "user", "admin");
        text(source, "keyring", "/etc/ceph/keyring");
    });
    edit(volume, "azureDisk", |source| {
        text_if_absent(source, "cachingMode", "ReadWrite");
        text_if_absent(source, "kind", "Shared");
        text_if_absent(source, "fsType", "ext4");
        fill(source, "readOnly", || Value::Bool(false));
    });
    edit(volume, "scaleIO", |source| {
        text(source, "storageMode", "ThinProvisioned");
        text(source, "fsType", "xfs");
    });
    edit(volume, "hostPath", |source| text_if_absent(source, "type", ""));
    for files in ["secret", "configMap", "downwardAPI", "projected"] {
        edit(volume, files, |source| fill(source, "defaultMode", || Value::Int(0o644)));
    }
    edit(volume, "downwardAPI", downward_items);
    edit(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            edit(source, "downwardAPI", downward_items);
            edit(source, "serviceAccountToken", |token| {
                fill(token, "expirationSeconds", || Value::Int(3600));
            });
        });
    });
    edit(volume, "ephemeral", |source| {
        edit(source, "volumeClaimTemplate", |template| {
            // The spec of the claim is not a pointer in Go, so it exists and gets defaults even if the file has none.
            fill(template, "spec", || Value::Map(Arc::default()));
            edit(template, "spec", |spec| {
                text_if_absent(spec, "volumeMode", "Filesystem");
                edit(spec, "resources", round);
            });
        });
    });
    // The gate ImageVolume is on from 1.35; earlier releases know the field, but do not set the default.
    if version.at_least(35) {
        edit(volume, "image", |source| {
            let policy =
                pull_policy(source.get("reference").and_then(ManifestNode::as_str).unwrap_or_default());
            text(source, "pullPolicy", policy);
        });
    }
}

fn downward_items(source: &mut ManifestNode) {
    each(source, "items", |item| edit(item, "fieldRef", field_ref));
}

fn text_if_absent(node: &mut ManifestNode, key: &str, text: &str) {
    fill(node, key, || Value::Str(Arc::from(text)));
}

/// Sets `key` if it is absent or empty.
fn text(node: &mut ManifestNode, key: &str, text: &str) {
    text_if_absent(node, key, text);
    edit(node, key, |value| {
        if value.as_str() == Some("") {
            value.value = Value::Str(Arc::from(text));
        }
    });
}

fn number_if_zero(node: &mut ManifestNode, key: &str, number: i128) {
    fill(node, key, || Value::Int(number));
    edit(node, key, |value| {
        if value.as_int() == Some(0) {
            value.value = Value::Int(number);
        }
    });
}
