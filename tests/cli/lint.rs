//! The process tests of `plegctl static-pods lint`: verdicts, findings, formats and exit status. The submodule
//! `runtime` tests the comparison with the running pods, `upgrade` tests the comparison of two kubelet releases.

mod good;
mod hostile;
mod runtime;
mod upgrade;
mod verdicts;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

pub(super) const GOOD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: kube-system
spec:
  containers:
  - name: app
    image: registry.k8s.io/app:1.0
";

/// Creates a directory with these files.
pub(super) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

pub(super) fn lint(path: &Path, more: &[&str]) -> Output {
    let path = path.display().to_string();
    plegctl(&[&["static-pods", "lint", "--node-name", "node1", &path], more].concat())
}

pub(super) fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the ids of the findings of a file.
pub(super) fn ids(findings: &Value) -> Vec<&str> {
    findings.as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn table_shows_line_caret_fix_and_verdict() {
    let files =
        directory(&[("web.yaml", &GOOD.replace("app:1.0", "app:1.0\n    comand: [a]\n    env: yes"))]);
    let output = lint(files.path(), &[]);
    assert_eq!(output.code, Some(1), "{output}");
    for line in [
        "    11 |     env: yes",
        "       |          ^",
        "  so: if a pod runs from this file, the kubelet stops it within 20 s",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let warned = directory(&[("web.yaml", &GOOD.replace("app:1.0", "app:1.0\n    comand: [a]"))]);
    let output = lint(warned.path(), &[]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stdout.contains("warning[SP053] line 10, column 5: the kubelet does not know `comand`"),
        "{output}"
    );
    assert!(output.stdout.contains("    fix: did you mean `command`?"), "{output}");
    assert!(output.stdout.contains("web.yaml   loaded    kube-system/web-node1"), "{output}");
}

#[test]
fn json_has_the_verdict_of_each_file_and_the_counts() {
    let files =
        directory(&[("a.yaml", GOOD), ("a.yaml.bak", GOOD), ("b.yaml", "kind: Pod\n"), (".c.yaml", GOOD)]);
    let output = lint(files.path(), &["-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output.stdout.starts_with("{\n  \"apiVersion\": \"plegctl/v1\",\n  \"kind\": \"LintReport\""),
        "{output}"
    );
    let report = report(&output);
    let verdicts: Vec<(&str, Option<&str>)> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["verdict"].as_str().unwrap(), file["podName"].as_str()))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("ignored", None),
            ("shadowed", Some("web-node1")),
            ("loaded", Some("web-node1")),
            ("rejected", None)
        ]
    );
    assert!(report["files"][3]["kubeletReason"].as_str().unwrap().contains("apiVersion"));
    assert_eq!(ids(&report["files"][1]["findings"]), ["SP100"]);
    assert_eq!(report["counts"]["files"], 4);
    assert_eq!(report["counts"]["errors"], 2);
    // `pods` lists each loaded pod; `shadows` lists the files that lose against the pod's file (here `a.yaml`).
    assert_eq!(report["pods"][0]["shadows"].as_array().unwrap().len(), 1);
    let line = lint(files.path(), &["-o", "jsonl"]);
    assert_eq!(line.stdout.lines().count(), 1, "{line}");
}

#[test]
fn fail_on_and_ignore_decide_the_exit_status() {
    let files = directory(&[("web.yaml", &GOOD.replace("app:1.0", "app"))]);
    for (arguments, code) in [
        (&["--fail-on", "error"] as &[&str], 0),
        (&["--fail-on", "warning"], 1),
        (&["--fail-on", "info"], 1),
        (&["--fail-on", "warning", "--ignore", "SP081"], 0),
        (&["--fail-on", "warning", "--ignore", "sp081", "--ignore", "SP053"], 0),
    ] {
        let output = lint(files.path(), arguments);
        assert_eq!(output.code, Some(code), "{output}");
    }
    let broken = directory(&[("web.yaml", "")]);
    assert_eq!(lint(broken.path(), &["--fail-on", "never"]).code, Some(0));
    assert_eq!(lint(broken.path(), &[]).code, Some(1));
}

