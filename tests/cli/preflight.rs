//! The process tests of `plegctl preflight`: settings of a node and of files, output formats, exit status.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use flate2::read::GzDecoder;
use plegctl_engine::cri::{Code, Rpc};
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node, RuntimeKind};

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
maxPods: 110
";

/// Writes a file with this text. Returns its directory and its path.
fn config(text: &str) -> (TempDir, String) {
    let directory = TempDir::new();
    let path = directory.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

/// Checks a configuration file.
fn checked(text: &str, more: &[&str]) -> Output {
    let (_directory, path) = config(text);
    plegctl(&[&["preflight", "--config", &path], more].concat())
}

pub fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the ids of the findings.
pub fn ids(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// A node directory and a fake runtime that listens on the node's containerd socket.
pub struct TestNode {
    directory: TempDir,
    runtime: FakeRuntime,
}

impl TestNode {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Creates a node with a kubelet that has this command line and cgroup, and with further files. A kubelet without any
/// `--kubeconfig` gets one, because with the default settings it does not start without one.
pub fn node(command: &str, cgroup: &str, files: &[(&str, &str)]) -> TestNode {
    let client =
        if command.contains("--kubeconfig") { "" } else { " --kubeconfig=/etc/kubernetes/kubelet.conf" };
    let command = format!("{command}{client}");
    let node = TempDir::new();
    let runtime = FakeRuntime::start_as(RuntimeKind::Crio, Node::new());
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
    fs::hard_link(runtime.socket(), socket.join("containerd.sock")).unwrap();
    for (name, text) in files {
        let path = node.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    TestNode { directory: node, runtime }
}

/// Runs `preflight` on a test node.
pub fn on_node(node: &Path, more: &[&str]) -> Output {
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
        "kubelet 1.36 would not start or keep running: the gate KubeletTracing is locked to true since 1.34\n",
        "1 error, 1 warning (rules of kubelet 1.36; ",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let output = checked(GOOD, &["--kubelet-version", "1.36"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("no finding prevents kubelet 1.36 from starting"), "{output}");
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
fn the_release_of_a_running_kubelet_is_read_from_its_program_or_asked_for() {
    let of = |program: &str| {
        let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &[("etc/k.yaml", GOOD)]);
        let packed = format!("{}/tests/recordings/{program}.gz", env!("CARGO_MANIFEST_DIR"));
        let unpacked = node.path().join("kubelet");
        let mut file = GzDecoder::new(fs::File::open(packed).unwrap());
        std::io::copy(&mut file, &mut fs::File::create(&unpacked).unwrap()).unwrap();
        symlink(&unpacked, node.path().join("proc/77/exe")).unwrap();
        on_node(node.path(), &["-o", "json"])
    };
    let output = of("go-program");
    assert_eq!((output.code, &report(&output)["release"]), (Some(0), &"1.35".into()), "{output}");
    let output = of("go-program-trimpath");
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("the release of the kubelet is not known"), "{output}");
    assert!(output.stderr.contains("name it with --kubelet-version VERSION"), "{output}");
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
fn subordinate_ids_that_138_refuses_are_read_from_the_node() {
    let range = r#"[{"hostId":4294901760,"containerId":0,"length":65536}]"#;
    let mappings = format!(r#"{{"uidMappings":{range},"gidMappings":{range}}}"#);
    let files = [
        ("etc/k.yaml", GOOD),
        ("etc/os-release", "ID=debian\n"),
        ("bin/getent", ""),
        ("etc/subuid", "kubelet:327680:4294836224\n"),
        ("var/lib/kubelet/pods/1b5a6a4e-0a0b-4b5e-9d5c-0123456789ab/userns", &mappings),
    ];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
    let found = |release: &str| {
        let output = on_node(node.path(), &["--kubelet-version", release, "-o", "json"]);
        let found = report(&output);
        ids(&found).into_iter().filter(|id| *id == "KP079").count()
    };
    assert_eq!((found("1.37"), found("1.38")), (0, 2));
}

#[test]
fn what_is_not_known_of_138_is_named() {
    let text = format!(
        "{GOOD}clientCertificateKeyAlgorithm: ECDSA-P384\nfeatureGates: {{PodSchedulingReadiness: true}}\n"
    );
    let of = |release: &str| report(&checked(&text, &["--kubelet-version", release, "-o", "json"]));
    let found = of("1.38.0");
    assert_eq!(ids(&found), ["KP014"], "{found}");
    let not_checked = found["notChecked"].to_string();
    assert!(not_checked.contains("gates and flags that only kubelet 1.38 has"), "{not_checked}");
    assert!(not_checked.contains("a draft of its release notes"), "{not_checked}");
    let exponent = |release: &str| {
        let text = format!(
            "{GOOD}systemReserved: {{cpu: '1e-4294967297'}}\nevictionHard: {{memory.available: '1e4294967297'}}\n"
        );
        let found = report(&checked(&text, &["--kubelet-version", release, "-o", "json"]));
        ids(&found).len()
    };
    assert_eq!((exponent("1.37"), exponent("1.38")), (0, 2));
    let before = of("1.37.1");
    assert_eq!(ids(&before), ["KP024", "KP013"], "{before}");
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
    // `--max-pods` overrides the first drop-in file, so the bad value in that file does not count.
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
            ("etc/containerd/config.toml", "disabled_plugins = [\"cri\"]\n"),
        ],
    );
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!(ids(&found), ["KP060", "KP067", "KP052", "KP070"], "{output}");
    assert_eq!(found["findings"][0]["file"], "/etc/pki/c.pem");
    // The runtime serves the CRI now, so the disabled plugin matters only after its next start.
    let disabled = &found["findings"][2];
    assert_eq!(
        (&disabled["line"], &disabled["column"], &disabled["confidence"], &disabled["severity"]),
        (&1.into(), &21.into(), &"likely".into(), &"warning".into())
    );
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn files_cpus_and_sockets_that_the_node_lacks_stop_the_kubelet() {
    let config = format!("{GOOD}reservedSystemCPUs: 0-99\nimageServiceEndpoint: unix:///run/images.sock\n");
    let provider = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\n\
        providers:\n- {name: ecr, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.x'], \
        defaultCacheDuration: 1h}\n";
    let files = [
        ("etc/k.yaml", config.as_str()),
        ("etc/kubernetes/pki/ca.crt", ""),
        ("etc/images/config.yaml", provider),
        ("etc/images/bin/other", ""),
        ("sys/devices/system/cpu/online", "0-1\n"),
    ];
    let command = "/usr/bin/kubelet --config=/etc/k.yaml --image-credential-provider-bin-dir=/etc/images/bin \
        --image-credential-provider-config=/etc/images/config.yaml";
    let found = |command: &str| {
        let node = node(command, "cgroup2", &files);
        // A socket on which nobody listens.
        drop(UnixListener::bind(node.path().join("run/images.sock")).unwrap());
        report(&on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json", "--fail-on", "never"]))
    };
    let of_node = found(command);
    assert_eq!(ids(&of_node), ["KP068", "KP057", "KP033", "KP058"], "{of_node}");
    let reasons = [
        "failed to run Kubelet: invalid kubeconfig: stat /etc/kubernetes/kubelet.conf: no such file or directory",
        "dial unix /run/images.sock: connect: connection refused\"",
        "reserved-cpus: 0-99 is not a subset of online-cpus: 0-1",
        "err=\"plugin binary executable  did not exist\"",
    ];
    for (finding, reason) in of_node["findings"].as_array().unwrap().iter().zip(reasons) {
        assert!(finding["kubeletReason"].as_str().unwrap().ends_with(reason), "{finding}");
        assert_eq!(finding["confidence"], "certain", "{finding}");
    }
    let standalone = found(&format!("{command} --kubeconfig="));
    assert_eq!(ids(&standalone), ["KP031", "KP031", "KP057", "KP033", "KP058"], "{standalone}");
}

#[test]
fn a_runtime_without_its_socket_stops_the_kubelet() {
    let files = [("etc/k.yaml", format!("{GOOD}containerRuntimeEndpoint: unix:///run/none.sock\n"))];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &[(files[0].0, files[0].1.as_str())]);
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    assert_eq!((output.code, ids(&report(&output))), (Some(1), vec!["KP050"]), "{output}");
}

#[test]
fn a_runtime_without_cri_v1_is_reported_with_its_cause() {
    let files = [
        ("etc/k.yaml", GOOD),
        ("etc/containerd/config.toml", "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"),
    ];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
    node.runtime.on(Rpc::Version).fail(Code::Unimplemented, "unknown service runtime.v1.RuntimeService");
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(1), vec!["KP051", "KP052"]), "{output}");
    let [served, cause] = [0, 1].map(|index| &found["findings"][index]);
    assert_eq!(served["confidence"], "certain");
    let reason = served["kubeletReason"].as_str().unwrap();
    assert!(
        reason.ends_with("code = Unimplemented desc = unknown service runtime.v1.RuntimeService"),
        "{reason}"
    );
    assert_eq!((&cause["line"], &cause["severity"]), (&2.into(), &"error".into()), "{cause}");
    // The kubelet stops after this error too, so preflight makes no other call.
    assert_eq!(node.runtime.calls().iter().map(|call| call.rpc).collect::<Vec<_>>(), [Rpc::Version]);
}

#[test]
fn a_broken_file_of_containerd_is_shown_with_its_place() {
    let files = [("etc/k.yaml", GOOD), ("etc/containerd/config.toml", "version = 2\n[plugins\n")];
    let mut node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
    node.runtime.stop();
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(1), vec!["KP050", "KP053"]), "{output}");
    assert_eq!(
        (&found["findings"][1]["line"], &found["findings"][1]["confidence"]),
        (&2.into(), &"likely".into())
    );
}

#[test]
fn a_cgroup_driver_that_differs_from_the_runtimes_is_a_warning() {
    let cgroupfs = GOOD.replace("systemd", "cgroupfs");
    let files = [("etc/k.yaml", cgroupfs.as_str())];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(0), vec!["KP055"]), "{output}");
    let finding = &found["findings"][0];
    assert_eq!(
        (&finding["field"], &finding["file"], &finding["line"]),
        (&"cgroupDriver".into(), &"/etc/k.yaml".into(), &3.into())
    );
    assert!(finding["message"].as_str().unwrap().contains("the kubelet uses the runtime's driver, systemd"));
}

