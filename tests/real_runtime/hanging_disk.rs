//! Tests that `health` prints its verdict whatever file is on a hung disk: a FUSE file system whose server never
//! answers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::Invocation;
use crate::real;

/// A mounted file system; every access below it waits until this is dropped.
pub struct HangingDisk {
    server: Child,
    mount: PathBuf,
}

impl HangingDisk {
    /// Mounts a file system whose server never answers.
    pub fn mount(mount: PathBuf) -> Self {
        /// Opens the server's side of the file system and never reads from it.
        const SERVER: &str = "exec 3<>/dev/fuse; mount -i -t fuse \
            -o fd=3,rootmode=40000,user_id=0,group_id=0 hang \"$1\" && echo mounted && read line";
        fs::create_dir(&mount).unwrap();
        let mut server = Command::new("sh")
            .args(["-c", SERVER, "sh"])
            .arg(&mount)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "{} cannot be mounted", mount.display());
        Self { server, mount }
    }

    fn path(&self, name: &str) -> String {
        self.mount.join(name).display().to_string()
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        // When the server ends, the kernel answers the waiting accesses with an error.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
    }
}

/// Adds a kubelet to a process table; its command line names the configuration file `config`.
fn write_kubelet(proc: &Path, config: &str) {
    let process = proc.join("77");
    fs::create_dir_all(&process).unwrap();
    let fields = ["0"; 40].join(" ");
    for (file, text) in [
        ("comm", "kubelet\n".to_owned()),
        ("cmdline", format!("/usr/bin/kubelet\0--config={config}\0")),
        ("stat", format!("77 (kubelet) S 1 {fields}")),
        ("status", "Uid:\t0\t0\t0\t0\nNSpid:\t77\n".to_owned()),
    ] {
        fs::write(process.join(file), text).unwrap();
    }
}

#[test]
fn verdict_is_printed_whatever_file_is_on_a_hung_disk() {
    let Some(runtime) = real(Containerd::V2) else { return };
    with_network(&runtime);
    runtime.run_pods(1, 1);
    let disk = HangingDisk::mount(runtime.directory().join("hang"));
    let node = |name: &str| {
        let node = runtime.directory().join(name);
        for folder in ["proc", "etc", "run"] {
            fs::create_dir_all(node.join(folder)).unwrap();
        }
        symlink(runtime.directory(), node.join("run/containerd")).unwrap();
        node
    };
    let plain = node("plain");
    let settings = node("settings");
    symlink(disk.path("crictl.yaml"), settings.join("etc/crictl.yaml")).unwrap();
    let kubelet = node("kubelet");
    symlink(&disk.mount, kubelet.join("hang")).unwrap();
    write_kubelet(&kubelet.join("proc"), "/hang/config.yaml");
    // containerd's default path is on the hung disk; the socket is at the next path that plegctl tries.
    let socket = node("socket");
    fs::create_dir(socket.join("run/crio")).unwrap();
    fs::remove_file(socket.join("run/containerd")).unwrap();
    symlink(disk.path("containerd"), socket.join("run/containerd")).unwrap();
    symlink(runtime.socket(), socket.join("run/crio/crio.sock")).unwrap();
    let health = |node: &Path, more: &[&str]| {
        let how = [&["health", "-o", "jsonl"], more].concat();
        let output = Invocation::new(&how).env("PLEGCTL_TEST_NODE", node).run();
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        assert_eq!(report["verdict"], "healthy", "{output}");
        // The run ends within its budget.
        assert!(report["durationSeconds"].as_f64().unwrap() < 30.0, "{output}");
        output
    };
    for flag in ["--save", "--bundle"] {
        let output = health(&plain, &[flag, &disk.path("file")]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("did not answer within 10s"), "{output}");
    }
    let output = health(&plain, &["--state", &disk.path("state")]);
    assert_eq!(output.code, Some(0), "{output}");
    for (node, unknown) in [(&settings, "etc/crictl.yaml"), (&socket, "run/containerd/containerd.sock")] {
        let output = health(node, &[]);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(output.stderr.contains(&format!("{unknown}`: reading it takes too long")), "{output}");
    }
    let output = health(&kubelet, &[]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("the node's kubelet is not known"), "{output}");
}
