//! Tests of `plegctl preflight --upgrade-to` on a kubeadm node: each step from one release to the next, from 1.31 to 1.37.
//! The node has the files that kubeadm of the earlier release writes.
//!
//! The files are copied from public clusters and kubeadm's release notes. The tests upgrade only the kubelet. In a real
//! upgrade, kubeadm also rewrites these files and removes the settings that the new kubelet refuses.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::preflight::{TestNode, ids, node, on_node, report};

/// Returns `/var/lib/kubelet/config.yaml` of a kubeadm release.
fn config(minor: u32) -> String {
    // From 1.34 on, the file has the endpoint (NodeLocalCRISocket); in earlier releases, a flag sets it.
    let endpoint = if minor >= 34 { "unix:///var/run/containerd/containerd.sock" } else { "\"\"" };
    let back_off = if minor >= 32 { "crashLoopBackOff: {}\n" } else { "" };
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
  webhook:
    cacheAuthorizedTTL: 0s
    cacheUnauthorizedTTL: 0s
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: {endpoint}
cpuManagerReconcilePeriod: 0s
{back_off}evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: \"0\"
    text:
      infoBufferSize: \"0\"
  verbosity: 0
memorySwap: {{}}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"
    )
}

/// Returns the flags in `/var/lib/kubelet/kubeadm-flags.env` of a kubeadm release.
fn flags(minor: u32) -> &'static str {
    match minor {
        ..34 => {
            " --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock \
             --pod-infra-container-image=registry.k8s.io/pause:3.10"
        }
        // kubeadm 1.35 stops writing the flag.
        34 => " --pod-infra-container-image=registry.k8s.io/pause:3.10.1",
        _ => "",
    }
}

/// Returns a manifest of kubeadm, shortened to the fields that all four control-plane manifests have.
fn manifest(name: &str, minor: u32) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  labels:
    component: {name}
    tier: control-plane
  name: {name}
  namespace: kube-system
spec:
  containers:
  - command:
    - {name}
    - --bind-address=127.0.0.1
    image: registry.k8s.io/{name}:v1.{minor}.0
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /livez
        port: 10259
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: {name}
    resources:
      requests:
        cpu: 100m
    volumeMounts:
    - mountPath: /etc/kubernetes/pki
      name: k8s-certs
      readOnly: true
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /etc/kubernetes/pki
      type: DirectoryOrCreate
    name: k8s-certs
status: {{}}
"
    )
}

const PODS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Returns a control-plane node of a kubeadm release.
fn kubeadm_node(minor: u32, cgroup: &str) -> TestNode {
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/pki/authority.crt");
    let authority = fs::read_to_string(authority).unwrap();
    let config = config(minor);
    let manifests = PODS.map(|name| (format!("etc/kubernetes/manifests/{name}.yaml"), manifest(name, minor)));
    let mut files = vec![
        ("var/lib/kubelet/config.yaml", config.as_str()),
        ("etc/kubernetes/kubelet.conf", ""),
        ("etc/kubernetes/pki/ca.crt", authority.as_str()),
        ("etc/os-release", "ID=debian\n"),
    ];
    files.extend(manifests.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let command = format!(
        "/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
         --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \
         --hostname-override=cp1{}",
        flags(minor)
    );
    node(&command, cgroup, &files)
}

/// Returns the findings above information, and the number of static pods that restart, for a step from one release to
/// another.
fn step(from: u32, to: u32, cgroup: &str) -> (Vec<String>, usize) {
    let node = kubeadm_node(from, cgroup);
    let (running, target) = (format!("1.{from}"), format!("1.{to}"));
    let release = ["--kubelet-version", &running, "--upgrade-to", &target, "-o", "json"];
    let output = on_node(node.path(), &release);
    let found: Value = report(&output);
    let worse = |id: &&&str| !matches!(**id, "KP003" | "KP013" | "KP081");
    let pods = found["pods"].as_array().unwrap();
    assert_eq!(pods.len(), PODS.len(), "{output}");
    let restarts = pods.iter().filter(|pod| pod["restarts"] == true).count();
    assert_eq!(output.code, Some(i32::from(found["counts"]["errors"] != 0)), "{output}");
    (ids(&found).iter().filter(worse).map(|id| (*id).to_owned()).collect(), restarts)
}

#[test]
fn only_the_step_to_135_stops_the_kubelet_of_a_kubeadm_node() {
    for (from, findings, restarts) in
        [(31, &[][..], 4), (32, &[], 4), (33, &[], 4), (34, &["KP002"], 4), (35, &[], 4), (36, &[], 4)]
    {
        let (found, pods) = step(from, from + 1, "cgroup2");
        assert_eq!(
            (found.as_slice(), pods),
            (&findings.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()[..], restarts),
            "from 1.{from}"
        );
    }
}

#[test]
fn on_a_node_with_cgroup_v1_each_step_from_134_on_stops_the_kubelet() {
    for (from, findings) in
        [(31, &[][..]), (33, &[]), (34, &["KP002", "KP040"]), (35, &["KP040"]), (36, &["KP040"])]
    {
        assert_eq!(step(from, from + 1, "tmpfs").0, findings, "from 1.{from}");
    }
}

#[test]
fn the_release_that_wrote_the_files_starts_with_them() {
    for minor in 31..=37 {
        assert_eq!(step(minor, minor, "cgroup2"), (Vec::new(), 0), "1.{minor}");
    }
}
