//! The API server's objects of a simulated fleet, and the documents of its kubelets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::scenario_run::ScenarioRun;
use crate::clock::Wall;
use crate::fleet::NAMESPACE;
use crate::pleg::metrics::MetricNames;
use crate::sim::fleet::{FleetNode, KubeletAccess, ListedPod};
use crate::sim::{KUBELET_VERSION, RuntimeFamily, Scenario};

/// The label of a recorder's pod, as in deploy/base.
pub const RECORDER_LABEL: (&str, &str) = ("app.kubernetes.io/name", "plegctl");
/// The port of a recorder.
pub const RECORDER_PORT: u16 = 9469;

/// How long nodes have been ready, and how long ago the API server last heard of an unreachable one.
const READY_FOR: std::time::Duration = std::time::Duration::from_secs(12 * 24 * 3600);
const LOST_FOR: std::time::Duration = std::time::Duration::from_secs(4 * 60);

/// Returns the labels of a node.
pub fn node_labels(node: &FleetNode) -> [(&'static str, &str); 3] {
    let pool = if node.is_batch { "batch" } else { "general" };
    [
        ("kubernetes.io/hostname", node.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("karpenter.sh/nodepool", pool),
    ]
}

/// Returns the address of a node.
pub fn address(node: &FleetNode) -> String {
    format!("10.0.{}.{}", node.number / 250, node.number % 250 + 1)
}

/// Returns the node with its condition, which is the one of its scenario unless the node cannot be reached.
pub fn node_object(node: &FleetNode, scenario: &Scenario, condition: &Value, now: Wall) -> Value {
    let family = match scenario.runtime.family {
        RuntimeFamily::Containerd => "containerd",
        RuntimeFamily::CriO => "cri-o",
    };
    let lost = || {
        condition_ready(
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
            now.minus(LOST_FOR),
        )
    };
    let is_lost = node.shape.kubelet == KubeletAccess::Unreachable;
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name, "labels": BTreeMap::from(node_labels(node))},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address(node)}],
            "conditions": [if is_lost { lost() } else { condition.clone() }],
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "containerRuntimeVersion": format!("{family}://{}", scenario.runtime.version),
                "osImage": "Debian GNU/Linux 13 (trixie)", "operatingSystem": "linux", "architecture": "amd64",
                "kernelVersion": if node.is_batch { "6.8.12-cloud" } else { "6.12.9-cloud" },
            },
        },
    })
}

/// Returns the condition `Ready` of the nodes of a scenario: what the kubelet's health check of PLEG says.
pub fn ready(run: &ScenarioRun, now: Wall) -> Value {
    match run.pleg_health(now) {
        Ok(()) => {
            condition_ready("True", "KubeletReady", "kubelet is posting ready status", now.minus(READY_FOR))
        }
        Err((why, since)) => {
            let pleg = format!("PLEG is not healthy: {why}");
            let message = if run.scenario.runtime.listens {
                pleg
            } else {
                format!("[container runtime is down, {pleg}]")
            };
            condition_ready("False", "KubeletNotReady", &message, since)
        }
    }
}

fn condition_ready(status: &str, reason: &str, message: &str, since: Wall) -> Value {
    let since = since.whole_seconds();
    json!({"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
}

/// Returns the pod of a node's recorder.
pub fn recorder_object(node: &FleetNode, name: &str) -> Value {
    let (label, value) = RECORDER_LABEL;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {label: value}},
        "spec": {"nodeName": node.name, "containers": [{
            "name": "plegctl", "image": concat!("plegctl:", env!("CARGO_PKG_VERSION")),
            "ports": [{"name": "metrics", "containerPort": RECORDER_PORT}],
        }]},
        "status": {"phase": "Running", "hostIP": address(node)},
    })
}

/// Returns a pod of a node, with the name that it has there.
pub fn pod_object(node: &FleetNode, listed: &ListedPod, name: &str) -> Value {
    let mut annotations = serde_json::Map::new();
    if listed.is_static {
        for (key, value) in [("source", "file"), ("hash", &*listed.pod.uid), ("mirror", &*listed.pod.uid)] {
            annotations.insert(format!("kubernetes.io/config.{key}"), value.into());
        }
    }
    let containers = listed.containers.iter().map(|(name, image)| json!({"name": name, "image": image}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": listed.pod.namespace, "name": name, "uid": listed.pod.uid,
            "labels": {"app": listed.app}, "annotations": annotations},
        "spec": {"nodeName": node.name, "containers": containers.collect::<Vec<_>>()},
        "status": {"phase": "Running", "hostIP": address(node)},
    })
}

/// Returns the kubelet's `/metrics`, as far as plegctl reads them: those of a PLEG that makes the relists of the scenario.
pub fn kubelet_metrics(run: &ScenarioRun) -> String {
    let mut metrics = run.recorder.shared_state.lock().metrics.clone();
    if let Some(last) = run.last_relist() {
        metrics.set_last_seen(last);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = metrics.render(MetricNames::Kubelet, &mut text);
    text + &format!(
        "# TYPE kubernetes_build_info gauge\nkubernetes_build_info{{git_version=\"{KUBELET_VERSION}\"}} 1\n"
    )
}

/// Returns the kubelet's `/configz`. The kubelets of the smaller pool have a gate that a later release no longer knows.
pub fn configz(node: &FleetNode, scenario: &Scenario) -> Value {
    let endpoint = match scenario.runtime.family {
        RuntimeFamily::Containerd => "unix:///run/containerd/containerd.sock",
        RuntimeFamily::CriO => "unix:///run/crio/crio.sock",
    };
    let gates = if node.is_batch { json!({"SidecarContainers": true}) } else { json!({}) };
    json!({"kubeletconfig": {
        "syncFrequency": "1m0s", "fileCheckFrequency": "20s", "httpCheckFrequency": "20s",
        "staticPodPath": "/etc/kubernetes/manifests", "containerRuntimeEndpoint": endpoint,
        "runtimeRequestTimeout": "2m0s", "cgroupDriver": "systemd", "failSwapOn": true, "featureGates": gates,
    }})
}
