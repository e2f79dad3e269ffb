//! Tests of runs in which the runtime's daemon itself cannot work: it was stopped for a while, its CPU limit holds it up, it
//! has no free descriptor. No container is to blame then.

use std::fs;
use std::future::Future;
use std::process::Command;
use std::time::Duration;

use super::node::{FakeNode, FakeProcess, at_socket, crio, find, with_lost_exits};
use super::scripted::{Behaviour, Scripted, container_id, inputs};
use super::travels::judge;
use crate::cri::{Code, Error, Rpc};
use crate::diagnosis::report::{Confidence, HealthReport, Phase, RuleId, Severity, Verdict};
use crate::diagnosis::{CallEnd, CallersPendingCall, Inputs, gather};

fn late(seconds: u64) -> Behaviour {
    Behaviour::After(Duration::from_secs(seconds))
}

/// Diagnoses while something else happens.
async fn diagnose_during(inputs: &Inputs<Scripted>, other: impl Future<Output = ()>) -> HealthReport {
    judge(&tokio::join!(gather(inputs, &|_| ()), other).0)
}

fn crio_in_state(node: &FakeNode, state: char) {
    node.process(&FakeProcess {
        pid: 200,
        comm: "crio",
        state,
        command: &["crio"],
        cgroup: "/system.slice/crio.service",
        ..FakeProcess::default()
    });
}

