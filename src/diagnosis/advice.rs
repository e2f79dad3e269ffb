//! Suggests commands for the user to type, for the detected runtime and with the process ids that were found.
//! plegctl prints these commands and never runs them.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::holders::{self, Holders};
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
    /// Returns the runtime's family: by the name in its Version answer, else by the name of the process that
    /// listens on the socket.
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
        let Ownership::Ours { daemon: Some(pid) } = host.ownership else { return None };
        host.latest().processes.get(&pid)
    }

    /// Returns the `journalctl` arguments that select the runtime's units.
    pub fn runtime_units(&self) -> &'static str {
        match self.family() {
            DaemonFamily::Containerd => "-u containerd",
            DaemonFamily::Crio => "-u crio",
            DaemonFamily::Other => "-u containerd -u crio",
        }
    }

    /// Returns the command that saves the runtime's goroutine stacks.
    pub fn save_stacks(&self) -> Option<String> {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        match self.family() {
            DaemonFamily::Containerd => {
                let pid =
                    daemon.map_or_else(|| "$(pidof containerd)".to_owned(), |daemon| daemon.pid.to_string());
                Some(format!(
                    "kill -USR1 {pid}   # stacks into /tmp/containerd.*.stacks.log; twice, 60 s apart"
                ))
            }
            DaemonFamily::Crio => {
                let socket = self.socket.as_deref().unwrap_or_else(|| Path::new("/run/crio/crio.sock"));
                Some(format!(
                    "curl -s --unix-socket {} http://localhost/debug/goroutines > crio-1.txt   # again after 60 s",
                    socket.display()
                ))
            }
            DaemonFamily::Other => None,
        }
    }
}

impl DaemonFamily {
    /// Returns the name of the process that watches one container.
    pub const fn monitor(self) -> &'static str {
        match self {
            Self::Containerd => "shim",
            Self::Crio => "conmon",
            Self::Other => "shim or conmon",
        }
    }
}

/// Returns the `crictl` command that repeats a status call. The time-out is explicit: `crictl` gives up after
/// 2 s by default, which proves nothing.
pub fn ask_again(rpc: Rpc, id: &str) -> String {
    let verb = if rpc == Rpc::PodSandboxStatus { "inspectp" } else { "inspect" };
    format!("crictl --timeout 20s {verb} {}   # this hangs too", short(id))
}

/// Returns the commands for a status call that gets no answer: what to look at first, and the last resort.
pub fn for_culprit(evidence: &Evidence, rpc: Rpc, id: &str) -> Vec<String> {
    let holders = holders::holders(evidence, id);
    let family = evidence.family();
    let mut lines = vec![ask_again(rpc, id)];
    lines.push(look_at(&holders, family, id));
    let pod = evidence.names.pod(id).filter(|pod| !pod.name.is_empty());
    let delete = pod.map_or_else(
        || "delete its pod".to_owned(),
        |pod| format!("kubectl -n {} delete pod {}", pod.namespace, pod.name),
    );
    let kill = match (holders.shim, family) {
        (Some(shim), _) => format!("kill {}", shim.label()),
        (None, family) => format!("kill its {}", family.monitor()),
    };
    lines.push(format!("last resort, for this one pod only: {delete}, or {kill} (changes state)"));
    lines
}

fn look_at(holders: &Holders<'_>, family: DaemonFamily, id: &str) -> String {
    if let Some((process, task)) = holders.blocked.first() {
        let (pid, tid, comm) = (process.pid, task.tid, &process.comm);
        return format!("cat /proc/{pid}/task/{tid}/stack   # {comm} waits in the kernel");
    }
    if let Some(process) = holders.oci.first() {
        return format!("cat /proc/{}/stack   # {}, about this container", process.pid, process.comm);
    }
    match (holders.shim, family) {
        (Some(shim), _) if shim.is_stopped() => {
            format!(
                "find out who stopped {}; to continue it: kill -CONT {} (changes state)",
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
