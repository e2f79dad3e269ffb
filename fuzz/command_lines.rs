//! Fuzzes the command lines of conmon, a shim and an OCI runtime, with any bytes. The target writes them into a fake
//! `/proc`, and `stacks` searches them for the id of a container. `stacks` may report only an id that one of them
//! contains.

use std::fs;

use plegctl_engine::stacks::judge::{DumpSource, KnownHangs, judge};
use plegctl_engine::stacks::live::{NodeView, add_names};
use plegctl_engine::stacks::read::{Bounds, read};
use plegctl_engine::stacks::signatures::signatures;

use super::fuzz;
use crate::support::socket::TempDir;

/// A goroutine dump of CRI-O: one goroutine creates a container and waits for conmon.
const DUMP: &str = "goroutine 70 [select, 2 minutes]:
github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).CreateContainer(0xc000100000, {0x1, 0x2}, 0xc000070800, {0xc000120000, 0xd}, 0x0)
\t/a.go:1 +0x1
github.com/cri-o/cri-o/server.(*Server).CreateContainer(0xc000001000, {0x1, 0x2}, 0xc000070000)
\t/a.go:1 +0x1
k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_CreateContainer_Handler({0x1, 0xc000001000})
\t/a.go:1 +0x1
";

/// The processes that get the command lines of an input: the process id, the name and the parent's process id.
const PROCESSES: [(u32, &str, u32); 3] =
    [(500, "conmon", 1), (600, "runc", 500), (700, "containerd-shim", 1)];

/// The process of the dump.
const DAEMON: u32 = 200;

/// The separator between two command lines.
const SEPARATOR: &[u8] = b"\n====\n";

fn seeds() -> Vec<Vec<u8>> {
    let (id, sandbox) = ("0123456789abcdef".repeat(4), "fedcba9876543210".repeat(4));
    let seed = |container: &str, name: &str| {
        let lines = [
            format!("conmon -b /run/x -c {container} -n {name} -P /run/y"),
            format!("runc --root /run/runc create --bundle /x {container}"),
            format!("containerd-shim-runc-v2 -namespace k8s.io -id {sandbox}"),
        ];
        lines.map(|line| line.replace(' ', "\0").into_bytes()).join(SEPARATOR)
    };
    vec![
        seed(&id, "k8s_app_web-18_shop_uid-18_0"),
        seed(&id, "k8s_POD_web-18_shop_uid-18_0"),
        seed("short", "a_b"),
    ]
}

#[test]
fn command_lines() {
    let folder = TempDir::new();
    let root = folder.path();
    let processes = PROCESSES.into_iter().chain([(DAEMON, "crio", 1)]);
    for (pid, comm, parent) in processes {
        let directory = root.join(pid.to_string());
        fs::create_dir_all(directory.join("task")).unwrap();
        fs::write(directory.join("stat"), format!("{pid} ({comm}) S {parent} 1 1 0\n")).unwrap();
        fs::write(directory.join("cgroup"), "0::/system.slice\n").unwrap();
    }
    let known = signatures();
    let mut named = 0;
    fuzz("command_lines", seeds(), |bytes| {
        let mut rest = bytes;
        for (pid, ..) in PROCESSES {
            let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
            let (line, left) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 6..]));
            fs::write(root.join(pid.to_string()).join("cmdline"), line).unwrap();
            rest = left;
        }
        let dump = read(DUMP.as_bytes(), Bounds::default()).unwrap().dumps.remove(0);
        let sources = [DumpSource {
            name: "fuzz".to_owned(),
            dump,
            pid: Some(DAEMON),
            is_requested_here: true,
            ..DumpSource::default()
        }];
        let mut report = judge(&sources, &known, &KnownHangs::default());
        add_names(&mut report, &sources, &NodeView::at(root));
        let container = report.findings[0].holder.as_ref().and_then(|holder| holder.container.as_ref());
        if let Some(container) = container {
            let id = container.id.as_bytes();
            assert!(
                id.len() == 64 && bytes.windows(64).any(|part| part == id),
                "an id that is in no command line"
            );
            named += 1;
        }
        serde_json::to_string(&report).unwrap();
    });
    assert!(named > 0, "no command line named a container");
}
