//! Runs plegctl's image as a pod of a real runtime with the security context of the `DaemonSet`: plegctl calls the
//! runtime that runs the pod, and each privilege gives the access that docs/install.md describes.
//!
//! The image needs a static binary, which `cargo test` does not build: `PLEGCTL_IMAGE_BINARY` names the binary. Without
//! this variable, the tests are skipped with a message. If the binary is not static, the tests mount this machine's
//! libraries into the pod.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::messages::{
    Capability, ContainerState, Int64Value, LinuxContainerSecurityContext, NamespaceMode, NamespaceOption,
    SecurityProfile,
};
use crate::packages::Containerd;
use crate::pods::{ContainerSpec, Pod, PodSpec, written};
use crate::{real, wait_for};

/// The name of the image that `packaging/image.sh` builds for these tests.
const IMAGE: &str = "localhost/plegctl:test";

/// The path of the runtime's socket in a `DaemonSet`'s pod.
const SOCKET: &str = "--runtime-endpoint=unix:///run/containerd/containerd.sock";

on_each_containerd! {
    image_calls_the_runtime_that_runs_its_pod
    pod_that_already_runs_names_a_hang
}

/// Returns the static program for the image, if there is one.
fn program() -> Option<PathBuf> {
    let found = std::env::var_os("PLEGCTL_IMAGE_BINARY").map(PathBuf::from);
    if found.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test").to_owned();
        // Not `eprintln!`: the test harness captures its output in tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped {test}: no static binary in PLEGCTL_IMAGE_BINARY");
    }
    found
}

/// Returns a runtime that has the image.
fn with_image(version: Containerd) -> Option<RealRuntime> {
    let program = program()?;
    let runtime = real(version)?;
    let archive = runtime.directory().join("plegctl.tar");
    let bundle = runtime.directory().join("bundle.crt");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(root.join("tests/fleet/pki/authority.crt"), &bundle).unwrap();
    let packed = Command::new("sh")
        .arg(root.join("packaging/image.sh"))
        .args([&program, Path::new("test"), &archive])
        .env("SOURCE_DATE_EPOCH", "1800000000")
        .env("CA_BUNDLE", &bundle)
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    runtime.import(&archive, &[IMAGE]);
    Some(runtime)
}

/// Returns the security context of `deploy/base/daemonset.yaml`.
fn of_the_daemon_set() -> LinuxContainerSecurityContext {
    let manifest =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base/daemonset.yaml"))
            .unwrap();
    for line in [
        "runAsUser: 0\n",
        "allowPrivilegeEscalation: false\n",
        "readOnlyRootFilesystem: true\n",
        "capabilities: {drop: [ALL]}\n",
        "seccompProfile: {type: RuntimeDefault}\n",
        "{name: runtime, mountPath: /run/containerd, readOnly: true, recursiveReadOnly: IfPossible}\n",
    ] {
        assert!(manifest.contains(line), "the manifest does not contain {line}");
    }
    LinuxContainerSecurityContext {
        capabilities: Some(Capability { drop_capabilities: vec!["ALL".to_owned()], ..Capability::default() }),
        run_as_user: Some(Int64Value { value: 0 }),
        readonly_rootfs: true,
        no_new_privs: true,
        seccomp: Some(SecurityProfile::default()),
        namespace_options: Some(network_of_the_host()),
        ..LinuxContainerSecurityContext::default()
    }
}

/// Returns the namespaces of a pod in the host's network, because the test has no network plugin.
fn network_of_the_host() -> NamespaceOption {
    NamespaceOption {
        network: NamespaceMode::Node.into(),
        pid: NamespaceMode::Container.into(),
        ..NamespaceOption::default()
    }
}

/// Returns the security context of the overlay `kubelet-access`, which also has the node's process table.
fn with_host_pid() -> LinuxContainerSecurityContext {
    let namespaces = NamespaceOption { pid: NamespaceMode::Node.into(), ..network_of_the_host() };
    LinuxContainerSecurityContext { namespace_options: Some(namespaces), ..of_the_daemon_set() }
}

/// Returns a container of the image with these arguments and the runtime's directory, like the base.
fn base(runtime: &RealRuntime, arguments: &[&str]) -> ContainerSpec {
    plegctl(&[arguments, &[SOCKET]].concat()).mount(runtime.directory(), "/run/containerd")
}

