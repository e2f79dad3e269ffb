//! Tests each validation rule of the kubelet with manifests that obey the rule and manifests that break it.

use std::path::Path;

use plegctl_engine::manifests::{FileReport, FileVerdict, Kubelet, KubeletVersion, inspect_bytes};

/// The minor releases whose rules are tested.
const ALL: [u8; 4] = [28, 31, 32, 36];

/// Judges a manifest as a release does.
fn judge(text: &str, minor: u8) -> FileReport {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    inspect_bytes(Path::new("/manifests/p.yaml"), text.as_bytes(), &kubelet)
}

/// Whether a release loads the manifest.
fn loads(text: &str, minor: u8) -> bool {
    judge(text, minor).verdict == FileVerdict::Loaded
}

/// Returns a pod with more metadata, spec and container fields; each line must already be indented.
fn pod(metadata: &str, spec: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n{metadata}\nspec:\n{spec}\n  containers:\n  - name: c\n    image: img:1\n{container}\n"
    )
}

/// Returns a pod with this line in its spec.
fn in_spec(addition: &str) -> String {
    pod("", &format!("  {addition}"), "")
}

/// Returns a pod with this line in its container.
fn in_container(addition: &str) -> String {
    pod("", "", &format!("    {addition}"))
}

/// Returns a pod with this line in its metadata.
fn in_metadata(addition: &str) -> String {
    pod(&format!("  {addition}"), "", "")
}

/// Returns a pod with a volume of this source.
fn with_volume(source: &str) -> String {
    in_spec(&format!("volumes: [{{name: v, {source}}}]"))
}

/// Asserts that each of four releases loads the manifests with the additions `good`, and rejects those with the additions
/// `bad`. `place` makes a manifest with an addition.
fn table(place: fn(&str) -> String, good: &[&str], bad: &[&str]) {
    for addition in good {
        for minor in ALL {
            let report = judge(&place(addition), minor);
            assert_eq!(
                report.verdict,
                FileVerdict::Loaded,
                "1.{minor} loads {addition}: {:?}",
                report.kubelet_reason
            );
        }
    }
    for addition in bad {
        for minor in ALL {
            let report = judge(&place(addition), minor);
            assert_eq!(report.verdict, FileVerdict::Rejected, "1.{minor} rejects {addition}");
            assert!(!report.findings.is_empty(), "{addition} has a finding");
            assert!(report.findings.iter().any(|finding| finding.line.is_some()), "{addition} has a line");
        }
    }
}

/// Checks a text in each release; `loading` are the releases that load it.
fn by_release(text: &str, loading: &[u8]) {
    for minor in ALL {
        let report = judge(text, minor);
        assert_eq!(
            report.verdict == FileVerdict::Loaded,
            loading.contains(&minor),
            "1.{minor}: {:?}\n{text}",
            report.kubelet_reason
        );
    }
}

#[test]
fn metadata_rules() {
    table(
        in_metadata,
        &[
            "labels: {a: b, x.y/z: ''}",
            "annotations: {a: anything at all, X.y/z: ''}",
            "namespace: other",
            "finalizers: [a.b/c]",
            "ownerReferences: [{apiVersion: v1, kind: Node, name: nd, uid: u}]",
            "creationTimestamp: null",
            "creationTimestamp: '2024-01-02T03:04:05Z'",
            "uid: anything",
            "generation: 3",
            "managedFields: [{operation: Apply, fieldsType: FieldsV1, fieldsV1: {f: {}}}]",
            "annotations: {controller.kubernetes.io/pod-deletion-cost: '-5'}",
            "annotations: {seccomp.security.alpha.kubernetes.io/pod: runtime/default}",
            "annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}",
            "generateName: x-",
        ],
        &[
            "labels: {a b: c}",
            "labels: {a: b c}",
            "labels: {a: -}",
            "annotations: {a b: c}",
            "namespace: Other",
            "namespace: a.b",
            "finalizers: [abc]",
            "finalizers: [orphan, foregroundDeletion]",
            "ownerReferences: [{apiVersion: v1, kind: Node, name: nd}]",
            "ownerReferences: [{apiVersion: v1, kind: Event, name: nd, uid: u}]",
            "ownerReferences: [{apiVersion: '', kind: Node, name: nd, uid: u}]",
            "creationTimestamp: yesterday",
            "generation: -1",
            "managedFields: [{operation: Create}]",
            "managedFields: [{operation: Apply, fieldsType: X}]",
            "annotations: {controller.kubernetes.io/pod-deletion-cost: '+5'}",
            "annotations: {seccomp.security.alpha.kubernetes.io/pod: other}",
            "annotations: {container.apparmor.security.beta.kubernetes.io/x: unconfined}",
            "annotations: {container.apparmor.security.beta.kubernetes.io/c: other}",
            "annotations: {scheduler.alpha.kubernetes.io/tolerations: nonsense}",
            "generateName: X",
        ],
    );
}

