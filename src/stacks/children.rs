//! Finds processes behind a wait: OCI runtimes by their command lines, and the conmon of a container.
//!
//! A container in a hanging `runc create` has no cgroup yet and is in no list. Only `/proc` shows it: the OCI runtime
//! has the container's id on its command line, its parent is the shim or the conmon, and a conmon has the pod's name
//! too.

use std::path::Path;

use crate::host::CriName;
use crate::host::proc::cgroup::container_id;
use crate::host::proc::{ProcessStat, Role, command_line, conmon_container};

/// The commands of an OCI runtime.
const VERBS: [&str; 10] =
    ["create", "start", "kill", "delete", "exec", "update", "state", "pause", "resume", "run"];

/// Whether the kernel's name of a process is an OCI runtime's. A process `runc:[2:INIT]` waits inside a container to
/// be started and is not a running OCI runtime.
pub fn is_oci_runtime(comm: &str) -> bool {
    Role::of(comm) == Role::OciRuntime && !comm.contains(':')
}

/// The state of a process in one word.
pub const fn state_words(state: char) -> &'static str {
    match state {
        'T' => "stopped",
        't' => "traced",
        'D' => "in the kernel",
        'Z' => "dead, not reaped",
        'R' => "running",
        _ => "sleeping",
    }
}

/// An OCI runtime that works on a container.
#[derive(Debug, PartialEq, Eq)]
pub struct OciProcess {
    pub pid: u32,
    pub parent: u32,
    pub comm: String,
    /// The state in one word: `sleeping`.
    pub state: &'static str,
    /// `create`
    pub verb: Option<String>,
    /// The container's id.
    pub id: Option<String>,
}

impl OciProcess {
    /// The process `pid`, if it is an OCI runtime.
    pub fn of(proc: &Path, pid: u32) -> Option<Self> {
        let dir = proc.join(pid.to_string());
        let stat = ProcessStat::read(&dir)?;
        if !is_oci_runtime(&stat.comm) {
            return None;
        }
        let command = command_line(&dir);
        // The id is the last argument that looks like an id, after paths and names.
        let id = command.iter().rev().find(|word| container_id(word) == Some(word)).cloned();
        let verb = command.iter().find(|word| VERBS.contains(&word.as_str())).cloned();
        Some(Self { pid, parent: stat.parent, state: state_words(stat.state), comm: stat.comm, verb, id })
    }

    /// `runc create (pid 812, sleeping)`
    pub fn words(&self) -> String {
        let verb = self.verb.as_ref().map_or_else(String::new, |verb| format!(" {verb}"));
        format!("{}{verb} (pid {}, {})", self.comm, self.pid, self.state)
    }
}

/// A conmon and its container.
#[derive(Debug, PartialEq, Eq)]
pub struct Conmon {
    pub pid: u32,
    pub id: String,
    /// The name that CRI-O gave to the container.
    pub name: Option<CriName>,
}

impl Conmon {
    /// The process `pid`, if its command line names a container.
    pub fn of(proc: &Path, pid: u32) -> Option<Self> {
        let command = command_line(&proc.join(pid.to_string()));
        let (id, name) = conmon_container(&command)?;
        Some(Self { pid, id: id.to_owned(), name })
    }
}
