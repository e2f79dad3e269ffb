//! Tests of the effects of plegctl on a node, as the kernel and the runtime see them: for each command a complete list
//! of written files, started programs, connections, signals and calls. Tracing needs strace. Without strace the test
//! passes with a message; with `CI=true` it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use plegctl_engine::cri::Rpc;

use crate::support::plegctl::Invocation;
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node};

/// The traced system calls: those that change a file, a process or another machine, or reach other programs.
const TRACED: &str = "trace=open,openat,openat2,creat,connect,bind,kill,tkill,tgkill,pidfd_send_signal,unlink,unlinkat,\
    rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,\
    fchownat,lchown,truncate,ftruncate,fallocate,mknod,mknodat,setxattr,fsetxattr,mount,umount2,ptrace,\
    process_vm_writev,execve,execveat,reboot,init_module,finit_module,bpf,perf_event_open,setrlimit,prlimit64";

/// The effects of one run, without reads of files.
#[derive(Debug, Default)]
struct Effects {
    /// Paths that were opened for writing, created, moved or removed.
    written: BTreeSet<String>,
    /// Paths and addresses of connections.
    connected: BTreeSet<String>,
    /// Started programs.
    programs: BTreeSet<String>,
    /// All other traced system calls with their arguments.
    other: BTreeSet<String>,
}

/// Parses strace's output. Only plegctl's own processes count, not the programs that it starts.
fn effects(trace: &str) -> Effects {
    let mut effects = Effects::default();
    let traced_pids: BTreeSet<&str> =
        trace.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut foreign: BTreeMap<&str, String> = BTreeMap::new();
    for line in trace.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // strace prints `???(` for a task from which it has detached; that is no system call.
        let (Some((name, arguments)), false) = (call.split_once('('), call.starts_with(['<', '+', '-', '?']))
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
            effects.programs.insert(path.rsplit('/').next().unwrap_or_default().to_owned());
            continue;
        }
        if foreign.contains_key(pid) {
            continue;
        }
        match name {
            // A file without a name until `linkat` creates one.
            "openat" if arguments.contains("O_TMPFILE") && arguments.contains("0600") => {}
            "linkat" if path.starts_with("/proc/self/fd/") && arguments.contains("AT_SYMLINK_FOLLOW") => {
                effects.written.extend(quoted.into_iter().skip(1).map(str::to_owned));
            }
            "open" | "openat" | "openat2" => {
                if ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"]
                    .iter()
                    .any(|flag| arguments.contains(flag))
                {
                    // plegctl must create a temporary file anew, for its own user only, and without following a link.
                    let safely = ["O_CREAT", "O_EXCL", "O_NOFOLLOW", "0600"];
                    if path.starts_with(".plegctl-") && !safely.iter().all(|word| arguments.contains(word)) {
                        effects.other.insert(format!("unsafe {call}"));
                    }
                    effects.written.insert(path);
                }
            }
            "creat" | "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2" => {
                effects.written.extend(quoted.into_iter().map(str::to_owned));
            }
            "connect" => {
                let port = arguments.split_once("htons(").and_then(|(_, rest)| rest.split(')').next());
                effects.connected.insert(port.map_or(path.clone(), |port| format!("{path}:{port}")));
            }
            // A signal to plegctl itself, to its child, or to the process group of that child.
            "kill" | "tkill" | "tgkill" if traced_pids.contains(receiver(arguments)) => {}
            // Reading a limit does not set it.
            "prlimit64" if arguments.contains(", NULL, ") => {}
            _ => {
                effects.other.insert(call.to_owned());
            }
        }
    }
    effects
}

/// Returns the process to which a signal is sent; for a process group its leader.
fn receiver(arguments: &str) -> &str {
    let first = arguments.split([',', ')']).next().unwrap_or_default().trim();
    first.strip_prefix('-').unwrap_or(first)
}

/// Whether strace is installed; prints a message if it is not.
fn has_strace(test: &str) -> bool {
    if Command::new("strace").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no strace although CI=true");
    let _ = writeln!(std::io::stderr(), "skipped {test}: strace is not installed");
    false
}