#[test]
fn names_count_the_suffix_of_the_node() {
    let pod_named = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    assert!(loads(&pod_named("a.b-c"), 36));
    assert!(loads(&pod_named(&"a".repeat(253 - 6)), 36));
    for bad in ["A", "a_b", "-a", &"a".repeat(253 - 5)] {
        assert!(!loads(&pod_named(bad), 36), "{bad}");
    }
}

#[test]
fn container_rules() {
    table(
        in_container,
        &[
            "imagePullPolicy: Never",
            "terminationMessagePolicy: FallbackToLogsOnError",
            "ports: [{containerPort: 80, name: http}, {containerPort: 80}]",
            "ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80, hostIP: 127.0.0.1}]",
            "ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80, protocol: UDP}]",
            "env: [{name: A, value: b}, {name: A}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['x']\"}}}]",
            "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]",
            "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]",
            "args: [a, null]",
            "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
            "workingDir: relative",
        ],
        &[
            "imagePullPolicy: always",
            "terminationMessagePolicy: Log",
            "ports: [{containerPort: 80, name: x}, {containerPort: 81, name: x}]",
            "ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80}]",
            "ports: [{containerPort: 0}]",
            "ports: [{containerPort: 65536}]",
            "ports: [{containerPort: 80, hostPort: -1}]",
            "ports: [{containerPort: 80, protocol: tcp}]",
            "ports: [{containerPort: 80, name: a--b}]",
            "ports: [{containerPort: 80, name: '80'}]",
            "env: [{value: b}]",
            "env: [{name: A=B}]",
            "env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]",
            "env: [{name: A, valueFrom: {}}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.host.x}}}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}]",
            "env: [{name: A, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: spec.nodeName}}}]",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['x y']\"}}}]",
            "env: [{name: A, valueFrom: {resourceFieldRef: {resource: cpu}}}]",
            "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2}}}]",
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: m}}}]",
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: M, key: k}}}]",
            "envFrom: [{prefix: P}]",
            "envFrom: [{configMapRef: {}}]",
            "volumeMounts: [{name: x, mountPath: /x}]",
            "volumeDevices: [{name: x, devicePath: /x}]",
            "resizePolicy: [{resourceName: disk, restartPolicy: NotRequired}]",
            "resizePolicy: [{resourceName: cpu, restartPolicy: Maybe}]",
            "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: NotRequired}]",
        ],
    );
}

#[test]
fn an_image_must_not_have_blanks_around_it_and_a_name_must_be_a_label() {
    let with = |name: &str, image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: {name}, image: '{image}'}}]}}\n"
        )
    };
    assert!(loads(&with("c-1", "a/b:c"), 36));
    for (name, image) in [("c", " a"), ("c", "a "), ("c", ""), ("C", "a"), ("c.d", "a")] {
        assert!(!loads(&with(name, image), 36), "{name} {image}");
    }
}

