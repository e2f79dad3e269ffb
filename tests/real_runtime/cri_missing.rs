//! Tests with faults that keep a real containerd from starting or from serving CRI v1: `health` (D06) and `preflight`
//! must name each fault.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output};
use crate::real;

on_each_containerd! {
    disabled_cri_plugin_is_named_with_its_line
    short_name_of_a_plugin_keeps_containerd_from_starting
    settings_that_the_cri_plugin_refuses_are_named
    broken_toml_is_named_with_its_line
    used_up_inotify_instances_are_named
    healthy_containerd_has_no_finding_about_its_cri
}

/// The socket that the kubelet of the node uses.
const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
    cgroupDriver: cgroupfs\nfailCgroupV1: false\nfailSwapOn: false\n";

/// Creates a node directory as kubeadm sets it up. Its containerd socket and configuration file are links to this
/// runtime's, and its `/proc` is this machine's.
fn node_of(runtime: &RealRuntime) -> PathBuf {
    let node = runtime.directory().join("kubeadm-node");
    let _ = fs::remove_dir_all(&node);
    for directory in
        ["run/containerd", "etc/containerd", "etc/systemd/system/kubelet.service.d", "var/lib/kubelet"]
    {
        fs::create_dir_all(node.join(directory)).unwrap();
    }
    symlink("/proc", node.join("proc")).unwrap();
    // The daemon's command line names its file by this machine's path.
    symlink(runtime.directory(), below(&node, runtime.directory())).unwrap();
    symlink(runtime.socket(), node.join("run/containerd/containerd.sock")).unwrap();
    symlink(runtime.config_file(), node.join("etc/containerd/config.toml")).unwrap();
    fs::write(node.join("etc/systemd/system/kubelet.service.d/10-kubeadm.conf"), "").unwrap();
    fs::write(node.join("var/lib/kubelet/config.yaml"), KUBELET).unwrap();
    node
}

/// Returns the path below a node at which a path of this machine is looked up; its directory is made.
fn below(node: &Path, path: &Path) -> PathBuf {
    let below = node.join(path.strip_prefix("/").unwrap());
    fs::create_dir_all(below.parent().unwrap()).unwrap();
    below
}

fn health(node: &Path) -> Value {
    let root = node.to_str().unwrap();
    let arguments = ["health", "--host-root", root, "-r", ENDPOINT, "-o", "json"];
    json(&Invocation::new(&arguments).env("PLEGCTL_TEST_NODE", node).run())
}

