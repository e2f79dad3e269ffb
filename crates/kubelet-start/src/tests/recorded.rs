//! Tests that the findings equal the recorded behaviour of a real kubelet 1.36.2 with the same settings.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;
use crate::node_facts::{ClientFiles, NamedFile};
use crate::node_resources::NodeResources;
use plegctl_base::report::Severity;

fn recording(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings").join(name)
}

fn file(text: &str) -> ConfigFile {
    let path = Arc::from("/etc/kubelet/c.yaml");
    ConfigFile { path, content: Ok(text.as_bytes().to_vec()), is_drop_in: false }
}

/// Returns the findings about a configuration and a command line of kubelet 1.36 on a node with cgroup v1.
fn findings(config: &str, flags: &str) -> Vec<StartFinding> {
    let settings = StartSettings {
        arguments: plegctl_node::host::shell_words(flags),
        files: vec![file(config)],
        cgroups: Some(CgroupVersion::V1),
        node: None,
    };
    settings_findings(&settings, TargetKubelet::upstream("1.36")).findings
}

fn errors(findings: &[StartFinding]) -> Vec<&StartFinding> {
    findings.iter().filter(|finding| finding.severity == Severity::Error).collect()
}

/// Returns the kubelet's message as it is in the kubelet's log, where quotes have backslashes.
fn logged(reason: &str) -> String {
    reason.trim_start_matches("panic: ").replace('"', "\\\"")
}

/// Returns the configurations as text. The test must not parse and print them, because the order of the keys decides which
/// error the kubelet reports.
fn configs(text: &str) -> Vec<&str> {
    let config = |rest: &'_ str| {
        let mut depth = 0;
        let end = rest.char_indices().find_map(|(at, letter)| {
            depth += match letter {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            (depth == 0).then_some(at + 1)
        });
        end.unwrap()
    };
    text.split("\"config\": ").skip(1).map(|rest| &rest[..config(rest)]).collect()
}

