//! Tests with manifests for which plegctl once gave another verdict than the kubelet. Mutated files revealed each
//! cause; this module has the smallest manifest for it.

use std::path::Path;

use plegctl_engine::manifests::{
    FileReport, FileVerdict, Kubelet, KubeletVersion, ManifestNode, inspect_bytes,
};

const HEAD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n";

/// Judges a manifest as the newest known kubelet does.
fn judge(text: impl AsRef<[u8]>) -> FileReport {
    let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
    inspect_bytes(Path::new("/manifests/p.yaml"), text.as_ref(), &kubelet)
}

/// Whether the newest known kubelet loads the manifest.
fn loads(text: &str) -> bool {
    let report = judge(text);
    assert_ne!(report.verdict, FileVerdict::NotJudged, "{text}");
    report.verdict == FileVerdict::Loaded
}

/// Returns the pod with more fields in its only container; each line must already be indented.
fn container(fields: &str) -> String {
    format!("{HEAD}spec:\n  containers:\n  - name: c\n    image: img:1\n    {fields}")
}

/// Returns a manifest that has an unknown field with this value.
fn unknown(value: &str) -> String {
    format!("{HEAD}unknown: {value}\nspec: {{containers: [{{name: c, image: img}}]}}\n")
}

/// Returns the items of a string list in the only container, after decoding.
fn texts(text: &str, field: &str) -> Option<Vec<String>> {
    let pod = judge(text).document?.pod?.pod;
    let list = pod.get("spec")?.get("containers")?.as_list()?.first()?.get(field)?.as_list()?;
    list.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Returns the arguments that the kubelet reads for `args: value`.
fn args(value: &str) -> Option<Vec<String>> {
    texts(&container(&format!("args: {value}")), "args")
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn an_exclamation_mark_in_quotes_is_not_a_tag() {
    assert_eq!(args(r#"["!x", "y"]"#), Some(list(&["!x", "y"])));
    assert_eq!(args(r#"["a", "!$(X)", "c"]"#), Some(list(&["a", "!$(X)", "c"])));
    assert_eq!(args("['-!a, b', ':!c, d', 'e;~$@+(']"), Some(list(&["-!a, b", ":!c, d", "e;~$@+("])));
    assert_eq!(args(r#"["x!,y", "Al\x3bways"]"#), Some(list(&["x!,y", "Al;ways"])));
    assert_eq!(args("[-!a, b:!c]"), Some(list(&["-!a", "b:!c"])));
}

#[test]
fn a_tag_may_contain_brackets_and_commas_and_ends_at_a_blank() {
    for tag in ["!a[b]", "!a]b", "!a,b", "!,", "!!str", "!<a,[b]>"] {
        assert_eq!(args(&format!("[{tag} c, d]")), Some(list(&["c", "d"])), "{tag}");
        assert!(loads(&container("").replace("img:1", &format!("{tag} img:1"))), "{tag}");
    }
    // The tag extends to the next blank, beyond the end of the list.
    assert_eq!(args("[!a]"), None);
    assert_eq!(args("[!a, b]"), Some(list(&["b"])));
}

#[test]
fn a_timestamp_tag_requires_a_time() {
    assert!(loads(&unknown("{!!timestamp 2024-01-01 : 1}")));
    assert!(loads(&unknown("!!timestamp 2024-1-1 3:4:5")));
    assert!(!loads(&unknown("{!!timestamp 2024-01-01 :1}")));
    assert!(!loads(&unknown("!!timestamp 2024-13-01")));
    assert!(loads(&unknown("2024-13-01")));
}

#[test]
fn the_first_value_of_a_repeated_json_key_is_decoded_too() {
    let json = |fields: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{{fields},"containers":[{{"name":"c","image":"i:1"}}]}}}}"#
        )
    };
    assert!(loads(&json(r#""hostNetwork":false,"hostNetwork":true"#)));
    assert!(!loads(&json(r#""hostNetwork":"x","hostNetwork":true"#)));
    assert!(!loads(&json(r#""volumes":[{"name":1}],"volumes":[]"#)));
    // In YAML only the last value is decoded.
    let yaml = format!(
        "{HEAD}spec:\n  hostNetwork: x\n  hostNetwork: true\n  containers: [{{name: c, image: i}}]\n"
    );
    assert!(loads(&yaml));
}

#[test]
fn a_byte_order_mark_after_the_start_is_part_of_the_key() {
    let pod = format!("{HEAD}spec: {{containers: [{{name: c, image: img}}]}}\n");
    assert!(loads(&format!("\u{feff}{pod}")));
    assert!(!loads(&pod.replace("spec:", "\u{feff}spec:")));
    assert!(loads(&pod.replace("spec:", "\u{feff}more: x\nspec:")));
    // If the kubelet's buffer starts with a byte order mark, it skips the first letter of each line.
    let shifted =
        pod.replace("\nkind", "\n-kind").replace("\nspec", "\n-spec").replace("\nmetadata", "\n-metadata");
    assert!(loads(&format!("\u{feff}\u{feff}{}", shifted.replace("\n  name: p", "\n   name: p"))));
    assert!(!loads(&format!("\u{feff}\u{feff}{pod}")));
}

#[test]
fn infinite_and_nan_are_valid_keys_and_invalid_values() {
    for key in [".nan", ".inf", "-.inf", ".NaN"] {
        assert!(loads(&unknown(&format!("{{{key}: a}}"))), "{key}");
        assert!(!loads(&unknown(key)), "{key}");
    }
}

#[test]
fn keys_beyond_64_bits_are_floats_and_large_unsigned_keys_are_rejected() {
    for (key, loaded) in [
        ("9223372036854775807", true),
        ("9223372036854775808", false),
        ("18446744073709551615", false),
        ("18446744073709551616", true),
        ("1e300", true),
        ("-9223372036854775809", true),
    ] {
        assert_eq!(loads(&unknown(&format!("{{{key}: a}}"))), loaded, "{key}");
    }
}

#[test]
fn a_last_line_of_blanks_keeps_the_line_break_of_a_block() {
    let block = |ending: &str| texts(&container(&format!("args:\n    - |\n      a{ending}")), "args");
    assert_eq!(block(""), Some(list(&["a"])));
    assert_eq!(block("\n"), Some(list(&["a\n"])));
    assert_eq!(block("\n   "), Some(list(&["a\n"])));
    assert_eq!(block("\n        "), Some(list(&["a\n  "])));
}

#[test]
fn a_number_below_the_64_bit_minimum_is_not_an_integer() {
    let grace = |number: &str| {
        loads(&format!(
            "{HEAD}spec:\n  terminationGracePeriodSeconds: {number}\n  containers: [{{name: c, image: i}}]\n"
        ))
    };
    assert!(grace("-9223372036854775808"));
    assert!(!grace("-9223372036854775809"));
}

#[test]
fn tolerations_in_an_annotation_may_be_null() {
    let with = |value: &str| {
        loads(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {{scheduler.alpha.kubernetes.io/tolerations: '{value}'}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        ))
    };
    assert!(with("null"));
    assert!(with("[]"));
    assert!(!with("{}"));
}

/// Reads a file that is deep and wide: the time must not grow with depth times width.
#[test]
fn long_deep_nesting_is_read_in_linear_time() {
    // A scanner that scans every open bracket for each token would need minutes.
    let deep = 9_000;
    let wide = unknown(&format!("{}{}{}", "[".repeat(deep), "a, ".repeat(400_000), "]".repeat(deep)));
    assert!(loads(&wide));
    let text = judge(unknown(&"[".repeat(2_000_000)));
    assert_eq!(text.verdict, FileVerdict::Rejected);
    assert!(text.kubelet_reason.unwrap().contains("exceeded max depth of 10000"));
    assert!(judge(unknown("[]")).document.unwrap().root.as_ref().and_then(ManifestNode::as_map).is_some());
}

/// Returns why a release rejects the manifest.
fn reason(text: &str, minor: u8) -> Option<String> {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    inspect_bytes(Path::new("/manifests/p.yaml"), text.as_bytes(), &kubelet).kubelet_reason
}

/// Returns a manifest with a volume of this source.
fn volume(source: &str) -> String {
    format!("{HEAD}spec:\n  volumes: [{{name: v, {source}}}]\n  containers: [{{name: c, image: img}}]\n")
}

#[test]
fn the_two_source_fields_of_a_claim_must_be_equal() {
    let claim = |sources: &str| {
        volume(&format!(
            "ephemeral: {{volumeClaimTemplate: {{spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}, {sources}}}}}}}"
        ))
    };
    let set = "{kind: PersistentVolumeClaim, name: a}";
    for good in [
        format!("dataSource: {set}"),
        format!("dataSource: {set}, dataSourceRef: {set}"),
        "dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: other}".to_owned(),
        "dataSource: {apiGroup: g.io, kind: K, name: a}".to_owned(),
    ] {
        assert_eq!(reason(&claim(&good), 33), None, "{good}");
    }
    for bad in [
        format!("dataSource: {set}, dataSourceRef: {{kind: PersistentVolumeClaim, name: b}}"),
        format!("dataSource: {set}, dataSourceRef: {{apiGroup: \"\", kind: PersistentVolumeClaim, name: a}}"),
        format!(
            "dataSource: {set}, dataSourceRef: {{kind: PersistentVolumeClaim, name: a, namespace: other}}"
        ),
        "dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: Other}".to_owned(),
        "dataSource: {kind: K, name: a}".to_owned(),
        "dataSource: {kind: PersistentVolumeClaim}".to_owned(),
    ] {
        let message = reason(&claim(&bad), 33).unwrap_or_else(|| panic!("{bad} loads"));
        assert!(message.contains("spec.volumes[0].ephemeral.volumeClaimTemplate.spec"), "{message}");
    }
}

#[test]
fn a_pod_certificate_is_validated_before_it_is_rejected() {
    let certificate =
        |fields: &str| volume(&format!("projected: {{sources: [{{podCertificate: {{{fields}}}}}]}}"));
    let good = "keyType: ED25519, signerName: example.com/signer, credentialBundlePath: bundle";
    let refused = reason(&certificate(good), 36).unwrap();
    assert!(refused.contains("static pods may not reference podcertificates"), "{refused}");
    let at = "spec.volumes[0].projected.sources[0].podCertificate";
    for (from, to, wrong) in [
        ("ED25519", "RSA1024", ".keyType: Unsupported value"),
        ("example.com/signer", "signer", ".signerName: Invalid value"),
        ("credentialBundlePath: bundle", "maxExpirationSeconds: 3600", ": Required value"),
        (
            "credentialBundlePath: bundle",
            "keyPath: k, maxExpirationSeconds: 60",
            ".maxExpirationSeconds: Invalid value",
        ),
    ] {
        let message = reason(&certificate(&good.replace(from, to)), 36).unwrap();
        assert!(message.contains(&format!("{at}{wrong}")), "{message}");
    }
}

#[test]
fn an_empty_projected_source_is_rejected_by_the_reference_check() {
    let empty = volume("projected: {sources: [{}]}");
    assert_eq!(reason(&empty, 33), None);
    assert!(reason(&empty, 36).unwrap().contains("unknown source for projected volume"));
}

#[test]
fn a_pod_without_spec_misses_only_its_containers() {
    for minor in [28, 36] {
        let message = reason(HEAD, minor).unwrap();
        assert_eq!(message.matches("spec.").count(), 1, "{message}");
        assert!(message.contains("spec.containers: Required value"), "{message}");
    }
}

#[test]
fn rejections_name_fields_as_in_the_kubelets_log() {
    for (text, name) in [
        (
            volume("downwardAPI: {items: [{path: a}, {path: ../b, fieldRef: {fieldPath: metadata.name}}]}"),
            "spec.volumes[0].downwardAPI.path",
        ),
        (
            volume(
                "projected: {sources: [{configMap: {name: m, items: [{key: a, path: x}, {key: b, path: x}]}}]}",
            ),
            "spec.volumes[0].projected",
        ),
        (
            container("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"),
            "spec.containers[0].resources.requests",
        ),
        (container("resources: {requests: {example.com/a: 1}}"), "spec.containers[0].resources.limits"),
        (
            format!("{HEAD}spec:\n  overhead: {{cpu: -1}}\n  containers: [{{name: c, image: i}}]\n"),
            "spec.overhead.limits[cpu]",
        ),
    ] {
        let message = reason(&text, 36).unwrap_or_else(|| panic!("{text} loads"));
        assert!(
            message.contains(&format!("[{name}: ")) || message.contains(&format!(" {name}: ")),
            "{name}: {message}"
        );
    }
}