#[test]
fn probe_and_lifecycle_rules() {
    table(
        in_container,
        &[
            "livenessProbe: {exec: {command: [a]}}",
            "livenessProbe: {httpGet: {port: 80}}",
            "livenessProbe: {httpGet: {port: undeclared, path: no-slash}}",
            "livenessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5}",
            "readinessProbe: {grpc: {port: 80}, successThreshold: 3}",
            "startupProbe: {httpGet: {port: 80, scheme: HTTPS, httpHeaders: [{name: X-a, value: b}]}}",
            "lifecycle: {postStart: {exec: {command: [a]}}, preStop: {httpGet: {port: 80}}}",
            "lifecycle: {}",
        ],
        &[
            "livenessProbe: {}",
            "livenessProbe: {exec: {}}",
            "livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 80}}",
            "livenessProbe: {httpGet: {}}",
            "livenessProbe: {httpGet: {port: '80'}}",
            "livenessProbe: {httpGet: {port: 65536}}",
            "livenessProbe: {httpGet: {port: 80, scheme: http}}",
            "livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: 'a b', value: b}]}}",
            "livenessProbe: {tcpSocket: {port: 80}, successThreshold: 2}",
            "startupProbe: {tcpSocket: {port: 80}, successThreshold: 2}",
            "livenessProbe: {tcpSocket: {port: 80}, failureThreshold: -1}",
            "livenessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 0}",
            "readinessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5}",
            "readinessProbe: {grpc: {port: 0}}",
            "lifecycle: {preStop: {}}",
            "lifecycle: {preStop: {exec: {command: [a]}, httpGet: {port: 80}}}",
        ],
    );
    by_release(&in_container("lifecycle: {preStop: {sleep: {seconds: 5}}}"), &[31, 32, 36]);
    by_release(&in_container("lifecycle: {preStop: {sleep: {seconds: 0}}}"), &[36]);
    by_release(&in_container("lifecycle: {preStop: {sleep: {seconds: 31}}}"), &[]);
}

#[test]
fn resource_rules() {
    table(
        in_container,
        &[
            "resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 1, memory: 1Gi}}",
            "resources: {requests: {cpu: 0.5}}",
            "resources: {limits: {example.com/gpu: 1}}",
            "resources: {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 1}}",
            "resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}",
            "resources: {limits: {ephemeral-storage: 1Gi}}",
            "resources: {limits: {memory: null}}",
            "resources: {requests: {cpu: 0.0001}, limits: {cpu: 1m}}",
        ],
        &[
            "resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
            "resources: {requests: {cpu: -1}}",
            "resources: {requests: {gpu: 1}}",
            "resources: {requests: {example.com/gpu: 1}}",
            "resources: {limits: {example.com/gpu: 500m}}",
            "resources: {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 2}}",
            "resources: {limits: {hugepages-2Mi: 4Mi}}",
            "resources: {limits: {hugepages-2Mi: 3Mi, memory: 1Gi}}",
            "resources: {limits: {'a b': 1}}",
            "resources: {requests: {memory: 1GB}}",
            "resources: {claims: [{name: x}]}",
            "resources: {limits: {pods: 1}}",
        ],
    );
}

#[test]
fn security_rules_of_containers() {
    table(
        in_container,
        &[
            "securityContext: {runAsUser: 0, runAsGroup: 2147483647, privileged: true}",
            "securityContext: {seccompProfile: {type: Localhost, localhostProfile: a/b}}",
            "securityContext: {procMount: Default}",
            "securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN]}}",
            "securityContext: {windowsOptions: {runAsUserName: 'DOMAIN\\user'}}",
        ],
        &[
            "securityContext: {runAsUser: -1}",
            "securityContext: {runAsGroup: 2147483648}",
            "securityContext: {privileged: true, allowPrivilegeEscalation: false}",
            "securityContext: {capabilities: {add: [CAP_SYS_ADMIN]}, allowPrivilegeEscalation: false}",
            "securityContext: {seccompProfile: {type: Localhost}}",
            "securityContext: {seccompProfile: {type: Localhost, localhostProfile: /a}}",
            "securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}",
            "securityContext: {seccompProfile: {}}",
            "securityContext: {seccompProfile: {type: runtimeDefault}}",
            "securityContext: {procMount: Masked}",
            "securityContext: {windowsOptions: {runAsUserName: ''}}",
            "securityContext: {windowsOptions: {runAsUserName: 'a\\b\\c'}}",
            "securityContext: {windowsOptions: {runAsUserName: 'a@b'}}",
            "securityContext: {windowsOptions: {gmsaCredentialSpecName: A_B}}",
            "securityContext: {windowsOptions: {gmsaCredentialSpec: ''}}",
            "securityContext: {windowsOptions: {hostProcess: true}}",
        ],
    );
    by_release(&in_container("securityContext: {appArmorProfile: {type: Nope}}"), &[28]);
    by_release(
        &in_container("securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}"),
        &[28],
    );
    by_release(
        &in_container("securityContext: {appArmorProfile: {type: Localhost, localhostProfile: ' x'}}"),
        &[28],
    );
    by_release(
        &in_container("securityContext: {appArmorProfile: {type: Localhost, localhostProfile: x}}"),
        &ALL,
    );
    by_release(&in_container("securityContext: {procMount: Unmasked}"), &[28]);
}