/// Runs plegctl with these arguments under strace and returns its effects.
fn traced(folder: &Path, arguments: &[&str]) -> Effects {
    let trace = folder.join("trace");
    let mut words =
        vec!["-f", "-qq", "-s", "200", "-e", TRACED, "-e", "signal=none", "-o", trace.to_str().unwrap()];
    words.push(env!("CARGO_BIN_EXE_plegctl"));
    words.extend(arguments);
    // Every opened file of the process table costs strace two context switches, which is slow on a busy machine.
    let output = Invocation::program("strace", &words).time_limit(Duration::from_secs(300)).run();
    assert!(matches!(output.code, Some(0..=2)), "{output}");
    effects(&fs::read_to_string(trace).unwrap())
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

/// A command line and the effects that its run may have.
#[derive(Clone, Debug, Default)]
#[must_use]
struct Run {
    arguments: Vec<String>,
    /// The permitted calls.
    rpcs: &'static [Rpc],
    /// The files that the run must write in the test's directory, and no others; a name that begins with a dot is a
    /// file extension.
    writes: &'static [&'static str],
    /// The permitted programs.
    programs: &'static [&'static str],
    /// The permitted ports of this machine.
    ports: Vec<String>,
    /// Other permitted system calls, by name.
    other_calls: &'static [&'static str],
}

impl Run {
    fn of(arguments: &[&str]) -> Self {
        Self { arguments: arguments.iter().map(|word| (*word).to_owned()).collect(), ..Self::default() }
    }

    fn calls(mut self, endpoint: &str, rpcs: &'static [Rpc]) -> Self {
        self.arguments.extend(["-r".to_owned(), endpoint.to_owned()]);
        self.rpcs = rpcs;
        self
    }

    fn writes(mut self, files: &'static [&'static str]) -> Self {
        self.writes = files;
        self
    }

    fn starts(mut self, programs: &'static [&'static str]) -> Self {
        self.programs = programs;
        self
    }

    fn connects(mut self, port: &str) -> Self {
        self.ports.push(port.to_owned());
        self
    }

    fn other_calls(mut self, calls: &'static [&'static str]) -> Self {
        self.other_calls = calls;
        self
    }

    /// Whether the run may write this file: a file in `writes`, or a temporary file of any name.
    fn may_write(&self, name: &str) -> bool {
        let is = |file: &&str| if file.starts_with('.') { name.ends_with(file) } else { name == *file };
        name == "null"
            || self.writes.iter().any(is)
            || !self.writes.is_empty() && name.starts_with(".plegctl-")
    }

    fn may_call(&self, call: &str) -> bool {
        // A file that replaces another one gets its owner and mode.
        let on_files: &[&str] = if self.writes.is_empty() { &[] } else { &["fchmod", "fchown"] };
        let name = call.split('(').next().unwrap_or_default();
        self.other_calls.contains(&name) || on_files.contains(&name)
    }
}

/// The port of the kubelet's health check on the empty node of the tests.
const HEALTHZ: &str = "1";

/// The calls of a relist without status calls.
const LISTS: &[Rpc] = &[Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers];
/// The calls of a relist with status calls.
const RELIST: &[Rpc] =
    &[Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::PodSandboxStatus, Rpc::ContainerStatus];
/// The calls of an evented watch.
const EVENTS: &[Rpc] = &[
    Rpc::Version,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
    Rpc::GetContainerEvents,
];
/// The calls of `health`, and of `record`, which diagnoses the node too.
const HEALTH: &[Rpc] = &[
    Rpc::Version,
    Rpc::Status,
    Rpc::RuntimeConfig,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
];
/// The calls of `health --probe-shims`.
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
fn each_command_makes_only_the_documented_system_calls() {
    if !has_strace("each_command_makes_only_the_documented_system_calls") {
        return;
    }
    let (folder, runtime) = (TempDir::new(), node());
    for run in runs(&folder, &runtime.endpoint()) {
        let before = runtime.calls().len();
        let words: Vec<&str> = run.arguments.iter().map(String::as_str).collect();
        let effects = traced(folder.path(), &words);
        let context = format!("{words:?}: {effects:#?}");
        let rpcs: BTreeSet<Rpc> = runtime.calls().iter().skip(before).map(|call| call.rpc).collect();
        assert!(rpcs.iter().all(|rpc| run.rpcs.contains(rpc)), "{rpcs:?} {context}");
        assert!(rpcs.is_empty() == run.rpcs.is_empty(), "{rpcs:?} {context}");
        let names: BTreeSet<&str> =
            effects.written.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names.iter().find(|name| !run.may_write(name)), None, "{context}");
        for file in run.writes {
            assert!(names.iter().any(|name| name.ends_with(file)), "{file} {context}");
        }
        let unexpected = |address: &&String| {
            let port = address.strip_prefix("127.0.0.1:");
            !runtime.endpoint().ends_with(address.as_str())
                && !port.is_some_and(|port| run.ports.iter().any(|allowed| allowed == port))
        };
        assert_eq!(effects.connected.iter().find(unexpected), None, "{context}");
        let foreign =
            |program: &&String| program.as_str() != "plegctl" && !run.programs.contains(&program.as_str());
        assert_eq!(effects.programs.iter().find(foreign), None, "{context}");
        assert_eq!(effects.other.iter().find(|call| !run.may_call(call)), None, "{context}");
    }
}