/// Returns a container with the node's files below `/host`, like the overlay `kubelet-access`. The socket of a test's
/// runtime is not at a default path, so the arguments have its path on the node.
fn access(runtime: &RealRuntime, arguments: &[&str]) -> ContainerSpec {
    let socket = format!("--runtime-endpoint=unix://{}", runtime.socket().display());
    plegctl(&[arguments, &["--host-root=/host", &socket]].concat()).mount(Path::new("/"), "/host")
}

fn plegctl(arguments: &[&str]) -> ContainerSpec {
    let container = ContainerSpec::new("plegctl").of_image(IMAGE, arguments).env("NODE_NAME", "worker-7");
    let head = std::fs::read(program().unwrap()).unwrap();
    if !head[..4096].windows(5).any(|word| word == b"/lib6") {
        return container;
    }
    ["/lib", "/lib64"]
        .into_iter()
        .fold(container, |container, folder| container.mount(&std::fs::canonicalize(folder).unwrap(), folder))
}

/// Runs a container to its end. Returns its exit code and its output.
fn run_to_end(runtime: &RealRuntime, pod: &PodSpec, container: &ContainerSpec) -> (i32, String) {
    let pod = runtime.run_pod(pod, std::slice::from_ref(container));
    let status = runtime.wait_for_state(&pod.containers[0], ContainerState::ContainerExited);
    let text = written(runtime, &pod, "plegctl");
    (status.exit_code, text)
}

/// Returns the reason why `what` was not checked.
fn skipped<'a>(report: &'a Value, what: &str) -> Option<&'a str> {
    let skipped = report["notChecked"].as_array().unwrap();
    skipped.iter().find(|skipped| skipped["what"] == what)?["why"].as_str()
}

