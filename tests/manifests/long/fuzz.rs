//! Feeds random bytes and mutated manifests to the reader: each must get a verdict without a panic.

use std::path::Path;

use plegctl_engine::manifests::{FileVerdict, Kubelet, KubeletVersion, inspect_bytes};
use proptest::prelude::*;

const SEED: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: web, labels: {a: &x b, c: *x}, annotations: {"k": 'v'}}
spec:
  hostNetwork: yes
  initContainers:
  - {name: i, image: "img:1", restartPolicy: Always}
  containers:
  - name: main
    image: !!str reg/app:1.2.3
    command: [/app, --v=2, "\u0041"]
    ports: [{containerPort: 0x50, name: http}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    volumeMounts: [{name: v, mountPath: /v}]
    livenessProbe: {httpGet: {port: http, path: /healthz}}
    <<: {tty: true}
  volumes:
  - name: v
    hostPath: {path: /v, type: DirectoryOrCreate}
  tolerations: [{operator: Exists}]
  securityContext: {seccompProfile: {type: RuntimeDefault}, sysctls: [{name: a.b, value: "1"}]}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}
--- # next
kind: Service
"#;

/// Judges a file for the oldest release and for 1.36, and checks that each report is consistent.
fn judge(bytes: &[u8]) -> FileVerdict {
    let mut last = FileVerdict::Ignored;
    for minor in [28, 36] {
        let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
        let report = inspect_bytes(Path::new("p.yaml"), bytes, &kubelet);
        assert_eq!(report.verdict == FileVerdict::Loaded, report.pod.is_some());
        assert_eq!(report.verdict == FileVerdict::Rejected, report.kubelet_reason.is_some());
        if report.verdict == FileVerdict::Rejected {
            assert!(!report.findings.is_empty());
        }
        last = report.verdict;
    }
    last
}

/// Pieces of YAML and JSON syntax.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            ": ",
            "- ",
            "-",
            "? ",
            "\n",
            "\n  ",
            "\r",
            "\t",
            " ",
            "#",
            " #",
            "&a ",
            "*a",
            "!",
            "!!",
            "!a,",
            "!<",
            ">",
            "|",
            "|+\n",
            ">-\n",
            "%",
            "%41",
            "%YAML 1.1\n",
            "%TAG ! x\n",
            "---",
            "---\n",
            "...",
            "'",
            "\"",
            "\\",
            "\\u",
            "\\x41",
            "\\UFFFFFFFF",
            "<<",
            "<<: ",
            "~",
            "null",
            "yes",
            "0x",
            "1e",
            ".inf",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "\u{a0}",
            "\0",
            "é",
            "!!binary ",
            "!!int ",
            "@",
            "`",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9_.-]{1,8}",
        any::<char>().prop_map(String::from),
    ]
}

/// Returns the number of cases; `PROPTEST_CASES` overrides it.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2_000), failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arbitrary_bytes_have_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        judge(&bytes);
    }

    #[test]
    fn pieces_of_yaml_have_a_verdict(pieces in prop::collection::vec(piece(), 0..60)) {
        judge(pieces.concat().as_bytes());
        judge(format!("{{{}", pieces.concat()).as_bytes());
    }

    #[test]
    fn mutated_manifests_have_a_verdict(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, piece()), 1..6)) {
        let mut text: Vec<char> = SEED.chars().collect();
        for (at, remove, insert) in edits {
            let start = at.index(text.len().max(1)).min(text.len());
            let end = (start + remove).min(text.len());
            text.splice(start..end, insert.chars());
        }
        judge(text.into_iter().collect::<String>().as_bytes());
    }

    #[test]
    fn utf16_of_anything_has_a_verdict(units in prop::collection::vec(any::<u16>(), 0..200), odd in any::<bool>()) {
        let mut bytes = vec![0xff, 0xfe];
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(odd.then_some(0));
        judge(&bytes);
    }
}

#[test]
fn the_seed_of_the_mutations_loads() {
    assert_eq!(judge(SEED.as_bytes()), FileVerdict::Loaded);
}
