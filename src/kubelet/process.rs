//! The kubelet that runs on this node, as its process shows it.

use std::path::{Path, PathBuf};

use crate::host::{Arguments, HostRoot, KernelDir, ScalarsError, file_scalars, kernel_bytes, kernel_text};

/// A running kubelet: its process and its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletProcess {
    /// Process id, as seen in the process table that was read.
    pub pid: u32,
    arguments: Arguments,
}

impl KubeletProcess {
    /// The first process called `kubelet`. Its command line is read only if it is not in uninterruptible sleep: that
    /// read can hang with it.
    pub fn find(proc: &Path) -> Option<Self> {
        let mut pids = KernelDir::open(proc).ok()?.numbered();
        pids.sort_unstable();
        pids.into_iter().find_map(|pid| Self::read(&proc.join(pid.to_string()), pid))
    }

    fn read(directory: &Path, pid: u32) -> Option<Self> {
        let comm = kernel_bytes(&directory.join("comm")).ok()?;
        if comm.trim_ascii_end() != b"kubelet" {
            return None;
        }
        let stat = kernel_text(&directory.join("stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let arguments = if state == 'D' { Arguments::default() } else { command_line(directory) };
        Some(Self { pid, arguments })
    }

    /// The value of a flag; the last one, as the kubelet takes it.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.arguments.flag(name)
    }

    /// The file that `--config` names, below `host`.
    pub fn config_file(&self, host: &HostRoot) -> Option<PathBuf> {
        self.flag("config").map(|path| host.path(path))
    }

    /// A setting: the flag if it is given, else the key of the configuration file.
    pub fn setting(&self, flag: &str, key: &str, host: &HostRoot) -> Result<Option<Setting>, ScalarsError> {
        if let Some(value) = self.flag(flag) {
            return Ok(Some(Setting { value: value.to_owned(), source: format!("the kubelet's --{flag}") }));
        }
        let Some(file) = self.config_file(host) else {
            return Ok(None);
        };
        let mut scalars = file_scalars(&file)?;
        let found = scalars.remove(key).filter(|value| !value.is_empty());
        Ok(found.map(|value| Setting { value, source: format!("{key} in {}", file.display()) }))
    }
}

/// A value that the kubelet was given, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: String,
    /// The flag or the file and key.
    pub source: String,
}

fn command_line(directory: &Path) -> Arguments {
    Arguments::of_kernel(&kernel_bytes(&directory.join("cmdline")).unwrap_or_default())
}
