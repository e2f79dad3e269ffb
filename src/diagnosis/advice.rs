//! Suggests commands that the user can run, with the names of the detected runtime and with the process ids that were
//! found. plegctl prints these commands and does not run them.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::container_parts::{self, ContainerParts};
use super::proc::cgroup::container_id;
use super::proc::{Ownership, Process, Role, sub_command};
use super::words::short;
use crate::cri::Rpc;

/// The runtime family, which decides whose commands are suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonFamily {
    /// containerd and its shims.
    Containerd,
    /// CRI-O and its conmon.
    Crio,
    /// Another runtime, or an unknown one.
    Other,
}

impl Evidence {
    /// Returns the runtime's family, by the name in its Version answer, otherwise by the name of the process that listens on
    /// the socket, otherwise by the name of the socket: nobody but CRI-O has a `crio.sock`.
    pub fn family(&self) -> DaemonFamily {
        let by_name = self.runtime.version_answer().map(|version| version.runtime_name.as_str());
        let by_process = || self.daemon().map(|daemon| daemon.comm.as_str());
        let by_socket = || self.endpoint.ends_with("/crio.sock").then_some("crio");
        match by_name.or_else(by_process).or_else(by_socket) {
            Some("containerd") => DaemonFamily::Containerd,
            Some("cri-o" | "crio") => DaemonFamily::Crio,
            _ => DaemonFamily::Other,
        }
    }

    /// Returns the process that listens on the runtime's socket.
    pub fn daemon(&self) -> Option<&Process> {
        let host = self.node()?;
        let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership else { return None };
        host.latest().processes.get(&pid)
    }

    /// Returns the step that shows what blocks the runtime inside, if the runtime can write its goroutine stacks.
    pub fn show_holder(&self) -> Option<String> {
        let family = self.family();
        self.save_stacks()?;
        let signal = format!("{}; sleep 1; ", self.write_stacks());
        let signal = if family == DaemonFamily::Containerd { signal } else { String::new() };
        Some(format!("{signal}plegctl stacks   # who waits for what"))
    }

    /// Returns the command that makes containerd write its stacks.
    fn write_stacks(&self) -> String {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        let by_pid = |daemon: &Process| format!("kill -USR1 {}", daemon.pid);
        daemon.map_or_else(|| "pkill -USR1 -x containerd".to_owned(), by_pid)
    }

    /// Returns the step that ends a hang of the whole runtime when nothing else does.
    pub fn restart_runtime(&self) -> String {
        let unit = match self.family() {
            DaemonFamily::Containerd => "containerd",
            DaemonFamily::Crio => "crio",
            DaemonFamily::Other => "",
        };
        if unit.is_empty() || !self.has_systemd() {
            return "last resort: restart the runtime (changes state); pods run on".to_owned();
        }
        format!("last resort (changes state): systemctl restart {unit}   # pods run on")
    }

    /// Returns whether the cgroup of a process, or one above it, is frozen.
    fn is_frozen(&self, process: &Process) -> bool {
        let frozen = self.node().map(|host| host.latest().frozen.as_slice()).unwrap_or_default();
        frozen.iter().any(|freeze| container_parts::is_frozen_by(process, freeze))
    }

    /// Returns the `journalctl` arguments that select the runtime's units.
    pub fn runtime_units(&self) -> &'static str {
        match self.family() {
            DaemonFamily::Containerd => "-u containerd",
            DaemonFamily::Crio => "-u crio",
            DaemonFamily::Other => "-u containerd -u crio",
        }
    }

    /// Returns whether the commands of systemd can be suggested: process 1 is systemd, or is not known.
    pub fn has_systemd(&self) -> bool {
        let init = self.node().and_then(|host| host.latest().processes.get(&1));
        init.is_none_or(|init| init.comm == "systemd")
    }

    /// Returns the command that shows the state of these units and their journal; without systemd, what to do instead.
    pub fn show_units(&self, units: &str) -> String {
        if self.has_systemd() {
            format!(
                "why it does not run: systemctl status {units}; journalctl -S -15min {}",
                self.runtime_units()
            )
        } else {
            "see how the runtime is started on this node, and its log".to_owned()
        }
    }

    /// Returns the command that shows the runtime's journal; without systemd, what to do instead.
    pub fn show_journal(&self) -> String {
        if self.has_systemd() {
            format!("journalctl -S -15min {}", self.runtime_units())
        } else {
            "see the runtime's log".to_owned()
        }
    }

    /// Returns the command that saves the runtime's goroutine stacks; `None` for a stopped or frozen process, which cannot
    /// write them.
    pub fn save_stacks(&self) -> Option<String> {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        if daemon.is_some_and(|daemon| daemon.is_stopped() || self.is_frozen(daemon)) {
            return None;
        }
        match self.family() {
            DaemonFamily::Containerd => {
                let signal = self.write_stacks();
                Some(format!("{signal}; sleep 60; {signal}   # containerd's stacks, in /tmp"))
            }
            DaemonFamily::Crio => {
                let socket = self.socket.as_deref().unwrap_or_else(|| Path::new("/run/crio/crio.sock"));
                Some(format!(
                    "CRI-O's stacks: for i in 1 2; do [ $i = 1 ] || sleep 60; curl -s -m 10 --unix-socket {} \
                     http://localhost/debug/goroutines > crio-$i.txt; done",
                    socket.display()
                ))
            }
            DaemonFamily::Other => None,
        }
    }
}

