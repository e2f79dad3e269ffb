//! What the node wrote down itself, word for word but for what a terminal would obey, for whoever looks at a bundle later: journal, kernel log, the kubelet's
//! metrics and configuration, `/proc` of the processes concerned, a goroutine dump. Each is bounded, and nothing that may
//! be a secret is among it: no environment, no verbose status, no header and no token.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde_json::Value;

use super::evidence::{Evidence, StatusRecord};
use super::paper::{LARGEST, Paper};
use super::proc::{Process, Role};
use super::{Inputs, join, offload};
use crate::host::{HostRoot, kernel_text};
use crate::report::load::load;

/// What a file of `/proc` may have.
const LARGEST_OF_PROC: usize = 64 * 1024;
/// Processes of which files are taken.
const PROCESSES: usize = 64;
/// What reading them may take.
const LIMIT: Duration = Duration::from_secs(2);
/// What is answered by the kernel alone, whatever the process does. `environ` is not among them.
const OF_PROCESS: [&str; 7] = ["stat", "status", "cgroup", "wchan", "stack", "limits", "schedstat"];
const OF_NODE: [&str; 6] =
    ["pressure/cpu", "pressure/io", "pressure/memory", "meminfo", "loadavg", "self/mountinfo"];
/// What a name has in it whose value is nobody else's business.
const SECRETS: [&str; 7] = ["token", "password", "passwd", "secret", "header", "credential", "private"];
/// What stands for such a value.
const LEFT_OUT: &str = "(left out)";

/// Takes down what only files have. What the run itself was told is in the evidence already.
pub(super) async fn collect<R>(inputs: &Inputs<R>, evidence: &mut Evidence) {
    let concerned = concerned(evidence);
    let kubelet = evidence.kubelet.pid;
    let root = inputs.host_root.clone();
    let proc = inputs.proc.clone();
    // A simulated node and a recorded one have another kernel.
    let of_this_machine = inputs.commands;
    let work = move |send: &dyn Fn(Paper)| {
        if let Some(proc) = &proc {
            of_node(proc, send);
            for process in &concerned {
                of_process(proc, process, send);
            }
        }
        if let Some(process) = concerned.iter().find(|process| Some(process.pid) == kubelet) {
            configuration(&HostRoot::resolve(Some(&root)), process, send);
        }
        if let Some(log) = of_this_machine.then(kernel_log).flatten() {
            send(Paper::new("kernel.txt", "the kernel's log", log));
        }
    };
    let (papers, ended) = offload::collect(LIMIT, work).await;
    evidence.papers.extend(papers);
    if !ended {
        evidence.skip("part of the files for the bundle", "they were not read in time");
    }
}

/// The daemon, the kubelet, and whoever has to do with a call that is not answered.
fn concerned(evidence: &Evidence) -> Vec<Process> {
    let Some(host) = evidence.node() else { return Vec::new() };
    let sample = host.latest();
    let mut pids: BTreeSet<u32> = evidence.daemon().map(|daemon| daemon.pid).into_iter().collect();
    pids.extend(evidence.kubelet.pid);
    for id in
        evidence.runtime.asked.iter().filter(|record| is_worth_it(record)).map(|record| &record.target.id)
    {
        let holders = join::holders(evidence, id);
        pids.extend(holders.shim.map(|shim| shim.pid));
        pids.extend(holders.oci.iter().map(|process| process.pid));
        pids.extend(holders.blocked.iter().map(|(process, _)| process.pid));
    }
    let blocked = sample.processes.values().filter(|process| !process.blocked.is_empty());
    pids.extend(blocked.filter(|process| evidence.concerns(process)).map(|process| process.pid));
    let oci = sample.with_role(Role::OciRuntime).filter(|process| evidence.concerns(process));
    pids.extend(oci.map(|process| process.pid));
    pids.into_iter().filter_map(|pid| sample.processes.get(&pid).cloned()).take(PROCESSES).collect()
}

fn is_worth_it(record: &StatusRecord) -> bool {
    record.is_silent() || record.duration >= super::limits::STATUS_SLOW
}

fn of_node(proc: &Path, send: &dyn Fn(Paper)) {
    for name in OF_NODE {
        if let Ok(text) = kernel_text(&proc.join(name)) {
            let name = format!("proc/{}", name.replace("self/", ""));
            send(Paper::new(name, "of the node", without_secrets_of_mounts(&text)));
        }
    }
}

