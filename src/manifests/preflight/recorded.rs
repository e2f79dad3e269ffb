//! Tests that the findings equal the recorded behaviour of a real kubelet 1.36.2 with the same settings.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;
use crate::report::Severity;

fn recording(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn file(text: &str) -> ConfigFile {
    let path = Arc::from("/etc/kubelet/c.yaml");
    ConfigFile { path, content: Ok(text.as_bytes().to_vec()), is_drop_in: false }
}

/// Returns the findings about a configuration and a command line of kubelet 1.36 on a node with cgroup v1.
fn findings(config: &str, flags: &str) -> Vec<StartFinding> {
    let settings = StartSettings {
        arguments: crate::host::shell_words(flags),
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
const TRIED: [(&str, &str, &str); 35] = [
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

/// Removes backslashes and paths, which differ between a message and the log.
fn without_marks(text: &str) -> String {
    text.replace(['\\', '…'], "").replace("/etc/kubelet/c.yaml", "PATH").trim_end_matches('\'').to_owned()
}

#[test]
fn each_recorded_error_has_the_message_of_the_kubelets_log() {
    let text = fs::read_to_string(recording("kubelet-start-tried-1.36.2.json")).unwrap();
    let tried: Vec<Value> = serde_json::from_str(&text).unwrap();
    let good = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let off = "failCgroupV1: false\n";
    let cases = TRIED.iter().map(|(case, lines, flags)| {
        let off = if lines.contains("failCgroupV1") { "" } else { off };
        (*case, format!("{good}{off}{lines}\n"), *flags)
    });
    let files = TRIED_FILES.iter().map(|(case, text)| (*case, (*text).to_owned(), ""));
    for (case, config, flags) in cases.chain(files) {
        let line = tried.iter().find(|tried| tried["case"] == case).unwrap()["line"].as_str().unwrap();
        let found = findings(&config, flags);
        let reasons: Vec<String> =
            found.iter().filter_map(|finding| finding.kubelet_reason.as_deref()).map(without_marks).collect();
        let line = without_marks(line);
        let is_in_log = |reason: &String| {
            let start = "failed to validate kubelet configuration, error: ";
            line.contains(reason.strip_prefix(start).unwrap_or(reason))
        };
        assert!(reasons.iter().any(is_in_log), "{case}: {line}\n{reasons:#?}");
    }
}

#[test]
fn a_missing_file_or_directory_has_the_message_of_the_kubelets_log() {
    let text = fs::read_to_string(recording("kubelet-start-tried-1.36.2.json")).unwrap();
    let tried: Vec<Value> = serde_json::from_str(&text).unwrap();
    for (case, is_drop_in) in [("noconfig", false), ("configdir", true)] {
        let line = tried.iter().find(|tried| tried["case"] == case).unwrap()["line"].as_str().unwrap();
        let missing =
            ConfigFile { path: Arc::from("PATH"), content: Err(ConfigFileError::Missing), is_drop_in };
        let settings = StartSettings { files: vec![missing], ..StartSettings::default() };
        let found = settings_findings(&settings, TargetKubelet::upstream("1.36")).findings;
        let reason = without_marks(found[0].kubelet_reason.as_deref().unwrap());
        assert!(without_marks(line).contains(&reason), "{line}\n{reason}");
    }
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
