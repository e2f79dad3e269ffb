//! Tests of the explanations why a runtime serves no CRI (D06) and why no kubelet runs (D32), and of the finding about
//! certificates that are not valid (D36).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::kubelet::journal;
use super::node::{FakeNode, FakeProcess, find};
use super::scripted::{Behaviour, Scripted};
use super::travels::judge;
use crate::clock::Wall;
use crate::cri::{Error, Rpc};
use crate::diagnosis::judge::not_ready::NotReady;
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Severity, Verdict};

const CONFIG: &str = "etc/containerd/config.toml";

fn without_cri() -> Scripted {
    let why = Error::Unimplemented {
        rpc: Rpc::Version,
        message: "unknown service runtime.v1.RuntimeService".to_owned(),
    };
    Scripted::with_pods(1).on(Rpc::Version, Behaviour::Fails(why))
}

fn refused() -> Scripted {
    let why = Error::Refused { endpoint: "unix:///run/containerd/containerd.sock".to_owned() };
    Scripted::with_pods(1).on(Rpc::Version, Behaviour::Fails(why))
}

/// Returns a node whose daemon started just now, after its configuration was written.
fn node_with(name: &str, config: &str) -> FakeNode {
    let node = FakeNode::new(name).with_pods(1).listening();
    node.file(CONFIG, config);
    node.process(&FakeProcess {
        pid: 200,
        comm: "containerd",
        age: 0,
        command: &["containerd"],
        cgroup: "/system.slice/containerd.service",
        ..FakeProcess::default()
    });
    node
}

fn d06(report: &HealthReport) -> &HealthFinding {
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(
        (primary.id, primary.confidence),
        (RuleId::UnreachableRuntime, Confidence::Certain),
        "{report:#?}"
    );
    primary
}

fn has(found: &HealthFinding, part: &str) -> bool {
    found.evidence.iter().any(|line| line.contains(part))
        || found.steps.iter().any(|step| step.to_string().contains(part))
}

