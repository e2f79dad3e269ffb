//! Computes pod-level resources from the containers' resources: the defaults of `spec.resources` (feature gate
//! `PodLevelResources`, on since 1.34), and the total requests of a pod.

use std::sync::Arc;

use super::edit::{edit, fill, with_map};
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Value};
use plegctl_node::kubelet::KubeletVersion;

/// The first release with the gate on.
pub const SINCE: u8 = 34;

/// Adds the defaults of a spec with `resources`: limits of huge pages from the containers, and requests from the
/// containers and from the pod's own limits.
pub fn apply(spec: &mut ManifestNode) {
    let Some(resources) = spec.get("resources").cloned() else {
        return;
    };
    if is_empty(&resources, "limits") && is_empty(&resources, "requests") {
        return;
    }
    let limits = totals_as_nodes(spec, "limits");
    let requests = totals_as_nodes(spec, "requests");
    edit(spec, "resources", |resources| {
        let requested = resources.get("requests").cloned();
        let is_requested = |name: &str| requested.as_ref().is_some_and(|list| list.get(name).is_some());
        let huge_pages =
            limits.iter().filter(|(name, _)| name.starts_with("hugepages-") && !is_requested(name));
        add_missing(resources, "limits", huge_pages);
        // The kubelet adds requests only to a pod that has a limit.
        if is_empty(resources, "limits") {
            return;
        }
        let cpu_and_memory = requests.iter().filter(|(name, _)| matches!(&**name, "cpu" | "memory"));
        add_missing(resources, "requests", cpu_and_memory);
        let pod_limits = resources.get("limits").cloned();
        let pod_limits: Vec<(Arc<str>, ManifestNode)> = pod_limits
            .iter()
            .filter_map(ManifestNode::as_map)
            .flat_map(Map::entries)
            .filter(|entry| is_pod_level(&entry.key))
            .map(|entry| (Arc::clone(&entry.key), entry.value.clone()))
            .collect();
        add_missing(resources, "requests", pod_limits.iter());
    });
}

/// Whether a resource is allowed at pod level.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn is_empty(resources: &ManifestNode, key: &str) -> bool {
    resources.get(key).and_then(ManifestNode::as_map).is_none_or(|map| map.entries().is_empty())
}

/// Adds the amounts whose resource the list `key` does not have.
fn add_missing<'a>(
    resources: &mut ManifestNode,
    key: &str,
    amounts: impl Iterator<Item = &'a (Arc<str>, ManifestNode)>,
) {
    let amounts: Vec<_> = amounts.collect();
    if amounts.is_empty() {
        return;
    }
    fill(resources, key, || Value::Map(Arc::default()));
    edit(resources, key, |list| {
        let position = list.position;
        with_map(list, |map| {
            for (name, value) in amounts {
                if map.get(name).is_none() {
                    let value = ManifestNode { position, ..value.clone() };
                    map.insert(MapEntry { key: Arc::clone(name), key_position: position, value });
                }
            }
        });
    });
}

/// Returns the requests that the kubelet compares with the node's capacity. For each resource, this is the pod's own
/// request or, if the pod has none, the total of its containers; the pod's overhead is added.
pub fn requested(spec: &ManifestNode, version: KubeletVersion) -> Vec<(Arc<str>, Quantity)> {
    let mut totals = totals(spec, "requests");
    if version.at_least(SINCE) {
        for (name, amount) in amounts(spec.get("resources").and_then(|resources| resources.get("requests"))) {
            totals.retain(|(known, _)| known != name);
            totals.push((Arc::clone(name), amount.clone()));
        }
    }
    for (name, amount) in amounts(spec.get("overhead")) {
        add_one(&mut totals, name, amount);
    }
    totals
}

fn totals_as_nodes(spec: &ManifestNode, key: &str) -> Vec<(Arc<str>, ManifestNode)> {
    let position = spec.position;
    let node = |amount| ManifestNode::new(position, Value::Quantity(Arc::new(amount)));
    totals(spec, key).into_iter().map(|(name, amount)| (name, node(amount))).collect()
}

/// Returns the total of the containers' resources, for `key` `limits` or `requests`.
///
/// Regular containers and sidecars (init containers that keep running) run at the same time, so their amounts are added.
/// Another init container runs together only with the sidecars before it; the total is at least that sum.
pub fn totals(spec: &ManifestNode, key: &str) -> Vec<(Arc<str>, Quantity)> {
    let mut totals: Vec<(Arc<str>, Quantity)> = Vec::new();
    for container in items(spec, "containers") {
        add(&mut totals, container, key);
    }
    let mut sidecars: Vec<(Arc<str>, Quantity)> = Vec::new();
    let mut peaks: Vec<(Arc<str>, Quantity)> = Vec::new();
    for container in items(spec, "initContainers") {
        if container.get("restartPolicy").and_then(ManifestNode::as_str) == Some("Always") {
            add(&mut totals, container, key);
            add(&mut sidecars, container, key);
            raise(&mut peaks, &sidecars);
        } else {
            let mut alone = Vec::new();
            add(&mut alone, container, key);
            add_all(&mut alone, &sidecars);
            raise(&mut peaks, &alone);
        }
    }
    raise(&mut totals, &peaks);
    totals
}

fn items<'a>(spec: &'a ManifestNode, key: &str) -> &'a [ManifestNode] {
    spec.get(key).and_then(ManifestNode::as_list).unwrap_or_default()
}

/// Adds the amounts of a container to the totals.
fn add(totals: &mut Vec<(Arc<str>, Quantity)>, container: &ManifestNode, key: &str) {
    for (name, amount) in amounts(container.get("resources").and_then(|resources| resources.get(key))) {
        add_one(totals, name, amount);
    }
}

/// Returns the quantities of a resource list.
fn amounts(list: Option<&ManifestNode>) -> impl Iterator<Item = (&Arc<str>, &Quantity)> {
    let entries = list.and_then(ManifestNode::as_map).map(Map::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((&entry.key, entry.value.as_quantity()?)))
}

fn add_all(totals: &mut Vec<(Arc<str>, Quantity)>, amounts: &[(Arc<str>, Quantity)]) {
    for (name, amount) in amounts {
        add_one(totals, name, amount);
    }
}

fn add_one(totals: &mut Vec<(Arc<str>, Quantity)>, name: &Arc<str>, amount: &Quantity) {
    match totals.iter_mut().find(|(known, _)| known == name) {
        Some((_, total)) => *total = total.plus(amount),
        None => totals.push((Arc::clone(name), amount.clone())),
    }
}

/// Raises each total that is below its peak.
fn raise(totals: &mut Vec<(Arc<str>, Quantity)>, peaks: &[(Arc<str>, Quantity)]) {
    for (name, peak) in peaks {
        match totals.iter_mut().find(|(known, _)| known == name) {
            Some((_, total)) if *peak > *total => *total = peak.clone(),
            Some(_) => {}
            None => totals.push((Arc::clone(name), peak.clone())),
        }
    }
}