/// Lets the daemon run again at this second of the run.
async fn continued(node: &FakeNode, after: u64) {
    tokio::time::sleep(Duration::from_secs(after)).await;
    crio_in_state(node, 'S');
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_stopped_and_runs_again_is_named_and_not_the_cpu() {
    for seconds in [7, 11] {
        let node = crio(&format!("was-stopped-{seconds}"));
        node.file("proc/pressure/cpu", "some avg10=95.00 avg60=0.00 avg300=0.00 total=0\n");
        crio_in_state(&node, 'T');
        let inputs = at_socket(&node, Scripted::with_pods(3).under_crio().on(Rpc::Version, late(seconds)));
        let report = diagnose_during(&inputs, continued(&node, seconds)).await;
        let primary = report.primary.as_ref().unwrap();
        assert_eq!((report.verdict, primary.id), (Verdict::Degraded, RuleId::SilentRuntime), "{report:#?}");
        assert_eq!((primary.confidence, report.phase), (Confidence::Certain, Phase::None));
        let title = "the runtime was stopped: crio[200] was in state T from ";
        assert!(report.summary.starts_with(title), "{}", report.summary);
        assert!(report.summary.contains(" UTC or earlier to "), "{}", report.summary);
        assert!(primary.evidence[0].contains(&format!("in every look for {seconds}.")), "{primary:#?}");
        let others = report.findings.iter().filter(|found| found.id != RuleId::SilentRuntime);
        assert!(others.clone().all(|found| found.severity == Severity::Info), "{report:#?}");
        assert!(
            find(&report, RuleId::CpuStarved).is_none_or(|found| found.confidence == Confidence::Possible)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_real_process_that_is_stopped_and_continued_was_stopped() {
    let node = crio("really-stopped");
    let program = node.root.join("crio");
    assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
    let mut daemon = Command::new(&program).arg("600").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&daemon);
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    fs::remove_dir_all(node.proc().join("200")).unwrap();
    let own = format!("/proc/{}", daemon.id());
    std::os::unix::fs::symlink(&own, node.proc().join(daemon.id().to_string())).unwrap();
    let state = |wanted: &str| while !fs::read_to_string(format!("{own}/stat")).unwrap().contains(wanted) {};
    state("(crio) S ");
    let script = Scripted::with_pods(3).under_crio().on(Rpc::ListContainers, late(6));
    let mut inputs = at_socket(&node, script);
    inputs.socket = None;
    for pod in 0..3 {
        let cgroup = super::node::cgroup_of(pod);
        let pid = 2000 + u32::try_from(pod).unwrap();
        node.process(&FakeProcess { pid, cgroup: &cgroup, ..FakeProcess::default() });
    }
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        signal(rustix::process::Signal::STOP);
        state("(crio) T ");
        tokio::time::sleep(Duration::from_secs(4)).await;
        signal(rustix::process::Signal::CONT);
        state("(crio) S ");
    };
    let report = diagnose_during(&inputs, stop).await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Degraded, RuleId::SilentRuntime), "{report:#?}");
    let title = format!("the runtime was stopped: crio[{}] was in state T from ", daemon.id());
    assert!(primary.title.starts_with(&title) && !primary.title.contains("earlier"), "{}", primary.title);
    assert!(primary.evidence[0].contains("in every look for 4."), "{primary:#?}");
    assert!(find(&report, RuleId::SlowLists).is_none(), "the stop explains the slow list: {report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_of_a_container_is_not_blamed_if_the_daemon_was_stopped_meanwhile() {
    let node = crio("stopped-meanwhile");
    let script = || Scripted::with_pods(20).under_crio().on_id(container_id(9), late(5));
    let alone = judge(&gather(&at_socket(&node, script()), &|_| ()).await);
    assert_eq!(alone.primary.unwrap().id, RuleId::SlowStatuses);
    let inputs = at_socket(&node, script());
    crio_in_state(&node, 'T');
    let report = diagnose_during(&inputs, continued(&node, 4)).await;
    assert_eq!(report.primary.as_ref().unwrap().id, RuleId::SilentRuntime, "{report:#?}");
    assert!(find(&report, RuleId::SlowStatuses).is_none() && report.culprits.is_empty(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_daemon_is_stopped_no_container_is_a_culprit() {
    let node = crio("stopped-for-good");
    let script = || Scripted::with_pods(20).under_crio().on_id(container_id(9), Behaviour::Hangs);
    let stop = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        crio_in_state(&node, 'T');
    };
    let report = diagnose_during(&at_socket(&node, script()), stop).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Unhealthy, RuleId::SilentRuntime), "{report:#?}");
    assert_eq!(primary.title, "the runtime is stopped: crio[200] is in state T");
    assert!(primary.steps[0].to_string().ends_with("(changes state): kill -CONT 200"), "{primary:#?}");
    assert!(report.culprits.is_empty(), "{report:#?}");
    assert!(report.findings.iter().all(|found| found.container.is_none()), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_caller_counts_from_its_own_begin_although_version_was_late() {
    let mut inputs = inputs(Scripted::with_pods(3).on(Rpc::Version, late(6)));
    let (sender, ended) = tokio::sync::watch::channel(None);
    inputs.callers_pending = vec![CallersPendingCall {
        rpc: Rpc::ListPodSandbox,
        id: None,
        waited: Duration::from_secs(2),
        ended: Some(ended),
    }];
    let answer = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        sender.send(Some(CallEnd::Answered(Duration::from_secs(8)))).unwrap();
    };
    let report = diagnose_during(&inputs, answer).await;
    let found = find(&report, RuleId::SlowLists).unwrap();
    assert_eq!(found.title, "ListPodSandbox takes 8.0 s; nothing found explains it");
}

#[tokio::test(start_paused = true)]
async fn pressure_of_the_node_is_a_cause_only_if_the_daemon_waits_for_a_processor() {
    let node = crio("schedstat");
    node.file("proc/pressure/cpu", "some avg10=95.00 avg60=0.00 avg300=0.00 total=0\n");
    // Time on a processor, time of waiting for one, and the number of turns.
    let schedstat = |waited: u64| node.file("proc/200/task/200/schedstat", &format!("1000 {waited} 5\n"));
    schedstat(0);
    let script = || Scripted::with_pods(5).under_crio().on(Rpc::Version, late(1));
    let idle = judge(&gather(&at_socket(&node, script()), &|_| ()).await);
    assert!(find(&idle, RuleId::CpuStarved).is_none(), "{idle:#?}");
    let wait = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        schedstat(700_000_000);
    };
    let starved = diagnose_during(&at_socket(&node, script()), wait).await;
    let found = find(&starved, RuleId::CpuStarved).unwrap();
    assert_eq!(found.confidence, Confidence::Likely, "{found:#?}");
    assert!(
        found.evidence.last().unwrap().contains("the threads of the runtime itself waited"),
        "{found:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn with_a_cpu_limit_of_its_own_hierarchy_the_daemon_is_the_cause_and_no_slow_container() {
    let node = crio("quota");
    // In cgroup v1, the daemon is in another cgroup of the CPU controller than of memory.
    node.file("proc/200/cgroup", "4:memory:/system.slice/crio.service/x\n2:cpu,cpuacct:/limited\n");
    let stat = |nanos: u64| {
        node.file(
            "cgroup/cpu/limited/cpu.stat",
            &format!("nr_periods 9\nnr_throttled 9\nthrottled_time {nanos}\n"),
        );
    };
    node.file("cgroup/cpu/limited/cpu.cfs_quota_us", "1000\n");
    node.file("cgroup/cpu/limited/cpu.cfs_period_us", "1000000\n");
    stat(0);
    let script = Scripted::with_pods(20).under_crio().on_id(container_id(9), late(4));
    let throttle = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        stat(3_900_000_000);
    };
    let report = diagnose_during(&at_socket(&node, script), throttle).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Degraded, RuleId::ThrottledRuntime), "{report:#?}");
    assert!(primary.evidence[0].contains("a CPU limit of 0.1 % of a processor"), "{primary:#?}");
    assert_eq!(
        primary.steps[0].to_string(),
        "the limit, and who set it: cat /sys/fs/cgroup/cpu/limited/cpu.cfs_quota_us"
    );
    let remove = "remove the limit (changes state): echo -1 > /sys/fs/cgroup/cpu/limited/cpu.cfs_quota_us";
    assert_eq!(primary.steps[1].to_string(), remove);
    assert!(find(&report, RuleId::SlowStatuses).is_none() && report.culprits.is_empty(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_daemon_without_a_free_descriptor_is_reported_by_its_descriptors() {
    let node = crio("descriptors");
    let silent = || Scripted::with_pods(3).on(Rpc::Version, Behaviour::Hangs);
    let others = judge(&gather(&at_socket(&node, silent()), &|_| ()).await);
    assert!(others.primary.unwrap().steps[0].to_string().starts_with("look at storage, memory and CPU"));
    for descriptor in 0..1023 {
        fs::write(node.proc().join(format!("200/fd/x{descriptor}")), "").unwrap();
    }
    let report = judge(&gather(&at_socket(&node, silent()), &|_| ()).await);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::SilentRuntime, "{report:#?}");
    assert_eq!(
        primary.title,
        "the runtime accepts no connection: crio[200] has 1024 of 1024 descriptors open"
    );
    assert!(primary.steps[0].to_string().contains("ls -l /proc/200/fd"), "{primary:#?}");
    assert!(primary.steps[1].to_string().ends_with("prlimit --pid 200 --nofile=2048:"), "{primary:#?}");
    assert!(
        !primary.steps.iter().map(ToString::to_string).any(|line| line.contains("storage")),
        "{primary:#?}"
    );
    node.file(
        "proc/200/limits",
        "Max open files            1024                 1024                 files\n",
    );
    let report = judge(&gather(&at_socket(&node, silent()), &|_| ()).await);
    let step = &report.primary.as_ref().unwrap().steps[1].to_string();
    assert!(step.ends_with("prlimit --pid 200 --nofile=2048:2048"), "the hard limit is too low: {step}");
}

#[tokio::test(start_paused = true)]
async fn a_cpu_limit_stands_before_the_slow_calls_that_it_causes() {
    let node = crio("quota-and-slow");
    let stat = |nanos: u64| {
        node.file("proc/200/cgroup", "2:cpu,cpuacct:/limited\n");
        let stat = format!("nr_periods 9\nnr_throttled 9\nthrottled_time {nanos}\n");
        node.file("cgroup/cpu/limited/cpu.stat", &stat);
    };
    stat(0);
    node.file("cgroup/cpu/limited/cpu.cfs_quota_us", "10000\n");
    node.file("cgroup/cpu/limited/cpu.cfs_period_us", "100000\n");
    let script = Scripted::with_pods(20)
        .under_crio()
        .on(Rpc::PodSandboxStatus, late(3))
        .on(Rpc::ContainerStatus, late(3));
    let throttle = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        stat(60_000_000_000);
    };
    let report = diagnose_during(&at_socket(&node, script), throttle).await;
    let ids: Vec<RuleId> = report.findings.iter().map(|found| found.id).collect();
    assert!(ids.starts_with(&[RuleId::ThrottledRuntime, RuleId::SlowStatuses]), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_can_open_no_file_is_the_cause_of_its_failing_status() {
    let node = crio("no-file");
    let failing = || {
        let message = "open uuid: too many open files".to_owned();
        let error = Error::Runtime { rpc: Rpc::Status, code: Code::Unknown, message };
        Scripted::with_pods(3).under_crio().on(Rpc::Status, Behaviour::Fails(error))
    };
    let others = judge(&gather(&at_socket(&node, failing()), &|_| ()).await);
    assert_eq!(others.primary.unwrap().id, RuleId::RuntimeNotReady);
    for descriptor in 0..1023 {
        fs::write(node.proc().join(format!("200/fd/x{descriptor}")), "").unwrap();
    }
    // The limit was set when more were open.
    node.file(
        "proc/200/limits",
        "Max open files            100                  100                  files\n",
    );
    let report = judge(&gather(&at_socket(&node, failing()), &|_| ()).await);
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Unhealthy, RuleId::ExhaustedLimits), "{report:#?}");
    assert_eq!(primary.title, "the runtime can open no file: crio[200] has 1024 of 100 descriptors open");
    assert!(primary.steps[0].to_string().contains("ls -l /proc/200/fd"), "{primary:#?}");
    assert!(primary.steps[1].to_string().ends_with("prlimit --pid 200 --nofile=2048:2048"), "{primary:#?}");
    assert!(find(&report, RuleId::RuntimeNotReady).is_some(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_descriptors_of_another_runtime_of_the_node_are_no_finding() {
    let node = FakeNode::new("other-runtime").with_pods(3).listening();
    node.process(&FakeProcess { pid: 300, comm: "containerd", ..FakeProcess::default() });
    for pid in [300, 200] {
        for descriptor in 0..1000 {
            fs::write(node.proc().join(format!("{pid}/fd/x{descriptor}")), "").unwrap();
        }
        let report = node.diagnose(Scripted::with_pods(3)).await;
        assert_eq!(find(&report, RuleId::ExhaustedLimits).is_some(), pid == 200, "{pid}: {report:#?}");
    }
}

/// A pod of CRI-O: the process of its container, and a conmon as its parent.
fn container_of_crio(node: &FakeNode, pod: usize, parent: u32) {
    let number = u32::try_from(pod).unwrap();
    node.process(&FakeProcess {
        pid: 1000 + number,
        comm: "conmon",
        command: &["conmon", "-c", &container_id(pod)],
        ..FakeProcess::default()
    });
    let cgroup = super::node::cgroup_of(pod);
    node.process(&FakeProcess { pid: 2000 + number, parent, cgroup: &cgroup, ..FakeProcess::default() });
}

#[tokio::test(start_paused = true)]
async fn a_living_container_without_its_conmon_is_reported() {
    let node = crio("no-conmon");
    for (pod, conmon) in (0..5).zip(1000..) {
        container_of_crio(&node, pod, conmon);
    }
    let pods = || Scripted::with_pods(5).under_crio();
    assert_eq!(judge(&gather(&at_socket(&node, pods()), &|_| ()).await).verdict, Verdict::Healthy);
    // The processes of a container become children of the first process.
    container_of_crio(&node, 3, 1);
    let named = judge(&gather(&at_socket(&node, pods()), &|_| ()).await);
    assert_eq!(named.verdict, Verdict::Healthy, "its conmon runs: {named:#?}");
    fs::remove_dir_all(node.proc().join("1003")).unwrap();
    let report = judge(&gather(&at_socket(&node, pods()), &|_| ()).await);
    let found = find(&report, RuleId::InconsistentState).unwrap();
    assert_eq!((report.verdict, found.confidence), (Verdict::Degraded, Confidence::Likely), "{report:#?}");
    assert!(found.title.ends_with("is RUNNING, and its conmon is gone"), "{found:#?}");
    assert_eq!(found.ids, [container_id(3)]);
    assert!(
        found.steps[1].to_string().ends_with("kubectl -n default delete pod web-3 --wait=false"),
        "{found:#?}"
    );

    // An exit that is lost is no running container.
    let lost = judge(&gather(&at_socket(&node, with_lost_exits(5, &[3])), &|_| ()).await);
    assert!(find(&lost, RuleId::InconsistentState).is_none(), "{lost:#?}");
    // The shim of containerd ends its containers when it ends.
    let shims = judge(&gather(&at_socket(&node, Scripted::with_pods(5)), &|_| ()).await);
    assert!(find(&shims, RuleId::InconsistentState).is_none(), "{shims:#?}");
}
