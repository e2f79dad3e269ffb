//! Tests of what keeps a pod from starting. They write the node's `/proc`; the runtime is in memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::node::{FakeNode, FakeProcess, hung};
use super::pod_holders::{SERVER, deleted, ended, holders, node_after_the_end, path_of, pod, why};
use super::scripted::{Behaviour, Scripted, container_id, id};
use super::travels::judge;
use crate::clock::Wall;
use crate::cri::{Code, ContainerState, Error, Rpc};
use crate::diagnosis::gather;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::pod_holders::report::{HolderKind, PodHold, PodWhy};
use crate::diagnosis::pod_holders::{self, Deletion, PodFacts, PodStatus};
use crate::report::Confidence;

/// The facts of pod 1, which the kubelet accepted this many seconds ago and whose status has this phase and these containers.
fn wanted(seconds: u64, phase: &str, containers: Value) -> impl Fn(Wall) -> PodFacts {
    let phase = phase.to_owned();
    move |now| {
        let since = now.minus(Duration::from_secs(seconds));
        let status = json!({"phase": phase, "startTime": since, "containerStatuses": containers});
        let status = PodStatus::of(&status, "the kubelet");
        PodFacts { pod: pod(), deletion: Deletion::NotRequested, status, ..PodFacts::default() }
    }
}