#[test]
fn annotations_and_fields_must_agree() {
    let both = |annotation: &str, context: &str| {
        pod(&format!("  annotations: {{{annotation}}}"), &format!("  securityContext: {{{context}}}"), "")
    };
    let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
    let armor = "container.apparmor.security.beta.kubernetes.io/c";
    by_release(&both(&format!("{seccomp}: runtime/default"), "seccompProfile: {type: RuntimeDefault}"), &ALL);
    by_release(&both(&format!("{seccomp}: unconfined"), "seccompProfile: {type: RuntimeDefault}"), &[]);
    by_release(&both(&format!("{armor}: unconfined"), "appArmorProfile: {type: Unconfined}"), &ALL);
    by_release(&both(&format!("{armor}: unconfined"), "appArmorProfile: {type: RuntimeDefault}"), &[28]);
}

#[test]
fn security_rules_of_pods() {
    table(
        in_spec,
        &[
            "securityContext: {fsGroup: 1, supplementalGroups: [1, 2], fsGroupChangePolicy: Always}",
            "securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: '1'}, {name: net/ipv4/x, value: '1'}]}",
            "shareProcessNamespace: true",
            "hostPID: true",
            "hostUsers: false",
        ],
        &[
            "securityContext: {fsGroup: -1}",
            "securityContext: {supplementalGroups: [-1]}",
            "securityContext: {fsGroupChangePolicy: always}",
            "securityContext: {sysctls: [{value: '1'}]}",
            "securityContext: {sysctls: [{name: A.b, value: '1'}]}",
            "securityContext: {sysctls: [{name: a.b, value: '1'}, {name: a.b, value: '2'}]}",
            "shareProcessNamespace: true\n  hostPID: true",
        ],
    );
    by_release(
        &pod("", "  hostNetwork: true\n  securityContext: {sysctls: [{name: net.ipv4.x, value: '1'}]}", ""),
        &[28],
    );
    by_release(
        &pod("", "  hostIPC: true\n  securityContext: {sysctls: [{name: kernel.sem, value: '1'}]}", ""),
        &[28],
    );
    by_release(&in_spec("securityContext: {supplementalGroupsPolicy: Nope}"), &[28]);
    by_release(&in_spec("securityContext: {seLinuxChangePolicy: Nope}"), &[28, 31]);
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        by_release(&pod("", &format!("  hostUsers: false\n  {field}: true"), ""), &[]);
    }
}

#[test]
fn spec_rules() {
    table(
        in_spec,
        &[
            "restartPolicy: Never",
            "dnsPolicy: None\n  dnsConfig: {nameservers: [1.2.3.4]}",
            "dnsConfig: {searches: [a.b, c.], options: [{name: ndots, value: '2'}]}",
            "hostAliases: [{ip: 127.0.0.1, hostnames: [a.b]}]",
            "hostname: h\n  subdomain: s",
            "activeDeadlineSeconds: 1",
            "terminationGracePeriodSeconds: -5",
            "preemptionPolicy: Never",
            "priority: 2000001000\n  priorityClassName: system-node-critical",
            "runtimeClassName: r",
            "overhead: {cpu: 10m}",
            "nodeSelector: {a: b}",
            "readinessGates: [{conditionType: a.b/c}]",
            "os: {name: linux}",
            "nodeName: other",
            "imagePullSecrets: [{}]",
            "automountServiceAccountToken: true",
            "ephemeralContainers: []",
            "setHostnameAsFQDN: true",
            "unknownField: {anything: [1]}",
        ],
        &[
            "restartPolicy: always",
            "dnsPolicy: clusterFirst",
            "dnsPolicy: None",
            "dnsPolicy: None\n  dnsConfig: {}",
            "dnsConfig: {nameservers: [a]}",
            "dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}",
            "dnsConfig: {searches: [A]}",
            "dnsConfig: {options: [{value: a}]}",
            "hostAliases: [{ip: x}]",
            "hostAliases: [{ip: 127.0.0.1, hostnames: [A]}]",
            "hostname: a.b",
            "subdomain: A",
            "activeDeadlineSeconds: 0",
            "activeDeadlineSeconds: 2147483648",
            "preemptionPolicy: never",
            "priorityClassName: A_B",
            "runtimeClassName: ''",
            "overhead: {x: 10m}",
            "nodeSelector: {a b: c}",
            "readinessGates: [{conditionType: ''}]",
            "os: {name: Linux}",
            "os: {}",
            "schedulingGates: [{name: a}]",
            "ephemeralContainers: [{name: d, image: i}]",
            "hostNetwork: 'true'",
            "priority: 3000000000",
        ],
    );
    by_release(&in_spec("dnsConfig: {searches: [a_b, .]}"), &[36]);
}

