//! Tests that the usual settings of distributions have no error and no warning in the releases for which the distribution
//! uses them.
//!
//! The settings come from the distributions' public documentation and sources, and are shortened.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::*;
use crate::node_resources::NodeResources;
use plegctl_base::report::Severity;
use plegctl_node::host::shell_words;
use plegctl_node::kubelet::KubeletVersion;

/// The newest release of the tables.
const NEWEST: u8 = KubeletVersion::NEWEST.minor();

/// The name, the releases, the configuration and the flags.
type Distribution = (&'static str, RangeInclusive<u8>, &'static str, &'static str);

const KUBEADM: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
cpuManagerReconcilePeriod: 0s
evictionPressureTransitionPeriod: 0s
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
    json: {infoBufferSize: \"0\"}
    text: {infoBufferSize: \"0\"}
  verbosity: 0
memorySwap: {}
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
";

const EKS: &str = r#"{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
"address": "0.0.0.0", "authentication": {"anonymous": {"enabled": false}, "webhook": {"cacheTTL": "2m0s", "enabled": true},
"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}}, "authorization": {"mode": "Webhook",
"webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}}, "clusterDomain": "cluster.local",
"hairpinMode": "hairpin-veth", "readOnlyPort": 0, "cgroupDriver": "systemd", "cgroupRoot": "/",
"featureGates": {"RotateKubeletServerCertificate": true}, "protectKernelDefaults": true, "serializeImagePulls": false,
"serverTLSBootstrap": true, "tlsCipherSuites": ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_256_GCM_SHA384"],
"clusterDNS": ["10.100.0.10"], "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%",
"nodefs.inodesFree": "5%"}, "kubeReserved": {"cpu": "70m", "ephemeral-storage": "1Gi", "memory": "574Mi"},
"systemReservedCgroup": "/system", "kubeReservedCgroup": "/runtime", "maxPods": 29,
"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "logging": {"verbosity": 2},
"providerID": "aws:///us-west-2c/i-0123456789abcdef0"}"#;

const BOTTLEROCKET: &str = "kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
address: 0.0.0.0
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 2m0s, enabled: true}
  x509: {clientCAFile: \"/etc/kubernetes/pki/ca.crt\"}
authorization: {mode: Webhook}
clusterDomain: cluster.local
clusterDNS: [10.100.0.10]
resolvConf: \"/etc/resolv.conf\"
hairpinMode: hairpin-veth
readOnlyPort: 0
cgroupDriver: systemd
cgroupRoot: \"/\"
runtimeRequestTimeout: 15m
featureGates:
  RotateKubeletServerCertificate: true
protectKernelDefaults: true
serializeImagePulls: false
seccompDefault: false
maxPods: 58
podPidsLimit: 1048576
kubeReserved: {cpu: \"80m\", memory: \"893Mi\", ephemeral-storage: \"1Gi\"}
kubeReservedCgroup: \"/runtime\"
cpuManagerPolicy: static
topologyManagerScope: container
";

const GKE: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/srv/kubernetes/pki/ca-certificates.crt}
authorization: {mode: Webhook}
cgroupRoot: /
clusterDNS: [10.8.0.10]
clusterDomain: cluster.local
enableDebuggingHandlers: true
evictionHard:
  memory.available: 100Mi
  nodefs.available: 10%
  nodefs.inodesFree: 5%
  pid.available: 10%
kernelMemcgNotification: true
kubeReserved: {cpu: 1060m, ephemeral-storage: 41Gi, memory: 1019Mi}
readOnlyPort: 10255
serverTLSBootstrap: true
staticPodPath: /etc/kubernetes/manifests
featureGates: {ExecProbeTimeout: true, RotateKubeletServerCertificate: true}
";

const OPENSHIFT: &str = "kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  x509: {clientCAFile: /etc/kubernetes/kubelet-ca.crt}
  anonymous: {enabled: false}
cgroupDriver: systemd
cgroupRoot: /
clusterDNS: [172.30.0.10]
clusterDomain: cluster.local
containerLogMaxSize: 50Mi
maxPods: 250
kubeAPIQPS: 50
kubeAPIBurst: 100
podPidsLimit: 4096
protectKernelDefaults: true
rotateCertificates: true
serializeImagePulls: false
staticPodPath: /etc/kubernetes/manifests
systemCgroups: /system.slice
nodeStatusUpdateFrequency: 10s
nodeStatusReportFrequency: 5m
serverTLSBootstrap: true
tlsMinVersion: VersionTLS12
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
featureGates:
  AlibabaPlatform: true
  AzureWorkloadIdentity: true
  BuildCSIVolumes: true
  KMSv1: true
  OpenShiftPodSecurityAdmission: true
  SomeFutureGateOfOpenShift: false
";

const TALOS: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
cgroupRoot: /
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
enforceNodeAllocatable: [pods]
failSwapOn: false
kubeletCgroups: /podruntime/kubelet
logging: {flushFrequency: 0, format: json, verbosity: 0}
memorySwap: {swapBehavior: \"\"}
oomScoreAdj: -450
port: 10250
protectKernelDefaults: true
resolvConf: /system/resolved/resolv.conf
rotateCertificates: true
seccompDefault: true
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
staticPodPath: \"\"
staticPodURL: http://127.0.0.1:1234/
streamingConnectionIdleTimeout: 5m0s
systemCgroups: /system
systemReserved: {cpu: 50m, ephemeral-storage: 256Mi, memory: 192Mi, pid: \"100\"}
tlsMinVersion: VersionTLS13
";

const AKS: &str = "--address=0.0.0.0 --anonymous-auth=false --authentication-token-webhook=true \
    --authorization-mode=Webhook --bootstrap-kubeconfig=/var/lib/kubelet/bootstrap-kubeconfig \
    --cgroup-driver=systemd --cgroups-per-qos=true --client-ca-file=/etc/kubernetes/certs/ca.crt \
    --cloud-provider=external --cluster-dns=10.0.0.10 --cluster-domain=cluster.local \
    --container-log-max-size=50M --enforce-node-allocatable=pods --event-qps=0 \
    --eviction-hard=memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<2000 \
    --image-gc-high-threshold=85 --image-gc-low-threshold=80 \
    --kube-reserved=cpu=100m,memory=1638Mi,pid=1000 --kubeconfig=/var/lib/kubelet/kubeconfig --max-pods=110 \
    --node-labels=agentpool=pool,kubernetes.azure.com/role=agent,topology.kubernetes.io/region=a \
    --node-status-update-frequency=10s --pod-manifest-path=/etc/kubernetes/manifests --pod-max-pids=-1 \
    --protect-kernel-defaults=true --read-only-port=0 --resolv-conf=/run/systemd/resolve/resolv.conf \
    --rotate-certificates=true --streaming-connection-idle-timeout=4h --v=2 \
    --tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256 \
    --node-ip=10.224.0.4 --runtime-cgroups=/system.slice/containerd.service";

const K3S: &str = "--address=0.0.0.0 --allowed-unsafe-sysctls=net.ipv4.ip_forward,net.ipv6.conf.all.forwarding \
    --anonymous-auth=false --authentication-token-webhook=true --authorization-mode=Webhook \
    --cgroup-driver=systemd --client-ca-file=/var/lib/rancher/k3s/agent/client-ca.crt --cloud-provider=external \
    --cluster-dns=10.43.0.10 --cluster-domain=cluster.local \
    --container-runtime-endpoint=unix:///run/k3s/containerd/containerd.sock \
    --eviction-hard=imagefs.available<5%,nodefs.available<5% \
    --eviction-minimum-reclaim=imagefs.available=10%,nodefs.available=10% --fail-swap-on=false \
    --feature-gates=CloudDualStackNodeIPs=true --healthz-bind-address=127.0.0.1 --hostname-override=n1 \
    --kubeconfig=/var/lib/rancher/k3s/agent/kubelet.kubeconfig --node-labels= --read-only-port=0 \
    --resolv-conf=/run/systemd/resolve/resolv.conf --serialize-image-pulls=false \
    --tls-cert-file=/var/lib/rancher/k3s/agent/serving-kubelet.crt \
    --tls-private-key-file=/var/lib/rancher/k3s/agent/serving-kubelet.key";

const DISTRIBUTIONS: [Distribution; 8] = [
    (
        "kubeadm",
        30..=NEWEST,
        KUBEADM,
        "--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock",
    ),
    ("EKS", 28..=NEWEST, EKS, "--node-ip=10.0.0.4 --cloud-provider=external --hostname-override=n1"),
    ("Bottlerocket", 28..=NEWEST, BOTTLEROCKET, "--cloud-provider=external"),
    (
        "GKE",
        28..=NEWEST,
        GKE,
        "--v=2 --cloud-provider=external --node-labels=cloud.google.com/gke-nodepool=p",
    ),
    (
        "OpenShift",
        28..=NEWEST,
        OPENSHIFT,
        "--node-labels=node-role.kubernetes.io/worker,node.openshift.io/os_id=rhcos --max-housekeeping-interval=1m",
    ),
    ("Talos", 28..=NEWEST, TALOS, "--node-ip=10.5.0.2 --hostname-override=n1"),
    ("AKS", 29..=NEWEST, "", AKS),
    ("k3s", 29..=31, "", K3S),
];

/// Returns a node that has the addresses of the settings above, and none of the cgroups that they name for
/// reservations.
fn ordinary_node(has_config_file: bool) -> NodeFacts {
    let addresses = ["127.0.0.1", "10.0.0.4", "10.224.0.4", "10.5.0.2"];
    let resources = NodeResources {
        has_known_defaults: true,
        has_config_file,
        listeners: Some(Vec::new()),
        cgroups: [("/system".to_owned(), false), ("/runtime".to_owned(), false)].into(),
        addresses: Some(addresses.map(|address| address.parse().unwrap()).into()),
        ..NodeResources::default()
    };
    NodeFacts { resources, ..NodeFacts::default() }
}

#[test]
fn the_settings_of_known_distributions_have_no_error_and_no_warning() {
    for (name, releases, config, flags) in DISTRIBUTIONS {
        let content = Ok(config.as_bytes().to_vec());
        let file = ConfigFile { path: Arc::from("config"), content, is_drop_in: false };
        let settings = StartSettings {
            arguments: shell_words(flags),
            files: if config.is_empty() { Vec::new() } else { vec![file] },
            cgroups: Some(CgroupVersion::V2),
            node: Some(ordinary_node(!config.is_empty())),
        };
        let builder = if is_of_openshift(&settings) { Builder::OpenShift } else { Builder::Unknown };
        assert_eq!(builder == Builder::OpenShift, name == "OpenShift", "{name}");
        for minor in releases {
            let release = KubeletVersion::parse(&format!("1.{minor}")).unwrap();
            let found = settings_findings(&settings, TargetKubelet { release, builder }).findings;
            let bad: Vec<_> = found.iter().filter(|finding| finding.severity > Severity::Info).collect();
            assert!(bad.is_empty(), "{name} in {release}: {bad:#?}");
        }
    }
}

#[test]
fn a_release_older_than_the_tables_is_judged_by_the_oldest_one_in_them() {
    let content = Ok(EKS.as_bytes().to_vec());
    let settings = StartSettings {
        arguments: shell_words(
            "--node-ip=10.0.0.4 --cloud-provider=external --feature-gates=GracefulNodeShutdown=true",
        ),
        files: vec![ConfigFile { path: Arc::from("config"), content, is_drop_in: false }],
        cgroups: Some(CgroupVersion::V2),
        node: Some(ordinary_node(true)),
    };
    let found = |release| settings_findings(&settings, TargetKubelet::upstream(release)).findings;
    let bad = found("1.27").into_iter().filter(|finding| finding.severity > Severity::Info);
    assert_eq!(bad.map(|finding| finding.message).collect::<Vec<_>>(), Vec::<String>::new());
}