#[test]
fn a_silent_runtime_is_not_judged() {
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &[("etc/k.yaml", GOOD)]);
    node.runtime.on(Rpc::Version).hang();
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json", "--timeout", "200ms"]);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(0), Vec::new()), "{output}");
    let skipped = found["notChecked"].as_array().unwrap();
    let why = skipped.iter().find(|skipped| skipped["what"] == "whether the runtime serves CRI v1").unwrap();
    assert_eq!(why["why"], "Version did not answer within 200ms");
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
    assert_eq!((output.code, ids(&found)), (Some(1), vec!["KP001", "KP011", "KP030"]), "{output}");
    assert!(found["settings"].as_str().unwrap().contains("kubeadm's files"), "{output}");
    assert_eq!(found["findings"][1]["file"], "/var/lib/kubelet/config.yaml");
}

/// Writes the files of a node on which no kubelet runs.
fn without_kubelet(files: &[(&str, &str)]) -> TempDir {
    let node = TempDir::new();
    for (name, text) in files {
        let path = node.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    node
}

#[test]
fn where_no_kubelet_runs_its_unit_counts_under_any_name() {
    let unit = "[Service]\nEnvironmentFile=/etc/default/agent\nExecStart=/opt/bin/kubelet --config=/etc/k.yaml $FLAGS\n";
    let node = without_kubelet(&[
        ("etc/systemd/system/node-agent.service", unit),
        ("etc/default/agent", "FLAGS=--no-such-flag\n"),
        ("etc/k.yaml", &format!("{GOOD}authorization: {{mode: Nobody}}\n")),
    ]);
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!(ids(&found), ["KP001", "KP033", "KP031", "KP050"], "{output}");
    assert_eq!(found["settings"], "settings in the unit node-agent.service; no kubelet runs");
    // The program of the unit shows its release.
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/go-program.gz");
    fs::create_dir_all(node.path().join("opt/bin")).unwrap();
    let mut kubelet = fs::File::create(node.path().join("opt/bin/kubelet")).unwrap();
    std::io::copy(&mut GzDecoder::new(fs::File::open(program).unwrap()), &mut kubelet).unwrap();
    let found = report(&on_node(node.path(), &["-o", "json"]));
    assert_eq!(found["release"], "1.35", "{found:#}");
}

#[test]
fn where_no_kubelet_and_no_unit_is_the_last_command_line_of_roots_kubelet_in_the_journal_counts() {
    if !["/usr/bin/journalctl", "/bin/journalctl"].iter().any(|path| Path::new(path).exists()) {
        assert!(std::env::var_os("CI").is_none(), "this test needs journalctl");
        eprintln!("skipped: there is no journalctl");
        return;
    }
    let node = without_kubelet(&[("etc/k.yaml", "kind: Other\n"), ("var/log/journal/none", "")]);
    // Its newest entries are one of another user's process and one whose writer had ended.
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/kubelet-journal.gz");
    let mut journal = fs::File::create(node.path().join("var/log/journal/kubelet.journal")).unwrap();
    std::io::copy(&mut GzDecoder::new(fs::File::open(packed).unwrap()), &mut journal).unwrap();
    let output = on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]);
    let found = report(&output);
    assert_eq!(found["settings"], "the last command line in the journal; no kubelet runs", "{output}");
    assert_eq!(ids(&found), ["KP001", "KP022", "KP033", "KP050"], "{output}");
    assert_eq!(found["findings"][1]["file"], "/etc/k.yaml");
}