#[test]
fn unknown_check_version_or_format_is_a_usage_error() {
    let files = directory(&[("web.yaml", GOOD)]);
    let output = lint(files.path(), &["--ignore", "SP05"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("did you mean SP"), "{output}");
    assert_eq!(lint(files.path(), &["--kubelet-version", "yes"]).code, Some(2));
    assert_eq!(lint(files.path(), &["-o", "wide"]).code, Some(2));
    assert_eq!(lint(files.path(), &["--output-file", "sarif"]).code, Some(2));
}

#[test]
fn a_text_instead_of_a_number_has_the_type_of_the_kubelets_message() {
    for (field, kind) in [("terminationGracePeriodSeconds", "int64"), ("priority", "int32")] {
        let files = directory(&[("web.yaml", &GOOD.replace("spec:", &format!("spec:\n  {field}: a")))]);
        let report = report(&lint(files.path(), &["-o", "json"]));
        let reason = report["files"][0]["kubeletReason"].as_str().unwrap();
        assert!(reason.contains(&format!("{field} of type {kind})")), "{reason}");
    }
}

#[test]
fn a_mistyped_path_is_an_error_and_no_finding() {
    let nowhere = TempDir::new();
    let output = lint(&nowhere.path().join("gone"), &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("gone`: no such file or directory\nhint: name a directory"), "{output}");
}

#[test]
fn a_missing_directory_of_the_kubelet_is_a_finding() {
    let nowhere = TempDir::new();
    let root = nowhere.path().display().to_string();
    let output = plegctl(&["static-pods", "lint", "--no-cri", "--host-root", &root, "-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    assert_eq!(ids(&report["files"][0]["findings"]), ["SP001"]);
    assert_eq!(report["counts"]["files"], 0);
}

#[test]
fn default_path_is_below_the_host_root() {
    let host = TempDir::new();
    let manifests = host.path().join("etc/kubernetes/manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(host.path().join("etc/hostname"), "Node7\n").unwrap();
    fs::write(manifests.join("web.yaml"), GOOD).unwrap();
    let root = host.path().display().to_string();
    let output = plegctl(&["static-pods", "lint", "--host-root", &root, "--no-cri", "-o", "json"]);
    let report = report(&output);
    assert_eq!(report["files"][0]["podName"], "web-node7", "{output}");
    assert_eq!(report["files"][0]["verdict"], "loaded", "{output}");
}

#[test]
fn stdin_or_a_single_file_is_judged_without_the_rules_for_a_directory() {
    let output =
        Invocation::new(&["static-pods", "lint", "-", "--node-name", "n1", "-o", "json"]).stdin(GOOD).run();
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(report(&output)["files"][0]["podName"], "web-n1");
    let files = directory(&[(".web.yaml", GOOD), ("web.yaml", GOOD)]);
    let output = lint(&files.path().join(".web.yaml"), &["-o", "json"]);
    assert_eq!(report(&output)["files"][0]["verdict"], "loaded", "{output}");
    assert_eq!(report(&output)["files"].as_array().unwrap().len(), 1);
}

#[test]
fn the_kubelets_version_decides_the_verdict() {
    let files = directory(&[("web.yaml", &format!("{GOOD}  imagePullSecrets: [{{name: a}}]\n"))]);
    for (version, verdict) in [("v1.30.4+rke2r1", "loaded"), ("1.36", "rejected")] {
        let output = lint(files.path(), &["--kubelet-version", version, "-o", "json"]);
        assert_eq!(report(&output)["files"][0]["verdict"], verdict, "{output}");
    }
    let newer = lint(files.path(), &["--kubelet-version", "1.77"]);
    assert!(newer.stderr.contains("1.38"), "{newer}");
}

#[test]
fn output_files_are_written_in_addition_to_stdout() {
    let files = directory(&[("web.yaml", "")]);
    let results = TempDir::new();
    let [json, sarif] = ["a.json", "a.sarif"].map(|name| results.path().join(name));
    let output = lint(
        files.path(),
        &[
            "--output-file",
            &format!("json={}", json.display()),
            "--output-file",
            &format!("sarif={}", sarif.display()),
        ],
    );
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("SP030"), "{output}");
    let json: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["kind"], "LintReport");
    let sarif: Value = serde_json::from_str(&fs::read_to_string(sarif).unwrap()).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let nowhere = lint(files.path(), &["--output-file", "json=/nowhere/at/all.json"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere}");
}

#[test]
fn sarif_conforms_to_the_standard() {
    let files = directory(&[
        ("a b.yaml", &GOOD.replace("app:1.0", "app\n    comand: [a]")),
        ("c.yaml", "kind: [\n"),
        ("d.yaml", GOOD),
    ]);
    let output = lint(files.path(), &["-o", "sarif"]);
    let log = report(&output);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(run["tool"]["driver"]["name"], "plegctl");
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 3, "{output}");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("file:///") && !uri.contains(' '), "{uri}");
        if let Some(region) = place.get("region") {
            assert!(
                region["startLine"].as_u64().unwrap() >= 1 && region["startColumn"].as_u64().unwrap() >= 1
            );
        }
    }
    let mut seen = std::collections::HashSet::new();
    assert!(rules.iter().all(|rule| seen.insert(rule["id"].as_str().unwrap())));
    assert!(rules.iter().all(|rule| rule["shortDescription"]["text"].is_string()));
}

#[test]
fn github_gets_an_annotation_for_each_finding() {
    let files = directory(&[("web.yaml", &GOOD.replace("app:1.0", "app:1.0\n    comand: [a]"))]);
    let output = lint(files.path(), &["-o", "github"]);
    let path = files.path().join("web.yaml");
    let start = format!(
        "::warning file={},line=10,col=5,title=SP053::the kubelet does not know `comand`",
        path.display()
    );
    assert_eq!(output.stdout.lines().count(), 1, "{output}");
    assert!(output.stdout.starts_with(&start), "{output}");
}
