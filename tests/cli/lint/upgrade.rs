//! Tests of `static-pods lint --upgrade-to`: what another kubelet release restarts, rejects, and newly reads.

use serde_json::Value;

use super::{GOOD, directory, ids, lint, report};

/// Lints files for an upgrade; returns the exit status and the report.
fn upgrade(files: &[(&str, &str)], from: &str, to: &str) -> (Option<i32>, Value) {
    let directory = directory(files);
    let output = lint(
        directory.path(),
        &[
            "--no-cri",
            "--kubelet-version",
            from,
            "--upgrade-to",
            to,
            "--as",
            "/etc/kubernetes/manifests",
            "-o",
            "json",
        ],
    );
    (output.code, report(&output))
}

#[test]
fn pod_restarts_if_the_new_release_computes_another_uid() {
    let (code, report) = upgrade(&[("web.yaml", GOOD)], "1.34", "1.36");
    let file = &report["upgrade"]["files"][0];
    assert_eq!(code, Some(0), "{report}");
    assert_eq!((&report["upgrade"]["from"], &report["upgrade"]["to"]), (&"1.34".into(), &"1.36".into()));
    assert_eq!(file["restarts"], true, "{report}");
    assert_ne!(file["uidFrom"], file["uidTo"], "{report}");
    assert_eq!(file["uidFrom"], report["files"][0]["podUid"], "{report}");
    assert_eq!(ids(&report["files"][0]["findings"]), ["SP142"], "{report}");
    // 1.28 and 1.29 compute the same UID for this pod.
    let (_, report) = upgrade(&[("web.yaml", GOOD)], "1.28", "1.29");
    assert_eq!(report["upgrade"]["files"][0]["restarts"], false, "{report}");
}

#[test]
fn manifest_that_the_new_release_rejects_is_an_error() {
    let with_secret = format!("{GOOD}  imagePullSecrets: [{{name: registry}}]\n");
    let (code, report) = upgrade(&[("web.yaml", &with_secret)], "1.33", "1.34");
    let file = &report["upgrade"]["files"][0];
    assert_eq!(code, Some(1), "{report}");
    assert_eq!((&file["verdictFrom"], &file["verdictTo"]), (&"loaded".into(), &"rejected".into()));
    assert_eq!(file["kubeletReason"], "static pods may not reference secrets", "{report}");
    assert!(ids(&report["files"][0]["findings"]).contains(&"SP140"), "{report}");
}

#[test]
fn fields_that_only_the_new_release_knows_are_named() {
    let with_signal = GOOD.replace("app:1.0", "app:1.0\n    lifecycle: {stopSignal: SIGTERM}");
    let with_signal = format!("{with_signal}  os: {{name: linux}}\n");
    let (_, report) = upgrade(&[("web.yaml", &with_signal)], "1.32", "1.33");
    let newly = &report["upgrade"]["files"][0]["newlyRead"];
    assert_eq!(newly[0], "spec.containers[0].lifecycle.stopSignal", "{report}");
    let odd = [("web.yaml", GOOD)];
    let (_, report) = upgrade(&odd, "1.32", "1.32");
    let file = &report["upgrade"]["files"][0];
    assert_eq!((&file["restarts"], &file["newlyRead"]), (&Value::Bool(false), &Value::Null), "{report}");
}

#[test]
fn table_counts_restarts_and_uses_the_nearest_known_release() {
    let files = directory(&[("web.yaml", GOOD), ("broken.yaml", "kind: Pod")]);
    let output = lint(
        files.path(),
        &["--no-cri", "--kubelet-version", "1.35", "--upgrade-to", "1.99", "--fail-on", "never"],
    );
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("1.99 is not known"), "{output}");
    for text in
        ["upgrade from kubelet 1.35 to 1.99:", "<unknown>", "not known for 1 pod: whether the upgrade"]
    {
        assert!(output.stdout.contains(text), "{text}: {output}");
    }
    assert!(!output.stdout.contains("restarted within"), "nothing is concluded: {output}");
}

/// No other release has the UIDs of a release of which plegctl knows none.
#[test]
fn release_without_known_uids_has_no_uids_and_restarts_nothing() {
    for (from, to) in [("1.38", "1.36"), ("1.36", "1.38"), ("1.99", "1.36"), ("1.27", "1.36")] {
        let (_, report) = upgrade(&[("web.yaml", GOOD)], from, to);
        let unknown = if from == "1.36" { to } else { from };
        assert!(report["upgrade"]["files"][0]["restarts"].is_null(), "{report}");
        assert!(report["upgrade"]["advice"].is_null(), "{report}");
        assert!(ids(&report["files"][0]["findings"]).is_empty(), "{report}");
        let not_checked = report["notChecked"].to_string();
        assert!(not_checked.contains(&format!("no UID that a kubelet {unknown} gave is known")), "{report}");
        assert_eq!(report["files"][0]["podUid"].is_null(), from != "1.36", "{report}");
    }
}

#[test]
fn rules_of_138_are_applied_and_named_as_inferred() {
    let files = directory(&[("web.yaml", GOOD)]);
    let output = lint(files.path(), &["--no-cri", "--kubelet-version", "1.38"]);
    assert!(output.stdout.contains("(rules of kubelet 1.38)"), "{output}");
    for text in ["1.38.0 is planned for 2026-12-16", "the UIDs of its static pods are not known"] {
        assert!(output.stderr.contains(text), "{output}");
    }
    assert!(!output.stderr.contains("nearest known release"), "{output}");
    let exponent = GOOD.replace("app:1.0", "app:1.0\n    resources: {requests: {cpu: \"1e4294967297\"}}");
    let files = directory(&[("web.yaml", &exponent)]);
    let refused = |release: &str| {
        let output = lint(files.path(), &["--no-cri", "--kubelet-version", release, "-o", "json"]);
        output.stdout.contains("SP055")
    };
    assert_eq!((refused("1.37"), refused("1.38")), (false, true));
}

#[test]
fn every_pod_restarts_at_1_37_and_nodes_are_to_be_upgraded_one_after_another() {
    let files = directory(&[("one.yaml", GOOD), ("two.yaml", &GOOD.replace("name: web", "name: two"))]);
    let arguments =
        ["--no-cri", "--kubelet-version", "1.36", "--upgrade-to", "1.37", "--as", "/etc/manifests"];
    let output = lint(files.path(), &arguments);
    assert_eq!(output.stdout.matches("   restarts   ").count(), 2, "{output}");
    assert!(output.stdout.contains("upgrade control-plane nodes one after another"), "{output}");
    let output = lint(files.path(), &[&arguments[..], &["-v"]].concat());
    assert!(output.stderr.contains("everything else about 1.37 is inferred"), "{output}");
}

#[test]
fn unknown_uid_is_omitted_with_the_reason() {
    let with_time = GOOD.replace("  name: web\n", "  name: web\n  creationTimestamp: 2024-01-01T00:00:00Z\n");
    let (_, report) = upgrade(&[("web.yaml", &with_time)], "1.34", "1.36");
    let file = &report["files"][0];
    assert!(file["podUid"].is_null() && file["podUidUnknown"].as_str().unwrap().contains("time"), "{report}");
    assert!(report["upgrade"]["files"][0]["restarts"].is_null(), "{report}");
}