fn report(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn image_calls_the_runtime_that_runs_its_pod(version: Containerd) {
    let Some(runtime) = with_image(version) else { return };
    let _web = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let processes = "processes outside of this pod";

    let health = base(&runtime, &["health", "--deep", "-o", "json"]).secured(of_the_daemon_set());
    let (code, text) = run_to_end(&runtime, &PodSpec::new("base"), &health);
    let alone = report(&text);
    assert_eq!((alone["node"].as_str(), code), (Some("worker-7"), 0), "{text}");
    assert_ne!(alone["verdict"], "unhealthy", "{text}");
    assert_eq!(
        skipped(&alone, processes),
        Some("the runtime's daemon is not in this process table"),
        "{text}"
    );
    // Without the node's processes, the missing kubelet is no finding.
    assert!(!text.contains("\"D32\""), "{text}");
    assert!(skipped(&alone, "the journal").is_some_and(|why| why.contains("is not available")), "{text}");

    let health = access(&runtime, &["health", "-o", "json"]).secured(with_host_pid());
    let (code, text) = run_to_end(&runtime, &PodSpec::new("access").host_pid(), &health);
    let with_processes = report(&text);
    assert_eq!(code, 0, "{text}");
    assert_eq!(skipped(&with_processes, processes), None, "{text}");
    // With the node's processes, plegctl sees the runtime and no kubelet. The finding is only an info, because nothing
    // below `/host` shows that a kubelet is installed. If other tests run a containerd at the same time, plegctl cannot
    // know which one answers, and reports that instead.
    let findings = with_processes["findings"].as_array().unwrap();
    let missed: Vec<&Value> = findings.iter().filter(|finding| finding["id"] == "D32").collect();
    match (missed.as_slice(), skipped(&with_processes, "the runtime's daemon")) {
        ([], Some(why)) => assert!(why.starts_with("several runtimes run here"), "{text}"),
        ([missed], None) => {
            assert_eq!(missed["title"], "no kubelet runs on this node", "{text}");
            assert_eq!([&missed["severity"], &missed["confidence"]], ["info", "possible"], "{text}");
        }
        _ => panic!("{text}"),
    }

    // Without root, a group with write permission to the socket is enough. On a node, everybody can enter the socket's
    // directory; here the test has to allow it.
    for (path, mode) in [(runtime.directory(), 0o711), (&runtime.socket(), 0o660)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let as_group = |group| LinuxContainerSecurityContext {
        run_as_user: Some(Int64Value { value: 65532 }),
        run_as_group: Some(Int64Value { value: group }),
        ..of_the_daemon_set()
    };
    for (group, code) in [(0, 0), (65532, 2)] {
        let relist = base(&runtime, &["relist", "-o", "json"]).secured(as_group(group));
        let (exit_code, text) = run_to_end(&runtime, &PodSpec::new(&format!("group-{group}")), &relist);
        assert_eq!(exit_code, code, "{text}");
        assert_eq!(text.contains("permission denied"), code == 2, "{text}");
    }
}

/// As in a real incident: during the hang no new pod can start, but a pod that already runs names the culprit in its
/// log.
fn pod_that_already_runs_names_a_hang(version: Containerd) {
    let Some(runtime) = with_image(version) else { return };
    let web = runtime.run_pod(&PodSpec::new("web").namespace("shop"), &[ContainerSpec::new("app")]);
    let record = ["record", "--max-size=16MiB", "--period=1s", "/dev/shm/captures"];
    let pods: [(&str, Pod); 2] = [
        ("base", PodSpec::new("base"), base(&runtime, &record).secured(of_the_daemon_set())),
        ("access", PodSpec::new("access").host_pid(), access(&runtime, &record).secured(with_host_pid())),
    ]
    .map(|(name, pod, container)| (name, runtime.run_pod(&pod, &[container])));
    for (name, pod) in &pods {
        wait_for(&format!("{name} to record"), || {
            (!written(&runtime, pod, "plegctl").is_empty()).then_some(())
        });
    }
    let held = runtime.hold_status_lock(&web.containers[0]);
    // Without the node's processes the report names the call; with them it names the process that does not answer.
    let shim = format!("[{}] of ", runtime.shim_pid(&web.sandbox_id).as_raw_nonzero());
    let words = [["UNHEALTHY: ", "ListContainers does not answer"], [&shim, " is stopped"]];
    for ((name, pod), words) in pods.iter().zip(words) {
        wait_for(&format!("{name} to log {words:?}"), || {
            let log = written(&runtime, pod, "plegctl");
            log.lines().any(|line| words.iter().all(|words| line.contains(words))).then_some(())
        });
    }
    drop(held);
}

/// Tries to read data of two processes, one of root and one of another user, with each set of privileges. The results are
/// in docs/install.md, in the table below *Capabilities*.
#[test]
fn each_privilege_gives_the_documented_access() {
    let Some(runtime) = real(Containerd::V2) else { return };
    let sleeper = || ContainerSpec::new("app");
    let user = LinuxContainerSecurityContext {
        run_as_user: Some(Int64Value { value: 1000 }),
        namespace_options: Some(network_of_the_host()),
        ..LinuxContainerSecurityContext::default()
    };
    let target = runtime.run_pod(&PodSpec::new("target"), &[sleeper()]);
    let other = runtime.run_pod(&PodSpec::new("other"), &[sleeper().secured(user)]);
    let [pid, other] =
        [&target, &other].map(|pod| runtime.container_pid(&pod.containers[0]).as_raw_nonzero());
    let script = format!(
        "p=/proc/{pid}; for f in stat status cgroup wchan cmdline limits; do cat $p/$f >/dev/null 2>&1 && echo $f; done; \
         cat /proc/pressure/io /proc/1/mountinfo >/dev/null 2>&1 && echo node; \
         for f in exe root fd/0; do readlink $p/$f >/dev/null 2>&1 && echo $f; done; \
         for f in maps stack; do [ -n \"$(cat $p/$f 2>/dev/null)\" ] && echo $f; done; \
         head -c 1 $p/mem 2>&1 | grep -q denied || echo mem; \
         ls /proc/{other}/fd 2>/dev/null | grep -q . && echo fd-of-others"
    );
    let with = |name: &str, add: &[&str], privileged: bool| {
        let context = LinuxContainerSecurityContext {
            capabilities: Some(Capability {
                add_capabilities: add.iter().copied().map(str::to_owned).collect(),
                drop_capabilities: if privileged { Vec::new() } else { vec!["ALL".to_owned()] },
            }),
            privileged,
            ..with_host_pid()
        };
        let pod = PodSpec::new(name).host_pid();
        let pod = if privileged { pod.privileged() } else { pod };
        let container = ContainerSpec::new("plegctl").shell(&script).secured(context);
        let (_, text) = run_to_end(&runtime, &pod, &container);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let plain = "stat status cgroup wchan cmdline limits node";
    assert_eq!(with("none", &[], false), plain);
    assert_eq!(with("ptrace", &["SYS_PTRACE"], false), format!("{plain} exe root fd/0 maps mem"));
    assert_eq!(with("search", &["DAC_READ_SEARCH"], false), format!("{plain} fd-of-others"));
    assert_eq!(with("privileged", &[], true), format!("{plain} exe root fd/0 maps stack mem fd-of-others"));
}