#[test]
fn scheduling_rules() {
    table(
        in_spec,
        &[
            "tolerations: [{operator: Exists}, {key: a, value: b, effect: NoSchedule}]",
            "tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]",
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}",
            "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}}",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, minDomains: 2}]",
        ],
        &[
            "tolerations: [{key: a, operator: exists}]",
            "tolerations: [{value: b}]",
            "tolerations: [{key: a, operator: Exists, value: b}]",
            "tolerations: [{key: a, operator: Exists, effect: Never}]",
            "tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]",
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}",
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}",
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: a, operator: In, values: [b]}]}]}}}",
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}",
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}",
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}]}}",
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaces: [A]}]}}",
            "topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
            "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never}]",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}]",
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: X}]",
        ],
    );
    let terms = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: ['b c']}]}]}}}";
    by_release(&in_spec(terms), &[28, 31, 32]);
}

#[test]
fn volume_rules() {
    table(
        with_volume,
        &[
            "hostPath: {path: relative}",
            "hostPath: {path: /a, type: ''}",
            "hostPath: {path: /a, type: FileOrCreate}",
            "hostpath: {path: /a}",
            "emptyDir: {medium: Memory, sizeLimit: 1Gi}",
            "nfs: {server: s, path: /p}",
            "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.labels}}]}",
            "projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]}",
            "gitRepo: {repository: r}",
            "fc: {targetWWNs: [a], lun: 1}",
            "iscsi: {targetPortal: a, iqn: 'iqn.2001-04.com.example:storage', lun: 0}",
            "rbd: {monitors: [m], image: i}",
            "cephfs: {monitors: [m]}",
            "flexVolume: {driver: d}",
            "cinder: {volumeID: v}",
            "awsElasticBlockStore: {volumeID: v}",
            "gcePersistentDisk: {pdName: v, partition: 255}",
            "azureDisk: {diskName: d, diskURI: https://x}",
            "vsphereVolume: {volumePath: v}",
            "quobyte: {registry: 'a:1,b:2', volume: v}",
            "portworxVolume: {volumeID: v}",
            "flocker: {datasetName: d}",
            "scaleIO: {gateway: g, system: s, volumeName: v}",
        ],
        &[
            "hostPath: {}",
            "hostPath: {path: /a/../b}",
            "hostPath: {path: /a, type: directory}",
            "hostPath: {path: /a}, emptyDir: {}",
            "emptyDir: {sizeLimit: -1}",
            "nfs: {server: s}",
            "nfs: {server: s, path: p}",
            "downwardAPI: {items: [{path: a}]}",
            "downwardAPI: {items: [{path: /a, fieldRef: {fieldPath: metadata.labels}}]}",
            "downwardAPI: {items: [{path: ..a, fieldRef: {fieldPath: metadata.labels}}]}",
            "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: spec.nodeName}}]}",
            "downwardAPI: {items: [{path: a, mode: 512, fieldRef: {fieldPath: metadata.labels}}]}",
            "downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu}}]}",
            "downwardAPI: {defaultMode: -1}",
            "gitRepo: {}",
            "gitRepo: {repository: r, directory: ../x}",
            "fc: {}",
            "fc: {targetWWNs: [a]}",
            "fc: {targetWWNs: [a], lun: 1, wwids: [b]}",
            "iscsi: {targetPortal: a, iqn: x, lun: 0}",
            "iscsi: {targetPortal: a, iqn: 'iqn.2001-04.com.example:storage', lun: 256}",
            "iscsi: {targetPortal: a, iqn: 'iqn.2001-04.com.example:storage', chapAuthSession: true}",
            "rbd: {image: i}",
            "cephfs: {}",
            "flexVolume: {}",
            "flexVolume: {driver: d, options: {kubernetes.io/x: y}}",
            "cinder: {}",
            "awsElasticBlockStore: {volumeID: v, partition: 256}",
            "azureDisk: {diskName: d, diskURI: x}",
            "azureDisk: {diskName: d, diskURI: https://x, kind: shared}",
            "quobyte: {registry: a, volume: v}",
            "flocker: {}",
            "flocker: {datasetName: d, datasetUUID: u}",
            "scaleIO: {gateway: g, system: s}",
            "storageos: {volumeName: A}",
            "csi: {}",
            "secret: {}",
            "configMap: {}",
            "configMap: {name: a, items: [{key: k}]}",
            "persistentVolumeClaim: {}",
            "ephemeral: {}",
            "projected: {sources: [{serviceAccountToken: {path: t}}]}",
            "projected: {defaultMode: 512}",
        ],
    );
    by_release(&with_volume("image: {reference: 'x:1'}"), &[28, 36]);
    by_release(&with_volume("image: {reference: 'x:1', pullPolicy: Always}"), &[28, 32, 36]);
    by_release(&with_volume("image: {pullPolicy: Always}"), &[28, 32, 36]);
}

