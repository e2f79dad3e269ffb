//! Fuzzes the search for the kubelet's process. The *impostor* is a process with arbitrary files in `/proc`. The other
//! process is the node's kubelet, which runs as root in the node's namespaces.
//!
//! plegctl must choose the kubelet, unless the impostor also runs as root. If plegctl makes no choice, it must report a
//! doubt.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use plegctl_engine::diagnosis::{ProcPaths, sample};
use plegctl_engine::kubelet::{doubt, kubelet_of};

use super::fuzz;
use crate::support::socket::TempDir;

/// The impostor. Its pid is lower than the kubelet's, so plegctl sees the impostor first.
const IMPOSTOR: u32 = 42;
/// The node's kubelet.
const KUBELET: u32 = 43;

/// The files of a process, in the order of an input.
const FILES: [&str; 5] = ["stat", "status", "cgroup", "comm", "cmdline"];
/// The symbolic links of a process. In an input, they follow the files.
const LINKS: [&str; 3] = ["ns/pid", "ns/mnt", "exe"];

/// The separator between two files or links of an input.
const SEPARATOR: &[u8] = b"\n====\n";

/// Joins the files and links of a process to an input.
fn process(comm: &str, uids: &str, pids: &str, cgroup: &str, namespaces: [&str; 2], exe: &str) -> Vec<u8> {
    [
        &format!("7 ({comm}) S 1 7 7 0 -1 4194560 1 1 0 0 10 5 0 0 20 0 3 0 1234 1 1"),
        &format!("Name:\t{comm}\nUid:\t{uids}\nNSpid:\t{pids}\n"),
        &format!("0::{cgroup}\n"),
        comm,
        &format!("{comm}\0--kubeconfig=/tmp/kc\0--config\0/tmp/c"),
        namespaces[0],
        namespaces[1],
        exe,
    ]
    .map(str::as_bytes)
    .join(SEPARATOR)
}

fn seeds() -> Vec<Vec<u8>> {
    let node = ["pid:[1]", "mnt:[1]"];
    let id = "0123456789abcdef".repeat(4);
    let service = "/system.slice/kubelet.service";
    vec![
        process("kubelet", "0\t0\t0\t0", "42", service, node, "/usr/bin/kubelet"),
        process("kubelet", "1000\t1000\t1000\t1000", "42", service, node, "/usr/bin/kubelet"),
        process("kubelet", "1000\t0\t0\t0", "42", "/user.slice/session-1.scope", node, "/usr/bin/sudo"),
        process("k3s-server", "0\t0\t0\t0", "42\t1", service, ["pid:[2]", "mnt:[2]"], "/bin/k3s"),
        process("kubelite", "0\t0\t0\t0", "42", &format!("/kubepods/podx/{id}"), node, "/snap/kubelite"),
        process("containerd", "0\t0\t0\t0", "42", "/", ["pid:[1]", "mnt:[3]"], "/usr/bin/containerd"),
        process("runc", "1\t1\t1\t1", "42", &format!("/x/crio-conmon-{id}.scope"), node, "/usr/bin/runc"),
    ]
}

/// Writes the files and links of a process. A link whose target is no valid path is skipped.
fn write(directory: &Path, bytes: &[u8]) {
    let mut rest = bytes;
    for name in FILES.into_iter().chain(LINKS) {
        let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let (content, left) = match end {
            Some(end) => (&rest[..end], &rest[end + SEPARATOR.len()..]),
            None => (rest, &[][..]),
        };
        rest = left;
        let path = directory.join(name);
        if LINKS.contains(&name) {
            let _ = fs::remove_file(&path);
            let _ = symlink(OsStr::from_bytes(content), &path);
        } else {
            fs::write(path, content).unwrap();
        }
    }
}

/// Whether all user ids in the `status` file of a process are root's.
fn runs_as_root(directory: &Path) -> bool {
    let status = fs::read(directory.join("status")).unwrap();
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.is_some_and(|ids| ids.split_ascii_whitespace().all(|id| id.parse() == Ok(0)))
}

#[test]
fn impostors() {
    let folder = TempDir::new();
    let root = folder.path();
    for pid in [1, IMPOSTOR, KUBELET] {
        for directory in ["ns", "task"] {
            fs::create_dir_all(root.join(pid.to_string()).join(directory)).unwrap();
        }
    }
    let seeds = seeds();
    let init = process("systemd", "0\t0\t0\t0", "1", "/init.scope", ["pid:[1]", "mnt:[1]"], "/sbin/init");
    write(&root.join("1"), &init);
    write(&root.join(KUBELET.to_string()), &seeds[0]);
    let impostor = root.join(IMPOSTOR.to_string());
    let places = ProcPaths { proc: root.to_path_buf(), cgroup: root.join("cgroup"), socket: None };
    fuzz("impostors", seeds, |bytes| {
        write(&impostor, bytes);
        let seen = sample(&places);
        let chosen = kubelet_of(&seen);
        assert!(
            chosen.is_some() || doubt(&seen).is_some(),
            "plegctl neither finds the kubelet nor reports a doubt"
        );
        if chosen.is_none_or(|chosen| chosen.pid == IMPOSTOR) {
            assert!(
                runs_as_root(&impostor),
                "plegctl chooses the process of another user, or doubts the kubelet because of it"
            );
        }
    });
}
