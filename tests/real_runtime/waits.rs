//! `health` names who keeps the runtime waiting: real waits in the kernel below real pods, and creates that hang. Each test
//! prints the time from the begin of the hang to the report that names its cause.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tonic::Code;

use crate::daemon::{RealRuntime, tool};
use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::Invocation;
use crate::pods::{ContainerSpec, PodSpec};
use crate::{real, real_on_its_own_disk, wait_for};

on_each_containerd! {
    a_network_plugin_that_hangs_is_named_with_its_pod
    an_address_store_that_stays_locked_is_named_with_the_holder_of_its_lock
    a_runc_that_hangs_is_named_with_its_pod
    a_silent_security_agent_is_named_for_a_hung_list
    a_stopped_fuse_daemon_is_named_for_a_container_that_does_not_end
    a_frozen_file_system_below_the_runtime_is_named
    a_frozen_pod_is_named_with_its_thaw
}

/// A process of a test. Dropping this kills it, and with it the wait that it causes.
pub struct Helper(Child);

impl Helper {
    /// Starts a program; its arguments must have the runtime's directory, so that it is in the runtime's process table.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The screen and the report of `health` on a machine that has been up for `older` seconds longer.
struct Seen {
    report: Value,
    screen: String,
}

impl Seen {
    fn of(runtime: &RealRuntime, older: f64) -> Self {
        let endpoint = runtime.endpoint();
        let node = runtime.aged_node(older);
        let saved = runtime.directory().join("saved.json").display().to_string();
        let arguments = ["health", "-r", &endpoint, "--save", &saved];
        let screen = Invocation::new(&arguments).env("PLEGCTL_TEST_NODE", node).run();
        let text = fs::read_to_string(&saved).unwrap_or_else(|why| panic!("{why}: {screen}"));
        let report = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {screen}"));
        Self { report, screen: screen.stdout }
    }