#[test]
fn an_upgrade_shows_the_static_pods_that_it_restarts() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: kube-system}\n\
        spec:\n  containers:\n  - {name: app, image: 'registry.k8s.io/app:1.0'}\n";
    let text = format!("{GOOD}staticPodPath: /etc/kubernetes/manifests\n");
    let files = [
        ("etc/k.yaml", text.as_str()),
        ("etc/kubernetes/kubelet.conf", ""),
        ("etc/kubernetes/manifests/web.yaml", manifest),
    ];
    let node = node("/usr/bin/kubelet --config=/etc/k.yaml --hostname-override=n1", "cgroup2", &files);
    let upgrade = ["--kubelet-version", "1.34", "--upgrade-to", "1.35", "-o", "json"];
    let output = on_node(node.path(), &upgrade);
    let found = report(&output);
    assert_eq!((output.code, ids(&found)), (Some(0), vec!["KP081"]), "{output}");
    let pod = &found["pods"][0];
    let name = (&pod["pod"]["namespace"], &pod["pod"]["name"]);
    assert_eq!(name, (&"kube-system".into(), &"web-n1".into()), "{output}");
    assert_eq!(pod["restarts"], true, "{output}");
}

#[test]
fn every_id_is_explained() {
    let output = plegctl(&["explain", "kp010"]);
    assert_eq!(output.code, Some(0), "{output}");
    for part in ["on OpenShift", "plegctl preflight --ignore KP010", "unrecognized feature gate"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
}

/// Returns a listening socket on every address, as the kernel prints it.
fn listening(port: u16, inode: u32) -> String {
    format!(
        "   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0\n"
    )
}

/// Adds a process with an open socket.
fn add_owner(node: &Path, pid: u32, name: &str, inode: u32) {
    let process = node.join(format!("proc/{pid}"));
    fs::create_dir_all(process.join("fd")).unwrap();
    fs::write(process.join("comm"), format!("{name}\n")).unwrap();
    let stat = process.join("stat");
    if !stat.exists() {
        fs::write(stat, format!("{pid} ({name}) S 1 0\n")).unwrap();
    }
    symlink(format!("socket:[{inode}]"), process.join("fd/3")).unwrap();
}

#[test]
fn a_port_of_another_process_is_taken_and_the_kubelets_own_is_not() {
    let of = |owner: u32, name: &str, text: &str| {
        let table = listening(10250, 4001) + &listening(10248, 4002) + &listening(443, 4003);
        let files = [("etc/k.yaml", text), ("etc/os-release", "ID=debian\n"), ("proc/77/net/tcp", &table)];
        let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
        add_owner(node.path(), owner, name, 4001);
        report(&on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]))
    };
    assert_eq!(ids(&of(77, "kubelet", GOOD)), [""; 0], "the kubelet itself");
    let found = of(812, "nginx", &format!("{GOOD}port: 10250\n"));
    assert_eq!(ids(&found), ["KP072"], "{found}");
    let finding = &found["findings"][0];
    assert_eq!(finding["message"], "nginx (pid 812) listens on port 10250 of 0.0.0.0");
    assert_eq!((&finding["file"], &finding["line"]), (&"/etc/k.yaml".into(), &5.into()));
    assert_eq!(ids(&of(812, "nginx", &format!("{GOOD}port: 10350\n"))), [""; 0], "another port");
}

