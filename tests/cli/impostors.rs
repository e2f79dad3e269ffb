//! Tests with impostors: processes that have the name `kubelet` but are not the node's kubelet. Here plegctl runs as root.
//! Each test uses `unshare` to get its own PID namespace and process table, so that it does not see the machine's
//! processes. This needs root; without root the tests are skipped with a message.

use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process, thread};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

use crate::support::fake::FakeRuntime;
use crate::support::node::Node;
use crate::support::plegctl::{Invocation, Output, copy_program};

/// The user id of `nobody`.
const STRANGER: u32 = 65_534;

/// A directory with a program named `kubelet`; it is removed when the test ends.
struct ImpostorDir(PathBuf);

impl ImpostorDir {
    /// Returns `None` if the rights for `unshare` are missing.
    fn new(name: &str) -> Option<Self> {
        let unshared = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
        if !unshared.is_ok_and(|output| output.status.success()) {
            assert!(
                env::var_os("CI").is_none_or(|ci| ci != "true"),
                "unshare does not work although CI=true"
            );
            println!("skipped: the impostors need root and unshare");
            return None;
        }
        let path = env::temp_dir().join(format!("plegctl-impostor-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("etc/kubernetes")).unwrap();
        let shell = fs::canonicalize("/bin/sh").unwrap();
        copy_program(shell, path.join("kubelet"));
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

    /// Runs plegctl after the script `before`. In `before`, `$K` starts a kubelet: a program that waits for a line that
    /// never comes, whatever its arguments are. All processes end with the namespace.
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

/// Detects whether a program opens one of the files.
struct OpenWatch(OwnedFd);

impl OpenWatch {
    fn watch(files: &[PathBuf]) -> Self {
        let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        for file in files {
            add_watch(&watch, file, WatchFlags::OPEN).unwrap();
        }
        Self(watch)
    }

    fn any(&self) -> bool {
        Reader::new(&self.0, &mut [MaybeUninit::uninit(); 4096]).next().is_ok()
    }
}

impl Drop for ImpostorDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn kubelet_of_another_user_gets_no_token_that_only_root_may_read() {
    let Some(scene) = ImpostorDir::new("token") else { return };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    // Each connection is counted and gets no answer.
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
    let option = format!("--kubeconfig={}", kubeconfig.display());
    let stranger = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups $K {option} &");
    let output = scene.plegctl(&stranger, &["pods", "--no-cri"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert_eq!(connections.load(Ordering::SeqCst), 0, "plegctl connected to its server: {output}");
    assert!(output.stderr.contains(&format!("it runs as user {STRANGER}")), "{output}");
    // With the same command line, a kubelet of root counts, so plegctl connects to the server.
    let output = scene.plegctl(&format!("$K {option} &"), &["pods", "--no-cri"]);
    assert!(connections.load(Ordering::SeqCst) > 0, "{output}");
}

#[test]
fn manifest_path_of_another_users_kubelet_is_not_opened() {
    let Some(scene) = ImpostorDir::new("manifests") else { return };
    let secret = scene.file("secret/key.yaml", "kind: a: only-root-may-read-this\n", 0o600);
    fs::set_permissions(secret.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let option = format!("--pod-manifest-path={}", secret.display());
    let stranger = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups $K {option} &");
    // The real kubelet has its own directory, so that plegctl does not use the machine's default path.
    let real = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644);
    let start_kubelet = format!("$K --pod-manifest-path={} &", real.parent().unwrap().display());
    let lint = ["static-pods", "lint", "--no-cri"];
    let output = scene.plegctl(
        &format!("{stranger}\nuntil grep -q kubelet /proc/*/comm; do :; done\n{start_kubelet}"),
        &lint,
    );
    assert!(!output.to_string().contains("only-root-may-read-this"), "{output}");
    assert!(
        output.stdout.contains("manifests/pod.yaml"),
        "plegctl uses the real kubelet, although its pid is higher: {output}"
    );
    // If the user passes the file, lint prints the line. So the first run would have printed it if it had read the
    // file.
    let output = scene.plegctl("true", &[lint.as_slice(), &[secret.to_str().unwrap()]].concat());
    assert!(output.stdout.contains("only-root-may-read-this"), "{output}");
}

#[test]
fn kubelet_in_another_namespace_is_not_the_nodes_kubelet() {
    let Some(scene) = ImpostorDir::new("namespaces") else { return };
    let directory = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644);
    let option = format!("--pod-manifest-path={}", directory.parent().unwrap().display());
    for (flags, why) in [
        ("--pid --fork", "it runs in another pid namespace"),
        ("--mount", "it runs in another mount namespace"),
    ] {
        let output = scene.plegctl(&format!("unshare {flags} $K {option} &"), &["pods", "--no-cri", "-v"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(why), "{output}");
    }
    let output = scene.plegctl(&format!("$K {option} &"), &["pods", "--no-cri"]);
    assert!(!output.stderr.contains("does not count as"), "{output}");
    assert!(output.stdout.contains("file"), "{output}");
}

#[test]
fn set_user_id_program_is_no_kubelet_even_if_root_runs_it() {
    let Some(scene) = ImpostorDir::new("setuid") else { return };
    fs::set_permissions(scene.path().join("kubelet"), fs::Permissions::from_mode(0o4755)).unwrap();
    let output = scene.plegctl("$K --pod-manifest-path=/etc &", &["pods", "--no-cri"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("its program is set-user-id"), "{output}");
}

#[test]
fn users_own_kubelet_counts_for_that_user() {
    let Some(scene) = ImpostorDir::new("rootless") else { return };
    let directory = scene.file("manifests/pod.yaml", "kind: Pod\n", 0o644).parent().unwrap().to_owned();
    let as_user = format!("setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups");
    let kubelet = format!("{as_user} $K --pod-manifest-path={} &", directory.display());
    let plain = format!("{kubelet}\nuntil grep -q '^kubelet$' /proc/*/comm; do :; done\nset -- {as_user}");
    let folder = scene.path().display();
    // The build directory may not be readable for that user.
    copy_program(env!("CARGO_BIN_EXE_plegctl"), scene.path().join("plegctl"));
    let command = format!("{plain}\n\"$@\" {folder}/plegctl pods --no-cri > {folder}/out 2>&1");
    let output = scene.plegctl(&command, &["explain"]);
    let text = fs::read_to_string(scene.path().join("out")).unwrap();
    assert!(text.contains("file") && !text.contains("does not count as"), "{text}\n{output}");
}

#[test]
fn relative_manifest_path_is_resolved_from_the_kubelets_directory() {
    let Some(scene) = ImpostorDir::new("relative") else { return };
    scene.file("theirs/manifests/theirs.yaml", "kind: Pod\n", 0o644);
    scene.file("ours/manifests/ours.yaml", "kind: Pod\n", 0o644);
    let folder = scene.path().display();
    let before = format!("cd {folder}/theirs; $K --pod-manifest-path=manifests &\ncd {folder}/ours");
    let output = scene.plegctl(&before, &["static-pods", "lint", "--no-cri"]);
    assert!(output.stdout.contains("theirs.yaml") && !output.stdout.contains("ours.yaml"), "{output}");
}

/// Starts impostors before and after the node's own kubelet: one of another user, and one of root in other PID and
/// mount namespaces. All impostors are stopped, so a report that counts one in is different.
#[test]
fn impostors_next_to_the_kubelet_change_no_answer_and_open_no_file() {
    let Some(scene) = ImpostorDir::new("several") else { return };
    let fake =
        FakeRuntime::start(Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "web"));
    let real = scene.file("manifests/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n", 0o644);
    let impostor_files = [
        scene.file("theirs/manifests/theirs.yaml", "kind: Pod\n", 0o644),
        scene.file("theirs/kubeconfig", "apiVersion: v1\nkind: Config\n", 0o644),
        scene.file("theirs/config.yaml", "staticPodPath: /etc\nhealthzPort: 1\n", 0o644),
    ];
    let opened = OpenWatch::watch(&impostor_files);
    let folder = scene.path().display();
    let start_kubelet = format!(
        "$K --pod-manifest-path={} --hostname-override=n1 & REAL=$!",
        real.parent().unwrap().display()
    );
    let options = format!(
        "--pod-manifest-path={folder}/theirs/manifests --kubeconfig={folder}/theirs/kubeconfig \
         --config={folder}/theirs/config.yaml --hostname-override=theirs"
    );
    let wait_for = |kubelets| {
        format!("until [ $(cat /proc/[0-9]*/comm | grep -c '^kubelet$') -ge {kubelets} ]; do :; done")
    };
    let impostors = format!(
        "setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups $K {options} &\n\
         unshare --pid --mount --fork $K {options} &"
    );
    let stopped = "for comm in /proc/[0-9]*/comm; do\n\
                   pid=${comm#/proc/} pid=${pid%/comm}\n\
                   [ $pid = \"$REAL\" ] || [ \"$(cat $comm)\" != kubelet ] || kill -STOP $pid\n\
                   done";
    let runtime = fake.endpoint();
    for command in [
        ["health", "-o", "json", "-r", &runtime].as_slice(),
        &["pods", "--no-cri"],
        &["static-pods", "lint", "--no-cri"],
    ] {
        let alone = scene.plegctl(&start_kubelet, command);
        assert!(alone.code.is_some_and(|code| code < 2), "{alone}");
        let before = format!("{impostors}\n{}\n{stopped}\n{start_kubelet}", wait_for(2));
        let after = format!("{start_kubelet}\n{impostors}\n{}\n{stopped}", wait_for(3));
        for script in [before, after] {
            let with_impostors = scene.plegctl(&script, command);
            assert_eq!(
                (with_impostors.code, without_times(&with_impostors)),
                (alone.code, without_times(&alone)),
                "{with_impostors}\n{alone}"
            );
            assert!(!opened.any(), "plegctl opened a file that an impostor names: {with_impostors}");
        }
    }
}

/// Returns the parts of an output that do not depend on time.
fn without_times(output: &Output) -> Vec<String> {
    let Ok(report) = serde_json::from_str::<serde_json::Value>(&output.stdout) else {
        return output.stdout.lines().map(str::to_owned).collect();
    };
    let ids = report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].to_string());
    let unchecked = report["notChecked"].as_array().unwrap().iter().map(|one| one["what"].to_string());
    [report["verdict"].to_string(), report["node"].to_string(), report["kubelet"].to_string()]
        .into_iter()
        .chain(ids)
        .chain(unchecked)
        .collect()
}