/// The status of the container `app`, which waits.
fn waiting(reason: &str, message: &str) -> Value {
    json!([{"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}])
}

/// A runtime without a sandbox of pod 1.
fn without_sandbox() -> Scripted {
    let mut script = Scripted::with_pods(3);
    script.sandboxes.remove(1);
    script.containers.remove(1);
    script
}

/// A runtime in which pod 1 has a sandbox and no container.
fn without_container() -> Scripted {
    let mut script = Scripted::with_pods(3);
    script.containers.remove(1);
    script
}

#[tokio::test(start_paused = true)]
async fn a_network_plugin_that_hangs_for_the_pod_is_named_in_both_directions() {
    let node = node_after_the_end("starts-cni");
    node.file("opt/cni/bin/calico", "");
    // `health` names the pod of the first plugin.
    for (pid, name) in [(4001, "web-0"), (4002, "web-1")] {
        node.process(&FakeProcess { pid, parent: 200, comm: "calico", age: 90, ..FakeProcess::default() });
        let sandbox = id(pid as usize, 'd');
        let text =
            format!("CNI_CONTAINERID={sandbox}\0CNI_ARGS=K8S_POD_NAMESPACE=default;K8S_POD_NAME={name}\0");
        node.file(&format!("proc/{pid}/environ"), &text);
    }
    let creating = || waiting("ContainerCreating", "");
    let starts = why(&node, without_sandbox(), wanted(44 * 60, "Pending", creating())).await;
    assert_eq!(holders(&starts), [(HolderKind::Network, Confidence::Likely)], "{starts:#?}");
    assert_eq!(starts.state, PodHold::NotStarting);
    assert_eq!(
        starts.summary,
        "default/web-1 does not start since 44m: the network plugin calico[4002] has not finished for 90.0 s"
    );
    let facts = |deletion| move |_: Wall| PodFacts { pod: pod(), deletion, ..PodFacts::default() };
    let unknown = why(&node, without_sandbox(), facts(Deletion::Unknown)).await;
    assert_eq!(unknown.state, PodHold::Held, "no source says what the pod should do: {unknown:#?}");
    assert!(unknown.summary.contains("calico[4002]"), "{}", unknown.summary);
    let ends = why(&node, without_sandbox(), deleted(600)).await;
    assert_eq!((ends.state, holders(&ends)[0]), (PodHold::Held, (HolderKind::Network, Confidence::Likely)));

    let first = |now| PodFacts {
        pod: crate::report::PodRef { uid: "uid-0".into(), namespace: "default".into(), name: "web-0".into() },
        ..wanted(600, "Pending", creating())(now)
    };
    let first = why(&node, without_sandbox(), first).await;
    assert_eq!(
        first.holders[0].title, "the network plugin calico[4001] of default/web-0 hangs",
        "{first:#?}"
    );
    assert_eq!(first.holders.len(), 1, "the finding of health and the process are the same: {first:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_finding_of_health_about_the_pod_is_named_whatever_the_pod_should_do() {
    let node = FakeNode::new("starts-finding").with_pods(3);
    node.process(&FakeProcess { pid: 1001, comm: "containerd-shim", state: 'T', ..FakeProcess::default() });
    let script = || hung(3, 1).on(Rpc::ListContainers, Behaviour::Hangs);
    let gone = |_: Wall| PodFacts { pod: pod(), deletion: Deletion::Gone, ..PodFacts::default() };
    let of_health = judge(&gather(&node.inputs(script()), &|_| ()).await);
    let own = |title: &str| {
        let findings = of_health.findings.iter().filter(|finding| finding.ids.contains(&container_id(1)));
        let titles: Vec<&str> = findings.map(|finding| finding.title.as_str()).collect();
        assert!(titles.len() >= 2, "{of_health:#?}");
        titles.contains(&title)
    };
    for found in [
        why(&node, script(), wanted(3600, "Running", json!([]))).await,
        why(&node, script(), wanted(3600, "Pending", json!([]))).await,
        why(&node, script(), deleted(600)).await,
        why(&node, script(), gone).await,
    ] {
        let named = found.holders.iter().filter(|holder| own(&holder.title)).count();
        assert_eq!(named, 2, "the list that waits for the container, and its stopped shim: {found:#?}");
        assert!(matches!(found.state, PodHold::Held | PodHold::NotStarting), "{found:#?}");
    }
    let slow = Scripted::with_pods(3).on_id(container_id(1), Behaviour::After(Duration::from_secs(4)));
    let slow =
        why(&FakeNode::new("starts-slow").with_pods(3), slow, wanted(3600, "Running", json!([]))).await;
    assert_eq!(slow.state, PodHold::NotDeleted, "{slow:#?}");
    assert!(slow.holders.iter().any(|holder| holder.kind == HolderKind::Runtime), "a slow call: {slow:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_of_a_pod_while_the_runtime_does_not_list_its_containers() {
    let node = FakeNode::new("starts-silent").with_pods(3);
    let running = || wanted(3600, "Running", json!([]));
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
    let silent =
        lists.into_iter().fold(Scripted::with_pods(3), |script, rpc| script.on(rpc, Behaviour::Hangs));
    let held = why(&node, silent.on(Rpc::Version, Behaviour::Hangs), running()).await;
    let begin = "nothing is known of default/web-1, and nothing starts or ends it: the runtime accepts";
    assert!(held.state == PodHold::Held && held.summary.starts_with(begin), "{held:#?}");
    let step = held.holders[0].steps[0].command.as_deref();
    assert_eq!(step, Some("plegctl health"));
    let starting =
        Error::Runtime { rpc: Rpc::ListContainers, code: Code::Unavailable, message: "starting".into() };
    let script = Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::Fails(starting));
    let unknown = why(&node, script, running()).await;
    let why_unknown = "nothing is known of default/web-1; the runtime does not list its containers: plegctl health shows why";
    assert_eq!((unknown.state, unknown.summary.as_str()), (PodHold::Unknown, why_unknown), "{unknown:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_own_words_say_why_a_container_does_not_start() {
    let node = node_after_the_end("starts-image");
    let back_off = || waiting("ImagePullBackOff", "Back-off pulling image \"shop/web:9\"");
    let found = why(&node, without_container(), wanted(44 * 60, "Pending", back_off())).await;
    assert_eq!(holders(&found), [(HolderKind::Status, Confidence::Certain)], "{found:#?}");
    assert_eq!(found.state, PodHold::NotStarting);
    assert_eq!(
        found.summary,
        "default/web-1 does not start since 44m: container app waits: ImagePullBackOff: Back-off pulling image \"shop/web:9\""
    );
    let young = why(&node, without_container(), wanted(12, "Pending", back_off())).await;
    assert_eq!(young.state, PodHold::Starting, "{young:#?}");
    assert!(young.summary.starts_with("default/web-1 starts since 12s: "), "{}", young.summary);
    // A call to the runtime that fails is an effect, so what the node shows comes first.
    let mut script = without_container();
    script.conditions[1].holds = false;
    let create = || waiting("CreateContainerError", "context deadline exceeded");
    let found = why(&node, script, wanted(600, "Pending", create())).await;
    let expected = [(HolderKind::Network, Confidence::Certain), (HolderKind::Status, Confidence::Likely)];
    assert_eq!(holders(&found), expected, "{found:#?}");
    // One of two containers waits.
    let crash = json!([{"name": "app", "state": {"running": {}}},
        {"name": "proxy", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}}]);
    let node = FakeNode::new("starts-crash").with_pods(3);
    let part = why(&node, Scripted::with_pods(3), wanted(600, "Running", crash)).await;
    assert_eq!(part.state, PodHold::NotStarting);
    assert_eq!(
        part.summary,
        "default/web-1 runs only in part, 1 container of it: container proxy waits: CrashLoopBackOff: back-off 5m0s"
    );
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_last_error_about_the_pod_is_taken_from_its_journal() {
    let node = node_after_the_end("starts-journal");
    let inputs = node.inputs(without_sandbox());
    let mut evidence = gather(&inputs, &|_| ()).await;
    // As kubelet 1.36 logs a volume whose ConfigMap does not exist.
    let lines = "1700000000.1 n1 kubelet[77]: E1126 14:00:00.100000      77 nestedpendingoperations.go:348] Operation for \
        \"{volumeName:kubernetes.io/configmap/uid-1-config podName:uid-1 nodeName:}\" failed. No retries permitted until \
        2026-11-26 14:00:00.6 +0000 UTC (durationBeforeRetry 500ms). Error: MountVolume.SetUp failed for volume \"config\" \
        (UniqueName: \"kubernetes.io/configmap/uid-1-config\") pod \"web-1\" (UID: \"uid-1\") : configmap \"missing\" not found\n\
        1700000001.1 n1 kubelet[77]: E1126 14:02:00.100000      77 pod_workers.go:1324] \"Error syncing pod, skipping\" \
        err=\"unmounted volumes=[config], unattached volumes=[], failed to process volumes=[]: context deadline exceeded\" \
        pod=\"default/web-1\" podUID=\"uid-1\"";
    evidence.journal = Some(Journal::of(lines));
    let now = inputs.clock.wall();
    let of_pod = |uid: &str| {
        let mut facts = wanted(600, "Pending", waiting("ContainerCreating", ""))(now);
        facts.pod.uid = uid.to_owned();
        facts
    };
    let found = |facts: PodFacts, look| -> PodWhy {
        pod_holders::judge(&evidence, &judge(&evidence), &facts, &look, now)
    };
    let facts = of_pod("uid-1");
    let look = pod_holders::look(&inputs, &evidence, &facts).await;
    let own = found(facts, look);
    assert_eq!(holders(&own), [(HolderKind::Status, Confidence::Likely)], "{own:#?}");
    assert!(own.holders[0].evidence[0].ends_with("configmap \"missing\" not found"), "{own:#?}");
    let mut other = of_pod("uid-9");
    other.pod.name = "web-9".to_owned();
    let look = pod_holders::look(&inputs, &evidence, &other).await;
    let other = found(other, look);
    assert_eq!(holders(&other), [(HolderKind::Stage, Confidence::Possible)], "{other:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_does_not_return_is_named_with_its_server() {
    let node = node_after_the_end("starts-mount");
    let mount = |age, path: &str| {
        let command = ["mount.nfs", SERVER, path, "-o", "rw,vers=4.2"];
        let process =
            FakeProcess { pid: 2400, parent: 100, comm: "mount.nfs", age, ..FakeProcess::default() };
        node.process(&FakeProcess { command: &command, ..process });
        node.file("proc/2400/status", "Uid:\t0\t0\t0\t0\n");
    };
    let pending = || wanted(600, "Pending", waiting("ContainerCreating", ""));
    let path = path_of("uid-1", "pvc-1");
    mount(300, &path);
    let found = why(&node, without_sandbox(), pending()).await;
    assert_eq!(holders(&found), [(HolderKind::Mount, Confidence::Likely)], "{found:#?}");
    assert_eq!(
        found.summary,
        "default/web-1 does not start since 10m: mount of 10.1.2.3:/export by kubelet[100] does not return"
    );
    assert_eq!(found.holders[0].path.as_deref(), Some(path.as_str()));
    mount(300, &path_of("uid-2", "pvc-1"));
    let other = why(&node, without_sandbox(), pending()).await;
    assert_eq!(holders(&other), [(HolderKind::Stage, Confidence::Possible)], "{other:#?}");
    mount(4, &path);
    let young = why(&node, without_sandbox(), pending()).await;
    assert_eq!(holders(&young), [(HolderKind::Stage, Confidence::Possible)], "{young:#?}");
    // A CSI driver mounts a volume below its own directory first, perhaps for another pod.
    mount(300, "/var/lib/kubelet/plugins/kubernetes.io/csi/nfs.csi.k8s.io/1f/globalmount");
    let spec = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let shared = why(&node, without_sandbox(), |now| pending()(now).with_spec(&spec)).await;
    assert_eq!(holders(&shared)[0], (HolderKind::Mount, Confidence::Possible), "{shared:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_or_has_ended_is_held_by_nothing() {
    let node = FakeNode::new("starts-runs").with_pods(3);
    let runs = why(&node, Scripted::with_pods(3), wanted(600, "Running", json!([]))).await;
    assert_eq!((runs.state, holders(&runs)), (PodHold::NotDeleted, Vec::new()), "{runs:#?}");
    assert_eq!(runs.summary, "default/web-1 is not being deleted: it has no deletion timestamp");
    let done = why(&node, without_sandbox(), wanted(600, "Succeeded", json!([]))).await;
    assert_eq!((done.state, holders(&done)), (PodHold::NotDeleted, Vec::new()), "{done:#?}");
    assert!(done.summary.starts_with("default/web-1 has ended (Succeeded) and is not"), "{}", done.summary);
    // Without a status, the containers and the restart policy decide.
    let policy = |policy: &str| {
        let spec = json!({"restartPolicy": policy});
        move |_: Wall| {
            let facts = PodFacts { pod: pod(), deletion: Deletion::NotRequested, ..PodFacts::default() };
            facts.with_spec(&spec)
        }
    };
    let node = node_after_the_end("starts-once");
    assert_eq!(why(&node, ended(), policy("Never")).await.state, PodHold::NotDeleted);
    assert_eq!(why(&node, ended(), policy("Always")).await.state, PodHold::NotStarting);
}

#[tokio::test(start_paused = true)]
async fn without_a_reason_the_answer_is_how_far_the_pod_has_come() {
    let node = node_after_the_end("starts-stage");
    let title = |why: PodWhy| {
        assert_eq!(why.state, PodHold::NotStarting, "{why:#?}");
        assert!(why.holders[0].steps[0].to_string().contains("-u kubelet"), "{why:#?}");
        why.holders[0].title.clone()
    };
    let pending = || wanted(600, "Pending", waiting("ContainerCreating", ""));
    let waits = title(why(&node, without_sandbox(), pending()).await);
    assert!(waits.starts_with("the runtime has no running sandbox of it"), "{waits}");
    let sandbox = title(why(&node, without_container(), pending()).await);
    assert!(sandbox.starts_with("its sandbox runs, and it has no container"), "{sandbox}");
    let mut script = Scripted::with_pods(3);
    script.containers[1].state = ContainerState::Created;
    let created = title(why(&node, script, pending()).await);
    assert_eq!(created, "its sandbox runs, and none of its containers does");
    let deaf = |now| PodFacts { is_unknown_to_kubelet: true, ..pending()(now) };
    let deaf = why(&node, without_sandbox(), deaf).await;
    assert_eq!(holders(&deaf), [(HolderKind::Kubelet, Confidence::Likely)], "{deaf:#?}");
}
