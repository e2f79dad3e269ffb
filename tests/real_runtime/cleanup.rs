//! Tests of the harness: a test leaves no process, mount or file behind, even if it is killed, and a skipped test
//! prints the reason.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::sweep;
use crate::faults::{arguments, processes};
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, PodSpec};
use crate::{real, wait_for};

/// `victim` is a test that other tests kill. It prints its socket's path after this mark.
const ENDPOINT_MARK: &str = "endpoint=unix://";

#[test]
fn dropped_runtime_leaves_nothing_behind() {
    let Some(runtime) = real(Containerd::V2) else {
        return;
    };
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let directory = runtime.directory().to_owned();
    assert_ne!(leftovers(&directory), Vec::<String>::new());

    // The state that is hardest to clean up: a stopped daemon, a stopped shim, and a frozen process, which SIGKILL
    // alone does not end.
    std::mem::forget(runtime.freeze_pod(&pod.sandbox_id));
    std::mem::forget(runtime.stop_shim(&pod.sandbox_id));
    std::mem::forget(runtime.stop_daemon());
    // A network plugin that hangs is in no cgroup of the runtime.
    let plugin = directory.join("cni-bin/hanging");
    fs::write(&plugin, "read line\n").unwrap();
    let mut plugin = Command::new("sh").arg(plugin).stdin(Stdio::piped()).spawn().unwrap();
    drop(runtime);
    assert_eq!(leftovers(&directory), Vec::<String>::new());
    assert_eq!(plugin.wait().unwrap().signal(), Some(9));
}

#[test]
fn killed_test_leaves_nothing_behind() {
    if real_is_skipped() {
        return;
    }
    let mut victim = run_victim(&std::env::temp_dir());
    let directory = victim_directory(&mut victim);
    assert_ne!(leftovers(&directory), Vec::<String>::new());
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for("the watcher to clean up", || leftovers(&directory).is_empty().then_some(()));
}

#[test]
fn next_run_removes_what_a_killed_watcher_left() {
    if real_is_skipped() {
        return;
    }
    // A separate directory, so that no other test sweeps it first.
    let place = std::env::temp_dir().join(format!("plegctl-sweep-{}", std::process::id()));
    fs::create_dir(&place).unwrap();
    let mut victim = run_victim(&place);
    let directory = victim_directory(&mut victim);
    kill_process(watcher_of(&directory), Signal::KILL).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_ne!(leftovers(&directory), Vec::<String>::new());

    wait_for("the sweep to clean up", || {
        sweep(&place);
        leftovers(&directory).is_empty().then_some(())
    });
    fs::remove_dir(&place).unwrap();
}

#[test]
fn without_packages_the_reason_is_printed() {
    let output = run_without_packages("false");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(stderr.contains("skipped cleanup::victim: "), "{stderr}");
}

#[test]
fn without_packages_ci_fails() {
    let output = run_without_packages("true");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{output:?}");
    assert!(stdout.contains("no real runtime although CI=true: "), "{stdout}");
}

#[test]
#[ignore = "is killed by killed_test_leaves_nothing_behind"]
fn victim() {
    let Some(runtime) = real(Containerd::V1_7) else {
        return;
    };
    runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    println!("{ENDPOINT_MARK}{}", runtime.endpoint().trim_start_matches("unix://"));
    loop {
        std::thread::park();
    }
}

/// Whether this machine has no real containerd.
fn real_is_skipped() -> bool {
    real(Containerd::V1_7).is_none()
}

/// Runs this test binary with the victim only.
fn victim_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cleanup::victim", "--ignored"]);
    command
}

/// Starts the test process that will be killed.
fn run_victim(place: &Path) -> Child {
    victim_command().env("TMPDIR", place).arg("--nocapture").stdout(Stdio::piped()).spawn().unwrap()
}

fn run_without_packages(ci: &str) -> Output {
    victim_command()
        .env("CI", ci)
        // No directory can exist below a file, so the harness neither finds nor downloads packages.
        .env("PLEGCTL_RUNTIME_CACHE", "/dev/null/nowhere")
        .output()
        .unwrap()
}

/// Returns the directory of the victim's containerd.
fn victim_directory(victim: &mut Child) -> std::path::PathBuf {
    let stdout = BufReader::new(victim.stdout.take().unwrap());
    let socket = stdout.lines().find_map(|line| {
        let line = line.unwrap();
        let (_, socket) = line.split_once(ENDPOINT_MARK)?;
        Some(socket.to_owned())
    });
    Path::new(&socket.expect("the victim prints its endpoint")).parent().unwrap().to_owned()
}

/// Returns the process that cleans up the directory after the end of the test process.
fn watcher_of(directory: &Path) -> Pid {
    let directory = directory.to_str().unwrap();
    let mut all = processes();
    let watcher = all.find(|&pid| arguments(pid).windows(2).any(|pair| pair == ["watch", directory]));
    watcher.expect("the victim has a watcher")
}

/// Returns the files, mounts, processes and cgroups on this machine that have the directory's path or name.
fn leftovers(directory: &Path) -> Vec<String> {
    let path = directory.to_str().unwrap();
    let name = directory.file_name().unwrap();
    let mut found = Vec::new();
    if directory.exists() {
        found.push(path.to_owned());
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(path)).map(str::to_owned));
    // The processes of pods do not have the path, but the kernel does not remove their cgroup before they end.
    found.extend(processes().map(|pid| arguments(pid).join(" ")).filter(|command| command.contains(path)));
    let roots = [Path::new("/sys/fs/cgroup").to_owned()];
    let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path());
    for cgroup in roots.into_iter().chain(hierarchies).map(|root| root.join(name)) {
        if cgroup.exists() {
            found.push(cgroup.display().to_string());
        }
    }
    found
}
