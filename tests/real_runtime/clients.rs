//! Tests of the finding about the clients of the runtime's socket, by what the kernel counts for each of them.

use std::fs;

use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::harness::calls::Calls;
use crate::messages::ListContainersRequest;
use crate::packages::Containerd;
use crate::plegctl::Invocation;
use crate::waits::Helper;
use crate::{TIME_LIMIT, real, wait_for};

on_each_containerd! {
    a_client_that_lists_all_the_time_is_named_and_one_that_reads_other_files_is_not
}

/// A client of the runtime that reads and writes with the system calls of a program in Go, for one caller at its own socket.
const RELAY: &str = r"
    use IO::Select; use IO::Socket::UNIX;
    my ($at, $socket) = @ARGV;
    my $caller = IO::Socket::UNIX->new(Local => $at, Listen => 1)->accept or die;
    my $runtime = IO::Socket::UNIX->new(Peer => $socket) or die;
    my $both = IO::Select->new($caller, $runtime);
    while (1) { for my $ready ($both->can_read) {
        my $part = '';
        if ($ready == $caller) { recv($caller, $part, 65536, 0); $part ne '' or exit; syswrite($runtime, $part) }
        else { sysread($runtime, $part, 65536) or exit; send($caller, $part, 0) }
    } }
";

/// A client of the runtime that makes no call, and reads and writes other files all the time.
const BUSY: &str = r"
    use IO::Socket::UNIX;
    my $runtime = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die;
    open(Z, '<', '/dev/zero'); open(N, '>', '/dev/null');
    while (1) { sysread(Z, my $part, 65536); syswrite(N, $part); select(undef, undef, undef, 0.001) }
";

/// Returns the finding about the clients of the socket, and the whole report.
fn clients(runtime: &RealRuntime) -> (Option<Value>, Value) {
    let words = ["health", "-r", &runtime.endpoint(), "--deep", "-o", "json"];
    let output = Invocation::new(&words).env("PLEGCTL_TEST_NODE", runtime.node_with(&[])).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "D39");
    (found.cloned(), report)
}

fn has_a_socket(pid: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.any(|link| link.to_string_lossy().starts_with("socket:"))
}

fn a_client_that_lists_all_the_time_is_named_and_one_that_reads_other_files_is_not(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    runtime.run_pods(10, 1);
    let socket = runtime.socket().display().to_string();
    let busy = Helper::start("perl", &["-e", BUSY, &socket]);
    wait_for("its connection", || has_a_socket(busy.pid()).then_some(()));
    let (none, report) = clients(&runtime);
    assert_eq!(none, None, "{report:#}");

    let at = runtime.directory().join("relay.sock");
    // As in a pod, the client has a network of its own.
    let arguments = ["--net", "perl", "-e", RELAY, &at.display().to_string(), &socket];
    let relay = Helper::start("unshare", &arguments);
    let calls = Calls::to(&at);
    wait_for("the relay", || at.exists().then(|| calls.version(TIME_LIMIT).ok()).flatten());
    for _ in 0..4 {
        let client = calls.client();
        calls.spawn(async move { while client.send(ListContainersRequest::default()).await.is_ok() {} });
    }
    let found = wait_for("the finding", || clients(&runtime).0);
    println!("{version:?}: {found:#}");
    let title = format!("perl[{}] reads most of what the runtime writes: ", relay.pid());
    assert!(found["title"].as_str().unwrap().starts_with(&title), "{found:#}");
    assert_eq!((&found["confidence"], &found["severity"]), (&"possible".into(), &"info".into()));
    let other = format!("perl[{}]: 1 connection", busy.pid());
    assert!(found["evidence"].to_string().contains(&other), "{found:#}");
}
