//! Tests of D38, shims whose sandbox is in no list, and of D40, processes that are too large.

use std::os::unix::fs::symlink;

use super::node::{FakeNode, FakeProcess, find, listening_socket};
use super::scripted::{Behaviour, Scripted, container_id, sandbox_id};
use super::travels::judge;
use crate::cri::{Code, Error, Rpc};
use crate::diagnosis::report::{Confidence, HealthReport, RuleId, Severity, Verdict};

/// The sandbox of a shim that no list has.
const GONE: usize = 77;

/// Returns a node whose daemon listens on its socket, so that the command lines of shims are read only if needed.
fn node(name: &str) -> FakeNode {
    FakeNode::new(name).with_pods(3).listening()
}

/// Adds a shim of a sandbox, with its bundle as the working directory.
fn shim(node: &FakeNode, pid: u32, age: u64, sandbox: &str, bundle: &str) {
    let address = listening_socket();
    let command = ["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", sandbox, "-address", address];
    shim_with(node, pid, age, &command, bundle);
}

fn shim_with(node: &FakeNode, pid: u32, age: u64, command: &[&str], bundle: &str) {
    node.process(&FakeProcess {
        pid,
        comm: "containerd-shim",
        age,
        command,
        cgroup: "/system.slice/containerd.service",
        ..FakeProcess::default()
    });
    if !bundle.is_empty() {
        symlink(bundle, node.proc().join(format!("{pid}/cwd"))).unwrap();
    }
}

fn bundle_of(id: &str) -> String {
    format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}")
}

fn bundle_below_root(id: &str) -> String {
    bundle_of(id).trim_start_matches('/').to_owned()
}

fn deleted(id: &str) -> String {
    bundle_of(id) + " (deleted)"
}

/// Returns the confidence, and the evidence in one text.
fn left_over(report: &HealthReport) -> Option<(Confidence, String)> {
    let found = find(report, RuleId::LeftOverShims)?;
    Some((found.confidence, found.evidence.join("\n")))
}

#[tokio::test(start_paused = true)]
async fn a_shim_without_a_listed_sandbox_is_likely_left_over_and_does_not_change_the_verdict() {
    let node = node("left-over");
    let id = sandbox_id(GONE);
    shim(&node, 1900, 7200, &id, &deleted(&id));
    node.process(&FakeProcess {
        pid: 1901,
        parent: 1900,
        cgroup: &format!("/kubepods/burstable/podu-77/{}", container_id(GONE)),
        ..FakeProcess::default()
    });
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&report, RuleId::LeftOverShims).unwrap();
    assert_eq!((report.verdict, found.severity), (Verdict::Healthy, Severity::Info), "{report:#?}");
    assert_eq!(found.title, "containerd-shim[1900] of a pod that is gone still runs");
    assert_eq!(found.ids, std::slice::from_ref(&id));
    let (confidence, evidence) = left_over(&report).unwrap();
    assert_eq!(confidence, Confidence::Likely);
    let described = format!("containerd-shim[1900] of pod u-77, sandbox {}: 120m old", &id[..12]);
    assert!(evidence.contains(&described), "{evidence}");
    assert!(evidence.contains("below it runs 1 process; its bundle is deleted"), "{evidence}");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_names_the_pod_and_a_bundle_of_another_client_is_no_finding() {
    let node = node("bundles");
    let (of_pod, of_other) = (sandbox_id(GONE), sandbox_id(GONE + 1));
    shim(&node, 1900, 7200, &of_pod, &bundle_of(&of_pod));
    shim(&node, 1901, 7200, &of_other, &bundle_of(&of_other));
    node.file(
        &format!("{}/config.json", bundle_below_root(&of_pod)),
        r#"{"annotations": {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-name": "db-0",
            "io.kubernetes.cri.sandbox-namespace": "shop", "io.kubernetes.cri.sandbox-uid": "u-77"}}"#,
    );
    node.file(
        &format!("{}/config.json", bundle_below_root(&of_other)),
        r#"{"annotations": {"nerdctl/name": "x"}}"#,
    );
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&report, RuleId::LeftOverShims).unwrap();
    assert_eq!(found.ids, [of_pod]);
    assert_eq!(found.pod.as_ref().unwrap().to_string(), "shop/db-0");
    assert_eq!(found.confidence, Confidence::Likely);
}

