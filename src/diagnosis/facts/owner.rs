//! [`WaitOwner`]: who or what keeps a task waiting in the kernel. `words.rs` has its kinds.

use super::values::values;
use super::{ProcessRef, WaitOwner};
use crate::diagnosis::proc::NodeMount;

values! {
    /// A process that keeps a task waiting; its name is empty if it is not known.
    #[serde(rename_all = "camelCase")]
    OwnerProcess {
        /// The process.
        process: ProcessRef,
        /// Whether it is stopped.
        is_stopped: bool,
    } => "{}{}",
        if process.name.is_empty() { format!("process {}", process.pid) } else { process.to_string() },
        if *is_stopped { ", which is stopped" } else { "" };
}

impl WaitOwner {
    /// Creates the owner of a simulated wait from its words in a scenario: `falcon-sensor[4711]`, `nvidia` or
    /// `10.1.2.3:/export (nfs4)`.
    pub fn simulated(words: &str) -> Self {
        let process = || {
            let (name, pid) = words.strip_suffix(']')?.rsplit_once('[')?;
            Some(ProcessRef { name: name.to_owned(), pid: pid.parse().ok()? })
        };
        if let Some(process) = process() {
            return Self::Process { process: OwnerProcess { process, is_stopped: false } };
        }
        match words.strip_suffix(')').and_then(|words| words.rsplit_once(" (")) {
            Some((source, kind)) => {
                Self::Mounted { source: source.into(), file_system: kind.into(), daemon: None }
            }
            None if words.starts_with('/') => Self::Frozen { path: words.into() },
            None => Self::Module { name: words.into() },
        }
    }

    /// Creates the owner of a wait for a mounted file system, with the process that serves it.
    pub fn of_mount(mount: &NodeMount, daemon: Option<OwnerProcess>) -> Self {
        Self::Mounted { source: (&mount.source).into(), file_system: (&mount.kind).into(), daemon }
    }

    /// Returns the process that keeps the task waiting.
    pub const fn process(&self) -> Option<&OwnerProcess> {
        match self {
            Self::Process { process } => Some(process),
            Self::Mounted { daemon, .. } => daemon.as_ref(),
            Self::Module { .. } | Self::Frozen { .. } | Self::Disk { .. } => None,
        }
    }

    /// Whether a process of the node serves the file system.
    pub fn is_fuse(&self) -> bool {
        matches!(self, Self::Mounted { file_system, .. } if file_system.0.starts_with("fuse"))
    }

    /// Returns the name or address of the file server.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Mounted { source, .. } if !self.is_fuse() => Some(source.0.split_once(":/")?.0),
            _ => None,
        }
    }
}
