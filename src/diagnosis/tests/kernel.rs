//! Tests of D37: what tasks in the kernel wait for. The tests on the real kernel need root, and cause the wait themselves
//! with their own files, mounts and cgroups; elsewhere they print why they are skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::node::{FakeNode, FakeProcess, cgroup_of, find, hung};
use super::scripted::{Scripted, container_id, sandbox_id};
use crate::diagnosis::report::{Confidence, HealthReport, RuleId, Verdict};
use crate::host::proc::{NodeMount, waits};
use crate::report::Step;

/// A wait of the shim of pod 1: function, stack and context switches.
fn blocked_shim(node: &FakeNode, wchan: &str, stack: &str) {
    let sandbox = sandbox_id(1);
    node.process(&FakeProcess {
        pid: 1001,
        comm: "containerd-shim",
        state: 'D',
        command: &["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", &sandbox],
        cgroup: "/system.slice/containerd.service",
        wchan,
        ..FakeProcess::default()
    });
    node.file("proc/1001/task/1001/stack", stack);
    node.file("proc/1001/task/1001/status", "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n");
}

/// The stack of a process that opens a file while an agent does not answer, on Linux 6.18.
const FANOTIFY: &str = "[<0>] fanotify_handle_event+0xb93/0x1b70\n[<0>] fsnotify+0x392/0xfb0\n[<0>] \
    __fsnotify_parent+0x15c/0x420\n[<0>] do_dentry_open+0x144/0x430\n[<0>] vfs_open+0x2c/0x100\n";

/// Adds a process with a fanotify group. The `fdinfo` is that of a real group on Linux 6.18; class 5 and mask 10000 mean
/// permission events, class 1 and mask 20 do not.
fn agent(node: &FakeNode, pid: u32, comm: &str, class: u32, mask: u32) {
    node.process(&FakeProcess { pid, comm, ..FakeProcess::default() });
    symlink("anon_inode:[fanotify]", node.proc().join(format!("{pid}/fd/3"))).unwrap();
    node.file(
        &format!("proc/{pid}/fdinfo/3"),
        &format!(
            "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t1038\nfanotify flags:{class} event-flags:8000\n\
             fanotify mnt_id:30 mflags:0 mask:{mask} ignored_mask:0\n"
        ),
    );
}

fn reason(report: &HealthReport) -> Option<(String, Option<String>, Confidence)> {
    let found = find(report, RuleId::KernelWait)?;
    let reason = found.kernel_reason.as_ref()?;
    Some((reason.id.clone(), reason.owner.clone(), found.confidence))
}

#[tokio::test(start_paused = true)]
async fn a_silent_security_agent_is_named_in_the_first_line() {
    let node = FakeNode::new("fanotify").with_pods(3);
    blocked_shim(&node, "fanotify_handle_event", FANOTIFY);
    agent(&node, 812, "falcon-sensor", 5, 10000);
    agent(&node, 813, "auditor", 1, 20);
    let report = node.diagnose(hung(3, 1)).await;
    let title = "containerd-shim[1001] of default/web-1 waits for the security agent falcon-sensor[812]";
    assert!(report.summary.starts_with(title), "{}", report.summary);
    assert_eq!(
        reason(&report),
        Some(("KR01".to_owned(), Some("falcon-sensor[812]".to_owned()), Confidence::Certain))
    );
    let holder = report.culprits[0].holder.as_deref().unwrap();
    assert!(holder.ends_with("waits for the security agent falcon-sensor[812]"), "{holder}");
    let d10 = find(&report, RuleId::HungProcess).unwrap();
    assert!(d10.title.ends_with("waits for the security agent falcon-sensor[812]"), "{}", d10.title);
    // No goroutine of the runtime explains the wait.
    let texts = |steps: &[Step]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
    let keep = texts(&report.keep);
    let stack = "where containerd-shim waits in the kernel (as root): cat /proc/1001/stack";
    let of_agent = "the agent's stacks (as root): cat /proc/812/task/*/stack > agent.txt";
    assert_eq!(keep.get(..2), Some([of_agent.to_owned(), stack.to_owned()].as_slice()), "{keep:#?}");
    assert!(!keep.iter().skip(2).any(|line| line.contains("/1001/") || line.contains("USR1")), "{keep:#?}");
    let steps = texts(&report.primary.unwrap().steps).join("\n");
    let order = ["/proc/812/cgroup", "ask the security team", "restart its service", ": kill 812"];
    let places: Vec<usize> =
        order.iter().map(|step| steps.find(step).unwrap_or_else(|| panic!("{steps}"))).collect();
    assert!(places.is_sorted(), "{steps}");
}