#[test]
fn without_a_kubelet_the_network_of_the_first_process_counts() {
    let of = |is_this_system: bool| {
        let node = TempDir::new();
        for (name, text) in [
            ("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", ""),
            ("var/lib/kubelet/config.yaml", GOOD),
            ("etc/os-release", "ID=debian\n"),
            ("proc/1/net/tcp", &listening(10250, 4001)),
        ] {
            let path = node.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let runtime = FakeRuntime::start_as(RuntimeKind::Crio, Node::new());
        fs::create_dir_all(node.path().join("run/containerd")).unwrap();
        fs::hard_link(runtime.socket(), node.path().join("run/containerd/containerd.sock")).unwrap();
        for (process, name_space) in
            [("1", "uts:[1]"), ("self", if is_this_system { "uts:[1]" } else { "uts:[2]" })]
        {
            fs::create_dir_all(node.path().join(format!("proc/{process}/ns"))).unwrap();
            symlink(name_space, node.path().join(format!("proc/{process}/ns/uts"))).unwrap();
        }
        add_owner(node.path(), 90, "nginx", 4001);
        report(&on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]))
    };
    assert_eq!(ids(&of(true)), ["KP072"]);
    // A container has its own network and its own processes.
    let found = of(false);
    assert_eq!(ids(&found), [""; 0], "{found}");
    assert!(found["notChecked"].to_string().contains("ports"), "{found}");
}

