//! Tests that real control plane manifests must load without a finding.

use std::path::Path;

use plegctl_engine::manifests::{FileVerdict, Kubelet, KubeletVersion, inspect_bytes};

/// kubeadm's manifest: one container in the host network, host paths, probes with port names.
const KUBEADM: &str = r"apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.0.0.4:6443
  labels:
    component: kube-apiserver
    tier: control-plane
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=10.0.0.4
    - --secure-port=6443
    image: registry.k8s.io/kube-apiserver:v1.36.2
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 10.0.0.4
        path: /livez
        port: probe-port
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: kube-apiserver
    ports:
    - containerPort: 6443
      name: probe-port
      protocol: TCP
    readinessProbe:
      httpGet: {host: 10.0.0.4, path: /readyz, port: probe-port, scheme: HTTPS}
    resources:
      requests:
        cpu: 250m
    startupProbe:
      httpGet: {host: 10.0.0.4, path: /livez, port: probe-port, scheme: HTTPS}
    volumeMounts:
    - mountPath: /etc/ssl/certs
      name: ca-certs
      readOnly: true
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
      path: /etc/ssl/certs
      type: DirectoryOrCreate
    name: ca-certs
  - hostPath:
      path: /etc/kubernetes/pki
      type: DirectoryOrCreate
    name: k8s-certs
status: {}
";

/// RKE2's manifest: a fixed uid, a null timestamp, env, file host paths, resources.
const RKE2: &str = r"apiVersion: v1
kind: Pod
metadata:
  annotations:
    etcd.k3s.io/initial: '{}'
  creationTimestamp: null
  labels: {component: etcd, tier: control-plane}
  name: etcd
  namespace: kube-system
  uid: 4d1a4ec2a9e1a1d3f3e0a5b1c2d3e4f5
spec:
  containers:
  - args: [--config-file=/var/lib/rancher/rke2/server/db/etcd/config]
    command: [etcd]
    env:
    - {name: FILE_HASH, value: 9f2c}
    - {name: NO_PROXY, value: '.svc,10.0.0.0/8'}
    image: index.docker.io/rancher/hardened-etcd:v3.5.13
    imagePullPolicy: IfNotPresent
    livenessProbe:
      httpGet: {host: localhost, path: '/health?serializable=true', port: 2381, scheme: HTTP}
    name: etcd
    ports:
    - {containerPort: 2379, name: client, protocol: TCP}
    - {containerPort: 2380, name: peer, protocol: TCP}
    resources: {requests: {cpu: 200m, memory: 512Mi}}
    securityContext: {privileged: false}
    volumeMounts:
    - {mountPath: /var/lib/rancher/rke2/server/db/etcd, name: dir0}
    - {mountPath: /var/lib/rancher/rke2/server/tls/etcd/server-client.crt, name: file0, readOnly: true}
  hostNetwork: true
  priorityClassName: system-cluster-critical
  securityContext: {seLinuxOptions: {type: rke2_service_db_t}}
  volumes:
  - {hostPath: {path: /var/lib/rancher/rke2/server/db/etcd, type: DirectoryOrCreate}, name: dir0}
  - {hostPath: {path: /var/lib/rancher/rke2/server/tls/etcd/server-client.crt, type: File}, name: file0}
status: {}
";

/// `OpenShift`'s manifest: JSON on one line, several containers, init containers, tolerations, pod fields in env.
const OPENSHIFT: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"kube-controller-manager","namespace":"openshift-kube-controller-manager","creationTimestamp":null,"labels":{"app":"kube-controller-manager","revision":"7"},"annotations":{"kubectl.kubernetes.io/default-container":"kube-controller-manager","target.workload.openshift.io/management":"{\"effect\": \"PreferredDuringScheduling\"}"}},"spec":{"volumes":[{"name":"resource-dir","hostPath":{"path":"/etc/kubernetes/static-pod-resources/kube-controller-manager-pod-7"}},{"name":"cert-dir","hostPath":{"path":"/etc/kubernetes/static-pod-resources/kube-controller-manager-certs"}}],"initContainers":[{"name":"wait-for-host-port","image":"quay.io/openshift@sha256:0000000000000000000000000000000000000000000000000000000000000000","command":["/usr/bin/timeout","30","/bin/bash","-c"],"args":["true"],"resources":{}}],"containers":[{"name":"kube-controller-manager","image":"quay.io/openshift:x","command":["/bin/bash","-euxo","pipefail","-c"],"args":["exec hyperkube kube-controller-manager\n"],"ports":[{"containerPort":10257}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"resources":{"requests":{"cpu":"60m","memory":"200Mi"}},"volumeMounts":[{"name":"resource-dir","mountPath":"/etc/kubernetes/static-pod-resources"}],"livenessProbe":{"httpGet":{"path":"healthz","port":10257,"scheme":"HTTPS"},"initialDelaySeconds":45,"timeoutSeconds":10},"startupProbe":{"httpGet":{"path":"healthz","port":10257,"scheme":"HTTPS"},"timeoutSeconds":3},"terminationMessagePolicy":"FallbackToLogsOnError","imagePullPolicy":"IfNotPresent"},{"name":"cluster-policy-controller","image":"quay.io/openshift:y","ports":[{"containerPort":10357}],"resources":{},"volumeMounts":[{"name":"cert-dir","mountPath":"/etc/kubernetes/static-pod-certs"}]}],"terminationGracePeriodSeconds":135,"hostNetwork":true,"tolerations":[{"operator":"Exists"}],"priorityClassName":"system-node-critical"},"status":{}}"#;

/// `MicroShift`'s manifest: a single etcd, with memory limits and a sidecar.
const MICROSHIFT: &str = r#"# generated
---
apiVersion: v1
kind: Pod
metadata:
  name: "microshift-proxy"
  labels: {"app": "proxy"}
spec:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  initContainers:
  - name: tail
    image: "registry.example/tail:1"
    restartPolicy: Always
    startupProbe: {exec: {command: ["true"]}}
  containers:
  - name: proxy
    image: registry.example/proxy@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    args: ["--v=2"]
    resources:
      limits: {memory: 64Mi}
      requests: {cpu: 10m, memory: 40Mi}
    securityContext:
      privileged: true
      capabilities: {add: [NET_ADMIN], drop: [ALL]}
    volumeMounts:
    - {name: run, mountPath: /run, mountPropagation: Bidirectional}
  tolerations:
  - {key: node-role.kubernetes.io/master, operator: Exists, effect: NoSchedule}
  volumes:
  - {name: run, hostPath: {path: /run, type: Directory}}
"#;

#[test]
fn control_plane_manifests_load_everywhere_without_a_finding() {
    for (name, text) in
        [("kubeadm", KUBEADM), ("rke2", RKE2), ("openshift", OPENSHIFT), ("microshift", MICROSHIFT)]
    {
        for minor in 28..=36 {
            let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "cp-1");
            let report = inspect_bytes(Path::new(name), text.as_bytes(), &kubelet);
            assert_eq!(report.verdict, FileVerdict::Loaded, "{name} 1.{minor}: {:?}", report.kubelet_reason);
            assert!(report.findings.is_empty(), "{name} 1.{minor}: {:?}", report.findings);
            assert!(report.document.unwrap().pod.unwrap().dropped.is_empty(), "{name} 1.{minor}");
        }
    }
}
