//! What plegctl does to a node, seen from the kernel and from the runtime: the closed lists of files written, programs
//! run, connections made, signals sent and calls asked, for each command.
//!
//! The kernel's side needs strace. Without it a test says so and passes; with `CI=true` it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plegctl::cri::Rpc;

use crate::support::plegctl::Invocation;
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node};

/// Everything that changes a file, a process or another machine, and what reaches other programs.
const TRACED: &str = "trace=open,openat,openat2,creat,connect,bind,kill,tkill,tgkill,pidfd_send_signal,unlink,unlinkat,\
    rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,\
    fchownat,lchown,truncate,ftruncate,fallocate,mknod,mknodat,setxattr,fsetxattr,mount,umount2,ptrace,\
    process_vm_writev,execve,execveat,reboot,init_module,finit_module,bpf,perf_event_open,setrlimit,prlimit64";

/// What one run did, but for reading files.
#[derive(Debug, Default)]
struct Deeds {
    /// Paths opened for writing, or made, moved and removed.
    written: BTreeSet<String>,
    /// Paths and addresses connected to.
    connected: BTreeSet<String>,
    /// Programs started.
    programs: BTreeSet<String>,
    /// Everything else that was traced: system call and arguments.
    other: BTreeSet<String>,
}

/// Reads strace's output. Only what plegctl does counts, not what the programs do that it starts.
fn deeds(trace: &str) -> Deeds {
    let mut deeds = Deeds::default();
    let ours: BTreeSet<&str> = trace.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut foreign: BTreeMap<&str, String> = BTreeMap::new();
    for line in trace.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let (Some((name, arguments)), false) = (call.split_once('('), call.starts_with(['<', '+', '-']))
        else {
            continue;
        };
        let failed = call.contains(") = -1 ");
        let quoted: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
        let path = quoted.first().copied().unwrap_or_default().to_owned();
        if name.starts_with("execve") {
            if !failed && !path.ends_with("plegctl") && path != "/proc/self/exe" {
                foreign.insert(pid, path.clone());
            }
            deeds.programs.insert(path.rsplit('/').next().unwrap_or_default().to_owned());
            continue;
        }
        if foreign.contains_key(pid) {
            continue;
        }
        match name {
            "open" | "openat" | "openat2" => {
                if ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"]
                    .iter()
                    .any(|flag| arguments.contains(flag))
                {
                    deeds.written.insert(path);
                }
            }
            "creat" | "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2" => {
                deeds.written.extend(quoted.into_iter().map(str::to_owned));
            }
            "connect" => {
                let port = arguments.split_once("htons(").and_then(|(_, rest)| rest.split(')').next());
                deeds.connected.insert(port.map_or(path.clone(), |port| format!("{path}:{port}")));
            }
            // To itself, or to a child of its own.
            "kill" | "tkill" | "tgkill"
                if ours.contains(arguments.split([',', ')']).next().unwrap_or_default().trim()) => {}
            // Asking for a limit is no setting of it.
            "prlimit64" if arguments.contains("NULL, {") => {}
            _ => {
                deeds.other.insert(call.to_owned());
            }
        }
    }
    deeds
}

fn strace_is_here(test: &str) -> bool {
    if Command::new("strace").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no strace although CI=true");
    let _ = writeln!(std::io::stderr(), "skipped {test}: no strace here");
    false
}

fn traced(folder: &Path, arguments: &[&str]) -> Deeds {
    let trace = folder.join("trace");
    let mut words =
        vec!["-f", "-qq", "-s", "200", "-e", TRACED, "-e", "signal=none", "-o", trace.to_str().unwrap()];
    words.push(env!("CARGO_BIN_EXE_plegctl"));
    words.extend(arguments);
    // Each file of the process table that is opened is two turns of strace's, and a busy machine gives few.
    let output = Invocation::program("strace", &words).bound(Duration::from_secs(300)).run();
    assert!(matches!(output.code, Some(0..=2)), "{output}");
    deeds(&fs::read_to_string(trace).unwrap())
}

fn node() -> FakeRuntime {
    FakeRuntime::start(
        Node::new()
            .pod("default/web-0", "uid-web")
            .sandbox("s-web")
            .container("c-web", "web")
            .pod("default/db-0", "uid-db")
            .sandbox("s-db")
            .container("c-db", "db")
            .exited(3),
    )
}

/// A run, and what of it may be seen.
struct Row<'a> {
    arguments: Vec<&'a str>,
    /// Calls that it may make.
    rpcs: &'a [Rpc],
    /// Files that it may write, below the test's folder.
    writes: &'a [&'a str],
    /// Programs that it may start.
    programs: &'a [&'a str],
    /// Ports of this machine that it may connect to.
    ports: &'a [&'a str],
}

const LISTS: &[Rpc] = &[Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers];
const RELIST: &[Rpc] =
    &[Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::PodSandboxStatus, Rpc::ContainerStatus];
const EVENTS: &[Rpc] = &[
    Rpc::Version,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
    Rpc::GetContainerEvents,
];
const HEALTH: &[Rpc] = &[
    Rpc::Version,
    Rpc::Status,
    Rpc::RuntimeConfig,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
];
const SHIMS: &[Rpc] = &[
    Rpc::Version,
    Rpc::Status,
    Rpc::RuntimeConfig,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
    Rpc::ContainerStats,
];

