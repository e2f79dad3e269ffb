//! Suggests commands that the user can run, with the names of the detected runtime and with the process ids that were
//! found. plegctl prints these commands and does not run them.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::container_parts::{self, ContainerParts};
use super::proc::{Ownership, Process, Role};
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
    /// the socket.
    pub fn family(&self) -> DaemonFamily {
        let by_name = self.runtime.version_answer().map(|version| version.runtime_name.as_str());
        let by_process = || self.daemon().map(|daemon| daemon.comm.as_str());
        match by_name.or_else(by_process) {
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
        let signal = format!("kill -USR1 {}; sleep 1; ", self.containerd_pid());
        let signal = if family == DaemonFamily::Containerd { signal } else { String::new() };
        Some(format!("see what the call waits for inside {}: {signal}plegctl stacks", family.daemon()))
    }

    /// Returns containerd's process id, or the words of a shell that find it.
    fn containerd_pid(&self) -> String {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        daemon.map_or_else(|| "$(pidof containerd)".to_owned(), |daemon| daemon.pid.to_string())
    }

    /// Returns the step that ends a hang of the whole runtime when nothing else does.
    pub fn restart_runtime(&self) -> String {
        const TEXT: &str = "last resort, after what is to be kept is saved";
        let unit = match self.family() {
            DaemonFamily::Containerd => "containerd",
            DaemonFamily::Crio => "crio",
            DaemonFamily::Other => "",
        };
        if unit.is_empty() || !self.has_systemd() {
            return format!("{TEXT}: restart the runtime (changes state); its containers keep running");
        }
        format!("{TEXT} (changes state): systemctl restart {unit}   # its containers keep running")
    }

    /// Returns whether the cgroup of a process, or one above it, is frozen.
    fn is_frozen(&self, process: &Process) -> bool {
        let frozen = self.node().map(|host| host.latest().frozen.as_slice()).unwrap_or_default();
        frozen.iter().any(|freeze| {
            process
                .cgroup
                .strip_prefix(&freeze.path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
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
                let pid = self.containerd_pid();
                Some(format!("containerd's stacks to /tmp, now and in 60 s: kill -USR1 {pid}"))
            }
            DaemonFamily::Crio => {
                let socket = self.socket.as_deref().unwrap_or_else(|| Path::new("/run/crio/crio.sock"));
                Some(format!(
                    "CRI-O's stacks, now and in 60 s: curl -s --unix-socket {} http://localhost/debug/goroutines > crio-1.txt",
                    socket.display()
                ))
            }
            DaemonFamily::Other => None,
        }
    }
}

impl DaemonFamily {
    /// Returns the name of the daemon.
    const fn daemon(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "CRI-O",
            Self::Other => "the runtime",
        }
    }

    /// Returns the name of the process that watches a container.
    pub const fn monitor(self) -> &'static str {
        match self {
            Self::Containerd => "shim",
            Self::Crio => "conmon",
            Self::Other => "shim or conmon",
        }
    }
}

/// The commands that show which resource of the node is short.
pub const NODE_PRESSURE: &str = "iostat -x 1 5; grep . /proc/pressure/*";

/// Returns the `crictl` command that repeats a status call. It has a time-out of 20 s, because `crictl` gives up after 2 s by
/// default, which does not prove a hang.
pub fn repeat_call(rpc: Rpc, id: &str) -> String {
    let verb = if rpc == Rpc::PodSandboxStatus { "inspectp" } else { "inspect" };
    format!("optional, to see it hang: crictl --timeout 20s {verb} {}", short(id))
}

/// The most silent calls for which commands are suggested.
const MAX_SUGGESTED: usize = 3;

/// Returns the commands for status calls that get no answer: first those that only look, then the last resort for each pod.
pub fn for_culprits(evidence: &Evidence, culprits: &[(Rpc, &str)]) -> Vec<String> {
    let culprits = culprits.get(..MAX_SUGGESTED).unwrap_or(culprits);
    let family = evidence.family();
    let mut lines = Vec::new();
    let mut last_resorts = Vec::new();
    for (_, id) in culprits {
        let parts = container_parts::parts_of(evidence, id);
        lines.push(look_at(&parts, family, id));
        let last_resort = last_resort(evidence, &parts, id);
        if !last_resorts.contains(&last_resort) {
            last_resorts.push(last_resort);
        }
    }
    lines.extend(last_resorts);
    lines.extend(culprits.iter().map(|(rpc, id)| repeat_call(*rpc, id)));
    lines
}

/// Returns the step that ends a hang of one pod when nothing else does.
fn last_resort(evidence: &Evidence, parts: &ContainerParts<'_>, id: &str) -> String {
    let kill = match parts.shim {
        Some(shim) => format!("kill {}", shim.label()),
        None => format!("kill its {}", evidence.family().monitor()),
    };
    match evidence.names.pod(id).filter(|pod| !pod.name.is_empty()) {
        Some(pod) => format!(
            "last resort, for this one pod only (changes state): kubectl -n {} delete pod {}   # or {kill}",
            pod.namespace, pod.name
        ),
        None => format!("last resort: delete the pod of {}, or {kill} (changes state)", short(id)),
    }
}

/// Returns the command that shows what blocks the call. The command depends on the first known part of the container.
fn look_at(parts: &ContainerParts<'_>, family: DaemonFamily, id: &str) -> String {
    if let Some((process, task)) = parts.blocked.first() {
        let (pid, tid, comm) = (process.pid, task.tid, &process.comm);
        return format!("cat /proc/{pid}/task/{tid}/stack   # {comm} waits in the kernel");
    }
    if let Some(process) = parts.oci.first() {
        return format!("cat /proc/{}/stack   # {}, about this container", process.pid, process.comm);
    }
    match (parts.shim, family) {
        (Some(shim), _) if shim.is_stopped() => {
            format!(
                "find out who stopped {}; to continue it (changes state): kill -CONT {}",
                shim.label(),
                shim.pid
            )
        }
        (Some(shim), DaemonFamily::Containerd) => {
            format!("kill -USR1 {}   # its shim's stacks, into containerd's journal", shim.pid)
        }
        (Some(shim), _) => format!("cat /proc/{}/stack   # its {}", shim.pid, shim.comm),
        (None, _) => {
            format!("pgrep -af {}   # its {}, and an OCI runtime that hangs", short(id), family.monitor())
        }
    }
}
