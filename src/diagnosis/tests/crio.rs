//! Tests of rules that work differently for CRI-O. Each test writes its own `/proc`.
//!
//! conmon writes the exit code of its container into a file. If conmon is stopped or gone, the file is missing and the
//! exit is lost: each status call of CRI-O waits seconds for the file and then returns the exit code -1 (rule D33).
//!
//! The other rules here: D01 is a silent status call. D05: the status calls of all pods together are slow. D10 names
//! the process for which a call waits (its holder). D19 is a running container without a process, D42 an exited one with its
//! process. D21 is a runtime that restores its containers at its start. D38 is a conmon whose container is in no list.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use super::node::{FakeNode, FakeProcess, at_socket, cgroup_of, crio, find, with_lost_exits};
use super::scripted::{Behaviour, Scripted, condition, container_id, sandbox_id};
use super::travels::judge;
use crate::cri::{ContainerState, Rpc};
use crate::diagnosis::proc::Ownership;
use crate::diagnosis::report::{Confidence, HealthReport, RuleId, Verdict};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{Evidence, HealthMode, Inputs, gather};

async fn diagnosed(node: &FakeNode, script: Scripted) -> HealthReport {
    judge(&gather(&at_socket(node, script), &|_| ()).await)
}

/// The directory for exits that the CRI-O of these tests passes to its conmons.
const EXITS: &str = "/var/run/crio/exits";

/// A container that is in no list, because it is being created or because the runtime has forgotten it.
const UNLISTED: usize = 77;

/// Adds a conmon with the command line that CRI-O 1.37 gives to it.
fn conmon(node: &FakeNode, process: &FakeProcess<'_>, container: usize, exits: &str) {
    let id = container_id(container);
    let bundle = bundle_of(container);
    let (pid_file, name) =
        (format!("{bundle}/pidfile"), format!("k8s_app_web-{container}_default_uid-{container}_0"));
    let command = [
        "/usr/bin/conmon",
        "-b",
        &bundle,
        "-c",
        &id,
        "--exit-dir",
        exits,
        "-l",
        "/var/log/pods/x/app/0.log",
        "--log-level",
        "info",
        "-n",
        &name,
        "-P",
        "/run/x/conmon-pidfile",
        "-p",
        &pid_file,
        "--persist-dir",
        "/var/x",
        "-r",
        "/usr/bin/crun",
        "--runtime-arg",
        "--root=/run/crun",
        "--syslog",
        "-u",
        &id,
    ];
    node.process(&FakeProcess { comm: "conmon", command: &command, ..*process });
}

/// Adds the conmon and the first process of each listed container of a script.
fn with_conmons(node: &FakeNode, pods: usize) {
    for pod in 0..pods {
        let pid = u32::try_from(1000 + pod).unwrap();
        conmon(node, &FakeProcess { pid, ..FakeProcess::default() }, pod, EXITS);
        let cgroup = cgroup_of(pod);
        node.process(&FakeProcess {
            pid: pid + 1000,
            parent: pid,
            cgroup: &cgroup,
            ..FakeProcess::default()
        });
    }
}

fn bundle_of(container: usize) -> String {
    format!("/run/containers/storage/overlay-containers/{}/userdata", container_id(container))
}

/// Adds an OCI runtime process that works on a container.
fn crun(node: &FakeNode, pid: u32, parent: u32, age: u64, verb: &str, container: usize) {
    let id = container_id(container);
    let bundle = bundle_of(container);
    let command: &[&str] = match verb {
        "create" => {
            &["/usr/bin/crun", "--root=/run/crun", "create", "--bundle", &bundle, "--pid-file", "/run/p", &id]
        }
        "kill" => &["/usr/bin/crun", "--root", "/run/crun", "kill", &id, "15"],
        _ => &["/usr/bin/crun", "--root", "/run/crun", verb, &id],
    };
    node.process(&FakeProcess { pid, parent, comm: "crun", age, command, ..FakeProcess::default() });
}

