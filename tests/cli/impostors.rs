//! Processes that are named `kubelet` and are none, beside the real binary run as root.
//!
//! Each test has a pid namespace and a process table of its own, made by `unshare`, so that it sees nothing of the machine.
//! That needs root; without it the tests are skipped and say so.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process, thread};

use crate::support::plegctl::{Invocation, Output};

/// Nobody's account.
const STRANGER: u32 = 65_534;

/// A folder with a program called `kubelet` in it, which goes when the test ends.
struct Scene(PathBuf);

impl Scene {
    /// Nothing where the rights for it are missing.
    fn new(name: &str) -> Option<Self> {
        let unshared = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
        if !unshared.is_ok_and(|output| output.status.success()) {
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "CI has to be able to run these tests");
            println!("skipped: a process under another user and in another namespace needs root and unshare");
            return None;
        }
        let path = env::temp_dir().join(format!("plegctl-impostor-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("etc/kubernetes")).unwrap();
        let shell = fs::canonicalize("/bin/sh").unwrap();
        fs::copy(shell, path.join("kubelet")).unwrap();
        for open in [path.as_path(), &path.join("kubelet")] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Some(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Runs plegctl after the kubelets that `before` starts. In `before`, `$K` is one: a program that waits for a line that
    /// never comes, whatever arguments follow. Everything ends with the namespace.
    fn plegctl(&self, before: &str, arguments: &[&str]) -> Output {
        let folder = self.0.display();
        let script = format!(
            "[ -e {folder}/never ] || mkfifo {folder}/never\n\
             echo 'read line < {folder}/never' > {folder}/wait\n\
             K='{folder}/kubelet {folder}/wait'\n\
             {before}\n\
             until [ $(cat /proc/[0-9]*/comm | grep -c '^kubelet$') -ge {} ]; do :; done\n\
             exec {} {}",
            before.matches("$K").count(),
            env!("CARGO_BIN_EXE_plegctl"),
            arguments.join(" "),
        );
        let unshare = ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script];
        Invocation::program("unshare", &unshare).on_this_machine().run()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_strangers_kubelet_gets_no_token_that_only_root_may_read() {
    let Some(scene) = Scene::new("token") else { return };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    // Whoever asks is counted and gets no answer.
    thread::spawn(move || server.incoming().for_each(|_| _ = counted.fetch_add(1, Ordering::SeqCst)));
    let token = scene.file("token", "only-root-may-read-this", 0o600);
    let kubeconfig = scene.file(
        "kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
             users: [{{name: u, user: {{tokenFile: {}}}}}]\n",
            token.display()
        ),
        0o644,
    );
    let named = format!("--kubeconfig={}", kubeconfig.display());
    let stranger = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups $K {named} &");
    let output = scene.plegctl(&stranger, &["pods", "--no-cri"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert_eq!(connections.load(Ordering::SeqCst), 0, "its server was asked: {output}");
    assert!(output.stderr.contains(&format!("it runs as user {STRANGER}")), "{output}");
    // Root's own kubelet with the same command line is believed, and does ask.
    let output = scene.plegctl(&format!("$K {named} &"), &["pods", "--no-cri"]);
    assert!(connections.load(Ordering::SeqCst) > 0, "{output}");
}

#[test]
fn a_strangers_manifest_path_is_not_opened_and_its_lines_are_not_printed() {
    let Some(scene) = Scene::new("manifests") else { return };
    let secret = scene.file("secret/key.yaml", "kind: a: only-root-may-read-this\n", 0o600);
    fs::set_permissions(secret.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let named = format!("--pod-manifest-path={}", secret.display());
    let stranger = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups $K {named} &");
    // A root of the node with a directory of its own, so that the usual path is not the machine's.
    let real = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644);
    let own = format!("$K --pod-manifest-path={} &", real.parent().unwrap().display());
    let lint = ["static-pods", "lint", "--no-cri"];
    let output =
        scene.plegctl(&format!("{stranger}\nuntil grep -q kubelet /proc/*/comm; do :; done\n{own}"), &lint);
    assert!(!output.to_string().contains("only-root-may-read-this"), "{output}");
    assert!(output.stdout.contains("manifests/pod.yaml"), "the real kubelet's has the higher pid: {output}");
    // That line would have been printed: the user himself may have it so.
    let output = scene.plegctl("true", &[lint.as_slice(), &[secret.to_str().unwrap()]].concat());
    assert!(output.stdout.contains("only-root-may-read-this"), "{output}");
}

#[test]
fn roots_kubelet_in_another_namespace_is_not_the_nodes() {
    let Some(scene) = Scene::new("namespaces") else { return };
    let directory = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644);
    let named = format!("--pod-manifest-path={}", directory.parent().unwrap().display());
    for (flags, why) in [
        ("--pid --fork", "it runs in another pid namespace"),
        ("--mount", "it runs in another mount namespace"),
    ] {
        let output = scene.plegctl(&format!("unshare {flags} $K {named} &"), &["pods", "--no-cri", "-v"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(why), "{output}");
    }
    let output = scene.plegctl(&format!("$K {named} &"), &["pods", "--no-cri"]);
    assert!(!output.stderr.contains("is not taken for"), "{output}");
    assert!(output.stdout.contains("file"), "{output}");
}

#[test]
fn a_program_that_lends_its_rights_is_no_kubelet_even_when_root_runs_it() {
    let Some(scene) = Scene::new("lends") else { return };
    fs::set_permissions(scene.path().join("kubelet"), fs::Permissions::from_mode(0o4755)).unwrap();
    let output = scene.plegctl("$K --pod-manifest-path=/etc &", &["pods", "--no-cri"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("its program is set-user-id"), "{output}");
}

#[test]
fn a_plain_users_own_kubelet_works_for_him() {
    let Some(scene) = Scene::new("rootless") else { return };
    let directory = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644).parent().unwrap().to_owned();
    let as_user = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups");
    let kubelet = format!("{as_user} $K --pod-manifest-path={} &", directory.display());
    let plain = format!("{kubelet}\nuntil grep -q '^kubelet$' /proc/*/comm; do :; done\nset -- {as_user}");
    let folder = scene.path().display();
    // The build's own folder may be closed to that user.
    fs::copy(env!("CARGO_BIN_EXE_plegctl"), scene.path().join("plegctl")).unwrap();
    let command = format!("{plain}\n\"$@\" {folder}/plegctl pods --no-cri > {folder}/out 2>&1");
    let output = scene.plegctl(&command, &["explain"]);
    let text = fs::read_to_string(scene.path().join("out")).unwrap();
    assert!(text.contains("file") && !text.contains("is not taken for"), "{text}\n{output}");
}

#[test]
fn a_relative_manifest_path_is_the_kubelets_and_not_ours() {
    let Some(scene) = Scene::new("relative") else { return };
    scene.file("theirs/manifests/theirs.yaml", "kind: Pod\n", 0o644);
    scene.file("ours/manifests/ours.yaml", "kind: Pod\n", 0o644);
    let folder = scene.path().display();
    let before = format!("cd {folder}/theirs; $K --pod-manifest-path=manifests &\ncd {folder}/ours");
    let output = scene.plegctl(&before, &["static-pods", "lint", "--no-cri"]);
    assert!(output.stdout.contains("theirs.yaml") && !output.stdout.contains("ours.yaml"), "{output}");
}
