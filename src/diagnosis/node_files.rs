//! Collects files of the node for a bundle: the kernel's log, the kubelet's configuration file, and files below `/proc` of
//! the node and of the processes that may block a call. Each file has a size limit. What may be a secret is removed or
//! not read: environments, keys in configuration files and command lines, options of mounts.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::evidence::{Evidence, StatusRecord, container_parts};
use super::input_file::{InputFile, MAX_BYTES};
use super::proc::{Process, Role};
use super::{Inputs, offload};
use crate::host::{HostRoot, kernel_text};
use crate::report::load::load;
use crate::report::redaction::{without_secret_values, without_secrets, without_secrets_of_mounts};

/// The maximum size of each collected file about one process.
const MAX_PROCESS_FILE_BYTES: usize = 64 * 1024;
/// The number of processes whose files are collected.
const MAX_PROCESSES: usize = 64;
/// The time limit for reading all files.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The files of a process. Reading them never blocks, even if the process is blocked in the kernel. `cmdline` is
/// absent, because reading it can block; `environ` is absent, because it may contain secrets.
const PROCESS_FILES: [&str; 7] = ["stat", "status", "cgroup", "wchan", "stack", "limits", "schedstat"];
const NODE_FILES: [&str; 6] =
    ["pressure/cpu", "pressure/io", "pressure/memory", "meminfo", "loadavg", "self/mountinfo"];

/// Collects the files, and returns whether all were read in time.
pub(super) async fn collect<R>(inputs: &Inputs<R>, evidence: &Evidence) -> (Vec<InputFile>, bool) {
    let processes_concerned = processes_concerned(evidence);
    let kubelet = evidence.kubelet.pid;
    let root = inputs.host_root.clone();
    let proc = inputs.proc.clone();
    // plegctl may run `journalctl` and `systemctl` only if this machine is the node. The kernel log of this machine
    // does not belong to a simulated or recorded node.
    let is_this_machine = inputs.commands;
    let work = move |send: &dyn Fn(InputFile)| {
        if let Some(proc) = &proc {
            collect_node_files(proc, send);
            for process in &processes_concerned {
                collect_process_files(proc, process, send);
            }
        }
        if let Some(process) = processes_concerned.iter().find(|process| Some(process.pid) == kubelet) {
            collect_kubelet_config(&HostRoot::resolve(Some(&root)), process, send);
        }
        if let Some(log) = is_this_machine.then(read_kernel_log).flatten() {
            send(InputFile::new("kernel.txt", "the kernel's log", log));
        }
    };
    offload::collect(TIME_LIMIT, work).await
}

/// Returns the daemon, the kubelet, and the processes that may block a silent or slow call.
fn processes_concerned(evidence: &Evidence) -> Vec<Process> {
    let Some(host) = evidence.node() else { return Vec::new() };
    let sample = host.latest();
    let mut pids: BTreeSet<u32> = evidence.daemon().map(|daemon| daemon.pid).into_iter().collect();
    pids.extend(evidence.kubelet.pid);
    for id in
        evidence.runtime.status_calls.iter().filter(|record| is_late(record)).map(|record| &record.target.id)
    {
        let parts = container_parts::parts_of(evidence, id);
        pids.extend(parts.shim.map(|shim| shim.pid));
        pids.extend(parts.oci.iter().map(|process| process.pid));
        pids.extend(parts.blocked.iter().map(|(process, _)| process.pid));
    }
    let blocked = sample.processes.values().filter(|process| !process.blocked.is_empty());
    pids.extend(blocked.filter(|process| evidence.concerns(process)).map(|process| process.pid));
    let oci = sample.with_role(Role::OciRuntime).filter(|process| evidence.concerns(process));
    pids.extend(oci.map(|process| process.pid));
    pids.into_iter().filter_map(|pid| sample.processes.get(&pid).cloned()).take(MAX_PROCESSES).collect()
}

fn is_late(record: &StatusRecord) -> bool {
    record.is_silent() || record.duration >= super::limits::STATUS_SLOW
}

fn collect_node_files(proc: &Path, send: &dyn Fn(InputFile)) {
    for name in NODE_FILES {
        if let Ok(text) = kernel_text(&proc.join(name)) {
            let name = format!("proc/{}", name.replace("self/", ""));
            send(InputFile::new(name, "of the node", without_secrets_of_mounts(&text)));
        }
    }
}

fn collect_process_files(proc: &Path, process: &Process, send: &dyn Fn(InputFile)) {
    let pid = process.pid;
    for name in PROCESS_FILES {
        if let Ok(text) = kernel_text(&proc.join(pid.to_string()).join(name)) {
            let name = format!("proc/{pid}/{name}");
            send(InputFile::within(MAX_PROCESS_FILE_BYTES, name, "of a process concerned", text));
        }
    }
    for task in &process.blocked {
        let text = format!("{}\n{}\n", task.wchan, task.stack.join("\n"));
        let name = format!("proc/{pid}/task-{}-stack", task.tid);
        send(InputFile::within(MAX_PROCESS_FILE_BYTES, name, "where a task waits in the kernel", text));
    }
    if !process.command.is_empty() {
        let words = without_secrets(process.command.iter().map(String::as_str));
        let name = format!("proc/{pid}/cmdline");
        send(InputFile::within(MAX_PROCESS_FILE_BYTES, name, "its command line", words.join("\n") + "\n"));
    }
}

/// Sends the kubelet's configuration file, if its command line names one.
fn collect_kubelet_config(root: &HostRoot, kubelet: &Process, send: &dyn Fn(InputFile)) {
    let Some(named) = kubelet.flag("config") else { return };
    // A relative path starts at the kubelet's directory; joining leaves an absolute path unchanged.
    let path = kubelet.directory.as_deref().unwrap_or(Path::new("")).join(named);
    if !path.is_absolute() {
        return;
    }
    let path: PathBuf = root.path(path);
    if let Ok(bytes) = load(&path, MAX_BYTES) {
        let text = without_secret_values(&String::from_utf8_lossy(&bytes));
        send(InputFile::new("kubelet/config.txt", "its configuration file", text));
    }
}

/// Reads the kernel's log, as far as this user may read it.
fn read_kernel_log() -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut log = std::fs::File::from(rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?);
    let mut text = String::new();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(record.get(..length).unwrap_or_default())),
            // The kernel overwrote records during the read; the next record is readable.
            Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_long_file_is_kept() {
        let input_file = InputFile::within(4, "journal.txt", "", "0123456789");
        assert_eq!((input_file.bytes.as_slice(), input_file.cut), (&b"6789"[..], true));
        assert!(!InputFile::within(4, "journal.txt", "", "0123").cut);
    }

    #[test]
    fn a_text_file_is_escaped_and_a_compressed_file_is_unchanged() {
        let input_file = InputFile::new("journal.txt", "", &b"a\x1b]0;b\x07\n\xc2\x9b2J\xff\tc"[..]);
        let text = String::from_utf8(input_file.bytes).unwrap();
        assert_eq!(text, "a\\u{1b}]0;b\\u{7}\n\\u{9b}2J\u{fffd}\tc");
        let compressed = [0x1f, 0x8b, 0x08, 0x00, 0xff, 0x1b];
        assert_eq!(InputFile::new("stacks.txt", "", compressed).bytes, compressed);
    }
}