    fn finding(&self, id: &str) -> &Value {
        let findings = self.report["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["id"] == id);
        found.unwrap_or_else(|| panic!("no {id}: {:#}\n{}", self.report, self.screen))
    }

    #[track_caller]
    fn assert_verdict(&self, verdict: &str) {
        assert_eq!(self.report["verdict"], verdict, "{:#}\n{}", self.report, self.screen);
    }

    /// Requires a finding with this confidence, and words that its title and evidence must have.
    #[track_caller]
    fn assert_finding(&self, id: &str, confidence: &str, words: &[&str]) {
        let finding = self.finding(id);
        assert_eq!(finding["confidence"], confidence, "{finding:#}\n{}", self.screen);
        let text = format!("{} {}", finding["title"], finding["evidence"]);
        for words in words {
            assert!(text.contains(words), "{words}: {finding:#}\n{}", self.screen);
        }
    }
}

/// Requires that `pods --why` names what keeps the pod from starting: with the API server's word that the pod should run, and
/// without any source.
#[track_caller]
fn assert_why(runtime: &RealRuntime, older: f64, (name, uid): (&str, &str), kind: &str, words: &[&str]) {
    let since = humantime::format_rfc3339_seconds(SystemTime::now() - Duration::from_secs(600)).to_string();
    let list = json!({"kind": "List", "items": [{
        "metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "startTime": since}}]});
    let file = runtime.directory().join("pods.json").display().to_string();
    fs::write(&file, list.to_string()).unwrap();
    let (endpoint, pod) = (runtime.endpoint(), format!("default/{name}"));
    let words_of = |more: &[&str]| {
        let fixed = ["pods", "-r", &endpoint, "--node-name", "n1", "--why", &pod, "-o", "json"];
        let node = runtime.aged_node(older);
        let output = Invocation::new(&[&fixed, more].concat()).env("PLEGCTL_TEST_NODE", node).run();
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        assert_eq!(output.code, Some(1), "{output}");
        assert_eq!(
            (&report["holders"][0]["kind"], &report["holders"][0]["confidence"]),
            (&kind.into(), &"likely".into())
        );
        for words in words {
            assert!(report["summary"].as_str().unwrap().contains(words), "{words}: {output}");
        }
        report["state"].clone()
    };
    assert_eq!(words_of(&["--api-pods", &file]), "notStarting");
    assert_eq!(words_of(&[]), "held");
}

/// Prints how long it took from the begin of a hang to the report that names its cause.
fn print_time(version: Containerd, what: &str, began: Instant, older: f64) {
    let took = began.elapsed().as_secs_f64();
    let aged = if older > 0.0 { format!(" (the processes look {older:.0} s older)") } else { String::new() };
    println!("{version:?}: {what}: named {took:.1} s after the hang began{aged}");
}

fn write_program(path: &Path, text: &str) {
    // `cp` writes the file: see `copy_program`.
    let source = path.with_extension("text");
    fs::write(&source, text).unwrap();
    crate::plegctl::copy_program(&source, path);
    fs::remove_file(&source).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates a named pipe without a writer: a program that opens it waits.
fn pipe(runtime: &RealRuntime) -> String {
    let pipe = runtime.directory().join("pipe").display().to_string();
    tool("mkfifo", &[&pipe]);
    pipe
}

/// Installs a network plugin. containerd starts `loopback` first, so the plugin has this name.
fn install_plugin(runtime: &RealRuntime, line: &str) {
    runtime.configure_network("loopback");
    write_program(&runtime.directory().join("cni-bin/loopback"), &format!("#!/bin/sh\n{line}\n"));
}

/// Whether a process with these words on its command line runs.
fn runs(words: &str) -> Option<()> {
    let found = crate::faults::processes().any(|pid| crate::faults::arguments(pid).join(" ").contains(words));
    found.then_some(())
}

fn a_network_plugin_that_hangs_is_named_with_its_pod(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    install_plugin(&runtime, &format!("read line < {}", pipe(&runtime)));
    let began = Instant::now();
    let uid = "7f0c2a4e-0000-4000-8000-000000000001";
    let waiting = runtime.start_pod_in_background(&PodSpec::new("netless").uid(uid).own_network());
    let plugin = runtime.directory().join("cni-bin/loopback").display().to_string();
    wait_for("the plugin to hang", || runs(&plugin));
    let young = Seen::of(&runtime, 40.0);
    young.assert_verdict("healthy");
    young.assert_finding("D16", "possible", &["loopback[", "default/netless"]);
    assert!(young.screen.contains("of default/netless has not finished for"), "{}", young.screen);
    let old = Seen::of(&runtime, 70.0);
    print_time(version, "a network plugin that hangs", began, 70.0);
    assert_why(&runtime, 70.0, ("netless", uid), "network", &["the network plugin loopback["]);
    waiting.abort();
    old.assert_verdict("degraded");
    old.assert_finding("D16", "likely", &["loopback[", "default/netless"]);
    assert!(old.screen.lines().next().unwrap().contains("of default/netless"), "{}", old.screen);
}

fn an_address_store_that_stays_locked_is_named_with_the_holder_of_its_lock(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let bin = runtime.directory().join("cni-bin");
    let store = runtime.directory().join("lock").display().to_string();
    let wait = format!("read line < {}", pipe(&runtime));
    let holder = Helper::start("flock", &["--no-fork", &store, "sh", "-c", &wait]);
    wait_for("the store to be locked", || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.contains(&format!(" {} ", holder.pid())).then_some(())
    });
    // The plugin starts host-local, as real plugins do; host-local waits for the lock.
    let flock = ["/usr/bin/flock", "/bin/flock"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    crate::plegctl::copy_program(flock, bin.join("host-local"));
    let host_local = bin.join("host-local").display().to_string();
    install_plugin(&runtime, &format!("{host_local} {store} true; exit 1"));
    let began = Instant::now();
    let waiting = runtime.start_pod_in_background(&PodSpec::new("netless").own_network());
    wait_for("host-local to wait", || runs(&format!("{host_local} {store}")));
    let seen = Seen::of(&runtime, 70.0);
    print_time(version, "a held file lock", began, 70.0);
    waiting.abort();
    seen.assert_verdict("degraded");
    let lock = format!("the file lock of sh[{}]", holder.pid());
    seen.assert_finding("D37", "likely", &["host-local[", "default/netless", &lock, &store]);
    seen.assert_finding("D16", "likely", &["default/netless"]);
    let first = seen.screen.lines().next().unwrap();
    assert!(first.contains("default/netless waits for the file lock of sh["), "{}", seen.screen);
}

fn a_runc_that_hangs_is_named_with_its_pod(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    with_network(&runtime);
    runtime.run_pods(2, 1);
    let pipe = pipe(&runtime);
    write_program(
        &runtime.directory().join("bin/runc"),
        &format!(
            "#!/bin/sh\ncase \" $* \" in *' create '*) read line < {pipe};; esac\nPATH=${{PATH#*:}} exec runc \"$@\"\n"
        ),
    );
    let began = Instant::now();
    let uid = "7f0c2a4e-0000-4000-8000-000000000002";
    let waiting = runtime.start_pod_in_background(&PodSpec::new("runcless").uid(uid));
    let runc = runtime.directory().join("bin/runc").display().to_string();
    wait_for("runc to hang", || runs(&runc));
    let young = Seen::of(&runtime, 40.0);
    young.assert_verdict("healthy");
    young.assert_finding("D10", "possible", &["runc[", "create of default/runcless"]);
    assert!(young.screen.contains("default/runcless"), "{}", young.screen);
    let old = Seen::of(&runtime, 70.0);
    print_time(version, "a runc that hangs", began, 70.0);
    assert_why(&runtime, 70.0, ("runcless", uid), "runtime", &["runc[", "has not finished for"]);
    waiting.abort();
    old.assert_verdict("degraded");
    old.assert_finding("D10", "likely", &["runc[", "create of default/runcless"]);
    let first = old.screen.lines().next().unwrap();
    assert!(first.contains("create of default/runcless has not finished"), "{}", old.screen);
}

/// An agent that gets permission events for a mount and never answers.
const AGENT: &str = "syscall(300, 4, 0) >= 0 or die; syscall(301, 3, 0x11, 0x10000, -100, $ARGV[0]) == 0 or die; \
                     open(R, '>', $ARGV[1]); close(R); sleep 1000";

#[cfg(not(target_arch = "x86_64"))]
fn a_silent_security_agent_is_named_for_a_hung_list(_: Containerd) {}

#[cfg(target_arch = "x86_64")]
fn a_silent_security_agent_is_named_for_a_hung_list(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
    // The agent checks the directory from which the shims start runc; the directory is a mount of its own.
    let bin = runtime.directory().join("bin").display().to_string();
    write_program(&runtime.directory().join("bin/runc"), "#!/bin/sh\nPATH=${PATH#*:} exec runc \"$@\"\n");
    tool("mount", &["--bind", &bin, &bin]);
    let ready = runtime.directory().join("ready");
    let agent = Helper::start("perl", &["-e", AGENT, &bin, &ready.display().to_string()]);
    wait_for("the agent", || ready.exists().then_some(()));
    let began = Instant::now();
    let update = runtime.update_in_background(&pod.containers[0]);
    wait_for("the list to hang", || {
        let answer = runtime.calls.list_containers(Duration::from_secs(2));
        matches!(answer, Err(why) if why.code() == Code::DeadlineExceeded).then_some(())
    });
    let owner = format!("waits for the security agent perl[{}]", agent.pid());
    // On a busy machine, the list above may have been slow before the hang began.
    let seen = wait_for("a report about a list that hangs", || {
        let seen = Seen::of(&runtime, 0.0);
        let findings = seen.report["findings"].as_array().unwrap();
        findings.iter().any(|finding| finding["id"] == "D02").then_some(seen)
    });
    print_time(version, "a silent security agent", began, 0.0);
    drop(agent);
    update.abort();
    println!("{}", seen.screen);
    seen.assert_verdict("unhealthy");
    seen.assert_finding("D02", "certain", &["guilty"]);
    seen.assert_finding("D37", "certain", &["guilty", &owner]);
    let first = seen.screen.lines().next().unwrap();
    assert!(first.contains("default/guilty") && first.contains(&owner), "{}", seen.screen);
}

/// A FUSE daemon that answers the first requests, and stops itself as soon as a name is looked up. The request that it has
/// read stays unanswered.
const FUSE: &str = r"
    $^F = 100; my ($at, $ready) = @ARGV;
    open(F, '+<', '/dev/fuse') or die;
    my $options = 'fd=' . fileno(F) . ',rootmode=40000,user_id=0,group_id=0,allow_other';
    system('mount', '-i', '-t', 'fuse', '-o', $options, 's3fs', $at) == 0 or die;
    open(R, '>', $ready); close(R);
    while (sysread(F, my $request, 135168)) {
        my (undef, $operation, $unique) = unpack('LLQ', $request);
        my $answer = '';
        if ($operation == 26) { $answer = pack('LLLLSSLLSSx32', 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0); }
        elsif ($operation == 3) { $answer = pack('QLLQQQQQQLLLLLLLLLL', 1000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 040755, 2, 0, 0, 0, 4096, 0); }
        elsif ($operation == 1) { kill STOP => $$; sleep 1000; }
        my $error = $answer eq '' ? -38 : 0;
        syswrite(F, pack('LlQ', 16 + length($answer), $error, $unique) . $answer);
    }
";

fn a_stopped_fuse_daemon_is_named_for_a_container_that_does_not_end(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    // The tests of other versions run at the same time and see this mount too.
    let uid = format!("5b6c7d8e-0000-4000-8000-{:012}", std::process::id() * 10 + version as u32);
    let uid = uid.as_str();
    let volume = runtime.directory().join(format!("pods/{uid}/volumes/s3"));
    fs::create_dir_all(&volume).unwrap();
    let ready = runtime.directory().join("ready");
    let paths = [volume.display().to_string(), ready.display().to_string()];
    let daemon = Helper::start("perl", &["-e", FUSE, &paths[0], &paths[1]]);
    wait_for("the file system", || ready.exists().then_some(()));
    runtime.run_pods(2, 1);
    let reader = ContainerSpec::new("app").mount(&volume, "/data").shell("cat /data/file; sleep 1000");
    let pod = runtime.run_pod(&PodSpec::new("reader").uid(uid), &[reader]);
    let began = Instant::now();
    let stopping = runtime.stop_container_in_background(&pod.containers[0]);
    wait_for("the reader to wait", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
        stat.contains(") T ").then_some(())
    });
    let owner = format!("s3fs (fuse) of perl[{}], which is stopped", daemon.pid());
    // A first report can come before the reader has waited long enough for its reason in the kernel to be known.
    let seen = wait_for("the report", || {
        let seen = Seen::of(&runtime, 0.0);
        let findings = seen.report["findings"].as_array().unwrap();
        let named = findings.iter().any(|found| found["id"] == "D09" && found.to_string().contains(&owner));
        named.then_some(seen)
    });
    print_time(version, "a stopped FUSE daemon", began, 0.0);
    drop(daemon);
    stopping.abort();
    println!("{}", seen.screen);
    seen.assert_finding("D09", "likely", &["default/reader", &owner]);
}

fn a_frozen_file_system_below_the_runtime_is_named(version: Containerd) {
    let Some(runtime) = real_on_its_own_disk(version) else { return };
    with_network(&runtime);
    runtime.run_pods(2, 1);
    let frozen = runtime.freeze_disk();
    let began = Instant::now();
    let waiting = runtime.start_pod_in_background(&PodSpec::new("late"));
    let seen = wait_for("the report", || {
        let seen = Seen::of(&runtime, 0.0);
        seen.report["findings"].as_array().unwrap().iter().any(|found| found["id"] == "D37").then_some(seen)
    });
    print_time(version, "a frozen file system", began, 0.0);
    let old = Seen::of(&runtime, 40.0);
    waiting.abort();
    drop(frozen);
    println!("{}", seen.screen);
    assert_eq!(seen.finding("D37")["kernelReason"]["id"], "KR05", "{}", seen.screen);
    let mount = runtime.directory().join("root").display().to_string();
    let words = format!("waits for the frozen file system {mount}");
    // On a busy machine, the wait may be overdue in the first report already.
    let was_overdue = seen.finding("D37").to_string().contains("it has waited for");
    seen.assert_finding("D37", if was_overdue { "certain" } else { "possible" }, &[&words]);
    println!("{}", old.screen);
    old.assert_finding("D37", "certain", &[&words, "it has waited for "]);
    let facts = old.finding("D37")["facts"].as_array().unwrap();
    let waited = facts.iter().find(|fact| fact["kind"] == "hasWaited").unwrap();
    assert!(waited["atLeast"]["seconds"].as_f64().unwrap() >= 39.0, "{waited}");
    let steps = old.finding("D37")["steps"].to_string();
    assert!(steps.contains(&format!("timeout 10 fsfreeze -u {mount}")), "{:#}", old.finding("D37"));
}

fn a_frozen_pod_is_named_with_its_thaw(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(2, 1);
    let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
    let frozen = runtime.freeze_pod(&pod.sandbox_id);
    let began = Instant::now();
    let seen = Seen::of(&runtime, 0.0);
    print_time(version, "a frozen pod", began, 0.0);
    drop(frozen);
    println!("{}", seen.screen);
    seen.assert_finding("D11", "likely", &["default/web"]);
}
