//! Processes beside real containerd that are named like the node's own: another user's, and root's in another pid and mount
//! namespace. All of them are stopped, as nothing of a healthy node is. They change no verdict, hold up no call, and
//! nothing is opened that they name.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::plegctl_on_this_machine;
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{packages, real, wait_for};

on_each_containerd! {
    impostors_change_no_verdict_hold_up_no_call_and_have_nothing_opened
}

/// Nobody's account.
const STRANGER: &str = "65534";

/// A folder that everybody may read, with programs that wait whatever they are called.
struct Scene(PathBuf);

impl Scene {
    fn new(version: Containerd) -> Self {
        let name = format!("plegctl-impostors-{version:?}-{}", std::process::id());
        let path = env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("manifests")).unwrap();
        let shell = fs::canonicalize("/bin/sh").unwrap();
        for program in ["kubelet", "containerd", "containerd-shim-runc-v2", "runc"] {
            fs::copy(&shell, path.join(program)).unwrap();
        }
        assert!(Command::new("mkfifo").arg(path.join("never")).status().unwrap().success());
        let scene = Self(path);
        scene.file("wait", &format!("read line < {}/never\n", scene.0.display()));
        scene.file("manifests/theirs.yaml", "kind: Pod\n");
        scene.file("kubeconfig", "kind: Config\n");
        let socket = scene.0.join("debug.sock");
        scene.file("config.toml", &format!("[debug]\naddress = \"{}\"\n", socket.display()));
        for open in ["", "never", "kubelet", "containerd", "containerd-shim-runc-v2", "runc"] {
            fs::set_permissions(scene.0.join(open), fs::Permissions::from_mode(0o755)).unwrap();
        }
        scene
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// One of each name and kind, with what it claims about a pod where there is one.
    fn impostors(&self, runtime: Option<(&RealRuntime, &Pod)>) -> Vec<Impostor> {
        let folder = self.0.display();
        let mut lines = vec![
            format!(
                "kubelet --pod-manifest-path={folder}/manifests --kubeconfig={folder}/kubeconfig \
                 --container-runtime-endpoint=unix://{folder}/cri.sock --hostname-override=theirs"
            ),
            format!("containerd --config {folder}/config.toml"),
        ];
        if let Some((runtime, pod)) = runtime {
            let address = runtime.socket();
            lines.push(format!(
                "containerd-shim-runc-v2 -namespace k8s.io -id {} -address {}",
                pod.sandbox_id,
                address.display()
            ));
            lines.push(format!("runc --root /run/runc state {}", pod.containers[0]));
        }
        let of = |line: &String| {
            let line = format!("{folder}/{}", line.replacen(' ', &format!(" {folder}/wait "), 1));
            [
                Impostor::start(&format!("--reuid {STRANGER} --regid {STRANGER} --clear-groups {line}")),
                Impostor::start(&format!("unshare --pid --mount --fork --kill-child {line}")),
            ]
        };
        lines.iter().flat_map(of).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is stopped. It goes with the test.
struct Impostor {
    child: Child,
    pid: Pid,
}

impl Impostor {
    fn start(line: &str) -> Self {
        let child = Command::new("setpriv")
            .args("--pdeathsig KILL".split(' ').chain(line.split(' ')))
            .spawn()
            .unwrap();
        let own = child.id();
        let pid = wait_for("an impostor to wait", || {
            let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
            let pid = children.split_whitespace().next().map_or(own, |child| child.parse().unwrap());
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let is_named = ["kubelet", "containerd", "runc"].iter().any(|name| comm.starts_with(name));
            is_named.then_some(pid)
        });
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self { child, pid }
    }

    /// Whether a report names it as a process that has to do with anything.
    fn is_in(&self, report: &str) -> bool {
        let pid = self.pid.as_raw_nonzero();
        let words =
            [format!("[{pid}]"), format!("pid {pid}"), format!("/proc/{pid}/"), format!("CONT {pid}")];
        // That it does not count as what it is called is what there is to say of it.
        report
            .lines()
            .filter(|line| !line.contains("does not count as"))
            .any(|line| words.iter().any(|word| line.contains(word.as_str())))
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        // The one above first: it would complain of an end that it did not expect.
        let _ = self.child.kill();
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Knows whether somebody opens a file or asks a socket that an impostor names.
struct Bait {
    files: OwnedFd,
    sockets: Vec<UnixListener>,
}

impl Bait {
    fn lay(folder: &Path) -> Self {
        let files = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        for name in ["manifests", "manifests/theirs.yaml", "kubeconfig", "config.toml"] {
            add_watch(&files, folder.join(name), WatchFlags::OPEN).unwrap();
        }
        let listening = |name| {
            let socket = UnixListener::bind(folder.join(name)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self { files, sockets: ["debug.sock", "cri.sock"].map(listening).into() }
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let is_opened = Reader::new(&self.files, &mut [MaybeUninit::uninit(); 4096]).next().is_ok();
        assert!(!is_opened, "a file that an impostor names was opened");
        assert!(self.sockets.iter().all(|socket| socket.accept().is_err()), "its socket was asked");
    }
}

/// What a command says of the runtime; it names none of the impostors.
#[track_caller]
fn said(words: &[&str], impostors: &[&[Impostor]]) -> Value {
    let output = plegctl_on_this_machine(words);
    let named = impostors.iter().copied().flatten().find(|impostor| impostor.is_in(&output.stdout));
    assert!(named.is_none(), "{:?} is named: {output}", named.map(|impostor| impostor.pid));
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

fn impostors_change_no_verdict_hold_up_no_call_and_have_nothing_opened(version: Containerd) {
    if packages().is_none() {
        return;
    }
    let scene = Scene::new(version);
    let bait = Bait::lay(&scene.0);
    let pods = ["pods", "--no-cri"];
    let lint = ["static-pods", "lint", "--no-cri"];
    let alone = [pods.as_slice(), &lint].map(plegctl_on_this_machine);
    // Before the runtime, so that their pids are as a rule the lower ones.
    let early = scene.impostors(None);
    let Some(runtime) = real(version) else { return };
    with_network(&runtime);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    let endpoint = runtime.endpoint();
    let health = ["health", "-o", "json", "-r", &endpoint];

    let late = scene.impostors(Some((&runtime, &pod)));
    let report = said(&health, &[&early, &late]);
    assert_eq!(report["verdict"], "healthy", "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["severity"] == "info"), "{report:#}");
    for (words, alone) in [pods.as_slice(), &lint].iter().zip(&alone) {
        let beside = plegctl_on_this_machine(words);
        assert_eq!((beside.code, &beside.stdout), (alone.code, &alone.stdout), "{beside}");
    }
    // Whichever runtimes this machine has, theirs is none of them.
    plegctl_on_this_machine(&["relist"]);
    plegctl_on_this_machine(&["stacks", "--once"]);
    bait.assert_untouched();
    drop(late);

    // The real shim is stopped before others have its command line.
    let shim = runtime.shim_pid(&pod.sandbox_id).as_raw_nonzero().get();
    let held = runtime.hold_status_lock(&pod.containers[0]);
    let late = scene.impostors(Some((&runtime, &pod)));
    let report = said(&health, &[&early, &late]);
    let debug = format!("unix://{}", runtime.directory().join("debug.sock").display());
    let dump = said(&["stacks", "--once", "-o", "json", &debug], &[&early, &late]);
    drop(held);
    assert_eq!(report["verdict"], "unhealthy", "{report:#}");
    assert_eq!(report["primary"]["container"]["id"], pod.containers[0].as_str(), "{report:#}");
    let title = report["primary"]["title"].as_str().unwrap();
    assert!(title.contains(&format!("containerd-shim[{shim}]")), "{report:#}");
    assert_eq!(dump["primary"]["holder"]["waitsFor"]["pid"], shim, "{dump:#}");
    bait.assert_untouched();
}