#[test]
fn issue_12_each_command_does_what_its_list_says_and_nothing_else() {
    if !strace_is_here("each_command_does_what_its_list_says_and_nothing_else") {
        return;
    }
    let (folder, runtime) = (TempDir::new(), node());
    let endpoint = runtime.endpoint();
    let in_folder = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (saved, log, sarif) = (in_folder("saved.json"), in_folder("log.jsonl"), in_folder("lint.sarif"));
    let output_file = format!("sarif={sarif}");
    let manifests = in_folder("manifests");
    fs::create_dir(&manifests).unwrap();
    let on = |arguments: &[&'static str]| [arguments, &["-r"]].concat();
    let plain = |arguments: &[&'static str], rpcs| Row {
        arguments: on(arguments),
        rpcs,
        writes: &[],
        programs: &[],
        ports: &[],
    };
    let health: &[&str] = &["journalctl", "systemctl"];
    let rows = [
        plain(&["relist"], LISTS),
        plain(&["relist", "--inspect", "all", "-o", "json"], RELIST),
        Row {
            arguments: [&["relist", "--save", &saved], &["-r"][..]].concat(),
            writes: &["saved.json"],
            ..plain(&[], LISTS)
        },
        plain(&["watch", "--count", "2"], RELIST),
        Row {
            arguments: [&["watch", "--count", "2", "--log", &log], &["-r"][..]].concat(),
            writes: &["log.jsonl"],
            ..plain(&[], RELIST)
        },
        Row { programs: &["exe"], ..plain(&["watch", "--mode", "evented", "--for", "1s"], EVENTS) },
        Row { programs: &["exe"], ..plain(&["watch", "--mode", "compare", "--for", "1s"], EVENTS) },
        Row { arguments: [&["diff", &saved, "live"], &["-r"][..]].concat(), ..plain(&[], LISTS) },
        Row { programs: health, ports: &["10248"], ..plain(&["health"], HEALTH) },
        Row { programs: health, ports: &["10248"], ..plain(&["health", "--probe-shims"], SHIMS) },
        Row { programs: health, ports: &["10248"], ..plain(&["health", "--npd"], HEALTH) },
        Row {
            arguments: [&["static-pods", "lint", &manifests, "--output-file", &output_file], &["-r"][..]]
                .concat(),
            writes: &["lint.sarif"],
            ..plain(&[], LISTS)
        },
    ];
    for row in rows {
        let before = runtime.calls().len();
        let arguments = [&row.arguments[..], &[&endpoint]].concat();
        let deeds = traced(folder.path(), &arguments);
        let shown = format!("{arguments:?}: {deeds:#?}");
        let asked: BTreeSet<Rpc> = runtime.calls().iter().skip(before).map(|call| call.rpc).collect();
        assert!(asked.iter().all(|rpc| row.rpcs.contains(rpc)), "{asked:?} {shown}");
        // The temporary file beside it, under whatever name, is the same file.
        let names: BTreeSet<&str> =
            deeds.written.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        let allowed = |name: &&str| {
            row.writes.contains(name) || (!row.writes.is_empty() && name.starts_with(".plegctl-"))
        };
        assert!(names.iter().filter(|name| **name != "null").all(allowed), "{shown}");
        for file in row.writes {
            assert!(names.contains(file), "{file} {shown}");
        }
        let unexpected = |address: &&String| {
            let port = address.strip_prefix("127.0.0.1:");
            !endpoint.ends_with(address.as_str()) && !port.is_some_and(|port| row.ports.contains(&port))
        };
        assert_eq!(deeds.connected.iter().find(unexpected), None, "{shown}");
        let programs = deeds
            .programs
            .iter()
            .find(|program| program.as_str() != "plegctl" && !row.programs.contains(&program.as_str()));
        assert_eq!(programs, None, "{shown}");
        let harmless = |call: &&String| {
            // What replaces a file takes over its owner and mode.
            !row.writes.is_empty() && (call.starts_with("fchmod(") || call.starts_with("fchown("))
        };
        assert_eq!(deeds.other.iter().find(|call| !harmless(call)), None, "{shown}");
    }
}

#[test]
fn a_trace_is_read_as_strace_writes_it() {
    let seen = deeds(concat!(
        "7 execve(\"/x/plegctl\", [\"plegctl\"], 0x7ff) = 0\n",
        "7 openat(AT_FDCWD, \"/etc/a\", O_RDONLY|O_CLOEXEC) = 3\n",
        "7 openat(AT_FDCWD, \"/tmp/b\", O_WRONLY|O_CREAT, 0600) = 3\n",
        "8 renameat(4, \".plegctl-1.tmp\", 4, \"c\") = 0\n",
        "8 connect(5, {sa_family=AF_UNIX, sun_path=\"/run/x.sock\"}, 110) = 0\n",
        "9 execve(\"/usr/bin/journalctl\", [\"journalctl\"], 0x7ff) = 0\n",
        "9 unlink(\"/var/log/precious\") = 0\n",
        "7 kill(9, SIGKILL) = 0\n",
        "7 kill(1, SIGKILL) = -1 EPERM\n",
        "8 +++ exited with 0 +++\n",
    ));
    assert_eq!(seen.written.iter().collect::<Vec<_>>(), [".plegctl-1.tmp", "/tmp/b", "c"]);
    assert_eq!(seen.connected.iter().collect::<Vec<_>>(), ["/run/x.sock"]);
    assert_eq!(seen.programs.iter().collect::<Vec<_>>(), ["journalctl", "plegctl"]);
    assert_eq!(seen.other.iter().collect::<Vec<_>>(), ["kill(1, SIGKILL) = -1 EPERM"]);
}