#[test]
fn mount_rules() {
    let mounted = |mounts: &str| {
        pod(
            "",
            "  volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}]",
            &format!("    volumeMounts: {mounts}"),
        )
    };
    for good in [
        "[{name: v, mountPath: relative}]",
        "[{name: v, mountPath: /a}, {name: w, mountPath: /b, subPath: x/y, readOnly: true}]",
        "[{name: v, mountPath: '/a:b', mountPropagation: HostToContainer}]",
        "[{name: v, mountPath: /a, subPathExpr: $(X)}]",
        "[{name: v, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled}]",
    ] {
        by_release(&mounted(good), &ALL);
    }
    for bad in [
        "[{name: x, mountPath: /a}]",
        "[{mountPath: /a}]",
        "[{name: v}]",
        "[{name: v, mountPath: /a}, {name: w, mountPath: /a}]",
        "[{name: v, mountPath: /a, subPath: /x}]",
        "[{name: v, mountPath: /a, subPath: ../x}]",
        "[{name: v, mountPath: /a, subPath: x, subPathExpr: y}]",
        "[{name: v, mountPath: /a, mountPropagation: Bidirectional}]",
        "[{name: v, mountPath: /a, mountPropagation: none}]",
    ] {
        by_release(&mounted(bad), &[]);
    }
    by_release(&mounted("[{name: v, mountPath: /a, recursiveReadOnly: Enabled}]"), &[28]);
    by_release(&mounted("[{name: v, mountPath: /a, recursiveReadOnly: Nope}]"), &[28]);
}

#[test]
fn init_container_rules() {
    table(
        in_spec,
        &[
            "initContainers: [{name: i, image: x}]",
            "initContainers: [{name: i, image: x, restartPolicy: Always, livenessProbe: {tcpSocket: {port: 1}}}]",
            "initContainers: [{name: i, image: x, ports: [{containerPort: 1, hostPort: 1}]}, {name: j, image: x, ports: [{containerPort: 1, hostPort: 1}]}]",
        ],
        &[
            "initContainers: [{name: c, image: x}]",
            "initContainers: [{name: i, image: x}, {name: i, image: x}]",
            "initContainers: [{name: i, image: x, livenessProbe: {tcpSocket: {port: 1}}}]",
            "initContainers: [{name: i, image: x, lifecycle: {}}]",
            "initContainers: [{name: i, image: x, restartPolicy: Sometimes}]",
            "initContainers: [{name: i}]",
        ],
    );
    by_release(&in_spec("initContainers: [{name: i, image: x, restartPolicy: Never}]"), &[36]);
    by_release(&in_container("restartPolicy: Always"), &[36]);
    by_release(
        &in_container("restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]"),
        &[28, 31, 32],
    );
    by_release(&in_container("env: [{name: 1A}]"), &[36]);
}