#[test]
fn a_lock_file_of_another_process_and_an_address_of_another_node_are_findings() {
    let own = "            |-- 10.0.0.4\n              /32 host LOCAL\n";
    let of = |address: &str, holder: u32| {
        let command =
            format!("/usr/bin/kubelet --config=/etc/k.yaml --lock-file=/run/k.lock --node-ip={address}");
        let node = node(
            &command,
            "cgroup2",
            &[
                ("etc/k.yaml", GOOD),
                ("etc/os-release", "ID=debian\n"),
                ("run/k.lock", ""),
                ("proc/77/net/fib_trie", own),
                ("proc/77/net/tcp", ""),
            ],
        );
        let about = fs::metadata(node.path().join("run/k.lock")).unwrap();
        let device = about.dev();
        // The kernel's encoding of a device number in user space.
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
        let line =
            format!("1: POSIX  ADVISORY  WRITE {holder} {major:02x}:{minor:02x}:{} 0 EOF\n", about.ino());
        fs::write(node.path().join("proc/locks"), line).unwrap();
        report(&on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json", "--ignore", "KP003"]))
    };
    assert_eq!(ids(&of("10.0.0.4", 77)), [""; 0]);
    let found = of("10.0.0.5", 41);
    assert_eq!(ids(&found), ["KP073", "KP075"], "{found}");
    assert_eq!(found["findings"][0]["field"], "--node-ip");
    let waits = &found["findings"][1]["kubeletReason"];
    assert_eq!(waits, "\"Acquiring file lock\" path=\"/run/k.lock\"");
}

#[test]
fn a_cgroup_for_reservations_must_exist_where_it_is_enforced() {
    let text =
        format!("{GOOD}kubeReservedCgroup: /kube-reserved\nenforceNodeAllocatable: [pods, kube-reserved]\n");
    let of = |cgroup: &str| {
        let existing = format!("sys/fs/cgroup/{cgroup}/cgroup.procs");
        let files =
            [("etc/k.yaml", text.as_str()), ("etc/os-release", "ID=debian\n"), (existing.as_str(), "")];
        let node = node("/usr/bin/kubelet --config=/etc/k.yaml", "cgroup2", &files);
        report(&on_node(node.path(), &["--kubelet-version", "1.36", "-o", "json"]))
    };
    assert_eq!(ids(&of("kube.slice/kube-reserved.slice")), [""; 0]);
    assert_eq!(ids(&of("kube-reserved")), [""; 0]);
    let found = of("system.slice");
    assert_eq!(ids(&found), ["KP042"], "{found}");
    assert_eq!(found["findings"][0]["line"], 5);
}

#[test]
fn output_file_writes_the_findings_too() {
    let folder = TempDir::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let sarif = format!("sarif={}", path("found.sarif"));
    let fixed = ["preflight", "--config", "docs/examples/kubelet-config.yaml", "--kubelet-version", "1.36"];
    let output = plegctl(&[&fixed[..], &["--output-file", &sarif]].concat());
    assert_eq!(output.code, Some(1), "{output}");
    let read = |name: &str| -> Value { serde_json::from_slice(&fs::read(path(name)).unwrap()).unwrap() };
    assert_eq!(read("found.sarif")["version"], "2.1.0");
    let unknown = plegctl(&[&fixed[..], &["--output-file", "html=x"]].concat());
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("there is no format html; there are table, json"), "{unknown}");
}