/// A mount of CIFS has its user and may have his password among its options.
fn without_secrets_of_mounts(text: &str) -> String {
    let plain = |option: &str| match option.split_once('=') {
        Some((name, _)) if is_secret(name) || name == "pass" => format!("{name}={LEFT_OUT}"),
        _ => option.to_owned(),
    };
    let line = |line: &str| line.split(',').map(plain).collect::<Vec<_>>().join(",") + "\n";
    text.lines().map(line).collect()
}

fn of_process(proc: &Path, process: &Process, send: &dyn Fn(Paper)) {
    let pid = process.pid;
    for name in OF_PROCESS {
        if let Ok(text) = kernel_text(&proc.join(pid.to_string()).join(name)) {
            let name = format!("proc/{pid}/{name}");
            send(Paper::within(LARGEST_OF_PROC, name, "of a process concerned", text));
        }
    }
    for task in &process.blocked {
        let text = format!("{}\n{}\n", task.wchan, task.stack.join("\n"));
        let name = format!("proc/{pid}/task-{}-stack", task.tid);
        send(Paper::within(LARGEST_OF_PROC, name, "where a task waits in the kernel", text));
    }
    if !process.command.is_empty() {
        let words = without_secrets(process.command.iter().map(String::as_str));
        let name = format!("proc/{pid}/cmdline");
        send(Paper::within(LARGEST_OF_PROC, name, "its command line", words.join("\n") + "\n"));
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A command line whose flags with a secret in their name have no value.
fn without_secrets<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut next_is_secret = false;
    for word in words {
        let is_flag = word.starts_with('-');
        shown.push(match word.split_once('=') {
            _ if next_is_secret && !is_flag => LEFT_OUT.to_owned(),
            Some((name, _)) if is_flag && is_secret(name) => format!("{name}={LEFT_OUT}"),
            _ => word.to_owned(),
        });
        next_is_secret = is_flag && !word.contains('=') && is_secret(word);
    }
    shown
}

/// The kubelet's own file, where its command line names one.
fn configuration(root: &HostRoot, kubelet: &Process, send: &dyn Fn(Paper)) {
    let Some(path) = kubelet.flag("config") else { return };
    let path: PathBuf = root.path(path);
    if let Ok(bytes) = load(&path, LARGEST) {
        let text = without_secret_keys(&String::from_utf8_lossy(&bytes));
        send(Paper::new("kubelet/config.txt", "its configuration file", text));
    }
}

/// A YAML or JSON text without what stands below a key that has a secret in its name.
pub(super) fn without_secret_keys(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(mut document) => {
            leave_out_secrets(&mut document);
            format!("{document:#}\n")
        }
        Err(_) => without_secret_lines(text),
    }
}

