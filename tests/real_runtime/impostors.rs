//! Tests with impostors next to a real containerd: processes that have only the name of the node's kubelet, containerd,
//! shim or runc. They run as another user, or as root in other PID and mount namespaces.
//!
//! No impostor may change a verdict, be named in a report, or make plegctl open a file or a socket that it names. Every
//! impostor is stopped (SIGSTOP), so that a report which counts it shows another verdict. Each round has a single
//! impostor, because plegctl uses neither of two candidates, so two impostors could hide each other.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output, copy_program};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{packages, real, wait_for};

on_each_containerd! {
    an_impostor_of_any_kind_changes_no_verdict_and_none_of_its_files_is_opened
}

/// The user id of `nobody`.
const OTHER_USER: &str = "65534";

/// The program whose name an impostor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Kubelet,
    Containerd,
    Shim,
    Runc,
}

impl Program {
    const ALL: [Self; 4] = [Self::Kubelet, Self::Containerd, Self::Shim, Self::Runc];

    const fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Containerd => "containerd",
            Self::Shim => "containerd-shim-runc-v2",
            Self::Runc => "runc",
        }
    }
}

/// Why a process is an impostor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    OtherUser,
    OtherNamespaces,
}

impl Origin {
    const ALL: [Self; 2] = [Self::OtherUser, Self::OtherNamespaces];

    /// Returns the command line before the program.
    fn prefix(self) -> String {
        match self {
            Self::OtherUser => format!("--reuid {OTHER_USER} --regid {OTHER_USER} --clear-groups"),
            Self::OtherNamespaces => "unshare --pid --mount --fork --kill-child".to_owned(),
        }
    }
}

/// A directory with the programs of the impostors. Each of them only waits for a line that never comes, whatever its
/// arguments are.
struct ImpostorDir(PathBuf);

