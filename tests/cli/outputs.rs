//! Tests of the output formats (`-o`): each command has the formats that its help names, and all formats have the same
//! content.

use serde_json::Value;

use crate::support::plegctl::{Invocation, plegctl};

/// The arguments of each command and the document that it prints.
const ROWS: [(&[&str], &str); 13] = [
    (&["health", "-r", "sim:hung-two-pods", "--budget", "5m"], "HealthReport"),
    (&["relist", "-r", "sim:quiet", "--at", "0s"], "RelistReport"),
    (&["pods", "--manifests", "docs/examples/manifests", "--no-cri"], "PodsReport"),
    (&["static-pods", "lint", "docs/examples/manifests", "--no-cri"], "LintReport"),
    (
        &["preflight", "--config", "docs/examples/kubelet-config.yaml", "--kubelet-version", "1.36"],
        "PreflightReport",
    ),
    (&["capture", "ls", "tests/captures/0.1.0.plegcap"], "CaptureList"),
    (&["capture", "check", "tests/captures/0.1.0.plegcap"], "CheckReport"),
    (&["capture", "report", "tests/captures/0.1.0.plegcap"], "CaptureReport"),
    (&["stacks", "--no-live", "tests/recordings/stacks/c16-lock.t200.usr1.gz"], "StackReport"),
    (&["sim", "list"], "ScenarioList"),
    (&["explain", "D01"], "RuleList"),
    (&["explain"], "RuleList"),
    (&["version"], "VersionReport"),
];

#[test]
fn yaml_and_json_have_the_same_fields_in_the_same_order() {
    for (words, kind) in ROWS {
        let of = |form: &str| Invocation::new(&[words, &["-o", form]].concat()).with_short_silences().run();
        let (json, yaml) = (of("json"), of("yaml"));
        assert_eq!(json.code, yaml.code, "{json}{yaml}");
        let report: Value = serde_json::from_str(&json.stdout).unwrap_or_else(|why| panic!("{why}: {json}"));
        assert_eq!(report["kind"], kind, "{json}");
        let begins = format!("apiVersion: plegctl/v1\nkind: {kind}\n");
        assert!(yaml.stdout.starts_with(&begins), "{yaml}");
        let keys = |text: &str, indent: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(indent)?.split_once(':'));
            let keys = lines.map(|(key, _)| key.trim_matches('"').to_owned());
            keys.filter(|key| !key.starts_with([' ', '-', '}', ']'])).collect()
        };
        assert_eq!(keys(&yaml.stdout, ""), keys(&json.stdout, "  "), "{json}{yaml}");
    }
}

#[test]
fn unsupported_output_format_is_a_usage_error_that_lists_the_supported_ones() {
    for (form, words) in
        [("html", ROWS[0].0), ("prometheus", ROWS[2].0), ("wide", ROWS[3].0), ("name", ROWS[5].0)]
    {
        let output = plegctl(&[words, &["-o", form]].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(
            output.stderr.contains("[possible values: table, ") && output.stderr.contains("yaml"),
            "{output}"
        );
    }
}

#[test]
fn explain_prints_one_rule_or_all_rules_as_json() {
    let rules = |words: &[&str]| {
        let output = plegctl(&[&["explain", "-o", "json"], words].concat());
        assert_eq!(output.code, Some(0), "{output}");
        let document: Value = serde_json::from_str(&output.stdout).unwrap();
        document["rules"].as_array().unwrap().clone()
    };
    let one = rules(&["sp053"]);
    assert_eq!((one.len(), &one[0]["id"], &one[0]["severity"]), (1, &"SP053".into(), &"warning".into()));
    for field in ["title", "meaning", "shows"] {
        assert!(one[0][field].as_str().is_some_and(|text| !text.is_empty()), "{one:?}");
    }
    let names = plegctl(&["explain", "-o", "name"]).stdout;
    assert_eq!(rules(&[]).len(), names.lines().count());
    assert!(names.starts_with("D00\nD01\n"), "{names}");
}

#[test]
fn output_name_lists_the_culprits() {
    let arguments = ["health", "-r", "sim:hung-two-pods", "-o", "name"];
    let output = Invocation::new(&arguments).with_short_silences().run();
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), "shop/archive-0\nshop/media-0\n"),
        "{output}"
    );
    let quiet = plegctl(&["health", "-r", "sim:quiet", "-o", "name"]);
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), ""), "{quiet}");
}

#[test]
fn pods_selects_like_relist() {
    let pods = |more: &[&str]| {
        let arguments =
            ["pods", "--manifests", "docs/examples/manifests", "--no-cri", "--node-name", "n1", "-o", "name"];
        plegctl(&[&arguments, more].concat())
    };
    let all = pods(&[]).stdout;
    assert_eq!(all, "kube-system/kube-scheduler-n1\n");
    for shown in
        [&["--pod", "kube-sch*"][..], &["-n", "kube-system"], &["-A"], &["--pod", "kube-system/*-n?"]]
    {
        assert_eq!(pods(shown).stdout, all, "{shown:?}");
    }
    for (none, words) in [
        (&["--pod", "etcd-*"][..], "No pods found called etcd-*"),
        (&["-n", "shop", "-l", "app=web"], "No pods found in namespace shop with labels app=web"),
    ] {
        let output = pods(none);
        assert_eq!((output.stdout.as_str(), output.stderr.trim_end()), ("", words), "{output}");
    }
}

#[test]
fn version_as_a_document_names_the_build() {
    let output = plegctl(&["version", "-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    assert_eq!(report["target"], target);
    // Only `make` and a release name the commit, when they compile.
    let commit = option_env!("PLEGCTL_COMMIT").filter(|commit| !commit.is_empty());
    assert_eq!(report.get("commit").and_then(Value::as_str), commit, "{report}");
}