fn leave_out_secrets(document: &mut Value) {
    match document {
        Value::Object(members) => {
            for (key, value) in members {
                if is_secret(key) {
                    *value = LEFT_OUT.into();
                } else {
                    leave_out_secrets(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_secrets),
        _ => {}
    }
}

/// Leaves out the line, all that is indented further, anything at the same depth that is no key, and what is in brackets
/// that are open. A line may hold more keys than its first.
fn without_secret_lines(text: &str) -> String {
    let mut shown = String::new();
    let (mut below, mut open): (Option<usize>, usize) = (None, 0);
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let belongs = |at: usize| {
            depth > at || (depth == at && line.trim_start().starts_with(['-', '[', ']', '{', '}']))
        };
        if open > 0 || below.is_some_and(|at| line.trim().is_empty() || belongs(at)) {
            open = brackets(line, open);
            continue;
        }
        below = None;
        match line.split_once(':') {
            // Behind a key there may be a map on the same line.
            Some((key, value)) if is_secret(key) || (value.contains(':') && is_secret(value)) => {
                below = Some(depth);
                open = brackets(value, 0);
                shown.extend([key, ": ", LEFT_OUT]);
            }
            _ => shown.push_str(line),
        }
        shown.push('\n');
    }
    shown
}

/// How many brackets are open after a line, if so many were before it.
fn brackets(line: &str, open: usize) -> usize {
    let outside = line.split('"').step_by(2).flat_map(str::chars);
    outside.fold(open, |open, letter| match letter {
        '{' | '[' => open + 1,
        '}' | ']' => open.saturating_sub(1),
        _ => open,
    })
}

/// The kernel's own log, as far as it may be read; it is not kept in one piece anywhere but there.
fn kernel_log() -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut log = std::fs::File::from(rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?);
    let mut text = String::new();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(record.get(..length).unwrap_or_default())),
            // Records were lost while we read; the next one is there.
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
    fn the_end_of_a_long_text_is_kept() {
        let paper = Paper::within(4, "journal.txt", "", "0123456789");
        assert_eq!((paper.bytes.as_slice(), paper.cut), (&b"6789"[..], true));
        assert!(!Paper::within(4, "journal.txt", "", "0123").cut);
    }

    #[test]
    fn issue_12_a_paper_that_is_printed_moves_no_cursor_and_a_packed_one_is_as_it_was() {
        let paper = Paper::new("journal.txt", "", &b"a\x1b]0;b\x07\n\xc2\x9b2J\xff\tc"[..]);
        let text = String::from_utf8(paper.bytes).unwrap();
        assert_eq!(text, "a\\u{1b}]0;b\\u{7}\n\\u{9b}2J\u{fffd}\tc");
        let packed = [0x1f, 0x8b, 0x08, 0x00, 0xff, 0x1b];
        assert_eq!(Paper::new("stacks.txt", "", packed).bytes, packed);
    }

    #[test]
    fn a_command_line_keeps_its_secrets() {
        let words =
            ["kubelet", "--v=2", "--manifest-url-header=A:b", "--token", "t0p", "--node-ip", "10.0.0.1"];
        assert_eq!(
            without_secrets(words.into_iter()),
            [
                "kubelet",
                "--v=2",
                "--manifest-url-header=(left out)",
                "--token",
                "(left out)",
                "--node-ip",
                "10.0.0.1"
            ]
        );
    }

    #[test]
    fn a_configuration_keeps_its_secrets() {
        let yaml = "kind: KubeletConfiguration\nstaticPodURLHeader:\n  Authorization:\n  - Bearer t0p\n\nmaxPods: 110\n";
        let shown = without_secret_keys(yaml);
        assert_eq!(shown, "kind: KubeletConfiguration\nstaticPodURLHeader: (left out)\nmaxPods: 110\n");
        let flow = "kind: K\nstaticPod: {url: http://x, token: t0p}\n{a: {token: t0p}}\nmaxPods: 110\n";
        let shown = without_secret_keys(flow);
        assert!(!shown.contains("t0p") && shown.contains("maxPods: 110"), "{shown}");
        let compact = r#"{"kind":"K","maxPods":110,"staticPodURLHeader":{"Authorization":["Bearer t0p"]}}"#;
        let shown = without_secret_keys(compact);
        assert!(!shown.contains("t0p") && shown.contains("\"maxPods\": 110"), "{shown}");
        let json = "{\n  \"staticPodURLHeader\": {\n    \"Authorization\": [\"Bearer t0p\"]\n  },\n  \"maxPods\": 110\n}\n";
        let shown = without_secret_keys(json);
        assert!(!shown.contains("t0p") && shown.contains("maxPods"), "{shown}");
        for packed in [
            r#"{"kind":"KubeletConfiguration","staticPodURLHeader":{"Authorization":["Bearer t0p"]},"maxPods":110}"#,
            "{kind: KubeletConfiguration, staticPodURLHeader: {Authorization: [Bearer t0p]}}",
            "{\n\"staticPodURLHeader\":\n{\n\"Authorization\":\n[\"Bearer t0p\"]\n}\n}\n",
        ] {
            let shown = without_secret_keys(packed);
            assert!(!shown.contains("t0p"), "{shown}");
            assert_eq!(shown.contains("110"), packed.contains("110"), "{shown}");
        }
    }

    #[test]
    fn a_mount_keeps_its_password() {
        let line = "36 35 0:50 / /data rw - cifs //srv/x rw,username=u,password=t0p,vers=3.0";
        let shown = without_secrets_of_mounts(line);
        assert!(
            !shown.contains("t0p") && shown.contains("vers=3.0") && shown.contains("username=u"),
            "{shown}"
        );
    }
}