#[test]
fn windows_pods_may_not_set_what_only_linux_has() {
    let os = |name: &str, context: &str| {
        pod("", &format!("  os: {{name: {name}}}"), &format!("    securityContext: {{{context}}}"))
    };
    by_release(&os("windows", "windowsOptions: {runAsUserName: a}"), &ALL);
    by_release(&os("windows", "privileged: true"), &[]);
    by_release(&os("linux", "privileged: true"), &ALL);
    by_release(&os("linux", "windowsOptions: {}"), &[]);
}

#[test]
fn only_new_kubelets_reject_references_to_api_objects() {
    for addition in [
        "serviceAccountName: default",
        "serviceAccount: x",
        "imagePullSecrets: [{name: s}]",
        "volumes: [{name: v, secret: {secretName: s}}]",
        "volumes: [{name: v, configMap: {name: s, optional: true}}]",
        "volumes: [{name: v, persistentVolumeClaim: {claimName: s}}]",
        "volumes: [{name: v, csi: {driver: d}}]",
        "volumes: [{name: v, glusterfs: {endpoints: e, path: p}}]",
        "volumes: [{name: v, azureFile: {secretName: s, shareName: sh}}]",
        "volumes: [{name: v, rbd: {monitors: [m], image: i, secretRef: {name: s}}}]",
        "volumes: [{name: v, projected: {sources: [{}]}}]",
        "volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]",
    ] {
        by_release(&in_spec(addition), &[28, 31, 32]);
    }
    by_release(
        &in_container("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
        &[28, 31, 32],
    );
    by_release(&in_container("envFrom: [{configMapRef: {name: s}}]"), &[28, 31, 32]);
    by_release(&in_spec("resourceClaims: [{name: r, resourceClaimName: x}]"), &[31]);
    let reason = judge(&in_spec("serviceAccount: x"), 36).kubelet_reason.unwrap();
    assert_eq!(reason, "static pods may not reference serviceaccounts");
}

#[test]
fn a_wrong_name_and_wrong_labels_have_the_text_that_a_kubelet_1_36_2_logged() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: Web_App, labels: {a b: c, ok: x y}}\n\
        spec:\n  containers: [{name: main, image: 'img:1'}]\n";
    let logged = r#"invalid pod: [metadata.name: Invalid value: "Web_App-node1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*') metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') metadata.labels: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"#;
    assert_eq!(judge(text, 36).kubelet_reason.as_deref(), Some(logged));
}

#[test]
fn pod_level_resources_are_validated_by_kubelets_that_know_them() {
    by_release(&in_spec("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), &[28, 31, 32]);
    by_release(&in_spec("resources: {limits: {disk: 1}}"), &[28, 31, 32]);
    by_release(&in_spec("resources: {limits: {cpu: 1}}"), &ALL);
    by_release(
        &pod("", "  resources: {requests: {cpu: 1}}", "    resources: {requests: {cpu: 2}}"),
        &[28, 31, 32],
    );
    by_release(
        &pod("", "  resources: {limits: {cpu: 1}}", "    resources: {limits: {cpu: 2}}"),
        &[28, 31, 32],
    );
}

#[test]
fn in_the_host_network_each_port_is_a_host_port() {
    let two = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  hostNetwork: true\n  containers:\n  - {name: a, image: i, ports: [{containerPort: 80}]}\n  - {name: b, image: i, ports: [{containerPort: 80}]}\n";
    by_release(two, &[]);
    by_release(&two.replace("hostNetwork: true", "hostNetwork: false"), &ALL);
    by_release(&pod("", "  hostNetwork: true", "    ports: [{containerPort: 80, hostPort: 81}]"), &[]);
}

#[test]
fn a_finding_has_a_position_and_a_fix() {
    let report = judge(&in_spec("restartPolicy: always"), 36);
    let finding = &report.findings[0];
    assert_eq!(finding.id.to_string(), "SP089");
    assert_eq!(finding.field.as_deref(), Some("spec.restartPolicy"));
    assert_eq!((finding.line, finding.column), (Some(7), Some(18)));
    assert_eq!(finding.fix.as_deref(), Some("write `Always`"));
    assert!(
        report
            .kubelet_reason
            .unwrap()
            .starts_with("invalid pod: [spec.restartPolicy: Unsupported value: \"always\"")
    );
}