impl ImpostorDir {
    fn new(runtime: &RealRuntime) -> Self {
        let path = env::temp_dir().join(format!("plegctl-impostors-{}", runtime.name()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("manifests")).unwrap();
        let shell = fs::canonicalize("/bin/sh").unwrap();
        for program in Program::ALL {
            copy_program(&shell, path.join(program.name()));
        }
        assert!(Command::new("mkfifo").arg(path.join("never")).status().unwrap().success());
        let directory = Self(path);
        directory.file("wait", &format!("read line < {}/never\n", directory.0.display()));
        directory.file("manifests/theirs.yaml", "kind: Pod\n");
        directory.file("kubeconfig", "kind: Config\n");
        let socket = directory.0.join("debug.sock");
        directory.file("config.toml", &format!("[debug]\naddress = \"{}\"\n", socket.display()));
        for open in ["", "never"].into_iter().chain(Program::ALL.map(Program::name)) {
            fs::set_permissions(directory.0.join(open), fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// Starts an impostor whose arguments name files of this directory, or the pod and its container.
    fn impostor(&self, program: Program, origin: Origin, runtime: &RealRuntime, pod: &Pod) -> Impostor {
        let directory = self.0.display();
        let arguments = match program {
            Program::Kubelet => format!(
                "--pod-manifest-path={directory}/manifests --kubeconfig={directory}/kubeconfig \
                 --container-runtime-endpoint=unix://{directory}/cri.sock --hostname-override=theirs"
            ),
            Program::Containerd => format!("--config {directory}/config.toml"),
            Program::Shim => {
                format!("-namespace k8s.io -id {} -address {}", pod.sandbox_id, runtime.socket().display())
            }
            Program::Runc => format!("--root /run/runc state {}", pod.containers[0]),
        };
        let line = format!("{} {directory}/{} {directory}/wait {arguments}", origin.prefix(), program.name());
        if program == Program::Containerd {
            // plegctl finds the daemon by its listening socket, so the impostor listens on the same path first. The
            // daemon starts after it, so that the impostor usually has the lower process id and comes first in `/proc`.
            runtime.kill_daemon();
            let _ = fs::remove_file(runtime.socket());
            let listener = UnixListener::bind(runtime.socket()).unwrap();
            let impostor = Impostor::start(&line, Stdio::from(OwnedFd::from(listener)));
            fs::remove_file(runtime.socket()).unwrap();
            runtime.start_daemon();
            return impostor;
        }
        Impostor::start(&line, Stdio::null())
    }
}

impl Drop for ImpostorDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A stopped process. Dropping this kills it.
struct Impostor {
    child: Child,
    pid: Pid,
}

impl Impostor {
    fn start(line: &str, stdin: Stdio) -> Self {
        let child = Command::new("setpriv")
            .args("--pdeathsig KILL".split(' ').chain(line.split(' ')))
            .stdin(stdin)
            .spawn()
            .unwrap();
        let setpriv = child.id();
        let pid = wait_for("an impostor to wait", || {
            let children = fs::read_to_string(format!("/proc/{setpriv}/task/{setpriv}/children")).ok()?;
            let pid = children.split_whitespace().next().map_or(setpriv, |child| child.parse().unwrap());
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let is_named = ["kubelet", "containerd", "runc"].iter().any(|name| comm.starts_with(name));
            is_named.then_some(pid)
        });
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self { child, pid }
    }

    /// Whether a report names this process. Lines that reject it do not count.
    fn is_in(&self, report: &str) -> bool {
        let pid = self.pid.as_raw_nonzero();
        let words =
            [format!("[{pid}]"), format!("pid {pid}"), format!("/proc/{pid}/"), format!("CONT {pid}")];
        report
            .lines()
            .filter(|line| !line.contains("does not count as"))
            .any(|line| words.iter().any(|word| line.contains(word.as_str())))
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        // Kills `unshare` first, because it would print a message about the end of its child.
        let _ = self.child.kill();
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The files and sockets that an impostor names. Detects whether a program opens one of them.
struct NamedFiles {
    files: OwnedFd,
    sockets: Vec<UnixListener>,
}

impl NamedFiles {
    fn new(directory: &Path) -> Self {
        let files = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        for name in ["manifests", "manifests/theirs.yaml", "kubeconfig", "config.toml"] {
            add_watch(&files, directory.join(name), WatchFlags::OPEN).unwrap();
        }
        let listening = |name| {
            let socket = UnixListener::bind(directory.join(name)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self { files, sockets: ["debug.sock", "cri.sock"].map(listening).into() }
    }

    /// Whether anybody opened a file or a socket of the impostor.
    fn was_opened(&self) -> bool {
        Reader::new(&self.files, &mut [MaybeUninit::uninit(); 4096]).next().is_ok()
            || self.sockets.iter().any(|socket| socket.accept().is_ok())
    }
}

/// A containerd with one pod, and the directory for the impostors.
struct TestNode {
    runtime: RealRuntime,
    pod: Pod,
    directory: ImpostorDir,
    named: NamedFiles,
    /// The process id of the pod's shim, from before there were impostors of it.
    shim: i32,
    /// Whether a call hangs, so that plegctl may use short silence limits. Otherwise a busy machine may look like a hang.
    a_call_hangs: bool,
}

impl TestNode {
    fn new(version: Containerd) -> Option<Self> {
        packages()?;
        let runtime = real(version)?;
        with_network(&runtime);
        let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
        let directory = ImpostorDir::new(&runtime);
        let named = NamedFiles::new(&directory.0);
        let shim = runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get();
        Some(Self { runtime, pod, directory, named, shim, a_call_hangs: false })
    }

    /// Runs plegctl on a node that has this containerd and at most one impostor.
    fn plegctl(&self, words: &[&str], impostor: Option<&Impostor>) -> Output {
        let others: Vec<Pid> = impostor.iter().map(|impostor| impostor.pid).collect();
        let node = self.runtime.node_with(&others);
        let invocation = Invocation::new(words).env("PLEGCTL_TEST_NODE", node);
        if self.a_call_hangs { invocation.with_short_silences() } else { invocation }.run()
    }

    /// Runs a command that prints JSON. It may not name the impostor or open a file that the impostor names.
    fn report(&self, words: &[&str], round: &Round) -> Result<Value, String> {
        let output = self.plegctl(words, Some(&round.impostor));
        round.check(!round.impostor.is_in(&output.stdout), "is named", &output)?;
        round.check(!self.named.was_opened(), "made plegctl open a file or socket", &output)?;
        serde_json::from_str(&output.stdout).map_err(|why| format!("{why}: {output}"))
    }

    /// Plays a round for each kind of impostor, and reports all rounds that fail.
    fn play(&self, programs: &[Program], check: impl Fn(&Round) -> Result<(), String>) {
        let mut failures = Vec::new();
        for program in programs {
            for origin in Origin::ALL {
                let impostor = self.directory.impostor(*program, origin, &self.runtime, &self.pod);
                let round = Round { name: format!("{program:?} {origin:?}"), impostor };
                failures.extend(check(&round).err());
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// A round with one impostor.
struct Round {
    name: String,
    impostor: Impostor,
}

impl Round {
    fn check(&self, holds: bool, what: &str, output: impl std::fmt::Display) -> Result<(), String> {
        if holds { Ok(()) } else { Err(format!("{} [{:?}] {what}: {output}", self.name, self.impostor.pid)) }
    }
}

fn an_impostor_of_any_kind_changes_no_verdict_and_none_of_its_files_is_opened(version: Containerd) {
    let Some(mut node) = TestNode::new(version) else { return };
    no_impostor_makes_a_healthy_node_unhealthy(&node);
    node.a_call_hangs = true;
    no_impostor_takes_the_blame_for_a_hang(&node);
}

/// On a healthy node. A stopped kubelet or shim would make it unhealthy.
fn no_impostor_makes_a_healthy_node_unhealthy(node: &TestNode) {
    let endpoint = node.runtime.endpoint();
    let pods: &[&str] = &["pods", "--no-cri"];
    let lint: &[&str] = &["static-pods", "lint", "--no-cri"];
    // Without `-r`, plegctl searches for a runtime, and a kubelet's command line names one.
    let others: [&[&str]; 2] = [&["relist"], &["stacks", "--once"]];
    let alone = [pods, lint].map(|words| node.plegctl(words, None));
    node.play(&[Program::Kubelet, Program::Shim], |round| {
        let report = node.report(&["health", "-o", "json", "-r", &endpoint], round)?;
        let findings = report["findings"].as_array().unwrap();
        let is_fine = findings.iter().all(|finding| finding["severity"] == "info");
        round.check(
            report["verdict"] == "healthy" && is_fine,
            "changes the verdict",
            format!("{report:#}"),
        )?;
        for (words, alone) in [pods, lint].iter().zip(&alone) {
            let output = node.plegctl(words, Some(&round.impostor));
            let is_same = (output.code, &output.stdout) == (alone.code, &alone.stdout);
            round.check(is_same, "changes an answer", &output)?;
        }
        for words in others {
            node.plegctl(words, Some(&round.impostor));
        }
        round.check(!node.named.was_opened(), "made plegctl open a file or socket", "")?;
        Ok(())
    });
}

/// While a call hangs. A stopped daemon or OCI runtime is a finding only then.
fn no_impostor_takes_the_blame_for_a_hang(node: &TestNode) {
    let (runtime, pod, shim) = (&node.runtime, &node.pod, node.shim);
    let endpoint = runtime.endpoint();
    let debug = format!("unix://{}", runtime.directory().join("debug.sock").display());
    let check = |round: &Round| {
        let report = node.report(&["health", "-o", "json", "-r", &endpoint], round)?;
        // On a busy machine the daemon may not send its dump in time.
        let dump = wait_for("a dump", || {
            let dump = node.report(&["stacks", "--once", "-o", "json", &debug], round);
            let is_missing = |dump: &Value| dump["dumps"].as_array().is_some_and(Vec::is_empty);
            (!dump.as_ref().is_ok_and(is_missing)).then_some(dump)
        })?;
        let primary = &report["primary"];
        let title = primary["title"].as_str().unwrap_or_default();
        let is_right = report["verdict"] == "unhealthy"
            && primary["container"]["id"] == pod.containers[0].as_str()
            && title.contains(&format!("containerd-shim[{shim}]"))
            && dump["primary"]["holder"]["waitsFor"]["pid"] == shim;
        let (other, findings) = (&dump["primary"], &dump["findings"]);
        let names = format!("{:#}, {:#}", dump["limits"], dump["dumps"]);
        round.check(is_right, "changes the verdict", format!("{primary:#}\n{other:#}\n{names}\n{findings:#}"))
    };
    // To create this impostor, the test restarts the daemon, which cannot start while a shim is stopped. So the hang
    // begins after that.
    node.play(&[Program::Containerd], |round| {
        let _held = runtime.hold_status_lock(&pod.containers[0]);
        check(round)
    });
    let _held = runtime.hold_status_lock(&pod.containers[0]);
    node.play(&[Program::Runc], check);
}
