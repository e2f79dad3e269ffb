//! Tests of plegctl on a node that cannot start another process or thread, or has no free file descriptor.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use plegctl_engine::cri::Rpc;

use crate::support::plegctl::{Invocation, Output, Running, copy_program};
use crate::support::raw_server::RawServer;
use crate::support::socket::TempDir;
use crate::support::{FakeRuntime, Node};

/// A user without processes. The process limit does not apply to root, so under root the program runs as this user.
const NOBODY: &str = "61234";

/// A copy of the program that every user can start.
struct RestrictedUser {
    _folder: TempDir,
    program: PathBuf,
    as_root: bool,
}

impl RestrictedUser {
    fn new(socket: &Path) -> Self {
        let folder = TempDir::new();
        let program = folder.path().join("plegctl");
        copy_program(env!("CARGO_BIN_EXE_plegctl"), &program);
        for (path, mode) in [(folder.path(), 0o755), (&program, 0o755), (socket, 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let socket_folder = socket.parent().unwrap();
        fs::set_permissions(socket_folder, fs::Permissions::from_mode(0o755)).unwrap();
        let as_root =
            fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        Self { _folder: folder, program, as_root }
    }

    /// Writes a readable file next to the program, and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.program.with_file_name(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the program with a process limit that allows no further process or thread.
    fn without_threads(&self, arguments: &[&str]) -> Output {
        self.with_at_most(1, arguments)
    }

    /// Runs the program with this process limit, which includes the program's own process and counts threads too.
    fn with_at_most(&self, most: usize, arguments: &[&str]) -> Output {
        let limit = format!("--nproc={most}:{most}");
        self.invocation(&[&["prlimit", &limit, self.program()], arguments].concat()).run()
    }

    fn program(&self) -> &str {
        self.program.to_str().unwrap()
    }

    /// Creates an invocation of another program as this user.
    fn invocation(&self, words: &[&str]) -> Invocation {
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
        let mut all: Vec<&str> = Vec::new();
        if self.as_root {
            all.push("setpriv");
            all.extend(user.iter().map(String::as_str));
        }
        all.extend(words);
        Invocation::program(all[0], &all[1..])
    }
}

#[test]
fn health_without_threads_gives_a_verdict_and_names_the_exhausted_limit() {
    let runtime = RawServer::start(|_| None);
    let place = RestrictedUser::new(&runtime.socket());
    let output = place.without_threads(&["health", "-o", "json", "-r", &runtime.endpoint()]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(
        (&report["verdict"], &report["primary"]["id"]),
        (&"degraded".into(), &"D14".into()),
        "{output}"
    );
    assert!(output.stdout.contains("no thread could be started to read"), "{output}");
}

#[test]
fn watch_and_lint_work_without_threads() {
    let runtime = RawServer::start(|_| None);
    let place = RestrictedUser::new(&runtime.socket());
    let watch = place.without_threads(&["watch", "--count", "2", "-o", "jsonl", "-r", &runtime.endpoint()]);
    assert_eq!(watch.code, Some(0), "{watch}");
    assert_eq!(watch.stdout.matches("\"kind\":\"Relist\"").count(), 2, "{watch}");
    assert!(watch.stdout.contains("\"kind\":\"WatchSummary\""), "{watch}");
    let relist = place.without_threads(&["relist", "-r", &runtime.endpoint()]);
    assert_eq!(relist.code, Some(0), "{relist}");
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/manifests");
    let lint = place.without_threads(&["static-pods", "lint", "--no-cri", "--fail-on", "never", manifests]);
    // Other users may not be able to enter the directory of the sources.
    assert!(matches!(lint.code, Some(0 | 2)) && lint.signal.is_none(), "{lint}");
    let evented =
        place.without_threads(&["watch", "--mode", "evented", "--count", "1", "-r", &runtime.endpoint()]);
    assert_eq!(evented.code, Some(2), "{evented}");
    assert!(evented.stderr.contains("cannot start the guard of the event stream"), "{evented}");
}

#[test]
fn watch_that_cannot_start_a_guard_again_continues_with_relists_and_ends_with_its_summary() {
    let fake = FakeRuntime::start(Node::default());
    let place = RestrictedUser::new(&fake.socket());
    let endpoint = fake.endpoint();
    let how = ["watch", "--mode", "evented", "--period", "10ms", "-o", "jsonl", "-r", &endpoint];
    let mut running = place.invocation(&[&[place.program()], &how[..]].concat()).spawn();
    let next_stream = |running: &mut Running| loop {
        let record: Value = serde_json::from_str(&running.line().expect("the watch has ended")).unwrap();
        if record["kind"] == "Stream" {
            return format!("{} {}", record["state"], record["error"]);
        }
    };
    assert!(next_stream(&mut running).starts_with("\"connected\""));
    let pid = running.pid().to_string();
    let limited = place.invocation(&["prlimit", "--pid", &pid, "--nproc=1:1"]).run();
    assert_eq!(limited.code, Some(0), "{limited}");
    running.kill_guard();
    assert!(next_stream(&mut running).contains("its guard process is gone"));
    let closed = next_stream(&mut running);
    assert!(closed.contains("cannot start the guard of the event stream"), "{closed}");
    let lists = fake.calls_of(Rpc::ListPodSandbox).len();
    fake.wait_for(Rpc::ListPodSandbox, lists + 2);
    running.signal("INT");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    let summary: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["kind"], &summary["stream"]["failures"]), (&"WatchSummary".into(), &0.into()));
}

/// tokio panics if it cannot start a thread, so plegctl must check this before it uses tokio.
#[test]
fn commands_that_need_a_thread_report_that_none_can_be_started() {
    let runtime = RawServer::start(|_| None);
    let place = RestrictedUser::new(&runtime.socket());
    let endpoint = runtime.endpoint();
    let kubeconfig = place.file(
        "kubeconfig",
        "{clusters: [{name: c, cluster: {server: 'http://localhost:1'}}], users: [{name: u, user: {token: t}}], \
         contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}",
    );
    let pods = place.file("pods.json", r#"{"kind": "PodList", "apiVersion": "v1", "items": []}"#);
    let dump = place.file("dump", "goroutine 1 [running]:\nmain.main()\n\t/main.go:1 +0x1\n");
    let rows: [(&[&str], i32); 10] = [
        (&["relist", "-r", "sim:quiet"], 2),
        (&["health", "-r", "sim:quiet"], 2),
        (&["watch", "--mode", "evented", "--count", "1", "-r", "sim:quiet"], 2),
        (&["stacks", "http://localhost:1/debug/goroutines"], 2),
        (&["nodes", "--kubeconfig", &kubeconfig], 2),
        (&["pods", "--node-name", "n", "--api-pods", &pods, "-r", &endpoint], 2),
        (&["pods", "--node-name", "n", "--manifest-url", "http://localhost:1/", "-r", &endpoint], 2),
        (&["pods", "--node-name", "n", "--kubeconfig", &kubeconfig, "-r", &endpoint], 2),
        (&["health", "--kubelet-healthz", "http://localhost:1/healthz", "-o", "json", "-r", &endpoint], 0),
        (&["health", "--stacks", &dump, "-o", "json", "-r", &endpoint], 0),
    ];
    for (words, code) in rows {
        let output = place.without_threads(words);
        assert!(!output.stderr.contains("fault:"), "{words:?}: {output}");
        assert_eq!(output.code, Some(code), "{words:?}: {output}");
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(text.contains("no thread c"), "{words:?}: {output}");
    }
    // The writer, the guard and the reader of the stream each need a thread or process.
    for most in 2..6 {
        let words = ["watch", "--mode", "evented", "--count", "1", "-r", &endpoint];
        let output = place.with_at_most(most, &words);
        assert!(matches!(output.code, Some(0 | 2)), "{most}: {output}");
        assert!(!output.stderr.contains("fault:"), "{most}: {output}");
    }
}

/// With any number of file descriptors, plegctl either works or reports that they are too few.
#[test]
fn too_few_file_descriptors_are_an_error_and_no_finding() {
    let runtime = RawServer::start(|_| None);
    let endpoint = runtime.endpoint();
    let mut ends = Vec::new();
    for most in (4..20).chain([40]) {
        let limit = format!("--nofile={most}:{most}");
        let words = [&limit, env!("CARGO_BIN_EXE_plegctl"), "health", "-o", "json", "-r", &endpoint];
        let output = Invocation::program("prlimit", &words).run();
        assert!(!output.stderr.contains("fault:"), "{most}: {output}");
        let has_answer =
            output.stdout.contains("\"verdict\"") || output.stderr.contains("Too many open files");
        assert!(has_answer, "{most}: {output}");
        ends.push(output.code);
    }
    assert_eq!((ends.first(), ends.last()), (Some(&Some(2)), Some(&Some(0))), "{ends:?}");
}

#[test]
fn help_into_a_full_device_fails() {
    let shell = |line: &str| {
        let line = line.replace("plegctl", env!("CARGO_BIN_EXE_plegctl"));
        Invocation::program("sh", &["-c", &line]).run()
    };
    for command in
        ["plegctl --help > /dev/full", "plegctl --version > /dev/full", "plegctl sim list > /dev/full"]
    {
        let output = shell(command);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("No space left on device"), "{output}");
    }
    let closed = shell("plegctl --help | true");
    assert_eq!(closed.stderr, "", "{closed}");
}