/// The recorded cases: the name in the recording, lines that are added to a good configuration, and flags.
const TRIED: [(&str, &str, &str); 98] = [
    ("noflag", "", "--no-such-flag"),
    ("removedflag", "", "--container-runtime=remote"),
    ("removedpause", "", "--pod-infra-container-image=x"),
    ("posarg", "", "foo"),
    ("badbool", "", "--fail-swap-on=maybe"),
    ("unkfield", "noSuchField: 1", ""),
    ("dupkey", "maxPods: 5\nmaxPods: 6", ""),
    ("wrongtype", "maxPods: x", ""),
    ("badduration", "syncFrequency: 1x", ""),
    ("lockedcfg", "featureGates: {KubeletTracing: false}", ""),
    ("lockedflag", "", "--feature-gates=KubeletTracing=false"),
    ("gatevalue", "", "--feature-gates=EventedPLEG=maybe"),
    ("gatenoval", "", "--feature-gates=EventedPLEG"),
    ("validation", "imageGCHighThresholdPercent: 50\nimageGCLowThresholdPercent: 60", ""),
    ("validation", "maxPods: -1", ""),
    ("validation", "oomScoreAdj: 2000", ""),
    ("kubereservedcgroup", "enforceNodeAllocatable: [pods, kube-reserved]", ""),
    ("cgroupsperqos", "failCgroupV1: true", ""),
    ("cgroupsperqos", "cgroupsPerQOS: false", ""),
    ("logformat", "logging: {format: xml}", ""),
    ("nodelabel", "", "--node-labels=kubernetes.io/foo=bar"),
    ("emptycri", "", "--container-runtime-endpoint="),
    ("lockcontention", "", "--exit-on-lock-contention"),
    ("f_eviction", "evictionHard: {memory.available: lots}", ""),
    ("f_evictsignal", "evictionHard: {foo.available: 5%}", ""),
    ("f_sysres", "systemReserved: {cpu: abc}", ""),
    ("f_sysresname", "systemReserved: {foo: '1'}", ""),
    ("f_nodeip2", "", "--node-ip=10.0.0.1,10.0.0.2"),
    ("g_nodeip", "", "--node-ip=notanip"),
    ("g_loop", "", "--node-ip=127.0.0.1"),
    ("f_cloudprov", "", "--cloud-provider=aws"),
    ("f_cpumstatic", "cpuManagerPolicy: static", ""),
    ("f_cpumfoo", "cpuManagerPolicy: foo", ""),
    ("kubereservedcgroup", "enforceNodeAllocatable: [kube-reserved]", ""),
    ("cgroupsperqos", "cgroupsPerQOS: false\nenforceNodeAllocatable: [pods]", ""),
    ("evict120", "evictionHard: {memory.available: 120%}", ""),
    ("evictneg", "evictionHard: {memory.available: '-1%'}", ""),
    ("evictzero", "evictionHard: {memory.available: '0'}", ""),
    ("evictpctbad", "evictionHard: {memory.available: x%}", ""),
    ("softnograce", "evictionSoft: {memory.available: 10%}", ""),
    (
        "softbadgrace",
        "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 1x}",
        "",
    ),
    ("softsignal", "evictionSoft: {foo: 10%}", ""),
    ("minreclaim", "evictionMinimumReclaim: {memory.available: x}", ""),
    ("memdef", "memoryManagerPolicy: Static", ""),
    ("memstatic", "evictionHard: {memory.available: 0%}\nmemoryManagerPolicy: Static", ""),
    (
        "memstatic2",
        "evictionHard: {memory.available: 0%}\nmemoryManagerPolicy: Static\nsystemReserved: {memory: 500Mi}",
        "",
    ),
    (
        "memsum",
        "memoryManagerPolicy: Static\nsystemReserved: {memory: 500Mi}\nkubeReserved: {memory: 500M}\nevictionHard: {memory.available: 100Mi}",
        "",
    ),
    (
        "memdiff",
        "evictionHard: {memory.available: 0%}\nmemoryManagerPolicy: Static\nsystemReserved: {memory: 500Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 400Mi}}]",
        "",
    ),
    ("membest", "memoryManagerPolicy: BestEffort", ""),
    ("memfoo", "memoryManagerPolicy: Foo", ""),
    ("tlsmin", "tlsMinVersion: VersionTLS99", ""),
    ("taint", "registerWithTaints: [{key: a b, effect: NoSchedule}]", ""),
    ("taint2", "registerWithTaints: [{key: a, effect: Foo, value: x}]", ""),
    (
        "taint_time",
        "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: '2020-01-01T00:00:00Z'}]",
        "",
    ),
    ("tf0", "", "--register-with-taints=a=b:Foo"),
    ("tf1", "", "--register-with-taints=a"),
    ("tf4", "", "--register-with-taints=a=b=c:NoSchedule"),
    ("tf7", "", "--register-with-taints=a=b:NoSchedule,a=c:NoSchedule"),
    ("tf9", "", "--register-with-taints=:NoSchedule"),
    ("ftp", "containerRuntimeEndpoint: ftp://x/y", ""),
    ("tcp", "containerRuntimeEndpoint: tcp://127.0.0.1:1", ""),
    ("hostport", "containerRuntimeEndpoint: localhost:1234", ""),
    ("imgftp", "imageServiceEndpoint: ftp://x", ""),
    ("aid", "featureGates: {APIServerIdentity: false}", ""),
    (
        "uvipflagcfg",
        "featureGates: {APIServerIdentity: false}",
        "--feature-gates=UnknownVersionInteroperabilityProxy=true",
    ),
    ("log_fmtnum", "logging: {format: 5}", ""),
    ("log_verbstr", "logging: {verbosity: '2'}", ""),
    ("log_verbneg", "logging: {verbosity: -1}", ""),
    ("log_flushbad", "logging: {flushFrequency: 1x}", ""),
    ("log_flushbool", "logging: {flushFrequency: true}", ""),
    ("log_flushfloat", "logging: {flushFrequency: 1.5}", ""),
    ("log_flushlist", "logging: {flushFrequency: [1]}", ""),
    ("log_flushmap", "logging: {flushFrequency: {a: 1}}", ""),
    ("log_flushneg", "logging: {flushFrequency: -1}", ""),
    ("log_flushnegs", "logging: {flushFrequency: -1s}", ""),
    ("log_vmodstr", "logging: {vmodule: a=1}", ""),
    ("log_vmodmap", "logging: {vmodule: {a: 1}}", ""),
    ("log_vmodelem", "logging: {vmodule: [a]}", ""),
    ("log_vmodempty", "logging: {vmodule: [{}]}", ""),
    ("log_vmodpat", "logging: {vmodule: [{filePattern: 5}]}", ""),
    ("log_vmodverb", "logging: {vmodule: [{filePattern: a, verbosity: x}]}", ""),
    ("log_vmodeq", "logging: {vmodule: [{filePattern: a=b, verbosity: 1}]}", ""),
    ("log_opts", "logging: {options: 5}", ""),
    ("log_optjson", "logging: {options: {json: 5}}", ""),
    ("log_buf", "logging: {options: {json: {infoBufferSize: 5x}}}", ""),
    ("log_bufbool", "logging: {options: {json: {infoBufferSize: true}}}", ""),
    ("log_buflist", "logging: {options: {json: {infoBufferSize: [1]}}}", ""),
    ("log_bufset", "logging: {options: {json: {infoBufferSize: 5Mi}}}", ""),
    ("txtbuf", "logging: {options: {text: {infoBufferSize: 5Mi}}}", ""),
    ("log_split", "logging: {options: {json: {splitStream: x}}}", ""),
    ("log_str", "logging: text", ""),
    ("tr_str", "tracing: x", ""),
    ("tr_ep", "tracing: {endpoint: 5}", ""),
    ("tr_rate", "tracing: {samplingRatePerMillion: x}", ""),
    ("tr_rateneg", "tracing: {samplingRatePerMillion: -5}", ""),
    ("tr_ratebig", "tracing: {samplingRatePerMillion: 2000000}", ""),
    ("tr_scheme", "tracing: {endpoint: 'http://x:1'}", ""),
    ("taintkeynum", "registerWithTaints: [{key: a}, {key: 5}]", ""),
];