#[tokio::test(start_paused = true)]
async fn a_disabled_cri_plugin_is_named_with_its_line() {
    let node = node_with("cri-off", "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n");
    let report = node.diagnose(without_cri()).await;
    let found = d06(&report);
    assert!(found.title.contains("disabled_plugins has its CRI plugin"), "{}", found.title);
    assert!(has(found, "likely: /etc/containerd/config.toml:2:21: "), "{found:#?}");
    assert!(has(found, "then restart containerd (changes state)"), "{found:#?}");
    assert_eq!(report.verdict, Verdict::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_the_daemon_has_not_read_is_no_cause() {
    let node = FakeNode::new("cri-newer").with_pods(1).listening();
    node.file(CONFIG, "disabled_plugins = [\"cri\"]\n");
    let report = node.diagnose(without_cri()).await;
    let found = d06(&report);
    assert!(!found.title.contains("disabled_plugins"), "{}", found.title);
    assert!(has(found, "the daemon that runs has not read this"), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn inotify_instances_are_a_likely_cause_only_if_all_are_used() {
    let node = node_with("cri-inotify", "version = 2\n");
    node.file("proc/100/status", "Name:\tkubelet\nUid:\t0\t0\t0\t0\nNSpid:\t100\n");
    for number in 3..5 {
        symlink("anon_inode:inotify", node.root.join(format!("proc/100/fd/{number}"))).unwrap();
    }
    let limit = |limit: &str| node.file("proc/sys/fs/inotify/max_user_instances", limit);
    limit("2\n");
    let report = node.diagnose(without_cri()).await;
    let found = d06(&report);
    assert!(found.title.contains("inotify instances are used up"), "{}", found.title);
    assert!(has(found, "root uses 2 of 2 inotify instances; kubelet[100] has 2"), "{found:#?}");
    assert!(has(found, "sysctl -w fs.inotify.max_user_instances"), "{found:#?}");
    limit("3\n");
    let report = node.diagnose(without_cri()).await;
    assert!(!d06(&report).title.contains("inotify"), "{report:#?}");
    assert!(has(d06(&report), "containerd before 1.6"), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn containerds_logged_error_counts_more_than_its_configuration_file() {
    let node = node_with("cri-words", "disabled_plugins = [\"cri\"]\n");
    let mut evidence = node.gathered(without_cri()).await;
    let words = "containerd[200]: time=\"2026-11-23T18:03:51Z\" level=warning msg=\"failed to load plugin \
        io.containerd.grpc.v1.cri\" error=\"failed to create CRI service: failed to create cni conf monitor for default: \
        failed to create fsnotify watcher: too many open files\"";
    evidence.journal = Some(journal(&[words]));
    let found = judge(&evidence).primary.unwrap();
    assert!(found.title.contains("root's inotify instances were used up"), "{found:#?}");
    assert!(has(&found, "failed to create fsnotify watcher: too many open files"), "{found:#?}");
    let old = "containerd[200]: time=\"2026-11-23T18:03:51Z\" level=info msg=\"starting containerd\" version=1.5.11";
    evidence.journal = Some(journal(&[old]));
    let found = judge(&evidence).primary.unwrap();
    assert_eq!(found.title, "containerd 1.5.11 serves only an older CRI, not CRI v1");
    let refusal = "containerd[200]: time=\"2026-11-23T18:02:22Z\" level=warning msg=\"failed to load plugin \
        io.containerd.grpc.v1.cri\" error=\"invalid plugin config: `mirrors` cannot be set when `config_path` is provided\"";
    evidence.journal = Some(journal(&[refusal]));
    let found = judge(&evidence).primary.unwrap();
    assert!(found.title.contains("its CRI plugin refuses its settings"), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_containerd_cannot_read_explains_why_nothing_listens() {
    let node = FakeNode::new("cri-broken").with_pods(1);
    fs::remove_dir_all(node.proc().join("200")).unwrap();
    node.file(CONFIG, "version = 2\n[plugins\n");
    let mut inputs = super::scripted::inputs(refused());
    inputs.proc = Some(node.proc());
    inputs.host_root.clone_from(&node.root);
    inputs.socket = Some("/run/containerd/containerd.sock".into());
    let mut evidence = crate::diagnosis::gather(&inputs, &|_| ()).await;
    let report = judge(&evidence);
    let found = d06(&report);
    assert!(found.title.contains("containerd cannot read its configuration"), "{}", found.title);
    assert!(has(found, "likely: /etc/containerd/config.toml:2:"), "{found:#?}");
    assert_eq!(
        found
            .steps
            .iter()
            .map(ToString::to_string)
            .filter(|line| line.contains(" status containerd"))
            .count(),
        1
    );

    // With a correct file, the error that containerd logged counts.
    node.file(CONFIG, "version = 2\n");
    evidence.runtime_start = crate::diagnosis::runtime_start::RuntimeStart::default();
    assert!(d06(&judge(&evidence)).title == "nothing listens on the runtime's socket");
    let words = "containerd[9]: containerd: failed to load TOML: /etc/c.toml: (13, 2): unexpected token unclosed table key";
    evidence.journal = Some(journal(&[words]));
    let report = judge(&evidence);
    assert!(has(d06(&report), "containerd does not start: /etc/c.toml: (13, 2)"), "{report:#?}");
}

/// Returns a node on which kubeadm has set up a kubelet that does not run.
fn without_kubelet(name: &str) -> FakeNode {
    let node = FakeNode::new(name).with_pods(3).listening();
    fs::remove_dir_all(node.proc().join("100")).unwrap();
    node.file("var/lib/kubelet/config.yaml", KUBELET);
    node.file("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", "");
    node
}

const KUBELET: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n";

const FAILS: &str = "E1122 18:00:00.1 7 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: Foo\"";

#[tokio::test(start_paused = true)]
async fn a_missing_kubelet_is_explained_by_its_last_message() {
    let node = without_kubelet("exits");
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let lines = [format!("kubelet[700]: {FAILS}"), format!("kubelet[701]: {FAILS}")];
    evidence.journal = Some(journal(&[&lines[0], &lines[1]]));
    let report = judge(&evidence);
    let found = find(&report, RuleId::KubeletDown).unwrap();
    assert_eq!(found.title, "no kubelet runs on this node: it does not know a feature gate: Foo");
    assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
    assert!(has(found, "its last message: failed to set feature gates"), "{found:#?}");
    assert!(has(found, "2 processes in a row") && has(found, "plegctl explain KP010"), "{found:#?}");
    assert_eq!(report.verdict, Verdict::Unhealthy);
    // The prediction does not move while the kubelet is started again and again.
    assert_eq!(
        report.not_ready(),
        Some(NotReady::AtLatest(Wall::from_nanos(0).plus(Duration::from_secs(1055))))
    );

    // The last process started and then ended without a reason: it was stopped on purpose.
    let started = "kubelet[702]: I1122 server.go:1] \"Started kubelet\" hostname=\"n1\"";
    evidence.journal = Some(journal(&[&lines[0], started]));
    evidence.kubelet.start_error = None;
    let report = judge(&evidence);
    assert_eq!(find(&report, RuleId::KubeletDown).unwrap().title, "no kubelet runs on this node");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_was_just_started_again_is_explained_too() {
    let node = FakeNode::new("loops").with_pods(3).listening();
    let young = |age: u64| {
        node.process(&FakeProcess {
            pid: 100,
            comm: "kubelet",
            age,
            command: &["kubelet"],
            ..FakeProcess::default()
        });
    };
    let lines = [format!("kubelet[98]: {FAILS}"), format!("kubelet[99]: {FAILS}")];
    let lines = [lines[0].as_str(), lines[1].as_str()];
    young(2);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    evidence.journal = Some(journal(&lines));
    let report = judge(&evidence);
    let found = find(&report, RuleId::KubeletDown).unwrap();
    assert_eq!(found.title, "the kubelet keeps exiting: it does not know a feature gate: Foo");
    // If the kubelet has started, or has run for some minutes, it works again.
    let started = "kubelet[100]: I1122 server.go:1] \"Started kubelet\" hostname=\"n1\"";
    evidence.journal = Some(journal(&[lines[0], lines[1], started]));
    assert!(find(&judge(&evidence), RuleId::KubeletDown).is_none());
    young(600);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    evidence.journal = Some(journal(&lines));
    assert!(find(&judge(&evidence), RuleId::KubeletDown).is_none());
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_the_first_preflight_error_of_all_releases_is_the_reason() {
    let node = without_kubelet("preflight");
    node.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&report, RuleId::KubeletDown).unwrap();
    assert!(found.title.starts_with("no kubelet runs on this node, and it would not start: "), "{found:#?}");
    assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Likely));

    // A gate that only some releases refuse is not the reason if the release is not known.
    let node = without_kubelet("preflight-gate");
    let gate = format!("{KUBELET}failSwapOn: false\nfeatureGates: {{APIListChunking: true}}\n");
    node.file("var/lib/kubelet/config.yaml", &gate);
    let socket = node.root.join("run/containerd");
    fs::create_dir_all(&socket).unwrap();
    drop(std::os::unix::net::UnixListener::bind(socket.join("containerd.sock")).unwrap());
    let evidence = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(evidence.kubelet.start_error, None);
    let gate = gate.replace("APIListChunking", "NoSuchGateEver");
    node.file("var/lib/kubelet/config.yaml", &gate);
    let evidence = node.gathered(Scripted::with_pods(3)).await;
    // For 1.37 plegctl does not know all gates, so an unknown gate is not an error of all releases.
    assert_eq!(evidence.kubelet.start_error, None);
    node.file("var/lib/kubelet/config.yaml", &format!("{KUBELET}failSwapOn: false\nmaxPods: -1\n"));
    let evidence = node.gathered(Scripted::with_pods(3)).await;
    let error = evidence.kubelet.start_error.unwrap();
    assert_eq!((error.id.id(), error.line), ("KP030", Some(5)));
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_has_expired_is_a_finding_with_its_date() {
    let pki = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fleet/pki");
    let pem = |names: &[&str]| {
        names.iter().map(|name| fs::read_to_string(pki.join(name)).unwrap()).collect::<String>()
    };
    let kubeconfig = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
        users:\n- name: u\n  user: {client-certificate: pki/c.pem, client-key: pki/c.pem}\n";
    let node = FakeNode::new("certificate").with_pods(3).listening();
    let command = ["kubelet", "--kubeconfig=/etc/kubelet.conf"];
    node.process(&FakeProcess { pid: 100, comm: "kubelet", command: &command, ..FakeProcess::default() });
    node.file("etc/kubelet.conf", kubeconfig);
    node.file("etc/pki/c.pem", &pem(&["expired.crt", "expired.key"]));
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&report, RuleId::InvalidCertificate).unwrap();
    assert!(found.title.starts_with("the kubelet's client certificate expired on 20"), "{}", found.title);
    assert_eq!((found.severity, found.confidence), (Severity::Warning, Confidence::Likely));
    assert!(has(found, "it is in /etc/pki/c.pem") && has(found, "plegctl explain KP060"), "{found:#?}");
    assert_eq!(report.verdict, Verdict::Degraded, "PLEG is healthy");

    node.file("etc/pki/c.pem", &pem(&["client.crt", "client.key"]));
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert!(find(&report, RuleId::InvalidCertificate).is_none(), "{report:#?}");
    assert_eq!(report.verdict, Verdict::Healthy);
}