fn preflight(node: &Path) -> Value {
    let arguments = ["preflight", "--kubelet-version", "1.36", "-o", "json"];
    json(&Invocation::new(&arguments).env("PLEGCTL_TEST_NODE", node).run())
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns the primary finding, which is a certain D06.
fn d06(report: &Value) -> &Value {
    let primary = &report["primary"];
    assert_eq!((&primary["id"], &primary["confidence"]), (&"D06".into(), &"certain".into()), "{report:#}");
    primary
}

/// Returns the checks about the runtime that preflight found, as id and line.
fn checks(report: &Value) -> Vec<(String, Option<u64>)> {
    let findings = report["findings"].as_array().unwrap().iter();
    let of_runtime = findings.filter(|finding| finding["id"].as_str().unwrap().starts_with("KP05"));
    of_runtime.map(|finding| (finding["id"].as_str().unwrap().to_owned(), finding["line"].as_u64())).collect()
}

#[track_caller]
fn assert_names(finding: &Value, parts: &[&str]) {
    let text = finding.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in {finding:#}");
    }
}

/// Returns the line of the configuration with `part`, from 1.
fn line_of(runtime: &RealRuntime, part: &str) -> u64 {
    let text = fs::read_to_string(runtime.config_file()).unwrap();
    let line = text.lines().position(|line| line.contains(part)).unwrap();
    u64::try_from(line).unwrap() + 1
}

/// Adds a plugin to the list of disabled plugins.
fn disable(runtime: &RealRuntime, plugin: &str) {
    let list = "disabled_plugins = [";
    runtime.edit_config(|text| text.replace(list, &format!("{list}\"{plugin}\", ")));
}

fn disabled_cri_plugin_is_named_with_its_line(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let plugins: &[&str] = match version {
        Containerd::V2 => {
            &["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]
        }
        _ => &["io.containerd.grpc.v1.cri"],
    };
    for plugin in plugins {
        runtime.kill_daemon();
        disable(&runtime, plugin);
        assert!(runtime.start_without_cri(), "containerd runs without the CRI");
        let line = line_of(&runtime, "disabled_plugins");
        // With this endpoint, plegctl takes the path of the configuration from the daemon's command line.
        let arguments = ["health", "-r", &runtime.endpoint(), "--host-root", "/", "-o", "json"];
        let report = json(&Invocation::new(&arguments).on_this_machine().run());
        let place = format!("{}:{line}:", runtime.config_file().display());
        assert_names(d06(&report), &["disabled_plugins has its CRI plugin", &place, plugin]);
        assert_eq!(report["verdict"], "unhealthy");
        let node = node_of(&runtime);
        let place = format!("/config.toml:{line}:");
        assert_names(d06(&health(&node)), &["disabled_plugins has its CRI plugin", &place, plugin]);
        let found = preflight(&node);
        assert_eq!(
            checks(&found),
            [("KP051".to_owned(), None), ("KP052".to_owned(), Some(line))],
            "{found:#}"
        );
    }
}

fn short_name_of_a_plugin_keeps_containerd_from_starting(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.kill_daemon();
    disable(&runtime, "cri");
    assert!(!runtime.start_without_cri(), "containerd does not start");
    let node = node_of(&runtime);
    assert_names(d06(&health(&node)), &["containerd cannot read its configuration", "disabled_plugins has "]);
    let found = preflight(&node);
    let line = line_of(&runtime, "disabled_plugins");
    assert_eq!(checks(&found), [("KP050".to_owned(), None), ("KP053".to_owned(), Some(line))], "{found:#}");
}

fn settings_that_the_cri_plugin_refuses_are_named(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let (runtimes, images) = match version {
        Containerd::V2 => ("io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"),
        _ => ("io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"),
    };
    let healthy = fs::read_to_string(runtime.config_file()).unwrap();
    let faults = [
        (
            format!("[plugins.\"{runtimes}\".containerd]\ndefault_runtime_name = \"nvidia\"\n"),
            "no such runtime is defined",
            "default_runtime_name",
        ),
        (
            format!(
                "[plugins.\"{images}\".registry]\nconfig_path = \"/etc/certs.d\"\n\
                 [plugins.\"{images}\".registry.mirrors.\"docker.io\"]\nendpoint = [\"https://mirror.local\"]\n"
            ),
            "registry.mirrors and registry.config_path",
            "registry.mirrors.",
        ),
    ];
    for (tables, why, place) in faults {
        runtime.kill_daemon();
        runtime.edit_config(|_| format!("{healthy}\n{tables}"));
        assert!(runtime.start_without_cri(), "containerd runs without the CRI");
        let node = node_of(&runtime);
        assert_names(d06(&health(&node)), &["its CRI plugin refuses its settings", why]);
        let found = preflight(&node);
        let line = line_of(&runtime, place);
        assert_eq!(
            checks(&found),
            [("KP051".to_owned(), None), ("KP053".to_owned(), Some(line))],
            "{found:#}"
        );
        assert_names(&found, &[why]);
    }
}

fn broken_toml_is_named_with_its_line(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.kill_daemon();
    runtime.edit_config(|text| format!("{text}\n[plugins.\"broken\"\nx = 1\n"));
    assert!(!runtime.start_without_cri(), "containerd does not start");
    let line = line_of(&runtime, "broken");
    let node = node_of(&runtime);
    let place = format!("/etc/containerd/config.toml:{line}:");
    assert_names(d06(&health(&node)), &["containerd cannot read its configuration", &place]);
    let found = preflight(&node);
    assert_eq!(checks(&found), [("KP050".to_owned(), None), ("KP053".to_owned(), Some(line))], "{found:#}");
}

/// Runs containerd and plegctl in a user namespace with a limit of one inotify instance, which another process uses. So
/// the processes outside of the namespace keep theirs.
fn used_up_inotify_instances_are_named(version: Containerd) {
    const SCRIPT: &str = r#"
        set -eu
        directory=$1 log=$2 plegctl=$3; shift 3
        echo 1 >/proc/sys/user/max_inotify_instances
        : >"$directory/watched"
        tail -f "$directory/watched" &
        until ls -l "/proc/$!/fd" | grep -q inotify; do sleep 0.05; done
        "$@" >"$log" 2>&1 &
        until grep -q 'successfully booted' "$log"; do sleep 0.05; done
        export PLEGCTL_TEST_NODE="$directory/kubeadm-node"
        "$plegctl" health --host-root "$PLEGCTL_TEST_NODE" -r unix:///run/containerd/containerd.sock -o json || true
        echo --
        "$plegctl" preflight --kubelet-version 1.36 -o json || true
    "#;
    let Some(runtime) = real(version) else { return };
    runtime.kill_daemon();
    node_of(&runtime);
    let daemon = runtime.daemon_command();
    let log = runtime.directory().join("namespace.log");
    let mut arguments: Vec<String> = [
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend([SCRIPT, "sh"].map(str::to_owned));
    arguments.extend([runtime.directory(), &log].map(|path| path.display().to_string()));
    arguments.push(env!("CARGO_BIN_EXE_plegctl").to_owned());
    arguments.push(daemon.get_program().to_str().unwrap().to_owned());
    arguments.extend(daemon.get_args().map(|argument| argument.to_str().unwrap().to_owned()));
    let mut run = Invocation::program("unshare", &arguments);
    for (name, value) in daemon.get_envs() {
        run = run.env(name.to_str().unwrap(), value.unwrap());
    }
    let output = run.run();
    let (health, preflight) = output.stdout.split_once("--\n").unwrap_or_else(|| panic!("{output}"));
    let health: Value = serde_json::from_str(health).unwrap_or_else(|why| panic!("{why}: {output}"));
    assert_names(
        d06(&health),
        &["root's inotify instances are used up", "root uses 1 of 1 inotify instances; tail["],
    );
    let found: Value = serde_json::from_str(preflight).unwrap_or_else(|why| panic!("{why}: {output}"));
    assert_eq!(checks(&found), [("KP051".to_owned(), None), ("KP054".to_owned(), None)], "{found:#}");
    assert_names(&found, &["root's processes use 1 of 1 inotify instances"]);
}

fn healthy_containerd_has_no_finding_about_its_cri(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let node = node_of(&runtime);
    let report = health(&node);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["id"] != "D06"), "{report:#}");
    let found = preflight(&node);
    assert_eq!(checks(&found), [], "{found:#}");
    // preflight compares the kubelet's driver with the runtime's answer; containerd 1.x does not answer, so there it uses
    // containerd's configuration.
    let text = KUBELET.replace("cgroupfs", "systemd");
    fs::write(node.join("var/lib/kubelet/config.yaml"), text).unwrap();
    let found = preflight(&node);
    assert_eq!(checks(&found).iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["KP055"], "{found:#}");
    let answers = version == Containerd::V2;
    let part = if answers { "the kubelet uses the runtime's driver" } else { "config.toml" };
    assert_names(&found, &[part]);
}
