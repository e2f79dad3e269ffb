//! Tests of D45, creates and deletes that fail at once, and of its words in `pods --why`. The lines are those of a real kubelet
//! 1.36.2 with containerd 2.1.9 and CRI-O 1.37; in a recording, only their times are changed.

use std::time::Duration;

use serde_json::json;

use super::node::{FakeNode, written};
use super::pod_holders::holders;
use super::scripted::{Scripted, inputs};
use super::travels::judge;
use crate::clock::Wall;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::failing_pods::{FailingPod, FailingStep, FailureCause};
use crate::diagnosis::gather;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::pod_holders::report::{HolderKind, PodHold, PodWhy};
use crate::diagnosis::pod_holders::{self, Deletion, PodFacts, PodStatus};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, PodRef, RuleId, Severity, Verdict};
use crate::host::disks::Disk;

/// The errors of a kubelet with `short-unix` stamps: of pods whose network plugin failed on ADD and on DEL, whose runtime had a
/// full file system and a store without snapshots, of five pods with ordinary errors, and of pods for which the runtime had no
/// sandbox image, another cgroup driver, or already something with their name.
const RECORDED: &str = include_str!("../../../tests/recordings/failing-pods-1.36.2.log");

/// Returns the lines about these pods, the last of them `ago` before `now`.
fn recorded(pods: &[&str], now: Wall, ago: Duration) -> String {
    let is_of = |line: &&str, pod: &&str| {
        ["default", "kube-system"].iter().any(|namespace| line.contains(&format!("pod=\"{namespace}/{pod}")))
    };
    let is_wanted = |line: &&str| pods.iter().any(|pod| is_of(line, pod));
    let lines: Vec<(f64, &str)> = RECORDED
        .lines()
        .filter(is_wanted)
        .map(|line| line.split_once(' ').unwrap())
        .map(|(stamp, rest)| (stamp.parse().unwrap(), rest))
        .collect();
    let last = lines.last().unwrap().0;
    let now = now.minus(ago).seconds_since(Wall::from_nanos(0));
    let stamped: Vec<String> =
        lines.iter().map(|(at, rest)| format!("{:.3} {rest}", at - last + now)).collect();
    stamped.join("\n") + "\n"
}

async fn with_journal(script: Scripted, pods: &[&str], ago: u64) -> Evidence {
    let mut evidence = gather(&inputs(script), &|_| ()).await;
    evidence.journal = Some(Journal::of(&recorded(pods, evidence.taken_at, Duration::from_secs(ago))));
    evidence
}

fn found(report: &HealthReport) -> Option<&HealthFinding> {
    report.findings.iter().find(|finding| finding.id == RuleId::FailingPods)
}

/// The verdict, and the title and the confidence of D45.
fn judged(evidence: &Evidence) -> (Verdict, Option<(String, Confidence)>) {
    let report = judge(evidence);
    let found = found(&report).map(|found| (found.title.clone(), found.confidence));
    (report.verdict, found)
}

/// A runtime with three pods. The sandbox of `default/web-NUMBER` is that of the pod in the recording, without a container.
fn with_sandbox_of(number: usize) -> Scripted {
    let mut script = Scripted::with_pods(3);
    let metadata = script.sandboxes[number].metadata.as_mut().unwrap();
    metadata.uid = recorded_pod(&format!("web-{number}")).pod.uid;
    script.containers.remove(number);
    script
}

fn recorded_pod(name: &str) -> FailingPod {
    Journal::of(&recorded(&[name], Wall::from_nanos(0), Duration::ZERO)).failing_pods.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_network_cannot_be_removed_degrades_the_node() {
    let web = recorded_pod("web-1");
    let evidence = with_journal(with_sandbox_of(1), &["web-1"], 5).await;
    let report = judge(&evidence);
    let finding = found(&report).unwrap();
    assert_eq!((report.verdict, finding.confidence), (Verdict::Degraded, Confidence::Certain), "{report:#?}");
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::FailingPods);
    assert_eq!(finding.title, "CNI DEL fails: default/web-1 cannot end");
    assert_eq!(
        finding.evidence[0],
        "the network plugin example-cni says: failed to delete address: connection refused"
    );
    assert!(finding.evidence[1].starts_with("default/web-1: 8 errors in the last 81s"), "{finding:#?}");
    assert_eq!(finding.ids, std::slice::from_ref(&web.pod.uid));
    // When the sandbox is gone, the kubelet has succeeded.
    let gone = with_journal(Scripted::with_pods(3), &["web-1"], 5).await;
    assert_eq!(judged(&gone), (Verdict::Healthy, None));
}

