//! `plegctl preflight` as a process: settings of a node and of files, formats, exit status.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
maxPods: 110
";

/// A file with this text, and the directory that it is in.
fn config(text: &str) -> (TempDir, String) {
    let directory = TempDir::new();
    let path = directory.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

fn checked(text: &str, more: &[&str]) -> Output {
    let (_directory, path) = config(text);
    plegctl(&[&["preflight", "--config", &path], more].concat())
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// The ids of the findings.
fn ids(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// A node whose kubelet has this command line, with these files.
fn node(command: &str, cgroup: &str, files: &[(&str, &str)]) -> TempDir {
    let node = TempDir::new();
    let proc = node.path().join("proc/77");
    fs::create_dir_all(&proc).unwrap();
    let fields = ["0"; 40].join(" ");
    for (name, text) in [
        ("comm", "kubelet\n".to_owned()),
        ("cmdline", command.replace(' ', "\0") + "\0"),
        ("stat", format!("77 (kubelet) S 1 {fields}")),
        ("status", "Uid:\t0\t0\t0\t0\nNSpid:\t77\n".to_owned()),
        ("mountinfo", format!("25 24 0:22 / /sys/fs/cgroup rw shared:4 - {cgroup} {cgroup} rw\n")),
    ] {
        fs::write(proc.join(name), text).unwrap();
    }
    let socket = node.path().join("run/containerd");
    fs::create_dir_all(&socket).unwrap();
    drop(UnixListener::bind(socket.join("containerd.sock")).unwrap());
    for (name, text) in files {
        let path = node.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    node
}

fn on_node(node: &Path, more: &[&str]) -> Output {
    Invocation::new(&[&["preflight"], more].concat()).env("PLEGCTL_TEST_NODE", node).run()
}

#[test]
fn the_table_shows_the_line_a_caret_the_kubelets_words_and_the_fix() {
    let text = GOOD.replace("maxPods: 110", "maxPod: 110\nfeatureGates:\n  KubeletTracing: false");
    let output = checked(&text, &["--kubelet-version", "1.36"]);
    assert_eq!(output.code, Some(1), "{output}");
    for line in [
        ":4:1: the kubelet does not know `maxPod` and ignores it",
        "    4 | maxPod: 110",
        "    fix: did you mean `maxPods`?",
        ":6:3: the gate KubeletTracing is locked to true since 1.34: kubelet 1.36 does not start",
        "    6 |   KubeletTracing: false",
        "      |   ^",
        "    the kubelet: panic: failed to merge global and in-flight KubeletConfiguration",
        "1 error, 1 warning (rules of kubelet 1.36; ",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let output = checked(GOOD, &["--kubelet-version", "1.36"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("nothing here keeps kubelet 1.36 from starting"), "{output}");
}

#[test]
fn json_has_the_contracts_fields() {
    let text = format!("{GOOD}imageGCLowThresholdPercent: 90\n");
    let output = checked(&text, &["--kubelet-version", "1.35", "--upgrade-to", "1.36", "-o", "json"]);
    let report = report(&output);
    assert_eq!(
        (&report["kind"], &report["release"], &report["upgradeTo"]),
        (&"PreflightReport".into(), &"1.35".into(), &"1.36".into())
    );
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["id"], &finding["severity"], &finding["confidence"], &finding["line"], &finding["column"]),
        (&"KP031".into(), &"error".into(), &"certain".into(), &5.into(), &29.into())
    );
    assert_eq!(finding["field"], "imageGCLowThresholdPercent");
    assert!(finding["kubeletReason"].as_str().unwrap().contains("must be less than"), "{finding}");
    assert!(finding["file"].as_str().unwrap().ends_with("config.yaml") && finding["title"].is_string());
    assert!(report["pods"].is_array() && report["notChecked"][0]["what"] == "the node", "{report}");
    assert_eq!(report["counts"]["errors"], 1);
}

#[test]
fn sarif_names_the_rule_and_the_place() {
    let text = format!("{GOOD}maxPods: -1\n");
    let output = checked(&text, &["--kubelet-version", "1.36", "-o", "sarif"]);
    assert_eq!(output.code, Some(1), "{output}");
    let run = &report(&output)["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{results:?}");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
    let place = &results[1]["locations"][0]["physicalLocation"];
    assert_eq!((&results[1]["ruleId"], &place["region"]["startLine"]), (&"KP030".into(), &5.into()));
    assert_eq!((&results[1]["level"], &results[0]["level"]), (&"error".into(), &"warning".into()));
}

#[test]
fn exit_status_is_as_in_lint() {
    let warns = format!("{GOOD}noSuchField: 1\n");
    let with = |more: &[&str]| checked(&warns, &[&["--kubelet-version", "1.36"], more].concat()).code;
    assert_eq!(with(&[]), Some(0));
    assert_eq!(with(&["--fail-on", "warning"]), Some(1));
    assert_eq!(with(&["--fail-on", "warning", "--ignore", "kp024"]), Some(0));
    assert_eq!(with(&["--ignore", "KP24"]), Some(2));
    let broken = checked("a: [", &["--kubelet-version", "1.36", "--fail-on", "never"]);
    assert_eq!(broken.code, Some(0), "{broken}");
}

#[test]
fn a_release_is_needed_and_never_guessed() {
    let output = checked(GOOD, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("--kubelet-version VERSION"), "{output}");
    let output = plegctl(&["preflight", "--kubelet-version", "1.36"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("no kubelet runs here"), "{output}");
    let output = plegctl(&["preflight", "--config", "/no/such/file", "--kubelet-version", "1.36"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn flags_are_checked_without_a_node() {
    let flags = "--config=/var/lib/kubelet/config.yaml --pod-infra-container-image=registry.k8s.io/pause:3.9";
    let with =
        |release: &str| plegctl(&["preflight", "--flags", flags, "--kubelet-version", release, "-o", "json"]);
    assert_eq!(with("1.34").code, Some(0));
    let output = with("1.35");
    assert_eq!((output.code, ids(&report(&output))), (Some(1), vec!["KP002"]), "{output}");
    let reason = report(&output)["findings"][0]["kubeletReason"].clone();
    assert_eq!(reason, "failed to parse kubelet flag: unknown flag: --pod-infra-container-image");
}

#[test]
fn a_nodes_own_settings_are_merged_as_the_kubelet_merges_them() {
    let node = node(
        "/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d --max-pods=200",
        "cgroup2",
        &[
            ("etc/k.yaml", GOOD),
            ("etc/k.d/10-own.conf", &GOOD.replace("110", "-5")),
            ("etc/k.d/20-own.conf", &format!("{GOOD}imageGCHighThresholdPercent: 101\n")),
            ("etc/os-release", "ID=debian\n"),
        ],
    );
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json", "--ignore", "KP003"]);
    let found = report(&output);
    // The flag is over the drop-in file, so its bad value does not count.
    assert_eq!(ids(&found), ["KP030"], "{output}");
    assert_eq!(
        (&found["findings"][0]["file"], &found["findings"][0]["line"]),
        (&"/etc/k.d/20-own.conf".into(), &5.into())
    );
    assert_eq!(output.code, Some(1));
}

#[test]
fn an_upgrade_to_135_stops_on_a_node_with_cgroup_v1() {
    let of = |cgroup: &str, text: &str, release: &str| {
        let files = [("etc/k.yaml", text), ("etc/os-release", "ID=debian\n")];
        let node = node("/usr/bin/kubelet --config=/etc/k.yaml", cgroup, &files);
        on_node(node.path(), &["--kubelet-version", "1.34", "--upgrade-to", release, "-o", "json"])
    };
    assert_eq!(of("cgroup2", GOOD, "1.35").code, Some(0));
    assert_eq!(of("tmpfs", GOOD, "1.34").code, Some(0));
    let output = of("tmpfs", GOOD, "1.35");
    assert_eq!((output.code, ids(&report(&output))), (Some(1), vec!["KP040"]), "{output}");
    let finding = report(&output)["findings"][0].clone();
    assert!(
        finding["kubeletReason"].as_str().unwrap().contains("cgroup v1 support is unsupported"),
        "{finding}"
    );
    assert_eq!(of("tmpfs", &format!("{GOOD}failCgroupV1: false\n"), "1.36").code, Some(0));
}

#[test]
fn openshifts_unknown_gates_are_information_only() {
    let text = format!("{GOOD}featureGates:\n  RouteExternalCertificate: true\n  VSphereStaticIPs: true\n");
    let output = checked(&text, &["--kubelet-version", "1.33", "-o", "json"]);
    assert_eq!((output.code, ids(&report(&output))), (Some(0), vec!["KP010", "KP010"]), "{output}");
    let plain = text.replace("VSphereStaticIPs", "SomeGate").replace("RouteExternalCertificate", "OtherGate");
    let output = checked(&plain, &["--kubelet-version", "1.33", "-o", "json"]);
    let found = report(&output);
    assert_eq!((output.code, &found["findings"][0]["confidence"]), (Some(1), &"likely".into()), "{output}");
}

#[test]
fn a_kubelet_inside_another_program_is_checked_as_far_as_its_arguments_are_known() {
    let node = node("/usr/local/bin/k3s server --kubelet-arg=max-pods=x --disable traefik", "cgroup2", &[]);
    fs::write(node.path().join("proc/77/comm"), "k3s-server\n").unwrap();
    let output = on_node(node.path(), &["--kubelet-version", "1.33", "-o", "json", "--ignore", "KP003"]);
    let found = report(&output);
    assert_eq!(ids(&found), ["KP004"], "{output}");
    assert!(found["notChecked"][0]["what"].as_str().unwrap().contains("the kubelet inside it"), "{output}");
}

#[test]
fn a_certificate_and_swap_of_the_node_are_findings() {
    let pki = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/pki");
    let pem = ["expired.crt", "expired.key"].map(|name| fs::read_to_string(pki.join(name)).unwrap()).concat();
    let kubeconfig = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
        users:\n- name: u\n  user: {client-certificate: pki/c.pem, client-key: pki/c.pem}\n";
    let node = node(
        "/usr/bin/kubelet --config=/etc/k.yaml --kubeconfig=/etc/kubelet.conf",
        "cgroup2",
        &[
            ("etc/k.yaml", GOOD),
            ("etc/kubelet.conf", kubeconfig),
            ("etc/pki/c.pem", &pem),
            ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"),
            ("etc/containerd/config.toml", "version = 2\ndisabled_plugins = [\"cri\"]\n"),
        ],
    );
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!(ids(&found), ["KP060", "KP067", "KP052", "KP070"], "{output}");
    assert_eq!(found["findings"][0]["file"], "/etc/pki/c.pem");
    assert_eq!(
        (&found["findings"][2]["line"], &found["findings"][2]["confidence"]),
        (&2.into(), &"likely".into())
    );
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn a_runtime_without_its_socket_stops_the_kubelet() {
    let files = [("etc/k.yaml", format!("{GOOD}containerRuntimeEndpoint: unix:///run/none.sock\n"))];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &[(files[0].0, files[0].1.as_str())]);
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    assert_eq!((output.code, ids(&report(&output))), (Some(1), vec!["KP050"]), "{output}");
}

#[test]
fn where_no_kubelet_runs_the_files_of_kubeadm_count() {
    let node = TempDir::new();
    let gates = format!("{GOOD}featureGates: {{APIListChunking: true}}\n");
    for (name, text) in [
        ("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", ""),
        ("var/lib/kubelet/config.yaml", gates.as_str()),
        (
            "var/lib/kubelet/kubeadm-flags.env",
            "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=tcp://r --no-flag=1\"\n",
        ),
        ("etc/os-release", "ID=debian\n"),
        ("proc/1/mountinfo", "25 24 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"),
    ] {
        let path = node.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let output = on_node(node.path(), &["--kubelet-version", "1.34", "-o", "json", "--ignore", "KP003"]);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(1), vec!["KP001", "KP011"]), "{output}");
    assert!(found["settings"].as_str().unwrap().contains("kubeadm's files"), "{output}");
    assert_eq!(found["findings"][1]["file"], "/var/lib/kubelet/config.yaml");
}

#[test]
fn an_upgrade_shows_the_static_pods_that_it_restarts() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: kube-system}\n\
        spec:\n  containers:\n  - {name: app, image: 'registry.k8s.io/app:1.0'}\n";
    let text = format!("{GOOD}staticPodPath: /etc/kubernetes/manifests\n");
    let files = [("etc/k.yaml", text.as_str()), ("etc/kubernetes/manifests/web.yaml", manifest)];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml --hostname-override=n1", "cgroup2", &files);
    let upgrade = ["--kubelet-version", "1.34", "--upgrade-to", "1.35", "-o", "json"];
    let output = on_node(node.path(), &upgrade);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(0), vec!["KP081"]), "{output}");
    let pod = &found["pods"][0];
    assert_eq!((&pod["pod"], &pod["restarts"]), (&"kube-system/web-n1".into(), &true.into()), "{output}");
}

#[test]
fn hostile_text_of_a_configuration_is_escaped() {
    let text = format!("{GOOD}\"\\e]0;x\\a\": 1\n");
    let output = checked(&text, &["--kubelet-version", "1.36"]);
    assert!(output.stdout.contains("\\u{1b}]0;x") && !output.stdout.contains('\u{1b}'), "{output}");
}

#[test]
fn every_id_is_explained() {
    let output = plegctl(&["explain", "kp010"]);
    assert_eq!(output.code, Some(0), "{output}");
    for part in ["on OpenShift", "plegctl preflight --ignore KP010", "unrecognized feature gate"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
}