/// Returns a run for each command, in order: some commands read files that earlier commands have written.
fn runs(folder: &TempDir, endpoint: &str) -> Vec<Run> {
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (saved, log, health, capture) =
        (place("saved.json"), place("log.jsonl"), place("health.json"), place("capture"));
    let (manifests, kubeconfig) = (place("manifests"), place("kubeconfig"));
    fs::create_dir(&manifests).unwrap();
    let output_file = format!("sarif={}", place("lint.sarif"));
    let past = format!("capture:{capture}");
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/stacks/c2-nriplugin.t200.usr1.gz");
    // An API server that accepts connections and closes them.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    thread::spawn(move || server.incoming().for_each(drop));
    fs::write(
        &kubeconfig,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts:\n- name: here\n  context: {{cluster: c, user: u}}\n\
             clusters:\n- name: c\n  cluster: {{server: 'https://127.0.0.1:{port}'}}\n\
             users:\n- name: u\n  user: {{token: t}}\n"
        ),
    )
    .unwrap();
    let programs: &[&str] = &["journalctl", "systemctl"];
    let listening: &[&str] = &["bind", "listen"];
    vec![
        Run::of(&["relist"]).calls(endpoint, LISTS),
        Run::of(&["relist", "--inspect", "all", "-o", "json"]).calls(endpoint, RELIST),
        Run::of(&["relist", "--save", &saved]).calls(endpoint, LISTS).writes(&["saved.json"]),
        Run::of(&["watch", "--count", "2"]).calls(endpoint, RELIST),
        Run::of(&["watch", "--count", "2", "--log", &log]).calls(endpoint, RELIST).writes(&["log.jsonl"]),
        Run::of(&["watch", "--count", "2", "--metrics-listen", "127.0.0.1:0"])
            .calls(endpoint, RELIST)
            .other_calls(listening),
        Run::of(&["watch", "--mode", "evented", "--for", "1s"]).calls(endpoint, EVENTS).starts(&["exe"]),
        Run::of(&["watch", "--mode", "compare", "--for", "1s"]).calls(endpoint, EVENTS).starts(&["exe"]),
        Run::of(&["diff", &saved, "live"]).calls(endpoint, LISTS),
        Run::of(&["diff", &saved, &saved]),
        Run::of(&["health"]).calls(endpoint, HEALTH).starts(programs).connects(HEALTHZ),
        Run::of(&["health", "--probe-shims"]).calls(endpoint, SHIMS).starts(programs).connects(HEALTHZ),
        Run::of(&["health", "--npd"]).calls(endpoint, HEALTH).starts(programs).connects(HEALTHZ),
        Run::of(&["health", "--save", &health])
            .calls(endpoint, HEALTH)
            .starts(programs)
            .connects(HEALTHZ)
            .writes(&["health.json"]),
        Run::of(&["health", "--bundle", &place("bundle.tar.gz")])
            .calls(endpoint, HEALTH)
            .starts(programs)
            .connects(HEALTHZ)
            .writes(&["bundle.tar.gz"]),
        Run::of(&["health", "--state", &place("state.json")])
            .calls(endpoint, HEALTH)
            .starts(programs)
            .connects(HEALTHZ)
            .writes(&["state.json"]),
        Run::of(&["health", "--from", &health]),
        Run::of(&["record", &capture, "--count", "3", "--period", "10ms"])
            .calls(endpoint, HEALTH)
            .starts(programs)
            .connects(HEALTHZ)
            .writes(&[".seg", "lock"])
            .other_calls(&["mkdirat", "fallocate", "ftruncate"]),
        Run::of(&["record", &capture, "--count", "1", "--metrics-listen", "127.0.0.1:0"])
            .calls(endpoint, HEALTH)
            .starts(programs)
            .connects(HEALTHZ)
            .writes(&[".seg", "lock"])
            .other_calls(&["mkdirat", "fallocate", "ftruncate", "bind", "listen"]),
        Run::of(&["capture", "ls", &capture]),
        Run::of(&["capture", "check", &capture]),
        Run::of(&["capture", "report", &capture, "-o", "html"]),
        Run::of(&["capture", "export", &capture, &place("part.plegcap"), "--anonymise"])
            .writes(&["part.plegcap"]),
        Run::of(&["relist", "-r", &past]),
        Run::of(&["health", "-r", &past]),
        Run::of(&["watch", "-r", &format!("{past}@+0s"), "--count", "1"]),
        Run::of(&["static-pods", "lint", &manifests, "--output-file", &output_file])
            .calls(endpoint, LISTS)
            .writes(&["lint.sarif"]),
        Run::of(&["static-pods", "lint", &manifests, "--no-cri"]),
        Run::of(&["pods", "--manifests", &manifests]).calls(endpoint, LISTS),
        Run::of(&["pods", "--manifests", &manifests, "--no-cri"]),
        Run::of(&["stacks", dump]),
        Run::of(&["nodes", "--kubeconfig", &kubeconfig]).connects(&port),
        Run::of(&["nodes", "--kubeconfig", &kubeconfig, "--preflight", "1.37"]).connects(&port),
        Run::of(&["explain", "D01"]),
        Run::of(&["relist", "-r", "sim:quiet"]),
        Run::of(&["completions", "bash"]),
        Run::of(&["man", &place("man")]).writes(&[".1"]).other_calls(&["mkdirat"]),
        Run::of(&["help"]),
    ]
}