#[tokio::test(start_paused = true)]
async fn creates_that_fail_degrade_the_node_by_their_cause() {
    for (pods, title) in [
        (["web-2", "web-3"], "CNI ADD fails: default/web-2 and 1 more cannot start"),
        (["full-1", "full-2"], "no space is left for the runtime: default/full-1 and 1 more cannot start"),
        (
            ["store-1", "store-2"],
            "the image store is damaged or not mounted: default/store-1 and 1 more cannot start",
        ),
    ] {
        let evidence = with_journal(Scripted::with_pods(3), &pods, 5).await;
        let (verdict, found) = judged(&evidence);
        assert_eq!((verdict, found), (Verdict::Degraded, Some((title.to_owned(), Confidence::Certain))));
        let one = with_journal(Scripted::with_pods(3), &pods[..1], 5).await;
        assert_eq!(judged(&one).1.unwrap().1, Confidence::Likely, "{title}");
        let over = with_journal(Scripted::with_pods(3), &pods, 200).await;
        assert_eq!(judged(&over), (Verdict::Healthy, None), "{title}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_that_the_runtimes_error_names_is_the_headline_with_the_pods_that_it_stops() {
    let node = FakeNode::new("full-pods").with_pods(3);
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let journal = recorded(&["full-1", "full-2"], evidence.taken_at, Duration::from_secs(5));
    evidence.journal = Some(Journal::of(&journal));
    let mut with_full_disk = |path: &str, read_only| {
        let disk =
            Disk { kind: "ext4".into(), device: "7:0".into(), size: 106 << 20, read_only, ..Disk::default() };
        evidence.host.as_mut().unwrap().disks = vec![written(path, disk)];
        judge(&evidence)
    };
    let report = with_full_disk("/var/lib/containerd", false);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::FullDisk, Confidence::Certain), "{report:#?}");
    let title = "the disk of /var/lib/containerd is full: default/full-1 and 1 more cannot start";
    assert_eq!((primary.title.as_str(), report.verdict), (title, Verdict::Degraded));
    assert!(primary.evidence[0].starts_with("ext4 (7:0) is full: 0 of 106 MiB are free"), "{primary:#?}");
    assert!(primary.evidence[1].ends_with("…: no space left on device"), "{primary:#?}");
    assert!(primary.evidence[2].starts_with("default/full-1: "), "{primary:#?}");
    let command = primary.steps[0].command.as_deref().unwrap();
    assert!(command.contains("du -xhd1 /var/lib/containerd "), "{command}");
    assert_eq!(found(&report).unwrap().confidence, Confidence::Certain);
    // The error is about another directory, or no write is possible for another reason.
    for (path, read_only) in [("/data", false), ("/var/lib/containerd", true)] {
        let report = with_full_disk(path, read_only);
        let disk = report.findings.iter().find(|finding| finding.id == RuleId::FullDisk).unwrap();
        assert_eq!(disk.confidence, Confidence::Likely, "{report:#?}");
        assert_eq!(disk.title, "the runtime or the kubelet cannot write to its directories");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_while_others_start_is_only_possible() {
    let names = ["web-2", "web-3"];
    let with_new = |pods: usize| {
        let mut script = Scripted::with_pods(3 + pods);
        for sandbox in &mut script.sandboxes[3..] {
            sandbox.created_at = script.now - 30_000_000_000;
        }
        script
    };
    let certainty = |found: Option<(String, Confidence)>| found.unwrap().1;
    let none = judged(&with_journal(with_new(0), &names, 5).await);
    assert_eq!((none.0, certainty(none.1)), (Verdict::Degraded, Confidence::Certain));
    let one = judged(&with_journal(with_new(1), &names, 5).await);
    assert_eq!((one.0, certainty(one.1)), (Verdict::Degraded, Confidence::Likely), "more fail than start");
    let two = judged(&with_journal(with_new(2), &names, 5).await);
    assert_eq!((two.0, certainty(two.1)), (Verdict::Healthy, Confidence::Possible));
    // A pod in the node's network needs no network plugin.
    let mut evidence = with_journal(with_new(2), &names, 5).await;
    for record in &mut evidence.runtime.status_calls {
        if let Ok(facts) = &mut record.result {
            facts.host_network = Some(true);
        }
    }
    assert_eq!(certainty(judged(&evidence).1), Confidence::Certain);
    // A pod that has a sandbox now does not fail any more.
    let mut script = with_sandbox_of(2);
    script.sandboxes[2].created_at = script.now;
    let evidence = with_journal(script, &names, 20).await;
    assert_eq!(judged(&evidence).1.unwrap().0, "CNI ADD fails: default/web-3 cannot start");
}

const ORDINARY: [&str; 5] = ["pull-1", "crash-1", "exec-1", "config-1", "name-1"];

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_with_ordinary_errors_stay_healthy() {
    // Deterministic variations: which errors, of how many pods, how often, how long ago, and single failures of everything else.
    let mut state = 0x9e37_79b9_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let once = ["web-1", "web-2", "full-1", "store-1"];
    for node in 0..100 {
        let mut evidence = gather(&inputs(Scripted::with_pods(3)), &|_| ()).await;
        let now = evidence.taken_at;
        let mut text = String::new();
        for number in 0..=below(20) {
            let kind = ORDINARY[usize::try_from(below(5)).unwrap()];
            let lines = recorded(&[kind], now, Duration::from_secs(below(600)));
            text += &lines.replace(&format!("{kind}\""), &format!("{kind}-{number}\""));
        }
        // The node recovers from a failure at its second attempt.
        for kind in once.iter().take(usize::try_from(below(5)).unwrap()) {
            let lines = recorded(&[kind], now, Duration::from_secs(below(100)));
            text.extend(lines.split_inclusive('\n').take(2));
        }
        assert!(text.contains("Error syncing pod"));
        evidence.journal = Some(Journal::of(&text));
        let report = judge(&evidence);
        assert_eq!(report.verdict, Verdict::Healthy, "node {node}: {report:#?}\n{text}");
        let severe = report.findings.iter().any(|finding| finding.severity > Severity::Info);
        assert!(!severe, "node {node}: {report:#?}");
    }
}

/// Returns the answer of `pods --why` about a pod of the recording.
async fn why(evidence: &Evidence, pod: &PodRef, deletion: Deletion) -> PodWhy {
    let status = json!({"phase": "Pending", "startTime": evidence.taken_at.minus(Duration::from_secs(600)),
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]});
    let status = PodStatus::of(&status, "the kubelet");
    let facts = PodFacts { pod: pod.clone(), deletion, status, ..PodFacts::default() };
    let look = pod_holders::look(&inputs(Scripted::with_pods(3)), evidence, &facts).await;
    pod_holders::judge(evidence, &judge(evidence), &facts, &look, evidence.taken_at)
}

#[tokio::test(start_paused = true)]
async fn the_network_plugin_that_fails_holds_the_pod() {
    let web = recorded_pod("web-1");
    let evidence = with_journal(with_sandbox_of(1), &["web-1"], 5).await;
    let deleted =
        Deletion::Requested { at: evidence.taken_at.minus(Duration::from_secs(600)), grace: Some(2) };
    let ends = why(&evidence, &web.pod, deleted).await;
    assert_eq!(holders(&ends), [(HolderKind::Network, Confidence::Certain)], "{ends:#?}");
    assert_eq!(ends.state, PodHold::Held);
    let sentence = "CNI DEL fails: failed to delete address: connection refused";
    assert!(ends.summary.ends_with(sentence), "{}", ends.summary);

    let evidence = with_journal(Scripted::with_pods(3), &["web-2", "full-1"], 5).await;
    let starts = why(&evidence, &recorded_pod("web-2").pod, Deletion::NotRequested).await;
    assert_eq!(holders(&starts), [(HolderKind::Network, Confidence::Certain)], "{starts:#?}");
    assert!(starts.summary.contains("does not start since 10m: CNI ADD fails: unable to connect"));
    let full = why(&evidence, &recorded_pod("full-1").pod, Deletion::NotRequested).await;
    assert_eq!(holders(&full)[0], (HolderKind::Runtime, Confidence::Certain), "{full:#?}");
    // Two errors may be the beginning.
    let first = evidence.journal.as_ref().unwrap().failing_pods[0].clone();
    let mut evidence = evidence;
    evidence.journal.as_mut().unwrap().failing_pods = vec![FailingPod { failures: 2, ..first.clone() }];
    let young = why(&evidence, &first.pod, Deletion::NotRequested).await;
    assert_eq!(holders(&young), [(HolderKind::Network, Confidence::Likely)], "{young:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_sandbox_image_and_different_cgroup_drivers_are_named() {
    for (pods, title, words) in [
        (
            "img-",
            "the image of the sandboxes is missing: kube-system/img-0-n3 and 1 more cannot start",
            "failed to get sandbox image",
        ),
        (
            "cg-",
            "the cgroup drivers of kubelet and runtime differ: kube-system/cg-1-n3 and 1 more cannot start",
            "for systemd cgroups, got",
        ),
    ] {
        let evidence = with_journal(Scripted::with_pods(3), &[pods], 20).await;
        let report = judge(&evidence);
        let found = found(&report).unwrap();
        assert_eq!((found.title.as_str(), found.confidence), (title, Confidence::Certain));
        assert!(found.evidence[0].contains(words), "{:?}", found.evidence);
        assert!(found.steps.iter().any(|step| step.command.is_some() && !step.changes_state));
    }
}

/// Returns the title of D18.
fn reserved(evidence: &Evidence) -> Option<String> {
    judge(evidence)
        .findings
        .into_iter()
        .find(|found| found.id == RuleId::ReservedName)
        .map(|found| found.title)
}

#[tokio::test(start_paused = true)]
async fn a_reserved_name_is_reported_until_the_pod_has_its_sandbox() {
    let mut evidence = with_journal(Scripted::with_pods(3), &["dup-"], 20).await;
    let title =
        "an earlier create has not finished, so a name stays reserved: kube-system/dup-1-n3 cannot start";
    assert_eq!(reserved(&evidence).as_deref(), Some(title));
    assert!(judge(&evidence).findings.iter().all(|found| found.id != RuleId::FailingPods));
    // What has the name is listed: its create has finished.
    let failing = &mut evidence.journal.as_mut().unwrap().failing_pods;
    let dup = failing.iter_mut().find(|failing| failing.pod.name == "dup-1-n3").unwrap();
    let uid = dup.pod.uid.clone();
    let (_, holder) = dup.words.rsplit_once(" is reserved for ").unwrap();
    dup.words = dup.words.replace(holder, &format!("{:?}", super::scripted::sandbox_id(2)));
    let title = "the runtime has already created what has a pod's name: kube-system/dup-1-n3 cannot start";
    assert_eq!(reserved(&evidence).as_deref(), Some(title));
    // The kubelet has made the sandbox with its next name.
    let mut script = Scripted::with_pods(3);
    script.sandboxes[1].metadata.as_mut().unwrap().uid = uid;
    script.sandboxes[1].created_at = script.now;
    let started = with_journal(script, &["dup-"], 20).await;
    assert_eq!(reserved(&started), None);
    // The kubelet would have tried again.
    let old = with_journal(Scripted::with_pods(3), &["dup-"], 200).await;
    assert_eq!(reserved(&old), None);
}

/// Parses one error of a pod worker about the pod `shop/web-0`.
fn of_error(error: &str) -> Option<(FailingStep, FailureCause, String)> {
    let error = format!("{error:?}");
    let line = format!(
        "1.0 n1 kubelet[7]: E1127 10:00:00.1 7 pod_workers.go:1324] \"Error syncing pod, skipping\" err={error} \
         pod=\"shop/web-0\" podUID=\"u-0\""
    );
    let found = Journal::of(&line).failing_pods.pop()?;
    assert_eq!(found.pod.to_string(), "shop/web-0");
    Some((found.step, found.cause, found.words))
}

#[test]
fn an_error_has_the_step_the_cause_and_the_runtimes_words() {
    let crio = "failed to \"CreatePodSandbox\" for \"web-0_shop(u-0)\" with CreatePodSandboxError: \"Failed to create sandbox \
        for pod \\\"web-0_shop(u-0)\\\": rpc error: code = Unknown desc = failed to create pod network sandbox \
        k8s_web-0_shop_u-0_0(4cbe): error adding pod shop_web-0 to CNI network \\\"fl\\\": plugin type=\\\"example-cni\\\" failed \
        (add): unable to connect to agent\"";
    let network =
        (FailingStep::CreateSandbox, FailureCause::Network, "unable to connect to agent".to_owned());
    assert_eq!(of_error(crio), Some(network));
    let cause = |words: &str| {
        let error = format!(
            "[failed to \"StartContainer\" for \"a\" with CrashLoopBackOff: \"back-off\", failed to \"StartContainer\" for \
             \"b\" with RunContainerError: \"rpc error: code = Unknown desc = {words}\"]"
        );
        let (step, cause, read) = of_error(&error).unwrap();
        assert_eq!((step, read.as_str()), (FailingStep::StartContainer, words));
        cause
    };
    for (words, expected) in [
        (
            "failed to create containerd task: unable to start unit cri-containerd-1.scope",
            FailureCause::Cgroup,
        ),
        ("mkdir /sys/fs/cgroup/memory/kubepods/pod1: no space left on device", FailureCause::Cgroup),
        ("write /run/containerd/x: no space left on device", FailureCause::NoSpace),
        ("mount callback failed on /tmp/containerd-mount1: no users found", FailureCause::ImageStore),
        ("failed to reserve container name b_web-0: name b is reserved for 1f", FailureCause::NameReserved),
        ("exec: /no/such/program: no such file or directory", FailureCause::Other),
        // What is at fault is the container, whatever its name.
        (
            "runc create failed: exec: /csi-snapshotter: stat /csi-snapshotter: no such file",
            FailureCause::Other,
        ),
        ("exec: cgroup-exporter: executable file not found in $PATH", FailureCause::Other),
        ("error mounting /x/snapshot to rootfs at /sys/fs/cgroup/x: not a directory", FailureCause::Other),
        ("failed to get image registry.local/snapshot-controller:1: not found", FailureCause::Other),
        ("parent snapshot sha256:0f does not exist: not found", FailureCause::ImageStore),
        ("cgroup: the controller is not there", FailureCause::Cgroup),
        (
            "cri-o configured with cgroupfs cgroup manager, but received systemd slice as parent: a.slice",
            FailureCause::CgroupDriver,
        ),
    ] {
        assert_eq!(cause(words), expected, "{words}");
    }
    let cgroup = "failed to ensure that the pod: u-0 cgroups exist and are correctly applied: failed to create container for \
        [kubepods besteffort podu-0] : unable to start unit: Message recipient disconnected";
    assert_eq!(
        of_error(cgroup).map(|(step, cause, _)| (step, cause)),
        Some((FailingStep::CreateSandbox, FailureCause::Cgroup))
    );
    for silent in
        ["DeadlineExceeded desc = context deadline exceeded", "Unavailable desc = connection refused"]
    {
        let hang = format!(
            "failed to \"KillPodSandbox\" for \"u\" with KillPodSandboxError: \"rpc error: code = {silent}\""
        );
        assert_eq!(of_error(&hang), None, "the call was not answered");
    }
}
