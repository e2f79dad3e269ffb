//! Tests of what holds a pod that is being deleted. They write the node's `/proc`; the runtime is in memory.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::json;

use super::node::{FakeNode, FakeProcess, cgroup_of, hung};
use super::scripted::Scripted;
use super::travels::judge;
use crate::clock::Wall;
use crate::cri::{ContainerState, SandboxState};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::pod_holders::report::{HolderKind, PodHold, PodWhy};
use crate::diagnosis::pod_holders::{self, Deletion, PodFacts};
use crate::diagnosis::{Inputs, gather};
use crate::report::{Confidence, PodRef};

const PODS: &str = "/var/lib/kubelet/pods";
pub(super) const SERVER: &str = "10.1.2.3:/export";

/// A stack of a task that waits for an NFS 4 server (functions of `net/sunrpc/sched.c`, `fs/nfs/inode.c` and
/// `fs/namei.c`).
const NFS_STACK: &str = "[<0>] rpc_wait_bit_killable+0x11/0x70\n[<0>] nfs4_proc_getattr+0x96/0x1c0\n[<0>] \
    __nfs_revalidate_inode+0xcd/0x300\n[<0>] nfs_weak_revalidate+0x4c/0x110\n[<0>] user_path_at+0x3c/0x60\n[<0>] \
    ksys_umount+0x38/0x80\n[<0>] do_syscall_64+0x71/0x280\n";

/// Pod 1 of a script.
pub(super) fn pod() -> PodRef {
    PodRef { uid: "uid-1".into(), namespace: "default".into(), name: "web-1".into() }
}

/// The facts of pod 1, deleted this many seconds ago with a grace period of 30 s.
pub(super) fn deleted(seconds: u64) -> impl Fn(Wall) -> PodFacts {
    move |now| {
        let at = now.minus(Duration::from_secs(seconds)).plus(Duration::from_secs(30));
        PodFacts { pod: pod(), deletion: Deletion::Requested { at, grace: Some(30) }, ..PodFacts::default() }
    }
}

async fn judged(inputs: Inputs<Scripted>, facts: impl Fn(Wall) -> PodFacts) -> PodWhy {
    let evidence = gather(&inputs, &|_| ()).await;
    let now = inputs.clock.wall();
    let facts = facts(now);
    let look = pod_holders::look(&inputs, &evidence, &facts).await;
    pod_holders::judge(&evidence, &judge(&evidence), &facts, &look, now)
}

pub(super) async fn why(node: &FakeNode, script: Scripted, facts: impl Fn(Wall) -> PodFacts) -> PodWhy {
    judged(node.inputs(script), facts).await
}

pub(super) fn holders(why: &PodWhy) -> Vec<(HolderKind, Confidence)> {
    why.holders.iter().map(|holder| (holder.kind, holder.confidence)).collect()
}

/// A runtime in which the containers of pod 1 have ended.
pub(super) fn ended() -> Scripted {
    let mut script = Scripted::with_pods(3);
    script.sandboxes[1].state = SandboxState::NotReady;
    script.containers[1].state = ContainerState::Exited;
    script
}

/// A node in which no process of pod 1 runs.
pub(super) fn node_after_the_end(name: &str) -> FakeNode {
    let node = FakeNode::new(name).with_pods(3);
    for pid in ["1001", "2001"] {
        fs::remove_dir_all(node.proc().join(pid)).unwrap();
    }
    node
}

pub(super) fn path_of(uid: &str, volume: &str) -> String {
    format!("{PODS}/{uid}/volumes/kubernetes.io~csi/{volume}/mount")
}

fn mount(node: &FakeNode, mounts: &[(&str, &str)]) {
    let line = |(number, (target, source)): (usize, &(&str, &str))| {
        format!("{number} 20 0:59 / {target} rw,relatime shared:1 - nfs4 {source} rw,vers=4.2\n")
    };
    node.file("proc/self/mountinfo", &mounts.iter().enumerate().map(line).collect::<String>());
}

