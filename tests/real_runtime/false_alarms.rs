//! A healthy runtime stays *healthy* beside a busy disk, pods that come and go, and a container that uses all of its memory.
//!
//! By default a test makes five diagnoses. `PLEGCTL_RUNS=200 cargo test --test real_runtime false_alarms -- --nocapture`
//! makes 200 and prints how many were wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use plegctl_engine::diagnosis::report::{Confidence, Severity, Verdict};

use crate::daemon::RealRuntime;
use crate::health::{Load, diagnose, runs, with_network};
use crate::messages::ContainerState;
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;

on_each_containerd! {
    a_busy_disk_and_churn_and_a_full_cgroup_are_no_fault_of_the_runtime
}

/// The limit of the cgroup whose memory is full, and the size of the file that is read in it again and again.
const LIMIT_BYTES: u64 = 48 << 20;
const FILE_MEBIBYTES: u64 = 160;

/// Creates a cgroup with a limit of memory, below that of the runtime's pods, so that `reap.sh` removes it. Returns the file
/// with its processes.
fn limited_cgroup(runtime: &RealRuntime) -> PathBuf {
    let (tree, limit) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        ("/sys/fs/cgroup", "memory.max")
    };
    let cgroup = Path::new(tree).join(runtime.name()).join("full");
    fs::create_dir(&cgroup).unwrap();
    fs::write(cgroup.join(limit), LIMIT_BYTES.to_string()).unwrap();
    cgroup.join("cgroup.procs")
}

/// Starts two programs that write to the disk and wait for it, and one whose memory is reclaimed all the time.
fn load(runtime: &RealRuntime) -> Vec<Load> {
    let file = |name: &str| runtime.directory().join(name).display().to_string();
    let write = |name: &str| {
        format!("while :; do dd if=/dev/zero of={} bs=1M count=32 conv=fsync status=none; done", file(name))
    };
    let big = file("big");
    let processes = limited_cgroup(runtime).display().to_string();
    let read = format!(
        "echo $$ > {processes}; dd if=/dev/zero of={big} bs=1M count={FILE_MEBIBYTES} status=none; \
         while :; do cat {big} > /dev/null; done"
    );
    vec![Load::of(&write("written-0")), Load::of(&write("written-1")), Load::of(&read)]
}

/// Runs a pod whose container crashes and is restarted, and removes the pod, as a kubelet does.
fn replace_pod(runtime: &RealRuntime, number: usize) {
    let pod = runtime.run_pod(&PodSpec::new(&format!("job-{}", number % 3)), &[ContainerSpec::new("app")]);
    runtime.kill_container_process(&pod.containers[0]);
    runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    let restarted = runtime.create_container(&pod, &ContainerSpec::new("app").attempt(1));
    runtime.start_container(&restarted);
    runtime.stop_pod(&pod.sandbox_id);
    runtime.remove_pod(&pod.sandbox_id);
}

fn a_busy_disk_and_churn_and_a_full_cgroup_are_no_fault_of_the_runtime(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    with_network(&runtime);
    runtime.run_pods(4, 2);
    let load = load(&runtime);
    let is_over = AtomicBool::new(false);
    let (mut alarms, mut seen, mut longest, mut changes) = (Vec::new(), BTreeMap::new(), 0.0_f64, 0_usize);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let mut pods = 0;
            while !is_over.load(Ordering::Relaxed) {
                replace_pod(&runtime, pods);
                pods += 1;
            }
            pods
        });
        for _ in 0..runs() {
            let report = diagnose(&runtime);
            longest = longest.max(report.duration_seconds);
            for found in &report.findings {
                *seen.entry(format!("{} {:?}", found.id, found.confidence)).or_insert(0) += 1;
            }
            let is_alarm =
                |severity, confidence| severity > Severity::Info && confidence < Confidence::Possible;
            let mut findings = report.findings.iter();
            if report.verdict != Verdict::Healthy
                || findings.any(|found| is_alarm(found.severity, found.confidence))
            {
                alarms.push(report);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        changes = churn.join().unwrap();
    });
    drop(load);
    println!(
        "{version:?}: {} false alarms in {} runs beside two writers, a full cgroup and {changes} pods that came and went; the \
         longest took {longest:.1} s; findings: {seen:?}",
        alarms.len(),
        runs()
    );
    assert!(alarms.is_empty(), "{alarms:#?}");
}
