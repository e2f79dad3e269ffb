//! Reads from the command lines in `/proc` which container an OCI runtime (runc, crun) or a conmon works for.
//!
//! While `runc create` hangs, its container has no cgroup and is in no list of the runtime. Its id is only on the
//! command lines: of the OCI runtime, and of the conmon, which also has the pod's name.

use std::path::Path;

use plegctl_node::host::CriName;
use plegctl_node::host::proc::cgroup::container_id;
use plegctl_node::host::proc::{ProcessStat, Role, command_line, conmon_container, sub_command};

/// Returns whether the kernel's name of a process is that of an OCI runtime. A process `runc:[2:INIT]` is not one: it is
/// already inside the container and waits for its start.
pub fn is_oci_runtime(comm: &str) -> bool {
    Role::of(comm) == Role::OciRuntime && !comm.contains(':')
}

/// Returns a name for the state letter of `/proc/PID/stat`.
pub const fn state_name(state: char) -> &'static str {
    match state {
        'T' => "stopped",
        't' => "traced",
        'D' => "in the kernel",
        'Z' => "dead, not reaped",
        'R' => "running",
        _ => "sleeping",
    }
}

/// A running OCI runtime.
#[derive(Debug, PartialEq, Eq)]
pub struct OciProcess {
    pub pid: u32,
    pub parent: u32,
    pub comm: String,
    /// The state of the process: `sleeping`.
    pub state: &'static str,
    /// The sub-command: `create`.
    pub sub_command: Option<String>,
    /// The id of the container on which it works.
    pub id: Option<String>,
}

impl OciProcess {
    /// Reads the process `pid`, if it is an OCI runtime.
    pub fn of(proc: &Path, pid: u32) -> Option<Self> {
        let dir = proc.join(pid.to_string());
        let stat = ProcessStat::read(&dir)?;
        if !is_oci_runtime(&stat.comm) {
            return None;
        }
        let command = command_line(&dir);
        // Paths and names before the id may also look like ids, so the last argument that looks like an id counts.
        let id = command.iter().rev().find(|word| container_id(word) == Some(word)).cloned();
        let sub_command = sub_command(&command).map(str::to_owned);
        let state = state_name(stat.state);
        Some(Self { pid, parent: stat.parent, state, comm: stat.comm, sub_command, id })
    }

    /// Describes the process: `runc create (pid 812, sleeping)`.
    pub fn description(&self) -> String {
        let command = self.sub_command.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        format!("{}{command} (pid {}, {})", self.comm, self.pid, self.state)
    }
}

/// A running conmon and its container.
#[derive(Debug, PartialEq, Eq)]
pub struct Conmon {
    pub pid: u32,
    /// The container's id.
    pub id: String,
    /// The name that CRI-O gave to the container.
    pub name: Option<CriName>,
}

impl Conmon {
    /// Reads the process `pid`, if its command line names a container.
    pub fn of(proc: &Path, pid: u32) -> Option<Self> {
        let command = command_line(&proc.join(pid.to_string()));
        let (id, name) = conmon_container(&command)?;
        Some(Self { pid, id: id.to_owned(), name })
    }
}
