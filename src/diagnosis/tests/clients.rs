//! Tests of D39, the clients of the runtime's socket.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::{FakeNode, FakeProcess, find};
use super::scripted::{Behaviour, Scripted};
use super::travels::judge;
use crate::cri::Rpc;
use crate::diagnosis::proc::clients::{IoCounters, SocketClient, SocketClients};
use crate::diagnosis::report::{Confidence, RuleId, Severity, Verdict};
use crate::diagnosis::{Evidence, HealthMode, gather};

#[tokio::test(start_paused = true)]
async fn clients_of_the_socket_are_named_if_they_are_many_or_do_not_read() {
    let node = FakeNode::new("clients").with_pods(3).listening();
    let client = |pid, comm: &str, unread| SocketClient { pid, comm: comm.into(), connections: 2, unread };
    let kubelet = client(100, "kubelet", 0);
    let agents = || [client(301, "falco", 0), client(302, "datadog-agent", 9), client(303, "crictl", 0)];
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let mut judged = |clients: Vec<SocketClient>| {
        let connections = 2 * clients.len();
        evidence.host.as_mut().unwrap().clients =
            Some(SocketClients { connections, waiting: 1, clients, ..SocketClients::default() });
        let report = judge(&evidence);
        assert_eq!(report.verdict, Verdict::Healthy);
        find(&report, RuleId::ManyClients).cloned()
    };
    assert_eq!(judged(vec![kubelet.clone(), client(301, "falco", 0), client(302, "crictl", 0)]), None);
    let many = judged([vec![kubelet.clone()], agents().to_vec()].concat()).unwrap();
    assert_eq!((many.confidence, many.severity), (Confidence::Possible, Severity::Info));
    assert_eq!(many.title, "3 programs besides the kubelet call the runtime");
    assert_eq!(many.evidence[0], "8 connections to the runtime's socket, 1 not accepted yet");
    assert_eq!(many.evidence[2], "datadog-agent[302]: 2 connections, 9 bytes not read");
    let slow = judged(vec![kubelet, client(305, "agent", 70_000)]).unwrap();
    assert_eq!(slow.title, "agent[305] does not read the runtime's answers");
}

const WITHIN: Duration = Duration::from_millis(2500);

const fn io(read_bytes: u64, reads: u64, written_bytes: u64, writes: u64) -> IoCounters {
    IoCounters { read_bytes, reads, written_bytes, writes }
}

/// The counters of containerd 2.1 with 30 pods, and of a client that calls `ListContainers` 200 times a second, within
/// [`WITHIN`].
const OF_DAEMON: IoCounters = io(46_098, 2230, 7_681_035, 1172);
const OF_LISTS: IoCounters = io(7_678_865, 540, 43_840, 1007);

