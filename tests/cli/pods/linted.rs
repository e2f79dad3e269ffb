//! Tests of `static-pods lint` for the mirror pods of a directory.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::api_server::TestDir;
use crate::support::plegctl::{Invocation, Output};

const HOUR: Duration = Duration::from_secs(3600);

fn lint(arguments: &[&str]) -> Output {
    let fixed = ["static-pods", "lint", "--node-name", "n1", "--no-cri", "-o", "json"];
    Invocation::new(&[&fixed, arguments].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

fn pod(name: &str, image: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "main", "image": image}]}})
    .to_string()
}

/// Lints a directory with the manifest of `shop/web`, written this long ago, and these pods of the API server.
fn with_pods(scratch: &TestDir, age: Duration, pods: &Value) -> Output {
    let directory = scratch.0.join("manifests");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("web.yaml");
    fs::write(&file, pod("web", "x:1")).unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(SystemTime::now() - age).unwrap();
    let list = scratch.file("list.json", json!({"kind": "List", "items": pods}).to_string());
    lint(&[directory.to_str().unwrap(), "--api-pods", &list])
}

/// Returns the ids of the findings about the runtime.
fn found(output: &Output) -> Vec<String> {
    let report = report(output);
    let findings = report["runtimeFindings"].as_array().unwrap().iter();
    findings.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn mirror_pod_is_current_outdated_missing_or_another_pod() {
    let scratch = TestDir::new("lint-mirrors");
    let mirror_pod = |hash: Option<&str>| {
        let annotations = hash.map(|hash| json!({"kubernetes.io/config.mirror": hash}));
        json!([{"metadata": {"name": "web-n1", "namespace": "shop", "uid": "api", "annotations": annotations},
            "spec": {"nodeName": "n1"}}])
    };
    let nothing = with_pods(&scratch, HOUR, &json!([]));
    assert_eq!((nothing.code, found(&nothing)), (Some(0), vec!["SP135".to_owned()]), "{nothing}");
    assert!(nothing.stdout.contains("no namespace shop"), "{nothing}");
    let uid = report(&nothing)["files"][0]["podUid"].as_str().unwrap().to_owned();
    assert_eq!(found(&with_pods(&scratch, HOUR, &mirror_pod(Some(&uid)))), [""; 0]);
    assert_eq!(found(&with_pods(&scratch, HOUR, &mirror_pod(Some("0123")))), ["SP136"]);
    let taken = with_pods(&scratch, HOUR, &mirror_pod(None));
    assert_eq!((taken.code, found(&taken)), (Some(1), vec!["SP137".to_owned()]), "{taken}");
    // In the first minute, a missing mirror pod is not reported.
    assert_eq!(found(&with_pods(&scratch, Duration::ZERO, &json!([]))), [""; 0]);
    assert_eq!(found(&with_pods(&scratch, Duration::ZERO, &mirror_pod(Some("0123")))), [""; 0]);
}

#[test]
fn unreadable_pod_list_is_reported() {
    let scratch = TestDir::new("lint-list");
    let file = scratch.file("web.yaml", pod("web", "x"));
    let half = scratch.file("half.json", r#"{"kind": "PodList", "items": ["#);
    let output = lint(&[&file, "--api-pods", &half]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("half.json: it is not JSON"), "{output}");
    let not_checked = report(&output)["notChecked"].clone();
    assert!(
        not_checked.as_array().unwrap().iter().any(|left_out| left_out["what"] == "mirror pods"),
        "{output}"
    );
}