/// Writes the `config.json` of the bundle of a container that is in no list.
fn bundle(node: &FakeNode, container: usize) {
    let annotations = format!(
        r#"{{"annotations": {{"io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.container.name": "app",
            "io.kubernetes.pod.name": "web-{container}", "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.uid": "uid-{container}"}}}}"#
    );
    node.file(&format!("{}/config.json", bundle_of(container).trim_start_matches('/')), &annotations);
}

/// Returns the inputs of a run that reads this dump as the dump of the daemon (process 200).
fn with_dump(node: &FakeNode, script: Scripted, dump: &[u8]) -> Inputs<Scripted> {
    // plegctl takes the process id of a dump from such a name.
    let file = node.root.join("containerd.200.stacks.log");
    std::fs::write(&file, dump).unwrap();
    let mut inputs = at_socket(node, script);
    inputs.stacks = WantedDump::From(file.display().to_string());
    inputs
}

#[tokio::test(start_paused = true)]
async fn a_create_that_hangs_is_found_although_no_list_has_its_container() {
    let hung_create = |age| {
        let node = crio(&format!("hung-create-{age}"));
        with_conmons(&node, 3);
        // systemd puts conmon and its children into a scope whose name contains the container's id.
        let cgroup = format!("/system.slice/crio-conmon-{}.scope", container_id(UNLISTED));
        conmon(
            &node,
            &FakeProcess { pid: 500, age, cgroup: &cgroup, ..FakeProcess::default() },
            UNLISTED,
            EXITS,
        );
        crun(&node, 501, 500, age, "create", UNLISTED);
        node.file("proc/501/cgroup", &format!("0::{cgroup}\n"));
        bundle(&node, UNLISTED);
        node
    };
    let script = || Scripted::with_pods(3).under_crio();
    let young = diagnosed(&hung_create(20), script()).await;
    assert!(find(&young, RuleId::HungProcess).is_none(), "{young:#?}");
    let at_half_a_minute = diagnosed(&hung_create(35), script()).await;
    let found =
        find(&at_half_a_minute, RuleId::HungProcess).unwrap_or_else(|| panic!("{at_half_a_minute:#?}"));
    assert_eq!((found.confidence, at_half_a_minute.verdict), (Confidence::Possible, Verdict::Healthy));
    assert_eq!(found.title, "crun[501] create of default/web-77 has not finished for 35.0 s");
    assert!(at_half_a_minute.summary.contains("all calls are answered"), "{}", at_half_a_minute.summary);
    for deep in [false, true] {
        let node = hung_create(95);
        let mut inputs = at_socket(&node, script());
        inputs.mode = if deep { HealthMode::Deep } else { HealthMode::Normal };
        let report = judge(&gather(&inputs, &|_| ()).await);
        let primary = report.primary.as_ref().unwrap();
        assert_eq!(
            (primary.id, primary.confidence),
            (RuleId::HungProcess, Confidence::Likely),
            "{deep}: {report:#?}"
        );
        assert_eq!(report.verdict, Verdict::Degraded);
        assert_eq!(primary.container.as_ref().unwrap().id, container_id(UNLISTED));
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_and_a_conmon_of_another_cri_o_are_ignored() {
    let node = crio("other-crio");
    with_conmons(&node, 3);
    let other = "/srv/other/exits";
    conmon(&node, &FakeProcess { pid: 500, age: 95, ..FakeProcess::default() }, UNLISTED, other);
    crun(&node, 501, 500, 95, "create", UNLISTED);
    conmon(&node, &FakeProcess { pid: 510, age: 7200, ..FakeProcess::default() }, UNLISTED + 1, other);
    let report = diagnosed(&node, Scripted::with_pods(3).under_crio()).await;
    assert_eq!(find(&report, RuleId::HungProcess), None);
    assert_eq!(find(&report, RuleId::LeftOverShims), None);
    // Without a container in the lists, the directory of this CRI-O is not known.
    let report = diagnosed(&node, Scripted::with_pods(0).under_crio()).await;
    assert!(find(&report, RuleId::LeftOverShims).is_some(), "{report:#?}");
}

/// A `StopContainer` of CRI-O 1.37 while `crun kill` hangs, as its dump shows it, with shorter stacks.
const HUNG_STOP: [(&str, &[&str]); 2] = [
    (
        "goroutine 418 [syscall]:",
        &[
            "os.(*Process).Wait(...)",
            "os/exec.(*Cmd).Wait(0x68ffe9c7d40)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).runtimeCmd(0x68ffe3581c0, {0x68ffe747ee0, 0x3, 0x1?})",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).StopLoopForContainer(0x68ffe3581c0, {0x2f32648?, \
             0x68ffe12b260?}, 0x68ffe217a40, {0x2f1c880, 0x68ffe85ab90})",
            "created by github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).StopContainer in goroutine 401",
        ],
    ),
    (
        "goroutine 401 [select]:",
        &[
            "github.com/cri-o/cri-o/internal/oci.(*Container).WaitOnStopTimeout(0x68ffe217a40, {0x2f325d8, \
             0x68ffe392db0}, 0x4000000000000000?)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).StopContainer(0x68ffe3581c0, {0x2f325d8?, \
             0x68ffe392d20?}, 0x68ffe217a40, 0x0)",
            "k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_StopContainer_Handler({0x2dc7d20, 0x68ffe624408}, \
             {0x2f325d8, 0x68ffe3922a0}, 0x68ffe0f5380, 0x2efca48)",
        ],
    ),
];

#[tokio::test(start_paused = true)]
async fn a_stop_or_removal_that_hangs_says_for_how_long_and_what_waits() {
    for (verb, waits) in [
        ("kill", "the call that stops the container does, and the pod does not end"),
        ("delete", "the call that removes the container does"),
    ] {
        let node = crio(&format!("hung-{verb}"));
        with_conmons(&node, 3);
        crun(&node, 700, 200, 77, verb, 1);
        let goroutine = |(head, frames): &(&str, &[&str])| {
            let frames: Vec<String> =
                frames.iter().map(|frame| format!("{frame}\n\t/oci.go:1 +0x1\n")).collect();
            format!("{head}\n{}\n", frames.concat())
        };
        let dump = HUNG_STOP.iter().map(goroutine).collect::<String>();
        let inputs = with_dump(&node, Scripted::with_pods(3).under_crio(), dump.as_bytes());
        let report = judge(&gather(&inputs, &|_| ()).await);
        let found = find(&report, RuleId::HungProcess).unwrap();
        assert_eq!(found.title, format!("crun[700] {verb} of default/web-1 has not finished for 77.0 s"));
        assert_eq!(
            (found.confidence, report.verdict),
            (Confidence::Likely, Verdict::Degraded),
            "{report:#?}"
        );
        let evidence = found.evidence.join("\n");
        assert!(evidence.contains(waits), "{evidence}");
        // The runtime's goroutines show which call this is.
        let call = "a StopContainer that waits for the OCI runtime (pid 700, sleeping, crun)";
        assert!(verb != "kill" || evidence.contains(call), "{evidence}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conmon_for_which_the_runtime_waits_hangs_and_is_not_left_over() {
    let node = crio("conmon-waits");
    with_conmons(&node, 3);
    bundle(&node, UNLISTED);
    // It waits for a reader of its log before it detaches, so the daemon is still its parent.
    let waiting = FakeProcess { pid: 500, parent: 200, age: 95, ..FakeProcess::default() };
    for (age, confidence) in [(35, Confidence::Possible), (95, Confidence::Likely)] {
        conmon(&node, &FakeProcess { age, ..waiting }, UNLISTED, EXITS);
        let report = diagnosed(&node, Scripted::with_pods(3).under_crio()).await;
        assert_eq!(find(&report, RuleId::LeftOverShims), None);
        let found = find(&report, RuleId::HungProcess).unwrap_or_else(|| panic!("{report:#?}"));
        let title = format!("conmon[500] of default/web-77 has not started its container for {age}.0 s");
        assert_eq!((&found.title, found.confidence), (&title, confidence));
        assert!(found.steps.iter().map(ToString::to_string).all(|step| !step.contains("kill")), "{found:#?}");
    }

    // A conmon that runs an `exec` waits for the program that it runs.
    let id = container_id(1);
    let command =
        ["/usr/bin/conmon", "-c", &id, "-n", "k8s_app_web-1_default_uid-1_0", "-e", "-r", "/usr/bin/crun"];
    node.process(&FakeProcess { comm: "conmon", command: &command, ..waiting });
    let report = diagnosed(&node, Scripted::with_pods(3).under_crio()).await;
    assert_eq!(find(&report, RuleId::HungProcess), None);
}

#[tokio::test(start_paused = true)]
async fn a_conmon_younger_than_a_waiting_create_is_not_left_over() {
    for (age, recording, is_left_over) in [
        // The dumps show a CreateContainer that waits for 75 s and for 200 s.
        (90, "o-runc.t75.http.gz", false),
        (600, "o-runc.t75.http.gz", true),
        (210, "o-runc.t200.usr1.gz", false),
        (600, "o-runc.t200.usr1.gz", true),
        (90, "o-base.idle.http.gz", true),
    ] {
        let node = crio(&format!("create-in-flight-{age}"));
        with_conmons(&node, 3);
        conmon(&node, &FakeProcess { pid: 500, age, ..FakeProcess::default() }, UNLISTED, EXITS);
        let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/stacks");
        let dump = std::fs::read(recordings.join(recording)).unwrap();
        let inputs = with_dump(&node, Scripted::with_pods(3).under_crio(), &dump);
        let report = judge(&gather(&inputs, &|_| ()).await);
        assert_eq!(
            find(&report, RuleId::LeftOverShims).is_some(),
            is_left_over,
            "{age} s, {recording}: {report:#?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_state_command_and_not_a_lost_conmon_keeps_an_exit_from_being_recorded() {
    let node = crio("state-after-exit");
    with_conmons(&node, 5);
    for pid in ["1001", "2001"] {
        std::fs::remove_dir_all(node.proc().join(pid)).unwrap();
    }
    let script = || Scripted::with_pods(5).under_crio();
    let evidence_of = |report: &HealthReport| {
        let found = find(report, RuleId::InconsistentState).unwrap_or_else(|| panic!("{report:#?}"));
        assert!(found.title.starts_with("default/web-1/app"), "{found:#?}");
        found.evidence.join("\n")
    };
    let lost = "lost their conmon: nothing records the exit";
    let evidence = evidence_of(&diagnosed(&node, script()).await);
    assert!(evidence.contains(lost), "{evidence}");

    crun(&node, 700, 200, 12, "state", 1);
    let evidence = evidence_of(&diagnosed(&node, script()).await);
    assert!(!evidence.contains(lost), "{evidence}");
    let cause = "crun[700] state has not finished for 12.0 s: the runtime records the exit only after it";
    assert!(evidence.contains(cause), "{evidence}");

    crun(&node, 700, 200, 70, "state", 1);
    let report = diagnosed(&node, script()).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungProcess, Confidence::Likely), "{report:#?}");
    assert!(!evidence_of(&report).contains(lost));
}

#[tokio::test(start_paused = true)]
async fn no_command_ends_a_state_process_of_cri_o() {
    let silent_version = || Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let silent_status = || Scripted::with_pods(5).under_crio().on_id(container_id(1), Behaviour::Hangs);
    for (name, script) in [
        ("restoring", silent_version as fn() -> Scripted),
        ("status", silent_status),
        ("idle", || Scripted::with_pods(5).under_crio()),
    ] {
        let node = crio(&format!("state-{name}"));
        with_conmons(&node, 5);
        crun(&node, 700, 200, 90, "state", 1);
        let steps = |report: &HealthReport| {
            let steps = report.findings.iter().flat_map(|found| &found.steps).chain(&report.keep);
            steps.map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let alive = steps(&diagnosed(&node, script()).await);
        assert!(!alive.contains("kill "), "{name}: {alive}");
        let warning = "do not end crun[700]: CRI-O would record that default/web-1/app exited with code 255, although \
                       app[2001] runs, and the kubelet would start a second copy";
        assert!(alive.contains(warning), "{name}: {alive}");

        std::fs::remove_dir_all(node.proc().join("2001")).unwrap();
        let dead = steps(&diagnosed(&node, script()).await);
        assert!(!dead.contains("kill "), "{name}: {dead}");
        assert!(
            dead.contains("if crun[700] is ended, CRI-O records that default/web-1/app exited"),
            "{name}: {dead}"
        );
    }
}

/// Returns a CRI-O that lists the container of pod 1 as exited, with its processes.
fn exited(name: &str) -> (FakeNode, Scripted) {
    let node = crio(name);
    with_conmons(&node, 3);
    let mut script = Scripted::with_pods(3).under_crio();
    script.containers[1].state = ContainerState::Exited;
    script.exit_codes.insert(container_id(1), 255);
    (node, script)
}

#[tokio::test(start_paused = true)]
async fn an_exited_container_whose_first_process_runs_is_certain_and_named() {
    let (node, script) = exited("exited-but-alive");
    node.file("proc/2001/status", "Name:\tapp\nNSpid:\t2001\t1\n");
    let report = diagnosed(&node, script).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(
        (primary.id, primary.confidence),
        (RuleId::ExitedButAlive, Confidence::Certain),
        "{report:#?}"
    );
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(
        primary.title,
        "the runtime says that default/web-1/app has exited, but its process app[2001] runs"
    );
    assert_eq!(primary.ids, [container_id(1)]);
    let evidence = primary.evidence.join("\n");
    assert!(evidence.contains("below conmon[1001]") && evidence.contains("exit code 255"), "{evidence}");
    let remove = format!("crictl --timeout 60s rm {}", &container_id(1)[..12]);
    assert!(
        primary.steps.iter().map(ToString::to_string).any(|step| step.ends_with(&remove)),
        "{primary:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn in_a_shared_pid_namespace_the_pid_file_shows_the_first_process() {
    let (node, script) = exited("exited-shared");
    node.file("proc/2001/status", "Name:\tapp\nNSpid:\t2001\t7\n");
    let pid_file = format!("{}/pidfile", bundle_of(1).trim_start_matches('/'));
    node.file(&pid_file, "1999");
    assert_eq!(find(&diagnosed(&node, script.same_node().under_crio()).await, RuleId::ExitedButAlive), None);
    node.file(&pid_file, "2001");
    let report = diagnosed(&node, script).await;
    assert_eq!(
        find(&report, RuleId::ExitedButAlive).map(|found| found.confidence),
        Some(Confidence::Certain),
        "{report:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_may_outlive_an_exited_container_is_not_its_first_process() {
    let init = || FakeProcess { pid: 2001, parent: 1001, ..FakeProcess::default() };
    for (name, process) in [
        ("zombie", FakeProcess { state: 'Z', ..init() }),
        // Its start failed.
        ("not-started", FakeProcess { comm: "crun", ..init() }),
    ] {
        let (node, script) = exited(&format!("exited-{name}"));
        let cgroup = cgroup_of(1);
        node.process(&FakeProcess { cgroup: &cgroup, ..process });
        node.file("proc/2001/status", "NSpid:\t2001\t1\n");
        let report = diagnosed(&node, script).await;
        assert_eq!(find(&report, RuleId::ExitedButAlive), None, "{name}");
    }
    let (node, mut script) = exited("running");
    node.file("proc/2001/status", "NSpid:\t2001\t1\n");
    script.containers[1].state = ContainerState::Running;
    assert_eq!(find(&diagnosed(&node, script).await, RuleId::ExitedButAlive), None);
}

/// What containerd 2.1.9 left behind after `kill -9` of a shim: it ended only the process of the sandbox.
#[tokio::test(start_paused = true)]
async fn a_container_that_outlives_its_killed_shim_or_conmon_is_named() {
    let is_named = |report: &HealthReport| {
        let found = find(report, RuleId::ExitedButAlive).unwrap_or_else(|| panic!("{report:#?}"));
        assert_eq!(
            (found.confidence, report.verdict),
            (Confidence::Certain, Verdict::Degraded),
            "{report:#?}"
        );
    };
    let orphan = |node: &FakeNode| {
        fs::remove_dir_all(node.proc().join("1001")).unwrap();
        let cgroup = cgroup_of(1);
        node.process(&FakeProcess { pid: 2001, parent: 1, cgroup: &cgroup, ..FakeProcess::default() });
        node.file("proc/2001/status", "NSpid:\t2001\t1\n");
    };
    let (node, script) = exited("killed-conmon");
    orphan(&node);
    is_named(&diagnosed(&node, script).await);
    // Without a PID namespace of its own, a container may leave processes behind.
    node.file("proc/2001/status", "NSpid:\t2001\t7\n");
    let (_, script) = exited("left-behind");
    assert_eq!(find(&diagnosed(&node, script).await, RuleId::ExitedButAlive), None);
    let node = FakeNode::new("killed-shim").with_pods(3);
    orphan(&node);
    let mut script = Scripted::with_pods(3);
    script.containers[1].state = ContainerState::Exited;
    script.exit_codes.insert(container_id(1), 255);
    is_named(&node.diagnose(script).await);
}

#[tokio::test(start_paused = true)]
async fn one_look_at_an_exited_container_is_certain_only_if_the_end_was_recorded_earlier() {
    let (node, script) = exited("exited-once");
    node.file("proc/2001/status", "NSpid:\t2001\t1\n");
    let mut inputs = at_socket(&node, script);
    // There is no time for a second look.
    inputs.budget = Duration::from_secs(2);
    let mut evidence = gather(&inputs, &|_| ()).await;
    let confidence = |evidence: &Evidence| {
        let report = judge(evidence);
        (find(&report, RuleId::ExitedButAlive).unwrap().confidence, report.verdict)
    };
    assert_eq!(confidence(&evidence), (Confidence::Possible, Verdict::Unknown));
    let mut end_at = |before: u64| {
        let at = evidence.taken_at.minus(Duration::from_secs(before));
        let of_container =
            evidence.runtime.status_calls.iter_mut().find(|call| call.target.id == container_id(1));
        of_container.unwrap().result.as_mut().unwrap().finished_at = Some(at);
        confidence(&evidence)
    };
    assert_eq!(end_at(1), (Confidence::Possible, Verdict::Unknown));
    assert_eq!(end_at(30), (Confidence::Certain, Verdict::Degraded));
}

#[tokio::test(start_paused = true)]
async fn d33_includes_the_slow_sandbox_calls_of_pods_with_lost_exits() {
    let node = crio("lost-with-slow-sandboxes");
    let without = diagnosed(&node, with_lost_exits(20, &[1, 4])).await;
    let evidence = without.primary.unwrap().evidence;
    assert!(evidence[0].contains("a relist of all of them takes 7.5 s"), "{evidence:?}");

    let wait = || Behaviour::After(Duration::from_millis(3740));
    let script = with_lost_exits(20, &[1, 4]).on_id(sandbox_id(1), wait()).on_id(sandbox_id(4), wait());
    let report = diagnosed(&node, script).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::LostExit, "{report:#?}");
    let total = &primary.evidence[0];
    assert!(total.contains("takes 15.0 s") && total.contains("PodSandboxStatus of their pods"), "{total}");
    assert!(find(&report, RuleId::SlowStatuses).is_none(), "{report:#?}");
    let remove = format!("remove it (changes state): crictl --timeout 60s rm {}", &container_id(1)[..12]);
    assert!(primary.steps.iter().any(|step| step.to_string() == remove), "{primary:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_step_about_the_network_names_the_directory_that_the_runtime_uses() {
    let not_ready = || {
        let mut script = Scripted::with_pods(3);
        script.conditions = vec![condition("RuntimeReady", true), condition("NetworkReady", false)];
        script.under_crio()
    };
    let node = crio("network-directory");
    let step = |report: &HealthReport| find(report, RuleId::NetworkNotReady).unwrap().steps[0].to_string();
    assert!(step(&diagnosed(&node, not_ready()).await).ends_with(": ls /etc/cni/net.d"));
    node.file("etc/crio/crio.conf.d/10-net.conf", "[crio.network]\nnetwork_dir = \"/etc/my cni\"\n");
    assert!(step(&diagnosed(&node, not_ready()).await).ends_with(": ls '/etc/my cni'"));
}

#[tokio::test(start_paused = true)]
async fn an_oci_runtime_that_works_on_the_silent_container_is_the_holder() {
    let runc = |age: u64, verb: &str| {
        let node = crio(&format!("young-{verb}-{age}"));
        let id = container_id(4);
        let command = ["runc", "--root", "/run/runc", verb, &id];
        node.process(&FakeProcess {
            pid: 700,
            parent: 200,
            comm: "runc",
            age,
            command: &command,
            ..FakeProcess::default()
        });
        node
    };
    let hung = || Scripted::with_pods(20).under_crio().on_id(container_id(4), Behaviour::Hangs);
    let report = diagnosed(&runc(6, "state"), hung()).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((primary.id, primary.confidence), (RuleId::HungProcess, Confidence::Likely), "{report:#?}");
    assert!(primary.title.starts_with("runc[700] of default/web-4/app has not finished"), "{primary:#?}");
    let holder = report.culprits[0].holder.as_deref().unwrap();
    assert!(holder.starts_with("runc[700] works on it and has not finished for 6"), "{holder}");

    // A `runc exec` of 2 s may run an exec probe of the kubelet, and every command is normal in its first second.
    for young in [runc(2, "exec"), runc(0, "update")] {
        let report = diagnosed(&young, hung()).await;
        assert_eq!(report.primary.as_ref().unwrap().id, RuleId::HungStatus, "{report:#?}");
        assert_eq!(report.culprits[0].holder, None);
    }

    // An OCI runtime that works for another container does not hold this call.
    let other = Scripted::with_pods(20).under_crio().on_id(container_id(5), Behaviour::Hangs);
    let report = diagnosed(&runc(6, "state"), other).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::HungStatus, "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_conmon_is_not_blamed_while_an_oci_runtime_does_not_end() {
    let node = crio("conmon-and-runc");
    let id = container_id(4);
    node.process(&FakeProcess {
        pid: 500,
        comm: "conmon",
        state: 'T',
        command: &["conmon", "-c", &id],
        ..FakeProcess::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 6,
        command: &command,
        ..FakeProcess::default()
    });
    let script = Scripted::with_pods(20).under_crio().on_id(container_id(4), Behaviour::Hangs);
    let report = diagnosed(&node, script).await;
    let found = find(&report, RuleId::HungProcess).unwrap();
    assert!(found.title.starts_with("runc[700] of "), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_created_container_that_waits_for_its_start_is_no_hang() {
    let made = |name: &str, comm: &str, state: ContainerState| {
        let node = crio(name);
        let cgroup = format!("/kubepods/poduid-4/crio-{}.scope", container_id(4));
        node.process(&FakeProcess {
            pid: 500,
            comm: "conmon",
            command: &["conmon", "-c", &container_id(4)],
            ..FakeProcess::default()
        });
        node.process(&FakeProcess {
            pid: 501,
            parent: 500,
            comm,
            age: 900,
            cgroup: &cgroup,
            command: &[comm],
            ..FakeProcess::default()
        });
        let mut script = Scripted::with_pods(8).under_crio();
        script.containers[4].state = state;
        (node, script)
    };
    for (comm, state) in [
        ("runc:[2:INIT]", ContainerState::Created),
        ("runc:[2:INIT]", ContainerState::Running),
        ("crun", ContainerState::Created),
    ] {
        let (node, script) = made("created", comm, state);
        let report = diagnosed(&node, script).await;
        assert!(find(&report, RuleId::HungProcess).is_none(), "{comm}: {report:#?}");
    }
    // If the status call of this container is silent, the waiting process is not the holder either.
    let (node, script) = made("created-silent", "runc:[2:INIT]", ContainerState::Created);
    let report = diagnosed(&node, script.on_id(container_id(4), Behaviour::Hangs)).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::HungStatus, "{report:#?}");
    // In a running container, a process may have the name of an OCI runtime.
    let (node, script) = made("created-no-more", "crun", ContainerState::Running);
    let report = diagnosed(&node, script).await;
    assert!(find(&report, RuleId::HungProcess).is_none(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_oci_runtime_of_another_user_or_in_a_container_is_no_holder() {
    let contained = format!("/kubepods/poduid-5/crio-{}.scope", container_id(5));
    let monitor = format!("/system.slice/crio-conmon-{}.scope", container_id(4));
    for (name, uid, cgroup, holds) in [
        ("root", 0, "/system.slice/crio.service", true),
        ("monitor", 0, monitor.as_str(), true),
        ("user", 65_534, "/system.slice/crio.service", false),
        ("container", 0, contained.as_str(), false),
    ] {
        let node = crio(&format!("whose-runc-{name}"));
        let id = container_id(4);
        let command = ["runc", "--root", "/run/runc", "state", &id];
        let runc = FakeProcess {
            pid: 700,
            parent: 200,
            comm: "runc",
            age: 40,
            cgroup,
            command: &command,
            ..FakeProcess::default()
        };
        node.process(&runc);
        node.file("proc/700/status", &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t700\n"));
        let script = Scripted::with_pods(20).under_crio().on_id(id.clone(), Behaviour::Hangs);
        let report = diagnosed(&node, script).await;
        assert_eq!(report.culprits[0].holder.is_some(), holds, "{name}: {report:#?}");
        assert_eq!(find(&report, RuleId::HungProcess).is_some(), holds, "{name}: {report:#?}");
    }
}

/// At its start, CRI-O restores its containers: it runs `runc state` for one after the other and answers no call until
/// all have finished. So plegctl takes the name of the container from the command line of conmon.
#[tokio::test(start_paused = true)]
async fn conmon_names_the_container_for_which_a_starting_crio_waits() {
    let node = crio("restoring-conmon");
    let id = container_id(4);
    let name = "k8s_app_web-18_shop_1234-5678_0";
    node.process(&FakeProcess {
        pid: 500,
        comm: "conmon",
        command: &["conmon", "-b", "/run/x", "-c", &id, "-n", name, "-P", "/run/y"],
        ..FakeProcess::default()
    });
    let command = ["runc", "--root", "/run/runc", "state", &id];
    node.process(&FakeProcess {
        pid: 700,
        parent: 200,
        comm: "runc",
        age: 40,
        command: &command,
        ..FakeProcess::default()
    });
    let silent = Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs);
    let report = diagnosed(&node, silent).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::RecoveringRuntime, "{report:#?}");
    assert!(primary.title.ends_with("waits for shop/web-18/app"), "{primary:#?}");
    assert_eq!(primary.pod.as_ref().unwrap().uid, "1234-5678");
}

/// Reading the open files of a process with a blocked thread could block plegctl too. For such a daemon, plegctl
/// connects to the socket and asks the kernel which process listens. In this test, the test process itself listens.
#[tokio::test(start_paused = true)]
async fn a_daemon_with_a_blocked_thread_is_found_by_its_socket() {
    let node = FakeNode::new("blocked-daemon");
    let daemon = std::process::id();
    let cgroup = "/system.slice/crio.service";
    node.process(&FakeProcess {
        pid: daemon,
        comm: "crio",
        command: &["crio"],
        cgroup,
        ..FakeProcess::default()
    });
    let thread = format!("proc/{daemon}/task/{daemon}/stat");
    node.file(&thread, &format!("{daemon} (crio) D 1 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 5 0 100 0 100\n"));
    node.file("cgroup/system.slice/crio.service/cpu.stat", "throttled_usec 1000000\n");
    let script = || Scripted::with_pods(5).under_crio();
    let without = gather(&at_socket(&node, script()), &|_| ()).await;
    assert_eq!(without.host.unwrap().ownership, Ownership::Foreign);

    std::fs::create_dir_all(node.root.join("run")).unwrap();
    let listener = UnixListener::bind(node.root.join("run/test.sock")).unwrap();
    let evidence = gather(&at_socket(&node, script()), &|_| ()).await;
    drop(listener);
    let host = evidence.host.as_ref().unwrap();
    assert_eq!(host.ownership, Ownership::OfRuntime { daemon: Some(daemon) });
    assert!(host.first.daemon_cgroup.throttled.is_some());
    assert_eq!(evidence.daemon().map(|process| process.comm.as_str()), Some("crio"));
    let skipped: Vec<&str> = evidence.not_checked.iter().map(|skip| skip.what.as_str()).collect();
    assert!(!skipped.contains(&"the runtime's daemon"), "{skipped:?}");
}