#[tokio::test(start_paused = true)]
async fn shims_that_are_not_left_over_are_no_finding() {
    let node = node("others");
    let (young, creating, moby, elsewhere, action) =
        (sandbox_id(80), sandbox_id(81), sandbox_id(82), sandbox_id(83), sandbox_id(84));
    let socket = listening_socket();
    shim(&node, 1900, 59, &young, &deleted(&young));
    shim(&node, 1901, 600, &creating, &deleted(&creating));
    node.process(&FakeProcess {
        pid: 1999,
        parent: 1901,
        comm: "runc",
        age: 20,
        command: &["runc", "create", "--bundle", "/run/x", &creating],
        ..FakeProcess::default()
    });
    let name = "containerd-shim-runc-v2";
    let of = |pid, words: &[&str], id: &str| shim_with(&node, pid, 600, words, &deleted(id));
    of(1902, &[name, "-namespace", "moby", "-id", &moby, "-address", socket], &moby);
    let other = "/run/other/containerd.sock";
    of(1903, &[name, "-namespace", "k8s.io", "-id", &elsewhere, "-address", other], &elsewhere);
    of(1904, &[name, "-namespace", "k8s.io", "-id", &action, "-address", socket, "delete"], &action);
    // The shim of a listed container has the id of that container.
    let listed = container_id(1);
    shim(&node, 1905, 600, &listed, &deleted(&listed));
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(left_over(&report), None, "{report:#?}");
    assert_eq!(report.verdict, Verdict::Healthy);
}

#[tokio::test(start_paused = true)]
async fn without_both_lists_nothing_is_left_over() {
    let node = node("no-lists");
    let id = sandbox_id(GONE);
    shim(&node, 1900, 7200, &id, &deleted(&id));
    let fails =
        |rpc| Behaviour::Fails(Error::Runtime { rpc, code: Code::Unavailable, message: "starting".into() });
    for (rpc, behaviour) in [
        (Rpc::ListPodSandbox, Behaviour::Hangs),
        (Rpc::ListContainers, Behaviour::Hangs),
        (Rpc::ListContainers, fails(Rpc::ListContainers)),
        (Rpc::ListPodSandbox, fails(Rpc::ListPodSandbox)),
    ] {
        let report = node.diagnose(Scripted::with_pods(3).on(rpc, behaviour)).await;
        assert_eq!(left_over(&report), None, "{report:#?}");
    }
    assert!(left_over(&node.diagnose(Scripted::with_pods(3)).await).is_some());
}

#[tokio::test(start_paused = true)]
async fn one_look_or_an_unknown_bundle_make_it_only_possible_and_a_shim_that_ends_is_no_finding() {
    let node = node("looks");
    let id = sandbox_id(GONE);
    shim(&node, 1900, 7200, &id, "");
    let unknown = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(left_over(&unknown).unwrap().0, Confidence::Possible);
    symlink(deleted(&id), node.proc().join("1900/cwd")).unwrap();
    let mut inputs = node.inputs(Scripted::with_pods(3));
    inputs.budget = std::time::Duration::from_secs(2);
    let once = judge(&crate::diagnosis::gather(&inputs, &|_| ()).await);
    assert_eq!(left_over(&once).unwrap().0, Confidence::Possible);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(left_over(&judge(&evidence)).unwrap().0, Confidence::Likely);
    let (_, second) = evidence.host.as_mut().unwrap().second.as_mut().unwrap();
    second.processes.remove(&1900).unwrap();
    assert_eq!(left_over(&judge(&evidence)), None);
}

#[tokio::test(start_paused = true)]
async fn only_many_left_over_shims_make_the_node_degraded() {
    let node = node("many");
    for number in 0..19 {
        let id = sandbox_id(100 + number);
        shim(&node, 2900 + u32::try_from(number).unwrap(), 7200, &id, &deleted(&id));
    }
    assert_eq!(node.diagnose(Scripted::with_pods(3)).await.verdict, Verdict::Healthy);
    let id = sandbox_id(120);
    shim(&node, 2990, 86_400, &id, &deleted(&id));
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Degraded, "{report:#?}");
    let (_, evidence) = left_over(&report).unwrap();
    assert!(evidence.contains("the oldest was started 24h ago"), "{evidence}");
    assert!(evidence.contains("and 15 more"), "{evidence}");
    assert_eq!(report.primary.unwrap().title, "20 shims of pods that are gone still run");
}