/// Recorded cases whose configuration file is given completely: the name in the recording, and the file.
const TRIED_FILES: [(&str, &str); 6] = [
    ("syntax", "[a"),
    ("empty", ""),
    ("apiversion", "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1\n"),
    ("kind", "kind: Foo\napiVersion: kubelet.config.k8s.io/v1beta1\n"),
    ("nokind", "apiVersion: kubelet.config.k8s.io/v1beta1\n"),
    (
        "badduration",
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nsyncFrequency: 1x\n",
    ),
];

/// Returns the last line of the kubelet in a recorded case, without backslashes and paths.
pub fn recorded_line(case: &str) -> String {
    let text = fs::read_to_string(recording("kubelet-start-tried-1.36.2.json")).unwrap();
    let tried: Vec<Value> = serde_json::from_str(&text).unwrap();
    let found = tried.iter().find(|tried| tried["case"] == case);
    without_marks(found.unwrap_or_else(|| panic!("{case}"))["line"].as_str().unwrap())
}

/// Removes backslashes and paths, which differ between a message and the log.
pub fn without_marks(text: &str) -> String {
    text.replace(['\\', '…'], "").replace("/etc/kubelet/c.yaml", "PATH").trim_end_matches('\'').to_owned()
}

#[test]
fn each_recorded_error_has_the_message_of_the_kubelets_log() {
    let good = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let off = "failCgroupV1: false\n";
    let cases = TRIED.iter().map(|(case, lines, flags)| {
        let off = if lines.contains("failCgroupV1") { "" } else { off };
        (*case, format!("{good}{off}{lines}\n"), *flags)
    });
    let files = TRIED_FILES.iter().map(|(case, text)| (*case, (*text).to_owned(), ""));
    for (case, config, flags) in cases.chain(files) {
        let line = recorded_line(case);
        let found = findings(&config, flags);
        let reasons: Vec<String> =
            found.iter().filter_map(|finding| finding.kubelet_reason.as_deref()).map(without_marks).collect();
        let is_in_log = |reason: &String| {
            let start = "failed to validate kubelet configuration, error: ";
            line.contains(reason.strip_prefix(start).unwrap_or(reason))
        };
        assert!(reasons.iter().any(is_in_log), "{case}: {line}\n{reasons:#?}");
    }
}

#[test]
fn a_missing_file_or_directory_has_the_message_of_the_kubelets_log() {
    for (case, is_drop_in) in [("noconfig", false), ("configdir", true)] {
        let line = recorded_line(case);
        let missing =
            ConfigFile { path: Arc::from("PATH"), content: Err(ConfigFileError::Missing), is_drop_in };
        let settings = StartSettings { files: vec![missing], ..StartSettings::default() };
        let found = settings_findings(&settings, TargetKubelet::upstream("1.36")).findings;
        let reason = without_marks(found[0].kubelet_reason.as_deref().unwrap());
        assert!(line.contains(&reason), "{line}\n{reason}");
    }
}