impl DaemonFamily {
    /// Returns the name of the process that watches a container.
    pub const fn monitor(self) -> &'static str {
        match self {
            Self::Containerd => "shim",
            Self::Crio => "conmon",
            Self::Other => "shim or conmon",
        }
    }
}

/// Says what CRI-O does if a `state` process of the OCI runtime ends without an answer, so that nobody ends the process
/// unwarned: it takes the container for exited (`UpdateContainerStatus` in `internal/oci/runtime_oci.go` of CRI-O). `None` for
/// any other process.
pub fn if_state_ends(evidence: &Evidence, process: &Process) -> Option<String> {
    let is_state = sub_command(&process.command) == Some("state");
    let id = process.command.iter().find_map(|word| container_id(word))?;
    if !is_state || evidence.family() != DaemonFamily::Crio {
        return None;
    }
    let processes = &evidence.node()?.latest().processes;
    let mut processes = processes.values().filter(|other| other.role == Role::Other && !other.is_zombie());
    let alive = processes.find(|other| other.container_id.as_deref() == Some(id));
    let (label, who) = (process.label(), evidence.names.name(id));
    Some(match alive {
        Some(alive) => format!(
            "do not end {label}: CRI-O would record that {who} exited with code 255, although {} runs, and the kubelet \
             would start a second copy",
            alive.label()
        ),
        None => format!(
            "if {label} is ended, CRI-O records that {who} exited, with the code that conmon wrote, else with 255"
        ),
    })
}

/// The step that finds OCI runtime processes that hang, and the step that ends one.
pub const OCI_PROCESSES: [&str; 2] = [
    "ps -eo pid,stat,wchan:20,etime,args | grep -E '[r]unc |[c]run '   # runc hangs",
    "end an old one, never a `runc state` (changes state); STAT D: repair what WCHAN points to",
];

/// The commands that show which resource of the node is short.
pub const NODE_PRESSURE: &str = "iostat -x 1 5; grep . /proc/pressure/*";

/// The most silent calls for which commands are suggested.
const MAX_SUGGESTED: usize = 3;

/// Returns the commands for status calls that get no answer: first those that only look, then the mildest change, then
/// the last resort.
pub fn for_culprits(evidence: &Evidence, culprits: &[(Rpc, &str)]) -> Vec<String> {
    let culprits = culprits.get(..MAX_SUGGESTED).unwrap_or(culprits);
    let family = evidence.family();
    let monitor = family.monitor();
    let mut lines = Vec::new();
    let mut unknown = Vec::new();
    let mut monitors = Vec::new();
    let mut pods: Vec<(String, Vec<String>)> = Vec::new();
    for (_, id) in culprits {
        let parts = container_parts::parts_of(evidence, id);
        match look_at(&parts, family) {
            Some(line) => lines.push(line),
            None => unknown.push(short(id)),
        }
        let label = parts.shim.map_or_else(|| format!("its {monitor}"), Process::label);
        if !monitors.contains(&label) {
            monitors.push(label);
        }
        let Some(pod) = evidence.names.pod(id).filter(|pod| !pod.name.is_empty()) else { continue };
        match pods.iter_mut().find(|(namespace, _)| *namespace == pod.namespace) {
            Some((_, names)) if names.contains(&pod.name) => {}
            Some((_, names)) => names.push(pod.name),
            None => pods.push((pod.namespace, vec![pod.name])),
        }
    }
    if !unknown.is_empty() {
        lines.push(format!("ps -eo pid,stat,wchan:20,etime,args | grep -E '{}'", unknown.join("|")));
        lines.push("STAT D: repair the disk or server to which WCHAN points; no signal helps".to_owned());
        lines.push(match family {
            // CRI-O takes a `state` that was ended for an exit of its container.
            DaemonFamily::Crio => "STAT T: kill -CONT PID (changes state)".to_owned(),
            _ => {
                "STAT T: kill -CONT PID; a runc that is minutes old: kill PID (both change state)".to_owned()
            }
        });
    }
    lines.extend(pods.iter().map(|(namespace, names)| {
        let names = names.join(" ");
        format!("if it still hangs (changes state): kubectl -n {namespace} delete pod {names}")
    }));
    // A conmon that ends does not end its container, and nothing records the exit of the container any more.
    if family != DaemonFamily::Crio {
        let monitors = monitors.join(", ");
        lines.push(format!("last resort (changes state): kill {monitors}, which ends its containers"));
    }
    lines
}

/// Returns the command that shows what blocks the call, by the first known part of the container; `None` if no part is known.
fn look_at(parts: &ContainerParts<'_>, family: DaemonFamily) -> Option<String> {
    if let Some((process, task)) = parts.blocked.first() {
        let (pid, tid, comm) = (process.pid, task.tid, &process.comm);
        return Some(format!("cat /proc/{pid}/task/{tid}/stack   # {comm} waits in the kernel"));
    }
    if let Some(process) = parts.oci.first() {
        return Some(format!("cat /proc/{}/stack   # {}, about this container", process.pid, process.comm));
    }
    let shim = parts.shim?;
    Some(match family {
        _ if shim.is_stopped() => format!(
            "find out who stopped {}; to continue it (changes state): kill -CONT {}",
            shim.label(),
            shim.pid
        ),
        DaemonFamily::Containerd => {
            format!("kill -USR1 {}   # its shim's stacks, into containerd's journal", shim.pid)
        }
        _ => format!("cat /proc/{}/stack   # its {}", shim.pid, shim.comm),
    })
}