/// Replaces what the processes have read and written between two looks. The kubelet is process 100, the daemon 200.
fn count(evidence: &mut Evidence, counted: &[(u32, IoCounters)]) {
    let client = |pid| SocketClient { pid, comm: format!("agent-{pid}"), connections: 1, unread: 0 };
    let before = io(900, 9, 800, 8);
    let after = |of: IoCounters| io(900 + of.read_bytes, 9 + of.reads, 800 + of.written_bytes, 8 + of.writes);
    evidence.host.as_mut().unwrap().clients = Some(SocketClients {
        connections: counted.len() - 1,
        clients: counted.iter().map(|(pid, _)| client(*pid)).filter(|client| client.pid != 200).collect(),
        counted: counted.iter().map(|(pid, _)| (*pid, before)).collect(),
        counted_again: Some((WITHIN, counted.iter().map(|(pid, of)| (*pid, after(*of))).collect())),
        ..SocketClients::default()
    });
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_most_of_what_the_runtime_writes_is_named_with_its_numbers() {
    let node = FakeNode::new("greedy").with_pods(3).listening();
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let kubelet = (100, io(40_000, 30, 300, 6));
    count(&mut evidence, &[(200, OF_DAEMON), kubelet, (301, OF_LISTS)]);
    let report = judge(&evidence);
    let found = find(&report, RuleId::ManyClients).unwrap();
    assert_eq!(
        (report.verdict, found.confidence, found.severity),
        (Verdict::Healthy, Confidence::Possible, Severity::Info)
    );
    assert_eq!(found.title, "agent-301[301] reads most of what the runtime writes: 7.3 MiB in 2.5 s");
    let evidence = [
        "2 connections to the runtime's socket, 0 not accepted yet",
        "in 2.5 s, the runtime read 45.0 KiB in 2230 reads, wrote 7.3 MiB in 1172 writes",
        "agent-301[301]: 1 connection; read 7.3 MiB in 540 reads, wrote 42.8 KiB in 1007 writes",
        "agent-100[100]: 1 connection; read 39.1 KiB in 30 reads, wrote 300 B in 6 writes",
        "these numbers have all files and sockets of a program, but not what one in C++, Python or Rust reads from a socket",
    ];
    assert_eq!(found.evidence, evidence);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_named_for_what_else_it_reads_and_writes() {
    let node = FakeNode::new("busy").with_pods(3).listening();
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    let mut is_named = |daemon, pid, client| {
        count(&mut evidence, &[(200, daemon), (pid, client)]);
        find(&judge(&evidence), RuleId::ManyClients).is_some()
    };
    assert!(is_named(OF_DAEMON, 301, OF_LISTS));
    assert!(!is_named(OF_DAEMON, 100, OF_LISTS), "the kubelet");
    // `ContainerStatus` of containerd 1.6, 200 and 40 times a second.
    assert!(is_named(io(76_525, 2137, 305_855, 948), 301, io(305_620, 552, 76_415, 1003)));
    assert!(!is_named(io(15_305, 427, 61_171, 190), 301, io(61_124, 110, 15_283, 201)), "seldom");
    assert!(!is_named(OF_DAEMON, 301, io(78_000_000, 4000, 43_840, 1007)), "it reads other files");
    assert!(!is_named(OF_DAEMON, 301, io(7_678_865, 540, 100_000, 1007)), "it writes other files");
    assert!(!is_named(OF_DAEMON, 301, io(7_678_865, 540, 12_000, 1007)), "others write the requests");
    assert!(!is_named(OF_DAEMON, 301, io(1_000_000, 540, 43_840, 1007)), "others read more");
    assert!(!is_named(OF_DAEMON, 301, IoCounters::default()), "its reads are not counted");
    // containerd copies the output of containers into files, and a client sends these files away line by line: long lines,
    // and those of 25 bytes, as measured.
    assert!(
        !is_named(io(5_000_000, 9000, 6_000_000, 9000), 301, io(6_100_000, 300, 5_100_000, 12_000)),
        "long lines"
    );
    assert!(!is_named(io(202_690, 1870, 521_817, 8335), 301, io(521_000, 900, 202_000, 8000)), "short lines");
    assert!(
        !is_named(io(2_000_000, 9000, 7_000_000, 9000), 301, io(7_100_000, 300, 2_100_000, 300)),
        "large parts"
    );
}

#[tokio::test(start_paused = true)]
async fn counters_of_another_process_with_the_same_id_are_not_compared() {
    let node = FakeNode::new("reused-pid").with_pods(3).listening();
    let mut evidence = node.gathered(Scripted::with_pods(3)).await;
    count(&mut evidence, &[(200, OF_DAEMON), (301, OF_LISTS)]);
    let clients = evidence.host.as_mut().unwrap().clients.as_mut().unwrap();
    clients.counted.insert(301, io(900, 9, 800, 5000));
    assert_eq!(clients.io_of(301), None);
    assert_eq!(find(&judge(&evidence), RuleId::ManyClients), None);
}

/// A node whose runtime has one client besides the kubelet: process 301, whose connection this process has.
struct Node {
    fake: FakeNode,
    socket: PathBuf,
    _ends: (UnixStream, UnixStream),
}

impl Node {
    fn new(name: &str) -> Self {
        let fake = FakeNode::new(name).with_pods(3).listening();
        let socket = fake.root.join("s");
        fake.file("proc/200/net/unix", &format!("0: 2 0 10000 1 1 77 {}\n", socket.display()));
        let listener = UnixListener::bind(&socket).unwrap();
        let connection = UnixStream::connect(&socket).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        fake.process(&FakeProcess { pid: 301, comm: "agent", ..FakeProcess::default() });
        let descriptor = Path::new("/proc/self/fd").join(connection.as_raw_fd().to_string());
        fs::create_dir_all(fake.proc().join("301/fd")).unwrap();
        symlink(fs::read_link(descriptor).unwrap(), fake.proc().join("301/fd/5")).unwrap();
        Self { fake, socket, _ends: (accepted, connection) }
    }

    /// Runs a diagnosis while the counters grow each second by what was measured in [`WITHIN`].
    async fn gathered(&self, script: Scripted, deep: bool) -> Evidence {
        let write = |seconds: u64| {
            for (pid, io) in [(200, OF_DAEMON), (301, OF_LISTS)] {
                let IoCounters { read_bytes, reads, written_bytes, writes } = io;
                let counters =
                    [("rchar", read_bytes), ("wchar", written_bytes), ("syscr", reads), ("syscw", writes)];
                let line = |(name, each): (&str, u64)| format!("{name}: {}\n", each * seconds);
                self.fake.file(&format!("proc/{pid}/io"), &counters.map(line).concat());
            }
        };
        write(1);
        let mut inputs = self.fake.inputs(script);
        inputs.socket = Some(self.socket.clone());
        inputs.mode = if deep { HealthMode::Deep } else { HealthMode::Normal };
        let grow = async {
            for seconds in 2.. {
                tokio::time::sleep(Duration::from_secs(1)).await;
                write(seconds);
            }
        };
        tokio::select! {
            evidence = gather(&inputs, &|_| ()) => evidence,
            () = grow => unreachable!("it does not end"),
        }
    }
}

fn clients_of(evidence: &Evidence) -> &SocketClients {
    evidence.host.as_ref().unwrap().clients.as_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_with_quick_answers_looks_for_no_single_client_and_reads_no_counters() {
    let node = Node::new("quick");
    let evidence = node.gathered(Scripted::with_pods(3), false).await;
    let clients = clients_of(&evidence);
    assert_eq!((clients.connections, clients.clients.len(), &clients.counted), (1, 0, &BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_and_the_deep_mode_show_what_a_single_client_reads_and_writes() {
    let node = Node::new("slow");
    let slow = || Scripted::with_pods(3).on(Rpc::ListContainers, Behaviour::After(Duration::from_secs(2)));
    for (script, deep) in [(slow(), false), (Scripted::with_pods(3), true)] {
        let evidence = node.gathered(script, deep).await;
        let report = judge(&evidence);
        let found = find(&report, RuleId::ManyClients).unwrap_or_else(|| panic!("{evidence:#?}"));
        assert!(found.title.starts_with("agent[301] reads most of what the runtime writes"), "{found:#?}");
        let slow = find(&report, RuleId::SlowLists);
        assert_eq!(slow.is_some_and(|slow| slow.evidence.contains(&found.title)), !deep, "{report:#?}");
    }
}
