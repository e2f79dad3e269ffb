//! [`WaitOwner`]: who or what keeps a task waiting in the kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Address, FilePath, FileSystem, Function, ProcessRef, Quoted};
use crate::report::rename::{Rename, ReplaceName, rename};

/// Who or what keeps a task waiting in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WaitOwner {
    /// A security agent, or the holder of a lock.
    Process {
        /// The process.
        process: OwnerProcess,
    },
    /// A file server, or a file system that a process serves.
    Mounted {
        /// What is mounted.
        source: Address,
        /// The kind of file system.
        file_system: FileSystem,
        /// The process that serves it.
        daemon: Option<OwnerProcess>,
    },
    /// A module of the kernel.
    Module {
        /// Its name.
        name: Function,
    },
    /// A frozen control group, or the place of a frozen file system.
    Frozen {
        /// Where it is.
        path: FilePath,
    },
    /// A disk.
    Disk {
        /// Its name.
        name: Quoted,
    },
}

/// A process that keeps a task waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerProcess {
    /// The process; its name is empty if it is not known.
    pub process: ProcessRef,
    /// Whether it is stopped.
    pub is_stopped: bool,
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

/// `falcon-sensor[4711]`, `10.1.2.3:/export (nfs4)`, `s3fs (fuse) of s3fs[812], which is stopped`.
impl fmt::Display for WaitOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { process } => process.fmt(f),
            Self::Mounted { source, file_system, daemon: None } => write!(f, "{source} ({file_system})"),
            Self::Mounted { source, file_system, daemon: Some(daemon) } => {
                write!(f, "{source} ({file_system}) of {daemon}")
            }
            Self::Module { name } => name.fmt(f),
            Self::Frozen { path } => path.fmt(f),
            Self::Disk { name } => name.fmt(f),
        }
    }
}

impl fmt::Display for OwnerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process.name.as_str() {
            "" => write!(f, "process {}", self.process.pid)?,
            _ => self.process.fmt(f)?,
        }
        f.write_str(if self.is_stopped { ", which is stopped" } else { "" })
    }
}

impl Rename for WaitOwner {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        match self {
            Self::Process { process } => process.rename(replace),
            Self::Mounted { source, file_system, daemon } => {
                source.rename(replace);
                file_system.rename(replace);
                daemon.rename(replace);
            }
            Self::Module { name } => name.rename(replace),
            Self::Frozen { path } => path.rename(replace),
            Self::Disk { name } => name.rename(replace),
        }
    }
}

rename! { OwnerProcess { process, is_stopped }; }
