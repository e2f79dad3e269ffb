//! Fuzzes process tables: each file of a process may have any content, because a process chooses its own name and
//! arguments.

use std::fs;

use plegctl_engine::diagnosis::{ProcPaths, sample};

use super::fuzz;
use crate::support::socket::TempDir;

/// The files of one process, each with the bytes up to a separator.
const FILES: [&str; 8] =
    ["42/stat", "42/status", "42/cmdline", "42/cgroup", "42/comm", "42/limits", "loadavg", "pressure/io"];

/// The separator between two files.
const SEPARATOR: &[u8] = b"\n====\n";

#[test]
fn proc_trees() {
    let folder = TempDir::new();
    let root = folder.path();
    for directory in ["42/fd", "42/task/42", "pressure", "sys/kernel", "self", "1"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let places = ProcPaths {
        proc: root.to_path_buf(),
        cgroup: root.join("cgroup"),
        socket: Some("/run/containerd/containerd.sock".into()),
    };
    fuzz("proc_trees", Vec::new(), |bytes| {
        let mut rest = bytes;
        for file in FILES {
            let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
            let (content, left) = match end {
                Some(end) => (&rest[..end], &rest[end + SEPARATOR.len()..]),
                None => (rest, &[][..]),
            };
            rest = left;
            fs::write(root.join(file), content).unwrap();
        }
        let seen = sample(&places);
        assert!(seen.processes.len() <= 2, "{} processes", seen.processes.len());
    });
}