/// Adds a task that waits in the kernel in each look.
fn blocked(node: &FakeNode, process: &FakeProcess<'_>, stack: &str) {
    let pid = process.pid;
    node.process(&FakeProcess { state: 'D', wchan: "rpc_wait_bit_killable", ..*process });
    node.file(&format!("proc/{pid}/stack"), stack);
    node.file(&format!("proc/{pid}/status"), "Uid:\t0\t0\t0\t0\n");
    node.file(&format!("proc/{pid}/task/{pid}/stack"), stack);
    let switches = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n";
    node.file(&format!("proc/{pid}/task/{pid}/status"), switches);
}

/// Adds a CSI driver whose umount of `path` waits for the server.
fn hung_umount(node: &FakeNode, path: &str, age: u64) {
    node.process(&FakeProcess { pid: 2231, comm: "csi-nfs", ..FakeProcess::default() });
    let umount = FakeProcess {
        pid: 2290,
        parent: 2231,
        comm: "umount",
        age,
        command: &["umount", path],
        ..FakeProcess::default()
    };
    blocked(node, &umount, NFS_STACK);
}

#[tokio::test(start_paused = true)]
async fn a_finding_about_several_pods_does_not_name_another_one_in_the_headline() {
    let node = FakeNode::new("several-pods").with_pods(3);
    let mut script = Scripted::with_pods(3);
    for container in script.containers.iter_mut().take(2) {
        container.created_at = 0;
    }
    let why = why(&node, script, deleted(60)).await;
    let titles: Vec<&str> = why.holders.iter().map(|holder| holder.title.as_str()).collect();
    assert!(
        titles.contains(&"this pod is one of several: the runtime's state contradicts reality"),
        "{titles:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_umount_that_does_not_return_is_named_with_its_server_and_its_driver() {
    let node = node_after_the_end("why-umount");
    let path = path_of("uid-1", "pvc-1");
    mount(&node, &[(&path, SERVER)]);
    hung_umount(&node, &path, 2600);
    let found = why(&node, ended(), deleted(44 * 60)).await;
    let sentence =
        "default/web-1 terminates since 44m: umount of 10.1.2.3:/export by csi-nfs[2231] does not return";
    assert_eq!(found.summary, sentence, "{found:#?}");
    assert_eq!(
        (found.state, holders(&found)),
        (PodHold::Held, vec![(HolderKind::Umount, Confidence::Certain)])
    );
    let holder = &found.holders[0];
    assert_eq!((holder.pid, holder.path.as_deref()), (Some(2290), Some(path.as_str())));
    assert_eq!(holder.kernel_reason.as_ref().unwrap().id, "KR04");
    assert!(holder.steps.iter().map(ToString::to_string).any(|step| step.contains("--force")), "{holder:#?}");

    // With a second task, the command line is not read, and the path is not proven.
    node.file("proc/2290/task/2291/stat", "2291 (umount) S 2231 0 0 0 -1 0 0 0 0 0 0 0\n");
    let found = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(holders(&found), [(HolderKind::Umount, Confidence::Likely)]);
    assert_eq!(found.summary, sentence);

    // Another pod has the same file system, so the umount may be of that pod.
    mount(&node, &[(&path, SERVER), (&path_of("uid-2", "pvc-1"), SERVER)]);
    let found = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(holders(&found)[0], (HolderKind::Umount, Confidence::Possible), "{found:#?}");
    assert_eq!(found.state, PodHold::Free);
    assert!(found.summary.contains("only what possibly holds it"), "{}", found.summary);
}

#[tokio::test(start_paused = true)]
async fn an_umount_of_another_pod_or_one_that_has_just_begun_holds_nothing() {
    let node = node_after_the_end("why-other");
    let path = path_of("uid-1", "pvc-1");
    mount(&node, &[(&path, SERVER)]);
    hung_umount(&node, &path_of("uid-2", "pvc-1"), 2600);
    let found = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(holders(&found), [(HolderKind::Mount, Confidence::Possible)], "{found:#?}");

    let umount = FakeProcess { pid: 2290, parent: 2231, comm: "umount", age: 2, ..FakeProcess::default() };
    let command = ["umount", path.as_str()];
    node.process(&FakeProcess { command: &command, ..umount });
    let young = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(holders(&young), [(HolderKind::Mount, Confidence::Possible)], "{young:#?}");
    hung_umount(&node, &path, 4);
    let waits = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(
        (waits.state, holders(&waits)[0]),
        (PodHold::Free, (HolderKind::Umount, Confidence::Possible))
    );
    fs::remove_file(node.proc().join("2290/task/2290/status")).unwrap();
    node.process(&FakeProcess { command: &command, age: 300, ..umount });
    let old = why(&node, ended(), deleted(44 * 60)).await;
    assert_eq!(holders(&old)[0], (HolderKind::Umount, Confidence::Likely), "{old:#?}");
}

/// Sets the masks of ignored and caught signals of process 2001, the container of pod 1.
fn signals(node: &FakeNode, ignored: &str, caught: &str, pending: &str) {
    node.file(
        "proc/2001/status",
        &format!(
            "Name:\tapp\nNSpid:\t2001\t1\nSigPnd:\t0000000000000000\nShdPnd:\t{pending}\nSigBlk:\t0000000000000000\n\
             SigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
        ),
    );
}

const NONE: &str = "0000000000000000";
const TERM: &str = "0000000000004000";

#[tokio::test(start_paused = true)]
async fn a_container_that_ignores_sigterm_is_named_and_a_healthy_one_in_its_grace_period_is_not() {
    let node = FakeNode::new("why-term").with_pods(3);
    signals(&node, TERM, NONE, NONE);
    let over = why(&node, Scripted::with_pods(3), deleted(600)).await;
    assert_eq!(holders(&over), [(HolderKind::Container, Confidence::Likely)], "{over:#?}");
    assert_eq!(
        over.summary,
        "default/web-1 terminates since 10m: app[2001] of container app ignores SIGTERM, and was not sent SIGKILL"
    );
    assert!(
        over.holders[0].steps.iter().map(ToString::to_string).all(|step| !step.contains("kill ")),
        "{over:#?}"
    );

    let in_grace = why(&node, Scripted::with_pods(3), deleted(12)).await;
    assert_eq!(in_grace.state, PodHold::InGrace);
    assert_eq!(
        in_grace.summary,
        "default/web-1 terminates since 12s, and 18s of its grace period are left: app[2001] of container app ignores \
         SIGTERM; it runs until the grace period ends"
    );
    signals(&node, NONE, TERM, NONE);
    let healthy = why(&node, Scripted::with_pods(3), deleted(12)).await;
    assert_eq!((healthy.state, holders(&healthy)), (PodHold::InGrace, Vec::new()), "{healthy:#?}");
    // The minute after the grace period is for the kubelet.
    let minute = why(&node, Scripted::with_pods(3), deleted(80)).await;
    assert_eq!((minute.state, holders(&minute)), (PodHold::InGrace, Vec::new()), "{minute:#?}");
    signals(&node, NONE, NONE, "0000000000000100");
    let killed = why(&node, Scripted::with_pods(3), deleted(600)).await;
    assert!(killed.summary.ends_with("was sent SIGKILL and has not ended"), "{}", killed.summary);
}

/// Lines of a kubelet 1.36.2 about a pod with a grace period of 300 s. The runtime was restarted after 393 s, and the kubelet
/// stopped the container again.
#[tokio::test(start_paused = true)]
async fn the_kubelets_last_stop_shows_whether_a_container_is_in_its_grace_period() {
    let node = FakeNode::new("why-stops").with_pods(3);
    signals(&node, TERM, NONE, NONE);
    let inputs = node.inputs(Scripted::with_pods(3));
    let mut evidence = gather(&inputs, &|_| ()).await;
    let now = inputs.clock.wall();
    let mut held_by = |stopped: &[u64], facts: PodFacts| {
        let line = |ago: &u64| {
            let at = now.minus(Duration::from_secs(*ago)).duration_since(Wall::default()).as_secs();
            format!(
                "{at}.0 n4 kubelet[4586]: I1128 04:01:05.226895 4586 kuberuntime_container.go:915] \"Killing container with a \
                 grace period\" pod=\"default/web-1\" podUID=\"uid-1\" containerName=\"app\" \
                 containerID=\"containerd://{}\" gracePeriod=300\n",
                super::scripted::container_id(1)
            )
        };
        evidence.journal = Some(Journal::of(&stopped.iter().map(line).collect::<String>()));
        (evidence.clone(), facts)
    };
    let look = |(evidence, facts): (Evidence, PodFacts)| {
        let inputs = &inputs;
        async move {
            let look = pod_holders::look(inputs, &evidence, &facts).await;
            pod_holders::judge(&evidence, &judge(&evidence), &facts, &look, now)
        }
    };
    let over = look(held_by(&[700], deleted(700)(now))).await;
    assert!(over.summary.ends_with("ignores SIGTERM, and was not sent SIGKILL"), "{}", over.summary);
    let again = look(held_by(&[700, 200], deleted(700)(now))).await;
    assert!(
        again.summary.ends_with("ignores SIGTERM; it runs until the grace period ends"),
        "{}",
        again.summary
    );
    let evidence_of = |why: &PodWhy| why.holders[0].evidence[0].clone();
    assert!(evidence_of(&again).contains("with a grace period of 300 s, which ends at"), "{again:#?}");
    // The manifest of a static pod was edited.
    let replaced = PodFacts { pod: pod(), deletion: Deletion::Replaced, ..PodFacts::default() };
    let replaced = look(held_by(&[20], replaced)).await;
    assert_eq!(
        replaced.summary,
        "an earlier version of default/web-1 still runs, and the new one starts after its end: app[2001] of container app \
         ignores SIGTERM; it runs until the grace period ends"
    );
}

/// A line of a kubelet 1.36.2 whose root directory was read-only.
#[tokio::test(start_paused = true)]
async fn the_kubelets_last_error_may_hold_a_pod_that_does_not_end() {
    let node = node_after_the_end("why-last-error");
    let inputs = node.inputs(ended());
    let mut evidence = gather(&inputs, &|_| ()).await;
    evidence.journal = Some(Journal::of(
        "1.0 n4 kubelet[11901]: E1128 04:14:11.320709 11901 pod_workers.go:1324] \"Error syncing pod, skipping\" \
         err=\"unprepare dynamic resources: open /var/lib/kubelet/.923137963: read-only file system\" pod=\"default/web-1\" \
         podUID=\"uid-1\"\n",
    ));
    let facts = deleted(600)(inputs.clock.wall());
    let look = pod_holders::look(&inputs, &evidence, &facts).await;
    let found = pod_holders::judge(&evidence, &judge(&evidence), &facts, &look, inputs.clock.wall());
    assert_eq!(holders(&found), [(HolderKind::Status, Confidence::Possible)], "{found:#?}");
    assert!(found.summary.ends_with("read-only file system"), "{}", found.summary);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_waits_for_its_volume_is_named_with_the_server() {
    let node = FakeNode::new("why-kernel").with_pods(3);
    mount(&node, &[(&path_of("uid-1", "pvc-1"), SERVER)]);
    let cgroup = cgroup_of(1);
    blocked(
        &node,
        &FakeProcess { pid: 2001, parent: 1001, cgroup: &cgroup, ..FakeProcess::default() },
        NFS_STACK,
    );
    signals(&node, TERM, NONE, NONE);
    let found = why(&node, Scripted::with_pods(3), deleted(600)).await;
    assert_eq!(holders(&found), [(HolderKind::Kernel, Confidence::Certain)], "{found:#?}");
    assert_eq!(
        found.summary,
        "default/web-1 terminates since 10m: app[2001] of container app waits for the file system 10.1.2.3:/export (nfs4)"
    );
    // Without the stack, the reason is not proven.
    node.file("proc/2001/task/2001/stack", "");
    let likely = why(&node, Scripted::with_pods(3), deleted(600)).await;
    assert_eq!(holders(&likely), [(HolderKind::Kernel, Confidence::Likely)], "{likely:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_about_the_pod_explains_why_its_container_runs_on() {
    let node = FakeNode::new("why-runtime").with_pods(3);
    node.process(&FakeProcess { pid: 1001, comm: "containerd-shim", state: 'T', ..FakeProcess::default() });
    let found = why(&node, hung(3, 1), deleted(600)).await;
    assert_eq!(found.holders[0].kind, HolderKind::Runtime, "{found:#?}");
    assert!(found.holders.iter().all(|holder| holder.kind == HolderKind::Runtime), "{found:#?}");
    assert!(found.holders[0].evidence[0].starts_with("finding D"), "{found:#?}");
    // The shim runs, and the silent call is about another pod.
    node.process(&FakeProcess { pid: 1001, comm: "containerd-shim", ..FakeProcess::default() });
    let other = why(&node, hung(3, 2), deleted(600)).await;
    assert!(other.holders.iter().all(|holder| holder.kind == HolderKind::Container), "{other:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_a_pod_only_if_nothing_on_the_node_does() {
    let facts = |grace: u64| {
        move |now: Wall| {
            let deletion =
                Deletion::Requested { at: now.minus(Duration::from_secs(600)), grace: Some(grace) };
            let finalizers =
                vec!["batch.kubernetes.io/job-tracking".to_owned(), "example.com/backup".to_owned()];
            PodFacts { pod: pod(), deletion, finalizers, ..PodFacts::default() }
        }
    };
    let node = node_after_the_end("why-finalizer");
    let certain = why(&node, ended(), facts(0)).await;
    assert_eq!(holders(&certain), [(HolderKind::Finalizer, Confidence::Certain)], "{certain:#?}");
    assert!(
        certain.summary.ends_with(
            "the finalizer batch.kubernetes.io/job-tracking (the Job controller of Kubernetes) and 1 other finalizer"
        ),
        "{}",
        certain.summary
    );
    let evidence = &certain.holders[0].evidence;
    assert!(evidence.contains(&"finalizer example.com/backup: a controller of example.com".to_owned()));
    let likely = why(&node, ended(), facts(30)).await;
    assert_eq!(holders(&likely), [(HolderKind::Finalizer, Confidence::Likely)]);
    // Without the process table, something on the node may hold the pod.
    let mut blind = node.inputs(ended());
    blind.proc = None;
    let possible = judged(blind, facts(0)).await;
    assert_eq!(holders(&possible), [(HolderKind::Finalizer, Confidence::Possible)]);
    assert!(possible.not_checked.iter().any(|skipped| skipped.what.contains("mounts")), "{possible:#?}");

    mount(&node, &[(&path_of("uid-1", "pvc-1"), SERVER)]);
    let mounted = why(&node, ended(), facts(30)).await;
    assert_eq!(mounted.holders[0].kind, HolderKind::Mount, "{mounted:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_named_by_its_command_and_a_probe_is_not() {
    let node = FakeNode::new("why-hook").with_pods(3);
    signals(&node, NONE, TERM, NONE);
    let cgroup = cgroup_of(1);
    let exec = FakeProcess {
        pid: 2050,
        parent: 1001,
        comm: "sleep",
        age: 11,
        cgroup: &cgroup,
        ..FakeProcess::default()
    };
    node.process(&FakeProcess { command: &["sleep", "600"], ..exec });
    let with_hook = |now: Wall| {
        let spec = json!({"containers": [{"name": "app", "lifecycle": {"preStop": {"exec": {"command": ["sleep", "600"]}}}}]});
        deleted(12)(now).with_spec(&spec)
    };
    let found = why(&node, Scripted::with_pods(3), with_hook).await;
    assert_eq!(holders(&found), [(HolderKind::PreStop, Confidence::Likely)], "{found:#?}");
    assert!(
        found.summary.ends_with("the preStop hook of container app runs: sleep[2050]"),
        "{}",
        found.summary
    );
    // A command that was started long before the deletion is a probe or a user's shell.
    node.process(&FakeProcess { comm: "sh", age: 500, command: &["sh"], ..exec });
    let other = why(&node, Scripted::with_pods(3), with_hook).await;
    assert_eq!(holders(&other), [], "{other:#?}");
    let http = |now: Wall| {
        let spec =
            json!({"containers": [{"name": "app", "lifecycle": {"preStop": {"httpGet": {"port": 80}}}}]});
        deleted(12)(now).with_spec(&spec)
    };
    let unseen = why(&node, Scripted::with_pods(3), http).await;
    assert_eq!(unseen.not_checked[0].what, "the preStop hook of container app", "{unseen:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_works_in_the_volume_is_named() {
    let node = node_after_the_end("why-user");
    let path = path_of("uid-1", "pvc-1");
    mount(&node, &[(&path, SERVER)]);
    node.process(&FakeProcess { pid: 3000, comm: "backup", ..FakeProcess::default() });
    symlink(format!("{path}/data"), node.proc().join("3000/cwd")).unwrap();
    let found = why(&node, ended(), deleted(600)).await;
    assert_eq!(holders(&found), [(HolderKind::Mount, Confidence::Likely)], "{found:#?}");
    assert!(found.summary.contains(&format!("backup[3000] uses {path}/data")), "{}", found.summary);
}

#[tokio::test(start_paused = true)]
async fn without_a_deletion_timestamp_only_what_the_node_proves_is_reported() {
    let node = FakeNode::new("why-unknown").with_pods(3);
    signals(&node, TERM, NONE, NONE);
    let facts = |deletion| move |_: Wall| PodFacts { pod: pod(), deletion, ..PodFacts::default() };
    let unknown = why(&node, Scripted::with_pods(3), facts(Deletion::Unknown)).await;
    assert_eq!((unknown.state, holders(&unknown)), (PodHold::Free, Vec::new()), "{unknown:#?}");
    assert!(unknown.summary.starts_with("no source shows whether default/web-1 is being deleted"));
    assert!(unknown.not_checked[0].what.starts_with("deletion timestamp"), "{unknown:#?}");
    let wanted = why(&node, Scripted::with_pods(3), facts(Deletion::NotRequested)).await;
    assert_eq!((wanted.state, holders(&wanted)), (PodHold::NotDeleted, Vec::new()));
    let dropped = why(&node, Scripted::with_pods(3), facts(Deletion::Gone)).await;
    assert_eq!(
        (dropped.state, holders(&dropped)),
        (PodHold::Free, vec![(HolderKind::Container, Confidence::Possible)])
    );
    let begin = "no source has default/web-1 any more; plegctl found only what possibly holds it: app[2001]";
    assert!(dropped.summary.starts_with(begin), "{}", dropped.summary);

    let node = node_after_the_end("why-unknown-umount");
    let path = path_of("uid-1", "pvc-1");
    mount(&node, &[(&path, SERVER)]);
    hung_umount(&node, &path, 2600);
    let found = why(&node, ended(), facts(Deletion::Unknown)).await;
    assert_eq!(found.state, PodHold::Held, "{found:#?}");
    assert!(found.summary.contains("umount of 10.1.2.3:/export by csi-nfs[2231]"), "{}", found.summary);
}