#[test]
fn output_of_strace_is_parsed() {
    let seen = effects(concat!(
        "7 execve(\"/x/plegctl\", [\"plegctl\"], 0x7ff) = 0\n",
        "7 openat(AT_FDCWD, \"/etc/a\", O_RDONLY|O_CLOEXEC) = 3\n",
        "7 openat(AT_FDCWD, \"/tmp/b\", O_WRONLY|O_CREAT, 0600) = 3\n",
        "7 openat(4, \".plegctl-1.tmp\", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600) = 5\n",
        "7 openat(4, \".plegctl-1.tmp\", O_WRONLY|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0600) = 5\n",
        "8 renameat(4, \".plegctl-1.tmp\", 4, \"c\") = 0\n",
        "8 connect(5, {sa_family=AF_UNIX, sun_path=\"/run/x.sock\"}, 110) = 0\n",
        "9 execve(\"/usr/bin/journalctl\", [\"journalctl\"], 0x7ff) = 0\n",
        "9 unlink(\"/var/log/precious\") = 0\n",
        "7 kill(9, SIGKILL) = 0\n",
        "7 kill(-9, SIGKILL) = 0\n",
        "7 kill(1, SIGKILL) = -1 EPERM\n",
        "8 +++ exited with 0 +++\n",
    ));
    assert_eq!(seen.written.iter().collect::<Vec<_>>(), [".plegctl-1.tmp", "/tmp/b", "c"]);
    assert_eq!(seen.connected.iter().collect::<Vec<_>>(), ["/run/x.sock"]);
    assert_eq!(seen.programs.iter().collect::<Vec<_>>(), ["journalctl", "plegctl"]);
    let loose = "unsafe openat(4, \".plegctl-1.tmp\", O_WRONLY|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0600) = 5";
    assert_eq!(seen.other.iter().collect::<Vec<_>>(), ["kill(1, SIGKILL) = -1 EPERM", loose]);
}