/// Returns the kubelet's messages in the errors of a kubelet 1.36 on this node, without backslashes and paths.
fn errors_on(node: NodeFacts, config: &str, flags: &str) -> Vec<String> {
    let resources =
        NodeResources { has_known_defaults: true, has_config_file: true, ..NodeResources::default() };
    let settings = StartSettings {
        arguments: plegctl_node::host::shell_words(flags),
        files: vec![file(&format!(
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n{config}"
        ))],
        cgroups: Some(CgroupVersion::V2),
        node: Some(NodeFacts { resources, ..node }),
    };
    let findings = settings_findings(&settings, TargetKubelet::upstream("1.36")).findings;
    errors(&findings)
        .iter()
        .map(|finding| without_marks(finding.kubelet_reason.as_deref().unwrap_or_default()))
        .collect()
}

#[test]
fn a_fault_of_the_node_has_the_message_of_the_kubelets_log() {
    let named = |path: &str, is_missing| Some(NamedFile { path: format!("/etc/kubelet/{path}"), is_missing });
    let client = |kubeconfig, bootstrap| NodeFacts {
        client: Some(ClientFiles { kubeconfig, bootstrap }),
        ..NodeFacts::default()
    };
    let standalone = || client(None, None);
    let images = |socket: &str, is_there| NodeFacts {
        image_socket: Some((socket.to_owned(), is_there)),
        ..NodeFacts::default()
    };
    let cpus = |list: &str| NodeFacts { online_cpus: Some(list.to_owned()), ..NodeFacts::default() };
    let missing = || named("none.conf", true);
    let (reserved, rotated) = ("reservedSystemCPUs: 0-99", "rotateCertificates: true");
    let images_text = "imageServiceEndpoint: unix:///etc/kubelet/none.sock";
    let allowed = "authorization: {mode: AlwaysAllow}";
    let anonymous = "authentication: {webhook: {enabled: false}}";
    for (case, node, config) in [
        ("cpus99", cpus("0-1"), reserved),
        ("deadimage", images("/etc/kubelet/none.sock", false), images_text),
        ("kubeconfig", client(missing(), None), ""),
        ("kubeconfigrot", client(missing(), None), rotated),
        ("boot_missing", client(missing(), named("noboot.conf", true)), ""),
        ("webhook", standalone(), allowed),
        ("webhookauthz", standalone(), anonymous),
    ] {
        let found = errors_on(node, config, "");
        let line = recorded_line(case);
        assert!(found.len() == 1 && line.contains(&found[0]), "{case}: {line}\n{found:#?}");
    }
    for (node, config) in [
        (cpus("0-127"), reserved),
        (cpus("0-63,99"), "reservedSystemCPUs: 1,99"),
        (images("/etc/kubelet/none.sock", true), images_text),
        (client(missing(), named("boot.conf", false)), ""),
        (client(named("kubelet.conf", false), named("noboot.conf", true)), ""),
        (standalone(), "authorization: {mode: AlwaysAllow}\nauthentication: {webhook: {enabled: false}}"),
        (client(named("kubelet.conf", false), None), "authorization: {mode: Webhook}"),
    ] {
        assert_eq!(errors_on(node, config, ""), [""; 0], "{config}");
    }
}

#[test]
fn settings_that_the_kubelet_accepts_have_no_error() {
    let good = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n";
    for (config, flags) in [
        ("registerWithTaints: [{key: a}]", ""),
        ("registerWithTaints: [{key: a, effect: Foo}]", "--register-with-taints=a:NoSchedule,b-"),
        ("evictionSoft: {memory.available: 0%, nodefs.available: 100%}", ""),
        ("evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 1m}", ""),
        ("containerRuntimeEndpoint: UNIX:///run/c.sock\nimageServiceEndpoint: /run/i.sock", ""),
        ("tlsMinVersion: VersionTLS10", ""),
        ("logging: {flushFrequency: 0, vmodule: [{filePattern: a, verbosity: 1}]}", ""),
        ("logging: {flushFrequency: 0s, format: ''}\ntracing: {}", ""),
        ("tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000000}", ""),
        ("featureGates: {AllBeta: false}", ""),
        ("featureGates: {AllAlpha: true}", ""),
        ("logging: {options: {json: {infoBufferSize: 5Mi}}}\nfeatureGates: {LoggingAlphaOptions: true}", ""),
        ("memoryManagerPolicy: Static", "--reserved-memory=0:memory=100Mi"),
        (
            "memoryManagerPolicy: Static\nsystemReserved: {memory: 500Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 600Mi}}]",
            "",
        ),
    ] {
        let found = findings(&format!("{good}{config}\n"), flags);
        assert!(errors(&found).is_empty(), "{config} {flags}: {found:#?}");
    }
}

