//! Whether the harness does what it says, on each containerd: what the other tests here stand on.

use std::time::Duration;

use rustix::process::test_kill_process;
use tonic::Code;

use crate::generated::{ContainerState, PodSandboxState};
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::{real, wait_for};

/// How long a call may hang before a test believes that it does.
const HANGS: Duration = Duration::from_millis(500);

/// One test for each containerd, so that they run side by side and fail by name.
macro_rules! on_each_containerd {
    ($($test:ident)*) => {
        $(mod $test {
            use crate::packages::Containerd;

            #[test]
            fn on_containerd_1_6() {
                super::$test(Containerd::V1_6);
            }

            #[test]
            fn on_containerd_1_7() {
                super::$test(Containerd::V1_7);
            }

            #[test]
            fn on_containerd_2() {
                super::$test(Containerd::V2);
            }
        })*
    };
}

on_each_containerd! {
    a_pod_runs_dies_and_goes
    pods_outlive_a_restart_of_the_daemon
}

fn a_pod_runs_dies_and_goes(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let answer = runtime.calls.version(crate::PATIENCE).unwrap();
    assert!(answer.runtime_version.starts_with(version.version_prefix()), "{answer:?}");

    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let listed = runtime.list_containers();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].pod_sandbox_id, pod.sandbox_id);
    assert_eq!(listed[0].state(), ContainerState::ContainerRunning);

    runtime.kill_container_process(&pod.containers[0]);
    let status = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    assert_eq!(status.exit_code, 137);

    runtime.stop_pod(&pod.sandbox_id);
    assert_eq!(runtime.list_pods()[0].state(), PodSandboxState::SandboxNotready);
    runtime.remove_pod(&pod.sandbox_id);
    assert_eq!(runtime.list_pods(), []);
    assert_eq!(runtime.list_containers(), []);
}

fn pods_outlive_a_restart_of_the_daemon(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pods = runtime.run_pods(3, 1);
    runtime.restart_daemon();
    let listed = runtime.list_containers();
    assert_eq!(listed.len(), pods.len());
    for container in listed {
        assert_eq!(container.state(), ContainerState::ContainerRunning, "{container:?}");
    }
}
