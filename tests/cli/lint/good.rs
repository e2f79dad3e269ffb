//! Tests that manifests of `kubeadm`, `RKE2`, `OpenShift` and `MicroShift` nodes have no finding above info.

use super::{directory, lint, report};

/// Returns a manifest like kubeadm's: host network, priority class, probes with port names, typed hostPath volumes.
fn kubeadm(name: &str, port: u16, more: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/{name}.advertise-address.endpoint: 10.0.0.1:{port}
  creationTimestamp: null
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
    image: registry.k8s.io/{name}:v1.36.2
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /livez
        port: probe-port
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: {name}
    ports:
    - containerPort: {port}
      name: probe-port
      protocol: TCP
    readinessProbe:
      httpGet: {{host: 127.0.0.1, path: /readyz, port: probe-port, scheme: HTTPS}}
      periodSeconds: 1
    resources:
      requests:
        cpu: 250m
    startupProbe:
      failureThreshold: 24
      httpGet: {{host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}}
    volumeMounts:
    - mountPath: /etc/kubernetes/pki
      name: k8s-certs
      readOnly: true
    - mountPath: /etc/kubernetes/conf
      name: kubeconfig
      readOnly: true
{more}  hostNetwork: true
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
  - hostPath:
      path: /etc/kubernetes/{name}.conf
      type: FileOrCreate
    name: kubeconfig
status: {{}}
"
    )
}

const RKE2: &str = "apiVersion: v1
kind: Pod
metadata:
  annotations:
    etcd.k3s.io/initial: '{\"initial-cluster\":\"n1=https://10.0.0.1:2380\"}'
  creationTimestamp: null
  labels:
    component: etcd
    tier: control-plane
  name: etcd
  namespace: kube-system
  uid: 0f9d1c53e0b1ea8c9f4a2a7c8f7f1a11
spec:
  containers:
  - args:
    - --config-file=/var/lib/rancher/rke2/server/db/etcd/config
    command:
    - etcd
    env:
    - name: FILE_HASH
      value: 4f2d3e
    image: index.docker.io/rancher/hardened-etcd:v3.6.4-k3s1-build20250908
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: localhost
        path: /health?serializable=true
        port: 2381
        scheme: HTTP
    name: etcd
    ports:
    - containerPort: 2379
      name: client
      protocol: TCP
    - containerPort: 2381
      name: metrics
      protocol: TCP
    resources:
      requests:
        cpu: 200m
        memory: 512Mi
    securityContext:
      privileged: false
    volumeMounts:
    - mountPath: /var/lib/rancher/rke2/server/db/etcd
      name: dir0
    - mountPath: /etc/ssl/certs
      name: dir1
      readOnly: true
  hostNetwork: true
  priorityClassName: system-cluster-critical
  securityContext: {}
  volumes:
  - hostPath:
      path: /var/lib/rancher/rke2/server/db/etcd
      type: DirectoryOrCreate
    name: dir0
  - hostPath:
      path: /etc/ssl/certs
      type: DirectoryOrCreate
    name: dir1
status: {}
";

const OPENSHIFT: &str = "apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
  namespace: openshift-kube-apiserver
  annotations:
    kubectl.kubernetes.io/default-container: kube-apiserver
    target.workload.openshift.io/management: '{\"effect\": \"PreferredDuringScheduling\"}'
  labels:
    app: openshift-kube-apiserver
    apiserver: 'true'
    revision: '12'
spec:
  initContainers:
  - name: setup
    terminationMessagePolicy: FallbackToLogsOnError
    image: quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:1f9a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8
    imagePullPolicy: IfNotPresent
    volumeMounts:
    - mountPath: /var/log/kube-apiserver
      name: audit-dir
    command: [/usr/bin/timeout, '100', /bin/bash, -ec]
    args:
    - |
      echo -n 'Fixing audit permissions.'
      chmod 0700 /var/log/kube-apiserver
    securityContext:
      privileged: true
    resources:
      requests: {cpu: 5m, memory: 50Mi}
  containers:
  - name: kube-apiserver
    image: quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:1f9a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8
    imagePullPolicy: IfNotPresent
    terminationMessagePolicy: FallbackToLogsOnError
    command: [/bin/bash, -ec]
    env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: HOST_IP
      valueFrom: {fieldRef: {fieldPath: status.hostIP}}
    resources:
      requests: {memory: 1Gi, cpu: 265m}
    ports:
    - containerPort: 6443
    volumeMounts:
    - mountPath: /etc/kubernetes/static-pod-resources
      name: resource-dir
    - mountPath: /var/log/kube-apiserver
      name: audit-dir
    livenessProbe:
      httpGet: {scheme: HTTPS, port: 6443, path: \"livez?exclude=etcd\"}
      timeoutSeconds: 10
    securityContext:
      privileged: true
  terminationGracePeriodSeconds: 135
  hostNetwork: true
  priorityClassName: system-node-critical
  tolerations:
  - operator: Exists
  volumes:
  - hostPath: {path: /etc/kubernetes/static-pod-resources/kube-apiserver-pod-12}
    name: resource-dir
  - hostPath: {path: /var/log/kube-apiserver}
    name: audit-dir
";

const MICROSHIFT: &str = "kind: Pod
apiVersion: v1
metadata:
  name: microshift-etcd
  namespace: openshift-etcd
  labels: {app: etcd}
spec:
  containers:
  - name: etcd
    image: quay.io/microshift/etcd:4.20.1
    imagePullPolicy: IfNotPresent
    command: [/usr/bin/microshift-etcd, run]
    resources: {requests: {cpu: 10m, memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /var/lib/microshift}]
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - {name: data, hostPath: {path: /var/lib/microshift, type: DirectoryOrCreate}}
";

fn assert_only_infos(files: &[(&str, &str)], expected_infos: &[&str]) {
    let directory = directory(files);
    for version in ["1.28", "1.31", "1.32", "1.36"] {
        let output = lint(directory.path(), &["--kubelet-version", version, "--no-cri", "-o", "json"]);
        assert_eq!(output.code, Some(0), "{output}");
        let report = report(&output);
        assert_eq!(report["counts"]["loaded"], files.len(), "{output}");
        assert_eq!(
            (&report["counts"]["errors"], &report["counts"]["warnings"]),
            (&0.into(), &0.into()),
            "{output}"
        );
        for id in expected_infos {
            assert!(output.stdout.contains(id), "{id}: {output}");
        }
    }
}

#[test]
fn kubeadm_manifests_have_no_findings() {
    let [server, manager, scheduler] =
        [("kube-apiserver", 6443), ("kube-controller-manager", 10257), ("kube-scheduler", 10259)]
            .map(|(name, port)| kubeadm(name, port, ""));
    let etcd = kubeadm("etcd", 2381, "").replace("cpu: 250m", "cpu: 100m\n        memory: 100Mi");
    assert_only_infos(
        &[
            ("etcd.yaml", &etcd),
            ("kube-apiserver.yaml", &server),
            ("kube-controller-manager.yaml", &manager),
            ("kube-scheduler.yaml", &scheduler),
        ],
        &[],
    );
}

#[test]
fn fixed_uid_of_rke2_is_an_info() {
    assert_only_infos(&[("etcd.yaml", RKE2)], &["SP065"]);
}

#[test]
fn openshift_and_microshift_manifests_have_no_findings() {
    assert_only_infos(&[("kube-apiserver-pod.yaml", OPENSHIFT)], &["SP069"]);
    assert_only_infos(&[("microshift-etcd.yaml", MICROSHIFT)], &["SP069"]);
}
