//! Tests of the harness on each containerd, on which the other tests depend.

use std::time::Duration;

use tonic::{Code, Status};

use crate::daemon::RealRuntime;
use crate::messages::{Container, ContainerState, Pair, PodSandboxState};
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::{TIME_LIMIT, real};

/// A call that does not answer within this time counts as hanging.
const HANGS: Duration = Duration::from_millis(500);

on_each_containerd! {
    a_pod_runs_exits_and_is_removed
    pods_survive_a_restart_of_the_daemon
    container_that_dies_while_the_daemon_is_down_has_exited_afterwards
    a_held_status_lock_hangs_the_container_list_and_nothing_else
    a_stopped_shim_hangs_no_list
    killed_shim_ends_its_container
    a_stopped_daemon_is_silent_until_it_continues
    a_frozen_pod_continues_after_the_thaw
    pods_have_the_labels_of_a_kubelets_pods
}

fn a_pod_runs_exits_and_is_removed(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let answer = runtime.calls.version(TIME_LIMIT).unwrap();
    assert!(answer.runtime_version.starts_with(version.version_prefix()), "{answer:?}");

    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    assert_eq!(states(&runtime), [ContainerState::ContainerRunning]);
    let second = runtime.create_container(&pod, &ContainerSpec::new("helper").shell("exit 3"));
    runtime.wait_for_state(&second, ContainerState::ContainerCreated);
    runtime.start_container(&second);
    let status = runtime.wait_for_state(&second, ContainerState::ContainerExited);
    assert_eq!(status.exit_code, 3);
    runtime.remove_container(&second);

    runtime.kill_container_process(&pod.containers[0]);
    let status = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    assert_eq!(status.exit_code, 137);

    let third = runtime.create_container(&pod, &ContainerSpec::new("app").attempt(1));
    runtime.start_container(&third);
    runtime.stop_container(&third);
    runtime.wait_for_state(&third, ContainerState::ContainerExited);

    runtime.stop_pod(&pod.sandbox_id);
    assert_eq!(runtime.list_pods()[0].state(), PodSandboxState::SandboxNotready);
    runtime.remove_pod(&pod.sandbox_id);
    assert_eq!(runtime.list_pods(), []);
    assert_eq!(runtime.list_containers(), []);
}

fn pods_survive_a_restart_of_the_daemon(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(3, 1);
    runtime.restart_daemon();
    assert_eq!(states(&runtime), [ContainerState::ContainerRunning; 3]);
}

fn container_that_dies_while_the_daemon_is_down_has_exited_afterwards(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    runtime.kill_daemon();
    runtime.kill_container_process(&pod.containers[0]);
    runtime.start_daemon();
    let status = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    assert_ne!(status.exit_code, 0, "{status:?}");
}

fn a_held_status_lock_hangs_the_container_list_and_nothing_else(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pods = runtime.run_pods(2, 1);
    let [held, other] = [&pods[0].containers[0], &pods[1].containers[0]];

    let lock = runtime.hold_status_lock(held);
    assert_silent(&runtime.calls.list_containers(HANGS));
    assert_silent(&runtime.calls.container_status(held, HANGS));
    assert_eq!(runtime.list_pods().len(), 2);
    runtime.calls.container_status(other, TIME_LIMIT).unwrap();

    drop(lock);
    assert_eq!(states(&runtime), [ContainerState::ContainerRunning; 2]);
}

fn a_stopped_shim_hangs_no_list(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let shim = runtime.stop_shim(&pod.sandbox_id);
    // The stopped shim does not report the container's end, so containerd still lists the container as RUNNING.
    runtime.kill_container_process(&pod.containers[0]);
    assert_eq!(states(&runtime), [ContainerState::ContainerRunning]);
    assert_eq!(runtime.list_pods().len(), 1);

    drop(shim);
    runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
}

fn killed_shim_ends_its_container(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    runtime.kill_shim(&pod.sandbox_id);
    let status = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    assert_eq!(status.exit_code, 255);
}

fn a_stopped_daemon_is_silent_until_it_continues(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let daemon = runtime.stop_daemon();
    assert_silent(&runtime.calls.version(HANGS));
    drop(daemon);
    runtime.calls.version(TIME_LIMIT).unwrap();
}

fn a_frozen_pod_continues_after_the_thaw(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let frozen = runtime.freeze_pod(&pod.sandbox_id);
    assert_eq!(states(&runtime), [ContainerState::ContainerRunning]);
    drop(frozen);
    runtime.kill_container_process(&pod.containers[0]);
    runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
}

fn pods_have_the_labels_of_a_kubelets_pods(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let hash = "0123456789abcdef0123456789abcdef";
    let etcd = PodSpec::new("etcd-node").namespace("kube-system").static_pod(hash);
    let etcd = etcd.label("tier", "control-plane");
    let container = ContainerSpec::new("etcd").hash("5f3a").label("extra", "yes");
    let first = runtime.run_pod(&etcd, std::slice::from_ref(&container));
    runtime.stop_pod(&first.sandbox_id);
    let second = runtime.run_pod(&etcd.attempt(1), &[container.attempt(1)]);
    assert_eq!([&*first.uid, &*second.uid], [hash; 2]);

    let pods = runtime.list_pods();
    let pod = pods.iter().find(|pod| pod.id == second.sandbox_id).unwrap();
    assert_eq!(pods.len(), 2);
    assert_eq!(pod.metadata.as_ref().unwrap().attempt, 1);
    assert_eq!(value(&pod.labels, "io.kubernetes.pod.uid"), hash);
    assert_eq!(value(&pod.labels, "tier"), "control-plane");
    assert_eq!(value(&pod.annotations, "kubernetes.io/config.source"), "file");

    let containers = runtime.list_containers();
    let container = containers.iter().find(|one| one.id == second.containers[0]).unwrap();
    assert_eq!(value(&container.labels, "io.kubernetes.container.name"), "etcd");
    assert_eq!(value(&container.labels, "io.kubernetes.pod.name"), "etcd-node");
    assert_eq!(value(&container.annotations, "io.kubernetes.container.hash"), "5f3a");
}

/// Returns the value of a label or an annotation.
fn value<'a>(pairs: &'a [Pair], key: &str) -> &'a str {
    &pairs.iter().find(|pair| pair.key == key).unwrap_or_else(|| panic!("no {key} in {pairs:?}")).value
}

fn states(runtime: &RealRuntime) -> Vec<ContainerState> {
    let containers = runtime.list_containers();
    containers.iter().map(Container::state).collect()
}

fn assert_silent<T: std::fmt::Debug>(answer: &Result<T, Status>) {
    let code = answer.as_ref().map_err(Status::code).unwrap_err();
    assert_eq!(code, Code::DeadlineExceeded, "{answer:?}");
}
