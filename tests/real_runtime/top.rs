//! `plegctl top` on real containerd, in a terminal of tmux and driven by its keys.

use crate::packages::Containerd;
use crate::plegctl::plegctl;
use crate::pods::{ContainerSpec, PodSpec};
use crate::real;
use crate::terminal::{Shell, has_tmux};

on_each_containerd! {
    keys_work_while_a_container_dies_a_list_hangs_and_the_node_recovers
}

fn keys_work_while_a_container_dies_a_list_hangs_and_the_node_recovers(version: Containerd) {
    if !has_tmux() {
        return;
    }
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app"), ContainerSpec::new("side")]);
    let shell = Shell::open((100, 30));
    let before = shell.settings("before");
    shell.top(&format!("-r '{}' --period 200ms", runtime.endpoint()));
    shell.shows("HEALTHY (calls only; kubelet not looked at)");
    shell.shows("first relist in ");

    runtime.kill_container_process(&pod.containers[1]);
    let screen = shell.shows("running → exited (137");
    assert!(screen.contains("web  side"), "{screen}");
    shell.press(&["/"]);
    shell.types("no such pod");
    shell.press(&["Enter"]);
    shell.until("no transition of another pod", |screen| {
        screen.contains("filter: no such pod") && !screen.contains("running → exited")
    });
    shell.press(&["Escape"]);
    shell.shows("running → exited (137");

    let held = runtime.hold_status_lock(&pod.containers[0]);
    let screen = shell.shows("UNHEALTHY  no answer for");
    assert!(screen.contains("NotReady at the latest at ") && screen.contains("UTC (in "), "{screen}");
    shell.press(&["Down", "Enter"]);
    let screen = shell.shows("to look further");
    assert!(screen.contains("UNHEALTHY"), "{screen}");
    shell.press(&["Escape"]);
    let bundle = shell.path("node.tar.gz");
    shell.press(&["s"]);
    shell.types(&bundle);
    shell.press(&["Enter"]);
    shell.shows("bundle (unhealthy) in ");
    let output = plegctl(&["health", "--from", &bundle]);
    assert_eq!(output.code, Some(1), "{output}");
    drop(held);

    shell.until("that the node recovers", |screen| {
        screen.contains("HEALTHY (calls only; kubelet not looked at)") && !screen.contains("UNHEALTHY")
    });
    shell.press(&["q"]);
    shell.until("the shell", |screen| !screen.contains("PENDING CALLS"));
    assert_eq!(shell.settings("after"), before);
}