#[tokio::test(start_paused = true)]
async fn a_conmon_of_cri_o_is_left_over_and_one_of_podman_is_not() {
    let node = node("conmon");
    let conmon = |pid, id: &str, name: &str| {
        node.process(&FakeProcess {
            pid,
            comm: "conmon",
            age: 7200,
            command: &["/usr/bin/conmon", "-c", id, "-n", name, "-r", "/usr/bin/runc"],
            ..FakeProcess::default()
        });
    };
    for pod in 0..3 {
        conmon(1800 + u32::try_from(pod).unwrap(), &container_id(pod), "k8s_app_web_default_u_0");
    }
    conmon(1900, &container_id(GONE), "k8s_postgres_db-0_shop_u-77_0");
    conmon(1901, &container_id(GONE + 1), "admiring_hopper");
    let report = node.diagnose(Scripted::with_pods(3).under_crio()).await;
    let found = find(&report, RuleId::LeftOverShims).unwrap();
    assert_eq!(found.title, "conmon[1900] of a container that is gone still runs");
    assert_eq!(found.pod.as_ref().unwrap().to_string(), "shop/db-0");
    assert_eq!((found.confidence, &found.ids), (Confidence::Likely, &vec![container_id(GONE)]));
}

/// Gives a process of the node another size.
fn resize(node: &FakeNode, pid: u32, comm: &str, threads: u64, mebibytes: u64) {
    let pages = mebibytes * 256;
    let stat =
        format!("{pid} ({comm}) S 1 0 0 0 -1 0 0 0 0 0 10 10 0 0 20 0 {threads} 0 1000000 0 {pages}\n");
    node.file(&format!("proc/{pid}/stat"), &stat);
}

#[tokio::test(start_paused = true)]
async fn a_shim_far_larger_than_the_others_is_named_with_its_pod() {
    let node = FakeNode::new("large-shim").with_pods(5).listening();
    resize(&node, 1003, "containerd-shim", 90, 200);
    let report = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!((report.verdict, find(&report, RuleId::LargeDaemon)), (Verdict::Healthy, None));
    for (threads, mebibytes) in [(90, 610), (2000, 12)] {
        resize(&node, 1003, "containerd-shim", threads, mebibytes);
        let report = node.diagnose(Scripted::with_pods(5)).await;
        let found = find(&report, RuleId::LargeDaemon).unwrap_or_else(|| panic!("{report:#?}"));
        let size = format!("{mebibytes} MiB and {threads} threads");
        let title =
            format!("containerd-shim[1003] of default/web-3 is far larger than the other shims: {size}");
        assert_eq!((found.title.as_str(), found.confidence), (title.as_str(), Confidence::Likely));
        assert_eq!((report.verdict, report.primary.unwrap().id), (Verdict::Degraded, RuleId::LargeDaemon));
    }
    // The shim of Kata contains more than a shim.
    let sandbox = sandbox_id(3);
    let kata = ["/usr/bin/containerd-shim-kata-v2", "-id", &sandbox, "-address", listening_socket()];
    node.file("proc/1003/cmdline", &kata.join("\0"));
    let report = node.diagnose(Scripted::with_pods(5)).await;
    assert_eq!(find(&report, RuleId::LargeDaemon), None);
    // Three shims are too few to compare.
    let few = FakeNode::new("few-shims").with_pods(3).listening();
    resize(&few, 1001, "containerd-shim", 90, 610);
    assert_eq!(find(&few.diagnose(Scripted::with_pods(3)).await, RuleId::LargeDaemon), None);
}

#[tokio::test(start_paused = true)]
async fn a_large_runtime_is_likely_leaking_only_with_a_release_that_is_known_to_leak() {
    let node = node("large-runtime");
    resize(&node, 200, "containerd", 40, 3000);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let report = judge(&evidence);
    let found = find(&report, RuleId::LargeDaemon).unwrap_or_else(|| panic!("{report:#?}"));
    assert_eq!((found.confidence, found.severity), (Confidence::Possible, Severity::Info));
    assert_eq!(found.title, "containerd[200] has 3000 MiB of memory after 25h");
    assert_eq!(report.verdict, Verdict::Healthy, "containerd 2.1.9 is not known to leak");
    let version = evidence.runtime.version.as_mut().unwrap().result.as_mut().unwrap();
    version.runtime_version = "1.7.24".into();
    let report = judge(&evidence);
    let found = find(&report, RuleId::LargeDaemon).unwrap();
    assert_eq!((found.confidence, found.severity), (Confidence::Likely, Severity::Info));
    let leak = "containerd 1.7.24 has a known leak: exec probes that leave children behind leak goroutines \
                (CVE-2026-53495; fixed in 1.7.35)";
    assert!(found.evidence.contains(&leak.to_owned()), "{found:#?}");
    // A quarter of the node's 15 GiB.
    resize(&node, 200, "containerd", 40, 4500);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    assert_eq!(judge(&evidence).verdict, Verdict::Healthy, "only possible");
    let version = evidence.runtime.version.as_mut().unwrap().result.as_mut().unwrap();
    version.runtime_version = "1.7.24".into();
    assert_eq!(judge(&evidence).verdict, Verdict::Degraded);
}