#[tokio::test(start_paused = true)]
async fn of_two_agents_none_is_named_and_without_a_stack_the_reason_is_only_likely() {
    let node = FakeNode::new("agents").with_pods(3);
    blocked_shim(&node, "fanotify_handle_event", FANOTIFY);
    agent(&node, 812, "falcon-sensor", 5, 10000);
    agent(&node, 813, "mdatp", 4, 20000);
    let report = node.diagnose(hung(3, 1)).await;
    assert_eq!(reason(&report), Some(("KR01".to_owned(), None, Confidence::Likely)));
    fs::remove_dir_all(node.proc().join("813")).unwrap();
    node.file("proc/1001/task/1001/stack", "");
    let report = node.diagnose(hung(3, 1)).await;
    let owner = Some("falcon-sensor[812]".to_owned());
    assert_eq!(reason(&report), Some(("KR01".to_owned(), owner, Confidence::Likely)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_hang_does_not_change_the_verdict() {
    let node = FakeNode::new("no-hang").with_pods(3);
    blocked_shim(&node, "fanotify_handle_event", FANOTIFY);
    agent(&node, 812, "falcon-sensor", 5, 10000);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Healthy, "{report:#?}");
    assert_eq!(find(&report, RuleId::KernelWait).unwrap().confidence, Confidence::Possible);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_context_switches_are_unknown_is_not_judged() {
    let node = FakeNode::new("no-switches").with_pods(3);
    blocked_shim(&node, "fanotify_handle_event", FANOTIFY);
    fs::remove_file(node.proc().join("1001/task/1001/status")).unwrap();
    assert_eq!(reason(&node.diagnose(hung(3, 1)).await), None);
}

#[tokio::test(start_paused = true)]
async fn a_disk_is_blamed_only_if_it_completes_no_request() {
    let node = FakeNode::new("disk").with_pods(3);
    let stack = "[<0>] io_schedule+0x46/0x80\n[<0>] folio_wait_bit_common+0x13d/0x350\n";
    blocked_shim(&node, "io_schedule", stack);
    // `Documentation/admin-guide/iostats.rst`; the twelfth field is the number of requests in flight.
    node.file("proc/diskstats", " 8 0 sda 100 0 0 0 50 0 0 0 0 0 0\n");
    let idle = node.diagnose(hung(3, 1)).await;
    assert_eq!(reason(&idle), None);
    node.file("proc/diskstats", " 253 0 dm-0 9 0 0 0 9 0 0 0 3 0 0\n 8 0 sda 100 0 0 0 50 0 0 0 3 0 0\n");
    let stalled = node.diagnose(hung(3, 1)).await;
    assert_eq!(reason(&stalled), Some(("KR06".to_owned(), Some("sda".to_owned()), Confidence::Certain)));
}

/// Stacks from the kernel's documentation, from the issues that `docs/kernel-reasons.md` names, and from Linux 6.18.
#[tokio::test(start_paused = true)]
async fn documented_stacks_have_their_reason() {
    for (id, wchan, stack) in [
        // containernetworking and amazon-vpc-cni-k8s: tasks of plugins while network namespaces are removed.
        ("KR02", "rtnl_lock", "[<0>] rtnl_lock+0x15/0x20\n[<0>] rtnetlink_rcv_msg+0x128/0x3a0\n"),
        // NVIDIA/nvidia-container-toolkit: the module's name follows each function.
        (
            "KR03",
            "_nv039897rm",
            "[<0>] _nv039897rm+0x3c/0x70 [nvidia]\n[<0>] rm_init_adapter+0xc5/0xe0 [nvidia]\n",
        ),
        // Chang Fengnan on linux-pci, 2024-11-27: a device is removed while a program uses it through VFIO.
        (
            "KR03",
            "vfio_unregister_group_dev",
            "[<0>] vfio_unregister_group_dev+0x97/0xe0 [vfio]\n[<0>] vfio_pci_core_unregister_device+0x19/0x80 \
             [vfio_pci_core]\n[<0>] vfio_pci_remove+0x15/0x20 [vfio_pci]\n[<0>] pci_device_remove+0x39/0xb0\n",
        ),
        // A frozen ext4 on Linux 6.18.
        (
            "KR05",
            "percpu_rwsem_wait",
            "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] mnt_want_write+0x96/0xc0\n",
        ),
        // kubernetes issue 138512: every mount of the node waits, and so does an umount.
        (
            "KR12",
            "rwsem_down_write_slowpath",
            "[<0>] rwsem_down_write_slowpath+0x2b1/0x5d0\n[<0>] register_shrinker_prepared+0x1f/0x60\n[<0>] \
             sget_fc+0x1d6/0x300\n[<0>] get_tree_nodev+0x1b/0x90\n",
        ),
        (
            "KR12",
            "rwsem_down_write_killable",
            "[<0>] unregister_shrinker+0x24/0x80\n[<0>] deactivate_locked_super+0x2f/0xa0\n[<0>] cleanup_mnt+0xbd/0x150\n",
        ),
        // containerd's shim while an ext4 is unmounted.
        (
            "KR07",
            "sync_inodes_sb",
            "[<0>] sync_inodes_sb+0xd0/0x2a0\n[<0>] generic_shutdown_super+0x37/0x130\n",
        ),
        // containerd issue 5325: dockerd unmounts an overlay while its disk is slow.
        (
            "KR07",
            "rwsem_down_read_slowpath",
            "[<0>] rwsem_down_read_slowpath+0x1e5/0x3a0\n[<0>] ovl_sync_fs+0x2f/0x50\n[<0>] sync_filesystem+0x74/0x90\n\
             [<0>] generic_shutdown_super+0x2a/0x120\n[<0>] kill_anon_super+0x17/0x30\n",
        ),
    ] {
        let node = FakeNode::new(&format!("stack-{wchan}")).with_pods(3);
        blocked_shim(&node, wchan, stack);
        let report = node.diagnose(hung(3, 1)).await;
        assert_eq!(reason(&report).map(|(id, ..)| id).as_deref(), Some(id), "{report:#?}");
    }
    // The same lock of the kernel without a write: a new process waits while cgroups change.
    let node = FakeNode::new("fork").with_pods(3);
    blocked_shim(
        &node,
        "percpu_rwsem_wait",
        "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] cgroup_can_fork+0x1/0x2\n",
    );
    assert_eq!(reason(&node.diagnose(hung(3, 1)).await), None);
}

#[tokio::test(start_paused = true)]
async fn a_shim_that_unmounts_explains_a_running_container_without_a_process() {
    let node = FakeNode::new("unrecorded-exit").with_pods(3);
    std::fs::remove_dir_all(node.proc().join("2001")).unwrap();
    // The pause container: the shim's command line is not read while a task of it is blocked.
    let cgroup = format!("/kubepods/poduid-1/{}", sandbox_id(1));
    node.process(&FakeProcess {
        pid: 3001,
        parent: 1001,
        comm: "pause",
        cgroup: &cgroup,
        ..FakeProcess::default()
    });
    let evidence_of = |report: &HealthReport| {
        let found = report.findings.iter().find(|finding| finding.id == RuleId::InconsistentState).unwrap();
        assert!(found.title.ends_with("is RUNNING and has no process"), "{found:#?}");
        found.evidence.join("\n")
    };
    let why = "what keeps the exit of default/web-1/app from being recorded: ";
    let unknown = node.diagnose(Scripted::with_pods(3)).await;
    assert!(!evidence_of(&unknown).contains(why), "{unknown:#?}");
    let stack = "[<0>] sync_inodes_sb+0xd0/0x2a0\n[<0>] generic_shutdown_super+0x37/0x130\n";
    blocked_shim(&node, "sync_inodes_sb", stack);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let evidence = evidence_of(&report);
    let line = evidence.lines().find(|line| line.starts_with(why)).unwrap_or_else(|| panic!("{report:#?}"));
    assert!(line.contains("containerd-shim[1001]") && line.contains("umount"), "{line}");
}

/// Mounts a remote file system in pod 1, and lets the pod's shim wait for it.
async fn waits_for_remote(kind: &str, source: &str, wchan: &str, stack: &str) -> HealthReport {
    let node = FakeNode::new(&format!("remote-{kind}-{}", stack.len())).with_pods(3);
    let volume = "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/data/mount";
    node.file(
        "proc/self/mountinfo",
        &format!("36 35 0:50 / {volume} rw,relatime shared:1 - {kind} {source} rw,hard\n"),
    );
    blocked_shim(&node, wchan, stack);
    node.diagnose(hung(3, 1)).await
}

#[tokio::test(start_paused = true)]
async fn a_file_server_that_does_not_answer_is_named_by_the_stack_and_by_the_function_alone() {
    for (kind, source, wchan, stack) in [
        // linux-nfs, September 2025: a client of a server whose threads do not run.
        (
            "nfs4",
            "10.1.2.3:/export",
            "rpc_wait_bit_killable",
            "[<0>] rpc_wait_bit_killable+0x25/0x80 [sunrpc]\n[<0>] __rpc_execute+0x151/0x480 [sunrpc]\n[<0>] \
             rpc_execute+0xca/0xf0 [sunrpc]\n[<0>] rpc_run_task+0x110/0x180 [sunrpc]\n[<0>] nfs4_call_sync_custom+0xb/0x30 \
             [nfsv4]\n[<0>] nfs4_proc_getattr+0x73/0x100 [nfsv4]\n",
        ),
        // linux-cifs: a server does not answer an open.
        (
            "cifs",
            "//files.example/share",
            "wait_for_response",
            "[<0>] wait_for_response+0x195/0x250 [cifs]\n[<0>] compound_send_recv+0xb9d/0x2ac0 [cifs]\n[<0>] \
             cifs_send_recv+0x22/0x40 [cifs]\n[<0>] SMB2_open+0x352/0x17b0 [cifs]\n",
        ),
        // cea-hpc/robinhood issue 111: a metadata server does not answer.
        (
            "lustre",
            "10.4.0.1@tcp:/scratch",
            "ptlrpc_set_wait",
            "[<ffffffffc1191a80>] ptlrpc_set_wait+0x480/0x790 [ptlrpc]\n[<ffffffffc1191e13>] \
             ptlrpc_queue_wait+0x83/0x230 [ptlrpc]\n[<ffffffffc1361f66>] mdc_xattr_common+0x3f6/0x680 [mdc]\n",
        ),
    ] {
        for stack in [stack, ""] {
            let report = waits_for_remote(kind, source, wchan, stack).await;
            let found =
                find(&report, RuleId::RemoteStorageStall).unwrap_or_else(|| panic!("{kind}: {report:#?}"));
            let title = format!("{source} ({kind}) does not answer; ");
            assert!(found.title.starts_with(&title), "{}", found.title);
            let waits = format!("it waits for the file system {source} ({kind})");
            assert!(found.evidence.contains(&waits), "{found:#?}");
            let holder = report.culprits[0].holder.as_deref().unwrap();
            assert!(holder.ends_with(&waits[3..]), "{holder}");
        }
    }
}

/// linux-mm, "mm, memcg: reclaim more aggressively before high allocator throttling", 2020.
const ABOVE_HIGH: &str = "[<0>] mem_cgroup_handle_over_high+0x121/0x170\n[<0>] exit_to_usermode_loop+0x67/0xa0\n[<0>] \
    do_syscall_64+0x149/0x170\n";

#[tokio::test(start_paused = true)]
async fn reclaim_is_the_reason_only_under_memory_pressure() {
    let node = FakeNode::new("reclaim").with_pods(3);
    blocked_shim(&node, "mem_cgroup_handle_over_high", ABOVE_HIGH);
    assert_eq!(reason(&node.diagnose(hung(3, 1)).await), None);
    node.pressure("memory", 78.5);
    let report = node.diagnose(hung(3, 1)).await;
    assert_eq!(reason(&report), Some(("KR10".to_owned(), None, Confidence::Likely)), "{report:#?}");
    let found = find(&report, RuleId::KernelWait).unwrap();
    assert!(found.title.ends_with("waits for free memory"), "{}", found.title);
    assert!(found.evidence.iter().any(|line| line.contains("78 % of the last 10 s")), "{found:#?}");
}

/// opencontainers/runc issue 4481: `runc init` in a cgroup that nobody thaws.
const FROZEN: &str = "[<0>] __refrigerator+0x4c/0x130\n[<0>] unix_stream_data_wait+0x1fa/0x210\n[<0>] \
    unix_stream_read_generic+0x50d/0xa60\n[<0>] unix_stream_recvmsg+0x88/0x90\n";

#[tokio::test(start_paused = true)]
async fn a_frozen_cgroup_around_a_shim_is_named_with_the_command_that_thaws_it() {
    let unit = "system.slice/containerd.service";
    for (file, frozen, thawed, thaw) in [
        (
            format!("cgroup/freezer/{unit}/freezer.state"),
            "FROZEN\n",
            "THAWED\n",
            format!("echo THAWED > /sys/fs/cgroup/freezer/{unit}/freezer.state"),
        ),
        (
            format!("cgroup/{unit}/cgroup.events"),
            "populated 1\nfrozen 1\n",
            "populated 1\nfrozen 0\n",
            format!("echo 0 > /sys/fs/cgroup/{unit}/cgroup.freeze"),
        ),
    ] {
        let node = FakeNode::new(&format!("frozen-shim-{}", frozen.len())).with_pods(3);
        blocked_shim(&node, "__refrigerator", FROZEN);
        node.file(&file, thawed);
        assert_eq!(reason(&node.diagnose(hung(3, 1)).await), None, "runc issue 3663: the cgroup is thawed");
        node.file(&file, frozen);
        let report = node.diagnose(hung(3, 1)).await;
        let owner = Some(format!("/{unit}"));
        assert_eq!(reason(&report), Some(("KR08".to_owned(), owner, Confidence::Certain)), "{report:#?}");
        let next = &find(&report, RuleId::KernelWait).unwrap().steps;
        assert_eq!(next[1].command.as_ref(), Some(&thaw));
        assert!(next[1].changes_state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lockup_in_the_kernels_log_is_reported_and_never_first() {
    let text = "1.0 n kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [kworker/3:1:77]\n";
    let journal = crate::diagnosis::journal::Journal::of(text);
    assert_eq!(journal.lockups.len(), 1);
    let corrected = "1.0 n kernel: mce: [Hardware Error]: Machine check: Corrected error\n";
    assert!(crate::diagnosis::journal::Journal::of(corrected).lockups.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_hangs_is_likely_after_a_minute_and_names_its_pod() {
    let node = FakeNode::new("create").with_pods(3);
    let new = super::scripted::id(9, 'd');
    node.file(
        &format!("run/bundles/{new}/config.json"),
        r#"{"annotations":{"io.kubernetes.cri.container-type":"sandbox",
            "io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":"db-0"}}"#,
    );
    let bundle = format!("/run/bundles/{new}");
    let runc = |verb, age| {
        node.process(&FakeProcess {
            pid: 3000,
            parent: 1001,
            comm: "runc",
            age,
            command: &["runc", verb, "--bundle", &bundle, &new],
            ..FakeProcess::default()
        });
    };
    runc("create", 40);
    let young = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(young.verdict, Verdict::Healthy);
    let found = find(&young, RuleId::HungProcess).unwrap();
    assert_eq!(found.confidence, Confidence::Possible);
    assert!(found.title.starts_with("runc[3000] create of shop/db-0 has not finished"), "{}", found.title);
    // One that a signal has stopped does not end by itself.
    node.file(
        "proc/3000/stat",
        &fs::read_to_string(node.proc().join("3000/stat")).unwrap().replace(") S ", ") T "),
    );
    let stopped = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&stopped, RuleId::HungProcess).unwrap();
    assert_eq!((stopped.verdict, found.confidence), (Verdict::Degraded, Confidence::Likely), "{stopped:#?}");
    assert!(found.evidence.iter().any(|line| line.contains("in state T")), "{found:#?}");
    assert_eq!(found.steps[0].command.as_deref(), Some("kill -CONT 3000"), "{found:#?}");
    runc("create", 70);
    let old = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(old.verdict, Verdict::Degraded, "{old:#?}");
    assert_eq!(old.primary.as_ref().unwrap().ids, std::slice::from_ref(&new));
    assert!(old.summary.starts_with("runc[3000] create of shop/db-0 has not finished"), "{}", old.summary);
    // An exec may run as long as its user wants.
    runc("exec", 7000);
    assert_eq!(node.diagnose(Scripted::with_pods(3)).await.verdict, Verdict::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_network_plugin_that_hangs_names_pod_and_sandbox() {
    let node = FakeNode::new("cni-pod").with_pods(3);
    let new = super::scripted::id(8, 'd');
    node.file("opt/cni/bin/calico", "");
    node.process(&FakeProcess { pid: 4001, parent: 200, comm: "calico", age: 90, ..FakeProcess::default() });
    node.file(
        "proc/4001/environ",
        &format!("CNI_CONTAINERID={new}\0CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0\0"),
    );
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(
        report.summary,
        "the network plugin calico[4001] of shop/db-0 hangs; this alone does not make the node NotReady"
    );
    assert_eq!(report.primary.as_ref().unwrap().ids, [new]);
}

/// Processes that are killed at the end, and commands that then undo what the test did.
#[derive(Default)]
struct CleanUp {
    processes: Vec<Child>,
    commands: Vec<String>,
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        for command in &self.commands {
            let _ = Command::new("sh").args(["-c", command]).stderr(Stdio::null()).status();
        }
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl CleanUp {
    /// Starts a program with its name in the process table; it is a copy, because the kernel's name is that of the file.
    fn start(&mut self, program: &str, arguments: &[&str]) -> u32 {
        let mut command = Command::new(program);
        let child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        self.processes.push(child);
        pid
    }
}

fn sh(line: &str) -> bool {
    Command::new("sh").args(["-c", line]).stderr(Stdio::null()).status().unwrap().success()
}

/// Whether this test may change mounts; prints why not.
fn may_mount(node: &FakeNode) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let mount = node.root.join("try");
    fs::create_dir_all(&mount).unwrap();
    let mounts = is_root && sh(&format!("mount -t tmpfs none {0} && umount {0}", mount.display()));
    if !mounts {
        eprintln!("skipped: only root may mount file systems");
    }
    mounts
}

/// Waits until `pid` is in the same wait in two looks; at its start, a process waits for its files for a moment.
fn wait_until_blocked(pid: u32) {
    let mut before = Vec::new();
    for _ in 0..240 {
        let look = waits::look(Path::new("/proc"), &[pid]);
        if !look.tasks.is_empty() && look.tasks == before {
            return;
        }
        before = look.tasks;
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("process {pid} does not wait in the kernel");
}

/// Adds real processes to the node.
fn add_real(node: &FakeNode, pids: &[u32]) {
    for pid in pids {
        symlink(format!("/proc/{pid}"), node.proc().join(pid.to_string())).unwrap();
    }
}

/// Lets the waits of all tasks look `seconds` longer, or a little more: the clock of the processors is ahead. Each processor has
/// its own clock, which leaves out what interrupts and other machines took; the one that is most ahead counts for all.
fn age_waits(node: &FakeNode, seconds: u32) {
    let allowed = sched_getaffinity(None).unwrap();
    let clock = |processor: usize| {
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).unwrap();
        let sched = fs::read_to_string("/proc/thread-self/sched").unwrap();
        let time = sched.lines().find_map(|line| line.strip_prefix("se.exec_start")).unwrap();
        time.split_once(':').unwrap().1.trim().parse::<f64>().unwrap()
    };
    let most = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).map(clock).fold(0.0, f64::max);
    sched_setaffinity(None, &allowed).unwrap();
    let later = most + f64::from(seconds) * 1000.0;
    node.file("proc/thread-self/sched", &format!("se.exec_start : {later:.6}\n"));
}

/// Gives the node the line about the mount at `at` in this machine's table.
fn copy_mount(node: &FakeNode, at: &str) -> String {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let own = mountinfo.lines().find(|line| line.contains(&format!(" {at} "))).unwrap();
    node.file("proc/self/mountinfo", own);
    own.to_owned()
}

/// Makes real processes the shim of pod 1 and others on the node.
async fn diagnose_with_real(node: &FakeNode, shim: u32, others: &[u32]) -> HealthReport {
    let _ = fs::remove_dir_all(node.proc().join("1001"));
    add_real(node, others);
    add_real(node, &[shim]);
    let cgroup = super::node::cgroup_of(1);
    node.process(&FakeProcess { pid: 2001, parent: shim, cgroup: &cgroup, ..FakeProcess::default() });
    node.diagnose(hung(3, 1)).await
}

fn shim_of(node: &FakeNode, program: &str) -> String {
    copy_of(node, program, "containerd-shim")
}

/// Copies a program so that its processes have this name. `cp` copies it: this process must not have the copy open for
/// writing, because a process that another test starts would inherit the file and prevent its execution.
fn copy_of(node: &FakeNode, program: &str, name: &str) -> String {
    let copy = node.root.join(name).display().to_string();
    assert!(sh(&format!("cp {program} {copy}")));
    copy
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(start_paused = true)]
async fn a_real_agent_that_does_not_answer_is_named() {
    let node = FakeNode::new("real-fanotify").with_pods(3);
    if !may_mount(&node) {
        return;
    }
    let mut clean_up = CleanUp::default();
    let mount = node.root.join("watched");
    fs::create_dir(&mount).unwrap();
    let at = mount.display().to_string();
    assert!(sh(&format!("mount -t tmpfs none {at} && touch {at}/file")));
    clean_up.commands.push(format!("umount -l {at}"));
    // fanotify_init(FAN_CLASS_CONTENT, O_RDONLY) and fanotify_mark(FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN_PERM).
    let agent = "syscall(300, 4, 0) >= 0 or die; syscall(301, 3, 0x11, 0x10000, -100, $ARGV[0]) == 0 or die; \
                 open(R, '>', $ARGV[1]); close(R); sleep 600";
    let ready = node.root.join("ready");
    let agent = clean_up.start("perl", &["-e", agent, &at, &ready.display().to_string()]);
    let mut has_ended = || clean_up.processes[0].try_wait().unwrap().is_some();
    for _ in 0..2400 {
        if ready.exists() || has_ended() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    if !ready.exists() {
        assert!(has_ended(), "the agent is not ready");
        eprintln!("skipped: this kernel or its limits allow no fanotify group with permission events");
        return;
    }
    let shim = clean_up.start(&shim_of(&node, "/bin/cat"), &[&format!("{at}/file")]);
    let began = std::time::Instant::now();
    wait_until_blocked(shim);
    let report = diagnose_with_real(&node, shim, &[agent]).await;
    print_time("a silent security agent", began);
    let owner = Some(format!("perl[{agent}]"));
    assert_eq!(reason(&report), Some(("KR01".to_owned(), owner, Confidence::Certain)), "{report:#?}");
    // The agent ends first, so that the waiting process can end.
    clean_up.processes.swap(0, 1);
    clean_up.commands.insert(0, format!("kill -9 {agent}"));
}

#[tokio::test(start_paused = true)]
async fn a_real_frozen_file_system_is_named() {
    let node = FakeNode::new("real-freeze").with_pods(3);
    if !may_mount(&node) {
        return;
    }
    let mut clean_up = CleanUp::default();
    let Some(at) = mount_ext4(&node, &mut clean_up) else { return };
    assert!(sh(&format!("fsfreeze -f '{at}'")));
    let shim = clean_up.start(&shim_of(&node, "/bin/touch"), &[&format!("{at}/file")]);
    let began = std::time::Instant::now();
    wait_until_blocked(shim);
    let report = diagnose_with_real(&node, shim, &[]).await;
    print_time("a frozen file system", began);
    assert_eq!(reason(&report), Some(("KR05".to_owned(), None, Confidence::Likely)), "{report:#?}");
    assert!(report.summary.contains("waits for a frozen file system"), "{}", report.summary);
}

/// Mounts an ext4 in a file; `None` if this is not possible here.
fn mount_ext4(node: &FakeNode, clean_up: &mut CleanUp) -> Option<String> {
    let (image, at) = (node.root.join("image"), node.root.join("my disk"));
    fs::create_dir(&at).unwrap();
    let (image, at) = (image.display(), at.display().to_string());
    if !sh(&format!("truncate -s 16M {image} && mkfs.ext4 -q {image} && mount -o loop {image} '{at}'")) {
        eprintln!("skipped: no file system can be made in a file");
        return None;
    }
    clean_up.commands.push(format!("fsfreeze -u '{at}'; sleep 0.1; umount -l '{at}'"));
    Some(at)
}

/// Opens a file, waits until another file exists, and writes.
const WRITE_LATER: &str = "open(F, '>', $ARGV[0]) or die; open(R, '>', \"$ARGV[1].ready\"); close(R); \
                           select(undef, undef, undef, 0.02) until -e $ARGV[1]; syswrite(F, 'x'); sleep 600";

fn wait_for_file(path: &Path) {
    for _ in 0..2400 {
        if path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no {}", path.display());
}

#[tokio::test(start_paused = true)]
async fn a_file_system_that_stays_frozen_is_named_with_its_mount_although_no_call_hangs() {
    let node = FakeNode::new("stays-frozen").with_pods(3);
    let mut clean_up = CleanUp::default();
    let Some(at) = may_mount(&node).then(|| mount_ext4(&node, &mut clean_up)).flatten() else { return };
    let go = node.root.join("go").display().to_string();
    let shim = shim_of(&node, "/usr/bin/perl");
    let shim = clean_up.start(&shim, &["-e", WRITE_LATER, &format!("{at}/file"), &go]);
    wait_for_file(Path::new(&format!("{go}.ready")));
    assert!(sh(&format!("fsfreeze -f '{at}'")));
    fs::write(&go, "").unwrap();
    wait_until_blocked(shim);
    let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let own = own.lines().find(|line| line.contains(&at.replace(' ', r"\040"))).unwrap();
    fs::remove_dir_all(node.proc().join("1001")).unwrap();
    add_real(&node, &[shim]);
    node.process(&FakeProcess { pid: 2001, parent: shim, cgroup: &cgroup_of(1), ..FakeProcess::default() });
    // A mount of another mount namespace at the same path.
    let device = own.split(' ').nth(2).unwrap();
    node.file("proc/self/mountinfo", &format!("9{}", own.replace(device, "0:9999")));
    let foreign = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(reason(&foreign), Some(("KR05".to_owned(), None, Confidence::Possible)));
    // In a container, the same file system is another mount.
    node.file("proc/self/mountinfo", &format!("9{}", own.replace(&at.replace(' ', r"\040"), "/mnt/volume")));
    let of_container = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(reason(&of_container).unwrap().1.as_deref(), Some("/mnt/volume"), "{of_container:#?}");
    node.file("proc/self/mountinfo", own);
    let young = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(young.verdict, Verdict::Healthy, "a snapshot takes some seconds: {young:#?}");
    assert_eq!(reason(&young), Some(("KR05".to_owned(), Some(at.clone()), Confidence::Possible)));
    age_waits(&node, 40);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Degraded, "{report:#?}");
    assert_eq!(reason(&report), Some(("KR05".to_owned(), Some(at.clone()), Confidence::Certain)));
    let words = format!("containerd-shim[{shim}] waits for the frozen file system {at}");
    assert_eq!(report.summary, words);
    let found = find(&report, RuleId::KernelWait).unwrap();
    assert!(found.evidence.contains(&format!("it writes to {at}/file")), "{found:#?}");
    let facts = serde_json::to_value(&found.facts).unwrap();
    let waited = facts.as_array().unwrap().iter().find(|fact| fact["kind"] == "hasWaited").unwrap();
    // The uptime of the node is in whole seconds.
    assert!(waited["atLeast"]["seconds"].as_f64().unwrap() >= 39.0, "{waited}");
    let thaw = found.steps[1].command.as_deref().unwrap();
    assert_eq!(thaw, format!("timeout 10 fsfreeze -u '{at}'"));
    assert!(sh(thaw), "the printed command ends the wait");
    assert!(!sh(thaw), "it is not frozen any more");
}

#[tokio::test(start_paused = true)]
async fn without_a_descriptor_only_the_command_names_the_file_system_to_which_the_runtime_writes() {
    let stack = "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] mnt_want_write+0x96/0xc0\n";
    let node = FakeNode::new("frozen-root").with_pods(3);
    blocked_shim(&node, "percpu_rwsem_wait", stack);
    let last_step = |report: &HealthReport| find(report, RuleId::KernelWait).unwrap().steps[1].to_string();
    let unknown = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(last_step(&unknown), "then thaw it: timeout 10 fsfreeze -u MOUNT (changes state)");
    // The directories of the runtime and the kubelet are on the disk of this test.
    fs::create_dir_all(node.root.join("var/lib/containerd")).unwrap();
    let mounts = NodeMount::all(&fs::read_to_string("/proc/self/mountinfo").unwrap());
    let around = mounts.iter().filter(|mount| node.root.starts_with(&mount.target));
    let device = &around.max_by_key(|mount| mount.target.len()).unwrap().device;
    node.file(
        "proc/self/mountinfo",
        &format!(
            "22 21 {device} /kubelet /var/lib/kubelet rw - xfs /dev/sda2 rw\n21 1 {device} / /data rw - xfs /dev/sda2 \
             rw\n24 21 0:30 / /run rw - tmpfs tmpfs rw\n"
        ),
    );
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(last_step(&report), "then thaw it (changes state): timeout 10 fsfreeze -u /data");
    assert_eq!(reason(&report), Some(("KR05".to_owned(), None, Confidence::Possible)), "it is not proven");

    // A container writes to its volumes.
    let cgroup = cgroup_of(1);
    node.process(&FakeProcess { pid: 1001, comm: "containerd-shim", ..FakeProcess::default() });
    let process =
        FakeProcess { pid: 2001, parent: 1001, cgroup: &cgroup, state: 'D', ..FakeProcess::default() };
    node.process(&FakeProcess { wchan: "percpu_rwsem_wait", ..process });
    node.file("proc/2001/task/2001/stack", stack);
    node.file("proc/2001/task/2001/status", "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n");
    let of_container = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(last_step(&of_container), "then thaw it: timeout 10 fsfreeze -u MOUNT (changes state)");
}

#[tokio::test(start_paused = true)]
async fn a_real_fuse_daemon_that_is_stopped_is_named() {
    let node = FakeNode::new("real-fuse").with_pods(3);
    if !may_mount(&node) || !Path::new("/dev/fuse").exists() {
        return;
    }
    let mut clean_up = CleanUp::default();
    let at = node.root.join("remote");
    fs::create_dir(&at).unwrap();
    let at = at.display().to_string();
    let serve = format!(
        "exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 s3fs {at} && kill -STOP $$"
    );
    let daemon = clean_up.start("sh", &["-c", &serve]);
    clean_up.commands.push(format!("kill -9 {daemon}; umount -l {at}"));
    let is_mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!(" {at} "));
    for _ in 0..2400 {
        if is_mounted() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert!(is_mounted(), "the file system is not mounted");
    let shim = clean_up.start(&shim_of(&node, "/bin/cat"), &[&format!("{at}/file")]);
    let began = std::time::Instant::now();
    wait_until_blocked(shim);
    copy_mount(&node, &at);
    let report = diagnose_with_real(&node, shim, &[daemon]).await;
    print_time("a stopped FUSE daemon", began);
    let d09 = find(&report, RuleId::RemoteStorageStall).unwrap_or_else(|| panic!("{report:#?}"));
    let named = format!("s3fs (fuse) of sh[{daemon}], which is stopped");
    assert!(d09.evidence.iter().any(|line| line.contains(&named)), "{d09:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_real_holder_of_a_file_lock_is_named() {
    let node = FakeNode::new("real-flock").with_pods(3);
    if !sh("flock --version >/dev/null") || !Path::new("/proc/self/stack").exists() {
        eprintln!("skipped: no flock");
        return;
    }
    let mut clean_up = CleanUp::default();
    let file = node.root.join("last_reserved_ip.0").display().to_string();
    let holder = clean_up.start("flock", &["--no-fork", &file, "sleep", "600"]);
    // The program `flock` takes the lock and then becomes `sleep`.
    let is_held = || {
        fs::read_to_string(format!("/proc/{holder}/comm")).is_ok_and(|name| name == "sleep\n")
            && !sh(&format!("flock -n {file} true"))
    };
    for _ in 0..2400 {
        if is_held() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert!(is_held(), "nobody holds the lock");
    let flock = ["/usr/bin/flock", "/bin/flock"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    let shim = clean_up.start(&shim_of(&node, flock), &[&file, "true"]);
    let began = std::time::Instant::now();
    wait_until_blocked(shim);
    fs::copy("/proc/locks", node.proc().join("locks")).unwrap();
    let report = diagnose_with_real(&node, shim, &[holder]).await;
    print_time("a held file lock", began);
    let (id, owner, _) = reason(&report).unwrap_or_else(|| panic!("{report:#?}"));
    assert_eq!((id.as_str(), owner), ("KR09", Some(format!("sleep[{holder}]"))));
    let found = find(&report, RuleId::KernelWait).unwrap();
    assert!(found.evidence.iter().any(|line| line.contains("last_reserved_ip.0")), "{found:#?}");
}

/// Locks a whole file for the process (`F_SETLKW`), as containers/storage does, and waits.
const LOCK_FILE: &str = "use Fcntl qw(F_SETLKW F_WRLCK); open(F, '+>>', $ARGV[0]) or die; \
    my $lock = pack('s s x4 q q l x4', F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLKW, $lock) or die; \
    if ($ARGV[1]) { open(R, '>', $ARGV[1]); close(R); } sleep 600";

#[cfg(target_arch = "x86_64")]
#[tokio::test(start_paused = true)]
async fn a_daemon_that_waits_long_for_a_file_lock_names_the_process_that_holds_it() {
    let node = FakeNode::new("layers-lock").with_pods(3);
    if !may_mount(&node) {
        return;
    }
    let mut clean_up = CleanUp::default();
    let file = node.root.join("layers.lock").display().to_string();
    let ready = node.root.join("ready");
    let holder = clean_up.start("perl", &["-e", LOCK_FILE, &file, &ready.display().to_string()]);
    wait_for_file(&ready);
    let daemon = clean_up.start(&copy_of(&node, "/usr/bin/perl", "crio"), &["-e", LOCK_FILE, &file]);
    wait_until_blocked(daemon);
    fs::remove_dir_all(node.proc().join("200")).unwrap();
    add_real(&node, &[daemon, holder]);
    fs::copy("/proc/locks", node.proc().join("locks")).unwrap();
    let owner = Some(format!("perl[{holder}]"));
    let young = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(young.verdict, Verdict::Healthy, "{young:#?}");
    assert_eq!(reason(&young), Some(("KR09".to_owned(), owner.clone(), Confidence::Possible)), "{young:#?}");
    age_waits(&node, 70);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(reason(&report), Some(("KR09".to_owned(), owner, Confidence::Certain)), "{report:#?}");
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(report.summary, format!("crio[{daemon}] waits for the file lock of perl[{holder}]"));
    let found = find(&report, RuleId::KernelWait).unwrap();
    assert!(found.evidence.contains(&format!("perl[{holder}] has locked {file}")), "{found:#?}");
}

/// A FUSE daemon that answers the first requests, and stops itself when a name is looked up.
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

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_waits_interruptibly_for_a_dead_fuse_is_shown_with_the_pods_and_the_abort_command() {
    let node = FakeNode::new("kubelet-fuse").with_pods(3);
    if !may_mount(&node) || !Path::new("/dev/fuse").exists() {
        return;
    }
    let mut clean_up = CleanUp::default();
    let at = node.root.join("pods/uid-1/volumes/kubernetes.io~csi/s3/mount");
    fs::create_dir_all(&at).unwrap();
    let (at, ready) = (at.display().to_string(), node.root.join("ready"));
    let daemon = clean_up.start("perl", &["-e", FUSE, &at, &ready.display().to_string()]);
    clean_up.commands.push(format!("kill -9 {daemon}; umount -l {at}"));
    wait_for_file(&ready);
    let kubelet = clean_up.start(&copy_of(&node, "/bin/cat", "kubelet"), &[&format!("{at}/file")]);
    wait_until_blocked(kubelet);
    let state = fs::read_to_string(format!("/proc/{kubelet}/stat")).unwrap();
    assert!(state.contains(") S "), "the test needs an interruptible wait: {state}");
    let mount = copy_mount(&node, &at);
    fs::remove_dir_all(node.proc().join("100")).unwrap();
    add_real(&node, &[kubelet, daemon]);
    let young = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(young.verdict, Verdict::Healthy, "{young:#?}");
    age_waits(&node, 100);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let owner = format!("s3fs (fuse) of perl[{daemon}], which is stopped");
    assert_eq!(
        reason(&report),
        Some(("KR04".to_owned(), Some(owner.clone()), Confidence::Certain)),
        "{report:#?}"
    );
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(report.summary, format!("kubelet[{kubelet}] waits for the file system {owner}"));
    let found = find(&report, RuleId::KernelWait).unwrap();
    let pods = "pods with a volume on it, which may neither start nor end: default/web-1";
    assert!(found.evidence.contains(&pods.to_owned()), "{found:#?}");
    let minor = mount.split(' ').nth(2).unwrap().strip_prefix("0:").unwrap();
    let abort = format!("echo 1 > /sys/fs/fuse/connections/{minor}/abort");
    assert_eq!(found.steps[1].command.as_ref(), Some(&abort));
    // The same command on the connections that are mounted for this test.
    let connections = node.root.join("fuse/connections");
    fs::create_dir_all(&connections).unwrap();
    let unmounted = node.diagnose(Scripted::with_pods(3)).await;
    let mount_first = format!("mount -t fusectl fusectl /sys/fs/fuse/connections && {abort}");
    assert_eq!(find(&unmounted, RuleId::KernelWait).unwrap().steps[1].command.as_ref(), Some(&mount_first));
    let place = connections.display().to_string();
    assert!(sh(&mount_first.split(" && ").next().unwrap().replace("/sys/fs/fuse/connections", &place)));
    clean_up.commands.insert(0, format!("umount {place}"));
    let mounted = node.diagnose(Scripted::with_pods(3)).await;
    let found = find(&mounted, RuleId::KernelWait).unwrap();
    assert!(found.evidence.contains(&format!("1 requests wait in FUSE connection {minor}")), "{found:#?}");
    assert!(sh(&found.steps[1].command.as_ref().unwrap().replace("/sys/fs/fuse/connections", &place)));
    assert!(!clean_up.processes[1].wait().unwrap().success(), "the wait ends with an error");
}

#[tokio::test(start_paused = true)]
async fn programs_with_the_same_stack_are_counted_even_if_they_wait_in_a_function_of_many_reasons() {
    let node = FakeNode::new("programs").with_pods(3);
    let frozen = "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] mnt_want_write+0x96/0xc0\n";
    blocked_shim(&node, "percpu_rwsem_wait", frozen);
    let writer = |pid, comm: &str, stack: &str| {
        node.process(&FakeProcess {
            pid,
            comm,
            state: 'D',
            wchan: "percpu_rwsem_wait",
            ..FakeProcess::default()
        });
        node.file(&format!("proc/{pid}/stack"), stack);
    };
    writer(900, "postgres", frozen);
    writer(901, "rsyslogd", frozen);
    writer(902, "other", "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] cgroup_attach_lock+0x1d/0x30\n");
    let report = node.diagnose(hung(3, 1)).await;
    assert_eq!(reason(&report).unwrap().0, "KR05");
    let evidence = &find(&report, RuleId::KernelWait).unwrap().evidence;
    assert!(evidence.contains(&"3 programs wait for the same".to_owned()), "{evidence:#?}");
}

/// The tasks that Linux 6.18 showed while a shim started runc from a directory that a silent agent checks: the shim waits
/// until its child has executed runc, and the child still has the shim's name.
#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_be_executed_explains_the_hang_of_its_parent() {
    let node = FakeNode::new("vfork").with_pods(3);
    blocked_shim(&node, "kernel_clone", "[<0>] kernel_clone+0x25e/0x3f0\n[<0>] __do_sys_clone3+0xd1/0x110\n");
    node.process(&FakeProcess {
        pid: 1501,
        parent: 1001,
        comm: "containerd-shim",
        state: 'D',
        cgroup: "/system.slice/containerd.service",
        wchan: "fanotify_handle_event",
        ..FakeProcess::default()
    });
    node.file("proc/1501/task/1501/stack", FANOTIFY);
    node.file("proc/1501/task/1501/status", "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n");
    agent(&node, 812, "falcon-sensor", 5, 10000);
    let report = node.diagnose(hung(3, 1)).await;
    let owner = Some("falcon-sensor[812]".to_owned());
    assert_eq!(reason(&report), Some(("KR01".to_owned(), owner, Confidence::Certain)), "{report:#?}");
    let words = "waits for the security agent falcon-sensor[812]";
    assert!(report.summary.contains(words) && report.summary.contains("default/web-1"), "{}", report.summary);
    let d10 = find(&report, RuleId::HungProcess).unwrap();
    assert!(d10.title.ends_with(words), "{}", d10.title);
}

#[tokio::test(start_paused = true)]
async fn a_program_below_an_overdue_plugin_or_runc_is_looked_at() {
    let node = FakeNode::new("below").with_pods(3);
    let new = super::scripted::id(8, 'd');
    // The plugin is in none of the usual directories; its environment shows what it is.
    node.process(&FakeProcess { pid: 4001, parent: 200, comm: "bridge", age: 90, ..FakeProcess::default() });
    node.file(
        "proc/4001/environ",
        &format!("CNI_CONTAINERID={new}\0CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0\0"),
    );
    let below = |pid, parent, comm, wchan, stack: &str| {
        node.process(&FakeProcess {
            pid,
            parent,
            comm,
            state: 'D',
            age: 20,
            wchan,
            ..FakeProcess::default()
        });
        node.file(&format!("proc/{pid}/task/{pid}/stack"), stack);
        let status = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n";
        node.file(&format!("proc/{pid}/task/{pid}/status"), status);
    };
    // NVIDIA/nvidia-container-toolkit issue 499: the hook of a container waits in the driver.
    let driver = "[<0>] rm_init_adapter+0xc5/0xe0 [nvidia]\n";
    below(
        4002,
        4001,
        "host-local",
        "rtnl_newlink",
        "[<0>] rtnl_newlink+0x308/0xb10\n[<0>] netlink_rcv_skb+0x4b/0x100\n",
    );
    let report = node.diagnose(Scripted::with_pods(3)).await;
    assert_eq!(report.verdict, Verdict::Degraded, "{report:#?}");
    assert_eq!(reason(&report), Some(("KR02".to_owned(), None, Confidence::Likely)), "{report:#?}");
    assert_eq!(
        find(&report, RuleId::KernelWait).unwrap().title,
        "host-local[4002] of shop/db-0 waits for the network lock of the kernel (rtnl)"
    );
    node.process(&FakeProcess {
        pid: 3000,
        parent: 1001,
        comm: "runc",
        age: 70,
        command: &["runc", "create", &container_id(1)],
        ..FakeProcess::default()
    });
    below(4002, 3000, "nvidia-containe", "rm_init_adapter", driver);
    let report = node.diagnose(Scripted::with_pods(3)).await;
    let owner = Some("nvidia".to_owned());
    assert_eq!(reason(&report), Some(("KR03".to_owned(), owner, Confidence::Likely)), "{report:#?}");
    assert!(
        report.summary.contains("of default/web-1 waits for the device driver nvidia"),
        "{}",
        report.summary
    );
}

/// Prints how long it took from the begin of a wait to the report that names its reason.
fn print_time(what: &str, began: std::time::Instant) {
    println!("{what}: named {:.1} s after the wait began", began.elapsed().as_secs_f64());
}

#[tokio::test(start_paused = true)]
async fn a_real_frozen_cgroup_is_named() {
    let node = FakeNode::new("real-cgroup").with_pods(3);
    if !may_mount(&node) {
        return;
    }
    // plegctl uses the longest path of a process; in cgroup v1, the other paths are those of this test.
    let others = fs::read_to_string("/proc/self/cgroup").unwrap();
    let longest = others.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(str::len).max();
    let name = format!("plegctl-freeze-{}-{}", std::process::id(), "x".repeat(longest.unwrap_or(0)));
    let is_v1 = Path::new("/sys/fs/cgroup/freezer").is_dir();
    let cgroup = Path::new("/sys/fs/cgroup").join(if is_v1 { "freezer" } else { "" }).join(&name);
    if fs::create_dir(&cgroup).is_err() {
        eprintln!("skipped: no cgroup can be made here");
        return;
    }
    let (file, frozen, thawed) =
        if is_v1 { ("freezer.state", "FROZEN", "THAWED") } else { ("cgroup.freeze", "1", "0") };
    let mut clean_up = CleanUp::default();
    let shim = clean_up.start(&shim_of(&node, "/bin/sleep"), &["600"]);
    let at = cgroup.display();
    clean_up.commands.push(format!("echo {thawed} > {at}/{file}; kill -9 {shim}; sleep 0.2; rmdir {at}"));
    fs::write(cgroup.join("cgroup.procs"), shim.to_string()).unwrap();
    let began = std::time::Instant::now();
    fs::write(cgroup.join(file), frozen).unwrap();
    wait_until_blocked(shim);
    symlink("/sys/fs/cgroup", node.root.join("cgroup")).unwrap();
    let report = diagnose_with_real(&node, shim, &[]).await;
    print_time("a frozen cgroup", began);
    let owner = Some(format!("/{name}"));
    assert_eq!(reason(&report), Some(("KR08".to_owned(), owner, Confidence::Certain)), "{report:#?}");
    let next = find(&report, RuleId::KernelWait).unwrap().steps[1].to_string();
    assert!(next.contains(&format!("echo {thawed} > {at}/{file}")), "{next}");
}

/// Asks the kernel for the names of the features of a network device, into memory that the program itself does not provide
/// (userfaultfd). The kernel holds its network lock meanwhile. The program ends after 20 s, whatever happens.
#[cfg(target_arch = "x86_64")]
const HOLD_NETWORK_LOCK: &str = r"
    alarm 20;
    my $page = syscall(9, 0, 8192, 3, 0x22, -1, 0);
    my $fault = syscall(323, 0x80000); die if $fault < 0;
    open(F, '+<&=', $fault) or die;
    my $version = pack('QQQ', 0xAA, 0, 0); ioctl(F, 0xC018AA3F, $version) or die;
    my $range = pack('QQQQ', $page + 4096, 4096, 1, 0); ioctl(F, 0xC020AA00, $range) or die;
    pipe(R, W); syswrite(W, pack('LLL', 0x1b, 4, 0));
    syscall(0, fileno(R), $page + 4084, 12) == 12 or die;
    socket(S, 2, 2, 0) or die;
    my $request = pack('a16Qx16', 'lo', $page + 4084); ioctl(S, 0x8946, $request);
";

#[cfg(target_arch = "x86_64")]
#[tokio::test(start_paused = true)]
async fn a_real_wait_for_the_network_lock_is_recognised() {
    let node = FakeNode::new("real-rtnl").with_pods(3);
    let ip = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].into_iter().find(|path| Path::new(path).exists());
    let Some(ip) = ip.filter(|_| may_mount(&node)) else {
        eprintln!("skipped: no program ip");
        return;
    };
    let program = shim_of(&node, ip);
    let mut clean_up = CleanUp::default();
    let holder = clean_up.start("perl", &["-e", HOLD_NETWORK_LOCK]);
    let waits =
        || fs::read_to_string(format!("/proc/{holder}/wchan")).is_ok_and(|at| at == "handle_userfault");
    let mut has_ended = || clean_up.processes[0].try_wait().unwrap().is_some();
    for _ in 0..2400 {
        if waits() || has_ended() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    if !waits() {
        assert!(has_ended(), "the holder does not wait");
        eprintln!("skipped: this kernel or its limits allow no userfaultfd");
        return;
    }
    let began = std::time::Instant::now();
    // The device is up already.
    let shim = clean_up.start(&program, &["link", "set", "lo", "up"]);
    wait_until_blocked(shim);
    let report = diagnose_with_real(&node, shim, &[]).await;
    clean_up.commands.push(format!("kill -9 {holder}"));
    drop(clean_up);
    print_time("the network lock", began);
    assert_eq!(reason(&report).unwrap_or_else(|| panic!("{report:#?}")).0, "KR02", "{report:#?}");
    assert!(report.summary.contains("waits for the network lock of the kernel"), "{}", report.summary);
}
