//! Converts a Pod from the form of the v1 API into the kubelet's internal form, from which the kubelet computes the UID.

use std::sync::Arc;

use super::super::edit::{edit, fill, with_map};
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Value};

/// Fields of the spec that are in the security context in the internal form.
const MOVED: &[&str] = &["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// Fields of the Pod that the kubelet removes before it prints the Pod.
const TYPE_META: &[&str] = &["kind", "apiVersion"];

/// Annotations of old releases that the conversion drops.
const DROPPED: &[&str] = &[
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Returns the internal form of a Pod.
pub fn internal(pod: &ManifestNode) -> ManifestNode {
    let mut pod = pod.clone();
    edit(&mut pod, "spec", |spec| {
        let moved: Vec<MapEntry> = spec
            .as_map()
            .map(Map::entries)
            .unwrap_or_default()
            .iter()
            .filter(|entry| MOVED.contains(&&*entry.key))
            .cloned()
            .collect();
        edit(spec, "securityContext", |context| {
            with_map(context, |map| {
                for entry in moved {
                    map.insert(entry);
                }
            });
        });
    });
    without(&mut pod, TYPE_META);
    edit(&mut pod, "metadata", |metadata| edit(metadata, "annotations", |map| without(map, DROPPED)));
    edit(&mut pod, "status", set_pod_ips);
    pod
}

/// Removes these keys from a mapping.
fn without(node: &mut ManifestNode, keys: &[&str]) {
    let given = node.as_map().map(Map::entries).unwrap_or_default();
    if given.iter().any(|entry| keys.contains(&&*entry.key)) {
        let kept = given.iter().filter(|entry| !keys.contains(&&*entry.key)).cloned().collect();
        node.value = Value::Map(Arc::new(Map::new(kept)));
    }
}

/// Makes `podIPs` agree with `podIP`: if the list does not start with that address, it is replaced by that address alone.
fn set_pod_ips(status: &mut ManifestNode) {
    let Some(address) = status.get("podIP").filter(|node| node.as_str() != Some("")).cloned() else {
        return;
    };
    let first = status.get("podIPs").and_then(ManifestNode::as_list).and_then(<[ManifestNode]>::first);
    if first.and_then(|first| first.get("ip")).and_then(ManifestNode::as_str) == address.as_str() {
        return;
    }
    let position = address.position;
    let entry = MapEntry { key: Arc::from("ip"), key_position: position, value: address };
    let one = ManifestNode::new(position, Value::Map(Arc::new(Map::new(vec![entry]))));
    let list = Value::List(Arc::new(vec![one]));
    fill(status, "podIPs", || Value::Null);
    edit(status, "podIPs", |addresses| addresses.value = list);
}