#[test]
fn a_file_that_cannot_be_decoded_hides_what_the_defaults_would_refuse() {
    let good = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let ids = |config: &str, flags: &str| -> Vec<(StartCheck, Confidence)> {
        findings(config, flags).iter().map(|finding| (finding.id, finding.confidence)).collect()
    };
    let with = |lines: &str| format!("{good}{lines}\n");
    let certain = |check| (check, Confidence::Certain);
    assert_eq!(ids(&with(""), ""), [certain(StartCheck::CgroupV1)]);
    for (config, check) in [
        (with("failCgroupV1: false\nmaxPods: [1"), StartCheck::ConfigNotYaml),
        (with("failCgroupV1: 'false'"), StartCheck::WrongType),
        ("failCgroupV1: false\nkind: KubeletConfiguration\n".to_owned(), StartCheck::ConfigOfOtherKind),
    ] {
        assert_eq!(ids(&config, ""), [certain(check)], "{config}");
    }
    // A flag overrides the file, whatever the file contains.
    let by_flag = ids(&with("maxPods: [1"), "--fail-cgroupv1=true");
    assert_eq!(by_flag[1], (StartCheck::CgroupV1, Confidence::Likely));
}

#[test]
fn the_recorded_configurations_that_the_kubelet_refused_are_refused_with_the_same_message() {
    let mut text = String::new();
    let bytes = fs::read(recording("kubelet-start-odd-1.36.2.json.gz")).unwrap();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let configs = configs(&text);
    assert_eq!((cases.len(), configs.len()), (143, 143));
    for (case, config) in cases.iter().zip(configs) {
        let found = findings(config, "");
        // The recorded kubelet had no runtime, so it stopped before it checked these values.
        let at_runtime = [
            "unknown policy",
            "eviction signal",
            "value failed to parse",
            "quantities must match",
            "[cpumanager]",
            "failed to create kubelet",
            "Node Allocatable",
        ];
        let is_late = |finding: &&StartFinding| {
            finding.id == StartCheck::RefusedAtStart
                && at_runtime
                    .iter()
                    .any(|late| finding.kubelet_reason.as_deref().unwrap_or_default().contains(late))
        };
        let mut refusals = errors(&found);
        refusals.retain(|finding| !is_late(finding));
        let line = case["line"].as_str().unwrap();
        // The test has no node, so it cannot find a missing file of certificates.
        let is_of_node = line.contains("no such file or directory");
        assert_eq!(refusals.is_empty(), case["starts"] == true || is_of_node, "{config}\n{line}\n{found:?}");
        let reasons: Vec<String> =
            refusals.iter().filter_map(|finding| finding.kubelet_reason.as_deref()).map(logged).collect();
        let is_in_log = reasons.iter().any(|reason| {
            let inner =
                reason.strip_prefix("failed to validate kubelet configuration, error: ").unwrap_or(reason);
            let inner = inner.strip_prefix("failed to merge global and in-flight KubeletConfiguration while setting defaults, error: ").unwrap_or(inner);
            line.replace("\\\"", "\"").contains(&inner.replace("\\\"", "\""))
        });
        assert!(is_in_log || refusals.is_empty(), "{config}\n{line}\n{reasons:#?}");
        for lenient in case["lenient"].as_array().unwrap() {
            let lenient = lenient.as_str().unwrap().replace("\\\"", "\"");
            assert!(
                found.iter().any(|finding| finding
                    .kubelet_reason
                    .as_deref()
                    .is_some_and(|reason| reason.contains(&lenient))),
                "{lenient}"
            );
        }
    }
}
